//! Computes what a run uses from what the configuration requests: geometry, capacity, thresholds, and the parts of a
//! design.

use wearwell::address::BlockId;
use wearwell::content::recycle::{DEFAULT_FINGERPRINT_STORE_ENTRIES, FingerprintStorePolicy, RecycleOptions};
use wearwell::data::{PAGE_BYTES, mix_bits};
use wearwell::design::{self, DeltaOptions, MappingPart, Parts, RecyclingPart};
use wearwell::gc::{GcOptions, MetadataGcRule, VictimPolicy, WearOptions};
use wearwell::nand::{FlashTiming, Geometry, GeometryError, preset};
use wearwell::store::GC_RESERVE_BLOCKS;
use wearwell::write_buffer::{WriteBufferOptions, WriteBufferPolicy};

use super::flash_metadata::RecoverySurveyName;
use super::resolved_device::{ResolvedDevice, reserve_page_count};
use super::{
    Arrival, BufferEvictionOrder, Config, ConfigError, DeadPageHistoryName, GcConfig, Mode,
    OverProvisioningBase, RecyclePolicy, StripingName, VictimPolicyName,
};
use crate::MAX_BLOCK_CHART_CELLS;

/// Name of the preset whose device is sized to the workload, or to the size that is given.
pub const AUTO_SIZED_PRESET_NAME: &str = "auto";

impl Config {
    /// Returns the seed of all random choices of the run (default 1).
    pub fn seed(&self) -> u64 {
        self.replay.seed.unwrap_or(1)
    }

    /// Returns the blocks that are bad from the factory; the seed decides which.
    pub fn factory_bad_blocks(&self, geometry: &Geometry) -> Vec<BlockId> {
        let share = self.device.factory_bad_share.unwrap_or(0.0).clamp(0.0, 0.2);
        let threshold = (share * u64::MAX as f64) as u64;
        let seed = self.seed();
        let is_bad = |block: &u32| share > 0.0 && mix_bits(mix_bits(seed) ^ u64::from(*block)) < threshold;
        (0..geometry.blocks()).filter(is_bad).map(BlockId).collect()
    }

    /// Returns the order in which successive writes are spread over channels, dies and planes.
    pub fn striping_name(&self) -> StripingName {
        let default =
            if self.timing.multi_plane { StripingName::PlaneFirst } else { StripingName::ChannelFirst };
        self.device.striping.unwrap_or(default)
    }

    /// Computes geometry, capacity and thresholds for a workload that touches `footprint_pages` different pages of 4
    /// KiB.
    ///
    /// # Errors
    /// Unknown preset, impossible geometry, a value out of range, or settings that contradict each other.
    ///
    /// # Panics
    /// Never: a geometry has fewer than 2^32 pages.
    pub fn resolve_device(&self, footprint_pages: u64) -> Result<ResolvedDevice, ConfigError> {
        self.require_values_in_range()?;
        self.require_timing_for_throttling()?;
        self.require_flash_map_for_delta_journal()?;
        let name = self.device.preset.as_deref().unwrap_or(AUTO_SIZED_PRESET_NAME);
        let device = if name == AUTO_SIZED_PRESET_NAME {
            auto_device(footprint_pages)
        } else {
            device_preset_named(name)?
        };
        let geometry = self.configured_geometry(&device.geometry).checked()?;
        let fit = self.device.fit.or(self.is_device_sized_to_input().then_some(1.0));
        let spare = self.device.over_provisioning.unwrap_or(device.over_provisioning);
        let exported = exported_share(spare, self.device.over_provisioning_of.unwrap_or_default())?;
        let FittedDevice { geometry, reserve_blocks_per_plane, is_enlarged_for_gc } = match fit {
            Some(fit) => {
                let fitting = DeviceFitRequest {
                    footprint_pages,
                    touched_share_of_exported_pages: fit,
                    exported_share: exported,
                    gc_start_free_block_share: self.gc_start_free_block_share(&device),
                };
                self.fit_to_footprint(&geometry, &fitting)?
            }
            None => FittedDevice {
                geometry,
                reserve_blocks_per_plane: self.device.reserve_blocks.unwrap_or(0.0),
                is_enlarged_for_gc: false,
            },
        };
        let shared_pages =
            geometry.pages().saturating_sub(reserve_page_count(&geometry, reserve_blocks_per_plane));
        let by_share = (shared_pages as f64 * exported) as u64;
        let logical = self.device.logical_pages.map_or(by_share, u64::from);
        if logical == 0 {
            return Err(ConfigError::InvalidValue(
                "the device would export no logical page: if device.logical_pages is set, raise it; if not, raise \
                 device.blocks_per_plane, or lower device.over_provisioning or device.reserve_blocks"
                    .into(),
            ));
        }
        if logical >= geometry.pages() {
            return Err(ConfigError::InvalidValue(format!(
                "the device would export {logical} logical pages, but its flash has {} pages, of which some must be \
                 spare: lower device.logical_pages, or raise device.blocks_per_plane",
                geometry.pages()
            )));
        }
        if self.device.reserve_blocks.is_some() && logical >= shared_pages {
            return Err(ConfigError::InvalidValue(format!(
                "device.reserve_blocks leaves {shared_pages} flash pages, too few for {logical} exported pages and \
                 over-provisioning: lower device.reserve_blocks or device.logical_pages"
            )));
        }
        let logical_pages = u32::try_from(logical)
            .expect("a device exports fewer pages than its flash has, which are fewer than 2^32");
        if let Some(asked) = self.device.fit.filter(|_| name != AUTO_SIZED_PRESET_NAME) {
            require_footprint_fills_smallest_device(
                name,
                asked,
                footprint_pages,
                logical * u64::from(geometry.page_bytes) / 4096,
            )?;
        }
        let gc = self.gc_options(&geometry, device.gc_start_free_share)?;
        Ok(ResolvedDevice {
            preset_name: name.to_owned(),
            flash_timing: self.flash_timing(device.timing),
            endurance_cycles: self.device.endurance_cycles.unwrap_or(device.endurance_cycles),
            logical_pages,
            reserve_blocks_per_plane,
            is_enlarged_for_gc: is_enlarged_for_gc && self.device.logical_pages.is_none(),
            gc_options: gc,
            geometry,
        })
    }

