//! Storage of the bytes of an image: its files, or a view of the files that keeps its changes in memory.
//!
//! A write has reached the page cache of the server machine when it returns, in program order and without a buffer of
//! our own, so the end of the process loses nothing. Only [`Backing::sync`] waits for the disk.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::fs::{self, File, OpenOptions};
use std::io::{self, IoSliceMut};
use std::ops::Range;
use std::os::unix::fs::{DirBuilderExt as _, FileExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, SyncSender};
use std::thread;

use rustix::fs::{FallocateFlags, FlockOperation, OFlags};

use super::error::ImageError;
use super::image_file::ImageFile;
use super::layout::{IMAGE_HEADER_FIXED_BYTES, IMAGE_HEADER_MAGIC, ImageHeader, REGION_ALIGNMENT_BYTES};
use super::resize::try_remove_remains_of_resizing;
use super::unfinished::UnfinishedImage;
use super::unreadable_sectors::read_around_unreadable_sectors;
use crate::ignored_signals::is_file_size_signal_ignored;

/// Random access to the files of one image. Implementations store the bytes in files, or keep changes in memory.
pub trait Backing: Debug + Send + 'static {
    /// Fills `bytes` from the file, from byte `offset` on.
    ///
    /// # Errors
    /// Errors of the operating system; a range that reaches beyond the end of the file.
    fn read(&self, file: ImageFile, bytes: &mut [u8], offset: u64) -> io::Result<()>;

    /// Writes all of `bytes` at byte `offset` of the file, and extends the file if necessary. After an error, a first
    /// part of `bytes` may have been written.
    ///
    /// # Errors
    /// Errors of the operating system.
    fn write(&mut self, file: ImageFile, bytes: &[u8], offset: u64) -> io::Result<()>;

    /// Returns the length of a file in bytes.
    ///
    /// # Errors
    /// Errors of the operating system.
    fn len(&self, file: ImageFile) -> io::Result<u64>;

    /// Syncs a file: all writes to it then survive a crash or power loss of the server machine.
    ///
    /// # Errors
    /// Errors of the operating system.
    fn sync(&mut self, file: ImageFile) -> io::Result<()>;

    /// Fills the buffers `parts` one after the other with consecutive bytes of the file, from byte `offset` on.
    ///
    /// # Errors
    /// As [`Backing::read`].
    fn read_parts(&self, file: ImageFile, parts: &mut [IoSliceMut<'_>], offset: u64) -> io::Result<()> {
        let mut at = offset;
        for part in parts {
            self.read(file, part, at)?;
            at += part.len() as u64;
        }
        Ok(())
    }

    /// Syncs several files of the image. If a sync fails, the error names its file.
    ///
    /// # Errors
    /// As [`Backing::sync`].
    fn sync_all(&mut self, files: &[ImageFile]) -> Result<(), (ImageFile, io::Error)> {
        files.iter().try_for_each(|&file| self.sync(file).map_err(|error| (file, error)))
    }

    /// Starts writing the data of a file to the disk in the background, so that the next sync has less to do.
    /// Guarantees nothing.
    fn begin_sync(&mut self, _: ImageFile) {}

    /// Returns the space of a range of a file to the file system (punches a hole). The bytes of the range are not
    /// needed any more and may become zeros.
    ///
    /// # Errors
    /// Errors of the operating system, also if the file system cannot do it.
    fn punch_hole(&mut self, _: ImageFile, _offset: u64, _len: u64) -> io::Result<()> {
        Ok(())
    }

    /// Copies all files to a new or empty directory, which becomes an image when the caller finishes the copy. After an
    /// error, what was created is removed.
    ///
    /// # Errors
    /// Errors of the operating system; the directory is not empty; this backing is not a directory of files.
    fn copy_files_to(&self, _directory: &Path) -> io::Result<UnfinishedImage> {
        Err(io::Error::new(
            io::ErrorKind::Unsupported,
            "this image must be a directory of files, but is kept elsewhere",
        ))
    }

    /// Returns the path of a file for error messages.
    fn path_for_messages(&self, file: ImageFile) -> String {
        format!("file `{}` of the image", file.name())
    }
}

/// Returns the first `most` bytes of a file, or all bytes of a shorter file. Sectors that the disk cannot read are
/// damaged in the result.
pub(super) fn read_prefix(backing: &impl Backing, file: ImageFile, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; backing.len(file)?.min(most) as usize];
    read_around_unreadable_sectors(|bytes, at| backing.read(file, bytes, at), &mut bytes, 0)?;
    Ok(bytes)
}

