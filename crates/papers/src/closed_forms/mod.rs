//! Reported results (rows) of the papers that follow from the paper's parameters by arithmetic. Every function computes
//! its result from the parameters; none contains the expected result. The parameters are in `formula_results`, as the
//! papers print them. Formulas of steady states are in [`wearwell_replay::theory`]. The tests of this module compare
//! with numbers that were computed independently.

pub mod metadata;

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use wearwell::lifetime::{SchemeEstimate, decide_schemes};
use wearwell_replay::theory;

use super::verdict::NamedValue;

/// Size of a page in all five papers, bytes.
const PAGE_BYTES: f64 = 4096.0;

/// Bytes of a kibibyte.
const KIB: f64 = 1024.0;
/// Bytes of a mebibyte.
const MIB: f64 = KIB * KIB;
/// Bytes of a gibibyte.
const GIB: f64 = KIB * MIB;
/// Bytes of a tebibyte.
const TIB: f64 = KIB * GIB;

/// Converts a share (0 to 1) to percent.
pub fn to_percent(share: f64) -> f64 {
    100.0 * share
}

/// A row of Table I in the Recyclable SSD paper (LX): how much a trace writes, and to how many addresses.
#[derive(Clone, Copy, Debug)]
pub struct TraceTableRow {
    /// Number of requests of the trace.
    pub requests: f64,
    /// Share of the trace's requests that are writes.
    pub write_share: f64,
    /// Number of distinct page addresses in the trace.
    pub distinct_addresses: f64,
}

impl TraceTableRow {
    /// Returns the number of writes in the trace, each of one page.
    pub fn writes(self) -> f64 {
        self.requests * self.write_share
    }

    /// Returns the number of writes in the trace that invalidate an older version of their page: all writes except the
    /// first write to each address.
    pub fn overwrite_count(self) -> f64 {
        self.writes() - self.distinct_addresses
    }

    /// Returns the share of the trace's writes that are overwrites (Recyclable SSD paper, III-B).
    pub fn overwrite_share(self) -> f64 {
        self.overwrite_count() / self.writes()
    }

    /// Returns the amount of data that the trace's overwrites invalidate, GiB (Recyclable SSD paper, III-B).
    pub fn invalidated_gib(self) -> f64 {
        self.overwrite_count() * PAGE_BYTES / GIB
    }
}

/// Returns the RAM of a fingerprint store with `entries` entries, bytes: per entry a hash of 16 bytes, a page address
/// and a probability of 4 bytes each (Recyclable SSD paper, IV-C).
pub fn fingerprint_store_bytes(entries: f64) -> f64 {
    entries * (16.0 + 4.0 + 4.0)
}

/// Returns the duration of a computation of `cycles` clock cycles at `mhz` MHz, microseconds (Delta-FTL paper, Table
/// 1).
pub fn cycles_to_us(cycles: f64, mhz: f64) -> f64 {
    cycles / mhz
}

/// Durations of the stages that a delta write (an overwrite stored as a difference) passes, microseconds (Delta-FTL
/// paper, section 3.3): array read, transfer, encoding.
#[derive(Clone, Copy, Debug)]
pub struct DeltaPipeline {
    /// Duration of the array read of the old page version, microseconds.
    pub page_read_us: f64,
    /// Duration of the transfer of the old page version over the bus, microseconds.
    pub page_transfer_us: f64,
    /// Duration of computing and compressing the difference to the old version, microseconds.
    pub encode_us: f64,
}

impl DeltaPipeline {
    /// Returns the duration of the slowest stage of a delta write, which limits the rate, microseconds.
    pub fn slowest_stage_us(self) -> f64 {
        self.page_read_us.max(self.page_transfer_us).max(self.encode_us)
    }

    /// Returns the time that a delta write takes in addition to its programs, in units of the program time: the
    /// duration of the slowest stage (reading the base, transferring it, or encoding the delta) divided by `program_us`
    /// (Delta-FTL paper, right-hand side of expression 2).
    pub fn delta_write_overhead_in_programs(self, program_us: f64) -> f64 {
        self.slowest_stage_us() / program_us
    }

