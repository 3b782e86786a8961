//! Geometry of a device (channels, dies, planes, blocks, pages), and the timing of its flash.
//!
//! Blocks are numbered so that consecutive blocks are on consecutive planes: `plane = block % planes`. So
//! `superblock_planes` blocks with the same offset on neighbouring planes have consecutive numbers, and a superblock is
//! simply a larger block: page offset `k` of block `s` is on plane
//! `(s % groups) * superblock_planes + k % superblock_planes`, where `groups` is the number of planes divided by
//! `superblock_planes`. The rest of the engine sees one kind of block.

use crate::address::{BlockId, PlaneId, Ppn};

/// Geometry of a flash device: numbers of channels, dies, planes, blocks and pages, and the size of a page. The code
/// trusts that the fields are consistent after one call of [`Geometry::checked`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Geometry {
    /// Number of channels of the device.
    pub channels: u32,
    /// Number of dies (LUNs) on each channel.
    pub dies_per_channel: u32,
    /// Number of planes in each die.
    pub planes_per_die: u32,
    /// Number of physical blocks in each plane, factory-bad ones included.
    pub blocks_per_plane: u32,
    /// Number of pages in each physical block.
    pub pages_per_block: u32,
    /// Number of data bytes of a page: a power of two from 512 to 65536.
    pub page_bytes: u32,
    /// Number of spare (OOB) bytes of a page.
    pub spare_bytes: u32,
    /// Number of planes that form one superblock; 1 means plain blocks. Must divide the number of planes of the device.
    pub superblock_planes: u32,
}

/// Maximum number of planes of a device.
pub const PLANES_MAX: u32 = 1 << 16;

/// Reason why a device geometry is rejected.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GeometryError {
    /// A count (channels, dies, planes, blocks or pages) is zero.
    #[error("device.{field} is 0; set it to at least 1")]
    Zero {
        /// Name of the geometry field that is zero.
        field: &'static str,
    },
    /// The page size is not a power of two from 512 to 65536 bytes.
    #[error("device.page_bytes is {page_bytes}; set it to a power of two from 512 to 65536")]
    PageBytes {
        /// Page size that was rejected, bytes.
        page_bytes: u32,
    },
    /// The spare area of a page is larger than the largest page.
    #[error("device.spare_bytes is {spare_bytes}; set it to at most 65536")]
    SpareBytes {
        /// Size of the spare area that was rejected, bytes.
        spare_bytes: u32,
    },
    /// The device has more pages than a 32-bit page number can name. One number (`u32::MAX`) means "none".
    #[error(
        "the device would have {pages} pages, but page numbers have 32 bits: lower device.channels, device.dies_per_channel, \
         device.planes_per_die, device.blocks_per_plane or device.pages_per_block so that it has at most 4294967295"
    )]
    TooManyPages {
        /// Number of pages of the rejected geometry.
        pages: u64,
    },
    /// The device has more planes than [`PLANES_MAX`]. Every plane has queues and open blocks of its own, so their
    /// number is bounded far below that of pages.
    #[error(
        "the device would have {planes} planes, but it can have at most {PLANES_MAX}: lower device.channels, \
         device.dies_per_channel or device.planes_per_die"
    )]
    TooManyPlanes {
        /// Number of planes of the rejected geometry.
        planes: u64,
    },
    /// The number of planes in a superblock does not divide the number of planes of the device.
    #[error(
        "device.superblock_planes is {superblock_planes}, which does not divide the number of planes of the device, \
         {planes}: set it to a divisor of {planes}, or to 1 for no superblocks"
    )]
    SuperblockPlanes {
        /// Number of planes per superblock that was rejected.
        superblock_planes: u32,
        /// Number of planes of the device.
        planes: u32,
    },
    /// A block or superblock has more pages than the FTL's 16-bit valid counts allow.
    #[error(
        "a block would have {pages} pages (device.pages_per_block x device.superblock_planes), but it can have at most \
         65535: lower device.pages_per_block or device.superblock_planes"
    )]
    BlockTooLarge {
        /// The rejected number of pages per block or superblock.
        pages: u64,
    },
}

