//! Tests of content schemes (deduplication, compression and others) that are switched on and off at run time: what a
//! scheme does while it is off, what work several schemes share, and which schemes run because they save writes.
//! `oracle.rs` and `power_cut.rs` verify that switching loses no data.

use MechanismKind::{Compression, Dedup, Delta, Recycle, Silent};
use std::collections::HashMap;

use common::{Random, audit, geometry_without_superblocks};
use wearwell::address::Lpn;
use wearwell::content::dedup::DedupOptions;
use wearwell::content::recycle::RecycleOptions;
use wearwell::data::{ContentDescriptor, Fingerprint};
use wearwell::design::{
    CompressionOptions, DeltaOptions, Parts, Persistence, RecyclingPart, SharingOptions, page_map,
};
use wearwell::gc::{GcOptions, VictimPolicy};
use wearwell::lifetime::{
    EnergyModel, EpochDecision, LifetimeController, LifetimeCounters, LifetimeOptions, MechanismKind,
    MechanismSet, SchemeByteCounts, WriteActivity,
};
use wearwell::nand::SimNand;
use wearwell::sharing::counts::ReferenceCountForm;
use wearwell::sharing::reverse_map::ReverseMapKind;
use wearwell::{Device, DeviceOptions};

use crate::common;

/// Bytes per page.
const PAGE_BYTES: u16 = 4096;
/// Number of logical pages of the device.
const LOGICAL_PAGES: u32 = 1500;
/// Number of pages that are overwritten all the time; all other pages keep their first content.
const HOT_PAGES: u64 = 60;
/// Number of host writes of an epoch (period for which the running schemes are decided).
const EPOCH_WRITES: u32 = 4096;
/// Lower bound of the fingerprints of unique contents. No other write has such a fingerprint, unless a test repeats a
/// unique content.
const FIRST_UNIQUE_FINGERPRINT: u64 = 1_000_000;

/// Returns the set of these content schemes.
fn mechanism_set(kinds: &[MechanismKind]) -> MechanismSet {
    kinds.iter().copied().collect()
}

/// Returns a design with these content schemes, an unbounded fingerprint store (for recycling) and an unbounded
/// deduplication index.
fn parts_with_schemes(schemes: MechanismSet, policy: VictimPolicy) -> Parts {
    let gc = GcOptions { policy, ..GcOptions::default() };
    let mut parts = Parts { persistence: Persistence::BatteryRam, ..page_map(gc) };
    let options = RecycleOptions { capacity_entries: None, ..RecycleOptions::default() };
    let dedup = Some(DedupOptions::default());
    let (reverse_map, refs) = (ReverseMapKind::Ideal, ReferenceCountForm::Sparse);
    let has = |kind| schemes.contains(kind);
    parts.content.recycle = has(Recycle).then_some(RecyclingPart { options, must_verify_hits: false });
    parts.content.sharing = has(Dedup).then_some(SharingOptions {
        reverse_map,
        reference_count_form: refs,
        dedup,
        has_atomic_remap_commands: false,
    });
    parts.content.delta = has(Delta).then(DeltaOptions::default);
    parts.content.chunks = has(Compression).then(CompressionOptions::default);
    parts.content.stateless_mechanisms = schemes.iter().filter(|kind| kind.is_stateless()).collect();
    parts
}

/// A device of 2048 flash pages, and a source of unique contents.
struct Drive {
    /// Device under test.
    device: Device,
    /// Content of each logical page.
    contents: HashMap<u64, ContentDescriptor>,
    /// Generator of the random numbers that determine pages and contents.
    random: Random,
    /// Number of unique contents made so far.
    unique_content_count: u64,
}

impl Drive {
    /// Returns a filled device with these content schemes and greedy GC.
    fn new(schemes: MechanismSet) -> Self {
        Self::with(&parts_with_schemes(schemes, VictimPolicy::Greedy))
    }

