//! The commands `trace info` (statistics of traces), `trace convert` (to another format) and `trace formats` (list of
//! formats).

use std::fmt::Write as _;
use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};

use wearwell_replay::report::with_thousands_separators;
use wearwell_trace::{CsvWriter, Format, NativeWriter, OpenOptions, TraceError, TraceInfo, TraceWriter};

use crate::args::{InputArgs, TraceCommand};
use crate::input::TraceFile;
use crate::output::{OutputDestination, OverwriteRule, print, print_message};
use crate::{Failure, Outcome};

/// Executes the command `trace`: prints statistics of traces, converts a trace, or lists the formats.
pub(crate) fn trace(command: &TraceCommand) -> Result<Outcome, Failure> {
    match command {
        TraceCommand::Info { traces, input, json } => {
            let infos = TraceInfos::of_traces(traces, &input.open_options()?);
            let text = if *json { infos.to_json()? } else { infos.to_text() };
            print(&text)?;
            infos.outcome()
        }
        TraceCommand::Convert { from, to, provenance, force, input } => {
            let output =
                OutputDestination::for_path(to, &OverwriteRule { input_paths: &[from], force: *force })?;
            convert_trace(from, &output, to, provenance, input)
        }
        TraceCommand::Formats => {
            let line = |format: Format| format!("{:16} {}\n", format.name(), format.description());
            print(&Format::ALL.into_iter().map(line).collect::<String>())?;
            Ok(Outcome::Done)
        }
    }
}

/// The statistics of several traces. Traces that cannot be read are reported and left out.
struct TraceInfos {
    /// Name and statistics of each trace that could be read.
    trace_infos: Vec<(String, TraceInfo)>,
    /// Number of traces that could not be read.
    unreadable_trace_count: usize,
    /// Whether the user named exactly one trace on the command line.
    is_single_trace: bool,
}

impl TraceInfos {
    /// Reads the traces and prints an error for each that cannot be read.
    fn of_traces(traces: &[PathBuf], options: &OpenOptions) -> Self {
        let mut infos =
            Self { trace_infos: Vec::new(), unreadable_trace_count: 0, is_single_trace: traces.len() == 1 };
        for path in traces {
            let info = TraceFile::open_repeatable(path, options, None, || false).and_then(|file| {
                let info = TraceInfo::of_file(&file.path, &file.options);
                let info = info.map_err(|error| Failure::of_trace(&error))?;
                Ok((file.options.trace_name_of(path), info))
            });
            match info {
                Ok((name, info)) => {
                    if info.requests.sum_over_ops() == 0 {
                        let hint = options.block_layer_stage_hint(info.format);
                        print_message(&format!("{name}: the trace has no requests{hint}"));
                    }
                    infos.trace_infos.push((name, info));
                }
                Err(failure) => {
                    failure.print();
                    infos.unreadable_trace_count += 1;
                }
            }
        }
        infos
    }

    /// Returns one JSON object for a single trace, or a list of objects with their paths for several.
    fn to_json(&self) -> Result<String, Failure> {
        let whole = |value: serde_json::Result<String>| value.map_err(|error| Failure::of_run(&error));
        if let ([(_, info)], true) = (&self.trace_infos[..], self.is_single_trace) {
            return Ok(whole(serde_json::to_string_pretty(info))? + "\n");
        }
        let mut list = Vec::new();
        for (path, info) in &self.trace_infos {
            let mut value = serde_json::to_value(info).map_err(|error| Failure::of_run(&error))?;
            value["path"] = path.as_str().into();
            list.push(value);
        }
        Ok(whole(serde_json::to_string_pretty(&list))? + "\n")
    }

    /// Returns the statistics of all traces as text: the name of each, then a line per figure.
    fn to_text(&self) -> String {
        let mut text = String::new();
        for (path, info) in &self.trace_infos {
            let _ = writeln!(text, "{path}");
            for (name, value) in info_rows(info) {
                let _ = writeln!(text, "  {name:24} {value}");
            }
        }
        text
    }

    /// Returns `Done` if all traces were read to the end, and `Partial` otherwise; an error if no trace could be read.
    fn outcome(&self) -> Result<Outcome, Failure> {
        if self.trace_infos.is_empty() {
            return Err(Failure::no_readable_input());
        }
        let is_whole = self.unreadable_trace_count == 0
            && self.trace_infos.iter().all(|(_, info)| info.damage.is_none());
        Ok(if is_whole { Outcome::Done } else { Outcome::Partial })
    }
}

