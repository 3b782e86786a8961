//! Fixtures of the tests of images: specifications of small devices, files in memory whose page cache may be lost, and
//! the exact oracle of page versions.

use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use wearwell::Result;
use wearwell_config::Config;
use wearwell_serve::LiveDevice;
use wearwell_serve::image::{
    Backing, Durability, FileNand, Image, ImageFile, ImageOpenOptions, ImageSpecification,
};

use crate::versions;
pub use crate::versions::{BlockContent, NOTHING, OWNER_OF_SHARED_CONTENT, page_of};

/// Names of the designs that an image can store.
pub const DESIGNS: [&str; 10] = [
    "page-map",
    "recyclable",
    "remap",
    "delta",
    "integrated",
    "dftl",
    "wearwell",
    "lazyftl",
    "ib-ftl",
    "geckoftl",
];

/// Options that open an image with durability `process`: acknowledged data survives the end of the server process.
pub const PROCESS_DURABILITY: ImageOpenOptions = ImageOpenOptions { durability: Some(Durability::Process) };
/// Options that open an image with durability `host`: flushed data also survives a crash of the server machine.
pub const HOST_DURABILITY: ImageOpenOptions = ImageOpenOptions { durability: Some(Durability::Host) };

/// Returns the specification of a device of some hundred pages, so that garbage collection is always at work.
pub fn specification(design: &str, page_bytes: u32) -> ImageSpecification {
    with_settings(design, page_bytes, &[])
}

/// Returns the specification of a device of some hundred pages, as [`specification`] does, with additional settings.
pub fn with_settings(design: &str, page_bytes: u32, more: &[&str]) -> ImageSpecification {
    let page_bytes = format!("device.page_bytes={page_bytes}");
    let settings = [
        "device.channels=1",
        "device.dies_per_channel=1",
        "device.planes_per_die=2",
        "device.blocks_per_plane=20",
        "device.pages_per_block=8",
        "device.spare_bytes=64",
        "device.logical_pages=200",
        "recycle.policy=inf",
        &page_bytes,
    ];
    let settings: Vec<String> = settings.iter().chain(more).map(|&setting| setting.to_owned()).collect();
    let config = Config::from_text_and_settings(None, &settings).expect("the settings exist");
    ImageSpecification {
        design: design.to_owned(),
        config,
        size_bytes: None,
        durability: Durability::Process,
    }
}

/// Size of a disk sector, bytes.
pub const SECTOR: u64 = 512;

/// Number of the error of the operating system for a place of the disk that cannot be read.
const EIO: i32 = 5;

/// A file in memory, with the page cache and the disk of a simulated server machine.
#[derive(Clone, Debug, Default)]
pub struct MemoryFile {
    /// Content of the file as a reader sees it: the page cache of the simulated server machine.
    cached: Vec<u8>,
    /// Content of the file on the disk of the simulated server machine, as of the last sync.
    disk: Vec<u8>,
    /// For each sector written since the last sync, every content that the sector had since then.
    unsynced_sector_versions: BTreeMap<u64, Vec<Vec<u8>>>,
}

impl MemoryFile {
    /// Returns the bytes of sector number `number`, fewer at the end of the file.
    fn sector(bytes: &[u8], number: u64) -> &[u8] {
        let from = (number * SECTOR) as usize;
        &bytes[from..bytes.len().min(from + SECTOR as usize)]
    }
}

/// A failure of a write that is injected into the files in memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum InjectedWriteFailure {
    /// No byte is written.
    DiskFull,
    /// Only the first half of the bytes is written.
    ShortWrite,
}

/// Files of an image in memory. The server machine that would hold them can be crashed
/// ([`MemoryFiles::crash_server_machine`]), and writes can be made to fail.
#[derive(Clone, Debug, Default)]
pub struct MemoryFiles {
    /// The files of the image, in the order of `ImageFile::ALL`.
    pub files: [MemoryFile; 6],
    /// Number of writes to the files so far.
    pub writes: u64,
    /// Number of writes after which every write of page data to the flash file fails, and how it fails.
    pub fail_writes_from: Option<(u64, InjectedWriteFailure)>,
    /// Number of reads of page data that are refused next, with an error of the operating system that concerns no
    /// single page. Copies of the files share the number.
    pub refused_data_reads: Arc<AtomicU64>,
    /// File and range of bytes in it to which writes are refused; `None` if writes are not refused by their place.
    pub refused_place: Option<(ImageFile, Range<u64>)>,
    /// File and range of bytes in it that the disk can no longer read; `None` if it can read all.
    pub unreadable_place: Option<(ImageFile, Range<u64>)>,
    /// Number of syncs of the files so far.
    pub syncs: u64,
    /// All writes in order, as file, offset and bytes; `None` if they are not recorded.
    pub log: Option<Vec<(ImageFile, u64, Vec<u8>)>>,
    /// Copy of the files, made at every sync. It serves a caller that closes the device and thereby loses the files
    /// themselves.
    pub files_at_last_sync: Option<Arc<Mutex<MemoryFiles>>>,
}

