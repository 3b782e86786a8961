//! Commands of the control socket: one JSON line is parsed and executed, and one JSON line is returned.

use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::{Map, Value, json};
use wearwell::address::{Lpn, Ppn, RemapMode};

use super::report;
use crate::device::{BlockDevice, FlashDevice};
use crate::device_error::DeviceError;
use crate::image::UnreadableSectors;

/// A command of the control socket, as parsed from its JSON line.
#[derive(Deserialize)]
#[serde(tag = "command", rename_all = "kebab-case", deny_unknown_fields)]
pub(super) enum Command {
    /// Maps target ranges of the device to the contents of source ranges, without a transfer of data.
    Remap {
        /// Pairs of target and source ranges, remapped in this order.
        ranges: Vec<RemapRange>,
        /// Mode of the remap: whether the source ranges keep their content.
        #[serde(default)]
        mode: RemapCommandMode,
        /// Whether the device is flushed before the answer to the remap is sent.
        #[serde(default)]
        durable: bool,
    },
    /// Flushes the device: makes all earlier writes durable.
    Flush {},
    /// Reports all counters of the device since the server started.
    Stats {},
    /// Reports the health log of the device, with the field names of an NVMe drive.
    Health {},
    /// Reports the write amplification by cause (command name `wa`).
    Wa {},
    /// Reads all flash pages in use, to find damaged ones.
    Scrub {},
    /// Lists the exports. The server itself answers this command, because a device does not know the name of its
    /// export.
    Exports {},
    /// Copies the image of the device, in its present state, to a directory.
    Snapshot {
        /// Absolute path of the directory of the copy of the image, which is new or empty.
        directory: PathBuf,
    },
}

/// A source range and a target range of equal length: a remap gives the target the content of the source.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RemapRange {
    /// Byte offset on the device at which the target range begins.
    target: u64,
    /// Byte offset on the device at which the source range begins.
    source: u64,
    /// Length of both ranges, bytes.
    len: u64,
}

/// Mode of a remap: whether the source range keeps its content.
#[derive(Deserialize, Clone, Copy, Default)]
#[serde(rename_all = "kebab-case")]
pub(super) enum RemapCommandMode {
    /// Source and target hold the same content after the remap.
    #[default]
    Copy,
    /// The source is deallocated by the remap.
    Move,
}

/// Executes one line of the control protocol on a device and returns the answer: `{"ok": true, ...}` or `{"ok": false,
/// "error": "..."}`.
pub fn answer_control_line(line: &[u8], device: &mut FlashDevice) -> String {
    let reply = match parse_command(line) {
        Ok(command) => execute_command(command, device),
        Err(sentence) => error_answer(&sentence),
    };
    reply.to_string()
}

/// Parses a command line without the field `export`.
///
/// # Errors
/// A sentence that states why the line is no command.
fn parse_command(line: &[u8]) -> Result<Command, String> {
    serde_json::from_slice(line).map_err(|error| {
        format!(
            "the line is not a valid command: {error}; docs/serve-protocol.md describes the commands, such as \
             {{\"command\": \"stats\"}}"
        )
    })
}

/// Parses a command line. Returns the name in its field `export`, if it has one, and the command.
///
/// # Errors
/// A sentence that states why the line is no command.
pub(super) fn parse_export_and_command(line: &[u8]) -> Result<(Option<String>, Command), String> {
    let (export, line) = remove_export_field(line)?;
    Ok((export, parse_command(&line)?))
}

