//! Tests that an image is a device: it keeps flushed data if its process ends at any moment, counts as many flash
//! operations as a simulated device, and refuses with a sentence what it cannot serve.

use std::fs;
use std::ops::Range;
use std::sync::atomic::Ordering;

use image_support::{
    DESIGNS, HOST_DURABILITY, InjectedWriteFailure, MemoryFiles, Op, Oracle, PROCESS_DURABILITY,
    RandomHostOperations, execute_deferred_writes, files_of, medium_of, medium_of_mut, page_of, perform,
    specification, with_settings,
};
use rand::RngExt as _;
use wearwell::DeviceOptions;
use wearwell::design::{Parts, RecoveryBlockScan};
use wearwell::nand::{AnyNand, CutOutcome, PowerCutNand, RetainedPageFields, SimNand};
use wearwell_config::Config;
use wearwell_serve::image::layout::{ImageHeader, Layout};
use wearwell_serve::image::{
    AuditVerdict, Backing as _, Durability, FileNand, Image, ImageError, ImageFile, ImageOpenOptions,
    ImageSpecification, OpenImageFiles, audit, audit_backing, create, create_on, repair,
};
use wearwell_serve::{LiveDevice, Medium};

use crate::image_support;

/// Makes the files of a new image in memory.
fn new_image(specification: &ImageSpecification) -> MemoryFiles {
    let mut files = MemoryFiles::default();
    let image_header = specification.build_image_header(7).expect("the device fits");
    create_on(&mut files, &image_header).expect("memory takes everything");
    files
}

/// Opens an image in memory, which must be undamaged.
fn open(files: MemoryFiles, options: ImageOpenOptions) -> Image {
    Image::open_on(files, options).expect("the image is whole")
}

/// Returns the device of `specification` over simulated flash. It is compared with the device of the image.
fn simulated_device(specification: &ImageSpecification) -> LiveDevice {
    let image_header: ImageHeader = specification.build_image_header(7).expect("the device fits");
    let parts = design_parts_of_image(&image_header);
    let nvram_bytes = parts.total_nvram_bytes(&image_header.geometry, image_header.logical_pages);
    let geometry = image_header.geometry.clone();
    device_over(SimNand::new(geometry, RetainedPageFields::ALL).with_nvram(nvram_bytes), &image_header)
}

#[test]
fn flushed_data_of_an_image_survives_sessions_that_are_not_closed() {
    for design in DESIGNS {
        for options in [PROCESS_DURABILITY, HOST_DURABILITY] {
            let mut files = new_image(&specification(design, 1024));
            let mut oracle = Oracle::new(200);
            let mut script = RandomHostOperations::new(5, 200);
            let mut collected = 0;
            for session in 0..12 {
                let mut image = open(files, options);
                assert_eq!(
                    image.report.was_shut_down_uncleanly,
                    session > 0,
                    "only the first session follows a clean end"
                );
                assert_eq!(oracle.judge(&mut image.device), [], "{design} {options:?} session {session}");
                for _ in 0..400 {
                    let op = script.draw();
                    oracle.record_sent_operation(op);
                    perform(&mut image.device, op).expect("there is room");
                    execute_deferred_writes(&mut image.device);
                    oracle.acknowledge(op);
                }
                image.device.check().expect("the laws hold");
                collected += image.device.stats().gc_victims;
                files = files_of(image);
            }
            assert!(collected > 50 || design == "integrated", "{design} collected {collected} blocks");
        }
    }
}

#[test]
fn an_image_counts_the_same_flash_operations_as_a_simulated_device() {
    for design in DESIGNS {
        let specification = specification(design, 1024);
        let mut simulated = simulated_device(&specification);
        let mut image = open(new_image(&specification), PROCESS_DURABILITY);
        image.device.clear_stats();
        let mut script = RandomHostOperations::new(11, 200);
        for _ in 0..4000 {
            let op = script.draw();
            perform(&mut simulated, op).expect("there is room");
            perform(&mut image.device, op).expect("there is room");
        }
        assert_eq!(image.device.stats(), simulated.stats(), "{design}");
        assert!(simulated.stats().total_erases() > 0, "{design} erases blocks");
    }
}

