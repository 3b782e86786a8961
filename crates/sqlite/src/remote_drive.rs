//! The device of a database if it belongs to a running server. Reads, writes, trims and flushes use NBD; remaps use the
//! server's control socket.
//!
//! A request is sent only after the preceding one has been answered, so that every earlier write is done before a
//! remap. A connection on which a request failed halfway is shut down, because its answer may still come, and would
//! count as that of the next request. A server accepts any number of clients. Therefore a lock file next to the NBD
//! socket prevents a second process from using the same device for its database.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use serde_json::{Value, json};
use wearwell_serve::DeviceError;
use wearwell_serve::nbd::OPTION_MAX_BYTES;
use wearwell_serve::nbd::wire::{
    FIXED_NEWSTYLE, GREETING_MAGIC, NO_ZEROES, OPTION_MAGIC, REQUEST_MAGIC, SIMPLE_REPLY_MAGIC, command,
    errno, option, option_reply_type,
};

use crate::drive::Drive;
use crate::error::Error;

/// Longest payload of one NBD request, bytes. Longer reads and writes are split into several requests.
const REQUEST_PAYLOAD_MAX_BYTES: usize = 1 << 20;
/// Longest time for which the client waits for a server's answer to a request.
const SERVER_REPLY_TIMEOUT: Duration = Duration::from_secs(60);

/// Drive on the device of a running server: connections to its NBD socket and its control socket, and the lock on the
/// device.
#[derive(Debug)]
pub(crate) struct RemoteDrive {
    /// Connection to the NBD socket.
    nbd: NbdClient,
    /// Connection to the control socket, with a buffer for received lines.
    control_socket: BufReader<UnixStream>,
    /// Path of the control socket, for messages.
    control_socket_path: String,
    /// Capacity of the device, bytes.
    capacity_bytes: u64,
    /// Size of a device page, bytes.
    device_page_bytes: u32,
    /// Lock that keeps other processes from the device.
    _lock: DeviceLock,
}

impl RemoteDrive {
    /// Connects to the two sockets of a server (`nbd` and `control`) and locks its device.
    pub(crate) fn connect(nbd: &Path, control: &Path) -> Result<Self, Error> {
        let lock = lock_device_of_socket(nbd)?;
        let mut wire = NbdClient::connect(nbd)?;
        wire.negotiate()?;
        let control_place = control.display().to_string();
        let stream = connect_with_timeout(control).map_err(|source| server_error(&control_place, source))?;
        let control_socket = BufReader::new(stream);
        let mut remote = Self {
            nbd: wire,
            control_socket,
            control_socket_path: control_place,
            capacity_bytes: 0,
            device_page_bytes: 0,
            _lock: lock,
        };
        let stats = remote.stats()?;
        let number = |name: &str| stats[name].as_u64();
        match (number("capacity_bytes"), number("page_bytes").and_then(|bytes| bytes.try_into().ok())) {
            (Some(capacity_bytes), Some(device_page_bytes)) => {
                Ok(Self { capacity_bytes, device_page_bytes, ..remote })
            }
            _ => Err(Error::MalformedAnswer {
                server_socket_path: remote.control_socket_path,
                answer: "its answer must contain the size of the device, but does not".into(),
            }),
        }
    }

    /// Sends a command to the server's control socket and returns the answer. Fails if the answer reports a failure.
    fn send_command(&mut self, command: &Value) -> Result<Value, Error> {
        let answer =
            self.exchange_json_lines(command).inspect_err(|_| shut_down(self.control_socket.get_ref()))?;
        if answer["ok"] == true {
            return Ok(answer);
        }
        Err(DeviceError::Failed(
            answer["error"]
                .as_str()
                .unwrap_or("the server refused a command and gave no reason: look at the log of the server")
                .to_owned(),
        )
        .into())
    }

    /// Sends `command` as one line to the control socket, and returns the line that the server answers.
    fn exchange_json_lines(&mut self, command: &Value) -> Result<Value, Error> {
        let mut line = String::new();
        let asked = writeln!(self.control_socket.get_mut(), "{command}")
            .and_then(|()| self.control_socket.read_line(&mut line));
        asked.map_err(|source| server_error(&self.control_socket_path, source))?;
        serde_json::from_str(&line).map_err(|_| match line.trim_end() {
            "" => server_error(&self.control_socket_path, io::ErrorKind::UnexpectedEof.into()),
            line => Error::MalformedAnswer {
                server_socket_path: self.control_socket_path.clone(),
                answer: format!("its answer must be a line of JSON, but is `{line}`"),
            },
        })
    }
}

