//! Formulas for RAM and recovery time of the five designs that the `GeckoFTL` paper compares (GK, section 2, appendices
//! B and C).
//!
//! The paper only models both. Here the formulas are compared with the RAM that the implemented parts report and with
//! the operations of executed recoveries, in tests and in rows of results. Symbols are the paper's: K blocks of B pages
//! of P bytes, R logical over physical pages, C cached entries, V entries in the buffer of Logarithmic Gecko (page
//! validity on flash in runs of increasing size), T its size ratio, S the parts into which it divides a block's bitmap.

use wearwell::nand::{Geometry, preset};
use wearwell::validity::{Gecko, GeckoOptions, ValidityStore as _};
use wearwell_replay::theory;

use super::formula_results::{named_values, single_unnamed_value, truth_value};
use super::{GIB, KIB, MIB, PAGE_BYTES, TIB, to_percent};
use crate::verdict::NamedValue;

/// Size of a PPN and of a key (block, or part of a block) of Logarithmic Gecko (page validity on flash), bytes.
const PPN_OR_GECKO_KEY_BYTES: f64 = 4.0;
/// Size of an entry of the cached mapping table, bytes.
const MAPPING_CACHE_ENTRY_BYTES: f64 = 8.0;
/// Size of an entry of IB-FTL's log of invalid pages, bytes: a page address, a timestamp, a pointer to the preceding
/// entry. The GeckoFTL paper does not state this size; it is our assumption.
const INVALID_PAGE_LOG_ENTRY_BYTES: f64 = 12.0;
/// Share of the cached mapping entries that may be dirty in LazyFTL and IB-FTL.
const MAX_DIRTY_ENTRY_SHARE: f64 = 0.1;

/// Duration of a page read, seconds (GeckoFTL paper, section 5).
const PAGE_READ_S: f64 = 100e-6;
/// Duration of a read of a spare area alone, seconds (GeckoFTL paper).
const SPARE_AREA_READ_S: f64 = 3e-6;
/// Duration of a page program, seconds (GeckoFTL paper).
const PAGE_PROGRAM_S: f64 = 1e-3;
/// Duration of a page program divided by that of a page read.
pub const PROGRAM_TO_READ_TIME_RATIO: f64 = PAGE_PROGRAM_S / PAGE_READ_S;

/// Size of a device and of its cached mapping table: the parameters of the formulas for RAM and recovery time.
#[derive(Clone, Copy, Debug)]
pub struct ModelledDeviceSize {
    /// K: number of blocks of the device.
    pub blocks: f64,
    /// B: number of pages per block.
    pub pages_per_block: f64,
    /// R: number of logical pages divided by number of physical pages.
    pub utilisation: f64,
    /// C: number of entries of the cached mapping table.
    pub cache_entries: f64,
}

impl ModelledDeviceSize {
    /// Returns the GeckoFTL paper's device scaled to a capacity of `bytes`, with the paper's cache of 4 MiB.
    pub fn of_capacity(bytes: f64) -> Self {
        let pages_per_block = 128.0;
        let blocks = bytes / (pages_per_block * PAGE_BYTES);
        Self {
            blocks,
            pages_per_block,
            utilisation: 0.7,
            cache_entries: 4.0 * MIB / MAPPING_CACHE_ENTRY_BYTES,
        }
    }

    /// Returns the number of physical pages of the device.
    pub fn physical_pages(self) -> f64 {
        self.blocks * self.pages_per_block
    }

    /// Returns TT, the size of the translation table (L2P table), bytes.
    pub fn translation_table_bytes(self) -> f64 {
        self.physical_pages() * self.utilisation * PPN_OR_GECKO_KEY_BYTES
    }

    /// Returns TPT, the number of translation pages (pages of the L2P table on flash).
    pub fn translation_pages(self) -> f64 {
        (self.translation_table_bytes() / PAGE_BYTES).ceil()
    }

    /// Returns the number of host writes between two GC victims. It is the number of pages that a victim frees: B
    /// (pages per block) divided by the write amplification of large blocks.
    pub fn host_writes_per_victim(self) -> f64 {
        self.pages_per_block / theory::fifo_write_amplification(self.utilisation)
    }

    /// Returns the size of the RAM directory of translation pages, bytes.
    pub fn translation_directory_bytes(self) -> f64 {
        self.translation_pages() * PPN_OR_GECKO_KEY_BYTES
    }