    /// Returns whether the number of blocks of the device is computed from the pages that the input touches.
    pub fn is_device_sized_to_input(&self) -> bool {
        let name = self.device.preset.as_deref().unwrap_or(AUTO_SIZED_PRESET_NAME);
        self.device.fit.is_some() || name == AUTO_SIZED_PRESET_NAME && self.device.logical_pages.is_none()
    }

    /// Refuses configuration values out of their range, for numbers that no other check covers.
    fn require_values_in_range(&self) -> Result<(), ConfigError> {
        /// Largest value of a time in a configuration, in the unit of its key (microseconds or nanoseconds).
        const MAX_TIME_IN_OWN_UNIT: f64 = 1e9;
        // A simulated NVRAM is memory of this machine. The log on flash has the same limit.
        const MAX_REVERSE_MAP_MIB: f64 = 16384.0;
        let (device, timing) = (&self.device, &self.timing);
        let replay = &self.replay;
        let count = |value: Option<u32>| value.map(f64::from);
        let any = f64::from(u32::MAX);
        let bounds = [
            ("device.read_us", device.read_us, 0.0, MAX_TIME_IN_OWN_UNIT),
            ("device.program_us", device.program_us, 0.0, MAX_TIME_IN_OWN_UNIT),
            ("device.erase_us", device.erase_us, 0.0, MAX_TIME_IN_OWN_UNIT),
            ("device.channel_mb_per_s", device.channel_mb_per_s, 0.001, 1e6),
            ("device.factory_bad_share", device.factory_bad_share, 0.0, 0.2),
            ("device.over_provisioning", device.over_provisioning, 0.005, 4.0),
            ("device.reserve_blocks", device.reserve_blocks, 0.0, 1e6),
            ("device.endurance_cycles", count(device.endurance_cycles), 1.0, any),
            ("gc.d", count(self.gc.d), 1.0, 65536.0),
            ("gc.low_blocks", count(self.gc.low_blocks), f64::from(GC_RESERVE_BLOCKS), any),
            ("remap.size_mib", self.remap.size_mib, 0.0, MAX_REVERSE_MAP_MIB),
            ("remap.index_share", self.remap.index_share, 1e-6, 1.0),
            ("remap.segment_bytes", Some(f64::from(self.remap.segment_bytes)), 32.0, 1e6),
            ("delta.hot_accesses", Some(f64::from(self.delta.hot_accesses)), 1.0, 255.0),
            ("delta.open_pages", Some(f64::from(self.delta.open_pages)), 1.0, 64.0),
            ("delta.max_ratio", self.delta.max_ratio, 0.0, 1.0),
            ("delta.area_share", Some(self.delta.area_share), 0.0, 1.0),
            ("delta.cache_entries", count(self.delta.cache_entries), 1.0, any),
            ("delta.journal_pages", count(self.delta.journal_pages), 1.0, 1e6),
            ("tables.content_bytes_per_page", self.tables.content_bytes_per_page, 0.0, 1e6),
            ("tables.content_least_mib", self.tables.content_least_mib, 0.0, 1e6),
            ("dftl.cache_entries", count(self.dftl.cache_entries), 1.0, any),
            ("gc.metadata_share", self.gc.metadata_share, 0.0, 1.0),
            ("recovery.spare_read_us", self.recovery.spare_read_us, 0.0, MAX_TIME_IN_OWN_UNIT),
            ("mapping.cache_entries", count(self.mapping.cache_entries), 1.0, any),
            ("mapping.least_cache_entries", count(self.mapping.least_cache_entries), 1.0, any),
            ("mapping.dirty_share", self.mapping.dirty_share, 0.0, 1.0),
            ("mapping.cached_nodes", count(self.mapping.cached_nodes), 1.0, any),
            ("timing.suspend_overhead_us", Some(timing.suspend_overhead_us), 0.0, MAX_TIME_IN_OWN_UNIT),
            ("timing.controller_overhead_us", Some(timing.controller_overhead_us), 0.0, MAX_TIME_IN_OWN_UNIT),
            ("timing.delta_codec_units", count(Some(timing.delta_codec_units)), 0.0, 1024.0),
            ("timing.hash_us", Some(timing.hash_us), 0.0, MAX_TIME_IN_OWN_UNIT),
            ("timing.delta_encode_us", Some(timing.delta_encode_us), 0.0, MAX_TIME_IN_OWN_UNIT),
            ("timing.delta_decode_us", Some(timing.delta_decode_us), 0.0, MAX_TIME_IN_OWN_UNIT),
            ("timing.compress_us", Some(timing.compress_us), 0.0, MAX_TIME_IN_OWN_UNIT),
            ("timing.decompress_us", Some(timing.decompress_us), 0.0, MAX_TIME_IN_OWN_UNIT),
            ("timing.nvram_read_ns", Some(timing.nvram_read_ns), 0.0, MAX_TIME_IN_OWN_UNIT),
            ("timing.nvram_write_ns", Some(timing.nvram_write_ns), 0.0, MAX_TIME_IN_OWN_UNIT),
            ("precondition.overwrite", self.precondition.overwrite, 0.0, 1e6),
            ("precondition.share", self.precondition.share, 1e-9, 1.0 - 1e-9),
            ("precondition.bound_share", self.precondition.bound_share, 0.0, 1.0),
            ("replay.queue_depth", count(replay.queue_depth), 1.0, any),
            ("replay.requests", replay.requests.map(|requests| requests as f64), 1.0, f64::INFINITY),
            ("replay.time_scale", replay.time_scale, 0.0, 1e9),
            ("replay.timeline_cells", count(replay.timeline_cells), 1.0, f64::from(MAX_BLOCK_CHART_CELLS)),
            ("lifetime.epoch_s", count(Some(self.lifetime.epoch_s)), 1.0, 1e9),
            ("lifetime.epoch_writes", count(Some(self.lifetime.epoch_writes)), 1.0, any),
            ("lifetime.target_years", Some(self.lifetime.target_years), 0.001, 1e4),
        ];
        let outside = |&(_, value, low, high): &(&str, Option<f64>, f64, f64)| {
            value.is_some_and(|value| !(low..=high).contains(&value))
        };
        match bounds.into_iter().find(outside) {
            Some((name, value, low, high)) => {
                let value = value.unwrap_or_default();
                Err(ConfigError::InvalidValue(if high == f64::INFINITY {
                    format!("{name} is {value}; it must be at least {low}")
                } else {
                    format!("{name} is {value}; it must be from {low} to {high}")
                }))
            }
            None => Ok(()),
        }
    }

