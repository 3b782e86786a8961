//! Parts that the models share: a random number generator, draws of page numbers, and a drive of the engine.

use wearwell::address::Lpn;
use wearwell::data::{ContentDescriptor, Fingerprint};
use wearwell::design::Parts;
use wearwell::nand::{Geometry, SimNand};
use wearwell::{Device, DeviceOptions};

/// Page size in the papers that the models follow, bytes.
pub const PAGE_BYTES: u32 = 4096;

/// Random number generator `xorshift64*` (Vigna, 2016), which the engine does not use.
#[derive(Clone)]
pub struct Random(u64);

impl Random {
    /// Creates a generator of random numbers that belongs to `seed`.
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// Draws a random word of 64 bits.
    fn next_word(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// Draws a number from 0 to less than 1.
    pub fn draw_from_unit_interval(&mut self) -> f64 {
        (self.next_word() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Draws a whole number from 0 to less than `bound`.
    pub fn draw_below(&mut self, bound: u64) -> u64 {
        (self.draw_from_unit_interval() * bound as f64) as u64
    }

    /// Decides at random whether an event of this probability happens.
    pub fn draw_event(&mut self, probability: f64) -> bool {
        self.draw_from_unit_interval() < probability
    }

    /// Draws a number less than `bound`, small numbers far more often: the cube of a uniform draw.
    pub fn draw_skewed_below(&mut self, bound: u64) -> u64 {
        (self.draw_from_unit_interval().powi(3) * bound as f64) as u64
    }
}

/// Makes the geometry of one pool of `blocks` blocks of `block_pages` pages.
pub fn one_pool_geometry(blocks: u32, block_pages: u32) -> Geometry {
    Geometry {
        channels: 1,
        dies_per_channel: 1,
        planes_per_die: 1,
        blocks_per_plane: blocks,
        pages_per_block: block_pages,
        page_bytes: PAGE_BYTES,
        spare_bytes: 64,
        superblock_planes: 1,
    }
}

/// A device of the engine that a test reads and writes page by page.
pub struct Drive {
    /// Device that executes the requests.
    pub device: Device,
}

impl Drive {
    /// Creates an empty device over simulated flash of this geometry, from these design parts.
    pub fn new(geometry: Geometry, logical_pages: u32, parts: &Parts) -> Self {
        let nvram_bytes = parts.reverse_map_nvram_bytes(geometry.page_bytes);
        let nand = SimNand::new(geometry, parts.needed_retained_page_fields()).with_nvram(nvram_bytes);
        let device = Device::new(nand, logical_pages, parts, DeviceOptions::default()).expect("it fits");
        Self { device }
    }

    /// Writes a logical page with the content that has the fingerprint `content`.
    pub fn write(&mut self, lpn: u32, content: u64) {
        self.write_descriptor(lpn, ContentDescriptor::of_fingerprint(Fingerprint(content)));
    }

    /// Writes a logical page; its content is given as a descriptor (fingerprint and sizes) instead of bytes.
    pub fn write_descriptor(&mut self, lpn: u32, descriptor: ContentDescriptor) {
        self.device.write_page_descriptor(Lpn(lpn), descriptor).expect("there is room");
    }

    /// Reads a logical page.
    pub fn read(&mut self, lpn: u32) {
        let page_bytes = PAGE_BYTES as u64;
        self.device.read(lpn as u64 * page_bytes, page_bytes, &mut []).expect("a healthy medium reads");
    }

    /// Trims a logical page.
    pub fn trim(&mut self, lpn: u32) {
        let page_bytes = PAGE_BYTES as u64;
        self.device.trim(lpn as u64 * page_bytes, page_bytes).expect("there is room");
    }

    /// Returns the counters of the engine.
    pub fn stats(&self) -> &wearwell::stats::Stats {
        self.device.ftl().stats()
    }
}
