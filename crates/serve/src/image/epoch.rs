//! Operations of flash and NVRAM that wait to be written: one epoch of them.
//!
//! Within an epoch all programs come first, then one record of the journal with every state word that it changes: words of the
//! NVRAM, erases and marks of blocks. Pages that follow each other in the file are one [`Run`], so that a run is one write of data and one of OOB.
//! Epochs are written one after the other, whole.

use std::collections::BTreeMap;

use wearwell::address::{BlockId, Ppn};

use super::layout::RECORD_BYTES;

/// Programs of pages that follow each other in the file.
#[derive(Debug, Default)]
pub(super) struct Run {
    first: u32,
    /// Whether any page has spare bytes.
    has_spare: bool,
    /// Whether the pages are metadata, whose data has a copy.
    pub(super) is_metadata: bool,
    /// A page each.
    pub(super) data: Vec<u8>,
    /// A whole spare area each.
    spare: Vec<u8>,
    /// An OOB record each.
    pub(super) records: Vec<u8>,
}

impl Run {
    pub(super) fn first(&self) -> Ppn {
        Ppn(self.first)
    }

    /// The spare areas of its pages, if any of them has spare bytes.
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

/// Room that runs were written from, for the next ones: fresh memory costs as much as the copy into it.
#[derive(Debug, Default)]
pub(super) struct Room(Vec<Run>);

impl Room {
    /// Runs that are kept.
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

/// A page to be programmed.
#[derive(Clone, Copy)]
pub(super) struct Page<'a> {
    pub(super) data: &'a [u8],
    /// As many bytes as are kept.
    pub(super) spare: &'a [u8],
    /// Bytes of a whole spare area in the file.
    pub(super) spare_stride: usize,
    pub(super) record: [u8; RECORD_BYTES],
    pub(super) is_metadata: bool,
}

/// See the module's head.
#[derive(Debug)]
pub(super) struct Epoch {
    /// Number of the journal's record that will say that all of it holds.
    pub(super) number: u64,
    pub(super) runs: Vec<Run>,
    /// Index and newest value of state words.
    pub(super) words: BTreeMap<u64, u64>,
    /// Erased blocks whose room is given back to the host.
    pub(super) holes: Vec<BlockId>,
    /// Erased blocks that held metadata: the room of the copies is given back.
    pub(super) metadata_holes: Vec<BlockId>,
    /// Bytes of its pages.
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

    /// Whether there is nothing to be written.
    pub(super) fn is_empty(&self) -> bool {
        self.runs.is_empty() && self.words.is_empty()
    }

    /// Adds the program of a page.
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

    /// Data and spare area of a page that waits.
    pub(super) fn find(&self, ppn: Ppn) -> Option<(&[u8], &[u8])> {
        let run = self.runs.iter().rev().find(|run| (run.first..run.first + run.pages()).contains(&ppn.0))?;
        let (at, pages) = ((ppn.0 - run.first) as usize, run.pages() as usize);
        let part = |bytes: &'_ [u8]| bytes.len() / pages * at..bytes.len() / pages * (at + 1);
        Some((&run.data[part(&run.data)], &run.spare[part(&run.spare)]))
    }

    /// The programs are written.
    pub(super) fn forget_programs(&mut self, room: &mut Room) {
        self.runs.drain(..).for_each(|run| room.give_back(run));
        self.bytes = 0;
    }
}