    /// Returns the size of a validity bitmap with one bit per physical page, bytes.
    pub fn validity_bitmap_bytes(self) -> f64 {
        self.physical_pages() / 8.0
    }

    /// Returns the size of the counters of valid pages, one per block, bytes.
    pub fn valid_page_counters_bytes(self) -> f64 {
        2.0 * self.blocks
    }

    /// Returns the size of the cached mapping table, bytes.
    pub fn mapping_cache_bytes(self) -> f64 {
        self.cache_entries * MAPPING_CACHE_ENTRY_BYTES
    }

    /// Returns V, the number of entries in the RAM buffer of Logarithmic Gecko (page validity on flash), if a block's
    /// bitmap is divided into `parts` parts.
    pub fn gecko_buffer_entries(self, parts: f64) -> f64 {
        8.0 * PAGE_BYTES / (8.0 * PPN_OR_GECKO_KEY_BYTES + self.pages_per_block / parts)
    }

    /// Returns L, the number of levels of Logarithmic Gecko (page validity on flash), for validity bitmaps of whole
    /// blocks.
    pub fn gecko_levels(self) -> f64 {
        (self.blocks / self.gecko_buffer_entries(1.0)).log2().ceil()
    }

    /// Returns the number of flash pages in all runs (sorted levels) of Logarithmic Gecko (page validity on flash):
    /// twice the number of pages of the largest run.
    pub fn gecko_pages(self) -> f64 {
        2.0 * self.blocks / self.gecko_buffer_entries(1.0)
    }

    /// Returns the size of the RAM directories of the runs (sorted levels) of Logarithmic Gecko (page validity on
    /// flash), bytes.
    pub fn gecko_directory_bytes(self) -> f64 {
        2.0 * PPN_OR_GECKO_KEY_BYTES * self.gecko_pages()
    }

    /// Returns the RAM of Logarithmic Gecko (page validity on flash) for its buffer of invalidated pages and for the
    /// pages of a multi-way merge, bytes.
    pub fn gecko_buffer_bytes(self) -> f64 {
        PAGE_BYTES * (2.0 + self.gecko_levels())
    }

    /// Returns the number of pages of IB-FTL's log of invalid pages, which has twice as many entries as there can be
    /// invalid pages.
    pub fn invalid_page_log_pages(self) -> f64 {
        let invalid = self.physical_pages() * (1.0 - self.utilisation);
        (2.0 * invalid / (PAGE_BYTES / INVALID_PAGE_LOG_ENTRY_BYTES).floor()).ceil()
    }

    /// Returns the RAM that an FTL design needs in addition to the cached mapping table, bytes.
    pub fn ram_without_cache_bytes(self, design: ComparedFtl) -> f64 {
        match design {
            ComparedFtl::Dftl | ComparedFtl::LazyFtl => {
                self.validity_bitmap_bytes() + self.translation_directory_bytes()
            }
            // The root of the tree takes one page. The directory of the bitmap has an address for every page of the
            // bitmap.
            ComparedFtl::UFtl => {
                self.valid_page_counters_bytes()
                    + self.validity_bitmap_bytes() / PAGE_BYTES * PPN_OR_GECKO_KEY_BYTES
                    + PAGE_BYTES
            }
            // Per block: the head of its chain in the log, and the timestamp of its last erase.
            ComparedFtl::IbFtl => {
                self.valid_page_counters_bytes() + 2.0 * PPN_OR_GECKO_KEY_BYTES * self.blocks + PAGE_BYTES
            }
            ComparedFtl::GeckoFtl => {
                self.valid_page_counters_bytes() + self.geckoftl_ram_bytes_without_counters()
            }
        }
    }

    /// Returns `GeckoFTL`'s RAM without mapping cache and counters of valid pages, bytes.
    fn geckoftl_ram_bytes_without_counters(self) -> f64 {
        self.translation_directory_bytes() + self.gecko_directory_bytes() + self.gecko_buffer_bytes()
    }

