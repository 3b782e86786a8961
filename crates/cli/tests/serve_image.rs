//! Tests of the commands `create`, `serve --image`, `check`, `repair` and `serve --rescue` on the files of an image.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use client::{Client, ENOSPC, NBD_CMD_FLUSH, NBD_CMD_WRITE};

use crate::client;

/// Path of the program `wearwell` that the tests start.
const WEARWELL: &str = env!("CARGO_BIN_EXE_wearwell");
/// Bytes of a page of the served device.
const PAGE_BYTES: u64 = 4096;

/// Returns bytes as text.
fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Temporary folder that contains an image, its sockets and other files of a test.
struct ServedImage(tempfile::TempDir);

impl ServedImage {
    /// Creates an image of 16 MiB with these additional arguments in a new temporary folder.
    fn new(arguments: &[&str]) -> Self {
        let bench = Self(tempfile::tempdir().unwrap());
        let output = Command::new(WEARWELL)
            .args(["create", "--size", "16MiB"])
            .args(arguments)
            .arg(bench.file("image"))
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", text(&output.stderr));
        bench
    }

    /// Returns the path of a file or socket in the temporary folder.
    fn file(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Returns a command that starts a server of the image.
    fn serve_command(&self) -> Command {
        let mut command = Command::new(WEARWELL);
        self.add_serve_arguments(&mut command);
        command
    }

    /// Returns a command that starts the server from a shell with a file size limit of `limit_kib`: writes beyond that
    /// size fail.
    fn serve_command_with_file_size_limit(&self, limit_kib: u64) -> Command {
        let mut command = Command::new("bash");
        let script = format!("trap '' XFSZ; ulimit -f {limit_kib}; exec \"$@\"");
        command.args(["-c", &script, "bash", WEARWELL]);
        self.add_serve_arguments(&mut command);
        command
    }

    /// Adds the arguments to a command by which `wearwell` serves the image.
    fn add_serve_arguments(&self, command: &mut Command) {
        command.args(["serve", "--export", "drive", "--image"]).arg(self.file("image"));
        command.arg("--socket").arg(self.file("nbd")).arg("--control").arg(self.file("control"));
        command.stderr(Stdio::piped());
    }

    /// Starts a server by this command, and returns it when it accepts connections.
    fn start_server(&self, mut command: Command) -> Child {
        let mut child = command.spawn().unwrap();
        let deadline = Instant::now() + Duration::from_secs(30);
        while UnixStream::connect(self.file("nbd")).is_err() {
            assert!(
                child.try_wait().unwrap().is_none(),
                "{}",
                text(&child.wait_with_output().unwrap().stderr)
            );
            assert!(Instant::now() < deadline, "the server does not start");
            std::thread::sleep(Duration::from_millis(5));
        }
        child
    }

    /// Connects an NBD client that has chosen the export.
    fn client(&self) -> Client {
        Client::connect(&self.file("nbd")).negotiated()
    }

    /// Sends a command without fields to the control socket of the server, and returns the reply.
    fn send_control_command(&self, command: &str) -> serde_json::Value {
        self.send_control_line(&format!("{{\"command\": \"{command}\"}}"))
    }

    /// Sends a line to the control socket of the server, and returns the reply.
    fn send_control_line(&self, line: &str) -> serde_json::Value {
        let mut control = UnixStream::connect(self.file("control")).unwrap();
        writeln!(control, "{line}").unwrap();
        let mut answer = String::new();
        BufReader::new(control).read_line(&mut answer).unwrap();
        serde_json::from_str(&answer).unwrap()
    }

    /// Runs `wearwell check` on the image, and returns its exit status and output.
    fn check(&self) -> (Option<i32>, String) {
        let output = Command::new(WEARWELL).arg("check").arg(self.file("image")).output().unwrap();
        (output.status.code(), text(&[output.stdout, output.stderr].concat()))
    }
}

/// Sends a signal (an option of `kill`, such as `-TERM`) to a server, and returns its output when it has ended.
fn end_server(child: Child, signal: &str) -> Output {
    assert!(Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap().success());
    child.wait_with_output().unwrap()
}

/// Returns the bytes that the tests write to a page; they differ between pages and are never zero.
fn page_pattern(page: u64) -> Vec<u8> {
    (0..PAGE_BYTES).map(|k| (page * 31 + k * k) as u8 | 1).collect()
}

#[test]
fn an_image_counts_its_successive_server_sessions() {
    for (design, durability) in [("page-map", "process"), ("remap", "host")] {
        let bench = ServedImage::new(&["--design", design, "--durability", durability]);
        assert_eq!(bench.check().0, Some(0));
        let server = bench.start_server(bench.serve_command());
        let mut client = bench.client();
        (0..50).for_each(|page| client.write(page * PAGE_BYTES, &page_pattern(page)));
        client.request_successfully(NBD_CMD_FLUSH, 0, 0, 0, &[]);
        let (status, said) = bench.check();
        assert_eq!(status, Some(3), "{said}");
        assert!(said.contains("in use by another process"), "{said}");
        let second = bench.serve_command().arg("--quiet").output().unwrap();
        assert_eq!(second.status.code(), Some(1));
        assert!(text(&second.stderr).contains("in use by another process"), "{}", text(&second.stderr));
        drop(client);
        let output = end_server(server, "-KILL");
        assert!(!output.status.success());
        let words = format!(
            "it was closed; 0 logical pages hold data, 0 unsafe shutdowns; survives the end of the {durability}"
        );
        assert!(text(&output.stderr).contains(&words), "{}", text(&output.stderr));
        assert_eq!(bench.check().0, Some(1));

        let server = bench.start_server(bench.serve_command());
        let mut client = bench.client();
        (0..50).for_each(|page| {
            assert!(client.read(page * PAGE_BYTES, PAGE_BYTES as u32) == page_pattern(page));
        });
        let health = bench.send_control_command("health");
        assert_eq!(
            (&health["power_cycles"], &health["unsafe_shutdowns"]),
            (&2.into(), &1.into()),
            "{health}"
        );
        assert_eq!(health["failure"], serde_json::Value::Null);
        drop(client);
        let output = end_server(server, "-TERM");
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        assert!(text(&output.stderr).contains(
            "its last session did not close it: recovered, half-programmed pages: 0; 50 logical pages"
        ));
        let (status, said) = bench.check();
        assert_eq!(status, Some(0), "{said}");
        assert!(said.contains("50 logical pages hold data, 1 unsafe shutdowns"), "{said}");
    }
}

/// When the host cannot write to the image's files, reads continue and writes are refused for lack of space. Data that
/// was flushed before is present in the next session.
#[test]
fn a_host_write_error_is_reported_and_loses_no_flushed_data() {
    let bench = ServedImage::new(&[]);
    let flash_kib = std::fs::metadata(bench.file("image/flash")).unwrap().len() / 1024;
    let server = bench.start_server(bench.serve_command_with_file_size_limit(flash_kib / 2));
    let mut client = bench.client();
    let mut stored = 0;
    let refused = loop {
        let reply =
            client.call(NBD_CMD_WRITE, 0, stored * PAGE_BYTES, PAGE_BYTES as u32, &page_pattern(stored));
        if reply.errno != 0 {
            break reply;
        }
        client.request_successfully(NBD_CMD_FLUSH, 0, 0, 0, &[]);
        stored += 1;
    };
    assert_eq!(refused.errno, ENOSPC);
    let sentence = "the next request that writes repeats the write";
    assert!(
        refused.message.contains("cannot write") && refused.message.contains(sentence),
        "{}",
        refused.message
    );
    assert!(stored > 100, "there was room for half: {stored}");
    let reply = client.call(NBD_CMD_FLUSH, 0, 0, 0, &[]);
    assert_eq!((reply.errno, &reply.message), (ENOSPC, &refused.message));
    assert!(client.read(0, PAGE_BYTES as u32) == page_pattern(0), "reads go on");
    let health = bench.send_control_command("health");
    assert_eq!(health["failure"], refused.message);
    assert_eq!(health["critical_warning"], 4);
    drop(client);
    let output = end_server(server, "-TERM");
    assert_eq!(output.status.code(), Some(1));
    let said = text(&output.stderr);
    assert_eq!(
        said.lines().filter(|line| line.contains(" ERROR ") && line.contains(&refused.message)).count(),
        1,
        "it is logged once: {said}"
    );
    let (status, said) = bench.check();
    assert_eq!(status, Some(1), "{said}");
    let server = bench.start_server(bench.serve_command());
    let mut client = bench.client();
    (0..stored)
        .for_each(|page| assert!(client.read(page * PAGE_BYTES, PAGE_BYTES as u32) == page_pattern(page)));
    client.write(stored * PAGE_BYTES, &page_pattern(stored));
    drop(client);
    assert_eq!(end_server(server, "-TERM").status.code(), Some(0));
    assert_eq!(bench.check().0, Some(0));
}

/// Regression: the image was left as after an unclean end, because the error of the recording was returned first.
#[test]
fn a_failed_recording_does_not_leave_the_image_open() {
    let bench = ServedImage::new(&[]);
    let mut serve = bench.serve_command();
    serve.arg("--record").arg(bench.file("run.ops"));
    let server = bench.start_server(serve);
    bench.client().write(0, &page_pattern(0));
    // A capture cannot hold a remap.
    let ranges = "[{\"target\": 0, \"source\": 4096, \"len\": 4096}]";
    let reply = bench.send_control_line(&format!("{{\"command\": \"remap\", \"ranges\": {ranges}}}"));
    assert_eq!(reply["ok"], true, "{reply}");
    bench.client().write(0, &page_pattern(0));
    let output = end_server(server, "-TERM");
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("recording"), "{said}");
    let (status, said) = bench.check();
    assert_eq!(status, Some(0), "{said}");
    assert!(said.contains("1 logical pages hold data, 0 unsafe shutdowns"), "{said}");
}

