//! Packing: deltas of several logical pages in one flash page.
//!
//! Format (Delta-FTL, section 3.2): the page begins with the number of deltas (2 bytes) and, for each, the logical page
//! (4 bytes) and the end of its delta (2 bytes, from the start of the page). The deltas follow. A reader transfers the
//! page in order and can stop after the header and the delta it needs. Deltas are never split, so the end of a page is
//! unused: with one open page in the buffer, a delta costs more than its size. With several open pages less is unused,
//! because a small delta fits in a gap; the price is the RAM of these pages.
//!
//! A simulation knows only the size of a delta, and the fingerprint of the content that results. Such a delta is zeros
//! but for the fingerprint in bytes 1 to 8, if it is long enough ([`placeholder_delta`]). It begins with a zero, as no
//! compressed difference does: that begins with literals, because there is nothing before it to refer to.
//!
//! If the delta table must be rebuilt from flash, the spare area of the page repeats the list of its logical pages
//! ([`encode_delta_lpns`]). If the page cannot be read, exactly these logical pages are lost. Such a page holds no
//! more deltas than the spare area can list.
//!
//! Invariant: a logical page has at most one staged delta.

use std::ops::Range;

use crate::address::Lpn;
use crate::data::Fingerprint;

/// Bytes of the field that holds the number of deltas, at the beginning of a flash page of deltas.
pub const DELTA_COUNT_BYTES: usize = 2;
/// Bytes per delta in the header of a flash page of deltas: logical page and end of the delta.
pub const DELTA_DIRECTORY_ENTRY_BYTES: usize = 6;

/// Bytes of the header of the list of logical pages in the spare area of a flash page of deltas.
const DELTA_LPN_LIST_HEADER_BYTES: usize = 4;
/// Bytes of one logical page number in the spare area of a flash page of deltas.
const LISTED_LPN_BYTES: usize = 4;

/// Returns the maximum number of logical pages that the spare area of a flash page of deltas can list.
pub fn max_delta_lpns_in_spare(spare_bytes: u32) -> usize {
    (spare_bytes as usize).saturating_sub(DELTA_LPN_LIST_HEADER_BYTES) / LISTED_LPN_BYTES
}

/// Encodes the list of logical pages in the spare area of a flash page of deltas: their number (2 bytes), zeros (2
/// bytes), the logical pages (4 bytes each). Returns no bytes if the spare area has no room for all of them.
pub fn encode_delta_lpns(lpns: &[Lpn], spare_bytes: u32) -> Vec<u8> {
    if lpns.len() > max_delta_lpns_in_spare(spare_bytes) {
        return Vec::new();
    }
    let mut spare = vec![0; DELTA_LPN_LIST_HEADER_BYTES];
    spare[..2].copy_from_slice(&(lpns.len() as u16).to_le_bytes());
    spare.extend(lpns.iter().flat_map(|lpn| lpn.0.to_le_bytes()));
    spare
}

/// Decodes the list of logical pages in the spare area of a flash page of deltas. `None` if the spare area holds no
/// such list.
pub fn decode_delta_lpns(spare: &[u8]) -> Option<Vec<Lpn>> {
    let head = spare.get(..DELTA_LPN_LIST_HEADER_BYTES)?;
    let count = usize::from(u16::from_le_bytes([head[0], head[1]]));
    let lpns =
        spare.get(DELTA_LPN_LIST_HEADER_BYTES..DELTA_LPN_LIST_HEADER_BYTES + count * LISTED_LPN_BYTES)?;
    let is_list = count > 0 && head[2..] == [0, 0];
    let lpns = lpns.as_chunks().0.iter().map(|&bytes| Lpn(u32::from_le_bytes(bytes)));
    is_list.then(|| lpns.collect())
}

/// Byte range, within a placeholder delta, of the fingerprint of the resulting content. A placeholder stands for a
/// delta of which only the size is known.
const PLACEHOLDER_FINGERPRINT_BYTE_RANGE: Range<usize> = 1..9;

/// Returns the placeholder that is written for a delta of which only the size, `bytes` bytes, is known: zeros, and the
/// `fingerprint` of the resulting content if there is room for it.
pub fn placeholder_delta(bytes: usize, fingerprint: Fingerprint) -> Vec<u8> {
    let mut delta = vec![0; bytes];
    if let Some(place) = delta.get_mut(PLACEHOLDER_FINGERPRINT_BYTE_RANGE) {
        place.copy_from_slice(&fingerprint.0.to_le_bytes());
    }
    delta
}

