//! A database that is open in this process: its files and its locks, shared by all its connections.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use crate::directory::FileKind;
use crate::drive;
use crate::error::Error;
use crate::locks::{Locks, ShmLocks};
use crate::options::Options;
use crate::shm::Region;
use crate::volume::Volume;

/// What the connections share.
pub(crate) struct State {
    pub(crate) volume: Volume,
    pub(crate) locks: Locks,
    pub(crate) shm_locks: ShmLocks,
    pub(crate) regions: Vec<Region>,
    /// Connections that have mapped the wal-index.
    pub(crate) shm_users: u32,
}

/// An open database.
pub(crate) struct Database {
    name: String,
    /// [`Options::identity`].
    identity: String,
    state: Mutex<State>,
}

/// All that are open. Locked while one is opened or closed, so that a device is never opened while it is being closed.
static OPEN: Mutex<Vec<Weak<Database>>> = Mutex::new(Vec::new());

fn open_ones() -> MutexGuard<'static, Vec<Weak<Database>>> {
    // The list is whole at every point at which an opening may panic.
    OPEN.lock().unwrap_or_else(PoisonError::into_inner)
}

fn find_in(open: &[Weak<Database>], name: &str) -> Option<Arc<Database>> {
    open.iter().filter_map(Weak::upgrade).find(|database| database.name == name)
}

impl Database {
    /// The open database of a name.
    pub(crate) fn find(name: &str) -> Option<Arc<Self>> {
        find_in(&open_ones(), name)
    }

    /// The open database that a file belongs to, and which of its files that is.
    pub(crate) fn find_file(name: &str) -> Option<(Arc<Self>, FileKind)> {
        let open = open_ones();
        let mut kinds = FileKind::ALL.into_iter();
        kinds.find_map(|kind| Some((find_in(&open, name.strip_suffix(kind.suffix())?)?, kind)))
    }

    /// Opens a database, or joins the connections that have it open.
    pub(crate) fn open(name: &str, options: &Options) -> Result<Arc<Self>, Error> {
        let mut open = open_ones();
        if let Some(database) = find_in(&open, name) {
            let is_same = database.identity == options.identity;
            return if is_same { Ok(database) } else { Err(Error::Name { name: name.to_owned() }) };
        }
        let state = State {
            volume: Volume::open(drive::open(options)?, options.remap)?,
            locks: Locks::default(),
            shm_locks: ShmLocks::default(),
            regions: Vec::new(),
            shm_users: 0,
        };
        let identity = options.identity.clone();
        let database = Arc::new(Self { name: name.to_owned(), identity, state: Mutex::new(state) });
        open.push(Arc::downgrade(&database));
        Ok(database)
    }

    /// Lets go of a database; with the last file the device is closed.
    pub(crate) fn release(self: Arc<Self>) -> Result<(), Error> {
        let mut open = open_ones();
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

    /// # Errors
    /// [`Error::Broken`] after a panic of the engine.
    pub(crate) fn state(&self) -> Result<MutexGuard<'_, State>, Error> {
        self.state.lock().map_err(|_| Error::Broken)
    }
}
