//! Images: the flash and NVRAM of a device in a directory of files.
//!
//! [`create`] makes an image for a design and a geometry. [`Image::open`] locks it, repairs what the end of the last
//! session left half done and metadata that is damaged in one of its two copies, and recovers the device by the
//! engine's own recovery, as after a power cut. [`audit`] does the same on a view that changes no file, and checks
//! every rule by which the maps, counters and pages of the engine must agree. Format: `docs/FORMAT.md` and `layout`.
//!
//! RAM is volatile here: designs that assume a battery run with their map in NVRAM
//! ([`Parts::without_battery`](wearwell::design::Parts::without_battery)). A lazy map whose recovery needs a battery is
//! refused. Designs that recover by a backward scan need no NVRAM; the engine has their metadata pages written in
//! order.
//!
//! [`Durability`] says what an image survives. In both modes the unit that is completely old or completely new is a
//! page, and the states after an interruption are those of the engine's own model of power cuts
//! ([`PowerCutNand`](wearwell::nand::PowerCutNand)): each operation is not begun, torn, or done. The end of the server
//! process leaves no torn operation. A crash or power loss of the server machine may leave torn programs after the last
//! flush.

mod audit;
mod backing;
mod copy;
mod create;
mod error;
mod file_nand;
mod image_file;
pub mod journal;
pub mod layout;
mod load;
mod metadata_copy;
mod operation_batch;
mod repair;
mod rescue;
mod resize;
mod table_memory;
mod unfinished;
mod unreadable_sectors;
mod upgrade;
mod version1;

use std::collections::BTreeSet;
use std::panic::{self, AssertUnwindSafe};
use std::path::Path;

pub use audit::{AuditReport, AuditVerdict, audit, audit_backing};
pub use backing::{Backing, CopyOnWrite, ImageAccess, OpenImageFiles};
use backing::{begins_with_image_header_copy, read_prefix};
pub use copy::{CopyReport, ImageCopyOptions, copy};
use create::random_nonzero_number;
pub use create::{ImageSpecification, create, create_on, create_with_progress};
pub use error::ImageError;
pub(crate) use error::advice_for_io_error;
pub use file_nand::FileNand;
pub use image_file::ImageFile;
pub use layout::Durability;
use layout::{
    DEVICE_STATE_SECTOR_BYTES, DEVICE_STATE_SECTOR_WORDS, FORMAT_VERSION, IMAGE_HEADER_BYTES_MAX,
    ImageHeader, ImageHeaderError, Layout, METADATA_RECORD_BYTES, OobSlot, SessionRecord,
};
use load::{FlashLoadSettings, LoadedFlash, load_and_repair_flash_state};
pub use metadata_copy::MetadataRepairs;
use metadata_copy::{METADATA_COPIES, MetadataCopy};
pub use repair::{RepairReport, repair, repair_backing};
pub use resize::resize;
use table_memory::require_memory;
pub use unfinished::UnfinishedImage;
pub use unreadable_sectors::UnreadableSectors;
pub use upgrade::{upgrade, upgrade_on};
use wearwell::DeviceOptions;
use wearwell::address::{BlockId, Lpn, Ppn};
use wearwell::design::{Parts, Persistence};
use wearwell::nand::Geometry;
use wearwell::recovery::RecoveryReport;
use wearwell::store::GC_RESERVE_BLOCKS;
use wearwell_config::Config;

use crate::device::DriveHealthFacts;
use crate::live_device::LiveDevice;
use crate::medium::Medium;

/// Options for opening an image.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ImageOpenOptions {
    /// Durability mode of this session; `None` means the mode with which the image was created.
    pub durability: Option<Durability>,
}

/// Options with which a copy-on-write view of an image is opened. Changes of the view are lost in any case, so the
/// durability does not matter.
const COPY_ON_WRITE_OPTIONS: ImageOpenOptions = ImageOpenOptions { durability: Some(Durability::Process) };

