//! Tests of compressed chunks (up to four logical pages that are compressed together): cases in which a naive design
//! loses space or data.

use common::{audit, geometry_without_superblocks};
use wearwell::content::dedup::DedupOptions;
use wearwell::design::integrated;
use wearwell::device::HostData;
use wearwell::gc::GcOptions;
use wearwell::lifetime::{MechanismKind, MechanismSet};
use wearwell::nand::{RetainedPageFields, SimNand};
use wearwell::operation::Cause;
use wearwell::stats::Stats;
use wearwell::{Device, DeviceOptions};

use crate::common;

/// Bytes per page.
const PAGE_BYTES: usize = 4096;
/// Index of the cause "content mechanisms" in counters of flash operations by cause.
const CONTENT: usize = Cause::ContentMechanism as usize;
/// Index of the cause "host" in counters of flash operations by cause.
const HOST: usize = Cause::Host as usize;

/// Returns a device of twelve blocks of eight pages that compresses and, if `dedup`, also deduplicates.
fn device(dedup: bool) -> Device {
    let dedup = dedup.then_some(DedupOptions { capacity_entries: None, must_verify_hits: true });
    let nand =
        SimNand::new(geometry_without_superblocks([1, 12, 8, PAGE_BYTES as u32]), RetainedPageFields::ALL);
    Device::new(nand, 40, &integrated(GcOptions::default(), dedup, true), DeviceOptions::default())
        .expect("it fits")
}

/// Returns the bytes of a page of which `random` percent cannot be compressed; the bytes differ for every `id`.
fn page_with_incompressible_share(id: u64, random: usize) -> Vec<u8> {
    let word = |k: usize| wearwell::data::mix_bits(id << 16 | k as u64).to_le_bytes();
    let noise = PAGE_BYTES * random / 100 / 8;
    (0..PAGE_BYTES / 8).flat_map(|k| if k < noise { word(k) } else { [id as u8; 8] }).collect()
}

/// Writes a logical page of the device.
fn write(device: &mut Device, lpn: u64, bytes: &[u8]) {
    device.write(lpn * PAGE_BYTES as u64, PAGE_BYTES as u64, HostData::Bytes(bytes)).expect("there is room");
}

/// Reads a logical page of the device and returns its bytes.
fn read(device: &mut Device, lpn: u64) -> Vec<u8> {
    let mut bytes = vec![0xa5; PAGE_BYTES];
    device.read(lpn * PAGE_BYTES as u64, PAGE_BYTES as u64, &mut bytes).expect("a healthy medium reads");
    bytes
}

/// Returns the counters of the device.
fn stats(device: &Device) -> Stats {
    device.ftl().stats().clone()
}

/// Four pages that compress to about a third each occupy two flash pages, not four.
#[test]
fn four_compressible_pages_are_stored_in_two_flash_pages() {
    let mut device = device(false);
    (0..4).for_each(|lpn| write(&mut device, lpn, &page_with_incompressible_share(lpn, 30)));
    assert_eq!((stats(&device).programs[CONTENT], stats(&device).programs[HOST]), (2, 0));
    (0..4).for_each(|lpn| assert_eq!(read(&mut device, lpn), page_with_incompressible_share(lpn, 30)));
    audit(&mut device);
}

/// A compressed chunk is valid until its last member (a logical page in it) dies. A naive device frees the chunk when
/// its first member dies, and loses three pages, or never frees it.
#[test]
fn a_compressed_chunk_stays_valid_until_its_last_member_dies() {
    let mut device = device(false);
    (0..4).for_each(|lpn| write(&mut device, lpn, &page_with_incompressible_share(lpn, 30)));
    let valid = |device: &Device| -> u32 {
        let blocks = device.ftl().store().blocks();
        (0..blocks.len()).map(|block| blocks.valid_pages(wearwell::address::BlockId(block))).sum()
    };
    assert_eq!(valid(&device), 2);
    for lpn in 0..3 {
        device.trim(lpn * PAGE_BYTES as u64, PAGE_BYTES as u64).expect("a trim");
        assert_eq!(valid(&device), 2, "the pages stay while page 3 needs them");
        assert_eq!(read(&mut device, 3), page_with_incompressible_share(3, 30));
        audit(&mut device);
    }
    device.trim(3 * PAGE_BYTES as u64, PAGE_BYTES as u64).expect("a trim");
    assert_eq!(valid(&device), 0);
    audit(&mut device);
}

