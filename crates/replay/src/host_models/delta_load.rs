//! A synthetic load with a given share of delta writes, to compare Delta-FTL with its paper at the share that the paper
//! reports.
//!
//! Which writes become deltas depends on how soon a page is overwritten and how often it is read meanwhile. The paper
//! publishes only the results: the share of delta writes (`EuroSys` 2012, Figure 8) and the share of reads that find a
//! delta (Figure 14 and footnote 2). This load has these two shares as parameters, so that other results of the paper
//! can be compared at the paper's own operating point. It is not a substitute for a trace.
//!
//! - `hot` of all pages are hot at a time. A share `deltas` of the writes overwrites hot pages, equally often each; the
//!   other writes are uniform over the other pages.
//! - A hot page stays hot for `life` of its own overwrites on average; then another page takes its place. The first
//!   write of a page that became hot is not a delta, and pages that cooled down have to be found and merged.
//! - A share `hot_reads` of the reads are of hot pages; the other reads are uniform over the other pages.
//! - Requests are single pages; with a `rate`, arrivals are Poisson.

use rand_xoshiro::Xoshiro256PlusPlus;

use super::HostModel;
use super::script::RequestScript;
use super::spec_values::SpecValues;
use crate::workload::draw::{EventProbability, exponential_draw, uniform_below};
use crate::workload::permutation::Permutation;
use crate::workload::spec_grammar::{SpecError, SpecKey, SpecKind};

/// Specification kind of the host model `delta-load`: its name, description and keys.
pub(super) const SPEC_KIND: SpecKind = SpecKind {
    name: "delta-load",
    meaning: "a load whose share of delta writes is set (Delta-FTL)",
    keys: &[
        SpecKey { name: "pages", default: "262144", meaning: "pages of the volume, 16 to 2^32 - 1" },
        SpecKey { name: "requests", default: "1000000", meaning: "how many requests" },
        SpecKey { name: "write", default: "0.7", meaning: "share of requests that write, 0 to 1" },
        SpecKey { name: "deltas", default: "0.84", meaning: "share of writes to hot pages, 0 to 1" },
        SpecKey { name: "hot", default: "0.03", meaning: "share of pages that are hot at a time, 0 to 0.9" },
        SpecKey {
            name: "life",
            default: "64",
            meaning: "overwrites of a page while it is hot, on average, from 1 on",
        },
        SpecKey { name: "hot_reads", default: "0.05", meaning: "share of reads to hot pages, 0 to 1" },
        SpecKey { name: "rate", default: "0", meaning: "requests per second, 0 to 1e9; 0: all at once" },
    ],
};

/// Generator of the host model `delta-load`: a synthetic load with a given share of delta writes.
#[derive(Debug)]
pub(super) struct DeltaLoad {
    /// Random number generator of the load.
    random: Xoshiro256PlusPlus,
    /// Number of pages in the volume that the load reads and writes.
    volume_pages: u64,
    /// Number of requests that are still to be generated.
    requests_left: u64,
    /// Probability that a request is a write.
    write_probability: EventProbability,
    /// Probability that a write is to a hot page.
    hot_write_probability: EventProbability,
    /// Probability that a read is of a hot page.
    hot_read_probability: EventProbability,
    /// Mean time between two requests, nanoseconds; 0 if all requests arrive at once.
    mean_arrival_gap_ns: f64,
    /// Arrival time of the next request, nanoseconds.
    arrival_time_ns: f64,
    /// Page numbers of the pages that are hot (overwritten often) at present.
    hot_pages: Vec<u64>,
    /// Index, in the list of hot pages, of the page that has been hot (often overwritten) for longest, which is
    /// replaced next.
    oldest_hot_page_index: usize,
    /// Whether each page of the volume is hot (often overwritten) at present.
    is_hot: Vec<bool>,
    /// Random order in which the pages of the volume become hot (often overwritten).
    hot_page_order: Permutation,
    /// Number of pages that have become hot (often overwritten) so far.
    pages_made_hot: u64,
    /// Mean number of overwrites of a page while it is hot (often overwritten).
    mean_overwrites_while_hot: u64,
    /// Number of overwrites of hot pages so far.
    hot_page_overwrites: u64,
}

