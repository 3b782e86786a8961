//! Chain of comparisons from the composed design `wearwell` to the designs of the papers: tests that it contains them.
//!
//! A drive has all content mechanisms of `wearwell`, but only those of a paper are switched on. With map, page validity
//! and recovery as in the paper, it executes the flash operations of the paper's design, one by one. So a mechanism
//! that is off disturbs nothing. Where an assumption of a paper differs, the tests compare the numbers of operations by
//! cause, on the tiny device `slc` without a write buffer. `docs/verification.md` lists these numbers: first those of
//! the composed drive, then those of the paper's design.

use MechanismKind::{Dedup, Delta, Recycle};
use wearwell::Device;
use wearwell::DeviceOptions;
use wearwell::content::dedup::DedupOptions;
use wearwell::content::recycle::{FingerprintStorePolicy, RecycleOptions};
use wearwell::design::{
    DeltaOptions, GeckoFtlOptions, MappingPart, Parts, Persistence, RecoveryBlockScan, RecyclingPart,
    SharingOptions, WearwellOptions, delta, geckoftl, integrated, page_map, recyclable, remap, wearwell,
};
use wearwell::gc::GcOptions;
use wearwell::lifetime::{
    EnergyModel, EpochDecision, LifetimeController, LifetimeCounters, LifetimeOptions,
    LifetimePaperConfiguration, MechanismKind, MechanismSet, WriteActivity,
};
use wearwell::mapping::{DemandPagedMapOptions, InvalidPageIdentification};
use wearwell::nand::{RecordedOp, RetainedPageFields, SimNand};
use wearwell::operation::{Cause, FlashOp, OpKind};
use wearwell::sharing::counts::ReferenceCountForm;
use wearwell::sharing::reverse_map::ReverseMapKind;
use wearwell::stats::Stats;
use wearwell::validity::{GeckoOptions, MergeMode, ValidityStoreKind};
use wearwell::write_buffer::WriteBufferOptions;

use super::DOCUMENT;
use crate::common::{
    BUFFERS, Op, OperationGenerator, Oracle, Random, TinyDevice, accepts_logical_pages, recorded_ops,
    recording_medium, tiny_devices,
};

/// Number of host operations of a run.
const OPERATIONS: u64 = 12_000;
/// Bytes of NVRAM of the drives.
const NVRAM_BYTES: u64 = 1 << 18;
/// Number of entries of a map cache that is smaller than the map.
const FEW_MAP_CACHE_ENTRIES: u32 = 10;
/// Options of Logarithmic Gecko (page validity on flash): runs are merged all at once, and each level is twice the size
/// of the one below it.
const GECKO: GeckoOptions =
    GeckoOptions { size_ratio: 2, parts_per_block: 1, merge_mode: MergeMode::MultiWay };
/// Deduplication with an unbounded content index, which compares bytes before it shares content.
const DEDUP: DedupOptions = DedupOptions { capacity_entries: None, must_verify_hits: true };

