//! The command `top`: displays activity and wear of a served device at intervals. Also the command `snapshot`, which
//! uses the same control socket.

use std::fmt::Write as _;
use std::io::{BufRead, BufReader, IsTerminal, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::Value;
use wearwell_serve::image::UnreadableSectors;

use crate::args::TopArgs;
use crate::output::print;
use crate::{Failure, Outcome};

/// Executes the command `top`: shows statistics of a served device at intervals.
pub(crate) fn top(args: &TopArgs) -> Result<Outcome, Failure> {
    if !(0.01..=86_400.0).contains(&args.interval) {
        return Err(Failure::of_usage("--interval is out of range: give 0.01 to 86400 seconds"));
    }
    let mut device = ControlConnection::connect(&args.control, args.export.clone())?;
    let is_terminal = std::io::stdout().is_terminal();
    let mut before = DeviceReading::read_from(&mut device)?;
    let mut looks = 0;
    loop {
        std::thread::sleep(Duration::from_secs_f64(args.interval));
        let now = DeviceReading::read_from(&mut device)?;
        let text = now.activity_text_since(&before);
        // A terminal shows one page that is replaced; other outputs get one page after the other.
        let shown = if is_terminal { visible_part(&text, terminal_size()) } else { format!("{text}\n") };
        let mut out = std::io::stdout().lock();
        if out.write_all(shown.as_bytes()).and_then(|()| out.flush()).is_err() {
            return Ok(Outcome::Done); // Nobody looks any more.
        }
        before = now;
        looks += 1;
        if args.count.is_some_and(|count| looks >= count) {
            return Ok(Outcome::Done);
        }
    }
}

/// Executes the command `snapshot`: makes the server copy an image to a directory; exit status 3 if sectors are damaged
/// in the copy, because the disk could not read them.
pub(crate) fn snapshot(control: &Path, export: Option<String>, directory: &Path) -> Result<Outcome, Failure> {
    let mut device = ControlConnection::connect(control, export)?;
    // The working directory of the server may be another.
    let directory = std::path::absolute(directory).map_err(|error| Failure::of_run(&error))?;
    let command = serde_json::json!({ "command": "snapshot", "directory": directory });
    let reply = device.send_command(command)?;
    if let Some(error) = reply["error"].as_str() {
        return Err(Failure::of_run(&std::io::Error::other(error.to_owned())));
    }
    // A server of an earlier version does not name them.
    let unreadable: Vec<UnreadableSectors> =
        serde_json::from_value(reply["unreadable_sectors"].clone()).unwrap_or_default();
    for sectors in &unreadable {
        let directory = directory.display();
        print(&format!("{directory}: {sectors}; repair it with `wearwell repair {directory} --in-place`\n"))?;
    }
    if unreadable.is_empty() { Ok(Outcome::Done) } else { Ok(Outcome::Partial) }
}

/// Returns the number of columns and rows of the terminal.
fn terminal_size() -> (usize, usize) {
    match rustix::termios::tcgetwinsize(std::io::stdout()) {
        Ok(size) if size.ws_col > 0 && size.ws_row > 0 => (size.ws_col.into(), size.ws_row.into()),
        _ => (80, 24),
    }
}

/// Returns the part of a text that a terminal window of this size can show without wrapping or scrolling, beginning at
/// the upper left corner.
pub fn visible_part(text: &str, (columns, rows): (usize, usize)) -> String {
    let lines = text.lines().take(rows).map(|line| line.chars().take(columns).collect::<String>());
    format!("\x1b[H\x1b[2J{}", lines.collect::<Vec<_>>().join("\r\n"))
}

/// First bytes that an NBD server sends; they show that a socket is not a control socket.
const NBD_GREETING: &[u8] = b"NBDMAGIC";

/// A connection to the control socket of a running `wearwell serve`.
struct ControlConnection {
    /// Socket of the connection, with a buffer for the replies.
    socket_reader: BufReader<UnixStream>,
    /// Path of the socket, for messages about failures.
    socket_name: String,
    /// Name of the export to which commands are addressed; `None` if the server has only one.
    export: Option<String>,
}

impl ControlConnection {
    /// Connects to the control socket at `path`.
    fn connect(path: &Path, export: Option<String>) -> Result<Self, Failure> {
        let name = path.display().to_string();
        let socket = UnixStream::connect(path).map_err(|error| {
            let advice = match error.kind() {
                std::io::ErrorKind::PermissionDenied => {
                    "run this as the user who started the server, or start the server with another --socket-mode".into()
                }
                _ => format!("start the server with --control {name}"),
            };
            Failure::of_usage(format!("{name}: cannot connect to this control socket: {error}; {advice}"))
        })?;
        Ok(Self { socket_reader: BufReader::new(socket), socket_name: name, export })
    }

    /// Sends a command that returns data about the device, and returns this data; a refusal is a failure.
    fn request_statistics(&mut self, command: &str) -> Result<Value, Failure> {
        let reply = self.send_command(serde_json::json!({ "command": command }))?;
        match reply["error"].as_str() {
            Some(sentence) => Err(Failure::of_usage(sentence.to_owned())),
            None if reply["ok"] == true => Ok(reply),
            None => Err(self.connection_ended_failure()),
        }
    }

    /// Sends a command to the server's control socket and returns the answer, which may be a refusal.
    fn send_command(&mut self, mut command: Value) -> Result<Value, Failure> {
        if let Some(export) = &self.export {
            command["export"] = export.clone().into();
        }
        let mut reply = String::new();
        let asked = writeln!(self.socket_reader.get_mut(), "{command}");
        let answered = asked.and_then(|()| self.socket_reader.fill_buf().map(<[u8]>::to_vec));
        if answered.as_ref().is_ok_and(|bytes| bytes.starts_with(NBD_GREETING)) {
            return Err(Failure::of_usage(format!(
                "{}: this is the NBD socket of a server: name its control socket instead (that of `wearwell serve \
                 --control`)",
                self.socket_name
            )));
        }
        let answered = answered.and_then(|_| self.socket_reader.read_line(&mut reply));
        match (answered, serde_json::from_str::<Value>(&reply)) {
            (Ok(_), Ok(reply)) => Ok(reply),
            _ => Err(self.connection_ended_failure()),
        }
    }

    /// Returns the failure of a command whose server closed the connection or sent no valid reply.
    fn connection_ended_failure(&self) -> Failure {
        Failure::of_run(&std::io::Error::other(format!(
            "{}: the server closed the connection or sent no valid reply: check that `wearwell serve` still runs and \
             that this is its control socket; if so, its log says why it disconnects clients",
            self.socket_name
        )))
    }
}

/// Counters and health of a served device at one moment.
struct DeviceReading {
    /// Time at which the counters were read.
    counters_read_at: Instant,
    /// Reply to the command `stats`: counters of requests and flash operations.
    stats: Value,
    /// Reply to the command `health`: wear and other figures on the state of the device.
    health: Value,
}

impl DeviceReading {
    /// Requests counters and health of the device.
    fn read_from(device: &mut ControlConnection) -> Result<Self, Failure> {
        Ok(Self {
            counters_read_at: Instant::now(),
            stats: device.request_statistics("stats")?,
            health: device.request_statistics("health")?,
        })
    }

    /// Returns the counter with this name; 0 if the device has none.
    fn counter_value(&self, name: &str) -> f64 {
        self.stats[name].as_f64().unwrap_or(0.0)
    }

    /// Returns one page of text about the device's activity since the earlier moment `before`.
    fn activity_text_since(&self, before: &Self) -> String {
        let seconds = (self.counters_read_at - before.counters_read_at).as_secs_f64();
        let since = |name: &str| self.counter_value(name) - before.counter_value(name);
        let rate = |name: &str| since(name) / seconds;
        let mib = |name: &str| rate(name) / f64::from(1 << 20);
        let health = |name: &str| self.health[name].clone();
        let page_bytes = self.counter_value("page_bytes");
        let now = if since("host_page_writes") > 0.0 {
            format!("{:.3}", since("programs") / since("host_page_writes"))
        } else {
            "-".to_owned()
        };
        let mut text = String::new();
        let mut line = |name: &str, value: String| {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{name:22} {value}");
        };
        let design = self.stats["design"].as_str().unwrap_or_default();
        line(
            "design",
            format!("{design}, {:.0} MiB", self.counter_value("capacity_bytes") / f64::from(1 << 20)),
        );
        line("host reads", format!("{:.0} /s, {:.1} MiB/s", rate("host_reads"), mib("host_bytes_read")));
        line("host writes", format!("{:.0} /s, {:.1} MiB/s", rate("host_writes"), mib("host_bytes_written")));
        line(
            "trims, flushes, remaps",
            format!("{:.0}, {:.0}, {:.0} /s", rate("host_trims"), rate("host_flushes"), rate("host_remaps")),
        );
        line(
            "flash programs",
            format!(
                "{:.0} /s, {:.1} MiB/s",
                rate("programs"),
                rate("programs") * page_bytes / f64::from(1 << 20)
            ),
        );
        line("flash erases", format!("{:.1} /s", rate("erases")));
        line(
            "write amplification",
            format!("{now} now, {:.3} since start", self.counter_value("write_amplification")),
        );
        line("programs by cause", counts_by_cause_text(&self.stats["programs_by_cause"]));
        line(
            "free blocks",
            format!("{} ({} %)", self.counter_value("free_blocks"), health("percent_free_blocks")),
        );
        line(
            "wear",
            format!(
                "{} % used; erases {} to {}, mean {:.1}, rated {}",
                health("percent_used"),
                health("min_erase_count"),
                health("max_erase_count"),
                health("mean_erase_count").as_f64().unwrap_or(0.0),
                health("rated_erase_count"),
            ),
        );
        line("spare", format!("{} % available, {} bad blocks", health("avail_spare"), health("bad_blocks")));
        line(
            "power",
            format!(
                "{}, {}",
                count_with_noun(&health("power_cycles"), "cycle"),
                count_with_noun(&health("unsafe_shutdowns"), "unsafe shutdown")
            ),
        );
        text
    }
}

/// Returns a count with a noun, which gets an `s` unless the count is 1.
fn count_with_noun(count: &Value, name: &str) -> String {
    format!("{count} {name}{}", if *count == 1 { "" } else { "s" })
}

/// Returns the counts of flash operations by cause (host, garbage collection and others) as text.
fn counts_by_cause_text(counts: &Value) -> String {
    let counts = counts.as_object().into_iter().flatten();
    let parts: Vec<String> = counts.map(|(cause, count)| format!("{cause} {count}")).collect();
    if parts.is_empty() { "none".to_owned() } else { parts.join(", ") }
}
