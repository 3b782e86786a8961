//! Tests of single faults in the files of an image: a read returns the data that was written, or an error. A fault in
//! metadata loses nothing, because there are two copies. A fault in data loses the logical pages that it hit.
//!
//! `WEARWELL_DAMAGE_FAULTS=200` draws so many faults of each kind in each file, for a campaign, and
//! `WEARWELL_DAMAGE_DESIGNS=page-map,delta` limits it to some designs.

use std::fmt::Write as _;

use image_support::{
    DESIGNS, HOST_DURABILITY, MemoryFiles, Op, Oracle, PROCESS_DURABILITY, RandomHostOperations, SECTOR,
    Violation, execute_deferred_writes, files_of, medium_of, medium_of_mut, perform, specification,
    with_settings,
};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use wearwell::address::{BlockId, Ppn};
use wearwell_serve::image::journal::JournalRecord;
use wearwell_serve::image::layout::{ImageHeader, Layout, METADATA_RECORD_BYTES, OobRecord, OobSlot};
use wearwell_serve::image::{
    AuditVerdict, Backing as _, CopyOnWrite, Image, ImageFile, ImageOpenOptions, MetadataRepairs,
    audit_backing, close, create_on, repair_backing,
};

use crate::image_support;

/// An image in memory after some work that was flushed: its files, an older state of these files, and the oracle that
/// knows the expected contents.
pub struct ImageAfterWork {
    /// Files of the image after the test's host operations.
    pub files: MemoryFiles,
    /// Files of the image as they were after two thirds of the test's host operations, for faults that restore old
    /// content.
    files_halfway: MemoryFiles,
    /// Oracle that knows the contents that each page may have.
    pub oracle: Oracle,
    /// Offsets of data and metadata in the files.
    pub layout: Layout,
}

/// End of the last session of the image.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SessionEnd {
    /// The session closed the image.
    Closed,
    /// The process was killed.
    Killed,
}

/// Makes an image of this design and works on it in one session, which ends as `end` states.
pub fn image_after_session(design: &str, options: ImageOpenOptions, end: SessionEnd) -> ImageAfterWork {
    let mut files = MemoryFiles::default();
    let image_header = specification(design, 1024).build_image_header(7).expect("the device fits");
    create_on(&mut files, &image_header).expect("memory takes everything");
    let mut image = Image::open_on(files, options).expect("a new image");
    let mut oracle = Oracle::new(200);
    let mut script = RandomHostOperations::new(17, 200);
    let mut files_halfway = MemoryFiles::default();
    for number in 0..1500 {
        let op = if number == 1499 { Op::Flush } else { script.draw() };
        oracle.record_sent_operation(op);
        perform(&mut image.device, op).expect("there is room");
        execute_deferred_writes(&mut image.device);
        oracle.acknowledge(op);
        if number == 1000 {
            files_halfway = medium_of(&image.device).backing().clone();
        }
    }
    let files = match end {
        SessionEnd::Killed => files_of(image),
        SessionEnd::Closed => close_and_take_files(image),
    };
    ImageAfterWork { files, files_halfway, oracle, layout: Layout::new(&image_header) }
}

/// Closes an image and returns its files.
fn close_and_take_files(image: Image) -> MemoryFiles {
    let shared = std::sync::Arc::new(std::sync::Mutex::new(MemoryFiles::default()));
    let mut device = image.device;
    device.flush().expect("memory takes everything");
    let kept = shared.clone();
    medium_of_mut(&mut device).backing_mut().files_at_last_sync = Some(kept);
    close(device).expect("memory takes everything");
    let files = shared.lock().expect("nobody failed").clone();
    assert_eq!(audit_backing(files.clone()).expect("an image").verdict, AuditVerdict::Clean);
    files
}

/// Numbers of injected faults, by their effects on the image.
#[derive(Default, Debug, Clone, Copy, PartialEq, Eq)]
struct FaultEffectCounts {
    /// Number of faults that were injected.
    faults: u32,
    /// Number of faults after which the image could not be opened.
    faults_with_refused_image: u32,
    /// Number of faults that lost at least one logical page.
    faults_with_lost_pages: u32,
    /// Number of logical pages that were lost by all faults together.
    lost_pages: u32,
}

/// Opens an image with an injected fault. Every read must return the right data or an error, and the audit must report
/// damage if a read finds some.
fn check_damaged_image(
    files: MemoryFiles,
    oracle: &Oracle,
    what: &str,
    effect_counts: &mut FaultEffectCounts,
) {
    effect_counts.faults += 1;
    let audited = audit_backing(files.clone());
    let mut image = match Image::open_on(files, PROCESS_DURABILITY) {
        Ok(image) => image,
        Err(error) => {
            assert!(error.to_string().len() > 20, "{what}: `{error}` is no sentence");
            assert!(
                audited.map_or(true, |report| report.verdict == AuditVerdict::Corrupt),
                "{what}: {error}"
            );
            effect_counts.faults_with_refused_image += 1;
            return;
        }
    };
    let violations = oracle.clone().judge(&mut image.device);
    let is_error = |violation: &Violation| matches!(violation, Violation::Unreadable(..));
    assert!(violations.iter().all(is_error), "{what}: {violations:?}");
    image.device.check().expect("the laws hold");
    let audited = audited.expect("an image");
    assert_eq!(audited.verdict == AuditVerdict::Corrupt, !audited.findings.is_empty(), "{what}");
    if !violations.is_empty() {
        assert_eq!(audited.verdict, AuditVerdict::Corrupt, "{what}");
        effect_counts.faults_with_lost_pages += 1;
        effect_counts.lost_pages += violations.len() as u32;
    }
    // What one copy lacked has both again. (Opening does not read spare areas and metadata pages; a repair does.)
    let (_, repaired) = repair_backing(files_of(image)).expect("an image");
    let again = audit_backing(repaired).expect("an image");
    assert_eq!(again.repairable_metadata_copies, 0, "{what}: a repair writes both copies");
}

