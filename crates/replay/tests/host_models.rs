//! Tests of host models and substitutes of traces: a seed determines the requests, copies by remap and by writes leave
//! the same contents, counts equal those computed by hand, and a substitute has the published counts of its trace.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use common::{config_of_settings, run_input};
use wearwell::address::RemapMode;
use wearwell::data::Fingerprint;
use wearwell_replay::host_models::{HOST_MODEL_GRAMMAR, HostModelSpec, HostRequestGenerator};
use wearwell_replay::input::Input;
use wearwell_replay::workload::SpecError;
use wearwell_trace::{Op, Request};

use crate::common;

/// Small instances of every kind of host model and substitute.
const SMALL_MODELS: [&str; 21] = [
    "sqlite-wal:entries=2000",
    "f2fs-clean:segments=64,files=400,ops=800",
    "file-copy:files=60",
    "snapshot:pages=700,snapshots=3,overwrites=300",
    "fileserver:files=100,loops=300",
    "oltp:pages=2000,rounds=40",
    "ycsb:records=4000,updates=9000,checkpoint=2000",
    "predicted:pages=500,writes=4000",
    "fiu-homes:scale=0.002",
    "fiu-mail:scale=0.002",
    "fiu-web:scale=0.002",
    "f1:scale=0.002",
    "f2:scale=0.002",
    "c3:scale=0.002",
    "c8:scale=0.002",
    "dap:scale=0.002",
    "msn:scale=0.002",
    "delta-load:pages=4096,requests=20000",
    "wksn:scale=0.0005",
    "media:scale=0.0005",
    "dvmt:scale=0.0005",
];

/// Host models that can copy both by remap commands and by reads and writes.
const COPYING_MODELS: [&str; 6] = [
    "sqlite-wal:entries=3000",
    "sqlite-wal:entries=3000,order=sequential,value=9000,batch=7",
    "f2fs-clean:segments=64,files=400,ops=1500",
    "f2fs-clean:segments=64,files=400,ops=9000,load=ycsb",
    "file-copy:files=60,mean=300",
    "snapshot:pages=700,snapshots=3,overwrites=300",
];

/// Returns all requests of the host model that `spec` specifies.
fn requests_of(spec: &str) -> Vec<Request> {
    let spec: HostModelSpec = spec.parse().unwrap_or_else(|error| panic!("{spec}: {error}"));
    let mut generator = HostRequestGenerator::new(&spec);
    let mut request = Request::default();
    std::iter::from_fn(|| generator.next_request(&mut request).then(|| request.clone())).collect()
}

/// Returns the number of pages that the requests of a kind touch, each request counted by itself.
fn count_pages(requests: &[Request], is_kind: impl Fn(Op) -> bool) -> u64 {
    let pages = |request: &Request| request.pages().end - request.pages().start;
    requests.iter().filter(|request| is_kind(request.op)).map(pages).sum()
}

/// Returns the number of pages that write requests touch.
fn written_pages(requests: &[Request]) -> u64 {
    count_pages(requests, |op| op == Op::Write)
}

/// Returns the number of pages that remap requests give another content.
fn remapped_pages(requests: &[Request]) -> u64 {
    count_pages(requests, |op| matches!(op, Op::Remap(_)))
}

/// Contents of a device by page number, as a plain map; the model on which requests are executed.
#[derive(Default)]
struct ContentMap(BTreeMap<u64, Fingerprint>);

impl ContentMap {
    /// Executes a request on the map: sets, copies or removes the contents of its pages.
    fn execute_request(&mut self, request: &Request) {
        match request.op {
            Op::Write => {
                let contents = request.content.iter().map(|content| content.fingerprint);
                self.0.extend(request.pages().zip(contents));
            }
            Op::Trim => request.pages().for_each(|page| {
                self.0.remove(&page);
            }),
            Op::Remap(mode) => {
                let aside: Vec<_> = request.remap_source_pages().map(|page| self.0[&page]).collect();
                if mode == RemapMode::Relocate {
                    request.remap_source_pages().for_each(|page| {
                        self.0.remove(&page);
                    });
                }
                self.0.extend(request.pages().zip(aside));
            }
            Op::Read | Op::Flush | Op::PhaseMarker | Op::Zero => {}
        }
    }

    /// Returns the contents after these requests, on a device that was empty.
    fn after_requests(requests: &[Request]) -> Self {
        let mut volume = Self::default();
        for request in requests {
            volume.execute_request(request);
        }
        volume
    }
}

