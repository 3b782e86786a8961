//! Flash and NVRAM of an image, stored in files and checked by the rules of the strict flash model.
//!
//! The rules are those of [`SimNand`]: it checks every operation and holds OOB and wear of all pages in RAM (28 bytes
//! per page, and 16 more here, for the checksums of the data and for the journal). The files hold the durable state. A
//! program writes the spare area, then the data, then the OOB record, whose write completes the program. An erase
//! writes the *state word* of its block (8 bytes of the file `nvram`) with the next erase count, which makes all pages
//! of the block erased at once. A store to NVRAM writes a word of the same file. Each of the three is completed by one
//! write that cannot be torn, so the end of the process leaves an operation either not begun or done. All metadata is
//! written twice ([`metadata_copy`](super::metadata_copy)).
//!
//! Operations are not written one by one. They wait in an [`OperationBatch`] until
//! [`FileNand::write_operations_to_files`], which is called before requests are acknowledged. Programs of adjacent
//! pages of a block become one write of data and one of OOB records. All data is written before all OOB records, and
//! all of these before the one [`Journal`] record that makes them valid, together with the NVRAM words and erases of
//! the batch. A program that relies on an erase in the batch begins a new batch: a program of the erased block, or of
//! metadata. The price is a copy of every page in RAM, and that the order of programs within one batch is not kept,
//! which recovery tolerates.
//!
//! With durability `host`, the flash file is synced before the journal record is written, and the journal after it, so
//! that nothing on the disk needs data that an erase destroys. An erase does not cause a sync of its own. One sync
//! covers all waiting erases: when the batch ends, or when more blocks wait than
//! [`FileNand::set_max_waiting_erases_per_pool`] allows. The states in which a crash of the server machine may leave
//! programs since the last sync are described in `load`. The mirror is synced when the journal turns (begins its other
//! area) and when the image is closed. After a crash of the server machine the mirror may lag, and is repaired when the
//! image is opened.
//!
//! The engine never sees that the operating system refuses a write (disk full, for example): the batches wait, and
//! [`FileNand::write_operations_to_files`] returns the reason and tries again at its next call. A sync that failed
//! cannot be repeated, since the operating system may have dropped the data: from then on nothing is written until the
//! image is opened again ([`Medium::unresolved_write_error`]), and a read returns what was written, or an error.

use std::any::Any;
use std::collections::{BTreeSet, VecDeque};
use std::io::{self, IoSliceMut};
use std::ops::Range;
use std::path::Path;

use tracing::warn;
use wearwell::address::{BlockId, Ppn};
use wearwell::data::{Content, ContentDescriptor, Fingerprint};
use wearwell::nand::{
    AnyNand, BoxedNand, ConsecutiveCopies, FaultInjectable, Geometry, Nand, NandError, Oob, SimNand,
};

use super::backing::{Backing, OpenImageFiles};
use super::create::random_nonzero_number;
use super::error::ImageError;
use super::image_file::ImageFile;
use super::journal::Journal;
use super::layout::{
    BATCH_CHANGED_WORDS_THRESHOLD, BlockHealth, BlockRecord, Durability, Layout, METADATA_RECORD_BYTES,
    OobRecord, OobSlot, SessionRecord,
};
use super::load::{LoadedFlash, PageCrcAndSpareLength, read_spare};
use super::metadata_copy::{
    METADATA_COPIES, PageToVerify, VerifiedPage, is_page_local_read_error, read_verified_page,
    repair_differing_copies,
};
use super::operation_batch::{OperationBatch, PageProgram, PageRunBuffers};
use super::unreadable_sectors::UnreadableSectors;
use crate::device_error::FileIoError;
use crate::live_device::LiveDevice;
use crate::medium::Medium;

/// Most flash pages that one read from the flash file returns.
const PAGES_PER_READ_MAX: usize = 256;
/// Number of bytes of waiting page programs from which on all waiting operations are written to the files. More may
/// wait while the operating system refuses writes.
const WAITING_PROGRAM_THRESHOLD_BYTES: usize = 2 << 20;
/// Number of waiting batches of operations from which on all of them are written to the files.
const WAITING_BATCHES_WRITE_THRESHOLD: usize = 8;
/// Number of written page bytes after which, in a session of durability `host`, the operating system is asked to begin
/// writing them to the disk, ahead of the next sync.
const WRITEBACK_REQUEST_THRESHOLD_BYTES: usize = 1 << 20;

/// Files of an image that are written while the image is in use, except the session file.
const MEDIUM_FILES: [ImageFile; 4] =
    [ImageFile::Flash, ImageFile::Nvram, ImageFile::Journal, ImageFile::Mirror];

/// Flash and NVRAM of an open image, stored in files.
#[derive(Debug)]
pub struct FileNand<B = OpenImageFiles> {
    /// The files of the image.
    backing: B,
    /// Offsets of data and metadata in the files.
    layout: Layout,
    /// Strict flash model, which checks every operation and holds OOB and wear of all pages and the NVRAM, but no page
    /// data.
    flash_model: SimNand,
    /// Checksum of the data, and length of the spare bytes, of each page. A read is verified with them.
    page_crcs_and_spare_lengths: Vec<PageCrcAndSpareLength>,
    /// Session record of the present session, as stored in the file `session`.
    session: SessionRecord,
    /// Operations (programs, erases, NVRAM stores) that wait to be written to the files, in batches, oldest first. New
    /// operations are added to the last batch. There is always a last batch.
    waiting_batches: VecDeque<OperationBatch>,
    /// Buffers of page runs (adjacent pages) that were written to the files, kept for later runs.
    page_run_buffers: PageRunBuffers,
    /// Number of bytes of pages whose programs wait to be written to the files.
    waiting_program_bytes: usize,
    /// Blocks whose erase waits in the last batch of operations. A program of such a block begins another batch.
    waiting_erases: WaitingErases,
    /// Journal of the image: a log of the changes of NVRAM words and of the 8-byte state of each block.
    journal: Journal,
    /// Numbers of the blocks that hold metadata of the engine, whose data is stored twice.
    metadata_blocks: BTreeSet<u32>,
    /// For each file, whether it was written to since its last sync.
    has_unsynced_writes: [bool; ImageFile::ALL.len()],
    /// Error of the last file operation that the operating system refused; `None` once a file operation has succeeded
    /// again.
    unresolved_file_error: Option<FileIoError>,
    /// Whether an erase returns the file space of its block to the file system (by punching a hole). The caller changes
    /// this from operation to operation.
    punches_erased_blocks: bool,
    /// Number of page bytes written since the operating system was last asked to begin writing to the disk ahead of a
    /// sync.
    bytes_since_writeback_request: usize,
}

