//! Designs: lists of the parts of an FTL.
//!
//! A design is data. Each has a file that names its source, lists its parts, and states what is modelled and what is
//! not. The engine never tests which design it runs, only which parts are present.

mod compatibility;
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
pub use geckoftl::{GeckoFtlOptions, MAX_METADATA_BLOCK_SHARE, geckoftl};
pub use ibftl::ibftl;
pub use integrated::integrated;
pub use lazyftl::lazyftl;
pub use page_map::page_map;
pub use recyclable::{RecyclingPart, recyclable};
pub use remap::remap;
pub use uftl::{UFtlOptions, uftl};
pub use wearwell::{WearwellOptions, wearwell};

use crate::address::MAX_UNITS_WITH_MARKED_MAP_ENTRIES;
use crate::content::MechanismSet;
pub use crate::content::compress::CompressionOptions;
use crate::content::compress::{MAX_CHUNK_MEMBERS, stored_unit_count};
pub use crate::content::delta::DeltaOptions;
use crate::gc::GcOptions;
use crate::mapping::{
    DemandPagedMapOptions, InvalidPageIdentification, JournalOptions, nvram_words_for_dirty_entries,
};
use crate::nand::{Geometry, RetainedPageFields};
pub use crate::sharing::SharingOptions;
use crate::sharing::counts::{MAX_REFERRERS, ReferenceCountForm};
use crate::sharing::reverse_map::ReverseMapKind;
use crate::store::{content_record_nvram_words, validity_note_nvram_words};
use crate::validity::ValidityStoreKind;

/// Bytes of RAM per record in NVRAM. If a design limits the tables of its content mechanisms to `n` bytes of RAM, NVRAM
/// has room for `n / RAM_BYTES_PER_CONTENT_RECORD` records of these mechanisms. A bound logical page (mapped without a
/// program) takes about 12 bytes of RAM and up to two records. A chunk takes 16 bytes, and a record for each of its
/// pages.
const RAM_BYTES_PER_CONTENT_RECORD: u64 = 12;

/// Where a design stores its L2P table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MappingPart {
    /// The whole L2P table is in RAM (page map without cache).
    Flat,
    /// The L2P table is on flash, with a cache of its entries in RAM.
    Cached(DemandPagedMapOptions),
    /// The L2P table is on flash with a cache of its entries in RAM, and its changes are also logged in a journal on
    /// flash (Delta-FTL, section 3.5.1).
    Journalled {
        /// Options of the cache of L2P entries. With a journal, the old PPN of a page must be identified when the map
        /// entry is updated, not later.
        cache: DemandPagedMapOptions,
        /// Options of the journal of L2P table changes.
        journal: JournalOptions,
    },
}

/// Mechanisms of a design that look at content: recycling, sharing, delta encoding, compression. By default there are
/// none: every host page is stored in a flash page of its own.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct ContentParts {
    /// Recycling: a write revives a dead page of equal content.
    pub recycle: Option<RecyclingPart>,
    /// Sharing of stored pages between logical pages of equal content: deduplication and the remap command.
    pub sharing: Option<SharingOptions>,
    /// Delta encoding: overwrites are stored as compressed differences to the older version.
    pub delta: Option<DeltaOptions>,
    /// Compression: several logical pages are compressed together into a chunk of fewer flash pages. `None` means that
    /// the design does not compress.
    pub chunks: Option<CompressionOptions>,
    /// Content mechanisms that keep nothing on flash and have no options
    /// ([`MechanismKind::is_stateless`](crate::content::MechanismKind::is_stateless)). They can be combined with every
    /// other part.
    pub stateless_mechanisms: MechanismSet,
    /// Limit of the bytes of controller RAM that the tables of the content mechanisms take together: logical pages that
    /// were mapped without a program, reference counts of shared pages, deltas, and the directory of compressed chunks.
    /// Pages are stored whole while the tables are at this limit. `None` means no limit.
    pub content_tables_ram_limit_bytes: Option<u64>,
}

impl ContentParts {
    /// Returns whether a mechanism of the design decides where content is stored (all do except those without state).
    /// Not every logical page then has a flash page of its own.
    pub(crate) fn has_content_mechanism_with_state(&self) -> bool {
        self.recycle.is_some() || self.sharing.is_some() || self.delta.is_some() || self.chunks.is_some()
    }

    /// Returns whether the design has tables in controller RAM that grow with the stored contents: of chunks, of
    /// deltas, or of shared pages. Only then does [`Self::content_tables_ram_limit_bytes`] have an effect.
    pub fn has_growing_tables(&self) -> bool {
        let sharing_grows = self.sharing.is_some_and(|sharing| {
            sharing.reverse_map == ReverseMapKind::Ideal
                || sharing.reference_count_form == ReferenceCountForm::Sparse
        });
        sharing_grows || self.delta.is_some() || self.chunks.is_some()
    }

