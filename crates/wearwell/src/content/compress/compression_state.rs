//! State of compression: pages in the chunk buffer, stored chunks, and the flash pages that chunks waste.

use rustc_hash::FxHashSet;

use super::chunk::{Chunk, PageToCompress, WASTEFUL_CHUNKS_PRUNING_MIN_LEN};
use super::{
    CompressionStatistics, MAX_CHUNK_MEMBERS, RAM_BYTES_PER_CHUNK, RAM_BYTES_PER_CHUNK_WITH_FLASH_DIRECTORY,
    stored_unit_count,
};
use crate::address::{Lpn, Ppn, StoredUnit, chunk_and_member_of, unit_of_chunk_member};
use crate::content::compress::directory::RecoveredChunks;
use crate::data::Fingerprint;
use crate::error::{Error, Result};
use crate::store::{ContentRecord, FlashPageStore};
use crate::tables::prefetch::load_into_cpu_cache;

/// Number of chunks over which the moving average of the space that compression takes is formed.
const CHUNKS_IN_AVERAGE: f64 = 64.0;
/// Initial value of the moving average of flash pages per compressed logical page, used until a page has been
/// compressed.
const INITIAL_MEAN_FLASH_PAGES_PER_LOGICAL_PAGE: f64 = 1.0;

/// State of compression: the RAM buffer of the next chunk, the table of chunks (pages compressed together), and the
/// list of wasteful chunks (those with more flash pages than live members).
#[derive(Clone, Debug)]
pub(crate) struct CompressionState {
    /// Pages in the chunk buffer, which wait until a chunk is complete.
    pub(super) chunk_buffer_pages: Vec<PageToCompress>,
    /// All chunks, by chunk number; empty chunks at free numbers.
    pub(super) chunks: Vec<Chunk>,
    /// Size of the compressed bytes of each chunk, by chunk number. 0 (or no element) if the bytes of a member are not
    /// known, because a recorded trace may contain only the sizes of some pages.
    pub(super) chunk_payload_bytes: Vec<u32>,
    /// Chunk numbers that no stored chunk has, for the next chunks.
    pub(super) free_chunk_numbers: Vec<u32>,
    /// Number of flash pages of all stored chunks.
    pub(super) chunk_page_count: u64,
    /// Numbers of freed compressed chunks that must not be used again before the medium is synced, because a map on the
    /// medium may still name the old chunk.
    pub(super) chunk_numbers_freed_since_sync: Vec<u32>,
    /// Whether the number of a freed chunk stays unused until the next sync of the medium.
    pub(super) defers_reuse_of_chunk_numbers: bool,
    /// Bytes of controller RAM that are counted for the directory of each stored chunk.
    ram_bytes_per_chunk: u64,
    /// Number of flash pages of the device.
    device_flash_pages: u64,
    pub(super) page_bytes: u32,
    /// Sum of the excess pages of all chunks. The excess pages of a chunk are its flash pages minus its live members.
    pub(super) excess_chunk_pages: u64,
    /// Maximum sum of the excess pages of all chunks (flash pages minus live members). While the sum is greater,
    /// wasteful chunks are split.
    pub(super) max_excess_chunk_pages: u64,
    /// Numbers of compressed chunks with more flash pages than live members (wasteful chunks), in the order in which
    /// they became wasteful. May also contain chunks that are wasteful no longer.
    pub(super) wasteful_chunks: Vec<u32>,
    /// Whether compression is on, so that host writes may be compressed.
    pub(crate) is_compression_on: bool,
    /// Moving average of the flash pages that compression takes per logical page offered to it, 0 to 1.
    mean_flash_pages_per_logical_page: f64,
    pub(crate) statistics: CompressionStatistics,
}

