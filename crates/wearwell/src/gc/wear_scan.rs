//! Static wear leveling without a table in RAM: erase counts are read from spare areas, in rotation over all blocks.
//!
//! Source: GeckoFTL (Dayan, Bonnet, Idreos, SIGMOD 2016), appendix D. One spare area is read per flash write, so the
//! erase count of each block is read more often than the blocks in use are erased. So a block to which nothing is
//! written is found in time. RAM holds a cursor and the maximum erase count that the scan has read. The reads are not
//! made with each write, but together after a victim was collected, because a block may be moved only then. There is
//! about one victim per block of writes. The price: these reads compete with requests for the flash all at once.
//!
//! A block's erase count is compared with the maximum that the scan has read so far, over the whole device. At most one
//! block at a time is marked to be moved; it is moved when its pool is collected next.

use crate::address::BlockId;
use crate::nand::Nand;
use crate::operation::Cause;
use crate::store::{BlockState, FlashPageStore};

/// Bytes of RAM counted for the scan of erase counts. An upper bound for the cursor, the maximum erase count, the
/// number of programs, and the block to be moved.
pub(crate) const WEAR_SCAN_RAM_BYTES: u64 = 40;

/// State of the scan that reads the erase counts of all blocks from spare areas, in rotation, to find blocks with low
/// erase counts.
#[derive(Clone, Debug, Default)]
pub(crate) struct WearScan {
    /// Number of the block whose erase count is read next.
    next_block: u32,
    /// Maximum of all erase counts that the scan has read so far.
    max_erase_count: u32,
    /// Number of page programs of the device at the last call of [`Self::scan_for_block_to_move`]; one block is scanned
    /// for each later program.
    programs_at_last_scan: u64,
    /// Little-worn closed block that the scan has found last and that is not moved yet.
    block_to_move: Option<BlockId>,
}

impl WearScan {
    /// Reads one erase count for each page that was programmed since the last call, block by block, but at most once of
    /// each block. A block in use costs one read of a spare area. Returns a closed block of `pool` (set of planes)
    /// whose erase count is lower by more than `gap_erases` than the maximum that the scan has read so far; `None` if
    /// there is none.
    pub(crate) fn scan_for_block_to_move(
        &mut self,
        store: &mut FlashPageStore,
        pool: u32,
        gap_erases: u32,
    ) -> Option<BlockId> {
        let programs = store.stats.total_programs();
        // Counters may have been cleared since the last call.
        let due = programs.checked_sub(self.programs_at_last_scan).unwrap_or(programs);
        self.programs_at_last_scan = programs;
        for _ in 0..due.min(u64::from(store.blocks().len())) {
            self.scan_next_block(store, gap_erases);
        }
        // A block that was collected after it was marked is open or free.
        self.block_to_move =
            self.block_to_move.filter(|&block| store.blocks().state(block) == BlockState::Closed);
        self.block_to_move.take_if(|block| store.allocation_pool_of_block(*block) == pool)
    }

    /// Reads the erase count of the next block. Marks the block to be moved if this count is lower by more than `gap`
    /// than the maximum that the scan has read so far.
    fn scan_next_block(&mut self, store: &mut FlashPageStore, gap: u32) {
        let block = BlockId(self.next_block);
        self.next_block = (self.next_block + 1) % store.blocks().len();
        // The spare area of a free block contains nothing; its erase count is written with its first page.
        if matches!(store.blocks().state(block), BlockState::Free | BlockState::Retired) {
            return;
        }
        store.record_spare_read(store.geometry().first_page(block), Cause::WearLeveling);
        let erases = store.nand().erase_count(block);
        self.max_erase_count = self.max_erase_count.max(erases);
        if store.blocks().state(block) == BlockState::Closed && self.max_erase_count - erases > gap {
            self.block_to_move = Some(block);
        }
    }
}
