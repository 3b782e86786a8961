//! The server: listening sockets, connections, and an orderly end.
//!
//! Each listening socket has a thread that accepts clients, and each connection has its own threads (`connection`,
//! [`crate::control`]). A device is used by one thread at a time ([`crate::device_queue`]). [`Server::stop`] accepts no
//! new client and no new request, answers the requests that have arrived, flushes, and returns the device.

use std::collections::HashMap;
use std::io;
use std::net::{Shutdown, SocketAddr, TcpListener};
use std::os::unix::net::UnixListener;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use tracing::{debug, error_span, field, warn};

use crate::connection::{self, SMALL_THREAD_STACK_BYTES, ServedExport, TlsMode};
use crate::device::BlockDevice;
use crate::device_error::DeviceError;
use crate::device_queue::{DeviceQueue, DeviceStopped, DeviceThread};
use crate::limits::ClientLimits;
use crate::memory_budget::MemoryBudget;
use crate::nbd::Export;
use crate::rate_limit::ExportRateLimits;
use crate::socket::{AllowedClients, ListenAddress, Listener, Socket, SocketMode};
use crate::tls::TlsConfig;

/// Time after which a listener tries again when the operating system could not accept a client.
const ACCEPT_RETRY_INTERVAL: Duration = Duration::from_millis(10);
/// Number by which log events name the next connection.
static NEXT_LOGGED_CONNECTION_NUMBER: AtomicU64 = AtomicU64::new(1);
/// Steps in which a stopping server ends its connections, each with the longest time that the step may take for all
/// connections together. First no more requests are received, and the server waits until the clients have received the
/// replies to their requests. Then the clients that are left are disconnected, and the server waits for the threads of
/// their connections.
const STOP_STEPS: [(Shutdown, Duration); 2] =
    [(Shutdown::Read, Duration::from_secs(5)), (Shutdown::Both, Duration::from_secs(1))];

/// Error: a server cannot start, or did not end cleanly.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// The server cannot listen on an address.
    #[error(
        "cannot listen on {address}, so remove the cause or choose another address: {source}{hint}",
        hint = advice_for_refused_address(address, source)
    )]
    Listen {
        /// Address on which the server cannot listen.
        address: ListenAddress,
        /// Error of the operating system.
        source: io::Error,
    },
    /// A socket that was passed to this process (by systemd) cannot be used by the server.
    #[error(
        "cannot serve on a socket that was passed to this process by systemd, so correct its .socket unit: {0}"
    )]
    InheritedSocket(io::Error),
    /// A device panicked.
    #[error(
        "the device stopped after an internal error of wearwell, which the panic message on standard error describes: \
         please report that message, and start the server again"
    )]
    DevicePanicked(#[from] DeviceStopped),
    /// The flush at the end of the server failed.
    #[error(
        "the flush at the end of the server failed, so that writes since the last successful flush may be lost: {0}; \
         remove the cause, start the server again, and check what was written last"
    )]
    Flush(DeviceError),
}

/// Returns advice for an address on which the operating system refused to listen, as the end of a sentence; empty if
/// the error itself contains advice.
fn advice_for_refused_address(address: &ListenAddress, error: &io::Error) -> &'static str {
    if error.raw_os_error().is_none() {
        return "";
    }
    match (error.kind(), address) {
        (io::ErrorKind::AddrInUse, _) => "; stop the program that listens there, or choose another address",
        (io::ErrorKind::AddrNotAvailable, _) => "; choose an address of this machine",
        (io::ErrorKind::PermissionDenied, ListenAddress::Tcp(_)) => "; choose a port above 1023",
        (io::ErrorKind::PermissionDenied, ListenAddress::Unix(_)) => {
            "; choose a path in a directory in which this user may create files"
        }
        (io::ErrorKind::NotFound, _) => "; make the directory that is to contain the socket first",
        (io::ErrorKind::InvalidFilename, _) => "; choose a path of at most 107 bytes",
        _ => "",
    }
}

