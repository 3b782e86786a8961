//! The control socket of a served device, for commands that NBD does not have.
//!
//! A client sends one JSON object per line and receives one per line; `docs/serve-protocol.md` lists them. Commands:
//! `remap` (the primitive of Remap-SSD, for several ranges at once), `flush`, `stats`, `health` (with the field names
//! of a drive's health log), `wa`, `scrub`, `snapshot`. A command is executed on the device between two requests of
//! other clients; no other request is executed between the ranges of one `remap`.
//!
//! If a server has several exports, a command has a field `export`; the command `exports` lists them.
//!
//! A line of more than [`CONTROL_LINE_MAX_BYTES`] ends the connection; every other error is answered with a sentence.

mod commands;
pub(crate) mod report;

use std::io::{self, Write};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use commands::Command;
pub use commands::answer_control_line;
use serde_json::{Value, json};

use crate::connection::ServedExport;
use crate::device::{BlockDevice, FlashDevice};
use crate::device_queue::{DeviceQueue, DeviceStopped};
use crate::server::{BoundListener, ServeError, Server};
use crate::socket::{ListenAddress, Socket};

/// Longest command line of the control socket, bytes.
pub const CONTROL_LINE_MAX_BYTES: usize = 1 << 20;

impl Server<FlashDevice> {
    /// Starts scrubbing in idle time: while the clients of a device send no commands, up to `pages_per_second` of its
    /// flash pages are read per second, so that damage is found early.
    ///
    /// # Panics
    /// If the system cannot start a thread.
    pub fn start_idle_scrubbing(&self, pages_per_second: u32) {
        let mut queues: Vec<_> =
            self.served_exports().iter().map(|served_export| served_export.device_queue.clone()).collect();
        let scrub = move || {
            while !queues.is_empty() {
                thread::sleep(Duration::from_secs(1));
                // An error ends the scrub of a device: a medium that stopped has been reported by then, and a device
                // that stopped needs no scrub.
                queues.retain(|device_queue| {
                    device_queue.run_and_wait(move |device| device.scrub_if_idle(pages_per_second)).is_ok()
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
    pub fn open_control_socket(&mut self, address: &ListenAddress) -> Result<ListenAddress, ServeError> {
        self.open_control_socket_on(BoundListener::listen_at(address)?)
    }

    /// Serves the control protocol on a socket that already listens, as [`Server::open_control_socket`] does at an
    /// address.
    ///
    /// # Errors
    /// [`ServeError::Listen`].
    pub fn open_control_socket_on(
        &mut self,
        bound_listener: BoundListener,
    ) -> Result<ListenAddress, ServeError> {
        let served_exports = Arc::clone(self.served_exports());
        self.start_accepting_clients(bound_listener, move |socket| {
            // A client that disconnects is not logged.
            let _ = serve_control_client(socket, &served_exports);
        })
    }
}

/// Answers the command lines of a client until the client disconnects.
fn serve_control_client(socket: &Socket, served_exports: &[ServedExport<FlashDevice>]) -> io::Result<()> {
    let mut lines = LineSplitter { socket, buffered_bytes: Vec::new() };
    while let Some(line) = lines.next_line()? {
        let answered = match commands::parse_export_and_command(&line) {
            Ok((export, command)) => execute_on_export(export.as_deref(), command, served_exports),
            Err(sentence) => Ok(commands::error_answer(&sentence).to_string()),
        };
        let Ok(mut reply) = answered else { return Ok(()) };
        reply.push('\n');
        { socket }.write_all(reply.as_bytes())?;
    }
    Ok(())
}

/// Executes a command on the device of the export that its line names, and returns the answer.
///
/// # Errors
/// [`DeviceStopped`] if the only device of the server has stopped.
fn execute_on_export(
    export: Option<&str>,
    command: Command,
    served_exports: &[ServedExport<FlashDevice>],
) -> Result<String, DeviceStopped> {
    if matches!(command, Command::Exports {}) {
        return Ok(exports_answer(served_exports).to_string());
    }
    let served_export = match (export, served_exports) {
        (None, [only]) => Some(only),
        (None, _) => None,
        (Some(name), _) => served_exports.iter().find(|served_export| served_export.export.name == name),
    };
    let Some(served_export) = served_export else {
        return Ok(unknown_export_answer(export, served_exports).to_string());
    };

    let answered = if matches!(command, Command::Scrub {}) {
        // A scrub is executed in slices between requests of other clients.
        run_scrub(&served_export.device_queue)
    } else {
        served_export
            .device_queue
            .run_and_wait(move |device| commands::execute_command(command, device).to_string())
    };
    match answered {
        Err(DeviceStopped) if served_exports.len() > 1 => Ok(commands::error_answer(&format!(
            "the device of export `{}` has stopped, because the server is ending or because of an internal error (the \
             log of the server says which): start the server again",
            served_export.export.name
        ))
        .to_string()),
        answered => answered,
    }
}

/// Returns the JSON answer to the control command `exports`: names, sizes and states of all exports.
pub(crate) fn exports_answer<D: BlockDevice>(served_exports: &[ServedExport<D>]) -> Value {
    let one = |served_export: &ServedExport<D>| {
        json!({
            "name": served_export.export.name,
            "description": served_export.export.description,
            "capacity_bytes": served_export.export.capacity_bytes,
            "read_only": served_export.export.is_read_only,
            "served": served_export.device_queue.is_alive(),
            "limited_requests": served_export.rate_limit.delayed_requests(),
        })
    };
    json!({ "ok": true, "exports": served_exports.iter().map(one).collect::<Vec<_>>() })
}

/// Returns the answer to a command whose field `export` is missing or names no export of this server.
fn unknown_export_answer<D>(export: Option<&str>, served_exports: &[ServedExport<D>]) -> Value {
    let names: Vec<_> =
        served_exports.iter().map(|served_export| served_export.export.name.as_str()).collect();
    let names = names.join(", ");
    commands::error_answer(&match export {
        Some(name) if served_exports.len() == 1 => {
            format!(
                "there is no export `{name}`: leave the name of the export out, because the server has only one \
                 device"
            )
        }
        Some(name) => format!("there is no export `{name}`: name one of {names}"),
        None => format!(
            "the server has several exports: name one of {names} by the option --export, or in JSON by \"export\": \
             \"NAME\""
        ),
    })
}

/// Runs a whole scrub (a read of all flash pages in use) of a device, a slice of pages at a time between requests of
/// other clients, and returns the answer.
fn run_scrub(device_queue: &DeviceQueue<FlashDevice>) -> Result<String, DeviceStopped> {
    let mut scrub = commands::Scrub::default();
    while !scrub.is_finished() {
        scrub = device_queue.run_and_wait(move |device| {
            scrub.scrub_next_slice(device);
            scrub
        })?;
    }
    device_queue.run_and_wait(move |device| scrub.answer(device).to_string())
}

/// Reader that splits the bytes from a client of the control socket into lines.
struct LineSplitter<'a> {
    /// Socket of the control client from which lines are read.
    socket: &'a Socket,
    /// Bytes that were received from the socket, but that do not belong to a line that was returned already.
    buffered_bytes: Vec<u8>,
}

impl LineSplitter<'_> {
    /// Returns the next line without its line break; `None` when the client disconnects, or sends a line that is too
    /// long.
    fn next_line(&mut self) -> io::Result<Option<Vec<u8>>> {
        /// Most bytes that one read from the socket of a control client returns.
        const SOCKET_READ_BYTES: usize = 4096;
        let mut searched = 0;
        loop {
            if let Some(at) = self.buffered_bytes[searched..].iter().position(|&byte| byte == b'\n') {
                let rest = self.buffered_bytes.split_off(searched + at + 1);
                let mut line = std::mem::replace(&mut self.buffered_bytes, rest);
                line.pop();
                return Ok(Some(line));
            }
            searched = self.buffered_bytes.len();
            if searched > CONTROL_LINE_MAX_BYTES {
                return Ok(None);
            }
            let mut chunk = [0; SOCKET_READ_BYTES];
            let count = io::Read::read(&mut { self.socket }, &mut chunk)?;
            if count == 0 {
                return Ok(None);
            }
            self.buffered_bytes.extend(&chunk[..count]);
        }
    }
}