/// Damages the files of an image while it is served, and continues to work on it. Every read must return the right data
/// or an error, during and after the work, and no write, trim or flush may fail. The files are then judged like those
/// of a closed image.
fn damage_and_check_served_image(
    image_after_work: &ImageAfterWork,
    options: ImageOpenOptions,
    what: &str,
    effect_counts: &mut FaultEffectCounts,
    inject: impl FnOnce(&mut MemoryFiles) -> bool,
) {
    let mut image = Image::open_on(image_after_work.files.clone(), options).expect("it is whole");
    if !inject(medium_of_mut(&mut image.device).backing_mut()) {
        return;
    }
    let mut oracle = image_after_work.oracle.clone();
    let mut script = RandomHostOperations::new(31, oracle.logical_page_count());
    assert_contents_of_served_image(&mut image, &oracle, what);
    for number in 0..OPERATIONS_AFTER_DAMAGE {
        let op = script.draw();
        oracle.record_sent_operation(op);
        perform(&mut image.device, op).unwrap_or_else(|error| panic!("{what}: {op:?} ({number}): {error}"));
        execute_deferred_writes(&mut image.device);
        oracle.acknowledge(op);
    }
    assert_contents_of_served_image(&mut image, &oracle, what);
    image.device.check().expect("the laws hold");
    check_damaged_image(files_of(image), &oracle, what, effect_counts);
}

/// Number of host operations after the damage. They overwrite some of the damaged pages, and garbage collection moves
/// others.
const OPERATIONS_AFTER_DAMAGE: u32 = 100;

/// Asserts that a read of any page of a served device returns its newest version or an error.
fn assert_contents_of_served_image(image: &mut Image, oracle: &Oracle, what: &str) {
    let mut oracle = oracle.clone();
    // A device that runs has no older versions, flushed or not.
    oracle.acknowledge(Op::Flush);
    let violations = oracle.judge(&mut image.device);
    let is_error = |violation: &Violation| matches!(violation, Violation::Unreadable(..));
    assert!(violations.iter().all(is_error), "{what}, served: {violations:?}");
}

/// Kind of fault that is injected into a file of an image.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fault {
    /// One byte has another value.
    FlippedByte,
    /// One sector holds zeros.
    ZeroedSector,
    /// A sector has its content of an earlier moment, because a write of it was lost.
    StaleSector,
    /// The content of one sector was written over another sector.
    MisdirectedWrite,
    /// Two sectors have each other's content.
    SwappedSectors,
    /// The first half of a sector has its content of an earlier moment.
    TornSector,
    /// The end of the file is missing.
    CutShort,
    /// The file is missing.
    Gone,
    /// The whole file has its content of an earlier moment.
    OlderFile,
}

impl Fault {
    /// All kinds of faults.
    const ALL: [Self; 9] = [
        Self::FlippedByte,
        Self::ZeroedSector,
        Self::StaleSector,
        Self::MisdirectedWrite,
        Self::SwappedSectors,
        Self::TornSector,
        Self::CutShort,
        Self::Gone,
        Self::OlderFile,
    ];

    /// Injects the fault into `range` of a file. Returns `false` if no byte changed.
    fn inject(
        self,
        files: &mut MemoryFiles,
        older: &MemoryFiles,
        file: ImageFile,
        range: std::ops::Range<usize>,
        random: &mut Xoshiro256PlusPlus,
    ) -> bool {
        let before = files.bytes(file).to_vec();
        let older = older.bytes(file);
        let bytes = files.bytes_mut(file);
        let sector = |random: &mut Xoshiro256PlusPlus, changed: bool| {
            let size = SECTOR as usize;
            let all: Vec<_> =
                (range.start / size..range.end / size).map(|k| k * size..(k + 1) * size).collect();
            let is_interesting = |range: &std::ops::Range<usize>| {
                !changed || (older.len() >= range.end && older[range.clone()] != before[range.clone()])
            };
            let all: Vec<_> = all.into_iter().filter(is_interesting).collect();
            (!all.is_empty()).then(|| all[random.random_range(0..all.len())].clone())
        };
        match self {
            Self::FlippedByte => bytes[random.random_range(range.clone())] ^= 1 << random.random_range(0..8),
            Self::ZeroedSector => {
                let Some(at) = sector(random, false) else { return false };
                bytes[at].fill(0);
            }
            Self::StaleSector => {
                let Some(at) = sector(random, true) else { return false };
                bytes[at.clone()].copy_from_slice(&older[at]);
            }
            Self::MisdirectedWrite | Self::SwappedSectors => {
                let (Some(from), Some(to)) = (sector(random, false), sector(random, false)) else {
                    return false;
                };
                bytes[to.clone()].copy_from_slice(&before[from.clone()]);
                if self == Self::SwappedSectors {
                    bytes[from].copy_from_slice(&before[to]);
                }
            }
            Self::TornSector => {
                let Some(at) = sector(random, true) else { return false };
                let half = at.start..at.start + SECTOR as usize / 2;
                bytes[half.clone()].copy_from_slice(&older[half]);
            }
            Self::CutShort => bytes.truncate(random.random_range(range.clone())),
            Self::Gone => bytes.clear(),
            Self::OlderFile => *bytes = older.to_vec(),
        }
        *files.bytes(file) != *before
    }
}

