//! Which logical pages have deltas on flash, current ones or not, until their blocks are erased.
//!
//! A recovery that knows only the map takes the newest delta of a logical page for current if it was made for the page that
//! the map names. Writes keep that true: a page is programmed once, and a delta names it. A bind does not: a logical page may
//! leave its base, and be bound to it again while a delta of before is still on flash. So where binds and deltas meet and the
//! map alone is durable, a logical page of which a delta is on flash is written and not bound. The price: some binds of
//! pages that are written often, and 8 bytes of RAM per delta on flash.

use hashbrown::HashMap;
use rustc_hash::FxBuildHasher;

use crate::address::{BlockId, Lpn};

/// Bytes per delta: logical page and count in the one table, logical page in the other.
const DELTA_BYTES: u64 = 8;

/// Deltas on flash, by logical page and by block.
#[derive(Clone, Debug, Default)]
pub(super) struct WrittenDeltas {
    of_page: HashMap<Lpn, u32, FxBuildHasher>,
    in_block: HashMap<BlockId, Vec<Lpn>, FxBuildHasher>,
}

impl WrittenDeltas {
    /// A page of `block` holds deltas of these logical pages.
    pub(super) fn note(&mut self, block: BlockId, lpns: &[Lpn]) {
        for &lpn in lpns {
            *self.of_page.entry(lpn).or_default() += 1;
        }
        self.in_block.entry(block).or_default().extend_from_slice(lpns);
    }

    /// The block was erased.
    pub(super) fn erased(&mut self, block: BlockId) {
        for lpn in self.in_block.remove(&block).unwrap_or_default() {
            let count = self.of_page.get_mut(&lpn).expect("the delta was noted");
            *count -= 1;
            if *count == 0 {
                self.of_page.remove(&lpn);
            }
        }
    }

    /// Whether flash holds a delta of `lpn`.
    pub(super) fn has(&self, lpn: Lpn) -> bool {
        self.of_page.contains_key(&lpn)
    }

    pub(super) fn ram_bytes(&self) -> u64 {
        DELTA_BYTES * self.in_block.values().map(|lpns| lpns.len() as u64).sum::<u64>()
    }
}
