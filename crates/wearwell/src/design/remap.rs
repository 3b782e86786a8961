//! Remap-SSD (RM): pages are remapped instead of copied, and remaps are durable.

use super::{
    ContentParts, DesignDescription, MappingPart, Parts, Persistence, RecoveryBlockScan, SharingOptions,
};
use crate::gc::GcOptions;
use crate::sharing::reverse_map::ReverseMapKind;
use crate::validity::ValidityStoreKind;

/// Name and description of the design of Remap-SSD.
pub(super) const DESIGN: DesignDescription = DesignDescription {
    name: "remap",
    source: "Zhou, Wu, Hu, Xiao, Zhou, Remap-SSD: Safely and Efficiently Exploiting SSD Address Remapping to Eliminate Duplicate Writes, FAST 2021",
    model_scope: "remap primitive (copy and relocate), reference counts, bitmap of remapped pages, entries with torn bits (16 bytes, or 24 with atomic commands), NVRAM segments by superblock with active and passive collection, watermark and demotion, recovery by head and tail pages or by the OOB of every page, deduplication as a client; FLog, NLog, Opt and NoRemap by exchanging the reverse map",
    model_limits: "deduplication in the background; L2P, counts and bitmap are held in RAM in full and rebuilt after a power loss",
};

impl SharingOptions {
    /// Returns the persistence (means to survive a power loss) with which shared pages stay shared. It depends on where
    /// the reverse map (record of the referrers of shared pages) is stored.
    pub(super) fn default_persistence(self) -> Persistence {
        match self.reverse_map {
            ReverseMapKind::Ideal => Persistence::BatteryRam,
            ReverseMapKind::OobOnly => Persistence::OobScan,
            ReverseMapKind::Segments { .. }
            | ReverseMapKind::NvramLog { .. }
            | ReverseMapKind::FlashLog { .. } => Persistence::DurableReverseMap,
        }
    }
}

/// Returns the design of Remap-SSD: the whole L2P table in RAM, and pages that are remapped (shared) instead of copied.
/// Data survives power loss in flash and NVRAM, unless the reverse map (referrers of shared pages) itself needs a
/// battery.
pub fn remap(gc: GcOptions, sharing: SharingOptions) -> Parts {
    Parts {
        mapping: MappingPart::Flat,
        validity: ValidityStoreKind::Ram,
        content: ContentParts { sharing: Some(sharing), ..ContentParts::default() },
        gc,
        persistence: sharing.default_persistence(),
        recovery_block_scan: RecoveryBlockScan::OobScan,
    }
}
