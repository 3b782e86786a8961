//! Tests that real traces (samples) have the counts that were determined without this crate.
//!
//! The samples are not part of the repository (licences, size). `WEARWELL_TRACES` names their directory; without it
//! `../shared/traces` beside the workspace is tried. The tests say so and pass when there is none.

#![expect(clippy::float_cmp)] // both sides are rounded to the digits that are published

use std::path::{Path, PathBuf};

use wearwell_trace::{
    Format, NativeWriter, OpenOptions, Request, TimeUnit, TraceInfo, TraceReader, copy_trace, open,
    open_stream,
};

/// Returns the path of a sample trace; prints a note and returns `None` if the file does not exist.
fn sample_file(path: &str) -> Option<PathBuf> {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/traces");
    let root = std::env::var_os("WEARWELL_TRACES").map_or(beside, PathBuf::from);
    let file = root.join(path);
    if !file.is_file() {
        println!("skipped: no sample {}; set WEARWELL_TRACES", file.display());
        return None;
    }
    Some(file)
}

/// Counts and shares that a sample trace is known to have. Before the comparison, computed shares are rounded to the
/// digits that are known.
struct SampleFacts {
    /// Number of requests in the trace.
    requests: u64,
    /// Number of writes divided by that of reads and writes.
    write_share: f64,
    /// Amount of written data, MiB.
    written_mib: f64,
    /// Number of distinct 4-KiB pages that are written.
    unique_pages_written: u64,
    /// Share (0 to 1) of page writes whose page held data at that time (overwrites).
    overwriting_share: f64,
    /// Share (0 to 1) of page writes whose content was written before, to any page (duplicates), and share of those
    /// whose content the page already held (silent); `None` if the trace has no contents.
    duplicate_and_silent_share: Option<(f64, f64)>,
}

/// Rounds a number to `digits` decimal places.
fn round_to_digits(value: f64, digits: i32) -> f64 {
    (value * 10_f64.powi(digits)).round() / 10_f64.powi(digits)
}

/// Asserts that a sample trace has the known counts and shares, and returns its statistics; `None` if the file is
/// missing.
fn assert_facts(path: &str, format: Format, options: &OpenOptions, facts: &SampleFacts) -> Option<TraceInfo> {
    let info = TraceInfo::of_file(&sample_file(path)?, options).unwrap();
    assert_eq!(info.format, format);
    assert_eq!(info.rejected, 0);
    assert_eq!(info.damage, None);
    assert_eq!(info.requests.sum_over_ops(), facts.requests, "requests");
    let digits = if facts.write_share < 0.001 { 4 } else { 3 };
    assert_eq!(round_to_digits(info.write_share, digits), facts.write_share, "write share");
    let digits = match facts.written_mib {
        small if small < 1.0 => 2,
        medium if medium < 1000.0 => 1,
        _ => 0,
    };
    assert_eq!(round_to_digits(info.written_mib, digits), facts.written_mib, "MiB written");
    assert_eq!(info.unique_pages_written, facts.unique_pages_written, "unique pages");
    assert_eq!(round_to_digits(info.share_of_overwriting_writes, 3), facts.overwriting_share, "overwritten");
    if let Some((duplicate, silent)) = facts.duplicate_and_silent_share {
        let content = info.content.as_ref().unwrap();
        assert_eq!(round_to_digits(content.duplicate_share, 3), duplicate, "duplicates");
        assert_eq!(round_to_digits(content.silent_share, 3), silent, "silent writes");
    }
    Some(info)
}

/// Returns the default options, by which the format of a trace is detected.
fn format_detection_options() -> OpenOptions {
    OpenOptions::default()
}

#[test]
fn the_cloudphysics_vscsi_sample_has_its_known_counts() {
    let facts = SampleFacts {
        requests: 113_872,
        write_share: 0.587,
        written_mib: 2297.0,
        unique_pages_written: 208_696,
        overwriting_share: 0.682,
        duplicate_and_silent_share: None,
    };
    let Some(info) =
        assert_facts("public/cloudphysics-w.vscsi1.zst", Format::Vscsi, &format_detection_options(), &facts)
    else {
        return;
    };
    assert_eq!(round_to_digits(info.duration_ns as f64 / 3.6e12, 1), 2.0, "hours");
}

#[test]
fn the_umass_financial1_sample_in_ssdsim_layout_has_its_known_counts() {
    let options = OpenOptions { time_unit: Some(TimeUnit::Nanoseconds), ..format_detection_options() };
    let facts = SampleFacts {
        requests: 10_000,
        write_share: 0.592,
        written_mib: 28.5,
        unique_pages_written: 3_734,
        overwriting_share: 0.699,
        duplicate_and_silent_share: None,
    };
    assert_facts("public/umass-financial1-first10k.ascii.zst", Format::MqSim, &options, &facts);
}