/// Report of opening an image: what was found and repaired.
#[derive(Clone, Debug, Default)]
pub struct OpenReport {
    /// Whether the last session ended without closing the image.
    pub was_shut_down_uncleanly: bool,
    /// Whether the server machine was restarted after an unclean session of durability `process`. If so, the last
    /// writes of that session may be lost.
    pub may_have_lost_last_writes: bool,
    /// Number of flash pages that a crash of the server machine left half programmed.
    pub torn_pages: u64,
    /// Repairs of metadata records, and of sectors of the file `nvram` (NVRAM and block states), that were missing or
    /// damaged in one of their two copies. After an unclean session, a copy in the mirror may have been merely outdated,
    /// not damaged.
    pub metadata_repairs: MetadataRepairs,
    /// Number of flash pages whose data was compared with its checksum.
    pub verified_pages: u64,
    /// Number of sessions in the life of the image that did not end cleanly.
    pub unsafe_shutdowns: u64,
    /// Number of sessions in the life of the image, this session included.
    pub session_count: u64,
    /// Report of the engine's recovery of the device.
    pub recovery: RecoveryReport,
    /// Number of logical pages that hold data; `None` if a part of the map cannot be read.
    pub mapped_pages: Option<u64>,
    /// Damage of metadata in both of its copies, one sentence for each damaged item. Empty unless the image is rescued.
    pub findings: Vec<String>,
    /// Logical pages whose stored version may not be the newest one. Empty unless the image (a damaged one) is rescued.
    /// The device reads them as zeros, so a server has to refuse reads of them
    /// ([`crate::FlashDevice::refuse_reads_of_possibly_stale_pages`]).
    pub lpns_with_possibly_stale_version: BTreeSet<Lpn>,
}

/// An open image: a device over the files of the image.
#[derive(Debug)]
pub struct Image {
    /// The recovered device over the files of the image.
    pub device: LiveDevice,
    /// Header of the image (file `superblock`): geometry, design, configuration.
    pub image_header: ImageHeader,
    /// Durability mode of this session.
    pub durability: Durability,
    /// Report of opening the image: what was found and repaired.
    pub report: OpenReport,
    /// Configuration in force, as TOML text. A replay with it does the same flash operations.
    pub config_toml: String,
    /// Program/erase cycles for which a block is rated.
    endurance_cycles: u32,
    /// Flash pages whose data does not match its checksum, if all data was verified at opening.
    damaged_pages: Vec<Ppn>,
}

impl Image {
    /// Opens the image in a directory and recovers its device.
    ///
    /// # Errors
    /// [`ImageError`]: there is no image, its format has another version, it is in use, its files are too short or
    /// damaged, or files cannot be written.
    pub fn open(directory: &Path, options: ImageOpenOptions) -> Result<Self, ImageError> {
        Self::open_on(OpenImageFiles::open(directory, ImageAccess::ReadWrite)?, options)
    }

    /// Opens a view of the image in `files`. All changes, also those by opening, stay in memory and are lost with the
    /// view.
    ///
    /// # Errors
    /// As [`Image::open`].
    pub fn open_copy_on_write(files: OpenImageFiles) -> Result<Self, ImageError> {
        Self::open_on(CopyOnWrite::new(files), COPY_ON_WRITE_OPTIONS)
    }

    /// Opens the image in the files of `backing` and recovers its device, as [`Image::open`] does.
    ///
    /// # Errors
    /// As [`Image::open`].
    pub fn open_on(backing: impl Backing, options: ImageOpenOptions) -> Result<Self, ImageError> {
        let loading = LoadMode { verifies_all_data: false, rescues: false };
        report_panic_as_damage(|| Self::recover_on(backing, options, loading))
    }

    /// Opens the image in the files of `backing` as [`Image::open_on`] does, and compares the data of all pages with
    /// its checksum.
    fn open_and_verify(backing: impl Backing) -> Result<Self, ImageError> {
        let loading = LoadMode { verifies_all_data: true, rescues: false };
        report_panic_as_damage(|| Self::recover_on(backing, ImageOpenOptions::default(), loading))
    }

    /// Opens the part of a damaged image that can be rescued, if both copies of some metadata are damaged (see the
    /// module `rescue`). `backing` must be a view that leaves the files unchanged, such as [`CopyOnWrite`].
    ///
    /// # Errors
    /// As [`Image::open`]; damage after which no logical page is certain to have its newest version.
    pub fn open_for_rescue_on(backing: impl Backing) -> Result<Self, ImageError> {
        let loading = LoadMode { verifies_all_data: false, rescues: true };
        let rescued = report_panic_as_damage(|| Self::recover_on(backing, COPY_ON_WRITE_OPTIONS, loading));
        rescued.map_err(|error| match error {
            ImageError::Damaged { findings, .. } => ImageError::NoPageProvablyNewest { findings },
            error => error,
        })
    }

