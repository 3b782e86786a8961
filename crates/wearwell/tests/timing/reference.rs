//! A naive, exact simulator with the service rules of the event engine (timing model with queues, priorities and
//! suspension).
//!
//! It is written to be obviously right: every step is an event in one binary heap, every queue holds single operations,
//! and nothing is skipped or merged. It is slow, and shares no code with the engine.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use wearwell::nand::{FlashTiming, Geometry};
use wearwell::operation::{Cause, FlashOp, OpKind};
use wearwell::timing::TimingOptions;

/// Number of the event class "a channel becomes free". The numbers of the event classes give the order in which
/// simultaneous events are handled.
const CHANNEL_FREE_EVENT: u8 = 0;
/// Number of the event class "an array (die or plane) has sensed a page, which can be transferred".
const PAGE_SENSED_EVENT: u8 = 1;
/// Number of the event class "the transfer of a page has ended".
const TRANSFER_END_EVENT: u8 = 2;
/// Number of the event class "an array (die or plane) has ended its programs".
const PROGRAM_END_EVENT: u8 = 3;
/// Number of the event class "an array (die or plane) has ended its erases".
const ERASE_END_EVENT: u8 = 4;
/// Number of the event class "a scan of NVRAM has ended".
const NVRAM_SCAN_END_EVENT: u8 = 5;

/// Flash operation, or scan of NVRAM, that was submitted.
struct Op {
    /// Kind, plane, cause and dependency of the operation.
    flash: FlashOp,
    /// Index of the request to which the operation belongs.
    request: usize,
    /// Index of the queue of its array: 0 for urgent reads, 1 for other operations, 2 for background work that yields
    /// to the host; none for a scan.
    queue: usize,
    /// Index of the array (die or plane) that executes the operation.
    array_index: usize,
    /// Whether the operation is in its queue; before that, the operation waits for its predecessor.
    queued: bool,
    /// Number of the batch of copies to which the operation belongs; `None` if copies are handled one by one.
    batch: Option<usize>,
    /// Index of the NVRAM scan that must end before the operation joins its queue.
    held_by_scan: Option<usize>,
    /// Indices of the arrays (dies or planes) that hold the victim of a scan; empty for a scan without a victim, and
    /// for other operations.
    gc_victim_arrays: Vec<usize>,
    /// Whether the operation has ended.
    done: bool,
    /// Indices of the operations that wait for the end of this one.
    followers: Vec<usize>,
}

/// State of an array: a die, or a plane if planes work independently.
#[derive(Default)]
struct Array {
    /// Waiting operations in three queues: urgent reads, other operations, and background work that yields to the host.
    queues_by_priority: [VecDeque<usize>; 3],
    /// Operations that the array executes together, of which there is one except with multi-plane operations.
    running_ops: Vec<usize>,
    /// Number of running programs whose data has been transferred.
    transferred_programs: usize,
    /// Programs or erases that a read has suspended.
    suspended_ops: Vec<usize>,
    /// Time that the suspended operations still need, nanoseconds.
    remaining_ns: u64,
    /// Number of suspensions of the running or suspended operations so far.
    suspensions: u32,
    /// Whether the running operations may not be suspended, because background work is behind.
    must_finish_running_ops: bool,
    /// Whether the operation started last was an urgent read.
    last_started_op_was_urgent_read: bool,
    /// Background operations that precede the next host write, counted from the time at which this write could have
    /// started: the number that have started, and the number that must start before the write. `None` before a write
    /// could start.
    started_and_due_ops_before_write: Option<(usize, usize)>,
    /// Whether an erase has started since the number of operations due before the next write (second number in
    /// `started_and_due_ops_before_write`) was computed. If so, it is computed again.
    has_started_erase: bool,
    /// Number of pages that erases of victims have freed or will free, minus the pages that copies and host writes use.
    pages_gained_by_gc: f64,
    /// Indices of the background operations of the array that were issued, but wait for other operations before they
    /// join its queue.
    unqueued_background_ops: Vec<usize>,
    /// End of the running program or erase, nanoseconds; `None` if none is running.
    phase_end_ns: Option<u64>,
    /// Number of suspensions so far; it makes the end event of a suspended operation void.
    end_event_version: u64,
}

