//! Measures the nanoseconds per request of every workload generator:
//! `cargo run --release -p wearwell-replay --example generator_rate`.
//!
//! Printed is the wall time of one thread, best of five, over the given number of requests (default 4 million).

use std::hint::black_box;
use std::time::Instant;

use wearwell_replay::workload::permutation::Permutation;
use wearwell_replay::workload::{WorkloadGenerator, WorkloadSpec};
use wearwell_trace::{Op, Request};

/// Workload specifications whose generators are timed; several bring a content model after `+`.
const WORKLOAD_SPECS: [&str; 14] = [
    "sequential:pages=2000000",
    "uniform:pages=2000000",
    "uniform:pages=2000000,read=0.3,trim=0.05",
    "uniform:pages=2000000,size=1:0.5/4:0.3/16:0.2,partial=0.2",
    "uniform:pages=2000000,rate=50000,arrival=poisson",
    "zipf:pages=2000000,theta=0.9,scramble=no",
    "zipf:pages=2000000,theta=0.9",
    "zipf:pages=2000000,theta=1",
    "zipf:pages=2000000,theta=1.2",
    "hotcold:pages=2000000",
    "uniform:pages=2000000+unique:compress=0.5",
    "uniform:pages=2000000+dup:share=0.2,compress=0.5",
    "uniform:pages=2000000+zipf:a=0.2",
    "uniform:pages=2000000+dup:share=0.2,compress=0.5,delta=0.35,silent=0.05",
];

fn main() {
    let requests = std::env::args().nth(1).map_or(4_000_000, |n| n.parse().expect("a number of requests"));
    for text in WORKLOAD_SPECS {
        let mut spec: WorkloadSpec = text.parse().expect("a valid spec");
        spec.requests = requests;
        println!(
            "{:7.2} ns  {text}",
            min_ns_per_item_of_five_runs(requests, || generate_all_requests(&spec))
        );
    }
    for n in [1 << 21, (1 << 21) + 1, 3_000_000, 1 << 29] {
        let permutation = Permutation::new(n, 1);
        let nanoseconds = min_ns_per_item_of_five_runs(requests, || permute(&permutation, requests));
        println!("{nanoseconds:7.2} ns  permutation of {n}");
    }
}

/// Calls `work` five times, and returns the least wall time in nanoseconds divided by `count`.
fn min_ns_per_item_of_five_runs(count: u64, mut work: impl FnMut() -> u64) -> f64 {
    let once = |_| {
        let start = Instant::now();
        black_box(work());
        start.elapsed().as_secs_f64() * 1e9 / count as f64
    };
    (0..5).map(once).fold(f64::INFINITY, f64::min)
}

/// Generates all requests of a workload, and returns a sum over them so that no work is optimized away.
fn generate_all_requests(spec: &WorkloadSpec) -> u64 {
    let mut generator = WorkloadGenerator::new(spec);
    let mut request = Request {
        time_ns: 0,
        op: Op::Flush,
        device: 0,
        offset_bytes: 0,
        len_bytes: 0,
        remap_source_offset_bytes: 0,
        content: Vec::new(),
        payload: Vec::new(),
    };
    let mut sum = 0_u64;
    while generator.next_request(&mut request) {
        sum = sum.wrapping_add(request.offset_bytes ^ request.time_ns);
    }
    sum
}

/// Permutes `count` successive numbers, and returns the sum of the results so that no work is optimized away.
fn permute(permutation: &Permutation, count: u64) -> u64 {
    let mut sum = 0_u64;
    let mut at = 0;
    for _ in 0..count {
        sum = sum.wrapping_add(permutation.apply(at));
        at = if at + 1 == permutation.domain_size() { 0 } else { at + 1 };
    }
    sum
}