/// Which of a design's content mechanisms (deduplication, deltas and others) are switched on during a run.
#[derive(Clone, Copy)]
enum RunningMechanisms {
    /// All mechanisms that the design has are on.
    AllMechanisms,
    /// Only these mechanisms are on.
    OnlyMechanisms(&'static [MechanismKind]),
    /// Deduplication and compression are switched on and off in each epoch (management period), by the algorithm of the
    /// integrated-lifetime paper.
    SwitchedByLifetimeManager,
}

/// A design, and which of its content mechanisms run.
#[derive(Clone)]
struct Variant {
    /// Parts of which the design consists.
    parts: Parts,
    /// Content mechanisms that are switched on during the run.
    running_mechanisms: RunningMechanisms,
}

/// Host requests of a run: number of distinct contents, and whether the host remaps pages.
#[derive(Clone, Copy)]
struct HostWorkload {
    /// Number of distinct contents that the host writes.
    distinct_content_count: u16,
    /// Whether the host sends remap commands.
    remaps: bool,
}

/// Load with few contents, so that contents become invalid and are written again.
const FEW_CONTENTS: HostWorkload = HostWorkload { distinct_content_count: 9, remaps: false };
/// Load with so many contents that a drive with deduplication needs GC.
const MANY_CONTENTS: HostWorkload = HostWorkload { distinct_content_count: 200, remaps: true };

/// Flash operations, lifetime decisions and counters of one run of a drive.
#[derive(PartialEq)]
struct RecordedRun {
    /// Programs and erases in order, with their addresses and owners.
    programs_and_erases: Vec<RecordedOp>,
    /// All flash operations in order, with their causes: first a list of those that requests waited for, then a list of
    /// the deferred ones.
    request_and_deferred_ops: [Vec<FlashOp>; 2],
    /// Decisions of the lifetime manager (which schemes run, whether writes are throttled), one per epoch.
    decisions: Vec<EpochDecision>,
    /// Counters of the drive at the end of the run.
    stats: Stats,
}

/// Returns the options of recycling and of delta encoding, with tables of so few entries that entries are evicted
/// during a run.
fn recycling_and_delta_options() -> (RecyclingPart, DeltaOptions) {
    let policy = FingerprintStorePolicy::ProbabilityFastLoading { window: 1 };
    let options = RecycleOptions { capacity_entries: Some(6), policy, ..RecycleOptions::default() };
    let deltas = DeltaOptions {
        access_count_table_entries: Some(24),
        cold_scan_interval_writes: 16,
        deltas_per_cold_scan: 4,
        ..DeltaOptions::default()
    };
    (RecyclingPart { options, must_verify_hits: true }, deltas)
}

/// Returns the design `wearwell`, composed of all content mechanisms, with a map cache of `cache_entries` entries.
fn wearwell_design(cache_entries: u32) -> Parts {
    let (recycle, delta) = recycling_and_delta_options();
    let options = WearwellOptions { cache_entries, gecko: GECKO, recycle, dedup: DEDUP, delta };
    wearwell(GcOptions::default(), options)
}

/// Returns the design `wearwell` with map and page validity in RAM, which a battery keeps.
fn wearwell_design_with_battery_ram() -> Parts {
    let (mapping, validity) = (MappingPart::Flat, ValidityStoreKind::Ram);
    without_recovery_notes(Parts {
        mapping,
        validity,
        persistence: Persistence::BatteryRam,
        ..wearwell_design(1)
    })
}

/// Changes a design so that it keeps no notes for recovery in NVRAM.
fn without_recovery_notes(parts: Parts) -> Parts {
    Parts { recovery_block_scan: RecoveryBlockScan::OobScan, ..parts }
}

/// Changes a design so that no page ever counts as hot in its delta encoding. So delta encoding, while it is switched
/// off, does not read old pages to estimate from samples what it would save.
fn without_delta_sampling(mut parts: Parts) -> Parts {
    let never_hot = DeltaOptions { access_count_table_entries: Some(0), ..recycling_and_delta_options().1 };
    parts.content.delta = parts.content.delta.and(Some(never_hot));
    parts
}

/// Changes a design so that it has no delta encoding, and keeps no open block for it.
fn without_deltas(mut parts: Parts) -> Parts {
    parts.content.delta = None;
    parts
}

/// Changes a design so that it has no compression, and keeps no open blocks for it.
fn without_chunks(mut parts: Parts) -> Parts {
    parts.content.chunks = None;
    parts
}

/// Returns a variant of a design in which all content mechanisms are on.
fn variant_with_all_mechanisms_on(parts: Parts) -> Variant {
    Variant { parts, running_mechanisms: RunningMechanisms::AllMechanisms }
}

/// Returns a variant of a design in which only the content mechanisms `running_mechanisms` are on.
fn variant_with_only_these_mechanisms_on(
    running_mechanisms: &'static [MechanismKind],
    parts: Parts,
) -> Variant {
    Variant { parts, running_mechanisms: RunningMechanisms::OnlyMechanisms(running_mechanisms) }
}

/// Lifetime manager of the integrated-lifetime paper, which switches deduplication and compression, and throttles
/// writes. It is called every two seconds with one request, so that an epoch (management period) has 150 requests.
struct LifetimeManagerUnderTest {
    /// Lifetime manager under test.
    lifetime: LifetimeController,
    /// Bytes that the drive may program in its whole life.
    capacity_bytes: u64,
}

impl LifetimeManagerUnderTest {
    /// Time between two requests, seconds.
    const SECONDS_PER_REQUEST: u64 = 2;

