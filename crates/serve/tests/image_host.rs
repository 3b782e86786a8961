//! Tests of images after a crash of the server machine. Each sector that was written since the last sync may be on the
//! disk in any of its states, independently of all other sectors. With durability `host`, every page must still have
//! its last flushed version or a later one. This is tested for each design.

use image_support::{
    DESIGNS, HOST_DURABILITY, MemoryFiles, Op, Oracle, PROCESS_DURABILITY, RandomHostOperations, SECTOR,
    execute_deferred_writes, files_of, medium_of, perform, specification, with_settings,
};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use wearwell_serve::image::journal::JournalRecord;
use wearwell_serve::image::layout::Layout;
use wearwell_serve::image::{
    AuditVerdict, Backing as _, Image, ImageFile, ImageSpecification, audit_backing, create_on,
};

use crate::image_support;

/// Repeats for `cycles` cycles: host operations on an image, a simulated crash of the server machine, and a comparison
/// of all pages with the oracle. Returns the numbers of pages compared, torn pages found, and erases.
fn run_crash_cycles(
    specification: &ImageSpecification,
    seed: u64,
    cycles: u64,
    flushes: bool,
) -> (u64, u64, u64) {
    let design = &specification.design;
    let mut files = MemoryFiles::default();
    let image_header = specification.build_image_header(7).expect("the device fits");
    create_on(&mut files, &image_header).expect("memory takes everything");
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut oracle = Oracle::new(200);
    let mut script = RandomHostOperations::new(seed, 200);
    let (mut torn_pages, mut erases) = (0, 0);
    for cycle in 0..cycles {
        let mut image = Image::open_on(files, HOST_DURABILITY).expect("the image is whole");
        torn_pages += image.report.torn_pages;
        assert_eq!(oracle.judge(&mut image.device), [], "{design} seed {seed} cycle {cycle}");
        image.device.check().expect("the laws hold");
        for _ in 0..random.random_range(1..200) {
            let op = script.draw();
            if op == Op::Flush && !flushes && random.random_range(0..10) > 0 {
                continue;
            }
            oracle.record_sent_operation(op);
            perform(&mut image.device, op).expect("there is room");
            // Requests that arrive together are settled together.
            if random.random_range(0..2) == 0 {
                execute_deferred_writes(&mut image.device);
            }
            oracle.acknowledge(op);
        }
        erases += image.device.stats().total_erases();
        files = files_of(image);
        files.crash_server_machine(&mut random);
        if cycle % 8 == 0 {
            let report = audit_backing(files.clone()).expect("an image");
            assert_eq!(
                (report.verdict, report.findings),
                (AuditVerdict::Unclean, vec![]),
                "{design} seed {seed}"
            );
        }
        if random.random_range(0..4) == 0 {
            // The host ends again while the image is being opened: recovery may be cut like anything else.
            files = crash_server_machine_while_opening(files, &mut random);
        }
    }
    (cycles * oracle.logical_page_count(), torn_pages, erases)
}

/// Opens an image, and simulates a crash of the server machine before the image is closed.
fn crash_server_machine_while_opening(files: MemoryFiles, random: &mut Xoshiro256PlusPlus) -> MemoryFiles {
    let image = Image::open_on(files, HOST_DURABILITY).expect("the image is whole");
    let mut files = files_of(image);
    files.crash_server_machine(random);
    files
}

/// With `WEARWELL_SOAK=1`, each design runs with twelve seeds, by default with six.
#[test]
fn flushed_data_of_an_image_survives_a_crash_of_the_server_machine() {
    let seeds = if image_support::is_soak_run() { 12 } else { 6 };
    for design in DESIGNS {
        let (mut pages, mut torn, mut erases) = (0, 0, 0);
        for seed in 0..seeds {
            let counted = run_crash_cycles(&specification(design, 1024), seed, 40, true);
            pages += counted.0;
            torn += counted.1;
            erases += counted.2;
        }
        println!("{design}: {pages} pages compared, {torn} torn pages found, {erases} erases");
        assert!(torn > 0, "the host leaves torn pages");
        assert!(erases > 100 || design == "integrated", "garbage collection is at work");
    }
}

/// Pools keep several blocks free and the host flushes seldom, so many erases wait for one sync. Facts that the engine
/// forgets at an erase (a page was trimmed, a newer version exists) must not become durable before the erase.
#[test]
fn old_data_does_not_reappear_after_a_crash_while_erases_wait_for_a_sync() {
    for design in DESIGNS {
        let specification = specification_with_batched_erases(design);
        let mut erases = 0;
        for seed in 100..106 {
            erases += run_crash_cycles(&specification, seed, 30, false).2;
        }
        assert!(erases > 100 || design == "integrated", "{design}: garbage collection is at work: {erases}");
    }
}

/// Makes the specification of an image in which several erases may wait and then share one sync.
fn specification_with_batched_erases(design: &str) -> ImageSpecification {
    with_settings(design, 1024, &["device.blocks_per_plane=26", "gc.low_blocks=5"])
}

