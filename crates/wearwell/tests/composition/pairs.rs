//! Pairs of content mechanisms in one design: tests which of them serves a write, how long stored content stays valid,
//! what is counted, and how many flash operations it takes.

use MechanismKind::{Compression, Dedup, Delta, Recycle};
use wearwell::design::Parts;
use wearwell::flash_view::FlashPageState;
use wearwell::gc::{GcOptions, VictimPolicy};
use wearwell::lifetime::{MechanismKind, MechanismSet};
use wearwell::logical_page_form::LogicalPageForm;
use wearwell::mapping::{AnyMapping, Mapping as _};
use wearwell::nand::PageKind;
use wearwell::operation::Cause;
use wearwell::sharing::reverse_map::ReverseMapKind;
use wearwell::store::BlockState;
use wearwell::validity::{AnyValidityStore, FlashBitmapOptions, ValidityStoreKind};

use super::rig::{
    Rig, compressible_page, design_with_metadata_in_battery_ram, design_with_metadata_on_flash, gecko,
    incompressible_page, page_bytes_of_version, refusal, with_map_on_flash, with_validity_in_gecko,
    without_battery,
};

/// A duplicate, a remap command and a revived dead page all map a logical page to a stored flash page. This programs no
/// page and adds one entry to the reverse map.
#[test]
fn duplicates_remaps_and_revivals_all_map_a_stored_page_without_a_program() {
    let bound_by = |bind: fn(&mut Rig)| {
        let mut rig = Rig::new(&design_with_metadata_in_battery_ram(&[Dedup]));
        rig.write(0, &incompressible_page(1));
        bind(&mut rig);
        assert_eq!((rig.programs(), rig.device.ftl().valid_reverse_map_entries()), (1, 1));
        rig.view()
    };
    assert!(bound_by(|rig| rig.write(1, &incompressible_page(1))) == bound_by(|rig| rig.remap(1, 0)));
    let mut rig = Rig::new(&design_with_metadata_in_battery_ram(&[Dedup, Recycle]));
    rig.write(0, &incompressible_page(1));
    let dead = rig.ppn_of(0);
    rig.write(0, &incompressible_page(2));
    rig.write(1, &incompressible_page(1));
    assert_eq!((rig.programs(), rig.device.ftl().valid_reverse_map_entries()), (2, 1));
    assert_eq!((rig.ppn_of(1), rig.form(1)), (dead, LogicalPageForm::InOwnFlashPage));
}

/// A dead page can be revived, be shared and die again. Writes of live content and of dead content are counted
/// separately. While some page with the content is valid, a write of it is not counted as recycling.
#[test]
fn a_revived_page_can_be_shared_and_die_again() {
    let mut rig = Rig::new(&design_with_metadata_in_battery_ram(&[Dedup, Recycle]));
    let hits = |rig: &Rig| (rig.stats().recycled_writes, rig.stats().deduplicated_writes);
    rig.write(0, &incompressible_page(1));
    let first = rig.ppn_of(0);
    rig.write(0, &incompressible_page(2));
    assert!(rig.recycler().is_dead(first));
    rig.write(1, &incompressible_page(1));
    assert_eq!(hits(&rig), (1, 0), "nobody held it");
    rig.write(2, &incompressible_page(1));
    rig.write(3, &incompressible_page(1));
    assert_eq!(hits(&rig), (1, 2), "page 1 holds it");
    for lpn in 1..4 {
        assert!(!rig.recycler().is_dead(first), "page {lpn} refers to it");
        rig.write(lpn, &incompressible_page(u64::from(10 + lpn)));
    }
    assert!(rig.recycler().is_dead(first));
    rig.write(4, &incompressible_page(1));
    assert_eq!((hits(&rig), rig.ppn_of(4)), ((2, 2), first));
    rig.assert_all_pages_hold_last_write();
}

/// The content of a logical page that is stored as a delta exists nowhere as a whole page. So deduplication does not
/// find it.
#[test]
fn content_stored_as_a_delta_is_not_found_by_deduplication() {
    let mut rig = Rig::new(&design_with_metadata_in_battery_ram(&[Dedup, Delta]));
    rig.write(0, &page_bytes_of_version(1, 100, 0));
    rig.write(0, &page_bytes_of_version(1, 100, 1));
    assert_eq!(rig.form(0), LogicalPageForm::Delta);
    rig.write(1, &page_bytes_of_version(1, 100, 1));
    assert_eq!((rig.stats().deduplicated_writes, rig.form(1)), (0, LogicalPageForm::InOwnFlashPage));
    rig.write(2, &page_bytes_of_version(1, 100, 0));
    assert_eq!((rig.stats().deduplicated_writes, rig.ppn_of(2)), (1, rig.ppn_of(0)), "its base is found");
    rig.assert_all_pages_hold_last_write();
}

