//! Tests of a server with several exports: each has its own data, engine and counters, and a device that fails does not
//! affect the others.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

use common::client::*;
use common::{MIB, PAGE_BYTES, specification};
use serde_json::Value;
use wearwell::logical_page_form::LogicalPageForm;
use wearwell_serve::device::Extent;
use wearwell_serve::{
    BlockDevice, ClientLimits, DeviceError, FlashDevice, ListenAddress, NamedDevice, Server,
};

use crate::common;

/// A server with two drives in memory: `first` of 8 MiB, `second` of 16 MiB.
struct Drives {
    /// Server of both drives.
    server: Server<FlashDevice>,
    /// Directory with the socket files.
    folder: tempfile::TempDir,
}

impl Drives {
    /// Starts the server of both drives.
    fn start() -> Self {
        let drive = |name: &str, design: &str, size_bytes: u64| NamedDevice {
            name: name.into(),
            description: format!("the {name} drive"),
            device: specification(design, size_bytes).build().expect("it fits"),
        };
        let devices = vec![drive("first", "page-map", 8 * MIB), drive("second", "remap", 16 * MIB)];
        let mut drives = Self {
            server: Server::start_all(devices, ClientLimits::default()),
            folder: tempfile::tempdir().unwrap(),
        };
        drives
            .server
            .listen_for_nbd_clients(&ListenAddress::Unix(drives.socket_path("nbd")))
            .expect("the path is free");
        drives
            .server
            .open_control_socket(&ListenAddress::Unix(drives.socket_path("control")))
            .expect("the path is free");
        drives
    }

    /// Returns the path of the socket file `name`.
    fn socket_path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Connects a client that has sent its handshake flags.
    fn connect(&self) -> Client {
        let mut client = Client::connect(&self.socket_path("nbd"));
        client.send(&3_u32.to_be_bytes());
        client
    }

    /// Connects a client and attaches it to an export.
    fn client(&self, export: &str) -> Client {
        attach(self.connect(), export)
    }

    /// Sends a line to the control socket and returns the answer.
    fn ask(&self, line: &str) -> Value {
        let mut lines = BufReader::new(UnixStream::connect(self.socket_path("control")).unwrap());
        writeln!(lines.get_mut(), "{line}").unwrap();
        let mut reply = String::new();
        lines.read_line(&mut reply).unwrap();
        serde_json::from_str(&reply).unwrap()
    }
}

/// Attaches a client to the export `export`, with structured replies.
fn attach(mut client: Client, export: &str) -> Client {
    assert_eq!(client.send_option(NBD_OPT_STRUCTURED_REPLY, &[]), [(REP_ACK, vec![])]);
    let replies = client.send_option(NBD_OPT_GO, &info_request(export, &[3]));
    assert_eq!(replies.last(), Some(&(REP_ACK, vec![])), "{export}");
    client
}

/// Returns the capacity in bytes that the replies to an option report.
fn reported_capacity_bytes(replies: &[(u32, Vec<u8>)]) -> u64 {
    let (_, size) = replies.iter().find(|(kind, data)| *kind == REP_INFO && data[..2] == [0, 0]).unwrap();
    u64::from_be_bytes(size[2..10].try_into().unwrap())
}

#[test]
fn a_server_lists_all_exports_and_each_has_its_own_size_and_data() {
    let drives = Drives::start();
    let mut client = drives.connect();
    let entry = |name: &str| [length_prefixed(name), format!("the {name} drive").into_bytes()].concat();
    let listed = [(REP_SERVER, entry("first")), (REP_SERVER, entry("second")), (REP_ACK, vec![])];
    assert_eq!(client.send_option(NBD_OPT_LIST, &[]), listed);
    for (name, size) in [("first", 8 * MIB), ("second", 16 * MIB)] {
        assert_eq!(
            reported_capacity_bytes(&client.send_option(NBD_OPT_INFO, &info_request(name, &[]))),
            size,
            "{name}"
        );
    }
    let (mut first, mut second) = (drives.client("first"), drives.client("second"));
    first.write(0, &[1; 4096]);
    second.write(0, &[2; 4096]);
    assert_eq!(first.read(0, 4096), [1; 4096]);
    assert_eq!(second.read(0, 4096), [2; 4096]);
    assert_eq!(second.call(NBD_CMD_READ, 0, 8 * MIB, 4096, &[]).errno, 0);
    assert_eq!(first.call(NBD_CMD_READ, 0, 8 * MIB, 4096, &[]).errno, EINVAL, "each has its own end");
}

