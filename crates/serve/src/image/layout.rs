//! The format of an image: where each byte is in its files and what it means. `docs/FORMAT.md` describes the same in
//! prose, and a test reads an image by that document.
//!
//! Metadata is stored twice: at its own place, and the same bytes in the file `mirror`. Data of the host is stored
//! once, with a checksum in its metadata.
//!
//! Numbers are little-endian. Every record has a CRC-32C, seeded with the image's salt and the record's own address, so
//! that a record in the wrong place, or of another image, is detected like a flipped bit. A record also holds a number
//! that distinguishes an older version from the newest one: the erase count of the block, or a number of the journal.
//! No OOB record and no sector crosses a boundary of 512 bytes or of a page of the page cache: its write is either done
//! or not done.
//!
//! No function here panics on the bytes that it reads: invalid bytes decode to `None`.

use crc_fast::{CrcAlgorithm, Digest};
use wearwell::address::{BlockId, Ppn};
use wearwell::data::Fingerprint;
use wearwell::nand::{Geometry, Oob, PageKind};

use super::image_file::ImageFile;

/// Magic number: the first bytes of the header of an image (file `superblock`).
pub const IMAGE_HEADER_MAGIC: [u8; 8] = *b"WEARWELL";
/// Version of the image format that this code reads and writes.
pub const FORMAT_VERSION: u32 = 2;
/// Bytes of an image header (file `superblock`) before the text of the configuration.
pub const IMAGE_HEADER_FIXED_BYTES: usize = 4096;
/// Longest configuration text in an image header, bytes.
pub const MAX_CONFIG_BYTES: u32 = 1 << 20;
/// Largest size of an image header, bytes. A file `superblock` may be longer; the rest of it is not read.
pub(super) const IMAGE_HEADER_BYTES_MAX: u64 = IMAGE_HEADER_FIXED_BYTES as u64 + MAX_CONFIG_BYTES as u64;
/// Bytes of each metadata record of fixed length: the OOB record of a page, the session record, and the header of a
/// journal record.
pub const METADATA_RECORD_BYTES: usize = 64;
/// Bytes of a sector of the file `nvram`, which holds the words of NVRAM and of block states.
pub const DEVICE_STATE_SECTOR_BYTES: usize = 512;
/// Number of words of NVRAM or block state (8 bytes each) in a sector of the file `nvram`.
pub const DEVICE_STATE_SECTOR_WORDS: usize =
    (DEVICE_STATE_SECTOR_BYTES - DEVICE_STATE_SECTOR_HEADER_BYTES) / 8;
/// Bytes of the header of a sector of the file `nvram`: checksum, journal generation and journal record number.
const DEVICE_STATE_SECTOR_HEADER_BYTES: usize = 24;
/// Bytes of one change in a journal record: index and new value of a word of NVRAM or block state.
pub const JOURNAL_ENTRY_BYTES: usize = 16;
/// Number of changed words of NVRAM and block states (8 bytes each) at which a batch of operations is ended. The
/// operation that reaches this number may change a few more words.
pub const BATCH_CHANGED_WORDS_THRESHOLD: u64 = 1 << 14;
/// Maximum number of changed words by which the last operation of a batch may exceed [`BATCH_CHANGED_WORDS_THRESHOLD`].
const BATCH_WORDS_BEYOND_THRESHOLD_MAX: u64 = 1 << 11;
/// Longest name of a design, bytes.
const DESIGN_NAME_BYTES_MAX: usize = 32;
/// Alignment, in bytes, of the regions of the flash file (OOB records, spare areas, page data).
pub(super) const REGION_ALIGNMENT_BYTES: u64 = 4096;

/// Contents of the file `superblock`: the header of an image.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ImageHeader {
    /// Geometry of the flash in the image.
    pub geometry: Geometry,
    /// Number of logical pages that the image exports.
    pub logical_pages: u32,
    /// Number of words of NVRAM in the image, 8 bytes each.
    pub nvram_words: u64,
    /// Random number drawn when the image was created; it seeds every checksum.
    pub checksum_salt: u64,
    /// Durability mode of the image (what acknowledged data survives), unless a session chooses another.
    pub durability: Durability,
    /// Name of the design of the device.
    pub design: String,
    /// Resolved configuration of the device, as TOML text.
    pub config_toml: String,
}

