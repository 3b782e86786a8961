//! The order in which the pages of a stream visit the pools.
//!
//! Pages visit the pools in turn, so that each pool gets an equal share and all dies work. A pool that has lost blocks
//! to wear has less room than the others. With a full share of the pages it would be full of valid data and be
//! collected again and again for nothing, while other pools have spare blocks. So a pool is skipped in proportion to
//! its lost blocks: in the long run it gets as many pages per block that it still has as the others. The data of all
//! pools then shrinks and grows with their room, and the drive ends when its spare blocks are used up, not when those
//! of one plane are. The price: on a worn drive fewer dies work at times.
//!
//! Invariant: while no block is lost every pool is visited once per round.

use super::Stream;
use crate::nand::Geometry;

/// Order in which successive pages of a stream of writes visit the pools (sets of planes).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Striping {
    /// Successive pages visit the pools (sets of planes) in the order of their numbers: all planes of a die before the
    /// next die, all dies of a channel before the next channel. Two successive pages are often on one die.
    #[default]
    PlaneFirst,
    /// Successive pages visit all channels first, then the next dies, then the next planes. So `n` successive pages are
    /// on `n` different dies, if the device has at least `n` dies.
    ChannelFirst,
}

/// Distances, in pool numbers, between the pools (sets of planes) of successive pages.
#[derive(Clone, Copy, Debug)]
struct PoolStride {
    /// Distance, in pool numbers, from the pool (set of planes) of one page to the pool of the next page; with channels
    /// first, that pool is on the next channel.
    pools_to_next_page: u32,
    /// Number of pools (sets of planes) per die: the distance to the next die, which follows when all channels were
    /// visited.
    pools_per_die: u32,
}

impl PoolStride {
    /// Returns the distances between the pool numbers of successive pages, for this order of striping and this
    /// geometry. If a superblock extends over several dies, both orders of striping give the same distances.
    fn new(striping: Striping, geometry: &Geometry) -> Self {
        let die_pools = geometry.planes_per_die / geometry.superblock_planes;
        let lies_in_dies = geometry.planes_per_die.is_multiple_of(geometry.superblock_planes);
        match striping {
            Striping::ChannelFirst if lies_in_dies => {
                Self { pools_to_next_page: die_pools * geometry.dies_per_channel, pools_per_die: die_pools }
            }
            // With a superblock over several dies, successive pages of one block are on different planes anyway.
            Striping::ChannelFirst | Striping::PlaneFirst => Self { pools_to_next_page: 1, pools_per_die: 1 },
        }
    }

    /// Returns the pool (set of planes) for the next page after a page on the last channel. This is the pool on the
    /// first channel and the next die; after the last die, on the first die and the next plane; after the last plane,
    /// pool 0. `pools_beyond_last` is the pool number of the page plus `pools_to_next_page`, minus the number of pools.
    fn next_pool_after_last_channel(self, pools_beyond_last: u32) -> u32 {
        match pools_beyond_last + self.pools_per_die {
            next if next < self.pools_to_next_page => next,
            next if next + 1 < self.pools_to_next_page + self.pools_per_die => {
                next + 1 - self.pools_to_next_page
            }
            _ => 0,
        }
    }
}

/// Rotation of the pools (sets of planes): which pool receives the next page of each stream of writes.
#[derive(Clone, Debug)]
pub(super) struct PoolRotation {
    /// Number of pools (sets of planes) of the device.
    allocation_pools: u32,
    /// Number of blocks that each pool (set of planes) had when the device was new.
    blocks_per_pool: u32,
    /// Distances, in pool numbers, between the pools of successive pages.
    stride: PoolStride,
    /// For each stream of writes, the pool (set of planes) of its next page.
    next_pools: [u32; Stream::STREAM_COUNT],
    /// Number of blocks that each pool (set of planes) has lost because they were retired.
    retired_blocks_by_pool: Vec<u32>,
    /// Skip counter of each pool (set of planes) in each write stream, at index `stream * pools + pool`, by which a
    /// pool with retired blocks gets fewer pages. It grows by the pool's number of lost blocks at each turn; at a
    /// skipped turn it falls by the pool's initial number of blocks.
    skip_counter_by_stream_and_pool: Vec<u32>,
    /// Whether the pages of a stream of metadata visit the pools in turn, as those of data do. Otherwise the stream
    /// fills a block of one pool before it goes to another.
    stripes_metadata: bool,
    /// Whether any pool (set of planes) has lost a block to retirement; if not, one addition finds the pool of the next
    /// page.
    has_retired_block: bool,
}

impl PoolRotation {
    /// Creates the rotation for a device without retired blocks, in the default order of striping.
    pub(super) fn new(geometry: &Geometry) -> Self {
        let allocation_pools = geometry.allocation_pools();
        Self {
            allocation_pools,
            blocks_per_pool: geometry.blocks() / allocation_pools,
            stride: PoolStride::new(Striping::default(), geometry),
            next_pools: [0; Stream::STREAM_COUNT],
            retired_blocks_by_pool: vec![0; allocation_pools as usize],
            skip_counter_by_stream_and_pool: vec![0; Stream::STREAM_COUNT * allocation_pools as usize],
            stripes_metadata: false,
            has_retired_block: false,
        }
    }

    /// Makes the pages of each stream of metadata visit the pools in turn from now on.
    pub(super) fn stripe_metadata(&mut self) {
        self.stripes_metadata = true;
    }

    /// Whether the pages of each stream of metadata visit the pools in turn.
    #[inline]
    pub(super) fn stripes_metadata(&self) -> bool {
        self.stripes_metadata
    }

