//! Executes a batch of requests: page writes together if the design allows it, all other requests one by one.
//!
//! The FTL has no clock. So a design that writes several pages in one call may execute a whole batch before its
//! requests are timed; their operations are timed afterwards, each from its arrival. This is impossible if something
//! acts between two requests, such as collection in idle time or throttling.

use wearwell::Error;
use wearwell::operation::{Cause, FlashOp, OpKind};
use wearwell::timing::RequestKind;
use wearwell_trace::{Op, Request};

use super::Run;

impl Run<'_> {
    /// Whether consecutive writes of whole pages can be executed in one call of the FTL: no background GC and no
    /// throttling acts between the writes, and no trace records the state after each write.
    pub(super) fn can_batch_writes(&self) -> bool {
        let collects_between =
            self.timing.is_some() && self.plan.resolved_device.gc_options.background_gc_below_free_blocks > 0;
        self.device.supports_write_batches()
            && self.lifetime_management.is_none()
            && !collects_between
            && self.trace_recorder.is_none()
    }

    /// Executes a batch of requests. Returns how many requests were executed, and the error of the next request if that
    /// failed.
    pub(super) fn execute_batch(&mut self, batch: &[Request]) -> (usize, Result<(), Error>) {
        let (executed, outcome) = self.execute_batch_without_byte_counts(batch);
        self.host_request_counts.written_bytes +=
            self.executor.written_bytes(&batch[..executed]) + self.executor.take_zeroed_part_bytes();
        let reads = batch[..executed].iter().filter(|request| request.op == Op::Read);
        self.host_request_counts.read_bytes += reads.map(|request| request.len_bytes).sum::<u64>();
        (executed, outcome)
    }

    /// Executes a batch as [`Self::execute_batch`] does, but does not count the requested bytes.
    fn execute_batch_without_byte_counts(&mut self, batch: &[Request]) -> (usize, Result<(), Error>) {
        if self.can_batch_writes() && batch.iter().all(|request| self.as_page_write(request).is_some()) {
            return self.write_batch(batch);
        }
        self.device.ftl().prefetch_table_entries_for_writes(
            &self.input.lookahead.first_lpns_of_writes,
            &self.input.lookahead.first_fingerprints_of_writes,
        );
        self.device.ftl().prefetch_reads(&self.input.lookahead.first_lpns_of_reads);
        for (request, executed) in batch.iter().zip(0..) {
            if let Err(error) = self.execute_request(request) {
                return (executed, Err(error));
            }
            self.host_request_counts.requests += 1;
        }
        (batch.len(), Ok(()))
    }

    /// Writes a batch in which every request is a write of one whole page. The pages are in `self.input.lookahead`
    /// already, so only the requests' times are read here.
    fn write_batch(&mut self, batch: &[Request]) -> (usize, Result<(), Error>) {
        let (written, outcome) =
            self.device.write_pages_without_content(&self.input.lookahead.first_lpns_of_writes);
        let batch = &batch[..written];
        for request in batch {
            self.record_request_time(request.time_ns);
        }
        if self.timing.is_some() {
            self.submit_writes_to_timing(batch);
        }
        self.host_request_counts.requests += written as u64;
        (written, outcome)
    }

    /// Submits page writes that the FTL has executed to the timing engine, each with its flash operations up to and
    /// including its own program.
    fn submit_writes_to_timing(&mut self, batch: &[Request]) {
        let Self { device, timing: Some(timing), clock, host_request_counts, .. } = self else {
            return;
        };
        let Some(first_ns) = host_request_counts.first_request_ns else { return };
        let is_host_program = |op: &FlashOp| (op.kind, op.cause) == (OpKind::Program, Cause::Host);
        let mut lists = device.flash_ops_of_last_request().split_inclusive(is_host_program);
        for request in batch {
            clock.set_arrival_time(timing, request.time_ns, first_ns);
            let list = lists.next().expect("a write ends with its program");
            timing.submit(RequestKind::Write, clock.arrival_ns, list);
        }
        self.subtracted_counters.controller_work = self.device.ftl().stats().controller_work;
        self.device.ftl_mut().store_mut().flash_ops.clear();
    }
}
