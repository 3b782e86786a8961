//! Displays progress: on a terminal a bar with rate and time left, otherwise a line every ten seconds.

use std::cell::{Cell, RefCell};
use std::io::IsTerminal;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use wearwell_replay::replay::{Progress, RunPhase};

use crate::output::print_message;
use crate::termination_signals;

/// Time between two lines of progress when standard error is no terminal.
const PROGRESS_LINE_INTERVAL: Duration = Duration::from_secs(10);

/// Displays the progress of runs and detects ctrl-C.
pub(crate) struct ProgressReporter {
    /// Whether ctrl-C was pressed; set by the signal handler.
    is_interrupted: Arc<AtomicBool>,
    /// Form in which progress is displayed: not at all, as a bar, or as lines.
    style: DisplayStyle,
}

/// How progress is displayed: not at all, as a bar on a terminal, or as lines.
#[derive(Clone, Copy, PartialEq, Eq)]
enum DisplayStyle {
    /// No progress is displayed (`--quiet`).
    Quiet,
    /// Progress is a bar on a terminal.
    Bar,
    /// Progress is a line of text at intervals, because standard error is no terminal.
    Lines,
}

impl ProgressReporter {
    pub(crate) fn new(quiet: bool) -> Self {
        let is_interrupted = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&is_interrupted);
        // If the handler cannot be installed, ctrl-C simply ends the process.
        let _ = termination_signals::handle(move || {
            // The second ctrl-C ends the process at once, without waiting for the run to notice the first.
            if flag.swap(true, Ordering::Relaxed) {
                std::process::exit(130);
            }
        });
        let style = match (quiet, std::io::stderr().is_terminal()) {
            (true, _) => DisplayStyle::Quiet,
            (false, true) => DisplayStyle::Bar,
            (false, false) => DisplayStyle::Lines,
        };
        Self { is_interrupted, style }
    }

    /// Prints a message between two runs, unless the command is quiet.
    pub(crate) fn print_message(&self, text: &str) {
        if self.style != DisplayStyle::Quiet {
            print_message(text);
        }
    }

    /// Returns whether ctrl-C was pressed.
    pub(crate) fn is_interrupted(&self) -> bool {
        self.is_interrupted.load(Ordering::Relaxed)
    }

    /// Returns a progress callback for one design's run.
    pub(crate) fn progress_callback_of_run(
        &self,
        design: &str,
    ) -> impl FnMut(Progress) -> ControlFlow<()> + use<> {
        let bar = RefCell::new(self.new_bar(design));
        let (start_time, last_line) = (Instant::now(), Cell::new(Instant::now()));
        let (style, design, is_interrupted) =
            (self.style, design.to_owned(), Arc::clone(&self.is_interrupted));
        move |progress| {
            match style {
                DisplayStyle::Bar => update_bar(&bar.borrow_mut(), progress),
                DisplayStyle::Lines if last_line.get().elapsed() >= PROGRESS_LINE_INTERVAL => {
                    last_line.set(Instant::now());
                    let unit = if progress.phase == RunPhase::Life { "erases" } else { "requests" };
                    let Progress { phase: at, done_work_units: done, total_work_units: total } = progress;
                    let left = time_left_text(start_time.elapsed(), done, total);
                    print_message(&format!("{design}: {} {done} of {total} {unit}{left}", phase_name(at)));
                }
                DisplayStyle::Quiet | DisplayStyle::Lines => {}
            }
            if is_interrupted.load(Ordering::Relaxed) {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        }
    }

    /// Returns a progress callback for an input that is read once. Its arguments are the amount read and the total (0:
    /// unknown), in `unit`.
    pub(crate) fn progress_callback_of_reading(
        &self,
        display_label: &str,
        unit: &'static str,
    ) -> impl FnMut(u64, u64) -> ControlFlow<()> + use<> {
        let bar = self.new_bar(display_label);
        let mut last_line = Instant::now();
        let (style, name, is_interrupted) =
            (self.style, display_label.to_owned(), Arc::clone(&self.is_interrupted));
        move |done, total| {
            match style {
                DisplayStyle::Bar => {
                    bar.set_message(format!("{done} {unit}"));
                    bar.set_length(total.max(done));
                    bar.set_position(done);
                }
                DisplayStyle::Lines if last_line.elapsed() >= PROGRESS_LINE_INTERVAL => {
                    last_line = Instant::now();
                    let of = if total > 0 { format!(" of {total}") } else { String::new() };
                    print_message(&format!("{name}: {done}{of} {unit}"));
                }
                DisplayStyle::Quiet | DisplayStyle::Lines => {}
            }
            if is_interrupted.load(Ordering::Relaxed) {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        }
    }

    /// Creates the progress bar of a run; it is hidden if progress is not displayed as a bar.
    fn new_bar(&self, design: &str) -> ProgressBar {
        let target = if self.style == DisplayStyle::Bar {
            ProgressDrawTarget::stderr_with_hz(5)
        } else {
            ProgressDrawTarget::hidden()
        };
        let template = "{prefix:12} {msg:13} {wide_bar} {percent:>3} %  {per_sec}  {eta} left";
        let style = ProgressStyle::with_template(template).expect("the template is a constant");
        ProgressBar::with_draw_target(Some(1), target).with_style(style).with_prefix(design.to_owned())
    }
}

/// Counts finished runs and reports at intervals how long the remaining ones will take.
pub(crate) struct RemainingTimeReporter<'a> {
    /// Display on which the progress of the runs is printed.
    reporter: &'a ProgressReporter,
    /// Time at which the first run started.
    start_time: Instant,
    /// Numbers of finished and of all runs, which are shared by runs on several threads.
    run_counts: Mutex<RunCounts>,
}

