//! The device of a run: the layout of its flash, its capacity, and its thresholds.

use wearwell::gc::GcOptions;
use wearwell::nand::{FlashTiming, Geometry};

/// A device as a run uses it, with every absent value filled in.
#[derive(Clone, PartialEq, Debug)]
pub struct ResolvedDevice {
    /// Name of the preset that the device is based on.
    pub preset_name: String,
    /// Layout of the flash: channels, dies, planes, blocks and pages.
    pub geometry: Geometry,
    /// Durations of flash operations (read, program, erase), and the transfer rate of a channel.
    pub flash_timing: FlashTiming,
    /// Rated program/erase cycles of a block.
    pub endurance_cycles: u32,
    /// Number of exported pages.
    pub logical_pages: u32,
    /// Blocks of each plane that count neither as exported nor as over-provisioning: those that GC keeps free, the
    /// unwritten part of the open blocks, and the expected number of factory-bad blocks. May be a fraction.
    pub reserve_blocks_per_plane: f64,
    /// Whether a device that is sized to its input has more blocks than the input and the share of over-provisioning
    /// need, because GC would have too few spare blocks otherwise. False if the number of exported pages is set, and for
    /// the smallest device that an input gets (48 blocks per plane besides the reserve).
    pub is_enlarged_for_gc: bool,
    /// Options of GC, with its thresholds in blocks.
    pub gc_options: GcOptions,
}

impl ResolvedDevice {
    /// Returns the number of physical pages without the reserve blocks, that is the exported pages and the
    /// over-provisioning.
    pub fn exported_and_spare_pages(&self) -> u64 {
        self.geometry
            .pages()
            .saturating_sub(reserve_page_count(&self.geometry, self.reserve_blocks_per_plane))
    }
}

/// Returns the number of pages in the reserve blocks of all planes.
pub(crate) fn reserve_page_count(geometry: &Geometry, reserve_blocks: f64) -> u64 {
    let per_plane = reserve_blocks * f64::from(geometry.pages_per_block);
    per_plane as u64 * u64::from(geometry.planes())
}
