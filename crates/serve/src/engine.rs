//! One thread owns the device; everybody else asks it.
//!
//! The engine is single-threaded and answers from memory, so a queue in front of one thread is both the simplest and the
//! right form. It goes in *rounds*: all that has arrived does one step each, in the order of arrival, then the device
//! settles once, or flushes once if anybody asked for it, and then all are answered. So what it costs to write, to sync and to
//! wake another thread is paid once for as many requests as wait. The order of arrival is also what makes the promise of
//! several connections true: a flush that was sent after a write was acknowledged, on whatever connection, is
//! executed after it.
//!
//! Work that takes long is done in several steps, others having theirs between; only work of the same source waits for it.
//!
//! A panic of the engine means a broken invariant: the thread ends, nothing is served any more, and
//! [`EngineThread::join`] says so.

use std::collections::VecDeque;
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Weak};
use std::thread::{self, JoinHandle};

use tracing::Span;

use crate::device::{BlockDevice, DeviceError};

/// What a step left to be done.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Progress {
    /// There is another step.
    pub has_more: bool,
    /// Something is to be answered only when everything so far is durable.
    pub wants_flush: bool,
}

/// Something for the engine to do.
pub trait Work<D>: Send {
    /// What has an order of its own: work of one source is done in the order in which it was queued. `None`: any other.
    fn source(&self) -> Option<u64> {
        None
    }

    /// Does the next step.
    fn step(&mut self, device: &mut D) -> Progress;

    /// Answers what the last step did; `settled` is the outcome of the round.
    fn answer(&mut self, settled: &Result<(), DeviceError>);
}

enum Message<D> {
    Work(Box<dyn Work<D>>),
    Stop,
}

/// The engine is gone: it was stopped, or it panicked.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the device has stopped")]
pub struct Stopped;

/// A way to ask the engine.
#[derive(Debug)]
pub struct Engine<D> {
    queue: Sender<Message<D>>,
    alive: Weak<()>,
}

impl<D> Clone for Engine<D> {
    fn clone(&self) -> Self {
        Self { queue: self.queue.clone(), alive: Weak::clone(&self.alive) }
    }
}

impl<D: BlockDevice> Engine<D> {
    /// Starts the thread. Its log events belong to the span that is current here.
    pub fn start(device: D) -> (Self, EngineThread<D>) {
        let (queue, arrived) = mpsc::channel();
        let life = Arc::new(());
        let alive = Arc::downgrade(&life);
        let rounds = Rounds { device, arrived, waiting: VecDeque::new(), stepped: Vec::new() };
        let span = Span::current();
        let run = move || span.in_scope(|| rounds.run(life));
        let thread = thread::Builder::new().name("engine".into()).spawn(run);
        let thread = thread.expect("the system has room for a thread when the server starts");
        let engine = Self { queue, alive };
        (engine.clone(), EngineThread { engine, thread })
    }

    /// Whether the thread runs. False before the first request is refused for that reason.
    pub fn is_alive(&self) -> bool {
        self.alive.strong_count() > 0
    }

    /// Queues work.
    ///
    /// # Errors
    /// [`Stopped`]; the work is dropped.
    pub fn submit(&self, work: impl Work<D> + 'static) -> Result<(), Stopped> {
        self.queue.send(Message::Work(Box::new(work))).map_err(|_| Stopped)
    }

    /// Queues a job of one step and waits for its result.
    ///
    /// # Errors
    /// [`Stopped`].
    pub fn ask<T: Send + 'static>(
        &self,
        job: impl FnOnce(&mut D) -> T + Send + 'static,
    ) -> Result<T, Stopped> {
        let (answer, result) = mpsc::channel();
        self.submit(Question { job: Some(job), result: None, answer })?;
        result.recv().map_err(|_| Stopped)
    }
}

/// A job whose result somebody waits for.
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
            // Whoever asked may be gone.
            let _ = self.answer.send(result);
        }
    }
}

/// The thread itself.
#[derive(Debug)]
pub struct EngineThread<D> {
    engine: Engine<D>,
    thread: JoinHandle<(D, Result<(), DeviceError>)>,
}

impl<D: BlockDevice> EngineThread<D> {
    /// Executes what is queued, flushes, ends the thread, and gives the device back with the outcome of the flush.
    ///
    /// # Errors
    /// [`Stopped`] if the thread panicked; the device is lost with it.
    pub fn join(self) -> Result<(D, Result<(), DeviceError>), Stopped> {
        // A thread that panicked takes no message.
        let _ = self.engine.queue.send(Message::Stop);
        self.thread.join().map_err(|_| Stopped)
    }
}

/// What the thread works on.
struct Rounds<D> {
    device: D,
    arrived: Receiver<Message<D>>,
    waiting: VecDeque<Box<dyn Work<D>>>,
    /// Work of this round that has done its step, and whether it has more.
    stepped: Vec<(Box<dyn Work<D>>, bool)>,
}

impl<D: BlockDevice> Rounds<D> {
    /// `_life` ends with this function, before the queue and what waits in it.
    fn run(mut self, _life: Arc<()>) -> (D, Result<(), DeviceError>) {
        while self.gather() {
            self.round();
        }
        while !self.waiting.is_empty() {
            self.round();
        }
        let flushed = self.device.flush();
        (self.device, flushed)
    }

    /// Takes what has arrived, and waits for it if there is nothing to do. False when the engine is to stop.
    fn gather(&mut self) -> bool {
        if self.waiting.is_empty() {
            match self.arrived.recv() {
                Ok(Message::Work(work)) => self.waiting.push_back(work),
                Ok(Message::Stop) | Err(_) => return false,
            }
        }
        loop {
            match self.arrived.try_recv() {
                Ok(Message::Work(work)) => self.waiting.push_back(work),
                Ok(Message::Stop) => return false,
                Err(_) => return true,
            }
        }
    }

    /// A step of everything that waits, a settlement, and the answers. Whatever a panic finds undone is in `self`.
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
            let progress = work.step(&mut self.device);
            *has_more = progress.has_more;
            if progress.has_more {
                unfinished.push(source);
            }
            wants_flush |= progress.wants_flush;
        }
        let settled = if wants_flush { self.device.flush() } else { self.device.write_deferred() };
        self.stepped.iter_mut().for_each(|(work, _)| work.answer(&settled));
        for (work, has_more) in self.stepped.drain(..).rev() {
            if has_more {
                self.waiting.push_front(work);
            }
        }
    }
}
