//! Tests of the core's write amplification under uniform random writes against the closed forms and mean-field models of
//! `wearwell_replay::theory`, and of its map's traffic against a formula.
//!
//! The formulas include neither free blocks nor partly written ones. So u is the *effective* utilisation: free blocks
//! and the unwritten part of open blocks, averaged over the measurement, are subtracted from the physical space.
//!
//! Procedure: after a sequential fill the device is overwritten until the transient is over. Then the programs per host
//! write are measured over another stretch and compared.

use wearwell::address::Lpn;
use wearwell::data::{ContentDescriptor, Fingerprint, mix_bits};
use wearwell::design::{DftlOptions, GeckoFtlOptions, Parts, dftl, geckoftl, page_map};
use wearwell::gc::{GcOptions, GreedyTieBreak, VictimPolicy};
use wearwell::mapping::AnyMapping;
use wearwell::nand::{Geometry, RetainedPageFields, SimNand};
use wearwell::operation::Cause;
use wearwell::validity::{GeckoOptions, MergeMode};
use wearwell::{Device, DeviceOptions};
use wearwell_replay::theory::{d_choices_write_amplification, fifo_write_amplification, greedy_steady_state};

/// Number of times that the unused space is sampled during one measurement.
const SAMPLES: u64 = 4000;
/// Over-provisioning values under test, each computed as physical / logical size - 1.
const OVER_PROVISIONING_SHARES: [f64; 4] = [0.07, 0.15, 0.28, 0.4286];

/// Returns the write amplification of greedy GC with `b` pages per block at utilisation `u` (logical / physical pages).
fn greedy_write_amplification(b: u32, u: f64) -> f64 {
    greedy_steady_state(u, b as usize).write_amplification
}

/// Write amplification measured in a run, and the utilisation at which it was measured.
struct MeasuredWriteAmplification {
    /// Write amplification: programs per host page write.
    amplification: f64,
    /// Effective utilisation: logical pages divided by the physical pages without those that are free or not yet
    /// written.
    effective_utilisation: f64,
}

/// Device under test, to which pages are written at random.
struct Run {
    /// Device under test, without bytes of page contents.
    device: Device,
    /// Number of logical pages.
    logical_pages: u32,
    /// State of the random generator.
    random_state: u64,
}

impl Run {
    /// Creates a device with these numbers of blocks, pages per block and bytes per page, and writes every logical page
    /// once. `spare` is its over-provisioning (physical / logical size - 1).
    fn new([blocks, b, page_bytes]: [u32; 3], spare: f64, parts: &Parts) -> Self {
        let geometry = Geometry {
            channels: 1,
            dies_per_channel: 1,
            planes_per_die: 1,
            blocks_per_plane: blocks,
            pages_per_block: b,
            page_bytes,
            spare_bytes: 64,
            superblock_planes: 1,
        };
        #[expect(clippy::cast_sign_loss)]
        let logical_pages = (geometry.pages() as f64 / (1.0 + spare)) as u32;
        let nand = SimNand::new(geometry, RetainedPageFields::default());
        let device = Device::new(nand, logical_pages, parts, DeviceOptions::default()).expect("it fits");
        let mut run = Self { device, logical_pages, random_state: 1 };
        (0..logical_pages).for_each(|lpn| run.write(lpn));
        run
    }

    /// Writes a logical page.
    fn write(&mut self, lpn: u32) {
        let content = ContentDescriptor::of_fingerprint(Fingerprint(1));
        self.device.write_page_descriptor(Lpn(lpn), content).expect("there is room");
    }

    /// Overwrites `writes` logical pages, drawn uniformly at random.
    fn overwrite(&mut self, writes: u64) {
        for _ in 0..writes {
            self.random_state = self.random_state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let lpn = ((mix_bits(self.random_state) >> 32) * self.logical_pages as u64) >> 32;
            self.write(lpn as u32);
        }
    }

    /// Overwrites `writes` random logical pages, nine in ten of them from the first tenth of the pages.
    fn overwrite_skewed(&mut self, writes: u64) {
        for _ in 0..writes {
            self.random_state = self.random_state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let drawn = mix_bits(self.random_state);
            let tenth = u64::from(self.logical_pages / 10);
            let (first, pages) =
                if drawn % 10 < 9 { (0, tenth) } else { (tenth, u64::from(self.logical_pages) - tenth) };
            self.write((first + (((drawn >> 32) * pages) >> 32)) as u32);
        }
    }

    /// Overwrites random pages, first `warm` times as many as there are logical pages, without measurement. Then
    /// measures write amplification and utilisation during `stretch` times as many overwrites as there are logical
    /// pages.
    fn measure_write_amplification(&mut self, warm: f64, stretch: f64) -> MeasuredWriteAmplification {
        #[expect(clippy::cast_sign_loss)]
        let pages = |times: f64| (self.logical_pages as f64 * times) as u64;
        let (warm, stretch) = (pages(warm), pages(stretch));
        self.overwrite(warm);
        self.device.ftl_mut().clear_stats();
        let mut unused = 0.0;
        for _ in 0..SAMPLES {
            self.overwrite(stretch / SAMPLES);
            let store = self.device.ftl().store();
            let block_pages = store.geometry().block_pages() as u64;
            unused += (store.total_free_blocks() as u64 * block_pages
                + store.unprogrammed_pages_of_open_blocks()) as f64;
        }
        let physical = self.device.ftl().store().geometry().pages() as f64;
        MeasuredWriteAmplification {
            amplification: self.device.ftl().stats().write_amplification(),
            effective_utilisation: self.logical_pages as f64 / (physical - unused / SAMPLES as f64),
        }
    }
}

