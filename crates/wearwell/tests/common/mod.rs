//! Shared parts of the tests: tiny named devices (module `worlds`), the list of designs, a deterministic source of
//! operations, and a plain array with which every device must agree.
//!
//! A new design is added to all tests by one line in [`designs`]. Every run is determined by its seed. A failure prints
//! the design, the tiny device, the seed and the number of the operation, which suffice to repeat it.

mod designs;
pub mod drive;
mod operations;
mod worlds;

pub use designs::{
    DesignUnderTest, buffers_for_case, design_name_prefix, designs, designs_with_prefix, is_soak_run,
    test_case_interval,
};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

pub use operations::{Op, OperationGenerator, Random, SchemeSwitcher};
use wearwell::address::{Lpn, RemapMode};
use wearwell::data::{ContentDescriptor, Fingerprint, mix_bits};
use wearwell::design::Parts;
use wearwell::device::{HostData, SECTOR_BYTES};
use wearwell::nand::{
    AnyNand, CutOutcome, FaultProbabilities, FaultyNand, Geometry, PowerCutNand, RecordedOp, RecordingNand,
    RetainedPageFields, SimNand,
};
use wearwell::write_buffer::{WriteBufferOptions, WriteBufferPolicy};
use wearwell::{Device, DeviceOptions, Error, Result};
pub use worlds::{
    TinyDevice, accepts_logical_pages, geometry_without_superblocks, max_logical_pages, tiny_devices,
};

/// Bytes per sector, as a `usize`.
pub const SECTOR_LEN: usize = SECTOR_BYTES as usize;

/// Write buffers under test: none, and a few pages with each of the two policies.
pub const BUFFERS: [WriteBufferOptions; 3] = [
    WriteBufferOptions { capacity_pages: 0, policy: WriteBufferPolicy::Fifo },
    WriteBufferOptions { capacity_pages: 5, policy: WriteBufferPolicy::Fifo },
    WriteBufferOptions { capacity_pages: 4, policy: WriteBufferPolicy::Slru },
];

/// Bytes of NVRAM for reverse-map entries on the media under test. Some tens of entries fit, so that tests fill and
/// compact the NVRAM.
pub const NVRAM_BYTES: u64 = 1536;

/// Returns the bytes of NVRAM of a medium under test. They suffice for reverse-map entries, for the page in which a
/// reverse map on flash collects its entries, for a copy of the L2P map, and for a recovery from records in NVRAM. That
/// recovery needs notes (which data pages it has to examine) and a hash table of records of content mechanisms, four
/// per flash page.
pub fn nvram_bytes(geometry: &Geometry) -> u64 {
    let notes = 8 * (u64::from(geometry.page_bytes) + 4 * u64::from(geometry.allocation_pools()) + 3);
    let records = 8 * (4 * geometry.pages() + 32).div_ceil(4) * 5;
    NVRAM_BYTES.max(geometry.page_bytes as u64 + 8) + 8 * geometry.pages() + notes + records
}

/// Returns a medium with the geometry of the tiny device that retains the bytes and all other fields of every page.
pub fn nand_with_all_page_fields(tiny_device: &TinyDevice) -> SimNand {
    SimNand::new(tiny_device.geometry.clone(), RetainedPageFields::ALL)
        .with_nvram(nvram_bytes(&tiny_device.geometry))
}

/// Returns a medium that records its programs and erases, and that never fails.
pub fn recording_medium(medium: SimNand) -> PowerCutNand {
    medium_with_power_cut(medium, None, CutOutcome::NoEffect)
}

/// Returns the programs and erases that the medium of a device has executed, in order.
pub fn recorded_ops(device: &Device) -> &[RecordedOp] {
    let recording: Option<&RecordingNand> = faulty_nand(device).inner().downcast_ref();
    recording.expect("the medium records its operations").recorded_ops()
}

/// Returns the number of programs and erases that the medium of a device has made fail.
pub fn failures(device: &Device) -> u32 {
    faulty_nand(device).failures()
}

/// Returns the wrapper that makes programs and erases of a device fail.
fn faulty_nand(device: &Device) -> &FaultyNand {
    let faulty = device.ftl().store().nand().power_cut_nand().inner().downcast_ref();
    faulty.expect("programs and erases of the medium can fail")
}