    /// Refuses `delta.journal_pages` (a journal of map updates) if the map of the delta design is in RAM, or if
    /// `parts.map` replaces that map.
    fn require_flash_map_for_delta_journal(&self) -> Result<(), ConfigError> {
        if self.delta.journal_pages.is_none() || self.delta.cache_entries.is_some() {
            return Ok(());
        }
        Err(ConfigError::InvalidValue(
            if self.parts.map.is_some() {
                "delta.journal_pages has no effect with parts.map, because the maps that it chooses have no journal: \
                 leave delta.journal_pages out, or replace parts.map by delta.cache_entries"
            } else {
                "delta.journal_pages sets a journal of a map on flash, but without delta.cache_entries the map of the \
                 design delta is in RAM: set delta.cache_entries (how many entries of the map RAM holds), or leave \
                 delta.journal_pages out"
            }
            .into(),
        ))
    }

    /// Refuses throttling of host writes without a timing engine, or with an arrival mode in which the delay of a
    /// request does not shift later requests.
    fn require_timing_for_throttling(&self) -> Result<(), ConfigError> {
        if !self.lifetime.is_throttling() {
            return Ok(());
        }
        if self.timing.mode == Mode::None {
            return Err(ConfigError::InvalidValue(
                "lifetime.schemes includes throttling, which delays requests, but timing.mode is none, so that \
                 requests take no time: set timing.mode=timeline or event, and replay.arrival=think or closed"
                    .into(),
            ));
        }
        if matches!(self.replay.arrival, Arrival::Auto | Arrival::Open) {
            return Err(ConfigError::InvalidValue(format!(
                "lifetime.schemes includes throttling, which works only if a delayed request also delays the requests \
                 after it, but replay.arrival is {}: set replay.arrival=think or closed",
                if self.replay.arrival == Arrival::Open { "open" } else { "auto" }
            )));
        }
        Ok(())
    }

