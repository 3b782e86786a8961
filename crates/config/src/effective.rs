//! Writes the configuration as a run used it into the run record, so that the run can be repeated from its record.
//!
//! Absent values are replaced by the values that were used, if they belong to the device or the run. What a design
//! decides for itself (such as the entries of its caches, or its recovery) stays absent here; the run record reports it
//! elsewhere.

use wearwell::nand::{FlashTiming, Geometry};

use super::{
    Arrival, Config, DeviceConfig, Origins, OverProvisioningBase, Precondition, PreconditionConfig,
    ReplayConfig, ResolvedDevice, VictimPolicyName,
};

impl Config {
    /// Returns this run configuration with absent values replaced by those of `resolved` or by defaults, and with the
    /// arrival mode that was in effect. The returned configuration gives an identical run on the same input.
    #[must_use]
    pub fn with_effective_values(&self, resolved: &ResolvedDevice, arrival: Arrival) -> Self {
        let mut config = self.clone();
        config.device = self.device.with_effective_values(resolved);
        config.origins = Origins::default();
        config.device.striping = Some(self.striping_name());
        config.replay.arrival = arrival;
        config.buffer.pages = Some(self.write_buffer_options(&resolved.geometry).capacity_pages);
        config.gc.low_blocks = Some(resolved.gc_options.gc_start_free_blocks);
        // A share would be applied to more blocks than the threshold was computed from, and so raise it.
        config.gc.free_share = None;
        config.gc.background_share = Some(self.gc.background_share.unwrap_or(0.0));
        if self.gc.policy == VictimPolicyName::DChoices {
            config.gc.d = Some(self.gc.random_victim_candidates());
        }
        config.precondition = self.precondition.with_effective_values();
        config.replay.seed = Some(self.seed());
        config.replay.time_scale = Some(self.replay.time_scale());
        if arrival == Arrival::Closed {
            config.replay.queue_depth = Some(self.replay.queue_depth());
        }
        config
    }
}

impl DeviceConfig {
    /// Returns the section with all values that the device has, also those that the user left absent.
    fn with_effective_values(&self, resolved: &ResolvedDevice) -> Self {
        let Geometry {
            channels,
            dies_per_channel,
            planes_per_die,
            blocks_per_plane,
            pages_per_block,
            page_bytes,
            spare_bytes,
            superblock_planes,
        } = resolved.geometry;
        let FlashTiming { read_ns, program_ns, erase_ns, transfer_ps_per_byte } = resolved.flash_timing;
        let us = |ns: u64| Some(ns as f64 / 1000.0);
        Self {
            preset: Some(resolved.preset_name.clone()),
            channels: Some(channels),
            dies_per_channel: Some(dies_per_channel),
            planes_per_die: Some(planes_per_die),
            blocks_per_plane: Some(blocks_per_plane),
            pages_per_block: Some(pages_per_block),
            page_bytes: Some(page_bytes),
            spare_bytes: Some(spare_bytes),
            superblock_planes: Some(superblock_planes),
            read_us: us(read_ns),
            program_us: us(program_ns),
            erase_us: us(erase_ns),
            channel_mb_per_s: Some(1e6 / transfer_ps_per_byte as f64),
            endurance_cycles: Some(resolved.endurance_cycles),
            factory_bad_share: Some(self.factory_bad_share.unwrap_or(0.0)),
            wear_out: Some(self.wear_out.unwrap_or(false)),
            // Redundant: `logical_pages` is set.
            over_provisioning: None,
            over_provisioning_of: Some(OverProvisioningBase::Logical),
            logical_pages: Some(resolved.logical_pages),
            // Redundant: the resulting geometry is set.
            fit: None,
            striping: self.striping,
            metadata_striping: self.metadata_striping,
            reserve_blocks: Some(resolved.reserve_blocks_per_plane),
        }
    }
}

impl PreconditionConfig {
    /// Returns the amount of random overwrites that preconditioning makes after the first GC, in units of the physical
    /// capacity.
    pub fn overwrites_in_physical_capacities(&self) -> f64 {
        self.overwrite.unwrap_or(match self.mode {
            Precondition::Steady => 1.0,
            Precondition::Constructed | Precondition::InUse => 0.1,
            Precondition::None | Precondition::Fill | Precondition::Random | Precondition::Aged => 0.0,
        })
    }

    /// Returns the share of the replayed requests that only age the device during preconditioning (default 0.5).
    pub fn aging_share_of_requests(&self) -> f64 {
        self.share.unwrap_or(0.5)
    }

    /// Returns the section with its absent values replaced by their defaults, but only those that the preconditioning
    /// mode uses.
    fn with_effective_values(&self) -> Self {
        let is_aged = self.mode == Precondition::Aged;
        let overwrites = matches!(
            self.mode,
            Precondition::Steady | Precondition::Constructed | Precondition::InUse | Precondition::Random
        );
        Self {
            overwrite: if overwrites {
                Some(self.overwrites_in_physical_capacities())
            } else {
                self.overwrite
            },
            share: if is_aged && self.trace.is_none() {
                Some(self.aging_share_of_requests())
            } else {
                self.share
            },
            filled: if is_aged { Some(self.filled == Some(true)) } else { self.filled },
            ..self.clone()
        }
    }
}

impl ReplayConfig {
    /// Returns the number of requests in flight in closed loop (default 32).
    pub fn queue_depth(&self) -> u32 {
        self.queue_depth.unwrap_or(32)
    }

    /// Returns the factor by which the times of the trace are multiplied (default 1).
    pub fn time_scale(&self) -> f64 {
        self.time_scale.unwrap_or(1.0)
    }
}
