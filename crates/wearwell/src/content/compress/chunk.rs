//! A compressed chunk, its members (logical pages), and the buffered pages that will become a chunk.

use super::MAX_CHUNK_MEMBERS;
use crate::address::{Lpn, OptionalAddress, Ppn};
use crate::data::Fingerprint;

/// A host page in the RAM buffer, waiting to be compressed with others into the next chunk.
#[derive(Clone, Debug)]
pub(super) struct PageToCompress {
    pub(super) lpn: Lpn,
    pub(super) fingerprint: Fingerprint,
    /// Compressed size of the page, bytes; the page size if the size is unknown or `page_content` holds the bytes.
    pub(super) compressed_bytes: u32,
    /// Content of the page; empty on a medium that keeps only fingerprints and sizes of page contents.
    pub(super) page_content: Vec<u8>,
    /// Whether the page was a member of a compressed chunk that cannot be read. It is then stored as a page that is
    /// marked as lost.
    pub(super) is_content_lost: bool,
}

/// A member of a stored chunk, live or dead: the content of one logical page that was compressed into the chunk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct ChunkMember {
    pub(super) fingerprint: Fingerprint,
    pub(super) lpn: Lpn,
    /// Compressed size of this member of the chunk, bytes. [`WHOLE_PAGE_SIZE_MARK`] if the member takes a whole page.
    pub(super) compressed_bytes: u16,
}

/// Compressed size of a chunk member that means "a whole page"; also stands for a size that does not fit in 16 bits.
pub(super) const WHOLE_PAGE_SIZE_MARK: u16 = u16::MAX;

/// Length up to which the list of wasteful compressed chunks (those with more flash pages than live members) is never
/// pruned.
pub(super) const WASTEFUL_CHUNKS_PRUNING_MIN_LEN: u64 = 64;

/// A stored chunk: up to four logical pages compressed together (its members), and the flash pages that hold them. Kept
/// small, because every fourth host write creates one and frees another, at random places in memory. Fingerprints are
/// therefore not aligned to their size.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C, packed(4))]
pub(super) struct Chunk {
    /// Content fingerprint of each member (logical page) of the compressed chunk.
    fingerprints: [Fingerprint; MAX_CHUNK_MEMBERS],
    /// Logical page whose write became each member of the compressed chunk; [`Lpn::NONE`] after the last member.
    /// [`DEAD_MEMBER_MARK`] is set in it if no logical page is mapped to the member any more.
    writer_lpns: [Lpn; MAX_CHUNK_MEMBERS],
    /// Flash pages that hold the compressed chunk, in order; [`Ppn::NONE`] after the last one.
    pub(super) pages: [Ppn; MAX_CHUNK_MEMBERS - 1],
    /// Compressed size of each member of the chunk, bytes; [`WHOLE_PAGE_SIZE_MARK`] if the member takes a whole page.
    member_compressed_bytes: [u16; MAX_CHUNK_MEMBERS],
}

const _: () = assert!(size_of::<Chunk>() == 68);

/// Bit that is set in the LPN of a chunk member's writer if no logical page is mapped to the member. No LPN uses this
/// bit: a device with chunks has less than 2^30 flash pages, because each flash page takes five unit numbers, one for
/// itself and four for chunk members.
const DEAD_MEMBER_MARK: u32 = 1 << 31;
const _: () = assert!(u32::MAX / (1 + MAX_CHUNK_MEMBERS as u32) < DEAD_MEMBER_MARK);

impl Chunk {
    /// An empty chunk: the value at every chunk number that is not in use.
    pub(super) const EMPTY: Self = Self {
        fingerprints: [Fingerprint(0); MAX_CHUNK_MEMBERS],
        writer_lpns: [Lpn::NONE; MAX_CHUNK_MEMBERS],
        pages: [Ppn::NONE; MAX_CHUNK_MEMBERS - 1],
        member_compressed_bytes: [0; MAX_CHUNK_MEMBERS],
    };

    /// Creates a chunk with these members (compressed logical pages). None of them is live yet, and no flash page is
    /// assigned.
    pub(super) fn of_members(members: impl Iterator<Item = ChunkMember>) -> Self {
        let mut chunk = Self::EMPTY;
        for (k, ChunkMember { fingerprint, lpn, compressed_bytes }) in members.enumerate() {
            chunk.fingerprints[k] = fingerprint;
            chunk.writer_lpns[k] = Lpn(lpn.0 | DEAD_MEMBER_MARK);
            chunk.member_compressed_bytes[k] = compressed_bytes;
        }
        chunk
    }

