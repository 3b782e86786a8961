//! The engine of a device: whichever thread has work for the device executes it, one thread at a time.
//!
//! The FTL is single-threaded and answers from memory, so one queue in front of it is both the simplest and the right
//! form. Work is executed in *rounds*. In a round each piece of waiting work does one step, in the order of arrival.
//! Then the device writes its deferred operations once, or flushes once if any work asked for a flush. Then all this
//! work is answered. So the cost of a write and a sync is paid once for all requests that wait together. The order of
//! arrival also gives the guarantee for several connections: a flush that was sent after a write was acknowledged, on
//! whatever connection, is executed after this write.
//!
//! A thread that queues short work while nobody uses the device executes a round itself: no other thread has to be
//! woken, which would take longer than the work. What is queued meanwhile, and long work, is executed by the *engine
//! thread* of the device, so that a connection does at most one round in a row for others and receives its next
//! requests while its long ones are executed.
//!
//! Long work is done in several steps, with steps of other work between them; only later work of the same source waits
//! for it.
//!
//! A panic of the device means a broken invariant: it is caught on whatever thread it happens, the device is dropped,
//! nothing is served any more, and [`EngineThread::join`] returns [`Stopped`].

use std::collections::VecDeque;
use std::panic::{self, AssertUnwindSafe};
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use tracing::Span;

use crate::device::{BlockDevice, DeviceError};

/// What is left to do after one step of a piece of work: whether there is another step, and whether a flush is needed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Progress {
    /// Whether the work has another step.
    pub has_more: bool,
    /// Whether the work may be answered only after a flush of the device.
    pub wants_flush: bool,
}

/// A piece of work for the engine: for example, the requests that arrived together on one connection.
pub trait Work<D>: Send {
    /// Returns the source of the work (a number for its connection). Work of one source is executed in the order in
    /// which it was queued, and enters the log span of its source itself. `None`: the work has no such order, and is
    /// logged in the span of the engine.
    fn source(&self) -> Option<u64> {
        None
    }

    /// Whether the next step of the work takes so little time that the thread which queues the work may execute it.
    fn is_short(&self) -> bool {
        true
    }

    /// Executes the next step of the work on the device.
    fn step(&mut self, device: &mut D) -> Progress;

    /// Answers the requests that the last step finished. `settled` is the outcome of the round: of its flush, or of its
    /// write of deferred operations.
    fn answer(&mut self, settled: &Result<(), DeviceError>);
}

/// Error: the engine executes no work any more, because it was stopped or the device panicked.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the device has stopped")]
pub struct Stopped;

/// A handle to the engine of a device, with which threads queue work for the device.
#[derive(Debug)]
pub struct Engine<D> {
    shared: Arc<Shared<D>>,
}

impl<D> Clone for Engine<D> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared) }
    }
}

impl<D: BlockDevice> Engine<D> {
    /// Starts the engine thread of `device`. Log events of the device belong to the `tracing` span that is current at
    /// this call.
    pub fn start(device: D) -> (Self, EngineThread<D>) {
        let rounds = Rounds { device, span: Span::current(), waiting: VecDeque::new(), stepped: Vec::new() };
        let state = State { arrived: VecDeque::new(), idle: Some(Box::new(rounds)), phase: Phase::Serving };
        let shared = Arc::new(Shared { state: Mutex::new(state), wake: Condvar::new() });
        let engine = Self { shared: Arc::clone(&shared) };
        let of_thread = Arc::clone(&shared);
        let thread = thread::Builder::new().name("engine".into()).spawn(move || of_thread.run());
        let thread = thread.expect("the system has room for a thread when the server starts");
        (engine, EngineThread { shared, thread: Some(thread) })
    }

    /// Whether the engine accepts and executes work. When the engine ends, this becomes false before any work is
    /// refused with [`Stopped`].
    pub fn is_alive(&self) -> bool {
        self.shared.state().phase == Phase::Serving
    }