/// Returns the fingerprint in a delta that [`placeholder_delta`] made; the default fingerprint if that delta was too
/// short to hold one. `None` for a delta with real bytes.
pub fn placeholder_fingerprint(delta: &[u8]) -> Option<Fingerprint> {
    let is_described = *delta.first()? == 0;
    let kept = delta.get(PLACEHOLDER_FINGERPRINT_BYTE_RANGE).and_then(|bytes| bytes.try_into().ok());
    is_described.then(|| kept.map_or(Fingerprint::default(), |bytes| Fingerprint(u64::from_le_bytes(bytes))))
}

/// A delta (difference to the stored page) in the RAM buffer that is not written to flash yet.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BufferedDelta {
    /// Logical page whose new content the delta encodes.
    pub lpn: Lpn,
    /// Size of the delta with its base tag, bytes. The tag takes 0 or 4 bytes and tells to which version of the page
    /// the delta applies.
    pub delta_and_base_tag_bytes: u16,
    /// Fingerprint of the content that results from applying the delta to its base (the stored page).
    pub fingerprint: Fingerprint,
    /// Bytes of the delta and of its base tag (which names the version to which the delta applies). If only the size of
    /// the delta is known, a placeholder ([`placeholder_delta`]) and the tag. Empty if the medium keeps no bytes.
    pub payload: Vec<u8>,
}

impl BufferedDelta {
    /// Returns the bytes that the delta takes in a flash page of deltas, its entry in the page header included.
    fn packed_size_bytes(&self) -> usize {
        self.delta_and_base_tag_bytes as usize + DELTA_DIRECTORY_ENTRY_BYTES
    }
}

/// A page of the RAM buffer that is being filled with deltas before it is written to flash.
#[derive(Clone, Debug, Default)]
pub struct OpenDeltaPage {
    /// Deltas in this page of the RAM buffer, in the order of insertion.
    deltas: Vec<BufferedDelta>,
    /// Bytes that the deltas of the page take, their entries in the page header included.
    used_bytes: usize,
}

impl OpenDeltaPage {
    /// Returns the deltas in this page of the RAM buffer, in the order of insertion.
    pub fn deltas(&self) -> &[BufferedDelta] {
        &self.deltas
    }

    /// Returns the bytes that are free for deltas and their header entries, of the `page_bytes` bytes that may be
    /// filled.
    fn free_bytes(&self, page_bytes: usize) -> usize {
        page_bytes - DELTA_COUNT_BYTES - self.used_bytes
    }

    /// Adds a delta to this page of the RAM buffer.
    fn push(&mut self, delta: BufferedDelta) {
        self.used_bytes += delta.packed_size_bytes();
        self.deltas.push(delta);
    }

    /// Removes the delta of the logical page `lpn` from this page of the RAM buffer. Returns `false` if it has none.
    fn remove(&mut self, lpn: Lpn) -> bool {
        let Some(at) = self.deltas.iter().position(|delta| delta.lpn == lpn) else { return false };
        self.used_bytes -= self.deltas.remove(at).packed_size_bytes();
        true
    }

    /// Encodes this page of deltas as it is written to flash: the header, then the deltas. A delta without payload is
    /// encoded as zeros.
    pub fn encode(&self, page_bytes: usize) -> Vec<u8> {
        let mut page = Vec::with_capacity(page_bytes);
        page.extend_from_slice(&(self.deltas.len() as u16).to_le_bytes());
        let mut end = DELTA_COUNT_BYTES + DELTA_DIRECTORY_ENTRY_BYTES * self.deltas.len();
        for delta in &self.deltas {
            end += delta.delta_and_base_tag_bytes as usize;
            page.extend_from_slice(&delta.lpn.0.to_le_bytes());
            page.extend_from_slice(&(end as u16).to_le_bytes());
        }
        for delta in &self.deltas {
            let end = page.len() + delta.delta_and_base_tag_bytes as usize;
            page.extend_from_slice(&delta.payload);
            page.resize(end, 0);
        }
        assert!(page.len() <= page_bytes, "{} bytes of deltas in a page of {page_bytes}", page.len());
        page.resize(page_bytes, 0);
        page
    }
}