/// Numbers of finished and of all runs, and the time of the last line of progress.
struct RunCounts {
    /// Number of runs that have ended.
    finished_runs: usize,
    /// Number of all runs, finished ones included.
    total_runs: usize,
    /// Time at which the last line of progress was printed.
    last_progress_line_time: Instant,
}

impl<'a> RemainingTimeReporter<'a> {
    /// Starts to count finished runs. The time left is estimated from their number and `total`, the number of all runs.
    pub(crate) fn of_runs(reporter: &'a ProgressReporter, total: usize) -> Self {
        let start_time = Instant::now();
        Self {
            reporter,
            start_time,
            run_counts: Mutex::new(RunCounts {
                finished_runs: 0,
                total_runs: total,
                last_progress_line_time: start_time,
            }),
        }
    }

    /// Removes a run from the total because its result is already known. Such a run takes no time, so it must not
    /// affect the estimate of the time left.
    pub(crate) fn exclude_resumed_run(&self) {
        self.run_counts.lock().expect("no thread panicked").total_runs -= 1;
    }

    /// Counts a finished run, and prints a line of progress if the last one is long enough ago.
    pub(crate) fn count_finished_run(&self) {
        let mut state = self.run_counts.lock().expect("no thread panicked");
        let RunCounts { finished_runs: done, total_runs: total, last_progress_line_time: last_line } =
            &mut *state;
        *done += 1;
        if last_line.elapsed() >= PROGRESS_LINE_INTERVAL {
            *last_line = Instant::now();
            let left = time_left_text(self.start_time.elapsed(), *done as u64, *total as u64);
            self.reporter.print_message(&format!("{done} of {total} runs{left}"));
        }
    }
}

/// Estimates the time left for `total` runs or steps from the pace so far, and formats it for a line of progress; empty
/// if nothing is done yet.
fn time_left_text(elapsed: Duration, done: u64, total: u64) -> String {
    if done == 0 {
        return String::new();
    }
    let seconds = elapsed.as_secs_f64() * total.saturating_sub(done) as f64 / done as f64;
    match seconds {
        ..90.0 => format!(", {seconds:.0} s left"),
        90.0..5400.0 => format!(", {:.0} min left", seconds / 60.0),
        _ => format!(", {:.1} h left", seconds / 3600.0),
    }
}

/// Displays the phase and the amount of done work of a run in its progress bar.
fn update_bar(bar: &ProgressBar, progress: Progress) {
    bar.set_message(phase_name(progress.phase));
    bar.set_length(progress.total_work_units);
    bar.set_position(progress.done_work_units);
}

/// Returns the name of the phase of a run for the progress bar.
fn phase_name(phase: RunPhase) -> &'static str {
    match phase {
        RunPhase::Precondition => "precondition",
        RunPhase::Aging => "aging",
        RunPhase::Replay => "replay",
        RunPhase::Life => "life",
    }
}