/// Returns a page map with this victim policy.
fn page_map_with_victim_policy(policy: VictimPolicy) -> Parts {
    page_map(GcOptions { policy, ..GcOptions::default() })
}

/// Returns the number of overwrites after a sequential fill until write amplification is steady, in multiples of the
/// logical size. It depends on the over-provisioning `spare`.
fn transient_drive_writes(spare: f64) -> f64 {
    if spare < 0.2 { 1.0 } else { 2.5 }
}

/// Asserts that a measured value deviates from the expected one by at most `percent` percent; prints both.
fn assert_close(what: &str, measured: f64, expected: f64, percent: f64) {
    let error = 100.0 * (measured / expected - 1.0);
    println!("{what}: measured {measured:.4}, theory {expected:.4}, {error:+.3} %");
    assert!(error.abs() <= percent, "{what}: measured {measured}, theory {expected}: {error:+.3} %");
}

#[test]
fn closed_forms_of_write_amplification_give_the_published_values() {
    for (spare, expected) in [(0.07, 7.8172), (0.15, 4.0160), (0.28, 2.4814)] {
        assert!((fifo_write_amplification(1.0 / (1.0 + spare)) - expected).abs() < 1e-4);
    }
    let table = [
        (0.07, [7.0099, 7.3916, 7.5969]),
        (0.15, [3.8005, 3.9049, 3.9596]),
        (0.28, [2.4028, 2.4412, 2.4610]),
    ];
    for (spare, row) in table {
        for (b, expected) in [64, 128, 256].into_iter().zip(row) {
            assert!(
                (greedy_write_amplification(b, 1.0 / (1.0 + spare)) - expected).abs() < 1e-4,
                "b = {b}, spare {spare}"
            );
        }
    }
    for u in [0.7, 0.85, 0.93] {
        assert!(
            (d_choices_write_amplification(u, 64, 1) - 1.0 / (1.0 - u)).abs() < 1e-6,
            "random cleaning at {u}"
        );
        assert!(
            (d_choices_write_amplification(u, 64, 1000) / greedy_write_amplification(64, u) - 1.0).abs()
                < 0.005,
            "many choices are greedy at {u}"
        );
    }
}

#[test]
fn write_amplification_of_greedy_gc_follows_the_mean_field_model() {
    for b in [64, 128, 256] {
        for spare in OVER_PROVISIONING_SHARES {
            let measured =
                Run::new([8192, b, 4096], spare, &page_map_with_victim_policy(VictimPolicy::Greedy))
                    .measure_write_amplification(transient_drive_writes(spare), 1.0);
            let expected = greedy_write_amplification(b, measured.effective_utilisation);
            assert_close(&format!("greedy, b = {b}, spare {spare}"), measured.amplification, expected, 0.5);
        }
    }
}

/// Nine in ten writes go to a tenth of the pages. Among blocks with equally many valid pages, the block that reached
/// this number first holds the colder pages. Collecting it first reduces write amplification.
#[test]
fn collecting_the_oldest_of_equal_victims_costs_less_under_skewed_writes() {
    let [newest, oldest] = [GreedyTieBreak::Newest, GreedyTieBreak::Oldest].map(|tie_break| {
        let mut run =
            Run::new([2048, 64, 4096], 0.15, &page_map(GcOptions { tie_break, ..GcOptions::default() }));
        run.overwrite_skewed(4 * u64::from(run.logical_pages));
        run.device.ftl_mut().clear_stats();
        run.overwrite_skewed(4 * u64::from(run.logical_pages));
        run.device.ftl().stats().write_amplification()
    });
    println!("write amplification: newest {newest:.4}, oldest {oldest:.4}");
    assert!(oldest < 0.995 * newest, "newest {newest}, oldest {oldest}");
}

#[test]
fn write_amplification_of_fifo_gc_follows_its_lambert_w_form() {
    for spare in OVER_PROVISIONING_SHARES {
        let measured = Run::new([8192, 64, 4096], spare, &page_map_with_victim_policy(VictimPolicy::Fifo))
            .measure_write_amplification(transient_drive_writes(spare), 1.0);
        let expected = fifo_write_amplification(measured.effective_utilisation);
        assert_close(&format!("FIFO, spare {spare}"), measured.amplification, expected, 1.0);
    }
}