/// Way in which an image directory is opened: for reading only, or for writing too.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ImageAccess {
    /// The image is opened for reading only: other processes may read it too (shared lock).
    ReadOnly,
    /// The image is opened for reading and writing: no other process may use it (exclusive lock).
    ReadWrite,
}

/// The open files of an image directory. The image stays locked until this is dropped.
#[derive(Debug)]
pub struct OpenImageFiles {
    /// The open files, in the order of `ImageFile::ALL`.
    open_files: [File; ImageFile::ALL.len()],
    /// Path of the directory of the image, for messages.
    image_directory: String,
    /// Thread that syncs the flash file in the background; `None` until it is first needed.
    background_sync: Option<BackgroundSync>,
    /// Directory in which these files were created, as it was before; `None` if they were opened.
    creation_place: Option<ImagePlace>,
}

/// A thread that syncs the flash file on request; requests that arrive during a sync are merged into one.
#[derive(Debug)]
struct BackgroundSync {
    /// Channel to the thread that syncs the flash file on request. `None` if the thread could not be started; then the
    /// disk begins to write only when the image syncs.
    sync_request_sender: Option<SyncSender<()>>,
}

impl BackgroundSync {
    /// Starts the thread that syncs the flash file at `path` on request.
    fn start(path: &Path) -> Self {
        let (requests, asked) = mpsc::sync_channel(1);
        // The thread opens the file itself: an error of the disk is reported once to each open file, and the real sync
        // must see it too.
        let started = open_regular_file(path, OpenOptions::new().read(true)).and_then(|file| {
            let sync = move || asked.iter().for_each(|()| drop(file.sync_data()));
            thread::Builder::new().name("writeback".into()).spawn(sync)
        });
        Self { sync_request_sender: started.is_ok().then_some(requests) }
    }

    /// Requests a sync of the flash file in the background, without waiting for it.
    fn request_sync(&self) {
        if let Some(requests) = &self.sync_request_sender {
            // One waiting request is enough.
            let _ = requests.try_send(());
        }
    }
}

/// Returns a function that makes an `ImageError::Io` of an error of the operating system. `refused_operation` is a
/// verb: the operation that failed on the file or directory `path`.
pub(super) fn io_error_at<'a>(
    refused_operation: &'static str,
    path: &'a Path,
) -> impl FnOnce(io::Error) -> ImageError + 'a {
    move |source| ImageError::Io { refused_operation, path: path.display().to_string(), source }
}