/// Reason why bytes are no image header (file `superblock`) of this format version.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ImageHeaderError {
    /// The magic number of an image header is missing.
    Magic,
    /// The image header has a format version that is not supported; the value is that version.
    Version(u32),
    /// The checksum or a field of the image header is wrong.
    Damaged,
}

/// Writes `value` as 4 little-endian bytes to `bytes`, from index `at` on.
pub(super) fn put_u32(bytes: &mut [u8], at: usize, value: u32) {
    bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
}

/// Writes `value` as 8 little-endian bytes to `bytes`, from index `at` on.
pub(super) fn put_u64(bytes: &mut [u8], at: usize, value: u64) {
    bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
}

/// Reads 4 bytes of `bytes`, from index `at` on, as a little-endian number.
pub(super) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

/// Reads 8 bytes of `bytes`, from index `at` on, as a little-endian number.
pub(super) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

/// Returns the CRC-32C of `salt`, `address` and `bytes`, in this order.
pub(super) fn checksum(salt: u64, address: u64, bytes: &[u8]) -> u32 {
    crc32c(&[&checksum_prefix(salt, address), bytes])
}

/// Returns the bytes that precede the data in the computation of every checksum: the image's salt and the record's
/// address. Because of them, a record of another image or from another place does not match its checksum.
fn checksum_prefix(salt: u64, address: u64) -> [u8; 16] {
    (u128::from(address) << 64 | u128::from(salt)).to_le_bytes()
}

/// Returns the CRC-32C of the concatenation of `parts`.
fn crc32c(parts: &[&[u8]]) -> u32 {
    let mut digest = Digest::new(CrcAlgorithm::Crc32Iscsi);
    for part in parts {
        digest.update(part);
    }
    digest.finalize() as u32
}

/// Computes the checksum of a metadata record and writes it into the first four bytes of the record.
fn write_record_checksum(record: &mut [u8; METADATA_RECORD_BYTES], salt: u64, address: u64) {
    let crc = checksum(salt, address, &record[4..]);
    put_u32(record, 0, crc);
}

/// Whether the first four bytes of a metadata record are its correct checksum.
pub(super) fn has_valid_checksum(record: &[u8; METADATA_RECORD_BYTES], salt: u64, address: u64) -> bool {
    u32_at(record, 0) == checksum(salt, address, &record[4..])
}

impl ImageHeader {
    /// Encodes the image header as the content of the file `superblock`.
    ///
    /// # Panics
    /// If the design's name is longer than 32 bytes or the configuration longer than [`MAX_CONFIG_BYTES`].
    pub fn encode(&self) -> Vec<u8> {
        assert!(
            self.design.len() <= DESIGN_NAME_BYTES_MAX && self.config_toml.len() <= MAX_CONFIG_BYTES as usize
        );
        let mut bytes = vec![0; IMAGE_HEADER_FIXED_BYTES];
        bytes[..8].copy_from_slice(&IMAGE_HEADER_MAGIC);
        put_u32(&mut bytes, 8, FORMAT_VERSION);
        put_u32(&mut bytes, 16, self.config_toml.len() as u32);
        put_u32(&mut bytes, 20, self.logical_pages);
        let Geometry {
            channels,
            dies_per_channel,
            planes_per_die,
            blocks_per_plane,
            pages_per_block,
            page_bytes,
            spare_bytes,
            superblock_planes,
        } = self.geometry;
        let counts = [channels, dies_per_channel, planes_per_die, blocks_per_plane];
        let sizes = [pages_per_block, page_bytes, spare_bytes, superblock_planes];
        for (k, value) in counts.into_iter().chain(sizes).enumerate() {
            put_u32(&mut bytes, 24 + 4 * k, value);
        }
        put_u64(&mut bytes, 56, self.nvram_words);
        put_u64(&mut bytes, 64, self.checksum_salt);
        bytes[72..72 + self.design.len()].copy_from_slice(self.design.as_bytes());
        bytes[104] = self.durability.code();
        bytes.extend_from_slice(self.config_toml.as_bytes());
        let crc = Self::image_header_crc(FORMAT_VERSION, &bytes);
        put_u32(&mut bytes, 12, crc);
        bytes
    }

    /// Returns the checksum of an image header. In format version 1 it does not cover the version number.
    fn image_header_crc(version: u32, bytes: &[u8]) -> u32 {
        let of_version = if version == 1 { &[] } else { &bytes[8..12] };
        crc32c(&[of_version, &bytes[16..]])
    }

