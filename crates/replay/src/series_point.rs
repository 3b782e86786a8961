//! Counters of a run at one moment, from which its series, its steadiness and its timeline are computed.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Counters at one moment of a run; all counts are totals since the first measured request.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct SeriesPoint {
    /// Requests of the run so far.
    pub requests: u64,
    /// Host page writes of the run so far.
    pub host_page_writes: u64,
    /// Bytes of the host's write requests so far.
    #[serde(default)]
    pub host_bytes: u64,
    /// Pages that the host remapped so far.
    #[serde(default)]
    pub host_page_remaps: u64,
    /// Page programs of the run so far.
    pub programs: u64,
    /// Block erases of the run so far.
    pub erases: u64,
    /// Host page writes so far that revived a dead page.
    pub recycled_writes: u64,
    /// Number of free blocks of the drive at this moment of the run.
    pub free_blocks: u32,
    /// Device time (simulated time) at this moment of the run, seconds; 0 without timing.
    #[serde(default)]
    pub device_s: f64,
}

impl SeriesPoint {
    /// The counters of a run before its first request.
    pub const ZERO: Self = Self {
        requests: 0,
        host_page_writes: 0,
        host_bytes: 0,
        host_page_remaps: 0,
        programs: 0,
        erases: 0,
        recycled_writes: 0,
        free_blocks: 0,
        device_s: 0.0,
    };
}
