//! Compression: the pages of up to four host writes are compressed together and stored in fewer flash pages.
//!
//! Source: "An Integrated Approach for Managing the Lifetime of Flash-Based SSDs", Lee, Kim, Park, Kim, DATE 2013: a
//! chunk of four pages is the unit of compression and of decompression, because a page compressed alone still takes a
//! page. Modelled here: the chunk buffer with replacement of pending members and short chunks at a flush, storage of incompressible members as plain
//! pages, reading one member by reading and decompressing the chunk, partial liveness, and taking chunks apart or
//! together again in garbage collection.
//!
//! # Decisions
//!
//! - A member is a unit of its own ([`Unit`] numbers above the pages): the map, reference counts and the content index
//!   name members as they name pages, and stay four bytes per entry.
//! - The directory of a chunk (its logical pages, sizes) is counted as RAM of the controller, kept on battery; with bytes
//!   it is also written to the spare areas of the chunk's pages (`chunk_directory`), from where a device without a battery
//!   takes it.
//! - The pages of a chunk live until its last member dies. Chunks with fewer live members than pages cost space; when
//!   they cost more than the spare space allows, the next write takes one apart first.
//!
//! Invariants: a chunk has fewer pages than it had members, and at least one live member; its pages are valid, and no
//! other chunk's; a logical page is pending at most once.

use rustc_hash::FxHashSet;

use crate::address::{Address, BlockId, Lpn, Ppn, Unit};
use crate::content::chunk_directory::{DIRECTORY_BYTES, Directory, FoundChunk, FoundChunks};
use crate::content::{Content, Fingerprint};
use crate::error::{Error, Result};
use crate::ftl::Ftl;
use crate::gc::Batch;
use crate::mapping::Mapping;
use crate::nand::Nand;
use crate::reverse_map::{AnyReverseMap, Entry};
use crate::store::{Moves, Store, Stream};
use crate::timing::Cause;
use crate::warm::read_all;

/// Members of a full chunk (paper, section III-A).
pub const CHUNK_MEMBERS: usize = 4;

/// Bytes of a chunk's directory in a controller: three pages, four logical pages, live mask.
const CHUNK_BYTES: u64 = 32;

/// Options of compression: none yet.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ChunkDesign {}

/// What compression did.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ChunkStatistics {
    /// Chunks written for the host.
    pub chunks: u64,
    /// Members in them.
    pub members: u64,
    /// Flash pages of them.
    pub pages: u64,
    /// Members stored as plain pages, because the chunk would not have saved a page.
    pub incompressible: u64,
    /// Chunks packed anew by garbage collection.
    pub repacked: u64,
    /// Chunks taken apart because they cost more pages than they had members.
    pub unpacked: u64,
}

/// A host page on its way into a chunk.
#[derive(Clone, Debug)]
struct Pending {
    lpn: Lpn,
    fingerprint: Fingerprint,
    compressed_bytes: u32,
    /// Empty where only descriptors are known.
    bytes: Vec<u8>,
    /// A member of a chunk that cannot be read: it becomes a page that is lost.
    is_lost: bool,
}

/// A live or dead member of a stored chunk.
#[derive(Clone, Copy, Debug)]
struct Member {
    fingerprint: Fingerprint,
    lpn: Lpn,
    /// [`WHOLE_PAGE`] for as much as a page.
    compressed_bytes: u16,
}

/// Compressed size of a member that takes a page, or more than this.
const WHOLE_PAGE: u16 = u16::MAX;

/// Wasteful chunks that are noted before the list is looked through.
const LEAST_NOTED: u64 = 64;

/// What is known of a stored chunk, in one piece and small: every fourth write makes one and frees one, at random.
#[derive(Clone, Debug)]
struct Chunk {
    fingerprints: [Fingerprint; CHUNK_MEMBERS],
    /// None behind the last member.
    writers: [Lpn; CHUNK_MEMBERS],
    /// None behind the last one.
    pages: [Ppn; CHUNK_MEMBERS - 1],
    compressed_bytes: [u16; CHUNK_MEMBERS],
    /// Bit `k`: member `k` is live.
    live: u8,
}

const _: () = assert!(size_of::<Chunk>() == 72);

impl Chunk {
    const EMPTY: Self = Self {
        fingerprints: [Fingerprint(0); CHUNK_MEMBERS],
        writers: [Lpn::NONE; CHUNK_MEMBERS],
        pages: [Ppn::NONE; CHUNK_MEMBERS - 1],
        compressed_bytes: [0; CHUNK_MEMBERS],
        live: 0,
    };

    /// A chunk without pages, of which no member is live.
    fn of(members: impl Iterator<Item = Member>) -> Self {
        let mut chunk = Self::EMPTY;
        for (k, Member { fingerprint, lpn, compressed_bytes }) in members.enumerate() {
            chunk.fingerprints[k] = fingerprint;
            chunk.writers[k] = lpn;
            chunk.compressed_bytes[k] = compressed_bytes;
        }
        chunk
    }

