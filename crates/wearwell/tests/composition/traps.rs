//! Traps: ten errors that are likely in a design of several content mechanisms, one test each. Each error applies a
//! rule that is true only while a mechanism runs alone: that the spare area names the owner, that a map entry names a
//! flash page, that a map entry which is not cached does not exist, or that the page which an overwrite replaces is
//! known.

use MechanismKind::{Compression, Dedup, Delta, Recycle};
use wearwell::address::Lpn;
use wearwell::content::recycle::FingerprintStorePolicy;
use wearwell::design::{MappingPart, Parts, Persistence};
use wearwell::flash_view::FlashPageState;
use wearwell::lifetime::MechanismKind;
use wearwell::logical_page_form::LogicalPageForm;
use wearwell::mapping::{AnyMapping, DemandPagedMapOptions, InvalidPageIdentification};
use wearwell::nand::PageKind;
use wearwell::sharing::reverse_map::ReverseMapKind;

use super::rig::{
    Rig, compressible_page, design_with_metadata_in_battery_ram, design_with_metadata_on_flash,
    incompressible_page, page_bytes_of_version, refusal, with_map_on_flash, without_battery,
};

/// Deduplication and deltas: a logical page that is stored as a delta is written with the content of its base. The
/// write maps the page to the flash page to which it is mapped already. If the delta were kept, reads would return the
/// older version that the delta describes.
#[test]
fn a_write_equal_to_its_delta_base_drops_the_delta() {
    for parts in [
        design_with_metadata_in_battery_ram(&[Dedup, Delta]),
        without_battery(design_with_metadata_in_battery_ram(&[Dedup, Delta])),
        design_with_metadata_on_flash(&[Dedup, Delta]),
    ] {
        let mut rig = Rig::new(&parts);
        rig.write(0, &page_bytes_of_version(1, 100, 0));
        rig.write(0, &page_bytes_of_version(1, 100, 1));
        assert_eq!(rig.form(0), LogicalPageForm::Delta);
        rig.write(0, &page_bytes_of_version(1, 100, 0));
        rig.assert_page_holds_last_write(0);
        assert_eq!((rig.form(0), rig.stats().deduplicated_writes), (LogicalPageForm::InOwnFlashPage, 1));
        rig.flush();
        rig.lose_power();
        rig.assert_all_pages_hold_last_write();
    }
}

/// Recycling and compression: a version of a page is buffered for a compressed chunk, and the next write of the page
/// revives a dead page. If the buffered version were kept, reads would return it, and the chunk would later replace the
/// newer version.
#[test]
fn a_revived_page_replaces_an_older_version_buffered_for_a_chunk() {
    for parts in [
        design_with_metadata_in_battery_ram(&[Recycle, Compression]),
        design_with_metadata_in_battery_ram(&[Dedup, Recycle, Compression]),
    ] {
        let mut rig = Rig::new(&parts);
        rig.write_and_flush(0, &incompressible_page(1));
        rig.write_and_flush(0, &incompressible_page(2));
        rig.write(0, &incompressible_page(3));
        assert_eq!(rig.device.ftl().logical_pages_awaiting_compression(), 1);
        rig.write(0, &incompressible_page(1));
        rig.assert_page_holds_last_write(0);
        assert_eq!(
            (rig.stats().recycled_writes, rig.device.ftl().logical_pages_awaiting_compression()),
            (1, 0)
        );
        (1..5).for_each(|lpn| rig.write(lpn, &compressible_page(u64::from(lpn))));
        rig.flush();
        rig.assert_all_pages_hold_last_write();
    }
}

