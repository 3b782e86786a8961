//! The order of the fingerprint store: which entry is evicted first, and which is compared first.
//!
//! An entry (a dead page) has one of 256 levels of recycle probability (how likely its content is written again), so a
//! sorted list is not needed. Each level is a queue ordered by recency, and a bitmap finds the lowest non-empty level.
//! An entry always enters at the recent end, so a queue is an append-only log. The entry stores a *ticket* (its
//! position in the log). When the entry is removed, its position becomes blank, and no other entry moves. Insert,
//! remove and "worst entry" cost O(1) amortised and touch one position of the log.
//!
//! The log also makes the rank of an entry (the number of better entries) cheap. The LX-SSD paper calls it "number of
//! fingerprint comparisons": those of a scan of the store that begins with the best entry. Blanks are counted in
//! sections of 256 positions. So a rank is the sum of 256 level sizes, of the counts of the sections after the entry,
//! and of one section: a few hundred additions over contiguous memory, on hits only. The price: a log with many blanks
//! must be rewritten, which is done when fewer than a quarter of the positions from the oldest entry on are in use.
//! Blanks before the oldest entry are dropped when they are half of the log.
//!
//! Invariants: within a queue, a larger ticket is more recent; the count of a section is its number of blanks; bit `l`
//! of the bitmap is set exactly if level `l` has an entry.

/// Number of levels (ranks by recycle probability) in the fingerprint store (index of dead pages). Level 0 is the least
/// likely to be recycled.
pub(super) const PROBABILITY_LEVELS: usize = 256;

/// Number of positions in a section of the log of a probability level. Removed entries leave blank positions, which are
/// counted by section.
const EVICTION_LOG_SECTION_POSITIONS: usize = 256;
/// Value in a level's log that marks the position of a removed entry (a blank).
const BLANK_SLOT: u32 = u32::MAX;

/// Eviction queue of one level of recycle probability: the entries of the fingerprint store (index of dead pages) with
/// this level, as an append-only log of store slots, oldest first.
#[derive(Clone, Debug, Default)]
struct ProbabilityLevelQueue {
    /// Slots of the entries in the order in which they were appended; [`BLANK_SLOT`] for removed entries.
    slot_log: Vec<u32>,
    /// Number of blank positions (of removed entries) in each section of 256 positions of the log.
    removed_entries_per_log_section: Vec<u16>,
    /// Index, in the log of store slots, of the oldest fingerprint-store entry that was not removed; the log's length
    /// if there is none.
    oldest_entry_index: usize,
    /// Log position of the entry in `slot_log[0]`. Log positions (tickets) count all entries that were ever appended,
    /// and wrap around. The beginning of the log is dropped in sections of 256 positions, so this is a multiple of 256.
    first_retained_log_position: u32,
}

impl ProbabilityLevelQueue {
    /// Appends the entry in `slot` to the log of the probability level, and returns its ticket (log position).
    #[inline]
    fn append_slot(&mut self, slot: u32) -> u32 {
        let place = self.slot_log.len();
        if place.is_multiple_of(EVICTION_LOG_SECTION_POSITIONS) {
            self.removed_entries_per_log_section.push(0);
        }
        self.slot_log.push(slot);
        self.first_retained_log_position.wrapping_add(place as u32)
    }

    /// Returns the index in `slot_log` of the entry with the number `ticket`. Entries are numbered in the order in
    /// which they were appended, from the creation of the queue on.
    #[inline]
    fn slot_log_index(&self, ticket: u32) -> usize {
        ticket.wrapping_sub(self.first_retained_log_position) as usize
    }

    /// Removes the entry with this ticket (log position) from the log of the probability level, and leaves a blank
    /// there.
    #[inline]
    fn remove(&mut self, ticket: u32) {
        let place = self.slot_log_index(ticket);
        self.slot_log[place] = BLANK_SLOT;
        self.removed_entries_per_log_section[place / EVICTION_LOG_SECTION_POSITIONS] += 1;
        if place == self.oldest_entry_index {
            self.skip_removed_entries();
        }
    }

    /// Advances `oldest_entry_index` over removed entries. If these are more than half of the queue's log, deletes them
    /// from it.
    #[inline]
    fn skip_removed_entries(&mut self) {
        while self.slot_log.get(self.oldest_entry_index) == Some(&BLANK_SLOT) {
            self.oldest_entry_index += 1;
        }
        if self.oldest_entry_index > self.slot_log.len() / 2 + EVICTION_LOG_SECTION_POSITIONS {
            self.free_emptied_log_sections();
        }
    }

