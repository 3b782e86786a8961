//! Tests of `serve NAME=DIR NAME=DIR`: one server that serves several images as exports of one socket.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use client::{
    Client, ERR_UNKNOWN, NBD_CMD_FLUSH, NBD_OPT_GO, NBD_OPT_LIST, NBD_OPT_STRUCTURED_REPLY, REP_ACK,
    info_request,
};

use crate::client;

/// Path of the program `wearwell` that the tests start.
const WEARWELL: &str = env!("CARGO_BIN_EXE_wearwell");

/// Temporary folder that contains the images and sockets of a test.
struct ImageFolder(tempfile::TempDir);

/// Returns bytes as text.
fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

impl ImageFolder {
    /// Creates images in a temporary folder, each with a name and a size such as `16MiB`.
    fn new(images: &[(&str, &str)]) -> Self {
        let bench = Self(tempfile::tempdir().unwrap());
        for (name, size) in images {
            let create =
                Command::new(WEARWELL).args(["create", "--size", size]).arg(bench.file(name)).output();
            assert!(create.unwrap().status.success());
        }
        bench
    }

    /// Returns the path of an image or socket in the temporary folder.
    fn file(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Returns a command that starts a server in the temporary folder with these arguments.
    fn serve_command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(WEARWELL);
        command.arg("serve").args(arguments).args(["--socket", "nbd", "--control", "control"]);
        command.current_dir(self.0.path()).stderr(Stdio::piped());
        command
    }

    /// Starts a server with these arguments, and returns it when it accepts connections.
    fn start_server(&self, arguments: &[&str]) -> Child {
        let child = self.serve_command(arguments).spawn().unwrap();
        let deadline = Instant::now() + Duration::from_secs(30);
        while UnixStream::connect(self.file("nbd")).is_err() {
            assert!(Instant::now() < deadline, "the server does not start");
            std::thread::sleep(Duration::from_millis(5));
        }
        child
    }

    /// Connects an NBD client that has not chosen an export.
    fn connect(&self) -> Client {
        let mut client = Client::connect(&self.file("nbd"));
        client.send(&3_u32.to_be_bytes());
        client
    }

    /// Connects an NBD client that uses structured replies and has chosen this export.
    fn client(&self, export: &str) -> Client {
        let mut client = self.connect();
        client.send_option(NBD_OPT_STRUCTURED_REPLY, &[]);
        let replies = client.send_option(NBD_OPT_GO, &info_request(export, &[3]));
        assert_eq!(replies.last(), Some(&(REP_ACK, vec![])), "{export}");
        client
    }

    /// Sends a line to the control socket of the server, and returns the reply.
    fn send_control_command(&self, line: &str) -> serde_json::Value {
        let mut lines = BufReader::new(UnixStream::connect(self.file("control")).unwrap());
        writeln!(lines.get_mut(), "{line}").unwrap();
        let mut reply = String::new();
        lines.read_line(&mut reply).unwrap();
        serde_json::from_str(&reply).unwrap()
    }

    /// Returns the exit status of `wearwell check` on an image; `None` if a signal ended it.
    fn check_exit_status(&self, image: &str) -> Option<i32> {
        Command::new(WEARWELL).arg("check").arg(self.file(image)).output().unwrap().status.code()
    }

    /// Destroys both copies of the header of an image, so that it cannot be opened.
    fn destroy_image_headers(&self, image: &str) {
        for name in ["superblock", "mirror"] {
            std::fs::write(self.file(image).join(name), [0x5a; 4096]).unwrap();
        }
    }
}

/// Sends SIGTERM to a server, and returns its output when it has ended.
fn interrupt_and_wait(child: Child) -> Output {
    assert!(Command::new("kill").arg(child.id().to_string()).status().unwrap().success());
    child.wait_with_output().unwrap()
}

/// Bug: a longer name than NBD permits was accepted, and no client could choose or list the export.
#[test]
fn an_export_name_longer_than_nbd_permits_is_refused() {
    let bench = ImageFolder::new(&[]);
    let (longest, too_long) = ("n".repeat(4096), "n".repeat(4097));
    let named = |name: &str| format!("{name}=missing.image");
    let refusal = "the name of the export has 4097 bytes, but NBD permits 4096: choose a shorter name";
    for (permitted, refused) in [
        (
            ["--image=missing.image", "--export", &longest].to_vec(),
            ["--memory", "--export", &too_long].to_vec(),
        ),
        ([&*named(&longest)].to_vec(), [&*named(&too_long)].to_vec()),
    ] {
        let output = bench.serve_command(&refused).output().unwrap();
        assert_eq!(output.status.code(), Some(2));
        assert!(text(&output.stderr).contains(refusal), "{}", text(&output.stderr));
        let output = bench.serve_command(&permitted).output().unwrap();
        assert!(text(&output.stderr).contains("holds no image"), "{}", text(&output.stderr));
    }
}