#[test]
fn a_closed_image_reopens_clean_with_all_data() {
    for design in DESIGNS {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let path = directory.path().join("image");
        create(&path, &specification(design, 4096)).expect("a new directory");
        let mut oracle = Oracle::new(200);
        let mut script = RandomHostOperations::new(3, 200);
        let mut image = Image::open(&path, PROCESS_DURABILITY).expect("a new image");
        for _ in 0..1000 {
            let op = script.draw();
            oracle.record_sent_operation(op);
            perform(&mut image.device, op).expect("there is room");
        }
        image.close().expect("the disk takes it");
        oracle.acknowledge(Op::Flush);
        let report = audit(&path).expect("an image");
        assert_eq!((report.verdict, report.findings), (AuditVerdict::Clean, vec![]), "{design}");
        assert!(report.verified_pages > 0 && report.mapped_pages > Some(0));
        let mut image = Image::open(&path, PROCESS_DURABILITY).expect("a closed image");
        assert_eq!(oracle.judge(&mut image.device), [], "{design}");
    }
}

/// After each power cut of the in-process model, the flash state read from the image's files equals that of the model.
#[test]
fn every_flash_state_after_a_power_cut_equals_the_state_read_back_from_the_image_files() {
    let mut cuts = 0;
    for design in DESIGNS {
        for outcome in CutOutcome::ALL {
            for cut_at in (0..600).step_by(7) {
                let specification = specification(design, 512);
                let image = open(new_image(&specification), PROCESS_DURABILITY);
                let image_header = image.image_header.clone();
                let nand = PowerCutNand::new(
                    FileNand::<MemoryFiles>::into_medium_of_device(image.device),
                    Some(cut_at),
                    outcome,
                );
                let mut device = device_over(nand, &image_header);
                let mut oracle = Oracle::new(200);
                let mut script = RandomHostOperations::new(cut_at, 200);
                loop {
                    let op = script.draw();
                    oracle.record_sent_operation(op);
                    match perform(&mut device, op) {
                        Ok(()) => oracle.acknowledge(op),
                        Err(error) if error.is_power_loss() => break,
                        Err(error) => panic!("{design}: {error}"),
                    }
                }
                let medium: PowerCutNand = device.into_medium().downcast().expect("it was put there");
                let medium: FileNand<MemoryFiles> = medium.into_inner().downcast().expect("it was put there");
                let files = medium.into_backing();
                let mut image = open(files, PROCESS_DURABILITY);
                assert_eq!(image.report.torn_pages, 0, "what a model tears is noted as torn, not found");
                image.device.check().expect("the laws hold");
                assert_eq!(oracle.judge(&mut image.device), [], "{design} {outcome:?} at {cut_at}");
                cuts += 1;
            }
        }
    }
    println!("{cuts} cuts");
}

/// Returns the parts of an image's design (map, page validity and others) with which the image is served.
fn design_parts_of_image(image_header: &ImageHeader) -> Parts {
    let config = Config::from_text_and_settings(Some(("superblock", &image_header.config_toml)), &[])
        .expect("it was pinned");
    let resolved = config.resolve_device(1).expect("it was resolved before");
    config.design_parts_for_image(&image_header.design, &resolved).expect("it was served")
}

/// Bug: the configuration in an image left open what recovery reads, so a replay of a recording, which took the
/// default, also wrote the records in NVRAM that recovery from first pages needs, and stored other deltas.
#[test]
fn the_configuration_of_an_image_gives_a_replay_the_recovery_of_the_image() {
    for design in ["wearwell", "geckoftl", "page-map"] {
        let image_header = specification(design, 1024).build_image_header(8).expect("it fits");
        let config = Config::from_text_and_settings(Some(("superblock", &image_header.config_toml)), &[])
            .expect("it was pinned");
        let resolved = config.resolve_device(1).expect("it was resolved before");
        let replayed = config.design_parts(design, &resolved).expect("a design");
        assert_eq!(replayed.recovery_block_scan, RecoveryBlockScan::OobScan, "{design}");
        assert_eq!(
            design_parts_of_image(&image_header).recovery_block_scan,
            RecoveryBlockScan::OobScan,
            "{design}"
        );
    }
}

/// Returns the device of an image over another medium.
fn device_over(medium: impl Medium + Into<AnyNand>, image_header: &ImageHeader) -> LiveDevice {
    let parts = design_parts_of_image(image_header);
    LiveDevice::new(medium, image_header.logical_pages, &parts, DeviceOptions::default())
        .expect("the device fits")
}

