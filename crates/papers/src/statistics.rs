//! Statistics of a trace on a device that never erases: the tables that papers show of their traces before any design
//! runs.
//!
//! The papers leave some terms open; the definitions here follow the Recyclable SSD paper (sections III and IV), with a
//! store and a device without limits. A page dies when its address is written again. Its popularity is the number of
//! reads while it was valid, at most 15. Its version is 15 minus its position among the dead pages of its address, the
//! newest first. A dead page is *recycled* when a later write has the same content: it is removed from its address's
//! list, belongs to the written address from then on, and may die again. If several dead pages have that content, the
//! newest is recycled.
//!
//! Memory: about 60 bytes per page written.

use std::collections::{BTreeMap, HashMap};

use rustc_hash::FxBuildHasher;
use wearwell::data::Fingerprint;
use wearwell_replay::input::Input;
use wearwell_replay::replay::{OnProgress, Progress, RunPhase};
use wearwell_trace::{Op, Request};

use super::missing_record::MissingRecordReason;

/// Number of classes of page popularity (reads of a page while it was valid, 0 to 15) and of page version (15 for the
/// newest dead page of an address, 14 for the one before), which have four bits each.
const POPULARITY_OR_VERSION_CLASSES: usize = 16;
/// Number of requests of the trace that are counted between two calls of the progress callback.
const REQUESTS_PER_PROGRESS_REPORT: u64 = 1 << 16;

/// Hash map with the hash function Fx, which is faster than the default one.
type FastMap<K, V> = HashMap<K, V, FxBuildHasher>;

/// One page version of a trace, with its content, its current address and its number of reads.
#[derive(Clone, Copy, Debug)]
struct PageVersion {
    /// Fingerprint of the content; `None` if the trace has no contents.
    content: Option<Fingerprint>,
    /// Index, in the list of address states, of the address that holds or last held the version.
    address_index: u32,
    /// Number of reads of the version while it was valid, at most 15: its popularity.
    read_count: u8,
}

/// State of a logical address: its valid and its dead page versions, and how often it was overwritten.
#[derive(Debug, Default)]
struct AddressState {
    /// Index, in the list of page versions, of the version that is valid at this logical address; `None` if none is.
    valid_page_index: Option<u32>,
    /// Indexes, in the list of page versions, of the dead (overwritten) versions of this logical address, oldest first.
    dead_page_indexes: Vec<u32>,
    /// Number of times that the address was overwritten.
    overwrites: u64,
}

/// State while the requests of a trace are counted: counters of requests and pages, and every version of every page.
#[derive(Debug, Default)]
struct TraceStatisticsCounter {
    /// All page versions of the trace; other fields refer to them by index.
    page_versions: Vec<PageVersion>,
    /// Index, in the list of address states, of each logical address (device number and page number).
    address_indexes: FastMap<(u32, u64), u32>,
    /// States of all logical addresses that the trace writes; other fields refer to them by index.
    address_states: Vec<AddressState>,
    /// For each content: its dead page versions in the order in which they died, as indexes in the list of page
    /// versions.
    dead_pages_by_content: FastMap<Fingerprint, Vec<u32>>,
    /// Number of read requests.
    read_requests: u64,
    /// Number of write requests.
    write_requests: u64,
    /// Number of pages that the write requests write.
    pages_written: u64,
    /// Number of dead pages that were recycled: written again with equal content.
    recycled_pages: u64,
    /// Time of the first request of any operation, nanoseconds; `None` before it is counted.
    first_request_ns: Option<u64>,
    /// Time of the last request of any operation, nanoseconds.
    last_request_ns: u64,
    /// Number of pages that died, by popularity (number of reads while valid).
    dead_pages_by_popularity: [u64; POPULARITY_OR_VERSION_CLASSES],
    /// Number of dead pages that were recycled, by popularity (number of reads while valid).
    recycled_pages_by_popularity: [u64; POPULARITY_OR_VERSION_CLASSES],
    /// Number of dead pages that were recycled, by their age among the dead versions of the address: 15 for the newest,
    /// 14 for the one before.
    recycled_pages_by_version_age: [u64; POPULARITY_OR_VERSION_CLASSES],
}

/// Counts the requests and pages of an input, and how many dead pages were recycled (written again with equal content),
/// by popularity (reads while valid) and version (age among the dead pages of the address). Returns the counts by name.
///
/// # Errors
/// The input cannot be read, or the user ended the run.
pub fn compute_trace_statistics(
    input: &Input,
    on_progress: OnProgress<'_>,
) -> Result<BTreeMap<String, f64>, MissingRecordReason> {
    let not_run = |error: wearwell_trace::TraceError| MissingRecordReason::NotRun(error.to_string());
    let mut requests = input.open().map_err(not_run)?;
    let mut request = Request::default();
    let mut count = TraceStatisticsCounter::default();
    let mut done = 0;
    while requests.next_request(&mut request).map_err(not_run)? {
        count.count_request(&request);
        done += 1;
        if done % REQUESTS_PER_PROGRESS_REPORT == 0 {
            let progress =
                Progress { phase: RunPhase::Replay, done_work_units: done, total_work_units: done };
            if on_progress(progress).is_break() {
                return Err(MissingRecordReason::Interrupted);
            }
        }
    }
    Ok(count.trace_figures(done))
}

