//! A batch of requests: page writes together where the design allows it, anything else one by one.
//!
//! The FTL knows no clock, so a design that writes in runs can be ahead of the time of its requests by a batch: their
//! operations are priced afterwards, each at its arrival. Whatever acts between two requests (collection in idle time,
//! throttling) excludes that.

use wearwell::Error;
use wearwell::operation::{Cause, FlashOp, OpKind};
use wearwell::timing::RequestKind;
use wearwell_trace::{Op, Request};

use super::Run;

impl Run<'_> {
    /// Whether nothing comes between two writes of whole pages.
    pub(super) fn writes_together(&self) -> bool {
        let collects_between = self.timing.is_some() && self.plan.resolved.gc.background_blocks > 0;
        self.device.writes_in_runs() && self.managed.is_none() && !collects_between
    }

    /// Executes a batch; how many of its requests before the outcome.
    pub(super) fn execute_batch(&mut self, batch: &[Request]) -> (usize, Result<(), Error>) {
        let (executed, outcome) = self.execute_some(batch);
        self.host_bytes += batch[..executed].iter().map(written_bytes).sum::<u64>();
        let reads = batch[..executed].iter().filter(|request| request.op == Op::Read);
        self.host_read_bytes += reads.map(|request| request.len_bytes).sum::<u64>();
        (executed, outcome)
    }

    fn execute_some(&mut self, batch: &[Request]) -> (usize, Result<(), Error>) {
        if self.writes_together() && batch.iter().all(|request| self.as_page_write(request).is_some()) {
            return self.write_batch(batch);
        }
        self.device.ftl().prefetch(&self.upcoming, &self.upcoming_contents);
        self.device.ftl().prefetch_reads(&self.upcoming_reads);
        for (request, executed) in batch.iter().zip(0..) {
            if let Err(error) = self.execute(request) {
                return (executed, Err(error));
            }
            self.measured += 1;
        }
        (batch.len(), Ok(()))
    }

    /// Writes whole pages: `upcoming` says all that there is to know of them but their times.
    fn write_batch(&mut self, batch: &[Request]) -> (usize, Result<(), Error>) {
        let (written, outcome) = self.device.write_pages(&self.upcoming);
        let batch = &batch[..written];
        batch.first().into_iter().chain(batch.last()).for_each(|request| self.note_time(request.time_ns));
        if self.timing.is_some() {
            self.time_writes(batch);
        }
        self.measured += written as u64;
        (written, outcome)
    }

    /// Prices writes that the FTL has done, each with the operations up to its program.
    fn time_writes(&mut self, batch: &[Request]) {
        let Self { device, timing: Some(timing), clock, pace, first_ns: Some(first_ns), .. } = self else {
            return;
        };
        let is_host_program = |op: &FlashOp| (op.kind, op.cause) == (OpKind::Program, Cause::Host);
        let mut lists = device.ops().split_inclusive(is_host_program);
        for request in batch {
            clock.set_arrival(*pace, timing, request.time_ns, *first_ns);
            let list = lists.next().expect("a write ends with its program");
            timing.submit(RequestKind::Write, clock.arrival_ns, list);
        }
        self.work_before = self.device.ftl().stats().work;
        self.device.ftl_mut().store_mut().ops.clear();
    }
}

/// Bytes that a request makes the drive write.
pub(super) fn written_bytes(request: &Request) -> u64 {
    if request.op == Op::Write { request.len_bytes } else { 0 }
}
