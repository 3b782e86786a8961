//! Tests of generators, of the address permutation and of content models against the probabilities that they promise.
//!
//! Statistical bounds are 4 standard deviations of the statistic at the sample size used. Seeds are fixed, so that a
//! test that passes always passes. A draw that is wrong by more than the bound fails.

use std::collections::HashSet;

use proptest::prelude::*;
use rand::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;
use wearwell::address::RemapMode;
use wearwell::data::{ContentDescriptor, Fingerprint};
use wearwell_replay::content_model::{self, ContentModel, ContentSource, SizeRatioDistribution};
use wearwell_replay::input::Input;
use wearwell_replay::theory;
use wearwell_replay::workload::draw::{Zipf, uniform_below};
use wearwell_replay::workload::permutation::Permutation;
use wearwell_replay::workload::{
    AccessPattern, ArrivalProcess, PAGE_BYTES, RequestSize, SpecError, WorkloadGenerator, WorkloadSpec, Zone,
};
use wearwell_trace::{Op, Request};

/// Returns all requests of the workload that the text specifies.
fn requests_of_text(text: &str) -> Vec<Request> {
    requests_of(&text.parse().expect(text))
}

/// Returns all requests of a workload.
fn requests_of(spec: &WorkloadSpec) -> Vec<Request> {
    let mut generator = WorkloadGenerator::new(spec);
    let mut request = Request {
        time_ns: 0,
        op: Op::Flush,
        device: 7,
        offset_bytes: 0,
        len_bytes: 0,
        remap_source_offset_bytes: 5,
        content: Vec::new(),
        payload: vec![1],
    };
    let mut all = Vec::new();
    while generator.next_request(&mut request) {
        all.push(request.clone());
    }
    all
}

/// Returns the first page of each request.
fn first_pages(requests: &[Request]) -> Vec<u64> {
    requests.iter().map(|request| request.offset_bytes / PAGE_BYTES).collect()
}

/// Checks that an event with `hits` occurrences in `trials` has probability `p`, within 4 standard deviations of the
/// binomial distribution.
fn assert_share(hits: usize, trials: usize, p: f64, what: &str) {
    let (n, mean) = (trials as f64, trials as f64 * p);
    let bound = 4.0 * (n * p * (1.0 - p)).sqrt() + 1e-9;
    assert!(
        (hits as f64 - mean).abs() <= bound,
        "{what}: {hits} of {trials}, expected {mean:.1} +- {bound:.1}"
    );
}

/// Checks that Pearson's chi-square statistic of k counts is within 4 standard deviations of its mean k-1 (its variance
/// is 2(k-1)).
fn assert_chi_square(counts: &[usize], probabilities: &[f64], what: &str) {
    let total = counts.iter().sum::<usize>() as f64;
    let term = |(count, p): (&usize, &f64)| (*count as f64 - total * p).powi(2) / (total * p);
    let statistic: f64 = counts.iter().zip(probabilities).map(term).sum();
    let freedom = counts.len() as f64 - 1.0;
    assert!(
        (statistic - freedom).abs() <= 4.0 * (2.0 * freedom).sqrt(),
        "{what}: chi2 {statistic} for {freedom}"
    );
}

/// Returns how often each value from 0 to `bins - 1` occurs.
fn histogram(values: impl IntoIterator<Item = u64>, bins: usize) -> Vec<usize> {
    let mut counts = vec![0; bins];
    values.into_iter().for_each(|value| counts[value as usize] += 1);
    counts
}

/// Returns the probability of each of `n` ranks under a Zipf law.
fn zipf_probabilities(n: u64, theta: f64) -> Vec<f64> {
    let weights: Vec<f64> = (1..=n).map(|k| (k as f64).powf(-theta)).collect();
    let total: f64 = weights.iter().sum();
    weights.iter().map(|weight| weight / total).collect()
}

// ---- permutation

#[test]
fn the_address_permutation_of_workloads_is_a_bijection() {
    let sizes = (1..300).chain([1 << 10, (1 << 10) + 1, 4095, 65_537, 100_003, (1 << 18) - 1]);
    for n in sizes {
        let permutation = Permutation::new(n, n ^ 5);
        let mut seen = vec![false; n as usize];
        for i in 0..n {
            let image = permutation.apply(i);
            assert!(!std::mem::replace(&mut seen[image as usize], true), "n {n}: {image} hit twice");
            assert_eq!(permutation.invert(image), i, "n {n}");
        }
    }
}

#[test]
fn the_address_permutation_of_workloads_scatters_neighbours_uniformly() {
    // The images of neighbouring numbers, and the distances between them, are uniform over the domain.
    let bins = 64;
    for (n, seed) in [(1_u64 << 24, 1), ((1 << 24) + 1, 2), (20_000_003, 3), (1 << 32, 4), (3_000_000_000, 5)]
    {
        let permutation = Permutation::new(n, seed);
        let images: Vec<u64> = (0..65_536).map(|i| permutation.apply(i)).collect();
        let bin = |value: u64| (u128::from(value) * bins as u128 / u128::from(n)) as u64;
        let uniform = vec![1.0 / bins as f64; bins];
        let places = images.iter().map(|image| bin(*image));
        assert_chi_square(&histogram(places, bins), &uniform, &format!("places, n {n}"));
        let low_bits = images.iter().map(|image| image % bins as u64);
        assert_chi_square(&histogram(low_bits, bins), &uniform, &format!("low bits, n {n}"));
        for stride in [1, 2, 256, 4096] {
            let distances = images.iter().zip(&images[stride..]).map(|(a, b)| bin((b + n - a) % n));
            assert_chi_square(&histogram(distances, bins), &uniform, &format!("distances {stride}, n {n}"));
        }
    }
}