    /// Returns the steps of an FTL design's recovery and their durations, seconds; flash operations are executed one
    /// after the other.
    pub fn recovery_step_durations_s(self, design: ComparedFtl) -> Vec<(&'static str, f64)> {
        let dirty = MAX_DIRTY_ENTRY_SHARE * self.cache_entries;
        let blocks = ("blocks", self.blocks * SPARE_AREA_READ_S);
        let directory = ("directory", self.translation_pages() * SPARE_AREA_READ_S);
        let backward = |entries: f64| ("changed entries", 2.0 * entries * SPARE_AREA_READ_S);
        let synchronisation =
            ("synchronisation", dirty.min(self.translation_pages()) * (PAGE_READ_S + PAGE_PROGRAM_S));
        let bitmap_pages = self.validity_bitmap_bytes() / PAGE_BYTES;
        match design {
            ComparedFtl::LazyFtl => vec![
                blocks,
                directory,
                ("bitmap", self.translation_pages() * PAGE_READ_S),
                backward(dirty),
                synchronisation,
            ],
            // Recovery reads again what the battery wrote at power loss.
            ComparedFtl::Dftl => vec![
                blocks,
                directory,
                ("bitmap", bitmap_pages * PAGE_READ_S),
                ("cache", self.mapping_cache_bytes() / PAGE_BYTES * PAGE_READ_S),
            ],
            ComparedFtl::UFtl => vec![
                blocks,
                ("bitmap directory", bitmap_pages * SPARE_AREA_READ_S),
                ("valid counts", bitmap_pages * PAGE_READ_S),
                ("cache", self.mapping_cache_bytes() / PAGE_BYTES * PAGE_READ_S),
            ],
            ComparedFtl::IbFtl => {
                vec![
                    blocks,
                    ("log", self.invalid_page_log_pages() * PAGE_READ_S),
                    backward(dirty),
                    synchronisation,
                ]
            }
            ComparedFtl::GeckoFtl => vec![
                blocks,
                directory,
                ("run directories", self.gecko_pages() * SPARE_AREA_READ_S),
                ("buffer", 2.0 * self.gecko_buffer_entries(4.0) * PAGE_READ_S),
                ("valid counts", self.gecko_pages() * PAGE_READ_S),
                backward(self.cache_entries),
            ],
        }
    }

    /// Returns the duration of all steps of a design's recovery, seconds.
    pub fn recovery_s(self, design: ComparedFtl) -> f64 {
        self.recovery_step_durations_s(design).iter().map(|(_, time_s)| time_s).sum()
    }
}

/// The FTL designs that the GeckoFTL paper compares.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ComparedFtl {
    /// DFTL, with a battery that saves dirty map entries at power loss.
    Dftl,
    /// LazyFTL, without a battery, with page validity in RAM.
    LazyFtl,
    /// u-FTL, which keeps page validity in a bitmap on flash.
    UFtl,
    /// IB-FTL, which logs invalid pages on flash.
    IbFtl,
    /// GeckoFTL, which keeps page validity on flash in Logarithmic Gecko.
    GeckoFtl,
}

impl ComparedFtl {
    /// All FTL designs that the GeckoFTL paper compares; LazyFTL is first, because the others are compared with it.
    pub const ALL: [Self; 5] = [Self::LazyFtl, Self::Dftl, Self::UFtl, Self::IbFtl, Self::GeckoFtl];

    /// Returns the name of the FTL design in the GeckoFTL paper.
    pub fn name(self) -> &'static str {
        match self {
            Self::Dftl => "DFTL",
            Self::LazyFtl => "LazyFTL",
            Self::UFtl => "u-FTL",
            Self::IbFtl => "IB-FTL",
            Self::GeckoFtl => "GeckoFTL",
        }
    }
}

/// Returns the rate of host reads relative to that of flash without internal operations, by which the paper describes
/// how internal operations slow down host reads (GeckoFTL paper, section 5):
/// `1 / (read_amplification * reads_per_write + write_amplification * delta)`. `delta` is the duration of a program
/// divided by that of a read.
pub fn host_read_rate_relative_to_flash(
    read_amplification: f64,
    reads_per_write: f64,
    write_amplification: f64,
) -> f64 {
    1.0 / (read_amplification * reads_per_write + write_amplification * PROGRAM_TO_READ_TIME_RATIO)
}

/// Returns how many times the capacity of `device_size` must double until reporting an invalid page costs as much in
/// Logarithmic Gecko as in a validity bitmap on flash. Both costs are equal if `cost L / V = 1`, with L levels, V
/// entries in the RAM buffer, and `cost` flash writes per entry and level. `parts` is the number of parts into which a
/// block's bitmap is divided.
pub fn capacity_doublings_to_gecko_break_even(device_size: ModelledDeviceSize, parts: f64, cost: f64) -> f64 {
    let entries = device_size.gecko_buffer_entries(parts);
    let levels = entries / cost;
    levels + (entries / parts).log2() - device_size.blocks.log2()
}