/// Executes a command of the control socket on a device and returns the answer.
pub(super) fn execute_command(command: Command, device: &mut FlashDevice) -> Value {
    match command {
        Command::Remap { ranges, mode, durable } => remap_ranges(device, &ranges, mode, durable),
        Command::Flush {} => answer_without_results(device.flush()),
        Command::Snapshot { directory } => match snapshot(device, &directory) {
            Ok(unreadable) => success_answer(json!({ "unreadable_sectors": unreadable })),
            Err(error) => error_answer(&error.to_string()),
        },
        Command::Stats {} => success_answer(report::stats_answer(device)),
        Command::Health {} => success_answer(report::health_answer(device)),
        Command::Wa {} => success_answer(report::write_amplification_answer(device)),
        Command::Scrub {} => scrub_without_interruption(device),
        Command::Exports {} => error_answer(
            "the command `exports` lists the exports of a server, and this device is not served: send another \
             command, such as `stats`",
        ),
    }
}

/// Copies the image of the device to a directory. A relative path is refused, because it would be in the working
/// directory of the server, which the client does not know. Returns the sectors that are damaged in the copy.
fn snapshot(device: &mut FlashDevice, directory: &Path) -> Result<Vec<UnreadableSectors>, DeviceError> {
    if directory.is_relative() {
        return Err(DeviceError::Invalid(format!(
            "the directory of a snapshot must have an absolute path, and `{}` is relative: name the whole path on the \
             server machine, from `/` on",
            directory.display()
        )));
    }
    device.snapshot(directory)
}

/// Removes the field `export` from a command line. Returns its value and the line without it. A line that is no JSON
/// object is returned unchanged; it is refused later.
///
/// # Errors
/// A sentence, if the field is no string.
fn remove_export_field(line: &[u8]) -> Result<(Option<String>, Vec<u8>), String> {
    let Ok(mut fields) = serde_json::from_slice::<Map<String, Value>>(line) else {
        return Ok((None, line.to_vec()));
    };
    match fields.remove("export") {
        None => Ok((None, line.to_vec())),
        Some(Value::String(name)) => Ok((Some(name), Value::from(fields).to_string().into_bytes())),
        Some(other) => Err(format!("the field `export` is {other}: give the name of an export, a string")),
    }
}

/// Executes a whole scrub (a read of all flash pages in use) without interruption, for callers that have the device to
/// themselves.
fn scrub_without_interruption(device: &mut FlashDevice) -> Value {
    let mut scrub = Scrub::default();
    while !scrub.is_finished() {
        scrub.scrub_next_slice(device);
    }
    scrub.answer(device)
}

/// State of a scrub (a read of all flash pages in use) that a client of the control socket requested.
#[derive(Debug)]
pub(super) struct Scrub {
    /// First flash page that the next slice of the scrub may read; `None` if the scrub is finished.
    next_page: Option<Ppn>,
    /// Number of flash pages that the scrub has read so far.
    scrubbed_page_count: u64,
    /// Result of the scrub so far: the error that ended it, as a sentence, or `Ok`.
    outcome: Result<(), String>,
}

impl Default for Scrub {
    fn default() -> Self {
        Self { next_page: Some(Ppn(0)), scrubbed_page_count: 0, outcome: Ok(()) }
    }
}

impl Scrub {
    /// Number of flash pages that a scrub reads in one slice. After each slice, waiting requests of other clients are
    /// executed.
    const SCRUB_SLICE_PAGES: u32 = 64;
    /// Most lost logical pages that the answer to a scrub lists.
    const LISTED_LOST_PAGES_MAX: usize = 1000;

    /// Whether the scrub has read all flash pages in use, or was ended by an error.
    pub(super) fn is_finished(&self) -> bool {
        self.next_page.is_none()
    }

    /// Reads the next 64 flash pages of the scrub (a read of all flash pages in use).
    pub(super) fn scrub_next_slice(&mut self, device: &mut FlashDevice) {
        let Some(first) = self.next_page.take() else { return };
        match device.scrub(first, Self::SCRUB_SLICE_PAGES) {
            Ok(scrubbed) => {
                self.next_page = scrubbed.next_page;
                self.scrubbed_page_count += u64::from(scrubbed.read_pages);
            }
            Err(error) => self.outcome = Err(error.to_string()),
        }
    }

