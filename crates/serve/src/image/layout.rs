//! Every byte of an image: where it lies and what it means. `docs/FORMAT.md` says the same in prose, and a test reads an
//! image by that document.
//!
//! Metadata is stored twice: at its place and, the same bytes, in the file `mirror`. Data of the host is stored once, under a
//! checksum that its metadata holds.
//!
//! Numbers are little-endian. Every record carries a CRC-32C that is seeded with the image's salt and the record's own
//! address, so that a record in the wrong place, or of another image, is as wrong as a flipped bit. What tells an older version
//! of a record from the newest one is in the record too: the epoch of the block, or a number of the journal.
//! No OOB record or sector straddles a sector of 512 bytes or a page of the page cache: a write of one is done or not done.
//!
//! Nothing here panics on what it reads: a record that is none decodes to `None`.

use wearwell::address::{BlockId, Ppn};
use wearwell::data::Fingerprint;
use wearwell::nand::{Geometry, Oob, PageKind};

use super::backing::ImageFile;

/// First bytes of a superblock.
pub const MAGIC: [u8; 8] = *b"WEARWELL";
/// The version of the format that this code reads and writes.
pub const VERSION: u32 = 2;
/// Bytes of the superblock before the configuration's text.
pub const SUPERBLOCK_BYTES: usize = 4096;
/// Longest configuration text.
pub const MAX_CONFIG_BYTES: u32 = 1 << 20;
/// Bytes of a page's OOB record, of the session and of the head of a record of the journal.
pub const RECORD_BYTES: usize = 64;
/// Bytes of a sector of state words.
pub const SECTOR_BYTES: usize = 512;
/// State words of a sector.
pub const SECTOR_WORDS: usize = (SECTOR_BYTES - SECTOR_HEAD_BYTES) / 8;
const SECTOR_HEAD_BYTES: usize = 24;
/// Bytes of an entry of the journal.
pub const ENTRY_BYTES: usize = 16;
/// State words that an epoch changes at the most, before it is ended; a few more may follow.
pub const EPOCH_WORDS_MAX: u64 = 1 << 14;
/// State words that may follow.
const EPOCH_WORDS_MORE: u64 = 1 << 11;
/// Longest name of a design.
const NAME_BYTES: usize = 32;
/// Regions of the flash file begin at multiples of this.
const ALIGNMENT: u64 = 4096;

/// What the superblock says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Superblock {
    /// Layout of the flash.
    pub geometry: Geometry,
    /// Exported pages.
    pub logical_pages: u32,
    /// Words of NVRAM, 8 bytes each.
    pub nvram_words: u64,
    /// Drawn when the image was created; seeds every checksum.
    pub salt: u64,
    /// What a session survives that asks for nothing else.
    pub durability: Durability,
    /// Name of the design.
    pub design: String,
    /// The resolved configuration, TOML.
    pub config: String,
}

/// Why bytes are no superblock of this version.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NoSuperblock {
    /// The magic is missing.
    Magic,
    /// Another version of the format.
    Version(u32),
    /// The checksum or a field is wrong.
    Damaged,
}

pub(super) fn put_u32(bytes: &mut [u8], at: usize, value: u32) {
    bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
}

pub(super) fn put_u64(bytes: &mut [u8], at: usize, value: u64) {
    bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
}

pub(super) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

pub(super) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

/// CRC-32C of `salt`, `address` and the bytes, in this order.
pub(super) fn checksum(salt: u64, address: u64, bytes: &[u8]) -> u32 {
    let seed = crc32c::crc32c_append(crc32c::crc32c(&salt.to_le_bytes()), &address.to_le_bytes());
    crc32c::crc32c_append(seed, bytes)
}

/// Puts the checksum into the first four bytes of a record.
fn seal(record: &mut [u8; RECORD_BYTES], salt: u64, address: u64) {
    let crc = checksum(salt, address, &record[4..]);
    put_u32(record, 0, crc);
}