/// A region for faults: a file of an image, or a part of it.
struct Region {
    /// Name of the region in messages.
    name: &'static str,
    /// File that contains the region.
    file: ImageFile,
    /// Bytes of the region in the file.
    range: std::ops::Range<usize>,
    /// Whether a second copy of the content is stored.
    has_copy: bool,
}

/// Returns the regions of an image into which faults are injected.
fn regions_to_damage(image_after_work: &ImageAfterWork) -> Vec<Region> {
    let len = |file| image_after_work.files.len(file).expect("memory answers") as usize;
    let whole = |name, file, has_copy| Region { name, file, range: 0..len(file), has_copy };
    let layout = &image_after_work.layout;
    let [oob, spare, data] =
        [layout.oob_record_offset(Ppn(0)), layout.spare_area_offset(Ppn(0)), layout.data_offset(Ppn(0))]
            .map(|at| at as usize);
    let part = |name, range, has_copy| Region { name, file: ImageFile::Flash, range, has_copy };
    vec![
        whole("superblock", ImageFile::ImageHeader, true),
        whole("session", ImageFile::Session, true),
        whole("nvram", ImageFile::Nvram, true),
        whole("journal", ImageFile::Journal, true),
        whole("mirror", ImageFile::Mirror, true),
        part("OOB", oob..spare, true),
        part("spare areas", spare..data, true),
        part("data", data..len(ImageFile::Flash), false),
    ]
}

/// Returns how many faults of each kind are injected into each region of an image: the value of
/// `WEARWELL_DAMAGE_FAULTS`, or 2.
fn faults_per_kind() -> u32 {
    std::env::var("WEARWELL_DAMAGE_FAULTS").ok().and_then(|count| count.parse().ok()).unwrap_or(2)
}

/// Returns the designs whose images are damaged: those that `WEARWELL_DAMAGE_DESIGNS` lists with commas, or all.
fn designs_of_damaged_images() -> Vec<&'static str> {
    let listed = std::env::var("WEARWELL_DAMAGE_DESIGNS").ok();
    let is_listed =
        |design: &&str| listed.as_ref().is_none_or(|names| names.split(',').any(|name| name == *design));
    let designs: Vec<_> = DESIGNS.into_iter().filter(is_listed).collect();
    assert!(!designs.is_empty(), "WEARWELL_DAMAGE_DESIGNS lists none of {DESIGNS:?}");
    designs
}

/// Time at which a fault is injected into an image: between sessions or during one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum FaultTime {
    /// The fault is injected between two sessions of the image.
    BetweenSessions,
    /// The fault is injected while the image is served.
    DuringSession,
}

/// The fault is injected between two sessions.
#[test]
fn a_single_fault_in_an_image_is_repaired_or_loses_only_the_pages_that_it_hit() {
    inject_faults_of_all_kinds(
        FaultTime::BetweenSessions,
        &[
            (PROCESS_DURABILITY, SessionEnd::Killed),
            (HOST_DURABILITY, SessionEnd::Killed),
            (PROCESS_DURABILITY, SessionEnd::Closed),
        ],
    );
}

/// Regression: a view of an image, with which `serve --read-only`, `serve --rescue` and `copy` read it, could not be
/// opened although only one copy of some metadata was in a sector that the disk could not read.
#[test]
fn a_sector_that_the_disk_cannot_read_costs_a_view_of_an_image_no_more_than_its_own_data() {
    for design in DESIGNS {
        for end in [SessionEnd::Closed, SessionEnd::Killed] {
            let ImageAfterWork { files, oracle, layout, .. } =
                image_after_session(design, PROCESS_DURABILITY, end);
            let first_data_byte = layout.data_offset(Ppn(0));
            for file in ImageFile::ALL {
                let sectors = files.len(file).expect("memory answers").div_ceil(SECTOR);
                // The first and the last sector, and some between them.
                for sector in (0..sectors).step_by((sectors / 8).max(1) as usize).chain([sectors - 1]) {
                    let what = format!("{design} {end:?}: sector {sector} of {}", file.name());
                    let at = sector * SECTOR;
                    let mut damaged = files.clone();
                    damaged.unreadable_place = Some((file, at..at + SECTOR));
                    let mut image = Image::open_on(CopyOnWrite::new(damaged), PROCESS_DURABILITY)
                        .unwrap_or_else(|error| panic!("{what}: {error}"));
                    let violations = oracle.clone().judge(&mut image.device);
                    let is_error = |violation: &Violation| matches!(violation, Violation::Unreadable(..));
                    assert!(violations.iter().all(is_error), "{what}: {violations:?}");
                    let has_second_copy = file != ImageFile::Flash || at < first_data_byte;
                    assert!(!has_second_copy || violations.is_empty(), "{what}: {violations:?}");
                }
            }
        }
    }
}

