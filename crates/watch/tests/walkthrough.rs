//! Tests of the record of a step-by-step run (`wearwell watch`): for every design and at every step, it agrees with the
//! engine.

use std::collections::BTreeMap;
use std::ops::ControlFlow::Continue;

use wearwell::design;
use wearwell::flash_view::FlashPageState;
use wearwell::operation::Cause;
use wearwell_config::Config;
use wearwell_replay::input::Input;
use wearwell_replay::replay::Plan;
use wearwell_watch::{
    DriveState, EventRow, StepGroup, WATCHED_REQUESTS_MAX, Walkthrough, WalkthroughOptions, WalkthroughStep,
    default_workload, run_walkthrough, run_walkthrough_with_step_callback,
};

use crate::config_of;

/// Settings of a mixture of parts that is no named design.
const MIXTURE: [&str; 4] =
    ["parts.content=dedup,recycle", "parts.map=cached", "parts.validity=log", "parts.survives=nvram-map"];

/// Returns name and configuration of every named design and of a mixture of parts, each of which is recorded step by
/// step.
fn named_designs_and_one_mixture() -> impl Iterator<Item = (&'static str, Config)> {
    let named = design::ALL.iter().map(|design| (design.name, config_of(&[])));
    named.chain(std::iter::once(("page-map", config_of(&MIXTURE))))
}

/// Programs, reads and erases by cause, from the counters of the engine or from the events of a step-by-step run.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct CountsByCause([BTreeMap<&'static str, u64>; 3]);

impl CountsByCause {
    /// Returns the operations that the engine has counted.
    fn of_device(device: &wearwell::Device) -> Self {
        let stats = device.ftl().stats();
        let named = |counts: &[u64; Cause::COUNT]| {
            let all = Cause::ALL.iter().map(|&cause| (cause.name(), counts[cause as usize]));
            all.filter(|(_, count)| *count > 0).collect()
        };
        Self([named(&stats.programs), named(&stats.reads), named(&stats.erases)])
    }

    /// Adds the programs, copies, reads and erases among these events.
    fn add_events(&mut self, events: &[EventRow]) {
        let [programs, reads, erases] = &mut self.0;
        for event in events {
            match event {
                EventRow::Program { cause, .. } => *programs.entry(cause).or_default() += 1,
                EventRow::Read { cause, .. } => *reads.entry(cause).or_default() += 1,
                EventRow::Erase { cause, .. } => *erases.entry(cause).or_default() += 1,
                EventRow::Copy { cause, .. } => {
                    *programs.entry(cause).or_default() += 1;
                    *reads.entry(cause).or_default() += 1;
                }
                EventRow::Victim { .. } | EventRow::Reason { .. } => {}
            }
        }
    }
}

/// Updates `programmed`, a flag per flash page that is true if the page is programmed, with the programs and erases of
/// a step.
fn update_programmed_flags(programmed: &mut [bool], events: &[EventRow], block_pages: u32) {
    for event in events {
        match *event {
            EventRow::Program { page, .. } | EventRow::Copy { to: page, .. } => {
                programmed[page as usize] = true;
            }
            EventRow::Erase { block, .. } => {
                let first = (block * block_pages) as usize;
                programmed[first..first + block_pages as usize].fill(false);
            }
            _ => {}
        }
    }
}

/// Returns for each flash page whether it is free.
fn free_pages(picture: &DriveState) -> Vec<bool> {
    picture.pages.iter().map(|row| row.1 == FlashPageState::Free as u8).collect()
}

/// Records a step-by-step run, and compares the record with the state and the counters of the engine after every step.
fn walkthrough_checked_against_engine(
    name: &str,
    config: &Config,
    extent: WalkthroughOptions,
) -> Walkthrough {
    let input = Input::of_generator_spec(&default_workload(config, name).unwrap()).unwrap();
    let (mut counts, mut views, mut counted) = (CountsByCause::default(), Vec::new(), Vec::new());
    let mut on_step = |step: &WalkthroughStep, device: &mut _| {
        counts.add_events(&step.events);
        counted.push((counts.clone(), CountsByCause::of_device(device)));
        views.push(DriveState::of_flash_view(&device.flash_view().unwrap()));
    };
    let walk = run_walkthrough_with_step_callback(config, name, &input, extent, &mut on_step).unwrap();
    let mut rebuilt = DriveState::of_empty_drive(&walk.drive);
    let mut programmed = vec![false; rebuilt.pages.len()];
    for (number, (step, view)) in walk.steps.iter().zip(&views).enumerate() {
        rebuilt.apply_step(step);
        assert_eq!(rebuilt, *view, "{name}: state after step {number}");
        update_programmed_flags(&mut programmed, &step.events, walk.drive.block_pages);
        let found: Vec<bool> = free_pages(view).iter().map(|free| !free).collect();
        assert_eq!(found, programmed, "{name}: programmed pages after step {number}: {:?}", step.events);
        let (recorded, of_engine) = &counted[number];
        assert_eq!(recorded, of_engine, "{name}: operations by cause up to step {number}");
    }
    walk
}

