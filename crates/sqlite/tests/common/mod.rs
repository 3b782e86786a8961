//! Fixtures of tests that use the VFS with the `SQLite` library of their own process.

#![allow(dead_code, reason = "every test file uses a part of it")]

use std::path::Path;
use std::sync::Once;

use rusqlite::{Connection, OpenFlags, ffi};
use serde_json::Value;

/// Type of an extension's entry point as `SQLite` expects it.
type EntryPoint = unsafe extern "C" fn(
    *mut ffi::sqlite3,
    *mut *mut std::ffi::c_char,
    *const ffi::sqlite3_api_routines,
) -> std::ffi::c_int;

/// Registers Wearwell's VFS with the `SQLite` library of this process, as `SQLite` does when it loads the extension.
pub fn register_vfs() {
    /// Guard that registers the VFS only once.
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let entry = wearwell_sqlite::initialise_as_auto_extension as *const ();
        // SAFETY: this is the entry point of an extension.
        let entry: EntryPoint = unsafe { std::mem::transmute(entry) };
        // SAFETY: as above.
        let code = unsafe { ffi::sqlite3_auto_extension(Some(entry)) };
        assert_eq!(code, ffi::SQLITE_OK);
        Connection::open_in_memory().expect("a first connection loads the extension");
    });
}

/// Opens the database `name` with Wearwell's VFS and these URI parameters.
pub fn try_open(name: &str, parameters: &str) -> rusqlite::Result<Connection> {
    register_vfs();
    let uri = format!("file:{name}?vfs=wearwell&{parameters}");
    let flags =
        OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE | OpenFlags::SQLITE_OPEN_URI;
    Connection::open_with_flags(uri, flags)
}

/// Opens the database `name` with Wearwell's VFS and these URI parameters, which must succeed.
pub fn open(name: &str, parameters: &str) -> Connection {
    try_open(name, parameters).unwrap_or_else(|error| panic!("{name} with {parameters}: {error}"))
}

/// Returns the URI parameters of a database whose device is stored in the image `image` in `directory`. If the image
/// does not exist, it is created with 128 MiB. `more` is appended to the parameters.
pub fn image_uri_parameters(directory: &Path, more: &str) -> String {
    format!("image={}&size=128MiB{more}", directory.join("image").display())
}

/// Returns the counters of the database's files and its device, as JSON.
pub fn stats(connection: &Connection) -> Value {
    let text: String =
        connection.query_row("pragma wearwell_stats", [], |row| row.get(0)).expect("the VFS answers");
    serde_json::from_str(&text).expect("it is JSON")
}

/// Returns the counter `name` of the group `group` in the counters `stats`.
pub fn count(stats: &Value, group: &str, name: &str) -> u64 {
    stats[group][name].as_u64().unwrap_or_else(|| panic!("{group} has no {name}: {stats}"))
}

/// Sets the journal mode of the database, which must be accepted.
pub fn set_journal_mode(connection: &Connection, mode: &str) {
    let found: String = connection
        .query_row(&format!("pragma journal_mode={mode}"), [], |row| row.get(0))
        .expect("it is a pragma");
    assert_eq!(found, mode);
}

/// Checks the database by `integrity_check`, which must find nothing wrong.
pub fn require_integrity(connection: &Connection) {
    let found: String =
        connection.query_row("pragma integrity_check", [], |row| row.get(0)).expect("it is readable");
    assert_eq!(found, "ok");
}

/// Pseudo-random generator of numbers and bytes from a seed.
pub struct Random(rand_xoshiro::Xoshiro256PlusPlus);

impl Random {
    /// Makes a generator with this seed.
    pub fn new(seed: u64) -> Self {
        use rand::SeedableRng as _;
        Self(rand_xoshiro::Xoshiro256PlusPlus::seed_from_u64(seed))
    }

    /// Returns a random number less than `bound`.
    pub fn below(&mut self, bound: u64) -> u64 {
        rand::Rng::next_u64(&mut self.0) % bound
    }

    /// Returns `count` random bytes.
    pub fn bytes(&mut self, count: usize) -> Vec<u8> {
        (0..count.div_ceil(8))
            .flat_map(|_| rand::Rng::next_u64(&mut self.0).to_le_bytes())
            .take(count)
            .collect()
    }
}

/// Replaces rows of the database in transactions of a few rows each. Equal seeds make equal changes.
pub fn churn(connection: &Connection, seed: u64, transactions: u64) {
    connection
        .execute_batch("create table if not exists t(id integer primary key, body blob); create index if not exists i on t(body)")
        .expect("a table can be made");
    let mut random = Random::new(seed);
    for _ in 0..transactions {
        connection.execute_batch("begin immediate").expect("nobody else writes");
        for _ in 0..=random.below(8) {
            let id = random.below(400).cast_signed();
            let len = 10 + random.below(1500) as usize;
            let body = random.bytes(len);
            connection.execute("replace into t values(?1, ?2)", (id, body)).expect("there is room");
        }
        connection
            .execute("delete from t where id = ?1", [random.below(400).cast_signed()])
            .expect("it is possible");
        connection.execute_batch("commit").expect("nobody else writes");
    }
}

/// Returns all rows of the test's table, in the order of their keys.
pub fn rows(connection: &Connection) -> Vec<(i64, Vec<u8>)> {
    let mut statement = connection.prepare("select id, body from t order by id").expect("there is a table");
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).expect("it is readable");
    rows.map(|row| row.expect("it is readable")).collect()
}
