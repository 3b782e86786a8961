//! Tests of `kill -9` at any instant: the exact oracle checks the contents of the image afterwards.
//!
//! The writer is this test's own executable, started again: it opens the image and works until it is killed. It tells
//! over a pipe what it is about to do and what it has done, so the oracle knows what was issued and what was
//! acknowledged.
//!
//! `WEARWELL_KILL_CYCLES=430` kills it so often for each design, `WEARWELL_KILL_DESIGNS=wearwell,mixture-flat` chooses
//! the designs.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use image_support::{
    DESIGNS, Op, Oracle, PROCESS_DURABILITY, RandomHostOperations, execute_deferred_writes, perform,
    with_settings,
};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use wearwell_serve::image::{AuditVerdict, Image, audit, create};

use crate::image_support;

/// Environment variable with the path of the image for the writer process.
const IMAGE_PATH_VARIABLE: &str = "WEARWELL_TEST_IMAGE";
/// Environment variable with the seed of the writer process.
const SEED_VARIABLE: &str = "WEARWELL_TEST_SEED";
/// Number of logical pages of the image.
const PAGES: u64 = 200;

/// Designs combined from parts that keep their map in NVRAM, each with its name, design and settings. The first keeps
/// its whole map in NVRAM. The second keeps there only the entries that are newer than those on flash, and keeps page
/// validity on flash as well.
const MIXTURES: [(&str, &str, &[&str]); 2] = [
    ("mixture-flat", "page-map", &["parts.content=recycle+dedup+delta"]),
    (
        "mixture-cached",
        "dftl",
        &["parts.content=dedup+compress", "parts.validity=log", "mapping.cache_entries=32"],
    ),
];

/// Returns name, design and settings of each configuration whose writer process is to be killed.
fn designs_for_kill_tests() -> impl Iterator<Item = (&'static str, &'static str, &'static [&'static str])> {
    let wanted = std::env::var("WEARWELL_KILL_DESIGNS").ok();
    let is_wanted =
        move |name: &str| wanted.as_ref().is_none_or(|list| list.split(',').any(|one| one == name));
    let named = DESIGNS.map(|design| (design, design, &[][..])).into_iter();
    named.chain(MIXTURES).filter(move |(name, ..)| is_wanted(name))
}

/// Returns how often the writer is killed for each design: the value of `WEARWELL_KILL_CYCLES`, or 12.
fn kills_per_design() -> u64 {
    std::env::var("WEARWELL_KILL_CYCLES").ok().and_then(|cycles| cycles.parse().ok()).unwrap_or(12)
}

/// Runs as the writer process that `work_and_kill` starts: executes random host operations on the image until it is
/// killed, or until all operations are done.
#[test]
#[ignore = "the child process of the test below"]
fn the_child_process_writes_to_an_image_until_it_is_killed() {
    let path = std::env::var(IMAGE_PATH_VARIABLE).expect("the parent says which image");
    let seed = std::env::var(SEED_VARIABLE).expect("the parent says which seed").parse().expect("a number");
    let mut image = Image::open(Path::new(&path), PROCESS_DURABILITY).expect("nobody else uses it");
    let mut script = RandomHostOperations::new(seed, PAGES);
    let mut pipe = std::io::stderr();
    for _ in 0..2_000_000 {
        let op = script.draw();
        // One write of a line to a pipe arrives whole or not at all.
        pipe.write_all(b"i\n").expect("the parent listens");
        perform(&mut image.device, op).expect("there is room");
        execute_deferred_writes(&mut image.device);
        pipe.write_all(b"a\n").expect("the parent listens");
    }
}

/// Starts the writer process and kills it after the time `after`. Returns how many operations it issued, and how many
/// of them were acknowledged.
fn work_and_kill(path: &Path, seed: u64, after: Duration) -> (u64, u64) {
    let mut child = Command::new(std::env::current_exe().expect("this test has a file"))
        .args([
            "--ignored",
            "--exact",
            "image_kill::the_child_process_writes_to_an_image_until_it_is_killed",
            "--nocapture",
        ])
        .env(IMAGE_PATH_VARIABLE, path)
        .env(SEED_VARIABLE, seed.to_string())
        .stderr(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .expect("this test can be started again");
    let mut lines = BufReader::new(child.stderr.take().expect("it is piped")).lines();
    let first = lines.next().expect("the writer begins").expect("text");
    assert_eq!(first, "i", "the writer reports: {first}");
    let reader = std::thread::spawn(move || {
        let (mut issued, mut acknowledged) = (1, 0);
        for line in lines.map_while(Result::ok) {
            match line.as_str() {
                "i" => issued += 1,
                "a" => acknowledged += 1,
                other => panic!("the writer reports: {other}"),
            }
        }
        (issued, acknowledged)
    });
    std::thread::sleep(after);
    child.kill().expect("SIGKILL");
    child.wait().expect("it ends");
    reader.join().expect("the pipe ends with the writer")
}

#[test]
fn flushed_data_of_an_image_survives_kill_9_of_its_writer() {
    let (mut kills, mut pages, mut operations) = (0, 0, 0);
    let mut random = Xoshiro256PlusPlus::seed_from_u64(9);
    for (name, design, settings) in designs_for_kill_tests() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let path = directory.path().join("image");
        create(&path, &with_settings(design, 4096, settings)).expect("a new directory");
        let mut oracle = Oracle::new(PAGES);
        let before = operations;
        for cycle in 0..kills_per_design() {
            let seed = 1 + random.random_range(0..1000) + 1000 * cycle;
            let (issued, acknowledged) =
                work_and_kill(&path, seed, Duration::from_millis(random.random_range(5..120)));
            assert!(issued == acknowledged || issued == acknowledged + 1, "one operation at a time");
            let mut script = RandomHostOperations::new(seed, PAGES);
            for number in 0..issued {
                let op: Op = script.draw();
                oracle.record_sent_operation(op);
                if number < acknowledged {
                    oracle.acknowledge(op);
                }
            }
            operations += issued;
            let report = audit(&path).expect("an image");
            assert_eq!(
                (report.verdict, report.findings),
                (AuditVerdict::Unclean, vec![]),
                "{name} seed {seed}"
            );
            assert_eq!(report.torn_pages, 0, "the end of a process tears nothing");
            let mut image = Image::open(&path, PROCESS_DURABILITY).expect("the writer is dead");
            image.device.check().expect("the laws hold");
            assert_eq!(oracle.judge(&mut image.device), [], "{name} seed {seed} after {issued} operations");
            pages += PAGES;
            kills += 1;
            image.close().expect("the disk takes it");
            assert_eq!(audit(&path).expect("an image").verdict, AuditVerdict::Clean);
        }
        println!("{name}: {} kills, {} operations", kills_per_design(), operations - before);
    }
    println!("{kills} kills, {operations} operations, {pages} pages compared");
    assert!(operations > 100 * kills, "the writer works: {operations} operations in {kills} lives");
}