pub(super) fn is_sealed(record: &[u8; RECORD_BYTES], salt: u64, address: u64) -> bool {
    u32_at(record, 0) == checksum(salt, address, &record[4..])
}

impl Superblock {
    /// The whole file.
    ///
    /// # Panics
    /// If the design's name is longer than 32 bytes or the configuration longer than [`MAX_CONFIG_BYTES`].
    pub fn encode(&self) -> Vec<u8> {
        assert!(self.design.len() <= NAME_BYTES && self.config.len() <= MAX_CONFIG_BYTES as usize);
        let mut bytes = vec![0; SUPERBLOCK_BYTES];
        bytes[..8].copy_from_slice(&MAGIC);
        put_u32(&mut bytes, 8, VERSION);
        put_u32(&mut bytes, 16, self.config.len() as u32);
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
        put_u64(&mut bytes, 64, self.salt);
        bytes[72..72 + self.design.len()].copy_from_slice(self.design.as_bytes());
        bytes[104] = self.durability.code();
        bytes.extend_from_slice(self.config.as_bytes());
        let crc = Self::crc(VERSION, &bytes);
        put_u32(&mut bytes, 12, crc);
        bytes
    }

    /// Version 1 left its number out.
    fn crc(version: u32, bytes: &[u8]) -> u32 {
        let of_version = if version == 1 { 0 } else { crc32c::crc32c(&bytes[8..12]) };
        crc32c::crc32c_append(of_version, &bytes[16..])
    }

    /// Reads a whole file, or its copy, which other bytes may follow.
    ///
    /// # Errors
    /// [`NoSuperblock`] says what is wrong.
    pub fn decode(bytes: &[u8]) -> Result<Self, NoSuperblock> {
        Self::decode_as(VERSION, bytes)
    }

    /// As [`Superblock::decode`], of the version that is asked for.
    pub(super) fn decode_as(version: u32, bytes: &[u8]) -> Result<Self, NoSuperblock> {
        if bytes.len() < 12 || bytes[..8] != MAGIC {
            return Err(NoSuperblock::Magic);
        }
        if bytes.len() < SUPERBLOCK_BYTES {
            return Err(NoSuperblock::Damaged);
        }
        // Of a copy the text says how long it is.
        let len = SUPERBLOCK_BYTES + u32_at(bytes, 16).min(MAX_CONFIG_BYTES) as usize;
        let bytes = &bytes[..len.min(bytes.len())];
        match u32_at(bytes, 8) {
            found if found != version => return Err(NoSuperblock::Version(found)),
            _ if u32_at(bytes, 12) != Self::crc(version, bytes) => return Err(NoSuperblock::Damaged),
            _ => {}
        }
        Self::decode_fields(bytes).ok_or(NoSuperblock::Damaged)
    }

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
        let name = bytes[72..72 + NAME_BYTES].split(|&byte| byte == 0).next()?;
        let config = &bytes[SUPERBLOCK_BYTES..];
        let superblock = Self {
            geometry: geometry.checked().ok()?,
            logical_pages: u32_at(bytes, 20),
            nvram_words: u64_at(bytes, 56),
            salt: u64_at(bytes, 64),
            durability: Durability::of_code(bytes[104])?,
            design: String::from_utf8(name.to_vec()).ok()?,
            config: String::from_utf8(config.to_vec()).ok()?,
        };
        let is_possible = config.len() == u32_at(bytes, 16) as usize
            && superblock.nvram_words <= 1 << 40
            && superblock.geometry.spare_bytes <= 1 << 16
            && (1..superblock.geometry.pages()).contains(&u64::from(superblock.logical_pages));
        is_possible.then_some(superblock)
    }
}

