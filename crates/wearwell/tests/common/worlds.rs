//! Tiny named devices ("worlds") for tests. Each is so small that garbage collection, full pools and evictions happen
//! all the time, and each has one unusual feature.

use wearwell::design::Parts;
use wearwell::nand::{Geometry, RetainedPageFields, SimNand};
use wearwell::{Error, Ftl};

/// A tiny device for tests: a geometry, and the share of it that the host fills.
#[derive(Clone)]
pub struct TinyDevice {
    /// Name of the tiny device, by which failure messages and tests refer to it.
    pub name: &'static str,
    /// Numbers of channels, planes, blocks and pages of the device.
    pub geometry: Geometry,
    /// Number of logical pages, in percent of the maximum that the design accepts; 100 leaves the least spare space.
    fill_percent: u32,
}

impl TinyDevice {
    /// Returns this tiny device with more blocks per plane, some of which may then be bad.
    pub fn with_more_blocks(&self, blocks: u32) -> Self {
        let blocks_per_plane = self.geometry.blocks_per_plane + blocks;
        Self { geometry: Geometry { blocks_per_plane, ..self.geometry.clone() }, ..self.clone() }
    }

    /// Returns the number of logical pages of this tiny device if it has this design.
    ///
    /// # Panics
    /// If the design needs more blocks for itself than there are: see `DesignUnderTest::fits_on_tiny_device`.
    pub fn logical_pages(&self, parts: &Parts) -> u32 {
        let most = max_logical_pages(&self.geometry, parts);
        (most * self.fill_percent / 100).max(1)
    }
}

/// Returns whether a design accepts `pages` logical pages on a geometry.
pub fn accepts_logical_pages(geometry: &Geometry, parts: &Parts, pages: u32) -> bool {
    let medium = SimNand::new(geometry.clone(), RetainedPageFields::default())
        .with_nvram(super::nvram_bytes(geometry));
    match Ftl::new(medium, pages, parts) {
        Ok(_) => true,
        Err(Error::TooFewPhysicalPages { .. } | Error::InvalidOptions(_)) => false,
        Err(error) => panic!("{error}"),
    }
}

/// Returns the maximum number of logical pages that a design accepts on a geometry.
pub fn max_logical_pages(geometry: &Geometry, parts: &Parts) -> u32 {
    let pages = geometry.pages() as u32;
    (1..=pages)
        .rev()
        .find(|&pages| accepts_logical_pages(geometry, parts, pages))
        .expect("the geometry holds a page")
}

/// Returns the geometry with these numbers of channels, planes, blocks per plane, pages per block, and bytes per page.
fn geometry_of([channels, planes, blocks_per_plane, pages_per_block, page_bytes]: [u32; 5]) -> Geometry {
    Geometry {
        channels,
        dies_per_channel: 1,
        planes_per_die: planes / channels,
        blocks_per_plane,
        pages_per_block,
        page_bytes,
        spare_bytes: 64,
        superblock_planes: 1,
    }
    .checked()
    .expect("the worlds are valid")
}

/// Returns the geometry without superblocks that has these numbers of pools (planes), blocks per pool, pages per block,
/// and bytes per page.
pub fn geometry_without_superblocks([pools, blocks, pages, page_bytes]: [u32; 4]) -> Geometry {
    geometry_of([1, pools, blocks, pages, page_bytes])
}

/// Returns all tiny devices on which tests run.
pub fn tiny_devices() -> Vec<TinyDevice> {
    let superblocks = Geometry { superblock_planes: 2, ..geometry_of([1, 4, 10, 4, 512]) };
    let wide = Geometry { superblock_planes: 4, ..geometry_of([2, 4, 9, 2, 1024]) };
    vec![
        TinyDevice { name: "tiny", geometry: geometry_of([1, 1, 8, 4, 1024]), fill_percent: 90 },
        TinyDevice { name: "slc", geometry: geometry_of([1, 1, 40, 16, 512]), fill_percent: 85 },
        TinyDevice { name: "many_planes", geometry: geometry_of([2, 4, 10, 8, 1024]), fill_percent: 85 },
        TinyDevice { name: "superblocks", geometry: superblocks, fill_percent: 90 },
        TinyDevice { name: "wide_superblocks", geometry: wide, fill_percent: 90 },
        TinyDevice { name: "large_pages", geometry: geometry_of([1, 1, 10, 4, 16384]), fill_percent: 85 },
        TinyDevice { name: "one_block_spare", geometry: geometry_of([1, 1, 10, 8, 512]), fill_percent: 100 },
        TinyDevice { name: "odd", geometry: geometry_of([1, 2, 11, 6, 2048]), fill_percent: 90 },
    ]
}
