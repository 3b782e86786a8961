//! What volatile parts hold goes to flash: at a flush, and when content schemes are switched.

use crate::design::Persistence;
use crate::error::Result;
use crate::ftl::Ftl;
use crate::lifetime::{ContentSchemes, SchemeKind};
use crate::mapping::Mapping;
use crate::nand::Nand;
use crate::store::Stream;

impl<N: Nand> Ftl<N> {
    /// The host asks for durability: what waits for company is written without.
    ///
    /// # Errors
    /// As [`Ftl::write`].
    pub fn flush(&mut self) -> Result<()> {
        self.retry_after_program_failure(Self::commit_chunk)?;
        if self.persistence == Persistence::NvramMap {
            self.retry_after_program_failure(Self::write_staged_deltas)?;
        }
        self.store.nand_mut().sync()?;
        if let Some(stage) = &mut self.chunks {
            stage.synced();
        }
        Ok(())
    }

    /// Switches schemes on and off at run time, where they are part of the design. What is stored stays as it is and is looked
    /// after as before; index and store learn little of what is written while both are off, but forget what dies.
    ///
    /// # Errors
    /// As [`Ftl::write`]: what waits for a chunk or a page of deltas is written before its scheme goes off.
    pub fn switch_schemes(&mut self, running: ContentSchemes) -> Result<()> {
        if !running.contains(SchemeKind::Delta) {
            self.retry_after_program_failure(Self::write_staged_deltas)?;
        }
        if !running.contains(SchemeKind::Compression) {
            self.retry_after_program_failure(Self::commit_chunk)?;
        }
        if let Some(sharing) = &mut self.sharing {
            sharing.deduplicates = running.contains(SchemeKind::Dedup);
        }
        if let Some(stage) = &mut self.recycle {
            stage.is_on = running.contains(SchemeKind::Recycle);
        }
        if let Some(stage) = &mut self.delta {
            stage.is_on = running.contains(SchemeKind::Delta);
        }
        if let Some(stage) = &mut self.chunks {
            stage.is_on = running.contains(SchemeKind::Compression);
        }
        Ok(())
    }

    /// Writes everything that exists only in RAM to flash, as a battery would at power loss or a shutdown command
    /// does. Needs room like any other write.
    ///
    /// # Errors
    /// As [`Ftl::write`].
    pub fn write_back(&mut self) -> Result<()> {
        self.retry_after_program_failure(Self::write_all_back)
    }

    fn write_all_back(&mut self) -> Result<()> {
        self.write_staged_deltas()?;
        // With nothing to write, no room is made: recovery repeats this step on a store that it has half forgotten.
        while self.mapping.has_unwritten() {
            self.require_metadata(Stream::Translation, self.mapping.pages_per_update().max(1))?;
            self.mapping.write_back(&mut self.store)?;
            self.invalidate_identified();
            self.write_deferred_validity()?;
        }
        while self.validity.is_on_flash() {
            self.require_metadata(Stream::Validity, 1)?;
            self.report_opened_blocks();
            if !self.validity.has_unwritten() {
                break;
            }
            self.validity.flush(&mut self.store)?;
            self.write_deferred_validity()?;
        }
        Ok(())
    }

    /// Old versions of translation pages that are kept for recovery at the most: when there are more, what was called
    /// invalid since is written, and they are not needed any more (GeckoFTL, appendix C.2.2). As many as the buffer takes
    /// reports, which bounds what recovery reads; a small device cannot spare as many pages.
    pub(crate) fn retained_limit(&self) -> usize {
        let spared = (self.store.geometry().pages() / 64).max(1);
        u64::from(self.validity.entries_per_flush()).min(spared) as usize
    }

    /// Programs between two writes of the validity buffer at the most: what is in it longer, a recovery that reads the
    /// newest pages would not find.
    pub(crate) fn longest_without_flush(&self) -> u64 {
        4 * u64::from(self.validity.entries_per_flush())
    }

    /// Tells the store what this design wants to hear of it.
    pub(super) fn watch_store(&mut self) {
        if self.validity.is_on_flash() {
            self.store.note_opened();
        }
        if self.persistence.compares_versions() && self.validity.is_on_flash() {
            self.store.retain_translation_versions();
        }
    }
}
