//! The two copies of all metadata of an image: one in its own file (at home), the other in the file `mirror`.
//!
//! Metadata is written to both sides, home first. A reader takes the copy that is whole and newest, from whichever
//! side, and repairs the other one. So damage to one side (a flipped bit, a sector, or a file that is missing) loses
//! nothing.

use std::io;
use std::ops::AddAssign;

use wearwell::address::Ppn;

use super::backing::Backing;
use super::image_file::ImageFile;
use super::layout::Layout;
use super::unreadable_sectors::{is_disk_error, read_around_unreadable_pieces};

/// What became of the copies of metadata that were missing, damaged or older than their second copy.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct MetadataRepairs {
    /// Number of copies that were rewritten from their second copies.
    pub rewritten_copies: u64,
    /// Number of copies that stay as they were found, because the operating system refused the write. The next opening
    /// of the image tries again.
    pub refused_copies: u64,
}

impl AddAssign for MetadataRepairs {
    fn add_assign(&mut self, other: Self) {
        self.rewritten_copies += other.rewritten_copies;
        self.refused_copies += other.refused_copies;
    }
}

/// One of the two copies of an image's metadata: in its own file, or in the file `mirror`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum MetadataCopy {
    /// The copy of the metadata in its own file.
    OwnFile,
    /// The copy of the metadata in the file `mirror`.
    Mirror,
}

/// Both copies of metadata, in the order in which they are written.
pub(super) const METADATA_COPIES: [MetadataCopy; 2] = [MetadataCopy::OwnFile, MetadataCopy::Mirror];

impl MetadataCopy {
    /// Returns the file and offset in which this copy of the metadata at `offset` of `file` is stored.
    pub(super) fn location_of(self, layout: &Layout, file: ImageFile, offset: u64) -> (ImageFile, u64) {
        match self {
            Self::OwnFile => (file, offset),
            Self::Mirror => (ImageFile::Mirror, layout.mirror_offset(file, offset)),
        }
    }

    /// Fills `bytes` with this copy of the metadata at byte `offset` of `file`. Returns `false` if the operating system
    /// refuses the read, or the file is too short.
    pub(super) fn read_metadata(
        self,
        backing: &impl Backing,
        layout: &Layout,
        file: ImageFile,
        bytes: &mut [u8],
        offset: u64,
    ) -> bool {
        let (file, offset) = self.location_of(layout, file, offset);
        backing.read(file, bytes, offset).is_ok()
    }

    /// Fills `bytes` with this copy of the metadata at byte `offset` of `file`. What cannot be read is filled with
    /// [`DAMAGED_BYTE`](super::unreadable_sectors::DAMAGED_BYTE), in pieces of `piece_bytes`: the disk may have lost only
    /// some of them, and a file may be cut short.
    pub(super) fn read_metadata_pieces(
        self,
        backing: &impl Backing,
        layout: &Layout,
        file: ImageFile,
        bytes: &mut [u8],
        offset: u64,
        piece_bytes: usize,
    ) {
        let (file, offset) = self.location_of(layout, file, offset);
        let read = |bytes: &mut [u8], offset| backing.read(file, bytes, offset);
        read_around_unreadable_pieces(read, bytes, offset, piece_bytes, |_| true)
            .expect("every error counts as local");
    }

    /// Overwrites this copy of the metadata with `bytes`, the content of the other copy. Returns the one repair, which
    /// is written or refused.
    pub(super) fn repair_metadata(
        self,
        backing: &mut impl Backing,
        layout: &Layout,
        file: ImageFile,
        bytes: &[u8],
        offset: u64,
    ) -> MetadataRepairs {
        let (file, offset) = self.location_of(layout, file, offset);
        match backing.write(file, bytes, offset) {
            Ok(()) => MetadataRepairs { rewritten_copies: 1, refused_copies: 0 },
            Err(_) => MetadataRepairs { rewritten_copies: 0, refused_copies: 1 },
        }
    }
}

/// A flash page to be read and verified, with its checksum and the length of its spare bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct PageToVerify {
    /// Number of the flash page.
    pub(super) ppn: Ppn,
    /// Erase count of the block when the page was programmed, which is part of the checksum.
    pub(super) block_erase_count: u32,
    /// Checksum of data and spare bytes, to which the page is compared.
    pub(super) data_and_spare_crc: u32,
    /// Number of spare bytes of the page.
    pub(super) spare_bytes: u16,
    /// Whether the page holds metadata of the engine, whose data is stored twice.
    pub(super) is_metadata: bool,
}