impl OpenImageFiles {
    /// Creates the empty files of an image in a new or empty directory, or over the remains of an interrupted creation.
    /// Only their owner may read and write the files. After an error, what was created is removed.
    ///
    /// # Errors
    /// [`ImageError::DirectoryNotEmpty`], [`ImageError::Io`].
    pub fn create(directory: &Path) -> Result<Self, ImageError> {
        let place = ImagePlace::of(directory);
        match fs::DirBuilder::new().mode(0o700).create(directory) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                remove_interrupted_creation(directory)?;
            }
            other => other.map_err(io_error_at("create", directory))?,
        }
        let mut options = OpenOptions::new();
        options.read(true).write(true).create_new(true).mode(0o600);
        let created = Self::open_and_lock(directory, &options, ImageAccess::ReadWrite);
        // A file that exists now, or a lock, is of another process that creates an image here.
        let is_of_another = |error: &ImageError| match error {
            ImageError::Io { source, .. } => source.kind() == io::ErrorKind::AlreadyExists,
            error => matches!(error, ImageError::InUse { .. }),
        };
        match created {
            Ok(mut files) => {
                files.creation_place = Some(place);
                Ok(files)
            }
            Err(error) => {
                if !is_of_another(&error) {
                    place.restore();
                }
                Err(error)
            }
        }
    }

    /// Removes the files of an image whose creation failed. Its directory is removed, too, if it was made with them and
    /// nothing else is in it.
    pub(super) fn remove_image(mut self) {
        self.creation_place.take().expect("only what was created is removed").restore();
    }

    /// Opens and locks the files of an existing image. If the image is opened for writing, what an interrupted resizing
    /// left behind is removed.
    ///
    /// # Errors
    /// [`ImageError::NoImage`], [`ImageError::Unfinished`], [`ImageError::MissingFile`], [`ImageError::InUse`],
    /// [`ImageError::Io`].
    pub fn open(directory: &Path, access: ImageAccess) -> Result<Self, ImageError> {
        let mut options = OpenOptions::new();
        let options = options.read(true).write(access == ImageAccess::ReadWrite);
        let files = Self::open_and_lock(directory, options, access).map_err(|error| match error {
            ImageError::MissingFile { .. } if holds_unfinished_image(directory) => ImageError::Unfinished,
            error => error,
        })?;
        // The lock is held, so no creation is at work.
        if holds_unfinished_image(directory) {
            return Err(ImageError::Unfinished);
        }
        if access == ImageAccess::ReadWrite {
            let largest = files.largest_mirror_bytes().map_err(io_error_at("measure", directory))?;
            require_permitted_file_size(largest)?;
            try_remove_remains_of_resizing(directory);
        }
        Ok(files)
    }

    /// Opens all files of an image with these options, and locks the image.
    fn open_and_lock(
        directory: &Path,
        options: &OpenOptions,
        access: ImageAccess,
    ) -> Result<Self, ImageError> {
        let path = directory.display().to_string();
        let image_header = open_file(directory, ImageFile::ImageHeader, options, access)?;
        // The null device that stands for a missing file is not locked: it belongs to all processes.
        let is_present = image_header.metadata().is_ok_and(|metadata| metadata.is_file());
        if is_present && !lock_unless_replaced(&image_header, directory, access)? {
            return Self::open_and_lock(directory, options, access);
        }
        let [_, session, flash, nvram, journal, mirror] = ImageFile::ALL;
        let open = |file| open_file(directory, file, options, access);
        let flash = open(flash)?;
        // A reader of an image without the file `superblock` has no file of the image to lock but this one.
        if !lock_unless_replaced(&flash, directory, access)? {
            return Self::open_and_lock(directory, options, access);
        }
        let files = [image_header, open(session)?, flash, open(nvram)?, open(journal)?, open(mirror)?];
        // Pages are read one by one. Readahead would leave large folios in the page cache, which make small writes
        // expensive.
        for file in &files {
            // If the advice is refused, only speed is lost.
            let _ = rustix::fs::fadvise(file, 0, None, rustix::fs::Advice::Random);
        }
        Ok(Self { open_files: files, image_directory: path, background_sync: None, creation_place: None })
    }

    /// Syncs the directory, so that the names of the files survive a crash of the server machine.
    pub(super) fn sync_directory(&self) -> io::Result<()> {
        let directory = Path::new(&self.image_directory);
        File::open(directory)?.sync_all()?;
        sync_parent_directory(directory)
    }

    /// Returns an upper bound of the length of the mirror (the file with the second copies), bytes. The mirror may
    /// become the largest file of the image. The bound is the sum of the lengths of all other files, each rounded up to
    /// 4096 bytes.
    fn largest_mirror_bytes(&self) -> io::Result<u64> {
        let originals = ImageFile::ALL.into_iter().filter(|&file| file != ImageFile::Mirror);
        originals.into_iter().try_fold(0_u64, |sum, file| {
            let rounded = self.len(file)?.checked_next_multiple_of(REGION_ALIGNMENT_BYTES);
            Ok(sum.saturating_add(rounded.unwrap_or(u64::MAX)))
        })
    }

    /// Returns the open file for `file`, one of the kinds of files that an image has.
    pub(super) fn handle_of(&self, file: ImageFile) -> &File {
        &self.open_files[file as usize]
    }
}

/// Locks an image by one of its open files, `superblock` or `flash`. Returns false if this file has no name any more: a
/// resize put a larger image in the place of this image between the opening and the lock.
pub(super) fn lock_unless_replaced(
    file: &File,
    directory: &Path,
    access: ImageAccess,
) -> Result<bool, ImageError> {
    let operation = match access {
        ImageAccess::ReadOnly => FlockOperation::NonBlockingLockShared,
        ImageAccess::ReadWrite => FlockOperation::NonBlockingLockExclusive,
    };
    rustix::fs::flock(file, operation).map_err(|error| match error {
        rustix::io::Errno::WOULDBLOCK => ImageError::InUse { path: directory.display().to_string() },
        error => io_error_at("lock", directory)(error.into()),
    })?;
    file.metadata().map(|metadata| metadata.nlink() > 0).map_err(io_error_at("inspect", directory))
}

