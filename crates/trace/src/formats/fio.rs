//! Parser of fio's I/O logs, versions 2 and 3: a header line, then lines `file action` or `file action offset length`.
//!
//! In version 3 each line begins with a timestamp in microseconds. Version 2 has `wait` lines instead, whose waits in
//! microseconds are summed to the time of the requests after them. Files are numbered as devices in the order in which
//! their names first appear.

use rustc_hash::FxHashMap;

use crate::error::ParseRefusal;
use crate::read::fields::{BlankSeparatedFields, Field, checked_product};
use crate::read::{LineFormat, ParseOutcome};
use crate::{Format, Op, Request};

/// Maximum number of file names that an I/O log of fio may contain, more than any job has. This bounds the memory for
/// the names.
const FILE_NAMES_MAX: usize = 1 << 12;
/// Longest file name that is accepted in an I/O log of fio, bytes; no operating system allows a longer one.
const FILE_NAME_MAX_BYTES: usize = 4096;

/// Parser of the lines of I/O logs of the load generator fio.
#[derive(Default)]
pub(crate) struct FioLog {
    /// Version of the I/O log, 2 or 3; 0 before the header line is read.
    log_version: u8,
    /// Sum of the waits read so far, which is the time of the next request, microseconds.
    summed_waits_us: u64,
    /// Device number of each file name that occurred so far.
    device_by_file_name: FxHashMap<Vec<u8>, u32>,
}

impl FioLog {
    /// Parses the header line of an I/O log, which states its version.
    fn parse_header(&mut self, line: &[u8]) -> Result<ParseOutcome, ParseRefusal> {
        self.log_version = match line.trim_ascii() {
            b"fio version 2 iolog" => 2,
            b"fio version 3 iolog" => 3,
            _ => {
                return Err(ParseRefusal::of_whole_record(
                    "the first line must be `fio version 2 iolog` or `fio version 3 iolog`",
                ));
            }
        };
        Ok(ParseOutcome::NotARequest)
    }

    /// Returns the device number of a file. A file name that occurs for the first time gets the next unused number.
    fn assign_device_of_file(&mut self, name: Field<'_>) -> Result<u32, ParseRefusal> {
        if let Some(&device) = self.device_by_file_name.get(name.text) {
            return Ok(device);
        }
        if self.device_by_file_name.len() == FILE_NAMES_MAX || name.text.len() > FILE_NAME_MAX_BYTES {
            return name.refuse("the log must name at most 4096 files, with names of at most 4096 bytes");
        }
        let device = self.device_by_file_name.len() as u32;
        self.device_by_file_name.insert(name.text.to_vec(), device);
        Ok(device)
    }

    /// Parses a `wait` line and adds the wait to the time of the requests after it.
    fn add_wait(&mut self, fields: &mut BlankSeparatedFields<'_>) -> Result<ParseOutcome, ParseRefusal> {
        let waited = fields.next_number(
            "the third field of a line with `wait` must be the wait, a whole number of microseconds",
        )?;
        self.summed_waits_us = self
            .summed_waits_us
            .checked_add(waited)
            .ok_or(ParseRefusal::of_whole_record("the sum of all waits must be below 2^64 microseconds"))?;
        Ok(ParseOutcome::NotARequest)
    }
}

impl LineFormat for FioLog {
    const FORMAT: Format = Format::Fio;

    fn parse(&mut self, line: &[u8], into: &mut Request) -> Result<ParseOutcome, ParseRefusal> {
        if self.log_version == 0 {
            return self.parse_header(line);
        }
        let mut fields = BlankSeparatedFields::new(line);
        let time_us = match self.log_version {
            3 => fields.next_number(
                "the first field of the line must be the time, a whole number of microseconds",
            )?,
            _ => self.summed_waits_us,
        };
        into.time_ns = checked_product(
            time_us,
            1000,
            0,
            "the time of a request must be at most 18446744073709551 microseconds",
        )?;
        let file =
            fields.next_word("the line must have a file name, in version 3 of the format after the time")?;
        let action =
            fields.next_word("the file name must be followed by an action, such as read or write")?;
        into.op = match action.text {
            b"add" | b"open" | b"close" => return Ok(ParseOutcome::NotARequest),
            b"wait" if self.log_version == 2 => return self.add_wait(&mut fields),
            b"read" => Op::Read,
            b"write" => Op::Write,
            b"trim" => Op::Trim,
            b"sync" | b"datasync" => Op::Flush,
            _ => {
                return action.refuse(
                    "the action must be read, write, trim, sync, datasync, add, open, close or, in version 2 of the \
                     format, wait",
                );
            }
        };
        into.device = self.assign_device_of_file(file)?;
        (into.offset_bytes, into.len_bytes) = (0, 0);
        if into.op != Op::Flush {
            into.offset_bytes =
                fields.next_number("the action must be followed by the offset, a whole number of bytes")?;
            into.len_bytes =
                fields.next_number("the offset must be followed by the length, a whole number of bytes")?;
        }
        Ok(ParseOutcome::Request)
    }
}
