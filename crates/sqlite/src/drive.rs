//! Interface of the block device on which a database is stored: a device in this process (`local`), or one of a running
//! server (`remote`).

use serde_json::Value;

use crate::error::Error;

/// A block device with a remap command. Addresses are in bytes. A remap needs whole pages.
///
/// Durability is that of [`BlockDevice`](wearwell_serve::device::BlockDevice): a write that returned before a flush is
/// durable after the flush, and a page is never a mix of two writes.
pub trait Drive: Send {
    /// Returns the capacity of the device, bytes.
    fn capacity_bytes(&self) -> u64;

    /// Returns the size of a device page, bytes.
    fn device_page_bytes(&self) -> u32;

    /// Reads bytes from byte `offset` of the device on. Bytes that were never written read as zeros.
    ///
    /// # Errors
    /// Those of [`BlockDevice`](wearwell_serve::device::BlockDevice).
    fn read(&mut self, offset: u64, into: &mut [u8]) -> Result<(), Error>;

    /// Writes bytes from byte `offset` of the device on.
    ///
    /// # Errors
    /// Those of [`BlockDevice`](wearwell_serve::device::BlockDevice).
    fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<(), Error>;

    /// Deallocates `len` bytes from byte `offset` of the device on (TRIM).
    ///
    /// # Errors
    /// Those of [`BlockDevice`](wearwell_serve::device::BlockDevice).
    fn trim(&mut self, offset: u64, len: u64) -> Result<(), Error>;

    /// Makes all earlier writes, trims and remaps durable.
    ///
    /// # Errors
    /// Those of [`BlockDevice`](wearwell_serve::device::BlockDevice).
    fn flush(&mut self) -> Result<(), Error>;

    /// Remaps `len` bytes of whole pages: logical pages from byte `target` on get the contents of those from byte
    /// `source` on, without data transfer.
    ///
    /// # Errors
    /// Those of [`FlashDevice::remap`](wearwell_serve::FlashDevice::remap).
    fn remap(&mut self, target: u64, source: u64, len: u64) -> Result<(), Error>;

    /// Returns the device's counters as JSON, as the server's control socket reports them.
    ///
    /// # Errors
    /// [`Error::ServerConnection`], [`Error::MalformedAnswer`].
    fn stats(&mut self) -> Result<Value, Error>;

    /// Flushes the device and closes it.
    ///
    /// # Errors
    /// Those of the last flush.
    fn close(self: Box<Self>) -> Result<(), Error>;
}