    /// Returns a lifetime manager for a drive that may program 40 pages per epoch, fewer than the host writes.
    fn new(page_bytes: u32) -> Self {
        let options = LifetimeOptions::of_integrated_lifetime_paper(
            LifetimePaperConfiguration::Integrated,
            &EnergyModel::STATED_IN_PAPER,
        );
        let capacity_bytes = 40 * u64::from(page_bytes) * options.target_epochs();
        Self { lifetime: LifetimeController::new(options), capacity_bytes }
    }

    /// Advances the time to that of request number `request`. If an epoch (management period) has ended, switches
    /// content mechanisms by the decision, and returns it.
    fn advance(&mut self, request: u64, device: &mut Device) -> Option<EpochDecision> {
        let ftl = device.ftl_mut();
        let page_bytes = u64::from(ftl.store().geometry().page_bytes);
        let stats = ftl.stats();
        let activity = WriteActivity {
            host_bytes: stats.host_page_writes * page_bytes,
            host_programmed_bytes: ftl.pages_programmed_for_host_writes() * page_bytes,
            flash_bytes: stats.total_programs() * page_bytes,
            throttled_ns: 0,
        };
        let remaining_bytes = self.capacity_bytes.saturating_sub(activity.flash_bytes);
        let kinds = self
            .lifetime
            .options()
            .schemes
            .iter()
            .map(|scheme| ftl.scheme_byte_counts(scheme.kind))
            .collect();
        let counters = LifetimeCounters {
            activity,
            remaining_endurance_bytes: remaining_bytes,
            scheme_byte_counts: kinds,
        };
        let now = request * Self::SECONDS_PER_REQUEST * 1_000_000_000;
        let decision = self.lifetime.advance_to(now, &counters)?;
        ftl.switch_content_mechanisms(self.lifetime.running_schemes()).expect("there is room");
        Some(decision)
    }
}

/// Returns the flash operations among `operations`, without scans of NVRAM, and with `ops_back_to_dependency` 0, so
/// that lists are equal if they have the same operations in the same order.
fn comparable_flash_ops(operations: &[FlashOp]) -> impl Iterator<Item = FlashOp> {
    let comparable_flash_ops = operations.iter().filter(|operation| operation.kind != OpKind::NvramScan);
    comparable_flash_ops.map(|&operation| FlashOp { ops_back_to_dependency: 0, ..operation })
}

/// Executes random host operations on a drive of `logical` pages, compares all contents at the end, and returns what
/// was recorded.
fn run(
    variant: &Variant,
    tiny_device: &TinyDevice,
    logical: u32,
    buffer: WriteBufferOptions,
    workload: HostWorkload,
) -> RecordedRun {
    let medium = SimNand::new(tiny_device.geometry.clone(), RetainedPageFields::ALL).with_nvram(NVRAM_BYTES);
    let mut device = Device::new(recording_medium(medium), logical, &variant.parts, DeviceOptions { buffer })
        .expect("it fits");
    let mut manager = match variant.running_mechanisms {
        RunningMechanisms::AllMechanisms => None,
        RunningMechanisms::OnlyMechanisms(kinds) => {
            let running_mechanisms: MechanismSet = kinds.iter().copied().collect();
            device.ftl_mut().switch_content_mechanisms(running_mechanisms).expect("nothing is buffered");
            None
        }
        RunningMechanisms::SwitchedByLifetimeManager => {
            Some(LifetimeManagerUnderTest::new(tiny_device.geometry.page_bytes))
        }
    };
    device.ftl_mut().store_mut().flash_ops.set_op_recording(true);
    let mut oracle = Oracle::for_device(&device, workload.distinct_content_count as usize);
    let (sectors, sectors_per_page) = (oracle.sectors(), oracle.sectors_per_page());
    let random = Random::new(u64::from(logical));
    let mut operation_generator = OperationGenerator {
        random,
        sectors,
        sectors_per_page,
        content_count: workload.distinct_content_count,
        changes_policies: false,
    };
    let (mut request_and_deferred_ops, mut decisions) = ([const { Vec::new() }; 2], Vec::new());
    for request in 0..OPERATIONS {
        decisions.extend(manager.as_mut().and_then(|manager| manager.advance(request, &mut device)));
        let op = operation_generator.draw();
        if workload.remaps || !matches!(op, Op::Remap { .. }) {
            oracle.apply(&mut device, op).expect("there is room");
        }
        request_and_deferred_ops[0].extend(comparable_flash_ops(device.flash_ops_of_last_request()));
        request_and_deferred_ops[1].extend(comparable_flash_ops(device.deferred_flash_ops()));
        device.ftl_mut().store_mut().flash_ops.clear();
    }
    oracle.compare_all_logical_pages(&mut device).expect("a healthy medium reads");
    let stats = device.ftl().stats().clone();
    RecordedRun {
        programs_and_erases: recorded_ops(&device).to_vec(),
        request_and_deferred_ops,
        decisions,
        stats,
    }
}

/// Returns the number of logical pages that both variants accept on a tiny device; `None` if one of them accepts none.
/// For this, an ideal reverse map stands in for a variant's own. The number is the same, because no reverse map of
/// these tests occupies flash.
fn common_logical_page_count(tiny_device: &TinyDevice, variants: [&Variant; 2]) -> Option<u32> {
    let sizes = variants.map(|variant| {
        let mut parts = without_recovery_notes(variant.parts.clone());
        if let Some(sharing) = &mut parts.content.sharing {
            sharing.reverse_map = ReverseMapKind::Ideal;
            parts.persistence = Persistence::BatteryRam;
        }
        accepts_logical_pages(&tiny_device.geometry, &parts, 1).then(|| tiny_device.logical_pages(&parts))
    });
    Some(sizes[0]?.min(sizes[1]?))
}

/// Asserts that two drives execute the same flash operations in the same order, on every tiny device that is large
/// enough for both, and with every write buffer.
fn assert_equal(one: &Variant, other: &Variant, workload: HostWorkload) {
    let (mut erases, mut served) = (0, 0);
    for tiny_device in tiny_devices() {
        let Some(logical) = common_logical_page_count(&tiny_device, [one, other]) else { continue };
        for buffer in BUFFERS {
            let [one, other] =
                [one, other].map(|variant| run(variant, &tiny_device, logical, buffer, workload));
            let first_difference =
                one.programs_and_erases.iter().zip(&other.programs_and_erases).position(|(a, b)| a != b);
            assert_eq!(
                (first_difference, one.programs_and_erases.len()),
                (None, other.programs_and_erases.len()),
                "world {}",
                tiny_device.name
            );
            for (k, name) in ["requests", "deferred work"].into_iter().enumerate() {
                let pairs = one.request_and_deferred_ops[k].iter().zip(&other.request_and_deferred_ops[k]);
                let first_difference = pairs.into_iter().position(|(a, b)| a != b);
                let lengths = [&one, &other].map(|run| run.request_and_deferred_ops[k].len());
                assert_eq!(
                    (first_difference, lengths[0]),
                    (None, lengths[1]),
                    "operations of {name}, {}",
                    tiny_device.name
                );
            }
            assert!(one.decisions == other.decisions, "world {}", tiny_device.name);
            erases += one.stats.total_erases();
            let stats = &one.stats;
            served += stats.recycled_writes
                + stats.deduplicated_writes
                + stats.delta_writes
                + stats.compressed_chunk_writes
                + stats.remapped_pages;
        }
    }
    assert!(erases > 1_000, "garbage collection has to be at work: {erases} erases");
    let running_mechanisms = [one, other]
        .map(|variant| !matches!(variant.running_mechanisms, RunningMechanisms::OnlyMechanisms([])));
    assert_eq!(served > 1_000, running_mechanisms[0], "mechanisms that run serve writes: {served} of them");
}

/// Returns the kinds and causes of flash operations whose numbers differ between two drives, as `cause one/other`.
fn op_count_differences(one: &Variant, other: &Variant, workload: HostWorkload) -> String {
    op_count_differences_on_tiny_device("slc", one, other, workload)
}

/// Returns the kinds and causes of flash operations whose numbers differ between two drives on the tiny device with
/// this name, as `cause one/other`. Asserts that `docs/verification.md` contains this text.
fn op_count_differences_on_tiny_device(
    tiny_device: &str,
    one: &Variant,
    other: &Variant,
    workload: HostWorkload,
) -> String {
    let tiny_device =
        tiny_devices().into_iter().find(|known| known.name == tiny_device).expect("a known world");
    let logical = common_logical_page_count(&tiny_device, [one, other]).expect("both have room");
    let [one, other] =
        [one, other].map(|variant| run(variant, &tiny_device, logical, BUFFERS[0], workload).stats);
    let of_kind = |name: &str, one: &[u64], other: &[u64]| {
        let differs = |cause: &&Cause| one[**cause as usize] != other[**cause as usize];
        let text =
            |cause: &Cause| format!("{} {}/{}", cause.name(), one[*cause as usize], other[*cause as usize]);
        let causes: Vec<String> = Cause::ALL.iter().filter(differs).map(text).collect();
        (!causes.is_empty()).then(|| format!("{name}: {}", causes.join(", ")))
    };
    let differing: Vec<String> = [
        of_kind("programs", &one.programs, &other.programs),
        of_kind("reads", &one.reads, &other.reads),
        of_kind("erases", &one.erases, &other.erases),
    ]
    .into_iter()
    .flatten()
    .collect();
    let counts = differing.join("; ");
    assert!(DOCUMENT.contains(&counts), "docs/verification.md does not have: {counts}");
    counts
}

/// Compares the design `wearwell`, all of whose content mechanisms are off and whose cache holds the whole map, with a
/// page map. Operations differ for two causes: page validity on flash, and the reads by which delta encoding estimates,
/// while it is off, what it would save.
#[test]
fn wearwell_with_a_cached_map_and_no_content_mechanism_executes_the_operations_of_page_map() {
    let other = variant_with_all_mechanisms_on(page_map(GcOptions::default()));
    let validity_in_ram =
        |parts: Parts| without_recovery_notes(Parts { validity: ValidityStoreKind::Ram, ..parts });
    let equal = without_delta_sampling(validity_in_ram(wearwell_design(u32::MAX)));
    assert_equal(&variant_with_only_these_mechanisms_on(&[], equal), &other, FEW_CONTENTS);
    let samples = variant_with_only_these_mechanisms_on(&[], validity_in_ram(wearwell_design(u32::MAX)));
    let found = [&samples, &variant_with_only_these_mechanisms_on(&[], wearwell_design(u32::MAX))]
        .map(|one| op_count_differences(one, &other, FEW_CONTENTS));
    assert_eq!(
        found,
        [
            "reads: content 6/0",
            "programs: gc 4005/3560, validity 105/0; \
         reads: gc 4005/3560, validity 812/0, content 6/0; \
         erases: gc 714/680"
        ],
        "samples; validity on flash as well"
    );
}

/// A remap command maps several logical pages to one flash page, even while deduplication is off. A page map has to
/// write a copy instead.
#[test]
fn remap_commands_share_pages_even_while_deduplication_is_off() {
    let parts = without_delta_sampling(without_recovery_notes(Parts {
        validity: ValidityStoreKind::Ram,
        ..wearwell_design(u32::MAX)
    }));
    let other = variant_with_all_mechanisms_on(page_map(GcOptions::default()));
    let workload = HostWorkload { remaps: true, ..FEW_CONTENTS };
    assert_eq!(
        op_count_differences(&variant_with_only_these_mechanisms_on(&[], parts), &other, workload),
        "programs: host 8163/9314, gc 3324/4510; reads: host 3715/4866, gc 3324/4510; erases: gc 682/828"
    );
}

/// Returns GeckoFTL as published, with the small map cache of these tests.
fn published_geckoftl() -> Parts {
    geckoftl(GcOptions::default(), GeckoFtlOptions { cache_entries: FEW_MAP_CACHE_ENTRIES, gecko: GECKO })
}

/// Compares the design `wearwell` without content mechanisms with GeckoFTL. GeckoFTL differs in four assumptions: GC
/// waits until metadata blocks are empty; the page that a write replaces is identified late; recovery is from flash
/// alone; and dirty map entries are not kept in NVRAM, which could become full. The test replaces one assumption after
/// the other by that of `wearwell`, and compares the numbers of operations.
#[test]
fn wearwell_without_content_mechanisms_executes_the_operations_of_geckoftl_with_an_eager_map() {
    let on_battery =
        |parts: Parts| without_recovery_notes(Parts { persistence: Persistence::BatteryRam, ..parts });
    let eager = |parts: Parts| {
        let mapping = MappingPart::Cached(DemandPagedMapOptions::with_cache_capacity(FEW_MAP_CACHE_ENTRIES));
        on_battery(Parts { mapping, ..parts })
    };
    let off = variant_with_only_these_mechanisms_on(
        &[],
        on_battery(without_delta_sampling(wearwell_design(FEW_MAP_CACHE_ENTRIES))),
    );
    let collects_metadata =
        variant_with_all_mechanisms_on(eager(Parts { gc: GcOptions::default(), ..published_geckoftl() }));
    assert_equal(&off, &collects_metadata, FEW_CONTENTS);

    let late = DemandPagedMapOptions {
        identification: InvalidPageIdentification::AtSynchronisation,
        ..DemandPagedMapOptions::with_cache_capacity(FEW_MAP_CACHE_ENTRIES)
    };
    let as_it_is = variant_with_only_these_mechanisms_on(&[], wearwell_design(FEW_MAP_CACHE_ENTRIES));
    let spares_metadata = variant_with_all_mechanisms_on(eager(published_geckoftl()));
    let lazy = variant_with_all_mechanisms_on(on_battery(Parts {
        mapping: MappingPart::Cached(late),
        ..published_geckoftl()
    }));
    let published = variant_with_all_mechanisms_on(published_geckoftl());
    let steps = [
        ("NVRAM and samples", &as_it_is, &off),
        ("metadata", &collects_metadata, &spares_metadata),
        ("late identification", &spares_metadata, &lazy),
        ("recovery from flash", &lazy, &published),
        ("all together", &as_it_is, &published),
    ];
    let found = steps.map(|(step, one, other)| (step, op_count_differences(one, other, FEW_CONTENTS)));
    let expected = [
        (
            "NVRAM and samples",
            "programs: gc 5435/5499, translation 4061/4118; \
         reads: gc 5435/5499, translation 17763/17797, validity 840/843, content 6/0; \
         erases: gc 1059/1066",
        ),
        (
            "metadata",
            "programs: gc 7448/6735, translation 4423/4544, validity 109/110; \
         reads: gc 7448/6735, translation 18205/18329, validity 978/1000; \
         erases: gc 1218/1180",
        ),
        (
            "late identification",
            "programs: gc 6735/6907, translation 4544/5253, validity 110/108; \
         reads: gc 6735/6950, translation 18329/10066, validity 1000/1010; \
         erases: gc 1180/1236",
        ),
        (
            "recovery from flash",
            "programs: gc 6540/6876, translation 5243/4639, validity 109/470, checkpoint 0/544; \
         reads: gc 6582/6931, translation 10098/9489, validity 989/1372, checkpoint 0/543; \
         erases: gc 1214/1254",
        ),
        (
            "all together",
            "programs: gc 5435/4989, translation 4061/4350, validity 106/443, checkpoint 0/527; \
         reads: gc 5435/5028, translation 17763/9322, validity 840/1214, content 6/0, checkpoint 0/527; \
         erases: gc 1059/1102",
        ),
    ];
    assert_eq!(found, expected.map(|(step, counts)| (step, counts.to_owned())));
}

/// Returns the published remap design with deduplication and this kind of reverse map, with all mechanisms on.
fn remap_ssd(reverse_map: ReverseMapKind) -> Variant {
    let dedup = Some(DEDUP);
    let sharing = SharingOptions {
        reverse_map,
        reference_count_form: ReferenceCountForm::Dense,
        dedup,
        has_atomic_remap_commands: false,
    };
    variant_with_all_mechanisms_on(remap(GcOptions::default(), sharing))
}

/// The design `wearwell`, with a flat map in NVRAM and only deduplication switched on, executes the operations of the
/// remap design.
#[test]
fn wearwell_with_a_flat_map_and_only_deduplication_executes_the_operations_of_the_remap_design() {
    let flat = without_delta_sampling(Parts {
        persistence: Persistence::NvramMap,
        ..wearwell_design_with_battery_ram()
    });
    let segments = ReverseMapKind::Segments { nvram_bytes: NVRAM_BYTES / 2, segment_bytes: 64 };
    for reverse_map in [ReverseMapKind::Ideal, segments] {
        assert_equal(
            &variant_with_only_these_mechanisms_on(&[Dedup], flat.clone()),
            &remap_ssd(reverse_map),
            MANY_CONTENTS,
        );
    }
    let composed = variant_with_only_these_mechanisms_on(&[Dedup], wearwell_design(FEW_MAP_CACHE_ENTRIES));
    assert_eq!(
        op_count_differences(&composed, &remap_ssd(ReverseMapKind::Ideal), MANY_CONTENTS),
        "programs: gc 50/19, translation 3894/0, validity 34/0; \
         reads: gc 50/19, translation 20352/0, validity 99/0; \
         erases: gc 309/61"
    );
}

/// The design `wearwell`, with map and page validity in battery-backed RAM and only recycling switched on, executes the
/// operations of the recyclable design.
#[test]
fn wearwell_with_battery_ram_and_only_recycling_executes_the_operations_of_the_recyclable_design() {
    let other =
        variant_with_all_mechanisms_on(recyclable(GcOptions::default(), recycling_and_delta_options().0));
    assert_equal(
        &variant_with_only_these_mechanisms_on(
            &[Recycle],
            without_delta_sampling(wearwell_design_with_battery_ram()),
        ),
        &other,
        FEW_CONTENTS,
    );
    let composed = variant_with_only_these_mechanisms_on(&[Recycle], wearwell_design(FEW_MAP_CACHE_ENTRIES));
    assert_eq!(
        op_count_differences(&composed, &other, FEW_CONTENTS),
        "programs: host 4069/4009, gc 3416/1944, translation 3711/0, validity 71/0; \
         reads: gc 3416/1944, translation 17378/0, validity 444/0, content 6229/6539; erases: gc 669/336"
    );
}

/// The design `wearwell`, with map and page validity in battery-backed RAM and only deltas switched on, executes the
/// operations of the delta design if it has no compression at all. With compression that is only switched off, the
/// numbers differ: it keeps open blocks, so that less spare space is left for deltas.
#[test]
fn wearwell_with_battery_ram_and_only_deltas_executes_the_operations_of_the_delta_design() {
    let other =
        variant_with_all_mechanisms_on(delta(GcOptions::default(), recycling_and_delta_options().1, None));
    assert_equal(
        &variant_with_only_these_mechanisms_on(&[Delta], without_chunks(wearwell_design_with_battery_ram())),
        &other,
        FEW_CONTENTS,
    );
    let found = op_count_differences_on_tiny_device(
        "tiny",
        &variant_with_only_these_mechanisms_on(&[Delta], wearwell_design_with_battery_ram()),
        &other,
        FEW_CONTENTS,
    );
    assert_eq!(
        found,
        "programs: host 8217/8215, gc 2131/2226, content 13/15; \
         reads: gc 2131/2226, content 29/33; \
         erases: gc 2586/2610",
        "on the smallest world"
    );
    // Without a battery, a flush writes staged deltas, and a delta is four bytes longer.
    let flat = variant_with_only_these_mechanisms_on(
        &[Delta],
        without_chunks(Parts { persistence: Persistence::NvramMap, ..wearwell_design_with_battery_ram() }),
    );
    let found =
        [flat, variant_with_only_these_mechanisms_on(&[Delta], wearwell_design(FEW_MAP_CACHE_ENTRIES))]
            .map(|one| op_count_differences(&one, &other, FEW_CONTENTS));
    assert_eq!(
        found,
        [
            "programs: host 7927/7928, gc 7441/7391, content 358/284; \
         reads: host 3775/3773, gc 7440/7391, content 705/655; \
         erases: gc 947/940",
            "programs: host 7665/7663, gc 6025/3917, translation 4185/0, validity 106/0, content 381/289; \
         reads: host 3929/3930, gc 6024/3918, translation 18057/0, validity 873/0, content 736/681; \
         erases: gc 1113/706"
        ],
        "no battery; all together"
    );
}

/// The design `wearwell` with only deduplication and compression executes the operations of the integrated design if it
/// has no delta encoding at all. With delta encoding that is only switched off, the numbers differ: it keeps an open
/// block, so that less spare space is left for compressed chunks.
#[test]
fn wearwell_with_only_deduplication_and_compression_executes_the_operations_of_the_integrated_design() {
    let managed =
        |parts: Parts| Variant { parts, running_mechanisms: RunningMechanisms::SwitchedByLifetimeManager };
    let other = managed(integrated(GcOptions::default(), Some(DEDUP), true));
    let workload = HostWorkload { remaps: false, ..MANY_CONTENTS };
    assert_equal(&managed(without_deltas(wearwell_design_with_battery_ram())), &other, workload);
    let found = [wearwell_design_with_battery_ram(), wearwell_design(FEW_MAP_CACHE_ENTRIES)]
        .map(|parts| op_count_differences(&managed(parts), &other, workload));
    assert_eq!(
        found,
        [
            "programs: gc 30/28, content 1021/988; \
         reads: host 7384/7651, content 12650/12961; \
         erases: gc 54/51",
            "programs: gc 57/18, translation 3393/0, validity 13/0, content 1118/977; \
         reads: host 7400/8249, gc 63/20, translation 17044/0, validity 42/0, content 12198/13236; \
         erases: gc 276/50"
        ],
        "an open block; all together"
    );
    let tiny_device =
        tiny_devices().into_iter().find(|tiny_device| tiny_device.name == "slc").expect("a known world");
    let logical = common_logical_page_count(&tiny_device, [&other, &other]).expect("it has room");
    let decisions = run(&other, &tiny_device, logical, BUFFERS[0], workload).decisions;
    assert!(decisions.iter().any(|decision| decision.enabled_schemes.contains(0)), "deduplication runs");
    assert!(decisions.iter().any(|decision| decision.enabled_schemes.contains(1)), "compression runs");
    assert!(
        decisions.windows(2).any(|pair| pair[0].enabled_schemes != pair[1].enabled_schemes),
        "the manager switches"
    );
}
