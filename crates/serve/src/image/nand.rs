//! Flash and NVRAM in files, under the rules of the strict model.
//!
//! The rules are [`SimNand`]'s: it judges every operation and holds OOB and wear of all pages in RAM (28 bytes a page, with
//! 8 more here to guard the data). The files hold what survives. A program writes the spare area, then the data, then the
//! OOB record, whose arrival is the program; an erase writes the block's record with the next epoch, which makes all pages
//! of the block erased at once; a store of NVRAM writes one record. Each of the three commits by one write that cannot be
//! torn, so the end of the process leaves the operation not begun or done.
//!
//! In a `host` session NVRAM words wait in RAM until [`Nand::sync`]: first the flash reaches the disk, then the words as one
//! batch through the journal, so that NVRAM never knows more than the flash. An erase syncs before and after: what it destroys
//! must not be needed by anything on the disk, and no later program may arrive there before it. What the host may leave of
//! programs since the last sync is told in `load`.
//!
//! An operation that a file refuses (disk full, for example) did not happen; the medium then answers like one without power
//! until the image is opened again, and [`FileNand::failure`] says why.

use std::collections::{BTreeMap, BTreeSet};

use wearwell::address::{BlockId, Ppn};
use wearwell::content::{Content, Descriptor, Fingerprint};
use wearwell::nand::{CopyRun, Fragile, Geometry, Nand, NandError, Oob, SimNand};

use super::backing::{Backing, Files, ImageFile};
use super::layout::{
    BlockHealth, BlockRecord, Durability, Journal, Layout, OobRecord, OobSlot, RECORD_BYTES, Session,
    WORD_BYTES,
};
use super::load::{Guard, Loaded, read_page, read_spare};
use crate::device::Medium;

/// Flash and NVRAM of an open image.
#[derive(Debug)]
pub struct FileNand<B = Files> {
    backing: B,
    layout: Layout,
    model: SimNand,
    guards: Vec<Guard>,
    /// The session that holds the medium.
    session: Session,
    /// Words stored since the last sync of a `host` session.
    waiting: BTreeMap<u64, u64>,
    /// Largest sequence number programmed, and the largest that a sync covered.
    sequence: u64,
    synced_sequence: u64,
    failure: Option<String>,
    damaged: BTreeSet<u32>,
}

/// Programs of pages that follow each other, before they are written.
#[derive(Default)]
struct Staged {
    data: Vec<u8>,
    records: Vec<u8>,
    guards: Vec<Guard>,
    sequence: u64,
}

impl<B: Backing> FileNand<B> {
    pub(super) fn new(backing: B, layout: Layout, loaded: Loaded, session: Session) -> Self {
        let Loaded { model, guards, sequence, .. } = loaded;
        Self {
            backing,
            layout,
            model,
            guards,
            session,
            waiting: BTreeMap::new(),
            sequence,
            synced_sequence: sequence,
            failure: None,
            damaged: BTreeSet::new(),
        }
    }

    /// What the session survives.
    pub fn durability(&self) -> Durability {
        self.session.durability
    }

