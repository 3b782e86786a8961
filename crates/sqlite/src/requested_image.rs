//! What a database's URI demands of an image: properties that a new image gets and that an existing image must already
//! have, and the durability mode of the session.
//!
//! If an existing image does not meet a demand, the open is refused, because a user would believe what the URI says.
//! Equal values are accepted, so that the URI that created an image also opens it. The price: each setting of `set=` is
//! applied to the image's configuration once more, at every open.

use std::path::Path;

use wearwell_config::{Config, ConfigError};
use wearwell_serve::image::layout::ImageHeader;
use wearwell_serve::image::{Durability, ImageSpecification};

use crate::error::Error;

/// Design (kind of FTL) of a new device if the URI names none.
pub const DEFAULT_DESIGN: &str = "remap";

/// Properties that a database's URI requests of an image. `None`, or an empty list of settings, means that the URI
/// leaves the property open.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RequestedImage {
    /// Name of the requested design of the device.
    pub design: Option<String>,
    /// Number of bytes that the image exports. An image that does not exist is created only if this is given.
    pub size_bytes: Option<u64>,
    /// Durability mode of the session; a new image is created with it.
    pub durability: Option<Durability>,
    /// Settings of the device, each of the form `key=value`.
    pub settings: Vec<String>,
}

impl RequestedImage {
    /// Returns the specification by which the image is created; `None` if the URI names no size, so that the image has
    /// to exist.
    ///
    /// # Errors
    /// A setting is invalid.
    pub fn new_image_specification(&self) -> Result<Option<ImageSpecification>, ConfigError> {
        self.size_bytes.map(|size_bytes| self.specification(size_bytes, None)).transpose()
    }

    /// Checks that an existing image has the requested properties.
    ///
    /// # Errors
    /// [`Error::ImageContradictsUri`] if the image has another design, another size or other settings.
    pub fn require_matching_image(&self, image: &ImageHeader, directory: &Path) -> Result<(), Error> {
        let refuse = |parameter: &'static str, actual: String| {
            Err(Error::ImageContradictsUri { image_path: directory.display().to_string(), parameter, actual })
        };
        if self.design.as_ref().is_some_and(|design| *design != image.design) {
            return refuse("design", format!("the image was made with design={}", image.design));
        }
        let image_bytes = u64::from(image.logical_pages) * u64::from(image.geometry.page_bytes);
        if self.size_bytes.is_some_and(|bytes| bytes != image_bytes) {
            return refuse("size", format!("the image has size={image_bytes}"));
        }
        // Some settings are replaced when an image is created, such as a preset by the geometry that it means. So they
        // differ from the image's configuration, but the same image would be made of them again.
        let is_made_again = || {
            let specification = self.specification(image_bytes, Some(&image.design)).ok()?;
            let again = specification.build_image_header(image.checksum_salt).ok()?;
            Some(again.config_toml == image.config_toml)
        };
        match self.settings.iter().find(|setting| !is_setting_of(image, setting)) {
            Some(setting) if is_made_again() != Some(true) => {
                refuse("set", format!("the image was made without `{setting}`"))
            }
            _ => Ok(()),
        }
    }

    /// Returns the specification of an image that exports `size_bytes`. Its design is the requested one, else the given
    /// `design`, else the default design.
    fn specification(
        &self,
        size_bytes: u64,
        design: Option<&str>,
    ) -> Result<ImageSpecification, ConfigError> {
        let design = self.design.as_deref().or(design).unwrap_or(DEFAULT_DESIGN);
        Ok(ImageSpecification {
            design: design.to_owned(),
            config: Config::from_text_and_settings(None, &self.settings)?,
            size_bytes: Some(size_bytes),
            durability: self.durability.unwrap_or_default(),
        })
    }
}

/// Whether an image already has a setting: its configuration stays equal if `setting` is applied to it.
fn is_setting_of(image: &ImageHeader, setting: &str) -> bool {
    let with = |settings: &[String]| {
        Config::from_text_and_settings(Some(("superblock", &image.config_toml)), settings)
            .map(|config| config.to_toml())
            .ok()
    };
    with(&[setting.to_owned()]).is_some_and(|changed| Some(changed) == with(&[]))
}