/// The process may end between any two writes to files. In sessions with many writes, only some hundred of the possible
/// points are tried; `WEARWELL_SOAK` tries all.
#[test]
fn an_image_recovers_if_the_process_ends_between_any_two_file_writes() {
    for design in DESIGNS {
        let mut files = new_image(&specification(design, 1024));
        let mut oracle = Oracle::new(200);
        let mut script = RandomHostOperations::new(21, 200);
        let mut checked = 0;
        for session in 0..20 {
            let is_cut = session >= 15;
            files.log = is_cut.then(Vec::new);
            let before = files.clone();
            let mut image = open(files, PROCESS_DURABILITY);
            // What the host knew when each operation began, and how much was written by then.
            let mut moments = Vec::new();
            for _ in 0..80 {
                let op = script.draw();
                oracle.record_sent_operation(op);
                moments.push((recorded_write_count(&image), oracle.clone()));
                perform(&mut image.device, op).expect("there is room");
                // Few operations at a time, or so many that several erases wait together.
                if script.random.random_range(0..[3, 40][session % 2]) == 0 {
                    execute_deferred_writes(&mut image.device);
                }
                oracle.acknowledge(op);
            }
            files = files_of(image);
            let log = files.log.take().unwrap_or_default();
            let first = moments[0].0;
            let interval = if image_support::is_soak_run() { 1 } else { ((log.len() - first) / 80).max(1) };
            for upto in (first + session % interval..log.len()).step_by(interval) {
                let (_, witness) = moments.iter().rev().find(|moment| moment.0 <= upto).expect("the first");
                let mut ended = MemoryFiles { log: None, ..before.clone() };
                for (file, offset, bytes) in &log[..upto] {
                    ended.write(*file, bytes, *offset).expect("memory takes everything");
                }
                let mut ended = open(ended, PROCESS_DURABILITY);
                ended.device.check().expect("the laws hold");
                assert_eq!(
                    witness.clone().judge(&mut ended.device),
                    [],
                    "{design} session {session} write {upto}"
                );
                checked += 1;
            }
            // The session ended without a word: what was not flushed may be either.
            let mut image = open(files, PROCESS_DURABILITY);
            assert_eq!(oracle.judge(&mut image.device), [], "{design} session {session}");
            files = files_of(image);
        }
        println!("{design}: {checked} ends");
        assert!(checked > 300, "{design}: {checked} ends");
    }
}

/// Returns the number of writes to the files of an image that were recorded.
fn recorded_write_count(image: &Image) -> usize {
    medium_of(&image.device).backing().log.as_ref().map_or(0, Vec::len)
}

/// The disk of the server machine is full: waiting operations are kept, and earlier data can be read. When there is
/// space again, the device continues. If the process ends meanwhile, the image is consistent.
#[test]
fn a_full_disk_under_an_image_delays_writes_and_loses_no_data() {
    for refusal in [InjectedWriteFailure::DiskFull, InjectedWriteFailure::ShortWrite] {
        for design in DESIGNS {
            for refused_after in [0, 3, 400, 900] {
                let mut image = open(new_image(&specification(design, 1024)), PROCESS_DURABILITY);
                let mut oracle = Oracle::new(200);
                let mut script = RandomHostOperations::new(31, 200);
                set_write_failures(&mut image, Some((refused_after, refusal)));
                loop {
                    let op = script.draw();
                    oracle.record_sent_operation(op);
                    let performed = perform(&mut image.device, op);
                    assert!(
                        performed.is_ok() || op == Op::Flush,
                        "the engine does not see what the host refuses"
                    );
                    let nand = image.device.medium_mut();
                    if let Err(refused) = nand.write_operations_to_files() {
                        let sentence = refused.message;
                        assert!(
                            refused.is_disk_full && sentence.contains("cannot write file `flash`"),
                            "{sentence}"
                        );
                        break;
                    }
                    oracle.acknowledge(op);
                }
                let error = image.device.flush().expect_err("the disk is still full");
                assert!(error.is_power_loss(), "{error}");
                assert_eq!(oracle.clone().judge(&mut image.device), [], "{design}: reads go on");

                let files =
                    MemoryFiles { fail_writes_from: None, ..medium_of(&image.device).backing().clone() };
                assert_eq!(audit_backing(files.clone()).expect("an image").verdict, AuditVerdict::Unclean);
                let mut ended = open(files, PROCESS_DURABILITY);
                assert_eq!(
                    oracle.clone().judge(&mut ended.device),
                    [],
                    "{design} {refusal:?} {refused_after}"
                );

                set_write_failures(&mut image, None);
                for _ in 0..200 {
                    let op = script.draw();
                    oracle.record_sent_operation(op);
                    perform(&mut image.device, op).expect("there is room");
                }
                image.device.flush().expect("there is room");
                oracle.acknowledge(Op::Flush);
                let mut image = open(files_of(image), PROCESS_DURABILITY);
                assert_eq!(oracle.judge(&mut image.device), [], "{design} {refusal:?} after {refused_after}");
            }
        }
    }
}

