//! Tests of equivalences between designs: a mechanism that is switched off has no effect, and equal parts behave
//! equally.
//!
//! Two designs are equal if the logs of their programs and erases are equal, entry by entry, owners included.

use common::{
    BUFFERS, DesignUnderTest, Op, OperationGenerator, Oracle, Random, TinyDevice, audit, buffers_for_case,
    designs, designs_with_prefix, device, failures, medium_with_faults, medium_with_power_cut,
    nand_with_all_page_fields, recorded_ops, recording_medium, test_case_interval, tiny_devices,
};
use wearwell::address::{BlockId, Lpn, Ppn, RemapMode};
use wearwell::content::dedup::DedupOptions;
use wearwell::content::recycle::{FingerprintStorePolicy, RecycleOptions};
use wearwell::data::{
    Content, ContentDescriptor, Fingerprint, compressed_len, delta_len, fingerprint_of, mix_bits,
};
use wearwell::design::{
    DeltaOptions, DftlOptions, Parts, RecyclingPart, SharingOptions, delta, dftl, integrated, page_map,
    recyclable, remap,
};
use wearwell::device::HostData;
use wearwell::gc::{GcOptions, VictimPolicy};
use wearwell::lifetime::MechanismKind;
use wearwell::mapping::AnyMapping;
use wearwell::nand::{
    AnyNand, ConsecutiveCopies, CutOutcome, FaultProbabilities, FaultyNand, Nand, NandError, Oob,
    PageDataWord, PageKind, RecordedOp, RecordingNand, RetainedPageFields, SimNand,
};
use wearwell::sharing::counts::ReferenceCountForm;
use wearwell::sharing::reverse_map::ReverseMapKind;
use wearwell::stats::Stats;
use wearwell::store::BlockState;
use wearwell::write_buffer::WriteBufferOptions;
use wearwell::{Device, DeviceOptions};

use crate::common;

/// Number of host operations of a run.
const OPERATIONS: u64 = 12_000;
/// Number of distinct contents that a run writes.
const CONTENTS: u16 = 9;
/// Number of contents that is so large that a drive with deduplication needs GC.
const MANY_CONTENTS: u16 = 200;

/// Returns the default GC options with this victim policy.
fn gc_options_with_policy(policy: VictimPolicy) -> GcOptions {
    GcOptions { policy, ..GcOptions::default() }
}

/// Returns a recycling design (revives dead pages) whose fingerprint store has this policy and capacity (`None`:
/// unbounded).
fn recycling(gc: GcOptions, policy: FingerprintStorePolicy, capacity_entries: Option<u32>) -> Parts {
    let options = RecycleOptions { capacity_entries, policy, ..RecycleOptions::default() };
    recyclable(gc, RecyclingPart { options, must_verify_hits: false })
}

/// Returns DFTL with a map cache for the whole map.
fn dftl_with_whole_map_cached(gc: GcOptions) -> Parts {
    dftl(gc, DftlOptions { cache_entries: u32::MAX })
}

/// Executes a random run of operations on a device of `logical` pages, and returns the device.
fn run(
    nand: impl Into<AnyNand>,
    logical: u32,
    parts: &Parts,
    buffer: WriteBufferOptions,
    seed: u64,
) -> Device {
    let mut device = Device::new(nand, logical, parts, DeviceOptions { buffer }).expect("it fits");
    let mut oracle = Oracle::for_device(&device, CONTENTS as usize);
    let (sectors, sectors_per_page) = (oracle.sectors(), oracle.sectors_per_page());
    let random = Random::new(seed);
    let mut operation_generator = OperationGenerator {
        random,
        sectors,
        sectors_per_page,
        content_count: CONTENTS,
        changes_policies: false,
    };
    for _ in 0..OPERATIONS / test_case_interval(2) {
        oracle.apply(&mut device, operation_generator.draw()).expect("there is room");
    }
    device
}

/// Executes a random run of operations on a device of `logical` pages; returns the programs and erases of its medium.
fn recorded_ops_of_run(
    tiny_device: &TinyDevice,
    logical: u32,
    parts: &Parts,
    buffer: WriteBufferOptions,
    seed: u64,
) -> Vec<RecordedOp> {
    let device = run(recording_medium(nand_with_all_page_fields(tiny_device)), logical, parts, buffer, seed);
    recorded_ops(&device).to_vec()
}

/// Asserts that two designs execute equal programs and erases on every tiny device, at a logical size that both accept.
/// By default each tiny device is run with one write buffer, with `WEARWELL_SOAK=1` with every one.
fn assert_equal_recorded_ops(one: &Parts, other: &Parts) {
    let mut erases = 0;
    for (number, tiny_device) in (0u64..).zip(tiny_devices()) {
        let logical = tiny_device.logical_pages(one).min(tiny_device.logical_pages(other));
        for buffer in buffers_for_case(number) {
            let log = recorded_ops_of_run(&tiny_device, logical, one, buffer, number);
            let other_log = recorded_ops_of_run(&tiny_device, logical, other, buffer, number);
            let first_difference = log.iter().zip(&other_log).position(|(a, b)| a != b);
            assert_eq!((first_difference, log.len()), (None, other_log.len()), "world {}", tiny_device.name);
            erases += log.iter().filter(|entry| matches!(entry, RecordedOp::Erase(_))).count();
        }
    }
    assert!(
        erases > 10_000 / test_case_interval(6) as usize,
        "garbage collection has to be at work: {erases} erases"
    );
}

/// Victim policies that need no content mechanism.
const POLICIES: [VictimPolicy; 4] = [
    VictimPolicy::Greedy,
    VictimPolicy::CostBenefit,
    VictimPolicy::DChoices { random_candidates: 2 },
    VictimPolicy::Fifo,
];

