//! Reader of images of format version 1, for the upgrade. Differences to version 2: block records in the flash file, an
//! NVRAM with a checksum for each word, and a journal that holds one batch.

use std::io;

use wearwell::address::{BlockId, Ppn};

use super::backing::{Backing, read_prefix};
use super::image_file::ImageFile;
use super::layout::{
    BlockHealth, BlockRecord, Durability, Layout, METADATA_RECORD_BYTES, OobRecord, OobSlot, SessionRecord,
    checksum, has_valid_checksum, u32_at, u64_at,
};

/// Bytes of an NVRAM word with its checksum in format version 1. An entry of the journal of that version has the same
/// length.
const CHECKSUMMED_WORD_BYTES: usize = 16;

/// Contents of an image of format version 1. Operations that an unclean last session left unfinished are completed or
/// marked torn.
pub(super) struct Version1Image {
    /// Record of the last session.
    pub(super) session: SessionRecord,
    /// Words of 8 bytes: those of the NVRAM, then one with the state of each block.
    pub(super) device_state_words: Vec<u64>,
    /// OOB records of all pages, by page number; `None` for erased pages.
    pub(super) oob_records: Vec<Option<OobRecord>>,
    /// Damage found in the image, one sentence for each damaged item.
    pub(super) findings: Vec<String>,
}

/// Changed words of NVRAM and block states from the journal of a version-1 image: the last batch that was written in a
/// session of durability `host` (writes survive a crash of the server machine).
#[derive(Default)]
struct JournalBatch {
    /// Sequence number up to which all programs were on the disk of the server machine.
    synced_until_sequence: u64,
    /// Index and value of each changed word of NVRAM or block state. The value for a block is its erase count.
    word_changes: Vec<(u64, u64)>,
}

/// Reads an image of format version 1. Damage found in it is returned as sentences in the field `findings` of the
/// result.
///
/// # Errors
/// Errors of the operating system.
pub(super) fn read(backing: &impl Backing, layout: &Layout) -> io::Result<Version1Image> {
    let mut bytes = [0; METADATA_RECORD_BYTES];
    backing.read(ImageFile::Session, &mut bytes, 0)?;
    let mut image = Version1Image {
        session: SessionRecord::default(),
        device_state_words: Vec::new(),
        oob_records: Vec::new(),
        findings: Vec::new(),
    };
    match SessionRecord::decode(&bytes, layout.checksum_salt) {
        Some(session) => image.session = session,
        None => image.findings.push("the session record of the image must be intact, but is damaged".into()),
    }
    let is_host = !image.session.was_closed && image.session.durability == Durability::Host;
    let batch = if is_host { read_journal_batch(backing, layout)? } else { None };
    let whole_up_to = match &batch {
        Some(batch) => batch.synced_until_sequence,
        None if is_host
            || (!image.session.was_closed && image.session.boot_id != super::current_boot_id()) =>
        {
            0
        }
        None => u64::MAX,
    };
    image.read_nvram_words(backing, layout)?;
    for (index, word) in batch.unwrap_or_default().word_changes {
        match BlockRecord::decode(image.device_state_words[index as usize]) {
            Some(record) if index >= layout.nvram_words => {
                if u64::from(record.erase_count) < word {
                    let erased = BlockRecord {
                        health: BlockHealth::Good,
                        erase_count: word as u32,
                        programmed_pages: 0,
                    };
                    image.device_state_words[index as usize] = erased.encode();
                }
            }
            _ => image.device_state_words[index as usize] = word,
        }
    }
    for block in (0..layout.geometry.blocks()).map(BlockId) {
        image.read_block(backing, layout, block, whole_up_to)?;
    }
    Ok(image)
}

/// Reads the batch in the journal of an image of format version 1; `None` if the journal holds no valid batch.
fn read_journal_batch(backing: &impl Backing, layout: &Layout) -> io::Result<Option<JournalBatch>> {
    let most =
        METADATA_RECORD_BYTES as u64 + layout.device_state_word_count() * CHECKSUMMED_WORD_BYTES as u64;
    let bytes = read_prefix(backing, ImageFile::Journal, most)?;
    Ok(decode_journal_batch(&bytes, layout))
}

/// Decodes the batch of changed state words in the journal of a version-1 image; `None` if it is invalid.
fn decode_journal_batch(bytes: &[u8], layout: &Layout) -> Option<JournalBatch> {
    let head: &[u8; METADATA_RECORD_BYTES] = bytes.first_chunk()?;
    let count = usize::try_from(u64_at(head, 8)).ok()?;
    let entries = bytes[METADATA_RECORD_BYTES..].get(..count.checked_mul(CHECKSUMMED_WORD_BYTES)?)?;
    if !has_valid_checksum(head, layout.checksum_salt, 1)
        || u32_at(head, 24) != checksum(layout.checksum_salt, 0, entries)
    {
        return None;
    }
    let word_changes: Vec<_> = entries
        .chunks_exact(CHECKSUMMED_WORD_BYTES)
        .map(|entry| (u64_at(entry, 0), u64_at(entry, 8)))
        .collect();
    let is_possible = word_changes.iter().all(|&(index, _)| index < layout.device_state_word_count());
    is_possible.then(|| JournalBatch { synced_until_sequence: u64_at(head, 16), word_changes })
}