/// Bug: the disk took the first copy of a journal record and refused the second. Later operations joined the batch of
/// this record, so that the next attempt wrote another record with the same number. The image was refused if the process
/// ended between the two, and also after it was closed if the second record did not fit into the same journal area.
#[test]
fn a_journal_record_of_which_one_copy_was_refused_is_written_again_unchanged() {
    for design in DESIGNS {
        let files = new_image(&specification(design, 1024));
        let layout =
            Layout::new(&specification(design, 1024).build_image_header(7).expect("the device fits"));
        let second_copies = layout.mirror_offset(ImageFile::Journal, 0)
            ..layout.mirror_offset(ImageFile::Journal, layout.journal_file_bytes() - 1) + 1;
        let mut image = open(files, PROCESS_DURABILITY);
        let (mut oracle, mut script) = (Oracle::new(200), RandomHostOperations::new(77, 200));
        let mut refused_records = 0;
        for round in 0..80 {
            let mut send = |image: &mut Image, oracle: &mut Oracle, count: u64| -> Vec<Op> {
                let ops: Vec<Op> = (0..count).map(|_| script.draw()).filter(|&op| op != Op::Flush).collect();
                for &op in &ops {
                    oracle.record_sent_operation(op);
                    perform(&mut image.device, op).expect("the engine does not see what the host refuses");
                }
                ops
            };
            let mut ops = send(&mut image, &mut oracle, 1 + round % 7);
            refuse_writes_at(&mut image, Some((ImageFile::Mirror, second_copies.clone())));
            refused_records += u64::from(image.device.medium_mut().write_operations_to_files().is_err());
            ops.extend(send(&mut image, &mut oracle, round % 12));
            // The first copy is refused, too, and the process ends.
            refuse_writes_at(&mut image, Some((ImageFile::Journal, 0..u64::MAX)));
            let _ = image.device.medium_mut().write_operations_to_files();
            let ended = MemoryFiles { refused_place: None, ..medium_of(&image.device).backing().clone() };
            let mut ended = open(ended, PROCESS_DURABILITY);
            assert_eq!(oracle.clone().judge(&mut ended.device), [], "{design} round {round}: after the end");

            refuse_writes_at(&mut image, None);
            execute_deferred_writes(&mut image.device);
            for op in ops {
                oracle.acknowledge(op);
            }
            image = open(files_of(image), PROCESS_DURABILITY);
            assert_eq!(oracle.judge(&mut image.device), [], "{design} round {round}: after the refusals");
        }
        assert!(refused_records > 30, "{design}: {refused_records} records were refused");
    }
}

/// Bug: after a read of several pages that the operating system refused once, the device accepted no more writes,
/// although the repeated reads of the single pages succeeded.
#[test]
fn a_read_error_that_does_not_recur_stops_no_later_write() {
    let mut image = open(new_image(&specification("page-map", 4096)), PROCESS_DURABILITY);
    for page in 0..8 {
        perform(&mut image.device, Op::Write(page, (1 + page, 1))).expect("there is room");
    }
    perform(&mut image.device, Op::Flush).expect("memory takes everything");
    let refused_reads = medium_of(&image.device).backing().refused_data_reads.clone();
    refused_reads.store(1, Ordering::Relaxed);
    let mut found = vec![0; 8 * 4096];
    image.device.read(0, &mut found).expect("the second attempt succeeds");
    assert_eq!(refused_reads.load(Ordering::Relaxed), 0, "a read was refused");
    for (page, found) in (0..).zip(found.chunks(4096)) {
        assert!(found == page_of((1 + page, 1), 4096), "page {page}");
    }
    perform(&mut image.device, Op::Write(0, (1, 2))).expect("there is room");
    execute_deferred_writes(&mut image.device);
}

