//! Content mechanisms: decide whether a written page must be stored at all, and in what form.
//!
//! Each mechanism is a folder with its state and its steps in a write, a read and a GC run, and a line in the list
//! below, whose order is that in which a host write is offered to the mechanisms (`stage.rs`). Silent writes change
//! nothing; deduplication and recycling find stored content, delta encoding stores differences, compression packs
//! several pages into a chunk. All work on [`crate::data`], so real bytes and content descriptors run the same code.

pub mod compress;
pub mod dedup;
pub mod delta;
pub mod recycle;
mod scheme_counters;
mod schemes;
mod silent;
mod stage;
mod table_limit;

pub(crate) use scheme_counters::{MechanismCounters, MechanismOutcome};
pub use schemes::MechanismSet;
pub(crate) use stage::{ContentMechanism, ContentMechanismsResult, HostWrite, StatelessMechanisms};

stage::content_mechanisms! {
    /// Silent writes: a write of the content that the logical page already has changes nothing.
    Silent: silent::SilentWrites,
    /// Deduplication: a page whose content is already stored is not written again.
    Dedup: dedup::Deduplication,
    /// Recycling: a write revives a dead page of equal content.
    Recycle: recycle::Recycling,
    /// Delta encoding: overwrites are stored as compressed differences.
    Delta: delta::DeltaEncoding,
    /// Compression: several logical pages are compressed together into a chunk.
    Compression: compress::Compression,
}
