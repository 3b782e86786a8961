//! Declares the part of `SQLite`'s C interface that a loadable VFS needs, as `sqlite3.h` and `sqlite3ext.h` define it.
//!
//! The declarations are written out instead of taken from a binding crate: bindings for extensions require the newest
//! `SQLite` they know, while a VFS needs only what every version since 3.8 has. `SQLite` extends its table of routines
//! only at the end, so a routine has the same index in every version. `tests/layout.rs` compares all declarations with
//! the header of the bundled `SQLite`.

use std::ffi::{c_char, c_int, c_void};

/// `sqlite3_file`, the first member of every open file of a VFS.
#[repr(C)]
#[derive(Debug)]
pub struct File {
    /// Functions of the open file; null until the file is open.
    pub methods: *const IoMethods,
}

/// `sqlite3_io_methods`, version 2: the functions of an open file, with shared memory but without memory mapping.
#[repr(C)]
#[derive(Debug)]
#[allow(missing_docs, reason = "names of sqlite3.h")]
pub struct IoMethods {
    /// Version of this structure (`iVersion`); it determines which functions exist.
    pub version: c_int,
    /// Closes the file.
    pub close: unsafe extern "C" fn(*mut File) -> c_int,
    /// Reads bytes: destination, length and offset.
    pub read: unsafe extern "C" fn(*mut File, *mut c_void, c_int, i64) -> c_int,
    /// Writes bytes: source, length and offset.
    pub write: unsafe extern "C" fn(*mut File, *const c_void, c_int, i64) -> c_int,
    /// Sets the length of the file.
    pub truncate: unsafe extern "C" fn(*mut File, i64) -> c_int,
    /// Makes the file durable.
    pub sync: unsafe extern "C" fn(*mut File, c_int) -> c_int,
    /// Stores the length of the file in its argument.
    pub file_size: unsafe extern "C" fn(*mut File, *mut i64) -> c_int,
    /// Raises the lock of this connection on the file to a level.
    pub lock: unsafe extern "C" fn(*mut File, c_int) -> c_int,
    /// Lowers the lock of this connection on the file to a level.
    pub unlock: unsafe extern "C" fn(*mut File, c_int) -> c_int,
    /// Stores whether any connection holds a reserved lock.
    pub check_reserved_lock: unsafe extern "C" fn(*mut File, *mut c_int) -> c_int,
    /// Executes a file control (a command with a code).
    pub file_control: unsafe extern "C" fn(*mut File, c_int, *mut c_void) -> c_int,
    /// Returns the smallest size of a write that changes no other bytes.
    pub sector_size: unsafe extern "C" fn(*mut File) -> c_int,
    /// Returns flags with properties of the device.
    pub device_characteristics: unsafe extern "C" fn(*mut File) -> c_int,
    /// Maps a region of the wal-index (shared memory of the write-ahead log).
    pub shm_map: unsafe extern "C" fn(*mut File, c_int, c_int, c_int, *mut *mut c_void) -> c_int,
    /// Acquires or releases locks of the wal-index.
    pub shm_lock: unsafe extern "C" fn(*mut File, c_int, c_int, c_int) -> c_int,
    /// Orders accesses to the wal-index (memory barrier).
    pub shm_barrier: unsafe extern "C" fn(*mut File),
    /// Unmaps the wal-index, and deletes it if requested.
    pub shm_unmap: unsafe extern "C" fn(*mut File, c_int) -> c_int,
}

