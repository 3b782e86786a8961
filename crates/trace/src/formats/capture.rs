//! Parser of Wearwell's captures: `NAME.ops` with one request per line; further files next to it describe the pages.
//!
//! Lines are `W t_us lpn npages id...` (`id+k` stands for k + 1 consecutive ids), `R`, `Z` (write zeroes) and `D`
//! (discard) with `t_us lpn npages`, `F t_us` (flush) and `M t_us label` (skipped). An id is the number of a distinct
//! page content; id 0 is the zero page. So an id serves as the page's fingerprint.

use wearwell::data::{ContentDescriptor, Fingerprint};

use crate::error::ParseRefusal;
use crate::read::fields::{BlankSeparatedFields, Field, checked_product};
use crate::read::sidecar::CaptureSidecars;
use crate::read::{LineFormat, ParseOutcome, SkipRefusal};
use crate::request::{REQUEST_MAX_BYTES, check_request_limits};
use crate::{Format, Op, PAGE_BYTES, Request};

/// Text with which the first line of every capture file (`NAME.ops`) begins.
const CAPTURE_SIGNATURE: &[u8] = b"# blkcap v1 ";
/// Word in the first line of a capture that states the page size, of which only 4096 bytes are accepted.
const PAGE_SIZE_WORD: &[u8] = b"page=4096";

/// Error message about a wrong page number.
const FIRST_PAGE_REQUIREMENT: &str =
    "the third field of the line must be the first page, a whole number below 2^52";

/// Error message about a wrong number of pages.
const PAGE_COUNT_REQUIREMENT: &str =
    "the fourth field of the line must be the number of pages, a whole number below 2^52";

/// Parser of the lines of captures (Wearwell's block traces with page contents), with the data from the files next to
/// them.
#[derive(Default)]
pub(crate) struct Capture {
    /// Whether the first line, which identifies a capture, was read.
    has_read_header: bool,
    /// Reader of the files next to the capture: compressed sizes, delta sizes and bytes of the pages.
    sidecars: CaptureSidecars,
    /// Sentence on a damaged file next to the capture, because of which the last line was refused; `None` if no file is
    /// damaged.
    damaged_sidecar: Option<String>,
}

impl Capture {
    /// Creates a parser that takes sizes and bytes of pages from `sidecars`.
    pub(crate) fn new(sidecars: CaptureSidecars) -> Self {
        Self { sidecars, ..Self::default() }
    }

    /// Checks the first line of a capture: signature and page size. Skips any other line, which is then a comment.
    fn parse_header(&mut self, line: &[u8]) -> Result<ParseOutcome, ParseRefusal> {
        if !self.has_read_header {
            let page_size =
                line.strip_prefix(CAPTURE_SIGNATURE).and_then(|rest| rest.split(|&byte| byte == b' ').next());
            if page_size != Some(PAGE_SIZE_WORD) {
                return Err(ParseRefusal::of_whole_record(
                    "the first line of a capture must begin with `# blkcap v1 page=4096`",
                ));
            }
            self.has_read_header = true;
        }
        Ok(ParseOutcome::NotARequest)
    }

    /// Parses the first page and the number of pages of a request, sets its offset and length in bytes, and returns the
    /// number of pages.
    fn parse_page_range(
        fields: &mut BlankSeparatedFields<'_>,
        into: &mut Request,
    ) -> Result<u64, ParseRefusal> {
        let first = fields.next_word(FIRST_PAGE_REQUIREMENT)?;
        into.offset_bytes = checked_product(
            first.parse_number(FIRST_PAGE_REQUIREMENT)?,
            PAGE_BYTES,
            first.byte_offset,
            FIRST_PAGE_REQUIREMENT,
        )?;
        let count = fields.next_word(PAGE_COUNT_REQUIREMENT)?;
        let pages = count.parse_number(PAGE_COUNT_REQUIREMENT)?;
        into.len_bytes = checked_product(pages, PAGE_BYTES, count.byte_offset, PAGE_COUNT_REQUIREMENT)?;
        Ok(pages)
    }

    /// Parses the content ids of a write request in a capture; there must be exactly one per page.
    fn parse_content_ids(
        &mut self,
        fields: &mut BlankSeparatedFields<'_>,
        pages: u64,
        into: &mut Request,
    ) -> Result<(), ParseRefusal> {
        if pages > WRITE_MAX_PAGES {
            return Err(ParseRefusal::of_whole_record(
                "a write must have at most 262144 pages of 4096 bytes (1 GiB)",
            ));
        }
        while (into.content.len() as u64) < pages {
            let field = fields.next_word(CONTENT_IDS_REQUIREMENT)?;
            let left = pages - into.content.len() as u64;
            append_content_ids(field, left, &mut into.content)?;
        }
        fields.require_end(CONTENT_IDS_REQUIREMENT)?;
        // All other checks precede this step, because a refused line must take no delta sizes.
        check_request_limits(into).map_err(ParseRefusal::of_whole_record)?;
        self.sidecars.add_sizes_and_bytes(&mut into.content, &mut into.payload).map_err(|reason| {
            self.damaged_sidecar = Some(reason);
            ParseRefusal::of_whole_record(
                "the files beside the capture, which hold sizes or bytes of its pages, must be whole",
            )
        })
    }
}

