//! Writes of many pages whose content nobody looks at: table after table instead of page after page.
//!
//! A write alone asks every part whether it has anything to do with it, and waits for one look-up after the other. Where
//! map and validity are tables in RAM and no stage looks at content, all answers are known before, and what is left is
//! four loops over small arrays, whose cache misses overlap by themselves. The price is a second way of a write. It is
//! taken only while nothing else happens (see `store/runs.rs`), and leaves exactly what [`Ftl::write`] would.

use crate::address::{Address, Lpn, Ppn, Unit};
use crate::data::{Content, Descriptor, Fingerprint};
use crate::error::Result;
use crate::ftl::Ftl;
use crate::mapping::AnyMapping;
use crate::nand::Nand;

/// Pages mapped together: the more, the seldomer a loop waits for its last misses; their lines still fit the first-level
/// cache.
const TOGETHER: usize = 128;

impl<N: Nand> Ftl<N> {
    /// Whether writes in runs are faster than writes one by one.
    #[inline]
    pub fn writes_in_runs(&self) -> bool {
        let is_flat = matches!(&self.mapping, AnyMapping::Flat(map) if !map.is_mirrored());
        is_flat && !self.validity.is_on_flash() && !self.looks_at_content()
    }

    /// Writes pages in order, with content that no design needs to know; how many were written before the outcome.
    ///
    /// # Errors
    /// As [`Ftl::write`].
    pub fn write_run(&mut self, lpns: &[Lpn]) -> (usize, Result<()>) {
        let mut done = 0;
        while done < lpns.len() {
            let rest = &lpns[done..];
            let (written, outcome) = self.write_some(&rest[..rest.len().min(TOGETHER)]);
            done += written;
            if outcome.is_err() {
                return (done, outcome);
            }
        }
        (done, Ok(()))
    }

    /// As many of `lpns` as go together, or one.
    #[inline]
    fn write_some(&mut self, lpns: &[Lpn]) -> (usize, Result<()>) {
        if self.writes_in_runs() && lpns.iter().all(|lpn| lpn.0 < self.logical_pages) {
            let mut places = [Ppn(0); TOGETHER];
            let low_blocks = self.collector.options.low_blocks;
            let (written, outcome) = self.store.append_run(lpns, low_blocks, &mut places);
            self.map_run(&lpns[..written], &places[..written]);
            if written > 0 || outcome.is_err() {
                return (written, outcome);
            }
        }
        let content = Content::Descriptor(Descriptor::of(Fingerprint::ZERO_PAGE));
        let written = self.write(lpns[0], content);
        (usize::from(written.is_ok()), written)
    }

    /// Maps pages to the places where they were appended, and calls the old places invalid.
    #[inline]
    fn map_run(&mut self, lpns: &[Lpn], places: &[Ppn]) {
        let (AnyMapping::Flat(map), Some(bitmap)) = (&mut self.mapping, self.validity.ram_mut()) else {
            unreachable!("runs are written where map and validity are tables in RAM")
        };
        let mut units = [Unit::NONE; TOGETHER];
        let units = &mut units[..places.len()];
        units.iter_mut().zip(places).for_each(|(unit, &place)| *unit = place.into());
        map.exchange(lpns, units);
        let old = || units.iter().filter_map(|unit| unit.some()).map(|unit| Ppn(unit.0));
        for &place in places {
            bitmap.set(place);
        }
        bitmap.prefetch(old());
        self.store.prefetch_valid_counts(old());
        old().for_each(|page| bitmap.clear(page));
        old().for_each(|page| self.store.discard(page));
        self.store.stats.host_page_writes += places.len() as u64;
    }
}
