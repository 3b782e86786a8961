//! Recovery in simulations that keep no page bytes, only content descriptors (fingerprint and sizes of each page). What
//! recovery reads on a real drive from the bytes of a page, such as the directory of a compressed chunk, must be found
//! there all the same.

use std::collections::BTreeMap;

use common::geometry_without_superblocks;
use wearwell::Ftl;
use wearwell::address::{Lpn, Ppn};
use wearwell::content::dedup::DedupOptions;
use wearwell::content::recycle::RecycleOptions;
use wearwell::data::{Content, ContentDescriptor, Fingerprint, mix_bits};
use wearwell::design::{
    DeltaOptions, Parts, RecyclingPart, WearwellOptions, delta, delta_with_journal, integrated, wearwell,
};
use wearwell::gc::GcOptions;
use wearwell::logical_page_form::LogicalPageForm;
use wearwell::mapping::{DemandPagedMapOptions, JournalOptions};
use wearwell::nand::{Nand, RetainedPageFields, SimNand};
use wearwell::validity::{GeckoOptions, MergeMode};

use crate::common;

/// Number of logical pages of the tested devices.
const LOGICAL_PAGES: u32 = 480;
/// Options of delta encoding in the tested designs: small tables and one page of buffer, so that deltas reach flash
/// soon.
const DELTA_OPTIONS: DeltaOptions = DeltaOptions {
    access_count_table_entries: Some(64),
    hot_access_threshold: 2,
    temp_buffer_pages: 1,
    max_mean_delta_share_of_page: 1.0,
    cold_scan_interval_writes: 64,
    deltas_per_cold_scan: 8,
    max_delta_share_of_spare_pages: 1.0,
};

/// Returns designs whose recovery reads pages of deltas and chunks to learn which logical pages these hold.
fn delta_and_chunk_designs() -> Vec<(&'static str, Parts)> {
    let (gc, cache) = (GcOptions::default(), DemandPagedMapOptions::with_cache_capacity(32));
    let dedup = DedupOptions { capacity_entries: None, must_verify_hits: true };
    let gecko = GeckoOptions { size_ratio: 2, parts_per_block: 1, merge_mode: MergeMode::MultiWay };
    let options =
        RecycleOptions { capacity_entries: Some(16), counts_scan_comparisons: false, ..Default::default() };
    let recycle = RecyclingPart { options, must_verify_hits: true };
    let unpowered = Parts::without_battery;
    let all = WearwellOptions { cache_entries: 32, gecko, recycle, dedup, delta: DELTA_OPTIONS };
    vec![
        ("chunks", unpowered(integrated(gc, None, true))),
        ("chunks of deduplicated pages", unpowered(integrated(gc, Some(dedup), true))),
        ("deltas", unpowered(delta(gc, DELTA_OPTIONS, None))),
        ("deltas, map on flash", unpowered(delta(gc, DELTA_OPTIONS, Some(cache)))),
        ("deltas, battery for the map", delta(gc, DELTA_OPTIONS, Some(cache))),
        (
            "deltas, journal",
            delta_with_journal(gc, DELTA_OPTIONS, cache, JournalOptions { merge_start_pages: 2 }),
        ),
        ("all", wearwell(gc, all)),
    ]
}

/// Creates a small flash medium of 960 pages, with the NVRAM that `parts` needs.
fn new_medium(parts: &Parts, retain: RetainedPageFields) -> SimNand {
    let geometry = geometry_without_superblocks([1, 60, 16, 4096]);
    let nvram_bytes = parts.total_nvram_bytes(&geometry, LOGICAL_PAGES);
    SimNand::new(geometry, retain).with_nvram(nvram_bytes)
}

/// Executes request `number` of a workload that repeats some contents and writes a few pages often. Contents are
/// given as descriptors (fingerprint and sizes), not as bytes.
fn execute_request(ftl: &mut Ftl, held: &mut [Option<Fingerprint>], number: u64) {
    let draw = mix_bits(number);
    let lpn = if draw.is_multiple_of(4) { draw >> 8 } else { (draw >> 8) % 24 } % u64::from(LOGICAL_PAGES);
    let (lpn, at) = (Lpn(lpn as u32), lpn as usize);
    match (draw >> 40) % 16 {
        0 => {
            ftl.trim(lpn).expect("there is room");
            held[at] = None;
        }
        1 => {
            let nand = ftl.store().nand();
            let mut page =
                vec![0; if nand.keeps_host_bytes() { nand.geometry().page_bytes as usize } else { 0 }];
            ftl.read(lpn, &mut page).expect("a healthy medium reads");
        }
        _ => {
            let content = Fingerprint(1 + (draw >> 44) % 2000);
            let sizes = mix_bits(content.0);
            let (compressed_bytes, delta_bytes) = (500 + sizes % 3000, 30 + (sizes >> 32) % 1500);
            let descriptor = ContentDescriptor {
                fingerprint: content,
                compressed_bytes: compressed_bytes as u16,
                delta_bytes: delta_bytes as u16,
            };
            ftl.write(lpn, Content::Descriptor(descriptor)).expect("there is room");
            held[at] = Some(content);
        }
    }
}

