//! One thread owns the device; everybody else asks it.
//!
//! The engine is single-threaded and answers from memory, so a queue in front of one thread is both the simplest and the
//! right form: requests of all connections are executed one after the other, in the order in which they arrived. That
//! is what makes the promise of several connections true: a flush that was sent after a write was acknowledged, on
//! whatever connection, stands behind it in the queue.
//!
//! A panic of the engine means a broken invariant: the thread ends, nothing is served any more, and
//! [`EngineThread::join`] says so.

use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Weak};
use std::thread::{self, JoinHandle};

use crate::device::{BlockDevice, DeviceError};

type Job<D> = Box<dyn FnOnce(&mut D) + Send>;

enum Message<D> {
    Job(Job<D>),
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
}

impl<D> Clone for Engine<D> {
    fn clone(&self) -> Self {
        Self { queue: self.queue.clone() }
    }
}

impl<D: BlockDevice> Engine<D> {
    /// Starts the thread.
    pub fn start(device: D) -> (Self, EngineThread<D>) {
        let (queue, jobs) = mpsc::channel();
        let life = Arc::new(());
        let alive = Arc::downgrade(&life);
        let thread = thread::Builder::new().name("engine".into()).spawn(move || run(device, &jobs, life));
        let thread = thread.expect("the system has room for a thread when the server starts");
        let engine = Self { queue };
        (engine.clone(), EngineThread { engine, alive, thread })
    }

    /// Queues a job.
    ///
    /// # Errors
    /// [`Stopped`]; the job is dropped.
    pub fn submit(&self, job: impl FnOnce(&mut D) + Send + 'static) -> Result<(), Stopped> {
        self.queue.send(Message::Job(Box::new(job))).map_err(|_| Stopped)
    }

    /// Queues a job and waits for its result.
    ///
    /// # Errors
    /// [`Stopped`].
    pub fn ask<T: Send + 'static>(
        &self,
        job: impl FnOnce(&mut D) -> T + Send + 'static,
    ) -> Result<T, Stopped> {
        let (answer, result) = mpsc::channel();
        self.submit(move |device| {
            // Whoever asked may be gone.
            let _ = answer.send(job(device));
        })?;
        result.recv().map_err(|_| Stopped)
    }
}

/// The thread itself.
#[derive(Debug)]
pub struct EngineThread<D> {
    engine: Engine<D>,
    alive: Weak<()>,
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

    /// Whether the thread has ended by itself. True before the first request is refused for that reason.
    pub fn has_failed(&self) -> bool {
        self.alive.strong_count() == 0
    }
}

/// `_life` ends with this function, before the queue that `jobs` borrows.
fn run<D: BlockDevice>(
    mut device: D,
    jobs: &Receiver<Message<D>>,
    _life: Arc<()>,
) -> (D, Result<(), DeviceError>) {
    while let Ok(Message::Job(job)) = jobs.recv() {
        job(&mut device);
    }
    let flushed = device.flush();
    (device, flushed)
}