    /// Deletes the sections of 256 positions at the beginning of the log of a probability level that end before the
    /// oldest entry. They hold only blanks (positions of removed entries).
    #[cold]
    fn free_emptied_log_sections(&mut self) {
        let chunks = self.oldest_entry_index / EVICTION_LOG_SECTION_POSITIONS;
        self.removed_entries_per_log_section.drain(..chunks);
        self.slot_log.drain(..chunks * EVICTION_LOG_SECTION_POSITIONS);
        self.oldest_entry_index -= chunks * EVICTION_LOG_SECTION_POSITIONS;
        self.first_retained_log_position =
            self.first_retained_log_position.wrapping_add((chunks * EVICTION_LOG_SECTION_POSITIONS) as u32);
    }

    /// Returns the log of a probability level (store slots) from the oldest entry on, blanks (positions of removed
    /// entries) included.
    fn log_since_oldest(&self) -> &[u32] {
        &self.slot_log[self.oldest_entry_index..]
    }

    /// Returns the number of entries of this probability level that are more recent than the entry with this ticket
    /// (log position).
    fn count_newer_than(&self, ticket: u32) -> u32 {
        let place = self.slot_log_index(ticket);
        let chunk_end = ((place / EVICTION_LOG_SECTION_POSITIONS + 1) * EVICTION_LOG_SECTION_POSITIONS)
            .min(self.slot_log.len());
        let beside = self.slot_log[place + 1..chunk_end].iter().filter(|&&slot| slot != BLANK_SLOT).count();
        let blanks: u32 = self.removed_entries_per_log_section[place / EVICTION_LOG_SECTION_POSITIONS + 1..]
            .iter()
            .map(|&count| count as u32)
            .sum();
        (beside + self.slot_log.len() - chunk_end) as u32 - blanks
    }

    /// Returns whether the log is so sparse that it should be rewritten: the `live` entries take less than about a
    /// quarter of the positions from the oldest entry on.
    #[inline]
    fn is_log_sparse(&self, live: u32) -> bool {
        self.slot_log.len() - self.oldest_entry_index > 4 * (live as usize + EVICTION_LOG_SECTION_POSITIONS)
    }

    /// Returns the store slots of the entries of the probability level, oldest first.
    fn live_slots(&self) -> impl DoubleEndedIterator<Item = u32> + '_ {
        self.log_since_oldest().iter().copied().filter(|&slot| slot != BLANK_SLOT)
    }

    /// Checks the log of a probability level, which should have `live` entries. Returns the first violation as a
    /// sentence.
    fn check(&self, live: u32) -> Result<(), String> {
        // Most levels are empty.
        if live == 0
            && self.slot_log.is_empty()
            && self.removed_entries_per_log_section.is_empty()
            && self.oldest_entry_index == 0
        {
            return Ok(());
        }
        let blanks = |places: &[u32]| places.iter().filter(|&&slot| slot == BLANK_SLOT).count();
        let counted =
            || self.slot_log.chunks(EVICTION_LOG_SECTION_POSITIONS).map(|chunk| blanks(chunk) as u16);
        let chunks = self.slot_log.len().div_ceil(EVICTION_LOG_SECTION_POSITIONS);
        if self.removed_entries_per_log_section.len() != chunks {
            return Err(format!(
                "the eviction order has {chunks} parts of {EVICTION_LOG_SECTION_POSITIONS} positions, so it must have as many \
                 counters of blank positions, but has {}",
                self.removed_entries_per_log_section.len()
            ));
        }
        let wrong = self
            .removed_entries_per_log_section
            .iter()
            .zip(counted())
            .enumerate()
            .find(|(_, (have, found))| *have != found);
        if let Some((chunk, (counted, found))) = wrong {
            return Err(format!(
                "the number of blank positions in part {chunk} of the eviction order is {found}, so its counter must \
                 say the same, but says {counted}"
            ));
        }
        let entries = self.slot_log.len() - blanks(&self.slot_log);
        if entries != live as usize {
            return Err(format!(
                "the number of entries in the eviction order is {entries}, so their counter must say the same, but \
                 says {live}"
            ));
        }
        let oldest = self.slot_log.iter().position(|&slot| slot != BLANK_SLOT).unwrap_or(self.slot_log.len());
        if self.oldest_entry_index == oldest {
            Ok(())
        } else {
            Err(format!(
                "the oldest entry of the eviction order is at position {oldest}, so the recorded position must be the \
                 same, but is {}",
                self.oldest_entry_index
            ))
        }
    }
}