    /// Returns the geometry `base` of the preset, with those values replaced that the configuration sets.
    fn configured_geometry(&self, base: &Geometry) -> Geometry {
        let device = &self.device;
        Geometry {
            channels: device.channels.unwrap_or(base.channels),
            dies_per_channel: device.dies_per_channel.unwrap_or(base.dies_per_channel),
            planes_per_die: device.planes_per_die.unwrap_or(base.planes_per_die),
            blocks_per_plane: device.blocks_per_plane.unwrap_or(base.blocks_per_plane),
            pages_per_block: device.pages_per_block.unwrap_or(base.pages_per_block),
            page_bytes: device.page_bytes.unwrap_or(base.page_bytes),
            spare_bytes: device.spare_bytes.unwrap_or(base.spare_bytes),
            superblock_planes: device.superblock_planes.unwrap_or(base.superblock_planes),
        }
    }

    /// Returns the flash timing `base` of the preset, with those values replaced that the configuration sets.
    fn flash_timing(&self, base: FlashTiming) -> FlashTiming {
        let device = &self.device;
        let ns = |us: Option<f64>, base: u64| us.map_or(base, |us| (us * 1000.0).round() as u64);
        FlashTiming {
            read_ns: ns(device.read_us, base.read_ns),
            program_ns: ns(device.program_us, base.program_ns),
            erase_ns: ns(device.erase_us, base.erase_ns),
            transfer_ps_per_byte: device
                .channel_mb_per_s
                .map_or(base.transfer_ps_per_byte, |rate| (1e6 / rate).round() as u64),
        }
    }

    /// Returns the options of GC, with its thresholds in blocks. `preset_share` is the free-block threshold of the
    /// preset as a share.
    fn gc_options(&self, geometry: &Geometry, preset_share: f64) -> Result<GcOptions, ConfigError> {
        let share = self.gc.free_share.unwrap_or(preset_share);
        let background = self.gc.background_share.unwrap_or(0.0);
        for (key, value) in [("gc.free_share", share), ("gc.background_share", background)] {
            if !(0.0..0.5).contains(&value) {
                return Err(ConfigError::InvalidValue(format!(
                    "{key} is {value}; it must be at least 0 and less than 0.5"
                )));
            }
        }
        let pool_blocks = geometry.blocks_per_plane as f64;
        let gc_start_free_blocks = self.gc_threshold_blocks(geometry.blocks_per_plane, share);
        Ok(GcOptions {
            policy: self.gc.victim_policy(),
            gc_start_free_blocks,
            urgent_gc_up_to_free_blocks: GC_RESERVE_BLOCKS,
            background_gc_below_free_blocks: (pool_blocks * background) as u32,
            tie_break: self.gc.ties.into(),
            metadata_gc: MetadataGcRule::default(),
            stripes_metadata: self.device.metadata_striping,
            wear: WearOptions {
                levels_wear_dynamically: self.wear.dynamic,
                static_gap_erases: self.wear.static_gap,
                scans_erase_counts: self.wear.scan,
                dual_pool_gap_erases: self.wear.dual_pool_gap,
            },
            seed: self.seed(),
        })
    }

