//! wearwell: the five papers in one drive, which loses no acknowledged data with its power and needs no battery.

use super::{
    BlockSurvey, ChunkDesign, ContentParts, DeltaDesign, Design, MappingPart, Parts, Persistence,
    RecycleDesign, SharingDesign,
};
use crate::content::dedup::DedupOptions;
use crate::gc::GcOptions;
use crate::mapping::CachedOptions;
use crate::sharing::counts::RefsPart;
use crate::sharing::reverse_map::ReverseMapPart;
use crate::validity::{GeckoOptions, ValidityPart};

pub(super) const DESIGN: Design = Design {
    name: "wearwell",
    source: "a composition of Recyclable SSD, Delta-FTL, Remap-SSD, Integrated lifetime management and GeckoFTL",
    modelled: "deduplication, host remaps and recycling of dead pages, delta encoding, compression in chunks, on one device; map on flash behind a cache, its dirty entries in NVRAM, page validity in Logarithmic Gecko; recovery from flash and NVRAM without a battery",
    not_modelled: "RAM holds who refers to shared pages, the delta table and the directory of chunks, all three rebuilt after a power loss, which reads the spare areas of all pages and the whole map; access counts, the history of dead pages and the content index start anew then; the fingerprint and the writer of a page that is replaced are known without a read",
};

/// Options of [`wearwell`].
#[derive(Clone, PartialEq, Debug)]
pub struct WearwellOptions {
    /// Entries of the map in RAM; so many words of NVRAM, and some for garbage collection.
    pub cache_entries: u32,
    /// Logarithmic Gecko.
    pub gecko: GeckoOptions,
    /// Dead pages.
    pub recycle: RecycleDesign,
    /// The content index of live pages.
    pub dedup: DedupOptions,
    /// Deltas; without a battery one page of them is filled at a time.
    pub delta: DeltaDesign,
}

/// Every content mechanism over a map and page validity on flash. What is not durable with its write waits in RAM for
/// company, as in any write buffer, until a flush: staged deltas and chunks that are not full.
pub fn wearwell(gc: GcOptions, options: WearwellOptions) -> Parts {
    let sharing = SharingDesign {
        reverse_map: ReverseMapPart::Ideal,
        refs: RefsPart::Sparse,
        dedup: Some(options.dedup),
        atomic_commands: false,
    };
    Parts {
        mapping: MappingPart::Cached(CachedOptions::of_entries(options.cache_entries)),
        validity: ValidityPart::Gecko(options.gecko),
        content: ContentParts {
            recycle: Some(options.recycle),
            sharing: Some(sharing),
            delta: Some(DeltaDesign { open_pages: 1, ..options.delta }),
            chunks: Some(ChunkDesign::default()),
        },
        gc,
        persistence: Persistence::NvramMap,
        survey: BlockSurvey::OobScan,
    }
}
