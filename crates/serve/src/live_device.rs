//! The engine (FTL and write buffer) over the medium of a live device: flash in memory, or in the files of an image.
//!
//! The medium is chosen while the program runs. The engine knows it as an [`AnyNand`]; [`LiveDevice`] remembers how to
//! get back to what a server does with its medium ([`Medium`]).

use wearwell::address::{Lpn, Ppn, RemapMode};
use wearwell::design::Parts;
use wearwell::device::HostData;
use wearwell::logical_page_form::LogicalPageForm;
use wearwell::nand::{AnyNand, Geometry};
use wearwell::recovery::RecoveryReport;
use wearwell::stats::Stats;
use wearwell::{Device, DeviceOptions, Ftl, Result, ScrubProgress};

use crate::medium::Medium;

/// Device (flash, FTL and write buffer) over any [`Medium`] that stores the bytes of all pages.
#[derive(Debug)]
pub struct LiveDevice {
    /// The engine's device.
    device: Device,
    /// Returns the medium of the device, for reading.
    medium_of: fn(&AnyNand) -> &dyn Medium,
    /// Returns the medium of the device, for changes.
    medium_of_mut: fn(&mut AnyNand) -> &mut dyn Medium,
}

/// Why the medium of a live device has the type with which the device was built.
const MEDIUM_TYPE: &str = "a device keeps the medium on which it was built";

impl LiveDevice {
    /// Creates a device over `medium`; see [`Device::new`].
    ///
    /// # Errors
    /// Those of [`Device::new`].
    pub fn new<M: Medium + Into<AnyNand>>(
        medium: M,
        logical_pages: u32,
        parts: &Parts,
        options: DeviceOptions,
    ) -> Result<Self> {
        Ok(Self {
            device: Device::new(medium, logical_pages, parts, options)?,
            medium_of: |nand| nand.downcast_ref::<M>().expect(MEDIUM_TYPE),
            medium_of_mut: |nand| nand.downcast_mut::<M>().expect(MEDIUM_TYPE),
        })
    }

    /// Returns the medium: flash in memory or in the files of an image.
    pub fn medium(&self) -> &dyn Medium {
        (self.medium_of)(self.ftl().store().nand())
    }

    /// Returns the medium of the device for changes.
    pub fn medium_mut(&mut self) -> &mut dyn Medium {
        (self.medium_of_mut)(self.device.ftl_mut().store_mut().nand_mut())
    }

    /// Returns the medium and drops the device. Data that is only in the RAM of the device is lost.
    pub fn into_medium(self) -> AnyNand {
        self.device.into_nand()
    }

    /// Returns the FTL of the device, for queries.
    pub fn ftl(&self) -> &Ftl {
        self.device.ftl()
    }

    /// Returns the geometry of the flash.
    pub fn geometry(&self) -> &Geometry {
        self.ftl().store().geometry()
    }

    /// Returns the size of a logical page, bytes.
    pub fn page_bytes(&self) -> u64 {
        u64::from(self.geometry().page_bytes)
    }

    /// Returns the exported capacity of the device, bytes.
    pub fn capacity_bytes(&self) -> u64 {
        self.device.capacity_bytes()
    }

    /// Returns the counters of the device.
    pub fn stats(&self) -> &Stats {
        self.ftl().stats()
    }

    /// Sets all counters of the device to 0.
    pub fn clear_stats(&mut self) {
        self.device.ftl_mut().clear_stats();
    }

    /// Returns the number of host page writes that were merged in the write buffer, so that the FTL did not see them.
    pub fn absorbed_writes(&self) -> u64 {
        self.device.absorbed_writes()
    }

    /// Returns how many bytes of RAM a controller needs for the device, by data structure; see
    /// [`Device::ram_bytes_by_structure`].
    pub fn ram_bytes_by_structure(&self) -> Vec<(&'static str, u64)> {
        self.device.ram_bytes_by_structure()
    }