/// Blocks whose erase waits, counted for each pool (a plane, or the planes over which superblocks extend).
#[derive(Debug, Default)]
struct WaitingErases {
    /// Numbers of the blocks whose erase waits.
    waiting_blocks: BTreeSet<u32>,
    /// For each pool, the number of its blocks whose erase waits.
    waiting_blocks_per_pool: Vec<u32>,
    /// Maximum number of blocks of one pool whose erase may wait in one batch of operations. If it is 0, every erase
    /// ends the batch.
    max_waiting_blocks_per_pool: u32,
}

impl WaitingErases {
    /// Adds a block whose erase waits.
    fn insert(&mut self, block: BlockId) {
        self.waiting_blocks.insert(block.0);
        let pool = block.index() % self.waiting_blocks_per_pool.len();
        self.waiting_blocks_per_pool[pool] += 1;
    }

    /// Whether the number of waiting erases exceeds the limit in some pool.
    fn has_too_many_blocks(&self) -> bool {
        self.waiting_blocks_per_pool.iter().any(|&count| count > self.max_waiting_blocks_per_pool)
    }

    /// Removes all blocks, after their erases were written.
    fn clear(&mut self) {
        self.waiting_blocks.clear();
        self.waiting_blocks_per_pool.fill(0);
    }
}

impl<B: Backing> FileNand<B> {
    /// Makes the medium of an image from its files and from the state that was loaded from them.
    pub(super) fn new(backing: B, layout: Layout, loaded: LoadedFlash, session: SessionRecord) -> Self {
        let LoadedFlash { flash_model, page_crcs_and_spare_lengths: guards, journal, .. } = loaded;
        let of_pool = vec![0; layout.geometry.allocation_pools() as usize];
        let mut nand = Self {
            backing,
            layout,
            flash_model,
            page_crcs_and_spare_lengths: guards,
            session,
            waiting_batches: VecDeque::from([OperationBatch::new(journal.last_record_number() + 1)]),
            page_run_buffers: PageRunBuffers::default(),
            waiting_program_bytes: 0,
            waiting_erases: WaitingErases { waiting_blocks_per_pool: of_pool, ..WaitingErases::default() },
            journal,
            metadata_blocks: BTreeSet::new(),
            has_unsynced_writes: [true; ImageFile::ALL.len()],
            unresolved_file_error: None,
            punches_erased_blocks: false,
            bytes_since_writeback_request: 0,
        };
        nand.restore_block_state();
        nand
    }

    /// Restores the state of all blocks when the image is opened. Finds the blocks that hold metadata. A block may have
    /// more programmed pages than the journal counts; its state word is put into the next journal record.
    fn restore_block_state(&mut self) {
        for block in (0..self.layout.geometry.blocks()).map(BlockId) {
            let (record, first) = (self.block_record(block), self.layout.geometry.first_page(block));
            let index = self.layout.block_state_word_index(block);
            let counted = BlockRecord::decode(self.journal.device_state_words()[index as usize]);
            if counted.is_some_and(|counted| counted.programmed_pages < record.programmed_pages) {
                self.last_batch_mut().word_changes.set(index, record.encode());
            }
            if record.health == BlockHealth::Bad {
                continue;
            }
            // All pages of a block are of one kind.
            let mut pages = (first.0..first.0 + record.programmed_pages).map(Ppn);
            let readable = pages.find_map(|ppn| self.flash_model.probe_page(ppn).ok().flatten());
            if readable.is_some_and(|oob| !oob.kind.is_host_data()) {
                self.metadata_blocks.insert(block.0);
            }
        }
    }

    /// Returns the state (health, erase count, programmed pages) of a block that is not half erased.
    fn block_record(&self, block: BlockId) -> BlockRecord {
        let health = match () {
            () if self.flash_model.is_bad(block) => BlockHealth::Bad,
            () if self.flash_model.has_failed_program(block) => BlockHealth::Condemned,
            () => BlockHealth::Good,
        };
        let programmed_pages = self.flash_model.programmed_pages(block);
        BlockRecord { health, erase_count: self.flash_model.erase_count(block), programmed_pages }
    }

    /// Returns the durability mode of the present session: which crashes its acknowledged data survives.
    pub fn durability(&self) -> Durability {
        self.session.durability
    }

    /// Sets how many erased blocks of one pool may wait together to be written to the files. In a session of durability
    /// `host`, a program of a block whose erase still waits needs a sync. Therefore the engine has to keep more free
    /// blocks than this number in each pool.
    pub fn set_max_waiting_erases_per_pool(&mut self, blocks_of_a_pool: u32) {
        self.waiting_erases.max_waiting_blocks_per_pool = blocks_of_a_pool;
    }

    /// Begins the session of an opened image: writes the session record. In a session of durability `host`, all files
    /// are synced first.
    pub(super) fn begin_session(&mut self) -> Result<(), NandError> {
        self.run_file_write(|nand| {
            if nand.durability() == Durability::Host {
                nand.sync_files(&MEDIUM_FILES)?;
            }
            nand.write_session_record()
        })
    }

    /// Writes the session record of the present session to both copies, and syncs them.
    fn write_session_record(&mut self) -> Result<(), FileIoError> {
        let bytes = self.session.encode(self.layout.checksum_salt);
        self.write_both_copies(ImageFile::Session, &bytes, 0)?;
        self.sync_files(&[ImageFile::Session, ImageFile::Mirror])
    }

    /// Marks a page torn (consumed and unreadable) in the files, after a crash of the server machine left it half
    /// programmed.
    pub(super) fn mark_page_torn(&mut self, ppn: Ppn, block_erase_count: u32) -> Result<(), NandError> {
        self.run_file_write(|nand| nand.write_torn_mark(ppn, block_erase_count))
    }

    /// Records in the files that the data of a damaged page is lost, if no logical page needs the page. Later readers
    /// then do not report the page as new damage. Returns `false`, and changes nothing, if the page holds metadata,
    /// which recovery may want to read, or if its OOB record cannot be read.
    pub(super) fn mark_dead_page_lost(&mut self, ppn: Ppn) -> Result<bool, NandError> {
        let is_of_host = |record: &OobRecord| record.oob.is_some_and(|oob| oob.kind.is_host_data());
        let Some(record) = self.load_oob_record(ppn).filter(is_of_host) else { return Ok(false) };
        let record = OobRecord { is_lost: true, data_and_spare_crc: !record.data_and_spare_crc, ..record };
        let (bytes, at) = (self.layout.encode_oob(ppn, &record), self.layout.oob_record_offset(ppn));
        self.run_file_write(|nand| nand.write_both_copies(ImageFile::Flash, &bytes, at))?;
        Ok(true)
    }

