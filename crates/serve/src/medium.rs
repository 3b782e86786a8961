//! The flash of a live device: a medium that may defer its operations.

use std::any::Any;
use std::fmt::Debug;
use std::io;
use std::path::Path;

use wearwell::nand::{Nand, NandError, PowerCutNand, SimNand};

use crate::device_error::FileIoError;
use crate::image::UnreadableSectors;

/// Flash medium that a server can use. A medium may defer operations until [`Medium::write_operations_to_files`] is
/// called. The engine does not notice this.
pub trait Medium: Nand + Any + Debug + Send {
    /// Writes the deferred operations of the medium to its files. They then are in the page cache. The disk is waited
    /// for only if a sync was asked for.
    ///
    /// # Errors
    /// The reason for which the operating system refused a write. No operation is lost; the call may be repeated.
    fn write_operations_to_files(&mut self) -> Result<(), FileIoError> {
        Ok(())
    }

    /// Sets whether blocks that are erased from now on return their file space to the file system (by punching holes)
    /// until they are programmed again.
    fn set_hole_punching(&mut self, _: bool) {}

    /// Copies the medium in its present state to a new directory, as an image that was closed cleanly. Returns the
    /// sectors that are damaged in the copy, because the disk could not read them.
    ///
    /// # Errors
    /// Errors of the operating system; a medium that is no image.
    fn copy_image_to(&mut self, _directory: &Path) -> io::Result<Vec<UnreadableSectors>> {
        Err(io::Error::new(
            io::ErrorKind::Unsupported,
            "the device is in memory and has no files; to take snapshots, serve an image instead",
        ))
    }

    /// Writes all deferred operations of the medium to its files, syncs the files, and records that the medium was
    /// closed.
    ///
    /// # Errors
    /// [`NandError::PowerLost`] if the operating system refuses ([`Medium::unresolved_write_error`]).
    fn end_session(&mut self) -> Result<(), NandError> {
        Ok(())
    }

    /// Returns the last write that the operating system refused; `None` if a write succeeded since, or none was
    /// refused. Reads return correct data in either case.
    fn unresolved_write_error(&self) -> Option<&FileIoError> {
        None
    }
}

impl Medium for SimNand {}

/// Lets tests run a live device whose power is cut at a chosen operation.
impl Medium for PowerCutNand {}
