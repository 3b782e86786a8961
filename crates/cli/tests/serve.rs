//! Tests of the commands `serve` and `top`: start, end, printed addresses, recording and refused options.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use wearwell_serve::ignored_signals::is_signal_ignored;

/// Path of the program `wearwell` that the tests start.
const WEARWELL: &str = env!("CARGO_BIN_EXE_wearwell");
/// Bytes of a page of the served device.
const PAGE_BYTES: usize = 4096;

/// A running server of a device in memory, with its sockets in a temporary folder.
struct Server {
    /// Process of the server.
    child: Child,
    /// Temporary folder that contains the sockets.
    folder: tempfile::TempDir,
}

/// Waits until a server accepts connections on the Unix socket at this path.
fn wait_for_server(path: &Path) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while UnixStream::connect(path).is_err() {
        assert!(Instant::now() < deadline, "nobody listens at {}", path.display());
        std::thread::sleep(Duration::from_millis(20));
    }
}

impl Server {
    /// Starts a server that serves a device of 16 MiB in memory.
    fn start(arguments: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut command = Command::new(WEARWELL);
        command.args(["serve", "--memory", "--size", "16MiB"]).args(arguments).stderr(Stdio::piped());
        command.arg("--socket").arg(folder.path().join("nbd"));
        command.arg("--control").arg(folder.path().join("control"));
        command.current_dir(folder.path());
        let server = Self { child: command.spawn().unwrap(), folder };
        wait_for_server(&server.file("nbd"));
        server
    }

    /// Returns the path of a file or socket in the temporary folder.
    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Connects a client that chooses the export by the old option `EXPORT_NAME`.
    fn client(&self) -> UnixStream {
        let mut stream = UnixStream::connect(self.file("nbd")).unwrap();
        choose_export(&mut stream);
        stream
    }

    /// Sends a signal (an option of `kill`, such as `-INT`) to the server, and returns its output and the folder when
    /// it has ended.
    fn end_with_signal(mut self, signal: &str) -> (Output, tempfile::TempDir) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args([signal, &pid]).status().unwrap().success());
        let deadline = Instant::now() + Duration::from_secs(30);
        while self.child.try_wait().unwrap().is_none() {
            assert!(Instant::now() < deadline, "the server does not end");
            std::thread::sleep(Duration::from_millis(20));
        }
        (self.child.wait_with_output().unwrap(), self.folder)
    }
}

/// Chooses the default export by the old NBD option `EXPORT_NAME`, and checks its size of 16 MiB.
fn choose_export(stream: &mut (impl std::io::Read + std::io::Write)) {
    let mut greeting = [0; 18];
    stream.read_exact(&mut greeting).unwrap();
    stream.write_all(b"\0\0\0\x03IHAVEOPT\0\0\0\x01\0\0\0\0").unwrap();
    let mut export = [0; 10];
    stream.read_exact(&mut export).unwrap();
    assert_eq!(export[..8], (16_u64 << 20).to_be_bytes());
}

/// Writes bytes at the start of a page over NBD, and checks that the write succeeds.
fn write_page(stream: &mut UnixStream, page: u64, bytes: &[u8]) {
    let head = [0x25, 0x60, 0x95, 0x13, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 7];
    let offset = (page * PAGE_BYTES as u64).to_be_bytes();
    stream.write_all(&[&head[..], &offset, &(bytes.len() as u32).to_be_bytes(), bytes].concat()).unwrap();
    let mut reply = [0; 16];
    stream.read_exact(&mut reply).unwrap();
    assert_eq!(reply, *b"\x67\x44\x66\x98\0\0\0\0\0\0\0\0\0\0\0\x07");
}

/// Returns bytes, which must be UTF-8, as text.
fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[test]
fn sigint_sigterm_and_sighup_end_a_server_in_order_and_remove_its_sockets() {
    // A server that inherits an ignored SIGHUP, because `nohup` started the tests, keeps ignoring it: see the next test.
    let sighup = (!is_signal_ignored(1)).then_some("-HUP");
    for signal in ["-TERM", "-INT"].into_iter().chain(sighup) {
        let server = Server::start(&[]);
        let mut client = server.client();
        write_page(&mut client, 3, &[7; PAGE_BYTES]);
        let (output, folder) = server.end_with_signal(signal);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        assert!(text(&output.stderr).contains("serving page-map, 16 MiB at nbd+unix:///wearwell?socket="));
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "nothing is left");
        assert_eq!(client.read(&mut [0; 1]).unwrap(), 0, "the client is hung up on");
    }
}