#[test]
fn the_list_of_small_host_models_contains_every_kind() {
    let named: Vec<&str> = SMALL_MODELS.iter().map(|spec| spec.split(':').next().unwrap()).collect();
    let kinds: Vec<&str> = HOST_MODEL_GRAMMAR.kinds.iter().map(|kind| kind.name).collect();
    assert_eq!(named, kinds);
}

#[test]
fn the_seed_determines_the_requests_of_a_host_model() {
    for spec in SMALL_MODELS {
        let requests = requests_of(spec);
        assert!(requests.len() > 100, "{spec}: {} requests", requests.len());
        assert_eq!(requests, requests_of(spec), "{spec}");
        assert_ne!(requests, requests_of(&format!("{spec},seed=2")), "{spec}");
    }
}

#[test]
fn a_printed_host_model_specification_parses_to_the_same_model() {
    for spec in
        SMALL_MODELS.iter().map(|spec| (*spec).to_owned()).chain(["f1:scale=0.002+dup:share=0.4".into()])
    {
        let parsed: HostModelSpec = spec.parse().unwrap();
        let printed = parsed.to_string();
        assert_eq!(printed.parse::<HostModelSpec>().unwrap(), parsed, "{printed}");
        assert_eq!(requests_of(&printed), requests_of(&spec));
        let kind = HOST_MODEL_GRAMMAR
            .kinds
            .iter()
            .find(|kind| printed.starts_with(&format!("{}:", kind.name)))
            .unwrap();
        assert!(kind.keys.iter().all(|key| printed.contains(&format!("{}=", key.name))), "{printed}");
    }
}

#[test]
fn wrong_host_model_specifications_are_refused() {
    let refused = |spec: &str| Input::of_generator_spec(spec).unwrap_err().to_string();
    assert!(refused("sqlite-wall:entries=5").contains("did you mean `sqlite-wal`"));
    assert!(refused("unifrom:pages=5").contains("did you mean `uniform`"));
    assert!(refused("sqlite-wal:entires=5").contains("did you mean `entries`"));
    assert!(refused("sqlite-wal:remap=off,mode=relocate").contains("it counts with remap=on only"));
    assert!(refused("f2fs-clean:theta=0.5").contains("`theta=0.5` has no effect on f2fs-clean"));
    assert!(refused("f2fs-clean:load=ycsb,append=8").contains("set load=fileserver"));
    assert!(
        Input::of_generator_spec("f2fs-clean:load=ycsb,append=4").is_ok(),
        "the default, as records print it"
    );
    for spec in [
        "sqlite-wal:order=backwards",
        "sqlite-wal:remap=yes",
        "sqlite-wal:entries=0",
        "f2fs-clean:segments=64,files=4000",
        "fiu-mail+dup:share=0.5",
        "c3:scale=2",
    ] {
        assert!(Input::of_generator_spec(spec).is_err(), "{spec}");
    }
    assert!(matches!("uniform".parse::<HostModelSpec>(), Err(SpecError::UnknownKind { .. })));
}

/// Requests are in order of time, cover whole pages, and writes have contents. No model reads, copies or remaps a page
/// that it has not written. Only `delta-load`, which is made for drives that were filled before, may read any of its
/// pages.
#[test]
fn host_models_issue_whole_page_requests_within_the_device() {
    for spec in SMALL_MODELS.iter().chain(&COPYING_MODELS) {
        let mut volume = ContentMap::default();
        let mut time_ns = 0;
        for request in requests_of(spec) {
            assert!(request.time_ns >= time_ns && request.device == 0, "{spec}");
            time_ns = request.time_ns;
            let pages = request.pages().end - request.pages().start;
            assert!(request.offset_bytes % 4096 == 0 && request.len_bytes % 4096 == 0, "{spec}");
            match request.op {
                Op::Write => assert!(pages > 0 && request.content.len() as u64 == pages, "{spec}"),
                Op::Read if spec.starts_with("delta-load") => {
                    assert!(request.pages().all(|page| page < 4096), "{spec}");
                }
                Op::Read => assert!(request.pages().all(|page| volume.0.contains_key(&page)), "{spec}"),
                Op::Trim => assert!(pages > 0, "{spec}"),
                Op::Remap(_) => {
                    assert!(request.remap_source_pages().all(|page| volume.0.contains_key(&page)), "{spec}");
                }
                Op::Flush | Op::PhaseMarker => assert_eq!(pages, 0, "{spec}"),
                Op::Zero => panic!("{spec}: nothing is zeroed"),
            }
            volume.execute_request(&request);
        }
    }
}