impl Drive for RemoteDrive {
    fn capacity_bytes(&self) -> u64 {
        self.capacity_bytes
    }

    fn device_page_bytes(&self) -> u32 {
        self.device_page_bytes
    }

    fn read(&mut self, offset: u64, into: &mut [u8]) -> Result<(), Error> {
        for (at, part) in
            (offset..).step_by(REQUEST_PAYLOAD_MAX_BYTES).zip(into.chunks_mut(REQUEST_PAYLOAD_MAX_BYTES))
        {
            self.nbd.send_and_await_reply(command::READ, at, part.len(), &[])?;
            self.nbd.receive(part)?;
        }
        Ok(())
    }

    fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<(), Error> {
        for (at, part) in
            (offset..).step_by(REQUEST_PAYLOAD_MAX_BYTES).zip(bytes.chunks(REQUEST_PAYLOAD_MAX_BYTES))
        {
            self.nbd.send_and_await_reply(command::WRITE, at, part.len(), part)?;
        }
        Ok(())
    }

    fn trim(&mut self, offset: u64, len: u64) -> Result<(), Error> {
        /// Most bytes that one trim request deallocates.
        const TRIM_MAX_BYTES: u64 = 1 << 30;
        for at in (0..len).step_by(TRIM_MAX_BYTES as usize) {
            self.nbd.send_and_await_reply(
                command::TRIM,
                offset + at,
                (len - at).min(TRIM_MAX_BYTES) as usize,
                &[],
            )?;
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), Error> {
        self.nbd.send_and_await_reply(command::FLUSH, 0, 0, &[])
    }

    fn remap(&mut self, target: u64, source: u64, len: u64) -> Result<(), Error> {
        let ranges = [json!({ "target": target, "source": source, "len": len })];
        self.send_command(&json!({ "command": "remap", "ranges": ranges, "mode": "copy" })).map(drop)
    }

    fn stats(&mut self) -> Result<Value, Error> {
        self.send_command(&json!({ "command": "stats" }))
    }

    fn close(mut self: Box<Self>) -> Result<(), Error> {
        let flushed = self.flush();
        self.nbd.disconnect();
        flushed
    }
}

/// Lock on the device of a server: its lock file, which stays locked until this value is dropped.
#[derive(Debug)]
struct DeviceLock(File);

/// Unlocks the lock file explicitly: closing alone would not unlock it while a process that was just forked also has it
/// open.
impl Drop for DeviceLock {
    fn drop(&mut self) {
        // If this fails, closing the file unlocks it.
        let _ = flock(&self.0, FlockOperation::Unlock);
    }
}

/// Locks the device of a server by a lock file next to its NBD socket, so that no other process stores a database on
/// the device. Fails if another process holds the lock.
fn lock_device_of_socket(socket: &Path) -> Result<DeviceLock, Error> {
    let mut path = OsString::from(socket);
    path.push(".sqlite-lock");
    let lock_file_path = Path::new(&path).display().to_string();
    let file = File::options().create(true).append(true).open(&path);
    let file = file.map_err(|source| match source.kind() {
        // The folder of the socket is missing, and with it the socket.
        io::ErrorKind::NotFound => server_error(&socket.display().to_string(), source),
        _ => Error::LockFile { lock_file_path: lock_file_path.clone(), source },
    })?;
    flock(&file, FlockOperation::NonBlockingLockExclusive).map_err(|_| Error::Locked { lock_file_path })?;
    Ok(DeviceLock(file))
}

/// Makes the error about a failed connection to the server's socket at the path `server_socket_path`.
fn server_error(server_socket_path: &str, source: io::Error) -> Error {
    let server_socket_path = server_socket_path.to_owned();
    match source.kind() {
        // What Unix answers when the time of a socket is over.
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
            Error::NoAnswer { server_socket_path, waited: SERVER_REPLY_TIMEOUT }
        }
        _ => Error::ServerConnection { server_socket_path, source },
    }
}