/// A write is first looked up as a duplicate, which programs nothing. Only if it is none, a delta is made, which costs
/// a part of a page.
#[test]
fn deduplication_is_tried_before_delta_encoding() {
    let mut rig = Rig::new(&design_with_metadata_in_battery_ram(&[Dedup, Delta]));
    rig.write(0, &page_bytes_of_version(1, 100, 0));
    rig.write(1, &page_bytes_of_version(1, 100, 1));
    rig.write(0, &page_bytes_of_version(1, 100, 1));
    assert_eq!((rig.stats().deduplicated_writes, rig.stats().delta_writes), (1, 0));
    assert_eq!((rig.programs(), rig.ppn_of(0)), (2, rig.ppn_of(1)));
    rig.assert_all_pages_hold_last_write();
}

/// A remap can share a member of a compressed chunk. The chunk stays valid until no logical page refers to any member,
/// and GC moves the member for the logical page that was remapped. A reverse map whose entries name flash pages is
/// refused.
#[test]
fn a_remapped_chunk_member_keeps_its_chunk_valid() {
    let mut rig = Rig::new(&design_with_metadata_in_battery_ram(&[Dedup, Compression]));
    rig.write_chunk(0);
    rig.remap(10, 2);
    let chunk_page = rig.ppn_of(2);
    assert_eq!(rig.ppn_of(10), chunk_page);
    (0..4).for_each(|lpn| rig.write_and_flush(lpn, &incompressible_page(u64::from(20 + lpn))));
    assert_eq!(rig.state(chunk_page), FlashPageState::Valid, "page 10 refers to a member");
    rig.assert_all_pages_hold_last_write();
    (0..200).for_each(|k| rig.write_and_flush(11 + k % 4, &incompressible_page(u64::from(100 + k))));
    while rig.erases(chunk_page) == 0 {
        assert!(rig.device.ftl_mut().collect_in_background().expect("there is room"), "nothing to collect");
        rig.audit();
        (0..8).for_each(|k| rig.write(12 + k % 4, &compressible_page(u64::from(500 + k))));
    }
    rig.assert_all_pages_hold_last_write();
    let mut parts = design_with_metadata_in_battery_ram(&[Dedup, Compression]);
    let sharing = parts.content.sharing.as_mut().expect("it shares");
    sharing.reverse_map = ReverseMapKind::Segments { nvram_bytes: 1536, segment_bytes: 64 };
    let sentence = refusal(&parts);
    assert!(
        sentence.contains("with compress they would have to name members of compressed chunks"),
        "{sentence}"
    );
}

/// Returns the number of invalid pages that were reported to Logarithmic Gecko (page validity on flash).
fn invalid_page_report_count(rig: &Rig) -> u64 {
    let AnyValidityStore::Gecko(gecko) = rig.device.ftl().validity() else { panic!("validity is in Gecko") };
    gecko.counts().invalid_page_reports
}

/// A shared page is reported to Logarithmic Gecko (page validity on flash) once, when no logical page refers to it any
/// more. The valid count of its block counts pages, not references.
#[test]
fn gecko_gets_one_report_of_a_shared_page_when_its_last_referrer_is_gone() {
    let mut rig = Rig::new(&with_validity_in_gecko(design_with_metadata_in_battery_ram(&[Dedup])));
    (0..3).for_each(|lpn| rig.write(lpn, &incompressible_page(1)));
    let block = rig.ppn_of(0);
    let block = rig.device.ftl().store().block_of(block);
    let valid = |rig: &Rig| rig.device.ftl().store().blocks().valid_pages(block);
    assert_eq!(valid(&rig), 1, "one page for three referrers");
    for lpn in 0..3 {
        let before = invalid_page_report_count(&rig);
        rig.trim(lpn);
        assert_eq!(
            (invalid_page_report_count(&rig) - before, valid(&rig)),
            if lpn == 2 { (1, 0) } else { (0, 1) },
            "page {lpn}"
        );
    }
}