/// The shares of writes, of writes to hot pages and of reads of hot pages are those that the specification sets. With
/// hot pages that never change, a page is recognised as hot by more than five writes: hot pages are written 21 times on
/// average, and only one in eight of the others is written at all.
#[test]
fn the_delta_load_has_the_specified_shares_of_writes_and_hot_pages() {
    let keys = "pages=65536,requests=100000,hot=0.03,life=1000000000";
    for (write, deltas, hot_reads) in [(0.5, 0.84, 0.05), (0.6, 0.7, 0.3)] {
        let spec = format!("delta-load:{keys},write={write},deltas={deltas},hot_reads={hot_reads}");
        let requests = requests_of(&spec);
        let pages_of = |op: Op| -> Vec<u64> {
            requests.iter().filter(|request| request.op == op).flat_map(Request::pages).collect()
        };
        let (written, read) = (pages_of(Op::Write), pages_of(Op::Read));
        let mut times = HashMap::<u64, u32>::new();
        for &page in &written {
            *times.entry(page).or_default() += 1;
        }
        let is_hot = |page: &&u64| times.get(page).is_some_and(|&times| times > 5);
        let share = |pages: &[u64]| pages.iter().filter(is_hot).count() as f64 / pages.len() as f64;
        let hot = times.keys().filter(is_hot).count();
        assert!((1_940..=1_980).contains(&hot), "{hot} hot pages of 1966");
        // Four standard deviations of a share of 40,000 draws are 0.01.
        for (found, asked) in [
            (written.len() as f64 / requests.len() as f64, write),
            (share(&written), deltas),
            (share(&read), hot_reads),
        ] {
            assert!((found - asked).abs() < 0.01, "{found} is not {asked}: {spec}");
        }
    }
}

#[test]
fn copies_by_remap_and_by_writes_leave_the_same_page_contents() {
    for spec in COPYING_MODELS {
        let by_remap = requests_of(&format!("{spec},remap=on"));
        let by_writes = requests_of(&format!("{spec},remap=off"));
        assert!(remapped_pages(&by_remap) > 500, "{spec}: {} pages remapped", remapped_pages(&by_remap));
        assert_eq!(remapped_pages(&by_writes), 0);
        assert_eq!(written_pages(&by_writes), written_pages(&by_remap) + remapped_pages(&by_remap), "{spec}");
        let (by_remap, by_writes) =
            (ContentMap::after_requests(&by_remap), ContentMap::after_requests(&by_writes));
        assert!(by_remap.0 == by_writes.0, "{spec}");
    }
}

#[test]
fn sqlite_checkpoints_by_relocation_leave_the_same_database_and_an_empty_log() {
    let spec = "sqlite-wal:entries=3000";
    let copied = ContentMap::after_requests(&requests_of(spec)).0;
    let moved = ContentMap::after_requests(&requests_of(&format!("{spec},mode=relocate"))).0;
    assert!(moved.len() < copied.len() && moved.iter().all(|(page, content)| copied[page] == *content));
    let log: Vec<u64> = copied.keys().copied().filter(|page| !moved.contains_key(page)).collect();
    assert!(log.iter().all(|&page| page < 1100), "only pages of the log are deallocated");
}

/// The expected counts for sequential inserts of 16-KiB values are computed by hand from the module's description, not
/// from its code.
#[test]
fn sequential_sqlite_inserts_write_the_computed_log_and_checkpoint_pages() {
    let (checkpoints, per_checkpoint) = (10, 143);
    let entries = checkpoints * per_checkpoint;
    let requests = requests_of(&format!("sqlite-wal:order=sequential,entries={entries}"));
    // Each transaction writes seven pages to the log. 143 transactions are the first to reach 1000 frames, whose
    // headers take six more pages.
    assert_eq!(written_pages(&requests), checkpoints * (per_checkpoint * 7 + 6));
    let leaves = |rows_per_leaf: u64, checkpoint: u64| {
        let first = checkpoint * per_checkpoint;
        (first + per_checkpoint - 1) / rows_per_leaf - first / rows_per_leaf + 1
    };
    // The first page, the overflow pages, the leaves of the table (8 rows) and of the index (157 entries).
    let applied: u64 = (0..checkpoints).map(|k| 1 + 4 * per_checkpoint + leaves(8, k) + leaves(157, k)).sum();
    assert_eq!(remapped_pages(&requests), applied);
    let flushes = requests.iter().filter(|request| request.op == Op::Flush).count() as u64;
    assert_eq!(flushes, 2 * checkpoints);
}

