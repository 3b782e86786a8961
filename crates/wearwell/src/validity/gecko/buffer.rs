//! The RAM buffer of Logarithmic Gecko, the log-structured merge tree that records invalid pages on flash. It holds the
//! entries that are not on flash yet, in two flat arrays with an index of their keys.
//!
//! No allocation per insert. Sorting happens once per flush.

use std::ops::Range;

use super::layout::{GeckoEntries, GeckoLayout};
use crate::address::BlockId;
use crate::tables::KeyToSlotIndex;

/// Buffer in RAM of Logarithmic Gecko (LSM tree of invalid pages), with the reports that are not on flash yet.
#[derive(Clone, Debug)]
pub(super) struct GeckoBuffer {
    /// Key of each buffered Gecko entry, in no particular order.
    entry_keys: Vec<u32>,
    /// Bitmaps of invalid pages of the buffered Gecko entries (each covers a part of a block), all of one size, in the
    /// order of `entry_keys`, followed by zeros.
    bitmaps: Vec<u8>,
    /// Bytes of the bitmap of one Gecko entry, which covers a part of a block.
    part_bitmap_bytes: usize,
    /// Hash index from the key of a buffered Gecko entry to its position in `entry_keys`.
    slot_by_key: KeyToSlotIndex,
    /// Number of reports (of invalid pages and of opened blocks) that were added since the Gecko buffer was empty.
    pub(super) validity_report_count: u64,
}

impl GeckoBuffer {
    /// Creates an empty buffer, with memory for the usual number of entries.
    pub(super) fn new(layout: &GeckoLayout) -> Self {
        let capacity = layout.buffer_capacity_entries as usize;
        Self {
            entry_keys: Vec::with_capacity(capacity),
            bitmaps: vec![0; capacity * layout.part_bitmap_bytes()],
            part_bitmap_bytes: layout.part_bitmap_bytes(),
            slot_by_key: KeyToSlotIndex::with_capacity(capacity),
            validity_report_count: 0,
        }
    }

    /// Returns the position of the entry with `key` in the buffer; `None` if there is none.
    #[inline]
    fn find_entry_slot(&self, key: u32) -> Option<u32> {
        self.slot_by_key.find(key)
    }

    /// Returns the position of the entry with `key` in the buffer. Adds an entry with an empty bitmap if there is none.
    #[inline]
    fn find_or_add_entry_slot(&mut self, key: u32) -> u32 {
        if let Some(slot) = self.find_entry_slot(key) {
            return slot;
        }
        let slot = self.entry_keys.len() as u32;
        self.entry_keys.push(key);
        let bytes = self.entry_keys.len() * self.part_bitmap_bytes;
        if self.bitmaps.len() < bytes {
            self.bitmaps.resize(2 * bytes, 0);
        }
        self.slot_by_key.insert(key, slot);
        slot
    }

    /// Records a page as invalid in the buffer of Logarithmic Gecko in RAM: sets bit `bit` in the bitmap of entry
    /// `key`, which covers a part of a block.
    #[inline]
    pub(super) fn set_invalid_bit(&mut self, key: u32, bit: u32) {
        let slot = self.find_or_add_entry_slot(key);
        self.bitmaps[slot as usize * self.part_bitmap_bytes + bit as usize / 8] |= 1 << (bit % 8);
        self.validity_report_count += 1;
    }

    /// Adds the block's erase marker to the buffer of the Gecko LSM tree in RAM and removes all buffered entries of the
    /// block: everything recorded about the block before is obsolete.
    pub(super) fn add_erase_marker(&mut self, block: BlockId, layout: &GeckoLayout) {
        let marker = layout.erase_marker_key(block);
        for key in marker + 1..marker + layout.keys_per_block {
            self.remove_entry(key);
        }
        self.find_or_add_entry_slot(marker);
        self.validity_report_count += 1;
    }

    /// Removes the entry with `key` from the buffer, if there is one; the last entry moves to its position.
    fn remove_entry(&mut self, key: u32) {
        let Some(slot) = self.slot_by_key.remove(key) else { return };
        let last = self.entry_keys.len() as u32 - 1;
        let of_last = self.bitmap_byte_range(last as usize);
        if slot != last {
            let moved = self.entry_keys[last as usize];
            self.slot_by_key.remove(moved);
            self.slot_by_key.insert(moved, slot);
            self.bitmaps.copy_within(of_last.clone(), slot as usize * self.part_bitmap_bytes);
        }
        self.entry_keys.swap_remove(slot as usize);
        self.bitmaps[of_last].fill(0);
    }

