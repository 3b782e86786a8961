//! Log of the server: one line per event on standard error, for people or for the journal of systemd.
//!
//! A line for people begins with the time and the level. The journal adds the time itself, and takes the level from a
//! number in angle brackets at the beginning of a line (`sd-daemon(3)`). Line breaks in a message are written as `\\n`,
//! because a reader of the log takes each line as one event.

use std::io::{self, Write};

use tracing::level_filters::LevelFilter;
use tracing::{Level, Metadata, subscriber};
use tracing_subscriber::fmt::MakeWriter;

/// Format of log lines.
#[derive(clap::ValueEnum, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LogFormat {
    /// `journal` if standard error is connected to it, else `text`
    Auto,
    /// Time, level, connection, message
    Text,
    /// Level as a number (<3>), connection, message
    Journal,
}

/// Least important level of events that is logged.
#[derive(clap::ValueEnum, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LogLevel {
    /// Nothing
    Off,
    /// Damage, and refusals of the operating system
    Error,
    /// Also clients that are turned away or disconnected
    Warn,
    /// Also start and end of the server, and clients that attach and leave
    Info,
    /// Also each NBD request that is refused
    Debug,
    /// Everything
    Trace,
}

impl From<LogLevel> for LevelFilter {
    fn from(level: LogLevel) -> Self {
        match level {
            LogLevel::Off => Self::OFF,
            LogLevel::Error => Self::ERROR,
            LogLevel::Warn => Self::WARN,
            LogLevel::Info => Self::INFO,
            LogLevel::Debug => Self::DEBUG,
            LogLevel::Trace => Self::TRACE,
        }
    }
}

/// Sends all log events of this process to standard error. Returns true if they go to systemd's journal and logging is
/// not off: a failure of the command then has to be logged as an event, because the journal cannot know the level of
/// printed text.
pub(crate) fn start_stderr_logging(level: LogLevel, format: LogFormat) -> bool {
    let is_journal = match format {
        LogFormat::Auto => is_stderr_systemd_journal(),
        LogFormat::Text => false,
        LogFormat::Journal => true,
    };
    let events = tracing_subscriber::fmt()
        .with_max_level(LevelFilter::from(level))
        .with_target(false)
        .with_writer(StderrLogWriter { has_journal_prefix: is_journal });
    // An error means that a destination is set already, and there is none.
    let _ = if is_journal {
        subscriber::set_global_default(events.without_time().with_level(false).finish())
    } else {
        subscriber::set_global_default(events.finish())
    };
    is_journal && level != LogLevel::Off
}

/// Returns whether systemd connected standard error to its journal: `JOURNAL_STREAM` names the device and inode of the
/// journal's file.
fn is_stderr_systemd_journal() -> bool {
    let Ok(stream) = std::env::var("JOURNAL_STREAM") else { return false };
    let Ok(stat) = rustix::fs::fstat(io::stderr()) else { return false };
    stream == format!("{}:{}", stat.st_dev, stat.st_ino)
}

/// Destination of log events: standard error.
struct StderrLogWriter {
    /// Whether each line begins with its level as a number in angle brackets, as the journal of systemd expects.
    has_journal_prefix: bool,
}

impl<'a> MakeWriter<'a> for StderrLogWriter {
    type Writer = LinePrefixWriter<io::Stderr>;

    fn make_writer(&'a self) -> Self::Writer {
        LinePrefixWriter { prefix: "", destination: io::stderr() }
    }

    fn make_writer_for(&'a self, event: &Metadata<'_>) -> Self::Writer {
        let prefix = if self.has_journal_prefix { systemd_level_prefix(*event.level()) } else { "" };
        LinePrefixWriter { prefix, destination: io::stderr() }
    }
}

/// Returns the prefix that tells systemd's journal the level of a log line (error, warning, informational or debug) as
/// a number.
fn systemd_level_prefix(level: Level) -> &'static str {
    match level {
        Level::ERROR => "<3>",
        Level::WARN => "<4>",
        Level::INFO => "<6>",
        Level::DEBUG | Level::TRACE => "<7>",
    }
}

/// Writer that receives one whole event, which ends with a line break, and writes it as one line with a prefix.
pub struct LinePrefixWriter<W> {
    /// Text with which each line begins.
    pub prefix: &'static str,
    /// Writer to which each line is written.
    pub destination: W,
}

impl<W: Write> Write for LinePrefixWriter<W> {
    fn write(&mut self, event: &[u8]) -> io::Result<usize> {
        let text = event.strip_suffix(b"\n").unwrap_or(event);
        let mut line = self.prefix.as_bytes().to_vec();
        for &byte in text {
            match byte {
                b'\n' => line.extend_from_slice(b"\\n"),
                byte => line.push(byte),
            }
        }
        line.push(b'\n');
        // A log that nobody takes any more must not end the server.
        let _ = self.destination.write_all(&line);
        Ok(event.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.destination.flush()
    }
}