/// Where things lie in the files.
#[derive(Clone, Debug)]
pub struct Layout {
    /// Layout of the flash.
    pub geometry: Geometry,
    /// Seed of every checksum.
    pub salt: u64,
    /// Words of NVRAM.
    pub nvram_words: u64,
    oob_at: u64,
    spare_at: u64,
    data_at: u64,
    /// Where the copies of the files begin in the mirror.
    session_copy_at: u64,
    nvram_copy_at: u64,
    journal_copy_at: u64,
    flash_copy_at: u64,
}

/// Whether a block can be used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BlockHealth {
    /// Yes.
    Good,
    /// Its erase was interrupted: only another erase helps.
    HalfErased,
    /// Never again.
    Bad,
    /// A program failed in it: it is read until what it holds has moved, and then declared bad.
    Condemned,
}

/// What the state word of a block says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BlockRecord {
    /// State.
    pub health: BlockHealth,
    /// Erases so far, which is also its epoch: pages of another epoch are erased.
    pub erases: u32,
    /// Pages programmed since the last erase: so many from its first one on have an OOB record of this epoch.
    pub programmed: u32,
}

impl BlockRecord {
    /// The word.
    pub fn encode(self) -> u64 {
        let health = match self.health {
            BlockHealth::Good => 0,
            BlockHealth::HalfErased => 1,
            BlockHealth::Bad => 2,
            BlockHealth::Condemned => 3,
        };
        u64::from(self.erases) | u64::from(self.programmed) << 32 | health << 56
    }

    /// Reads a word.
    pub fn decode(word: u64) -> Option<Self> {
        let health = match word >> 56 {
            0 => BlockHealth::Good,
            1 => BlockHealth::HalfErased,
            2 => BlockHealth::Bad,
            3 => BlockHealth::Condemned,
            _ => return None,
        };
        Some(Self { health, erases: word as u32, programmed: (word >> 32) as u32 & 0xff_ffff })
    }
}

/// State words that lie side by side.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Sector {
    /// Generation of the journal in which it was written.
    pub generation: u64,
    /// Number of the last record of the journal whose words it has.
    pub number: u64,
    /// The words; of the last sector those that do not exist are 0.
    pub words: [u64; SECTOR_WORDS],
}

/// The OOB of a page with what guards its data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OobRecord {
    /// Epoch of the block when the page was programmed.
    pub epoch: u32,
    /// What the engine wrote; `None` for a page that is consumed and unreadable.
    pub oob: Option<Oob>,
    /// Bytes in the spare area.
    pub spare_bytes: u16,
    /// Checksum of data and spare bytes; of a lost page the complement of what would be right, so that a reader that does
    /// not know lost pages finds it damaged.
    pub data_crc: u32,
    /// Checksum of the spare bytes alone; 0 where there are none, and in pages that were written before there was one.
    pub spare_crc: u32,
    /// The data were lost before this program, which only says whose they were.
    pub is_lost: bool,
    /// Number of the record of the journal that says that the page is programmed; 0 in pages that version 1 wrote.
    pub number: u64,
}

impl OobRecord {
    /// A page that is consumed and unreadable.
    pub fn torn(epoch: u32, number: u64) -> Self {
        Self { epoch, oob: None, spare_bytes: 0, data_crc: 0, spare_crc: 0, is_lost: false, number }
    }
}

/// What lies in the place of an OOB record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OobSlot {
    /// Zeros: no page was ever programmed here.
    Blank,
    /// A record.
    Record(OobRecord),
    /// Anything else.
    Damaged,
}

