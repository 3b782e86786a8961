//! YCSB updates with zipfian popularity on a B-tree that never overwrites pages in place, as `MongoDB`'s `WiredTiger`.
//! Not a log-structured merge tree: the compactions of `RocksDB`, the other YCSB target of Remap-SSD, send different
//! requests.
//!
//! Modelled: records of 1 KB, four to a leaf. An update is appended to a circular journal (four to a page, a flush per
//! journal page) and makes its leaf dirty. A checkpoint writes every dirty leaf once, to free pages in order of
//! address, and frees the old pages. Popular records are scattered over the leaves, because YCSB hashes its keys.
//!
//! Not modelled: interior pages, splits, compression and eviction between checkpoints; also reads, because the cache
//! holds all leaves.

use std::collections::BTreeSet;

use rand_xoshiro::Xoshiro256PlusPlus;

use super::HostModel;
use super::files::for_each_consecutive_run;
use super::script::RequestScript;
use super::spec_values::SpecValues;
use crate::workload::draw::Zipf;
use crate::workload::permutation::Permutation;
use crate::workload::spec_grammar::{SpecError, SpecKey, SpecKind};

/// Specification kind of the host model `ycsb`: its name, description and keys.
pub(super) const SPEC_KIND: SpecKind = SpecKind {
    name: "ycsb",
    meaning: "zipfian updates of 1-KB records in a B-tree that writes dirty leaves elsewhere at checkpoints",
    keys: &[
        SpecKey { name: "records", default: "200000", meaning: "1 to 1e9" },
        SpecKey { name: "updates", default: "400000", meaning: "0 to 1e12" },
        SpecKey { name: "theta", default: "0.99", meaning: "zipf exponent, 0 to 2" },
        SpecKey { name: "checkpoint", default: "20000", meaning: "updates between checkpoints, 1 to 1e9" },
        SpecKey { name: "journal", default: "4096", meaning: "pages of the circular journal, 1 to 16777216" },
    ],
};

/// Number of records in a leaf page of the B-tree, and of updates in a page of the journal.
const RECORDS_PER_PAGE: u64 = 4;

/// Generator of the host model `ycsb`: updates of a B-tree that never overwrites pages in place.
#[derive(Debug)]
pub(super) struct Ycsb {
    /// Random number generator of the host model.
    random: Xoshiro256PlusPlus,
    /// Popularity of the records, by rank.
    record_rank_distribution: Zipf,
    /// Record for each rank of popularity, so that popular records are scattered over the leaves.
    record_permutation: Permutation,
    /// Number of record updates to generate in all.
    total_updates: u64,
    /// Number of record updates between two checkpoints (writes of all dirty leaves).
    updates_per_checkpoint: u64,
    /// Length of the circular journal, pages.
    journal_pages: u64,
    /// Whether the first phase, which writes all leaves, is over.
    has_loaded_records: bool,
    /// Number of record updates generated so far.
    updates_issued: u64,
    /// Page that holds each B-tree leaf, counted from the end of the journal.
    leaf_pages: Vec<u32>,
    /// Numbers of the pages that hold no B-tree leaf at present; page 0 is the first after the journal.
    free_pages: BTreeSet<u32>,
    /// Numbers of the B-tree leaves that were updated since the last checkpoint.
    dirty_leaves: BTreeSet<u32>,
}

impl Ycsb {
    /// Creates the generator from the values of its specification's keys.
    pub(super) fn new(keys: &SpecValues, random: Xoshiro256PlusPlus) -> Result<Self, SpecError> {
        let records = keys.integer_of_key("records", 1..=1_000_000_000)?;
        let leaves = records.div_ceil(RECORDS_PER_PAGE) as u32;
        Ok(Self {
            random,
            record_rank_distribution: Zipf::new(records, keys.number_of_key("theta", 0.0..=2.0)?),
            record_permutation: Permutation::new(records, keys.integer_of_key("seed", 0..=u64::MAX)?),
            total_updates: keys.integer_of_key("updates", 0..=1_000_000_000_000)?,
            updates_per_checkpoint: keys.integer_of_key("checkpoint", 1..=1_000_000_000)?,
            journal_pages: keys.integer_of_key("journal", 1..=1 << 24)?,
            has_loaded_records: false,
            updates_issued: 0,
            leaf_pages: (0..leaves).collect(),
            // Twice as many pages as leaves, because a checkpoint can move all of them.
            free_pages: (leaves..2 * leaves).collect(),
            dirty_leaves: BTreeSet::new(),
        })
    }

    /// Updates a popular record: makes its leaf dirty, and writes the journal page when it is full.
    fn plan_update(&mut self, script: &mut RequestScript) {
        let record = self.record_permutation.apply(self.record_rank_distribution.draw(&mut self.random) - 1);
        self.dirty_leaves.insert((record / RECORDS_PER_PAGE) as u32);
        self.updates_issued += 1;
        if self.updates_issued.is_multiple_of(RECORDS_PER_PAGE) {
            script.plan_write((self.updates_issued / RECORDS_PER_PAGE - 1) % self.journal_pages, 1);
            script.plan_flush();
        }
    }

    /// Performs a checkpoint: writes every dirty leaf to a free page, in order of address, and frees the old pages.
    fn write_dirty_leaves(&mut self, script: &mut RequestScript) {
        let mut freed = Vec::new();
        let mut written = Vec::new();
        for leaf in std::mem::take(&mut self.dirty_leaves) {
            let place = self.free_pages.pop_first().expect("there are as many free places as leaves");
            freed.push(std::mem::replace(&mut self.leaf_pages[leaf as usize], place));
            written.push(place);
        }
        for_each_consecutive_run(&written, |first, pages| {
            script.plan_write(self.journal_pages + first, pages);
        });
        script.plan_flush();
        self.free_pages.extend(freed);
    }
}

impl HostModel for Ycsb {
    fn plan_next_requests(&mut self, script: &mut RequestScript) {
        if !std::mem::replace(&mut self.has_loaded_records, true) {
            script.plan_write(self.journal_pages, self.leaf_pages.len() as u64);
            return script.plan_phase_mark();
        }
        while script.is_empty() && self.updates_issued < self.total_updates {
            self.plan_update(script);
            if self.updates_issued.is_multiple_of(self.updates_per_checkpoint)
                || self.updates_issued == self.total_updates
            {
                self.write_dirty_leaves(script);
            }
        }
    }
}
