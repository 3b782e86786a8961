//! Deltas of several logical pages in one flash page.
//!
//! Format (Delta-FTL, section 3.2): the page begins with the number of deltas (2 bytes) and, for each, the logical
//! page (4 bytes) and where its delta ends (2 bytes, from the start of the page); the deltas follow. A reader streams
//! the page and knows after the header where to stop. Deltas are never split, so the end of a page is lost: with one
//! open buffer a delta costs more than its size suggests. Several open buffers lose less, because a small delta finds
//! a gap; the price is that many pages of RAM.
//!
//! Where the delta table has to be rebuilt from flash, the spare area of the page repeats whose deltas it holds
//! ([`encode_members`]): if the page cannot be read, these logical pages are lost, and no others. A page takes no more
//! deltas than the spare area can list.
//!
//! Invariant: a logical page is staged at most once.

use std::ops::Range;

use crate::address::Lpn;
use crate::data::Fingerprint;

/// Bytes of the count at the beginning of a page.
pub const COUNT_BYTES: usize = 2;
/// Bytes of a delta's line in the header.
pub const LINE_BYTES: usize = 6;

/// Bytes before the first logical page in the spare area.
const MEMBERS_HEAD_BYTES: usize = 4;
/// Bytes of a logical page in the spare area.
const MEMBER_BYTES: usize = 4;

/// Logical pages that a spare area can list.
pub fn most_members(spare_bytes: u32) -> usize {
    (spare_bytes as usize).saturating_sub(MEMBERS_HEAD_BYTES) / MEMBER_BYTES
}

/// What the spare area of a page of deltas says: their number (2 bytes), zeros (2), the logical pages (4 each). Empty if
/// there are more than fit.
pub fn encode_members(lpns: &[Lpn], spare_bytes: u32) -> Vec<u8> {
    if lpns.len() > most_members(spare_bytes) {
        return Vec::new();
    }
    let mut spare = vec![0; MEMBERS_HEAD_BYTES];
    spare[..2].copy_from_slice(&(lpns.len() as u16).to_le_bytes());
    spare.extend(lpns.iter().flat_map(|lpn| lpn.0.to_le_bytes()));
    spare
}

/// Reads the logical pages from a spare area; `None` if it lists none.
pub fn decode_members(spare: &[u8]) -> Option<Vec<Lpn>> {
    let head = spare.get(..MEMBERS_HEAD_BYTES)?;
    let count = usize::from(u16::from_le_bytes([head[0], head[1]]));
    let lpns = spare.get(MEMBERS_HEAD_BYTES..MEMBERS_HEAD_BYTES + count * MEMBER_BYTES)?;
    let is_list = count > 0 && head[2..] == [0, 0];
    let lpns = lpns.as_chunks().0.iter().map(|&bytes| Lpn(u32::from_le_bytes(bytes)));
    is_list.then(|| lpns.collect())
}

/// A delta that waits for its page.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StagedDelta {
    /// Whose content it is.
    pub lpn: Lpn,
    /// Size.
    pub bytes: u16,
    /// Identity of the content it leads to.
    pub fingerprint: Fingerprint,
    /// The delta itself; empty where only sizes are known.
    pub payload: Vec<u8>,
}

impl StagedDelta {
    fn footprint(&self) -> usize {
        self.bytes as usize + LINE_BYTES
    }
}

/// One page being filled.
#[derive(Clone, Debug, Default)]
pub struct OpenPage {
    deltas: Vec<StagedDelta>,
    used: usize,
}

impl OpenPage {
    /// Deltas in it, in order.
    pub fn deltas(&self) -> &[StagedDelta] {
        &self.deltas
    }

    fn free(&self, page_bytes: usize) -> usize {
        page_bytes - COUNT_BYTES - self.used
    }

    fn push(&mut self, delta: StagedDelta) {
        self.used += delta.footprint();
        self.deltas.push(delta);
    }

    fn remove(&mut self, lpn: Lpn) -> bool {
        let Some(at) = self.deltas.iter().position(|delta| delta.lpn == lpn) else { return false };
        self.used -= self.deltas.remove(at).footprint();
        true
    }

