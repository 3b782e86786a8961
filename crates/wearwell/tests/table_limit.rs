//! Tests of the limit of RAM for tables of content mechanisms. While the tables are full, pages are stored whole. When
//! entries are free, pages are again shared, delta-encoded or compressed.

use common::{audit, designs_with_prefix, geometry_without_superblocks};
use wearwell::address::{Lpn, RemapMode};
use wearwell::content::dedup::DedupOptions;
use wearwell::data::{ContentDescriptor, Fingerprint};
use wearwell::design::{DeltaOptions, Parts, delta, integrated};
use wearwell::device::HostData;
use wearwell::gc::GcOptions;
use wearwell::nand::{RetainedPageFields, SimNand};
use wearwell::{Device, DeviceOptions};

use crate::common;

/// Bytes per page.
const PAGE: usize = 4096;

/// Returns a device of 200 logical pages whose tables of content mechanisms in RAM are limited to `limit_bytes` bytes.
fn device(mut parts: Parts, limit_bytes: u64) -> Device {
    parts.content.content_tables_ram_limit_bytes = Some(limit_bytes);
    let nand = SimNand::new(geometry_without_superblocks([1, 40, 8, PAGE as u32]), RetainedPageFields::ALL);
    Device::new(nand, 200, &parts, DeviceOptions::default()).expect("it fits")
}

/// Returns a page of which `noise_words` words of eight bytes cannot be compressed; these words differ for every `id`.
fn page(id: u64, noise_words: usize) -> Vec<u8> {
    let word = |k: usize| wearwell::data::mix_bits(id << 16 | k as u64).to_le_bytes();
    (0..PAGE / 8).flat_map(|k| if k < noise_words { word(k) } else { [id as u8; 8] }).collect()
}

/// Writes a logical page.
fn write(device: &mut Device, lpn: u64, bytes: &[u8]) {
    device.write(lpn * PAGE as u64, PAGE as u64, HostData::Bytes(bytes)).expect("there is room");
}

/// Reads a logical page and returns its bytes.
fn read(device: &mut Device, lpn: u64) -> Vec<u8> {
    let mut bytes = vec![0xa5; PAGE];
    device.read(lpn * PAGE as u64, PAGE as u64, &mut bytes).expect("a healthy medium reads");
    bytes
}

/// Trims a range of logical pages.
fn trim(device: &mut Device, lpns: std::ops::Range<u64>) {
    device.trim(lpns.start * PAGE as u64, (lpns.end - lpns.start) * PAGE as u64).expect("a trim");
}

/// Returns the number of pages that were stored whole because the tables of content mechanisms were full.
fn pages_demoted_by_full_tables(device: &Device) -> u64 {
    device.ftl().stats().pages_stored_plainly_due_to_full_content_tables
}

/// Returns a design with compression and, if `deduplicates`, deduplication.
fn compression_parts(deduplicates: bool) -> Parts {
    let dedup = deduplicates.then_some(DedupOptions { capacity_entries: None, must_verify_hits: true });
    integrated(GcOptions::default(), dedup, true)
}

#[test]
fn pages_are_stored_uncompressed_while_the_chunk_directory_is_full() {
    // Room for two chunks of 32 bytes: the limit is reached by the second.
    let mut device = device(compression_parts(false), 33);
    (0..16).for_each(|lpn| write(&mut device, lpn, &page(lpn, 100)));
    let chunks = |device: &Device| device.ftl().compression_statistics().expect("it compresses");
    assert_eq!((chunks(&device).host_written_chunks, pages_demoted_by_full_tables(&device)), (2, 8));
    assert_eq!(device.ftl().content_table_ram_bytes(), 64);
    // The first chunk dies, so one more may be written.
    trim(&mut device, 0..4);
    (16..24).for_each(|lpn| write(&mut device, lpn, &page(lpn, 100)));
    assert_eq!((chunks(&device).host_written_chunks, pages_demoted_by_full_tables(&device)), (3, 12));
    (4..24).for_each(|lpn| assert_eq!(read(&mut device, lpn), page(lpn, 100), "page {lpn}"));
    audit(&mut device);
}

#[test]
fn duplicates_and_remaps_are_written_while_the_reverse_map_is_full() {
    // A bind takes 22 bytes if it is the first of its page: entry and reference count.
    let mut device = device(compression_parts(true), 23);
    (0..4).for_each(|lpn| write(&mut device, lpn, &page(lpn, 512)));
    (4..8).for_each(|lpn| write(&mut device, lpn, &page(lpn - 4, 512)));
    assert_eq!((device.ftl().stats().deduplicated_writes, pages_demoted_by_full_tables(&device)), (2, 2));
    device.ftl_mut().remap_page(Lpn(9), Lpn(3), RemapMode::Copy).expect("there is room");
    assert_eq!((device.ftl().stats().remapped_pages, pages_demoted_by_full_tables(&device)), (0, 3));
    trim(&mut device, 4..6);
    device.ftl_mut().remap_page(Lpn(10), Lpn(3), RemapMode::Copy).expect("there is room");
    assert_eq!((device.ftl().stats().remapped_pages, pages_demoted_by_full_tables(&device)), (1, 3));
    device.flush().expect("there is room");
    for (lpn, content) in [(0, 0), (1, 1), (2, 2), (3, 3), (6, 2), (7, 3), (9, 3), (10, 3)] {
        assert_eq!(read(&mut device, lpn), page(content, 512), "page {lpn}");
    }
    audit(&mut device);
}

