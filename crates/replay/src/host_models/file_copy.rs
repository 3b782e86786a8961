//! Copies a tree of files, by remaps or by reads and writes (file copy of Remap-SSD, FAST 2021, section 3.2). There the
//! number of addresses that share a page depends on how often the user copies.
//!
//! Modelled: files with exponentially distributed sizes are written one after another in a first phase. Then the tree
//! is copied file by file, each copy in a phase of its own, into separate space after the originals. Not modelled:
//! directories, inodes and the allocation of extents.

use rand_xoshiro::Xoshiro256PlusPlus;
use wearwell::address::RemapMode;

use super::files::draw_file_size_pages;
use super::script::{CopyMethod, RequestScript};
use super::spec_values::SpecValues;
use super::{HostModel, REMAP_KEY};
use crate::workload::spec_grammar::{SpecError, SpecKey, SpecKind};

/// Specification kind of the host model `file-copy`: its name, description and keys.
pub(super) const SPEC_KIND: SpecKind = SpecKind {
    name: "file-copy",
    meaning: "a tree of files is written, then copied whole, in phases",
    keys: &[
        SpecKey { name: "files", default: "500", meaning: "1 to 1e7" },
        SpecKey { name: "mean", default: "32", meaning: "size of a file, pages, 1 to 65536" },
        SpecKey { name: "copies", default: "2", meaning: "of the tree, 0 to 1000" },
        REMAP_KEY,
    ],
};

/// Generator of the host model `file-copy`: writes a tree of files, and copies it.
#[derive(Debug)]
pub(super) struct FileCopy {
    /// Size of each file of the tree, pages.
    file_page_counts: Vec<u64>,
    /// Total size of the files of the tree, pages.
    file_tree_pages: u64,
    /// Number of copies of the tree to write in all.
    copies_wanted: u64,
    /// Whether files are copied by remap requests or by reads and writes.
    copy_method: CopyMethod,
    /// Number of the copy of the file tree that is being written; 0 is the original.
    current_copy_number: u64,
    /// Index of the next file of the tree to write or copy.
    next_file_index: usize,
    /// First page of the next file, counted from the start of its copy of the tree.
    next_file_start_page: u64,
}

impl FileCopy {
    /// Creates the generator from the values of its specification's keys, and draws the sizes of all files.
    pub(super) fn new(keys: &SpecValues, mut random: Xoshiro256PlusPlus) -> Result<Self, SpecError> {
        let mean = keys.integer_of_key("mean", 1..=65_536)?;
        let files = keys.integer_of_key("files", 1..=10_000_000)?;
        let sizes: Vec<u64> = (0..files).map(|_| draw_file_size_pages(&mut random, mean)).collect();
        Ok(Self {
            file_tree_pages: sizes.iter().sum(),
            file_page_counts: sizes,
            copies_wanted: keys.integer_of_key("copies", 0..=1000)?,
            copy_method: if keys.is_key_on("remap")? {
                CopyMethod::Remapped
            } else {
                CopyMethod::ReadAndWritten
            },
            current_copy_number: 0,
            next_file_index: 0,
            next_file_start_page: 0,
        })
    }
}

impl HostModel for FileCopy {
    fn plan_next_requests(&mut self, script: &mut RequestScript) {
        if self.next_file_index == self.file_page_counts.len() {
            (self.next_file_index, self.next_file_start_page) = (0, 0);
            self.current_copy_number += 1;
            if self.current_copy_number <= self.copies_wanted {
                script.plan_phase_mark();
            }
        }
        if self.current_copy_number > self.copies_wanted {
            // Marks the model as ended for all further calls.
            self.next_file_index = self.file_page_counts.len();
            return;
        }
        let pages = self.file_page_counts[self.next_file_index];
        if self.current_copy_number == 0 {
            script.plan_write(self.next_file_start_page, pages);
        } else {
            let target = self.current_copy_number * self.file_tree_pages + self.next_file_start_page;
            script.plan_copy(target, self.next_file_start_page, pages, RemapMode::Copy, self.copy_method);
        }
        self.next_file_start_page += pages;
        self.next_file_index += 1;
    }
}
