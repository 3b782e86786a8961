//! The device of a database if it runs in this process: flash in memory, or an image.

use std::path::PathBuf;

use serde_json::Value;
use wearwell::address::RemapMode;
use wearwell_serve::device::BlockDevice;
use wearwell_serve::{DeviceError, FlashDevice, control, image};

use crate::drive::Drive;
use crate::error::Error;

/// Drive whose device runs in this process, with flash in memory or in an image.
pub(crate) struct LocalDrive {
    /// Device on which the database is stored.
    pub(crate) device: FlashDevice,
    /// Directory of the image; empty if the device is in memory.
    pub(crate) image_directory: PathBuf,
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

    fn device_page_bytes(&self) -> u32 {
        self.device.write_granularity_bytes()
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
        let answer = control::answer_control_line(br#"{"command": "stats"}"#, &mut self.device);
        Ok(serde_json::from_str(&answer).map_err(|error| DeviceError::Failed(error.to_string()))?)
    }

    fn close(self: Box<Self>) -> Result<(), Error> {
        image::close(self.device.into_live_device())
            .map_err(|error| Error::of_image(&self.image_directory, &error))
    }
}
