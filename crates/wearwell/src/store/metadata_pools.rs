//! Into which pool the next page of a stream of metadata goes (translation pages, page validity, a log of remaps).
//!
//! Without striping a stream of metadata fills a block of one pool, and then one of the pool with the most free blocks:
//! it has one open block, and metadata that is written at about the same time is on one plane. With striping
//! ([`GcOptions::stripes_metadata`](crate::gc::GcOptions)) its pages visit the pools in turn, as those of data do. The
//! price is an open block in each pool, which is opened when room is made, so that GC keeps its reserve.

use super::{FlashPageStore, GC_RESERVE_BLOCKS, Stream};
use crate::error::Result;

impl FlashPageStore {
    /// Makes the pages of each stream of metadata visit the pools in turn from now on, as those of data do. The price is
    /// an open block in each pool.
    pub(crate) fn stripe_metadata(&mut self) {
        self.pool_rotation.stripe_metadata();
    }

    /// Returns the pool for the next page of a stream of metadata. If metadata is striped, this is the next pool in turn
    /// in which the stream has an open block. Otherwise it is the pool with the most free blocks: of the pools in which
    /// the stream has an open block, or of all pools if it has none. O(1) for a stream with one open block or with open
    /// blocks in most pools.
    pub fn preferred_append_pool(&self, stream: Stream) -> u32 {
        let free_and_first = |&pool: &u32| (self.free_blocks(pool), u32::MAX - pool);
        let preferred = match self.pools_with_open_block[stream as usize].as_slice() {
            [] => (0..self.allocation_pools).max_by_key(free_and_first),
            &[only] => Some(only),
            _ if self.pool_rotation.stripes_metadata() => self
                .pool_rotation
                .pools_from_next(stream)
                .find(|&pool| self.open_block_pages_left(stream, pool) > 0),
            open => open.iter().copied().max_by_key(free_and_first),
        };
        preferred.expect("a device has a pool")
    }

    /// Returns the pool for the next page of a stream of metadata ([`FlashPageStore::preferred_append_pool`]), into
    /// which the caller programs this page. If metadata is striped, the page after it goes to the next pool.
    pub fn take_append_pool(&mut self, stream: Stream) -> u32 {
        let pool = self.preferred_append_pool(stream);
        if self.pool_rotation.stripes_metadata() {
            self.pool_rotation.set_next_pool(stream, pool);
            self.pool_rotation.take_next_pool(stream);
        }
        pool
    }

    /// Whether `pages` pages of a stream of metadata can be appended without using the free blocks reserved for garbage
    /// collection, if each page goes to the pool that [`FlashPageStore::take_append_pool`] then returns. O(1) if
    /// they fit the stream's open blocks, as is usual; O(pools) if room is short.
    #[inline]
    pub(crate) fn has_room_for_pages(&self, stream: Stream, pages: u32) -> bool {
        self.needs_no_open_block(stream, pages) || self.has_room_in_pools_together(stream, pages)
    }

    /// Whether `pages` pages of a stream of metadata fit into its open blocks, and no block is to be opened in advance:
    /// without striping of metadata, the stream has exactly one open block.
    #[inline]
    pub(crate) fn needs_no_open_block(&self, stream: Stream, pages: u32) -> bool {
        let open = self.pools_with_open_block[stream as usize].as_slice();
        match open {
            &[pool] if !self.pool_rotation.stripes_metadata() => {
                self.open_block_pages_left(stream, pool) >= pages
            }
            _ => self.pool_rotation.stripes_metadata() && self.fits_in_open_blocks(stream, pages),
        }
    }

    /// Whether `pages` pages of a stream of metadata that is striped fit into its open blocks, and the pool whose turn
    /// it is needs no open block. O(1) if the first open block has room.
    fn fits_in_open_blocks(&self, stream: Stream, pages: u32) -> bool {
        let mut room = 0;
        self.next_pool_to_open(stream).is_none()
            && self.pools_with_open_block[stream as usize].iter().any(|&pool| {
                room += self.open_block_pages_left(stream, pool);
                room >= pages
            })
    }

    /// Returns the pool whose turn it is to receive a page of a stream of metadata, if metadata is striped, the stream
    /// has no open block there, and the pool has a free block that is not reserved for garbage collection.
    fn next_pool_to_open(&self, stream: Stream) -> Option<u32> {
        let pool = self.pool_rotation.next_pool(stream);
        let is_to_open = self.pool_rotation.stripes_metadata()
            && self.open_block_pages_left(stream, pool) == 0
            && self.free_blocks(pool) > GC_RESERVE_BLOCKS;
        is_to_open.then_some(pool)
    }

    /// Whether all pools (sets of planes) together have room for `pages` pages of a stream of writes, without the free
    /// blocks reserved for garbage collection.
    fn has_room_in_pools_together(&self, stream: Stream, pages: u32) -> bool {
        let mut room = 0;
        (0..self.allocation_pools).any(|pool| {
            room += self.free_pages_above_reserve(stream, pool);
            room >= pages
        })
    }

    /// Opens a block for the next page of a stream of metadata, if the stream has no open block in the pool whose turn it
    /// is, or (without striping of metadata) no open block at all.
    pub(crate) fn open_block_in_advance(&mut self, stream: Stream) -> Result<()> {
        let pool = self.next_pool_to_open(stream).unwrap_or_else(|| self.preferred_append_pool(stream));
        if self.open_block_pages_left(stream, pool) > 0 {
            Ok(())
        } else {
            self.open_block_for_stream(stream, pool)
        }
    }
}
