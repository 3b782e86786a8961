//! Tests of `serve` with TLS certificates.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// Path of the program `wearwell` that the tests start.
const WEARWELL: &str = env!("CARGO_BIN_EXE_wearwell");

/// Returns the path of a certificate or key file of the server's tests.
fn certificate_file(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../serve/tests/certificates").join(name)
}

/// Returns a command that starts a server of a device in memory with a certificate and its key.
fn serve_command() -> Command {
    let mut command = Command::new(WEARWELL);
    command.args(["serve", "--memory", "--size", "16MiB"]);
    command
        .arg("--tls-certificate")
        .arg(certificate_file("server.pem"))
        .arg("--tls-key")
        .arg(certificate_file("server.key"));
    command
}

/// The server's library has tests of what follows the TLS handshake. This test shows that the command requires a
/// handshake.
#[test]
fn a_server_with_certificates_refuses_clients_without_tls() {
    let mut command = serve_command();
    command.arg("--tls-client-ca").arg(certificate_file("authority.pem")).args(["--tcp", "0.0.0.0:0"]);
    let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
    let said = lines.into_iter().find(|line| line.contains("nbds://0.0.0.0:")).unwrap();
    let port = said.split("nbds://0.0.0.0:").nth(1).unwrap().split('/').next().unwrap();
    let mut stream = TcpStream::connect(format!("127.0.0.1:{port}")).unwrap();
    stream.read_exact(&mut [0; 18]).unwrap();
    stream.write_all(&3_u32.to_be_bytes()).unwrap();
    let mut answer = |option: u8| {
        stream.write_all(&[&b"IHAVEOPT\0\0\0"[..], &[option], &[0; 4]].concat()).unwrap();
        let mut head = [0; 20];
        stream.read_exact(&mut head).unwrap();
        let length = u32::from_be_bytes(head[16..].try_into().unwrap());
        stream.read_exact(&mut vec![0; length as usize]).unwrap();
        u32::from_be_bytes(head[12..16].try_into().unwrap())
    };
    assert_eq!(answer(3), (1 << 31) + 5, "a list needs TLS first");
    assert_eq!(answer(5), 1, "TLS is started");
    assert!(Command::new("kill").arg(child.id().to_string()).status().unwrap().success());
    assert!(child.wait().unwrap().success());
}

#[test]
fn mismatched_tls_certificates_are_refused_with_a_sentence() {
    let refused = |command: &mut Command, part: &str| {
        let output = command.output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(part), "`{part}` is missing in: {said}");
    };
    refused(serve_command().args(["--tcp", "0.0.0.0:0"]), "only loopback");
    refused(serve_command().args(["--tcp", "127.0.0.1:0", "--tls-client-ca", "/nowhere"]), "/nowhere");
    let mut without_key = Command::new(WEARWELL);
    without_key.args(["serve", "--memory", "--size", "16MiB", "--socket", "s", "--tls-certificate"]);
    refused(without_key.arg(certificate_file("server.pem")), "--tls-key");
}
