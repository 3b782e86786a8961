//! Tests that an unreadable flash page loses only its own logical pages. Reads of these return errors until they are
//! overwritten, whatever garbage collection and restarts do. Writes continue, and all other data stays as written.
//!
//! The story: one flipped byte in one page stopped every write to every address for good, as soon as garbage collection
//! chose the block of that page.

use std::collections::{BTreeMap, BTreeSet};

use image_support::{
    BlockContent, DESIGNS, MemoryFiles, OWNER_OF_SHARED_CONTENT, Op, PROCESS_DURABILITY, files_of, medium_of,
    medium_of_mut, page_of, perform, specification,
};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use serde_json::Value as Json;
use wearwell::address::{Lpn, Ppn};
use wearwell::nand::FaultInjectable as _;
use wearwell_serve::control::answer_control_line;
use wearwell_serve::image::layout::{ImageHeader, Layout, OobSlot};
use wearwell_serve::image::{AuditVerdict, Image, ImageFile, audit_backing, create_on};
use wearwell_serve::{FlashDevice, LiveDevice};

use crate::common::log::Lines;
use crate::image_support;

/// Size of a page, bytes.
const PAGE_BYTES: u64 = 1024;
/// Number of logical pages of the images.
const PAGES: u64 = 200;

/// Expected contents of a device: the value that was last written to each page.
struct ExpectedContents {
    /// Value that was last written to each page.
    written: BTreeMap<u64, BlockContent>,
    /// Generator of the random values.
    random: Xoshiro256PlusPlus,
    /// Version number of the last write, so that each value is new.
    last_version_number: u64,
}

impl ExpectedContents {
    /// Makes a model without written pages, whose random values follow from the seed.
    fn new(seed: u64) -> Self {
        Self {
            written: BTreeMap::new(),
            random: Xoshiro256PlusPlus::seed_from_u64(seed),
            last_version_number: 0,
        }
    }

    /// Writes a page of the device. One in three pages gets a content that other pages have, and one in three
    /// overwrites changes only a few bytes.
    fn write(&mut self, device: &mut LiveDevice, page: u64) {
        self.last_version_number += 1;
        let value = if self.random.random_range(0..3) == 0 {
            (OWNER_OF_SHARED_CONTENT, self.random.random_range(0..30))
        } else {
            (1 + page, self.last_version_number)
        };
        perform(device, Op::Write(page, value)).expect("a write needs nothing that is lost");
        self.written.insert(page, value);
    }

    /// Compares all readable pages of the device with what was written last. Returns the pages that cannot be read.
    /// `what` names the case in messages.
    fn compare_and_return_lost_pages(&self, device: &mut LiveDevice, what: &str) -> BTreeSet<u64> {
        let mut bytes = vec![0; PAGE_BYTES as usize];
        let mut lost = BTreeSet::new();
        for (&page, &value) in &self.written {
            match device.read(page * PAGE_BYTES, &mut bytes) {
                Ok(()) => {
                    assert!(bytes == page_of(value, PAGE_BYTES as usize), "{what}: page {page} is wrong");
                }
                Err(error) => {
                    assert!(
                        error.to_string().starts_with(&format!("logical page {page} is lost")),
                        "{what}: {error}"
                    );
                    lost.insert(page);
                }
            }
        }
        lost
    }
}

/// Opens an image, which must succeed; `what` names the case in messages.
fn reopen(files: MemoryFiles, what: &str) -> Image {
    Image::open_on(files, PROCESS_DURABILITY).unwrap_or_else(|error| panic!("{what}: {error}"))
}

/// Returns the files of an image after work that filled the device and left garbage, flushed but not closed.
fn image_files_and_expected_contents(design: &str, seed: u64) -> (MemoryFiles, ExpectedContents) {
    let mut files = MemoryFiles::default();
    let image_header =
        specification(design, PAGE_BYTES as u32).build_image_header(7).expect("the device fits");
    create_on(&mut files, &image_header).expect("memory takes everything");
    let mut image = reopen(files, design);
    let mut model = ExpectedContents::new(seed);
    (0..PAGES).for_each(|page| model.write(&mut image.device, page));
    for _ in 0..600 {
        let page = model.random.random_range(0..PAGES / 4);
        model.write(&mut image.device, page);
    }
    image.device.flush().expect("there is room");
    (files_of(image), model)
}

/// Flips a byte in the data of one in `share` flash pages, and in more pages until a logical page is lost. Returns the
/// lost pages.
fn damage(files: &mut MemoryFiles, model: &mut ExpectedContents, design: &str, share: u64) -> BTreeSet<u64> {
    let layout = Layout::new(&ImageHeader::decode(files.bytes(ImageFile::ImageHeader)).expect("it is whole"));
    let pages = layout.geometry.pages();
    for k in 0.. {
        let ppn = Ppn(model.random.random_range(0..pages) as u32);
        let at = layout.data_offset(ppn) + model.random.random_range(0..PAGE_BYTES);
        files.bytes_mut(ImageFile::Flash)[at as usize] ^= 0x10;
        if k + 1 >= pages / share {
            let lost = model.compare_and_return_lost_pages(&mut reopen(files.clone(), design).device, design);
            if !lost.is_empty() {
                return lost;
            }
        }
    }
    unreachable!("some page holds data")
}