    /// Queues work, and executes it at once if it is short and no other thread uses the device.
    ///
    /// # Errors
    /// [`Stopped`] if the engine has ended, or ends by a panic of the device at this work; the work is dropped.
    pub fn submit(&self, work: impl Work<D> + 'static) -> Result<(), Stopped> {
        let is_short = work.is_short();
        let mut state = self.shared.state();
        if state.phase != Phase::Serving {
            drop(state);
            return Err(Stopped);
        }
        state.arrived.push_back(Box::new(work));
        if !is_short && state.idle.is_some() {
            self.shared.wake.notify_one();
            return Ok(());
        }
        let Some(rounds) = state.take_device() else { return Ok(()) };
        drop(state);
        if self.shared.execute(rounds)? {
            self.shared.wake.notify_one();
        }
        Ok(())
    }

    /// Queues a job of one step and waits for the value that it returns.
    ///
    /// # Errors
    /// [`Stopped`] if the engine has ended, or ends by a panic of the device at this job.
    pub fn ask<T: Send + 'static>(
        &self,
        job: impl FnOnce(&mut D) -> T + Send + 'static,
    ) -> Result<T, Stopped> {
        let (answer, result) = mpsc::channel();
        self.submit(Question { job: Some(job), result: None, answer })?;
        result.recv().map_err(|_| Stopped)
    }
}

/// A job for the engine whose result another thread waits for.
struct Question<F, T> {
    job: Option<F>,
    result: Option<T>,
    answer: Sender<T>,
}

impl<D, T: Send, F: FnOnce(&mut D) -> T + Send> Work<D> for Question<F, T> {
    fn step(&mut self, device: &mut D) -> Progress {
        self.result = self.job.take().map(|job| job(device));
        Progress::default()
    }

    fn answer(&mut self, _: &Result<(), DeviceError>) {
        if let Some(result) = self.result.take() {
            // The thread that waited for the result may have ended.
            let _ = self.answer.send(result);
        }
    }
}

/// A handle to the engine thread, to be joined when the server ends. If the handle is dropped instead, the thread ends
/// too, after it has executed the queued work and flushed the device; the outcome of that flush is not reported.
#[derive(Debug)]
pub struct EngineThread<D> {
    shared: Arc<Shared<D>>,
    /// The engine thread; `None` once it is joined.
    thread: Option<JoinHandle<Result<Ended<D>, Stopped>>>,
}

/// A device whose engine has ended, and the outcome of the last flush.
type Ended<D> = (D, Result<(), DeviceError>);

impl<D: BlockDevice> EngineThread<D> {
    /// Executes the queued work, flushes the device, ends the engine thread, and returns the device with the outcome of
    /// the flush.
    ///
    /// # Errors
    /// [`Stopped`] if the device panicked; it is lost then.
    pub fn join(mut self) -> Result<Ended<D>, Stopped> {
        let thread = self.thread.take().expect("only this function takes it");
        drop(self);
        thread.join().map_err(|_| Stopped)?
    }
}

impl<D> Drop for EngineThread<D> {
    fn drop(&mut self) {
        self.shared.state().stop();
        self.shared.wake.notify_one();
    }
}

/// State that all handles to an engine share with its thread.
#[derive(Debug)]
struct Shared<D> {
    state: Mutex<State<D>>,
    /// Wakes the engine thread when work may wait for it, or the engine stops.
    wake: Condvar,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    Serving,
    /// No work is accepted any more; queued work is still executed.
    Stopping,
    /// The device has panicked.
    Ended,
}

/// Queue of new work, and the device while no thread uses it.
struct State<D> {
    arrived: VecDeque<Box<dyn Work<D>>>,
    /// The device, while no thread uses it; `None` while a thread executes a round, and after the end.
    idle: Option<Box<Rounds<D>>>,
    phase: Phase,
}

impl<D> std::fmt::Debug for State<D> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("State").field("phase", &self.phase).finish_non_exhaustive()
    }
}

