//! `SQLite` filled as `db_bench` does, on designs side by side, with checkpoints by writes and by remaps.
//!
//! ```text
//! cargo run --release -p wearwell-sqlite --example fills [-- SCALE [WORKLOAD...]]
//! ```
//!
//! Every workload runs on each design with the same seed, on a device that database and log fill to three quarters;
//! afterwards the database is checked (`integrity_check`) and compared row by row with that of the first run. `SCALE`
//! 0.1 writes a tenth of the rows.
//!
//! Settings of the Remap-SSD paper and of `db_bench_sqlite3`: pages of 4 KiB, `synchronous=NORMAL`, one table with a
//! 16-byte key and a value that is half random, `REPLACE` by prepared statement, `locking_mode=exclusive`, checkpoints
//! every 1000 pages.

use std::collections::BTreeMap;
use std::time::Instant;

use rand::{Rng as _, SeedableRng as _};
use rand_xoshiro::Xoshiro256PlusPlus;
use rusqlite::{Connection, OpenFlags, ffi};
use serde_json::Value;
use wearwell_replay::report::with_thousands_separators;

/// Seed of the random keys and values.
const SEED: u64 = 1;
/// Number of bytes in a mebibyte.
const MIB: u64 = 1 << 20;

/// A workload of `db_bench`: how a table is filled.
struct Workload {
    /// Name of the workload.
    name: &'static str,
    /// Whether keys are written in random order; otherwise in ascending order.
    is_random: bool,
    /// Number of rows that are written at scale 1.
    row_count: u64,
    /// Size of each value, bytes.
    value_bytes: usize,
    /// Number of rows per transaction.
    rows_per_transaction: u64,
}

/// All workloads of the comparison.
const WORKLOADS: [Workload; 8] = [
    Workload {
        name: "fillseq-100",
        is_random: false,
        row_count: 100_000,
        value_bytes: 100,
        rows_per_transaction: 1,
    },
    Workload {
        name: "fillseq-100-batch",
        is_random: false,
        row_count: 100_000,
        value_bytes: 100,
        rows_per_transaction: 100,
    },
    Workload {
        name: "fillseq-4000",
        is_random: false,
        row_count: 20_000,
        value_bytes: 4000,
        rows_per_transaction: 1,
    },
    Workload {
        name: "fillseq-16k",
        is_random: false,
        row_count: 15_000,
        value_bytes: 16_384,
        rows_per_transaction: 1,
    },
    Workload {
        name: "fillrandom-100",
        is_random: true,
        row_count: 100_000,
        value_bytes: 100,
        rows_per_transaction: 1,
    },
    Workload {
        name: "fillrandom-100-batch",
        is_random: true,
        row_count: 100_000,
        value_bytes: 100,
        rows_per_transaction: 100,
    },
    Workload {
        name: "fillrandom-4000",
        is_random: true,
        row_count: 20_000,
        value_bytes: 4000,
        rows_per_transaction: 1,
    },
    Workload {
        name: "fillrandom-16k",
        is_random: true,
        row_count: 16_000,
        value_bytes: 16_384,
        rows_per_transaction: 1,
    },
];

/// A configuration of the drive: a design, and how the database uses it.
struct Device {
    /// Name of the configuration in the printed table.
    name: &'static str,
    /// URI parameters of the database that select the configuration.
    parameters: &'static str,
}

/// Configurations of the comparison. The first is the baseline of the others. The design `remap` can also deduplicate
/// without remap commands of the host. The rows that show the gain of host remaps switch this off
/// (`remap.dedup=false`).
const DEVICES: [Device; 6] = [
    Device { name: "remap, remap=off", parameters: "design=remap&set=remap.dedup=false&remap=off" },
    Device { name: "remap, remap=on", parameters: "design=remap&set=remap.dedup=false&remap=on" },
    Device {
        name: "remap, remap=on, NVRAM without end",
        parameters: "design=remap&set=remap.dedup=false,remap.reverse_map=ideal&remap=on",
    },
    Device { name: "remap with dedup, remap=off", parameters: "design=remap&remap=off" },
    Device { name: "page-map", parameters: "design=page-map&remap=off" },
    Device { name: "delta", parameters: "design=delta&remap=off" },
];

