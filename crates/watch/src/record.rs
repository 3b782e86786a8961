//! The record of a step-by-step run (`wearwell watch`) on a small drive: the data that its HTML page shows.
//!
//! The record holds the new drive and, for each step, what the engine did (in its order) and which flash pages, blocks
//! and logical pages it changed. So a reader can rebuild the state of the drive at any step; [`DriveState`] is that
//! state. Rows are arrays in JSON, because a step changes dozens of pages: the order of their columns is that of the
//! fields. States and kinds are codes: indexes into the lists of [`NamesByCode`].

use serde::Serialize;
use wearwell::flash_view::{FlashPageState, FlashStateView};
use wearwell::logical_page_form::LogicalPageForm;
use wearwell::nand::PageKind;
use wearwell::store::{BlockState, Stream};
use wearwell_replay::json::ToJson;

/// Record of a step-by-step run (`wearwell watch`): the small drive, and every step of the run.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Walkthrough {
    /// Version of Wearwell that recorded the step-by-step run.
    pub version: String,
    /// Name of the design that the drive runs.
    pub design: String,
    /// Source of the design, such as the paper that proposed it.
    pub source: String,
    /// Name of the input: a trace, or the specification of a generator.
    pub input: String,
    /// The drive on which the input runs.
    pub drive: WatchedDriveLayout,
    /// Sentences for people: what must be known to read the record.
    pub notes: Vec<String>,
    /// Names for the numeric codes that the rows of the record contain.
    pub names: NamesByCode,
    /// Steps of the run in order; the first shows the new drive.
    pub steps: Vec<WalkthroughStep>,
}

impl ToJson for Walkthrough {
    fn to_json(&self) -> String {
        serde_json::to_string(self).expect("results are plain data")
    }
}

/// Layout and garbage-collection options of the drive of a step-by-step run.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct WatchedDriveLayout {
    /// Number of dies of the drive.
    pub dies: u32,
    /// Number of planes of each die.
    pub planes_per_die: u32,
    /// Planes that form a superblock; 1 = plain blocks.
    pub superblock_planes: u32,
    /// Names of the allocation pools: each is one plane, or the planes over which superblocks extend. Block `b` is in
    /// pool `b % pools.len()`.
    pub pools: Vec<String>,
    /// Number of blocks of the drive. A superblock counts as one.
    pub blocks: u32,
    /// Number of pages of each block.
    pub block_pages: u32,
    /// Data bytes of a page.
    pub page_bytes: u32,
    /// Pages that the drive exports to the host.
    pub logical_pages: u32,
    /// Start threshold of GC: if a pool has at most this number of free blocks, GC runs before a write.
    pub low_blocks: u32,
    /// Name of the victim policy, by which GC chooses the block to collect.
    pub policy: String,
    /// Name of the figure by which the victim policy ranks a candidate block, such as "valid pages".
    pub figure: String,
}

/// Names for the numeric codes of page states, page kinds, block states, streams and forms in the record of a
/// step-by-step run.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct NamesByCode {
    /// Names of the states of flash pages, by code.
    pub page_states: Vec<&'static str>,
    /// Names of the kinds of flash pages, by code; code 0 is a page without content.
    pub kinds: Vec<&'static str>,
    /// Names of the states of blocks, by code.
    pub block_states: Vec<&'static str>,
    /// Names of the streams of writes that fill open blocks, by code; code 0 is a block that is not open.
    pub streams: Vec<&'static str>,
    /// Names of the forms in which logical pages are stored (such as whole page or delta), by code.
    pub forms: Vec<&'static str>,
}

impl Default for NamesByCode {
    fn default() -> Self {
        let none = std::iter::once("none");
        Self {
            page_states: FlashPageState::ALL.map(FlashPageState::name).to_vec(),
            kinds: none.clone().chain(PageKind::ALL.map(PageKind::name)).collect(),
            block_states: BlockState::ALL.map(BlockState::name).to_vec(),
            streams: none.chain(Stream::ALL.map(Stream::name)).collect(),
            forms: LogicalPageForm::ALL.map(LogicalPageForm::name).to_vec(),
        }
    }
}

/// One step: a request of the host, a loss of power, or the recovery from a loss of power.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct WalkthroughStep {
    /// Title of the step: the request, or the loss of power, in a few words.
    pub title: String,
    /// Sentences that say what happened in the step, and why.
    pub sentences: Vec<String>,
    /// Groups to which the step belongs (such as steps with a collection); the HTML page jumps to the next step of a
    /// group.
    pub marks: Vec<StepGroup>,
    /// Events that the engine reported in the step, in order.
    pub events: Vec<EventRow>,
    /// Flash pages that the step changed, in their state after the step.
    pub pages: Vec<FlashPageRow>,
    /// Blocks that the step changed, in their state after the step.
    pub blocks: Vec<BlockRow>,
    /// Map entries that the step changed: logical pages with a new location on flash or a new stored form, as they are
    /// after the step.
    pub map: Vec<LogicalPageRow>,
    /// Counters of the drive after the step, since it was new.
    pub counters: DriveCounters,
}

