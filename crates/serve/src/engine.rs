//! The engine thread: one thread owns the device, and all other threads send work to it.
//!
//! The engine is single-threaded and answers from memory, so a queue in front of one thread is both the simplest and
//! the right form. It works in *rounds*. In a round each piece of waiting work does one step, in the order of arrival.
//! Then the device writes its deferred operations once, or flushes once if any work asked for a flush. Then all this
//! work is answered. So the cost of a write, a sync and the wake-up of another thread is paid once for all requests
//! that wait together. The order of arrival also gives the guarantee for several connections: a flush that was sent
//! after a write was acknowledged, on whatever connection, is executed after this write.
//!
//! Long work is done in several steps, with steps of other work between them; only later work of the same source waits
//! for it.
//!
//! A panic of the engine means a broken invariant: the thread ends, nothing is served any more, and
//! [`EngineThread::join`] returns [`Stopped`].

use std::collections::VecDeque;
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Weak};
use std::thread::{self, JoinHandle};

use tracing::Span;

use crate::device::{BlockDevice, DeviceError};

/// What remains after one step of a piece of work for the engine.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Progress {
    /// Whether the work has another step.
    pub has_more: bool,
    /// Whether the work may be answered only after a flush of the device.
    pub wants_flush: bool,
}

/// A piece of work for the engine thread: for example, the requests that arrived together on one connection.
pub trait Work<D>: Send {
    /// The source of the work (a connection). Work of one source is done in the order in which it was queued. `None`:
    /// the work has no such order.
    fn source(&self) -> Option<u64> {
        None
    }

    /// Does the next step of the work on the device.
    fn step(&mut self, device: &mut D) -> Progress;

    /// Answers the requests that the last step finished. `settled` is the outcome of the round: of its flush, or of its
    /// write of deferred operations.
    fn answer(&mut self, settled: &Result<(), DeviceError>);
}

enum Message<D> {
    Work(Box<dyn Work<D>>),
    Stop,
}

/// The engine thread has ended: it was stopped, or it panicked.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the device has stopped")]
pub struct Stopped;

/// A handle to the engine thread of a device, by which other threads queue work for it.
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
    /// Starts the engine thread, which owns `device`. Its log events belong to the `tracing` span that is current at
    /// this call.
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

    /// Whether the engine thread runs. After its end this is false before any request is refused with [`Stopped`].
    pub fn is_alive(&self) -> bool {
        self.alive.strong_count() > 0
    }

    /// Queues work for the engine thread.
    ///
    /// # Errors
    /// [`Stopped`] if the engine thread has ended; the work is dropped.
    pub fn submit(&self, work: impl Work<D> + 'static) -> Result<(), Stopped> {
        self.queue.send(Message::Work(Box::new(work))).map_err(|_| Stopped)
    }

    /// Queues a job of one step for the engine thread and waits for its result.
    ///
    /// # Errors
    /// [`Stopped`] if the engine thread has ended.
    pub fn ask<T: Send + 'static>(
        &self,
        job: impl FnOnce(&mut D) -> T + Send + 'static,
    ) -> Result<T, Stopped> {
        let (answer, result) = mpsc::channel();
        self.submit(Question { job: Some(job), result: None, answer })?;
        result.recv().map_err(|_| Stopped)
    }
}

/// A job for the engine thread whose result another thread waits for.
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

/// The engine thread, to be joined when the server ends.
#[derive(Debug)]
pub struct EngineThread<D> {
    engine: Engine<D>,
    thread: JoinHandle<(D, Result<(), DeviceError>)>,
}

impl<D: BlockDevice> EngineThread<D> {
    /// Executes the queued work, flushes the device, ends the engine thread, and returns the device with the outcome of
    /// the flush.
    ///
    /// # Errors
    /// [`Stopped`] if the thread panicked; the device is lost with it.
    pub fn join(self) -> Result<(D, Result<(), DeviceError>), Stopped> {
        // A thread that panicked receives no message.
        let _ = self.engine.queue.send(Message::Stop);
        self.thread.join().map_err(|_| Stopped)
    }
}

/// State of the engine thread: the device, the channel of new work, and the work of the current round.
struct Rounds<D> {
    device: D,
    arrived: Receiver<Message<D>>,
    waiting: VecDeque<Box<dyn Work<D>>>,
    /// Work that has done its step in this round, each with whether it has another step.
    stepped: Vec<(Box<dyn Work<D>>, bool)>,
}

impl<D: BlockDevice> Rounds<D> {
    /// Runs rounds until the engine is stopped. Returns the device and the outcome of a last flush. `_life` is dropped
    /// when this function ends, before the queue and the work that waits in it.
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

    /// Receives all work that has arrived. If no work is waiting, blocks until some arrives. Returns false when the
    /// engine is to stop.
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

    /// Runs one round: a step of all waiting work, a flush or write of deferred operations, and the answers. After a
    /// panic, work that was not answered is in `self` and is dropped with it.
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
