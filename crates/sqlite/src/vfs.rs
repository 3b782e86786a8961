//! The functions of the VFS that `SQLite` calls.
//!
//! Each converts its C arguments, calls [`Database`], and converts the outcome into a result code. The message of an
//! error is written to `sqlite3_log` and to the standard error stream, because `SQLite` itself only reports "unable to
//! open database file", "disk I/O error" or "database or disk is full", and few programs have a log of `SQLite`. A
//! panic never unwinds into C: a panic of the engine becomes an I/O error, and the database refuses all later requests.
//!
//! Every function relies on these guarantees of `sqlite3.h`: a file is used by one thread at a time, between its
//! `xOpen` and its `xClose`; a `sqlite3_file` has the `szOsFile` bytes that the VFS requires; names end with a zero.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::io::{self, Write as _};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::sync::atomic::{Ordering, fence};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use crate::database::Database;
use crate::directory::FileKind;
use crate::error::Error;
use crate::ffi::{self, IoMethods, SqliteFunctions, Vfs, code};
use crate::locks::{HeldShmLocks, LockBusy, lock_level};
use crate::options::{self, Options};
use crate::shm::ShmRegion;

/// Name of the VFS, as URIs state it: `vfs=wearwell`.
pub const VFS_NAME: &CStr = c"wearwell";
/// Name of the pragma that returns the counters of the database's files and of its device, as JSON.
const STATS_PRAGMA: &CStr = c"wearwell_stats";
/// Length, in bytes, of the longest file name that the VFS accepts at least. If the default VFS of `SQLite` accepts
/// longer names, this VFS does, too.
const PATH_BYTES_MAX: c_int = 1024;

/// Access to `SQLite`: the functions that it passed when it loaded the extension, and its default VFS.
struct SqliteApi {
    /// Table of `SQLite`'s functions.
    sqlite_routines: SqliteFunctions,
    /// The default VFS of `SQLite`. It serves temporary files, randomness, time and the loading of libraries.
    default_vfs: *mut Vfs,
}

// SAFETY: the default VFS lives as long as the process, and may be called by any thread.
unsafe impl Send for SqliteApi {}
// SAFETY: as above.
unsafe impl Sync for SqliteApi {}

/// Functions and default VFS of `SQLite`, set when the extension is loaded.
static SQLITE_API: OnceLock<SqliteApi> = OnceLock::new();

/// Returns the functions and the default VFS of `SQLite`, which are known after the extension was loaded.
fn sqlite_api() -> &'static SqliteApi {
    SQLITE_API.get().expect("SQLite calls a VFS after it was registered")
}

/// Initialises the extension when `SQLite` loads it: registers the VFS for the process. `SQLite` derives the name of
/// this entry point from `libwearwell_sqlite`; the library stays loaded.
///
/// # Safety
/// `table` is what `SQLite` hands to an extension.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sqlite3_wearwellsqlite_init(
    _database: *mut c_void,
    _message: *mut *mut c_char,
    table: *const c_void,
) -> c_int {
    // SAFETY: the table is SQLite's.
    let routines = unsafe { SqliteFunctions::new(table) };
    // SAFETY: the name ends with a zero.
    if !unsafe { routines.vfs_find(VFS_NAME.as_ptr()) }.is_null() {
        return code::OK_LOAD_PERMANENTLY;
    }
    // SAFETY: null stands for the default VFS.
    let default = unsafe { routines.vfs_find(ptr::null()) };
    if default.is_null() {
        return code::ERROR;
    }
    SQLITE_API.get_or_init(|| SqliteApi { sqlite_routines: routines, default_vfs: default });
    // SAFETY: the default VFS was just found.
    let vfs = Box::leak(Box::new(vfs_with_fallback(unsafe { &*default })));
    // SAFETY: the VFS is leaked, so it lives as long as the process, and nobody else has its address.
    match unsafe { routines.vfs_register(vfs, false) } {
        code::OK => code::OK_LOAD_PERMANENTLY,
        refused => refused,
    }
}