impl MemoryFiles {
    /// Simulates a crash of the server machine: every sector written since the last sync of its file keeps one of its
    /// states (old, new or between), independently of all others.
    pub fn crash_server_machine(&mut self, random: &mut Xoshiro256PlusPlus) {
        for file in &mut self.files {
            for (number, states) in std::mem::take(&mut file.unsynced_sector_versions) {
                let chosen = random.random_range(0..=states.len());
                if let Some(state) = chosen.checked_sub(1).map(|k| &states[k]) {
                    let from = (number * SECTOR) as usize;
                    file.disk[from..from + state.len()].copy_from_slice(state);
                }
            }
            file.cached.clone_from(&file.disk);
        }
    }

    /// Returns the content of a file for changes that no reader or sync notices, such as injected damage.
    pub fn bytes_mut(&mut self, file: ImageFile) -> &mut Vec<u8> {
        &mut self.files[file as usize].cached
    }

    /// Returns the content of a file as a reader sees it.
    pub fn bytes(&self, file: ImageFile) -> &[u8] {
        &self.files[file as usize].cached
    }

    /// Counts a write, and returns the failure that is injected into it, if there is one.
    fn count_write_and_take_failure(&mut self) -> Option<InjectedWriteFailure> {
        self.writes += 1;
        self.fail_writes_from.filter(|&(from, _)| self.writes > from).map(|(_, refusal)| refusal)
    }
}

impl Backing for MemoryFiles {
    fn read(&self, file: ImageFile, bytes: &mut [u8], offset: u64) -> io::Result<()> {
        let is_data = file == ImageFile::Flash && bytes.len() > 64;
        let refused = &self.refused_data_reads;
        let take_refusal = |count: u64| count.checked_sub(1).filter(|_| is_data);
        if refused.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take_refusal).is_ok() {
            return Err(io::ErrorKind::OutOfMemory.into());
        }
        let end = offset + bytes.len() as u64;
        let is_unreadable =
            |(of, range): &(ImageFile, Range<u64>)| *of == file && offset < range.end && range.start < end;
        if self.unreadable_place.as_ref().is_some_and(is_unreadable) {
            return Err(io::Error::from_raw_os_error(EIO));
        }
        let from = offset as usize;
        let found = self.bytes(file).get(from..from + bytes.len()).ok_or(io::ErrorKind::UnexpectedEof)?;
        bytes.copy_from_slice(found);
        Ok(())
    }

    fn write(&mut self, file: ImageFile, bytes: &[u8], offset: u64) -> io::Result<()> {
        if self.refused_place.as_ref().is_some_and(|(of, range)| *of == file && range.contains(&offset)) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        // Metadata is allocated when an image is created, so a full disk refuses data only.
        let is_data = file == ImageFile::Flash && bytes.len() > 64;
        let refusal = self.count_write_and_take_failure().filter(|_| is_data);
        let bytes = match refusal {
            Some(InjectedWriteFailure::DiskFull) => &[],
            Some(InjectedWriteFailure::ShortWrite) => &bytes[..bytes.len() / 2],
            None => bytes,
        };
        if let Some(log) = &mut self.log {
            log.push((file, offset, bytes.to_vec()));
        }
        let file = &mut self.files[file as usize];
        let (from, to) = (offset as usize, offset as usize + bytes.len());
        if file.cached.len() < to {
            file.cached.resize(to, 0);
            file.disk.resize(to, 0);
        }
        file.cached[from..to].copy_from_slice(bytes);
        for number in offset / SECTOR..(to as u64).div_ceil(SECTOR) {
            let state = MemoryFile::sector(&file.cached, number).to_vec();
            file.unsynced_sector_versions.entry(number).or_default().push(state);
        }
        if refusal.is_some() { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
    }

    fn len(&self, file: ImageFile) -> io::Result<u64> {
        Ok(self.bytes(file).len() as u64)
    }

    fn sync(&mut self, file: ImageFile) -> io::Result<()> {
        self.syncs += 1;
        let file = &mut self.files[file as usize];
        file.unsynced_sector_versions.clear();
        file.disk.clone_from(&file.cached);
        if let Some(kept) = &self.files_at_last_sync {
            *kept.lock().expect("nobody fails with it") = Self { files_at_last_sync: None, ..self.clone() };
        }
        Ok(())
    }
}

/// Operation of the host on a device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Op {
    /// Write of one page: number of the page and its new content.
    Write(u64, BlockContent),
    /// Trim of consecutive pages: first page and number of pages.
    Trim(u64, u64),
    /// Flush of the device.
    Flush,
}

/// Random generator of host operations. Four of five are writes; a third of the writes repeat a content that other
/// pages have.
pub struct RandomHostOperations {
    /// Generator of the random numbers.
    pub random: Xoshiro256PlusPlus,
    /// Number of logical pages of the device.
    device_pages: u64,
    /// Version number of the last drawn content.
    last_version: u64,
}

