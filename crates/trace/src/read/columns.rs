//! Parser of any CSV whose columns the user describes by a text such as `t=1,op=2,offset=3,length=4,unit=us`.
//!
//! There are more private formats than parsers can be written for. Most of them have a time, an operation, an address
//! and a length in some order and unit. Columns are numbered from 1. A first line with the names of the columns is
//! skipped. An example are fio logs with `log_offset=1` (time in ms, value, direction 0/1/2, bytes, offset, priority:
//! fio's manual, "Log File Formats"): `t=1,op=3,offset=5,length=4,unit=ms,read=0,write=1,trim=2`.

use std::str::FromStr;

use crate::error::ParseRefusal;
use crate::read::fields::{Field, Fields, checked_product};
use crate::read::{LineFormat, ParseOutcome};
use crate::{Format, Op, Request, SECTOR_BYTES};

/// Description of a CSV's columns, parsed from a text such as `t=1,op=2,offset=3,length=4,unit=us`. Column numbers in
/// the text count from 1, in the fields from 0.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CsvColumns {
    /// Index (from 0) of the column with the time of a request; `None` if the CSV has no times.
    time_column: Option<usize>,
    /// Index (from 0) of the column with the operation of a request.
    op_column: usize,
    /// Index (from 0) of the column with the address of a request.
    offset_column: usize,
    /// Index (from 0) of the column with the length of a request.
    length_column: usize,
    /// Index (from 0) of the column with the device number of a request; `None` if the CSV has none.
    device_column: Option<usize>,
    /// Exponent of the power of ten by which times in the CSV are multiplied to get nanoseconds: 9 for seconds. Without
    /// meaning if the CSV has no times.
    time_unit_log10_ns: u32,
    /// Unit of addresses and lengths in the CSV, in bytes: 1, or the size of a 512-byte sector.
    address_unit_bytes: u64,
    /// Character that separates the fields of a line.
    separator: Separator,
    /// Word that means a write in the operation column of the CSV, in addition to the usual words; e.g. `1`.
    write_op_word: Option<String>,
    /// Word that means a read in the operation column of the CSV, in addition to the usual words.
    read_op_word: Option<String>,
    /// Word that means a trim in the operation column of the CSV, in addition to the usual words.
    trim_op_word: Option<String>,
}

/// Separator of the fields of a CSV line; `Blanks` stands for any run of blanks and tabs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Separator {
    Comma,
    Semicolon,
    Tab,
    /// Any run of blanks and tabs.
    Blanks,
}

/// List of the keys of a column description, for the error message about a wrong description.
const KEYS_HELP: &str = "t, op, offset, length, device (columns from 1), unit (of t: s, ms, us or ns), addresses (bytes or \
                         sectors), separator (comma, semicolon, tab or blank), write, read, trim (the word in column \
                         op)";

/// Error message about a wrong device number.
const DEVICE_REQUIREMENT: &str =
    "the column of the devices (device= in --columns) must have a whole number from 0 to 4294967295";

/// Error that describes why a user's description of CSV columns is refused.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "the description of CSV columns (--columns) is refused, so correct it: {0}; a description is like \
     t=1,op=2,offset=3,length=4,unit=us. Keys: {KEYS_HELP}"
)]
pub struct CsvColumnsError(String);

impl FromStr for CsvColumns {
    type Err = CsvColumnsError;

