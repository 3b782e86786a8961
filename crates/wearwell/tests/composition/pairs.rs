//! What each pair of mechanisms promises beyond losing nothing: which of them serves a write, what stays valid for
//! whom, what is counted, and what it costs.

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
    Rig, composed, gecko, in_gecko, light, mixture, noise, on_flash, page, refusal, without_battery,
};

/// Note 1: a duplicate, a remap and a revival all end in a bind. It programs nothing and leaves one entry in the
/// reverse map.
#[test]
fn duplicates_remaps_and_revivals_all_map_a_stored_page_without_a_program() {
    let bound_by = |bind: fn(&mut Rig)| {
        let mut rig = Rig::new(&mixture(&[Dedup]));
        rig.write(0, &noise(1));
        bind(&mut rig);
        assert_eq!((rig.programs(), rig.device.ftl().valid_reverse_map_entries()), (1, 1));
        rig.view()
    };
    assert!(bound_by(|rig| rig.write(1, &noise(1))) == bound_by(|rig| rig.remap(1, 0)));
    let mut rig = Rig::new(&mixture(&[Dedup, Recycle]));
    rig.write(0, &noise(1));
    let dead = rig.place(0);
    rig.write(0, &noise(2));
    rig.write(1, &noise(1));
    assert_eq!((rig.programs(), rig.device.ftl().valid_reverse_map_entries()), (2, 1));
    assert_eq!((rig.place(1), rig.form(1)), (dead, LogicalPageForm::Stored));
}

/// Note 2: a dead page can become a shared page and die again. Hits on live and on dead content are counted separately.
/// While content is live anywhere, its next write is no hit of recycling.
#[test]
fn a_revived_page_can_be_shared_and_die_again() {
    let mut rig = Rig::new(&mixture(&[Dedup, Recycle]));
    let hits = |rig: &Rig| (rig.stats().recycled_writes, rig.stats().deduplicated_writes);
    rig.write(0, &noise(1));
    let first = rig.place(0);
    rig.write(0, &noise(2));
    assert!(rig.recycler().is_dead(first));
    rig.write(1, &noise(1));
    assert_eq!(hits(&rig), (1, 0), "nobody held it");
    rig.write(2, &noise(1));
    rig.write(3, &noise(1));
    assert_eq!(hits(&rig), (1, 2), "page 1 holds it");
    for lpn in 1..4 {
        assert!(!rig.recycler().is_dead(first), "page {lpn} refers to it");
        rig.write(lpn, &noise(u64::from(10 + lpn)));
    }
    assert!(rig.recycler().is_dead(first));
    rig.write(4, &noise(1));
    assert_eq!((hits(&rig), rig.place(4)), ((2, 2), first));
    rig.expect_all();
}

/// Note 3b: the content of a page in delta form is stored nowhere as a whole, so it is no duplicate of anything.
#[test]
fn content_stored_as_a_delta_is_not_found_by_deduplication() {
    let mut rig = Rig::new(&mixture(&[Dedup, Delta]));
    rig.write(0, &page(1, 100, 0));
    rig.write(0, &page(1, 100, 1));
    assert_eq!(rig.form(0), LogicalPageForm::Delta);
    rig.write(1, &page(1, 100, 1));
    assert_eq!((rig.stats().deduplicated_writes, rig.form(1)), (0, LogicalPageForm::Stored));
    rig.write(2, &page(1, 100, 0));
    assert_eq!((rig.stats().deduplicated_writes, rig.place(2)), (1, rig.place(0)), "its base is found");
    rig.expect_all();
}

/// Note 3d: a duplicate costs nothing, a delta part of a page, so content is looked up before a delta is made.
#[test]
fn deduplication_is_tried_before_delta_encoding() {
    let mut rig = Rig::new(&mixture(&[Dedup, Delta]));
    rig.write(0, &page(1, 100, 0));
    rig.write(1, &page(1, 100, 1));
    rig.write(0, &page(1, 100, 1));
    assert_eq!((rig.stats().deduplicated_writes, rig.stats().delta_writes), (1, 0));
    assert_eq!((rig.programs(), rig.place(0)), (2, rig.place(1)));
    rig.expect_all();
}

