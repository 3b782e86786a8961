//! Delta-FTL (DF): overwrites of write-hot pages are stored as compressed differences.

use super::{BlockSurvey, ContentParts, DeltaDesign, Design, MappingPart, Parts, Persistence};
use crate::gc::GcOptions;
use crate::mapping::{CachedOptions, JournalOptions};
use crate::validity::ValidityPart;

pub(super) const DESIGN: Design = Design {
    name: "delta",
    source: "Wu, He, Delta-FTL: Improving SSD Lifetime via Exploiting Content Locality, EuroSys 2012",
    modelled: "dispatch of write-hot read-cold pages by two access counts on an SLRU table, delta pages with a header, temp buffer (one page or several), write-overhead test and bypass, merges (read-hot, write-cold, in GC), collection of delta pages; with a cache size: page table on flash, and a journal of its updates if there is a bound for it",
    not_modelled: "the delta table has no copy on flash and no journal, it is rebuilt from delta pages; a capacitor keeps or writes tables and temp buffer; the access counts stand beside the mapping cache, not on its entries",
};

/// Returns the design whose map is in RAM that a capacitor keeps, or with `cache` on flash, with a capacitor that
/// writes dirty entries at power loss.
pub fn delta(gc: GcOptions, delta: DeltaDesign, cache: Option<CachedOptions>) -> Parts {
    Parts {
        mapping: cache.map_or(MappingPart::Flat, MappingPart::Cached),
        validity: ValidityPart::Ram,
        content: ContentParts { delta: Some(delta), ..ContentParts::default() },
        gc,
        persistence: if cache.is_some() { Persistence::BatteryFlush } else { Persistence::BatteryRam },
        survey: BlockSurvey::OobScan,
    }
}

/// Returns [`delta()`] with the map on flash and a journal of map updates. A capacitor writes the last page of the
/// journal at power loss.
pub fn delta_with_journal(
    gc: GcOptions,
    delta: DeltaDesign,
    cache: CachedOptions,
    journal: JournalOptions,
) -> Parts {
    Parts { mapping: MappingPart::Journalled { cache, journal }, ..self::delta(gc, delta, Some(cache)) }
}