/// Decodes the header of a flash page of deltas: each logical page with the byte range of its delta. `None` if the
/// header is malformed.
pub fn decode_delta_page_header(page: &[u8]) -> Option<Vec<(Lpn, Range<usize>)>> {
    let count = u16::from_le_bytes(page.get(..DELTA_COUNT_BYTES)?.try_into().ok()?) as usize;
    let lines = page.get(DELTA_COUNT_BYTES..DELTA_COUNT_BYTES + DELTA_DIRECTORY_ENTRY_BYTES * count)?;
    let mut start = DELTA_COUNT_BYTES + lines.len();
    let mut found = Vec::with_capacity(count);
    for line in lines.chunks_exact(DELTA_DIRECTORY_ENTRY_BYTES) {
        let lpn = Lpn(u32::from_le_bytes(line[..4].try_into().ok()?));
        let end = u16::from_le_bytes(line[4..].try_into().ok()?) as usize;
        if end < start || end > page.len() {
            return None;
        }
        found.push((lpn, start..end));
        start = end;
    }
    Some(found)
}

/// Maximum number of bytes at the beginning of a flash page that are filled with deltas: the header stores the end of a
/// delta in 16 bits.
const MAX_FILLED_BYTES_PER_PAGE: u32 = u16::MAX as u32;

/// The RAM buffer of deltas (temp buffer of the Delta-FTL paper): pages that are being filled with deltas.
#[derive(Clone, Debug)]
pub struct DeltaTempBuffer {
    /// Size of a flash page, bytes.
    page_bytes: usize,
    /// Number of bytes at the beginning of a flash page that may be filled with deltas.
    fillable_bytes: usize,
    /// Maximum number of deltas in one page of the RAM buffer.
    max_deltas_per_page: usize,
    /// Pages of the RAM buffer that are being filled with deltas.
    open_pages: Vec<OpenDeltaPage>,
}

impl DeltaTempBuffer {
    /// Creates a RAM buffer for deltas with `pages` open pages of `page_bytes` bytes; the Delta-FTL paper has one. At
    /// most the first 65,535 bytes of a page are filled.
    pub fn new(pages: u32, page_bytes: u32) -> Self {
        let open_pages = vec![OpenDeltaPage::default(); pages.max(1) as usize];
        Self {
            page_bytes: page_bytes as usize,
            fillable_bytes: page_bytes.min(MAX_FILLED_BYTES_PER_PAGE) as usize,
            max_deltas_per_page: usize::MAX,
            open_pages,
        }
    }

    /// Limits each page of the RAM buffer to at most `most_deltas` deltas.
    #[must_use]
    pub fn with_max_deltas_per_page(self, most_deltas: usize) -> Self {
        Self { max_deltas_per_page: most_deltas, ..self }
    }

    /// Returns whether a delta of `bytes` bytes, with the page header, fits in an otherwise empty flash page.
    pub fn fits_in_page(&self, bytes: usize) -> bool {
        DELTA_COUNT_BYTES + DELTA_DIRECTORY_ENTRY_BYTES + bytes <= self.fillable_bytes
    }

    /// Returns the index of the page of the RAM buffer into which a delta of `bytes` bytes is packed: the fullest page
    /// that has room. `None` if no page has room, so that one must be written to flash first
    /// ([`DeltaTempBuffer::fullest_page`]).
    pub fn page_with_room(&self, bytes: usize) -> Option<usize> {
        let needed = bytes + DELTA_DIRECTORY_ENTRY_BYTES;
        let fits = |page: &OpenDeltaPage| {
            page.free_bytes(self.fillable_bytes) >= needed && page.deltas.len() < self.max_deltas_per_page
        };
        let fitting = (0..self.open_pages.len()).filter(|&at| fits(&self.open_pages[at]));
        fitting.max_by_key(|&at| (self.open_pages[at].used_bytes, usize::MAX - at))
    }

    /// Returns the index of the page of the RAM buffer with the most bytes of deltas.
    pub fn fullest_page(&self) -> usize {
        (0..self.open_pages.len())
            .max_by_key(|&at| (self.open_pages[at].used_bytes, usize::MAX - at))
            .expect("there is a page")
    }

    /// Returns the index of the first page of the RAM buffer that holds a delta; `None` if all are empty.
    pub fn first_nonempty_page(&self) -> Option<usize> {
        self.open_pages.iter().position(|page| !page.deltas.is_empty())
    }