#[test]
fn a_client_must_name_an_export_if_a_server_has_several() {
    let drives = Drives::start();
    let mut client = drives.connect();
    for (name, sentence) in [("", "several exports"), ("third", "no export of that name")] {
        let replies = client.send_option(NBD_OPT_GO, &info_request(name, &[]));
        assert_eq!(replies.len(), 1);
        assert_eq!(replies[0].0, ERR_UNKNOWN);
        let said = String::from_utf8(replies[0].1.clone()).unwrap();
        assert!(said.contains(sentence), "{name}: {said}");
    }
    client.send(&option_bytes(NBD_OPT_EXPORT_NAME, b""));
    assert!(client.is_closed(), "the oldest option cannot refuse");
}

/// Metadata contexts are set for the export that is named in the option, and apply to no other export.
#[test]
fn metadata_contexts_set_for_one_export_do_not_apply_to_another() {
    let drives = Drives::start();
    let mut client = drives.connect();
    assert_eq!(client.send_option(NBD_OPT_STRUCTURED_REPLY, &[]), [(REP_ACK, vec![])]);
    assert_eq!(
        client
            .send_option(NBD_OPT_SET_META_CONTEXT, &context_option_data("first", &[ALLOCATION_CONTEXT]))
            .len(),
        2
    );
    let mut client = attach_with_contexts(client, "second");
    assert_eq!(client.call(NBD_CMD_BLOCK_STATUS, 0, 0, 4096, &[]).errno, EINVAL);
    let mut client = drives.connect();
    assert_eq!(client.send_option(NBD_OPT_STRUCTURED_REPLY, &[]), [(REP_ACK, vec![])]);
    assert_eq!(
        client
            .send_option(NBD_OPT_SET_META_CONTEXT, &context_option_data("second", &[ALLOCATION_CONTEXT]))
            .len(),
        2
    );
    let mut client = attach_with_contexts(client, "second");
    assert_eq!(client.call(NBD_CMD_BLOCK_STATUS, 0, 0, 4096, &[]).errno, 0);
}

/// Attaches a client to an export, with the metadata contexts that it has set before.
fn attach_with_contexts(mut client: Client, export: &str) -> Client {
    let replies = client.send_option(NBD_OPT_GO, &info_request(export, &[]));
    assert_eq!(replies.last(), Some(&(REP_ACK, vec![])));
    client
}