    /// Members, live or dead.
    fn len(&self) -> usize {
        self.writers.iter().take_while(|lpn| **lpn != Lpn::NONE).count()
    }

    fn is_empty(&self) -> bool {
        self.writers[0] == Lpn::NONE
    }

    fn member(&self, k: usize) -> Member {
        Member {
            fingerprint: self.fingerprints[k],
            lpn: self.writers[k],
            compressed_bytes: self.compressed_bytes[k],
        }
    }

    /// Its pages, in order.
    fn pages(&self) -> &[Ppn] {
        let count = self.pages.iter().take_while(|ppn| **ppn != Ppn::NONE).count();
        &self.pages[..count]
    }

    fn live(&self) -> usize {
        self.live.count_ones() as usize
    }

    fn is_live(&self, member: usize) -> bool {
        self.live >> member & 1 == 1
    }

    /// Live members with their numbers.
    fn live_members(&self) -> impl Iterator<Item = (usize, Member)> {
        (0..CHUNK_MEMBERS).filter(|&k| self.is_live(k)).map(|k| (k, self.member(k)))
    }

    /// A chunk of which no member is known to be live yet.
    fn of_found(found: &FoundChunk) -> Self {
        let dead =
            |&(lpn, fingerprint): &(Lpn, Fingerprint)| Member { fingerprint, lpn, compressed_bytes: 0 };
        let mut chunk = Self::of(found.directory.members.iter().map(dead));
        chunk.pages.iter_mut().zip(found.pages()).for_each(|(page, ppn)| *page = ppn);
        chunk
    }

    /// Pages beyond what the live members would take by themselves.
    fn excess_pages(&self) -> u64 {
        self.pages().len().saturating_sub(self.live()) as u64
    }
}

/// State of compression.
#[derive(Clone, Debug)]
pub(crate) struct ChunkStage {
    pending: Vec<Pending>,
    chunks: Vec<Chunk>,
    /// Bytes of the members of each chunk compressed together; 0, or beyond the end, if one came without bytes, of which a
    /// capture may know sizes only.
    payload_bytes: Vec<u32>,
    vacant: Vec<u32>,
    /// Numbers that may not be given again before the medium is synced: a map on it may still name the old chunk.
    retired: Vec<u32>,
    keeps_numbers: bool,
    first_unit: u32,
    page_bytes: u32,
    /// Pages that chunks cost beyond their live members, and how many they may.
    excess_pages: u64,
    excess_limit: u64,
    /// Chunks that have such pages, or had; the latest last.
    wasteful: Vec<u32>,
    pub(crate) is_on: bool,
    pub(crate) statistics: ChunkStatistics,
}

impl ChunkStage {
    pub(crate) fn new<N: Nand>(store: &Store<N>) -> Result<Self> {
        let geometry = store.geometry();
        // Numbers of members must fit above the pages: one chunk per page at most.
        if geometry.pages() * (1 + CHUNK_MEMBERS as u64) > u32::MAX as u64 {
            return Err(Error::Options(format!(
                "compression of {} pages: chunk members need numbers above the pages, which ends at {} pages",
                geometry.pages(),
                u32::MAX as u64 / (1 + CHUNK_MEMBERS as u64)
            )));
        }
        Ok(Self {
            pending: Vec::new(),
            chunks: Vec::new(),
            payload_bytes: Vec::new(),
            vacant: Vec::new(),
            retired: Vec::new(),
            keeps_numbers: false,
            first_unit: geometry.pages() as u32,
            page_bytes: geometry.page_bytes,
            excess_pages: 0,
            excess_limit: 0,
            wasteful: Vec::new(),
            is_on: true,
            statistics: ChunkStatistics::default(),
        })
    }

    /// The map is on the medium, and what it stored since the last sync may be lost while the flash is not.
    pub(crate) fn keep_numbers(&mut self) {
        self.keeps_numbers = true;
    }

    /// The medium was synced. Every erase does that, so chunks and retired numbers have pages of their own and there are
    /// numbers enough.
    pub(crate) fn synced(&mut self) {
        self.vacant.append(&mut self.retired);
    }

    /// Chunks may cost half of `spare_pages`.
    pub(crate) fn limit_pages(&mut self, spare_pages: u64) {
        self.excess_limit = spare_pages / 2;
    }

    /// Notes a chunk that costs pages now. Those that do not any more are forgotten before they are the most of the list.
    fn note_wasteful(&mut self, number: u32) {
        if self.wasteful.len() as u64 > 2 * self.excess_pages + LEAST_NOTED {
            self.forget_thrifty();
        }
        self.wasteful.push(number);
    }

    /// Forgets chunks that cost no pages, and of the others all mentions but the last.
    #[cold]
    fn forget_thrifty(&mut self) {
        let Self { chunks, wasteful, .. } = self;
        let mut seen = FxHashSet::default();
        wasteful.reverse();
        wasteful.retain(|&number| chunks[number as usize].excess_pages() > 0 && seen.insert(number));
        wasteful.reverse();
    }