/// Returns a medium whose power is cut at operation `cut_at`, and which never fails otherwise.
pub fn medium_with_power_cut(medium: SimNand, cut_at: Option<u64>, outcome: CutOutcome) -> PowerCutNand {
    PowerCutNand::new(
        FaultyNand::new(RecordingNand::new(medium), FaultProbabilities::default(), 0),
        cut_at,
        outcome,
    )
}

/// Returns a medium whose programs and erases fail as planned, and whose power is never cut.
pub fn medium_with_faults(medium: SimNand, plan: FaultProbabilities, seed: u64) -> PowerCutNand {
    PowerCutNand::new(FaultyNand::new(RecordingNand::new(medium), plan, seed), None, CutOutcome::NoEffect)
}

/// Returns a device with the logical size of the tiny device on the medium `nand`.
pub fn device(
    tiny_device: &TinyDevice,
    parts: &Parts,
    buffer: WriteBufferOptions,
    nand: impl Into<AnyNand>,
) -> Device {
    let logical = tiny_device.logical_pages(parts);
    Device::new(nand, logical, parts, DeviceOptions { buffer }).expect("a world fits every design")
}

/// Returns a device with half of the largest possible logical size, so that it can lose some blocks.
pub fn device_with_half_logical_size(
    tiny_device: &TinyDevice,
    parts: &Parts,
    buffer: WriteBufferOptions,
    nand: impl Into<AnyNand>,
) -> Device {
    let logical = (tiny_device.logical_pages(parts) / 2).max(1);
    Device::new(nand, logical, parts, DeviceOptions { buffer }).expect("it fits")
}

/// Returns the number of failed blocks that one pool (set of planes) of a [`device_with_half_logical_size`] tolerates.
/// Subtracted from its blocks are those for the logical pages, for all metadata (which may be in one pool), for the
/// blocks that the engine reserves, for the host's open block, and one spare block.
pub fn tolerable_block_failures(tiny_device: &TinyDevice, parts: &Parts) -> u32 {
    let (per_pool, block_pages) = (tiny_device.geometry.blocks_per_plane, tiny_device.geometry.block_pages());
    let flawless =
        device_with_half_logical_size(tiny_device, parts, BUFFERS[0], nand_with_all_page_fields(tiny_device));
    let data = flawless.ftl().logical_pages().div_ceil(block_pages * tiny_device.geometry.allocation_pools());
    let metadata = flawless.ftl().max_metadata_pages().div_ceil(u64::from(block_pages)) as u32;
    let kept = flawless.ftl().reserved_blocks_per_pool() as u32 + 2;
    per_pool.saturating_sub(data + metadata + kept)
}

/// Fills a device of the largest possible logical size, and overwrites it at random without trims. This leaves the
/// least possible spare space.
pub fn fill_and_overwrite_largest_device(parts: &Parts, geometry: &Geometry, what: &str) {
    let logical = max_logical_pages(geometry, parts);
    let nand =
        SimNand::new(geometry.clone(), parts.needed_retained_page_fields()).with_nvram(nvram_bytes(geometry));
    let mut device = Device::new(nand, logical, parts, DeviceOptions::default()).expect("it fits");
    let mut random = Random::new(19);
    let mut scene = FailureContext { run_name: what, tiny_device: "brim", seed: 19, operation_number: 0 };
    for operation in 0..20_000 {
        scene.operation_number = operation;
        let lpn = if operation < logical as u64 { operation } else { random.below(logical as u64) };
        let content = ContentDescriptor::of_fingerprint(Fingerprint(random.below(12)));
        device
            .write_page_descriptor(Lpn(lpn as u32), content)
            .unwrap_or_else(|error| panic!("{what}: {error}"));
        if operation % 64 == 0 {
            audit(&mut device);
        }
    }
}

/// Design, tiny device, seed and operation number of a test run. Prints them if the test panics, so that a failed
/// assertion deep in the engine can be reproduced.
pub struct FailureContext<'a> {
    /// Name of the design, or of the run.
    pub run_name: &'a str,
    /// Name of the tiny device on which the test runs.
    pub tiny_device: &'a str,
    /// Seed of the random operations.
    pub seed: u64,
    /// Number of the operation that is executed, from 0.
    pub operation_number: u64,
}

impl Drop for FailureContext<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let Self { run_name: what, tiny_device, seed, operation_number: operation } = self;
            eprintln!("replay: design {what}, world {tiny_device}, seed {seed}, operation {operation}");
        }
    }
}

