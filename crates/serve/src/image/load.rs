//! From files to the state of the flash: what every page and word is, what the end of a session left half done, and what
//! is damaged.
//!
//! The journal says what holds: the words of the NVRAM, and of each block its erases and how many of its pages are programmed.
//! A page that it counts has an OOB record of the block's epoch at one side at least. Pages beyond that were programmed for a
//! record that was not written any more: they were acknowledged to nobody, and are taken over as they are found.
//!
//! Only a session that the host ended may leave something half done: its writes reach the disk in any order since the last
//! sync. Then a page may be missing under later pages of its block, or its data may be older than its OOB. Such pages become
//! consumed and unreadable, as a torn program leaves them, and the files
//! are repaired so that they stay so. Everything else that is not as it was written is damage. Of metadata it is repaired from
//! the other side. Of data it is found when they are read, and costs the logical pages that they held. What is damaged at both
//! sides is reported, and the image is not used, unless it is rescued ([`rescue`](super::rescue)): then it is left out.

use std::collections::BTreeSet;
use std::io;

use wearwell::address::{BlockId, Ppn};
use wearwell::data::{Content, Descriptor};
use wearwell::nand::{Fragile, Nand, Oob, PageKind, Retain, SimNand};

use super::backing::{Backing, ImageFile};
use super::journal::{self, Journal};
use super::layout::{
    BlockHealth, BlockRecord, Layout, OobRecord, OobSlot, RECORD_BYTES, SECTOR_BYTES, SECTOR_WORDS, Sector,
};
use super::sides::{Guarded, SIDES, Side, read_page};

/// Sectors that are read at once.
const SECTORS_AT_ONCE: u64 = 256;

/// What must be whole.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Expectation {
    /// Everything up to the journal's record of this number was on the disk for sure; `u64::MAX` if nothing can be half done.
    pub(super) whole_up_to: u64,
    /// Whether the data of every page is read and compared with its checksum.
    pub(super) verifies_all: bool,
    /// Logical pages of the device.
    pub(super) logical_pages: u32,
    /// Whether what is damaged at both sides is left out; else nothing is loaded after the first damage.
    pub(super) rescues: bool,
}

/// What is damaged at both sides, and left out of what was loaded.
#[derive(Debug, Default)]
pub(super) struct LeftOut {
    /// Indices of state words whose newest value is not known; they are loaded as 0.
    pub(super) words: BTreeSet<u64>,
    /// Blocks whose state word is among them, with the kind of their pages, if any can be read.
    pub(super) blocks: Vec<(BlockId, Option<PageKind>)>,
    /// Pages without a usable OOB record, with the kind of the other pages of their block, if any can be read.
    pub(super) pages: Vec<(Ppn, Option<PageKind>)>,
}

/// What guards the data of a page.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Guard {
    pub(super) data_crc: u32,
    pub(super) spare_bytes: u16,
}

/// The state of the flash, and what is to be done about it.
pub(super) struct Loaded {
    pub(super) model: SimNand,
    pub(super) guards: Vec<Guard>,
    pub(super) journal: Journal,
    /// Pages to be marked unreadable.
    pub(super) torn: Vec<(Ppn, u32)>,
    /// Pages whose data was compared with its checksum and is damaged.
    pub(super) damaged: Vec<Ppn>,
    /// Damage that no copy makes good, one sentence per place.
    pub(super) findings: Vec<String>,
    /// The same as places, where the image is rescued.
    pub(super) left_out: LeftOut,
    /// Pages whose data was compared with its checksum.
    pub(super) verified_pages: u64,
    /// Records and sectors that one side lacked and the other had.
    pub(super) repaired: u64,
}

/// A block as its word and the OOB of its pages tell.
struct FoundBlock {
    id: BlockId,
    record: BlockRecord,
    /// Those of the block's epoch.
    pages: Vec<Option<OobRecord>>,
}

