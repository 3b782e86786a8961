//! Tests that a database whose name or parameters are contradictory is refused with a reason, and that the refusal
//! changes nothing.

use std::path::Path;
use std::process::Command;

use common::{churn, image_uri_parameters, open, require_integrity, rows, try_open};
use wearwell_serve::image::layout::{ImageHeader, SessionRecord};
use wearwell_serve::image::{Durability, Image, ImageOpenOptions};

use crate::common;

/// Environment variable with the list of databases that the child process opens, one per line.
const DATABASE_LIST_ENVIRONMENT_VARIABLE: &str = "WEARWELL_SQLITE_REFUSED_URIS";

/// Runs as the child process that `message_about_refused_last_database` starts: opens the databases of a list, which
/// has name and parameters of one database per line. Only the last one must be refused. Without the list it does
/// nothing.
#[test]
fn the_child_process_opens_databases_and_keeps_them_open() {
    let Ok(databases) = std::env::var(DATABASE_LIST_ENVIRONMENT_VARIABLE) else { return };
    let opened = databases.lines().map(|line| {
        let (name, parameters) = line.split_once(' ').expect("name and parameters");
        try_open(name, parameters)
    });
    let opened: Vec<_> = opened.collect();
    assert!(opened.iter().rev().skip(1).all(Result::is_ok), "only the last one is to be refused");
    assert!(opened.last().expect("there is one").is_err(), "the last one is to be refused");
}

/// Opens databases (pairs of name and parameters) in a child process; the last one must be refused. Returns the text
/// that the child process wrote to standard error.
fn message_about_refused_last_database(databases: &[(&str, &str)]) -> String {
    let lines: Vec<String> =
        databases.iter().map(|(name, parameters)| format!("{name} {parameters}")).collect();
    let output = Command::new(std::env::current_exe().expect("a test knows where it is"))
        .args(["--exact", "refusal::the_child_process_opens_databases_and_keeps_them_open", "--nocapture"])
        .env(DATABASE_LIST_ENVIRONMENT_VARIABLE, lines.join("\n"))
        .output()
        .expect("it can be started");
    let message = String::from_utf8(output.stderr).expect("it is text");
    assert!(output.status.success(), "{databases:?}: {message}");
    message
}

/// Checks that a database is refused, and that the message on standard error contains `part`.
fn require_refusal(name: &str, parameters: &str, part: &str) {
    let message = message_about_refused_last_database(&[(name, parameters)]);
    assert!(message.contains(part), "{name} with {parameters}: {message}");
}

/// Returns the durability mode of the last session of an image.
fn session_durability(directory: &Path) -> Durability {
    let file = |name: &str| std::fs::read(directory.join(name)).expect("it is a file of the image");
    let image_header = ImageHeader::decode(&file("superblock")).expect("it is whole");
    let session = file("session");
    let record = session.first_chunk().expect("it holds a record");
    SessionRecord::decode(record, image_header.checksum_salt).expect("it is whole").durability
}

/// Regression: a name that is not UTF-8 was read as an empty text. The deletion of the journal with an empty name
/// erased the database.
#[test]
fn a_database_name_that_is_not_utf_8_is_refused() {
    require_refusal("%FF", "memory=on&size=32MiB", "is not UTF-8");
}

/// Regression: the URI parameter for the durability mode was ignored if the image existed.
#[test]
fn a_durability_in_the_uri_applies_to_one_session_of_an_existing_image() {
    let folder = tempfile::tempdir().expect("there is room for a folder");
    let directory = folder.path().join("image");
    let parameters = |more: &str| image_uri_parameters(folder.path(), more);
    let durability = |more: &str| {
        let connection = open("durable", &parameters(more));
        let found = session_durability(&directory);
        drop(connection);
        found
    };
    assert_eq!(durability(""), Durability::Process);
    assert_eq!(durability("&durability=host"), Durability::Host);
    assert_eq!(durability(""), Durability::Process, "the image keeps its own");
    let created = folder.path().join("host");
    let of_host = format!("image={}&size=64MiB&durability=host", created.display());
    drop(open("durable", &of_host));
    drop(open("durable", &format!("image={}", created.display())));
    assert_eq!(session_durability(&created), Durability::Host, "it was created with it");
}

