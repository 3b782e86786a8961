//! The audit of an image that nobody uses: every checksum, then recovery and every conservation law, on a view that changes
//! nothing.

use std::path::Path;

use wearwell::Device;
use wearwell::address::{Lpn, Ppn};

use super::backing::{Access, Backing, CopyOnWrite, Files};
use super::error::ImageError;
use super::layout::{Session, Superblock};
use super::nand::FileNand;
use super::{Found, Loading, Recovered, recover, refusing_contradictions};
use crate::device::sentence_of_loss;

/// What an audit found, from best to worst.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Verdict {
    /// Closed, whole, consistent.
    Clean,
    /// Not closed by its last session, or damaged where another copy is whole: consistent after recovery, which opening does.
    Unclean,
    /// Something is not as it was written, or contradicts itself.
    Corrupt,
}

/// The audit of an image.
#[derive(Clone, Debug)]
pub struct AuditReport {
    /// In short.
    pub verdict: Verdict,
    /// What is wrong, one sentence per place.
    pub findings: Vec<String>,
    /// Pages whose data was compared with its checksum.
    pub verified_pages: u64,
    /// Pages that the end of the host left half done.
    pub torn_pages: u64,
    /// The last session closed the image.
    pub was_closed: bool,
    /// Records and sectors of metadata that are whole in one of their two places only. Of an image that was not closed, the mirror
    /// may lag.
    pub repaired: u64,
    /// Logical pages that hold data, if the device could be recovered.
    pub mapped_pages: Option<u64>,
    /// Logical pages that are lost, each with the page of flash that cannot be read; a finding each.
    pub lost_pages: Vec<(Lpn, Ppn)>,
    /// Sessions that did not end cleanly, in the life of the image.
    pub unsafe_shutdowns: u64,
}

/// Audits the image in a directory. O(bytes stored); changes nothing.
///
/// # Errors
/// [`ImageError`] where there is no image to look at: none, another version, in use, unreadable.
pub fn audit(directory: &Path) -> Result<AuditReport, ImageError> {
    audit_of(Files::open(directory, Access::Read)?)
}

/// As [`audit`], over any files.
///
/// # Errors
/// As [`audit`].
pub fn audit_of(backing: impl Backing) -> Result<AuditReport, ImageError> {
    match refusing_contradictions(|| examine(backing)) {
        Err(ImageError::Damaged { findings }) => Ok(corrupt(findings)),
        examined => examined,
    }
}

fn examine(backing: impl Backing) -> Result<AuditReport, ImageError> {
    let mut view = CopyOnWrite::new(backing);
    let found = Found::read(&mut view, false)?;
    let (opened, layout, superblock) = (found.report(), found.layout.clone(), found.superblock.clone());
    let loaded = found.load(&mut view, Loading { verifies_all: true, rescues: false })?;
    let repaired = opened.repaired + loaded.repaired;
    let mut report = AuditReport {
        verdict: if opened.was_unclean || repaired > 0 { Verdict::Unclean } else { Verdict::Clean },
        findings: loaded.findings.clone(),
        verified_pages: loaded.verified_pages,
        torn_pages: loaded.torn.len() as u64,
        was_closed: !opened.was_unclean,
        repaired,
        mapped_pages: None,
        lost_pages: Vec::new(),
        unsafe_shutdowns: opened.unsafe_shutdowns,
    };
    if report.findings.is_empty() {
        let damaged = loaded.damaged.clone();
        let nand = FileNand::new(view, layout, loaded, Session::default());
        match recover(nand, &superblock) {
            Ok(Recovered { mut device, recovery, .. }) => {
                report.mapped_pages = Some(recovery.mapped_pages);
                report.lost_pages = lost_pages(&mut device, &damaged);
                let dead =
                    damaged.into_iter().filter(|&ppn| device.ftl_mut().may_be_needed(ppn) == Ok(false));
                report.findings.extend(sentences(&report.lost_pages, &superblock));
                report.findings.extend(
                    dead.map(|ppn| format!("flash page {ppn} is damaged; no logical page needs its data")),
                );
                report.findings.extend(device.ftl_mut().check().err());
            }
            Err(error) => report.findings.push(error.to_string()),
        }
    }
    if !report.findings.is_empty() {
        report.verdict = Verdict::Corrupt;
    }
    Ok(report)
}

/// The logical pages that are lost by damage, that of today and that of earlier sessions.
fn lost_pages<B: Backing>(device: &mut Device<FileNand<B>>, damaged: &[Ppn]) -> Vec<(Lpn, Ppn)> {
    for &ppn in damaged {
        device.ftl_mut().store_mut().report_unreadable(ppn);
    }
    device.ftl_mut().lost_logical_pages()
}

fn sentences(lost: &[(Lpn, Ppn)], superblock: &Superblock) -> Vec<String> {
    let page_bytes = u64::from(superblock.geometry.page_bytes);
    lost.iter().map(|&(lpn, ppn)| sentence_of_loss(lpn, ppn, page_bytes)).collect()
}

fn corrupt(findings: Vec<String>) -> AuditReport {
    AuditReport {
        verdict: Verdict::Corrupt,
        findings,
        verified_pages: 0,
        torn_pages: 0,
        was_closed: false,
        repaired: 0,
        mapped_pages: None,
        lost_pages: Vec::new(),
        unsafe_shutdowns: 0,
    }
}