impl<D> State<D> {
    /// Takes the device, together with all work that waits for it; `None` if a thread uses the device.
    fn take_device(&mut self) -> Option<Box<Rounds<D>>> {
        let mut rounds = self.idle.take()?;
        rounds.waiting.append(&mut self.arrived);
        Some(rounds)
    }

    /// Whether work waits for the device while no thread uses the device.
    fn has_work(&self) -> bool {
        self.idle.as_ref().is_some_and(|rounds| !rounds.waiting.is_empty() || !self.arrived.is_empty())
    }

    fn stop(&mut self) {
        if self.phase == Phase::Serving {
            self.phase = Phase::Stopping;
        }
    }
}

impl<D> Shared<D> {
    fn state(&self) -> MutexGuard<'_, State<D>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<D: BlockDevice> Shared<D> {
    /// Executes one round and gives the device back to the shared state. Returns whether the engine thread has to be
    /// woken, because work is left or the engine stops.
    ///
    /// # Errors
    /// [`Stopped`] if the device panicked. It is dropped with all work that was not answered.
    fn execute(&self, mut rounds: Box<Rounds<D>>) -> Result<bool, Stopped> {
        // What a panic leaves behind is dropped unseen.
        let outcome = panic::catch_unwind(AssertUnwindSafe(|| rounds.round()));
        let mut state = self.state();
        if outcome.is_ok() {
            state.idle = Some(rounds);
            return Ok(state.has_work() || state.phase != Phase::Serving);
        }
        state.phase = Phase::Ended;
        let unanswered = std::mem::take(&mut state.arrived);
        drop(state);
        self.wake.notify_one();
        drop((unanswered, rounds));
        Err(Stopped)
    }

    /// Runs the engine thread: executes the work that other threads leave, until the engine is stopped. Returns the
    /// device and the outcome of a last flush.
    fn run(&self) -> Result<Ended<D>, Stopped> {
        loop {
            let is_idle = |state: &mut State<D>| match state.phase {
                Phase::Serving => !state.has_work(),
                Phase::Stopping => state.idle.is_none(),
                Phase::Ended => false,
            };
            let waited = self.wake.wait_while(self.state(), is_idle);
            let mut state = waited.unwrap_or_else(PoisonError::into_inner);
            let rounds = state.take_device().ok_or(Stopped)?;
            drop(state);
            if rounds.waiting.is_empty() {
                return Ok(rounds.end());
            }
            self.execute(rounds)?;
        }
    }
}

/// The device and the work of the current round.
struct Rounds<D> {
    device: D,
    /// Log span of the device. Work that has a source enters the span of its source instead.
    span: Span,
    waiting: VecDeque<Box<dyn Work<D>>>,
    /// Work that has done a step in this round, each piece with whether it has another step.
    stepped: Vec<(Box<dyn Work<D>>, bool)>,
}

impl<D: BlockDevice> Rounds<D> {
    /// Flushes the device and returns it with the outcome.
    fn end(mut self) -> Ended<D> {
        let flushed = self.span.in_scope(|| self.device.flush());
        (self.device, flushed)
    }

