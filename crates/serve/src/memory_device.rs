//! Live devices whose flash is in memory, for trials and tests. All data is lost when the process ends.

use wearwell::DeviceOptions;
use wearwell::nand::{RetainedPageFields, SimNand};
use wearwell_config::{Config, ConfigError};

use crate::device::{DriveHealthFacts, FlashDevice};
use crate::device_error::DeviceError;
use crate::explicit_config::make_config_explicit;
use crate::live_device::LiveDevice;

/// Design and configuration of a live device in memory.
#[derive(Clone, PartialEq, Debug)]
pub struct MemoryDeviceSpecification {
    /// Name of the design of the device.
    pub design: String,
    /// Configuration of the device. Every value that was derived from a size is explicit here, so that a replay with
    /// this configuration runs on an equal device.
    pub config: Config,
}

impl MemoryDeviceSpecification {
    /// Makes the specification of a device in memory that exports `size_bytes` bytes. `None` means the size of the
    /// preset that the configuration names.
    ///
    /// # Errors
    /// [`ConfigError`]: there is neither a size nor a preset, the size is not a whole number of pages, or an error of
    /// [`Config::resolve_device`].
    pub fn new(design: &str, mut config: Config, size_bytes: Option<u64>) -> Result<Self, ConfigError> {
        let resolved = make_config_explicit(&mut config, size_bytes)?;
        config.design_parts(design, &resolved)?;
        Ok(Self { design: design.to_owned(), config })
    }

    /// Builds a device in memory that holds no data yet.
    ///
    /// # Errors
    /// [`DeviceError::Invalid`] with the reason for which the engine refuses the design or the configuration.
    pub fn build(&self) -> Result<FlashDevice, DeviceError> {
        let invalid = |error: ConfigError| DeviceError::Invalid(error.to_string());
        let resolved = self.config.resolve_device(1).map_err(invalid)?;
        let parts = self.config.design_parts(&self.design, &resolved).map_err(invalid)?;
        let nvram_bytes = parts.total_nvram_bytes(&resolved.geometry, resolved.logical_pages);
        let nand = SimNand::new(resolved.geometry, RetainedPageFields::ALL).with_nvram(nvram_bytes);
        let options = DeviceOptions { buffer: self.config.configured_write_buffer() };
        let device = LiveDevice::new(nand, resolved.logical_pages, &parts, options)?;
        let identity = DriveHealthFacts {
            design: self.design.clone(),
            endurance_cycles: resolved.endurance_cycles,
            power_cycles: 1,
            unsafe_shutdowns: 0,
        };
        FlashDevice::new(device, identity)
    }
}