#[test]
fn images_are_served_by_name_and_closed_together() {
    let bench = ImageFolder::new(&[("a", "16MiB"), ("b", "8MiB")]);
    let exports = ["root=a", "home=b"];
    for round in 1..3_u8 {
        let server = bench.start_server(&exports);
        let (mut root, mut home) = (bench.client("root"), bench.client("home"));
        if round == 2 {
            assert_eq!((root.read(0, 4096), home.read(0, 4096)), (vec![1; 4096], vec![101; 4096]));
        }
        root.write(0, &[round; 4096]);
        home.write(0, &[round + 100; 4096]);
        root.request_successfully(NBD_CMD_FLUSH, 0, 0, 0, &[]);
        let stats = bench.send_control_command(r#"{"command": "stats", "export": "home"}"#);
        assert_eq!((&stats["host_writes"], &stats["capacity_bytes"]), (&1.into(), &(8 << 20).into()));
        let health = bench.send_control_command(r#"{"command": "health", "export": "root"}"#);
        assert_eq!(health["power_cycles"], round);
        drop((root, home));
        let output = interrupt_and_wait(server);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{said}");
        for uri in ["16 MiB at nbd+unix:///root?socket=nbd", "8 MiB at nbd+unix:///home?socket=nbd"] {
            assert!(said.contains(uri), "{said}");
        }
    }
    assert_eq!(
        (bench.check_exit_status("a"), bench.check_exit_status("b")),
        (Some(0), Some(0)),
        "both are closed"
    );
}

#[test]
fn an_image_that_cannot_be_opened_leaves_the_others_served() {
    let bench = ImageFolder::new(&[("a", "16MiB"), ("b", "8MiB"), ("c", "8MiB")]);
    bench.destroy_image_headers("b");
    let server = bench.start_server(&["one=a", "two=b", "three=c", "four=nowhere"]);
    let mut client = bench.connect();
    assert_eq!(client.send_option(NBD_OPT_LIST, &[]).len(), 3, "two exports and an acknowledgement");
    assert_eq!(client.send_option(NBD_OPT_GO, &info_request("two", &[]))[0].0, ERR_UNKNOWN);
    let mut three = bench.client("three");
    three.write(0, &[3; 4096]);
    drop((client, three));
    let output = interrupt_and_wait(server);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    for part in ["export two: ", "export four: ", "2 of 4 exports failed"] {
        assert!(said.contains(part), "`{part}` is missing in: {said}");
    }
    assert!(said.lines().any(|line| line.contains(" ERROR export two: ")), "{said}");
    assert_eq!(
        (bench.check_exit_status("a"), bench.check_exit_status("c")),
        (Some(0), Some(0)),
        "the others are closed"
    );
}

#[test]
fn a_server_whose_images_all_fail_to_open_does_not_start() {
    let bench = ImageFolder::new(&[("a", "8MiB"), ("b", "8MiB")]);
    bench.destroy_image_headers("a");
    bench.destroy_image_headers("b");
    let output = bench.serve_command(&["one=a", "two=b"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("2 of 2 exports failed"), "{}", text(&output.stderr));
    for (arguments, part) in [
        (&["one=a", "one=b"][..], "two exports are called `one`"),
        (&["one"], "an image must be given as NAME=DIRECTORY"),
        (&["one=a", "--image", "b"], "cannot be used with"),
        (&["one=a", "--export", "other"], "cannot be used with"),
        (&["one=a", "--record", "x.wwt"], "cannot be used with"),
    ] {
        let output = bench.serve_command(arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(text(&output.stderr).contains(part), "{arguments:?}: {}", text(&output.stderr));
    }
}

#[test]
fn top_and_snapshot_print_the_name_of_the_export() {
    let bench = ImageFolder::new(&[("a", "16MiB"), ("b", "8MiB")]);
    let server = bench.start_server(&["root=a", "home=b"]);
    let run = |arguments: &[&str]| {
        Command::new(WEARWELL).args(arguments).current_dir(bench.0.path()).output().unwrap()
    };
    let once = ["--interval", "0.05", "--count", "1"];
    let output = run(&[&["top", "control", "--export", "home"][..], &once].concat());
    assert!(text(&output.stdout).contains("page-map, 8 MiB"), "{}", text(&output.stdout));
    let output = run(&[&["top", "control"][..], &once].concat());
    assert_eq!(output.status.code(), Some(2));
    assert!(
        text(&output.stderr).contains("name one of root, home by the option --export"),
        "{}",
        text(&output.stderr)
    );
    assert!(run(&["snapshot", "control", "copy", "--export", "root"]).status.success());
    let again = run(&["snapshot", "control", "copy", "--export", "root"]);
    let said = text(&again.stderr);
    assert!(said.ends_with("; name a new or empty directory\n"), "{said}");
    let wrong_socket = run(&["top", "nbd"]);
    assert_eq!(wrong_socket.status.code(), Some(2));
    assert!(text(&wrong_socket.stderr).contains("name its control socket"), "{}", text(&wrong_socket.stderr));
    let twice = run(&["serve", "one=a", "two=a", "--socket", "other"]);
    assert_eq!(twice.status.code(), Some(2));
    assert!(text(&twice.stderr).contains("`one` and `two` both name the image a"), "{}", text(&twice.stderr));
    assert_eq!(interrupt_and_wait(server).status.code(), Some(0));
    assert_eq!(bench.check_exit_status("copy"), Some(0));
    let served = bench.start_server(&["only=copy"]);
    let mut client = bench.client("");
    assert_eq!(client.read((16 << 20) - 512, 512), [0; 512], "it is the copy of the larger one");
    drop(client);
    assert_eq!(interrupt_and_wait(served).status.code(), Some(0));
}