/// Contents that the tests write: for each content id, the bytes of each sector of a page. Content 0 is zeros. An id
/// gives the same bytes for every logical page, so that pages with equal contents are common. Contents differ in 192
/// bytes of each sector, so that deltas between them are worth storing; deltas to or from zeros are not.
pub struct ContentPatterns {
    /// Bytes of the sectors of all contents, in order of content id and of position in the page.
    sectors: Vec<[u8; SECTOR_LEN]>,
    /// Number of sectors per page.
    sectors_per_page: usize,
}

impl ContentPatterns {
    /// Returns the contents `0..contents` of pages of `sectors_per_page` sectors. They are computed once and shared,
    /// because thousands of oracles use the same contents.
    pub fn computed_once(contents: usize, sectors_per_page: usize) -> Arc<Self> {
        /// Patterns that were computed before, by number of contents and sectors per page.
        static COMPUTED_PATTERNS: Mutex<BTreeMap<[usize; 2], Arc<ContentPatterns>>> =
            Mutex::new(BTreeMap::new());
        let mut known = COMPUTED_PATTERNS.lock().unwrap_or_else(PoisonError::into_inner);
        let patterns = known.entry([contents, sectors_per_page]);
        patterns.or_insert_with(|| Arc::new(Self::compute(contents, sectors_per_page))).clone()
    }

    /// Computes the bytes of the contents `0..contents` for pages of `sectors_per_page` sectors.
    fn compute(contents: usize, sectors_per_page: usize) -> Self {
        let sector = |k: usize| {
            let (id, position) = (k / sectors_per_page, k % sectors_per_page);
            let mut bytes = [0; SECTOR_LEN];
            if id > 0 {
                for (word, at) in bytes.chunks_exact_mut(8).zip(0u64..) {
                    let of_content = if at < 24 { id } else { 0 };
                    word.copy_from_slice(
                        &mix_bits((of_content * 256 + position) as u64 * 64 + at).to_le_bytes(),
                    );
                }
            }
            bytes
        };
        Self { sectors: (0..contents * sectors_per_page).map(sector).collect(), sectors_per_page }
    }

    /// Returns the bytes of content `id` in sector number `sector` of the device.
    pub fn sector(&self, id: u16, sector: u64) -> &[u8; SECTOR_LEN] {
        &self.sectors[id as usize * self.sectors_per_page + sector as usize % self.sectors_per_page]
    }
}

/// Expected contents of a device, as a content id for every sector.
pub struct Oracle {
    /// Bytes of each content id.
    pub patterns: Arc<ContentPatterns>,
    /// Expected content id of each sector of the device.
    content_ids: Vec<u16>,
    /// Number of sectors per page.
    sectors_per_page: u64,
    /// Memory for the bytes of a request, used again by each request.
    buffer: Vec<u8>,
}

impl Oracle {
    /// Creates the oracle (expected contents) of an empty device of `sectors` sectors, to which `contents` different
    /// contents are written.
    pub fn new(sectors: u64, sectors_per_page: u64, contents: usize) -> Self {
        Self {
            patterns: ContentPatterns::computed_once(contents, sectors_per_page as usize),
            content_ids: vec![0; sectors as usize],
            sectors_per_page,
            buffer: Vec::new(),
        }
    }

    /// Creates the oracle (expected contents) of an empty device, to which `contents` different contents are written.
    pub fn for_device(device: &Device, contents: usize) -> Self {
        let sectors_per_page = device.ftl().store().geometry().page_bytes as u64 / SECTOR_BYTES;
        Self::new(device.capacity_bytes() / SECTOR_BYTES, sectors_per_page, contents)
    }

    /// Returns the number of sectors of the device.
    pub fn sectors(&self) -> u64 {
        self.content_ids.len() as u64
    }

    /// Returns the number of sectors per page.
    pub fn sectors_per_page(&self) -> u64 {
        self.sectors_per_page
    }

    /// Returns the expected content ids of logical page `lpn`, one per sector.
    pub fn page_content_ids(&self, lpn: u64) -> &[u16] {
        let first = (lpn * self.sectors_per_page) as usize;
        &self.content_ids[first..first + self.sectors_per_page as usize]
    }

    /// Returns the bytes to be written for content `id` to `sectors` sectors from sector `first` on.
    pub fn content_bytes(&mut self, first: u64, sectors: u64, id: u16) -> &[u8] {
        self.buffer.clear();
        for sector in first..first + sectors {
            self.buffer.extend_from_slice(self.patterns.sector(id, sector));
        }
        &self.buffer
    }