#[test]
fn the_mqsim_samples_have_their_known_counts() {
    let options = OpenOptions { format: Some(Format::MqSim), ..format_detection_options() };
    let facts = SampleFacts {
        requests: 6_999,
        write_share: 0.374,
        written_mib: 22.3,
        unique_pages_written: 7_879,
        overwriting_share: 0.015,
        duplicate_and_silent_share: None,
    };
    assert_facts("public/mqsim-tpcc-small.trace.zst", Format::MqSim, &options, &facts);
    let facts = SampleFacts {
        requests: 24_783,
        write_share: 0.0002,
        written_mib: 0.03,
        unique_pages_written: 4,
        overwriting_share: 0.5,
        duplicate_and_silent_share: None,
    };
    let Some(info) = assert_facts("public/mqsim-wsrch-small.trace.zst", Format::MqSim, &options, &facts)
    else {
        return;
    };
    assert_eq!(round_to_digits(info.duration_ns as f64 / 1e9, 0), 60.0, "seconds");
}

#[test]
fn the_nbd_log_sample_of_dbench_has_its_known_counts() {
    let facts = SampleFacts {
        requests: 68_990,
        write_share: 0.998,
        written_mib: 309.9,
        unique_pages_written: 7_825,
        overwriting_share: 0.940,
        duplicate_and_silent_share: None,
    };
    let Some(info) = assert_facts(
        "public/nbd-integrity-ext3-dbench.tr.zst",
        Format::Nbd,
        &format_detection_options(),
        &facts,
    ) else {
        return;
    };
    assert_eq!(info.requests.flush, 1_191);
}

/// The list of known counts that comes with the samples gives 0.624 for the share of overwriting writes. That number
/// ignores that 905 discards removed data; by the definition in the list, the share is 0.610.
#[test]
fn the_wiscsee_sqlite_sample_has_its_known_counts() {
    let facts = SampleFacts {
        requests: 19_999,
        write_share: 0.997,
        written_mib: 171.9,
        unique_pages_written: 16_545,
        overwriting_share: 0.610,
        duplicate_and_silent_share: None,
    };
    let Some(info) = assert_facts(
        "public/wiscsee-sqlitewal-240k.txt.zst",
        Format::Wiscsee,
        &format_detection_options(),
        &facts,
    ) else {
        return;
    };
    assert_eq!(info.requests.trim, 905);
    assert_eq!(round_to_digits(info.share_of_writes_to_written_pages, 3), 0.624, "rewritten");
}

/// The list of known counts that comes with the samples gives 0.171 for the share of duplicates. That number counts
/// nine repeated zero pages; by the definition in the list (non-zero pages), the share is 0.162.
#[test]
fn the_fiu_homes_sample_with_sector_digests_has_its_known_counts() {
    let facts = SampleFacts {
        requests: 1_000,
        write_share: 1.0,
        written_mib: 3.9,
        unique_pages_written: 871,
        overwriting_share: 0.129,
        duplicate_and_silent_share: Some((0.162, 0.022)),
    };
    let Some(info) = assert_facts(
        "public/fiu-homes-sample.blkparse.zst",
        Format::Fiu,
        &format_detection_options(),
        &facts,
    ) else {
        return;
    };
    let content = info.content.unwrap();
    assert_eq!(round_to_digits(content.zero_share * 1000.0, 0), 10.0, "zero pages");
    assert_eq!(
        round_to_digits(content.duplicate_share + content.zero_share - 0.001, 3),
        0.171,
        "duplicates with zero pages"
    );
}

#[test]
fn the_fiu_sample_with_page_digests_has_its_known_counts() {
    let facts = SampleFacts {
        requests: 1_000,
        write_share: 1.0,
        written_mib: 3.9,
        unique_pages_written: 914,
        overwriting_share: 0.086,
        duplicate_and_silent_share: Some((0.155, 0.059)),
    };
    assert_facts("public/fiu-web-vm-sample.blkparse.zst", Format::Fiu, &format_detection_options(), &facts);
    let facts = SampleFacts {
        requests: 1_000,
        write_share: 0.016,
        written_mib: 0.06,
        unique_pages_written: 14,
        overwriting_share: 0.125,
        duplicate_and_silent_share: None,
    };
    let Some(info) = assert_facts(
        "public/fiu-mail-01-sample.blkparse.zst",
        Format::Fiu,
        &format_detection_options(),
        &facts,
    ) else {
        return;
    };
    assert_eq!(info.content.unwrap().known_pages, 16);
}

