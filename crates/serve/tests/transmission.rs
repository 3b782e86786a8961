//! Tests of NBD requests and replies: the effect of each command, and the errors for illegal requests.

use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

use common::client::*;
use common::{DESIGNS, MIB, PAGE_BYTES, Random, ServedDevice, config};
use wearwell::logical_page_form::LogicalPageForm;
use wearwell_serve::device::Extent;
use wearwell_serve::memory_device::MemoryDeviceSpecification;
use wearwell_serve::{BlockDevice, DeviceError, ListenAddress, ServeError, Server};

use crate::common;

/// Size of the served device, bytes.
const DEVICE_BYTES: u64 = 8 * MIB;

#[test]
fn writes_at_any_byte_offset_read_back_and_leave_their_neighbours_unchanged() {
    for design in DESIGNS {
        let served = ServedDevice::new(design, DEVICE_BYTES);
        let mut client = served.client();
        let mut expected = vec![0_u8; 64 << 10];
        let mut random = Random::new(1);
        for _ in 0..200 {
            let sector = random.below(127);
            let sectors = 1 + random.below((128 - sector).min(40));
            let bytes = random.bytes(sectors as usize * 512);
            client.write(sector * 512, &bytes);
            expected[sector as usize * 512..][..bytes.len()].copy_from_slice(&bytes);
        }
        assert!(client.read(0, 64 << 10) == expected, "{design}");
        served.stop();
    }
}

#[test]
fn trimmed_and_zeroed_sectors_read_as_zeros_at_once() {
    for design in DESIGNS {
        let served = ServedDevice::new(design, DEVICE_BYTES);
        let mut client = served.client();
        let ranges = [(512, 512), (4096, 4096), (5 * 512, 9 * 512), (0, 64 << 10), (4096 - 512, 1024)];
        for (command, flags) in [
            (NBD_CMD_TRIM, 0),
            (NBD_CMD_WRITE_ZEROES, 0),
            (NBD_CMD_WRITE_ZEROES, NBD_CMD_FLAG_NO_HOLE),
            (NBD_CMD_WRITE_ZEROES, NBD_CMD_FLAG_FAST_ZERO | NBD_CMD_FLAG_FUA),
            (NBD_CMD_TRIM, NBD_CMD_FLAG_FUA),
        ] {
            for (offset, len) in ranges {
                client.write(0, &vec![0xa5; 64 << 10]);
                client.request_successfully(command, flags, offset, len, &[]);
                let mut expected = vec![0xa5; 64 << 10];
                expected[offset as usize..][..len as usize].fill(0);
                assert!(client.read(0, 64 << 10) == expected, "{design}: {command} {flags} {offset}+{len}");
            }
        }
        served.stop();
    }
}

#[test]
fn one_write_zeroes_request_may_cover_the_whole_device() {
    let served = ServedDevice::new("page-map", 64 * MIB);
    let mut client = served.client();
    client.write(63 * MIB, &[1; 4096]);
    client.request_successfully(NBD_CMD_WRITE_ZEROES, 0, 0, 64 << 20, &[]);
    assert_eq!(client.read(63 * MIB, 4096), [0; 4096]);
    client.request_successfully(NBD_CMD_WRITE_ZEROES, NBD_CMD_FLAG_NO_HOLE, 0, 64 << 20, &[]);
    let device = served.stop();
    assert_eq!(device.device().stats().host_page_writes, 1 + 64 * MIB / PAGE_BYTES, "one by one on request");
}

/// Checks the values of `base:allocation` and of Wearwell's own metadata context.
#[test]
fn nbd_block_status_reports_holes_and_how_pages_are_stored() {
    let served = ServedDevice::new("remap", DEVICE_BYTES);
    let mut client = served.client();
    let of = |client: &mut Client, offset, len, flags| {
        let status = client.request_block_status(offset, len, flags);
        let [(allocation, first), (state, second)] = &status[..] else { panic!("two contexts") };
        assert_ne!(allocation, state);
        (first.clone(), second.clone())
    };
    assert_eq!(of(&mut client, 0, 1 << 20, 0), (vec![(1 << 20, 3)], vec![(1 << 20, 0)]));
    client.write(PAGE_BYTES, &[1; 8192]);
    client.write(4 * PAGE_BYTES, &Random::new(2).bytes(4096));
    // Pages 1 and 2 have one content, so they share a page.
    let allocation = vec![(4096, 3), (8192, 0), (4096, 3), (4096, 0), (12288, 3)];
    let state = vec![(4096, 0), (8192, 2), (4096, 0), (4096, 1), (12288, 0)];
    assert_eq!(of(&mut client, 0, 8 * 4096, 0), (allocation, state));
    assert_eq!(of(&mut client, 0, 8 * 4096, NBD_CMD_FLAG_REQ_ONE), (vec![(4096, 3)], vec![(4096, 0)]));
    assert_eq!(
        of(&mut client, 3 * 512, 10 * 512, 0).0,
        [(5 * 512, 3), (5 * 512, 0)],
        "ends may lie inside pages"
    );
    let device = served.stop();
    let stats = device.device().stats();
    assert_eq!(stats.host_page_reads, 0, "looking costs nothing");
}

