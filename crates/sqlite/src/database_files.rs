//! Stores the files of a database on a device, and performs the copies of a checkpoint as remaps.
//!
//! Database pages and the payloads of log frames are written to the device at once, as whole device pages. `SQLite`
//! also writes smaller pieces: headers of the log and its frames, and the rollback journal. These are collected in
//! *partial* pages in memory until a sync, like in a drive's volatile cache. The price: without a sync they are lost
//! with the process, even where a file system's page cache would have kept them; `SQLite` promises nothing about
//! unsynced data.
//!
//! **Recognition.** A checkpoint reads a page from the log and writes the same buffer to the database. So
//! [`DatabaseFiles`] keeps the payload that was read last from the log, with its bytes. The next write to the database
//! becomes a remap if its bytes are equal and that payload was not overwritten in between. The remap copies (does not
//! move) the mapping, because the pages in the log stay valid: their frames may still be read.
//!
//! Invariants:
//! - A sync stores every file on the device, then the directory, then flushes the device.
//! - Before an extent that a file gave up is trimmed or given to another file, a directory that no longer lists it is
//!   durable. So the deletion of a journal, which commits a transaction, is durable when it returns.
//! - The log is extended only while the database has room for all pages in the log. So a full device can be
//!   checkpointed.
//! - The recorded length of a log is rounded up to whole groups of frames (frames whose headers share a page), so it
//!   covers at least what was written. The checksum of `SQLite` rejects what is not a frame.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::directory::{FileDirectory, FileEntry, FileKind};
use crate::drive::Drive;
use crate::error::Error;
use crate::wal::{
    self, ContiguousRange, FRAME_HEADER_BYTES, SLOT_HEADERS_BYTES, WAL_HEADER_BYTES, WalLayout,
};

/// Most partially written device pages that are kept in memory. When this number is reached, all of them are written to
/// the device and dropped.
const PARTIAL_PAGES_MAX: usize = 64;

/// Numbers of writes, remaps and syncs of a database's files since the database was opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DatabaseFileCounters {
    /// Number of writes of frame payloads (database pages) to `SQLite`'s write-ahead log.
    pub wal_frame_writes: u64,
    /// Number of writes to the database file, including those that became remaps.
    pub database_writes: u64,
    /// Number of writes to the database file that were recognised as copies of pages in the write-ahead log, as a
    /// checkpoint makes them.
    pub checkpoint_copies: u64,
    /// Number of copies from the write-ahead log to the database that were remapped instead of written.
    pub remaps: u64,
    /// Number of device pages written that hold headers of the write-ahead log or parts of the rollback journal.
    pub partial_page_writes: u64,
    /// Number of writes of the device's directory page, which lists the database's files.
    pub directory_writes: u64,
    /// Number of syncs of the database's files; each flushes the device.
    pub syncs: u64,
}

/// The frame payload (database page) that was last read from the write-ahead log. A later write of these bytes to the
/// database can become a remap.
#[derive(Debug)]
struct LastReadWalFrame {
    /// Device address of this frame payload, bytes.
    device_address: u64,
    /// Bytes of the frame payload.
    payload: Vec<u8>,
}

/// Content of a device page that `SQLite` writes piece by piece. It is kept in memory, and written to the device at the
/// next sync, or earlier if too many such pages are kept.
#[derive(Debug)]
struct PartialPage {
    /// Content of the device page.
    bytes: Box<[u8]>,
    /// Whether the content in memory differs from the page on the device.
    is_dirty: bool,
}

/// The files of one `SQLite` database, stored on a device.
pub struct DatabaseFiles {
    /// Device on which the files are stored.
    drive: Box<dyn Drive>,
    /// Directory of the files: which exist, and where on the device they are stored.
    directory: FileDirectory,
    /// Whether the directory differs from the directory page on the device.
    is_directory_dirty: bool,
    /// Partially written device pages that are kept in memory, by their device address in bytes.
    partial_pages: BTreeMap<u64, PartialPage>,
    /// Length of the write-ahead log as `SQLite` sees it, bytes. (The directory has the length rounded up to whole
    /// groups of frames.)
    wal_len_bytes: u64,
    /// Length that the database file will have after a checkpoint of the whole write-ahead log, bytes.
    database_len_after_checkpoint_bytes: u64,
    /// Frame of the write-ahead log that was read last, because the next write to the database may repeat its page.
    /// `None` if no frame was read yet, or if the frame was overwritten since.
    last_wal_read: Option<LastReadWalFrame>,
    /// Whether copies from the write-ahead log to the database become remaps instead of writes.
    remaps_checkpoints: bool,
    /// Counters of writes, remaps and syncs since the files were opened.
    counters: DatabaseFileCounters,
}