/// Bug: the image was left as after a crash if its recording was refused.
#[test]
fn a_refused_recording_leaves_the_image_closed() {
    let bench = ServedImage::new(&["--set", "device.page_bytes=16384"]);
    let output = bench.serve_command().arg("--record").arg(bench.file("run.wwt")).output().unwrap();
    let said = text(&output.stderr);
    assert!(
        output.status.code() == Some(2) && said.contains("a recording (--record) has pages of 4096"),
        "{said}"
    );
    let (status, said) = bench.check();
    assert!(status == Some(0) && said.contains("0 unsafe shutdowns"), "{status:?} {said}");
}

/// Bug: `check` said 3 (no image, or unreadable) of an image that has lost a file, which is damage.
#[test]
fn an_image_without_one_of_its_files_is_damaged() {
    let bench = ServedImage::new(&[]);
    std::fs::remove_file(bench.file("image").join("flash")).unwrap();
    let (status, said) = bench.check();
    assert_eq!(status, Some(2), "{said}");
}

/// Bug: `--record` with `--force` replaced a file of the image that was to be served.
#[test]
fn a_recording_never_replaces_a_file_of_a_served_image() {
    let bench = ServedImage::new(&[]);
    for name in ["superblock", "session", "flash", "nvram", "journal", "mirror"] {
        let file = bench.file("image").join(name);
        let before = std::fs::read(&file).unwrap();
        let output = bench.serve_command().arg("--force").arg("--record").arg(&file).output().unwrap();
        let said = text(&output.stderr);
        assert!(output.status.code() == Some(2) && said.contains("is an input of this command"), "{said}");
        assert!(std::fs::read(&file).unwrap() == before, "{name} is unchanged");
    }
}

