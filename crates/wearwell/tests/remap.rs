//! Tests of the host's remap command (gives pages the contents of other pages). Random remaps among writes and trims
//! give the same contents as on a plain array, on every design, with and without a write buffer. Further tests fix the
//! cases that the definition of the command must decide.

use common::{
    FailureContext, Oracle, Random, TinyDevice, audit, buffers_for_case, designs, device,
    nand_with_all_page_fields, tiny_devices,
};
use wearwell::address::RemapMode::{self, Copy, Relocate};
use wearwell::device::{HostData, SECTOR_BYTES};
use wearwell::write_buffer::{WriteBufferOptions, WriteBufferPolicy};
use wearwell::{Device, Error};

use crate::common;

/// Number of distinct contents that a run writes.
const CONTENTS: u16 = 9;
/// Modes of a remap: the source keeps its content (copy) or is deallocated (relocate).
const MODES: [RemapMode; 2] = [Copy, Relocate];

/// Returns the world (tiny device) with this name.
fn tiny_device_by_name(name: &str) -> TinyDevice {
    tiny_devices().into_iter().find(|tiny_device| tiny_device.name == name).expect("a known world")
}

/// Device under test and its model: an array with the content id of each logical page, which is 0 for a page that holds
/// nothing or zeros.
struct Pair {
    /// Device under test.
    device: Device,
    /// Bytes of each content id, and the expected contents for the comparison with the device.
    oracle: Oracle,
    /// Expected content id of each logical page.
    expected_content_ids: Vec<u16>,
    /// Number of distinct contents that are written.
    distinct_content_count: u16,
}

impl Pair {
    /// Creates an empty device of this design on the world (tiny device), with its model.
    fn new(tiny_device: &TinyDevice, design: &common::DesignUnderTest, buffer: WriteBufferOptions) -> Self {
        let device = device(tiny_device, &design.parts, buffer, nand_with_all_page_fields(tiny_device));
        let distinct_content_count = design.distinct_content_count(CONTENTS);
        let oracle = Oracle::for_device(&device, distinct_content_count as usize);
        let expected_content_ids = vec![0; device.ftl().logical_pages() as usize];
        Self { device, oracle, expected_content_ids, distinct_content_count }
    }

    /// Returns a small device of the first design, with its model. Its logical pages from page 0 on hold the contents
    /// `expected_content_ids` (0: not written).
    fn with_contents(expected_content_ids: &[u16], buffer_pages: u32) -> Self {
        let buffer = WriteBufferOptions { capacity_pages: buffer_pages, policy: WriteBufferPolicy::Fifo };
        let mut pair = Self::new(&tiny_device_by_name("slc"), &designs()[0], buffer);
        for (page, &id) in (0..).zip(expected_content_ids).filter(|&(_, &id)| id > 0) {
            pair.write(page, id);
        }
        pair
    }

    /// Returns the number of logical pages.
    fn logical_pages(&self) -> u64 {
        self.expected_content_ids.len() as u64
    }

    /// Returns the bytes per page.
    fn page_bytes(&self) -> u64 {
        self.oracle.sectors_per_page() * SECTOR_BYTES
    }

    /// Writes content `id` to a logical page of device and model.
    fn write(&mut self, page: u64, id: u16) {
        let sectors = self.oracle.sectors_per_page();
        let bytes = self.oracle.content_bytes(page * sectors, sectors, id);
        let (offset, len) = (page * sectors * SECTOR_BYTES, sectors * SECTOR_BYTES);
        self.device.write(offset, len, HostData::Bytes(bytes)).expect("a write");
        self.expected_content_ids[page as usize] = id;
    }

    /// Trims a logical page of device and model.
    fn trim(&mut self, page: u64) {
        let page_bytes = self.page_bytes();
        self.device.trim(page * page_bytes, page_bytes).expect("a trim");
        self.expected_content_ids[page as usize] = 0;
    }

    /// Executes a remap on the device and on the model. In the model the source pages are copied, deallocated if they
    /// are relocated, and then the copies are written to the target pages.
    fn remap(&mut self, target: u64, source: u64, pages: u64, mode: RemapMode) {
        let page_bytes = self.page_bytes();
        let remapped = self.device.remap(target * page_bytes, source * page_bytes, pages * page_bytes, mode);
        if let Err(Error::NotAtomic { .. }) = remapped {
            return;
        }
        remapped.expect("a remap of whole pages inside the device");
        let range = |first: u64| first as usize..(first + pages) as usize;
        let aside = self.expected_content_ids[range(source)].to_vec();
        if mode == Relocate && target != source {
            self.expected_content_ids[range(source)].fill(0);
        }
        self.expected_content_ids[range(target)].copy_from_slice(&aside);
    }

