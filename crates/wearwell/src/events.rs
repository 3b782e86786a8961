//! Events: what the engine did during a request, with addresses and reasons, for programs that show it to people.
//!
//! The list of [`FlashOp`](crate::operation::FlashOp) has what a timing model needs: planes and causes. A reader who
//! follows the engine page by page also needs the pages, why a metadata page was written, and from which candidates GC
//! chose. [`RequestOpLog::enable_event_recording`](crate::stats::RequestOpLog::enable_event_recording) turns the
//! recording on. It is off in every simulation. Then it costs nothing per host write, and one check per choice of a
//! victim and per write of a metadata page.

use crate::address::{BlockId, Ppn};
use crate::nand::PageKind;
use crate::operation::Cause;

/// One event that the engine caused during a request; events are recorded in the order in which they happen.
#[derive(Clone, PartialEq, Debug)]
pub enum FtlEvent {
    /// A flash page was read.
    Read {
        /// Page that was read.
        ppn: Ppn,
        /// Reason for the read.
        cause: Cause,
        /// Whether only the spare area was read.
        reads_only_spare_area: bool,
    },
    /// A flash page was programmed, or its program failed or was interrupted.
    Program {
        /// Page that was programmed.
        ppn: Ppn,
        /// Reason for the program.
        cause: Cause,
    },
    /// A flash page was copied to another one by GC or wear leveling: one read and one program.
    Copy {
        /// Source page of the copy, which was read.
        from: Ppn,
        /// Destination page of the copy, which was programmed.
        to: Ppn,
        /// Reason for the copy.
        cause: Cause,
    },
    /// A block was erased.
    Erase {
        /// Block that was erased.
        block: BlockId,
        /// Reason for the erase.
        cause: Cause,
    },
    /// GC chose a victim, which it empties and erases next.
    Victim(Box<VictimChoice>),
    /// A part of the FTL starts to write metadata pages; holds the reason for the programs of metadata pages that
    /// follow.
    MetadataWriteStart(MetadataWriteReason),
}

/// A choice of a GC victim: the victim, the rule that chose it (victim policy or wear leveling), and the blocks from
/// which it was chosen.
#[derive(Clone, PartialEq, Debug)]
pub struct VictimChoice {
    /// Number of the pool (set of planes) in which GC chose the victim.
    pub pool: u32,
    /// Number of free blocks of the pool before the collection.
    pub free_blocks: u32,
    /// Block that GC chose as victim.
    pub block: BlockId,
    /// Rule by which GC chose the victim.
    pub rule: VictimRule,
    /// Closed blocks of the pool from which GC could choose (those with an invalid page), in order of their numbers;
    /// the victim is always among them.
    pub candidates: Vec<CandidateProperties>,
}

/// Figures of a block that GC could choose as victim, as the victim policy sees them.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct CandidateProperties {
    /// Number of the candidate block.
    pub block: BlockId,
    /// Number of valid pages of the block that the FTL counts: an upper bound if the map identifies invalid pages late.
    pub valid_pages: u32,
    /// Age of the block: number of flash programs and reverse-map entries since the block was closed.
    pub age_programs: u64,
    /// Number of times that the block was erased.
    pub erases: u32,
    /// Kind of data in the block's pages.
    pub kind: PageKind,
    /// Figure by which the rule that chose the victim ranks this block; `None` if the rule did not examine the block.
    pub rank_score: Option<f64>,
}

/// Rule by which GC chose a victim.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum VictimRule {
    /// The configured victim policy chose the block.
    Policy,
    /// A victim policy that the user supplied chose the block.
    UserPolicy,
    /// GC took the block with the fewest valid pages, whatever the policy, because the pool has too few free blocks.
    UrgentShortageOfFreeBlocks,
    /// GC took the block with the fewest valid pages among those whose valid pages fit into open blocks, because the
    /// pool has no free block.
    NoFreeBlock,
    /// GC took the metadata block with the fewest valid pages, because metadata occupies more than its share of the
    /// blocks.
    MetadataShareExceeded,
    /// GC took the block with the fewest valid pages. It considered all data blocks, but only those metadata blocks
    /// that have no valid page.
    DataOrEmptyMetadata,
    /// GC took the metadata block with the fewest valid pages, because no other block can be collected.
    OnlyMetadata,
    /// GC took another block than the policy chose, because the reverse map has no room for the entries that copying
    /// the chosen block would add.
    EntriesFitReverseMap,
}