/// An eager map finds the flash page that a write replaces at the write: if the map entry is not cached, it reads one
/// translation page. A change of a cached map entry by a bind is durable, although no programmed page records it.
#[test]
fn an_eager_map_reads_a_translation_page_at_a_cache_miss_and_keeps_binds_over_a_power_loss() {
    let mut rig =
        Rig::new(&without_battery(with_map_on_flash(4, design_with_metadata_in_battery_ram(&[Dedup]))));
    rig.write(0, &incompressible_page(1));
    rig.evict_map_entries();
    let reads = |rig: &Rig| rig.stats().reads[Cause::Translation as usize];
    let before = reads(&rig);
    rig.write(0, &incompressible_page(2));
    assert!(reads(&rig) > before, "the entry was not cached");
    let before = reads(&rig);
    rig.write(0, &incompressible_page(3));
    assert_eq!(reads(&rig), before, "now it is");
    let programs = rig.programs();
    rig.write(1, &incompressible_page(3));
    assert_eq!(rig.programs(), programs, "a bind programs nothing");
    rig.lose_power();
    assert_eq!(rig.ppn_of(1), rig.ppn_of(0));
    rig.assert_all_pages_hold_last_write();
}

/// A content mechanism that is switched off processes no write. What it stored before stays readable in its form.
#[test]
fn content_stays_readable_after_its_mechanism_is_switched_off() {
    for parts in [
        design_with_metadata_in_battery_ram(&MechanismKind::ALL),
        design_with_metadata_on_flash(&MechanismKind::ALL),
    ] {
        let mut rig = Rig::new(&parts);
        rig.write_chunk(0);
        rig.write_and_flush(5, &incompressible_page(1));
        rig.write(6, &incompressible_page(1));
        rig.write_and_flush(7, &page_bytes_of_version(2, 100, 0));
        rig.write(7, &page_bytes_of_version(2, 100, 1));
        rig.write_and_flush(8, &incompressible_page(3));
        rig.write_and_flush(8, &incompressible_page(4));
        rig.write(9, &incompressible_page(3));
        rig.flush();
        let forms = |rig: &mut Rig| [0, 5, 6, 7, 9].map(|lpn| rig.form(lpn));
        let stored = forms(&mut rig);
        assert_eq!(
            stored[..4],
            [
                LogicalPageForm::CompressedInChunk,
                LogicalPageForm::Shared,
                LogicalPageForm::Shared,
                LogicalPageForm::Delta
            ]
        );
        assert_eq!(rig.stats().recycled_writes, 1);
        rig.device.ftl_mut().switch_content_mechanisms(MechanismSet::NONE).expect("there is room");
        rig.audit();
        assert_eq!(forms(&mut rig), stored);
        rig.write(10, &incompressible_page(1));
        assert_eq!(rig.form(10), LogicalPageForm::InOwnFlashPage, "no mechanism serves it");
        rig.assert_all_pages_hold_last_write();
        rig.lose_power();
        rig.assert_all_pages_hold_last_write();
    }
}

/// A remap maps logical pages to whole flash pages. A source that is stored as a delta is therefore first merged with
/// its base.
#[test]
fn a_remap_first_merges_a_source_stored_as_a_delta() {
    for parts in
        [design_with_metadata_in_battery_ram(&[Dedup, Delta]), design_with_metadata_on_flash(&[Dedup, Delta])]
    {
        let mut rig = Rig::new(&parts);
        rig.write(0, &page_bytes_of_version(1, 100, 0));
        rig.write(0, &page_bytes_of_version(1, 100, 1));
        let base = rig.ppn_of(0);
        assert_eq!(rig.form(0), LogicalPageForm::Delta);
        rig.remap(5, 0);
        assert_eq!([rig.form(0), rig.form(5)], [LogicalPageForm::Shared; 2]);
        assert_eq!(rig.ppn_of(0), rig.ppn_of(5));
        assert_ne!(rig.state(base), FlashPageState::Valid);
        rig.assert_all_pages_hold_last_write();
    }
}