/// Returns the size of the GeckoFTL paper's device of 2 TiB.
fn paper_device_size() -> ModelledDeviceSize {
    ModelledDeviceSize::of_capacity(2.0 * TIB)
}

/// Device capacities of the GeckoFTL paper's Figure 1, with their names.
const FIGURE_1_CAPACITIES: [(&str, f64); 8] = [
    ("64 GiB", 64.0 * GIB),
    ("128 GiB", 128.0 * GIB),
    ("256 GiB", 256.0 * GIB),
    ("512 GiB", 512.0 * GIB),
    ("1 TiB", TIB),
    ("2 TiB", 2.0 * TIB),
    ("4 TiB", 4.0 * TIB),
    ("8 TiB", 8.0 * TIB),
];

/// Returns RAM without the cached mapping table (bytes) and recovery time (seconds) of an FTL design at each capacity
/// of the GeckoFTL paper's Figure 1.
fn ram_bytes_and_recovery_s_by_capacity(design: ComparedFtl) -> impl Iterator<Item = (f64, f64)> {
    FIGURE_1_CAPACITIES.into_iter().map(move |(_, bytes)| {
        let scale = ModelledDeviceSize::of_capacity(bytes);
        (scale.ram_without_cache_bytes(design), scale.recovery_s(design))
    })
}

/// Returns RAM without the mapping cache, MiB, and recovery time, seconds, at each capacity of Figure 1.
fn ram_and_recovery_values_by_capacity(design: ComparedFtl) -> Vec<NamedValue> {
    let name = |k: usize, what: &str| format!("{} {what}", FIGURE_1_CAPACITIES[k].0);
    let ram = ram_bytes_and_recovery_s_by_capacity(design)
        .enumerate()
        .map(|(k, (ram, _))| NamedValue::new(name(k, "RAM MiB"), ram / MIB));
    let recovery = ram_bytes_and_recovery_s_by_capacity(design)
        .enumerate()
        .map(|(k, (_, time_s))| NamedValue::new(name(k, "recovery s"), time_s));
    ram.chain(recovery).collect()
}

/// Returns the values of the curves of the GeckoFTL paper's Figure 1, and whether its two claims hold: RAM grows
/// linearly with capacity, and so does recovery time (within 1 % at each doubling of the capacity).
fn ram_and_recovery_growth_values() -> Vec<NamedValue> {
    let steps: Vec<(f64, f64)> = ram_bytes_and_recovery_s_by_capacity(ComparedFtl::LazyFtl).collect();
    let doubles = |pair: &[(f64, f64)]| (pair[1].0 / pair[0].0 - 2.0).abs() < 1e-3;
    let doubles_recovery = |pair: &[(f64, f64)]| (pair[1].1 / pair[0].1 / 2.0 - 1.0).abs() < 0.01;
    let claims = named_values([
        ("RAM is linear", truth_value(steps.windows(2).all(doubles))),
        ("recovery is linear", truth_value(steps.windows(2).all(doubles_recovery))),
    ]);
    [claims, ram_and_recovery_values_by_capacity(ComparedFtl::LazyFtl)].concat()
}

/// Returns the RAM of an FTL design including the mapping cache of 4 MiB, MiB.
fn ram_with_cache_mib(design: ComparedFtl) -> f64 {
    (paper_device_size().ram_without_cache_bytes(design) + paper_device_size().mapping_cache_bytes()) / MIB
}

/// Returns the RAM of each FTL design including its mapping cache of 4 MiB, MiB.
fn ram_with_cache_mib_of_all_designs() -> Vec<NamedValue> {
    named_values([
        ("DFTL, LazyFTL", ram_with_cache_mib(ComparedFtl::LazyFtl)),
        ("IB-FTL", ram_with_cache_mib(ComparedFtl::IbFtl)),
        ("GeckoFTL", ram_with_cache_mib(ComparedFtl::GeckoFtl)),
        ("u-FTL", ram_with_cache_mib(ComparedFtl::UFtl)),
    ])
}

/// Returns the RAM of `GeckoFTL` as Wearwell implements it, in MiB. The run directories (RAM tables that locate the
/// pages of the validity runs on flash) are sized for the largest possible number of run pages, and the block table has
/// three bytes per block.
fn implemented_geckoftl_ram_mib() -> f64 {
    let device = preset::preset_by_name("gk-2t").expect("the paper's device is a preset");
    let of_part = implemented_gecko_ram_bytes(&device.geometry);
    (of_part
        + paper_device_size().translation_directory_bytes()
        + 1.5 * paper_device_size().valid_page_counters_bytes()
        + paper_device_size().mapping_cache_bytes())
        / MIB
}

