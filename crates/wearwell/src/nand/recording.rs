//! A log of programs and erases, for tests: two designs behave equally if their logs are equal.

use super::{AnyNand, Nand, NandError, Oob, PageDataWord};
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
pub struct RecordingNand {
    /// The wrapped flash medium.
    wrapped_nand: AnyNand,
    /// Programs and erases of the medium since its creation, in order.
    recorded_ops: Vec<RecordedOp>,
}

impl RecordingNand {
    /// Wraps the flash medium `wrapped_nand`, with an empty log of operations.
    pub fn new(wrapped_nand: impl Into<AnyNand>) -> Self {
        Self { wrapped_nand: wrapped_nand.into(), recorded_ops: Vec::new() }
    }

    /// Returns the programs and erases of the medium so far, in order.
    pub fn recorded_ops(&self) -> &[RecordedOp] {
        &self.recorded_ops
    }

    /// Returns the wrapped flash medium and drops the log of operations.
    pub fn into_inner(self) -> AnyNand {
        self.wrapped_nand
    }
}

impl Nand for RecordingNand {
    delegate_queries!(self => self.wrapped_nand);
    delegate_reads_and_nvram_stores!(self => self.wrapped_nand);

    fn program(&mut self, ppn: Ppn, oob: Oob, content: Content<'_>) -> Result<(), NandError> {
        self.recorded_ops.push(RecordedOp::Program(ppn, oob.owner));
        self.wrapped_nand.program(ppn, oob, content)
    }
    fn program_changed_page(
        &mut self,
        ppn: Ppn,
        oob: Oob,
        base: Ppn,
        words: &[PageDataWord],
    ) -> Result<(), NandError> {
        self.recorded_ops.push(RecordedOp::Program(ppn, oob.owner));
        self.wrapped_nand.program_changed_page(ppn, oob, base, words)
    }
    fn program_page_marked_lost(&mut self, ppn: Ppn, oob: Oob, spare: &[u8]) -> Result<(), NandError> {
        self.recorded_ops.push(RecordedOp::Program(ppn, oob.owner));
        self.wrapped_nand.program_page_marked_lost(ppn, oob, spare)
    }
    fn erase(&mut self, block: BlockId) -> Result<(), NandError> {
        self.recorded_ops.push(RecordedOp::Erase(block));
        self.wrapped_nand.erase(block)
    }
}

delegate_injected_faults!(RecordingNand: wrapped_nand);