#[test]
fn random_sqlite_inserts_replace_the_values_of_repeated_keys() {
    let entries = 20_000;
    let volume = ContentMap::after_requests(&requests_of(&format!("sqlite-wal:entries={entries}"))).0;
    // Of n draws from n keys, a share of 1 - 1/e is distinct. The value of each distinct key has four overflow pages.
    let distinct = entries as f64 * (1.0 - (-1.0_f64).exp());
    let pages = distinct * 4.0 + entries as f64 / 8.0 + distinct / 108.0 + 1010.0;
    let error = volume.len() as f64 / pages - 1.0;
    assert!(error.abs() < 0.01, "{} pages, expected {pages}", volume.len());
}

#[test]
fn random_sqlite_inserts_read_leaves_of_a_database_larger_than_the_caches() {
    let reads = |requests: &[Request]| count_pages(requests, |op| op == Op::Read);
    let of = |keys: &str| requests_of(&format!("sqlite-wal:entries=20000,{keys}"));
    assert_eq!(reads(&of("cache=4294967295")), 0);
    assert_eq!(reads(&of("order=sequential,cache=0")), 0, "the last leaves are held");
    let some = of("cache=20000");
    let (first, second) = some.split_at(some.len() / 2);
    assert!(reads(first) < reads(second), "{} reads, then {}", reads(first), reads(second));
    // Without a cache a leaf is read once in every checkpoint that changes it, so at most as often as it is applied:
    // some 140 leaves of the index and as many of replaced rows, of 1000 frames.
    let all = of("cache=0");
    assert!(reads(&some) < reads(&all), "{} of {} reads", reads(&some), reads(&all));
    assert!(reads(&all) < 280 * all.iter().filter(|request| request.op == Op::Flush).count() as u64 / 2);
}

#[test]
fn f2fs_writes_out_of_place_and_forced_cleaning_only_relocates() {
    for load in ["load=fileserver,ops=1500", "load=ycsb,ops=9000"] {
        assert_f2fs_never_overwrites_and_cleans_by_remaps(&format!(
            "f2fs-clean:segments=64,files=400,{load}"
        ));
    }
}

/// Checks for a host model of F2FS that no block is overwritten, and that the forced cleaning only remaps and trims.
fn assert_f2fs_never_overwrites_and_cleans_by_remaps(spec: &str) {
    let requests = requests_of(spec);
    let phases: Vec<&[Request]> = requests.split(|request| request.op == Op::PhaseMarker).collect();
    assert_eq!(phases.len(), 3);
    let mut volume = ContentMap::default();
    for request in &requests {
        let is_new = request.pages().all(|page| !volume.0.contains_key(&page));
        assert!(is_new || !matches!(request.op, Op::Write | Op::Remap(_)), "a block is overwritten");
        volume.execute_request(request);
    }
    let cleaning = phases[1];
    assert!(cleaning.iter().all(|request| matches!(request.op, Op::Remap(_) | Op::Trim)));
    assert!(remapped_pages(cleaning) > 1000, "{} blocks moved", remapped_pages(cleaning));
    // Cleaning leaves only live pages mapped, so before it more pages must have been mapped.
    let before = ContentMap::after_requests(phases[0]).0.len();
    let after = ContentMap::after_requests(&requests[..phases[0].len() + 1 + cleaning.len()]).0.len();
    assert!(after < before, "{before} pages mapped before cleaning, {after} after");
}

/// The host models `file-copy`, `snapshot`, `oltp` and `ycsb` write, read and remap the numbers of pages that follow
/// from their parameters.
#[test]
fn file_copy_snapshot_oltp_and_ycsb_models_issue_the_documented_counts() {
    let copy = requests_of("file-copy:files=60,copies=3");
    assert_eq!(remapped_pages(&copy), 3 * written_pages(&copy));
    assert_eq!(copy.iter().filter(|request| request.op == Op::PhaseMarker).count(), 3);

    let snapshot = requests_of("snapshot:pages=700,snapshots=3,overwrites=300");
    assert_eq!((written_pages(&snapshot), remapped_pages(&snapshot)), (700 + 3 * 300, 3 * 700));

    let oltp = requests_of("oltp:pages=2000,reads=70,writes=90,rounds=40");
    assert_eq!(written_pages(&oltp), 2000 + 40 * (90 + 64));
    assert_eq!(count_pages(&oltp, |op| op == Op::Read), 40 * 70);

    let ycsb = requests_of("ycsb:records=4000,updates=8000,checkpoint=2000,theta=0");
    let phases: Vec<&[Request]> = ycsb.split(|request| request.op == Op::PhaseMarker).collect();
    assert_eq!(written_pages(phases[0]), 1000, "the leaves are loaded");
    // 2000 uniform updates miss a leaf of 1000 with probability (1 - 1/1000)^2000.
    let leaves = 4.0 * 1000.0 * (1.0 - 0.999_f64.powi(2000));
    let measured = written_pages(phases[1]) as f64 - 8000.0 / 4.0;
    assert!((measured / leaves - 1.0).abs() < 0.02, "{measured} leaves written, expected {leaves}");
}

