//! Remap of one logical page: a bind (mapped to the source's physical page without a program), or a write if it cannot
//! be bound.

use crate::address::{Lpn, RemapMode};
use crate::data::{Content, Fingerprint};
use crate::error::Result;
use crate::ftl::Ftl;
use crate::mapping::Mapping;

impl Ftl {
    /// Maps logical page `target` to the content of `source`; [`RemapMode::Relocate`] then deallocates `source`. This
    /// is a bind without a program if the design shares pages and can record the bind, otherwise a write.
    ///
    /// # Errors
    /// Those of [`Ftl::read`], [`Ftl::write`] and [`Ftl::trim`]; `target` is unchanged if reading `source` fails.
    pub fn remap_page(&mut self, target: Lpn, source: Lpn, mode: RemapMode) -> Result<()> {
        self.require_in_range(target)?;
        self.require_in_range(source)?;
        if target == source {
            return Ok(());
        }
        self.retry_after_program_failure(|ftl| ftl.try_remap_page(target, source, mode))
    }

    /// Number of map accesses of a remap without a program, each of which may evict a dirty map entry: look-ups of
    /// source and target, and the update that unmaps the source. (The entry of the target is cached when it is
    /// updated.)
    const MAP_ACCESSES_PER_REMAP: u32 = 3;

    /// Maps `target` to the content of `source` by a bind (without a program), or by a write if it cannot be bound.
    fn try_remap_page(&mut self, target: Lpn, source: Lpn, mode: RemapMode) -> Result<()> {
        if self.is_buffered_for_chunk(source) || self.is_buffered_for_chunk(target) {
            self.write_buffered_chunk()?;
        }
        if self.sharing.is_some() && self.delta.is_some() && !self.merge_remap_source(source)? {
            return self.remap_by_writing(target, source, mode);
        }
        if self.sharing.is_some() {
            self.make_room_for_map_accesses(Self::MAP_ACCESSES_PER_REMAP)?;
            // An unmapped page holds nothing, so it is not read; an atomic remap does not read it either.
            let Some(unit) = self.mapping.lookup(&mut self.store, source)? else {
                return self.trim(target);
            };
            if self.bind(target, unit, (mode == RemapMode::Relocate).then_some(source))? {
                self.store.stats.remapped_pages += 1;
                return Ok(());
            }
        }
        self.remap_by_writing(target, source, mode)
    }

    /// Writes a page that could not be mapped to stored content without a program. Does not try deduplication, which
    /// would find the same stored page again. The new copy serves later writes of this content.
    pub(crate) fn write_after_failed_mapping_without_program(
        &mut self,
        lpn: Lpn,
        content: Content<'_>,
        fingerprint: Fingerprint,
    ) -> Result<()> {
        if self.sharing.is_none() {
            return self.write(lpn, content);
        }
        let pool = self.make_room_for_write()?;
        self.append_and_map_host_page(lpn, pool, content, fingerprint)
    }

    /// Remaps a logical page by a read and a program. Every design can do this; it is the fallback if the bind (mapping
    /// without a program) is impossible (Remap-SSD, section 4.3). A relocated source is trimmed. Each operation counts
    /// as a host operation. On a medium without bytes the fingerprint is copied, but not the known compressed size.
    fn remap_by_writing(&mut self, target: Lpn, source: Lpn, mode: RemapMode) -> Result<()> {
        let mut page = self.zero_filled_page();
        if !self.read(source, &mut page)? {
            return self.trim(target);
        }
        let identity = self.current_fingerprint_of(source, &page)?.unwrap_or(Fingerprint::ZERO_PAGE);
        self.write_after_failed_mapping_without_program(target, Content::of_page(&page, identity), identity)?;
        if mode == RemapMode::Relocate { self.trim(source) } else { Ok(()) }
    }
}
