//! Tests of the elimination of silent writes (host writes of the content that the page already has): what such a write
//! costs, and when it must be programmed nevertheless.

use common::{audit, geometry_without_superblocks};
use wearwell::address::{Lpn, Ppn};
use wearwell::data::{ContentDescriptor, Fingerprint};
use wearwell::design::{Parts, integrated, page_map};
use wearwell::device::HostData;
use wearwell::gc::GcOptions;
use wearwell::lifetime::MechanismKind;
use wearwell::nand::{FaultInjectable, Nand, Oob, RetainedPageFields, SimNand};
use wearwell::operation::Cause;
use wearwell::{Device, DeviceOptions};

use crate::common;

/// Bytes per page.
const PAGE: usize = 4096;

/// Returns a device that eliminates silent writes, on a medium that retains the page fields `retain`.
fn device(mut parts: Parts, retain: RetainedPageFields) -> Device {
    parts.content.stateless_mechanisms = parts.content.stateless_mechanisms.with(MechanismKind::Silent);
    let nand = SimNand::new(geometry_without_superblocks([1, 12, 8, PAGE as u32]), retain);
    Device::new(nand, 40, &parts, DeviceOptions::default()).expect("it fits")
}

/// Writes a logical page all of whose bytes are `byte`.
fn write(device: &mut Device, lpn: u64, byte: u8) {
    device.write(lpn * PAGE as u64, PAGE as u64, HostData::Bytes(&[byte; PAGE])).expect("there is room");
}

/// Returns the numbers of programs, of reads for content mechanisms, and of writes that changed nothing.
fn program_read_and_unchanged_write_counts(device: &Device) -> (u64, u64, u64) {
    let stats = device.ftl().stats();
    (stats.total_programs(), stats.reads[Cause::ContentMechanism as usize], stats.unchanged_writes)
}

#[test]
fn a_silent_write_costs_a_read_and_no_program() {
    let mut device = device(page_map(GcOptions::default()), RetainedPageFields::ALL);
    write(&mut device, 3, 7);
    assert_eq!(
        program_read_and_unchanged_write_counts(&device),
        (1, 0, 0),
        "a page that was never written is not compared"
    );
    write(&mut device, 3, 7);
    assert_eq!(program_read_and_unchanged_write_counts(&device), (1, 1, 1));
    write(&mut device, 3, 8);
    assert_eq!(
        program_read_and_unchanged_write_counts(&device),
        (2, 2, 1),
        "another content is programmed after the comparison"
    );
    audit(&mut device);
}

#[test]
fn writes_of_equal_descriptors_are_silent_like_writes_of_equal_bytes() {
    let mut device = device(
        page_map(GcOptions::default()),
        RetainedPageFields { keeps_fingerprints: true, ..RetainedPageFields::default() },
    );
    for id in [5, 5, 6, 5] {
        device
            .write_page_descriptor(Lpn(0), ContentDescriptor::of_fingerprint(Fingerprint(id)))
            .expect("there is room");
    }
    assert_eq!(program_read_and_unchanged_write_counts(&device), (3, 3, 1));
}

/// A trimmed page reads as zeros, and no flash page holds its old content any more. So a write of the old content, or
/// of zeros, is no silent write and is programmed.
#[test]
fn a_trimmed_page_is_programmed_even_with_its_old_content() {
    let mut device = device(page_map(GcOptions::default()), RetainedPageFields::ALL);
    write(&mut device, 3, 7);
    device.trim(3 * PAGE as u64, PAGE as u64).expect("there is room");
    write(&mut device, 3, 7);
    assert_eq!(program_read_and_unchanged_write_counts(&device), (2, 0, 0));
}

/// An unreadable page cannot be compared with the new content, and the write is what makes the page readable again.
#[test]
fn a_write_repairs_an_unreadable_page_with_the_same_content() {
    let mut device = device(page_map(GcOptions::default()), RetainedPageFields::ALL);
    write(&mut device, 3, 7);
    let nand = device.ftl_mut().store_mut().nand_mut();
    let holds_it = |oob: Oob| oob.kind.is_host_data() && oob.owner == 3;
    let page = (0..96).map(Ppn).find(|&ppn| nand.probe_page(ppn).ok().flatten().is_some_and(holds_it));
    nand.make_uncorrectable(page.expect("the page was programmed"));
    write(&mut device, 3, 7);
    assert_eq!(
        (
            program_read_and_unchanged_write_counts(&device).0,
            program_read_and_unchanged_write_counts(&device).2
        ),
        (2, 0)
    );
    let mut bytes = vec![0; PAGE];
    device.read(3 * PAGE as u64, PAGE as u64, &mut bytes).expect("it was written again");
    assert_eq!(bytes, [7; PAGE]);
    audit(&mut device);
}

/// The newest content of a logical page may be buffered in RAM for a compressed chunk. The write is compared there,
/// without a flash read.
#[test]
fn silent_write_detection_compares_a_buffered_page_in_ram() {
    let mut device = device(integrated(GcOptions::default(), None, true), RetainedPageFields::ALL);
    write(&mut device, 3, 7);
    write(&mut device, 3, 7);
    assert_eq!(program_read_and_unchanged_write_counts(&device), (0, 0, 1));
    write(&mut device, 3, 8);
    write(&mut device, 3, 7);
    assert_eq!(
        program_read_and_unchanged_write_counts(&device).2,
        1,
        "the content before the newest one does not count"
    );
    assert_eq!(device.ftl().logical_pages_awaiting_compression(), 1);
}

/// While the mechanism is off, one page in 64 is compared, so that the mechanism can be switched on when it would save
/// writes.
#[test]
fn silent_write_detection_samples_one_write_in_64_while_switched_off() {
    let mut device = device(page_map(GcOptions::default()), RetainedPageFields::ALL);
    device.ftl_mut().switch_content_mechanisms([].into_iter().collect()).expect("nothing is buffered");
    for _ in 0..6401 {
        write(&mut device, 3, 7);
    }
    let (programs, reads, unchanged) = program_read_and_unchanged_write_counts(&device);
    assert!(programs >= 6401, "all are programmed");
    assert!((64..=128).contains(&reads), "{reads} comparisons");
    assert_eq!(unchanged, 0);
}