/// Initialises the extension in a program that links this crate and passes this function to `sqlite3_auto_extension`.
/// Returns `SQLITE_OK` on success, the only success code that `SQLite` accepts there.
///
/// # Safety
/// As for [`sqlite3_wearwellsqlite_init`].
pub unsafe extern "C" fn initialise_as_auto_extension(
    database: *mut c_void,
    message: *mut *mut c_char,
    table: *const c_void,
) -> c_int {
    // SAFETY: promised by the caller.
    match unsafe { sqlite3_wearwellsqlite_init(database, message, table) } {
        code::OK_LOAD_PERMANENTLY => code::OK,
        refused => refused,
    }
}

/// Makes the table of functions of this VFS. Temporary files, randomness, time and libraries are left to `default`, the
/// default VFS.
fn vfs_with_fallback(default: &Vfs) -> Vfs {
    /// Size of the structure of an open file, bytes.
    const OPEN_FILE_BYTES: c_int = (size_of::<OpenFile>() as u32).cast_signed();
    Vfs {
        version: 2,
        file_struct_bytes: default.file_struct_bytes.max(OPEN_FILE_BYTES),
        path_bytes_max: PATH_BYTES_MAX.max(default.path_bytes_max),
        next: ptr::null_mut(),
        name: VFS_NAME.as_ptr(),
        app_data: ptr::null_mut(),
        open,
        delete,
        access,
        full_pathname,
        dl_open: default.dl_open.map(|_| dl_open as _),
        dl_error: default.dl_error.map(|_| dl_error as _),
        dl_sym: default.dl_sym.map(|_| dl_sym as _),
        dl_close: default.dl_close.map(|_| dl_close as _),
        randomness,
        sleep,
        current_time,
        last_error: None,
        current_time_i64: default.current_time_i64.map(|_| current_time_i64 as _),
    }
}

/// State of an open database file: its database, its kind, and the locks that its connection holds.
struct OpenFileState {
    /// Database to which the file belongs.
    database: Arc<Database>,
    /// Kind of the file: database, journal or log.
    kind: FileKind,
    /// Lock level of the connection on the database file, one of the constants in `lock_level`.
    held_lock_level: c_int,
    /// Locks of the connection on the wal-index (shared memory of the write-ahead log).
    shm_locks: HeldShmLocks,
    /// Whether the connection has mapped the wal-index (shared memory of the write-ahead log).
    has_mapped_shm: bool,
}

/// C structure of an open file of this VFS. It begins with `SQLite`'s own structure, so that `SQLite` sees an
/// `sqlite3_file`.
#[repr(C)]
struct OpenFile {
    /// Structure `sqlite3_file` of `SQLite`, with the functions of the file.
    base: ffi::File,
    /// State of the file while it is open; null otherwise.
    handle: *mut OpenFileState,
}

/// Functions of all open files of this VFS.
static FILE_METHODS: IoMethods = IoMethods {
    version: 2,
    close,
    read,
    write,
    truncate,
    sync,
    file_size,
    lock,
    unlock,
    check_reserved_lock,
    file_control,
    sector_size,
    device_characteristics,
    shm_map,
    shm_lock,
    shm_barrier,
    shm_unmap,
};

/// Text of the message that was last written to the standard error stream.
static LAST_STDERR_MESSAGE: Mutex<String> = Mutex::new(String::new());

/// Writes an error to `SQLite`'s log and returns its result code. The code is `SQLITE_FULL` for a full device,
/// otherwise `operation`, the code for a failure of the operation. Also writes the error to the standard error stream,
/// unless the last message there was equal, because a program may repeat a failing request.
fn report_error(error: &Error, operation: c_int) -> c_int {
    let message = error.to_string();
    let mut last = LAST_STDERR_MESSAGE.lock().unwrap_or_else(PoisonError::into_inner);
    if *last != message {
        // If standard error is closed, there is nobody to tell.
        let _ = writeln!(io::stderr(), "wearwell: {message}");
        *last = message;
    }
    drop(last);
    log_error(error, operation)
}

