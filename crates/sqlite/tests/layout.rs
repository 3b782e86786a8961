//! Tests that compare the declarations of the C interface with those generated from the header of the bundled `SQLite`.
//! The indices in the table of functions are tested by all other tests, which call every function.

use std::mem::offset_of;

use rusqlite::ffi as theirs;
use wearwell_sqlite::ffi::{self as ours, code, open, shm};

#[test]
fn ffi_structures_have_the_layout_of_the_sqlite_header() {
    macro_rules! same {
        ($ours:ident $theirs:ident: $($field:ident $name:ident),* $(,)?) => {
            $(assert_eq!(
                offset_of!(ours::$ours, $field),
                offset_of!(theirs::$theirs, $name),
                stringify!($name)
            );)*
        };
    }
    same!(File sqlite3_file: methods pMethods);
    same!(IoMethods sqlite3_io_methods: version iVersion, close xClose, read xRead, write xWrite,
        truncate xTruncate, sync xSync, file_size xFileSize, lock xLock, unlock xUnlock,
        check_reserved_lock xCheckReservedLock, file_control xFileControl, sector_size xSectorSize,
        device_characteristics xDeviceCharacteristics, shm_map xShmMap, shm_lock xShmLock,
        shm_barrier xShmBarrier, shm_unmap xShmUnmap);
    same!(Vfs sqlite3_vfs: version iVersion, file_struct_bytes szOsFile, path_bytes_max mxPathname, next pNext,
        name zName, app_data pAppData, open xOpen, delete xDelete, access xAccess,
        full_pathname xFullPathname, dl_open xDlOpen, dl_error xDlError, dl_sym xDlSym, dl_close xDlClose,
        randomness xRandomness, sleep xSleep, current_time xCurrentTime, last_error xGetLastError,
        current_time_i64 xCurrentTimeInt64);
}

#[test]
fn ffi_constants_have_the_values_of_the_sqlite_header() {
    let pairs = [
        (code::OK, theirs::SQLITE_OK),
        (code::ERROR, theirs::SQLITE_ERROR),
        (code::BUSY, theirs::SQLITE_BUSY),
        (code::NOMEM, theirs::SQLITE_NOMEM),
        (code::IOERR, theirs::SQLITE_IOERR),
        (code::NOTFOUND, theirs::SQLITE_NOTFOUND),
        (code::FULL, theirs::SQLITE_FULL),
        (code::CANTOPEN, theirs::SQLITE_CANTOPEN),
        (code::OK_LOAD_PERMANENTLY, theirs::SQLITE_OK_LOAD_PERMANENTLY),
        (code::IOERR_READ, theirs::SQLITE_IOERR_READ),
        (code::IOERR_SHORT_READ, theirs::SQLITE_IOERR_SHORT_READ),
        (code::IOERR_WRITE, theirs::SQLITE_IOERR_WRITE),
        (code::IOERR_FSYNC, theirs::SQLITE_IOERR_FSYNC),
        (code::IOERR_TRUNCATE, theirs::SQLITE_IOERR_TRUNCATE),
        (code::IOERR_DELETE, theirs::SQLITE_IOERR_DELETE),
        (code::IOERR_DELETE_NOENT, theirs::SQLITE_IOERR_DELETE_NOENT),
        (open::OPEN_CREATE, theirs::SQLITE_OPEN_CREATE),
        (open::OPEN_MAIN_DB, theirs::SQLITE_OPEN_MAIN_DB),
        (open::OPEN_MAIN_JOURNAL, theirs::SQLITE_OPEN_MAIN_JOURNAL),
        (open::OPEN_SUPER_JOURNAL, theirs::SQLITE_OPEN_SUPER_JOURNAL),
        (open::OPEN_WAL, theirs::SQLITE_OPEN_WAL),
        (shm::SHM_UNLOCK, theirs::SQLITE_SHM_UNLOCK),
        (shm::SHM_SHARED, theirs::SQLITE_SHM_SHARED),
        (i32::try_from(shm::SHM_LOCK_COUNT).expect("it is small"), theirs::SQLITE_SHM_NLOCK),
        (ours::FCNTL_PRAGMA, theirs::SQLITE_FCNTL_PRAGMA),
        (ours::IOCAP_POWERSAFE_OVERWRITE, theirs::SQLITE_IOCAP_POWERSAFE_OVERWRITE),
    ];
    for (k, (ours, theirs)) in pairs.into_iter().enumerate() {
        assert_eq!(ours, theirs, "number {k} of the list");
    }
}
