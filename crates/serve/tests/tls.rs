//! Tests of TLS: encrypted clients are served like others, nothing that was sent before the TLS handshake counts, and
//! clients prove who they are.

use crate::common;

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use common::client::*;
use common::{MIB, Random, specification};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use wearwell_serve::{BoundListener, FlashDevice, ListenAddress, Server, TlsConfig};

/// Type of the option reply that asks the client to start TLS first.
const ERR_TLS_REQD: u32 = (1 << 31) + 5;

/// Returns the path of a test certificate or key. `authority` signed the certificates `server` and `client`; another
/// authority signed `stranger`.
fn certificate_file_path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/certificates").join(name)
}

/// Makes the TLS configuration of the server from the test certificates.
fn tls(requires_client_certificate: bool) -> TlsConfig {
    let signer = certificate_file_path("authority.pem");
    TlsConfig::from_files(
        &certificate_file_path("server.pem"),
        &certificate_file_path("server.key"),
        requires_client_certificate.then_some(&*signer),
    )
    .expect("the files are certificates")
}

/// A server with TLS and one drive of 16 MiB, on a Unix socket and a TCP port.
struct TlsServer {
    /// The running server.
    server: Server<FlashDevice>,
    /// TCP address of the server.
    tcp_address: std::net::SocketAddr,
    /// Directory with the Unix socket.
    folder: tempfile::TempDir,
}

impl TlsServer {
    /// Starts the server, with or without the requirement of client certificates.
    fn start(requires_client_certificate: bool) -> Self {
        let device = specification("page-map", 16 * MIB).build().expect("it fits");
        let folder = tempfile::tempdir().unwrap();
        let mut server = Server::start(device, "drive", "");
        server.offer_tls(tls(requires_client_certificate));
        server.listen_for_nbd_clients(&ListenAddress::Unix(folder.path().join("nbd"))).unwrap();
        let any = BoundListener::listen_beyond_loopback("127.0.0.1:0".parse().unwrap()).unwrap();
        let Ok(ListenAddress::Tcp(tcp_address)) = server.listen_for_nbd_clients_on(any) else {
            panic!("a port is free")
        };
        Self { server, tcp_address, folder }
    }

    /// Connects a client without TLS to the Unix socket.
    fn connect_without_tls(&self) -> Client {
        let mut client = Client::connect(&self.folder.path().join("nbd"));
        client.send(&3_u32.to_be_bytes());
        client
    }

