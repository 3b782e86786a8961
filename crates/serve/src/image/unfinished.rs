//! An unfinished image: its contents are still being written. Its directory becomes an image only when they are
//! complete.
//!
//! Both copies of the image header are kept in memory until then. So an interruption at any instant leaves what an
//! interrupted creation leaves: a directory that is no image, in which an image can be created.

use std::fs::File;
use std::io::{self, IoSliceMut};
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use rustix::fs::SeekFrom;
use rustix::io::Errno;

use super::backing::{Backing, OpenImageFiles, read_prefix, require_permitted_file_size};
use super::create::create_on;
use super::error::ImageError;
use super::image_file::ImageFile;
use super::io_error;
use super::layout::{IMAGE_HEADER_BYTES_MAX, IMAGE_HEADER_MAGIC, ImageHeader, Layout};
use super::unreadable_sectors::{UnreadableSectors, read_around_unreadable_sectors};

/// An unfinished image: its files, with the header (file `superblock`) still in memory, so that the directory is no
/// image yet.
#[derive(Debug)]
pub struct UnfinishedImage {
    /// Open files of the directory.
    files: OpenImageFiles,
    /// Content for the file `superblock`, the header of the image.
    image_header: Vec<u8>,
    /// Content for the beginning of the file `mirror`: the second copy of the image header, or as many of its first
    /// bytes as the mirror holds.
    image_header_in_mirror: Vec<u8>,
    /// Sectors that the disk could not read while the image was copied, by file.
    unreadable_sectors: Vec<UnreadableSectors>,
}

impl UnfinishedImage {
    /// Creates the files of an image in a new or empty directory. After an error, what was created is removed.
    ///
    /// # Errors
    /// As [`create`](super::create()).
    pub(super) fn create(directory: &Path, image_header: &ImageHeader) -> Result<Self, ImageError> {
        require_permitted_file_size(Layout::new(image_header).largest_mirror_bytes())?;
        let mut unfinished = Self::without_content(OpenImageFiles::create(directory)?);
        match create_on(&mut unfinished, image_header) {
            Ok(()) => Ok(unfinished),
            Err(error) => {
                unfinished.files.remove_image();
                Err(error)
            }
        }
    }

    /// Copies the files `originals` of an image to a new or empty directory, the mirror first. If the file system
    /// supports it, the copies share their disk blocks with the originals. Otherwise holes are copied as holes, and
    /// sectors that the disk cannot read are damaged in the copies. After an error, what was created is removed.
    ///
    /// # Errors
    /// Errors of the operating system; the directory exists and is not empty.
    pub(super) fn copy_of(originals: &OpenImageFiles, directory: &Path) -> io::Result<Self> {
        let created = OpenImageFiles::create(directory).map_err(io_error_of_creation)?;
        let mut unfinished = Self::without_content(created);
        match unfinished.copy_contents(originals) {
            Ok(()) => Ok(unfinished),
            Err(error) => {
                unfinished.files.remove_image();
                Err(error)
            }
        }
    }

    /// Makes an unfinished image of open files, with an empty header.
    fn without_content(files: OpenImageFiles) -> Self {
        Self {
            files,
            image_header: Vec::new(),
            image_header_in_mirror: Vec::new(),
            unreadable_sectors: Vec::new(),
        }
    }

    /// Copies the contents of the files `originals` to the files of this image; the header stays in memory.
    fn copy_contents(&mut self, originals: &OpenImageFiles) -> io::Result<()> {
        // A missing file is the null device, whose length is 0.
        self.image_header =
            vec![0; originals.len(ImageFile::ImageHeader)?.min(IMAGE_HEADER_BYTES_MAX) as usize];
        let read = |bytes: &mut [u8], at| originals.read(ImageFile::ImageHeader, bytes, at);
        let unreadable = read_around_unreadable_sectors(read, &mut self.image_header, 0)?;
        self.record_unreadable_sectors(originals, ImageFile::ImageHeader, &unreadable);
        // The flash file is still empty while the mirror has its copy of the header: by this the directory is known as
        // no image.
        self.copy_file(originals, ImageFile::Mirror)?;
        let magic_bytes = IMAGE_HEADER_MAGIC.len();
        self.image_header_in_mirror = read_prefix(originals, ImageFile::Mirror, magic_bytes as u64)?;
        let begin = &IMAGE_HEADER_MAGIC.map(|_| 0)[..self.image_header_in_mirror.len()];
        self.files.write(ImageFile::Mirror, begin, 0)?;
        for file in [ImageFile::Session, ImageFile::Nvram, ImageFile::Journal, ImageFile::Flash] {
            self.copy_file(originals, file)?;
        }
        Ok(())
    }