/// Note 4: a remap can share a member of a chunk. The chunk lives until nobody refers to any of its members, and
/// collection moves the member for the page that was remapped. Reverse maps whose entries name pages are refused.
#[test]
fn a_remapped_chunk_member_keeps_its_chunk_valid() {
    let mut rig = Rig::new(&mixture(&[Dedup, Compression]));
    rig.write_chunk(0);
    rig.remap(10, 2);
    let chunk_page = rig.place(2);
    assert_eq!(rig.place(10), chunk_page);
    (0..4).for_each(|lpn| rig.write_through(lpn, &noise(u64::from(20 + lpn))));
    assert_eq!(rig.state(chunk_page), FlashPageState::Valid, "page 10 refers to a member");
    rig.expect_all();
    (0..200).for_each(|k| rig.write_through(11 + k % 4, &noise(u64::from(100 + k))));
    while rig.erases(chunk_page) == 0 {
        assert!(rig.device.ftl_mut().collect_in_background().expect("there is room"), "nothing to collect");
        rig.audit();
        (0..8).for_each(|k| rig.write(12 + k % 4, &light(u64::from(500 + k))));
    }
    rig.expect_all();
    let mut parts = mixture(&[Dedup, Compression]);
    let sharing = parts.content.sharing.as_mut().expect("it shares");
    sharing.reverse_map = ReverseMapKind::Segments { nvram_bytes: 1536, segment_bytes: 64 };
    let sentence = refusal(&parts);
    assert!(
        sentence.contains("with compress they would have to name members of compressed chunks"),
        "{sentence}"
    );
}

fn reports(rig: &Rig) -> u64 {
    let AnyValidityStore::Gecko(gecko) = rig.device.ftl().validity() else { panic!("validity is in Gecko") };
    gecko.counts().invalid_page_reports
}

/// Note 5: Logarithmic Gecko hears of a shared page once, when its last referrer is gone, and the valid count of its
/// block counts pages and not references.
#[test]
fn gecko_gets_one_report_of_a_shared_page_when_its_last_referrer_is_gone() {
    let mut rig = Rig::new(&in_gecko(mixture(&[Dedup])));
    (0..3).for_each(|lpn| rig.write(lpn, &noise(1)));
    let block = rig.place(0);
    let block = rig.device.ftl().store().block_of(block);
    let valid = |rig: &Rig| rig.device.ftl().store().blocks().valid_pages(block);
    assert_eq!(valid(&rig), 1, "one page for three referrers");
    for lpn in 0..3 {
        let before = reports(&rig);
        rig.trim(lpn);
        assert_eq!(
            (reports(&rig) - before, valid(&rig)),
            if lpn == 2 { (1, 0) } else { (0, 1) },
            "page {lpn}"
        );
    }
}

/// Note 6: with an eager map, a write whose entry is not cached reads one translation page to find the page that it
/// replaces. A change that a bind made in the cache is durable, although no programmed page records it.
#[test]
fn an_eager_map_reads_a_translation_page_for_a_write_that_misses_the_map_cache_and_keeps_shared_pages() {
    let mut rig = Rig::new(&without_battery(on_flash(4, mixture(&[Dedup]))));
    rig.write(0, &noise(1));
    rig.push_out_entries();
    let reads = |rig: &Rig| rig.stats().reads[Cause::Translation as usize];
    let before = reads(&rig);
    rig.write(0, &noise(2));
    assert!(reads(&rig) > before, "the entry was not cached");
    let before = reads(&rig);
    rig.write(0, &noise(3));
    assert_eq!(reads(&rig), before, "now it is");
    let programs = rig.programs();
    rig.write(1, &noise(3));
    assert_eq!(rig.programs(), programs, "a bind programs nothing");
    rig.lose_power();
    assert_eq!(rig.place(1), rig.place(0));
    rig.expect_all();
}