/// A listening socket for a server that has not started yet. Clients that connect wait until the server accepts them.
#[derive(Debug)]
pub struct BoundListener {
    /// The listening socket.
    listener: Listener,
    /// Address on which the socket listens.
    address: ListenAddress,
}

impl BoundListener {
    /// Listens on an address. Only the owner of a socket file may connect, by the file mode of the socket file.
    ///
    /// # Errors
    /// [`ServeError::Listen`].
    pub fn listen_at(address: &ListenAddress) -> Result<Self, ServeError> {
        Self::listen_with_mode(address, SocketMode::default())
    }

    /// Listens on an address. `mode` is the file mode for a Unix socket, which determines who may connect.
    ///
    /// # Errors
    /// [`ServeError::Listen`].
    pub fn listen_with_mode(address: &ListenAddress, mode: SocketMode) -> Result<Self, ServeError> {
        let failed = |source| ServeError::Listen { address: address.clone(), source };
        let listener = Listener::bind(address, mode, AllowedClients::Loopback).map_err(failed)?;
        let address = listener.address().map_err(failed)?;
        Ok(Self { listener, address })
    }

    /// Listens for NBD on a TCP address that other machines may reach: for servers whose clients have to authenticate.
    ///
    /// # Errors
    /// [`ServeError::Listen`].
    pub fn listen_beyond_loopback(address: SocketAddr) -> Result<Self, ServeError> {
        let address = ListenAddress::Tcp(address);
        let failed = |source| ServeError::Listen { address: address.clone(), source };
        let listener =
            Listener::bind(&address, SocketMode::default(), AllowedClients::AllMachines).map_err(failed)?;
        let address = listener.address().map_err(failed)?;
        Ok(Self { listener, address })
    }

    /// Takes over a Unix socket that listens already, as systemd passes it. When the server ends, the socket stays open
    /// and keeps its file.
    ///
    /// # Errors
    /// [`ServeError::InheritedSocket`].
    pub fn inherited_unix(listener: UnixListener) -> Result<Self, ServeError> {
        Self::from_inherited(Listener::inherit_unix(listener))
    }

    /// Takes over a TCP socket that already listens. Only the clients that `reach` allows must be able to connect to
    /// its address. When the server ends, the socket stays open.
    ///
    /// # Errors
    /// [`ServeError::InheritedSocket`], also for an address with a wider reach than `reach`.
    pub fn inherited_tcp(listener: TcpListener, reach: AllowedClients) -> Result<Self, ServeError> {
        Self::from_inherited(Listener::inherit_tcp(listener, reach))
    }

    /// Makes a bound listener of a socket that was passed to this process, or the error for a socket that cannot be
    /// used.
    fn from_inherited(listener: io::Result<Listener>) -> Result<Self, ServeError> {
        let listener = listener.map_err(ServeError::InheritedSocket)?;
        let address = listener.address().map_err(ServeError::InheritedSocket)?;
        Ok(Self { listener, address })
    }
}

/// A device to be served, with the name and description of its export.
#[derive(Debug)]
pub struct NamedDevice<D> {
    /// Name of the export, by which clients choose the device.
    pub name: String,
    /// Description of the export for people, one sentence.
    pub description: String,
    /// The device that is served under this name.
    pub device: D,
}

/// A running server: the queues of its devices, and its listening sockets with their connections.
#[derive(Debug)]
pub struct Server<D> {
    /// Exports of the server with the queues of their devices.
    served_exports: Arc<[ServedExport<D>]>,
    /// Threads of the devices, in the order of `served_exports`.
    device_threads: Vec<DeviceThread<D>>,
    /// Whether reports (metrics) contain the name of each device's export. False if the server has a single device
    /// without a name of its own.
    reports_export_names: bool,
    /// Most simultaneous connections on one listening socket.
    connections_per_listener_max: usize,
    /// Memory budget that the large requests of all connections share.
    request_memory_budget: Arc<MemoryBudget>,
    /// TLS configuration of NBD sockets that are opened later; `None` if TLS is not offered.
    tls: Option<TlsConfig>,
    /// Listening sockets of the server, with their clients.
    open_listeners: Vec<OpenListener>,
}