    /// Returns the compression ratio Rc (delta size divided by page size) below which deltas cost no additional time:
    /// `1 - Rc > overhead`.
    pub fn break_even_compression_ratio(self, program_us: f64) -> f64 {
        1.0 - self.delta_write_overhead_in_programs(program_us)
    }

    /// Returns whether the encoder is the slowest stage of a delta write.
    pub fn is_bound_by_encoder(self) -> bool {
        self.encode_us > self.page_read_us.max(self.page_transfer_us)
    }
}

/// Returns the number of page writes saved if overwrites of a page are stored as deltas with this mean compression
/// ratio (Delta-FTL paper, section 3.2).
pub fn page_writes_saved_by_deltas(overwrite_count: f64, ratio: f64) -> f64 {
    overwrite_count * (1.0 - ratio)
}

/// Returns the GC frequency with delta encoding, divided by `t` (Delta-FTL paper, expression 7). `t` is the paper's
/// number of blocks over which the invalid whole pages are spread. The formula is `(1 - Pc + Pc Rc) / (1 - Pc)`: the
/// space that host writes take, divided by the share of whole pages. `Pc` is the share of delta writes, `Rc` the
/// compression ratio (delta size divided by page size). If `t` is as large as without deltas, the result is the GC
/// frequency relative to that without deltas; in the paper `t` is at most that large.
pub fn relative_gc_frequency_with_deltas(delta_share: f64, ratio: f64) -> f64 {
    theory::delta_programs_per_host_write(delta_share, ratio) / (1.0 - delta_share)
}

/// Returns the mean read latency if a share of the host reads takes two flash reads (page and delta), divided by the
/// latency if every host read takes one flash read (Delta-FTL paper, footnote 2).
pub fn relative_read_latency_with_deltas(two_read_share: f64) -> f64 {
    (1.0 - two_read_share) + 2.0 * two_read_share
}

/// Returns the mean number of flash pages that a delta takes if deltas fill one page after the other and a delta that
/// does not fit closes the page.
///
/// Sizes of deltas are Gaussian with mean `ratio` (of a page) and a quarter of it as standard deviation. Each delta has
/// a header of 6 bytes, and each page a header of 2 bytes. The packing is simulated with a fixed seed; the standard
/// error is less than 0.002.
pub fn flash_pages_per_packed_delta(ratio: f64) -> f64 {
    /// Number of deltas that the simulation packs into pages.
    const SIMULATED_DELTAS: u32 = 200_000;
    let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
    let (mut pages, mut left) = (0u32, 0.0);
    for _ in 0..SIMULATED_DELTAS {
        let share = (ratio * (1.0 + draw_standard_normal(&mut random) / 4.0)).clamp(0.01, 1.0);
        let bytes = (share * PAGE_BYTES + 6.0).min(PAGE_BYTES - 2.0);
        if bytes > left {
            pages += 1;
            left = PAGE_BYTES - 2.0;
        }
        left -= bytes;
    }
    f64::from(pages) / f64::from(SIMULATED_DELTAS)
}

/// Draws a standard normal variate by the method of Box and Muller.
fn draw_standard_normal(random: &mut Xoshiro256PlusPlus) -> f64 {
    let radius = (-2.0 * (1.0 - random.random::<f64>()).ln()).sqrt();
    radius * (std::f64::consts::TAU * random.random::<f64>()).cos()
}

/// Returns the size of a table with `bits` bits per 4-KiB page of the capacity, bytes.
pub fn per_page_table_bytes(capacity_bytes: f64, bits: f64) -> f64 {
    capacity_bytes / PAGE_BYTES * bits / 8.0
}

/// Returns the share of an NVRAM segment that its metadata takes: one entry of 16 bytes (Remap-SSD paper, section 4.6).
pub fn segment_header_share(segment_bytes: f64) -> f64 {
    REMAP_ENTRY_BYTES / segment_bytes
}

