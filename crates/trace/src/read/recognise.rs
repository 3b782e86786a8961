//! Detects the format of a trace from the first bytes of its file.
//!
//! Binary formats are recognised by their magic numbers. For text, each parser tries the first [`FORMAT_SAMPLE_LINES`]
//! lines. The columns of the formats differ enough that only one parser accepts them. The exception is a line of five
//! blank-separated columns: `DiskSim` writes milliseconds with a fraction, `MQSim` writes integers in a unit that the
//! file does not state. A decimal point in the time column therefore means `DiskSim`. Integers alone decide nothing,
//! because `DiskSim` writes whole milliseconds as integers, too. The user then decides by naming the format or a time
//! unit.

use super::options::{OpenOptions, TimeUnit};
use super::{LineFormat, is_header};
use crate::error::ParseRefusal;
use crate::formats::alibaba::Alibaba;
use crate::formats::blkparse::Blkparse;
use crate::formats::blktrace::Blktrace;
use crate::formats::capture::Capture;
use crate::formats::csv::Csv;
use crate::formats::disksim::DiskSim;
use crate::formats::fio::FioLog;
use crate::formats::fiu::Fiu;
use crate::formats::mqsim::MqSim;
use crate::formats::msr::Msr;
use crate::formats::nbd::Nbd;
use crate::formats::spc::Spc;
use crate::formats::systor::Systor;
use crate::formats::tencent::Tencent;
use crate::formats::vscsi::Vscsi;
use crate::formats::wiscsee::Wiscsee;
use crate::{Format, Request, native};

/// Number of lines that a parser must accept for its trace format to be recognised; fewer if the file is shorter.
const FORMAT_SAMPLE_LINES: usize = 4;

/// Returns the trace formats that fit the first bytes of a decompressed file. `complete` states that the file has no
/// more bytes.
pub(crate) fn candidate_formats(head: &[u8], complete: bool, options: &OpenOptions) -> Vec<Format> {
    match head {
        _ if native::matches_signature(head) => vec![Format::Native],
        _ if Nbd::matches_signature(head) => vec![Format::Nbd],
        _ if Blktrace::matches_signature(head) => vec![Format::Blktrace],
        _ if Vscsi::matches_version(head) => vec![Format::Vscsi],
        _ => text_format_candidates(&sample_lines(head, complete), options),
    }
}

/// Returns the first complete, non-blank lines of a file, by which its trace format is recognised.
fn sample_lines(head: &[u8], complete: bool) -> Vec<&[u8]> {
    let end = if complete { head.len() } else { memchr::memrchr(b'\n', head).unwrap_or(0) };
    let lines = head[..end].split(|&byte| byte == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line));
    lines.filter(|line| !line.trim_ascii_start().is_empty()).take(FORMAT_SAMPLE_LINES).collect()
}

/// Returns the text formats whose parsers accept these first lines of a file.
fn text_format_candidates(lines: &[&[u8]], options: &OpenOptions) -> Vec<Format> {
    if lines.first().is_some_and(|line| Csv::matches_header(line)) {
        // The exact header decides before the parsers are tried: to parsers of other formats it looks like any line of
        // column names.
        return vec![Format::Csv];
    }
    let block_layer_stage = options.block_layer_stage;
    let answers = [
        (Format::Capture, accepts_all_lines(Capture::default(), lines)),
        (Format::Fiu, accepts_all_lines(Fiu::default(), lines)),
        (Format::Blkparse, accepts_all_lines(Blkparse::new(block_layer_stage), lines)),
        (Format::Msr, accepts_all_lines(Msr, lines)),
        (Format::Spc, accepts_all_lines(Spc, lines)),
        // Only integer times have a time unit, so a time unit rules out `DiskSim`.
        (Format::DiskSim, options.time_unit.is_none() && accepts_all_lines(DiskSim, lines)),
        (Format::MqSim, accepts_all_lines(MqSim { time_unit: TimeUnit::Nanoseconds }, lines)),
        (Format::Fio, accepts_all_lines(FioLog::default(), lines)),
        (Format::Alibaba, accepts_all_lines(Alibaba, lines)),
        (Format::Tencent, accepts_all_lines(Tencent, lines)),
        (Format::Wiscsee, accepts_all_lines(Wiscsee { block_layer_stage }, lines)),
        (Format::Systor, accepts_all_lines(Systor::default(), lines)),
    ];
    answers.into_iter().filter_map(|(format, fits)| fits.then_some(format)).collect()
}

/// Returns whether the parser of a trace format accepts all of the lines, apart from a header.
fn accepts_all_lines<F: LineFormat>(mut format: F, lines: &[&[u8]]) -> bool {
    let mut request = Request::default();
    let lines = match lines {
        [first, rest @ ..] if !rest.is_empty() && is_header::<F>(first) => rest,
        _ => lines,
    };
    let mut read = |line: &&[u8]| -> Result<_, ParseRefusal> {
        request.clear_optional_fields();
        format.parse(line, &mut request)
    };
    !lines.is_empty() && lines.iter().all(|line| read(line).is_ok())
}
