//! The queue of work in front of a device: whichever thread has work for the device executes it, one thread at a time.
//!
//! The FTL is single-threaded and answers from memory, so one queue in front of it is both the simplest and the right
//! form. Work is executed in *rounds*. In a round each piece of waiting work does one step, in the order of arrival.
//! Then the device writes its deferred operations once, or flushes once if any work asked for a flush. Then all this
//! work is answered. So the cost of a write and a sync is paid once for all requests that wait together. The order of
//! arrival also gives the guarantee for several connections: a flush that was sent after a write was acknowledged, on
//! whatever connection, is executed after this write.
//!
//! A thread that queues short work while nobody uses the device executes a round itself: no other thread has to be
//! woken, which would take longer than the work. What is queued meanwhile, and long work, is executed by the *device
//! thread* (the thread that belongs to the device), so that a connection does at most one round in a row for others and
//! receives its next requests while its long ones are executed.
//!
//! Long work is done in several steps, with steps of other work between them. Only later work of the same connection
//! waits for it.
//!
//! A panic of the device means a broken invariant: it is caught on whatever thread it happens, the device is dropped,
//! nothing is served any more, and [`DeviceThread::join`] returns [`DeviceStopped`].

use std::collections::VecDeque;
use std::panic::{self, AssertUnwindSafe};
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use tracing::Span;

use crate::device::BlockDevice;
use crate::device_error::DeviceError;

/// What a piece of work for a device still needs after one of its steps: another step, or a flush.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct StepProgress {
    /// Whether the work has another step.
    pub has_more_steps: bool,
    /// Whether the work may be answered only after a flush of the device.
    pub wants_flush: bool,
}

/// A piece of work for a device: for example, the requests that arrived together on one connection.
pub trait DeviceWork<D>: Send {
    /// Returns the number of the connection that queued the work. The queue executes work of one connection in the
    /// order in which it was queued. Such work enters the log span of its connection itself. `None`: the work belongs
    /// to no connection, has no fixed order, and is logged in the span of the device.
    fn queueing_connection_number(&self) -> Option<u64> {
        None
    }

    /// Whether the next step of the work takes so little time that the thread which queues the work may execute it.
    fn is_next_step_short(&self) -> bool {
        true
    }

    /// Executes the next step of the work on the device.
    fn step(&mut self, device: &mut D) -> StepProgress;

    /// Answers the requests that the last step of the work finished. `flush_or_write_outcome` is the outcome of the
    /// flush, or of the write of deferred operations, that the device executed after the step.
    fn answer_requests(&mut self, flush_or_write_outcome: &Result<(), DeviceError>);
}

/// Error: the device executes no work any more, because its queue was stopped or the device panicked.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "the device has stopped, because the server is ending or because of an internal error (the log of the server \
     says which): start the server again"
)]
pub struct DeviceStopped;

/// Handle to the queue of work in front of a device, by which threads queue work for the device.
#[derive(Debug)]
pub struct DeviceQueue<D> {
    /// State that all handles to the queue and the device thread share.
    shared: Arc<SharedDeviceQueue<D>>,
}

impl<D> Clone for DeviceQueue<D> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared) }
    }
}

impl<D: BlockDevice> DeviceQueue<D> {
    /// Starts the queue and the thread of `device`. Log events of the device belong to the `tracing` span that is
    /// current at this call.
    pub fn start(device: D) -> (Self, DeviceThread<D>) {
        let rounds = DeviceQueueExecutor {
            device,
            log_span: Span::current(),
            waiting_work: VecDeque::new(),
            stepped_work: Vec::new(),
        };
        let state = DeviceQueueState {
            arrived_work: VecDeque::new(),
            idle_executor: Some(Box::new(rounds)),
            phase: DeviceQueuePhase::Serving,
        };
        let shared =
            Arc::new(SharedDeviceQueue { state: Mutex::new(state), device_thread_wakeup: Condvar::new() });
        let device_queue = Self { shared: Arc::clone(&shared) };
        let of_thread = Arc::clone(&shared);
        let thread =
            thread::Builder::new().name("engine".into()).spawn(move || of_thread.run_device_thread());
        let thread = thread.expect("the system has room for a thread when the server starts");
        (device_queue, DeviceThread { shared, thread: Some(thread) })
    }

