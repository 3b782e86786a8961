//! Tests that copies of images hold the data of the originals: snapshots of a served image, repaired and larger images,
//! images of another design, and views for reading. The same is tested for an image that was enlarged in its directory.

use std::fs::{self, Permissions};
use std::os::unix::fs::{FileExt as _, PermissionsExt as _};
use std::panic::catch_unwind;
use std::path::{Path, PathBuf};
use std::process::Command;

use image_support::{DESIGNS, OWNER_OF_SHARED_CONTENT, PROCESS_DURABILITY, page_of, with_settings};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::Value as Json;
use wearwell_serve::control::answer_control_line;
use wearwell_serve::image::layout::{ImageHeader, Layout, SessionRecord};
use wearwell_serve::image::{
    AuditVerdict, CopyOnWrite, Image, ImageAccess, ImageCopyOptions, ImageError, ImageFile, OpenImageFiles,
    audit, copy, create, create_on, repair, resize,
};
use wearwell_serve::{BlockDevice, DeviceError, FlashDevice};

use crate::image_support;

/// Size of a page, bytes.
const PAGE_BYTES: u64 = 4096;
/// Number of logical pages of the images.
const PAGES: u64 = 200;

/// A closed image of some hundred pages in a directory of its own, and the bytes that it holds.
struct WrittenImage {
    /// Directory that contains the image.
    directory: tempfile::TempDir,
    /// Path of the image.
    image: PathBuf,
    /// All bytes that the image exports.
    bytes: Vec<u8>,
}

impl WrittenImage {
    /// Returns a path in the directory that contains the image.
    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }
}

/// Makes a closed image of this design that holds random data.
fn create_written_image(design: &str) -> WrittenImage {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let image = directory.path().join("image");
    create(&image, &with_settings(design, 4096, &[])).expect("a new directory");
    let mut written = WrittenImage { directory, image, bytes: vec![0; (PAGES * PAGE_BYTES) as usize] };
    let mut device = device(&written.image);
    write_and_trim_at_random(&mut device, &mut written.bytes, 1);
    device.flush().expect("the disk takes it");
    wearwell_serve::image::close(device.into_live_device()).expect("the disk takes it");
    written
}

/// Opens an image as a device that can be served.
fn device(image: &Path) -> FlashDevice {
    let image = Image::open(image, PROCESS_DURABILITY).expect("an image");
    let identity = image.health_facts();
    FlashDevice::new(image.device, identity).expect("it keeps bytes")
}

/// Executes random writes and trims on a device, and applies them to `bytes`, the expected contents.
fn write_and_trim_at_random(device: &mut impl BlockDevice, bytes: &mut [u8], seed: u64) {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    for version in 0..900 {
        let page = random.random_range(0..PAGES);
        let range = (page * PAGE_BYTES) as usize..((page + 1) * PAGE_BYTES) as usize;
        match random.random_range(0..10) {
            0 => {
                device.trim(page * PAGE_BYTES, PAGE_BYTES).expect("there is room");
                bytes[range].fill(0);
            }
            1..4 => {
                let content =
                    page_of((OWNER_OF_SHARED_CONTENT, random.random_range(0..20)), PAGE_BYTES as usize);
                device.write(page * PAGE_BYTES, &content).expect("there is room");
                bytes[range].copy_from_slice(&content);
            }
            _ => {
                let content = page_of((1 + page, seed << 32 | version), PAGE_BYTES as usize);
                device.write(page * PAGE_BYTES, &content).expect("there is room");
                bytes[range].copy_from_slice(&content);
            }
        }
    }
}

/// Returns all bytes that a device exports.
fn contents(device: &mut impl BlockDevice) -> Vec<u8> {
    let mut bytes = vec![0; (PAGES * PAGE_BYTES) as usize];
    device.read(0, &mut bytes).expect("nothing is lost");
    bytes
}

#[test]
fn a_snapshot_is_a_closed_copy_of_an_image_that_stays_in_use() {
    for design in DESIGNS {
        let WrittenImage { directory, image, mut bytes } = create_written_image(design);
        let mut original = device(&image);
        write_and_trim_at_random(&mut original, &mut bytes, 2);
        let at = directory.path().join("snapshot");
        let line = format!("{{\"command\": \"snapshot\", \"directory\": \"{}\"}}", at.display());
        let reply: Json =
            serde_json::from_str(&answer_control_line(line.as_bytes(), &mut original)).expect("JSON");
        assert_eq!(reply["ok"], true, "{design}: {reply}");
        let then = bytes.clone();
        write_and_trim_at_random(&mut original, &mut bytes, 3);
        assert!(contents(&mut original) == bytes, "{design}: the original goes on");
        let report = audit(&at).expect("an image");
        assert_eq!((report.verdict, report.findings), (AuditVerdict::Clean, vec![]), "{design}");
        assert!(contents(&mut device(&at)) == then, "{design}");
        let again: Json =
            serde_json::from_str(&answer_control_line(line.as_bytes(), &mut original)).expect("JSON");
        let error = again["error"].as_str().expect("the directory exists");
        assert!(error.starts_with("cannot copy the image to"), "{error}");
    }
}

