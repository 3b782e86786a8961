//! Connected Unix or TCP sockets without encryption. They carry the bytes of TLS connections, and of connections that
//! do not use TLS.

use std::io::{self, IoSlice, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};
use rustix::net::{SendAncillaryBuffer, SendFlags};

use crate::memory_budget::ReplyTimeAllowance;

/// Most buffers that one call of `sendmsg` accepts on Linux.
pub(crate) const SENDMSG_BUFFERS_MAX: usize = 1024;
/// Longest time for which a thread that sends replies waits for the socket before it checks again whether the client's
/// deadline has passed ([`ReplyTimeAllowance`]).
const REPLY_DEADLINE_CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// A connected socket of the operating system, without encryption.
#[derive(Debug)]
pub(crate) enum PlainSocket {
    /// A connected Unix socket.
    Unix(UnixStream),
    /// A connected TCP socket.
    Tcp(TcpStream),
}

impl AsFd for PlainSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Unix(socket) => socket.as_fd(),
            Self::Tcp(socket) => socket.as_fd(),
        }
    }
}

impl PlainSocket {
    /// Sets the longest time that a read waits for bytes; `None` means no limit.
    pub(crate) fn set_read_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        match self {
            Self::Unix(socket) => socket.set_read_timeout(timeout),
            Self::Tcp(socket) => socket.set_read_timeout(timeout),
        }
    }

    /// Sends as many bytes of `slices` as the socket accepts without blocking, and returns their number.
    pub(crate) fn try_send(&self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        let slices = &slices[..slices.len().min(SENDMSG_BUFFERS_MAX)];
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        Ok(rustix::net::sendmsg(self, slices, &mut SendAncillaryBuffer::default(), flags)?)
    }

    /// Sends all bytes of `slices`, and waits while the socket accepts none. If the deadline in `allowance` passes, the
    /// error is [`io::ErrorKind::TimedOut`]. (A blocking write would not return while a client accepts a few bytes from
    /// time to time.)
    pub(crate) fn send_all_before_timeout(
        &self,
        mut slices: &mut [IoSlice<'_>],
        allowance: &mut ReplyTimeAllowance,
    ) -> io::Result<()> {
        IoSlice::advance_slices(&mut slices, 0);
        while !slices.is_empty() {
            match self.try_send(slices) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => {
                    allowance.note_accepted_bytes(Instant::now(), count);
                    IoSlice::advance_slices(&mut slices, count);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.wait_until_writable(allowance)?;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Waits until the socket accepts bytes or is closed, but at most for [`REPLY_DEADLINE_CHECK_INTERVAL`].
    fn wait_until_writable(&self, allowance: &mut ReplyTimeAllowance) -> io::Result<()> {
        let wait = match allowance.time_left(Instant::now()) {
            Some(Duration::ZERO) => return Err(io::ErrorKind::TimedOut.into()),
            Some(left) => left.min(REPLY_DEADLINE_CHECK_INTERVAL),
            None => REPLY_DEADLINE_CHECK_INTERVAL,
        };
        let timeout = rustix::event::Timespec::try_from(wait).expect("a second at most");
        match rustix::event::poll(&mut [PollFd::new(self, PollFlags::OUT)], Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

impl Read for &PlainSocket {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        loop {
            let read = match self {
                PlainSocket::Unix(socket) => (&mut &*socket).read(into),
                PlainSocket::Tcp(socket) => (&mut &*socket).read(into),
            };
            match read {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                read => return read,
            }
        }
    }
}

impl Write for &PlainSocket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            PlainSocket::Unix(socket) => (&mut &*socket).write(bytes),
            PlainSocket::Tcp(socket) => (&mut &*socket).write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