/// Registers Wearwell's VFS with `SQLite` for all later connections of this process.
fn register_vfs() {
    /// Type of an extension's entry point as `SQLite` expects it.
    type EntryPoint = unsafe extern "C" fn(
        *mut ffi::sqlite3,
        *mut *mut std::ffi::c_char,
        *const ffi::sqlite3_api_routines,
    ) -> std::ffi::c_int;
    let entry = wearwell_sqlite::initialise_as_auto_extension as *const ();
    // SAFETY: this is the entry point of an extension.
    let entry: EntryPoint = unsafe { std::mem::transmute(entry) };
    // SAFETY: as above.
    assert_eq!(unsafe { ffi::sqlite3_auto_extension(Some(entry)) }, ffi::SQLITE_OK);
    drop(Connection::open_in_memory());
}

/// Creates a database of this name on a new device in memory, which gets the parameters of `device`.
fn open(name: &str, device: &Device, size_bytes: u64) -> rusqlite::Result<Connection> {
    let uri = format!("file:{name}?vfs=wearwell&memory=on&size={size_bytes}&{}", device.parameters);
    let flags =
        OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE | OpenFlags::SQLITE_OPEN_URI;
    let connection = Connection::open_with_flags(uri, flags)?;
    connection.execute_batch(
        "pragma page_size=4096; pragma locking_mode=exclusive; pragma journal_mode=wal; pragma synchronous=normal;
         pragma wal_autocheckpoint=1000; create table test(key blob, value blob, primary key(key))",
    )?;
    Ok(connection)
}

impl Workload {
    /// Fills the table with `row_count` rows, whose keys and values are drawn from the seed, and makes a checkpoint.
    fn fill(&self, connection: &Connection, row_count: u64) -> rusqlite::Result<()> {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(SEED);
        let mut statement = connection.prepare("replace into test(key, value) values(?1, ?2)")?;
        for k in 0..row_count {
            if self.rows_per_transaction > 1 && k % self.rows_per_transaction == 0 {
                connection.execute_batch("begin")?;
            }
            let key = if self.is_random { random.next_u64() % row_count } else { k };
            statement.execute((
                format!("{key:016}").as_bytes(),
                random_row_value(&mut random, self.value_bytes),
            ))?;
            if self.rows_per_transaction > 1
                && (k % self.rows_per_transaction == self.rows_per_transaction - 1 || k == row_count - 1)
            {
                connection.execute_batch("commit")?;
            }
        }
        connection.query_row("pragma wal_checkpoint(full)", [], |_| Ok(()))
    }
}

/// Draws a value of `bytes` bytes. Its second half repeats the first, because values of `db_bench` compress to one
/// half.
fn random_row_value(random: &mut Xoshiro256PlusPlus, bytes: usize) -> Vec<u8> {
    let mut half = vec![0; bytes.div_ceil(2)];
    random.fill_bytes(&mut half);
    half.iter().chain(&half).copied().take(bytes).collect()
}

/// Returns the number that a pragma of `SQLite` answers.
fn number(connection: &Connection, pragma: &str) -> rusqlite::Result<u64> {
    let number: i64 = connection.query_row(&format!("pragma {pragma}"), [], |row| row.get(0))?;
    Ok(number.cast_unsigned())
}

/// Returns the counters of the database's files and its device, as JSON.
fn stats(connection: &Connection) -> rusqlite::Result<Value> {
    let text: String = connection.query_row("pragma wearwell_stats", [], |row| row.get(0))?;
    Ok(serde_json::from_str(&text).expect("the VFS answers in JSON"))
}

/// Whether two databases hold the same rows; compares each row.
fn same_rows(a: &Connection, b: &Connection) -> rusqlite::Result<bool> {
    let query = "select key, value from test order by key";
    let (mut a, mut b) = (a.prepare(query)?, b.prepare(query)?);
    let (mut a, mut b) = (a.query([])?, b.query([])?);
    loop {
        match (a.next()?, b.next()?) {
            (None, None) => return Ok(true),
            (Some(a), Some(b)) => {
                for column in 0..2 {
                    if a.get_ref(column)? != b.get_ref(column)? {
                        return Ok(false);
                    }
                }
            }
            _ => return Ok(false),
        }
    }
}

