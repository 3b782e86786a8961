//! The device below a database: in this process, or that of a running server.

use serde_json::Value;
use wearwell::Device;
use wearwell::address::RemapMode;
use wearwell::nand::SimNand;
use wearwell_serve::device::{BlockDevice, Medium};
use wearwell_serve::image::{self, FileNand, Image, OpenOptions};
use wearwell_serve::{DeviceError, FlashDevice, control};

use crate::error::Error;
use crate::options::{Backend, Options};
use crate::remote::Remote;

/// A block device with remap. Addresses are bytes; a remap is of whole pages.
///
/// Durability is that of [`BlockDevice`]: what returned before a flush is durable after it, and a page is never a mix of two
/// writes.
pub trait Drive: Send {
    /// Bytes.
    fn capacity_bytes(&self) -> u64;

    /// Bytes of a page.
    fn block_bytes(&self) -> u32;

    /// Reads; what was never written reads as zeros.
    ///
    /// # Errors
    /// Those of [`BlockDevice`].
    fn read(&mut self, offset: u64, into: &mut [u8]) -> Result<(), Error>;

    /// Writes.
    ///
    /// # Errors
    /// Those of [`BlockDevice`].
    fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<(), Error>;

    /// Deallocates.
    ///
    /// # Errors
    /// Those of [`BlockDevice`].
    fn trim(&mut self, offset: u64, len: u64) -> Result<(), Error>;

    /// Makes everything before durable.
    ///
    /// # Errors
    /// Those of [`BlockDevice`].
    fn flush(&mut self) -> Result<(), Error>;

    /// Gives whole pages at `target` the contents of those at `source`.
    ///
    /// # Errors
    /// Those of [`FlashDevice::remap`].
    fn remap(&mut self, target: u64, source: u64, len: u64) -> Result<(), Error>;

    /// The device's counters, as the control socket tells them.
    ///
    /// # Errors
    /// [`Error::Server`], [`Error::Answer`].
    fn stats(&mut self) -> Result<Value, Error>;

    /// Ends its use in good order.
    ///
    /// # Errors
    /// What the last flush says.
    fn close(self: Box<Self>) -> Result<(), Error>;
}

/// Opens the device that the parameters of a URI name.
///
/// # Errors
/// [`Error`] with what stands against it.
pub fn open(options: &Options) -> Result<Box<dyn Drive>, Error> {
    Ok(match &options.backend {
        Backend::Memory(specification) => {
            Box::new(Local { device: specification.build()?, close: |_| Ok(()) })
        }
        Backend::Image { directory, new } => {
            if let Some(specification) = new
                && !directory.exists()
            {
                image::create(directory, specification)?;
            }
            let image = Image::open(directory, OpenOptions::default())?;
            let identity = image.identity();
            let close = |device: Device<FileNand>| Ok(image::close(device)?);
            Box::new(Local { device: FlashDevice::new(image.device, identity)?, close })
        }
        Backend::Server { nbd, control } => Box::new(Remote::connect(nbd, control)?),
    })
}

/// The engine in this process.
struct Local<N> {
    device: FlashDevice<N>,
    close: fn(Device<N>) -> Result<(), Error>,
}

/// A device in memory is one as well, for tests and measurements that look into it.
impl From<FlashDevice<SimNand>> for Box<dyn Drive> {
    fn from(device: FlashDevice<SimNand>) -> Self {
        Box::new(Local { device, close: |_| Ok(()) })
    }
}

impl<N: Medium> Drive for Local<N> {
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
        Ok(self.device.write_deferred()?)
    }

    fn trim(&mut self, offset: u64, len: u64) -> Result<(), Error> {
        self.device.trim(offset, len)?;
        Ok(self.device.write_deferred()?)
    }

    fn flush(&mut self) -> Result<(), Error> {
        Ok(self.device.flush()?)
    }

    fn remap(&mut self, target: u64, source: u64, len: u64) -> Result<(), Error> {
        self.device.remap(target, source, len, RemapMode::Copy)?;
        Ok(self.device.write_deferred()?)
    }

    fn stats(&mut self) -> Result<Value, Error> {
        let answer = control::answer(br#"{"command": "stats"}"#, &mut self.device);
        Ok(serde_json::from_str(&answer).map_err(|error| DeviceError::Failed(error.to_string()))?)
    }

    fn close(self: Box<Self>) -> Result<(), Error> {
        (self.close)(self.device.into_device())
    }
}
