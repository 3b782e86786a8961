//! How a device is laid out, and what its flash can do.
//!
//! Blocks are numbered so that consecutive blocks lie on consecutive planes: `plane = block % planes`. A run of
//! `superblock_planes` blocks with the same offset on neighbouring planes is therefore contiguous, and a
//! superblock is nothing but a larger block: block `s`, page offset `k` lies on plane
//! `(s % groups) * superblock_planes + k % superblock_planes`. The rest of the engine sees one kind of block.

use crate::address::{BlockId, PlaneId, Ppn};

/// Layout of a device. Pass it through [`Geometry::checked`] once; from then on its relations are trusted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Geometry {
    /// Channels of the device.
    pub channels: u32,
    /// Dies (LUNs) on each channel.
    pub dies_per_channel: u32,
    /// Planes in each die.
    pub planes_per_die: u32,
    /// Physical blocks in each plane, factory-bad ones included.
    pub blocks_per_plane: u32,
    /// Pages in each physical block.
    pub pages_per_block: u32,
    /// Data bytes of a page: a power of two from 512 to 65536.
    pub page_bytes: u32,
    /// Spare (OOB) bytes of a page.
    pub spare_bytes: u32,
    /// Planes that form one superblock; 1 = plain blocks. Divides the number of planes.
    pub superblock_planes: u32,
}

/// Planes of a device at most.
pub const PLANES_MAX: u32 = 1 << 16;

/// Why a geometry is refused.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GeometryError {
    /// A count is zero.
    #[error("geometry: {field} is 0; every count must be at least 1")]
    Zero {
        /// The field's name.
        field: &'static str,
    },
    /// Page size out of range.
    #[error("geometry: page_bytes is {page_bytes}; it must be a power of two from 512 to 65536")]
    PageBytes {
        /// The refused value.
        page_bytes: u32,
    },
    /// More pages than a 32-bit page number can name.
    #[error(
        "geometry: {pages} pages; page numbers have 32 bits, so at most 4294967296 pages fit: use larger pages or fewer blocks"
    )]
    TooManyPages {
        /// The refused count.
        pages: u64,
    },
    /// More blocks than a 32-bit block number can name.
    #[error(
        "geometry: {blocks} blocks; block numbers have 32 bits, so at most 4294967295 blocks fit: use more pages per block"
    )]
    TooManyBlocks {
        /// The refused count.
        blocks: u64,
    },
    /// Every plane has queues and frontiers of its own, so that their number is bounded far below that of pages.
    #[error(
        "geometry: {planes} planes; at most {PLANES_MAX} make a device: use fewer channels, dies or planes"
    )]
    TooManyPlanes {
        /// The refused count.
        planes: u64,
    },
    /// The superblock does not divide the planes.
    #[error("geometry: superblock_planes is {superblock_planes}, which does not divide the {planes} planes")]
    Superblock {
        /// The refused value.
        superblock_planes: u32,
        /// Planes of the device.
        planes: u32,
    },
    /// A block is larger than the engine's 16-bit valid counts.
    #[error(
        "geometry: a block of {pages} pages; valid counts have 16 bits, so at most 65535 pages per (super)block fit"
    )]
    BlockTooLarge {
        /// Pages per block or superblock.
        pages: u64,
    },
}

