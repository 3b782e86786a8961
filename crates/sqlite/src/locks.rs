//! `SQLite`'s two kinds of locks, among the connections of one process: locks of the database file and of the
//! wal-index.
//!
//! Only one process uses a device, so locks are counters in memory. [`Locks`] are those of a database file (shared,
//! reserved, pending, exclusive). [`ShmLocks`] are the eight locks of a wal-index (shared memory of the write-ahead
//! log).

use std::ffi::c_int;

use crate::ffi::shm;

/// Levels of a lock on the database file, with `SQLite`'s numbers.
pub(crate) mod level {
    use super::c_int;

    pub(crate) const NONE: c_int = 0;
    pub(crate) const SHARED: c_int = 1;
    pub(crate) const RESERVED: c_int = 2;
    pub(crate) const PENDING: c_int = 3;
    pub(crate) const EXCLUSIVE: c_int = 4;
}

/// Error: a lock is refused, because another connection holds a lock that excludes it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Busy;

/// State of the lock on a database file: number of readers, and level of the writer's lock.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Locks {
    /// Number of connections whose lock level on the database file is [`level::SHARED`] or higher.
    readers: u32,
    /// Lock level of the one connection whose level is higher than [`level::SHARED`]; [`level::NONE`] if there is none.
    writer: c_int,
}

impl Locks {
    /// Raises a connection's lock level on the database file from `held` to `wanted`. While other connections read, an
    /// exclusive lock is refused; the connection then holds [`level::PENDING`], which excludes new readers.
    pub(crate) fn raise(&mut self, held: &mut c_int, wanted: c_int) -> Result<(), Busy> {
        if *held >= wanted {
            return Ok(());
        }
        let is_other_writer = self.writer != level::NONE && *held < level::RESERVED;
        match wanted {
            level::SHARED if self.writer >= level::PENDING => return Err(Busy),
            level::SHARED => self.readers += 1,
            _ if is_other_writer => return Err(Busy),
            level::RESERVED => self.writer = wanted,
            _ => {
                let is_alone = self.readers == 1;
                self.writer = if is_alone { level::EXCLUSIVE } else { level::PENDING };
                *held = self.writer;
                return if is_alone { Ok(()) } else { Err(Busy) };
            }
        }
        *held = wanted;
        Ok(())
    }

    /// Lowers a connection's lock level on the database file to shared or none.
    pub(crate) fn lower(&mut self, held: &mut c_int, wanted: c_int) {
        if *held <= wanted {
            return;
        }
        if *held >= level::RESERVED {
            self.writer = level::NONE;
        }
        if wanted == level::NONE {
            self.readers -= 1;
        }
        *held = wanted;
    }

    /// Returns whether some connection holds a reserved or higher lock, that is, intends to write.
    pub(crate) fn is_reserved(self) -> bool {
        self.writer >= level::RESERVED
    }
}

/// Bit masks of the wal-index locks (on shared memory of the write-ahead log) that one connection holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct ShmHeld {
    shared: u8,
    exclusive: u8,
}

/// State of the eight wal-index locks (on shared memory of the write-ahead log) over all connections.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct ShmLocks {
    readers: [u32; shm::LOCKS],
    exclusive: u8,
}

impl ShmLocks {
    /// Acquires or releases `count` locks of the wal-index from number `first` on; `flags` are those of `xShmLock`.
    /// With [`Busy`] none of the locks is acquired.
    pub(crate) fn change(
        &mut self,
        held: &mut ShmHeld,
        first: usize,
        count: usize,
        flags: c_int,
    ) -> Result<(), Busy> {
        let locks = first..(first + count).min(shm::LOCKS);
        if flags & shm::UNLOCK != 0 {
            locks.for_each(|lock| self.give_back(held, lock));
            return Ok(());
        }
        let is_shared = flags & shm::SHARED != 0;
        if locks.clone().any(|lock| !self.is_free(*held, lock, is_shared)) {
            return Err(Busy);
        }
        for lock in locks {
            let bit = 1 << lock;
            if !is_shared {
                held.exclusive |= bit;
                self.exclusive |= bit;
            } else if held.shared & bit == 0 {
                held.shared |= bit;
                self.readers[lock] += 1;
            }
        }
        Ok(())
    }