#[test]
fn an_image_copied_to_another_size_or_design_holds_the_same_data() {
    for (design, changes) in [
        ("page-map", ImageCopyOptions { size_bytes: Some(8 << 20), ..ImageCopyOptions::default() }),
        ("remap", ImageCopyOptions { design: Some("wearwell".into()), ..ImageCopyOptions::default() }),
        (
            "integrated",
            ImageCopyOptions { settings: vec!["gc.policy=fifo".into()], ..ImageCopyOptions::default() },
        ),
    ] {
        let written = create_written_image(design);
        let to = written.path("copy");
        let report = copy(&written.image, &to, &changes, &mut |_, _| {}).expect("there is room");
        let held =
            written.bytes.chunks(PAGE_BYTES as usize).filter(|page| page.iter().any(|&byte| byte != 0));
        assert_eq!(
            (report.copied_pages as usize, report.lost_pages),
            (held.count(), vec![]),
            "{design}: {changes:?}"
        );
        assert_eq!(report.design, changes.design.clone().unwrap_or_else(|| design.into()));
        assert_eq!(audit(&to).expect("an image").verdict, AuditVerdict::Clean, "{design}");
        let mut copied = device(&to);
        assert_eq!(copied.capacity_bytes(), changes.size_bytes.unwrap_or(PAGES * PAGE_BYTES));
        assert!(contents(&mut copied) == written.bytes, "{design}");
        assert!(
            contents(&mut device(&written.image)) == written.bytes,
            "{design}: the original is as it was"
        );
    }
    let written = create_written_image("page-map");
    let small = ImageCopyOptions { size_bytes: Some(4096), ..ImageCopyOptions::default() };
    let refused =
        copy(&written.image, &written.path("copy"), &small, &mut |_, _| {}).expect_err("it is smaller");
    assert!(refused.to_string().contains("the new size, 4096 bytes, is smaller"), "{refused}");
    assert!(!written.path("copy").exists());
}

/// Damages the data of the flash page that stores logical page `page`.
fn damage(written: &WrittenImage, page: u64) {
    let image_header = ImageHeader::decode(&fs::read(written.image.join("superblock")).expect("readable"));
    let layout = Layout::new(&image_header.expect("it is whole"));
    let wanted = &written.bytes[(page * PAGE_BYTES) as usize..((page + 1) * PAGE_BYTES) as usize];
    let mut flash = fs::read(written.image.join("flash")).expect("readable");
    let mut struck = false;
    for data in
        flash[layout.data_offset(wearwell::address::Ppn(0)) as usize..].chunks_mut(PAGE_BYTES as usize)
    {
        if data == wanted {
            data[100] ^= 1;
            struck = true;
        }
    }
    assert!(struck, "page {page} is on the flash");
    fs::write(written.image.join("flash"), flash).expect("writable");
}

#[test]
fn an_image_repair_restores_metadata_and_lists_lost_pages() {
    let written = create_written_image("page-map");
    let page = (0..PAGES)
        .find(|page| written.bytes[(page * PAGE_BYTES) as usize..][..64].iter().any(|&byte| byte != 0))
        .expect("some page holds data");
    damage(&written, page);
    fs::remove_file(written.image.join("nvram")).expect("it exists");
    let to = written.path("repaired");
    let report = repair(&written.image, Some(&to)).expect("there is a copy of it");
    let lost: Vec<u64> = report.lost_pages.iter().map(|(lpn, _)| u64::from(lpn.0)).collect();
    assert!(
        report.metadata_repairs.rewritten_copies > 0 && report.verified_pages > 50 && lost.contains(&page),
        "{report:?}"
    );
    assert!(!written.image.join("nvram").exists(), "the original is as it was");
    let audited = audit(&to).expect("an image");
    assert_eq!((audited.verdict, audited.repairable_metadata_copies), (AuditVerdict::Corrupt, 0));
    let again = repair(&to, None).expect("it is whole");
    assert_eq!((again.metadata_repairs.rewritten_copies, &again.lost_pages), (0, &report.lost_pages));
    // A copy says what it would lose, or leaves it out.
    let refused = copy(&to, &written.path("copy"), &ImageCopyOptions::default(), &mut |_, _| {})
        .expect_err("a page is lost");
    let sentence = refused.to_string();
    assert!(sentence.contains("is lost") && sentence.contains("--leave-lost-out"), "{sentence}");
    assert!(!refused.is_caused_by_request(), "the image is the reason, not the command");
    assert!(!written.path("copy").exists(), "what was begun is removed");
    let changes = ImageCopyOptions { skips_lost_pages: true, ..ImageCopyOptions::default() };
    let copied = copy(&to, &written.path("copy"), &changes, &mut |_, _| {}).expect("there is room");
    assert_eq!(copied.lost_pages.len(), lost.len());
    for (sentence, page) in copied.sentences().zip(&lost) {
        assert!(
            sentence.starts_with(&format!("logical page {page} ({PAGE_BYTES} bytes from byte ")),
            "{sentence}"
        );
    }
    let mut expected = written.bytes.clone();
    for page in lost {
        expected[(page * PAGE_BYTES) as usize..][..PAGE_BYTES as usize].fill(0);
    }
    assert!(contents(&mut device(&written.path("copy"))) == expected);
}

/// Returns the names of all files in the directory that contains an image.
fn file_names_beside_image(written: &WrittenImage) -> Vec<String> {
    let entries = fs::read_dir(written.directory.path()).expect("readable");
    let mut names: Vec<_> =
        entries.map(|entry| entry.expect("readable").file_name().into_string().expect("text")).collect();
    names.sort();
    names
}

