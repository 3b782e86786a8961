//! Tests of all sequences of a few operations on devices that are so small and full that garbage collection always
//! runs.
//!
//! Sequences have four operations. A tenth of them, chosen by their first operation and differently for each design,
//! have five. With `just soak`, all have six. There are two logical pages, contents A and B, reads and trims, and with
//! a write buffer of one page also flushes. The sequences form a tree. Each node is a copy of the device, which is
//! audited and compared with a plain array. A node with a fingerprint store takes thirty times the time of a page-map
//! node. So only two recycling designs are explored to this depth without a write buffer. All other recycling designs,
//! and all with a buffer, are explored to one operation less.

use common::{
    DesignUnderTest, FailureContext, SECTOR_LEN, accepts_logical_pages, audit, designs,
    geometry_without_superblocks, nvram_bytes, test_case_interval,
};
use wearwell::design::Parts;
use wearwell::device::HostData;
use wearwell::nand::{Geometry, RetainedPageFields, SimNand};
use wearwell::write_buffer::{WriteBufferOptions, WriteBufferPolicy};
use wearwell::{Device, DeviceOptions};

use crate::common;

/// Returns the number of host operations in the longest sequences that are executed: six with `WEARWELL_SOAK=1`,
/// otherwise five.
fn max_sequence_length() -> u32 {
    if common::is_soak_run() { 6 } else { 5 }
}

/// By default, of every this many possible first operations, one is followed by all sequences of full length, and the
/// others by sequences of one operation less.
const FIRST_OPS_PER_FULL_LENGTH_SEARCH: u64 = 10;

/// Recycling designs of which sequences of full length are executed: both victim policies, with and without fast
/// loading.
const RECYCLING_DESIGNS_WITH_FULL_LENGTH_SEARCH: [&str; 2] =
    ["recyclable prob rc-gc", "recyclable prob+fl greedy"];
/// Number of logical pages of the device.
const LOGICAL_PAGES: u32 = 2;
/// Bytes of the contents: zeros (number 0), A (1) and B (2).
const CONTENTS: [[u8; SECTOR_LEN]; 3] = [[0; SECTOR_LEN], [0xaa; SECTOR_LEN], [0xbb; SECTOR_LEN]];

/// Host operation; the test executes all sequences of these operations.
#[derive(Clone, Copy, Debug)]
enum Op {
    /// Write of a content to a page: number of the page, number of the content.
    Write(usize, usize),
    /// Read of the page with this number.
    Read(usize),
    /// Trim of the page with this number.
    Trim(usize),
    /// Flush of the write buffer.
    Flush,
}

/// Returns all operations of which sequences are made. Flushes are included if the device has a write buffer.
fn alphabet(buffered: bool) -> Vec<Op> {
    let mut ops = Vec::new();
    for lpn in 0..LOGICAL_PAGES as usize {
        ops.extend([Op::Write(lpn, 1), Op::Write(lpn, 2), Op::Read(lpn), Op::Trim(lpn)]);
    }
    ops.extend(buffered.then_some(Op::Flush));
    ops
}

/// Returns the smallest geometry that the design accepts. It has at least four blocks of two pages, or of four pages if
/// head and tail pages take two of them, and more blocks if metadata and open blocks need them.
fn geometry(parts: &Parts) -> Geometry {
    let layouts = [2, 4]
        .into_iter()
        .flat_map(|pages| (4..16).map(move |blocks| geometry_without_superblocks([1, blocks, pages, 512])));
    layouts
        .into_iter()
        .find(|layout| accepts_logical_pages(layout, parts, LOGICAL_PAGES))
        .expect("a small device holds two pages")
}

/// Node of the search tree of operation sequences: a device after a sequence, with the contents that it must have.
#[derive(Clone)]
struct OperationSequenceNode {
    /// Device after the operations.
    device: Device,
    /// Number of the expected content of each logical page.
    expected_content_numbers: [usize; LOGICAL_PAGES as usize],
}

impl OperationSequenceNode {
    /// Creates the device from which all operation sequences start (the root of their tree): both logical pages were
    /// written several times, and only the blocks that the engine reserves are free.
    fn new(design: &DesignUnderTest, buffer: WriteBufferOptions) -> Self {
        let geometry = geometry(&design.parts);
        let nand = SimNand::new(geometry.clone(), RetainedPageFields::ALL).with_nvram(nvram_bytes(&geometry));
        let device =
            Device::new(nand, LOGICAL_PAGES, &design.parts, DeviceOptions { buffer }).expect("it fits");
        let mut node = Self { device, expected_content_numbers: [0; LOGICAL_PAGES as usize] };
        for k in 0..9 {
            node.perform(Op::Write(k % 2, 1 + k % 3 % 2));
        }
        node
    }