    /// Returns the medium of the device of an image.
    ///
    /// # Panics
    /// If the image is not stored in a backing of the type `B`.
    pub fn medium_of_device(device: &LiveDevice) -> &Self {
        let medium: &dyn Any = device.medium();
        medium.downcast_ref().expect("the image is stored in this kind of backing")
    }

    /// Returns the medium of the device of an image, as [`FileNand::medium_of_device`].
    ///
    /// # Panics
    /// As [`FileNand::medium_of_device`].
    pub fn medium_of_device_mut(device: &mut LiveDevice) -> &mut Self {
        let medium: &mut dyn Any = device.medium_mut();
        medium.downcast_mut().expect("the image is stored in this kind of backing")
    }

    /// Returns the medium of the device of an image without closing the image.
    ///
    /// # Panics
    /// As [`FileNand::medium_of_device`].
    pub fn into_medium_of_device(device: LiveDevice) -> Self {
        device.into_medium().downcast().expect("the image is stored in this kind of backing")
    }

    /// Returns the files of the image.
    pub fn backing(&self) -> &B {
        &self.backing
    }

    /// Returns the files of the image, for tests that inject faults.
    pub fn backing_mut(&mut self) -> &mut B {
        &mut self.backing
    }

    /// Returns the files of the image without closing the image. Waiting operations are lost, as at the end of the
    /// process.
    pub fn into_backing(self) -> B {
        self.backing
    }

    /// Runs `work`, which writes to files immediately. If the operating system refuses the write, the error is kept in
    /// `unresolved_file_error`, and `NandError::PowerLost` is returned, which stops the engine.
    fn run_file_write(
        &mut self,
        work: impl FnOnce(&mut Self) -> Result<(), FileIoError>,
    ) -> Result<(), NandError> {
        let done = work(self);
        self.record_file_io_outcome(done).map_err(|_| NandError::PowerLost)
    }

    /// Keeps the error of a file operation as the unresolved error, or forgets the last error if the operation
    /// succeeded. Returns the outcome unchanged.
    fn record_file_io_outcome(&mut self, done: Result<(), FileIoError>) -> Result<(), FileIoError> {
        self.unresolved_file_error = done.clone().err();
        done
    }

    /// Makes the error for a refused file operation, with advice. `doing` is the verb of the operation.
    fn file_io_error_of(&self, doing: &str, file: ImageFile, error: &io::Error) -> FileIoError {
        let place = self.backing.path_for_messages(file);
        let is_full = matches!(
            error.kind(),
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge
        );
        let is_final = doing != "write";
        let advice = match (is_final, is_full) {
            (true, true) => {
                "no more writes are accepted until the image is opened again: free some space, or raise the quota or \
                 file-size limit, and then start the server again (or close and open the database)"
            }
            (true, false) => {
                "no more writes are accepted until the image is opened again: start the server again (or close and \
                 open the database)"
            }
            (false, true) => {
                "free some space, or raise the quota or file-size limit: while the server runs, the next request that \
                 writes repeats the write"
            }
            (false, false) => "while the server runs, the next request that writes repeats the write",
        };
        let cause_message = format!("cannot {doing} {place}: {error}");
        FileIoError {
            message: format!("{cause_message}; {advice}"),
            cause_message,
            is_disk_full: is_full,
            needs_image_reopen: is_final,
        }
    }

    /// Writes bytes to one file, and marks the file as not synced.
    fn write(&mut self, file: ImageFile, bytes: &[u8], offset: u64) -> Result<(), FileIoError> {
        self.has_unsynced_writes[file as usize] = true;
        self.backing.write(file, bytes, offset).map_err(|error| self.file_io_error_of("write", file, &error))
    }

    /// Writes metadata to both copies: in its own file, and in the mirror.
    fn write_both_copies(&mut self, file: ImageFile, bytes: &[u8], offset: u64) -> Result<(), FileIoError> {
        METADATA_COPIES.into_iter().try_for_each(|side| {
            let (file, offset) = side.location_of(&self.layout, file, offset);
            self.write(file, bytes, offset)
        })
    }

    /// Syncs those of `files` that were written to since their last sync.
    fn sync_files(&mut self, files: &[ImageFile]) -> Result<(), FileIoError> {
        let written: Vec<_> =
            files.iter().copied().filter(|&file| self.has_unsynced_writes[file as usize]).collect();
        self.backing
            .sync_all(&written)
            .map_err(|(file, error)| self.file_io_error_of("sync", file, &error))?;
        for file in written {
            self.has_unsynced_writes[file as usize] = false;
        }
        Ok(())
    }

    /// Returns the block that contains a flash page.
    fn block_of(&self, ppn: Ppn) -> BlockId {
        BlockId(ppn.0 / self.layout.geometry.block_pages())
    }

    /// Marks a page as torn (consumed and unreadable) in the files.
    fn write_torn_mark(&mut self, ppn: Ppn, block_erase_count: u32) -> Result<(), FileIoError> {
        let record = OobRecord::torn(block_erase_count, self.journal.last_record_number() + 1);
        let bytes = self.layout.encode_oob(ppn, &record);
        self.write_both_copies(ImageFile::Flash, &bytes, self.layout.oob_record_offset(ppn))
    }

    /// Returns the last batch of waiting operations, to which new operations are added.
    fn last_batch_mut(&mut self) -> &mut OperationBatch {
        self.waiting_batches.back_mut().expect("there is always one")
    }

    /// Ends the last batch of waiting operations and begins a new one. Later operations are written after all earlier
    /// ones. In a session of durability `host`, a sync separates them.
    fn end_last_batch(&mut self) {
        let last = self.last_batch_mut();
        if !last.is_empty() {
            let next = OperationBatch::new(last.journal_record_number + 1);
            self.waiting_batches.push_back(next);
        }
        self.waiting_erases.clear();
    }

