//! Tests of the rescue of images in which both copies of some metadata are damaged. A read returns the data that was
//! written last, or an error. Little more is lost than what was damaged.

use std::collections::BTreeSet;

use image_damage::{ImageAfterWork, SessionEnd, image_after_session};
use image_support::{DESIGNS, HOST_DURABILITY, MemoryFiles, Oracle, PROCESS_DURABILITY, SECTOR, Violation};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use wearwell::address::{Lpn, Ppn};
use wearwell::logical_page_form::LogicalPageForm;
use wearwell_serve::image::layout::{DEVICE_STATE_SECTOR_WORDS, METADATA_RECORD_BYTES, OobSlot};
use wearwell_serve::image::{Image, ImageError, ImageFile};
use wearwell_serve::{BlockDevice, DeviceError, FlashDevice};

use crate::{image_damage, image_support};

/// Size of a page, bytes.
const PAGE_BYTES: u32 = 1024;
/// Designs that can be rescued from any damage except that of both image headers: their map is in NVRAM and they store
/// no deltas.
const RESCUABLE_DESIGNS: [&str; 2] = ["page-map", "recyclable"];

/// A device that reads what could be rescued of an image.
type RescuedDevice = FlashDevice;

/// Rescues an image and returns the read-only device.
fn rescue(files: MemoryFiles) -> Result<RescuedDevice, ImageError> {
    let image = Image::open_for_rescue_on(files)?;
    let (identity, unproven) = (image.health_facts(), image.report.lpns_with_possibly_stale_version.clone());
    let device = FlashDevice::new(image.device, identity).expect("it keeps bytes");
    Ok(device.into_read_only().refuse_reads_of_possibly_stale_pages(unproven))
}

/// Compares all readable pages of the device with what was written last. Returns the pages that cannot be read. `what`
/// names the case in messages.
fn unreadable_pages(device: &mut RescuedDevice, oracle: &Oracle, what: &str) -> BTreeSet<u64> {
    let read = |offset: u64, page: &mut [u8]| device.read(offset, page).map_err(|error| error.to_string());
    let violations = oracle.clone().find_violations_by_reading(PAGE_BYTES, read);
    let page = |violation: &Violation| match violation {
        Violation::Unreadable(page, _) => *page,
        Violation::WrongContent(wrong) => panic!("{what}: {wrong:?}"),
    };
    violations.iter().map(page).collect()
}

impl ImageAfterWork {
    /// Damages both copies of `len` bytes of metadata: in its own file and in the mirror.
    fn destroy(&self, files: &mut MemoryFiles, file: ImageFile, at: u64, len: u64) {
        let copy = self.layout.mirror_offset(file, at);
        for (file, at) in [(file, at), (ImageFile::Mirror, copy)] {
            files.bytes_mut(file)[at as usize..(at + len) as usize].fill(0x5a);
        }
    }

    /// Whether a flash page has a valid OOB record.
    fn is_programmed(&self, ppn: Ppn) -> bool {
        let at = self.layout.oob_record_offset(ppn) as usize;
        let bytes = &self.files.bytes(ImageFile::Flash)[at..at + METADATA_RECORD_BYTES];
        matches!(self.layout.decode_oob_slot(ppn, bytes.try_into().expect("so long")), OobSlot::Record(_))
    }

    /// Returns the file ranges to be damaged, each as file, offset and length in bytes: every sector of the file
    /// `nvram`, a third of the OOB records, and pieces of the journal.
    fn damageable_file_ranges(&self) -> Vec<(ImageFile, u64, u64)> {
        let sectors = (0..self.layout.device_state_sector_count())
            .map(|index| (ImageFile::Nvram, index * SECTOR, SECTOR));
        let pages = (0..self.layout.geometry.pages() as u32).step_by(3).map(Ppn);
        let oobs = pages.filter(|&ppn| self.is_programmed(ppn));
        let oobs = oobs
            .map(|ppn| (ImageFile::Flash, self.layout.oob_record_offset(ppn), METADATA_RECORD_BYTES as u64));
        let journal =
            (0..self.layout.journal_file_bytes()).step_by(2048).map(|at| (ImageFile::Journal, at, 256));
        sectors.chain(oobs).chain(journal).collect()
    }
}