impl VictimRule {
    /// All rules by which GC chooses a victim.
    pub const ALL: [Self; 8] = [
        Self::Policy,
        Self::UserPolicy,
        Self::UrgentShortageOfFreeBlocks,
        Self::NoFreeBlock,
        Self::MetadataShareExceeded,
        Self::DataOrEmptyMetadata,
        Self::OnlyMetadata,
        Self::EntriesFitReverseMap,
    ];

    /// Returns the name of the rule that chose a victim: lower case, words joined by `-`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Policy => "policy",
            Self::UserPolicy => "own-policy",
            Self::UrgentShortageOfFreeBlocks => "urgent",
            Self::NoFreeBlock => "no-free-block",
            Self::MetadataShareExceeded => "metadata-share",
            Self::DataOrEmptyMetadata => "empty-metadata",
            Self::OnlyMetadata => "only-metadata",
            Self::EntriesFitReverseMap => "recordable",
        }
    }
}

/// Reason for which a part of the FTL writes metadata pages.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum MetadataWriteReason {
    /// The RAM cache of map entries is full, and a dirty entry is evicted: its translation page is written.
    Eviction,
    /// The map writes entries early: it holds more dirty entries or unidentified invalid pages than it may, or NVRAM is
    /// nearly full of dirty entries.
    MapEntryLimit,
    /// A checkpoint of the map writes entries that have been dirty for a long time.
    MapCheckpoint,
    /// A trim writes translation pages, because the trim must be on flash when it returns.
    Trim,
    /// All dirty entries of the map are written: a battery saves them at power loss, or the drive is shut down.
    WriteBack,
    /// A page of the map's journal is full and is written.
    JournalPageFull,
    /// The map's journal has its maximum length, so its changes are merged into translation pages.
    JournalMerge,
    /// The RAM buffer of the validity store is full and is written.
    ValidityBufferFull,
    /// The RAM buffer of the validity store is written early, because recovery can replay only a bounded number of
    /// reports that pages became invalid.
    ValidityReplayLimit,
    /// Sorted runs of the validity store (Logarithmic Gecko) are merged.
    ValidityMerge,
    /// A page became invalid, and its bit is set in the bitmap on flash.
    ValidityBitmapUpdate,
    /// The NVRAM buffer of the reverse map's log is full and is written to flash.
    ReverseMapLogFull,
}

impl MetadataWriteReason {
    /// All reasons for which metadata pages are written.
    pub const ALL: [Self; 12] = [
        Self::Eviction,
        Self::MapEntryLimit,
        Self::MapCheckpoint,
        Self::Trim,
        Self::WriteBack,
        Self::JournalPageFull,
        Self::JournalMerge,
        Self::ValidityBufferFull,
        Self::ValidityReplayLimit,
        Self::ValidityMerge,
        Self::ValidityBitmapUpdate,
        Self::ReverseMapLogFull,
    ];

    /// Returns the name of the reason for a metadata write: lower case, words joined by `-`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Eviction => "eviction",
            Self::MapEntryLimit => "map-bound",
            Self::MapCheckpoint => "map-checkpoint",
            Self::Trim => "trim",
            Self::WriteBack => "write-back",
            Self::JournalPageFull => "journal-full",
            Self::JournalMerge => "journal-merge",
            Self::ValidityBufferFull => "validity-buffer-full",
            Self::ValidityReplayLimit => "validity-due",
            Self::ValidityMerge => "validity-merge",
            Self::ValidityBitmapUpdate => "validity-bit",
            Self::ReverseMapLogFull => "log-buffer-full",
        }
    }
}
