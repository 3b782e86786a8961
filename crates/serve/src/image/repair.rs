//! Repair of an image: metadata that is damaged in one of its two copies is rewritten from the other, all data is
//! compared with its checksums, and each logical page that is lost is named.

use std::path::Path;

use wearwell::address::{Lpn, Ppn};

use super::backing::{Access, Backing as _, OpenImageFiles, io_error_at, remove_image_files};
use super::error::ImageError;
use super::{Image, OpenOptions};
use crate::device::lost_page_sentence;
use crate::live_device::LiveDevice;

/// Report of the repair of an image.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RepairReport {
    /// Number of metadata records and sectors that were rewritten from their second copies.
    pub repaired_records: u64,
    /// Number of flash pages that were read and verified by their checksums.
    pub verified_pages: u64,
    /// Logical pages that are lost, each with the flash page that cannot be read.
    pub lost_pages: Vec<(Lpn, Ppn)>,
    page_bytes: u64,
}

impl RepairReport {
    /// Returns one sentence for each logical page that is lost.
    pub fn loss_sentences(&self) -> impl Iterator<Item = String> + '_ {
        self.lost_pages.iter().map(|&(lpn, ppn)| lost_page_sentence(lpn, ppn, self.page_bytes))
    }
}

/// Repairs the image in a directory, or first makes a copy of it and repairs the copy. All metadata is read, and
/// rewritten where one of its two copies is damaged; all data is compared with its checksum. Reads of lost pages stay
/// errors until the pages are written or trimmed. A copy that cannot be repaired is removed.
///
/// # Errors
/// As [`Image::open`]; the directory of the copy exists.
pub fn repair(directory: &Path, copy: Option<&Path>) -> Result<RepairReport, ImageError> {
    let Some(copy) = copy else { return repair_in_place(directory) };
    let files = OpenImageFiles::open(directory, Access::Read)?;
    files.copy_files_to(copy).map_err(io_error_at("copy the image to", copy))?;
    let repaired = repair_in_place(copy);
    if repaired.is_err() {
        remove_image_files(copy);
    }
    repaired
}

fn repair_in_place(directory: &Path) -> Result<RepairReport, ImageError> {
    let mut image = Image::open(directory, OpenOptions::default())?;
    let read_pages = read_all_used_pages(&mut image.device)?;
    let report = RepairReport {
        repaired_records: image.report.repaired_records,
        verified_pages: read_pages,
        lost_pages: image.device.lost_logical_pages(),
        page_bytes: image.superblock.geometry.page_bytes.into(),
    };
    image.close()?;
    Ok(report)
}

/// Reads every flash page that is in use, and returns their number.
fn read_all_used_pages(device: &mut LiveDevice) -> Result<u64, ImageError> {
    const SCRUB_PAGES_PER_STEP: u32 = 1024;
    let (mut next, mut read_pages) = (Some(Ppn(0)), 0);
    while let Some(first) = next {
        let scrubbed = device.scrub(first, SCRUB_PAGES_PER_STEP)?;
        read_pages += u64::from(scrubbed.read_pages);
        next = scrubbed.next_page;
    }
    Ok(read_pages)
}