/// Opens a file of an image, which must be a regular file. A symbolic link is not followed: an image from a stranger
/// could name any file of the user in this way. Nor does the opening wait, as that of a named pipe would.
///
/// # Errors
/// Errors of the operating system; the path names something other than a regular file.
pub(super) fn open_regular_file(path: &Path, options: &OpenOptions) -> io::Result<File> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let opened = options.clone().custom_flags(flags.bits().cast_signed()).open(path);
    let file_type = match &opened {
        Ok(file) => file.metadata()?.file_type(),
        Err(_) => match fs::symlink_metadata(path) {
            Ok(found) => found.file_type(),
            Err(_) => return opened,
        },
    };
    if file_type.is_file() {
        return opened;
    }
    let found = if file_type.is_symlink() {
        "a symbolic link"
    } else if file_type.is_dir() {
        "a directory"
    } else {
        "a device, pipe or socket"
    };
    Err(io::Error::new(
        io::ErrorKind::InvalidInput,
        format!(
            "a file of an image must be a regular file, but this is {found}: put the regular file in its place"
        ),
    ))
}

/// Opens a file of the image in `directory` for reading.
///
/// # Errors
/// As [`open_regular_file`].
pub(super) fn open_image_file_for_reading(directory: &Path, file: ImageFile) -> io::Result<File> {
    open_regular_file(&directory.join(file.name()), OpenOptions::new().read(true))
}

/// Opens one file of an image. A metadata file or mirror that is missing counts as damaged and is created empty,
/// because the other copy of its content may be whole. The flash file has no copy, so a directory without it is
/// refused.
fn open_file(
    directory: &Path,
    file: ImageFile,
    options: &OpenOptions,
    access: ImageAccess,
) -> Result<File, ImageError> {
    let path = directory.join(file.name());
    let is_none =
        |error: &io::Error| matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory);
    let place = || directory.display().to_string();
    match open_regular_file(&path, options) {
        Err(error) if is_none(&error) => {
            let has = |file: ImageFile| directory.join(file.name()).is_file();
            if !has(ImageFile::Flash) {
                let is_image = has(ImageFile::ImageHeader) || has(ImageFile::Mirror);
                return Err(if is_image {
                    ImageError::MissingFile { path: place(), file: ImageFile::Flash }
                } else {
                    ImageError::NoImage { path: place() }
                });
            }
            if file == ImageFile::ImageHeader && !has(ImageFile::Mirror) {
                return Err(ImageError::MissingFile { path: place(), file });
            }
            let anew = match access {
                ImageAccess::ReadOnly => File::open("/dev/null"),
                ImageAccess::ReadWrite => open_regular_file(&path, options.clone().create(true).mode(0o600)),
            };
            anew.map_err(io_error_at("create", &path))
        }
        other => other.map_err(io_error_at("open", &path)),
    }
}

/// Syncs the parent directory of `directory`, so that the name of `directory` survives a crash of the server machine.
pub(super) fn sync_parent_directory(directory: &Path) -> io::Result<()> {
    let parent = directory.parent().filter(|parent| !parent.as_os_str().is_empty());
    File::open(parent.unwrap_or(Path::new(".")))?.sync_all()
}

/// The directory in which an image is to be made, as it was before.
#[derive(Debug)]
pub(super) struct ImagePlace {
    /// Directory of the new image.
    directory: PathBuf,
    /// Whether the directory existed before the image. It then stays if the image cannot be made.
    existed: bool,
}

impl ImagePlace {
    /// Notes whether a directory exists in which an image is to be made.
    pub(super) fn of(directory: &Path) -> Self {
        Self { directory: directory.to_owned(), existed: directory.is_dir() }
    }

    /// Removes the files of an image that could not be made, and its directory if it was made with them and nothing
    /// else is in it.
    pub(super) fn restore(self) {
        let remove = if self.existed { remove_image_files } else { remove_image };
        remove(&self.directory);
    }
}

/// Removes the files of an image in `directory`, and the directory if nothing else is in it.
pub(super) fn remove_image(directory: &Path) {
    remove_image_files(directory);
    let _ = fs::remove_dir(directory);
}

/// Removes the files of an image in `directory`.
fn remove_image_files(directory: &Path) {
    for file in ImageFile::ALL {
        // Files that cannot be removed are removed by the next creation or resizing.
        let _ = fs::remove_file(directory.join(file.name()));
    }
}

