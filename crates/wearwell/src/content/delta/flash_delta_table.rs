//! Logical pages that have deltas on flash, current or not, until the blocks of these deltas are erased.
//!
//! Recovery that has only the map takes the newest delta of a logical page as current if it was made for the page that
//! the map names. This is correct for written pages, because a page is programmed once and a delta names it. After a
//! bind (a logical page is mapped to stored content without a program) it may be wrong: a logical page may be mapped
//! elsewhere and then bound to its old base again, while an old delta of it is still on flash. So if a design has binds
//! and deltas, and only its map is durable, a logical page with a delta on flash is written instead of bound. The
//! price: some binds of frequently written pages become writes, and each delta on flash takes 8 bytes of RAM.

use hashbrown::HashMap;
use rustc_hash::FxBuildHasher;

use crate::address::{BlockId, Lpn};

/// Bytes of controller RAM per delta on flash: 4 for logical page and count in the table by logical page, and 4 for the
/// logical page in the table by block.
const RAM_BYTES_PER_FLASH_DELTA: u64 = 8;

/// Table of the deltas on flash by logical page and by block. It includes obsolete deltas until their block is erased.
#[derive(Clone, Debug, Default)]
pub(super) struct FlashDeltaTable {
    /// Number of deltas on flash, current and obsolete, of each logical page that has any.
    flash_delta_count_by_lpn: HashMap<Lpn, u32, FxBuildHasher>,
    /// Logical pages of the deltas in each block, one element per delta.
    delta_lpns_by_block: HashMap<BlockId, Vec<Lpn>, FxBuildHasher>,
    /// Number of all deltas in the table.
    flash_delta_count: u64,
}

impl FlashDeltaTable {
    /// Records that a flash page of `block` holds deltas of the logical pages `lpns`.
    pub(super) fn record_deltas(&mut self, block: BlockId, lpns: &[Lpn]) {
        for &lpn in lpns {
            *self.flash_delta_count_by_lpn.entry(lpn).or_default() += 1;
        }
        self.delta_lpns_by_block.entry(block).or_default().extend_from_slice(lpns);
        self.flash_delta_count += lpns.len() as u64;
    }

    /// Removes the records of the deltas in `block`, which was erased.
    pub(super) fn record_block_erased(&mut self, block: BlockId) {
        for lpn in self.delta_lpns_by_block.remove(&block).unwrap_or_default() {
            let count = self.flash_delta_count_by_lpn.get_mut(&lpn).expect("the delta was noted");
            *count -= 1;
            self.flash_delta_count -= 1;
            if *count == 0 {
                self.flash_delta_count_by_lpn.remove(&lpn);
            }
        }
    }

    /// Returns whether flash holds a delta of the logical page `lpn`, be it current or obsolete.
    pub(super) fn has_any_flash_delta(&self, lpn: Lpn) -> bool {
        self.flash_delta_count_by_lpn.contains_key(&lpn)
    }

    /// Returns the bytes of controller RAM that the table of deltas on flash needs.
    #[inline]
    pub(super) fn ram_bytes(&self) -> u64 {
        RAM_BYTES_PER_FLASH_DELTA * self.flash_delta_count
    }
}
