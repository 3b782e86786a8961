//! Bytes of packed pages (pages of deltas, and pages of compressed chunks) in a simulation that keeps no host data.
//!
//! Recovery reads packed pages to find out which logical pages they hold. A simulation knows this list of logical
//! pages, but of the packed contents only the sizes; their bytes are zeros. So only the nonzero words of a packed page
//! are kept: about 100 bytes per page instead of thousands. The cost: every word of a packed page is examined when the
//! page is programmed.
//!
//! The pages of a block are programmed in order and dropped together. So each block has one list of words, to which its
//! pages are appended. Blocks without packed pages take no memory.

use rustc_hash::FxHashMap;

use super::payloads::PageLocation;
use crate::address::BlockId;

/// Bytes of a word, the unit in which zeros of packed pages (deltas, chunks) are left out.
const PACKED_WORD_BYTES: usize = 8;

/// A stored word of a packed page (deltas, chunk): eight bytes, at least one of them nonzero. The words of the spare
/// area follow those of the page.
#[derive(Clone, Copy, Debug)]
struct PackedWord {
    /// Index of the word in its page, in words of eight bytes.
    word_index: u16,
    /// The eight bytes of the word.
    bytes: [u8; PACKED_WORD_BYTES],
}

/// Stored words of the packed pages (deltas, chunks) of one block, one page after the other.
#[derive(Clone, Debug, Default)]
struct PackedBlock {
    /// Nonzero words of the block's packed pages, one page after the other.
    words: Vec<PackedWord>,
    /// For each packed page, by its offset in the block, the number of stored words up to the end of the page.
    end_word_index_by_page: Vec<u32>,
}

impl PackedBlock {
    /// Returns the stored words of the page at `page_offset` in the block; `None` if the page was not stored.
    fn words_of_page(&self, page_offset: u32) -> Option<&[PackedWord]> {
        let end = *self.end_word_index_by_page.get(page_offset as usize)?;
        let start =
            page_offset.checked_sub(1).map_or(0, |before| self.end_word_index_by_page[before as usize]);
        Some(&self.words[start as usize..end as usize])
    }

    /// Appends the nonzero words of the page at `page_offset`, which is the next packed page of the block.
    fn append_page(&mut self, page_offset: u32, words: impl Iterator<Item = PackedWord>) {
        // A page whose program was torn has no words.
        self.end_word_index_by_page.resize(page_offset as usize, self.words.len() as u32);
        self.words.extend(words);
        self.end_word_index_by_page.push(self.words.len() as u32);
    }
}

/// Bytes of all packed pages (deltas, chunks) of the device. Only words that are not zero are stored.
#[derive(Clone, Debug, Default)]
pub(super) struct PackedPageBytes {
    /// Stored words of each block with packed pages, by block number.
    blocks: FxHashMap<u32, PackedBlock>,
}

impl PackedPageBytes {
    /// Stores the bytes of a packed page (deltas, chunk) that is being programmed, its spare area included.
    pub(super) fn store_page(&mut self, page: PageLocation, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks();
        let mut last = [0; PACKED_WORD_BYTES];
        last[..rest.len()].copy_from_slice(rest);
        let words = (0..).zip(words.iter().copied().chain([last]));
        let words = words.filter(|(_, bytes)| u64::from_ne_bytes(*bytes) > 0);
        let words = words.map(|(index, bytes)| PackedWord { word_index: index, bytes });
        self.blocks.entry(page.block).or_default().append_page(page.page_offset, words);
    }

    /// Stores a packed page (deltas, chunk) that is being programmed as a copy of page `from`.
    pub(super) fn copy_page(&mut self, page: PageLocation, from: PageLocation) {
        let Some(words) = self.stored_words_of_page(from).map(<[PackedWord]>::to_vec) else { return };
        self.blocks.entry(page.block).or_default().append_page(page.page_offset, words.into_iter());
    }

