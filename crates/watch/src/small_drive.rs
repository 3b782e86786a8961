//! The drive of a step-by-step run (`wearwell watch`): so small that a person can look at every page, and that garbage
//! collection starts soon.
//!
//! What the configuration sets is used as it is. What it leaves open gets small values: two dies, blocks of eight
//! pages, caches of a few entries. The number of blocks is found by trial: the engine knows which space a design needs
//! for itself, and refuses a drive without it.

use wearwell::design::{ContentParts, MappingPart, Parts};
use wearwell::{Device, Error};
use wearwell_config::{Config, ConfigError, ResolvedDevice};

use crate::WATCHED_FLASH_PAGES_MAX;
use crate::stepped_drive;

/// The small drive that a step-by-step run follows (`wearwell watch`); its power can be cut.
pub(super) type SmallDrive = Device;

/// Smallest number of blocks per plane that is tried in the search for the smallest drive that the engine accepts.
const BLOCKS_PER_PLANE_MIN: u32 = 4;
/// Number of blocks per plane that are added to the smallest drive that the engine accepts, so that GC finds blocks
/// with invalid pages.
const EXTRA_BLOCKS_PER_PLANE: u32 = 1;
/// Number of entries in the cache of a map on flash; so few that the cache cannot hold the whole map.
const MAP_CACHE_ENTRIES: u32 = 16;
/// Number of entries in the fingerprint store of recycling, which holds fingerprints of dead pages.
const FINGERPRINT_STORE_ENTRIES: u32 = 24;
/// Page size of a small drive with its map on flash, bytes: the smallest possible, so that few map entries fit into a
/// translation page. Used for generated workloads on designs without a content mechanism.
const SMALLEST_PAGE_BYTES: u32 = 512;

/// Page size (bytes) and block size (pages) of a small drive that suit a design.
#[derive(Clone, Copy)]
pub(super) struct PageAndBlockSize {
    /// Data bytes of a page.
    page_bytes: u32,
    /// Number of pages of a block.
    block_pages: u32,
}

impl PageAndBlockSize {
    /// Returns the page and block sizes that suit a design of these parts. `is_scaled` is whether the requests are
    /// converted to the drive's page size. The pages of the drive may then be smaller than those of the input.
    pub(super) fn for_parts(parts: &Parts, is_scaled: bool) -> Self {
        let content = &parts.content;
        let is_small =
            is_scaled && !matches!(parts.mapping, MappingPart::Flat) && *content == ContentParts::default();
        let shrinks_data = content.delta.is_some() || content.chunks.is_some();
        Self {
            page_bytes: if is_small { SMALLEST_PAGE_BYTES } else { 4096 },
            block_pages: if shrinks_data { 4 } else { 8 },
        }
    }
}

/// Returns the configuration with the sizes of a small drive for all sizes that the user did not set.
pub(super) fn with_small_drive_settings(config: &Config, sizes: PageAndBlockSize) -> Config {
    let mut config = config.clone();
    if config.device.preset.is_none() {
        let device = &mut config.device;
        device.channels.get_or_insert(1);
        device.dies_per_channel.get_or_insert(2);
        device.planes_per_die.get_or_insert(1);
        device.pages_per_block.get_or_insert(sizes.block_pages);
        device.page_bytes.get_or_insert(sizes.page_bytes);
    }
    config.mapping.cache_entries.get_or_insert(MAP_CACHE_ENTRIES);
    config.recycle.entries.get_or_insert(FINGERPRINT_STORE_ENTRIES);
    config
}

/// The drive of a step-by-step run (`wearwell watch`), with the resolved configuration and the design parts from which
/// it was built.
pub(super) struct SmallDriveSetup {
    /// Drive itself, whose power can be cut.
    pub(super) device: SmallDrive,
    /// Geometry and sizes of the drive, resolved from the configuration.
    pub(super) resolved: ResolvedDevice,
    /// Parts of the design that runs on the drive: map, page validity, content mechanisms and others.
    pub(super) parts: Parts,
}

/// Creates the small drive of a step-by-step run, for an input that touches `pages` pages.
///
/// # Errors
/// Those of the configuration; a drive with more flash pages than a person can look at.
pub(super) fn new_small_drive(
    config: &Config,
    design: &str,
    pages: u32,
) -> Result<SmallDriveSetup, ConfigError> {
    let mut config = config.clone();
    let is_sized = config.device.preset.is_some() || config.device.blocks_per_plane.is_some();
    if config.device.preset.is_none() {
        config.device.logical_pages.get_or_insert(pages);
    }
    if !is_sized {
        config.device.blocks_per_plane =
            Some(fewest_blocks_per_plane(&config, design, pages)? + EXTRA_BLOCKS_PER_PLANE);
    }
    build_drive(&config, design, pages)?.map_err(|error| ConfigError::InvalidValue(error.to_string()))
}

/// Returns the smallest number of blocks per plane with which the engine accepts the drive.
fn fewest_blocks_per_plane(config: &Config, design: &str, pages: u32) -> Result<u32, ConfigError> {
    let mut config = config.clone();
    let logical_pages = config.device.logical_pages.unwrap_or(pages);
    let mut blocks = BLOCKS_PER_PLANE_MIN;
    loop {
        config.device.blocks_per_plane = Some(blocks);
        if flash_page_count(&config) > u64::from(logical_pages) {
            match build_drive(&config, design, pages)? {
                Ok(_) => return Ok(blocks),
                Err(Error::TooFewPhysicalPages { .. }) => {}
                Err(error) => return Err(ConfigError::InvalidValue(error.to_string())),
            }
        }
        blocks += 1;
    }
}

/// Returns the number of flash pages of a device whose layout the configuration sets.
fn flash_page_count(config: &Config) -> u64 {
    let device = &config.device;
    let factors = [
        device.channels,
        device.dies_per_channel,
        device.planes_per_die,
        device.blocks_per_plane,
        device.pages_per_block,
    ];
    factors.into_iter().map(|factor| u64::from(factor.unwrap_or(1))).product()
}

/// Creates the drive that the configuration describes. The outer error means that the configuration is wrong, the inner
/// error that the engine refuses the drive.
fn build_drive(
    config: &Config,
    design: &str,
    pages: u32,
) -> Result<wearwell::Result<SmallDriveSetup>, ConfigError> {
    let resolved = config.resolve_device(pages.into())?;
    require_few_flash_pages(&resolved)?;
    let parts = config.design_parts(design, &resolved)?;
    let device = stepped_drive::drive_of_parts(config, &resolved, &parts);
    Ok(device.map(|device| SmallDriveSetup { device, resolved, parts }))
}

/// Returns an error if the drive has more flash pages than a person can look at.
fn require_few_flash_pages(resolved: &ResolvedDevice) -> Result<(), ConfigError> {
    let pages = resolved.geometry.pages();
    if pages <= u64::from(WATCHED_FLASH_PAGES_MAX) {
        return Ok(());
    }
    Err(ConfigError::InvalidValue(format!(
        "the drive has {pages} flash pages, but the HTML page shows at most {WATCHED_FLASH_PAGES_MAX}: leave out \
         settings of [device] that make the drive large, or choose a workload of fewer pages (pages=) or fewer \
         requests (--requests)"
    )))
}