/// Returns the RAM that Wearwell's Logarithmic Gecko (page validity on flash) reports for itself, bytes.
fn implemented_gecko_ram_bytes(geometry: &Geometry) -> f64 {
    let gecko = Gecko::new(geometry, GeckoOptions::with_block_parts_of_key_size(geometry))
        .expect("the default fits the geometry");
    gecko.ram_bytes_by_structure().iter().map(|&(_, bytes)| bytes as f64).sum()
}

/// Returns the name of the recovery step that takes the longest time; empty if there are no steps.
fn longest_recovery_step_name<'a>(steps: &[(&'a str, f64)]) -> &'a str {
    steps.iter().max_by(|a, b| a.1.total_cmp(&b.1)).map_or("", |step| step.0)
}

/// Returns the duration of the recovery step with this name, seconds; 0 if there is no such step.
fn recovery_step_duration_s(steps: &[(&str, f64)], name: &str) -> f64 {
    steps.iter().find(|step| step.0 == name).map_or(0.0, |step| step.1)
}

/// Returns the duration of each recovery step of `design`, and of the whole recovery as `all`, seconds.
fn step_and_total_recovery_durations_s(design: ComparedFtl) -> Vec<NamedValue> {
    let steps = paper_device_size().recovery_step_durations_s(design);
    let total = NamedValue::new("all", paper_device_size().recovery_s(design));
    steps.iter().map(|&(name, time_s)| NamedValue::new(name, time_s)).chain([total]).collect()
}

/// Returns the values of both lists in one list.
fn concatenated_values(mut values: Vec<NamedValue>, more: Vec<NamedValue>) -> Vec<NamedValue> {
    values.extend(more);
    values
}

/// Returns the recovery time that `GeckoFTL` saves compared with `LazyFTL`, percent. The second value leaves out
/// `LazyFTL`'s recovery steps `synchronisation` and `changed entries`.
fn recovery_time_saved_percent() -> Vec<NamedValue> {
    let lazy = paper_device_size().recovery_step_durations_s(ComparedFtl::LazyFtl);
    let all = paper_device_size().recovery_s(ComparedFtl::LazyFtl);
    let others = all
        - recovery_step_duration_s(&lazy, "synchronisation")
        - recovery_step_duration_s(&lazy, "changed entries");
    let saved = |of: f64| to_percent(1.0 - paper_device_size().recovery_s(ComparedFtl::GeckoFtl) / of);
    named_values([("", saved(all)), ("without its synchronisation", saved(others))])
}

/// Returns the RAM, without the mapping cache, that `GeckoFTL` saves compared with `LazyFTL`, percent.
fn ram_saved_percent() -> Vec<NamedValue> {
    let saved = |bytes: f64| {
        to_percent(1.0 - bytes / paper_device_size().ram_without_cache_bytes(ComparedFtl::LazyFtl))
    };
    named_values([
        ("without counts", saved(paper_device_size().geckoftl_ram_bytes_without_counters())),
        ("with counts", saved(paper_device_size().ram_without_cache_bytes(ComparedFtl::GeckoFtl))),
    ])
}

/// Returns whether the steps for the log and for synchronisation take most of the time of IB-FTL's recovery, and the
/// duration of every step, seconds.
fn ib_ftl_recovery_step_values() -> Vec<NamedValue> {
    let steps = paper_device_size().recovery_step_durations_s(ComparedFtl::IbFtl);
    let both = recovery_step_duration_s(&steps, "log") + recovery_step_duration_s(&steps, "synchronisation");
    let claim = named_values([(
        "they dominate",
        truth_value(both > 0.5 * paper_device_size().recovery_s(ComparedFtl::IbFtl)),
    )]);
    concatenated_values(claim, step_and_total_recovery_durations_s(ComparedFtl::IbFtl))
}