    /// Writes the waiting operations to the files: all complete batches, and the last batch. In a session of durability
    /// `host` only the programs of the last batch are written, because its journal record would need a sync that was
    /// not asked for.
    fn write_waiting_operations(&mut self) -> Result<(), FileIoError> {
        if let Some(refused) =
            self.unresolved_file_error.as_ref().filter(|refused| refused.needs_image_reopen)
        {
            return Err(refused.clone());
        }
        while self.waiting_batches.len() > 1 {
            let batch = self.waiting_batches.pop_front().expect("there are two");
            self.write_batch(batch, true)?;
        }
        let open = self.waiting_batches.pop_front().expect("there is always one");
        let is_whole = self.durability() == Durability::Process;
        self.write_batch(open, is_whole)?;
        if is_whole {
            self.waiting_erases.clear();
        }
        Ok(())
    }

    /// Writes one batch of waiting operations to the files. If `writes_journal_record` is false, only the programs of
    /// the batch are written. Operations that stay unwritten are put back as the oldest batch.
    ///
    /// If the write of the journal record fails, one of its two copies may be complete, and opening would believe it. So
    /// the batch gets no further operations: the next attempt writes the same record in the same place.
    fn write_batch(
        &mut self,
        mut batch: OperationBatch,
        writes_journal_record: bool,
    ) -> Result<(), FileIoError> {
        let mut written = self.write_programs(&batch);
        let mut is_record_attempted = false;
        if written.is_ok() {
            self.waiting_program_bytes -= batch.programmed_data_bytes;
            self.count_written_bytes_and_request_writeback(batch.programmed_data_bytes);
            batch.remove_programs(&mut self.page_run_buffers);
            if writes_journal_record && !batch.is_empty() {
                is_record_attempted = true;
                written = self.write_journal_record(&batch);
                if written.is_ok() {
                    batch = OperationBatch::new(batch.journal_record_number + 1);
                }
            }
        }
        if self.waiting_batches.is_empty() || !batch.is_empty() {
            self.waiting_batches.push_front(batch);
        }
        if written.is_err() && is_record_attempted && self.waiting_batches.len() == 1 {
            self.end_last_batch();
        }
        written
    }

    /// Adds `bytes` to the count of page bytes written. In a session of durability `host` (writes survive a crash of
    /// the server machine), asks the operating system from time to time to begin writing these bytes to the disk, so
    /// that the next sync takes less time.
    fn count_written_bytes_and_request_writeback(&mut self, bytes: usize) {
        self.bytes_since_writeback_request += bytes;
        if self.durability() == Durability::Host
            && self.bytes_since_writeback_request > WRITEBACK_REQUEST_THRESHOLD_BYTES
        {
            self.bytes_since_writeback_request = 0;
            self.backing.begin_sync(ImageFile::Flash);
        }
    }

    /// Writes the programs of a batch of operations: all spare areas and data, then all OOB records.
    fn write_programs(&mut self, batch: &OperationBatch) -> Result<(), FileIoError> {
        for run in batch.runs() {
            if let Some(spare) = run.spare_areas() {
                self.write_both_copies(
                    ImageFile::Flash,
                    spare,
                    self.layout.spare_area_offset(run.first_page()),
                )?;
            }
            let at = self.layout.data_offset(run.first_page());
            if run.is_metadata {
                self.write_both_copies(ImageFile::Flash, run.page_data(), at)?;
            } else {
                self.write(ImageFile::Flash, run.page_data(), at)?;
            }
        }
        batch.runs().try_for_each(|run| {
            self.write_both_copies(
                ImageFile::Flash,
                &run.oob_records,
                self.layout.oob_record_offset(run.first_page()),
            )
        })
    }

    /// Writes the journal record of a batch of operations whose programs are written already, which makes the batch
    /// valid. In a session of durability `host` the flash file is synced before the record is written, and the journal
    /// afterwards.
    fn write_journal_record(&mut self, batch: &OperationBatch) -> Result<(), FileIoError> {
        let syncs = self.durability() == Durability::Host;
        assert_eq!(
            batch.journal_record_number,
            self.journal.last_record_number() + 1,
            "each batch has one record of the journal"
        );
        let append =
            self.journal.prepare_append(&self.layout, batch.word_changes.last_value_by_word(), syncs);
        if let Some((offset, sectors)) = &append.nvram_offset_and_sector_bytes {
            self.write_both_copies(ImageFile::Nvram, sectors, *offset)?;
        }
        if syncs && append.begins_other_area {
            self.sync_files(&[ImageFile::Flash, ImageFile::Nvram, ImageFile::Mirror])?;
        } else if syncs {
            self.sync_files(&[ImageFile::Flash])?;
        }
        let (offset, record) = &append.journal_offset_and_record_bytes;
        self.write_both_copies(ImageFile::Journal, record, *offset)?;
        if syncs {
            self.sync_files(&[ImageFile::Journal])?;
        }
        self.journal.apply_append(append);
        self.punch_erased_blocks(batch);
        Ok(())
    }

    /// Returns the file space of the blocks that a batch erased to the file system (punches holes).
    fn punch_erased_blocks(&mut self, batch: &OperationBatch) {
        let homes = batch.blocks_to_punch.iter().map(|&block| (METADATA_COPIES[0], block));
        let copies = batch.mirror_blocks_to_punch.iter().map(|&block| (METADATA_COPIES[1], block));
        for (side, block) in homes.chain(copies) {
            let first = self.layout.geometry.first_page(block);
            let end = self.layout.data_offset(Ppn(first.0 + self.layout.geometry.block_pages()));
            let from = self.layout.data_offset(first);
            let (file, at) = side.location_of(&self.layout, ImageFile::Flash, from);
            // A file system that cannot punch holes keeps the space.
            let _ = self.backing.punch_hole(file, at, end - from);
        }
    }

    /// Writes all waiting operations to the files if too many wait. Called after each operation that was added.
    fn write_if_too_many_operations_wait(&mut self) {
        if self.last_batch_mut().word_changes.len() as u64 > BATCH_CHANGED_WORDS_THRESHOLD {
            self.end_last_batch();
        }
        let is_too_much = self.waiting_program_bytes > WAITING_PROGRAM_THRESHOLD_BYTES
            || self.waiting_batches.len() > WAITING_BATCHES_WRITE_THRESHOLD;
        if is_too_much && self.unresolved_file_error.is_none() {
            // The next `write_operations_to_files` reports the error.
            let written = self.write_waiting_operations();
            let _ = self.record_file_io_outcome(written);
        }
    }