    #[inline]
    fn costs_too_much(&self) -> bool {
        self.excess_pages > self.excess_limit
    }

    fn unit(&self, chunk: u32, member: usize) -> Unit {
        Unit(self.first_unit + chunk * CHUNK_MEMBERS as u32 + member as u32)
    }

    fn place_of(&self, unit: Unit) -> (u32, usize) {
        let at = unit.0 - self.first_unit;
        (at / CHUNK_MEMBERS as u32, at as usize % CHUNK_MEMBERS)
    }

    pub(crate) fn fingerprint(&self, unit: Unit) -> Fingerprint {
        let (chunk, member) = self.place_of(unit);
        self.chunks[chunk as usize].fingerprints[member]
    }

    /// The pages of a member's chunk.
    pub(crate) fn pages_of(&self, unit: Unit) -> &[Ppn] {
        self.chunks[self.place_of(unit).0 as usize].pages()
    }

    pub(crate) fn is_live(&self, unit: Unit) -> bool {
        let (chunk, member) = self.place_of(unit);
        self.chunks.get(chunk as usize).is_some_and(|chunk| chunk.is_live(member))
    }

    /// Reads what dropping these members will need; see [`crate::warm`].
    pub(crate) fn warm_drops(&self, units: impl Iterator<Item = Unit>) {
        let chunks = units.map(|unit| &self.chunks[self.place_of(unit).0 as usize]);
        read_all(chunks.map(|chunk| u64::from(chunk.live) + u64::from(chunk.writers[0].0)));
    }

    /// The logical page that wrote the member.
    pub(crate) fn writer(&self, unit: Unit) -> Lpn {
        let (chunk, member) = self.place_of(unit);
        self.chunks[chunk as usize].writers[member]
    }

    fn allocate(&mut self, chunk: Chunk, payload_bytes: u32) -> u32 {
        let number = self.vacant.pop().unwrap_or_else(|| {
            self.chunks.push(Chunk::EMPTY);
            self.chunks.len() as u32 - 1
        });
        self.chunks[number as usize] = chunk;
        self.set_payload(number, payload_bytes);
        number
    }

    fn set_payload(&mut self, number: u32, bytes: u32) {
        let at = number as usize;
        if bytes > 0 && at >= self.payload_bytes.len() {
            self.payload_bytes.resize(at + 1, 0);
        }
        if let Some(known) = self.payload_bytes.get_mut(at) {
            *known = bytes;
        }
    }

    fn payload(&self, number: u32) -> u32 {
        self.payload_bytes.get(number as usize).copied().unwrap_or(0)
    }

    fn pending(&self, lpn: Lpn) -> Option<&Pending> {
        self.pending.iter().find(|page| page.lpn == lpn)
    }

    pub(crate) fn pending_fingerprint(&self, lpn: Lpn) -> Option<Fingerprint> {
        self.pending(lpn).map(|page| page.fingerprint)
    }

    pub(crate) fn pending_pages(&self) -> usize {
        self.pending.len()
    }