/// Bug: the server replaced the ignored SIGHUP by a handler, so that it ended with its terminal although `nohup` had
/// started it.
#[test]
fn a_server_that_is_started_with_sighup_ignored_survives_it() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("nbd");
    let mut command = Command::new("bash");
    command.args(["-c", "trap '' HUP; exec \"$@\"", "bash", WEARWELL]);
    command.args(["serve", "--memory", "--size", "16MiB", "--quiet", "--socket"]).arg(&socket);
    let server = Server { child: command.spawn().unwrap(), folder };
    wait_for_server(&socket);
    assert!(Command::new("kill").args(["-HUP", &server.child.id().to_string()]).status().unwrap().success());
    std::thread::sleep(Duration::from_millis(300));
    write_page(&mut server.client(), 3, &[7; PAGE_BYTES]);
    assert_eq!(server.end_with_signal("-TERM").0.status.code(), Some(0));
}

/// Regression: names and paths were printed as they are, so that no client could connect to the printed address.
#[test]
fn the_printed_address_of_a_server_is_a_percent_encoded_uri() {
    let folder = tempfile::Builder::new().prefix("a b?").tempdir().unwrap();
    let socket = folder.path().join("n&d");
    let mut command = Command::new(WEARWELL);
    command
        .args(["serve", "--memory", "--size", "16MiB", "--export", "my disk/\u{e4}", "--socket"])
        .arg(&socket);
    let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
    wait_for_server(&socket);
    assert!(Command::new("kill").arg(child.id().to_string()).status().unwrap().success());
    let mut said = String::new();
    child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert!(child.wait().unwrap().success(), "{said}");
    let path = socket.to_str().unwrap().replace(' ', "%20").replace('?', "%3F").replace('&', "%26");
    let uri = format!("nbd+unix:///my%20disk%2F%C3%A4?socket={path}\n");
    assert!(said.contains(&uri), "{said}");
}

/// Regression: a message that could not be written to standard error ended the command in a panic, with status 101.
#[test]
fn a_broken_standard_error_changes_no_exit_status() {
    let full = || Stdio::from(std::fs::File::options().write(true).open("/dev/full").unwrap());
    let pipe = || {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        Stdio::from(writer)
    };
    let status = |arguments: &[&str], stderr: Stdio| {
        Command::new(WEARWELL).args(arguments).stderr(stderr).status().unwrap().code()
    };
    for arguments in [["check", "/nowhere"], ["upgrade", "/nowhere"]] {
        let expected = if arguments[0] == "check" { 3 } else { 2 };
        assert_eq!(status(&arguments, full()), Some(expected), "{arguments:?}");
        assert_eq!(status(&arguments, pipe()), Some(expected), "{arguments:?}");
    }
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    std::fs::write(
        path("trace.csv"),
        "time_ns,op,offset_bytes,len_bytes,device,fingerprints,source_bytes\n0,W,0,4096,0,,\n",
    )
    .unwrap();
    let convert = ["trace", "convert", &path("trace.csv"), &path("trace.wwt")];
    assert_eq!(status(&convert, full()), Some(0), "it says how many requests it converted");
    let mut server = Command::new(WEARWELL);
    server.args(["serve", "--memory", "--size", "16MiB", "--socket", &path("nbd")]).stderr(full());
    let mut server = server.spawn().unwrap();
    wait_for_server(Path::new(&path("nbd")));
    choose_export(&mut UnixStream::connect(path("nbd")).unwrap());
    assert!(Command::new("kill").arg(server.id().to_string()).status().unwrap().success());
    assert_eq!(server.wait().unwrap().code(), Some(0));
}