impl RandomHostOperations {
    /// Makes a generator of operations on `pages` pages, which follow from the seed.
    pub fn new(seed: u64, pages: u64) -> Self {
        Self {
            random: Xoshiro256PlusPlus::seed_from_u64(seed),
            device_pages: pages,
            last_version: seed << 32,
        }
    }

    /// Draws the next host operation.
    pub fn draw(&mut self) -> Op {
        self.last_version += 1;
        // Skewed, so that some pages are overwritten often.
        let span = if self.random.random_range(0..3) > 0 { self.device_pages / 8 } else { self.device_pages };
        let page = self.random.random_range(0..span);
        match self.random.random_range(0..100) {
            0..55 => Op::Write(page, (1 + page, self.last_version)),
            55..85 => Op::Write(page, (OWNER_OF_SHARED_CONTENT, self.random.random_range(0..30))),
            85..93 => Op::Trim(page, self.random.random_range(1..=8).min(self.device_pages - page)),
            _ => Op::Flush,
        }
    }
}

/// Returns whether tests run at full length, as `WEARWELL_SOAK=1 cargo test` requests.
pub fn is_soak_run() -> bool {
    std::env::var_os("WEARWELL_SOAK").is_some()
}

/// Executes a host operation on a device.
pub fn perform(device: &mut LiveDevice, op: Op) -> Result<()> {
    let page_bytes = device.page_bytes();
    match op {
        Op::Write(page, value) => {
            let bytes = page_of(value, page_bytes as usize);
            device.write(page * page_bytes, &bytes)
        }
        Op::Trim(page, pages) => device.trim(page * page_bytes, pages * page_bytes),
        Op::Flush => device.flush(),
    }
}

/// Returns the medium of a device on files in memory.
pub fn medium_of(device: &LiveDevice) -> &FileNand<MemoryFiles> {
    FileNand::medium_of_device(device)
}

/// Returns the medium of a device on files in memory, so that a test can inject faults.
pub fn medium_of_mut(device: &mut LiveDevice) -> &mut FileNand<MemoryFiles> {
    FileNand::medium_of_device_mut(device)
}

/// Returns the files of an image without closing it, as the end of the process would leave them.
pub fn files_of(image: Image) -> MemoryFiles {
    image.into_backing()
}

/// Writes deferred operations to the files, as a server does before it acknowledges a request: earlier writes then
/// survive the end of the process.
pub fn execute_deferred_writes(device: &mut LiveDevice) {
    device.medium_mut().write_operations_to_files().expect("the host takes everything");
}

/// Oracle that knows all versions that each page of a device may hold, if the host sends one operation at a time.
#[derive(Clone)]
pub struct Oracle(versions::Oracle);

/// A page whose content violates what the oracle allows.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Violation {
    /// Number of a page that cannot be read, and the error message.
    Unreadable(u64, String),
    /// The page was read, and has contents that it may not have.
    WrongContent(versions::Violation),
}

impl Oracle {
    /// Makes the oracle of a device that holds only zeros.
    pub fn new(pages: u64) -> Self {
        Self(versions::Oracle::new(pages))
    }

    /// Returns the number of pages of the device.
    pub fn logical_page_count(&self) -> u64 {
        self.0.blocks()
    }

    /// Records that the host sends an operation: from now on its pages may hold the new version.
    pub fn record_sent_operation(&mut self, op: Op) {
        match op {
            Op::Write(page, value) => self.0.record_sent_version(page, value),
            Op::Trim(page, pages) => {
                (page..page + pages).for_each(|page| self.0.record_sent_version(page, NOTHING));
            }
            Op::Flush => {}
        }
    }

    /// Records that the device acknowledges the operation.
    pub fn acknowledge(&mut self, op: Op) {
        match op {
            Op::Write(page, _) => self.0.acknowledge(page, false),
            Op::Trim(page, pages) => (page..page + pages).for_each(|page| self.0.acknowledge(page, false)),
            Op::Flush => {
                let now = self.0.advance_event_number();
                self.0.record_acknowledged_flush(now);
            }
        }
    }

    /// Compares every page of a device with the versions that the oracle allows. The version found becomes the only
    /// allowed one.
    pub fn judge(&mut self, device: &mut LiveDevice) -> Vec<Violation> {
        let page_bytes = device.geometry().page_bytes;
        self.find_violations_by_reading(page_bytes, |offset, page| {
            device.read(offset, page).map_err(|error| error.to_string())
        })
    }

    /// Compares every page with the versions that the oracle allows. `read` reads the page that begins at a given byte.
    pub fn find_violations_by_reading(
        &mut self,
        page_bytes: u32,
        mut read: impl FnMut(u64, &mut [u8]) -> std::result::Result<(), String>,
    ) -> Vec<Violation> {
        let (pages, mut bytes) = (self.logical_page_count(), vec![0; page_bytes as usize]);
        let look = |number: u64| match read(number * u64::from(page_bytes), &mut bytes) {
            Err(error) => Some(Violation::Unreadable(number, error)),
            Ok(()) => self.0.judge(number, &bytes).map(Violation::WrongContent),
        };
        (0..pages).filter_map(look).collect()
    }
}
