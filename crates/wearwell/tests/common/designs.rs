//! The designs (lists of FTL parts) that every test runs, one line each.

use wearwell::content::dedup::DedupOptions;
use wearwell::content::recycle::{DeadPageHistoryScope, FingerprintStorePolicy, RecycleOptions};
use wearwell::design::{
    DeltaOptions, DftlOptions, GeckoFtlOptions, MappingPart, Parts, Persistence, RecoveryBlockScan,
    RecyclingPart, SharingOptions, UFtlOptions, WearwellOptions, delta, delta_with_journal, dftl, geckoftl,
    ibftl, integrated, lazyftl, page_map, recyclable, remap, uftl, wearwell,
};
use wearwell::gc::{GcOptions, VictimPolicy, WearOptions};
use wearwell::lifetime::{MechanismKind, MechanismSet};
use wearwell::mapping::{DemandPagedMapOptions, JournalOptions};
use wearwell::sharing::counts::ReferenceCountForm;
use wearwell::sharing::reverse_map::ReverseMapKind;
use wearwell::validity::{FlashBitmapOptions, GeckoOptions, MergeMode, ValidityStoreKind};
use wearwell::write_buffer::WriteBufferOptions;
use wearwell::{Error, Ftl};

use super::worlds::{TinyDevice, tiny_devices};
use super::{BUFFERS, nand_with_all_page_fields};

/// A design that the tests run: its name, and the list of its parts.
#[derive(Clone)]
pub struct DesignUnderTest {
    /// Name of the design, which begins with its family.
    pub name: &'static str,
    /// Parts of which the design consists: map, page validity, content mechanisms and others.
    pub parts: Parts,
}

impl DesignUnderTest {
    /// Returns the number of distinct contents that tests write to this design: `few`, so that contents become invalid
    /// and are written again. Designs with deduplication get 16 times as many, so that they still program pages and
    /// need GC.
    pub fn distinct_content_count(&self, few: u16) -> u16 {
        let deduplicates = self.parts.content.sharing.is_some_and(|sharing| sharing.dedup.is_some());
        if deduplicates { 16 * few } else { few }
    }

    /// Returns the content schemes (deduplication, compression and others) that a test may switch on and off. A mixture
    /// (design of several mechanisms that tests compose) returns all its schemes. A published design returns none,
    /// because it always runs all its schemes.
    pub fn switchable_schemes(&self) -> MechanismSet {
        let is_mixture = self.name.starts_with("mixture");
        if is_mixture { MechanismSet::of_design(&self.parts.content) } else { MechanismSet::NONE }
    }

    /// Returns whether the design leaves at least one page for the host on this tiny device. Some mixtures (designs
    /// composed of several mechanisms) need more blocks for metadata and open blocks than the smallest devices have.
    ///
    /// # Panics
    /// If the parts of a mixture are refused for a reason other than space.
    pub fn fits_on_tiny_device(&self, tiny_device: &TinyDevice) -> bool {
        if !self.name.starts_with("mixture") {
            return true;
        }
        match Ftl::new(nand_with_all_page_fields(tiny_device), 1, &self.parts) {
            Ok(_) => true,
            Err(Error::TooFewPhysicalPages { .. }) => false,
            Err(error) => panic!("{}: {error}", self.name),
        }
    }

    /// Returns the tiny devices that have enough blocks for the design.
    pub fn tiny_devices_with_enough_space(&self) -> Vec<TinyDevice> {
        tiny_devices().into_iter().filter(|tiny_device| self.fits_on_tiny_device(tiny_device)).collect()
    }

    /// Returns one in `interval` of the tiny devices that have enough blocks for the design, which is the `number`th: other
    /// designs get others. With `WEARWELL_SOAK=1` returns all of them.
    pub fn sampled_tiny_devices(&self, number: u64, interval: u64) -> Vec<TinyDevice> {
        let numbered = (number..).zip(self.tiny_devices_with_enough_space());
        let sampled = numbered.filter(|(turn, _)| turn.is_multiple_of(test_case_interval(interval)));
        sampled.map(|(_, tiny_device)| tiny_device).collect()
    }

    /// Returns whether the design may buffer acknowledged pages in volatile RAM outside the write buffer, as staged
    /// deltas or in incomplete chunks.
    pub fn buffers_acknowledged_pages(&self) -> bool {
        let content = &self.parts.content;
        self.parts.persistence == Persistence::NvramMap
            && (content.delta.is_some() || content.chunks.is_some())
    }
}