impl CompressionState {
    pub(crate) fn new(store: &FlashPageStore) -> Result<Self> {
        let geometry = store.geometry();
        // Member numbers must fit in 32 bits after the page numbers, with at most one chunk per page.
        if stored_unit_count(geometry.pages(), true) > u32::MAX as u64 {
            return Err(Error::InvalidOptions(format!(
                "compress supports at most {} flash pages, because flash pages and chunk members share 32-bit \
                 numbers, but the device has {}: lower device.blocks_per_plane or device.pages_per_block, or set \
                 parts.content without compress",
                u32::MAX as u64 / stored_unit_count(1, true),
                geometry.pages()
            )));
        }
        Ok(Self {
            chunk_buffer_pages: Vec::new(),
            chunks: Vec::new(),
            chunk_payload_bytes: Vec::new(),
            free_chunk_numbers: Vec::new(),
            chunk_page_count: 0,
            chunk_numbers_freed_since_sync: Vec::new(),
            defers_reuse_of_chunk_numbers: false,
            ram_bytes_per_chunk: RAM_BYTES_PER_CHUNK,
            device_flash_pages: geometry.pages(),
            page_bytes: geometry.page_bytes,
            excess_chunk_pages: 0,
            max_excess_chunk_pages: 0,
            wasteful_chunks: Vec::new(),
            is_compression_on: true,
            mean_flash_pages_per_logical_page: INITIAL_MEAN_FLASH_PAGES_PER_LOGICAL_PAGE,
            statistics: CompressionStatistics::default(),
        })
    }

    /// Leaves out of the RAM accounting the part of the chunk directory that is also in the spare areas of the chunks'
    /// pages. For designs whose recovery reads the directory from these spare areas.
    pub(crate) fn exclude_flash_directories_from_ram_bytes(&mut self) {
        self.ram_bytes_per_chunk = RAM_BYTES_PER_CHUNK_WITH_FLASH_DIRECTORY;
    }

    /// Makes the numbers of freed compressed chunks stay unused until the medium is next synced. Needed if the L2P
    /// table is stored on the medium: after a crash it may still map logical pages to the freed chunk.
    pub(crate) fn defer_reuse_of_freed_chunk_numbers(&mut self) {
        self.defers_reuse_of_chunk_numbers = true;
    }

    /// Makes the numbers of freed compressed chunks usable again; called after a flush or an erase has synced the
    /// medium.
    pub(crate) fn release_freed_chunk_numbers(&mut self) {
        self.free_chunk_numbers.append(&mut self.chunk_numbers_freed_since_sync);
    }

    /// Limits the excess pages of compression (flash pages of all chunks minus their live members) to half of
    /// `spare_pages`, the spare flash pages of the device.
    pub(crate) fn limit_excess_chunk_pages_by_spare_pages(&mut self, spare_pages: u64) {
        self.max_excess_chunk_pages = spare_pages / 2;
    }

    /// Adds the compressed chunk `number`, which now has more flash pages than live members, to the list of wasteful
    /// chunks. Prunes the list before stale elements become the majority.
    pub(super) fn add_wasteful_chunk(&mut self, number: u32) {
        if self.wasteful_chunks.len() as u64 > 2 * self.excess_chunk_pages + WASTEFUL_CHUNKS_PRUNING_MIN_LEN {
            self.prune_wasteful_chunk_list();
        }
        self.wasteful_chunks.push(number);
    }

    /// Shortens the list of wasteful compressed chunks (those with more flash pages than live members): removes from
    /// the list the chunks that are wasteful no longer, and repeated mentions of a chunk except the latest.
    #[cold]
    pub(super) fn prune_wasteful_chunk_list(&mut self) {
        let Self { chunks, wasteful_chunks: wasteful, .. } = self;
        let mut seen = FxHashSet::default();
        wasteful.reverse();
        wasteful.retain(|&number| chunks[number as usize].excess_chunk_pages() > 0 && seen.insert(number));
        wasteful.reverse();
    }

    /// Returns whether the sum of the excess pages of all chunks (flash pages minus live members) exceeds its limit.
    #[inline]
    pub(super) fn exceeds_max_excess_chunk_pages(&self) -> bool {
        self.excess_chunk_pages > self.max_excess_chunk_pages
    }

    /// Returns the unit (number that an L2P entry stores) of the member with index `member` of the compressed chunk
    /// `chunk`.
    pub(super) fn member_unit(&self, chunk: u32, member: usize) -> StoredUnit {
        unit_of_chunk_member(chunk, member, self.device_flash_pages)
    }