impl Layout {
    /// The layout that follows from a superblock.
    pub fn new(superblock: &Superblock) -> Self {
        let geometry = superblock.geometry.clone();
        let (blocks, pages) = (u64::from(geometry.blocks()), geometry.pages());
        // Version 1 had its block records before the OOB, and their room stays.
        let oob_at = (blocks * RECORD_BYTES as u64).next_multiple_of(ALIGNMENT);
        let spare_at = oob_at + (pages * RECORD_BYTES as u64).next_multiple_of(ALIGNMENT);
        let data_at = spare_at + (pages * spare_stride(&geometry)).next_multiple_of(ALIGNMENT);
        let text_bytes = (SUPERBLOCK_BYTES + superblock.config.len()) as u64;
        let session_copy_at = text_bytes.next_multiple_of(ALIGNMENT);
        let mut layout = Self {
            salt: superblock.salt,
            nvram_words: superblock.nvram_words,
            geometry,
            oob_at,
            spare_at,
            data_at,
            session_copy_at,
            nvram_copy_at: session_copy_at + ALIGNMENT,
            journal_copy_at: 0,
            flash_copy_at: 0,
        };
        layout.journal_copy_at = layout.nvram_copy_at + layout.nvram_bytes().next_multiple_of(ALIGNMENT);
        layout.flash_copy_at = layout.journal_copy_at + layout.journal_bytes();
        layout
    }

    /// Bytes of the flash file.
    pub fn flash_bytes(&self) -> u64 {
        self.data_at + self.geometry.bytes()
    }

    /// State words: those of the NVRAM, then one of each block.
    pub fn state_words(&self) -> u64 {
        self.nvram_words + u64::from(self.geometry.blocks())
    }

    /// Index of the state word of a block.
    pub fn block_word(&self, block: BlockId) -> u64 {
        self.nvram_words + u64::from(block.0)
    }

    /// Sectors of state words.
    pub fn sectors(&self) -> u64 {
        self.state_words().div_ceil(SECTOR_WORDS as u64)
    }

    /// Bytes of the NVRAM file.
    pub fn nvram_bytes(&self) -> u64 {
        self.sectors() * SECTOR_BYTES as u64
    }

    /// Bytes of each of the two areas of the journal: twice the longest record, and half of what all sectors take, so that the
    /// sectors that are written between two turns are not many more than the records.
    pub fn area_bytes(&self) -> u64 {
        let words = self.state_words().min(EPOCH_WORDS_MAX + EPOCH_WORDS_MORE);
        let longest_bytes = RECORD_BYTES as u64 + words * ENTRY_BYTES as u64;
        (2 * longest_bytes).max(self.nvram_bytes() / 2).next_multiple_of(ALIGNMENT)
    }

    /// Bytes of the journal file.
    pub fn journal_bytes(&self) -> u64 {
        2 * self.area_bytes()
    }

    /// Where the copy of a superblock, a session, or of metadata on flash or in NVRAM lies in the mirror. (Data of the host has
    /// no copy.)
    ///
    /// # Panics
    /// For the mirror itself.
    pub fn mirror_at(&self, file: ImageFile, offset: u64) -> u64 {
        offset
            + match file {
                ImageFile::Superblock => 0,
                ImageFile::Session => self.session_copy_at,
                ImageFile::Nvram => self.nvram_copy_at,
                ImageFile::Journal => self.journal_copy_at,
                ImageFile::Flash => self.flash_copy_at,
                ImageFile::Mirror => panic!("the mirror has no copy"),
            }
    }

    /// Bytes of a page's spare area in the file.
    pub fn spare_stride(&self) -> usize {
        spare_stride(&self.geometry) as usize
    }

    /// Bytes at the beginning of the flash file that hold metadata in place.
    pub fn metadata_bytes(&self) -> u64 {
        self.spare_at
    }

    /// Place of a page's OOB record.
    pub fn oob_at(&self, ppn: Ppn) -> u64 {
        self.oob_at + u64::from(ppn.0) * RECORD_BYTES as u64
    }

    /// Place of a page's spare bytes.
    pub fn spare_at(&self, ppn: Ppn) -> u64 {
        self.spare_at + u64::from(ppn.0) * spare_stride(&self.geometry)
    }

    /// Place of a page's data.
    pub fn data_at(&self, ppn: Ppn) -> u64 {
        self.data_at + u64::from(ppn.0) * u64::from(self.geometry.page_bytes)
    }