    /// Records that the device accepted a write of content `id` to `sectors` sectors from sector `first` on.
    pub fn record_write(&mut self, first: u64, sectors: u64, id: u16) {
        self.content_ids[first as usize..(first + sectors) as usize].fill(id);
    }

    /// Records that the device accepted a trim of `sectors` sectors from sector `first` on. Pages that are whole in
    /// this range become zeros, pages that are partly in it keep their data.
    pub fn record_trim(&mut self, first: u64, sectors: u64) {
        let from = first.next_multiple_of(self.sectors_per_page);
        let to = (first + sectors) / self.sectors_per_page * self.sectors_per_page;
        if from < to {
            self.content_ids[from as usize..to as usize].fill(0);
        }
    }

    /// Records that the device accepted a remap of `pages` pages. The target pages get the contents that the source
    /// pages had before. Source pages of a relocation then hold nothing, unless they are also targets.
    pub fn record_remap(&mut self, target: u64, source: u64, pages: u64, mode: RemapMode) {
        let sectors = |page: u64| {
            (page * self.sectors_per_page) as usize..((page + pages) * self.sectors_per_page) as usize
        };
        let moved = self.content_ids[sectors(source)].to_vec();
        if target != source && mode == RemapMode::Relocate {
            self.content_ids[sectors(source)].fill(0);
        }
        self.content_ids[sectors(target)].copy_from_slice(&moved);
    }

    /// Reads a range of the device and compares it with the expected contents, sector by sector.
    pub fn compare_range(&mut self, device: &mut Device, first: u64, sectors: u64) -> Result<()> {
        let mut got = std::mem::take(&mut self.buffer);
        got.clear();
        // The buffer is filled with bytes that are no content, so that missing reads are noticed.
        got.resize(sectors as usize * SECTOR_LEN, 0xa5);
        device.read(first * SECTOR_BYTES, sectors * SECTOR_BYTES, &mut got)?;
        for (sector, bytes) in (first..).zip(got.chunks_exact(SECTOR_LEN)) {
            let id = self.content_ids[sector as usize];
            assert!(bytes == self.patterns.sector(id, sector), "sector {sector} does not hold content {id}");
        }
        self.buffer = got;
        Ok(())
    }

    /// Compares the whole device with the expected contents.
    pub fn compare_all_logical_pages(&mut self, device: &mut Device) -> Result<()> {
        self.compare_range(device, 0, self.sectors())
    }

    /// Executes an operation on the device, and records its effect if the device accepted it.
    pub fn apply(&mut self, device: &mut Device, op: Op) -> Result<()> {
        match op {
            Op::Write { first_sector: first, sectors, content_id: id } => {
                let bytes = self.content_bytes(first, sectors, id);
                device.write(first * SECTOR_BYTES, sectors * SECTOR_BYTES, HostData::Bytes(bytes))?;
                self.record_write(first, sectors, id);
            }
            Op::Read { first_sector: first, sectors } => self.compare_range(device, first, sectors)?,
            Op::Trim { first_sector: first, sectors } => {
                device.trim(first * SECTOR_BYTES, sectors * SECTOR_BYTES)?;
                self.record_trim(first, sectors);
            }
            Op::Remap { target, source, pages, mode } => {
                let page_bytes = self.sectors_per_page * SECTOR_BYTES;
                let remapped =
                    device.remap(target * page_bytes, source * page_bytes, pages * page_bytes, mode);
                // An atomic command that finds no room for its entries has changed nothing.
                if !matches!(remapped, Err(Error::NotAtomic { .. })) {
                    remapped?;
                    self.record_remap(target, source, pages, mode);
                }
            }
            Op::Flush => device.flush()?,
            Op::SetVictimPolicy(policy) => device.ftl_mut().set_victim_policy(policy),
            Op::SetFingerprintStore(policy, entries) => {
                device.ftl_mut().set_fingerprint_store_policy(policy, entries);
            }
            Op::SwitchMechanisms(running) => device.ftl_mut().switch_content_mechanisms(running)?,
        }
        Ok(())
    }
}

/// Compares all counters of a device with a recount from scratch; panics at a difference.
pub fn audit(device: &mut Device) {
    if let Err(violation) = device.ftl_mut().check() {
        panic!("audit: {violation}");
    }
}