    /// Connects a client without TLS to the TCP port.
    fn connect_tcp_without_tls(&self) -> Client<TcpStream> {
        let stream = TcpStream::connect(self.tcp_address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        let mut client = Client::over(stream);
        assert_eq!(client.receive_bytes(18), b"NBDMAGICIHAVEOPT\x00\x03");
        client.send(&3_u32.to_be_bytes());
        client
    }
}

/// Makes the TLS configuration of a client that shows the certificate of this name, or none.
fn config(certificate: Option<&str>) -> ClientConfig {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(certificate_file_path("authority.pem")).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder =
        ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let builder = builder.with_root_certificates(roots);
    match certificate {
        None => builder.with_no_client_auth(),
        Some(name) => {
            let chain =
                vec![CertificateDer::from_pem_file(certificate_file_path(&format!("{name}.pem"))).unwrap()];
            let key = PrivateKeyDer::from_pem_file(certificate_file_path(&format!("{name}.key"))).unwrap();
            builder.with_client_auth_cert(chain, key).unwrap()
        }
    }
}

/// A client whose connection is encrypted by TLS.
type TlsClient<S> = Client<StreamOwned<ClientConnection, S>>;

/// Starts TLS on the connection of a client, which shows the certificate of this name, if one is given. All later
/// traffic is encrypted.
fn encrypt<S: std::io::Read + std::io::Write>(
    mut client: Client<S>,
    certificate: Option<&str>,
) -> TlsClient<S> {
    assert_eq!(client.send_option(NBD_OPT_STARTTLS, &[]), [(REP_ACK, vec![])]);
    let name = ServerName::try_from("localhost").unwrap();
    let connection = ClientConnection::new(Arc::new(config(certificate)), name).unwrap();
    Client::over(StreamOwned::new(connection, client.stream))
}

#[test]
fn a_tls_client_is_served_like_an_unencrypted_one() {
    let secure = TlsServer::start(false);
    let mut client = encrypt(secure.connect_without_tls(), None);
    client.negotiate_after_handshake_flags();
    let mut random = Random::new(1);
    let bytes = random.bytes(8 << 20);
    client.write(0, &bytes);
    assert!(client.read(0, 8 << 20) == bytes);
    assert_eq!(client.request_block_status(0, 16 << 20, 0).len(), 2);
    // Replies and requests pass each other, also if the client takes no reply before it has sent all.
    let cookies: Vec<u64> = (0..2000)
        .map(|page| {
            if page % 2 == 0 {
                client.request(NBD_CMD_WRITE, 0, (8 << 20) + page * 4096, 4096, &bytes[..4096])
            } else {
                client.request(NBD_CMD_READ, 0, page * 4096, 4096, &[])
            }
        })
        .collect();
    for (page, cookie) in cookies.into_iter().enumerate() {
        let reply = client.receive_reply();
        assert_eq!((reply.cookie, reply.errno), (cookie, 0));
        assert!(page % 2 == 0 || reply.data == bytes[page * 4096..(page + 1) * 4096], "{page}");
    }
    let mut tcp = encrypt(secure.connect_tcp_without_tls(), None);
    tcp.negotiate_after_handshake_flags();
    assert!(tcp.read(0, 1 << 20) == bytes[..1 << 20]);
    // The end of the connection is told, so nobody can cut it off unseen.
    tcp.send(&compact_request_header_bytes(2, 0, 0, 0, 0));
    assert_eq!(tcp.stream.read(&mut [0]).expect("the server says goodbye"), 0);
    secure.server.stop().expect("the engine is sound");
}

#[test]
fn tls_is_offered_on_a_socket_file_and_required_over_tcp() {
    let secure = TlsServer::start(false);
    let mut client = secure.connect_without_tls();
    client.negotiate_after_handshake_flags();
    client.write(0, &[1; 4096]);
    let mut client = secure.connect_tcp_without_tls();
    for (number, data) in [
        (NBD_OPT_LIST, vec![]),
        (NBD_OPT_INFO, info_request("drive", &[])),
        (NBD_OPT_GO, info_request("drive", &[])),
        (NBD_OPT_STRUCTURED_REPLY, vec![]),
        (NBD_OPT_SET_META_CONTEXT, context_option_data("drive", &[ALLOCATION_CONTEXT])),
    ] {
        let replies = client.send_option(number, &data);
        assert_eq!(
            replies.iter().map(|reply| reply.0).collect::<Vec<_>>(),
            [ERR_TLS_REQD],
            "option {number}"
        );
    }
    assert_eq!(client.send_option(NBD_OPT_ABORT, &[]), [(REP_ACK, vec![])]);
    let mut client = secure.connect_tcp_without_tls();
    client.send(&option_bytes(NBD_OPT_EXPORT_NAME, b"drive"));
    assert_eq!(client.stream.read(&mut [0]).unwrap(), 0, "the oldest option cannot refuse");
    secure.server.stop().expect("the engine is sound");
}

/// An attacker between client and server could insert options before the TLS handshake.
#[test]
fn nbd_options_sent_before_the_tls_handshake_are_discarded() {
    let secure = TlsServer::start(false);
    let mut client = secure.connect_without_tls();
    assert_eq!(client.send_option(NBD_OPT_STRUCTURED_REPLY, &[]), [(REP_ACK, vec![])]);
    let mut client = encrypt(client, None);
    let refused =
        client.send_option(NBD_OPT_SET_META_CONTEXT, &context_option_data("drive", &[ALLOCATION_CONTEXT]));
    assert_eq!(refused[0].0, ERR_INVALID, "structured replies have to be agreed on again");
    assert_eq!(client.send_option(NBD_OPT_STARTTLS, &[])[0].0, ERR_INVALID, "it is encrypted already");
    client.negotiate_after_handshake_flags();
    client.write(0, &[1; 4096]);

    let mut client = secure.connect_without_tls();
    client.send(&[option_bytes(NBD_OPT_STARTTLS, &[]), option_bytes(NBD_OPT_LIST, &[])].concat());
    assert_eq!(client.receive_option_replies(NBD_OPT_STARTTLS), [(REP_ACK, vec![])]);
    assert!(client.is_closed(), "an option behind it is not answered");
    let mut client = secure.connect_without_tls();
    assert_eq!(client.send_option(NBD_OPT_STARTTLS, b"x")[0].0, ERR_INVALID);
    assert_eq!(client.send_option(NBD_OPT_STARTTLS, &[]), [(REP_ACK, vec![])]);
    client.send(&[7; 100]);
    let mut rest = Vec::new();
    let _ = client.stream.read_to_end(&mut rest);
    assert!(rest.len() < 100, "who does not shake hands gets an alert at the most: {rest:?}");
    secure.server.stop().expect("the engine is sound");
}

#[test]
fn tls_clients_without_a_required_certificate_are_refused() {
    let secure = TlsServer::start(true);
    let mut client = encrypt(secure.connect_tcp_without_tls(), Some("client"));
    client.negotiate_after_handshake_flags();
    client.write(0, &[1; 4096]);
    for certificate in [None, Some("stranger")] {
        let mut client = encrypt(secure.connect_tcp_without_tls(), certificate);
        // The client's side of the handshake ends first, so an option may be sent, but it is not answered.
        let sent = client.stream.write_all(&option_bytes(NBD_OPT_LIST, &[]));
        let answered = sent.and_then(|()| client.stream.read(&mut [0; 16]));
        assert!(answered.is_err(), "{certificate:?}: {answered:?}");
    }
    secure.server.stop().expect("the engine is sound");
}

#[test]
fn files_without_valid_certificates_are_refused_with_a_sentence() {
    let folder = tempfile::tempdir().unwrap();
    let empty = folder.path().join("empty.pem");
    std::fs::write(&empty, "").unwrap();
    let nowhere = folder.path().join("nowhere.pem");
    for (certificate, key, signer, part) in [
        (&nowhere, &certificate_file_path("server.key"), None, "nowhere.pem"),
        (&empty, &certificate_file_path("server.key"), None, "there is no certificate in it"),
        (
            &certificate_file_path("server.pem"),
            &certificate_file_path("server.pem"),
            None,
            "this file must hold a private key",
        ),
        (
            &certificate_file_path("server.pem"),
            &certificate_file_path("client.key"),
            None,
            "its key cannot be used together",
        ),
        (
            &certificate_file_path("server.pem"),
            &certificate_file_path("server.key"),
            Some(&*empty),
            "there is no certificate in it",
        ),
    ] {
        let error = TlsConfig::from_files(certificate, key, signer).expect_err("it is refused").to_string();
        assert!(error.contains(part), "`{part}` is missing in: {error}");
    }
}

/// One client never begins the TLS handshake, and another disconnects in the middle of it.
#[test]
fn silent_and_vanishing_tls_clients_delay_no_other_client() {
    let secure = TlsServer::start(false);
    let silent: Vec<Client> = (0..50)
        .map(|_| {
            let mut client = secure.connect_without_tls();
            assert_eq!(client.send_option(NBD_OPT_STARTTLS, &[]), [(REP_ACK, vec![])]);
            client
        })
        .collect();
    for _ in 0..20 {
        let mut vanishing = encrypt(secure.connect_without_tls(), None);
        vanishing.negotiate_after_handshake_flags();
        let request = compact_request_header_bytes(NBD_CMD_WRITE, 0, 9, 0, 1 << 20);
        vanishing.send(&[&request[..], &[3; 1000]].concat());
        let stream: UnixStream = vanishing.stream.sock;
        drop(stream);
    }
    let mut good = encrypt(secure.connect_without_tls(), None);
    good.negotiate_after_handshake_flags();
    good.write(0, &[5; 8192]);
    assert_eq!(good.read(0, 8192), [5; 8192]);
    drop((good, silent));
    secure.server.stop().expect("the engine is sound");
}