/// Whether a step of the recorded run has this mark.
fn has_mark(walk: &Walkthrough, mark: StepGroup) -> bool {
    walk.steps.iter().any(|step| step.marks.contains(&mark))
}

/// From the record of a step-by-step run (`wearwell watch`), the state of the drive at every step can be rebuilt.
#[test]
fn a_watch_record_rebuilds_the_state_of_the_drive_at_every_step() {
    for (name, config) in named_designs_and_one_mixture() {
        let walk = walkthrough_checked_against_engine(
            name,
            &config,
            WalkthroughOptions { requests: 260, power_cut_after_requests: None },
        );
        assert!(has_mark(&walk, StepGroup::Collection), "{name} collects soon");
        assert!(!has_mark(&walk, StepGroup::Cut));
        assert!(walk.steps.iter().all(|step| !step.title.is_empty() && !step.sentences.is_empty()), "{name}");
    }
}

/// The record of a step-by-step run (`wearwell watch`) also has the changes that a power loss and the recovery cause.
#[test]
fn a_watch_record_rebuilds_the_state_of_the_drive_over_a_power_loss() {
    for (name, config) in named_designs_and_one_mixture() {
        for cut_after in [30, 121, 150] {
            let walk = walkthrough_checked_against_engine(
                name,
                &config,
                WalkthroughOptions { requests: 160, power_cut_after_requests: Some(cut_after) },
            );
            let cut = walk.steps.iter().position(|step| step.marks.contains(&StepGroup::Cut));
            let cut = cut.unwrap_or_else(|| panic!("{name} loses power"));
            assert!(cut > cut_after as usize, "{name}: {cut}");
            assert!(walk.steps[cut + 1].marks.contains(&StepGroup::Recovery), "{name}");
        }
    }
}

/// A step-by-step run (`wearwell watch`) of each design has steps in which its mechanisms act: for example, a delta is
/// stored, or a logical page is mapped to stored content without a program.
#[test]
fn a_watch_record_shows_the_mechanism_of_each_design() {
    for (name, marks) in [
        ("recyclable", &[StepGroup::Bind][..]),
        ("remap", &[StepGroup::Bind]),
        ("delta", &[StepGroup::Delta]),
        ("integrated", &[StepGroup::Bind, StepGroup::Chunk]),
        ("dftl", &[StepGroup::Metadata]),
        ("lazyftl", &[StepGroup::Metadata]),
        ("u-ftl", &[StepGroup::Metadata]),
        ("ib-ftl", &[StepGroup::Metadata]),
        ("geckoftl", &[StepGroup::Metadata]),
        ("wearwell", &[StepGroup::Bind, StepGroup::Chunk, StepGroup::Delta, StepGroup::Metadata]),
    ] {
        let config = config_of(&[]);
        let input = Input::of_generator_spec(&default_workload(&config, name).unwrap()).unwrap();
        let walk = run_walkthrough(
            &config,
            name,
            &input,
            WalkthroughOptions { requests: 200, power_cut_after_requests: None },
        )
        .unwrap();
        for &mark in marks {
            assert!(has_mark(&walk, mark), "{name} has {mark:?}");
        }
    }
}

/// For each victim policy, the chosen victim is the best of the candidates in the record by the figure with which the
/// policy ranks them.
#[test]
fn a_recorded_gc_victim_is_the_best_candidate_by_its_policy() {
    for (policy, prefers_least) in [
        ("greedy", true),
        ("cost-benefit", false),
        ("d-choices", true),
        ("random", true),
        ("fifo", true),
        ("dead-bytes", false),
        ("rc-gc", false),
    ] {
        for name in ["page-map", "recyclable", "delta"] {
            let config = config_of(&[&format!("gc.policy={policy}")]);
            let input = Input::of_generator_spec(
                "zipf:theta=0.8,pages=40,trim=0.04+revert:share=0.3,depth=3,delta=0.4",
            )
            .unwrap();
            let walk = run_walkthrough(
                &config,
                name,
                &input,
                WalkthroughOptions { requests: 400, power_cut_after_requests: None },
            )
            .unwrap();
            let mut by_policy = 0;
            for event in walk.steps.iter().flat_map(|step| &step.events) {
                let EventRow::Victim { block, rule, candidates, .. } = event else { continue };
                let victim =
                    candidates.iter().find(|row| row.0 == *block).expect("the victim is a candidate");
                // RC-GC assumes that a block has no more dead contents than invalid pages, which does not hold for
                // pages of deltas.
                if *rule != "policy" || (name, policy) == ("delta", "rc-gc") {
                    continue;
                }
                by_policy += 1;
                let figure = victim.5.expect("the policy looked at its victim");
                let others = candidates.iter().filter_map(|row| row.5);
                let is_best = |other: f64| if prefers_least { figure <= other } else { figure >= other };
                assert!(others.clone().all(is_best), "{name} {policy}: {candidates:?} and victim {block}");
                assert!(policy != "random" || others.count() == 1, "one random block is drawn");
            }
            let is_left_out = (name, policy) == ("delta", "rc-gc");
            assert!(is_left_out || by_policy > 3, "{name} {policy} chooses {by_policy} victims");
        }
    }
}