#[test]
fn overwrites_are_stored_whole_while_the_delta_table_is_full() {
    let design = DeltaOptions { hot_access_threshold: 1, ..DeltaOptions::default() };
    let parts = delta(GcOptions::default(), design, None);
    let mut device = device(parts, 3 * 8);
    (0..6).for_each(|lpn| write(&mut device, lpn, &page(lpn, 512)));
    let changed = |lpn: u64| [&page(lpn, 512)[..PAGE - 8], &[7; 8]].concat();
    (0..6).for_each(|lpn| write(&mut device, lpn, &changed(lpn)));
    assert_eq!((device.ftl().stats().delta_writes, pages_demoted_by_full_tables(&device)), (3, 3));
    (0..6).for_each(|lpn| assert_eq!(read(&mut device, lpn), changed(lpn), "page {lpn}"));
    audit(&mut device);
}

/// The tables of content mechanisms exceed their limit by at most the entries of one compressed chunk, even when GC
/// writes chunks anew.
#[test]
fn tables_stay_within_their_limit_in_a_long_run() {
    /// Limit of the RAM for tables of content mechanisms, bytes.
    const LIMIT_BYTES: u64 = 600;
    let mut device = device(compression_parts(true), LIMIT_BYTES);
    for k in 0..20_000 {
        let draw = wearwell::data::mix_bits(k);
        let content = if draw.is_multiple_of(3) { draw >> 8 & 15 } else { k };
        write(&mut device, (draw >> 32) % 200, &page(content, (draw >> 20) as usize % 512));
        let bytes = device.ftl().content_table_ram_bytes();
        assert!(bytes <= LIMIT_BYTES + 32, "the tables take {bytes} bytes after write {k}");
    }
    let stats = device.ftl().stats();
    assert!(stats.gc_victims > 100 && stats.deduplicated_writes > 0, "{stats:?}");
    assert!(
        pages_demoted_by_full_tables(&device) > 1000,
        "{} demotions",
        pages_demoted_by_full_tables(&device)
    );
    audit(&mut device);
}

/// NVRAM has one record per flash page of a compressed chunk and per delta. Chunks take most of this space before pages
/// become eligible for deltas. Naive implementations do not count deltas, or limit only the tables in RAM, and the
/// records exceed the NVRAM.
#[test]
fn nvram_records_of_chunks_and_deltas_together_stay_within_their_limit() {
    /// Compressed size or delta size that is not known.
    const UNKNOWN: u16 = ContentDescriptor::UNKNOWN_SIZE;
    let mut parts = designs_with_prefix("mixture of the design wearwell")[0].parts.clone();
    parts.content.delta.as_mut().expect("it encodes deltas").cold_scan_interval_writes = 0;
    // Room for 200 records: one of each of the three pages of 64 chunks, and 8 deltas. RAM would have room for 172
    // deltas.
    parts.content.content_tables_ram_limit_bytes = Some(2400);
    let geometry = geometry_without_superblocks([1, 40, 64, PAGE as u32]);
    let nand = SimNand::new(geometry.clone(), RetainedPageFields::ALL);
    let nand = nand.with_nvram(parts.total_nvram_bytes(&geometry, 800));
    let mut device = Device::new(nand, 800, &parts, DeviceOptions::default()).expect("it fits");
    let mut number = 0;
    let mut write = |device: &mut Device, lpn: u32, compressed_bytes: u16, delta_bytes: u16| {
        number += 1;
        let content = ContentDescriptor { fingerprint: Fingerprint(number), compressed_bytes, delta_bytes };
        device.write_page_descriptor(Lpn(lpn), content).expect("there is room");
    };
    (400..600).for_each(|lpn| write(&mut device, lpn, UNKNOWN, UNKNOWN));
    (0..256).for_each(|lpn| write(&mut device, lpn, 2900, UNKNOWN));
    for lpn in (400..600).flat_map(|lpn| [lpn; 4]) {
        write(&mut device, lpn, UNKNOWN, 200);
    }
    device.flush().expect("there is room");
    device.ftl_mut().write_back_ram_state().expect("there is room");
    let chunks = device.ftl().compression_statistics().expect("it compresses").host_written_chunks;
    assert!(chunks == 64 && device.ftl().stats().delta_writes > 0, "{chunks} chunks");
    audit(&mut device);
}
