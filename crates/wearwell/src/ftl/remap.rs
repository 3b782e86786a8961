//! The remap of one page: a bind, or a write where it cannot be bound.

use crate::address::{Lpn, RemapMode};
use crate::data::{Content, Fingerprint};
use crate::error::Result;
use crate::ftl::Ftl;
use crate::mapping::Mapping;
use crate::nand::Nand;

impl<N: Nand> Ftl<N> {
    /// Gives `target` the content of `source`; `source` loses it if it is relocated. A bind where the design shares
    /// pages and can record it, else a write.
    ///
    /// # Errors
    /// Those of [`Ftl::read`], [`Ftl::write`] and [`Ftl::trim`]; the target is untouched if a read fails.
    pub fn remap_page(&mut self, target: Lpn, source: Lpn, mode: RemapMode) -> Result<()> {
        self.require_in_range(target)?;
        self.require_in_range(source)?;
        if target == source {
            return Ok(());
        }
        self.retry_after_program_failure(|ftl| ftl.remap_once(target, source, mode))
    }

    fn remap_once(&mut self, target: Lpn, source: Lpn, mode: RemapMode) -> Result<()> {
        if self.is_pending(source) || self.is_pending(target) {
            self.commit_chunk()?;
        }
        if self.sharing.is_some() && self.delta.is_some() && !self.merge_source(source)? {
            return self.remap_by_writing(target, source, mode);
        }
        if self.sharing.is_some() {
            self.make_room_for_metadata()?;
            if let Some(unit) = self.mapping.lookup(&mut self.store, source)?
                && self.bind(target, unit, (mode == RemapMode::Relocate).then_some(source))?
            {
                self.store.stats.remapped_pages += 1;
                return Ok(());
            }
        }
        self.remap_by_writing(target, source, mode)
    }

    /// Writes what could not be bound. Deduplication would find the same page and be refused again; the new copy serves the
    /// next writes of this content.
    pub(crate) fn write_demoted(
        &mut self,
        lpn: Lpn,
        content: Content<'_>,
        fingerprint: Fingerprint,
    ) -> Result<()> {
        if self.sharing.is_none() {
            return self.write(lpn, content);
        }
        let pool = self.make_room_for_write()?;
        self.write_page(lpn, pool, content, fingerprint)?;
        self.drop_buffered(lpn);
        Ok(())
    }

    /// The form every design has, the one that a remap is demoted to (Remap-SSD, section 4.3): one read and one
    /// program, and a trim of the source if it is relocated, each counted as the host's. On a medium without bytes the
    /// identity is copied, not what is known of its compressed size.
    fn remap_by_writing(&mut self, target: Lpn, source: Lpn, mode: RemapMode) -> Result<()> {
        let mut page = self.blank_page();
        if !self.read(source, &mut page)? {
            return self.trim(target);
        }
        let identity = self.fingerprint_of(source)?.unwrap_or(Fingerprint::ZERO_PAGE);
        self.write_demoted(target, Content::of_page(&page, identity), identity)?;
        if mode == RemapMode::Relocate { self.trim(source) } else { Ok(()) }
    }
}