/// State of a channel, which transfers one page at a time.
#[derive(Default)]
struct Channel {
    /// Whether a transfer is running.
    busy: bool,
    /// Arrays that wait for the channel in two queues: with urgent reads, and with other operations.
    waiting_arrays_by_priority: [VecDeque<usize>; 2],
}

/// Naive simulator of the event engine's service rules.
pub struct NaiveTimingSimulator {
    /// Numbers of channels, dies and planes.
    geometry: Geometry,
    /// Times of flash operations.
    flash: FlashTiming,
    /// Options of the timing engine.
    options: TimingOptions,
    /// All operations submitted so far, in order.
    ops: Vec<Op>,
    /// State of each array (die or plane).
    flash_arrays: Vec<Array>,
    /// State of each channel.
    channels: Vec<Channel>,
    /// Future events, the earliest first. Each has its time (nanoseconds), its class, the index of the array, channel
    /// or NVRAM scan, and the `end_event_version` of the array, by which void events are found.
    event_heap: BinaryHeap<Reverse<(u64, u8, usize, u64)>>,
    /// Time of the current event, nanoseconds.
    now_ns: u64,
    /// Number of operations of each request that have not ended; background operations are not counted.
    unfinished_ops_by_request: Vec<usize>,
    /// Indices of the NVRAM scans that have not ended, in the order in which they were submitted.
    unfinished_nvram_scans: Vec<usize>,
    /// Index of the scan that now reads the NVRAM, followed by the indices of the scans that wait for it.
    nvram_scan_queue: VecDeque<usize>,
    /// Indices of the arrays (dies or planes) that received work at the current event.
    arrays_with_new_work: Vec<usize>,
    /// Completion time of each request, nanoseconds; `None` before it completes.
    pub completion_times_ns: Vec<Option<u64>>,
}

/// Replaces each batch of copies in a list of flash operations by reads and programs, and adjusts the distances between
/// dependent operations. Returns each operation with the position of its batch in the list, if it belongs to one.
fn split_copy_batches(list: &[FlashOp]) -> Vec<(FlashOp, Option<usize>)> {
    let mut ops: Vec<(FlashOp, Option<usize>)> = Vec::new();
    for (index, op) in list.iter().enumerate() {
        if op.kind == OpKind::Copies {
            for _ in 0..op.copied_page_or_nvram_line_count {
                let read = FlashOp { kind: OpKind::Read, ops_back_to_dependency: 0, ..*op };
                let program = FlashOp { kind: OpKind::Program, ops_back_to_dependency: 1, ..*op };
                ops.extend([(read, Some(index)), (program, Some(index))]);
            }
        } else {
            // What waits for a batch of copies waits for its last program.
            let between = &list[(index - op.ops_back_to_dependency as usize + 1).min(index)..index];
            let inserted: u32 =
                between
                    .iter()
                    .map(|op| {
                        if op.kind == OpKind::Copies { 2 * op.copied_page_or_nvram_line_count - 1 } else { 0 }
                    })
                    .sum();
            let after = op.ops_back_to_dependency + inserted as u16;
            ops.push((FlashOp { ops_back_to_dependency: after, ..*op }, None));
        }
    }
    ops
}