/// `sqlite3_vfs`, version 2: the functions of a VFS.
#[repr(C)]
#[derive(Debug)]
#[allow(missing_docs, reason = "names of sqlite3.h")]
pub struct Vfs {
    /// Version of this structure (`iVersion`); it determines which functions exist.
    pub version: c_int,
    /// Size of the structure that `SQLite` allocates for each open file of the VFS, bytes (`szOsFile`).
    pub file_struct_bytes: c_int,
    /// Longest name of a file, bytes (`mxPathname`).
    pub path_bytes_max: c_int,
    /// Next VFS in the list of registered VFSs; `SQLite` sets it.
    pub next: *mut Vfs,
    /// Name by which `SQLite` finds the VFS.
    pub name: *const c_char,
    /// Pointer for use by the VFS itself (`pAppData`).
    pub app_data: *mut c_void,
    /// Opens a file by its name.
    pub open: unsafe extern "C" fn(*mut Vfs, *const c_char, *mut File, c_int, *mut c_int) -> c_int,
    /// Deletes a file by its name.
    pub delete: unsafe extern "C" fn(*mut Vfs, *const c_char, c_int) -> c_int,
    /// Stores whether a file exists or is accessible.
    pub access: unsafe extern "C" fn(*mut Vfs, *const c_char, c_int, *mut c_int) -> c_int,
    /// Stores the full path of a file name.
    pub full_pathname: unsafe extern "C" fn(*mut Vfs, *const c_char, c_int, *mut c_char) -> c_int,
    /// Loads a dynamic library; `None` if not supported.
    pub dl_open: Option<unsafe extern "C" fn(*mut Vfs, *const c_char) -> *mut c_void>,
    /// Stores the message of the last error of a dynamic library.
    pub dl_error: Option<unsafe extern "C" fn(*mut Vfs, c_int, *mut c_char)>,
    /// Returns a symbol of a dynamic library.
    pub dl_sym: Option<unsafe extern "C" fn(*mut Vfs, *mut c_void, *const c_char) -> *mut c_void>,
    /// Closes a dynamic library.
    pub dl_close: Option<unsafe extern "C" fn(*mut Vfs, *mut c_void)>,
    /// Fills a buffer with random bytes.
    pub randomness: unsafe extern "C" fn(*mut Vfs, c_int, *mut c_char) -> c_int,
    /// Sleeps for a number of microseconds.
    pub sleep: unsafe extern "C" fn(*mut Vfs, c_int) -> c_int,
    /// Stores the current time as a Julian day number.
    pub current_time: unsafe extern "C" fn(*mut Vfs, *mut f64) -> c_int,
    /// Returns the last error of the operating system.
    pub last_error: Option<unsafe extern "C" fn(*mut Vfs, c_int, *mut c_char) -> c_int>,
    /// Stores the current time as a Julian day number in milliseconds.
    pub current_time_i64: Option<unsafe extern "C" fn(*mut Vfs, *mut i64) -> c_int>,
}

/// Indices of functions in `sqlite3_api_routines`, the table of pointers that `SQLite` passes to an extension.
#[allow(missing_docs, reason = "names of sqlite3ext.h")]
pub mod routine {
    /// Index of `sqlite3_libversion_number` in the table of functions.
    pub const LIBVERSION_NUMBER_INDEX: usize = 67;
    /// Index of `sqlite3_mprintf` in the table of functions.
    pub const MPRINTF_INDEX: usize = 69;
    /// Index of `sqlite3_vfs_find` in the table of functions.
    pub const VFS_FIND_INDEX: usize = 141;
    /// Index of `sqlite3_vfs_register` in the table of functions.
    pub const VFS_REGISTER_INDEX: usize = 142;
    /// Index of `sqlite3_log` in the table of functions.
    pub const LOG_ROUTINE_INDEX: usize = 167;
    /// Index of `sqlite3_uri_parameter` in the table of functions.
    pub const URI_PARAMETER_ROUTINE_INDEX: usize = 189;
    /// Index of `sqlite3_uri_key` in the table of functions.
    pub const URI_KEY_ROUTINE_INDEX: usize = 245;
}

/// Result codes that functions of `SQLite` return (`SQLITE_OK` and others).
#[allow(missing_docs, reason = "names of sqlite3.h")]
pub mod code {
    use super::c_int;