/// Note 8: a mechanism that is switched off serves no write, and what it stored stays readable in its form.
#[test]
fn content_stays_readable_after_its_mechanism_is_switched_off() {
    for parts in [mixture(&MechanismKind::ALL), composed(&MechanismKind::ALL)] {
        let mut rig = Rig::new(&parts);
        rig.write_chunk(0);
        rig.write_through(5, &noise(1));
        rig.write(6, &noise(1));
        rig.write_through(7, &page(2, 100, 0));
        rig.write(7, &page(2, 100, 1));
        rig.write_through(8, &noise(3));
        rig.write_through(8, &noise(4));
        rig.write(9, &noise(3));
        rig.flush();
        let forms = |rig: &mut Rig| [0, 5, 6, 7, 9].map(|lpn| rig.form(lpn));
        let stored = forms(&mut rig);
        assert_eq!(
            stored[..4],
            [
                LogicalPageForm::Packed,
                LogicalPageForm::Shared,
                LogicalPageForm::Shared,
                LogicalPageForm::Delta
            ]
        );
        assert_eq!(rig.stats().recycled_writes, 1);
        rig.device.ftl_mut().switch_content_mechanisms(MechanismSet::NONE).expect("there is room");
        rig.audit();
        assert_eq!(forms(&mut rig), stored);
        rig.write(10, &noise(1));
        assert_eq!(rig.form(10), LogicalPageForm::Stored, "no mechanism serves it");
        rig.expect_all();
        rig.lose_power();
        rig.expect_all();
    }
}

/// Note 9: a remap maps to whole pages, so a source in delta form is first merged with its delta.
#[test]
fn a_remap_first_merges_a_source_stored_as_a_delta() {
    for parts in [mixture(&[Dedup, Delta]), composed(&[Dedup, Delta])] {
        let mut rig = Rig::new(&parts);
        rig.write(0, &page(1, 100, 0));
        rig.write(0, &page(1, 100, 1));
        let base = rig.place(0);
        assert_eq!(rig.form(0), LogicalPageForm::Delta);
        rig.remap(5, 0);
        assert_eq!([rig.form(0), rig.form(5)], [LogicalPageForm::Shared; 2]);
        assert_eq!(rig.place(0), rig.place(5));
        assert_ne!(rig.state(base), FlashPageState::Valid);
        rig.expect_all();
    }
}

/// Note 10: the base of a delta is a valid page and no candidate for recycling. When its page moves on it becomes one,
/// with the reads that were counted for it. Deduplication finds a base, as any valid page.
#[test]
fn a_delta_base_can_be_revived_only_after_its_logical_page_is_rewritten() {
    let mut rig = Rig::new(&mixture(&[Recycle, Delta]));
    rig.write(0, &page(1, 100, 0));
    rig.expect(0);
    let base = rig.place(0);
    rig.write(0, &page(1, 100, 1));
    assert_eq!((rig.form(0), rig.recycler().dead_page_count()), (LogicalPageForm::Delta, 0));
    rig.write(1, &page(1, 100, 0));
    assert_eq!(rig.stats().recycled_writes, 0, "its content is needed for the delta");
    rig.write(0, &noise(2));
    assert!(rig.recycler().is_dead(base));
    assert_eq!(rig.recycler().read_count(base), 1);
    rig.write(2, &page(1, 100, 0));
    assert_eq!((rig.stats().recycled_writes, rig.place(2)), (1, base));
    rig.expect_all();
}

/// Note 11, as far as it is built: recycling revives pages. A member of a chunk that died, and the pages of a chunk of
/// which all members died, are no candidates; their content is stored again.
#[test]
fn recycling_does_not_revive_dead_chunk_members() {
    let mut rig = Rig::new(&mixture(&[Recycle, Compression]));
    rig.write_chunk(0);
    rig.write_through(2, &noise(1));
    rig.write_through(10, &light(2));
    assert_eq!((rig.stats().recycled_writes, rig.recycler().dead_page_count()), (0, 0), "one member died");
    for lpn in [0, 1, 3] {
        rig.write_through(lpn, &noise(u64::from(20 + lpn)));
    }
    rig.write_through(11, &light(0));
    assert_eq!((rig.stats().recycled_writes, rig.recycler().dead_page_count()), (0, 0), "the chunk died");
    rig.expect_all();
}

/// Note 12: page validity on flash takes one report per page between two erases. A page that was reported and then
/// revived is valid all the same, may die again, and be revived again.
#[test]
fn a_page_can_die_and_be_revived_repeatedly_with_validity_on_flash() {
    for validity in
        [ValidityStoreKind::Bitmap(FlashBitmapOptions::default()), ValidityStoreKind::Log, gecko()]
    {
        let mut rig = Rig::new(&Parts { validity, ..mixture(&[Recycle]) });
        rig.write(0, &noise(1));
        let place = rig.place(0);
        for round in 0..3 {
            rig.write(0, &noise(10 + round));
            assert!(rig.recycler().is_dead(place), "{validity:?}, round {round}");
            rig.device.ftl_mut().write_back().expect("there is room");
            rig.audit();
            rig.write(0, &noise(1));
            assert_eq!((rig.place(0), rig.stats().recycled_writes), (place, round + 1));
        }
        rig.collect_block_of(place);
        assert_ne!(rig.place(0), place, "{validity:?}: the revived page was moved");
        rig.expect_all();
    }
}

