//! Loads the state of the flash from the files of an image: every page and state word, what an interrupted session left
//! half done, and what is damaged.
//!
//! The journal determines what is valid: the words of the NVRAM, and for each block its erases and the number of its
//! programmed pages. A page that is counted has an OOB record with the block's erase count in at least one copy. Pages
//! beyond this count were programmed for a journal record that was never written: they were not acknowledged, and are
//! kept as they are found.
//!
//! Only after a crash of the server machine may a page be half done: writes since the last sync reach the disk in any
//! order. Then a page may be missing before later pages of its block, or its data may be older than its OOB record.
//! Such pages become consumed and unreadable, as after a torn program, and the files are repaired so that they stay so.
//!
//! Everything else that differs from what was written is damage. Damaged metadata is repaired from its other copy.
//! Damaged data is found when it is read, and costs the logical pages that it held. Metadata that is damaged in both
//! copies is reported, and the image is not used, unless it is rescued ([`rescue`](super::rescue)): then the damaged
//! part is left out.

use std::collections::BTreeSet;
use std::io;

use wearwell::address::{BlockId, Ppn};
use wearwell::data::{Content, ContentDescriptor};
use wearwell::nand::{FaultInjectable, Nand, Oob, PageKind, RetainedPageFields, SimNand};

use super::backing::Backing;
use super::image_file::ImageFile;
use super::journal::{self, Journal};
use super::layout::{
    BlockHealth, BlockRecord, DEVICE_STATE_SECTOR_BYTES, DEVICE_STATE_SECTOR_WORDS, DeviceStateSector,
    Layout, METADATA_RECORD_BYTES, OobRecord, OobSlot,
};
use super::metadata_copy::{
    METADATA_COPIES, MetadataCopy, MetadataRepairs, PageToVerify, read_verified_page, repair_differing_copies,
};

/// Number of sectors of state words (512 bytes each) that one read returns.
const DEVICE_STATE_SECTORS_PER_READ: u64 = 256;

/// Settings for loading an image: what must be undamaged in its files, and what happens at damage.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct FlashLoadSettings {
    /// Number of the last journal record that was certainly on the disk, with everything written before it. `u64::MAX`
    /// if no page can be half programmed.
    pub(super) last_durable_journal_record_number: u64,
    /// Whether the data of every page is read and compared with its checksum.
    pub(super) verifies_all_data: bool,
    /// Number of logical pages that the image exports.
    pub(super) logical_pages: u32,
    /// Whether metadata that is damaged in both copies is left out and the rest of the flash is loaded. Otherwise such
    /// damage is only reported: no block is read if state words are damaged, and the flash model is not filled any more
    /// once the metadata of a block is damaged.
    pub(super) skips_damaged_metadata: bool,
}

/// Metadata that is damaged in both of its copies, and therefore was left out of the loaded state.
#[derive(Debug, Default)]
pub(super) struct SkippedMetadata {
    /// Indices of words (NVRAM or block state) whose newest value is unknown; they are loaded as 0.
    pub(super) unknown_device_state_word_indices: BTreeSet<u64>,
    /// Blocks whose stored state (health, erase count, programmed pages) is damaged and was not loaded. Each is listed
    /// with the kind of its pages, or `None` if no page can be read.
    pub(super) blocks: Vec<(BlockId, Option<PageKind>)>,
    /// Pages without a usable OOB record. Each is listed with the kind of the other pages of its block, or `None` if
    /// none can be read.
    pub(super) pages: Vec<(Ppn, Option<PageKind>)>,
}

/// Checksum of a page's data and length of its spare bytes, with which the page is verified when it is read.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PageCrcAndSpareLength {
    /// Checksum of the page's data and spare bytes.
    pub(super) data_and_spare_crc: u32,
    /// Number of spare bytes of the page.
    pub(super) spare_bytes: u16,
}