/// Makes writes to a range of bytes of one file of an image fail. `None` ends the failures.
fn refuse_writes_at(image: &mut Image, place: Option<(ImageFile, Range<u64>)>) {
    medium_of_mut(&mut image.device).backing_mut().refused_place = place;
}

/// Makes writes of page data to the files of an image fail: from write number `from.0` on, in the way that `from.1`
/// states. `None` ends the failures.
fn set_write_failures(image: &mut Image, from: Option<(u64, InjectedWriteFailure)>) {
    medium_of_mut(&mut image.device).backing_mut().fail_writes_from = from;
}

#[test]
fn an_image_in_use_cannot_be_opened_again() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = directory.path().join("image");
    create(&path, &specification("page-map", 4096)).expect("a new directory");
    let first = Image::open(&path, PROCESS_DURABILITY).expect("nobody uses it");
    let second = Image::open(&path, PROCESS_DURABILITY).expect_err("the first one uses it");
    assert!(matches!(second, ImageError::InUse { .. }), "{second}");
    assert!(second.to_string().ends_with(
        "is in use by another process: stop that process first, since an image has one user at a time"
    ));
    assert!(matches!(audit(&path), Err(ImageError::InUse { .. })), "nor is it audited meanwhile");
    drop(first);
    Image::open(&path, PROCESS_DURABILITY).expect("nobody uses it any more");
}

#[test]
fn a_directory_without_an_image_is_refused_with_its_name() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = directory.path().join("image");
    let sentence = |result: Result<Image, ImageError>| result.expect_err("it is no image").to_string();
    let missing = sentence(Image::open(&path, PROCESS_DURABILITY));
    assert!(
        missing.contains("holds no image: check the path, or make an image with `wearwell create`"),
        "{missing}"
    );
    create(&path, &specification("page-map", 4096)).expect("a new directory");
    let again = create(&path, &specification("page-map", 4096)).expect_err("there is one");
    assert!(again.to_string().contains("exists and is not empty"), "{again}");

    let image_header = path.join("superblock");
    let whole = fs::read(&image_header).expect("it was created");
    let mut newer = whole.clone();
    newer[8] = 9;
    fs::write(&image_header, &newer).expect("writable");
    let mirror = fs::read(path.join("mirror")).expect("it was created");
    let mut newer_copy = mirror.clone();
    newer_copy[8] = 9;
    fs::write(path.join("mirror"), &newer_copy).expect("writable");
    assert_eq!(
        sentence(Image::open(&path, PROCESS_DURABILITY)),
        "the image has format version 9; this version of wearwell reads format version 2: use a version of wearwell \
         that reads it"
    );
    fs::write(&image_header, &whole).expect("writable");
    fs::write(path.join("mirror"), &mirror).expect("writable");
    fs::remove_file(path.join("flash")).expect("it exists");
    assert!(
        sentence(Image::open(&path, PROCESS_DURABILITY))
            .contains("lacks the file `flash` of its image: put it back")
    );
    // Regression: an image without both copies of its header was called none, with the advice to make one.
    fs::write(path.join("flash"), "").expect("writable");
    fs::remove_file(&image_header).expect("it exists");
    fs::remove_file(path.join("mirror")).expect("it exists");
    assert!(
        sentence(Image::open(&path, PROCESS_DURABILITY)).contains("lacks the file `superblock` of its image")
    );
}

/// Regression: the messages about refusals of the operating system did not say what to do, or said the wrong thing.
#[test]
fn messages_about_file_operations_that_the_system_refuses_contain_advice() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let at = |name: &str| directory.path().join(name);
    let refused = |name: &str| {
        create(&at(name), &specification("page-map", 4096)).expect_err("it is refused").to_string()
    };
    fs::write(at("file"), "").expect("writable");
    assert!(refused("file").ends_with("; name a directory"), "{}", refused("file"));
    let nested = refused("none/image");
    assert!(nested.ends_with("; make the directory that is to contain it first"), "{nested}");
    create(&at("image"), &specification("page-map", 4096)).expect("a new directory");
    let repaired = repair(&at("image"), Some(directory.path())).expect_err("it exists").to_string();
    assert!(repaired.ends_with("; name a new or empty directory"), "{repaired}");
}