/// The eviction order of the fingerprint store (index of dead pages): its slots ordered by probability level, then by
/// recency.
#[derive(Clone, Debug)]
pub(super) struct EvictionOrder {
    /// Queue of entries of each probability level.
    level_queues: Box<[ProbabilityLevelQueue; PROBABILITY_LEVELS]>,
    /// Number of entries of each probability level.
    entries_per_level: [u32; PROBABILITY_LEVELS],
    /// Bitmap of the probability levels that have an entry.
    occupied_level_bits: [u64; PROBABILITY_LEVELS / 64],
}

impl EvictionOrder {
    pub(super) fn new() -> Self {
        let level_queues = Box::new(std::array::from_fn(|_| ProbabilityLevelQueue::default()));
        Self {
            level_queues,
            entries_per_level: [0; PROBABILITY_LEVELS],
            occupied_level_bits: [0; PROBABILITY_LEVELS / 64],
        }
    }

    /// Makes the entry in `slot` of the fingerprint store (index of dead pages) the most recent one of probability
    /// level `level`. Returns its ticket (position in the level's log).
    #[inline]
    pub(super) fn push(&mut self, level: u8, slot: u32) -> u32 {
        self.entries_per_level[level as usize] += 1;
        self.occupied_level_bits[level as usize / 64] |= 1 << (level % 64);
        self.level_queues[level as usize].append_slot(slot)
    }

    /// Removes the entry of the fingerprint store (index of dead pages) with `ticket` (log position) from probability
    /// level `level`. Returns `true` if the level's log has become mostly blanks (positions of removed entries) and
    /// should be rewritten. Amortised O(1).
    #[inline]
    pub(super) fn remove(&mut self, level: u8, ticket: u32) -> bool {
        let live = &mut self.entries_per_level[level as usize];
        *live -= 1;
        if *live == 0 {
            self.occupied_level_bits[level as usize / 64] &= !(1 << (level % 64));
        }
        let queue = &mut self.level_queues[level as usize];
        queue.remove(ticket);
        queue.is_log_sparse(*live)
    }

    /// Rewrites the log of probability level `level` without blanks (positions of removed entries). Calls
    /// `renumber(slot, ticket)` with the new ticket (log position) of each entry.
    pub(super) fn compact_level(&mut self, level: u8, mut renumber: impl FnMut(u32, u32)) {
        let old = std::mem::take(&mut self.level_queues[level as usize]);
        for slot in old.live_slots() {
            renumber(slot, self.level_queues[level as usize].append_slot(slot));
        }
    }

    /// Returns the lowest probability level from `first` on that has an entry of the fingerprint store (index of dead
    /// pages); `None` if there is none.
    #[inline]
    fn lowest_occupied_level_from(&self, first: usize) -> Option<usize> {
        let of_first = self.occupied_level_bits.get(first / 64)? >> (first % 64);
        if of_first != 0 {
            return Some(first + of_first.trailing_zeros() as usize);
        }
        let mut others = (first / 64 + 1..self.occupied_level_bits.len())
            .filter(|&word| self.occupied_level_bits[word] != 0);
        others.next().map(|word| 64 * word + self.occupied_level_bits[word].trailing_zeros() as usize)
    }

    /// Returns level and slot of the entry of the fingerprint store (index of dead pages) that is evicted first: the
    /// least recent entry of the lowest non-empty probability level. `None` if the store is empty.
    #[inline]
    pub(super) fn first_to_evict(&self) -> Option<(u8, u32)> {
        let level = self.lowest_occupied_level_from(0)?;
        Some((level as u8, self.level_queues[level].log_since_oldest()[0]))
    }

    /// Returns the slot of the fingerprint-store entry with `ticket` (log position) on probability level `level`. If
    /// that entry was removed, the number returned has no meaning.
    #[inline]
    pub(super) fn slot_of(&self, level: u8, ticket: u32) -> u32 {
        let queue = &self.level_queues[level as usize];
        queue.slot_log.get(queue.slot_log_index(ticket)).copied().unwrap_or(BLANK_SLOT)
    }