/// Empties a directory that holds only the files of an interrupted creation or copy (files of an image without its
/// header). Any other directory that is not empty is refused.
fn remove_interrupted_creation(directory: &Path) -> Result<(), ImageError> {
    let entries = fs::read_dir(directory).map_err(io_error_at("list", directory))?;
    let names = entries.map(|entry| entry.map(|entry| entry.file_name())).collect::<io::Result<Vec<_>>>();
    let names = names.map_err(io_error_at("list", directory))?;
    if names.is_empty() {
        return Ok(());
    }
    let is_of_image = |name: &std::ffi::OsString| ImageFile::ALL.iter().any(|file| name == file.name());
    let has = |file: ImageFile| directory.join(file.name()).is_file();
    let exists = ImageError::DirectoryNotEmpty {
        path: directory.display().to_string(),
        holds_image: has(ImageFile::Flash) && !holds_unfinished_image(directory),
    };
    // The process that is creating the image still holds the lock.
    let image_header = open_image_file_for_reading(directory, ImageFile::ImageHeader);
    let is_free = image_header.is_ok_and(|image_header| {
        rustix::fs::flock(&image_header, FlockOperation::NonBlockingLockExclusive).is_ok()
    });
    if !names.iter().all(is_of_image) || !is_free || !holds_unfinished_image(directory) {
        return Err(exists);
    }
    names.iter().try_for_each(|name| {
        let path = directory.join(name);
        fs::remove_file(&path).map_err(io_error_at("remove", &path))
    })
}

/// Whether a directory holds what an interrupted creation or copy of an image leaves: a file `superblock` that is empty
/// or incomplete, and a mirror without a copy of the image header. An interrupted copy may also leave a mirror with the
/// copy of the header, if all other files are still empty.
pub(super) fn holds_unfinished_image(directory: &Path) -> bool {
    let open = |file: ImageFile| open_image_file_for_reading(directory, file);
    let is_empty = |file: ImageFile| {
        fs::metadata(directory.join(file.name())).map_or(true, |metadata| metadata.len() == 0)
    };
    let mirror = open(ImageFile::Mirror).and_then(|mirror| read_header_prefix(&mirror)).unwrap_or_default();
    let is_only_mirror_copied =
        || ImageFile::ALL.into_iter().filter(|&file| file != ImageFile::Mirror).all(is_empty);
    open(ImageFile::ImageHeader).is_ok_and(|image_header| {
        let length = image_header.metadata().map_or(u64::MAX, |metadata| metadata.len());
        read_header_prefix(&image_header).is_ok_and(|bytes| ImageHeader::is_incomplete(&bytes, length))
            && (!begins_with_image_header_copy(&mirror) || is_only_mirror_copied())
    })
}

/// Returns the first bytes of a file, at most as many as the fixed part of an image header has. Sectors that the disk
/// cannot read are damaged in the result, so that they are not taken for those of an unfinished image.
fn read_header_prefix(file: &File) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; file.metadata()?.len().min(IMAGE_HEADER_FIXED_BYTES as u64) as usize];
    read_around_unreadable_sectors(|bytes, at| file.read_exact_at(bytes, at), &mut bytes, 0)?;
    Ok(bytes)
}

/// Whether a mirror (the file with the second copies) begins with a copy of the image header, perhaps a damaged one.
/// Until an image is complete, zeros stand in the place of the letters with which the copy begins.
pub(super) fn begins_with_image_header_copy(mirror: &[u8]) -> bool {
    mirror.iter().take(IMAGE_HEADER_MAGIC.len()).any(|&byte| byte != 0)
}

/// Refuses an image whose largest file may grow to `bytes`, if this process may not write files of that size. A process
/// that ignores the signal SIGXFSZ is not refused: its writes beyond the limit fail like writes to a full disk.
pub(super) fn require_permitted_file_size(bytes: u64) -> Result<(), ImageError> {
    match rustix::process::getrlimit(rustix::process::Resource::Fsize).current {
        Some(limit) if limit < bytes && !is_file_size_signal_ignored() => {
            Err(ImageError::InvalidSetting(format!(
                "the image needs a file of up to {bytes} bytes, but the limit on the size of files of this process is \
                 {limit} bytes: raise the limit (`ulimit -f unlimited`)"
            )))
        }
        _ => Ok(()),
    }
}

/// Unlocks the image explicitly when its files are closed. Closing alone is not enough: a child process that was just
/// forked shares the open file until it executes another program.
impl Drop for OpenImageFiles {
    fn drop(&mut self) {
        for file in [ImageFile::Flash, ImageFile::ImageHeader] {
            // If this fails, closing the file unlocks it.
            let _ = rustix::fs::flock(self.handle_of(file), FlockOperation::Unlock);
        }
    }
}

impl Backing for OpenImageFiles {
    fn read(&self, file: ImageFile, bytes: &mut [u8], offset: u64) -> io::Result<()> {
        self.handle_of(file).read_exact_at(bytes, offset)
    }

