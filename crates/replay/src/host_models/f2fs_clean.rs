//! F2FS under a file-server or database load, with segment cleaning by remaps or by reads and writes: the third case
//! study of Remap-SSD (FAST 2021, section 5.4).
//!
//! Three phases as in the paper, marked in the request stream. First files are created and the load runs, which leaves
//! invalid blocks. Then the cleaner is forced to run until no closed segment has an invalid block. Then the load runs
//! again.
//!
//! Modelled: segments of 2 MiB (512 blocks). Writes are out of place, into separate logs for file data and for inodes,
//! and for what the cleaner moves of either. The cleaner chooses victims greedily, also when the load runs short of
//! free segments, and discards an emptied segment as a whole. File sizes are exponential around `mean`.
//!
//! - `load=fileserver`: filebench's mix with its mean of 128 KiB and appends of 16 KiB. A step replaces, appends to or
//!   reads a file chosen uniformly, each with equal probability (filebench does these in turn). Every change of a file
//!   writes its inode block.
//! - `load=ycsb`: the locality that zipfian updates of a database (the paper's `MongoDB`) have after they are spread
//!   over its files. A step overwrites one page, chosen by a zipf law over all pages and scattered. A sync after every
//!   32 steps writes the inodes of the files that changed. The database's own journal and checkpoints are not included
//!   (see `ycsb`).
//!
//! Not modelled: checkpoint, NAT and SIT areas, indirect nodes, directories, writing into holes of dirty segments,
//! updates in place (which F2FS uses when it is nearly full), and caching of reads.

use std::collections::{BTreeSet, VecDeque};

use rand_xoshiro::Xoshiro256PlusPlus;
use wearwell::address::RemapMode;

use super::files::{draw_file_size_pages, for_each_consecutive_run};
use super::script::{CopyMethod, RequestScript};
use super::spec_values::SpecValues;
use super::{HostModel, REMAP_KEY};
use crate::workload::draw::{Zipf, uniform_below};
use crate::workload::permutation::Permutation;
use crate::workload::spec_grammar::{SpecError, SpecKey, SpecKind};

/// Specification kind of the host model `f2fs-clean`: its name, description and keys.
pub(super) const SPEC_KIND: SpecKind = SpecKind {
    name: "f2fs-clean",
    meaning: "F2FS in three phases: load, forced cleaning, load again",
    keys: &[
        SpecKey { name: "segments", default: "256", meaning: "of 2 MiB, 64 to 65536" },
        SpecKey {
            name: "files",
            default: "2000",
            meaning: "1 to 1e7; with their mean they fill at most 0.8 of the volume",
        },
        SpecKey { name: "mean", default: "32", meaning: "size of a file, pages, 1 to 65536" },
        SpecKey {
            name: "load",
            default: "fileserver",
            meaning: "fileserver (whole files, appends) or ycsb (zipfian pages)",
        },
        SpecKey { name: "append", default: "4", meaning: "fileserver: pages of an append, 1 to 65536" },
        SpecKey { name: "theta", default: "0.99", meaning: "ycsb: zipf exponent, 0 to 2" },
        SpecKey {
            name: "ops",
            default: "6000",
            meaning: "steps of the load in each of its two phases, 0 to 1e9",
        },
        REMAP_KEY,
    ],
};

/// Number of pages that the database load overwrites between two syncs; a sync writes the inodes of the changed files.
const OVERWRITES_BETWEEN_SYNCS: u64 = 32;
/// Number of blocks (of the file system, one page each) in a segment of F2FS.
const BLOCKS_PER_SEGMENT: u32 = 512;
/// Number of free segments below which F2FS's cleaner starts: one for each log, and two to move blocks into.
const RESERVE_SEGMENTS: usize = 6;

/// The four append logs of the file system: one each for file data and for inodes, and two for the data and inodes that
/// the cleaner moves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum AppendLog {
    /// Log of the data blocks of files.
    Data,
    /// Log of the inodes of files.
    Node,
    /// Log of data blocks that the cleaner moves out of victim segments.
    MovedData,
    /// Log of inodes that the cleaner moves out of victim segments.
    MovedNode,
}