#[test]
fn address_permutations_of_different_seeds_differ() {
    let [one, two] = [1, 2].map(|seed| Permutation::new(1_000_000, seed));
    let equal = (0..1_000_000).filter(|i| one.apply(*i) == two.apply(*i)).count();
    // The number of equal images of two random permutations is Poisson distributed with mean 1.
    assert!(equal <= 5, "{equal} places agree");
}

proptest! {
    #[test]
    fn the_address_permutation_of_workloads_can_be_inverted_at_any_size(n in 1_u64..1 << 48, at in any::<u64>(), seed in any::<u64>()) {
        let permutation = Permutation::new(n, seed);
        let image = permutation.apply(at % n);
        prop_assert!(image < n);
        prop_assert_eq!(permutation.invert(image), at % n);
    }
}

// ---- draws

#[test]
fn zipf_draws_match_exact_probabilities() {
    let draws = 400_000;
    for theta in [0.0, 0.2, 0.5, 0.9, 0.99, 0.999_999_9, 1.0, 1.000_01, 1.2, 2.0] {
        for n in [1, 2, 3, 10, 100] {
            let zipf = Zipf::new(n, theta);
            let mut rng = Xoshiro256PlusPlus::seed_from_u64(n);
            let counts = histogram((0..draws).map(|_| zipf.draw(&mut rng) - 1), n as usize);
            let exact = zipf_probabilities(n, theta);
            for (rank, (count, p)) in counts.iter().zip(&exact).enumerate().take(3) {
                assert_share(*count, draws, *p, &format!("theta {theta} n {n} rank {}", rank + 1));
            }
            if n > 1 {
                assert_chi_square(&counts, &exact, &format!("theta {theta} n {n}"));
            }
        }
    }
}

#[test]
fn zipf_draws_over_many_ranks_match_the_law_at_head_and_body() {
    let (n, draws) = (1_000_000, 1_000_000);
    for theta in [0.2, 0.9, 1.0, 1.2] {
        let exact = zipf_probabilities(n, theta);
        let zipf = Zipf::new(n, theta);
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(9);
        let mut ranks: Vec<u64> = (0..draws).map(|_| zipf.draw(&mut rng)).collect();
        ranks.sort_unstable();
        for head in [1, 10, 1000, 100_000, 500_000] {
            let hits = ranks.partition_point(|rank| *rank <= head);
            let p: f64 = exact[..head as usize].iter().sum();
            assert_share(hits, draws, p, &format!("theta {theta}, first {head}"));
        }
    }
}

#[test]
fn random_draws_are_the_same_on_every_machine() {
    // Golden values: if they change, every seed gives other requests than before.
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(1);
    let uniform: Vec<u64> = (0..4).map(|_| uniform_below(&mut rng, 1000)).collect();
    let zipf = Zipf::new(1_000_000, 0.9);
    let ranks: Vec<u64> = (0..4).map(|_| zipf.draw(&mut rng)).collect();
    let permutation = Permutation::new(1_000_000, 1);
    let images: Vec<u64> = (0..4).map(|i| permutation.apply(i)).collect();
    assert_eq!(
        (uniform, ranks, images),
        (GOLDEN_UNIFORM.into(), GOLDEN_ZIPF_RANKS.into(), GOLDEN_PERMUTED_NUMBERS.into())
    );
}

/// Four uniform draws below 1000 with seed 1, in this order on every machine.
const GOLDEN_UNIFORM: [u64; 4] = [811, 747, 100, 746];
/// Four Zipf ranks that the generator must draw on every machine, after it has drawn the golden uniform numbers.
const GOLDEN_ZIPF_RANKS: [u64; 4] = [218_720, 2494, 1, 6082];
/// Numbers to which the permutation of seed 1 maps 0 to 3, equal on every machine.
const GOLDEN_PERMUTED_NUMBERS: [u64; 4] = [225_030, 157_932, 422_925, 258_644];

// ---- generators

#[test]
fn the_sequential_workload_covers_every_page_once_per_round() {
    let all = requests_of_text("sequential:pages=10,size=4,requests=6");
    let ranges: Vec<_> =
        all.iter().map(|r| (r.offset_bytes / PAGE_BYTES, r.len_bytes / PAGE_BYTES)).collect();
    assert_eq!(ranges, [(0, 4), (4, 4), (8, 2), (0, 4), (4, 4), (8, 2)]);
}

#[test]
fn the_uniform_workload_is_uniform() {
    let counts = histogram(first_pages(&requests_of_text("uniform:pages=100,requests=200000")), 100);
    assert_chi_square(&counts, &[0.01; 100], "uniform pages");
}

#[test]
fn scrambled_and_unscrambled_zipf_workloads_have_the_same_popularity() {
    let n = 50;
    let exact = zipf_probabilities(n, 0.9);
    let in_order =
        histogram(first_pages(&requests_of_text("zipf:theta=0.9,scramble=no,pages=50,requests=200000")), 50);
    assert_chi_square(&in_order, &exact, "in order");
    let mut scattered =
        histogram(first_pages(&requests_of_text("zipf:theta=0.9,pages=50,requests=200000")), 50);
    assert_ne!(scattered, in_order, "scrambling moves pages");
    scattered.sort_unstable();
    let mut sorted = in_order;
    sorted.sort_unstable();
    assert_eq!(scattered, sorted, "the same draws on other pages");
}

#[test]
fn hot_and_cold_zones_get_their_shares_of_accesses() {
    let all = first_pages(&requests_of_text("hotcold:zones=0.1:0.6/0.2:0.3,pages=1000,requests=100000"));
    let within = |range: std::ops::Range<u64>| all.iter().filter(|page| range.contains(page)).count();
    assert_share(within(0..100), all.len(), 0.6, "hottest");
    assert_share(within(100..300), all.len(), 0.3, "warm");
    assert_share(within(300..1000), all.len(), 0.1, "cold");
    let hottest = histogram(all.iter().copied().filter(|page| *page < 100), 100);
    assert_chi_square(&hottest, &[0.01; 100], "uniform within a zone");
}