    /// Returns the number of free blocks of a pool (a plane, or the planes of a superblock) at or below which GC runs:
    /// the configured number, or a share of the pool.
    fn gc_threshold_blocks(&self, pool_blocks: u32, share: f64) -> u32 {
        let of_share = (f64::from(pool_blocks) * share) as u32;
        match (self.gc.low_blocks, self.gc.free_share) {
            (Some(blocks), None) => blocks,
            (blocks, _) => blocks.unwrap_or(GC_RESERVE_BLOCKS + 1).max(of_share),
        }
    }

    /// Returns the free-block threshold at which GC starts, as a share of the blocks of a pool.
    fn gc_start_free_block_share(&self, device: &preset::DevicePreset) -> f64 {
        self.gc.free_share.unwrap_or(device.gc_start_free_share)
    }

    /// Returns the device with enough blocks per plane to export the touched pages divided by `device.fit`.
    fn fit_to_footprint(
        &self,
        geometry: &Geometry,
        fit_request: &DeviceFitRequest,
    ) -> Result<FittedDevice, ConfigError> {
        let DeviceFitRequest {
            footprint_pages,
            touched_share_of_exported_pages: fit,
            exported_share: exported,
            gc_start_free_block_share,
        } = *fit_request;
        if !(fit > 0.0 && fit <= 1.0) {
            return Err(ConfigError::InvalidValue(format!(
                "device.fit is {fit}; it must be above 0 and at most 1"
            )));
        }
        let pages_4k = (footprint_pages.max(1) as f64 / fit / exported).ceil();
        let pages = pages_4k * 4096.0 / geometry.page_bytes as f64;
        let per_plane = pages / (geometry.planes() as f64 * geometry.pages_per_block as f64);
        let reserve = match self.device.reserve_blocks {
            Some(reserve) => reserve,
            None => self.reserve_blocks_per_pool(per_plane, exported, gc_start_free_block_share),
        };
        let least_for_gc = least_blocks_besides_reserve(reserve, exported);
        let blocks_per_plane = (per_plane.max(least_for_gc) + reserve).ceil() as u32;
        let fitted = Geometry { blocks_per_plane, ..geometry.clone() };
        let fitted = fitted.checked().map_err(|error| match error {
            GeometryError::TooManyPages { .. } if per_plane > least_for_gc => {
                // Fewer blocks cannot be set, because their number follows from the input.
                ConfigError::InvalidValue(format!(
                    "the input touches {footprint_pages} pages of 4 KiB, and with device.fit={fit} the device would \
                     have more than 4294967295 flash pages, which page numbers of 32 bits cannot name: raise \
                     device.fit or device.page_bytes, or choose a drive of a fixed size (device.preset)"
                ))
            }
            error => error.into(),
        })?;
        Ok(FittedDevice {
            geometry: fitted,
            reserve_blocks_per_plane: reserve,
            is_enlarged_for_gc: least_for_gc > per_plane.max(LEAST_BLOCKS_PER_PLANE),
        })
    }

    /// Returns the number of reserve blocks of a pool (a plane, or the planes of a superblock): the blocks that GC
    /// keeps free, the unwritten part of the open blocks, and the expected number of factory-bad blocks. `per_plane` is
    /// the number of blocks per plane that the input needs, without the reserve. With this reserve, over-provisioning
    /// has the effect of its nominal value. `exported` is the exported share. If the spare space is only a few blocks,
    /// the reserve grows so that maps and page validity on flash fit too.
    fn reserve_blocks_per_pool(&self, per_plane: f64, exported: f64, gc_start_free_block_share: f64) -> f64 {
        let for_metadata = BLOCKS_FOR_GC_AND_METADATA - per_plane * (1.0 - exported);
        let bad_share = self.device.factory_bad_share.unwrap_or(0.0);
        let mut reserve = 0.0;
        // The threshold may be a share of all blocks, including the reserve, so the reserve is computed iteratively.
        for _ in 0..8 {
            let pool_blocks =
                (per_plane.max(least_blocks_besides_reserve(reserve, exported)) + reserve).ceil();
            let low = self.gc_threshold_blocks(pool_blocks as u32, gc_start_free_block_share);
            reserve = free_and_unwritten_blocks_per_pool(low).max(for_metadata) + bad_share * pool_blocks;
        }
        reserve
    }