/// Writes an error to `SQLite`'s log and returns its result code: `SQLITE_FULL` for a full device, otherwise
/// `operation`, the code for a failure of the operation.
fn log_error(error: &Error, operation: c_int) -> c_int {
    let code = match error {
        Error::DeviceFull { .. } | Error::Device(wearwell_serve::DeviceError::Full(_)) => code::FULL,
        _ => operation,
    };
    if let Ok(text) = CString::new(format!("wearwell: {error}")) {
        // SAFETY: the text ends with a zero.
        unsafe { sqlite_api().sqlite_routines.log(code, text.as_ptr()) };
    }
    code
}

/// Runs `body`, the work of a VFS function, and converts errors and panics into a result code of `SQLite`. `operation`
/// is the code for a failure.
fn run_catching_panics(operation: c_int, body: impl FnOnce() -> Result<c_int, Error>) -> c_int {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(code)) => code,
        Ok(Err(error)) => report_error(&error, operation),
        Err(_) => report_error(&Error::DevicePanicked, operation),
    }
}

/// Returns a C string that `SQLite` passed, as a `&str`. It is empty if `text` is null or invalid UTF-8.
///
/// # Safety
/// `text` is null, or ends with a zero and does not change during `'a`.
unsafe fn str_of_c_string<'a>(text: *const c_char) -> &'a str {
    if text.is_null() {
        return "";
    }
    // SAFETY: promised by the caller.
    unsafe { CStr::from_ptr(text) }.to_str().unwrap_or("")
}

/// Returns the state of an open file: its database, its kind, and its locks.
///
/// # Safety
/// `file` was opened by [`open`] for a file on a device, is not closed, and is used by this thread alone.
unsafe fn file_state<'a>(file: *mut ffi::File) -> &'a mut OpenFileState {
    // SAFETY: such a file is the beginning of an `OpenFile` whose handle lives until `close`.
    unsafe { &mut *(*file.cast::<OpenFile>()).handle }
}

/// Implements `xOpen`: opens a file of a database on its device, or a temporary file by the default VFS.
unsafe extern "C" fn open(
    _vfs: *mut Vfs,
    name: *const c_char,
    file: *mut ffi::File,
    flags: c_int,
    flags_out: *mut c_int,
) -> c_int {
    let kind = match flags {
        _ if flags & ffi::open::OPEN_MAIN_DB != 0 => FileKind::Database,
        _ if flags & ffi::open::OPEN_MAIN_JOURNAL != 0 => FileKind::Journal,
        _ if flags & ffi::open::OPEN_WAL != 0 => FileKind::Wal,
        _ if flags & ffi::open::OPEN_SUPER_JOURNAL != 0 => {
            return report_error(&Error::SuperJournal, code::CANTOPEN);
        }
        // Temporary files are not stored on the device: the default VFS opens them, with its own methods.
        // SAFETY: the file has room for one of the default VFS.
        _ => {
            return unsafe {
                ((*sqlite_api().default_vfs).open)(sqlite_api().default_vfs, name, file, flags, flags_out)
            };
        }
    };
    // SAFETY: `xOpen` may leave a file without methods; SQLite does not close such a file.
    unsafe { (*file).methods = ptr::null() };
    let opened = catch_unwind(|| {
        // SAFETY: the name of a database ends with a zero, and has the parameters of its URI.
        let path = unsafe { str_of_c_string(name) };
        // SAFETY: as above.
        let parameter = |key: &str| unsafe { uri_parameter(name, key) };
        let names = match kind {
            // SAFETY: as above.
            FileKind::Database => unsafe { uri_parameter_names(name) },
            FileKind::Journal | FileKind::Wal => Vec::new(),
        };
        open_database_file(kind, path, &names, parameter, flags & ffi::open::OPEN_CREATE != 0)
    });
    let handle = match opened.unwrap_or(Err(Error::DevicePanicked)) {
        Ok(Some(handle)) => Box::into_raw(Box::new(handle)),
        Ok(None) => return code::CANTOPEN,
        Err(error) => {
            // Each attempt to open a database is answered, also if the last one failed for the same reason.
            let _ = writeln!(io::stderr(), "wearwell: {error}");
            return log_error(&error, code::CANTOPEN);
        }
    };
    // SAFETY: the file has the bytes of an `OpenFile`; nobody else has it yet.
    unsafe {
        file.cast::<OpenFile>()
            .write(OpenFile { base: ffi::File { methods: &raw const FILE_METHODS }, handle });
    };
    if !flags_out.is_null() {
        // SAFETY: it points to a number if it is not null.
        unsafe { *flags_out = flags };
    }
    code::OK
}

