//! Tests of drives followed one request at a time, built as one program. Each file is a module;
//! `cargo test -p wearwell-watch FILE::` runs the tests of one.

mod stepped_drive;
mod walkthrough;

/// Makes a configuration from these settings and no other: such drives refuse settings of preconditioning.
fn config_of(settings: &[&str]) -> wearwell_config::Config {
    let settings: Vec<String> = settings.iter().map(|&setting| setting.to_owned()).collect();
    wearwell_config::Config::from_text_and_settings(None, &settings).unwrap()
}