    /// Restarts the rotation: every write stream continues with the first pool (set of planes), and no block counts as
    /// lost to retirement.
    pub(super) fn restart_rotation(&mut self) {
        self.next_pools = [0; Stream::STREAM_COUNT];
        self.retired_blocks_by_pool.fill(0);
        self.skip_counter_by_stream_and_pool.fill(0);
        self.has_retired_block = false;
    }

    /// Sets the order in which successive pages visit the pools (sets of planes).
    pub(super) fn set_striping(&mut self, striping: Striping, geometry: &Geometry) {
        self.stride = PoolStride::new(striping, geometry);
    }

    /// Records that `pool` (set of planes) has lost a block, so that the pool is skipped at times.
    pub(super) fn record_retired_block(&mut self, pool: u32) {
        self.retired_blocks_by_pool[pool as usize] += 1;
        self.has_retired_block = true;
    }

    /// Returns the number of blocks that all pools (sets of planes) together have lost to retirement.
    pub(super) fn retired_blocks(&self) -> u32 {
        self.retired_blocks_by_pool.iter().sum()
    }

    /// Returns the pool (set of planes) for the write stream's next page, without advancing to the following pool.
    #[inline]
    pub(super) fn next_pool(&self, stream: Stream) -> u32 {
        self.next_pools[stream as usize]
    }

    /// Returns the pool (set of planes) for the write stream's next page, and advances to the pool of the page after
    /// that.
    #[inline]
    pub(super) fn take_next_pool(&mut self, stream: Stream) -> u32 {
        let pool = self.next_pools[stream as usize];
        self.next_pools[stream as usize] = if self.has_retired_block {
            self.next_unskipped_pool(stream, pool)
        } else {
            self.pool_after(pool)
        };
        pool
    }

    /// Sets the pool (set of planes) for the write stream's next page.
    #[inline]
    pub(super) fn set_next_pool(&mut self, stream: Stream, pool: u32) {
        self.next_pools[stream as usize] = pool;
    }

    /// Returns all pools (sets of planes), in the order of striping, from the one for the write stream's next page on.
    pub(super) fn pools_from_next(&self, stream: Stream) -> impl Iterator<Item = u32> {
        let first = self.next_pool(stream);
        std::iter::successors(Some(first), move |&pool| {
            Some(self.pool_after(pool)).filter(|&next| next != first)
        })
    }

    /// Returns the pool (set of planes) that follows `pool` in the order of striping, whether or not its turn is
    /// skipped.
    #[inline]
    fn pool_after(&self, pool: u32) -> u32 {
        let next = pool + self.stride.pools_to_next_page;
        if next < self.allocation_pools {
            next
        } else {
            self.stride.next_pool_after_last_channel(next - self.allocation_pools)
        }
    }

    /// Returns the first pool (set of planes) after `pool` whose turn is not skipped. Turns of a pool that has lost
    /// blocks are skipped at times.
    #[cold]
    fn next_unskipped_pool(&mut self, stream: Stream, pool: u32) -> u32 {
        let mut next = self.pool_after(pool);
        for _ in 0..self.allocation_pools {
            let skip_debt = &mut self.skip_counter_by_stream_and_pool
                [stream as usize * self.allocation_pools as usize + next as usize];
            *skip_debt += self.retired_blocks_by_pool[next as usize];
            if *skip_debt < self.blocks_per_pool {
                break;
            }
            *skip_debt -= self.blocks_per_pool;
            next = self.pool_after(next);
        }
        next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Creates the rotation of a device with four pools of `blocks` blocks each.
    fn rotation_of_four_pools(blocks: u32) -> PoolRotation {
        PoolRotation::new(&Geometry {
            channels: 1,
            dies_per_channel: 1,
            planes_per_die: 4,
            blocks_per_plane: blocks,
            pages_per_block: 4,
            page_bytes: 4096,
            spare_bytes: 64,
            superblock_planes: 1,
        })
    }

    /// Takes the pools of the next `taken` host pages, and returns for each pool how many of the pages it received.
    fn pages_per_pool(turns: &mut PoolRotation, taken: usize) -> Vec<u32> {
        let mut counts = vec![0; turns.allocation_pools as usize];
        (0..taken).for_each(|_| counts[turns.take_next_pool(Stream::Host) as usize] += 1);
        counts
    }

    #[test]
    fn pools_of_equal_size_take_turns_for_host_pages() {
        let mut turns = rotation_of_four_pools(8);
        let order: Vec<u32> = (0..8).map(|_| turns.take_next_pool(Stream::Host)).collect();
        assert_eq!(order, [0, 1, 2, 3, 0, 1, 2, 3]);
    }

    /// Pools that have lost 2 and 4 of their 8 blocks receive 6 and 4 pages, while each full pool receives 8.
    #[test]
    fn a_pool_receives_host_pages_in_proportion_to_its_blocks() {
        let mut turns = rotation_of_four_pools(8);
        (0..2).for_each(|_| turns.record_retired_block(1));
        (0..4).for_each(|_| turns.record_retired_block(2));
        assert_eq!(pages_per_pool(&mut turns, 8 + 6 + 4 + 8), [8, 6, 4, 8]);
    }

    #[test]
    fn pools_without_blocks_are_skipped_and_choosing_among_only_such_pools_terminates() {
        let mut turns = rotation_of_four_pools(2);
        (0..2).for_each(|_| turns.record_retired_block(3));
        assert_eq!(pages_per_pool(&mut turns, 30), [10, 10, 10, 0]);
        (0..3).for_each(|pool| (0..2).for_each(|_| turns.record_retired_block(pool)));
        assert_eq!(pages_per_pool(&mut turns, 30).iter().sum::<u32>(), 30);
    }
}