#[test]
fn operations_and_request_sizes_have_their_specified_shares() {
    let all =
        requests_of_text("uniform:read=0.3,trim=0.05,size=1:0.5/4:0.3/16:0.2,pages=1000,requests=100000");
    let count = |wanted: &dyn Fn(&Request) -> bool| all.iter().filter(|request| wanted(request)).count();
    for (op, share) in [(Op::Read, 0.3), (Op::Trim, 0.05), (Op::Write, 0.65)] {
        assert_share(count(&|request| request.op == op), all.len(), share, &format!("{op:?}"));
    }
    for (pages, share) in [(1, 0.5), (4, 0.3), (16, 0.2)] {
        let hits = count(&|request| request.len_bytes == pages * PAGE_BYTES);
        assert_share(hits, all.len(), share, &format!("{pages} pages"));
    }
}

#[test]
fn a_workload_of_only_writes_reads_or_trims_has_no_other_operation() {
    for (text, op) in [("write=1", Op::Write), ("read=1", Op::Read), ("trim=1", Op::Trim)] {
        let all = requests_of_text(&format!("uniform:{text},requests=10000"));
        assert!(all.iter().all(|request| request.op == op), "{text}");
    }
}

#[test]
fn requests_stay_inside_the_working_set() {
    let common = "pages=20,size=1/7/20,partial=0.5,read=0.2,trim=0.2,requests=20000,dup=0.3";
    for generator in ["sequential", "uniform", "zipf", "hotcold"] {
        for request in requests_of_text(&format!("{generator}:{common}")) {
            let end = request.offset_bytes + request.len_bytes;
            assert!(request.len_bytes > 0 && end <= 20 * PAGE_BYTES, "{generator}: {request:?}");
            assert_eq!((request.device, request.payload.len()), (0, 0), "stale fields are reset");
            let touched = end.div_ceil(PAGE_BYTES) - request.offset_bytes / PAGE_BYTES;
            let expected = if request.op == Op::Write { touched } else { 0 };
            assert_eq!(request.content.len() as u64, expected, "one descriptor per touched page of a write");
        }
    }
}

/// A workload whose requests are longer than its working set is refused, also if its specification was built in code
/// instead of parsed.
#[test]
#[should_panic(expected = "fit the working set of 4 pages")]
fn a_workload_spec_built_in_code_is_checked() {
    WorkloadGenerator::new(&WorkloadSpec {
        request_size: RequestSize::FixedPages(5),
        ..WorkloadSpec::new(AccessPattern::Uniform, 4, 1)
    });
}

#[test]
fn partial_requests_are_never_whole_pages() {
    let whole = |request: &Request| (request.offset_bytes | request.len_bytes).is_multiple_of(PAGE_BYTES);
    for size in [1, 3] {
        let all = requests_of_text(&format!("uniform:partial=1,pages=1000,size={size},requests=50000"));
        assert!(!all.iter().any(whole));
        assert!(all.iter().all(|request| request.offset_bytes % 512 == 0 && request.len_bytes % 512 == 0));
    }
    let some = requests_of_text("uniform:partial=0.25,pages=1000,size=2,requests=50000");
    assert_share(some.len() - some.iter().filter(|r| whole(r)).count(), some.len(), 0.25, "partial");
}

#[test]
fn untimed_and_fixed_arrivals_have_the_specified_times() {
    assert!(requests_of_text("uniform:requests=100").iter().all(|request| request.time_ns == 0));
    let times: Vec<u64> =
        requests_of_text("uniform:rate=8000,requests=4").iter().map(|r| r.time_ns).collect();
    assert_eq!(times, [0, 125_000, 250_000, 375_000]);
}

#[test]
fn poisson_arrivals_have_exponential_gaps() {
    let n = 100_000;
    let all = requests_of_text(&format!("uniform:rate=50000,arrival=poisson,requests={n}"));
    let gaps: Vec<f64> = all.windows(2).map(|w| (w[1].time_ns - w[0].time_ns) as f64 / 20_000.0).collect();
    let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
    assert!((mean - 1.0).abs() < 4.0 / (n as f64).sqrt(), "mean gap {mean}");
    let long = gaps.iter().filter(|gap| **gap > 1.0).count();
    assert_share(long, gaps.len(), (-1f64).exp(), "gaps above the mean");
}

#[test]
fn bursty_arrivals_pause_between_bursts_and_keep_the_average_rate() {
    let n = 200_000;
    let all = requests_of_text(&format!("uniform:arrival=bursty,rate=10000,on_ms=10,off_ms=30,requests={n}"));
    assert!(
        all.iter().all(|request| request.time_ns % 40_000_000 < 10_000_000),
        "nothing arrives in the silence"
    );
    assert!(all.windows(2).all(|w| w[0].time_ns <= w[1].time_ns));
    // n exponential gaps have a relative deviation of 1/sqrt(n); the last period may be cut: 40 ms of 20 s.
    let seconds = all[n - 1].time_ns as f64 / 1e9;
    assert!((seconds / 20.0 - 1.0).abs() < 4.0 / (n as f64).sqrt() + 0.04 / 20.0, "{seconds} s");
}

#[test]
fn equal_seeds_give_equal_requests_and_random_streams_are_independent() {
    let text = "zipf:theta=0.9,read=0.3,trim=0.05,size=1/4,pages=5000,requests=5000,rate=1000,arrival=poisson,seed=3";
    let one = requests_of_text(&format!("{text}+dup:share=0.2,compress=0.5"));
    assert_eq!(one, requests_of_text(&format!("{text}+dup:share=0.2,compress=0.5")));
    let other_seed = requests_of_text(&text.replace("seed=3", "seed=4"));
    assert_ne!(first_pages(&one), first_pages(&other_seed));
    let slower = requests_of_text(&text.replace("rate=1000,arrival=poisson", "rate=7"));
    assert_eq!(first_pages(&one), first_pages(&slower), "arrival and content draw from streams of their own");
    assert!(one.iter().zip(&slower).all(|(a, b)| a.op == b.op && a.len_bytes == b.len_bytes));
}