/// Writes ten times the capacity to the logical pages that are not lost, with restarts in between. Checks that lost
/// pages stay lost and are found by an audit until they are written or trimmed. Returns the number of lost pages.
fn overwrite_damaged_image_between_restarts(design: &str, seed: u64, share: u64) -> usize {
    let (mut files, mut model) = image_files_and_expected_contents(design, seed);
    let lost = damage(&mut files, &mut model, design, share);
    let what = format!("{design}, seed {seed}");
    for _ in 0..4 {
        let mut image = reopen(files, &what);
        for _ in 0..10 * PAGES / 4 {
            let page = model.random.random_range(0..PAGES);
            if !lost.contains(&page) {
                model.write(&mut image.device, page);
            }
        }
        image.device.flush().expect("a flush needs nothing that is lost");
        assert_eq!(model.compare_and_return_lost_pages(&mut image.device, &what), lost, "{what}");
        files = files_of(image);
    }
    let audited = audit_backing(files.clone()).expect("it can be looked at");
    let named: BTreeSet<u64> = audited.lost_pages.iter().map(|(lpn, _)| u64::from(lpn.0)).collect();
    assert_eq!((audited.verdict, &named), (AuditVerdict::Corrupt, &lost), "{what}: {:?}", audited.findings);
    let first = lost.first().expect("a page is lost");
    let sentence =
        format!("logical page {first} ({PAGE_BYTES} bytes from byte {}) is lost", first * PAGE_BYTES);
    assert!(audited.findings.iter().any(|finding| finding.starts_with(&sentence)), "{:?}", audited.findings);
    assert_readers_without_lost_page_flag_find_damage(&files, &audited.lost_pages);
    let mut image = reopen(files, &what);
    for (k, &page) in lost.iter().enumerate() {
        if k % 2 == 0 {
            model.write(&mut image.device, page);
        } else {
            perform(&mut image.device, Op::Trim(page, 1)).expect("a trim needs nothing that is lost");
            model.written.remove(&page);
        }
    }
    assert_eq!(model.compare_and_return_lost_pages(&mut image.device, &what), BTreeSet::new(), "{what}");
    image.device.flush().expect("nothing is lost");
    let audited = audit_backing(files_of(image)).expect("it can be looked at");
    assert!(audited.lost_pages.is_empty(), "{what}: {:?}", audited.findings);
    lost.len()
}

/// Checks that a reader without knowledge of lost pages finds them damaged. It would compare their zeros with a
/// checksum that does not match.
fn assert_readers_without_lost_page_flag_find_damage(files: &MemoryFiles, lost: &[(Lpn, Ppn)]) {
    let flash = files.bytes(ImageFile::Flash);
    let layout = Layout::new(&ImageHeader::decode(files.bytes(ImageFile::ImageHeader)).expect("it is whole"));
    for &(_, ppn) in lost {
        let record = flash[layout.oob_record_offset(ppn) as usize..].first_chunk().expect("a record");
        let OobSlot::Record(record) = layout.decode_oob_slot(ppn, record) else {
            panic!("page {ppn} has no record")
        };
        let mut bytes = flash[layout.data_offset(ppn) as usize..][..PAGE_BYTES as usize].to_vec();
        bytes.extend(&flash[layout.spare_area_offset(ppn) as usize..][..usize::from(record.spare_bytes)]);
        assert!(!record.is_lost || bytes[..PAGE_BYTES as usize].iter().all(|&byte| byte == 0), "page {ppn}");
        assert_ne!(
            layout.page_crc(ppn, record.block_erase_count, &bytes, &[]),
            record.data_and_spare_crc,
            "page {ppn}"
        );
    }
}

/// Returns the number of random seeds to test: that of `WEARWELL_DAMAGE_SEEDS`, for a long run, or a small default.
fn seed_count() -> u64 {
    std::env::var("WEARWELL_DAMAGE_SEEDS").ok().and_then(|seeds| seeds.parse().ok()).unwrap_or(6)
}

/// Ten times the capacity is written. Only designs with their map in RAM or NVRAM are tested: a lost translation page
/// would make writes fail.
#[test]
fn an_image_with_unreadable_pages_accepts_ten_capacities_of_writes() {
    for design in DESIGNS.into_iter().filter(|design| !matches!(*design, "dftl" | "wearwell")) {
        for share in [100, 20] {
            let lost: usize = (0..seed_count())
                .map(|seed| overwrite_damaged_image_between_restarts(design, seed, share))
                .sum();
            println!("{design}: one page in {share}, {lost} logical pages lost over {} images", seed_count());
        }
    }
}