#[test]
fn the_fiu_sample_with_tabs_and_an_index_has_its_known_counts() {
    let facts = SampleFacts {
        requests: 10_000,
        write_share: 0.110,
        written_mib: 4.3,
        unique_pages_written: 890,
        overwriting_share: 0.187,
        duplicate_and_silent_share: Some((0.275, 0.054)),
    };
    let Some(info) =
        assert_facts("public/fiu-mail-10k.tsv.zst", Format::Fiu, &format_detection_options(), &facts)
    else {
        return;
    };
    assert_eq!(round_to_digits(info.duration_ns as f64 / 1e9, 0), 23.0, "seconds");
}

/// Counts and shares that a capture is known to have.
struct CaptureCounts {
    /// Numbers of reads, of writes, of flushes, and of discards and zeroings together.
    requests_by_op: [u64; 4],
    /// Number of 4-KiB page reads, and number of 4-KiB page writes.
    read_and_written_pages: [u64; 2],
    /// Amount of written data, MiB.
    written_mib: f64,
    /// Number of distinct 4-KiB pages that are written.
    unique_pages_written: u64,
    /// Shares (0 to 1) of page writes: to pages that hold data; to pages that were written before, even if trimmed
    /// since; of contents that were written before, to any page; of the content that the page already holds; of zeroes.
    page_write_shares: [f64; 5],
}

/// Asserts that the capture `name` has the expected counts and shares, if its file exists.
fn assert_capture(name: &str, expected: &CaptureCounts) {
    let Some(path) = sample_file(&format!("captures/{name}/{name}.ops.zst")) else { return };
    let info = TraceInfo::of_file(&path, &format_detection_options()).unwrap();
    assert_eq!((info.format, info.rejected), (Format::Capture, 0));
    let requests = info.requests;
    let counted = [requests.read, requests.write, requests.flush, requests.trim + requests.zero];
    assert_eq!(counted, expected.requests_by_op, "requests");
    assert_eq!([info.pages.read, info.pages.write], expected.read_and_written_pages, "pages");
    assert_eq!(round_to_digits(info.written_mib, 0), expected.written_mib);
    assert_eq!(info.unique_pages_written, expected.unique_pages_written);
    let content = info.content.unwrap();
    let shares = [
        info.share_of_overwriting_writes,
        info.share_of_writes_to_written_pages,
        content.duplicate_share,
        content.silent_share,
        content.zero_share,
    ];
    assert_eq!(
        shares.map(|share| round_to_digits(share, 3)),
        expected.page_write_shares,
        "over, rew, dup, silent, zero"
    );
}

#[test]
fn statistics_of_the_sample_capture_w1_sqlite_equal_its_known_counts() {
    assert_capture(
        "w1-sqlite-ext4",
        &CaptureCounts {
            requests_by_op: [3_985, 88_950, 17_285, 8],
            read_and_written_pages: [5_260, 293_942],
            written_mib: 1148.0,
            unique_pages_written: 22_843,
            page_write_shares: [0.922, 0.922, 0.054, 0.003, 0.000],
        },
    );
}

#[test]
fn statistics_of_the_sample_capture_w2_git_equal_its_known_counts() {
    assert_capture(
        "w2-git-ext4",
        &CaptureCounts {
            requests_by_op: [1_363, 4_488, 655, 428],
            read_and_written_pages: [13_550, 22_785],
            written_mib: 89.0,
            unique_pages_written: 10_909,
            page_write_shares: [0.468, 0.521, 0.312, 0.052, 0.000],
        },
    );
}

#[test]
fn statistics_of_the_sample_capture_w3_maildir_equal_its_known_counts() {
    assert_capture(
        "w3-maildir-ext4dj",
        &CaptureCounts {
            requests_by_op: [835, 100_169, 99_972, 8],
            read_and_written_pages: [1_466, 403_233],
            written_mib: 1575.0,
            unique_pages_written: 18_211,
            page_write_shares: [0.955, 0.955, 0.197, 0.000, 0.000],
        },
    );
}

#[test]
fn statistics_of_the_sample_capture_w4_pgbench_equal_its_known_counts() {
    assert_capture(
        "w4-pgbench-ext4",
        &CaptureCounts {
            requests_by_op: [62, 51_875, 22_447, 9],
            read_and_written_pages: [281, 298_068],
            written_mib: 1164.0,
            unique_pages_written: 52_907,
            page_write_shares: [0.823, 0.823, 0.133, 0.126, 0.129],
        },
    );
}

#[test]
fn statistics_of_the_sample_capture_w5_cbuild_equal_its_known_counts() {
    assert_capture(
        "w5-cbuild-ext4",
        &CaptureCounts {
            requests_by_op: [123, 4_413, 259, 1_622],
            read_and_written_pages: [350, 58_910],
            written_mib: 230.0,
            unique_pages_written: 20_682,
            page_write_shares: [0.024, 0.649, 0.171, 0.001, 0.049],
        },
    );
}

