//! Resizing: makes an image larger and keeps its directory.
//!
//! The address of a flash page and the layout of NVRAM depend on the size of the drive, so an image cannot grow by
//! making its files longer. Instead a larger image is made beside it, and the two directories exchange their names in
//! one atomic step. The price is disk space for the contents of both images meanwhile, and that the larger drive begins
//! without wear.
//!
//! Foreign files in the directory (files that do not belong to the image) are moved to the larger image after the
//! exchange.
//!
//! If the process ends during a resize, the directory holds either the old image or the larger one. The other image is
//! left under a hidden name, perhaps with foreign files. The next opening of the image for writing moves these files
//! back and removes the rest ([`try_remove_remains_of_resizing`]).

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{MetadataExt as _, chown};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, RenameFlags};
use tracing::warn;

use super::Image;
use super::backing::{
    ImageAccess, OpenImageFiles, io_error_at, lock_unless_replaced, open_image_file_for_reading,
    remove_image, sync_parent_directory,
};
use super::copy::{CopyReport, ImageCopyOptions, copy_contents};
use super::error::ImageError;
use super::image_file::ImageFile;

/// Makes the image in `directory` larger. Contents, design, settings and owner stay the same; wear and counters begin
/// at zero. `progress` is called with the number of logical pages processed and the total number. Returns `None` if the
/// image already has the size `size_bytes`.
///
/// # Errors
/// As [`Image::open`](super::Image::open) and [`create`](super::create()); a size that is smaller; lost pages; a file
/// system that cannot exchange two directories; a working directory in that of the image. After these errors the image
/// is unchanged. The image is already larger if one of the last steps fails: the sync of the parent directory, or the
/// move of a foreign file from the old directory.
pub fn resize(
    directory: &Path,
    size_bytes: u64,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Option<CopyReport>, ImageError> {
    // A link to the directory stays a link.
    let directory = fs::canonicalize(directory)
        .map_err(|_| ImageError::NoImage { path: directory.display().to_string() })?;
    refuse_working_directory(&directory)?;
    // This lock is held until the old image is removed.
    let mut original = Image::open_copy_on_write(OpenImageFiles::open(&directory, ImageAccess::ReadWrite)?)?;
    if original.device.capacity_bytes() == size_bytes {
        return Ok(None);
    }
    let larger = hidden_sibling_path(&directory)?;
    remove_remains_of_resizing(&directory, &larger)?;
    let changes = ImageCopyOptions { size_bytes: Some(size_bytes), ..ImageCopyOptions::default() };
    let report = copy_contents(&mut original, &larger, &changes, progress)?;
    let exchanged = copy_owner_and_mode(&directory, &larger)
        .and_then(|()| sync_image(&larger))
        .and_then(|()| exchange_directories(&directory, &larger));
    if exchanged.is_err() {
        remove_image(&larger);
    }
    exchanged?;
    // The hidden name is that of the image of before now. It stays if the exchange may be undone by a crash.
    remove_replaced_image(&directory, &larger)?;
    Ok(Some(report))
}

/// Refuses an image whose directory contains the working directory of this process: the directory is replaced, and the
/// shell that runs the command would be left in the one that is removed.
fn refuse_working_directory(directory: &Path) -> Result<(), ImageError> {
    if std::env::current_dir().is_ok_and(|working_directory| working_directory.starts_with(directory)) {
        return Err(ImageError::InvalidSetting(
            "the directory of the image contains the working directory, and is replaced by that of the larger image: \
             run the command in another directory, such as the parent"
                .into(),
        ));
    }
    Ok(())
}

/// Removes what an interrupted resizing of the image in `directory` left behind, as far as that is possible. The caller
/// has opened the image for writing and holds its lock. Therefore a resizing that is in progress has already exchanged
/// the directories.
pub(super) fn try_remove_remains_of_resizing(directory: &Path) {
    let remains = fs::canonicalize(directory).ok().and_then(|directory| {
        let remains =
            hidden_sibling_path(&directory).ok().filter(|remains| is_directory_and_no_link(remains))?;
        if has_image_files(&remains) {
            return Some((directory, remains));
        }
        // An empty directory is what a resizing leaves that ended at once; any other one is not ours and stays.
        let _ = fs::remove_dir(remains);
        None
    });
    let Some((directory, remains)) = remains else { return };
    match remove_remains_of_resizing(&directory, &remains) {
        // A resizing that has exchanged the directories is at work, and removes the old one itself.
        Ok(()) | Err(ImageError::InUse { .. }) => {}
        // The image itself is whole and can be used.
        Err(error) => warn!("{}", error.message_about(&directory)),
    }
}

/// Whether a path names a directory itself, and not a symbolic link to one: somebody else could let a link name any
/// directory of the user.
fn is_directory_and_no_link(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|found| found.is_dir())
}