    /// Returns the parts of the design called `design`, even if they cannot be combined; those that the section
    /// `[parts]` sets replace the design's own.
    ///
    /// # Errors
    /// [`ConfigError::UnknownName`]; [`ConfigError::InvalidValue`] if a part is chosen twice.
    pub(super) fn unchecked_design_parts(
        &self,
        design: &str,
        resolved: &ResolvedDevice,
    ) -> Result<Parts, ConfigError> {
        self.refuse_parts_set_twice()?;
        let gc = resolved.gc_options;
        let mut parts = match design {
            "page-map" => design::page_map(gc),
            "recyclable" => design::recyclable(gc, self.recycling_part(resolved)),
            "remap" => {
                design::remap(gc, self.remap.page_sharing_options(&resolved.geometry, resolved.logical_pages))
            }
            "delta" => self.delta.delta_parts(gc, self.delta_options(resolved)),
            "integrated" => {
                let (dedup, compresses) = self.lifetime.dedup_and_compression_of_schemes();
                design::integrated(gc, dedup, compresses)
            }
            other => self.parts_of_flash_map_design(other, resolved).ok_or_else(|| {
                ConfigError::unknown_name("design", other, design::ALL.iter().map(|design| design.name))
            })?,
        };
        self.replace_parts(&mut parts, resolved);
        parts.gc = self.gc_options_with_metadata_policy(parts.gc);
        parts.recovery_block_scan = self.recovery.blocks.map_or_else(
            || parts.default_recovery_block_scan(&resolved.geometry),
            RecoverySurveyName::recovery_block_scan,
        );
        if let (Some(delta), MappingPart::Cached(_)) = (&mut parts.content.delta, parts.mapping)
            && design != "delta"
        {
            delta.access_count_table_entries.get_or_insert(Self::access_count_table_entries(resolved));
        }
        if parts.content.has_growing_tables() {
            parts.content.content_tables_ram_limit_bytes = self.content_table_limit_bytes(design, resolved);
        }
        Ok(parts)
    }

    /// Returns the options of delta encoding on this device.
    pub(super) fn delta_options(&self, resolved: &ResolvedDevice) -> DeltaOptions {
        let encode_ns = self.timing.delta_encode_us * 1000.0;
        self.delta.delta_options(&resolved.flash_timing, resolved.geometry.page_bytes, encode_ns)
    }

    /// Returns the options of recycling (reviving dead pages) on this device.
    pub(super) fn recycling_part(&self, resolved: &ResolvedDevice) -> RecyclingPart {
        let config = &self.recycle;
        let paper_ratio =
            (resolved.geometry.pages() / 80).min(DEFAULT_FINGERPRINT_STORE_ENTRIES as u64) as u32;
        // A store never has more dead pages than the device has flash pages.
        let most = u32::try_from(resolved.geometry.pages()).unwrap_or(u32::MAX);
        let entries = config.entries.unwrap_or(paper_ratio).min(most);
        let policy = match config.policy {
            RecyclePolicy::Lru => FingerprintStorePolicy::Lru,
            RecyclePolicy::Prob | RecyclePolicy::Inf => FingerprintStorePolicy::Probability,
            RecyclePolicy::ProbFl => FingerprintStorePolicy::ProbabilityFastLoading { window: config.window },
        };
        let options = RecycleOptions {
            capacity_entries: (config.policy != RecyclePolicy::Inf).then_some(entries),
            policy,
            popularity_growth_alpha: config.alpha,
            probability_decay_beta: config.beta,
            counts_scan_comparisons: config.count_comparisons,
            max_revival_age_programs: config.refresh_age_programs,
            dead_page_history_scope: config
                .history
                .map(DeadPageHistoryName::dead_page_history_scope)
                .unwrap_or_default(),
        };
        RecyclingPart { options, must_verify_hits: config.verify_on_hit }
    }

    /// Returns the write buffer that the configuration explicitly sets; 0 pages if it sets none. Used by a live device,
    /// which has no default buffer because it completes partial pages itself.
    pub fn configured_write_buffer(&self) -> WriteBufferOptions {
        let policy = match self.buffer.policy {
            BufferEvictionOrder::Fifo => WriteBufferPolicy::Fifo,
            BufferEvictionOrder::Slru => WriteBufferPolicy::Slru,
        };
        WriteBufferOptions { capacity_pages: self.buffer.pages.unwrap_or(0), policy }
    }