impl DeltaLoad {
    /// Creates the generator from the values of its specification's keys.
    pub(super) fn new(keys: &SpecValues, random: Xoshiro256PlusPlus) -> Result<Self, SpecError> {
        let pages = keys.integer_of_key("pages", 16..=u64::from(u32::MAX))?;
        let rate = keys.number_of_key("rate", 0.0..=1e9)?;
        let hot_pages = ((pages as f64 * keys.number_of_key("hot", 0.0..=0.9)?) as u64).max(1);
        let order = Permutation::new(pages, keys.integer_of_key("seed", 0..=u64::MAX)?);
        let hot: Vec<u64> = (0..hot_pages).map(|rank| order.apply(rank)).collect();
        let mut is_hot = vec![false; pages as usize];
        for &page in &hot {
            is_hot[page as usize] = true;
        }
        Ok(Self {
            hot_pages: hot,
            is_hot,
            pages_made_hot: hot_pages,
            oldest_hot_page_index: 0,
            hot_page_order: order,
            volume_pages: pages,
            requests_left: keys.integer_of_key("requests", 0..=u64::MAX)?,
            write_probability: EventProbability::new(keys.number_of_key("write", 0.0..=1.0)?),
            hot_write_probability: EventProbability::new(keys.number_of_key("deltas", 0.0..=1.0)?),
            hot_read_probability: EventProbability::new(keys.number_of_key("hot_reads", 0.0..=1.0)?),
            mean_arrival_gap_ns: if rate > 0.0 { 1e9 / rate } else { 0.0 },
            arrival_time_ns: 0.0,
            mean_overwrites_while_hot: keys.integer_of_key("life", 1..=u64::MAX)?,
            hot_page_overwrites: 0,
            random,
        })
    }

    /// Draws a page at random: one of the hot pages, or one of all other pages if `is_hot` is false.
    fn draw_page(&mut self, is_hot: bool) -> u64 {
        if is_hot {
            return self.hot_pages[uniform_below(&mut self.random, self.hot_pages.len() as u64) as usize];
        }
        loop {
            let page = uniform_below(&mut self.random, self.volume_pages);
            if !self.is_hot[page as usize] {
                return page;
            }
        }
    }

    /// Counts an overwrite of a hot page. After every `mean_overwrites_while_hot` such overwrites, the page that has
    /// been hot for longest becomes cold, and the next page of `hot_page_order` becomes hot.
    fn count_hot_write_and_rotate_hot_pages(&mut self) {
        self.hot_page_overwrites += 1;
        if !self.hot_page_overwrites.is_multiple_of(self.mean_overwrites_while_hot) {
            return;
        }
        // The order is a permutation, so the next page can already be hot only if nearly all pages are.
        let next = self.hot_page_order.apply(self.pages_made_hot % self.volume_pages);
        self.is_hot[self.hot_pages[self.oldest_hot_page_index] as usize] = false;
        self.is_hot[next as usize] = true;
        self.hot_pages[self.oldest_hot_page_index] = next;
        self.pages_made_hot += 1;
        self.oldest_hot_page_index = (self.oldest_hot_page_index + 1) % self.hot_pages.len();
    }
}

impl HostModel for DeltaLoad {
    fn plan_next_requests(&mut self, script: &mut RequestScript) {
        if self.requests_left == 0 {
            return;
        }
        self.requests_left -= 1;
        if self.mean_arrival_gap_ns > 0.0 {
            self.arrival_time_ns += exponential_draw(&mut self.random, self.mean_arrival_gap_ns);
        }
        script.set_arrival_time(self.arrival_time_ns as u64);
        if self.write_probability.draw_occurrence(&mut self.random) {
            let is_hot = self.hot_write_probability.draw_occurrence(&mut self.random);
            let page = self.draw_page(is_hot);
            script.plan_write(page, 1);
            if is_hot {
                self.count_hot_write_and_rotate_hot_pages();
            }
        } else {
            let is_hot = self.hot_read_probability.draw_occurrence(&mut self.random);
            let page = self.draw_page(is_hot);
            script.plan_read(page, 1);
        }
    }
}
