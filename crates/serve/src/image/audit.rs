//! Audit of an image that is not in use. It compares every checksum, runs recovery, and checks every conservation law
//! of the engine. It works on a view that changes no file.

use std::path::Path;

use wearwell::address::{Lpn, Ppn};

use super::backing::{Backing, CopyOnWrite, ImageAccess, OpenImageFiles};
use super::error::ImageError;
use super::file_nand::FileNand;
use super::layout::{ImageHeader, SessionRecord};
use super::{FoundImage, LoadMode, RecoveredDevice, recover, report_panic_as_damage};
use crate::device::lost_page_sentence;
use crate::live_device::LiveDevice;

/// Overall result of an audit of an image. The variants are ordered from best to worst.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum AuditVerdict {
    /// The image was closed by its last session, is undamaged and is consistent.
    Clean,
    /// The image is consistent after the recovery that opening does. The last session did not close it, or metadata is
    /// damaged in one of its two copies. Opening rewrites the damaged copies that it reads, a repair
    /// ([`repair`](super::repair())) all of them.
    Unclean,
    /// Data or metadata of the image is damaged beyond repair, or inconsistent.
    Corrupt,
}

/// Report of an audit of an image.
#[derive(Clone, Debug)]
pub struct AuditReport {
    /// Overall result of the audit.
    pub verdict: AuditVerdict,
    /// Findings of the audit: what is damaged or inconsistent, one sentence for each damaged item.
    pub findings: Vec<String>,
    /// Number of flash pages whose data was compared with its checksum.
    pub verified_pages: u64,
    /// Number of flash pages that a crash of the server machine left half programmed.
    pub torn_pages: u64,
    /// Whether the last session closed the image.
    pub was_closed_cleanly: bool,
    /// Number of metadata records, and of sectors of state words (the content of NVRAM), that are valid in only one of
    /// their two copies. In an image that was not closed, a second copy (in the file `mirror`) may only be older than
    /// the first. Such copies are counted as well, although they are not damaged.
    pub repairable_metadata_copies: u64,
    /// Whether a rescue (`wearwell serve --rescue`) may be able to read a part of an image that is too damaged to be
    /// served normally.
    pub may_be_rescued: bool,
    /// Number of logical pages that hold data; `None` if the device could not be recovered.
    pub mapped_pages: Option<u64>,
    /// Logical pages that are lost, each with the flash page that cannot be read. Each of them is also reported in
    /// `findings`.
    pub lost_pages: Vec<(Lpn, Ppn)>,
    /// Number of sessions in the life of the image that did not end cleanly.
    pub unsafe_shutdowns: u64,
}

/// Audits the image in a directory and changes no file. Takes time in proportion to the bytes stored.
///
/// # Errors
/// [`ImageError`] if the image cannot be audited: there is none, its format has another version, it is in use, or it
/// cannot be read.
pub fn audit(directory: &Path) -> Result<AuditReport, ImageError> {
    audit_backing(OpenImageFiles::open(directory, ImageAccess::ReadOnly)?)
}

/// Audits the image in the files of `backing` as [`audit`] does, and changes none of them.
///
/// # Errors
/// As [`audit`].
pub fn audit_backing(backing: impl Backing) -> Result<AuditReport, ImageError> {
    match report_panic_as_damage(|| examine_image(backing)) {
        Err(ImageError::Damaged { findings, may_be_rescued }) => {
            Ok(report_of_corrupt_image(findings, may_be_rescued))
        }
        examined => examined,
    }
}

/// Reads and verifies the whole image on a view that changes no file, and reports what it finds.
fn examine_image(backing: impl Backing) -> Result<AuditReport, ImageError> {
    let mut view = CopyOnWrite::new(backing);
    let found = FoundImage::read(&mut view, false)?;
    let (opened, layout) = (found.report_on_opening(), found.layout.clone());
    let (image_header, config) = (found.image_header.clone(), found.config.clone());
    let loaded = found.load(&mut view, LoadMode { verifies_all_data: true, rescues: false })?;
    // A view takes every repair.
    let repaired = opened.metadata_repairs.rewritten_copies + loaded.metadata_repairs.rewritten_copies;
    let mut report = AuditReport {
        verdict: if opened.was_shut_down_uncleanly || repaired > 0 {
            AuditVerdict::Unclean
        } else {
            AuditVerdict::Clean
        },
        findings: loaded.findings.clone(),
        verified_pages: loaded.verified_pages,
        torn_pages: loaded.torn_pages_with_erase_counts.len() as u64,
        was_closed_cleanly: !opened.was_shut_down_uncleanly,
        repairable_metadata_copies: repaired,
        may_be_rescued: true,
        mapped_pages: None,
        lost_pages: Vec::new(),
        unsafe_shutdowns: opened.unsafe_shutdowns,
    };
    if report.findings.is_empty() {
        let damaged = loaded.damaged_pages.clone();
        let nand = FileNand::new(view, layout, loaded, SessionRecord::default());
        match recover(nand, &image_header, config) {
            Ok(recovered) => examine_device(recovered, damaged, &image_header, &mut report),
            Err(error) => report.findings.push(error.to_string()),
        }
    }
    if !report.findings.is_empty() {
        report.verdict = AuditVerdict::Corrupt;
    }
    Ok(report)
}

/// Examines the recovered device of an image: lists lost pages, and compares its counters with a recount. Adds the
/// findings to `report`.
fn examine_device(
    recovered: RecoveredDevice,
    damaged_pages: Vec<Ppn>,
    image_header: &ImageHeader,
    report: &mut AuditReport,
) {
    let RecoveredDevice { mut device, mapped_pages, .. } = recovered;
    report.mapped_pages = mapped_pages;
    report.lost_pages = lost_pages(&mut device, &damaged_pages);
    let dead = damaged_pages.into_iter().filter(|&ppn| device.may_hold_needed_data(ppn) == Ok(false));
    report.findings.extend(loss_sentences(&report.lost_pages, image_header));
    let sentence =
        |ppn| format!("flash page {ppn} is damaged; no logical page needs its data: run `wearwell repair`");
    report.findings.extend(dead.map(sentence));
    report.findings.extend(device.check().err());
}

/// Returns all logical pages that are lost by damage, each with its unreadable flash page. `damaged` are the flash
/// pages that this audit found damaged. The result also includes pages lost in earlier sessions.
fn lost_pages(device: &mut LiveDevice, damaged: &[Ppn]) -> Vec<(Lpn, Ppn)> {
    for &ppn in damaged {
        device.report_unreadable_page(ppn);
    }
    device.lost_logical_pages()
}

/// Returns one sentence for each lost logical page, for the findings of the report.
fn loss_sentences(lost: &[(Lpn, Ppn)], image_header: &ImageHeader) -> Vec<String> {
    let page_bytes = u64::from(image_header.geometry.page_bytes);
    lost.iter().map(|&(lpn, ppn)| lost_page_sentence(lpn, ppn, page_bytes)).collect()
}

/// Returns the audit report of an image that could not be examined because of the damage `findings`. All counts in this
/// report are 0.
fn report_of_corrupt_image(findings: Vec<String>, may_be_rescued: bool) -> AuditReport {
    AuditReport {
        verdict: AuditVerdict::Corrupt,
        findings,
        verified_pages: 0,
        torn_pages: 0,
        was_closed_cleanly: false,
        repairable_metadata_copies: 0,
        may_be_rescued,
        mapped_pages: None,
        lost_pages: Vec::new(),
        unsafe_shutdowns: 0,
    }
}