    /// Pages whose data was found damaged while they were read.
    pub fn damaged_pages(&self) -> impl Iterator<Item = Ppn> + '_ {
        self.damaged.iter().map(|&ppn| Ppn(ppn))
    }

    /// Bytes of RAM that the medium needs per page of flash.
    pub const RAM_BYTES_PER_PAGE: u64 = 28 + size_of::<Guard>() as u64;

    /// Begins the session: in a `host` session everything found reaches the disk first, and the journal knows how far that
    /// is.
    pub(super) fn begin_session(&mut self) -> Result<(), NandError> {
        if self.durability() == Durability::Host {
            self.sync_file(ImageFile::Flash)?;
            self.sync_file(ImageFile::Nvram)?;
            self.commit_words()?;
        }
        self.write_session()
    }

    /// Notes that the image was closed, when everything is on the host's disk.
    pub(super) fn end_session(&mut self) -> Result<(), NandError> {
        self.sync_file(ImageFile::Flash)?;
        self.sync_file(ImageFile::Nvram)?;
        self.session.is_clean = true;
        self.write_session()
    }

    fn write_session(&mut self) -> Result<(), NandError> {
        let bytes = self.session.encode(self.layout.salt);
        self.write(ImageFile::Session, &bytes, 0)?;
        self.sync_file(ImageFile::Session)
    }

    /// The files.
    pub fn backing(&self) -> &B {
        &self.backing
    }

    /// The files, for faults from outside.
    pub fn backing_mut(&mut self) -> &mut B {
        &mut self.backing
    }

    /// Takes the files out; what waits for a sync is lost, as at the end of the process.
    pub fn into_backing(self) -> B {
        self.backing
    }

    fn powered(&self) -> Result<(), NandError> {
        if self.failure.is_some() { Err(NandError::PowerLost) } else { Ok(()) }
    }

    /// The host refused: from now on nothing works.
    fn fail(&mut self, doing: &str, file: ImageFile, error: &std::io::Error) -> NandError {
        let place = self.backing.place(file);
        self.failure =
            Some(format!("cannot {doing} {place}: {error}; the device stopped, open the image again"));
        NandError::PowerLost
    }

    fn write(&mut self, file: ImageFile, bytes: &[u8], offset: u64) -> Result<(), NandError> {
        self.powered()?;
        self.backing.write(file, bytes, offset).map_err(|error| self.fail("write", file, &error))
    }

    fn sync_file(&mut self, file: ImageFile) -> Result<(), NandError> {
        self.powered()?;
        self.backing.sync(file).map_err(|error| self.fail("sync", file, &error))
    }

    fn block_of(&self, ppn: Ppn) -> BlockId {
        BlockId(ppn.0 / self.layout.geometry.block_pages())
    }

    fn write_record(&mut self, block: BlockId, health: BlockHealth, erases: u32) -> Result<(), NandError> {
        let record = self.layout.encode_block(block, BlockRecord { health, erases });
        self.write(ImageFile::Flash, &record, self.layout.block_at(block))
    }

    fn write_oob(&mut self, ppn: Ppn, record: &OobRecord) -> Result<(), NandError> {
        let bytes = self.layout.encode_oob(ppn, record);
        self.write(ImageFile::Flash, &bytes, self.layout.oob_at(ppn))
    }

    /// Consumes a page in the files as a torn program does.
    pub(super) fn write_torn(&mut self, ppn: Ppn, epoch: u32) -> Result<(), NandError> {
        self.write_oob(ppn, &OobRecord::torn(epoch))
    }

    fn write_page(&mut self, ppn: Ppn, oob: Oob, bytes: &[u8]) -> Result<(), NandError> {
        let mut staged = Staged::default();
        self.stage(ppn, oob, bytes, &mut staged)?;
        self.write_staged(ppn, &staged)
    }

    /// Prepares the program of a page; the model takes it, and its spare area is written.
    fn stage(&mut self, ppn: Ppn, oob: Oob, bytes: &[u8], staged: &mut Staged) -> Result<(), NandError> {
        // The model refuses what flash refuses before a byte is written; a refusal of the host comes too late for it, but
        // from then on nothing but opening the image again is possible.
        self.model.program(ppn, oob, Content::Descriptor(Descriptor::of(oob.fingerprint)))?;
        let (data, spare) = bytes.split_at(self.layout.geometry.page_bytes as usize);
        if !spare.is_empty() {
            self.write(ImageFile::Flash, spare, self.layout.spare_at(ppn))?;
        }
        let epoch = self.model.erase_count(self.block_of(ppn));
        let (data_crc, spare_bytes) = (self.layout.data_crc(ppn, epoch, bytes), spare.len() as u16);
        let spare_crc = if spare.is_empty() { 0 } else { self.layout.spare_crc(ppn, epoch, spare) };
        let record = OobRecord { epoch, oob: Some(oob), spare_bytes, data_crc, spare_crc, is_lost: false };
        staged.data.extend_from_slice(data);
        staged.records.extend_from_slice(&self.layout.encode_oob(ppn, &record));
        staged.guards.push(Guard { data_crc, spare_bytes });
        staged.sequence = oob.sequence;
        Ok(())
    }

    /// Writes what was staged for the pages from `first` on: all data, then all records.
    fn write_staged(&mut self, first: Ppn, staged: &Staged) -> Result<(), NandError> {
        if staged.guards.is_empty() {
            return Ok(());
        }
        self.write(ImageFile::Flash, &staged.data, self.layout.data_at(first))?;
        self.write(ImageFile::Flash, &staged.records, self.layout.oob_at(first))?;
        self.guards[first.index()..first.index() + staged.guards.len()].copy_from_slice(&staged.guards);
        self.sequence = self.sequence.max(staged.sequence);
        Ok(())
    }

    /// The OOB record of a programmed page, from the file.
    fn load_record(&mut self, ppn: Ppn) -> Result<Option<OobRecord>, NandError> {
        let mut bytes = [0; RECORD_BYTES];
        let at = self.layout.oob_at(ppn);
        let read = self.backing.read(ImageFile::Flash, &mut bytes, at);
        read.map_err(|error| self.fail("read", ImageFile::Flash, &error))?;
        Ok(match self.layout.decode_oob(ppn, &bytes) {
            OobSlot::Record(record) => Some(record),
            OobSlot::Blank | OobSlot::Damaged => None,
        })
    }

    /// The spare bytes of a programmed page, compared with a checksum: their own, or that of the whole page where a page was
    /// written before they had one.
    fn load_spare(&mut self, ppn: Ppn) -> Result<Vec<u8>, NandError> {
        let spare_bytes = self.guards[ppn.index()].spare_bytes;
        if spare_bytes == 0 {
            return Ok(Vec::new());
        }
        let Some(record) = self.load_record(ppn)? else { return Err(NandError::Uncorrectable(ppn)) };
        if record.spare_crc == 0 {
            return Ok(self.load_page(ppn)?.split_off(self.layout.geometry.page_bytes as usize));
        }
        let spare = read_spare(&self.backing, &self.layout, ppn, spare_bytes)
            .map_err(|error| self.fail("read", ImageFile::Flash, &error))?;
        let is_whole = self.layout.is_spare_whole(ppn, &record, &spare);
        if is_whole { Ok(spare) } else { Err(NandError::Uncorrectable(ppn)) }
    }

    /// Data and spare bytes of a programmed page, compared with their checksum.
    fn load_page(&mut self, ppn: Ppn) -> Result<Vec<u8>, NandError> {
        let Guard { data_crc, spare_bytes } = self.guards[ppn.index()];
        let bytes = read_page(&self.backing, &self.layout, ppn, spare_bytes)
            .map_err(|error| self.fail("read", ImageFile::Flash, &error))?;
        let epoch = self.model.erase_count(self.block_of(ppn));
        if self.layout.data_crc(ppn, epoch, &bytes) == data_crc {
            return Ok(bytes);
        }
        self.damaged.insert(ppn.0);
        Err(NandError::Uncorrectable(ppn))
    }

    /// The words that wait become durable together.
    fn commit_words(&mut self) -> Result<(), NandError> {
        let words: Vec<(u64, u64)> = std::mem::take(&mut self.waiting).into_iter().collect();
        let journal = Journal { synced_sequence: self.sequence, words };
        let bytes = journal.encode(self.layout.salt);
        self.write(ImageFile::Journal, &bytes, 0)?;
        self.sync_file(ImageFile::Journal)?;
        for &(index, word) in &journal.words {
            let record = self.layout.encode_word(index, word);
            self.write(ImageFile::Nvram, &record, index * WORD_BYTES as u64)?;
        }
        if journal.words.is_empty() { Ok(()) } else { self.sync_file(ImageFile::Nvram) }
    }
}

