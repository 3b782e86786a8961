//! Sections of the configuration that describe content designs: what is absent follows the papers, scaled to the
//! device.

use serde::{Deserialize, Serialize};
use wearwell::content::dedup::DedupOptions;
use wearwell::design::SharingDesign;
use wearwell::nand::Geometry;
use wearwell::refs::RefsPart;
use wearwell::reverse_map::{ReverseMapPart, SEGMENT_BYTES};

/// NVRAM of Remap-SSD's standard configuration, as a share of the flash: 80 MiB beside 36 GiB.
const NVRAM_SHARE: f64 = 80.0 / (36.0 * 1024.0);

/// Reverse maps by the paper's schemes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ReverseMapName {
    /// NVRAM segments grouped by superblock: Remap-SSD.
    #[default]
    Segments,
    /// One log in NVRAM: `NLog`.
    NvramLog,
    /// One log on flash: `FLog`.
    FlashLog,
    /// Unlimited and free: `Opt`.
    Ideal,
    /// No remaps: `NoRemap`.
    None,
}

/// The remap design.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RemapConfig {
    /// Who refers to a page.
    pub reverse_map: ReverseMapName,
    /// Size of the NVRAM or of the log on flash, MiB. Absent: the paper's ratio of 80 MiB to 36 GiB.
    pub size_mib: Option<f64>,
    /// Bytes of an NVRAM segment.
    pub segment_bytes: u32,
    /// Deduplicate host writes.
    pub dedup: bool,
    /// Entries of the content index; absent = one for every stored page.
    pub index_entries: Option<u32>,
    /// Read and compare before binding.
    pub verify_on_hit: bool,
    /// Keep counts only of shared pages instead of four bits per page.
    pub sparse_counts: bool,
}

impl Default for RemapConfig {
    fn default() -> Self {
        Self {
            reverse_map: ReverseMapName::default(),
            size_mib: None,
            segment_bytes: SEGMENT_BYTES,
            dedup: true,
            index_entries: None,
            verify_on_hit: false,
            sparse_counts: false,
        }
    }
}

impl RemapConfig {
    /// The parts for a device.
    pub fn sharing(&self, geometry: &Geometry) -> SharingDesign {
        let flash_bytes = geometry.pages() as f64 * geometry.page_bytes as f64;
        let bytes = self.size_mib.map_or(flash_bytes * NVRAM_SHARE, |mib| mib * 1024.0 * 1024.0) as u64;
        let nvram_bytes = bytes / self.segment_bytes.max(1) as u64 * self.segment_bytes.max(1) as u64;
        let reverse_map = match self.reverse_map {
            ReverseMapName::Segments => ReverseMapPart::Segments { nvram_bytes, segment_bytes: self.segment_bytes },
            ReverseMapName::NvramLog => ReverseMapPart::NvramLog { nvram_bytes },
            ReverseMapName::FlashLog => ReverseMapPart::FlashLog { log_bytes: bytes },
            ReverseMapName::Ideal => ReverseMapPart::Ideal,
            ReverseMapName::None => ReverseMapPart::OobOnly,
        };
        let dedup = DedupOptions { capacity_entries: self.index_entries, verify_on_hit: self.verify_on_hit };
        SharingDesign {
            reverse_map,
            refs: if self.sparse_counts { RefsPart::Sparse } else { RefsPart::Dense },
            dedup: self.dedup.then_some(dedup),
        }
    }
}
