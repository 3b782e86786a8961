//! Copies of images: of the files, as a snapshot or before a repair, and of what they hold, into an image of another size or design.

use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, FileExt as _, OpenOptionsExt as _};
use std::path::Path;

use rustix::fs::SeekFrom;
use wearwell::Device;
use wearwell::address::{Lpn, Ppn};
use wearwell::device::HostData;
use wearwell::page_state::PageState;
use wearwell_config::Config;

use super::backing::{Access, Backing, CopyOnWrite, Files, ImageFile};
use super::create::{Specification, create};
use super::error::ImageError;
use super::layout::Durability;
use super::nand::FileNand;
use super::{Image, OpenOptions, close};
use crate::device::sentence_of_loss;

/// Copies files to a new directory that only its owner may look into. Where the file system can, the copies share their room
/// with the originals; else what was never written takes none.
///
/// # Errors
/// Those of the host; the directory exists.
pub(super) fn copy_files(from: &[(ImageFile, &File)], to: &Path) -> io::Result<()> {
    DirBuilder::new().mode(0o700).create(to)?;
    // The superblock comes last: before that it is no image.
    for &(file, original) in from.iter().rev() {
        let mut options = fs::OpenOptions::new();
        let copy = options.read(true).write(true).create_new(true).mode(0o600).open(to.join(file.name()))?;
        if rustix::fs::ioctl_ficlone(&copy, original).is_err() {
            copy_sparse(original, &copy)?;
        }
        copy.sync_all()?;
    }
    File::open(to)?.sync_all()
}

/// Copies what holds data; the rest are holes.
fn copy_sparse(original: &File, copy: &File) -> io::Result<()> {
    const PIECE_BYTES: u64 = 1 << 20;
    let len = original.metadata()?.len();
    copy.set_len(len)?;
    let mut piece = vec![0; PIECE_BYTES as usize];
    let mut at = 0;
    while at < len {
        // There is no data behind this, or, where a file system knows no holes, everything is.
        let Ok(begin) = rustix::fs::seek(original, SeekFrom::Data(at)) else { break };
        let end = rustix::fs::seek(original, SeekFrom::Hole(begin))?.min(len);
        for from in (begin..end).step_by(PIECE_BYTES as usize) {
            let part = &mut piece[..(end - from).min(PIECE_BYTES) as usize];
            original.read_exact_at(part, from)?;
            copy.write_all_at(part, from)?;
        }
        at = end;
    }
    Ok(())
}

/// What a repair did.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RepairReport {
    /// Records and sectors of metadata that were written again from their copies.
    pub repaired: u64,
    /// Pages of flash that were read and compared with their checksums.
    pub read_pages: u64,
    /// Logical pages that are lost, each with the page of flash that cannot be read.
    pub lost_pages: Vec<(Lpn, Ppn)>,
    page_bytes: u64,
}

impl RepairReport {
    /// What is lost, a sentence for each logical page.
    pub fn findings(&self) -> impl Iterator<Item = String> + '_ {
        self.lost_pages.iter().map(|&(lpn, ppn)| sentence_of_loss(lpn, ppn, self.page_bytes))
    }
}

/// Repairs the image in a directory, or a copy of it that is made first: all metadata is read and written again where one of its
/// two copies is damaged, all data is compared with its checksum. What is lost stays an error until it is written or trimmed.
///
/// # Errors
/// As [`Image::open`]; the directory of the copy exists.
pub fn repair(directory: &Path, copy: Option<&Path>) -> Result<RepairReport, ImageError> {
    if let Some(copy) = copy {
        let files = Files::open(directory, Access::Read)?;
        files.copy_to(copy).map_err(|source| ImageError::Io {
            doing: "copy the image to",
            path: copy.display().to_string(),
            source,
        })?;
    }
    let mut image = Image::open(copy.unwrap_or(directory), OpenOptions::default())?;
    let read_pages = scrub(&mut image.device)?;
    let report = RepairReport {
        repaired: image.report.repaired,
        read_pages,
        lost_pages: image.device.ftl_mut().lost_logical_pages(),
        page_bytes: image.superblock.geometry.page_bytes.into(),
    };
    image.close()?;
    Ok(report)
}

/// Reads every page in use; how many these were.
fn scrub<B: Backing>(device: &mut Device<FileNand<B>>) -> Result<u64, ImageError> {
    const SLICE_PAGES: u32 = 1024;
    let (mut next, mut read_pages) = (Some(Ppn(0)), 0);
    while let Some(first) = next {
        let scrubbed = device.ftl_mut().scrub(first, SLICE_PAGES)?;
        read_pages += u64::from(scrubbed.read_pages);
        next = scrubbed.next;
    }
    Ok(read_pages)
}