#[test]
fn several_erases_of_an_image_share_a_sync() {
    let mut files = MemoryFiles::default();
    create_on(
        &mut files,
        &specification_with_batched_erases("page-map").build_image_header(7).expect("the device fits"),
    )
    .expect("memory takes everything");
    let mut image = Image::open_on(files, HOST_DURABILITY).expect("a new image");
    let mut script = RandomHostOperations::new(3, 200);
    let before = medium_of(&image.device).backing().syncs;
    for _ in 0..3000 {
        match script.draw() {
            Op::Flush => {}
            op => perform(&mut image.device, op).expect("there is room"),
        }
        execute_deferred_writes(&mut image.device);
    }
    let syncs = medium_of(&image.device).backing().syncs - before;
    let erases = image.device.stats().total_erases();
    assert!(erases > 200, "{erases} erases");
    // Flash, NVRAM and journal, for four erases in each of two pools at best.
    assert!(syncs < erases, "{syncs} syncs for {erases} erases");
}

/// Control experiment: under a `process` session, which promises nothing after a crash of the server machine, the same
/// test finds lost pages.
#[test]
fn a_session_that_syncs_nothing_loses_pages_when_the_server_machine_crashes() {
    let mut files = MemoryFiles::default();
    let image_header = specification("page-map", 1024).build_image_header(7).expect("the device fits");
    create_on(&mut files, &image_header).expect("memory takes everything");
    let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
    let mut oracle = Oracle::new(200);
    let mut script = RandomHostOperations::new(1, 200);
    let mut image = Image::open_on(files, PROCESS_DURABILITY).expect("a new image");
    for _ in 0..500 {
        let op = script.draw();
        oracle.record_sent_operation(op);
        perform(&mut image.device, op).expect("there is room");
        execute_deferred_writes(&mut image.device);
        oracle.acknowledge(op);
    }
    perform(&mut image.device, Op::Flush).expect("there is room");
    oracle.acknowledge(Op::Flush);
    let mut files = files_of(image);
    files.crash_server_machine(&mut random);
    match Image::open_on(files, PROCESS_DURABILITY) {
        Err(error) => assert!(error.to_string().contains("damaged"), "{error}"),
        Ok(mut image) => {
            assert_ne!(oracle.judge(&mut image.device), [], "a process session survives no host");
        }
    }
}

/// Bug: the journal turned to its other area, and a crash of the server machine left the first record there half
/// written in both copies. The image was refused for the overwritten record, although nothing needed it any more.
#[test]
fn an_image_survives_a_crash_while_its_journal_turns() {
    let mut files = MemoryFiles::default();
    let image_header = specification("remap", 1024).build_image_header(7).expect("the device fits");
    let layout = Layout::new(&image_header);
    create_on(&mut files, &image_header).expect("memory takes everything");
    let mut files_at_begin = files.clone();
    files.log = Some(Vec::new());
    let mut image = Image::open_on(files, HOST_DURABILITY).expect("a new image");
    let (mut oracle, mut script) = (Oracle::new(200), RandomHostOperations::new(5, 200));
    let (mut applied_writes, mut torn_turns, mut last_area_offset) = (0, 0, 0);
    while torn_turns < 3 {
        for _ in 0..60 {
            let op = script.draw();
            if op != Op::Flush {
                oracle.record_sent_operation(op);
                perform(&mut image.device, op).expect("there is room");
                oracle.acknowledge(op);
            }
        }
        let oracle_before_flush = oracle.clone();
        perform(&mut image.device, Op::Flush).expect("there is room");
        oracle.acknowledge(Op::Flush);
        let log = medium_of(&image.device).backing().log.as_ref().expect("it was set");
        for (file, offset, bytes) in &log[applied_writes..] {
            let begins_area = *file == ImageFile::Journal && offset % layout.journal_area_bytes() == 0;
            let is_turn = begins_area
                && JournalRecord::decode(&layout, *offset, bytes)
                    .is_some_and(|record| record.journal_generation > 1);
            if is_turn && bytes.len() as u64 > SECTOR {
                let torn = tear_journal_record(&files_at_begin, &layout, *offset, bytes);
                let mut reopened =
                    Image::open_on(torn, HOST_DURABILITY).expect("the older area is not needed");
                assert_eq!(oracle_before_flush.clone().judge(&mut reopened.device), []);
                reopened.device.check().expect("the laws hold");
                (torn_turns, last_area_offset) = (torn_turns + 1, *offset);
            }
            overwrite(&mut files_at_begin, *file, *offset, bytes);
        }
        applied_writes = log.len();
    }
    // Just after the last turn, most sectors still need the records of the area before.
    let older_area_offset = layout.journal_area_bytes() - last_area_offset;
    let damaged = tear_journal_record(&files_at_begin, &layout, older_area_offset, &[0; SECTOR as usize]);
    let refused =
        Image::open_on(damaged, HOST_DURABILITY).map(drop).expect_err("records are missing").to_string();
    assert!(refused.contains("one of the two copies of the journal must have record number"), "{refused}");
}

/// Returns the files with only the first sector of a journal record written, in both copies.
fn tear_journal_record(files: &MemoryFiles, layout: &Layout, offset: u64, record: &[u8]) -> MemoryFiles {
    let mut torn = files.clone();
    let written = &record[..SECTOR as usize];
    overwrite(&mut torn, ImageFile::Journal, offset, written);
    overwrite(&mut torn, ImageFile::Mirror, layout.mirror_offset(ImageFile::Journal, offset), written);
    torn
}

/// Writes bytes to a file in memory, as they are on the disk after a sync.
fn overwrite(files: &mut MemoryFiles, file: ImageFile, offset: u64, bytes: &[u8]) {
    files.write(file, bytes, offset).expect("memory takes everything");
}