#[test]
fn a_server_on_a_local_port_prints_its_address() {
    let mut server = Server::start(&["--tcp", "127.0.0.1:0"]);
    let mut said = String::new();
    let mut stderr = server.child.stderr.take().unwrap();
    while !said.contains("nbd://127.0.0.1:") || !said.ends_with('\n') {
        let mut bytes = [0; 256];
        let count = stderr.read(&mut bytes).unwrap();
        assert!(count > 0, "{said}");
        said += &text(&bytes[..count]);
    }
    let after = said.split("nbd://").nth(1).unwrap();
    let address = after.split('/').next().unwrap();
    choose_export(&mut TcpStream::connect(address).unwrap());
    server.end_with_signal("-TERM");
}

#[test]
fn metrics_are_served_at_the_printed_address() {
    let mut server = Server::start(&["--metrics", "127.0.0.1:0"]);
    let mut client = server.client();
    write_page(&mut client, 3, &[7; PAGE_BYTES]);
    let lines = BufReader::new(server.child.stderr.take().unwrap()).lines().map(|line| line.unwrap());
    let said = lines.into_iter().find(|line| line.contains("metrics at ")).unwrap();
    let address = said.split("http://").nth(1).and_then(|rest| rest.strip_suffix("/metrics")).unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.contains("\nwearwell_host_page_writes_total 1\n"), "{answer}");
    server.end_with_signal("-TERM");
}

#[test]
fn the_dashboard_is_served_at_the_printed_address() {
    let mut server = Server::start(&["--dashboard", "127.0.0.1:0"]);
    let lines = BufReader::new(server.child.stderr.take().unwrap()).lines().map(|line| line.unwrap());
    let said = lines.into_iter().find(|line| line.contains("dashboard at ")).unwrap();
    let address = said.split("http://").nth(1).and_then(|rest| rest.strip_suffix('/')).unwrap();
    for (path, part) in
        [("/", "<title>Wearwell"), ("/dashboard.css", "--valid:"), ("/dashboard.js", "class BlockMap")]
    {
        let mut stream = TcpStream::connect(address).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nHost: {address}\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.contains(part), "{path}: {answer}");
    }
    server.end_with_signal("-TERM");
}

/// A recording of a live device is replayed with the configuration that the recording carries, and gives the same
/// counts.
#[test]
fn a_recording_replays_to_the_same_counts_on_the_command_line() {
    // NVRAM for a referrer of every page: the ratio of the paper leaves a drive of 16 MiB with room for half of them.
    let server = Server::start(&["--design", "remap", "--set", "remap.size_mib=1", "--record", "run.wwt"]);
    let mut client = server.client();
    for k in 0..9000_u64 {
        write_page(&mut client, k * 7919 % 4096, &[(k % 251) as u8 + 1; PAGE_BYTES]);
    }
    let mut control = UnixStream::connect(server.file("control")).unwrap();
    control.write_all(b"{\"command\": \"stats\"}\n").unwrap();
    let mut answer = String::new();
    BufReader::new(&control).read_line(&mut answer).unwrap();
    let live: serde_json::Value = serde_json::from_str(&answer).unwrap();
    let (output, folder) = server.end_with_signal("-TERM");
    assert!(text(&output.stderr).contains("recorded 9001 requests"), "{}", text(&output.stderr));

    let trace = folder.path().join("run.wwt");
    let info = Command::new(WEARWELL).args(["trace", "info", "--json"]).arg(&trace).output().unwrap();
    let info: serde_json::Value = serde_json::from_slice(&info.stdout).unwrap();
    let info = info.as_array().map_or(&info, |traces| &traces[0]);
    let provenance = info["provenance"].as_str().expect("a recording says where it comes from");
    let (_, configuration) = provenance.split_once("configuration:\n").unwrap();
    let config = folder.path().join("config.toml");
    std::fs::write(&config, configuration).unwrap();
    let json = folder.path().join("record.json");
    let mut replay = Command::new(WEARWELL);
    replay.args(["replay", "--quiet", "--design", "remap", "--config"]).arg(&config).arg("--json").arg(&json);
    assert!(replay.arg(&trace).status().unwrap().success());
    let result: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(&json).unwrap()).unwrap();
    let record = &result["runs"][0];
    for name in ["programs_by_cause", "reads_by_cause", "erases_by_cause", "host_page_writes"] {
        assert_eq!(record[name], live[name], "{name}");
    }
    assert!(record["writes_by_form"]["deduplicated"].as_u64().unwrap() > 8000);
}

