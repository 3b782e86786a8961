//! Substitutes (generated loads) for the private traces of the integrated lifetime paper (IL, section IV): WKSN (a
//! high-end PC), Media (upload and download of multimedia files) and DVMT (a development server).
//!
//! The paper describes the traces only through Table I, the lifetimes of a 64-GiB drive of 3000 cycles. Without any
//! scheme the drive lasts 6.8, 3.8 and 3.04 years. That is 0.961, 1.720 and 2.150 MB/s written to flash, which is the
//! rate of page writes here. The ratios of the other columns to the first give the share of the writes that compression
//! (0.325, 0.987, 0.833) and deduplication (0.819, 0.997, more than 1) leave. The default content model reproduces
//! these shares. For deduplication, 18.1, 0.3 and 0 % of the writes repeat an earlier content. For compression, four
//! consecutive writes are compressed together and stored in whole flash pages; the mean compressed size of a page is
//! chosen so that this leaves the shares above. (Rounding up to whole pages takes space: if the mean size were equal to
//! the share, DVMT would save nothing.)
//!
//! Everything that `substitute.rs` assumes is assumed here, too. Further assumptions: the drive's write amplification
//! is 1, so that the host writes as much as flash (a run on a device that collects garbage wears faster). There are 0.3
//! reads per write. A fifth of the writes is to new addresses. The compressed size has a standard deviation of 5 % of a
//! page, from page to page. One day is generated at `scale=1`.

use rand_xoshiro::Xoshiro256PlusPlus;

use super::spec_values::SpecValues;
use super::substitute::{TraceFacts, TraceSubstituteGenerator, substitute_spec_kind};
use crate::content_model::{ContentModelSpec, ContentSource, SizeRatioDistribution};
use crate::workload::PAGE_BYTES;
use crate::workload::spec_grammar::{SpecError, SpecKind};

/// Specification kind of the substitute for the private trace WKSN of the integrated lifetime paper.
pub(super) const WKSN_SPEC_KIND: SpecKind =
    substitute_spec_kind("wksn", "substitute for WKSN, a day of 77 GiB written");
/// Specification kind of the substitute for the private trace Media of the integrated lifetime paper.
pub(super) const MEDIA_SPEC_KIND: SpecKind =
    substitute_spec_kind("media", "substitute for Media, a day of 138 GiB written");
/// Specification kind of the substitute for the private trace DVMT of the integrated lifetime paper.
pub(super) const DVMT_SPEC_KIND: SpecKind =
    substitute_spec_kind("dvmt", "substitute for DVMT, a day of 173 GiB written");

/// Seconds in a day, the duration of the generated load at `scale=1`.
const TRACE_DURATION_S: f64 = 86_400.0;
/// Assumed number of reads per write of the generated loads that replace the traces of the integrated lifetime paper,
/// which does not state the number.
const READS_PER_WRITE: f64 = 0.3;
/// Assumed share of the writes that go to an address that was not written before.
const NEW_ADDRESS_SHARE: f64 = 0.2;

/// Bytes that the drive of the integrated lifetime paper can write over its life: 64 GiB times 3000 cycles.
const BYTES_UNTIL_WORN: f64 = 64.0 * (1u64 << 30) as f64 * 3000.0;

/// A row of Table I of the integrated lifetime paper: the years that the drive lasts without compression and
/// deduplication, and the share of the writes that remains with each of them.
struct LifetimeTableRow {
    /// Name of the substitute for the trace of this row, such as `wksn`.
    name: &'static str,
    /// Published years that the drive lasts without compression and deduplication.
    years_without_scheme: f64,
    /// Share of the page writes that remains with compression, 0 to 1.
    write_share_left_by_compression: f64,
    /// Share of the page writes that remains with deduplication, 0 to 1.
    write_share_left_by_deduplication: f64,
}

