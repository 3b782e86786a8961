//! Data structures of the engine: dense tables, sets of pages, hash indexes, LRU lists. They know nothing of flash
//! except page numbers.

mod dense;
mod linear_probing;
mod lru_list;
mod page_set;
pub(crate) mod prefetch;
mod slot_index;

pub(crate) use dense::DenseTable;
pub(crate) use linear_probing::does_search_pass_gap;
pub(crate) use lru_list::{LinkedSlots, ListLinks, LruEnds, LruList};
pub(crate) use page_set::PageSet;
pub(crate) use slot_index::{ChainedIndex, ChainedSlots, KeyToSlotIndex, hash_key};