    /// Returns whether the bytes of this packed page (deltas, chunk) are stored.
    pub(super) fn has_bytes(&self, page: PageLocation) -> bool {
        self.stored_words_of_page(page).is_some()
    }

    /// Copies the stored bytes of a packed page (deltas, chunk), followed by zeros, into `into`. Returns `false` if no
    /// bytes are stored for the page.
    pub(super) fn read_page(&self, page: PageLocation, into: &mut [u8]) -> bool {
        let Some(words) = self.stored_words_of_page(page) else { return false };
        into.fill(0);
        for word in words {
            let rest = into.get_mut(usize::from(word.word_index) * PACKED_WORD_BYTES..).unwrap_or_default();
            rest.iter_mut().zip(word.bytes).for_each(|(byte, kept)| *byte = kept);
        }
        true
    }

    /// Drops the stored bytes of all packed pages of a block, because the block is erased.
    pub(super) fn drop_block(&mut self, block: BlockId) {
        self.blocks.remove(&block.0);
    }

    /// Returns the stored words of a packed page (deltas, chunk); `None` if the page was not stored.
    fn stored_words_of_page(&self, page: PageLocation) -> Option<&[PackedWord]> {
        self.blocks.get(&page.block)?.words_of_page(page.page_offset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::address::Ppn;

    /// Returns the location of a page of a test device with eight pages per block.
    fn page_location(block: u32, page_offset: u32) -> PageLocation {
        PageLocation { ppn: Ppn(8 * block + page_offset), block, page_offset }
    }

    /// Returns the bytes of a page and its spare area of 60 bytes: zeros, except for the bytes listed in `set` (offset
    /// and value).
    fn page_bytes_with(set: &[(usize, u8)]) -> Vec<u8> {
        let mut bytes = vec![0; 512 + 60];
        for &(at, byte) in set {
            bytes[at] = byte;
        }
        bytes
    }

    /// Reads `len` bytes of a packed page; `None` if no bytes are stored for the page.
    fn read_stored_bytes(pages: &PackedPageBytes, place: PageLocation, len: usize) -> Option<Vec<u8>> {
        let mut bytes = vec![0xa5; len];
        pages.read_page(place, &mut bytes).then_some(bytes)
    }

    #[test]
    fn packed_pages_and_their_copies_read_back_in_full_and_in_part() {
        let mut pages = PackedPageBytes::default();
        let first = page_bytes_with(&[(0, 1), (17, 2), (511, 3), (512, 4), (571, 5)]);
        let second = page_bytes_with(&[(300, 6)]);
        pages.store_page(page_location(0, 0), &first);
        // The program of page 1 was torn.
        pages.store_page(page_location(0, 2), &second);
        pages.copy_page(page_location(3, 0), page_location(0, 2));
        pages.copy_page(page_location(3, 1), page_location(0, 0));
        pages.store_page(page_location(3, 2), &page_bytes_with(&[]));
        for (at, expected) in [
            (page_location(0, 0), &first),
            (page_location(0, 2), &second),
            (page_location(3, 0), &second),
            (page_location(3, 1), &first),
            (page_location(3, 2), &page_bytes_with(&[])),
        ] {
            for len in [0, 5, 512, 570, 572] {
                assert_eq!(read_stored_bytes(&pages, at, len).as_deref(), Some(&expected[..len]), "{at:?}");
            }
        }
    }

    #[test]
    fn packed_pages_keep_no_bytes_of_erased_blocks_and_of_copies_of_pages_without_bytes() {
        let mut pages = PackedPageBytes::default();
        pages.store_page(page_location(0, 0), &page_bytes_with(&[(9, 9)]));
        pages.copy_page(page_location(1, 0), page_location(2, 0));
        assert!(!pages.has_bytes(page_location(1, 0)) && pages.has_bytes(page_location(0, 0)));
        pages.drop_block(BlockId(0));
        assert_eq!(read_stored_bytes(&pages, page_location(0, 0), 512), None);
        assert!(pages.blocks.is_empty());
    }
}
