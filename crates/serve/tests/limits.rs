//! Tests of the limits of a server, by its counters and answers. (Tests of rates in virtual time are in
//! `rate_limit.rs`.)

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use common::client::*;
use common::{MIB, specification};
use serde_json::Value;
use wearwell_serve::{
    AllowedClients, BoundListener, ClientLimits, FlashDevice, ListenAddress, NamedDevice, Server,
};

use crate::common;

/// A server with limits and one drive of 8 MiB in memory.
struct LimitedServer {
    /// The running server.
    server: Server<FlashDevice>,
    /// Directory with the socket files.
    folder: tempfile::TempDir,
}

impl LimitedServer {
    /// Starts a server with these limits.
    fn start(limits: ClientLimits) -> Self {
        let device = specification("page-map", 8 * MIB).build().expect("it fits");
        let drive = NamedDevice { name: "drive".into(), description: String::new(), device };
        let folder = tempfile::tempdir().unwrap();
        let mut limited = Self { server: Server::start_all(vec![drive], limits), folder };
        limited.server.listen_for_nbd_clients(&ListenAddress::Unix(limited.nbd_socket_path())).unwrap();
        limited.server.open_control_socket(&ListenAddress::Unix(limited.control_socket_path())).unwrap();
        limited
    }

    /// Returns the path of the NBD socket.
    fn nbd_socket_path(&self) -> PathBuf {
        self.folder.path().join("nbd")
    }

    /// Returns the path of the control socket.
    fn control_socket_path(&self) -> PathBuf {
        self.folder.path().join("control")
    }

    /// Connects a client that is ready to send requests.
    fn client(&self) -> Client {
        Client::connect(&self.nbd_socket_path()).negotiated()
    }
}

/// Returns the number of requests that had to wait for a rate limit, as the control socket reports it.
fn rate_limited_request_count(control: &Path) -> u64 {
    let mut lines = BufReader::new(UnixStream::connect(control).unwrap());
    lines.get_mut().write_all(b"{\"command\": \"exports\"}\n").unwrap();
    let mut reply = String::new();
    lines.read_line(&mut reply).unwrap();
    let reply: Value = serde_json::from_str(&reply).unwrap();
    reply["exports"][0]["limited_requests"].as_u64().unwrap()
}

/// Waits until at least `count` requests had to wait for a rate limit.
fn wait_until_requests_are_rate_limited(control: &Path, count: u64) {
    while rate_limited_request_count(control) < count {
        std::thread::yield_now();
    }
}

#[test]
fn requests_beyond_a_rate_limit_wait_and_are_answered_when_the_server_stops() {
    let limits = [
        ClientLimits { max_requests_per_second_per_export: Some(1), ..ClientLimits::default() },
        // A sector takes 8 minutes.
        ClientLimits { max_bytes_per_second_per_export: Some(1), ..ClientLimits::default() },
    ];
    for limits in limits {
        let limited = LimitedServer::start(limits);
        let mut client = limited.client();
        let cookies: Vec<u64> =
            (0..60).map(|sector| client.request(NBD_CMD_WRITE, 0, sector * 512, 512, &[7; 512])).collect();
        wait_until_requests_are_rate_limited(&limited.control_socket_path(), 1);
        // Without the end of the limit this would take a minute at least, and a client waits for 30 seconds.
        let stopping = std::thread::spawn(move || {
            limited.server.stop().map(|device| device.host_command_counts().writes)
        });
        let mut answered: Vec<u64> = Vec::new();
        while let Ok(bytes) = client.try_receive_bytes(16) {
            assert_eq!(bytes[..8], [0x67, 0x44, 0x66, 0x98, 0, 0, 0, 0], "a success");
            answered.push(u64::from_be_bytes(bytes[8..].try_into().unwrap()));
        }
        let writes = stopping.join().unwrap().expect("the engine is sound");
        assert_eq!(answered, cookies[..answered.len()], "in order");
        assert_eq!(answered.len() as u64, writes, "what was executed is answered");
        assert!(answered.len() > 2, "the limit is lifted at the end: {}", answered.len());
    }
}