/// Bug: `timeout` sends SIGTERM to a process and then to its group, and the second signal ended the server before it had
/// closed the image.
#[test]
fn signals_in_quick_succession_end_the_server_in_order() {
    let bench = ServedImage::new(&[]);
    let server = bench.start_server(bench.serve_command());
    bench.client().write(0, &page_pattern(0));
    let kill = format!("kill -TERM {0}; kill -TERM {0}; kill -INT {0}", server.id());
    // The server may have ended before the last signal.
    Command::new("bash").args(["-c", &kill]).stderr(Stdio::null()).status().unwrap();
    let output = server.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let (status, said) = bench.check();
    assert!(status == Some(0) && said.contains("1 logical pages hold data, 0 unsafe shutdowns"), "{said}");
}

/// Bug: `create` and `serve --memory` accepted settings that the design ignores, and `create` replaced
/// `recovery.blocks=first-pages`, by which no image is recovered.
#[test]
fn a_setting_without_effect_on_a_live_device_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let image = folder.path().join("image");
    let create = [&["create", "--size", "4MiB"], &[image.to_str().unwrap()][..]].concat();
    let serve = ["serve", "--memory", "--size", "4MiB", "--socket", "unused"].to_vec();
    for (command, setting, part) in [
        (&create, "delta.hot_accesses=3", "delta.hot_accesses has no effect on page-map"),
        (&serve, "delta.hot_accesses=3", "delta.hot_accesses has no effect on page-map"),
        (&create, "recovery.blocks=first-pages", "recovery.blocks=first-pages has no effect on an image"),
    ] {
        let output = Command::new(WEARWELL).args(command).args(["--set", setting]).output().unwrap();
        let said = text(&output.stderr);
        assert!(output.status.code() == Some(2) && said.contains(part), "{said}");
    }
    assert!(!image.exists());
}