    /// Executes one round: one step of each piece of waiting work, then a flush or a write of deferred operations, then
    /// the answers. After a panic, work that was not answered is in `self` and is dropped with it.
    fn round(&mut self) {
        let mut wants_flush = false;
        let mut unfinished = Vec::new();
        for _ in 0..self.waiting.len() {
            let work = self.waiting.pop_front().expect("so many wait");
            let source = work.source();
            if source.is_some() && unfinished.contains(&source) {
                self.waiting.push_back(work);
                continue;
            }
            self.stepped.push((work, false));
            let (work, has_more) = self.stepped.last_mut().expect("it was pushed above");
            let _logged_as = source.is_none().then(|| self.span.enter());
            let progress = work.step(&mut self.device);
            *has_more = progress.has_more;
            if progress.has_more {
                unfinished.push(source);
            }
            wants_flush |= progress.wants_flush;
        }
        let Self { device, span, .. } = self;
        let settled = span.in_scope(|| if wants_flush { device.flush() } else { device.write_deferred() });
        self.stepped.iter_mut().for_each(|(work, _)| work.answer(&settled));
        for (work, has_more) in self.stepped.drain(..).rev() {
            if has_more {
                self.waiting.push_front(work);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::Receiver;
    use std::thread::ThreadId;

    use wearwell::page_state::PageState;

    use super::*;
    use crate::device::Extent;

    /// A device that stores no data and records the calls that it receives.
    #[derive(Debug, Default)]
    struct Notebook {
        lines: Vec<String>,
    }

    impl BlockDevice for Notebook {
        fn capacity_bytes(&self) -> u64 {
            0
        }
        fn block_bytes(&self) -> u32 {
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
            self.lines.push("flush".into());
            Ok(())
        }
        fn extent(&mut self, _: u64, len: u64) -> Extent {
            Extent { len, state: PageState::Hole }
        }
    }

    /// Work of one or more steps that records its name on the device at each step, and reports the thread that executed
    /// it.
    struct Noted {
        name: &'static str,
        source: Option<u64>,
        steps: u32,
        is_short: bool,
        wants_flush: bool,
        /// Function that is called within the first step, while the device is in use.
        meanwhile: Option<Box<dyn FnOnce() + Send>>,
        executed_by: Sender<(&'static str, ThreadId)>,
    }

    impl Work<Notebook> for Noted {
        fn source(&self) -> Option<u64> {
            self.source
        }

        fn is_short(&self) -> bool {
            self.is_short
        }

        fn step(&mut self, device: &mut Notebook) -> Progress {
            device.lines.push(self.name.into());
            if let Some(meanwhile) = self.meanwhile.take() {
                meanwhile();
            }
            self.steps -= 1;
            Progress { has_more: self.steps > 0, wants_flush: self.wants_flush }
        }

        fn answer(&mut self, settled: &Result<(), DeviceError>) {
            assert!(settled.is_ok());
            if self.steps == 0 {
                self.executed_by.send((self.name, thread::current().id())).expect("the test listens");
            }
        }
    }

    /// An engine with its thread, and a channel that reports which thread executed which work.
    struct Rig {
        engine: Engine<Notebook>,
        thread: EngineThread<Notebook>,
        tell: Sender<(&'static str, ThreadId)>,
        told: Receiver<(&'static str, ThreadId)>,
    }

    impl Rig {
        fn new() -> Self {
            let (engine, thread) = Engine::start(Notebook::default());
            let (tell, told) = mpsc::channel();
            Self { engine, thread, tell, told }
        }

        /// Makes short work of one step.
        fn work(&self, name: &'static str) -> Noted {
            let executed_by = self.tell.clone();
            Noted {
                name,
                source: None,
                steps: 1,
                is_short: true,
                wants_flush: false,
                meanwhile: None,
                executed_by,
            }
        }

        fn engine_thread(&self) -> ThreadId {
            self.thread.thread.as_ref().expect("it is not joined").thread().id()
        }

        /// Ends the engine and returns the calls that the device received, in order, without the last flush of the
        /// engine.
        fn end(self) -> Vec<String> {
            let (mut device, flushed) = self.thread.join().expect("nothing panicked");
            flushed.expect("a notebook can be flushed");
            assert_eq!(device.lines.pop().as_deref(), Some("flush"));
            device.lines
        }
    }

    #[test]
    fn short_work_for_a_free_device_is_done_by_the_thread_that_queues_it() {
        let rig = Rig::new();
        for name in ["first", "second"] {
            rig.engine.submit(rig.work(name)).unwrap();
            assert_eq!(rig.told.try_recv(), Ok((name, thread::current().id())), "before submit returns");
        }
        assert_eq!(rig.end(), ["first", "second"]);
    }

    #[test]
    fn long_work_is_done_by_the_engine_thread() {
        let rig = Rig::new();
        rig.engine.submit(Noted { is_short: false, ..rig.work("long") }).unwrap();
        assert_eq!(rig.told.recv(), Ok(("long", rig.engine_thread())));
        assert_eq!(rig.end(), ["long"]);
    }

    #[test]
    fn work_that_is_queued_while_the_device_is_in_use_is_done_by_the_engine_thread_in_order() {
        let rig = Rig::new();
        let (engine, queued) = (rig.engine.clone(), ["second", "third"].map(|name| rig.work(name)));
        // From another thread: the one that uses the device would have to wait for itself.
        let queue = move || queued.into_iter().for_each(|work| engine.submit(work).unwrap());
        let meanwhile = move || thread::spawn(queue).join().expect("queueing never waits for the device");
        rig.engine.submit(Noted { meanwhile: Some(Box::new(meanwhile)), ..rig.work("first") }).unwrap();
        assert_eq!(rig.told.recv(), Ok(("first", thread::current().id())));
        assert_eq!(rig.told.recv(), Ok(("second", rig.engine_thread())));
        assert_eq!(rig.told.recv(), Ok(("third", rig.engine_thread())));
        assert_eq!(rig.end(), ["first", "second", "third"]);
    }

    #[test]
    fn only_one_step_of_long_work_delays_other_work_and_its_source_keeps_its_order() {
        let rig = Rig::new();
        let (engine, of_other) = (rig.engine.clone(), rig.work("other"));
        let of_same = Noted { source: Some(7), ..rig.work("same") };
        let meanwhile = move || [of_same, of_other].into_iter().for_each(|work| engine.submit(work).unwrap());
        let meanwhile = Some(Box::new(meanwhile) as Box<dyn FnOnce() + Send>);
        rig.engine.submit(Noted { source: Some(7), steps: 3, meanwhile, ..rig.work("slices") }).unwrap();
        let order: Vec<_> = rig.told.iter().take(3).map(|(name, _)| name).collect();
        assert_eq!(order, ["other", "slices", "same"]);
        assert_eq!(rig.end(), ["slices", "slices", "other", "slices", "same"]);
    }

    #[test]
    fn one_flush_is_made_for_all_that_wait_for_it() {
        let rig = Rig::new();
        let flushing = ["second", "third"].map(|name| Noted { wants_flush: true, ..rig.work(name) });
        let engine = rig.engine.clone();
        let meanwhile = move || flushing.into_iter().for_each(|work| engine.submit(work).unwrap());
        rig.engine.submit(Noted { meanwhile: Some(Box::new(meanwhile)), ..rig.work("first") }).unwrap();
        assert_eq!(rig.told.iter().take(3).count(), 3);
        assert_eq!(rig.end(), ["first", "second", "third", "flush"]);
    }

    #[test]
    fn a_panic_of_the_device_on_a_clients_thread_ends_the_engine_and_not_that_thread() {
        let rig = Rig::new();
        let (engine, lost) = (rig.engine.clone(), rig.work("never answered"));
        let meanwhile = move || {
            engine.submit(lost).unwrap();
            panic!("a test breaks an invariant");
        };
        let broken = Noted { meanwhile: Some(Box::new(meanwhile)), ..rig.work("broken") };
        assert_eq!(rig.engine.submit(broken), Err(Stopped));
        assert!(!rig.engine.is_alive());
        assert_eq!(rig.engine.ask(|_| ()), Err(Stopped));
        assert_eq!(rig.thread.join().map(|_| ()), Err(Stopped));
        drop(rig.tell);
        assert_eq!(rig.told.iter().count(), 0, "the work that waited is dropped");
    }

    #[test]
    fn what_was_queued_before_the_end_is_executed_and_nothing_after_it() {
        let rig = Rig::new();
        let engine = rig.engine.clone();
        rig.engine.submit(Noted { is_short: false, ..rig.work("queued") }).unwrap();
        assert_eq!(rig.end(), ["queued"]);
        assert_eq!(engine.ask(|_| ()), Err(Stopped));
    }
}
