//! A chunk, its members, and the pages that wait to become one.

use super::CHUNK_MEMBERS;
use crate::address::{Address, Lpn, Ppn};
use crate::content::compress::directory::FoundChunk;
use crate::data::Fingerprint;

/// A host page on its way into a chunk.
#[derive(Clone, Debug)]
pub(super) struct Pending {
    pub(super) lpn: Lpn,
    pub(super) fingerprint: Fingerprint,
    pub(super) compressed_bytes: u32,
    /// Empty where only descriptors are known.
    pub(super) bytes: Vec<u8>,
    /// A member of a chunk that cannot be read: it becomes a page that is lost.
    pub(super) is_lost: bool,
}

/// A live or dead member of a stored chunk.
#[derive(Clone, Copy, Debug)]
pub(super) struct Member {
    pub(super) fingerprint: Fingerprint,
    pub(super) lpn: Lpn,
    /// [`WHOLE_PAGE`] for as much as a page.
    pub(super) compressed_bytes: u16,
}

/// Compressed size of a member that takes a page, or more than this.
pub(super) const WHOLE_PAGE: u16 = u16::MAX;

/// Wasteful chunks that are noted before the list is looked through.
pub(super) const LEAST_NOTED: u64 = 64;

/// What is known of a stored chunk, in one piece and small: every fourth write makes one and frees one, at random.
#[derive(Clone, Debug)]
pub(super) struct Chunk {
    pub(super) fingerprints: [Fingerprint; CHUNK_MEMBERS],
    /// None behind the last member.
    pub(super) writers: [Lpn; CHUNK_MEMBERS],
    /// None behind the last one.
    pub(super) pages: [Ppn; CHUNK_MEMBERS - 1],
    pub(super) compressed_bytes: [u16; CHUNK_MEMBERS],
    /// Bit `k`: member `k` is live.
    pub(super) live: u8,
}

const _: () = assert!(size_of::<Chunk>() == 72);

impl Chunk {
    pub(super) const EMPTY: Self = Self {
        fingerprints: [Fingerprint(0); CHUNK_MEMBERS],
        writers: [Lpn::NONE; CHUNK_MEMBERS],
        pages: [Ppn::NONE; CHUNK_MEMBERS - 1],
        compressed_bytes: [0; CHUNK_MEMBERS],
        live: 0,
    };

    /// A chunk without pages, of which no member is live.
    pub(super) fn of(members: impl Iterator<Item = Member>) -> Self {
        let mut chunk = Self::EMPTY;
        for (k, Member { fingerprint, lpn, compressed_bytes }) in members.enumerate() {
            chunk.fingerprints[k] = fingerprint;
            chunk.writers[k] = lpn;
            chunk.compressed_bytes[k] = compressed_bytes;
        }
        chunk
    }

    /// Members, live or dead.
    pub(super) fn len(&self) -> usize {
        self.writers.iter().take_while(|lpn| **lpn != Lpn::NONE).count()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.writers[0] == Lpn::NONE
    }

    pub(super) fn member(&self, k: usize) -> Member {
        Member {
            fingerprint: self.fingerprints[k],
            lpn: self.writers[k],
            compressed_bytes: self.compressed_bytes[k],
        }
    }

    /// Its pages, in order.
    pub(super) fn pages(&self) -> &[Ppn] {
        let count = self.pages.iter().take_while(|ppn| **ppn != Ppn::NONE).count();
        &self.pages[..count]
    }

    pub(super) fn live(&self) -> usize {
        self.live.count_ones() as usize
    }

    pub(super) fn is_live(&self, member: usize) -> bool {
        self.live >> member & 1 == 1
    }

    /// Live members with their numbers.
    pub(super) fn live_members(&self) -> impl Iterator<Item = (usize, Member)> {
        (0..CHUNK_MEMBERS).filter(|&k| self.is_live(k)).map(|k| (k, self.member(k)))
    }

    /// A chunk of which no member is known to be live yet.
    pub(super) fn of_found(found: &FoundChunk) -> Self {
        let dead =
            |&(lpn, fingerprint): &(Lpn, Fingerprint)| Member { fingerprint, lpn, compressed_bytes: 0 };
        let mut chunk = Self::of(found.directory.members.iter().map(dead));
        chunk.pages.iter_mut().zip(found.pages()).for_each(|(page, ppn)| *page = ppn);
        chunk
    }

    /// Pages beyond what the live members would take by themselves.
    pub(super) fn excess_pages(&self) -> u64 {
        self.pages().len().saturating_sub(self.live()) as u64
    }
}

/// Pages together: how many flash pages, and the compressed bytes where bytes are known.
pub(super) fn pack(members: &[Pending], page_bytes: u32) -> (usize, Vec<u8>) {
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