#[test]
fn the_fileserver_model_has_the_operation_mix_of_filebench() {
    let requests = requests_of("fileserver:files=500,loops=20000");
    let is_load = |request: &&Request| request.op == Op::Write;
    let load: Vec<Request> = requests.iter().take_while(is_load).cloned().collect();
    let loops = 20_000.0;
    let per_loop = (written_pages(&requests) - written_pages(&load)) as f64 / loops;
    // Exponential sizes of mean 32 that are cut at 128 pages have a mean of 31.4; appends of four are cut there too.
    assert!((34.7..35.9).contains(&per_loop), "{per_loop} pages written per loop");
    let deletes = requests.iter().filter(|request| request.op == Op::Trim).count();
    assert_eq!(deletes, 20_000, "every loop deletes a file and creates none over another");
}

/// Figures of a stream of requests, of the kinds that papers publish for their traces.
struct TraceFigures {
    /// Number of pages read, counted once per read.
    page_reads: f64,
    /// Number of pages written, counted once per write.
    page_writes: f64,
    /// Number of distinct pages written.
    distinct_pages_written: f64,
    /// Time of the last request, seconds.
    duration_s: f64,
    /// Number of writes whose content a dead page has, which recycling could revive.
    recyclable_page_writes: f64,
    /// Number of recyclable writes whose dead page is among the four that died last at its address.
    recyclable_page_writes_of_newest_four_dead_pages: f64,
}

impl TraceFigures {
    /// Counts the figures of these requests, with plain maps of live and dead contents.
    fn of_requests(requests: &[Request]) -> Self {
        let mut unique = BTreeSet::new();
        let mut holds: HashMap<u64, Fingerprint> = HashMap::new();
        // Address of the dead page by content, and contents of dead pages by address in order of death.
        let mut dead: HashMap<Fingerprint, u64> = HashMap::new();
        let mut lists: HashMap<u64, Vec<Fingerprint>> = HashMap::new();
        let (mut recyclable, mut newest_four) = (0, 0);
        for request in requests.iter().filter(|request| request.op == Op::Write) {
            let (page, content) = (request.pages().start, request.content[0].fingerprint);
            unique.insert(page);
            if let Some(address) = dead.remove(&content) {
                let list = lists.get_mut(&address).unwrap();
                let place = list.iter().rposition(|&held| held == content).unwrap();
                recyclable += 1;
                newest_four += u64::from(list.len() - place <= 4);
                list.remove(place);
            }
            if let Some(old) = holds.insert(page, content) {
                dead.insert(old, page);
                lists.entry(page).or_default().push(old);
            }
        }
        Self {
            page_reads: count_pages(requests, |op| op == Op::Read) as f64,
            page_writes: written_pages(requests) as f64,
            distinct_pages_written: unique.len() as f64,
            duration_s: requests.last().unwrap().time_ns as f64 / 1e9,
            recyclable_page_writes: recyclable as f64,
            recyclable_page_writes_of_newest_four_dead_pages: newest_four as f64,
        }
    }
}

/// Checks that a measured figure differs from the published one by at most the share `tolerance`.
#[track_caller]
fn assert_within(what: &str, measured: f64, published: f64, tolerance: f64) {
    assert!((measured / published - 1.0).abs() <= tolerance, "{what}: {measured}, published {published}");
}