    /// Whether a file is only the beginning of an image header, as an interrupted creation leaves it. The file has
    /// `file_bytes` bytes and begins with `beginning`.
    pub(super) fn is_incomplete(beginning: &[u8], file_bytes: u64) -> bool {
        if beginning.len() < IMAGE_HEADER_FIXED_BYTES {
            return beginning.is_empty();
        }
        let text_bytes = u32_at(beginning, 16);
        beginning[..8] == IMAGE_HEADER_MAGIC
            && u32_at(beginning, 8) == FORMAT_VERSION
            && text_bytes <= MAX_CONFIG_BYTES
            && file_bytes < IMAGE_HEADER_FIXED_BYTES as u64 + u64::from(text_bytes)
    }

    /// Decodes an image header from the file `superblock`, or from the mirror, where other bytes may follow the header.
    ///
    /// # Errors
    /// [`ImageHeaderError`]: the reason why the bytes are no image header.
    pub fn decode(bytes: &[u8]) -> Result<Self, ImageHeaderError> {
        Self::decode_as(FORMAT_VERSION, bytes)
    }

    /// Decodes an image header as [`ImageHeader::decode`] does, but expects format version `version`.
    pub(super) fn decode_as(version: u32, bytes: &[u8]) -> Result<Self, ImageHeaderError> {
        if bytes.len() < 12 || bytes[..8] != IMAGE_HEADER_MAGIC {
            return Err(ImageHeaderError::Magic);
        }
        if bytes.len() < IMAGE_HEADER_FIXED_BYTES {
            return Err(ImageHeaderError::Damaged);
        }
        // In the mirror other bytes follow, so the length of the text determines the end.
        let len = IMAGE_HEADER_FIXED_BYTES + u32_at(bytes, 16).min(MAX_CONFIG_BYTES) as usize;
        let bytes = &bytes[..len.min(bytes.len())];
        match u32_at(bytes, 8) {
            found if found != version => return Err(ImageHeaderError::Version(found)),
            _ if u32_at(bytes, 12) != Self::image_header_crc(version, bytes) => {
                return Err(ImageHeaderError::Damaged);
            }
            _ => {}
        }
        Self::decode_fields(bytes).ok_or(ImageHeaderError::Damaged)
    }

    /// Decodes the fields of an image header whose magic number, version and checksum are right; `None` if a field is
    /// invalid.
    fn decode_fields(bytes: &[u8]) -> Option<Self> {
        let field = |k: usize| u32_at(bytes, 24 + 4 * k);
        let geometry = Geometry {
            channels: field(0),
            dies_per_channel: field(1),
            planes_per_die: field(2),
            blocks_per_plane: field(3),
            pages_per_block: field(4),
            page_bytes: field(5),
            spare_bytes: field(6),
            superblock_planes: field(7),
        };
        let name = bytes[72..72 + DESIGN_NAME_BYTES_MAX].split(|&byte| byte == 0).next()?;
        let config = &bytes[IMAGE_HEADER_FIXED_BYTES..];
        let image_header = Self {
            geometry: geometry.checked().ok()?,
            logical_pages: u32_at(bytes, 20),
            nvram_words: u64_at(bytes, 56),
            checksum_salt: u64_at(bytes, 64),
            durability: Durability::from_code(bytes[104])?,
            design: String::from_utf8(name.to_vec()).ok()?,
            config_toml: String::from_utf8(config.to_vec()).ok()?,
        };
        let is_possible = config.len() == u32_at(bytes, 16) as usize
            && image_header.nvram_words <= 1 << 40
            && image_header.geometry.spare_bytes <= 1 << 16
            && (1..image_header.geometry.pages()).contains(&u64::from(image_header.logical_pages));
        is_possible.then_some(image_header)
    }
}

/// Offsets of all data and metadata in the files of an image.
#[derive(Clone, Debug)]
pub struct Layout {
    /// Geometry of the flash in the image.
    pub geometry: Geometry,
    /// Salt that seeds every checksum of the image.
    pub checksum_salt: u64,
    /// Number of words of NVRAM in the image, 8 bytes each.
    pub nvram_words: u64,
    /// Offset of the OOB records in the flash file, bytes.
    oob_records_offset: u64,
    /// Offset of the spare areas in the flash file, bytes.
    spare_areas_offset: u64,
    /// Offset of the region with the data of all pages in the flash file, bytes.
    data_region_offset: u64,
    /// Byte offset in the file `mirror` at which the copy of the file `session` begins.
    session_record_copy_offset: u64,
    /// Byte offset in the file `mirror` at which the copy of the file `nvram` begins.
    nvram_copy_offset: u64,
    /// Byte offset in the file `mirror` at which the copy of the file `journal` begins.
    journal_copy_offset: u64,
    /// Byte offset in the file `mirror` at which the copy of the flash file's metadata begins.
    flash_metadata_copy_offset: u64,
}