/// Returns the value of the parameter `key` of a database's URI; `None` if the URI does not have the parameter. Bytes
/// that are not UTF-8 become replacement characters.
///
/// # Safety
/// `name` is a name that `xOpen` got.
unsafe fn uri_parameter(name: *const c_char, key: &str) -> Option<String> {
    let key = CString::new(key).ok()?;
    // SAFETY: the name is one of `xOpen`, the key ends with a zero.
    let value = unsafe { sqlite_api().sqlite_routines.uri_parameter(name, key.as_ptr()) };
    // SAFETY: a parameter ends with a zero.
    (!value.is_null()).then(|| unsafe { CStr::from_ptr(value) }.to_string_lossy().into_owned())
}

/// Returns the names of all parameters of a database's URI, in the order of the URI. The list is empty with versions of
/// `SQLite` before 3.31, which cannot report the names.
///
/// # Safety
/// `name` is a name that `xOpen` got.
unsafe fn uri_parameter_names(name: *const c_char) -> Vec<String> {
    let names = (0..).map_while(|index| {
        // SAFETY: the name is one of `xOpen`.
        let key = unsafe { sqlite_api().sqlite_routines.uri_key(name, index) };
        // SAFETY: a name of a parameter ends with a zero.
        (!key.is_null()).then(|| unsafe { CStr::from_ptr(key) }.to_string_lossy().into_owned())
    });
    names.collect()
}

/// Opens a file of a database. Returns `None` if the file is a journal or log that does not exist, and `may_create` is
/// false.
fn open_database_file(
    kind: FileKind,
    path: &str,
    parameter_names: &[String],
    parameter: impl Fn(&str) -> Option<String>,
    may_create: bool,
) -> Result<Option<OpenFileState>, Error> {
    let database = match kind {
        FileKind::Database => {
            options::require_known_parameters(parameter_names)?;
            Database::open(path, &Options::from_uri_parameters(parameter)?, may_create)?
        }
        FileKind::Journal | FileKind::Wal => match Database::find_database_of_journal_or_log(path) {
            Some((database, _)) => database,
            None => return Ok(None),
        },
    };
    let is_there = database.lock_state().map(|mut state| {
        if may_create {
            state.files.create(kind);
        }
        state.files.exists(kind)
    });
    if !matches!(is_there, Ok(true)) {
        database.release()?;
        is_there?;
        return match kind {
            FileKind::Database => {
                Err(Error::CreationNotAllowed { missing_database_or_image: format!("the database {path}") })
            }
            FileKind::Journal | FileKind::Wal => Ok(None),
        };
    }
    Ok(Some(OpenFileState {
        database,
        kind,
        held_lock_level: lock_level::NONE,
        shm_locks: HeldShmLocks::default(),
        has_mapped_shm: false,
    }))
}