/// Fixed bug: in simulations without page bytes, chunk pages had no directory, and delta pages lost their
/// directory. Recovery then rejected the map, or restored the version of a logical page before its newest delta.
#[test]
fn pages_stored_as_content_descriptors_survive_a_power_loss() {
    let without_bytes = RetainedPageFields { keeps_data_bytes: false, ..RetainedPageFields::ALL };
    for (name, parts) in delta_and_chunk_designs() {
        assert!(parts.recovery_reads_packed_pages(), "{name}");
        let recovered = [without_bytes, RetainedPageFields::ALL].map(|retain| {
            let mut ftl = Ftl::new(new_medium(&parts, retain), LOGICAL_PAGES, &parts).expect("it fits");
            let mut held = vec![None; LOGICAL_PAGES as usize];
            for loss in 0..40 {
                (0..200).for_each(|k| execute_request(&mut ftl, &mut held, 200 * loss + k));
                ftl.flush().expect("there is room");
                ftl.recover().expect("a healthy medium recovers");
                ftl.check().unwrap_or_else(|violation| panic!("{name}, loss {loss}: {violation}"));
                for (lpn, expected) in (0..).map(Lpn).zip(&held) {
                    let content = ftl.current_fingerprint_of(lpn, &[]).expect("it is mapped or not");
                    assert_eq!(content, *expected, "{name}, page {lpn}, loss {loss}");
                }
            }
            ftl.stats().clone()
        });
        let stats = &recovered[0];
        assert!(stats.delta_writes + stats.compressed_chunk_writes > 400, "{name}: {stats:?}");
        assert!(stats.total_erases() > 60, "{name}: {stats:?}");
        assert_eq!(recovered[0], recovered[1], "{name}: a medium with bytes makes no difference");
    }
}

/// Garbage collection packs the members of a compressed chunk again, by their compressed sizes, which recovery must
/// therefore restore. With smaller sizes the members of a new chunk would not fit in its flash pages.
#[test]
fn compressed_chunks_packed_after_a_recovery_fit_in_their_flash_pages() {
    let parts = integrated(GcOptions::default(), None, true).without_battery();
    let without_bytes = RetainedPageFields { keeps_data_bytes: false, ..RetainedPageFields::ALL };
    let medium = new_medium(&parts, without_bytes);
    let page_bytes = medium.geometry().page_bytes as usize;
    let mut ftl = Ftl::new(medium, LOGICAL_PAGES, &parts).expect("it fits");
    let mut compressed_bytes_of_lpn = vec![0; LOGICAL_PAGES as usize];
    let mut write = |ftl: &mut Ftl, number: u64, written_pages: u32| {
        let lpn = (mix_bits(number) >> 32) as u32 % written_pages;
        let compressed_bytes = 200 + (mix_bits(number) % 3896) as u16;
        compressed_bytes_of_lpn[lpn as usize] = compressed_bytes as usize;
        let descriptor = ContentDescriptor {
            compressed_bytes,
            ..ContentDescriptor::of_fingerprint(Fingerprint(number + 1))
        };
        ftl.write(Lpn(lpn), Content::Descriptor(descriptor)).expect("there is room");
    };
    (0..3000).for_each(|number| write(&mut ftl, number, LOGICAL_PAGES));
    ftl.flush().expect("there is room");
    ftl.recover().expect("a healthy medium recovers");
    ftl.clear_stats();
    // Garbage collection moves the other pages, which are not written again.
    (3000..6000).for_each(|number| write(&mut ftl, number, LOGICAL_PAGES / 8));
    ftl.flush().expect("there is room");
    assert!(ftl.stats().total_erases() > 60, "{:?}", ftl.stats());

    let view = ftl.flash_view().expect("a healthy medium reads");
    let mut chunks = BTreeMap::<Ppn, (usize, usize)>::new(); // by first flash page: all its pages, sizes of its members
    for (lpn, first) in (0..).map(Lpn).zip(&view.first_flash_page_of_lpn) {
        if view.form_of_lpn[lpn.index()] == LogicalPageForm::CompressedInChunk {
            let pages = 1 + view.further_flash_pages_of_lpn.get(&lpn).map_or(0, Vec::len);
            let chunk = chunks.entry(first.expect("a member is on flash")).or_insert((pages, 0));
            chunk.1 += compressed_bytes_of_lpn[lpn.index()];
        }
    }
    assert!(chunks.len() > 50, "{chunks:?}");
    for (first, (pages, members_bytes)) in chunks {
        assert!(
            members_bytes <= pages * page_bytes,
            "chunk at flash page {first}: {members_bytes} bytes in {pages} pages"
        );
    }
}