/// Executes a random run on a device of the design; returns its programs and erases, and its counters. If
/// `reads_ahead`, table entries are prefetched before each operation, most of them for pages that the operation does
/// not access.
fn outcome_of(
    tiny_device: &TinyDevice,
    design: &DesignUnderTest,
    reads_ahead: bool,
) -> (Vec<RecordedOp>, Stats) {
    let contents = design.distinct_content_count(CONTENTS);
    let mut device = device(
        tiny_device,
        &design.parts,
        BUFFERS[0],
        recording_medium(nand_with_all_page_fields(tiny_device)),
    );
    let mut oracle = Oracle::for_device(&device, contents as usize);
    let (sectors, sectors_per_page) = (oracle.sectors(), oracle.sectors_per_page());
    let mut operation_generator = OperationGenerator {
        random: Random::new(1),
        sectors,
        sectors_per_page,
        content_count: contents,
        changes_policies: false,
    };
    let lpns: Vec<Lpn> = (0..device.ftl().logical_pages()).map(Lpn).collect();
    let known: Vec<Fingerprint> = (0..contents)
        .map(|id| fingerprint_of(oracle.content_bytes(0, sectors_per_page, id)))
        .chain((0..40).map(Fingerprint))
        .collect();
    for _ in 0..OPERATIONS / 8 {
        if reads_ahead {
            device.ftl().prefetch_table_entries_for_writes(&lpns, &known);
        }
        oracle.apply(&mut device, operation_generator.draw()).expect("there is room");
    }
    let stats = device.ftl().stats().clone();
    (recorded_ops(&device).to_vec(), stats)
}

/// Prefetching table entries (reading them ahead into the processor cache) changes no flash operation and no counter.
/// By default each design runs on every fourth tiny device, with `WEARWELL_SOAK=1` on all.
#[test]
fn prefetching_changes_no_operation_and_no_counter() {
    for (number, design) in (0u64..).zip(designs()) {
        for tiny_device in design.sampled_tiny_devices(number, 4) {
            let [with, without] = [true, false].map(|ahead| outcome_of(&tiny_device, &design, ahead));
            assert!(with == without, "{} on {}", design.name, tiny_device.name);
        }
    }
}

/// Returns bursts of page writes, in which some pages occur twice. Some bursts are followed by a trim.
fn write_bursts_and_trims(logical: u32) -> Vec<(Vec<Lpn>, Option<Lpn>)> {
    let mut random = Random::new(3);
    let mut page = move || Lpn(random.below(u64::from(logical)) as u32);
    (0..300).map(|k| ((0..k % 97).map(|_| page()).collect(), (k % 3 == 0).then(&mut page))).collect()
}

/// Executes the bursts of writes and the trims of [`write_bursts_and_trims`], each burst as one batch of writes if
/// `as_batches`, otherwise page by page. Returns the device.
fn device_after_write_bursts(mut device: Device, as_batches: bool) -> Device {
    for (burst, trimmed) in write_bursts_and_trims(device.ftl().logical_pages()) {
        if as_batches {
            let (written, outcome) = device.write_pages_without_content(&burst);
            assert_eq!((written, outcome), (burst.len(), Ok(())));
        } else {
            let zeros = ContentDescriptor::of_fingerprint(Fingerprint::ZERO_PAGE);
            for &lpn in &burst {
                device.write_page_descriptor(lpn, zeros).expect("there is room");
            }
        }
        if let Some(lpn) = trimmed {
            device.ftl_mut().trim(lpn).expect("there is room");
        }
        audit(&mut device);
    }
    device
}

/// Each design that programs consecutive pages together is tested on every fourth tiny device; with `WEARWELL_SOAK=1`,
/// on all.
#[test]
fn batched_writes_cause_the_same_operations_as_single_writes() {
    let mut in_runs = 0;
    for (case, design) in (0u64..).zip(designs()) {
        for (number, tiny_device) in (0u64..).zip(design.tiny_devices_with_enough_space()) {
            let new = || {
                device(
                    &tiny_device,
                    &design.parts,
                    BUFFERS[0],
                    recording_medium(nand_with_all_page_fields(&tiny_device)),
                )
            };
            let runs = new().supports_write_batches();
            in_runs += u32::from(runs);
            // Where pages are written one by one in either case, one tiny device shows it.
            let is_chosen =
                if runs { (case + number).is_multiple_of(test_case_interval(4)) } else { number == 0 };
            if !is_chosen {
                continue;
            }
            let [one_by_one, as_batches] =
                [false, true].map(|as_batches| device_after_write_bursts(new(), as_batches));
            let [log, other] = [&one_by_one, &as_batches].map(recorded_ops);
            let what = format!("{} on {}", design.name, tiny_device.name);
            assert!(log == other, "{what}");
            let collects = log.iter().any(|entry| matches!(entry, RecordedOp::Erase(_)));
            assert!(collects || !runs, "{what} collects nothing");
            assert_eq!(one_by_one.ftl().stats(), as_batches.ftl().stats(), "{what}");
        }
    }
    assert!(in_runs > 0, "no design is written in runs");
}

/// If the program of a page in a batch of writes fails, that page is written elsewhere, and the remaining pages of the
/// batch are written after it.
#[test]
fn batched_writes_continue_after_failed_programs() {
    let plan = FaultProbabilities {
        program_failure_probability: 0.01,
        erase_failure_probability: 0.0,
        max_failures: 2,
    };
    let parts = page_map(GcOptions::default());
    for tiny_device in tiny_devices() {
        let nand = medium_with_faults(nand_with_all_page_fields(&tiny_device), plan, 5);
        let logical = tiny_device.logical_pages(&parts) / 2;
        let device = Device::new(nand, logical, &parts, DeviceOptions::default()).expect("it fits");
        let device = device_after_write_bursts(device, true);
        let failures = failures(&device);
        assert!(failures > 0, "world {}", tiny_device.name);
        let written: usize = write_bursts_and_trims(logical).iter().map(|(burst, _)| burst.len()).sum();
        assert_eq!(device.ftl().stats().host_page_writes, written as u64, "world {}", tiny_device.name);
    }
}