/// While a page is the base of a delta, it is valid and cannot be revived. When its logical page is rewritten, it
/// becomes a dead page that can be revived, with the reads counted for it so far. Deduplication can find a base, as it
/// can any valid page.
#[test]
fn a_delta_base_can_be_revived_only_after_its_logical_page_is_rewritten() {
    let mut rig = Rig::new(&design_with_metadata_in_battery_ram(&[Recycle, Delta]));
    rig.write(0, &page_bytes_of_version(1, 100, 0));
    rig.assert_page_holds_last_write(0);
    let base = rig.ppn_of(0);
    rig.write(0, &page_bytes_of_version(1, 100, 1));
    assert_eq!((rig.form(0), rig.recycler().dead_page_count()), (LogicalPageForm::Delta, 0));
    rig.write(1, &page_bytes_of_version(1, 100, 0));
    assert_eq!(rig.stats().recycled_writes, 0, "its content is needed for the delta");
    rig.write(0, &incompressible_page(2));
    assert!(rig.recycler().is_dead(base));
    assert_eq!(rig.recycler().read_count(base), 1);
    rig.write(2, &page_bytes_of_version(1, 100, 0));
    assert_eq!((rig.stats().recycled_writes, rig.ppn_of(2)), (1, base));
    rig.assert_all_pages_hold_last_write();
}

/// Recycling revives flash pages only. It does not revive dead members of compressed chunks, nor the pages of dead
/// chunks, so their content is stored again.
#[test]
fn recycling_does_not_revive_dead_chunk_members() {
    let mut rig = Rig::new(&design_with_metadata_in_battery_ram(&[Recycle, Compression]));
    rig.write_chunk(0);
    rig.write_and_flush(2, &incompressible_page(1));
    rig.write_and_flush(10, &compressible_page(2));
    assert_eq!((rig.stats().recycled_writes, rig.recycler().dead_page_count()), (0, 0), "one member died");
    for lpn in [0, 1, 3] {
        rig.write_and_flush(lpn, &incompressible_page(u64::from(20 + lpn)));
    }
    rig.write_and_flush(11, &compressible_page(0));
    assert_eq!((rig.stats().recycled_writes, rig.recycler().dead_page_count()), (0, 0), "the chunk died");
    rig.assert_all_pages_hold_last_write();
}

/// Page validity on flash accepts one report per page between two erases. A page that was reported invalid and then
/// revived is valid, may die again without a report, and be revived again.
#[test]
fn a_page_can_die_and_be_revived_repeatedly_with_validity_on_flash() {
    for validity in
        [ValidityStoreKind::Bitmap(FlashBitmapOptions::default()), ValidityStoreKind::Log, gecko()]
    {
        let mut rig = Rig::new(&Parts { validity, ..design_with_metadata_in_battery_ram(&[Recycle]) });
        rig.write(0, &incompressible_page(1));
        let place = rig.ppn_of(0);
        for round in 0..3 {
            rig.write(0, &incompressible_page(10 + round));
            assert!(rig.recycler().is_dead(place), "{validity:?}, round {round}");
            rig.device.ftl_mut().write_back_ram_state().expect("there is room");
            rig.audit();
            rig.write(0, &incompressible_page(1));
            assert_eq!((rig.ppn_of(0), rig.stats().recycled_writes), (place, round + 1));
        }
        rig.collect_block_of(place);
        assert_ne!(rig.ppn_of(0), place, "{validity:?}: the revived page was moved");
        rig.assert_all_pages_hold_last_write();
    }
}

/// In recycling-aware GC a dead page counts for less if it is likelier to be revived. Greedy GC ignores this.
#[test]
fn recycling_aware_gc_avoids_blocks_with_pages_likely_to_be_revived() {
    let victim_of = |policy: VictimPolicy| {
        let parts = design_with_metadata_in_battery_ram(&[Recycle]);
        let mut rig = Rig::new(&Parts { gc: GcOptions { policy, ..parts.gc }, ..parts });
        (0..16).for_each(|lpn| rig.write(lpn, &incompressible_page(u64::from(lpn))));
        let [first, second] = [rig.ppn_of(0), rig.ppn_of(8)];
        // Pages of the first block were read before they died.
        (0..6).for_each(|_| (0..4).for_each(|lpn| rig.assert_page_holds_last_write(lpn)));
        (0..4).chain(8..12).for_each(|lpn| rig.write(lpn, &incompressible_page(u64::from(100 + lpn))));
        assert!(rig.device.ftl_mut().collect_in_background().expect("there is room"));
        rig.audit();
        rig.assert_all_pages_hold_last_write();
        [first, second].map(|ppn| rig.erases(ppn))
    };
    assert_eq!(victim_of(VictimPolicy::Greedy), [1, 0]);
    assert_eq!(victim_of(VictimPolicy::RecycleAware), [0, 1]);
}

