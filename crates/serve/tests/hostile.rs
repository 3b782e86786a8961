//! Tests with hostile NBD clients, which send random bytes or damaged NBD streams. A correct client is connected at the
//! same time and must not be disturbed.

use std::io::{Read as _, Write as _};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use common::client::*;
use common::{MIB, PAGE_BYTES, Random, ServedDevice};

use crate::common;

/// Number of connections, each with one hostile byte stream.
const CONNECTIONS: u64 = 1500;

/// Returns the bytes that a correct client would send, from its flags to its disconnect.
fn correct_client_stream(random: &mut Random) -> Vec<u8> {
    let mut stream = [
        3_u32.to_be_bytes().to_vec(),
        option_bytes(NBD_OPT_LIST, &[]),
        option_bytes(NBD_OPT_STRUCTURED_REPLY, &[]),
        option_bytes(
            NBD_OPT_SET_META_CONTEXT,
            &context_option_data("drive", &[ALLOCATION_CONTEXT, PAGE_STATE_CONTEXT]),
        ),
        option_bytes(NBD_OPT_GO, &info_request("drive", &[3])),
    ]
    .concat();
    for cookie in 0..random.below(12) {
        // The first megabyte belongs to the good client.
        let (offset, len) = (MIB + random.below(64) * 512, 512 * (1 + random.below(16) as u32));
        let command = random.below(9) as u16;
        stream.extend(compact_request_header_bytes(
            command,
            (random.below(4) * random.below(20)) as u16,
            cookie,
            offset,
            len,
        ));
        if command == NBD_CMD_WRITE {
            stream.extend(random.bytes(len as usize));
        }
    }
    stream
}

/// Damages a stream of NBD bytes: changes, cuts, repeats or removes some of them.
fn damage(stream: &mut Vec<u8>, random: &mut Random) {
    for _ in 0..=random.below(4) {
        let at = random.below(stream.len() as u64 + 1) as usize;
        match random.below(5) {
            0 => stream.truncate(at),
            1 if at < stream.len() => stream[at] = random.next_u64() as u8,
            2 if at < stream.len() => stream[at] ^= 1 << random.below(8),
            3 => {
                let count = random.below(40) as usize;
                stream.splice(at..at, random.bytes(count));
            }
            _ => {
                let end = (at + random.below(30) as usize).min(stream.len());
                stream.drain(at..end);
            }
        }
    }
}

/// Whether requests in a damaged stream may write below byte `end` of the device. Such a stream is not sent, because it
/// could by accident change the region of the correct client.
fn may_write_below(stream: &[u8], end: u64) -> bool {
    let requests = stream.windows(28).filter(|window| window[..4] == 0x2560_9513_u32.to_be_bytes());
    requests.into_iter().any(|request| {
        let offset = u64::from_be_bytes(request[16..24].try_into().expect("eight bytes"));
        matches!(request[7], 1 | 4 | 6) && offset < end
    })
}

#[test]
fn random_and_damaged_nbd_streams_disturb_neither_server_nor_other_clients() {
    let served = ServedDevice::new("page-map", 4 * MIB);
    let mut good = served.client();
    let mut random = Random::new(11);
    let mut sent = 0;
    for round in 0..CONNECTIONS {
        let mut stream = correct_client_stream(&mut random);
        match random.below(10) {
            0 => {
                let count = random.below(5000) as usize;
                stream = random.bytes(count);
            }
            1 => {}
            _ => damage(&mut stream, &mut random),
        }
        if may_write_below(&stream, MIB) {
            continue;
        }
        let mut socket = UnixStream::connect(served.nbd_socket_path()).expect("the server is alive");
        socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        // The server may hang up before it has everything.
        let _ = socket.write_all(&stream);
        if random.below(3) > 0 {
            let _ = socket.shutdown(Shutdown::Write);
            let mut rest = Vec::new();
            let answered = socket.read_to_end(&mut rest);
            let is_timeout =
                answered.is_err_and(|error| matches!(error.kind(), std::io::ErrorKind::WouldBlock));
            assert!(!is_timeout, "the server waits for a client that has said all, in round {round}");
        }
        drop(socket);
        sent += 1;
        let bytes = [round as u8; 4096];
        good.write(round % 256 * PAGE_BYTES, &bytes);
        assert_eq!(good.read(round % 256 * PAGE_BYTES, 4096), bytes);
    }
    assert!(sent > CONNECTIONS / 2, "{sent} streams");
    served.stop();
}

/// 64 clients announce the longest payload (32 MiB) and send only 1000 bytes of it.
#[test]
fn an_announced_payload_holds_no_memory_before_its_bytes_arrive() {
    let resident = || wearwell_replay::process::peak_rss_bytes();
    let served = ServedDevice::new("page-map", 4 * MIB);
    let mut good = served.client();
    good.write(0, &[1; 4096]);
    wearwell_replay::process::reset_peak_rss();
    let before = resident();
    let claims: Vec<Client> = (0..64)
        .map(|_| {
            let mut client = served.client();
            client.send(&compact_request_header_bytes(NBD_CMD_WRITE, 0, 1, 0, 32 << 20));
            client.send(&[7; 1000]);
            client
        })
        .collect();
    assert_eq!(good.read(0, 4096), [1; 4096]);
    let grown = resident().saturating_sub(before);
    assert!(grown < 200 << 20, "{grown} bytes for claims of 2 GiB");
    drop(claims);
    served.stop();
}

/// Two dozen clients each send all but one byte of 32 MiB. They have to wait for each other's memory, and no other
/// client waits.
#[test]
fn unfinished_payloads_share_a_memory_budget_and_delay_no_other_client() {
    /// Number of clients that hold an unfinished payload.
    const MEMORY_HOLDING_CLIENTS: u64 = 24;
    /// Length, in bytes, of the payload that each client of this test announces but does not complete.
    const PAYLOAD_BYTES: usize = 32 << 20;
    let served = ServedDevice::new("page-map", 64 * MIB);
    let part = vec![7; 1 << 20];
    let (mut stuck, mut hogs) = (0, Vec::new());
    for cookie in 0..MEMORY_HOLDING_CLIENTS {
        let mut hog = served.client();
        hog.send(&compact_request_header_bytes(NBD_CMD_WRITE, 0, cookie, 0, PAYLOAD_BYTES as u32));
        hog.stream.set_write_timeout(Some(Duration::from_millis(200))).unwrap();
        stuck += u64::from((0..31).any(|_| hog.stream.write_all(&part).is_err()));
        hogs.push(hog);
    }
    let fit = (wearwell_serve::DEFAULT_MEMORY_BUDGET_BYTES / PAYLOAD_BYTES) as u64;
    assert!(
        stuck >= MEMORY_HOLDING_CLIENTS - fit,
        "{fit} fit into the budget, and {stuck} of {MEMORY_HOLDING_CLIENTS} wait"
    );
    served.client().write(0, &[1; 4096]);
    drop(hogs);
    served.client().write(0, &vec![2; 4 << 20]);
}