/// Shuts down a connection on which a request failed halfway. Later requests then fail, too, and do not receive the
/// late answer to the failed one.
fn shut_down(stream: &UnixStream) {
    // If this fails, there is no connection any more.
    let _ = stream.shutdown(Shutdown::Both);
}

/// Connects to a Unix socket, with a limit on the time that later reads and writes wait.
fn connect_with_timeout(path: &Path) -> io::Result<UnixStream> {
    let stream = UnixStream::connect(path)?;
    stream.set_read_timeout(Some(SERVER_REPLY_TIMEOUT))?;
    stream.set_write_timeout(Some(SERVER_REPLY_TIMEOUT))?;
    Ok(stream)
}

/// Connection to an NBD server that uses simple replies (no structured ones).
#[derive(Debug)]
struct NbdClient {
    /// Connection to the NBD socket.
    stream: UnixStream,
    /// Path of the NBD socket, for messages.
    socket_path: String,
    /// Cookie of the last request: the number by which its reply is recognised.
    last_cookie: u64,
}

impl NbdClient {
    /// Connects to the NBD socket at `path`, without the handshake.
    fn connect(path: &Path) -> Result<Self, Error> {
        let socket_path = path.display().to_string();
        let stream = connect_with_timeout(path).map_err(|source| server_error(&socket_path, source))?;
        Ok(Self { stream, socket_path, last_cookie: 0 })
    }

    /// Sends all of `bytes` to the server.
    fn send(&mut self, bytes: &[u8]) -> Result<(), Error> {
        let sent = self.stream.write_all(bytes);
        sent.map_err(|source| self.connection_error(source))
    }

    /// Fills `into` with bytes from the server.
    fn receive(&mut self, into: &mut [u8]) -> Result<(), Error> {
        let received = self.stream.read_exact(into);
        received.map_err(|source| self.connection_error(source))
    }

    /// Receives `N` bytes from the server.
    fn receive_array<const N: usize>(&mut self) -> Result<[u8; N], Error> {
        let mut bytes = [0; N];
        self.receive(&mut bytes)?;
        Ok(bytes)
    }

    /// Shuts down the connection and returns the error about its failure.
    fn connection_error(&self, source: io::Error) -> Error {
        shut_down(&self.stream);
        server_error(&self.socket_path, source)
    }

    /// Shuts down the connection and returns the error about an answer of the server that violates NBD.
    fn protocol_error(&self, answer: impl Into<String>) -> Error {
        shut_down(&self.stream);
        Error::MalformedAnswer { server_socket_path: self.socket_path.clone(), answer: answer.into() }
    }

    /// Runs the NBD handshake for the default export. The client requests no block sizes, so that it may address single
    /// bytes.
    fn negotiate(&mut self) -> Result<(), Error> {
        let magics = [self.receive_array()?, self.receive_array()?].map(u64::from_be_bytes);
        if magics != [GREETING_MAGIC, OPTION_MAGIC] {
            return Err(self.protocol_error("it must send an NBD greeting first, but does not"));
        }
        self.receive_array::<2>()?;
        self.send(&(FIXED_NEWSTYLE | NO_ZEROES).to_be_bytes())?;
        // No export name and no information requests.
        let data = [0; 4 + 2];
        let head =
            [&OPTION_MAGIC.to_be_bytes()[..], &option::GO.to_be_bytes(), &(data.len() as u32).to_be_bytes()]
                .concat();
        self.send(&[&head[..], &data].concat())?;
        self.skip_option_replies()
    }

    /// Skips the replies to `NBD_OPT_GO` up to the acknowledgement. The information in them is not needed, because the
    /// control socket reports the same.
    fn skip_option_replies(&mut self) -> Result<(), Error> {
        loop {
            self.receive_array::<12>()?;
            let kind = u32::from_be_bytes(self.receive_array()?);
            let len = u32::from_be_bytes(self.receive_array()?);
            if len > OPTION_MAX_BYTES {
                return Err(self.protocol_error("an option reply must have at most 64 KiB, but has more"));
            }
            let mut data = vec![0; len as usize];
            self.receive(&mut data)?;
            let advice = match kind {
                option_reply_type::ACK => return Ok(()),
                option_reply_type::INFO => continue,
                option_reply_type::ERR_TLS_REQD => {
                    "a database cannot use TLS: start the server without --tls-certificate, or name a socket of it \
                     that does not require TLS (nbd=)"
                }
                option_reply_type::ERR_UNKNOWN => {
                    "a database needs a server of one device: start `wearwell serve` with --image or --memory instead \
                     of NAME=DIRECTORY"
                }
                _ => {
                    return Err(self.protocol_error(format!(
                        "it must acknowledge the option NBD_OPT_GO, but sent option reply {kind:#x}"
                    )));
                }
            };
            let reason = String::from_utf8_lossy(&data).into_owned();
            return Err(Error::ServerRefused {
                server_socket_path: self.socket_path.clone(),
                reason,
                advice,
            });
        }
    }