/// The fault is injected during a session.
#[test]
fn a_single_fault_under_a_running_server_is_repaired_or_loses_only_the_pages_that_it_hit() {
    inject_faults_of_all_kinds(
        FaultTime::DuringSession,
        &[(PROCESS_DURABILITY, SessionEnd::Killed), (HOST_DURABILITY, SessionEnd::Killed)],
    );
}

/// Injects faults of every kind into every region of the files, at the time `fault_time`, for each design and each way
/// in which the last session ended. The faults of a design do not depend on which other designs are tested.
fn inject_faults_of_all_kinds(fault_time: FaultTime, sessions: &[(ImageOpenOptions, SessionEnd)]) {
    for design in designs_of_damaged_images() {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(3);
        let mut lines = String::new();
        let mut all = FaultEffectCounts::default();
        for &(options, end) in sessions {
            let image_after_work = image_after_session(design, options, end);
            for (region, fault) in regions_to_damage(&image_after_work)
                .iter()
                .flat_map(|region| Fault::ALL.map(|fault| (region, fault)))
            {
                let is_whole_file = matches!(fault, Fault::Gone | Fault::OlderFile);
                if is_whole_file && ["spare areas", "OOB"].contains(&region.name) {
                    // One file; counted under its data.
                    continue;
                }
                let mut effect_counts = FaultEffectCounts::default();
                for draw in 0..if is_whole_file { 1 } else { faults_per_kind() } {
                    let what = format!("{design} {options:?} {end:?}: {fault:?} in {} ({draw})", region.name);
                    let mut inject = |files: &mut MemoryFiles| {
                        fault.inject(
                            files,
                            &image_after_work.files_halfway,
                            region.file,
                            region.range.clone(),
                            &mut random,
                        )
                    };
                    if fault_time == FaultTime::DuringSession {
                        damage_and_check_served_image(
                            &image_after_work,
                            options,
                            &what,
                            &mut effect_counts,
                            inject,
                        );
                        continue;
                    }
                    let mut files = image_after_work.files.clone();
                    if inject(&mut files) {
                        check_damaged_image(files, &image_after_work.oracle, &what, &mut effect_counts);
                    }
                }
                let what = format!("{design} {options:?} {end:?} {fault:?} {}", region.name);
                let cuts_data =
                    region.file == ImageFile::Flash && matches!(fault, Fault::CutShort | Fault::Gone);
                assert_eq!(effect_counts.faults_with_refused_image, 0, "{what}: {effect_counts:?}");
                if region.has_copy && !cuts_data {
                    assert_eq!(
                        effect_counts.faults_with_lost_pages, 0,
                        "{what}: there is a copy: {effect_counts:?}"
                    );
                }
                all = FaultEffectCounts {
                    faults: all.faults + effect_counts.faults,
                    faults_with_refused_image: all.faults_with_refused_image
                        + effect_counts.faults_with_refused_image,
                    faults_with_lost_pages: all.faults_with_lost_pages + effect_counts.faults_with_lost_pages,
                    lost_pages: all.lost_pages + effect_counts.lost_pages,
                };
                let _ = writeln!(lines, "{what}: {effect_counts:?}");
            }
        }
        println!("{design}: {all:?}");
        if std::env::var_os("WEARWELL_DAMAGE_FAULTS").is_some() {
            println!("{lines}");
        }
        assert!(all.faults_with_lost_pages > 10, "{design}: damaged data is found: {all:?}");
    }
}

#[test]
fn a_change_of_any_byte_in_a_small_image_record_is_detected() {
    for end in [SessionEnd::Killed, SessionEnd::Closed] {
        let image_after_work = image_after_session("page-map", PROCESS_DURABILITY, end);
        let mut effect_counts = FaultEffectCounts::default();
        let first = image_after_work.layout.oob_record_offset(Ppn(0)) as usize;
        for (file, range) in [
            (ImageFile::Flash, first..first + 64),
            (ImageFile::ImageHeader, 0..105),
            (ImageFile::Session, 0..64),
            (ImageFile::Nvram, 0..512),
            (ImageFile::Journal, 0..128),
        ] {
            for at in range {
                let mut files = image_after_work.files.clone();
                files.bytes_mut(file)[at] ^= 0x10;
                check_damaged_image(
                    files,
                    &image_after_work.oracle,
                    &format!("{file:?} byte {at} {end:?}"),
                    &mut effect_counts,
                );
            }
        }
        assert_eq!(
            (effect_counts.faults_with_lost_pages, effect_counts.faults_with_refused_image),
            (0, 0),
            "there is a copy of each of these bytes"
        );
    }
}

