//! What can go wrong with a trace, each with the place where it went wrong.
//!
//! Text formats name line and column, binary formats record and byte, because the person who reads the message has
//! the file open in an editor or in a hex dump. A file that ends too early says how many requests were good, so that
//! a caller can keep a partial result and mark it as such.

use std::io;

use crate::Format;

/// An error while opening, reading or writing a trace.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TraceError {
    /// The file cannot be opened or its first bytes cannot be read.
    #[error("{file}: {source}")]
    Open {
        /// The file.
        file: String,
        /// What the system said.
        source: io::Error,
    },
    /// A line of a text format does not parse.
    #[error("{file}: line {line}, column {column}: expected {expected}, found `{found}`")]
    Line {
        /// The file.
        file: String,
        /// Line number, from 1.
        line: u64,
        /// Column in characters, from 1.
        column: usize,
        /// What the format wants there.
        expected: &'static str,
        /// The start of what is there instead.
        found: String,
    },
    /// A record of a binary format does not parse.
    #[error("{file}: record {record} at byte {offset}: expected {expected}")]
    Record {
        /// The file.
        file: String,
        /// Record number, from 1.
        record: u64,
        /// Offset of the record in the decompressed file.
        offset: u64,
        /// What the format wants there.
        expected: &'static str,
    },
    /// The file ends too early, or its compressed form is damaged.
    #[error("{file}: the file is truncated or corrupt after {requests} requests: {source}")]
    Broken {
        /// The file.
        file: String,
        /// Good requests before the damage.
        requests: u64,
        /// What the decompressor or the reader said.
        source: io::Error,
    },
    /// There is nothing in the file.
    #[error("{file}: the file is empty")]
    Empty {
        /// The file.
        file: String,
    },
    /// No format recognises the first records.
    #[error("{file}: not a trace in a known format (first bytes `{start}`); name one of {}", Format::names())]
    Unknown {
        /// The file.
        file: String,
        /// The start of the file.
        start: String,
    },
    /// Several formats fit the first records.
    #[error(
        "{file}: may be {}; the columns do not tell, so name the format (and time unit)",
        Format::list(candidates)
    )]
    Ambiguous {
        /// The file.
        file: String,
        /// The formats that fit.
        candidates: Vec<Format>,
    },
    /// The format leaves something open that only the user knows.
    #[error("{file}: {format} {reason}")]
    NeedsOption {
        /// The file.
        file: String,
        /// The format.
        format: Format,
        /// What is missing.
        reason: &'static str,
    },
    /// An option is set that the format has no use for.
    #[error("{file}: a {format} trace needs nobody to say {option}: leave it out")]
    UnusedOption {
        /// The file.
        file: String,
        /// The format.
        format: Format,
        /// What it is about, with its name on the command line.
        option: &'static str,
    },
    /// The output cannot be written.
    #[error("cannot write the trace: {0}")]
    Write(#[from] io::Error),
    /// A request has a property that the output format cannot hold.
    #[error("request {request} cannot be written: {reason}")]
    Unwritable {
        /// Request number, from 1.
        request: u64,
        /// The property.
        reason: &'static str,
    },
    /// More distinct pages than a 32-bit page number addresses.
    #[error("the trace touches more than 2^32 - 1 distinct pages")]
    TooManyPages,
}

impl TraceError {
    /// Good requests before the damage, if this error ended a trace that had begun well.
    pub fn requests_before(&self) -> Option<u64> {
        match self {
            Self::Broken { requests, .. } => Some(*requests),
            _ => None,
        }
    }
}

/// Why one line or record was refused; the reader adds file and position.
#[cfg(feature = "readers")]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Bad {
    /// Byte offset inside the line.
    pub at: usize,
    /// What the format wants there.
    pub expected: &'static str,
}

#[cfg(feature = "readers")]
impl Bad {
    /// Wrong as a whole: the position is the start of the line or record.
    pub(crate) fn whole(expected: &'static str) -> Self {
        Self { at: 0, expected }
    }
}

/// Lines or records that were refused and skipped.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Rejected {
    /// How many.
    pub count: u64,
    /// Messages of the first few.
    pub first: Vec<String>,
}

impl Rejected {
    /// How many messages are kept.
    pub const KEPT: usize = 5;

    #[cfg(feature = "readers")]
    pub(crate) fn add(&mut self, error: &TraceError) {
        self.count += 1;
        if self.first.len() < Self::KEPT {
            self.first.push(error.to_string());
        }
    }
}
