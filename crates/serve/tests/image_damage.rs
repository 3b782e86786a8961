//! A flipped byte anywhere in an image is refused or repaired with a sentence; what is served is what was written.

use crate::image_support;

use image_support::{
    DESIGNS, HOST, MemoryFiles, Op, Oracle, PROCESS, Script, Violation, perform, specification,
};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use wearwell::address::Ppn;
use wearwell_serve::image::layout::{Layout, Superblock};
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
    flip_bytes_of(&DESIGNS);
}

/// Numbers of chunks are given again. A flipped byte in the directory of a chunk gave its number to an older chunk, which was
/// still on flash, and other pages were read in place of the members.
#[test]
fn a_chunk_with_a_damaged_directory_is_not_taken_for_an_older_one() {
    let (files, oracle) = worked_on("integrated", PROCESS);
    let layout = Layout::new(&specification("integrated", 1024).superblock(7).expect("the device fits"));
    let spare = layout.spare_at(Ppn(0)) as usize..layout.data_at(Ppn(0)) as usize;
    let mut tally = Tally::default();
    for at in spare.step_by(37) {
        let mut files = files.clone();
        files.bytes_mut(ImageFile::Flash)[at] ^= 4;
        judge(files, &oracle, &format!("spare byte {at}"), &mut tally);
    }
    assert!(tally.refused > 0, "some directories are referred to: {tally:?}");
}

fn flip_bytes_of(designs: &[&'static str]) {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(3);
    for &design in designs {
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

/// The fuzzer forged words of NVRAM with good checksums, and recovery panicked: "the bind of page 42 to 109 was never
/// recorded". What is whole and contradicts itself is refused like any damage.
#[test]
fn forged_words_of_nvram_end_in_a_sentence_and_not_in_a_panic() {
    let mut contradictions = 0;
    for design in DESIGNS {
        let (files, _) = worked_on(design, PROCESS);
        let layout =
            Layout::new(&Superblock::decode(files.bytes(ImageFile::Superblock)).expect("it is whole"));
        for index in (0..layout.nvram_words).step_by(5) {
            let mut files = files.clone();
            let word = &mut files.bytes_mut(ImageFile::Nvram)[index as usize * 16..][..16];
            let value = u64::from_le_bytes(word[..8].try_into().expect("eight bytes"));
            word.copy_from_slice(&layout.encode_word(index, value ^ 3 << (index % 40)));
            let audited = audit_of(files.clone()).expect("it can be looked at");
            if let Err(error) = Image::open_on(files, PROCESS) {
                assert_eq!(audited.verdict, Verdict::Corrupt, "{design} word {index}: {error}");
                assert!(error.to_string().contains("restore from a copy"), "{design} word {index}: {error}");
                contradictions += u32::from(error.to_string().contains("contradict"));
            }
        }
    }
    assert!(contradictions > 0, "an invariant of recovery has to be broken");
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