/// Bug: the bytes of a page were made for 4 KiB, and larger pages of a drive that compresses ended the command.
#[test]
fn a_compressing_drive_with_pages_of_other_sizes_than_4_kib_can_be_watched() {
    let extent = WalkthroughOptions { requests: 60, power_cut_after_requests: Some(40) };
    let input = Input::of_generator_spec("uniform:pages=40+dup:share=0.1,compress=0.5").unwrap();
    for page_bytes in [512, 8192, 16384] {
        let config = config_of(&[&format!("device.page_bytes={page_bytes}")]);
        let walk = run_walkthrough(&config, "wearwell", &input, extent);
        let walk = walk.unwrap_or_else(|error| panic!("{page_bytes}: {error}"));
        assert!(walk.steps.len() > 60, "{page_bytes}: {} steps", walk.steps.len());
    }
}

/// Step-by-step runs (`wearwell watch`) with too many requests or pages are refused, and so are settings without effect
/// on them.
#[test]
fn a_watch_record_that_is_too_large_is_refused() {
    let small = WalkthroughOptions { requests: 10, power_cut_after_requests: None };
    let of = |settings: &[&str], workload: &str, extent: WalkthroughOptions| {
        let input = Input::of_generator_spec(workload).unwrap();
        run_walkthrough(&config_of(settings), "page-map", &input, extent).unwrap_err().to_string()
    };
    let too_many = WalkthroughOptions { requests: WATCHED_REQUESTS_MAX + 1, ..small };
    assert!(
        of(&[], "uniform:pages=40", too_many).contains("--requests is 2001: give a number from 1 to 2000")
    );
    assert!(of(&["device.blocks_per_plane=500"], "uniform:pages=40", small).contains("8000 flash pages"));
    let late = WalkthroughOptions { power_cut_after_requests: Some(11), ..small };
    assert!(
        of(&[], "uniform:pages=40", late).contains("--requests is only 10, so that power would not be lost")
    );
    assert!(of(&["timing.mode=event"], "uniform:pages=40", small).contains("timing.mode has no effect"));
    assert!(
        of(&["precondition.mode=steady"], "uniform:pages=40", small)
            .contains("precondition.mode has no effect")
    );
    let wide = "uniform:pages=4000000,size=200";
    assert!(of(&[], wide, small).contains("touch 2000 logical pages"), "{}", of(&[], wide, small));
}

/// A step-by-step run (`wearwell watch`) has the same counters as a replay of the same requests on an equal drive that
/// records no events.
#[test]
fn a_watch_record_has_the_counters_of_a_replay() {
    for name in ["page-map", "recyclable", "remap", "delta"] {
        let spec = "zipf:theta=0.8,pages=40,read=0.08,trim=0.04+dup:share=0.3,pool=12,delta=0.25";
        let input = Input::of_generator_spec(spec).unwrap();
        let walk = run_walkthrough(
            &config_of(&[]),
            name,
            &input,
            WalkthroughOptions { requests: 160, power_cut_after_requests: None },
        )
        .unwrap();
        let settings = [
            "device.channels=1".to_owned(),
            "device.dies_per_channel=2".to_owned(),
            format!("device.blocks_per_plane={}", walk.drive.blocks / 2),
            format!("device.pages_per_block={}", walk.drive.block_pages),
            format!("device.logical_pages={}", walk.drive.logical_pages),
            "recycle.entries=24".to_owned(),
            "precondition.mode=none".to_owned(),
            "replay.requests=160".to_owned(),
        ];
        let replayed = Config::from_text_and_settings(None, &settings).unwrap();
        let record = Plan::new(&replayed, &input).unwrap().run(name, &mut |_| Continue(())).unwrap();
        let last = walk.steps.last().unwrap().counters;
        let of_replay = (record.host_page_writes, record.programs, record.reads, record.erases);
        assert_eq!((last.host_writes, last.programs, last.reads, last.erases), of_replay, "{name}");
    }
}

/// A trace of few pages at distant addresses is replayed on a small drive that has only these pages.
#[test]
fn watch_replays_a_trace_on_the_pages_that_it_touches() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace.csv");
    let lines: Vec<String> =
        (0..60_u64).map(|k| format!("{},W,{},4096,0,", k * 1000, k * k % 23 * 40_960_000)).collect();
    let head = "time_ns,op,offset_bytes,len_bytes,device,fingerprints\n";
    std::fs::write(&path, head.to_owned() + &lines.join("\n") + "\n").unwrap();
    let input = Input::Trace { path, options: wearwell_trace::OpenOptions::default() };
    let extent = WalkthroughOptions { requests: 60, power_cut_after_requests: Some(50) };
    let walk = run_walkthrough(&config_of(&[]), "recyclable", &input, extent).unwrap();
    assert_eq!(walk.steps.len(), 62);
    assert_eq!(walk.drive.logical_pages, 12, "the squares modulo 23 have twelve values");
    assert!(walk.notes.iter().any(|note| note.starts_with("Only pages that the requests touch")));
}
