//! From files to the state of the flash: what every page and word is, what the end of a session left half done, and what
//! is damaged.
//!
//! Only a session that the host ended may leave something half done: its writes reach the disk in any order since the last
//! sync. Then a page may be missing under later pages of its block, or its data may be older than its OOB. Such pages lie
//! above the last synced sequence number; they become consumed and unreadable, as a torn program leaves them, and the files
//! are repaired so that they stay so. Everything else that is not as it was written is damage. Of data it is found when they
//! are read, and costs the logical pages that they held; of a record it is reported, and the image is not used.

use std::io;

use wearwell::address::{BlockId, Ppn};
use wearwell::content::{Content, Descriptor};
use wearwell::nand::{Fragile, Nand, Oob, PageKind, Retain, SimNand};

use super::backing::{Backing, ImageFile};
use super::layout::{BlockHealth, BlockRecord, Layout, OobRecord, OobSlot, RECORD_BYTES, WORD_BYTES};

/// What must be whole.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Expectation {
    /// Everything up to this sequence number was on the disk for sure; `u64::MAX` if nothing can be half done.
    pub(super) whole_up_to: u64,
    /// Whether the data of every page is read and compared with its checksum.
    pub(super) verifies_all: bool,
    /// Logical pages of the device.
    pub(super) logical_pages: u32,
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
    /// Largest sequence number of a page.
    pub(super) sequence: u64,
    /// Pages to be marked unreadable.
    pub(super) torn: Vec<(Ppn, u32)>,
    /// Pages whose data was compared with its checksum and is damaged.
    pub(super) damaged: Vec<Ppn>,
    /// Damage, one sentence per place.
    pub(super) findings: Vec<String>,
    /// Pages whose data was compared with its checksum.
    pub(super) verified_pages: u64,
}

/// A block as its records tell.
struct FoundBlock {
    id: BlockId,
    record: BlockRecord,
    slots: Vec<OobSlot>,
}

impl FoundBlock {
    /// The record of page `k`, if it was programmed since the last erase.
    fn current(&self, k: usize) -> Option<&OobRecord> {
        match &self.slots[k] {
            OobSlot::Record(record) if record.epoch == self.record.erases => Some(record),
            _ => None,
        }
    }

    /// Pages up to the last one programmed.
    fn programmed(&self) -> usize {
        (0..self.slots.len()).rev().find(|&k| self.current(k).is_some()).map_or(0, |last| last + 1)
    }
}

/// Reads everything. Damage is found, not failed upon; only the host's refusal to read is an error.
pub(super) fn load(backing: &impl Backing, layout: &Layout, expectation: Expectation) -> io::Result<Loaded> {
    let geometry = layout.geometry.clone();
    let retain = Retain { bytes: false, ..Retain::ALL };
    let mut loader = Loader {
        expectation,
        layout,
        backing,
        loaded: Loaded {
            model: SimNand::new(geometry.clone(), retain).with_nvram(layout.nvram_words * 8),
            guards: vec![Guard::default(); geometry.pages() as usize],
            sequence: 0,
            torn: Vec::new(),
            damaged: Vec::new(),
            findings: Vec::new(),
            verified_pages: 0,
        },
    };
    let mut records = vec![0; geometry.blocks() as usize * RECORD_BYTES];
    backing.read(ImageFile::Flash, &mut records, layout.block_at(BlockId(0)))?;
    for (id, record) in (0..).map(BlockId).zip(records.as_chunks().0) {
        loader.load_block(id, record)?;
    }
    loader.load_nvram()?;
    Ok(loader.loaded)
}

struct Loader<'a, B> {
    expectation: Expectation,
    layout: &'a Layout,
    backing: &'a B,
    loaded: Loaded,
}