    /// Returns the number of members (logical pages) compressed into the chunk, live or dead.
    pub(super) fn member_count(&self) -> usize {
        let writers = self.writer_lpns;
        writers.iter().take_while(|lpn| **lpn != Lpn::NONE).count()
    }

    /// Returns whether the chunk has no members: its chunk number is free.
    pub(super) fn is_empty(&self) -> bool {
        self.writer_lpns[0] == Lpn::NONE
    }

    /// Returns the content fingerprint of the chunk member with index `member`.
    pub(super) fn fingerprint(&self, member: usize) -> Fingerprint {
        self.fingerprints[member]
    }

    /// Returns the logical page whose write became the member of the compressed chunk.
    pub(super) fn writer_lpn(&self, member: usize) -> Lpn {
        Lpn(self.writer_lpns[member].0 & !DEAD_MEMBER_MARK)
    }

    /// Returns the chunk member with index `k`: its logical page, fingerprint and compressed size.
    pub(super) fn member(&self, k: usize) -> ChunkMember {
        ChunkMember {
            fingerprint: self.fingerprints[k],
            lpn: self.writer_lpn(k),
            compressed_bytes: self.member_compressed_bytes[k],
        }
    }

    /// Returns the flash pages that hold the compressed chunk, in order.
    pub(super) fn pages(&self) -> &[Ppn] {
        let count = self.pages.iter().take_while(|ppn| **ppn != Ppn::NONE).count();
        &self.pages[..count]
    }

    /// Returns the live members of the compressed chunk as a bit mask: bit `k` is set if a logical page is mapped to
    /// member `k`.
    pub(super) fn live_mask(&self) -> u8 {
        (0..MAX_CHUNK_MEMBERS).fold(0, |mask, k| mask | u8::from(self.is_member_live(k)) << k)
    }

    /// Returns the number of chunk members to which logical pages are mapped.
    pub(super) fn live_member_count(&self) -> usize {
        self.live_mask().count_ones() as usize
    }

    /// Returns whether a logical page is mapped to the chunk member with index `member`.
    pub(super) fn is_member_live(&self, member: usize) -> bool {
        self.writer_lpns[member].0 & DEAD_MEMBER_MARK == 0
    }

    /// Sets whether a logical page is mapped to `member`, an existing member of the chunk.
    pub(super) fn set_member_live(&mut self, member: usize, is_live: bool) {
        let mark = if is_live { 0 } else { DEAD_MEMBER_MARK };
        self.writer_lpns[member] = Lpn(self.writer_lpn(member).0 | mark);
    }

    /// Makes all members of the chunk live.
    pub(super) fn with_all_members_live(mut self) -> Self {
        (0..self.member_count()).for_each(|k| self.set_member_live(k, true));
        self
    }

    /// Returns the live members of the compressed chunk (those to which logical pages are mapped), each with its index
    /// in the chunk.
    pub(super) fn live_members(&self) -> impl Iterator<Item = (usize, ChunkMember)> {
        (0..MAX_CHUNK_MEMBERS).filter(|&k| self.is_member_live(k)).map(|k| (k, self.member(k)))
    }

    /// Returns the excess pages of the chunk: its flash pages minus its live members (members to which a logical page
    /// is mapped), at least 0.
    pub(super) fn excess_chunk_pages(&self) -> u64 {
        self.pages().len().saturating_sub(self.live_member_count()) as u64
    }
}

/// Compresses host pages together into a chunk. Returns the number of flash pages that the chunk needs, and the
/// compressed bytes. The compressed bytes are empty if the bytes of a page are not known.
pub(super) fn compress_chunk(members: &[PageToCompress], page_bytes: u32) -> (usize, Vec<u8>) {
    let mut payload = Vec::new();
    if members.iter().all(|member| member.page_content.len() == page_bytes as usize) {
        let together: Vec<u8> =
            members.iter().flat_map(|member| member.page_content.iter().copied()).collect();
        payload = lz4_flex::block::compress(&together);
    }
    let bytes = match payload.len() as u32 {
        0 => members.iter().map(|member| member.compressed_bytes).sum(),
        bytes => bytes,
    };
    (bytes.div_ceil(page_bytes).max(1) as usize, payload)
}