impl NaiveTimingSimulator {
    /// Creates a simulator of an idle device.
    pub fn new(geometry: &Geometry, flash: FlashTiming, options: &TimingOptions) -> Self {
        let flash_arrays = if options.has_independent_planes { geometry.planes() } else { geometry.dies() };
        Self {
            geometry: geometry.clone(),
            flash,
            options: options.clone(),
            ops: Vec::new(),
            flash_arrays: (0..flash_arrays).map(|_| Array::default()).collect(),
            channels: (0..geometry.channels).map(|_| Channel::default()).collect(),
            event_heap: BinaryHeap::new(),
            now_ns: 0,
            unfinished_ops_by_request: Vec::new(),
            unfinished_nvram_scans: Vec::new(),
            nvram_scan_queue: VecDeque::new(),
            arrays_with_new_work: Vec::new(),
            completion_times_ns: Vec::new(),
        }
    }

    /// Submits a request at time `arrival` (nanoseconds) with its list of flash operations. All events up to this time
    /// are executed before.
    pub fn submit(&mut self, arrival: u64, list: &[FlashOp]) {
        // A list with copies for which the host waits is taken apart, too.
        let is_awaited_batch = |op: &FlashOp| op.kind == OpKind::Copies && !op.is_background();
        let takes_batches_apart = self.options.uses_multi_plane_ops || list.iter().any(is_awaited_batch);
        let list = &split_copy_batches(list);
        self.run(arrival);
        self.now_ns = arrival;
        let request = self.unfinished_ops_by_request.len();
        let awaited = list.iter().filter(|(op, _)| !op.is_background()).count();
        self.unfinished_ops_by_request.push(awaited);
        self.completion_times_ns.push((awaited == 0).then_some(arrival));
        let base = self.ops.len();
        let mut scan = None;
        for (index, (flash, batch)) in list.iter().enumerate() {
            let mut op = self.new_op(*flash, request);
            op.batch = batch.filter(|_| !takes_batches_apart).map(|batch| base + batch);
            let held_by_scan = scan.filter(|_| op.flash.is_background());
            self.ops.push(op);
            let id = base + index;
            self.count_issued_op(id);
            if flash.kind == OpKind::NvramScan {
                scan = Some(id);
                self.unfinished_nvram_scans.push(id);
                self.start_ready_nvram_scans();
                continue;
            }
            match (flash.ops_back_to_dependency as usize, held_by_scan) {
                (0, None) => self.join_queue_of_array(id),
                (0, Some(scan)) => self.hold_until_scan_ends(id, scan),
                (back, _) => self.follow(id, id - back),
            }
        }
        self.start_ops_of_arrays_with_new_work();
    }

    /// Counts the pages that an issued operation will free or use, if it is background work that yields to the host.
    fn count_issued_op(&mut self, id: usize) {
        let op = &self.ops[id];
        if let (2, Some(free)) = (op.queue, self.options.free_blocks) {
            self.flash_arrays[op.array_index].pages_gained_by_gc += match op.flash.kind {
                OpKind::Erase => f64::from(free.pages_per_block),
                OpKind::Program => -1.0,
                _ => 0.0,
            };
        }
        if op.queue == 2 {
            self.flash_arrays[op.array_index].unqueued_background_ops.push(id);
        }
    }

    /// Makes an operation wait for the end of an NVRAM scan.
    fn hold_until_scan_ends(&mut self, op: usize, scan: usize) {
        self.ops[op].held_by_scan = Some(scan);
        self.ops[scan].followers.push(op);
    }

    /// Returns the arrays that hold the victim of an operation; empty unless the operation is a scan with a victim.
    fn gc_victim_arrays(&self, flash: FlashOp) -> Vec<usize> {
        let first = flash.plane.0;
        if flash.kind != OpKind::NvramScan || first == u32::MAX {
            return vec![];
        }
        let per_array = if self.options.has_independent_planes { 1 } else { self.geometry.planes_per_die };
        (first..first + self.geometry.superblock_planes).map(|plane| (plane / per_array) as usize).collect()
    }

    /// Returns the indices of the arrays (dies or planes) that hold the GC victim for whose pages NVRAM scan number
    /// `scan` reads the reverse map.
    fn victim_arrays_of_scan(&self, scan: usize) -> &[usize] {
        &self.ops[scan].gc_victim_arrays
    }