    /// Pages of all chunks.
    pub(crate) fn chunk_pages(&self) -> impl Iterator<Item = Ppn> + '_ {
        self.chunks.iter().flat_map(|chunk| chunk.pages().iter().copied())
    }

    /// Which of these pages, given with the numbers of their chunks in their spare areas, belong to a chunk.
    pub(crate) fn used_pages(&self, mut pages: Vec<(Ppn, u32)>) -> Vec<Ppn> {
        pages.retain(|&(_, number)| (number as usize) < self.chunks.len());
        read_all(pages.iter().map(|&(_, number)| self.chunks[number as usize].pages[0].0.into()));
        pages.retain(|(ppn, number)| self.chunks[*number as usize].pages().contains(ppn));
        pages.into_iter().map(|(ppn, _)| ppn).collect()
    }

    /// Takes over the chunks whose members are mapped, as found on flash; nothing waits in the buffer.
    pub(crate) fn rebuild(
        &mut self,
        mapped: impl Iterator<Item = Unit>,
        mut found: FoundChunks,
    ) -> Result<()> {
        self.pending.clear();
        self.chunks.clear();
        self.payload_bytes.clear();
        self.retired.clear();
        for unit in mapped {
            let (number, member) = self.place_of(unit);
            if self.chunks.len() <= number as usize {
                self.chunks.resize(number as usize + 1, Chunk::EMPTY);
            }
            if self.chunks[number as usize].is_empty()
                && let Some(found) = found.take(number)
            {
                self.chunks[number as usize] = Chunk::of_found(&found);
                self.set_payload(number, found.directory.compressed_bytes);
            }
            let chunk = &mut self.chunks[number as usize];
            if member >= chunk.len() {
                return Err(Error::Damaged(format!(
                    "the map in NVRAM names member {member} of chunk {number}, which is not there"
                )));
            }
            chunk.live |= 1 << member;
        }
        let numbers = 0..self.chunks.len() as u32;
        let is_vacant = |number: &u32| self.chunks[*number as usize].is_empty();
        self.vacant = numbers.clone().filter(is_vacant).collect();
        self.wasteful = numbers.filter(|&number| self.chunks[number as usize].excess_pages() > 0).collect();
        self.excess_pages = self.chunks.iter().map(Chunk::excess_pages).sum();
        Ok(())
    }

    pub(crate) fn ram_bytes(&self) -> Vec<(&'static str, u64)> {
        let chunks = (self.chunks.len() - self.vacant.len() - self.retired.len()) as u64;
        vec![
            ("chunk directory", CHUNK_BYTES * chunks),
            ("chunk buffer", CHUNK_MEMBERS as u64 * self.page_bytes as u64),
        ]
    }

    pub(crate) fn check(&self) -> std::result::Result<(), String> {
        let excess: u64 = self.chunks.iter().map(Chunk::excess_pages).sum();
        if excess != self.excess_pages {
            return Err(format!("chunks cost {excess} pages too many and {} are counted", self.excess_pages));
        }
        for (number, chunk) in self.chunks.iter().enumerate().filter(|(_, chunk)| !chunk.is_empty()) {
            if chunk.live() == 0 || chunk.pages().is_empty() {
                return Err(format!(
                    "chunk {number} has {} pages for {} members",
                    chunk.pages().len(),
                    chunk.live()
                ));
            }
        }
        let noted: FxHashSet<u32> = self.wasteful.iter().copied().collect();
        let is_wasteful = |number: &u32| self.chunks[*number as usize].excess_pages() > 0;
        if let Some(number) = (0..self.chunks.len() as u32).find(|n| is_wasteful(n) && !noted.contains(n)) {
            return Err(format!("chunk {number} costs pages and is not noted"));
        }
        let twice = self
            .pending
            .iter()
            .enumerate()
            .find(|(k, page)| self.pending[..*k].iter().any(|p| p.lpn == page.lpn));
        twice.map_or(Ok(()), |(_, page)| Err(format!("logical page {} is pending twice", page.lpn)))
    }
}

/// Pages together: how many flash pages, and the compressed bytes where bytes are known.
fn pack(members: &[Pending], page_bytes: u32) -> (usize, Vec<u8>) {
    let mut payload = Vec::new();
    if members.iter().all(|member| member.bytes.len() == page_bytes as usize) {
        let together: Vec<u8> = members.iter().flat_map(|member| member.bytes.iter().copied()).collect();
        payload = lz4_flex::block::compress(&together);
    }
    let bytes = match payload.len() as u32 {
        0 => members.iter().map(|member| member.compressed_bytes).sum(),
        bytes => bytes,
    };
    (bytes.div_ceil(page_bytes).max(1) as usize, payload)
}

impl<N: Nand> Ftl<N> {
    /// Takes a write of `lpn` into the chunk buffer; a full buffer goes to flash.
    pub(crate) fn stage_for_chunk(
        &mut self,
        lpn: Lpn,
        content: &Content<'_>,
        fingerprint: Fingerprint,
    ) -> Result<()> {
        let page_bytes = self.store.geometry().page_bytes;
        let page = Pending {
            lpn,
            fingerprint,
            compressed_bytes: match content {
                Content::Descriptor(_) => content.compressed_bytes().map_or(page_bytes, |bytes| bytes as u32),
                Content::Bytes(_) => page_bytes,
            },
            bytes: match content {
                Content::Bytes(bytes) => bytes.to_vec(),
                Content::Descriptor(_) => Vec::new(),
            },
            is_lost: false,
        };
        let mut stage = self.chunks.as_mut().expect("only the chunk stage takes pages");
        let before = stage.pending.iter().position(|pending| pending.lpn == lpn);
        if before.is_none() && stage.pending.len() == CHUNK_MEMBERS {
            // Power was lost while the full buffer was written.
            self.commit_chunk()?;
            stage = self.chunks.as_mut().expect("asked above");
        }
        let replaced = before.map(|at| stage.pending.remove(at));
        stage.pending.push(page);
        let is_full = stage.pending.len() == CHUNK_MEMBERS;
        self.store.stats.host_page_writes += 1;
        self.store.stats.packed_writes += 1;
        if is_full {
            return self.commit_chunk().inspect_err(|_| self.take_back(lpn, replaced));
        }
        Ok(())
    }

    /// The write of `lpn` is refused: what was acknowledged before is back.
    fn take_back(&mut self, lpn: Lpn, replaced: Option<Pending>) {
        self.store.stats.host_page_writes -= 1;
        self.store.stats.packed_writes -= 1;
        let stage = self.chunks.as_mut().expect("only the chunk stage takes pages");
        stage.pending.retain(|pending| pending.lpn != lpn);
        stage.pending.extend(replaced);
    }

