//! Loss of power at a chosen flash operation, for tests of recovery.
//!
//! Counts programs, erases and 8-byte stores of NVRAM. At a given operation the chosen outcome determines what the
//! flash holds. From then on every operation returns [`NandError::PowerLost`] until [`PowerCutNand::restore_power`].
//! Running a scenario with a cut at operation 0, 1, 2, ... visits every state that a loss of power can leave.

use super::{AnyNand, FaultInjectable, Nand, NandError, Oob, PageDataWord};
use crate::address::{BlockId, Ppn};
use crate::data::Content;

/// What the operation that a power cut interrupted left on the flash.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CutOutcome {
    /// The interrupted operation had no effect.
    NoEffect,
    /// The interrupted program left its page unreadable, or the interrupted erase left its block unusable until it is
    /// erased again.
    Torn,
    /// The interrupted operation was completed, but the error [`NandError::PowerLost`] was returned.
    CompletedUnacknowledged,
}

impl CutOutcome {
    /// All outcomes of an operation that a power cut interrupts.
    pub const ALL: [CutOutcome; 3] =
        [CutOutcome::NoEffect, CutOutcome::Torn, CutOutcome::CompletedUnacknowledged];
}

/// Wrapper around a flash medium that cuts power at a chosen program, erase or NVRAM store.
#[derive(Clone, Debug)]
pub struct PowerCutNand {
    /// The wrapped flash medium.
    wrapped_nand: AnyNand,
    /// Number, counted from 0, of the program, erase or NVRAM store at which power is cut; `None` for never.
    cut_at_operation: Option<u64>,
    /// What the operation that the power cut interrupts leaves on the flash.
    power_cut_outcome: CutOutcome,
    /// Number of programs, erases and NVRAM stores, at which power can be cut, since power was last restored, or since
    /// creation.
    cuttable_operation_count: u64,
    /// Whether power was cut and not yet restored, so that every operation fails.
    has_lost_power: bool,
}

impl PowerCutNand {
    /// Wraps the flash medium `wrapped_nand`. Power is cut at the program, erase or NVRAM store with number
    /// `cut_at_operation`, counted from 0. With `None` power is never cut, and operations are only counted.
    pub fn new(
        wrapped_nand: impl Into<AnyNand>,
        cut_at_operation: Option<u64>,
        power_cut_outcome: CutOutcome,
    ) -> Self {
        Self {
            wrapped_nand: wrapped_nand.into(),
            cut_at_operation,
            power_cut_outcome,
            cuttable_operation_count: 0,
            has_lost_power: false,
        }
    }

    /// Returns the number of programs, erases and NVRAM stores since power was last restored, or since creation.
    pub fn cuttable_operations_since_power_restore(&self) -> u64 {
        self.cuttable_operation_count
    }

    /// Whether power is lost at present, so that every operation fails.
    pub fn is_power_lost(&self) -> bool {
        self.has_lost_power
    }

    /// Schedules a power cut: `operations` further programs, erases and NVRAM stores succeed, and the one after them is
    /// interrupted with this outcome.
    pub fn cut_after(&mut self, operations: u64, outcome: CutOutcome) {
        self.cut_at_operation = Some(self.cuttable_operation_count.saturating_add(operations));
        self.power_cut_outcome = outcome;
    }

    /// Cuts power at once, between two flash operations.
    pub fn cut_now(&mut self) {
        self.has_lost_power = true;
    }

    /// Restores power and counts operations from 0 again. The next cut is at the program, erase or NVRAM store with
    /// number `cut_at`; never if that is `None`.
    pub fn restore_power(&mut self, cut_at: Option<u64>) {
        self.has_lost_power = false;
        self.cuttable_operation_count = 0;
        self.cut_at_operation = cut_at;
    }

    /// Returns a reference to the wrapped flash medium, for queries that only its type offers.
    pub fn inner(&self) -> &AnyNand {
        &self.wrapped_nand
    }

    /// Returns the wrapped flash medium.
    pub fn into_inner(self) -> AnyNand {
        self.wrapped_nand
    }

