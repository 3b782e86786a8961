//! Epoch: a batch of flash and NVRAM operations that wait to be written to the files of an image together.
//!
//! Within an epoch all programs are written first, then one journal record with every state word that the epoch
//! changes: words of the NVRAM, erases and marks of blocks. Pages that are adjacent in the flash file are one [`Run`],
//! which is one write of data and one of OOB records. Epochs are written one after the other, each as a whole.

use std::collections::BTreeMap;

use wearwell::address::{BlockId, Ppn};

use super::layout::RECORD_BYTES;

/// Waiting programs of pages that are adjacent in the flash file.
#[derive(Debug, Default)]
pub(super) struct Run {
    first: u32,
    /// Whether any page of the run has spare bytes.
    has_spare: bool,
    /// Whether the run's pages hold metadata of the engine, whose data is stored twice.
    pub(super) is_metadata: bool,
    /// Data of the run's pages, one page after the other.
    pub(super) data: Vec<u8>,
    /// Spare areas of the run's pages, one after the other, each of full length.
    spare: Vec<u8>,
    /// OOB records of the run's pages, one after the other.
    pub(super) records: Vec<u8>,
}

impl Run {
    pub(super) fn first(&self) -> Ppn {
        Ppn(self.first)
    }

    /// Spare areas of the run's pages, each of full length; `None` if no page has spare bytes.
    pub(super) fn spare(&self) -> Option<&[u8]> {
        self.has_spare.then_some(&self.spare)
    }

    fn pages(&self) -> u32 {
        (self.records.len() / RECORD_BYTES) as u32
    }

    fn clear(&mut self) {
        self.has_spare = false;
        self.data.clear();
        self.spare.clear();
        self.records.clear();
    }
}

/// Buffers of runs that were written, kept for later runs: allocating fresh memory costs as much as the copy into it.
#[derive(Debug, Default)]
pub(super) struct Room(Vec<Run>);

impl Room {
    /// Most runs of pages whose buffers are kept.
    const RUNS_MAX: usize = 32;

    fn take(&mut self, first: Ppn, is_metadata: bool) -> Run {
        Run { first: first.0, is_metadata, ..self.0.pop().unwrap_or_default() }
    }

    fn give_back(&mut self, mut run: Run) {
        if self.0.len() < Self::RUNS_MAX {
            run.clear();
            self.0.push(run);
        }
    }
}

/// A page that is to be programmed: data, spare bytes and OOB record.
#[derive(Clone, Copy)]
pub(super) struct Page<'a> {
    pub(super) data: &'a [u8],
    /// Spare bytes that the engine stores with the page.
    pub(super) spare: &'a [u8],
    /// Bytes of a full spare area in the flash file.
    pub(super) spare_stride: usize,
    pub(super) record: [u8; RECORD_BYTES],
    pub(super) is_metadata: bool,
}

/// A batch of programs and changed state words that is written to the files of an image together.
#[derive(Debug)]
pub(super) struct Epoch {
    /// Number of the journal record that will make the operations of the epoch valid.
    pub(super) number: u64,
    pub(super) runs: Vec<Run>,
    /// State words (NVRAM and blocks) that the epoch changes: index and newest value.
    pub(super) words: BTreeMap<u64, u64>,
    /// Erased blocks whose space in the flash file is returned to the file system.
    pub(super) holes: Vec<BlockId>,
    /// Erased blocks that held metadata: the space of their copies in the mirror is returned to the file system.
    pub(super) metadata_holes: Vec<BlockId>,
    /// Bytes of data of all pages that the epoch programs.
    pub(super) bytes: usize,
}

impl Epoch {
    pub(super) fn new(number: u64) -> Self {
        Self {
            number,
            runs: Vec::new(),
            words: BTreeMap::new(),
            holes: Vec::new(),
            metadata_holes: Vec::new(),
            bytes: 0,
        }
    }

    /// Whether the epoch (batch of operations) is empty.
    pub(super) fn is_empty(&self) -> bool {
        self.runs.is_empty() && self.words.is_empty()
    }

    /// Adds the program of a page to the epoch (batch of operations), in a run with its neighbours if there is one.
    pub(super) fn program(&mut self, ppn: Ppn, page: &Page<'_>, room: &mut Room) {
        let continues = |run: &Run| run.first + run.pages() == ppn.0 && run.is_metadata == page.is_metadata;
        let continued = self.runs.iter().rposition(continues);
        let at = continued.unwrap_or_else(|| {
            self.runs.push(room.take(ppn, page.is_metadata));
            self.runs.len() - 1
        });
        let run = &mut self.runs[at];
        run.data.extend_from_slice(page.data);
        let end = run.spare.len() + page.spare_stride;
        run.spare.extend_from_slice(page.spare);
        run.spare.resize(end, 0);
        run.has_spare |= !page.spare.is_empty();
        run.records.extend_from_slice(&page.record);
        self.bytes += page.data.len();
    }

    /// Returns data and spare area of a page whose program waits in the epoch.
    pub(super) fn find(&self, ppn: Ppn) -> Option<(&[u8], &[u8])> {
        let run = self.runs.iter().rev().find(|run| (run.first..run.first + run.pages()).contains(&ppn.0))?;
        let (at, pages) = ((ppn.0 - run.first) as usize, run.pages() as usize);
        let part = |bytes: &'_ [u8]| bytes.len() / pages * at..bytes.len() / pages * (at + 1);
        Some((&run.data[part(&run.data)], &run.spare[part(&run.spare)]))
    }

    /// Removes the programs of the epoch after they were written, and keeps their buffers in `room`.
    pub(super) fn forget_programs(&mut self, room: &mut Room) {
        self.runs.drain(..).for_each(|run| room.give_back(run));
        self.bytes = 0;
    }
}