impl<B: Backing> Loader<'_, B> {
    fn find(&mut self, sentence: String) {
        self.loaded.findings.push(sentence);
    }

    /// Whether a session that the host ended may have left a page of this number half done.
    fn may_be_half_done(&self, sequence: u64) -> bool {
        sequence > self.expectation.whole_up_to
    }

    fn load_block(&mut self, id: BlockId, record: &[u8; RECORD_BYTES]) -> io::Result<()> {
        let Some(record) = self.layout.decode_block(id, record) else {
            self.find(format!("the record of block {id} is damaged"));
            return Ok(());
        };
        let first = self.layout.geometry.first_page(id);
        let pages = self.layout.geometry.block_pages();
        let mut bytes = vec![0; pages as usize * RECORD_BYTES];
        self.backing.read(ImageFile::Flash, &mut bytes, self.layout.oob_at(first))?;
        let slot = |(k, bytes): (u32, &[u8; RECORD_BYTES])| self.layout.decode_oob(Ppn(first.0 + k), bytes);
        let slots = (0..).zip(bytes.as_chunks().0).map(slot).collect();
        let block = FoundBlock { id, record, slots };
        if record.health == BlockHealth::Bad {
            self.loaded.model.restore_wear(id, record.erases);
            self.loaded.model.mark_bad(id);
            return Ok(());
        }
        self.find_damage(&block);
        if self.loaded.findings.is_empty() {
            self.adopt(&block)?;
        }
        Ok(())
    }

    fn find_damage(&mut self, block: &FoundBlock) {
        let first = self.layout.geometry.first_page(block.id).0;
        let mut kind = None;
        for (k, slot) in block.slots.iter().enumerate() {
            let ppn = Ppn(first + k as u32);
            match slot {
                OobSlot::Damaged => {
                    self.find(format!("the OOB of page {ppn} in block {} is damaged", block.id));
                }
                OobSlot::Record(record) if record.epoch > block.record.erases => self.find(format!(
                    "page {ppn} was programmed after erase {} of block {}, whose record knows {}",
                    record.epoch, block.id, block.record.erases
                )),
                _ => {}
            }
            let Some(OobRecord { oob: Some(oob), .. }) = block.current(k) else { continue };
            if !oob.kind.describes_block() && *kind.get_or_insert(oob.kind) != oob.kind {
                self.find(format!("page {ppn} is of another kind than its block {}", block.id));
            }
            if oob.kind == PageKind::Data && oob.owner >= self.expectation.logical_pages {
                self.find(format!("page {ppn} belongs to logical page {}, which does not exist", oob.owner));
            }
        }
        let missing = (0..block.programmed()).find(|&k| {
            let later = (k..block.programmed()).filter_map(|k| block.current(k)?.oob);
            block.current(k).is_none() && later.into_iter().any(|oob| !self.may_be_half_done(oob.sequence))
        });
        if let Some(k) = missing {
            self.find(format!("page {} is missing among the pages of block {}", first + k as u32, block.id));
        }
    }

    /// Brings the model into the state of the block.
    fn adopt(&mut self, block: &FoundBlock) -> io::Result<()> {
        let first = self.layout.geometry.first_page(block.id).0;
        self.loaded.model.restore_wear(block.id, block.record.erases);
        for k in 0..block.programmed() {
            let ppn = Ppn(first + k as u32);
            match block.current(k) {
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
        self.loaded.sequence = self.loaded.sequence.max(oob.sequence);
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
        let may_be_torn = self.may_be_half_done(oob.sequence);
        if !may_be_torn && !self.expectation.verifies_all {
            return Ok(true);
        }
        if record.is_lost {
            let spare = read_spare(self.backing, self.layout, ppn, record.spare_bytes)?;
            return Ok(!may_be_torn || self.layout.is_spare_whole(ppn, record, &spare));
        }
        self.loaded.verified_pages += 1;
        let bytes = read_page(self.backing, self.layout, ppn, record.spare_bytes)?;
        let is_whole = self.layout.page_crc(ppn, record.epoch, &bytes, &[]) == record.data_crc;
        if !is_whole && !may_be_torn {
            self.loaded.damaged.push(ppn);
        }
        Ok(is_whole || !may_be_torn)
    }

    fn load_nvram(&mut self) -> io::Result<()> {
        const AT_ONCE: usize = 1 << 16;
        let words = self.layout.nvram_words as usize;
        let mut bytes = vec![0; AT_ONCE.min(words) * WORD_BYTES];
        for from in (0..words).step_by(AT_ONCE) {
            let count = AT_ONCE.min(words - from);
            let part = &mut bytes[..count * WORD_BYTES];
            self.backing.read(ImageFile::Nvram, part, (from * WORD_BYTES) as u64)?;
            for (index, bytes) in (from..).zip(part.as_chunks().0) {
                match self.layout.decode_word(index as u64, bytes) {
                    Some(word) => self.loaded.model.store_word(index, word).expect("a model has power"),
                    None => self.loaded.findings.push(format!("word {index} of the NVRAM is damaged")),
                }
            }
        }
        Ok(())
    }
}

/// Spare bytes of a page.
pub(super) fn read_spare(
    backing: &impl Backing,
    layout: &Layout,
    ppn: Ppn,
    spare_bytes: u16,
) -> io::Result<Vec<u8>> {
    let mut spare = vec![0; usize::from(spare_bytes)];
    if !spare.is_empty() {
        backing.read(ImageFile::Flash, &mut spare, layout.spare_at(ppn))?;
    }
    Ok(spare)
}

/// Data and spare bytes of a page.
pub(super) fn read_page(
    backing: &impl Backing,
    layout: &Layout,
    ppn: Ppn,
    spare_bytes: u16,
) -> io::Result<Vec<u8>> {
    let page_bytes = layout.geometry.page_bytes as usize;
    let mut bytes = vec![0; page_bytes + usize::from(spare_bytes)];
    let (data, spare) = bytes.split_at_mut(page_bytes);
    backing.read(ImageFile::Flash, data, layout.data_at(ppn))?;
    if !spare.is_empty() {
        backing.read(ImageFile::Flash, spare, layout.spare_at(ppn))?;
    }
    Ok(bytes)
}
