//! Compression chunks: several logical pages compressed together and stored in fewer physical ones.
//!
//! Source: integrated lifetime management (IL), section III-A. A page compressed alone still takes a page; four
//! compressed as one unit take `k` = 1 to 3, or stay raw if they do not shrink by a whole page. The price: reading one
//! member reads and decompresses the whole chunk, and the pages come back only when the last member dies.
//!
//! These are parts without a medium: [`Staging`] collects the members, [`pack`] decides `k`, [`encode`] and [`decode`]
//! are the bytes on flash, [`ChunkTable`] knows which chunk lies where. Who programs pages and who changes the map is
//! the engine.
//!
//! A member is named by a *unit number* above the physical pages, so that a map of plain 32-bit entries holds pages
//! and members alike: `first_unit + chunk * MEMBERS + member`.
//!
//! Invariants:
//! - A chunk in the table has at least one live member, one to `MEMBERS - 1` pages, and fewer pages than it was given
//!   members; a page belongs to at most one chunk.
//! - Staging holds a logical page at most once.
//! - Chunk numbers are reused, the last one freed first: the table is as long as the most chunks there ever were.
//!
//! Simplified: descriptors know the compressed size of each page, not of several together, so that their sizes add up;
//! real bytes share one dictionary and carry a header of 8 bytes ([`HEADER_BYTES`]), which descriptors do not count so
//! that `k` follows the paper's formula.

use rustc_hash::FxHashMap;

use super::{Content, Descriptor, Fingerprint};
use crate::address::{Address, Lpn, Ppn};

/// Members of a full chunk (IL: four).
pub const MEMBERS: usize = 4;
/// Pages of the largest chunk: one saved at least.
pub const MOST_PAGES: usize = MEMBERS - 1;
/// Bytes before the compressed data: its length and a check sum of the decompressed bytes, both `u32` little endian.
pub const HEADER_BYTES: usize = 8;

/// What a staged page holds, until it is stored.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Payload {
    /// Identity and sizes.
    Descriptor(Descriptor),
    /// The page itself.
    Bytes(Box<[u8]>),
}

impl Payload {
    /// The same as borrowed content.
    pub fn content(&self) -> Content<'_> {
        match self {
            Self::Descriptor(descriptor) => Content::Descriptor(*descriptor),
            Self::Bytes(bytes) => Content::Bytes(bytes),
        }
    }
}

impl From<Content<'_>> for Payload {
    fn from(content: Content<'_>) -> Self {
        match content {
            Content::Descriptor(descriptor) => Self::Descriptor(descriptor),
            Content::Bytes(bytes) => Self::Bytes(bytes.into()),
        }
    }
}

/// A page that waits for its chunk.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Member {
    /// Whose.
    pub lpn: Lpn,
    /// Identity of the content.
    pub fingerprint: Fingerprint,
    /// The content.
    pub payload: Payload,
}

/// Pages collected for the next chunk, in the order of their first write. Volatile: a flush packs what is there, even
/// if the chunk is short.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Staging {
    members: Vec<Member>,
}

impl Staging {
    /// Adds a page. A page of the same address that still waits is replaced at its place and never stored; says whether
    /// that happened.
    ///
    /// # Panics
    /// If a further page would come to a full chunk: take it first.
    pub fn push(&mut self, member: Member) -> bool {
        if let Some(pending) = self.members.iter_mut().find(|pending| pending.lpn == member.lpn) {
            *pending = member;
            return true;
        }
        assert!(!self.is_full(), "the chunk is full; it must be stored before the next page comes");
        self.members.push(member);
        false
    }

    /// Whether the chunk has all its members.
    pub fn is_full(&self) -> bool {
        self.members.len() == MEMBERS
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// Pages that wait.
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// The waiting page of that address: what a read must return.
    pub fn get(&self, lpn: Lpn) -> Option<&Member> {
        self.members.iter().find(|member| member.lpn == lpn)
    }

    /// Forgets the waiting page of that address (a trim, or a write that went another way); the others keep their order.
    pub fn remove(&mut self, lpn: Lpn) -> Option<Member> {
        let at = self.members.iter().position(|member| member.lpn == lpn)?;
        Some(self.members.remove(at))
    }

    /// Takes what waits, full or short.
    pub fn take(&mut self) -> Vec<Member> {
        std::mem::take(&mut self.members)
    }

    /// RAM of a controller, bytes: the pages, and an address and a fingerprint each.
    pub fn ram_bytes(page_bytes: u32) -> u64 {
        MEMBERS as u64 * (page_bytes as u64 + 4 + 16)
    }
}

/// How members are stored.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Packed {
    /// As they are, a page each: compression would not save a page.
    Raw,
    /// Together in this many pages.
    Chunk {
        /// One to `MEMBERS - 1`.
        pages: u32,
        /// What [`encode`] made of the members' bytes; `None` if they have none.
        bytes: Option<Vec<u8>>,
    },
}