/// State of the flash as loaded from the files of an image, with the damage found and the repairs that are left to do.
pub(super) struct LoadedFlash {
    /// Simulated flash with the block states, OOBs and NVRAM that were read from the files.
    pub(super) flash_model: SimNand,
    /// Checksum of the data, and length of the spare bytes, of each page. A read is verified with them.
    pub(super) page_crcs_and_spare_lengths: Vec<PageCrcAndSpareLength>,
    /// Open journal of the image, with the current words of NVRAM and block states.
    pub(super) journal: Journal,
    /// Half-programmed pages that have to be marked unreadable, each with the erase count of its block.
    pub(super) torn_pages_with_erase_counts: Vec<(Ppn, u32)>,
    /// Flash pages whose data does not match its checksum.
    pub(super) damaged_pages: Vec<Ppn>,
    /// Damage found in both copies of metadata, one sentence for each damaged item.
    pub(super) findings: Vec<String>,
    /// NVRAM words, blocks and pages that were left out because their metadata is damaged. Empty unless the image is
    /// rescued.
    pub(super) skipped_metadata: SkippedMetadata,
    /// Number of flash pages whose data was compared with its checksum.
    pub(super) verified_pages: u64,
    /// Repairs of metadata records, and of sectors of the file `nvram` (NVRAM and block states), from their other copy.
    pub(super) metadata_repairs: MetadataRepairs,
}

/// State of a block as found in the files: its state word (health, erase count, programmed pages), and the OOB records
/// of its pages.
struct FoundBlock {
    /// Number of the block.
    id: BlockId,
    /// Content of the state word of the block: health, erase count, programmed pages.
    record: BlockRecord,
    /// OOB record of each page of the block; `None` if the page was not programmed since the last erase of the block,
    /// or if neither copy of its record is valid.
    pages: Vec<Option<OobRecord>>,
}

impl FoundBlock {
    /// Returns the number of pages from the first page of the block up to the last one that has an OOB record or is
    /// counted as programmed.
    fn used_pages(&self) -> usize {
        let last = (0..self.pages.len()).rev().find(|&k| self.pages[k].is_some());
        last.map_or(0, |last| last + 1).max(self.record.programmed_pages as usize)
    }
}

/// Loads the state of the flash, and repairs metadata that is damaged in one of its two copies. Damage is recorded in
/// the result; only a refused read of the operating system is an error.
pub(super) fn load_and_repair_flash_state(
    backing: &mut impl Backing,
    layout: &Layout,
    journal: journal::FoundJournal,
    settings: FlashLoadSettings,
) -> io::Result<LoadedFlash> {
    let geometry = layout.geometry.clone();
    let retain = RetainedPageFields {
        keeps_data_bytes: false,
        keeps_packed_page_bytes: false,
        ..RetainedPageFields::ALL
    };
    let mut loader = FlashLoader {
        settings,
        layout,
        backing,
        last_journal_record_number: journal.last_record_number(),
        pages_with_repaired_record: BTreeSet::new(),
        loaded: LoadedFlash {
            flash_model: SimNand::new(geometry.clone(), retain).with_nvram(layout.nvram_words * 8),
            page_crcs_and_spare_lengths: vec![PageCrcAndSpareLength::default(); geometry.pages() as usize],
            journal: Journal::default(),
            torn_pages_with_erase_counts: Vec::new(),
            damaged_pages: Vec::new(),
            findings: Vec::new(),
            skipped_metadata: SkippedMetadata::default(),
            verified_pages: 0,
            metadata_repairs: journal.repairs,
        },
    };
    loader.load_device_state_words(journal);
    if loader.fills_flash_model() {
        (0..geometry.blocks()).map(BlockId).try_for_each(|id| loader.load_block(id))?;
    }
    Ok(loader.loaded)
}

/// Loader of the flash state from the files of an image, block by block.
struct FlashLoader<'a, B> {
    /// What must be undamaged, and what happens at damage.
    settings: FlashLoadSettings,
    /// Offsets of data and metadata in the files.
    layout: &'a Layout,
    /// Files of the image, which are read and repaired.
    backing: &'a mut B,
    /// Number of the last record of the journal.
    last_journal_record_number: u64,
    /// Pages whose OOB record was damaged in one copy. The other bytes near it may be damaged as well, so both copies
    /// of all metadata of the page are compared.
    pages_with_repaired_record: BTreeSet<Ppn>,
    /// State that was loaded so far.
    loaded: LoadedFlash,
}

