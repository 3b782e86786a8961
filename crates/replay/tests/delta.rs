//! Tests of delta encoding with modelled contents, and of the content models that the reproduced papers need.

use std::collections::HashMap;
use std::ops::ControlFlow::Continue;

use wearwell::data::Fingerprint;
use wearwell_config::Config;
use wearwell_replay::content_model::ContentModel;
use wearwell_replay::host_models::{HostModelSpec, HostRequestGenerator};
use wearwell_replay::input::Input;
use wearwell_replay::replay::Plan;
use wearwell_trace::{Op, Request};

/// Returns the flash pages written per delta on a device that stores every overwrite as a delta of `ratio` of a page.
fn pages_per_delta(ratio: f64, open_pages: u32) -> f64 {
    let settings = [
        format!("delta.open_pages={open_pages}"),
        "delta.max_ratio=1".to_owned(),
        "delta.area_share=1".to_owned(),
        "delta.scan_interval_writes=0".to_owned(),
        "device.over_provisioning=2".to_owned(),
    ];
    let config = Config::from_text_and_settings(None, &settings).expect("settings exist");
    let load = format!("uniform:pages=20000,requests=120000+unique:delta={ratio}");
    let input = Input::of_generator_spec(&load).expect("a load");
    let plan = Plan::new(&config, &input).expect("it fits");
    let run = plan.run("delta", &mut |_| Continue(())).expect("it runs");
    run.parts["delta_pages_committed"] / run.parts["deltas_committed"]
}

/// Whole deltas waste the end of a flash page, and four open pages waste less than one (Delta-FTL paper). The expected
/// values are from an independent simulation of next fit and of four open pages, with a header of 6 bytes per delta. It
/// leaves out the number of deltas that each page stores in two more bytes; this is within the tolerance. (The expected
/// values in `tests/workload.rs` are for deltas without headers.)
#[test]
fn delta_packing_of_the_engine_equals_an_independent_simulation() {
    for (ratio, one_open, four_open) in
        [(0.50, 0.7081, 0.5882), (0.35, 0.4338, 0.3844), (0.20, 0.2253, 0.2092)]
    {
        for (open_pages, expected) in [(1, one_open), (4, four_open)] {
            let measured = pages_per_delta(ratio, open_pages);
            assert!(
                (measured - expected).abs() < 0.005,
                "ratio {ratio}, {open_pages} open: {measured}, not {expected}"
            );
        }
    }
}

/// A request that reverts gives all its pages the contents of one earlier version. The newest earlier version is chosen
/// as often as all others together.
#[test]
fn reverting_writes_repeat_earlier_content_of_their_pages() {
    let spec = "revert:share=0.5,depth=8".parse().expect("a content model");
    let mut model = ContentModel::new(&spec, 7);
    let (mut known, mut made) = (HashMap::<(u64, Fingerprint), usize>::new(), [0; 8]);
    let (mut back, mut one_back, mut held) = (0, 0, [None; 8]);
    for _ in 0..4_000 {
        let mut contents = Vec::new();
        model.draw_written_contents(0..8, &mut contents);
        let versions: Vec<Option<usize>> = (0..8_u64)
            .zip(&contents)
            .map(|(page, content)| known.get(&(page, content.fingerprint)).copied())
            .collect();
        assert!(versions.iter().all(|version| *version == versions[0]), "all pages of a request go alike");
        for (page, content) in (0..8_u64).zip(&contents) {
            let at = page as usize;
            if let Some(version) = versions[at] {
                let from: usize = held[at].expect("what comes back was there");
                assert!((1..=8).contains(&(from - version)), "from {from} to {version}");
                back += 1;
                one_back += usize::from(from - version == 1);
                held[at] = Some(version);
            } else {
                made[at] += 1;
                known.insert((page, content.fingerprint), made[at]);
                held[at] = Some(made[at]);
            }
        }
    }
    let share = back as f64 / 32_000.0;
    assert!((0.42..0.5).contains(&share), "half of the requests, unless there is no version so old: {share}");
    assert!((0.47..0.56).contains(&(one_back as f64 / back as f64)), "{one_back} of {back}");
}

/// The share of written pages whose content was written before, counted with a plain set of all contents, is the
/// specified duplicate share.
#[test]
fn fiu_trace_substitutes_repeat_earlier_contents_at_the_specified_rate() {
    for (name, share) in [("fiu-homes", 0.33), ("fiu-mail", 0.92)] {
        let spec =
            format!("{name}:scale=0.004,duplicates={share}").parse::<HostModelSpec>().expect("a substitute");
        let (mut seen, mut writes, mut repeats) = (std::collections::HashSet::new(), 0, 0);
        let mut generator = HostRequestGenerator::new(&spec);
        let mut request = Request::default();
        while generator.next_request(&mut request) {
            if request.op == Op::Write {
                writes += request.content.len();
                repeats += request.content.iter().filter(|content| !seen.insert(content.fingerprint)).count();
            }
        }
        let measured = repeats as f64 / writes as f64;
        assert!((measured - share).abs() < 0.01, "{name}: {measured}");
    }
}