#[test]
fn a_block_status_reply_ends_after_the_maximum_number_of_extents_and_can_be_continued() {
    let served = ServedDevice::new("page-map", 64 * MIB);
    let mut client = served.client();
    for page in (0..10_000).step_by(2) {
        client.request(NBD_CMD_WRITE, 0, page * PAGE_BYTES, 4096, &[1; 4096]);
    }
    (0..5000).for_each(|_| assert_eq!(client.receive_reply().errno, 0));
    let (mut offset, mut replies) = (0, 0);
    while offset < 10_000 * PAGE_BYTES {
        let status = client.request_block_status(offset, (10_000 * PAGE_BYTES - offset) as u32, 0);
        for (k, &(len, value)) in status[0].1.iter().enumerate() {
            assert_eq!((len, value), (4096, if k % 2 == 0 { 0 } else { 3 }));
            offset += len;
        }
        replies += 1;
    }
    assert!(replies > 1, "one reply has a bound");
}

#[test]
fn nbd_reads_with_the_flag_df_are_answered_in_one_chunk() {
    let served = ServedDevice::new("page-map", 64 * MIB);
    let mut client = served.client();
    let bytes = Random::new(3).bytes(32 << 20);
    client.write(MIB, &bytes);
    let reply = client.call(NBD_CMD_READ, NBD_CMD_FLAG_DF, MIB, 32 << 20, &[]);
    assert!(reply.data == bytes, "the largest request there is");
}

#[test]
fn nbd_requests_of_length_zero_change_nothing() {
    let served = ServedDevice::new("page-map", DEVICE_BYTES);
    let mut client = served.client();
    client.write(0, &[9; 4096]);
    for command in [NBD_CMD_READ, NBD_CMD_WRITE, NBD_CMD_TRIM, NBD_CMD_CACHE, NBD_CMD_WRITE_ZEROES] {
        for offset in [0, 512, DEVICE_BYTES] {
            client.request_successfully(command, 0, offset, 0, &[]);
        }
    }
    assert_eq!(client.read(0, 4096), [9; 4096]);
}

