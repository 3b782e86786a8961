//! Static wear leveling without a table in RAM: erase counts are read from spare areas, round and round.
//!
//! Source: GeckoFTL (Dayan, Bonnet, Idreos, SIGMOD 2016), appendix D. One spare area is read per flash write, so blocks
//! that nothing is written to are looked at more often than the others are erased. RAM holds the extremes of the last
//! round and of this one, and a cursor. Reads that are due are made together when a victim was collected: then
//! a block may be moved, and a victim stands for about a block of writes. Price: one request waits for all of them.
//!
//! A block is compared with the most worn one of the last complete round or of this one so far, in the whole device:
//! there is one block to be moved at a time, and it waits until its pool is collected.

use crate::address::BlockId;
use crate::nand::Nand;
use crate::operation::Cause;
use crate::store::{BlockState, Store};

/// Bytes of RAM: extremes, sum and number of two rounds, cursor, number of the last program, block to be moved.
pub(crate) const RAM_BYTES: u64 = 40;

/// State of the scan.
#[derive(Clone, Debug, Default)]
pub(crate) struct WearScan {
    cursor: u32,
    /// Most worn block of the last complete round.
    last_most: u32,
    /// Most worn block of this round.
    most: u32,
    /// Programs of the device when the scan stopped last.
    programs: u64,
    to_move: Option<BlockId>,
}

impl WearScan {
    /// Reads as many spare areas as pages were programmed since the last call, but no more than there are blocks.
    /// Returns a closed block of `pool` that is more than `gap` erases behind. One read per step.
    pub(crate) fn coldest_block<N: Nand>(
        &mut self,
        store: &mut Store<N>,
        pool: u32,
        gap: u32,
    ) -> Option<BlockId> {
        let programs = store.stats.total_programs();
        // Counters may have been cleared.
        let due = programs.checked_sub(self.programs).unwrap_or(programs);
        self.programs = programs;
        for _ in 0..due.min(u64::from(store.blocks().len())) {
            self.step(store, gap);
        }
        // What others collected meanwhile is open or free.
        self.to_move = self.to_move.filter(|&block| store.blocks().state(block) == BlockState::Closed);
        self.to_move.take_if(|block| store.pool_of(*block) == pool)
    }

    fn step<N: Nand>(&mut self, store: &mut Store<N>, gap: u32) {
        let block = BlockId(self.cursor);
        self.cursor += 1;
        if self.cursor == store.blocks().len() {
            (self.cursor, self.last_most, self.most) = (0, self.most.max(self.last_most), 0);
        }
        // A free block has no spare area that says anything; its count is written with its first page.
        if matches!(store.blocks().state(block), BlockState::Free | BlockState::Retired) {
            return;
        }
        store.note_spare_read(store.geometry().first_page(block), Cause::Wear);
        let erases = store.nand().erase_count(block);
        self.most = self.most.max(erases);
        let most = self.most.max(self.last_most);
        if store.blocks().state(block) == BlockState::Closed && most - erases > gap {
            self.to_move = Some(block);
        }
    }
}