    /// Opens the image in the files of `backing`: repairs it, begins a session, and recovers the device. `loading`
    /// states how much is read and how damage is handled.
    fn recover_on(
        mut backing: impl Backing,
        options: ImageOpenOptions,
        loading: LoadMode,
    ) -> Result<Self, ImageError> {
        let rescues = loading.rescues;
        let found = FoundImage::read(&mut backing, rescues)?;
        let mut report = found.report_on_opening();
        let (image_header, config) = (found.image_header.clone(), found.config.clone());
        let (layout, previous_session_id) = (found.layout.clone(), found.session.session_id);
        let mut loaded = found.load(&mut backing, loading)?;
        if rescues {
            report.lpns_with_possibly_stale_version =
                rescue::unmap_possibly_stale_pages(&mut loaded, &image_header, &config, &layout)?;
            report.findings = std::mem::take(&mut loaded.findings);
        } else if !loaded.findings.is_empty() {
            return Err(ImageError::Damaged { findings: loaded.findings, may_be_rescued: true });
        }
        let torn = loaded.torn_pages_with_erase_counts.clone();
        let damaged_pages = std::mem::take(&mut loaded.damaged_pages);
        report.verified_pages = loaded.verified_pages;
        report.torn_pages = torn.len() as u64;
        report.metadata_repairs += loaded.metadata_repairs;
        let session = SessionRecord {
            was_closed: false,
            durability: options.durability.unwrap_or(image_header.durability),
            boot_id: current_boot_id(),
            unsafe_shutdowns: report.unsafe_shutdowns,
            session_count: report.session_count,
            last_journal_record_number: 0,
            session_id: random_nonzero_number(),
            previous_session_id,
        };
        let durability = session.durability;
        let mut nand = FileNand::new(backing, layout, loaded, session);
        // The half-programmed pages are sealed before the session begins: after that no recovery would look for them.
        let repaired = torn
            .into_iter()
            .try_for_each(|(ppn, block_erase_count)| nand.mark_page_torn(ppn, block_erase_count));
        repaired.and_then(|()| nand.begin_session()).map_err(|_| medium_failure(&nand))?;
        let RecoveredDevice { device, recovery, mapped_pages, config_toml: config, endurance_cycles } =
            recover(nand, &image_header, config)?;
        (report.recovery, report.mapped_pages) = (recovery, mapped_pages);
        Ok(Self {
            device,
            image_header,
            durability,
            report,
            config_toml: config,
            endurance_cycles,
            damaged_pages,
        })
    }

    /// Closes the image: writes all data and metadata to the files, and records that the image was closed.
    ///
    /// # Errors
    /// As [`close`].
    pub fn close(self) -> Result<(), ImageError> {
        close(self.device)
    }

    /// Returns design, rated endurance, and numbers of starts and unclean ends of the device.
    pub fn health_facts(&self) -> DriveHealthFacts {
        DriveHealthFacts {
            design: self.image_header.design.clone(),
            endurance_cycles: self.endurance_cycles,
            power_cycles: self.report.session_count,
            unsafe_shutdowns: self.report.unsafe_shutdowns,
        }
    }

    /// Returns the files of the image without closing the image. They are then as after a crash of the process.
    ///
    /// # Panics
    /// If the image was opened on a backing of another type.
    pub fn into_backing<B: Backing>(self) -> B {
        FileNand::into_medium_of_device(self.device).into_backing()
    }
}

/// Closes the image of `device`: writes all data and metadata of the device to the files, and records that the image
/// was closed.
///
/// # Errors
/// Errors of [`LiveDevice::flush`]; an error of the operating system. The image is then as after an unclean end.
pub fn close(mut device: LiveDevice) -> Result<(), ImageError> {
    end_session(&mut device)
}

/// Writes all data and metadata of a device to the files of its image, and records that the image was closed.
fn end_session(device: &mut LiveDevice) -> Result<(), ImageError> {
    let flushed = device.flush();
    let nand = device.medium_mut();
    if nand.unresolved_write_error().is_none() {
        flushed?;
    }
    nand.end_session().map_err(|_| medium_failure(nand))
}

/// Returns the configuration in the header of an image.
///
/// # Errors
/// [`ImageError::Config`].
fn config_of(image_header: &ImageHeader) -> Result<Config, ImageError> {
    let mut config = Config::from_text_and_settings(Some(("superblock", &image_header.config_toml)), &[])?;
    // Images whose configuration does not name the minimum were made before there was one.
    config.mapping.least_cache_entries.get_or_insert(1);
    Ok(config)
}