    /// Whether the newest content of `lpn` waits for its chunk.
    #[inline]
    pub(crate) fn is_pending(&self, lpn: Lpn) -> bool {
        self.chunks.as_ref().is_some_and(|stage| stage.pending(lpn).is_some())
    }

    /// The newest content of `lpn` is elsewhere, or nowhere.
    #[inline]
    pub(crate) fn unstage(&mut self, lpn: Lpn) {
        if let Some(stage) = &mut self.chunks {
            stage.pending.retain(|pending| pending.lpn != lpn);
        }
    }

    /// Reads a page that waits for its chunk; `false` if it does not.
    pub(crate) fn read_pending(&self, lpn: Lpn, into: &mut [u8]) -> bool {
        let Some(page) = self.chunks.as_ref().and_then(|stage| stage.pending(lpn)) else { return false };
        if !into.is_empty() && into.len() == page.bytes.len() {
            into.copy_from_slice(&page.bytes);
        }
        true
    }

    /// Writes what waits in the chunk buffer, a full chunk or a short one.
    pub(crate) fn commit_chunk(&mut self) -> Result<()> {
        let Some(stage) = &self.chunks else { return Ok(()) };
        if stage.pending.is_empty() {
            return Ok(());
        }
        self.store.stats.work.compressed_pages += stage.pending.len() as u64;
        let (pages, payload) = pack(&stage.pending, stage.page_bytes);
        if pages >= stage.pending.len() {
            return self.write_pending_raw();
        }
        let pool = self.make_room_for_pages(Stream::Chunk, pages as u32)?;
        let stage = self.chunks.as_mut().expect("asked above");
        let mut members = std::mem::take(&mut stage.pending);
        let stored = self.append_chunk(&members, pages, &payload, pool, Cause::Content);
        let stage = self.chunks.as_mut().expect("asked above");
        let number = match stored {
            Ok(number) => number,
            Err(error) => {
                stage.pending = members;
                return Err(error);
            }
        };
        stage.statistics.chunks += 1;
        stage.statistics.members += members.len() as u64;
        stage.statistics.pages += pages as u64;
        for (k, member) in members.iter().enumerate() {
            let unit = self.chunks.as_ref().expect("asked above").unit(number, k);
            match self.change_map(member.lpn, Some(unit)) {
                Ok(old) => self.release(member.lpn, old),
                Err(error) => {
                    self.leave_chunk(number, members, k);
                    return Err(error);
                }
            }
            self.learn_content(member.fingerprint, unit);
        }
        members.clear();
        self.chunks.as_mut().expect("asked above").pending = members;
        Ok(())
    }

    /// The map did not learn of the members from number `from` on: they wait in the buffer as before.
    #[cold]
    fn leave_chunk(&mut self, number: u32, mut members: Vec<Pending>, from: usize) {
        for k in from..members.len() {
            let unit = self.chunks.as_ref().expect("only the chunk stage has chunks").unit(number, k);
            self.drop_member(unit);
        }
        members.drain(..from);
        self.chunks.as_mut().expect("asked above").pending = members;
    }

    /// A chunk that saves nothing: its members become pages.
    fn write_pending_raw(&mut self) -> Result<()> {
        while let Some(page) = self.chunks.as_ref().and_then(|stage| stage.pending.first()).cloned() {
            let pool = self.make_room_for_write()?;
            let ppn = self.append_raw(&page, Stream::Host, pool, Cause::Host)?;
            match self.change_map(page.lpn, Some(ppn.into())) {
                Ok(old) => self.release(page.lpn, old),
                Err(error) => {
                    self.store.stats.wasted_programs += 1;
                    self.call_invalid(ppn);
                    return Err(error);
                }
            }
            self.learn_content(page.fingerprint, ppn.into());
            self.store.stats.packed_writes -= 1;
            let stage = self.chunks.as_mut().expect("asked above");
            stage.pending.remove(0);
            stage.statistics.incompressible += 1;
        }
        Ok(())
    }

    fn append_raw(&mut self, page: &Pending, stream: Stream, pool: u32, cause: Cause) -> Result<Ppn> {
        let (lpn, fingerprint) = (page.lpn.0, page.fingerprint);
        let ppn = if page.is_lost {
            self.store.append_lost(stream, pool, lpn, &[], fingerprint, cause)?
        } else {
            let content = Content::of_page(&page.bytes, fingerprint);
            self.store.append(stream, pool, lpn, content, fingerprint, cause)?
        };
        self.validity.set(ppn);
        Ok(ppn)
    }