    /// Returns whether the design has no content mechanism with state on flash except recycling (reviving dead pages of
    /// equal content).
    pub(crate) fn has_at_most_recycling(&self) -> bool {
        self.sharing.is_none() && self.delta.is_none() && self.chunks.is_none()
    }
}

/// Means by which flushed data survives a power loss: flash alone, NVRAM or a battery.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Persistence {
    /// Flash alone: recovery rebuilds the L2P table from owner and sequence number of every flash page, newest version
    /// first. [`RecoveryBlockScan`] determines which pages are read. Trims are not durable: a page trimmed before a
    /// power loss may read as one of its earlier versions.
    OobScan,
    /// A battery keeps RAM over a power loss: the L2P table, the history of writes and the access counts. The store of
    /// fingerprints of dead pages is rebuilt.
    BatteryRam,
    /// A battery lasts long enough to write dirty L2P entries and page validity to flash. The directories in RAM that
    /// locate metadata pages are rebuilt from the spare areas of these pages. In a design with content mechanisms, page
    /// validity is rebuilt from all translation pages instead.
    BatteryFlush,
    /// Flash alone: recovery reads the newest data pages, backwards in time, to find which L2P entries changed last
    /// (GeckoFTL, section 4.3 and appendix C). Trims are durable.
    BackwardScan {
        /// Whether recovered L2P changes are written to translation pages before the device accepts requests (LazyFTL).
        /// If not, they are written when their entries are evicted from the cache.
        writes_map_before_first_request: bool,
    },
    /// Flash and a durable reverse map (referrers of shared pages): recovery rebuilds the L2P table from the spare
    /// areas of flash pages, and from the entries that the reverse map has in NVRAM or on flash, newest sequence number
    /// first. Trims and remaps are durable.
    DurableReverseMap,
    /// Flash and NVRAM: every change of the L2P table is also an 8-byte store to NVRAM. NVRAM holds a copy of the
    /// table, or of its dirty entries if the table is on flash. All other state is rebuilt from flash or starts empty.
    /// Trims and remaps are durable at once. Data that is buffered in RAM is durable only after a flush.
    NvramMap,
}

impl Persistence {
    /// Returns whether recovery rebuilds the L2P table from flash pages and reverse-map entries. Every change of the
    /// table must then leave a record in one of them.
    pub(crate) fn replays_reverse_map_entries(self) -> bool {
        self == Self::DurableReverseMap
    }

    /// Returns whether recovery compares old and new versions of translation pages. GC must then retain old versions
    /// for a while.
    pub(crate) fn recovery_compares_map_versions(self) -> bool {
        matches!(self, Self::BackwardScan { .. })
    }
}

/// Pages of each block that recovery reads if it rebuilds the L2P table from flash.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum RecoveryBlockScan {
    /// Recovery reads the spare area (OOB) of every page of the device.
    #[default]
    OobScan,
    /// Recovery reads the head page of every block, the tail pages of full blocks, and the spare areas of all pages in
    /// other blocks (Remap-SSD, section 4.5). Head and tail pages describe the other pages of their block. They cost
    /// programs and capacity ([`crate::store::HeadTailLayout`]).
    HeadTail,
    /// Recovery reads the spare area of the first page of every block, those of all pages of metadata, and that of the
    /// last page of blocks of deltas and chunks. Notes in NVRAM name the data pages that recovery has to look at
    /// (`store/recovery_notes.rs`). Records in NVRAM (`store/content_records.rs`) name the map entries that were mapped
    /// without a program, so that recovery need not read all translation pages.
    FirstPages,
}

/// A design of an FTL: the list of its parts (map, page validity, content mechanisms, GC, recovery).
#[derive(Clone, PartialEq, Debug)]
pub struct Parts {
    /// Place where the L2P table of the design is stored: RAM or flash.
    pub mapping: MappingPart,
    /// Place where page validity (which flash pages are valid) is stored: RAM or flash.
    pub validity: ValidityStoreKind,
    /// Mechanisms of the design that depend on the content of pages.
    pub content: ContentParts,
    /// Options of garbage collection and wear leveling.
    pub gc: GcOptions,
    /// Means by which the design's data survives a power loss.
    pub persistence: Persistence,
    /// Pages of each block that recovery reads if it rebuilds the L2P table from flash.
    pub recovery_block_scan: RecoveryBlockScan,
}

