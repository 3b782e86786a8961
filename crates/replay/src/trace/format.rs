//! The known formats, and which of them fits the first bytes of a file.
//!
//! Binary formats are known by their magic numbers. For text, each parser is asked whether it reads the first
//! [`SAMPLE_LINES`] lines; the columns differ enough that one answer remains. The exception is five blank-separated
//! columns: `DiskSim` writes milliseconds with a fraction, `MQSim` integers in a unit of its own. A decimal point in the
//! time column therefore means `DiskSim`; integers alone mean nothing (`DiskSim` writes whole milliseconds so, too), and
//! the choice is left to the user, who settles it with the format or a time unit.

use std::fmt;

use super::blkparse::Blkparse;
use super::blktrace::Blktrace;
use super::capture::Capture;
use super::csv::Csv;
use super::disksim::DiskSim;
use super::error::Bad;
use super::fio::FioLog;
use super::fiu::Fiu;
use super::mqsim::MqSim;
use super::msr::Msr;
use super::nbd::Nbd;
use super::open::{OpenOptions, TimeUnit};
use super::reader::{LineFormat, is_header};
use super::spc::Spc;
use super::systor::Systor;
use super::tencent::Tencent;
use super::vscsi::Vscsi;
use super::wiscsee::Wiscsee;
use super::{Request, alibaba::Alibaba, native};
use crate::config::ConfigError;

/// Lines that a text format must read to be recognised.
const SAMPLE_LINES: usize = 4;

/// A trace format.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Format {
    /// Our compact binary format.
    Native,
    /// Our documented CSV.
    Csv,
    /// A CSV whose columns the user describes.
    Columns,
    /// Our block captures with page contents.
    Capture,
    /// FIU, with content digests.
    Fiu,
    /// blkparse text.
    Blkparse,
    /// blktrace binary.
    Blktrace,
    /// MSR Cambridge CSV.
    Msr,
    /// SPC, as of `UMass`.
    Spc,
    /// `DiskSim` ASCII.
    #[serde(rename = "disksim")]
    DiskSim,
    /// `MQSim` and `SSDsim` ASCII.
    #[serde(rename = "mqsim")]
    MqSim,
    /// fio iolog.
    Fio,
    /// `CloudPhysics` vSCSI.
    Vscsi,
    /// `libCacheSim` `oracleGeneral`.
    OracleGeneral,
    /// Alibaba cloud.
    Alibaba,
    /// Tencent cloud.
    Tencent,
    /// `WiscSee` block events.
    Wiscsee,
    /// NBD transaction log.
    Nbd,
    /// SYSTOR '17.
    Systor,
}

impl Format {
    /// Every format, in the order of a listing.
    pub const ALL: [Self; 19] = [
        Self::Native,
        Self::Csv,
        Self::Columns,
        Self::Capture,
        Self::Fiu,
        Self::Blkparse,
        Self::Blktrace,
        Self::Msr,
        Self::Spc,
        Self::DiskSim,
        Self::MqSim,
        Self::Fio,
        Self::Vscsi,
        Self::OracleGeneral,
        Self::Alibaba,
        Self::Tencent,
        Self::Wiscsee,
        Self::Nbd,
        Self::Systor,
    ];

