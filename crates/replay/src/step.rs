//! A drive that is driven request by request: for teaching, for notebooks, for tests of a mechanism from outside.
//!
//! It is the drive of a replay, with the bytes of its pages kept and a medium whose power can be cut at any operation. Whoever
//! drives it is the host: no trace, no clock, no preconditioning, no lifetime manager, and settings of these are refused.

use wearwell::nand::{CutOutcome, PowerCut, Retain, SimNand};
use wearwell::{Device, DeviceOptions};
use wearwell_config::{Config, ConfigError};

/// A new drive of a design, empty. One that is sized to its input takes `footprint_pages` (4 KiB) for its size.
///
/// # Errors
/// A setting that has no effect here, what [`Config::resolve`] and [`Config::parts`] say, what the engine has against the parts.
pub fn drive(
    config: &Config,
    design: &str,
    footprint_pages: u64,
) -> Result<Device<PowerCut<SimNand>>, ConfigError> {
    if let Some(name) = config.ignored_by_steps() {
        return Err(ConfigError::Value(format!(
            "{name} has no effect on a drive that is driven step by step: leave it out"
        )));
    }
    let resolved = config.resolve(footprint_pages)?;
    let parts = config.parts(design, &resolved)?;
    let mut nand = SimNand::new(resolved.geometry.clone(), Retain::ALL)
        .with_nvram(parts.nvram_bytes_with_map(&resolved.geometry, resolved.logical_pages))
        .with_factory_bad(config.factory_bad(&resolved.geometry));
    if config.device.wear_out == Some(true) {
        nand = nand.with_endurance(resolved.endurance_cycles);
    }
    let nand = PowerCut::new(nand, None, CutOutcome::Before);
    let options = DeviceOptions { buffer: config.buffer(&resolved.geometry) };
    let mut device = Device::new(nand, resolved.logical_pages, &parts, options)
        .map_err(|error| ConfigError::Value(error.to_string()))?;
    device.ftl_mut().store_mut().stripe(config.striping_name().into());
    device.ftl_mut().store_mut().ops.listen(true);
    Ok(device)
}

#[cfg(test)]
mod tests {
    use wearwell::device::HostData;

    use super::*;

    fn config(settings: &[&str]) -> Config {
        let settings: Vec<String> = settings.iter().map(|&setting| setting.to_owned()).collect();
        Config::from_parts(None, &settings).unwrap()
    }

    #[test]
    fn what_was_flushed_is_there_after_power_was_cut() {
        for design in wearwell::design::ALL {
            let mut drive = drive(&config(&[]), design.name, 256).unwrap();
            drive.write(4096, 4096, HostData::Bytes(&[7; 4096])).unwrap();
            drive.flush().unwrap();
            drive.ftl_mut().store_mut().nand_mut().cut_now();
            assert!(drive.ftl().store().nand().is_lost());
            drive.ftl_mut().store_mut().nand_mut().restore(None);
            drive.recover().unwrap();
            let mut page = [0; 4096];
            drive.read(4096, 4096, &mut page).unwrap();
            assert_eq!(page, [7; 4096], "{}", design.name);
        }
    }

    #[test]
    fn a_setting_without_effect_is_refused() {
        let refused = drive(&config(&["precondition.mode=steady"]), "page-map", 256).unwrap_err();
        assert!(refused.to_string().starts_with("precondition has no effect"), "{refused}");
    }
}