/// Every illegal request is answered with an errno, and the connection continues.
#[test]
fn illegal_nbd_requests_are_answered_with_an_errno_and_keep_the_connection() {
    let served = ServedDevice::new("page-map", DEVICE_BYTES);
    let mut good = served.client();
    good.write(0, &[0x11; 4096]);
    let mut client = served.client();
    let cases: [(&str, u16, u16, u64, u32, u32); 23] = [
        ("a read past the end", NBD_CMD_READ, 0, DEVICE_BYTES - 512, 1024, EINVAL),
        ("a read at the end", NBD_CMD_READ, 0, DEVICE_BYTES, 512, EINVAL),
        ("a read at 2^63", NBD_CMD_READ, 0, 1 << 63, 512, EINVAL),
        ("a read at the last byte of all", NBD_CMD_READ, 0, u64::MAX - 511, 512, EINVAL),
        ("zeros past the end", NBD_CMD_WRITE_ZEROES, 0, DEVICE_BYTES - 512, 1024, ENOSPC),
        ("zeros that wrap around", NBD_CMD_WRITE_ZEROES, 0, u64::MAX - 511, 1024, ENOSPC),
        ("a trim past the end", NBD_CMD_TRIM, 0, DEVICE_BYTES - 512, 1024, EINVAL),
        ("a cache past the end", NBD_CMD_CACHE, 0, DEVICE_BYTES, 512, EINVAL),
        ("a status past the end", NBD_CMD_BLOCK_STATUS, 0, DEVICE_BYTES - 512, 1024, EINVAL),
        ("a status of nothing", NBD_CMD_BLOCK_STATUS, 0, 0, 0, EINVAL),
        ("a read of 33 MiB", NBD_CMD_READ, 0, 0, 33 << 20, EINVAL),
        ("a read of 4 GiB", NBD_CMD_READ, 0, 0, u32::MAX, EINVAL),
        ("a read of half a sector", NBD_CMD_READ, 0, 0, 256, EINVAL),
        ("a trim from the middle of a sector", NBD_CMD_TRIM, 0, 100, 512, EINVAL),
        ("zeros of one byte", NBD_CMD_WRITE_ZEROES, 0, 0, 1, EINVAL),
        ("an unknown flag", NBD_CMD_READ, 1 << 15, 0, 512, EINVAL),
        ("a flag of another command", NBD_CMD_TRIM, NBD_CMD_FLAG_NO_HOLE, 0, 512, EINVAL),
        ("one extent of a read", NBD_CMD_READ, NBD_CMD_FLAG_REQ_ONE, 0, 512, EINVAL),
        (
            "fast zeros that are no hole",
            NBD_CMD_WRITE_ZEROES,
            NBD_CMD_FLAG_FAST_ZERO | NBD_CMD_FLAG_NO_HOLE,
            0,
            4096,
            ENOTSUP,
        ),
        ("a payload length, which was not negotiated", NBD_CMD_READ, 1 << 5, 0, 512, EINVAL),
        ("the command to resize", 8, 0, 0, 512, EINVAL),
        ("an unknown command", 77, 0, 0, 0, EINVAL),
        ("the last command of all", u16::MAX, 0, 0, 0, EINVAL),
    ];
    for (name, command, flags, offset, len, errno) in cases {
        let reply = client.call(command, flags, offset, len, &[]);
        assert_eq!(reply.errno, errno, "{name}: {}", reply.message);
        assert!(!reply.message.is_empty(), "{name} has no sentence");
    }
    let writes = [
        ("past the end", 0, DEVICE_BYTES - 512, 1024_usize, ENOSPC),
        ("at 2^63", 0, 1 << 63, 512, ENOSPC),
        ("of 33 MiB", 0, 0, 33 << 20, EINVAL),
        ("of one byte", 0, 0, 1, EINVAL),
        ("with an unknown flag", 1 << 9, 0, 4096, EINVAL),
    ];
    for (name, flags, offset, len, errno) in writes {
        let reply = client.call(NBD_CMD_WRITE, flags, offset, len as u32, &vec![0xee; len]);
        assert_eq!(reply.errno, errno, "a write {name}: {}", reply.message);
        assert_eq!(good.read(0, 4096), [0x11; 4096], "a write {name} changed something");
    }
    // Not an error, though it may look like one: a flush with a range and FUA.
    client.request_successfully(NBD_CMD_FLUSH, NBD_CMD_FLAG_FUA, 12_345, 7, &[]);
    client.write(0, &[0x22; 4096]);
    assert_eq!(good.read(0, 4096), [0x22; 4096]);
    served.stop();
}

#[test]
fn nbd_commands_and_flags_that_were_not_negotiated_are_refused() {
    let served = ServedDevice::new("page-map", DEVICE_BYTES);
    let mut client = served.connect();
    client.send(&3_u32.to_be_bytes());
    client.send_option(NBD_OPT_GO, &info_request("", &[]));
    for (command, flags) in [(NBD_CMD_BLOCK_STATUS, 0), (NBD_CMD_READ, NBD_CMD_FLAG_DF)] {
        let reply = client.call(command, flags, 0, 512, &[]);
        assert_eq!(
            (reply.errno, reply.message.as_str()),
            (EINVAL, ""),
            "simple replies have no room for words"
        );
    }
    client.write(1, &[5; 3]);
    assert_eq!(client.read(0, 5), [0, 5, 5, 5, 0], "who did not ask for block sizes may name bytes");
}

#[test]
fn bytes_that_are_no_nbd_request_end_only_their_connection() {
    let served = ServedDevice::new("page-map", DEVICE_BYTES);
    let mut good = served.client();
    let mut bad = served.client();
    bad.write(0, &[3; 4096]);
    bad.send(b"this is not the magic number of a request");
    assert!(bad.is_closed());
    // Fewer bytes than a header has.
    for bytes in [&b"GET / HTTP/1.1\r\n\r\n"[..], &[0x25, 0x61], &[0xff; 27]] {
        let mut bad = served.client();
        bad.send(bytes);
        assert!(bad.is_closed(), "{bytes:?}");
    }
    let mut bad = served.connect().negotiated_with_extended_headers();
    bad.send(&compact_request_header_bytes(NBD_CMD_READ, 0, 1, 0, 512));
    assert!(bad.is_closed(), "a compact request where extended ones were negotiated");
    assert_eq!(good.read(0, 4096), [3; 4096]);
}