    /// The page as it goes to flash. A delta without payload leaves its place empty.
    pub fn encode(&self, page_bytes: usize) -> Vec<u8> {
        let mut page = Vec::with_capacity(page_bytes);
        page.extend_from_slice(&(self.deltas.len() as u16).to_le_bytes());
        let mut end = COUNT_BYTES + LINE_BYTES * self.deltas.len();
        for delta in &self.deltas {
            end += delta.bytes as usize;
            page.extend_from_slice(&delta.lpn.0.to_le_bytes());
            page.extend_from_slice(&(end as u16).to_le_bytes());
        }
        for delta in &self.deltas {
            let end = page.len() + delta.bytes as usize;
            page.extend_from_slice(&delta.payload);
            page.resize(end, 0);
        }
        assert!(page.len() <= page_bytes, "{} bytes of deltas in a page of {page_bytes}", page.len());
        page.resize(page_bytes, 0);
        page
    }
}

/// The directory of a page of deltas: who, and which bytes. `None` if the page is not well formed.
pub fn directory(page: &[u8]) -> Option<Vec<(Lpn, Range<usize>)>> {
    let count = u16::from_le_bytes(page.get(..COUNT_BYTES)?.try_into().ok()?) as usize;
    let lines = page.get(COUNT_BYTES..COUNT_BYTES + LINE_BYTES * count)?;
    let mut start = COUNT_BYTES + lines.len();
    let mut found = Vec::with_capacity(count);
    for line in lines.chunks_exact(LINE_BYTES) {
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

/// The temp buffer: pages being filled.
#[derive(Clone, Debug)]
pub struct TempBuffer {
    page_bytes: usize,
    most_deltas: usize,
    open: Vec<OpenPage>,
}

impl TempBuffer {
    /// `pages` open pages of `page_bytes`; the paper has one.
    pub fn new(pages: u32, page_bytes: u32) -> Self {
        let open = vec![OpenPage::default(); pages.max(1) as usize];
        Self { page_bytes: page_bytes as usize, most_deltas: usize::MAX, open }
    }

    /// The same with at most `most_deltas` in a page.
    #[must_use]
    pub fn of_most_deltas(self, most_deltas: usize) -> Self {
        Self { most_deltas, ..self }
    }

    /// Whether a delta of this size can be packed at all.
    pub fn is_small_enough(&self, bytes: usize) -> bool {
        COUNT_BYTES + LINE_BYTES + bytes <= self.page_bytes
    }

    /// The open page that a delta of this size goes to: the fullest that has room. `None`: a page has to be committed
    /// first, and [`TempBuffer::fullest`] is the one.
    pub fn place_for(&self, bytes: usize) -> Option<usize> {
        let needed = bytes + LINE_BYTES;
        let fits =
            |page: &OpenPage| page.free(self.page_bytes) >= needed && page.deltas.len() < self.most_deltas;
        let fitting = (0..self.open.len()).filter(|&at| fits(&self.open[at]));
        fitting.max_by_key(|&at| (self.open[at].used, usize::MAX - at))
    }

    /// The open page with the most bytes.
    pub fn fullest(&self) -> usize {
        (0..self.open.len()).max_by_key(|&at| (self.open[at].used, usize::MAX - at)).expect("there is a page")
    }

    /// Open pages that hold something.
    pub fn first_filled(&self) -> Option<usize> {
        self.open.iter().position(|page| !page.deltas.is_empty())
    }

    /// Stages a delta; it replaces an older one of the same logical page.
    pub fn push(&mut self, at: usize, delta: StagedDelta) {
        self.remove(delta.lpn);
        self.open[at].push(delta);
    }

    /// Forgets the staged delta of a logical page, if there is one.
    pub fn remove(&mut self, lpn: Lpn) -> bool {
        self.open.iter_mut().any(|page| page.remove(lpn))
    }

    /// The staged delta of a logical page.
    pub fn get(&self, lpn: Lpn) -> Option<&StagedDelta> {
        self.open.iter().flat_map(OpenPage::deltas).find(|delta| delta.lpn == lpn)
    }

    /// An open page, to be written.
    pub fn page(&self, at: usize) -> &OpenPage {
        &self.open[at]
    }

    /// The page was written: it is empty again. Returns what it held.
    pub fn take(&mut self, at: usize) -> Vec<StagedDelta> {
        std::mem::take(&mut self.open[at]).deltas
    }

    /// All staged deltas.
    pub fn staged(&self) -> impl Iterator<Item = &StagedDelta> + '_ {
        self.open.iter().flat_map(OpenPage::deltas)
    }

    /// Bytes a controller holds.
    pub fn ram_bytes(&self) -> u64 {
        (self.open.len() * self.page_bytes) as u64
    }
}