/// State of a segment of the simulated file system: unused, being appended to, or full.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum SegmentState {
    /// The segment is unused.
    Free,
    /// A log appends to the segment.
    Open,
    /// The segment is full, and can be a victim of the cleaner.
    Closed,
}

/// The owner of a valid block of the file system: a file (data block), or the file's inode.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct BlockOwner {
    /// Number of the file.
    file: u32,
    /// Number of the data block in its file; `None` for the inode.
    block_index_in_file: Option<u32>,
}

/// A file of the simulated file system: the numbers of its data blocks, and of the block of its inode.
#[derive(Clone, Default, Debug)]
struct File {
    /// Block number of each data block of the file, in the order of the file.
    blocks: Vec<u32>,
    /// Block number of the inode; `None` if the inode is not written yet.
    inode_block: Option<u32>,
}

/// The main area of the simulated file system: its segments of 512 blocks, and the file that owns each block.
#[derive(Debug)]
struct MainArea {
    /// File that owns each block, by block number; `None` for a block that is free or invalid.
    block_owners: Vec<Option<BlockOwner>>,
    /// Number of valid blocks in each segment.
    segment_valid_block_counts: Vec<u32>,
    /// State of each segment: free, open or closed.
    segment_states: Vec<SegmentState>,
    /// Numbers of the free segments, in the order in which they will be opened.
    free_segments: VecDeque<u32>,
    /// Block to which each log of the file system appends next; `None` if the log needs a new segment.
    log_heads: [Option<u32>; 4],
    /// Number of valid blocks in all segments.
    valid_block_count: u64,
}

impl MainArea {
    /// Creates an empty main area of this many segments.
    fn new(segments: u32) -> Self {
        Self {
            block_owners: vec![None; (segments * BLOCKS_PER_SEGMENT) as usize],
            segment_valid_block_counts: vec![0; segments as usize],
            segment_states: vec![SegmentState::Free; segments as usize],
            free_segments: (0..segments).collect(),
            log_heads: [None; 4],
            valid_block_count: 0,
        }
    }

    /// Appends a block of `owner` to a log of the file system, and returns the number of the block.
    fn append_block(&mut self, log: AppendLog, owner: BlockOwner) -> u32 {
        let block = self.log_heads[log as usize].unwrap_or_else(|| self.open_segment() * BLOCKS_PER_SEGMENT);
        let segment = (block / BLOCKS_PER_SEGMENT) as usize;
        let is_last = (block + 1).is_multiple_of(BLOCKS_PER_SEGMENT);
        self.log_heads[log as usize] = (!is_last).then_some(block + 1);
        self.segment_states[segment] = if is_last { SegmentState::Closed } else { SegmentState::Open };
        self.block_owners[block as usize] = Some(owner);
        self.segment_valid_block_counts[segment] += 1;
        self.valid_block_count += 1;
        block
    }

    /// Takes the next free segment for a log, and returns the number of the segment.
    fn open_segment(&mut self) -> u32 {
        self.free_segments.pop_front().expect("the load keeps free segments in reserve")
    }

    /// Marks a block of the file system as invalid, because its owner was overwritten, moved or deleted.
    fn invalidate_block(&mut self, block: u32) {
        self.block_owners[block as usize] = None;
        self.segment_valid_block_counts[(block / BLOCKS_PER_SEGMENT) as usize] -= 1;
        self.valid_block_count -= 1;
    }

    /// Returns the cleaner's victim: the closed segment with the most invalid blocks; `None` if no closed segment has
    /// an invalid block.
    fn choose_victim(&self) -> Option<u32> {
        let dirty = |segment: &u32| {
            self.segment_states[*segment as usize] == SegmentState::Closed
                && self.segment_valid_block_counts[*segment as usize] < BLOCKS_PER_SEGMENT
        };
        (0..self.segment_states.len() as u32)
            .filter(dirty)
            .min_by_key(|&segment| self.segment_valid_block_counts[segment as usize])
    }
}

/// The load that runs on the file system: a file server or a database.
#[derive(Debug)]
enum FileSystemLoad {
    /// A file server, which appends `append_pages` pages at a time.
    Fileserver {
        /// Number of pages of an append.
        append_pages: u64,
    },
    /// A database, which overwrites single popular pages.
    Ycsb {
        /// Exponent of the zipf law of the pages' popularity.
        theta: f64,
        /// Pages of the database; `None` before the first step of the load.
        pages: Option<DatabasePages>,
    },
}

