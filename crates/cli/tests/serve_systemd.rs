//! Tests of `serve` under systemd: sockets that systemd passes, states that the server reports, and the example unit
//! files.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixListener, UnixStream};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

/// Path of the program `wearwell` that the tests start.
const WEARWELL: &str = env!("CARGO_BIN_EXE_wearwell");
/// Arguments by which the server takes over the sockets of systemd.
const SERVE: [&str; 5] = ["serve", "--memory", "--size", "16MiB", "--socket-activation"];
/// Longest time for which a test waits for a message of the server.
const WAIT_LIMIT: Duration = Duration::from_secs(30);

/// Returns a command that is started as systemd starts a service: the sockets are its file descriptors from 3 on, and
/// environment variables describe them. A shell gets the sockets as standard input and output (0 and 1), moves them to
/// 3 and 4, and then executes the command.
fn command_with_sockets(sockets: Vec<OwnedFd>, names: &str, pid: &str) -> Command {
    let script = format!(
        "exec 3<&0 4<&1 </dev/null >&2; export LISTEN_PID={pid} LISTEN_FDS={} LISTEN_FDNAMES={names}; exec \"$@\"",
        sockets.len()
    );
    let mut command = Command::new("bash");
    command.args(["-c", &script, "bash", WEARWELL]).stderr(Stdio::piped());
    let mut sockets = sockets.into_iter().map(Stdio::from);
    command.stdin(sockets.next().unwrap_or_else(Stdio::null));
    command.stdout(sockets.next().unwrap_or_else(Stdio::null));
    command
}

/// Socket on which the test receives the states that a server reports to systemd.
struct Notifications(UnixDatagram);

impl Notifications {
    /// Binds a datagram socket at this path.
    fn at(path: &Path) -> Self {
        Self::of_bound_socket(UnixDatagram::bind(path).unwrap())
    }

    /// Creates the receiver of notifications from a bound datagram socket, and limits the time that a test waits for
    /// one.
    fn of_bound_socket(socket: UnixDatagram) -> Self {
        socket.set_read_timeout(Some(WAIT_LIMIT)).unwrap();
        Self(socket)
    }

    /// Waits for the next systemd message that contains a line, and returns it.
    fn wait_for(&self, line: &str) -> String {
        loop {
            let mut bytes = [0; 4096];
            let count = self.0.recv(&mut bytes).expect("the server reports in time");
            let message = String::from_utf8(bytes[..count].to_vec()).unwrap();
            if message.lines().any(|found| found == line) {
                return message;
            }
        }
    }
}

/// Returns the number of bytes of an export, which is chosen by the old option `EXPORT_NAME`.
fn exported_bytes(stream: &mut (impl std::io::Read + std::io::Write)) -> u64 {
    stream.read_exact(&mut [0; 18]).unwrap();
    stream.write_all(b"\0\0\0\x03IHAVEOPT\0\0\0\x01\0\0\0\0").unwrap();
    let mut export = [0; 10];
    stream.read_exact(&mut export).unwrap();
    u64::from_be_bytes(export[..8].try_into().unwrap())
}

/// Sends SIGTERM to a server, and returns its output when it has ended.
fn end_server(child: Child) -> Output {
    assert!(Command::new("kill").arg(child.id().to_string()).status().unwrap().success());
    child.wait_with_output().unwrap()
}

/// Returns bytes as text.
fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn socket_activation_serves_early_clients_and_keeps_the_socket() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("nbd");
    let listener = UnixListener::bind(&path).unwrap();
    let notifications = Notifications::at(&folder.path().join("notify"));
    for _ in 0..2 {
        let mut early = UnixStream::connect(&path).unwrap();
        let mut command =
            command_with_sockets(vec![listener.try_clone().unwrap().into()], "wearwell.socket", "$$");
        let child = command.args(SERVE).env("NOTIFY_SOCKET", folder.path().join("notify")).spawn().unwrap();
        let ready = notifications.wait_for("READY=1");
        assert!(ready.contains("STATUS=serving page-map, 16 MiB"), "{ready}");
        assert_eq!(exported_bytes(&mut early), 16 << 20);
        let output = end_server(child);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        let stopping = notifications.wait_for("STOPPING=1");
        assert!(stopping.contains("STATUS=answering what has arrived"), "{stopping}");
        assert_eq!(early.read(&mut [0]).unwrap(), 0, "the client is hung up on");
    }
    UnixStream::connect(&path).unwrap();
    listener.accept().expect("the socket listens, for the next server");
}