    /// Whether the device queue accepts and executes work. When the queue ends, this becomes false before it refuses
    /// the first work with [`DeviceStopped`].
    pub fn is_alive(&self) -> bool {
        self.shared.lock_state().phase == DeviceQueuePhase::Serving
    }

    /// Queues work, and executes it at once if it is short and no other thread uses the device.
    ///
    /// # Errors
    /// [`DeviceStopped`] if the queue has ended, or ends by a panic of the device at this work; the work is dropped.
    pub fn submit(&self, work: impl DeviceWork<D> + 'static) -> Result<(), DeviceStopped> {
        let is_next_step_short = work.is_next_step_short();
        let mut state = self.shared.lock_state();
        if state.phase != DeviceQueuePhase::Serving {
            drop(state);
            return Err(DeviceStopped);
        }
        state.arrived_work.push_back(Box::new(work));
        if !is_next_step_short && state.idle_executor.is_some() {
            self.shared.device_thread_wakeup.notify_one();
            return Ok(());
        }
        let Some(rounds) = state.take_executor() else { return Ok(()) };
        drop(state);
        if self.shared.execute_round(rounds)? {
            self.shared.device_thread_wakeup.notify_one();
        }
        Ok(())
    }

    /// Queues `job`, which is run on the device in one step, and waits for the value that it returns.
    ///
    /// # Errors
    /// [`DeviceStopped`] if the queue has ended, or ends by a panic of the device at this job.
    pub fn run_and_wait<T: Send + 'static>(
        &self,
        job: impl FnOnce(&mut D) -> T + Send + 'static,
    ) -> Result<T, DeviceStopped> {
        let (answer, result) = mpsc::channel();
        self.submit(AwaitedJob { job: Some(job), result: None, result_sender: answer })?;
        result.recv().map_err(|_| DeviceStopped)
    }
}

/// A job for a device whose result another thread waits for.
struct AwaitedJob<F, T> {
    /// Function to run on the device; `None` once it was executed.
    job: Option<F>,
    /// Value that the job returned; `None` before it ran and after the value was sent to the waiting thread.
    result: Option<T>,
    /// Channel by which the waiting thread gets the result.
    result_sender: Sender<T>,
}

impl<D, T: Send, F: FnOnce(&mut D) -> T + Send> DeviceWork<D> for AwaitedJob<F, T> {
    fn step(&mut self, device: &mut D) -> StepProgress {
        self.result = self.job.take().map(|job| job(device));
        StepProgress::default()
    }

    fn answer_requests(&mut self, _: &Result<(), DeviceError>) {
        if let Some(result) = self.result.take() {
            // The thread that waited for the result may have ended.
            let _ = self.result_sender.send(result);
        }
    }
}

/// Handle to the thread of a device, to be joined when the server ends. If the handle is dropped instead, the thread
/// ends after it has executed the queued work and flushed the device. The outcome of that flush is not reported.
#[derive(Debug)]
pub struct DeviceThread<D> {
    /// State that this thread shares with all handles to the queue.
    shared: Arc<SharedDeviceQueue<D>>,
    /// The thread of the device; `None` once it is joined.
    thread: Option<JoinHandle<Result<EndedDevice<D>, DeviceStopped>>>,
}

/// A device whose queue has ended, and the outcome of the flush with which the queue ended.
type EndedDevice<D> = (D, Result<(), DeviceError>);

impl<D: BlockDevice> DeviceThread<D> {
    /// Executes the queued work, flushes the device, ends the thread of the device, and returns the device with the
    /// outcome of the flush.
    ///
    /// # Errors
    /// [`DeviceStopped`] if the device panicked; it is lost then.
    pub fn join(mut self) -> Result<EndedDevice<D>, DeviceStopped> {
        let thread = self.thread.take().expect("only this function takes it");
        drop(self);
        thread.join().map_err(|_| DeviceStopped)?
    }
}

impl<D> Drop for DeviceThread<D> {
    fn drop(&mut self) {
        self.shared.lock_state().stop_accepting_work();
        self.shared.device_thread_wakeup.notify_one();
    }
}

/// State that all handles to a device queue share with its thread.
#[derive(Debug)]
struct SharedDeviceQueue<D> {
    /// Waiting work and idle device, under one lock.
    state: Mutex<DeviceQueueState<D>>,
    /// Wakes the thread of the device when work may wait for it, or the queue stops.
    device_thread_wakeup: Condvar,
}

