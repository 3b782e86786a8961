//! `SQLite` with a write-ahead log, filled by `db_bench` (`fillrandom`, `fillseq`), whose checkpoints copy pages by
//! remaps or by writes: the second case study of Remap-SSD (FAST 2021, section 5.3).
//!
//! Modelled, from `SQLite`'s documented file formats with 4-KiB pages:
//! - a value as `db_bench` stores it: a row with a 16-byte key in a table with an automatic index; a value of 16 KiB
//!   keeps 489 bytes in its leaf and fills 4 overflow pages;
//! - the pages that a transaction changes: the first page of the file, the overflow pages, the table's last leaf, a
//!   leaf of the index (any one in random order, the last one in sequential order), and the leaf of a row that is
//!   replaced, whose overflow pages are reused. In random order keys are drawn uniformly with repetition, as in
//!   `fillrandom`;
//! - the log: one frame per changed page. Frame headers are collected in a reserved page before every 170 frames (the
//!   paper's change, which aligns the frames). Frames are written from the page cache when 170 are complete and at a
//!   checkpoint (`synchronous=NORMAL` syncs nowhere else);
//! - a checkpoint after the commit that reaches 1000 frames: a sync, a copy of the newest frame of every page to the
//!   database in order of pages, a sync, and the log restarts at its first page.
//!
//! With `remap=on` the checkpoint remaps database pages to log pages, one run of consecutive pages at a time. The paper
//! classes journaling as copies of degree 2 (section 3.2): the log keeps its pages until they are overwritten. With
//! `mode=relocate` the remap deallocates them at once.
//!
//! Not modelled: interior pages of the trees and the movement of rows by splits (a leaf appears when the previous one
//! is full, at 69 % of its space in random order), the freelist's own pages, and the file system's journal.
//!
//! Assumed: the host's caches hold `cache` pages of the database, any of them with equal probability, and also all
//! pages in the log and the last leaves. A leaf that is changed and not cached is read first. Reads therefore increase
//! as the database outgrows the caches, as the paper reports for random order.

use std::collections::BTreeMap;

use rand_xoshiro::Xoshiro256PlusPlus;
use rustc_hash::FxHashSet;
use wearwell::address::RemapMode;

use super::script::{CopyMethod, RequestScript};
use super::spec_values::SpecValues;
use super::{HostModel, REMAP_KEY};
use crate::workload::draw::uniform_below;
use crate::workload::spec_grammar::{SpecError, SpecKey, SpecKind};

/// Specification kind of the host model `sqlite-wal`: its name, description and keys.
pub(super) const SPEC_KIND: SpecKind = SpecKind {
    name: "sqlite-wal",
    meaning: "SQLite filled by db_bench through a write-ahead log; the paper's runs: entries=1600000 and 1500000,order=sequential",
    keys: &[
        SpecKey {
            name: "order",
            default: "random",
            meaning: "of keys: random (fillrandom) or sequential (fillseq)",
        },
        SpecKey {
            name: "entries",
            default: "20000",
            meaning: "values written, and range of random keys, 1 to 1e8",
        },
        SpecKey { name: "value", default: "16384", meaning: "bytes of a value, 1 to 1048576" },
        SpecKey { name: "batch", default: "1", meaning: "values per transaction, 1 to 10000" },
        SpecKey {
            name: "cache",
            default: "1048576",
            meaning: "pages of the database that the host's caches hold (assumed), 0 to 4294967295",
        },
        SpecKey {
            name: "checkpoint",
            default: "1000",
            meaning: "frames at which a commit checkpoints, 1 to 1e6",
        },
        REMAP_KEY,
        SpecKey {
            name: "mode",
            default: "copy",
            meaning: "of remaps: copy, or relocate (deallocates the log page)",
        },
    ],
};

/// Size of a page of the database and of its write-ahead log, bytes.
const PAGE_BYTES: u64 = 4096;
/// Size of a key of the database, bytes.
const KEY_BYTES: u64 = 16;
/// Number of frames of the write-ahead log whose headers (24 bytes each) share a page. The model writes the headers of
/// so many frames into a page of their own.
const FRAME_HEADERS_PER_PAGE: u64 = 170;
/// Bytes of an entry of the table's index: a key, a row number, lengths and a pointer.
const INDEX_ENTRY_BYTES: u64 = 26;
/// Share of a B-tree leaf that is filled in the long run if keys arrive in random order and full leaves split in the
/// middle.
const RANDOM_LEAF_FILL_SHARE: f64 = 0.69;