    /// Asserts that every byte of the device agrees with the model array.
    #[track_caller]
    fn assert_equal(&mut self) {
        let sectors = self.oracle.sectors_per_page();
        for (page, &id) in (0..).zip(&self.expected_content_ids) {
            self.oracle.record_write(page * sectors, sectors, id);
        }
        self.oracle.compare_all_logical_pages(&mut self.device).expect("a healthy medium reads");
        audit(&mut self.device);
    }

    /// Executes a random write, trim, flush or remap on device and model.
    fn execute_random_operation(&mut self, random: &mut Random) {
        let page = random.below(self.logical_pages());
        match random.below(10) {
            0..5 => self.write(page, random.below(self.distinct_content_count as u64) as u16),
            5 => self.trim(page),
            6 => self.device.flush().expect("a flush"),
            _ => {
                let pages = 1 + random.below(6.min(self.logical_pages()));
                // Half of the sources are near the target, so that ranges overlap.
                let source = if random.is_true_with_percent(50) {
                    page + random.below(5)
                } else {
                    random.below(self.logical_pages())
                };
                let last = self.logical_pages() - pages;
                self.remap(page.min(last), source.min(last), pages, random.pick(&MODES));
            }
        }
    }
}

/// Executes random operations with many remaps on every design, on the world (tiny device) `name`, and compares all
/// contents.
fn random_remaps_on(name: &str, operations: u64) {
    let tiny_device = tiny_device_by_name(name);
    for (number, design) in
        (0u64..).zip(designs()).filter(|(_, design)| design.fits_on_tiny_device(&tiny_device))
    {
        for (k, buffer) in (0u64..).zip(buffers_for_case(number)) {
            let seed = 100 * number + k;
            let mut pair = Pair::new(&tiny_device, &design, buffer);
            let mut random = Random::new(seed);
            let mut scene =
                FailureContext { run_name: design.name, tiny_device: name, seed, operation_number: 0 };
            for operation in 0..operations {
                scene.operation_number = operation;
                pair.execute_random_operation(&mut random);
                if operation % 64 == 0 {
                    pair.assert_equal();
                }
            }
            pair.assert_equal();
            assert!(pair.device.ftl().stats().gc_victims > 0, "garbage collection has to be at work");
        }
    }
}

#[test]
fn every_design_remaps_like_a_plain_map_on_a_tiny_device() {
    random_remaps_on("tiny", 20_000);
}

#[test]
fn every_design_remaps_like_a_plain_map_on_many_planes() {
    random_remaps_on("many_planes", 20_000);
}

#[test]
fn every_design_remaps_like_a_plain_map_on_superblocks() {
    random_remaps_on("superblocks", 10_000);
}

#[test]
fn a_remap_copy_keeps_its_source_and_a_relocation_deallocates_it() {
    for (mode, expected) in [(Copy, [1, 2, 1, 2]), (Relocate, [0, 0, 1, 2])] {
        let mut pair = Pair::with_contents(&[1, 2, 3, 4], 0);
        pair.remap(2, 0, 2, mode);
        assert_eq!(pair.expected_content_ids[..4], expected);
        pair.assert_equal();
    }
}

#[test]
fn a_remap_of_an_unmapped_source_deallocates_the_target() {
    for mode in MODES {
        let mut pair = Pair::with_contents(&[1, 0, 3], 0);
        let trims = pair.device.ftl().stats().host_page_trims;
        pair.remap(0, 1, 1, mode);
        assert_eq!(pair.expected_content_ids[..3], [0, 0, 3]);
        assert_eq!(pair.device.ftl().stats().host_page_trims, trims + 1);
        pair.assert_equal();
    }
}

#[test]
fn a_remap_of_a_page_to_itself_costs_nothing() {
    for mode in MODES {
        let mut pair = Pair::with_contents(&[1, 2, 3], 0);
        let before = pair.device.ftl().stats().clone();
        pair.remap(0, 0, 3, mode);
        assert_eq!(pair.device.ftl().stats().total_programs(), before.total_programs());
        assert_eq!(pair.device.ftl().stats().host_page_trims, before.host_page_trims);
        assert_eq!(pair.expected_content_ids[..3], [1, 2, 3]);
        pair.assert_equal();
    }
}

