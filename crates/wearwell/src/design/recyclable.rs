//! Recyclable SSD (LX): dead pages whose content is written again become valid again.

use super::{BlockSurvey, ContentParts, Design, MappingPart, Parts, Persistence};
use crate::content::recycle::RecycleOptions;
use crate::gc::GcOptions;
use crate::validity::ValidityPart;

pub(super) const DESIGN: Design = Design {
    name: "recyclable",
    source: "Zhou, Hu, Huang, Zhao, LX-SSD: Enhancing the Lifespan of NAND Flash-based Memory via Recycling Invalid Pages",
    modelled: "log-like mapping table, access table, recycle probability, fingerprint store (LRU, PROB, PROB with fast loading, unbounded), recycling-aware GC",
    not_modelled: "fingerprints of overwritten pages are at hand without a spare-area read, as in the paper; a battery keeps map, history and access counts",
};

/// Options of [`recyclable`].
#[derive(Clone, PartialEq, Debug)]
pub struct RecycleDesign {
    /// Fingerprint store and probability.
    pub options: RecycleOptions,
    /// Read and compare the dead page before it is revived (charged as a content read). The paper trusts MD5; a
    /// device with real bytes and 64-bit fingerprints must not.
    pub verify_on_hit: bool,
}

/// Flat map in battery-backed RAM with the recycling stage; use `gc.policy` to choose greedy or RC-GC.
pub fn recyclable(gc: GcOptions, design: RecycleDesign) -> Parts {
    Parts {
        mapping: MappingPart::Flat,
        validity: ValidityPart::Ram,
        content: ContentParts { recycle: Some(design), ..ContentParts::default() },
        gc,
        persistence: Persistence::BatteryRam,
        survey: BlockSurvey::OobScan,
    }
}
