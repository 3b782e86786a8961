//! Compression: the pages of up to four host writes are compressed together into a chunk and stored in fewer flash
//! pages.
//!
//! Source: "An Integrated Approach for Managing the Lifetime of Flash-Based SSDs", Lee, Kim, Park, Kim, DATE 2013. A
//! chunk of four pages is the unit of compression and of decompression, because a page compressed alone still takes a
//! page. Modelled here: the chunk buffer with replacement of pending members and short chunks at a flush, storage of
//! incompressible members as plain pages, reading one member by reading and decompressing the chunk, partial liveness,
//! and splitting or repacking chunks in garbage collection.
//!
//! # Decisions
//!
//! - A member has a mapping unit of its own (a [`StoredUnit`](crate::address::StoredUnit) number greater than the last
//!   page number). So map, reference counts and content index name members as they name pages, and an entry stays four
//!   bytes.
//! - The directory of a chunk (its logical pages, sizes) is counted as battery-backed RAM of the controller. It is also
//!   written to the spare areas of the chunk's pages (`directory.rs`), from which a device without a battery recovers
//!   it. On such a device the logical pages of chunks are therefore not counted as RAM. A simulation without bytes
//!   writes it only if its medium keeps it ([`crate::nand::RetainedPageFields::keeps_packed_page_bytes`]).
//! - The pages of a chunk stay valid until its last member dies. Chunks with fewer live members than pages waste space;
//!   when they waste more than the spare space allows, the next write splits one first.
//!
//! Invariants: a chunk has fewer pages than it had members, and at least one live member. Its pages are valid and
//! belong to no other chunk. A logical page is pending at most once.

mod chunk;
mod collect;
mod compression_state;
pub(crate) mod directory;
mod write;

pub use crate::address::MAX_CHUNK_MEMBERS;
pub(crate) use compression_state::CompressionState;
pub(crate) use write::Compression;

/// Returns the number of units to which a device can map logical pages: its flash pages and, if it compresses, chunk
/// members. There are [`MAX_CHUNK_MEMBERS`] chunk members per flash page, because a chunk may have a single flash page.
pub(crate) fn stored_unit_count(flash_pages: u64, compresses: bool) -> u64 {
    if compresses { flash_pages * (1 + MAX_CHUNK_MEMBERS as u64) } else { flash_pages }
}

/// Bytes of controller RAM for the directory of a compressed chunk: three flash pages, four logical pages, live mask.
const RAM_BYTES_PER_CHUNK: u64 = 32;
/// Bytes of controller RAM for a compressed chunk whose directory is also in the spare areas of its pages: the
/// addresses of three flash pages and the mask of live members. Its logical pages are not in RAM: only GC and the
/// splitting of chunks need them, and both read the chunk first.
const RAM_BYTES_PER_CHUNK_WITH_FLASH_DIRECTORY: u64 = 16;

/// Options of compression. There are none; the type marks that a design compresses.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CompressionOptions {}

/// Counters of compression: chunks (pages compressed together), members and pages written, and chunks that were
/// repacked or split.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CompressionStatistics {
    /// Number of chunks (pages compressed together) that were written for the host.
    pub host_written_chunks: u64,
    /// Number of host pages (members) in the compressed chunks that were written for the host.
    pub host_written_chunk_members: u64,
    /// Number of flash pages of the compressed chunks that were written for the host.
    pub host_written_chunk_pages: u64,
    /// Number of host pages stored as plain pages, because compression would not have saved a flash page.
    pub written_uncompressed_pages: u64,
    /// Number of compressed chunks that GC moved out of a victim and packed anew.
    pub repacked_chunks: u64,
    /// Number of compressed chunks that were split into plain pages because they took more flash pages than they had
    /// live members.
    pub split_chunks: u64,
    /// Number of plain pages that splits of compressed chunks wrote.
    pub pages_written_by_splits: u64,
}

#[cfg(test)]
mod tests {
    use crate::Ftl;
    use crate::address::Lpn;
    use crate::data::{Content, ContentDescriptor, Fingerprint};
    use crate::design::integrated;
    use crate::gc::GcOptions;
    use crate::nand::{Geometry, RetainedPageFields, SimNand};

    /// Returns the geometry of a small drive for tests of compression.
    fn small_geometry() -> Geometry {
        Geometry {
            channels: 1,
            dies_per_channel: 1,
            planes_per_die: 1,
            blocks_per_plane: 40,
            pages_per_block: 16,
            page_bytes: 4096,
            spare_bytes: 64,
            superblock_planes: 1,
        }
    }

    /// Compares the chunks before and after a recovery, where only sizes and fingerprints of the pages are known. The
    /// sizes of the members must be restored, because packing them again needs them.
    #[test]
    fn recovery_restores_the_member_sizes_of_a_compressed_chunk_without_page_bytes() {
        let parts = integrated(GcOptions::default(), None, true).without_battery();
        let retain = RetainedPageFields { keeps_data_bytes: false, ..RetainedPageFields::ALL };
        let nand = SimNand::new(small_geometry(), retain).with_nvram(8 * 480);
        let mut ftl = Ftl::new(nand, 480, &parts).expect("it fits");
        for k in 0..3000_u64 {
            let compressed_bytes = 200 + (crate::data::mix_bits(k) % 3896) as u16;
            let descriptor = ContentDescriptor {
                compressed_bytes,
                ..ContentDescriptor::of_fingerprint(Fingerprint(k + 1))
            };
            ftl.write(Lpn((crate::data::mix_bits(k) >> 32) as u32 % 480), Content::Descriptor(descriptor))
                .expect("there is room");
        }
        ftl.flush().expect("there is room");
        let stored = |ftl: &Ftl| {
            let chunks = ftl.compression.as_ref().expect("the design compresses").chunks.iter().enumerate();
            chunks.filter(|(_, chunk)| !chunk.is_empty()).map(|(k, chunk)| (k, *chunk)).collect::<Vec<_>>()
        };
        let before = stored(&ftl);
        assert!(
            before.len() > 50
                && before.iter().any(|(_, chunk)| chunk.live_member_count() < chunk.member_count())
        );
        ftl.recover().expect("a healthy medium recovers");
        assert!(stored(&ftl) == before);
    }

    /// Overwrites a small drive for long with compressible pages. Nearly every compressed chunk wastes a page for a
    /// while, when one of its members is left. Chunks that are freed must not stay in the list of wasteful chunks, or a
    /// long run would fill the memory.
    #[test]
    fn the_list_of_chunks_with_more_pages_than_live_members_stays_bounded() {
        let nand = SimNand::new(
            small_geometry(),
            RetainedPageFields { keeps_fingerprints: true, ..RetainedPageFields::default() },
        );
        let parts = integrated(GcOptions::default(), None, true);
        let mut ftl = Ftl::new(nand, 480, &parts).expect("it fits");
        for k in 0..200_000_u64 {
            let lpn = Lpn((crate::data::mix_bits(k) % 480) as u32);
            let descriptor = ContentDescriptor {
                compressed_bytes: 2000,
                ..ContentDescriptor::of_fingerprint(Fingerprint(k + 1))
            };
            ftl.write(lpn, Content::Descriptor(descriptor)).expect("there is room");
        }
        let stage = ftl.compression.as_ref().expect("the design compresses");
        assert!(stage.statistics.host_written_chunks > 40_000, "{:?}", stage.statistics);
        assert!(stage.wasteful_chunks.len() < 1000, "{} chunks are noted", stage.wasteful_chunks.len());
        assert_eq!(stage.check(), Ok(()));
    }
}