/// Returns the flash page to which `lpn` is mapped.
fn ppn_of_lpn(device: &Device, lpn: Lpn) -> Ppn {
    let AnyMapping::Flat(map) = device.ftl().mapping() else { panic!("page-map has a flat map") };
    Ppn(map.get(lpn).unwrap_or_else(|| panic!("page {lpn} is lost")).0)
}

/// Power is cut at each operation. Afterwards every page that a batch reported as written must hold its newest version.
/// Only the page whose program was interrupted may hold a version newer than that.
#[test]
fn pages_reported_written_by_a_batch_survive_every_power_cut() {
    let parts = page_map(GcOptions::default());
    for tiny_device in tiny_devices() {
        for (cut, outcome) in (0..300).flat_map(|cut| CutOutcome::ALL.map(|outcome| (cut, outcome))) {
            let nand = medium_with_power_cut(nand_with_all_page_fields(&tiny_device), Some(cut), outcome);
            let mut device = device(&tiny_device, &parts, BUFFERS[0], nand);
            let mut acknowledged = Vec::new();
            for (burst, _) in write_bursts_and_trims(device.ftl().logical_pages()) {
                let (written, outcome) = device.write_pages_without_content(&burst);
                acknowledged.extend_from_slice(&burst[..written]);
                if outcome.is_err() {
                    break;
                }
            }
            device.ftl_mut().store_mut().nand_mut().power_cut_nand_mut().restore_power(None);
            let places: Vec<Ppn> = acknowledged.iter().map(|&lpn| ppn_of_lpn(&device, lpn)).collect();
            let cut_program = device.ftl().store().last_sequence();
            device.recover().expect("a cut leaves a device that recovers");
            audit(&mut device);
            for (&lpn, before) in acknowledged.iter().zip(places) {
                let found = ppn_of_lpn(&device, lpn);
                let spare =
                    device.ftl_mut().store_mut().nand_mut().probe_page(found).expect("it is readable");
                let number = spare.expect("it is programmed").sequence_number;
                assert!(
                    found == before || number == cut_program,
                    "page {lpn} is at {found}, not {before}, after cut {cut}, {outcome:?}, world {}",
                    tiny_device.name
                );
            }
        }
    }
}

/// A recycling design whose fingerprint store holds no entry revives no dead page.
#[test]
fn recycling_with_an_empty_fingerprint_store_behaves_like_page_map() {
    for policy in POLICIES {
        let off = recycling(gc_options_with_policy(policy), FingerprintStorePolicy::default(), Some(0));
        assert_equal_recorded_ops(&page_map(gc_options_with_policy(policy)), &off);
    }
}

/// If the cache of DFTL holds the whole map, no translation page is read or written.
#[test]
fn dftl_with_all_entries_cached_behaves_like_page_map() {
    for policy in POLICIES {
        assert_equal_recorded_ops(
            &page_map(gc_options_with_policy(policy)),
            &dftl_with_whole_map_cached(gc_options_with_policy(policy)),
        );
    }
}

/// Returns the remap design with deduplication, this reverse map, and a content index of `index_entries` entries
/// (`None`: unbounded).
fn remap_design_with_dedup(reverse_map: ReverseMapKind, index_entries: Option<u32>) -> Parts {
    let dedup = Some(DedupOptions { capacity_entries: index_entries, must_verify_hits: true });
    remap(
        gc_options_with_policy(VictimPolicy::Greedy),
        SharingOptions {
            reverse_map,
            reference_count_form: ReferenceCountForm::Dense,
            dedup,
            has_atomic_remap_commands: false,
        },
    )
}

/// Without a reverse map a page cannot be shared, so every remap becomes a write.
#[test]
fn remap_design_without_a_reverse_map_behaves_like_page_map() {
    assert_equal_recorded_ops(
        &page_map(GcOptions::default()),
        &remap_design_with_dedup(ReverseMapKind::OobOnly, None),
    );
}

/// Delta encoding that never counts a page as hot, or that may use no spare space, stores all writes as whole pages.
#[test]
fn delta_encoding_that_never_applies_behaves_like_page_map() {
    let never_hot = DeltaOptions { access_count_table_entries: Some(0), ..DeltaOptions::default() };
    let no_space = DeltaOptions { max_delta_share_of_spare_pages: 0.0, ..DeltaOptions::default() };
    for design in [never_hot, no_space] {
        assert_equal_recorded_ops(
            &page_map(GcOptions::default()),
            &delta(GcOptions::default(), design, None),
        );
    }
}

/// The integrated design without deduplication and compression has no content mechanism.
#[test]
fn the_integrated_design_without_schemes_behaves_like_page_map() {
    assert_equal_recorded_ops(
        &page_map(GcOptions::default()),
        &integrated(GcOptions::default(), None, false),
    );
}

/// If all entries fit, every kind of reverse map (record of the logical pages that share a flash page) causes the same
/// mappings, programs and erases.
#[test]
fn all_reverse_maps_with_enough_room_give_the_same_mappings_and_counts() {
    /// Bytes of NVRAM, enough for all entries of a run.
    const NVRAM_BYTES: u64 = 1 << 18;
    let segments = |segment_bytes| ReverseMapKind::Segments { nvram_bytes: NVRAM_BYTES, segment_bytes };
    let log = ReverseMapKind::NvramLog { nvram_bytes: NVRAM_BYTES };
    for (number, tiny_device) in (0u64..).zip(tiny_devices()) {
        let logical = tiny_device.logical_pages(&remap_design_with_dedup(ReverseMapKind::Ideal, None));
        let run = |part: ReverseMapKind| {
            let medium =
                SimNand::new(tiny_device.geometry.clone(), RetainedPageFields::ALL).with_nvram(NVRAM_BYTES);
            let parts = remap_design_with_dedup(part, None);
            let options = DeviceOptions { buffer: BUFFERS[0] };
            let mut device =
                Device::new(recording_medium(medium), logical, &parts, options).expect("it fits");
            let mut oracle = Oracle::for_device(&device, MANY_CONTENTS as usize);
            let (sectors, sectors_per_page) = (oracle.sectors(), oracle.sectors_per_page());
            let random = Random::new(number);
            let mut operation_generator = OperationGenerator {
                random,
                sectors,
                sectors_per_page,
                content_count: MANY_CONTENTS,
                changes_policies: false,
            };
            for _ in 0..OPERATIONS {
                oracle.apply(&mut device, operation_generator.draw()).expect("there is room");
            }
            oracle.compare_all_logical_pages(&mut device).expect("a healthy medium reads");
            let stats = device.ftl().stats();
            assert_eq!(stats.writes_due_to_full_reverse_map, 0, "there is room for every entry");
            assert!(stats.deduplicated_writes > 100 && stats.gc_victims > 10, "world {}", tiny_device.name);
            recorded_ops(&device).to_vec()
        };
        let ideal = run(ReverseMapKind::Ideal);
        for part in [segments(64), segments(1024), log] {
            assert!(run(part) == ideal, "{part:?} on world {}", tiny_device.name);
        }
    }
}