/// Phase in the life of a device queue: whether it accepts work, executes its last work, or has failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum DeviceQueuePhase {
    /// Work is accepted and executed.
    Serving,
    /// No work is accepted any more; queued work is still executed.
    Stopping,
    /// The device has panicked.
    Ended,
}

/// Queue of new work, and the device while no thread uses it.
struct DeviceQueueState<D> {
    /// Work that was queued since a thread last took the device, in the order of arrival.
    arrived_work: VecDeque<Box<dyn DeviceWork<D>>>,
    /// The device with its work, while no thread uses it. `None` while a thread executes work on the device, and after
    /// the queue has ended.
    idle_executor: Option<Box<DeviceQueueExecutor<D>>>,
    /// Whether the queue accepts work, executes its last work, or has failed.
    phase: DeviceQueuePhase,
}

impl<D> std::fmt::Debug for DeviceQueueState<D> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DeviceQueueState").field("phase", &self.phase).finish_non_exhaustive()
    }
}

impl<D> DeviceQueueState<D> {
    /// Takes the device, together with all work that waits for it; `None` if a thread uses the device.
    fn take_executor(&mut self) -> Option<Box<DeviceQueueExecutor<D>>> {
        let mut rounds = self.idle_executor.take()?;
        rounds.waiting_work.append(&mut self.arrived_work);
        Some(rounds)
    }

    /// Whether work waits for the device while no thread uses the device.
    fn has_work_while_idle(&self) -> bool {
        self.idle_executor
            .as_ref()
            .is_some_and(|rounds| !rounds.waiting_work.is_empty() || !self.arrived_work.is_empty())
    }

    /// Makes the queue refuse new work; work that was queued before is still executed.
    fn stop_accepting_work(&mut self) {
        if self.phase == DeviceQueuePhase::Serving {
            self.phase = DeviceQueuePhase::Stopping;
        }
    }
}

impl<D> SharedDeviceQueue<D> {
    /// Locks the state of the queue, also if a thread panicked while it held the lock.
    fn lock_state(&self) -> MutexGuard<'_, DeviceQueueState<D>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<D: BlockDevice> SharedDeviceQueue<D> {
    /// Executes one round (one step of each piece of waiting work) and gives the device back to the shared state.
    /// Returns whether the thread of the device has to be woken, because work is left or the queue stops.
    ///
    /// # Errors
    /// [`DeviceStopped`] if the device panicked. It is dropped with all work that was not answered.
    fn execute_round(&self, mut rounds: Box<DeviceQueueExecutor<D>>) -> Result<bool, DeviceStopped> {
        // What a panic leaves behind is dropped unseen.
        let outcome = panic::catch_unwind(AssertUnwindSafe(|| rounds.run_round()));
        let mut state = self.lock_state();
        if outcome.is_ok() {
            state.idle_executor = Some(rounds);
            return Ok(state.has_work_while_idle() || state.phase != DeviceQueuePhase::Serving);
        }
        state.phase = DeviceQueuePhase::Ended;
        let unanswered = std::mem::take(&mut state.arrived_work);
        drop(state);
        self.device_thread_wakeup.notify_one();
        drop((unanswered, rounds));
        Err(DeviceStopped)
    }

    /// Runs the thread of the device: executes the work that other threads leave, until the queue is stopped. Returns
    /// the device and the outcome of a last flush.
    fn run_device_thread(&self) -> Result<EndedDevice<D>, DeviceStopped> {
        loop {
            let is_idle = |state: &mut DeviceQueueState<D>| match state.phase {
                DeviceQueuePhase::Serving => !state.has_work_while_idle(),
                DeviceQueuePhase::Stopping => state.idle_executor.is_none(),
                DeviceQueuePhase::Ended => false,
            };
            let waited = self.device_thread_wakeup.wait_while(self.lock_state(), is_idle);
            let mut state = waited.unwrap_or_else(PoisonError::into_inner);
            let rounds = state.take_executor().ok_or(DeviceStopped)?;
            drop(state);
            if rounds.waiting_work.is_empty() {
                return Ok(rounds.into_flushed_device());
            }
            self.execute_round(rounds)?;
        }
    }
}