    /// Sends an NBD request and receives the header of its reply.
    fn send_and_await_reply(
        &mut self,
        command: u16,
        offset: u64,
        len: usize,
        payload: &[u8],
    ) -> Result<(), Error> {
        self.send_request(command, offset, len as u32, payload)?;
        let magic = u32::from_be_bytes(self.receive_array()?);
        let errno = u32::from_be_bytes(self.receive_array()?);
        let cookie = u64::from_be_bytes(self.receive_array()?);
        if magic != SIMPLE_REPLY_MAGIC || cookie != self.last_cookie {
            shut_down(&self.stream);
            return Err(Error::ForeignReply { server_socket_path: self.socket_path.clone() });
        }
        match errno {
            0 => Ok(()),
            errno::ENOSPC => Err(DeviceError::Full(format!(
                "the server has no space for {}: if its log says that a file of the image cannot be written, free \
                 space on that disk; otherwise the flash of the device is full: copy the database to a larger device \
                 by `vacuum into`",
                match len {
                    0 => "data that was written before".to_owned(),
                    len => format!("{len} bytes at byte {offset}"),
                }
            ))
            .into()),
            errno::EPERM => Err(DeviceError::ReadOnly.into()),
            errno => Err(DeviceError::Failed(format!(
                "the server could not execute {}: {}; the log of the server says more",
                match len {
                    0 => "a flush".to_owned(),
                    len => format!("a request of {len} bytes at byte {offset}"),
                },
                io::Error::from_raw_os_error(errno.cast_signed())
            ))
            .into()),
        }
    }

    /// Sends the header of an NBD request and its payload.
    fn send_request(&mut self, command: u16, offset: u64, len: u32, payload: &[u8]) -> Result<(), Error> {
        self.last_cookie += 1;
        let head = [
            &REQUEST_MAGIC.to_be_bytes()[..],
            &[0; 2],
            &command.to_be_bytes(),
            &self.last_cookie.to_be_bytes(),
            &offset.to_be_bytes(),
            &len.to_be_bytes(),
        ]
        .concat();
        self.send(&[&head, payload].concat())
    }