/// Returns whether the scan of blocks is the longest step of `GeckoFTL`'s recovery, and the share of the scan in the
/// recovery time, percent.
fn geckoftl_block_scan_share_values() -> Vec<NamedValue> {
    let steps = paper_device_size().recovery_step_durations_s(ComparedFtl::GeckoFtl);
    let share =
        recovery_step_duration_s(&steps, "blocks") / paper_device_size().recovery_s(ComparedFtl::GeckoFtl);
    named_values([
        ("it dominates", truth_value(longest_recovery_step_name(&steps) == "blocks")),
        ("share, %", to_percent(share)),
    ])
}

/// Returns, for GeckoFTL and u-FTL, whether the counters of valid pages take more than half of the RAM that is not the
/// cached mapping table.
fn whether_valid_counters_take_most_ram() -> Vec<NamedValue> {
    let of = |design: ComparedFtl| {
        truth_value(
            paper_device_size().valid_page_counters_bytes()
                > 0.5 * paper_device_size().ram_without_cache_bytes(design),
        )
    };
    named_values([("GeckoFTL", of(ComparedFtl::GeckoFtl)), ("u-FTL", of(ComparedFtl::UFtl))])
}

/// Returns the RAM of each design of the GeckoFTL paper's Figure 14, including its mapping cache, in MiB. As in the
/// figure, counters of valid pages are left out; their size is returned as a value of its own.
fn geckoftl_figure_14_ram_mib() -> Vec<NamedValue> {
    let of = |design: ComparedFtl, cache_mib: f64, counters: f64| {
        (paper_device_size().ram_without_cache_bytes(design) - counters) / MIB + cache_mib
    };
    let counters = paper_device_size().valid_page_counters_bytes();
    named_values([
        ("DFTL", of(ComparedFtl::Dftl, 4.0, 0.0)),
        ("u-FTL", of(ComparedFtl::UFtl, 68.0, counters)),
        ("GeckoFTL", of(ComparedFtl::GeckoFtl, 68.0, counters)),
        ("counters", counters / MIB),
    ])
}

/// Returns the rate of host reads relative to that of the flash, with page validity in RAM and on flash.
fn host_read_rate_values() -> Vec<NamedValue> {
    let writes = theory::fifo_write_amplification(0.7);
    let copies = (writes - 1.0) * (1.0 + 1.0 / PROGRAM_TO_READ_TIME_RATIO);
    let dirty = paper_device_size().cache_entries / paper_device_size().translation_pages();
    let map = theory::lazy_translation_cost_per_host_write(writes, PROGRAM_TO_READ_TIME_RATIO, dirty);
    let slowdown = |validity: f64| host_read_rate_relative_to_flash(1.0, 1.0, 1.0 + copies + map + validity);
    named_values([
        ("validity in RAM", slowdown(0.0)),
        ("bitmap on flash", slowdown(1.0 + 1.0 / PROGRAM_TO_READ_TIME_RATIO)),
    ])
}

/// Returns the values that a formula gives for a row (reported result) about recovery at 2 TiB that simulated
/// recoveries measure, too; `None` for other rows.
pub fn recovery_row_values_from_formula(id: &str) -> Option<Vec<NamedValue>> {
    Some(match id {
        "GK-35" => step_and_total_recovery_durations_s(ComparedFtl::GeckoFtl),
        "GK-36" => ComparedFtl::ALL
            .map(|design| NamedValue::new(design.name(), paper_device_size().recovery_s(design)))
            .to_vec(),
        "GK-37" => ib_ftl_recovery_step_values(),
        "GK-38" => geckoftl_block_scan_share_values(),
        "GK-39" => recovery_time_saved_percent(),
        _ => return None,
    })
}

