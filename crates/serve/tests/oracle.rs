//! Tests with random operations in flight on several connections, compared with a plain map of blocks.
//!
//! Never are two operations in flight on one block, so that every block has one right content at any time; replies come
//! in any order. What is checked is every byte of every read, all blocks through another connection at the end, and
//! the engine's own audit.

use std::collections::HashMap;

use common::client::*;
use common::{DESIGNS, Random, ServedDevice};

use crate::common;

/// Size of a block, bytes.
const BLOCK_BYTES: u64 = 4096;
/// Number of blocks of the device, all of which are used.
const DEVICE_BLOCKS: u64 = 600;
/// Number of connections.
const CONNECTIONS: usize = 4;
/// Maximum number of requests in flight on each connection.
const REQUESTS_IN_FLIGHT_MAX: usize = 8;
/// Number of requests per run.
const OPERATIONS: u64 = 6000;
/// Number of distinct block contents; it is small, so that designs share, recycle and compress pages.
const DISTINCT_CONTENTS: u64 = 40;

/// Makes block content number `number`. The second half of the block repeats the first, so that it compresses. Contents
/// with neighbouring numbers differ little.
fn content(number: u64) -> Vec<u8> {
    if number == 0 {
        return vec![0; BLOCK_BYTES as usize];
    }
    let mut bytes = Random::new(number / 4).bytes(BLOCK_BYTES as usize / 2).repeat(2);
    bytes[100] = number as u8;
    bytes
}

/// A request in flight, as the test records it.
struct InFlight {
    /// First block of the request.
    first_block: u64,
    /// Number of blocks of the request.
    block_count: u64,
    /// Bytes that a read has to return; `None` for other operations.
    expected: Option<Vec<u8>>,
}

/// Oracle that knows the content of each block, with requests in flight.
struct Oracle {
    /// Generator of the random requests.
    random: Random,
    /// Number of the content that each block holds.
    content_number_by_block: Vec<u64>,
    /// Whether a request in flight uses the block, for each block.
    has_request_in_flight: Vec<bool>,
    /// Bytes of each content, by its number.
    contents: Vec<Vec<u8>>,
    /// Number of blocks compared so far.
    compared_blocks: u64,
}

impl Oracle {
    /// Returns the expected bytes of `count` blocks from block `first` on.
    fn bytes(&self, first: u64, count: u64) -> Vec<u8> {
        let numbers = &self.content_number_by_block[first as usize..(first + count) as usize];
        numbers.iter().flat_map(|&number| self.contents[number as usize].iter().copied()).collect()
    }

    /// Draws a run of consecutive blocks. If no request in flight uses any of them, marks them as used, and returns the
    /// first block and the number of blocks.
    fn draw_and_reserve_unused_blocks(&mut self) -> Option<(u64, u64)> {
        let first = self.random.below(DEVICE_BLOCKS);
        let count = (1 + self.random.below(8) * self.random.below(2)).min(DEVICE_BLOCKS - first);
        let run = first as usize..(first + count) as usize;
        let is_free = self.has_request_in_flight[run.clone()].iter().all(|&busy| !busy);
        is_free.then(|| {
            self.has_request_in_flight[run].fill(true);
            (first, count)
        })
    }

    /// Sends one random request to blocks that no other request uses. Returns its cookie and the record of it, or
    /// `None` if the drawn blocks are in use.
    fn send_random_request(&mut self, client: &mut Client) -> Option<(u64, InFlight)> {
        let (first, count) = self.draw_and_reserve_unused_blocks()?;
        let run = first as usize..(first + count) as usize;
        let (offset, len) = (first * BLOCK_BYTES, (count * BLOCK_BYTES) as u32);
        let flags = if self.random.below(100) < 15 { NBD_CMD_FLAG_FUA } else { 0 };
        let mut expected = None;
        let cookie = match self.random.below(100) {
            0..55 => {
                for block in run {
                    self.content_number_by_block[block] = self.random.below(DISTINCT_CONTENTS);
                }
                client.request(NBD_CMD_WRITE, flags, offset, len, &self.bytes(first, count))
            }
            55..63 => {
                self.content_number_by_block[run].fill(0);
                let hole = if self.random.below(2) == 0 { NBD_CMD_FLAG_NO_HOLE } else { 0 };
                client.request(NBD_CMD_WRITE_ZEROES, flags | hole, offset, len, &[])
            }
            63..70 => {
                self.content_number_by_block[run].fill(0);
                client.request(NBD_CMD_TRIM, flags, offset, len, &[])
            }
            70..95 => {
                expected = Some(self.bytes(first, count));
                client.request(NBD_CMD_READ, 0, offset, len, &[])
            }
            95..98 => client.request(NBD_CMD_FLUSH, 0, 0, 0, &[]),
            _ => client.request(NBD_CMD_CACHE, 0, offset, len, &[]),
        };
        Some((cookie, InFlight { first_block: first, block_count: count, expected }))
    }

