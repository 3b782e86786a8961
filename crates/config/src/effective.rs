//! The configuration as a run used it, for its record: a result is repeated from what is written, not from what was meant.
//!
//! Absent values are replaced by those that were used, as far as they belong to the device and the run. What a design decides
//! for itself (the entries of its caches, its recovery) stays absent, and the record of a run tells it.

use wearwell::nand::{FlashTiming, Geometry};

use super::{
    Arrival, Config, DeviceConfig, Policy, Precondition, PreconditionConfig, ReplayConfig, Resolved, SpareOf,
};

impl Config {
    /// This configuration with every absent value that `resolved` knows or that has a default, and the arrival that was in
    /// effect. It gives the same run on the
    /// same input.
    #[must_use]
    pub fn effective(&self, resolved: &Resolved, arrival: Arrival) -> Self {
        let mut config = self.clone();
        config.device = self.device.effective(resolved);
        config.device.striping = Some(self.striping_name());
        config.replay.arrival = arrival;
        config.buffer.pages = Some(self.buffer(&resolved.geometry).pages);
        config.gc.low_blocks = Some(resolved.gc.low_blocks);
        // A share would raise the threshold that it was worked out from.
        config.gc.free_share = None;
        config.gc.background_share = Some(self.gc.background_share.unwrap_or(0.0));
        if self.gc.policy == Policy::DChoices {
            config.gc.d = Some(self.gc.d());
        }
        config.precondition = self.precondition.effective();
        config.replay.seed = Some(self.seed());
        config.replay.time_scale = Some(self.replay.time_scale());
        if arrival == Arrival::Closed {
            config.replay.queue_depth = Some(self.replay.queue_depth());
        }
        config
    }
}

impl DeviceConfig {
    fn effective(&self, resolved: &Resolved) -> Self {
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
        let FlashTiming { read_ns, program_ns, erase_ns, transfer_ps_per_byte } = resolved.timing;
        let us = |ns: u64| Some(ns as f64 / 1000.0);
        Self {
            preset: Some(resolved.preset.clone()),
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
            // The exported pages say it.
            over_provisioning: None,
            over_provisioning_of: Some(SpareOf::Logical),
            logical_pages: Some(resolved.logical_pages),
            // The shape that it led to is written out.
            fit: None,
            striping: self.striping,
            reserve_blocks: Some(resolved.reserve_blocks),
        }
    }
}

impl PreconditionConfig {
    /// Random writes after the first GC, physical capacities.
    pub fn overwrite(&self) -> f64 {
        self.overwrite.unwrap_or(match self.mode {
            Precondition::Steady => 1.0,
            Precondition::Constructed | Precondition::InUse => 0.1,
            Precondition::None | Precondition::Fill | Precondition::Random | Precondition::Aged => 0.0,
        })
    }

    /// The share of the requests that ages.
    pub fn share(&self) -> f64 {
        self.share.unwrap_or(0.5)
    }

    fn effective(&self) -> Self {
        let is_aged = self.mode == Precondition::Aged;
        let overwrites = matches!(
            self.mode,
            Precondition::Steady | Precondition::Constructed | Precondition::InUse | Precondition::Random
        );
        Self {
            overwrite: if overwrites { Some(self.overwrite()) } else { self.overwrite },
            share: if is_aged && self.trace.is_none() { Some(self.share()) } else { self.share },
            filled: if is_aged { Some(self.filled == Some(true)) } else { self.filled },
            ..self.clone()
        }
    }
}

impl ReplayConfig {
    /// Requests in flight in closed loop.
    pub fn queue_depth(&self) -> u32 {
        self.queue_depth.unwrap_or(32)
    }

    /// What trace times are multiplied by.
    pub fn time_scale(&self) -> f64 {
        self.time_scale.unwrap_or(1.0)
    }
}
