//! The control socket: what NBD has no words for.
//!
//! A client sends one JSON object per line and gets one per line back; `docs/serve.md` lists them. Commands: `remap` (the
//! primitive of Remap-SSD, ranges at once), `flush`, `stats`, `health` (the words of a drive's health log), `wa`. A command
//! is executed by the engine between two requests of other clients, ranges of one `remap` without any request among them.
//!
//! A line of more than [`LINE_MAX_BYTES`] ends the connection; anything else that is wrong is answered with a sentence.

mod commands;
pub(crate) mod report;

use std::io::{self, Write};

pub use commands::answer;

use crate::device::{FlashDevice, Medium};
use crate::engine::Engine;
use crate::server::{ServeError, Server};
use crate::socket::{Address, Socket};

/// Longest line.
pub const LINE_MAX_BYTES: usize = 1 << 20;

impl<N: Medium> Server<FlashDevice<N>> {
    /// Serves the control protocol at an address.
    ///
    /// # Errors
    /// [`ServeError::Listen`].
    pub fn open_control(&mut self, address: &Address) -> Result<Address, ServeError> {
        let engine = self.engine().clone();
        self.open(address, move |socket| {
            // A client that vanishes is no event.
            let _ = serve(socket, &engine);
        })
    }
}

fn serve<N: Medium>(socket: &Socket, engine: &Engine<FlashDevice<N>>) -> io::Result<()> {
    let mut lines = Lines { socket, bytes: Vec::new() };
    while let Some(line) = lines.next()? {
        let Ok(mut reply) = engine.ask(move |device| answer(&line, device)) else { return Ok(()) };
        reply.push('\n');
        { socket }.write_all(reply.as_bytes())?;
    }
    Ok(())
}

/// Splits what a client sends into lines.
struct Lines<'a> {
    socket: &'a Socket,
    bytes: Vec<u8>,
}

impl Lines<'_> {
    /// The next line without its end; `None` when the client goes, or sends a line without end.
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