/// How `SQLite` lays out table rows of one size: overflow pages per row, rows per leaf.
#[derive(Clone, Copy, Debug)]
struct RowLayout {
    /// Number of overflow pages per row.
    overflow_pages: u64,
    /// Number of table rows in a leaf page of the table's B-tree.
    rows_per_leaf: u64,
}

impl RowLayout {
    /// Computes how rows with values of `value_bytes` are laid out, by `SQLite`'s rule for how much of a row stays in
    /// its leaf if it does not fit there; the rest is in overflow pages.
    fn of_value_bytes(value_bytes: u64) -> Self {
        let row = value_bytes + KEY_BYTES + 6;
        let (most, least) = (PAGE_BYTES - 35, (PAGE_BYTES - 12) * 32 / 255 - 23);
        let spilled = least + row.saturating_sub(least) % (PAGE_BYTES - 4);
        let kept = match row {
            _ if row <= most => row,
            _ if spilled <= most => spilled,
            _ => least,
        };
        let overflow_pages = (row - kept).div_ceil(PAGE_BYTES - 4);
        Self { overflow_pages, rows_per_leaf: ((PAGE_BYTES - 8) / (kept + 12)).max(1) }
    }
}

/// The pages that hold the table row of a key: its first overflow page, and its leaf.
#[derive(Clone, Copy, Debug)]
struct RowPages {
    /// First of the consecutive overflow pages of the row.
    first_overflow_page: u32,
    /// Leaf page of the table's B-tree that holds the row.
    leaf_page: u32,
}

/// The pages of the simulated database file, numbered in order of allocation.
#[derive(Debug)]
struct Database {
    /// Number of pages of the database file so far.
    page_count: u64,
    /// Number of overflow pages per row and of rows per leaf.
    row_layout: RowLayout,
    /// Pages of the row of each key, by key; `None` for a key without a row.
    row_pages_by_key: Vec<Option<RowPages>>,
    /// Last leaf page of the table, to which new rows are appended.
    last_table_leaf_page: u32,
    /// Number of rows in the last leaf page of the table.
    rows_in_last_table_leaf: u64,
    /// Leaf pages of the table's index.
    index_leaf_pages: Vec<u32>,
    /// Number of entries in a full leaf page of the index.
    entries_per_index_leaf: u64,
    /// Number of different keys stored so far.
    key_count: u64,
}

impl Database {
    /// Extends the database file by `pages` pages, and returns the first of them.
    fn allocate_pages(&mut self, pages: u64) -> u32 {
        let first = self.page_count as u32;
        self.page_count += pages;
        first
    }

    /// Stores a value in the database, and adds the pages that change to `changed_pages`. Returns the two leaves that
    /// change and already hold entries: the table leaf of the replaced row (if a row is replaced), and the index leaf.
    /// The host reads them first if they are not cached.
    fn store_value(
        &mut self,
        key: u64,
        random: Option<&mut Xoshiro256PlusPlus>,
        changed_pages: &mut Vec<u32>,
    ) -> [Option<u32>; 2] {
        changed_pages.push(0);
        let replaced = self.row_pages_by_key[key as usize];
        changed_pages.extend(replaced.map(|row| row.leaf_page));
        let overflow = match replaced {
            Some(row) => row.first_overflow_page,
            None => self.allocate_pages(self.row_layout.overflow_pages),
        };
        changed_pages.extend(overflow..overflow + self.row_layout.overflow_pages as u32);
        if self.rows_in_last_table_leaf == self.row_layout.rows_per_leaf {
            self.last_table_leaf_page = self.allocate_pages(1);
            self.rows_in_last_table_leaf = 0;
        }
        self.rows_in_last_table_leaf += 1;
        changed_pages.push(self.last_table_leaf_page);
        self.row_pages_by_key[key as usize] =
            Some(RowPages { first_overflow_page: overflow, leaf_page: self.last_table_leaf_page });
        if replaced.is_none() {
            self.key_count += 1;
            if self.key_count > self.index_leaf_pages.len() as u64 * self.entries_per_index_leaf {
                let leaf = self.allocate_pages(1);
                self.index_leaf_pages.push(leaf);
            }
        }
        let leaves = self.index_leaf_pages.len();
        let leaf = random.map_or(leaves - 1, |random| uniform_below(random, leaves as u64) as usize);
        let index_leaf = self.index_leaf_pages[leaf];
        changed_pages.push(index_leaf);
        [replaced.map(|row| row.leaf_page), Some(index_leaf)]
    }
}