impl Parts {
    /// Returns the persistence (means to survive a power loss) that the papers combine with this design's L2P table,
    /// page validity and content mechanisms:
    ///
    /// - flash alone for a table in RAM, with reverse-map entries in addition if pages are shared (Remap-SSD);
    /// - the newest pages for a demand-paged table that identifies invalid pages late (GeckoFTL);
    /// - a battery that writes dirty state for other demand-paged tables (DFTL, Delta-FTL) and for a validity bitmap on
    ///   flash (u-FTL);
    /// - a battery that keeps all RAM for all other designs.
    pub fn default_persistence(&self) -> Persistence {
        let ContentParts {
            recycle,
            sharing,
            delta,
            chunks,
            stateless_mechanisms: _,
            content_tables_ram_limit_bytes: _,
        } = &self.content;
        let has_content_mechanisms = self.content.has_content_mechanism_with_state();
        if self.validity != ValidityStoreKind::Ram
            && (has_content_mechanisms || self.mapping == MappingPart::Flat)
        {
            return Persistence::BatteryRam;
        }
        match (self.mapping, [recycle.is_some(), sharing.is_some(), delta.is_some(), chunks.is_some()]) {
            (MappingPart::Flat, [false, false, false, false]) => Persistence::OobScan,
            (MappingPart::Flat, [false, true, false, false]) => {
                sharing.map_or(Persistence::OobScan, SharingOptions::default_persistence)
            }
            (MappingPart::Cached(cache), [false, false, false, false])
                if cache.identification == InvalidPageIdentification::AtSynchronisation
                    && !matches!(self.validity, ValidityStoreKind::Bitmap(_)) =>
            {
                Persistence::BackwardScan { writes_map_before_first_request: false }
            }
            (MappingPart::Cached(_), [false, false, _, false])
                if !matches!(self.validity, ValidityStoreKind::Log | ValidityStoreKind::Gecko(_)) =>
            {
                Persistence::BatteryFlush
            }
            _ => Persistence::BatteryRam,
        }
    }

    /// Returns the fields of each page that the flash model must keep if this design runs on content descriptors
    /// (fingerprint and sizes) instead of bytes.
    pub fn needed_retained_page_fields(&self) -> RetainedPageFields {
        RetainedPageFields {
            keeps_fingerprints: MechanismSet::of_design(&self.content) != MechanismSet::NONE,
            ..RetainedPageFields::default()
        }
    }

    /// Returns whether recovery of the design must read packed pages (deltas, compressed chunks) to find out which
    /// logical pages they hold. The flash model must then keep the bytes of packed pages
    /// ([`RetainedPageFields::keeps_packed_page_bytes`]). A battery that keeps RAM makes that unnecessary.
    pub fn recovery_reads_packed_pages(&self) -> bool {
        let packs = self.content.delta.is_some() || self.content.chunks.is_some();
        packs && self.persistence != Persistence::BatteryRam
    }

    /// Returns the bytes of NVRAM that the design needs for its reverse map (record of the referrers of shared pages),
    /// if pages have `page_bytes` bytes.
    pub fn reverse_map_nvram_bytes(&self, page_bytes: u32) -> u64 {
        self.content.sharing.map_or(0, |sharing| sharing.reverse_map.nvram_bytes(page_bytes))
    }

    /// Returns the bytes of NVRAM that the design needs for its reverse map ([`Self::reverse_map_nvram_bytes`]) and for
    /// an L2P table in NVRAM: 8 bytes per logical page, or per dirty entry if the table is on flash.
    pub fn total_nvram_bytes(&self, geometry: &Geometry, logical_pages: u32) -> u64 {
        let words = match self.mapping {
            _ if self.persistence != Persistence::NvramMap => 0,
            MappingPart::Cached(options) => nvram_words_for_dirty_entries(
                &options,
                geometry,
                logical_pages,
                self.max_lpns_per_flash_page(),
            ),
            MappingPart::Flat | MappingPart::Journalled { .. } => logical_pages.into(),
        };
        let for_recovery = match self.recovery_block_scan {
            RecoveryBlockScan::FirstPages => {
                validity_note_nvram_words(geometry)
                    + content_record_nvram_words(self.content_record_capacity(geometry, logical_pages))
            }
            RecoveryBlockScan::OobScan | RecoveryBlockScan::HeadTail => 0,
        };
        self.reverse_map_nvram_bytes(geometry.page_bytes).next_multiple_of(8) + 8 * (words + for_recovery)
    }

    /// Returns the number of records of content mechanisms (bound pages, chunks, deltas) for which NVRAM has room, if
    /// recovery reads only first pages of blocks. This is [`Self::content_record_limit`], or the number of all possible
    /// records if that is less.
    pub(crate) fn content_record_capacity(&self, geometry: &Geometry, logical_pages: u32) -> u64 {
        let ContentParts { recycle, sharing, delta, chunks, .. } = &self.content;
        let logical_pages = u64::from(logical_pages);
        let (maps_without_program, is_delta) = (recycle.is_some() || sharing.is_some(), delta.is_some());
        // For each logical page a bound map entry, a unit of which it is the only referrer, and a delta; and each flash
        // page may be one of a chunk.
        let possible = 2 * u64::from(maps_without_program) * logical_pages
            + u64::from(is_delta) * logical_pages
            + u64::from(chunks.is_some()) * geometry.pages();
        self.content_record_limit().map_or(possible, |limit| limit.min(possible))
    }