/// If the map fits the cache, translation pages are neither read nor written.
#[test]
fn dftl_with_all_entries_cached_has_no_translation_traffic() {
    for tiny_device in tiny_devices() {
        let parts = dftl_with_whole_map_cached(GcOptions::default());
        let device = run(
            nand_with_all_page_fields(&tiny_device),
            tiny_device.logical_pages(&parts),
            &parts,
            BUFFERS[0],
            3,
        );
        let translation = wearwell::operation::Cause::Translation as usize;
        let stats = device.ftl().stats();
        assert_eq!(
            (stats.programs[translation], stats.reads[translation]),
            (0, 0),
            "world {}",
            tiny_device.name
        );
    }
}

/// A lazy map identifies invalid pages when it writes a translation page, an eager map at the write of the logical
/// page. After all dirty map entries are written, both map the same flash pages with the same contents, and count
/// exactly these as valid.
#[test]
fn lazy_and_eager_maps_agree_after_all_dirty_entries_are_written() {
    let on_flash: Vec<_> = ["dftl", "lazyftl", "u-ftl", "ib-ftl", "geckoftl"]
        .map(designs_with_prefix)
        .into_iter()
        .flatten()
        .collect();
    for (number, tiny_device) in (0u64..).zip(tiny_devices()) {
        let logical =
            on_flash.iter().map(|design| tiny_device.logical_pages(&design.parts)).min().expect("designs");
        let mapped = on_flash.iter().map(|design| {
            let mut device =
                run(nand_with_all_page_fields(&tiny_device), logical, &design.parts, BUFFERS[0], number);
            device.ftl_mut().write_back_ram_state().expect("there is room");
            let blocks = device.ftl().store().blocks();
            let of_data = (0..blocks.len()).map(BlockId).filter(|&block| {
                !matches!(blocks.state(block), BlockState::Free | BlockState::Retired)
                    && blocks.kind(block) == PageKind::Data
            });
            let valid: u32 = of_data.map(|block| blocks.valid_pages(block)).sum();
            let is_mapped = |&lpn: &u32| device.ftl_mut().read(Lpn(lpn), &mut []).expect("it reads");
            let mapped: Vec<u32> = (0..logical).filter(is_mapped).collect();
            assert_eq!(valid as usize, mapped.len(), "{} on {}", design.name, tiny_device.name);
            mapped
        });
        let mapped: Vec<_> = mapped.collect();
        assert!(mapped.iter().all(|pages| *pages == mapped[0]), "world {}", tiny_device.name);
    }
}

/// Recycling-aware GC (RC-GC) weighs a block by its dirtiness, a sum over its dead pages. Without reads, every dead
/// page has recycle probability 0, so the dirtiness is the number of invalid pages. RC-GC and greedy then execute the
/// same operations, even where blocks are equal.
#[test]
fn without_reads_recycling_aware_gc_executes_the_operations_of_greedy_gc() {
    let recorded_ops_of_run = |tiny_device: &TinyDevice, victims, entries, seed| {
        let parts = recycling(gc_options_with_policy(victims), FingerprintStorePolicy::Probability, entries);
        let mut device =
            device(tiny_device, &parts, BUFFERS[0], recording_medium(nand_with_all_page_fields(tiny_device)));
        let mut oracle = Oracle::for_device(&device, CONTENTS as usize);
        let (sectors, sectors_per_page) = (oracle.sectors(), oracle.sectors_per_page());
        let random = Random::new(seed);
        let mut operation_generator = OperationGenerator {
            random,
            sectors,
            sectors_per_page,
            content_count: CONTENTS,
            changes_policies: false,
        };
        let whole_writes = std::iter::repeat_with(move || operation_generator.draw()).filter(|op| match op {
            Op::Write { first_sector: first, sectors, .. } => {
                first.is_multiple_of(sectors_per_page) && sectors.is_multiple_of(sectors_per_page)
            }
            Op::Trim { .. } | Op::Flush => true,
            _ => false,
        });
        for op in whole_writes.take(OPERATIONS as usize) {
            oracle.apply(&mut device, op).expect("there is room");
        }
        recorded_ops(&device).to_vec()
    };
    let mut erases = 0;
    for (seed, tiny_device) in (0u64..).zip(tiny_devices()) {
        for entries in [Some(0), Some(6), None] {
            let greedy = recorded_ops_of_run(&tiny_device, VictimPolicy::Greedy, entries, seed);
            let aware = recorded_ops_of_run(&tiny_device, VictimPolicy::RecycleAware, entries, seed);
            let first_difference = greedy.iter().zip(&aware).position(|(a, b)| a != b);
            assert_eq!((first_difference, greedy.len()), (None, aware.len()), "world {}", tiny_device.name);
            erases += greedy.iter().filter(|entry| matches!(entry, RecordedOp::Erase(_))).count();
        }
    }
    assert!(erases > 10_000, "garbage collection has to be at work: {erases} erases");
}

