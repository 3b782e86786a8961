//! Signals that this process ignores, as it was told by the program that started it (`trap ''`, `nohup`).

use std::fs;

/// Returns whether this process ignores SIGXFSZ, so that a write beyond the limit on the size of files (`ulimit -f`)
/// fails with an error. By default this signal ends the process.
pub fn is_file_size_signal_ignored() -> bool {
    /// Number of the signal that Linux sends to a process whose write exceeds the limit on the size of files.
    const SIGXFSZ: i32 = 25;
    is_signal_ignored(SIGXFSZ)
}

/// Returns whether this process ignores the signal with this number (1 to 64).
pub fn is_signal_ignored(signal: i32) -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    ignored >> (signal - 1) & 1 == 1
}