/// Returns the parts that make up the device of an image, and the program/erase cycles for which its blocks are rated.
///
/// # Errors
/// [`ImageError::Config`], also for a design that needs a battery.
fn parts_and_endurance_cycles_of(
    config: &Config,
    image_header: &ImageHeader,
) -> Result<(Parts, u32), ImageError> {
    let resolved = config.resolve_device(u64::from(image_header.logical_pages))?;
    if resolved.geometry != image_header.geometry || resolved.logical_pages != image_header.logical_pages {
        let sizes = |geometry: &Geometry, logical_pages: u32| {
            [
                ("channels", geometry.channels),
                ("dies_per_channel", geometry.dies_per_channel),
                ("planes_per_die", geometry.planes_per_die),
                ("superblock_planes", geometry.superblock_planes),
                ("blocks_per_plane", geometry.blocks_per_plane),
                ("pages_per_block", geometry.pages_per_block),
                ("page_bytes", geometry.page_bytes),
                ("spare_bytes", geometry.spare_bytes),
                ("logical_pages", logical_pages),
            ]
        };
        let described = sizes(&image_header.geometry, image_header.logical_pages);
        let derived = sizes(&resolved.geometry, resolved.logical_pages);
        let differences: Vec<String> = described
            .iter()
            .zip(&derived)
            .filter(|(described, derived)| described != derived)
            .map(|((key, described), (_, derived))| {
                format!("device.{key} is {described} there, but must be {derived}")
            })
            .collect();
        return Err(ImageError::InvalidSetting(format!(
            "the superblock of the image describes another device than this version of wearwell derives from the \
             configuration in it ({}): use the version that made the image",
            differences.join(", ")
        )));
    }
    let parts = config.design_parts_for_image(&image_header.design, &resolved)?;
    Ok((parts, resolved.endurance_cycles))
}

/// Returns the error for a failed medium of an image. It contains the error of the operating system if there was one.
fn medium_failure(medium: &dyn Medium) -> ImageError {
    let refused = medium.unresolved_write_error();
    ImageError::IoWhileInUse {
        cause_message: refused.map_or_else(
            || "a file of the image could not be read or written".to_owned(),
            |refused| refused.cause_message.clone(),
        ),
        is_disk_full: refused.is_some_and(|refused| refused.is_disk_full),
    }
}

/// Runs `work`, which opens or audits an image, and converts a panic of the engine into an error of kind damage. The
/// engine assumes that its own data on flash is consistent and panics otherwise. Files from different moments can be
/// inconsistent although each of them is undamaged. The state in which the panic left the device is not used, because
/// the device was built inside `work`.
fn report_panic_as_damage<T>(work: impl FnOnce() -> Result<T, ImageError>) -> Result<T, ImageError> {
    panic::catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panicked| {
        let text = panicked.downcast_ref::<String>().map(String::as_str);
        let broken = text.or(panicked.downcast_ref::<&str>().copied()).unwrap_or("an invariant is broken");
        let findings =
            vec![format!("the records of the image must agree, but contradict each other ({broken})")];
        Err(ImageError::Damaged { findings, may_be_rescued: true })
    })
}

/// The device of an image after the recovery, with what the recovery found.
struct RecoveredDevice {
    /// The recovered device.
    device: LiveDevice,
    /// Report of the recovery by the engine.
    recovery: RecoveryReport,
    /// Number of logical pages that hold data; `None` if a part of the map cannot be read.
    mapped_pages: Option<u64>,
    /// Configuration in force, as TOML text.
    config_toml: String,
    /// Program/erase cycles for which a block is rated.
    endurance_cycles: u32,
}

/// Builds the device of an image over `nand`, whose state was loaded from the files, and lets the engine recover its
/// maps and counters from this flash. `config` is the configuration in the image header.
fn recover(
    mut nand: FileNand<impl Backing>,
    image_header: &ImageHeader,
    config: Config,
) -> Result<RecoveredDevice, ImageError> {
    let plan = DevicePartsAndSettings::new(image_header, config, nand.durability())?;
    nand.set_max_waiting_erases_per_pool(plan.max_waiting_erases_per_pool);
    plan.recover_device(nand, image_header.logical_pages)
}

/// Parts and settings with which the device of an image is built in a session.
struct DevicePartsAndSettings {
    /// Configuration of the device in this session.
    config: Config,
    /// Parts (map, page validity, content mechanisms and others) of which the device consists.
    parts: Parts,
    /// Program/erase cycles for which a block is rated.
    endurance_cycles: u32,
    /// Maximum number of blocks of one pool whose erases may wait to be written together.
    max_waiting_erases_per_pool: u32,
}

