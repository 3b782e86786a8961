//! Compares FTL designs that differ in their metadata (map and page validity) and prints a table in Markdown:
//! `metadata FILE-OR-FOLDER...`. Each trace is replayed through the five designs that `GeckoFTL` compares; then power
//! is cut after its last request, and the drive recovers.
//!
//! The device is the paper's: 128 pages of 4 KiB per block, 70 % exported, one cached map entry to 1024 pages. It has
//! at least 512 blocks, and as many as the trace needs. It begins in the steady state of uniform writes, so that the
//! trace writes on a full device. RAM is what the parts of a design report. Recovery is executed, and its flash
//! operations are priced one after the other. Where a battery is assumed, the pages that it wrote are named.

use std::ops::ControlFlow::Continue;
use std::path::{Path, PathBuf};

use wearwell_config::Config;
use wearwell_replay::input::Input;
use wearwell_replay::record::RunRecord;
use wearwell_replay::replay::Plan;
use wearwell_trace::{OpenOptions, TimeUnit};

/// Names of the FTL designs that the `GeckoFTL` paper compares.
const DESIGNS: [&str; 5] = ["dftl", "lazyftl", "u-ftl", "ib-ftl", "geckoftl"];
/// Number of pages in a block of the device in the `GeckoFTL` paper (SIGMOD 2016).
const BLOCK_PAGES: u64 = 128;
/// Smallest number of blocks of the simulated device.
const MIN_DEVICE_BLOCKS: u64 = 512;

/// Result of a fallible function of this example, with an error of any type.
type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

/// Appends the trace files at or below a path to `into`. Of a capture, only its request list counts as a trace.
fn add_trace_files(path: &Path, into: &mut Vec<PathBuf>) -> Outcome<()> {
    if !path.is_dir() {
        into.push(path.to_owned());
        return Ok(());
    }
    let mut entries: Vec<PathBuf> =
        std::fs::read_dir(path)?.map(|entry| Ok(entry?.path())).collect::<std::io::Result<_>>()?;
    entries.sort();
    for entry in entries {
        let name = entry.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let is_beside = [".pages.zst", ".psz.zst", ".wdelta.zst"].iter().any(|ending| name.ends_with(ending));
        let is_trace = [".zst", ".wwt"].iter().any(|ending| name.ends_with(ending)) && !is_beside;
        if entry.is_dir() || is_trace {
            add_trace_files(&entry, into)?;
        }
    }
    Ok(())
}

/// Makes a trace file an input. Times of `MQSim` and ASCII traces are read as nanoseconds, because these files do not
/// state the unit.
fn trace_input(path: &Path) -> Input {
    let name = path.to_string_lossy();
    let time_unit = (name.contains("mqsim") || name.contains(".ascii")).then_some(TimeUnit::Nanoseconds);
    Input::Trace { path: path.to_owned(), options: OpenOptions { time_unit, ..OpenOptions::default() } }
}

/// Returns the configuration of the device in the `GeckoFTL` paper, with enough blocks for a trace that touches
/// `footprint_pages` pages.
fn config_for_footprint(footprint_pages: u64) -> Outcome<Config> {
    let pages = footprint_pages as f64 / 0.9 / 0.7;
    let blocks = ((pages / BLOCK_PAGES as f64).ceil() as u64).max(MIN_DEVICE_BLOCKS);
    let settings = [
        "device.preset=gk-2t".to_owned(),
        format!("device.blocks_per_plane={blocks}"),
        format!("mapping.cache_entries={}", blocks * BLOCK_PAGES / 1024),
        "precondition.mode=constructed".to_owned(),
        "precondition.overwrite=0".to_owned(),
        "recovery.after_run=true".to_owned(),
        // The prices of the paper (section 2), whose times of pages include the transfer.
        "recovery.spare_read_us=3".to_owned(),
        "device.channel_mb_per_s=1000000".to_owned(),
    ];
    Ok(Config::from_text_and_settings(None, &settings)?)
}

/// Prints the table row of one run: RAM of the controller, recovery time, pages written on battery, and write
/// amplification.
fn print_row(name: &str, record: &RunRecord) {
    let recovery = record.recovery.as_ref().expect("a recovery was asked for");
    let battery = match recovery.battery_programs {
        0 => String::new(),
        pages => format!(" + battery: {pages} pages"),
    };
    println!(
        "| {name} | {} | {} | {:.1} | {:.1} ms{battery} | {:.3} | {:.3} |",
        record.design,
        record.host_page_writes,
        record.ram_bytes as f64 / 1024.0,
        recovery.total.time_s * 1000.0,
        record.write_amplification,
        (record.programs as f64 + record.reads as f64 / 10.0) / record.host_page_writes.max(1) as f64,
    );
}

fn main() -> Outcome<()> {
    let mut files = Vec::new();
    for path in std::env::args().skip(1) {
        add_trace_files(Path::new(&path), &mut files)?;
    }
    println!(
        "| trace | design | host page writes | RAM, KiB | recovery | write amplification | with a tenth of the reads |"
    );
    println!("|---|---|---|---|---|---|---|");
    for path in files {
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let name = name.split('.').next().unwrap_or("?").to_owned();
        let input = trace_input(&path);
        let footprint_pages = Plan::new(&Config::default(), &input)?.survey().footprint_pages;
        let config = config_for_footprint(footprint_pages)?;
        let plan = Plan::new(&config, &input)?;
        for design in DESIGNS {
            match plan.run(design, &mut |_| Continue(())) {
                Ok(record) if !record.partial => print_row(&name, &record),
                Ok(record) => println!(
                    "| {name} | {design} | ended early: {} |",
                    record.partial_reason.unwrap_or_default()
                ),
                Err(error) => println!("| {name} | {design} | not run: {error} |"),
            }
        }
    }
    Ok(())
}
