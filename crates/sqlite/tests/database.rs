//! Tests that a database on a device holds what `SQLite` wrote, in every journal mode and on every kind of device.

use common::{
    churn, count, image_uri_parameters, open, require_integrity, rows, set_journal_mode, stats, try_open,
};
use rusqlite::{Connection, ErrorCode};
use wearwell_config::Config;
use wearwell_serve::{FlashDevice, ListenAddress, Server, memory_device};

use crate::common;

/// Copies the whole write-ahead log to the database (a full checkpoint).
fn checkpoint(connection: &Connection) {
    let busy: i64 =
        connection.query_row("pragma wal_checkpoint(full)", [], |row| row.get(0)).expect("it is a pragma");
    assert_eq!(busy, 0);
}

/// Returns the expected rows after `transactions` transactions of [`churn`]: makes the same changes in an in-memory
/// database of `SQLite`, without Wearwell's VFS.
fn expected_rows(transactions: u64) -> Vec<(i64, Vec<u8>)> {
    let plain = Connection::open_in_memory().expect("there is memory");
    churn(&plain, 7, transactions);
    rows(&plain)
}

#[test]
fn every_sqlite_journal_mode_keeps_rows() {
    let expected = expected_rows(100);
    for mode in ["wal", "delete", "truncate", "persist"] {
        for page_bytes in [512, 4096, 65536] {
            let folder = tempfile::tempdir().expect("there is room for a folder");
            let parameters = image_uri_parameters(folder.path(), "");
            let connection = open("modes", &parameters);
            connection.execute_batch(&format!("pragma page_size={page_bytes}")).expect("it is empty");
            set_journal_mode(&connection, mode);
            churn(&connection, 7, 100);
            assert_eq!(rows(&connection), expected, "{mode} with pages of {page_bytes}");
            drop(connection);
            let connection = open("modes", &parameters);
            require_integrity(&connection);
            assert_eq!(rows(&connection), expected, "{mode} with pages of {page_bytes}, opened again");
        }
    }
}

#[test]
fn a_database_survives_journal_mode_changes_and_vacuum() {
    let folder = tempfile::tempdir().expect("there is room for a folder");
    let parameters = image_uri_parameters(folder.path(), "");
    let connection = open("changes", &parameters);
    for mode in ["wal", "persist", "wal", "truncate", "wal", "delete"] {
        set_journal_mode(&connection, mode);
        churn(&connection, 7, 60);
        connection.execute_batch("delete from t where id % 3 = 0; vacuum").expect("there is room");
        require_integrity(&connection);
    }
    let expected = rows(&connection);
    drop(connection);
    assert_eq!(rows(&open("changes", &parameters)), expected);
}

/// Counts all writes to the database, except those that created it before it had a log.
#[test]
fn every_checkpoint_write_of_sqlite_becomes_a_remap() {
    for page_bytes in [4096, 16384] {
        let connection = open("recognised", "memory=on&size=32MiB&design=remap&set=remap.dedup=false");
        connection.execute_batch(&format!("pragma page_size={page_bytes}")).expect("it is empty");
        set_journal_mode(&connection, "wal");
        let before = stats(&connection);
        for seed in 0..5 {
            churn(&connection, seed, 60);
            checkpoint(&connection);
        }
        let after = stats(&connection);
        let since = |name| count(&after, "vfs", name) - count(&before, "vfs", name);
        assert!(since("database_writes") > 150, "{} writes", since("database_writes"));
        assert_eq!(since("checkpoint_copies"), since("database_writes"));
        assert_eq!(since("remaps"), since("database_writes"));
        let pages = since("remaps") * page_bytes / 4096;
        assert_eq!(count(&after, "device", "bound_pages_by_remap"), pages, "the engine remapped all of them");
    }
}

/// A database page smaller than a device page cannot be remapped.
#[test]
fn checkpoints_of_small_sqlite_pages_are_plain_writes() {
    let connection = open("small", "memory=on&size=32MiB&design=remap");
    connection.execute_batch("pragma page_size=1024").expect("it is empty");
    set_journal_mode(&connection, "wal");
    churn(&connection, 7, 100);
    checkpoint(&connection);
    assert_eq!(count(&stats(&connection), "vfs", "remaps"), 0);
    assert_eq!(rows(&connection), expected_rows(100));
    require_integrity(&connection);
}