impl DevicePartsAndSettings {
    /// Chooses the parts and settings of the device of an image, for a session with this durability mode.
    fn new(
        image_header: &ImageHeader,
        mut config: Config,
        durability: Durability,
    ) -> Result<Self, ImageError> {
        let (mut parts, endurance_cycles) = parts_and_endurance_cycles_of(&config, image_header)?;
        // Two kinds of designs are excluded. Chunk numbers become free only by erases. A backward scan is tested on
        // media that keep the order of erases and programs; no test of images fails without that order, so this is a
        // precaution.
        let needs_erases_in_order =
            parts.content.chunks.is_some() || matches!(parts.persistence, Persistence::BackwardScan { .. });
        let max_waiting_erases_per_pool = match durability {
            _ if needs_erases_in_order => 0,
            Durability::Process => u32::MAX,
            Durability::Host => {
                parts.gc.gc_start_free_blocks =
                    parts.gc.gc_start_free_blocks.max(free_blocks_per_pool_for_batched_erases(image_header));
                config.gc.low_blocks = Some(parts.gc.gc_start_free_blocks);
                parts.gc.gc_start_free_blocks.saturating_sub(GC_RESERVE_BLOCKS)
            }
        };
        Ok(Self { config, parts, endurance_cycles, max_waiting_erases_per_pool })
    }

    /// Builds the device over `nand` and recovers it.
    fn recover_device(
        self,
        nand: FileNand<impl Backing>,
        logical_pages: u32,
    ) -> Result<RecoveredDevice, ImageError> {
        let options = DeviceOptions { buffer: self.config.configured_write_buffer() };
        let mut device = LiveDevice::new(nand, logical_pages, &self.parts, options)?;
        let recovery = device.recover().map_err(|error| match device.medium().unresolved_write_error() {
            Some(_) => medium_failure(device.medium()),
            None => error.into(),
        })?;
        // A backward scan does not read the whole map.
        let mapped_pages = recovery.mapped_pages.or_else(|| device.count_mapped_lpns().ok());
        let (config_toml, endurance_cycles) = (self.config.to_toml(), self.endurance_cycles);
        Ok(RecoveredDevice { device, recovery, mapped_pages, config_toml, endurance_cycles })
    }
}

/// Returns the number of free blocks that GC keeps ready in each pool with durability `host`, so that several erases
/// can share one sync. It is an eighth of the spare blocks, which costs little write amplification, and at most 32
/// blocks in all pools.
fn free_blocks_per_pool_for_batched_erases(image_header: &ImageHeader) -> u32 {
    /// Maximum number of blocks, in all pools together, that are kept free so that several erases can share one sync.
    const BATCHED_ERASE_FREE_BLOCKS_MAX: u32 = 32;
    let ImageHeader { geometry, logical_pages, .. } = image_header;
    let spare = geometry.blocks().saturating_sub(logical_pages.div_ceil(geometry.block_pages()));
    spare.div_ceil(8).min(BATCHED_ERASE_FREE_BLOCKS_MAX) / geometry.allocation_pools()
}

/// Returns a function that makes an `ImageError::Io` of an error of the operating system. `refused_operation` is a
/// verb: the operation that failed on `file`.
fn io_error<'a>(
    backing: &'a impl Backing,
    refused_operation: &'static str,
    file: ImageFile,
) -> impl FnOnce(std::io::Error) -> ImageError + 'a {
    move |source| ImageError::Io { refused_operation, path: backing.path_for_messages(file), source }
}

/// Returns the identifier of the present boot of the server machine; zeros if it is unknown.
fn current_boot_id() -> [u8; 16] {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let digits = text.trim().replace('-', "");
    u128::from_str_radix(&digits, 16).unwrap_or_default().to_be_bytes()
}

/// Mode in which an image is loaded: how much of it is read, and how damage is handled.
#[derive(Clone, Copy)]
struct LoadMode {
    /// Whether the data of all pages is compared with its checksum.
    verifies_all_data: bool,
    /// Whether the image is rescued: metadata that is damaged in both copies is left out, instead of being an error.
    rescues: bool,
}

/// Contents of the small files of an image (image header, session record) and of its journal.
struct FoundImage {
    /// Header of the image: geometry, design, configuration.
    image_header: ImageHeader,
    /// The configuration in the image header.
    config: Config,
    /// Offsets of data and metadata in the files.
    layout: Layout,
    /// Record of the last session. If a later session has begun, `was_closed` is false.
    session: SessionRecord,
    /// Journal of the image (the log of changes of NVRAM and block states) as found in the files.
    journal: journal::FoundJournal,
    /// Whether the last writes may be lost, because the server machine was restarted after an unclean session of
    /// durability `process`.
    may_have_lost_last_writes: bool,
    /// Repairs of the image header and the session record from their other copy.
    metadata_repairs: MetadataRepairs,
}