/// Returns the size of the NVRAM entries that map an amount of duplicate data, bytes (Remap-SSD paper, section 4.6).
pub fn nvram_bytes_for_duplicates(duplicate_bytes: f64) -> f64 {
    duplicate_bytes / PAGE_BYTES * REMAP_ENTRY_BYTES
}

/// Size of one NVRAM entry for a remapped page, bytes (Remap-SSD paper, Table 2).
const REMAP_ENTRY_BYTES: f64 = 16.0;

/// Returns the time to read `bytes` of NVRAM, ms, at `ns` nanoseconds per 64 bytes.
pub fn nvram_scan_ms(bytes: f64, ns: f64) -> f64 {
    bytes / 64.0 * ns / 1e6
}

/// Returns the time to read a mapping log of `bytes` on flash, ms. The log is spread over `dies` dies, each of which
/// reads a page in `read_us` microseconds.
pub fn flash_scan_ms(bytes: f64, dies: f64, read_us: f64) -> f64 {
    bytes / PAGE_BYTES / dies * read_us / 1e3
}

/// Returns the share of the page writes that remain when four pages are compressed together and `saved_share` of their
/// bytes are saved. The compressed bytes are rounded up to whole pages (integrated lifetime management paper, III-A).
pub fn write_share_left_by_chunk_compression(saved_share: f64) -> f64 {
    (4.0 * (1.0 - saved_share)).ceil() / 4.0
}

/// Returns the energy of an operation that takes `us` microseconds at a power of `mw` milliwatts, microjoules.
pub fn energy_uj(us: f64, mw: f64) -> f64 {
    us * mw / 1e3
}

/// Returns the smallest compression ratio (share of the bytes saved), in steps of 0.001, at which writing four pages
/// compressed together takes less energy than writing them raw; `None` if there is none. `cost` is the energy of
/// compressing a page divided by that of programming it.
pub fn saved_share_at_energy_break_even(cost: f64) -> Option<f64> {
    (0..=1000)
        .map(|k| f64::from(k) / 1000.0)
        .find(|&ratio| write_share_left_by_chunk_compression(ratio) + cost < 1.0)
}

/// Returns the number of bytes that a drive can program until its rated program/erase cycles are used.
pub fn endurance_budget_bytes(capacity_bytes: f64, cycles: f64) -> f64 {
    capacity_bytes * cycles
}

/// Returns the write rate that uses up a budget of bytes in this many years of 365 days, bytes per second.
pub fn bytes_per_s_for_lifetime(budget_bytes: f64, years: f64) -> f64 {
    budget_bytes / (years * theory::DAYS_PER_YEAR * 86_400.0)
}

/// Computes Algorithm 1 of the integrated lifetime management paper (IL) as printed. The pairs are the write ratio D
/// and the energy ratio E of deduplication and of compression; `host_write_rate` is the write rate of the host, and
/// `allowed_write_rate` the write rate that the lifetime target allows. Returns whether deduplication, compression and
/// throttling are enabled.
pub fn lifetime_schemes_enabled_by_paper(
    dedup_write_and_energy_ratio: (f64, f64),
    compression_write_and_energy_ratio: (f64, f64),
    host_write_rate: f64,
    allowed_write_rate: f64,
) -> [bool; 3] {
    let (mut dedup_on, mut compression_on, mut left) = (false, false, host_write_rate);
    if dedup_write_and_energy_ratio.0 < 1.0 && dedup_write_and_energy_ratio.1 < 1.0 {
        left *= dedup_write_and_energy_ratio.0;
        dedup_on = true;
    }
    if compression_write_and_energy_ratio.0 < 1.0 && compression_write_and_energy_ratio.1 < 1.0 {
        left *= compression_write_and_energy_ratio.0;
        compression_on = true;
    }
    if left < allowed_write_rate {
        return [dedup_on, compression_on, false];
    }
    if !compression_on
        && 1.0 - compression_write_and_energy_ratio.0 > compression_write_and_energy_ratio.1 - 1.0
    {
        left *= compression_write_and_energy_ratio.0;
        compression_on = true;
    }
    if !dedup_on && 1.0 - dedup_write_and_energy_ratio.0 > dedup_write_and_energy_ratio.1 - 1.0 {
        left *= dedup_write_and_energy_ratio.0;
        dedup_on = true;
    }
    [dedup_on, compression_on, left > allowed_write_rate]
}