/// Numbers of damaged images, by the outcome of opening and rescue.
#[derive(Default, Debug)]
struct RescueOutcomeCounts {
    /// Number of images that could be opened without a rescue.
    opened_images: u32,
    /// Number of images that could not be rescued.
    unrescuable_images: u32,
    /// Number of images that were rescued.
    rescued_images: u32,
    /// Number of logical pages that the rescued images lost.
    lost_pages: usize,
}

impl RescueOutcomeCounts {
    /// Opens or rescues a damaged image and counts the outcome. Returns the number of lost pages if the image was
    /// rescued.
    fn open_or_rescue_and_count(
        &mut self,
        worked: &ImageAfterWork,
        files: MemoryFiles,
        what: &str,
    ) -> Option<usize> {
        if Image::open_on(files.clone(), PROCESS_DURABILITY).is_ok() {
            self.opened_images += 1;
            return None;
        }
        match rescue(files) {
            Ok(mut device) => {
                let lost = unreadable_pages(&mut device, &worked.oracle, what).len();
                self.rescued_images += 1;
                self.lost_pages += lost;
                Some(lost)
            }
            Err(error) => {
                assert!(error.to_string().contains("nothing of the image can be rescued"), "{what}: {error}");
                self.unrescuable_images += 1;
                None
            }
        }
    }
}

/// By default every second piece of metadata is damaged; with `WEARWELL_SOAK=1`, each.
#[test]
fn a_rescue_returns_only_newest_versions_whatever_metadata_is_damaged() {
    let interval = if image_support::is_soak_run() { 1 } else { 2 };
    for design in DESIGNS {
        let mut outcome_counts = RescueOutcomeCounts::default();
        for (options, end) in [
            (PROCESS_DURABILITY, SessionEnd::Killed),
            (HOST_DURABILITY, SessionEnd::Killed),
            (PROCESS_DURABILITY, SessionEnd::Closed),
        ] {
            let worked = image_after_session(design, options, end);
            for (file, at, len) in worked.damageable_file_ranges().into_iter().step_by(interval) {
                let mut files = worked.files.clone();
                worked.destroy(&mut files, file, at, len);
                let what = format!("{design} {options:?} {end:?}: {file:?} from byte {at}");
                let lost = outcome_counts.open_or_rescue_and_count(&worked, files, &what);
                if file == ImageFile::Nvram && RESCUABLE_DESIGNS.contains(&design) {
                    assert!(
                        lost.is_none_or(|lost| lost <= DEVICE_STATE_SECTOR_WORDS),
                        "{what}: {lost:?} pages are lost"
                    );
                }
                if file == ImageFile::Flash && design == "page-map" {
                    assert!(lost.is_none_or(|lost| lost <= 1), "{what}: {lost:?} pages are lost");
                }
            }
        }
        println!("{design}: {outcome_counts:?}");
        if RESCUABLE_DESIGNS.contains(&design) {
            assert!(
                outcome_counts.rescued_images > 50 && outcome_counts.unrescuable_images == 0,
                "{design}: {outcome_counts:?}"
            );
        }
        assert!(
            outcome_counts.rescued_images + outcome_counts.unrescuable_images > 50,
            "{design}: {outcome_counts:?}"
        );
    }
}

