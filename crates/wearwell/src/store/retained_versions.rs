//! Retained old versions of translation pages, which a recovery will compare with the newer ones (GeckoFTL, appendix
//! C.2.2).
//!
//! The retained versions count as valid pages, so that their blocks are not erased, until the invalid pages that a
//! comparison would find are recorded durably elsewhere.

use super::FlashPageStore;
use crate::address::{BlockId, Ppn};
use crate::nand::Nand;

impl FlashPageStore {
    /// Makes the store retain old versions of translation pages until [`FlashPageStore::discard_retained_versions`]
    /// discards them: a recovery compares them with the newer versions (GeckoFTL, appendix C.2.2).
    pub(crate) fn enable_translation_version_retention(&mut self) {
        self.retains_translation_versions = true;
    }

    /// Retains an old version of a translation page if [`FlashPageStore::enable_translation_version_retention`] was
    /// called, otherwise discards it. A retained version counts as a valid page, so that its block is not erased.
    pub(crate) fn retain_or_discard_version(&mut self, ppn: Ppn) {
        if self.retains_translation_versions {
            self.retained_translation_versions.push_back((self.last_sequence, ppn));
        } else {
            self.count_metadata_page_invalid(ppn);
        }
    }

    /// Returns the number of old versions of translation pages that are retained for a recovery.
    pub fn retained_version_count(&self) -> usize {
        self.retained_translation_versions.len()
    }

    /// Returns the PPNs of the retained old versions of translation pages in `block`; usually there are none.
    /// O(versions retained).
    pub(crate) fn retained_pages_in(&self, block: BlockId) -> Vec<Ppn> {
        let places = self.retained_translation_versions.iter().map(|&(_, ppn)| ppn);
        places.filter(|&ppn| self.block_of(ppn) == block).collect()
    }

    /// Records that GC moved the retained old version of a translation page from `from` to `to`. Returns `false` if no
    /// version is retained at `from`.
    pub(crate) fn move_retained_translation_page_version(&mut self, from: Ppn, to: Ppn) -> bool {
        let held = self.retained_translation_versions.iter_mut().find(|(_, held)| *held == from);
        held.map(|(_, place)| *place = to).is_some()
    }

    /// Discards the retained old versions of translation pages whose newer version was programmed with a sequence
    /// number of at most `replaced_until_sequence`.
    #[inline]
    pub(crate) fn discard_retained_versions(&mut self, replaced_until_sequence: u64) {
        if self
            .retained_translation_versions
            .front()
            .is_some_and(|&(replaced, _)| replaced <= replaced_until_sequence)
        {
            self.discard_versions_replaced_until(replaced_until_sequence);
        }
    }

    /// Discards the retained old versions of translation pages that were replaced up to sequence number `sequence`.
    #[cold]
    fn discard_versions_replaced_until(&mut self, sequence: u64) {
        let released =
            self.retained_translation_versions.partition_point(|&(replaced, _)| replaced <= sequence);
        let pages: Vec<Ppn> =
            self.retained_translation_versions.drain(..released).map(|(_, ppn)| ppn).collect();
        self.nand.discard_bytes_of_metadata_pages(&pages);
        for ppn in pages {
            self.count_page_invalid(ppn);
        }
    }

    /// Retains again, in a recovery, an old version of a translation page that a later recovery may need.
    /// `replaced_at_sequence` is the sequence number of the program that replaced it.
    pub(crate) fn retain_version_again(&mut self, replaced_at_sequence: u64, ppn: Ppn) {
        if self.retains_translation_versions {
            self.count_recovered_page_valid(ppn);
            let at = self
                .retained_translation_versions
                .partition_point(|&(sequence, _)| sequence <= replaced_at_sequence);
            self.retained_translation_versions.insert(at, (replaced_at_sequence, ppn));
        }
    }
}