/// If a client disconnects in the middle of a write, no byte of this write is executed; its earlier, complete requests
/// are.
#[test]
fn a_write_cut_off_by_a_disconnect_is_not_executed() {
    let served = ServedDevice::new("page-map", DEVICE_BYTES);
    let mut good = served.client();
    good.write(0, &vec![1; 64 << 10]);
    for sent in [1, 28, 29, 4096, (64 << 10) + 27] {
        let mut client = served.client();
        client.request(NBD_CMD_WRITE, 0, 128 << 10, 512, &[7; 512]);
        let cut = [
            compact_request_header_bytes(NBD_CMD_WRITE, NBD_CMD_FLAG_FUA, 99, 0, 64 << 10),
            vec![2; 64 << 10],
        ]
        .concat();
        client.send(&cut[..sent]);
        drop(client);
        // A new connection is served after the old one has been noticed, or beside it: both must see old data.
        assert!(good.read(0, 64 << 10) == vec![1; 64 << 10], "cut after {sent} bytes");
    }
    let mut last = served.client();
    let deadline = Instant::now() + Duration::from_secs(10);
    while last.read(128 << 10, 512) != [7; 512] {
        assert!(Instant::now() < deadline, "a request that had arrived whole was dropped");
    }
    assert!(last.read(0, 64 << 10) == vec![1; 64 << 10]);
    served.stop();
}

/// Replies that a client does not receive block the requests of this client only.
#[test]
fn a_client_that_accepts_no_replies_delays_no_other_client() {
    let served = ServedDevice::new("page-map", 64 * MIB);
    let mut slow = served.client();
    let bytes = Random::new(4).bytes(1 << 20);
    slow.write(0, &bytes);
    // 400 MiB of replies: far more than socket and limits hold.
    let sender = {
        let mut stream = slow.stream.try_clone().unwrap();
        std::thread::spawn(move || {
            for cookie in 0..400 {
                std::io::Write::write_all(
                    &mut stream,
                    &compact_request_header_bytes(NBD_CMD_READ, 0, 1000 + cookie, 0, 1 << 20),
                )
                .unwrap();
            }
        })
    };
    let mut good = served.client();
    for k in 0..1000_u64 {
        good.write((k % 100 + 1024) * PAGE_BYTES, &[k as u8; 4096]);
    }
    for k in 0..400 {
        let reply = slow.receive_reply();
        assert!(reply.cookie == 1000 + k && reply.data == bytes, "reply {k}");
    }
    sender.join().unwrap();
}

#[test]
fn an_acknowledged_write_is_visible_to_all_connections() {
    let served = ServedDevice::new("page-map", DEVICE_BYTES);
    let mut clients: Vec<Client> = (0..8).map(|_| served.client()).collect();
    for k in 0..200_u64 {
        let writer = (k % 8) as usize;
        clients[writer].write(k % 5 * PAGE_BYTES, &[k as u8; 4096]);
        for client in &mut clients {
            assert_eq!(client.read(k % 5 * PAGE_BYTES, 512), [k as u8; 512]);
        }
    }
}

/// With compression, pages wait in RAM until a chunk is full. A flush on any connection, and a write with FUA, program
/// the pages that were acknowledged on all connections.
#[test]
fn a_flush_makes_acknowledged_writes_of_all_connections_durable() {
    let waiting = |client: &mut Client| client.request_block_status(0, 4096, 0)[1].1[0].1 == 5;
    let served = ServedDevice::new("integrated", DEVICE_BYTES);
    let (mut one, mut other) = (served.client(), served.client());
    for k in 1..50_u64 {
        one.write(0, &Random::new(k).bytes(4096));
        assert!(waiting(&mut other), "the test needs pages that wait");
        other.request_successfully(NBD_CMD_FLUSH, 0, 0, 0, &[]);
        assert!(!waiting(&mut one), "flush {k} forgot a page");
        let fua = Random::new(1000 + k).bytes(4096);
        one.request_successfully(NBD_CMD_WRITE, NBD_CMD_FLAG_FUA, 0, 4096, &fua);
        assert!(!waiting(&mut one), "FUA {k} was ignored");
    }
    served.stop();
}