    /// Returns the write buffer of a replay on a device of this layout: the configured one, or the default for the page
    /// size.
    pub fn write_buffer_options(&self, geometry: &Geometry) -> WriteBufferOptions {
        let joins_small_writes = u64::from(geometry.page_bytes) > PAGE_BYTES;
        let default = if joins_small_writes { WRITE_BUFFER_PAGES_PER_PLANE * geometry.planes() } else { 0 };
        WriteBufferOptions {
            capacity_pages: self.buffer.pages.unwrap_or(default),
            ..self.configured_write_buffer()
        }
    }

    /// Returns whether a replay has a write buffer. Only the configuration and the preset decide it, not the input.
    pub(super) fn has_write_buffer(&self) -> bool {
        let preset = self.device.preset.as_deref().and_then(preset::preset_by_name);
        let of_preset = preset.map_or(PAGE_BYTES as u32, |device| device.geometry.page_bytes);
        let page_bytes = self.device.page_bytes.unwrap_or(of_preset);
        self.buffer.pages.map_or(u64::from(page_bytes) > PAGE_BYTES, |pages| pages > 0)
    }
}

/// Number of pages of the default write buffer per plane: three pages for a wordline of a TLC die, and one that
/// collects the next writes while the wordline is programmed. This is 4 MiB on the preset `tlc-1t`.
const WRITE_BUFFER_PAGES_PER_PLANE: u32 = 4;

impl GcConfig {
    /// Returns the number of random blocks that the GC policy `d-choices` compares (default 10).
    pub(super) fn random_victim_candidates(&self) -> u32 {
        self.d.unwrap_or(10)
    }

    /// Returns the victim policy of GC that the section names.
    fn victim_policy(&self) -> VictimPolicy {
        match self.policy {
            VictimPolicyName::Greedy => VictimPolicy::Greedy,
            VictimPolicyName::CostBenefit => VictimPolicy::CostBenefit,
            VictimPolicyName::DChoices => {
                VictimPolicy::DChoices { random_candidates: self.random_victim_candidates() }
            }
            VictimPolicyName::Random => VictimPolicy::DChoices { random_candidates: 1 },
            VictimPolicyName::Fifo => VictimPolicy::Fifo,
            VictimPolicyName::RcGc => VictimPolicy::RecycleAware,
            VictimPolicyName::DeadBytes => VictimPolicy::DeadBytes,
        }
    }
}

/// Number of blocks of each pool that a tiny device needs besides those that its data fill: a free block, a block for GC
/// copies, six for maps and page validity on flash, and one whose pages can become invalid.
const BLOCKS_FOR_GC_AND_METADATA: f64 = 9.0;

/// Least number of blocks per plane, besides the reserve, of a device sized to its input.
const LEAST_BLOCKS_PER_PLANE: f64 = 48.0;

/// Returns the least number of blocks of a pool besides `reserve` reserve blocks, on a device sized to its input: of
/// these, the share that is not exported has to give what the reserve lacks for GC and metadata. `exported` is the
/// exported share.
fn least_blocks_besides_reserve(reserve: f64, exported: f64) -> f64 {
    ((BLOCKS_FOR_GC_AND_METADATA - reserve).max(0.0) / (1.0 - exported)).ceil().max(LEAST_BLOCKS_PER_PLANE)
}

/// Returns the preset of this name; an error with the valid names if there is none.
fn device_preset_named(name: &str) -> Result<preset::DevicePreset, ConfigError> {
    preset::preset_by_name(name).ok_or_else(|| {
        let presets = preset::all_presets();
        ConfigError::unknown_name(
            "device",
            name,
            [AUTO_SIZED_PRESET_NAME].into_iter().chain(presets.iter().map(|device| device.name)),
        )
    })
}

/// Returns a small drive for a workload of `footprint_pages` pages of 4 KiB, with the timing of the Recyclable SSD
/// paper: four dies on two channels, or one die and smaller blocks if four dies would leave a plane too few blocks to
/// collect.
fn auto_device(footprint_pages: u64) -> preset::DevicePreset {
    /// Number of blocks of each plane of the `auto` drive, so that 15 % of spare space is several blocks.
    const AUTO_DEVICE_BLOCKS_PER_PLANE: u64 = 64;
    let model = preset::preset_by_name("lx-40g").expect("the preset is in the list");
    let pages_per_block = model.geometry.pages_per_block as u64;
    let is_large = footprint_pages >= 4 * AUTO_DEVICE_BLOCKS_PER_PLANE * pages_per_block;
    let fitting =
        (footprint_pages / AUTO_DEVICE_BLOCKS_PER_PLANE).max(1).next_power_of_two().clamp(4, pages_per_block);
    let geometry = Geometry {
        channels: if is_large { 2 } else { 1 },
        dies_per_channel: if is_large { 2 } else { 1 },
        planes_per_die: 1,
        blocks_per_plane: AUTO_DEVICE_BLOCKS_PER_PLANE as u32,
        pages_per_block: if is_large { pages_per_block } else { fitting } as u32,
        ..model.geometry
    };
    preset::DevicePreset { name: AUTO_SIZED_PRESET_NAME, geometry, gc_start_free_share: 0.0, ..model }
}

