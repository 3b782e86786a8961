//! The known trace formats, by name.

use std::fmt;

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
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
