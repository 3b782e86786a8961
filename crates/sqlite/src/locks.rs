//! The two kinds of locks of `SQLite` between connections of one process: locks of the database file, and locks of the
//! wal-index.
//!
//! Only one process uses a device, so locks are counters in memory. [`FileLocks`] are those of a database file (shared,
//! reserved, pending, exclusive). [`ShmLocks`] are the eight locks of a wal-index (shared memory of the write-ahead
//! log).

use std::ffi::c_int;

use crate::ffi::shm;

/// Levels of a lock on the database file, with `SQLite`'s numbers.
pub(crate) mod lock_level {
    use super::c_int;

    /// Lock level of a connection that holds no lock on the database file.
    pub(crate) const NONE: c_int = 0;
    /// Lock level of a connection that reads the database file.
    pub(crate) const SHARED: c_int = 1;
    /// Lock level of a connection that will write; other connections may still begin to read.
    pub(crate) const RESERVED: c_int = 2;
    /// Lock level of a connection that waits for readers to finish; no new reader may begin.
    pub(crate) const PENDING: c_int = 3;
    /// Lock level of a connection that writes the database file; no other connection may read.
    pub(crate) const EXCLUSIVE: c_int = 4;
}

/// Error: a lock is refused, because another connection holds a lock that excludes the requested one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct LockBusy;

/// Locks that all connections hold on a database file: number of readers, and level of the writer's lock.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct FileLocks {
    /// Number of connections whose lock level on the database file is [`lock_level::SHARED`] or higher.
    shared_or_higher_count: u32,
    /// Lock level of the one connection whose level is higher than [`lock_level::SHARED`]; [`lock_level::NONE`] if
    /// there is none.
    writer_level: c_int,
}

impl FileLocks {
    /// Raises a connection's lock level on the database file from `held` to `wanted`. While other connections read, an
    /// exclusive lock is refused. The connection then holds [`lock_level::PENDING`], which excludes new readers.
    pub(crate) fn raise_lock_level(&mut self, held: &mut c_int, wanted: c_int) -> Result<(), LockBusy> {
        if *held >= wanted {
            return Ok(());
        }
        let is_other_writer = self.writer_level != lock_level::NONE && *held < lock_level::RESERVED;
        match wanted {
            lock_level::SHARED if self.writer_level >= lock_level::PENDING => return Err(LockBusy),
            lock_level::SHARED => self.shared_or_higher_count += 1,
            _ if is_other_writer => return Err(LockBusy),
            lock_level::RESERVED => self.writer_level = wanted,
            _ => {
                let is_alone = self.shared_or_higher_count == 1;
                self.writer_level = if is_alone { lock_level::EXCLUSIVE } else { lock_level::PENDING };
                *held = self.writer_level;
                return if is_alone { Ok(()) } else { Err(LockBusy) };
            }
        }
        *held = wanted;
        Ok(())
    }

    /// Lowers a connection's lock level on the database file from `held` to `wanted`, which is shared or none.
    pub(crate) fn lower_lock_level(&mut self, held: &mut c_int, wanted: c_int) {
        if *held <= wanted {
            return;
        }
        if *held >= lock_level::RESERVED {
            self.writer_level = lock_level::NONE;
        }
        if wanted == lock_level::NONE {
            self.shared_or_higher_count -= 1;
        }
        *held = wanted;
    }

    /// Whether a connection holds a reserved or higher lock on the database file, because it intends to write.
    pub(crate) fn is_reserved_by_writer(self) -> bool {
        self.writer_level >= lock_level::RESERVED
    }
}

/// Bit masks of the wal-index locks (on shared memory of the write-ahead log) that one connection holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct HeldShmLocks {
    /// Bit mask of the locks that the connection holds shared.
    shared_lock_mask: u8,
    /// Bit mask of the locks that the connection holds exclusively.
    exclusive_lock_mask: u8,
}

/// State of the eight wal-index locks (on shared memory of the write-ahead log) over all connections.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct ShmLocks {
    /// For each of the eight wal-index locks of `SQLite`, the number of connections that hold it in shared mode.
    reader_counts: [u32; shm::SHM_LOCK_COUNT],
    /// Bit mask of the locks that a connection holds exclusively.
    exclusive_mask: u8,
}

impl ShmLocks {
    /// Acquires or releases `count` locks of the wal-index, from number `first` on. `flags` are those of `xShmLock`:
    /// shared or exclusive, and whether to release. If the result is [`LockBusy`], no lock is acquired.
    pub(crate) fn change_locks(
        &mut self,
        held: &mut HeldShmLocks,
        first: usize,
        count: usize,
        flags: c_int,
    ) -> Result<(), LockBusy> {
        let locks = first..(first + count).min(shm::SHM_LOCK_COUNT);
        if flags & shm::SHM_UNLOCK != 0 {
            locks.for_each(|lock| self.release_lock(held, lock));
            return Ok(());
        }
        let is_shared = flags & shm::SHM_SHARED != 0;
        if locks.clone().any(|lock| !self.is_shm_lock_available(*held, lock, is_shared)) {
            return Err(LockBusy);
        }
        for lock in locks {
            let bit = 1 << lock;
            if !is_shared {
                held.exclusive_lock_mask |= bit;
                self.exclusive_mask |= bit;
            } else if held.shared_lock_mask & bit == 0 {
                held.shared_lock_mask |= bit;
                self.reader_counts[lock] += 1;
            }
        }
        Ok(())
    }

