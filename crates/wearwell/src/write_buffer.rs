//! Write buffer of the drive: collects sectors into pages and absorbs overwrites.
//!
//! The buffer is volatile. A write is acknowledged when it is in the buffer, and durable when a flush has written the
//! buffer out. There are two orders of eviction. First in, first out: an overwrite does not change the position of a
//! page. Segmented LRU: a page that is written again moves to a protected half, where a stream of new pages cannot
//! evict it.

use rustc_hash::FxHashMap;

use crate::address::Lpn;
use crate::data::{Content, ContentDescriptor, Fingerprint, KnownContentSizes, PAGE_BYTES};
use crate::tables::LruList;

/// Order in which the write buffer evicts pages: FIFO or segmented LRU.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum WriteBufferPolicy {
    /// First in, first out: an overwrite does not change the position of the page in the order of eviction.
    #[default]
    Fifo,
    /// Segmented LRU: pages that were written again are evicted last; they occupy at most half of the buffer.
    Slru,
}

/// Size and policy of the write buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct WriteBufferOptions {
    /// Capacity of the write buffer in pages. 0 means no buffer: every write is passed to the FTL at once.
    pub capacity_pages: u32,
    /// Order in which the write buffer evicts pages.
    pub policy: WriteBufferPolicy,
}

/// Set of 512-byte sectors of one page, one bit per sector; for pages of up to 64 KiB.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SectorMask(pub u128);

impl SectorMask {
    /// Returns the set of sectors `from..to` of a page.
    pub fn of_sector_range(from: u32, to: u32) -> Self {
        let below = |n: u32| if n >= 128 { u128::MAX } else { (1 << n) - 1 };
        Self(below(to) & !below(from))
    }

    /// Returns whether the set contains all sectors of a page of `sectors` sectors.
    pub fn covers_all_sectors(self, sectors: u32) -> bool {
        self == Self::of_sector_range(0, sectors)
    }

    /// Returns whether the set consists of whole 4-KiB pages, to which descriptors of content refer.
    fn consists_of_whole_4_kib_pages(self) -> bool {
        /// Number of 512-byte sectors of a 4-KiB page.
        const SECTORS_PER_CONTENT_PAGE: u32 = (PAGE_BYTES / 512) as u32;
        /// Mask of the first sector of each 4-KiB page.
        const FIRST_SECTOR_OF_CONTENT_PAGES_MASK: u128 = u128::MAX / ((1 << SECTORS_PER_CONTENT_PAGE) - 1);
        self.0 == (self.0 & FIRST_SECTOR_OF_CONTENT_PAGES_MASK) * ((1 << SECTORS_PER_CONTENT_PAGE) - 1)
    }

    /// Returns the numbers of the sectors in the set, in ascending order.
    fn sector_indices(self) -> impl Iterator<Item = usize> {
        (0..128).filter(move |k| self.0 >> k & 1 == 1)
    }
}

/// Content of a page in the write buffer: a content descriptor (fingerprint and sizes, in simulation), or bytes,
/// perhaps written only in some sectors.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum PageData {
    /// Fingerprint and sizes of the page's content, instead of its bytes.
    Descriptor(ContentDescriptor),
    /// Bytes of one whole page, of which only the sectors in the accompanying [`SectorMask`] are defined.
    Bytes(Box<[u8]>),
}

impl PageData {
    /// Copies the content of a host write, so that the buffer can hold it.
    pub(crate) fn from_content(content: Content<'_>) -> Self {
        match content {
            Content::Descriptor(descriptor) => Self::Descriptor(descriptor),
            Content::Bytes(bytes) => Self::Bytes(bytes.into()),
        }
    }