/// Whether a directory contains at least one file with the name of an image file.
fn has_image_files(directory: &Path) -> bool {
    ImageFile::ALL.iter().any(|file| directory.join(file.name()).is_file())
}

/// Removes the directory `replaced` with the old image, which the larger image in `directory` has replaced. First it
/// makes the exchange of the two names durable, and moves files that do not belong to an image to `directory`.
fn remove_replaced_image(directory: &Path, replaced: &Path) -> Result<(), ImageError> {
    // If the exchange may be undone by a crash, both images stay.
    sync_parent_directory(directory).map_err(io_error_at("sync the parent of", directory))?;
    let moved = move_non_image_files(replaced, directory);
    remove_image(replaced);
    moved
}

/// Moves all files and directories except the files of an image from `from` to `to`. What cannot be moved stays, and
/// the error names it.
fn move_non_image_files(from: &Path, to: &Path) -> Result<(), ImageError> {
    let is_of_image = |name: &OsStr| ImageFile::ALL.iter().any(|file| name == file.name());
    let entries = fs::read_dir(from).and_then(Iterator::collect::<io::Result<Vec<_>>>);
    let names = entries.map_err(io_error_at("list", from))?.into_iter().map(|entry| entry.file_name());
    let mut failures = Vec::new();
    let mut is_any_moved = false;
    for name in names.filter(|name| !is_of_image(name)) {
        let flags = RenameFlags::NOREPLACE;
        match rustix::fs::renameat_with(CWD, from.join(&name), CWD, to.join(&name), flags) {
            Ok(()) => is_any_moved = true,
            Err(error) => failures.push(format!("{} ({})", name.display(), io::Error::from(error))),
        }
    }
    if is_any_moved {
        let synced = File::open(to).and_then(|directory| directory.sync_all());
        synced.map_err(io_error_at("sync", to))?;
    }
    if failures.is_empty() {
        return Ok(());
    }
    Err(ImageError::InvalidSetting(format!(
        "the image was resized, but some files of its directory that are no files of the image could not be moved to \
         the new directory: {}; they are in {} now: move them yourself",
        failures.join(", "),
        from.display()
    )))
}

/// Returns the hidden path beside `directory` at which the larger image is made.
fn hidden_sibling_path(directory: &Path) -> Result<PathBuf, ImageError> {
    let name = directory.file_name().ok_or_else(|| {
        ImageError::InvalidSetting(
            "the directory of the image is the root directory, which cannot be replaced by that of the larger image: \
             move the files of the image to a directory of their own"
                .into(),
        )
    })?;
    let mut hidden = OsString::from(".");
    hidden.push(name);
    hidden.push(".resizing");
    Ok(directory.with_file_name(hidden))
}