impl FoundImage {
    /// Reads and repairs image header, session record and journal. If `rescues` is set, a journal with missing records
    /// is no error.
    fn read(backing: &mut impl Backing, rescues: bool) -> Result<Self, ImageError> {
        let (image_header, of_image_header) = read_image_header(backing)?;
        let config = config_of(&image_header)?;
        let (parts, _) = parts_and_endurance_cycles_of(&config, &image_header)?;
        require_plausible_nvram(&image_header, &parts)?;
        let layout = Layout::new(&image_header);
        if !rescues {
            require_stored_state_words(backing, &layout)?;
        }
        // No more than the tables: an image that exists is not refused for an estimate of the rest.
        require_memory(&parts, &image_header, 0)?;
        extend_short_flash_file(backing, &layout)?;
        let (mut session, of_session) = read_and_repair_session(backing, &layout)?;
        let damaged = |finding| ImageError::Damaged { findings: vec![finding], may_be_rescued: true };
        let journal = if rescues {
            let last = rescue::newest_journal_record_number(backing, &layout, &session);
            journal::salvage_newest_records(backing, &layout, last)
        } else {
            journal::read_and_repair_journal(backing, &layout).map_err(damaged)?
        };
        if session.was_closed && session.last_journal_record_number > journal.last_record_number() {
            return Err(damaged(format!(
                "the last record of the journal in either copy has number {}, but must have number {}, after which \
                 the image was closed",
                journal.last_record_number(),
                session.last_journal_record_number
            )));
        }
        // A later session may have begun and left no session record.
        session.was_closed &= session.last_journal_record_number == journal.last_record_number();
        let boot = current_boot_id();
        let is_other_boot = session.boot_id != boot && session.boot_id != [0; 16] && boot != [0; 16];
        let may_have_lost_last_writes =
            !session.was_closed && session.durability == Durability::Process && is_other_boot;
        let mut metadata_repairs = of_image_header;
        metadata_repairs += of_session;
        Ok(Self {
            image_header,
            config,
            layout,
            session,
            journal,
            may_have_lost_last_writes,
            metadata_repairs,
        })
    }

    /// Returns the report of opening the image, with the facts that header, session record and journal determine.
    fn report_on_opening(&self) -> OpenReport {
        OpenReport {
            was_shut_down_uncleanly: !self.session.was_closed,
            may_have_lost_last_writes: self.may_have_lost_last_writes,
            unsafe_shutdowns: self.session.unsafe_shutdowns + u64::from(!self.session.was_closed),
            session_count: self.session.session_count + 1,
            metadata_repairs: self.metadata_repairs,
            ..OpenReport::default()
        }
    }

    /// Loads the state of the flash from the files of the image, with a list of the damage that cannot be repaired.
    fn load(self, backing: &mut impl Backing, loading: LoadMode) -> Result<LoadedFlash, ImageError> {
        let LoadMode { verifies_all_data: verifies_all, rescues } = loading;
        let Self { image_header, layout, session, journal, may_have_lost_last_writes, .. } = self;
        let is_host = !session.was_closed && session.durability == Durability::Host;
        let whole_up_to =
            if is_host || may_have_lost_last_writes { journal.synced_record_number() } else { u64::MAX };
        let logical_pages = image_header.logical_pages;
        let expectation = FlashLoadSettings {
            last_durable_journal_record_number: whole_up_to,
            verifies_all_data: verifies_all,
            logical_pages,
            skips_damaged_metadata: rescues,
        };
        let loaded = load_and_repair_flash_state(backing, &layout, journal, expectation);
        let mut loaded = loaded.map_err(io_error(backing, "read", ImageFile::Flash))?;
        if session.was_closed {
            loaded.journal.mark_all_records_synced();
        }
        Ok(loaded)
    }
}

/// Refuses an image header that names much more NVRAM than its design needs. Loading so much NVRAM would use up time
/// and memory before another contradiction is found.
fn require_plausible_nvram(image_header: &ImageHeader, parts: &Parts) -> Result<(), ImageError> {
    let needed_bytes = parts.total_nvram_bytes(&image_header.geometry, image_header.logical_pages);
    // Another version of Wearwell may need less or more, but not twice as much.
    if image_header.nvram_words <= needed_bytes / 4 + DEVICE_STATE_SECTOR_WORDS as u64 {
        return Ok(());
    }
    let finding = format!(
        "the superblock states {} words of NVRAM, but must state {}, which the design of the image needs",
        image_header.nvram_words,
        needed_bytes / 8
    );
    Err(ImageError::beyond_repair(finding))
}