    /// Returns the content of the page in the form that the FTL writes.
    pub(crate) fn content(&self) -> Content<'_> {
        match self {
            Self::Descriptor(descriptor) => Content::Descriptor(*descriptor),
            Self::Bytes(bytes) => Content::Bytes(bytes),
        }
    }

    /// Returns which sizes (compressed size, delta size) of the content are known. If the content is given as bytes,
    /// none is known.
    pub(crate) fn known_content_sizes(&self) -> KnownContentSizes {
        match self {
            Self::Descriptor(descriptor) => descriptor.known_content_sizes(),
            Self::Bytes(_) => KnownContentSizes::default(),
        }
    }

    /// Overwrites the sectors in `mask` of this page with the same sectors of `over`. For descriptors the result is a
    /// new fingerprint, mixed from both fingerprints and the mask, with unknown sizes.
    pub(crate) fn overwrite_sectors(&mut self, over: &PageData, mask: SectorMask) {
        match (self, over) {
            (Self::Bytes(page), Self::Bytes(over)) => copy_sectors(page, over, mask),
            (Self::Descriptor(page), Self::Descriptor(over)) => {
                *page = merged_descriptor(page.fingerprint, over.fingerprint, mask);
            }
            _ => unreachable!("a device holds bytes or descriptors, never both"),
        }
    }
}

/// Returns the descriptor `merged` of a page that consists of the two `parts`, with the sums of their sizes as its
/// sizes.
fn with_summed_sizes(merged: ContentDescriptor, parts: [ContentDescriptor; 2]) -> ContentDescriptor {
    ContentDescriptor {
        compressed_bytes: ContentDescriptor::sum_of_sizes(parts.map(|part| part.compressed_bytes)),
        delta_bytes: ContentDescriptor::sum_of_sizes(parts.map(|part| part.delta_bytes)),
        ..merged
    }
}

/// Copies the sectors in `mask` from page `over` to `page`.
fn copy_sectors(page: &mut [u8], over: &[u8], mask: SectorMask) {
    for sector in mask.sector_indices() {
        let at = sector * 512..sector * 512 + 512;
        page[at.clone()].copy_from_slice(&over[at]);
    }
}

/// Returns the descriptor, with unknown sizes, of a page whose content `under` was overwritten with `over` in the
/// sectors in `mask`.
fn merged_descriptor(under: Fingerprint, over: Fingerprint, mask: SectorMask) -> ContentDescriptor {
    ContentDescriptor::of_fingerprint(Fingerprint::combine([
        under.0,
        over.0,
        mask.0 as u64,
        (mask.0 >> 64) as u64,
    ]))
}

/// A page in the write buffer that is not written to the FTL yet.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct BufferedPage {
    /// Logical page number of the page.
    pub(crate) lpn: Lpn,
    /// Content of the page: descriptor or bytes.
    pub(crate) data: PageData,
    /// Sectors of the page that the host has written since the page entered the buffer.
    pub(crate) written_sectors: SectorMask,
    /// Sizes (compressed size, delta size) that are known of at least a part of the page's content.
    pub(crate) known_content_sizes: KnownContentSizes,
    /// Whether the page is in the protected list of the segmented LRU, because it was written again.
    is_protected: bool,
}

impl BufferedPage {
    /// Overwrites the sectors in `mask` with `data`. A page of more than 4 KiB whose 4-KiB parts are written one by one
    /// gets the sums of the sizes (compressed size, delta size) of its parts.
    fn merge(&mut self, data: &PageData, mask: SectorMask, page_sectors: u32) {
        let parts = self.disjoint_parts(data, mask, page_sectors);
        self.known_content_sizes = self.known_content_sizes.or(data.known_content_sizes());
        self.data.overwrite_sectors(data, mask);
        if let (PageData::Descriptor(merged), Some(parts)) = (&mut self.data, parts) {
            *merged = with_summed_sizes(*merged, parts);
        }
    }

    /// Returns the descriptors of the buffered part of the page and of `data`, which is to be written to the sectors in
    /// `mask`. Returns `None` unless the compressed sizes and delta sizes of the two parts can be added: the page has
    /// more than 4 KiB, and the parts have no sector in common and consist of whole 4-KiB pages.
    fn disjoint_parts(
        &self,
        data: &PageData,
        mask: SectorMask,
        page_sectors: u32,
    ) -> Option<[ContentDescriptor; 2]> {
        let (PageData::Descriptor(under), PageData::Descriptor(over)) = (&self.data, data) else {
            return None;
        };
        let has_several_contents = u64::from(page_sectors) * 512 > PAGE_BYTES;
        let is_disjoint = self.written_sectors.0 & mask.0 == 0;
        let are_whole =
            self.written_sectors.consists_of_whole_4_kib_pages() && mask.consists_of_whole_4_kib_pages();
        (has_several_contents && is_disjoint && are_whole).then_some([*under, *over])
    }
}

