//! The mapping table on flash: translation pages of four-byte entries, and the directory with the PPN of each of them.
//!
//! The directory is in RAM (DFTL's global mapping directory: four bytes per translation page), or is itself a tree on
//! flash of which RAM holds the root and some inner nodes. A node is a flash page of PPNs, as a translation page is a
//! page of entries. It is read when it is needed and not cached, and written when it is changed and evicted from the
//! cache. A tree saves the RAM of the directory and costs reads and writes of nodes, which are counted as translation
//! traffic.
//!
//! The spare area of a translation page may hold a note of the map: a sequence number that recovery needs
//! ([`TranslationTable::write_translation_page`]).
//!
//! Old versions of translation pages are discarded through [`FlashPageStore::count_metadata_page_invalid`], or retained
//! by the store as long as a recovery may have to compare them.

use crate::address::{Lpn, OptionalAddress, Ppn, StoredUnit};
use crate::data::{Content, Fingerprint};
use crate::error::Result;
use crate::nand::PageDataWord;
use crate::operation::Cause;
use crate::store::{FlashPageStore, Stream};
use crate::tables::LruList;

/// Bytes of a map entry on a translation page, and of a PPN in a node of the directory of translation pages.
pub(super) const TABLE_ENTRY_BYTES: u32 = 4;

/// Where the directory (the PPNs of the translation pages) is kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum DirectoryLocation {
    /// The whole directory of translation pages is in RAM, 4 bytes per translation page.
    #[default]
    Ram,
    /// The directory of translation pages is a tree: its root is in RAM, its inner nodes are on flash and some of them
    /// are cached.
    Tree {
        /// Number of inner nodes of the directory tree that are cached in RAM, one page each; at least 1.
        cached_nodes: u32,
    },
}

/// Inner nodes of the directory tree on flash, which hold the PPNs of the translation pages. The simulation keeps all
/// these PPNs in RAM, four bytes each, whether the node is cached or not. It uses a PPN of a node that is not cached
/// only after it has counted the flash read of that node.
#[derive(Clone, Debug)]
struct DirectoryTree {
    /// Maximum number of inner nodes that are cached in RAM.
    max_cached_nodes: u32,
    /// Number of translation pages whose PPNs one inner node holds.
    ppns_per_node: u32,
    /// PPN of each inner node of the directory tree; [`Ppn::NONE`] if it was never written.
    node_ppns: Vec<Ppn>,
    /// Whether each inner node of the directory tree is cached in RAM.
    is_node_cached: Vec<bool>,
    /// Whether each inner node of the directory tree is dirty: changed since it was last written to flash.
    is_node_dirty: Vec<bool>,
    /// Cached inner nodes of the directory tree, in order of their last use.
    cached_nodes_by_use: LruList,
}

/// L2P table on flash: translation pages by page number, with the directory of their PPNs.
#[derive(Clone, Debug)]
pub(super) struct TranslationTable {
    /// Number of logical pages of the device.
    logical_pages: u32,
    /// Number of map entries on a translation page.
    entries_per_page: u32,
    /// PPN of each translation page, by its number; [`Ppn::NONE`] if it was never written.
    translation_page_ppns: Vec<Ppn>,
    /// Directory tree on flash; `None` if the whole directory is in RAM.
    directory_tree: Option<DirectoryTree>,
    /// Size of a translation page, bytes.
    page_bytes: u32,
    /// Map entries of the translation page that was loaded last, as (index in the page, value); only those that the
    /// last [`TranslationTable::load_entries`] requested.
    loaded_entry_words: Vec<PageDataWord>,
}

/// Bytes of the sequence number that the map stores in the spare area of a translation page, for recovery.
pub(super) const SPARE_SEQUENCE_BYTES: usize = 8;

impl TranslationTable {
    pub(super) fn new(logical_pages: u32, page_bytes: u32, location: DirectoryLocation) -> Self {
        let entries_per_page = page_bytes / TABLE_ENTRY_BYTES;
        let pages = logical_pages.div_ceil(entries_per_page);
        let directory_tree = match location {
            DirectoryLocation::Ram => None,
            DirectoryLocation::Tree { cached_nodes } => {
                let nodes = pages.div_ceil(entries_per_page) as usize;
                Some(DirectoryTree {
                    max_cached_nodes: cached_nodes.max(1),
                    ppns_per_node: entries_per_page,
                    node_ppns: vec![Ppn::NONE; nodes],
                    is_node_cached: vec![false; nodes],
                    is_node_dirty: vec![false; nodes],
                    cached_nodes_by_use: LruList::default(),
                })
            }
        };
        Self {
            logical_pages,
            entries_per_page,
            translation_page_ppns: vec![Ppn::NONE; pages as usize],
            directory_tree,
            page_bytes,
            loaded_entry_words: Vec::new(),
        }
    }

