//! The control socket: commands that NBD does not have.
//!
//! A client sends one JSON object per line and receives one per line; `docs/serve-protocol.md` lists them. Commands:
//! `remap` (the primitive of Remap-SSD, for several ranges at once), `flush`, `stats`, `health` (with the field names
//! of a drive's health log), `wa`, `scrub`, `snapshot`. The engine executes a command between two requests of other
//! clients; no other request is executed between the ranges of one `remap`.
//!
//! If a server has several exports, a command has a field `export`; the command `exports` lists them.
//!
//! A line of more than [`LINE_MAX_BYTES`] ends the connection; every other error is answered with a sentence.

mod commands;
pub(crate) mod report;

use std::io::{self, Write};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

pub use commands::answer;
use serde_json::{Value, json};

use crate::connection::Target;
use crate::device::{BlockDevice, FlashDevice, Medium};
use crate::engine::{Engine, Stopped};
use crate::server::{Bound, ServeError, Server};
use crate::socket::{Address, Socket};

/// Longest command line of the control socket, bytes.
pub const LINE_MAX_BYTES: usize = 1 << 20;

impl<N: Medium> Server<FlashDevice<N>> {
    /// Starts scrubbing in idle time: while the clients of a device send no commands, up to `pages_per_second` of its
    /// flash pages are read per second, so that damage is found early.
    ///
    /// # Panics
    /// If the system cannot start a thread.
    pub fn scrub_when_idle(&self, pages_per_second: u32) {
        let mut engines: Vec<_> = self.targets().iter().map(|target| target.engine.clone()).collect();
        let scrub = move || {
            while !engines.is_empty() {
                thread::sleep(Duration::from_secs(1));
                // An error ends the scrub of a device: a medium that stopped has been reported by then, and an engine
                // that stopped needs no scrub.
                engines.retain(|engine| {
                    engine.ask(move |device| device.scrub_if_idle(pages_per_second)).is_ok()
                });
            }
        };
        let thread = thread::Builder::new().name("scrub".into()).spawn(scrub);
        thread.expect("the system has room for a thread when the server starts");
    }

    /// Serves the control protocol at `address`, and returns the address with the port that was chosen.
    ///
    /// # Errors
    /// [`ServeError::Listen`].
    pub fn open_control(&mut self, address: &Address) -> Result<Address, ServeError> {
        self.open_control_on(Bound::at(address)?)
    }

    /// As [`Server::open_control`], on a socket that listens already.
    ///
    /// # Errors
    /// [`ServeError::Listen`].
    pub fn open_control_on(&mut self, bound: Bound) -> Result<Address, ServeError> {
        let targets = Arc::clone(self.targets());
        self.open(bound, move |socket| {
            // A client that disconnects is not logged.
            let _ = serve(socket, &targets);
        })
    }
}

fn serve<N: Medium>(socket: &Socket, targets: &[Target<FlashDevice<N>>]) -> io::Result<()> {
    let mut lines = LineSplitter { socket, bytes: Vec::new() };
    while let Some(line) = lines.next()? {
        let answered = match commands::take_export(&line) {
            Ok((export, line)) => answer_of(export.as_deref(), line, targets),
            Err(sentence) => Ok(commands::refusal(&sentence).to_string()),
        };
        let Ok(mut reply) = answered else { return Ok(()) };
        reply.push('\n');
        { socket }.write_all(reply.as_bytes())?;
    }
    Ok(())
}

/// Executes a command line on the device of the export that it names, and returns the answer.
///
/// # Errors
/// [`Stopped`] if the only device of the server has stopped.
fn answer_of<N: Medium>(
    export: Option<&str>,
    line: Vec<u8>,
    targets: &[Target<FlashDevice<N>>],
) -> Result<String, Stopped> {
    if commands::is_exports(&line) {
        return Ok(exports(targets).to_string());
    }
    let target = match (export, targets) {
        (None, [only]) => Some(only),
        (None, _) => None,
        (Some(name), _) => targets.iter().find(|target| target.export.name == name),
    };
    let Some(target) = target else { return Ok(no_export(export, targets).to_string()) };

    let answered = if commands::is_scrub(&line) {
        scrub(&target.engine)
    } else {
        target.engine.ask(move |device| answer(&line, device))
    };
    match answered {
        Err(Stopped) if targets.len() > 1 => {
            Ok(commands::refusal(&format!("the device of export `{}` has stopped", target.export.name))
                .to_string())
        }
        answered => answered,
    }
}

/// Returns the answer to the command `exports`: names, sizes and states of all exports.
pub(crate) fn exports<D: BlockDevice>(targets: &[Target<D>]) -> Value {
    let one = |target: &Target<D>| {
        json!({
            "name": target.export.name,
            "description": target.export.description,
            "capacity_bytes": target.export.capacity_bytes,
            "read_only": target.export.is_read_only,
            "served": target.engine.is_alive(),
            "limited_requests": target.rate.waited(),
        })
    };
    json!({ "ok": true, "exports": targets.iter().map(one).collect::<Vec<_>>() })
}

fn no_export<D>(export: Option<&str>, targets: &[Target<D>]) -> Value {
    let names: Vec<_> = targets.iter().map(|target| target.export.name.as_str()).collect();
    let names = names.join(", ");
    commands::refusal(&match export {
        Some(name) => format!("there is no export `{name}`; there are {names}"),
        None => format!("which export? Add \"export\": \"NAME\" to the command; there are {names}"),
    })
}

/// Runs a whole scrub of a device, a slice of flash pages at a time, and returns the answer.
fn scrub<N: Medium>(engine: &Engine<FlashDevice<N>>) -> Result<String, Stopped> {
    let mut scrub = commands::Scrub::default();
    while !scrub.is_over() {
        scrub = engine.ask(move |device| {
            scrub.continue_scrub(device);
            scrub
        })?;
    }
    engine.ask(move |device| scrub.answer(device).to_string())
}

/// Reader that splits the bytes from a client of the control socket into lines.
struct LineSplitter<'a> {
    socket: &'a Socket,
    bytes: Vec<u8>,
}

impl LineSplitter<'_> {
    /// Returns the next line without its line break; `None` when the client disconnects, or sends a line that is too
    /// long.
    fn next(&mut self) -> io::Result<Option<Vec<u8>>> {
        const CHUNK_BYTES: usize = 4096;
        let mut searched = 0;
        loop {
            if let Some(at) = self.bytes[searched..].iter().position(|&byte| byte == b'\n') {
                let rest = self.bytes.split_off(searched + at + 1);
                let mut line = std::mem::replace(&mut self.bytes, rest);
                line.pop();
                return Ok(Some(line));
            }
            searched = self.bytes.len();
            if searched > LINE_MAX_BYTES {
                return Ok(None);
            }
            let mut chunk = [0; CHUNK_BYTES];
            let count = io::Read::read(&mut { self.socket }, &mut chunk)?;
            if count == 0 {
                return Ok(None);
            }
            self.bytes.extend(&chunk[..count]);
        }
    }
}