/// Generator of the host model `sqlite-wal`: `SQLite` with a write-ahead log, filled with values.
#[derive(Debug)]
pub(super) struct SqliteWal {
    /// Random number generator of the host model.
    random: Xoshiro256PlusPlus,
    /// Whether keys are drawn at random (`fillrandom`) or ascend (`fillseq`).
    has_random_keys: bool,
    /// Number of values to store in all.
    values_to_write: u64,
    /// Number of rows (key and value) that a transaction stores.
    rows_per_transaction: u64,
    /// Smallest number of log frames at which a commit is followed by a checkpoint.
    frames_per_checkpoint: u64,
    /// Whether a checkpoint copies pages by remap requests or by writes.
    copy_method: CopyMethod,
    /// Whether a remap at a checkpoint keeps or deallocates the log pages.
    remap_mode: RemapMode,
    /// Number of rows (key and value) stored so far.
    rows_written: u64,
    /// Pages of the simulated database file.
    database: Database,
    /// First page of the database file in the volume; the log occupies the pages before it.
    database_first_page: u64,
    /// Database page of every frame in the write-ahead log.
    database_pages_of_frames: Vec<u32>,
    /// Number of complete groups of log frames (frames whose headers share a page) that were written to the log.
    full_frame_groups_written: u64,
    /// Database pages that the current transaction changes.
    transaction_changed_pages: Vec<u32>,
    /// Model of the host's page cache.
    cache: PageCache,
}

/// Model of the host's page cache: whether the host has to read a page of the database from the device.
#[derive(Debug)]
struct PageCache {
    /// Number of database pages that the page cache holds.
    capacity_pages: u64,
    /// Number of pages of the database file at the last checkpoint; pages with higher numbers are only in the
    /// write-ahead log.
    checkpointed_pages: u64,
    /// Leaf pages that were changed since the last checkpoint, so that the log has their newest version.
    logged_pages: FxHashSet<u32>,
}

impl PageCache {
    /// Draws whether the host must read `page` of the database from the device, because its page cache lacks the page.
    fn draw_cache_miss(&self, page: u32, random: &mut Xoshiro256PlusPlus) -> bool {
        let is_only_applied = u64::from(page) < self.checkpointed_pages && !self.logged_pages.contains(&page);
        is_only_applied
            && self.capacity_pages < self.checkpointed_pages
            && uniform_below(random, self.checkpointed_pages) >= self.capacity_pages
    }
}

impl SqliteWal {
    /// Creates the generator from the values of its specification's keys.
    pub(super) fn new(keys: &SpecValues, random: Xoshiro256PlusPlus) -> Result<Self, SpecError> {
        let is_random =
            keys.is_first_of_two_words("order", ["random", "sequential"], "random or sequential")?;
        let relocates = keys.is_first_of_two_words("mode", ["relocate", "copy"], "copy or relocate")?;
        let remaps = keys.is_key_on("remap")?;
        if !remaps {
            keys.refuse_without_effect("mode", "remap=on")?;
        }
        let entries = keys.integer_of_key("entries", 1..=100_000_000)?;
        let batch = keys.integer_of_key("batch", 1..=10_000)?;
        let checkpoint_frames = keys.integer_of_key("checkpoint", 1..=1_000_000)?;
        let shape = RowLayout::of_value_bytes(keys.integer_of_key("value", 1..=1 << 20)?);
        let per_leaf = (PAGE_BYTES - 8) / INDEX_ENTRY_BYTES;
        let most_frames = checkpoint_frames + batch * (shape.overflow_pages + 4);
        let database = Database {
            page_count: 3,
            row_layout: shape,
            row_pages_by_key: vec![None; entries as usize],
            last_table_leaf_page: 1,
            rows_in_last_table_leaf: 0,
            index_leaf_pages: vec![2],
            entries_per_index_leaf: if is_random {
                (per_leaf as f64 * RANDOM_LEAF_FILL_SHARE) as u64
            } else {
                per_leaf
            },
            key_count: 0,
        };
        Ok(Self {
            random,
            has_random_keys: is_random,
            values_to_write: entries,
            rows_per_transaction: batch,
            frames_per_checkpoint: checkpoint_frames,
            copy_method: if remaps { CopyMethod::Remapped } else { CopyMethod::Written },
            remap_mode: if relocates { RemapMode::Relocate } else { RemapMode::Copy },
            rows_written: 0,
            database,
            database_first_page: most_frames + most_frames.div_ceil(FRAME_HEADERS_PER_PAGE),
            database_pages_of_frames: Vec::new(),
            full_frame_groups_written: 0,
            transaction_changed_pages: Vec::new(),
            cache: PageCache {
                capacity_pages: keys.integer_of_key("cache", 0..=u64::from(u32::MAX))?,
                checkpointed_pages: 0,
                logged_pages: FxHashSet::default(),
            },
        })
    }

