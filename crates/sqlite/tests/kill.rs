//! Tests of `kill -9` of a process in the middle of its transactions, on a database that is stored in an image.
//!
//! A child (this program again) replaces and deletes rows in numbered transactions and tells the number of every one
//! that `SQLite` acknowledged. It is killed at a random instant; the parent opens the database and compares all of it
//! with an exact model: a map to which the transactions up to the stored number were applied. With `synchronous=FULL`
//! that number is at least the last one acknowledged; with NORMAL some may be missing at the end, but none in the
//! middle.
//!
//! A few kills run in every test run; `WEARWELL_KILL_CYCLES=100 cargo test --release -p wearwell-sqlite kill:: --
//! --nocapture` runs more of each mode, `WEARWELL_KILL_SEED` chooses others, `WEARWELL_KILL_DESIGN` the design.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use common::{Random, open, require_integrity};
use rusqlite::Connection;
use wearwell_config::Config;
use wearwell_serve::image::{self, Durability, ImageSpecification};

use crate::common;

/// Number of different keys of the rows that transactions change.
const ROW_SLOTS: u64 = 300;
/// Environment variable with the arguments of the child process.
const CHILD_ARGUMENTS_VARIABLE: &str = "WEARWELL_SQLITE_CHILD";

/// Configuration of a device so small that garbage collection and checkpoints of the write-ahead log run all the time.
const SETTINGS: [&str; 7] = [
    "device.channels=1",
    "device.dies_per_channel=1",
    "device.planes_per_die=2",
    "device.blocks_per_plane=48",
    "device.pages_per_block=16",
    "device.spare_bytes=64",
    "device.logical_pages=1100",
];

/// Expected rows of the database: the body of each row by its key.
type Model = BTreeMap<i64, Vec<u8>>;

/// Returns the changes of transaction `number`: for each slot (row) its new body, or `None` if the row is deleted.
fn row_changes_of_transaction(number: u64) -> Vec<(i64, Option<Vec<u8>>)> {
    let mut random = Random::new(number);
    (0..=random.below(6))
        .map(|_| {
            let slot = random.below(ROW_SLOTS).cast_signed();
            let len = 10 + random.below(3000) as usize;
            (slot, (random.below(8) > 0).then(|| random.bytes(len)))
        })
        .collect()
}

/// Applies the changes of transaction `number` to the model.
fn apply_transaction_to_model(model: &mut Model, number: u64) {
    for (slot, body) in row_changes_of_transaction(number) {
        match body {
            Some(body) => model.insert(slot, body),
            None => model.remove(&slot),
        };
    }
}

/// Returns the number of the last transaction that the database holds.
fn last_committed_transaction(connection: &Connection) -> u64 {
    let exists: bool = connection
        .query_row("select count(*) from sqlite_master where name = 'last'", [], |row| row.get(0))
        .expect("it is readable");
    // The first kill may come before the tables.
    if !exists {
        return 0;
    }
    let number: i64 =
        connection.query_row("select number from last", [], |row| row.get(0)).expect("it has a row");
    number.cast_unsigned()
}

/// Returns all rows of the database.
fn read_rows(connection: &Connection) -> Model {
    if last_committed_transaction(connection) == 0 {
        return Model::new();
    }
    let mut statement = connection.prepare("select slot, body from t").expect("there is a table");
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).expect("it is readable");
    rows.map(|row| row.expect("it is readable")).collect()
}

/// Runs as the child process of the other tests. Without the environment variable it does nothing.
#[test]
fn the_child_process_commits_transactions_until_it_is_killed() {
    let Ok(arguments) = std::env::var(CHILD_ARGUMENTS_VARIABLE) else { return };
    let [parameters, journal, synchronous] =
        arguments.split(' ').collect::<Vec<_>>().try_into().expect("three arguments");
    let connection = open("killed", parameters);
    common::set_journal_mode(&connection, journal);
    let set_up = format!(
        "pragma synchronous={synchronous}; begin immediate;
         create table if not exists last(number integer);
         create table if not exists t(slot integer primary key, body blob);
         insert into last select 0 where not exists (select * from last); commit"
    );
    connection.execute_batch(&set_up).expect("there is room");
    let _ = connection.query_row("pragma wal_autocheckpoint=60", [], |_| Ok(()));
    let mut output = std::io::stdout();
    for number in last_committed_transaction(&connection) + 1.. {
        connection.execute_batch("begin immediate").expect("nobody else writes");
        for (slot, body) in row_changes_of_transaction(number) {
            match body {
                Some(body) => connection.execute("replace into t values(?1, ?2)", (slot, body)),
                None => connection.execute("delete from t where slot = ?1", [slot]),
            }
            .expect("there is room");
        }
        connection.execute("update last set number = ?1", [number.cast_signed()]).expect("there is room");
        connection.execute_batch("commit").expect("nobody else writes");
        // One write, so that a line is whole or missing.
        output.write_all(format!("acknowledged {number}\n").as_bytes()).expect("the parent listens");
    }
}

