//! Tests of Logarithmic Gecko (page validity on flash). It answers as a bitmap in RAM does, at the costs that its paper
//! states. After a power cut it contains all pages that were reported as invalid before the last flush.

use crate::common;

#[path = "gecko/rig.rs"]
mod rig;

#[path = "gecko/power.rs"]
mod power;

#[path = "gecko/traps.rs"]
mod traps;

use common::Random;
use rig::{Rig, geometry, options_of};
use wearwell::Error;
use wearwell::address::{BlockId, Ppn};
use wearwell::data::{Content, ContentDescriptor, Fingerprint};
use wearwell::operation::Cause;
use wearwell::store::{FlashPageStore, Stream};
use wearwell::validity::{Gecko, GeckoOptions, MergeMode, ValidityStore};

/// Ways of merging runs under test.
const MODES: [MergeMode; 2] = [MergeMode::Pairwise, MergeMode::MultiWay];

/// Returns options of Logarithmic Gecko with all combinations of size ratio, parts per block, and way of merging.
fn combinations() -> impl Iterator<Item = GeckoOptions> {
    let ratios = [2, 3, 4, 8].into_iter();
    let with_parts = ratios.flat_map(|ratio| [1, 4, 16].map(|parts| (ratio, parts)));
    with_parts.flat_map(|(ratio, parts)| MODES.map(|mode| options_of(ratio, parts, mode)))
}

/// Logarithmic Gecko executes ten million updates in 24 combinations of options. Every answer is compared with a bitmap
/// in RAM, also during merges. Space and cost are compared with the bounds of the GeckoFTL paper.
#[test]
fn gecko_answers_as_a_bitmap_in_ram_within_the_papers_bounds_of_space_and_cost() {
    /// Number of pages that are reported as invalid with each combination of options.
    const UPDATES: u64 = 10_000_000 / 24 + 1;
    for options in combinations() {
        let mut rig = Rig::new(&geometry(1024, 128, 1024), options);
        let mut random = Random::new(7);
        for _ in 0..UPDATES {
            rig.invalidate_random_page(&mut random);
            rig.execute_deferred_writes_with_queries(&mut random);
        }
        rig.compare_invalid_pages_with_expected();
        rig.check_costs();
        rig.check_space();
    }
}

#[test]
fn gecko_answers_correctly_with_small_pages_and_odd_block_sizes() {
    for (pages, page_bytes, parts) in
        [(6, 512, 4), (10, 512, 6), (640, 512, 128), (16, 2048, 16), (3, 512, 1)]
    {
        for mode in MODES {
            let mut rig = Rig::new(&geometry(300, pages, page_bytes), options_of(2, parts, mode));
            let mut random = Random::new(pages as u64);
            for _ in 0..60_000 {
                rig.invalidate_random_page(&mut random);
                rig.execute_deferred_writes_with_queries(&mut random);
            }
            rig.compare_invalid_pages_with_expected();
            rig.check_space();
        }
    }
}

/// A burst of invalid pages, as after a trim, may exceed the buffer of Logarithmic Gecko before there is free space for
/// a flush. The flush then writes a run of several pages.
#[test]
fn a_burst_of_invalid_pages_becomes_a_gecko_run_of_several_pages() {
    for mode in MODES {
        let mut rig = Rig::new(&geometry(400, 32, 512), options_of(2, 4, mode));
        let mut random = Random::new(3);
        let mut longest = 0;
        for burst in 0..400 {
            for _ in 0..random.below(if burst % 5 == 0 { 900 } else { 90 }) {
                rig.invalidate_random_page(&mut random);
            }
            rig.execute_deferred_writes_with_queries(&mut random);
            longest = longest
                .max(rig.gecko.level_entries_and_pages_of_each_run().next().map_or(0, |(_, _, pages)| pages));
        }
        assert!(longest > 1);
        rig.compare_invalid_pages_with_expected();
        rig.check_space();
    }
}

/// Logarithmic Geckos with different options answer all queries equally.
#[test]
fn gecko_answers_do_not_depend_on_size_ratio_partitioning_or_merging() {
    let mut known = None;
    for options in combinations() {
        let mut rig = Rig::new(&geometry(256, 64, 512), options);
        let mut random = Random::new(11);
        for _ in 0..20_000 {
            rig.invalidate_random_page(&mut random);
            rig.execute_deferred_writes();
        }
        let found = rig.scan_invalid_pages_by_block();
        assert!(found.len() > 200, "most blocks have invalid pages");
        assert_eq!(known.get_or_insert_with(|| found.clone()), &found, "{options:?}");
    }
}