/// Health of a block: whether it can be programmed or erased.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BlockHealth {
    /// The block can be programmed and erased.
    Good,
    /// An erase of the block was interrupted: it can be used only after another erase.
    HalfErased,
    /// The block is bad and is never used again.
    Bad,
    /// A program failed in the block: it is read until its valid pages are moved, and then marked bad.
    Condemned,
}

/// State of a block (health, erase count, programmed pages), which is encoded in one word of 8 bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BlockRecord {
    /// Health of the block: whether it can be programmed or erased.
    pub health: BlockHealth,
    /// Number of erases of the block so far. A page is erased if the erase count in its OOB record differs from this
    /// number.
    pub erase_count: u32,
    /// Number of pages programmed since the block's last erase. They are the first pages of the block, and only their
    /// OOB records contain the present erase count.
    pub programmed_pages: u32,
}

impl BlockRecord {
    /// Encodes the state of a block as its state word.
    pub fn encode(self) -> u64 {
        let health = match self.health {
            BlockHealth::Good => 0,
            BlockHealth::HalfErased => 1,
            BlockHealth::Bad => 2,
            BlockHealth::Condemned => 3,
        };
        u64::from(self.erase_count) | u64::from(self.programmed_pages) << 32 | health << 56
    }

    /// Decodes the state word of a block; `None` if it is invalid.
    pub fn decode(word: u64) -> Option<Self> {
        let health = match word >> 56 {
            0 => BlockHealth::Good,
            1 => BlockHealth::HalfErased,
            2 => BlockHealth::Bad,
            3 => BlockHealth::Condemned,
            _ => return None,
        };
        Some(Self { health, erase_count: word as u32, programmed_pages: (word >> 32) as u32 & 0xff_ffff })
    }
}

/// A sector of the file `nvram` (512 bytes): consecutive words of NVRAM and block states, and the number of the last
/// journal record that they contain.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DeviceStateSector {
    /// Generation of the journal in which the sector was written: how often the journal had changed to the other of its
    /// two areas.
    pub journal_generation: u64,
    /// Number of the last journal record whose changes the sector contains.
    pub last_journal_record_number: u64,
    /// Words of NVRAM, or words with the state of a block each. In the last sector of the file, unused words are 0.
    pub device_state_words: [u64; DEVICE_STATE_SECTOR_WORDS],
}

/// OOB record of a page in the flash file: the engine's OOB, and checksums of the page's data and spare bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OobRecord {
    /// Erase count of the block when the page was programmed.
    pub block_erase_count: u32,
    /// The OOB that the engine wrote; `None` for a page that is consumed and unreadable (torn).
    pub oob: Option<Oob>,
    /// Number of bytes that are stored in the page's spare area.
    pub spare_bytes: u16,
    /// Checksum of the page's data and spare bytes. In a lost page it is the complement of the right checksum, so that
    /// a reader that does not know of lost pages finds the page damaged.
    pub data_and_spare_crc: u32,
    /// Checksum of the spare bytes alone; 0 if there are none, or if the page was written before this checksum existed.
    pub spare_crc: u32,
    /// Whether the data of the page is lost. Either it was lost before this program, which only records to which
    /// logical page the data belonged, or a repair found the data damaged and needed by no logical page.
    pub is_lost: bool,
    /// Number of the journal record that counts the page as programmed; 0 in pages that format version 1 wrote.
    pub journal_record_number: u64,
}

impl OobRecord {
    /// Makes the OOB record of a page that is consumed and unreadable (torn).
    pub fn torn(block_erase_count: u32, journal_record_number: u64) -> Self {
        Self {
            block_erase_count,
            oob: None,
            spare_bytes: 0,
            data_and_spare_crc: 0,
            spare_crc: 0,
            is_lost: false,
            journal_record_number,
        }
    }
}