impl Version1Image {
    /// Reads the state words of a version-1 image: the NVRAM words, each verified by its checksum, and the records of
    /// all blocks.
    fn read_nvram_words(&mut self, backing: &impl Backing, layout: &Layout) -> io::Result<()> {
        let mut bytes = vec![0; layout.nvram_words as usize * CHECKSUMMED_WORD_BYTES];
        backing.read(ImageFile::Nvram, &mut bytes, 0)?;
        for (index, bytes) in (0..).zip(bytes.chunks_exact(CHECKSUMMED_WORD_BYTES)) {
            let crc = checksum(layout.checksum_salt, index, &bytes[..8]);
            if (u32_at(bytes, 8), u32_at(bytes, 12)) != (crc, !crc) {
                self.findings.push(format!("word {index} of the NVRAM must be intact, but is damaged"));
            }
            self.device_state_words.push(u64_at(bytes, 0));
        }
        let blocks = layout.geometry.blocks();
        let mut bytes = vec![0; blocks as usize * METADATA_RECORD_BYTES];
        backing.read(ImageFile::Flash, &mut bytes, 0)?;
        for (block, bytes) in (0..blocks).zip(bytes.as_chunks().0) {
            let record = decode_block_record(layout, block, bytes);
            if record.is_none() {
                self.findings
                    .push(format!("the state record of block {block} must be intact, but is damaged"));
            }
            self.device_state_words.push(record.map_or(0, BlockRecord::encode));
        }
        Ok(())
    }

    /// Reads the OOB records of a block's pages. Pages that a crash of the server machine left half programmed are
    /// marked torn.
    fn read_block(
        &mut self,
        backing: &impl Backing,
        layout: &Layout,
        block: BlockId,
        synced_until_sequence: u64,
    ) -> io::Result<()> {
        let index = layout.block_state_word_index(block) as usize;
        let first = layout.geometry.first_page(block);
        let mut bytes = vec![0; layout.geometry.block_pages() as usize * METADATA_RECORD_BYTES];
        backing.read(ImageFile::Flash, &mut bytes, layout.oob_record_offset(first))?;
        let Some(record) = BlockRecord::decode(self.device_state_words[index]) else { return Ok(()) };
        let mut pages = Vec::new();
        for (k, bytes) in (0..).zip(bytes.as_chunks().0) {
            let ppn = Ppn(first.0 + k);
            pages.push(match layout.decode_oob_slot(ppn, bytes) {
                OobSlot::Record(page) if page.block_erase_count == record.erase_count => Some(page),
                OobSlot::Record(page) if page.block_erase_count < record.erase_count => None,
                OobSlot::Blank => None,
                OobSlot::Damaged | OobSlot::Record(_) => {
                    self.findings.push(format!(
                        "the OOB record of flash page {ppn} in block {block} must be intact, but is damaged"
                    ));
                    None
                }
            });
        }
        let programmed_pages = pages.iter().rposition(Option::is_some).map_or(0, |last| last + 1);
        for k in 0..programmed_pages {
            let ppn = Ppn(first.0 + k as u32);
            let is_half_done = match &pages[k] {
                None => true,
                Some(page) => {
                    page.oob.is_some_and(|oob| oob.sequence_number > synced_until_sequence)
                        && !matches_checksum(backing, layout, ppn, page)?
                }
            };
            if is_half_done {
                let is_possible = pages[k..programmed_pages]
                    .iter()
                    .flatten()
                    .all(|page| page.oob.is_none_or(|oob| oob.sequence_number > synced_until_sequence));
                if pages[k].is_none() && !is_possible {
                    self.findings.push(format!(
                        "flash page {ppn} must be among the pages of block {block}, but is missing"
                    ));
                }
                pages[k] = Some(OobRecord::torn(record.erase_count, 0));
            }
        }
        self.device_state_words[index] =
            BlockRecord { programmed_pages: programmed_pages as u32, ..record }.encode();
        self.oob_records.append(&mut pages);
        Ok(())
    }
}

/// Whether the stored data and spare bytes of a page match the checksum in its OOB record.
fn matches_checksum(backing: &impl Backing, layout: &Layout, ppn: Ppn, page: &OobRecord) -> io::Result<bool> {
    let mut data = vec![0; layout.geometry.page_bytes as usize];
    let mut spare = vec![0; usize::from(page.spare_bytes)];
    backing.read(ImageFile::Flash, &mut data, layout.data_offset(ppn))?;
    if !spare.is_empty() {
        backing.read(ImageFile::Flash, &mut spare, layout.spare_area_offset(ppn))?;
    }
    if page.is_lost {
        return Ok(layout.matches_spare_crc(ppn, page, &spare));
    }
    Ok(layout.page_crc(ppn, page.block_erase_count, &data, &spare) == page.data_and_spare_crc)
}

/// Decodes the record of a block in the flash file of a version-1 image; `None` if it is invalid.
fn decode_block_record(
    layout: &Layout,
    block: u32,
    bytes: &[u8; METADATA_RECORD_BYTES],
) -> Option<BlockRecord> {
    let health = match bytes[4] {
        0 => BlockHealth::Good,
        1 => BlockHealth::HalfErased,
        2 => BlockHealth::Bad,
        3 => BlockHealth::Condemned,
        _ => return None,
    };
    let is_whole =
        has_valid_checksum(bytes, layout.checksum_salt, u64::from(block) * METADATA_RECORD_BYTES as u64)
            && u32_at(bytes, 8) == block;
    is_whole.then(|| BlockRecord { health, erase_count: u32_at(bytes, 12), programmed_pages: 0 })
}
