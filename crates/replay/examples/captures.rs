//! Compares designs on captures (recorded traces with page contents) and prints a table in Markdown:
//! `captures [--sizes] FILE...`. Each request list (`NAME.ops.zst`, with the page files beside it) is replayed through
//! every design with content mechanisms.
//!
//! Pages are replayed as the bytes that were written, so that hashes, deltas and compression are real. With `--sizes`,
//! the identities and sizes that the capture knows of every page are replayed instead. Devices are sized to the trace
//! (preset `auto`) and empty at the start. Runs are timed by the event engine, and requests arrive as recorded.

use std::ops::ControlFlow::Continue;
use std::path::{Path, PathBuf};

use wearwell_config::Config;
use wearwell_replay::input::Input;
use wearwell_replay::record::RunRecord;
use wearwell_replay::replay::Plan;
use wearwell_trace::OpenOptions;

/// Names of the designs (kinds of FTL) that each capture is replayed on; the first is the baseline.
const DESIGNS: [&str; 5] = ["page-map", "recyclable", "remap", "delta", "integrated"];

/// Replays a captured trace on one design; a run that ended before the end of the trace is an error.
fn replay_on_design(
    config: &Config,
    input: &Input,
    design: &str,
) -> Result<RunRecord, Box<dyn std::error::Error>> {
    let record = Plan::new(config, input)?.run(design, &mut |_| Continue(()))?;
    match record.partial_reason {
        Some(reason) => Err(format!("{design} ended early: {reason}").into()),
        None => Ok(record),
    }
}

/// Prints the table row of one run: its figures, and its erases divided by those of the baseline (the design
/// `page-map`).
fn print_row(name: &str, record: &RunRecord, baseline: &RunRecord) {
    println!(
        "| {name} | {} | {} | {:.1} % | {} | {:.3} | {:.3} | {:.0} |",
        record.design,
        record.host_page_writes,
        100.0 * record.write_reduction,
        record.erases,
        record.erases as f64 / baseline.erases.max(1) as f64,
        record.write_amplification,
        record.latency_us.write.p99,
    );
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (options, files): (Vec<String>, Vec<String>) =
        std::env::args().skip(1).partition(|arg| arg.starts_with("--"));
    let reads_payloads = !options.iter().any(|option| option == "--sizes");
    // An empty drive, a tenth of which no trace touches.
    let settings =
        ["timing.mode=event", "precondition.mode=none", "device.fit=0.9", "device.reserve_blocks=0"];
    let config = Config::from_text_and_settings(None, &settings.map(str::to_owned))?;
    println!(
        "| capture | design | host page writes | write reduction | erases | to page-map | write amplification | write p99, us |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    for path in files.into_iter().map(PathBuf::from) {
        let name = path.file_name().map(Path::new).and_then(Path::to_str).unwrap_or("?");
        let name = name.split('.').next().unwrap_or(name).to_owned();
        let input = Input::Trace { path, options: OpenOptions { reads_payloads, ..OpenOptions::default() } };
        let baseline = replay_on_design(&config, &input, DESIGNS[0])?;
        print_row(&name, &baseline, &baseline);
        for design in &DESIGNS[1..] {
            print_row(&name, &replay_on_design(&config, &input, design)?, &baseline);
        }
    }
    Ok(())
}