/// Returns in how many cases, percent, Wearwell's lifetime management enables the same schemes (deduplication,
/// compression, throttling) as Algorithm 1 of the integrated lifetime management paper. The cases are a grid of write
/// ratios, energy ratios and write demands.
pub fn scheme_decisions_as_in_paper_percent() -> f64 {
    /// Write ratios (writes with a scheme divided by writes without) of the compared cases.
    const REMAINING_WRITE_RATIOS: [f64; 6] = [0.25, 0.5, 0.75, 0.99, 1.0, 1.05];
    /// Differences between the energy ratio and the write ratio of a scheme in the compared cases.
    const ENERGY_MINUS_WRITE_RATIOS: [f64; 5] = [0.0, 0.0145, 0.132, 0.264, 0.6];
    /// Write rates of the host in the compared cases, divided by the rate that the lifetime target allows.
    const WRITE_DEMANDS_PER_ALLOWED_RATE: [f64; 6] = [0.5, 0.99, 1.0, 1.3, 2.0, 20.0];
    let schemes =
        || REMAINING_WRITE_RATIOS.iter().flat_map(|&d| ENERGY_MINUS_WRITE_RATIOS.map(|e| (d, d + e)));
    let (mut agree, mut all) = (0.0, 0.0);
    for (dedup, compression, demand) in
        schemes().flat_map(|dedup| schemes().map(move |compression| (dedup, compression))).flat_map(
            |(dedup, compression)| WRITE_DEMANDS_PER_ALLOWED_RATE.map(|demand| (dedup, compression, demand)),
        )
    {
        let estimates = [dedup, compression].map(|(write_ratio, energy_ratio)| SchemeEstimate {
            written_share_of_offered_bytes: write_ratio,
            total_energy_per_page_in_program_energies: energy_ratio,
        });
        let decision = decide_schemes(&estimates, demand, 1.0);
        let ours = [
            decision.enabled_schemes.contains(0),
            decision.enabled_schemes.contains(1),
            decision.throttle_bytes_per_epoch.is_some(),
        ];
        agree +=
            f64::from(u8::from(ours == lifetime_schemes_enabled_by_paper(dedup, compression, demand, 1.0)));
        all += 1.0;
    }
    to_percent(agree / all)
}

/// Returns Wearwell's values of a reported result that follows from the paper's parameters by a formula; `None` for
/// other results.
pub fn row_values_from_formula(id: &str) -> Option<Vec<NamedValue>> {
    formula_results::recyclable_ssd_row_values(id)
        .or_else(|| formula_results::delta_ftl_row_values(id))
        .or_else(|| formula_results::remap_ssd_row_values(id))
        .or_else(|| formula_results::integrated_lifetime_row_values(id))
        .or_else(|| metadata::row_values_from_formula(id))
}

/// Parameters of the papers, and the values of each reported result that follows from them.
mod formula_results {
    #[allow(clippy::wildcard_imports, reason = "every formula of the module is used here")]
    use super::*;

    /// FIU traces of the Recyclable SSD paper (LX): name, row of Table I, and the amount of recyclable data in GB
    /// (section III-B).
    const FIU_TRACES: [(&str, TraceTableRow, f64); 3] = [
        ("homes", TraceTableRow { requests: 9.3e6, write_share: 0.938, distinct_addresses: 2.4e6 }, 2.8),
        ("mail", TraceTableRow { requests: 16.3e6, write_share: 0.753, distinct_addresses: 1.2e6 }, 7.4),
        ("web", TraceTableRow { requests: 5.9e6, write_share: 0.825, distinct_addresses: 0.8e6 }, 2.5),
    ];

