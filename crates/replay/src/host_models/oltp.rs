//! Transaction processing, modelled after filebench's `oltp`.
//!
//! Modelled: the data files are written in a first phase. Then follow rounds of random one-page reads (shadow
//! processes), 100 random one-page writes (database writer) and one sequential write of 256 KiB to a circular log with
//! a flush (log writer). The number of reads per round is our assumption: in filebench it follows from the speed of the
//! drive. Not modelled: pages of 2 KiB (here 4 KiB), and the limits that couple filebench's processes.

use rand_xoshiro::Xoshiro256PlusPlus;

use super::HostModel;
use super::script::RequestScript;
use super::spec_values::SpecValues;
use crate::workload::draw::uniform_below;
use crate::workload::spec_grammar::{SpecError, SpecKey, SpecKind};

/// Specification kind of the host model `oltp`: its name, description and keys.
pub(super) const SPEC_KIND: SpecKind = SpecKind {
    name: "oltp",
    meaning: "random reads and writes of a database and a sequential log (filebench's mix)",
    keys: &[
        SpecKey { name: "pages", default: "65536", meaning: "of the data files, 1 to 4294967295" },
        SpecKey { name: "log", default: "2560", meaning: "pages of the circular log, 64 to 16777216" },
        SpecKey { name: "reads", default: "100", meaning: "random reads per round, 0 to 1e6" },
        SpecKey { name: "writes", default: "100", meaning: "random writes per round, 0 to 1e6" },
        SpecKey { name: "rounds", default: "2000", meaning: "0 to 1e9" },
    ],
};

/// Number of pages of each write to the database's log.
const LOG_WRITE_PAGES: u64 = 64;

/// Generator of the host model `oltp`: transaction processing as in filebench.
#[derive(Debug)]
pub(super) struct Oltp {
    /// Random number generator of the host model.
    random: Xoshiro256PlusPlus,
    /// Number of pages of the data files.
    data_pages: u64,
    /// Length of the database's circular log, in writes of [`LOG_WRITE_PAGES`] pages.
    log_length_writes: u64,
    /// Number of one-page reads in each round (reads, writes, then a log write).
    reads_per_round: u64,
    /// Number of one-page writes in each round (reads, writes, then a log write).
    writes_per_round: u64,
    /// Number of rounds to run in all.
    total_transaction_rounds: u64,
    /// Whether the first phase, which writes the data files, is over.
    has_written_data_files: bool,
    /// Number of rounds (reads, writes, then a log write) that were run so far.
    transaction_rounds_done: u64,
}

impl Oltp {
    /// Creates the generator from the values of its specification's keys.
    pub(super) fn new(keys: &SpecValues, random: Xoshiro256PlusPlus) -> Result<Self, SpecError> {
        Ok(Self {
            random,
            data_pages: keys.integer_of_key("pages", 1..=u64::from(u32::MAX))?,
            log_length_writes: keys.integer_of_key("log", LOG_WRITE_PAGES..=1 << 24)? / LOG_WRITE_PAGES,
            reads_per_round: keys.integer_of_key("reads", 0..=1_000_000)?,
            writes_per_round: keys.integer_of_key("writes", 0..=1_000_000)?,
            total_transaction_rounds: keys.integer_of_key("rounds", 0..=1_000_000_000)?,
            has_written_data_files: false,
            transaction_rounds_done: 0,
        })
    }

    /// Draws a page of the database's data files, which follow the log in the volume.
    fn draw_data_page(&mut self) -> u64 {
        self.log_length_writes * LOG_WRITE_PAGES + uniform_below(&mut self.random, self.data_pages)
    }
}

impl HostModel for Oltp {
    fn plan_next_requests(&mut self, script: &mut RequestScript) {
        if !std::mem::replace(&mut self.has_written_data_files, true) {
            script.plan_write(self.log_length_writes * LOG_WRITE_PAGES, self.data_pages);
            return script.plan_phase_mark();
        }
        if self.transaction_rounds_done == self.total_transaction_rounds {
            return;
        }
        for _ in 0..self.reads_per_round {
            script.plan_read(self.draw_data_page(), 1);
        }
        for _ in 0..self.writes_per_round {
            script.plan_write(self.draw_data_page(), 1);
        }
        script.plan_write(
            self.transaction_rounds_done % self.log_length_writes * LOG_WRITE_PAGES,
            LOG_WRITE_PAGES,
        );
        script.plan_flush();
        self.transaction_rounds_done += 1;
    }
}