/// If the size ratio is 2 and no two entries of Logarithmic Gecko have the same key, the runs correspond to the binary
/// digits of the number of flushes. So every page that is written and read can be computed.
#[test]
fn without_key_collisions_gecko_runs_follow_a_binary_counter() {
    for mode in MODES {
        let mut rig = Rig::new(&geometry(1 << 14, 128, 4096), options_of(2, 4, mode));
        let buffer = rig.gecko.validity_reports_per_flush();
        let mut parts = (0..4 << 14).map(|part| part * 32);
        for flush in 1..=127u32 {
            for first_page in parts.by_ref().take(buffer as usize) {
                rig.invalidate(first_page);
            }
            let (programs, reads) = (rig.programs(), rig.reads());
            rig.execute_deferred_writes();
            let carries = flush.trailing_zeros();
            let merged: u64 = match mode {
                // The flush, then a merge of two equal runs per carry.
                MergeMode::Pairwise => (1..=carries).map(|level| 1 << level).sum(),
                // All runs merge at once: neither the flush nor an intermediate result is read back.
                MergeMode::MultiWay => (1 << carries) - 1,
            };
            assert_eq!(rig.programs() - programs, 1 + merged, "{mode:?}: pages written by flush {flush}");
            assert_eq!(rig.reads() - reads, merged, "{mode:?}: pages read by flush {flush}");
            let levels: Vec<u32> =
                rig.gecko.level_entries_and_pages_of_each_run().map(|(level, _, _)| level).collect();
            let digits: Vec<u32> = (0..8).filter(|level| flush >> level & 1 == 1).collect();
            assert_eq!(levels, digits, "{mode:?}: levels after flush {flush}");
            assert!(
                rig.gecko.level_entries_and_pages_of_each_run().all(|(level, _, pages)| pages == 1 << level)
            );
        }
        rig.compare_invalid_pages_with_expected();
    }
}

/// GeckoFTL, appendix A: multi-way merges, which merge runs of several levels at once, reduce writes by a factor of
/// about the size ratio.
#[test]
fn multi_way_gecko_merges_write_about_half_as_much_as_pairwise_merges() {
    let written = MODES.map(|mode| {
        let mut rig = Rig::new(&geometry(4096, 64, 512), options_of(2, 2, mode));
        let mut random = Random::new(5);
        for _ in 0..400_000 {
            rig.invalidate_random_page(&mut random);
            rig.execute_deferred_writes();
        }
        rig.programs() as f64
    });
    let ratio = written[1] / written[0];
    println!("multi-way writes {ratio:.3} of pairwise");
    assert!((0.4..0.7).contains(&ratio), "multi-way writes {ratio:.3} of pairwise");
}

/// A requested flush makes all reports of invalid pages durable. If no report is buffered, nothing is written, but the
/// sequence number before which all reports are durable still advances.
#[test]
fn a_requested_gecko_flush_makes_all_invalid_page_reports_durable_even_with_an_empty_buffer() {
    let mut rig = Rig::new(&geometry(64, 16, 512), GeckoOptions::default());
    assert_eq!(rig.gecko.durable_until_sequence(), 0);
    rig.invalidate(5);
    rig.execute_deferred_writes();
    assert_eq!((rig.gecko.unflushed_validity_report_count(), rig.programs()), (1, 0));
    rig.gecko.request_flush();
    rig.execute_deferred_writes();
    assert_eq!((rig.gecko.unflushed_validity_report_count(), rig.programs()), (0, 1));
    let before = rig.store.last_sequence();
    rig.gecko.request_flush();
    rig.execute_deferred_writes();
    assert_eq!(rig.gecko.durable_until_sequence(), before);
    assert_eq!(rig.scan_invalid_pages_by_block(), vec![(0, vec![5])]);
}

/// The buffer of Logarithmic Gecko is flushed after a fixed number of invalid pages, even if all of them change the
/// same entry in it.
#[test]
fn the_gecko_buffer_flushes_after_a_fixed_number_of_invalidations_even_if_all_hit_one_entry() {
    let mut rig = Rig::new(&geometry(64, 128, 512), options_of(2, 1, MergeMode::MultiWay));
    let entries = rig.gecko.validity_reports_per_flush();
    for page in 0..entries {
        assert!(!rig.execute_deferred_writes(), "{page} reports do not fill {entries} entries");
        rig.invalidate(page % 128);
    }
    assert!(rig.execute_deferred_writes());
    assert_eq!(rig.gecko.unflushed_validity_report_count(), 0);
}