/// Executor of the queued work, in rounds of one step for each waiting piece of work. Holds the device, the waiting
/// work, and the work that has done a step in the current round.
struct DeviceQueueExecutor<D> {
    /// Device on which the work is executed.
    device: D,
    /// Log span of the device. Work of a client connection is logged in the span of that connection instead.
    log_span: Span,
    /// Work whose next step is due in the next round, in the order of arrival.
    waiting_work: VecDeque<Box<dyn DeviceWork<D>>>,
    /// Work that has done a step in the current round, in the order of the steps.
    stepped_work: Vec<SteppedWork<D>>,
}

/// A piece of work that has done a step in the current round.
struct SteppedWork<D> {
    /// The work.
    work: Box<dyn DeviceWork<D>>,
    /// Whether the work has more steps.
    has_more_steps: bool,
}

impl<D: BlockDevice> DeviceQueueExecutor<D> {
    /// Flushes the device and returns it with the outcome of the flush.
    fn into_flushed_device(mut self) -> EndedDevice<D> {
        let flushed = self.log_span.in_scope(|| self.device.flush());
        (self.device, flushed)
    }

    /// Executes one round: one step of each piece of waiting work, then a flush or a write of deferred operations, then
    /// the answers. After a panic, work that was not answered is in `self` and is dropped with it.
    fn run_round(&mut self) {
        let mut wants_flush = false;
        let mut unfinished = Vec::new();
        for _ in 0..self.waiting_work.len() {
            let work = self.waiting_work.pop_front().expect("so many wait");
            let connection_number = work.queueing_connection_number();
            if connection_number.is_some() && unfinished.contains(&connection_number) {
                self.waiting_work.push_back(work);
                continue;
            }
            self.stepped_work.push(SteppedWork { work, has_more_steps: false });
            let stepped = self.stepped_work.last_mut().expect("it was pushed above");
            let _logged_as = connection_number.is_none().then(|| self.log_span.enter());
            let progress = stepped.work.step(&mut self.device);
            stepped.has_more_steps = progress.has_more_steps;
            if progress.has_more_steps {
                unfinished.push(connection_number);
            }
            wants_flush |= progress.wants_flush;
        }
        let Self { device, log_span: span, .. } = self;
        let settled =
            span.in_scope(|| if wants_flush { device.flush() } else { device.write_operations_to_files() });
        self.stepped_work.iter_mut().for_each(|stepped| stepped.work.answer_requests(&settled));
        for SteppedWork { work, has_more_steps } in self.stepped_work.drain(..).rev() {
            if has_more_steps {
                self.waiting_work.push_front(work);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::Receiver;
    use std::thread::ThreadId;

    use wearwell::logical_page_form::LogicalPageForm;

    use super::*;
    use crate::device::Extent;

    /// Block device for tests that stores no data and records the calls that it receives.
    #[derive(Debug, Default)]
    struct RecordingDevice {
        /// Names of the calls so far, oldest first.
        recorded_calls: Vec<String>,
    }

    impl BlockDevice for RecordingDevice {
        fn capacity_bytes(&self) -> u64 {
            0
        }
        fn write_granularity_bytes(&self) -> u32 {
            512
        }
        fn read(&mut self, _: u64, _: &mut [u8]) -> Result<(), DeviceError> {
            Ok(())
        }
        fn write(&mut self, _: u64, _: &[u8]) -> Result<(), DeviceError> {
            Ok(())
        }
        fn trim(&mut self, _: u64, _: u64) -> Result<(), DeviceError> {
            Ok(())
        }
        fn zero(&mut self, _: u64, _: u64, _: bool) -> Result<(), DeviceError> {
            Ok(())
        }
        fn flush(&mut self) -> Result<(), DeviceError> {
            self.recorded_calls.push("flush".into());
            Ok(())
        }
        fn first_extent(&mut self, _: u64, len_bytes: u64) -> Extent {
            Extent { len_bytes, logical_page_form: LogicalPageForm::Hole }
        }
    }

    /// Work for tests that records its name on the device at each step, and reports the thread that executed it.
    struct RecordedWork {
        /// Name that each step of the work appends to [`RecordingDevice::recorded_calls`].
        name: &'static str,
        /// Number of the connection whose work is executed in order; `None` if the work belongs to no connection.
        connection_number: Option<u64>,
        /// Number of steps that are still to be executed.
        steps_left: u32,
        /// Whether the queueing thread may execute the next step itself.
        is_next_step_short: bool,
        /// Whether the work is answered only after a flush.
        wants_flush: bool,
        /// Function that is called within the first step, while the device is in use.
        during_first_step: Option<Box<dyn FnOnce() + Send>>,
        /// Channel that reports name and executing thread of the work when it is complete.
        completion_sender: Sender<(&'static str, ThreadId)>,
    }

    impl DeviceWork<RecordingDevice> for RecordedWork {
        fn queueing_connection_number(&self) -> Option<u64> {
            self.connection_number
        }

        fn is_next_step_short(&self) -> bool {
            self.is_next_step_short
        }

        fn step(&mut self, device: &mut RecordingDevice) -> StepProgress {
            device.recorded_calls.push(self.name.into());
            if let Some(meanwhile) = self.during_first_step.take() {
                meanwhile();
            }
            self.steps_left -= 1;
            StepProgress { has_more_steps: self.steps_left > 0, wants_flush: self.wants_flush }
        }

        fn answer_requests(&mut self, settled: &Result<(), DeviceError>) {
            assert!(settled.is_ok());
            if self.steps_left == 0 {
                self.completion_sender.send((self.name, thread::current().id())).expect("the test listens");
            }
        }
    }

    /// A device queue with its thread, and a channel that reports which thread executed which work.
    struct QueueUnderTest {
        /// Handle by which tests queue work.
        device_queue: DeviceQueue<RecordingDevice>,
        /// Handle to the device thread, by which tests end the queue.
        thread: DeviceThread<RecordingDevice>,
        /// Channel end that each piece of work gets, to report the thread that executed it.
        execution_sender: Sender<(&'static str, ThreadId)>,
        /// Channel end from which tests read names of work and the threads that executed it.
        execution_receiver: Receiver<(&'static str, ThreadId)>,
    }

    impl QueueUnderTest {
        fn new() -> Self {
            let (device_queue, thread) = DeviceQueue::start(RecordingDevice::default());
            let (execution_sender, execution_receiver) = mpsc::channel();
            Self { device_queue, thread, execution_sender, execution_receiver }
        }

        /// Creates a work item that has one short step, so that the thread that queues it may execute it. The step
        /// appends `name` to [`RecordingDevice::recorded_calls`].
        fn work_of_one_short_step(&self, name: &'static str) -> RecordedWork {
            let completion_sender = self.execution_sender.clone();
            RecordedWork {
                name,
                connection_number: None,
                steps_left: 1,
                is_next_step_short: true,
                wants_flush: false,
                during_first_step: None,
                completion_sender,
            }
        }

        /// Returns the identifier of the device thread, to compare it with the thread that executed work.
        fn device_thread_id(&self) -> ThreadId {
            self.thread.thread.as_ref().expect("it is not joined").thread().id()
        }

        /// Ends the queue and returns the calls that the device received, in order, without the last flush.
        fn end_and_return_calls(self) -> Vec<String> {
            let (mut device, flushed) = self.thread.join().expect("nothing panicked");
            flushed.expect("a notebook can be flushed");
            assert_eq!(device.recorded_calls.pop().as_deref(), Some("flush"));
            device.recorded_calls
        }
    }

    #[test]
    fn short_work_for_a_free_device_is_done_by_the_thread_that_queues_it() {
        let rig = QueueUnderTest::new();
        for name in ["first", "second"] {
            rig.device_queue.submit(rig.work_of_one_short_step(name)).unwrap();
            assert_eq!(
                rig.execution_receiver.try_recv(),
                Ok((name, thread::current().id())),
                "before submit returns"
            );
        }
        assert_eq!(rig.end_and_return_calls(), ["first", "second"]);
    }

    #[test]
    fn long_work_is_done_by_the_device_thread() {
        let rig = QueueUnderTest::new();
        rig.device_queue
            .submit(RecordedWork { is_next_step_short: false, ..rig.work_of_one_short_step("long") })
            .unwrap();
        assert_eq!(rig.execution_receiver.recv(), Ok(("long", rig.device_thread_id())));
        assert_eq!(rig.end_and_return_calls(), ["long"]);
    }

    #[test]
    fn work_that_is_queued_while_the_device_is_in_use_is_done_by_the_device_thread_in_order() {
        let rig = QueueUnderTest::new();
        let (device_queue, queued) =
            (rig.device_queue.clone(), ["second", "third"].map(|name| rig.work_of_one_short_step(name)));
        // From another thread: the one that uses the device would have to wait for itself.
        let queue = move || queued.into_iter().for_each(|work| device_queue.submit(work).unwrap());
        let meanwhile = move || thread::spawn(queue).join().expect("queueing never waits for the device");
        rig.device_queue
            .submit(RecordedWork {
                during_first_step: Some(Box::new(meanwhile)),
                ..rig.work_of_one_short_step("first")
            })
            .unwrap();
        assert_eq!(rig.execution_receiver.recv(), Ok(("first", thread::current().id())));
        assert_eq!(rig.execution_receiver.recv(), Ok(("second", rig.device_thread_id())));
        assert_eq!(rig.execution_receiver.recv(), Ok(("third", rig.device_thread_id())));
        assert_eq!(rig.end_and_return_calls(), ["first", "second", "third"]);
    }

    #[test]
    fn only_one_step_of_long_work_delays_other_connections_and_each_keeps_its_order() {
        let rig = QueueUnderTest::new();
        let (device_queue, of_other) = (rig.device_queue.clone(), rig.work_of_one_short_step("other"));
        let of_same = RecordedWork { connection_number: Some(7), ..rig.work_of_one_short_step("same") };
        let meanwhile =
            move || [of_same, of_other].into_iter().for_each(|work| device_queue.submit(work).unwrap());
        let meanwhile = Some(Box::new(meanwhile) as Box<dyn FnOnce() + Send>);
        rig.device_queue
            .submit(RecordedWork {
                connection_number: Some(7),
                steps_left: 3,
                during_first_step: meanwhile,
                ..rig.work_of_one_short_step("slices")
            })
            .unwrap();
        let order: Vec<_> = rig.execution_receiver.iter().take(3).map(|(name, _)| name).collect();
        assert_eq!(order, ["other", "slices", "same"]);
        assert_eq!(rig.end_and_return_calls(), ["slices", "slices", "other", "slices", "same"]);
    }

    #[test]
    fn one_flush_serves_all_waiting_work() {
        let rig = QueueUnderTest::new();
        let flushing = ["second", "third"]
            .map(|name| RecordedWork { wants_flush: true, ..rig.work_of_one_short_step(name) });
        let device_queue = rig.device_queue.clone();
        let meanwhile = move || flushing.into_iter().for_each(|work| device_queue.submit(work).unwrap());
        rig.device_queue
            .submit(RecordedWork {
                during_first_step: Some(Box::new(meanwhile)),
                ..rig.work_of_one_short_step("first")
            })
            .unwrap();
        assert_eq!(rig.execution_receiver.iter().take(3).count(), 3);
        assert_eq!(rig.end_and_return_calls(), ["first", "second", "third", "flush"]);
    }

    /// A panic of the device on a client's thread is caught there: the device stops, and the thread goes on.
    #[test]
    fn a_panic_of_the_device_on_a_clients_thread_stops_the_device_and_not_that_thread() {
        let rig = QueueUnderTest::new();
        let (device_queue, lost) = (rig.device_queue.clone(), rig.work_of_one_short_step("never answered"));
        let meanwhile = move || {
            device_queue.submit(lost).unwrap();
            panic!("a test breaks an invariant");
        };
        let broken = RecordedWork {
            during_first_step: Some(Box::new(meanwhile)),
            ..rig.work_of_one_short_step("broken")
        };
        assert_eq!(rig.device_queue.submit(broken), Err(DeviceStopped));
        assert!(!rig.device_queue.is_alive());
        assert_eq!(rig.device_queue.run_and_wait(|_| ()), Err(DeviceStopped));
        assert_eq!(rig.thread.join().map(|_| ()), Err(DeviceStopped));
        drop(rig.execution_sender);
        assert_eq!(rig.execution_receiver.iter().count(), 0, "the work that waited is dropped");
    }

    #[test]
    fn work_queued_before_the_queue_stops_is_executed_and_later_work_is_refused() {
        let rig = QueueUnderTest::new();
        let device_queue = rig.device_queue.clone();
        rig.device_queue
            .submit(RecordedWork { is_next_step_short: false, ..rig.work_of_one_short_step("queued") })
            .unwrap();
        assert_eq!(rig.end_and_return_calls(), ["queued"]);
        assert_eq!(device_queue.run_and_wait(|_| ()), Err(DeviceStopped));
    }
}
