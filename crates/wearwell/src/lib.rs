//! Wearwell: a flash translation layer built from parts.
//!
//! One engine, [`ftl::Ftl`], runs every design over any medium that obeys [`nand::Nand`]. Follow one write through
//! the files in this order: [`device`] (sectors to pages), [`write_buffer`], [`content`] (must the page be stored at
//! all?), [`mapping`] (L2P), [`store`] (where it goes), [`nand`] (what flash refuses), [`validity`], [`timing`]
//! (what it costs), [`gc`]. A [`design`] is a list of parts.
//!
//! The core has no files, no wall clock, no threads and no unseeded randomness: the same seed gives the same
//! counters on every machine.

#![forbid(unsafe_code)]

pub mod address;
pub mod check;
pub mod content;
mod damage;
pub mod data;
pub mod design;
pub mod device;
mod divide;
pub mod error;
pub mod flash_view;
pub mod ftl;
pub mod gc;
pub mod lifetime;
pub mod mapping;
pub mod nand;
pub mod operation;
pub mod page_state;
pub mod recovery;
pub mod sharing;
pub mod stats;
pub mod store;
mod tables;
pub mod timing;
pub mod validity;
pub mod write_buffer;

/// Digest of this crate's code without comments and layout. Records of results name it, to tell by which code they were
/// made.
pub const CODE_DIGEST: &str = env!("CODE_DIGEST");

pub use damage::Scrubbed;
pub use device::{Device, DeviceOptions};
pub use error::{Error, Result};
pub use ftl::Ftl;