    /// Sets in `invalid_page_bitmap` the bits of the block's pages that the buffer of the Gecko LSM tree in RAM records
    /// as invalid. Returns whether the buffer holds the block's erase marker, so that older runs on flash need not be
    /// read.
    pub(super) fn copy_invalid_bits_and_find_erase_marker(
        &self,
        layout: &GeckoLayout,
        block: BlockId,
        invalid_page_bitmap: &mut [u64],
    ) -> bool {
        let marker = layout.erase_marker_key(block);
        for part in 1..layout.keys_per_block {
            if let Some(slot) = self.find_entry_slot(marker + part) {
                layout.copy_invalid_bits_of_part(part, self.bitmap(slot as usize), invalid_page_bitmap);
            }
        }
        self.find_entry_slot(marker).is_some()
    }

    /// Returns the range of `bitmaps` that holds the bitmap of the entry at position `slot`.
    fn bitmap_byte_range(&self, slot: usize) -> Range<usize> {
        slot * self.part_bitmap_bytes..(slot + 1) * self.part_bitmap_bytes
    }

    /// Returns the bitmap of invalid pages of the entry at position `slot`.
    fn bitmap(&self, slot: usize) -> &[u8] {
        &self.bitmaps[self.bitmap_byte_range(slot)]
    }

    /// Copies the buffered Gecko entries (key and bitmap of a part of a block), sorted by key, to be written to flash
    /// as a run.
    pub(super) fn to_frozen(&self) -> FrozenBuffer {
        // Key and slot in one number, because sorting is most of the cost of a flush.
        let keyed = self.entry_keys.iter().zip(0u64..).map(|(&key, slot)| u64::from(key) << 32 | slot);
        let mut order: Vec<u64> = keyed.collect();
        order.sort_unstable();
        let stride = self.part_bitmap_bytes + super::layout::GECKO_KEY_BYTES;
        let mut bytes = Vec::with_capacity(order.len() * stride);
        for keyed in order {
            let (key, slot) = ((keyed >> 32) as u32, keyed as u32);
            bytes.extend_from_slice(&key.to_le_bytes());
            bytes.extend_from_slice(self.bitmap(slot as usize));
        }
        FrozenBuffer {
            sorted_entries: bytes,
            entry_bytes: stride,
            validity_report_count: self.validity_report_count,
        }
    }

    /// Empties the buffer of the Gecko LSM tree in RAM. A buffer that grew far beyond its usual size (while a device
    /// was built in a known state) is reallocated, because clearing a large table at every flush costs as much as its
    /// size.
    pub(super) fn clear(&mut self, layout: &GeckoLayout) {
        if self.entry_keys.capacity() > 16 * layout.buffer_capacity_entries as usize {
            *self = Self::new(layout);
        }
        let used = self.entry_keys.len() * self.part_bitmap_bytes;
        self.bitmaps[..used].fill(0);
        self.entry_keys.clear();
        self.slot_by_key.clear();
        self.validity_report_count = 0;
    }
}

/// A buffer of the Gecko LSM tree that accepts no more reports: its entries in key order, about to be written to flash
/// as a sorted run.
#[derive(Clone, Debug)]
pub(super) struct FrozenBuffer {
    /// Bytes of all entries, in key order.
    pub(super) sorted_entries: Vec<u8>,
    /// Bytes of one entry: key and bitmap.
    entry_bytes: usize,
    /// Number of reports (invalid pages and opened blocks) that the entries contain.
    pub(super) validity_report_count: u64,
}

impl FrozenBuffer {
    /// Returns the Gecko LSM entries of the buffer in key order.
    pub(super) fn entries(&self) -> GeckoEntries<'_> {
        GeckoEntries::new(&self.sorted_entries, self.entry_bytes)
    }

    /// Returns the number of Gecko LSM entries of the buffer.
    pub(super) fn len(&self) -> u32 {
        (self.sorted_entries.len() / self.entry_bytes) as u32
    }
}