/// Regression: one file that was missing or cut short made the whole image unusable.
#[test]
fn missing_metadata_of_an_image_is_restored_from_its_copy() {
    for file in ImageFile::ALL.into_iter().filter(|&file| file != ImageFile::Flash) {
        for remains in [None, Some(0), Some(10)] {
            let directory = tempfile::tempdir().expect("a temporary directory");
            let path = directory.path().join("image");
            create(&path, &specification("remap", 4096)).expect("a new directory");
            let mut image = Image::open(&path, PROCESS_DURABILITY).expect("a new image");
            let mut oracle = Oracle::new(200);
            let mut script = RandomHostOperations::new(3, 200);
            for _ in 0..600 {
                let op = script.draw();
                oracle.record_sent_operation(op);
                perform(&mut image.device, op).expect("there is room");
                oracle.acknowledge(op);
            }
            image.close().expect("the disk takes it");
            let name = path.join(file.name());
            match remains {
                None => fs::remove_file(&name).expect("it exists"),
                Some(length) => {
                    let file = fs::OpenOptions::new().write(true).open(&name).expect("writable");
                    file.set_len(length).expect("writable");
                }
            }
            let report = audit(&path).expect("an image");
            assert_eq!((report.verdict, report.findings), (AuditVerdict::Unclean, vec![]), "{file:?}");
            assert!(report.was_closed_cleanly && report.repairable_metadata_copies > 0, "{file:?}");
            let mut image = Image::open(&path, PROCESS_DURABILITY).expect("there is a copy");
            assert!(
                !image.report.was_shut_down_uncleanly && image.report.metadata_repairs.rewritten_copies > 0,
                "{file:?}"
            );
            assert_eq!(oracle.judge(&mut image.device), [], "{file:?}");
            image.close().expect("the disk takes it");
            assert_eq!(audit(&path).expect("an image").verdict, AuditVerdict::Clean, "{file:?}");
        }
    }
}

/// The refusal of a directory names what it holds: the remains of an unfinished image, or a finished image.
#[test]
fn a_refused_directory_is_reported_with_the_unfinished_or_finished_image_in_it() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = directory.path().join("image");
    drop(OpenImageFiles::create(&path).expect("a new directory"));
    for file in [None, Some("mirror"), Some("journal"), Some("flash")] {
        if let Some(file) = file {
            fs::remove_file(path.join(file)).expect("it exists");
        }
        let unfinished = audit(&path).expect_err("it is no image");
        assert!(matches!(unfinished, ImageError::Unfinished), "{file:?}: {unfinished}");
        let sentence = unfinished.message_about(&path);
        assert!(sentence.starts_with(&path.display().to_string()), "{sentence}");
        assert!(sentence.contains("interrupted creation or copy of one: repeat that command"), "{sentence}");
    }
    create(&path, &specification("page-map", 4096)).expect("the remains are no obstacle");
    let again = create(&path, &specification("page-map", 4096)).expect_err("there is one").to_string();
    assert!(
        again.ends_with(
            "it holds an image already; use or remove that one, or name a new or empty directory for \
                             the image"
        ),
        "{again}"
    );
    let copied = repair(&path, Some(&path)).expect_err("there is one").to_string();
    assert!(
        copied.contains("the directory holds an image already; name a new or empty directory"),
        "{copied}"
    );
}

