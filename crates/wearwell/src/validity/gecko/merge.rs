//! Merging sorted inputs, newest first: the one place where entries of different age meet.
//!
//! A marker in an input voids what older inputs say of its block; what its own input says of the block is newer than
//! the marker. Bitmaps of equal keys are joined by OR. Every page of a run is read once, in order.

#![expect(
    clippy::inline_always,
    reason = "measured: calls and their results were half of what an entry costs"
)]

use std::ops::Range;

use super::buffer::Frozen;
use super::layout::{Entries, KEY_BYTES, Layout, copy_short, key_at};
use super::run::{Run, RunWriter};
use crate::error::Result;
use crate::nand::Nand;
use crate::store::Store;
use crate::timing::Cause;

/// No key: keys are below 2^32 - 1.
const EXHAUSTED: u32 = u32::MAX;

/// One input and the page of it in RAM.
#[derive(Clone, Debug)]
struct Cursor {
    /// A page of a run, or the entries of a buffer.
    bytes: Vec<u8>,
    at: usize,
    end: usize,
    /// Run among those of the structure, and its next page; `None` for a buffer.
    source: Option<(usize, usize)>,
}

impl Cursor {
    fn is_dry(&self, runs: &[Run]) -> bool {
        self.at == self.end && self.source.is_some_and(|(run, page)| page < runs[run].first_keys.len())
    }

    fn head(&self) -> u32 {
        if self.at < self.end { key_at(&self.bytes, self.at) } else { EXHAUSTED }
    }
}

/// Yields the entries of several inputs in key order.
#[derive(Clone, Debug)]
pub(super) struct Merged {
    cursors: Vec<Cursor>,
    /// Next key of each input.
    heads: Vec<u32>,
    /// The newest input with the smallest head, if that is below `others`: the smallest head of all other inputs, or 0
    /// if either has to be found again.
    first: usize,
    others: u32,
    /// Some cursor may have to read its next page.
    dry: bool,
    /// First key behind the block in hand.
    block_end: u32,
    /// Inputs after this one are void for the block in hand.
    barrier: usize,
    cause: Cause,
    /// Bitmap of the entry that was yielded last.
    pub(super) bitmap: Vec<u8>,
    /// Whether that entry is a marker.
    is_marker: bool,
}

