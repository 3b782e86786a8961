//! Layout of a write-ahead log on the device. Each database page in the log occupies whole device pages, and the
//! headers are collected in separate pages.
//!
//! `SQLite` writes a log as one header of 32 bytes, then frames that consist of a 24-byte header and a database page.
//! Stored like this, only one database page in 512 would be aligned to device pages (with pages of 4 KiB), so hardly
//! any could be remapped. Therefore the log is stored in *groups* of one slot of headers and [`WAL_FRAMES_PER_GROUP`]
//! slots of payloads. A slot is the number of whole device pages that hold one database page:
//!
//! ```text
//! slot       0          1          2               169        170        171
//!      | headers  | frame 0  | frame 1  | ... | frame 168 | headers  | frame 169 | ...
//! ```
//!
//! The header slot holds the header of the log in its first 32 bytes (used only in the first group) and after it 24
//! bytes per frame. The price is one page write for the headers of a group at every sync that added frames to the
//! group.

/// Size of the header of `SQLite`'s write-ahead log, bytes.
pub(crate) const WAL_HEADER_BYTES: u64 = 32;
/// Size of the header of a frame (a logged database page) in `SQLite`'s write-ahead log, bytes.
pub(crate) const FRAME_HEADER_BYTES: u64 = 24;
/// Number of frames of the write-ahead log in a group. On the device, the headers of a group are stored together in a
/// slot (the space of one database page). With the header of the log, they fill a page of 4 KiB except for 8 bytes.
pub(crate) const WAL_FRAMES_PER_GROUP: u64 = 169;

/// Number of bytes of a slot of headers that are used: the header of the log, and the headers of a group of frames.
/// They fit into one device page.
pub(crate) const SLOT_HEADERS_BYTES: usize =
    (WAL_HEADER_BYTES + WAL_FRAMES_PER_GROUP * FRAME_HEADER_BYTES) as usize;

/// Range of a file's bytes that is contiguous as stored on the device, too. In a write-ahead log, frame headers and
/// database pages are separate ranges, because they are stored apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ContiguousRange {
    /// Offset of the range among the stored bytes of the file, bytes.
    pub(crate) stored_offset_bytes: u64,
    /// Length of the range, bytes; at least one.
    pub(crate) len_bytes: u64,
    /// Whether writes to the range may cover only a part of a device page. If so, they are collected in memory before
    /// the page is written to the device.
    pub(crate) may_cover_partial_pages: bool,
}

/// Layout of a write-ahead log on the device, for one size of database pages: where headers and database pages are
/// stored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct WalLayout {
    /// Size of a database page, bytes.
    pub(crate) page_bytes: u64,
    /// Size of a slot (the space of one database page in the stored log): the database page rounded up to whole device
    /// pages, bytes.
    pub(crate) page_slot_bytes: u64,
}

impl WalLayout {
    /// Makes the layout of a log with database pages of `page_bytes`, on a device with pages of `device_page_bytes`.
    pub(crate) fn new(page_bytes: u32, device_page_bytes: u32) -> Self {
        let slot_bytes = page_bytes.next_multiple_of(device_page_bytes);
        Self { page_bytes: u64::from(page_bytes), page_slot_bytes: u64::from(slot_bytes) }
    }

    /// Returns the length of a frame as `SQLite` writes it: header and database page, bytes.
    fn frame_bytes(self) -> u64 {
        FRAME_HEADER_BYTES + self.page_bytes
    }

    /// Returns the length of a group of frames on the device: one slot of headers and the slots of its database pages,
    /// bytes.
    fn stored_frame_group_bytes(self) -> u64 {
        (1 + WAL_FRAMES_PER_GROUP) * self.page_slot_bytes
    }

    /// Returns the contiguous range that begins at byte `offset` of the write-ahead log and ends with the header or
    /// database page in which it begins.
    pub(crate) fn contiguous_range_at(self, offset: u64) -> ContiguousRange {
        let Some(behind) = offset.checked_sub(WAL_HEADER_BYTES) else {
            return ContiguousRange {
                stored_offset_bytes: offset,
                len_bytes: WAL_HEADER_BYTES - offset,
                may_cover_partial_pages: true,
            };
        };
        let (frame, within) = (behind / self.frame_bytes(), behind % self.frame_bytes());
        let (group, k) =
            (self.stored_headers_offset(frame / WAL_FRAMES_PER_GROUP), frame % WAL_FRAMES_PER_GROUP);
        match within.checked_sub(FRAME_HEADER_BYTES) {
            None => ContiguousRange {
                stored_offset_bytes: group + WAL_HEADER_BYTES + k * FRAME_HEADER_BYTES + within,
                len_bytes: FRAME_HEADER_BYTES - within,
                may_cover_partial_pages: true,
            },
            Some(within) => ContiguousRange {
                stored_offset_bytes: group + (1 + k) * self.page_slot_bytes + within,
                len_bytes: self.page_bytes - within,
                may_cover_partial_pages: false,
            },
        }
    }

    /// Returns the offset, among the stored bytes of the log, of the slot that holds the headers of group number
    /// `group` of frames.
    pub(crate) fn stored_headers_offset(self, group: u64) -> u64 {
        group * self.stored_frame_group_bytes()
    }