impl FoundBlock {
    /// Pages up to the last one that is programmed or counted as such.
    fn used(&self) -> usize {
        let last = (0..self.pages.len()).rev().find(|&k| self.pages[k].is_some());
        last.map_or(0, |last| last + 1).max(self.record.programmed as usize)
    }
}

/// Reads everything, and repairs what one of two sides has. Damage is found, not failed upon; only the host's refusal to read
/// is an error.
pub(super) fn load(
    backing: &mut impl Backing,
    layout: &Layout,
    journal: journal::Found,
    expectation: Expectation,
) -> io::Result<Loaded> {
    let geometry = layout.geometry.clone();
    let retain = Retain { bytes: false, ..Retain::ALL };
    let mut loader = Loader {
        expectation,
        layout,
        backing,
        last_number: journal.number(),
        loaded: Loaded {
            model: SimNand::new(geometry.clone(), retain).with_nvram(layout.nvram_words * 8),
            guards: vec![Guard::default(); geometry.pages() as usize],
            journal: Journal::default(),
            torn: Vec::new(),
            damaged: Vec::new(),
            findings: Vec::new(),
            left_out: LeftOut::default(),
            verified_pages: 0,
            repaired: journal.repaired,
        },
    };
    loader.load_state(journal);
    if loader.goes_on() {
        (0..geometry.blocks()).map(BlockId).try_for_each(|id| loader.load_block(id))?;
    }
    Ok(loader.loaded)
}

struct Loader<'a, B> {
    expectation: Expectation,
    layout: &'a Layout,
    backing: &'a mut B,
    /// Number of the journal's last record.
    last_number: u64,
    loaded: Loaded,
}