/// A listening socket with its clients and the thread that accepts them.
#[derive(Debug)]
struct OpenListener {
    /// Listening socket, which is closed to end the accepting thread.
    listener: Arc<Listener>,
    /// Clients that are connected to this socket.
    clients: Arc<Clients>,
    /// Thread that accepts clients on this socket.
    accepting_thread: JoinHandle<()>,
}

impl<D: BlockDevice> Server<D> {
    /// Starts a server for one device. Clients are accepted only after a listening socket is opened, as by
    /// [`Self::listen_for_nbd_clients`].
    pub fn start(device: D, name: &str, description: &str) -> Self {
        let only = NamedDevice { name: name.to_owned(), description: description.to_owned(), device };
        Self::start_all(vec![only], ClientLimits::default()).without_export_names()
    }

    /// Starts a server for several devices, each with a queue of its own. A failure of one device does not affect the
    /// others.
    pub fn start_all(devices: Vec<NamedDevice<D>>, limits: ClientLimits) -> Self {
        let start = |device| start_device_queue(device, &limits);
        let (served_exports, device_threads): (Vec<_>, Vec<_>) = devices.into_iter().map(start).unzip();
        Self {
            served_exports: served_exports.into(),
            device_threads,
            reports_export_names: true,
            connections_per_listener_max: limits.max_connections_per_socket,
            request_memory_budget: Arc::new(MemoryBudget::of(limits.max_request_memory_bytes)),
            tls: None,
            open_listeners: Vec::new(),
        }
    }

    /// Offers TLS on NBD sockets that are opened after this call. TCP clients have to use TLS. Clients on a Unix socket
    /// may use it.
    pub fn offer_tls(&mut self, tls: TlsConfig) {
        self.tls = Some(tls);
    }

    /// Makes reports (metrics) omit the name of the export, for a server that has only one export.
    #[must_use]
    pub fn without_export_names(self) -> Self {
        Self { reports_export_names: false, ..self }
    }

    /// Returns the device queue of the first (or only) device of the server.
    pub fn first_device_queue(&self) -> &DeviceQueue<D> {
        &self.served_exports[0].device_queue
    }

    /// Returns the exports of the server with the queues of their devices.
    pub(crate) fn served_exports(&self) -> &Arc<[ServedExport<D>]> {
        &self.served_exports
    }

    /// Returns the limit of simultaneous connections on one listening socket.
    pub(crate) fn connections_max(&self) -> usize {
        self.connections_per_listener_max
    }

    /// Whether reports (metrics) contain the names of exports.
    pub(crate) fn reports_export_names(&self) -> bool {
        self.reports_export_names
    }

    /// Serves NBD at an address. Returns the address on which the server listens. If the port was 0, the system chooses
    /// the port.
    ///
    /// # Errors
    /// [`ServeError::Listen`].
    pub fn listen_for_nbd_clients(&mut self, address: &ListenAddress) -> Result<ListenAddress, ServeError> {
        self.listen_for_nbd_clients_on(BoundListener::listen_at(address)?)
    }

    /// Serves NBD on a socket that already listens, as [`Server::listen_for_nbd_clients`] does at an address.
    ///
    /// # Errors
    /// [`ServeError::Listen`].
    pub fn listen_for_nbd_clients_on(
        &mut self,
        bound_listener: BoundListener,
    ) -> Result<ListenAddress, ServeError> {
        let (served_exports, budget) =
            (Arc::clone(&self.served_exports), Arc::clone(&self.request_memory_budget));
        let security = match (self.tls.clone(), &bound_listener.address) {
            (None, _) => TlsMode::None,
            (Some(tls), ListenAddress::Unix(_)) => TlsMode::Offered(tls),
            (Some(tls), ListenAddress::Tcp(_)) => TlsMode::Required(tls),
        };
        self.start_accepting_clients(bound_listener, move |socket| {
            connection::serve_nbd_client(socket, &served_exports, &budget, &security);
        })
    }