/// Recycling and sharing: a flash page that logical page 0 wrote is revived for logical page 1. The reverse map names
/// page 1 as its referrer, but the owner table of recycling has no entry for it. If GC asked the owner table, it would
/// move the flash page for page 0, which has other content by now.
#[test]
fn gc_moves_a_revived_page_for_the_pages_that_share_it() {
    for parts in [
        design_with_metadata_in_battery_ram(&[Dedup, Recycle]),
        design_with_metadata_on_flash(&[Dedup, Recycle]),
    ] {
        let mut rig = Rig::new(&parts);
        rig.write(0, &incompressible_page(1));
        // Page 0 is then in another block, so that nothing else in the victim says where it is.
        let first = rig.ppn_of(0);
        rig.close_block_of(first);
        rig.write(0, &incompressible_page(2));
        rig.write(1, &incompressible_page(1));
        assert_eq!(rig.stats().recycled_writes, 1);
        let revived = rig.ppn_of(1);
        assert_eq!(rig.spare_owner(revived), Lpn(0), "the spare area names its writer");
        rig.collect_block_of(revived);
        rig.assert_all_pages_hold_last_write();
        rig.write(2, &incompressible_page(1));
        rig.write(1, &incompressible_page(3));
        let moved = rig.ppn_of(2);
        rig.collect_block_of(moved);
        rig.assert_all_pages_hold_last_write();
    }
}

/// Deltas and recycling or sharing: logical page 1 has a delta whose base was written by logical page 0. The page has
/// become cold, so GC merges base and delta. If GC used the logical page in the spare area of the base, it would apply
/// the delta of page 0 to the base of page 1.
#[test]
fn gc_merges_a_delta_base_with_the_delta_of_its_referrer() {
    for kinds in [[Dedup, Delta], [Recycle, Delta]] {
        let mut rig = Rig::new(&design_with_metadata_in_battery_ram(&kinds));
        // Binds do not make a page hot.
        (8..10).for_each(|id| rig.write(1, &incompressible_page(id)));
        rig.write(0, &page_bytes_of_version(1, 100, 0));
        if kinds[0] == Dedup {
            rig.write(1, &page_bytes_of_version(1, 100, 0));
        }
        rig.write(0, &page_bytes_of_version(2, 100, 0));
        if kinds[0] == Recycle {
            rig.write(1, &page_bytes_of_version(1, 100, 0));
        }
        let base = rig.ppn_of(1);
        assert_eq!(rig.spare_owner(base), Lpn(0), "the spare area names its writer");
        rig.write(0, &page_bytes_of_version(2, 100, 1));
        rig.write(1, &page_bytes_of_version(1, 100, 1));
        assert_eq!([rig.form(0), rig.form(1)], [LogicalPageForm::Delta; 2]);
        rig.device.ftl_mut().reset_page_access_counts();
        rig.collect_block_of(base);
        assert!(rig.device.ftl().delta_statistics().expect("it encodes").gc_merges > 0);
        assert_eq!(rig.form(1), LogicalPageForm::InOwnFlashPage, "base and delta became one page");
        rig.assert_all_pages_hold_last_write();
    }
}

/// Deltas and compression: the base of a delta is a member of a compressed chunk. So the number in the map entry is not
/// a PPN. Encoding, reading and merging have to decompress the chunk.
#[test]
fn a_delta_whose_base_is_a_chunk_member_is_read_and_merged_correctly() {
    let mut rig = Rig::new(&design_with_metadata_in_battery_ram(&[Delta, Compression]));
    rig.write_chunk(0);
    rig.write(0, &page_bytes_of_version(0, 30, 1));
    assert_eq!((rig.form(0), rig.stats().delta_writes), (LogicalPageForm::Delta, 1));
    rig.assert_page_holds_last_write(0);
    rig.assert_page_holds_last_write(0);
    assert_eq!(rig.device.ftl().delta_statistics().expect("it encodes").merges_of_read_hot_pages, 1);
    assert_ne!(rig.form(0), LogicalPageForm::Delta);
    rig.assert_all_pages_hold_last_write();
    // A remap merges its source without anybody having read it.
    let mut rig = Rig::new(&design_with_metadata_in_battery_ram(&[Dedup, Delta, Compression]));
    rig.write_chunk(0);
    rig.write(0, &page_bytes_of_version(0, 30, 1));
    assert_eq!(rig.form(0), LogicalPageForm::Delta);
    rig.remap(10, 0);
    assert_eq!(rig.ppn_of(10), rig.ppn_of(0));
    rig.assert_all_pages_hold_last_write();
}

