//! Tests of the log of `serve`: lines with time, level, connection and export, or lines that the journal of systemd
//! understands.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// Path of the program `wearwell` that the tests start.
const WEARWELL: &str = env!("CARGO_BIN_EXE_wearwell");

/// A server of a device in memory, with an export called `disk`.
struct Server {
    /// Process of the server.
    child: Child,
    /// Temporary folder that contains the NBD socket.
    folder: tempfile::TempDir,
}

impl Server {
    /// Starts a server with these additional arguments, and returns it when it accepts connections.
    fn start(arguments: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("nbd");
        let mut command = Command::new(WEARWELL);
        command.args(["serve", "--memory", "--size", "16MiB", "--export", "disk", "--socket"]).arg(&socket);
        let child = command.args(arguments).stderr(Stdio::piped()).spawn().unwrap();
        wait_for_server(&socket);
        Self { child, folder }
    }

    /// Connects to the NBD socket and reads the greeting of the server.
    fn connect(&self) -> UnixStream {
        let mut stream = UnixStream::connect(self.folder.path().join("nbd")).unwrap();
        stream.read_exact(&mut [0; 18]).unwrap();
        stream
    }

    /// Connects a client that chooses the export by the old option `EXPORT_NAME`.
    fn client(&self) -> UnixStream {
        let mut stream = self.connect();
        stream.write_all(b"\0\0\0\x03IHAVEOPT\0\0\0\x01\0\0\0\x04disk").unwrap();
        stream.read_exact(&mut [0; 10]).unwrap();
        stream
    }

    /// Ends the server and returns the lines of its log.
    fn stop_and_read_log_lines(self) -> Vec<String> {
        assert!(Command::new("kill").arg(self.child.id().to_string()).status().unwrap().success());
        let output = self.child.wait_with_output().unwrap();
        assert!(output.status.success());
        String::from_utf8(output.stderr).unwrap().lines().map(str::to_owned).collect()
    }
}

/// Waits until a server accepts connections on this Unix socket.
fn wait_for_server(socket: &Path) {
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(30);
    while UnixStream::connect(socket).is_err() {
        assert!(std::time::Instant::now() < deadline, "nobody listens at {}", socket.display());
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

/// Connects a client that disconnects properly, and a client that sends bytes that are no request. Waits until both
/// connections have ended.
fn connect_good_and_bad_client(server: &Server) {
    let goodbye = b"\x25\x60\x95\x13\0\0\0\x02\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0";
    for bytes in [&goodbye[..], &[7; 28]] {
        let mut client = server.client();
        client.write_all(bytes).unwrap();
        assert_eq!(client.read(&mut [0]).unwrap(), 0, "the server hangs up");
    }
}

/// Returns the only line that contains `part`, and fails if there is none or several.
#[track_caller]
fn only_line_containing<'a>(lines: &'a [String], part: &str) -> &'a str {
    let found: Vec<_> = lines.iter().filter(|line| line.contains(part)).collect();
    assert_eq!(found.len(), 1, "`{part}` in {lines:#?}");
    found[0]
}

/// Returns whether a line begins with a time such as `2026-01-02T03:04:05.678901Z`.
fn begins_with_a_time(line: &str) -> bool {
    let shape = |byte: u8| if byte.is_ascii_digit() { '0' } else { byte as char };
    let time: String = line.bytes().take(27).map(shape).collect();
    time == "0000-00-00T00:00:00.000000Z"
}

#[test]
fn a_server_log_line_has_time_level_connection_export_and_message() {
    let server = Server::start(&[]);
    connect_good_and_bad_client(&server);
    let lines = server.stop_and_read_log_lines();
    assert!(lines.iter().all(|line| begins_with_a_time(line)), "{lines:#?}");
    only_line_containing(&lines, "  INFO serving page-map, 16 MiB at nbd+unix:///disk?socket=");
    let goodbye = only_line_containing(&lines, "the client disconnected");
    assert!(goodbye.contains("  INFO connection{number="), "{goodbye}");
    let nonsense = only_line_containing(
        &lines,
        "the client sent bytes that are no NBD request, so the server closed the connection",
    );
    assert!(nonsense.contains("  WARN connection{number="), "{nonsense}");
    assert!(nonsense.contains("export=\"disk\"}: the client sent"), "{nonsense}");
    let number = |line: &str| line.split("number=").nth(1).unwrap().split(' ').next().unwrap().to_owned();
    assert_ne!(number(goodbye), number(nonsense), "each connection has a number of its own");
}

#[test]
fn log_lines_to_the_systemd_journal_begin_with_their_level() {
    let server = Server::start(&["--log-format", "journal", "--log-level", "debug"]);
    connect_good_and_bad_client(&server);
    let lines = server.stop_and_read_log_lines();
    assert!(only_line_containing(&lines, "serving page-map").starts_with("<6>serving page-map"));
    assert!(
        only_line_containing(&lines, "sent bytes that are no NBD request")
            .starts_with("<4>connection{number=")
    );
    assert!(lines.iter().any(|line| line.starts_with("<7>connection{")), "{lines:#?}");
}