/// Implements `xClose`: releases the locks and the wal-index of the file, and closes it.
unsafe extern "C" fn close(file: *mut ffi::File) -> c_int {
    run_catching_panics(code::IOERR, || {
        // SAFETY: the file is open, and nobody uses it after this.
        let mut handle = unsafe { Box::from_raw((*file.cast::<OpenFile>()).handle) };
        unmap_shm(&mut handle);
        if let Ok(mut state) = handle.database.lock_state() {
            state.locks.lower_lock_level(&mut handle.held_lock_level, lock_level::NONE);
        }
        handle.database.release()?;
        Ok(code::OK)
    })
}

/// Implements `xRead`: reads `len` bytes from byte `offset` of the file on. Bytes after the end of the file are zeros,
/// and the result is then `SQLITE_IOERR_SHORT_READ`.
unsafe extern "C" fn read(file: *mut ffi::File, into: *mut c_void, len: c_int, offset: i64) -> c_int {
    run_catching_panics(code::IOERR_READ, || {
        // SAFETY: the file is open; SQLite gives a buffer of `len` bytes.
        let (handle, into) =
            unsafe { (file_state(file), std::slice::from_raw_parts_mut(into.cast::<u8>(), len as usize)) };
        let is_whole = handle.database.lock_state()?.files.read(handle.kind, offset as u64, into)?;
        Ok(if is_whole { code::OK } else { code::IOERR_SHORT_READ })
    })
}

/// Implements `xWrite`: writes `len` bytes from byte `offset` of the file on.
unsafe extern "C" fn write(file: *mut ffi::File, from: *const c_void, len: c_int, offset: i64) -> c_int {
    run_catching_panics(code::IOERR_WRITE, || {
        // SAFETY: the file is open; SQLite gives `len` bytes.
        let (handle, from) =
            unsafe { (file_state(file), std::slice::from_raw_parts(from.cast::<u8>(), len as usize)) };
        handle.database.lock_state()?.files.write(handle.kind, offset as u64, from)?;
        Ok(code::OK)
    })
}

/// Implements `xTruncate`: sets the length of the file to `len` bytes.
unsafe extern "C" fn truncate(file: *mut ffi::File, len: i64) -> c_int {
    run_catching_panics(code::IOERR_TRUNCATE, || {
        // SAFETY: the file is open.
        let handle = unsafe { file_state(file) };
        handle.database.lock_state()?.files.truncate(handle.kind, len as u64)?;
        Ok(code::OK)
    })
}

/// Implements `xSync`: makes all writes to the files of the database durable.
unsafe extern "C" fn sync(file: *mut ffi::File, _flags: c_int) -> c_int {
    run_catching_panics(code::IOERR_FSYNC, || {
        // SAFETY: the file is open.
        let handle = unsafe { file_state(file) };
        handle.database.lock_state()?.files.sync()?;
        Ok(code::OK)
    })
}

/// Implements `xFileSize`: stores the length of the file, bytes, in `len`.
unsafe extern "C" fn file_size(file: *mut ffi::File, len: *mut i64) -> c_int {
    run_catching_panics(code::IOERR, || {
        // SAFETY: the file is open.
        let handle = unsafe { file_state(file) };
        let found = handle.database.lock_state()?.files.len(handle.kind);
        // SAFETY: SQLite gives a number to write to.
        unsafe { *len = found.cast_signed() };
        Ok(code::OK)
    })
}

/// Returns the result code for the outcome of locking: `SQLITE_BUSY` if the lock was refused.
fn lock_result_code(outcome: Result<(), LockBusy>) -> c_int {
    if outcome.is_ok() { code::OK } else { code::BUSY }
}

/// Implements `xLock`: raises the lock level of the connection on the database file to `wanted`.
unsafe extern "C" fn lock(file: *mut ffi::File, wanted: c_int) -> c_int {
    run_catching_panics(code::IOERR, || {
        // SAFETY: the file is open.
        let handle = unsafe { file_state(file) };
        Ok(lock_result_code(
            handle.database.lock_state()?.locks.raise_lock_level(&mut handle.held_lock_level, wanted),
        ))
    })
}