// ---- spec strings

#[test]
fn a_printed_workload_spec_parses_to_the_same_spec() {
    for text in [
        "sequential",
        "uniform:write=1.0,pages=2000000",
        "zipf:theta=0.9,read=0.3,pages=100000,requests=1000000,trim=0.05,size=4,rate=50000,arrival=poisson,dup=0.2",
        "zipf:scramble=no,size=1:0.7/8:0.3,partial=0.1",
        "hotcold:zones=0.1:0.6/0.2:0.3,scramble=yes,write=0.7,seed=99",
        "uniform:arrival=bursty,rate=5000.5,on_ms=1,off_ms=2.5",
        "uniform:pages=64+zipf:a=0.2,contents=900000,compress=0.5,delta=0.35,delta_sigma=0.1,chunk=4,silent=0.02",
        "uniform+unique",
        "uniform+same:compress=0.1,compress_sigma=0",
    ] {
        let spec: WorkloadSpec = text.parse().expect(text);
        let printed = spec.to_string();
        assert_eq!(printed.parse::<WorkloadSpec>().as_ref(), Ok(&spec), "{text} printed as {printed}");
        assert_eq!(requests_of(&WorkloadSpec { requests: 100, ..spec.clone() }).len(), 100, "{text}");
    }
}

#[test]
fn a_parsed_workload_spec_has_the_written_values() {
    let spec: WorkloadSpec =
        "zipf:theta=0.9,read=0.3,trim=0.05,size=4,rate=50000,arrival=poisson,dup=0.2".parse().unwrap();
    let expected = WorkloadSpec {
        read_share: 0.3,
        trim_share: 0.05,
        request_size: RequestSize::FixedPages(4),
        arrival: ArrivalProcess::Poisson { requests_per_s: 50_000.0 },
        content: Some(content_model::ContentModelSpec::with_duplicate_share(0.2)),
        ..WorkloadSpec::new(AccessPattern::Zipf { theta: 0.9, is_scrambled: true }, 262_144, 1_000_000)
    };
    assert_eq!(spec, expected);
    assert!((spec.write_share() - 0.65).abs() < 1e-15);
    let only_write: WorkloadSpec = "uniform:write=0.7".parse().unwrap();
    assert!((only_write.read_share - 0.3).abs() < 1e-15, "what is neither written nor trimmed is read");
    let zones: WorkloadSpec = "hotcold".parse().unwrap();
    let default = vec![Zone { page_share: 0.2, access_share: 0.8 }];
    assert_eq!(zones.pattern, AccessPattern::HotCold { zones: default, is_scrambled: false });
}

#[test]
fn misspelt_workload_names_are_refused_and_the_nearest_name_is_suggested() {
    let error = |text: &str| text.parse::<WorkloadSpec>().unwrap_err().to_string();
    let kind = error("unifrom:pages=3");
    assert!(
        kind.contains("did you mean `uniform`") && kind.contains("sequential, uniform, zipf, hotcold"),
        "{kind}"
    );
    let key = error("zipf:tehta=0.9");
    assert!(key.contains("did you mean `theta`") && key.contains("scramble"), "{key}");
    let foreign = error("uniform:theta=0.9");
    // Bug: for a key without any similar one, an arbitrary key was suggested.
    assert!(foreign.contains("`uniform` has no key `theta`. Valid: pages, "), "{foreign}");
    let content = error("uniform+dub:share=0.1");
    assert!(content.contains("no content model `dub`; did you mean `dup`"), "{content}");
    let content_key = error("uniform+dup:compres=0.1");
    assert!(content_key.contains("did you mean `compress`"), "{content_key}");
}

#[test]
fn workload_values_out_of_range_are_refused_with_the_bound() {
    for (text, bound) in [
        (
            "zipf:theta=2.5",
            "`theta=2.5` in the specification is out of range, so choose another value: the value must be from 0 to 2",
        ),
        ("uniform:pages=0", "the value must be from 1 to 4294967295"),
        ("uniform:read=1.5", "the value must be from 0 to 1"),
        ("uniform:read=NaN", "the value must be from 0 to 1"),
        ("uniform:size=0", "the value must be from 1 to 65536"),
        ("uniform:pages=8,size=9", "the value must be from 1 to 8"),
        ("uniform:rate=0", "the value must be from 0.001 to"),
        ("hotcold:zones=0.6:0.1/0.6:0.1", "must each sum to at most 1"),
        ("hotcold:zones=1:0.5", "zones that have accesses need space"),
        ("uniform+dup:share=2", "the value must be from 0 to 1"),
        ("uniform+unique:compress=0", "the value must be from 0.01 to 1"),
        ("uniform+zipf:contents=0", "the value must be from 1 to"),
    ] {
        let error = text.parse::<WorkloadSpec>().expect_err(text);
        assert!(
            matches!(error, SpecError::OutOfRange { .. }) && error.to_string().contains(bound),
            "{text}: {error}"
        );
    }
}