impl DatabaseFiles {
    /// Opens the files of one database on a device: reads the directory page, which lists them. An empty device gets an
    /// empty directory. `remaps` states whether checkpoints become remaps.
    ///
    /// # Errors
    /// [`Error::ForeignData`], [`Error::DamagedDirectoryPage`], [`Error::DirectoryVersion`], [`Error::DeviceResized`],
    /// [`Error::DeviceTooSmall`], those of the device.
    pub fn open(mut drive: Box<dyn Drive>, remaps: bool) -> Result<Self, Error> {
        let (capacity_bytes, device_page_bytes) = (drive.capacity_bytes(), drive.device_page_bytes());
        let empty = FileDirectory::new(capacity_bytes, device_page_bytes)?;
        let mut page = vec![0; device_page_bytes as usize];
        drive.read(0, &mut page)?;
        let directory = FileDirectory::decode(&page, capacity_bytes)?.unwrap_or(empty);
        let mut files = Self {
            wal_len_bytes: directory.entry(FileKind::Wal).len_bytes,
            drive,
            directory,
            is_directory_dirty: false,
            partial_pages: BTreeMap::new(),
            database_len_after_checkpoint_bytes: 0,
            last_wal_read: None,
            remaps_checkpoints: remaps,
            counters: DatabaseFileCounters::default(),
        };
        files.database_len_after_checkpoint_bytes = files.read_database_len_after_checkpoint()?;
        Ok(files)
    }

    /// Returns the length, in bytes, that the database file will have after a checkpoint of the write-ahead log that an
    /// earlier session left, as far as the headers of its frames show it; 0 without a log.
    fn read_database_len_after_checkpoint(&mut self) -> Result<u64, Error> {
        let Some(layout) = self.wal_layout() else { return Ok(0) };
        let (mut slot, mut salts, mut last_page) = ([0; SLOT_HEADERS_BYTES], None, 0);
        for group in 0..layout.frame_groups_of_log_bytes(self.wal_len_bytes) {
            let at = self.directory.device_address(FileKind::Wal, layout.stored_headers_offset(group));
            let Some(at) = at else { break };
            self.drive.read(at, &mut slot)?;
            let salts = *salts.get_or_insert_with(|| wal::salts_of_log(&slot));
            last_page = last_page.max(wal::last_page_in_frame_group(&slot, salts));
        }
        Ok(u64::from(last_page) * layout.page_bytes)
    }

    /// Returns the counters of writes, remaps and syncs since the files were opened.
    pub fn counters(&self) -> DatabaseFileCounters {
        self.counters
    }

    /// Returns the counters of the database's files and of the device, as JSON.
    ///
    /// # Errors
    /// Those of [`Drive::stats`].
    pub fn stats(&mut self) -> Result<Value, Error> {
        let DatabaseFileCounters {
            wal_frame_writes,
            database_writes,
            checkpoint_copies,
            remaps,
            partial_page_writes,
            directory_writes,
            syncs,
        } = self.counters;
        Ok(json!({
            "vfs": {
                "remap": self.remaps_checkpoints,
                "wal_frame_writes": wal_frame_writes,
                "database_writes": database_writes,
                "checkpoint_copies": checkpoint_copies,
                "remaps": remaps,
                "partial_page_writes": partial_page_writes,
                "directory_writes": directory_writes,
                "syncs": syncs,
            },
            "device": self.drive.stats()?,
        }))
    }

    /// Returns the size of a device page, bytes.
    pub(crate) fn device_page_bytes(&self) -> u32 {
        self.drive.device_page_bytes()
    }

    /// Whether the file of kind `kind` exists.
    pub(crate) fn exists(&self, kind: FileKind) -> bool {
        self.directory.entry(kind).exists
    }

    /// Creates an empty file of kind `kind`, if it does not exist.
    pub(crate) fn create(&mut self, kind: FileKind) {
        if !self.exists(kind) {
            self.directory.entry_mut(kind).exists = true;
            self.is_directory_dirty = true;
        }
    }

    /// Returns the length of a file, bytes; 0 if the file does not exist.
    pub(crate) fn len(&self, kind: FileKind) -> u64 {
        match kind {
            FileKind::Wal => self.wal_len_bytes,
            FileKind::Database | FileKind::Journal => self.directory.entry(kind).len_bytes,
        }
    }