    /// The name on the command line.
    pub fn name(self) -> &'static str {
        self.texts().0
    }

    /// One line for a listing.
    pub fn description(self) -> &'static str {
        self.texts().1
    }

    /// The format with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|format| format.name() == name)
    }

    /// The same, for who has to be told of a mistake.
    ///
    /// # Errors
    /// [`ConfigError::UnknownName`] with the nearest name.
    pub fn named(name: &str) -> Result<Self, ConfigError> {
        let known = Self::ALL.iter().map(|format| format.name());
        Self::from_name(name).ok_or_else(|| ConfigError::unknown("format", name, known))
    }

    fn texts(self) -> (&'static str, &'static str) {
        match self {
            Self::Native => {
                ("native", "Wearwell binary (.wwt): compact, checksummed, with content; fastest to read")
            }
            Self::Csv => {
                ("csv", "Wearwell CSV: time_ns,op,offset_bytes,len_bytes,device,fingerprints,source_bytes")
            }
            Self::Columns => {
                ("columns", "any CSV, described with --columns t=1,op=2,offset=3,length=4,unit=us")
            }
            Self::Capture => ("capture", "block capture NAME.ops with page contents in files beside it"),
            Self::Fiu => ("fiu", "FIU (I/O Deduplication): blkparse columns with MD5 of pages or sectors"),
            Self::Blkparse => ("blkparse", "blkparse default text; one action is taken (D, Q or C)"),
            Self::Blktrace => {
                ("blktrace", "blktrace binary, either byte order; one action is taken (D, Q or C)")
            }
            Self::Msr => {
                ("msr", "MSR Cambridge CSV: file time,host,disk,Read|Write,offset,size,response time")
            }
            Self::Spc => ("spc", "SPC / UMass: unit,block,bytes,r|w,seconds"),
            Self::DiskSim => {
                ("disksim", "DiskSim ASCII: milliseconds device block blocks flags (bit 0: read)")
            }
            Self::MqSim => {
                ("mqsim", "MQSim / SSDsim ASCII: time device sector sectors type (0 write, 1 read)")
            }
            Self::Fio => ("fio", "fio iolog, version 2 or 3"),
            Self::Vscsi => ("vscsi", "CloudPhysics vSCSI binary, version 1 or 2, as libCacheSim stores it"),
            Self::OracleGeneral => {
                ("oracle-general", "libCacheSim oracleGeneral; has no operation: say reads or writes")
            }
            Self::Alibaba => ("alibaba", "Alibaba CSV: device,R|W,offset,length,microseconds"),
            Self::Tencent => ("tencent", "Tencent CBS CSV: seconds,sector,sectors,0|1,volume"),
            Self::Wiscsee => {
                ("wiscsee", "WiscSee block events: pid D|C operation offset size seconds gap pre")
            }
            Self::Nbd => ("nbd", "NBD transaction log (binary requests and replies, no times)"),
            Self::Systor => ("systor", "SYSTOR '17 CSV: seconds,response,R|W,unit,offset,size"),
        }
    }

    pub(crate) fn names() -> String {
        Self::list(&Self::ALL)
    }

    pub(crate) fn list(formats: &[Self]) -> String {
        formats.iter().map(|format| format.name()).collect::<Vec<_>>().join(", ")
    }

    /// The formats that fit the first bytes of a decompressed file; `complete` if there are no more bytes.
    pub(crate) fn candidates(head: &[u8], complete: bool, options: &OpenOptions) -> Vec<Self> {
        match head {
            _ if native::fits(head) => vec![Self::Native],
            _ if Nbd::fits(head) => vec![Self::Nbd],
            _ if Blktrace::fits(head) => vec![Self::Blktrace],
            _ if Vscsi::fits(head) => vec![Self::Vscsi],
            _ => text_candidates(&sample(head, complete), options),
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The first complete lines that are not blank.
fn sample(head: &[u8], complete: bool) -> Vec<&[u8]> {
    let end = if complete { head.len() } else { memchr::memrchr(b'\n', head).unwrap_or(0) };
    let lines = head[..end].split(|&byte| byte == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line));
    lines.filter(|line| !line.trim_ascii_start().is_empty()).take(SAMPLE_LINES).collect()
}

fn text_candidates(lines: &[&[u8]], options: &OpenOptions) -> Vec<Format> {
    if lines.first().is_some_and(|line| Csv::begins_with(line)) {
        // Our header is known word by word; to other formats it would be any line that names columns.
        return vec![Format::Csv];
    }
    let action = options.action;
    let answers = [
        (Format::Capture, reads(Capture::default(), lines)),
        (Format::Fiu, reads(Fiu::default(), lines)),
        (Format::Blkparse, reads(Blkparse::new(action), lines)),
        (Format::Msr, reads(Msr, lines)),
        (Format::Spc, reads(Spc, lines)),
        // A time unit is only ever given for integer times.
        (Format::DiskSim, options.time_unit.is_none() && reads(DiskSim, lines)),
        (Format::MqSim, reads(MqSim { unit: TimeUnit::Nanoseconds }, lines)),
        (Format::Fio, reads(FioLog::default(), lines)),
        (Format::Alibaba, reads(Alibaba, lines)),
        (Format::Tencent, reads(Tencent, lines)),
        (Format::Wiscsee, reads(Wiscsee { action }, lines)),
        (Format::Systor, reads(Systor::default(), lines)),
    ];
    answers.into_iter().filter_map(|(format, fits)| fits.then_some(format)).collect()
}

/// Whether the parser takes all of the lines.
fn reads<F: LineFormat>(mut format: F, lines: &[&[u8]]) -> bool {
    let mut request = Request::default();
    let lines = match lines {
        [first, rest @ ..] if !rest.is_empty() && is_header::<F>(first) => rest,
        _ => lines,
    };
    let mut read = |line: &&[u8]| -> Result<_, Bad> {
        request.clear();
        format.parse(line, &mut request)
    };
    !lines.is_empty() && lines.iter().all(|line| read(line).is_ok())
}