#[test]
fn contradicting_workload_keys_are_refused() {
    for text in [
        "uniform:write=0.5,read=0.2",
        "uniform:read=0.8,trim=0.3",
        "uniform:write=0.9,trim=0.3",
        "uniform:arrival=poisson",
        "uniform:arrival=untimed,rate=5",
        "uniform:rate=5,on_ms=3",
        "uniform:dup=0.2+unique",
        "uniform+unique:compress_sigma=0.1",
    ] {
        assert!(matches!(text.parse::<WorkloadSpec>(), Err(SpecError::ConflictingKeys(_))), "{text}");
    }
    assert!(matches!("uniform:pages".parse::<WorkloadSpec>(), Err(SpecError::NotAPair(_))));
    assert!(matches!("uniform:seed=1,seed=2".parse::<WorkloadSpec>(), Err(SpecError::RepeatedKey(_))));
    for text in [
        "uniform:pages=many",
        "uniform:arrival=sometimes",
        "uniform:arrival=closed",
        "zipf:scramble=maybe",
        "uniform:size=1.5",
    ] {
        assert!(matches!(text.parse::<WorkloadSpec>(), Err(SpecError::BadValue { .. })), "{text}");
    }
}

#[test]
fn workload_help_names_every_key() {
    let help = wearwell_replay::workload::WORKLOAD_GRAMMAR.help_text()
        + &content_model::CONTENT_MODEL_GRAMMAR.help_text();
    for name in [
        "sequential",
        "hotcold",
        "zones",
        "theta",
        "off_ms",
        "partial",
        "unique",
        "contents",
        "chunk",
        "silent",
    ] {
        assert!(help.split_whitespace().any(|word| word == name), "{name} is missing in\n{help}");
    }
}

// ---- content

/// Creates the content model that the text specifies.
fn content_model(text: &str) -> ContentModel {
    ContentModel::new(&text.parse().expect(text), 5)
}

/// Draws the content of a write to `page` from the model.
fn write_page(model: &mut ContentModel, page: u64) -> ContentDescriptor {
    let mut one = Vec::new();
    model.draw_written_contents(page..page + 1, &mut one);
    one[0]
}

/// Returns the contents of one write to each of `pages` pages.
fn contents_of_pages(text: &str, pages: u64) -> Vec<ContentDescriptor> {
    let mut all = Vec::new();
    content_model(text).draw_written_contents(0..pages, &mut all);
    all
}

/// Returns the number of different fingerprints.
fn distinct_contents(descriptors: &[ContentDescriptor]) -> usize {
    descriptors.iter().map(|d| d.fingerprint).collect::<HashSet<_>>().len()
}

#[test]
fn unique_content_never_repeats_and_same_content_always_does() {
    assert_eq!(distinct_contents(&contents_of_pages("unique", 300_000)), 300_000);
    assert_eq!(distinct_contents(&contents_of_pages("unique:chunk=8", 300_000)), 300_000);
    let same = contents_of_pages("same", 1000);
    assert_eq!(distinct_contents(&same), 1);
    assert_ne!(same[0].fingerprint, Fingerprint::ZERO_PAGE);
    assert_eq!(
        same[0],
        ContentDescriptor::of_fingerprint(same[0].fingerprint),
        "sizes are unknown unless asked for"
    );
}

#[test]
fn duplicate_writes_repeat_earlier_content_at_the_specified_share() {
    let all = contents_of_pages("dup:share=0.2,theta=0.9,pool=1000", 200_000);
    let mut seen = HashSet::new();
    let repeats = all.iter().filter(|d| !seen.insert(d.fingerprint)).count();
    // The first write cannot repeat an earlier content.
    assert_share(repeats, all.len() - 1, 0.2, "duplicates");
}

#[test]
fn duplicate_writes_follow_the_popularity_of_the_content_pool() {
    let pool = 64;
    let mut model = content_model("dup:share=0.5,theta=0.9,pool=64");
    let mut oldest = Vec::new();
    while oldest.len() < pool {
        let new = write_page(&mut model, 0).fingerprint;
        if !oldest.contains(&new) {
            oldest.push(new);
        }
    }
    let later: Vec<_> = (0..200_000).map(|_| write_page(&mut model, 0).fingerprint).collect();
    let ranks = later.iter().filter_map(|f| oldest.iter().position(|old| old == f)).map(|rank| rank as u64);
    assert_chi_square(&histogram(ranks, pool), &zipf_probabilities(pool as u64, 0.9), "ranks of the pool");
}

#[test]
fn zipf_content_draws_new_contents_as_often_as_the_closed_form_says() {
    // The result depends on N / M only: M live pages, N = 0.9 M or 0.7 M contents, uniform overwrites of a plain
    // array.
    let pages = 50_000;
    for share in [0.9, 0.7] {
        let mut model = content_model(&format!("zipf:a=0.2,contents={}", share * pages as f64));
        let (miss, distinct) = simulate_sharing(&mut model, pages, 20 * pages);
        let theory = theory::zipf_dedup_steady_state(0.2, share);
        // Sum and integral differ by O(N^-(1-a)), here less than 2e-4. The rest is sampling error: misses are 10^6
        // events of p = 0.3 with a standard deviation of 4.6e-4, and the number of distinct contents on 50,000 pages
        // has one of less than sqrt(M)/2 / M = 2.2e-3.
        assert!(
            (miss - theory.dedup_miss_probability).abs() < 4.0 * 4.6e-4 + 2e-4,
            "miss {miss} against {}",
            theory.dedup_miss_probability
        );
        assert!(
            (distinct - theory.distinct_contents_per_page).abs() < 4.0 * 2.2e-3,
            "distinct {distinct} against {}",
            theory.distinct_contents_per_page
        );
    }
}

/// Simulates deduplication with contents of `model`. Returns the share of overwrites whose content no page holds, and
/// the number of distinct contents per page at the end.
fn simulate_sharing(model: &mut ContentModel, pages: u64, overwrites: u64) -> (f64, f64) {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(8);
    let mut references = std::collections::HashMap::new();
    let mut holds: Vec<_> = (0..pages).map(|page| write_page(model, page).fingerprint).collect();
    for content in &holds {
        *references.entry(*content).or_insert(0_u32) += 1;
    }
    let mut misses = 0;
    for _ in 0..overwrites {
        let page = uniform_below(&mut rng, pages);
        let new = write_page(model, page).fingerprint;
        misses += u64::from(!references.contains_key(&new));
        *references.entry(new).or_insert(0) += 1;
        let old = std::mem::replace(&mut holds[page as usize], new);
        let left = references.get_mut(&old).unwrap();
        *left -= 1;
        if *left == 0 {
            references.remove(&old);
        }
    }
    (misses as f64 / overwrites as f64, references.len() as f64 / pages as f64)
}