    /// Returns a device filled with unique incompressible contents, which no scheme can serve.
    fn with(parts: &Parts) -> Self {
        let nand = SimNand::new(
            geometry_without_superblocks([1, 64, 32, PAGE_BYTES.into()]),
            parts.needed_retained_page_fields(),
        );
        let device = Device::new(nand, LOGICAL_PAGES, parts, DeviceOptions::default()).expect("it fits");
        let mut drive =
            Self { device, contents: HashMap::new(), random: Random::new(7), unique_content_count: 0 };
        (0..LOGICAL_PAGES.into()).for_each(|lpn| drive.write_unique(lpn));
        drive.device.flush().expect("there is room");
        drive.device.ftl_mut().clear_stats();
        drive
    }

    /// Switches the given content schemes on and all others off, and audits the device.
    fn switch(&mut self, running: &[MechanismKind]) {
        self.device.ftl_mut().switch_content_mechanisms(mechanism_set(running)).expect("there is room");
        audit(&mut self.device);
    }

    /// Writes a content to a logical page.
    fn write(&mut self, lpn: u64, content: ContentDescriptor) {
        self.device.write_page_descriptor(Lpn(lpn as u32), content).expect("there is room");
        self.contents.insert(lpn, content);
    }

    /// Returns the content of an incompressible page that neither equals nor resembles any other content.
    fn new_unique_content(&mut self) -> ContentDescriptor {
        self.unique_content_count += 1;
        let fingerprint = Fingerprint(FIRST_UNIQUE_FINGERPRINT + self.unique_content_count);
        ContentDescriptor { fingerprint, compressed_bytes: PAGE_BYTES, delta_bytes: PAGE_BYTES }
    }

    /// Writes a unique content to a logical page.
    fn write_unique(&mut self, lpn: u64) {
        let content = self.new_unique_content();
        self.write(lpn, content);
    }

    /// Returns a content for `lpn` that the scheme `kind` can serve without a program, and no other scheme can.
    fn content_for_scheme(&mut self, kind: MechanismKind, lpn: u64) -> ContentDescriptor {
        let unique = self.new_unique_content();
        let again = |id: u64| ContentDescriptor { fingerprint: Fingerprint(1 + id), ..unique };
        match kind {
            // What the page holds.
            Silent => self.contents[&lpn],
            // The first content of a cold page, which that page still holds.
            Dedup => {
                let cold = HOT_PAGES + self.random.below(u64::from(LOGICAL_PAGES) - HOT_PAGES);
                ContentDescriptor { fingerprint: Fingerprint(FIRST_UNIQUE_FINGERPRINT + 1 + cold), ..unique }
            }
            // The previous content of the page, or the one before.
            Recycle => again(1000 + 2 * lpn + self.random.below(2)),
            Delta => ContentDescriptor { delta_bytes: 500, ..unique },
            Compression => ContentDescriptor { compressed_bytes: 900, ..unique },
            _ => unreachable!("no other scheme"),
        }
    }

    /// Overwrites hot pages with contents for which the schemes in `suitable_schemes` can save a write, one scheme
    /// after the other. If there are none, the contents are unique.
    fn overwrite_hot_pages(&mut self, writes: u64, suitable_schemes: &[MechanismKind]) {
        for k in 0..writes {
            let lpn = self.random.below(HOT_PAGES);
            let content = match suitable_schemes {
                [] => self.new_unique_content(),
                kinds => self.content_for_scheme(kinds[k as usize % kinds.len()], lpn),
            };
            self.write(lpn, content);
        }
        audit(&mut self.device);
    }

    /// Returns the number of writes that the content scheme `kind` served.
    fn writes_served_by(&self, kind: MechanismKind) -> u64 {
        let stats = self.device.ftl().stats();
        match kind {
            Silent => stats.unchanged_writes,
            Dedup => stats.deduplicated_writes,
            Recycle => stats.recycled_writes,
            Delta => stats.delta_writes,
            Compression => stats.compressed_chunk_writes,
            _ => unreachable!("no other scheme"),
        }
    }

    /// Returns the number of pages of which a hash was computed.
    fn hashed_pages(&self) -> u64 {
        self.device.ftl().stats().controller_work.hashed_pages
    }