    /// The OOB record of `ppn` in bytes.
    pub fn encode_oob(&self, ppn: Ppn, record: &OobRecord) -> [u8; RECORD_BYTES] {
        let mut bytes = [0; RECORD_BYTES];
        bytes[4] = 2;
        bytes[6..8].copy_from_slice(&record.spare_bytes.to_le_bytes());
        put_u32(&mut bytes, 8, record.epoch);
        put_u32(&mut bytes, 12, ppn.0);
        put_u32(&mut bytes, 20, record.data_crc);
        put_u32(&mut bytes, 48, record.spare_crc);
        bytes[52] = u8::from(record.is_lost);
        put_u64(&mut bytes, 56, record.number);
        if let Some(oob) = record.oob {
            bytes[4] = 1;
            bytes[5] = code_of(oob.kind);
            put_u32(&mut bytes, 16, oob.owner);
            put_u64(&mut bytes, 24, oob.sequence);
            put_u64(&mut bytes, 32, oob.generation);
            put_u64(&mut bytes, 40, oob.fingerprint.0);
        }
        seal(&mut bytes, self.salt, self.oob_at(ppn));
        bytes
    }

    /// Reads the OOB record of `ppn`.
    pub fn decode_oob(&self, ppn: Ppn, bytes: &[u8; RECORD_BYTES]) -> OobSlot {
        if bytes.iter().all(|&byte| byte == 0) {
            return OobSlot::Blank;
        }
        self.decode_record(ppn, bytes).map_or(OobSlot::Damaged, OobSlot::Record)
    }

    fn decode_record(&self, ppn: Ppn, bytes: &[u8; RECORD_BYTES]) -> Option<OobRecord> {
        if !is_sealed(bytes, self.salt, self.oob_at(ppn)) || u32_at(bytes, 12) != ppn.0 {
            return None;
        }
        let oob = match bytes[4] {
            1 => Some(Oob {
                kind: kind_of(bytes[5])?,
                owner: u32_at(bytes, 16),
                sequence: u64_at(bytes, 24),
                generation: u64_at(bytes, 32),
                fingerprint: Fingerprint(u64_at(bytes, 40)),
            }),
            2 => None,
            _ => return None,
        };
        let spare_bytes = u16::from_le_bytes([bytes[6], bytes[7]]);
        let is_possible = u64::from(spare_bytes) <= spare_stride(&self.geometry);
        is_possible.then(|| OobRecord {
            epoch: u32_at(bytes, 8),
            oob,
            spare_bytes,
            data_crc: u32_at(bytes, 20),
            spare_crc: u32_at(bytes, 48),
            is_lost: bytes[52] == 1,
            number: u64_at(bytes, 56),
        })
    }

    /// Checksum of a page's data and spare bytes, programmed in this epoch of its block.
    pub fn page_crc(&self, ppn: Ppn, epoch: u32, data: &[u8], spare: &[u8]) -> u32 {
        let of_data = checksum(self.salt, u64::from(ppn.0) << 32 | u64::from(epoch), data);
        crc32c::crc32c_append(of_data, spare)
    }

    /// Checksum of a page's spare bytes alone, programmed in this epoch of its block; never 0.
    pub fn spare_crc(&self, ppn: Ppn, epoch: u32, spare: &[u8]) -> u32 {
        checksum(self.salt, u64::from(ppn.0) << 32 | u64::from(epoch), spare).max(1)
    }

    /// Whether spare bytes are those that a record tells of, where it tells of them apart from the data.
    pub fn is_spare_whole(&self, ppn: Ppn, record: &OobRecord, spare: &[u8]) -> bool {
        spare.is_empty() || self.spare_crc(ppn, record.epoch, spare) == record.spare_crc
    }

    /// A sector of state words in bytes.
    pub fn encode_sector(&self, index: u64, sector: &Sector) -> [u8; SECTOR_BYTES] {
        let mut bytes = [0; SECTOR_BYTES];
        put_u64(&mut bytes, 8, sector.generation);
        put_u64(&mut bytes, 16, sector.number);
        for (k, &word) in sector.words.iter().enumerate() {
            put_u64(&mut bytes, SECTOR_HEAD_BYTES + 8 * k, word);
        }
        let crc = checksum(self.salt, index, &bytes[4..]);
        put_u32(&mut bytes, 0, crc);
        bytes
    }

