//! A drive with several content mechanisms that tests operate step by step. It records what was written to each logical
//! page, and the tests know which block is collected.

use wearwell::address::{Lpn, Ppn, RemapMode};
use wearwell::content::compress::CompressionOptions;
use wearwell::content::dedup::DedupOptions;
use wearwell::content::recycle::{RecycleOptions, Recycler};
use wearwell::data::mix_bits;
use wearwell::design::{
    DeltaOptions, MappingPart, Parts, Persistence, RecyclingPart, SharingOptions, page_map,
};
use wearwell::device::HostData;
use wearwell::flash_view::{FlashPageState, FlashStateView};
use wearwell::gc::GcOptions;
use wearwell::lifetime::{MechanismKind, MechanismSet};
use wearwell::logical_page_form::LogicalPageForm;
use wearwell::mapping::DemandPagedMapOptions;
use wearwell::nand::{Geometry, Nand as _, RetainedPageFields, SimNand};
use wearwell::sharing::counts::ReferenceCountForm;
use wearwell::sharing::reverse_map::ReverseMapKind;
use wearwell::stats::Stats;
use wearwell::store::{BlockState, Stream};
use wearwell::validity::{GeckoOptions, MergeMode, ValidityStoreKind};
use wearwell::{Device, DeviceOptions, Ftl};

use crate::common::{audit, geometry_without_superblocks, nvram_bytes};

/// Bytes per page.
pub const PAGE_BYTES: usize = 4096;
/// Number of logical pages of the device.
pub const LOGICAL_PAGES: u32 = 40;
/// Logical pages that are written only to fill blocks.
const FILLER_LPNS: std::ops::Range<u32> = 30..36;

/// Returns the bytes of version `version` of page `id`, of which `random` percent cannot be compressed. Versions differ
/// in 100 bytes.
pub fn page_bytes_of_version(id: u64, random: usize, version: u64) -> Vec<u8> {
    let noise = PAGE_BYTES * random / 100 / 8;
    let word = |k: usize| if k < noise { mix_bits(id << 16 | k as u64).to_le_bytes() } else { [id as u8; 8] };
    let mut bytes: Vec<u8> = (0..PAGE_BYTES / 8).flat_map(word).collect();
    if version > 0 {
        let at = version as usize * 112 % (PAGE_BYTES - 100);
        bytes[at..at + 100]
            .iter_mut()
            .zip(1..)
            .for_each(|(byte, k)| *byte ^= mix_bits(version << 32 | k) as u8 | 1);
    }
    bytes
}

/// Returns an incompressible page, different for every `id`.
pub fn incompressible_page(id: u64) -> Vec<u8> {
    page_bytes_of_version(id, 100, 0)
}

/// Returns a page that compresses so that four fit into two flash pages; its bytes differ for every `id`.
pub fn compressible_page(id: u64) -> Vec<u8> {
    page_bytes_of_version(id, 30, 0)
}

/// Returns the options for page validity in Logarithmic Gecko (on flash), with levels of size ratio 2.
pub fn gecko() -> ValidityStoreKind {
    ValidityStoreKind::Gecko(GeckoOptions {
        size_ratio: 2,
        parts_per_block: 1,
        merge_mode: MergeMode::MultiWay,
    })
}

/// Returns a design with these content mechanisms, whose map and page validity are in RAM on a battery. It starts GC
/// and the search for cold pages only if a test requests them.
pub fn design_with_metadata_in_battery_ram(kinds: &[MechanismKind]) -> Parts {
    let gc = GcOptions { background_gc_below_free_blocks: u32::MAX, ..GcOptions::default() };
    let mut parts = Parts { persistence: Persistence::BatteryRam, ..page_map(gc) };
    let schemes: MechanismSet = kinds.iter().copied().collect();
    let has = |kind| schemes.contains(kind);
    let options = RecycleOptions { capacity_entries: None, ..RecycleOptions::default() };
    let dedup = Some(DedupOptions { capacity_entries: None, must_verify_hits: true });
    let (reverse_map, refs) = (ReverseMapKind::Ideal, ReferenceCountForm::Sparse);
    let deltas = DeltaOptions {
        cold_scan_interval_writes: 0,
        access_count_table_entries: Some(64),
        ..DeltaOptions::default()
    };
    parts.content.recycle =
        has(MechanismKind::Recycle).then_some(RecyclingPart { options, must_verify_hits: true });
    parts.content.sharing = has(MechanismKind::Dedup).then_some(SharingOptions {
        reverse_map,
        reference_count_form: refs,
        dedup,
        has_atomic_remap_commands: false,
    });
    parts.content.delta = has(MechanismKind::Delta).then_some(deltas);
    parts.content.chunks = has(MechanismKind::Compression).then(CompressionOptions::default);
    parts
}