    fn write(&mut self, file: ImageFile, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.handle_of(file).write_all_at(bytes, offset)
    }

    fn read_parts(&self, file: ImageFile, parts: &mut [IoSliceMut<'_>], offset: u64) -> io::Result<()> {
        let wanted: usize = parts.iter().map(|part| part.len()).sum();
        match rustix::io::preadv(self.handle_of(file), parts, offset) {
            Ok(count) if count == wanted => Ok(()),
            // Interrupted, or fewer bytes than asked for: read part by part.
            _ => {
                let mut at = offset;
                parts.iter_mut().try_for_each(|part| {
                    let read = self.read(file, part, at);
                    at += part.len() as u64;
                    read
                })
            }
        }
    }

    /// Syncs the files in parallel, because a disk that gets several flush requests at once can serve them by one
    /// flush. A file for which no thread can be started (a container may limit their number) is synced by the calling
    /// thread.
    fn sync_all(&mut self, files: &[ImageFile]) -> Result<(), (ImageFile, io::Error)> {
        let sync = |file: ImageFile| self.handle_of(file).sync_data().map_err(|error| (file, error));
        let Some((&last, others)) = files.split_last() else { return Ok(()) };
        thread::scope(|scope| {
            let start =
                |&file: &ImageFile| (file, thread::Builder::new().spawn_scoped(scope, move || sync(file)));
            let others: Vec<_> = others.iter().map(start).collect();
            let mut synced = sync(last);
            for (file, thread) in others {
                let other = match thread {
                    Ok(thread) => thread.join().expect("a sync does not panic"),
                    Err(_) => sync(file),
                };
                synced = synced.and(other);
            }
            synced
        })
    }

    fn begin_sync(&mut self, file: ImageFile) {
        if file == ImageFile::Flash {
            let path = Path::new(&self.image_directory).join(file.name());
            let writer = self.background_sync.get_or_insert_with(|| BackgroundSync::start(&path));
            writer.request_sync();
        }
    }

    fn punch_hole(&mut self, file: ImageFile, offset: u64, len: u64) -> io::Result<()> {
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        Ok(rustix::fs::fallocate(self.handle_of(file), flags, offset, len)?)
    }

    fn copy_files_to(&self, directory: &Path) -> io::Result<UnfinishedImage> {
        UnfinishedImage::copy_of(self, directory)
    }

    fn len(&self, file: ImageFile) -> io::Result<u64> {
        Ok(self.handle_of(file).metadata()?.len())
    }

    fn sync(&mut self, file: ImageFile) -> io::Result<()> {
        self.handle_of(file).sync_data()
    }

    fn path_for_messages(&self, file: ImageFile) -> String {
        Path::new(&self.image_directory).join(file.name()).display().to_string()
    }
}

/// Size in bytes of the pieces of a file. A [`CopyOnWrite`] view copies a piece to memory when the piece is first
/// changed.
const COPY_ON_WRITE_PIECE_BYTES: u64 = 4096;

/// A view of an image's files that keeps all writes in memory. With it, recovery can run for a trial without changing
/// the files.
#[derive(Debug)]
pub struct CopyOnWrite<B> {
    /// Files of which this is a view; they are only read.
    underlying: B,
    /// Pieces of 4 KiB that were written, by file and number of the piece in the file.
    changed_pieces: BTreeMap<(ImageFile, u64), Box<[u8]>>,
}

impl<B: Backing> CopyOnWrite<B> {
    /// Makes a view of the files `underlying` that has no changes yet.
    pub fn new(underlying: B) -> Self {
        Self { underlying, changed_pieces: BTreeMap::new() }
    }

    /// Returns the underlying files, without the changes of the view.
    pub fn into_underlying(self) -> B {
        self.underlying
    }