/// Decides how `members` are stored. Bytes cost one LZ4 compression of all of them, descriptors an addition; one whose
/// size is not known counts as incompressible.
///
/// # Panics
/// If bytes and descriptors are mixed, or with more members than a chunk has.
pub fn pack(members: &[Member], page_bytes: u32) -> Packed {
    assert!(members.len() <= MEMBERS, "{} members; a chunk has {MEMBERS}", members.len());
    let pages_of = |bytes: usize| bytes.div_ceil(page_bytes as usize).max(1);
    let (pages, bytes) = match members {
        [] => return Packed::Raw,
        [Member { payload: Payload::Bytes(_), .. }, ..] => {
            let bytes = encode(members.iter().map(bytes_of));
            (pages_of(bytes.len()), Some(bytes))
        }
        _ => (pages_of(members.iter().map(|member| described_bytes(member, page_bytes)).sum()), None),
    };
    if pages >= members.len() { Packed::Raw } else { Packed::Chunk { pages: pages as u32, bytes } }
}

fn bytes_of(member: &Member) -> &[u8] {
    match &member.payload {
        Payload::Bytes(bytes) => bytes,
        Payload::Descriptor(_) => panic!("a chunk holds either bytes or descriptors"),
    }
}

fn described_bytes(member: &Member, page_bytes: u32) -> usize {
    match &member.payload {
        Payload::Descriptor(descriptor) => (descriptor.compressed_bytes as usize).min(page_bytes as usize),
        Payload::Bytes(_) => panic!("a chunk holds either bytes or descriptors"),
    }
}

/// Why bytes from flash are no chunk.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ChunkError {
    /// The header names more bytes than there are.
    #[error("the chunk ends before its header or its data do")]
    Short,
    /// The compressed data do not decompress to whole pages of the expected number.
    #[error("the chunk's data do not decompress to its members")]
    Data,
    /// They do, but not to what was stored.
    #[error("the chunk's check sum does not match")]
    CheckSum,
}

/// The bytes of a chunk on flash: the header and one LZ4 block of the members one after the other. Shorter than whole
/// pages; whoever programs it fills up the last page.
pub fn encode<'a>(members: impl Iterator<Item = &'a [u8]>) -> Vec<u8> {
    let plain = members.fold(Vec::new(), |mut plain, bytes| {
        plain.extend_from_slice(bytes);
        plain
    });
    let block = lz4_flex::block::compress(&plain);
    let mut chunk = Vec::with_capacity(HEADER_BYTES + block.len());
    chunk.extend_from_slice(&(block.len() as u32).to_le_bytes());
    chunk.extend_from_slice(&check_sum(&plain).to_le_bytes());
    chunk.extend_from_slice(&block);
    chunk
}

/// The members' bytes, one after the other, from the chunk's pages. `members` and `page_bytes` bound the memory used,
/// whatever the bytes say.
///
/// # Errors
/// [`ChunkError`] for anything that does not decompress to what [`encode`] was given; the check sum misses one damage
/// in 2^32.
pub fn decode(chunk: &[u8], members: usize, page_bytes: u32) -> Result<Vec<u8>, ChunkError> {
    let (header, rest) = chunk.split_first_chunk::<HEADER_BYTES>().ok_or(ChunkError::Short)?;
    let word = |at: usize| u32::from_le_bytes(header[at..at + 4].try_into().expect("four bytes"));
    let block = rest.get(..word(0) as usize).ok_or(ChunkError::Short)?;
    let expected = members * page_bytes as usize;
    let plain = lz4_flex::block::decompress(block, expected).map_err(|_| ChunkError::Data)?;
    if plain.len() != expected {
        return Err(ChunkError::Data);
    }
    if check_sum(&plain) != word(4) {
        return Err(ChunkError::CheckSum);
    }
    Ok(plain)
}

fn check_sum(plain: &[u8]) -> u32 {
    u32::from_le_bytes(blake3::hash(plain).as_bytes()[..4].try_into().expect("a digest has 32 bytes"))
}

/// Number of a chunk.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct ChunkId(pub u32);

/// Number of a chunk's member in a map, above all physical pages.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Unit(pub u32);