/// Reverse map with small NVRAM segments, so that groups of segments grow, are compacted and are freed in short tests.
const NVRAM_SEGMENTS: ReverseMapKind =
    ReverseMapKind::Segments { nvram_bytes: super::NVRAM_BYTES, segment_bytes: 64 };
/// Reverse map (record of the logical pages that share a flash page) in NVRAM segments with room for three entries.
const NVRAM_SEGMENTS_OF_THREE_ENTRIES: ReverseMapKind =
    ReverseMapKind::Segments { nvram_bytes: super::NVRAM_BYTES, segment_bytes: 96 };
/// Reverse map (record of the logical pages that share a flash page) as a log in NVRAM.
const NVRAM_LOG: ReverseMapKind = ReverseMapKind::NvramLog { nvram_bytes: super::NVRAM_BYTES };
/// Reverse map (record of the logical pages that share a flash page) as a log of four flash pages.
const FLASH_LOG: ReverseMapKind = ReverseMapKind::FlashLog { log_pages: 4 };
/// Deduplication with an unbounded content index, which compares bytes before it shares content.
const VERIFIED_DEDUP: DedupOptions = DedupOptions { capacity_entries: None, must_verify_hits: true };
/// Policy of the fingerprint store that keeps the dead pages likeliest to be revived, and loads those of one
/// neighbouring logical page on each side.
const FAST_LOADING: FingerprintStorePolicy = FingerprintStorePolicy::ProbabilityFastLoading { window: 1 };
/// Victim policy that takes the block with the fewest valid pages.
const GREEDY: VictimPolicy = VictimPolicy::Greedy;
/// Victim policy that spares dead pages which are likely to be revived.
const RECYCLING_AWARE_GC: VictimPolicy = VictimPolicy::RecycleAware;

/// Returns the default GC options with this victim policy.
fn gc_with_policy(policy: VictimPolicy) -> GcOptions {
    GcOptions { policy, ..GcOptions::default() }
}

/// Returns the default GC options with this wear leveling.
fn gc_with_wear_leveling(wear: WearOptions) -> GcOptions {
    GcOptions { wear, ..GcOptions::default() }
}

/// Changes a design so that it has this wear leveling.
fn with_wear_leveling(parts: Parts, wear: WearOptions) -> Parts {
    Parts { gc: GcOptions { wear, ..parts.gc }, ..parts }
}

/// Changes a design so that its streams of metadata visit all pools (sets of planes) in turn.
fn with_striped_metadata(parts: Parts) -> Parts {
    Parts { gc: GcOptions { stripes_metadata: true, ..parts.gc }, ..parts }
}

/// Dynamic wear leveling, and static wear leveling at a gap of four erases, with erase counts read from a table.
const STATIC_LEVELING_BY_TABLE: WearOptions = WearOptions {
    levels_wear_dynamically: true,
    static_gap_erases: 4,
    scans_erase_counts: false,
    dual_pool_gap_erases: 0,
};
/// Static wear leveling at a gap of one erase, with erase counts found by a scan.
const STATIC_LEVELING_BY_SCAN: WearOptions = WearOptions {
    levels_wear_dynamically: false,
    static_gap_erases: 1,
    scans_erase_counts: true,
    dual_pool_gap_erases: 0,
};
/// Dual-pool wear leveling (hot and cold sets of blocks) at a gap of two erases.
const DUAL_POOL_LEVELING: WearOptions = WearOptions {
    levels_wear_dynamically: false,
    static_gap_erases: 0,
    scans_erase_counts: false,
    dual_pool_gap_erases: 2,
};
/// Dual-pool wear leveling (hot and cold sets of blocks) at a gap of two erases, together with dynamic wear leveling.
const DUAL_POOL_AND_DYNAMIC_LEVELING: WearOptions =
    WearOptions { levels_wear_dynamically: true, ..DUAL_POOL_LEVELING };

/// Changes a recycling design (revives dead pages) so that dead pages soon exceed the maximum age at which they may be
/// revived.
fn with_low_revival_age_limit(parts: Parts) -> Parts {
    let mut parts = parts;
    let recycle = parts.content.recycle.as_mut().expect("the design recycles");
    recycle.options.max_revival_age_programs = Some(150);
    parts
}

