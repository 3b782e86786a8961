//! Takes snapshots of a volume, by remaps or by copying (Remap-SSD, FAST 2021, section 3.2).
//!
//! Modelled: a volume is filled. Then, in a phase for each snapshot, the whole volume is copied to a separate range,
//! and single pages of the volume are overwritten, popular ones more often (zipf). With remaps a snapshot is
//! copy-on-write inside the drive: no data moves until the overwrites. Without remaps the host reads and writes the
//! whole volume. A host with its own copy-on-write layer would write less than that, and more than with remaps.

use rand_xoshiro::Xoshiro256PlusPlus;
use wearwell::address::RemapMode;

use super::script::{CopyMethod, RequestScript};
use super::spec_values::SpecValues;
use super::{HostModel, REMAP_KEY};
use crate::workload::draw::Zipf;
use crate::workload::permutation::Permutation;
use crate::workload::spec_grammar::{SpecError, SpecKey, SpecKind};

/// Specification kind of the host model `snapshot`: its name, description and keys.
pub(super) const SPEC_KIND: SpecKind = SpecKind {
    name: "snapshot",
    meaning: "a volume is copied whole, then overwritten here and there, in phases",
    keys: &[
        SpecKey { name: "pages", default: "16384", meaning: "of the volume, 1 to 16777216" },
        SpecKey { name: "snapshots", default: "4", meaning: "0 to 1000" },
        SpecKey {
            name: "overwrites",
            default: "8192",
            meaning: "single pages after each snapshot, 0 to 1e9",
        },
        SpecKey { name: "theta", default: "0.99", meaning: "zipf exponent of the overwrites, 0 to 2" },
        REMAP_KEY,
    ],
};

/// Generator of the host model `snapshot`: fills a volume, and copies it repeatedly between overwrites.
#[derive(Debug)]
pub(super) struct VolumeSnapshots {
    /// Random number generator of the host model.
    random: Xoshiro256PlusPlus,
    /// Number of pages in the volume of which snapshots are taken.
    volume_pages: u64,
    /// Number of snapshots to take in all.
    snapshot_count: u64,
    /// Number of page overwrites after each snapshot.
    overwrites_per_snapshot: u64,
    /// Popularity of the pages for overwrites, by rank.
    page_rank_distribution: Zipf,
    /// Page for each rank of popularity, so that popular pages are scattered over the volume.
    page_permutation: Permutation,
    /// Whether the volume is copied by remap requests or by reads and writes.
    copy_method: CopyMethod,
    /// Whether the first phase, which fills the volume, is over.
    is_volume_filled: bool,
    /// Number of snapshots taken so far.
    snapshots_taken: u64,
    /// Number of overwrites left until the next snapshot.
    overwrites_left: u64,
}

impl VolumeSnapshots {
    /// Creates the generator from the values of its specification's keys.
    pub(super) fn new(keys: &SpecValues, random: Xoshiro256PlusPlus) -> Result<Self, SpecError> {
        let pages = keys.integer_of_key("pages", 1..=1 << 24)?;
        Ok(Self {
            random,
            volume_pages: pages,
            snapshot_count: keys.integer_of_key("snapshots", 0..=1000)?,
            overwrites_per_snapshot: keys.integer_of_key("overwrites", 0..=1_000_000_000)?,
            page_rank_distribution: Zipf::new(pages, keys.number_of_key("theta", 0.0..=2.0)?),
            page_permutation: Permutation::new(pages, keys.integer_of_key("seed", 0..=u64::MAX)?),
            copy_method: if keys.is_key_on("remap")? {
                CopyMethod::Remapped
            } else {
                CopyMethod::ReadAndWritten
            },
            is_volume_filled: false,
            snapshots_taken: 0,
            overwrites_left: 0,
        })
    }
}

impl HostModel for VolumeSnapshots {
    fn plan_next_requests(&mut self, script: &mut RequestScript) {
        if !std::mem::replace(&mut self.is_volume_filled, true) {
            script.plan_write(0, self.volume_pages);
        } else if self.overwrites_left > 0 {
            self.overwrites_left -= 1;
            let rank = self.page_rank_distribution.draw(&mut self.random) - 1;
            script.plan_write(self.page_permutation.apply(rank), 1);
        } else if self.snapshots_taken < self.snapshot_count {
            self.snapshots_taken += 1;
            self.overwrites_left = self.overwrites_per_snapshot;
            script.plan_phase_mark();
            script.plan_copy(
                self.snapshots_taken * self.volume_pages,
                0,
                self.volume_pages,
                RemapMode::Copy,
                self.copy_method,
            );
        }
    }
}