    /// Returns the number of translation pages of the whole L2P table.
    pub(super) fn translation_pages(&self) -> u32 {
        self.translation_page_ppns.len() as u32
    }

    /// Returns the maximum number of pages of the L2P table on flash: its translation pages and directory nodes.
    pub(super) fn max_metadata_pages(&self) -> u64 {
        self.translation_page_ppns.len() as u64
            + self.directory_tree.as_ref().map_or(0, |nodes| nodes.node_ppns.len() as u64)
    }

    /// Returns the maximum number of pages that one write of a translation page appends: the translation page, and a
    /// directory node that is evicted from the cache.
    pub(super) fn max_pages_per_translation_write(&self) -> u32 {
        1 + u32::from(self.directory_tree.is_some())
    }

    pub(super) fn page_bytes(&self) -> u32 {
        self.page_bytes
    }

    /// Returns the number of map entries on a translation page.
    pub(super) fn entries_per_page(&self) -> u32 {
        self.entries_per_page
    }

    /// Returns the logical pages whose map entries are on translation page `id`.
    pub(super) fn lpn_range_of(&self, id: u32) -> std::ops::Range<u32> {
        let first = id * self.entries_per_page;
        first..first + self.entries_per_page.min(self.logical_pages - first)
    }

    /// Reads translation page `id` and loads the map entries of `lpns`, which must all be on this page;
    /// [`TranslationTable::loaded_entry`] and [`TranslationTable::set_loaded_entry`] then access them. Entries of a
    /// page that was never written are unmapped.
    pub(super) fn load_entries(
        &mut self,
        io: &mut FlashPageStore,
        id: u32,
        lpns: impl Iterator<Item = Lpn>,
        cause: Cause,
    ) -> Result<()> {
        self.ensure_directory_node_cached(io, id, cause)?;
        let first = id * self.entries_per_page;
        self.loaded_entry_words.clear();
        for lpn in lpns {
            self.loaded_entry_words
                .push(PageDataWord { word_index: lpn.0 - first, word_value: StoredUnit::NONE.0 });
        }
        match self.translation_page_ppns[id as usize].to_option() {
            Some(place) => io.read_words(place, &mut self.loaded_entry_words, cause),
            None => Ok(()),
        }
    }

    /// Returns a request to read the map entry of `lpn` from translation page `id`: the index of the entry's word in
    /// the page, and an empty value, which the read will replace.
    #[inline]
    pub(super) fn map_entry_word_request(&self, id: u32, lpn: Lpn) -> PageDataWord {
        PageDataWord { word_index: lpn.0 - id * self.entries_per_page, word_value: StoredUnit::NONE.0 }
    }

    /// Returns the `k`-th of the map entries loaded from a translation page.
    #[inline]
    pub(super) fn loaded_entry(&self, k: usize) -> StoredUnit {
        StoredUnit(self.loaded_entry_words[k].word_value)
    }

    /// Returns the map entries loaded from a translation page, as (index in the page, value), so that the caller can
    /// change their values.
    #[inline]
    pub(super) fn loaded_entry_words_mut(&mut self) -> &mut [PageDataWord] {
        &mut self.loaded_entry_words
    }

    /// Changes the `k`-th of the map entries loaded from a translation page;
    /// [`TranslationTable::write_translation_page`] writes it.
    #[inline]
    pub(super) fn set_loaded_entry(&mut self, k: usize, unit: StoredUnit) {
        self.loaded_entry_words[k].word_value = unit.0;
    }

    /// Writes a new version of translation page `id`, the page from which entries were loaded last. The loaded entries
    /// are written as they are in RAM, all others unchanged. If `recovery_sequence_number` is `Some`, the number is
    /// stored in the spare area for recovery. The old version is retained if recovery needs it, otherwise discarded.
    pub(super) fn write_translation_page(
        &mut self,
        io: &mut FlashPageStore,
        id: u32,
        recovery_sequence_number: Option<u64>,
        cause: Cause,
    ) -> Result<()> {
        let entries = self.loaded_entry_words.len();
        if let Some(note) = recovery_sequence_number {
            self.loaded_entry_words.extend_from_slice(&self.sequence_words(note));
        }
        let written = match self.translation_page_ppns[id as usize].to_option() {
            Some(base) => {
                io.append_changed_page(Stream::Translation, id, (base, &self.loaded_entry_words), cause)
            }
            None => self.append_first_page_version(io, id, recovery_sequence_number.is_some(), cause),
        };
        self.loaded_entry_words.truncate(entries);
        if let Some(old) =
            std::mem::replace(&mut self.translation_page_ppns[id as usize], written?).to_option()
        {
            io.retain_or_discard_version(old);
        }
        self.mark_directory_node_dirty(id);
        Ok(())
    }

