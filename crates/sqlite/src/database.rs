//! Databases that are open in this process: files and locks of each, shared by all connections to it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use crate::directory::FileKind;
use crate::drive;
use crate::error::Error;
use crate::locks::{FileLocks, ShmLocks};
use crate::options::Options;
use crate::shm::ShmRegion;
use crate::volume::Volume;

/// Mutable state of an open database that its connections share.
pub(crate) struct DatabaseState {
    pub(crate) volume: Volume,
    pub(crate) locks: FileLocks,
    pub(crate) shm_locks: ShmLocks,
    pub(crate) shm_regions: Vec<ShmRegion>,
    /// Number of connections that have mapped the wal-index (shared memory of the write-ahead log).
    pub(crate) wal_index_user_count: u32,
}

/// A database that is open in this process, shared by all connections to it.
pub(crate) struct Database {
    name: String,
    /// Text that identifies the database's device ([`Options::device_identity`]). Connections that name the same
    /// device have the same text.
    device_identity: String,
    state: Mutex<DatabaseState>,
}

/// All databases that are open in this process. The list is locked while a database is opened or closed, so that a
/// device is never opened while it is being closed.
static OPEN_DATABASES: Mutex<Vec<Weak<Database>>> = Mutex::new(Vec::new());

fn lock_open_databases() -> MutexGuard<'static, Vec<Weak<Database>>> {
    // A panic during an open leaves the list intact, so a poisoned lock can still be used.
    OPEN_DATABASES.lock().unwrap_or_else(PoisonError::into_inner)
}

fn find_by_name(open: &[Weak<Database>], name: &str) -> Option<Arc<Database>> {
    open.iter().filter_map(Weak::upgrade).find(|database| database.name == name)
}

impl Database {
    /// Returns the database with this name that is open in this process, if there is one.
    pub(crate) fn find_open(name: &str) -> Option<Arc<Self>> {
        find_by_name(&lock_open_databases(), name)
    }

    /// Returns the open database to which the file `name` belongs, and the kind of the file.
    pub(crate) fn find_open_file(name: &str) -> Option<(Arc<Self>, FileKind)> {
        let open = lock_open_databases();
        let mut kinds = FileKind::ALL.into_iter();
        kinds.find_map(|kind| Some((find_by_name(&open, name.strip_suffix(kind.suffix())?)?, kind)))
    }

    /// Opens a database, or returns it if it is already open in this process on the same device.
    pub(crate) fn open(name: &str, options: &Options) -> Result<Arc<Self>, Error> {
        let mut open = lock_open_databases();
        if let Some(database) = find_by_name(&open, name) {
            let is_same = database.device_identity == options.device_identity;
            return if is_same { Ok(database) } else { Err(Error::Name { name: name.to_owned() }) };
        }
        let state = DatabaseState {
            volume: Volume::open(drive::open_drive(options)?, options.remaps_checkpoints)?,
            locks: FileLocks::default(),
            shm_locks: ShmLocks::default(),
            shm_regions: Vec::new(),
            wal_index_user_count: 0,
        };
        let identity = options.device_identity.clone();
        let database =
            Arc::new(Self { name: name.to_owned(), device_identity: identity, state: Mutex::new(state) });
        open.push(Arc::downgrade(&database));
        Ok(database)
    }

    /// Drops one reference to an open database. The last open file that drops its reference closes the device.
    pub(crate) fn release(self: Arc<Self>) -> Result<(), Error> {
        let mut open = lock_open_databases();
        let closed = match Arc::into_inner(self) {
            Some(database) => match database.state.into_inner() {
                Ok(state) => state.volume.close(),
                Err(_) => Err(Error::Broken),
            },
            None => Ok(()),
        };
        open.retain(|database| database.strong_count() > 0);
        closed
    }

    /// Locks the state of the database (files and locks) against other threads and returns it.
    ///
    /// # Errors
    /// [`Error::Broken`] after a panic of the engine.
    pub(crate) fn lock_state(&self) -> Result<MutexGuard<'_, DatabaseState>, Error> {
        self.state.lock().map_err(|_| Error::Broken)
    }
}