    /// Returns a value for each FIU trace, computed from the trace's row in Table I of the Recyclable SSD paper and
    /// from its amount of recyclable data in GB.
    fn values_for_each_fiu_trace(value: impl Fn(TraceTableRow, f64) -> f64) -> Vec<NamedValue> {
        FIU_TRACES.map(|(name, table, recyclable)| NamedValue::new(name, value(table, recyclable))).into()
    }

    /// Returns the values of a row (reported result) that has a single value without a name.
    pub(super) fn single_unnamed_value(value: f64) -> Vec<NamedValue> {
        vec![NamedValue::new("", value)]
    }

    /// Returns values of a row (reported result) with these names.
    pub(super) fn named_values<const N: usize>(values: [(&str, f64); N]) -> Vec<NamedValue> {
        values.map(|(name, value)| NamedValue::new(name, value)).into()
    }

    /// Returns the value of a row (reported result) that is a statement: 1 if the statement holds, otherwise 0.
    pub(super) fn truth_value(statement: bool) -> f64 {
        f64::from(u8::from(statement))
    }

    /// Returns the values of the Recyclable SSD paper's row `id`; `None` if they do not follow from a formula.
    pub(super) fn recyclable_ssd_row_values(id: &str) -> Option<Vec<NamedValue>> {
        Some(match id {
            "LX-05" => values_for_each_fiu_trace(|table, _| to_percent(table.overwrite_share())),
            "LX-06" => values_for_each_fiu_trace(|table, _| table.invalidated_gib()),
            "LX-08" => values_for_each_fiu_trace(|table, recyclable_gb| {
                to_percent(recyclable_gb / table.invalidated_gib())
            }),
            "LX-16" => named_values(
                [("64K", 64.0), ("128K", 128.0), ("256K", 256.0)]
                    .map(|(name, kilo)| (name, fingerprint_store_bytes(kilo * KIB) / MIB)),
            ),
            "LX-35" => named_values([("hash and look-up", wearwell_config::TimingConfig::default().hash_us)]),
            _ => return None,
        })
    }

    /// Clocks of the delta encoder, from Tables 1 and 3 of the Delta-FTL paper (DF): name and MHz.
    const ENCODER_CLOCKS_MHZ: [(&str, f64); 3] = [("304 MHz", 304.0), ("619 MHz", 619.0), ("934 MHz", 934.0)];
    /// Clock cycles for encoding a delta of a page (Delta-FTL paper).
    const DELTA_ENCODE_CYCLES: f64 = 27_212.0;
    /// Clock cycles for applying a delta to a page (Delta-FTL paper).
    const DELTA_DECODE_CYCLES: f64 = 6_737.0;
    /// Duration of a page program, microseconds (Delta-FTL paper).
    const PAGE_PROGRAM_US: f64 = 200.0;
    /// Compression ratios (delta size divided by page size) of the Delta-FTL paper: name and value.
    const COMPRESSION_RATIOS: [(&str, f64); 3] = [("0.50", 0.50), ("0.35", 0.35), ("0.20", 0.20)];
    /// Shares of delta writes for which the Delta-FTL paper's formulas are computed.
    const DELTA_WRITE_SHARES: [f64; 3] = [0.2, 0.5, 0.8];

    /// Returns the stage durations of a delta write with the encoder at a clock of `mhz` MHz.
    fn delta_pipeline_at_mhz(mhz: f64) -> DeltaPipeline {
        DeltaPipeline {
            page_read_us: 25.0,
            page_transfer_us: 40.0,
            encode_us: cycles_to_us(DELTA_ENCODE_CYCLES, mhz),
        }
    }

    /// Returns a value for each clock of the delta encoder, computed from the clock in MHz.
    fn values_for_each_encoder_clock(value: impl Fn(f64) -> f64) -> Vec<NamedValue> {
        named_values(ENCODER_CLOCKS_MHZ.map(|(name, mhz)| (name, value(mhz))))
    }

