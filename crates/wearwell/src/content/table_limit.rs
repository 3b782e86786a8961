//! A limit on the controller RAM of the tables that grow with the stored contents.
//!
//! A page that is shared, stored as a delta or compressed has an entry in a table in RAM, besides its entry in the map.
//! On a drive full of such pages these tables take several times the RAM of a page map. A design can therefore limit
//! them ([`ContentParts::content_tables_ram_limit_bytes`](crate::design::ContentParts)): while they are full, pages are
//! stored whole, until overwrites and trims free entries.
//!
//! If recovery restores the tables from records in NVRAM (`store/content_records.rs`), the number of records is limited
//! in the same way.
//!
//! The price: beyond the limit, content mechanisms save no programs. Pages that are stored already keep their form, so
//! a limit that is lowered takes effect only as they are overwritten.
//!
//! Invariant: the limit decides only about new entries. Garbage collection and recovery never fail because of it, and
//! may exceed it by the entries of one chunk.

use crate::ftl::Ftl;
use crate::sharing::reverse_map::ReverseMap;

impl Ftl {
    /// Returns the bytes of controller RAM of the tables that grow with the stored contents: logical pages bound to
    /// shared pages (mapped without a program), reference counts of shared pages, deltas, and the directory of
    /// compressed chunks.
    pub fn content_table_ram_bytes(&self) -> u64 {
        let of_sharing = self.sharing.as_ref().map_or(0, |sharing| sharing.growing_table_bytes());
        let of_deltas = self.delta.as_ref().map_or(0, |stage| stage.growing_table_bytes());
        let of_chunks = self.compression.as_ref().map_or(0, |stage| stage.chunk_table_ram_bytes());
        of_sharing + of_deltas + of_chunks
    }

    /// Returns an upper bound of the number of records of content mechanisms in NVRAM. There is one for each bound
    /// logical page (mapped without a program), each page or chunk member to which bound pages are mapped, each flash
    /// page of a chunk, and each delta.
    fn content_record_count_upper_bound(&self) -> u64 {
        let of_sharing = self.sharing.as_ref().map_or(0, |sharing| {
            sharing.reverse_map.valid_entry_count() + sharing.reverse_map.max_units_mapped_without_program()
        });
        let chunk_pages = self.compression.as_ref().map_or(0, |stage| stage.chunk_page_count());
        let deltas = self.delta.as_ref().map_or(0, |stage| stage.delta_count());
        of_sharing + chunk_pages + deltas
    }

    /// Returns whether the tables of content mechanisms, in RAM and in NVRAM, have room for new entries. If not, adds
    /// `pages` to the count of host pages that are stored whole for this reason.
    #[inline]
    pub(crate) fn has_content_table_room_else_count_pages(&mut self, pages: u64) -> bool {
        let has_room = self.content_table_ram_bytes() < self.content_table_limit_bytes
            && (self.content_record_limit == u64::MAX
                || self.content_record_count_upper_bound() < self.content_record_limit);
        self.store.stats.pages_stored_plainly_due_to_full_content_tables += if has_room { 0 } else { pages };
        has_room
    }
}