/// Content of the 64 bytes in the flash file that are reserved for the OOB record of a page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OobSlot {
    /// The bytes are zeros: the page was never programmed.
    Blank,
    /// The bytes are a valid OOB record.
    Record(OobRecord),
    /// The bytes are neither zeros nor a valid OOB record.
    Damaged,
}

impl Layout {
    /// Derives the layout of an image from its header.
    pub fn new(image_header: &ImageHeader) -> Self {
        let geometry = image_header.geometry.clone();
        let (blocks, pages) = (u64::from(geometry.blocks()), geometry.pages());
        // Format version 1 had its block records before the OOB records; their space stays reserved.
        let oob_at = (blocks * METADATA_RECORD_BYTES as u64).next_multiple_of(REGION_ALIGNMENT_BYTES);
        let spare_at =
            oob_at + (pages * METADATA_RECORD_BYTES as u64).next_multiple_of(REGION_ALIGNMENT_BYTES);
        let data_at =
            spare_at + (pages * spare_stride_bytes_of(&geometry)).next_multiple_of(REGION_ALIGNMENT_BYTES);
        let text_bytes = (IMAGE_HEADER_FIXED_BYTES + image_header.config_toml.len()) as u64;
        let session_copy_at = text_bytes.next_multiple_of(REGION_ALIGNMENT_BYTES);
        let mut layout = Self {
            checksum_salt: image_header.checksum_salt,
            nvram_words: image_header.nvram_words,
            geometry,
            oob_records_offset: oob_at,
            spare_areas_offset: spare_at,
            data_region_offset: data_at,
            session_record_copy_offset: session_copy_at,
            nvram_copy_offset: session_copy_at + REGION_ALIGNMENT_BYTES,
            journal_copy_offset: 0,
            flash_metadata_copy_offset: 0,
        };
        layout.journal_copy_offset =
            layout.nvram_copy_offset + layout.nvram_file_bytes().next_multiple_of(REGION_ALIGNMENT_BYTES);
        layout.flash_metadata_copy_offset = layout.journal_copy_offset + layout.journal_file_bytes();
        layout
    }

    /// Returns the length of the flash file, bytes.
    pub fn flash_file_bytes(&self) -> u64 {
        self.data_region_offset + self.geometry.physical_bytes()
    }

    /// Returns the largest possible length, in bytes, of the file `mirror`. The mirror has this length if the last
    /// flash page holds metadata. No other file of the image is longer.
    pub fn largest_mirror_bytes(&self) -> u64 {
        self.flash_metadata_copy_offset + self.flash_file_bytes()
    }

    /// Returns the number of words (8 bytes each) in the file `nvram`: the words of NVRAM, then one for the state of
    /// each block.
    pub fn device_state_word_count(&self) -> u64 {
        self.nvram_words + u64::from(self.geometry.blocks())
    }

    /// Returns the index of the word with the state of a block. The words of blocks follow the words of NVRAM.
    pub fn block_state_word_index(&self, block: BlockId) -> u64 {
        self.nvram_words + u64::from(block.0)
    }

    /// Returns the number of sectors in the file `nvram`.
    pub fn device_state_sector_count(&self) -> u64 {
        self.device_state_word_count().div_ceil(DEVICE_STATE_SECTOR_WORDS as u64)
    }

    /// Returns the length of the NVRAM file, bytes.
    pub fn nvram_file_bytes(&self) -> u64 {
        self.device_state_sector_count() * DEVICE_STATE_SECTOR_BYTES as u64
    }

    /// Returns the length, in bytes, of each of the two areas of the journal. It is at least twice the longest record.
    /// It is also at least half the length of the file `nvram`, so that the sectors rewritten during one pass over an
    /// area are not many more bytes than the records of that pass.
    pub fn journal_area_bytes(&self) -> u64 {
        let words = self
            .device_state_word_count()
            .min(BATCH_CHANGED_WORDS_THRESHOLD + BATCH_WORDS_BEYOND_THRESHOLD_MAX);
        let longest_bytes = METADATA_RECORD_BYTES as u64 + words * JOURNAL_ENTRY_BYTES as u64;
        (2 * longest_bytes).max(self.nvram_file_bytes() / 2).next_multiple_of(REGION_ALIGNMENT_BYTES)
    }

    /// Returns the length of the journal file, bytes.
    pub fn journal_file_bytes(&self) -> u64 {
        2 * self.journal_area_bytes()
    }

