//! A drive that a program controls request by request: for teaching, for notebooks, and for testing a mechanism from
//! outside.
//!
//! The drive is the one of a replay, but the bytes of its pages are kept, and its power can be cut at any flash
//! operation. The calling program acts as the host. There is no trace, no clock, no preconditioning and no lifetime
//! manager, and settings of these are refused.

use wearwell::design::Parts;
use wearwell::nand::{CutOutcome, PowerCut, RetainedFields, SimNand};
use wearwell::{Device, DeviceOptions};
use wearwell_config::{Config, ConfigError, ResolvedDevice};

/// Creates a new, empty drive of `design`. The preset `auto` sizes it to a footprint of `footprint_pages` pages of 4
/// KiB.
///
/// # Errors
/// A setting that has no effect on a drive without trace, clock and preconditioning; the errors of
/// [`Config::resolve_device`] and [`Config::design_parts`]; parts that the engine refuses.
pub fn new_drive(
    config: &Config,
    design: &str,
    footprint_pages: u64,
) -> Result<Device<PowerCut<SimNand>>, ConfigError> {
    if let Some(name) = config.setting_ignored_by_stepped_drive() {
        return Err(ConfigError::InvalidValue(format!(
            "{name} has no effect on a drive that is driven step by step: leave it out"
        )));
    }
    let resolved = config.resolve_device(footprint_pages)?;
    let parts = config.design_parts(design, &resolved)?;
    let mut device = drive_of_parts(config, &resolved, &parts)
        .map_err(|error| ConfigError::InvalidValue(error.to_string()))?;
    device.ftl_mut().store_mut().flash_ops.set_collecting_ops(true);
    Ok(device)
}

/// Creates a new, empty drive of the design parts `parts`. It keeps the bytes of its pages, and its power can be cut.
///
/// # Errors
/// Those of [`Device::new`].
pub(crate) fn drive_of_parts(
    config: &Config,
    resolved: &ResolvedDevice,
    parts: &Parts,
) -> wearwell::Result<Device<PowerCut<SimNand>>> {
    let mut nand = SimNand::new(resolved.geometry.clone(), RetainedFields::ALL)
        .with_nvram(parts.nvram_bytes_with_map(&resolved.geometry, resolved.logical_pages))
        .with_factory_bad(config.factory_bad_blocks(&resolved.geometry));
    if config.device.wear_out == Some(true) {
        nand = nand.with_endurance(resolved.endurance_cycles);
    }
    let nand = PowerCut::new(nand, None, CutOutcome::Before);
    let options = DeviceOptions { buffer: config.write_buffer_options(&resolved.geometry) };
    let mut device = Device::new(nand, resolved.logical_pages, parts, options)?;
    device.ftl_mut().store_mut().set_striping(config.striping_name().into());
    Ok(device)
}

#[cfg(test)]
mod tests {
    use wearwell::device::HostData;

    use super::*;

    fn config_of_settings(settings: &[&str]) -> Config {
        let settings: Vec<String> = settings.iter().map(|&setting| setting.to_owned()).collect();
        Config::from_text_and_settings(None, &settings).unwrap()
    }

    #[test]
    fn flushed_data_of_a_drive_operated_step_by_step_survives_a_power_cut() {
        for design in wearwell::design::ALL {
            let mut drive = new_drive(&config_of_settings(&[]), design.name, 256).unwrap();
            drive.write(4096, 4096, HostData::Bytes(&[7; 4096])).unwrap();
            drive.flush().unwrap();
            drive.ftl_mut().store_mut().nand_mut().cut_now();
            assert!(drive.ftl().store().nand().is_power_lost());
            drive.ftl_mut().store_mut().nand_mut().restore_power(None);
            drive.recover().unwrap();
            let mut page = [0; 4096];
            drive.read(4096, 4096, &mut page).unwrap();
            assert_eq!(page, [7; 4096], "{}", design.name);
        }
    }

    #[test]
    fn a_drive_operated_step_by_step_refuses_settings_without_effect() {
        let refused =
            new_drive(&config_of_settings(&["precondition.mode=steady"]), "page-map", 256).unwrap_err();
        assert!(refused.to_string().starts_with("precondition has no effect"), "{refused}");
    }
}