#[test]
fn an_enlarged_image_keeps_its_data_and_file_permissions() {
    for design in DESIGNS {
        let written = create_written_image(design);
        let mode =
            |name: &str| fs::metadata(written.image.join(name)).expect("it exists").permissions().mode();
        fs::set_permissions(&written.image, Permissions::from_mode(0o750)).expect("it is ours");
        fs::set_permissions(written.image.join("flash"), Permissions::from_mode(0o640)).expect("it is ours");
        let link = written.path("link");
        std::os::unix::fs::symlink(&written.image, &link).expect("a new name");
        let report = resize(&link, 8 << 20, &mut |_, _| {}).expect("there is room").expect("it was smaller");
        assert_eq!((report.size_bytes, report.design.as_str()), (8 << 20, design));
        assert_eq!(audit(&written.image).expect("an image").verdict, AuditVerdict::Clean, "{design}");
        assert_eq!(file_names_beside_image(&written), ["image", "link"], "{design}");
        assert_eq!((mode("."), mode("flash")), (0o40_750, 0o100_640), "{design}");
        let mut device = device(&link);
        assert_eq!(device.capacity_bytes(), 8 << 20);
        assert!(contents(&mut device) == written.bytes, "{design}");
        device.write((8 << 20) - PAGE_BYTES, &page_of((7, 7), PAGE_BYTES as usize)).expect("there is room");
    }
}

#[test]
fn a_refused_image_resizing_changes_nothing() {
    let written = create_written_image("page-map");
    let grow = |size_bytes| resize(&written.image, size_bytes, &mut |_, _| {});
    let refusal = |size_bytes| grow(size_bytes).expect_err("it is refused").to_string();
    assert!(refusal(4096).contains("the new size, 4096 bytes, is smaller"));
    assert_eq!(grow(PAGES * PAGE_BYTES).expect("nothing is to be done"), None);
    let served = device(&written.image);
    assert!(matches!(grow(8 << 20), Err(ImageError::InUse { .. })));
    drop(served);
    let neighbor = written.path(".image.resizing");
    fs::create_dir(&neighbor).expect("a new name");
    fs::write(neighbor.join("letter"), "not of an image").expect("writable");
    assert!(refusal(8 << 20).contains("has files that are not those of an image"));
    assert_eq!(fs::read(neighbor.join("letter")).expect("it is still there"), b"not of an image");
    fs::remove_dir_all(&neighbor).expect("it is ours");
    assert!(contents(&mut device(&written.image)) == written.bytes);
    let page = (0..PAGES).find(|page| written.bytes[(page * PAGE_BYTES) as usize] != 0).expect("some data");
    damage(&written, page);
    assert!(refusal(8 << 20).contains("is lost"));
    assert_eq!(file_names_beside_image(&written), ["image"], "what was begun is removed");
}

#[test]
fn an_interrupted_image_resizing_leaves_the_old_or_the_larger_image() {
    let written = create_written_image("remap");
    let interrupted =
        catch_unwind(|| resize(&written.image, 8 << 20, &mut |_, _| panic!("the process ends here")));
    assert!(interrupted.is_err());
    assert_eq!(file_names_beside_image(&written), [".image.resizing", "image"]);
    assert!(contents(&mut device(&written.image)) == written.bytes);
    resize(&written.image, 8 << 20, &mut |_, _| {}).expect("the remains are no obstacle");
    assert_eq!(file_names_beside_image(&written), ["image"]);
    // After the exchange the image of before is left.
    let old = written.path(".image.resizing");
    copy(&written.image, &old, &ImageCopyOptions::default(), &mut |_, _| {}).expect("there is room");
    resize(&written.image, 16 << 20, &mut |_, _| {}).expect("the remains are no obstacle");
    assert_eq!(file_names_beside_image(&written), ["image"]);
    assert!(contents(&mut device(&written.image)) == written.bytes);
}

/// Bug: a resizing that ended before it made the first file left an empty directory for good.
#[test]
fn the_next_start_removes_an_empty_directory_of_a_killed_image_resizing() {
    let written = create_written_image("page-map");
    let remains = written.path(".image.resizing");
    fs::create_dir(&remains).expect("a new name");
    drop(device(&written.image));
    assert_eq!(file_names_beside_image(&written), ["image"]);
    // A directory that holds something is somebody else's.
    fs::create_dir(&remains).expect("a new name");
    fs::write(remains.join("letter"), "not of an image").expect("writable");
    drop(device(&written.image));
    assert!(remains.join("letter").exists());
}

/// Regression: if a symbolic link had the name of the directory in which a resizing works, opening the image for writing
/// emptied the directory to which it led.
#[test]
fn a_symbolic_link_in_place_of_the_directory_of_a_resizing_is_not_followed() {
    let written = create_written_image("page-map");
    let (remains, elsewhere) = (written.path(".image.resizing"), written.path("elsewhere"));
    fs::create_dir(&elsewhere).expect("a new name");
    for name in ["session", "letter"] {
        fs::write(elsewhere.join(name), "not of an image").expect("writable");
    }
    std::os::unix::fs::symlink(&elsewhere, &remains).expect("a new name");
    drop(device(&written.image));
    let refused = resize(&written.image, 64 << 20, &mut |_, _| {}).expect_err("the name is taken");
    assert!(refused.to_string().contains("move it away"), "{refused}");
    for name in ["session", "letter"] {
        assert!(elsewhere.join(name).exists(), "{name}");
    }
}

/// Writes to an image in `sessions` sessions, and applies the writes to `bytes`, the expected contents.
fn work_in_sessions(image: &Path, bytes: &mut [u8], sessions: u64, seed: u64) {
    for session in 0..sessions {
        let mut device = device(image);
        write_and_trim_at_random(&mut device, bytes, seed + session);
        device.flush().expect("the disk takes it");
        wearwell_serve::image::close(device.into_live_device()).expect("the disk takes it");
    }
}

