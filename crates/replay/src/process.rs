//! CPU time and memory of this process, as the operating system counts them; zero on systems that do not report them.

use std::fs;

/// Returns the CPU time of the calling thread, seconds.
pub fn thread_cpu_seconds() -> f64 {
    let text = fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanoseconds = text.split_whitespace().next().and_then(|field| field.parse::<f64>().ok());
    nanoseconds.map_or(0.0, |ns| ns / 1e9)
}

/// Resets the record of the largest resident memory of this process, which [`peak_rss_bytes`] returns, to the present
/// resident memory.
pub fn reset_peak_rss() {
    // Not every system allows it; the peak then covers the whole process.
    let _ = fs::write("/proc/self/clear_refs", "5");
}

/// Returns the largest resident memory of this process since its start or the last reset, bytes.
pub fn peak_rss_bytes() -> u64 {
    let text = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|rest| rest.trim().trim_end_matches(" kB").parse::<u64>().ok());
    kib.map_or(0, |kib| kib * 1024)
}