impl PageToVerify {
    /// Whether any bytes of the page are stored twice: its data if it holds metadata, and its spare bytes.
    pub(super) fn has_second_copies(self) -> bool {
        self.is_metadata || self.spare_bytes > 0
    }
}

/// Data and spare bytes of a page that match their checksum, and whether any of them were read from the mirror.
pub(super) struct VerifiedPage {
    /// Data of the page, then its spare bytes.
    pub(super) bytes: Vec<u8>,
    /// Whether the copy in `flash` of the data or of the spare bytes is damaged, so that the copy in the mirror was
    /// read.
    pub(super) is_from_mirror: bool,
}

/// Reads data and spare bytes of a page from copies that match the page's checksum; `None` if no combination of copies
/// matches.
///
/// # Errors
/// Errors of the operating system, except a disk error (`EIO`), which counts as a copy that does not match.
pub(super) fn read_verified_page(
    backing: &impl Backing,
    layout: &Layout,
    page: PageToVerify,
) -> io::Result<Option<VerifiedPage>> {
    let page_bytes = layout.geometry.page_bytes as usize;
    let mut bytes = vec![0; page_bytes + usize::from(page.spare_bytes)];
    let (data_at, spare_at) = (layout.data_offset(page.ppn), layout.spare_area_offset(page.ppn));
    let data_sides = if page.is_metadata { &METADATA_COPIES[..] } else { &METADATA_COPIES[..1] };
    let spare_sides = if page.spare_bytes > 0 { &METADATA_COPIES[..] } else { &METADATA_COPIES[..1] };
    for &data_side in data_sides {
        let (file, at) = data_side.location_of(layout, ImageFile::Flash, data_at);
        match backing.read(file, &mut bytes[..page_bytes], at) {
            Err(error) if data_side == MetadataCopy::OwnFile && !is_page_local_read_error(&error) => {
                return Err(error);
            }
            Err(_) => continue,
            Ok(()) => {}
        }
        for &spare_side in spare_sides {
            let spare = &mut bytes[page_bytes..];
            if !spare.is_empty()
                && !spare_side.read_metadata(backing, layout, ImageFile::Flash, spare, spare_at)
            {
                continue;
            }
            if layout.page_crc(page.ppn, page.block_erase_count, &bytes, &[]) == page.data_and_spare_crc {
                let is_from_mirror = [data_side, spare_side].contains(&MetadataCopy::Mirror);
                return Ok(Some(VerifiedPage { bytes, is_from_mirror }));
            }
        }
    }
    Ok(None)
}

/// Compares both copies of a page with `bytes`, its data and spare bytes as [`read_verified_page`] returned them: the
/// copies of the data if the page holds metadata, and the copies of the spare bytes. Rewrites the copies that differ,
/// and returns what became of them. Host data, which is stored once, is not compared.
pub(super) fn repair_differing_copies(
    backing: &mut impl Backing,
    layout: &Layout,
    page: PageToVerify,
    bytes: &[u8],
) -> MetadataRepairs {
    let (data, spare) = bytes.split_at(layout.geometry.page_bytes as usize);
    let stored_twice = [
        (if page.is_metadata { data } else { &[] }, layout.data_offset(page.ppn)),
        (spare, layout.spare_area_offset(page.ppn)),
    ];
    let mut repairs = MetadataRepairs::default();
    for (whole, offset) in stored_twice.into_iter().filter(|(whole, _)| !whole.is_empty()) {
        let mut copy = vec![0; whole.len()];
        for side in METADATA_COPIES {
            if !side.read_metadata(backing, layout, ImageFile::Flash, &mut copy, offset) || copy != whole {
                repairs += side.repair_metadata(backing, layout, ImageFile::Flash, whole, offset);
            }
        }
    }
    repairs
}

/// Whether a failed read concerns only this place of the file, so that no more than one page is lost: an error of the
/// disk (`EIO`), or a file that was cut short.
pub(super) fn is_page_local_read_error(error: &io::Error) -> bool {
    is_disk_error(error) || error.kind() == io::ErrorKind::UnexpectedEof
}