/// Checks that every way to open or repair an image refuses files whose `session` and `mirror` come from different
/// copies of the image. `what` names the case in messages.
fn require_foreign_mirror_is_refused(image: &Path, what: &str) {
    let part = "or one of them is of another copy of the image";
    let report = audit(image).expect("an image");
    assert_eq!((report.verdict, report.may_be_rescued), (AuditVerdict::Corrupt, false), "{what}");
    assert!(report.findings[0].contains(part), "{what}: {:?}", report.findings);
    let refused = [
        Image::open(image, PROCESS_DURABILITY).map(drop),
        repair(image, None).map(drop),
        Image::open_for_rescue_on(CopyOnWrite::new(
            OpenImageFiles::open(image, ImageAccess::ReadOnly).expect("files"),
        ))
        .map(drop),
    ];
    for refused in refused {
        let refused = refused.expect_err("one of the files is foreign").to_string();
        assert!(refused.contains(part), "{what}: {refused}");
    }
}

/// Bug: copies of an image have the same checksum salt. If two copies were written and a file was then exchanged
/// between them, the image was served with stale data (design `ib-ftl`), or refused without the reason.
#[test]
fn a_mirror_or_session_file_of_a_diverged_copy_of_an_image_is_refused() {
    for (design, sessions) in
        [("ib-ftl", (1, 1)), ("page-map", (1, 2)), ("wearwell", (3, 1)), ("remap", (2, 2))]
    {
        let mut written = create_written_image(design);
        let other = written.path("other");
        let mut other_bytes = written.bytes.clone();
        fs::create_dir(&other).expect("a new name");
        for file in ImageFile::ALL {
            fs::copy(written.image.join(file.name()), other.join(file.name())).expect("there is room");
        }
        work_in_sessions(&written.image, &mut written.bytes, sessions.0, 100);
        work_in_sessions(&other, &mut other_bytes, sessions.1, 200);
        for file in ["mirror", "session"] {
            let (own, foreign) = (written.image.join(file), other.join(file));
            let bytes = fs::read(&own).expect("readable");
            fs::copy(foreign, &own).expect("there is room");
            require_foreign_mirror_is_refused(&written.image, &format!("{design}: {file}"));
            fs::write(&own, bytes).expect("there is room");
        }
        // As the message advises.
        fs::copy(other.join("mirror"), written.image.join("mirror")).expect("there is room");
        fs::remove_file(written.image.join("mirror")).expect("it exists");
        assert!(contents(&mut device(&written.image)) == written.bytes, "{design}");
        drop(repair(&written.image, None).expect("it is whole"));
        assert_eq!(audit(&written.image).expect("an image").verdict, AuditVerdict::Clean, "{design}");
    }
}

/// A mirror of the original and a mirror of its snapshot are distinguished, although the image is used further in the
/// session in which the snapshot was made.
#[test]
fn a_mirror_of_an_image_and_that_of_its_snapshot_are_told_apart() {
    let mut written = create_written_image("ib-ftl");
    let copy = written.path("snapshot");
    let mut served = device(&written.image);
    served.snapshot(&copy).expect("there is room");
    let mut copy_bytes = written.bytes.clone();
    write_and_trim_at_random(&mut served, &mut written.bytes, 5);
    served.flush().expect("the disk takes it");
    wearwell_serve::image::close(served.into_live_device()).expect("the disk takes it");
    for copy_sessions in [0, 1] {
        work_in_sessions(&copy, &mut copy_bytes, copy_sessions, 6);
        for (image, other) in [(&written.image, &copy), (&copy, &written.image)] {
            let own = fs::read(image.join("mirror")).expect("readable");
            fs::copy(other.join("mirror"), image.join("mirror")).expect("there is room");
            require_foreign_mirror_is_refused(image, "snapshot");
            fs::write(image.join("mirror"), own).expect("there is room");
        }
    }
    assert!(contents(&mut device(&copy)) == copy_bytes);
    assert!(contents(&mut device(&written.image)) == written.bytes);
}

/// Older versions of Wearwell wrote zeros where the number of the session is now.
#[test]
fn an_image_whose_session_record_lacks_a_session_number_is_opened() {
    let written = create_written_image("remap");
    let image_header = ImageHeader::decode(&fs::read(written.image.join("superblock")).expect("readable"));
    let layout = Layout::new(&image_header.expect("it is whole"));
    let bytes: [u8; 64] =
        fs::read(written.image.join("session")).expect("readable").try_into().expect("64 bytes");
    let session = SessionRecord::decode(&bytes, layout.checksum_salt).expect("it is whole");
    assert_ne!(session.session_id, 0);
    let old = SessionRecord { session_id: 0, previous_session_id: 0, ..session }.encode(layout.checksum_salt);
    let mirror = fs::OpenOptions::new().write(true).open(written.image.join("mirror")).expect("writable");
    fs::write(written.image.join("session"), old).expect("writable");
    // One copy may be of the present version, if that was killed when it had written the record of its first session.
    for copy_of_mirror in [session.encode(layout.checksum_salt), old] {
        mirror.write_all_at(&copy_of_mirror, layout.mirror_offset(ImageFile::Session, 0)).expect("writable");
        assert_ne!(audit(&written.image).expect("an image").verdict, AuditVerdict::Corrupt);
    }
    assert!(contents(&mut device(&written.image)) == written.bytes);
}