#[test]
fn systemd_socket_names_select_the_protocol_also_over_tcp() {
    let folder = tempfile::tempdir().unwrap();
    let control = UnixListener::bind(folder.path().join("control")).unwrap();
    let nbd = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = nbd.local_addr().unwrap();
    let name = format!("wearwell-test-{}", std::process::id());
    let abstract_address = SocketAddr::from_abstract_name(&name).unwrap();
    let notifications = Notifications::of_bound_socket(UnixDatagram::bind_addr(&abstract_address).unwrap());
    let mut command = command_with_sockets(vec![control.into(), nbd.into()], "control:nbd", "$$");
    let child = command.args(SERVE).env("NOTIFY_SOCKET", format!("@{name}")).spawn().unwrap();
    notifications.wait_for("READY=1");
    assert_eq!(exported_bytes(&mut TcpStream::connect(address).unwrap()), 16 << 20);
    let mut stream = UnixStream::connect(folder.path().join("control")).unwrap();
    stream.write_all(b"{\"command\": \"flush\"}\n").unwrap();
    let mut answer = [0; 64];
    let count = stream.read(&mut answer).unwrap();
    assert_eq!(text(&answer[..count]), "{\"ok\":true}\n");
    let output = end_server(child);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    notifications.wait_for("STOPPING=1");
}

#[test]
fn unusable_systemd_sockets_are_refused_with_a_sentence() {
    let folder = tempfile::tempdir().unwrap();
    let unix = |name: &str| OwnedFd::from(UnixListener::bind(folder.path().join(name)).unwrap());
    let (connected, _other) = UnixStream::pair().unwrap();
    let everywhere = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)).unwrap();
    let datagrams = UnixDatagram::bind(folder.path().join("datagrams")).unwrap();
    let refused = [
        (vec![], "", "$$", "systemd passed no socket for NBD"),
        (vec![unix("a")], "nbd", "1", "systemd passed no socket for NBD"),
        (vec![unix("b")], "control", "$$", "systemd passed no socket for NBD"),
        (vec![unix("c")], "contrl", "$$", "a socket with the unknown name `contrl`"),
        (vec![connected.into()], "nbd", "$$", "Accept=no"),
        (vec![everywhere.into()], "nbd", "$$", "only loopback"),
        (vec![datagrams.into()], "nbd", "$$", "ListenStream="),
    ];
    for (sockets, names, pid, sentence) in refused {
        let output = command_with_sockets(sockets, names, pid).args(SERVE).output().unwrap();
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{sentence}: {said}");
        assert!(said.contains(sentence), "`{sentence}` is missing in: {said}");
    }
}

/// systemd verifies the example units, with the command of this build in place of the installed one.
#[test]
fn systemd_accepts_the_example_units() {
    if Command::new("systemd-analyze").arg("--version").output().is_err() {
        println!("systemd-analyze is not installed: the units are not verified");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let examples = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/live"));
    let verify = |change: &dyn Fn(String) -> String| {
        let units = ["wearwell.socket", "wearwell.service"].map(|name| {
            let unit = std::fs::read_to_string(examples.join(name)).unwrap();
            let unit = change(unit.replace("/usr/local/bin/wearwell", WEARWELL));
            std::fs::write(folder.path().join(name), unit).unwrap();
            folder.path().join(name)
        });
        let output = Command::new("systemd-analyze").arg("verify").args(units).output().unwrap();
        (output.status.success(), text(&output.stderr))
    };
    let (is_sound, said) = verify(&|unit| unit);
    assert!(is_sound && !said.contains("wearwell"), "{said}");
    let (_, said) = verify(&|unit| unit.replace("Type=notify", "Tpe=notify"));
    assert!(said.contains("Tpe"), "a wrong key is found: {said}");
}

/// The command line in the example unit must be one that the server accepts.
#[test]
fn the_command_of_the_example_systemd_unit_serves_an_image() {
    let unit = include_str!("../../../examples/live/wearwell.service");
    let line = unit.lines().find_map(|line| line.strip_prefix("ExecStart=")).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let here = |word: &str| match word {
        "/var/lib/wearwell/image" => folder.path().join("image").display().to_string(),
        "/run/wearwell/control.sock" => folder.path().join("control").display().to_string(),
        word => word.to_owned(),
    };
    let arguments: Vec<String> = line.split(' ').skip(1).map(here).collect();
    let image = folder.path().join("image");
    let created = Command::new(WEARWELL).args(["create", "--size", "16MiB"]).arg(&image).status().unwrap();
    assert!(created.success());
    let path = folder.path().join("nbd");
    let listener = UnixListener::bind(&path).unwrap();
    let notifications = Notifications::at(&folder.path().join("notify"));
    let mut command = command_with_sockets(vec![listener.into()], "nbd", "$$");
    let child = command.args(&arguments).env("NOTIFY_SOCKET", folder.path().join("notify")).spawn().unwrap();
    let opening = format!("STATUS=opening {}", image.display());
    notifications.wait_for(&opening);
    notifications.wait_for("READY=1");
    assert_eq!(exported_bytes(&mut UnixStream::connect(&path).unwrap()), 16 << 20);
    let output = end_server(child);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
}