impl<B: Backing> FileNand<B> {
    /// Why the medium stopped working, if it did.
    pub fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }
}

impl<B: Backing + Send + 'static> Medium for FileNand<B> {
    fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }
}

impl<B: Backing> Nand for FileNand<B> {
    fn geometry(&self) -> &Geometry {
        self.model.geometry()
    }

    /// Bytes only: an image keeps no descriptors.
    fn program(&mut self, ppn: Ppn, oob: Oob, content: Content<'_>) -> Result<(), NandError> {
        self.powered()?;
        let Content::Bytes(bytes) = content else { panic!("program of page {ppn}: an image keeps bytes") };
        self.write_page(ppn, oob, bytes)
    }

    /// Zeros take the place of the data. A reader that does not know lost pages finds that they are not what the OOB says.
    fn program_lost(&mut self, ppn: Ppn, oob: Oob, spare: &[u8]) -> Result<(), NandError> {
        self.powered()?;
        self.model.program_lost(ppn, oob, &[])?;
        let spare = if spare.iter().all(|&byte| byte == 0) { &[] } else { spare };
        let page_bytes = self.layout.geometry.page_bytes as usize;
        let mut bytes = vec![0; page_bytes];
        bytes.extend_from_slice(spare);
        let (epoch, spare_bytes) = (self.model.erase_count(self.block_of(ppn)), spare.len() as u16);
        let data_crc = !self.layout.data_crc(ppn, epoch, &bytes);
        let spare_crc = if spare.is_empty() { 0 } else { self.layout.spare_crc(ppn, epoch, spare) };
        let record = OobRecord { epoch, oob: Some(oob), spare_bytes, data_crc, spare_crc, is_lost: true };
        if !spare.is_empty() {
            self.write(ImageFile::Flash, spare, self.layout.spare_at(ppn))?;
        }
        self.write(ImageFile::Flash, &bytes[..page_bytes], self.layout.data_at(ppn))?;
        self.write_oob(ppn, &record)?;
        self.guards[ppn.index()] = Guard { data_crc, spare_bytes };
        self.sequence = self.sequence.max(oob.sequence);
        Ok(())
    }