    /// Returns the offset in the mirror (the file with the second copies) of the copy of byte `offset` of `file`. The
    /// byte must be metadata: image header, session record, NVRAM, journal, or metadata in the flash file. (Data of the
    /// host has no copy.)
    ///
    /// # Panics
    /// If `file` is the mirror itself.
    pub fn mirror_offset(&self, file: ImageFile, offset: u64) -> u64 {
        offset
            + match file {
                ImageFile::ImageHeader => 0,
                ImageFile::Session => self.session_record_copy_offset,
                ImageFile::Nvram => self.nvram_copy_offset,
                ImageFile::Journal => self.journal_copy_offset,
                ImageFile::Flash => self.flash_metadata_copy_offset,
                ImageFile::Mirror => panic!("the mirror has no copy"),
            }
    }

    /// Returns the distance, in bytes, between the spare areas of consecutive pages in the flash file.
    pub fn spare_stride_bytes(&self) -> usize {
        spare_stride_bytes_of(&self.geometry) as usize
    }

    /// Returns the length, in bytes, of the first region of the flash file. It holds reserved space and the 64-byte OOB
    /// records of all pages. The region with the spare bytes of all pages follows.
    pub fn bytes_before_spare_areas(&self) -> u64 {
        self.spare_areas_offset
    }

    /// Returns the offset of a page's OOB record in the flash file, bytes.
    pub fn oob_record_offset(&self, ppn: Ppn) -> u64 {
        self.oob_records_offset + u64::from(ppn.0) * METADATA_RECORD_BYTES as u64
    }

    /// Returns the offset of a page's spare bytes in the flash file, bytes.
    pub fn spare_area_offset(&self, ppn: Ppn) -> u64 {
        self.spare_areas_offset + u64::from(ppn.0) * spare_stride_bytes_of(&self.geometry)
    }

    /// Returns the offset of a page's data in the flash file, bytes.
    pub fn data_offset(&self, ppn: Ppn) -> u64 {
        self.data_region_offset + u64::from(ppn.0) * u64::from(self.geometry.page_bytes)
    }

    /// Encodes the OOB record of page `ppn` as the bytes that are stored in the flash file.
    pub fn encode_oob(&self, ppn: Ppn, record: &OobRecord) -> [u8; METADATA_RECORD_BYTES] {
        let mut bytes = [0; METADATA_RECORD_BYTES];
        bytes[4] = 2;
        bytes[6..8].copy_from_slice(&record.spare_bytes.to_le_bytes());
        put_u32(&mut bytes, 8, record.block_erase_count);
        put_u32(&mut bytes, 12, ppn.0);
        put_u32(&mut bytes, 20, record.data_and_spare_crc);
        put_u32(&mut bytes, 48, record.spare_crc);
        bytes[52] = u8::from(record.is_lost);
        put_u64(&mut bytes, 56, record.journal_record_number);
        if let Some(oob) = record.oob {
            bytes[4] = 1;
            bytes[5] = page_kind_code(oob.kind);
            put_u32(&mut bytes, 16, oob.owner);
            put_u64(&mut bytes, 24, oob.sequence_number);
            put_u64(&mut bytes, 32, oob.first_write_sequence_number);
            put_u64(&mut bytes, 40, oob.fingerprint.0);
        }
        write_record_checksum(&mut bytes, self.checksum_salt, self.oob_record_offset(ppn));
        bytes
    }

    /// Decodes the 64 bytes in the flash file that are reserved for the OOB record of page `ppn`.
    pub fn decode_oob_slot(&self, ppn: Ppn, bytes: &[u8; METADATA_RECORD_BYTES]) -> OobSlot {
        if bytes.iter().all(|&byte| byte == 0) {
            return OobSlot::Blank;
        }
        self.decode_oob_record(ppn, bytes).map_or(OobSlot::Damaged, OobSlot::Record)
    }

