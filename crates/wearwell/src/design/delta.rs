//! Delta-FTL (DF): overwrites of write-hot pages are stored as compressed differences.

use super::{
    ContentParts, DeltaOptions, DesignDescription, MappingPart, Parts, Persistence, RecoveryBlockScan,
};
use crate::gc::GcOptions;
use crate::mapping::{DemandPagedMapOptions, JournalOptions};
use crate::validity::ValidityStoreKind;

/// Name and description of the design of Delta-FTL.
pub(super) const DESIGN: DesignDescription = DesignDescription {
    name: "delta",
    source: "Wu, He, Delta-FTL: Improving SSD Lifetime via Exploiting Content Locality, EuroSys 2012",
    model_scope: "dispatch of write-hot read-cold pages by two access counts on an SLRU table, delta pages with a header, temp buffer (one page or several), write-overhead test and bypass, merges (read-hot, write-cold, in GC), collection of delta pages; with a cache size: page table on flash, and a journal of its updates if there is a bound for it",
    model_limits: "the delta table has no copy on flash and no journal, it is rebuilt from delta pages; a capacitor keeps or writes tables and temp buffer; the access counts stand beside the mapping cache, not on its entries",
};

/// Returns the design of Delta-FTL, with the L2P table in RAM that a capacitor keeps. With `cache` the table is on
/// flash, and a capacitor writes dirty entries at power loss.
pub fn delta(gc: GcOptions, delta: DeltaOptions, cache: Option<DemandPagedMapOptions>) -> Parts {
    Parts {
        mapping: cache.map_or(MappingPart::Flat, MappingPart::Cached),
        validity: ValidityStoreKind::Ram,
        content: ContentParts { delta: Some(delta), ..ContentParts::default() },
        gc,
        persistence: if cache.is_some() { Persistence::BatteryFlush } else { Persistence::BatteryRam },
        recovery_block_scan: RecoveryBlockScan::OobScan,
    }
}

/// Returns the design of [`delta()`] with the L2P table on flash and a journal of its changes. A capacitor writes the
/// last page of the journal at power loss.
pub fn delta_with_journal(
    gc: GcOptions,
    delta: DeltaOptions,
    cache: DemandPagedMapOptions,
    journal: JournalOptions,
) -> Parts {
    Parts { mapping: MappingPart::Journalled { cache, journal }, ..self::delta(gc, delta, Some(cache)) }
}
