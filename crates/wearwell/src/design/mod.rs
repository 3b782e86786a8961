//! Designs: lists of parts.
//!
//! A design is data. Its file names its source, lists its parts, and says what is modelled and what is not. The
//! engine never asks which design it runs.

mod delta;
mod dftl;
mod geckoftl;
mod ibftl;
mod integrated;
mod lazyftl;
mod page_map;
mod recyclable;
mod remap;
mod uftl;
mod wearwell;

pub use delta::{delta, delta_with_journal};
pub use dftl::{DftlOptions, dftl};
pub use geckoftl::{GeckoFtlOptions, METADATA_SHARE, geckoftl};
pub use ibftl::ibftl;
pub use integrated::integrated;
pub use lazyftl::lazyftl;
pub use page_map::page_map;
pub use recyclable::{RecycleDesign, recyclable};
pub use remap::remap;
pub use uftl::{UFtlOptions, uftl};
pub use wearwell::{WearwellOptions, wearwell};

use crate::content::compress::CHUNK_MEMBERS;
pub use crate::content::compress::ChunkDesign;
pub use crate::content::delta::DeltaDesign;
use crate::error::{Error, Result};
use crate::gc::{GcOptions, MetadataGc, VictimPolicy};
use crate::mapping::{CachedOptions, Identification, JournalOptions, nvram_words};
use crate::nand::{Geometry, Retain};
pub use crate::sharing::SharingDesign;
use crate::sharing::counts::MAX_REFERRERS;
use crate::sharing::reverse_map::ReverseMapPart;
use crate::validity::ValidityPart;

/// How the L2P table is kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MappingPart {
    /// All of it in RAM.
    Flat,
    /// On flash, with a cache.
    Cached(CachedOptions),
    /// The same with a journal of its changes (Delta-FTL, section 3.5.1).
    Journalled {
        /// The cache; old places are identified on update.
        cache: CachedOptions,
        /// The journal.
        journal: JournalOptions,
    },
}

/// What is done about content. Nothing by default: every page is stored as it comes.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct ContentParts {
    /// Dead pages are recycled.
    pub recycle: Option<RecycleDesign>,
    /// Logical pages share stored pages: deduplication and the remap command.
    pub sharing: Option<SharingDesign>,
    /// Overwrites are stored as deltas.
    pub delta: Option<DeltaDesign>,
    /// Pages are compressed in chunks.
    pub chunks: Option<ChunkDesign>,
}

impl ContentParts {
    /// Whether recycling, if it is there, is the only mechanism that looks at content.
    pub(crate) fn recycles_alone(&self) -> bool {
        self.sharing.is_none() && self.delta.is_none() && self.chunks.is_none()
    }

    /// Whether the parts go together.
    pub(crate) fn checked(&self, mapping: MappingPart) -> Result<()> {
        let binds_nothing =
            self.sharing.is_some_and(|sharing| sharing.reverse_map == ReverseMapPart::OobOnly);
        if self.recycle.is_some() && binds_nothing {
            return Err(Error::Options(
                "a recycled page belongs to another logical page than its spare area says, which a design that shares \
                 pages keeps in its reverse map: choose one, or leave sharing out"
                    .into(),
            ));
        }
        let is_ideal = self.sharing.is_none_or(|sharing| sharing.reverse_map == ReverseMapPart::Ideal);
        if !is_ideal && mapping != MappingPart::Flat {
            return Err(Error::Options(
                "a reverse map asks the map which of its entries are current, and one on flash cannot answer at once: choose \
                 the flat map or the ideal reverse map"
                    .into(),
            ));
        }
        if !is_ideal && self.chunks.is_some() {
            return Err(Error::Options(
                "entries of a reverse map name pages, not members of chunks: choose the ideal one beside compression"
                    .into(),
            ));
        }
        Ok(())
    }
}

/// What makes acknowledged, flushed data survive loss of power, and which hardware that assumes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Persistence {
    /// Nothing but flash: the map is rebuilt from owner and sequence number of every page, newest first; where these are
    /// read is up to the [`BlockSurvey`]. Trims are not durable: a page trimmed before the cut may read as one of its earlier versions afterwards.
    OobScan,
    /// A battery keeps the map, history and access counts in RAM; the fingerprint store is rebuilt.
    BatteryRam,
    /// A battery lasts long enough to write the dirty map entries and page validity; directories are rebuilt from the spare
    /// areas of metadata. A design with content stages has validity rebuilt from all translation pages instead.
    BatteryFlush,
    /// Nothing but flash: the newest data pages, read backwards, tell which map entries were changed last (GeckoFTL,
    /// section 4.3 and appendix C). Trims are durable.
    BackwardScan {
        /// Whether the changes are written before the device works again (LazyFTL), or later, as they leave the cache.
        synchronises: bool,
    },
    /// Flash and NVRAM: as [`Persistence::OobScan`], with the entries of the reverse map, newest sequence number first.
    /// Trims and remaps are durable.
    NvramEntries,
    /// Flash and NVRAM: every change of the map is an 8-byte store to a copy of it in NVRAM, for a map on flash to a copy of its
    /// dirty entries; all else is rebuilt from flash, or starts anew. Trims and remaps are durable; what waits in RAM for company
    /// is durable with a flush.
    NvramMap,
}