    fn from_str(text: &str) -> Result<Self, CsvColumnsError> {
        let refuse = |what: String| Err(CsvColumnsError(what));
        let (mut time, mut op, mut offset, mut length, mut device) = (None, None, None, None, None);
        let mut time_unit_log10_ns = None;
        let mut keys = Vec::new();
        let mut columns = Self {
            time_column: None,
            op_column: 0,
            offset_column: 0,
            length_column: 0,
            device_column: None,
            time_unit_log10_ns: 0,
            address_unit_bytes: 1,
            separator: Separator::Comma,
            write_op_word: None,
            read_op_word: None,
            trim_op_word: None,
        };
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let Some((key, value)) = part.split_once('=') else {
                return refuse(format!("`{part}` must be of the form key=value, such as op=2"));
            };
            let key = key.trim();
            if keys.contains(&key) {
                return refuse(format!("the key `{key}` is given twice, so give it once"));
            }
            keys.push(key);
            match key {
                "t" => time = Some(parse_column_number(key, value)?),
                "op" => op = Some(parse_column_number(key, value)?),
                "offset" => offset = Some(parse_column_number(key, value)?),
                "length" => length = Some(parse_column_number(key, value)?),
                "device" => device = Some(parse_column_number(key, value)?),
                "unit" => time_unit_log10_ns = Some(parse_time_unit_log10_ns(value)?),
                "addresses" => columns.address_unit_bytes = parse_address_unit_bytes(value)?,
                "separator" => columns.separator = parse_separator(value)?,
                "write" => columns.write_op_word = Some(value.to_owned()),
                "read" => columns.read_op_word = Some(value.to_owned()),
                "trim" => columns.trim_op_word = Some(value.to_owned()),
                _ => return refuse(format!("there is no key `{key}`, so use one of those below")),
            }
        }
        let (Some(op), Some(offset), Some(length)) = (op, offset, length) else {
            return refuse(
                "the keys op, offset and length are required, so add those that are missing".into(),
            );
        };
        if time.is_some() && time_unit_log10_ns.is_none() {
            return refuse("the unit of the times (t) is missing, so add it, such as unit=us".into());
        }
        if time.is_none() && time_unit_log10_ns.is_some() {
            return refuse(
                "unit is that of the times, but no column of times (t) is named: name it, or leave unit out"
                    .into(),
            );
        }
        let mut seen: Vec<usize> =
            [time, Some(op), Some(offset), Some(length), device].into_iter().flatten().collect();
        seen.sort_unstable();
        if seen.windows(2).any(|pair| pair[0] == pair[1]) {
            return refuse(
                "the keys t, op, offset, length and device must name different columns, but two name the same"
                    .into(),
            );
        }
        Ok(Self {
            time_column: time,
            op_column: op,
            offset_column: offset,
            length_column: length,
            device_column: device,
            time_unit_log10_ns: time_unit_log10_ns.unwrap_or(columns.time_unit_log10_ns),
            ..columns
        })
    }
}

/// Maximum number of columns of a CSV line, and so the greatest column number.
const COLUMNS_MAX: usize = 64;

/// Parses the number of a CSV column, which the user counts from 1, and returns it counted from 0.
fn parse_column_number(key: &str, value: &str) -> Result<usize, CsvColumnsError> {
    match value.trim().parse::<usize>() {
        Ok(number) if (1..=COLUMNS_MAX).contains(&number) => Ok(number - 1),
        _ => Err(CsvColumnsError(format!(
            "{key}={value} must name a column by a number from 1 to {COLUMNS_MAX}"
        ))),
    }
}

/// Parses the name of a time unit and returns the power of ten of its nanoseconds: 9 for `s`, 0 for `ns`.
fn parse_time_unit_log10_ns(value: &str) -> Result<u32, CsvColumnsError> {
    [("s", 9), ("ms", 6), ("us", 3), ("ns", 0)]
        .into_iter()
        .find_map(|(name, digits)| (name == value).then_some(digits))
        .ok_or_else(|| CsvColumnsError(format!("unit={value} is no unit of time: give s, ms, us or ns")))
}

/// Parses the unit of addresses and lengths (`bytes` or `sectors`) and returns its size in bytes.
fn parse_address_unit_bytes(value: &str) -> Result<u64, CsvColumnsError> {
    match value {
        "bytes" => Ok(1),
        "sectors" => Ok(SECTOR_BYTES),
        _ => {
            Err(CsvColumnsError(format!("addresses={value} is no unit of addresses: give bytes or sectors")))
        }
    }
}

/// Parses the name of a separator: `comma`, `semicolon`, `tab` or `blank`.
fn parse_separator(value: &str) -> Result<Separator, CsvColumnsError> {
    match value {
        "comma" => Ok(Separator::Comma),
        "semicolon" => Ok(Separator::Semicolon),
        "tab" => Ok(Separator::Tab),
        "blank" => Ok(Separator::Blanks),
        _ => Err(CsvColumnsError(format!(
            "separator={value} is no separator of columns: give comma, semicolon, tab or blank"
        ))),
    }
}