/// Recycling and compression: reads and fast loading (of dead pages of neighbouring logical pages) also process chunk
/// members. Their numbers are not PPNs, so recycling must not count reads or list dead versions for them.
#[test]
fn recycling_never_takes_a_chunk_member_for_a_flash_page() {
    let mut rig = Rig::new(&design_with_metadata_in_battery_ram(&[Recycle, Compression]));
    let loading = FingerprintStorePolicy::ProbabilityFastLoading { window: 1 };
    rig.device.ftl_mut().set_fingerprint_store_policy(loading, Some(1));
    for lpn in 4..8 {
        rig.write_and_flush(lpn, &incompressible_page(u64::from(lpn)));
    }
    // Pages that were read often are kept in the store of one entry.
    (0..3).for_each(|_| rig.assert_page_holds_last_write(5));
    rig.write_chunk(4);
    (4..8).for_each(|lpn| rig.assert_page_holds_last_write(lpn));
    rig.write(20, &incompressible_page(5));
    assert_eq!(
        (rig.stats().recycled_writes, rig.recycler().statistics().dead_pages_offered_by_fast_loading),
        (1, 2)
    );
    rig.write(21, &incompressible_page(4));
    rig.write(22, &incompressible_page(6));
    assert_eq!(rig.stats().recycled_writes, 2, "the store keeps the dead version of one neighbour");
    rig.assert_all_pages_hold_last_write();
}

/// Sharing and a cached map: a trim must be durable although the map entry of the page is not in the cache. If "not
/// cached" were taken for "not mapped", nothing would be recorded, and the content would reappear after a power loss.
#[test]
fn a_trim_of_a_page_whose_map_entry_is_not_cached_is_durable() {
    let mut rig =
        Rig::new(&without_battery(with_map_on_flash(4, design_with_metadata_in_battery_ram(&[Dedup]))));
    rig.write(0, &incompressible_page(1));
    rig.write(1, &incompressible_page(1));
    rig.evict_map_entries();
    assert!(!rig.device.ftl().is_known_mapped(Lpn(0)), "its entry is only on flash");
    rig.trim(0);
    rig.assert_page_holds_last_write(0);
    rig.lose_power();
    rig.assert_all_pages_hold_last_write();
    // A reverse map that asks the map which entries are current finds only those in the cache.
    let mut parts = with_map_on_flash(4, design_with_metadata_in_battery_ram(&[Dedup]));
    let sharing = parts.content.sharing.as_mut().expect("it shares");
    sharing.reverse_map = ReverseMapKind::Segments { nvram_bytes: 1536, segment_bytes: 64 };
    let sentence = refusal(&parts);
    assert!(sentence.contains("a map on flash cannot answer without a flash read"), "{sentence}");
}

/// Changes a design so that its map is lazy and is recovered by a backward scan.
fn with_lazy_map_and_backward_scan(parts: Parts) -> Parts {
    let cache = DemandPagedMapOptions {
        identification: InvalidPageIdentification::AtSynchronisation,
        makes_checkpoints: true,
        ..DemandPagedMapOptions::with_cache_capacity(8)
    };
    let persistence = Persistence::BackwardScan { writes_map_before_first_request: false };
    Parts { mapping: MappingPart::Cached(cache), persistence, ..parts }
}

/// Packed pages and recovery: no map entry names the flash pages that hold deltas or compressed chunks. Recovery has to
/// find them by their own directories. A backward scan, which finds only what the newest data pages name, is refused
/// for this design.
#[test]
fn recovery_adopts_blocks_of_deltas_and_chunks() {
    for kinds in [&[Delta][..], &[Compression], &[Delta, Compression]] {
        let sentence = refusal(&with_lazy_map_and_backward_scan(design_with_metadata_in_battery_ram(kinds)));
        assert!(
            sentence.contains("a lazy map finds this out only when it writes a translation page"),
            "{sentence}"
        );
    }
    let mut rig = Rig::new(&design_with_metadata_on_flash(&[Delta, Compression]));
    rig.write_chunk(0);
    rig.write_and_flush(5, &page_bytes_of_version(50, 100, 0));
    rig.write_and_flush(5, &page_bytes_of_version(50, 100, 1));
    assert_eq!((rig.form(0), rig.form(5)), (LogicalPageForm::CompressedInChunk, LogicalPageForm::Delta));
    rig.lose_power();
    let in_use = rig.view().pages.into_iter().filter(|page| page.state == FlashPageState::Valid);
    let kinds: Vec<PageKind> = in_use.filter_map(|page| page.kind).collect();
    assert!(kinds.contains(&PageKind::Delta) && kinds.contains(&PageKind::Chunk), "{kinds:?}");
    // More than the device has room for, so that blocks which nobody adopted would be used again.
    (0..400).for_each(|k| rig.write_and_flush(10 + k % 8, &incompressible_page(u64::from(100 + k))));
    rig.assert_all_pages_hold_last_write();
}