    /// Whether a connection that holds the locks `held` can acquire lock number `lock`, shared or exclusively.
    fn is_shm_lock_available(&self, held: HeldShmLocks, lock: usize, is_shared: bool) -> bool {
        let bit = 1 << lock;
        let is_written_by_another = self.exclusive_mask & bit != 0 && held.exclusive_lock_mask & bit == 0;
        let other_readers = self.reader_counts[lock] - u32::from(held.shared_lock_mask & bit != 0);
        !is_written_by_another && (is_shared || other_readers == 0)
    }

    /// Releases lock number `lock` of the wal-index, if the connection that holds the locks `held` holds this lock.
    fn release_lock(&mut self, held: &mut HeldShmLocks, lock: usize) {
        let bit = 1 << lock;
        if held.shared_lock_mask & bit != 0 {
            self.reader_counts[lock] -= 1;
        }
        if held.exclusive_lock_mask & bit != 0 {
            self.exclusive_mask &= !bit;
        }
        held.shared_lock_mask &= !bit;
        held.exclusive_lock_mask &= !bit;
    }
}

#[cfg(test)]
mod tests {
    use super::lock_level::{EXCLUSIVE, NONE, PENDING, RESERVED, SHARED};
    use super::*;

    #[test]
    fn a_pending_sqlite_writer_excludes_new_readers_until_old_ones_finish() {
        let (mut locks, mut a, mut b, mut c) = (FileLocks::default(), NONE, NONE, NONE);
        assert_eq!(locks.raise_lock_level(&mut a, SHARED), Ok(()));
        assert_eq!(locks.raise_lock_level(&mut b, SHARED), Ok(()));
        assert_eq!(locks.raise_lock_level(&mut a, RESERVED), Ok(()));
        assert!(locks.is_reserved_by_writer());
        assert_eq!(locks.raise_lock_level(&mut b, RESERVED), Err(LockBusy));
        assert_eq!(locks.raise_lock_level(&mut a, EXCLUSIVE), Err(LockBusy));
        assert_eq!((a, locks.raise_lock_level(&mut c, SHARED)), (PENDING, Err(LockBusy)));
        locks.lower_lock_level(&mut b, NONE);
        assert_eq!(locks.raise_lock_level(&mut a, EXCLUSIVE), Ok(()));
        assert_eq!((a, locks.raise_lock_level(&mut b, SHARED)), (EXCLUSIVE, Err(LockBusy)));
        locks.lower_lock_level(&mut a, SHARED);
        assert!(!locks.is_reserved_by_writer());
        assert_eq!(locks.raise_lock_level(&mut b, SHARED), Ok(()));
        locks.lower_lock_level(&mut a, NONE);
        locks.lower_lock_level(&mut b, NONE);
        assert_eq!(locks, FileLocks::default());
    }

    /// Rolling back a hot journal raises a lock from shared to exclusive, without reserved between them.
    #[test]
    fn a_sole_sqlite_reader_gets_an_exclusive_lock_directly() {
        let (mut locks, mut a, mut b) = (FileLocks::default(), NONE, NONE);
        assert_eq!(locks.raise_lock_level(&mut a, SHARED), Ok(()));
        assert_eq!(locks.raise_lock_level(&mut b, SHARED), Ok(()));
        assert_eq!(locks.raise_lock_level(&mut a, EXCLUSIVE), Err(LockBusy));
        assert_eq!(locks.raise_lock_level(&mut b, EXCLUSIVE), Err(LockBusy));
        locks.lower_lock_level(&mut b, NONE);
        assert_eq!(locks.raise_lock_level(&mut a, EXCLUSIVE), Ok(()));
    }

    #[test]
    fn a_wal_index_lock_has_one_writer_or_many_readers() {
        /// Flag of `xShmLock`: the locks are exclusive.
        const EXCLUSIVE_LOCK: c_int = 8;
        /// Flag of `xShmLock`: acquires the locks.
        const ACQUIRE_LOCK: c_int = 2;
        let (mut locks, mut a, mut b) =
            (ShmLocks::default(), HeldShmLocks::default(), HeldShmLocks::default());
        let mut change =
            |held: &mut HeldShmLocks, first, count, flags| locks.change_locks(held, first, count, flags);
        assert_eq!(change(&mut a, 3, 1, ACQUIRE_LOCK | shm::SHM_SHARED), Ok(()));
        assert_eq!(change(&mut a, 3, 1, ACQUIRE_LOCK | shm::SHM_SHARED), Ok(()));
        assert_eq!(change(&mut b, 3, 1, ACQUIRE_LOCK | shm::SHM_SHARED), Ok(()));
        assert_eq!(change(&mut b, 0, 8, ACQUIRE_LOCK | EXCLUSIVE_LOCK), Err(LockBusy));
        assert_eq!(change(&mut b, 4, 4, ACQUIRE_LOCK | EXCLUSIVE_LOCK), Ok(()));
        assert_eq!(change(&mut a, 4, 1, ACQUIRE_LOCK | shm::SHM_SHARED), Err(LockBusy));
        assert_eq!(change(&mut a, 3, 1, shm::SHM_UNLOCK | shm::SHM_SHARED), Ok(()));
        assert_eq!(change(&mut b, 4, 4, shm::SHM_UNLOCK | EXCLUSIVE_LOCK), Ok(()));
        assert_eq!(change(&mut b, 3, 1, shm::SHM_UNLOCK | shm::SHM_SHARED), Ok(()));
        assert_eq!(change(&mut a, 0, 8, ACQUIRE_LOCK | EXCLUSIVE_LOCK), Ok(()));
    }
}