/// Changes a design so that its map is on flash behind a cache of `entries` entries.
pub fn with_map_on_flash(entries: u32, parts: Parts) -> Parts {
    Parts { mapping: MappingPart::Cached(DemandPagedMapOptions::with_cache_capacity(entries)), ..parts }
}

/// Changes a design so that its page validity is in Logarithmic Gecko (on flash).
pub fn with_validity_in_gecko(parts: Parts) -> Parts {
    Parts { validity: gecko(), ..parts }
}

/// Changes a design so that its map, or the dirty entries of it, are in NVRAM instead of in battery-backed RAM.
pub fn without_battery(parts: Parts) -> Parts {
    parts.without_battery()
}

/// Returns the design without a battery, with map and page validity on flash, that has these mechanisms.
pub fn design_with_metadata_on_flash(kinds: &[MechanismKind]) -> Parts {
    without_battery(with_validity_in_gecko(with_map_on_flash(6, design_with_metadata_in_battery_ram(kinds))))
}

/// Returns the geometry of the device: one pool with 40 blocks of eight pages.
fn geometry() -> Geometry {
    geometry_without_superblocks([1, 40, 8, PAGE_BYTES as u32])
}

/// Returns the sentence with which the engine refuses a design.
pub fn refusal(parts: &Parts) -> String {
    let nand = SimNand::new(geometry(), RetainedPageFields::ALL).with_nvram(nvram_bytes(&geometry()));
    Ftl::new(nand, LOGICAL_PAGES, parts).map(drop).expect_err("it is refused").to_string()
}

/// Device under test, with the bytes that each logical page must have.
pub struct Rig {
    /// Device under test.
    pub device: Device,
    /// Bytes that were last written to each logical page.
    contents: Vec<Vec<u8>>,
    /// Number of filler pages written so far.
    filler_pages_written: u64,
}

impl Rig {
    /// Creates an empty device of this design.
    pub fn new(parts: &Parts) -> Self {
        let nand = SimNand::new(geometry(), RetainedPageFields::ALL).with_nvram(nvram_bytes(&geometry()));
        let device = Device::new(nand, LOGICAL_PAGES, parts, DeviceOptions::default()).expect("it fits");
        Self { device, contents: vec![vec![0; PAGE_BYTES]; LOGICAL_PAGES as usize], filler_pages_written: 0 }
    }

    /// Audits the device; panics at the first violated invariant.
    pub fn audit(&mut self) {
        audit(&mut self.device);
    }

    /// Writes a logical page and audits the device.
    pub fn write(&mut self, lpn: u32, bytes: &[u8]) {
        let offset = u64::from(lpn) * PAGE_BYTES as u64;
        self.device.write(offset, PAGE_BYTES as u64, HostData::Bytes(bytes)).expect("there is room");
        self.contents[lpn as usize] = bytes.to_vec();
        self.audit();
    }

    /// Writes a logical page and flushes, so that the page is not buffered for a chunk.
    pub fn write_and_flush(&mut self, lpn: u32, bytes: &[u8]) {
        self.write(lpn, bytes);
        self.flush();
    }

    /// Writes the four logical pages from `first` on, which are compressed into one chunk.
    pub fn write_chunk(&mut self, first: u32) {
        (first..first + 4).for_each(|lpn| self.write(lpn, &compressible_page(u64::from(lpn))));
        let forms = self.view().form_of_lpn;
        let members = &forms[first as usize..first as usize + 4];
        assert!(members.iter().all(|&form| form == LogicalPageForm::CompressedInChunk), "{members:?}");
    }

    /// Trims a logical page and audits the device.
    pub fn trim(&mut self, lpn: u32) {
        self.device.trim(u64::from(lpn) * PAGE_BYTES as u64, PAGE_BYTES as u64).expect("a trim");
        self.contents[lpn as usize] = vec![0; PAGE_BYTES];
        self.audit();
    }

    /// Gives logical page `target` the content of `source` by a remap command, and audits the device.
    pub fn remap(&mut self, target: u32, source: u32) {
        let [to, from] = [target, source].map(|lpn| u64::from(lpn) * PAGE_BYTES as u64);
        self.device.remap(to, from, PAGE_BYTES as u64, RemapMode::Copy).expect("there is room");
        self.contents[target as usize] = self.contents[source as usize].clone();
        self.audit();
    }

    /// Flushes the device and audits it.
    pub fn flush(&mut self) {
        self.device.flush().expect("there is room");
        self.audit();
    }