/// Note 14: to recycling-aware collection a dead page counts for less, the more probably it is revived; greedy takes no
/// notice.
#[test]
fn recycling_aware_gc_avoids_blocks_with_pages_likely_to_be_revived() {
    let victim_of = |policy: VictimPolicy| {
        let parts = mixture(&[Recycle]);
        let mut rig = Rig::new(&Parts { gc: GcOptions { policy, ..parts.gc }, ..parts });
        (0..16).for_each(|lpn| rig.write(lpn, &noise(u64::from(lpn))));
        let [first, second] = [rig.place(0), rig.place(8)];
        // Pages of the first block were read before they died.
        (0..6).for_each(|_| (0..4).for_each(|lpn| rig.expect(lpn)));
        (0..4).chain(8..12).for_each(|lpn| rig.write(lpn, &noise(u64::from(100 + lpn))));
        assert!(rig.device.ftl_mut().collect_in_background().expect("there is room"));
        rig.audit();
        rig.expect_all();
        [first, second].map(|ppn| rig.erases(ppn))
    };
    assert_eq!(victim_of(VictimPolicy::Greedy), [1, 0]);
    assert_eq!(victim_of(VictimPolicy::RecycleAware), [0, 1]);
}

/// Note 15: a delta over a member costs a read of the whole chunk to make, and again to read. Where the map is in
/// NVRAM, a delta has to name its base by the generation of a page, and a member is no base.
#[test]
fn a_chunk_member_as_delta_base_costs_chunk_reads_and_is_refused_with_a_map_in_nvram() {
    let mut rig = Rig::new(&mixture(&[Delta, Compression]));
    rig.write_chunk(0);
    let reads = |rig: &Rig, cause: Cause| rig.stats().reads[cause as usize];
    let before = reads(&rig, Cause::Content);
    rig.write(0, &page(0, 30, 1));
    assert_eq!((rig.stats().delta_writes, reads(&rig, Cause::Content) - before), (1, 2));
    let (before, unpacked) = (reads(&rig, Cause::Host), rig.stats().controller_work.decompressed_pages);
    rig.expect(0);
    assert_eq!(reads(&rig, Cause::Host) - before, 2, "the delta itself is still in RAM");
    assert_eq!(rig.stats().controller_work.decompressed_pages - unpacked, 4);

    let mut rig = Rig::new(&without_battery(mixture(&[Delta, Compression])));
    rig.write_chunk(0);
    rig.write(0, &page(0, 30, 1));
    assert_eq!(rig.stats().delta_writes, 0);
    rig.flush();
    (2..4).for_each(|version| rig.write(0, &page(0, 30, version)));
    assert_eq!(rig.stats().delta_writes, 2, "a plain page is a base");
    rig.expect_all();
}

/// Where a chunk member is no base, compression would keep a page that is written often from becoming one. Such a page
/// is stored as a page of its own.
#[test]
fn a_hot_page_in_a_chunk_is_stored_as_a_base_where_members_are_none() {
    let mut rig = Rig::new(&without_battery(mixture(&[Delta, Compression])));
    rig.write_chunk(0);
    (1..3).for_each(|version| rig.write(0, &page(0, 30, version)));
    assert_eq!((rig.stats().delta_writes, rig.form(0)), (0, LogicalPageForm::Stored));
    (3..6).for_each(|version| rig.write(0, &page(0, 30, version)));
    assert_eq!(rig.stats().delta_writes, 3);
    rig.expect_all();
}