/// Bug: the exit status was that of a failure of the system.
#[test]
fn a_repair_into_a_directory_that_is_not_empty_is_a_wrong_option() {
    let bench = ServedImage::new(&[]);
    std::fs::create_dir(bench.file("other")).unwrap();
    std::fs::write(bench.file("other/letter"), "not of an image").unwrap();
    let mut repair = Command::new(WEARWELL);
    let output =
        repair.arg("repair").arg(bench.file("image")).arg("--to").arg(bench.file("other")).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
}

/// Regression: exceeding the file size limit of the process raised a signal that ended the server in the middle of a
/// write.
#[test]
fn a_file_size_limit_too_small_for_the_image_is_refused_at_start() {
    let bench = ServedImage::new(&[]);
    let limited = |arguments: &[&str]| {
        let mut command = wearwell_with_file_size_limit(2048);
        command.args(arguments).current_dir(bench.0.path()).output().unwrap()
    };
    for arguments in
        [&["serve", "--image", "image", "--socket", "nbd"][..], &["create", "other", "--size", "16MiB"]]
    {
        let output = limited(arguments);
        let said = text(&output.stderr);
        assert!(
            output.status.code().is_some_and(|code| code > 0) && said.contains("ulimit -f unlimited"),
            "{said}"
        );
    }
    assert!(!bench.file("other").exists());
    let (status, said) = bench.check();
    assert!(status == Some(0) && said.contains("0 unsafe shutdowns"), "{said}");
}

/// Returns a command that runs `wearwell` under a limit on the size of files. SIGXFSZ has its default action, which
/// ends the process.
fn wearwell_with_file_size_limit(limit_kib: u64) -> Command {
    let mut command = Command::new("bash");
    command.args(["-c", &format!("ulimit -f {limit_kib}; exec \"$@\""), "bash", WEARWELL]);
    command
}

/// Bug: only the flash file was compared with the limit. The mirror, which may become larger, ended the server by
/// SIGXFSZ.
#[test]
fn a_file_size_limit_too_small_for_the_mirror_is_refused_at_start() {
    let bench = ServedImage::new(&[]);
    let flash_kib = std::fs::metadata(bench.file("image/flash")).unwrap().len().div_ceil(1024);
    for arguments in
        [&["serve", "--image", "image", "--socket", "nbd"][..], &["create", "other", "--size", "16MiB"]]
    {
        let mut command = wearwell_with_file_size_limit(flash_kib);
        let output = command.args(arguments).current_dir(bench.0.path()).output().unwrap();
        let said = text(&output.stderr);
        assert!(output.status.code() == Some(2) && said.contains("ulimit -f unlimited"), "{said}");
    }
    assert!(!bench.file("other").exists());
}

