//! Where the bytes of a write-ahead log lie: payloads in whole pages, headers collected in front of them.
//!
//! `SQLite` writes a log as one header of 32 bytes, then frames of a 24-byte header and a database page, so no page of
//! the log is aligned and none could be remapped. Here a *group* is one slot of headers and [`FRAMES`] slots of payloads, a slot
//! being the whole pages that hold one database page:
//!
//! ```text
//! slot       0          1          2               169        170        171
//!      | headers  | frame 0  | frame 1  | ... | frame 168 | headers  | frame 169 | ...
//! ```
//!
//! The header slot holds the header of the log in its first 32 bytes (used in the first group only) and 24 bytes per frame
//! behind it. The price is one page write for the headers of a group at every sync that added frames to it.

/// Bytes of a log's header.
pub(crate) const WAL_HEADER_BYTES: u64 = 32;
/// Bytes of a frame's header.
pub(crate) const FRAME_HEADER_BYTES: u64 = 24;
/// Frames of a group: their headers and that of the log fill a page of 4 KiB but for 8 bytes.
pub(crate) const FRAMES: u64 = 169;

/// A run of bytes of a file that is contiguous in the pages of the file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Piece {
    /// First byte, counted in the pages of the file.
    pub(crate) at: u64,
    /// Bytes, at least one.
    pub(crate) len: u64,
    /// Whether it is written in parts of pages, which are collected before they reach the device.
    pub(crate) is_partial: bool,
}

/// Places of a log with pages of one size.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct WalLayout {
    /// Bytes of a database page.
    pub(crate) page_bytes: u64,
    /// Bytes of a slot: whole pages of the device.
    pub(crate) slot_bytes: u64,
}

impl WalLayout {
    pub(crate) fn new(page_bytes: u32, block_bytes: u32) -> Self {
        let slot_bytes = page_bytes.next_multiple_of(block_bytes);
        Self { page_bytes: u64::from(page_bytes), slot_bytes: u64::from(slot_bytes) }
    }

    fn frame_bytes(self) -> u64 {
        FRAME_HEADER_BYTES + self.page_bytes
    }

    fn group_bytes(self) -> u64 {
        (1 + FRAMES) * self.slot_bytes
    }

    /// The run that begins at a byte of the log and ends with the header or payload it is in.
    pub(crate) fn piece(self, offset: u64) -> Piece {
        let Some(behind) = offset.checked_sub(WAL_HEADER_BYTES) else {
            return Piece { at: offset, len: WAL_HEADER_BYTES - offset, is_partial: true };
        };
        let (frame, within) = (behind / self.frame_bytes(), behind % self.frame_bytes());
        let (group, k) = (frame / FRAMES * self.group_bytes(), frame % FRAMES);
        match within.checked_sub(FRAME_HEADER_BYTES) {
            None => Piece {
                at: group + WAL_HEADER_BYTES + k * FRAME_HEADER_BYTES + within,
                len: FRAME_HEADER_BYTES - within,
                is_partial: true,
            },
            Some(within) => Piece {
                at: group + (1 + k) * self.slot_bytes + within,
                len: self.page_bytes - within,
                is_partial: false,
            },
        }
    }

    /// Groups that a log of some bytes touches.
    pub(crate) fn groups(self, len: u64) -> u64 {
        len.saturating_sub(WAL_HEADER_BYTES).div_ceil(self.frame_bytes() * FRAMES).max(u64::from(len > 0))
    }

    /// Bytes of a log of whole groups.
    pub(crate) fn len(self, groups: u64) -> u64 {
        if groups == 0 { 0 } else { WAL_HEADER_BYTES + groups * FRAMES * self.frame_bytes() }
    }

    /// Bytes of the file's pages that a log of some bytes may use.
    pub(crate) fn stored_bytes(self, len: u64) -> u64 {
        self.groups(len) * self.group_bytes()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// Every byte of the log has a place of its own, payloads begin pages, and headers keep out of them.
    #[test]
    fn every_byte_has_one_place() {
        for (page_bytes, block_bytes) in [(512, 4096), (4096, 4096), (16384, 4096), (4096, 16384)] {
            let layout = WalLayout::new(page_bytes, block_bytes);
            let len = layout.len(3);
            let (mut offset, mut ends, mut payloads) = (0, BTreeSet::new(), 0);
            while offset < len {
                let piece = layout.piece(offset);
                if !piece.is_partial {
                    assert_eq!(piece.at % u64::from(block_bytes), 0);
                    payloads += 1;
                }
                assert!(ends.insert((piece.at + piece.len, piece.at)), "two runs end at one byte");
                offset += piece.len;
            }
            assert_eq!((offset, payloads), (len, 3 * FRAMES));
            let spans: Vec<_> = ends.into_iter().map(|(end, at)| (at, end)).collect();
            assert!(spans.windows(2).all(|pair| pair[0].1 <= pair[1].0), "two runs share a byte");
            assert!(spans.last().expect("there are runs").1 <= layout.stored_bytes(len));
        }
    }

    #[test]
    fn a_run_may_begin_anywhere() {
        let layout = WalLayout::new(4096, 4096);
        for offset in [1, 31, 32, 40, 55, 56, 60, 4151, 4152, 32 + 169 * 4120, 32 + 169 * 4120 + 24] {
            let (whole, part) = (layout.piece(offset - 1), layout.piece(offset));
            assert!(part.len >= 1);
            if whole.len > 1 {
                assert_eq!((part.at, part.len), (whole.at + 1, whole.len - 1), "at byte {offset}");
            }
        }
    }

    #[test]
    fn lengths_are_rounded_up_to_groups() {
        let layout = WalLayout::new(4096, 4096);
        assert_eq!([0, 1, 32, 33].map(|len| layout.groups(len)), [0, 1, 1, 1]);
        assert_eq!(layout.groups(layout.len(2)), 2);
        assert_eq!(layout.groups(layout.len(2) + 1), 3);
    }
}