/// Implements `xUnlock`: lowers the lock level of the connection on the database file to `wanted`.
unsafe extern "C" fn unlock(file: *mut ffi::File, wanted: c_int) -> c_int {
    run_catching_panics(code::IOERR, || {
        // SAFETY: the file is open.
        let handle = unsafe { file_state(file) };
        handle.database.lock_state()?.locks.lower_lock_level(&mut handle.held_lock_level, wanted);
        Ok(code::OK)
    })
}

/// Implements `xCheckReservedLock`: stores whether a connection intends to write to the database file.
unsafe extern "C" fn check_reserved_lock(file: *mut ffi::File, is_reserved: *mut c_int) -> c_int {
    run_catching_panics(code::IOERR, || {
        // SAFETY: the file is open.
        let found = unsafe { file_state(file) }.database.lock_state()?.locks.is_reserved_by_writer();
        // SAFETY: SQLite gives a number to write to.
        unsafe { *is_reserved = c_int::from(found) };
        Ok(code::OK)
    })
}

/// Implements `xFileControl`: answers the pragma `wearwell_stats` with the counters as JSON. All other controls are
/// reported as unknown.
unsafe extern "C" fn file_control(file: *mut ffi::File, operation: c_int, argument: *mut c_void) -> c_int {
    if operation != ffi::FCNTL_PRAGMA {
        return code::NOTFOUND;
    }
    let texts = argument.cast::<*mut c_char>();
    // SAFETY: the argument of a pragma is an array of texts: answer, name, argument, ...
    let name = unsafe { str_of_c_string(*texts.add(1)) };
    if !name.eq_ignore_ascii_case(STATS_PRAGMA.to_str().unwrap_or_default()) {
        return code::NOTFOUND;
    }
    run_catching_panics(code::ERROR, || {
        // SAFETY: the file is open.
        let stats = unsafe { file_state(file) }.database.lock_state()?.files.stats()?;
        let answer = CString::new(stats.to_string()).unwrap_or_default();
        // SAFETY: the answer ends with a zero; SQLite frees the copy.
        unsafe { *texts = sqlite_api().sqlite_routines.copy_text(answer.as_ptr()) };
        Ok(code::OK)
    })
}

/// Implements `xSectorSize`: returns the size of a device page, bytes.
unsafe extern "C" fn sector_size(file: *mut ffi::File) -> c_int {
    // SAFETY: the file is open.
    let state = unsafe { file_state(file) }.database.lock_state();
    state.map_or(4096, |state| state.files.device_page_bytes().cast_signed())
}

/// Implements `xDeviceCharacteristics`: returns the guarantees of the device for writes, as flags.
unsafe extern "C" fn device_characteristics(_file: *mut ffi::File) -> c_int {
    // The device never mixes two writes in a page, so bytes outside the written range keep their values.
    ffi::IOCAP_POWERSAFE_OVERWRITE
}

/// Implements `xShmMap`: stores the address of a region of the wal-index in `start`. With `extends`, missing regions
/// are allocated.
unsafe extern "C" fn shm_map(
    file: *mut ffi::File,
    region_index: c_int,
    region_bytes: c_int,
    extends: c_int,
    start: *mut *mut c_void,
) -> c_int {
    run_catching_panics(code::IOERR, || {
        // SAFETY: the file is open.
        let handle = unsafe { file_state(file) };
        let mut state = handle.database.lock_state()?;
        if !handle.has_mapped_shm {
            handle.has_mapped_shm = true;
            state.wal_index_user_count += 1;
        }
        while state.shm_regions.len() <= region_index as usize && extends != 0 {
            let Some(region) = ShmRegion::new(region_bytes as usize) else { return Ok(code::NOMEM) };
            state.shm_regions.push(region);
        }
        let found = state.shm_regions.get(region_index as usize);
        let found = found.map_or(ptr::null_mut(), |region| region.start_address().as_ptr().cast());
        // SAFETY: SQLite gives a pointer to write to.
        unsafe { *start = found };
        Ok(code::OK)
    })
}

