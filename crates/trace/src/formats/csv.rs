//! Parser and writer of Wearwell's CSV: `time_ns,op,offset_bytes,len_bytes,device,fingerprints,source_bytes`.
//!
//! The first line must be exactly this header, or the shorter header of files without remaps, which lacks the last
//! column. `op` is R, W, T (trim), Z (write zeroes), F (flush), C (remap that copies), M (remap that moves) or P (a
//! phase begins). A remap takes pages from `source_bytes` on. `fingerprints` is empty or has one item per page touched,
//! separated by blanks. An item is a hexadecimal number, then optionally `:` and the compressed size, then optionally
//! `:` and the delta size, both in bytes; an unknown size is empty. See `docs/TRACE-FORMAT.md`.

use std::io::Write;

use wearwell::address::RemapMode;
use wearwell::data::{ContentDescriptor, Fingerprint};

use crate::error::{ParseRefusal, TraceError};
use crate::read::fields::{BlankSeparatedFields, CommaSeparatedFields, Field};
use crate::read::{LineFormat, ParseOutcome};
use crate::write::{TraceWriter, check_writable};
use crate::{Format, Op, Request};

/// Header line of a trace in Wearwell's CSV, with all columns.
const HEADER: &str = "time_ns,op,offset_bytes,len_bytes,device,fingerprints,source_bytes";
/// What the first line of a trace in Wearwell's CSV must be, for the error message about another line.
const HEADER_REQUIREMENT: &str =
    "the first line must be the header `time_ns,op,offset_bytes,len_bytes,device,fingerprints,source_bytes`";
/// Header line of a trace in Wearwell's CSV without the column for the source of remaps; such a trace has no remaps.
const HEADER_WITHOUT_REMAP_SOURCE: &str = "time_ns,op,offset_bytes,len_bytes,device,fingerprints";

/// Parser of the lines of traces in Wearwell's CSV format.
#[derive(Default)]
pub(crate) struct Csv {
    /// Kind of the header line; `None` before it is read.
    header_kind: Option<CsvHeaderKind>,
}

/// Kinds of header lines of Wearwell's CSV: with or without the column `source_bytes` (source of remaps).
#[derive(Clone, Copy, PartialEq)]
enum CsvHeaderKind {
    /// The header without the column `source_bytes`.
    WithoutRemapSourceColumn,
    /// The header with all columns, also `source_bytes`.
    AllColumns,
}

impl CsvHeaderKind {
    /// Returns the kind of a header line; an error if the line is no header of Wearwell's CSV.
    fn of_header(title: &[u8]) -> Result<Self, ParseRefusal> {
        match title {
            _ if title == HEADER.as_bytes() => Ok(Self::AllColumns),
            _ if title == HEADER_WITHOUT_REMAP_SOURCE.as_bytes() => Ok(Self::WithoutRemapSourceColumn),
            _ => Err(ParseRefusal::of_whole_record(HEADER_REQUIREMENT)),
        }
    }
}

impl Csv {
    /// Returns whether a file that begins with this line is Wearwell's CSV. Later lines are not examined here, so that
    /// a bad line is reported as an error with its number.
    pub(crate) fn matches_header(line: &[u8]) -> bool {
        CsvHeaderKind::of_header(line).is_ok()
    }
}

impl LineFormat for Csv {
    const FORMAT: Format = Format::Csv;

