//! Response times of writes that are buffered until a compressed chunk is full, measured until their data is on flash.
//!
//! Of the four pages of a chunk, three are acknowledged on arrival, because a battery protects the buffer; the write
//! that completes the chunk waits for its programs. So the mean response time shows how often the buffer answers, not
//! what compression saves: incompressible data also gets three of four answers at once. Here the buffered pages are
//! charged the response time of the write that completed their chunk. The time until that write arrived is not counted,
//! because it depends on the host.

use rustc_hash::FxHashMap;
use wearwell::timing::Completion;

/// Sums up the response times of writes that were buffered for a compressed chunk, until their chunk was programmed.
#[derive(Debug, Default)]
pub(super) struct CompressedChunkResponseTimes {
    /// Number of writes whose pages wait in RAM because their compressed chunk is not complete yet.
    waiting_writes: u64,
    /// Number of writes that waited for a compressed chunk, by the number of the request that completed the chunk; only
    /// for requests that have no completion time yet.
    waiting_writes_by_completing_request: FxHashMap<u64, u64>,
    /// Sum, over all writes that waited for a compressed chunk, of the latencies of the requests that completed the
    /// chunks.
    total_chunk_program_wait_ns: f64,
}

impl CompressedChunkResponseTimes {
    /// Records the write with number `request_number`, and the number of pages in the compression buffer before and
    /// after the write. `is_buffered_for_chunk` is whether the write was buffered for a compressed chunk. If the buffer
    /// is empty after the write, this write completed the chunk.
    pub(super) fn record_chunk_write(
        &mut self,
        request_number: u64,
        (before, pages): (usize, usize),
        is_buffered_for_chunk: bool,
    ) {
        if pages == 0 && before > 0 {
            self.waiting_writes_by_completing_request
                .insert(request_number, std::mem::take(&mut self.waiting_writes));
        } else if is_buffered_for_chunk && pages > 0 {
            self.waiting_writes += 1;
        }
    }

    /// Forgets the writes whose pages were lost from the chunk buffer in a loss of power. `pages` is the number of
    /// pages in the buffer after the recovery.
    pub(super) fn drop_lost_writes(&mut self, pages: usize) {
        self.waiting_writes = self.waiting_writes.min(pages as u64);
    }

    /// Adds, for each write that waited for a compressed chunk, the latency of the request in `completions` that
    /// completed the chunk.
    pub(super) fn add_waiting_write_latencies(&mut self, completions: &[Completion]) {
        for completion in completions {
            if let Some(writes) = self.waiting_writes_by_completing_request.remove(&completion.request_number)
            {
                self.total_chunk_program_wait_ns += writes as f64 * completion.latency_ns as f64;
            }
        }
    }

    /// Returns the mean response time until a host write is programmed, microseconds. `writes` is the number of host
    /// writes, and `mean_us` the mean time after which they were answered.
    pub(super) fn mean_write_to_program_us(&self, mean_us: f64, writes: u64) -> f64 {
        if writes == 0 { 0.0 } else { mean_us + self.total_chunk_program_wait_ns / 1e3 / writes as f64 }
    }
}
