//! Old versions of translation pages that a recovery will compare with the newer ones (GeckoFTL, appendix C.2.2).
//!
//! They count as valid until what they prove is durable elsewhere, so that their blocks are not erased.

use super::Store;
use crate::address::{BlockId, Ppn};
use crate::nand::Nand;

impl<N: Nand> Store<N> {
    /// From now on old versions of translation pages are kept until [`Store::release_held`]: a recovery compares them
    /// with the newer ones (GeckoFTL, appendix C.2.2).
    pub(crate) fn retain_translation_versions(&mut self) {
        self.holds = true;
    }

    /// An old version of a translation page: held back if recovery may need it, else discarded. A held page counts as
    /// valid, so that its block is not erased.
    pub(crate) fn hold_metadata(&mut self, ppn: Ppn) {
        if self.holds {
            self.held.push_back((self.sequence, ppn));
        } else {
            self.discard_metadata(ppn);
        }
    }

    /// Old versions that are held.
    pub fn held_pages(&self) -> usize {
        self.held.len()
    }

    /// Old versions that are held in a block: usually none. O(versions held).
    pub(crate) fn held_in(&self, block: BlockId) -> Vec<Ppn> {
        let places = self.held.iter().map(|&(_, ppn)| ppn);
        places.filter(|&ppn| self.block_of(ppn) == block).collect()
    }

    /// GC moved an old version, if there is one at `from`.
    pub(crate) fn move_held(&mut self, from: Ppn, to: Ppn) -> bool {
        let held = self.held.iter_mut().find(|(_, held)| *held == from);
        held.map(|(_, place)| *place = to).is_some()
    }

    /// Gives up the versions that were replaced up to `sequence`.
    #[inline]
    pub(crate) fn release_held(&mut self, sequence: u64) {
        if self.held.front().is_some_and(|&(replaced, _)| replaced <= sequence) {
            self.release_oldest(sequence);
        }
    }

    #[cold]
    fn release_oldest(&mut self, sequence: u64) {
        let released = self.held.partition_point(|&(replaced, _)| replaced <= sequence);
        let pages: Vec<Ppn> = self.held.drain(..released).map(|(_, ppn)| ppn).collect();
        self.nand.give_up_bytes(&pages);
        for ppn in pages {
            self.discard(ppn);
        }
    }

    /// An old version of a translation page that recovery found and may need again.
    pub(crate) fn hold_again(&mut self, replaced: u64, ppn: Ppn) {
        if self.holds {
            self.adopt_valid(ppn);
            let at = self.held.partition_point(|&(sequence, _)| sequence <= replaced);
            self.held.insert(at, (replaced, ppn));
        }
    }
}
