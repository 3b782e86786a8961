//! The server: listeners, connections, and an orderly end.
//!
//! Each listener has a thread that accepts, each connection its own (`connection`, [`crate::control`]); one more
//! owns the device ([`crate::engine`]). [`Server::stop`] takes no new client and no new request, answers what has
//! arrived, flushes, and gives the device back.

use std::collections::HashMap;
use std::io;
use std::net::{Shutdown, TcpListener};
use std::os::unix::net::UnixListener;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tracing::{debug, error_span, field, warn};

use crate::budget::Budget;
use crate::connection::{self, STACK_BYTES, Target};
use crate::device::{BlockDevice, DeviceError};
use crate::engine::{Engine, EngineThread, Stopped};
use crate::limits::Limits;
use crate::nbd::Export;
use crate::rate::RateLimit;
use crate::socket::{Address, Listener, Socket, SocketMode};

/// Connections of one listener at most, if nothing else is said; more are closed at once.
pub const CONNECTIONS_MAX: usize = 1024;
/// The number of the next connection in the log.
static NEXT_CONNECTION: AtomicU64 = AtomicU64::new(1);
/// Time that clients get at the end to take the replies to what they have sent.
const GRACE: Duration = Duration::from_secs(5);

/// Why a server cannot start or did not end well.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// An address cannot be listened on.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// The address.
        address: Address,
        /// The reason.
        source: io::Error,
    },
    /// A socket that was passed to this process cannot be served on.
    #[error("cannot serve on a socket that was passed to this process: {0}")]
    Inherit(io::Error),
    /// The engine panicked.
    #[error(
        "the device stopped because an invariant of the engine is broken; the message above says which: report it"
    )]
    Broken(#[from] Stopped),
    /// The last flush failed.
    #[error("the last flush failed: {0}")]
    Flush(DeviceError),
}

/// A socket that listens for a server that is about to start: clients wait.
#[derive(Debug)]
pub struct Bound {
    listener: Listener,
    address: Address,
}

impl Bound {
    /// Listens at an address; a socket file is its owner's alone.
    ///
    /// # Errors
    /// [`ServeError::Listen`].
    pub fn at(address: &Address) -> Result<Self, ServeError> {
        Self::with_mode(address, SocketMode::default())
    }

    /// The same with permissions for a socket file.
    ///
    /// # Errors
    /// [`ServeError::Listen`].
    pub fn with_mode(address: &Address, mode: SocketMode) -> Result<Self, ServeError> {
        let failed = |source| ServeError::Listen { address: address.clone(), source };
        let listener = Listener::bind(address, mode).map_err(failed)?;
        let address = listener.address().map_err(failed)?;
        Ok(Self { listener, address })
    }

    /// Takes over a Unix socket that listens already, as systemd passes it. It is left open, with its file, when the server ends.
    ///
    /// # Errors
    /// [`ServeError::Inherit`].
    pub fn inherited_unix(listener: UnixListener) -> Result<Self, ServeError> {
        Self::inherited(Listener::inherit_unix(listener))
    }

    /// Takes over a TCP socket that listens already. It is left open when the server ends.
    ///
    /// # Errors
    /// [`ServeError::Inherit`], also for an address that is not of this machine only.
    pub fn inherited_tcp(listener: TcpListener) -> Result<Self, ServeError> {
        Self::inherited(Listener::inherit_tcp(listener))
    }

    fn inherited(listener: io::Result<Listener>) -> Result<Self, ServeError> {
        let listener = listener.map_err(ServeError::Inherit)?;
        let address = listener.address().map_err(ServeError::Inherit)?;
        Ok(Self { listener, address })
    }
}

/// A device with the name under which clients find it.
#[derive(Debug)]
pub struct NamedDevice<D> {
    /// Name of the export.
    pub name: String,
    /// A sentence for people.
    pub description: String,
    /// What is served.
    pub device: D,
}

