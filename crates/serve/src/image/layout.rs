//! Every byte of an image: where it lies and what it means. `docs/FORMAT.md` says the same in prose, and a test reads an
//! image by that document.
//!
//! Numbers are little-endian. Every record carries a CRC-32C that is seeded with the image's salt and the record's own
//! address, so that a record in the wrong place, or of another image, is as wrong as a flipped bit. Records are 16 or 64
//! bytes and never straddle a sector of 512 bytes or a page of the page cache: a write of one is done or not done.
//!
//! Nothing here panics on what it reads: a record that is none decodes to `None`.

use wearwell::address::{BlockId, Ppn};
use wearwell::content::Fingerprint;
use wearwell::nand::{Geometry, Oob, PageKind};

/// First bytes of a superblock.
pub const MAGIC: [u8; 8] = *b"WEARWELL";
/// The version of the format that this code reads and writes.
pub const VERSION: u32 = 1;
/// Bytes of the superblock before the configuration's text.
pub const SUPERBLOCK_BYTES: usize = 4096;
/// Longest configuration text.
pub const MAX_CONFIG_BYTES: u32 = 1 << 20;
/// Bytes of the record of a block, of a page's OOB, of the session and of the journal's head.
pub const RECORD_BYTES: usize = 64;
/// Bytes of an NVRAM word with its check, and of an entry of the journal.
pub const WORD_BYTES: usize = 16;
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

fn put_u32(bytes: &mut [u8], at: usize, value: u32) {
    bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
}