/// Regression: files that a user had put beside the files of an image were left in the hidden directory of the old
/// image. Therefore this directory stayed.
#[test]
fn enlarging_an_image_keeps_foreign_files_in_its_directory() {
    let written = create_written_image("page-map");
    fs::write(written.image.join("letter"), "not of an image").expect("writable");
    fs::create_dir(written.image.join("folder")).expect("a new name");
    fs::write(written.image.join("folder/flash"), "not of an image either").expect("writable");
    resize(&written.image, 8 << 20, &mut |_, _| {}).expect("there is room").expect("it was smaller");
    assert_eq!(file_names_beside_image(&written), ["image"]);
    assert_eq!(fs::read(written.image.join("letter")).expect("it is still there"), b"not of an image");
    let inner = fs::read(written.image.join("folder/flash")).expect("it is still there");
    assert_eq!(inner, b"not of an image either");
    assert!(contents(&mut device(&written.image)) == written.bytes);
}

/// Regression: if a resizing was killed after the exchange of the directories, a second copy of all data stayed until
/// the next resizing, together with files of the user.
#[test]
fn the_next_start_clears_what_a_killed_image_resizing_left() {
    let written = create_written_image("page-map");
    let old = written.path(".image.resizing");
    let changes = ImageCopyOptions { size_bytes: Some(8 << 20), ..ImageCopyOptions::default() };
    let leave_remains = |letter: &str| {
        copy(&written.image, &old, &changes, &mut |_, _| {}).expect("there is room");
        fs::write(old.join("letter"), letter).expect("writable");
    };
    leave_remains("first");
    // Whoever only reads changes nothing.
    assert_eq!(audit(&written.image).expect("an image").verdict, AuditVerdict::Clean);
    assert_eq!(file_names_beside_image(&written), [".image.resizing", "image"]);
    assert!(contents(&mut device(&written.image)) == written.bytes);
    assert_eq!(file_names_beside_image(&written), ["image"]);
    let letter = || fs::read_to_string(written.image.join("letter")).expect("it is here");
    assert_eq!(letter(), "first");
    // A file never replaces another one.
    leave_remains("second");
    assert!(contents(&mut device(&written.image)) == written.bytes);
    assert_eq!(letter(), "first");
    assert_eq!(fs::read_to_string(old.join("letter")).expect("it is still there"), "second");
    assert!(!old.join("flash").exists(), "the second copy of the data is gone");
    let refused = resize(&written.image, 8 << 20, &mut |_, _| {}).expect_err("it needs the name");
    assert!(refused.to_string().contains("move it away. If an earlier resize was interrupted"), "{refused}");
}

/// Regression: an interrupted copy left an image that lacked pages and was served as a good one.
#[test]
fn an_interrupted_copy_of_an_image_is_no_image() {
    let written = create_written_image("remap");
    let to = written.path("copy");
    let copy = |progress: &mut dyn FnMut(u64, u64)| {
        copy(&written.image, &to, &ImageCopyOptions::default(), progress)
    };
    let interrupted =
        catch_unwind(std::panic::AssertUnwindSafe(|| copy(&mut |_, _| panic!("the process ends here"))));
    assert!(interrupted.is_err());
    let opened = Image::open(&to, PROCESS_DURABILITY).expect_err("it lacks pages");
    assert!(matches!(opened, ImageError::Unfinished), "{opened}");
    copy(&mut |_, _| ()).expect("the remains are no obstacle");
    assert_eq!(audit(&to).expect("an image").verdict, AuditVerdict::Clean);
    assert!(contents(&mut device(&to)) == written.bytes);
}

/// Gives an image the state that a kill leaves while `repair --to` or a snapshot copies it. All files exist, and both
/// copies of the header lack the part that is written last.
fn leave_unfinished_copy(image: &Path) {
    let open = |name: &str| fs::OpenOptions::new().write(true).open(image.join(name)).expect("it exists");
    open("superblock").set_len(0).expect("writable");
    open("mirror").write_all_at(&[0; 8], 0).expect("writable");
}

/// Gives an image the state that a kill leaves while `wearwell create` writes the image header: only the first 4096
/// bytes of the header are written.
fn leave_incomplete_image_header(image: &Path) {
    let open = |name: &str| fs::OpenOptions::new().write(true).open(image.join(name)).expect("it exists");
    open("superblock").set_len(4096).expect("writable");
    open("mirror").write_all_at(&[0; 8192], 0).expect("writable");
}

/// Bug: `check` and `serve` called these directories corrupt images. If the header was incomplete, a repetition of the
/// command was refused because of an image in the directory.
#[test]
fn a_directory_whose_creation_or_copy_was_killed_at_its_end_is_no_image_and_can_be_used_again() {
    let written = create_written_image("remap");
    for leave in [leave_unfinished_copy, leave_incomplete_image_header] {
        let to = written.path("copy");
        repair(&written.image, Some(&to)).expect("a new directory");
        leave(&to);
        let audited = audit(&to).expect_err("it is no image");
        assert!(matches!(audited, ImageError::Unfinished), "{audited}");
        let on_files = OpenImageFiles::open(&to, ImageAccess::ReadOnly).expect_err("it is no image");
        assert!(matches!(on_files, ImageError::Unfinished), "{on_files}");
        let opened = Image::open(&to, PROCESS_DURABILITY).expect_err("it is no image");
        assert!(matches!(opened, ImageError::Unfinished), "{opened}");
        repair(&written.image, Some(&to)).expect("the remains are no obstacle");
        assert!(contents(&mut device(&to)) == written.bytes);
        fs::remove_dir_all(&to).expect("it is ours");
    }
}