    /// Appends the first version of translation page `id`, which was never written before, and returns its PPN.
    #[cold]
    fn append_first_page_version(
        &self,
        io: &mut FlashPageStore,
        id: u32,
        has_spare_sequence: bool,
        cause: Cause,
    ) -> Result<Ppn> {
        append_metadata_page(io, id, &self.encode_first_page_version(has_spare_sequence), cause)
    }

    /// Returns `sequence_number`, which recovery needs, as two 4-byte words to be written at the beginning of
    /// the spare area of a translation page.
    #[inline]
    fn sequence_words(&self, sequence_number: u64) -> [PageDataWord; 2] {
        let first = self.page_bytes / TABLE_ENTRY_BYTES;
        [
            PageDataWord { word_index: first, word_value: sequence_number as u32 },
            PageDataWord { word_index: first + 1, word_value: (sequence_number >> 32) as u32 },
        ]
    }

    /// Returns the bytes of the first version of a translation page. The entries in `loaded_entry_words` have their
    /// locations, all others are unmapped. If `has_spare_sequence`, a spare area is appended, in which a sequence
    /// number for recovery is stored.
    fn encode_first_page_version(&self, has_spare_sequence: bool) -> Vec<u8> {
        let note_bytes = if has_spare_sequence { SPARE_SEQUENCE_BYTES } else { 0 };
        let mut page = vec![0xff; self.page_bytes as usize + note_bytes];
        for word in &self.loaded_entry_words {
            word.swap_into_page(&mut page);
        }
        page
    }

    /// Makes sure that RAM holds the directory node with the PPN of translation page `id`: if the node is not cached,
    /// reads it from flash.
    #[inline]
    fn ensure_directory_node_cached(&mut self, io: &mut FlashPageStore, id: u32, cause: Cause) -> Result<()> {
        if self.directory_tree.is_none() { Ok(()) } else { self.touch_or_fetch_directory_node(io, id, cause) }
    }

    /// Makes the directory node with the PPN of translation page `id` the most recently used one in the cache. If the
    /// node is not cached, evicts another one if needed, and reads the node from flash.
    #[cold]
    fn touch_or_fetch_directory_node(
        &mut self,
        io: &mut FlashPageStore,
        id: u32,
        cause: Cause,
    ) -> Result<()> {
        let nodes = self.directory_tree.as_mut().expect("this is a tree");
        let node = (id / nodes.ppns_per_node) as usize;
        if nodes.is_node_cached[node] {
            nodes.cached_nodes_by_use.touch(node as u32);
            return Ok(());
        }
        if nodes.cached_nodes_by_use.len() >= nodes.max_cached_nodes {
            let leaving = nodes.cached_nodes_by_use.oldest_slot().expect("a full cache has an oldest node");
            self.write_directory_node(io, leaving, cause)?;
            let nodes = self.directory_tree.as_mut().expect("this is a tree");
            nodes.cached_nodes_by_use.remove(leaving);
            nodes.is_node_cached[leaving as usize] = false;
        }
        let nodes = self.directory_tree.as_mut().expect("this is a tree");
        if let Some(place) = nodes.node_ppns[node].to_option() {
            io.read(place, &mut [], cause)?;
        }
        nodes.is_node_cached[node] = true;
        nodes.cached_nodes_by_use.push_newest(node as u32);
        Ok(())
    }

    /// Marks the directory node with the PPN of translation page `id` as dirty, so that it will be written to flash.
    fn mark_directory_node_dirty(&mut self, id: u32) {
        if let Some(nodes) = &mut self.directory_tree {
            let node = (id / nodes.ppns_per_node) as usize;
            nodes.is_node_dirty[node] = true;
        }
    }

    /// Writes the directory node `node` to flash if it was changed since it was last written.
    fn write_directory_node(&mut self, io: &mut FlashPageStore, node: u32, cause: Cause) -> Result<()> {
        let Some(nodes) = &mut self.directory_tree else { return Ok(()) };
        if !nodes.is_node_dirty[node as usize] {
            return Ok(());
        }
        let first = (node * nodes.ppns_per_node) as usize;
        let last = (first + nodes.ppns_per_node as usize).min(self.translation_page_ppns.len());
        let mut page = vec![0xff; self.page_bytes as usize];
        for (bytes, place) in page.chunks_exact_mut(4).zip(&self.translation_page_ppns[first..last]) {
            bytes.copy_from_slice(&place.0.to_le_bytes());
        }
        let place = append_metadata_page(io, self.translation_page_ppns.len() as u32 + node, &page, cause)?;
        nodes.is_node_dirty[node as usize] = false;
        if let Some(old) = std::mem::replace(&mut nodes.node_ppns[node as usize], place).to_option() {
            io.count_metadata_page_invalid(old);
        }
        Ok(())
    }