    /// Copies a file to the new and empty file of this image. If the file system supports it, the copy shares its disk
    /// blocks with the original; otherwise holes are copied as holes.
    fn copy_file(&mut self, originals: &OpenImageFiles, file: ImageFile) -> io::Result<()> {
        let (original, copy) = (originals.handle_of(file), self.files.handle_of(file));
        if rustix::fs::ioctl_ficlone(copy, original).is_ok() {
            return Ok(());
        }
        let unreadable = copy_sparse(original, copy, |bytes, at| original.read_exact_at(bytes, at))?;
        self.record_unreadable_sectors(originals, file, &unreadable);
        Ok(())
    }

    /// Records the sectors of a file that the disk could not read, which begin at the bytes `offsets`.
    fn record_unreadable_sectors(&mut self, originals: &OpenImageFiles, file: ImageFile, offsets: &[u64]) {
        self.unreadable_sectors.extend(offsets.first().map(|&first_offset_bytes| UnreadableSectors {
            path: originals.path_for_messages(file),
            first_offset_bytes,
            count: offsets.len() as u64,
        }));
    }

    /// Returns the sectors that the disk could not read while the image was copied, by file.
    pub(super) fn unreadable_sectors(&self) -> &[UnreadableSectors] {
        &self.unreadable_sectors
    }

    /// Removes the files of this unfinished image, and its directory if nothing else is in it.
    pub(super) fn remove(self) {
        self.files.remove_image();
    }

    /// Makes the directory an image: syncs all that was written, then writes the header. The caller must have closed
    /// the image before. After an error, the created files are removed.
    ///
    /// # Errors
    /// [`ImageError::Io`].
    pub(super) fn finish(mut self) -> Result<(), ImageError> {
        let finished = self.write_image_header();
        if finished.is_err() {
            self.remove();
        }
        finished
    }

    /// Writes both copies of the image header, which makes the directory an image.
    fn write_image_header(&mut self) -> Result<(), ImageError> {
        let synced = self.files.sync_all(&ImageFile::ALL);
        synced.map_err(|(file, source)| io_error(&self.files, "sync", file)(source))?;
        let copies =
            [(ImageFile::ImageHeader, &self.image_header), (ImageFile::Mirror, &self.image_header_in_mirror)];
        for (file, bytes) in copies {
            let written = self.files.write(file, bytes, 0);
            written.map_err(io_error(&self.files, "write", file))?;
            self.files.sync(file).map_err(io_error(&self.files, "sync", file))?;
        }
        self.files.sync_directory().map_err(io_error(&self.files, "create", ImageFile::ImageHeader))
    }
}

/// Copies the parts of a file that hold data; the other parts become holes. `read` reads a range of the original, from a
/// given byte on. Returns the offsets of the sectors that the disk cannot read.
fn copy_sparse(
    original: &File,
    copy: &File,
    read: impl Fn(&mut [u8], u64) -> io::Result<()>,
) -> io::Result<Vec<u64>> {
    /// Largest number of bytes that are copied at a time.
    const COPY_PIECE_BYTES: u64 = 1 << 20;
    let len = original.metadata()?.len();
    copy.set_len(len)?;
    let (mut piece, mut unreadable) = (vec![0; COPY_PIECE_BYTES as usize], Vec::new());
    let mut at = 0;
    while at < len {
        // A file system without holes reports all of the file as data.
        let begin = match rustix::fs::seek(original, SeekFrom::Data(at)) {
            // No data follows.
            Err(Errno::NXIO) => break,
            begin => begin?,
        };
        let end = rustix::fs::seek(original, SeekFrom::Hole(begin))?.min(len);
        for from in (begin..end).step_by(COPY_PIECE_BYTES as usize) {
            let part = &mut piece[..(end - from).min(COPY_PIECE_BYTES) as usize];
            unreadable.extend(read_around_unreadable_sectors(&read, part, from)?);
            copy.write_all_at(part, from)?;
        }
        at = end;
    }
    Ok(unreadable)
}