#[test]
fn a_device_with_a_write_buffer_can_be_served() {
    let settings = ["buffer.pages=64"];
    let specification =
        MemoryDeviceSpecification::new("page-map", config(&settings), Some(DEVICE_BYTES)).unwrap();
    let served = ServedDevice::of(specification.build().unwrap());
    let mut client = served.client();
    client.write(0, &[1; 4096]);
    client.write(512, &[2; 512]);
    assert_eq!(client.request_block_status(0, 4096, 0)[1].1, [(4096, 5)], "it waits");
    client.request_successfully(NBD_CMD_FLUSH, 0, 0, 0, &[]);
    assert_eq!(client.request_block_status(0, 4096, 0)[1].1, [(4096, 1)], "it is stored");
    let page = client.read(0, 4096);
    assert!(page[..512] == [1; 512] && page[512..1024] == [2; 512] && page[1024..] == [1; 3072]);
    let device = served.stop();
    assert_eq!(device.device().stats().total_programs(), 1);
}

#[test]
fn stopping_a_server_answers_the_requests_that_have_arrived() {
    let served = ServedDevice::new("page-map", DEVICE_BYTES);
    let mut client = served.client();
    for k in 0..200 {
        client.request(NBD_CMD_WRITE, 0, k * PAGE_BYTES, 4096, &[k as u8; 4096]);
    }
    let reader = std::thread::spawn(move || {
        (0..200).for_each(|_| assert_eq!(client.receive_reply().errno, 0));
        client.is_closed()
    });
    let device = served.stop();
    assert!(reader.join().expect("every request was answered"), "then the server hangs up");
    assert_eq!(device.device().stats().host_page_writes, 200);
}

/// A device whose writes panic, as if an invariant of the engine were broken.
#[derive(Default)]
struct PanickingDevice {
    /// If given, a write panics only after it has received a message from this channel.
    panic_signal: Option<Receiver<()>>,
}

impl BlockDevice for PanickingDevice {
    fn capacity_bytes(&self) -> u64 {
        DEVICE_BYTES
    }
    fn write_granularity_bytes(&self) -> u32 {
        4096
    }
    fn read(&mut self, _: u64, _: &mut [u8]) -> Result<(), DeviceError> {
        Ok(())
    }
    fn write(&mut self, _: u64, _: &[u8]) -> Result<(), DeviceError> {
        if let Some(signal) = &self.panic_signal {
            signal.recv().expect("the test sends the signal");
        }
        panic!("on purpose: an invariant is broken")
    }
    fn trim(&mut self, _: u64, _: u64) -> Result<(), DeviceError> {
        Err(DeviceError::Failed("a page is lost".into()))
    }
    fn zero(&mut self, _: u64, _: u64, _: bool) -> Result<(), DeviceError> {
        Err(DeviceError::Full("no room".into()))
    }
    fn flush(&mut self) -> Result<(), DeviceError> {
        Ok(())
    }
    fn first_extent(&mut self, _: u64, len_bytes: u64) -> Extent {
        Extent { len_bytes, logical_page_form: LogicalPageForm::InOwnFlashPage }
    }
}

#[test]
fn device_errors_reach_the_client_and_an_engine_panic_disconnects_all_clients() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    let mut server = Server::start(PanickingDevice::default(), "drive", "");
    server.listen_for_nbd_clients(&ListenAddress::Unix(path.clone())).unwrap();
    let (mut client, mut other) = (Client::connect(&path).negotiated(), Client::connect(&path).negotiated());
    assert_eq!(client.call(NBD_CMD_TRIM, 0, 0, 4096, &[]).errno, EIO);
    let reply = client.call(NBD_CMD_WRITE_ZEROES, 0, 0, 4096, &[]);
    assert_eq!((reply.errno, reply.message.as_str()), (ENOSPC, "no room"));
    assert!(!server.has_every_export_failed());
    client.request(NBD_CMD_WRITE, 0, 0, 4096, &[0; 4096]);
    assert!(client.is_closed());
    other.request(NBD_CMD_READ, 0, 0, 512, &[]);
    assert!(other.is_closed());
    assert!(server.has_every_export_failed());
    assert!(matches!(server.stop(), Err(ServeError::DevicePanicked(_))));
}