impl<B: Backing> FlashLoader<'_, B> {
    /// Adds a sentence about damage to the findings.
    fn add_finding(&mut self, sentence: String) {
        self.loaded.findings.push(sentence);
    }

    /// Whether the flash model is filled with what is read: no damage was found so far, or the image is being rescued.
    fn fills_flash_model(&self) -> bool {
        self.settings.skips_damaged_metadata || self.loaded.findings.is_empty()
    }

    /// Whether a crash of the server machine may have left a page half programmed. `number` is the number of the
    /// journal record with which the page was programmed.
    fn may_be_half_programmed(&self, number: u64) -> bool {
        number > self.settings.last_durable_journal_record_number
    }

    /// Loads the words of NVRAM and block states from the file `nvram`, and applies the changes of the journal's
    /// records.
    fn load_device_state_words(&mut self, journal: journal::FoundJournal) {
        let (mut state, mut generations) = (Vec::new(), Vec::new());
        for from in
            (0..self.layout.device_state_sector_count()).step_by(DEVICE_STATE_SECTORS_PER_READ as usize)
        {
            let (count, at) = (
                DEVICE_STATE_SECTORS_PER_READ.min(self.layout.device_state_sector_count() - from),
                from * DEVICE_STATE_SECTOR_BYTES as u64,
            );
            let sides = METADATA_COPIES
                .map(|side| self.read_entries_of_copy(side, ImageFile::Nvram, at, count as usize));
            for k in 0..count {
                let copies = sides.each_ref().map(|side| side[k as usize]);
                let sector = self.choose_and_repair_sector_copy(from + k, &copies, &journal);
                if sector.is_none() {
                    let first = (from + k) * DEVICE_STATE_SECTOR_WORDS as u64;
                    self.loaded
                        .skipped_metadata
                        .unknown_device_state_word_indices
                        .extend(first..first + DEVICE_STATE_SECTOR_WORDS as u64);
                }
                state.extend_from_slice(
                    sector
                        .as_ref()
                        .map_or(&[0; DEVICE_STATE_SECTOR_WORDS], |sector| &sector.device_state_words),
                );
                generations.push(sector.map_or(0, |sector| sector.journal_generation));
            }
        }
        state.truncate(self.layout.device_state_word_count() as usize);
        let left_out = &mut self.loaded.skipped_metadata.unknown_device_state_word_indices;
        left_out.split_off(&self.layout.device_state_word_count());
        for index in journal.changed_word_indices() {
            left_out.remove(&index);
        }
        self.loaded.journal = journal.into_journal(state, &generations);
        let words = &self.loaded.journal.device_state_words()[..self.layout.nvram_words as usize];
        for (index, &word) in words.iter().enumerate() {
            self.loaded.flash_model.store_nvram_word(index, word).expect("a model has power");
        }
    }

    /// Reads `count` entries of equal size (sectors of state words, or OOB records) from one copy of a file, from byte
    /// `offset_bytes` on. An entry that cannot be read counts as damaged.
    fn read_entries_of_copy<const BYTES: usize>(
        &self,
        metadata_copy: MetadataCopy,
        file: ImageFile,
        offset_bytes: u64,
        count: usize,
    ) -> Vec<[u8; BYTES]> {
        let mut entries = vec![[0; BYTES]; count];
        let bytes = entries.as_flattened_mut();
        metadata_copy.read_metadata_pieces(self.backing, self.layout, file, bytes, offset_bytes, BYTES);
        entries
    }

    /// Chooses the newer copy of a sector of state words among those that the journal accepts, and repairs the other
    /// copy. `None` if neither copy is accepted.
    fn choose_and_repair_sector_copy(
        &mut self,
        index: u64,
        copies: &[[u8; DEVICE_STATE_SECTOR_BYTES]; 2],
        journal: &journal::FoundJournal,
    ) -> Option<DeviceStateSector> {
        let accepted = copies.each_ref().map(|bytes| {
            self.layout
                .decode_device_state_sector(index, bytes)
                .filter(|sector| journal.accepts_device_state_sector(sector))
        });
        let newest = accepted
            .iter()
            .flatten()
            .max_by_key(|sector| (sector.journal_generation, sector.last_journal_record_number))
            .cloned();
        let Some(sector) = &newest else {
            self.add_finding(format!(
                "one of the two copies of sector {index} of the NVRAM must be intact, but both are damaged"
            ));
            return None;
        };
        let bytes = self.layout.encode_device_state_sector(index, sector);
        for (side, copy) in METADATA_COPIES.into_iter().zip(copies) {
            if *copy != bytes {
                let at = index * DEVICE_STATE_SECTOR_BYTES as u64;
                self.loaded.metadata_repairs +=
                    side.repair_metadata(self.backing, self.layout, ImageFile::Nvram, &bytes, at);
            }
        }
        newest
    }

    /// Loads a block: the word with its state (health, erase count, programmed pages), and its OOB records. If the word
    /// is invalid, the block is recorded as damaged. If the image is being rescued, the block is then loaded without
    /// the word.
    fn load_block(&mut self, id: BlockId) -> io::Result<()> {
        let index = self.layout.block_state_word_index(id);
        let word = self.loaded.journal.device_state_words()[index as usize];
        let pages = self.layout.geometry.block_pages();
        let is_left_out = self.loaded.skipped_metadata.unknown_device_state_word_indices.contains(&index);
        let record =
            BlockRecord::decode(word).filter(|record| record.programmed_pages <= pages && !is_left_out);
        let Some(record) = record else {
            if !is_left_out {
                self.add_finding(format!("the state word of block {id} must be valid, but is {word:#x}"));
            }
            return if self.settings.skips_damaged_metadata { self.rescue_block(id) } else { Ok(()) };
        };
        if record.health == BlockHealth::Bad {
            self.loaded.flash_model.set_erase_count(id, record.erase_count);
            self.loaded.flash_model.mark_bad(id);
            return Ok(());
        }
        let mut block = self.read_block(id, record);
        self.report_and_remove_bad_oob_records(&mut block);
        if self.fills_flash_model() {
            self.load_block_into_flash_model(&block)?;
        }
        Ok(())
    }

    /// Loads a block whose state word is unknown. Its programmed pages are taken to be those whose OOB records have the
    /// highest erase count in the block. This does no harm if the block was erased later, because the map then names
    /// none of these pages.
    fn rescue_block(&mut self, id: BlockId) -> io::Result<()> {
        let (first, count) = (self.layout.geometry.first_page(id), self.layout.geometry.block_pages());
        let sides = self.read_oob_copies_of_block(id);
        let slots = |k: usize| {
            sides.each_ref().map(|side| self.layout.decode_oob_slot(Ppn(first.0 + k as u32), &side[k]))
        };
        let records = |k: usize| {
            slots(k)
                .into_iter()
                .filter_map(|slot| if let OobSlot::Record(record) = slot { Some(record) } else { None })
        };
        let pages = 0..count as usize;
        let erases =
            pages.clone().flat_map(records).map(|record| record.block_erase_count).max().unwrap_or(0);
        let is_used = |k: &usize| {
            slots(*k).iter().all(|slot| *slot == OobSlot::Damaged)
                || records(*k).any(|record| record.block_erase_count == erases)
        };
        let programmed_pages = pages.rev().find(is_used).map_or(0, |last| last as u32 + 1);
        let record = BlockRecord { health: BlockHealth::Good, erase_count: erases, programmed_pages };
        let mut block = self.read_block(id, record);
        self.report_and_remove_bad_oob_records(&mut block);
        self.loaded.skipped_metadata.blocks.push((id, page_kind_of_block(&block)));
        self.load_block_into_flash_model(&block)
    }

    /// Reads both copies of the OOB records of a block, each copy with one record per page.
    fn read_oob_copies_of_block(&self, id: BlockId) -> [Vec<[u8; METADATA_RECORD_BYTES]>; 2] {
        let at = self.layout.oob_record_offset(self.layout.geometry.first_page(id));
        let count = self.layout.geometry.block_pages() as usize;
        METADATA_COPIES.map(|side| self.read_entries_of_copy(side, ImageFile::Flash, at, count))
    }

    /// Reads the OOB records that were written since the last erase of a block, each from a copy whose checksum is
    /// right.
    fn read_block(&mut self, id: BlockId, record: BlockRecord) -> FoundBlock {
        let (first, count) = (self.layout.geometry.first_page(id), self.layout.geometry.block_pages());
        let sides = self.read_oob_copies_of_block(id);
        let page = |k: u32| {
            let ppn = Ppn(first.0 + k);
            let copies = sides.each_ref().map(|side| side[k as usize]);
            self.choose_and_repair_oob_copy(ppn, &copies, record)
        };
        let pages = (0..count).map(page).collect();
        FoundBlock { id, record, pages }
    }

    /// Chooses between the two copies of a page's OOB record the one written since the block's last erase, and repairs
    /// the other copy. If only one copy marks the page torn, the page is torn. `None` if the page is erased or no copy
    /// is valid.
    fn choose_and_repair_oob_copy(
        &mut self,
        ppn: Ppn,
        copies: &[[u8; METADATA_RECORD_BYTES]; 2],
        block: BlockRecord,
    ) -> Option<OobRecord> {
        let slots = copies.each_ref().map(|bytes| self.layout.decode_oob_slot(ppn, bytes));
        let next_number = self.last_journal_record_number + 1;
        let is_known = |record: &OobRecord| record.journal_record_number <= next_number;
        let current = |slot: &OobSlot| match slot {
            OobSlot::Record(record) if record.block_erase_count == block.erase_count && is_known(record) => {
                Some(*record)
            }
            _ => None,
        };
        let found = slots.each_ref().map(current);
        let chosen = found.iter().flatten().min_by_key(|record| record.oob.is_some()).copied();
        let k = ppn.0 % self.layout.geometry.block_pages();
        let is_beyond = |slot: &OobSlot| matches!(slot, OobSlot::Record(record) if !is_known(record));
        if chosen.is_none() && k >= block.programmed_pages && slots.iter().all(is_beyond) {
            self.add_finding(format!(
                "the OOB record of flash page {ppn} must belong to a journal record up to number {}, the last one \
                 found, but belongs to a later one",
                self.last_journal_record_number
            ));
        }
        let is_wrong = |slot: &OobSlot| match slot {
            OobSlot::Blank => false,
            OobSlot::Damaged => true,
            OobSlot::Record(record) => record.block_erase_count > block.erase_count || !is_known(record),
        };
        let bytes = match &chosen {
            Some(record) => self.layout.encode_oob(ppn, record),
            // The page is erased: use a copy that is blank or has a smaller erase count, if there is one.
            None => slots
                .iter()
                .position(|slot| !is_wrong(slot))
                .map_or([0; METADATA_RECORD_BYTES], |side| copies[side]),
        };
        for ((side, copy), slot) in METADATA_COPIES.into_iter().zip(copies).zip(&slots) {
            if *copy != bytes && (chosen.is_some() || is_wrong(slot)) {
                self.loaded.metadata_repairs += side.repair_metadata(
                    self.backing,
                    self.layout,
                    ImageFile::Flash,
                    &bytes,
                    self.layout.oob_record_offset(ppn),
                );
                self.pages_with_repaired_record.insert(ppn);
            }
        }
        chosen
    }

    /// Reports as damage the OOB records of a block that are missing or contradict other metadata, and removes the
    /// contradicting ones from the block.
    fn report_and_remove_bad_oob_records(&mut self, block: &mut FoundBlock) {
        let first = self.layout.geometry.first_page(block.id).0;
        let kind = page_kind_of_block(block);
        for k in 0..block.pages.len() {
            let ppn = Ppn(first + k as u32);
            let is_counted = k < block.record.programmed_pages as usize;
            let contradiction = match &block.pages[k] {
                None if is_counted => Some(format!(
                    "one of the two copies of the OOB record of flash page {ppn} in block {} must be intact, but both \
                     are damaged",
                    block.id
                )),
                None => None,
                Some(record) => self.describe_contradiction(ppn, record, is_counted, kind, block.id),
            };
            if let Some(sentence) = contradiction {
                self.add_finding(sentence);
                block.pages[k] = None;
                self.loaded.skipped_metadata.pages.push((ppn, kind));
            }
        }
    }

    /// Returns a sentence that states how a page's OOB record contradicts other metadata; `None` if there is no
    /// contradiction.
    fn describe_contradiction(
        &self,
        ppn: Ppn,
        record: &OobRecord,
        is_counted_as_programmed: bool,
        kind: Option<PageKind>,
        block: BlockId,
    ) -> Option<String> {
        if !is_counted_as_programmed && record.journal_record_number <= self.last_journal_record_number {
            return Some(format!(
                "the OOB record of flash page {ppn} belongs to journal record number {}, so the journal must count \
                 the page as programmed, but does not",
                record.journal_record_number
            ));
        }
        let oob = record.oob?;
        if !oob.kind.is_head_or_tail() && kind != Some(oob.kind) {
            return Some(format!(
                "the OOB record of flash page {ppn} must state the kind of page that block {block} holds, but states \
                 another"
            ));
        }
        (oob.kind == PageKind::Data && oob.owner >= self.settings.logical_pages).then(|| {
            format!(
                "the OOB record of flash page {ppn} must name a logical page of the device, but names {}",
                oob.owner
            )
        })
    }

    /// Brings a block of the flash model into the state that was found in the files: erase count, programs, health.
    fn load_block_into_flash_model(&mut self, block: &FoundBlock) -> io::Result<()> {
        let first = self.layout.geometry.first_page(block.id).0;
        self.loaded.flash_model.set_erase_count(block.id, block.record.erase_count);
        for k in 0..block.used_pages() {
            let ppn = Ppn(first + k as u32);
            match &block.pages[k] {
                Some(OobRecord { oob: None, .. }) => self.loaded.flash_model.tear_program(ppn),
                Some(record @ OobRecord { oob: Some(oob), .. }) => {
                    self.load_page_into_flash_model(ppn, record, *oob)?;
                }
                None => self.load_as_torn(ppn, block.record.erase_count),
            }
        }
        match block.record.health {
            BlockHealth::HalfErased => self.loaded.flash_model.tear_erase(block.id),
            BlockHealth::Condemned => self.loaded.flash_model.mark_program_failed(block.id),
            BlockHealth::Good | BlockHealth::Bad => {}
        }
        Ok(())
    }

    /// Loads a programmed page of a block into the strict flash model, and its checksum into the table of all pages.
    fn load_page_into_flash_model(&mut self, ppn: Ppn, record: &OobRecord, oob: Oob) -> io::Result<()> {
        if !self.check_fully_programmed(ppn, record, &oob)? {
            self.load_as_torn(ppn, record.block_erase_count);
            return Ok(());
        }
        let OobRecord { data_and_spare_crc, spare_bytes, is_lost, .. } = *record;
        self.loaded.page_crcs_and_spare_lengths[ppn.index()] =
            PageCrcAndSpareLength { data_and_spare_crc, spare_bytes };
        if is_lost {
            self.loaded
                .flash_model
                .program_page_marked_lost(ppn, oob, &[])
                .expect("the model takes what a block holds");
            return Ok(());
        }
        let content = Content::Descriptor(ContentDescriptor::of_fingerprint(oob.fingerprint));
        self.loaded.flash_model.program(ppn, oob, content).expect("the model takes what a block holds");
        Ok(())
    }

    /// Loads a page as torn (consumed and unreadable), because a crash of the server machine left it half programmed.
    /// Lists the page, so that it is marked torn in the files.
    fn load_as_torn(&mut self, ppn: Ppn, block_erase_count: u32) {
        self.loaded.torn_pages_with_erase_counts.push((ppn, block_erase_count));
        self.loaded.flash_model.tear_program(ppn);
    }

    /// Whether a page is to be loaded as programmed. The data is compared with its checksum if the page may be torn, or
    /// if all pages are verified. At a mismatch, a page that may be torn is not loaded. Any other page is loaded and
    /// recorded as damaged.
    fn check_fully_programmed(&mut self, ppn: Ppn, record: &OobRecord, oob: &Oob) -> io::Result<bool> {
        let may_be_torn = self.may_be_half_programmed(record.journal_record_number);
        let page = PageToVerify {
            ppn,
            block_erase_count: record.block_erase_count,
            data_and_spare_crc: record.data_and_spare_crc,
            spare_bytes: record.spare_bytes,
            is_metadata: !oob.kind.is_host_data(),
        };
        let copies_may_differ = self.pages_with_repaired_record.contains(&ppn) && page.has_second_copies();
        if !may_be_torn && !self.settings.verifies_all_data && !copies_may_differ {
            return Ok(true);
        }
        if record.is_lost {
            let spare = read_spare(self.backing, self.layout, ppn, record);
            return Ok(!may_be_torn || spare.is_some());
        }
        self.loaded.verified_pages += 1;
        let Some(verified) = read_verified_page(self.backing, self.layout, page)? else {
            if !may_be_torn {
                self.loaded.damaged_pages.push(ppn);
            }
            return Ok(!may_be_torn);
        };
        self.loaded.metadata_repairs +=
            repair_differing_copies(self.backing, self.layout, page, &verified.bytes);
        Ok(true)
    }
}

/// Returns the kind of the pages of a block: the kind of the first readable page that is not metadata about the block
/// itself. `None` if there is no such page.
fn page_kind_of_block(block: &FoundBlock) -> Option<PageKind> {
    let kinds = block.pages.iter().flatten().filter_map(|record| record.oob).map(|oob| oob.kind);
    kinds.into_iter().find(|kind| !kind.is_head_or_tail())
}

/// Reads the spare bytes of a page from a copy that matches their checksum; `None` if neither copy does.
pub(super) fn read_spare(
    backing: &impl Backing,
    layout: &Layout,
    ppn: Ppn,
    record: &OobRecord,
) -> Option<Vec<u8>> {
    let mut spare = vec![0; usize::from(record.spare_bytes)];
    if spare.is_empty() {
        return Some(spare);
    }
    let at = layout.spare_area_offset(ppn);
    let mut sides = METADATA_COPIES.into_iter();
    let is_found = sides.any(|side| {
        side.read_metadata(backing, layout, ImageFile::Flash, &mut spare, at)
            && layout.matches_spare_crc(ppn, record, &spare)
    });
    is_found.then_some(spare)
}
