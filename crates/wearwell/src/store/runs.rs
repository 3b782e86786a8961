//! Host pages of which only the owner is kept, a run at a time: the bulk of a run that only counts.
//!
//! A run ends before anything happens that somebody could want to hear of between two of its pages: a block that opens or
//! closes, and a pool that has to be collected. So a run leaves exactly what its pages would leave one by one.

use super::{Frontier, Store, Stream};
use crate::address::{Lpn, Ppn};
use crate::error::Result;
use crate::nand::{Nand, ProgramRun};
use crate::operation::{Cause, OpKind};

impl<N: Nand> Store<N> {
    /// Appends pages of `owners` to the host stream, in order, each in the pool whose turn it is, and notes their `places`:
    /// as many as fit before a block is full or a pool has no more than `low_blocks` free ones. Returns how many; after a
    /// failed program, where the next page needs another block, fewer.
    ///
    /// # Errors
    /// Power loss.
    #[inline]
    pub(crate) fn append_run(
        &mut self,
        owners: &[Lpn],
        low_blocks: u32,
        places: &mut [Ppn],
    ) -> (usize, Result<()>) {
        let mut done = 0;
        while done < owners.len() {
            let pool = self.peek_pool(Stream::Host);
            let left = self.open_block_pages_left(Stream::Host, pool) as usize;
            if left <= 1 || self.free_blocks(pool) <= low_blocks {
                break;
            }
            let count = if self.pools == 1 { (left - 1).min(owners.len() - done) } else { 1 };
            let to = self.frontiers[self.frontier_index(Stream::Host, pool)].next;
            let (programmed, outcome) = self.program_run(pool, &owners[done..done + count]);
            places[done..done + programmed].iter_mut().zip(to.0..).for_each(|(place, ppn)| place.0 = ppn);
            done += programmed;
            if programmed < count {
                return (done, outcome);
            }
            self.take_pool(Stream::Host);
        }
        (done, Ok(()))
    }

    /// Programs the next pages of the host stream's open block in `pool`, which has room for them.
    #[inline]
    fn program_run(&mut self, pool: u32, owners: &[Lpn]) -> (usize, Result<()>) {
        let index = self.frontier_index(Stream::Host, pool);
        let Frontier { block, next, .. } = self.frontiers[index];
        let run = ProgramRun { owners, to: next, sequence: self.sequence + 1 };
        let (programmed, outcome) = self.nand.program_run(run);
        let issued = programmed + usize::from(outcome.is_err());
        self.sequence += issued as u64;
        self.stats.programs[Cause::Host as usize] += issued as u64;
        if self.ops.is_listening() {
            (next.0..).take(issued).for_each(|ppn| self.note(OpKind::Program, Ppn(ppn), Cause::Host));
        }
        self.blocks.add_valid(block, programmed as u32);
        self.advance(index, programmed as u32);
        (programmed, outcome.or_else(|error| self.program_failed(index, error, Cause::Host)))
    }
}