impl Geometry {
    /// Returns the geometry if all its fields are in range and consistent.
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
        if self.spare_bytes > 65536 {
            return Err(GeometryError::SpareBytes { spare_bytes: self.spare_bytes });
        }
        // A configuration file may contain any numbers, so products saturate and are checked before use.
        let planes =
            (self.channels as u64 * self.dies_per_channel as u64).saturating_mul(self.planes_per_die as u64);
        let blocks = planes.saturating_mul(self.blocks_per_plane as u64);
        let pages = blocks.saturating_mul(self.pages_per_block as u64);
        if pages >= 1 << 32 {
            return Err(GeometryError::TooManyPages { pages });
        }
        if planes > PLANES_MAX as u64 {
            return Err(GeometryError::TooManyPlanes { planes });
        }
        if !self.planes().is_multiple_of(self.superblock_planes) {
            return Err(GeometryError::SuperblockPlanes {
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

    /// Returns the number of planes of the device.
    pub fn planes(&self) -> u32 {
        self.channels * self.dies_per_channel * self.planes_per_die
    }

    /// Returns the number of dies of the device.
    pub fn dies(&self) -> u32 {
        self.channels * self.dies_per_channel
    }

    /// Returns the number of allocation pools of the device: planes, or groups of planes over which superblocks extend.
    pub fn allocation_pools(&self) -> u32 {
        self.planes() / self.superblock_planes
    }

    /// Returns the number of erase units of the FTL: superblocks, or blocks if `superblock_planes` is 1.
    pub fn blocks(&self) -> u32 {
        self.allocation_pools() * self.blocks_per_plane
    }

    /// Returns the number of pages in an erase unit of the FTL (a superblock, or a block if `superblock_planes` is 1).
    pub fn block_pages(&self) -> u32 {
        self.superblock_planes * self.pages_per_block
    }

    /// Returns the number of physical pages of the device: fewer than 2^32.
    #[inline]
    pub fn pages(&self) -> u64 {
        // Not computed from `blocks()`, which costs a division: this is needed for every location that a map returns.
        self.planes() as u64 * self.blocks_per_plane as u64 * self.pages_per_block as u64
    }

    /// Returns the number of data bytes of all physical pages of the device.
    pub fn physical_bytes(&self) -> u64 {
        self.pages() * self.page_bytes as u64
    }

    /// Returns the PPN of the first page of a block.
    #[inline]
    pub fn first_page(&self, block: BlockId) -> Ppn {
        Ppn(block.0 * self.block_pages())
    }

    /// Returns the number of the allocation pool (a plane, or the planes over which superblocks extend) to which a
    /// block belongs.
    #[inline]
    pub fn allocation_pool_of_block(&self, block: BlockId) -> u32 {
        block.0 % self.allocation_pools()
    }

    /// Returns the number of the plane that holds page `offset` of `block`.
    #[inline]
    pub fn plane_of(&self, block: BlockId, offset: u32) -> PlaneId {
        PlaneId(
            self.allocation_pool_of_block(block) * self.superblock_planes + offset % self.superblock_planes,
        )
    }

    /// Returns the number of the die that contains a plane. Dies are numbered over the whole device.
    pub fn die_of(&self, plane: PlaneId) -> u32 {
        plane.0 / self.planes_per_die
    }

    /// Returns the number of the channel to which a plane is connected.
    pub fn channel_of(&self, plane: PlaneId) -> u32 {
        self.die_of(plane) / self.dies_per_channel
    }
}

/// Datasheet timing of a flash part: array operations in nanoseconds, transfers in picoseconds per byte.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct FlashTiming {
    /// Read time of a page (tR): array to page register, ns.
    pub read_ns: u64,
    /// Program time of a page (tPROG): page register to array, ns.
    pub program_ns: u64,
    /// Erase time of a block (tBERS), ns.
    pub erase_ns: u64,
    /// Channel time to transfer one byte, in picoseconds (1000 = 1 ns per byte = 1000 MB/s).
    pub transfer_ps_per_byte: u64,
}

impl FlashTiming {
    /// Returns the channel time to transfer `bytes` bytes, rounded to the nearest nanosecond.
    #[inline]
    pub fn transfer_ns(&self, bytes: u32) -> u64 {
        (bytes as u64 * self.transfer_ps_per_byte + 500) / 1000
    }
}