    fn parse(&mut self, line: &[u8], into: &mut Request) -> Result<ParseOutcome, ParseRefusal> {
        let Some(header_kind) = self.header_kind else {
            self.header_kind = Some(CsvHeaderKind::of_header(line)?);
            return Ok(ParseOutcome::NotARequest);
        };
        let mut fields = CommaSeparatedFields::new(line);
        into.time_ns = fields
            .next_number("the first field of the line must be the time, a whole number of nanoseconds")?;
        let op = fields.next_field();
        into.op = Op::from_csv_letter(op.text)
            .ok_or(ParseRefusal { byte_offset: op.byte_offset, requirement: OPERATION_REQUIREMENT })?;
        into.offset_bytes =
            fields.next_number("the third field of the line must be the offset, a whole number of bytes")?;
        into.len_bytes =
            fields.next_number("the fourth field of the line must be the length, a whole number of bytes")?;
        into.device = fields.next_u32(
            "the fifth field of the line must be the device, a whole number from 0 to 4294967295",
        )?;
        let fingerprints = fields.next_field();
        let source = if header_kind == CsvHeaderKind::AllColumns {
            fields.next_field()
        } else {
            Field { text: b"", byte_offset: op.byte_offset }
        };
        if matches!(into.op, Op::Remap(_)) {
            into.remap_source_offset_bytes = source.parse_number("a remap (C or M) must have its source, a whole \
                                                                  number of bytes, as the seventh field of the line")?;
        } else if !source.text.is_empty() {
            return source.refuse(
                "the seventh field of the line, source_bytes, must be empty, because only remaps (C or M) have a \
                 source",
            );
        }
        fields.require_end("the line must have as many fields as the header line")?;
        parse_content(fingerprints, into)?;
        Ok(ParseOutcome::Request)
    }
}

impl Op {
    /// Returns the letter by which Wearwell's CSV denotes this operation.
    pub fn csv_letter(self) -> char {
        match self {
            Self::Read => 'R',
            Self::Write => 'W',
            Self::Trim => 'T',
            Self::Zero => 'Z',
            Self::Flush => 'F',
            Self::Remap(RemapMode::Copy) => 'C',
            Self::Remap(RemapMode::Relocate) => 'M',
            Self::PhaseMarker => 'P',
        }
    }

    /// Returns the operation that a letter denotes in Wearwell's CSV; `None` if the text does not denote an operation.
    fn from_csv_letter(text: &[u8]) -> Option<Self> {
        let plain = [Self::Read, Self::Write, Self::Trim, Self::Zero, Self::Flush, Self::PhaseMarker];
        let remaps = [RemapMode::Copy, RemapMode::Relocate].map(Self::Remap);
        plain.into_iter().chain(remaps).find(|op| text == [op.csv_letter() as u8])
    }
}

/// What the column of operations must hold, for the error message about another text.
const OPERATION_REQUIREMENT: &str = "the second field of the line must be R (read), W (write), T (trim), Z (zeroing), \
                                     F (flush), C (remap that copies), M (remap that moves) or P (phase)";

/// What the column of fingerprints must hold, for the error message about a wrong number of fingerprints.
const FINGERPRINTS_REQUIREMENT: &str = "the sixth field of the line must be empty, or have one fingerprint for each \
                                        page of 4096 bytes that the request touches, separated by blanks";

/// Parses the column of fingerprints into one content descriptor per page of the request.
fn parse_content(items: Field<'_>, into: &mut Request) -> Result<(), ParseRefusal> {
    append_descriptors(items, &mut into.content)?;
    let pages = into.pages();
    let complete =
        into.content.is_empty() || into.content.len() as u64 == pages.end.saturating_sub(pages.start);
    if complete { Ok(()) } else { items.refuse(FINGERPRINTS_REQUIREMENT) }
}

/// Parses the contents of a request's pages, written as in the column `fingerprints` of Wearwell's CSV: one descriptor
/// per page, separated by blanks. An empty text has none. The number of pages of the request is not checked.
///
/// # Errors
/// What a descriptor must be like, if the text has an item that is none.
pub fn parse_content_descriptors(fingerprints: &str) -> Result<Vec<ContentDescriptor>, &'static str> {
    let mut content = Vec::new();
    append_descriptors(Field { text: fingerprints.as_bytes(), byte_offset: 0 }, &mut content)
        .map_err(|refusal| refusal.requirement)?;
    Ok(content)
}