/// Published figures of each FIU trace, in this order: requests, write share, unique pages, overwrite share, recyclable
/// GB, invalid GB, and share of recyclable writes whose dead page is among the four that died last at its address (rows
/// LX-02 to LX-15 of `wearwell reproduce`).
const PUBLISHED_FIU_TRACE_FIGURES: [(&str, [f64; 7]); 3] = [
    ("fiu-homes", [9.3e6, 0.938, 2.4e6, 0.725, 2.8, 24.1, 0.791]),
    ("fiu-mail", [16.3e6, 0.753, 1.2e6, 0.902, 7.4, 42.2, 0.596]),
    ("fiu-web", [5.9e6, 0.825, 0.8e6, 0.836, 2.5, 15.5, 0.865]),
];

#[test]
fn fiu_trace_substitutes_have_the_published_statistics() {
    let scale = 0.02;
    for (
        name,
        [requests, write_share, unique, overwrites, recyclable_data_gb, invalidated_data_gb, newest_four],
    ) in PUBLISHED_FIU_TRACE_FIGURES
    {
        let measured = TraceFigures::of_requests(&requests_of(&format!("{name}:scale={scale}")));
        assert_within(name, measured.page_reads + measured.page_writes, requests * scale, 1e-4);
        assert_within(
            name,
            measured.page_writes / (measured.page_reads + measured.page_writes),
            write_share,
            1e-4,
        );
        assert_within(name, measured.distinct_pages_written, unique * scale, 1e-4);
        assert_within(name, 1.0 - measured.distinct_pages_written / measured.page_writes, overwrites, 0.02);
        let invalid = measured.page_writes - measured.distinct_pages_written;
        assert_within(name, invalid * 4096.0 / scale / f64::from(1 << 30), invalidated_data_gb, 0.02);
        assert_within(
            name,
            measured.recyclable_page_writes / invalid,
            recyclable_data_gb / invalidated_data_gb,
            0.02,
        );
        assert_within(
            name,
            measured.recyclable_page_writes_of_newest_four_dead_pages / measured.recyclable_page_writes,
            newest_four,
            0.02,
        );
        assert_within(name, measured.duration_s, 14.0 * 86_400.0 * scale, 0.001);
    }
}

/// Numbers of invalidated and of recycled pages (whose content is written again) by how often their content was read.
struct PageCountsByReadCount {
    /// Number of invalidated pages, by the number of reads of their content (15: at least 15).
    invalid_pages: [f64; 16],
    /// Number of writes of an earlier content, by the number of reads of that content (15: at least 15).
    recycled_pages: [f64; 16],
    /// Number of distinct addresses that were overwritten.
    overwritten_addresses: f64,
    /// Share of all requests that precede the first request that writes an earlier content again.
    share_of_requests_before_first_recurrence: f64,
}

impl PageCountsByReadCount {
    /// Counts invalidated and recycled pages of these requests with plain maps.
    fn of_requests(requests: &[Request]) -> Self {
        let mut holds: HashMap<u64, Fingerprint> = HashMap::new();
        let mut reads: HashMap<Fingerprint, usize> = HashMap::new();
        let mut overwritten = BTreeSet::new();
        let (mut invalid_pages, mut recycled_pages, mut first_return) = ([0.0; 16], [0.0; 16], None);
        for (k, request) in requests.iter().enumerate() {
            let page = request.pages().start;
            if request.op == Op::Read {
                *reads.get_mut(&holds[&page]).expect("what is read was written") += 1;
                continue;
            }
            let content = request.content[0].fingerprint;
            if let Some(&count) = reads.get(&content) {
                recycled_pages[count.min(15)] += 1.0;
                first_return.get_or_insert(k as f64 / requests.len() as f64);
            }
            reads.entry(content).or_insert(0);
            if let Some(old) = holds.insert(page, content) {
                invalid_pages[reads[&old].min(15)] += 1.0;
                overwritten.insert(page);
            }
        }
        let share_of_requests_before_first_recurrence = first_return.expect("something returns");
        Self {
            invalid_pages,
            recycled_pages,
            overwritten_addresses: overwritten.len() as f64,
            share_of_requests_before_first_recurrence,
        }
    }

    /// Returns the share of the counted pages that were read eight times or more.
    fn share_read_at_least_eight_times(counts: &[f64; 16]) -> f64 {
        counts[8..].iter().sum::<f64>() / counts.iter().sum::<f64>()
    }

    /// Returns the pages written again as a share of the invalidated pages, for contents with this number of reads.
    fn recycled_share(&self, reads: usize) -> f64 {
        self.recycled_pages[reads] / self.invalid_pages[reads]
    }
}