#[test]
fn checkpoints_with_and_without_remap_give_the_same_database() {
    for design in ["page-map", "remap", "delta", "integrated"] {
        let run = |remap: &str| {
            let set = if design == "remap" { "&set=remap.dedup=false" } else { "" };
            let parameters = format!("memory=on&size=32MiB&design={design}&remap={remap}{set}");
            let connection = open("both", &parameters);
            set_journal_mode(&connection, "wal");
            churn(&connection, 7, 400);
            checkpoint(&connection);
            require_integrity(&connection);
            (rows(&connection), stats(&connection))
        };
        let ((on_rows, on), (off_rows, off)) = (run("on"), run("off"));
        assert_eq!(on_rows, off_rows, "{design}");
        assert_eq!(on_rows, expected_rows(400), "{design}");
        assert_eq!(count(&on, "vfs", "checkpoint_copies"), count(&off, "vfs", "checkpoint_copies"));
        assert_eq!(count(&off, "vfs", "remaps"), 0);
        assert_eq!(count(&on, "vfs", "remaps"), count(&on, "vfs", "checkpoint_copies"));
        if design == "remap" {
            let programs = |stats| count(stats, "device", "programs");
            let removed = programs(&off) - programs(&on);
            assert!(removed >= count(&on, "vfs", "remaps"), "a remap saves its program: {removed}");
        }
    }
}

#[test]
fn sqlite_connections_of_a_process_share_a_database() {
    let parameters = "memory=on&size=32MiB";
    let writer = open("shared", parameters);
    set_journal_mode(&writer, "wal");
    churn(&writer, 1, 20);
    let reader = open("shared", parameters);
    let before = rows(&writer);
    reader.execute_batch("begin").expect("nobody is in the way");
    assert_eq!(rows(&reader), before);
    churn(&writer, 2, 100);
    let _ = writer.query_row("pragma wal_checkpoint(passive)", [], |_| Ok(()));
    assert_eq!(rows(&reader), before, "a transaction sees one state");
    reader.execute_batch("commit").expect("it was open");
    assert_eq!(rows(&reader), rows(&writer));
}

#[test]
fn sqlite_threads_write_one_after_the_other() {
    /// Number of threads that write.
    const THREADS: u64 = 4;
    /// Number of rows that each thread writes.
    const ROWS: u64 = 200;
    for mode in ["wal", "delete"] {
        let parameters = "memory=on&size=32MiB";
        let name = format!("threads-{mode}");
        let first = open(&name, parameters);
        set_journal_mode(&first, mode);
        first.execute_batch("create table t(id integer primary key, body blob)").expect("it is new");
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let name = &name;
                scope.spawn(move || {
                    let connection = open(name, parameters);
                    connection.busy_timeout(std::time::Duration::from_secs(60)).expect("it can be set");
                    for row in 0..ROWS {
                        let id = (row * THREADS + thread).cast_signed();
                        let body = vec![thread as u8; 900];
                        let put = connection.execute("insert into t values(?1, ?2)", (id, body));
                        put.expect("a busy database is waited for");
                    }
                });
            }
        });
        require_integrity(&first);
        let found = rows(&first);
        assert_eq!(found.len() as u64, THREADS * ROWS);
        assert!(found.iter().all(|(id, body)| body == &vec![(id.cast_unsigned() % THREADS) as u8; 900]));
    }
}

/// `SQLite` reports a full disk, rolls the transaction back, and continues.
#[test]
fn a_full_device_fails_a_transaction_and_keeps_the_database() {
    for mode in ["wal", "delete"] {
        let connection = open("full", "memory=on&size=4MiB");
        set_journal_mode(&connection, mode);
        connection.execute_batch("create table t(id integer primary key, body blob)").expect("it is new");
        let mut kept = 0_usize;
        let error = loop {
            match connection.execute("insert into t values(?1, zeroblob(20000))", [kept as u32]) {
                Ok(_) => kept += 1,
                Err(error) => break error,
            }
        };
        assert_eq!(error.sqlite_error_code(), Some(ErrorCode::DiskFull), "{mode}: {error}");
        assert!(kept > 20, "{mode}: {kept} rows");
        assert_eq!(rows(&connection).len(), kept);
        require_integrity(&connection);
        if mode == "wal" {
            // The log is given back; there is room in the database for all of it.
            let busy: i64 = connection
                .query_row("pragma wal_checkpoint(truncate)", [], |row| row.get(0))
                .expect("a checkpoint has room");
            assert_eq!(busy, 0);
        }
        connection.execute_batch("delete from t where id > 10").expect("what is deleted needs little room");
        require_integrity(&connection);
    }
}

/// Regression: a database whose name looked like that of the journal or log of another database was erased when
/// `SQLite` deleted that file.
#[test]
fn a_database_is_never_taken_for_the_journal_or_log_of_another() {
    for (mode, suffix) in [("delete", "-journal"), ("truncate", "-journal"), ("wal", "-wal")] {
        let folder = tempfile::tempdir().expect("there is room for a folder");
        let parameters = |name: &str| format!("image={}&size=64MiB", folder.path().join(name).display());
        let (name, longer_name) = ("a", format!("a{suffix}"));
        let longer = open(&longer_name, &parameters("longer"));
        set_journal_mode(&longer, mode);
        churn(&longer, 7, 20);
        let other = open(name, &parameters("other"));
        set_journal_mode(&other, mode);
        churn(&other, 8, 20);
        churn(&longer, 9, 20);
        let expected = [rows(&longer), rows(&other)];
        drop(other);
        require_integrity(&longer);
        drop(longer);
        let reopened = [open(&longer_name, &parameters("longer")), open(name, &parameters("other"))];
        reopened.iter().for_each(require_integrity);
        assert_eq!(reopened.each_ref().map(rows), expected, "{mode}");
    }
}