/// Parses the items of a column of fingerprints, separated by blanks, and appends a content descriptor for each.
fn append_descriptors(items: Field<'_>, content: &mut Vec<ContentDescriptor>) -> Result<(), ParseRefusal> {
    let mut cursor = BlankSeparatedFields::new(items.text);
    loop {
        let item = cursor.next_field();
        let item = Field { text: item.text, byte_offset: items.byte_offset + item.byte_offset };
        if item.text.is_empty() {
            return Ok(());
        }
        content.push(parse_descriptor(item)?);
    }
}

/// Parses one item of the column of fingerprints: a fingerprint, then optionally compressed size and delta size.
fn parse_descriptor(item: Field<'_>) -> Result<ContentDescriptor, ParseRefusal> {
    let (fingerprint, sizes) = item.split_at(b':');
    let (compressed, delta) = sizes.split_at(b':');
    let value = fingerprint.parse_hex("a fingerprint must be a hexadecimal number of at most 16 digits")?;
    Ok(ContentDescriptor {
        fingerprint: Fingerprint(value),
        compressed_bytes: parse_descriptor_size(compressed)?,
        delta_bytes: parse_descriptor_size(delta)?,
    })
}

/// Parses the compressed size or the delta size of a page, bytes; an empty field is an unknown size.
fn parse_descriptor_size(field: Field<'_>) -> Result<u16, ParseRefusal> {
    if field.text.is_empty() {
        return Ok(ContentDescriptor::UNKNOWN_SIZE);
    }
    let requirement = "the sizes after a fingerprint (compressed, and as a delta) must be whole numbers of bytes \
                       below 65535, such as 5e:900:120";
    u16::try_from(field.parse_number(requirement)?)
        .map_err(|_| ParseRefusal { byte_offset: field.byte_offset, requirement })
}

/// Writer of traces in Wearwell's CSV.
pub struct CsvWriter<W> {
    /// Output to which the CSV text is written.
    out: W,
    /// Number of requests that were written so far.
    written_requests: u64,
}

impl<W: Write> CsvWriter<W> {
    /// Starts a CSV trace by writing the header line.
    ///
    /// # Errors
    /// [`TraceError::Write`] if `out` fails.
    pub fn new(mut out: W) -> Result<Self, TraceError> {
        writeln!(out, "{HEADER}")?;
        Ok(Self { out, written_requests: 0 })
    }
}

impl<W: Write> TraceWriter for CsvWriter<W> {
    fn write(&mut self, request: &Request) -> Result<(), TraceError> {
        self.written_requests += 1;
        check_writable(request, self.written_requests)?;
        let Request { time_ns, op, offset_bytes, len_bytes, device, content, .. } = request;
        write!(self.out, "{time_ns},{},{offset_bytes},{len_bytes},{device},", op.csv_letter())?;
        for (index, descriptor) in content.iter().enumerate() {
            let blank = if index == 0 { "" } else { " " };
            write!(self.out, "{blank}{:x}{}", descriptor.fingerprint.0, descriptor_sizes_text(*descriptor))?;
        }
        match op {
            Op::Remap(_) => writeln!(self.out, ",{}", request.remap_source_offset_bytes)?,
            _ => writeln!(self.out, ",")?,
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<u64, TraceError> {
        self.out.flush()?;
        Ok(self.written_requests)
    }
}

/// Returns the sizes of a page content as text for an item of the column of fingerprints: `:compressed:delta`, without
/// unknown sizes at the end.
fn descriptor_sizes_text(descriptor: ContentDescriptor) -> String {
    let known =
        |size: u16| if size == ContentDescriptor::UNKNOWN_SIZE { String::new() } else { size.to_string() };
    match (known(descriptor.compressed_bytes), known(descriptor.delta_bytes)) {
        (compressed, delta) if delta.is_empty() && compressed.is_empty() => String::new(),
        (compressed, delta) if delta.is_empty() => format!(":{compressed}"),
        (compressed, delta) => format!(":{compressed}:{delta}"),
    }
}