#[test]
fn compressed_sizes_are_gaussian_and_equal_for_equal_fingerprints() {
    let all = contents_of_pages("dup:share=0.3,pool=5000,compress=0.5", 200_000);
    let sizes: Vec<f64> = all.iter().map(|d| f64::from(d.compressed_bytes) / PAGE_BYTES as f64).collect();
    let by_content: std::collections::HashMap<_, _> =
        all.iter().map(|d| (d.fingerprint, d.compressed_bytes)).collect();
    assert!(
        all.iter().all(|d| by_content[&d.fingerprint] == d.compressed_bytes),
        "equal content, equal size"
    );
    let unique = contents_of_pages("unique:compress=0.5", 200_000);
    let (mean, sigma) =
        mean_and_deviation(unique.iter().map(|d| f64::from(d.compressed_bytes) / PAGE_BYTES as f64));
    let n = sizes.len() as f64;
    // The standard deviation is 0.125: the mean must be within 4 sigma/sqrt(n), the deviation within 4
    // sigma/sqrt(2n). Clipping at 4 sigma and the 4096 quantiles change both by less than 2e-4.
    assert!((mean - 0.5).abs() < 4.0 * 0.125 / n.sqrt() + 2e-4, "mean {mean}");
    assert!((sigma - 0.125).abs() < 4.0 * 0.125 / (2.0 * n).sqrt() + 2e-4, "sigma {sigma}");
}

/// Returns the mean and the standard deviation of the values.
fn mean_and_deviation(values: impl Iterator<Item = f64> + Clone) -> (f64, f64) {
    let n = values.clone().count() as f64;
    let mean = values.clone().sum::<f64>() / n;
    (mean, (values.map(|value| (value - mean).powi(2)).sum::<f64>() / n).sqrt())
}

#[test]
fn pages_of_a_content_chunk_have_equal_compressed_sizes() {
    let all = contents_of_pages("unique:compress=0.5,chunk=4", 4000);
    assert!(all.chunks(4).all(|chunk| chunk.iter().all(|d| d.compressed_bytes == chunk[0].compressed_bytes)));
    let chunks: HashSet<_> = all.chunks(4).map(|chunk| chunk[0].compressed_bytes).collect();
    assert!(chunks.len() > 500, "chunks differ: {} sizes", chunks.len());
    let pages = contents_of_pages("unique:compress=0.5", 4000);
    assert!(
        !pages.chunks(4).all(|chunk| chunk.iter().all(|d| d.compressed_bytes == chunk[0].compressed_bytes))
    );
}

#[test]
fn compressed_size_ratios_are_clipped() {
    let sizes = |text: &str| {
        contents_of_pages(text, 20_000).into_iter().map(|d| d.compressed_bytes).collect::<Vec<_>>()
    };
    let wide = sizes("unique:compress=0.5,compress_sigma=1");
    assert_eq!((wide.iter().min(), wide.iter().max()), (Some(&41), Some(&4096)), "1 % and 100 % of a page");
    assert!(sizes("unique:compress=0.25,compress_sigma=0").iter().all(|size| *size == 1024));
}

/// Returns the mean of the compressed sizes that a content model generates, as a share of the page.
fn generated_mean(text: &str) -> f64 {
    let sizes = contents_of_pages(text, 40_000).into_iter().map(|d| f64::from(d.compressed_bytes) / 4096.0);
    sizes.sum::<f64>() / 40_000.0
}

/// Bug: the help said that `compress` is the mean of the sizes, but clipping makes that mean another one.
#[test]
fn reports_state_the_mean_of_clipped_sizes_if_it_is_not_the_given_mean() {
    for text in
        ["compress=1", "compress=0.9", "compress=0.2,compress_sigma=0.3", "compress=0.5", "compress=0.3"]
    {
        let text = format!("unique:{text}");
        let spec: content_model::ContentModelSpec = text.parse().unwrap();
        let ratio = spec.compressed_size_ratio.unwrap();
        let (expected, generated) = (ratio.clipped_mean(), generated_mean(&text));
        assert!((expected - generated).abs() < 0.003, "{text}: {expected}, {generated}");
        let is_stated = content_model(&text).describe().contains("clipped to 1 to 100 %");
        assert_eq!(is_stated, (expected - ratio.mean).abs() > 0.01 * ratio.mean, "{text}");
    }
    assert!(
        content_model("unique:compress=1").describe().ends_with(
            "compressed to 100 % (sigma 25 % per page; clipped to 1 to 100 %, which makes the mean 90.03 %)"
        ),
        "{}",
        content_model("unique:compress=1").describe()
    );
}

#[test]
fn a_size_distribution_exists_for_every_mean_after_clipping() {
    for mean in [0.01, 0.02, 0.1, 0.2, 0.5, 0.8, 0.9173, 0.99, 1.0] {
        for sigma in [0.0, 0.05, 0.2, 0.3, 0.5] {
            let found = SizeRatioDistribution::of_clipped_mean(mean, sigma);
            assert!((found.clipped_mean() - mean).abs() < 1e-6, "{mean}, {sigma}: {found:?}");
            assert!((0.01..=1.0).contains(&found.mean) && found.sigma <= sigma, "{mean}, {sigma}: {found:?}");
        }
    }
}

