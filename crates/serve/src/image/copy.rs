//! Copies of images: of the files (as a snapshot, or before a repair), and of the contents into a new image with
//! another size or design.

use std::path::Path;

use wearwell::address::Lpn;
use wearwell::logical_page_form::LogicalPageForm;
use wearwell_config::{Config, PartsConfig};

use super::backing::{ImageAccess, ImagePlace, OpenImageFiles};
use super::create::{ImageSpecification, random_nonzero_number};
use super::error::ImageError;
use super::unfinished::UnfinishedImage;
use super::{Image, ImageOpenOptions, end_session};
use crate::device::lost_page_text;
use crate::live_device::LiveDevice;

/// Options of a copy of an image: in what the new image differs from the original.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ImageCopyOptions {
    /// Number of bytes that the new image exports; `None` means as many as the original exports.
    pub size_bytes: Option<u64>,
    /// Name of the design of the new image, which then has the parts of this design. `None` means design and parts of
    /// the original.
    pub design: Option<String>,
    /// Settings of the new image that replace those of the old image, such as `gc.policy=fifo`.
    pub settings: Vec<String>,
    /// Whether logical pages that are lost are skipped and read as zeros in the new image. Otherwise a lost page is an
    /// error.
    pub skips_lost_pages: bool,
}

/// Report of a copy of the contents of an image.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CopyReport {
    /// Number of logical pages that were copied. Pages that hold only zeros are not copied.
    pub copied_pages: u64,
    /// Logical pages that could not be read and were skipped.
    pub lost_pages: Vec<Lpn>,
    /// Number of bytes that the new image exports.
    pub size_bytes: u64,
    /// Name of the design of the new image.
    pub design: String,
    /// Size of a page, bytes, for the messages.
    page_bytes: u64,
}

impl CopyReport {
    /// Returns one sentence for each logical page that is lost and was left out.
    pub fn sentences(&self) -> impl Iterator<Item = String> + '_ {
        let lost = |&lpn: &Lpn| {
            format!("{}, was left out, and reads as zeros", lost_page_text(lpn, self.page_bytes))
        };
        self.lost_pages.iter().map(lost)
    }
}

