//! Content mechanisms: decide whether a written page must be stored at all, and in what form.
//!
//! Each mechanism (stage) is a folder with its state and its steps in a write, a read and a GC run. Deduplication and
//! recycling find stored content, delta encoding stores differences, compression packs several pages into a chunk. All
//! work on [`crate::data`], so real bytes and content descriptors run the same code.

pub mod compress;
pub mod dedup;
pub mod delta;
mod observe;
pub mod recycle;

pub(crate) use observe::{Observations, Seen};