/// Returns the offsets in the file `flash` of bytes that the mirror also stores: the first byte of each metadata page,
/// and of each spare area in use. Only pages programmed since the last erase of their block count.
fn flash_offsets_stored_twice(image_after_work: &ImageAfterWork) -> Vec<u64> {
    let layout = &image_after_work.layout;
    let flash = &image_after_work.files.bytes(ImageFile::Flash);
    let record = |ppn: Ppn| {
        let at = layout.oob_record_offset(ppn) as usize;
        let bytes = flash.get(at..at + METADATA_RECORD_BYTES)?.try_into().expect("as long as a record");
        match layout.decode_oob_slot(ppn, bytes) {
            OobSlot::Record(record) => Some(record),
            OobSlot::Blank | OobSlot::Damaged => None,
        }
    };
    let mut offsets = Vec::new();
    for block in 0..layout.geometry.blocks() {
        let first = layout.geometry.first_page(BlockId(block)).0;
        let pages = first..first + layout.geometry.block_pages();
        let records: Vec<(Ppn, OobRecord)> =
            pages.map(Ppn).filter_map(|ppn| Some((ppn, record(ppn)?))).collect();
        let erases = records.iter().map(|(_, record)| record.block_erase_count).max();
        for (ppn, record) in
            records.into_iter().filter(|(_, record)| Some(record.block_erase_count) == erases)
        {
            let Some(oob) = record.oob else { continue };
            offsets.extend((!oob.kind.is_host_data()).then(|| layout.data_offset(ppn)));
            offsets.extend((record.spare_bytes > 0).then(|| layout.spare_area_offset(ppn)));
        }
    }
    offsets
}

/// Regression: an audit did not count damage of one copy of a spare area or metadata page, and a repair did not rewrite
/// a damaged copy in the mirror. If the other copy was damaged later, the data was lost.
#[test]
fn an_audit_counts_one_damaged_copy_of_spare_areas_and_metadata_pages_and_a_repair_rewrites_it() {
    for design in ["dftl", "geckoftl", "wearwell"] {
        let image_after_work = image_after_session(design, PROCESS_DURABILITY, SessionEnd::Closed);
        let offsets = flash_offsets_stored_twice(&image_after_work);
        let (mut damaged_copies, mut found_copies) = (0, 0);
        let step = offsets.len().div_ceil(40);
        for at in offsets.into_iter().step_by(step) {
            let copies = [
                (ImageFile::Flash, at),
                (ImageFile::Mirror, image_after_work.layout.mirror_offset(ImageFile::Flash, at)),
            ];
            for (file, at) in copies {
                let mut files = image_after_work.files.clone();
                files.bytes_mut(file)[at as usize] ^= 0x40;
                let audited = audit_backing(files.clone()).expect("an image");
                let seen = (audited.verdict, audited.repairable_metadata_copies);
                damaged_copies += 1;
                // The block was erased since, so that its old pages are not read.
                if seen == (AuditVerdict::Clean, 0) {
                    continue;
                }
                found_copies += 1;
                assert_eq!(seen, (AuditVerdict::Unclean, 1), "{design}: byte {at} of {file:?}");
                let (report, repaired) = repair_backing(files).expect("there is another copy");
                assert_eq!(report.metadata_repairs.rewritten_copies, 1, "{design}: byte {at} of {file:?}");
                assert_eq!(
                    repaired.bytes(file)[at as usize],
                    image_after_work.files.bytes(file)[at as usize]
                );
                assert_eq!(audit_backing(repaired).expect("an image").verdict, AuditVerdict::Clean);
            }
        }
        assert!(found_copies >= 8, "{design}: {found_copies} of {damaged_copies}");
    }
}

/// Damages the end or the middle of both copies of the journal, both copies of a sector of state words, and both copies
/// of the image header.
#[test]
fn an_image_with_both_copies_of_metadata_damaged_is_refused_with_a_sentence() {
    let image_after_work = image_after_session("remap", PROCESS_DURABILITY, SessionEnd::Closed);
    let both = |file: ImageFile, at: u64, files: &mut MemoryFiles| {
        files.bytes_mut(file)[at as usize] ^= 1;
        let copy = image_after_work.layout.mirror_offset(file, at);
        files.bytes_mut(ImageFile::Mirror)[copy as usize] ^= 1;
    };
    let refusal = |files: MemoryFiles| match Image::open_on(files.clone(), PROCESS_DURABILITY) {
        Ok(_) => String::new(),
        Err(error) => {
            assert_eq!(
                audit_backing(files).map(|report| report.verdict).ok(),
                Some(AuditVerdict::Corrupt),
                "{error}"
            );
            error.to_string()
        }
    };
    let ends = journal_record_boundaries(&image_after_work);
    let last = *ends.last().expect("there are records");
    let before = ends[ends.len() - 2];
    let mut files = image_after_work.files.clone();
    both(ImageFile::Journal, before + 70, &mut files);
    let sentence = refusal(files);
    assert!(sentence.contains("after which the image was closed"), "{sentence}");
    let mut files = image_after_work.files.clone();
    both(ImageFile::Journal, ends[ends.len() - 3] + 70, &mut files);
    assert!(last > before);
    let sentence = refusal(files);
    assert!(sentence.contains("because later records exist, but it is missing in both"), "{sentence}");
    let mut files = image_after_work.files.clone();
    both(ImageFile::Nvram, 100, &mut files);
    let sentence = refusal(files);
    assert!(
        sentence
            .contains("one of the two copies of sector 0 of the NVRAM must be intact, but both are damaged"),
        "{sentence}"
    );
    let mut files = image_after_work.files.clone();
    both(ImageFile::ImageHeader, 30, &mut files);
    assert!(
        refusal_of_superblock(files)
            .contains("one of the two copies of the superblock must be intact, but both are damaged")
    );
}

