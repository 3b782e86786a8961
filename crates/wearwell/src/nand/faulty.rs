//! Program and erase failures at pseudo-random moments, for tests of failure handling.

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use super::{AnyNand, FaultInjectable, Nand, NandError, Oob, PageDataWord};
use crate::address::{BlockId, Ppn};
use crate::data::Content;

/// Probabilities with which programs and erases of a medium fail, and the maximum number of failures.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct FaultProbabilities {
    /// Probability that a page program fails. The page is then unreadable, and cannot be programmed again.
    pub program_failure_probability: f64,
    /// Probability that a block erase fails. The block then keeps its content and has to be retired.
    pub erase_failure_probability: f64,
    /// Maximum number of program and erase failures together, so that a device with limited spare space survives them.
    pub max_failures: u32,
}

/// Wrapper around a flash medium that makes programs and erases fail at random.
#[derive(Clone, Debug)]
pub struct FaultyNand {
    /// Flash medium that executes the operations which do not fail.
    inner: AnyNand,
    /// Probabilities of failures, and the maximum number of failures.
    fault_probabilities: FaultProbabilities,
    /// Number of program and erase failures so far.
    failure_count: u32,
    /// Random generator that draws the failures.
    random: Xoshiro256PlusPlus,
}

impl FaultyNand {
    /// Wraps the flash medium `inner`; its failures follow `fault_probabilities` and are drawn with the random seed
    /// `seed`.
    pub fn new(inner: impl Into<AnyNand>, fault_probabilities: FaultProbabilities, seed: u64) -> Self {
        Self {
            inner: inner.into(),
            fault_probabilities,
            failure_count: 0,
            random: Xoshiro256PlusPlus::seed_from_u64(seed),
        }
    }

    /// Returns the number of program and erase failures so far.
    pub fn failures(&self) -> u32 {
        self.failure_count
    }

    /// Returns a reference to the wrapped flash medium, for queries that only its type offers.
    pub fn inner(&self) -> &AnyNand {
        &self.inner
    }

    /// Returns the wrapped flash medium.
    pub fn into_inner(self) -> AnyNand {
        self.inner
    }

    /// Returns whether the next operation fails, drawn with this probability; `false` after the maximum number of
    /// failures.
    fn draw_failure(&mut self, probability: f64) -> bool {
        let fails = self.failure_count < self.fault_probabilities.max_failures
            && self.random.random::<f64>() < probability;
        self.failure_count += u32::from(fails);
        fails
    }

    /// Executes `program`, which programs the page `ppn`, or makes the program fail at random.
    fn program_or_fail(
        &mut self,
        ppn: Ppn,
        program: impl FnOnce(&mut AnyNand) -> Result<(), NandError>,
    ) -> Result<(), NandError> {
        if self.draw_failure(self.fault_probabilities.program_failure_probability) {
            self.inner.tear_program(ppn);
            return Err(NandError::ProgramFailed(ppn));
        }
        program(&mut self.inner)
    }
}

impl Nand for FaultyNand {
    delegate_queries!(self => self.inner);
    delegate_reads_and_nvram_stores!(self => self.inner);

    fn program(&mut self, ppn: Ppn, oob: Oob, content: Content<'_>) -> Result<(), NandError> {
        self.program_or_fail(ppn, |inner| inner.program(ppn, oob, content))
    }

    fn program_changed_page(
        &mut self,
        ppn: Ppn,
        oob: Oob,
        base: Ppn,
        words: &[PageDataWord],
    ) -> Result<(), NandError> {
        self.program_or_fail(ppn, |inner| inner.program_changed_page(ppn, oob, base, words))
    }

    fn program_page_marked_lost(&mut self, ppn: Ppn, oob: Oob, spare: &[u8]) -> Result<(), NandError> {
        self.program_or_fail(ppn, |inner| inner.program_page_marked_lost(ppn, oob, spare))
    }

    fn erase(&mut self, block: BlockId) -> Result<(), NandError> {
        if self.draw_failure(self.fault_probabilities.erase_failure_probability) {
            return Err(NandError::EraseFailed(block));
        }
        self.inner.erase(block)
    }
}

delegate_injected_faults!(FaultyNand: inner);
