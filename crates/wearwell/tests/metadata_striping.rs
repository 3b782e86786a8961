//! Tests of the striping of metadata: pages of maps and of page validity visit the pools (sets of planes) in turn.

use std::collections::BTreeSet;

use wearwell::address::Lpn;
use wearwell::data::{ContentDescriptor, Fingerprint};
use wearwell::design::{DftlOptions, GeckoFtlOptions, Parts, dftl, geckoftl};
use wearwell::gc::GcOptions;
use wearwell::nand::{RetainedPageFields, SimNand};
use wearwell::store::Stream;
use wearwell::validity::{GeckoOptions, MergeMode};
use wearwell::{Device, DeviceOptions};

use crate::common::{Random, audit, geometry_without_superblocks};

/// Number of pools (sets of planes) of the drive.
const POOLS: u32 = 8;
/// Options of Logarithmic Gecko.
const SMALL_GECKO: GeckoOptions =
    GeckoOptions { size_ratio: 2, parts_per_block: 1, merge_mode: MergeMode::MultiWay };
/// Number of logical pages of the drive.
const LOGICAL_PAGES: u32 = 2600;

/// Writes random pages, and returns for each of 50 later moments the number of pools in which `stream` has an open block.
fn numbers_of_pools_with_open_block(parts: &Parts, stream: Stream) -> Vec<usize> {
    let geometry = geometry_without_superblocks([POOLS, 60, 8, 512]);
    let medium = SimNand::new(geometry, RetainedPageFields::default());
    let mut drive = Device::new(medium, LOGICAL_PAGES, parts, DeviceOptions::default()).expect("it fits");
    let mut random = Random::new(5);
    let mut write = |drive: &mut Device, count: u32| {
        for fingerprint in 1..=count {
            let lpn = Lpn(random.below(LOGICAL_PAGES.into()) as u32);
            let content = ContentDescriptor::of_fingerprint(Fingerprint(fingerprint.into()));
            drive.write_page_descriptor(lpn, content).expect("there is room");
        }
        audit(drive);
    };
    write(&mut drive, 20_000);
    let observe = |_| {
        write(&mut drive, 50);
        let view = drive.ftl_mut().flash_view().expect("power is on");
        let open = view.blocks.iter().enumerate().filter(|(_, block)| block.stream == Some(stream));
        open.map(|(block, _)| block % POOLS as usize).collect::<BTreeSet<_>>().len()
    };
    (0..50).map(observe).collect()
}

/// Striped, translation pages and validity pages have an open block in nearly every pool. Otherwise one pool or, after a
/// collection of metadata in another pool, two or three receive them.
#[test]
fn striped_metadata_has_open_blocks_in_all_pools_and_other_metadata_in_few() {
    let gecko = geckoftl(GcOptions::default(), GeckoFtlOptions { cache_entries: 64, gecko: SMALL_GECKO });
    for (name, unstriped, stream) in [
        ("dftl", dftl(GcOptions::default(), DftlOptions { cache_entries: 64 }), Stream::Translation),
        ("geckoftl", gecko, Stream::Validity),
    ] {
        for stripes_metadata in [false, true] {
            let parts = Parts { gc: GcOptions { stripes_metadata, ..unstriped.gc }, ..unstriped.clone() };
            let pools = numbers_of_pools_with_open_block(&parts, stream);
            let mean = pools.iter().sum::<usize>() as f64 / pools.len() as f64;
            assert_eq!(mean > 6.0, stripes_metadata, "{name}: {pools:?}");
            assert_eq!(mean < 3.0, !stripes_metadata, "{name}: {pools:?}");
        }
    }
}
