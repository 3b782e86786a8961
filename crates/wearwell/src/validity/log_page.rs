//! Bytes of a page of the validity log: a head, then entries in the order of insertion, all little-endian and of 12 bytes.
//!
//! Twelve bytes are what `GeckoFTL`'s recovery times of IB-FTL come to: address, stamp and pointer. The head takes the room
//! of one entry of the 341 that 4 KiB would hold.

use crate::address::{Address, Ppn};

/// Bytes of an entry, and of the head of a log page.
pub(super) const ENTRY_BYTES: usize = 12;
/// End of a chain.
pub(super) const NIL: u32 = u32::MAX;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Entry {
    /// The invalid page; [`Ppn::NONE`] in a slot without an entry.
    pub(super) page: Ppn,
    /// Opening of its block that the entry belongs to.
    pub(super) life: u32,
    /// Position of the block's previous entry, or [`NIL`].
    pub(super) previous: u32,
}

impl Entry {
    pub(super) const BLANK: Self = Self { page: Ppn::NONE, life: 0, previous: NIL };

    pub(super) fn write(self, page: &mut [u8], slot: u32) {
        let bytes = &mut page[(slot as usize + 1) * ENTRY_BYTES..][..ENTRY_BYTES];
        bytes[..4].copy_from_slice(&self.page.0.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.life.to_le_bytes());
        bytes[8..].copy_from_slice(&self.previous.to_le_bytes());
    }

    pub(super) fn read(page: &[u8], slot: u32) -> Self {
        let at = (slot as usize + 1) * ENTRY_BYTES;
        Self { page: Ppn(word(page, at)), life: word(page, at + 4), previous: word(page, at + 8) }
    }
}

/// First bytes of a log page.
#[derive(Clone, Copy)]
pub(super) struct Head {
    /// What was reported before this program is on flash with it.
    pub(super) durable_since: u64,
    /// Number of the oldest page of the log once this one is programmed.
    pub(super) oldest: u32,
}

impl Head {
    pub(super) fn write(self, page: &mut [u8]) {
        page[..8].copy_from_slice(&self.durable_since.to_le_bytes());
        page[8..12].copy_from_slice(&self.oldest.to_le_bytes());
    }

    pub(super) fn read(page: &[u8]) -> Self {
        let durable_since = word(page, 0) as u64 | (word(page, 4) as u64) << 32;
        Self { durable_since, oldest: word(page, 8) }
    }
}

fn word(page: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(page[at..at + 4].try_into().expect("a word has four bytes"))
}