#[test]
fn a_rescue_after_damage_in_several_places_returns_no_wrong_page() {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(5);
    for design in RESCUABLE_DESIGNS {
        let worked = image_after_session(design, PROCESS_DURABILITY, SessionEnd::Killed);
        let places = worked.damageable_file_ranges();
        let mut outcome_counts = RescueOutcomeCounts::default();
        for draw in 0..60 {
            let mut files = worked.files.clone();
            for _ in 0..4 {
                let (file, at, len) = places[random.random_range(0..places.len())];
                worked.destroy(&mut files, file, at, len);
            }
            outcome_counts.open_or_rescue_and_count(&worked, files, &format!("{design} draw {draw}"));
        }
        assert!(
            outcome_counts.rescued_images > 30 && outcome_counts.unrescuable_images == 0,
            "{design}: {outcome_counts:?}"
        );
    }
}

/// Both copies of the whole journal are damaged. Only changes that were already written to a sector of the file `nvram`
/// are known.
#[test]
fn a_rescue_without_a_journal_returns_only_newest_versions() {
    for design in RESCUABLE_DESIGNS {
        for end in [SessionEnd::Killed, SessionEnd::Closed] {
            let worked = image_after_session(design, PROCESS_DURABILITY, end);
            let mut files = worked.files.clone();
            worked.destroy(&mut files, ImageFile::Journal, 0, worked.layout.journal_file_bytes());
            let what = format!("{design} {end:?}");
            assert!(
                RescueOutcomeCounts::default().open_or_rescue_and_count(&worked, files, &what).is_some(),
                "{what}"
            );
        }
    }
}

#[test]
fn a_rescue_of_an_undamaged_image_returns_all_pages() {
    for design in RESCUABLE_DESIGNS {
        let worked = image_after_session(design, PROCESS_DURABILITY, SessionEnd::Closed);
        let mut device = rescue(worked.files.clone()).expect("nothing is damaged");
        assert_eq!(unreadable_pages(&mut device, &worked.oracle, design), BTreeSet::new(), "{design}");
        assert_eq!(device.possibly_stale_lpn_count(), 0, "{design}");
    }
}

#[test]
fn an_image_with_both_superblocks_damaged_cannot_be_rescued() {
    let worked = image_after_session("page-map", PROCESS_DURABILITY, SessionEnd::Closed);
    let mut files = worked.files.clone();
    worked.destroy(&mut files, ImageFile::ImageHeader, 0, 512);
    let error = rescue(files).expect_err("nobody knows the geometry").to_string();
    assert!(
        error.contains("one of the two copies of the superblock must be intact, but both are damaged"),
        "{error}"
    );
}

/// Programs that copy a disk ask for holes first, and would copy zeros for a hole without reading it.
#[test]
fn a_rescued_image_reports_possibly_stale_pages_as_errors_not_as_holes() {
    let worked = image_after_session("page-map", PROCESS_DURABILITY, SessionEnd::Closed);
    let mut files = worked.files.clone();
    worked.destroy(&mut files, ImageFile::Nvram, 0, SECTOR);
    let mut device = rescue(files).expect("one sector is lost");
    let page_bytes = u64::from(PAGE_BYTES);
    let unproven: Vec<u64> =
        (0..200).filter(|page| device.read(page * page_bytes, &mut [0; 1]).is_err()).collect();
    assert_eq!(unproven.len(), device.possibly_stale_lpn_count());
    assert!(!unproven.is_empty());
    for page in unproven {
        let sentence = device.read(page * page_bytes, &mut [0; 1024]).unwrap_err().to_string();
        let beginning = format!("the newest content of logical page {} is not known", Lpn(page as u32));
        let range = format!("bytes {} to {} of the device", page * page_bytes, (page + 1) * page_bytes - 1);
        assert!(sentence.starts_with(&beginning) && sentence.contains(&range), "{sentence}");
        assert_eq!(
            device.first_extent(page * page_bytes, page_bytes).logical_page_form,
            LogicalPageForm::InOwnFlashPage
        );
        assert!(matches!(device.write(page * page_bytes, &[1; 1024]), Err(DeviceError::ReadOnly)));
    }
}
