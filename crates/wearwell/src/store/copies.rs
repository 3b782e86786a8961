//! Copying pages of a block in runs: most of the work of garbage collection.

use super::{FlashPageStore, Frontier, Stream};
use crate::address::{Lpn, PlaneId, Ppn};
use crate::error::Result;
use crate::events::FtlEvent;
use crate::nand::{ConsecutiveCopies, Nand, NandError};
use crate::operation::{Cause, FlashOp, OpKind};

/// Pages of a block that GC copies, and the owner that the OOB of each copy will name.
#[derive(Clone, Copy, Debug)]
pub struct PagesToCopy<'a> {
    /// Pages that GC copies, all in one block, ascending.
    pub source_pages: &'a [Ppn],
    /// Owner of each page in `source_pages`, for the OOB of its copy: the LPN, or the metadata page number.
    pub owners: &'a [Lpn],
}

impl FlashPageStore {
    /// Copies pages of one block to the open block of the write stream `stream` in `pool` (set of planes), and appends
    /// the PPNs of the copies to `places`. The source pages still count as valid afterwards. On an error `places` holds
    /// the copies that were made before.
    ///
    /// If the data of a source page cannot be read, its copy is programmed with a mark that says that the data are
    /// lost.
    ///
    /// # Errors
    /// Those of [`FlashPageStore::append_page`]. Also an uncorrectable page, if the spare area of a source page, too,
    /// is unreadable, which does not happen to valid pages.
    pub fn copy_pages(
        &mut self,
        pages: PagesToCopy<'_>,
        stream: Stream,
        pool: u32,
        cause: Cause,
        places: &mut Vec<Ppn>,
    ) -> Result<()> {
        let mut done = 0;
        while done < pages.source_pages.len() {
            let index = self.frontier_index(stream, pool);
            if self.frontiers[index].pages_left == 0 {
                self.open_block_for_stream(stream, pool)?;
            }
            let count = (pages.source_pages.len() - done).min(self.frontiers[index].pages_left as usize);
            let part = PagesToCopy {
                source_pages: &pages.source_pages[done..done + count],
                owners: &pages.owners[done..done + count],
            };
            done += self.copy_into_open_block(part, index, cause, places)?;
        }
        Ok(())
    }

    /// Copies pages to the open block at `index`, which has room for all of them, until a program fails. Appends the
    /// PPNs of the copies to `places` and returns their number.
    fn copy_into_open_block(
        &mut self,
        pages: PagesToCopy<'_>,
        index: usize,
        cause: Cause,
        places: &mut Vec<Ppn>,
    ) -> Result<usize> {
        let Frontier { block, next_page: next, .. } = self.frontiers[index];
        let run = ConsecutiveCopies {
            source_pages: pages.source_pages,
            owners: pages.owners,
            first_destination: next,
            first_sequence: self.last_sequence + 1,
        };
        let (copied, outcome) = self.nand.copy(run, &mut self.page_buffer);
        // A source that cannot be read consumes no destination page; any other failure does.
        let failed_program =
            usize::from(matches!(outcome, Err(NandError::ProgramFailed(_) | NandError::PowerLost)));
        let programs = copied + failed_program;
        let reads = copied + usize::from(outcome.is_err());
        self.last_sequence += programs as u64;
        self.stats.reads[cause as usize] += reads as u64;
        self.stats.programs[cause as usize] += programs as u64;
        self.blocks.add_valid_pages(block, copied as u32);
        places.extend((next.0..next.0 + copied as u32).map(Ppn));
        self.record_copy_ops(pages.source_pages, next, programs, cause);
        self.advance_open_block(index, programs as u32);
        match outcome {
            Ok(()) => Ok(copied),
            Err(NandError::ProgramFailed(_)) => {
                self.close_failed_open_block(index, block);
                Ok(copied)
            }
            Err(NandError::Uncorrectable(from)) => {
                Ok(copied + self.copy_unreadable_page(from, pages.owners[copied], index, cause, places)?)
            }
            Err(error) => {
                if failed_program > 0 {
                    self.interrupted_programs.push(Ppn(next.0 + copied as u32));
                }
                self.counter_audit.interrupted_operations += u64::from(error == NandError::PowerLost);
                Err(error.into())
            }
        }
    }

    /// Adds `count` page copies to the list of flash operations for the timing model: as a single operation if source
    /// and destination are in one plane.
    fn record_copy_ops(&mut self, from: &[Ppn], to: Ppn, count: usize, cause: Cause) {
        if !self.flash_ops.is_recording_ops() || count == 0 {
            return;
        }
        if self.flash_ops.is_recording_op_pages() {
            for (&from, to) in from[..count].iter().zip(to.0..) {
                self.record_operation_page(OpKind::Read, from);
                self.record_operation_page(OpKind::Program, Ppn(to));
            }
        }
        if self.flash_ops.is_recording_events() {
            for (&from, to) in from[..count].iter().zip((to.0..).map(Ppn)) {
                self.flash_ops.record_event(|| FtlEvent::Copy { from, to, cause });
            }
        }
        let (source, target) = (self.first_plane_of_block(from[0]), self.first_plane_of_block(to));
        let (bytes, stripe) = (self.geometry.page_bytes, self.geometry.superblock_planes);
        let copies = FlashOp {
            plane: source,
            kind: OpKind::Copies,
            cause,
            ops_back_to_dependency: 0,
            transfer_bytes: bytes,
            copied_page_or_nvram_line_count: count as u32,
        };
        if stripe == 1 && source == target {
            return self.flash_ops.push_op(copies);
        }
        let [read, program] = copies.read_and_program_of_copy();
        let pages = self.geometry.block_pages();
        let (source_start, target_start) = (self.block_of(from[0]).0 * pages, self.block_of(to).0 * pages);
        let plane = |first: PlaneId, offset: u32| PlaneId(first.0 + offset % stripe);
        for (from, to) in from[..count].iter().zip(to.0..) {
            self.flash_ops.push_op(FlashOp { plane: plane(source, from.0 - source_start), ..read });
            self.flash_ops.push_op(FlashOp { plane: plane(target, to - target_start), ..program });
        }
    }

    /// Returns the plane of the first page of the block of `ppn`; the pages of a superblock are on several planes.
    fn first_plane_of_block(&self, ppn: Ppn) -> PlaneId {
        self.geometry.plane_of(self.block_of(ppn), 0)
    }
}