/// Garbage collection continues even if the spare area with the member list of a chunk, or of a page of deltas, is
/// damaged together with the data.
#[test]
fn damaged_spare_areas_do_not_stop_garbage_collection() {
    for design in ["delta", "integrated"] {
        let (files, mut model) = image_files_and_expected_contents(design, 5);
        let layout =
            Layout::new(&ImageHeader::decode(files.bytes(ImageFile::ImageHeader)).expect("it is whole"));
        let mut image = reopen(files, design);
        let mut damaged = 0;
        for ppn in (0..layout.geometry.pages() as u32).map(Ppn) {
            let needed = image.device.may_hold_needed_data(ppn).expect("a medium with power");
            let flash = medium_of_mut(&mut image.device).backing_mut().bytes_mut(ImageFile::Flash);
            let spare = layout.spare_area_offset(ppn) as usize;
            if needed && flash[spare..spare + 64].iter().any(|&byte| byte != 0) {
                flash[spare + 9] ^= 1;
                flash[layout.data_offset(ppn) as usize] ^= 1;
                damaged += 1;
            }
        }
        assert!(damaged > 3, "{design}: {damaged} pages have members");
        for _ in 0..10 * PAGES {
            let page = model.random.random_range(0..PAGES);
            model.write(&mut image.device, page);
        }
        image.device.flush().expect("a flush needs nothing that is lost");
        model.compare_and_return_lost_pages(&mut image.device, design);
        image.device.check().expect("every law holds");
    }
}

#[test]
fn a_scrub_finds_damaged_pages_and_health_counts_them() {
    let (lines, _guard) = Lines::of_this_thread();
    for design in DESIGNS {
        let (files, model) = image_files_and_expected_contents(design, 3);
        let image = reopen(files, design);
        let identity = image.health_facts();
        let mut device = FlashDevice::new(image.device, identity).expect("it keeps bytes");
        device.log_known_damage();
        lines.get().clear();
        let ask = |device: &mut FlashDevice, command: &str| -> Json {
            let line = format!("{{\"command\": \"{command}\"}}");
            serde_json::from_str(&answer_control_line(line.as_bytes(), device)).expect("an answer is JSON")
        };
        let health = ask(&mut device, "health");
        assert_eq!(
            (&health["media_errors"], &health["critical_warning"]),
            (&0.into(), &0.into()),
            "{design}"
        );
        let clean = ask(&mut device, "scrub");
        assert_eq!(clean["lost_logical_pages"], 0, "{design}: {clean}");
        assert!(clean["read_pages"].as_u64() > Some(20) && lines.get().is_empty(), "{design}: {clean}");
        let (mut device, lost) = damage_needed_page_without_reading_it(device, &model);
        let found = ask(&mut device, "scrub");
        assert_eq!(found["lost_logical_pages"], lost.len(), "{design}: {found}");
        let offsets = found["lost"].as_array().expect("a list").iter().map(|one| one["offset"].as_u64());
        assert!(offsets.eq(lost.iter().map(|page| Some(page * PAGE_BYTES))), "{design}: {found}");
        assert_eq!(lines.get().len(), lost.len(), "{design}: {:?}", lines.get());
        for (line, page) in lines.get().iter().zip(&lost) {
            assert!(
                line.starts_with(&format!("ERROR media error: logical page {page} (")),
                "{design}: {line}"
            );
        }
        let health = ask(&mut device, "health");
        assert_eq!(health["media_errors"], 1, "{design}");
        assert_eq!(health["lost_logical_pages"], lost.len(), "{design}");
        assert_eq!(health["critical_warning"].as_u64().map(|bits| bits & 4), Some(4), "{design}");
        assert_eq!(ask(&mut device, "flush")["ok"], true, "{design}");
        lines.get().clear();
        ask(&mut device, "scrub");
        assert!(lines.get().is_empty(), "what was said is not said again: {:?}", lines.get());
    }
}

/// Damages a flash page that a logical page needs, without reading it. Returns the device, and the logical pages that
/// are lost by the damage.
fn damage_needed_page_without_reading_it(
    device: FlashDevice,
    model: &ExpectedContents,
) -> (FlashDevice, BTreeSet<u64>) {
    let identity = device.health_facts().clone();
    let mut device = device.into_live_device();
    let pages = device.geometry().pages() as u32;
    let needed = |ppn: &Ppn| device.may_hold_needed_data(*ppn) == Ok(true);
    let ppn = (40..pages).map(Ppn).find(needed).expect("some page is needed");
    medium_of_mut(&mut device).make_uncorrectable(ppn);
    // Another device over the same files reads every page.
    let files = medium_of(&device).backing().clone();
    let lost = model.compare_and_return_lost_pages(&mut reopen(files, "a copy").device, "a copy");
    let mut device = FlashDevice::new(device, identity).expect("it keeps bytes");
    device.log_known_damage();
    (device, lost)
}