/// A running server.
#[derive(Debug)]
pub struct Server<D> {
    targets: Arc<[Target<D>]>,
    /// In the order of the targets.
    threads: Vec<EngineThread<D>>,
    /// Whether clients name the export they mean, and reports do.
    has_names: bool,
    connections_max: usize,
    budget: Arc<Budget>,
    doors: Vec<Door>,
}

/// A listener and its clients.
#[derive(Debug)]
struct Door {
    listener: Arc<Listener>,
    clients: Arc<Clients>,
    acceptor: JoinHandle<()>,
}

impl<D: BlockDevice> Server<D> {
    /// Starts the engine of one device. Nobody is served before a door is opened.
    pub fn start(device: D, name: &str, description: &str) -> Self {
        let only = NamedDevice { name: name.to_owned(), description: description.to_owned(), device };
        Self::start_all(vec![only], Limits::default()).without_names()
    }

    /// Starts an engine for each of several devices. What goes wrong with one of them is of no concern to the others.
    pub fn start_all(devices: Vec<NamedDevice<D>>, limits: Limits) -> Self {
        let start = |device| start_engine(device, &limits);
        let (targets, threads): (Vec<_>, Vec<_>) = devices.into_iter().map(start).unzip();
        Self {
            targets: targets.into(),
            threads,
            has_names: true,
            connections_max: limits.connections,
            budget: Arc::new(Budget::of(limits.memory_bytes)),
            doors: Vec::new(),
        }
    }

    /// Leaves the name of the only export out of reports.
    #[must_use]
    pub fn without_names(self) -> Self {
        Self { has_names: false, ..self }
    }

    /// A way to ask the device, or the first one of several.
    pub fn engine(&self) -> &Engine<D> {
        &self.targets[0].engine
    }

    pub(crate) fn targets(&self) -> &Arc<[Target<D>]> {
        &self.targets
    }

    pub(crate) fn has_names(&self) -> bool {
        self.has_names
    }

    /// Serves NBD at an address, and returns it with the port that was chosen if none was asked for.
    ///
    /// # Errors
    /// [`ServeError::Listen`].
    pub fn open_nbd(&mut self, address: &Address) -> Result<Address, ServeError> {
        self.open_nbd_on(Bound::at(address)?)
    }

    /// As [`Server::open_nbd`], on a socket that listens already.
    ///
    /// # Errors
    /// [`ServeError::Listen`].
    pub fn open_nbd_on(&mut self, bound: Bound) -> Result<Address, ServeError> {
        let (targets, budget) = (Arc::clone(&self.targets), Arc::clone(&self.budget));
        self.open(bound, move |socket| connection::serve(socket, &targets, &budget))
    }

    /// Serves a protocol on a socket: `serve` is called with every client, each on its own thread.
    ///
    /// # Errors
    /// [`ServeError::Listen`].
    pub(crate) fn open(
        &mut self,
        Bound { listener, address }: Bound,
        serve: impl Fn(&Arc<Socket>) + Clone + Send + 'static,
    ) -> Result<Address, ServeError> {
        let listener = Arc::new(listener);
        let failed = |source| ServeError::Listen { address: address.clone(), source };
        let clients = Arc::new(Clients::up_to(self.connections_max));
        let acceptor = {
            let (listener, clients) = (Arc::clone(&listener), Arc::clone(&clients));
            let at = address.clone();
            let thread = thread::Builder::new().name("listener".into()).stack_size(STACK_BYTES);
            let turned_away = move |why: &str| warn!("{at}: a client was turned away: {why}");
            thread.spawn(move || accept_all(&listener, &clients, &serve, &turned_away)).map_err(failed)?
        };
        self.doors.push(Door { listener, clients, acceptor });
        Ok(address)
    }

    /// Whether all engines have failed, so that there is nothing left to serve.
    pub fn has_failed(&self) -> bool {
        self.failed_exports().count() == self.targets.len()
    }