#[test]
fn standard_error_connected_to_the_systemd_journal_is_recognised() {
    use std::os::unix::fs::MetadataExt as _;
    let folder = tempfile::tempdir().unwrap();
    let (log, other) = (folder.path().join("log"), folder.path().join("other"));
    let stderr = std::fs::File::create(&log).unwrap();
    let identity = |path: &Path| {
        let metadata = std::fs::metadata(path).unwrap();
        format!("{}:{}", metadata.dev(), metadata.ino())
    };
    std::fs::write(&other, "").unwrap();
    for (stream, prefix) in [(identity(&log), "<3>"), (identity(&other), "wearwell: ")] {
        let mut command = Command::new(WEARWELL);
        command.args(["serve", "--image", "/nowhere", "--socket", "s"]).env("JOURNAL_STREAM", stream);
        let status = command.stderr(stderr.try_clone().unwrap()).status().unwrap();
        assert_eq!(status.code(), Some(2));
        let said = std::fs::read_to_string(&log).unwrap();
        let last = said.lines().last().unwrap();
        assert!(last.starts_with(prefix) && last.contains("/nowhere"), "{said}");
    }
    let said = std::fs::read_to_string(&log).unwrap();
    assert_eq!(said.lines().count(), 2, "a failure is told once: {said}");
}

#[test]
fn the_log_level_suppresses_less_important_events() {
    let server = Server::start(&["--log-level", "warn"]);
    connect_good_and_bad_client(&server);
    let lines = server.stop_and_read_log_lines();
    assert_eq!(lines.len(), 1, "{lines:#?}");
    assert!(lines[0].contains("  WARN connection{number="), "{lines:#?}");
    for silent in [&["--quiet"][..], &["--log-level", "off"]] {
        let server = Server::start(silent);
        connect_good_and_bad_client(&server);
        assert_eq!(server.stop_and_read_log_lines(), Vec::<String>::new());
    }
}

/// The server continues after the reader of its log has closed the pipe.
#[test]
fn a_closed_log_output_does_not_end_the_server() {
    let mut server = Server::start(&["--log-level", "debug"]);
    drop(server.child.stderr.take());
    connect_good_and_bad_client(&server);
    let mut client = server.client();
    drop(client.write_all(&[7; 28]));
    assert_eq!(server.stop_and_read_log_lines(), Vec::<String>::new(), "it ends in order");
}

#[test]
fn a_refused_request_is_logged_at_debug_level() {
    let server = Server::start(&["--log-level", "debug"]);
    let mut client = server.client();
    // A read beyond the end.
    let request = b"\x25\x60\x95\x13\0\0\0\0\0\0\0\0\0\0\0\x09\0\0\0\0\xff\0\0\0\0\0\x10\0";
    client.write_all(request).unwrap();
    let mut reply = [0; 16];
    client.read_exact(&mut reply).unwrap();
    assert_eq!(reply[4..8], [0, 0, 0, 22], "EINVAL");
    drop(client);
    let lines = server.stop_and_read_log_lines();
    let refusal = only_line_containing(
        &lines,
        "a request is refused: the range of 4096 bytes from byte 4278190080 on reaches beyond",
    );
    assert!(refusal.contains(" DEBUG ") && refusal.contains("export=\"disk\""), "{refusal}");
    assert!(refusal.contains("connection{number=") && refusal.ends_with("errno=22"), "{refusal}");
}

#[test]
fn serve_options_set_the_limits_of_a_server() {
    let server = Server::start(&[
        "--max-connections",
        "1",
        "--limit-iops",
        "1",
        "--max-memory",
        "1MiB",
        "--limit-mb-per-s",
        "1",
    ]);
    // The connection of whoever waited for the socket may still be open.
    let mut client = loop {
        let mut stream = UnixStream::connect(server.folder.path().join("nbd")).unwrap();
        if stream.read(&mut [0; 18]).unwrap() == 18 {
            break stream;
        }
    };
    let mut second = UnixStream::connect(server.folder.path().join("nbd")).unwrap();
    assert_eq!(second.read(&mut [0; 18]).unwrap(), 0, "a second client is turned away");
    client.write_all(b"\0\0\0\x03").unwrap();
    drop(client);
    let lines = server.stop_and_read_log_lines();
    assert!(
        lines
            .iter()
            .any(|line| line.contains(" WARN ")
                && line.contains("this socket has 1 connected client, its limit")),
        "{lines:#?}"
    );
    for wrong in [
        ["--max-connections", "0"],
        ["--limit-iops", "0"],
        ["--limit-mb-per-s", "x"],
        ["--max-memory", "1GB"],
    ] {
        let mut command = Command::new(WEARWELL);
        command.args(["serve", "--memory", "--size", "16MiB", "--socket", "s"]).args(wrong);
        assert_eq!(command.output().unwrap().status.code(), Some(2), "{wrong:?}");
    }
}

#[test]
fn a_logged_event_is_one_line_with_its_level_prefix() {
    let mut written = Vec::new();
    let mut line = wearwell_cli::LinePrefixWriter { prefix: "<4>", destination: &mut written };
    line.write_all(b"first\n<0>second\n").unwrap();
    assert_eq!(written, b"<4>first\\n<0>second\n");
}
