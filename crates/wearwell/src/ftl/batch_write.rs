//! Host writes of many pages in which no content mechanism takes part, processed table by table instead of page by
//! page.
//!
//! A single write queries every component of the FTL, and each look-up waits for the one before. If map and validity
//! are tables in RAM and no content stage is present, all those queries have known answers, and four loops over small
//! arrays remain, whose cache misses overlap by themselves. The price is a second write path. It is taken only while no
//! block opens or closes and no GC is due (see `store/batch_append.rs`), and leaves exactly the state that
//! [`Ftl::write`] would.

use crate::address::{Lpn, OptionalAddress, Ppn, StoredUnit};
use crate::data::{Content, ContentDescriptor, Fingerprint};
use crate::error::Result;
use crate::ftl::Ftl;
use crate::mapping::AnyMapping;

/// Number of host pages that a batch of writes handles together, with one loop over all pages for each table (map,
/// validity, blocks). Longer loops lose less time to the cache misses at their ends, but the cache lines of 128 pages
/// still fit the first-level cache of the processor.
const WRITES_PER_BATCH: usize = 128;

impl Ftl {
    /// Returns whether this design can write batches of pages by [`Self::write_page_batch`], which updates each RAM
    /// table once for the whole batch. It can if its L2P map is a plain table in RAM, validity is in RAM, and it has no
    /// content mechanism (such as deduplication).
    #[inline]
    pub fn supports_write_batches(&self) -> bool {
        let is_flat = matches!(&self.mapping, AnyMapping::Flat(map) if !map.has_nvram_copy());
        is_flat && !self.validity.is_on_flash() && !self.has_content_mechanisms()
    }

    /// Writes the logical pages `lpns` in order, on a design that ignores the content of pages
    /// ([`Self::supports_write_batches`]). Returns how many were written, and the error that ended the batch, if any.
    ///
    /// # Errors
    /// Those of [`Ftl::write`].
    pub fn write_page_batch(&mut self, lpns: &[Lpn]) -> (usize, Result<()>) {
        let mut done = 0;
        while done < lpns.len() {
            let rest = &lpns[done..];
            let (written, outcome) = self.write_batch_prefix(&rest[..rest.len().min(WRITES_PER_BATCH)]);
            done += written;
            if outcome.is_err() {
                return (done, outcome);
            }
        }
        (done, Ok(()))
    }

    /// Writes as many of the pages `lpns` together as fit the current open blocks, or only the first page if none can
    /// be written together. Returns how many were written.
    #[inline]
    fn write_batch_prefix(&mut self, lpns: &[Lpn]) -> (usize, Result<()>) {
        if self.supports_write_batches() && lpns.iter().all(|lpn| lpn.0 < self.logical_pages) {
            let mut places = [Ppn(0); WRITES_PER_BATCH];
            let low_blocks = self.collector.options.gc_start_free_blocks;
            let (written, outcome) = self.store.append_host_pages(lpns, low_blocks, &mut places);
            self.map_batch(&lpns[..written], &places[..written]);
            if written > 0 || outcome.is_err() {
                return (written, outcome);
            }
        }
        let content = Content::Descriptor(ContentDescriptor::of_fingerprint(Fingerprint::ZERO_PAGE));
        let written = self.write(lpns[0], content);
        (usize::from(written.is_ok()), written)
    }

    /// Maps the logical pages `lpns` to `places`, the physical pages to which they were appended, and invalidates the
    /// physical pages to which they were mapped before.
    #[inline]
    fn map_batch(&mut self, lpns: &[Lpn], places: &[Ppn]) {
        let (AnyMapping::Flat(map), Some(bitmap)) = (&mut self.mapping, self.validity.as_ram_bitmap_mut())
        else {
            unreachable!("runs are written where map and validity are tables in RAM")
        };
        let mut units = [StoredUnit::NONE; WRITES_PER_BATCH];
        let units = &mut units[..places.len()];
        units.iter_mut().zip(places).for_each(|(unit, &place)| *unit = place.into());
        map.exchange_units(lpns, units);
        let old = || units.iter().filter_map(|unit| unit.to_option()).map(|unit| Ppn(unit.0));
        for &place in places {
            bitmap.mark_valid(place);
        }
        if bitmap.exceeds_cpu_cache() {
            bitmap.prefetch(old());
            self.store.prefetch_valid_counts(old());
        }
        old().for_each(|page| bitmap.mark_invalid(page));
        old().for_each(|page| self.store.count_page_invalid(page));
        self.store.stats.host_page_writes += places.len() as u64;
    }
}