    /// Ends the batch of waiting operations if an erase in it has to become durable before a program of `block`.
    fn order_program_after_erases(&mut self, block: BlockId, is_metadata: bool) {
        let waiting = &self.waiting_erases.waiting_blocks;
        if !waiting.is_empty() && (is_metadata || waiting.contains(&block.0)) {
            self.end_last_batch();
        }
    }

    /// Adds the program of a page to the last batch of waiting operations, after the flash model has accepted it.
    fn add_program(&mut self, ppn: Ppn, mut record: OobRecord, data: &[u8], spare: &[u8]) {
        let oob = record.oob.expect("a page that is programmed says whose it is");
        let (block, is_metadata) = (self.block_of(ppn), !oob.kind.is_host_data());
        self.order_program_after_erases(block, is_metadata);
        if is_metadata {
            self.metadata_blocks.insert(block.0);
        }
        record.journal_record_number = self.last_batch_mut().journal_record_number;
        let page = PageProgram {
            data,
            spare,
            spare_stride_bytes: self.layout.spare_stride_bytes(),
            oob_record: self.layout.encode_oob(ppn, &record),
            is_metadata,
        };
        let (batch, room) =
            (self.waiting_batches.back_mut().expect("there is always one"), &mut self.page_run_buffers);
        batch.add_program(ppn, &page, room);
        self.update_state_after_program(ppn, &record);
    }

    /// Updates the state in RAM after a program was added to the newest batch of operations that wait to be written:
    /// the block's state word, the number of bytes that wait, and the page's checksum.
    fn update_state_after_program(&mut self, ppn: Ppn, record: &OobRecord) {
        let block = self.block_of(ppn);
        let (index, word) = (self.layout.block_state_word_index(block), self.block_record(block).encode());
        self.last_batch_mut().word_changes.set(index, word);
        self.waiting_program_bytes += self.layout.geometry.page_bytes as usize;
        self.page_crcs_and_spare_lengths[ppn.index()] = PageCrcAndSpareLength {
            data_and_spare_crc: record.data_and_spare_crc,
            spare_bytes: record.spare_bytes,
        };
    }

    /// Checks the program of a page in the flash model and adds it, with data and spare bytes, to the waiting
    /// operations.
    fn program_page(&mut self, ppn: Ppn, oob: Oob, data: &[u8], spare: &[u8]) -> Result<(), NandError> {
        self.program_in_flash_model(ppn, oob)?;
        let record = self.oob_record_of(ppn, oob, data, spare);
        self.add_program(ppn, record, data, spare);
        Ok(())
    }

    /// Programs a page in the flash model, which checks the program and keeps no data.
    fn program_in_flash_model(&mut self, ppn: Ppn, oob: Oob) -> Result<(), NandError> {
        let content = ContentDescriptor::of_fingerprint(oob.fingerprint);
        self.flash_model.program(ppn, oob, Content::Descriptor(content))
    }

    /// Makes the OOB record of a page that is to be programmed, still without the number of its journal record.
    fn oob_record_of(&self, ppn: Ppn, oob: Oob, data: &[u8], spare: &[u8]) -> OobRecord {
        let block_erase_count = self.flash_model.erase_count(self.block_of(ppn));
        OobRecord {
            block_erase_count,
            oob: Some(oob),
            spare_bytes: spare.len() as u16,
            data_and_spare_crc: self.layout.page_crc(ppn, block_erase_count, data, spare),
            spare_crc: if spare.is_empty() {
                0
            } else {
                self.layout.spare_crc(ppn, block_erase_count, spare)
            },
            is_lost: false,
            journal_record_number: 0,
        }
    }

    /// Returns data and spare bytes of a page whose program waits to be written to the files; `None` if no program of
    /// the page waits.
    fn find_page_awaiting_write(&self, ppn: Ppn) -> Option<(&[u8], &[u8])> {
        if self.waiting_program_bytes == 0 {
            return None;
        }
        self.waiting_batches
            .iter()
            .rev()
            .find_map(|batch| batch.find_page(ppn, self.layout.spare_stride_bytes()))
    }

    /// Handles a refused read of the flash file. If the file is unreadable only at this page, the page is lost. Any
    /// other error stops the device.
    fn handle_refused_read(&mut self, ppn: Ppn, error: &io::Error) -> NandError {
        if is_page_local_read_error(error) {
            return NandError::Uncorrectable(ppn);
        }
        self.unresolved_file_error = Some(self.file_io_error_of("read", ImageFile::Flash, error));
        NandError::PowerLost
    }

    /// Reads the OOB record of a programmed page from one of its two copies, whichever is valid; `None` if neither is.
    fn load_oob_record(&self, ppn: Ppn) -> Option<OobRecord> {
        let block_erase_count = self.flash_model.erase_count(self.block_of(ppn));
        METADATA_COPIES.into_iter().find_map(|side| {
            let (mut bytes, at) = ([0; METADATA_RECORD_BYTES], self.layout.oob_record_offset(ppn));
            if !side.read_metadata(&self.backing, &self.layout, ImageFile::Flash, &mut bytes, at) {
                return None;
            }
            match self.layout.decode_oob_slot(ppn, &bytes) {
                OobSlot::Record(record) if record.block_erase_count == block_erase_count => Some(record),
                OobSlot::Record(_) | OobSlot::Blank | OobSlot::Damaged => None,
            }
        })
    }

    /// Reads the spare bytes of a programmed page and verifies them by their checksum. In a page of an older format,
    /// which has no checksum for the spare bytes alone, spare bytes and data are verified together.
    fn load_spare(&mut self, ppn: Ppn) -> Result<Vec<u8>, NandError> {
        let spare_bytes = self.page_crcs_and_spare_lengths[ppn.index()].spare_bytes;
        if spare_bytes == 0 {
            return Ok(Vec::new());
        }
        if let Some((_, spare)) = self.find_page_awaiting_write(ppn) {
            return Ok(spare[..usize::from(spare_bytes)].to_vec());
        }
        let Some(record) = self.load_oob_record(ppn) else { return Err(NandError::Uncorrectable(ppn)) };
        if record.spare_crc == 0 {
            return Ok(self.load_page(ppn)?.split_off(self.layout.geometry.page_bytes as usize));
        }
        read_spare(&self.backing, &self.layout, ppn, &record).ok_or(NandError::Uncorrectable(ppn))
    }