/// Refuses an image header that describes a device with more state words (NVRAM and block states) than the files have
/// room for. Otherwise the header of a small image could cost as much memory as the largest device.
fn require_stored_state_words(backing: &impl Backing, layout: &Layout) -> Result<(), ImageError> {
    let (home_bytes, mirror_bytes) =
        (layout.nvram_file_bytes(), layout.mirror_offset(ImageFile::Nvram, layout.nvram_file_bytes()));
    let holds = |file, needed_bytes| backing.len(file).is_ok_and(|len| len >= needed_bytes);
    if holds(ImageFile::Nvram, home_bytes) || holds(ImageFile::Mirror, mirror_bytes) {
        return Ok(());
    }
    let finding = format!(
        "the device that the superblock describes has {home_bytes} bytes of state words (NVRAM and block states), but \
         the file `{}` and its copy in `{}` are shorter",
        ImageFile::Nvram.name(),
        ImageFile::Mirror.name()
    );
    Err(ImageError::Damaged { findings: vec![finding], may_be_rescued: true })
}

/// Reads the image header from one of its two copies that is whole, and repairs the other. Returns the header and the
/// repairs. An image of format version 1 is refused, whatever the mirror holds: an interrupted upgrade has not changed
/// its file `superblock` yet.
fn read_image_header(backing: &mut impl Backing) -> Result<(ImageHeader, MetadataRepairs), ImageError> {
    let home = read_prefix(backing, ImageFile::ImageHeader, IMAGE_HEADER_BYTES_MAX);
    let home = home.map_err(io_error(backing, "read", ImageFile::ImageHeader))?;
    let mirror = read_prefix(backing, ImageFile::Mirror, IMAGE_HEADER_BYTES_MAX).unwrap_or_default();
    if ImageHeader::decode_as(1, &home).is_ok() {
        return Err(ImageError::UnsupportedVersion { image_version: 1, known_version: FORMAT_VERSION });
    }
    let found = [ImageHeader::decode(&home), ImageHeader::decode(&mirror)];
    let image_header = match choose_image_header(backing, &found)? {
        Some(image_header) => image_header.clone(),
        // An interrupted creation or copy.
        None if ImageHeader::is_incomplete(&home, home.len() as u64)
            && !begins_with_image_header_copy(&mirror) =>
        {
            return Err(ImageError::Unfinished);
        }
        None => {
            return Err(ImageError::beyond_repair(
                "one of the two copies of the superblock must be intact, but both are damaged",
            ));
        }
    };
    let (bytes, layout) = (image_header.encode(), Layout::new(&image_header));
    let mut repairs = MetadataRepairs::default();
    for (side, found) in METADATA_COPIES.into_iter().zip(found) {
        if found.as_ref() != Ok(&image_header) {
            repairs += side.repair_metadata(backing, &layout, ImageFile::ImageHeader, &bytes, 0);
        }
    }
    Ok((image_header, repairs))
}

/// Chooses the image header from its copies in the files `superblock` and `mirror`; `None` if both are damaged. A copy
/// that is whole may have come from another image, which has another salt. An intact superblock whose mirror is damaged
/// is taken as it is.
fn choose_image_header<'a>(
    backing: &impl Backing,
    copies: &'a [Result<ImageHeader, ImageHeaderError>; 2],
) -> Result<Option<&'a ImageHeader>, ImageError> {
    let is_of_this_image = |image_header: &ImageHeader| do_image_files_match_header(backing, image_header);
    match copies {
        [Ok(home), Ok(mirror)] if home == mirror && !is_of_this_image(home) => {
            Err(ImageError::beyond_repair(
                "the superblock and its copy in `mirror` must be of this image, but no record in the files `session`, \
                 `nvram` and `flash` belongs to them: put the superblock and the mirror of this image back",
            ))
        }
        [Ok(home), Ok(mirror)] if home != mirror && !is_of_this_image(home) => Ok(Some(mirror)),
        [Ok(home), _] => Ok(Some(home)),
        [Err(_), Ok(mirror)] if is_of_this_image(mirror) => Ok(Some(mirror)),
        [Err(_), Ok(_)] => Err(ImageError::beyond_repair(
            "the superblock or its copy in `mirror` must be intact and of this image, but the superblock is damaged, \
             and the copy is of another image",
        )),
        [Err(ImageHeaderError::Version(found)), Err(_)] => {
            Err(ImageError::UnsupportedVersion { image_version: *found, known_version: FORMAT_VERSION })
        }
        [Err(_), Err(_)] => Ok(None),
    }
}