    /// Result code: success.
    pub const OK: c_int = 0;
    /// Result code: unspecific error.
    pub const ERROR: c_int = 1;
    /// Result code: another connection holds a lock.
    pub const BUSY: c_int = 5;
    /// Result code: no memory.
    pub const NOMEM: c_int = 7;
    /// Result code: input or output error.
    pub const IOERR: c_int = 10;
    /// Result code: the file control is unknown.
    pub const NOTFOUND: c_int = 12;
    /// Result code: the device is full.
    pub const FULL: c_int = 13;
    /// Result code: the file cannot be opened.
    pub const CANTOPEN: c_int = 14;
    /// Result code of an extension that stays loaded for the life of the process.
    pub const OK_LOAD_PERMANENTLY: c_int = 1 << 8;
    /// Result code: a read failed.
    pub const IOERR_READ: c_int = IOERR | 1 << 8;
    /// Result code: a read reached beyond the end of the file.
    pub const IOERR_SHORT_READ: c_int = IOERR | 2 << 8;
    /// Result code: a write failed.
    pub const IOERR_WRITE: c_int = IOERR | 3 << 8;
    /// Result code: a sync failed.
    pub const IOERR_FSYNC: c_int = IOERR | 4 << 8;
    /// Result code: setting the length of a file failed.
    pub const IOERR_TRUNCATE: c_int = IOERR | 6 << 8;
    /// Result code: deleting a file failed.
    pub const IOERR_DELETE: c_int = IOERR | 10 << 8;
    /// Result code: the file to be deleted does not exist.
    pub const IOERR_DELETE_NOENT: c_int = IOERR | 23 << 8;
}

/// Flags with which `SQLite` calls `xOpen`, the function of a VFS that opens a file.
#[allow(missing_docs, reason = "names of sqlite3.h")]
pub mod open {
    use super::c_int;

    /// Flag of `xOpen`: the file may be created.
    pub const OPEN_CREATE: c_int = 0x4;
    /// Flag of `xOpen`: the file is a main database.
    pub const OPEN_MAIN_DB: c_int = 0x100;
    /// Flag of `xOpen`: the file is a rollback journal.
    pub const OPEN_MAIN_JOURNAL: c_int = 0x800;
    /// Flag of `xOpen`: the file is a super-journal, for transactions over several databases.
    pub const OPEN_SUPER_JOURNAL: c_int = 0x4000;
    /// Flag of `xOpen`: the file is a write-ahead log.
    pub const OPEN_WAL: c_int = 0x8_0000;
}

/// Flags of `xShmLock`, the function that locks parts of the wal-index.
#[allow(missing_docs, reason = "names of sqlite3.h")]
pub mod shm {
    use super::c_int;

    /// Flag of `xShmLock`: releases the locks.
    pub const SHM_UNLOCK: c_int = 1;
    /// Flag of `xShmLock`: the locks are shared, not exclusive.
    pub const SHM_SHARED: c_int = 4;
    /// Number of locks that a wal-index (shared memory of the write-ahead log) has.
    pub const SHM_LOCK_COUNT: usize = 8;
}

/// `SQLITE_FCNTL_PRAGMA`: code of the file control by which `SQLite` offers a pragma to the VFS.
pub const FCNTL_PRAGMA: c_int = 14;
/// `SQLITE_IOCAP_POWERSAFE_OVERWRITE`: a write that power loss interrupts changes no byte outside its range.
pub const IOCAP_POWERSAFE_OVERWRITE: c_int = 0x1000;

/// Table of pointers to `SQLite`'s functions, which `SQLite` passes to an extension.
#[derive(Clone, Copy, Debug)]
pub struct SqliteFunctions(*const *const c_void);

// SAFETY: the table is a constant of the SQLite library and is only read.
unsafe impl Send for SqliteFunctions {}
// SAFETY: as above.
unsafe impl Sync for SqliteFunctions {}

impl SqliteFunctions {
    /// Wraps the table of `SQLite`'s functions, which is the third argument of an extension's entry point.
    ///
    /// # Safety
    /// `table` points to an `sqlite3_api_routines` that lives as long as the process.
    pub unsafe fn new(table: *const c_void) -> Self {
        Self(table.cast())
    }

    /// Returns the function with index `index` in `SQLite`'s table, as a function pointer of type `F`.
    ///
    /// # Safety
    /// `F` is the type of pointers to the function at that index.
    unsafe fn function_at<F: Copy>(self, index: usize) -> F {
        const { assert!(size_of::<F>() == size_of::<*const c_void>()) };
        // SAFETY: the table has this index in every version that has URI parameters; the caller guarantees the type.
        unsafe { std::mem::transmute_copy(&*self.0.add(index)) }
    }