/// Returns the size, in bytes, of a device that database and log fill to three quarters, about as in the Remap-SSD
/// paper. The sizes of database and log are measured on a larger device.
fn device_bytes_for(workload: &Workload, row_count: u64) -> rusqlite::Result<u64> {
    let raw_bytes = row_count * (workload.value_bytes as u64 + 100);
    let connection = open("sizing", &DEVICES[0], (4 * raw_bytes + 64 * MIB).next_multiple_of(MIB))?;
    workload.fill(&connection, row_count)?;
    let database_bytes = number(&connection, "page_count")? * number(&connection, "page_size")?;
    // A log of 1000 pages and what one transaction adds.
    let log_bytes = 5 * MIB;
    Ok(((database_bytes + log_bytes) * 4 / 3).next_multiple_of(MIB))
}

/// Formats a number with thousands separators.
fn format_count(number: u64) -> String {
    with_thousands_separators(number as f64, 0)
}

/// Formats the numbers of programs by cause, without causes that have none.
fn format_programs_by_cause(programs: &Value) -> String {
    let causes: BTreeMap<&str, u64> = programs
        .as_object()
        .into_iter()
        .flatten()
        .filter_map(|(cause, programs)| {
            Some((cause.as_str(), programs.as_u64().filter(|&programs| programs > 0)?))
        })
        .collect();
    let shown: Vec<String> =
        causes.iter().map(|(cause, &programs)| format!("{cause} {}", format_count(programs))).collect();
    shown.join(", ")
}

/// Runs a workload on all configurations and prints one row of the table for each.
fn run(workload: &Workload, scale: f64) -> rusqlite::Result<()> {
    let row_count = ((workload.row_count as f64 * scale) as u64).max(100);
    let size_bytes = device_bytes_for(workload, row_count)?;
    let mut first: Option<(Connection, u64)> = None;
    for device in &DEVICES {
        let started = Instant::now();
        let name = format!("{}-{}", workload.name, device.name.replace([' ', ',', '='], "-"));
        let connection = open(&name, device, size_bytes)?;
        workload.fill(&connection, row_count)?;
        let stats = stats(&connection)?;
        let seconds = started.elapsed().as_secs_f64();
        let of_device = |name: &str| stats["device"][name].as_u64().unwrap_or(0);
        let programs = of_device("programs");
        let integrity: String = connection.query_row("pragma integrity_check", [], |row| row.get(0))?;
        assert_eq!(integrity, "ok", "{name}");
        let baseline = first.as_ref().map_or(programs, |&(_, programs)| programs);
        println!(
            "| {} | {} MiB | {} | {} | {} | {} | {} | {} | {} | {:+.1} % |",
            workload.name,
            size_bytes / MIB,
            device.name,
            format_count(of_device("host_page_writes")),
            format_count(stats["vfs"]["checkpoint_copies"].as_u64().unwrap_or(0)),
            format_count(of_device("bound_pages_by_remap")),
            format_count(programs),
            format_programs_by_cause(&stats["device"]["programs_by_cause"]),
            format_count(of_device("erases")),
            100.0 * (programs as f64 / baseline as f64 - 1.0),
        );
        eprintln!("{name}: {seconds:.1} s");
        match &first {
            None => first = Some((connection, programs)),
            Some((reference, _)) => assert!(same_rows(reference, &connection)?, "{name}: other rows"),
        }
    }
    Ok(())
}

/// Runs the workloads that the command line names (all by default), and prints the results as a table.
fn main() -> rusqlite::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let scale = arguments.first().map_or(1.0, |text| text.parse().expect("SCALE is a number, such as 0.1"));
    let wanted = &arguments[arguments.len().min(1)..];
    register_vfs();
    println!(
        "SQLite {}, {scale} times the rows of each workload, seed {SEED}. Every database passed integrity_check, and its rows equal those of the baseline.\n",
        rusqlite::version()
    );
    println!(
        "| workload | device | design and settings | host page writes | checkpoint copies | remapped pages | flash programs | programs by cause | erases | programs against the baseline |"
    );
    println!("|---|---|---|---:|---:|---:|---:|---|---:|---:|");
    for workload in WORKLOADS
        .iter()
        .filter(|workload| wanted.is_empty() || wanted.iter().any(|name| name == workload.name))
    {
        run(workload, scale)?;
    }
    Ok(())
}