/// Bug: if the first record of the second journal area was damaged in both copies while the journal was in generation
/// 1, the area counted as unused. If it held only trims, the image was opened, and pages had their old contents again.
#[test]
fn an_image_without_the_first_record_of_the_second_journal_area_is_refused() {
    let mut files = MemoryFiles::default();
    let image_header = specification("remap", 1024).build_image_header(7).expect("the device fits");
    create_on(&mut files, &image_header).expect("memory takes everything");
    let layout = Layout::new(&image_header);
    let area_bytes = layout.journal_area_bytes();
    let mut image = Image::open_on(files, PROCESS_DURABILITY).expect("a new image");
    let mut script = RandomHostOperations::new(17, 200);
    let used_bytes_of_area = |image: &Image, number: u64| {
        let files = medium_of(&image.device).backing();
        let ends = journal_area_boundaries(&layout, files.bytes(ImageFile::Journal), number).1;
        ends[ends.len() - 1] - ends[0]
    };
    while used_bytes_of_area(&image, 0) < area_bytes * 9 / 10 {
        perform(&mut image.device, script.draw()).expect("there is room");
        execute_deferred_writes(&mut image.device);
    }
    for page in 0..200 {
        perform(&mut image.device, Op::Trim(page, 1)).expect("the page exists");
        execute_deferred_writes(&mut image.device);
    }
    let mut files = files_of(image);
    let (_, ends) = journal_area_boundaries(&layout, files.bytes(ImageFile::Journal), 1);
    assert!(ends.len() > 3, "the area has several records");
    let at = ends[0] + 24;
    files.bytes_mut(ImageFile::Journal)[at as usize] ^= 1;
    files.bytes_mut(ImageFile::Mirror)[layout.mirror_offset(ImageFile::Journal, at) as usize] ^= 1;
    let refused = Image::open_on(files, PROCESS_DURABILITY).map(drop);
    let sentence = refused.expect_err("records are missing").to_string();
    assert!(sentence.contains("because later records exist, but it is missing in both"), "{sentence}");
}

/// Regression: the header of an image, a file of a few KiB that anybody can write, made an audit take gigabytes of
/// memory: it described a device of hundreds of gigabytes, of which the other files held nothing.
#[test]
fn an_image_header_that_describes_a_larger_device_than_its_files_hold_is_refused() {
    let ImageAfterWork { files, .. } =
        image_after_session("page-map", PROCESS_DURABILITY, SessionEnd::Closed);
    let own = ImageHeader::decode(files.bytes(ImageFile::ImageHeader)).expect("it is whole");
    let larger = with_settings("page-map", own.geometry.page_bytes, &["device.blocks_per_plane=100000"]);
    let bytes = larger.build_image_header(own.checksum_salt).expect("the device fits").encode();
    let mut crafted = files;
    crafted.bytes_mut(ImageFile::ImageHeader).clone_from(&bytes);
    crafted.bytes_mut(ImageFile::Mirror)[..bytes.len()].copy_from_slice(&bytes);
    let audited = audit_backing(crafted.clone()).expect("it has a header");
    assert_eq!(audited.verdict, AuditVerdict::Corrupt);
    assert!(audited.findings[0].contains("bytes of state words"), "{:?}", audited.findings);
    let refused = Image::open_on(crafted, PROCESS_DURABILITY).map(drop);
    assert!(refused.expect_err("state words are missing").to_string().contains("bytes of state words"));
}

/// Regression: a repair counted a damaged copy as repaired although the disk had refused to write it, and later named
/// it nowhere.
#[test]
fn a_repair_names_the_copies_that_the_disk_refuses_to_write() {
    let ImageAfterWork { mut files, layout, .. } =
        image_after_session("page-map", PROCESS_DURABILITY, SessionEnd::Closed);
    let at = layout.oob_record_offset(Ppn(0));
    files.bytes_mut(ImageFile::Flash)[at as usize + 10] ^= 1;
    for (refused_place, repaired) in [(None, 1), (Some((ImageFile::Flash, at..at + SECTOR)), 0)] {
        let (report, _) = repair_backing(MemoryFiles { refused_place, ..files.clone() }).expect("an image");
        let MetadataRepairs { rewritten_copies, refused_copies } = report.metadata_repairs;
        assert_eq!((rewritten_copies, refused_copies), (repaired, 1 - repaired));
        assert_eq!(report.leaves_damage(), refused_copies == 1);
        assert_eq!(report.sentences().count() as u64, refused_copies);
    }
}

