//! Creation of an image: a directory with the files of a new, empty device.

use std::hash::{BuildHasher as _, RandomState};
use std::path::Path;

use wearwell::DeviceOptions;
use wearwell::nand::{RetainedPageFields, SimNand};
use wearwell_config::{Config, ConfigError, RecoverySurveyName};

use super::backing::{Backing, OpenImageFiles, require_permitted_file_size};
use super::error::ImageError;
use super::image_file::ImageFile;
use super::journal::Journal;
use super::layout::{
    BlockHealth, BlockRecord, DEVICE_STATE_SECTOR_BYTES, Durability, ImageHeader, Layout, SessionRecord,
};
use super::metadata_copy::METADATA_COPIES;
use super::table_memory::require_memory;
use super::{io_error, parts_and_endurance_cycles_of};
use crate::explicit_config::make_config_explicit;
use crate::live_device::LiveDevice;

/// Estimate of the address space, in bytes, that a server needs besides the tables of its device: code, stacks and
/// heaps.
const PROCESS_OVERHEAD_BYTES: u64 = 512 << 20;

/// Design, configuration, size and durability of a new image.
#[derive(Clone, Debug)]
pub struct ImageSpecification {
    /// Name of the design of the device.
    pub design: String,
    /// Configuration of the device and the design. The preset `auto` needs a size.
    pub config: Config,
    /// Number of bytes that the image exports; the flash is sized to fit. `None`: the size of the preset.
    pub size_bytes: Option<u64>,
    /// Durability mode of the image (what acknowledged data survives), unless a session chooses another.
    pub durability: Durability,
}

impl ImageSpecification {
    /// Makes the header of a new image. `salt`, a random number, enters every checksum of the image, so that records of
    /// another image are not accepted.
    ///
    /// # Errors
    /// [`ImageError::Config`], also for a design that cannot run without a battery; [`ImageError::InvalidSetting`] for a
    /// design that does not fit on the flash or that the engine refuses.
    pub fn build_image_header(&self, salt: u64) -> Result<ImageHeader, ImageError> {
        let mut config = self.config.clone();
        let resolved = make_config_explicit(&mut config, self.size_bytes)?;
        make_recovery_blocks_explicit(&mut config)?;
        let own_least = Config::min_cache_entries(&self.design);
        config.mapping.least_cache_entries = config.mapping.least_cache_entries.or(own_least);
        let mut image_header = ImageHeader {
            geometry: resolved.geometry,
            logical_pages: resolved.logical_pages,
            nvram_words: 0,
            checksum_salt: salt,
            durability: self.durability,
            design: self.design.clone(),
            config_toml: config.to_toml(),
        };
        let (parts, _) = parts_and_endurance_cycles_of(&config, &image_header)?;
        let geometry = image_header.geometry.clone();
        let nvram_bytes = parts.total_nvram_bytes(&geometry, image_header.logical_pages);
        image_header.nvram_words = nvram_bytes / 8;
        require_memory(&parts, &image_header, PROCESS_OVERHEAD_BYTES)?;
        // The device is built once in RAM, so that a design that does not fit is refused before files are created.
        let trial = SimNand::new(geometry, RetainedPageFields::default()).with_nvram(nvram_bytes);
        let options = DeviceOptions { buffer: config.configured_write_buffer() };
        LiveDevice::new(trial, image_header.logical_pages, &parts, options)
            .map_err(|error| ImageError::InvalidSetting(error.to_string()))?;
        Ok(image_header)
    }
}

/// Writes into the configuration that recovery of an image reads all spare areas ([`Parts::without_battery`]), so that a
/// replay of a recording programs what the image does.
fn make_recovery_blocks_explicit(config: &mut Config) -> Result<(), ConfigError> {
    match config.recovery.blocks.get_or_insert(RecoverySurveyName::OobScan) {
        RecoverySurveyName::OobScan | RecoverySurveyName::HeadTail => Ok(()),
        RecoverySurveyName::FirstPages => Err(ConfigError::InvalidValue(
            "recovery.blocks=first-pages has no effect on an image, which is recovered from all spare areas: leave it out"
                .into(),
        )),
    }
}