    /// Reads a sector of state words.
    pub fn decode_sector(&self, index: u64, bytes: &[u8; SECTOR_BYTES]) -> Option<Sector> {
        let is_whole = u32_at(bytes, 0) == checksum(self.salt, index, &bytes[4..]) && u32_at(bytes, 4) == 0;
        let word = |k| u64_at(bytes, SECTOR_HEAD_BYTES + 8 * k);
        is_whole.then(|| Sector {
            generation: u64_at(bytes, 8),
            number: u64_at(bytes, 16),
            words: std::array::from_fn(word),
        })
    }
}

fn spare_stride(geometry: &Geometry) -> u64 {
    u64::from(geometry.spare_bytes).next_multiple_of(RECORD_BYTES as u64)
}

fn code_of(kind: PageKind) -> u8 {
    match kind {
        PageKind::Data => 0,
        PageKind::Translation => 1,
        PageKind::Delta => 2,
        PageKind::Chunk => 3,
        PageKind::RemapLog => 4,
        PageKind::Validity => 5,
        PageKind::Head => 6,
        PageKind::Tail => 7,
    }
}

fn kind_of(code: u8) -> Option<PageKind> {
    use PageKind::{Chunk, Data, Delta, Head, RemapLog, Tail, Translation, Validity};
    let mut kinds = [Data, Translation, Delta, Chunk, RemapLog, Validity, Head, Tail].into_iter();
    kinds.find(|&kind| code_of(kind) == code)
}

/// What an image survives.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Durability {
    /// The end of the process, at any instant: every operation is in the host's page cache when it returns.
    #[default]
    Process,
    /// The end of the host as well: a flush, and every erase, waits for the host's disk.
    Host,
}

impl Durability {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Process, Self::Host];

    /// The word for it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Process => "process",
            Self::Host => "host",
        }
    }

    fn code(self) -> u8 {
        u8::from(self == Self::Host)
    }

    fn of_code(code: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|durability| durability.code() == code)
    }
}

/// Who used the image last, and how that ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Session {
    /// The image was closed.
    pub is_clean: bool,
    /// Durability of the session.
    pub durability: Durability,
    /// Boot of the host that the session ran in; zeros if unknown.
    pub boot: [u8; 16],
    /// Sessions that did not end cleanly, this one not counted.
    pub unsafe_shutdowns: u64,
    /// Sessions in the life of the image, this one counted.
    pub sessions: u64,
    /// Of a closed image, the number of the last record of its journal.
    pub number: u64,
}

impl Session {
    /// The file.
    pub fn encode(&self, salt: u64) -> [u8; RECORD_BYTES] {
        let mut bytes = [0; RECORD_BYTES];
        bytes[4] = u8::from(self.is_clean);
        bytes[5] = self.durability.code();
        put_u64(&mut bytes, 8, self.unsafe_shutdowns);
        bytes[16..32].copy_from_slice(&self.boot);
        put_u64(&mut bytes, 32, self.sessions);
        put_u64(&mut bytes, 40, self.number);
        seal(&mut bytes, salt, 0);
        bytes
    }

    /// Reads the file.
    pub fn decode(bytes: &[u8; RECORD_BYTES], salt: u64) -> Option<Self> {
        let durability = Durability::of_code(bytes[5])?;
        (is_sealed(bytes, salt, 0) && bytes[4] <= 1).then(|| Self {
            is_clean: bytes[4] == 1,
            durability,
            boot: bytes[16..32].try_into().expect("sixteen bytes"),
            unsafe_shutdowns: u64_at(bytes, 8),
            sessions: u64_at(bytes, 32),
            number: u64_at(bytes, 40),
        })
    }
}