/// Returns Wearwell's values of a reported result of the GeckoFTL paper that follows from a formula; `None` for other
/// results.
pub(super) fn row_values_from_formula(id: &str) -> Option<Vec<NamedValue>> {
    let scale = paper_device_size();
    let recovery = |design: ComparedFtl| scale.recovery_s(design);
    Some(match id {
        "GK-01" => single_unnamed_value(
            ModelledDeviceSize::of_capacity(128.0 * GIB).ram_without_cache_bytes(ComparedFtl::LazyFtl) / MIB,
        ),
        "GK-02" => concatenated_values(
            single_unnamed_value(recovery(ComparedFtl::LazyFtl)),
            step_and_total_recovery_durations_s(ComparedFtl::LazyFtl),
        ),
        "GK-03" => ram_and_recovery_growth_values(),
        "GK-04" => ram_and_recovery_values_by_capacity(ComparedFtl::GeckoFtl),
        "GK-05" => single_unnamed_value(scale.translation_table_bytes() / GIB),
        "GK-06" => single_unnamed_value(scale.translation_directory_bytes() / MIB),
        "GK-07" => single_unnamed_value(scale.validity_bitmap_bytes() / MIB),
        "GK-08" => single_unnamed_value(scale.validity_bitmap_bytes() / scale.translation_directory_bytes()),
        "GK-09" => {
            let share = |others: f64| {
                to_percent(scale.validity_bitmap_bytes() / (scale.validity_bitmap_bytes() + others))
            };
            named_values([
                ("bitmap and directory", share(scale.translation_directory_bytes())),
                ("with the cache", share(scale.translation_directory_bytes() + scale.mapping_cache_bytes())),
                (
                    "with counters, without cache",
                    share(scale.translation_directory_bytes() + scale.valid_page_counters_bytes()),
                ),
            ])
        }
        "GK-10" => single_unnamed_value(scale.physical_pages() * SPARE_AREA_READ_S / 60.0),
        "GK-11" => {
            let pages = scale.cache_entries.min(scale.translation_pages());
            single_unnamed_value(pages * (PAGE_READ_S + PAGE_PROGRAM_S) / 60.0)
        }
        "GK-12" => single_unnamed_value(scale.translation_pages() * PAGE_READ_S),
        "GK-13" => single_unnamed_value(PAGE_READ_S / 32.0 * 1e6),
        "GK-14" => single_unnamed_value(scale.mapping_cache_bytes() / MAPPING_CACHE_ENTRY_BYTES),
        "GK-15" => single_unnamed_value(scale.pages_per_block / (8.0 * PPN_OR_GECKO_KEY_BYTES)),
        "GK-17" => named_values([("MiB", scale.validity_bitmap_bytes() / MIB)]),
        "GK-20" => {
            let writes = theory::fifo_write_amplification(scale.utilisation);
            let with_queries = theory::flash_bitmap_cost_per_host_write(
                PROGRAM_TO_READ_TIME_RATIO,
                writes,
                scale.pages_per_block as usize,
            );
            named_values([("", 1.0 + 1.0 / PROGRAM_TO_READ_TIME_RATIO), ("with queries", with_queries)])
        }
        "GK-28" => named_values([
            ("S = 1", capacity_doublings_to_gecko_break_even(scale, 1.0, 2.0)),
            ("S = 1, one merge per level", capacity_doublings_to_gecko_break_even(scale, 1.0, 1.0)),
            ("S = 4", capacity_doublings_to_gecko_break_even(scale, 4.0, 2.0)),
        ]),
        "GK-30" | "GK-31" | "GK-33" => ram_with_cache_mib_of_all_designs(),
        "GK-32" => named_values([
            ("ratio", ram_with_cache_mib(ComparedFtl::GeckoFtl) / ram_with_cache_mib(ComparedFtl::UFtl)),
            ("GeckoFTL, MiB", ram_with_cache_mib(ComparedFtl::GeckoFtl)),
            ("as built, MiB", implemented_geckoftl_ram_mib()),
        ]),
        "GK-34" => whether_valid_counters_take_most_ram(),
        "GK-40" => ram_saved_percent(),
        "GK-47" => geckoftl_figure_14_ram_mib(),
        "GK-50" => named_values([
            ("map", to_percent(scale.translation_pages() / scale.physical_pages())),
            ("Logarithmic Gecko", to_percent(scale.gecko_pages() / scale.physical_pages())),
        ]),
        "GK-53" => named_values([
            ("pages", scale.gecko_pages()),
            ("directories, MiB", scale.gecko_directory_bytes() / MIB),
            ("buffers, KiB", scale.gecko_buffer_bytes() / KIB),
        ]),
        "GK-54" => single_unnamed_value(
            (2.0 * scale.cache_entries / scale.pages_per_block).ceil().max(scale.gecko_buffer_entries(4.0)),
        ),
        "GK-57" => single_unnamed_value(1000.0 / scale.pages_per_block),
        // Minimum, maximum and mean of two statistics, the counter of erases, and the position of the scan.
        "GK-58" => single_unnamed_value(
            6.0 * PPN_OR_GECKO_KEY_BYTES + PPN_OR_GECKO_KEY_BYTES + PPN_OR_GECKO_KEY_BYTES,
        ),
        "GK-60" => single_unnamed_value(scale.host_writes_per_victim()),
        "GK-61" => host_read_rate_values(),
        _ => return None,
    })
}