/// GC packs or splits compressed chunks of which some members (logical pages in them) died, and loses no live member.
#[test]
fn gc_loses_no_live_member_of_partly_dead_chunks() {
    let mut device = device(false);
    let mut newest = [0; 40];
    for round in 0..60_u64 {
        // Every fourth page is never written again, while the other members of its chunk die.
        for lpn in (0..40).filter(|lpn| round == 0 || lpn % 4 != round % 4 && lpn % 4 != 3) {
            newest[lpn as usize] = 100 * round + lpn;
            write(&mut device, lpn, &page_with_incompressible_share(newest[lpn as usize], 30));
        }
        audit(&mut device);
    }
    let counts = device.ftl().compression_statistics().expect("the design compresses");
    assert!(counts.repacked_chunks + counts.split_chunks > 0 && stats(&device).gc_victims > 0, "{counts:?}");
    (0..40).for_each(|lpn| {
        assert_eq!(
            read(&mut device, lpn),
            page_with_incompressible_share(newest[lpn as usize], 30),
            "page {lpn}"
        );
    });
}

/// Lifetime management predicts the write demand from the bytes stored for host writes and the share of them that
/// compression leaves. Regression: pages written when a chunk was split counted as stored, but not as left by
/// compression. The demand was predicted too low, and a drive under `lifetime.schemes=integrated` throttled too little
/// to last for its target.
#[test]
fn the_stored_page_count_of_host_writes_equals_the_page_count_after_compression() {
    let mut device = device(false);
    // Of the four members of each chunk, in three pages, three are soon overwritten.
    for round in 0..60 {
        for lpn in [round % 20, 30, 31, 32] {
            write(&mut device, lpn, &page_with_incompressible_share(100 * round + lpn, 60));
        }
    }
    device.flush().expect("a healthy medium");
    assert!(device.ftl().compression_statistics().expect("the design compresses").split_chunks > 10);
    let stored_pages = device.ftl().pages_programmed_for_host_writes();
    let of_compression = device.ftl().scheme_byte_counts(MechanismKind::Compression);
    assert_eq!(of_compression.unsaved_bytes, stored_pages * PAGE_BYTES as u64);
    let of_splits = stats(&device).programs[CONTENT] + stats(&device).programs[HOST] - stored_pages;
    let splits = device.ftl().compression_statistics().expect("the design compresses").split_chunks;
    assert!(of_splits >= splits, "a split writes a page or more: {of_splits} of {splits} splits");
}

/// Four incompressible pages are stored as four plain pages, not as a compressed chunk.
#[test]
fn incompressible_pages_are_stored_as_plain_pages() {
    let mut device = device(false);
    (0..4).for_each(|lpn| write(&mut device, lpn, &page_with_incompressible_share(lpn, 100)));
    assert_eq!((stats(&device).programs[CONTENT], stats(&device).programs[HOST]), (0, 4));
    let before = stats(&device).reads[HOST];
    assert_eq!(read(&mut device, 2), page_with_incompressible_share(2, 100));
    assert_eq!(stats(&device).reads[HOST] - before, 1, "a plain page is one read");
    audit(&mut device);
}

/// A flush writes pages that are buffered for a compressed chunk, as a chunk of fewer than four pages. A naive device
/// acknowledges the flush and keeps the pages in RAM.
#[test]
fn a_flush_writes_buffered_pages_as_a_short_chunk() {
    for members in 1..4 {
        let mut device = device(false);
        (0..members).for_each(|lpn| write(&mut device, lpn, &page_with_incompressible_share(lpn, 10)));
        assert_eq!(stats(&device).total_programs(), 0, "the pages wait for company");
        device.flush().expect("there is room");
        assert_eq!(stats(&device).total_programs(), 1, "{members} pages at a tenth fit one");
        device.flush().expect("nothing waits");
        assert_eq!(stats(&device).total_programs(), 1);
        (0..members)
            .for_each(|lpn| assert_eq!(read(&mut device, lpn), page_with_incompressible_share(lpn, 10)));
        audit(&mut device);
    }
}

/// If a page that is buffered for a compressed chunk is overwritten, the new version replaces the old one in the
/// buffer. A naive chunk holds both versions, and reads return the older one.
#[test]
fn an_overwrite_replaces_a_page_buffered_for_a_chunk() {
    let mut device = device(false);
    write(&mut device, 0, &page_with_incompressible_share(1, 30));
    write(&mut device, 1, &page_with_incompressible_share(2, 30));
    write(&mut device, 0, &page_with_incompressible_share(3, 30));
    assert_eq!(read(&mut device, 0), page_with_incompressible_share(3, 30));
    (2..4).for_each(|lpn| write(&mut device, lpn, &page_with_incompressible_share(lpn, 30)));
    assert_eq!(
        device.ftl().compression_statistics().map(|counts| counts.host_written_chunk_members),
        Some(4)
    );
    assert_eq!(read(&mut device, 0), page_with_incompressible_share(3, 30));
    audit(&mut device);
}

/// A trim of a page that is buffered for a compressed chunk is not undone when the chunk is written.
#[test]
fn a_page_trimmed_while_buffered_for_a_chunk_stays_trimmed() {
    let mut device = device(false);
    write(&mut device, 0, &page_with_incompressible_share(1, 30));
    device.trim(0, PAGE_BYTES as u64).expect("a trim");
    (1..6).for_each(|lpn| write(&mut device, lpn, &page_with_incompressible_share(lpn, 30)));
    device.flush().expect("there is room");
    assert_eq!(read(&mut device, 0), vec![0; PAGE_BYTES]);
    audit(&mut device);
}