    /// Returns whether an NVRAM scan need not wait for flash reads: all reads of the reverse-map log that its request
    /// issued since the previous scan have ended.
    fn have_log_reads_ended(&self, scan: usize) -> bool {
        let request = self.ops[scan].request;
        let before = self.ops[..scan].iter().rev();
        let own = before.take_while(|op| op.request == request && op.flash.kind != OpKind::NvramScan);
        let is_log = |op: &&Op| (op.flash.kind, op.flash.cause) == (OpKind::Read, Cause::RemapLog);
        own.filter(is_log).all(|op| op.done)
    }

    /// Returns whether an NVRAM scan waits only for its arrays (dies or planes): the reverse-map log has been read, and
    /// the scan is the earliest one for these arrays.
    fn waits_for_arrays(&self, scan: usize) -> bool {
        let flash_arrays = self.victim_arrays_of_scan(scan);
        let first = self
            .unfinished_nvram_scans
            .iter()
            .find(|&&other| self.victim_arrays_of_scan(other) == flash_arrays);
        !self.nvram_scan_queue.contains(&scan) && first == Some(&scan) && self.have_log_reads_ended(scan)
    }

    /// Returns whether an NVRAM scan waits for the background work of an array (die or plane). This work then precedes
    /// host work.
    fn is_awaited_by_scan(&self, array: usize) -> bool {
        self.unfinished_nvram_scans
            .iter()
            .any(|&scan| self.victim_arrays_of_scan(scan).contains(&array) && self.waits_for_arrays(scan))
    }

    /// Returns whether an array (die or plane) has background work: queued, running or suspended.
    fn has_background_ops(&self, array: usize) -> bool {
        let Array { queues_by_priority, running_ops, suspended_ops, .. } = &self.flash_arrays[array];
        let yields = |&op: &usize| self.ops[op].queue == 2;
        !queues_by_priority[2].is_empty()
            || running_ops.iter().any(yields)
            || suspended_ops.iter().any(yields)
    }

    /// Starts the NVRAM scans that need not wait any longer.
    fn start_ready_nvram_scans(&mut self) {
        for scan in self.unfinished_nvram_scans.clone() {
            let idle = |&array: &usize| !self.has_background_ops(array);
            if self.waits_for_arrays(scan) && self.victim_arrays_of_scan(scan).iter().all(idle) {
                self.nvram_scan_queue.push_back(scan);
                if self.nvram_scan_queue.len() == 1 {
                    self.start_nvram_scan();
                }
            }
        }
    }

    /// Begins to read NVRAM for the first scan in `nvram_scan_queue`.
    fn start_nvram_scan(&mut self) {
        let scan = self.nvram_scan_queue[0];
        let lines = self.ops[scan].flash.copied_page_or_nvram_line_count as u64;
        self.schedule_event(lines * self.options.nvram_line_read_ps / 1000, NVRAM_SCAN_END_EVENT, scan);
    }

    /// Ends the current scan of NVRAM, and starts what waited for it.
    fn finish_nvram_scan(&mut self) {
        let scan = self.nvram_scan_queue.pop_front().unwrap();
        if !self.nvram_scan_queue.is_empty() {
            self.start_nvram_scan();
        }
        self.unfinished_nvram_scans.retain(|&other| other != scan);
        self.complete_op(scan);
        self.start_ready_nvram_scans();
        self.start_ops_of_arrays_with_new_work();
    }