impl Persistence {
    /// Whether recovery rebuilds the map from flash and entries, so that every change must leave evidence.
    pub(crate) fn replays_entries(self) -> bool {
        self == Self::NvramEntries
    }

    /// Whether recovery compares versions of translation pages, so that old ones must be kept for a while.
    pub(crate) fn compares_versions(self) -> bool {
        matches!(self, Self::BackwardScan { .. })
    }
}

/// What recovery reads of each block where it rebuilds a map from flash.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum BlockSurvey {
    /// The OOB of every page.
    #[default]
    OobScan,
    /// The head page of every block, the tail pages of full blocks, and the OOB of the pages of the others (Remap-SSD,
    /// section 4.5). Blocks have these pages then, which costs programs and room: see [`crate::store::HeadTail`].
    HeadTail,
}

/// The parts of a design.
#[derive(Clone, PartialEq, Debug)]
pub struct Parts {
    /// L2P.
    pub mapping: MappingPart,
    /// Page validity.
    pub validity: ValidityPart,
    /// Content stages.
    pub content: ContentParts,
    /// Garbage collection.
    pub gc: GcOptions,
    /// Survival of power loss.
    pub persistence: Persistence,
    /// What recovery reads of each block.
    pub survey: BlockSurvey,
}

impl Parts {
    /// What serves such a map and such content in the papers: flash alone for a flat map, its entries where pages are shared
    /// (Remap-SSD), the newest pages for a lazy map (GeckoFTL), a battery that writes the rest out for an eager one (DFTL,
    /// Delta-FTL) and for a bitmap on flash (u-FTL), and a battery that keeps the RAM for everything else.
    pub fn usual_persistence(&self) -> Persistence {
        let ContentParts { recycle, sharing, delta, chunks } = &self.content;
        let looks_at_content = self.content != ContentParts::default();
        if self.validity != ValidityPart::Ram && (looks_at_content || self.mapping == MappingPart::Flat) {
            return Persistence::BatteryRam;
        }
        match (self.mapping, [recycle.is_some(), sharing.is_some(), delta.is_some(), chunks.is_some()]) {
            (MappingPart::Flat, [false, false, false, false]) => Persistence::OobScan,
            (MappingPart::Flat, [false, true, false, false]) => {
                sharing.map_or(Persistence::OobScan, SharingDesign::usual_persistence)
            }
            (MappingPart::Cached(cache), [false, false, false, false])
                if cache.identification == Identification::AtSynchronisation
                    && !matches!(self.validity, ValidityPart::Bitmap(_)) =>
            {
                Persistence::BackwardScan { synchronises: false }
            }
            (MappingPart::Cached(_), [false, false, _, false])
                if !matches!(self.validity, ValidityPart::Log | ValidityPart::Gecko(_)) =>
            {
                Persistence::BatteryFlush
            }
            _ => Persistence::BatteryRam,
        }
    }