/// Bug: a recording that reached the limit on the size of files ended the server by SIGXFSZ.
#[test]
fn a_recording_beyond_the_file_size_limit_ends_and_the_device_is_served_on() {
    /// Limit on the size of files in this test, KiB: 16 pages, and a half of the next one.
    const LIMIT_KIB: u64 = 66;
    let bench = ServedImage(tempfile::tempdir().unwrap());
    let mut serve = wearwell_with_file_size_limit(LIMIT_KIB);
    serve
        .args(["serve", "--memory", "--size", "1MiB", "--export", "drive", "--socket"])
        .arg(bench.file("nbd"));
    serve.arg("--record").arg(bench.file("run.ops")).stderr(Stdio::piped());
    let server = bench.start_server(serve);
    let mut client = bench.client();
    let pages = 2 * LIMIT_KIB * 1024 / PAGE_BYTES;
    let content = |page: u64| vec![page as u8 + 1; PAGE_BYTES as usize];
    (0..pages).for_each(|page| client.write(page * PAGE_BYTES, &content(page)));
    (0..pages).for_each(|page| assert!(client.read(page * PAGE_BYTES, PAGE_BYTES as u32) == content(page)));
    drop(client);
    let output = end_server(server, "-TERM");
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("(--record) is incomplete, because it could not go on: File too large"), "{said}");
    // Bug: nothing was logged when the recording ended, and the message named no file.
    let name = bench.file("run.ops").display().to_string();
    let is_end_of_recording = |line: &str| {
        line.contains("ERROR") && line.contains(&format!("the recording {name} (--record) has ended"))
    };
    assert_eq!(said.lines().filter(|line| is_end_of_recording(line)).count(), 1, "{said}");
    assert!(said.contains("it ends after request 15 or earlier"), "{said}");
    // One of the 16 pages is the page of zeros.
    assert_eq!(std::fs::metadata(bench.file("run.pages")).unwrap().len(), 16 * PAGE_BYTES);
    // Bug: the last line was half a write, so that the capture could not be replayed.
    let mut replay = Command::new(WEARWELL);
    replay.arg("replay").arg(bench.file("run.ops")).args(["--bytes", "--set", "precondition.mode=none"]);
    let output = replay.output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    let lines = std::fs::read_to_string(bench.file("run.ops")).unwrap();
    assert_eq!(lines.lines().filter(|line| line.starts_with('W')).count(), 15, "{lines}");
}

/// Bug: `repair --to` was ended by SIGXFSZ and left its files.
#[test]
fn a_repaired_copy_beyond_the_file_size_limit_is_removed() {
    let bench = ServedImage::new(&[]);
    let mut command = wearwell_with_file_size_limit(1024);
    let output = command.arg("repair").arg(bench.file("image")).arg("--to").arg(bench.file("copy")).output();
    let output = output.unwrap();
    let said = text(&output.stderr);
    assert!(output.status.code() == Some(1) && said.contains("File too large"), "{said}");
    assert!(said.contains("raise the limit on the size of files"), "{said}");
    assert!(!bench.file("copy").exists());
}

#[test]
fn server_sockets_are_private_and_local_host_names_are_accepted() {
    use std::os::unix::fs::PermissionsExt as _;
    let bench = ServedImage::new(&[]);
    let mode = |name: &str| std::fs::metadata(bench.file(name)).unwrap().permissions().mode() & 0o777;
    for (arguments, expected) in [(&["--tcp", "localhost:0"][..], 0o600), (&["--socket-mode", "660"], 0o660)]
    {
        let mut command = bench.serve_command();
        command.args(arguments);
        let server = bench.start_server(command);
        assert_eq!((mode("nbd"), mode("control")), (expected, expected));
        assert_eq!(end_server(server, "-TERM").status.code(), Some(0));
    }
}

/// Regression: sockets were bound after the image was opened, so that every wrong address caused an unclean shutdown.
#[test]
fn a_refused_listen_address_does_not_count_as_a_session_of_the_image() {
    let bench = ServedImage::new(&["--design", "remap"]);
    for wrong in [&["--tcp", "192.0.2.1:1"][..], &["--tcp", "127.0.0.1:0", "--control", "/nowhere/control"]] {
        let image = bench.file("image");
        let output =
            Command::new(WEARWELL).arg("serve").arg("--image").arg(image).args(wrong).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
        let said = text(&output.stderr);
        let advice =
            ["use 127.0.0.1 and a tunnel", "; make the directory that is to contain the socket first"];
        assert!(
            said.contains("cannot listen on") && advice.iter().any(|advice| said.contains(advice)),
            "{said}"
        );
    }
    let (status, said) = bench.check();
    assert!(status == Some(0) && said.contains("0 unsafe shutdowns"), "{said}");
}