    /// Returns the answer to a scrub: the number of pages read, and the number of logical pages that are known to be
    /// lost, including those lost before this scrub. At most 1000 of the lost pages are listed.
    pub(super) fn answer(&self, device: &mut FlashDevice) -> Value {
        if let Err(sentence) = &self.outcome {
            return error_answer(sentence);
        }
        let page_bytes = device.device().page_bytes();
        let lost = device.lost_logical_pages();
        let one = |&(lpn, ppn): &(Lpn, Ppn)| json!({ "offset": u64::from(lpn.0) * page_bytes, "len": page_bytes, "flash_page": ppn.0 });
        json!({
            "ok": true,
            "read_pages": self.scrubbed_page_count,
            "lost_logical_pages": lost.len(),
            "lost": lost.iter().take(Self::LISTED_LOST_PAGES_MAX).map(one).collect::<Vec<_>>(),
        })
    }
}

/// Returns the answer to a control command that has no results of its own: success, or the error as a sentence.
fn answer_without_results(outcome: Result<(), DeviceError>) -> Value {
    match outcome {
        Ok(()) => json!({ "ok": true }),
        Err(error) => error_answer(&error.to_string()),
    }
}

/// Adds the field that reports success to `reply`, the JSON answer to a control command, and returns the answer.
fn success_answer(mut reply: Value) -> Value {
    reply["ok"] = true.into();
    reply
}

/// Returns the JSON answer to a control command that failed; `sentence` states the reason.
pub(super) fn error_answer(sentence: &str) -> Value {
    json!({ "ok": false, "error": sentence })
}

/// Remaps the ranges one after the other and returns the JSON answer. Ranges that were remapped before an error stay
/// remapped, and the answer counts them. The answer also states how much of the failed range was remapped.
fn remap_ranges(
    device: &mut FlashDevice,
    ranges: &[RemapRange],
    mode: RemapCommandMode,
    durable: bool,
) -> Value {
    let bound_before = device.device().stats().remapped_pages;
    let (mut done, mut bytes, mut part) = (0, 0, None);
    let mut outcome = ranges.iter().try_for_each(|range| {
        refuse_overlapping_move(range, mode)?;
        let RemapRange { target, source, len } = *range;
        let remapped = device.remap(target, source, len, mode.into());
        let (from, part_bytes) = device.take_executed_part_of_failed_remap(target, source, len);
        if part_bytes > 0 {
            part = Some(json!({ "target": target + from, "source": source + from, "len": part_bytes }));
        }
        remapped?;
        (done, bytes) = (done + 1, bytes + len);
        Ok(())
    });
    if outcome.is_ok() {
        outcome = if durable { device.flush() } else { device.write_operations_to_files() };
    }
    let bound_pages = device.device().stats().remapped_pages - bound_before;
    let mut reply = json!({ "ok": true, "ranges": done, "bytes": bytes, "bound_pages": bound_pages });
    if let Err(error) = outcome {
        reply["ok"] = false.into();
        reply["error"] = error.to_string().into();
    }
    if let Some(part) = part {
        reply["part_of_next_range"] = part;
    }
    reply
}

/// Refuses a move between overlapping ranges, whose result would be undefined for the host.
fn refuse_overlapping_move(range: &RemapRange, mode: RemapCommandMode) -> Result<(), DeviceError> {
    let RemapRange { target, source, len } = *range;
    if matches!(mode, RemapCommandMode::Move) && target.abs_diff(source) < len {
        return Err(DeviceError::Invalid(format!(
            "cannot move {len} bytes from byte {source} to byte {target}, because the two ranges overlap: choose \
             ranges that do not overlap, or the mode copy"
        )));
    }
    Ok(())
}

impl From<RemapCommandMode> for RemapMode {
    fn from(mode: RemapCommandMode) -> Self {
        match mode {
            RemapCommandMode::Copy => Self::Copy,
            RemapCommandMode::Move => Self::Relocate,
        }
    }
}
