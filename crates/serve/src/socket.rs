//! Unix and TCP sockets as one type: addresses, listening sockets, and connected sockets.

use std::fs::Permissions;
use std::io::{self, IoSlice, PipeReader, PipeWriter, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};
use rustix::fs::Mode;
use rustix::net::{AddressFamily, SendFlags, SocketAddrUnix, SocketFlags, SocketType};

use crate::memory_budget::ReplyTimeAllowance;
use crate::nbd::Reply;
use crate::plain_socket::{PlainSocket, SENDMSG_BUFFERS_MAX};
use crate::tls::{TlsConfig, TlsSession};

/// Address on which a server listens.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ListenAddress {
    /// Path of a Unix socket file.
    Unix(PathBuf),
    /// TCP address with a port. It is a loopback address, unless clients have to authenticate.
    Tcp(SocketAddr),
}

impl std::fmt::Display for ListenAddress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "{}", path.display()),
            Self::Tcp(address) => write!(f, "{address}"),
        }
    }
}

/// File permissions of a socket file, as mode bits such as 0o600, which determine who may connect: the owner, the
/// group, or all.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SocketMode(pub u32);

impl Default for SocketMode {
    /// Returns the mode 0o600, by which only the owner of the socket file may connect. Apart from this, clients on a
    /// Unix socket are not authenticated.
    fn default() -> Self {
        Self(0o600)
    }
}

/// Binds a Unix socket whose file has the permissions `mode` from the beginning. (If permissions were changed later, a
/// client could connect before.) Linux gives the file the permissions of the socket, without those that the umask of
/// the process removes. The umask is not changed, because other threads create files.
fn bind_unix_with_mode(path: &Path, SocketMode(mode): SocketMode) -> io::Result<UnixListener> {
    /// Most clients that may wait to be accepted.
    const ACCEPT_BACKLOG: i32 = 128;
    let socket =
        rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    rustix::fs::fchmod(&socket, Mode::from_raw_mode(mode))?;
    rustix::net::bind(&socket, &SocketAddrUnix::new(path)?)?;
    rustix::net::listen(&socket, ACCEPT_BACKLOG)?;
    let permissions = std::fs::symlink_metadata(path)?.permissions();
    if permissions.mode() & 0o777 != mode {
        std::fs::set_permissions(path, Permissions::from_mode(mode))?;
    }
    Ok(socket.into())
}

/// A listening socket. If a socket file was made for it, the file is removed when the listener is dropped.
///
/// An inherited socket belongs to the process that passed it: it stays open there, so that clients wait for the next
/// server. So [`Listener::close`] wakes [`Listener::accept`] by a pipe and does not shut such a socket down.
#[derive(Debug)]
pub(crate) struct Listener {
    /// The socket of the operating system.
    socket: ListeningSocket,
    /// Whether another process opened the socket and passed it to this process.
    is_inherited: bool,
    /// Socket file that was made for this listener; `None` for TCP and for inherited sockets.
    own_socket_file: Option<OwnSocketFile>,
    /// Read end of the pipe that reports the closing of the listener. It becomes readable then, which wakes
    /// [`Listener::accept`].
    close_signal_reader: PipeReader,
    /// Write end of the pipe that reports the closing of the listener.
    close_signal_writer: PipeWriter,
}

/// A listening Unix or TCP socket of the operating system.
#[derive(Debug)]
enum ListeningSocket {
    /// A Unix socket that listens.
    Unix(UnixListener),
    /// A TCP socket that listens.
    Tcp(TcpListener),
}

impl AsFd for ListeningSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Unix(listener) => listener.as_fd(),
            Self::Tcp(listener) => listener.as_fd(),
        }
    }
}

impl ListeningSocket {
    /// Accepts the next client and returns its socket.
    fn accept(&self) -> io::Result<Socket> {
        match self {
            Self::Unix(listener) => Ok(PlainSocket::Unix(listener.accept()?.0).into()),
            Self::Tcp(listener) => {
                let socket = listener.accept()?.0;
                socket.set_nodelay(true)?;
                Ok(PlainSocket::Tcp(socket).into())
            }
        }
    }

    /// Returns the address on which the socket listens. An abstract Unix address begins with `@`.
    fn address(&self) -> io::Result<ListenAddress> {
        let address = match self {
            Self::Unix(listener) => listener.local_addr()?,
            Self::Tcp(listener) => return Ok(ListenAddress::Tcp(listener.local_addr()?)),
        };
        let path = match (address.as_pathname(), address.as_abstract_name()) {
            (Some(path), _) => path.to_owned(),
            (None, Some(name)) => PathBuf::from(format!("@{}", String::from_utf8_lossy(name))),
            (None, None) => PathBuf::from("an unnamed socket"),
        };
        Ok(ListenAddress::Unix(path))
    }
}

