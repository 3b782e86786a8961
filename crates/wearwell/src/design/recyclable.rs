//! Recyclable SSD (LX): a write revives a dead page of equal content, which needs no program.

use super::{ContentParts, DesignDescription, MappingPart, Parts, Persistence, RecoveryBlockScan};
use crate::content::recycle::RecycleOptions;
use crate::gc::GcOptions;
use crate::validity::ValidityStoreKind;

/// Name and description of the design of the Recyclable SSD.
pub(super) const DESIGN: DesignDescription = DesignDescription {
    name: "recyclable",
    source: "Zhou, Hu, Huang, Zhao, LX-SSD: Enhancing the Lifespan of NAND Flash-based Memory via Recycling Invalid Pages",
    model_scope: "log-like mapping table, access table, recycle probability, fingerprint store (LRU, PROB, PROB with fast loading, unbounded), recycling-aware GC",
    model_limits: "fingerprints of overwritten pages are at hand without a spare-area read, as in the paper; a battery keeps map, history and access counts",
};

/// Recycling as a part of a design: its options, and whether hits in the fingerprint store are verified.
#[derive(Clone, PartialEq, Debug)]
pub struct RecyclingPart {
    /// Options of recycling: size and policy of the fingerprint store of dead pages, and the recycle probability.
    pub options: RecycleOptions,
    /// Whether a write reads the dead page that was found and compares its content before it revives the page. The read
    /// is counted under the cause `content`. The LX-SSD paper trusts MD5, but equal 64-bit fingerprints do not prove
    /// equal bytes on a device with real data.
    pub must_verify_hits: bool,
}

/// Returns the design of the Recyclable SSD (LX-SSD paper): the whole L2P table in battery-backed RAM, and recycling (a
/// write revives a dead page of equal content). `gc.policy` chooses greedy or recycling-aware GC.
pub fn recyclable(gc: GcOptions, design: RecyclingPart) -> Parts {
    Parts {
        mapping: MappingPart::Flat,
        validity: ValidityStoreKind::Ram,
        content: ContentParts { recycle: Some(design), ..ContentParts::default() },
        gc,
        persistence: Persistence::BatteryRam,
        recovery_block_scan: RecoveryBlockScan::OobScan,
    }
}