/// Write buffer: an index by LPN, the buffered pages, and their order of eviction.
#[derive(Clone, Debug)]
pub(crate) struct WriteBuffer {
    /// Capacity and policy of the buffer.
    options: WriteBufferOptions,
    /// Number of 512-byte sectors of a page.
    page_sectors: u32,
    /// Number of the slot in `slots` that holds each buffered page, by LPN.
    slot_of_lpn: FxHashMap<Lpn, u32>,
    /// Buffered pages, by slot number; `None` for a free slot.
    slots: Vec<Option<BufferedPage>>,
    /// Numbers of the free slots in `slots`.
    free_slots: Vec<u32>,
    /// Slots of the pages that are evicted first; with FIFO, those of all buffered pages.
    probation_list: LruList,
    /// Slots of the pages that were written again, which are evicted last; empty with FIFO.
    protected_list: LruList,
    /// Number of page writes that never reach the FTL, because their page was written again or trimmed while in the
    /// buffer.
    absorbed_writes: u64,
}

impl WriteBuffer {
    /// Creates an empty write buffer for pages of `page_sectors` sectors.
    pub(crate) fn new(options: WriteBufferOptions, page_sectors: u32) -> Self {
        Self {
            options,
            page_sectors,
            slot_of_lpn: FxHashMap::default(),
            slots: Vec::new(),
            free_slots: Vec::new(),
            probation_list: LruList::default(),
            protected_list: LruList::default(),
            absorbed_writes: 0,
        }
    }

    /// Returns whether there is no buffer, because its capacity is 0.
    #[inline]
    pub(crate) fn is_off(&self) -> bool {
        self.options.capacity_pages == 0
    }

    /// Returns the number of page writes that the write buffer absorbed: their page was written again, or trimmed,
    /// while it was in the buffer, so that they never reach the FTL.
    pub(crate) fn absorbed_writes(&self) -> u64 {
        self.absorbed_writes
    }

    /// Returns the number of buffered pages.
    pub(crate) fn len(&self) -> usize {
        self.slot_of_lpn.len()
    }

    /// Returns the logical page `lpn`, if it is buffered.
    pub(crate) fn get(&self, lpn: Lpn) -> Option<&BufferedPage> {
        let &slot = self.slot_of_lpn.get(&lpn)?;
        self.slots[slot as usize].as_ref()
    }

    /// Returns whether the write buffer has to evict a page before logical page `lpn` can be inserted.
    pub(crate) fn has_no_room_for(&self, lpn: Lpn) -> bool {
        self.slot_of_lpn.len() >= self.options.capacity_pages as usize && !self.slot_of_lpn.contains_key(&lpn)
    }

    /// Inserts a page into the write buffer, or merges it with the buffered sectors of the same page. The caller must
    /// have made room: [`WriteBuffer::has_no_room_for`] is false.
    pub(crate) fn insert_or_merge(&mut self, lpn: Lpn, data: PageData, mask: SectorMask) {
        if let Some(&slot) = self.slot_of_lpn.get(&lpn) {
            self.absorbed_writes += 1;
            self.merge_into_slot(slot, data, mask);
            self.protect_rewritten_page(slot);
            return;
        }
        let slot = self.insert_into_free_slot(BufferedPage {
            lpn,
            known_content_sizes: data.known_content_sizes(),
            data,
            written_sectors: mask,
            is_protected: false,
        });
        self.probation_list.push_newest(slot);
    }

    /// Puts a page back into the write buffer that was evicted but could not be written to the FTL. The buffer evicts
    /// this page first.
    pub(crate) fn reinsert(&mut self, page: BufferedPage) {
        let slot = self.insert_into_free_slot(BufferedPage { is_protected: false, ..page });
        self.probation_list.push_oldest(slot);
    }