    /// Names of the exports whose engines have failed.
    pub fn failed_exports(&self) -> impl Iterator<Item = &str> {
        let failed = self.targets.iter().filter(|target| !target.engine.is_alive());
        failed.map(|target| target.export.name.as_str())
    }

    /// Ends the server of one device: answers what has arrived, flushes, and gives the device back.
    ///
    /// # Errors
    /// [`ServeError::Broken`], [`ServeError::Flush`].
    ///
    /// # Panics
    /// If the server has no device.
    pub fn stop(self) -> Result<D, ServeError> {
        let (_, device) = self.stop_all().into_iter().next().expect("a server has a device");
        device
    }

    /// Ends the server: answers what has arrived, flushes, and gives all devices back, with the names of their exports.
    pub fn stop_all(self) -> Vec<(String, Result<D, ServeError>)> {
        for door in &self.doors {
            door.listener.close();
        }
        self.targets.iter().for_each(|target| target.rate.lift());
        for door in self.doors {
            // An acceptor only ends; it cannot panic with something to say.
            let _ = door.acceptor.join();
            door.clients.drain();
        }
        let names = self.targets.iter().map(|target| target.export.name.clone());
        names.zip(self.threads.into_iter().map(stop_engine)).collect()
    }
}

fn start_engine<D: BlockDevice>(named: NamedDevice<D>, limits: &Limits) -> (Target<D>, EngineThread<D>) {
    let NamedDevice { name, description, device } = named;
    let export = Export::of(&device, &name, &description);
    let span = error_span!("engine", export = name);
    let (engine, thread) = span.in_scope(|| Engine::start(device));
    (Target { export, engine, rate: RateLimit::of(limits) }, thread)
}

fn stop_engine<D: BlockDevice>(thread: EngineThread<D>) -> Result<D, ServeError> {
    let (device, flushed) = thread.join()?;
    flushed.map_err(ServeError::Flush)?;
    Ok(device)
}