/// Where a chunk lies and whose pages it holds; a free one has no live member.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Chunk {
    /// The first `page_count` count.
    pages: [Ppn; MOST_PAGES],
    /// Who wrote each member; kept when the member dies, because the bytes still lie there.
    members: [Lpn; MEMBERS],
    page_count: u8,
    member_count: u8,
    /// Bit m = member m is live.
    live: u8,
}

impl Chunk {
    fn pages(&self) -> &[Ppn] {
        &self.pages[..self.page_count as usize]
    }
}

/// All chunks on flash.
#[derive(Clone, Debug)]
pub struct ChunkTable {
    first_unit: u32,
    chunks: Vec<Chunk>,
    /// Numbers of free chunks; the last one is reused first.
    free: Vec<ChunkId>,
    by_page: FxHashMap<Ppn, ChunkId>,
}

impl ChunkTable {
    /// Bytes of a chunk in a controller: pages and members of 4 bytes, and one byte of live bits beside one of counts.
    const CHUNK_BYTES: u64 = 4 * (MOST_PAGES + MEMBERS) as u64 + 2;
    /// Bytes of an entry of the page index: page and chunk.
    const INDEX_BYTES: u64 = 8;

    /// An empty table for a device with `physical_pages`.
    pub fn new(physical_pages: u32) -> Self {
        Self {
            first_unit: physical_pages,
            chunks: Vec::new(),
            free: Vec::new(),
            by_page: FxHashMap::default(),
        }
    }

    /// Chunks on flash.
    pub fn len(&self) -> usize {
        self.chunks.len() - self.free.len()
    }

    /// Whether no page is compressed.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Enters a chunk whose members are all live. `None` if its units have no numbers of 32 bits any more: its members
    /// must then be stored raw.
    ///
    /// # Panics
    /// If the counts are not those of a chunk, or a page belongs to another.
    pub fn allocate(&mut self, pages: &[Ppn], members: &[Lpn]) -> Option<ChunkId> {
        assert!(members.len() <= MEMBERS, "{} members; a chunk has {MEMBERS}", members.len());
        assert!(
            !pages.is_empty() && pages.len() < members.len(),
            "{} pages for {} members: a chunk saves at least one page",
            pages.len(),
            members.len()
        );
        let id = match self.free.pop() {
            Some(id) => id,
            None => self.grow()?,
        };
        for &page in pages {
            let other = self.by_page.insert(page, id);
            assert!(other.is_none(), "page {page} belongs to two chunks");
        }
        let chunk = &mut self.chunks[id.0 as usize];
        chunk.pages[..pages.len()].copy_from_slice(pages);
        chunk.members[..members.len()].copy_from_slice(members);
        (chunk.page_count, chunk.member_count) = (pages.len() as u8, members.len() as u8);
        chunk.live = ((1_u32 << members.len()) - 1) as u8;
        Some(id)
    }

    /// A chunk number that was never used.
    fn grow(&mut self) -> Option<ChunkId> {
        let id = self.chunks.len() as u64;
        let end = self.first_unit as u64 + (id + 1) * MEMBERS as u64;
        // The number of all ones means "no address" in a map.
        if end > u32::MAX as u64 {
            return None;
        }
        self.chunks.push(Chunk {
            pages: [Ppn::NONE; MOST_PAGES],
            members: [Lpn::NONE; MEMBERS],
            page_count: 0,
            member_count: 0,
            live: 0,
        });
        Some(ChunkId(id as u32))
    }

    /// The unit number of a member.
    pub fn unit(&self, chunk: ChunkId, member: usize) -> Unit {
        debug_assert!(member < MEMBERS, "no member {member}");
        Unit(self.first_unit + chunk.0 * MEMBERS as u32 + member as u32)
    }

    /// The member that a number of a map means; `None` if it is a physical page.
    pub fn locate(&self, number: u32) -> Option<(ChunkId, usize)> {
        let unit = number.checked_sub(self.first_unit)?;
        Some((ChunkId(unit / MEMBERS as u32), unit as usize % MEMBERS))
    }

    /// A member dies. If it was the last one, the chunk is gone and its pages are returned: they hold nothing any more.
    ///
    /// # Panics
    /// If the member is not live.
    pub fn drop_member(&mut self, unit: Unit) -> Option<ChunkPages> {
        let (id, member) = self.locate(unit.0).expect("a unit number lies above the physical pages");
        let chunk = &mut self.chunks[id.0 as usize];
        assert!(chunk.live >> member & 1 == 1, "member {member} of chunk {} dies twice", id.0);
        chunk.live &= !(1 << member);
        if chunk.live != 0 {
            return None;
        }
        let pages = ChunkPages { pages: chunk.pages, count: chunk.page_count };
        for page in pages.as_slice() {
            self.by_page.remove(page);
        }
        self.free.push(id);
        Some(pages)
    }

