//! Parser of the FIU (I/O Deduplication) traces: `time pid process sector sectors W|R major minor digests`.
//!
//! Process names may contain blanks, so columns are split off from both ends of the line. The digests are one MD5 per
//! 4096 bytes or, in "homes", one per 512-byte sector, all in one word. Their number shows which of the two. A
//! tab-separated variant has an index column and a header line.
//!
//! A page's fingerprint is the first half of its MD5. The fingerprint of a page that consists of sectors, or that the
//! request covers only in part, combines the digests inside the page and the offset at which they start. Zero pages are
//! recognised by the known MD5 of zeroes.

use wearwell::data::{ContentDescriptor, Fingerprint};

use super::blkparse::pack_device_number;
use crate::error::ParseRefusal;
use crate::read::fields::{BlankSeparatedFields, Field, Fields, TabSeparatedFields};
use crate::read::{LineFormat, ParseOutcome};
use crate::request::check_request_limits;
use crate::{Format, Op, PAGE_BYTES, Request, SECTOR_BYTES};

/// MD5 digest of 4096 zero bytes.
const ZERO_PAGE_MD5: u128 = 0x620f_0b67_a91f_7f74_151b_c5be_745b_7110;
/// MD5 digest of 512 zero bytes.
const ZERO_SECTOR_MD5: u128 = 0xbf61_9eac_0cdf_3f68_d496_ea93_4413_7e8b;
/// Number of hexadecimal digits of an MD5 digest.
const MD5_HEX_DIGITS: usize = 32;

/// Error message about a wrong process number.
const PROCESS_REQUIREMENT: &str = "the time must be followed by the process number, a whole number";

/// Parser of the lines of FIU traces, which have digests of page contents.
#[derive(Default)]
pub(crate) struct Fiu {
    /// First half of each MD5 digest of the current line, in the order of addresses.
    first_halves_of_digests: Vec<u64>,
    /// Whether a line was read; only the first line may be a header.
    has_read_line: bool,
}

impl LineFormat for Fiu {
    const FORMAT: Format = Format::Fiu;

    fn parse(&mut self, line: &[u8], into: &mut Request) -> Result<ParseOutcome, ParseRefusal> {
        let first = !std::mem::replace(&mut self.has_read_line, true);
        if first && line.starts_with(b"\t") {
            return Ok(ParseOutcome::NotARequest); // the header of the tab-separated variant
        }
        if memchr::memchr(b'\t', line).is_some() {
            self.parse_columns(TabSeparatedFields::new(line), into)
        } else {
            self.parse_columns(BlankSeparatedFields::new(line), into)
        }
    }
}

impl Fiu {
    /// Parses a line that is split at blanks or tabs into a request with its content descriptors.
    fn parse_columns<const SEPARATOR: u8>(
        &mut self,
        mut fields: Fields<'_, SEPARATOR>,
        into: &mut Request,
    ) -> Result<ParseOutcome, ParseRefusal> {
        let digests = fields.next_field_from_end();
        let minor = fields
            .next_field_from_end()
            .parse_u32("the field before the digests must be the minor device number, a whole number")?;
        let major = fields.next_field_from_end().parse_u32(
            "the field before the minor device number must be the major device number, a whole number",
        )?;
        into.device = pack_device_number(major, minor, 0)?;
        let kind = fields.next_field_from_end();
        into.op = match kind.text {
            b"R" => Op::Read,
            b"W" => Op::Write,
            _ => {
                return kind.refuse("the field before the major device number must be R (read) or W (write)");
            }
        };
        into.len_bytes = fields.next_field_from_end().parse_sectors_as_bytes(
            "the field before the operation must be the number of sectors, a whole number below 2^55",
        )?;
        into.offset_bytes = fields.next_field_from_end().parse_sectors_as_bytes(
            "the field before the number of sectors must be the first sector, a whole number below 2^55",
        )?;
        into.time_ns = parse_time_ns(fields)?;
        let unit_bytes = self.parse_digests(digests, into.len_bytes)?;
        check_request_limits(into).map_err(ParseRefusal::of_whole_record)?;
        self.append_descriptors(unit_bytes, into);
        Ok(ParseOutcome::Request)
    }