    /// Returns a value for every combination of the share of delta writes (Pc) and the compression ratio (Rc).
    fn values_for_each_delta_share_and_ratio(value: impl Fn(f64, f64) -> f64) -> Vec<NamedValue> {
        let cell = |(name, ratio): (&str, f64), share: f64| {
            NamedValue::new(format!("Rc {name} Pc {share}"), value(share, ratio))
        };
        COMPRESSION_RATIOS
            .iter()
            .flat_map(|&ratio| DELTA_WRITE_SHARES.map(|share| cell(ratio, share)))
            .collect()
    }

    /// Returns the values of the Delta-FTL paper's row `id`; `None` if they do not follow from a formula.
    pub(super) fn delta_ftl_row_values(id: &str) -> Option<Vec<NamedValue>> {
        Some(match id {
            "DF-01" => values_for_each_encoder_clock(|mhz| cycles_to_us(DELTA_ENCODE_CYCLES, mhz)),
            "DF-02" => values_for_each_encoder_clock(|mhz| cycles_to_us(DELTA_DECODE_CYCLES, mhz)),
            "DF-03" => values_for_each_encoder_clock(|mhz| {
                delta_pipeline_at_mhz(mhz).delta_write_overhead_in_programs(PAGE_PROGRAM_US)
            }),
            "DF-04" => values_for_each_encoder_clock(|mhz| {
                delta_pipeline_at_mhz(mhz).break_even_compression_ratio(PAGE_PROGRAM_US)
            }),
            "DF-05" => single_unnamed_value(2f64.powi(31) * PAGE_BYTES / TIB),
            "DF-06" => named_values([
                ("once", page_writes_saved_by_deltas(1.0, 0.25)),
                ("four times", page_writes_saved_by_deltas(4.0, 0.25)),
                ("spare space", 0.25),
            ]),
            "DF-07" => values_for_each_encoder_clock(|mhz| {
                truth_value(delta_pipeline_at_mhz(mhz).is_bound_by_encoder())
            }),
            "DF-19" => values_for_each_delta_share_and_ratio(theory::delta_programs_per_host_write),
            "DF-30" => single_unnamed_value(to_percent(relative_read_latency_with_deltas(0.107) - 1.0)),
            "DF-31" => delta_overhead_at_tested_ratios(),
            "DF-32" => values_for_each_delta_share_and_ratio(relative_gc_frequency_with_deltas),
            "DF-33" => {
                let exported = 64.0 * (1.0 - 0.30);
                named_values([("exported", exported), ("threshold", exported * 0.10)])
            }
            _ => return None,
        })
    }

    /// Returns, for each compression ratio tested in the Delta-FTL paper, whether deltas cost no additional time even
    /// at the slowest clock, and the pages used per delta when deltas are packed.
    fn delta_overhead_at_tested_ratios() -> Vec<NamedValue> {
        let slowest =
            delta_pipeline_at_mhz(ENCODER_CLOCKS_MHZ[0].1).break_even_compression_ratio(PAGE_PROGRAM_US);
        let ideal =
            COMPRESSION_RATIOS.map(|(name, ratio)| NamedValue::new(name, truth_value(ratio < slowest)));
        let packed = COMPRESSION_RATIOS.map(|(name, ratio)| {
            NamedValue::new(format!("packed {name}"), flash_pages_per_packed_delta(ratio))
        });
        [ideal, packed].concat()
    }

    /// Logical capacity of the drive in section 4.6 of the Remap-SSD paper (RM), bytes.
    const LOGICAL_CAPACITY_BYTES: f64 = 4.0 * TIB;
    /// Price of a bit of NVRAM divided by that of a bit of flash (Remap-SSD paper).
    const NVRAM_TO_FLASH_BIT_COST_RATIO: f64 = 5.0;
    /// Size of an NVRAM segment (Remap-SSD paper), bytes.
    const NVRAM_SEGMENT_BYTES: f64 = 1024.0;
    /// Number of pages of a superblock (Remap-SSD paper).
    const SUPERBLOCK_PAGES: f64 = 16.0 * 1024.0;