/// Group of steps to which the HTML page of a step-by-step run can jump, such as the steps with a garbage collection.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum StepGroup {
    /// GC or wear leveling emptied a block.
    Collection,
    /// A logical page was mapped to stored content without a program: deduplication, recycling or a remap.
    Bind,
    /// A logical page was stored as a delta.
    Delta,
    /// Logical pages were compressed together into a chunk, and programmed.
    Chunk,
    /// A metadata page was programmed.
    Metadata,
    /// Power was cut (lost).
    Cut,
    /// The drive recovered.
    Recovery,
}

/// Event that the engine reported: a flash operation, the choice of a GC victim, or the reason for writing metadata.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[serde(tag = "op", rename_all = "kebab-case")]
pub enum EventRow {
    /// A flash page was read.
    Read {
        /// Name of the cause of the read, such as `host` or `gc`.
        cause: &'static str,
        /// Physical page number (PPN) of the page that was read.
        page: u32,
        /// Whether only the spare area was read.
        spare: bool,
    },
    /// A flash page was programmed.
    Program {
        /// Name of the cause of the program, such as `host` or `gc`.
        cause: &'static str,
        /// PPN of the page that was programmed.
        page: u32,
    },
    /// A flash page was copied.
    Copy {
        /// Name of the cause of the copy, such as `gc` or `wear`.
        cause: &'static str,
        /// PPN of the page whose content was copied.
        from: u32,
        /// PPN of the page to which the content was copied.
        to: u32,
    },
    /// A block was erased.
    Erase {
        /// Name of the cause of the erase, such as `gc` or `wear`.
        cause: &'static str,
        /// Number of the erased block.
        block: u32,
    },
    /// GC chose a victim.
    Victim {
        /// Number of the pool in which GC collects a block.
        pool: u32,
        /// Number of free blocks in the pool before the collection.
        free: u32,
        /// Number of the victim block.
        block: u32,
        /// Name of the rule by which the victim was chosen.
        rule: &'static str,
        /// Blocks from which the victim was chosen.
        candidates: Vec<VictimCandidateRow>,
    },
    /// The reason for which the FTL writes the metadata pages that follow.
    Reason {
        /// Name of the reason for writing metadata, such as `eviction`.
        why: &'static str,
    },
}

/// Row of a block that GC could choose as victim, in this order: block number, number of valid pages, age in programs,
/// erase count, code of its kind, and the figure by which the victim policy ranks the block (`None`: the policy did not
/// examine the block, or the figure is infinite because no page is valid).
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct VictimCandidateRow(pub u32, pub u32, pub u64, pub u32, pub u8, pub Option<f64>);

/// Row of a flash page in the record, in this order: PPN, code of its state, code of its kind, owner that its OOB names
/// (LPN, or number of a metadata page), number of logical pages mapped to the page.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct FlashPageRow(pub u32, pub u8, pub u8, pub Option<u32>, pub u32);

/// Row of a block in the record, in this order: block number, code of its state, code of the stream that fills it,
/// number of valid pages, erase count.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct BlockRow(pub u32, pub u8, pub u8, pub u32, pub u32);

/// Row of a logical page in the record, in this order: LPN, code of the form in which it is stored (plain page, delta,
/// chunk member and others), PPNs of the flash pages that a read of it needs.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct LogicalPageRow(pub u32, pub u8, pub Vec<u32>);

/// Counters of a drive since it was new.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct DriveCounters {
    /// Pages that the host wrote.
    pub host_writes: u64,
    /// Page programs of all causes.
    pub programs: u64,
    /// Page programs for host writes.
    pub host_programs: u64,
    /// Flash page reads of all causes, reads of spare areas included.
    pub reads: u64,
    /// Block erases of all causes.
    pub erases: u64,
    /// Binds: pages of host writes and remaps that were mapped to stored content, without a program.
    pub binds: u64,
    /// Number of free blocks of the drive.
    pub free_blocks: u32,
}

/// State of a drive at a step: all of its flash pages, blocks and logical pages.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DriveState {
    /// All flash pages of the drive, by PPN.
    pub pages: Vec<FlashPageRow>,
    /// All blocks of the drive, by number.
    pub blocks: Vec<BlockRow>,
    /// All logical pages of the drive, by LPN.
    pub map: Vec<LogicalPageRow>,
}

