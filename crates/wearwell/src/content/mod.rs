//! Content mechanisms: must a page be stored at all, and in what form?
//!
//! Each stage is a folder that holds its state and its steps of a write, a read and a collection: deduplication and recycling
//! find stored content, delta encoding stores differences, compression packs pages together. They work on [`crate::data`], so
//! bytes and descriptors run the same code.

pub mod compress;
pub mod dedup;
pub mod delta;
mod observe;
pub mod recycle;

pub(crate) use observe::{Observations, Seen};