/// Regression: the thread that received the requests of such a client waited forever, so that its connection was never
/// free again, and the server took ten seconds to stop.
#[test]
fn an_engine_panic_ends_the_connection_of_a_client_with_the_most_bytes_in_flight() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    let (panic_sender, panic_signal) = mpsc::channel();
    let device = PanickingDevice { panic_signal: Some(panic_signal) };
    let mut server = Server::start(device, "drive", "");
    server.listen_for_nbd_clients(&ListenAddress::Unix(path.clone())).unwrap();
    let mut client = Client::connect(&path).negotiated();
    client.request(NBD_CMD_WRITE, 0, 0, 64 << 10, &vec![0; 64 << 10]);
    for _ in 0..10 {
        client.request(NBD_CMD_READ, 0, 0, DEVICE_BYTES as u32, &[]);
    }
    // By then the server waits for replies before it accepts the last reads.
    std::thread::sleep(Duration::from_millis(300));
    panic_sender.send(()).unwrap();
    assert!(client.is_closed());
    let started = Instant::now();
    assert!(matches!(server.stop(), Err(ServeError::DevicePanicked(_))));
    assert!(started.elapsed() < Duration::from_secs(4), "the stop took {:?}", started.elapsed());
}

#[test]
fn a_server_refuses_addresses_in_use_or_not_local_and_replaces_stale_socket_files() {
    let served = ServedDevice::new("page-map", DEVICE_BYTES);
    let folder = tempfile::tempdir().unwrap();
    let device = || common::specification("page-map", DEVICE_BYTES).build().unwrap();
    let mut server = Server::start(device(), "drive", "");
    let mut refusal =
        |address: &ListenAddress| server.listen_for_nbd_clients(address).unwrap_err().to_string();
    assert!(
        refusal(&ListenAddress::Unix(served.nbd_socket_path()))
            .contains("another server listens on this socket")
    );
    let file = folder.path().join("file");
    std::fs::write(&file, "data").unwrap();
    assert!(refusal(&ListenAddress::Unix(file.clone())).contains("no socket"));
    assert_eq!(std::fs::read(&file).unwrap(), b"data");
    assert!(refusal(&ListenAddress::Tcp("0.0.0.0:0".parse().unwrap())).contains("loopback"));
    let stale = folder.path().join("stale");
    drop(std::os::unix::net::UnixListener::bind(&stale).unwrap());
    server.listen_for_nbd_clients(&ListenAddress::Unix(stale.clone())).unwrap();
    Client::connect(&stale).negotiated().write(0, &[1; 512]);
    server.stop().unwrap();
    assert!(!stale.exists(), "a server takes its socket away");
}

#[test]
fn a_tcp_client_is_served_like_one_on_a_socket_file() {
    let mut served = ServedDevice::new("page-map", DEVICE_BYTES);
    let any_port = ListenAddress::Tcp("127.0.0.1:0".parse().unwrap());
    let Ok(ListenAddress::Tcp(address)) = served.server().listen_for_nbd_clients(&any_port) else {
        panic!("it is free")
    };
    let mut stream = std::net::TcpStream::connect(address).unwrap();
    let mut greeting = [0; 18];
    std::io::Read::read_exact(&mut stream, &mut greeting).unwrap();
    assert_eq!(&greeting[..8], b"NBDMAGIC");
    std::io::Write::write_all(
        &mut stream,
        &[3_u32.to_be_bytes().to_vec(), option_bytes(NBD_OPT_EXPORT_NAME, b"")].concat(),
    )
    .unwrap();
    let mut export = [0; 10];
    std::io::Read::read_exact(&mut stream, &mut export).unwrap();
    assert_eq!(export[..8], DEVICE_BYTES.to_be_bytes());
}

/// Regression: after a client had sent two hundred reads and closed its connection, the server executed all of them
/// while other clients waited.
#[test]
fn reads_of_a_disconnected_client_are_dropped() {
    /// Number of reads that the client sends before it disconnects.
    const READS: u64 = 200;
    let served = ServedDevice::new("page-map", DEVICE_BYTES);
    let mut client = served.client();
    for cookie in 0..READS {
        client.send(&compact_request_header_bytes(NBD_CMD_READ, 0, cookie, 0, DEVICE_BYTES as u32));
    }
    drop(client);
    let started = Instant::now();
    assert_eq!(served.client().read(0, 4096).len(), 4096);
    let patience = Duration::from_secs(10);
    assert!(started.elapsed() < patience, "another client waited {:?}", started.elapsed());
    let reads = served.stop_and_audit().reads;
    assert!(reads < READS / 4, "{reads} reads were executed");
}