    /// Creates an operation with its queue and its array.
    fn new_op(&self, flash: FlashOp, request: usize) -> Op {
        let plane = flash.plane.0;
        let per_array = if self.options.has_independent_planes { 1 } else { self.geometry.planes_per_die };
        let urgent = flash.kind == OpKind::Read && self.options.prioritises_reads;
        let queue = match flash.is_background() {
            _ if flash.kind == OpKind::NvramScan => usize::MAX,
            true if self.options.background_yields_to_host => 2,
            false if urgent => 0,
            _ => 1,
        };
        let array_index = (plane / per_array) as usize;
        let gc_victim_arrays = self.gc_victim_arrays(flash);
        Op {
            flash,
            request,
            queue,
            array_index,
            queued: false,
            batch: None,
            held_by_scan: None,
            gc_victim_arrays,
            done: false,
            followers: vec![],
        }
    }

    /// Makes an operation wait for its predecessor. If both use one queue, it is enough that the predecessor is in the
    /// queue.
    fn follow(&mut self, op: usize, predecessor: usize) {
        let (a, b) = (&self.ops[op], &self.ops[predecessor]);
        let same_queue =
            a.array_index == b.array_index && a.queue == b.queue && !self.options.uses_multi_plane_ops;
        if same_queue && b.queued {
            self.join_queue_of_array(op);
        } else if let (true, Some(scan)) = (same_queue, b.held_by_scan) {
            self.hold_until_scan_ends(op, scan);
        } else {
            self.ops[predecessor].followers.push(op);
        }
    }

    /// Adds an operation to the queue of its array.
    fn join_queue_of_array(&mut self, id: usize) {
        let op = &mut self.ops[id];
        op.queued = true;
        let (queue, array) = (op.queue, op.array_index);
        let position = self.position_in_queue(id);
        self.flash_arrays[array].queues_by_priority[queue].insert(position, id);
        self.flash_arrays[array].unqueued_background_ops.retain(|&other| other != id);
        let op = &self.ops[id];
        // Work that cannot start on a busy array does not affect the order in which arrays start at this event.
        if self.flash_arrays[op.array_index].running_ops.is_empty() || op.queue == 0 {
            self.arrays_with_new_work.push(op.array_index);
        }
    }

    /// Returns the position at which an operation joins its queue. A host operation goes to the end. Background work
    /// goes before operations that were issued later, but after the batch of copies that the array executes or has
    /// suspended.
    fn position_in_queue(&self, id: usize) -> usize {
        let op = &self.ops[id];
        let Array { queues_by_priority, running_ops, suspended_ops, .. } = &self.flash_arrays[op.array_index];
        let queue = &queues_by_priority[op.queue];
        if !op.flash.is_background() {
            return queue.len();
        }
        let is_batch_at_work = |&other: &usize| {
            let batch = self.ops[other].batch;
            batch.is_some()
                && running_ops.iter().chain(suspended_ops).any(|&busy| self.ops[busy].batch == batch)
        };
        let busy = queue.iter().take_while(|other| is_batch_at_work(other)).count();
        busy + queue.iter().skip(busy).take_while(|&&other| other < id).count()
    }

    /// Starts operations of the arrays that received work at the current event.
    fn start_ops_of_arrays_with_new_work(&mut self) {
        for array in std::mem::take(&mut self.arrays_with_new_work) {
            self.start_or_suspend_ops(array);
        }
    }

    /// Executes all events up to time `until`, nanoseconds.
    pub fn run(&mut self, until: u64) {
        while let Some(&Reverse((time, class, subject, end_event_version))) = self.event_heap.peek() {
            if time > until {
                return;
            }
            self.event_heap.pop();
            if matches!(class, PROGRAM_END_EVENT | ERASE_END_EVENT)
                && self.flash_arrays[subject].end_event_version != end_event_version
            {
                continue;
            }
            self.now_ns = time;
            match class {
                CHANNEL_FREE_EVENT => self.release_channel(subject),
                PAGE_SENSED_EVENT => self.request_channel(subject),
                TRANSFER_END_EVENT => self.finish_transfer(subject),
                NVRAM_SCAN_END_EVENT => self.finish_nvram_scan(),
                _ => self.finish_programs_or_erases(subject),
            }
        }
    }