    /// Decodes the OOB record of page `ppn`; `None` if the checksum or a field is wrong.
    fn decode_oob_record(&self, ppn: Ppn, bytes: &[u8; METADATA_RECORD_BYTES]) -> Option<OobRecord> {
        if !has_valid_checksum(bytes, self.checksum_salt, self.oob_record_offset(ppn))
            || u32_at(bytes, 12) != ppn.0
        {
            return None;
        }
        let oob = match bytes[4] {
            1 => Some(Oob {
                kind: page_kind_of_code(bytes[5])?,
                owner: u32_at(bytes, 16),
                sequence_number: u64_at(bytes, 24),
                first_write_sequence_number: u64_at(bytes, 32),
                fingerprint: Fingerprint(u64_at(bytes, 40)),
            }),
            2 => None,
            _ => return None,
        };
        let spare_bytes = u16::from_le_bytes([bytes[6], bytes[7]]);
        let is_possible = u64::from(spare_bytes) <= spare_stride_bytes_of(&self.geometry);
        is_possible.then(|| OobRecord {
            block_erase_count: u32_at(bytes, 8),
            oob,
            spare_bytes,
            data_and_spare_crc: u32_at(bytes, 20),
            spare_crc: u32_at(bytes, 48),
            is_lost: bytes[52] == 1,
            journal_record_number: u64_at(bytes, 56),
        })
    }

    /// Returns the checksum of data and spare bytes of a page that was programmed when its block had the erase count
    /// `block_erase_count`.
    pub fn page_crc(&self, ppn: Ppn, block_erase_count: u32, data: &[u8], spare: &[u8]) -> u32 {
        crc32c(&[
            &checksum_prefix(self.checksum_salt, u64::from(ppn.0) << 32 | u64::from(block_erase_count)),
            data,
            spare,
        ])
    }

    /// Returns the checksum of the spare bytes alone of a page, programmed when its block had the erase count
    /// `block_erase_count`; never 0.
    pub fn spare_crc(&self, ppn: Ppn, block_erase_count: u32, spare: &[u8]) -> u32 {
        checksum(self.checksum_salt, u64::from(ppn.0) << 32 | u64::from(block_erase_count), spare).max(1)
    }

    /// Whether `spare` matches the checksum of the spare bytes in an OOB record.
    pub fn matches_spare_crc(&self, ppn: Ppn, record: &OobRecord, spare: &[u8]) -> bool {
        spare.is_empty() || self.spare_crc(ppn, record.block_erase_count, spare) == record.spare_crc
    }

    /// Encodes sector number `index` of the file `nvram` (a sector of state words), with its checksum.
    pub fn encode_device_state_sector(
        &self,
        index: u64,
        sector: &DeviceStateSector,
    ) -> [u8; DEVICE_STATE_SECTOR_BYTES] {
        let mut bytes = [0; DEVICE_STATE_SECTOR_BYTES];
        put_u64(&mut bytes, 8, sector.journal_generation);
        put_u64(&mut bytes, 16, sector.last_journal_record_number);
        for (k, &word) in sector.device_state_words.iter().enumerate() {
            put_u64(&mut bytes, DEVICE_STATE_SECTOR_HEADER_BYTES + 8 * k, word);
        }
        let crc = checksum(self.checksum_salt, index, &bytes[4..]);
        put_u32(&mut bytes, 0, crc);
        bytes
    }

    /// Decodes sector number `index` of the file `nvram` (a sector of state words); `None` if its checksum is wrong.
    pub fn decode_device_state_sector(
        &self,
        index: u64,
        bytes: &[u8; DEVICE_STATE_SECTOR_BYTES],
    ) -> Option<DeviceStateSector> {
        let is_whole =
            u32_at(bytes, 0) == checksum(self.checksum_salt, index, &bytes[4..]) && u32_at(bytes, 4) == 0;
        let word = |k| u64_at(bytes, DEVICE_STATE_SECTOR_HEADER_BYTES + 8 * k);
        is_whole.then(|| DeviceStateSector {
            journal_generation: u64_at(bytes, 8),
            last_journal_record_number: u64_at(bytes, 16),
            device_state_words: std::array::from_fn(word),
        })
    }
}

/// Returns the distance, in bytes, between the spare areas of consecutive pages in the flash file.
fn spare_stride_bytes_of(geometry: &Geometry) -> u64 {
    u64::from(geometry.spare_bytes).next_multiple_of(METADATA_RECORD_BYTES as u64)
}

/// Returns the number by which OOB records represent a page kind.
fn page_kind_code(kind: PageKind) -> u8 {
    match kind {
        PageKind::Data => 0,
        PageKind::Translation => 1,
        PageKind::Delta => 2,
        PageKind::Chunk => 3,
        PageKind::RemapLog => 4,
        PageKind::Validity => 5,
        PageKind::BlockHead => 6,
        PageKind::BlockTail => 7,
    }
}