/// Checks the mean size over the distinct contents of a capture, and the mean delta size over its changed pages.
#[test]
fn compressed_page_sizes_in_captures_match_the_published_means() {
    let expected = [("w2-git-ext4", 0.557, 0.325), ("w5-cbuild-ext4", 0.527, 0.167)];
    for (name, lz4, xor) in expected {
        let Some(path) = sample_file(&format!("captures/{name}/{name}.ops.zst")) else { return };
        let mut reader = open(&path, &format_detection_options()).unwrap();
        let mut request = Request::default();
        let (mut sizes, mut deltas) = (std::collections::BTreeMap::new(), Vec::new());
        while reader.next(&mut request).unwrap() {
            for descriptor in &request.content {
                sizes.insert(descriptor.fingerprint, f64::from(descriptor.compressed_bytes));
                if descriptor.delta_bytes != 0 && descriptor.delta_bytes != u16::MAX {
                    deltas.push(f64::from(descriptor.delta_bytes));
                }
            }
        }
        let mean = |sum: f64, count: usize| round_to_digits(sum / count as f64 / 4096.0, 3);
        assert_eq!(mean(deltas.iter().sum(), deltas.len()), xor, "{name}");
        assert_eq!(mean(sizes.values().sum(), sizes.len()), lz4, "{name}");
    }
}

/// Checks the page bytes in a capture. A request has bytes only if those of all its contents are stored, and equal ids
/// have equal bytes. The number of page writes before the first content without stored bytes is the published one.
#[test]
fn equal_content_ids_have_equal_bytes_in_a_capture() {
    /// Number of distinct contents of which the capture stores the bytes.
    const CONTENTS_WITH_STORED_BYTES: u64 = 20_000;
    /// Number of page writes before the first write of a content without stored bytes.
    const PAGE_WRITES_BEFORE_FIRST_CONTENT_WITHOUT_BYTES: usize = 25_568;
    let Some(path) = sample_file("captures/w5-cbuild-ext4/w5-cbuild-ext4.ops.zst") else { return };
    let mut reader =
        open(&path, &OpenOptions { reads_payloads: true, ..format_detection_options() }).unwrap();
    let mut request = Request::default();
    let mut seen = std::collections::HashMap::new();
    let mut ids = Vec::new();
    while reader.next(&mut request).unwrap() {
        let kept =
            request.content.iter().all(|descriptor| descriptor.fingerprint.0 < CONTENTS_WITH_STORED_BYTES);
        let expected_len = if kept && !request.content.is_empty() { request.len_bytes } else { 0 };
        assert_eq!(request.payload.len() as u64, expected_len);
        for (page, descriptor) in request.payload.chunks_exact(4096).zip(&request.content) {
            let real = wearwell::data::fingerprint_of(page);
            assert_eq!(*seen.entry(descriptor.fingerprint).or_insert(real), real);
        }
        ids.extend(request.content.iter().map(|descriptor| descriptor.fingerprint.0));
    }
    let distinct: std::collections::HashSet<_> = seen.values().collect();
    assert_eq!(distinct.len(), seen.len(), "distinct ids have distinct bytes");
    assert_eq!(
        ids.iter().position(|&id| id >= CONTENTS_WITH_STORED_BYTES),
        Some(PAGE_WRITES_BEFORE_FIRST_CONTENT_WITHOUT_BYTES)
    );
}

/// Reads all remaining requests of a trace into a list, for comparison.
fn read_all_requests(mut reader: Box<dyn TraceReader>) -> Vec<Request> {
    let mut all = Vec::new();
    let mut request = Request::default();
    while reader.next(&mut request).unwrap() {
        all.push(request.clone());
    }
    all
}

#[test]
fn native_copies_of_the_samples_are_exact() {
    let names = [
        "captures/w4-pgbench-ext4/w4-pgbench-ext4.ops.zst",
        "captures/w2-git-ext4/w2-git-ext4.ops.zst",
        "public/fiu-mail-10k.tsv.zst",
        "public/cloudphysics-w.vscsi1.zst",
    ];
    for name in names {
        let Some(path) = sample_file(name) else { return };
        let mut file = Vec::new();
        let mut writer = NativeWriter::new(&mut file, name).unwrap();
        copy_trace(open(&path, &format_detection_options()).unwrap().as_mut(), &mut writer).unwrap();
        drop(writer);
        println!("{name}: {} bytes as stored, {} native", path.metadata().unwrap().len(), file.len());
        let copy = open_stream(std::io::Cursor::new(file), name, &format_detection_options()).unwrap();
        assert_eq!(copy.provenance(), Some(name));
        assert!(
            read_all_requests(copy) == read_all_requests(open(&path, &format_detection_options()).unwrap()),
            "{name}"
        );
    }
}