    fn read_spare(&mut self, ppn: Ppn, into: &mut [u8]) -> Result<Oob, NandError> {
        self.powered()?;
        let oob = self.model.read_spare(ppn, &mut [])?;
        if !into.is_empty() {
            let spare = self.load_spare(ppn)?;
            let (kept, rest) = into.split_at_mut(into.len().min(spare.len()));
            kept.copy_from_slice(&spare[..kept.len()]);
            rest.fill(0);
        }
        Ok(oob)
    }

    fn lost_pages(&self) -> Vec<Ppn> {
        self.model.lost_pages()
    }

    fn read(&mut self, ppn: Ppn, into: &mut [u8]) -> Result<Oob, NandError> {
        self.powered()?;
        let oob = self.model.read(ppn, &mut [])?;
        if !into.is_empty() {
            let bytes = self.load_page(ppn)?;
            let (page, rest) = into.split_at_mut(into.len().min(bytes.len()));
            page.copy_from_slice(&bytes[..page.len()]);
            rest.fill(0);
        }
        Ok(oob)
    }

    /// The pages of a run follow each other in the files: their data is one write, and so are their OOB records. Records
    /// arrive in order, so the end of the process between or within the writes leaves the first copies done.
    fn copy(&mut self, run: CopyRun<'_>, _: &mut [u8]) -> (usize, Result<(), NandError>) {
        let mut staged = Staged::default();
        let copies = run.from.iter().zip(run.owners).enumerate();
        let outcome = copies.into_iter().try_for_each(|(k, (&from, &owner))| {
            let mut oob = self.read(from, &mut [])?;
            let bytes = self.load_page(from)?;
            (oob.owner, oob.sequence) = (owner.0, run.sequence + k as u64);
            self.stage(Ppn(run.to.0 + k as u32), oob, &bytes, &mut staged)
        });
        match self.write_staged(run.to, &staged) {
            Ok(()) => (staged.guards.len(), outcome),
            Err(error) => (0, Err(error)),
        }
    }