/// Returns a recycling design (revives dead pages) with this victim policy. Its fingerprint store has the replacement
/// policy `policy` and holds `entries` entries (`None`: unbounded). Tests use so few that entries are evicted on tiny
/// devices.
fn recycling_design(
    victims: VictimPolicy,
    policy: FingerprintStorePolicy,
    entries: Option<u32>,
    must_verify_hits: bool,
) -> Parts {
    let options = RecycleOptions { capacity_entries: entries, policy, ..RecycleOptions::default() };
    recyclable(gc_with_policy(victims), RecyclingPart { options, must_verify_hits })
}

/// Changes a recycling design so that its history (list of dead pages per logical page) contains only dead pages in the
/// fingerprint store.
fn with_history_only_of_stored_fingerprints(mut parts: Parts) -> Parts {
    let recycle = parts.content.recycle.as_mut().expect("the design recycles");
    recycle.options.dead_page_history_scope = DeadPageHistoryScope::FingerprintStore;
    parts
}

/// Returns the design `wearwell` with tables of a few entries, and with contents compared byte by byte.
fn small_wearwell_design() -> Parts {
    let content = with_history_only_of_stored_fingerprints(recycling_design(
        RECYCLING_AWARE_GC,
        FingerprintStorePolicy::Probability,
        Some(6),
        true,
    ))
    .content;
    wearwell(
        GcOptions::default(),
        WearwellOptions {
            cache_entries: 6,
            gecko: GeckoOptions { size_ratio: 2, parts_per_block: 1, merge_mode: MergeMode::MultiWay },
            recycle: content.recycle.expect("the design recycles"),
            dedup: DedupOptions { capacity_entries: Some(40), ..VERIFIED_DEDUP },
            delta: delta_design(1, None).content.delta.expect("the design encodes deltas"),
        },
    )
}

/// Returns the design `wearwell` with so little RAM for the tables of content mechanisms that they are full most of the
/// time.
fn wearwell_design_with_tiny_table_ram_limit() -> Parts {
    let mut parts = small_wearwell_design();
    parts.content.content_tables_ram_limit_bytes = Some(400);
    parts
}

/// Returns DFTL with a map cache of `cache_entries` entries.
fn demand_paged_design(cache_entries: u32) -> Parts {
    dftl(GcOptions::default(), DftlOptions { cache_entries })
}

/// Returns a remap design that deduplicates with an index of few entries, so that some of them are evicted; contents
/// are compared byte by byte.
fn remap_design(reverse_map: ReverseMapKind, refs: ReferenceCountForm, index_entries: Option<u32>) -> Parts {
    let dedup = Some(DedupOptions { capacity_entries: index_entries, must_verify_hits: true });
    remap(
        GcOptions::default(),
        SharingOptions { reverse_map, reference_count_form: refs, dedup, has_atomic_remap_commands: false },
    )
}

/// Returns a remap design with deduplication and atomic remap commands.
fn atomic_remap_design(reverse_map: ReverseMapKind) -> Parts {
    let dedup = Some(VERIFIED_DEDUP);
    let sharing = SharingOptions {
        reverse_map,
        reference_count_form: ReferenceCountForm::Dense,
        dedup,
        has_atomic_remap_commands: true,
    };
    remap(GcOptions::default(), sharing)
}

/// Changes a design so that every block has head and tail pages (which describe the block), and recovery reads them.
fn with_head_and_tail_pages(parts: Parts) -> Parts {
    Parts { recovery_block_scan: RecoveryBlockScan::HeadTail, ..parts }
}

/// Changes a design so that it keeps notes in NVRAM, which tell recovery what data pages it has to examine.
fn with_recovery_notes(parts: Parts) -> Parts {
    Parts { recovery_block_scan: RecoveryBlockScan::FirstPages, ..parts }
}

/// Returns a design with delta encoding for tiny devices: a page is hot after two accesses, accesses are counted for
/// few pages, and the search for cold pages runs every few writes.
fn delta_design(temp_buffer_pages: u32, cache_entries: Option<u32>) -> Parts {
    let design = DeltaOptions {
        access_count_table_entries: Some(24),
        temp_buffer_pages,
        cold_scan_interval_writes: 16,
        deltas_per_cold_scan: 4,
        max_delta_share_of_spare_pages: 1.0,
        ..DeltaOptions::default()
    };
    let gc = gc_with_policy(if temp_buffer_pages > 1 { VictimPolicy::DeadBytes } else { GREEDY });
    delta(gc, design, cache_entries.map(DemandPagedMapOptions::with_cache_capacity))
}

