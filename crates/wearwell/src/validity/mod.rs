//! Page-level validity of data: which pages of a victim does GC have to move?
//!
//! Valid *counts* per block live in the block table, in RAM, for every design; pages of metadata answer for themselves
//! (their owner knows where each of them is). What is pluggable is validity page by page: one bit per page in RAM, or a
//! structure that lives on flash and is written through the store like any metadata, so that its cost shows by itself.
//!
//! A store of validity on flash learns three things: a page is invalid ([`Validity::invalidate`], no flash operation), a
//! block was opened for data, so that everything said of its pages before is void ([`Validity::opened`]), and that there
//! is room for one page of its own ([`Validity::write_deferred`]). It answers one question, at a price: which pages of this block
//! were not called invalid since it was opened ([`Validity::live_pages`]).
//!
//! Invariant: between [`Validity::opened`] and the erase of a block a page is called invalid at most once by a device
//! that was not cut; after a recovery it may be called so again, which changes nothing. Pages that recycling makes valid again
//! are kept apart ([`Revivable`]). Packed pages (of deltas, of chunks) are not noted at all: the table of their mechanism says
//! whether it needs them.

mod any;
mod flash_bitmap;
mod gecko;
mod log;
mod log_page;
mod ram_bitmap;
mod revived;

pub use any::{AnyValidity, ValidityPart};
pub use flash_bitmap::{BitmapOptions, FlashBitmap};
pub use gecko::{Gecko, GeckoCounts, GeckoOptions, MergeMode};
pub use log::{LogCounts, LogOptions, ValidityLog};
pub use ram_bitmap::RamBitmap;
pub use revived::Revivable;

use crate::address::{BlockId, Ppn};
use crate::error::Result;
use crate::nand::Nand;
use crate::store::Store;

/// What every store of page validity answers.
pub trait Validity {
    /// The page's data is not needed any more. No flash operation: what must be written follows in
    /// [`Validity::write_deferred`].
    fn invalidate(&mut self, ppn: Ppn);

    /// The block was opened for data: all its pages count as valid until they are called invalid.
    fn opened(&mut self, block: BlockId);

    /// Appends the pages of `block`, ascending, that were not called invalid since it was opened (programmed or not).
    ///
    /// # Errors
    /// Whatever the flash answers.
    fn live_pages<N: Nand>(&mut self, io: &mut Store<N>, block: BlockId, out: &mut Vec<Ppn>) -> Result<()>;

    /// Does one step of postponed work: at most one page appended; `false` if there was nothing to do.
    ///
    /// # Errors
    /// Whatever the flash answers.
    fn write_deferred<N: Nand>(&mut self, io: &mut Store<N>) -> Result<bool>;

    /// Whether `ppn` is in use as a page of the structure; `id` is the owner in its OOB.
    fn owns(&self, id: u32, ppn: Ppn) -> bool;

    /// GC moved a page of the structure.
    fn relocate_own(&mut self, id: u32, from: Ppn, to: Ppn);

    /// Pages that one [`Validity::write_deferred`] may append; 0 for a store that lives in RAM.
    fn pages_per_settle(&self) -> u32;

    /// Flash pages that the structure occupies at the most, obsolete ones that it still needs included.
    fn metadata_pages(&self) -> u64;

    /// Bytes a controller holds in RAM, by structure.
    fn ram_bytes(&self) -> Vec<(&'static str, u64)>;
}