/// Runs the child process and kills it after `lifetime`. Returns the number of the last transaction that it reported as
/// committed.
fn run_and_kill(arguments: &str, lifetime: Duration) -> u64 {
    let mut child = Command::new(std::env::current_exe().expect("a test knows where it is"))
        .args([
            "--exact",
            "kill::the_child_process_commits_transactions_until_it_is_killed",
            "--nocapture",
            "--test-threads=1",
        ])
        .env(CHILD_ARGUMENTS_VARIABLE, arguments)
        .stdout(Stdio::piped())
        .spawn()
        .expect("it can be started");
    let output = BufReader::new(child.stdout.take().expect("it is a pipe"));
    let listener = std::thread::spawn(move || {
        let lines = output.lines().map_while(Result::ok);
        let numbers = lines.filter_map(|line| line.split_once("acknowledged ")?.1.parse().ok());
        numbers.last().unwrap_or(0)
    });
    std::thread::sleep(lifetime);
    let ended = child.try_wait().expect("it is our child");
    assert!(ended.is_none(), "it ended by itself: {ended:?}");
    child.kill().expect("it still runs");
    child.wait().expect("it is our child");
    listener.join().expect("lines are read until the end")
}

/// Returns the number in the environment variable `name`, or `default`.
fn environment(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().expect("it is a number"))
}

/// Creates the database in an image in `directory`.
fn create_image(directory: &Path) {
    let settings: Vec<String> = SETTINGS.iter().map(|&setting| setting.to_owned()).collect();
    let specification = ImageSpecification {
        design: std::env::var("WEARWELL_KILL_DESIGN").unwrap_or_else(|_| "remap".into()),
        config: Config::from_text_and_settings(None, &settings).expect("the settings are valid"),
        size_bytes: None,
        durability: Durability::Process,
    };
    image::create(directory, &specification).expect("the folder is empty");
}

/// Repeats cycles of running the child process, killing it and comparing the database with the model, in this journal
/// mode and with this setting of `synchronous`.
fn run_kill_cycles(journal: &str, synchronous: &str) {
    let folder = tempfile::tempdir().expect("there is room for a folder");
    let directory = folder.path().join("image");
    create_image(&directory);
    let parameters = format!("image={}", directory.display());
    let cycles = environment("WEARWELL_KILL_CYCLES", 4);
    let mut random = Random::new(environment("WEARWELL_KILL_SEED", 1));
    let (mut model, mut applied, mut all, mut lost) = (Model::new(), 0, 0, 0);
    for cycle in 1..=cycles {
        let lifetime = Duration::from_millis(20 + random.below(500));
        let told = run_and_kill(&format!("{parameters} {journal} {synchronous}"), lifetime);
        let connection = open(&format!("{journal}-{synchronous}"), &parameters);
        require_integrity(&connection);
        let last = last_committed_transaction(&connection);
        let place = format!("{journal}, synchronous={synchronous}, kill {cycle}: {told} told, {last} stored");
        assert!(last >= applied, "{place}: {applied} were there before");
        assert!(synchronous != "full" || last >= told, "{place}");
        lost += told.saturating_sub(last);
        (applied + 1..=last).for_each(|number| apply_transaction_to_model(&mut model, number));
        all += model.len();
        assert!(read_rows(&connection) == model, "{place}: other rows than those of the transactions");
        applied = last;
    }
    println!(
        "{journal}, synchronous={synchronous}: {cycles} kills, {applied} transactions stored, {all} rows compared, {lost} \
         acknowledged ones lost"
    );
    assert!(applied > 0, "nothing was committed");
}

#[test]
fn acknowledged_transactions_in_wal_mode_survive_kill_9() {
    run_kill_cycles("wal", "full");
}

#[test]
fn acknowledged_transactions_with_a_rollback_journal_survive_kill_9() {
    run_kill_cycles("delete", "full");
}

/// Without a sync at each commit, the last transactions may be lost, but no earlier one.
#[test]
fn wal_mode_without_syncs_keeps_a_prefix_of_transactions_after_kill_9() {
    run_kill_cycles("wal", "normal");
}