impl<B: Backing> Loader<'_, B> {
    fn find(&mut self, sentence: String) {
        self.loaded.findings.push(sentence);
    }

    /// Whether damage so far does not end the loading.
    fn goes_on(&self) -> bool {
        self.expectation.rescues || self.loaded.findings.is_empty()
    }

    /// Whether a session that the host ended may have left a page half done that belongs to the journal's record of this number.
    fn may_be_half_done(&self, number: u64) -> bool {
        number > self.expectation.whole_up_to
    }

    /// All state words: those of the sectors, with what the journal changed.
    fn load_state(&mut self, journal: journal::Found) {
        let (mut state, mut generations) = (Vec::new(), Vec::new());
        for from in (0..self.layout.sectors()).step_by(SECTORS_AT_ONCE as usize) {
            let (count, at) = (SECTORS_AT_ONCE.min(self.layout.sectors() - from), from * SECTOR_BYTES as u64);
            let sides = SIDES.map(|side| self.read_side(side, ImageFile::Nvram, at, count as usize));
            for k in 0..count {
                let copies = sides.each_ref().map(|side| side[k as usize]);
                let sector = self.choose_sector(from + k, &copies, &journal);
                if sector.is_none() {
                    let first = (from + k) * SECTOR_WORDS as u64;
                    self.loaded.left_out.words.extend(first..first + SECTOR_WORDS as u64);
                }
                state.extend_from_slice(sector.as_ref().map_or(&[0; SECTOR_WORDS], |sector| &sector.words));
                generations.push(sector.map_or(0, |sector| sector.generation));
            }
        }
        state.truncate(self.layout.state_words() as usize);
        let left_out = &mut self.loaded.left_out.words;
        left_out.split_off(&self.layout.state_words());
        for index in journal.changed_words() {
            left_out.remove(&index);
        }
        self.loaded.journal = journal.over(state, &generations);
        let words = &self.loaded.journal.state()[..self.layout.nvram_words as usize];
        for (index, &word) in words.iter().enumerate() {
            self.loaded.model.store_word(index, word).expect("a model has power");
        }
    }

    /// Entries at one side from byte `at` of a file on. One that cannot be read is no record, nor blank.
    fn read_side<const BYTES: usize>(
        &self,
        side: Side,
        file: ImageFile,
        at: u64,
        count: usize,
    ) -> Vec<[u8; BYTES]> {
        let mut entries = vec![[0; BYTES]; count];
        if !side.read(self.backing, self.layout, file, entries.as_flattened_mut(), at) {
            // One by one, since a disk may have lost some of them, and a file its end.
            for (at, entry) in (at..).step_by(BYTES).zip(&mut entries) {
                if !side.read(self.backing, self.layout, file, entry, at) {
                    entry.fill(0xff);
                }
            }
        }
        entries
    }

    /// The newer one of those copies of a sector that the journal makes right.
    fn choose_sector(
        &mut self,
        index: u64,
        copies: &[[u8; SECTOR_BYTES]; 2],
        journal: &journal::Found,
    ) -> Option<Sector> {
        let accepted = copies
            .each_ref()
            .map(|bytes| self.layout.decode_sector(index, bytes).filter(|sector| journal.accepts(sector)));
        let newest =
            accepted.iter().flatten().max_by_key(|sector| (sector.generation, sector.number)).cloned();
        let Some(sector) = &newest else {
            self.find(format!("both copies of sector {index} of the NVRAM are damaged"));
            return None;
        };
        let bytes = self.layout.encode_sector(index, sector);
        for (side, copy) in SIDES.into_iter().zip(copies) {
            if *copy != bytes {
                let at = index * SECTOR_BYTES as u64;
                side.repair(self.backing, self.layout, ImageFile::Nvram, &bytes, at);
                self.loaded.repaired += 1;
            }
        }
        newest
    }

    fn load_block(&mut self, id: BlockId) -> io::Result<()> {
        let index = self.layout.block_word(id);
        let word = self.loaded.journal.state()[index as usize];
        let pages = self.layout.geometry.block_pages();
        let is_left_out = self.loaded.left_out.words.contains(&index);
        let record = BlockRecord::decode(word).filter(|record| record.programmed <= pages && !is_left_out);
        let Some(record) = record else {
            if !is_left_out {
                self.find(format!("the state of block {id} is none: {word:#x}"));
            }
            return if self.expectation.rescues { self.rescue_block(id) } else { Ok(()) };
        };
        if record.health == BlockHealth::Bad {
            self.loaded.model.restore_wear(id, record.erases);
            self.loaded.model.mark_bad(id);
            return Ok(());
        }
        let mut block = self.read_block(id, record);
        self.find_damage(&mut block);
        if self.goes_on() {
            self.adopt(&block)?;
        }
        Ok(())
    }

    /// Loads a block whose state word is not known: its pages are those of the newest epoch that an OOB record tells of. That may be
    /// an epoch that was erased since, which does no harm where the map names none of its pages.
    fn rescue_block(&mut self, id: BlockId) -> io::Result<()> {
        let (first, count) = (self.layout.geometry.first_page(id), self.layout.geometry.block_pages());
        let at = self.layout.oob_at(first);
        let sides: [Vec<[u8; RECORD_BYTES]>; 2] =
            SIDES.map(|side| self.read_side(side, ImageFile::Flash, at, count as usize));
        let slots =
            |k: usize| sides.each_ref().map(|side| self.layout.decode_oob(Ppn(first.0 + k as u32), &side[k]));
        let records = |k: usize| {
            slots(k)
                .into_iter()
                .filter_map(|slot| if let OobSlot::Record(record) = slot { Some(record) } else { None })
        };
        let pages = 0..count as usize;
        let erases = pages.clone().flat_map(records).map(|record| record.epoch).max().unwrap_or(0);
        let is_used = |k: &usize| {
            slots(*k).iter().all(|slot| *slot == OobSlot::Damaged)
                || records(*k).any(|record| record.epoch == erases)
        };
        let programmed = pages.rev().find(is_used).map_or(0, |last| last as u32 + 1);
        let record = BlockRecord { health: BlockHealth::Good, erases, programmed };
        let mut block = self.read_block(id, record);
        self.find_damage(&mut block);
        self.loaded.left_out.blocks.push((id, kind_of(&block)));
        self.adopt(&block)
    }

    /// The OOB records of a block's epoch, from the sides that have them.
    fn read_block(&mut self, id: BlockId, record: BlockRecord) -> FoundBlock {
        let (first, count) = (self.layout.geometry.first_page(id), self.layout.geometry.block_pages());
        let at = self.layout.oob_at(first);
        let sides = SIDES.map(|side| self.read_side(side, ImageFile::Flash, at, count as usize));
        let page = |k: u32| {
            let ppn = Ppn(first.0 + k);
            let copies = sides.each_ref().map(|side| side[k as usize]);
            self.choose_oob(ppn, &copies, record)
        };
        let pages = (0..count).map(page).collect();
        FoundBlock { id, record, pages }
    }

    /// The record of the block's epoch. A page that was found half done is consumed at one side first.
    fn choose_oob(
        &mut self,
        ppn: Ppn,
        copies: &[[u8; RECORD_BYTES]; 2],
        block: BlockRecord,
    ) -> Option<OobRecord> {
        let slots = copies.each_ref().map(|bytes| self.layout.decode_oob(ppn, bytes));
        let next_number = self.last_number + 1;
        let is_known = |record: &OobRecord| record.number <= next_number;
        let current = |slot: &OobSlot| match slot {
            OobSlot::Record(record) if record.epoch == block.erases && is_known(record) => Some(*record),
            _ => None,
        };
        let found = slots.each_ref().map(current);
        let chosen = found.iter().flatten().min_by_key(|record| record.oob.is_some()).copied();
        let k = ppn.0 % self.layout.geometry.block_pages();
        let is_beyond = |slot: &OobSlot| matches!(slot, OobSlot::Record(record) if !is_known(record));
        if chosen.is_none() && k >= block.programmed && slots.iter().all(is_beyond) {
            self.find(format!(
                "page {ppn} was programmed after record {} of the journal, which is its last one",
                self.last_number
            ));
        }
        let is_wrong = |slot: &OobSlot| match slot {
            OobSlot::Blank => false,
            OobSlot::Damaged => true,
            OobSlot::Record(record) => record.epoch > block.erases || !is_known(record),
        };
        let bytes = match &chosen {
            Some(record) => self.layout.encode_oob(ppn, record),
            // Erased: a side that says so, if one does.
            None => {
                slots.iter().position(|slot| !is_wrong(slot)).map_or([0; RECORD_BYTES], |side| copies[side])
            }
        };
        for ((side, copy), slot) in SIDES.into_iter().zip(copies).zip(&slots) {
            if *copy != bytes && (chosen.is_some() || is_wrong(slot)) {
                side.repair(self.backing, self.layout, ImageFile::Flash, &bytes, self.layout.oob_at(ppn));
                self.loaded.repaired += 1;
            }
        }
        chosen
    }

    /// Looks for OOB records that are missing or contradict others. Those that contradict are taken out of the block.
    fn find_damage(&mut self, block: &mut FoundBlock) {
        let first = self.layout.geometry.first_page(block.id).0;
        let kind = kind_of(block);
        for k in 0..block.pages.len() {
            let ppn = Ppn(first + k as u32);
            let is_counted = k < block.record.programmed as usize;
            let contradiction = match &block.pages[k] {
                None if is_counted => {
                    Some(format!("both copies of the OOB of page {ppn} in block {} are damaged", block.id))
                }
                None => None,
                Some(record) => self.contradiction(ppn, record, is_counted, kind, block.id),
            };
            if let Some(sentence) = contradiction {
                self.find(sentence);
                block.pages[k] = None;
                self.loaded.left_out.pages.push((ppn, kind));
            }
        }
    }

    /// What an OOB record contradicts.
    fn contradiction(
        &self,
        ppn: Ppn,
        record: &OobRecord,
        is_counted: bool,
        kind: Option<PageKind>,
        block: BlockId,
    ) -> Option<String> {
        if !is_counted && record.number <= self.last_number {
            return Some(format!(
                "page {ppn} was programmed for record {} of the journal, which does not count it",
                record.number
            ));
        }
        let oob = record.oob?;
        if !oob.kind.describes_block() && kind != Some(oob.kind) {
            return Some(format!("page {ppn} is of another kind than its block {block}"));
        }
        (oob.kind == PageKind::Data && oob.owner >= self.expectation.logical_pages)
            .then(|| format!("page {ppn} belongs to logical page {}, which does not exist", oob.owner))
    }

    /// Brings the model into the state of the block.
    fn adopt(&mut self, block: &FoundBlock) -> io::Result<()> {
        let first = self.layout.geometry.first_page(block.id).0;
        self.loaded.model.restore_wear(block.id, block.record.erases);
        for k in 0..block.used() {
            let ppn = Ppn(first + k as u32);
            match &block.pages[k] {
                Some(OobRecord { oob: None, .. }) => self.loaded.model.tear_program(ppn),
                Some(record @ OobRecord { oob: Some(oob), .. }) => self.adopt_page(ppn, record, *oob)?,
                None => self.tear(ppn, block.record.erases),
            }
        }
        match block.record.health {
            BlockHealth::HalfErased => self.loaded.model.tear_erase(block.id),
            BlockHealth::Condemned => self.loaded.model.condemn(block.id),
            BlockHealth::Good | BlockHealth::Bad => {}
        }
        Ok(())
    }

    fn adopt_page(&mut self, ppn: Ppn, record: &OobRecord, oob: Oob) -> io::Result<()> {
        if !self.is_whole(ppn, record, &oob)? {
            self.tear(ppn, record.epoch);
            return Ok(());
        }
        let OobRecord { data_crc, spare_bytes, is_lost, .. } = *record;
        self.loaded.guards[ppn.index()] = Guard { data_crc, spare_bytes };
        if is_lost {
            self.loaded.model.program_lost(ppn, oob, &[]).expect("the model takes what a block holds");
            return Ok(());
        }
        let content = Content::Descriptor(Descriptor::of(oob.fingerprint));
        self.loaded.model.program(ppn, oob, content).expect("the model takes what a block holds");
        Ok(())
    }

    /// A page that the end of the host left half done.
    fn tear(&mut self, ppn: Ppn, epoch: u32) {
        self.loaded.torn.push((ppn, epoch));
        self.loaded.model.tear_program(ppn);
    }

    /// Whether a page is to be taken over. One whose data is not what its OOB says, as far as that is asked, is torn if it can
    /// be, else it is damaged and its data is lost alone.
    fn is_whole(&mut self, ppn: Ppn, record: &OobRecord, oob: &Oob) -> io::Result<bool> {
        let may_be_torn = self.may_be_half_done(record.number);
        if !may_be_torn && !self.expectation.verifies_all {
            return Ok(true);
        }
        if record.is_lost {
            let spare = read_spare(self.backing, self.layout, ppn, record);
            return Ok(!may_be_torn || spare.is_some());
        }
        self.loaded.verified_pages += 1;
        let page = Guarded {
            ppn,
            epoch: record.epoch,
            data_crc: record.data_crc,
            spare_bytes: record.spare_bytes,
            is_metadata: !oob.kind.is_host_data(),
        };
        let is_whole = read_page(self.backing, self.layout, page)?.is_some();
        if !is_whole && !may_be_torn {
            self.loaded.damaged.push(ppn);
        }
        Ok(is_whole || !may_be_torn)
    }
}

/// The kind of a block's pages: that of the first one that says so.
fn kind_of(block: &FoundBlock) -> Option<PageKind> {
    let kinds = block.pages.iter().flatten().filter_map(|record| record.oob).map(|oob| oob.kind);
    kinds.into_iter().find(|kind| !kind.describes_block())
}

/// Spare bytes of a page from a side that agrees with their checksum.
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
    let at = layout.spare_at(ppn);
    let mut sides = SIDES.into_iter();
    let is_found = sides.any(|side| {
        side.read(backing, layout, ImageFile::Flash, &mut spare, at)
            && layout.is_spare_whole(ppn, record, &spare)
    });
    is_found.then_some(spare)
}