impl Geometry {
    /// Returns `self` if all relations hold.
    ///
    /// # Errors
    /// [`GeometryError`] names the field and the bound.
    pub fn checked(self) -> Result<Self, GeometryError> {
        let counts = [
            ("channels", self.channels),
            ("dies_per_channel", self.dies_per_channel),
            ("planes_per_die", self.planes_per_die),
            ("blocks_per_plane", self.blocks_per_plane),
            ("pages_per_block", self.pages_per_block),
            ("superblock_planes", self.superblock_planes),
        ];
        if let Some((field, _)) = counts.into_iter().find(|&(_, n)| n == 0) {
            return Err(GeometryError::Zero { field });
        }
        if !self.page_bytes.is_power_of_two() || !(512..=65536).contains(&self.page_bytes) {
            return Err(GeometryError::PageBytes { page_bytes: self.page_bytes });
        }
        // Any numbers may stand in a file: products saturate, and are compared before they are used.
        let planes =
            (self.channels as u64 * self.dies_per_channel as u64).saturating_mul(self.planes_per_die as u64);
        let blocks = planes.saturating_mul(self.blocks_per_plane as u64);
        let pages = blocks.saturating_mul(self.pages_per_block as u64);
        if pages > 1 << 32 {
            return Err(GeometryError::TooManyPages { pages });
        }
        if planes > PLANES_MAX as u64 {
            return Err(GeometryError::TooManyPlanes { planes });
        }
        if blocks > u32::MAX as u64 {
            return Err(GeometryError::TooManyBlocks { blocks });
        }
        if !self.planes().is_multiple_of(self.superblock_planes) {
            return Err(GeometryError::Superblock {
                superblock_planes: self.superblock_planes,
                planes: self.planes(),
            });
        }
        let block = self.superblock_planes as u64 * self.pages_per_block as u64;
        if block > u16::MAX as u64 {
            return Err(GeometryError::BlockTooLarge { pages: block });
        }
        Ok(self)
    }

    /// Planes of the device.
    pub fn planes(&self) -> u32 {
        self.channels * self.dies_per_channel * self.planes_per_die
    }

    /// Dies of the device.
    pub fn dies(&self) -> u32 {
        self.channels * self.dies_per_channel
    }

    /// Groups of planes that share blocks: one allocation pool each.
    pub fn pools(&self) -> u32 {
        self.planes() / self.superblock_planes
    }

    /// Erase units of the FTL: superblocks, or blocks where `superblock_planes` is 1.
    pub fn blocks(&self) -> u32 {
        self.pools() * self.blocks_per_plane
    }

    /// Pages in an erase unit of the FTL.
    pub fn block_pages(&self) -> u32 {
        self.superblock_planes * self.pages_per_block
    }

    /// Physical pages of the device: at most 2^32.
    #[inline]
    pub fn pages(&self) -> u64 {
        // Not by blocks, whose number costs a division: this is asked for every place that a map gives.
        self.planes() as u64 * self.blocks_per_plane as u64 * self.pages_per_block as u64
    }

    /// Physical bytes of the device.
    pub fn bytes(&self) -> u64 {
        self.pages() * self.page_bytes as u64
    }

    /// The first page of a block.
    #[inline]
    pub fn first_page(&self, block: BlockId) -> Ppn {
        Ppn(block.0 * self.block_pages())
    }

    /// The pool a block belongs to.
    #[inline]
    pub fn pool_of(&self, block: BlockId) -> u32 {
        block.0 % self.pools()
    }

    /// The plane that holds page `offset` of `block`.
    #[inline]
    pub fn plane_of(&self, block: BlockId, offset: u32) -> PlaneId {
        PlaneId(self.pool_of(block) * self.superblock_planes + offset % self.superblock_planes)
    }

    /// The die of a plane, counted over the device.
    pub fn die_of(&self, plane: PlaneId) -> u32 {
        plane.0 / self.planes_per_die
    }

    /// The channel of a plane.
    pub fn channel_of(&self, plane: PlaneId) -> u32 {
        self.die_of(plane) / self.dies_per_channel
    }
}

/// Datasheet timing of a flash part. Times in nanoseconds.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct FlashTiming {
    /// tR: array to page register.
    pub read_ns: u64,
    /// tPROG: page register to array.
    pub program_ns: u64,
    /// tBERS: block erase.
    pub erase_ns: u64,
    /// Channel time per byte, in picoseconds (1000 = 1 ns per byte = 1000 MB/s).
    pub transfer_ps_per_byte: u64,
}

impl FlashTiming {
    /// Channel time of `bytes`, rounded to the nearest nanosecond.
    #[inline]
    pub fn transfer_ns(&self, bytes: u32) -> u64 {
        (bytes as u64 * self.transfer_ps_per_byte + 500) / 1000
    }
}
