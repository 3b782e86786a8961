//! A device in memory: for trying out, and for tests. It forgets everything when the process ends.

use wearwell::nand::{Retain, SimNand};
use wearwell::{Device, DeviceOptions};
use wearwell_replay::config::{Config, ConfigError};

use crate::device::{DeviceError, FlashDevice, Identity};

/// What a device in memory consists of.
#[derive(Clone, PartialEq, Debug)]
pub struct Specification {
    /// Name of the design.
    pub design: String,
    /// Layout and options. Everything that was derived from a size is explicit, so that a replay with this configuration
    /// runs on the same device.
    pub config: Config,
}

impl Specification {
    /// A device of `size_bytes`, or of the size of the preset that the configuration names.
    ///
    /// # Errors
    /// [`ConfigError`]: neither a size nor a preset, a size that is no number of pages, what [`Config::resolve`] says.
    pub fn new(design: &str, mut config: Config, size_bytes: Option<u64>) -> Result<Self, ConfigError> {
        require_meaning(&config)?;
        // 64-bit fingerprints are no proof that bytes are equal.
        config.remap.verify_on_hit = true;
        config.recycle.verify_on_hit = true;
        config.lifetime.verify_on_hit = true;
        let resolved = match size_bytes {
            Some(bytes) => sized(&mut config, bytes)?,
            None if config.device.preset.is_none() && config.device.logical_pages.is_none() => {
                return Err(ConfigError::Value("how large? give a size, or a preset of a fixed one".into()));
            }
            None => config.resolve(config.device.logical_pages.unwrap_or(1).into())?,
        };
        let device = &mut config.device;
        let geometry = &resolved.geometry;
        device.preset = Some(resolved.preset.clone());
        device.channels = Some(geometry.channels);
        device.dies_per_channel = Some(geometry.dies_per_channel);
        device.planes_per_die = Some(geometry.planes_per_die);
        device.blocks_per_plane = Some(geometry.blocks_per_plane);
        device.pages_per_block = Some(geometry.pages_per_block);
        device.page_bytes = Some(geometry.page_bytes);
        device.spare_bytes = Some(geometry.spare_bytes);
        device.superblock_planes = Some(geometry.superblock_planes);
        device.logical_pages = Some(resolved.logical_pages);
        device.fit = None;
        config.parts(design, &resolved)?;
        Ok(Self { design: design.to_owned(), config })
    }

    /// The device, empty.
    ///
    /// # Errors
    /// [`DeviceError::Invalid`] with what the engine has against it.
    pub fn build(&self) -> Result<FlashDevice<SimNand>, DeviceError> {
        let invalid = |error: ConfigError| DeviceError::Invalid(error.to_string());
        let resolved = self.config.resolve(1).map_err(invalid)?;
        let parts = self.config.parts(&self.design, &resolved).map_err(invalid)?;
        let nvram_bytes = parts.nvram_bytes(resolved.geometry.page_bytes);
        let nand = SimNand::new(resolved.geometry, Retain::ALL).with_nvram(nvram_bytes);
        let options = DeviceOptions { buffer: self.config.buffer() };
        let device = Device::new(nand, resolved.logical_pages, &parts, options)?;
        let identity = Identity {
            design: self.design.clone(),
            endurance_cycles: resolved.endurance_cycles,
            power_cycles: 1,
            unsafe_shutdowns: 0,
        };
        FlashDevice::new(device, identity)
    }
}

/// Settings that belong to replays are refused rather than ignored.
fn require_meaning(config: &Config) -> Result<(), ConfigError> {
    let defaults = Config::default();
    let settings = [
        ("device.factory_bad_share", config.device.factory_bad_share.is_some_and(|share| share > 0.0)),
        ("device.wear_out", config.device.wear_out == Some(true)),
        ("precondition", config.precondition != defaults.precondition),
        ("content", config.content != defaults.content),
        ("timing.mode", config.timing.mode != defaults.timing.mode),
    ];
    match settings.into_iter().find(|&(_, is_set)| is_set) {
        Some((name, _)) => Err(ConfigError::Value(format!(
            "{name} has no meaning for a device that is served: leave it out"
        ))),
        None => Ok(()),
    }
}

/// Lays the device out so that it exports `bytes`.
fn sized(config: &mut Config, bytes: u64) -> Result<wearwell_replay::config::Resolved, ConfigError> {
    // A footprint counts pages of 4 KiB.
    let footprint_pages = bytes.div_ceil(4096).max(1);
    config.device.fit = Some(1.0);
    config.device.logical_pages = None;
    let resolved = config.resolve(footprint_pages)?;
    let page_bytes = u64::from(resolved.geometry.page_bytes);
    if bytes == 0 || !bytes.is_multiple_of(page_bytes) {
        return Err(ConfigError::Value(format!(
            "a size of {bytes} bytes is no number of whole pages of {page_bytes} bytes"
        )));
    }
    let pages = u32::try_from(bytes / page_bytes)
        .map_err(|_| ConfigError::Value(format!("{bytes} bytes are more pages than 32 bits count")))?;
    config.device.logical_pages = Some(pages);
    config.resolve(footprint_pages)
}
