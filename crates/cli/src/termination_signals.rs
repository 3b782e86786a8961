//! The signals that ask the command to end: SIGINT (Ctrl-C), SIGTERM, and SIGHUP (the terminal is closed).

use std::io;
use std::thread;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use wearwell_serve::ignored_signals::is_signal_ignored;

/// Calls `on_signal` on a thread of its own whenever a signal asks this process to end. SIGHUP stays ignored if it is
/// ignored already, as after `nohup`.
///
/// # Errors
/// Those of the operating system. The signals then have their former actions.
pub(crate) fn handle(mut on_signal: impl FnMut() + Send + 'static) -> io::Result<()> {
    let is_handled = |&signal: &i32| signal != SIGHUP || !is_signal_ignored(SIGHUP);
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP].into_iter().filter(is_handled))?;
    let handle_signals = move || {
        for _ in signals.forever() {
            on_signal();
        }
    };
    thread::Builder::new().name("signals".into()).spawn(handle_signals).map(drop)
}