/// An image with one damaged copy of its header does not count as unfinished, so the next command does not replace it.
#[test]
fn an_image_with_one_damaged_superblock_is_never_replaced() {
    let damages: [fn(&Path); 3] = [
        |image| {
            let file = fs::OpenOptions::new().write(true).open(image.join("superblock")).expect("it exists");
            file.set_len(4096).expect("writable");
        },
        |image| fs::write(image.join("superblock"), []).expect("writable"),
        |image| {
            let file = fs::OpenOptions::new().write(true).open(image.join("mirror")).expect("it exists");
            file.write_all_at(&[0; 8192], 0).expect("writable");
        },
    ];
    for damage in damages {
        let (written, other) = (create_written_image("page-map"), create_written_image("page-map"));
        damage(&written.image);
        assert_eq!(audit(&written.image).expect("an image").verdict, AuditVerdict::Unclean);
        let refused = repair(&other.image, Some(&written.image)).expect_err("there is one").to_string();
        assert!(refused.contains("the directory holds an image already"), "{refused}");
        assert!(contents(&mut device(&written.image)) == written.bytes);
    }
}

/// Bug: some designs cannot have an image. The error message for such a design recommended the parts of the same
/// design, which does not help.
#[test]
fn copying_an_image_to_an_unsupported_design_is_refused_with_advice() {
    let written = create_written_image("page-map");
    let changes = ImageCopyOptions { design: Some("u-ftl".into()), ..ImageCopyOptions::default() };
    let refused =
        copy(&written.image, &written.path("copy"), &changes, &mut |_, _| {}).expect_err("no battery");
    let sentence = refused.to_string();
    assert!(
        sentence.contains("need a battery") && sentence.ends_with("; choose another design"),
        "{sentence}"
    );
    assert!(refused.is_caused_by_request());
}

/// Regression: if the configuration of an image replaced parts of its design, a copy to another design kept the
/// replaced parts. The copy then had the name of one design and mechanisms of another.
#[test]
fn an_image_copied_to_another_design_has_the_parts_of_that_design() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let image = directory.path().join("image");
    let exchanged = ["parts.content=dedup", "parts.map=cached", "parts.validity=gecko"];
    create(&image, &with_settings("page-map", 4096, &exchanged)).expect("a new directory");
    for design in DESIGNS {
        let to = directory.path().join(design);
        for settings in [vec![], vec!["parts.content=none".to_owned()]] {
            let changes =
                ImageCopyOptions { design: Some(design.into()), settings, ..ImageCopyOptions::default() };
            copy(&image, &to, &changes, &mut |_, _| {}).expect("there is room");
            let copied = Image::open(&to, PROCESS_DURABILITY).expect("an image");
            let parts: Vec<_> = copied
                .image_header
                .config_toml
                .lines()
                .skip_while(|&line| line != "[parts]")
                .skip(1)
                .collect();
            let parts: Vec<_> = parts.into_iter().take_while(|line| !line.is_empty()).collect();
            let expected = if changes.settings.is_empty() { vec![] } else { vec!["content = []"] };
            assert_eq!(parts, expected, "{design}: {}", copied.image_header.config_toml);
            drop(copied);
            fs::remove_dir_all(&to).expect("it is ours");
        }
    }
    let (wearwell, dftl) = (directory.path().join("wearwell"), directory.path().join("dftl"));
    create(&wearwell, &with_settings("wearwell", 4096, &[])).expect("a new directory");
    let changes = ImageCopyOptions { design: Some("dftl".into()), ..ImageCopyOptions::default() };
    copy(&wearwell, &dftl, &changes, &mut |_, _| {}).expect("there is room");
    let config = Image::open(&dftl, PROCESS_DURABILITY).expect("an image").image_header.config_toml;
    assert!(!config.contains("least_cache_entries"), "that is the minimum of `wearwell`: {config}");
    let to = directory.path().join("same");
    copy(&image, &to, &ImageCopyOptions::default(), &mut |_, _| {}).expect("there is room");
    let copied = Image::open(&to, PROCESS_DURABILITY).expect("an image");
    assert!(
        copied.image_header.config_toml.contains("content = [\"dedup\"]"),
        "without a design, a copy has the same parts"
    );
}

/// Flips a bit in the data of every flash page that holds data which no logical page needs.
fn damage_dead_pages(image: &Path) {
    let image_header = ImageHeader::decode(&fs::read(image.join("superblock")).expect("readable"));
    let layout = Layout::new(&image_header.expect("it is whole"));
    let mut device = Image::open(image, PROCESS_DURABILITY).expect("an image").device;
    let mut flash = fs::read(image.join("flash")).expect("readable");
    for ppn in (0..layout.geometry.pages() as u32).map(wearwell::address::Ppn) {
        if !device.may_hold_needed_data(ppn).expect("a medium with power") {
            flash[layout.data_offset(ppn) as usize + 5] ^= 1;
        }
    }
    wearwell_serve::image::close(device).expect("the disk takes it");
    fs::write(image.join("flash"), flash).expect("writable");
}

