//! The trace formats that Wearwell reads, with their names and descriptions for the command line.

use std::fmt;

/// A file format of block traces.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Format {
    /// Wearwell's compact binary format (`.wwt`).
    Native,
    /// Wearwell's CSV, described in `docs/TRACE-FORMAT.md`.
    Csv,
    /// Any CSV file that the user describes: `CsvColumns` states which column holds which field.
    Columns,
    /// Wearwell's block captures (`NAME.ops`), with the contents of the written pages.
    Capture,
    /// FIU (I/O Deduplication) traces, with digests of the page contents.
    Fiu,
    /// Text output of the tool blkparse (Linux block layer events).
    Blkparse,
    /// Binary output of the tool blktrace (Linux block layer events).
    Blktrace,
    /// CSV of the MSR Cambridge traces.
    Msr,
    /// ASCII traces of the Storage Performance Council (SPC), as published by `UMass`.
    Spc,
    /// ASCII traces of the simulator `DiskSim`.
    #[serde(rename = "disksim")]
    DiskSim,
    /// ASCII traces of the simulators `MQSim` and `SSDsim`.
    #[serde(rename = "mqsim")]
    MqSim,
    /// I/O logs of the load generator fio, version 2 or 3.
    Fio,
    /// `CloudPhysics` vSCSI traces, as `libCacheSim` stores them.
    Vscsi,
    /// Binary traces of `libCacheSim` in its format `oracleGeneral`.
    OracleGeneral,
    /// CSV of the Alibaba cloud block traces.
    Alibaba,
    /// CSV of the Tencent cloud block storage (CBS) traces.
    Tencent,
    /// Block layer events that the tool `WiscSee` extracts from blkparse output.
    Wiscsee,
    /// Transaction logs of the network block device protocol (NBD).
    Nbd,
    /// CSV of the SYSTOR '17 traces (virtual desktop storage).
    Systor,
}

impl Format {
    /// Every trace format, in the order in which the command line lists them.
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

    /// Returns the format's name on the command line.
    pub fn name(self) -> &'static str {
        self.name_and_description().0
    }

    /// Returns whether traces in this format report a request at several stages (queued, issued, completed), of which
    /// one is read.
    pub fn records_stages(self) -> bool {
        matches!(self, Self::Blkparse | Self::Blktrace | Self::Wiscsee)
    }

    /// Returns a description of the trace format in one line, for the list of formats on the command line.
    pub fn description(self) -> &'static str {
        self.name_and_description().1
    }

    /// Returns the format with this command-line name, if there is one.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|format| format.name() == name)
    }

    /// Returns the format's name on the command line, and its description in one line.
    fn name_and_description(self) -> (&'static str, &'static str) {
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

    /// Returns the names of all trace formats, joined by commas.
    pub(crate) fn all_names() -> String {
        Self::joined_names(&Self::ALL)
    }

    /// Returns the names of these trace formats, joined by commas.
    pub(crate) fn joined_names(formats: &[Self]) -> String {
        formats.iter().map(|format| format.name()).collect::<Vec<_>>().join(", ")
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