    /// Reads a logical page, asserts that it holds what was last written to it, and audits the device.
    pub fn assert_page_holds_last_write(&mut self, lpn: u32) {
        let mut bytes = vec![0xa5; PAGE_BYTES];
        let offset = u64::from(lpn) * PAGE_BYTES as u64;
        self.device.read(offset, PAGE_BYTES as u64, &mut bytes).expect("a healthy medium reads");
        assert!(
            bytes == self.contents[lpn as usize],
            "logical page {lpn} does not hold what was written last"
        );
        self.audit();
    }

    /// Asserts that every logical page holds what was last written to it.
    pub fn assert_all_pages_hold_last_write(&mut self) {
        (0..LOGICAL_PAGES).for_each(|lpn| self.assert_page_holds_last_write(lpn));
    }

    /// Cuts power and recovers the device.
    pub fn lose_power(&mut self) {
        self.device.recover().expect("power stays on");
        self.audit();
    }

    /// Reads other logical pages, so that their map entries fill a small cache and evict all other entries.
    pub fn evict_map_entries(&mut self) {
        (20..30).for_each(|lpn| self.assert_page_holds_last_write(lpn));
    }

    /// Returns the counters of the device.
    pub fn stats(&self) -> &Stats {
        self.device.ftl().stats()
    }

    /// Returns the number of flash pages that were programmed.
    pub fn programs(&self) -> u64 {
        self.stats().total_programs()
    }

    /// Returns the recycler (the mechanism that revives dead pages) of the device.
    pub fn recycler(&self) -> &Recycler {
        self.device.ftl().recycler().expect("the design recycles")
    }

    /// Returns a snapshot of the flash: state of every page, block and logical page.
    pub fn view(&mut self) -> FlashStateView {
        self.device.flash_view().expect("a healthy medium reads")
    }

    /// Returns the flash page to which a logical page is mapped (its base page, if it is stored as a delta).
    pub fn ppn_of(&mut self, lpn: u32) -> Ppn {
        self.view().first_flash_page_of_lpn[lpn as usize].expect("it is stored")
    }

    /// Returns the form in which a logical page is stored: plain page, delta or chunk member, for example.
    pub fn form(&mut self, lpn: u32) -> LogicalPageForm {
        self.view().form_of_lpn[lpn as usize]
    }

    /// Returns the state of a flash page.
    pub fn state(&mut self, ppn: Ppn) -> FlashPageState {
        self.view().pages[ppn.index()].state
    }

    /// Returns the logical page that the spare area of a flash page names.
    pub fn spare_owner(&self, ppn: Ppn) -> Lpn {
        self.device.ftl().store().owner_in_oob(ppn)
    }

    /// Returns the erase count of the block of `ppn`.
    pub fn erases(&self, ppn: Ppn) -> u32 {
        let store = self.device.ftl().store();
        store.nand().erase_count(store.block_of(ppn))
    }

    /// Closes the block of `ppn`: writes unique contents to filler pages until the block is full, or runs GC if the
    /// block is the open block for GC copies. Then writes each filler page once more, so that fillers in the block are
    /// invalid.
    pub fn close_block_of(&mut self, ppn: Ppn) {
        let block = self.device.ftl().store().block_of(ppn);
        let mut rest = FILLER_LPNS.len();
        while rest > 0 {
            assert!(self.filler_pages_written < 10_000, "block {block} is never closed");
            let lpn = FILLER_LPNS.start + (self.filler_pages_written % FILLER_LPNS.len() as u64) as u32;
            self.filler_pages_written += 1;
            self.write_and_flush(lpn, &incompressible_page(1_000 + self.filler_pages_written));
            if self.device.ftl().store().blocks().state(block) == BlockState::Closed {
                rest -= 1;
            } else if self.view().blocks[block.index()].stream == Some(Stream::Gc) {
                self.device.ftl_mut().collect_in_background().expect("there is room");
                self.audit();
            }
        }
    }

    /// Closes the block of `ppn`, and collects victims until it has been collected.
    pub fn collect_block_of(&mut self, ppn: Ppn) {
        self.close_block_of(ppn);
        self.collect_closed_block_of(ppn);
    }

    /// Runs GC on one victim block after the other until the block of `ppn`, which is closed, has been collected and
    /// erased.
    pub fn collect_closed_block_of(&mut self, ppn: Ppn) {
        let before = self.erases(ppn);
        while self.erases(ppn) == before {
            let collected = self.device.ftl_mut().collect_in_background().expect("there is room");
            assert!(collected, "the block of page {ppn} has no invalid page");
            self.audit();
        }
    }
}