/// Sharing and the identification of replaced pages: the number of referrers of a shared page can decrease only when
/// the page that a write replaces is known. An eager map reads the translation page at the write to find it. A lazy map
/// searches later, so shared pages would never be freed; it is refused together with sharing.
#[test]
fn a_shared_page_dies_with_its_last_referrer_even_if_no_map_entry_is_cached() {
    let sentence = refusal(&with_lazy_map_and_backward_scan(design_with_metadata_in_battery_ram(&[Dedup])));
    assert!(
        sentence.contains("a lazy map finds this out only when it writes a translation page"),
        "{sentence}"
    );
    for parts in [
        with_map_on_flash(4, design_with_metadata_in_battery_ram(&[Dedup])),
        design_with_metadata_on_flash(&[Dedup]),
    ] {
        let mut rig = Rig::new(&parts);
        (0..3).for_each(|lpn| rig.write(lpn, &incompressible_page(1)));
        let shared = rig.ppn_of(0);
        for lpn in 0..3 {
            rig.evict_map_entries();
            let AnyMapping::Cached(cached) = rig.device.ftl().mapping() else {
                panic!("the map is on flash")
            };
            assert!(cached.cached_entries() <= 6);
            assert_eq!(rig.state(shared), FlashPageState::Valid, "{} pages refer to it", 3 - lpn);
            rig.write(lpn, &incompressible_page(u64::from(10 + lpn)));
        }
        assert_eq!(rig.state(shared), FlashPageState::Invalid);
        let block = rig.device.ftl().store().block_of(shared);
        let counted = rig.device.ftl().store().blocks().valid_pages(block);
        assert_eq!(counted, rig.view().blocks[block.index()].valid_pages, "the block counts it no more");
        rig.assert_all_pages_hold_last_write();
    }
}

/// Sharing and Logarithmic Gecko: if the spare area of a written page names a logical page that is mapped elsewhere,
/// the written page is invalid. This rule does not hold for a page that was revived or shared. Such a page is valid
/// while a logical page refers to it, in GC as well as in recovery.
#[test]
fn gc_and_recovery_find_owners_by_referrers_and_not_by_the_spare_area() {
    for kinds in [&[Recycle][..], &[Dedup], &[Dedup, Recycle]] {
        let mut rig = Rig::new(&design_with_metadata_on_flash(kinds));
        let is_recycled = kinds.contains(&Recycle);
        rig.write(0, &incompressible_page(1));
        if !is_recycled {
            rig.write(1, &incompressible_page(1));
        }
        rig.write(0, &incompressible_page(2));
        if is_recycled {
            rig.write(1, &incompressible_page(1));
            assert_eq!(rig.stats().recycled_writes, 1);
        }
        let bound = rig.ppn_of(1);
        assert_eq!(rig.spare_owner(bound), Lpn(0), "the spare area names its writer");
        rig.lose_power();
        rig.assert_all_pages_hold_last_write();
        rig.close_block_of(bound);
        // The entry of page 0 is cached when its former page is collected, and names another place.
        rig.assert_page_holds_last_write(0);
        rig.collect_closed_block_of(bound);
        rig.assert_all_pages_hold_last_write();
        rig.lose_power();
        rig.assert_all_pages_hold_last_write();
        let copied = rig.ppn_of(1);
        assert_ne!(copied, bound, "collection moved it");
        rig.write(1, &incompressible_page(3));
        assert_ne!(rig.state(copied), FlashPageState::Valid, "nobody refers to it");
    }
}
