//! A log of programs and erases, for tests: two designs behave equally if their logs are equal.

use super::{FaultInjectable, Nand, NandError, Oob, PageWord};
use crate::address::{BlockId, Ppn};
use crate::data::Content;

/// A program or erase in the log that [`RecordingNand`] keeps of a flash medium.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RecordedOp {
    /// Program of the page with this PPN; the second field is the owner (LPN or metadata page number) in its OOB.
    Program(Ppn, u32),
    /// Erase of the block with this number.
    Erase(BlockId),
}

/// Wrapper around a flash medium that keeps a log of its programs and erases.
#[derive(Clone, Debug)]
pub struct RecordingNand<N> {
    /// The wrapped flash medium.
    inner: N,
    /// Programs and erases of the medium since its creation, in order.
    log: Vec<RecordedOp>,
}

impl<N: Nand> RecordingNand<N> {
    /// Wraps the flash medium `inner`, with an empty log of operations.
    pub fn new(inner: N) -> Self {
        Self { inner, log: Vec::new() }
    }

    /// Returns the programs and erases of the medium so far, in order.
    pub fn recorded_ops(&self) -> &[RecordedOp] {
        &self.log
    }

    /// Returns the wrapped flash medium and drops the log of operations.
    pub fn into_inner(self) -> N {
        self.inner
    }
}

impl<N: Nand> Nand for RecordingNand<N> {
    delegate_queries!(self => self.inner);

    fn program(&mut self, ppn: Ppn, oob: Oob, content: Content<'_>) -> Result<(), NandError> {
        self.log.push(RecordedOp::Program(ppn, oob.owner));
        self.inner.program(ppn, oob, content)
    }
    fn program_changed_page(
        &mut self,
        ppn: Ppn,
        oob: Oob,
        base: Ppn,
        words: &[PageWord],
    ) -> Result<(), NandError> {
        self.log.push(RecordedOp::Program(ppn, oob.owner));
        self.inner.program_changed_page(ppn, oob, base, words)
    }
    fn program_lost_page(&mut self, ppn: Ppn, oob: Oob, spare: &[u8]) -> Result<(), NandError> {
        self.log.push(RecordedOp::Program(ppn, oob.owner));
        self.inner.program_lost_page(ppn, oob, spare)
    }
    fn read(&mut self, ppn: Ppn, into: &mut [u8]) -> Result<Oob, NandError> {
        self.inner.read(ppn, into)
    }
    fn read_spare(&mut self, ppn: Ppn, into: &mut [u8]) -> Result<Oob, NandError> {
        self.inner.read_spare(ppn, into)
    }
    fn read_words(&mut self, ppn: Ppn, words: &mut [PageWord]) -> Result<(), NandError> {
        self.inner.read_words(ppn, words)
    }
    fn store_nvram_word(&mut self, index: usize, word: u64) -> Result<(), NandError> {
        self.inner.store_nvram_word(index, word)
    }
    fn probe_page(&mut self, ppn: Ppn) -> Result<Option<Oob>, NandError> {
        self.inner.probe_page(ppn)
    }
    fn erase(&mut self, block: BlockId) -> Result<(), NandError> {
        self.log.push(RecordedOp::Erase(block));
        self.inner.erase(block)
    }
}

impl<N: FaultInjectable> FaultInjectable for RecordingNand<N> {
    fn tear_program(&mut self, ppn: Ppn) {
        self.inner.tear_program(ppn);
    }
    fn tear_erase(&mut self, block: BlockId) {
        self.inner.tear_erase(block);
    }
    fn make_uncorrectable(&mut self, ppn: Ppn) {
        self.inner.make_uncorrectable(ppn);
    }
}
