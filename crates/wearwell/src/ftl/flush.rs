//! Writes data and metadata buffered in RAM to flash: at a flush command, at shutdown, and when content schemes
//! (compression, deltas) are switched off.

use crate::content::MechanismSet;
use crate::design::Persistence;
use crate::error::Result;
use crate::events::MetadataWriteReason;
use crate::ftl::Ftl;
use crate::mapping::Mapping;
use crate::nand::Nand;
use crate::store::Stream;

impl Ftl {
    /// Serves a flush command of the host: writes the logical pages buffered for the next compressed chunk and, if the
    /// L2P map is in NVRAM, the buffered deltas. Then synchronises the medium (makes earlier writes durable).
    ///
    /// # Errors
    /// Those of [`Ftl::write`].
    pub fn flush(&mut self) -> Result<()> {
        self.retry_after_program_failure(Self::write_buffered_chunk)?;
        if self.persistence == Persistence::NvramMap {
            self.retry_after_program_failure(Self::write_buffered_deltas)?;
        }
        self.apply_deferred_content_record_changes()?;
        self.store.nand_mut().sync()?;
        if let Some(stage) = &mut self.compression {
            stage.release_freed_chunk_numbers();
        }
        Ok(())
    }

    /// Switches the content schemes (deduplication, recycling, deltas, compression) of the design on or off at run
    /// time; those in `running` are on. Stored content keeps its form and stays readable. While deduplication and
    /// recycling are both off, the content index and the fingerprint store (hash tables of stored contents) record only
    /// sampled writes, but still drop content that is overwritten.
    ///
    /// # Errors
    /// Those of [`Ftl::write`]: pages buffered for a compressed chunk and deltas buffered for a page are written before
    /// their scheme is switched off.
    pub fn switch_content_mechanisms(&mut self, running: MechanismSet) -> Result<()> {
        self.flush_buffers_of_stopping_mechanisms(running)?;
        self.switch_mechanisms(running);
        Ok(())
    }

    /// Writes buffered deltas, map and page validity to flash, as a battery does at power loss, or a drive at a
    /// shutdown command. Needs free pages like any host write. Pages buffered for the next compressed chunk stay in
    /// RAM.
    ///
    /// # Errors
    /// Those of [`Ftl::write`].
    pub fn write_back_ram_state(&mut self) -> Result<()> {
        self.retry_after_program_failure(Self::try_write_back_ram_state)
    }

    /// Writes the buffered deltas, the map, and then page validity. A collection that makes room for a validity page
    /// moves data, which changes the map again, so the map is checked after room was made.
    fn try_write_back_ram_state(&mut self) -> Result<()> {
        self.write_buffered_deltas()?;
        self.write_back_map()?;
        while self.validity.is_on_flash() {
            self.make_room_in_metadata_stream(Stream::Validity, 1)?;
            if self.mapping.has_unwritten_changes() {
                self.write_back_map()?;
                continue;
            }
            self.report_opened_blocks_to_validity();
            if !self.validity.has_unwritten_records() {
                break;
            }
            self.store.flash_ops.record_metadata_reason(MetadataWriteReason::WriteBack);
            self.validity.flush_validity_buffer(&mut self.store)?;
            self.write_deferred_validity()?;
        }
        Ok(())
    }

    /// Writes the changes of the map that exist only in RAM to translation pages. If there are none, does not even run
    /// GC to get free pages: recovery calls this function when the state of the store is only partly rebuilt.
    fn write_back_map(&mut self) -> Result<()> {
        while self.mapping.has_unwritten_changes() {
            self.make_room_in_metadata_stream(
                Stream::Translation,
                self.mapping.max_metadata_pages_per_access().max(1),
            )?;
            self.mapping.write_back_step(&mut self.store)?;
            self.invalidate_identified_pages();
            self.write_deferred_validity()?;
        }
        Ok(())
    }

    /// Returns the maximum number of superseded versions of translation pages that are retained for recovery. When
    /// there are more, the RAM buffer of the validity store on flash is written, after which recovery no longer needs
    /// them (GeckoFTL, appendix C.2.2). The maximum is the number of invalidation reports that this buffer holds, which
    /// bounds the reads of a recovery, but at most 1/64 of the device's pages.
    pub(crate) fn max_retained_translation_page_versions(&self) -> usize {
        let spared = (self.store.geometry().pages() / 64).max(1);
        u64::from(self.validity.invalid_page_reports_per_flush()).min(spared) as usize
    }

    /// Returns the maximum number of page programs between two writes of the RAM buffer of the validity store on flash.
    /// Recovery reads only the newest pages, and would miss invalidation reports that stayed in the buffer longer.
    pub(crate) fn max_programs_between_validity_flushes(&self) -> u64 {
        4 * u64::from(self.validity.invalid_page_reports_per_flush())
    }

    /// Configures the block store to report newly opened blocks if page validity is on flash, and, if recovery needs
    /// this, to write metadata pages in order and to retain superseded versions of translation pages.
    pub(super) fn configure_store_for_flash_metadata(&mut self) {
        if self.validity.is_on_flash() {
            self.store.record_opened_data_blocks();
        }
        if self.persistence.recovery_compares_map_versions() {
            self.store.enable_metadata_programs_after_earlier_pages();
            if self.validity.is_on_flash() {
                self.store.enable_translation_version_retention();
            }
        }
    }
}