impl TraceStatisticsCounter {
    /// Counts a request of the trace and its pages. Of requests other than reads and writes, only the time counts.
    fn count_request(&mut self, request: &Request) {
        self.first_request_ns.get_or_insert(request.time_ns);
        self.last_request_ns = request.time_ns;
        match request.op {
            Op::Read => {
                self.read_requests += 1;
                request.pages().for_each(|page| self.count_page_read(request.device, page));
            }
            Op::Write => {
                self.write_requests += 1;
                for (k, page) in request.pages().enumerate() {
                    let content = request.content.get(k).map(|content| content.fingerprint);
                    self.count_page_write(request.device, page, content);
                }
            }
            _ => {}
        }
    }

    /// Counts a read of the version that is valid at a page address, if there is one.
    fn count_page_read(&mut self, device: u32, page: u64) {
        let Some(&address) = self.address_indexes.get(&(device, page)) else { return };
        if let Some(valid) = self.address_states[address as usize].valid_page_index {
            let reads = &mut self.page_versions[valid as usize].read_count;
            *reads = (*reads + 1).min(POPULARITY_OR_VERSION_CLASSES as u8 - 1);
        }
    }

    /// Counts a write of a page address. The address gets a recycled dead version or a new one, and the version that
    /// was valid there dies.
    fn count_page_write(&mut self, device: u32, page: u64, content: Option<Fingerprint>) {
        self.pages_written += 1;
        let next = self.address_states.len() as u32;
        let address = *self.address_indexes.entry((device, page)).or_insert(next);
        if address == next {
            self.address_states.push(AddressState::default());
        }
        // The content is looked up before the old version dies, as in the paper's write path.
        let page = self.recycle_dead_page(content).unwrap_or_else(|| {
            self.page_versions.push(PageVersion { content, address_index: address, read_count: 0 });
            self.page_versions.len() as u32 - 1
        });
        self.page_versions[page as usize].address_index = address;
        if let Some(old) = self.address_states[address as usize].valid_page_index.replace(page) {
            self.record_dead_page(address, old);
        }
    }

    /// Recycles the newest dead page version with this content: removes it from the list of its address, and returns
    /// its index. Returns `None` if no dead version has this content.
    fn recycle_dead_page(&mut self, content: Option<Fingerprint>) -> Option<u32> {
        let page = self.dead_pages_by_content.get_mut(&content?)?.pop()?;
        let PageVersion { address_index: address, read_count: reads, .. } = self.page_versions[page as usize];
        let dead = &mut self.address_states[address as usize].dead_page_indexes;
        let at = dead.iter().rposition(|&other| other == page).expect("a dead page is in its list");
        let newer = dead.len() - 1 - at;
        dead.remove(at);
        self.recycled_pages += 1;
        self.recycled_pages_by_popularity[reads as usize] += 1;
        self.recycled_pages_by_version_age[(POPULARITY_OR_VERSION_CLASSES - 1).saturating_sub(newer)] += 1;
        Some(page)
    }

    /// Records that the page version with index `page` has died at the address with index `address`.
    fn record_dead_page(&mut self, address: u32, page: u32) {
        let PageVersion { content, read_count: reads, .. } = self.page_versions[page as usize];
        let address = &mut self.address_states[address as usize];
        address.overwrites += 1;
        address.dead_page_indexes.push(page);
        self.dead_pages_by_popularity[reads as usize] += 1;
        if let Some(content) = content {
            self.dead_pages_by_content.entry(content).or_default().push(page);
        }
    }

    /// Returns the counted numbers by name; `requests` is the number of all requests of the trace.
    fn trace_figures(&self, requests: u64) -> BTreeMap<String, f64> {
        let overwrites: u64 = self.address_states.iter().map(|address| address.overwrites).sum();
        let overwritten = self.address_states.iter().filter(|address| address.overwrites > 0).count();
        let mut figures = BTreeMap::from([
            ("requests".to_owned(), requests as f64),
            ("reads".to_owned(), self.read_requests as f64),
            ("writes".to_owned(), self.write_requests as f64),
            ("pages_written".to_owned(), self.pages_written as f64),
            ("addresses".to_owned(), self.address_states.len() as f64),
            ("invalid".to_owned(), overwrites as f64),
            ("overwritten_addresses".to_owned(), overwritten as f64),
            ("recycled".to_owned(), self.recycled_pages as f64),
            (
                "duration_s".to_owned(),
                self.last_request_ns.saturating_sub(self.first_request_ns.unwrap_or(0)) as f64 / 1e9,
            ),
        ]);
        let histograms = [
            ("invalid_by_popularity", &self.dead_pages_by_popularity),
            ("recycled_by_popularity", &self.recycled_pages_by_popularity),
            ("recycled_by_version", &self.recycled_pages_by_version_age),
        ];
        for (name, histogram) in histograms {
            for (class, &count) in histogram.iter().enumerate().filter(|(_, count)| **count > 0) {
                figures.insert(format!("{name}.{class}"), count as f64);
            }
        }
        figures
    }
}