fn put_u64(bytes: &mut [u8], at: usize, value: u64) {
    bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

/// CRC-32C of `salt`, `address` and the bytes, in this order.
fn checksum(salt: u64, address: u64, bytes: &[u8]) -> u32 {
    let seed = crc32c::crc32c_append(crc32c::crc32c(&salt.to_le_bytes()), &address.to_le_bytes());
    crc32c::crc32c_append(seed, bytes)
}

/// Puts the checksum into the first four bytes of a record.
fn seal(record: &mut [u8; RECORD_BYTES], salt: u64, address: u64) {
    let crc = checksum(salt, address, &record[4..]);
    put_u32(record, 0, crc);
}

fn is_sealed(record: &[u8; RECORD_BYTES], salt: u64, address: u64) -> bool {
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
        let crc = crc32c::crc32c(&bytes[16..]);
        put_u32(&mut bytes, 12, crc);
        bytes
    }

    /// Reads a whole file.
    ///
    /// # Errors
    /// [`NoSuperblock`] says what is wrong.
    pub fn decode(bytes: &[u8]) -> Result<Self, NoSuperblock> {
        if bytes.len() < 12 || bytes[..8] != MAGIC {
            return Err(NoSuperblock::Magic);
        }
        match u32_at(bytes, 8) {
            VERSION => {}
            other => return Err(NoSuperblock::Version(other)),
        }
        if bytes.len() < SUPERBLOCK_BYTES || u32_at(bytes, 12) != crc32c::crc32c(&bytes[16..]) {
            return Err(NoSuperblock::Damaged);
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

/// Where things lie in the flash file.
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

/// The record of a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BlockRecord {
    /// State.
    pub health: BlockHealth,
    /// Erases so far, which is also its epoch: pages of another epoch are erased.
    pub erases: u32,
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
}

impl OobRecord {
    /// A page that is consumed and unreadable.
    pub fn torn(epoch: u32) -> Self {
        Self { epoch, oob: None, spare_bytes: 0, data_crc: 0, spare_crc: 0, is_lost: false }
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
        let oob_at = (blocks * RECORD_BYTES as u64).next_multiple_of(ALIGNMENT);
        let spare_at = oob_at + (pages * RECORD_BYTES as u64).next_multiple_of(ALIGNMENT);
        let data_at = spare_at + (pages * spare_stride(&geometry)).next_multiple_of(ALIGNMENT);
        Self {
            salt: superblock.salt,
            nvram_words: superblock.nvram_words,
            geometry,
            oob_at,
            spare_at,
            data_at,
        }
    }

    /// Bytes of the flash file.
    pub fn flash_bytes(&self) -> u64 {
        self.data_at + self.geometry.bytes()
    }

    /// Bytes of the NVRAM file.
    pub fn nvram_bytes(&self) -> u64 {
        self.nvram_words * WORD_BYTES as u64
    }

    /// Bytes of a page's spare area in the file.
    pub fn spare_stride(&self) -> usize {
        spare_stride(&self.geometry) as usize
    }

    /// Bytes at the beginning of the flash file that hold block records and OOB.
    pub fn metadata_bytes(&self) -> u64 {
        self.spare_at
    }

    /// Place of a block's record.
    pub fn block_at(&self, block: BlockId) -> u64 {
        u64::from(block.0) * RECORD_BYTES as u64
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

    /// The record of `block` in bytes.
    pub fn encode_block(&self, block: BlockId, record: BlockRecord) -> [u8; RECORD_BYTES] {
        let mut bytes = [0; RECORD_BYTES];
        bytes[4] = match record.health {
            BlockHealth::Good => 0,
            BlockHealth::HalfErased => 1,
            BlockHealth::Bad => 2,
            BlockHealth::Condemned => 3,
        };
        put_u32(&mut bytes, 8, block.0);
        put_u32(&mut bytes, 12, record.erases);
        seal(&mut bytes, self.salt, self.block_at(block));
        bytes
    }

    /// Reads the record of `block`.
    pub fn decode_block(&self, block: BlockId, bytes: &[u8; RECORD_BYTES]) -> Option<BlockRecord> {
        let health = match bytes[4] {
            0 => BlockHealth::Good,
            1 => BlockHealth::HalfErased,
            2 => BlockHealth::Bad,
            3 => BlockHealth::Condemned,
            _ => return None,
        };
        let is_whole = is_sealed(bytes, self.salt, self.block_at(block)) && u32_at(bytes, 8) == block.0;
        is_whole.then(|| BlockRecord { health, erases: u32_at(bytes, 12) })
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

    /// A word of NVRAM with its check.
    pub fn encode_word(&self, index: u64, word: u64) -> [u8; WORD_BYTES] {
        let mut bytes = [0; WORD_BYTES];
        put_u64(&mut bytes, 0, word);
        let crc = checksum(self.salt, index, &bytes[..8]);
        put_u64(&mut bytes, 8, u64::from(crc) | u64::from(!crc) << 32);
        bytes
    }

    /// Reads a word of NVRAM.
    pub fn decode_word(&self, index: u64, bytes: &[u8; WORD_BYTES]) -> Option<u64> {
        let word = u64_at(bytes, 0);
        (self.encode_word(index, word) == *bytes).then_some(word)
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
        })
    }
}

/// The last batch of a `host` session, NVRAM words and erases: either all of them hold, or none.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Journal {
    /// Every page up to this sequence number was on the disk when the batch was written.
    pub synced_sequence: u64,
    /// Index and word.
    pub words: Vec<(u64, u64)>,
    /// Block and its erases so far, with the one that was committed.
    pub erases: Vec<(BlockId, u32)>,
}

impl Journal {
    /// Longest file.
    pub fn most_bytes(layout: &Layout) -> u64 {
        let entries = layout.nvram_words + u64::from(layout.geometry.blocks());
        RECORD_BYTES as u64 + entries * WORD_BYTES as u64
    }

    /// The file. An erase is an entry too, numbered behind the words.
    pub fn encode(&self, layout: &Layout) -> Vec<u8> {
        let mut bytes = vec![0; RECORD_BYTES];
        let number = |block: BlockId| layout.nvram_words + u64::from(block.0);
        let erases = self.erases.iter().map(|&(block, erases)| (number(block), u64::from(erases)));
        for (index, word) in self.words.iter().copied().chain(erases) {
            bytes.extend_from_slice(&index.to_le_bytes());
            bytes.extend_from_slice(&word.to_le_bytes());
        }
        let mut head = [0; RECORD_BYTES];
        put_u64(&mut head, 8, (self.words.len() + self.erases.len()) as u64);
        put_u64(&mut head, 16, self.synced_sequence);
        put_u32(&mut head, 24, checksum(layout.salt, 0, &bytes[RECORD_BYTES..]));
        seal(&mut head, layout.salt, 1);
        bytes[..RECORD_BYTES].copy_from_slice(&head);
        bytes
    }

    /// Reads the file, which may be longer than the journal; `None` if its write was cut short.
    pub fn decode(bytes: &[u8], layout: &Layout) -> Option<Self> {
        let head: &[u8; RECORD_BYTES] = bytes.first_chunk()?;
        if !is_sealed(head, layout.salt, 1) {
            return None;
        }
        let count = usize::try_from(u64_at(head, 8)).ok()?;
        let entries = bytes[RECORD_BYTES..].get(..count.checked_mul(WORD_BYTES)?)?;
        if u32_at(head, 24) != checksum(layout.salt, 0, entries) {
            return None;
        }
        let mut journal = Self { synced_sequence: u64_at(head, 16), ..Self::default() };
        for entry in entries.chunks_exact(WORD_BYTES) {
            let (index, word) = (u64_at(entry, 0), u64_at(entry, 8));
            match index.checked_sub(layout.nvram_words) {
                None => journal.words.push((index, word)),
                Some(block) if block < u64::from(layout.geometry.blocks()) => {
                    journal.erases.push((BlockId(block as u32), u32::try_from(word).ok()?));
                }
                Some(_) => return None,
            }
        }
        Some(journal)
    }
}