    /// Appends the pages of a chunk; the members are not mapped yet. What was written before an error is garbage.
    fn append_chunk(
        &mut self,
        members: &[Pending],
        pages: usize,
        payload: &[u8],
        pool: u32,
        cause: Cause,
    ) -> Result<u32> {
        let member = |page: &Pending| Member {
            fingerprint: page.fingerprint,
            lpn: page.lpn,
            compressed_bytes: u16::try_from(page.compressed_bytes).unwrap_or(WHOLE_PAGE),
        };
        let live = (1 << members.len()) - 1;
        let chunk = Chunk { live, ..Chunk::of(members.iter().map(member)) };
        // The number of a chunk may be given again: nothing in NVRAM may name the old one.
        self.mapping.store_moves(&mut self.store)?;
        let birth = self.store.sequence() + 1;
        let stage = self.chunks.as_mut().expect("only the chunk stage packs");
        let page_bytes = stage.page_bytes as usize;
        let payload_bytes = payload.len() as u32;
        let has_bytes = payload_bytes > 0;
        let has_room = self.store.geometry().spare_bytes as usize >= DIRECTORY_BYTES;
        let mut directory = (has_bytes && has_room).then(|| Directory {
            birth,
            page: 0,
            pages: pages as u8,
            compressed_bytes: payload_bytes,
            members: members.iter().map(|member| (member.lpn, member.fingerprint)).collect(),
        });
        let number = stage.allocate(chunk, payload_bytes);
        for k in 0..pages {
            let mut page = payload.get(k * page_bytes..).unwrap_or_default().to_vec();
            if has_bytes {
                page.resize(page_bytes, 0);
            }
            if let Some(directory) = &mut directory {
                directory.page = k as u8;
                page.extend(directory.encode());
            }
            let content = Content::of_page(&page, Fingerprint::default());
            match self.store.append(Stream::Chunk, pool, number, content, Fingerprint::default(), cause) {
                Ok(ppn) => self.chunks.as_mut().expect("asked above").chunks[number as usize].pages[k] = ppn,
                Err(error) => {
                    self.free_chunk(number);
                    return Err(error);
                }
            }
        }
        Ok(number)
    }

    /// The pages of a chunk are not needed any more.
    fn free_chunk(&mut self, number: u32) {
        let Self { chunks, store, .. } = self;
        let stage = chunks.as_mut().expect("only the chunk stage frees chunks");
        let chunk = std::mem::replace(&mut stage.chunks[number as usize], Chunk::EMPTY);
        if stage.keeps_numbers {
            stage.retired.push(number);
        } else {
            stage.vacant.push(number);
        }
        chunk.pages().iter().for_each(|&ppn| store.discard(ppn));
    }

    /// Nobody refers to a member any more; the chunk goes with its last one.
    pub(crate) fn drop_member(&mut self, unit: Unit) {
        let stage = self.chunks.as_mut().expect("only the chunk stage has members");
        let (number, member) = stage.place_of(unit);
        let chunk = &mut stage.chunks[number as usize];
        let excess = chunk.excess_pages();
        assert!(chunk.is_live(member), "member {unit} of a chunk dies twice");
        chunk.live &= !(1 << member);
        if chunk.live() == 0 {
            stage.excess_pages -= excess;
            return self.free_chunk(number);
        }
        let now = chunk.excess_pages();
        stage.excess_pages += now - excess;
        if now > 0 && excess == 0 {
            stage.note_wasteful(number);
        }
    }

    /// Reads a member: all pages of its chunk, and their decompression.
    pub(crate) fn read_member(&mut self, unit: Unit, into: &mut [u8], cause: Cause) -> Result<()> {
        let (number, member) = self.chunks.as_ref().expect("only the chunk stage has members").place_of(unit);
        let whole = self.read_chunk(number, !into.is_empty(), cause)?;
        if let Some(bytes) = whole.get(member * into.len()..(member + 1) * into.len()) {
            into.copy_from_slice(bytes);
        }
        Ok(())
    }

    /// The decompressed members of a chunk, one after the other; empty where the medium keeps no bytes.
    fn read_chunk(&mut self, number: u32, wants_bytes: bool, cause: Cause) -> Result<Vec<u8>> {
        let stage = self.chunks.as_ref().expect("only the chunk stage has chunks");
        let chunk = stage.chunks[number as usize].clone();
        let payload_bytes = stage.payload(number) as usize;
        let page_bytes = stage.page_bytes as usize;
        let wants_bytes = wants_bytes && payload_bytes > 0 && self.store.nand().keeps_bytes();
        let mut compressed = vec![0; if wants_bytes { chunk.pages().len() * page_bytes } else { 0 }];
        for (k, &ppn) in chunk.pages().iter().enumerate() {
            let into =
                if wants_bytes { &mut compressed[k * page_bytes..(k + 1) * page_bytes] } else { &mut [] };
            self.store.read(ppn, into, cause)?;
        }
        self.store.stats.work.decompressed_pages += chunk.len() as u64;
        if !wants_bytes {
            return Ok(Vec::new());
        }
        let damaged = |error: &dyn std::fmt::Display| Error::Damaged(format!("chunk {number}: {error}"));
        let compressed = compressed.get(..payload_bytes).ok_or_else(|| damaged(&"too short"))?;
        lz4_flex::block::decompress(compressed, chunk.len() * page_bytes).map_err(|error| damaged(&error))
    }

