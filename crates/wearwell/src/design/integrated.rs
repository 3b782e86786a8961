//! Integrated lifetime management (IL): deduplication, compression and throttling, controlled by one manager.

use super::{
    CompressionOptions, ContentParts, DesignDescription, MappingPart, Parts, Persistence, RecoveryBlockScan,
    SharingOptions,
};
use crate::content::dedup::DedupOptions;
use crate::gc::GcOptions;
use crate::sharing::counts::ReferenceCountForm;
use crate::sharing::reverse_map::ReverseMapKind;
use crate::validity::ValidityStoreKind;

/// Name and description of the design of integrated lifetime management.
pub(super) const DESIGN: DesignDescription = DesignDescription {
    name: "integrated",
    source: "Lee, Kim, Park, Kim, An Integrated Approach for Managing the Lifetime of Flash-Based SSDs, DATE 2013",
    model_scope: "deduplication, compression in chunks of four pages with partial liveness, throttling by a token bucket, epochs, predictors and the choice of schemes per epoch",
    model_limits: "persistence, which the paper leaves open: a battery keeps map, counts, directory and chunk buffer; reads cost what they cost, though the paper leaves them out",
};

/// Returns the design of the integrated-lifetime paper: the whole L2P table in battery-backed RAM, with deduplication
/// and compression if they are requested. Lifetime management ([`crate::lifetime`]) decides at run time which of them
/// are on.
pub fn integrated(gc: GcOptions, dedup: Option<DedupOptions>, compresses: bool) -> Parts {
    let sharing = dedup.map(|dedup| SharingOptions {
        reverse_map: ReverseMapKind::Ideal,
        reference_count_form: ReferenceCountForm::Sparse,
        dedup: Some(dedup),
        has_atomic_remap_commands: false,
    });
    let chunks = compresses.then(CompressionOptions::default);
    Parts {
        mapping: MappingPart::Flat,
        validity: ValidityStoreKind::Ram,
        content: ContentParts { sharing, chunks, ..ContentParts::default() },
        gc,
        persistence: Persistence::BatteryRam,
        recovery_block_scan: RecoveryBlockScan::OobScan,
    }
}
