//! Unix and TCP sockets as one kind.

use std::io::{self, IoSlice, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::Mode;
use rustix::net::{SendAncillaryBuffer, SendFlags};

use crate::nbd::Reply;

/// Slices that the system sends at once.
const SLICES_MAX: usize = 1024;

/// Where a server listens.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Address {
    /// A socket file.
    Unix(PathBuf),
    /// A port of this machine.
    Tcp(SocketAddr),
}

impl std::fmt::Display for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "{}", path.display()),
            Self::Tcp(address) => write!(f, "{address}"),
        }
    }
}

/// Who may connect to a socket file, as permissions of a file: read and write for its owner, its group, all.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SocketMode(pub u32);

impl Default for SocketMode {
    /// Its owner alone: nobody is asked who they are.
    fn default() -> Self {
        Self(0o600)
    }
}

/// Binds under a mask, since whoever comes before permissions are changed is in.
fn bind_with_mode(path: &Path, SocketMode(mode): SocketMode) -> io::Result<UnixListener> {
    let before = rustix::process::umask(Mode::from_raw_mode(0o777 & !mode));
    let bound = UnixListener::bind(path);
    rustix::process::umask(before);
    bound
}

/// A listening socket. Its file is removed with it.
#[derive(Debug)]
pub(crate) enum Listener {
    Unix(UnixListener, PathBuf),
    Tcp(TcpListener),
}

impl Listener {
    /// Listens. A socket file that nobody listens on any more is replaced; TCP is for this machine only, because neither
    /// NBD nor the control socket asks who comes.
    pub(crate) fn bind(address: &Address, mode: SocketMode) -> io::Result<Self> {
        match address {
            Address::Unix(path) => {
                remove_stale(path)?;
                Ok(Self::Unix(bind_with_mode(path, mode)?, path.clone()))
            }
            Address::Tcp(address) if !address.ip().is_loopback() => Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "there is no authentication, so only loopback addresses are served: use 127.0.0.1 and a tunnel",
            )),
            Address::Tcp(address) => Ok(Self::Tcp(TcpListener::bind(address)?)),
        }
    }

    pub(crate) fn accept(&self) -> io::Result<Socket> {
        match self {
            Self::Unix(listener, _) => Ok(Socket::Unix(listener.accept()?.0)),
            Self::Tcp(listener) => {
                let socket = listener.accept()?.0;
                socket.set_nodelay(true)?;
                Ok(Socket::Tcp(socket))
            }
        }
    }

    /// The address, with the port that the system chose.
    pub(crate) fn address(&self) -> io::Result<Address> {
        match self {
            Self::Unix(_, path) => Ok(Address::Unix(path.clone())),
            Self::Tcp(listener) => Ok(Address::Tcp(listener.local_addr()?)),
        }
    }

    /// Makes every [`Listener::accept`] fail, now and later.
    pub(crate) fn close(&self) {
        let socket = match self {
            Self::Unix(listener, _) => listener.as_fd(),
            Self::Tcp(listener) => listener.as_fd(),
        };
        // It fails only on sockets that do not listen.
        let _ = rustix::net::shutdown(socket, rustix::net::Shutdown::Both);
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Self::Unix(_, path) = self {
            // Somebody may have removed it already.
            let _ = std::fs::remove_file(path);
        }
    }
}

/// Removes the file of a server that is gone.
fn remove_stale(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::FileTypeExt as _;
    let Ok(metadata) = std::fs::symlink_metadata(path) else { return Ok(()) };
    let refuse = |reason: &str| Err(io::Error::new(io::ErrorKind::AddrInUse, reason.to_owned()));
    if !metadata.file_type().is_socket() {
        return refuse("there is a file of that name that is no socket");
    }
    match UnixStream::connect(path) {
        Ok(_) => refuse("another server listens there"),
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => std::fs::remove_file(path),
        Err(error) => Err(error),
    }
}

/// A connected socket.
#[derive(Debug)]
pub(crate) enum Socket {
    Unix(UnixStream),
    Tcp(TcpStream),
}

impl Socket {
    pub(crate) fn shutdown(&self, how: Shutdown) {
        // It fails only on sockets that are not connected any more.
        let _ = match self {
            Self::Unix(socket) => socket.shutdown(how),
            Self::Tcp(socket) => socket.shutdown(how),
        };
    }

    /// Appends so many bytes, fewer if the client goes. Memory is not cleared for them.
    pub(crate) fn read_into(&self, into: &mut Vec<u8>, count: usize) -> io::Result<usize> {
        match self {
            Self::Unix(socket) => socket.take(count as u64).read_to_end(into),
            Self::Tcp(socket) => socket.take(count as u64).read_to_end(into),
        }
    }

    /// Sends as much of the replies as the client takes without being waited for; how many bytes.
    pub(crate) fn try_write_replies(&self, replies: &[Reply]) -> io::Result<usize> {
        let slices: Vec<_> =
            replies.iter().take(SLICES_MAX).map(|reply| IoSlice::new(reply.bytes())).collect();
        let socket = match self {
            Self::Unix(socket) => socket.as_fd(),
            Self::Tcp(socket) => socket.as_fd(),
        };
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        Ok(rustix::net::sendmsg(socket, &slices, &mut SendAncillaryBuffer::default(), flags)?)
    }

    /// Sends all replies but the first bytes.
    pub(crate) fn write_replies(&self, replies: &[Reply], sent_bytes: usize) -> io::Result<()> {
        let mut slices: Vec<_> = replies.iter().map(|reply| IoSlice::new(reply.bytes())).collect();
        let mut slices = &mut slices[..];
        IoSlice::advance_slices(&mut slices, sent_bytes);
        while !slices.is_empty() {
            let sent = match self {
                Self::Unix(socket) => { socket }.write_vectored(slices),
                Self::Tcp(socket) => { socket }.write_vectored(slices),
            };
            match sent {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => IoSlice::advance_slices(&mut slices, count),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    pub(crate) fn set_read_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        match self {
            Self::Unix(socket) => socket.set_read_timeout(timeout),
            Self::Tcp(socket) => socket.set_read_timeout(timeout),
        }
    }

    pub(crate) fn set_write_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        match self {
            Self::Unix(socket) => socket.set_write_timeout(timeout),
            Self::Tcp(socket) => socket.set_write_timeout(timeout),
        }
    }
}

impl Read for &Socket {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        loop {
            let read = match self {
                Socket::Unix(socket) => (&mut &*socket).read(into),
                Socket::Tcp(socket) => (&mut &*socket).read(into),
            };
            match read {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                read => return read,
            }
        }
    }
}

impl Write for &Socket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Socket::Unix(socket) => (&mut &*socket).write(bytes),
            Socket::Tcp(socket) => (&mut &*socket).write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