/// Mean number of dead pages per overwritten address in each FIU trace, as the Recyclable SSD paper publishes it (row
/// LX-14 of `wearwell reproduce`).
const DEAD_PAGES_PER_OVERWRITTEN_ADDRESS: [f64; 3] = [7.3, 12.1, 6.7];

/// Checks Figures 2 and 3 of the Recyclable SSD paper (rows LX-09 to LX-14 of `wearwell reproduce`) on substitutes with
/// the number of reads that these figures need (`reads=figures`).
#[test]
fn fiu_trace_substitutes_read_pages_at_the_published_frequencies() {
    for ((name, _), list_length) in
        PUBLISHED_FIU_TRACE_FIGURES.into_iter().zip(DEAD_PAGES_PER_OVERWRITTEN_ADDRESS)
    {
        let counts =
            PageCountsByReadCount::of_requests(&requests_of(&format!("{name}:scale=0.01,reads=figures")));
        let total: f64 = counts.invalid_pages.iter().sum();
        assert!(
            counts.invalid_pages[..4].iter().sum::<f64>() > 0.5 * total,
            "{name}: most are read 0 to 3 times"
        );
        let inside = |what: &str, value: f64, range: std::ops::Range<f64>| {
            assert!(range.contains(&value), "{name}: {what} is {value}, published {range:?}");
        };
        inside(
            "share read 8 times or more",
            PageCountsByReadCount::share_read_at_least_eight_times(&counts.invalid_pages),
            0.208..0.329,
        );
        inside(
            "share of the recyclable",
            PageCountsByReadCount::share_read_at_least_eight_times(&counts.recycled_pages),
            0.528..0.802,
        );
        inside("recyclable, never read", counts.recycled_share(0), 0.007..0.069);
        inside("recyclable, read 15 times", counts.recycled_share(15), 0.26..0.391);
        assert!(
            (1..16).step_by(3).is_sorted_by(|&a, &b| counts.recycled_share(a) < counts.recycled_share(b)),
            "{name}"
        );
        assert_within(name, total / counts.overwritten_addresses, list_length, 0.01);
        assert!(
            (0.5..0.51).contains(&counts.share_of_requests_before_first_recurrence),
            "{name}: from {} on",
            counts.share_of_requests_before_first_recurrence
        );
    }
}

/// The `fiu-mail` substitute by default has as many reads as the paper's trace (Table I of the Recyclable SSD paper):
/// a random sample of the reads that its popularity model generates. Contents that were read are still written again
/// more often than others, but few contents reach eight reads.
#[test]
fn fiu_substitute_with_the_published_read_count_generates_a_sample_of_the_reads() {
    let counts = PageCountsByReadCount::of_requests(&requests_of("fiu-mail:scale=0.01"));
    assert!(
        counts.recycled_share(1) > 1.2 * counts.recycled_share(0)
            && counts.invalid_pages[8..].iter().sum::<f64>() < 100.0
    );
}

#[test]
fn the_predicted_host_model_rewrites_dead_contents_with_probability_by_read_count() {
    let spec =
        "predicted:pages=2000,writes=100000,theta=0,reads=3,popular=0.25,popular_return=0.4,other_return=0.1";
    let counts = PageCountsByReadCount::of_requests(&requests_of(spec));
    assert_within("never read", counts.recycled_share(0), 0.1, 0.05);
    assert_within("read", counts.recycled_share(3), 0.4, 0.05);
    assert!(counts.invalid_pages[4..].iter().all(|&share| share <= 0.0));
    assert_within("popular", counts.invalid_pages[3] / counts.invalid_pages.iter().sum::<f64>(), 0.25, 0.1);
}

/// Published figures of each trace of the Delta-FTL paper, in this order: million reads, million writes, percentage of
/// writes, duration in hours (rows DF-08 to DF-13 of `wearwell reproduce`).
const PUBLISHED_DELTA_FTL_TRACE_FIGURES: [(&str, [f64; 4]); 6] = [
    ("f1", [1.23, 4.07, 76.8, 12.0]),
    ("f2", [3.04, 0.65, 17.7, 12.0]),
    ("c3", [0.75, 1.37, 64.7, 24.0]),
    ("c8", [0.56, 1.48, 72.6, 24.0]),
    ("dap", [0.61, 0.47, 43.8, 24.0]),
    ("msn", [0.82, 0.27, 25.0, 6.0]),
];

