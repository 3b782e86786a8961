//! Upgrade of an image from format version 1 to format version 2.
//!
//! Pages, spare areas and their OOB records keep their places. All metadata of version 2 is first written to the
//! mirror, which version 1 does not have. Then the image header is rewritten with version 2; this completes the
//! upgrade. From then on the contents of `nvram` and `journal` from version 1 are damaged copies, which opening repairs
//! from the mirror. An interruption before the header is written leaves an image of version 1, a later one an image of
//! version 2. The whole upgrade is tried on a view that changes no file before anything is written.

use std::path::Path;

use wearwell::address::Ppn;

use super::backing::{Backing, CopyOnWrite, ImageAccess, OpenImageFiles, read_prefix};
use super::create::finish_upgrade;
use super::error::ImageError;
use super::image_file::ImageFile;
use super::journal::Journal;
use super::layout::{
    FORMAT_VERSION, IMAGE_HEADER_BYTES_MAX, ImageHeader, ImageHeaderError, Layout, METADATA_RECORD_BYTES,
    OobRecord, SessionRecord,
};
use super::metadata_copy::MetadataCopy;
use super::{Image, ImageOpenOptions, close, io_error, version1};

/// Upgrades the image in a directory from version 1 of the format to version 2. Takes time in proportion to the
/// metadata.
///
/// # Errors
/// [`ImageError`]: there is no image of version 1, it is in use or damaged, or files cannot be written. The image is
/// then unchanged.
pub fn upgrade(directory: &Path) -> Result<ImageHeader, ImageError> {
    upgrade_on(OpenImageFiles::open(directory, ImageAccess::ReadWrite)?)
}

/// Upgrades the image in the files of `backing`, as [`upgrade`] does for those in a directory.
///
/// # Errors
/// As [`upgrade`].
pub fn upgrade_on<B: Backing>(backing: B) -> Result<ImageHeader, ImageError> {
    let mut view = CopyOnWrite::new(backing);
    convert_to_version_2(&mut view)?;
    let image = Image::open_on(view, ImageOpenOptions::default()).map_err(|error| match error {
        ImageError::Damaged { findings, .. } => ImageError::Damaged { findings, may_be_rescued: false },
        error => error,
    })?;
    let mut backing = image.into_backing::<CopyOnWrite<B>>().into_underlying();
    let image_header = convert_to_version_2(&mut backing)?;
    // Opening repairs the files that version 1 left.
    close(Image::open_on(backing, ImageOpenOptions::default())?.device)?;
    Ok(image_header)
}

/// Writes all metadata of format version 2 to the mirror, and then the header of version 2. Nothing is written if the
/// image is damaged.
fn convert_to_version_2(backing: &mut impl Backing) -> Result<ImageHeader, ImageError> {
    let image_header = read_image_header(backing)?;
    let layout = Layout::new(&image_header);
    let image = version1::read(backing, &layout).map_err(io_error(backing, "read", ImageFile::Flash))?;
    if !image.findings.is_empty() {
        return Err(ImageError::Damaged { findings: image.findings, may_be_rescued: false });
    }
    for (ppn, page) in (0..).map(Ppn).zip(&image.oob_records) {
        copy_page_to_mirror(backing, &layout, ppn, page.as_ref())?;
    }
    let journal = Journal::with_device_state_words(image.device_state_words);
    let sectors = journal.encode_device_state_sectors(&layout, 0, layout.device_state_sector_count());
    let unclean = u64::from(!image.session.was_closed);
    let unsafe_shutdowns = image.session.unsafe_shutdowns + unclean;
    let session =
        SessionRecord { was_closed: true, unsafe_shutdowns, last_journal_record_number: 0, ..image.session };
    for (file, bytes) in [
        (ImageFile::Nvram, sectors),
        (ImageFile::Journal, Journal::encode_first_record(&layout)),
        (ImageFile::Session, session.encode(layout.checksum_salt).to_vec()),
    ] {
        write_mirror_copy(backing, &layout, file, &bytes, 0)?;
    }
    finish_upgrade(backing, &image_header)?;
    Ok(image_header)
}

/// Reads the header of an image, which must have format version 1.
fn read_image_header(backing: &impl Backing) -> Result<ImageHeader, ImageError> {
    let file = ImageFile::ImageHeader;
    let bytes =
        read_prefix(backing, file, IMAGE_HEADER_BYTES_MAX).map_err(io_error(backing, "read", file))?;
    ImageHeader::decode_as(1, &bytes).map_err(|wrong| match wrong {
        ImageHeaderError::Version(FORMAT_VERSION) => ImageError::InvalidSetting(format!(
            "the image has format version {FORMAT_VERSION} already, and needs no upgrade: use it as it is"
        )),
        ImageHeaderError::Version(image_version) => {
            ImageError::UnsupportedVersion { image_version, known_version: FORMAT_VERSION }
        }
        ImageHeaderError::Magic | ImageHeaderError::Damaged => {
            ImageError::beyond_repair("the superblock of the image must be intact, but is damaged")
        }
    })
}

/// Writes the mirror's copy of the metadata `bytes`, whose place is byte `offset` of `file`.
fn write_mirror_copy(
    backing: &mut impl Backing,
    layout: &Layout,
    file: ImageFile,
    bytes: &[u8],
    offset: u64,
) -> Result<(), ImageError> {
    let (mirror, at) = MetadataCopy::Mirror.location_of(layout, file, offset);
    backing.write(mirror, bytes, at).map_err(io_error(backing, "write", mirror))
}

/// Writes the mirror's copies of a page's OOB record and spare bytes, and of its data if the page holds metadata.
fn copy_page_to_mirror(
    backing: &mut impl Backing,
    layout: &Layout,
    ppn: Ppn,
    page: Option<&OobRecord>,
) -> Result<(), ImageError> {
    let oob = page.map_or([0; METADATA_RECORD_BYTES], |page| layout.encode_oob(ppn, page));
    write_mirror_copy(backing, layout, ImageFile::Flash, &oob, layout.oob_record_offset(ppn))?;
    let Some(page) = page else { return Ok(()) };
    let is_metadata = page.oob.is_some_and(|oob| !oob.kind.is_host_data());
    let data_bytes = if is_metadata { layout.geometry.page_bytes as usize } else { 0 };
    let parts = [
        (layout.spare_area_offset(ppn), usize::from(page.spare_bytes)),
        (layout.data_offset(ppn), data_bytes),
    ];
    for (at, len) in parts.into_iter().filter(|&(_, len)| len > 0) {
        let mut bytes = vec![0; len];
        let read = backing.read(ImageFile::Flash, &mut bytes, at);
        read.map_err(io_error(backing, "read", ImageFile::Flash))?;
        write_mirror_copy(backing, layout, ImageFile::Flash, &bytes, at)?;
    }
    Ok(())
}