/// The pages of all database files, numbered as one range, and the probability that each is overwritten.
#[derive(Debug)]
struct DatabasePages {
    /// First page of each file in the common range of all files' pages.
    file_first_pages: Vec<u64>,
    /// Popularity of the database pages, by rank.
    page_rank_distribution: Zipf,
    /// Page for each rank of popularity, so that popular pages are scattered over the files.
    page_permutation: Permutation,
    /// Files that changed since the last sync of the database.
    dirty_files: BTreeSet<u32>,
    /// Number of overwrites that the database load has performed so far.
    load_steps_done: u64,
}

impl DatabasePages {
    /// Numbers the pages of all `files` as one range, and scatters their popularity (zipf exponent `theta`).
    fn of_files(files: &[File], theta: f64, seed: u64) -> Self {
        let mut total = 0;
        let starts = files.iter().map(|file| {
            total += file.blocks.len() as u64;
            total - file.blocks.len() as u64
        });
        let file_first_pages = starts.collect();
        let (page_rank_distribution, page_permutation) =
            (Zipf::new(total, theta), Permutation::new(total, seed));
        Self {
            file_first_pages,
            page_rank_distribution,
            page_permutation,
            dirty_files: BTreeSet::new(),
            load_steps_done: 0,
        }
    }

    /// Draws a popular page of the database; returns its file and its page number in the file.
    fn draw_page(&mut self, random: &mut Xoshiro256PlusPlus) -> (u32, u32) {
        let page = self.page_permutation.apply(self.page_rank_distribution.draw(random) - 1);
        let file = self.file_first_pages.partition_point(|&start| start <= page) - 1;
        (file as u32, (page - self.file_first_pages[file]) as u32)
    }
}

/// Generator of the host model `f2fs-clean`: F2FS under a load, with segment cleaning.
#[derive(Debug)]
pub(super) struct F2fsClean {
    /// Random number generator of the load.
    random: Xoshiro256PlusPlus,
    /// Segments and block owners of the simulated file system.
    main_area: MainArea,
    /// Files of the simulated file system, by file number.
    files: Vec<File>,
    /// Mean size of a file, pages.
    mean_file_pages: u64,
    /// Load that runs on the file system: a file server or a database.
    load: FileSystemLoad,
    /// Seed that determines which pages of the database are popular.
    seed: u64,
    /// Number of steps in each of the two phases of the load, before and after cleaning. A step is one operation on a
    /// file (`load=fileserver`) or one page update (`load=ycsb`).
    load_steps_per_phase: u64,
    /// Whether the cleaner moves blocks by remap requests or by reads and writes.
    copy_method: CopyMethod,
    /// Progress through the phases: creating files, load, cleaning, load again.
    model_phase: ModelPhase,
}

/// Progress of the host model `f2fs-clean` through its phases: creating files, load, cleaning, load again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum ModelPhase {
    /// Files are being created; `next_file` is the number of the next one.
    Creating {
        /// Number of the next file to create.
        next_file: u32,
    },
    /// The load runs for the first time, or again after cleaning, with this many steps left.
    RunningLoad {
        /// Number of steps of the load that are left in this phase.
        steps_left: u64,
        /// Whether this is the second run of the load, after the cleaning.
        is_after_cleaning: bool,
    },
    /// The cleaner runs until no closed segment has an invalid block.
    Cleaning,
    /// All phases are over.
    Done,
}

