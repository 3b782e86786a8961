//! Named devices: those that research papers simulated, and two drives of today.
//!
//! A preset is a geometry, datasheet timing and endurance, with the source of the figures. Paper presets follow the
//! papers' configuration sections; if a paper is silent, `source_of_figures` names the values that were chosen here.

use super::{FlashTiming, Geometry};

/// A named flash device: geometry, timing, endurance and spare space, with the source of the figures.
#[derive(Clone, PartialEq, Debug)]
pub struct DevicePreset {
    /// Name by which the device is selected on the command line.
    pub name: &'static str,
    /// One sentence that says what the device is and where its figures come from.
    pub source_of_figures: &'static str,
    /// Geometry of the device.
    pub geometry: Geometry,
    /// Datasheet timing of the device's flash.
    pub timing: FlashTiming,
    /// Number of program/erase cycles for which a block of the device is rated.
    pub endurance_cycles: u32,
    /// Over-provisioning with which the device is sold: (physical - logical) / logical pages.
    pub over_provisioning: f64,
    /// Share of blocks that must be free; with fewer, garbage collection starts.
    pub gc_start_free_share: f64,
}

/// Returns a device geometry without superblocks. `counts` has the number of channels, dies per channel, planes per
/// die, blocks per plane and pages per block.
fn geometry_of_counts(counts: [u32; 5], page_bytes: u32, spare_bytes: u32) -> Geometry {
    let [channels, dies_per_channel, planes_per_die, blocks_per_plane, pages_per_block] = counts;
    Geometry {
        channels,
        dies_per_channel,
        planes_per_die,
        blocks_per_plane,
        pages_per_block,
        page_bytes,
        spare_bytes,
        superblock_planes: 1,
    }
}

/// Returns a flash timing from tR, tPROG and tBERS in microseconds and the channel rate in MB/s.
fn flash_timing(read_us: u64, program_us: u64, erase_us: u64, channel_mb_per_s: u64) -> FlashTiming {
    FlashTiming {
        read_ns: read_us * 1000,
        program_ns: program_us * 1000,
        erase_ns: erase_us * 1000,
        transfer_ps_per_byte: 1_000_000 / channel_mb_per_s,
    }
}

/// Returns all named devices: those that research papers simulated, two drives of today, and those for measurements.
pub fn all_presets() -> Vec<DevicePreset> {
    let mut devices = paper_presets();
    devices.extend(modern_drive_presets());
    devices.extend(measurement_presets());
    devices
}

/// Returns the device preset with this name; `None` if there is none.
pub fn preset_by_name(name: &str) -> Option<DevicePreset> {
    all_presets().into_iter().find(|device| device.name == name)
}

/// Returns the devices that research papers simulated, with the figures of their configuration sections.
fn paper_presets() -> Vec<DevicePreset> {
    vec![
        DevicePreset {
            name: "lx-40g",
            source_of_figures: "Recyclable SSD (LX), Table II: 10 chips x 8 planes x 2048 blocks x 64 pages of 4 KiB, 25/200/1500 us, 15 % spare, GC below 5 % free; one chip per channel and 100 MB/s are ours",
            geometry: geometry_of_counts([10, 1, 8, 2048, 64], 4096, 128),
            timing: flash_timing(25, 200, 1500, 100),
            endurance_cycles: 10_000,
            over_provisioning: 0.15,
            gc_start_free_share: 0.05,
        },
        DevicePreset {
            name: "df-64g",
            source_of_figures: "Delta-FTL (DF), section 5.1: 16 chips x 4 planes of 1 GiB, 4-KiB pages, 25/200/1500 us, 40 us per page on the bus, 30 % spare read as logical = 0.7 physical, GC below 10 % of exported; 64 pages per block is ours",
            geometry: geometry_of_counts([16, 1, 4, 4096, 64], 4096, 128),
            timing: FlashTiming {
                read_ns: 25_000,
                program_ns: 200_000,
                erase_ns: 1_500_000,
                transfer_ps_per_byte: 9_766,
            },
            endurance_cycles: 3_000,
            over_provisioning: 0.3 / 0.7,
            gc_start_free_share: 0.07,
        },
        DevicePreset {
            name: "rm-36g",
            source_of_figures: "Remap-SSD (RM), section 5.1 (FEMU): 16 dies x 1 plane, 1024 pages of 4 KiB per block, 32 GiB logical + 4 GiB, superblocks over all dies, 50/500/5000 us; 8 channels at 800 MB/s are ours",
            geometry: Geometry {
                superblock_planes: 16,
                ..geometry_of_counts([8, 2, 1, 576, 1024], 4096, 128)
            },
            timing: flash_timing(50, 500, 5000, 800),
            endurance_cycles: 3_000,
            over_provisioning: 0.125,
            gc_start_free_share: 0.02,
        },
        DevicePreset {
            name: "il-64g",
            source_of_figures: "Integrated lifetime management (IL), section IV: 64 GiB, 128 pages of 4 KiB per block, tPROG 600 us, 3000 cycles; 8 channels x 2 dies, 50/600/3000 us, 400 MB/s and 7 % spare are ours",
            geometry: geometry_of_counts([8, 2, 1, 8192, 128], 4096, 128),
            timing: flash_timing(50, 600, 3000, 400),
            endurance_cycles: 3_000,
            over_provisioning: 0.07,
            gc_start_free_share: 0.01,
        },
        DevicePreset {
            name: "gk-2t",
            source_of_figures: "GeckoFTL (GK), section 5: 2^22 blocks x 128 pages of 4 KiB = 2 TiB, logical = 0.7 physical, read 100 us, write 1 ms; one frontier per stream as the paper's model has; 2-ms erase and 400 MB/s are ours",
            geometry: geometry_of_counts([1, 1, 1, 1 << 22, 128], 4096, 128),
            timing: flash_timing(100, 1000, 2000, 400),
            endurance_cycles: 3_000,
            over_provisioning: 0.3 / 0.7,
            gc_start_free_share: 0.0,
        },
    ]
}