/// Making a delta whose base is in a compressed chunk reads the whole chunk, and so does each read of the delta. If the
/// map is in NVRAM, a delta names its base by the sequence number in the OOB of a flash page. A chunk member has no OOB
/// of its own, so it cannot be a base then.
#[test]
fn a_delta_base_in_a_chunk_costs_chunk_reads_and_is_not_allowed_with_a_map_in_nvram() {
    let mut rig = Rig::new(&design_with_metadata_in_battery_ram(&[Delta, Compression]));
    rig.write_chunk(0);
    let reads = |rig: &Rig, cause: Cause| rig.stats().reads[cause as usize];
    let before = reads(&rig, Cause::ContentMechanism);
    rig.write(0, &page_bytes_of_version(0, 30, 1));
    assert_eq!((rig.stats().delta_writes, reads(&rig, Cause::ContentMechanism) - before), (1, 2));
    let (before, unpacked) = (reads(&rig, Cause::Host), rig.stats().controller_work.decompressed_pages);
    rig.assert_page_holds_last_write(0);
    assert_eq!(reads(&rig, Cause::Host) - before, 2, "the delta itself is still in RAM");
    assert_eq!(rig.stats().controller_work.decompressed_pages - unpacked, 4);

    let mut rig = Rig::new(&without_battery(design_with_metadata_in_battery_ram(&[Delta, Compression])));
    rig.write_chunk(0);
    rig.write(0, &page_bytes_of_version(0, 30, 1));
    assert_eq!(rig.stats().delta_writes, 0);
    rig.flush();
    (2..4).for_each(|version| rig.write(0, &page_bytes_of_version(0, 30, version)));
    assert_eq!(rig.stats().delta_writes, 2, "a plain page is a base");
    rig.assert_all_pages_hold_last_write();
}

/// If a chunk member cannot be the base of a delta, compression would prevent delta encoding of pages that are written
/// often. Such pages are therefore stored as whole pages.
#[test]
fn a_hot_page_in_a_chunk_is_stored_as_a_whole_page_if_chunk_members_cannot_be_delta_bases() {
    let mut rig = Rig::new(&without_battery(design_with_metadata_in_battery_ram(&[Delta, Compression])));
    rig.write_chunk(0);
    (1..3).for_each(|version| rig.write(0, &page_bytes_of_version(0, 30, version)));
    assert_eq!((rig.stats().delta_writes, rig.form(0)), (0, LogicalPageForm::InOwnFlashPage));
    (3..6).for_each(|version| rig.write(0, &page_bytes_of_version(0, 30, version)));
    assert_eq!(rig.stats().delta_writes, 3);
    rig.assert_all_pages_hold_last_write();
}

/// Pages that hold deltas or compressed chunks become invalid with the last content in them. Tables of these mechanisms
/// count that, so Logarithmic Gecko (page validity on flash) gets no report.
#[test]
fn pages_of_deltas_and_chunks_die_with_their_last_content_without_a_report_to_gecko() {
    let mut rig =
        Rig::new(&with_validity_in_gecko(design_with_metadata_in_battery_ram(&[Delta, Compression])));
    rig.write_chunk(0);
    let valid_of = |rig: &mut Rig, kind: PageKind| {
        let is_valid = |page: &&wearwell::flash_view::FlashPage| {
            page.state == FlashPageState::Valid && page.kind == Some(kind)
        };
        rig.view().pages.iter().filter(is_valid).count()
    };
    let before = invalid_page_report_count(&rig);
    for lpn in 0..4 {
        assert_eq!(valid_of(&mut rig, PageKind::Chunk), 2, "page {lpn} is in it");
        rig.trim(lpn);
    }
    assert_eq!((valid_of(&mut rig, PageKind::Chunk), invalid_page_report_count(&rig)), (0, before));

    (5..7).for_each(|lpn| rig.write_and_flush(lpn, &page_bytes_of_version(u64::from(lpn), 100, 0)));
    (5..7).for_each(|lpn| rig.write(lpn, &page_bytes_of_version(u64::from(lpn), 100, 1)));
    rig.device.ftl_mut().write_back_ram_state().expect("there is room");
    assert_eq!(valid_of(&mut rig, PageKind::Delta), 1);
    let before = invalid_page_report_count(&rig);
    rig.trim(5);
    assert_eq!(
        (valid_of(&mut rig, PageKind::Delta), invalid_page_report_count(&rig) - before),
        (1, 1),
        "its base is reported"
    );
    rig.trim(6);
    assert_eq!((valid_of(&mut rig, PageKind::Delta), invalid_page_report_count(&rig) - before), (0, 2));
    rig.assert_all_pages_hold_last_write();
}