#[test]
fn overlapping_remap_copies_read_the_source_as_it_was() {
    for (target, source, expected) in
        [(1, 0, [1, 1, 2, 3, 5]), (0, 1, [2, 3, 4, 4, 5]), (2, 0, [1, 2, 1, 2, 3])]
    {
        let mut pair = Pair::with_contents(&[1, 2, 3, 4, 5], 0);
        pair.remap(target, source, 3, Copy);
        assert_eq!(pair.expected_content_ids[..5], expected);
        pair.assert_equal();
    }
}

#[test]
fn overlapping_relocations_deallocate_source_pages_outside_the_target() {
    for (target, source, expected) in
        [(1, 0, [0, 1, 2, 3, 5]), (0, 1, [2, 3, 4, 0, 5]), (2, 0, [0, 0, 1, 2, 3])]
    {
        let mut pair = Pair::with_contents(&[1, 2, 3, 4, 5], 0);
        pair.remap(target, source, 3, Relocate);
        assert_eq!(pair.expected_content_ids[..5], expected);
        pair.assert_equal();
    }
}

/// Pages of source and target that are in the write buffer are written to flash before the remap, and no other buffered
/// pages.
#[test]
fn a_remap_first_writes_out_the_buffered_pages_of_both_ranges_only() {
    let mut pair = Pair::with_contents(&[1, 2, 3, 4, 5], 5);
    assert_eq!(pair.device.buffered_pages(), 5);
    pair.remap(0, 2, 2, Copy);
    assert_eq!(pair.device.buffered_pages(), 1, "page 4 lies in neither range");
    assert_eq!(pair.expected_content_ids[..5], [3, 4, 3, 4, 5]);
    pair.assert_equal();
}

/// If only a part of a page is in the write buffer, a remap of the page first reads the other part and writes the whole
/// page.
#[test]
fn a_remap_completes_a_partly_written_buffered_page_first() {
    let mut pair = Pair::with_contents(&[1, 2], 4);
    pair.device.flush().expect("a flush");
    let sectors = pair.oracle.sectors_per_page();
    let bytes = pair.oracle.content_bytes(0, 1, 7).to_vec();
    pair.device.write(0, SECTOR_BYTES, HostData::Bytes(&bytes)).expect("one sector");
    let page_bytes = pair.page_bytes();
    pair.device.remap(page_bytes, 0, page_bytes, Relocate).expect("one page");
    pair.oracle.record_write(sectors, sectors, 1);
    pair.oracle.record_write(sectors, 1, 7);
    pair.oracle.compare_all_logical_pages(&mut pair.device).expect("a healthy medium reads");
}

#[test]
fn remaps_of_partial_pages_or_beyond_the_end_are_refused() {
    let mut pair = Pair::with_contents(&[1, 2, 3], 0);
    let (page, end) = (pair.page_bytes(), pair.device.capacity_bytes());
    for (target, source, len) in [(1, 0, page), (page, 512 % page + 1, page), (0, page, page - 1)] {
        let refused = pair.device.remap(target, source, len, Copy);
        assert!(matches!(refused, Err(Error::NotWholePages { .. })), "{refused:?}");
    }
    for (target, source, len) in [(end - page, 0, 2 * page), (0, end, page), (0, 0, end + page)] {
        let refused = pair.device.remap(target, source, len, Copy);
        assert!(matches!(refused, Err(Error::OutOfRange { .. })), "{refused:?}");
    }
    pair.device.remap(end, end, 0, Relocate).expect("nothing is remapped");
    pair.assert_equal();
}

/// A design that cannot map a page without a program executes a remap as a read and a write of each page.
#[test]
fn a_remap_executed_as_writes_costs_a_read_and_a_program_per_page() {
    let mut pair = Pair::with_contents(&[1, 2, 3], 0);
    let before = pair.device.ftl().stats().clone();
    pair.remap(10, 0, 3, Relocate);
    let after = pair.device.ftl().stats();
    assert_eq!(after.host_page_reads - before.host_page_reads, 3);
    assert_eq!(after.host_page_writes - before.host_page_writes, 3);
    assert_eq!(after.host_page_trims - before.host_page_trims, 3);
}
