//! Commands: one line in, one line out.

use serde::Deserialize;
use serde_json::{Value, json};
use wearwell::address::RemapMode;

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
        Command::Flush {} => match device.flush() {
            Ok(()) => json!({ "ok": true }),
            Err(error) => refusal(&error.to_string()),
        },
        Command::Stats {} => accepted(report::stats(device)),
        Command::Health {} => accepted(report::health(device)),
        Command::Wa {} => accepted(report::write_amplification(device)),
    }
}

fn accepted(mut reply: Value) -> Value {
    reply["ok"] = true.into();
    reply
}

fn refusal(sentence: &str) -> Value {
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
    if outcome.is_ok() && durable {
        outcome = device.flush();
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