/// Regression: `SQLite` reported "unable to open database file", and no message stated the reason.
#[test]
fn a_database_name_that_is_too_long_is_refused_with_its_length() {
    require_refusal(&"x".repeat(2000), "memory=on&size=32MiB", "has 2000 bytes, and may have at most 1016");
}

/// Regression: URI parameters that contradict the image were ignored.
#[test]
fn an_existing_image_is_opened_only_by_a_uri_that_describes_it() {
    let folder = tempfile::tempdir().expect("there is room for a folder");
    let place = format!("image={}", folder.path().join("image").display());
    let created = "&size=64MiB&design=delta&set=gc.policy=fifo,remap.verify_on_hit=false,device.preset=auto";
    let connection = open("described", &format!("{place}{created}"));
    churn(&connection, 7, 20);
    let expected = rows(&connection);
    drop(connection);
    let agreeing = [
        created,
        "",
        "&size=67108864",
        "&design=delta",
        "&set=gc.policy=fifo",
        "&set=device.page_bytes=4096",
    ];
    for more in agreeing {
        assert_eq!(rows(&open("described", &format!("{place}{more}"))), expected, "{more}");
    }
    for (more, part) in [
        ("&size=32MiB", "because the image has size=67108864"),
        ("&design=remap", "because the image was made with design=delta"),
        ("&set=gc.policy=greedy", "because the image was made without `gc.policy=greedy`"),
        ("&size=64MiB&set=gc.policy=fifo,device.pages_per_block=32", "without `device.pages_per_block=32`"),
    ] {
        require_refusal("described", &format!("{place}{more}"), part);
    }
    let image = Image::open(&folder.path().join("image"), ImageOpenOptions::default()).expect("it is sound");
    assert_eq!(image.report.unsafe_shutdowns, 0, "refusals close the image");
    image.close().expect("it can be closed");
    assert_eq!(rows(&open("described", &place)), expected);
}

/// Regression: misspelled URI parameters, and those that have no effect on the device, were ignored.
#[test]
fn unknown_and_ineffective_uri_parameters_are_refused() {
    for (parameters, part) in [
        ("memory=on&size=32MiB&durabilty=host", "did you mean `durability`?"),
        ("memory=on&size=32MiB&imag=x", "did you mean `image`?"),
        ("memory=on&size=32MiB&size=64MiB", "size= is given twice"),
        ("memory=on&size=32MiB&durability=forever", "durability= is `forever`: give process or host"),
        ("memory=on&size=32MiB&durability=host", "durability= has no effect"),
        ("nbd=/nowhere&control=/nowhere&size=32MiB", "size= has no effect"),
        ("memory=on", "add size=, such as size=256MiB"),
        ("memory=on&size=32MiB&set=parts.content=dedup,recycle", "the names of a list by +"),
        ("image=/nowhere", "add size=, such as size=256MiB, which creates the image"),
        ("image=&size=32MiB", "image= is empty"),
        ("image=/nowhere/%FF&size=32MiB", "is not UTF-8"),
        ("", "or vfs=unix for a database that is a file"),
    ] {
        require_refusal("misspelled", parameters, part);
    }
    let of_sqlite =
        "memory=on&size=32MiB&mode=rwc&cache=private&psow=1&nolock=0&immutable=0&modeof=x&8_3_names=0";
    drop(open("spelled", of_sqlite));
}

/// Regression: a refused open left a new image behind, so that the corrected URI was refused, too. No reason was
/// printed.
#[test]
fn a_refused_open_creates_no_image() {
    let folder = tempfile::tempdir().expect("there is room for a folder");
    let directory = folder.path().join("image");
    for (more, part) in [
        ("&mode=ro", "may not create it"),
        ("&mode=rw", "may not create it"),
        ("&set=device.page_bytes=2048", "cannot hold a database"),
        ("&set=device.page_bytes=3000", "page"),
        ("&design=unknown", "unknown"),
    ] {
        require_refusal("new", &image_uri_parameters(folder.path(), more), part);
        assert!(!directory.exists(), "{more}");
    }
    churn(&open("new", &image_uri_parameters(folder.path(), "")), 7, 5);
    for mode in ["ro", "rw"] {
        require_integrity(&open("new", &image_uri_parameters(folder.path(), &format!("&mode={mode}"))));
        require_refusal("new", &format!("memory=on&size=32MiB&mode={mode}"), "may not create it");
    }
}