impl F2fsClean {
    /// Creates the generator from the values of its specification's keys; files that would fill more than 0.8 of the
    /// volume are refused.
    pub(super) fn new(keys: &SpecValues, random: Xoshiro256PlusPlus) -> Result<Self, SpecError> {
        let segments = keys.integer_of_key("segments", 64..=65_536)?;
        let files = keys.integer_of_key("files", 1..=10_000_000)?;
        let mean = keys.integer_of_key("mean", 1..=65_536)?;
        let append = keys.integer_of_key("append", 1..=65_536)?;
        let theta = keys.number_of_key("theta", 0.0..=2.0)?;
        let serves_files =
            keys.is_first_of_two_words("load", ["fileserver", "ycsb"], "fileserver or ycsb")?;
        if serves_files {
            keys.refuse_without_effect("theta", "load=ycsb")?;
        } else {
            keys.refuse_without_effect("append", "load=fileserver")?;
        }
        let filled = files * (mean + append + 1);
        if filled * 10 > segments * u64::from(BLOCKS_PER_SEGMENT) * 8 {
            return Err(SpecError::ConflictingKeys(format!(
                "the files would fill {filled} pages (files={files}, each of mean={mean}, append={append} and one \
                 node page), but may fill at most 80 % of the {} pages of segments={segments}: lower files, mean or \
                 append, or raise segments",
                segments * u64::from(BLOCKS_PER_SEGMENT)
            )));
        }
        Ok(Self {
            random,
            main_area: MainArea::new(segments as u32),
            files: vec![File::default(); files as usize],
            mean_file_pages: mean,
            load: if serves_files {
                FileSystemLoad::Fileserver { append_pages: append }
            } else {
                FileSystemLoad::Ycsb { theta, pages: None }
            },
            seed: keys.integer_of_key("seed", 0..=u64::MAX)?,
            load_steps_per_phase: keys.integer_of_key("ops", 0..=1_000_000_000)?,
            copy_method: if keys.is_key_on("remap")? {
                CopyMethod::Remapped
            } else {
                CopyMethod::ReadAndWritten
            },
            model_phase: ModelPhase::Creating { next_file: 0 },
        })
    }

    /// Performs one step of the file-server or database load.
    fn perform_load_step(&mut self, script: &mut RequestScript) {
        match &mut self.load {
            FileSystemLoad::Fileserver { append_pages } => {
                let append_pages = *append_pages;
                self.perform_fileserver_step(append_pages, script);
            }
            FileSystemLoad::Ycsb { theta, pages } => {
                let pages =
                    pages.get_or_insert_with(|| DatabasePages::of_files(&self.files, *theta, self.seed));
                let (file, index) = pages.draw_page(&mut self.random);
                pages.dirty_files.insert(file);
                pages.load_steps_done += 1;
                let is_sync = pages.load_steps_done.is_multiple_of(OVERWRITES_BETWEEN_SYNCS);
                let dirty = if is_sync { std::mem::take(&mut pages.dirty_files) } else { BTreeSet::new() };
                self.overwrite_page(file, index, script);
                for file in dirty {
                    self.write_inode(file, script);
                }
            }
        }
    }

    /// Replaces, appends to or reads a random file (each with equal probability).
    fn perform_fileserver_step(&mut self, append_pages: u64, script: &mut RequestScript) {
        let file = uniform_below(&mut self.random, self.files.len() as u64) as u32;
        match uniform_below(&mut self.random, 3) {
            0 => self.replace_file(file, script),
            1 => self.extend_file(file, append_pages, script),
            _ => {
                for_each_consecutive_run(&self.files[file as usize].blocks, |first, pages| {
                    script.plan_read(first, pages);
                });
            }
        }
    }

    /// Overwrites one page of a file: its new block is appended to the data log, and the old block becomes invalid.
    fn overwrite_page(&mut self, file: u32, index: u32, script: &mut RequestScript) {
        self.clean_until_pages_free(1, script);
        self.main_area.invalidate_block(self.files[file as usize].blocks[index as usize]);
        let block = self
            .main_area
            .append_block(AppendLog::Data, BlockOwner { file, block_index_in_file: Some(index) });
        self.files[file as usize].blocks[index as usize] = block;
        script.plan_write(u64::from(block), 1);
    }

    /// Deletes a file of the simulated file system, and creates it again with another size.
    fn replace_file(&mut self, file: u32, script: &mut RequestScript) {
        for block in std::mem::take(&mut self.files[file as usize].blocks) {
            self.main_area.invalidate_block(block);
        }
        let pages = draw_file_size_pages(&mut self.random, self.mean_file_pages);
        self.extend_file(file, pages, script);
    }

