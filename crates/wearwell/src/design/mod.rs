//! Designs: lists of parts.
//!
//! A design is data. Its file names its source, lists its parts, and says what is modelled and what is not. The
//! engine never asks which design it runs.

mod dftl;
mod page_map;
mod recyclable;

pub use dftl::{DftlOptions, dftl};
pub use page_map::page_map;
pub use recyclable::{RecycleDesign, recyclable};

use crate::gc::GcOptions;
use crate::mapping::CachedOptions;
use crate::nand::Retain;

/// How the L2P table is kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MappingPart {
    /// All of it in RAM.
    Flat,
    /// On flash, with a cache.
    Cached(CachedOptions),
}

/// What is done about content.
#[derive(Clone, PartialEq, Debug)]
pub enum ContentPart {
    /// Nothing: every page is stored as it comes.
    None,
    /// Dead pages are recycled.
    Recycle(RecycleDesign),
}

/// What makes acknowledged, flushed data survive loss of power, and which hardware that assumes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Persistence {
    /// Nothing but flash: the map is rebuilt from the OOB of every page, newest sequence number first. Trims are
    /// not durable: a page trimmed before the cut may read as one of its earlier versions afterwards.
    OobScan,
    /// A battery keeps the map, history and access counts in RAM; the fingerprint store is rebuilt.
    BatteryRam,
    /// A battery lasts long enough to write the dirty map entries; the rest is rebuilt from translation pages.
    BatteryFlush,
}

/// The parts of a design.
#[derive(Clone, PartialEq, Debug)]
pub struct Parts {
    /// L2P.
    pub mapping: MappingPart,
    /// Content stage.
    pub content: ContentPart,
    /// Garbage collection.
    pub gc: GcOptions,
    /// Survival of power loss.
    pub persistence: Persistence,
}

impl Parts {
    /// What the medium must keep of each page for this design to work on descriptors.
    pub fn retain(&self) -> Retain {
        Retain { fingerprint: matches!(self.content, ContentPart::Recycle(_)), ..Retain::default() }
    }
}

/// A named design for lists and command lines.
#[derive(Clone, Copy, Debug)]
pub struct Design {
    /// Name on the command line.
    pub name: &'static str,
    /// Title, venue, year.
    pub source: &'static str,
    /// What is modelled.
    pub modelled: &'static str,
    /// What is simplified or left out, and what hardware is assumed.
    pub not_modelled: &'static str,
}

/// All designs, baseline first.
pub const ALL: [Design; 3] = [page_map::DESIGN, recyclable::DESIGN, dftl::DESIGN];
