//! The directory of a compressed chunk in the spare areas of its pages, from which recovery finds the members if RAM is
//! lost.
//!
//! Every page of a chunk has the whole directory, 64 bytes, little-endian: birth (8 bytes; the sequence number of the
//! chunk's first page, which distinguishes two chunks with one number), compressed bytes (4), number of this page (1),
//! pages (1), members (1), zero (1), four logical pages (4 each), four fingerprints (8 each).
//!
//! A chunk of which a simulation knows only sizes has no compressed bytes (0 in the directory). Its pages begin with
//! the compressed sizes of its members (2 bytes each) instead: they are what is known of its content, and packing the
//! members again needs them.

use hashbrown::HashMap;
use rustc_hash::FxBuildHasher;

use super::MAX_CHUNK_MEMBERS;
use super::chunk::{Chunk, ChunkMember};
use crate::address::{Lpn, OptionalAddress, Ppn};
use crate::data::Fingerprint;

/// Bytes of the directory of a compressed chunk in the spare area of each of its pages.
pub(crate) const CHUNK_DIRECTORY_BYTES: usize = 64;
/// Bytes per chunk member of the list of compressed sizes. If only the sizes of the members are known, the pages of the
/// chunk begin with this list, in place of compressed bytes.
const MEMBER_SIZE_FIELD_BYTES: usize = 2;

/// The directory of a compressed chunk, as stored in the spare area of one of its pages: the members of the chunk, and
/// which of its pages this is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct ChunkDirectory {
    /// Sequence number of the first page of the chunk, which distinguishes chunks that have had the same number.
    pub(crate) creation_sequence_number: u64,
    /// Position of this page among the flash pages of the chunk, from 0.
    pub(crate) page_index: u8,
    /// Number of flash pages of the chunk.
    pub(crate) page_count: u8,
    /// Size of the compressed bytes of the whole chunk; 0 if only sizes of its members are known.
    pub(crate) compressed_bytes: u32,
    /// Members of the compressed chunk. If the chunk has compressed bytes, the sizes of single members are not known
    /// and are 0.
    pub(super) members: Vec<ChunkMember>,
}

impl ChunkDirectory {
    /// Encodes the data of one page of the compressed chunk, `page_bytes` bytes, without the spare area. `payload` is
    /// the compressed bytes of the whole chunk. If it is empty, the page holds the sizes of the members instead.
    pub(super) fn encode_page(&self, payload: &[u8], page_bytes: usize) -> Vec<u8> {
        let mut page = Vec::with_capacity(page_bytes + CHUNK_DIRECTORY_BYTES);
        if payload.is_empty() {
            page.extend(self.members.iter().flat_map(|member| member.compressed_bytes.to_le_bytes()));
        } else {
            let rest = payload.get(self.page_index as usize * page_bytes..).unwrap_or_default();
            page.extend_from_slice(&rest[..rest.len().min(page_bytes)]);
        }
        page.resize(page_bytes, 0);
        page
    }

    /// Encodes the directory for the spare area of a page of the compressed chunk.
    pub(super) fn encode_spare_area(&self) -> [u8; CHUNK_DIRECTORY_BYTES] {
        let mut bytes = [0; CHUNK_DIRECTORY_BYTES];
        bytes[..8].copy_from_slice(&self.creation_sequence_number.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.compressed_bytes.to_le_bytes());
        bytes[12..15].copy_from_slice(&[self.page_index, self.page_count, self.members.len() as u8]);
        for (k, ChunkMember { lpn, fingerprint, .. }) in self.members.iter().enumerate() {
            bytes[16 + 4 * k..20 + 4 * k].copy_from_slice(&lpn.0.to_le_bytes());
            bytes[32 + 8 * k..40 + 8 * k].copy_from_slice(&fingerprint.0.to_le_bytes());
        }
        bytes
    }

    /// Decodes the directory of a compressed chunk from a flash page with its spare area. `None` if the spare area
    /// holds no such directory.
    pub(crate) fn decode(whole_page: &[u8]) -> Option<Self> {
        let (data, bytes) =
            whole_page.split_at_checked(whole_page.len().checked_sub(CHUNK_DIRECTORY_BYTES)?)?;
        let u32_at = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
        let u64_at = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
        let size_of =
            |member: usize| match (u32_at(8), data.as_chunks::<MEMBER_SIZE_FIELD_BYTES>().0.get(member)) {
                (0, Some(&size)) => u16::from_le_bytes(size),
                _ => 0,
            };
        let (page, pages, members) = (bytes[12], bytes[13], bytes[14] as usize);
        let is_possible = u64_at(0) > 0
            && page < pages
            && (pages as usize) < members
            && members <= MAX_CHUNK_MEMBERS
            && bytes[15] == 0;
        is_possible.then(|| Self {
            creation_sequence_number: u64_at(0),
            page_index: page,
            page_count: pages,
            compressed_bytes: u32_at(8),
            members: (0..members)
                .map(|k| ChunkMember {
                    lpn: Lpn(u32_at(16 + 4 * k)),
                    fingerprint: Fingerprint(u64_at(32 + 8 * k)),
                    compressed_bytes: size_of(k),
                })
                .collect(),
        })
    }
}