/// Regression: damage in a page that no logical page needs stayed after a repair that reported success, so that `check`
/// called the image corrupt for as long as garbage collection left the page alone.
#[test]
fn an_image_is_clean_after_the_repair_of_damage_that_loses_no_logical_page() {
    for design in DESIGNS {
        let mut written = create_written_image(design);
        damage_dead_pages(&written.image);
        let before = audit(&written.image).expect("an image");
        let report = repair(&written.image, None).expect("it can be repaired");
        assert_eq!((&report.lost_pages[..], &report.damaged_pages_left[..]), (&[][..], &[][..]), "{design}");
        assert_eq!(report.pages_marked_lost.len(), before.findings.len(), "{design}: {:?}", before.findings);
        let has_validity_in_ram =
            matches!(design, "page-map" | "recyclable" | "remap" | "delta" | "integrated");
        assert!(!has_validity_in_ram || report.pages_marked_lost.len() > 20, "{design}: {report:?}");
        assert!(!report.leaves_damage(), "{design}");
        let after = audit(&written.image).expect("an image");
        assert_eq!((after.verdict, after.findings), (AuditVerdict::Clean, vec![]), "{design}");
        let again = repair(&written.image, None).expect("it is whole");
        assert_eq!(
            (again.metadata_repairs.rewritten_copies, again.pages_marked_lost),
            (0, vec![]),
            "{design}"
        );
        // No mechanism takes a marked page for its former content.
        let mut device = device(&written.image);
        assert!(contents(&mut device) == written.bytes, "{design}");
        write_and_trim_at_random(&mut device, &mut written.bytes, 1);
        assert!(contents(&mut device) == written.bytes, "{design}");
        device.check_engine_invariants().expect("every law holds");
    }
}

/// Settings that only replays read are refused for new images, but images of older versions may have them.
#[test]
fn an_image_with_settings_of_replays_can_be_copied_and_made_larger() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let image = directory.path().join("image");
    let mut image_header =
        with_settings("page-map", 4096, &[]).build_image_header(7).expect("the device fits");
    image_header.config_toml = image_header.config_toml.replace("suspend = false", "suspend = true");
    assert!(image_header.config_toml.contains("suspend = true"));
    create_on(&mut OpenImageFiles::create(&image).expect("a new directory"), &image_header)
        .expect("there is room");
    resize(&image, 8 << 20, &mut |_, _| {}).expect("there is room").expect("it was smaller");
    let config = Image::open(&image, PROCESS_DURABILITY).expect("an image").image_header.config_toml;
    assert!(config.contains("suspend = false"), "{config}");
}

/// Regression: a repair that was refused left its copy of the image behind.
#[test]
fn a_refused_repair_of_an_image_removes_the_copy_that_it_made() {
    let written = create_written_image("page-map");
    for file in ["nvram", "mirror"] {
        let path = written.image.join(file);
        let len = fs::metadata(&path).expect("it exists").len();
        let image_header = fs::read(written.image.join("superblock")).expect("readable");
        let mut bytes = vec![0x55; len as usize];
        if file == "mirror" {
            bytes[..image_header.len()].copy_from_slice(&image_header);
        }
        fs::write(&path, bytes).expect("writable");
    }
    let refused = repair(&written.image, Some(&written.path("repaired"))).expect_err("both copies are lost");
    assert!(matches!(refused, ImageError::Damaged { .. }), "{refused}");
    assert_eq!(file_names_beside_image(&written), ["image"]);
    // What somebody else has made stays.
    let other = written.path("other");
    fs::create_dir(&other).expect("a new name");
    fs::write(other.join("flash"), "of somebody else").expect("writable");
    repair(&written.image, Some(&other)).expect_err("the directory exists");
    assert_eq!(fs::read(other.join("flash")).expect("it is still there"), b"of somebody else");
    // So does an empty directory, with its owner and its mode.
    let empty = written.path("empty");
    fs::create_dir(&empty).expect("a new name");
    repair(&written.image, Some(&empty)).expect_err("both copies are lost");
    assert_eq!(fs::read_dir(&empty).expect("it is still there").count(), 0);
}

/// Name of the environment variable that makes a test run its body. Such a test changes the limits of its process, so
/// it is started in a process of its own.
const OWN_PROCESS_ENVIRONMENT_VARIABLE: &str = "WEARWELL_TEST_HAS_OWN_PROCESS";

/// Runs a test of this file again in a process of its own, with more environment variables. The process ignores
/// SIGXFSZ, so that a write beyond its limit on the size of files is refused, as on a full disk.
fn run_in_own_process(test: &str, variables: &[(&str, &str)]) {
    let output = Command::new("sh")
        .args(["-c", "trap '' XFSZ; exec \"$@\"", "sh"])
        .arg(std::env::current_exe().expect("this test has a file"))
        .args(["--ignored", "--exact", &format!("image_copy::{test}"), "--test-threads=1"])
        .env(OWN_PROCESS_ENVIRONMENT_VARIABLE, "1")
        .envs(variables.iter().copied())
        .output()
        .expect("there is a shell");
    let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
}

#[test]
fn an_image_is_flushed_by_a_process_that_can_start_no_thread() {
    // Stacks of this size fit into no address space.
    run_in_own_process(
        "the_own_process_flushes_without_threads",
        &[("RUST_MIN_STACK", "4611686018427387904")],
    );
}

/// Body of the test that runs in a process of its own. Regression: a flush started threads to sync the files of an
/// image at once, and panicked if none could be started.
#[test]
#[ignore = "needs a process without threads; an_image_is_flushed_by_a_process_that_can_start_no_thread starts it"]
fn the_own_process_flushes_without_threads() {
    assert!(std::thread::Builder::new().spawn(|| ()).is_err(), "this test is started by another one");
    let directory = tempfile::tempdir().expect("a temporary directory");
    let image = directory.path().join("image");
    create(&image, &with_settings("page-map", 4096, &[])).expect("a new directory");
    let mut opened = Image::open(&image, image_support::HOST_DURABILITY).expect("an image");
    for page in 0..PAGES {
        opened.device.write(page * PAGE_BYTES, &[7; PAGE_BYTES as usize]).expect("there is room");
    }
    opened.device.flush().expect("the files are synced one after the other");
    opened.close().expect("the disk takes it");
    assert!(contents(&mut device(&image)).iter().all(|&byte| byte == 7));
}

