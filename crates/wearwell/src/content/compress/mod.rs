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
//!   it is also written to the spare areas of the chunk's pages (`directory.rs`), from where a device without a battery
//!   takes it.
//! - The pages of a chunk live until its last member dies. Chunks with fewer live members than pages cost space; when
//!   they cost more than the spare space allows, the next write takes one apart first.
//!
//! Invariants: a chunk has fewer pages than it had members, and at least one live member; its pages are valid, and no
//! other chunk's; a logical page is pending at most once.

mod chunk;
mod collect;
pub(crate) mod directory;
mod stage;
mod write;

pub(crate) use stage::ChunkStage;

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

#[cfg(test)]
mod tests {
    use crate::Ftl;
    use crate::address::Lpn;
    use crate::data::{Content, Descriptor, Fingerprint};
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
            let lpn = Lpn((crate::data::mix(k) % 480) as u32);
            let descriptor = Descriptor { compressed_bytes: 2000, ..Descriptor::of(Fingerprint(k + 1)) };
            ftl.write(lpn, Content::Descriptor(descriptor)).expect("there is room");
        }
        let stage = ftl.chunks.as_ref().expect("the design compresses");
        assert!(stage.statistics.chunks > 40_000, "{:?}", stage.statistics);
        assert!(stage.wasteful.len() < 1000, "{} chunks are noted", stage.wasteful.len());
        assert_eq!(stage.check(), Ok(()));
    }
}