    /// Returns the share of the bytes offered to a content scheme that the scheme left to be written.
    fn still_written_share(&self, kind: MechanismKind) -> f64 {
        let SchemeByteCounts { offered_bytes, unsaved_bytes: kept_bytes, .. } =
            self.device.ftl().scheme_byte_counts(kind);
        kept_bytes as f64 / offered_bytes as f64
    }

    /// Overwrites hot pages for several epochs, while a lifetime controller switches content schemes on and off by the
    /// writes that they save. Returns the schemes that ran in each epoch. `suitable_schemes(epoch)` returns the schemes
    /// that can save writes with the contents of that epoch.
    fn run_epochs(
        &mut self,
        schemes: MechanismSet,
        epochs: u64,
        suitable_schemes: impl Fn(u64) -> Vec<MechanismKind>,
    ) -> Vec<MechanismSet> {
        let mut lifetime = LifetimeController::new(LifetimeOptions::without_target(
            schemes,
            EPOCH_WRITES,
            &EnergyModel::STATED_IN_PAPER,
        ));
        let mut ran = Vec::new();
        for epoch in 0..epochs {
            let ftl = self.device.ftl_mut();
            let schemes =
                lifetime.options().schemes.iter().map(|scheme| ftl.scheme_byte_counts(scheme.kind)).collect();
            let counters = LifetimeCounters {
                activity: WriteActivity::default(),
                remaining_endurance_bytes: 0,
                scheme_byte_counts: schemes,
            };
            let decided = lifetime.advance_to(ftl.stats().host_page_writes, &counters);
            assert!(decided.is_some(), "an epoch has as many writes as it is long");
            ftl.switch_content_mechanisms(lifetime.running_schemes()).expect("there is room");
            assert_eq!(ftl.running_schemes(), lifetime.running_schemes());
            ran.push(lifetime.running_schemes());
            self.overwrite_hot_pages(EPOCH_WRITES.into(), &suitable_schemes(epoch));
        }
        ran
    }
}

/// For twenty epochs the scheme cannot serve the contents that are written, for the next twenty it can, and for the
/// last twenty it cannot.
#[test]
fn each_scheme_is_switched_off_when_it_saves_nothing_and_on_again_when_content_changes() {
    for kind in MechanismKind::ALL {
        let mut drive = Drive::new(mechanism_set(&[kind]));
        let is_content_suitable = |epoch: u64| (20..40).contains(&epoch);
        let ran = drive.run_epochs(mechanism_set(&[kind]), 60, |epoch| {
            if is_content_suitable(epoch) { vec![kind] } else { vec![] }
        });
        let on: Vec<bool> = ran.iter().map(|running| running.contains(kind)).collect();
        assert!(on[0], "{kind:?} is tried in the first epoch");
        assert!(on[1..=20].iter().all(|&on| !on), "{kind:?} saves nothing in the first twenty: {on:?}");
        let back =
            on.iter().skip(21).position(|&on| on).unwrap_or_else(|| panic!("{kind:?} never comes back"));
        assert!(back < 10, "{kind:?} comes back {back} epochs after it could know: {on:?}");
        assert!(on[21 + back..=40].iter().all(|&on| on), "{kind:?} pays, and stays on: {on:?}");
        assert!(
            on[41..].iter().all(|&on| !on),
            "{kind:?} is off in the epoch after the one that did not pay: {on:?}"
        );
    }
}

/// A device has four content schemes. In each phase one of them can serve the contents, and after the first epoch all
/// others are off. The elimination of silent writes is not among the schemes, because deduplication can serve such
/// writes, too.
#[test]
fn of_four_content_schemes_only_those_that_save_writes_run() {
    let phases = [Delta, Compression, Dedup, Recycle];
    let mut drive = Drive::new(mechanism_set(&phases));
    let kind_at = |epoch: u64| phases[(epoch / 16) as usize];
    let ran = drive.run_epochs(mechanism_set(&phases), 64, |epoch| vec![kind_at(epoch)]);
    for (phase, kind) in phases.into_iter().enumerate() {
        for (epoch, &running) in ran.iter().enumerate().skip(16 * phase + 12).take(4) {
            assert!(
                running.contains(kind),
                "epoch {epoch}, whose content is for {kind:?}: {running:?} of {ran:?}"
            );
            // Contents that repeat what a page held can be served by both schemes that need the hash, which cost no
            // more than one.
            let others =
                running.iter().filter(|&other| other != kind && !(other.needs_hash() && kind.needs_hash()));
            assert_eq!(others.count(), 0, "epoch {epoch} is for {kind:?} alone: {running:?} of {ran:?}");
        }
    }
}