/// The first opening of the image is killed after each of its writes, and so is the next opening. Opening writes the
/// session record twice.
#[test]
fn an_image_opens_after_kills_at_any_write_of_two_successive_openings() {
    let mut states = Vec::new();
    for design in ["page-map", "ib-ftl"] {
        let mut files = MemoryFiles::default();
        create_on(&mut files, &specification(design, 1024).build_image_header(7).expect("it fits"))
            .expect("memory");
        for end in [true, false] {
            let mut image = Image::open_on(files.clone(), PROCESS_DURABILITY).expect("an image");
            perform(&mut image.device, Op::Write(3, (4, 1))).expect("there is room");
            execute_deferred_writes(&mut image.device);
            if end {
                image.device.medium_mut().end_session().expect("memory");
            }
            files = image.into_backing();
            states.push(files.clone());
        }
    }
    for _ in 0..2 {
        for state in std::mem::take(&mut states) {
            let logged = MemoryFiles { log: Some(Vec::new()), ..state.clone() };
            let image = Image::open_on(logged, PROCESS_DURABILITY).expect("an image");
            let log = image.into_backing::<MemoryFiles>().log.expect("it was set");
            assert!(log.len() >= 2, "a session has two records");
            for count in 0..=log.len() {
                let mut killed = MemoryFiles { log: None, ..state.clone() };
                for (file, offset, bytes) in &log[..count] {
                    killed.write(*file, bytes, *offset).expect("memory");
                }
                let report = audit_backing(killed.clone()).expect("an image");
                assert_ne!(report.verdict, AuditVerdict::Corrupt, "{:?}", report.findings);
                states.push(killed);
            }
        }
    }
}

/// Regression: the directory left by an interrupted creation could neither be served nor be used for another creation.
#[test]
fn image_creation_replaces_only_the_remains_of_an_interrupted_creation() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = directory.path().join("image");
    let specification = specification("page-map", 4096);
    create(&path, &specification).expect("a new directory");
    fs::write(path.join("superblock"), b"").expect("writable");
    let refused = create(&path, &specification).expect_err("the mirror has its superblock");
    assert!(matches!(refused, ImageError::DirectoryNotEmpty { .. }), "{refused}");
    fs::write(path.join("mirror"), [0; 100]).expect("writable");
    create(&path, &specification).expect("an image without a superblock is none");
    Image::open(&path, PROCESS_DURABILITY).expect("a new image").close().expect("the disk takes it");
    fs::write(path.join("superblock"), b"").expect("writable");
    fs::write(path.join("mirror"), b"").expect("writable");
    fs::write(path.join("letter"), b"of somebody").expect("writable");
    let refused = create(&path, &specification).expect_err("the directory holds something else");
    assert!(matches!(refused, ImageError::DirectoryNotEmpty { .. }), "{refused}");
    assert!(path.join("flash").exists() && path.join("letter").exists(), "nothing was removed");
}

#[test]
fn only_its_owner_has_permission_to_read_an_image() {
    use std::os::unix::fs::PermissionsExt as _;
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = directory.path().join("image");
    create(&path, &specification("page-map", 4096)).expect("a new directory");
    let mode = |path: &std::path::Path| fs::metadata(path).expect("it exists").permissions().mode() & 0o777;
    assert_eq!(mode(&path), 0o700);
    for file in ImageFile::ALL {
        assert_eq!(mode(&path.join(file.name())), 0o600, "{}", file.name());
    }
}

/// Regression: trimmed data occupied the disk of the server machine for ever, and stayed readable in the file.
#[test]
fn trimmed_space_of_an_image_is_returned_to_the_file_system() {
    use std::os::unix::fs::MetadataExt as _;

    use wearwell_serve::{BlockDevice as _, FlashDevice};
    for design in ["page-map", "remap", "delta"] {
        for options in [PROCESS_DURABILITY, HOST_DURABILITY] {
            let directory = tempfile::tempdir().expect("a temporary directory");
            let path = directory.path().join("image");
            create(&path, &specification(design, 4096)).expect("a new directory");
            let image = Image::open(&path, options).expect("a new image");
            let identity = image.health_facts();
            let mut device = FlashDevice::new(image.device, identity).expect("it keeps bytes");
            let room = || fs::metadata(path.join("flash")).expect("it exists").blocks() * 512;
            let before = room();
            for page in 0..200 {
                let bytes = page_of((page + 1, 1), 4096);
                device.write(page * 4096, &bytes).expect("there is room");
            }
            device.flush().expect("the disk takes it");
            assert!(room() - before >= 200 * 4096, "{design}: data takes room");
            device.write(0, &page_of((1, 2), 4096)).expect("there is room");
            device.trim(4096, 199 * 4096).expect("there is room");
            device.flush().expect("the disk takes it");
            let left = room() - before;
            assert!(left <= 60 * 4096, "{design} {options:?}: {left} bytes of room for one page");
            let mut page = vec![0; 4096];
            device.read(0, &mut page).expect("it is there");
            assert!(page == page_of((1, 2), 4096));
        }
    }
}