/// Returns a design with delta encoding, the map on flash, and a map journal (log of map changes). The journal is
/// merged into the translation pages when it has `pages` pages.
fn journalled_delta_design(cache_entries: u32, pages: u32) -> Parts {
    let Parts { gc, content, .. } = delta_design(1, Some(cache_entries));
    let delta = content.delta.expect("it encodes deltas");
    delta_with_journal(
        gc,
        delta,
        DemandPagedMapOptions::with_cache_capacity(cache_entries),
        JournalOptions { merge_start_pages: pages },
    )
}

/// Changes a design so that its map is on flash, with a cache of a few entries in RAM.
fn with_map_on_flash(cache_entries: u32, parts: Parts) -> Parts {
    Parts { mapping: MappingPart::Cached(DemandPagedMapOptions::with_cache_capacity(cache_entries)), ..parts }
}

/// Returns options of μ-FTL: entries of the map cache, and directory nodes of the map's tree that are cached.
fn uftl_options(cache_entries: u32, cached_directory_nodes: u32) -> UFtlOptions {
    UFtlOptions { cache_entries, cached_directory_nodes }
}

/// Returns GeckoFTL with a map cache of `cache_entries` entries. `size_ratio`, `parts` per block and `merge` mode are
/// options of its Logarithmic Gecko (page validity on flash).
fn geckoftl_design(cache_entries: u32, size_ratio: u32, parts: u32, merge: MergeMode) -> Parts {
    let gecko = GeckoOptions { size_ratio, parts_per_block: parts, merge_mode: merge };
    geckoftl(GcOptions::default(), GeckoFtlOptions { cache_entries, gecko })
}

/// Adds the elimination of silent writes (writes that change nothing) to a design.
fn with_silent_write_elimination(mut parts: Parts) -> Parts {
    parts.content.stateless_mechanisms = parts.content.stateless_mechanisms.with(MechanismKind::Silent);
    parts
}

/// Changes a design to its variant that needs no battery.
fn without_battery(parts: Parts) -> Parts {
    parts.without_battery()
}

/// Changes a design so that its map is kept in NVRAM, also if the design could recover its map from flash alone.
fn with_map_in_nvram(parts: Parts) -> Parts {
    Parts { persistence: Persistence::NvramMap, ..without_battery(parts) }
}

