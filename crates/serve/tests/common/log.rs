//! Collector of the log events of the thread that runs a test.

use std::io::{self, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tracing::subscriber::DefaultGuard;

/// Collected lines of the log, without their time, such as `ERROR media error: ...`.
#[derive(Clone, Default)]
pub struct Lines(Arc<Mutex<Vec<String>>>);

impl Lines {
    /// Collects the log events of this thread, as long as the returned guard lives.
    pub fn of_this_thread() -> (Self, DefaultGuard) {
        let lines = Self::default();
        let to = lines.clone();
        let events = tracing_subscriber::fmt().without_time().with_target(false);
        let events = events.with_writer(move || to.clone()).finish();
        (lines, tracing::subscriber::set_default(events))
    }

    /// Returns the lines collected so far.
    pub fn get(&self) -> MutexGuard<'_, Vec<String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Write for Lines {
    /// Adds one whole log event to the collected lines.
    fn write(&mut self, event: &[u8]) -> io::Result<usize> {
        self.get().push(String::from_utf8_lossy(event).trim().to_owned());
        Ok(event.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