/// Without reads, each victim of recycling-aware GC is one of the blocks with the fewest valid pages.
#[test]
fn recycling_aware_gc_without_reads_takes_a_greedy_victim() {
    let tiny_device =
        tiny_devices().into_iter().find(|tiny_device| tiny_device.name == "slc").expect("a known world");
    let gc = GcOptions {
        background_gc_below_free_blocks: u32::MAX,
        ..gc_options_with_policy(VictimPolicy::RecycleAware)
    };
    let parts = recycling(gc, FingerprintStorePolicy::Probability, Some(20));
    let mut device = device(&tiny_device, &parts, BUFFERS[0], nand_with_all_page_fields(&tiny_device));
    let mut oracle = Oracle::for_device(&device, CONTENTS as usize);
    let (mut random, mut victims) = (Random::new(5), 0);
    for _ in 0..3000 {
        for _ in 0..=random.below(20) {
            let lpn = random.below(oracle.sectors());
            let op =
                Op::Write { first_sector: lpn, sectors: 1, content_id: random.below(CONTENTS as u64) as u16 };
            oracle.apply(&mut device, op).expect("there is room");
        }
        if device.ftl().store().free_blocks(0) < 3 {
            continue; // An urgent pool uses greedy by itself.
        }
        let before: Vec<(BlockId, u32, u32)> = closed_blocks(&device);
        let fewest = before.iter().map(|&(_, valid, _)| valid).min();
        if device.ftl_mut().collect_in_background().expect("there is room") {
            let wear = |block| device.ftl().store().nand().erase_count(block);
            let victim = before.iter().find(|&&(block, _, erases)| wear(block) > erases);
            assert_eq!(victim.map(|&(_, valid, _)| valid), fewest);
            victims += 1;
        }
    }
    assert!(victims > 1000, "{victims} victims");
}

/// Returns number, valid pages and erase count of each closed block.
fn closed_blocks(device: &Device) -> Vec<(BlockId, u32, u32)> {
    let store = device.ftl().store();
    (0..store.blocks().len())
        .map(BlockId)
        .filter(|&block| store.blocks().state(block) == BlockState::Closed)
        .map(|block| (block, store.blocks().valid_pages(block), store.nand().erase_count(block)))
        .collect()
}

/// A fingerprint store (of dead pages to revive) that never evicts finds the same dead pages under every policy. With
/// greedy GC, which does not depend on recycle probabilities, the devices then execute the same operations.
#[test]
fn unbounded_fingerprint_stores_have_equal_hits_under_every_policy() {
    for (number, tiny_device) in (0u64..).zip(tiny_devices()) {
        let hits = |policy| {
            let parts = recycling(GcOptions::default(), policy, None);
            let device = run(
                nand_with_all_page_fields(&tiny_device),
                tiny_device.logical_pages(&parts),
                &parts,
                BUFFERS[0],
                number,
            );
            let hits = device.ftl().recycler().expect("a recycling design").statistics().hits;
            assert_eq!(hits, device.ftl().stats().recycled_writes);
            hits
        };
        let lru = hits(FingerprintStorePolicy::Lru);
        assert_eq!(lru, hits(FingerprintStorePolicy::Probability), "world {}", tiny_device.name);
        assert!(lru > 500, "{lru} hits in world {}", tiny_device.name);
    }
}

/// A medium without a bulk copy of its own: [`Nand::copy`] reads and programs page by page.
#[derive(Clone)]
struct NandWithoutBulkCopy(SimNand);

impl Nand for NandWithoutBulkCopy {
    fn geometry(&self) -> &wearwell::nand::Geometry {
        self.0.geometry()
    }
    fn program(&mut self, ppn: Ppn, oob: Oob, content: Content<'_>) -> Result<(), NandError> {
        self.0.program(ppn, oob, content)
    }
    fn program_page_marked_lost(&mut self, ppn: Ppn, oob: Oob, spare: &[u8]) -> Result<(), NandError> {
        self.0.program_page_marked_lost(ppn, oob, spare)
    }
    fn read(&mut self, ppn: Ppn, into: &mut [u8]) -> Result<Oob, NandError> {
        self.0.read(ppn, into)
    }
    fn read_spare(&mut self, ppn: Ppn, into: &mut [u8]) -> Result<Oob, NandError> {
        self.0.read_spare(ppn, into)
    }
    fn probe_page(&mut self, ppn: Ppn) -> Result<Option<Oob>, NandError> {
        self.0.probe_page(ppn)
    }
    fn erase(&mut self, block: BlockId) -> Result<(), NandError> {
        self.0.erase(block)
    }
    fn mark_program_failed(&mut self, block: BlockId) {
        self.0.mark_program_failed(block);
    }
    fn has_failed_program(&self, block: BlockId) -> bool {
        self.0.has_failed_program(block)
    }
    fn mark_bad(&mut self, block: BlockId) {
        self.0.mark_bad(block);
    }
    fn is_bad(&self, block: BlockId) -> bool {
        self.0.is_bad(block)
    }
    fn erase_count(&self, block: BlockId) -> u32 {
        self.0.erase_count(block)
    }
    fn programmed_pages(&self, block: BlockId) -> u32 {
        self.0.programmed_pages(block)
    }
    fn keeps_host_bytes(&self) -> bool {
        self.0.keeps_host_bytes()
    }
    fn discard_bytes_of_metadata_pages(&mut self, pages: &[Ppn]) {
        self.0.discard_bytes_of_metadata_pages(pages);
    }
    fn oob_owner(&self, ppn: Ppn) -> u32 {
        self.0.oob_owner(ppn)
    }
    fn fingerprint(&self, ppn: Ppn) -> Fingerprint {
        self.0.fingerprint(ppn)
    }
    fn nvram(&self) -> &[u64] {
        self.0.nvram()
    }
    fn store_nvram_word(&mut self, index: usize, word: u64) -> Result<(), NandError> {
        self.0.store_nvram_word(index, word)
    }
}