    /// Whether the parts go together.
    pub(crate) fn checked(&self) -> Result<()> {
        self.content.checked(self.mapping)?;
        self.gc.wear.check()?;
        let is_lazy = matches!(self.mapping, MappingPart::Cached(options) if options.identification == Identification::AtSynchronisation);
        if is_lazy && self.content != ContentParts::default() {
            return Err(Error::Options(
                "content mechanisms release the page that a write replaces at once, and a lazy map learns which one that was when it writes a translation page: choose parts.map=flat or cached".into(),
            ));
        }
        self.check_survival()?;
        self.check_validity()?;
        let is_backward = matches!(self.persistence, Persistence::BackwardScan { .. });
        if is_backward && !matches!(self.mapping, MappingPart::Cached(_)) {
            return Err(Error::Options("recovery by a backward scan needs a map on flash".into()));
        }
        let is_in_nvram = self.persistence == Persistence::NvramMap;
        if let MappingPart::Cached(options) = self.mapping
            && !is_lazy
            && (options.checkpoints || options.dirty_entries.is_some() && !is_in_nvram)
        {
            return Err(Error::Options(
                "checkpoints need a lazy map, and a bound on dirty entries a lazy map or one whose dirty entries are in NVRAM: choose \
                 parts.map=lazy, or parts.survives=nvram-map for the bound"
                    .into(),
            ));
        }
        let finds_changes =
            matches!(self.mapping, MappingPart::Cached(options) if options.checkpoints && is_lazy);
        if matches!(self.persistence, Persistence::BackwardScan { .. }) && !finds_changes {
            return Err(Error::Options(
                "recovery by a backward scan needs a lazy map with checkpoints".into(),
            ));
        }
        if matches!(self.persistence, Persistence::BackwardScan { .. })
            && matches!(self.validity, ValidityPart::Bitmap(_))
        {
            return Err(Error::Options(
                "a backward scan reads back to the last write of the buffer of page validity, and a bitmap on flash has no \
                 buffer: choose ram, log or gecko, or a battery that writes out what is only in RAM"
                    .into(),
            ));
        }
        self.check_nvram_map()?;
        self.check_journal()?;
        self.check_survey()?;
        if self.gc.metadata != MetadataGc::Greedy && self.gc.policy != VictimPolicy::Greedy {
            return Err(Error::Options(
                "sparing metadata blocks is defined for greedy collection only".into(),
            ));
        }
        Ok(())
    }

    /// What content mechanisms keep in RAM must be rebuilt, or survive.
    fn check_survival(&self) -> Result<()> {
        let ContentParts { recycle, sharing, delta, chunks } = &self.content;
        let mechanisms = [recycle.is_some(), sharing.is_some(), delta.is_some(), chunks.is_some()];
        let is_rebuilt = match self.persistence {
            Persistence::BatteryRam | Persistence::NvramMap => true,
            Persistence::OobScan | Persistence::NvramEntries => {
                mechanisms == [false, sharing.is_some(), false, false]
            }
            Persistence::BatteryFlush => mechanisms == [false, false, delta.is_some(), false],
            Persistence::BackwardScan { .. } => self.content == ContentParts::default(),
        };
        if is_rebuilt {
            return Ok(());
        }
        Err(Error::Options(
            "nothing on flash tells what these content mechanisms hold in RAM: keep RAM on a battery, or the map in NVRAM"
                .into(),
        ))
    }

    /// Page validity on flash goes with a recovery that keeps what was said of it, or finds it out from the map on flash.
    fn check_validity(&self) -> Result<()> {
        let has_map_alone =
            matches!(self.mapping, MappingPart::Cached(_)) && self.content == ContentParts::default();
        let is_followed = match self.persistence {
            Persistence::BatteryRam => true,
            // A cut may have left a log or a tree of invalid pages half merged, and only RAM knows how far.
            Persistence::BatteryFlush => has_map_alone && matches!(self.validity, ValidityPart::Bitmap(_)),
            Persistence::BackwardScan { .. } => has_map_alone,
            Persistence::NvramMap => !matches!(self.validity, ValidityPart::Bitmap(_)),
            Persistence::OobScan | Persistence::NvramEntries => false,
        };
        if self.validity == ValidityPart::Ram || is_followed {
            return Ok(());
        }
        Err(Error::Options(
            "page validity on flash survives a loss of power with survives=battery, nvram-map (but for a bitmap), backward where \
             the map is on flash and no mechanism looks at content, or battery-flush for a bitmap with such a map; other \
             recoveries fill parts.validity=ram"
                .into(),
        ))
    }

    /// A map in NVRAM is complete after every change: no place is found later, and no journal says more.
    fn check_nvram_map(&self) -> Result<()> {
        let is_complete = match self.mapping {
            MappingPart::Flat => true,
            MappingPart::Cached(options) => options.identification == Identification::OnUpdate,
            MappingPart::Journalled { .. } => false,
        };
        if is_complete || self.persistence != Persistence::NvramMap {
            return Ok(());
        }
        Err(Error::Options(
            "a map in NVRAM is flat, or on flash with its dirty entries in NVRAM; a lazy map or one with a journal needs its own \
             recovery: choose parts.map=flat or cached, and leave delta.journal_pages out"
                .into(),
        ))
    }

    /// Only a recovery that reads all translation pages replays a journal over them.
    fn check_journal(&self) -> Result<()> {
        let MappingPart::Journalled { cache, .. } = self.mapping else { return Ok(()) };
        let is_plain = cache == CachedOptions::of_entries(cache.entries);
        let reads_all = self.persistence == Persistence::BatteryFlush && self.content.delta.is_some();
        if is_plain && reads_all {
            return Ok(());
        }
        Err(Error::Options(
            "a journal of the map belongs to delta with delta.cache_entries, whose recovery replays it"
                .into(),
        ))
    }