/// Compressed chunks that recovery has found so far. Their pages may be added in any order.
#[derive(Debug, Default)]
pub(crate) struct RecoveredChunks {
    /// Compressed chunks with a readable directory, by chunk number. Several chunks may have had the same number in
    /// turn.
    chunks_by_number: HashMap<u32, Vec<RecoveredChunk>, FxBuildHasher>,
    /// For each chunk number, the largest sequence number of its flash pages whose directory cannot be read.
    newest_unreadable_page_sequence: HashMap<u32, u64, FxBuildHasher>,
}

/// What recovery has found of one compressed chunk: its directory and the newest copy of each of its pages.
#[derive(Clone, Debug)]
pub(crate) struct RecoveredChunk {
    /// Directory of the compressed chunk: its members and their logical pages.
    pub(crate) directory: ChunkDirectory,
    /// For each page of the compressed chunk, the newest copy that recovery found: its sequence number and flash page
    /// ([`Ppn::NONE`] if no copy was found).
    newest_page_copies: Vec<(u64, Ppn)>,
}

impl RecoveredChunk {
    /// Returns the flash pages of the compressed chunk in order; [`Ppn::NONE`] for a page that recovery did not find.
    pub(crate) fn pages(&self) -> impl Iterator<Item = Ppn> + '_ {
        self.newest_page_copies.iter().map(|&(_, ppn)| ppn)
    }

    /// Returns the entry of the chunk for the table of chunks. None of its members is live (mapped) yet.
    pub(super) fn to_chunk(&self) -> Chunk {
        let mut chunk = Chunk::of_members(self.directory.members.iter().copied());
        chunk.pages.iter_mut().zip(self.pages()).for_each(|(page, ppn)| *page = ppn);
        chunk
    }

    /// Returns whether recovery found every flash page of the compressed chunk.
    fn has_all_pages(&self) -> bool {
        self.pages().all(|ppn| ppn.to_option().is_some())
    }
}

impl RecoveredChunks {
    /// Adds the flash page `ppn` of the compressed chunk `number`, which recovery found. `sequence` is the sequence
    /// number of its program, `directory` what its spare area holds.
    pub(crate) fn add_page(&mut self, number: u32, sequence: u64, ppn: Ppn, directory: &ChunkDirectory) {
        let of_number = self.chunks_by_number.entry(number).or_default();
        let at = of_number
            .iter()
            .position(|found| found.directory.creation_sequence_number == directory.creation_sequence_number)
            .unwrap_or_else(|| {
                let pages = vec![(0, Ppn::NONE); directory.page_count as usize];
                of_number.push(RecoveredChunk { directory: directory.clone(), newest_page_copies: pages });
                of_number.len() - 1
            });
        if let Some(page) = of_number[at].newest_page_copies.get_mut(directory.page_index as usize) {
            *page = (*page).max((sequence, ppn));
        }
    }

    /// Adds a flash page of the compressed chunk `number` whose directory cannot be read. `sequence` is the sequence
    /// number of its program.
    pub(crate) fn add_unreadable_page(&mut self, number: u32, sequence: u64) {
        let youngest = self.newest_unreadable_page_sequence.entry(number).or_default();
        *youngest = sequence.max(*youngest);
    }

    /// Returns the logical pages that wrote the members of the current compressed chunk with this number: the newest
    /// chunk of which recovery found all pages. Returns `None` if there is no such chunk.
    pub(crate) fn writer_lpns(&self, number: u32) -> Option<Vec<Lpn>> {
        let newest = self.newest_complete_chunk(number)?;
        Some(newest.directory.members.iter().map(|member| member.lpn).collect())
    }

    /// Removes and returns the current compressed chunk with this number: the newest one of which recovery found all
    /// pages.
    pub(crate) fn take_newest_complete_chunk(&mut self, number: u32) -> Option<RecoveredChunk> {
        let newest = self.newest_complete_chunk(number).cloned();
        self.chunks_by_number.remove(&number);
        newest
    }

    /// Returns the current compressed chunk with this number: the newest one of which recovery found all pages. Returns
    /// `None` if there is none, or if an unreadable page may belong to a newer chunk of this number. Older chunks of
    /// the number then must not be used, because they hold other logical pages. A chunk number is used again only when
    /// no logical page is mapped to the old chunk, so a newer chunk that lacks pages never had a mapped logical page.
    fn newest_complete_chunk(&self, number: u32) -> Option<&RecoveredChunk> {
        let youngest = self
            .chunks_by_number
            .get(&number)?
            .iter()
            .filter(|found| found.has_all_pages())
            .max_by_key(|found| found.directory.creation_sequence_number)?;
        let may_be_outdated = self
            .newest_unreadable_page_sequence
            .get(&number)
            .is_some_and(|&sequence| sequence > youngest.directory.creation_sequence_number);
        (!may_be_outdated).then_some(youngest)
    }
}