    /// Reads bytes of one of the database's files into `into`. Bytes after the end of the file are zeros. Returns
    /// whether all bytes are inside the file.
    pub(crate) fn read(&mut self, kind: FileKind, offset: u64, into: &mut [u8]) -> Result<bool, Error> {
        let inside = self.len(kind).saturating_sub(offset).min(into.len() as u64) as usize;
        let (body, behind) = into.split_at_mut(inside);
        behind.fill(0);
        let mut done = 0;
        while done < body.len() {
            let place = self.contiguous_range(kind, offset + done as u64);
            let piece = place.unwrap_or(ContiguousRange {
                stored_offset_bytes: u64::MAX,
                len_bytes: u64::MAX,
                may_cover_partial_pages: true,
            });
            let end = body.len().min(done.saturating_add(piece.len_bytes.min(usize::MAX as u64) as usize));
            self.read_contiguous(kind, piece, &mut body[done..end])?;
            done = end;
        }
        Ok(inside == into.len())
    }

    /// Reads bytes from the beginning of `piece`, a range of a file that is contiguous on the device. If the bytes are
    /// the payload of a log frame, keeps them, so that a later write of them to the database can become a remap.
    fn read_contiguous(
        &mut self,
        kind: FileKind,
        piece: ContiguousRange,
        into: &mut [u8],
    ) -> Result<(), Error> {
        let Some(at) = self.directory.device_address(kind, piece.stored_offset_bytes) else {
            into.fill(0);
            return Ok(());
        };
        self.drive.read(at, into)?;
        self.overlay_partial_pages(at, into);
        let is_payload =
            kind == FileKind::Wal && !piece.may_cover_partial_pages && piece.len_bytes == into.len() as u64;
        if is_payload && self.is_whole_pages(into.len()) {
            self.last_wal_read = Some(LastReadWalFrame { device_address: at, payload: into.to_vec() });
        }
        Ok(())
    }

    /// Copies the bytes of partially written pages in memory over the bytes that were read from device address `at`,
    /// because those in memory are newer.
    fn overlay_partial_pages(&self, at: u64, into: &mut [u8]) {
        let device_page_bytes = u64::from(self.device_page_bytes());
        let end = at + into.len() as u64;
        for (&page_at, page) in self.partial_pages.range(at / device_page_bytes * device_page_bytes..end) {
            let (from, to) = (at.max(page_at), end.min(page_at + device_page_bytes));
            let bytes = &page.bytes[(from - page_at) as usize..(to - page_at) as usize];
            into[(from - at) as usize..(to - at) as usize].copy_from_slice(bytes);
        }
    }

    /// Whether `len` bytes are a whole number of device pages, at least one.
    fn is_whole_pages(&self, len: usize) -> bool {
        len > 0 && len.is_multiple_of(self.device_page_bytes() as usize)
    }

    /// Returns the layout of the write-ahead log on the device; `None` if the page size of the log is not known yet.
    fn wal_layout(&self) -> Option<WalLayout> {
        let page_bytes = self.directory.wal_page_bytes;
        (page_bytes > 0).then(|| WalLayout::new(page_bytes, self.device_page_bytes()))
    }

    /// Returns the range of a file that begins at byte `offset` and is contiguous on the device, too. `None` for a
    /// write-ahead log whose header has not been written, because its page size is then unknown.
    fn contiguous_range(&self, kind: FileKind, offset: u64) -> Option<ContiguousRange> {
        let extent_bytes = self.directory.extent_bytes();
        match kind {
            FileKind::Wal => self.wal_layout().map(|layout| layout.contiguous_range_at(offset)),
            FileKind::Database | FileKind::Journal => Some(ContiguousRange {
                stored_offset_bytes: offset,
                len_bytes: extent_bytes - offset % extent_bytes,
                may_cover_partial_pages: kind == FileKind::Journal,
            }),
        }
    }

    /// Writes bytes to one of the database's files, which is created if it does not exist.
    pub(crate) fn write(&mut self, kind: FileKind, offset: u64, bytes: &[u8]) -> Result<(), Error> {
        self.create(kind);
        if kind == FileKind::Wal {
            self.apply_wal_header(offset, bytes)?;
        }
        let mut done = 0;
        while done < bytes.len() {
            let piece = self.contiguous_range(kind, offset + done as u64).ok_or(Error::HeaderlessWal)?;
            let end = bytes.len().min(done + piece.len_bytes as usize);
            self.write_contiguous(kind, piece, &bytes[done..end])?;
            done = end;
        }
        self.extend_file_len(kind, offset + bytes.len() as u64);
        Ok(())
    }

