//! Starts the threads that execute independent runs.

use std::io;
use std::thread::{Builder, Scope};

/// Stack size of the threads that execute runs, bytes: as large as that of the main thread usually is.
const WORKER_STACK_BYTES: usize = 8 << 20;

/// Starts up to `max_threads` threads of `scope`, each of which calls `work`. If the system refuses a further thread,
/// those that run already do the work.
///
/// # Errors
/// The system refuses the first thread, so that no thread runs.
pub fn spawn_workers<'scope>(
    scope: &'scope Scope<'scope, '_>,
    max_threads: usize,
    work: impl FnOnce() + Clone + Send + 'scope,
) -> io::Result<()> {
    for started in 0..max_threads {
        match Builder::new().stack_size(WORKER_STACK_BYTES).spawn_scoped(scope, work.clone()) {
            Err(error) if started == 0 => return Err(error),
            Err(_) => break,
            Ok(_) => {}
        }
    }
    Ok(())
}