/// Implements `xShmLock`: acquires or releases `count` locks of the wal-index, from number `first` on.
unsafe extern "C" fn shm_lock(file: *mut ffi::File, first: c_int, count: c_int, flags: c_int) -> c_int {
    run_catching_panics(code::IOERR, || {
        // SAFETY: the file is open.
        let handle = unsafe { file_state(file) };
        let mut state = handle.database.lock_state()?;
        Ok(lock_result_code(state.shm_locks.change_locks(
            &mut handle.shm_locks,
            first as usize,
            count as usize,
            flags,
        )))
    })
}

/// Implements `xShmBarrier`: orders accesses to the wal-index before and after the call.
unsafe extern "C" fn shm_barrier(_file: *mut ffi::File) {
    fence(Ordering::SeqCst);
}

/// Implements `xShmUnmap`: unmaps the wal-index for the connection of the file.
unsafe extern "C" fn shm_unmap(file: *mut ffi::File, _deletes: c_int) -> c_int {
    // SAFETY: the file is open.
    unmap_shm(unsafe { file_state(file) });
    code::OK
}

/// Unmaps the wal-index (shared memory of the write-ahead log) for a connection, and releases the connection's locks on
/// it. The memory is freed when the last connection unmaps it.
fn unmap_shm(handle: &mut OpenFileState) {
    let Ok(mut state) = handle.database.lock_state() else { return };
    let _ = state.shm_locks.change_locks(
        &mut handle.shm_locks,
        0,
        ffi::shm::SHM_LOCK_COUNT,
        ffi::shm::SHM_UNLOCK,
    );
    if std::mem::take(&mut handle.has_mapped_shm) {
        state.wal_index_user_count -= 1;
        if state.wal_index_user_count == 0 {
            state.shm_regions.clear();
        }
    }
}

/// Implements `xDelete`: deletes the journal or the log of an open database.
unsafe extern "C" fn delete(_vfs: *mut Vfs, name: *const c_char, _syncs_directory: c_int) -> c_int {
    run_catching_panics(code::IOERR_DELETE, || {
        // SAFETY: a name ends with a zero.
        let Some((database, kind)) =
            Database::find_database_of_journal_or_log(unsafe { str_of_c_string(name) })
        else {
            return Ok(code::IOERR_DELETE_NOENT);
        };
        let was_there = database.lock_state().and_then(|mut state| state.files.delete(kind));
        database.release()?;
        Ok(if was_there? { code::OK } else { code::IOERR_DELETE_NOENT })
    })
}

/// Implements `xAccess`: stores in `found` whether the journal or log of an open database exists and is not empty.
unsafe extern "C" fn access(_vfs: *mut Vfs, name: *const c_char, _flags: c_int, found: *mut c_int) -> c_int {
    run_catching_panics(code::IOERR, || {
        // SAFETY: a name ends with a zero.
        let file = Database::find_database_of_journal_or_log(unsafe { str_of_c_string(name) });
        let is_there = match file {
            Some((database, kind)) => {
                let is_there = database.lock_state().map(|state| {
                    // As in SQLite's own VFS, an empty file counts as missing.
                    state.files.exists(kind) && state.files.len(kind) > 0
                });
                database.release()?;
                is_there?
            }
            None => false,
        };
        // SAFETY: SQLite gives a number to write to.
        unsafe { *found = c_int::from(is_there) };
        Ok(code::OK)
    })
}

