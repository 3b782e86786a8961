//! What the spare areas of a chunk's pages tell of it: enough to find members again when nothing is left of RAM.
//!
//! Every page of a chunk carries the whole directory, 64 bytes, little-endian: birth (8; the sequence number of the chunk's
//! first page, which tells two chunks of one number apart), compressed bytes (4), number of this page (1), pages (1),
//! members (1), zero (1), four logical pages (4 each), four fingerprints (8 each).

use hashbrown::HashMap;
use rustc_hash::FxBuildHasher;

use super::CHUNK_MEMBERS;
use crate::address::{Address, Lpn, Ppn};
use crate::data::Fingerprint;

/// Bytes of a directory in the spare area.
pub(crate) const DIRECTORY_BYTES: usize = 64;

/// The directory of a chunk, as one of its pages carries it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Directory {
    pub(crate) birth: u64,
    pub(crate) page: u8,
    pub(crate) pages: u8,
    pub(crate) compressed_bytes: u32,
    pub(crate) members: Vec<(Lpn, Fingerprint)>,
}

impl Directory {
    pub(crate) fn encode(&self) -> [u8; DIRECTORY_BYTES] {
        let mut bytes = [0; DIRECTORY_BYTES];
        bytes[..8].copy_from_slice(&self.birth.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.compressed_bytes.to_le_bytes());
        bytes[12..15].copy_from_slice(&[self.page, self.pages, self.members.len() as u8]);
        for (k, (lpn, fingerprint)) in self.members.iter().enumerate() {
            bytes[16 + 4 * k..20 + 4 * k].copy_from_slice(&lpn.0.to_le_bytes());
            bytes[32 + 8 * k..40 + 8 * k].copy_from_slice(&fingerprint.0.to_le_bytes());
        }
        bytes
    }

    /// `None` if the bytes are no directory.
    pub(crate) fn decode(bytes: &[u8; DIRECTORY_BYTES]) -> Option<Self> {
        let u32_at = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
        let u64_at = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
        let (page, pages, members) = (bytes[12], bytes[13], bytes[14] as usize);
        let is_possible = u64_at(0) > 0
            && page < pages
            && (pages as usize) < members
            && members <= CHUNK_MEMBERS
            && bytes[15] == 0;
        is_possible.then(|| Self {
            birth: u64_at(0),
            page,
            pages,
            compressed_bytes: u32_at(8),
            members: (0..members)
                .map(|k| (Lpn(u32_at(16 + 4 * k)), Fingerprint(u64_at(32 + 8 * k))))
                .collect(),
        })
    }
}

/// Chunks as their pages are met, in any order.
#[derive(Debug, Default)]
pub(crate) struct FoundChunks {
    /// By number: every chunk that a readable directory tells of.
    chunks: HashMap<u32, Vec<FoundChunk>, FxBuildHasher>,
    /// By number: sequence number of the youngest page whose directory cannot be read.
    unreadable: HashMap<u32, u64, FxBuildHasher>,
}

/// A chunk as far as its pages were found.
#[derive(Clone, Debug)]
pub(crate) struct FoundChunk {
    pub(crate) directory: Directory,
    /// The newest copy of each page, with its sequence number.
    pages: Vec<(u64, Ppn)>,
}

impl FoundChunk {
    /// Its pages, in order.
    pub(crate) fn pages(&self) -> impl Iterator<Item = Ppn> + '_ {
        self.pages.iter().map(|&(_, ppn)| ppn)
    }

    fn is_whole(&self) -> bool {
        self.pages().all(|ppn| ppn.some().is_some())
    }
}

impl FoundChunks {
    /// A page of chunk `number` at `ppn`, programmed as number `sequence`.
    pub(crate) fn add(&mut self, number: u32, sequence: u64, ppn: Ppn, directory: &Directory) {
        let of_number = self.chunks.entry(number).or_default();
        let at = of_number.iter().position(|found| found.directory.birth == directory.birth).unwrap_or_else(
            || {
                let pages = vec![(0, Ppn::NONE); directory.pages as usize];
                of_number.push(FoundChunk { directory: directory.clone(), pages });
                of_number.len() - 1
            },
        );
        if let Some(page) = of_number[at].pages.get_mut(directory.page as usize) {
            *page = (*page).max((sequence, ppn));
        }
    }

    /// A page of chunk `number`, programmed as number `sequence`, whose directory cannot be read.
    pub(crate) fn add_unreadable(&mut self, number: u32, sequence: u64) {
        let youngest = self.unreadable.entry(number).or_default();
        *youngest = sequence.max(*youngest);
    }

    /// The chunk that `number` means: the youngest whole one. A number is given again only after nobody refers to the old
    /// chunk, so a younger one without all its pages was never referred to. `None` if an unreadable page may belong to a
    /// younger chunk: an old chunk of the same number has the pages of others.
    pub(crate) fn take(&mut self, number: u32) -> Option<FoundChunk> {
        let found = self.chunks.remove(&number)?;
        let youngest =
            found.into_iter().filter(FoundChunk::is_whole).max_by_key(|found| found.directory.birth)?;
        let may_be_outdated =
            self.unreadable.get(&number).is_some_and(|&sequence| sequence > youngest.directory.birth);
        (!may_be_outdated).then_some(youngest)
    }
}