    /// Returns the number of the compressed chunk to which the member `unit` belongs, and the member's index in it.
    pub(super) fn chunk_and_member_of(&self, unit: StoredUnit) -> (u32, usize) {
        chunk_and_member_of(unit, self.device_flash_pages)
    }

    /// Returns the content fingerprint of the compressed chunk member `unit`.
    pub(crate) fn member_fingerprint(&self, unit: StoredUnit) -> Fingerprint {
        let (chunk, member) = self.chunk_and_member_of(unit);
        self.chunks[chunk as usize].fingerprint(member)
    }

    /// Returns the flash pages of the compressed chunk that contains the member `unit`.
    pub(crate) fn chunk_pages_of_member(&self, unit: StoredUnit) -> &[Ppn] {
        self.chunks[self.chunk_and_member_of(unit).0 as usize].pages()
    }

    /// Returns whether a logical page is mapped to the compressed chunk member `unit`.
    pub(crate) fn is_member_live(&self, unit: StoredUnit) -> bool {
        let (chunk, member) = self.chunk_and_member_of(unit);
        self.chunks.get(chunk as usize).is_some_and(|chunk| chunk.is_member_live(member))
    }

    /// Prefetches into the CPU cache the entries of the chunk table that removing the chunk members `units` will need
    /// ([`crate::tables::prefetch`]).
    pub(crate) fn prefetch_for_removal_of_chunk_members(&self, units: impl Iterator<Item = StoredUnit>) {
        let chunks = units.map(|unit| &self.chunks[self.chunk_and_member_of(unit).0 as usize]);
        load_into_cpu_cache(
            chunks.map(|chunk| u64::from(chunk.writer_lpn(0).0) + u64::from(chunk.pages[0].0)),
        );
    }

    /// Returns the logical page whose write was stored as the member `unit` of a compressed chunk.
    pub(crate) fn writer_lpn_of(&self, unit: StoredUnit) -> Lpn {
        let (chunk, member) = self.chunk_and_member_of(unit);
        self.chunks[chunk as usize].writer_lpn(member)
    }

    /// Stores a chunk under a free chunk number and returns this number. `payload_bytes` is the size of its compressed
    /// bytes; 0 if only sizes are known.
    pub(super) fn insert_chunk(&mut self, chunk: Chunk, payload_bytes: u32) -> u32 {
        let number = self.free_chunk_numbers.pop().unwrap_or_else(|| {
            self.chunks.push(Chunk::EMPTY);
            self.chunks.len() as u32 - 1
        });
        self.chunks[number as usize] = chunk;
        self.set_chunk_payload_bytes(number, payload_bytes);
        number
    }

    /// Returns the flash pages that compression takes per logical page offered to it, as a moving average, 0 to 1.
    pub(crate) fn mean_flash_pages_per_logical_page(&self) -> f64 {
        self.mean_flash_pages_per_logical_page
    }

    /// Records that compression stored `members` logical pages of the host in `pages` flash pages.
    pub(super) fn record_compression(&mut self, pages: usize, members: usize) {
        let share = pages.min(members) as f64 / members as f64;
        self.mean_flash_pages_per_logical_page +=
            (share - self.mean_flash_pages_per_logical_page) / CHUNKS_IN_AVERAGE;
    }

    /// Enters `ppn`, which was programmed, as page `k` of the compressed chunk `number`.
    pub(super) fn add_chunk_page(&mut self, number: u32, k: usize, ppn: Ppn) {
        self.chunks[number as usize].pages[k] = ppn;
        self.chunk_page_count += 1;
    }

    /// Records the size of the compressed bytes of the chunk `number`; 0 if the bytes of a member are not known.
    pub(super) fn set_chunk_payload_bytes(&mut self, number: u32, bytes: u32) {
        let at = number as usize;
        if bytes > 0 && at >= self.chunk_payload_bytes.len() {
            self.chunk_payload_bytes.resize(at + 1, 0);
        }
        if let Some(known) = self.chunk_payload_bytes.get_mut(at) {
            *known = bytes;
        }
    }