/// With any set of schemes off, a device holds the same contents. With all of them off, it also programs like a page
/// map.
#[test]
fn with_all_schemes_off_a_design_programs_like_a_page_map() {
    let run = |parts: &Parts| {
        let mut drive = Drive::with(parts);
        drive.switch(&[]);
        let before = drive.device.ftl().stats().total_programs();
        for _ in 0..20_000 {
            let (lpn, id) = (drive.random.below(LOGICAL_PAGES.into()), drive.random.below(90));
            let content = ContentDescriptor {
                delta_bytes: 300,
                compressed_bytes: 900,
                fingerprint: Fingerprint(1 + id),
            };
            drive.write(lpn, content);
        }
        let stats = drive.device.ftl().stats();
        (stats.total_programs() - before, stats.total_erases())
    };
    let plain = run(&parts_with_schemes(MechanismSet::NONE, VictimPolicy::Greedy));
    assert!(plain.0 > 20_000, "collection copies pages");
    for kinds in [
        &[Dedup][..],
        &[Recycle],
        &[Dedup, Recycle],
        &[Delta],
        &[Dedup, Recycle, Delta],
        &[Silent],
        &[Silent, Delta],
    ] {
        assert_eq!(run(&parts_with_schemes(mechanism_set(kinds), VictimPolicy::Greedy)), plain, "{kinds:?}");
    }
    assert_eq!(
        run(&parts_with_schemes(mechanism_set(&[Recycle]), VictimPolicy::RecycleAware)),
        plain,
        "nothing will be recycled"
    );
}

/// The hash of a written page is computed once if deduplication and recycling both run.
#[test]
fn one_hash_serves_deduplication_and_recycling() {
    let hashed_of_1000 = |has: &[MechanismKind], running: &[MechanismKind]| {
        let mut drive = Drive::new(mechanism_set(has));
        drive.switch(running);
        drive.overwrite_hot_pages(1000, &[]);
        drive.hashed_pages()
    };
    for running in [&[Dedup, Recycle][..], &[Dedup], &[Recycle]] {
        assert_eq!(hashed_of_1000(&[Dedup, Recycle], running), 1000, "{running:?}");
    }
    for has in [&[Dedup, Recycle][..], &[Dedup], &[Recycle]] {
        let sampled = hashed_of_1000(has, &[]);
        assert!((4..=40).contains(&sampled), "one in 64 of 1000, off all: {sampled} of {has:?}");
    }
    assert_eq!(hashed_of_1000(&[Delta, Compression], &[Delta, Compression]), 0);
}

/// A page that was written without computing a hash is not revived later, because the drive does not know its content.
/// A page with a hash can be revived.
#[test]
fn a_page_written_without_a_hash_is_not_recycled() {
    let contents = [Fingerprint(500), Fingerprint(501)].map(ContentDescriptor::of_fingerprint);
    let recycled_after = |running: &[MechanismKind]| {
        let mut drive = Drive::new(mechanism_set(&[Dedup, Recycle]));
        drive.switch(running);
        drive.write(3, contents[0]);
        drive.switch(&[Recycle]);
        drive.write(3, contents[1]);
        drive.write(4, contents[0]);
        drive.writes_served_by(Recycle)
    };
    assert_eq!(recycled_after(&[Recycle]), 1);
    assert_eq!(recycled_after(&[Dedup]), 1, "hashed for deduplication");
    assert_eq!(recycled_after(&[]), 0, "not hashed at all");
}

