//! Appending many host pages at once, in runs of which only the owner of each page is stored: most of the work of a
//! simulation that only counts operations.
//!
//! A run ends where, between two of its pages, something happens that other parts of the FTL must see: a block is
//! opened or closed, or GC becomes due in a pool. So a run leaves exactly the state that appending its pages one by one
//! would leave.

use super::{FlashPageStore, Frontier, Stream};
use crate::address::{Lpn, Ppn};
use crate::error::Result;
use crate::nand::{ConsecutivePrograms, Nand};
use crate::operation::{Cause, OpKind};

impl FlashPageStore {
    /// Appends one page of host data for each LPN in `owners`, in order, each in the next pool (set of planes) in turn,
    /// and writes the PPNs to `places`. Stops before a block becomes full, or if a pool has at most
    /// `gc_start_free_blocks` free blocks. Returns the number of pages appended. After a failed program this number is
    /// smaller and the outcome is `Ok`: the next page needs another block.
    ///
    /// # Errors
    /// Power loss.
    #[inline]
    pub(crate) fn append_host_pages(
        &mut self,
        owners: &[Lpn],
        gc_start_free_blocks: u32,
        places: &mut [Ppn],
    ) -> (usize, Result<()>) {
        let mut done = 0;
        while done < owners.len() {
            let pool = self.next_pool_of_stream(Stream::Host);
            let left = self.open_block_pages_left(Stream::Host, pool) as usize;
            if left <= 1 || self.free_blocks(pool) <= gc_start_free_blocks {
                break;
            }
            let count = if self.allocation_pools == 1 { (left - 1).min(owners.len() - done) } else { 1 };
            let to = self.frontiers[self.frontier_index(Stream::Host, pool)].next_page;
            let (programmed, outcome) = self.program_host_pages(pool, &owners[done..done + count]);
            places[done..done + programmed].iter_mut().zip(to.0..).for_each(|(place, ppn)| place.0 = ppn);
            done += programmed;
            if programmed < count {
                return (done, outcome);
            }
            self.take_next_pool(Stream::Host);
        }
        (done, Ok(()))
    }

    /// Programs the next pages of the open block of host data in `pool` (set of planes), one for each LPN in `owners`;
    /// the block must have room for all. Returns the number of pages programmed.
    #[inline]
    fn program_host_pages(&mut self, pool: u32, owners: &[Lpn]) -> (usize, Result<()>) {
        let index = self.frontier_index(Stream::Host, pool);
        let Frontier { block, next_page: next, .. } = self.frontiers[index];
        let run = ConsecutivePrograms { owners, first_page: next, first_sequence: self.last_sequence + 1 };
        let (programmed, outcome) = self.nand.program_consecutive_pages(run);
        let issued = programmed + usize::from(outcome.is_err());
        self.last_sequence += issued as u64;
        self.stats.programs[Cause::Host as usize] += issued as u64;
        if self.flash_ops.is_recording_ops() {
            (next.0..)
                .take(issued)
                .for_each(|ppn| self.record_operation(OpKind::Program, Ppn(ppn), Cause::Host));
        }
        self.blocks.add_valid_pages(block, programmed as u32);
        self.advance_open_block(index, programmed as u32);
        (programmed, outcome.or_else(|error| self.handle_program_failure(index, error, Cause::Host)))
    }
}
