//! The configuration of a live device, in which every value that was derived from a size is made explicit.
//!
//! Devices in memory and images have the same rules for a configuration, so that a recording of either replays on the
//! same device, and an image means the same to every version. Settings that only apply to replays are refused rather
//! than ignored.

use wearwell_config::{
    AUTO_SIZED_PRESET_NAME, Config, ConfigError, Precondition, ResolvedDevice, StripingName,
};

/// Makes every value of `config` explicit that follows from the size of the device. `size_bytes` is the exported size.
/// If it is `None`, the configuration must name a preset, which has a size.
///
/// # Errors
/// [`ConfigError`]: there is neither a size nor a preset, the size is not a whole number of pages, a setting has no
/// effect on a live device or contradicts the size, or an error of [`Config::resolve_device`].
pub(crate) fn make_config_explicit(
    config: &mut Config,
    size_bytes: Option<u64>,
) -> Result<ResolvedDevice, ConfigError> {
    refuse_settings_without_effect(config)?;
    refuse_settings_overruled_by_size(config, size_bytes)?;
    // Equal 64-bit fingerprints are no proof that the bytes are equal.
    config.remap.verify_on_hit = true;
    config.recycle.verify_on_hit = true;
    config.lifetime.verify_on_hit = true;
    // A new device is empty, and a recording of it replays on an empty one.
    config.precondition.mode = Precondition::None;
    // A live device models no time. A replay of its recording has the same order of writes with this striping.
    config.device.striping = Some(StripingName::PlaneFirst);
    let resolved = match size_bytes {
        Some(bytes) => {
            default_to_one_plane(config);
            resolve_for_size(config, bytes)?
        }
        None if has_auto_size(config) && config.device.logical_pages.is_none() => {
            return Err(ConfigError::InvalidValue(
                "the size of the device is missing: give one (--size 4GiB; in the URI of a database size=4GiB), or set \
                 device.preset to a drive of a fixed size, not `auto`"
                    .into(),
            ));
        }
        None => config.resolve_device(config.device.logical_pages.unwrap_or(1).into())?,
    };
    let device = &mut config.device;
    let geometry = &resolved.geometry;
    device.preset = Some(resolved.preset_name.clone());
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
    Ok(resolved)
}

/// Refuses a configuration with a setting that has no effect on a live device.
fn refuse_settings_without_effect(config: &Config) -> Result<(), ConfigError> {
    match config.setting_ignored_by_live_device() {
        Some(setting) => Err(ConfigError::InvalidValue(format!(
            "{} has no effect, because {}: leave it out",
            setting.key, setting.reason
        ))),
        None => Ok(()),
    }
}

/// Refuses settings that would have no effect because the size of the device is given.
fn refuse_settings_overruled_by_size(config: &Config, size_bytes: Option<u64>) -> Result<(), ConfigError> {
    let Some(bytes) = size_bytes else { return Ok(()) };
    let device = &config.device;
    let given = [
        ("device.logical_pages", device.logical_pages),
        ("device.blocks_per_plane", device.blocks_per_plane),
    ];
    match given.into_iter().find_map(|(key, value)| Some((key, value?))) {
        Some((key, value)) => Err(ConfigError::InvalidValue(format!(
            "{key}={value} and a size of {bytes} bytes are both given, but the size also determines {key}: leave out \
             one of the two"
        ))),
        None => Ok(()),
    }
}

/// Whether the configuration leaves the size of the device open: it names no preset, or the preset `auto`.
fn has_auto_size(config: &Config) -> bool {
    config.device.preset.as_deref().is_none_or(|name| name == AUTO_SIZED_PRESET_NAME)
}

/// Sets the geometry of the device to one plane, so that consecutive pages of a block can be written at once. Several
/// planes would separate these pages, and neither files nor memory have dies that work in parallel. A configuration
/// that names a preset, or a number of channels, dies or planes, keeps its own geometry.
fn default_to_one_plane(config: &mut Config) {
    let is_auto = has_auto_size(config);
    let device = &mut config.device;
    let counts = [device.channels, device.dies_per_channel, device.planes_per_die];
    if is_auto && counts == [None; 3] {
        (device.channels, device.dies_per_channel, device.planes_per_die) = (Some(1), Some(1), Some(1));
    }
}

/// Derives a flash geometry with which the device exports `bytes` bytes, and returns the resolved device.
fn resolve_for_size(config: &mut Config, bytes: u64) -> Result<ResolvedDevice, ConfigError> {
    /// Maximum device size, in pages of 4 KiB, for the first resolution of the configuration, which only determines the
    /// page size.
    const TRIAL_FOOTPRINT_PAGES: u64 = 1 << 24;
    // `resolve` takes a footprint in pages of 4 KiB.
    let footprint_pages = bytes.div_ceil(4096).max(1);
    config.device.fit = Some(1.0);
    // One logical page, and a device that certainly has few enough pages, are enough here: only the page size is read
    // from the result.
    config.device.logical_pages = Some(1);
    let resolved = config.resolve_device(footprint_pages.min(TRIAL_FOOTPRINT_PAGES))?;
    let page_bytes = u64::from(resolved.geometry.page_bytes);
    if bytes == 0 || !bytes.is_multiple_of(page_bytes) {
        return Err(ConfigError::InvalidValue(format!(
            "a size of {bytes} bytes is not possible: give a positive multiple of the page size, {page_bytes} bytes"
        )));
    }
    let too_large = || {
        ConfigError::InvalidValue(format!(
            "a size of {bytes} bytes needs more flash than 2^32 - 1 pages of {page_bytes} bytes: choose a smaller \
             size, or larger pages (device.page_bytes)"
        ))
    };
    let pages = u32::try_from(bytes / page_bytes).map_err(|_| too_large())?;
    config.device.logical_pages = Some(pages);
    let reserve_blocks = config.device.reserve_blocks;
    config.device.reserve_blocks = reserve_blocks.or(Some(0.0));
    let resolved = config.resolve_device(footprint_pages);
    config.device.reserve_blocks = reserve_blocks;
    // A smaller device of this configuration was accepted above.
    resolved.map_err(|error| if pages > u32::MAX / 4 { too_large() } else { error })
}

/// Parses a size in bytes with an optional binary suffix, and returns bytes: `4GiB`, `512MiB`, `1000000512`.
///
/// # Errors
/// A sentence: what is wrong with `text`.
pub fn parse_size_bytes(text: &str) -> Result<u64, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let no_number =
        || "a size must be a whole number of bytes with an optional unit, such as 4GiB".to_owned();
    if digits.is_empty() {
        return Err(no_number());
    }
    let shift = match &text[digits.len()..] {
        "" | "B" => 0,
        "K" | "KiB" => 10,
        "M" | "MiB" => 20,
        "G" | "GiB" => 30,
        "T" | "TiB" => 40,
        "P" | "PiB" => 50,
        unit => {
            return Err(format!("the unit `{unit}` of a size is unknown: give KiB, MiB, GiB, TiB or PiB"));
        }
    };
    let count: u64 = digits.parse().map_err(|_| no_number())?;
    count
        .checked_mul(1 << shift)
        .ok_or_else(|| "the size is more than 2^64 - 1 bytes: give a smaller one".to_owned())
}