    /// Sends the server the request that ends the connection (`NBD_CMD_DISC`).
    fn disconnect(&mut self) {
        // If this fails, the server still notices the end of the connection.
        let _ = self.send_request(command::DISCONNECT, 0, 0, &[]);
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;
    use std::thread;

    use super::*;

    /// Makes the error for an export that the server refuses: `kind` is the type of the server's error reply,
    /// `sentence` its message.
    fn error_of_option_reply(kind: u32, sentence: &'static str) -> Error {
        let folder = tempfile::tempdir().expect("there is room for a folder");
        let socket = folder.path().join("nbd");
        let listener = UnixListener::bind(&socket).expect("the path is free");
        let server = thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("a client comes");
            let greeting = [GREETING_MAGIC, OPTION_MAGIC].map(u64::to_be_bytes).concat();
            stream.write_all(&[&greeting[..], &[0; 2]].concat()).expect("the client reads");
            // Flags, and an option with the length of an empty name and of an empty list.
            stream.read_exact(&mut [0; 4 + 16 + 6]).expect("the client chooses an export");
            let head = [kind, sentence.len() as u32].map(u32::to_be_bytes).concat();
            stream.write_all(&[&[0; 12], &head[..], sentence.as_bytes()].concat()).expect("the client reads");
        });
        let error = RemoteDrive::connect(&socket, &socket).expect_err("the server refuses");
        server.join().expect("it ends");
        error
    }

    /// Regression: the message had only the number of the reply, and asked whether the server is `wearwell serve`.
    #[test]
    fn a_refusal_of_the_nbd_server_is_told_in_its_words_with_advice() {
        let error = error_of_option_reply(option_reply_type::ERR_UNKNOWN, "this server has several exports");
        assert!(
            error.to_string().ends_with(
                "nbd: the server refuses the connection: this server has several exports; a database needs a server of \
                 one device: start `wearwell serve` with --image or --memory instead of NAME=DIRECTORY"
            ),
            "{error}"
        );
        let error = error_of_option_reply(option_reply_type::ERR_TLS_REQD, "this server requires TLS");
        assert!(
            error.to_string().contains(
                "requires TLS; a database cannot use TLS: start the server without --tls-certificate"
            ),
            "{error}"
        );
        let error = error_of_option_reply(option_reply_type::ERR_INVALID, "");
        assert!(matches!(error, Error::MalformedAnswer { .. }), "{error}");
    }

    /// Regression: the message about a lock file that cannot be opened asked whether the server is running.
    #[test]
    fn a_lock_file_that_cannot_be_opened_is_named_as_such() {
        let folder = tempfile::tempdir().expect("there is room for a folder");
        let socket = folder.path().join("nbd");
        std::fs::create_dir(folder.path().join("nbd.sqlite-lock")).expect("the path is free");
        let error = RemoteDrive::connect(&socket, &socket).expect_err("a folder cannot be locked");
        assert!(
            error.to_string().contains("cannot open the lock file ")
                && error.to_string().contains("nbd.sqlite-lock"),
            "{error}"
        );
        let missing = folder.path().join("missing/nbd");
        let error = RemoteDrive::connect(&missing, &missing).expect_err("there is no server");
        assert!(
            error.to_string().contains("missing/nbd: the connection to the server failed: No such file"),
            "{error}"
        );
        assert!(error.to_string().contains("check that `wearwell serve` is running"), "{error}");
    }

    /// Returns a connected client socket and its server end. Reads of the client wait for at most a hundredth of a
    /// second.
    fn connected_socket_pair() -> (UnixStream, UnixStream) {
        let (client, server) = UnixStream::pair().unwrap();
        client.set_read_timeout(Some(Duration::from_millis(10))).unwrap();
        (client, server)
    }

    /// Makes a client over an open connection, without a handshake.
    fn nbd_client(stream: UnixStream) -> NbdClient {
        NbdClient { stream, socket_path: "nbd".into(), last_cookie: 0 }
    }

    /// Bug: the connections stayed open after a request without an answer. The answer that came later counted as that
    /// of the next command, so that a remap could be taken for done before the server executed it.
    #[test]
    fn an_answer_that_comes_too_late_is_not_taken_for_that_of_the_next_command() {
        let (control, mut server) = connected_socket_pair();
        let (nbd, _nbd_server) = connected_socket_pair();
        let mut remote = RemoteDrive {
            nbd: nbd_client(nbd),
            control_socket: BufReader::new(control),
            control_socket_path: "control".into(),
            capacity_bytes: 1 << 20,
            device_page_bytes: 4096,
            _lock: DeviceLock(tempfile::tempfile().unwrap()),
        };
        let unanswered = remote.stats().unwrap_err();
        assert!(matches!(unanswered, Error::NoAnswer { .. }), "{unanswered}");
        // The server may see already that nobody waits for its answer.
        let _ = server.write_all(b"{\"ok\":true}\n");
        let refused = remote.remap(0, 4096, 4096).unwrap_err();
        assert!(matches!(refused, Error::ServerConnection { .. }), "{refused}");
    }

    #[test]
    fn a_reply_that_comes_too_late_is_not_taken_for_that_of_the_next_request() {
        let (stream, mut server) = connected_socket_pair();
        let mut client = nbd_client(stream);
        let unanswered = client.send_and_await_reply(command::FLUSH, 0, 0, &[]).unwrap_err();
        assert!(matches!(unanswered, Error::NoAnswer { .. }), "{unanswered}");
        let reply = [&SIMPLE_REPLY_MAGIC.to_be_bytes()[..], &[0; 4], &1_u64.to_be_bytes()].concat();
        let _ = server.write_all(&reply);
        let refused = client.send_and_await_reply(command::FLUSH, 0, 0, &[]).unwrap_err();
        assert!(matches!(refused, Error::ServerConnection { .. }), "{refused}");
    }
}