/// Returns the simulated flash of a device with or without the wrappers of [`recording_medium`].
fn flash_below_wrappers(nand: AnyNand) -> SimNand {
    let AnyNand::Other(_) = nand else { return nand.downcast().expect("simulated flash") };
    let faulty: FaultyNand =
        nand.power_cut_nand().clone().into_inner().downcast().expect("the second wrapper");
    let recording: RecordingNand = faulty.into_inner().downcast().expect("the third wrapper");
    recording.into_inner().downcast().expect("simulated flash below the wrappers")
}

/// Returns OOB and bytes of every page (superseded metadata pages have no bytes), and the erase count of its block.
fn contents(nand: &mut SimNand) -> Vec<(Option<Oob>, Vec<u8>, u32)> {
    let geometry = nand.geometry().clone();
    let mut pages = Vec::new();
    for ppn in (0..geometry.pages() as u32).map(Ppn) {
        let oob = nand.probe_page(ppn).expect("a healthy medium reads");
        let mut bytes = Vec::new();
        if nand.has_bytes(ppn) {
            bytes.resize(geometry.page_bytes as usize, 0);
            nand.read(ppn, &mut bytes).expect("a healthy medium reads");
        }
        pages.push((oob, bytes, nand.erase_count(BlockId(ppn.0 / geometry.block_pages()))));
    }
    pages
}

/// The simulated medium copies the pages of a block at once. The media around it, for power cuts, faults and recording,
/// copy page by page. Both leave the same contents on flash, and the engine counts the same operations.
#[test]
fn bulk_copies_and_medium_wrappers_change_neither_flash_contents_nor_counters() {
    let mut designs = vec![
        page_map(GcOptions::default()),
        recycling(
            gc_options_with_policy(VictimPolicy::RecycleAware),
            FingerprintStorePolicy::Probability,
            Some(6),
        ),
        dftl(GcOptions::default(), DftlOptions { cache_entries: 4 }),
    ];
    designs
        .extend(["u-ftl", "geckoftl"].into_iter().flat_map(designs_with_prefix).map(|design| design.parts));
    for (number, tiny_device) in (0u64..).zip(tiny_devices()) {
        for parts in &designs {
            let logical = tiny_device.logical_pages(parts);
            let medium = || nand_with_all_page_fields(&tiny_device);
            let plain = run(medium(), logical, parts, BUFFERS[1], number);
            let wrapped = run(recording_medium(medium()), logical, parts, BUFFERS[1], number);
            assert_eq!(wrapped.ftl().stats(), plain.ftl().stats());
            assert_eq!(
                wrapped.ftl().store().nand().power_cut_nand().cuttable_operations_since_power_restore(),
                recorded_ops(&wrapped).len() as u64
            );
            let expected = contents(&mut flash_below_wrappers(plain.into_nand()));
            assert!(
                contents(&mut flash_below_wrappers(wrapped.into_nand())) == expected,
                "world {}",
                tiny_device.name
            );
        }
    }
}

/// If a page is unreadable, a bulk copy of pages stops there. The pages before it are copied, as with single reads and
/// programs.
#[test]
fn a_bulk_copy_stops_at_an_unreadable_page_like_single_copies() {
    use wearwell::nand::FaultInjectable;
    let tiny_device =
        tiny_devices().into_iter().find(|tiny_device| tiny_device.name == "slc").expect("a known world");
    let mut bulk = SimNand::new(tiny_device.geometry.clone(), RetainedPageFields::ALL);
    for ppn in 0..6 {
        if ppn == 3 {
            bulk.tear_program(Ppn(3));
            continue;
        }
        let oob = Oob {
            kind: PageKind::Data,
            owner: ppn,
            sequence_number: 1 + ppn as u64,
            first_write_sequence_number: 1 + ppn as u64,
            fingerprint: Fingerprint(4),
        };
        bulk.program(Ppn(ppn), oob, Content::Bytes(&[ppn as u8; 512])).expect("it is erased");
    }
    let mut by_page = NandWithoutBulkCopy(bulk.clone());
    let from: Vec<Ppn> = (1..6).map(Ppn).collect();
    let owners: Vec<Lpn> = (1..6).map(Lpn).collect();
    let run = ConsecutiveCopies {
        source_pages: &from,
        owners: &owners,
        first_destination: Ppn(16),
        first_sequence: 100,
    };
    let mut page = vec![0; 512];
    let outcome = (2, Err(NandError::Uncorrectable(Ppn(3))));
    assert_eq!(bulk.copy(run, &mut page), outcome);
    assert_eq!(by_page.copy(run, &mut page), outcome);
    for ppn in [16, 17, 18].map(Ppn) {
        assert_eq!(bulk.probe_page(ppn), by_page.probe_page(ppn));
    }
}

