//! Repair of an image: metadata that is damaged in one of its two copies is rewritten from the other, all data is
//! compared with its checksums, and each logical page that is lost is named. A damaged page that no logical page needs
//! is marked as lost, so that an audit finds nothing wrong with it, and no mechanism uses its former content.

use std::path::Path;

use wearwell::address::{Lpn, Ppn};

use super::backing::{Backing, ImageAccess, ImagePlace, OpenImageFiles, io_error_at};
use super::error::ImageError;
use super::file_nand::FileNand;
use super::metadata_copy::MetadataRepairs;
use super::unfinished::UnfinishedImage;
use super::unreadable_sectors::UnreadableSectors;
use super::{Image, end_session, medium_failure};
use crate::device::lost_page_sentence;

/// Report of the repair of an image.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RepairReport {
    /// Repairs of metadata records, and of sectors with state words (NVRAM words and block states, 8 bytes each), from
    /// their second copies.
    pub metadata_repairs: MetadataRepairs,
    /// Number of flash pages whose data was read and compared with its checksum.
    pub verified_pages: u64,
    /// Logical pages that are lost, each with the flash page that cannot be read.
    pub lost_pages: Vec<(Lpn, Ppn)>,
    /// Damaged flash pages that no logical page needs, and that were marked as lost.
    pub pages_marked_lost: Vec<Ppn>,
    /// Damaged flash pages that no logical page needs, and that were left as they are, because they hold metadata.
    pub damaged_pages_left: Vec<Ppn>,
    /// Sectors of the original that the disk could not read while a copy was made, by file. They count as damaged in
    /// the copy, and the fields above contain what the repair did about them.
    pub unreadable_sectors: Vec<UnreadableSectors>,
    /// Size of a page, bytes, for the messages.
    page_bytes: u64,
}

impl RepairReport {
    /// Returns one sentence for each file of the original with sectors that the disk cannot read, one for all metadata
    /// that could not be rewritten, and one for each logical page that is lost and each damaged flash page that no
    /// logical page needs.
    pub fn sentences(&self) -> impl Iterator<Item = String> + '_ {
        let lost = self.lost_pages.iter().map(|&(lpn, ppn)| lost_page_sentence(lpn, ppn, self.page_bytes));
        let marked = self.pages_marked_lost.iter().map(|ppn| {
            format!(
                "flash page {ppn} is damaged; no logical page needs its data, and it is marked as lost now"
            )
        });
        let left = self.damaged_pages_left.iter().map(|ppn| {
            format!(
                "flash page {ppn} is damaged and stays so, because it holds old metadata; no logical page needs it: \
                 serve the image until garbage collection erases its block, or make a new image with `wearwell copy`"
            )
        });
        let refused = (self.metadata_repairs.refused_copies > 0).then(|| {
            format!(
                "metadata records that stay damaged in one of their two copies, because the operating system refused \
                 the write: {}; copy the image to another disk with `wearwell repair --to` or `wearwell copy`",
                self.metadata_repairs.refused_copies
            )
        });
        self.unreadable_sectors
            .iter()
            .map(ToString::to_string)
            .chain(refused)
            .chain(lost)
            .chain(marked)
            .chain(left)
    }

    /// Whether the image has damage that the repair could not remove, so that an audit still reports it.
    pub fn leaves_damage(&self) -> bool {
        self.metadata_repairs.refused_copies > 0
            || !self.lost_pages.is_empty()
            || !self.damaged_pages_left.is_empty()
    }
}

/// Repairs the image in a directory, or a copy of it. All metadata is read, and rewritten if one of its two copies is
/// damaged. All data is compared with its checksum. Reads of lost pages stay errors until the pages are written or
/// trimmed. The directory of a copy becomes an image when the repair is complete. If the repair fails, the copy is
/// removed.
///
/// # Errors
/// As [`Image::open`]; the directory of the copy is not empty.
pub fn repair(directory: &Path, copy: Option<&Path>) -> Result<RepairReport, ImageError> {
    let Some(copy) = copy else {
        return repair_files(
            OpenImageFiles::open(directory, ImageAccess::ReadWrite)?,
            |_: OpenImageFiles| Ok(()),
        );
    };
    let files = OpenImageFiles::open(directory, ImageAccess::ReadOnly)?;
    let place = ImagePlace::of(copy);
    let unfinished = files.copy_files_to(copy).map_err(io_error_at("copy the image to", copy))?;
    let unreadable_sectors = unfinished.unreadable_sectors().to_vec();
    match repair_files(unfinished, UnfinishedImage::finish) {
        Ok(report) => Ok(RepairReport { unreadable_sectors, ..report }),
        Err(error) => {
            place.restore();
            Err(error)
        }
    }
}

/// Repairs the image in the files of `backing` as [`repair`] does, in place, and returns the files as well.
///
/// # Errors
/// As [`Image::open`].
pub fn repair_backing<B: Backing>(backing: B) -> Result<(RepairReport, B), ImageError> {
    let mut repaired = None;
    let report = repair_files(backing, |files| {
        repaired = Some(files);
        Ok(())
    })?;
    Ok((report, repaired.expect("a repair that succeeds passes on the files")))
}

/// Repairs the image in `files`, closes the image, and passes the files to `finish`.
fn repair_files<B: Backing>(
    files: B,
    finish: impl FnOnce(B) -> Result<(), ImageError>,
) -> Result<RepairReport, ImageError> {
    let mut image = Image::open_and_verify(files)?;
    let (mut pages_marked_lost, mut damaged_pages_left) = (Vec::new(), Vec::new());
    for ppn in std::mem::take(&mut image.damaged_pages) {
        if image.device.may_hold_needed_data(ppn)? {
            image.device.report_unreadable_page(ppn);
            continue;
        }
        let nand: &mut FileNand<B> = FileNand::medium_of_device_mut(&mut image.device);
        match nand.mark_dead_page_lost(ppn) {
            Ok(true) => pages_marked_lost.push(ppn),
            Ok(false) => damaged_pages_left.push(ppn),
            Err(_) => return Err(medium_failure(nand)),
        }
    }
    let report = RepairReport {
        metadata_repairs: image.report.metadata_repairs,
        verified_pages: image.report.verified_pages,
        lost_pages: image.device.lost_logical_pages(),
        pages_marked_lost,
        damaged_pages_left,
        unreadable_sectors: Vec::new(),
        page_bytes: image.image_header.geometry.page_bytes.into(),
    };
    end_session(&mut image.device)?;
    finish(image.into_backing())?;
    Ok(report)
}