    /// Adds an event that is due in `delay` nanoseconds.
    fn schedule_event(&mut self, delay: u64, class: u8, subject: usize) {
        let of_phase = matches!(class, PROGRAM_END_EVENT | ERASE_END_EVENT);
        let end_event_version = if of_phase { self.flash_arrays[subject].end_event_version } else { 0 };
        self.event_heap.push(Reverse((self.now_ns + delay, class, subject, end_event_version)));
    }

    /// Returns whether the background queue of an array is longer than its bound.
    fn exceeds_background_queue_bound(&self, array: usize) -> bool {
        let bound =
            if self.is_awaited_by_scan(array) { 0 } else { self.options.max_background_backlog_ops as usize };
        self.flash_arrays[array].queues_by_priority[2].len() > bound
    }

    /// Returns whether background work of an array precedes host reads, because its queue is longer than its bound.
    fn delays_reads(&self, array: usize) -> bool {
        self.options.background_delays_reads && self.exceeds_background_queue_bound(array)
    }

    /// Returns whether background work of an array must precede host writes, because its queue is too long or too few
    /// pages are erased.
    fn must_background_precede_host_writes(&self, array: usize) -> bool {
        self.exceeds_background_queue_bound(array) || self.lacks_erased_pages(&self.flash_arrays[array])
    }

    /// Returns the background operations of an array that were issued and have not started, whether they are in its
    /// queue or not.
    fn waiting_background_ops(array: &Array) -> impl Iterator<Item = &usize> {
        array.queues_by_priority[2].iter().chain(&array.unqueued_background_ops)
    }

    /// Returns two numbers of pages: those of the free blocks that the FTL keeps in reserve; and those that pending
    /// erases will free, minus those that pending copies will fill. `None` if no erase is pending or no background
    /// operation waits in the queue.
    fn kept_pages_and_awaited_pages(&self, array: &Array) -> Option<(f64, f64)> {
        let free = self.options.free_blocks.filter(|_| !array.queues_by_priority[2].is_empty())?;
        let erases = Self::waiting_background_ops(array)
            .filter(|&&id| self.ops[id].flash.kind == OpKind::Erase)
            .count();
        let programs = Self::waiting_background_ops(array)
            .filter(|&&id| self.ops[id].flash.kind == OpKind::Program)
            .count();
        let pages = |blocks: usize| (blocks * free.pages_per_block as usize) as f64;
        (erases > 0).then(|| (pages(free.free_blocks as usize), pages(erases) - programs as f64))
    }

    /// Returns whether a host write would find no erased page in an array, because the blocks that count as free still
    /// wait for an erase.
    fn lacks_erased_pages(&self, array: &Array) -> bool {
        let waits = self.kept_pages_and_awaited_pages(array);
        waits.is_some_and(|(kept, awaited)| kept + array.pages_gained_by_gc - awaited < 1.0)
    }

    /// Returns the number of background operations that must start before a host write. The number is so large that,
    /// when the host has written all pages that GC gained, at most half of the free blocks in reserve wait for an
    /// erase.
    fn background_ops_due_before_write(&self, array: &Array) -> usize {
        let Some((kept, awaited)) = self.kept_pages_and_awaited_pages(array) else { return 0 };
        let half = (kept / 2.0).floor();
        let to_do = Self::waiting_background_ops(array).count() as f64 * (awaited - half).max(0.0);
        (to_do / (awaited.max(1.0) * array.pages_gained_by_gc.max(1.0))).floor() as usize
    }