    /// Checks the reply to a request, and marks its blocks as unused.
    fn complete(&mut self, reply: &Reply, operation: &InFlight) {
        assert_eq!(reply.errno, 0, "{}", reply.message);
        if let Some(expected) = &operation.expected {
            assert!(
                reply.data == *expected,
                "blocks {}+{} differ",
                operation.first_block,
                operation.block_count
            );
            self.compared_blocks += operation.block_count;
        }
        self.has_request_in_flight
            [operation.first_block as usize..(operation.first_block + operation.block_count) as usize]
            .fill(false);
    }
}

/// Runs random operations on a served design, and returns the number of blocks compared.
fn run_random_operations(design: &str, seed: u64) -> u64 {
    let served = ServedDevice::new(design, DEVICE_BLOCKS * BLOCK_BYTES);
    let mut clients: Vec<Client> = (0..CONNECTIONS).map(|_| served.client()).collect();
    let mut flying: Vec<HashMap<u64, InFlight>> = (0..CONNECTIONS).map(|_| HashMap::new()).collect();
    let mut oracle = Oracle {
        random: Random::new(seed),
        content_number_by_block: vec![0; DEVICE_BLOCKS as usize],
        has_request_in_flight: vec![false; DEVICE_BLOCKS as usize],
        contents: (0..DISTINCT_CONTENTS).map(content).collect(),
        compared_blocks: 0,
    };
    for _ in 0..OPERATIONS {
        let at = oracle.random.below(CONNECTIONS as u64) as usize;
        if flying[at].len() >= REQUESTS_IN_FLIGHT_MAX
            || oracle.random.below(20) == 0 && !flying[at].is_empty()
        {
            let reply = clients[at].receive_reply();
            let operation = flying[at].remove(&reply.cookie).expect("it was asked for");
            oracle.complete(&reply, &operation);
        }
        if let Some((cookie, operation)) = oracle.send_random_request(&mut clients[at]) {
            flying[at].insert(cookie, operation);
        }
    }
    for (client, mut flying) in clients.iter_mut().zip(flying) {
        while !flying.is_empty() {
            let reply = client.receive_reply();
            let operation = flying.remove(&reply.cookie).expect("it was asked for");
            oracle.complete(&reply, &operation);
        }
    }
    let mut last = served.client();
    for first in (0..DEVICE_BLOCKS).step_by(100) {
        let expected = oracle.bytes(first, 100);
        assert!(
            last.read(first * BLOCK_BYTES, (100 * BLOCK_BYTES) as u32) == expected,
            "{design}: at the end, near {first}"
        );
    }
    let device = served.stop();
    let stats = device.device().stats();
    assert!(stats.gc_victims > 0 || design != "page-map", "garbage collection has to be at work");
    oracle.compared_blocks + DEVICE_BLOCKS
}

#[test]
fn every_served_design_returns_the_last_write_of_each_block() {
    for design in DESIGNS {
        let checked: u64 = (0..3).map(|seed| run_random_operations(design, seed)).sum();
        println!("{design}: {checked} blocks compared, none differs");
        assert!(checked > 5000, "{design}: {checked}");
    }
}

/// Each connection runs on a thread of its own and uses a region of its own, so the order of requests of different
/// connections is random.
#[test]
fn concurrent_connections_never_change_each_others_regions() {
    for design in DESIGNS {
        let served = ServedDevice::new(design, 8 * 256 * BLOCK_BYTES);
        let path = served.nbd_socket_path();
        let threads: Vec<_> = (0..8_u64)
            .map(|number| {
                let path = path.clone();
                std::thread::spawn(move || {
                    let mut client = Client::connect(&path).negotiated();
                    let (mut random, mut content_number_by_block) = (Random::new(number), vec![0; 256]);
                    for _ in 0..800 {
                        let block = random.below(256);
                        let version = random.below(DISTINCT_CONTENTS);
                        client.write((number * 256 + block) * BLOCK_BYTES, &content(version));
                        content_number_by_block[block as usize] = version;
                        let other = random.below(256);
                        let read = client.read((number * 256 + other) * BLOCK_BYTES, BLOCK_BYTES as u32);
                        assert!(
                            read == content(content_number_by_block[other as usize]),
                            "region {number}, block {other}"
                        );
                    }
                })
            })
            .collect();
        for thread in threads {
            thread.join().expect("its region is intact");
        }
        served.stop();
    }
}