/// A content mechanism that tests combine with others in one design (a *mixture*): its name, and a function that adds
/// it to the parts of a design.
type Mechanism = (&'static str, fn(&mut Parts));
/// Content mechanisms of which mixtures (designs composed of several mechanisms) are made.
const MECHANISMS: [Mechanism; 5] = [
    ("recycle", |parts| {
        parts.content.recycle =
            recycling_design(RECYCLING_AWARE_GC, FAST_LOADING, Some(6), true).content.recycle;
    }),
    ("share", |parts| {
        parts.content.sharing =
            remap_design(ReverseMapKind::Ideal, ReferenceCountForm::Sparse, Some(40)).content.sharing;
    }),
    ("delta", |parts| parts.content.delta = delta_design(1, None).content.delta),
    ("compress", |parts| parts.content.chunks = integrated(GcOptions::default(), None, true).content.chunks),
    ("silent", |parts| *parts = with_silent_write_elimination(parts.clone())),
];

/// Names of the mixtures (designs of several content mechanisms) that are tested by default. They combine every two
/// mechanisms, with and without a third, and every mechanism with every map and every kind of page validity.
const MIXED_DESIGNS_COVERING_ALL_PAIRS: [&str; 33] = [
    "mixture flat recycle+share",
    "mixture flat delta+compress",
    "mixture flat recycle+share+delta+compress",
    "mixture cached recycle+delta",
    "mixture cached share+compress",
    "mixture cached recycle+share+delta+compress",
    "mixture nvram recycle+share+compress",
    "mixture nvram delta+compress",
    "mixture nvram recycle+share+delta",
    "mixture nvram cached recycle+delta",
    "mixture nvram cached share+compress",
    "mixture nvram cached recycle+share+delta+compress",
    "mixture nvram flat+log recycle+share+compress",
    "mixture nvram flat+gecko delta+compress",
    "mixture nvram flat+log recycle+share+delta",
    "mixture nvram cached+log share+delta",
    "mixture nvram cached+gecko recycle+share+delta+compress",
    "mixture noted cached+log recycle+share+delta",
    "mixture noted cached+gecko recycle+share+delta+compress",
    "mixture noted cached+gecko recycle+compress",
    "mixture noted cached+gecko alone",
    "mixture flat+bitmap recycle+share+delta",
    "mixture flat+log share+compress",
    "mixture flat+gecko recycle",
    "mixture cached+bitmap delta+compress",
    "mixture cached+log recycle+share+delta",
    "mixture cached+gecko recycle+share+compress",
    "mixture cached+gecko recycle+share+delta",
    "mixture cached+bitmap alone",
    "mixture cached+log alone",
    "mixture cached+gecko alone",
    "mixture flat recycle+silent",
    "mixture nvram cached delta+compress+silent",
];

/// Returns the mixtures (designs of several content mechanisms) that are tested: those in
/// [`MIXED_DESIGNS_COVERING_ALL_PAIRS`], or all with `WEARWELL_DESIGN=mixture`.
fn mixed_designs_under_test() -> impl Iterator<Item = (&'static str, Parts)> {
    let asked_for = design_name_prefix().is_some_and(|family| family.starts_with("mixture"));
    mixed_designs()
        .into_iter()
        .filter(move |(name, _)| asked_for || MIXED_DESIGNS_COVERING_ALL_PAIRS.contains(name))
}

/// Returns the kinds of validity stores that record on flash which pages are invalid, with their names.
fn named_validity_store_kinds_on_flash() -> [(&'static str, ValidityStoreKind); 3] {
    let gecko = GeckoOptions { size_ratio: 2, parts_per_block: 1, merge_mode: MergeMode::MultiWay };
    [
        ("bitmap", ValidityStoreKind::Bitmap(FlashBitmapOptions::default())),
        ("log", ValidityStoreKind::Log),
        ("gecko", ValidityStoreKind::Gecko(gecko)),
    ]
}

/// Returns all mixtures: designs of two or more content mechanisms on each kind of map, with a battery that keeps RAM,
/// and without a battery where possible. With page validity on flash, also designs of one mechanism or none.
fn mixed_designs() -> Vec<(&'static str, Parts)> {
    let mut mixed_designs = Vec::new();
    for chosen in 0..1 << MECHANISMS.len() {
        let names = MECHANISMS.iter().enumerate().filter(|(k, _)| chosen >> k & 1 == 1_u32);
        let mut parts = Parts { persistence: Persistence::BatteryRam, ..page_map(GcOptions::default()) };
        let name: Vec<&str> = names.map(|(_, (name, add))| (add(&mut parts), *name).1).collect();
        let named = |map: &str| -> &'static str {
            let content = if name.is_empty() { "alone".into() } else { name.join("+") };
            format!("mixture {map} {content}").leak()
        };
        for (store, validity) in named_validity_store_kinds_on_flash() {
            let flat = Parts { validity, ..parts.clone() };
            let mut cached = with_map_on_flash(6, flat.clone());
            if chosen == 0 {
                cached.persistence = cached.default_persistence();
            }
            for (map, parts) in [("flat", flat), ("cached", cached)] {
                mixed_designs.push((named(&format!("{map}+{store}")), parts.clone()));
                if !matches!(validity, ValidityStoreKind::Bitmap(_)) {
                    let in_nvram = with_map_in_nvram(parts);
                    mixed_designs.push((
                        named(&format!("noted {map}+{store}")),
                        with_recovery_notes(in_nvram.clone()),
                    ));
                    mixed_designs.push((named(&format!("nvram {map}+{store}")), in_nvram));
                }
            }
        }
        if chosen.count_ones() < 2 {
            continue;
        }
        mixed_designs.push((named("flat"), parts.clone()));
        mixed_designs.push((named("cached"), with_map_on_flash(6, parts.clone())));
        mixed_designs.push((named("nvram"), without_battery(parts.clone())));
        mixed_designs.push((named("nvram cached"), without_battery(with_map_on_flash(6, parts))));
    }
    mixed_designs
}

/// Returns the prefix of the names of designs to be tested, from the environment: `WEARWELL_DESIGN=delta cargo test`
/// runs only designs whose name begins with `delta`, `WEARWELL_DESIGN=cover` the mixtures of
/// [`MIXED_DESIGNS_COVERING_ALL_PAIRS`]. `None` selects all.
pub fn design_name_prefix() -> Option<String> {
    std::env::var("WEARWELL_DESIGN").ok()
}

/// Returns whether `WEARWELL_DESIGN` selects the design `name` for this test run.
fn is_selected(name: &str) -> bool {
    design_name_prefix().is_none_or(|family| {
        name.starts_with(&family) || family == "cover" && MIXED_DESIGNS_COVERING_ALL_PAIRS.contains(&name)
    })
}

/// Returns whether tests run at full length, as `WEARWELL_SOAK=1 cargo test` requests.
pub fn is_soak_run() -> bool {
    std::env::var_os("WEARWELL_SOAK").is_some()
}

/// Returns the interval of the test cases that are run: one case in `n` by default, every case (1) with
/// `WEARWELL_SOAK=1`.
pub fn test_case_interval(n: u64) -> u64 {
    if is_soak_run() { 1 } else { n }
}

/// Returns the write buffers with which case number `turn` of a test is run: all of them with `WEARWELL_SOAK=1`,
/// otherwise one, in rotation over the cases.
pub fn buffers_for_case(turn: u64) -> Vec<WriteBufferOptions> {
    if is_soak_run() { BUFFERS.to_vec() } else { vec![BUFFERS[(turn % BUFFERS.len() as u64) as usize]] }
}

/// Returns all designs under test. One line in this function adds a new design to every test.
#[expect(clippy::too_many_lines, reason = "one list")]
pub fn designs() -> Vec<DesignUnderTest> {
    use ReferenceCountForm::{Dense, Sparse};
    let unbounded = FingerprintStorePolicy::Probability;
    // The latter are last, because tests derive their seeds from the place of a design in the list.
    let (mixed_designs, mixtures_of_flat_maps_in_nvram): (Vec<_>, Vec<_>) =
        mixed_designs_under_test().partition(|(name, _)| !name.starts_with("mixture nvram flat+"));
    vec![
        ("page-map greedy", page_map(gc_with_policy(GREEDY))),
        ("page-map cost-benefit", page_map(gc_with_policy(VictimPolicy::CostBenefit))),
        ("page-map random", page_map(gc_with_policy(VictimPolicy::DChoices { random_candidates: 1 }))),
        ("page-map 3-choices", page_map(gc_with_policy(VictimPolicy::DChoices { random_candidates: 3 }))),
        ("page-map fifo", page_map(gc_with_policy(VictimPolicy::Fifo))),
        ("page-map wear-leveled", page_map(gc_with_wear_leveling(STATIC_LEVELING_BY_TABLE))),
        ("page-map wear scanned", page_map(gc_with_wear_leveling(STATIC_LEVELING_BY_SCAN))),
        ("page-map dual-pool", page_map(gc_with_wear_leveling(DUAL_POOL_LEVELING))),
        (
            "page-map dual-pool fifo",
            page_map(GcOptions { policy: VictimPolicy::Fifo, ..gc_with_wear_leveling(DUAL_POOL_LEVELING) }),
        ),
        ("recyclable lru greedy", recycling_design(GREEDY, FingerprintStorePolicy::Lru, Some(6), false)),
        (
            "recyclable lru rc-gc",
            recycling_design(RECYCLING_AWARE_GC, FingerprintStorePolicy::Lru, Some(6), true),
        ),
        (
            "recyclable prob greedy",
            recycling_design(GREEDY, FingerprintStorePolicy::Probability, Some(6), true),
        ),
        (
            "recyclable prob rc-gc",
            recycling_design(RECYCLING_AWARE_GC, FingerprintStorePolicy::Probability, Some(6), false),
        ),
        ("recyclable prob+fl greedy", recycling_design(GREEDY, FAST_LOADING, Some(6), false)),
        ("recyclable prob+fl rc-gc", recycling_design(RECYCLING_AWARE_GC, FAST_LOADING, Some(6), true)),
        ("recyclable unbounded greedy", recycling_design(GREEDY, unbounded, None, true)),
        ("recyclable unbounded rc-gc", recycling_design(RECYCLING_AWARE_GC, unbounded, None, false)),
        ("dftl 1 entry", demand_paged_design(1)),
        ("dftl 4 entries", demand_paged_design(4)),
        ("dftl 16 entries", demand_paged_design(16)),
        ("dftl all entries", demand_paged_design(u32::MAX)),
        ("lazyftl 10 entries", lazyftl(GcOptions::default(), 10)),
        ("lazyftl 40 entries", lazyftl(GcOptions::default(), 40)),
        ("u-ftl", uftl(GcOptions::default(), uftl_options(10, 1))),
        ("u-ftl 40 entries", uftl(GcOptions::default(), uftl_options(40, 4))),
        ("ib-ftl", ibftl(GcOptions::default(), uftl_options(10, 1))),
        ("ib-ftl 40 entries", ibftl(GcOptions::default(), uftl_options(40, 4))),
        ("geckoftl", geckoftl_design(4, 2, 1, MergeMode::MultiWay)),
        ("geckoftl pairwise", geckoftl_design(16, 2, 2, MergeMode::Pairwise)),
        ("geckoftl ratio 3", geckoftl_design(10, 3, 1, MergeMode::MultiWay)),
        ("geckoftl all entries", geckoftl_design(u32::MAX, 2, 2, MergeMode::MultiWay)),
        ("delta", delta_design(1, None)),
        ("delta two open pages dead-bytes", delta_design(2, None)),
        ("delta tables on flash", delta_design(1, Some(6))),
        ("integrated compression", integrated(GcOptions::default(), None, true)),
        ("integrated dedup and compression", integrated(GcOptions::default(), Some(VERIFIED_DEDUP), true)),
        ("remap none", remap_design(ReverseMapKind::OobOnly, Dense, None)),
        ("remap segments", remap_design(NVRAM_SEGMENTS, Dense, None)),
        ("remap segments few entries", remap_design(NVRAM_SEGMENTS, Sparse, Some(5))),
        ("remap nvram log", remap_design(NVRAM_LOG, Dense, None)),
        ("remap flash log", remap_design(FLASH_LOG, Dense, Some(40))),
        ("remap ideal", remap_design(ReverseMapKind::Ideal, Dense, None)),
        ("remap ideal few entries", remap_design(ReverseMapKind::Ideal, Sparse, Some(5))),
        ("nvram page-map", without_battery(page_map(gc_with_policy(GREEDY)))),
        ("nvram page-map fifo", without_battery(page_map(gc_with_policy(VictimPolicy::Fifo)))),
        (
            "nvram recyclable",
            without_battery(recycling_design(RECYCLING_AWARE_GC, FAST_LOADING, Some(6), true)),
        ),
        ("nvram recyclable unbounded", without_battery(recycling_design(GREEDY, unbounded, None, true))),
        ("nvram remap", without_battery(remap_design(ReverseMapKind::Ideal, Dense, Some(40)))),
        ("nvram remap none", without_battery(remap_design(ReverseMapKind::OobOnly, Dense, None))),
        ("nvram delta", without_battery(delta_design(1, None))),
        ("nvram integrated compression", without_battery(integrated(GcOptions::default(), None, true))),
        ("nvram integrated", without_battery(integrated(GcOptions::default(), Some(VERIFIED_DEDUP), true))),
        (
            "recyclable map on flash",
            with_map_on_flash(6, recycling_design(RECYCLING_AWARE_GC, FAST_LOADING, Some(6), true)),
        ),
        (
            "recyclable prob+fl refreshed",
            with_low_revival_age_limit(recycling_design(RECYCLING_AWARE_GC, FAST_LOADING, Some(6), true)),
        ),
        (
            "recyclable unbounded refreshed",
            with_low_revival_age_limit(recycling_design(GREEDY, unbounded, None, false)),
        ),
        ("page-map heads and tails", with_head_and_tail_pages(page_map(gc_with_policy(GREEDY)))),
        (
            "remap segments heads and tails",
            with_head_and_tail_pages(remap_design(NVRAM_SEGMENTS, Dense, None)),
        ),
        ("remap nvram log heads and tails", with_head_and_tail_pages(remap_design(NVRAM_LOG, Dense, None))),
        (
            "remap flash log heads and tails",
            with_head_and_tail_pages(remap_design(FLASH_LOG, Dense, Some(40))),
        ),
        ("remap segments atomic", atomic_remap_design(NVRAM_SEGMENTS_OF_THREE_ENTRIES)),
        ("remap nvram log atomic", atomic_remap_design(NVRAM_LOG)),
        ("remap flash log atomic heads and tails", with_head_and_tail_pages(atomic_remap_design(FLASH_LOG))),
        ("delta journal", journalled_delta_design(6, 2)),
        ("dftl dual-pool", dftl(gc_with_wear_leveling(DUAL_POOL_LEVELING), DftlOptions { cache_entries: 4 })),
        (
            "geckoftl dual-pool",
            with_wear_leveling(geckoftl_design(10, 3, 1, MergeMode::MultiWay), DUAL_POOL_LEVELING),
        ),
        (
            "recyclable dual-pool",
            with_wear_leveling(
                recycling_design(RECYCLING_AWARE_GC, FAST_LOADING, Some(6), true),
                DUAL_POOL_AND_DYNAMIC_LEVELING,
            ),
        ),
        ("delta dual-pool", with_wear_leveling(delta_design(1, None), DUAL_POOL_LEVELING)),
        (
            "integrated dual-pool",
            with_wear_leveling(
                integrated(GcOptions::default(), Some(VERIFIED_DEDUP), true),
                DUAL_POOL_LEVELING,
            ),
        ),
        (
            "remap segments dual-pool",
            with_wear_leveling(remap_design(NVRAM_SEGMENTS, Dense, None), DUAL_POOL_LEVELING),
        ),
        (
            "remap flash log atomic heads and tails dual-pool",
            with_wear_leveling(with_head_and_tail_pages(atomic_remap_design(FLASH_LOG)), DUAL_POOL_LEVELING),
        ),
        (
            "nvram page-map dual-pool",
            without_battery(page_map(gc_with_wear_leveling(DUAL_POOL_AND_DYNAMIC_LEVELING))),
        ),
        ("nvram dftl 4 entries", without_battery(demand_paged_design(4))),
        ("nvram dftl all entries", without_battery(demand_paged_design(u32::MAX))),
        ("nvram delta map on flash", without_battery(delta_design(1, Some(6)))),
        (
            "nvram recyclable map on flash",
            without_battery(with_map_on_flash(
                6,
                recycling_design(RECYCLING_AWARE_GC, FAST_LOADING, Some(6), true),
            )),
        ),
    ]
    .into_iter()
    .chain(mixed_designs)
    .chain([
        ("page-map silent", with_silent_write_elimination(page_map(gc_with_policy(GREEDY)))),
        ("geckoftl silent", with_silent_write_elimination(geckoftl_design(4, 2, 1, MergeMode::MultiWay))),
        (
            "recyclable history of the store",
            with_history_only_of_stored_fingerprints(recycling_design(
                RECYCLING_AWARE_GC,
                FAST_LOADING,
                Some(6),
                true,
            )),
        ),
        (
            "nvram recyclable history of the store refreshed",
            with_history_only_of_stored_fingerprints(with_low_revival_age_limit(without_battery(
                recycling_design(GREEDY, FingerprintStorePolicy::Lru, Some(6), false),
            ))),
        ),
        ("mixture of the design wearwell", small_wearwell_design()),
        (
            "mixture of the design wearwell dual-pool",
            with_wear_leveling(small_wearwell_design(), DUAL_POOL_LEVELING),
        ),
        ("mixture of the design wearwell with full tables", wearwell_design_with_tiny_table_ram_limit()),
    ])
    .chain(mixtures_of_flat_maps_in_nvram)
    .chain([
        ("mixture of the design wearwell striped", with_striped_metadata(small_wearwell_design())),
        ("dftl 4 entries striped", with_striped_metadata(demand_paged_design(4))),
        ("lazyftl 10 entries striped", with_striped_metadata(lazyftl(GcOptions::default(), 10))),
        ("u-ftl striped", with_striped_metadata(uftl(GcOptions::default(), uftl_options(10, 1)))),
        ("geckoftl striped", with_striped_metadata(geckoftl_design(4, 2, 1, MergeMode::MultiWay))),
        ("delta journal striped", with_striped_metadata(journalled_delta_design(6, 2))),
        ("remap flash log striped", with_striped_metadata(remap_design(FLASH_LOG, Dense, Some(40)))),
    ])
    .map(|(name, parts)| DesignUnderTest { name, parts })
    .filter(|design| is_selected(design.name))
    .collect()
}

/// Returns the designs whose name begins with `family`.
pub fn designs_with_prefix(family: &str) -> Vec<DesignUnderTest> {
    designs().into_iter().filter(|design| design.name.starts_with(family)).collect()
}