    /// Executes an operation on the device and records its effect; a read is compared.
    fn perform(&mut self, op: Op) {
        /// Bytes per page, which is one sector.
        const BYTES: u64 = SECTOR_LEN as u64;
        let Self { device, expected_content_numbers } = self;
        let done = match op {
            Op::Write(lpn, id) => {
                expected_content_numbers[lpn] = id;
                device.write(lpn as u64 * BYTES, BYTES, HostData::Bytes(&CONTENTS[id]))
            }
            Op::Read(lpn) => {
                compare(device, expected_content_numbers, lpn);
                Ok(())
            }
            Op::Trim(lpn) => {
                expected_content_numbers[lpn] = 0;
                device.trim(lpn as u64 * BYTES, BYTES)
            }
            Op::Flush => device.flush(),
        };
        done.unwrap_or_else(|error| panic!("{op:?}: {error}"));
    }

    /// Executes all sequences of `depth` more operations, each on a copy of this node's device. Returns the number of
    /// nodes (devices after an operation) visited.
    fn execute_all_sequences(&self, ops: &[Op], depth: u32, scene: &mut FailureContext<'_>) -> u64 {
        (1..).zip(ops).map(|(digit, _)| self.execute_sequences_beginning_with(digit, ops, depth, scene)).sum()
    }

    /// Executes all sequences of `depth` more operations that begin with operation number `digit` of `ops`, counted
    /// from 1. Returns the number of nodes (devices after an operation) visited.
    fn execute_sequences_beginning_with(
        &self,
        digit: u64,
        ops: &[Op],
        depth: u32,
        scene: &mut FailureContext<'_>,
    ) -> u64 {
        // The path from the root as a decimal number: one digit per operation, its position among the possible
        // operations.
        scene.operation_number = scene.operation_number * 10 + digit;
        let mut next = self.clone();
        next.perform(ops[digit as usize - 1]);
        audit(&mut next.device);
        let mut visited = 1;
        if depth > 1 {
            visited += next.execute_all_sequences(ops, depth - 1, scene);
        } else {
            // Only leaves are compared by reads, because reads change access counts.
            (0..LOGICAL_PAGES as usize)
                .for_each(|lpn| compare(&mut next.device, &next.expected_content_numbers, lpn));
        }
        scene.operation_number /= 10;
        visited
    }
}

/// Reads a page and asserts that it holds its expected content.
fn compare(device: &mut Device, expected_content_numbers: &[usize], lpn: usize) {
    let mut got = [0xa5; SECTOR_LEN];
    device.read((lpn * SECTOR_LEN) as u64, SECTOR_LEN as u64, &mut got).expect("a healthy medium reads");
    assert!(
        got == CONTENTS[expected_content_numbers[lpn]],
        "page {lpn} does not hold content {}",
        expected_content_numbers[lpn]
    );
}

/// Executes all sequences of operations on every design with this write buffer.
fn check_every_sequence(buffer: WriteBufferOptions) {
    let ops = alphabet(buffer.capacity_pages > 0);
    let (mut nodes, mut leaves, mut victims) = (0, 0, 0);
    for (number, design) in (0u64..).zip(designs()) {
        let root = OperationSequenceNode::new(&design, buffer);
        let mut scene =
            FailureContext { run_name: design.name, tiny_device: "4 blocks", seed: 0, operation_number: 0 };
        let recycles = root.device.ftl().recycler().is_some();
        let deep = !recycles
            || (buffer.capacity_pages == 0
                && RECYCLING_DESIGNS_WITH_FULL_LENGTH_SEARCH.contains(&design.name));
        let depth = if deep { max_sequence_length() } else { max_sequence_length() - 1 };
        for first in 1..=ops.len() as u64 {
            let is_shorter =
                !(number + first).is_multiple_of(test_case_interval(FIRST_OPS_PER_FULL_LENGTH_SEARCH));
            let depth = depth - u32::from(is_shorter);
            nodes += root.execute_sequences_beginning_with(first, &ops, depth, &mut scene);
            leaves += (ops.len() as u64).pow(depth - 1);
        }
        victims += root.device.ftl().stats().gc_victims;
    }
    println!("{nodes} nodes, {leaves} sequences");
    assert!(nodes > leaves && victims > 0);
}

#[test]
fn every_short_request_sequence_without_a_write_buffer_matches_a_plain_array() {
    check_every_sequence(WriteBufferOptions::default());
}

#[test]
fn every_short_request_sequence_with_a_one_page_write_buffer_matches_a_plain_array() {
    check_every_sequence(WriteBufferOptions { capacity_pages: 1, policy: WriteBufferPolicy::Fifo });
}