    /// Adds `delta` to page `at` of the RAM buffer, in place of an older buffered delta of the same logical page if
    /// there is one.
    pub fn push(&mut self, at: usize, delta: BufferedDelta) {
        self.remove(delta.lpn);
        self.open_pages[at].push(delta);
    }

    /// Removes the delta of the logical page `lpn` from the RAM buffer. Returns `false` if the buffer has none.
    pub fn remove(&mut self, lpn: Lpn) -> bool {
        self.open_pages.iter_mut().any(|page| page.remove(lpn))
    }

    /// Returns the delta of a logical page in the RAM buffer; `None` if there is none.
    pub fn buffered_delta(&self, lpn: Lpn) -> Option<&BufferedDelta> {
        self.open_pages.iter().flat_map(OpenDeltaPage::deltas).find(|delta| delta.lpn == lpn)
    }

    /// Returns page `at` of the RAM buffer of deltas, so that it can be written to flash.
    pub fn open_page_at(&self, at: usize) -> &OpenDeltaPage {
        &self.open_pages[at]
    }

    /// Empties page `at` of the RAM buffer of deltas, after the page was programmed to flash. Returns the deltas that
    /// were in it.
    pub fn take_page_deltas(&mut self, at: usize) -> Vec<BufferedDelta> {
        std::mem::take(&mut self.open_pages[at]).deltas
    }

    /// Returns the deltas in all pages of the RAM buffer.
    pub fn buffered_deltas(&self) -> impl Iterator<Item = &BufferedDelta> + '_ {
        self.open_pages.iter().flat_map(OpenDeltaPage::deltas)
    }

    /// Returns the bytes of RAM that the controller of a real drive needs for the RAM buffer of deltas.
    pub fn ram_bytes(&self) -> u64 {
        (self.open_pages.len() * self.page_bytes) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::compute_delta;

    /// Bug: the end of a delta that filled a page of 64 KiB to its last byte was stored as 0, and the page could not
    /// be decoded.
    #[test]
    fn a_page_of_64_kib_that_deltas_fill_is_decoded() {
        let page_bytes = 64 << 10;
        let mut buffer = DeltaTempBuffer::new(1, page_bytes);
        let mut expected = Vec::new();
        for lpn in (0..).map(Lpn) {
            let free = buffer
                .open_page_at(0)
                .free_bytes(buffer.fillable_bytes)
                .saturating_sub(DELTA_DIRECTORY_ENTRY_BYTES);
            let bytes = free.min(30_000) as u16;
            if bytes == 0 {
                break;
            }
            let payload = vec![lpn.0 as u8 + 1; bytes.into()];
            expected.push((lpn, payload.clone()));
            buffer.push(
                0,
                BufferedDelta {
                    lpn,
                    delta_and_base_tag_bytes: bytes,
                    fingerprint: Fingerprint::default(),
                    payload,
                },
            );
        }
        let page = buffer.open_page_at(0).encode(page_bytes as usize);
        let decoded = decode_delta_page_header(&page).expect("it was encoded here");
        let decoded: Vec<_> = decoded.into_iter().map(|(lpn, range)| (lpn, page[range].to_vec())).collect();
        assert!(decoded == expected, "{} deltas decoded of {}", decoded.len(), expected.len());
        assert_eq!(expected.len(), 3, "a third delta fills the page");
    }

    #[test]
    fn a_placeholder_delta_is_distinguished_from_a_compressed_difference() {
        let fingerprint = Fingerprint(0x0123_4567_89ab_cdef);
        for bytes in 1..40 {
            let kept = if bytes < PLACEHOLDER_FINGERPRINT_BYTE_RANGE.end {
                Fingerprint::default()
            } else {
                fingerprint
            };
            let delta = placeholder_delta(bytes, fingerprint);
            assert_eq!((delta.len(), placeholder_fingerprint(&delta)), (bytes, Some(kept)));
        }
        // No difference is no delta, and needs no bytes.
        assert_eq!(placeholder_fingerprint(&placeholder_delta(0, fingerprint)), None);
        for (changed, from) in [(1, 0), (1, 511), (8, 100), (300, 50), (512, 0)] {
            let (old, mut new) = ([7; 512], [7; 512]);
            new[from..(from + changed).min(512)]
                .iter_mut()
                .zip(1..)
                .for_each(|(byte, k)| *byte ^= k as u8 | 1);
            assert_eq!(
                placeholder_fingerprint(&compute_delta(&new, &old)),
                None,
                "{changed} bytes from {from}"
            );
        }
    }
}
