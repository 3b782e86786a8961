//! A limit on the controller RAM of the tables that grow with the stored contents.
//!
//! A page that is shared, stored as a delta or compressed has an entry in a table in RAM, besides its entry in the map.
//! On a drive full of such pages these tables take several times the RAM of a page map. A design can therefore limit
//! them ([`ContentParts::table_limit_bytes`](crate::design::ContentParts)): while they are full, pages are stored
//! whole, until overwrites and trims free entries.
//!
//! The price: beyond the limit, content mechanisms save no programs. Pages that are stored already keep their form, so
//! a limit that is lowered takes effect only as they are overwritten.
//!
//! Invariant: the limit decides only about new entries. Garbage collection and recovery never fail because of it, and
//! may exceed it by the entries of one chunk.

use crate::ftl::Ftl;
use crate::nand::Nand;

impl<N: Nand> Ftl<N> {
    /// Returns the bytes of controller RAM of the tables that grow with the stored contents: logical pages bound to
    /// shared pages, reference counts of shared pages, deltas, and the directory of compressed chunks.
    pub fn content_table_bytes(&self) -> u64 {
        let of_sharing = self.sharing.as_ref().map_or(0, |sharing| sharing.growing_table_bytes());
        let of_deltas = self.delta.as_ref().map_or(0, |stage| stage.growing_table_bytes());
        let of_chunks = self.chunks.as_ref().map_or(0, |stage| stage.chunk_directory_bytes());
        of_sharing + of_deltas + of_chunks
    }

    /// Whether the tables of content mechanisms may take new entries. If not, counts `pages` host pages that are stored
    /// whole for this reason.
    #[inline]
    pub(crate) fn has_room_in_content_tables(&mut self, pages: u64) -> bool {
        let has_room = self.content_table_bytes() < self.content_table_limit_bytes;
        self.store.stats.demotions_by_full_content_tables += if has_room { 0 } else { pages };
        has_room
    }
}
