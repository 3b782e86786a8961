//! Trace formats other than the native one: one file each, with the parser of one line or one record.

pub(crate) mod alibaba;
pub(crate) mod blkparse;
pub(crate) mod blktrace;
pub(crate) mod capture;
pub(crate) mod csv;
pub(crate) mod disksim;
pub(crate) mod fio;
pub(crate) mod fiu;
pub(crate) mod mqsim;
pub(crate) mod msr;
pub(crate) mod nbd;
pub(crate) mod oracle_general;
pub(crate) mod spc;
pub(crate) mod systor;
pub(crate) mod tencent;
pub(crate) mod vscsi;
pub(crate) mod wiscsee;

pub use csv::{CsvWriter, parse_content_descriptors};