#[test]
fn designs_and_settings_that_need_hardware_an_image_lacks_are_refused() {
    let refused = |specification: ImageSpecification| {
        specification.build_image_header(7).expect_err("it has no meaning for an image").to_string()
    };
    let lazy = refused(specification("u-ftl", 4096));
    assert!(
        lazy.contains("need a battery that keeps tables in RAM when power is lost, and the image"),
        "{lazy}"
    );
    assert!(lazy.contains("choose parts.map=cached and choose parts.validity=ram"), "{lazy}");
    let journal =
        refused(with_settings("delta", 4096, &["delta.cache_entries=100", "delta.journal_pages=4"]));
    assert!(journal.contains("leave delta.journal_pages out"), "{journal}");
    let buffers = refused(with_settings("delta", 4096, &["delta.open_pages=2"]));
    assert!(buffers.contains("choose delta.open_pages=1"), "{buffers}");
    let spare = refused(with_settings("integrated", 4096, &["device.spare_bytes=16"]));
    assert!(spare.contains("64 spare bytes"), "{spare}");
    let worn = refused(with_settings("page-map", 4096, &["device.wear_out=true"]));
    assert!(worn.contains("device.wear_out has no effect"), "{worn}");
    // Regression: settings of replays were accepted without effect.
    for setting in [
        "replay.requests=5",
        "replay.queue_depth=4",
        "device.fit=0.5",
        "buffer.keep_at_end=true",
        "timing.suspend=true",
        "timing.hash_us=3.5",
        "gc.background_share=0.1",
        "recovery.after_run=true",
        "recovery.after_requests=9",
    ] {
        let ignored = refused(with_settings("page-map", 4096, &[setting]));
        let key = setting.split('=').next().expect("it has one");
        assert!(ignored.starts_with(&format!("{key} has no effect, because a live device ")), "{ignored}");
        assert!(ignored.ends_with(": leave it out"), "{ignored}");
    }
    with_settings("page-map", 4096, &["replay.seed=7"]).build_image_header(7).expect("the seed counts");
    let sizeless = ImageSpecification {
        design: "page-map".into(),
        config: Config::default(),
        size_bytes: None,
        durability: Durability::Process,
    };
    assert!(refused(sizeless).contains("the size of the device is missing"));
    let odd = ImageSpecification {
        design: "page-map".into(),
        config: Config::default(),
        size_bytes: Some(5000),
        durability: Durability::Process,
    };
    assert!(refused(odd).contains("a positive multiple of the page size, 4096 bytes"));
    // Regression: a size silently replaced these settings.
    for setting in ["device.logical_pages=100", "device.blocks_per_plane=50"] {
        let overruled = ImageSpecification {
            design: "page-map".into(),
            config: Config::from_text_and_settings(None, &[setting.to_owned()]).expect("the setting exists"),
            size_bytes: Some(8 << 20),
            durability: Durability::Process,
        };
        let overruled = refused(overruled);
        assert!(overruled.contains(setting) && overruled.contains("leave out one of the two"), "{overruled}");
    }
}

#[test]
fn the_size_of_an_image_is_its_exported_capacity() {
    for design in DESIGNS {
        let config = Config::default();
        let specification = ImageSpecification {
            design: design.into(),
            config,
            size_bytes: Some(64 << 20),
            durability: Durability::Process,
        };
        let image_header = specification.build_image_header(7).expect("the device fits");
        assert_eq!(u64::from(image_header.logical_pages) * 4096, 64 << 20);
        assert!(image_header.geometry.physical_bytes() > 64 << 20, "there is spare space");
    }
}

#[test]
fn an_unwritable_image_is_refused() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = directory.path().join("image");
    create(&path, &specification("page-map", 4096)).expect("a new directory");
    // Root may write everything but a directory in place of a file.
    fs::remove_file(path.join("journal")).expect("it exists");
    fs::create_dir(path.join("journal")).expect("the name is free");
    let error = Image::open(&path, PROCESS_DURABILITY).expect_err("a directory is no file").to_string();
    assert!(error.contains("cannot open") && error.contains("journal"), "{error}");
    let file = directory.path().join("file");
    fs::write(&file, b"no directory").expect("writable");
    assert!(matches!(
        OpenImageFiles::open(&file, wearwell_serve::image::ImageAccess::ReadWrite),
        Err(ImageError::NoImage { .. })
    ));
}
