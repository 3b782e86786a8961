//! Interface to systemd: takes over the sockets that systemd opened (`LISTEN_FDS`, `sd_listen_fds(3)`), and reports the
//! state of the server (`NOTIFY_SOCKET`, `sd_notify(3)`).

use std::io;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};

use listenfd::ListenFd;
use tracing::debug;
use wearwell_serve::{AllowedClients, BoundListener, ServeError};

use crate::Failure;

/// Protocol that the server uses on a listening socket.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum SocketProtocol {
    /// NBD, by which clients attach the device.
    Nbd,
    /// Control protocol: one JSON object per line.
    Control,
    /// HTTP, by which Prometheus reads metrics.
    Metrics,
    /// HTTP, by which a browser shows the device.
    Dashboard,
}

impl SocketProtocol {
    /// Returns the protocol for the name of a socket (`FileDescriptorName=` of its unit), or `None` if the name is
    /// unknown. Without that setting, systemd gives the socket the name of its unit or no name; such a socket is for
    /// NBD.
    fn of_socket_name(name: &str) -> Option<Self> {
        match name {
            "nbd" | "" | "unknown" => Some(Self::Nbd),
            "control" => Some(Self::Control),
            "metrics" => Some(Self::Metrics),
            "dashboard" => Some(Self::Dashboard),
            _ => name.ends_with(".socket").then_some(Self::Nbd),
        }
    }
}

/// Takes over the listening sockets that systemd passed to this process. Returns an error if none of them is for NBD,
/// or if clients of a TCP address can be on other machines although `reach` allows only this one.
pub(crate) fn take_inherited_sockets(
    reach: AllowedClients,
) -> Result<Vec<(SocketProtocol, BoundListener)>, Failure> {
    let names = std::env::var("LISTEN_FDNAMES").unwrap_or_default();
    let mut passed = ListenFd::from_env();
    let names = names.split(':').chain(std::iter::repeat(""));
    let sockets: Vec<_> = names
        .zip(0..passed.len())
        .map(|(name, index)| take_inherited_socket(&mut passed, index, name, reach))
        .collect::<Result<_, _>>()?;
    if sockets.iter().any(|&(protocol, _)| protocol == SocketProtocol::Nbd) {
        return Ok(sockets);
    }
    Err(Failure::of_usage(
        "systemd passed no socket for NBD to this process, which --socket-activation needs: start it by its .socket \
         unit, or replace --socket-activation by --socket or --tcp",
    ))
}

/// Takes over one of the sockets that systemd passed, by its index; `name` states its protocol.
fn take_inherited_socket(
    passed_sockets: &mut ListenFd,
    index: usize,
    name: &str,
    reach: AllowedClients,
) -> Result<(SocketProtocol, BoundListener), Failure> {
    let Some(protocol) = SocketProtocol::of_socket_name(name) else {
        return Err(Failure::of_usage(format!(
            "systemd passed a socket with the unknown name `{name}`: set FileDescriptorName= of its .socket unit to \
             nbd, control, metrics or dashboard"
        )));
    };
    let usage = |error: ServeError| {
        Failure::of_usage(format!(
            "the socket `{name}` that systemd passed cannot be used, so correct its .socket unit: {error}"
        ))
    };
    if let Ok(Some(listener)) = passed_sockets.take_unix_listener(index) {
        return Ok((protocol, BoundListener::inherited_unix(listener).map_err(usage)?));
    }
    match passed_sockets.take_tcp_listener(index) {
        Ok(Some(listener)) => {
            let reach = if protocol == SocketProtocol::Nbd { reach } else { AllowedClients::Loopback };
            Ok((protocol, BoundListener::inherited_tcp(listener, reach).map_err(usage)?))
        }
        Ok(None) => unreachable!("each index is taken once"),
        Err(error) => Err(Failure::of_usage(format!(
            "systemd passed a socket `{name}` that is neither a Unix nor a TCP stream socket: {error}; set \
             ListenStream= in its .socket unit"
        ))),
    }
}

/// Reports to systemd that the server is ready, with a status line.
pub(crate) fn notify_ready(status: &str) {
    send_notifications_or_log(&format!("READY=1\n{}", status_line(status)));
}

/// Reports to systemd that the server is ending, with a status line.
pub(crate) fn notify_stopping(status: &str) {
    send_notifications_or_log(&format!("STOPPING=1\n{}", status_line(status)));
}

/// Reports a status line to systemd that describes what the server is doing.
pub(crate) fn notify_status(status: &str) {
    send_notifications_or_log(&status_line(status));
}

/// Returns the systemd status line for a status text, with line breaks (which a name or path may contain) replaced by
/// blanks.
fn status_line(status: &str) -> String {
    format!("STATUS={}\n", status.replace('\n', " "))
}

/// Sends notifications to systemd; a failure is only logged.
fn send_notifications_or_log(states: &str) {
    if let Err(error) = send_notifications(states) {
        debug!("systemd could not be notified: {error}");
    }
}

/// Sends notifications such as `READY=1` or `STATUS=...` to the socket that systemd names in `NOTIFY_SOCKET`; does
/// nothing if there is none. An abstract socket address begins with `@`.
fn send_notifications(states: &str) -> io::Result<()> {
    let Some(name) = std::env::var_os("NOTIFY_SOCKET") else { return Ok(()) };
    let address = match name.as_bytes() {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name)?,
        _ => SocketAddr::from_pathname(&name)?,
    };
    UnixDatagram::unbound()?.send_to_addr(states.as_bytes(), &address).map(drop)
}
