//! Completion times of unfinished requests in the timeline engine: the earliest are sorted, the others are not.
//!
//! A driver with hundreds of requests in flight queries the earliest completion for every request, and inserts one that
//! is later than most. A heap needs a number of steps in proportion to its depth for both, and each step is a branch
//! that is mispredicted every second time. Here a new time is appended to an unsorted list. When the sorted times are
//! used up, the next ones are selected from that list by a partition without branches. The price is an occasional
//! selection, and a shift of the sorted times if a request overtakes many.
//!
//! Invariant: no time in the unsorted list is before one in the sorted list.

/// Minimum number of completion times that one refill moves from the unsorted to the sorted list (all of them, if there
/// are fewer).
const MIN_COMPLETIONS_PER_SORTED_LIST_REFILL: usize = 64;

/// Completion times of unfinished requests. Only the earliest times are kept sorted.
#[derive(Clone, Default, Debug)]
pub(super) struct UnfinishedRequests {
    /// The earliest completion times of unfinished requests, sorted in descending order.
    sorted_earliest_completions_ns: Vec<u64>,
    /// The other completion times of unfinished requests, unsorted; none is before one of the sorted times.
    unsorted_remaining_completions_ns: Vec<u64>,
}

impl UnfinishedRequests {
    /// Returns the number of unfinished requests.
    pub(super) fn len(&self) -> usize {
        self.sorted_earliest_completions_ns.len() + self.unsorted_remaining_completions_ns.len()
    }

    /// Removes all completion times.
    pub(super) fn clear(&mut self) {
        self.sorted_earliest_completions_ns.clear();
        self.unsorted_remaining_completions_ns.clear();
    }

    /// Adds the completion time of an unfinished request, nanoseconds.
    #[inline]
    pub(super) fn push_completion(&mut self, completed_at_ns: u64) {
        match self.sorted_earliest_completions_ns.first() {
            Some(&latest) if completed_at_ns < latest => {
                let later =
                    self.sorted_earliest_completions_ns.partition_point(|&other| other > completed_at_ns);
                self.sorted_earliest_completions_ns.insert(later, completed_at_ns);
            }
            _ => self.unsorted_remaining_completions_ns.push(completed_at_ns),
        }
    }

    /// Returns the earliest completion time of an unfinished request; `None` if there is none.
    #[inline]
    pub(super) fn earliest_completion_ns(&mut self) -> Option<u64> {
        if self.sorted_earliest_completions_ns.is_empty() {
            self.refill_sorted_completions();
        }
        self.sorted_earliest_completions_ns.last().copied()
    }

    /// Removes and returns the earliest completion time of an unfinished request, if it is not later than `to_ns`; both
    /// are simulated times, nanoseconds.
    #[inline]
    pub(super) fn pop_completion_until(&mut self, to_ns: u64) -> Option<u64> {
        let first = self.earliest_completion_ns().filter(|&first| first <= to_ns)?;
        self.sorted_earliest_completions_ns.pop();
        Some(first)
    }

    /// Moves the earliest completion times from the unsorted to the sorted list. An eighth of the times is moved, so
    /// that a long list is not scanned too often. It is rare and long; the queries, which are frequent and short, are
    /// inlined without it.
    #[inline(never)]
    fn refill_sorted_completions(&mut self) {
        let count = self.unsorted_remaining_completions_ns.len();
        let stay = count - (count / 8).max(MIN_COMPLETIONS_PER_SORTED_LIST_REFILL).min(count);
        if stay > 0 {
            self.unsorted_remaining_completions_ns.select_nth_unstable_by(stay, |a, b| b.cmp(a));
        }
        self.sorted_earliest_completions_ns.extend(self.unsorted_remaining_completions_ns.drain(stay..));
        self.sorted_earliest_completions_ns.sort_unstable_by(|a, b| b.cmp(a));
    }
}

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng};
    use rand_xoshiro::Xoshiro256PlusPlus;

    use super::UnfinishedRequests;

    #[test]
    fn completion_times_of_unfinished_requests_are_returned_in_order() {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(11);
        for (steps, spread) in [(1_u64, 3_u64), (5, 4_000), (40, 100), (200, 1_000_000)] {
            let (mut times, mut model, mut now) = (UnfinishedRequests::default(), Vec::new(), 0);
            for _ in 0..20_000 {
                let end = now + rng.random_range(1..=spread);
                times.push_completion(end);
                model.push(end);
                if rng.random_bool(0.9) {
                    continue;
                }
                now += rng.random_range(0..steps * 10);
                model.retain(|&end| end > now);
                while times.pop_completion_until(now).is_some() {}
                model.sort_unstable();
                assert_eq!(
                    (times.earliest_completion_ns(), times.len()),
                    (model.first().copied(), model.len())
                );
            }
            model.sort_unstable();
            assert!(model.iter().all(|&end| times.pop_completion_until(end) == Some(end)));
            assert_eq!(times.len(), 0);
        }
    }
}