/// Makes a new image with the contents of the image in `from`, but with a larger size, another design or other
/// settings. The original is only read. Wear and counters begin at zero. `progress` is called with the number of
/// logical pages processed and the total number.
///
/// # Errors
/// As [`Image::open`] and [`create`](super::create()); a size that is too small; lost pages, unless they are skipped.
/// Files that were created are removed then.
pub fn copy(
    from: &Path,
    to: &Path,
    copy_options: &ImageCopyOptions,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<CopyReport, ImageError> {
    copy_contents(
        &mut Image::open_copy_on_write(OpenImageFiles::open(from, ImageAccess::ReadOnly)?)?,
        to,
        copy_options,
        progress,
    )
}

/// Makes a new image with the contents of an open image, as [`copy`] does. Until the copy is complete, the new
/// directory is no image.
pub(super) fn copy_contents(
    original: &mut Image,
    to: &Path,
    copy_options: &ImageCopyOptions,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<CopyReport, ImageError> {
    let specification = changed_specification(original, copy_options)?;
    let old_bytes = original.device.capacity_bytes();
    let size_bytes = specification.size_bytes.unwrap_or(old_bytes);
    if size_bytes < old_bytes {
        return Err(ImageError::InvalidSetting(format!(
            "the new size, {size_bytes} bytes, is smaller than the image: choose at least its {old_bytes} bytes"
        )));
    }
    let image_header = specification.build_image_header(random_nonzero_number())?;
    let place = ImagePlace::of(to);
    let unfinished = UnfinishedImage::create(to, &image_header)?;
    let copied = Image::open_on(unfinished, ImageOpenOptions::default()).and_then(|mut image| {
        let copied =
            copy_pages(&mut original.device, &mut image.device, copy_options.skips_lost_pages, progress)
                .and_then(|copied| end_session(&mut image.device).map(|()| copied))
                .map_err(|error| {
                    os_refusal(&image.device).or(os_refusal(&original.device)).unwrap_or(error)
                })?;
        image.into_backing::<UnfinishedImage>().finish()?;
        Ok(copied)
    });
    match copied {
        Ok((pages, lost_pages)) => {
            let page_bytes = u64::from(original.device.geometry().page_bytes);
            let design = specification.design;
            Ok(CopyReport { copied_pages: pages, lost_pages, size_bytes, design, page_bytes })
        }
        Err(error) => {
            place.restore();
            Err(error)
        }
    }
}

/// Returns the refusal of the operating system that stopped a device, if there was one; the engine itself reports only a
/// failure of its medium.
fn os_refusal(device: &LiveDevice) -> Option<ImageError> {
    let refused = device.medium().unresolved_write_error()?;
    Some(ImageError::IoWhileInUse {
        cause_message: refused.cause_message.clone(),
        is_disk_full: refused.is_disk_full,
    })
}

/// Returns the specification of the new image: that of the original with the changes applied, and with a flash geometry
/// that fits the new size.
fn changed_specification(
    original: &Image,
    copy_options: &ImageCopyOptions,
) -> Result<ImageSpecification, ImageError> {
    let image_header = &original.image_header;
    let mut config = Config::from_text_and_settings(Some(("superblock", &image_header.config_toml)), &[])?;
    config.device.blocks_per_plane = None;
    config.device.logical_pages = None;
    config = config.without_settings_ignored_by_live_device();
    if copy_options.design.is_some() {
        // What belongs to the old design only: the parts that were exchanged in it, and its own least number of
        // entries, which every new image of the design records.
        config.parts = PartsConfig::default();
        if config.mapping.least_cache_entries == Config::min_cache_entries(&image_header.design) {
            config.mapping.least_cache_entries = None;
        }
    }
    let config =
        Config::from_text_and_settings(Some(("superblock", &config.to_toml())), &copy_options.settings)?;
    Ok(ImageSpecification {
        design: copy_options.design.clone().unwrap_or_else(|| image_header.design.clone()),
        config,
        size_bytes: Some(copy_options.size_bytes.unwrap_or(original.device.capacity_bytes())),
        durability: image_header.durability,
    })
}

/// Copies the logical pages that hold data, in units of the original's page size. Returns the number of pages copied,
/// and the lost pages.
fn copy_pages(
    from: &mut LiveDevice,
    to: &mut LiveDevice,
    skips_lost_pages: bool,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<(u64, Vec<Lpn>), ImageError> {
    /// Number of logical pages after which progress is reported again.
    const PAGES_PER_PROGRESS_REPORT: u64 = 1 << 14;
    let page_bytes = from.page_bytes();
    let all = from.capacity_bytes() / page_bytes;
    let (mut page, mut pages, mut lost) = (vec![0; page_bytes as usize], 0, Vec::new());
    for number in 0..all {
        if number % PAGES_PER_PROGRESS_REPORT == 0 {
            progress(number, all);
        }
        let lpn = Lpn(number as u32);
        if from.logical_page_form(lpn) == LogicalPageForm::Hole {
            continue;
        }
        match from.read(number * page_bytes, &mut page) {
            // The new image reads as zeros where nothing was written.
            Ok(()) if page.iter().all(|&byte| byte == 0) => {}
            Ok(()) => {
                to.write(number * page_bytes, &page)?;
                pages += 1;
            }
            Err(error) if skips_lost_pages && error.is_media_error() => lost.push(lpn),
            Err(error) if error.is_media_error() => {
                return Err(ImageError::LostPage { cause_message: error.to_string() });
            }
            Err(error) => return Err(error.into()),
        }
    }
    to.flush()?;
    Ok((pages, lost))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::image::image_file::ImageFile;

    /// Regression: the mirror, which has a copy of the image header, was copied first. A snapshot that was killed while
    /// the flash file was copied left an image that lacked pages.
    #[test]
    fn an_interrupted_copy_of_the_files_of_an_image_is_no_image_and_can_be_repeated() {
        let folder = tempfile::tempdir().unwrap();
        let (image, to) = (folder.path().join("image"), folder.path().join("copy"));
        drop(OpenImageFiles::create(&image).unwrap());
        for file in ImageFile::ALL {
            fs::write(image.join(file.name()), "WEARWELL and more").unwrap();
        }
        let originals = OpenImageFiles::open(&image, ImageAccess::ReadOnly).unwrap();
        let unfinished = UnfinishedImage::copy_of(&originals, &to).unwrap();
        // As after the end of the process.
        drop(unfinished);
        assert_eq!(fs::read(to.join("flash")).unwrap(), b"WEARWELL and more");
        assert_eq!(fs::read(to.join("mirror")).unwrap(), b"\0\0\0\0\0\0\0\0 and more");
        assert_eq!(fs::read(to.join("superblock")).unwrap(), b"");
        // As after the end of the process before the header in the mirror was removed.
        fs::write(to.join("mirror"), "WEARWELL and more").unwrap();
        for file in [ImageFile::Session, ImageFile::Nvram, ImageFile::Journal, ImageFile::Flash] {
            fs::write(to.join(file.name()), "").unwrap();
        }
        let unfinished = UnfinishedImage::copy_of(&originals, &to).unwrap();
        unfinished.finish().unwrap();
        for file in ImageFile::ALL {
            assert_eq!(fs::read(to.join(file.name())).unwrap(), b"WEARWELL and more", "{file:?}");
        }
        let again = UnfinishedImage::copy_of(&originals, &to).unwrap_err();
        assert_eq!(again.to_string(), "the directory holds an image already");
    }
}
