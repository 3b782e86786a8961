//! Opens the device on which a database is stored.

use std::path::{Path, PathBuf};

use wearwell_serve::FlashDevice;
use wearwell_serve::image::{self, Image, ImageOpenOptions, ImageSpecification};

use crate::directory::FileDirectory;
use crate::drive::Drive;
use crate::error::Error;
use crate::local_drive::LocalDrive;
use crate::options::{Backend, Options};
use crate::remote_drive::RemoteDrive;

/// Opens the device that the parameters of a database's URI name. `may_create` states whether an image that does not
/// exist may be created.
///
/// # Errors
/// An [`Error`] that describes why the device cannot be opened. A new image is created only if it can hold a database.
pub fn open_drive(options: &Options, may_create: bool) -> Result<Box<dyn Drive>, Error> {
    Ok(match &options.backend {
        Backend::Memory(specification) => {
            Box::new(LocalDrive { device: specification.build()?, image_directory: PathBuf::new() })
        }
        Backend::Image { directory, requested } => {
            let specification = requested.new_image_specification()?;
            if !directory.exists() {
                let Some(specification) = specification else {
                    return Err(Error::NoImage { image_path: directory.display().to_string() });
                };
                if !may_create {
                    return Err(Error::CreationNotAllowed {
                        missing_database_or_image: format!("the image {}", directory.display()),
                    });
                }
                require_database_fits(&specification, directory)?;
                image::create(directory, &specification)
                    .map_err(|error| Error::of_image(directory, &error))?;
            }
            let image = Image::open(directory, ImageOpenOptions { durability: requested.durability })
                .map_err(|error| Error::of_image(directory, &error))?;
            if let Err(refusal) = requested.require_matching_image(&image.image_header, directory) {
                image.close().map_err(|error| Error::of_image(directory, &error))?;
                return Err(refusal);
            }
            let identity = image.health_facts();
            let device = FlashDevice::new(image.device, identity)?;
            Box::new(LocalDrive { device, image_directory: directory.clone() })
        }
        Backend::Server { nbd_socket, control } => Box::new(RemoteDrive::connect(nbd_socket, control)?),
    })
}

/// Refuses an image that is too small for a database, or has too small pages, before it is created.
fn require_database_fits(specification: &ImageSpecification, directory: &Path) -> Result<(), Error> {
    let image_header =
        specification.build_image_header(0).map_err(|error| Error::of_image(directory, &error))?;
    let device_page_bytes = image_header.geometry.page_bytes;
    FileDirectory::new(
        u64::from(image_header.logical_pages) * u64::from(device_page_bytes),
        device_page_bytes,
    )?;
    Ok(())
}