#[test]
fn delta_sizes_exist_for_overwrites_only() {
    let mut model = content_model("unique:delta=0.35");
    assert_eq!(write_page(&mut model, 3).delta_bytes, ContentDescriptor::UNKNOWN_SIZE);
    assert_ne!(write_page(&mut model, 3).delta_bytes, ContentDescriptor::UNKNOWN_SIZE);
    assert_eq!(
        write_page(&mut model, 4_000_000_000).delta_bytes,
        ContentDescriptor::UNKNOWN_SIZE,
        "sparse addresses are fine"
    );
    model.record_trim(3..4);
    assert_eq!(
        write_page(&mut model, 3).delta_bytes,
        ContentDescriptor::UNKNOWN_SIZE,
        "a trimmed page has no previous content"
    );
    let mut same = content_model("same:delta=0.35");
    write_page(&mut same, 0);
    assert_eq!(write_page(&mut same, 0).delta_bytes, 0, "equal content does not differ");
}

#[test]
fn delta_sizes_pack_as_an_independent_simulation_says() {
    // Pages per delta with 6 bytes of header per delta, for next fit and for best fit among four open pages. The
    // expected values are from a separate simulation with 200,000 draws of another Gaussian generator; both samples
    // have a deviation below 4e-4. The notes give 0.71 / 0.44 / 0.23 and 0.59 / 0.39 / 0.21. The middle ones (0.44,
    // 0.39) do not result from 6-byte headers (0.434, 0.384) but do, like all others, from 16 bytes.
    for (ratio, next_fit, four_open) in
        [(0.50, 0.7081, 0.5882), (0.35, 0.4338, 0.3844), (0.20, 0.2253, 0.2092)]
    {
        let mut model = content_model(&format!("unique:delta={ratio}"));
        write_page(&mut model, 0);
        let sizes: Vec<u64> =
            (0..400_000).map(|_| 6 + u64::from(write_page(&mut model, 0).delta_bytes)).collect();
        for (open, oracle) in [(1, next_fit), (4, four_open)] {
            let measured = pages_per_delta(&sizes, open);
            assert!(
                (measured - oracle).abs() < 0.002,
                "ratio {ratio}, {open} open: {measured} against {oracle}"
            );
        }
    }
}

/// Packs deltas by best fit among `open` pages; if none has room for a delta, the fullest is written out. Returns the
/// pages written per delta.
fn pages_per_delta(sizes: &[u64], open: usize) -> f64 {
    let mut room = vec![PAGE_BYTES; open];
    let mut written = 0;
    for size in sizes {
        let size = (*size).min(PAGE_BYTES);
        let best = (0..open).filter(|i| room[*i] >= size).min_by_key(|i| room[*i]);
        let page = best.unwrap_or_else(|| {
            written += 1;
            let fullest = (0..open).min_by_key(|i| room[*i]).unwrap();
            room[fullest] = PAGE_BYTES;
            fullest
        });
        room[page] -= size;
    }
    f64::from(written) / sizes.len() as f64
}

#[test]
fn silent_writes_repeat_what_the_page_holds() {
    let mut model = content_model("unique:silent=0.1,delta=0.35");
    let mut holds = vec![None; 1000];
    let (mut silent, mut overwrites) = (0, 0);
    for i in 0..100_000 {
        let page = (i * 7) % 1000;
        let new = write_page(&mut model, page as u64);
        overwrites += usize::from(holds[page].is_some());
        if holds[page] == Some(new.fingerprint) {
            silent += 1;
            assert_eq!(new.delta_bytes, 0);
        }
        holds[page] = Some(new.fingerprint);
    }
    assert_share(silent, overwrites, 0.1, "silent writes");
}

#[test]
fn content_is_determined_by_seed_and_write_number() {
    let spec: content_model::ContentModelSpec = "dup:share=0.5,compress=0.4,silent=0.1".parse().unwrap();
    let run = |seed, cut: u64| {
        let mut model = ContentModel::new(&spec, seed);
        let mut all = Vec::new();
        model.draw_written_contents(0..cut, &mut all);
        model.draw_written_contents(cut..1000, &mut all);
        all
    };
    assert_eq!(run(1, 10), run(1, 500), "how requests are cut does not matter");
    let other: HashSet<_> = run(2, 10).iter().map(|d| d.fingerprint).collect();
    assert!(run(1, 10).iter().all(|d| !other.contains(&d.fingerprint)), "seeds do not share contents");
}

#[test]
fn reports_state_that_content_is_synthetic() {
    let text = content_model("dup:share=0.2,compress=0.5,chunk=4,delta=0.35,silent=0.05").describe();
    assert_eq!(
        text,
        "content is synthetic: 20 % of written pages repeat one of the first 100000 distinct contents (zipf 0.9); \
         5 % of overwrites change nothing; compressed to 50 % (sigma 12.5 % per chunk of 4 pages); \
         differences of 35 % of a page (sigma 8.75 %)"
    );
    let generator = WorkloadGenerator::new(&"uniform+unique".parse().unwrap());
    assert_eq!(generator.describe_content().as_deref(), Some("content is synthetic: every page unique"));
    assert_eq!(WorkloadGenerator::new(&"uniform".parse().unwrap()).describe_content(), None);
}