/// How an image that is made from another one differs from it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Changes {
    /// Bytes the host sees.
    pub size_bytes: Option<u64>,
    /// Name of the design.
    pub design: Option<String>,
    /// Settings, as `gc.policy=fifo`.
    pub settings: Vec<String>,
    /// Whether pages that are lost are left out, and read as zeros; else they are an error.
    pub leaves_lost_out: bool,
}

/// What was copied.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CopyReport {
    /// Logical pages that hold anything but zeros.
    pub pages: u64,
    /// Logical pages that could not be read and are left out.
    pub lost_pages: Vec<Lpn>,
    /// Bytes the host sees of the new image.
    pub size_bytes: u64,
    /// Name of its design.
    pub design: String,
}

/// Makes a new image that holds what another one holds, with a larger size, another design, other settings. The other one is only
/// read. Wear and counters begin anew. `progress` is told the logical pages that were looked at and how many there are.
///
/// # Errors
/// As [`Image::open`] and [`create`]; a size that is too small; lost pages, unless they are left out. What was created is
/// removed then.
pub fn copy(
    from: &Path,
    to: &Path,
    changes: &Changes,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<CopyReport, ImageError> {
    let options = OpenOptions { durability: Some(Durability::Process) };
    let mut original = Image::open_on(CopyOnWrite::new(Files::open(from, Access::Read)?), options)?;
    let specification = specification(&original, changes)?;
    let old_bytes = original.device.bytes();
    let size_bytes = specification.size_bytes.unwrap_or(old_bytes);
    if size_bytes < old_bytes {
        return Err(ImageError::Setting(format!(
            "the image has {old_bytes} bytes, and {size_bytes} are fewer: an image can be copied to one of the same size or a larger one"
        )));
    }
    create(to, &specification)?;
    let copied = Image::open(to, OpenOptions::default()).and_then(|mut image| {
        let copied = copy_pages(&mut original.device, &mut image.device, changes.leaves_lost_out, progress)?;
        close(image.device)?;
        Ok(copied)
    });
    match copied {
        Ok((pages, lost_pages)) => {
            Ok(CopyReport { pages, lost_pages, size_bytes, design: specification.design })
        }
        Err(error) => {
            if let Ok(files) = Files::open(to, Access::Write) {
                files.remove();
            }
            Err(error)
        }
    }
}

/// That of the original with the changes; its flash is laid out anew.
fn specification<B: Backing>(original: &Image<B>, changes: &Changes) -> Result<Specification, ImageError> {
    let superblock = &original.superblock;
    let mut config = Config::from_parts(Some(("superblock", &superblock.config)), &[])?;
    config.device.blocks_per_plane = None;
    config.device.logical_pages = None;
    let config = Config::from_parts(Some(("superblock", &config.to_toml())), &changes.settings)?;
    Ok(Specification {
        design: changes.design.clone().unwrap_or_else(|| superblock.design.clone()),
        config,
        size_bytes: Some(changes.size_bytes.unwrap_or(original.device.bytes())),
        durability: superblock.durability,
    })
}

/// Copies logical pages that hold data, in pages of the original.
fn copy_pages<A: Backing, B: Backing>(
    from: &mut Device<FileNand<A>>,
    to: &mut Device<FileNand<B>>,
    leaves_lost_out: bool,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<(u64, Vec<Lpn>), ImageError> {
    const TOLD_EVERY_PAGES: u64 = 1 << 14;
    let page_bytes = u64::from(from.ftl().store().geometry().page_bytes);
    let all = from.bytes() / page_bytes;
    let (mut page, mut pages, mut lost) = (vec![0; page_bytes as usize], 0, Vec::new());
    for number in 0..all {
        if number % TOLD_EVERY_PAGES == 0 {
            progress(number, all);
        }
        let lpn = Lpn(number as u32);
        if from.page_state(lpn) == PageState::Hole {
            continue;
        }
        match from.read(number * page_bytes, page_bytes, &mut page) {
            // The new image is zeros where nothing was written.
            Ok(()) if page.iter().all(|&byte| byte == 0) => {}
            Ok(()) => {
                to.write(number * page_bytes, page_bytes, HostData::Bytes(&page))?;
                pages += 1;
            }
            Err(error) if leaves_lost_out && error.is_media_error() => lost.push(lpn),
            Err(error) => return Err(error.into()),
        }
    }
    to.flush()?;
    Ok((pages, lost))
}