    /// Calls `sqlite3_vfs_find`: returns the VFS of this name (null: the default VFS), or null if there is none.
    ///
    /// # Safety
    /// `name` is null or ends with a zero.
    pub unsafe fn vfs_find(self, name: *const c_char) -> *mut Vfs {
        /// Type of `sqlite3_vfs_find`.
        type VfsFindFn = unsafe extern "C" fn(*const c_char) -> *mut Vfs;
        // SAFETY: this is the type of the routine; the caller fulfils the conditions of this function.
        unsafe { self.function_at::<VfsFindFn>(routine::VFS_FIND_INDEX)(name) }
    }

    /// Calls `sqlite3_vfs_register`: registers a VFS.
    ///
    /// # Safety
    /// `vfs` lives as long as the process, and nobody else changes it.
    pub unsafe fn vfs_register(self, vfs: *mut Vfs, is_default: bool) -> c_int {
        /// Type of `sqlite3_vfs_register`.
        type VfsRegisterFn = unsafe extern "C" fn(*mut Vfs, c_int) -> c_int;
        // SAFETY: as in `vfs_find`.
        unsafe {
            self.function_at::<VfsRegisterFn>(routine::VFS_REGISTER_INDEX)(vfs, c_int::from(is_default))
        }
    }

    /// Calls `sqlite3_uri_parameter`: returns a parameter of the database's URI, or null if it has no such parameter.
    ///
    /// # Safety
    /// `file` is the name of a database as `xOpen` got it; `parameter` ends with a zero.
    pub unsafe fn uri_parameter(self, file: *const c_char, parameter: *const c_char) -> *const c_char {
        /// Type of `sqlite3_uri_parameter`.
        type UriParameterFn = unsafe extern "C" fn(*const c_char, *const c_char) -> *const c_char;
        // SAFETY: as in `vfs_find`.
        unsafe { self.function_at::<UriParameterFn>(routine::URI_PARAMETER_ROUTINE_INDEX)(file, parameter) }
    }

    /// Calls `sqlite3_uri_key`: returns the name of the parameter with this index in the database's URI, or null after
    /// the last one. Null for all indices if `SQLite` is older than this function (3.31).
    ///
    /// # Safety
    /// `file` is the name of a database as `xOpen` got it.
    pub unsafe fn uri_key(self, file: *const c_char, index: c_int) -> *const c_char {
        /// Type of `sqlite3_libversion_number`.
        type LibversionNumberFn = unsafe extern "C" fn() -> c_int;
        /// Type of `sqlite3_uri_key`.
        type UriKeyFn = unsafe extern "C" fn(*const c_char, c_int) -> *const c_char;
        /// First version of `SQLite` that has `sqlite3_uri_key`: 3.31, as a version number.
        const FIRST_VERSION_WITH_URI_KEY: c_int = 3_031_000;
        // SAFETY: as in `vfs_find`.
        let version = unsafe { self.function_at::<LibversionNumberFn>(routine::LIBVERSION_NUMBER_INDEX)() };
        if version < FIRST_VERSION_WITH_URI_KEY {
            return std::ptr::null();
        }
        // SAFETY: as in `vfs_find`; the table of this version has the routine.
        unsafe { self.function_at::<UriKeyFn>(routine::URI_KEY_ROUTINE_INDEX)(file, index) }
    }

    /// Calls `sqlite3_log`: writes a text to `SQLite`'s error log.
    ///
    /// # Safety
    /// `text` ends with a zero.
    pub unsafe fn log(self, code: c_int, text: *const c_char) {
        /// Type of `sqlite3_log`.
        type LogFn = unsafe extern "C" fn(c_int, *const c_char, ...);
        // SAFETY: as in `vfs_find`; the format takes one text.
        unsafe { self.function_at::<LogFn>(routine::LOG_ROUTINE_INDEX)(code, c"%s".as_ptr(), text) }
    }

    /// Returns a copy of a text in memory that `SQLite` can free; null if there is no memory.
    ///
    /// # Safety
    /// `text` ends with a zero.
    pub unsafe fn copy_text(self, text: *const c_char) -> *mut c_char {
        /// Type of `sqlite3_mprintf`.
        type MprintfFn = unsafe extern "C" fn(*const c_char, ...) -> *mut c_char;
        // SAFETY: as in `vfs_find`; the format takes one text.
        unsafe { self.function_at::<MprintfFn>(routine::MPRINTF_INDEX)(c"%s".as_ptr(), text) }
    }
}
