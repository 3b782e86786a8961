//! A flipped byte anywhere in an image is refused or repaired with a sentence; what is served is what was written.

mod image_support;

use image_support::{
    DESIGNS, HOST, MemoryFiles, Op, Oracle, PROCESS, Script, Violation, perform, specification,
};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use wearwell_serve::image::{Backing as _, Image, ImageFile, OpenOptions, Verdict, audit_of, create_on};

/// An image after some work, flushed, whose session did not close it.
fn worked_on(design: &str, options: OpenOptions) -> (MemoryFiles, Oracle) {
    let mut files = MemoryFiles::default();
    let superblock = specification(design, 1024).superblock(7).expect("the device fits");
    create_on(&mut files, &superblock).expect("memory takes everything");
    let mut image = Image::open_on(files, options).expect("a new image");
    let mut oracle = Oracle::new(200);
    let mut script = Script::new(17, 200);
    for number in 0..1500 {
        let op = if number == 1499 { Op::Flush } else { script.draw() };
        oracle.issue(op);
        perform(&mut image.device, op).expect("there is room");
        oracle.acknowledge(op);
    }
    (image.into_backing(), oracle)
}

#[derive(Default, Debug)]
struct Tally {
    refused: u32,
    unreadable: u32,
    harmless: u32,
}

/// Opens a changed image; nothing but the truth or an error may come out of it.
fn judge(files: MemoryFiles, oracle: &Oracle, what: &str, tally: &mut Tally) {
    let audited = audit_of(files.clone());
    let mut image = match Image::open_on(files, PROCESS) {
        Ok(image) => image,
        Err(error) => {
            assert!(error.to_string().len() > 20, "{what}: `{error}` is no sentence");
            assert!(
                audited.is_ok_and(|report| report.verdict == Verdict::Corrupt)
                    || what.starts_with("Superblock"),
                "{what}: {error}"
            );
            tally.refused += 1;
            return;
        }
    };
    let violations = oracle.clone().judge(&mut image.device);
    let is_error = |violation: &Violation| matches!(violation, Violation::Unreadable(..));
    assert!(violations.iter().all(is_error), "{what}: {violations:?}");
    if violations.is_empty() {
        tally.harmless += 1;
    } else {
        assert_eq!(audited.expect("an image").verdict, Verdict::Corrupt, "{what}");
        tally.unreadable += 1;
    }
}

#[test]
fn a_flipped_byte_is_never_served() {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(3);
    for design in DESIGNS {
        for options in [PROCESS, HOST] {
            let (files, oracle) = worked_on(design, options);
            let mut tally = Tally::default();
            for file in ImageFile::ALL {
                let length = files.len(file).expect("memory answers");
                for _ in 0..if length == 0 { 0 } else { 60 } {
                    let mut files = files.clone();
                    let at = random.random_range(0..length) as usize;
                    files.bytes_mut(file)[at] ^= 1 << random.random_range(0..8);
                    judge(files, &oracle, &format!("{file:?} byte {at} of {design}"), &mut tally);
                }
            }
            println!("{design} {options:?}: {tally:?}");
            assert!(tally.refused > 50, "damage is found: {tally:?}");
        }
    }
}

#[test]
fn every_byte_of_small_records_is_guarded() {
    let (files, oracle) = worked_on("page-map", PROCESS);
    let mut tally = Tally::default();
    // The record of the first block, the superblock's fields, the session.
    for (file, range) in [
        (ImageFile::Flash, 0..64),
        (ImageFile::Superblock, 8..104),
        (ImageFile::Session, 0..64),
        (ImageFile::Nvram, 0..64),
    ] {
        for at in range {
            let mut files = files.clone();
            files.bytes_mut(file)[at] ^= 0x10;
            judge(files, &oracle, &format!("{file:?} byte {at}"), &mut tally);
        }
    }
    assert_eq!((tally.unreadable, tally.harmless), (0, 0), "every one of these bytes is needed");
}

#[test]
fn a_record_in_the_wrong_place_or_of_another_image_is_damage() {
    let (files, oracle) = worked_on("page-map", PROCESS);
    let mut tally = Tally::default();
    let mut swapped = files.clone();
    let nvram = swapped.bytes_mut(ImageFile::Nvram);
    let (first, second) = (nvram[..16].to_vec(), nvram[16..32].to_vec());
    nvram[..16].copy_from_slice(&second);
    nvram[16..32].copy_from_slice(&first);
    judge(swapped, &oracle, "Nvram words exchanged", &mut tally);
    let mut other = MemoryFiles::default();
    create_on(&mut other, &specification("page-map", 1024).superblock(8).expect("it fits")).expect("memory");
    let mut mixed = files;
    *mixed.bytes_mut(ImageFile::Nvram) = other.bytes(ImageFile::Nvram).to_vec();
    judge(mixed, &oracle, "Nvram of another image", &mut tally);
    assert_eq!(tally.refused, 2);
}