    /// Returns the size of the compressed bytes of the chunk `number`; 0 if the bytes of a member are not known.
    pub(super) fn chunk_payload_bytes_of(&self, number: u32) -> u32 {
        self.chunk_payload_bytes.get(number as usize).copied().unwrap_or(0)
    }

    /// Returns the page of `lpn` in the chunk buffer (pages that wait to be compressed); `None` if it is not there.
    pub(super) fn page_in_chunk_buffer(&self, lpn: Lpn) -> Option<&PageToCompress> {
        self.chunk_buffer_pages.iter().find(|page| page.lpn == lpn)
    }

    /// Returns the content fingerprint of `lpn` in the chunk buffer (pages that wait to be compressed), if it is there.
    pub(crate) fn fingerprint_in_chunk_buffer(&self, lpn: Lpn) -> Option<Fingerprint> {
        self.page_in_chunk_buffer(lpn).map(|page| page.fingerprint)
    }

    /// Returns the number of pages in the chunk buffer, which wait to be compressed.
    pub(crate) fn chunk_buffer_len(&self) -> usize {
        self.chunk_buffer_pages.len()
    }

    /// Returns the flash pages of all compressed chunks.
    pub(crate) fn pages_of_all_chunks(&self) -> impl Iterator<Item = Ppn> + '_ {
        self.chunks.iter().flat_map(|chunk| chunk.pages().iter().copied())
    }

    /// Returns the record in NVRAM of page `k` of the compressed chunk `number`.
    pub(super) fn chunk_page_record(&self, number: u32, k: usize) -> ContentRecord {
        let chunk = &self.chunks[number as usize];
        match k {
            0 => ContentRecord::Chunk { number, first_page: chunk.pages[0], live_members: chunk.live_mask() },
            _ => ContentRecord::FurtherChunkPage { number, index: k as u8, ppn: chunk.pages[k] },
        }
    }

    /// Returns the records in NVRAM of all compressed chunks.
    pub(crate) fn chunk_page_records(&self) -> impl Iterator<Item = ContentRecord> + '_ {
        (0..).zip(&self.chunks).flat_map(move |(number, chunk)| {
            (0..chunk.pages().len()).map(move |k| self.chunk_page_record(number, k))
        })
    }

    /// Returns those of `pages` that belong to a stored compressed chunk, and drops the others. Each page is given with
    /// the chunk number in its spare area.
    pub(crate) fn keep_pages_of_stored_chunks(&self, mut pages: Vec<(Ppn, u32)>) -> Vec<Ppn> {
        pages.retain(|&(_, number)| (number as usize) < self.chunks.len());
        load_into_cpu_cache(pages.iter().map(|&(_, number)| self.chunks[number as usize].pages[0].0.into()));
        pages.retain(|(ppn, number)| self.chunks[*number as usize].pages().contains(ppn));
        pages.into_iter().map(|(ppn, _)| ppn).collect()
    }

    /// Rebuilds the table of compressed chunks in recovery, from the mapped members and the chunks found on flash. The
    /// RAM buffer of the next chunk is empty afterwards, and the average of the space that compression takes begins
    /// anew.
    pub(crate) fn rebuild_chunk_table(
        &mut self,
        mapped: impl Iterator<Item = StoredUnit>,
        mut found: RecoveredChunks,
    ) -> Result<()> {
        self.chunk_buffer_pages.clear();
        self.mean_flash_pages_per_logical_page = INITIAL_MEAN_FLASH_PAGES_PER_LOGICAL_PAGE;
        self.chunks.clear();
        self.chunk_payload_bytes.clear();
        self.chunk_numbers_freed_since_sync.clear();
        for unit in mapped {
            let (number, member) = self.chunk_and_member_of(unit);
            if self.chunks.len() <= number as usize {
                self.chunks.resize(number as usize + 1, Chunk::EMPTY);
            }
            if self.chunks[number as usize].is_empty()
                && let Some(found) = found.take_newest_complete_chunk(number)
            {
                self.chunks[number as usize] = found.to_chunk();
                self.set_chunk_payload_bytes(number, found.directory.compressed_bytes);
            }
            let chunk = &mut self.chunks[number as usize];
            if member >= chunk.member_count() {
                return Err(Error::Damaged(format!(
                    "the L2P map names member {member} of compressed chunk {number}, which must be on flash, but \
                     recovery did not find it there"
                )));
            }
            chunk.set_member_live(member, true);
        }
        self.chunk_page_count = self.pages_of_all_chunks().count() as u64;
        let numbers = 0..self.chunks.len() as u32;
        let is_vacant = |number: &u32| self.chunks[*number as usize].is_empty();
        self.free_chunk_numbers = numbers.clone().filter(is_vacant).collect();
        self.wasteful_chunks =
            numbers.filter(|&number| self.chunks[number as usize].excess_chunk_pages() > 0).collect();
        self.excess_chunk_pages = self.chunks.iter().map(Chunk::excess_chunk_pages).sum();
        Ok(())
    }

    /// Returns the number of flash pages of all stored chunks.
    #[inline]
    pub(crate) fn chunk_page_count(&self) -> u64 {
        self.chunk_page_count
    }

    /// Returns the number of stored chunks.
    #[inline]
    pub(crate) fn chunk_count(&self) -> u64 {
        let unused = self.free_chunk_numbers.len() + self.chunk_numbers_freed_since_sync.len();
        (self.chunks.len() - unused) as u64
    }

    /// Returns the bytes of controller RAM of the chunk directory, which has an entry for each stored chunk.
    #[inline]
    pub(crate) fn chunk_table_ram_bytes(&self) -> u64 {
        self.ram_bytes_per_chunk * self.chunk_count()
    }

    /// Returns the bytes of controller RAM that compression needs, by name of the data structure.
    pub(crate) fn ram_bytes_by_structure(&self) -> Vec<(&'static str, u64)> {
        vec![
            ("chunk directory", self.chunk_table_ram_bytes()),
            ("chunk buffer", MAX_CHUNK_MEMBERS as u64 * self.page_bytes as u64),
        ]
    }

    /// Checks the counters of compression and the table of chunks. Returns the first violation as a sentence.
    pub(crate) fn check(&self) -> std::result::Result<(), String> {
        let excess: u64 = self.chunks.iter().map(Chunk::excess_chunk_pages).sum();
        if excess != self.excess_chunk_pages {
            return Err(format!(
                "the flash pages of the compressed chunks exceed the live members by {excess}, so the counter of the \
                 excess must say the same, but says {}",
                self.excess_chunk_pages
            ));
        }
        let pages = self.pages_of_all_chunks().count() as u64;
        if pages != self.chunk_page_count {
            return Err(format!(
                "the compressed chunks together have {pages} flash pages, so their counter must say the same, but \
                 says {}",
                self.chunk_page_count
            ));
        }
        for (number, chunk) in self.chunks.iter().enumerate().filter(|(_, chunk)| !chunk.is_empty()) {
            if chunk.live_member_count() == 0 || chunk.pages().is_empty() {
                return Err(format!(
                    "compressed chunk {number} is in use; its number of flash pages is {} and that of its live \
                     members {}, but neither may be 0",
                    chunk.pages().len(),
                    chunk.live_member_count()
                ));
            }
        }
        let noted: FxHashSet<u32> = self.wasteful_chunks.iter().copied().collect();
        let is_wasteful = |number: &u32| self.chunks[*number as usize].excess_chunk_pages() > 0;
        if let Some(number) = (0..self.chunks.len() as u32).find(|n| is_wasteful(n) && !noted.contains(n)) {
            return Err(format!(
                "compressed chunk {number} has more flash pages than live members, so it must be in the list of such \
                 (wasteful) chunks, but is not"
            ));
        }
        let twice = self
            .chunk_buffer_pages
            .iter()
            .enumerate()
            .find(|(k, page)| self.chunk_buffer_pages[..*k].iter().any(|p| p.lpn == page.lpn));
        twice.map_or(Ok(()), |(_, page)| {
            Err(format!(
                "logical page {} must be at most once in the RAM buffer of the next compressed chunk, but is \
                         there twice",
                page.lpn
            ))
        })
    }
}