/// Converts an error from creating an image directory into an I/O error. The caller is a copy that cannot be made in
/// the directory.
fn io_error_of_creation(error: ImageError) -> io::Error {
    match error {
        ImageError::Io { source, .. } => source,
        ImageError::DirectoryNotEmpty { holds_image, .. } => {
            let found = if holds_image {
                "the directory holds an image already"
            } else {
                "the directory exists and is not empty"
            };
            io::Error::new(io::ErrorKind::AlreadyExists, found)
        }
        error => io::Error::other(error),
    }
}

impl Backing for UnfinishedImage {
    fn read(&self, file: ImageFile, bytes: &mut [u8], offset: u64) -> io::Result<()> {
        match file {
            ImageFile::ImageHeader => {
                let kept = self.image_header.get(offset as usize..).unwrap_or_default();
                let kept = kept.get(..bytes.len()).ok_or(io::ErrorKind::UnexpectedEof)?;
                bytes.copy_from_slice(kept);
            }
            ImageFile::Mirror => {
                self.files.read(file, bytes, offset)?;
                let kept = self.image_header_in_mirror.get(offset as usize..).unwrap_or_default();
                let len = kept.len().min(bytes.len());
                bytes[..len].copy_from_slice(&kept[..len]);
            }
            _ => self.files.read(file, bytes, offset)?,
        }
        Ok(())
    }

    fn write(&mut self, file: ImageFile, bytes: &[u8], offset: u64) -> io::Result<()> {
        // The header is always written whole, and nothing else of the mirror begins at its first byte.
        match file {
            ImageFile::ImageHeader => bytes.clone_into(&mut self.image_header),
            ImageFile::Mirror if offset == 0 => bytes.clone_into(&mut self.image_header_in_mirror),
            _ => return self.files.write(file, bytes, offset),
        }
        Ok(())
    }

    fn read_parts(&self, file: ImageFile, parts: &mut [IoSliceMut<'_>], offset: u64) -> io::Result<()> {
        // Only pages of the flash are read in parts.
        debug_assert_eq!(file, ImageFile::Flash);
        self.files.read_parts(file, parts, offset)
    }

    fn len(&self, file: ImageFile) -> io::Result<u64> {
        if file == ImageFile::ImageHeader { Ok(self.image_header.len() as u64) } else { self.files.len(file) }
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

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// Regression: one sector that the disk could not read ended a copy, although a copy is what brings the rest of an
    /// image to a better disk.
    #[test]
    fn a_copy_of_a_file_holds_all_but_the_sectors_that_the_disk_cannot_read() {
        let folder = tempfile::tempdir().unwrap();
        let (from, to) = (folder.path().join("original"), folder.path().join("copy"));
        let content: Vec<u8> = (0..3 << 20).map(|at: u32| (at / 512) as u8 ^ 1).collect();
        fs::write(&from, &content).unwrap();
        let (original, copy) = (File::open(&from).unwrap(), File::create(&to).unwrap());
        let unreadable = [512_u64, 1024, (2 << 20) - 512];
        let read = |bytes: &mut [u8], at: u64| {
            let range = at..at + bytes.len() as u64;
            if unreadable.iter().any(|sector| range.contains(sector)) {
                return Err(io::Error::from_raw_os_error(5));
            }
            original.read_exact_at(bytes, at)
        };
        assert_eq!(copy_sparse(&original, &copy, read).unwrap(), unreadable);
        let mut expected = content;
        for at in unreadable {
            expected[at as usize..][..512].fill(0xff);
        }
        assert!(fs::read(&to).unwrap() == expected, "the copy differs elsewhere");
        let other_error = |_: &mut [u8], _| Err(io::ErrorKind::OutOfMemory.into());
        assert_eq!(
            copy_sparse(&original, &copy, other_error).unwrap_err().kind(),
            io::ErrorKind::OutOfMemory
        );
    }
}
