//! Sectors of a file that the disk can no longer read.
//!
//! A copy of an image is made although the disk has lost some sectors of its files, because a copy is often the only way
//! to move what is left to another disk. In the copy these sectors hold bytes that are neither a valid record nor blank.
//! So they count as damaged there, as they do in the original: metadata is taken from its second copy, and data of a
//! page is lost.

use std::fmt::{self, Display, Formatter};
use std::io;

use serde::{Deserialize, Serialize};

/// Size of the pieces into which a range is split after a refused read, bytes: the sector of most disks.
pub(super) const SECTOR_BYTES: usize = 512;

/// Byte with which a sector that cannot be read is filled. A record of such bytes is neither valid nor blank.
pub(super) const DAMAGED_BYTE: u8 = 0xff;

/// The sectors of one file of an image that the disk could not read while the file was copied.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct UnreadableSectors {
    /// Path of the file.
    pub path: String,
    /// Offset in the file of the first of these sectors, bytes.
    pub first_offset_bytes: u64,
    /// Number of sectors of 512 bytes.
    pub count: u64,
}

impl Display for UnreadableSectors {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        let Self { path, first_offset_bytes, count } = self;
        write!(
            formatter,
            "sectors of {path} that the disk cannot read (512 bytes each): {count}, the first at byte \
             {first_offset_bytes}; the copy holds damaged bytes in their place"
        )
    }
}

/// Whether a read failed because the disk cannot read this place of the file (`EIO`). Other places may be readable.
pub(super) fn is_disk_error(error: &io::Error) -> bool {
    error.raw_os_error() == Some(rustix::io::Errno::IO.raw_os_error())
}

/// Fills `bytes` by `read`, which reads a range of a file from a given byte on; `bytes` begins at byte `offset` of the
/// file. Sectors that the disk cannot read are filled with [`DAMAGED_BYTE`]. Returns their offsets in the file.
///
/// # Errors
/// Errors of `read` other than those of the disk.
pub(super) fn read_around_unreadable_sectors(
    read: impl Fn(&mut [u8], u64) -> io::Result<()>,
    bytes: &mut [u8],
    offset: u64,
) -> io::Result<Vec<u64>> {
    read_around_unreadable_pieces(read, bytes, offset, SECTOR_BYTES, is_disk_error)
}

/// Fills `bytes` as [`read_around_unreadable_sectors`] does, but if the read of the whole range fails, in pieces of
/// `piece_bytes`. A piece that cannot be read is filled with [`DAMAGED_BYTE`] if `is_local`: the error concerns only this
/// piece.
///
/// # Errors
/// Errors of `read` that are not local.
pub(super) fn read_around_unreadable_pieces(
    read: impl Fn(&mut [u8], u64) -> io::Result<()>,
    bytes: &mut [u8],
    offset: u64,
    piece_bytes: usize,
    is_local: impl Fn(&io::Error) -> bool,
) -> io::Result<Vec<u64>> {
    match read(bytes, offset) {
        Err(error) if is_local(&error) => {}
        other => return other.map(|()| Vec::new()),
    }
    let mut unreadable = Vec::new();
    for (at, piece) in (offset..).step_by(piece_bytes).zip(bytes.chunks_mut(piece_bytes)) {
        match read(piece, at) {
            Err(error) if is_local(&error) => {
                piece.fill(DAMAGED_BYTE);
                unreadable.push(at);
            }
            other => other?,
        }
    }
    Ok(unreadable)
}
