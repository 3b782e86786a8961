//! Tests that the snapshot of the flash (state of all pages and blocks) agrees with the counts of the engine, for every
//! design on every world (tiny device).

use common::{
    BUFFERS, OperationGenerator, Oracle, Random, SchemeSwitcher, audit, designs, device,
    geometry_without_superblocks, nand_with_all_page_fields,
};
use wearwell::address::{Lpn, RemapMode};
use wearwell::design::{SharingOptions, remap};
use wearwell::device::HostData;
use wearwell::flash_view::{FlashPageState, FlashStateView};
use wearwell::gc::GcOptions;
use wearwell::logical_page_form::LogicalPageForm;
use wearwell::nand::{Nand, PageKind, RetainedPageFields, SimNand};
use wearwell::sharing::counts::ReferenceCountForm;
use wearwell::sharing::reverse_map::ReverseMapKind;
use wearwell::store::BlockState;
use wearwell::{Device, DeviceOptions};

use crate::common;

/// Number of host operations of a run.
const OPERATIONS: u64 = 1_500;
/// Number of host operations between two comparisons.
const OPERATIONS_BETWEEN_COMPARISONS: u64 = 50;

/// Compares the snapshot of the flash with the engine's counts of pages and blocks, field by field. Returns the
/// snapshot.
fn compare_flash_view_with_engine(device: &mut Device, what: &str) -> FlashStateView {
    let stats = device.ftl().stats().clone();
    let view = device.flash_view().expect("a healthy medium reads");
    assert_eq!(*device.ftl().stats(), stats, "{what}: looking counts nothing");
    let (blocks, store) = (device.ftl().store().blocks(), device.ftl().store());
    let learns_at_once = !device.ftl().validity().is_on_flash() && !what.contains("lazy");
    for (block, seen) in (0..).map(wearwell::address::BlockId).zip(&view.blocks) {
        assert_eq!(seen.state, blocks.state(block), "{what}: state of block {block}");
        assert_eq!(seen.stream.is_some(), seen.state == BlockState::Open, "{what}: stream of block {block}");
        assert_eq!(seen.erases, store.nand().erase_count(block), "{what}: erases of block {block}");
        if learns_at_once && seen.state != BlockState::Erasing {
            assert_eq!(seen.valid_pages, blocks.valid_pages(block), "{what}: valid pages of block {block}");
        }
        assert!(
            seen.valid_pages <= blocks.valid_pages(block),
            "{what}: nobody forgets a valid page of block {block}"
        );
    }
    assert_mapping_matches_page_states(device, &view, what);
    view
}

/// Asserts that each mapped logical page has a valid flash page, and that each valid data page has a logical page.
fn assert_mapping_matches_page_states(device: &Device, view: &FlashStateView, what: &str) {
    let mut counted = vec![0; view.pages.len()];
    for (lpn, (place, form)) in view.first_flash_page_of_lpn.iter().zip(&view.form_of_lpn).enumerate() {
        let has_place = match form {
            LogicalPageForm::Hole => false,
            LogicalPageForm::BufferedInRam => place.is_some(),
            LogicalPageForm::InOwnFlashPage
            | LogicalPageForm::Shared
            | LogicalPageForm::Delta
            | LogicalPageForm::CompressedInChunk => true,
        };
        assert_eq!(place.is_some(), has_place, "{what}: {form:?} page {lpn}");
        if let Some(place) = place {
            assert_eq!(view.pages[place.index()].state, FlashPageState::Valid, "{what}: place of page {lpn}");
            counted[place.index()] += 1;
        }
    }
    for (page, count) in view.pages.iter().zip(counted) {
        if page.kind == Some(PageKind::Data) {
            assert_eq!(page.mapped_logical_pages, count, "{what}: referrers of a page of data");
            assert_eq!(page.state == FlashPageState::Valid, count > 0, "{what}: worth of a page of data");
        }
    }
    assert_eq!(view.first_flash_page_of_lpn.len(), device.ftl().logical_pages() as usize);
}

