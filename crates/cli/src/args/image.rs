//! Options of the commands on images: create, repair, copy.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use wearwell::design;
use wearwell_config::Config;

use super::option_order::OptionOrder;
use crate::suggested_names::SuggestedNames;

/// Options of the command `create`, which creates the image of a live device.
#[derive(Args)]
pub(crate) struct CreateArgs {
    /// Directory of the image; new or empty
    pub(crate) directory: PathBuf,
    #[command(flatten)]
    pub(crate) live_device: LiveDeviceArgs,
    /// Kinds of failure (see the values) that flushed data of the image survives while it is served
    #[arg(long, value_enum, default_value = "host")]
    pub(crate) durability: Durability,
}

/// Options of the command `repair`, which repairs a damaged image or a copy of it.
#[derive(Args)]
#[command(group(clap::ArgGroup::new("place").required(true).args(["to", "in_place"])))]
pub(crate) struct RepairArgs {
    /// Directory of the image
    pub(crate) directory: PathBuf,
    /// Copy the image to this directory, new or empty, and repair the copy
    #[arg(long, value_name = "DIR")]
    pub(crate) to: Option<PathBuf>,
    /// Repair the image itself
    #[arg(long)]
    pub(crate) in_place: bool,
}

/// Options of the command `copy`, which makes a new image with the contents of another one.
#[derive(Args)]
pub(crate) struct CopyArgs {
    /// Directory of the image that is copied; it is only read
    pub(crate) from: PathBuf,
    /// Directory of the new image; new or empty
    pub(crate) to: PathBuf,
    /// Exported size of the new image in bytes, at least that of the old one
    #[arg(long, value_name = "BYTES", value_parser = wearwell_serve::parse_size_bytes)]
    pub(crate) size: Option<u64>,
    /// Design of the new image [default: that of the old one]
    #[arg(long, value_parser = SuggestedNames::DESIGNS, hide_possible_values = true)]
    pub(crate) design: Option<String>,
    /// One setting, e.g. gc.policy=fifo; may be repeated
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub(crate) settings: Vec<String>,
    /// Leave lost pages out of the copy, so that they read as zeros, instead of refusing to copy
    #[arg(long)]
    pub(crate) leave_lost_out: bool,
}

/// Options that determine a live device, in memory or in an image.
#[derive(Args)]
pub(crate) struct LiveDeviceArgs {
    // Order of the options on the command line. First, because the fields below take their values out of what was
    // parsed.
    #[command(flatten)]
    option_order: OptionOrder,
    #[arg(long, help = help_on_designs(), default_value = "page-map", value_parser = SuggestedNames::DESIGNS,
        hide_possible_values = true)]
    pub(crate) design: String,
    /// Device preset of a fixed size (see `wearwell devices`) [device.preset]
    #[arg(long, value_name = "PRESET", value_parser = SuggestedNames::DEVICES, hide_possible_values = true)]
    device: Option<String>,
    /// Exported size of the device in bytes, a whole number of pages, e.g. 4GiB, 512MiB or 1000001536: the flash is
    /// sized to fit
    #[arg(long, value_name = "BYTES", value_parser = wearwell_serve::parse_size_bytes)]
    pub(crate) size: Option<u64>,
    /// Configuration file (TOML)
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// One setting, e.g. gc.policy=fifo; may be repeated and wins over the file and over earlier options
    #[arg(long = "set", value_name = "KEY=VALUE")]
    settings: Vec<String>,
}

impl LiveDeviceArgs {
    /// Returns all settings of the live device, as `key=value`, in their order on the command line; later ones override
    /// earlier ones.
    pub(crate) fn all_settings(&self) -> Vec<String> {
        let preset = self.device.as_ref().map(|preset| format!("device.preset=\"{preset}\""));
        self.option_order.settings_in_order([("device", preset)], &self.settings)
    }
}

/// Returns the help on the option for the design of a live device, with the names of the designs. A design that needs a
/// battery cannot be that of an image.
fn help_on_designs() -> String {
    let resolved = Config::default().resolve_device(1).expect("the default device exists");
    let is_of_images = |name: &str| {
        let parts = Config::default().design_parts(name, &resolved);
        parts.is_ok_and(|parts| parts.without_battery().require_compatible().is_ok())
    };
    let (of_images, only_in_memory): (Vec<_>, Vec<_>) =
        design::ALL.iter().map(|design| design.name).partition(|name| is_of_images(name));
    format!("Design ({}; only in memory: {})", of_images.join(", "), only_in_memory.join(", "))
}

/// Failures that flushed data of an image survives: the value of `--durability`.
#[derive(ValueEnum, Clone, Copy)]
pub(crate) enum Durability {
    /// Flushed data survives a crash of the server process, at any instant
    Process,
    /// Flushed data also survives a crash or power loss of the server machine: a flush waits for its disk
    Host,
}

impl From<Durability> for wearwell_serve::image::Durability {
    fn from(durability: Durability) -> Self {
        match durability {
            Durability::Process => Self::Process,
            Durability::Host => Self::Host,
        }
    }
}
