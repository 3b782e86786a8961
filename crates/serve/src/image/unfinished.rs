//! An image whose contents are still being written: its directory becomes an image only when they are complete.
//!
//! Both copies of the superblock are kept in memory until then. So an interruption at any instant leaves what an
//! interrupted creation leaves: a directory that is no image, in which an image can be created.

use std::io::{self, IoSliceMut};
use std::path::Path;

use super::backing::{Backing, ImageFile, OpenImageFiles, require_permitted_file_size};
use super::create::{create_on, finish_creation};
use super::error::ImageError;
use super::io_error;
use super::layout::{Layout, Superblock};

/// The files of an image without its superblock, which is in memory.
#[derive(Debug)]
pub(super) struct UnfinishedImage {
    files: OpenImageFiles,
    /// Content of both copies of the superblock: of its own file, and of the beginning of the mirror.
    superblock: Vec<u8>,
}

impl UnfinishedImage {
    /// Creates the files of an image in a new or empty directory. After an error, what was created is removed.
    ///
    /// # Errors
    /// As [`create`](super::create()).
    pub(super) fn create(directory: &Path, superblock: &Superblock) -> Result<Self, ImageError> {
        require_permitted_file_size(Layout::new(superblock).flash_file_bytes())?;
        let mut unfinished = Self { files: OpenImageFiles::create(directory)?, superblock: Vec::new() };
        match create_on(&mut unfinished, superblock) {
            Ok(()) => Ok(unfinished),
            Err(error) => {
                unfinished.files.remove_image();
                Err(error)
            }
        }
    }

    /// Makes the directory an image, after a sync of all that was written. The image must be closed before.
    ///
    /// # Errors
    /// [`ImageError::Io`].
    pub(super) fn finish(mut self, superblock: &Superblock) -> Result<(), ImageError> {
        finish_creation(&mut self.files, superblock)?;
        self.files.sync_directory().map_err(io_error(&self.files, "create", ImageFile::Superblock))
    }
}

impl Backing for UnfinishedImage {
    fn read(&self, file: ImageFile, bytes: &mut [u8], offset: u64) -> io::Result<()> {
        let kept = self.superblock.get(offset as usize..).unwrap_or_default();
        match file {
            ImageFile::Superblock => {
                let kept = kept.get(..bytes.len()).ok_or(io::ErrorKind::UnexpectedEof)?;
                bytes.copy_from_slice(kept);
            }
            ImageFile::Mirror => {
                self.files.read(file, bytes, offset)?;
                let len = kept.len().min(bytes.len());
                bytes[..len].copy_from_slice(&kept[..len]);
            }
            _ => self.files.read(file, bytes, offset)?,
        }
        Ok(())
    }

    fn write(&mut self, file: ImageFile, bytes: &[u8], offset: u64) -> io::Result<()> {
        // The superblock is always written whole, and nothing else of the mirror begins at its first byte.
        if file == ImageFile::Superblock || (file == ImageFile::Mirror && offset == 0) {
            bytes.clone_into(&mut self.superblock);
            return Ok(());
        }
        self.files.write(file, bytes, offset)
    }

    fn read_parts(&self, file: ImageFile, parts: &mut [IoSliceMut<'_>], offset: u64) -> io::Result<()> {
        // Only pages of the flash are read in parts.
        debug_assert_eq!(file, ImageFile::Flash);
        self.files.read_parts(file, parts, offset)
    }

    fn len(&self, file: ImageFile) -> io::Result<u64> {
        if file == ImageFile::Superblock { Ok(self.superblock.len() as u64) } else { self.files.len(file) }
    }

    fn sync(&mut self, file: ImageFile) -> io::Result<()> {
        self.files.sync(file)
    }

    fn sync_all(&mut self, files: &[ImageFile]) -> Result<(), (ImageFile, io::Error)> {
        self.files.sync_all(files)
    }

    fn begin_sync(&mut self, file: ImageFile) {
        self.files.begin_sync(file);
    }

    fn punch_hole(&mut self, file: ImageFile, offset: u64, len: u64) -> io::Result<()> {
        self.files.punch_hole(file, offset, len)
    }

    fn path_for_messages(&self, file: ImageFile) -> String {
        self.files.path_for_messages(file)
    }
}