/// GC copies flash pages of Logarithmic Gecko between the steps of its merges, and no answer becomes wrong.
#[test]
fn gc_may_move_gecko_pages_at_any_time() {
    for mode in MODES {
        let mut rig = Rig::new(&geometry(512, 32, 512), options_of(3, 4, mode));
        let mut random = Random::new(23);
        let mut moved = 0;
        for _ in 0..60_000 {
            rig.invalidate_random_page(&mut random);
            while rig.execute_deferred_write_step() {
                if random.is_true_with_percent(20) {
                    moved += rig.collect_gecko_block(&mut random);
                }
            }
        }
        assert!(moved > 1000, "{moved} pages moved");
        rig.compare_invalid_pages_with_expected();
        rig.check_recovered_gecko_equals_flushed_gecko(&mut random);
    }
}

/// A flush of Logarithmic Gecko that finds no free page returns an error and changes no answer. It can be repeated when
/// pages are free.
#[test]
fn a_gecko_flush_on_a_full_device_fails_and_can_be_repeated() {
    let geometry = geometry(6, 4, 512);
    let mut rig = Rig::new(&geometry, options_of(2, 4, MergeMode::MultiWay));
    let append = |store: &mut FlashPageStore| {
        let content = Content::Descriptor(ContentDescriptor::of_fingerprint(Fingerprint(1)));
        store.append_page(Stream::Host, 0, 0, content, Fingerprint(1), Cause::Host)
    };
    let places: Vec<Ppn> = (0..24).map(|_| append(&mut rig.store).expect("24 pages")).collect();
    for page in [1, 2, 9, 21] {
        rig.invalidate(page);
    }
    rig.gecko.request_flush();
    for _ in 0..2 {
        assert!(matches!(rig.try_deferred_write_step(), Err(Error::Full { .. })));
        rig.compare_invalid_pages_with_expected();
    }
    rig.open(5);
    places[..4].iter().for_each(|&page| rig.store.count_page_invalid(page));
    rig.store.erase(BlockId(0), Cause::Gc).expect("healthy");
    assert!(rig.execute_deferred_write_step() && !rig.execute_deferred_write_step());
    assert_eq!((rig.programs(), rig.gecko.unflushed_validity_report_count()), (1, 1));
    rig.compare_invalid_pages_with_expected();
}

#[test]
fn invalid_gecko_options_are_refused() {
    let geometry = geometry(64, 16, 512);
    for (options, hint) in [
        (options_of(1, 4, MergeMode::MultiWay), "set it to at least 2"),
        (options_of(2, 17, MergeMode::MultiWay), "gecko.parts is 17; set it to a value from 1 to 16"),
        (options_of(2, 0, MergeMode::MultiWay), "gecko.parts is 0; set it to a value from 1 to 16"),
    ] {
        let Err(Error::InvalidOptions(why)) = Gecko::new(&geometry, options) else {
            panic!("{options:?} is accepted")
        };
        assert!(why.contains(hint), "{why}");
    }
    assert!(Gecko::new(&geometry, GeckoOptions::with_block_parts_of_key_size(&geometry)).is_ok());
}

/// The RAM and flash space of Logarithmic Gecko for a device of 2 TiB equal the formulas of its paper.
#[test]
fn gecko_ram_and_flash_space_at_two_tebibytes_match_the_closed_forms() {
    let geometry = geometry(1 << 22, 128, 4096);
    let gecko = Gecko::new(&geometry, GeckoOptions::default()).expect("valid");
    assert_eq!(gecko.validity_reports_per_flush(), 506);
    // 5 keys per block: ceil(5 * 2^22 / 506) pages, 2^15 <= 41 446 < 2^16.
    assert_eq!((gecko.max_run_pages(), gecko.max_levels()), (41_446, 16));
    let bytes: Vec<u64> = gecko.ram_bytes_by_structure().into_iter().map(|(_, bytes)| bytes).collect();
    assert_eq!(bytes, [4096, 4096 * 18, 8 * gecko.max_metadata_pages()]);
    // The largest run, a run of 2^(i+1) - 1 pages at each smaller level, and an output.
    assert_eq!(gecko.max_metadata_pages(), 2 * 41_446 + (0..15).map(|i| (2u64 << i) - 1).sum::<u64>());
    assert_eq!(gecko.max_page_writes_per_deferred_step(), 1);
}
