//! Deletion from a hash table with linear probing, without marks of deleted entries (Knuth, algorithm 6.4R): the entries
//! after the gap move into it, unless a search would no longer find them.

/// Returns whether the entry at position `at` may move to `gap`, an empty position before it in the same run of occupied
/// positions: whether a search for the entry, which begins at position `home`, passes the gap. The positions of the
/// table form a ring.
#[inline]
pub(crate) fn does_search_pass_gap(home: usize, gap: usize, at: usize) -> bool {
    if gap < at { home <= gap || at < home } else { at < home && home <= gap }
}

#[cfg(test)]
mod tests {
    use super::does_search_pass_gap;

    #[test]
    fn a_search_passes_the_gap_if_it_comes_to_it_before_the_entry() {
        for positions in 2..6 {
            for code in 0..positions * positions * positions {
                let [home, gap, at] =
                    [1, positions, positions * positions].map(|unit| code / unit % positions);
                let first = (home..home + positions)
                    .map(|step| step % positions)
                    .find(|&position| [gap, at].contains(&position));
                if gap != at {
                    assert_eq!(
                        does_search_pass_gap(home, gap, at),
                        first == Some(gap),
                        "{home}, {gap}, {at}"
                    );
                }
            }
        }
    }
}