    fn is_free(&self, held: ShmHeld, lock: usize, is_shared: bool) -> bool {
        let bit = 1 << lock;
        let is_written_by_another = self.exclusive & bit != 0 && held.exclusive & bit == 0;
        let other_readers = self.readers[lock] - u32::from(held.shared & bit != 0);
        !is_written_by_another && (is_shared || other_readers == 0)
    }

    fn give_back(&mut self, held: &mut ShmHeld, lock: usize) {
        let bit = 1 << lock;
        if held.shared & bit != 0 {
            self.readers[lock] -= 1;
        }
        if held.exclusive & bit != 0 {
            self.exclusive &= !bit;
        }
        held.shared &= !bit;
        held.exclusive &= !bit;
    }
}

#[cfg(test)]
mod tests {
    use super::level::{EXCLUSIVE, NONE, PENDING, RESERVED, SHARED};
    use super::*;

    #[test]
    fn a_sqlite_writer_waits_for_readers_and_keeps_new_ones_out() {
        let (mut locks, mut a, mut b, mut c) = (Locks::default(), NONE, NONE, NONE);
        assert_eq!(locks.raise(&mut a, SHARED), Ok(()));
        assert_eq!(locks.raise(&mut b, SHARED), Ok(()));
        assert_eq!(locks.raise(&mut a, RESERVED), Ok(()));
        assert!(locks.is_reserved());
        assert_eq!(locks.raise(&mut b, RESERVED), Err(Busy));
        assert_eq!(locks.raise(&mut a, EXCLUSIVE), Err(Busy));
        assert_eq!((a, locks.raise(&mut c, SHARED)), (PENDING, Err(Busy)));
        locks.lower(&mut b, NONE);
        assert_eq!(locks.raise(&mut a, EXCLUSIVE), Ok(()));
        assert_eq!((a, locks.raise(&mut b, SHARED)), (EXCLUSIVE, Err(Busy)));
        locks.lower(&mut a, SHARED);
        assert!(!locks.is_reserved());
        assert_eq!(locks.raise(&mut b, SHARED), Ok(()));
        locks.lower(&mut a, NONE);
        locks.lower(&mut b, NONE);
        assert_eq!(locks, Locks::default());
    }

    /// Rolling back a hot journal raises a lock from shared to exclusive, without reserved between them.
    #[test]
    fn a_sole_sqlite_reader_may_lock_exclusively_at_once() {
        let (mut locks, mut a, mut b) = (Locks::default(), NONE, NONE);
        assert_eq!(locks.raise(&mut a, SHARED), Ok(()));
        assert_eq!(locks.raise(&mut b, SHARED), Ok(()));
        assert_eq!(locks.raise(&mut a, EXCLUSIVE), Err(Busy));
        assert_eq!(locks.raise(&mut b, EXCLUSIVE), Err(Busy));
        locks.lower(&mut b, NONE);
        assert_eq!(locks.raise(&mut a, EXCLUSIVE), Ok(()));
    }

    #[test]
    fn a_sqlite_lock_has_one_writer_or_many_readers() {
        const EXCLUSIVE_LOCK: c_int = 8;
        const LOCK: c_int = 2;
        let (mut locks, mut a, mut b) = (ShmLocks::default(), ShmHeld::default(), ShmHeld::default());
        let mut change = |held: &mut ShmHeld, first, count, flags| locks.change(held, first, count, flags);
        assert_eq!(change(&mut a, 3, 1, LOCK | shm::SHARED), Ok(()));
        assert_eq!(change(&mut a, 3, 1, LOCK | shm::SHARED), Ok(()));
        assert_eq!(change(&mut b, 3, 1, LOCK | shm::SHARED), Ok(()));
        assert_eq!(change(&mut b, 0, 8, LOCK | EXCLUSIVE_LOCK), Err(Busy));
        assert_eq!(change(&mut b, 4, 4, LOCK | EXCLUSIVE_LOCK), Ok(()));
        assert_eq!(change(&mut a, 4, 1, LOCK | shm::SHARED), Err(Busy));
        assert_eq!(change(&mut a, 3, 1, shm::UNLOCK | shm::SHARED), Ok(()));
        assert_eq!(change(&mut b, 4, 4, shm::UNLOCK | EXCLUSIVE_LOCK), Ok(()));
        assert_eq!(change(&mut b, 3, 1, shm::UNLOCK | shm::SHARED), Ok(()));
        assert_eq!(change(&mut a, 0, 8, LOCK | EXCLUSIVE_LOCK), Ok(()));
    }
}