#[test]
fn top_on_a_small_terminal_prints_only_the_lines_that_fit() {
    let text =
        "design                 remap, 64 MiB\nhost reads             none\nhost writes            none\n";
    assert_eq!(wearwell_cli::visible_part(text, (12, 2)), "\x1b[H\x1b[2Jdesign      \r\nhost reads  ");
    assert!(wearwell_cli::visible_part(text, (200, 50)).ends_with("host writes            none"));
}

#[test]
fn top_prints_text_without_escape_codes_into_a_pipe() {
    let server = Server::start(&["--quiet"]);
    let mut client = server.client();
    (0..64).for_each(|page| write_page(&mut client, page, &[1; PAGE_BYTES]));
    let mut top = Command::new(WEARWELL);
    let output =
        top.arg("top").arg(server.file("control")).args(["--interval", "0.05", "--count", "2"]).output();
    let output = output.unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let shown = text(&output.stdout);
    assert!(!shown.contains('\x1b'), "a pipe is no terminal");
    assert_eq!(shown.matches("write amplification").count(), 2);
    assert!(shown.contains("programs by cause      host 64"), "{shown}");
    assert!(shown.contains("page-map, 16 MiB") && shown.contains("1 cycle, 0 unsafe shutdowns"), "{shown}");
    server.end_with_signal("-TERM");
}

#[test]
fn invalid_serve_options_are_refused_with_a_sentence() {
    let refused = |arguments: &[&str], code: i32, part: &str| {
        let output = Command::new(WEARWELL).args(arguments).output().unwrap();
        let sentence = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {sentence}");
        assert!(sentence.contains(part), "{arguments:?}: `{part}` is missing in: {sentence}");
    };
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("s").display().to_string();
    let serve = |more: &[&'static str]| -> Vec<String> {
        let start = ["serve", "--memory", "--socket"].map(str::to_owned);
        start.into_iter().chain([socket.clone()]).chain(more.iter().map(|&text| text.to_owned())).collect()
    };
    let refused_serve = |more: &[&'static str], code: i32, part: &str| {
        let arguments = serve(more);
        refused(&arguments.iter().map(String::as_str).collect::<Vec<_>>(), code, part);
    };
    refused(&["serve", "--memory", "--size", "1GiB"], 2, "--socket");
    refused(&["serve", "--socket", &socket, "--size", "1GiB"], 2, "--memory");
    refused_serve(&[], 2, "the size of the device is missing");
    refused_serve(&["--device", "auto"], 2, "the size of the device is missing");
    refused_serve(&["--size", "1GB"], 2, "the unit `GB` of a size is unknown");
    refused_serve(&["--size", "large"], 2, "a size must be a whole number of bytes");
    refused_serve(&["--size", "900TiB"], 2, "choose a smaller size, or larger pages");
    refused_serve(&["--size", "16TiB"], 2, "choose a smaller size, or larger pages");
    refused_serve(&["--size", "1000"], 2, "give a positive multiple of the page size");
    refused_serve(&["--size", "16MiB", "--design", "page-mop"], 2, "did you mean `page-map`");
    refused_serve(
        &["--size", "16MiB", "--set", "precondition.mode=fill"],
        2,
        "precondition.mode has no effect",
    );
    refused_serve(&["--size", "16MiB", "--tcp", "0.0.0.0:0"], 2, "loopback");
    refused_serve(&["--size", "16MiB", "--metrics", "0.0.0.0:0"], 2, "loopback");
    refused_serve(&["--size", "16MiB", "--dashboard", "0.0.0.0:0"], 2, "loopback");
    refused_serve(&["--size", "16MiB", "--record", "/no/folder/x.wwt"], 2, "/no/folder/x.wwt");
    refused(&["top", &socket], 2, "--control");
    let long = format!("{socket}{}", "x".repeat(200));
    refused(
        &["serve", "--memory", "--size", "16MiB", "--socket", &long],
        2,
        "choose a path of at most 107 bytes",
    );
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "nothing is left behind");
}
