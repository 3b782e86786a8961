//! Databases that are open in this process. All connections to a database share its files and locks.
//!
//! `SQLite` looks up and deletes a journal or log only by its name: the database's name with a suffix. So a name with
//! such a suffix always means a file of the database that is named before the suffix, even if a database with the whole
//! name is open. Databases themselves are found only by [`Database::open`]; `SQLite` never deletes one.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use crate::database_files::DatabaseFiles;
use crate::directory::FileKind;
use crate::error::Error;
use crate::locks::{FileLocks, ShmLocks};
use crate::open_drive::open_drive;
use crate::options::{Backend, Options};
use crate::shm::ShmRegion;

/// State of an open database that all its connections share: files, locks, and the memory of the wal-index.
pub(crate) struct DatabaseState {
    /// Files of the database on the device.
    pub(crate) files: DatabaseFiles,
    /// Locks of the database file that its connections hold.
    pub(crate) locks: FileLocks,
    /// Locks of the wal-index (shared memory of the write-ahead log) that connections hold.
    pub(crate) shm_locks: ShmLocks,
    /// Memory of the wal-index (shared memory of the write-ahead log), by region number.
    pub(crate) shm_regions: Vec<ShmRegion>,
    /// Number of connections that have mapped the wal-index (shared memory of the write-ahead log).
    pub(crate) wal_index_user_count: u32,
}

/// A database that is open in this process, shared by all connections to it.
pub(crate) struct Database {
    /// Name of the database, as its URI has it.
    name: String,
    /// Text that identifies the database's device ([`Options::device_identity`]). Connections that name the same
    /// device have the same text.
    device_identity: String,
    /// Resolved path of the directory of the database's image; `None` if its device is no image in this process.
    image_directory: Option<PathBuf>,
    /// Files and `SQLite` locks of the database, protected by a mutex.
    state: Mutex<DatabaseState>,
}

/// All databases that are open in this process. The list is locked while a database is opened or closed, so that a
/// device is never opened while it is being closed.
static OPEN_DATABASES: Mutex<Vec<Weak<Database>>> = Mutex::new(Vec::new());

/// Locks the list of open databases, also if a thread panicked while it held the lock.
fn lock_open_databases() -> MutexGuard<'static, Vec<Weak<Database>>> {
    // A panic during an open leaves the list intact, so a poisoned lock can still be used.
    OPEN_DATABASES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the database with the name `name` from the list `open` of open databases.
fn find_by_name(open: &[Weak<Database>], name: &str) -> Option<Arc<Database>> {
    open.iter().filter_map(Weak::upgrade).find(|database| database.name == name)
}

/// Returns the database whose image is in `directory` from the list `open` of open databases.
fn find_by_image(open: &[Weak<Database>], directory: &Path) -> Option<Arc<Database>> {
    let mut databases = open.iter().filter_map(Weak::upgrade);
    databases.find(|database| database.image_directory.as_deref() == Some(directory))
}

/// Returns the path of the image's directory with symbolic links resolved; `None` if the device is no image, or the
/// directory does not exist.
fn resolved_image_directory(options: &Options) -> Option<PathBuf> {
    let Backend::Image { directory, .. } = &options.backend else { return None };
    directory.canonicalize().ok()
}

impl Database {
    /// Returns the open database to which the journal or log `name` belongs, and the kind of the file.
    pub(crate) fn find_database_of_journal_or_log(name: &str) -> Option<(Arc<Self>, FileKind)> {
        let open = lock_open_databases();
        let mut kinds = FileKind::KINDS_FOUND_BY_FILE_NAME.into_iter();
        kinds.find_map(|kind| Some((find_by_name(&open, name.strip_suffix(kind.suffix())?)?, kind)))
    }

    /// Opens a database. If it is already open in this process on the same device, returns the open one. `may_create`
    /// states whether an image that does not exist may be created.
    pub(crate) fn open(name: &str, options: &Options, may_create: bool) -> Result<Arc<Self>, Error> {
        if name.is_empty() {
            return Err(Error::UnreadableName);
        }
        let mut open = lock_open_databases();
        if let Some(database) = find_by_name(&open, name) {
            let is_same = database.device_identity == options.device_identity;
            return if is_same {
                Ok(database)
            } else {
                Err(Error::DatabaseOpenWithOtherParameters { name: name.to_owned() })
            };
        }
        if let Some(directory) = resolved_image_directory(options)
            && let Some(user) = find_by_image(&open, &directory)
        {
            let image_path = directory.display().to_string();
            return Err(Error::ImageOpenUnderOtherName { image_path, open_database_name: user.name.clone() });
        }
        let state = DatabaseState {
            files: DatabaseFiles::open(open_drive(options, may_create)?, options.remaps_checkpoints)?,
            locks: FileLocks::default(),
            shm_locks: ShmLocks::default(),
            shm_regions: Vec::new(),
            wal_index_user_count: 0,
        };
        let database = Arc::new(Self {
            name: name.to_owned(),
            device_identity: options.device_identity.clone(),
            image_directory: resolved_image_directory(options),
            state: Mutex::new(state),
        });
        open.push(Arc::downgrade(&database));
        Ok(database)
    }

    /// Drops one reference to an open database. The last reference closes the device.
    pub(crate) fn release(self: Arc<Self>) -> Result<(), Error> {
        let mut open = lock_open_databases();
        let closed = match Arc::into_inner(self) {
            Some(database) => match database.state.into_inner() {
                Ok(state) => state.files.close(),
                Err(_) => Err(Error::DevicePanicked),
            },
            None => Ok(()),
        };
        open.retain(|database| database.strong_count() > 0);
        closed
    }

    /// Locks the state of the database (files and locks) against other threads and returns it.
    ///
    /// # Errors
    /// [`Error::DevicePanicked`] after a panic of the engine.
    pub(crate) fn lock_state(&self) -> Result<MutexGuard<'_, DatabaseState>, Error> {
        self.state.lock().map_err(|_| Error::DevicePanicked)
    }
}