    /// Stores the values of one transaction, and appends a log frame for each page that changed.
    fn run_transaction(&mut self, script: &mut RequestScript) {
        self.transaction_changed_pages.clear();
        for _ in 0..self.rows_per_transaction.min(self.values_to_write - self.rows_written) {
            let key = if self.has_random_keys {
                uniform_below(&mut self.random, self.values_to_write)
            } else {
                self.rows_written
            };
            let random = self.has_random_keys.then_some(&mut self.random);
            let leaves = self.database.store_value(key, random, &mut self.transaction_changed_pages);
            for leaf in leaves.into_iter().flatten() {
                if self.has_random_keys && self.cache.draw_cache_miss(leaf, &mut self.random) {
                    script.plan_read(self.database_first_page + u64::from(leaf), 1);
                }
                self.cache.logged_pages.insert(leaf);
            }
            self.rows_written += 1;
        }
        // A transaction logs each page once, however often it changes the page.
        self.transaction_changed_pages.sort_unstable();
        self.transaction_changed_pages.dedup();
        self.database_pages_of_frames.extend_from_slice(&self.transaction_changed_pages);
    }

    /// Writes complete groups of log frames (frames whose headers share a page) from the page cache to the log.
    fn write_full_frame_groups(&mut self, script: &mut RequestScript) {
        while self.database_pages_of_frames.len() as u64
            >= (self.full_frame_groups_written + 1) * FRAME_HEADERS_PER_PAGE
        {
            script.plan_write(
                self.full_frame_groups_written * (FRAME_HEADERS_PER_PAGE + 1),
                FRAME_HEADERS_PER_PAGE + 1,
            );
            self.full_frame_groups_written += 1;
        }
    }

    /// Copies the newest log frame of every page to the database, and restarts the log.
    fn run_checkpoint(&mut self, script: &mut RequestScript) {
        let rest = self.database_pages_of_frames.len() as u64
            - self.full_frame_groups_written * FRAME_HEADERS_PER_PAGE;
        if rest > 0 {
            script.plan_write(self.full_frame_groups_written * (FRAME_HEADERS_PER_PAGE + 1), rest + 1);
        }
        script.plan_flush();
        let newest: BTreeMap<u64, u64> = self
            .database_pages_of_frames
            .iter()
            .zip(0..)
            .map(|(&page, frame)| (u64::from(page), log_page_of_frame(frame)))
            .collect();
        let pairs: Vec<(u64, u64)> = newest.into_iter().collect();
        for run in pairs.chunk_by(|a, b| a.0 + 1 == b.0 && a.1 + 1 == b.1) {
            let (page, log) = run[0];
            script.plan_copy(
                self.database_first_page + page,
                log,
                run.len() as u64,
                self.remap_mode,
                self.copy_method,
            );
        }
        script.plan_flush();
        self.database_pages_of_frames.clear();
        self.full_frame_groups_written = 0;
        self.cache.logged_pages.clear();
        self.cache.checkpointed_pages = self.database.page_count;
    }
}

/// Returns the page of the write-ahead log that holds a frame.
fn log_page_of_frame(frame: u64) -> u64 {
    frame / FRAME_HEADERS_PER_PAGE * (FRAME_HEADERS_PER_PAGE + 1) + 1 + frame % FRAME_HEADERS_PER_PAGE
}

impl HostModel for SqliteWal {
    fn plan_next_requests(&mut self, script: &mut RequestScript) {
        while script.is_empty() && self.rows_written < self.values_to_write {
            self.run_transaction(script);
            self.write_full_frame_groups(script);
            if self.database_pages_of_frames.len() as u64 >= self.frames_per_checkpoint
                || self.rows_written == self.values_to_write
            {
                self.run_checkpoint(script);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::RowLayout;

    /// `SQLite`'s numbers of overflow pages and rows per leaf, computed by hand from the file format: of 16406 bytes
    /// 489 stay in the leaf, and 15917 need four pages of 4092.
    #[test]
    fn sqlite_rows_per_page_follow_the_file_format() {
        let shape = RowLayout::of_value_bytes(16_384);
        assert_eq!((shape.overflow_pages, shape.rows_per_leaf), (4, 8));
        let shape = RowLayout::of_value_bytes(100);
        assert_eq!((shape.overflow_pages, shape.rows_per_leaf), (0, 30));
        assert_eq!(RowLayout::of_value_bytes(4039).overflow_pages, 0, "the largest row without overflow");
        assert_eq!(RowLayout::of_value_bytes(4040).overflow_pages, 1);
    }
}