    /// Parses the MD5 digests of a request, stores the first half of each in `self.first_halves_of_digests`, and
    /// returns how many bytes each digest covers (4096 or 512).
    fn parse_digests(&mut self, field: Field<'_>, len_bytes: u64) -> Result<u64, ParseRefusal> {
        let digits = field.text.len();
        let count = (digits / MD5_HEX_DIGITS) as u64;
        let unit_bytes =
            [PAGE_BYTES, SECTOR_BYTES].into_iter().find(|unit| count.checked_mul(*unit) == Some(len_bytes));
        let (Some(unit_bytes), 0) = (unit_bytes.filter(|_| count > 0), digits % MD5_HEX_DIGITS) else {
            return field.refuse(
                "the last field of the line must be one MD5 digest of 32 digits for every 4096 or every 512 bytes of \
                 the request",
            );
        };
        self.first_halves_of_digests.clear();
        for start in (0..digits).step_by(MD5_HEX_DIGITS) {
            let digest = Field {
                text: &field.text[start..start + MD5_HEX_DIGITS],
                byte_offset: field.byte_offset + start,
            };
            self.first_halves_of_digests.push(first_half_of_digest(digest)?);
        }
        Ok(unit_bytes)
    }

    /// Appends to `into` one content descriptor (fingerprint) for each page that the request touches, computed from the
    /// parsed digests. Each digest covers `unit_bytes` bytes.
    fn append_descriptors(&self, unit_bytes: u64, into: &mut Request) {
        let (start, end) = (into.offset_bytes, into.end_offset_bytes());
        for page in into.pages() {
            let page_start = page * PAGE_BYTES;
            let from = start.max(page_start);
            let to = end.min(page_start + PAGE_BYTES);
            let units = ((from - start) / unit_bytes) as usize..((to - start).div_ceil(unit_bytes)) as usize;
            let whole = units.len() as u64 * unit_bytes == PAGE_BYTES && to - from == PAGE_BYTES;
            let place = if whole { 0 } else { ((from - page_start) << 32) | ((from - start) % unit_bytes) };
            into.content.push(ContentDescriptor::of_fingerprint(page_fingerprint(
                &self.first_halves_of_digests[units],
                whole,
                place,
            )));
        }
    }
}

/// Parses the columns at the start of an FIU line, `[index] time pid process`, which `fields` still holds, and returns
/// the time in nanoseconds. Only lines with tabs may have an index, and only lines with blanks a process name that
/// contains separators.
fn parse_time_ns<const SEPARATOR: u8>(mut fields: Fields<'_, SEPARATOR>) -> Result<u64, ParseRefusal> {
    let requirement =
        "the line must begin with the time (with tabs, after an index), a whole number of nanoseconds";
    if SEPARATOR == b'\t' {
        fields.next_field_from_end();
        fields.next_field_from_end().parse_number(PROCESS_REQUIREMENT)?;
        return fields.next_field_from_end().parse_number(requirement);
    }
    let time_ns = fields.next_number(requirement)?;
    fields.next_number(PROCESS_REQUIREMENT)?;
    fields.next_word("the process number must be followed by the name of the process")?;
    Ok(time_ns)
}

/// Returns the first half of an MD5 digest as a number. The value 0 is reserved for data of zeroes.
fn first_half_of_digest(digest: Field<'_>) -> Result<u64, ParseRefusal> {
    let requirement = "an MD5 digest must have 32 hexadecimal digits";
    let high = Field { text: &digest.text[..16], byte_offset: digest.byte_offset }.parse_hex(requirement)?;
    let low = digest.skip_bytes(16).parse_hex(requirement)?;
    Ok(match u128::from(high) << 64 | u128::from(low) {
        ZERO_PAGE_MD5 | ZERO_SECTOR_MD5 => 0,
        _ => high.swap_bytes().max(1),
    })
}

/// Returns the fingerprint of a page. `parts` are the first halves of the digests of its sectors or of the page. If the
/// digests do not cover the `whole` page, the fingerprint also depends on `place`, their position in the page.
fn page_fingerprint(parts: &[u64], whole: bool, place: u64) -> Fingerprint {
    match parts {
        _ if whole && parts.iter().all(|&word| word == 0) => Fingerprint::ZERO_PAGE,
        [word] if whole => Fingerprint(*word),
        _ => {
            Fingerprint::combine(std::iter::once(place).chain(parts.iter().copied()).skip(usize::from(whole)))
        }
    }
}
