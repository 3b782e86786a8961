//! Memory for the bytes of pages: frames of equal size, in a few large tables on large memory pages.
//!
//! Words of translation pages are read at random over all frames. In a few large tables instead of an allocation per
//! frame, these reads miss the TLB less often. Table sizes double up to a limit, so that a tiny device takes little
//! memory; the limit is the size of a large memory page, because the system provides these only whole. Tables are never
//! moved or freed; free frames are used again.

use crate::tables::DenseTable;

/// Log2 of the number of frames (each is memory for one page) in the largest table of frames: 2 MiB, if pages have 4
/// KiB.
const MAX_PAGE_FRAMES_PER_TABLE_LOG2: u32 = 9;

/// Number of a frame (memory for the bytes of one page).
pub(super) type FrameNumber = u32;

/// Pool of frames: pieces of memory of equal size for the bytes of one page each, with a list of the free ones.
#[derive(Clone, Debug)]
pub(super) struct FramePool {
    /// Size of a frame, bytes.
    frame_bytes: usize,
    /// Tables of frames, which have 1, 2, 4 frames and so on up to a maximum number.
    frame_tables: Vec<DenseTable<u8>>,
    /// Numbers of frames that were freed and can be allocated again.
    free_frames: Vec<FrameNumber>,
    /// Number of the frame that is allocated next if the list of free frames is empty.
    next_new_frame: FrameNumber,
}

impl FramePool {
    /// Creates an empty pool of frames of `frame_bytes` bytes each.
    pub(super) fn new(frame_bytes: usize) -> Self {
        Self { frame_bytes, frame_tables: Vec::new(), free_frames: Vec::new(), next_new_frame: 0 }
    }

    /// Allocates a frame (memory for the bytes of one page); its content is arbitrary.
    pub(super) fn allocate(&mut self) -> FrameNumber {
        if let Some(frame) = self.free_frames.pop() {
            return frame;
        }
        let frame = self.next_new_frame;
        self.next_new_frame += 1;
        let (table, _) = table_and_index_of(frame);
        if table == self.frame_tables.len() {
            let frames = 1 << (table as u32).min(MAX_PAGE_FRAMES_PER_TABLE_LOG2);
            self.frame_tables.push(DenseTable::zeroed(frames * self.frame_bytes));
        }
        frame
    }

    /// Frees a frame (memory for the bytes of one page), to be allocated again.
    pub(super) fn free_frame(&mut self, frame: FrameNumber) {
        self.free_frames.push(frame);
    }

    /// Returns the bytes of a frame.
    #[inline]
    pub(super) fn get(&self, frame: FrameNumber) -> &[u8] {
        let (table, place) = table_and_index_of(frame);
        let at = place * self.frame_bytes;
        &self.frame_tables[table].bytes()[at..at + self.frame_bytes]
    }

    /// Returns the bytes of a frame, for changes.
    #[inline]
    pub(super) fn get_mut(&mut self, frame: FrameNumber) -> &mut [u8] {
        let (table, place) = table_and_index_of(frame);
        let at = place * self.frame_bytes;
        &mut self.frame_tables[table].bytes_mut()[at..at + self.frame_bytes]
    }
}

/// Returns the index of the table that contains a frame (memory for the bytes of one page), and the frame's index in
/// that table. The tables have 1, 2, 4 frames and so on up to a maximum size, which all further tables have. Computed
/// without branches, which would be mispredicted because frames are accessed at random.
#[inline]
fn table_and_index_of(frame: FrameNumber) -> (usize, usize) {
    let counted = frame + 1;
    let log2 = counted.ilog2().min(MAX_PAGE_FRAMES_PER_TABLE_LOG2);
    let table = log2.min(MAX_PAGE_FRAMES_PER_TABLE_LOG2 - 1) + (counted >> MAX_PAGE_FRAMES_PER_TABLE_LOG2);
    (table as usize, (counted & ((1 << log2) - 1)) as usize)
}

#[cfg(test)]
mod tests {
    use super::{FramePool, MAX_PAGE_FRAMES_PER_TABLE_LOG2, table_and_index_of};

    #[test]
    fn every_page_frame_has_its_own_position_in_the_frame_tables() {
        let mut next = (0, 0);
        for frame in 0..5 << MAX_PAGE_FRAMES_PER_TABLE_LOG2 {
            let (table, place) = table_and_index_of(frame);
            let expected = if (table, place) == next { next } else { (next.0 + 1, 0) };
            assert_eq!((table, place), expected, "frame {frame}");
            assert!(place < 1 << (table as u32).min(MAX_PAGE_FRAMES_PER_TABLE_LOG2), "frame {frame}");
            next = (table, place + 1);
        }
    }

    #[test]
    fn page_frames_keep_their_bytes_while_others_are_allocated_and_freed() {
        let mut frames = FramePool::new(3);
        let taken: Vec<_> = (0..100).map(|_| frames.allocate()).collect();
        for &frame in &taken {
            frames.get_mut(frame).fill(frame as u8);
        }
        taken.iter().step_by(2).for_each(|&frame| frames.free_frame(frame));
        let again: Vec<_> = (0..50).map(|_| frames.allocate()).collect();
        for &frame in &again {
            frames.get_mut(frame).fill(255);
        }
        assert!(taken.iter().skip(1).step_by(2).all(|&frame| frames.get(frame) == [frame as u8; 3]));
        assert!(taken.iter().step_by(2).all(|frame| again.contains(frame)));
    }
}