/// Returns the statistics of a trace as pairs of label and value, one for each line of the printed text.
fn info_rows(info: &TraceInfo) -> Vec<(&'static str, String)> {
    let count = |n: u64| with_thousands_separators(n as f64, 0);
    let share = |share: f64| format!("{share:.3}");
    let (requests, pages) = (&info.requests, &info.pages);
    let mut rows = vec![
        ("format", info.format.to_string()),
        ("requests", count(requests.sum_over_ops())),
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
        ("written, MiB", with_thousands_separators(info.written_mib, 1)),
        ("unique pages written", count(info.unique_pages_written)),
        ("overwrites (live data)", share(info.share_of_overwriting_writes)),
        ("rewrites", share(info.share_of_writes_to_written_pages)),
        ("duration, s", with_thousands_separators(info.duration_ns as f64 / 1e9, 3)),
        ("devices", count(info.devices)),
        ("highest address, MiB", with_thousands_separators(info.max_end_bytes as f64 / 1_048_576.0, 1)),
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
    let oddities = [
        ("times that run backwards", info.unsorted_times),
        ("requests without length", info.empty_requests),
        ("parts of sectors", info.sub_sector_requests),
    ];
    rows.extend(oddities.into_iter().filter(|odd| odd.1 > 0).map(|(name, n)| (name, count(n))));
    rows.extend(info.sha256.iter().map(|sha256| ("sha256", sha256.clone())));
    rows.extend(info.damage.iter().map(|damage| ("DAMAGED", damage.clone())));
    rows
}

/// Converts a trace into a temporary file, which replaces the output when it is complete. A conversion that fails
/// leaves no file.
fn convert_trace(
    from: &Path,
    output: &OutputDestination,
    to: &Path,
    provenance: &str,
    input: &InputArgs,
) -> Result<Outcome, Failure> {
    if output.is_standard_output() {
        return Err(Failure::of_usage(
            "a trace cannot be converted to standard output (-): name an output file that ends in .wwt or .csv",
        ));
    }
    let ending = to.extension().map(std::ffi::OsStr::to_ascii_lowercase);
    let is_csv = match ending.as_deref().and_then(std::ffi::OsStr::to_str) {
        Some("csv") => true,
        Some("wwt") => false,
        _ if output.is_special_file() => false,
        _ => {
            let message =
                format!("{}: the output file has to end in .wwt (native format) or .csv", to.display());
            return Err(Failure::of_usage(message));
        }
    };
    if is_csv && !provenance.is_empty() {
        return Err(Failure::of_usage(
            "--provenance stores a text about the origin of the trace, for which a CSV has no place: leave it out, or \
             name an output file that ends in .wwt",
        ));
    }
    if input.bytes {
        return Err(Failure::of_usage(
            "--bytes has no effect on a conversion, because neither .wwt nor .csv holds the bytes of pages: leave it \
             out, and replay the capture itself with --bytes",
        ));
    }
    let options = OpenOptions { reads_payloads: false, ..input.open_options()? };
    let file = TraceFile::open_repeatable(from, &options, None, || false)?;
    output.write_with(|out| convert_into(&file, out, to, is_csv, provenance))
}

/// Converts a trace into the file `out`, as CSV or in the native format, and prints the number of requests. `to` is the
/// path of the output as the user wrote it, for messages.
fn convert_into(
    from: &TraceFile,
    out: File,
    to: &Path,
    is_csv: bool,
    provenance: &str,
) -> Result<Outcome, Failure> {
    let mut reader =
        wearwell_trace::open(&from.path, &from.options).map_err(|error| Failure::of_trace(&error))?;
    let out = BufWriter::new(out);
    let of_copy = |error: TraceError| match error {
        TraceError::Write(error) => Failure::of_output(to, &error),
        other => Failure::of_trace(&other),
    };
    let provenance = if provenance.is_empty() {
        reader.provenance().unwrap_or_default().to_owned()
    } else {
        provenance.into()
    };
    if is_csv && !provenance.is_empty() {
        print_message(
            "wearwell: note: the text about the origin of the trace is left out, because a CSV has no place for it; \
             wearwell trace info shows it",
        );
    }
    let mut writer: Box<dyn TraceWriter> = if is_csv {
        Box::new(CsvWriter::new(out).map_err(of_copy)?)
    } else {
        Box::new(NativeWriter::new(out, &provenance).map_err(of_copy)?)
    };
    let requests = wearwell_trace::copy_trace(reader.as_mut(), writer.as_mut()).map_err(of_copy)?;
    print_message(&format!(
        "requests: {}; bad lines skipped: {}",
        with_thousands_separators(requests as f64, 0),
        reader.rejected_records().rejected_count
    ));
    Ok(Outcome::Done)
}