    /// Evaluates a header that is written to the write-ahead log. The header of the log contains the page size. The
    /// header of a frame contains the number of its database page. Returns an error if the device has no room to extend
    /// the database to this page at the next checkpoint.
    fn apply_wal_header(&mut self, offset: u64, header: &[u8]) -> Result<(), Error> {
        match (offset, header.len() as u64) {
            (0, WAL_HEADER_BYTES) => self.set_wal_page_bytes(wal::database_page_bytes(header)),
            (1.., FRAME_HEADER_BYTES) => {
                let last_page = u64::from(wal::database_page_number(header));
                let end = last_page * u64::from(self.directory.wal_page_bytes);
                if end > self.database_len_after_checkpoint_bytes {
                    self.directory
                        .require_free_extents(self.directory.missing_extent_count(FileKind::Database, end))?;
                    self.database_len_after_checkpoint_bytes = end;
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Begins a new write-ahead log with pages of `page_bytes` bytes.
    fn set_wal_page_bytes(&mut self, page_bytes: u32) {
        self.database_len_after_checkpoint_bytes = 0;
        if page_bytes != self.directory.wal_page_bytes {
            self.directory.wal_page_bytes = page_bytes;
            self.wal_len_bytes = 0;
            self.is_directory_dirty = true;
        }
    }

    /// Writes bytes at the beginning of `piece`, a range of a file that is contiguous on the device. If no space is
    /// assigned to the file there, assigns it first.
    fn write_contiguous(
        &mut self,
        kind: FileKind,
        piece: ContiguousRange,
        bytes: &[u8],
    ) -> Result<(), Error> {
        let end = piece.stored_offset_bytes + bytes.len() as u64;
        let kept = match kind {
            FileKind::Wal => self
                .directory
                .missing_extent_count(FileKind::Database, self.database_len_after_checkpoint_bytes),
            FileKind::Database | FileKind::Journal => 0,
        };
        self.is_directory_dirty |= self.directory.assign_extents(kind, end, kept)?;
        let at = self.directory.device_address(kind, piece.stored_offset_bytes).expect("room was made");
        match kind {
            _ if piece.may_cover_partial_pages => self.write_to_partial_pages(at, bytes),
            FileKind::Database => self.write_database(at, bytes),
            FileKind::Journal | FileKind::Wal => self.write_wal_payload(at, bytes),
        }
    }

    /// Writes the payload of a log frame (a database page) to device address `at`.
    fn write_wal_payload(&mut self, at: u64, bytes: &[u8]) -> Result<(), Error> {
        self.counters.wal_frame_writes += 1;
        if self.last_wal_read.as_ref().is_some_and(|read| read.device_address == at) {
            self.last_wal_read = None;
        }
        self.drive.write(at, bytes)
    }

    /// Writes bytes of the database to device address `at`. If they equal the frame payload that was read last from the
    /// write-ahead log, a remap replaces the write.
    fn write_database(&mut self, at: u64, bytes: &[u8]) -> Result<(), Error> {
        self.counters.database_writes += 1;
        let source =
            self.last_wal_read.as_ref().filter(|read| read.payload == bytes).map(|read| read.device_address);
        let Some(source) = source.filter(|_| at.is_multiple_of(u64::from(self.device_page_bytes()))) else {
            return self.drive.write(at, bytes);
        };
        self.counters.checkpoint_copies += 1;
        if !self.remaps_checkpoints {
            return self.drive.write(at, bytes);
        }
        self.counters.remaps += 1;
        self.drive.remap(at, source, bytes.len() as u64)
    }

    /// Copies bytes for device address `at` into partially written pages in memory. These pages are written to the
    /// device at the next sync.
    fn write_to_partial_pages(&mut self, at: u64, bytes: &[u8]) -> Result<(), Error> {
        let device_page_bytes = u64::from(self.device_page_bytes());
        let mut done = 0;
        while done < bytes.len() {
            let from = at + done as u64;
            let page_at = from / device_page_bytes * device_page_bytes;
            let end = bytes.len().min((page_at + device_page_bytes - at) as usize);
            let page = self.load_partial_page(page_at)?;
            let within = (from - page_at) as usize;
            page.bytes[within..within + end - done].copy_from_slice(&bytes[done..end]);
            page.is_dirty = true;
            done = end;
        }
        Ok(())
    }

    /// Returns the device page at address `page_at` as it is kept in memory. If it is not in memory, it is read from
    /// the device first.
    fn load_partial_page(&mut self, page_at: u64) -> Result<&mut PartialPage, Error> {
        if !self.partial_pages.contains_key(&page_at) {
            if self.partial_pages.len() >= PARTIAL_PAGES_MAX {
                self.write_partial_pages()?;
                self.partial_pages.clear();
            }
            let mut bytes: Box<[u8]> = vec![0; self.device_page_bytes() as usize].into();
            self.drive.read(page_at, &mut bytes)?;
            self.partial_pages.insert(page_at, PartialPage { bytes, is_dirty: false });
        }
        Ok(self.partial_pages.get_mut(&page_at).expect("it is there or was put there"))
    }

    /// Writes all changed partial pages (partially written device pages in memory) to the device. They stay in memory,
    /// because the headers of the next log frames belong to the same pages.
    fn write_partial_pages(&mut self) -> Result<(), Error> {
        for (&at, page) in self.partial_pages.iter_mut().filter(|(_, page)| page.is_dirty) {
            self.drive.write(at, &page.bytes)?;
            page.is_dirty = false;
            self.counters.partial_page_writes += 1;
        }
        Ok(())
    }

    /// Extends a file to a length of `end` bytes if the file is shorter.
    fn extend_file_len(&mut self, kind: FileKind, end: u64) {
        if end > self.len(kind) {
            self.set_file_len(kind, end);
        }
    }

    /// Sets the length of a file to `len` bytes, in memory and in the directory. The directory is written at the next
    /// sync.
    fn set_file_len(&mut self, kind: FileKind, len: u64) {
        let recorded = self.recorded_len_bytes(kind, len);
        let entry = self.directory.entry_mut(kind);
        self.is_directory_dirty |= entry.len_bytes != recorded;
        entry.len_bytes = recorded;
        if kind == FileKind::Wal {
            self.wal_len_bytes = len;
        }
    }

    /// Returns the length, in bytes, that the directory records for a file of `len` bytes: that of a write-ahead log is
    /// rounded up to whole groups of frames.
    fn recorded_len_bytes(&self, kind: FileKind, len: u64) -> u64 {
        match kind {
            FileKind::Wal => self
                .wal_layout()
                .map_or(0, |layout| layout.log_bytes_of_frame_groups(layout.frame_groups_of_log_bytes(len))),
            FileKind::Database | FileKind::Journal => len,
        }
    }

    /// Truncates one of the database's files to `len` bytes. Extents (runs of device pages) that the file no longer
    /// needs are freed.
    pub(crate) fn truncate(&mut self, kind: FileKind, len: u64) -> Result<(), Error> {
        let stored = match self.wal_layout().filter(|_| kind == FileKind::Wal) {
            Some(layout) => layout.stored_log_bytes(len),
            None => len,
        };
        let mut shortened = self.directory.clone();
        let given_up = shortened.detach_extents_after_length(kind, stored);
        if given_up.is_empty() {
            self.set_file_len(kind, len);
            return Ok(());
        }
        shortened.entry_mut(kind).len_bytes = self.recorded_len_bytes(kind, len);
        self.shorten_file_durably(kind, len, shortened, given_up)
    }

    /// Deletes one of the database's files; returns whether it existed.
    pub(crate) fn delete(&mut self, kind: FileKind) -> Result<bool, Error> {
        if !self.exists(kind) {
            return Ok(false);
        }
        let mut shortened = self.directory.clone();
        let given_up = shortened.detach_extents_after_length(kind, 0);
        *shortened.entry_mut(kind) = FileEntry::default();
        self.shorten_file_durably(kind, 0, shortened, given_up)?;
        Ok(true)
    }

    /// Shortens a file to `len` bytes and frees the extents (runs of device pages) `given_up`. `shortened` is the
    /// directory in which the file is shorter and does not list them. First writes this directory durably to the
    /// device, then trims the extents. If the directory cannot be written, the file keeps its length and its extents,
    /// so that the request can be repeated.
    fn shorten_file_durably(
        &mut self,
        kind: FileKind,
        len: u64,
        shortened: FileDirectory,
        given_up: Vec<u16>,
    ) -> Result<(), Error> {
        // After an error, either of the two directories may be on the device.
        self.is_directory_dirty = true;
        self.write_directory_page(&shortened.encode())?;
        self.drive.flush()?;
        self.directory = shortened;
        self.is_directory_dirty = false;
        if kind == FileKind::Wal {
            self.wal_len_bytes = len;
        }
        self.free_extents(given_up)
    }

    /// Frees and trims extents (runs of device pages) that the directory on the device does not list any more. If a
    /// trim fails, all of them are free nevertheless.
    fn free_extents(&mut self, extents: Vec<u16>) -> Result<(), Error> {
        let extent_bytes = self.directory.extent_bytes();
        self.last_wal_read = None;
        let addresses: Vec<_> =
            extents.into_iter().map(|extent| self.directory.release_extent(extent)).collect();
        for &at in &addresses {
            self.partial_pages.retain(|page_at, _| !(at..at + extent_bytes).contains(page_at));
        }
        addresses.into_iter().try_for_each(|at| self.drive.trim(at, extent_bytes))
    }

    /// Writes an encoded directory to the directory page of the device, without a flush.
    fn write_directory_page(&mut self, encoded_directory: &[u8]) -> Result<(), Error> {
        self.drive.write(0, encoded_directory)?;
        self.counters.directory_writes += 1;
        Ok(())
    }

    /// Makes everything durable that was written to the database's files.
    pub(crate) fn sync(&mut self) -> Result<(), Error> {
        self.counters.syncs += 1;
        self.write_partial_pages()?;
        if self.is_directory_dirty {
            self.write_directory_page(&self.directory.encode())?;
            self.is_directory_dirty = false;
        }
        self.drive.flush()
    }

    /// Syncs all files of the database and closes the device.
    pub(crate) fn close(mut self) -> Result<(), Error> {
        let synced = self.sync();
        self.drive.close().and(synced)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use wearwell_serve::DeviceError;

    use super::*;
    use crate::directory::EXTENTS_MAX;
    use crate::open_drive::open_drive;
    use crate::options::Options;

    /// Page size of the database and the device, bytes.
    const PAGE_BYTES: usize = 4096;
    /// Offset of the first frame's payload in a write-ahead log, bytes.
    const FIRST_PAYLOAD_OFFSET: u64 = WAL_HEADER_BYTES + FRAME_HEADER_BYTES;

    /// Makes an empty drive in memory.
    fn new_drive() -> Box<dyn Drive> {
        let parameters = [("memory", "on"), ("size", "32MiB"), ("set", "remap.dedup=false")];
        let value =
            |name: &str| parameters.iter().find(|(key, _)| *key == name).map(|(_, value)| value.to_string());
        let options = Options::from_uri_parameters(value).expect("they are complete");
        open_drive(&options, true).expect("it is possible")
    }

    /// Writes the header of a write-ahead log whose salts are bytes of value `salt`.
    fn write_log_header(files: &mut DatabaseFiles, salt: u8) {
        let mut header = [0; WAL_HEADER_BYTES as usize];
        header[8..12].copy_from_slice(&(PAGE_BYTES as u32).to_be_bytes());
        header[16..24].fill(salt);
        files.write(FileKind::Wal, 0, &header).expect("there is room");
    }

    /// Writes frame number `frame` of a write-ahead log with the salts `salt`: database page number `page_number` with
    /// the content `page`.
    fn write_frame(
        files: &mut DatabaseFiles,
        salt: u8,
        frame: u64,
        page_number: u32,
        page: &[u8],
    ) -> Result<(), Error> {
        let mut header = [0; FRAME_HEADER_BYTES as usize];
        header[..4].copy_from_slice(&page_number.to_be_bytes());
        header[8..16].fill(salt);
        let offset = WAL_HEADER_BYTES + frame * (FRAME_HEADER_BYTES + PAGE_BYTES as u64);
        files.write(FileKind::Wal, offset, &header)?;
        files.write(FileKind::Wal, offset + FRAME_HEADER_BYTES, page)
    }

    /// Makes the files of a database with a write-ahead log of one frame with database page `page`, and reads this page
    /// from the log.
    fn database_files_after_log_read(page: &[u8]) -> DatabaseFiles {
        let mut files = DatabaseFiles::open(new_drive(), true).expect("it is new");
        write_log_header(&mut files, 0);
        write_frame(&mut files, 0, 0, 0, page).expect("there is room");
        files.read(FileKind::Wal, FIRST_PAYLOAD_OFFSET, &mut [0; PAGE_BYTES]).expect("it was written");
        files
    }

    /// Writes `page` to the database, reads it back, and checks that the write caused `remaps` remaps.
    fn assert_remaps_of_database_write(mut files: DatabaseFiles, page: &[u8], remaps: u64) {
        files.write(FileKind::Database, 0, page).expect("there is room");
        let mut found = [0; PAGE_BYTES];
        files.read(FileKind::Database, 0, &mut found).expect("it was written");
        assert!(found == page, "other bytes than those written");
        assert_eq!(files.counters().remaps, remaps);
    }

    #[test]
    fn a_checkpoint_write_of_logged_bytes_becomes_a_remap() {
        assert_remaps_of_database_write(database_files_after_log_read(&[1; PAGE_BYTES]), &[1; PAGE_BYTES], 1);
    }

    #[test]
    fn a_write_of_bytes_not_in_the_log_is_a_plain_write() {
        assert_remaps_of_database_write(database_files_after_log_read(&[1; PAGE_BYTES]), &[2; PAGE_BYTES], 0);
    }

    #[test]
    fn a_log_frame_changed_after_its_read_is_not_remapped() {
        let mut files = database_files_after_log_read(&[1; PAGE_BYTES]);
        files.write(FileKind::Wal, FIRST_PAYLOAD_OFFSET, &[3; PAGE_BYTES]).expect("there is room");
        assert_remaps_of_database_write(files, &[1; PAGE_BYTES], 0);
    }

    /// Writes frames of database page 1 to the write-ahead log, from frame number `frame` on, until the device is full.
    fn fill_log(files: &mut DatabaseFiles, salt: u8, frame: u64) {
        let mut frames = frame..;
        let error = frames.find_map(|frame| write_frame(files, salt, frame, 1, &[5; PAGE_BYTES]).err());
        assert!(matches!(error, Some(Error::DeviceFull { .. })), "{error:?}");
    }

    /// Bug: the log of a session that was killed was not taken into account, so that the log of the next session could
    /// take the room of the pages that a checkpoint appends to the database.
    #[test]
    fn a_log_of_a_killed_session_can_be_checkpointed_on_a_full_device() {
        /// Number of the last page by which the log of the first session extends the database.
        const LAST_PAGE: u32 = 3000;
        let mut files = DatabaseFiles::open(new_drive(), true).expect("it is new");
        files.write(FileKind::Database, 0, &[1; PAGE_BYTES]).expect("there is room");
        write_log_header(&mut files, 7);
        for frame in 0..200 {
            let page_number = LAST_PAGE - 199 + frame;
            write_frame(&mut files, 7, frame.into(), page_number, &[2; PAGE_BYTES]).expect("there is room");
        }
        files.sync().expect("the device works");
        let mut files = DatabaseFiles::open(files.drive, true).expect("it was synced");
        fill_log(&mut files, 7, 200);
        let last_offset = u64::from(LAST_PAGE - 1) * PAGE_BYTES as u64;
        files.write(FileKind::Database, last_offset, &[2; PAGE_BYTES]).expect("room was kept");
    }

    /// Frames that an earlier log left on the device need no room in the database.
    #[test]
    fn frames_of_an_earlier_log_are_not_counted_when_a_database_is_opened() {
        let mut files = DatabaseFiles::open(new_drive(), true).expect("it is new");
        write_log_header(&mut files, 7);
        for frame in 0..3 {
            write_frame(&mut files, 7, frame, 3000, &[2; PAGE_BYTES]).expect("there is room");
        }
        write_log_header(&mut files, 8);
        write_frame(&mut files, 8, 0, 5, &[2; PAGE_BYTES]).expect("there is room");
        files.sync().expect("the device works");
        let files = DatabaseFiles::open(files.drive, true).expect("it was synced");
        assert_eq!(files.database_len_after_checkpoint_bytes, 5 * PAGE_BYTES as u64);
    }

    /// Operation that a [`RefusingDrive`] refuses.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    enum RefusedOperation {
        /// All writes fail.
        Write,
        /// All flushes fail.
        Flush,
        /// All trims fail.
        Trim,
    }

    /// Drive that fails operations of one kind while a test wants it.
    struct RefusingDrive {
        /// Drive that executes the other operations.
        inner: Box<dyn Drive>,
        /// Kind of operation that fails; `None` if none does.
        refused: Arc<Mutex<Option<RefusedOperation>>>,
    }

    impl RefusingDrive {
        /// Returns an error if operations of this kind fail.
        fn check(&self, operation: RefusedOperation) -> Result<(), Error> {
            if *self.refused.lock().expect("no test panics with it") == Some(operation) {
                return Err(DeviceError::Failed("refused on purpose".into()).into());
            }
            Ok(())
        }
    }

    impl Drive for RefusingDrive {
        fn capacity_bytes(&self) -> u64 {
            self.inner.capacity_bytes()
        }
        fn device_page_bytes(&self) -> u32 {
            self.inner.device_page_bytes()
        }
        fn read(&mut self, offset: u64, into: &mut [u8]) -> Result<(), Error> {
            self.inner.read(offset, into)
        }
        fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<(), Error> {
            self.check(RefusedOperation::Write)?;
            self.inner.write(offset, bytes)
        }
        fn trim(&mut self, offset: u64, len: u64) -> Result<(), Error> {
            self.check(RefusedOperation::Trim)?;
            self.inner.trim(offset, len)
        }
        fn flush(&mut self) -> Result<(), Error> {
            self.check(RefusedOperation::Flush)?;
            self.inner.flush()
        }
        fn remap(&mut self, target: u64, source: u64, len: u64) -> Result<(), Error> {
            self.inner.remap(target, source, len)
        }
        fn stats(&mut self) -> Result<Value, Error> {
            self.inner.stats()
        }
        fn close(self: Box<Self>) -> Result<(), Error> {
            self.inner.close()
        }
    }

    /// Makes the files of a database with a rollback journal of four extents that is durable. Returns them with the
    /// switch that makes operations of their drive fail, and the number of extents that are free.
    fn database_files_with_journal() -> (DatabaseFiles, Arc<Mutex<Option<RefusedOperation>>>, usize) {
        let refused = Arc::default();
        let drive = RefusingDrive { inner: new_drive(), refused: Arc::clone(&refused) };
        let mut files = DatabaseFiles::open(Box::new(drive), true).expect("it is new");
        let journal = vec![6; 4 * files.directory.extent_bytes() as usize];
        files.write(FileKind::Journal, 0, &journal).expect("there is room");
        files.sync().expect("the device works");
        let free = free_extent_count(&files);
        (files, refused, free)
    }

    /// Returns how many extents can be assigned to files.
    fn free_extent_count(files: &DatabaseFiles) -> usize {
        let counts = 0..EXTENTS_MAX as usize;
        counts.take_while(|&count| files.directory.require_free_extents(count + 1).is_ok()).count()
    }

    /// Bug: the journal was deleted in memory only. A repeated deletion reported that there is no journal, and after
    /// the next opening it was there again, so that a transaction that counted as committed was rolled back.
    #[test]
    fn a_deletion_that_did_not_become_durable_can_be_repeated() {
        for operation in [RefusedOperation::Write, RefusedOperation::Flush] {
            let (mut files, refused, free) = database_files_with_journal();
            *refused.lock().unwrap() = Some(operation);
            files.delete(FileKind::Journal).expect_err("the device refuses");
            assert!(files.exists(FileKind::Journal), "{operation:?}");
            *refused.lock().unwrap() = None;
            assert!(files.delete(FileKind::Journal).expect("the device works"), "{operation:?}");
            assert_eq!(free_extent_count(&files), free + 4);
            let files = DatabaseFiles::open(files.drive, true).expect("it was written");
            assert!(!files.exists(FileKind::Journal), "{operation:?}");
        }
    }

    #[test]
    fn a_file_keeps_its_length_and_extents_if_its_truncation_does_not_become_durable() {
        let (mut files, refused, free) = database_files_with_journal();
        let len = files.len(FileKind::Journal);
        *refused.lock().unwrap() = Some(RefusedOperation::Flush);
        files.truncate(FileKind::Journal, 10).expect_err("the device refuses");
        assert_eq!((files.len(FileKind::Journal), free_extent_count(&files)), (len, free));
        *refused.lock().unwrap() = None;
        files.truncate(FileKind::Journal, 10).expect("the device works");
        assert_eq!((files.len(FileKind::Journal), free_extent_count(&files)), (10, free + 3));
    }

    /// Bug: the extents after the first one whose trim failed stayed taken until the next opening.
    #[test]
    fn extents_whose_trim_fails_are_free() {
        let (mut files, refused, free) = database_files_with_journal();
        *refused.lock().unwrap() = Some(RefusedOperation::Trim);
        files.delete(FileKind::Journal).expect_err("the device refuses");
        assert_eq!(free_extent_count(&files), free + 4);
    }
}