/// Whether an image header belongs to this image. This is so if the checksum of a record outside the files `superblock`
/// and `mirror` is right under the salt in the header. Such records are the session record, the sectors of the NVRAM,
/// and the OOB records of the first pages of the blocks.
fn do_image_files_match_header(backing: &impl Backing, image_header: &ImageHeader) -> bool {
    let (layout, geometry) = (Layout::new(image_header), &image_header.geometry);
    let is_state_sector = |index: u64| {
        let mut sector = [0; DEVICE_STATE_SECTOR_BYTES];
        let offset = index * DEVICE_STATE_SECTOR_BYTES as u64;
        MetadataCopy::OwnFile.read_metadata(backing, &layout, ImageFile::Nvram, &mut sector, offset)
            && layout.decode_device_state_sector(index, &sector).is_some()
    };
    let is_oob = |block: u32| {
        let (mut record, ppn) = ([0; METADATA_RECORD_BYTES], geometry.first_page(BlockId(block)));
        let offset = layout.oob_record_offset(ppn);
        MetadataCopy::OwnFile.read_metadata(backing, &layout, ImageFile::Flash, &mut record, offset)
            && matches!(layout.decode_oob_slot(ppn, &record), OobSlot::Record(_))
    };
    read_session_copy(backing, &layout, MetadataCopy::OwnFile).is_some()
        || (0..layout.device_state_sector_count()).any(is_state_sector)
        || (0..geometry.blocks()).any(is_oob)
}

/// Reads one of the two copies of the session record; `None` if it is damaged or cannot be read.
fn read_session_copy(backing: &impl Backing, layout: &Layout, side: MetadataCopy) -> Option<SessionRecord> {
    let mut bytes = [0; METADATA_RECORD_BYTES];
    let is_read = side.read_metadata(backing, layout, ImageFile::Session, &mut bytes, 0);
    is_read.then(|| SessionRecord::decode(&bytes, layout.checksum_salt)).flatten()
}

/// Extends a flash file that was cut short to its full length. Pages whose data was cut off are then damaged, each by
/// itself.
fn extend_short_flash_file(backing: &mut impl Backing, layout: &Layout) -> Result<(), ImageError> {
    let file = ImageFile::Flash;
    let (len, needed) = (backing.len(file), layout.flash_file_bytes());
    if len.map_err(io_error(backing, "measure", file))? < needed {
        backing.write(file, &[0], needed - 1).map_err(io_error(backing, "write", file))?;
    }
    Ok(())
}

/// Returns the newer copy of the session record, and the repairs. If neither copy is whole, the last session counts as
/// ended by a crash of the server machine. The other fields of the record are only statistics.
///
/// # Errors
/// [`ImageError::Damaged`] if the two copies cannot be of one image; [`ImageError::Io`].
fn read_and_repair_session(
    backing: &mut impl Backing,
    layout: &Layout,
) -> Result<(SessionRecord, MetadataRepairs), ImageError> {
    let file = ImageFile::Session;
    let found = METADATA_COPIES.map(|side| read_session_copy(backing, layout, side));
    if let [Some(home), Some(mirror)] = &found
        && !home.may_be_copy_of(mirror)
    {
        return Err(foreign_mirror_error(backing));
    }
    let newest = found
        .into_iter()
        .flatten()
        .max_by_key(|session| (session.session_count, session.last_journal_record_number));
    let session =
        newest.unwrap_or(SessionRecord { durability: Durability::Host, ..SessionRecord::default() });
    let mut repairs = MetadataRepairs::default();
    for (side, found) in METADATA_COPIES.into_iter().zip(found) {
        if found != Some(session) {
            repairs += side.repair_metadata(backing, layout, file, &session.encode(layout.checksum_salt), 0);
        }
    }
    if repairs.rewritten_copies > 0 {
        // The next session writes its record first at home. Were the repair still in the page cache then, a crash of
        // the host machine could leave copies that are two sessions apart, which look like those of two images.
        let synced = backing.sync_all(&[file, ImageFile::Mirror]);
        synced.map_err(|(file, source)| io_error(backing, "sync", file)(source))?;
    }
    Ok((session, repairs))
}

/// Returns the error by which an image is refused whose files `session` and `mirror` do not belong together. They are
/// of two copies of the image, or of two moments that are several sessions apart. No file is changed, because nothing
/// shows which of them is wrong.
fn foreign_mirror_error(backing: &impl Backing) -> ImageError {
    let finding = format!(
        "its files `{}` and `{}` are not of the same moment, or one of them is of another copy of the image: put the \
         right file back; if `{}` is the wrong one, move {} away, and opening makes it again from the other files",
        ImageFile::Session.name(),
        ImageFile::Mirror.name(),
        ImageFile::Mirror.name(),
        backing.path_for_messages(ImageFile::Mirror),
    );
    ImageError::beyond_repair(finding)
}