/// The test damages both copies of the OOB (spare-area record) of 20 pages.
#[test]
fn a_refused_image_is_rescued_for_reading_and_not_changed() {
    use wearwell::address::Ppn;
    use wearwell_serve::image::ImageFile;
    use wearwell_serve::image::layout::{ImageHeader, Layout, METADATA_RECORD_BYTES};
    let bench = ServedImage::new(&[]);
    let server = bench.start_server(bench.serve_command());
    let mut client = bench.client();
    (0..200).for_each(|page| client.write(page * PAGE_BYTES, &page_pattern(page)));
    client.request_successfully(NBD_CMD_FLUSH, 0, 0, 0, &[]);
    drop(client);
    assert_eq!(end_server(server, "-TERM").status.code(), Some(0));
    let image_header = std::fs::read(bench.file("image/superblock")).unwrap();
    let layout = Layout::new(&ImageHeader::decode(&image_header).unwrap());
    let first = layout.oob_record_offset(Ppn(0));
    let copy = layout.mirror_offset(ImageFile::Flash, first);
    for (name, at) in [("image/flash", first as usize), ("image/mirror", copy as usize)] {
        let mut bytes = std::fs::read(bench.file(name)).unwrap();
        bytes[at..at + 20 * METADATA_RECORD_BYTES].fill(7);
        std::fs::write(bench.file(name), bytes).unwrap();
    }
    let files = || {
        ["superblock", "session", "nvram", "journal", "mirror", "flash"]
            .map(|name| std::fs::read(bench.file("image").join(name)).unwrap())
    };
    let before = files();
    let refused = bench.serve_command().arg("--read-only").output().unwrap();
    assert_eq!(refused.status.code(), Some(1));
    let sentence = text(&refused.stderr);
    let directory = bench.file("image");
    assert!(sentence.contains(&format!("{}: the image is damaged", directory.display())), "{sentence}");
    assert!(sentence.contains("wearwell serve --rescue"), "{sentence}");

    let mut command = bench.serve_command();
    command.arg("--rescue");
    let server = bench.start_server(command);
    let mut client = bench.client();
    let mut lost = 0;
    for page in 0..200 {
        let reply = client.call(client::NBD_CMD_READ, 0, page * PAGE_BYTES, PAGE_BYTES as u32, &[]);
        match reply.errno {
            0 => assert!(reply.data == page_pattern(page), "page {page}"),
            client::EIO => lost += 1,
            errno => panic!("page {page}: errno {errno}: {}", reply.message),
        }
    }
    assert!((1..=20).contains(&lost), "each page held one: {lost}");
    assert_eq!(client.call(NBD_CMD_WRITE, 0, 0, PAGE_BYTES as u32, &page_pattern(0)).errno, 1, "EPERM");
    let health = bench.send_control_command("health");
    assert!(health["unproven_logical_pages"].as_u64() >= Some(lost), "{health}");
    assert_eq!(health["critical_warning"], 4);
    drop(client);
    let output = end_server(server, "-TERM");
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let said = text(&output.stderr);
    assert!(said.contains("rescued; the newest content of"), "{said}");
    assert!(said.contains("logical pages is not known, so reads of them fail"), "{said}");
    assert!(!said.contains("--rescue"), "it is what the user did: {said}");
    assert!(before == files(), "no file of the image changes");
}

/// A client that disconnects in the middle of a write leaves the page unchanged.
#[test]
fn a_write_cut_off_by_a_disconnect_changes_nothing() {
    let bench = ServedImage::new(&[]);
    let server = bench.start_server(bench.serve_command());
    let mut client = bench.client();
    client.write(0, &page_pattern(1));
    let mut leaver = bench.client();
    leaver.send(&client::compact_request_header_bytes(NBD_CMD_WRITE, 0, 99, 0, PAGE_BYTES as u32));
    leaver.send(&page_pattern(2)[..2048]);
    drop(leaver);
    std::thread::sleep(Duration::from_millis(50));
    assert!(client.read(0, PAGE_BYTES as u32) == page_pattern(1));
    drop(client);
    end_server(server, "-KILL");
    assert_eq!(bench.check().0, Some(1));
}