#[test]
fn delta_ftl_trace_substitutes_have_the_published_statistics() {
    let scale = 0.02;
    for (name, [reads, writes, percent, hours]) in PUBLISHED_DELTA_FTL_TRACE_FIGURES {
        let measured = TraceFigures::of_requests(&requests_of(&format!("{name}:scale={scale}")));
        assert_within(name, measured.page_reads, reads * 1e6 * scale, 1e-3);
        assert_within(name, measured.page_writes, writes * 1e6 * scale, 1e-3);
        assert_within(
            name,
            100.0 * measured.page_writes / (measured.page_reads + measured.page_writes),
            percent,
            0.02,
        );
        assert_within(name, measured.duration_s, hours * 3600.0 * scale, 0.001);
    }
}

/// Published figures of each trace of the integrated lifetime paper, in this order: MB/s written, GiB written per day,
/// and the shares of the writes that are left after compression and after deduplication (rows IL-01 to IL-03 and IL-14
/// of `wearwell reproduce`).
const PUBLISHED_LIFETIME_TRACE_FIGURES: [(&str, [f64; 4]); 3] = [
    ("wksn", [0.961, 77.0, 0.325, 0.819]),
    ("media", [1.720, 138.0, 0.987, 0.997]),
    ("dvmt", [2.150, 173.0, 0.833, 1.0]),
];

#[test]
fn lifetime_trace_substitutes_have_the_published_write_rates_and_compressibility() {
    for (name, [mb_per_s, gib_per_day, compressed, deduplicated]) in PUBLISHED_LIFETIME_TRACE_FIGURES {
        let scale = 0.01;
        let requests = requests_of(&format!("{name}:scale={scale}"));
        let measured = TraceFigures::of_requests(&requests);
        assert_within(name, measured.page_writes * 4096.0 / measured.duration_s / 1e6, mb_per_s, 0.02);
        assert_within(name, measured.page_writes * 4096.0 / scale / f64::from(1 << 30), gib_per_day, 0.02);
        let contents = || requests.iter().flat_map(|request| &request.content);
        let sizes: Vec<u32> = contents().map(|content| u32::from(content.compressed_bytes)).collect();
        let pages: u32 = sizes.chunks(4).map(|chunk| chunk.iter().sum::<u32>().div_ceil(4096)).sum();
        assert_within(name, f64::from(pages) / measured.page_writes, compressed, 0.02);
        let distinct: BTreeSet<u64> = contents().map(|content| content.fingerprint.0).collect();
        assert_within(name, distinct.len() as f64 / measured.page_writes, deduplicated, 0.02);
    }
}

#[test]
fn host_models_replay_on_every_design_with_a_note_that_they_are_models() {
    let input = Input::of_generator_spec("f2fs-clean:segments=64,files=400,ops=300").unwrap();
    let requests = requests_of("f2fs-clean:segments=64,files=400,ops=300");
    for design in ["page-map", "recyclable", "dftl"] {
        let record = run_input(&config_of_settings(&["device.over_provisioning=0.2"]), &input, design);
        assert_eq!((record.partial, record.phases.len()), (false, 3), "{:?}", record.partial_reason);
        assert_eq!(record.host_page_remaps, remapped_pages(&requests), "{design}");
        assert_eq!(
            record.host_page_writes,
            written_pages(&requests) + remapped_pages(&requests),
            "{design}: demoted"
        );
        assert!(record.notes.iter().any(|note| note.contains("host model")), "{:?}", record.notes);
    }
}

/// Regression: on a drive whose pages are larger than 4 KiB, a run of a host model ended at its first remap of a part
/// of a page, with designs without remaps too.
#[test]
fn remaps_of_parts_of_pages_are_executed_as_reads_and_writes() {
    for design in ["page-map", "remap", "integrated"] {
        for model in COPYING_MODELS {
            let config = config_of_settings(&["device.page_bytes=16384", "buffer.pages=0", "device.fit=0.5"]);
            let input = Input::Host(Box::new(model.parse().unwrap()));
            let run = run_input(&config, &input, design);
            assert!(!run.partial, "{design}, {model}: {:?}", run.partial_reason);
            assert!(run.host_page_remaps > 0 && run.bytes.partial_page_writes > 0, "{design}, {model}");
            let note = run.notes.iter().find(|note| note.starts_with("remap requests of parts"));
            // The volume of a snapshot consists of whole pages of the drive.
            let has_parts = !model.starts_with("snapshot");
            assert_eq!(note.is_some(), has_parts, "{model}: {:?}", run.notes);
            assert!(note.is_none_or(|note| !note.contains("count as new")), "{note:?}");
        }
    }
}
