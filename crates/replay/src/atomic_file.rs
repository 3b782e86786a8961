//! Files that are replaced as a whole, so that a reader sees either the old or the new content, and a process that is
//! killed while it writes leaves the old one.
//!
//! The new content is written to a temporary file in the same folder, under a name that no other file has, and renamed
//! to the path when it is complete. Nothing is synchronised: a loss of power may leave either content.

use std::ffi::OsString;
use std::fs::Permissions;
use std::io::{self, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use tempfile::NamedTempFile;

/// Creates a new, empty file in the folder of `path`, which [`NamedTempFile::persist`] can rename to `path`. It is
/// deleted when it is dropped. Its name is that of `path`, a few random characters and `.partial`; its permissions are
/// those of any new file of this process.
///
/// # Errors
/// The folder is missing, or no file can be created in it.
pub fn create_file_beside(path: &Path) -> io::Result<NamedTempFile> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut prefix = path.file_name().map_or_else(OsString::new, OsString::from);
    prefix.push(".");
    tempfile::Builder::new()
        .prefix(&prefix)
        .suffix(".partial")
        .permissions(Permissions::from_mode(0o666))
        .tempfile_in(folder)
}

/// Writes a file as a whole, or leaves it as it was.
///
/// # Errors
/// As [`create_file_beside`]; the file cannot be written or renamed.
pub fn write_file_atomically(path: &Path, content: impl AsRef<[u8]>) -> io::Result<()> {
    let mut file = create_file_beside(path)?;
    file.write_all(content.as_ref())?;
    file.persist(path)?;
    Ok(())
}