/// Admits clients until the listener is closed. `turned_away` is told of the first one that finds no place, and of the next
/// one after somebody has found one.
fn accept_all(
    listener: &Listener,
    clients: &Arc<Clients>,
    serve: &(impl Fn(&Arc<Socket>) + Clone + Send + 'static),
    turned_away: &impl Fn(&str),
) {
    let mut is_full = false;
    loop {
        let admitted = match listener.accept() {
            Ok(socket) => clients.admit(socket, serve.clone()),
            Err(error) if is_passing(&error) => {
                thread::sleep(Duration::from_millis(10));
                continue;
            }
            Err(_) => return,
        };
        if let Err(why) = &admitted
            && !is_full
        {
            turned_away(&format!("{why}; others are not named before there is room"));
        }
        is_full = admitted.is_err();
    }
}

/// Errors after which the listener still listens: the client was faster, or descriptors ran out.
fn is_passing(error: &io::Error) -> bool {
    const OUT_OF_DESCRIPTORS: [i32; 2] = [23, 24];
    let of_client =
        [io::ErrorKind::ConnectionAborted, io::ErrorKind::ConnectionReset, io::ErrorKind::Interrupted];
    of_client.contains(&error.kind())
        || error.raw_os_error().is_some_and(|number| OUT_OF_DESCRIPTORS.contains(&number))
}

/// The clients of a door.
#[derive(Debug)]
struct Clients {
    most: usize,
    sockets: Mutex<Sockets>,
    left: Condvar,
}

#[derive(Debug, Default)]
struct Sockets {
    next: u64,
    open: HashMap<u64, Arc<Socket>>,
}

impl Clients {
    fn up_to(most: usize) -> Self {
        Self { most, sockets: Mutex::default(), left: Condvar::new() }
    }

    fn sockets(&self) -> MutexGuard<'_, Sockets> {
        self.sockets.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Serves a client on a thread of its own.
    ///
    /// # Errors
    /// There are too many clients, or there is no memory for a thread: this one is hung up on.
    fn admit(
        self: &Arc<Self>,
        socket: Socket,
        serve: impl Fn(&Arc<Socket>) + Send + 'static,
    ) -> io::Result<()> {
        let socket = Arc::new(socket);
        let number = {
            let mut sockets = self.sockets();
            if sockets.open.len() >= self.most {
                return Err(io::Error::other(format!("{} are connected", self.most)));
            }
            sockets.next += 1;
            let number = sockets.next;
            sockets.open.insert(number, Arc::clone(&socket));
            number
        };
        // Leaves when the thread ends, however it ends, and also if it never starts.
        let leave = Leave { clients: Arc::clone(self), number };
        let thread = thread::Builder::new().name("client".into()).stack_size(STACK_BYTES);
        thread.spawn(move || {
            let _leave = leave;
            // Its export is recorded once it is known.
            let connection = NEXT_CONNECTION.fetch_add(1, Ordering::Relaxed);
            let span = error_span!("connection", number = connection, export = field::Empty);
            span.in_scope(|| {
                debug!("accepted");
                serve(&socket);
                debug!("closed");
            });
            socket.shutdown(Shutdown::Both);
        })?;
        Ok(())
    }

    /// Takes no more requests, waits for replies to be sent, and in the end hangs up.
    fn drain(&self) {
        for (how, patience) in [(Shutdown::Read, GRACE), (Shutdown::Both, GRACE)] {
            let sockets = self.sockets();
            sockets.open.values().for_each(|socket| socket.shutdown(how));
            let some_left = |sockets: &mut Sockets| !sockets.open.is_empty();
            let waited = self.left.wait_timeout_while(sockets, patience, some_left);
            drop(waited.unwrap_or_else(PoisonError::into_inner));
        }
    }
}

struct Leave {
    clients: Arc<Clients>,
    number: u64,
}

impl Drop for Leave {
    fn drop(&mut self) {
        self.clients.sockets().open.remove(&self.number);
        self.clients.left.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::net::{Ipv4Addr, TcpStream};
    use std::os::unix::net::UnixStream;
    use std::sync::mpsc;

    use super::*;

    /// As many connections as a door has.
    fn fill(clients: &Clients) {
        let (one, _) = UnixStream::pair().expect("the system has sockets");
        let one = Arc::new(Socket::Unix(one));
        let taken = (1_000_000..).take(CONNECTIONS_MAX).map(|number| (number, Arc::clone(&one)));
        clients.sockets().open.extend(taken);
    }

    /// 1,024 idle connections locked everybody out without a line.
    #[test]
    fn the_first_client_without_a_place_is_logged_and_again_after_there_was_room() {
        let any_port = Address::Tcp((Ipv4Addr::LOCALHOST, 0).into());
        let listener = Arc::new(Listener::bind(&any_port, SocketMode::default()).expect("there is a port"));
        let Ok(Address::Tcp(address)) = listener.address() else { panic!("it was bound") };
        let clients = Arc::new(Clients::up_to(CONNECTIONS_MAX));
        let (tell, told) = mpsc::channel();
        let acceptor = {
            let (listener, clients) = (Arc::clone(&listener), Arc::clone(&clients));
            let turned_away = move |why: &str| tell.send(why.to_owned()).expect("somebody listens");
            thread::spawn(move || accept_all(&listener, &clients, &|_: &Arc<Socket>| (), &turned_away))
        };
        let is_hung_up_on = || {
            let mut client = TcpStream::connect(address).expect("the listener listens");
            assert_eq!(client.read(&mut [0]).expect("the other end hangs up"), 0);
        };
        fill(&clients);
        (0..3).for_each(|_| is_hung_up_on());
        clients.sockets().open.clear();
        is_hung_up_on();
        fill(&clients);
        (0..2).for_each(|_| is_hung_up_on());
        listener.close();
        acceptor.join().expect("it only ends");
        let lines: Vec<String> = told.iter().collect();
        assert_eq!(lines.len(), 2, "{lines:?}");
        assert!(lines[0].starts_with("1024 are connected"), "{lines:?}");
    }
}