/// Regression: a crash of the server machine left the mirror without the last records of the journal, and the disk
/// could not read a sector with one of them. The search for later records gave up at this sector, so that the image was
/// opened without any of these records: trims that had been flushed were undone.
#[test]
fn an_image_with_an_unreadable_journal_record_before_later_ones_is_refused() {
    let image_after_work = image_after_session("recyclable", PROCESS_DURABILITY, SessionEnd::Killed);
    let (mut files, layout) = (image_after_work.files.clone(), &image_after_work.layout);
    let boundaries = journal_record_boundaries(&image_after_work);
    let unreadable = boundaries[boundaries.len() / 2] / SECTOR * SECTOR;
    let later = boundaries.iter().filter(|&&at| at >= unreadable + SECTOR).count();
    assert!(later > 2, "records follow the sector: {boundaries:?}");
    let end = layout.journal_file_bytes();
    let of_mirror = [unreadable, end].map(|at| layout.mirror_offset(ImageFile::Journal, at) as usize);
    files.bytes_mut(ImageFile::Mirror)[of_mirror[0]..of_mirror[1]].fill(0);
    files.unreadable_place = Some((ImageFile::Journal, unreadable..unreadable + SECTOR));
    let refused = Image::open_on(CopyOnWrite::new(files), PROCESS_DURABILITY).map(drop);
    let sentence = refused.expect_err("records are missing").to_string();
    assert!(sentence.contains("because later records exist, but it is missing in both"), "{sentence}");
}

/// Opens an image whose header is damaged or missing, and returns the message of the refusal.
fn refusal_of_superblock(files: MemoryFiles) -> String {
    Image::open_on(files, PROCESS_DURABILITY).map(drop).expect_err("there is no superblock").to_string()
}

/// Returns the byte offsets at which the journal records of the newest generation begin, followed by the end offset of
/// the last record.
fn journal_record_boundaries(image_after_work: &ImageAfterWork) -> Vec<u64> {
    let (layout, journal) = (&image_after_work.layout, image_after_work.files.bytes(ImageFile::Journal));
    let area = |number: u64| journal_area_boundaries(layout, journal, number);
    area(0).max(area(1)).1
}

/// Returns the number of the last journal record in area number `number`, the byte offsets at which its records begin,
/// and the end offset of the last record.
fn journal_area_boundaries(layout: &Layout, journal: &[u8], number: u64) -> (u64, Vec<u64>) {
    let mut at = number * layout.journal_area_bytes();
    let mut ends = vec![at];
    let mut found: Vec<JournalRecord> = Vec::new();
    while let Some(record) = JournalRecord::decode(layout, at, &journal[at as usize..]) {
        if found.last().is_some_and(|last| last.journal_generation != record.journal_generation) {
            break;
        }
        at += record.encode(layout, at).len() as u64;
        ends.push(at);
        found.push(record);
    }
    (found.last().map_or(0, |record| record.record_number), ends)
}

/// Regression: with forged words of NVRAM under valid checksums, recovery panicked ("the bind of page 42 to 109 was
/// never recorded"). Contradictory metadata is refused like damage.
#[test]
fn an_image_with_forged_nvram_words_is_refused_without_a_panic() {
    let mut contradictions = 0;
    for design in DESIGNS {
        let image_after_work = image_after_session(design, PROCESS_DURABILITY, SessionEnd::Killed);
        let at = *journal_record_boundaries(&image_after_work).last().expect("there are records");
        for index in (0..image_after_work.layout.nvram_words).step_by(5) {
            let mut files = image_after_work.files.clone();
            let forged = next_journal_record(&image_after_work, index, at);
            for (file, at) in [
                (ImageFile::Journal, at),
                (ImageFile::Mirror, image_after_work.layout.mirror_offset(ImageFile::Journal, at)),
            ] {
                files.bytes_mut(file)[at as usize..at as usize + forged.len()].copy_from_slice(&forged);
            }
            let audited = audit_backing(files.clone()).expect("it can be looked at");
            if let Err(error) = Image::open_on(files, PROCESS_DURABILITY) {
                assert_eq!(audited.verdict, AuditVerdict::Corrupt, "{design} word {index}: {error}");
                // The engine has found the damage, or the image has.
                let remedies = ["restore the device from a copy", "restore it from a copy"];
                let sentence = error.to_string();
                assert!(
                    remedies.iter().any(|remedy| sentence.contains(remedy)),
                    "{design} word {index}: {sentence}"
                );
                contradictions += u32::from(error.to_string().contains("contradict"));
            }
        }
    }
    assert!(contradictions > 0, "an invariant of recovery has to be broken");
}

/// Encodes a journal record that follows the last record of the image `image_after_work` and changes NVRAM word number
/// `index`. The record is encoded for byte offset `at` of the journal.
fn next_journal_record(image_after_work: &ImageAfterWork, index: u64, at: u64) -> Vec<u8> {
    let (layout, journal) = (&image_after_work.layout, image_after_work.files.bytes(ImageFile::Journal));
    let ends = journal_record_boundaries(image_after_work);
    let begin = ends[ends.len() - 2];
    let last = JournalRecord::decode(layout, begin, &journal[begin as usize..]).expect("the last record");
    let record = JournalRecord {
        record_number: last.record_number + 1,
        word_changes: vec![(index, 3 << (index % 40))],
        ..last
    };
    record.encode(layout, at)
}