/// The simulated medium may store a metadata page as a change of another page. Pages are programmed, changed, copied,
/// dropped and erased in any order. Each page that still has bytes must read as it was programmed, as a whole and word
/// by word.
#[test]
fn metadata_pages_programmed_as_changes_of_other_pages_read_back_unchanged() {
    let tiny_device =
        tiny_devices().into_iter().find(|tiny_device| tiny_device.name == "slc").expect("a known world");
    let geometry = tiny_device.geometry.clone();
    let with_spare = (geometry.page_bytes + geometry.spare_bytes) as usize;
    for seed in 0..8 {
        let mut nand = SimNand::new(geometry.clone(), RetainedPageFields::default());
        let mut model = std::collections::BTreeMap::<Ppn, Vec<u8>>::new();
        let mut draw = (1..).map(|k| mix_bits(seed << 32 | k));
        let mut below = |n: usize| (draw.next().expect("no end") % n as u64) as usize;
        let mut next = vec![0; geometry.blocks() as usize];
        for sequence in 1..1000 {
            let block = BlockId(below(geometry.blocks() as usize) as u32);
            let first = geometry.first_page(block).0;
            if next[block.index()] == geometry.block_pages() {
                nand.erase(block).expect("it does not fail");
                model.retain(|ppn, _| !(first..first + geometry.block_pages()).contains(&ppn.0));
                next[block.index()] = 0;
                continue;
            }
            let to = Ppn(first + next[block.index()]);
            let oob = Oob {
                kind: PageKind::Translation,
                owner: 7,
                sequence_number: sequence,
                first_write_sequence_number: sequence,
                fingerprint: Fingerprint(0),
            };
            let base = model.iter().nth(below(model.len().max(1))).map(|(&ppn, bytes)| (ppn, bytes.clone()));
            let bytes = match (below(4), base) {
                (0, _) | (_, None) => {
                    let len = if below(2) == 0 { geometry.page_bytes as usize } else { with_spare };
                    let mut bytes: Vec<u8> = (0..len).map(|_| below(256) as u8).collect();
                    nand.program(to, oob, Content::Bytes(&bytes)).expect("it is erased");
                    bytes.resize(with_spare, 0);
                    bytes
                }
                (1, Some((base, bytes))) => {
                    let run = ConsecutiveCopies {
                        source_pages: &[base],
                        owners: &[Lpn(7)],
                        first_destination: to,
                        first_sequence: sequence,
                    };
                    assert_eq!(nand.copy(run, &mut vec![0; with_spare]), (1, Ok(())));
                    bytes
                }
                (_, Some((base, mut bytes))) => {
                    let places = (below(with_spare / 4)..with_spare / 4).step_by(1 + below(40));
                    let words = places
                        .map(|at| PageDataWord { word_index: at as u32, word_value: below(1 << 32) as u32 });
                    let words: Vec<PageDataWord> = words.collect();
                    nand.program_changed_page(to, oob, base, &words).expect("it is erased");
                    for word in words {
                        word.swap_into_page(&mut bytes);
                    }
                    bytes
                }
            };
            next[block.index()] += 1;
            model.insert(to, bytes);
            if below(3) == 0 {
                let given_up = *model.keys().nth(below(model.len())).expect("one was programmed");
                nand.discard_bytes_of_metadata_pages(&[given_up]);
                model.remove(&given_up);
            }
            for (&ppn, bytes) in &model {
                let mut read = vec![1; with_spare];
                nand.read(ppn, &mut read).expect("it is healthy");
                assert!(read == *bytes, "page {ppn}, seed {seed}, step {sequence}");
                let mut words: Vec<PageDataWord> =
                    (0..with_spare as u32 / 4).map(|k| PageDataWord::read_from(&[0; 4096], k)).collect();
                nand.read_words(ppn, &mut words).expect("it is healthy");
                assert!(
                    words.iter().all(|&word| word == PageDataWord::read_from(bytes, word.word_index)),
                    "words of page {ppn}"
                );
            }
        }
    }
}

/// Returns a page of content `id`: 192 of each 512 bytes are random, so that all such pages compress to about equal
/// sizes.
fn page_of(id: u64, page_bytes: usize) -> Vec<u8> {
    let mut page = vec![0; page_bytes];
    for (word, at) in page.chunks_exact_mut(8).zip(0u64..).filter(|&(_, at)| at % 64 < 24) {
        word.copy_from_slice(&mix_bits(id << 16 ^ at).to_le_bytes());
    }
    page
}

/// Returns the next version of a page: 192 of each 512 bytes differ from every version that may still be stored, so
/// that all deltas have the same size.
fn next_version(old: Option<&[u8]>, page_bytes: usize) -> Vec<u8> {
    let version = old.map_or(1, |old| old[0] % 255 + 1);
    (0..page_bytes).map(|at| if at % 512 < 192 { version } else { 0 }).collect()
}

/// Two devices that get the same requests, one with the bytes of pages, and one with descriptors (fingerprint and
/// sizes), as from a trace.
struct DevicesWithBytesAndDescriptors {
    /// Device that gets the bytes of written pages.
    device_with_bytes: Device,
    /// Device that gets a description of each written page (content id and sizes) in place of its bytes.
    device_with_descriptors: Device,
    /// Bytes last written to both devices, by logical page.
    contents: Vec<Option<Vec<u8>>>,
}

impl DevicesWithBytesAndDescriptors {
    /// Creates both devices of this design on the tiny device, without data.
    fn new(tiny_device: &TinyDevice, parts: &Parts, buffer: WriteBufferOptions) -> Self {
        let device_with_bytes = device(tiny_device, parts, buffer, nand_with_all_page_fields(tiny_device));
        let described = SimNand::new(tiny_device.geometry.clone(), parts.needed_retained_page_fields())
            .with_nvram(common::nvram_bytes(&tiny_device.geometry));
        let contents = vec![None; device_with_bytes.ftl().logical_pages() as usize];
        Self {
            device_with_descriptors: device(tiny_device, parts, buffer, described),
            device_with_bytes,
            contents,
        }
    }

    /// Returns the bytes per page.
    fn page_bytes(&self) -> u64 {
        self.device_with_bytes.ftl().store().geometry().page_bytes as u64
    }

    /// Writes content `id` to a page of both devices; `None` writes the next version of the page's content.
    fn write(&mut self, lpn: usize, id: Option<u64>) {
        let (page_bytes, old) = (self.page_bytes(), self.contents[lpn].take());
        let page = match id {
            Some(id) => page_of(id, page_bytes as usize),
            None => next_version(old.as_deref(), page_bytes as usize),
        };
        let descriptor = ContentDescriptor {
            fingerprint: fingerprint_of(&page),
            compressed_bytes: compressed_len(&page) as u16,
            delta_bytes: old.map_or(ContentDescriptor::UNKNOWN_SIZE, |old| delta_len(&page, &old) as u16),
        };
        let offset = lpn as u64 * page_bytes;
        self.device_with_bytes.write(offset, page_bytes, HostData::Bytes(&page)).expect("there is room");
        self.device_with_descriptors
            .write_page_descriptor(Lpn(lpn as u32), descriptor)
            .expect("there is room");
        self.contents[lpn] = Some(page);
    }

