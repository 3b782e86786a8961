//! Wearwell: a flash translation layer (FTL) built from exchangeable parts.
//!
//! One engine, [`ftl::Ftl`], runs every design over any medium that implements [`nand::Nand`]. A [`design`] is a list
//! of parts. To follow one host write, read the modules in this order: [`device`] splits sectors into pages,
//! [`write_buffer`] absorbs overwrites, [`content`] decides whether the page must be stored at all, [`mapping`] is the
//! L2P table, [`store`] chooses the flash page, [`nand`] enforces the rules of flash, [`validity`] knows which pages
//! are valid, [`timing`] computes latencies, and [`gc`] collects garbage.
//!
//! The crate uses no files, no wall clock, no threads and no unseeded randomness: the same seed gives the same counters
//! on every machine.
//!
//! # A drive in ten lines
//!
//! ```
//! use wearwell::device::HostData;
//! use wearwell::nand::{Geometry, RetainedPageFields, SimNand};
//! use wearwell::{Device, DeviceOptions, design, gc::GcOptions};
//!
//! # fn main() -> wearwell::Result<()> {
//! let geometry = Geometry {
//!     channels: 1, dies_per_channel: 1, planes_per_die: 1, blocks_per_plane: 64,
//!     pages_per_block: 32, page_bytes: 4096, spare_bytes: 64, superblock_planes: 1,
//! };
//! let nand = SimNand::new(geometry, RetainedPageFields { keeps_data_bytes: true, ..RetainedPageFields::default() });
//! let parts = design::page_map(GcOptions::default());
//! let mut drive = Device::new(nand, 1700, &parts, DeviceOptions::default())?;
//! for k in 0..10_000u64 {
//!     let lpn = wearwell::data::mix_bits(k) % 1700; // at random
//!     drive.write(lpn * 4096, 4096, HostData::Bytes(&[k as u8; 4096]))?;
//! }
//! let stats = drive.ftl().stats();
//! assert_eq!(stats.host_page_writes, 10_000);
//! assert!(stats.write_amplification() > 1.0, "garbage collection copied pages");
//! drive.ftl_mut().check().expect("counters, map and validity agree");
//! # Ok(())
//! # }
//! ```
//!
//! # A design from parts
//!
//! A [`design`] is a value: exchange a part of a named one, and build a drive of it. What does not go together is
//! refused with a sentence.
//!
//! ```
//! use wearwell::content::dedup::DedupOptions;
//! use wearwell::design::{self, CompressionOptions, Parts};
//! use wearwell::gc::{GcOptions, VictimPolicy};
//! # use wearwell::nand::{Geometry, RetainedPageFields, SimNand};
//! # use wearwell::{Device, DeviceOptions};
//! # let geometry = Geometry {
//! #     channels: 1, dies_per_channel: 1, planes_per_die: 1, blocks_per_plane: 64,
//! #     pages_per_block: 32, page_bytes: 4096, spare_bytes: 64, superblock_planes: 1,
//! # };
//! # let nand = || SimNand::new(geometry.clone(), RetainedPageFields::ALL);
//!
//! let gc = GcOptions { policy: VictimPolicy::CostBenefit, ..GcOptions::default() };
//! let mut parts: Parts = design::page_map(gc);
//! parts.content.chunks = Some(CompressionOptions::default()); // compression
//! let refused = Device::new(nand(), 1000, &parts, DeviceOptions::default()).unwrap_err();
//! assert!(refused.to_string().contains("recycle, delta and compress"), "{refused}");
//!
//! // In the papers, such parts survive a loss of power by a battery.
//! parts.persistence = parts.default_persistence();
//! Device::new(nand(), 1000, &parts, DeviceOptions::default()).expect("now they go together");
//! ```
//!
//! # A loss of power, and recovery
//!
//! ```
//! use wearwell::device::HostData;
//! use wearwell::nand::{CutOutcome, PowerCutNand, RetainedPageFields, SimNand};
//! # use wearwell::nand::Geometry;
//! # use wearwell::{Device, DeviceOptions, design, gc::GcOptions};
//! # fn main() -> wearwell::Result<()> {
//! # let geometry = Geometry {
//! #     channels: 1, dies_per_channel: 1, planes_per_die: 1, blocks_per_plane: 64,
//! #     pages_per_block: 32, page_bytes: 4096, spare_bytes: 64, superblock_planes: 1,
//! # };
//! # let parts = design::page_map(GcOptions::default());
//!
//! // The 21st flash operation is cut in the middle of a program.
//! let nand = PowerCutNand::new(SimNand::new(geometry, RetainedPageFields::ALL), Some(20), CutOutcome::Torn);
//! let mut drive = Device::new(nand, 1000, &parts, DeviceOptions::default())?;
//! let mut acknowledged = 0;
//! while drive.write(acknowledged * 4096, 4096, HostData::Bytes(&[7; 4096])).is_ok() {
//!     acknowledged += 1;
//! }
//! drive.ftl_mut().store_mut().nand_mut().power_cut_nand_mut().restore_power(None);
//! drive.recover()?;
//! let mut page = [0; 4096];
//! for lpn in 0..acknowledged {
//!     drive.read(lpn * 4096, 4096, &mut page)?;
//!     assert_eq!(page, [7; 4096], "page {lpn} was acknowledged");
//! }
//! # Ok(())
//! # }
//! ```

#![forbid(unsafe_code)]

pub mod address;
pub mod block_chart;
pub mod check;
pub mod content;
pub mod data;
pub mod design;
pub mod device;
mod divide;
pub mod error;
pub mod events;
pub mod flash_view;
pub mod ftl;
pub mod gc;
pub mod lifetime;
pub mod logical_page_form;
pub mod mapping;
pub mod nand;
pub mod operation;
pub mod recovery;
mod scrub;
pub mod sharing;
pub mod stats;
pub mod store;
mod tables;
pub mod timing;
pub mod validity;
pub mod write_buffer;

/// Digest of this crate's code, comments and layout excluded. Stored with results to identify the code that computed
/// them.
pub const CODE_DIGEST: &str = env!("CODE_DIGEST");

pub use device::{Device, DeviceOptions};
pub use error::{Error, Result};
pub use ftl::Ftl;
pub use scrub::ScrubProgress;
