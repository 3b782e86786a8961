//! Bytes of a page of the validity log: a head, then entries in the order of insertion, all little-endian and of 12
//! bytes.
//!
//! An entry has 12 bytes (address, stamp and pointer) because the recovery times of IB-FTL in the `GeckoFTL` paper
//! imply that size. The head takes the room of one of the 341 entries that 4 KiB would hold.

use crate::address::{OptionalAddress, Ppn};

/// Bytes of an entry of the validity log, which records one invalid page. The head of a log page has the same size.
pub(super) const VALIDITY_LOG_ENTRY_BYTES: usize = 12;
/// Value in place of a position in the validity log that marks the end of a block's chain of entries.
pub(super) const END_OF_CHAIN: u32 = u32::MAX;

/// Entry of the validity log: records one invalid page, and names the previous entry of the same block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct ValidityLogEntry {
    /// The invalid page that the log entry records; [`Ppn::NONE`] for a blank entry.
    pub(super) invalid_page: Ppn,
    /// How often the block of the invalid page had been opened when the log entry was made. The next opening makes the
    /// entry obsolete.
    pub(super) block_opening_count: u32,
    /// Position in the log of the previous entry of the same block, or [`END_OF_CHAIN`].
    pub(super) previous_entry_position: u32,
}

impl ValidityLogEntry {
    /// A blank entry, which names no invalid page.
    pub(super) const BLANK: Self =
        Self { invalid_page: Ppn::NONE, block_opening_count: 0, previous_entry_position: END_OF_CHAIN };

    /// Writes the log entry to place `slot` of a log page.
    pub(super) fn write_to(self, page: &mut [u8], slot: u32) {
        let bytes = &mut page[(slot as usize + 1) * VALIDITY_LOG_ENTRY_BYTES..][..VALIDITY_LOG_ENTRY_BYTES];
        bytes[..4].copy_from_slice(&self.invalid_page.0.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.block_opening_count.to_le_bytes());
        bytes[8..].copy_from_slice(&self.previous_entry_position.to_le_bytes());
    }

    /// Reads the log entry in place `slot` of a log page.
    pub(super) fn read_from(page: &[u8], slot: u32) -> Self {
        let at = (slot as usize + 1) * VALIDITY_LOG_ENTRY_BYTES;
        Self {
            invalid_page: Ppn(read_u32(page, at)),
            block_opening_count: read_u32(page, at + 4),
            previous_entry_position: read_u32(page, at + 8),
        }
    }
}

/// Header of a page of the validity log, in its first bytes.
#[derive(Clone, Copy)]
pub(super) struct ValidityLogPageHeader {
    /// Sequence number such that all invalid pages reported before it are recorded on flash once this log page is
    /// programmed.
    pub(super) reports_durable_before_sequence: u64,
    /// Number of the oldest page of the validity log once this page is programmed.
    pub(super) oldest_page_number: u32,
}

impl ValidityLogPageHeader {
    /// Writes the header to the beginning of a log page.
    pub(super) fn write_to(self, page: &mut [u8]) {
        page[..8].copy_from_slice(&self.reports_durable_before_sequence.to_le_bytes());
        page[8..12].copy_from_slice(&self.oldest_page_number.to_le_bytes());
    }

    /// Reads the header from the beginning of a log page.
    pub(super) fn read_from(page: &[u8]) -> Self {
        let reports_durable_before_sequence = read_u32(page, 0) as u64 | (read_u32(page, 4) as u64) << 32;
        Self { reports_durable_before_sequence, oldest_page_number: read_u32(page, 8) }
    }
}

/// Returns the number in the four bytes of a log page from byte `at` on.
fn read_u32(page: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(page[at..at + 4].try_into().expect("a word has four bytes"))
}