#[test]
fn a_rate_limit_counts_reads_of_holes_as_data_and_trims_not() {
    let limited = LimitedServer::start(ClientLimits {
        max_bytes_per_second_per_export: Some(1),
        ..ClientLimits::default()
    });
    let mut client = limited.client();
    // Each would take hours if it cost bytes.
    for _ in 0..20 {
        client.request_successfully(NBD_CMD_TRIM, 0, 0, MIB as u32, &[]);
        client.request_successfully(NBD_CMD_WRITE_ZEROES, 0, 0, MIB as u32, &[]);
        client.request_successfully(NBD_CMD_FLUSH, 0, 0, 0, &[]);
    }
    assert_eq!(rate_limited_request_count(&limited.control_socket_path()), 0);
    client.request(NBD_CMD_READ, 0, 0, 4096, &[]);
    client.request(NBD_CMD_READ, 0, 0, 4096, &[]);
    client.request(NBD_CMD_WRITE_ZEROES, NBD_CMD_FLAG_NO_HOLE, 0, 4096, &[]);
    wait_until_requests_are_rate_limited(&limited.control_socket_path(), 1);
    limited.server.stop().expect("the engine is sound");
}

#[test]
fn no_request_waits_without_a_rate_limit() {
    let limited = LimitedServer::start(ClientLimits::default());
    let mut client = limited.client();
    (0..500).for_each(|page| client.write(page * 4096, &[1; 4096]));
    assert_eq!(rate_limited_request_count(&limited.control_socket_path()), 0);
    limited.server.stop().expect("the engine is sound");
}

/// When a connection ends, another client can connect.
#[test]
fn a_socket_accepts_connections_up_to_its_limit() {
    let limited =
        LimitedServer::start(ClientLimits { max_connections_per_socket: 2, ..ClientLimits::default() });
    let turned_away = || {
        let mut stream = UnixStream::connect(limited.nbd_socket_path()).unwrap();
        std::io::Read::read(&mut stream, &mut [0]).unwrap() == 0
    };
    let (first, second) = (limited.client(), limited.client());
    assert!((0..5).all(|_| turned_away()));
    drop(first);
    while turned_away() {
        std::thread::yield_now();
    }
    drop(second);
    limited.server.stop().expect("the engine is sound");
}

/// Regression: one error of `accept` ended the listener without a word, and new clients waited for ever. Here a socket
/// that was passed to the server is shut down and listens again.
#[test]
fn a_listener_accepts_clients_again_after_errors_of_the_operating_system() {
    use rustix::net::{Shutdown, listen, shutdown};
    let socket = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let mut limited = LimitedServer::start(ClientLimits::default());
    let passed = socket.try_clone().unwrap();
    let passed = BoundListener::inherited_tcp(passed, AllowedClients::Loopback).unwrap();
    limited.server.listen_for_nbd_clients_on(passed).unwrap();
    shutdown(&socket, Shutdown::Both).unwrap();
    // Time for the server to see the error. A server that is later than that passes without having seen one.
    std::thread::sleep(Duration::from_millis(200));
    listen(&socket, 16).unwrap();
    let mut client = TcpStream::connect(socket.local_addr().unwrap()).unwrap();
    client.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let mut greeting = [0; 8];
    client.read_exact(&mut greeting).expect("the server accepts the client");
    assert_eq!(&greeting, b"NBDMAGIC");
    limited.server.stop().expect("the engine is sound");
}

/// Regression: a server that ended removed the socket file at its path, even if another server had made it. No client
/// could reach that server then.
#[test]
fn a_server_that_ends_leaves_the_socket_file_of_its_successor() {
    let first = LimitedServer::start(ClientLimits::default());
    let (nbd, control) = (first.nbd_socket_path(), first.control_socket_path());
    std::fs::remove_file(&nbd).unwrap();
    let device = specification("page-map", 8 * MIB).build().expect("it fits");
    let mut second = Server::start(device, "drive", "");
    second.listen_for_nbd_clients(&ListenAddress::Unix(nbd.clone())).unwrap();
    first.server.stop().expect("the engine is sound");
    assert!(!control.exists(), "its own socket file is removed");
    let _client = Client::connect(&nbd).negotiated();
    second.stop().expect("the engine is sound");
    assert!(!nbd.exists());
}

/// A request that needs more memory than the whole limit is executed when no other request holds claimed memory.
#[test]
fn requests_larger_than_the_memory_limit_are_executed_one_at_a_time() {
    let limited =
        LimitedServer::start(ClientLimits { max_request_memory_bytes: 2 << 20, ..ClientLimits::default() });
    let writers: Vec<_> = (0..4_u8)
        .map(|number| {
            let mut client = limited.client();
            std::thread::spawn(move || {
                for _ in 0..5 {
                    client.write(u64::from(number) * 2 * MIB, &vec![number; 2 << 20]);
                    assert!(
                        client.read(u64::from(number) * 2 * MIB, 2 << 20).iter().all(|&byte| byte == number)
                    );
                }
            })
        })
        .collect();
    for writer in writers {
        writer.join().unwrap();
    }
    limited.server.stop().expect("the engine is sound");
}