/// Sizes that a trace records are kept, equal contents get equal compressed sizes, a rewrite of the same content has an
/// empty difference, and the first write of a page has none.
#[test]
fn a_model_of_sizes_changes_nothing_else_of_recorded_contents() {
    let unknown = ContentDescriptor::UNKNOWN_SIZE;
    let mut model = content_model("recorded:compress=0.5,delta=0.2");
    let mut write = |page: u64, fingerprint: u64, compressed_bytes, delta_bytes| {
        let fingerprint = Fingerprint(fingerprint);
        let mut request = Request {
            op: Op::Write,
            offset_bytes: page * 4096,
            len_bytes: 4096,
            content: vec![ContentDescriptor { fingerprint, compressed_bytes, delta_bytes }],
            ..Request::default()
        };
        model.fill_or_record_request_content(&mut request);
        assert_eq!(request.content[0].fingerprint, fingerprint);
        (request.content[0].compressed_bytes, request.content[0].delta_bytes)
    };
    let (seven, first) = write(1, 7, unknown, unknown);
    assert!((41..=4096).contains(&seven) && first == unknown);
    assert_eq!(write(1, 7, unknown, unknown), (seven, 0));
    assert_eq!(write(2, 7, unknown, unknown), (seven, unknown));
    assert_eq!(write(2, 8, 1234, 99), (1234, 99), "recorded sizes are kept");
    let to_zeros = write(2, 0, unknown, unknown).1;
    let from_zeros = write(2, 9, unknown, unknown).1;
    assert!([to_zeros, from_zeros].iter().all(|size| (41..=4096).contains(size)), "also to and from zeros");
    let successive = (10..40_010).map(|id| f64::from(write(id, id, unknown, unknown).0) / 4096.0);
    let mean = successive.sum::<f64>() / 40_000.0;
    assert!((mean - 0.5).abs() < 0.003, "small successive fingerprints have the mean {mean}");
}

/// Bug: a content that the trace numbers 1 was taken for the page of zeros, the sizes of differences were the same for
/// every seed, and all writes of a page that the trace gives no content had one compressed size.
#[test]
fn sizes_of_recorded_contents_differ_by_content_and_by_seed() {
    let unknown = ContentDescriptor::UNKNOWN_SIZE;
    let spec: content_model::ContentModelSpec = "recorded:compress=0.5,delta=0.2".parse().unwrap();
    let sizes_of_writes = |seed: u64, fingerprints: &[Option<u64>]| {
        let mut model = ContentModel::new(&spec, seed);
        let mut sizes = Vec::new();
        for fingerprint in fingerprints {
            let content = fingerprint.map(|id| ContentDescriptor::of_fingerprint(Fingerprint(id)));
            let (content, len_bytes) = (content.into_iter().collect(), 4096);
            let mut request = Request { op: Op::Write, len_bytes, content, ..Request::default() };
            model.fill_or_record_request_content(&mut request);
            sizes.push((request.content[0].compressed_bytes, request.content[0].delta_bytes));
        }
        sizes
    };
    let [zeros, one] = sizes_of_writes(3, &[Some(0), Some(1)])[..] else { unreachable!("two writes") };
    assert!(zeros.0 != one.0 && (41..=4096).contains(&one.1), "{zeros:?}, {one:?}");
    let recorded: Vec<_> = (5..25).map(Some).collect();
    let of_seed = |seed| sizes_of_writes(seed, &recorded);
    assert_eq!(of_seed(1), of_seed(1));
    let same = of_seed(1).into_iter().zip(of_seed(2)).skip(1).filter(|(one, other)| one.1 == other.1);
    assert!(same.count() < 4, "differences depend on the seed");
    let absent = sizes_of_writes(3, &[None; 20]);
    let compressed: HashSet<_> = absent.iter().map(|(compressed, _)| compressed).collect();
    assert!(compressed.len() > 15, "{absent:?}");
    assert!(absent[0].1 == unknown && absent[1].1 != unknown, "an overwrite has a difference");
}

#[test]
fn a_model_of_sizes_needs_sizes_and_a_trace() {
    let refused = |text: &str| text.parse::<content_model::ContentModelSpec>().unwrap_err().to_string();
    assert!(refused("recorded").contains("give compress, delta or both"));
    assert!(refused("recorded:compress=0.5,silent=0.1").contains("leave them out"));
    assert!(refused("recorded:compress=0.5,chunk=4").contains("leave them out"));
    for load in ["uniform+recorded:compress=0.5", "f1+recorded:delta=0.5"] {
        let refused = Input::of_generator_spec(load).unwrap_err().to_string();
        assert!(refused.contains("a generator has none"), "{refused}");
    }
}

#[test]
fn a_printed_content_spec_parses_to_the_same_spec() {
    let spec = content_model::ContentModelSpec {
        compressed_size_ratio: Some(SizeRatioDistribution::of_mean(0.5)),
        chunk_pages: 4,
        silent_write_share: 0.01,
        ..content_model::ContentModelSpec::new(ContentSource::Zipf {
            zipf_exponent: 0.2,
            distinct_contents: 900_000,
        })
    };
    assert_eq!(spec.to_string().parse::<content_model::ContentModelSpec>(), Ok(spec));
    assert_eq!("unique".parse::<content_model::ContentModelSpec>().unwrap().to_string(), "unique");
}

/// After a remap, the content model knows that the target pages hold the contents of the source pages.
#[test]
fn modelled_contents_follow_a_remap() {
    let fill = |model: &mut ContentModel, page: u64| {
        let mut content = Vec::new();
        model.draw_written_contents(page..page + 1, &mut content);
        content[0].fingerprint
    };
    // With `silent=1` every overwrite repeats the content of its page, so that a write reveals that content.
    let mut model = ContentModel::new(&"unique:silent=1".parse().unwrap(), 3);
    let (first, second) = (fill(&mut model, 0), fill(&mut model, 1));
    model.record_remap(1..3, 0..2, RemapMode::Copy);
    assert_eq!([0, 1, 2].map(|page| fill(&mut model, page)), [first, first, second]);
    model.record_remap(10..11, 2..3, RemapMode::Relocate);
    assert_eq!(fill(&mut model, 10), second);
    assert_ne!(fill(&mut model, 2), second, "the source holds nothing: its next write is new");
    model.record_remap(10..11, 10..11, RemapMode::Relocate);
    assert_eq!(fill(&mut model, 10), second, "a page that is its own source keeps what it holds");
}