    /// Takes chunks apart that cost more pages than they have members, while they cost too many.
    #[inline]
    pub(crate) fn unpack_wasteful(&mut self) -> Result<()> {
        if self.chunks.as_ref().is_some_and(|stage| stage.costs_too_much()) { self.unpack() } else { Ok(()) }
    }

    #[cold]
    fn unpack(&mut self) -> Result<()> {
        while self.chunks.as_ref().is_some_and(|stage| stage.costs_too_much()) {
            // First the room, for as many members as such a chunk can have: making it may pack chunks anew.
            let pool = self.make_room_for_pages(Stream::Host, CHUNK_MEMBERS as u32 - 2)?;
            let Some(number) = self.chunks.as_mut().and_then(next_to_unpack) else { return Ok(()) };
            for (unit, page) in self.load_members(number, Cause::Content)? {
                let ppn = self.append_raw(&page, Stream::Host, pool, Cause::Content)?;
                self.move_unit(unit, ppn.into())?;
            }
            self.chunks.as_mut().expect("asked above").statistics.unpacked += 1;
        }
        // The pages of the chunk are dead now: what becomes of them must not matter to a recovery.
        self.mapping.store_moves(&mut self.store)
    }

    /// The live members of a chunk with their content. They are compressed together, so all of them are lost with one page.
    fn load_members(&mut self, number: u32, cause: Cause) -> Result<Vec<(Unit, Pending)>> {
        let (whole, is_lost) = match self.read_chunk(number, true, cause) {
            Err(error) if error.is_media_error() => (Vec::new(), true),
            read => (read?, false),
        };
        let stage = self.chunks.as_ref().expect("only the chunk stage has chunks");
        let page_bytes = stage.page_bytes as usize;
        let load = |(k, member): (usize, Member)| {
            let bytes = whole.get(k * page_bytes..(k + 1) * page_bytes).unwrap_or_default().to_vec();
            let Member { lpn, fingerprint, compressed_bytes } = member;
            let is_whole = compressed_bytes == WHOLE_PAGE;
            let compressed_bytes = if is_whole { page_bytes as u32 } else { compressed_bytes.into() };
            (stage.unit(number, k), Pending { lpn, fingerprint, compressed_bytes, bytes, is_lost })
        };
        Ok(stage.chunks[number as usize].live_members().map(load).collect())
    }

    /// Every referrer of `from` refers to `to`, which holds the same content, and `from` dies.
    fn move_unit(&mut self, from: Unit, to: Unit) -> Result<()> {
        let writer = self.chunks.as_ref().expect("only members move one by one").writer(from);
        let fingerprint = self.fingerprint_of_unit(from);
        let Self { sharing, mapping, store, .. } = self;
        let mut writer_refers = true;
        if let Some(sharing) = sharing {
            let AnyReverseMap::Ideal(ideal) = &sharing.reverse else {
                unreachable!("members are bound in RAM only")
            };
            let binders = ideal.entries_at(Ppn(from.0));
            writer_refers = binders.len() as u32 <= sharing.refs.extra(from);
            for entry in binders {
                sharing.unbind(store, entry.lpn, from);
                mapping.relocate(entry.lpn, to);
                sharing.mark_bound(entry.lpn);
                let entry = Entry { place: Some(Ppn(to.0)), sequence: store.next_sequence(), ..entry };
                sharing.record(mapping, store, entry)?;
            }
            sharing.refs.relocate(from, to);
            if let Some(index) = &mut sharing.index {
                index.relocate(fingerprint, from, to);
            }
        }
        if writer_refers {
            mapping.relocate(writer, to);
        }
        self.drop_member(from);
        Ok(())
    }

    /// Empties a block of chunk pages. Chunks with all members live are copied as they are; the live members of others
    /// are packed anew where that cannot take more pages than it frees here.
    pub(crate) fn move_chunks(&mut self, victim: BlockId, pool: u32, cause: Cause) -> Result<()> {
        let pages = self.packed_pages(victim);
        let numbers = self.chunks_to_repack(&pages, pool);
        self.warm_members(&numbers);
        for number in numbers {
            self.repack(number, pool, cause)?;
        }
        let mut batch = Batch { from: self.packed_pages(victim), ..Batch::default() };
        batch.owners.extend(batch.from.iter().map(|&ppn| self.store.owner(ppn)));
        let moves = Moves { from: &batch.from, owners: &batch.owners };
        let outcome = self.store.copy(moves, Stream::Chunk, pool, cause, &mut batch.to);
        for ((&from, &number), &to) in batch.from.iter().zip(&batch.owners).zip(&batch.to) {
            let stage = self.chunks.as_mut().expect("only the chunk stage has such pages");
            let page = stage.chunks[number.index()].pages.iter_mut().find(|page| **page == from);
            *page.expect("a packed page belongs to its chunk") = to;
        }
        self.store.discard_many(victim, batch.to.len() as u32);
        outcome
    }