    /// Accepts clients on a listening socket. For each client, `serve` is called with its socket on a thread of its
    /// own.
    ///
    /// # Errors
    /// [`ServeError::Listen`].
    pub(crate) fn start_accepting_clients(
        &mut self,
        bound_listener: BoundListener,
        serve: impl Fn(&Arc<Socket>) + Clone + Send + 'static,
    ) -> Result<ListenAddress, ServeError> {
        self.start_accepting_limited_clients(self.connections_per_listener_max, bound_listener, serve)
    }

    /// Accepts clients as [`Self::start_accepting_clients`] does, at most `max_clients` at a time.
    ///
    /// # Errors
    /// [`ServeError::Listen`].
    pub(crate) fn start_accepting_limited_clients(
        &mut self,
        max_clients: usize,
        BoundListener { listener, address }: BoundListener,
        serve: impl Fn(&Arc<Socket>) + Clone + Send + 'static,
    ) -> Result<ListenAddress, ServeError> {
        let listener = Arc::new(listener);
        let failed = |source| ServeError::Listen { address: address.clone(), source };
        let clients = Arc::new(Clients::with_limit(max_clients));
        let acceptor = {
            let (listener, clients) = (Arc::clone(&listener), Arc::clone(&clients));
            let at = address.clone();
            let thread = thread::Builder::new().name("listener".into()).stack_size(SMALL_THREAD_STACK_BYTES);
            let warn = move |problem: &str| warn!("{at}: {problem}");
            thread
                .spawn(move || accept_until_closed(|| listener.accept(), &clients, &serve, &warn))
                .map_err(failed)?
        };
        self.open_listeners.push(OpenListener { listener, clients, accepting_thread: acceptor });
        Ok(address)
    }

    /// Whether all devices have failed, so that nothing is served any more.
    pub fn has_every_export_failed(&self) -> bool {
        self.failed_exports().count() == self.served_exports.len()
    }

    /// Returns the names of the exports whose devices have failed.
    pub fn failed_exports(&self) -> impl Iterator<Item = &str> {
        let failed =
            self.served_exports.iter().filter(|served_export| !served_export.device_queue.is_alive());
        failed.map(|served_export| served_export.export.name.as_str())
    }

    /// Ends the server of one device: answers the requests that have arrived, flushes the device, and returns it.
    ///
    /// # Errors
    /// [`ServeError::DevicePanicked`], [`ServeError::Flush`].
    ///
    /// # Panics
    /// If the server has no device.
    pub fn stop(self) -> Result<D, ServeError> {
        let (_, device) = self.stop_all().into_iter().next().expect("a server has a device");
        device
    }

    /// Ends the server: answers the requests that have arrived, flushes, and returns all devices with the names of
    /// their exports.
    pub fn stop_all(self) -> Vec<(String, Result<D, ServeError>)> {
        for door in &self.open_listeners {
            door.listener.close();
        }
        self.served_exports.iter().for_each(|served_export| served_export.rate_limit.disable_limit());
        let mut clients_of_listeners = Vec::new();
        for door in self.open_listeners {
            // An accepting thread only ends; there is no panic to report.
            let _ = door.accepting_thread.join();
            clients_of_listeners.push(door.clients);
        }
        end_connections(&clients_of_listeners, STOP_STEPS);
        let names = self.served_exports.iter().map(|served_export| served_export.export.name.clone());
        names.zip(self.device_threads.into_iter().map(stop_device_queue)).collect()
    }
}

/// Starts the queue and the thread of a device, and makes the export by which clients use the device.
fn start_device_queue<D: BlockDevice>(
    named_device: NamedDevice<D>,
    limits: &ClientLimits,
) -> (ServedExport<D>, DeviceThread<D>) {
    let NamedDevice { name, description, device } = named_device;
    let export = Export::of(&device, &name, &description);
    let span = error_span!("engine", export = name);
    let (device_queue, thread) = span.in_scope(|| DeviceQueue::start(device));
    (ServedExport { export, device_queue, rate_limit: ExportRateLimits::of(limits) }, thread)
}

