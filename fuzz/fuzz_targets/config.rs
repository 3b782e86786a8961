//! Configuration: any text and any settings are refused with a sentence, or describe a device that can be resolved.
//!
//! The input is a TOML file, then settings, separated by NUL bytes. What is accepted has a TOML form that reads as the
//! same configuration.

#![no_main]

use libfuzzer_sys::fuzz_target;
use wearwell_config::Config;

/// Footprints of an input, in 4-KiB pages: none, one, small, large.
const FOOTPRINTS: [u64; 4] = [0, 1, 50_000, 1 << 31];

fuzz_target!(|input: &[u8]| {
    let Ok(input) = std::str::from_utf8(input) else { return };
    let mut parts = input.split('\0');
    let text = parts.next().unwrap_or_default();
    let settings: Vec<String> = parts.map(str::to_owned).collect();
    let config = match Config::from_text_and_settings(Some(("input.toml", text)), &settings) {
        Ok(config) => config,
        Err(refusal) => return assert!(!refusal.to_string().is_empty()),
    };
    let written = config.to_toml();
    let again = Config::from_text_and_settings(Some(("written.toml", &written)), &[])
        .expect("it was accepted before");
    assert_eq!(again.to_toml(), written);
    for footprint_pages in FOOTPRINTS {
        let Ok(resolved) = config.resolve_device(footprint_pages) else { continue };
        let (logical, physical) = (u64::from(resolved.logical_pages), resolved.geometry.pages());
        assert!(0 < logical && logical < physical, "{logical} of {physical} pages exported");
        resolved.geometry.clone().checked().expect("a resolved layout is possible");
        for design in wearwell::design::ALL {
            if let Err(refusal) = config.design_parts(design.name, &resolved) {
                assert!(!refusal.to_string().is_empty());
            }
        }
        let geometry = &resolved.geometry;
        let _ = (config.write_buffer_options(geometry), config.timing.timing_options(geometry, 2));
    }
});