    /// Members may become plain pages, whose open block must have room for them: the reserve is for one stream only.
    fn chunks_to_repack(&self, pages: &[Ppn], pool: u32) -> Vec<u32> {
        let stage = self.chunks.as_ref().expect("only the chunk stage has such pages");
        let mut numbers: Vec<u32> = pages.iter().map(|&ppn| self.store.owner(ppn).0).collect();
        numbers.sort_unstable();
        read_all(numbers.iter().map(|&number| stage.chunks[number as usize].live.into()));
        let mut room_pages = self.store.frontier_left(Stream::Gc, pool) as usize;
        let mut chosen = Vec::new();
        for same in numbers.chunk_by(|a, b| a == b) {
            let chunk = &stage.chunks[same[0] as usize];
            let live = chunk.live();
            if live < chunk.len() && live <= same.len().min(room_pages) {
                room_pages -= live;
                chosen.push(same[0]);
            }
        }
        chosen
    }

    /// Reads what moving the live members of these chunks will need; see [`crate::warm`].
    fn warm_members(&self, numbers: &[u32]) {
        let stage = self.chunks.as_ref().expect("only the chunk stage has members");
        let members_of = |&number: &u32| {
            let members = stage.chunks[number as usize].live_members();
            members.map(move |(k, member)| (stage.unit(number, k), member))
        };
        let members: Vec<(Unit, Member)> = numbers.iter().flat_map(members_of).collect();
        let writers: Vec<Lpn> = members.iter().map(|(_, member)| member.lpn).collect();
        self.mapping.warm(&writers);
        if let Some(sharing) = &self.sharing {
            let (units, contents): (Vec<Unit>, Vec<Fingerprint>) =
                members.iter().map(|(unit, member)| (*unit, member.fingerprint)).unzip();
            sharing.warm(&writers, &units, &contents);
        }
    }

    /// Stores the live members of a chunk again: together if that saves a page, else as pages.
    fn repack(&mut self, number: u32, pool: u32, cause: Cause) -> Result<()> {
        let members = self.load_members(number, cause)?;
        let (units, pending): (Vec<Unit>, Vec<Pending>) = members.into_iter().unzip();
        let (pages, payload) = pack(&pending, self.store.geometry().page_bytes);
        if pages < pending.len() && !pending.iter().any(|page| page.is_lost) {
            let new = self.append_chunk(&pending, pages, &payload, pool, cause)?;
            for (k, &unit) in units.iter().enumerate() {
                let to = self.chunks.as_ref().expect("asked above").unit(new, k);
                self.move_unit(unit, to)?;
            }
        } else {
            for (page, &unit) in pending.iter().zip(&units) {
                let ppn = self.append_raw(page, Stream::Gc, pool, cause)?;
                self.move_unit(unit, ppn.into())?;
            }
        }
        self.chunks.as_mut().expect("asked above").statistics.repacked += 1;
        Ok(())
    }
}

/// The chunk that became wasteful last of those that are; it stays noted until it costs nothing any more.
fn next_to_unpack(stage: &mut Box<ChunkStage>) -> Option<u32> {
    while stage.costs_too_much() {
        let number = *stage.wasteful.last()?;
        if stage.chunks[number as usize].excess_pages() > 0 {
            return Some(number);
        }
        stage.wasteful.pop();
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::content::Descriptor;
    use crate::design::integrated;
    use crate::gc::GcOptions;
    use crate::nand::{Geometry, Retain, SimNand};

    /// Nearly every chunk costs a page for a while, when one of its members is left. Those that are gone are not noted for
    /// ever: a long run would fill the memory.
    #[test]
    fn what_was_wasteful_once_is_forgotten() {
        let geometry = Geometry {
            channels: 1,
            dies_per_channel: 1,
            planes_per_die: 1,
            blocks_per_plane: 40,
            pages_per_block: 16,
            page_bytes: 4096,
            spare_bytes: 64,
            superblock_planes: 1,
        };
        let nand = SimNand::new(geometry, Retain { fingerprint: true, ..Retain::default() });
        let parts = integrated(GcOptions::default(), None, true);
        let mut ftl = Ftl::new(nand, 480, &parts).expect("it fits");
        for k in 0..200_000_u64 {
            let lpn = Lpn((crate::content::mix(k) % 480) as u32);
            let descriptor = Descriptor { compressed_bytes: 2000, ..Descriptor::of(Fingerprint(k + 1)) };
            ftl.write(lpn, Content::Descriptor(descriptor)).expect("there is room");
        }
        let stage = ftl.chunks.as_ref().expect("the design compresses");
        assert!(stage.statistics.chunks > 40_000, "{:?}", stage.statistics);
        assert!(stage.wasteful.len() < 1000, "{} chunks are noted", stage.wasteful.len());
        assert_eq!(stage.check(), Ok(()));
    }
}
