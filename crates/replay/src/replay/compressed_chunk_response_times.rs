//! Response times of writes that are buffered until a compressed chunk is full, measured until their data is on flash.
//!
//! Of the four pages of a chunk, three are acknowledged on arrival, because a battery protects the buffer; the write
//! that completes the chunk waits for its programs. So the mean response time shows how often the buffer answers, not
//! what compression saves: incompressible data also gets three of four answers at once. Here the buffered pages are
//! charged the response time of the write that completed their chunk. The time until that write arrived is not counted,
//! because it depends on the host.
//!
//! A request of several pages may complete a chunk and leave pages in the buffer. It ends the waiting of the writes
//! before it and then waits itself.

use rustc_hash::FxHashMap;
use wearwell::Ftl;
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

/// Pages that have come into the chunk buffer and have left it, since the counters of the run were cleared.
#[derive(Clone, Copy, Debug)]
pub(super) struct ChunkBufferTraffic {
    /// Number of pages of host writes that were added to the buffer.
    pages_in: u64,
    /// Number of pages that were written to flash from the buffer, compressed or not.
    pages_out: u64,
    /// Number of pages in the buffer now.
    buffered_pages: usize,
}

impl ChunkBufferTraffic {
    /// Reads the traffic from the counters of an FTL; `None` if its design does not compress.
    pub(super) fn of(ftl: &Ftl) -> Option<Self> {
        let counts = ftl.compression_statistics()?;
        Some(Self {
            // A page that leaves the buffer uncompressed is taken out of the number of compressed writes.
            pages_in: ftl.stats().compressed_chunk_writes + counts.written_uncompressed_pages,
            pages_out: counts.host_written_chunk_members + counts.written_uncompressed_pages,
            buffered_pages: ftl.logical_pages_awaiting_compression(),
        })
    }
}

impl CompressedChunkResponseTimes {
    /// Records the request with number `request_number`, before which the traffic of the chunk buffer was `before`.
    pub(super) fn record_request(
        &mut self,
        request_number: u64,
        before: ChunkBufferTraffic,
        now: ChunkBufferTraffic,
    ) {
        if now.pages_out > before.pages_out {
            let waited = std::mem::replace(&mut self.waiting_writes, u64::from(now.buffered_pages > 0));
            self.waiting_writes_by_completing_request.insert(request_number, waited);
        } else if now.buffered_pages == 0 {
            // The last pages were trimmed, or replaced by pages that are stored elsewhere.
            self.waiting_writes = 0;
        } else if now.pages_in > before.pages_in {
            self.waiting_writes += 1;
        }
    }

    /// Forgets the writes whose pages were lost from the chunk buffer in a loss of power. `pages` is the number of
    /// pages in the buffer after the recovery.
    pub(super) fn drop_lost_writes(&mut self, pages: usize) {
        self.waiting_writes = self.waiting_writes.min(pages as u64);
    }

    /// For each completed request that wrote compressed chunks, adds its latency to the total once per write that had
    /// waited in RAM for these chunks.
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the completion of a request after `latency_us` microseconds.
    fn completion(request_number: u64, latency_us: u64) -> Completion {
        Completion { request_number, completed_at_ns: 0, latency_ns: latency_us * 1000 }
    }

    /// Records requests one after the other, each given by the traffic of the chunk buffer after it: pages in, pages
    /// out, pages in the buffer.
    fn times_of(traffic: &[(u64, u64, usize)]) -> CompressedChunkResponseTimes {
        let mut times = CompressedChunkResponseTimes::default();
        let mut before = ChunkBufferTraffic { pages_in: 0, pages_out: 0, buffered_pages: 0 };
        for (number, &(pages_in, pages_out, buffered_pages)) in (0..).zip(traffic) {
            let now = ChunkBufferTraffic { pages_in, pages_out, buffered_pages };
            times.record_request(number, before, now);
            before = now;
        }
        times
    }

    #[test]
    fn a_request_that_completes_a_chunk_and_leaves_pages_ends_the_waiting_of_earlier_writes() {
        // Writes of two, four and two pages fill two chunks of four.
        let mut times = times_of(&[(2, 0, 2), (6, 4, 2), (8, 8, 0)]);
        times.add_waiting_write_latencies(&[completion(0, 1), completion(1, 700), completion(2, 900)]);
        assert_eq!(times.total_chunk_program_wait_ns.to_bits(), 1_600_000.0_f64.to_bits());
    }

    #[test]
    fn a_trim_of_the_last_buffered_page_completes_no_chunk() {
        let mut times = times_of(&[(1, 0, 1), (1, 0, 0), (2, 0, 1), (5, 4, 0)]);
        times.add_waiting_write_latencies(&[completion(1, 50), completion(3, 900)]);
        assert_eq!(times.total_chunk_program_wait_ns.to_bits(), 900_000.0_f64.to_bits());
    }
}
