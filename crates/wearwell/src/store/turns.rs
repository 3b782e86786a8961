//! Whose turn it is: the pool that the next page of a stream goes to.
//!
//! Pages go round the pools, so that each has its share of them and all dies work. A pool that has lost blocks to wear has
//! less room than the others: with its full share of the pages it would be full of valid data, and collect block after
//! block for nothing, while other pools have spare blocks. So it is left out as often as it has lost blocks, of as many turns
//! as it has had blocks. The data of all pools then shrink and grow with their room, and the drive ends when its spare
//! blocks end, not when those of one plane do. The price: fewer dies at work at times, on a worn drive.
//!
//! Invariant: while no block is lost every pool is taken once a round.

use super::Stream;
use crate::nand::Geometry;

/// How successive pages of a stream go round the pools.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Striping {
    /// In the order of their numbers: all planes of a die before the next die, all dies of a channel before the next
    /// channel. Two successive pages often meet on one die.
    #[default]
    PlaneFirst,
    /// Channels first, then dies, then planes: as many successive pages as there are dies go to different dies.
    ChannelFirst,
}

/// Distances between the pools of successive pages.
#[derive(Clone, Copy, Debug)]
struct Stride {
    /// To the pool of the next page, up to the last channel.
    step: u32,
    /// Behind the last channel: pools of a die.
    die_pools: u32,
}

impl Stride {
    fn new(striping: Striping, geometry: &Geometry) -> Self {
        let die_pools = geometry.planes_per_die / geometry.superblock_planes;
        let lies_in_dies = geometry.planes_per_die.is_multiple_of(geometry.superblock_planes);
        match striping {
            Striping::ChannelFirst if lies_in_dies => {
                Self { step: die_pools * geometry.dies_per_channel, die_pools }
            }
            // A superblock of several dies: successive pages of one block are on different planes as it is.
            Striping::ChannelFirst | Striping::PlaneFirst => Self { step: 1, die_pools: 1 },
        }
    }

    /// The pool after the last channel: on the first channel, `beyond` pools behind its beginning.
    fn wrapped(self, beyond: u32) -> u32 {
        match beyond + self.die_pools {
            next if next < self.step => next,
            next if next + 1 < self.step + self.die_pools => next + 1 - self.step,
            _ => 0,
        }
    }
}

/// The pools of each stream's next page.
#[derive(Clone, Debug)]
pub(super) struct Turns {
    pools: u32,
    pool_blocks: u32,
    stride: Stride,
    next: [u32; Stream::COUNT],
    /// Blocks that each pool has lost.
    lost: Vec<u32>,
    /// Lost blocks summed over the turns that were due, less the blocks of a pool for each that was left out; by
    /// `stream * pools + pool`.
    owed: Vec<u32>,
    /// Whether any pool has lost one: before, a turn is one addition.
    any_lost: bool,
}

impl Turns {
    pub(super) fn new(geometry: &Geometry) -> Self {
        let pools = geometry.pools();
        Self {
            pools,
            pool_blocks: geometry.blocks() / pools,
            stride: Stride::new(Striping::default(), geometry),
            next: [0; Stream::COUNT],
            lost: vec![0; pools as usize],
            owed: vec![0; Stream::COUNT * pools as usize],
            any_lost: false,
        }
    }

    /// Begins anew, with all blocks.
    pub(super) fn restart(&mut self) {
        self.next = [0; Stream::COUNT];
        self.lost.fill(0);
        self.owed.fill(0);
        self.any_lost = false;
    }

    pub(super) fn stripe(&mut self, striping: Striping, geometry: &Geometry) {
        self.stride = Stride::new(striping, geometry);
    }

    /// `pool` has one block fewer.
    pub(super) fn lose_block(&mut self, pool: u32) {
        self.lost[pool as usize] += 1;
        self.any_lost = true;
    }

    #[inline]
    pub(super) fn next(&self, stream: Stream) -> u32 {
        self.next[stream as usize]
    }

    /// The pool whose turn it is; the next one is due.
    #[inline]
    pub(super) fn take(&mut self, stream: Stream) -> u32 {
        let pool = self.next[stream as usize];
        self.next[stream as usize] =
            if self.any_lost { self.next_with_room(stream, pool) } else { self.after(pool) };
        pool
    }

    #[inline]
    pub(super) fn give_back(&mut self, stream: Stream, pool: u32) {
        self.next[stream as usize] = pool;
    }

    #[inline]
    fn after(&self, pool: u32) -> u32 {
        let next = pool + self.stride.step;
        if next < self.pools { next } else { self.stride.wrapped(next - self.pools) }
    }

    /// The next pool that is not left out this time.
    #[cold]
    fn next_with_room(&mut self, stream: Stream, pool: u32) -> u32 {
        let mut next = self.after(pool);
        for _ in 0..self.pools {
            let owed = &mut self.owed[stream as usize * self.pools as usize + next as usize];
            *owed += self.lost[next as usize];
            if *owed < self.pool_blocks {
                break;
            }
            *owed -= self.pool_blocks;
            next = self.after(next);
        }
        next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turns_of(blocks: u32) -> Turns {
        Turns::new(&Geometry {
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

    fn counts(turns: &mut Turns, taken: usize) -> Vec<u32> {
        let mut counts = vec![0; turns.pools as usize];
        (0..taken).for_each(|_| counts[turns.take(Stream::Host) as usize] += 1);
        counts
    }

    #[test]
    fn pools_without_losses_take_turns() {
        let mut turns = turns_of(8);
        let order: Vec<u32> = (0..8).map(|_| turns.take(Stream::Host)).collect();
        assert_eq!(order, [0, 1, 2, 3, 0, 1, 2, 3]);
    }

    #[test]
    fn a_pool_has_as_many_turns_as_it_has_blocks() {
        let mut turns = turns_of(8);
        (0..2).for_each(|_| turns.lose_block(1));
        (0..4).for_each(|_| turns.lose_block(2));
        assert_eq!(counts(&mut turns, 8 + 6 + 4 + 8), [8, 6, 4, 8]);
    }

    #[test]
    fn a_pool_without_blocks_has_no_turn_and_nothing_hangs_without_any() {
        let mut turns = turns_of(2);
        (0..2).for_each(|_| turns.lose_block(3));
        assert_eq!(counts(&mut turns, 30), [10, 10, 10, 0]);
        (0..3).for_each(|pool| (0..2).for_each(|_| turns.lose_block(pool)));
        assert_eq!(counts(&mut turns, 30).iter().sum::<u32>(), 30);
    }
}