#[test]
fn options_fixed_by_an_image_are_refused_when_it_is_served() {
    let bench = ServedImage::new(&[]);
    for arguments in [["--design", "remap"], ["--size", "1GiB"], ["--set", "gc.policy=fifo"]] {
        let output = bench.serve_command().args(arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(2));
        assert!(text(&output.stderr).contains("cannot be used with"), "{}", text(&output.stderr));
    }
    let mut nowhere = Command::new(WEARWELL);
    nowhere.args(["serve", "--image"]).arg(bench.file("none")).arg("--socket").arg(bench.file("nbd"));
    let output = nowhere.output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(
        text(&output.stderr)
            .contains("holds no image: check the path, or make an image with `wearwell create`")
    );
}

/// Bug: the second socket took the path of the first, or failed without the reason.
#[test]
fn one_path_for_two_sockets_is_refused() {
    let bench = ServedImage::new(&[]);
    let mut command = Command::new(WEARWELL);
    command
        .args(["serve", "--image", "image", "--socket", "s", "--control", "./s"])
        .current_dir(bench.0.path());
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let said = text(&output.stderr);
    assert!(said.contains("--socket and --control both name") && said.contains("path of its own"), "{said}");
    assert!(!bench.file("s").exists() && bench.check().0 == Some(0), "nothing was opened");
}

/// Bug: the exit status for an image in use was 1 or 2, by the command.
#[test]
fn all_commands_refuse_an_image_in_use_with_the_same_exit_status() {
    let bench = ServedImage::new(&[]);
    let server = bench.start_server(bench.serve_command());
    let commands: [&[&str]; 6] = [
        &["serve", "--image", "image", "--socket", "other"],
        &["repair", "image", "--in-place"],
        &["repair", "image", "--to", "repaired"],
        &["copy", "image", "copied"],
        &["resize", "image", "--size", "32MiB"],
        &["upgrade", "image"],
    ];
    for arguments in commands {
        let output = Command::new(WEARWELL).args(arguments).current_dir(bench.0.path()).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {}", text(&output.stderr));
        assert!(text(&output.stderr).contains("in use by another process"), "{}", text(&output.stderr));
    }
    assert_eq!(end_server(server, "-TERM").status.code(), Some(0));
}

/// Bug: `create` panicked if the system refused the memory for a table of the engine.
#[test]
fn an_image_whose_device_needs_too_much_memory_is_refused_with_a_sentence() {
    let folder = tempfile::tempdir().unwrap();
    for design in wearwell::design::ALL.map(|design| design.name).into_iter().filter(|&name| name != "u-ftl")
    {
        let mut command = Command::new("bash");
        command.args(["-c", "ulimit -v 6000000; exec \"$@\"", "bash", WEARWELL]).current_dir(folder.path());
        let output =
            command.args(["create", "image", "--size", "8TiB", "--design", design]).output().unwrap();
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{design}: {said}");
        assert!(said.contains("MiB of memory") && said.contains("with a smaller size"), "{design}: {said}");
        assert!(!folder.path().join("image").exists(), "{design}");
    }
}

/// Bug: the check promised that opening repairs an image, but opening does not read all metadata.
#[test]
fn a_check_names_the_command_that_repairs_metadata_with_one_intact_copy() {
    let bench = ServedImage::new(&["--design", "geckoftl"]);
    let server = bench.start_server(bench.serve_command());
    let mut client = bench.client();
    (0..400).for_each(|page| client.write(page * PAGE_BYTES, &page_pattern(page)));
    client.request_successfully(NBD_CMD_FLUSH, 0, 0, 0, &[]);
    drop(client);
    assert!(end_server(server, "-TERM").status.success());
    // The end of the mirror holds copies of metadata pages.
    let mirror = std::fs::File::options().write(true).open(bench.file("image/mirror")).unwrap();
    mirror.set_len(mirror.metadata().unwrap().len() - 1).unwrap();
    let server = bench.start_server(bench.serve_command());
    assert!(end_server(server, "-TERM").status.success());
    let (status, said) = bench.check();
    assert_eq!(status, Some(1), "{said}");
    assert!(said.contains("consistent, but some metadata has only one intact copy"), "{said}");
    let mut repair = Command::new(WEARWELL);
    repair.arg("repair").arg(bench.file("image")).arg("--in-place");
    let words = format!("next: `wearwell repair {} --in-place`", bench.file("image").display());
    assert!(said.contains(&words), "{said}");
    let output = repair.output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    let (status, said) = bench.check();
    assert_eq!(status, Some(0), "{said}");
}