/// Creates an image in a new or empty directory. The header (file `superblock`) is written last. Without it a directory
/// is no image. If the image cannot be finished, the files that were created are removed.
///
/// # Errors
/// Errors of [`ImageSpecification::build_image_header`] and [`OpenImageFiles::create`]; [`ImageError::Io`].
pub fn create(directory: &Path, specification: &ImageSpecification) -> Result<ImageHeader, ImageError> {
    create_with_progress(directory, specification, &mut |_, _| {})
}

/// Creates an image as [`create`] does, and calls `progress` repeatedly with the bytes written so far and the total.
///
/// # Errors
/// As [`create`].
pub fn create_with_progress(
    directory: &Path,
    specification: &ImageSpecification,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<ImageHeader, ImageError> {
    let image_header = specification.build_image_header(random_nonzero_number())?;
    require_permitted_file_size(Layout::new(&image_header).largest_mirror_bytes())?;
    let mut files = OpenImageFiles::create(directory)?;
    let written = write_image_files(&mut files, &image_header, progress)
        .and_then(|()| files.sync_directory().map_err(io_error(&files, "create", ImageFile::ImageHeader)));
    match written {
        Ok(()) => Ok(image_header),
        Err(error) => {
            files.remove_image();
            Err(error)
        }
    }
}

/// Returns a random number other than 0: the salt of the checksums of a new image, or the number of a session. The salt
/// distinguishes the metadata of an image from that of other images.
pub(super) fn random_nonzero_number() -> u64 {
    RandomState::new().hash_one(std::process::id()).max(1)
}

/// Writes the files of a new image to `backing`. All metadata is written at creation, so that a full disk of the server
/// machine can later refuse only writes of data.
///
/// # Errors
/// [`ImageError::Io`].
pub fn create_on(backing: &mut impl Backing, image_header: &ImageHeader) -> Result<(), ImageError> {
    write_image_files(backing, image_header, &mut |_, _| {})
}

/// Writes all files of a new image to `backing`, the header last. `progress` is called with the bytes written so far
/// and the total.
fn write_image_files(
    backing: &mut impl Backing,
    image_header: &ImageHeader,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<(), ImageError> {
    let layout = Layout::new(image_header);
    let fresh = BlockRecord { health: BlockHealth::Good, erase_count: 0, programmed_pages: 0 };
    let blocks = u64::from(layout.geometry.blocks());
    let mut state = vec![0; layout.nvram_words as usize];
    state.resize((layout.nvram_words + blocks) as usize, fresh.encode());
    let session = SessionRecord {
        was_closed: true,
        durability: image_header.durability,
        session_id: random_nonzero_number(),
        ..SessionRecord::default()
    };
    let mut writer = MetadataWriter { backing, layout: &layout, written_bytes: 0, progress };
    writer.write_blank_metadata()?;
    writer.write_device_state_words(&Journal::with_device_state_words(state))?;
    writer.write_both_copies(ImageFile::Session, &session.encode(image_header.checksum_salt), 0)?;
    // The last byte is written, so that the file has its full length and pages that were never programmed take no
    // space.
    writer.write(ImageFile::Flash, &[0], layout.flash_file_bytes() - 1)?;
    finish_creation(backing, image_header)
}

/// Completes the creation of an image: syncs all its files, then writes both copies of its header. The copy in its own
/// file `superblock` is written first, which makes the directory an image.
pub(super) fn finish_creation(
    backing: &mut impl Backing,
    image_header: &ImageHeader,
) -> Result<(), ImageError> {
    sync_image_files(backing, &ImageFile::ALL)?;
    write_image_header(backing, image_header, ImageFile::ImageHeader)?;
    write_image_header(backing, image_header, ImageFile::Mirror)
}

/// Completes the upgrade of an image, when only the mirror (the file with the second copies) holds the new metadata.
/// Syncs the mirror, then writes both copies of the header, the one in the mirror first.
pub(super) fn finish_upgrade(
    backing: &mut impl Backing,
    image_header: &ImageHeader,
) -> Result<(), ImageError> {
    sync_image_files(backing, &[ImageFile::Mirror])?;
    write_image_header(backing, image_header, ImageFile::Mirror)?;
    write_image_header(backing, image_header, ImageFile::ImageHeader)
}

/// Syncs `files` of the image.
fn sync_image_files(backing: &mut impl Backing, files: &[ImageFile]) -> Result<(), ImageError> {
    let synced = backing.sync_all(files);
    synced.map_err(|(file, source)| io_error(backing, "sync", file)(source))
}

/// Writes the header of an image to the beginning of `file` (`superblock` or `mirror`), and syncs the file.
fn write_image_header(
    backing: &mut impl Backing,
    image_header: &ImageHeader,
    file: ImageFile,
) -> Result<(), ImageError> {
    let written = backing.write(file, &image_header.encode(), 0);
    written.map_err(io_error(backing, "write", file))?;
    sync_image_files(backing, &[file])
}

/// Size of each metadata write during the creation of an image, bytes. It equals the size of later reads and writes of
/// metadata. Larger writes would make the page cache use large folios. A file system that walks all blocks of a folio
/// then makes every later write of 64 bytes several times as expensive.
const METADATA_PIECE_BYTES: usize = 4096;

/// Writer of the metadata of a new image, which can write both copies: the one in its own file and the one in the
/// mirror.
struct MetadataWriter<'a, B> {
    /// Files of the new image.
    backing: &'a mut B,
    /// Offsets of the metadata in the files.
    layout: &'a Layout,
    /// Number of metadata bytes written so far; the two copies of a byte count once.
    written_bytes: u64,
    /// Callback that is called with the bytes written so far and their total.
    progress: &'a mut dyn FnMut(u64, u64),
}

impl<B: Backing> MetadataWriter<'_, B> {
    /// Writes bytes to one file, without their second copy in the mirror.
    fn write(&mut self, file: ImageFile, bytes: &[u8], offset: u64) -> Result<(), ImageError> {
        self.backing.write(file, bytes, offset).map_err(io_error(self.backing, "write", file))
    }

    /// Writes metadata to `file` and to the mirror, and calls the progress callback from time to time.
    fn write_both_copies(&mut self, file: ImageFile, bytes: &[u8], offset: u64) -> Result<(), ImageError> {
        /// Number of 4-KiB pieces of metadata after which the progress callback is called again.
        const METADATA_PIECES_PER_PROGRESS_REPORT: u64 = 1 << 12;
        for side in METADATA_COPIES {
            let (file, offset) = side.location_of(self.layout, file, offset);
            self.write(file, bytes, offset)?;
        }
        let before = self.written_bytes / METADATA_PIECE_BYTES as u64;
        self.written_bytes += bytes.len() as u64;
        if self.written_bytes / METADATA_PIECE_BYTES as u64 / METADATA_PIECES_PER_PROGRESS_REPORT
            != before / METADATA_PIECES_PER_PROGRESS_REPORT
        {
            let all = self.layout.bytes_before_spare_areas()
                + self.layout.nvram_file_bytes()
                + self.layout.journal_file_bytes();
            (self.progress)(self.written_bytes, all);
        }
        Ok(())
    }

    /// Writes the blank metadata of a new image: OOB records and journal, which begin as zeros.
    fn write_blank_metadata(&mut self) -> Result<(), ImageError> {
        let regions = [
            (ImageFile::Flash, self.layout.bytes_before_spare_areas()),
            (ImageFile::Journal, self.layout.journal_file_bytes()),
        ];
        for (file, len) in regions {
            // All regions are whole multiples of `METADATA_PIECE_BYTES`.
            for at in (0..len).step_by(METADATA_PIECE_BYTES) {
                self.write_both_copies(file, &[0; METADATA_PIECE_BYTES], at)?;
            }
        }
        Ok(())
    }

    /// Writes all sectors of the file `nvram`, which hold the NVRAM and the state of each block, and the first record
    /// of the journal.
    fn write_device_state_words(&mut self, journal: &Journal) -> Result<(), ImageError> {
        /// Number of sectors of the file `nvram` (512 bytes each) that are written in one write.
        const DEVICE_STATE_SECTORS_PER_WRITE: usize = METADATA_PIECE_BYTES / DEVICE_STATE_SECTOR_BYTES;
        for from in (0..self.layout.device_state_sector_count()).step_by(DEVICE_STATE_SECTORS_PER_WRITE) {
            let to =
                self.layout.device_state_sector_count().min(from + DEVICE_STATE_SECTORS_PER_WRITE as u64);
            let bytes = journal.encode_device_state_sectors(self.layout, from, to);
            self.write_both_copies(ImageFile::Nvram, &bytes, from * DEVICE_STATE_SECTOR_BYTES as u64)?;
        }
        self.write_both_copies(ImageFile::Journal, &Journal::encode_first_record(self.layout), 0)
    }
}
