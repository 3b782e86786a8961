//! Test of the loadable extension: the shared library that `SQLite` loads. The test has a process of its own, because
//! the other tests register the VFS without loading the library.

use rusqlite::{Connection, OpenFlags};

use crate::common;

#[test]
fn an_unmodified_sqlite_loads_the_extension() {
    let beside = std::env::current_exe().expect("a test knows where it is");
    let library = beside.with_file_name("libwearwell_sqlite");
    let connection = Connection::open_in_memory().expect("there is memory");
    // SAFETY: the library was built from this crate.
    let loaded = unsafe {
        connection.load_extension_enable().and_then(|()| connection.load_extension(&library, None::<&str>))
    };
    loaded.unwrap_or_else(|error| panic!("{}: {error}", library.display()));
    drop(connection);
    let flags =
        OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE | OpenFlags::SQLITE_OPEN_URI;
    let uri = "file:loaded?vfs=wearwell&memory=on&size=32MiB";
    let database = Connection::open_with_flags(uri, flags).expect("the VFS is registered");
    common::set_journal_mode(&database, "wal");
    common::churn(&database, 1, 50);
    database.query_row("pragma wal_checkpoint(full)", [], |_| Ok(())).expect("it is a pragma");
    common::require_integrity(&database);
    assert!(common::count(&common::stats(&database), "vfs", "remaps") > 10);
}