    /// Pages of a chunk, in the order of its bytes: what a read of any member reads.
    pub fn pages(&self, chunk: ChunkId) -> &[Ppn] {
        self.live_chunk(chunk).pages()
    }

    /// Members that the chunk was stored with, dead ones included: what [`decode`] is told.
    pub fn member_count(&self, chunk: ChunkId) -> usize {
        self.live_chunk(chunk).member_count as usize
    }

    /// Live members with the addresses that wrote them: what garbage collection must keep.
    pub fn live_members(&self, chunk: ChunkId) -> impl Iterator<Item = (usize, Lpn)> + '_ {
        let chunk = self.live_chunk(chunk);
        (0..MEMBERS)
            .filter(|member| chunk.live >> member & 1 == 1)
            .map(|member| (member, chunk.members[member]))
    }

    /// Whether the member lives.
    pub fn is_live(&self, unit: Unit) -> bool {
        let chunk =
            self.locate(unit.0).and_then(|(id, member)| Some((self.chunks.get(id.0 as usize)?, member)));
        chunk.is_some_and(|(chunk, member)| chunk.live >> member & 1 == 1)
    }

    /// The chunk that a physical page belongs to.
    pub fn chunk_of(&self, page: Ppn) -> Option<ChunkId> {
        self.by_page.get(&page).copied()
    }

    /// A page of a chunk was copied elsewhere as it is.
    ///
    /// # Panics
    /// If `from` belongs to no chunk, or `to` to one.
    pub fn move_page(&mut self, from: Ppn, to: Ppn) {
        let id = self.by_page.remove(&from).unwrap_or_else(|| panic!("page {from} belongs to no chunk"));
        let other = self.by_page.insert(to, id);
        assert!(other.is_none(), "page {to} belongs to two chunks");
        let chunk = &mut self.chunks[id.0 as usize];
        let place = chunk.pages.iter_mut().find(|page| **page == from);
        *place.expect("the index agrees with the chunk") = to;
    }

    /// What a controller would hold in RAM for the most chunks there ever were, bytes.
    pub fn ram_bytes(&self) -> Vec<(&'static str, u64)> {
        let chunks = self.chunks.len() as u64;
        vec![
            ("chunks", Self::CHUNK_BYTES * chunks),
            ("chunks: pages", Self::INDEX_BYTES * MOST_PAGES as u64 * chunks),
        ]
    }

    /// Checks the invariants. O(chunks).
    ///
    /// # Errors
    /// The first violation, as a sentence.
    pub fn check(&self) -> Result<(), String> {
        let mut is_free = vec![false; self.chunks.len()];
        for id in &self.free {
            if std::mem::replace(&mut is_free[id.0 as usize], true) {
                return Err(format!("chunk {} is free twice", id.0));
            }
        }
        let mut pages = 0;
        for (id, chunk) in self.chunks.iter().enumerate() {
            if is_free[id] != (chunk.live == 0) {
                return Err(format!("chunk {id} has live members {:#b}, free: {}", chunk.live, is_free[id]));
            }
            if !is_free[id] {
                self.check_chunk(ChunkId(id as u32), chunk)?;
                pages += chunk.pages().len();
            }
        }
        if pages != self.by_page.len() {
            return Err(format!("{pages} pages in chunks, {} in the index", self.by_page.len()));
        }
        Ok(())
    }

    fn check_chunk(&self, id: ChunkId, chunk: &Chunk) -> Result<(), String> {
        let Chunk { page_count, member_count, live, .. } = *chunk;
        if page_count == 0 || page_count >= member_count || live >> member_count != 0 {
            return Err(format!(
                "chunk {} has {page_count} pages, {member_count} members, live {live:#b}",
                id.0
            ));
        }
        match chunk.pages().iter().find(|&&page| self.chunk_of(page) != Some(id)) {
            Some(page) => Err(format!("page {page} of chunk {} is not indexed as its", id.0)),
            None => Ok(()),
        }
    }

    fn live_chunk(&self, id: ChunkId) -> &Chunk {
        let chunk = &self.chunks[id.0 as usize];
        assert!(chunk.live != 0, "chunk {} is gone", id.0);
        chunk
    }
}

/// Pages that a dead chunk leaves behind.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ChunkPages {
    pages: [Ppn; MOST_PAGES],
    count: u8,
}

impl ChunkPages {
    /// The pages, in the order of the chunk's bytes.
    pub fn as_slice(&self) -> &[Ppn] {
        &self.pages[..self.count as usize]
    }
}
