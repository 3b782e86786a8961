//! Commands: one line in, one line out.

use std::path::PathBuf;

use serde::Deserialize;
use serde_json::{Map, Value, json};
use wearwell::address::{Lpn, Ppn, RemapMode};

use super::report;
use crate::device::{BlockDevice, DeviceError, FlashDevice, Medium};

#[derive(Deserialize)]
#[serde(tag = "command", rename_all = "kebab-case", deny_unknown_fields)]
enum Command {
    Remap {
        ranges: Vec<Range>,
        #[serde(default)]
        mode: Mode,
        /// Flush before the answer.
        #[serde(default)]
        durable: bool,
    },
    Flush {},
    Stats {},
    Health {},
    Wa {},
    Scrub {},
    /// Answered by the server; a device has no name.
    Exports {},
    Snapshot {
        /// A directory that does not exist yet.
        directory: PathBuf,
    },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Range {
    target: u64,
    source: u64,
    len: u64,
}

#[derive(Deserialize, Clone, Copy, Default)]
#[serde(rename_all = "kebab-case")]
enum Mode {
    /// Both hold the same afterwards.
    #[default]
    Copy,
    /// The source is deallocated.
    Move,
}

/// Executes one line and returns the answer: `{"ok": true, ...}` or `{"ok": false, "error": "..."}`.
pub fn answer<N: Medium>(line: &[u8], device: &mut FlashDevice<N>) -> String {
    let reply = match serde_json::from_slice(line) {
        Ok(command) => perform(command, device),
        Err(error) => refusal(&format!(
            "not a command: {error}; a command is a line such as {{\"command\": \"stats\"}}"
        )),
    };
    reply.to_string()
}

fn perform<N: Medium>(command: Command, device: &mut FlashDevice<N>) -> Value {
    match command {
        Command::Remap { ranges, mode, durable } => remap(device, &ranges, mode, durable),
        Command::Flush {} => done(device.flush()),
        Command::Snapshot { directory } => done(device.snapshot(&directory)),
        Command::Stats {} => accepted(report::stats(device)),
        Command::Health {} => accepted(report::health(device)),
        Command::Wa {} => accepted(report::write_amplification(device)),
        Command::Scrub {} => scrub_at_once(device),
        Command::Exports {} => refusal("exports are those of a server"),
    }
}

/// Takes the field `export` out of a line. A line that is no object is left as it is, for whoever refuses it.
///
/// # Errors
/// A sentence, if the field is no name.
pub(super) fn take_export(line: &[u8]) -> Result<(Option<String>, Vec<u8>), String> {
    let Ok(mut fields) = serde_json::from_slice::<Map<String, Value>>(line) else {
        return Ok((None, line.to_vec()));
    };
    match fields.remove("export") {
        None => Ok((None, line.to_vec())),
        Some(Value::String(name)) => Ok((Some(name), Value::from(fields).to_string().into_bytes())),
        Some(other) => Err(format!("`export` is the name of an export, and {other} is none")),
    }
}

/// Whether a line asks for the list of exports, which no device has to answer.
pub(super) fn is_exports(line: &[u8]) -> bool {
    matches!(serde_json::from_slice(line), Ok(Command::Exports {}))
}

/// Whether a line asks for a scrub, which is done in slices between the requests of others.
pub(super) fn is_scrub(line: &[u8]) -> bool {
    matches!(serde_json::from_slice(line), Ok(Command::Scrub {}))
}

/// All slices, one after the other: for callers that have the device to themselves.
fn scrub_at_once<N: Medium>(device: &mut FlashDevice<N>) -> Value {
    let mut scrub = Scrub::default();
    while !scrub.is_over() {
        scrub.go_on(device);
    }
    scrub.answer(device)
}

/// A scrub that a client asked for.
#[derive(Debug)]
pub(super) struct Scrub {
    next: Option<Ppn>,
    read_pages: u64,
    outcome: Result<(), String>,
}

impl Default for Scrub {
    fn default() -> Self {
        Self { next: Some(Ppn(0)), read_pages: 0, outcome: Ok(()) }
    }
}

impl Scrub {
    /// Pages that are read before other requests have their turn.
    const SLICE_PAGES: u32 = 64;
    /// Lost logical pages that are listed at the most.
    const LISTED_MAX: usize = 1000;

    pub(super) fn is_over(&self) -> bool {
        self.next.is_none()
    }

    /// Reads the next slice.
    pub(super) fn go_on<N: Medium>(&mut self, device: &mut FlashDevice<N>) {
        let Some(first) = self.next.take() else { return };
        match device.scrub(first, Self::SLICE_PAGES) {
            Ok(scrubbed) => {
                self.next = scrubbed.next;
                self.read_pages += u64::from(scrubbed.read_pages);
            }
            Err(error) => self.outcome = Err(error.to_string()),
        }
    }

    /// What was found, in this scrub or before.
    pub(super) fn answer<N: Medium>(&self, device: &mut FlashDevice<N>) -> Value {
        if let Err(sentence) = &self.outcome {
            return refusal(sentence);
        }
        let page_bytes = u64::from(device.device().ftl().store().geometry().page_bytes);
        let lost = device.lost_logical_pages();
        let one = |&(lpn, ppn): &(Lpn, Ppn)| json!({ "offset": u64::from(lpn.0) * page_bytes, "len": page_bytes, "flash_page": ppn.0 });
        json!({
            "ok": true,
            "read_pages": self.read_pages,
            "lost_logical_pages": lost.len(),
            "lost": lost.iter().take(Self::LISTED_MAX).map(one).collect::<Vec<_>>(),
        })
    }
}

fn done(outcome: Result<(), DeviceError>) -> Value {
    match outcome {
        Ok(()) => json!({ "ok": true }),
        Err(error) => refusal(&error.to_string()),
    }
}

fn accepted(mut reply: Value) -> Value {
    reply["ok"] = true.into();
    reply
}

pub(super) fn refusal(sentence: &str) -> Value {
    json!({ "ok": false, "error": sentence })
}

/// Range after range. What was done before an error stays done and is told.
fn remap<N: Medium>(device: &mut FlashDevice<N>, ranges: &[Range], mode: Mode, durable: bool) -> Value {
    let bound_before = device.device().ftl().stats().remapped_pages;
    let (mut done, mut bytes) = (0, 0);
    let mut outcome = ranges.iter().try_for_each(|range| {
        require_apart(range, mode)?;
        device.remap(range.target, range.source, range.len, mode.into())?;
        (done, bytes) = (done + 1, bytes + range.len);
        Ok(())
    });
    if outcome.is_ok() {
        outcome = if durable { device.flush() } else { device.write_deferred() };
    }
    let bound_pages = device.device().ftl().stats().remapped_pages - bound_before;
    let mut reply = json!({ "ok": true, "ranges": done, "bytes": bytes, "bound_pages": bound_pages });
    if let Err(error) = outcome {
        reply["ok"] = false.into();
        reply["error"] = error.to_string().into();
    }
    reply
}

/// A move onto itself has no meaning that a host could rely on.
fn require_apart(range: &Range, mode: Mode) -> Result<(), DeviceError> {
    let Range { target, source, len } = *range;
    if matches!(mode, Mode::Move) && target.abs_diff(source) < len {
        return Err(DeviceError::Invalid(format!(
            "move of {len} bytes from byte {source} to byte {target}: the ranges overlap"
        )));
    }
    Ok(())
}

impl From<Mode> for RemapMode {
    fn from(mode: Mode) -> Self {
        match mode {
            Mode::Copy => Self::Copy,
            Mode::Move => Self::Relocate,
        }
    }
}