#[test]
fn control_commands_apply_to_the_export_that_they_name() {
    let drives = Drives::start();
    let mut client = drives.client("second");
    (0..3).for_each(|page| client.write(page * PAGE_BYTES, &[7; 4096]));
    let writes = |name: &str| {
        drives.ask(&format!("{{\"command\": \"stats\", \"export\": \"{name}\"}}"))["host_writes"].clone()
    };
    assert_eq!((writes("first"), writes("second")), (0.into(), 3.into()));
    let scrubbed = drives.ask(r#"{"export": "second", "command": "scrub"}"#);
    assert_eq!(scrubbed["ok"], true, "{scrubbed}");
    let exports = drives.ask(r#"{"command": "exports"}"#);
    let names: Vec<_> =
        exports["exports"].as_array().unwrap().iter().map(|export| export["name"].clone()).collect();
    assert_eq!(names, ["first", "second"]);
    assert_eq!(exports["exports"][1]["capacity_bytes"], 16 * MIB);
    for (line, part) in [
        (r#"{"command": "stats"}"#, "the server has several exports: name one of first, second"),
        (
            r#"{"command": "stats", "export": "third"}"#,
            "there is no export `third`: name one of first, second",
        ),
        (
            r#"{"command": "stats", "export": 7}"#,
            "the field `export` is 7: give the name of an export, a string",
        ),
        (r#"{"command": "sing", "export": "first"}"#, "unknown variant `sing`"),
        // Bug: a line that is no command was answered that it must name an export.
        ("", "the line is not a valid command"),
        ("[]", "the line is not a valid command"),
        ("{}", "the line is not a valid command"),
    ] {
        let reply = drives.ask(line);
        assert_eq!(reply["ok"], false, "{line}");
        assert!(reply["error"].as_str().unwrap().contains(part), "{line}: {reply}");
    }
}

#[test]
fn prometheus_metrics_have_a_label_for_their_export() {
    let mut drives = Drives::start();
    let mut client = drives.client("second");
    (0..3).for_each(|page| client.write(page * PAGE_BYTES, &[page as u8 + 1; 4096]));
    let any = ListenAddress::Tcp("127.0.0.1:0".parse().unwrap());
    let Ok(ListenAddress::Tcp(address)) = drives.server.open_metrics(&any) else { panic!("a port is free") };
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    for line in [
        "wearwell_host_writes_total{export=\"first\"} 0",
        "wearwell_host_writes_total{export=\"second\"} 3",
        "wearwell_programs_total{export=\"second\",cause=\"host\"} 3",
        "wearwell_device_info{export=\"first\",design=\"page-map\"} 1",
    ] {
        assert!(answer.lines().any(|found| found == line), "{line} is missing in:\n{answer}");
    }
    assert_eq!(
        answer.matches("# TYPE wearwell_host_writes counter").count(),
        1,
        "a family is described once"
    );
}

/// A device without data whose reads panic if the flag is set. Otherwise they return bytes of value 7.
struct PanickingDevice(bool);

impl BlockDevice for PanickingDevice {
    fn capacity_bytes(&self) -> u64 {
        MIB
    }
    fn write_granularity_bytes(&self) -> u32 {
        4096
    }
    fn read(&mut self, _: u64, into: &mut [u8]) -> Result<(), DeviceError> {
        assert!(!self.0, "an invariant is broken");
        into.fill(7);
        Ok(())
    }
    fn write(&mut self, _: u64, _: &[u8]) -> Result<(), DeviceError> {
        Ok(())
    }
    fn trim(&mut self, _: u64, _: u64) -> Result<(), DeviceError> {
        Ok(())
    }
    fn zero(&mut self, _: u64, _: u64, _: bool) -> Result<(), DeviceError> {
        Ok(())
    }
    fn flush(&mut self) -> Result<(), DeviceError> {
        Ok(())
    }
    fn first_extent(&mut self, _: u64, len_bytes: u64) -> Extent {
        Extent { len_bytes, logical_page_form: LogicalPageForm::InOwnFlashPage }
    }
}

#[test]
fn a_failed_engine_leaves_the_other_exports_served() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("nbd");
    let device = |name: &str, is_broken: bool| NamedDevice {
        name: name.into(),
        description: String::new(),
        device: PanickingDevice(is_broken),
    };
    let mut server =
        Server::start_all(vec![device("sound", false), device("broken", true)], ClientLimits::default());
    server.listen_for_nbd_clients(&ListenAddress::Unix(path.clone())).unwrap();
    let connect = || {
        let mut client = Client::connect(&path);
        client.send(&3_u32.to_be_bytes());
        client
    };
    let (mut sound, mut broken) = (attach(connect(), "sound"), attach(connect(), "broken"));
    broken.request(NBD_CMD_READ, 0, 0, 512, &[]);
    assert!(broken.is_closed(), "it is hung up on");
    assert_eq!(sound.read(0, 512), [7; 512]);
    assert_eq!(server.failed_exports().collect::<Vec<_>>(), ["broken"]);
    assert!(!server.has_every_export_failed(), "there is something left to serve");
    let mut late = connect();
    assert_eq!(late.send_option(NBD_OPT_LIST, &[]).len(), 2, "one export and an acknowledgement");
    assert_eq!(late.send_option(NBD_OPT_GO, &info_request("broken", &[]))[0].0, ERR_UNKNOWN);
    assert_eq!(attach(connect(), "sound").read(0, 512), [7; 512]);
    let ended: Vec<_> = server.stop_all().into_iter().map(|(name, device)| (name, device.is_ok())).collect();
    assert_eq!(ended, [("sound".to_owned(), true), ("broken".to_owned(), false)]);
}
