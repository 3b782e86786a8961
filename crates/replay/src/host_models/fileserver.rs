//! A file server, modelled after filebench's `fileserver`, on a file system that writes in place.
//!
//! Modelled: four in five files exist at the start. A loop writes a whole new file, appends 16 KiB to a file, reads a
//! whole file and deletes a file, in turn, on files chosen uniformly. Sizes are exponential with mean 128 KiB. Files
//! occupy slots at fixed addresses, four times the mean size, and larger files are truncated; a deleted file is
//! trimmed. Not modelled: metadata, directories, the page cache, and the concurrency of filebench's threads.

use rand_xoshiro::Xoshiro256PlusPlus;

use super::HostModel;
use super::files::draw_file_size_pages;
use super::script::RequestScript;
use super::spec_values::SpecValues;
use crate::workload::draw::uniform_below;
use crate::workload::spec_grammar::{SpecError, SpecKey, SpecKind};

/// Specification kind of the host model `fileserver`: its name, description and keys.
pub(super) const SPEC_KIND: SpecKind = SpecKind {
    name: "fileserver",
    meaning: "files are created, appended to, read and deleted in place (filebench's mix)",
    keys: &[
        SpecKey { name: "files", default: "2000", meaning: "slots for files, 1 to 1e7" },
        SpecKey { name: "mean", default: "32", meaning: "size of a file, pages, 1 to 65536" },
        SpecKey { name: "append", default: "4", meaning: "pages of an append, 1 to 65536" },
        SpecKey {
            name: "loops",
            default: "10000",
            meaning: "of one create, append, read and delete each, 0 to 1e9",
        },
    ],
};

/// Generator of the host model `fileserver`: whole-file writes, appends, reads and deletions.
#[derive(Debug)]
pub(super) struct Fileserver {
    /// Random number generator of the load.
    random: Xoshiro256PlusPlus,
    /// Size of the file in each slot (fixed range of pages that holds one file), pages; 0 = no file.
    file_pages_by_slot: Vec<u64>,
    /// Number of pages in a slot (fixed range of pages that holds one file).
    pages_per_slot: u64,
    /// Mean size of a new file, pages.
    mean_file_pages: u64,
    /// Number of pages that an append adds to a file.
    pages_per_append: u64,
    /// Number of files created so far in the initial phase, which precedes the loops of the load.
    initial_files_created: usize,
    /// Number of loops (write, append, read, delete) that are still to run.
    workload_loops_left: u64,
}

impl Fileserver {
    /// Creates the generator from the values of its specification's keys.
    pub(super) fn new(keys: &SpecValues, random: Xoshiro256PlusPlus) -> Result<Self, SpecError> {
        let mean = keys.integer_of_key("mean", 1..=65_536)?;
        Ok(Self {
            random,
            file_pages_by_slot: vec![0; keys.integer_of_key("files", 1..=10_000_000)? as usize],
            pages_per_slot: 4 * mean,
            mean_file_pages: mean,
            pages_per_append: keys.integer_of_key("append", 1..=65_536)?,
            initial_files_created: 0,
            workload_loops_left: keys.integer_of_key("loops", 0..=1_000_000_000)?,
        })
    }

    /// Draws a random slot (fixed range of pages) with a file, or without one if `with_file` is false. After 64
    /// unsuccessful draws any slot is returned.
    fn draw_slot(&mut self, with_file: bool) -> usize {
        let mut slot = 0;
        for _ in 0..64 {
            slot = uniform_below(&mut self.random, self.file_pages_by_slot.len() as u64) as usize;
            if (self.file_pages_by_slot[slot] > 0) == with_file {
                break;
            }
        }
        slot
    }

    /// Creates a file of random size in a slot, and deletes the file that the slot held before.
    fn create_file(&mut self, slot: usize, script: &mut RequestScript) {
        self.delete_file(slot, script);
        let pages = draw_file_size_pages(&mut self.random, self.mean_file_pages);
        self.extend_file(slot, pages, script);
    }

    /// Appends at most `pages` pages to the file of a slot, as many as fit the slot.
    fn extend_file(&mut self, slot: usize, pages: u64, script: &mut RequestScript) {
        let size = self.file_pages_by_slot[slot];
        let pages = pages.min(self.pages_per_slot - size);
        script.plan_write(slot as u64 * self.pages_per_slot + size, pages);
        self.file_pages_by_slot[slot] += pages;
    }

    /// Deletes the file of a slot, and trims its pages.
    fn delete_file(&mut self, slot: usize, script: &mut RequestScript) {
        let pages = std::mem::take(&mut self.file_pages_by_slot[slot]);
        if pages > 0 {
            script.plan_trim(slot as u64 * self.pages_per_slot, pages);
        }
    }
}

impl HostModel for Fileserver {
    fn plan_next_requests(&mut self, script: &mut RequestScript) {
        if self.initial_files_created < self.file_pages_by_slot.len() * 4 / 5 {
            self.create_file(self.initial_files_created, script);
            self.initial_files_created += 1;
            return;
        }
        while script.is_empty() && self.workload_loops_left > 0 {
            self.workload_loops_left -= 1;
            let slot = self.draw_slot(false);
            self.create_file(slot, script);
            let slot = self.draw_slot(true);
            self.extend_file(slot, self.pages_per_append, script);
            let slot = self.draw_slot(true);
            script.plan_read(slot as u64 * self.pages_per_slot, self.file_pages_by_slot[slot]);
            let slot = self.draw_slot(true);
            self.delete_file(slot, script);
        }
    }
}