    /// Starts or suspends operations of an array (die or plane) after a change at it, according to the service rules.
    fn start_or_suspend_ops(&mut self, index: usize) {
        let delays_reads = self.delays_reads(index);
        let is_behind = self.must_background_precede_host_writes(index);
        let array = &mut self.flash_arrays[index];
        let reads_turn = !delays_reads
            && !array.last_started_op_was_urgent_read
            && !array.queues_by_priority[0].is_empty();
        let behind = is_behind && !reads_turn;
        if !array.running_ops.is_empty() {
            return self.consider_suspension(index);
        }
        if !array.suspended_ops.is_empty() && (behind || array.queues_by_priority[0].is_empty()) {
            let overhead = self.options.suspension.unwrap().resume_overhead_ns;
            array.running_ops = std::mem::take(&mut array.suspended_ops);
            array.must_finish_running_ops = behind;
            array.last_started_op_was_urgent_read = false;
            let duration = array.remaining_ns + overhead;
            return self.begin_phase(index, duration);
        }
        let mut chosen =
            if behind { Some(2) } else { (0..3).find(|&q| !array.queues_by_priority[q].is_empty()) };
        if chosen == Some(1) {
            let due = self.background_ops_due_before_write(&self.flash_arrays[index]);
            let array = &mut self.flash_arrays[index];
            let (started, all) = array.started_and_due_ops_before_write.unwrap_or((0, due));
            let all = if std::mem::take(&mut array.has_started_erase) { due } else { all };
            array.started_and_due_ops_before_write = Some((started, all));
            if started < all && !array.queues_by_priority[2].is_empty() {
                chosen = Some(2);
            } else {
                array.started_and_due_ops_before_write = None;
            }
        }
        if let Some(queue) = chosen {
            self.flash_arrays[index].must_finish_running_ops = behind;
            self.flash_arrays[index].last_started_op_was_urgent_read = queue == 0;
            self.start_first_op_of_queue(index, queue);
        }
    }

    /// Suspends the running program or erase of an array if an urgent read waits and the options permit it.
    fn consider_suspension(&mut self, index: usize) {
        let Some(suspend) = self.options.suspension else { return };
        let behind = self.delays_reads(index);
        let array = &mut self.flash_arrays[index];
        let Some(end) = array.phase_end_ns.filter(|&end| end > self.now_ns) else { return };
        if !array.queues_by_priority[0].is_empty()
            && array.suspensions < suspend.max_suspensions_per_op
            && !behind
            && !array.must_finish_running_ops
        {
            array.remaining_ns = end - self.now_ns;
            array.end_event_version += 1;
            array.suspensions += 1;
            array.phase_end_ns = None;
            array.suspended_ops = std::mem::take(&mut array.running_ops);
            self.start_or_suspend_ops(index);
        }
    }

    /// Starts the first operation of a queue of an array, with the operations that form a multi-plane group with it.
    fn start_first_op_of_queue(&mut self, index: usize, queue: usize) {
        let array = &mut self.flash_arrays[index];
        let first = array.queues_by_priority[queue].pop_front().unwrap();
        let kind = self.ops[first].flash.kind;
        let mut group = vec![first];
        while let Some(&next) = array.queues_by_priority[queue].front() {
            let fresh = group.iter().all(|&op| self.ops[op].flash.plane != self.ops[next].flash.plane);
            if !self.options.uses_multi_plane_ops || self.ops[next].flash.kind != kind || !fresh {
                break;
            }
            group.push(array.queues_by_priority[queue].pop_front().unwrap());
        }
        if (queue, kind) == (1, OpKind::Program) {
            array.pages_gained_by_gc = (array.pages_gained_by_gc - group.len() as f64).max(0.0);
        }
        if let (2, Some((started, _))) = (queue, &mut array.started_and_due_ops_before_write) {
            *started += group.len();
        }
        array.has_started_erase |= kind == OpKind::Erase;
        array.running_ops = group;
        array.transferred_programs = 0;
        if kind != OpKind::Read {
            array.suspensions = 0;
        }
        match kind {
            OpKind::Read => self.schedule_event(self.flash.read_ns, PAGE_SENSED_EVENT, index),
            OpKind::Program => self.request_channel(index),
            OpKind::Erase => self.begin_phase(index, self.flash.erase_ns),
            OpKind::Copies | OpKind::NvramScan => unreachable!("taken apart, or no work of an array"),
        }
    }