/// Regression: the message about an image that cannot be opened did not contain the path of the image.
#[test]
fn a_refused_image_is_named_in_the_message() {
    let folder = tempfile::tempdir().expect("there is room for a folder");
    let directory = folder.path().join("image");
    drop(open("damaged", &image_uri_parameters(folder.path(), "")));
    for file in ["superblock", "mirror"] {
        let mut bytes = std::fs::read(directory.join(file)).expect("it is a file of the image");
        bytes[20] ^= 1;
        std::fs::write(directory.join(file), bytes).expect("it can be written");
    }
    let said =
        format!("{}: the image is damaged: one of the two copies of the superblock", directory.display());
    require_refusal("damaged", &image_uri_parameters(folder.path(), ""), &said);
}

/// Regression: the message told the user to stop another process, although the image is open in this process.
#[test]
fn opening_an_image_under_a_second_name_is_refused_with_the_name_in_use() {
    let folder = tempfile::tempdir().expect("there is room for a folder");
    let parameters = image_uri_parameters(folder.path(), "");
    let message = message_about_refused_last_database(&[("once", &parameters), ("twice", &parameters)]);
    assert!(message.contains("already open in this process as database once"), "{message}");
    let connection = open("once", &parameters);
    let message = message_about_refused_last_database(&[("once", &parameters)]);
    assert!(message.contains("in use by another process"), "{message}");
    drop(connection);
}

/// Environment variable that tells the child process which database operation, one that must fail, to execute.
const FAILING_WORK_ENVIRONMENT_VARIABLE: &str = "WEARWELL_SQLITE_FAILING_WORK";

/// Runs as the child process that `the_reason_of_a_failed_request_is_printed_once` starts: executes the database
/// operation that an environment variable names, which fails. Without the variable it does nothing.
#[test]
fn the_child_process_does_work_that_fails() {
    match std::env::var(FAILING_WORK_ENVIRONMENT_VARIABLE).as_deref() {
        Ok("full") => {
            let connection = open("full", "memory=on&size=4MiB");
            connection.execute_batch("create table t(body blob)").expect("it is new");
            let mut insert = connection.prepare("insert into t values(zeroblob(20000))").expect("it is SQL");
            while insert.execute([]).is_ok() {}
            for _ in 0..5 {
                insert.execute([]).expect_err("the device is still full");
            }
        }
        Ok("attached") => {
            let connection = open("main", "memory=on&size=32MiB");
            let other = "file:other?vfs=wearwell&memory=on&size=32MiB";
            connection.execute("attach ?1 as other", [other]).expect("it is another device");
            let work = "create table main.t(x); create table other.t(x);
                begin; insert into main.t values(1); insert into other.t values(1); commit";
            connection.execute_batch(work).expect_err("there is no super-journal");
            // The advice of the message.
            // SQLite may have rolled back already.
            let _ = connection.execute_batch("rollback");
            connection.execute_batch("pragma journal_mode=wal").expect("a log is possible");
            connection
                .execute_batch("begin; insert into main.t values(1); insert into other.t values(1); commit")
                .expect("a log needs no super-journal");
        }
        _ => {}
    }
}

/// Regression: `SQLite` reported "database or disk is full" and "unable to open database file", and no message stated
/// the reason.
#[test]
fn the_reason_of_a_failed_request_is_printed_once() {
    for (work, part) in [
        ("full", "wearwell: the device is full (extents, which are runs of pages: "),
        (
            "attached",
            "wearwell: a transaction over several databases with rollback journals needs a super-journal",
        ),
    ] {
        let output = Command::new(std::env::current_exe().expect("a test knows where it is"))
            .args(["--exact", "refusal::the_child_process_does_work_that_fails", "--nocapture"])
            .env(FAILING_WORK_ENVIRONMENT_VARIABLE, work)
            .output()
            .expect("it can be started");
        let message = String::from_utf8(output.stderr).expect("it is text");
        assert!(output.status.success(), "{work}: {message}");
        assert_eq!(message.matches(part).count(), 1, "{work}: {message}");
    }
}