    fn probe(&mut self, ppn: Ppn) -> Result<Option<Oob>, NandError> {
        self.powered()?;
        self.model.probe(ppn)
    }

    fn erase(&mut self, block: BlockId) -> Result<(), NandError> {
        self.sync()?;
        self.model.erase(block)?;
        self.write_record(block, BlockHealth::Good, self.model.erase_count(block))?;
        match self.durability() {
            Durability::Process => Ok(()),
            Durability::Host => self.sync_file(ImageFile::Flash),
        }
    }

    fn condemn(&mut self, block: BlockId) {
        self.model.condemn(block);
        // A failure stops the medium, which the next operation tells.
        let _ = self.write_record(block, BlockHealth::Condemned, self.model.erase_count(block));
    }

    fn is_condemned(&self, block: BlockId) -> bool {
        self.model.is_condemned(block)
    }

    fn mark_bad(&mut self, block: BlockId) {
        self.model.mark_bad(block);
        let _ = self.write_record(block, BlockHealth::Bad, self.model.erase_count(block));
    }

    fn is_bad(&self, block: BlockId) -> bool {
        self.model.is_bad(block)
    }

    fn erase_count(&self, block: BlockId) -> u32 {
        self.model.erase_count(block)
    }

    fn keeps_bytes(&self) -> bool {
        true
    }

    fn owner(&self, ppn: Ppn) -> u32 {
        self.model.owner(ppn)
    }

    fn fingerprint(&self, ppn: Ppn) -> Fingerprint {
        self.model.fingerprint(ppn)
    }

    fn nvram(&self) -> &[u64] {
        self.model.nvram()
    }

    fn store_word(&mut self, index: usize, word: u64) -> Result<(), NandError> {
        self.powered()?;
        match self.durability() {
            Durability::Process => {
                let record = self.layout.encode_word(index as u64, word);
                self.write(ImageFile::Nvram, &record, (index * WORD_BYTES) as u64)?;
            }
            Durability::Host => drop(self.waiting.insert(index as u64, word)),
        }
        self.model.store_word(index, word)
    }

    /// Nothing in a `process` session. In a `host` session two syncs of the host's disk, three with words of NVRAM.
    fn sync(&mut self) -> Result<(), NandError> {
        self.powered()?;
        if self.durability() == Durability::Process {
            return Ok(());
        }
        self.sync_file(ImageFile::Flash)?;
        if !self.waiting.is_empty() || self.synced_sequence != self.sequence {
            self.commit_words()?;
            self.synced_sequence = self.sequence;
        }
        Ok(())
    }
}

/// The states that a cut of power may leave, made on purpose.
impl<B: Backing> Fragile for FileNand<B> {
    fn tear_program(&mut self, ppn: Ppn) {
        self.model.tear_program(ppn);
        // A failure stops the medium, which the next operation tells.
        let _ = self.write_torn(ppn, self.model.erase_count(self.block_of(ppn)));
    }

    fn tear_erase(&mut self, block: BlockId) {
        self.model.tear_erase(block);
        let _ = self.write_record(block, BlockHealth::HalfErased, self.model.erase_count(block));
    }

    /// Flips a bit of the first byte.
    fn damage(&mut self, ppn: Ppn) {
        let (mut byte, at) = ([0], self.layout.data_at(ppn));
        if self.backing.read(ImageFile::Flash, &mut byte, at).is_ok() {
            byte[0] ^= 1;
            let _ = self.write(ImageFile::Flash, &byte, at);
        }
    }
}