/// Maximum number of pages of a write.
const WRITE_MAX_PAGES: u64 = REQUEST_MAX_BYTES / PAGE_BYTES;

/// Returns the number of pages that a refused line of a capture writes, as far as it can be read: 0 for a line that is
/// no write. `None` if the line may be a write of an unknown number of pages.
fn written_pages_of_refused_line(line: &[u8]) -> Option<u64> {
    let mut fields = BlankSeparatedFields::new(line);
    match fields.next_field().text {
        b"R" | b"Z" | b"D" | b"F" | b"M" => Some(0),
        b"W" => {
            let (_time, _first_page, page_count) =
                (fields.next_field(), fields.next_field(), fields.next_field());
            let pages = page_count.parse_number(PAGE_COUNT_REQUIREMENT).ok()?;
            (1..=WRITE_MAX_PAGES).contains(&pages).then_some(pages)
        }
        _ => None,
    }
}

/// Error message about a wrong number of content ids at the end of a write, after its first page and its number of
/// pages.
const CONTENT_IDS_REQUIREMENT: &str =
    "a write must end with one content id for each of its pages of 4096 bytes";

/// Parses one field of content ids and appends them to `into`: `id` is one page, `id+k` is `k + 1` pages with
/// consecutive ids. Returns an error if the field has ids for more than `remaining_pages` pages.
fn append_content_ids(
    field: Field<'_>,
    remaining_pages: u64,
    into: &mut Vec<ContentDescriptor>,
) -> Result<(), ParseRefusal> {
    let (first, more) = field.split_at(b'+');
    let first = first.parse_number("a content id must be a whole number below 2^32")?;
    let more = if more.text.is_empty() {
        0
    } else {
        more.parse_number(
            "the number after + must be that of the further content ids, such as 3 in 7+3 for 7, 8, 9 and 10",
        )?
    };
    if more >= remaining_pages || first > u64::from(u32::MAX) {
        return field.refuse(
            "a content id must be below 2^32, and a write must not have more ids than pages of 4096 bytes",
        );
    }
    into.extend((first..=first + more).map(|id| ContentDescriptor::of_fingerprint(Fingerprint(id))));
    Ok(())
}

impl LineFormat for Capture {
    const FORMAT: Format = Format::Capture;

    fn parse(&mut self, line: &[u8], into: &mut Request) -> Result<ParseOutcome, ParseRefusal> {
        if line.starts_with(b"#") || !self.has_read_header {
            return self.parse_header(line);
        }
        let mut fields = BlankSeparatedFields::new(line);
        let kind = fields.next_field();
        into.op = match kind.text {
            b"W" => Op::Write,
            b"R" => Op::Read,
            b"Z" => Op::Zero,
            b"D" => Op::Trim,
            b"F" => Op::Flush,
            b"M" => return Ok(ParseOutcome::NotARequest),
            _ => {
                return kind.refuse(
                    "the first field of the line must be W (write), R (read), Z (zeroing), D (discard), F (flush) or \
                     M (mark)",
                );
            }
        };
        let time_us = fields
            .next_number("the second field of the line must be the time, a whole number of microseconds")?;
        into.time_ns = checked_product(
            time_us,
            1000,
            0,
            "the second field of the line, the time, must be at most 18446744073709551 microseconds",
        )?;
        (into.offset_bytes, into.len_bytes) = (0, 0);
        if into.op != Op::Flush {
            let pages = Self::parse_page_range(&mut fields, into)?;
            if into.op == Op::Write {
                self.parse_content_ids(&mut fields, pages, into)?;
            }
        }
        fields.require_end(
            "the line must end after the time of a flush, the content ids of a write, or the number of pages of \
             another request",
        )?;
        Ok(ParseOutcome::Request)
    }

    /// Returns the sentence on a damaged file next to the capture, if the last line was refused because of it.
    fn take_sidecar_damage(&mut self) -> Option<String> {
        self.damaged_sidecar.take()
    }

    /// Skips the delta sizes of the pages of a refused write. Lines before a missing header are all refused, so that no
    /// request could get a wrong size.
    fn skip_sidecar_entries(&mut self, line: Option<&[u8]>) -> Result<(), SkipRefusal> {
        if !self.has_read_header {
            return Ok(());
        }
        self.sidecars.skip_delta_sizes(line.and_then(written_pages_of_refused_line))
    }
}
