//! A drive that a program controls request by request: for teaching, for notebooks, and for testing a mechanism from
//! outside.
//!
//! The drive is the one of a replay, but the bytes of its pages are kept, and its power can be cut at any flash
//! operation. The calling program acts as the host. There is no trace, no clock, no preconditioning and no lifetime
//! manager, and settings of these are refused.
//!
//! [`SteppedDrive`] only passes requests on.

use wearwell::address::RemapMode;
use wearwell::design::Parts;
use wearwell::device::HostData;
use wearwell::flash_view::FlashStateView;
use wearwell::gc::UserVictimPolicy;
use wearwell::nand::{CutOutcome, Geometry, PowerCutNand, RetainedPageFields, SimNand};
use wearwell::operation::FlashOp;
use wearwell::recovery::RecoveryReport;
use wearwell::stats::Stats;
use wearwell::{Device, DeviceOptions, Result};
use wearwell_config::{Config, ConfigError, ResolvedDevice};

/// A simulated drive that serves the requests of a program one by one, keeps the bytes of its pages, and can lose
/// power.
///
/// While it has no power, each request that needs flash fails with an error for which
/// [`Error::is_power_loss`](wearwell::Error::is_power_loss) is true.
#[derive(Debug)]
pub struct SteppedDrive {
    /// Drive over simulated flash whose power can be cut.
    device: Device,
}

impl SteppedDrive {
    /// Creates a new, empty drive of `design`. The preset `auto` sizes the drive to a footprint of `footprint_pages`
    /// pages of 4 KiB.
    ///
    /// # Errors
    /// A setting that has no effect on a drive without trace, clock and preconditioning; the errors of
    /// [`Config::resolve_device`] and [`Config::design_parts`]; parts that the engine refuses.
    pub fn new(
        config: &Config,
        design: &str,
        footprint_pages: u64,
    ) -> std::result::Result<Self, ConfigError> {
        if let Some(setting) = config.setting_ignored_by_stepped_drive() {
            return Err(ConfigError::InvalidValue(format!(
                "{} has no effect, because {}: leave it out",
                setting.key, setting.reason
            )));
        }
        let resolved = config.resolve_device(footprint_pages)?;
        let parts = config.design_parts(design, &resolved)?;
        let mut device = drive_of_parts(config, &resolved, &parts)
            .map_err(|error| ConfigError::InvalidValue(error.to_string()))?;
        device.ftl_mut().store_mut().flash_ops.set_op_recording(true);
        Ok(Self { device })
    }

    /// Returns the geometry of the drive's flash.
    pub fn geometry(&self) -> &Geometry {
        self.device.ftl().store().geometry()
    }

    /// Returns the number of pages that are exported to the host.
    pub fn logical_pages(&self) -> u32 {
        self.device.ftl().logical_pages()
    }

    /// Returns the counters of the drive since it was new.
    pub fn stats(&self) -> &Stats {
        self.device.ftl().stats()
    }

    /// Returns how many bytes of RAM a controller needs for the drive, by data structure; see
    /// [`Device::ram_bytes_by_structure`].
    pub fn ram_bytes_by_structure(&self) -> Vec<(&'static str, u64)> {
        self.device.ram_bytes_by_structure()
    }

    /// Returns the flash operations since [`SteppedDrive::clear_flash_ops`], in order. Operations for which no request
    /// waits come last.
    pub fn flash_ops(&self) -> impl Iterator<Item = &FlashOp> {
        self.device.flash_ops_of_last_request().iter().chain(self.device.deferred_flash_ops())
    }

    /// Empties the list of recorded flash operations.
    pub fn clear_flash_ops(&mut self) {
        self.device.ftl_mut().store_mut().flash_ops.clear();
    }

    /// Makes garbage collection call `policy` to choose its victims; see [`wearwell::Ftl::set_user_victim_policy`].
    pub fn set_user_victim_policy(&mut self, policy: UserVictimPolicy) {
        self.device.ftl_mut().set_user_victim_policy(Some(policy));
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

    /// Gives `len` bytes at `target_offset` the contents of the bytes at `source_offset`; see [`Device::remap`].
    ///
    /// # Errors
    /// Those of [`Device::remap`].
    pub fn remap(&mut self, target_offset: u64, source_offset: u64, len: u64, mode: RemapMode) -> Result<()> {
        self.device.remap(target_offset, source_offset, len, mode)
    }

    /// Makes every acknowledged write durable; see [`Device::flush`].
    ///
    /// # Errors
    /// Those of [`Device::flush`].
    pub fn flush(&mut self) -> Result<()> {
        self.device.flush()
    }

    /// Returns the state of all flash pages, blocks and logical pages; see [`Device::flash_view`].
    ///
    /// # Errors
    /// Those of [`Device::flash_view`].
    pub fn flash_view(&mut self) -> Result<FlashStateView> {
        self.device.flash_view()
    }

    /// Checks every invariant of the engine. Costs a scan of the whole drive.
    ///
    /// # Errors
    /// A sentence about the first invariant that does not hold.
    pub fn check(&mut self) -> std::result::Result<(), String> {
        self.device.ftl_mut().check()
    }

    /// Whether the drive has no power.
    pub fn is_power_lost(&self) -> bool {
        self.device.ftl().store().nand().power_cut_nand().is_power_lost()
    }

    /// Cuts power at once, between two flash operations.
    pub fn cut_power_now(&mut self) {
        self.nand_mut().cut_now();
    }

    /// Cuts power after `operations` further programs, erases and NVRAM stores. The next operation is interrupted, with
    /// this outcome.
    pub fn cut_power_after(&mut self, operations: u64, outcome: CutOutcome) {
        self.nand_mut().cut_after(operations, outcome);
    }

    /// Restores power and recovers the drive. `next_cut` cuts power again during the recovery, after this number of
    /// operations and with this outcome; if the recovery does not reach the cut, it is cancelled.
    ///
    /// # Errors
    /// Those of [`Device::recover`], the loss of power included.
    pub fn recover(&mut self, next_cut: Option<(u64, CutOutcome)>) -> Result<RecoveryReport> {
        self.nand_mut().restore_power(None);
        if let Some((operations, outcome)) = next_cut {
            self.nand_mut().cut_after(operations, outcome);
        }
        let report = self.device.recover()?;
        self.nand_mut().restore_power(None);
        Ok(report)
    }

    /// Returns the simulated flash of the drive, by which power is cut and restored.
    fn nand_mut(&mut self) -> &mut PowerCutNand {
        self.device.ftl_mut().store_mut().nand_mut().power_cut_nand_mut()
    }
}

/// Creates a new, empty drive of the design parts `parts`. The drive keeps the bytes of its pages, and its power can be
/// cut.
///
/// # Errors
/// Those of [`Device::new`].
pub(crate) fn drive_of_parts(config: &Config, resolved: &ResolvedDevice, parts: &Parts) -> Result<Device> {
    let mut nand = SimNand::new(resolved.geometry.clone(), RetainedPageFields::ALL)
        .with_nvram(parts.total_nvram_bytes(&resolved.geometry, resolved.logical_pages))
        .with_factory_bad_blocks(config.factory_bad_blocks(&resolved.geometry));
    if config.device.wear_out == Some(true) {
        nand = nand.with_endurance(resolved.endurance_cycles);
    }
    let nand = PowerCutNand::new(nand, None, CutOutcome::NoEffect);
    let options = DeviceOptions { buffer: config.write_buffer_options(&resolved.geometry) };
    let mut device = Device::new(nand, resolved.logical_pages, parts, options)?;
    device.ftl_mut().store_mut().set_striping(config.striping_name().into());
    Ok(device)
}
