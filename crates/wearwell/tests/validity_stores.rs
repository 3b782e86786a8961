//! Tests of page validity on flash: it answers as a bitmap in RAM does, at the costs that the papers state, also after
//! a recovery from flash alone.

#[path = "validity_stores/drive.rs"]
mod drive;

use drive::{Drive, StoreUnderTest, geometry};
use wearwell::Error;
use wearwell::address::{BlockId, Ppn};
use wearwell::nand::{CutOutcome, Geometry, NandError, Oob, PageKind, RetainedPageFields, SimNand};
use wearwell::operation::Cause;
use wearwell::store::{FlashPageStore, FreeBlockOrder};
use wearwell::validity::{FlashBitmap, FlashBitmapOptions, ValidityLog, ValidityLogOptions, ValidityStore};

use crate::common::medium_with_power_cut;

/// Geometries under test: tiny, the papers' blocks and pages, a superblock of three planes, and blocks larger than a
/// bitmap page.
fn geometries() -> [(&'static str, Geometry); 4] {
    [
        ("tiny", geometry([2, 32, 8, 512])),
        ("paper", geometry([1, 256, 128, 4096])),
        ("superblock", Geometry { superblock_planes: 3, ..geometry([6, 30, 7, 1024]) }),
        ("large blocks", geometry([1, 12, 5000, 512])),
    ]
}

/// Creates a bitmap of page validity on flash that writes a page for each report.
fn bitmap(geometry: &Geometry, _: u64) -> FlashBitmap {
    FlashBitmap::new(geometry, FlashBitmapOptions::default())
}

/// Creates a bitmap of page validity on flash that writes all buffered reports of a bitmap page at once.
fn batching_bitmap(geometry: &Geometry, _: u64) -> FlashBitmap {
    FlashBitmap::new(geometry, FlashBitmapOptions { batches_updates: true })
}

/// Creates a log of page validity on flash.
fn log(geometry: &Geometry, physical_minus_logical_pages: u64) -> ValidityLog {
    ValidityLog::new(geometry, ValidityLogOptions { physical_minus_logical_pages })
        .expect("a log fits the geometry")
}

/// Creates simulated flash that retains all fields of pages.
fn sim(geometry: &Geometry) -> SimNand {
    SimNand::new(geometry.clone(), RetainedPageFields::ALL)
}

/// Number of logical pages of a device under test as a share of its flash pages, as in the papers.
const LOGICAL_PAGE_SHARE: f64 = 0.7;

#[test]
fn validity_stores_on_flash_answer_like_a_bitmap_in_ram_under_millions_of_updates() {
    for (name, geometry) in geometries() {
        let updates = 500_000;
        let queries = [
            Drive::new(sim(&geometry), LOGICAL_PAGE_SHARE, bitmap).run_with_queries(updates),
            Drive::new(sim(&geometry), LOGICAL_PAGE_SHARE, batching_bitmap).run_with_queries(updates),
            Drive::new(sim(&geometry), LOGICAL_PAGE_SHARE, log).run_with_queries(updates),
        ];
        assert!(queries.iter().all(|&queries| queries > 20), "{name}: {queries:?} queries");
    }
}

#[test]
fn validity_stores_on_flash_answer_correctly_while_many_invalid_page_reports_are_buffered() {
    for (name, geometry) in geometries().into_iter().take(3) {
        let rounds = 300;
        let mut reports = 0;
        reports += Drive::new(sim(&geometry), LOGICAL_PAGE_SHARE, bitmap).run_with_pending_writes(rounds);
        reports +=
            Drive::new(sim(&geometry), LOGICAL_PAGE_SHARE, batching_bitmap).run_with_pending_writes(rounds);
        reports += Drive::new(sim(&geometry), LOGICAL_PAGE_SHARE, log).run_with_pending_writes(rounds);
        assert!(reports > 0, "{name}: no report waited at a query");
    }
}

#[test]
fn a_validity_bitmap_on_flash_costs_a_read_and_a_write_per_report_and_a_read_per_query() {
    let mut drive = Drive::new(sim(&geometry([1, 256, 128, 4096])), LOGICAL_PAGE_SHARE, bitmap);
    drive.fill();
    drive.run(drive.logical_pages() * 2);
    let before = drive.io.stats.clone();
    let asked = drive.queries;
    drive.run(10_000);
    let queries = drive.queries - asked;
    let reads = drive.io.stats.reads[Cause::Validity as usize] - before.reads[Cause::Validity as usize];
    let programs =
        drive.io.stats.programs[Cause::Validity as usize] - before.programs[Cause::Validity as usize];
    println!("10000 updates: {programs} programs, {reads} reads, {queries} of them for queries");
    assert_eq!((programs, reads), (10_000, 10_000 + queries));
    assert!((100..200).contains(&queries), "{queries} queries; GK-60 expects one per 68 updates");
}

#[test]
fn a_batching_validity_bitmap_writes_a_page_once_for_all_its_buffered_reports() {
    let geometry = geometry([1, 64, 8, 512]);
    let written = |options: FlashBitmapOptions| {
        let mut io = FlashPageStore::new(sim(&geometry), FreeBlockOrder::Fifo);
        let mut bitmap = FlashBitmap::new(&geometry, options);
        (0..100).for_each(|page| bitmap.invalidate(Ppn(page)));
        while bitmap.execute_next_deferred_validity_write(&mut io).expect("no fault") {}
        io.stats.programs[Cause::Validity as usize]
    };
    assert_eq!(written(FlashBitmapOptions { batches_updates: true }), 1);
    assert_eq!(written(FlashBitmapOptions::default()), 100);
}

#[test]
fn opening_a_block_drops_the_buffered_invalid_page_reports_of_it() {
    /// Asserts that a store forgets the buffered reports of pages in a block when that block is opened.
    fn check(geometry: &Geometry, mut store: impl ValidityStore) {
        let mut io = FlashPageStore::new(sim(geometry), FreeBlockOrder::Fifo);
        // More reports than a log page holds, so that some of them find the buffer full.
        (0..64).for_each(|page| store.invalidate(Ppn(page)));
        store.record_block_opened(BlockId(7));
        let mut live = Vec::new();
        store.append_valid_pages(&mut io, BlockId(7), &mut live).expect("no fault");
        assert_eq!(live, (56..64).map(Ppn).collect::<Vec<_>>());
        while store.execute_next_deferred_validity_write(&mut io).expect("no fault") {}
        live.clear();
        store.append_valid_pages(&mut io, BlockId(7), &mut live).expect("no fault");
        assert_eq!(live, (56..64).map(Ppn).collect::<Vec<_>>());
        live.clear();
        store.append_valid_pages(&mut io, BlockId(6), &mut live).expect("no fault");
        assert!(live.is_empty());
    }
    let geometry = geometry([1, 64, 8, 512]);
    check(&geometry, bitmap(&geometry, 0));
    check(&geometry, batching_bitmap(&geometry, 0));
    check(&geometry, log(&geometry, 150));
}

/// Cleaning appends old entries of the validity log again. An entry of the same block that was appended in between must
/// still be found.
#[test]
fn a_validity_log_entry_appended_again_by_cleaning_hides_no_newer_entry() {
    let geometry = geometry([1, 64, 8, 512]);
    let mut io = FlashPageStore::new(sim(&geometry), FreeBlockOrder::Fifo);
    let mut log = log(&geometry, 42);
    let mut write_deferred =
        |log: &mut ValidityLog| while log.execute_next_deferred_validity_write(&mut io).expect("no fault") {};
    // A page of block 1 becomes invalid early, then pages of other blocks, which are opened again, until cleaning has
    // passed its entry; then a later page of block 1, and again.
    let mut dead = Vec::new();
    let mut others = (0..).map(|k: u32| BlockId(2 + k % 50));
    for page in [9, 12, 8] {
        log.invalidate(Ppn(page));
        dead.push(Ppn(page));
        let cleaned = log.counts().cleaned_pages;
        while log.counts().cleaned_pages < cleaned + 1 {
            let block = others.next().expect("endless");
            log.record_block_opened(block);
            (0..8).for_each(|page| log.invalidate(Ppn(block.0 * 8 + page)));
            write_deferred(&mut log);
        }
    }
    assert!(log.counts().reinserted_entries > 0);
    let mut live = Vec::new();
    log.append_valid_pages(&mut io, BlockId(1), &mut live).expect("no fault");
    let expected: Vec<Ppn> = (8..16).map(Ppn).filter(|ppn| !dead.contains(ppn)).collect();
    assert_eq!(live, expected);
}

/// The entries of a block in the validity log are linked in a chain. One flash page of the log may hold several entries
/// of the chain.
#[test]
fn a_validity_log_query_reads_each_page_of_a_chain_once() {
    let geometry = geometry([1, 64, 8, 512]);
    let mut io = FlashPageStore::new(sim(&geometry), FreeBlockOrder::Fifo);
    let mut log = log(&geometry, 200);
    let entries = log.entries_per_log_page();
    // Four entries of block 0 in the first page, one in the second, one in the buffer.
    let filler = |log: &mut ValidityLog, from: u32, count: u32| {
        (from..from + count).for_each(|page| log.invalidate(Ppn(64 + page)));
    };
    (0..4).for_each(|page| log.invalidate(Ppn(page)));
    filler(&mut log, 0, entries - 4);
    assert!(log.execute_next_deferred_validity_write(&mut io).expect("no fault"));
    log.invalidate(Ppn(4));
    filler(&mut log, entries, entries - 1);
    assert!(log.execute_next_deferred_validity_write(&mut io).expect("no fault"));
    log.invalidate(Ppn(5));
    let before = io.stats.reads[Cause::Validity as usize];
    let mut live = Vec::new();
    log.append_valid_pages(&mut io, BlockId(0), &mut live).expect("no fault");
    assert_eq!(live, [Ppn(6), Ppn(7)]);
    assert_eq!(io.stats.reads[Cause::Validity as usize] - before, 2);
    log.record_block_opened(BlockId(0));
    log.append_valid_pages(&mut io, BlockId(0), &mut live).expect("no fault");
    assert_eq!(io.stats.reads[Cause::Validity as usize] - before, 2, "an empty chain costs nothing");
}

/// IB-FTL, appendix E of the GeckoFTL paper: "each log entry is reinserted into the log on average one time". This is a
/// maximum, because at most half of the entries of a cleaned log are valid. The number is smaller if blocks are reused
/// before their entries are the oldest. Overwrites are first uniform, and then go to a tenth of the pages, which leaves
/// invalid pages in blocks that are not collected for long.
#[test]
fn the_validity_log_stays_within_its_size_with_at_most_one_reinsertion_per_entry() {
    for (name, geometry) in geometries() {
        let mut drive = Drive::new(sim(&geometry), LOGICAL_PAGE_SHARE, log);
        drive.fill();
        drive.run(drive.logical_pages() * 4);
        for (workload, host_used_pages) in
            [("uniform", drive.logical_pages()), ("a tenth", drive.logical_pages() / 10)]
        {
            drive.host_used_pages = host_used_pages;
            drive.run(drive.logical_pages());
            let per_entry = reinsertions_per_report(&format!("{name}, {workload}"), &mut drive);
            assert!(per_entry <= 1.0, "{name}, {workload}: {per_entry}");
            if (name, workload) == ("paper", "a tenth") {
                assert!(per_entry > 0.1, "{per_entry}: hardly anything was inserted again");
            }
        }
    }
}

/// Executes eight overwrites per logical page at random. Returns the number of validity log entries that cleaning
/// appended again, divided by the number of reported invalid pages. Prints the costs of the log under the title `what`.
fn reinsertions_per_report(what: &str, drive: &mut Drive<ValidityLog>) -> f64 {
    drive.validity.clear_operation_counts();
    drive.max_valid_validity_pages = 0;
    let before = drive.io.stats.clone();
    let updates = drive.logical_pages() * 8;
    drive.run(updates);
    let counts = drive.validity.counts();
    let per_entry = counts.reinserted_entries as f64 / counts.invalid_page_reports as f64;
    let per_update = |now: &[u64], then: &[u64]| {
        (now[Cause::Validity as usize] - then[Cause::Validity as usize]) as f64 / updates as f64
    };
    println!(
        "{what}: {per_entry:.3} insertions again per entry, {:.5} programs and {:.5} reads per update, 1/V = {:.5}, at \
         most {} of {} pages held",
        per_update(&drive.io.stats.programs, &before.programs),
        per_update(&drive.io.stats.reads, &before.reads),
        1.0 / f64::from(drive.validity.entries_per_log_page()),
        drive.max_valid_validity_pages,
        drive.validity.max_metadata_pages(),
    );
    assert!(counts.cleaned_pages > 0, "{what}: nothing was cleaned");
    assert!(
        drive.max_valid_validity_pages <= drive.validity.max_metadata_pages(),
        "{what}: {} pages",
        drive.max_valid_validity_pages
    );
    per_entry
}

/// A host that uses a small part of its logical pages leaves more pages invalid than there are spare pages. A log of
/// twice the spare pages cannot hold their entries, and cleaning to this size would append the same entries for ever.
#[test]
fn the_validity_log_of_a_sparsely_used_device_may_grow_into_unused_space() {
    let geometry = geometry([1, 256, 32, 512]);
    let mut drive = Drive::new(sim(&geometry), 0.9, log);
    let spare_bound = drive.validity.max_metadata_pages();
    drive.host_used_pages = drive.logical_pages() / 10;
    drive.run(200_000);
    let unmapped = drive.logical_pages() - drive.host_used_pages;
    println!(
        "{} pages held, {spare_bound} for the spare pages, {unmapped} unmapped",
        drive.max_valid_validity_pages
    );
    assert!(drive.max_valid_validity_pages > spare_bound, "the case did not occur");
    assert!(drive.max_valid_validity_pages <= spare_bound + unmapped);
    // When the host fills its space, the log becomes smaller again.
    drive.host_used_pages = drive.logical_pages();
    drive.fill();
    assert!(drive.valid_validity_pages() <= spare_bound, "{} pages", drive.valid_validity_pages());
    drive.run(50_000);
    assert!(drive.valid_validity_pages() <= spare_bound, "{} pages", drive.valid_validity_pages());
}

/// Returns all pages of the validity store on a medium, as the engine's scan finds them.
fn found_pages(io: &mut FlashPageStore) -> Vec<(Ppn, Oob)> {
    let (blocks, pages) = (io.geometry().blocks(), io.geometry().block_pages());
    let mut found = Vec::new();
    for block in (0..blocks).map(BlockId) {
        let first = io.geometry().first_page(block).0;
        for ppn in (first..first + pages).map(Ppn) {
            match io.read_spare_in_recovery(ppn) {
                Ok(None) => break,
                Ok(Some(oob)) if oob.kind == PageKind::Validity => found.push((ppn, oob)),
                Ok(Some(_)) | Err(Error::Nand(NandError::Uncorrectable(_))) => {}
                Err(error) => panic!("{error}"),
            }
        }
    }
    found
}

/// Sets in `dead`, which has an element per page of the device, the invalid pages of a block. `words` is the bitmap of
/// the block's invalid pages, as a validity store reports it.
fn mark_invalid_pages(block: BlockId, words: &[u64], block_pages: u32, dead: &mut [bool]) {
    for page in (0..block_pages).filter(|&page| words[page as usize / 64] >> (page % 64) & 1 == 1) {
        dead[(block.0 * block_pages + page) as usize] = true;
    }
}

/// Recovers a validity log from flash alone. Returns, for each page of the device, whether the log records it as
/// invalid; asserts that recovery, a scan of the log and queries block by block agree.
fn recover_log_and_list_invalid_pages(
    log: &mut ValidityLog,
    io: &mut FlashPageStore,
    opened_at_sequence: &[u64],
) -> Vec<bool> {
    let (pages, block_pages) = (io.geometry().pages() as usize, io.geometry().block_pages());
    let found = found_pages(io);
    let mut told = vec![false; pages];
    let before = io.stats.reads[Cause::Validity as usize];
    log.recover(
        io,
        &found,
        |block| opened_at_sequence[block.index()],
        |block, words| mark_invalid_pages(block, words, block_pages, &mut told),
    )
    .expect("no fault");
    let reads = io.stats.reads[Cause::Validity as usize] - before;
    assert_eq!(reads, u64::from(log.log_page_count()), "recovery reads each page of the log once");
    let mut scanned = vec![false; pages];
    log.for_each_block_with_invalid_pages(io, |block, words| {
        mark_invalid_pages(block, words, block_pages, &mut scanned);
    })
    .expect("no fault");
    assert_eq!(told, scanned);
    let reads = io.stats.reads[Cause::Validity as usize] - before;
    assert_eq!(
        reads,
        u64::from(log.log_page_count()),
        "the scan after a recovery does not read the log again"
    );
    let mut read_again = vec![false; pages];
    log.for_each_block_with_invalid_pages(io, |block, words| {
        mark_invalid_pages(block, words, block_pages, &mut read_again);
    })
    .expect("no fault");
    assert_eq!(told, read_again);
    assert_eq!(told, query_invalid_pages(log, io));
    told
}

/// Recovers a validity bitmap from flash. Returns, for each page of the device, whether the bitmap records it as
/// invalid.
fn recover_bitmap_and_list_invalid_pages(bitmap: &mut FlashBitmap, io: &mut FlashPageStore) -> Vec<bool> {
    let (pages, block_pages) = (io.geometry().pages() as usize, io.geometry().block_pages());
    let found = found_pages(io);
    bitmap.recover(&found);
    let mut scanned = vec![false; pages];
    let before = io.stats.reads[Cause::Validity as usize];
    bitmap
        .for_each_block_with_invalid_pages(io, |block, words| {
            mark_invalid_pages(block, words, block_pages, &mut scanned);
        })
        .expect("no fault");
    let reads = io.stats.reads[Cause::Validity as usize] - before;
    assert!(reads <= u64::from(bitmap.bitmap_page_count()), "{reads} reads");
    assert_eq!(scanned, query_invalid_pages(bitmap, io));
    scanned
}

/// Returns, for each page of the device, whether queries block by block report it as invalid.
fn query_invalid_pages(store: &mut impl ValidityStore, io: &mut FlashPageStore) -> Vec<bool> {
    let mut dead = vec![true; io.geometry().pages() as usize];
    let mut live = Vec::new();
    for block in (0..io.geometry().blocks()).map(BlockId) {
        store.append_valid_pages(io, block, &mut live).expect("no fault");
    }
    for ppn in live {
        dead[ppn.index()] = false;
    }
    dead
}

/// Runs overwrites on a device with the validity store under test until power is cut at flash operation `at`. Returns
/// the device after the cut; `None` if the run ended before.
fn run_until_power_cut<V: StoreUnderTest>(
    geometry: &Geometry,
    new: impl Fn(&Geometry, u64) -> V,
    at: u64,
    outcome: CutOutcome,
    updates: u64,
) -> Option<Drive<V>> {
    let mut drive =
        Drive::new(medium_with_power_cut(sim(geometry), Some(at), outcome), LOGICAL_PAGE_SHARE, new);
    drive.erases_immediately = true;
    let mut run = || {
        drive.try_run(updates / 4)?;
        // Entries of blocks that are not collected are inserted again.
        drive.host_used_pages = drive.logical_pages() / 3;
        drive.try_run(updates - updates / 4)
    };
    match run() {
        Err(error) if error.is_power_loss() => {}
        Ok(()) => return None,
        Err(error) => panic!("{error}"),
    }
    drive.io.nand_mut().power_cut_nand_mut().restore_power(None);
    Some(drive)
}

/// After a power cut, the validity log is recovered from flash. It contains all reports of invalid pages that were made
/// before the sequence number up to which it states that reports are durable.
#[test]
fn the_validity_log_recovers_all_invalid_page_reports_that_it_calls_durable_after_any_power_cut() {
    let geometry = geometry([1, 24, 8, 512]);
    let mut cuts = [0; 3];
    let mut lost = 0;
    for (kind, outcome) in CutOutcome::ALL.into_iter().enumerate() {
        for at in 0.. {
            let Some(mut drive) = run_until_power_cut(&geometry, log, at, outcome, 6_000) else { break };
            cuts[kind] += 1;
            let before = drive.validity.reports_durable_before_sequence();
            // Recovery uses flash alone: a new log on the same medium.
            let mut log = log(&geometry, drive.spare_pages());
            let known =
                recover_log_and_list_invalid_pages(&mut log, &mut drive.io, &drive.opened_at_sequence);
            let durable = log.reports_durable_before_sequence();
            assert!(durable >= before, "cut {at} {outcome:?}: {durable} after {before}");
            assert_eq!(known, drive.pages_invalid_before(durable), "cut {at} {outcome:?}");
            let found = found_pages(&mut drive.io);
            drive.replace_validity(log, &found);
            lost += drive.repeat_invalid_page_reports_since(durable);
            // If the page was not consumed, the block table, which survived the cut, would be wrong.
            if outcome != CutOutcome::NoEffect {
                drive.run_with_queries(1_500);
                assert!(
                    drive.valid_validity_pages() <= drive.validity.max_metadata_pages(),
                    "{} pages",
                    drive.valid_validity_pages()
                );
            }
        }
    }
    println!("{cuts:?} cuts, {lost} reports lost and repeated");
    assert!(cuts.iter().all(|&cuts| cuts > 100) && lost > 0);
}

/// After a power cut, the battery writes the reports that are buffered in RAM, so that no report is lost.
#[test]
fn the_battery_writes_the_whole_validity_bitmap_to_flash_after_any_power_cut() {
    let geometry = geometry([1, 24, 8, 512]);
    for batches_updates in [false, true] {
        let new =
            |geometry: &Geometry, _: u64| FlashBitmap::new(geometry, FlashBitmapOptions { batches_updates });
        for outcome in CutOutcome::ALL {
            let mut cuts = 0;
            for at in 0.. {
                let Some(mut drive) = run_until_power_cut(&geometry, new, at, outcome, 700) else { break };
                cuts += 1;
                if outcome == CutOutcome::NoEffect {
                    drive.consume_interrupted_page();
                }
                while drive.validity.write_back_step(&mut drive.io).expect("the battery lasts") {}
                assert!(!drive.validity.has_unwritten_records());
                let mut bitmap = new(&geometry, 0);
                let known = recover_bitmap_and_list_invalid_pages(&mut bitmap, &mut drive.io);
                assert_eq!(known, drive.pages_ever_invalid(), "cut {at} {outcome:?}");
                let found = found_pages(&mut drive.io);
                drive.replace_validity(bitmap, &found);
                drive.run_with_queries(200);
            }
            assert!(cuts > 500, "{cuts} cuts");
        }
    }
}

/// When a block is opened, its pages are no longer invalid, but the page of the validity bitmap on flash is not written
/// at once. At a power loss the battery writes it, also if no page of the block was reported as invalid since.
#[test]
fn at_power_loss_the_battery_also_writes_the_cleared_validity_bits_of_opened_blocks() {
    let geometry = geometry([1, 24, 500, 512]);
    let mut io = FlashPageStore::new(sim(&geometry), FreeBlockOrder::Fifo);
    let mut before = bitmap(&geometry, 0);
    assert!(before.bitmap_page_count() > 1);
    before.invalidate(Ppn(3));
    while before.execute_next_deferred_validity_write(&mut io).expect("no fault") {}
    before.record_block_opened(BlockId(0));
    before.invalidate(Ppn(11_000));
    while before.write_back_step(&mut io).expect("the battery lasts") {}
    let known = recover_bitmap_and_list_invalid_pages(&mut bitmap(&geometry, 0), &mut io);
    assert_eq!((known[3], known[11_000]), (false, true));
}

/// The buffer of the validity log is full, and further reports are only in RAM. After the buffer is written, these
/// reports do not count as durable yet.
#[test]
fn the_validity_log_does_not_count_reports_beyond_a_full_buffer_as_durable() {
    let geometry = geometry([1, 64, 8, 512]);
    let mut io = FlashPageStore::new(sim(&geometry), FreeBlockOrder::Fifo);
    let mut first = log(&geometry, 150);
    let entries = first.entries_per_log_page();
    (0..entries + 5).for_each(|page| first.invalidate(Ppn(page)));
    assert!(first.execute_next_deferred_validity_write(&mut io).expect("no fault"));
    assert_eq!(
        (io.last_sequence(), first.reports_durable_before_sequence()),
        (1, 0),
        "five reports made at 0 are in RAM only"
    );
    let mut second = log(&geometry, 150);
    let known = recover_log_and_list_invalid_pages(&mut second, &mut io, &[0; 64]);
    assert_eq!(second.reports_durable_before_sequence(), 0);
    assert_eq!(known.iter().filter(|&&dead| dead).count() as u32, entries);
    while first.write_back_step(&mut io).expect("no fault") {}
    assert_eq!((io.last_sequence(), first.reports_durable_before_sequence()), (2, 2));
}

/// Bug: a page was revived and became invalid again after a recovery, and the next recovery lost the report of this.
/// The log still had an entry for the page from before the first recovery, which no chain reaches. This entry counted
/// as valid, so the page was not reported again. GC took the page for a valid one, and the server ended.
#[test]
fn validity_log_entries_of_a_block_are_void_after_recovery_reports_the_block_as_opened() {
    let geometry = geometry([1, 64, 8, 512]);
    let mut io = FlashPageStore::new(sim(&geometry), FreeBlockOrder::Fifo);
    let mut first = log(&geometry, 150);
    // More reports than the buffer holds: the log does not state that it is durable beyond the opening of the blocks.
    (0..first.entries_per_log_page() + 5).for_each(|page| first.invalidate(Ppn(page)));
    assert!(first.execute_next_deferred_validity_write(&mut io).expect("no fault"));
    let mut second = log(&geometry, 150);
    let known = recover_log_and_list_invalid_pages(&mut second, &mut io, &[0; 64]);
    assert_eq!((known[0], known[1], second.reports_durable_before_sequence()), (true, true, 0));
    second.record_block_opened(BlockId(0));
    second.invalidate(Ppn(1));
    while second.write_back_step(&mut io).expect("no fault") {}
    let known = recover_log_and_list_invalid_pages(&mut log(&geometry, 150), &mut io, &[0; 64]);
    assert_eq!((known[0], known[1]), (false, true));
}

/// Regression: recovery reported more invalid pages than fit in one page of the log. A device that lost power shortly
/// after each start then added a page to its log at each start. At last the log was longer than its position numbers
/// allow, and the device could not be opened any more.
#[test]
fn recoveries_that_repeat_reports_of_several_pages_do_not_lengthen_the_validity_log() {
    let geometry = geometry([1, 64, 8, 512]);
    let mut io = FlashPageStore::new(sim(&geometry), FreeBlockOrder::Fifo);
    let reports = log(&geometry, 150).entries_per_log_page() + 30;
    for restart in 0..300 {
        let mut log = log(&geometry, 150);
        recover_log_and_list_invalid_pages(&mut log, &mut io, &[0; 64]);
        (0..64).for_each(|block| log.record_block_opened(BlockId(block)));
        log.drop_useless_newest_pages(&mut io).expect("no fault");
        (0..reports).for_each(|page| log.invalidate(Ppn(page)));
        if restart == 299 {
            // This start lasts long enough for all reports.
            while log.execute_next_deferred_validity_write(&mut io).expect("no fault") {}
            while log.write_back_step(&mut io).expect("no fault") {}
            assert_eq!((log.log_page_count(), log.current_entry_count()), (2, reports.into()));
        } else {
            assert!(log.execute_next_deferred_validity_write(&mut io).expect("no fault"));
            assert_eq!(log.log_page_count(), 1, "restart {restart}");
        }
    }
    let known = recover_log_and_list_invalid_pages(&mut log(&geometry, 150), &mut io, &[0; 64]);
    assert_eq!(known.iter().filter(|&&is_dead| is_dead).count(), reports as usize);
}

/// The validity log can write a buffer that is not full, and a recovery then finds all reports.
#[test]
fn the_validity_log_can_write_back_a_partly_filled_buffer() {
    let geometry = geometry([1, 64, 8, 512]);
    let mut drive = Drive::new(sim(&geometry), LOGICAL_PAGE_SHARE, log);
    for _ in 0..50 {
        drive.run(137);
        while drive.validity.write_back_step(&mut drive.io).expect("no fault") {}
        let mut log = log(&geometry, drive.spare_pages());
        let known = recover_log_and_list_invalid_pages(&mut log, &mut drive.io, &drive.opened_at_sequence);
        assert_eq!(known, drive.pages_invalid_before(u64::MAX));
        assert!(log.reports_durable_before_sequence() >= drive.io.last_sequence());
        let dead = known.iter().filter(|&&dead| dead).count() as u64;
        assert_eq!(log.current_entry_count(), dead, "pages that were cleaned are not found again");
    }
}

/// Positions in the validity log have 32 bits, so a log for a device with more entries is refused. A log without spare
/// pages is refused, too.
#[test]
fn validity_stores_refuse_devices_too_large_for_positions_of_32_bits() {
    let large = geometry([1, 1 << 20, 2048, 4096]);
    assert!(matches!(
        ValidityLog::new(&large, ValidityLogOptions { physical_minus_logical_pages: 1 << 20 }),
        Err(Error::InvalidOptions(_))
    ));
    let tiny = geometry([1, 64, 8, 512]);
    assert!(matches!(
        ValidityLog::new(&tiny, ValidityLogOptions { physical_minus_logical_pages: 0 }),
        Err(Error::InvalidOptions(_))
    ));
}

/// RAM of the stores of page validity for the device of the papers: 2 TiB, that is 2^22 blocks of 128 pages of 4 KiB.
#[test]
fn ram_of_validity_stores_equals_the_papers_figures_plus_listed_additions() {
    let paper = geometry([1, 1 << 22, 128, 4096]);
    let bytes = |parts: Vec<(&'static str, u64)>, part: &str| {
        parts.into_iter().find(|&(name, _)| name == part).expect("a part").1
    };
    let bitmap = bitmap(&paper, 0).ram_bytes_by_structure();
    // Directory of the bitmap, 0.06 MiB (GK-31): 2^29 bits in pages of 2^15.
    assert_eq!(bytes(bitmap.clone(), "validity bitmap directory"), 4 << 14);
    assert_eq!(bytes(bitmap, "void bitmap blocks"), 1 << 19);
    let log =
        log(&paper, ((1_u64 << 29) as f64 * (1.0 - LOGICAL_PAGE_SHARE)) as u64).ram_bytes_by_structure();
    // Chain heads 16 MiB, erase stamps 16 MiB (GK-33).
    assert_eq!(bytes(log.clone(), "validity chain heads"), 16 << 20);
    assert_eq!(bytes(log.clone(), "validity erase stamps"), 16 << 20);
    println!("directory of the log: {} bytes", bytes(log, "validity log directory"));
}