    /// Reads data and spare bytes of a programmed page, and verifies them by their checksum.
    fn load_page(&mut self, ppn: Ppn) -> Result<Vec<u8>, NandError> {
        let PageCrcAndSpareLength { data_and_spare_crc, spare_bytes } =
            self.page_crcs_and_spare_lengths[ppn.index()];
        if let Some((data, spare)) = self.find_page_awaiting_write(ppn) {
            return Ok([data, &spare[..usize::from(spare_bytes)]].concat());
        }
        let block = self.block_of(ppn);
        let page = PageToVerify {
            ppn,
            block_erase_count: self.flash_model.erase_count(block),
            data_and_spare_crc,
            spare_bytes,
            is_metadata: self.metadata_blocks.contains(&block.0),
        };
        match read_verified_page(&self.backing, &self.layout, page) {
            Ok(Some(VerifiedPage { bytes, is_from_mirror })) => {
                if is_from_mirror {
                    repair_differing_copies(&mut self.backing, &self.layout, page, &bytes);
                }
                Ok(bytes)
            }
            Ok(None) => Err(NandError::Uncorrectable(ppn)),
            Err(error) => Err(self.handle_refused_read(ppn, &error)),
        }
    }

    /// Compares data with the checksum of its page, which has no spare bytes.
    fn verify_page_data(&self, ppn: Ppn, data: &[u8]) -> Result<(), NandError> {
        let block_erase_count = self.flash_model.erase_count(self.block_of(ppn));
        let crc = self.layout.page_crc(ppn, block_erase_count, data, &[]);
        if crc == self.page_crcs_and_spare_lengths[ppn.index()].data_and_spare_crc {
            Ok(())
        } else {
            Err(NandError::Uncorrectable(ppn))
        }
    }

    /// Whether one read from the flash file may return a page together with adjacent pages. This holds if its program
    /// does not wait in RAM, and it has neither spare bytes nor a second copy of its data.
    fn can_be_read_with_adjacent_pages(&self, ppn: Ppn) -> bool {
        self.page_crcs_and_spare_lengths[ppn.index()].spare_bytes == 0
            && self.find_page_awaiting_write(ppn).is_none()
            && !self.metadata_blocks.contains(&self.block_of(ppn).0)
    }

    /// Returns how many pages at the front of `pages` can be read in one read from the flash file, because they are
    /// adjacent in it. 0 if not even the first can be read in this way.
    fn count_jointly_readable(&self, pages: &[Ppn]) -> usize {
        let first = pages[0].0;
        let follow = (first..).zip(pages).take(PAGES_PER_READ_MAX);
        follow
            .take_while(|&(expected, &ppn)| expected == ppn.0 && self.can_be_read_with_adjacent_pages(ppn))
            .count()
    }

    /// Begins the copy of page number `k` of a run of copies: checks the read of the source page in the flash model.
    /// Returns the source, the destination, and the OOB of the copy.
    fn check_copy_source(
        &mut self,
        run: &ConsecutiveCopies<'_>,
        k: usize,
    ) -> Result<(Ppn, Ppn, Oob), NandError> {
        let (from, to) = (run.source_pages[k], Ppn(run.first_destination.0 + k as u32));
        let oob = self.flash_model.read(from, &mut [])?;
        Ok((from, to, Oob { owner: run.owners[k].0, sequence_number: run.first_sequence + k as u64, ..oob }))
    }

    /// Copies page number `k` of a run of copies by itself: reads and verifies the source page, and programs the
    /// destination page.
    fn copy_page(&mut self, run: &ConsecutiveCopies<'_>, k: usize) -> Result<(), NandError> {
        let (from, to, oob) = self.check_copy_source(run, k)?;
        let bytes = self.load_page(from)?;
        let (data, spare) = bytes.split_at(self.layout.geometry.page_bytes as usize);
        self.program_page(to, oob, data, spare)
    }

    /// Reads source pages of a run of copies into the buffer from which the copies will be written. `pages` are indices
    /// in the run. The source pages must be adjacent in the file, and each must allow a joint read
    /// ([`FileNand::can_be_read_with_adjacent_pages`]). Returns whether they could be read.
    fn read_copy_sources(&mut self, run: &ConsecutiveCopies<'_>, pages: &Range<usize>) -> bool {
        let to = Ppn(run.first_destination.0 + pages.start as u32);
        self.order_program_after_erases(self.block_of(to), false);
        let page_bytes = self.layout.geometry.page_bytes as usize;
        let (batch, room) =
            (self.waiting_batches.back_mut().expect("there is always one"), &mut self.page_run_buffers);
        let place = batch.reserve_page_buffers(to, pages.len(), page_bytes, room);
        let at = self.layout.data_offset(run.source_pages[pages.start]);
        self.backing.read(ImageFile::Flash, place, at).is_ok()
    }

    /// Verifies and programs the copy of page number `k` of a run of copies. [`FileNand::read_copy_sources`] has read
    /// its data into the write buffer before.
    fn program_copy(&mut self, run: &ConsecutiveCopies<'_>, k: usize) -> Result<(), NandError> {
        let (from, to, oob) = self.check_copy_source(run, k)?;
        let last = self.waiting_batches.back().expect("there is always one");
        let data = last.data_in_reserved_buffer(to);
        self.verify_page_data(from, data)?;
        let record = OobRecord {
            journal_record_number: last.journal_record_number,
            ..self.oob_record_of(to, oob, data, &[])
        };
        self.program_in_flash_model(to, oob)?;
        let bytes = self.layout.encode_oob(to, &record);
        self.last_batch_mut().add_program_from_reserved_buffer(to, &bytes);
        self.update_state_after_program(to, &record);
        Ok(())
    }

    /// Reads the flash pages `pages`, whose order is arbitrary. Pages that are adjacent in the file are read together.
    /// An error does not tell which page failed.
    fn read_pages_in_any_order(&mut self, pages: &[Ppn], into: &mut [u8]) -> Result<(), NandError> {
        let page_bytes = self.layout.geometry.page_bytes as usize;
        let mut order: Vec<usize> = (0..pages.len()).collect();
        order.sort_unstable_by_key(|&k| pages[k].0);
        let mut parts: Vec<_> = into.chunks_exact_mut(page_bytes).map(Some).collect();
        let sorted: Vec<_> = order.iter().map(|&k| pages[k]).collect();
        let mut done = 0;
        while done < sorted.len() {
            let count = self.count_jointly_readable(&sorted[done..]).max(1);
            let mut take = |at: usize| parts[order[at]].take().expect("each part is read once");
            if count == 1 {
                self.read(sorted[done], take(done))?;
            } else {
                let run = done..done + count;
                let mut slices: Vec<_> = run.clone().map(|at| IoSliceMut::new(take(at))).collect();
                let at = self.layout.data_offset(sorted[done]);
                let read = self.backing.read_parts(ImageFile::Flash, &mut slices, at);
                read.map_err(|error| self.handle_refused_read(sorted[done], &error))?;
                for (&ppn, data) in sorted[run].iter().zip(&slices) {
                    self.flash_model.read(ppn, &mut [])?;
                    self.verify_page_data(ppn, data)?;
                }
            }
            done += count;
        }
        Ok(())
    }