    /// Returns the number of groups (frames whose headers share a slot) that a write-ahead log of `len` bytes occupies,
    /// a partly filled one included.
    pub(crate) fn frame_groups_of_log_bytes(self, len: u64) -> u64 {
        len.saturating_sub(WAL_HEADER_BYTES)
            .div_ceil(self.frame_bytes() * WAL_FRAMES_PER_GROUP)
            .max(u64::from(len > 0))
    }

    /// Returns the length, in bytes, of a write-ahead log whose `groups` groups of frames (frames whose headers share a
    /// slot) are full.
    pub(crate) fn log_bytes_of_frame_groups(self, groups: u64) -> u64 {
        if groups == 0 { 0 } else { WAL_HEADER_BYTES + groups * WAL_FRAMES_PER_GROUP * self.frame_bytes() }
    }

    /// Returns the number of bytes of device pages that a write-ahead log of `len` bytes occupies, with its separate
    /// pages for headers.
    pub(crate) fn stored_log_bytes(self, len: u64) -> u64 {
        self.frame_groups_of_log_bytes(len) * self.stored_frame_group_bytes()
    }
}

/// Returns the number of the database page that the frame of a write-ahead log with this header contains.
pub(crate) fn database_page_number(frame_header: &[u8]) -> u32 {
    big_endian_number(frame_header, 0)
}

/// Returns the size of a database page, bytes, from the header of a write-ahead log.
pub(crate) fn database_page_bytes(wal_header: &[u8]) -> u32 {
    big_endian_number(wal_header, 8)
}

/// Returns the highest number of a database page in the frames of a group, 0 if there is none. `slot` is the group's
/// slot of headers. Only frames with `salts` count, the two random numbers in the header of the log: other frames are
/// left from an earlier log.
pub(crate) fn last_page_in_frame_group(slot: &[u8], salts: [u8; 8]) -> u32 {
    let (_, frame_headers) = slot.split_at(WAL_HEADER_BYTES as usize);
    let frame_headers = frame_headers.chunks_exact(FRAME_HEADER_BYTES as usize);
    frame_headers.filter(|header| header[8..16] == salts).map(database_page_number).max().unwrap_or(0)
}

/// Returns the two random numbers (salts) in the header of a write-ahead log, which its frames repeat.
pub(crate) fn salts_of_log(wal_header: &[u8]) -> [u8; 8] {
    wal_header[16..24].try_into().expect("the range has 8 bytes")
}

/// Returns the number of 4 bytes at byte `at` of a header, 0 if the header is too short.
fn big_endian_number(header: &[u8], at: usize) -> u32 {
    header.get(at..).and_then(<[u8]>::first_chunk).map_or(0, |&bytes| u32::from_be_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// Every byte of the log is stored at its own address, database pages begin at device pages, and headers do not
    /// overlap them.
    #[test]
    fn every_byte_of_a_write_ahead_log_has_one_device_address() {
        for (page_bytes, device_page_bytes) in [(512, 4096), (4096, 4096), (16384, 4096), (4096, 16384)] {
            let layout = WalLayout::new(page_bytes, device_page_bytes);
            let len = layout.log_bytes_of_frame_groups(3);
            let (mut offset, mut ends, mut payloads) = (0, BTreeSet::new(), 0);
            while offset < len {
                let piece = layout.contiguous_range_at(offset);
                if !piece.may_cover_partial_pages {
                    assert_eq!(piece.stored_offset_bytes % u64::from(device_page_bytes), 0);
                    payloads += 1;
                }
                assert!(
                    ends.insert((piece.stored_offset_bytes + piece.len_bytes, piece.stored_offset_bytes)),
                    "two runs end at one byte"
                );
                offset += piece.len_bytes;
            }
            assert_eq!((offset, payloads), (len, 3 * WAL_FRAMES_PER_GROUP));
            let spans: Vec<_> = ends.into_iter().map(|(end, at)| (at, end)).collect();
            assert!(spans.windows(2).all(|pair| pair[0].1 <= pair[1].0), "two runs share a byte");
            assert!(spans.last().expect("there are runs").1 <= layout.stored_log_bytes(len));
        }
    }

    /// For a byte offset inside a frame header or a database page, the contiguous range is the rest of this header or
    /// page.
    #[test]
    fn a_range_of_the_write_ahead_log_is_recognised_from_any_byte_offset() {
        let layout = WalLayout::new(4096, 4096);
        for offset in [1, 31, 32, 40, 55, 56, 60, 4151, 4152, 32 + 169 * 4120, 32 + 169 * 4120 + 24] {
            let (whole, part) = (layout.contiguous_range_at(offset - 1), layout.contiguous_range_at(offset));
            assert!(part.len_bytes >= 1);
            if whole.len_bytes > 1 {
                assert_eq!(
                    (part.stored_offset_bytes, part.len_bytes),
                    (whole.stored_offset_bytes + 1, whole.len_bytes - 1),
                    "at byte {offset}"
                );
            }
        }
    }

    #[test]
    fn write_ahead_log_lengths_are_rounded_up_to_frame_groups() {
        let layout = WalLayout::new(4096, 4096);
        assert_eq!([0, 1, 32, 33].map(|len| layout.frame_groups_of_log_bytes(len)), [0, 1, 1, 1]);
        assert_eq!(layout.frame_groups_of_log_bytes(layout.log_bytes_of_frame_groups(2)), 2);
        assert_eq!(layout.frame_groups_of_log_bytes(layout.log_bytes_of_frame_groups(2) + 1), 3);
    }
}