/// Returns the page kind that the number `code` represents in OOB records; `None` if no kind has this number.
fn page_kind_of_code(code: u8) -> Option<PageKind> {
    use PageKind::{BlockHead, BlockTail, Chunk, Data, Delta, RemapLog, Translation, Validity};
    let mut kinds = [Data, Translation, Delta, Chunk, RemapLog, Validity, BlockHead, BlockTail].into_iter();
    kinds.find(|&kind| page_kind_code(kind) == code)
}

/// Durability mode of a session: which crashes the data of an image survives.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Durability {
    /// Flushed data survives a crash of the server process at any instant: every flash operation is in the page cache
    /// of the server machine when it returns. Data that was not flushed survives it too, unless the design had buffered
    /// the write in RAM.
    #[default]
    Process,
    /// Flushed data survives a crash of the server process, and also a crash or power loss of the server machine.
    /// A flush waits for the disk of this machine, and a block is programmed again only after its erase is on the disk.
    Host,
}

impl Durability {
    /// Both durability modes.
    pub const ALL: [Self; 2] = [Self::Process, Self::Host];

    /// Returns the name of the durability mode in options and messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Process => "process",
            Self::Host => "host",
        }
    }

    /// Returns the number by which image header and session record represent the durability mode.
    fn code(self) -> u8 {
        u8::from(self == Self::Host)
    }

    /// Returns the durability mode that the number `code` represents in records; `None` if no mode has this number.
    fn from_code(code: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|durability| durability.code() == code)
    }
}

/// Record of the last session of an image: its durability mode, and how it ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SessionRecord {
    /// Whether the session closed the image.
    pub was_closed: bool,
    /// Durability mode of the session.
    pub durability: Durability,
    /// Identifier of the boot of the server machine in which the session ran; zeros if unknown.
    pub boot_id: [u8; 16],
    /// Number of earlier sessions of the image that did not end cleanly; this session is not counted.
    pub unsafe_shutdowns: u64,
    /// Number of sessions of the image so far, this session included.
    pub session_count: u64,
    /// Number of the last journal record when the session closed the image.
    pub last_journal_record_number: u64,
    /// Random number that identifies the session; 0 if an older version of Wearwell wrote the record.
    pub session_id: u64,
    /// Random number that identifies the session before this one; 0 if there was none or its number is unknown.
    pub previous_session_id: u64,
}

impl SessionRecord {
    /// Whether two session records may be the two copies of the record of one image. Both must be of one session, or of
    /// two consecutive ones, because a crash may come between the writes of the copies. Records that older versions
    /// wrote have no random number that identifies the session, so they may belong to any session.
    pub fn may_be_copy_of(&self, other: &Self) -> bool {
        if self.session_id == 0 || other.session_id == 0 {
            return true;
        }
        let (older, newer) =
            if self.session_count < other.session_count { (self, other) } else { (other, self) };
        if older.session_count == newer.session_count {
            older.session_id == newer.session_id
        } else {
            older.session_id == newer.previous_session_id
        }
    }

    /// Encodes the session record as the content of the file `session`.
    pub fn encode(&self, salt: u64) -> [u8; METADATA_RECORD_BYTES] {
        let mut bytes = [0; METADATA_RECORD_BYTES];
        bytes[4] = u8::from(self.was_closed);
        bytes[5] = self.durability.code();
        put_u64(&mut bytes, 8, self.unsafe_shutdowns);
        bytes[16..32].copy_from_slice(&self.boot_id);
        put_u64(&mut bytes, 32, self.session_count);
        put_u64(&mut bytes, 40, self.last_journal_record_number);
        put_u64(&mut bytes, 48, self.session_id);
        put_u64(&mut bytes, 56, self.previous_session_id);
        write_record_checksum(&mut bytes, salt, 0);
        bytes
    }

    /// Decodes the content of the file `session`; `None` if its checksum is wrong.
    pub fn decode(bytes: &[u8; METADATA_RECORD_BYTES], salt: u64) -> Option<Self> {
        let durability = Durability::from_code(bytes[5])?;
        (has_valid_checksum(bytes, salt, 0) && bytes[4] <= 1).then(|| Self {
            was_closed: bytes[4] == 1,
            durability,
            boot_id: bytes[16..32].try_into().expect("sixteen bytes"),
            unsafe_shutdowns: u64_at(bytes, 8),
            session_count: u64_at(bytes, 32),
            last_journal_record_number: u64_at(bytes, 40),
            session_id: u64_at(bytes, 48),
            previous_session_id: u64_at(bytes, 56),
        })
    }
}