/// Stops the queue of a device: executes the queued work, flushes the device, and returns it.
fn stop_device_queue<D: BlockDevice>(thread: DeviceThread<D>) -> Result<D, ServeError> {
    let (device, flushed) = thread.join()?;
    flushed.map_err(ServeError::Flush)?;
    Ok(device)
}

/// Accepts clients until the listening socket is closed, which `accept` reports by `None`. A client beyond the limit of
/// connections is disconnected. `warn` is called for the first such client. After another client was accepted, it is
/// called again for the next such client.
///
/// No error of `accept` ends the listener. `accept` also returns errors of the network that concern one client, and
/// shortages (of descriptors, of memory) that pass; Linux may add further ones. `warn` is called for the first of
/// consecutive errors.
fn accept_until_closed(
    accept: impl Fn() -> io::Result<Option<Socket>>,
    clients: &Arc<Clients>,
    serve: &(impl Fn(&Arc<Socket>) + Clone + Send + 'static),
    warn: &impl Fn(&str),
) {
    let (mut is_full, mut is_failing) = (false, false);
    loop {
        let admitted = match accept() {
            Ok(Some(socket)) => clients.serve_on_new_thread(socket, serve.clone()),
            Ok(None) => return,
            Err(error) => {
                if !is_failing && !is_disconnection(&error) {
                    is_failing = true;
                    warn(&format!(
                        "no client can be accepted: {error}; if too many files are open, raise the limit (`ulimit \
                         -n`) or lower --max-connections; the server keeps trying, and further errors are not logged \
                         until a client is accepted"
                    ));
                }
                thread::sleep(ACCEPT_RETRY_INTERVAL);
                continue;
            }
        };
        is_failing = false;
        if let Err(why) = &admitted
            && !is_full
        {
            warn(&format!(
                "a client was disconnected at once: {why}; further ones are not logged until a client is accepted"
            ));
        }
        is_full = admitted.is_err();
    }
}

/// Whether an error of `accept` is harmless: the client has disconnected already, or a signal arrived.
fn is_disconnection(error: &io::Error) -> bool {
    let kinds =
        [io::ErrorKind::ConnectionAborted, io::ErrorKind::ConnectionReset, io::ErrorKind::Interrupted];
    kinds.contains(&error.kind())
}

/// Connected clients of one listening socket, with the limit of their number.
#[derive(Debug)]
struct Clients {
    /// Most clients that may be connected at a time.
    max_clients: usize,
    /// Sockets of the clients that are connected now.
    open_clients: Mutex<OpenClients>,
    /// Wakes the thread that waits until clients have disconnected.
    client_disconnected: Condvar,
}

/// Sockets of the clients that are connected to one listening socket, by client number.
#[derive(Debug, Default)]
struct OpenClients {
    /// Number of the client that connected last; numbers are not used again.
    last_client_number: u64,
    /// Socket of each connected client, by client number.
    open_sockets: HashMap<u64, Arc<Socket>>,
}

impl Clients {
    /// Makes an empty set of clients that may have `max_clients` members.
    fn with_limit(max_clients: usize) -> Self {
        Self { max_clients, open_clients: Mutex::default(), client_disconnected: Condvar::new() }
    }

    /// Locks the set of clients, also if a thread panicked while it held the lock.
    fn lock_open_clients(&self) -> MutexGuard<'_, OpenClients> {
        self.open_clients.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Serves a client on a thread of its own, unless the limit of clients is reached.
    ///
    /// # Errors
    /// There are too many clients, or a thread cannot be started; the client is disconnected then.
    fn serve_on_new_thread(
        self: &Arc<Self>,
        socket: Socket,
        serve: impl Fn(&Arc<Socket>) + Send + 'static,
    ) -> io::Result<()> {
        let socket = Arc::new(socket);
        let number = {
            let mut sockets = self.lock_open_clients();
            if sockets.open_sockets.len() >= self.max_clients {
                let (count, plural) = (self.max_clients, if self.max_clients == 1 { "" } else { "s" });
                return Err(io::Error::other(format!(
                    "this socket has {count} connected client{plural}, its limit: disconnect one of them \
                     (--max-connections of wearwell serve sets the limit of the NBD and control sockets)"
                )));
            }
            sockets.last_client_number += 1;
            let number = sockets.last_client_number;
            sockets.open_sockets.insert(number, Arc::clone(&socket));
            number
        };
        // Removes the client when its thread ends, however it ends, and also if the thread never starts.
        let leave = RemoveClientOnDrop { clients: Arc::clone(self), client_number: number };
        let thread = thread::Builder::new().name("client".into());
        thread.spawn(move || {
            let _leave = leave;
            // The name of the export is added to the span once it is known.
            let connection = NEXT_LOGGED_CONNECTION_NUMBER.fetch_add(1, Ordering::Relaxed);
            let span = error_span!("connection", number = connection, export = field::Empty);
            span.in_scope(|| {
                debug!("a client connected");
                serve(&socket);
                debug!("the connection is closed");
            });
            socket.shutdown(Shutdown::Both);
        })?;
        Ok(())
    }

    /// Shuts the sockets of all connected clients down, for receiving or also for sending.
    fn shut_down_all(&self, how: Shutdown) {
        self.lock_open_clients().open_sockets.values().for_each(|socket| socket.shutdown(how));
    }

    /// Waits until no client is connected any more, at most until `deadline`.
    fn wait_until_none_is_left(&self, deadline: Instant) {
        let allowance = deadline.saturating_duration_since(Instant::now());
        let some_left = |sockets: &mut OpenClients| !sockets.open_sockets.is_empty();
        let sockets = self.lock_open_clients();
        drop(self.client_disconnected.wait_timeout_while(sockets, allowance, some_left));
    }
}

/// Ends all connections of several listening sockets in steps. Each step shuts all sockets down in one way, and then
/// waits until the connections have ended, at most for its time.
fn end_connections(clients_of_listeners: &[Arc<Clients>], steps: [(Shutdown, Duration); 2]) {
    for (how, allowance) in steps {
        for clients in clients_of_listeners {
            clients.shut_down_all(how);
        }
        let deadline = Instant::now() + allowance;
        for clients in clients_of_listeners {
            clients.wait_until_none_is_left(deadline);
        }
    }
}

/// Guard that removes a client from the set of connected clients when it is dropped.
struct RemoveClientOnDrop {
    /// Set of connected clients from which the client is removed.
    clients: Arc<Clients>,
    /// Number of the client to be removed.
    client_number: u64,
}

impl Drop for RemoveClientOnDrop {
    fn drop(&mut self) {
        self.clients.lock_open_clients().open_sockets.remove(&self.client_number);
        self.clients.client_disconnected.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::io::Read as _;
    use std::net::{Ipv4Addr, TcpStream};
    use std::os::unix::net::UnixStream;
    use std::sync::mpsc;

    use super::*;
    use crate::limits::DEFAULT_CONNECTIONS_PER_LISTENER_MAX;
    use crate::plain_socket::PlainSocket;

    /// Registers as many connected clients as one listening socket may have.
    fn fill_all_connections(clients: &Clients) {
        let (one, _) = UnixStream::pair().expect("the system has sockets");
        let one = Arc::new(Socket::from(PlainSocket::Unix(one)));
        let taken =
            (1_000_000..).take(DEFAULT_CONNECTIONS_PER_LISTENER_MAX).map(|number| (number, Arc::clone(&one)));
        clients.lock_open_clients().open_sockets.extend(taken);
    }

    /// Regression: 1,024 idle connections kept all other clients out, and no log line reported it.
    #[test]
    fn only_the_first_client_beyond_the_connection_limit_is_logged_per_shortage() {
        let any_port = ListenAddress::Tcp((Ipv4Addr::LOCALHOST, 0).into());
        let listener = Arc::new(
            Listener::bind(&any_port, SocketMode::default(), AllowedClients::Loopback)
                .expect("there is a port"),
        );
        let Ok(ListenAddress::Tcp(address)) = listener.address() else { panic!("it was bound") };
        let clients = Arc::new(Clients::with_limit(DEFAULT_CONNECTIONS_PER_LISTENER_MAX));
        let (tell, told) = mpsc::channel();
        let acceptor = {
            let (listener, clients) = (Arc::clone(&listener), Arc::clone(&clients));
            let warn = move |problem: &str| tell.send(problem.to_owned()).expect("somebody listens");
            thread::spawn(move || {
                accept_until_closed(|| listener.accept(), &clients, &|_: &Arc<Socket>| (), &warn);
            })
        };
        let is_hung_up_on = || {
            let mut client = TcpStream::connect(address).expect("the listener listens");
            assert_eq!(client.read(&mut [0]).expect("the other end hangs up"), 0);
        };
        fill_all_connections(&clients);
        (0..3).for_each(|_| is_hung_up_on());
        clients.lock_open_clients().open_sockets.clear();
        is_hung_up_on();
        fill_all_connections(&clients);
        (0..2).for_each(|_| is_hung_up_on());
        listener.close();
        acceptor.join().expect("it only ends");
        let lines: Vec<String> = told.iter().collect();
        assert_eq!(lines.len(), 2, "{lines:?}");
        let limit = "a client was disconnected at once: this socket has 1024 connected clients, its limit";
        assert!(lines[0].starts_with(limit), "{lines:?}");
    }

    /// Regression: one error of `accept`, such as a shortage of memory, ended a listener without a log line.
    #[test]
    fn errors_of_accept_are_logged_once_and_end_no_listener() {
        /// Number of the error "out of memory".
        const ENOMEM: i32 = 12;
        /// Number of the error "protocol error".
        const EPROTO: i32 = 71;
        /// Number of the error "connection aborted".
        const ECONNABORTED: i32 = 103;
        /// Number of the error "no buffer space available".
        const ENOBUFS: i32 = 105;
        let clients = Arc::new(Clients::with_limit(10));
        let errors = [ECONNABORTED, ENOMEM, ENOBUFS, EPROTO, 0, ECONNABORTED, 0, ENOMEM];
        let (errors, lines) = (RefCell::new(errors.into_iter()), RefCell::new(Vec::new()));
        let accept = || match errors.borrow_mut().next() {
            None => Ok(None),
            Some(0) => Ok(Some(PlainSocket::Unix(UnixStream::pair()?.0).into())),
            Some(number) => Err(io::Error::from_raw_os_error(number)),
        };
        let warn = |problem: &str| lines.borrow_mut().push(problem.to_owned());
        accept_until_closed(accept, &clients, &|_: &Arc<Socket>| (), &warn);
        assert_eq!(errors.borrow().len(), 0, "it goes on until the listener is closed");
        let lines = lines.into_inner();
        assert_eq!(lines.len(), 2, "{lines:?}");
        assert!(lines.iter().all(|line| line.starts_with("no client can be accepted: ")), "{lines:?}");
    }

    /// Bug: the time was given to one listening socket after the other, twice each, so that a server with several
    /// listening sockets could take minutes to stop.
    #[test]
    fn connections_of_all_listening_sockets_get_the_time_to_end_together() {
        let clients: Vec<_> = (0..8).map(|_| Arc::new(Clients::with_limit(1))).collect();
        for of_listener in &clients {
            let (one, _) = UnixStream::pair().expect("the system has sockets");
            let one = Arc::new(Socket::from(PlainSocket::Unix(one)));
            of_listener.lock_open_clients().open_sockets.insert(1, one);
        }
        let step = |how| (how, Duration::from_millis(500));
        let started = Instant::now();
        end_connections(&clients, [step(Shutdown::Read), step(Shutdown::Both)]);
        let elapsed = started.elapsed();
        assert!((Duration::from_secs(1)..Duration::from_secs(4)).contains(&elapsed), "{elapsed:?}");
    }
}
