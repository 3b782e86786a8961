//! The signal SIGXFSZ, which the system sends for a write beyond the limit on the size of files (`ulimit -f`). Its
//! default action would end the process in the middle of any write: of an image, a recording or a result.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use signal_hook::consts::SIGXFSZ;
use wearwell_serve::ignored_signals::is_file_size_signal_ignored;

/// Handles SIGXFSZ without any effect, so that a write beyond the limit on the size of files fails with an error, as on
/// a full disk. If the signal is ignored already, it stays ignored. Programs that this process starts have the default
/// action again.
pub(crate) fn turn_file_size_signal_into_write_error() {
    if !is_file_size_signal_ignored() {
        // The handler sets the flag, which nobody needs to read: the write says what happened. If it cannot be
        // installed, the default action remains.
        let _ = signal_hook::flag::register(SIGXFSZ, Arc::new(AtomicBool::new(false)));
    }
}