    /// Returns the NVRAM that `bytes` of entries take together with the headers of their segments, bytes.
    fn nvram_bytes_with_segment_headers(bytes: f64) -> f64 {
        bytes / (1.0 - segment_header_share(NVRAM_SEGMENT_BYTES))
    }

    /// Returns the size of a log with an entry of 12 bytes for each remapped page of the drive, bytes.
    fn remap_log_bytes(remapped_share: f64) -> f64 {
        LOGICAL_CAPACITY_BYTES / PAGE_BYTES * remapped_share * 12.0
    }

    /// Returns flash writes per host write and distinct contents per page under deduplication, if contents have a Zipf
    /// popularity with exponent 0.2.
    fn zipf_deduplication_values(contents_per_page: f64) -> Vec<NamedValue> {
        let content = theory::zipf_dedup_steady_state(0.2, contents_per_page);
        named_values([
            ("flash writes", content.dedup_miss_probability),
            ("distinct live contents", content.distinct_contents_per_page),
        ])
    }

    /// Returns the values of the Remap-SSD paper's row `id`; `None` if they do not follow from a formula.
    pub(super) fn remap_ssd_row_values(id: &str) -> Option<Vec<NamedValue>> {
        let duplicates_of = |nvram_bytes: f64| nvram_bytes / nvram_bytes_for_duplicates(1.0);
        let superblocks = 36.0 * GIB / (SUPERBLOCK_PAGES * PAGE_BYTES);
        let tail_pages = SUPERBLOCK_PAGES * 12.0 / PAGE_BYTES;
        Some(match id {
            "RM-01" => single_unnamed_value(to_percent(per_page_table_bytes(1.0, 32.0))),
            "RM-02" => single_unnamed_value(remap_log_bytes(0.05) / MIB),
            "RM-03" => single_unnamed_value(remap_log_bytes(0.20) / GIB),
            "RM-04" => named_values([
                ("NVRAM 40 MiB", nvram_scan_ms(40.0 * MIB, 50.0)),
                ("NVRAM 640 MiB", nvram_scan_ms(640.0 * MIB, 50.0)),
                ("flash 40 MiB", flash_scan_ms(40.0 * MIB, 16.0, 50.0)),
                ("flash 640 MiB", flash_scan_ms(640.0 * MIB, 32.0, 50.0)),
            ]),
            "RM-05" => {
                let entries = nvram_bytes_for_duplicates(GIB);
                named_values([
                    ("entries", entries / MIB),
                    ("with heads", nvram_bytes_with_segment_headers(entries) / MIB),
                ])
            }
            "RM-06" => named_values([
                ("entries", duplicates_of(GIB) / GIB),
                ("with heads", duplicates_of(GIB * (1.0 - segment_header_share(NVRAM_SEGMENT_BYTES))) / GIB),
            ]),
            "RM-07" => named_values([
                ("1 KiB", to_percent(segment_header_share(NVRAM_SEGMENT_BYTES))),
                ("256 B", to_percent(segment_header_share(256.0))),
                ("8 KiB", to_percent(segment_header_share(8.0 * KIB))),
            ]),
            "RM-08" => single_unnamed_value(to_percent(
                NVRAM_TO_FLASH_BIT_COST_RATIO * nvram_bytes_for_duplicates(1.0),
            )),
            "RM-09" => single_unnamed_value(NVRAM_TO_FLASH_BIT_COST_RATIO),
            "RM-10" => named_values(
                [("4 bits", 4.0), ("1 bit", 1.0)]
                    .map(|(name, bits)| (name, per_page_table_bytes(5.0 * TIB, bits) / MIB)),
            ),
            "RM-11" => single_unnamed_value(per_page_table_bytes(LOGICAL_CAPACITY_BYTES, 1.0) / MIB),
            "RM-12" => {
                single_unnamed_value([1, 21, 42, 1, 31, 1, 31].iter().map(|&bits| f64::from(bits)).sum())
            }
            "RM-14" => named_values([("references", 2f64.powi(4) - 1.0)]),
            "RM-30" => zipf_deduplication_values(0.9),
            "RM-31" => zipf_deduplication_values(0.7),
            "RM-44" => named_values([("superblocks", superblocks), ("pages each", SUPERBLOCK_PAGES)]),
            "RM-45" => named_values([
                ("heads", superblocks),
                ("tails", superblocks * tail_pages),
                ("NVRAM scan of 80 MiB, ms", nvram_scan_ms(80.0 * MIB, 50.0)),
            ]),
            _ => return None,
        })
    }