#[test]
fn write_amplification_of_d_choices_gc_follows_its_mean_field_model() {
    for d in [1, 2, 5, 10] {
        for spare in OVER_PROVISIONING_SHARES {
            let parts = page_map_with_victim_policy(VictimPolicy::DChoices { random_candidates: d });
            let measured = Run::new([8192, 64, 4096], spare, &parts)
                .measure_write_amplification(transient_drive_writes(spare) + 1.0, 1.0);
            let expected = d_choices_write_amplification(measured.effective_utilisation, 64, d);
            assert_close(&format!("{d} choices, spare {spare}"), measured.amplification, expected, 1.0);
        }
    }
}

/// A translation page is written when its oldest dirty map entry is evicted, together with all its other dirty entries.
/// An entry stays in the LRU cache of C entries for C inserts, and on average the next entry of its translation page
/// becomes dirty TPT inserts later, for TPT translation pages. So I dirty entries per host write cost I / (1 + C / TPT)
/// writes of translation pages. Each is a program and a read, and each cache miss costs a further read. The formula
/// ignores that the map entries of a victim's copies exceed the cache for a moment. Therefore the test uses small
/// blocks and many translation pages (128 entries each).
#[test]
fn translation_traffic_of_dftl_follows_cache_entries_per_translation_page() {
    let layout = [8192, 16, 512];
    for entries_per_page in [0.5, 1.43, 4.0] {
        let tpt = (8192.0 * 16.0 / 1.28 / 128.0_f64).ceil();
        #[expect(clippy::cast_sign_loss)]
        let cache_entries = (tpt * entries_per_page) as u32;
        let parts = dftl(GcOptions::default(), DftlOptions { cache_entries });
        let mut run = Run::new(layout, 0.28, &parts);
        run.measure_write_amplification(2.0, 1.0);
        compare_translation_traffic(&run, cache_entries);
    }
}

/// Reads and writes of translation pages with a lazy map (GeckoFTL) follow the formula for DFTL (see the test of DFTL)
/// without the reads for cache misses, because a write that misses the cache reads nothing. Checkpoints write entries
/// that would soon be evicted anyway, so they add nothing.
#[test]
fn geckoftl_translation_page_traffic_equals_the_dftl_formula_without_miss_reads() {
    let layout = [8192, 16, 512];
    for entries_per_page in [0.5, 1.43, 4.0] {
        let tpt = (8192.0 * 16.0 / 1.28 / 128.0_f64).ceil();
        #[expect(clippy::cast_sign_loss)]
        let cache_entries = (tpt * entries_per_page) as u32;
        let gecko = GeckoOptions { size_ratio: 2, parts_per_block: 1, merge_mode: MergeMode::MultiWay };
        let parts = geckoftl(GcOptions::default(), GeckoFtlOptions { cache_entries, gecko });
        let mut run = Run::new(layout, 0.28, &parts);
        run.measure_write_amplification(2.0, 1.0);
        let AnyMapping::Cached(mapping) = run.device.ftl().mapping() else { panic!("the map is on flash") };
        let (counts, stats) = (mapping.counts(), run.device.ftl().stats());
        let per_write = |count: u64| count as f64 / stats.host_page_writes as f64;
        let share = 1.0 / (1.0 + cache_entries as f64 / mapping.translation_pages() as f64);
        let synchronised = [Cause::Translation, Cause::Checkpoint].map(|c| stats.programs[c as usize]);
        let expected = per_write(counts.entries_made_dirty) * share;
        assert_close("translation programs per write", per_write(synchronised.iter().sum()), expected, 2.0);
        let reads = [Cause::Translation, Cause::Checkpoint].map(|c| stats.reads[c as usize]);
        assert_close("translation reads per write", per_write(reads.iter().sum()), expected, 2.0);
        println!("of which by checkpoints: {:.4}", per_write(counts.checkpoint_synchronisations));
    }
}

/// Compares programs and reads of translation pages of a DFTL run with the formula for a cache of `cache_entries`
/// entries.
fn compare_translation_traffic(run: &Run, cache_entries: u32) {
    let AnyMapping::Cached(mapping) = run.device.ftl().mapping() else { panic!("DFTL caches its map") };
    let (counts, stats) = (mapping.counts(), run.device.ftl().stats());
    let tpt = mapping.translation_pages() as f64;
    let share = 1.0 / (1.0 + cache_entries as f64 / tpt);
    let per_write = |count: u64| count as f64 / stats.host_page_writes as f64;
    let programs = per_write(stats.programs[Cause::Translation as usize]);
    let fetches = per_write(counts.misses);
    let sync_reads = per_write(stats.reads[Cause::Translation as usize]) - fetches;
    let dirtied = per_write(counts.entries_made_dirty);
    println!(
        "{cache_entries} entries over {tpt} pages: I = {dirtied:.4}, fetch reads {fetches:.4} per write"
    );
    assert_close("synchronisation reads", sync_reads, per_write(counts.synchronisations), 0.01);
    assert_close("translation programs per write", programs, dirtied * share, 2.0);
    // A read counts as a tenth of a program.
    let delta = 10.0;
    let expected = dirtied * (1.0 + 1.0 / delta) * share;
    assert_close("translation traffic per write", programs + sync_reads / delta, expected, 2.0);
}