    /// Starts the program or erase time of the running operations, of `duration` nanoseconds.
    fn begin_phase(&mut self, index: usize, duration: u64) {
        let array = &mut self.flash_arrays[index];
        array.phase_end_ns = Some(self.now_ns + duration);
        let erase = self.ops[array.running_ops[0]].flash.kind == OpKind::Erase;
        self.schedule_event(duration, if erase { ERASE_END_EVENT } else { PROGRAM_END_EVENT }, index);
    }

    /// Returns the index of the channel of an array.
    fn channel_of(&self, array: usize) -> usize {
        array * self.channels.len() / self.flash_arrays.len()
    }

    /// Makes an array wait for its channel, or starts its transfer if the channel is free.
    fn request_channel(&mut self, index: usize) {
        let channel = self.channel_of(index);
        let first = self.flash_arrays[index].running_ops[0];
        let urgency = usize::from(self.ops[first].queue != 0);
        self.channels[channel].waiting_arrays_by_priority[urgency].push_back(index);
        if !self.channels[channel].busy {
            self.release_channel(channel);
        }
    }

    /// Marks a channel as free, and starts the next transfer that waits for it.
    fn release_channel(&mut self, channel: usize) {
        let state = &mut self.channels[channel];
        state.busy = false;
        let next = state.waiting_arrays_by_priority[0]
            .pop_front()
            .or_else(|| state.waiting_arrays_by_priority[1].pop_front());
        if let Some(index) = next {
            state.busy = true;
            let array = &self.flash_arrays[index];
            let flash = self.ops[array.running_ops[array.transferred_programs]].flash;
            self.schedule_event(self.flash.transfer_ns(flash.transfer_bytes), CHANNEL_FREE_EVENT, channel);
            self.schedule_event(self.flash.transfer_ns(flash.transfer_bytes), TRANSFER_END_EVENT, index);
        }
    }

    /// Ends the transfer of one page: a read then ends, and the last transfer of a program starts its program time.
    fn finish_transfer(&mut self, index: usize) {
        let array = &mut self.flash_arrays[index];
        let read = self.ops[array.running_ops[0]].flash.kind == OpKind::Read;
        if read {
            let op = array.running_ops.remove(0);
            if !array.running_ops.is_empty() {
                self.request_channel(index);
            }
            self.complete_op(op);
            self.start_ready_nvram_scans();
            self.start_or_suspend_ops(index);
            return self.start_ops_of_arrays_with_new_work();
        }
        array.transferred_programs += 1;
        if array.transferred_programs < array.running_ops.len() {
            return self.request_channel(index);
        }
        self.begin_phase(index, self.flash.program_ns);
        self.consider_suspension(index);
    }

    /// Ends the programs or erases of an array, and starts its next operations.
    fn finish_programs_or_erases(&mut self, index: usize) {
        self.flash_arrays[index].phase_end_ns = None;
        for op in std::mem::take(&mut self.flash_arrays[index].running_ops) {
            self.complete_op(op);
        }
        self.start_ready_nvram_scans();
        self.start_or_suspend_ops(index);
        self.start_ops_of_arrays_with_new_work();
    }

    /// Records the end of an operation: operations that waited for it join their queues, and its request may complete.
    fn complete_op(&mut self, id: usize) {
        self.ops[id].done = true;
        for follower in std::mem::take(&mut self.ops[id].followers) {
            self.join_queue_of_array(follower);
        }
        let op = &self.ops[id];
        if !op.flash.is_background() {
            self.unfinished_ops_by_request[op.request] -= 1;
            if self.unfinished_ops_by_request[op.request] == 0 {
                self.completion_times_ns[op.request] = Some(self.now_ns);
            }
        }
    }
}