    /// Returns the slots of all entries of the fingerprint store (index of dead pages); the entry to be evicted first
    /// comes first.
    pub(super) fn slots_in_eviction_order(&self) -> impl Iterator<Item = u32> + '_ {
        let levels = std::iter::successors(self.lowest_occupied_level_from(0), |&level| {
            self.lowest_occupied_level_from(level + 1)
        });
        levels.flat_map(|level| self.level_queues[level].live_slots())
    }

    /// Returns the rank of an entry of the fingerprint store (index of dead pages) that has this probability level and
    /// ticket (log position). The rank is 1 plus the number of entries that are evicted later. Costs a few hundred
    /// additions.
    pub(super) fn rank_from_best(&self, level: u8, ticket: u32) -> u32 {
        let better: u32 = self.entries_per_level[level as usize + 1..].iter().sum();
        1 + better + self.level_queues[level as usize].count_newer_than(ticket)
    }

    /// Returns the slots of all entries of the fingerprint store (index of dead pages). The first slot is that of the
    /// best entry, which will be evicted last.
    pub(super) fn slots_last_evicted_first(&self) -> impl Iterator<Item = u32> + '_ {
        self.level_queues.iter().rev().flat_map(|queue| queue.live_slots().rev())
    }

    /// Checks the eviction order against its counters. Returns the first violation as a sentence.
    pub(super) fn check(&self) -> Result<(), String> {
        for (level, (queue, &live)) in self.level_queues.iter().zip(&self.entries_per_level).enumerate() {
            queue.check(live).map_err(|what| {
                format!(
                    "the fingerprint store of recycling is inconsistent on probability level {level}: {what}"
                )
            })?;
            let marked = self.occupied_level_bits[level / 64] >> (level % 64) & 1 == 1;
            if marked != (live > 0) {
                return Err(format!(
                    "the fingerprint store has {live} entries on probability level {level}, so the bitmap of occupied \
                     levels must say whether there are any, but marks the level as {}",
                    if marked { "occupied" } else { "empty" }
                ));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng};
    use rand_xoshiro::Xoshiro256PlusPlus;

    use super::*;

    /// Reference model of the eviction order for a test: entries as (level, time of insertion, slot). The largest entry
    /// is evicted last.
    struct ReferenceOrder(Vec<(u8, u64, u32)>);

    impl ReferenceOrder {
        /// Returns the slots of all entries; the entry to be evicted last comes first.
        fn slots_last_evicted_first(&self) -> Vec<u32> {
            let mut sorted = self.0.clone();
            sorted.sort_unstable();
            sorted.into_iter().rev().map(|entry| entry.2).collect()
        }
    }

    /// Inserts and removes entries at random on few probability levels, so that queues span many chunks of the log and
    /// become sparse.
    #[test]
    fn eviction_ranks_equal_those_of_a_sorted_list() {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(7);
        let mut order = EvictionOrder::new();
        let mut naive = ReferenceOrder(Vec::new());
        let mut tickets = vec![0; 20_000];
        for time in 0..20_000u32 {
            let level = rng.random_range(0..3) * 100;
            tickets[time as usize] = order.push(level, time);
            naive.0.push((level, time as u64, time));
            if rng.random_range(0..10) < 9 {
                let (level, _, slot) = naive.0.swap_remove(rng.random_range(0..naive.0.len()));
                if order.remove(level, tickets[slot as usize]) {
                    order.compact_level(level, |slot, ticket| tickets[slot as usize] = ticket);
                }
            }
            if time % 500 == 0 && !naive.0.is_empty() {
                order.check().unwrap();
                let sorted = naive.slots_last_evicted_first();
                assert_eq!(order.slots_last_evicted_first().collect::<Vec<_>>(), sorted);
                assert_eq!(order.first_to_evict().map(|(_, slot)| slot), sorted.last().copied());
                assert!(order.slots_in_eviction_order().eq(sorted.iter().rev().copied()));
                for (before, &slot) in (1..).zip(&sorted) {
                    let level = naive.0.iter().find(|entry| entry.2 == slot).unwrap().0;
                    assert_eq!(order.rank_from_best(level, tickets[slot as usize]), before);
                }
            }
        }
        assert!(naive.0.len() > 3 * EVICTION_LOG_SECTION_POSITIONS, "the queues must span several chunks");
    }

    #[test]
    fn one_old_entry_does_not_keep_a_long_eviction_log_in_memory() {
        let mut order = EvictionOrder::new();
        let mut tickets = vec![0; 100_000];
        tickets[0] = order.push(5, 0);
        for slot in 1..100_000u32 {
            tickets[slot as usize] = order.push(5, slot);
            if order.remove(5, tickets[slot as usize]) {
                order.compact_level(5, |slot, ticket| tickets[slot as usize] = ticket);
            }
        }
        assert!(order.level_queues[5].slot_log.len() <= 4 * (EVICTION_LOG_SECTION_POSITIONS + 1));
        assert_eq!((order.first_to_evict(), order.rank_from_best(5, tickets[0])), (Some((5, 0)), 1));
    }
}