impl Listener {
    /// Listens on an address. A socket file on which no process listens any more is replaced. `reach` states whether a
    /// TCP address may be one that other machines reach. It may not if clients are not authenticated.
    pub(crate) fn bind(address: &ListenAddress, mode: SocketMode, reach: AllowedClients) -> io::Result<Self> {
        match address {
            ListenAddress::Unix(path) => {
                remove_stale_socket_file(path)?;
                let socket = ListeningSocket::Unix(bind_unix_with_mode(path, mode)?);
                let mut listener = Self::from_listening_socket(socket)?;
                listener.own_socket_file = Some(OwnSocketFile::of_created_file(path)?);
                Ok(listener)
            }
            ListenAddress::Tcp(address) => {
                reach.require_allowed(*address)?;
                Self::from_listening_socket(ListeningSocket::Tcp(TcpListener::bind(address)?))
            }
        }
    }

    /// Takes over a listening Unix socket that another process opened.
    pub(crate) fn inherit_unix(listener: UnixListener) -> io::Result<Self> {
        Self::from_inherited(ListeningSocket::Unix(listener))
    }

    /// Takes over a listening TCP socket that another process opened. Fails if clients other than those that `reach`
    /// allows could connect to its address.
    pub(crate) fn inherit_tcp(listener: TcpListener, reach: AllowedClients) -> io::Result<Self> {
        reach.require_allowed(listener.local_addr()?)?;
        Self::from_inherited(ListeningSocket::Tcp(listener))
    }

    /// Makes the listener of a socket that another process opened; an error if the socket does not listen.
    fn from_inherited(socket: ListeningSocket) -> io::Result<Self> {
        if !rustix::net::sockopt::socket_acceptconn(&socket)? {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "the socket does not listen: set Accept=no in its .socket unit",
            ));
        }
        let mut listener = Self::from_listening_socket(socket)?;
        listener.is_inherited = true;
        Ok(listener)
    }

    /// Makes a listener of a socket that listens already.
    fn from_listening_socket(socket: ListeningSocket) -> io::Result<Self> {
        // A client may disconnect between the poll and the accept, which must not block then.
        rustix::io::ioctl_fionbio(&socket, true)?;
        let (closed, closing) = io::pipe()?;
        Ok(Self {
            socket,
            is_inherited: false,
            own_socket_file: None,
            close_signal_reader: closed,
            close_signal_writer: closing,
        })
    }

    /// Waits for the next client and returns its socket; `None` once the listener is closed.
    ///
    /// # Errors
    /// An error of the operating system. The listener may accept clients again later.
    pub(crate) fn accept(&self) -> io::Result<Option<Socket>> {
        loop {
            let mut events = [
                PollFd::new(&self.close_signal_reader, PollFlags::IN),
                PollFd::new(&self.socket, PollFlags::IN),
            ];
            rustix::event::poll(&mut events, None)?;
            if !events[0].revents().is_empty() {
                return Ok(None);
            }
            match self.socket.accept() {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                accepted => return accepted.map(Some),
            }
        }
    }

    /// Returns the address on which the socket listens. If the system chose the port, the address has that port.
    pub(crate) fn address(&self) -> io::Result<ListenAddress> {
        self.socket.address()
    }

    /// Closes the listener. Calls of [`Listener::accept`], waiting or later ones, return `None`.
    pub(crate) fn close(&self) {
        // The write to the pipe succeeds, because its read end is a field and still open.
        let _ = { &self.close_signal_writer }.write_all(&[0]);
        if !self.is_inherited {
            // Clients that connect from now on are refused. An error means that the socket does not listen.
            let _ = rustix::net::shutdown(&self.socket, rustix::net::Shutdown::Both);
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Some(file) = &self.own_socket_file {
            file.remove();
        }
    }
}

/// A socket file that was made for a listener, identified by its device and inode. Another server may have put its own
/// socket file at the same path, because nobody listens there from the moment the listener is closed. The inode is not
/// given to another file while the socket is open.
#[derive(Debug)]
struct OwnSocketFile {
    /// Path at which the socket file was made.
    path: PathBuf,
    /// Device number and inode number of the socket file.
    device_and_inode: (u64, u64),
}

impl OwnSocketFile {
    /// Identifies the socket file that was just created at `path`.
    fn of_created_file(path: &Path) -> io::Result<Self> {
        Ok(Self { path: path.to_owned(), device_and_inode: Self::device_and_inode_of(path)? })
    }

    /// Returns device number and inode number of the file at `path`.
    fn device_and_inode_of(path: &Path) -> io::Result<(u64, u64)> {
        let metadata = std::fs::symlink_metadata(path)?;
        Ok((metadata.dev(), metadata.ino()))
    }