/// Implements `xFullPathname`: copies the name of a database unchanged, because names are no paths of a file system.
unsafe extern "C" fn full_pathname(
    _vfs: *mut Vfs,
    name: *const c_char,
    buffer_bytes: c_int,
    into: *mut c_char,
) -> c_int {
    // SAFETY: a name ends with a zero.
    let name = unsafe { CStr::from_ptr(name) }.to_bytes_with_nul();
    // SQLite makes the name of the journal in the same number of bytes.
    let max_bytes = (buffer_bytes as usize).saturating_sub(1 + FileKind::Journal.suffix().len());
    let len_bytes = name.len() - 1;
    if len_bytes > max_bytes {
        return report_error(&Error::LongName { len_bytes, max_bytes }, code::CANTOPEN);
    }
    // SAFETY: SQLite gives `buffer_bytes` bytes, which are enough, and which are not those of the name.
    unsafe { ptr::copy_nonoverlapping(name.as_ptr().cast(), into, name.len()) };
    code::OK
}

/// Implements `xDlOpen` by the default VFS: loads a library.
unsafe extern "C" fn dl_open(_vfs: *mut Vfs, name: *const c_char) -> *mut c_void {
    // SAFETY: the arguments are passed on; the function is set only if the default VFS has it. The same holds below.
    unsafe {
        (*sqlite_api().default_vfs)
            .dl_open
            .map_or(ptr::null_mut(), |open| open(sqlite_api().default_vfs, name))
    }
}

/// Implements `xDlError` by the default VFS: returns the message of the last error of loading a library.
unsafe extern "C" fn dl_error(_vfs: *mut Vfs, bytes: c_int, message: *mut c_char) {
    // SAFETY: as in `dl_open`.
    unsafe {
        if let Some(error) = (*sqlite_api().default_vfs).dl_error {
            error(sqlite_api().default_vfs, bytes, message);
        }
    }
}

/// Implements `xDlSym` by the default VFS: finds a function in a library.
unsafe extern "C" fn dl_sym(_vfs: *mut Vfs, library: *mut c_void, name: *const c_char) -> *mut c_void {
    // SAFETY: as in `dl_open`.
    unsafe {
        (*sqlite_api().default_vfs)
            .dl_sym
            .map_or(ptr::null_mut(), |symbol| symbol(sqlite_api().default_vfs, library, name))
    }
}

/// Implements `xDlClose` by the default VFS: unloads a library.
unsafe extern "C" fn dl_close(_vfs: *mut Vfs, library: *mut c_void) {
    // SAFETY: as in `dl_open`.
    unsafe {
        if let Some(close) = (*sqlite_api().default_vfs).dl_close {
            close(sqlite_api().default_vfs, library);
        }
    }
}

/// Implements `xRandomness` by the default VFS: stores `bytes` random bytes in `into`.
unsafe extern "C" fn randomness(_vfs: *mut Vfs, bytes: c_int, into: *mut c_char) -> c_int {
    // SAFETY: the arguments are passed on. The same holds below.
    unsafe { ((*sqlite_api().default_vfs).randomness)(sqlite_api().default_vfs, bytes, into) }
}

/// Implements `xSleep` by the default VFS: waits for `microseconds` microseconds.
unsafe extern "C" fn sleep(_vfs: *mut Vfs, microseconds: c_int) -> c_int {
    // SAFETY: as in `randomness`.
    unsafe { ((*sqlite_api().default_vfs).sleep)(sqlite_api().default_vfs, microseconds) }
}

/// Implements `xCurrentTime` by the default VFS: stores the time as a Julian day number in `days`.
unsafe extern "C" fn current_time(_vfs: *mut Vfs, days: *mut f64) -> c_int {
    // SAFETY: as in `randomness`.
    unsafe { ((*sqlite_api().default_vfs).current_time)(sqlite_api().default_vfs, days) }
}

/// Implements `xCurrentTimeInt64` by the default VFS: stores the Julian day number, in milliseconds, in `milliseconds`.
unsafe extern "C" fn current_time_i64(_vfs: *mut Vfs, milliseconds: *mut i64) -> c_int {
    // SAFETY: as in `dl_open`.
    unsafe {
        (*sqlite_api().default_vfs)
            .current_time_i64
            .map_or(code::ERROR, |time| time(sqlite_api().default_vfs, milliseconds))
    }
}