#[test]
fn sqlite_databases_with_unusable_devices_or_parameters_are_refused() {
    let refused = |parameters: &str| {
        let error = try_open("refused", parameters).expect_err(parameters);
        assert_eq!(error.sqlite_error_code(), Some(ErrorCode::CannotOpen), "{parameters}: {error}");
    };
    refused("");
    refused("memory=on");
    refused("memory=on&size=16KiB");
    refused("image=/nowhere/at/all");
    refused("nbd=/nowhere&control=/nowhere");
    let folder = tempfile::tempdir().expect("there is room for a folder");
    let parameters = image_uri_parameters(folder.path(), "");
    let first = open("first", &parameters);
    first.execute_batch("create table t(x)").expect("it is new");
    refused(&parameters);
    // The same name is another device.
    assert!(try_open("first", "memory=on&size=32MiB").is_err());
    assert!(try_open("first", &parameters).is_ok());
}

#[test]
fn a_device_with_foreign_data_is_refused_as_a_sqlite_volume() {
    use wearwell_serve::BlockDevice as _;
    use wearwell_serve::image::{self, Image, ImageOpenOptions};
    let folder = tempfile::tempdir().expect("there is room for a folder");
    let parameters = image_uri_parameters(folder.path(), "");
    drop(open("foreign", &parameters));
    let image =
        Image::open(&folder.path().join("image"), ImageOpenOptions::default()).expect("it was closed");
    let identity = image.health_facts();
    let mut device = FlashDevice::new(image.device, identity).expect("it keeps bytes");
    device.write(0, &[7; 4096]).expect("there is room");
    image::close(device.into_live_device()).expect("it can be closed");
    assert!(try_open("foreign", &parameters).is_err());
}

#[test]
fn sqlite_works_on_the_device_of_a_running_server() {
    let folder = tempfile::tempdir().expect("there is room for a folder");
    let config =
        Config::from_text_and_settings(None, &["remap.dedup=false".to_owned()]).expect("it is valid");
    let specification = memory_device::MemoryDeviceSpecification::new("remap", config, Some(32 << 20))
        .expect("it is possible");
    let device = specification.build().expect("it fits");
    let mut server: Server<FlashDevice> = Server::start(device, "drive", "a test drive");
    let socket = |name: &str| folder.path().join(name);
    server.listen_for_nbd_clients(&ListenAddress::Unix(socket("nbd"))).expect("the path is free");
    server.open_control_socket(&ListenAddress::Unix(socket("control"))).expect("the path is free");
    let parameters = format!("nbd={}&control={}", socket("nbd").display(), socket("control").display());

    let connection = open("served", &parameters);
    set_journal_mode(&connection, "wal");
    churn(&connection, 7, 200);
    checkpoint(&connection);
    let found = stats(&connection);
    assert!(count(&found, "vfs", "remaps") > 100);
    assert_eq!(count(&found, "device", "bound_pages_by_remap"), count(&found, "vfs", "remaps"));
    assert!(try_open("again", &parameters).is_err(), "a device has one database");
    drop(connection);
    let connection = open("served", &parameters);
    require_integrity(&connection);
    assert_eq!(rows(&connection), expected_rows(200));
    drop(connection);
    let mut device = server.stop().expect("the engine is sound").into_live_device();
    device.check().expect("every law holds");
}

/// Without a write-ahead log, a transaction over several databases needs a super-journal, which cannot be stored on a
/// device.
#[test]
fn transactions_over_attached_databases_need_the_write_ahead_log_mode() {
    let folder = tempfile::tempdir().expect("there is room for a folder");
    let connection = open("main", "memory=on&size=32MiB");
    let other = format!("file:{}?vfs=unix", folder.path().join("other.db").display());
    connection.execute("attach ?1 as other", [other]).expect("it can be made");
    let work = "create table if not exists main.t(x); create table if not exists other.t(x);
        begin; insert into main.t values(1); insert into other.t values(1); commit";
    assert!(connection.execute_batch(work).is_err());
    // SQLite may have rolled back already.
    let _ = connection.execute_batch("rollback");
    set_journal_mode(&connection, "wal");
    connection.execute_batch(work).expect("a log needs no super-journal");
}