    /// Executes a request on both devices; panics at an error.
    fn execute_on_both(&mut self, mut request: impl FnMut(&mut Device) -> wearwell::Result<()>) {
        request(&mut self.device_with_bytes).expect("there is room");
        request(&mut self.device_with_descriptors).expect("there is room");
    }

    /// Executes a remap on both devices and returns whether it was executed. Both devices must refuse an atomic remap
    /// if the entries of the whole command do not fit the reverse map.
    fn remap_on_both(&mut self, request: impl Fn(&mut Device) -> wearwell::Result<()>) -> bool {
        let [device_with_bytes, device_with_descriptors] =
            [request(&mut self.device_with_bytes), request(&mut self.device_with_descriptors)];
        assert_eq!(device_with_bytes, device_with_descriptors, "bytes and descriptors");
        let is_refused = matches!(device_with_bytes, Err(wearwell::Error::NotAtomic { .. }));
        assert!(is_refused || device_with_bytes.is_ok(), "there is room: {device_with_bytes:?}");
        !is_refused
    }

    /// Remaps one page on both devices, and records the contents that the pages then have.
    fn remap(&mut self, target: usize, source: usize, mode: RemapMode) {
        let page_bytes = self.page_bytes();
        let [to, from] = [target, source].map(|lpn| lpn as u64 * page_bytes);
        let is_done = self.remap_on_both(|device| device.remap(to, from, page_bytes, mode));
        if is_done && target != source {
            self.contents[target] = self.contents[source].clone();
            if mode == RemapMode::Relocate {
                self.contents[source] = None;
            }
        }
    }

    /// Executes a random operation on both devices: 10 % trims, 10 % reads, 3 % flushes, `remaps` % remaps, otherwise a
    /// write of content `id` (`None`: the next version of the page).
    fn execute_random_operation(&mut self, random: &mut Random, remaps: u64, id: Option<u64>) {
        let page_bytes = self.page_bytes();
        let lpn = random.below(self.contents.len() as u64) as usize;
        let offset = lpn as u64 * page_bytes;
        match random.below(100) {
            0..10 => {
                self.execute_on_both(|device| device.trim(offset, page_bytes));
                self.contents[lpn] = None;
            }
            10..20 => {
                // The device with descriptors has no bytes to read.
                let mut page = vec![0; page_bytes as usize];
                self.device_with_bytes.read(offset, page_bytes, &mut page).expect("a healthy medium reads");
                self.device_with_descriptors
                    .read(offset, page_bytes, &mut [])
                    .expect("a healthy medium reads");
            }
            20..23 => self.execute_on_both(Device::flush),
            draw if draw < 23 + remaps => {
                let source = random.below(self.contents.len() as u64) as usize;
                let mode =
                    if random.is_true_with_percent(33) { RemapMode::Relocate } else { RemapMode::Copy };
                self.remap(lpn, source, mode);
            }
            _ => self.write(lpn, id),
        }
    }
}

/// Two devices get the same requests, one with bytes and one with content descriptors. Requests are whole pages,
/// because a descriptor stands for one page. Some properties of contents cannot be described, and are avoided: how two
/// equal pages compress together, and how a page differs from a version before the last. Pages are not remapped where
/// sizes matter, because a device that executes a remap as a write does not know the sizes of the page. By default each
/// design runs on every second tiny device with one write buffer; with `WEARWELL_SOAK=1`, on every tiny device with
/// every buffer.
#[test]
fn writes_of_bytes_and_of_content_descriptors_give_the_same_counters() {
    for (number, design) in (0u64..).zip(designs()) {
        let content = &design.parts.content;
        let sizes_matter = content.delta.is_some() || content.chunks.is_some();
        let is_silent = content.stateless_mechanisms.contains(MechanismKind::Silent);
        let binds_equal = content.recycle.is_some() || content.sharing.is_some();
        let finds_equal = is_silent || binds_equal;
        let remaps = if sizes_matter { 0 } else { 10 };
        let [mut binds, mut sized] = [0; 2];
        let tiny_devices = (number..).zip(design.tiny_devices_with_enough_space());
        for (turn, tiny_device) in tiny_devices.filter(|(turn, _)| turn.is_multiple_of(test_case_interval(2)))
        {
            for buffer in buffers_for_case(turn / test_case_interval(2)) {
                let mut twins = DevicesWithBytesAndDescriptors::new(&tiny_device, &design.parts, buffer);
                let mut random = Random::new(number);
                for k in 0..2000 {
                    // Flushed so often that equal contents are never buffered for the same chunk.
                    if k % 16 == 0 && content.chunks.is_some() {
                        twins.execute_on_both(Device::flush);
                    }
                    let id = if finds_equal { k % 16 + 16 * random.below(4) } else { k };
                    twins.execute_random_operation(
                        &mut random,
                        remaps,
                        content.delta.is_none().then_some(id),
                    );
                }
                let (device_with_bytes, device_with_descriptors) =
                    (twins.device_with_bytes.ftl().stats(), twins.device_with_descriptors.ftl().stats());
                assert_eq!(
                    device_with_bytes, device_with_descriptors,
                    "{} on world {}",
                    design.name, tiny_device.name
                );
                binds += device_with_bytes.recycled_writes
                    + device_with_bytes.deduplicated_writes
                    + device_with_bytes.unchanged_writes;
                sized += device_with_bytes.delta_writes + device_with_bytes.compressed_chunk_writes;
            }
        }
        let shares = content.sharing.is_none_or(|sharing| sharing.reverse_map != ReverseMapKind::OobOnly);
        // Without deltas contents repeat, and some of them on the same page.
        let saves = binds_equal && shares || is_silent && content.delta.is_none();
        let least = 80 / test_case_interval(2);
        assert_eq!(binds > least, saves, "{}: {binds} binds and silent writes", design.name);
        assert_eq!(sized > least, sizes_matter, "{}: {sized} deltas and members", design.name);
    }
}