    /// Adds the state word of a block that was marked bad or condemned (a program failed in it) to the waiting
    /// operations.
    fn add_block_state_change(&mut self, block: BlockId) {
        let (index, record) = (self.layout.block_state_word_index(block), self.block_record(block));
        self.last_batch_mut().word_changes.set(index, record.encode());
        self.write_if_too_many_operations_wait();
    }
}

impl<B: Backing> BoxedNand for FileNand<B> {
    fn try_clone(&self) -> Option<Box<dyn BoxedNand>> {
        None
    }
}

impl<B: Backing> From<FileNand<B>> for AnyNand {
    fn from(nand: FileNand<B>) -> Self {
        Self::Other(Box::new(nand))
    }
}

impl<B: Backing> Medium for FileNand<B> {
    fn end_session(&mut self) -> Result<(), NandError> {
        self.sync()?;
        self.run_file_write(|nand| {
            nand.sync_files(&MEDIUM_FILES)?;
            nand.session.was_closed = true;
            nand.session.last_journal_record_number = nand.journal.last_record_number();
            nand.write_session_record()
        })
    }

    fn write_operations_to_files(&mut self) -> Result<(), FileIoError> {
        let written = self.write_waiting_operations();
        self.record_file_io_outcome(written)
    }

    fn unresolved_write_error(&self) -> Option<&FileIoError> {
        self.unresolved_file_error.as_ref()
    }

    /// Sets whether an erase returns the file space of its block to the file system (punches a hole).
    fn set_hole_punching(&mut self, gives_back: bool) {
        self.punches_erased_blocks = gives_back;
    }

    /// Copies the files of the image to `directory`. The copy is an image that was closed cleanly. Returns the sectors
    /// that are damaged in it, because the disk could not read them.
    fn copy_image_to(&mut self, directory: &Path) -> io::Result<Vec<UnreadableSectors>> {
        self.write_operations_to_files().map_err(|refused| io::Error::other(refused.message))?;
        let mut copy = self.backing.copy_files_to(directory)?;
        let unreadable_sectors = copy.unreadable_sectors().to_vec();
        for unreadable in &unreadable_sectors {
            warn!("{unreadable}, so repair it with `wearwell repair {} --in-place`", directory.display());
        }
        let session = SessionRecord {
            was_closed: true,
            last_journal_record_number: self.journal.last_record_number(),
            // From here on the copy and this image are different, although no session begins.
            session_id: random_nonzero_number(),
            previous_session_id: self.session.session_id,
            ..self.session
        };
        let bytes = session.encode(self.layout.checksum_salt);
        let closed = METADATA_COPIES.into_iter().try_for_each(|side| {
            let (file, offset) = side.location_of(&self.layout, ImageFile::Session, 0);
            copy.write(file, &bytes, offset)
        });
        if let Err(error) = closed {
            copy.remove();
            return Err(error);
        }
        copy.finish().map_err(|error| match error {
            ImageError::Io { source, .. } => source,
            error => io::Error::other(error),
        })?;
        Ok(unreadable_sectors)
    }
}

impl<B: Backing> Nand for FileNand<B> {
    fn geometry(&self) -> &Geometry {
        self.flash_model.geometry()
    }

    /// Programs a page with the bytes of `content`. Panics at content without bytes (a descriptor), which an image
    /// cannot store.
    fn program(&mut self, ppn: Ppn, oob: Oob, content: Content<'_>) -> Result<(), NandError> {
        let Content::Bytes(bytes) = content else { panic!("program of page {ppn}: an image keeps bytes") };
        let (data, spare) = bytes.split_at(self.layout.geometry.page_bytes as usize);
        self.program_page(ppn, oob, data, spare)?;
        self.write_if_too_many_operations_wait();
        Ok(())
    }

    /// Programs a page whose data is lost, with zeros in place of the data. A reader that does not know of lost pages
    /// finds that the zeros do not match the checksum in the OOB record.
    fn program_page_marked_lost(&mut self, ppn: Ppn, oob: Oob, spare: &[u8]) -> Result<(), NandError> {
        self.flash_model.program_page_marked_lost(ppn, oob, &[])?;
        let spare = if spare.iter().all(|&byte| byte == 0) { &[] } else { spare };
        let data = vec![0; self.layout.geometry.page_bytes as usize];
        let record = self.oob_record_of(ppn, oob, &data, spare);
        let record = OobRecord { is_lost: true, data_and_spare_crc: !record.data_and_spare_crc, ..record };
        self.add_program(ppn, record, &data, spare);
        self.write_if_too_many_operations_wait();
        Ok(())
    }

    fn read_spare(&mut self, ppn: Ppn, into: &mut [u8]) -> Result<Oob, NandError> {
        let oob = self.flash_model.read_spare(ppn, &mut [])?;
        if !into.is_empty() {
            let spare = self.load_spare(ppn)?;
            let (kept, rest) = into.split_at_mut(into.len().min(spare.len()));
            kept.copy_from_slice(&spare[..kept.len()]);
            rest.fill(0);
        }
        Ok(oob)
    }

    fn pages_programmed_with_lost_mark(&self) -> Vec<Ppn> {
        self.flash_model.pages_programmed_with_lost_mark()
    }

    fn read(&mut self, ppn: Ppn, into: &mut [u8]) -> Result<Oob, NandError> {
        let oob = self.flash_model.read(ppn, &mut [])?;
        if into.is_empty() {
            return Ok(oob);
        }
        if into.len() == self.layout.geometry.page_bytes as usize && self.can_be_read_with_adjacent_pages(ppn)
        {
            let read = self.backing.read(ImageFile::Flash, into, self.layout.data_offset(ppn));
            read.map_err(|error| self.handle_refused_read(ppn, &error))?;
            self.verify_page_data(ppn, into)?;
            return Ok(oob);
        }
        let bytes = self.load_page(ppn)?;
        let (page, rest) = into.split_at_mut(into.len().min(bytes.len()));
        page.copy_from_slice(&bytes[..page.len()]);
        rest.fill(0);
        Ok(oob)
    }

