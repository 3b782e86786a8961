//! Response times of writes that gather in the chunk buffer, counted until they are on flash.
//!
//! Three of four pages of a chunk are acknowledged when they come, because the buffer is on battery; the write that completes
//! the chunk waits for its programs. The mean response of such a run says how often the buffer answers, not what compression
//! saves: incompressible data gets three answers of four in no time as well. Here the pages that waited are charged the
//! response of the write that completed their chunk. The time that they waited for company is not counted: it is the host's.

use rustc_hash::FxHashMap;
use wearwell::timing::Completion;

/// See the module's head.
#[derive(Debug, Default)]
pub(super) struct Gathered {
    /// Writes that wait for their chunk.
    waiting: u64,
    /// Numbers of requests that completed a chunk and are not completed themselves, with the writes that waited for them.
    completing: FxHashMap<u64, u64>,
    charged_ns: f64,
}

impl Gathered {
    /// A write that left `pages` pages in the chunk buffer; before it there were `before`.
    pub(super) fn note(&mut self, request: u64, (before, pages): (usize, usize), gathers: bool) {
        if pages == 0 && before > 0 {
            self.completing.insert(request, std::mem::take(&mut self.waiting));
        } else if gathers && pages > 0 {
            self.waiting += 1;
        }
    }

    /// Takes note of completed requests.
    pub(super) fn complete(&mut self, completions: &[Completion]) {
        for completion in completions {
            if let Some(writes) = self.completing.remove(&completion.request) {
                self.charged_ns += writes as f64 * completion.latency_ns as f64;
            }
        }
    }

    /// Mean response until programmed of `writes` requests that were answered after `mean_us` on average, microseconds.
    pub(super) fn mean_us(&self, mean_us: f64, writes: u64) -> f64 {
        if writes == 0 { 0.0 } else { mean_us + self.charged_ns / 1e3 / writes as f64 }
    }
}