    /// Returns the energy of compressing a page, microjoules (integrated lifetime management paper, section IV).
    fn page_compression_uj() -> f64 {
        energy_uj(64.0, 60.0)
    }

    /// Returns the energy of hashing a page, microjoules (integrated lifetime management paper, section IV).
    fn page_hash_uj() -> f64 {
        energy_uj(8.6, 49.0)
    }

    /// Returns the energy of programming a page, microjoules (integrated lifetime management paper, section IV).
    fn page_program_uj() -> f64 {
        energy_uj(600.0, 48.5)
    }

    /// Length of an epoch, after which schemes are chosen anew, seconds (integrated lifetime management paper).
    const LIFETIME_EPOCH_S: f64 = 300.0;

    /// Returns the values of the integrated lifetime management paper's row `id`; `None` if they do not follow from a
    /// formula.
    pub(super) fn integrated_lifetime_row_values(id: &str) -> Option<Vec<NamedValue>> {
        let cost = page_compression_uj() / page_program_uj();
        let hash = page_hash_uj() / page_program_uj();
        let budget = endurance_budget_bytes(64.0 * GIB, 3000.0);
        let target = bytes_per_s_for_lifetime(budget, 5.0);
        let none = f64::NAN;
        Some(match id {
            "IL-09" => named_values([
                ("", saved_share_at_energy_break_even(cost).unwrap_or(none)),
                ("2x", saved_share_at_energy_break_even(2.0 * cost).unwrap_or(none)),
                ("cost", cost),
                ("2x cost", 2.0 * cost),
            ]),
            "IL-10" => {
                let useless = |&k: &i32| write_share_left_by_chunk_compression(f64::from(k) / 1000.0) >= 1.0;
                single_unnamed_value(f64::from((0..=1000).rev().find(useless).unwrap_or(0) + 1) / 1000.0)
            }
            "IL-11" => {
                let slope = |left: &dyn Fn(f64) -> f64| {
                    let differences =
                        (0..10).map(|k| left(f64::from(k) / 10.0) - left(f64::from(k + 1) / 10.0));
                    truth_value(differences.into_iter().all(|step| (step - 0.1).abs() < 1e-12))
                };
                let writes = |ratio: f64| 1.0 - ratio;
                let energy = |ratio: f64| 1.0 - ratio + hash;
                named_values([
                    ("writes", slope(&writes)),
                    ("energy", slope(&energy)),
                    ("break-even, %", to_percent(hash)),
                ])
            }
            "IL-12" => named_values([
                ("compression", page_compression_uj()),
                ("hash", page_hash_uj()),
                ("program", page_program_uj()),
            ]),
            "IL-13" => named_values([
                ("MiB per epoch", target * LIFETIME_EPOCH_S / MIB),
                ("MB/s", target / 1e6),
                ("epochs", 5.0 * theory::DAYS_PER_YEAR * 86_400.0 / LIFETIME_EPOCH_S),
            ]),
            "IL-17" => named_values([("agree", scheme_decisions_as_in_paper_percent())]),
            "IL-14" => named_values(
                [("WKSN", 6.8), ("Media", 3.8), ("DVMT", 3.04)]
                    .map(|(name, years)| (name, bytes_per_s_for_lifetime(budget, years) / 1e6)),
            ),
            _ => return None,
        })
    }
}