    /// Reads pages of the flash file. Pages that are adjacent in the file are read together.
    fn read_pages(&mut self, pages: &[Ppn], into: &mut [u8]) -> (usize, Result<(), NandError>) {
        let earlier_error = self.unresolved_file_error.clone();
        if self.read_pages_in_any_order(pages, into).is_ok() {
            return (pages.len(), Ok(()));
        }
        // One by one, to find the first page that cannot be read. Only these reads decide whether an error of the
        // operating system stops the device: one that has passed does not.
        self.unresolved_file_error = earlier_error;
        let parts = into.chunks_exact_mut(self.layout.geometry.page_bytes as usize);
        for (k, (&ppn, part)) in pages.iter().zip(parts).enumerate() {
            if let Err(error) = self.read(ppn, part) {
                return (k, Err(error));
            }
        }
        (pages.len(), Ok(()))
    }

    /// Copies pages of the flash. Source pages that are adjacent in the file are read together.
    fn copy(&mut self, run: ConsecutiveCopies<'_>, _: &mut [u8]) -> (usize, Result<(), NandError>) {
        let mut done = 0;
        let mut outcome = Ok(());
        while done < run.source_pages.len() && outcome.is_ok() {
            let pages = done..done + self.count_jointly_readable(&run.source_pages[done..]);
            if pages.is_empty() || !self.read_copy_sources(&run, &pages) {
                outcome = self.copy_page(&run, done);
                done += usize::from(outcome.is_ok());
                continue;
            }
            for k in pages {
                outcome = self.program_copy(&run, k);
                if outcome.is_err() {
                    break;
                }
                done += 1;
            }
        }
        self.write_if_too_many_operations_wait();
        (done, outcome)
    }

    fn probe_page(&mut self, ppn: Ppn) -> Result<Option<Oob>, NandError> {
        self.flash_model.probe_page(ppn)
    }

    fn erase(&mut self, block: BlockId) -> Result<(), NandError> {
        self.flash_model.erase(block)?;
        let (index, word) = (self.layout.block_state_word_index(block), self.block_record(block).encode());
        let (gives_back, had_copies) = (self.punches_erased_blocks, self.metadata_blocks.remove(&block.0));
        let batch = self.last_batch_mut();
        batch.word_changes.set(index, word);
        batch.blocks_to_punch.extend(gives_back.then_some(block));
        batch.mirror_blocks_to_punch.extend(had_copies.then_some(block));
        self.waiting_erases.insert(block);
        if self.waiting_erases.has_too_many_blocks() {
            self.end_last_batch();
        }
        self.write_if_too_many_operations_wait();
        Ok(())
    }

    fn mark_program_failed(&mut self, block: BlockId) {
        self.flash_model.mark_program_failed(block);
        self.add_block_state_change(block);
    }

    fn has_failed_program(&self, block: BlockId) -> bool {
        self.flash_model.has_failed_program(block)
    }

    fn mark_bad(&mut self, block: BlockId) {
        self.flash_model.mark_bad(block);
        self.add_block_state_change(block);
    }

    fn is_bad(&self, block: BlockId) -> bool {
        self.flash_model.is_bad(block)
    }

    fn erase_count(&self, block: BlockId) -> u32 {
        self.flash_model.erase_count(block)
    }

    fn programmed_pages(&self, block: BlockId) -> u32 {
        self.flash_model.programmed_pages(block)
    }

    fn keeps_host_bytes(&self) -> bool {
        true
    }

    fn oob_owner(&self, ppn: Ppn) -> u32 {
        self.flash_model.oob_owner(ppn)
    }

    fn fingerprint(&self, ppn: Ppn) -> Fingerprint {
        self.flash_model.fingerprint(ppn)
    }

    fn nvram(&self) -> &[u64] {
        self.flash_model.nvram()
    }

    fn store_nvram_word(&mut self, index: usize, word: u64) -> Result<(), NandError> {
        self.last_batch_mut().word_changes.set(index as u64, word);
        self.write_if_too_many_operations_wait();
        self.flash_model.store_nvram_word(index, word)
    }

    /// Writes the waiting operations to the files of the image. In a session of durability `host`, this makes two syncs
    /// of the disk, one after the other.
    fn sync(&mut self) -> Result<(), NandError> {
        if self.durability() == Durability::Host {
            self.end_last_batch();
        }
        self.run_file_write(Self::write_waiting_operations)
    }

    fn fence(&mut self) -> Result<(), NandError> {
        self.end_last_batch();
        self.write_if_too_many_operations_wait();
        Ok(())
    }

    fn does_erase_order_operations(&self) -> bool {
        self.waiting_erases.max_waiting_blocks_per_pool == 0
    }
}

/// Puts the flash on purpose into the states in which a power cut may leave it, for tests.
impl<B: Backing> FaultInjectable for FileNand<B> {
    fn tear_program(&mut self, ppn: Ppn) {
        self.flash_model.tear_program(ppn);
        let block_erase_count = self.flash_model.erase_count(self.block_of(ppn));
        // The next sync reports an error of the operating system.
        let _ = self.run_file_write(|nand| {
            nand.write_waiting_operations()?;
            nand.write_torn_mark(ppn, block_erase_count)
        });
    }

    fn tear_erase(&mut self, block: BlockId) {
        self.flash_model.tear_erase(block);
        let record = BlockRecord { health: BlockHealth::HalfErased, ..self.block_record(block) };
        let index = self.layout.block_state_word_index(block);
        let _ = self.run_file_write(|nand| {
            nand.end_last_batch();
            nand.last_batch_mut().word_changes.set(index, record.encode());
            nand.end_last_batch();
            nand.write_waiting_operations()
        });
    }

    /// Makes a page unreadable: flips a bit in the first byte of its data in the file.
    fn make_uncorrectable(&mut self, ppn: Ppn) {
        let (mut byte, at) = ([0], self.layout.data_offset(ppn));
        let _ = self.run_file_write(|nand| {
            nand.write_waiting_operations()?;
            let read = nand.backing.read(ImageFile::Flash, &mut byte, at);
            read.map_err(|error| nand.file_io_error_of("read", ImageFile::Flash, &error))?;
            byte[0] ^= 1;
            nand.write(ImageFile::Flash, &byte, at)
        });
    }
}