    /// Removes the socket file, unless it is gone or another file has its name.
    fn remove(&self) {
        if Self::device_and_inode_of(&self.path).is_ok_and(|found| found == self.device_and_inode) {
            // A file that cannot be removed is replaced by the next server.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// Set of clients that may connect to a TCP socket: programs on this machine, or on all machines.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum AllowedClients {
    /// Only programs on this machine may connect.
    #[default]
    Loopback,
    /// Programs on all machines may connect, for servers whose clients have to authenticate.
    AllMachines,
}

impl AllowedClients {
    /// Refuses an address that other machines reach if only programs on this machine may connect.
    fn require_allowed(self, address: SocketAddr) -> io::Result<()> {
        if self == Self::AllMachines || address.ip().is_loopback() {
            return Ok(());
        }
        Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            if cfg!(feature = "tls") {
                "clients of this socket do not authenticate, so only loopback addresses are allowed: use 127.0.0.1 \
                 and a tunnel (ssh -L), or let NBD clients authenticate by certificates (--tls-client-ca)"
            } else {
                "clients do not authenticate, so only loopback addresses are allowed: use 127.0.0.1 and a tunnel (ssh \
                 -L)"
            },
        ))
    }
}

/// Removes the socket file that an earlier server left at `path`. Returns an error if another server listens on it, or
/// if the file is no socket.
fn remove_stale_socket_file(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::FileTypeExt as _;
    let Ok(metadata) = std::fs::symlink_metadata(path) else { return Ok(()) };
    let refuse = |reason: &str| Err(io::Error::new(io::ErrorKind::AddrInUse, reason.to_owned()));
    if !metadata.file_type().is_socket() {
        return refuse("a file of that name exists and is no socket: remove it, or choose another path");
    }
    match UnixStream::connect(path) {
        Ok(_) => refuse("another server listens on this socket: stop it, or choose another path"),
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => std::fs::remove_file(path),
        Err(error) => Err(error),
    }
}

/// A connected socket. The client may have started TLS on it after it connected.
#[derive(Debug)]
pub(crate) struct Socket {
    /// The connection without encryption, which also carries the bytes of TLS.
    stream: PlainSocket,
    /// TLS session, once the client has started TLS.
    tls_session: OnceLock<TlsSession>,
}

impl From<PlainSocket> for Socket {
    fn from(stream: PlainSocket) -> Self {
        Self { stream, tls_session: OnceLock::new() }
    }
}

impl Socket {
    /// Starts TLS on the connection: performs a handshake that must end before `deadline`, and encrypts all later
    /// traffic.
    pub(crate) fn start_tls(&self, tls: &TlsConfig, deadline: Instant) -> io::Result<()> {
        let session = tls.accept(&self.stream, deadline)?;
        self.tls_session.set(session).map_err(|_| io::Error::other("the socket is encrypted already"))
    }

    /// Ends one or both directions of the connection.
    pub(crate) fn shutdown(&self, how: Shutdown) {
        // An error means that the socket is not connected any more.
        let _ = match &self.stream {
            PlainSocket::Unix(socket) => socket.shutdown(how),
            PlainSocket::Tcp(socket) => socket.shutdown(how),
        };
    }

    /// Sends the message of TLS that ends the data (`close_notify`), if the connection is encrypted.
    pub(crate) fn send_tls_close(&self) {
        if let Some(session) = self.tls_session.get() {
            session.send_tls_close(&self.stream);
        }
    }

    /// Reads up to `count` bytes and appends them to `into`. Fewer bytes are read only if the client disconnects.
    /// Returns the number of bytes read. The memory for them is not cleared first, unless the connection is encrypted.
    pub(crate) fn append_from_socket(&self, into: &mut Vec<u8>, count: usize) -> io::Result<usize> {
        if self.tls_session.get().is_some() {
            return { self }.take(count as u64).read_to_end(into);
        }
        match &self.stream {
            PlainSocket::Unix(socket) => socket.take(count as u64).read_to_end(into),
            PlainSocket::Tcp(socket) => socket.take(count as u64).read_to_end(into),
        }
    }

    /// Sends as many bytes of the replies as the socket accepts without blocking, and returns their number. Returns 0
    /// on an encrypted socket, which can only send whole replies.
    pub(crate) fn try_write_replies(&self, replies: &[Reply]) -> io::Result<usize> {
        if self.tls_session.get().is_some() {
            // What is encrypted has to be sent whole.
            return Ok(0);
        }
        let slices: Vec<_> =
            replies.iter().take(SENDMSG_BUFFERS_MAX).map(|reply| IoSlice::new(reply.bytes())).collect();
        self.stream.try_send(&slices)
    }