/// A read of one chunk member (logical page in a compressed chunk) reads all flash pages of the chunk and decompresses
/// all its members.
#[test]
fn reading_a_chunk_member_reads_its_whole_chunk() {
    let mut device = device(false);
    (0..4).for_each(|lpn| write(&mut device, lpn, &page_with_incompressible_share(lpn, 60)));
    let (before, work) = (stats(&device).reads[HOST], stats(&device).controller_work.decompressed_pages);
    assert_eq!(stats(&device).programs[CONTENT], 3);
    assert_eq!(read(&mut device, 1), page_with_incompressible_share(1, 60));
    assert_eq!(stats(&device).reads[HOST] - before, 3);
    assert_eq!(stats(&device).controller_work.decompressed_pages - work, 4);
}

/// While deduplication is off, nothing is added to the content index, but contents without a valid page are removed
/// from it. A naive index later maps logical pages to contents that are gone.
#[test]
fn a_switched_off_deduplication_index_still_drops_contents_without_a_valid_page() {
    let mut device = device(true);
    let (old, new) = (page_with_incompressible_share(1, 100), page_with_incompressible_share(2, 100));
    (0..4).for_each(|lpn| write(&mut device, lpn, &page_with_incompressible_share(10 + lpn, 100)));
    (4..8).for_each(|lpn| write(&mut device, lpn, if lpn == 4 { &old } else { &new }));
    device
        .ftl_mut()
        .switch_content_mechanisms(MechanismSet::ALL.without(MechanismKind::Dedup))
        .expect("nothing waits");
    (4..8).for_each(|lpn| write(&mut device, lpn, &page_with_incompressible_share(20 + lpn, 100)));
    audit(&mut device);
    device.ftl_mut().switch_content_mechanisms(MechanismSet::ALL).expect("nothing waits");
    let hits = stats(&device).deduplicated_writes;
    write(&mut device, 9, &old);
    device.flush().expect("there is room");
    assert_eq!(stats(&device).deduplicated_writes, hits, "the only copy was overwritten");
    assert_eq!(read(&mut device, 9), old);
    audit(&mut device);
}

/// Deduplication maps a logical page to a member of a compressed chunk. The member stays live when the logical page
/// that first wrote it is overwritten.
#[test]
fn a_duplicate_keeps_a_chunk_member_live_after_the_page_that_wrote_it_is_overwritten() {
    let mut device = device(true);
    (0..4).for_each(|lpn| write(&mut device, lpn, &page_with_incompressible_share(lpn, 30)));
    write(&mut device, 20, &page_with_incompressible_share(2, 30));
    assert_eq!(stats(&device).deduplicated_writes, 1);
    for round in 1..40 {
        (0..16)
            .filter(|&lpn| lpn != 2 || round == 1)
            .for_each(|lpn| write(&mut device, lpn, &page_with_incompressible_share(100 * round + lpn, 30)));
        audit(&mut device);
    }
    assert!(stats(&device).gc_victims > 0);
    assert_eq!(read(&mut device, 20), page_with_incompressible_share(2, 30));
}

/// Regression: a page buffered for a compressed chunk advanced the rotation over pools (sets of planes) without using a
/// pool. When it was written uncompressed, it advanced the rotation again. With 8 or 16 pools half of the pools
/// received no host page, and write amplification of incompressible data was 11.8 instead of 2.1.
#[test]
fn incompressible_pages_are_spread_over_all_pools_with_compression_on() {
    use wearwell::Ftl;
    use wearwell::address::Lpn;
    use wearwell::data::{Content, ContentDescriptor, Fingerprint, mix_bits};
    use wearwell::design::{integrated, page_map};
    use wearwell::gc::GcOptions;
    use wearwell::nand::{RetainedPageFields, SimNand};

    let amplification = |parts: &wearwell::design::Parts| {
        let nand = SimNand::new(
            geometry_without_superblocks([8, 40, 32, 4096]),
            RetainedPageFields { keeps_fingerprints: true, ..RetainedPageFields::default() },
        );
        let mut ftl = Ftl::new(nand, 7000, parts).expect("it fits");
        for k in 0..60_000_u64 {
            let content = Content::Descriptor(ContentDescriptor::of_fingerprint(Fingerprint(k + 1)));
            ftl.write(Lpn((mix_bits(k) % 7000) as u32), content).expect("there is room");
        }
        ftl.stats().total_programs() as f64 / ftl.stats().host_page_writes as f64
    };
    let plain = amplification(&page_map(GcOptions::default()));
    let compressing = amplification(&integrated(GcOptions::default(), None, true));
    assert!(compressing < 1.05 * plain, "{compressing} with compression, {plain} without");
}