    /// Returns the maximum number of records of content mechanisms (bound pages, chunks, deltas) in NVRAM: one for each
    /// [`RAM_BYTES_PER_CONTENT_RECORD`] bytes of RAM to which the tables of these mechanisms are limited. `None` if the
    /// tables have no limit, or if the design recycles pages and does not share them.
    pub(crate) fn content_record_limit(&self) -> Option<u64> {
        let is_unlimited = self.content.recycle.is_some() && self.content.sharing.is_none();
        self.content
            .content_tables_ram_limit_bytes
            .filter(|_| !is_unlimited)
            .map(|bytes| bytes / RAM_BYTES_PER_CONTENT_RECORD)
    }

    /// Returns whether this design can recover by [`RecoveryBlockScan::FirstPages`], where notes in NVRAM name the data
    /// pages to be read. This requires a map on flash whose dirty entries are in NVRAM, and a record of invalid pages
    /// on flash (log or Logarithmic Gecko) that states up to which program it is complete.
    pub fn can_recover_from_first_pages_of_blocks(&self) -> bool {
        self.persistence == Persistence::NvramMap
            && matches!(self.mapping, MappingPart::Cached(_))
            && matches!(self.validity, ValidityStoreKind::Log | ValidityStoreKind::Gecko(_))
    }

    /// Returns what recovery of this design reads of each block unless it is configured otherwise: the first page if
    /// the design can recover from first pages, else all spare areas. For the former, a map entry must have a bit to
    /// spare that marks mappings without a program; this depends on the number of pages in `geometry`.
    pub fn default_recovery_block_scan(&self, geometry: &Geometry) -> RecoveryBlockScan {
        if self.can_recover_from_first_pages_of_blocks()
            && self.max_stored_units(geometry) <= MAX_UNITS_WITH_MARKED_MAP_ENTRIES
        {
            RecoveryBlockScan::FirstPages
        } else {
            RecoveryBlockScan::OobScan
        }
    }

    /// Returns the number of units to which map entries can refer: flash pages and, if the design compresses, chunk
    /// members.
    pub(crate) fn max_stored_units(&self, geometry: &Geometry) -> u64 {
        stored_unit_count(geometry.pages(), self.content.chunks.is_some())
    }

    /// Returns the maximum number of logical pages whose data one flash page can hold.
    pub(crate) fn max_lpns_per_flash_page(&self) -> u32 {
        let members = if self.content.chunks.is_some() { MAX_CHUNK_MEMBERS as u32 } else { 1 };
        let referrers = if self.content.sharing.is_some() { MAX_REFERRERS } else { 1 };
        members * referrers
    }

    /// Changes the design for a device with real bytes that may lose its RAM at any moment. If the design requires a
    /// battery, or cannot make trims durable, the L2P table (or its dirty entries, if it is on flash) is kept in NVRAM
    /// instead. Contents are compared before pages are shared or revived, because equal 64-bit fingerprints do not
    /// prove equal bytes. Recovery reads all spare areas. This is cheap on such a device, whose spare areas take little
    /// room in a file, whereas [`RecoveryBlockScan::FirstPages`] would cost an NVRAM store for every overwritten page.
    /// The resulting parts may be ones that cannot be combined ([`Parts::require_compatible`]).
    #[must_use]
    pub fn without_battery(mut self) -> Self {
        match self.persistence {
            Persistence::OobScan | Persistence::BatteryRam | Persistence::BatteryFlush => {
                self.persistence = Persistence::NvramMap;
            }
            Persistence::DurableReverseMap | Persistence::NvramMap | Persistence::BackwardScan { .. } => {}
        }
        if self.recovery_block_scan == RecoveryBlockScan::FirstPages {
            self.recovery_block_scan = RecoveryBlockScan::OobScan;
        }
        if let Some(recycle) = &mut self.content.recycle {
            recycle.must_verify_hits = true;
        }
        if let Some(dedup) = self.content.sharing.as_mut().and_then(|sharing| sharing.dedup.as_mut()) {
            dedup.must_verify_hits = true;
        }
        self
    }
}

/// Name and description of an FTL design, for lists and command lines.
#[derive(Clone, Copy, Debug)]
pub struct DesignDescription {
    /// Name of the design on the command line.
    pub name: &'static str,
    /// Source of the design: title, venue, year.
    pub source: &'static str,
    /// What the implementation of the design models, in words.
    pub model_scope: &'static str,
    /// What the implementation of the design simplifies or leaves out, and what hardware it assumes.
    pub model_limits: &'static str,
}

/// All named FTL designs; the baseline `page-map` is first.
pub const ALL: [DesignDescription; 11] = [
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
