//! Tests of the upgrade of archived images of format version 1: after the upgrade they hold the data that was written
//! to them.
//!
//! Each of the archives in `version1/` is an image and a text with a line for each page that was written: its number,
//! and two numbers that its content is made of.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use image_support::{MemoryFiles, PROCESS_DURABILITY};
use wearwell_serve::image::{
    AuditVerdict, Backing as _, Image, ImageError, ImageFile, OpenImageFiles, audit, upgrade, upgrade_on,
};

use crate::image_support;

/// Size of a page, bytes.
const PAGE_BYTES: usize = 4096;
/// Number of logical pages of the archived images.
const PAGES: u64 = 128;
/// Designs of the archived images of format version 1. Their last sessions, in this order: killed with durability
/// `process`, killed with durability `host`, and closed properly. The fourth design has its map on flash.
const DESIGNS: [&str; 4] = ["page-map", "remap", "integrated", "wearwell"];

/// An unpacked archive: an image of format version 1, and the expected contents of its pages.
struct Archive {
    /// Directory of the unpacked files, which exists as long as this value.
    _directory: tempfile::TempDir,
    /// Path of the image.
    image: PathBuf,
    /// For each page that was written: the page number and version from which [`content`] makes its content.
    content_numbers_by_page: BTreeMap<u64, (u64, u64)>,
}

/// Unpacks the archive of the image of this design.
fn unpack_archive(design: &str) -> Archive {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let name = format!("v1-{design}");
    let archive = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/version1/{name}.tar.xz"));
    let status = Command::new("tar").arg("-xJf").arg(&archive).arg("-C").arg(directory.path()).status();
    assert!(status.expect("tar and xz are installed").success(), "{}", archive.display());
    let text =
        fs::read_to_string(directory.path().join(format!("{name}.txt"))).expect("it is in the archive");
    let line = |line: &str| {
        let numbers: Vec<u64> = line.split(' ').map(|number| number.parse().expect("a number")).collect();
        (numbers[0], (numbers[1], numbers[2]))
    };
    Archive {
        image: directory.path().join(name),
        content_numbers_by_page: text.lines().map(line).collect(),
        _directory: directory,
    }
}

/// Makes the content of a page from a page number and a version, which the archive stores for each page.
fn content(page: u64, version: u64) -> Vec<u8> {
    let mut bytes = format!("page {page} version {version}\n").repeat(300).into_bytes();
    bytes.truncate(PAGE_BYTES);
    bytes
}

impl Archive {
    /// Compares every page of the opened image with what was written before the upgrade. `what` names the case in the
    /// message of a failure.
    fn compare(&self, image: &mut Image, what: &str) {
        let mut bytes = vec![0; PAGE_BYTES];
        for page in 0..PAGES {
            image.device.read(page * PAGE_BYTES as u64, &mut bytes).expect("nothing is lost");
            let expected = self
                .content_numbers_by_page
                .get(&page)
                .map_or(vec![0; PAGE_BYTES], |&(page, version)| content(page, version));
            assert!(bytes == expected, "{what}: page {page}");
        }
        image.device.check().expect("the laws hold");
    }

    /// Returns a copy of the image's files in memory.
    fn files(&self) -> MemoryFiles {
        let mut files = MemoryFiles::default();
        for file in ImageFile::ALL {
            if let Ok(bytes) = fs::read(self.image.join(file.name())) {
                files.write(file, &bytes, 0).expect("memory takes everything");
            }
        }
        files
    }
}

#[test]
fn an_image_of_version_1_is_refused_until_upgraded_and_then_holds_all_data() {
    for design in DESIGNS {
        let archive = unpack_archive(design);
        let refused =
            Image::open(&archive.image, PROCESS_DURABILITY).map(drop).expect_err("it is of version 1");
        assert!(matches!(refused, ImageError::UnsupportedVersion { image_version: 1, .. }), "{refused}");
        assert!(refused.to_string().ends_with("upgrade the image with `wearwell upgrade`"), "{refused}");
        let image_header = upgrade(&archive.image).expect("it is whole");
        assert_eq!(image_header.design, design);
        let report = audit(&archive.image).expect("an image");
        assert_eq!((report.verdict, report.findings), (AuditVerdict::Clean, vec![]), "{design}");
        let mut image = Image::open(&archive.image, PROCESS_DURABILITY).expect("it was brought up");
        archive.compare(&mut image, design);
        image.close().expect("the disk takes it");
        let again = upgrade(&archive.image).map(drop).expect_err("there is nothing to do");
        assert_eq!(
            again.to_string(),
            "the image has format version 2 already, and needs no upgrade: use it as it is"
        );
    }
}

/// If an upgrade ends between any two writes, it leaves an image of version 1 that can be upgraded, or one of version
/// 2.
#[test]
fn an_image_upgrade_interrupted_between_any_two_writes_can_be_repeated() {
    for design in DESIGNS {
        let archive = unpack_archive(design);
        let mut files = archive.files();
        files.log = Some(Vec::new());
        let kept = std::sync::Arc::new(std::sync::Mutex::new(MemoryFiles::default()));
        files.files_at_last_sync = Some(kept.clone());
        upgrade_on(files).expect("it is whole");
        let log = kept.lock().expect("nobody failed").log.clone().expect("it was recorded");
        let (mut old, mut new) = (0, 0);
        let mut ended = archive.files();
        for (k, (file, offset, bytes)) in log.iter().enumerate() {
            // Most writes are OOB and come one after the other.
            if k % 7 == 0 || k + 100 > log.len() {
                let what = format!("{design} ended before write {k}");
                match Image::open_on(ended.clone(), PROCESS_DURABILITY) {
                    Ok(mut image) => {
                        archive.compare(&mut image, &what);
                        new += 1;
                    }
                    Err(error) => {
                        assert!(
                            matches!(error, ImageError::UnsupportedVersion { image_version: 1, .. }),
                            "{what}: {error}"
                        );
                        if old % 10 == 0 {
                            upgrade_on(ended.clone()).unwrap_or_else(|error| panic!("{what}: {error}"));
                        }
                        old += 1;
                    }
                }
            }
            ended.write(*file, bytes, *offset).expect("memory takes everything");
        }
        assert!(old > 20 && new > 5, "{design}: {old} of version 1, {new} of version 2");
    }
}

/// A damaged image is not upgraded: it stays an unchanged image of version 1.
#[test]
fn an_upgrade_leaves_a_damaged_image_of_version_1_unchanged() {
    let archive = unpack_archive("page-map");
    let nvram = archive.image.join("nvram");
    let mut bytes = fs::read(&nvram).expect("it is in the archive");
    bytes[20] ^= 1;
    fs::write(&nvram, &bytes).expect("writable");
    let error = upgrade(&archive.image).map(drop).expect_err("a word is damaged");
    assert!(error.to_string().contains("word 1 of the NVRAM must be intact, but is damaged"), "{error}");
    assert_eq!(fs::read(&nvram).expect("it is there"), bytes);
    let files =
        OpenImageFiles::open(&archive.image, wearwell_serve::image::ImageAccess::ReadOnly).expect("an image");
    assert_eq!(files.len(ImageFile::Mirror).expect("it was created empty"), 0);
}