#[test]
fn files_of_another_image_are_detected_as_damage() {
    let image_after_work = image_after_session("page-map", PROCESS_DURABILITY, SessionEnd::Killed);
    let mut other = MemoryFiles::default();
    create_on(&mut other, &specification("page-map", 1024).build_image_header(8).expect("it fits"))
        .expect("memory");
    let mut effect_counts = FaultEffectCounts::default();
    for file in ImageFile::ALL.into_iter().filter(|&file| file != ImageFile::Flash) {
        let mut mixed = image_after_work.files.clone();
        *mixed.bytes_mut(file) = other.bytes(file).to_vec();
        check_damaged_image(
            mixed,
            &image_after_work.oracle,
            &format!("{file:?} of another image"),
            &mut effect_counts,
        );
    }
    assert_eq!(
        effect_counts,
        FaultEffectCounts { faults: 5, ..FaultEffectCounts::default() },
        "there is a copy of each"
    );
    let mut mixed = image_after_work.files.clone();
    *mixed.bytes_mut(ImageFile::Flash) = other.bytes(ImageFile::Flash).to_vec();
    check_damaged_image(mixed, &image_after_work.oracle, "flash of another image", &mut effect_counts);
    assert_eq!(
        (effect_counts.faults_with_refused_image, effect_counts.faults_with_lost_pages),
        (0, 1),
        "its data is no data of this one"
    );
    let mut mixed = image_after_work.files;
    for file in [ImageFile::ImageHeader, ImageFile::Mirror] {
        *mixed.bytes_mut(file) = other.bytes(file).to_vec();
    }
    let refused = refusal_of_superblock(mixed);
    assert!(
        refused.contains("no record in the files `session`, `nvram` and `flash` belongs to them"),
        "{refused}"
    );
}

/// Regression: with one damaged record in `superblock` or `session` and the `mirror` of another image, the image was
/// opened as that other image, and all of its own data read as zeros.
#[test]
fn a_mirror_of_another_image_replaces_no_damaged_superblock_or_session() {
    for design in ["page-map", "wearwell", "geckoftl"] {
        let image_after_work = image_after_session(design, PROCESS_DURABILITY, SessionEnd::Closed);
        let mut other = MemoryFiles::default();
        create_on(&mut other, &specification(design, 1024).build_image_header(8).expect("it fits"))
            .expect("memory");
        let open_with_damaged = |file: ImageFile| {
            let mut mixed = image_after_work.files.clone();
            *mixed.bytes_mut(ImageFile::Mirror) = other.bytes(ImageFile::Mirror).to_vec();
            mixed.bytes_mut(file)[17] ^= 1;
            Image::open_on(mixed, PROCESS_DURABILITY)
        };
        let mut image = open_with_damaged(ImageFile::Session).expect("the other files are of this image");
        assert_eq!(image_after_work.oracle.clone().judge(&mut image.device), [], "{design}");
        let refused =
            open_with_damaged(ImageFile::ImageHeader).expect_err("no superblock of this image is whole");
        assert!(refused.to_string().contains("is of another image"), "{design}: {refused}");
    }
}

/// Regression, found by fuzzing: an image header with a valid checksum that names a terabyte of NVRAM kept the server
/// busy for minutes, and took gigabytes of RAM.
#[test]
fn a_superblock_that_names_far_too_much_nvram_is_refused_at_once() {
    let image_after_work = image_after_session("page-map", PROCESS_DURABILITY, SessionEnd::Closed);
    let mut files = image_after_work.files.clone();
    let whole = ImageHeader::decode(files.bytes(ImageFile::ImageHeader)).expect("the image is whole");
    let forged = ImageHeader { nvram_words: 1 << 37, ..whole }.encode();
    for file in [ImageFile::ImageHeader, ImageFile::Mirror] {
        files.bytes_mut(file)[..forged.len()].copy_from_slice(&forged);
    }
    let sentence = refusal_of_superblock(files.clone());
    assert!(sentence.contains("137438953472 words of NVRAM"), "{sentence}");
    let rescue =
        Image::open_for_rescue_on(files).map(drop).expect_err("nothing tells what the state is").to_string();
    assert!(rescue.contains("137438953472 words of NVRAM"), "{rescue}");
}

#[test]
fn a_flipped_byte_never_makes_a_superblock_look_like_version_1() {
    let image_after_work = image_after_session("page-map", PROCESS_DURABILITY, SessionEnd::Killed);
    let mut files = image_after_work.files.clone();
    files.bytes_mut(ImageFile::ImageHeader)[8] = 1;
    let mut effect_counts = FaultEffectCounts::default();
    check_damaged_image(files, &image_after_work.oracle, "version 1", &mut effect_counts);
    assert_eq!((effect_counts.faults_with_refused_image, effect_counts.faults_with_lost_pages), (0, 0));
    assert!(ImageHeader::decode(image_after_work.files.bytes(ImageFile::Mirror)).is_ok());
}
