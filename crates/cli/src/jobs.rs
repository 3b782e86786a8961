//! Runs independent tasks, several at a time.

use std::num::NonZeroUsize;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use wearwell_replay::worker_threads::spawn_workers;

/// Calls `run` for every task, `max_concurrent_tasks` tasks at a time, and starts no further task when `should_stop`
/// returns true. Returns the index and outcome of each task that was started, in the order of the tasks.
pub(crate) fn run_concurrently<T: Sync, R: Send>(
    tasks: &[T],
    max_concurrent_tasks: Option<NonZeroUsize>,
    should_stop: impl Fn() -> bool + Sync,
    run: impl Fn(&T) -> R + Sync,
) -> Vec<(usize, R)> {
    let next = AtomicUsize::new(0);
    let done: Mutex<Vec<(usize, R)>> = Mutex::default();
    let work = || {
        while !should_stop() {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let Some(task) = tasks.get(number) else { return };
            let outcome = run(task);
            done.lock().expect("no thread panicked").push((number, outcome));
        }
    };
    std::thread::scope(|scope| {
        let threads = max_concurrent_tasks.map_or(1, NonZeroUsize::get).min(tasks.len());
        // If no thread can be started, this one executes the tasks.
        if spawn_workers(scope, threads, work).is_err() {
            work();
        }
    });
    let mut done = done.into_inner().expect("no thread panicked");
    done.sort_by_key(|&(number, _)| number);
    done
}