    /// Stores a page in a free slot, and returns the slot number.
    fn insert_into_free_slot(&mut self, page: BufferedPage) -> u32 {
        let slot = self.free_slots.pop().unwrap_or(self.slots.len() as u32);
        if slot as usize == self.slots.len() {
            self.slots.push(None);
        }
        self.slot_of_lpn.insert(page.lpn, slot);
        self.slots[slot as usize] = Some(page);
        slot
    }

    /// Overwrites the sectors in `mask` of the buffered page in `slot` with `data`. If the sectors are the whole page,
    /// or exactly those written before, `data` replaces the content.
    fn merge_into_slot(&mut self, slot: u32, data: PageData, mask: SectorMask) {
        let page_sectors = self.page_sectors;
        let entry = self.page_in_slot(slot);
        if mask.covers_all_sectors(page_sectors) || mask == entry.written_sectors {
            entry.known_content_sizes = data.known_content_sizes();
            entry.data = data;
        } else {
            entry.merge(&data, mask, page_sectors);
        }
        entry.written_sectors.0 |= mask.0;
    }

    /// Returns the page in a slot that is in use.
    fn page_in_slot(&mut self, slot: u32) -> &mut BufferedPage {
        self.slots[slot as usize].as_mut().expect("an indexed slot is in use")
    }

    /// Moves the page in `slot`, which was written again, to the newest place of the protected list. If this list has
    /// more than half of the capacity, its oldest page moves back to the other list. Does nothing with FIFO.
    fn protect_rewritten_page(&mut self, slot: u32) {
        if self.options.policy == WriteBufferPolicy::Fifo {
            return;
        }
        if std::mem::replace(&mut self.page_in_slot(slot).is_protected, true) {
            return self.protected_list.touch(slot);
        }
        self.probation_list.remove(slot);
        self.protected_list.push_newest(slot);
        if self.protected_list.len() > self.options.capacity_pages / 2 {
            let demoted = self.protected_list.oldest_slot().expect("the protected segment is not empty");
            self.protected_list.remove(demoted);
            self.page_in_slot(demoted).is_protected = false;
            self.probation_list.push_newest(demoted);
        }
    }

    /// Removes and returns the page that the write buffer evicts next.
    pub(crate) fn take_next_to_evict(&mut self) -> Option<BufferedPage> {
        let slot = self.probation_list.oldest_slot().or_else(|| self.protected_list.oldest_slot())?;
        Some(self.remove_slot(slot))
    }

    /// Removes logical page `lpn` from the write buffer and returns it, if it is buffered.
    pub(crate) fn remove(&mut self, lpn: Lpn) -> Option<BufferedPage> {
        let slot = *self.slot_of_lpn.get(&lpn)?;
        Some(self.remove_slot(slot))
    }

    /// Removes and returns the page in `slot`, which becomes free.
    fn remove_slot(&mut self, slot: u32) -> BufferedPage {
        let entry = self.slots[slot as usize].take().expect("an indexed slot is in use");
        let segment = if entry.is_protected { &mut self.protected_list } else { &mut self.probation_list };
        segment.remove(slot);
        self.slot_of_lpn.remove(&entry.lpn);
        self.free_slots.push(slot);
        entry
    }

    /// Removes logical page `lpn` from the write buffer, if it is there, because the host trims it. The write that
    /// brought the page counts as absorbed.
    pub(crate) fn discard_trimmed_page(&mut self, lpn: Lpn) {
        self.absorbed_writes += u64::from(self.remove(lpn).is_some());
    }

    /// Discards all buffered pages, because power was lost. Their writes count as lost; the count of absorbed writes
    /// does not change.
    pub(crate) fn discard_on_power_loss(&mut self) {
        let absorbed_writes = self.absorbed_writes;
        *self = Self { absorbed_writes, ..Self::new(self.options, self.page_sectors) };
    }

    /// Returns the bytes of RAM of a full write buffer: its capacity in pages times the page size.
    pub(crate) fn ram_bytes(&self) -> u64 {
        self.options.capacity_pages as u64 * self.page_sectors as u64 * 512
    }
}