    /// Sends as many bytes of `bytes` as the socket accepts without blocking, and returns their number. Only for
    /// sockets that are not encrypted.
    pub(crate) fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        Ok(rustix::net::send(&self.stream, bytes, SendFlags::DONTWAIT | SendFlags::NOSIGNAL)?)
    }

    /// Sets the size of the operating system's send buffer, bytes. The buffer keeps about as many bytes that the client
    /// has not received yet.
    pub(crate) fn set_send_buffer_bytes(&self, bytes: usize) -> io::Result<()> {
        Ok(rustix::net::sockopt::set_socket_send_buffer_size(&self.stream, bytes)?)
    }

    /// Sends all bytes of the replies except the first `sent_bytes`. Blocks until they are sent or the client's
    /// deadline has passed ([`io::ErrorKind::TimedOut`]).
    pub(crate) fn write_replies(
        &self,
        replies: &[Reply],
        sent_bytes: usize,
        allowance: &mut ReplyTimeAllowance,
    ) -> io::Result<()> {
        if let Some(session) = self.tls_session.get() {
            debug_assert_eq!(sent_bytes, 0, "nothing is sent in parts");
            let bytes = replies.iter().map(Reply::bytes).collect::<Vec<_>>().concat();
            return session.write_all_before_timeout(&self.stream, &bytes, allowance);
        }
        let mut slices: Vec<_> = replies.iter().map(|reply| IoSlice::new(reply.bytes())).collect();
        let mut slices = &mut slices[..];
        IoSlice::advance_slices(&mut slices, sent_bytes);
        self.stream.send_all_before_timeout(slices, allowance)
    }

    /// Sets the longest time that a read waits for bytes; `None` means no limit.
    pub(crate) fn set_read_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        self.stream.set_read_timeout(timeout)
    }

    /// Sets the longest time that a write waits for space in the send buffer; `None` means no limit.
    pub(crate) fn set_write_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        match &self.stream {
            PlainSocket::Unix(socket) => socket.set_write_timeout(timeout),
            PlainSocket::Tcp(socket) => socket.set_write_timeout(timeout),
        }
    }
}

impl Read for &Socket {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self.tls_session.get() {
            Some(session) => session.read(&self.stream, into),
            None => { &self.stream }.read(into),
        }
    }
}

impl Write for &Socket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.tls_session.get() {
            Some(session) => session.write_all(&self.stream, bytes).map(|()| bytes.len()),
            None => { &self.stream }.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::thread;

    use super::*;
    use crate::memory_budget::{HeldClaimCount, MemoryBudget};

    /// Sends a megabyte to a client that accepts 512 bytes every 10 ms (50 KiB/s), with a time limit of 200 ms, and
    /// returns the outcome. Each single write of a few KiB to the socket ends in time.
    fn send_to_slowly_reading_client(holder: &Arc<HeldClaimCount>) -> io::Result<()> {
        let (server, client) = UnixStream::pair().unwrap();
        let socket = Socket::from(PlainSocket::Unix(server));
        socket.set_send_buffer_bytes(4096).unwrap();
        let reader = thread::spawn(move || {
            while { &client }.read(&mut [0; 512]).is_ok_and(|count| count > 0) {
                thread::sleep(Duration::from_millis(10));
            }
        });
        let mut allowance = ReplyTimeAllowance::of(Arc::clone(holder), Duration::from_millis(200));
        let outcome = socket.write_replies(&[Reply::from(vec![1; 1 << 20])], 0, &mut allowance);
        drop(socket);
        reader.join().unwrap();
        outcome
    }

    /// Regression: each write to the socket had a deadline, and not the replies as a whole. A client that read a few
    /// bytes every second held its share of the memory of all clients for ever.
    #[test]
    fn sending_to_a_slow_client_that_holds_memory_times_out() {
        let (budget, holder) = (Arc::new(MemoryBudget::of(1000)), Arc::default());
        let _claim = budget.claim(1, &holder);
        let outcome = send_to_slowly_reading_client(&holder);
        assert_eq!(outcome.unwrap_err().kind(), io::ErrorKind::TimedOut);
    }

    /// Regression: replies that were sent before any memory was claimed had no deadline. A client that read none of
    /// them, and then asked for more, held memory for ever.
    #[test]
    fn sending_to_a_client_that_claims_memory_meanwhile_times_out() {
        let (budget, holder) = (Arc::new(MemoryBudget::of(1000)), Arc::default());
        let claimed_later = {
            let holder = Arc::clone(&holder);
            thread::spawn(move || {
                thread::sleep(Duration::from_millis(400));
                budget.claim(1, &holder)
            })
        };
        let outcome = send_to_slowly_reading_client(&holder);
        assert_eq!(outcome.unwrap_err().kind(), io::ErrorKind::TimedOut);
        drop(claimed_later.join().unwrap());
    }
}
