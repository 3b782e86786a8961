//! The block device on which a database is stored: in this process, or that of a running server.

use std::path::{Path, PathBuf};

use serde_json::Value;
use wearwell::address::RemapMode;
use wearwell_serve::device::BlockDevice;
use wearwell_serve::image::{self, Image, ImageSpecification, OpenOptions};
use wearwell_serve::{DeviceError, FlashDevice, control};

use crate::directory::Directory;
use crate::error::Error;
use crate::options::{Backend, Options};
use crate::remote::RemoteDrive;

/// A block device with a remap command. Addresses are in bytes; a remap needs whole pages.
///
/// Durability is that of [`BlockDevice`]: a write that returned before a flush is durable after the flush, and a page
/// is never a mix of two writes.
pub trait Drive: Send {
    /// Returns the capacity of the device, bytes.
    fn capacity_bytes(&self) -> u64;

    /// Returns the size of a device page, bytes.
    fn block_bytes(&self) -> u32;

    /// Reads bytes from byte `offset` of the device on. Bytes that were never written read as zeros.
    ///
    /// # Errors
    /// Those of [`BlockDevice`].
    fn read(&mut self, offset: u64, into: &mut [u8]) -> Result<(), Error>;

    /// Writes bytes from byte `offset` of the device on.
    ///
    /// # Errors
    /// Those of [`BlockDevice`].
    fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<(), Error>;

    /// Deallocates `len` bytes from byte `offset` of the device on (TRIM).
    ///
    /// # Errors
    /// Those of [`BlockDevice`].
    fn trim(&mut self, offset: u64, len: u64) -> Result<(), Error>;

    /// Makes all earlier writes, trims and remaps durable.
    ///
    /// # Errors
    /// Those of [`BlockDevice`].
    fn flush(&mut self) -> Result<(), Error>;

    /// Remaps `len` bytes of whole pages: logical pages from byte `target` on get the contents of those from byte
    /// `source` on, without data transfer.
    ///
    /// # Errors
    /// Those of [`FlashDevice::remap`].
    fn remap(&mut self, target: u64, source: u64, len: u64) -> Result<(), Error>;

    /// Returns the device's counters as JSON, as the server's control socket reports them.
    ///
    /// # Errors
    /// [`Error::Server`], [`Error::Answer`].
    fn stats(&mut self) -> Result<Value, Error>;

    /// Flushes and closes the device.
    ///
    /// # Errors
    /// Those of the last flush.
    fn close(self: Box<Self>) -> Result<(), Error>;
}

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
                    return Err(Error::NoImage { place: directory.display().to_string() });
                };
                if !may_create {
                    return Err(Error::NotCreated { missing: format!("the image {}", directory.display()) });
                }
                require_database_fits(&specification, directory)?;
                image::create(directory, &specification)
                    .map_err(|error| Error::of_image(directory, &error))?;
            }
            let image = Image::open(directory, OpenOptions { durability: requested.durability })
                .map_err(|error| Error::of_image(directory, &error))?;
            if let Err(refusal) = requested.require_matching_image(&image.superblock, directory) {
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
    let superblock = specification.build_superblock(0).map_err(|error| Error::of_image(directory, &error))?;
    let block_bytes = superblock.geometry.page_bytes;
    Directory::new(u64::from(superblock.logical_pages) * u64::from(block_bytes), block_bytes)?;
    Ok(())
}

/// A drive whose device runs in this process.
struct LocalDrive {
    device: FlashDevice,
    /// Directory of the image; empty for a device in memory.
    image_directory: PathBuf,
}

/// Makes the drive of a database from a device, for tests and measurements that construct the device themselves.
impl From<FlashDevice> for Box<dyn Drive> {
    fn from(device: FlashDevice) -> Self {
        Box::new(LocalDrive { device, image_directory: PathBuf::new() })
    }
}

impl Drive for LocalDrive {
    fn capacity_bytes(&self) -> u64 {
        self.device.capacity_bytes()
    }

    fn block_bytes(&self) -> u32 {
        self.device.block_bytes()
    }

    fn read(&mut self, offset: u64, into: &mut [u8]) -> Result<(), Error> {
        Ok(self.device.read(offset, into)?)
    }

    fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<(), Error> {
        self.device.write(offset, bytes)?;
        Ok(self.device.write_operations_to_files()?)
    }

    fn trim(&mut self, offset: u64, len: u64) -> Result<(), Error> {
        self.device.trim(offset, len)?;
        Ok(self.device.write_operations_to_files()?)
    }

    fn flush(&mut self) -> Result<(), Error> {
        Ok(self.device.flush()?)
    }

    fn remap(&mut self, target: u64, source: u64, len: u64) -> Result<(), Error> {
        self.device.remap(target, source, len, RemapMode::Copy)?;
        Ok(self.device.write_operations_to_files()?)
    }

    fn stats(&mut self) -> Result<Value, Error> {
        let answer = control::answer(br#"{"command": "stats"}"#, &mut self.device);
        Ok(serde_json::from_str(&answer).map_err(|error| DeviceError::Failed(error.to_string()))?)
    }

    fn close(self: Box<Self>) -> Result<(), Error> {
        image::close(self.device.into_live_device())
            .map_err(|error| Error::of_image(&self.image_directory, &error))
    }
}
