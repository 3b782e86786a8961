//! Copies a tree of files, by remaps or by reads and writes (Remap-SSD, FAST 2021, section 3.2: file copy, where the
//! number of addresses per page depends on the user).
//!
//! Modelled: files of exponential size are written one after another in a first phase. Then the tree is copied file by
//! file, each copy in a phase of its own, into separate space after the originals. Not modelled: directories, inodes
//! and the allocation of extents.

use rand_xoshiro::Xoshiro256PlusPlus;
use wearwell::address::RemapMode;

use super::files::file_pages;
use super::keys::SpecValues;
use super::script::{CopyMethod, RequestScript};
use super::{Model, REMAP};
use crate::workload::options::{GeneratorKind, SpecError, SpecKey};

pub(super) const KIND: GeneratorKind = GeneratorKind {
    name: "file-copy",
    meaning: "a tree of files is written, then copied whole, in phases",
    keys: &[
        SpecKey { name: "files", default: "500", meaning: "1 to 1e7" },
        SpecKey { name: "mean", default: "32", meaning: "size of a file, pages, 1 to 65536" },
        SpecKey { name: "copies", default: "2", meaning: "of the tree, 0 to 1000" },
        REMAP,
    ],
};

/// Generator of the host model `file-copy`: writes a tree of files, and copies it.
#[derive(Debug)]
pub(super) struct FileCopy {
    /// Size of each file of the tree, pages.
    sizes: Vec<u64>,
    tree_pages: u64,
    copies: u64,
    copying: CopyMethod,
    /// Number of the copy of the file tree that is being written; 0 is the original.
    copy: u64,
    /// Index of the next file of the tree to write or copy.
    file: usize,
    /// First page of the next file, counted from the start of its copy of the tree.
    at: u64,
}

impl FileCopy {
    pub(super) fn new(keys: &SpecValues, mut random: Xoshiro256PlusPlus) -> Result<Self, SpecError> {
        let mean = keys.integer("mean", 1..=65_536)?;
        let files = keys.integer("files", 1..=10_000_000)?;
        let sizes: Vec<u64> = (0..files).map(|_| file_pages(&mut random, mean)).collect();
        Ok(Self {
            tree_pages: sizes.iter().sum(),
            sizes,
            copies: keys.integer("copies", 0..=1000)?,
            copying: if keys.switch("remap")? { CopyMethod::Remapped } else { CopyMethod::ReadAndWritten },
            copy: 0,
            file: 0,
            at: 0,
        })
    }
}

impl Model for FileCopy {
    fn plan_next_steps(&mut self, script: &mut RequestScript) {
        if self.file == self.sizes.len() {
            (self.file, self.at) = (0, 0);
            self.copy += 1;
            if self.copy <= self.copies {
                script.plan_phase_mark();
            }
        }
        if self.copy > self.copies {
            // Marks the model as ended for all further calls.
            self.file = self.sizes.len();
            return;
        }
        let pages = self.sizes[self.file];
        if self.copy == 0 {
            script.plan_write(self.at, pages);
        } else {
            let target = self.copy * self.tree_pages + self.at;
            script.plan_copy(target, self.at, pages, RemapMode::Copy, self.copying);
        }
        self.at += pages;
        self.file += 1;
    }
}