    /// Writes to flash one node of the directory of translation pages that was changed since it was last written;
    /// returns `false` if there is none.
    pub(super) fn write_one_changed_directory_node(
        &mut self,
        io: &mut FlashPageStore,
        cause: Cause,
    ) -> Result<bool> {
        let changed = self
            .directory_tree
            .as_ref()
            .and_then(|nodes| nodes.is_node_dirty.iter().position(|&changed| changed));
        match changed {
            Some(node) => self.write_directory_node(io, node as u32, cause).map(|()| true),
            None => Ok(false),
        }
    }

    /// Returns whether a directory node was changed since it was last written to flash.
    pub(super) fn has_dirty_directory_node(&self) -> bool {
        self.directory_tree.as_ref().is_some_and(|nodes| nodes.is_node_dirty.contains(&true))
    }

    /// Returns whether `ppn` is the current version of metadata page `id` of the map. Numbers below the number of
    /// translation pages are translation pages, higher numbers are nodes of the directory tree.
    pub(super) fn holds_current_metadata_page(&self, id: u32, ppn: Ppn) -> bool {
        self.metadata_page_ppn(id) == Some(ppn)
    }

    /// Returns the PPN of metadata page `id` of the map. Numbers below the number of translation pages are translation
    /// pages, higher numbers are nodes of the directory tree.
    fn metadata_page_ppn(&self, id: u32) -> Option<Ppn> {
        let below_nodes = self.translation_page_ppns.get(id as usize).copied();
        below_nodes.or_else(|| {
            let node = id as usize - self.translation_page_ppns.len();
            self.directory_tree.as_ref()?.node_ppns.get(node).copied()
        })
    }

    /// Records the new PPN of metadata page `id` of the map. Numbers below the number of translation pages are
    /// translation pages, higher numbers are nodes of the directory tree.
    pub(super) fn set_metadata_page_ppn(&mut self, id: u32, place: Ppn) {
        if let Some(slot) = self.translation_page_ppns.get_mut(id as usize) {
            *slot = place;
            self.mark_directory_node_dirty(id);
            return;
        }
        let node = id as usize - self.translation_page_ppns.len();
        if let Some(slot) = self.directory_tree.as_mut().and_then(|nodes| nodes.node_ppns.get_mut(node)) {
            *slot = place;
        }
    }

    /// Returns the PPN of translation page `id`; `None` if it was never written.
    pub(super) fn translation_page_ppn(&self, id: u32) -> Option<Ppn> {
        self.translation_page_ppns[id as usize].to_option()
    }

    /// Returns the name of the directory of translation pages in reports of controller RAM, and the bytes of RAM that
    /// the directory takes.
    pub(super) fn named_ram_bytes(&self) -> (&'static str, u64) {
        match &self.directory_tree {
            None => ("global mapping directory", self.translation_page_ppns.len() as u64 * 4),
            Some(nodes) => {
                let cached = u64::from(nodes.max_cached_nodes).min(nodes.node_ppns.len() as u64);
                ("root and cached nodes of the tree", (1 + cached) * u64::from(self.page_bytes()))
            }
        }
    }
}

/// Appends metadata page `id` of the map (a translation page or directory node) to flash and returns its PPN.
fn append_metadata_page(io: &mut FlashPageStore, id: u32, page: &[u8], cause: Cause) -> Result<Ppn> {
    let pool = io.take_append_pool(Stream::Translation);
    io.append_page(Stream::Translation, pool, id, Content::Bytes(page), Fingerprint::default(), cause)
}

/// Returns the sequence number that the spare area of a translation page holds for recovery. `page_and_spare` ends with
/// this number.
pub(super) fn decode_spare_sequence(page_and_spare: &[u8]) -> u64 {
    let note = page_and_spare.last_chunk::<SPARE_SEQUENCE_BYTES>().expect("a note has eight bytes");
    u64::from_le_bytes(*note)
}

/// Returns the `k`-th map entry in the bytes of a translation page.
pub(super) fn decode_entry(page: &[u8], k: u32) -> StoredUnit {
    let at = (k * TABLE_ENTRY_BYTES) as usize;
    StoredUnit(u32::from_le_bytes(page[at..at + 4].try_into().expect("an entry has four bytes")))
}