/// Bug: a server that changes no file logged a repair, and a durability that its session does not have.
#[test]
fn a_read_only_server_logs_no_repair_and_no_durability() {
    let bench = ServedImage::new(&[]);
    let mut mirror = std::fs::read(bench.file("image/mirror")).unwrap();
    mirror[20] ^= 1;
    std::fs::write(bench.file("image/mirror"), &mirror).unwrap();
    let mut command = bench.serve_command();
    command.arg("--read-only");
    let output = end_server(bench.start_server(command), "-TERM");
    let said = text(&output.stderr);
    assert!(
        said.contains(
            "it was closed; damaged metadata records that were read from their second copies: 1; 0 logical pages hold \
             data, 0 unsafe shutdowns; served for reading\n"
        ),
        "{said}"
    );
    assert!(std::fs::read(bench.file("image/mirror")).unwrap() == mirror);
}

/// Bug: the exit status was that of a failure of the system.
#[test]
fn a_setting_that_the_engine_refuses_is_a_wrong_option_of_create_and_copy() {
    let bench = ServedImage::new(&[]);
    let design = ["--design", "wearwell", "--set", "device.spare_bytes=0"];
    for command in [&["create", "new", "--size", "4MiB"][..], &["copy", "image", "new"]] {
        let mut wearwell = Command::new(WEARWELL);
        let output = wearwell.args(command).args(design).current_dir(bench.0.path()).output().unwrap();
        let said = text(&output.stderr);
        assert!(output.status.code() == Some(2) && said.contains("device.spare_bytes is 0"), "{said}");
        assert!(!bench.file("new").exists());
    }
}

/// Bug: the shell that ran the command was left in the removed directory of the smaller image.
#[test]
fn a_resize_in_the_directory_of_the_image_is_refused() {
    let bench = ServedImage::new(&[]);
    let resize = |directory: &str| {
        let mut command = Command::new(WEARWELL);
        command.args(["resize", directory, "--size", "32MiB"]).current_dir(bench.file("image"));
        let output = command.output().unwrap();
        (output.status.code(), text(&output.stderr))
    };
    for directory in [".", "../image"] {
        let (status, said) = resize(directory);
        assert!(status == Some(2) && said.contains("contains the working directory"), "{said}");
    }
    assert_eq!(bench.check().0, Some(0));
}

/// Bug: a verdict of corruption named no next step.
#[test]
fn a_check_that_finds_corruption_names_the_next_step() {
    let bench = ServedImage::new(&[]);
    let server = bench.start_server(bench.serve_command());
    let written = page_pattern(1);
    bench.client().write(0, &written);
    assert_eq!(end_server(server, "-TERM").status.code(), Some(0));
    let flash = std::fs::read(bench.file("image/flash")).unwrap();
    let at = flash.windows(4096).position(|page| page == written).expect("it was written");
    let mut damaged = flash.clone();
    damaged[at] ^= 1;
    std::fs::write(bench.file("image/flash"), damaged).unwrap();
    let (status, said) = bench.check();
    // A repair cannot bring a lost page back.
    let step = "next: restore the image from a copy, or write or trim the lost pages anew; `wearwell copy";
    assert!(status == Some(2) && said.contains(step), "{said}");
    std::fs::write(bench.file("image/flash"), flash).unwrap();
    for name in ["nvram", "mirror"] {
        let mut bytes = std::fs::read(bench.file("image").join(name)).unwrap();
        bytes[8192..].fill(7);
        bytes[..8192].fill(if name == "nvram" { 7 } else { 0 });
        std::fs::write(bench.file("image").join(name), bytes).unwrap();
    }
    let (status, said) = bench.check();
    assert!(status == Some(2) && said.contains("next: restore the image from a copy, or try"), "{said}");
}

/// Runs the commands of `docs/serve.md`, one after the other, by a script that a user can run as well.
#[test]
fn an_image_keeps_all_data_over_a_day_of_use_and_restarts() {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/live/day.sh");
    for design in ["remap", "wearwell"] {
        let ran = Command::new(script).arg(design).env("WEARWELL", WEARWELL).output();
        let Output { status, stdout, stderr } = ran.expect("bash is installed");
        let printed = format!("{}{}", String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
        assert!(status.success() && printed.ends_with("done\n"), "{design}: {printed}");
    }
}