    /// Appends pages to a file and writes its inode. Stops at 0.85 of the volume, where the file system would report
    /// that it is full.
    fn extend_file(&mut self, file: u32, pages: u64, script: &mut RequestScript) {
        let limit = self.main_area.block_owners.len() as u64 * 85 / 100;
        let pages = pages.min(limit.saturating_sub(self.main_area.valid_block_count));
        self.clean_until_pages_free(pages, script);
        let start = self.files[file as usize].blocks.len();
        for index in start as u32..start as u32 + pages as u32 {
            let block = self
                .main_area
                .append_block(AppendLog::Data, BlockOwner { file, block_index_in_file: Some(index) });
            self.files[file as usize].blocks.push(block);
        }
        for_each_consecutive_run(&self.files[file as usize].blocks[start..], |first, pages| {
            script.plan_write(first, pages);
        });
        self.write_inode(file, script);
    }

    /// Writes the inode of a file to the inode log, and invalidates its old block.
    fn write_inode(&mut self, file: u32, script: &mut RequestScript) {
        self.clean_until_pages_free(1, script);
        if let Some(old) = self.files[file as usize].inode_block.take() {
            self.main_area.invalidate_block(old);
        }
        let inode =
            self.main_area.append_block(AppendLog::Node, BlockOwner { file, block_index_in_file: None });
        self.files[file as usize].inode_block = Some(inode);
        script.plan_write(u64::from(inode), 1);
    }

    /// Cleans segments until `pages` pages can be written without using the reserve segments, or nothing is left to
    /// clean.
    fn clean_until_pages_free(&mut self, pages: u64, script: &mut RequestScript) {
        let wanted = RESERVE_SEGMENTS + (pages / u64::from(BLOCKS_PER_SEGMENT)) as usize;
        while self.main_area.free_segments.len() < wanted {
            let Some(victim) = self.main_area.choose_victim() else { return };
            self.clean_segment(victim, script);
        }
    }

    /// Moves the valid blocks of a segment to other segments, and discards the segment.
    fn clean_segment(&mut self, segment: u32, script: &mut RequestScript) {
        let first = segment * BLOCKS_PER_SEGMENT;
        let mut moves: Vec<(u32, u32)> = Vec::new();
        for block in first..first + BLOCKS_PER_SEGMENT {
            let Some(owner) = self.main_area.block_owners[block as usize] else { continue };
            self.main_area.invalidate_block(block);
            moves.push((self.move_block(owner), block));
        }
        for run in moves.chunk_by(|a, b| a.0 + 1 == b.0 && a.1 + 1 == b.1) {
            let (target, source) = run[0];
            let (target, source) = (u64::from(target), u64::from(source));
            script.plan_copy(target, source, run.len() as u64, RemapMode::Relocate, self.copy_method);
        }
        script.plan_trim(u64::from(first), u64::from(BLOCKS_PER_SEGMENT));
        self.main_area.segment_states[segment as usize] = SegmentState::Free;
        self.main_area.free_segments.push_back(segment);
    }

    /// Appends a valid block of the file system to the cleaner's log for data or inodes, and returns its new block
    /// number.
    fn move_block(&mut self, owner: BlockOwner) -> u32 {
        let file = &mut self.files[owner.file as usize];
        let Some(index) = owner.block_index_in_file else {
            return *file.inode_block.insert(self.main_area.append_block(AppendLog::MovedNode, owner));
        };
        let block = self.main_area.append_block(AppendLog::MovedData, owner);
        file.blocks[index as usize] = block;
        block
    }

    /// Performs one more step of the current phase (creating files, load, cleaning), or begins the next phase; returns
    /// the new progress.
    fn advance_phase(&mut self, script: &mut RequestScript) -> ModelPhase {
        match self.model_phase {
            ModelPhase::Creating { next_file } if next_file as usize == self.files.len() => {
                ModelPhase::RunningLoad { steps_left: self.load_steps_per_phase, is_after_cleaning: false }
            }
            ModelPhase::Creating { next_file } => {
                self.replace_file(next_file, script);
                ModelPhase::Creating { next_file: next_file + 1 }
            }
            ModelPhase::RunningLoad { steps_left: 0, is_after_cleaning: false } => {
                script.plan_phase_mark();
                ModelPhase::Cleaning
            }
            ModelPhase::RunningLoad { steps_left: 0, is_after_cleaning: true } | ModelPhase::Done => {
                ModelPhase::Done
            }
            ModelPhase::RunningLoad { steps_left, is_after_cleaning } => {
                self.perform_load_step(script);
                ModelPhase::RunningLoad { steps_left: steps_left - 1, is_after_cleaning }
            }
            ModelPhase::Cleaning => {
                let Some(victim) = self.main_area.choose_victim() else {
                    script.plan_phase_mark();
                    return ModelPhase::RunningLoad {
                        steps_left: self.load_steps_per_phase,
                        is_after_cleaning: true,
                    };
                };
                self.clean_segment(victim, script);
                ModelPhase::Cleaning
            }
        }
    }
}