/// A GC copy of a page without a hash has no hash either, so recycling does not know its content. When the block of the
/// copy is erased and used again, its pages are known if they are hashed.
#[test]
fn gc_copies_of_unhashed_pages_stay_unknown_to_recycling() {
    let mut drive = Drive::new(mechanism_set(&[Recycle]));
    drive.switch(&[]);
    let known = |lpn: u64| ContentDescriptor::of_fingerprint(Fingerprint(500 + lpn));
    (0..LOGICAL_PAGES.into()).for_each(|lpn| drive.write(lpn, known(lpn)));
    // Every block is collected, and every cold page is copied.
    drive.overwrite_hot_pages(60_000, &[]);
    drive.switch(&[Recycle]);
    let before = drive.writes_served_by(Recycle);
    let mut sampled = 0;
    for lpn in HOT_PAGES..LOGICAL_PAGES.into() {
        drive.write_unique(lpn);
        let served = drive.writes_served_by(Recycle);
        drive.write(0, known(lpn));
        sampled += drive.writes_served_by(Recycle) - served;
    }
    assert!(sampled < 60, "one in 64 of 1440 was hashed: {sampled}");
    assert_eq!(drive.writes_served_by(Recycle) - before, sampled);
    for k in 0..100 {
        drive.write(1, known(5000));
        drive.write_unique(1);
        drive.write(2, known(5000));
        drive.write_unique(2);
        assert!(
            drive.writes_served_by(Recycle) > before + sampled + k,
            "blocks in use again know what they hold"
        );
    }
}

/// A content scheme that is off examines samples of the writes, to estimate the share of bytes that it would leave to
/// be written.
#[test]
fn a_scheme_that_is_off_serves_no_write_and_its_write_ratio_is_sampled() {
    for kind in MechanismKind::ALL {
        let mut drive = Drive::new(mechanism_set(&[kind]));
        drive.overwrite_hot_pages(64_000, &[kind]);
        assert!(drive.writes_served_by(kind) > 30_000, "{kind:?} serves what is made for it");
        let on = drive.still_written_share(kind);
        drive.switch(&[]);
        drive.overwrite_hot_pages(2_000, &[kind]);
        drive.device.ftl_mut().clear_stats();
        drive.overwrite_hot_pages(64_000, &[kind]);
        assert_eq!(drive.writes_served_by(kind), 0, "{kind:?} is off");
        let off = drive.still_written_share(kind);
        // Delta encoding and compression are estimated from a thousand pages of the same kind. A sample of contents
        // underestimates a scheme: copies are stored that it would avoid, and a content is forgotten with the newest
        // copy of it.
        assert!(off > on - 0.1, "{kind:?}: {off} sampled, {on} when all was measured");
        let most = if kind.needs_hash() {
            1.0 - EnergyModel::STATED_IN_PAPER.dedup_energy_in_program_energies()
        } else {
            on + 0.1
        };
        assert!(off < most, "{kind:?}: {off} sampled, {on} when all was measured");
    }
}

/// When compression or delta encoding is switched off, the pages and deltas that it buffers in RAM are written to
/// flash.
#[test]
fn buffered_pages_are_written_when_their_scheme_is_switched_off() {
    let mut drive = Drive::new(mechanism_set(&[Delta, Compression]));
    (0..3).for_each(|lpn| drive.write_unique(100 + lpn));
    assert_eq!(drive.device.ftl().logical_pages_awaiting_compression(), 3);
    drive.switch(&[Delta]);
    assert_eq!(drive.device.ftl().logical_pages_awaiting_compression(), 0);

    drive.overwrite_hot_pages(300, &[Delta]);
    let committed = drive.device.ftl().delta_statistics().expect("it encodes").committed_deltas;
    let staged = drive.writes_served_by(Delta) - committed;
    assert!(staged > 0, "some deltas wait for their page");
    let pages =
        |drive: &Drive| drive.device.ftl().delta_statistics().expect("it encodes").committed_delta_pages;
    let before = pages(&drive);
    drive.switch(&[]);
    assert_eq!(pages(&drive), before + 1);
}