/// Note 16: pages of deltas and of chunks die when the last thing in them dies. Their own tables count that, so
/// Logarithmic Gecko never hears of them.
#[test]
fn pages_of_deltas_and_chunks_die_with_their_last_content_without_a_report_to_gecko() {
    let mut rig = Rig::new(&in_gecko(mixture(&[Delta, Compression])));
    rig.write_chunk(0);
    let valid_of = |rig: &mut Rig, kind: PageKind| {
        let is_valid = |page: &&wearwell::flash_view::FlashPage| {
            page.state == FlashPageState::Valid && page.kind == Some(kind)
        };
        rig.view().pages.iter().filter(is_valid).count()
    };
    let before = reports(&rig);
    for lpn in 0..4 {
        assert_eq!(valid_of(&mut rig, PageKind::Chunk), 2, "page {lpn} is in it");
        rig.trim(lpn);
    }
    assert_eq!((valid_of(&mut rig, PageKind::Chunk), reports(&rig)), (0, before));

    (5..7).for_each(|lpn| rig.write_through(lpn, &page(u64::from(lpn), 100, 0)));
    (5..7).for_each(|lpn| rig.write(lpn, &page(u64::from(lpn), 100, 1)));
    rig.device.ftl_mut().write_back().expect("there is room");
    assert_eq!(valid_of(&mut rig, PageKind::Delta), 1);
    let before = reports(&rig);
    rig.trim(5);
    assert_eq!((valid_of(&mut rig, PageKind::Delta), reports(&rig) - before), (1, 1), "its base is reported");
    rig.trim(6);
    assert_eq!((valid_of(&mut rig, PageKind::Delta), reports(&rig) - before), (0, 2));
    rig.expect_all();
}

/// Note 17: the table of deltas is rebuilt from the pages of deltas, of which the newest of a logical page counts, and
/// none for a page that was written as a whole since.
#[test]
fn recovery_finds_the_newest_delta_of_each_page() {
    let mut rig = Rig::new(&composed(&[Delta]));
    (0..8).for_each(|lpn| rig.write(lpn, &page(u64::from(lpn), 100, 0)));
    for version in 1..5 {
        (0..8).for_each(|lpn| rig.write(lpn, &page(u64::from(lpn), 100, version)));
        rig.flush();
    }
    rig.write(3, &noise(77));
    rig.trim(4);
    assert_eq!(rig.form(0), LogicalPageForm::Delta);
    for _ in 0..2 {
        rig.lose_power();
        assert_eq!(
            [0, 3, 4].map(|lpn| rig.form(lpn)),
            [LogicalPageForm::Delta, LogicalPageForm::Stored, LogicalPageForm::Hole]
        );
        rig.expect_all();
    }
}

/// Note 19: an entry of the map has four bytes whether pages are compressed or not. Only pages in other forms than a
/// plain page have entries elsewhere.
#[test]
fn compression_does_not_enlarge_the_l2p_map() {
    let sizes = |kinds: &[MechanismKind]| {
        let rig = Rig::new(&on_flash(6, mixture(kinds)));
        let AnyMapping::Cached(cached) = rig.device.ftl().mapping() else { panic!("the map is on flash") };
        (cached.translation_pages(), cached.max_metadata_pages(), cached.ram_bytes_by_structure())
    };
    assert_eq!(sizes(&[]), sizes(&MechanismKind::ALL));
    let ram = |rig: &Rig, name: &str| {
        let parts = rig.device.ftl().ram_bytes_by_structure();
        parts.into_iter().find(|(part, _)| *part == name).map(|(_, bytes)| bytes)
    };
    let mut rig = Rig::new(&mixture(&[Delta, Compression]));
    assert_eq!((ram(&rig, "chunk directory"), ram(&rig, "delta table")), (Some(0), Some(0)));
    (20..24).for_each(|lpn| rig.write_through(lpn, &noise(u64::from(lpn))));
    assert_eq!(ram(&rig, "chunk directory"), Some(0), "plain pages need no entry");
    rig.write_chunk(0);
    assert!(ram(&rig, "chunk directory") > Some(0));
}

/// Note 20: data, deltas, chunks, translation pages and page validity fill blocks of their own in the full mixture.
#[test]
fn each_block_holds_one_kind_of_page_with_all_content_mechanisms() {
    let mut rig = Rig::new(&composed(&MechanismKind::ALL));
    for round in 0..60 {
        (0..4).for_each(|lpn| rig.write(lpn, &light(100 * round + u64::from(lpn))));
        (5..9).for_each(|lpn| rig.write(lpn, &page(u64::from(lpn), 100, round)));
        (9..12).for_each(|lpn| rig.write(lpn, &noise(100 * round + u64::from(lpn))));
        rig.flush();
    }
    rig.device.ftl_mut().write_back().expect("there is room");
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
    rig.expect_all();
}