impl HostModel for F2fsClean {
    fn plan_next_requests(&mut self, script: &mut RequestScript) {
        while script.is_empty() && self.model_phase != ModelPhase::Done {
            self.model_phase = self.advance_phase(script);
        }
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;
    use wearwell_trace::Request;

    use super::super::{HOST_MODEL_GRAMMAR, HostModelSpec};
    use super::*;
    use crate::content_model::{ContentModel, ContentModelSpec, ContentSource};
    use crate::workload::spec_grammar::SpecOptions;

    /// Asserts that three records of the simulated file system agree: the valid counts of segments, the owner of each
    /// block, and the list of blocks of each file.
    fn check_block_ownership(model: &F2fsClean) {
        let area = &model.main_area;
        for (segment, &valid) in area.segment_valid_block_counts.iter().enumerate() {
            let first = segment * BLOCKS_PER_SEGMENT as usize;
            let owners = &area.block_owners[first..first + BLOCKS_PER_SEGMENT as usize];
            assert_eq!(owners.iter().flatten().count(), valid as usize);
            assert!(area.segment_states[segment] != SegmentState::Free || valid == 0);
        }
        let owner_of = |block: u32| area.block_owners[block as usize];
        let mut live = 0;
        for (file, number) in model.files.iter().zip(0..) {
            for (&block, index) in file.blocks.iter().zip(0..) {
                assert_eq!(
                    owner_of(block),
                    Some(BlockOwner { file: number, block_index_in_file: Some(index) })
                );
            }
            if let Some(inode) = file.inode_block {
                assert_eq!(owner_of(inode), Some(BlockOwner { file: number, block_index_in_file: None }));
            }
            live += file.blocks.len() as u64 + u64::from(file.inode_block.is_some());
        }
        assert_eq!(live, area.valid_block_count);
    }

    #[test]
    fn f2fs_blocks_have_one_owner_and_forced_cleaning_leaves_no_invalid_block() {
        for load in ["fileserver", "ycsb"] {
            let text = format!("f2fs-clean:segments=64,files=500,ops=6000,load={load}");
            let spec: HostModelSpec = text.parse().unwrap();
            let options = SpecOptions::parse(&spec.spec_text, &HOST_MODEL_GRAMMAR).unwrap();
            let random = Xoshiro256PlusPlus::seed_from_u64(5);
            let mut model = F2fsClean::new(&SpecValues::new(&options), random).unwrap();
            let mut script =
                RequestScript::new(ContentModel::new(&ContentModelSpec::new(ContentSource::Unique), 1));
            let mut request = Request::default();
            let (mut cleaned, mut was_dirty) = (false, false);
            while model.model_phase != ModelPhase::Done {
                let is_cleaning = model.model_phase == ModelPhase::Cleaning;
                was_dirty |= is_cleaning && model.main_area.choose_victim().is_some();
                model.model_phase = model.advance_phase(&mut script);
                while script.next_request(&mut request) {}
                if is_cleaning {
                    check_block_ownership(&model);
                }
                if is_cleaning && model.model_phase != ModelPhase::Cleaning {
                    cleaned = true;
                    let invalid = |segment: usize| {
                        BLOCKS_PER_SEGMENT - model.main_area.segment_valid_block_counts[segment]
                    };
                    let closed = (0..64)
                        .filter(|&segment| model.main_area.segment_states[segment] == SegmentState::Closed);
                    assert_eq!(closed.map(invalid).sum::<u32>(), 0, "{load}");
                }
            }
            check_block_ownership(&model);
            assert!(cleaned && was_dirty, "{load}: there was something to clean");
        }
    }
}