/// Rows of Table I of the integrated lifetime paper, one for each trace.
const LIFETIME_TABLE_ROWS: [LifetimeTableRow; 3] = [
    LifetimeTableRow {
        name: "wksn",
        years_without_scheme: 6.8,
        write_share_left_by_compression: 6.8 / 20.9,
        write_share_left_by_deduplication: 6.8 / 8.3,
    },
    LifetimeTableRow {
        name: "media",
        years_without_scheme: 3.8,
        write_share_left_by_compression: 3.8 / 3.85,
        write_share_left_by_deduplication: 3.8 / 3.81,
    },
    LifetimeTableRow {
        name: "dvmt",
        years_without_scheme: 3.04,
        write_share_left_by_compression: 3.04 / 3.65,
        write_share_left_by_deduplication: 3.04 / 2.92,
    },
];

/// Returns the row of Table I of the integrated lifetime paper for the trace that the substitute named `kind` stands in
/// for.
fn lifetime_table_row(kind: &str) -> &'static LifetimeTableRow {
    LIFETIME_TABLE_ROWS.iter().find(|row| row.name == kind).expect("a row for each kind")
}

/// Creates the generator of the substitute named `kind` (a generated load with the counts of a trace).
pub(super) fn trace_substitute_generator(
    kind: &str,
    keys: &SpecValues,
    random: Xoshiro256PlusPlus,
) -> Result<TraceSubstituteGenerator, SpecError> {
    let row = lifetime_table_row(kind);
    let writes = BYTES_UNTIL_WORN / (row.years_without_scheme * 365.0) / PAGE_BYTES as f64;
    let facts = TraceFacts {
        name: row.name,
        reads: writes * READS_PER_WRITE,
        writes,
        distinct_addresses: writes * NEW_ADDRESS_SHARE,
        duration_s: TRACE_DURATION_S,
    };
    TraceSubstituteGenerator::new(&facts, keys, random)
}

/// Standard deviation of a page's compressed size, in pages.
const COMPRESSED_SIZE_SIGMA_PAGES: f64 = 0.05;
/// Number of consecutively written pages that are compressed and stored together, as a chunk of whole flash pages.
const CHUNK_PAGES: f64 = 4.0;

/// Returns the content model that Table I of the integrated lifetime paper implies for a trace.
pub(super) fn content_model_of(kind: &str) -> ContentModelSpec {
    let row = lifetime_table_row(kind);
    let repeat_probability = (1.0 - row.write_share_left_by_deduplication).max(0.0);
    let source = ContentSource::Duplicates { repeat_probability, theta: 0.9, pool_content_count: 100_000 };
    let mean = mean_compressed_size_for_stored_share(row.write_share_left_by_compression);
    ContentModelSpec {
        compressed_size_ratio: Some(SizeRatioDistribution { mean, sigma: COMPRESSED_SIZE_SIGMA_PAGES }),
        ..ContentModelSpec::new(source)
    }
}

/// Finds the mean compressed size of a page, as a share of the page, for which [`stored_share_of_compressed_chunk`] is
/// `share`. Uses bisection, because the stored share increases with the mean size.
fn mean_compressed_size_for_stored_share(share: f64) -> f64 {
    let (mut low, mut high) = (0.0, 1.0);
    for _ in 0..50 {
        let mean = f64::midpoint(low, high);
        if stored_share_of_compressed_chunk(mean) < share { low = mean } else { high = mean }
    }
    low
}

/// Returns the expected number of flash pages per host page if chunks of four pages are compressed, whose compressed
/// sizes are Gaussian with the mean `mean` (as a share of a page). A chunk takes one flash page if the mean size of its
/// pages is at most 1/4, two up to 1/2, and so on.
fn stored_share_of_compressed_chunk(mean: f64) -> f64 {
    let sigma = COMPRESSED_SIZE_SIGMA_PAGES / CHUNK_PAGES.sqrt();
    let exceeds = |size: f64| 0.5 * libm::erfc((size - mean) / (sigma * std::f64::consts::SQRT_2));
    let pages: f64 = (1..CHUNK_PAGES as u32).map(|k| exceeds(f64::from(k) / CHUNK_PAGES)).sum();
    (1.0 + pages) / CHUNK_PAGES
}