    /// Reads piece number `piece_number` (4 KiB) of a file from the underlying files. Bytes after the end of the file
    /// are zeros. Sectors that the disk cannot read are damaged in the piece.
    fn load_piece(&self, file: ImageFile, piece_number: u64) -> io::Result<Box<[u8]>> {
        let mut piece = vec![0; COPY_ON_WRITE_PIECE_BYTES as usize];
        let present = self
            .underlying
            .len(file)?
            .saturating_sub(piece_number * COPY_ON_WRITE_PIECE_BYTES)
            .min(COPY_ON_WRITE_PIECE_BYTES);
        if present > 0 {
            let read = |bytes: &mut [u8], offset| self.underlying.read(file, bytes, offset);
            let begin = piece_number * COPY_ON_WRITE_PIECE_BYTES;
            read_around_unreadable_sectors(read, &mut piece[..present as usize], begin)?;
        }
        Ok(piece.into())
    }
}

/// Part of a range of a file that lies in one 4-KiB piece of a copy-on-write view.
struct RangeInPiece {
    /// Number of the piece.
    piece_number: u64,
    /// Bytes of the piece that belong to the range.
    bytes_in_piece: Range<usize>,
    /// The same bytes, counted from the beginning of the range.
    bytes_in_range: Range<usize>,
}

/// Splits a range of a file into the 4-KiB pieces of a copy-on-write view that it touches.
fn split_into_copy_on_write_pieces(offset: u64, len: usize) -> impl Iterator<Item = RangeInPiece> {
    let end = offset + len as u64;
    let pieces = offset / COPY_ON_WRITE_PIECE_BYTES..end.div_ceil(COPY_ON_WRITE_PIECE_BYTES);
    pieces.map(move |piece_number| {
        let begin = piece_number * COPY_ON_WRITE_PIECE_BYTES;
        let (from, to) = (offset.max(begin), end.min(begin + COPY_ON_WRITE_PIECE_BYTES));
        RangeInPiece {
            piece_number,
            bytes_in_piece: (from - begin) as usize..(to - begin) as usize,
            bytes_in_range: (from - offset) as usize..(to - offset) as usize,
        }
    })
}

impl<B: Backing> Backing for CopyOnWrite<B> {
    fn read(&self, file: ImageFile, bytes: &mut [u8], offset: u64) -> io::Result<()> {
        for part in split_into_copy_on_write_pieces(offset, bytes.len()) {
            let at = offset + part.bytes_in_range.start as u64;
            let into = &mut bytes[part.bytes_in_range];
            match self.changed_pieces.get(&(file, part.piece_number)) {
                Some(piece) => into.copy_from_slice(&piece[part.bytes_in_piece]),
                None => match self.underlying.read(file, into, at) {
                    Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                        let piece = self.load_piece(file, part.piece_number)?;
                        into.copy_from_slice(&piece[part.bytes_in_piece]);
                    }
                    read => read?,
                },
            }
        }
        Ok(())
    }

    fn write(&mut self, file: ImageFile, bytes: &[u8], offset: u64) -> io::Result<()> {
        for part in split_into_copy_on_write_pieces(offset, bytes.len()) {
            let key = (file, part.piece_number);
            if !self.changed_pieces.contains_key(&key) {
                let piece = self.load_piece(file, part.piece_number)?;
                self.changed_pieces.insert(key, piece);
            }
            let piece = self.changed_pieces.get_mut(&key).expect("loaded above");
            piece[part.bytes_in_piece].copy_from_slice(&bytes[part.bytes_in_range]);
        }
        Ok(())
    }

    fn len(&self, file: ImageFile) -> io::Result<u64> {
        self.underlying.len(file)
    }

    fn sync(&mut self, _: ImageFile) -> io::Result<()> {
        Ok(())
    }

    fn path_for_messages(&self, file: ImageFile) -> String {
        self.underlying.path_for_messages(file)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Creates the files of an image with some content. Empty files would be those of an interrupted creation.
    fn files_with_content(path: &Path) -> OpenImageFiles {
        let mut files = OpenImageFiles::create(path).unwrap();
        for file in ImageFile::ALL {
            files.write(file, b"content", 0).unwrap();
        }
        files
    }

    /// Regression: closing an image unlocks it explicitly, because a process that was just forked shares every open
    /// file until it executes another program.
    #[test]
    fn a_closed_image_can_be_reopened_while_a_forked_child_holds_its_files() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("image");
        let files = files_with_content(&path);
        let of_the_child = files.handle_of(ImageFile::ImageHeader).try_clone().unwrap();
        assert!(matches!(OpenImageFiles::open(&path, ImageAccess::ReadWrite), Err(ImageError::InUse { .. })));
        drop(files);
        OpenImageFiles::open(&path, ImageAccess::ReadWrite).expect("nobody uses it");
        drop(of_the_child);
    }