/// Deduplication and recycling use the same hash, so they are switched together. Neither of them alone saves the 1.45 %
/// of energy that a hash costs, but both together do.
#[test]
fn schemes_that_share_the_hash_are_switched_together() {
    let decide = |savings: [u64; 2]| {
        let mut lifetime = LifetimeController::new(LifetimeOptions::without_target(
            mechanism_set(&[Dedup, Recycle]),
            1000,
            &EnergyModel::STATED_IN_PAPER,
        ));
        let seen = |saved: u64| SchemeByteCounts {
            offered_bytes: 1000,
            unsaved_bytes: 1000 - saved,
            ..SchemeByteCounts::default()
        };
        let counters = |schemes| LifetimeCounters {
            activity: WriteActivity::default(),
            remaining_endurance_bytes: 0,
            scheme_byte_counts: schemes,
        };
        lifetime.advance_to(0, &counters(vec![SchemeByteCounts::default(); 2]));
        lifetime.advance_to(1000, &counters(savings.map(seen).to_vec()));
        lifetime.running_schemes()
    };
    assert_eq!(decide([10, 0]), mechanism_set(&[]));
    assert_eq!(decide([0, 10]), mechanism_set(&[]));
    assert_eq!(decide([10, 10]), mechanism_set(&[Dedup, Recycle]));
    assert_eq!(decide([20, 0]), mechanism_set(&[Dedup]), "the other saves nothing");
    assert_eq!(decide([20, 1]), mechanism_set(&[Dedup, Recycle]), "the hash is there");
}

/// A compression costs the energy of 0.132 programs, so it must save more than this share of the programmed bytes. If
/// GC copies each page twice, a saved byte saves three programmed bytes, and a third of that share is enough.
#[test]
fn a_scheme_is_worth_its_energy_sooner_if_each_page_is_copied_by_gc() {
    let runs = |flash_bytes: u64, saved_bytes: u64| {
        let mut lifetime = LifetimeController::new(LifetimeOptions::without_target(
            mechanism_set(&[Compression]),
            1000,
            &EnergyModel::STATED_IN_PAPER,
        ));
        let counters = |epoch: u64| LifetimeCounters {
            activity: WriteActivity {
                host_bytes: 1000 * epoch,
                host_programmed_bytes: 1000 * epoch,
                flash_bytes: flash_bytes * epoch,
                throttled_ns: 0,
            },
            remaining_endurance_bytes: 0,
            scheme_byte_counts: vec![SchemeByteCounts {
                offered_bytes: 1000 * epoch,
                unsaved_bytes: (1000 - saved_bytes) * epoch,
                ..SchemeByteCounts::default()
            }],
        };
        lifetime.advance_to(0, &counters(0));
        lifetime.advance_to(1000, &counters(1));
        lifetime.running_schemes() == mechanism_set(&[Compression])
    };
    // Compressing a page needs the energy of 0.132 programs.
    assert_eq!([130, 134].map(|saved| runs(1000, saved)), [false, true], "no copies");
    assert_eq!([43, 45].map(|saved| runs(3000, saved)), [false, true], "two copies of each page");
    assert_eq!(
        [130, 134].map(|saved| runs(500, saved)),
        [false, true],
        "a page costs at least its own program"
    );
}

/// Algorithm 1 of the integrated-lifetime paper decides on each scheme independently, and so does this design, one of
/// the paper's configurations.
#[test]
fn the_design_integrated_switches_deduplication_and_compression_and_begins_with_both_off() {
    let options = LifetimeOptions::of_integrated_lifetime_paper(
        wearwell::lifetime::LifetimePaperConfiguration::Integrated,
        &EnergyModel::STATED_IN_PAPER,
    );
    let kinds: Vec<MechanismKind> = options.schemes.iter().map(|scheme| scheme.kind).collect();
    assert_eq!(kinds, [Dedup, Compression]);
    let mut lifetime = LifetimeController::new(options);
    let nothing = LifetimeCounters {
        activity: WriteActivity::default(),
        remaining_endurance_bytes: 1,
        scheme_byte_counts: vec![SchemeByteCounts::default(); 2],
    };
    assert_eq!(lifetime.advance_to(0, &nothing), Some(EpochDecision::default()));
    assert_eq!(lifetime.running_schemes(), MechanismSet::NONE);
}