/// Returns the devices with the figures of typical drives of today.
fn modern_drive_presets() -> Vec<DevicePreset> {
    vec![
        DevicePreset {
            name: "tlc-1t",
            source_of_figures: "a TLC NVMe drive of the 2020s, 1 TiB raw: 8 channels x 4 dies x 2 planes, 512-page blocks of 16 KiB; tR 50 us, tPROG 600 us, tBERS 3.5 ms and 1200 MB/s are typical of published 96- to 176-layer TLC parts (ISSCC 2018-2021 papers), 3000 cycles",
            geometry: geometry_of_counts([8, 4, 2, 2048, 512], 16384, 1952),
            timing: flash_timing(50, 600, 3500, 1200),
            endurance_cycles: 3_000,
            over_provisioning: 0.07,
            gc_start_free_share: 0.01,
        },
        DevicePreset {
            name: "qlc-2t",
            source_of_figures: "a QLC NVMe drive of the 2020s, 2 TiB raw: 8 channels x 4 dies x 4 planes, 1024-page blocks of 16 KiB; tR 110 us, tPROG 2.0 ms, tBERS 8 ms and 1200 MB/s are typical of published 96- to 144-layer QLC parts (ISSCC 2019-2021 papers), 1000 cycles",
            geometry: geometry_of_counts([8, 4, 4, 1024, 1024], 16384, 1952),
            timing: flash_timing(110, 2000, 8000, 1200),
            endurance_cycles: 1_000,
            over_provisioning: 0.07,
            gc_start_free_share: 0.01,
        },
    ]
}

/// Returns the devices that serve for measurements only: those of one plane and one pool, for which write amplification
/// has closed formulas, and the benchmark device.
fn measurement_presets() -> Vec<DevicePreset> {
    [("lab-8g", 1 << 14, "8 GiB"), ("lab-64g", 1 << 17, "64 GiB"), ("lab-512g", 1 << 20, "512 GiB"), ("lab-2t", 1 << 22, "2 TiB")]
        .into_iter()
        .map(|(name, blocks, size)| DevicePreset {
            name,
            source_of_figures: match size {
                "8 GiB" => "8 GiB, one plane, 128 pages of 4 KiB per block: one frontier per stream, the shape of the closed forms",
                "64 GiB" => "64 GiB, otherwise as lab-8g",
                "512 GiB" => "512 GiB, otherwise as lab-8g",
                _ => "2 TiB, otherwise as lab-8g",
            },
            geometry: geometry_of_counts([1, 1, 1, blocks, 128], 4096, 128),
            timing: flash_timing(45, 400, 3500, 400),
            endurance_cycles: 3_000,
            over_provisioning: 0.15,
            gc_start_free_share: 0.0,
        })
        .chain([DevicePreset {
            name: "bench-8g",
            source_of_figures: "8 GiB over 8 channels x 8 dies: 16384 blocks of 128 pages of 4 KiB, 45/400/3500 us, 400 MB/s; the benchmark device",
            geometry: geometry_of_counts([8, 8, 1, 256, 128], 4096, 128),
            timing: flash_timing(45, 400, 3500, 400),
            endurance_cycles: 3_000,
            over_provisioning: 0.15,
            gc_start_free_share: 0.0,
        }])
        .collect()
}