impl Merged {
    /// The inputs, newest first: buffers, then a range of the structure's runs.
    pub(super) fn new<'a>(
        buffers: impl Iterator<Item = &'a Frozen>,
        runs: Range<usize>,
        cause: Cause,
        layout: &Layout,
    ) -> Self {
        let buffers =
            buffers.map(|b| Cursor { bytes: b.bytes.clone(), at: 0, end: b.bytes.len(), source: None });
        let runs =
            runs.map(|run| Cursor { bytes: layout.blank_page(), at: 0, end: 0, source: Some((run, 0)) });
        let cursors: Vec<Cursor> = buffers.chain(runs).collect();
        let heads = cursors.iter().map(Cursor::head).collect();
        let bitmap = vec![0; layout.part_bytes()];
        Self {
            cursors,
            heads,
            first: 0,
            others: 0,
            dry: true,
            block_end: 0,
            barrier: 0,
            cause,
            bitmap,
            is_marker: false,
        }
    }

    /// The next key; its bitmap is in [`Merged::bitmap`]. After an error the call can be repeated.
    #[inline(always)]
    pub(super) fn next<N: Nand>(
        &mut self,
        io: &mut Store<N>,
        runs: &[Run],
        layout: &Layout,
    ) -> Result<Option<u32>> {
        loop {
            if self.dry {
                self.load(io, runs, layout)?;
            }
            // Long inputs have stretches that no other input interrupts.
            if self.heads[self.first] >= self.others {
                self.find_first();
            }
            let key = self.heads[self.first];
            if key == EXHAUSTED {
                return Ok(None);
            }
            if key >= self.block_end {
                self.block_end = layout.next_marker(key);
                self.barrier = self.cursors.len();
            }
            if self.take(key, layout) {
                return Ok(Some(key));
            }
        }
    }

    /// Finds the newest input with the smallest head, and the smallest head of the others.
    fn find_first(&mut self) {
        (self.first, self.others) = (0, EXHAUSTED);
        let mut least = self.heads[0];
        for (input, &head) in self.heads.iter().enumerate().skip(1) {
            if head < least {
                (self.first, self.others, least) = (input, least, head);
            } else {
                self.others = self.others.min(head);
            }
        }
    }

    /// Joins the entries of a key; `false` if all of them are void.
    #[inline(always)]
    fn take(&mut self, key: u32, layout: &Layout) -> bool {
        self.is_marker = key + layout.slots == self.block_end;
        let mut found = self.take_from(self.first, false, layout);
        if self.others == key {
            for input in self.first + 1..self.heads.len() {
                if self.heads[input] == key {
                    found |= self.take_from(input, found, layout);
                }
            }
            self.others = 0;
        }
        found
    }

    /// Joins the entry at the head of an input to what was `found` of its key; `false` if it is void.
    #[inline(always)]
    fn take_from(&mut self, input: usize, found: bool, layout: &Layout) -> bool {
        let cursor = &mut self.cursors[input];
        let counts = input <= self.barrier;
        if counts {
            let bitmap = &cursor.bytes[cursor.at + KEY_BYTES..cursor.at + layout.stride];
            if found {
                self.bitmap.iter_mut().zip(bitmap).for_each(|(into, from)| *into |= from);
            } else {
                copy_short(&mut self.bitmap, bitmap);
            }
            if self.is_marker {
                self.barrier = input;
            }
        }
        cursor.at += layout.stride;
        self.heads[input] = cursor.head();
        self.dry |= cursor.at == cursor.end;
        counts
    }

    /// Reads the next page of every input that has none left in RAM.
    #[cold]
    fn load<N: Nand>(&mut self, io: &mut Store<N>, runs: &[Run], layout: &Layout) -> Result<()> {
        for (cursor, head) in self.cursors.iter_mut().zip(&mut self.heads) {
            if !cursor.is_dry(runs) {
                continue;
            }
            let (run, page) = cursor.source.as_mut().expect("only a run can be dry");
            io.read(runs[*run].places[*page], &mut cursor.bytes, self.cause)?;
            *page += 1;
            (cursor.at, cursor.end) = Entries::span(&cursor.bytes, layout);
            *head = cursor.head();
        }
        (self.dry, self.others) = (false, 0);
        Ok(())
    }
}

/// A merge in progress: a range of the runs, and maybe the frozen buffer, become one run.
#[derive(Clone, Debug)]
pub(super) struct Merge {
    /// The inputs among the runs of the structure.
    pub(super) inputs: Range<usize>,
    /// Whether the frozen buffer is the newest input.
    pub(super) flushes: bool,
    merged: Merged,
    /// No older run remains: markers have nothing to void.
    drops_markers: bool,
    /// Taken from the inputs, not yet in the output.
    pending: Option<u32>,
    pub(super) writer: RunWriter,
}

impl Merge {
    pub(super) fn new(
        inputs: Range<usize>,
        flushes: bool,
        merged: Merged,
        drops_markers: bool,
        writer: RunWriter,
    ) -> Self {
        Self { inputs, flushes, merged, drops_markers, pending: None, writer }
    }

    /// Produces and appends one page; `true` if the output is complete.
    pub(super) fn step<N: Nand>(&mut self, io: &mut Store<N>, runs: &[Run], layout: &Layout) -> Result<bool> {
        let exhausted = self.fill_page(io, runs, layout)?;
        self.writer.append(io, exhausted, layout)
    }

    /// Fills the page in hand; `true` if no entry is left. One entry is looked ahead, so that a last page that is full
    /// is known to be the last.
    fn fill_page<N: Nand>(&mut self, io: &mut Store<N>, runs: &[Run], layout: &Layout) -> Result<bool> {
        loop {
            if self.pending.is_none() {
                self.pending = self.merged.next(io, runs, layout)?;
            }
            let Some(key) = self.pending else { return Ok(true) };
            if self.drops_markers && self.merged.is_marker {
                self.pending = None;
                continue;
            }
            if self.writer.is_page_full(layout) {
                return Ok(false);
            }
            self.writer.push(key, &self.merged.bitmap, layout);
            self.pending = None;
        }
    }
}