/// Returns the share of the physical pages that is exported. `spare` is the over-provisioning, as a share of what `of`
/// names: the exported pages, or all pages.
fn exported_share(spare: f64, of: OverProvisioningBase) -> Result<f64, ConfigError> {
    let exported = match of {
        OverProvisioningBase::Logical => 1.0 / (1.0 + spare),
        OverProvisioningBase::Physical => 1.0 - spare,
    };
    if !(spare > 0.0 && exported > 0.0 && exported < 1.0) {
        return Err(ConfigError::InvalidValue(format!(
            "device.over_provisioning is {spare} of the physical pages (device.over_provisioning_of=physical), so that \
             nothing is exported: set less than 1, or device.over_provisioning_of=logical"
        )));
    }
    Ok(exported)
}

/// Unwritten space of the two open blocks of a plane (one for host writes, one for GC copies), in blocks. On average
/// half of each is unwritten, but some of their pages become invalid before the blocks are full. Measured with uniform
/// writes to 5,000 to 1,000,000 pages at 7, 15 and 28 % of spare space: values of 0.60 to 0.76 make the write
/// amplification equal to the theoretical one.
const UNWRITTEN_SPACE_OF_OPEN_BLOCKS_PER_PLANE: f64 = 0.65;

/// Returns how many blocks of each pool (a plane, or the planes of a superblock) hold no data: the free blocks that GC
/// keeps, and the unwritten part of the open blocks. `gc_start_free_blocks` is the number of free blocks at which GC
/// starts.
pub fn free_and_unwritten_blocks_per_pool(gc_start_free_blocks: u32) -> f64 {
    f64::from(gc_start_free_blocks) + 1.0 + UNWRITTEN_SPACE_OF_OPEN_BLOCKS_PER_PLANE
}

/// A device that is resized to its input, or of a fixed size.
struct FittedDevice {
    /// Layout of the flash.
    geometry: Geometry,
    /// As [`ResolvedDevice::reserve_blocks_per_plane`].
    reserve_blocks_per_plane: f64,
    /// As [`ResolvedDevice::is_enlarged_for_gc`], whether or not the exported pages are set.
    is_enlarged_for_gc: bool,
}

/// Requirements by which a device is resized: the number of pages that the input touches, which shares of the device
/// they and the exported pages are, and the threshold at which GC starts.
struct DeviceFitRequest {
    /// Pages of 4 KiB that the input touches.
    footprint_pages: u64,
    /// Share of the exported pages that the input is to touch (`device.fit`).
    touched_share_of_exported_pages: f64,
    /// Share of the physical pages that is exported, not counting the reserve blocks.
    exported_share: f64,
    /// Free-block threshold at which GC starts, as a share of the blocks of a pool.
    gc_start_free_block_share: f64,
}

/// Refuses `device.fit` if even the smallest device of the preset, which exports `exported_4k_pages`, is too large: the
/// input touches at most half of the requested share `touched_share` of these pages.
fn require_footprint_fills_smallest_device(
    preset: &str,
    touched_share: f64,
    footprint_pages: u64,
    exported_4k_pages: u64,
) -> Result<(), ConfigError> {
    let reached = footprint_pages as f64 / exported_4k_pages as f64;
    if reached > touched_share / 2.0 {
        return Ok(());
    }
    Err(ConfigError::InvalidValue(format!(
        "device.fit asks for a drive of which the input touches {:.2} %, but the input touches only {:.2} % of the \
         smallest drive of the preset {preset} that can collect garbage, which exports {} MiB: lower device.channels, \
         device.dies_per_channel, device.planes_per_die or device.pages_per_block, or leave device.fit out",
        100.0 * touched_share,
        100.0 * reached,
        exported_4k_pages / 256
    )))
}