impl CsvColumns {
    /// Parses the fields of a line, separated by `SEPARATOR`, into a request.
    fn parse_fields<const SEPARATOR: u8>(
        &self,
        line: &[u8],
        into: &mut Request,
    ) -> Result<ParseOutcome, ParseRefusal> {
        let mut found = [Field { text: b"", byte_offset: line.len() }; COLUMNS_MAX];
        let last = [
            self.time_column,
            Some(self.op_column),
            Some(self.offset_column),
            Some(self.length_column),
            self.device_column,
        ];
        let last = last.into_iter().flatten().max().unwrap_or(0);
        let mut fields = Fields::<SEPARATOR>::new(line);
        for field in &mut found[..=last] {
            *field = strip_field(fields.next_field());
        }
        let address = |field: Field<'_>, requirement| {
            checked_product(
                field.parse_number(requirement)?,
                self.address_unit_bytes,
                field.byte_offset,
                "an offset or a length must be below 2^64 bytes",
            )
        };
        let time_ns = match self.time_column {
            Some(column) => found[column].parse_decimal(
                self.time_unit_log10_ns,
                "the column of the times (t= in --columns) must have a number, not negative, such as 12.5",
            )?,
            None => 0,
        };
        let op = self.parse_op(found[self.op_column])?;
        let offset = address(
            found[self.offset_column],
            "the column of the offsets (offset= in --columns) must have a whole number",
        )?;
        let len = address(
            found[self.length_column],
            "the column of the lengths (length= in --columns) must have a whole number",
        )?;
        into.device =
            self.device_column.map_or(Ok(0), |column| found[column].parse_u32(DEVICE_REQUIREMENT))?;
        into.set_common_fields(time_ns, op, offset, len);
        Ok(ParseOutcome::Request)
    }

    /// Parses the field with the operation of a request: a word of the user, or one of the usual words.
    fn parse_op(&self, field: Field<'_>) -> Result<Op, ParseRefusal> {
        let is = |word: &Option<String>| word.as_ref().is_some_and(|word| word.as_bytes() == field.text);
        if is(&self.write_op_word) {
            return Ok(Op::Write);
        }
        if is(&self.read_op_word) {
            return Ok(Op::Read);
        }
        if is(&self.trim_op_word) {
            return Ok(Op::Trim);
        }
        match field.text.to_ascii_lowercase().as_slice() {
            b"r" | b"read" => Ok(Op::Read),
            b"w" | b"write" => Ok(Op::Write),
            b"t" | b"d" | b"trim" | b"discard" | b"unmap" => Ok(Op::Trim),
            b"f" | b"flush" => Ok(Op::Flush),
            _ => field.refuse(
                "the column of the operations (op= in --columns) must have R, W, T (trim), F (flush), or a word that \
                 write=, read= or trim= names",
            ),
        }
    }
}

/// Returns the CSV field without blanks and quotation marks around it.
fn strip_field(field: Field<'_>) -> Field<'_> {
    let is_frame = |byte: &u8| byte.is_ascii_whitespace() || *byte == b'"';
    let start = field.text.iter().position(|byte| !is_frame(byte)).unwrap_or(field.text.len());
    let end = field.text.iter().rposition(|byte| !is_frame(byte)).map_or(start, |at| at + 1);
    Field { text: &field.text[start..end], byte_offset: field.byte_offset + start }
}

impl LineFormat for CsvColumns {
    const FORMAT: Format = Format::Columns;
    const MAY_HAVE_HEADER: bool = true;

    fn parse(&mut self, line: &[u8], into: &mut Request) -> Result<ParseOutcome, ParseRefusal> {
        match self.separator {
            Separator::Comma => self.parse_fields::<b','>(line, into),
            Separator::Semicolon => self.parse_fields::<b';'>(line, into),
            Separator::Tab => self.parse_fields::<b'\t'>(line, into),
            Separator::Blanks => self.parse_fields::<b' '>(line, into),
        }
    }
}