/// Limits the size of the files that this process may write, bytes; `None` means no limit.
fn limit_file_size(bytes: Option<u64>) {
    let maximum = getrlimit(Resource::Fsize).maximum;
    setrlimit(Resource::Fsize, Rlimit { current: bytes, maximum }).expect("a lower limit is permitted");
}

#[test]
fn a_snapshot_on_a_full_disk_leaves_no_files() {
    run_in_own_process("the_own_process_takes_a_snapshot_on_a_full_disk", &[]);
}

/// Body of the test that runs in a process of its own. Regression: a failed snapshot left its files behind.
#[test]
#[ignore = "changes the limits of its process; a_snapshot_on_a_full_disk_leaves_no_files starts it"]
fn the_own_process_takes_a_snapshot_on_a_full_disk() {
    assert!(
        std::env::var_os(OWN_PROCESS_ENVIRONMENT_VARIABLE).is_some(),
        "this test is started by another one"
    );
    let written = create_written_image("page-map");
    let mut original = device(&written.image);
    let at = written.path("snapshot");
    let line = format!("{{\"command\": \"snapshot\", \"directory\": \"{}\"}}", at.display());
    limit_file_size(Some(4096));
    let reply: Json =
        serde_json::from_str(&answer_control_line(line.as_bytes(), &mut original)).expect("JSON");
    limit_file_size(None);
    let error = reply["error"].as_str().expect("the disk is full");
    assert!(error.starts_with("cannot copy the image to") && error.contains("File too large"), "{error}");
    assert_eq!(file_names_beside_image(&written), ["image"], "what was begun is removed");
}

#[test]
fn a_copy_of_an_image_to_a_full_disk_is_refused_with_the_reason() {
    run_in_own_process("the_own_process_copies_an_image_to_a_full_disk", &[]);
}

/// Body of the test that runs in a process of its own. Regression: a full disk was reported as a failure of the healthy
/// image that was copied.
#[test]
#[ignore = "changes the limits of its process; a_copy_of_an_image_to_a_full_disk_is_refused_with_the_reason starts it"]
fn the_own_process_copies_an_image_to_a_full_disk() {
    assert!(
        std::env::var_os(OWN_PROCESS_ENVIRONMENT_VARIABLE).is_some(),
        "this test is started by another one"
    );
    let written = create_written_image("page-map");
    let fill = &mut |_, _| limit_file_size(Some(4096));
    let to = written.path("copy");
    let refused =
        copy(&written.image, &to, &ImageCopyOptions::default(), fill).expect_err("the disk is full");
    let message = refused.message_about(&written.image);
    assert!(
        message.starts_with(&format!("the files of the image cannot be used: cannot write {}", to.display())),
        "{message}"
    );
    assert!(
        message.contains("File too large") && !message.contains("the next request that writes"),
        "{message}"
    );
    limit_file_size(None);
    let refused = resize(&written.image, 8 << 20, fill).expect_err("the disk is full");
    let message = refused.message_about(&written.image);
    let hidden = written.path(".image.resizing");
    assert!(
        message.starts_with(&format!(
            "the files of the image cannot be used: cannot write {}",
            hidden.display()
        )),
        "{message}"
    );
    limit_file_size(None);
    assert_eq!(file_names_beside_image(&written), ["image"], "what was begun is removed");
}

#[test]
fn an_image_served_read_only_is_not_changed() {
    let written = create_written_image("remap");
    let files = || ImageFile::ALL.map(|file| fs::read(written.image.join(file.name())).expect("readable"));
    let before = files();
    let view = |image: &Path| {
        let files = OpenImageFiles::open(image, ImageAccess::ReadOnly).expect("nobody writes it");
        let image = Image::open_on(CopyOnWrite::new(files), PROCESS_DURABILITY).expect("an image");
        let identity = image.health_facts();
        FlashDevice::new(image.device, identity).expect("it keeps bytes").into_read_only()
    };
    let (mut one, mut other) = (view(&written.image), view(&written.image));
    assert!(one.is_read_only());
    assert!(contents(&mut one) == written.bytes && contents(&mut other) == written.bytes);
    let refused =
        [one.write(0, &[1; 4096]), one.trim(0, 4096), one.zero(0, 4096, true), one.write(7, &[1; 9])];
    for refused in refused {
        assert!(matches!(refused, Err(DeviceError::ReadOnly)), "{refused:?}");
    }
    let remap = br#"{"command": "remap", "ranges": [{"target": 0, "source": 4096, "len": 4096}]}"#;
    let reply: Json = serde_json::from_str(&answer_control_line(remap, &mut one)).expect("JSON");
    assert_eq!(
        reply["error"],
        "the device is served read-only: to write to it, start the server without --read-only; a damaged image that is \
         served with --rescue must first be restored from a copy"
    );
    let snapshot = format!(r#"{{"command": "snapshot", "directory": "{}"}}"#, written.path("copy").display());
    let reply: Json =
        serde_json::from_str(&answer_control_line(snapshot.as_bytes(), &mut one)).expect("JSON");
    let error = reply["error"].as_str().expect("it is refused");
    assert!(error.contains("served read-only") && error.contains("copy its directory"), "{error}");
    one.flush().expect("there is nothing to do");
    assert!(matches!(Image::open(&written.image, PROCESS_DURABILITY), Err(ImageError::InUse { .. })));
    assert!(contents(&mut one) == written.bytes);
    assert!(files() == before, "no file is changed");
}