    /// Writes `bytes` at byte `offset`; see [`Device::write`].
    ///
    /// # Errors
    /// Those of [`Device::write`].
    pub fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.device.write(offset, bytes.len() as u64, HostData::Bytes(bytes))
    }

    /// Reads the bytes at byte `offset` into `into`; see [`Device::read`].
    ///
    /// # Errors
    /// Those of [`Device::read`].
    pub fn read(&mut self, offset: u64, into: &mut [u8]) -> Result<()> {
        self.device.read(offset, into.len() as u64, into)
    }

    /// Deallocates the logical pages within `len` bytes at byte `offset`; see [`Device::trim`].
    ///
    /// # Errors
    /// Those of [`Device::trim`].
    pub fn trim(&mut self, offset: u64, len: u64) -> Result<()> {
        self.device.trim(offset, len)
    }

    /// Gives the `len` bytes at byte `target` the contents of the `len` bytes at byte `source`; see [`Device::remap`].
    ///
    /// # Errors
    /// Those of [`Device::remap`].
    pub fn remap(&mut self, target: u64, source: u64, len: u64, mode: RemapMode) -> Result<()> {
        self.device.remap(target, source, len, mode)
    }

    /// Returns which part of a remap command was executed before the command failed, and forgets it. The result is the
    /// offset of the part within the `len` bytes, and its length; see [`Device::take_executed_part_of_failed_remap`].
    pub fn take_executed_part_of_failed_remap(&mut self, target: u64, source: u64, len: u64) -> (u64, u64) {
        self.device.take_executed_part_of_failed_remap(target, source, len)
    }

    /// Makes every acknowledged write durable; see [`Device::flush`].
    ///
    /// # Errors
    /// Those of [`Device::flush`].
    pub fn flush(&mut self) -> Result<()> {
        self.device.flush()
    }

    /// Recovers the device (maps and counters) from the contents of its flash and its NVRAM; see [`Device::recover`].
    ///
    /// # Errors
    /// Those of [`Device::recover`].
    pub fn recover(&mut self) -> Result<RecoveryReport> {
        self.device.recover()
    }

    /// Splits a range of bytes into the lengths before, of and after its whole pages, bytes; see
    /// [`Device::split_at_page_boundaries`].
    pub fn split_at_page_boundaries(&self, offset: u64, len: u64) -> [u64; 3] {
        self.device.split_at_page_boundaries(offset, len)
    }

    /// Returns the form in which logical page `lpn` is stored, such as a hole or a delta. Does no flash operation.
    pub fn logical_page_form(&self, lpn: Lpn) -> LogicalPageForm {
        self.device.logical_page_form(lpn)
    }

    /// Returns the number of logical pages that hold data; see [`Ftl::count_mapped_lpns`].
    ///
    /// # Errors
    /// Those of [`Ftl::count_mapped_lpns`].
    pub fn count_mapped_lpns(&mut self) -> Result<u64> {
        self.device.ftl_mut().count_mapped_lpns()
    }

    /// Checks every invariant of the engine; see [`Ftl::check`].
    ///
    /// # Errors
    /// A sentence about the first invariant that does not hold.
    pub fn check(&mut self) -> std::result::Result<(), String> {
        self.device.ftl_mut().check()
    }

    /// Reads up to `most_pages` of the flash pages in use, from page `first` on, to find damage; see
    /// [`Ftl::scrub_step`].
    ///
    /// # Errors
    /// Those of [`Ftl::scrub_step`].
    pub fn scrub(&mut self, first: Ppn, most_pages: u32) -> Result<ScrubProgress> {
        self.device.ftl_mut().scrub_step(first, most_pages)
    }

    /// Erases up to `most_blocks` blocks without valid pages; see [`Ftl::erase_blocks_without_valid_pages`].
    ///
    /// # Errors
    /// Those of [`Ftl::erase_blocks_without_valid_pages`].
    pub fn erase_blocks_without_valid_pages(&mut self, most_blocks: u32) -> Result<u32> {
        self.device.ftl_mut().erase_blocks_without_valid_pages(most_blocks)
    }

    /// Returns the logical pages that are known to be lost, each with the flash page that cannot be read; see
    /// [`Ftl::lost_logical_pages`].
    pub fn lost_logical_pages(&mut self) -> Vec<(Lpn, Ppn)> {
        self.device.ftl_mut().lost_logical_pages()
    }

    /// Records that flash page `ppn` cannot be read.
    pub fn report_unreadable_page(&mut self, ppn: Ppn) {
        self.device.ftl_mut().store_mut().report_unreadable_page(ppn);
    }

    /// Returns the flash pages that were found unreadable since the last call of this function.
    pub fn take_found_unreadable_pages(&mut self) -> Vec<Ppn> {
        self.device.ftl_mut().store_mut().take_found_unreadable_pages()
    }

    /// Whether flash page `ppn` may hold data that is still needed; see [`Ftl::may_hold_needed_data`].
    ///
    /// # Errors
    /// Those of [`Ftl::may_hold_needed_data`].
    pub fn may_hold_needed_data(&mut self, ppn: Ppn) -> Result<bool> {
        self.device.ftl_mut().may_hold_needed_data(ppn)
    }
}