/// Removes what an interrupted resizing of the image in `directory` left behind: either an unfinished larger image, or
/// the old image, whose contents the larger one already holds.
fn remove_remains_of_resizing(directory: &Path, remains: &Path) -> Result<(), ImageError> {
    if fs::symlink_metadata(remains).is_err() {
        return Ok(());
    }
    let is_directory = is_directory_and_no_link(remains);
    let image_header = open_image_file_for_reading(remains, ImageFile::ImageHeader);
    if let Ok(image_header) = &image_header
        && is_directory
    {
        lock_unless_replaced(image_header, remains, ImageAccess::ReadWrite)?;
    }
    // A directory without a file of an image is somebody else's.
    if is_directory && has_image_files(remains) {
        remove_replaced_image(directory, remains)?;
    } else {
        let _ = fs::remove_dir(remains);
    }
    if fs::symlink_metadata(remains).is_ok() {
        return Err(ImageError::InvalidSetting(format!(
            "the directory {}, in which `wearwell resize` makes the larger image, exists and cannot be removed, or has \
             files that are not those of an image: move it away. If an earlier resize was interrupted, run it again",
            remains.display()
        )));
    }
    Ok(())
}

/// Gives the larger image (`to`) and its files the owner and the mode of the old image (`from`), so that the same users
/// can serve it.
fn copy_owner_and_mode(from: &Path, to: &Path) -> Result<(), ImageError> {
    let copy = |from: &Path, to: &Path| {
        let (before, after) = (fs::metadata(from)?, fs::metadata(to)?);
        if (before.uid(), before.gid()) != (after.uid(), after.gid()) {
            chown(to, Some(before.uid()), Some(before.gid()))?;
        }
        fs::set_permissions(to, before.permissions())
    };
    let of_files = ImageFile::ALL.iter().try_for_each(|file| {
        match copy(&from.join(file.name()), &to.join(file.name())) {
            // Metadata that is missing in one of its two copies is whole in the larger image.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            other => other,
        }
    });
    of_files.and_then(|()| copy(from, to)).map_err(io_error_at("set the owner or the mode of", to))
}

/// Syncs all files of the image in `directory`, and the directory.
fn sync_image(directory: &Path) -> Result<(), ImageError> {
    ImageFile::ALL
        .iter()
        .try_for_each(|&file| open_image_file_for_reading(directory, file)?.sync_all())
        .and_then(|()| File::open(directory)?.sync_all())
        .map_err(io_error_at("sync", directory))
}

/// Exchanges the names of the directories `directory` and `larger` in one atomic step.
fn exchange_directories(directory: &Path, larger: &Path) -> Result<(), ImageError> {
    use rustix::io::Errno;
    rustix::fs::renameat_with(CWD, directory, CWD, larger, RenameFlags::EXCHANGE).map_err(|error| match error {
        Errno::INVAL | Errno::NOSYS | Errno::NOTSUP | Errno::BUSY | Errno::XDEV => ImageError::InvalidSetting(format!(
            "the directory {} cannot be exchanged with that of the larger image, because it is a mount point or its \
             file system does not support that: make the larger image elsewhere with `wearwell copy --size`",
            directory.display()
        )),
        error => io_error_at("exchange", directory)(error.into()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_names_all_files_that_could_not_be_moved_and_where_they_are() {
        let folder = tempfile::tempdir().expect("there is room");
        let [from, to] = ["old", "new"].map(|name| folder.path().join(name));
        for directory in [&from, &to] {
            fs::create_dir(directory).expect("a new name");
            fs::write(directory.join("letter"), "").expect("writable");
            fs::write(directory.join("note"), "").expect("writable");
        }
        fs::write(from.join("flash"), "").and_then(|()| fs::write(from.join("list"), "")).expect("writable");
        let refused = move_non_image_files(&from, &to).expect_err("names are taken").to_string();
        assert!(
            refused.contains("letter (File exists") && refused.contains("note (File exists"),
            "{refused}"
        );
        assert!(refused.contains(&format!("they are in {} now", from.display())), "{refused}");
        assert!(!refused.contains("flash") && to.join("list").is_file() && from.join("note").is_file());
    }
}