    /// Counts a program, erase or NVRAM store. Returns whether power is cut at this operation.
    fn count_and_check_cut(&mut self) -> Result<bool, NandError> {
        if self.has_lost_power {
            return Err(NandError::PowerLost);
        }
        self.has_lost_power = self.cut_at_operation == Some(self.cuttable_operation_count);
        self.cuttable_operation_count += 1;
        Ok(self.has_lost_power)
    }

    /// Executes `program`, which programs the page `ppn`. If power is cut at this program, produces the chosen outcome
    /// instead.
    fn program_or_cut(
        &mut self,
        ppn: Ppn,
        program: impl FnOnce(&mut AnyNand) -> Result<(), NandError>,
    ) -> Result<(), NandError> {
        if !self.count_and_check_cut()? {
            return program(&mut self.wrapped_nand);
        }
        match self.power_cut_outcome {
            CutOutcome::NoEffect => {}
            CutOutcome::Torn => self.wrapped_nand.tear_program(ppn),
            CutOutcome::CompletedUnacknowledged => program(&mut self.wrapped_nand)?,
        }
        Err(NandError::PowerLost)
    }

    /// Returns the error [`NandError::PowerLost`] while power is lost.
    fn require_power(&self) -> Result<(), NandError> {
        if self.has_lost_power { Err(NandError::PowerLost) } else { Ok(()) }
    }
}

impl Nand for PowerCutNand {
    delegate_queries!(self => self.wrapped_nand);

    fn program(&mut self, ppn: Ppn, oob: Oob, content: Content<'_>) -> Result<(), NandError> {
        self.program_or_cut(ppn, |inner| inner.program(ppn, oob, content))
    }

    fn program_changed_page(
        &mut self,
        ppn: Ppn,
        oob: Oob,
        base: Ppn,
        words: &[PageDataWord],
    ) -> Result<(), NandError> {
        self.program_or_cut(ppn, |inner| inner.program_changed_page(ppn, oob, base, words))
    }

    fn program_page_marked_lost(&mut self, ppn: Ppn, oob: Oob, spare: &[u8]) -> Result<(), NandError> {
        self.program_or_cut(ppn, |inner| inner.program_page_marked_lost(ppn, oob, spare))
    }

    fn read(&mut self, ppn: Ppn, into: &mut [u8]) -> Result<Oob, NandError> {
        self.require_power()?;
        self.wrapped_nand.read(ppn, into)
    }

    fn read_spare(&mut self, ppn: Ppn, into: &mut [u8]) -> Result<Oob, NandError> {
        self.require_power()?;
        self.wrapped_nand.read_spare(ppn, into)
    }

    fn read_words(&mut self, ppn: Ppn, words: &mut [PageDataWord]) -> Result<(), NandError> {
        self.require_power()?;
        self.wrapped_nand.read_words(ppn, words)
    }

    /// Stores 8 bytes of NVRAM atomically. An interrupted store has no effect, also with [`CutOutcome::Torn`].
    fn store_nvram_word(&mut self, index: usize, word: u64) -> Result<(), NandError> {
        if !self.count_and_check_cut()? {
            return self.wrapped_nand.store_nvram_word(index, word);
        }
        if self.power_cut_outcome == CutOutcome::CompletedUnacknowledged {
            self.wrapped_nand.store_nvram_word(index, word)?;
        }
        Err(NandError::PowerLost)
    }

    fn probe_page(&mut self, ppn: Ppn) -> Result<Option<Oob>, NandError> {
        self.require_power()?;
        self.wrapped_nand.probe_page(ppn)
    }

    fn erase(&mut self, block: BlockId) -> Result<(), NandError> {
        if !self.count_and_check_cut()? {
            return self.wrapped_nand.erase(block);
        }
        match self.power_cut_outcome {
            CutOutcome::NoEffect => {}
            CutOutcome::Torn => self.wrapped_nand.tear_erase(block),
            CutOutcome::CompletedUnacknowledged => self.wrapped_nand.erase(block)?,
        }
        Err(NandError::PowerLost)
    }
}

delegate_injected_faults!(PowerCutNand: wrapped_nand);
