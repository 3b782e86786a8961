//! Tests that end the real server by `kill -9` at any instant and compare every block with an exact oracle (a model of
//! the values that a block may have).
//!
//! In each cycle, several connections write, zero, trim and flush, and some requests have FUA. Then the process is
//! killed. `wearwell check` must find the image consistent. The server starts again on the image, and every block is
//! read and compared. A flush on one connection also makes durable what other connections had acknowledged before, so
//! one oracle serves all connections.
//!
//! Each test run makes a few cycles per design. `WEARWELL_KILL_CYCLES=700 cargo test --release -p wearwell-cli --test
//! live_kill -- --nocapture` runs many. `WEARWELL_KILL_SEED` sets another seed, and `WEARWELL_KILL_DESIGNS=remap,delta`
//! the designs.

use std::collections::HashMap;
use std::io::{self, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use client::{
    Client, NBD_CMD_FLAG_FUA, NBD_CMD_FLAG_NO_HOLE, NBD_CMD_FLUSH, NBD_CMD_TRIM, NBD_CMD_WRITE,
    NBD_CMD_WRITE_ZEROES, NBD_OPT_GO, REP_ACK, compact_request_header_bytes, info_request,
};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use versions::{Oracle, Request, RequestKind, Violation, page_of};

use crate::{client, versions};

/// Path of the program `wearwell` that the tests start.
const WEARWELL: &str = env!("CARGO_BIN_EXE_wearwell");
/// Number of blocks (logical pages) of the device that the tests write and compare.
const BLOCKS: u64 = 400;
/// Bytes of a block of the NBD device, which is one logical page.
const BLOCK_BYTES: usize = 4096;
/// Number of NBD connections that send requests at the same time.
const CONNECTIONS: u64 = 4;
/// Largest number of requests of one connection that wait for a reply.
const REQUESTS_IN_FLIGHT_PER_CONNECTION: usize = 4;

/// Settings of a drive so small that GC runs all the time.
const SETTINGS: [&str; 7] = [
    "device.channels=1",
    "device.dies_per_channel=1",
    "device.planes_per_die=2",
    "device.blocks_per_plane=40",
    "device.pages_per_block=8",
    "device.spare_bytes=64",
    "device.logical_pages=400",
];

/// An image in a temporary folder, which the tests serve, kill and check.
struct ServedImage {
    /// Temporary folder that contains the image and the NBD socket.
    folder: tempfile::TempDir,
}

impl ServedImage {
    /// Creates an image of this design and durability mode in a new temporary folder.
    fn new(design: &str, durability: &str) -> Self {
        let bench = Self { folder: tempfile::tempdir().expect("a temporary folder") };
        let mut create = Command::new(WEARWELL);
        create.arg("create").arg(bench.image()).args(["--design", design, "--durability", durability]);
        for setting in SETTINGS {
            create.args(["--set", setting]);
        }
        if design == "recyclable" {
            create.args(["--set", "recycle.policy=inf"]);
        }
        assert!(create.stdout(Stdio::null()).status().expect("it can be started").success());
        bench
    }

    /// Returns the path of the image.
    fn image(&self) -> PathBuf {
        self.folder.path().join("image")
    }

    /// Returns the path of the NBD socket.
    fn socket(&self) -> PathBuf {
        self.folder.path().join("nbd")
    }

    /// Starts a server of the image, and returns it when it accepts connections.
    fn start(&self) -> Child {
        let mut serve = Command::new(WEARWELL);
        serve.args(["serve", "--quiet", "--export", "drive", "--image"]).arg(self.image());
        let mut child = serve.arg("--socket").arg(self.socket()).spawn().expect("it can be started");
        let deadline = Instant::now() + Duration::from_secs(30);
        while UnixStream::connect(self.socket()).is_err() {
            let ended = child.try_wait().expect("it is our child");
            assert!(ended.is_none() && Instant::now() < deadline, "the server does not start: {ended:?}");
            std::thread::sleep(Duration::from_millis(1));
        }
        child
    }

    /// Runs `wearwell check` on the image, and returns the exit status and the output.
    fn check(&self) -> (Option<i32>, String) {
        let output = Command::new(WEARWELL).arg("check").arg(self.image()).output().expect("it runs");
        let said = [output.stdout, output.stderr].concat();
        (output.status.code(), String::from_utf8_lossy(&said).into_owned())
    }

    /// Reads all blocks of the served image, and returns those whose contents the oracle does not permit.
    fn check_surviving_data(&self, oracle: &mut Oracle) -> Vec<Violation> {
        /// Number of blocks that one request reads.
        const BLOCKS_PER_READ: u64 = 100;
        let mut client = Client::connect(&self.socket()).negotiated();
        let mut found = Vec::new();
        for first in (0..BLOCKS).step_by(BLOCKS_PER_READ as usize) {
            let bytes =
                client.read(first * BLOCK_BYTES as u64, (BLOCKS_PER_READ as usize * BLOCK_BYTES) as u32);
            found.extend(
                (first..)
                    .zip(bytes.chunks_exact(BLOCK_BYTES))
                    .filter_map(|(block, bytes)| oracle.judge(block, bytes)),
            );
        }
        found
    }
}

/// Connects an NBD client that uses simple replies instead of structured ones, so that the end of the server is an
/// error for the client and not a panic.
fn connect(path: &Path) -> UnixStream {
    let mut client = Client::connect(path);
    client.send(&3_u32.to_be_bytes());
    let replies = client.send_option(NBD_OPT_GO, &info_request("drive", &[3]));
    assert_eq!(replies.last(), Some(&(REP_ACK, vec![])));
    client.stream
}

/// Sends an NBD request on the connection; `hole` states whether a zero request may deallocate pages.
fn send_request(stream: &mut UnixStream, cookie: u64, request: &Request, hole: bool) -> io::Result<()> {
    let command = match request.kind {
        RequestKind::Write => NBD_CMD_WRITE,
        RequestKind::Zero => NBD_CMD_WRITE_ZEROES,
        RequestKind::Trim => NBD_CMD_TRIM,
        RequestKind::Flush => NBD_CMD_FLUSH,
    };
    let is_flush = request.kind == RequestKind::Flush;
    let mut flags = if request.is_durable && !is_flush { NBD_CMD_FLAG_FUA } else { 0 };
    flags |= if request.kind == RequestKind::Zero && !hole { NBD_CMD_FLAG_NO_HOLE } else { 0 };
    let len = (request.block_contents.len() * BLOCK_BYTES) as u32;
    let mut bytes =
        compact_request_header_bytes(command, flags, cookie, request.first_block * BLOCK_BYTES as u64, len);
    if request.kind == RequestKind::Write {
        bytes.extend(request.block_contents.iter().flat_map(|&value| page_of(value, BLOCK_BYTES)));
    }
    stream.write_all(&bytes)
}

/// Reads a simple NBD reply, which must report success, and returns its cookie.
fn read_reply(stream: &mut UnixStream) -> io::Result<u64> {
    let mut reply = [0; 16];
    stream.read_exact(&mut reply)?;
    assert_eq!(reply[..8], *b"\x67\x44\x66\x98\0\0\0\0", "every request is possible");
    Ok(u64::from_be_bytes(reply[8..].try_into().expect("eight bytes")))
}

/// Sends requests until the server is killed; returns how many were acknowledged.
fn send_until_killed(mut stream: UnixStream, oracle: &Mutex<Oracle>, seed: u64) -> u64 {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut in_flight: HashMap<u64, Request> = HashMap::new();
    let (mut cookie, mut acknowledged) = (0, 0);
    loop {
        let drawn = if in_flight.len() < REQUESTS_IN_FLIGHT_PER_CONNECTION {
            oracle.lock().unwrap().draw(&mut random)
        } else {
            None
        };
        if let Some(request) = drawn {
            cookie += 1;
            let sent = send_request(&mut stream, cookie, &request, random.random_bool(0.5));
            in_flight.insert(cookie, request);
            if sent.is_err() {
                return acknowledged;
            }
        } else if !in_flight.is_empty() {
            let Ok(cookie) = read_reply(&mut stream) else { return acknowledged };
            let request = in_flight.remove(&cookie).expect("it was asked for");
            oracle.lock().unwrap().complete(&request);
            acknowledged += 1;
        }
    }
}

/// Numbers of requests and blocks in all cycles of one design.
#[derive(Default)]
struct RunTotals {
    /// Number of requests that the server acknowledged.
    requests: u64,
    /// Number of blocks that were read and compared with the oracle.
    compared_blocks: u64,
}

/// Serves and kills an image this many times, and checks after each kill that the image is consistent and its data as
/// the oracle permits.
fn kill_repeatedly(design: &str, durability: &str, seed: u64, cycles: u64) -> RunTotals {
    let bench = ServedImage::new(design, durability);
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let oracle = &Mutex::new(Oracle::new(BLOCKS));
    let mut requests = 0;
    for cycle in 0..cycles {
        let case = format!("{design}, {durability}, seed {seed}, cycle {cycle}");
        let mut server = bench.start();
        assert_eq!(bench.check_surviving_data(&mut oracle.lock().unwrap()), [], "{case}");
        let connections: Vec<UnixStream> = (0..CONNECTIONS).map(|_| connect(&bench.socket())).collect();
        let seeds: Vec<u64> = (0..CONNECTIONS).map(|_| random.random()).collect();
        // A `host` session waits for the host's disk.
        let longest_us = if durability == "host" { 400_000 } else { 40_000 };
        let lifetime = Duration::from_micros(random.random_range(500..longest_us));
        requests += std::thread::scope(|scope| {
            let workers: Vec<_> = connections
                .into_iter()
                .zip(seeds)
                .map(|(stream, seed)| scope.spawn(move || send_until_killed(stream, oracle, seed)))
                .collect();
            std::thread::sleep(lifetime);
            server.kill().expect("SIGKILL");
            server.wait().expect("it ends");
            workers.into_iter().map(|worker| worker.join().expect("it works to the end")).sum::<u64>()
        });
        let (status, said) = bench.check();
        assert_eq!(status, Some(1), "{case}: {said}");
        assert!(
            said.contains("0 left half programmed by a crash of the server machine"),
            "the end of a process tears nothing: {case}: {said}"
        );
        assert!(said.contains(&format!("{} unsafe shutdowns", cycle + 1)), "{case}: {said}");
    }
    let mut server = bench.start();
    assert_eq!(bench.check_surviving_data(&mut oracle.lock().unwrap()), [], "{design}: at the end");
    let ended = Command::new("kill").arg(server.id().to_string()).status().expect("there is a kill");
    assert!(ended.success());
    assert!(server.wait().expect("it ends").success());
    let (status, said) = bench.check();
    assert_eq!(status, Some(0), "{design}: {said}");
    RunTotals { requests, compared_blocks: oracle.lock().unwrap().compared_blocks }
}

/// Returns the number in an environment variable, or `default` if the variable is not set.
fn environment_number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().expect("a number"))
}

/// After `kill -9`, every block holds a value that the oracle permits: no flushed write is lost, and no block holds
/// mixed, outdated, trimmed or another block's data.
#[test]
fn no_block_is_lost_torn_stale_resurrected_or_foreign_after_kill_9() {
    let designs = std::env::var("WEARWELL_KILL_DESIGNS");
    let designs = designs.as_deref().unwrap_or("page-map,recyclable,remap,delta,integrated");
    let (cycles, seed) =
        (environment_number("WEARWELL_KILL_CYCLES", 8), environment_number("WEARWELL_KILL_SEED", 1));
    for design in designs.split(',') {
        // Waiting for the host's disk takes most of the time of a `host` session, and kills hit it there.
        for (durability, cycles) in [("process", cycles), ("host", cycles.div_ceil(8))] {
            let total = kill_repeatedly(design, durability, seed, cycles);
            println!(
                "{design}, {durability}: {cycles} kills, {} requests acknowledged, {} blocks compared, 0 wrong",
                total.requests, total.compared_blocks
            );
            assert!(total.requests > cycles, "the connections work: {}", total.requests);
        }
    }
}