/// Returns the numeric code that stands for `value` in the record: its index in `all`, plus `first`, the code of the
/// list's first value.
fn code_by_list_position<T: PartialEq>(all: &[T], value: &T, first: u8) -> u8 {
    first + all.iter().position(|each| each == value).expect("every value is in the list of all values") as u8
}

/// Returns the code that stands for a kind of flash page in the record; 0 for none.
pub(super) fn code_of_page_kind(kind: Option<PageKind>) -> u8 {
    kind.map_or(0, |kind| code_by_list_position(&PageKind::ALL, &kind, 1))
}

impl DriveState {
    /// Returns the state of a drive without content: every flash page is free, and no logical page is mapped.
    pub fn of_empty_drive(drive: &WatchedDriveLayout) -> Self {
        Self {
            pages: (0..drive.blocks * drive.block_pages)
                .map(|ppn| FlashPageRow(ppn, 0, 0, None, 0))
                .collect(),
            blocks: (0..drive.blocks).map(|block| BlockRow(block, 0, 0, 0, 0)).collect(),
            map: (0..drive.logical_pages).map(|lpn| LogicalPageRow(lpn, 0, Vec::new())).collect(),
        }
    }

    /// Returns the state of the drive that a snapshot of all its flash pages, blocks and logical pages shows.
    pub fn of_flash_view(view: &FlashStateView) -> Self {
        let pages = (0..).zip(&view.pages).map(|(ppn, page)| {
            let state = code_by_list_position(&FlashPageState::ALL, &page.state, 0);
            FlashPageRow(ppn, state, code_of_page_kind(page.kind), page.owner, page.mapped_logical_pages)
        });
        let blocks = (0..).zip(&view.blocks).map(|(number, block)| {
            let stream = block.stream.map_or(0, |stream| code_by_list_position(&Stream::ALL, &stream, 1));
            let state = code_by_list_position(&BlockState::ALL, &block.state, 0);
            BlockRow(number, state, stream, block.valid_pages, block.erases)
        });
        let map =
            (0..).zip(&view.first_flash_page_of_lpn).zip(&view.form_of_lpn).map(|((lpn, place), form)| {
                let further = view.further_flash_pages_of_lpn.get(&wearwell::address::Lpn(lpn));
                let places = place.iter().chain(further.into_iter().flatten()).map(|ppn| ppn.0).collect();
                LogicalPageRow(lpn, code_by_list_position(&LogicalPageForm::ALL, form, 0), places)
            });
        Self { pages: pages.collect(), blocks: blocks.collect(), map: map.collect() }
    }

    /// Returns the name of the state of a flash page.
    pub(super) fn page_state_name(&self, ppn: u32) -> &'static str {
        FlashPageState::ALL[self.pages[ppn as usize].1 as usize].name()
    }

    /// Returns the kind of data that a flash page holds.
    pub(super) fn kind_of_flash_page(&self, ppn: u32) -> Option<PageKind> {
        let code = self.pages[ppn as usize].2 as usize;
        code.checked_sub(1).map(|code| PageKind::ALL[code])
    }

    /// Returns the form in which a logical page is stored, such as a whole page, a delta or a compressed chunk.
    pub(super) fn stored_form_of_lpn(&self, lpn: u32) -> LogicalPageForm {
        LogicalPageForm::ALL[self.map[lpn as usize].1 as usize]
    }

    /// Changes this state of the drive to its state after `step`.
    pub fn apply_step(&mut self, step: &WalkthroughStep) {
        step.pages.iter().for_each(|row| self.pages[row.0 as usize] = *row);
        step.blocks.iter().for_each(|row| self.blocks[row.0 as usize] = *row);
        step.map.iter().for_each(|row| self.map[row.0 as usize] = row.clone());
    }

    /// Sets the changed flash pages, blocks and logical pages of `step`: the rows of `after`, the state after the step,
    /// that differ from the rows of this state.
    pub(super) fn set_changed_rows(&self, after: &Self, step: &mut WalkthroughStep) {
        /// Returns the rows of `after` that differ from those of `before`.
        fn changed_rows<T: PartialEq + Clone>(before: &[T], after: &[T]) -> Vec<T> {
            before.iter().zip(after).filter(|(old, new)| old != new).map(|(_, new)| new.clone()).collect()
        }
        step.pages = changed_rows(&self.pages, &after.pages);
        step.blocks = changed_rows(&self.blocks, &after.blocks);
        step.map = changed_rows(&self.map, &after.map);
    }
}
