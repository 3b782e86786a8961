//! `trace info`, `trace convert`, `trace formats`.

use std::fs::{self, File};
use std::io::BufWriter;
use std::path::Path;

use wearwell_replay::report::grouped;
use wearwell_replay::trace::{self, CsvWriter, Format, NativeWriter, OpenOptions, TraceInfo, TraceWriter};

use crate::args::{InputArgs, TraceCommand};
use crate::{Failure, Outcome};

pub(crate) fn trace(command: &TraceCommand) -> Result<Outcome, Failure> {
    match command {
        TraceCommand::Info { traces, input, json } => {
            let options = input.open_options()?;
            let mut outcome = Outcome::Done;
            for path in traces {
                let info = TraceInfo::of_file(path, &options).map_err(|error| Failure::of_run(&error))?;
                if info.damage.is_some() {
                    outcome = Outcome::Partial;
                }
                show(path, &info, *json)?;
            }
            Ok(outcome)
        }
        TraceCommand::Convert { from, to, provenance, input } => convert(from, to, provenance, input),
        TraceCommand::Formats => {
            for format in Format::ALL {
                println!("{:16} {}", format.name(), format.description());
            }
            Ok(Outcome::Done)
        }
    }
}

fn show(path: &Path, info: &TraceInfo, json: bool) -> Result<(), Failure> {
    if json {
        let text = serde_json::to_string_pretty(info).map_err(|error| Failure::of_run(&error))?;
        println!("{text}");
    } else {
        println!("{}", path.display());
        for (name, value) in rows(info) {
            println!("  {name:24} {value}");
        }
    }
    Ok(())
}

fn rows(info: &TraceInfo) -> Vec<(&'static str, String)> {
    let count = |n: u64| grouped(n as f64, 0);
    let share = |share: f64| format!("{share:.3}");
    let (requests, pages) = (&info.requests, &info.pages);
    let mut rows = vec![
        ("format", info.format.to_string()),
        ("requests", count(requests.total())),
        ("  read / write", format!("{} / {}", count(requests.read), count(requests.write))),
        (
            "  trim / zero / flush",
            format!("{} / {} / {}", count(requests.trim), count(requests.zero), count(requests.flush)),
        ),
        ("  remap / phase", format!("{} / {}", count(requests.remap), count(requests.phase))),
        ("write share", share(info.write_share)),
        ("pages read / written", format!("{} / {}", count(pages.read), count(pages.write))),
        ("pages trimmed / zeroed", format!("{} / {}", count(pages.trim), count(pages.zero))),
        ("pages remapped", count(pages.remap)),
        ("written, MiB", grouped(info.written_mib, 1)),
        ("unique pages written", count(info.unique_pages_written)),
        ("overwrites (live data)", share(info.over_share)),
        ("rewrites", share(info.rewritten_share)),
        ("duration, s", grouped(info.duration_ns as f64 / 1e9, 3)),
        ("devices", count(info.devices)),
        ("highest address, MiB", grouped(info.max_end_bytes as f64 / 1_048_576.0, 1)),
        ("bad lines skipped", count(info.rejected)),
    ];
    if let Some(provenance) = &info.provenance {
        rows.insert(1, ("provenance", provenance.clone()));
    }
    match &info.content {
        Some(content) => rows.extend([
            ("duplicate share", share(content.duplicate_share)),
            ("silent share", share(content.silent_share)),
            ("zero share", share(content.zero_share)),
        ]),
        None => rows.push(("content", "not in the trace".to_owned())),
    }
    rows.extend(info.sha256.iter().map(|sha256| ("sha256", sha256.clone())));
    rows.extend(info.damage.iter().map(|damage| ("DAMAGED", damage.clone())));
    rows
}

/// Converts into a file beside the output, which gets its name when it is whole: a failed conversion leaves nothing, and
/// a trace may be converted onto itself.
fn convert(from: &Path, to: &Path, provenance: &str, input: &InputArgs) -> Result<Outcome, Failure> {
    let mut unfinished = to.as_os_str().to_owned();
    unfinished.push(".partial");
    let unfinished = Path::new(&unfinished);
    let is_csv = to.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("csv"));
    let converted = convert_into(from, unfinished, is_csv, provenance, input);
    if converted.is_ok() {
        fs::rename(unfinished, to)
            .map_err(|error| Failure::of_usage(format!("{}: {error}", to.display())))?;
    } else {
        let _ = fs::remove_file(unfinished);
    }
    converted
}

fn convert_into(
    from: &Path,
    to: &Path,
    is_csv: bool,
    provenance: &str,
    input: &InputArgs,
) -> Result<Outcome, Failure> {
    let options = OpenOptions { bytes: false, ..input.open_options()? };
    let mut reader = trace::open(from, &options).map_err(|error| Failure::of_run(&error))?;
    let out = File::create(to).map_err(|error| Failure::of_usage(format!("{}: {error}", to.display())))?;
    let out = BufWriter::new(out);
    let mut writer: Box<dyn TraceWriter> = if is_csv {
        Box::new(CsvWriter::new(out).map_err(|error| Failure::of_run(&error))?)
    } else {
        Box::new(NativeWriter::new(out, provenance).map_err(|error| Failure::of_run(&error))?)
    };
    let requests =
        trace::convert(reader.as_mut(), writer.as_mut()).map_err(|error| Failure::of_run(&error))?;
    eprintln!("{} requests, {} bad lines skipped", grouped(requests as f64, 0), reader.rejected().count);
    Ok(Outcome::Done)
}