    /// Regression: a reader of an image without the file `superblock` locked no file of the image but the null device.
    /// A writer could open the image meanwhile, and the reader took its unfinished changes for damage.
    #[test]
    fn an_image_without_a_header_file_is_locked_for_reading_and_for_writing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("image");
        drop(files_with_content(&path));
        let image_header = path.join(ImageFile::ImageHeader.name());
        fs::remove_file(&image_header).unwrap();
        let is_locked = |access| matches!(OpenImageFiles::open(&path, access), Err(ImageError::InUse { .. }));
        let reader = OpenImageFiles::open(&path, ImageAccess::ReadOnly)
            .expect("the mirror has a copy of the superblock");
        assert!(is_locked(ImageAccess::ReadWrite));
        assert!(!is_locked(ImageAccess::ReadOnly), "an image has many readers");
        drop(reader);
        let _ = fs::remove_file(&image_header);
        let _writer = OpenImageFiles::open(&path, ImageAccess::ReadWrite).unwrap();
        fs::remove_file(&image_header).unwrap();
        assert!(is_locked(ImageAccess::ReadOnly));
    }

    /// An image is replaced between the instants at which another process opens its file `superblock` and locks it.
    #[test]
    fn a_lock_of_an_image_that_was_replaced_meanwhile_is_noticed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("image");
        let files = OpenImageFiles::create(&path).unwrap();
        let opened = File::open(path.join(ImageFile::ImageHeader.name())).unwrap();
        assert!(matches!(
            lock_unless_replaced(&opened, &path, ImageAccess::ReadWrite),
            Err(ImageError::InUse { .. })
        ));
        files.remove_image();
        drop(OpenImageFiles::create(&path).unwrap());
        assert!(
            !lock_unless_replaced(&opened, &path, ImageAccess::ReadWrite).unwrap(),
            "it is the lock of the old one"
        );
        let present = File::open(path.join(ImageFile::ImageHeader.name())).unwrap();
        assert!(lock_unless_replaced(&present, &path, ImageAccess::ReadWrite).unwrap());
    }

    /// Bug: a copy whose files could not all be copied left its directory behind.
    #[test]
    fn a_failed_copy_of_the_files_of_an_image_leaves_no_directory() {
        let folder = tempfile::tempdir().unwrap();
        let (image, to) = (folder.path().join("image"), folder.path().join("copy"));
        let mut originals = files_with_content(&image);
        // The copy of the flash file fails, because its handle cannot be read.
        let without_reading = OpenOptions::new().write(true).open(image.join(ImageFile::Flash.name()));
        originals.open_files[ImageFile::Flash as usize] = without_reading.unwrap();
        originals.copy_files_to(&to).unwrap_err();
        assert!(!to.exists());
    }

    /// Makes a named pipe.
    fn make_pipe(path: &Path) {
        use rustix::fs::{CWD, FileType, Mode};
        rustix::fs::mknodat(CWD, path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    }

    /// Regression: an image of a stranger could have a symbolic link in place of one of its files. A server followed it
    /// and overwrote the file to which it pointed. A named pipe kept every command waiting.
    #[test]
    fn only_regular_files_are_taken_for_the_files_of_an_image() {
        let folder = tempfile::tempdir().unwrap();
        let (path, elsewhere) = (folder.path().join("image"), folder.path().join("elsewhere"));
        let put_link: fn(&Path) = |at| std::os::unix::fs::symlink("../elsewhere", at).unwrap();
        let put_directory: fn(&Path) = |at| fs::create_dir(at).unwrap();
        let kinds =
            [("is a symbolic link", put_link), ("pipe", make_pipe), ("is a directory", put_directory)];
        for (file, (found, put)) in ImageFile::ALL.into_iter().flat_map(|file| kinds.map(|kind| (file, kind)))
        {
            for access in [ImageAccess::ReadOnly, ImageAccess::ReadWrite] {
                drop(files_with_content(&path));
                let replaced = path.join(file.name());
                fs::rename(&replaced, &elsewhere).unwrap();
                put(&replaced);
                let refusal = OpenImageFiles::open(&path, access).unwrap_err().to_string();
                assert!(refusal.contains(found) && refusal.contains(file.name()), "{file:?}: {refusal}");
                fs::remove_dir_all(&path).unwrap();
            }
        }
    }

    /// Regression: a directory without the file `flash`, in which another file is a named pipe, kept a command waiting.
    #[test]
    fn a_named_pipe_beside_missing_files_keeps_no_command_waiting() {
        let folder = tempfile::tempdir().unwrap();
        for file in [ImageFile::ImageHeader, ImageFile::Mirror] {
            let directory = folder.path().join(file.name());
            fs::create_dir(&directory).unwrap();
            make_pipe(&directory.join(file.name()));
            OpenImageFiles::open(&directory, ImageAccess::ReadOnly).unwrap_err();
            OpenImageFiles::create(&directory).unwrap_err();
        }
    }
}