/// Recovery rebuilds the table of deltas from the flash pages that hold deltas. For each logical page it uses the
/// newest delta. It uses no delta if the page was written as a whole later.
#[test]
fn recovery_finds_the_newest_delta_of_each_page() {
    let mut rig = Rig::new(&design_with_metadata_on_flash(&[Delta]));
    (0..8).for_each(|lpn| rig.write(lpn, &page_bytes_of_version(u64::from(lpn), 100, 0)));
    for version in 1..5 {
        (0..8).for_each(|lpn| rig.write(lpn, &page_bytes_of_version(u64::from(lpn), 100, version)));
        rig.flush();
    }
    rig.write(3, &incompressible_page(77));
    rig.trim(4);
    assert_eq!(rig.form(0), LogicalPageForm::Delta);
    for _ in 0..2 {
        rig.lose_power();
        assert_eq!(
            [0, 3, 4].map(|lpn| rig.form(lpn)),
            [LogicalPageForm::Delta, LogicalPageForm::InOwnFlashPage, LogicalPageForm::Hole]
        );
        rig.assert_all_pages_hold_last_write();
    }
}

/// A map entry has four bytes, whether pages are compressed or not. Only logical pages in a form other than a plain
/// page have entries in further tables.
#[test]
fn compression_does_not_enlarge_the_l2p_map() {
    let sizes = |kinds: &[MechanismKind]| {
        let rig = Rig::new(&with_map_on_flash(6, design_with_metadata_in_battery_ram(kinds)));
        let AnyMapping::Cached(cached) = rig.device.ftl().mapping() else { panic!("the map is on flash") };
        (cached.translation_pages(), cached.max_metadata_pages(), cached.ram_bytes_by_structure())
    };
    assert_eq!(sizes(&[]), sizes(&MechanismKind::ALL));
    let ram = |rig: &Rig, name: &str| {
        let parts = rig.device.ftl().ram_bytes_by_structure();
        parts.into_iter().find(|(part, _)| *part == name).map(|(_, bytes)| bytes)
    };
    let mut rig = Rig::new(&design_with_metadata_in_battery_ram(&[Delta, Compression]));
    assert_eq!((ram(&rig, "chunk directory"), ram(&rig, "delta table")), (Some(0), Some(0)));
    (20..24).for_each(|lpn| rig.write_and_flush(lpn, &incompressible_page(u64::from(lpn))));
    assert_eq!(ram(&rig, "chunk directory"), Some(0), "plain pages need no entry");
    rig.write_chunk(0);
    assert!(ram(&rig, "chunk directory") > Some(0));
}

/// Data, deltas, compressed chunks, translation pages and page validity are each written to blocks of their own.
#[test]
fn each_block_holds_one_kind_of_page_with_all_content_mechanisms() {
    let mut rig = Rig::new(&design_with_metadata_on_flash(&MechanismKind::ALL));
    for round in 0..60 {
        (0..4).for_each(|lpn| rig.write(lpn, &compressible_page(100 * round + u64::from(lpn))));
        (5..9).for_each(|lpn| rig.write(lpn, &page_bytes_of_version(u64::from(lpn), 100, round)));
        (9..12).for_each(|lpn| rig.write(lpn, &incompressible_page(100 * round + u64::from(lpn))));
        rig.flush();
    }
    rig.device.ftl_mut().write_back_ram_state().expect("there is room");
    let view = rig.view();
    let mut kinds = Vec::new();
    for (block, pages) in view.blocks.iter().zip(view.pages.chunks(8)) {
        let programmed: Vec<PageKind> = pages.iter().filter_map(|page| page.kind).collect();
        assert!(programmed.iter().all(|&kind| kind == programmed[0]), "{block:?}: {programmed:?}");
        assert!(block.state != BlockState::Free || programmed.is_empty());
        kinds.extend(programmed.first().copied());
    }
    for kind in [PageKind::Data, PageKind::Delta, PageKind::Chunk, PageKind::Translation, PageKind::Validity]
    {
        assert!(kinds.contains(&kind), "{kind:?} pages were written: {kinds:?}");
    }
    rig.assert_all_pages_hold_last_write();
}