    fn check_survey(&self) -> Result<()> {
        let ContentParts { recycle, delta, chunks, sharing: _ } = &self.content;
        let reads_blocks = matches!(self.persistence, Persistence::OobScan | Persistence::NvramEntries);
        let has_other_pages = recycle.is_some() || delta.is_some() || chunks.is_some();
        if self.survey == BlockSurvey::OobScan || (reads_blocks && !has_other_pages) {
            return Ok(());
        }
        Err(Error::Options(
            "head and tail pages serve designs that rebuild a flat map from flash after a power loss: choose page-map \
             without a map in NVRAM or remap (segments, nvram-log, flash-log or none), or recovery.blocks=oob-scan"
                .into(),
        ))
    }

    /// What the medium must keep of each page for this design to work on descriptors.
    pub fn retain(&self) -> Retain {
        let ContentParts { recycle, sharing, delta, chunks } = &self.content;
        let deduplicates = sharing.is_some_and(|sharing| sharing.dedup.is_some());
        Retain {
            fingerprint: recycle.is_some() || deduplicates || delta.is_some() || chunks.is_some(),
            ..Retain::default()
        }
    }

    /// NVRAM that the medium must have for this design, bytes, for pages of `page_bytes`.
    pub fn nvram_bytes(&self, page_bytes: u32) -> u64 {
        self.content.sharing.map_or(0, |sharing| sharing.reverse_map.nvram_bytes(page_bytes))
    }

    /// The same, with the copy of the map of `logical_pages` where the design keeps one: 8 bytes per logical page, or per dirty
    /// entry of a map on flash.
    pub fn nvram_bytes_with_map(&self, geometry: &Geometry, logical_pages: u32) -> u64 {
        let words = match self.mapping {
            _ if self.persistence != Persistence::NvramMap => 0,
            MappingPart::Cached(options) => {
                nvram_words(&options, geometry, logical_pages, self.entries_per_page())
            }
            MappingPart::Flat | MappingPart::Journalled { .. } => logical_pages.into(),
        };
        self.nvram_bytes(geometry.page_bytes).next_multiple_of(8) + 8 * words
    }

    /// Logical pages that one page of flash holds data of, at the most.
    pub(crate) fn entries_per_page(&self) -> u32 {
        let members = if self.content.chunks.is_some() { CHUNK_MEMBERS as u32 } else { 1 };
        let referrers = if self.content.sharing.is_some() { MAX_REFERRERS } else { 1 };
        members * referrers
    }

    /// The design for a device with real bytes that loses its RAM at any moment: the map (its dirty entries, if it is on flash)
    /// goes to NVRAM where the design assumed a battery, or could not make trims durable; and contents are compared before
    /// they are shared, because 64-bit fingerprints are no proof.
    ///
    /// # Errors
    /// [`Error::Options`] for maps that are lazy or have a journal, and rest on a battery.
    pub fn without_battery(mut self) -> Result<Self> {
        match self.persistence {
            Persistence::OobScan | Persistence::BatteryRam | Persistence::BatteryFlush => {
                self.persistence = Persistence::NvramMap;
            }
            Persistence::NvramEntries | Persistence::NvramMap | Persistence::BackwardScan { .. } => {}
        }
        self.check_nvram_map()?;
        if let Some(recycle) = &mut self.content.recycle {
            recycle.verify_on_hit = true;
        }
        if let Some(dedup) = self.content.sharing.as_mut().and_then(|sharing| sharing.dedup.as_mut()) {
            dedup.verify_on_hit = true;
        }
        Ok(self)
    }
}

/// A named design for lists and command lines.
#[derive(Clone, Copy, Debug)]
pub struct Design {
    /// Name on the command line.
    pub name: &'static str,
    /// Title, venue, year.
    pub source: &'static str,
    /// What is modelled.
    pub modelled: &'static str,
    /// What is simplified or left out, and what hardware is assumed.
    pub not_modelled: &'static str,
}

/// All designs, baseline first.
pub const ALL: [Design; 11] = [
    page_map::DESIGN,
    recyclable::DESIGN,
    dftl::DESIGN,
    remap::DESIGN,
    delta::DESIGN,
    integrated::DESIGN,
    lazyftl::DESIGN,
    uftl::DESIGN,
    ibftl::DESIGN,
    geckoftl::DESIGN,
    wearwell::DESIGN,
];