#[test]
fn the_flash_view_agrees_with_the_counters_of_the_engine() {
    let (mut shared, mut packed, mut deltas, mut recyclable) = (0, 0, 0, 0);
    for design in designs() {
        for tiny_device in design.tiny_devices_with_enough_space().iter().take(2) {
            let what = format!("{} on {}", design.name, tiny_device.name);
            let contents = design.distinct_content_count(9);
            let mut device =
                device(tiny_device, &design.parts, BUFFERS[0], nand_with_all_page_fields(tiny_device));
            let mut oracle = Oracle::for_device(&device, contents as usize);
            let (sectors, sectors_per_page) = (oracle.sectors(), oracle.sectors_per_page());
            let mut mix = OperationGenerator {
                random: Random::new(7),
                sectors,
                sectors_per_page,
                content_count: contents,
                changes_policies: true,
            };
            let mut switching =
                SchemeSwitcher { random: Random::new(8), schemes: design.switchable_schemes() };
            for operation in 0..OPERATIONS {
                let op = switching.draw().unwrap_or_else(|| mix.draw());
                oracle.apply(&mut device, op).unwrap_or_else(|error| panic!("{what}: {op:?}: {error}"));
                if operation % OPERATIONS_BETWEEN_COMPARISONS == 0 {
                    audit(&mut device);
                    let view = compare_flash_view_with_engine(&mut device, &what);
                    let forms = |form| view.form_of_lpn.iter().filter(|&&each| each == form).count();
                    shared += forms(LogicalPageForm::Shared);
                    packed += forms(LogicalPageForm::CompressedInChunk);
                    deltas += forms(LogicalPageForm::Delta);
                    recyclable +=
                        view.pages.iter().filter(|page| page.state == FlashPageState::Recyclable).count();
                }
            }
            oracle.compare_all_logical_pages(&mut device).expect("a healthy medium reads");
        }
    }
    if common::design_name_prefix().is_none() {
        assert!([shared, packed, deltas, recyclable].iter().all(|&seen| seen > 0), "every form is seen");
    }
}

#[test]
fn the_page_state_query_reports_unmapped_stored_and_shared_pages_without_counting_reads() {
    let geometry = geometry_without_superblocks([1, 16, 8, 512]);
    let sharing = SharingOptions {
        reverse_map: ReverseMapKind::Ideal,
        reference_count_form: ReferenceCountForm::Sparse,
        dedup: None,
        has_atomic_remap_commands: false,
    };
    let parts = remap(GcOptions::default(), sharing);
    let medium = SimNand::new(geometry, RetainedPageFields::ALL);
    let mut device = Device::new(medium, 20, &parts, DeviceOptions::default()).expect("it fits");
    let states = |device: &Device| [0, 1, 2].map(|lpn| device.logical_page_form(Lpn(lpn)));
    assert_eq!(states(&device), [LogicalPageForm::Hole; 3]);
    device.write(512, 512, HostData::Bytes(&[7; 512])).expect("there is room");
    assert_eq!(
        states(&device),
        [LogicalPageForm::Hole, LogicalPageForm::InOwnFlashPage, LogicalPageForm::Hole]
    );
    device.remap(1024, 512, 512, RemapMode::Copy).expect("it is in range");
    let before = device.ftl().stats().clone();
    assert_eq!(states(&device), [LogicalPageForm::Hole, LogicalPageForm::Shared, LogicalPageForm::Shared]);
    assert_eq!(*device.ftl().stats(), before);
    device.trim(512, 512).expect("it is in range");
    assert_eq!(
        states(&device),
        [LogicalPageForm::Hole, LogicalPageForm::Hole, LogicalPageForm::InOwnFlashPage]
    );
    assert!((device.ftl().available_spare_percent(0) - 100.0).abs() < f64::EPSILON);
}
