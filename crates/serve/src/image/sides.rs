//! Metadata in two places: at home, and in the mirror.
//!
//! Whoever writes metadata writes it at both sides, home first. Whoever reads it takes what is whole and newest, whichever side
//! has it, and writes it over the other. So damage to one side, be it a flipped bit, a sector, or a file that is gone, costs
//! nothing.

use std::io;

use wearwell::address::Ppn;

use super::backing::{Backing, ImageFile};
use super::layout::Layout;

/// One of the two places.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Side {
    /// Where the format says.
    Home,
    /// In the mirror.
    Mirror,
}

/// Both, in the order in which they are written.
pub(super) const SIDES: [Side; 2] = [Side::Home, Side::Mirror];

/// An error of the host's disk: `EIO`.
const INPUT_OUTPUT_ERROR: i32 = 5;

impl Side {
    /// The file, and the place in it.
    pub(super) fn place(self, layout: &Layout, file: ImageFile, offset: u64) -> (ImageFile, u64) {
        match self {
            Self::Home => (file, offset),
            Self::Mirror => (ImageFile::Mirror, layout.mirror_at(file, offset)),
        }
    }

    /// Fills `bytes`; `false` if the host cannot, or the file is too short.
    pub(super) fn read(
        self,
        backing: &impl Backing,
        layout: &Layout,
        file: ImageFile,
        bytes: &mut [u8],
        offset: u64,
    ) -> bool {
        let (file, offset) = self.place(layout, file, offset);
        backing.read(file, bytes, offset).is_ok()
    }

    /// Writes what the other side has. Where the host refuses, the next opening tries again.
    pub(super) fn repair(
        self,
        backing: &mut impl Backing,
        layout: &Layout,
        file: ImageFile,
        bytes: &[u8],
        offset: u64,
    ) {
        let (file, offset) = self.place(layout, file, offset);
        let _ = backing.write(file, bytes, offset);
    }
}

/// What a page has to be compared with.
#[derive(Clone, Copy, Debug)]
pub(super) struct Guarded {
    pub(super) ppn: Ppn,
    pub(super) epoch: u32,
    pub(super) data_crc: u32,
    pub(super) spare_bytes: u16,
    /// The data has a copy.
    pub(super) is_metadata: bool,
}

/// Reads a page with its spare bytes, from the sides that agree with its checksum, and repairs the others. `None` if none does.
///
/// # Errors
/// What the host has against a read, unless it says that its disk cannot.
pub(super) fn read_page(
    backing: &mut impl Backing,
    layout: &Layout,
    page: Guarded,
) -> io::Result<Option<Vec<u8>>> {
    let page_bytes = layout.geometry.page_bytes as usize;
    let mut bytes = vec![0; page_bytes + usize::from(page.spare_bytes)];
    let (data_at, spare_at) = (layout.data_at(page.ppn), layout.spare_at(page.ppn));
    let data_sides = if page.is_metadata { &SIDES[..] } else { &SIDES[..1] };
    let spare_sides = if page.spare_bytes > 0 { &SIDES[..] } else { &SIDES[..1] };
    for &data_side in data_sides {
        let (file, at) = data_side.place(layout, ImageFile::Flash, data_at);
        match backing.read(file, &mut bytes[..page_bytes], at) {
            Err(error) if data_side == Side::Home && !is_of_the_disk(&error) => return Err(error),
            Err(_) => continue,
            Ok(()) => {}
        }
        for &spare_side in spare_sides {
            let spare = &mut bytes[page_bytes..];
            if !spare.is_empty() && !spare_side.read(backing, layout, ImageFile::Flash, spare, spare_at) {
                continue;
            }
            if layout.page_crc(page.ppn, page.epoch, &bytes, &[]) != page.data_crc {
                continue;
            }
            let (data, spare) = bytes.split_at(page_bytes);
            if data_side == Side::Mirror {
                Side::Home.repair(backing, layout, ImageFile::Flash, data, data_at);
            }
            if spare_side == Side::Mirror {
                Side::Home.repair(backing, layout, ImageFile::Flash, spare, spare_at);
            }
            return Ok(Some(bytes));
        }
    }
    Ok(None)
}

/// Whether the host's disk cannot read: then a page is lost, and nothing else is wrong.
pub(super) fn is_of_the_disk(error: &io::Error) -> bool {
    error.raw_os_error() == Some(INPUT_OUTPUT_ERROR)
}
