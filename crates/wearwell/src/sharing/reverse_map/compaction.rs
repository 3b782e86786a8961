//! Compaction of a reverse map: which of its entries must be kept.
//!
//! Only the engine has the mapping, so it decides which entries are still *needed* ([`LivenessOf`]); reverse maps call
//! it when they compact. An entry has two meanings, a mapping and a tombstone, which end at different times. So the
//! answer is not yes or no: of a relocation whose mapping ended, the tombstone of its source is kept. The price for a
//! reverse map that cannot remove entries exactly: superseded entries occupy space until it compacts.

use hashbrown::HashMap;
use rustc_hash::FxBuildHasher;

use super::entry::ReverseMapEntry;
use crate::address::{Lpn, Ppn};

/// Which meanings of a reverse-map entry still hold: its mapping of a logical page to a stored page, and its tombstone
/// (record of a trim or relocation). The engine decides this from the L2P map.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EntryLiveness {
    /// Whether the mapping that the reverse-map entry records still holds: the logical page is mapped to the physical
    /// page that the entry names.
    pub is_mapping_live: bool,
    /// Whether the entry's tombstone (record of a trim or relocation) is still needed: the logical page is still
    /// unmapped, and flash may hold an older page or entry that recovery would map it to.
    pub is_tombstone_needed: bool,
}

impl EntryLiveness {
    /// Returns what must be kept of a reverse-map entry. This is the whole entry while its mapping holds, or if it is a
    /// tombstone that is needed. If only the tombstone of a relocation is needed, it is a tombstone for the source, the
    /// logical page that was unmapped by the relocation. `None` if nothing is needed.
    pub fn live_part_of(self, entry: ReverseMapEntry) -> Option<ReverseMapEntry> {
        match (self.is_mapping_live, self.is_tombstone_needed) {
            (true, _) => Some(entry),
            (false, true) if entry.mapped_ppn.is_none() => Some(entry),
            (false, true) => entry.relocation_source_or_range_end.map(|lpn| ReverseMapEntry {
                lpn,
                mapped_ppn: None,
                relocation_source_or_range_end: None,
                ..entry
            }),
            (false, false) => None,
        }
    }
}

/// Callback by which the engine decides which meanings of a reverse-map entry (mapping, tombstone) still hold. A
/// reverse map calls it when it compacts its entries.
pub type LivenessOf<'a> = &'a dyn Fn(&ReverseMapEntry) -> EntryLiveness;

/// Returns for each of the reverse-map `entries` what compaction must keep of it; `None` for nothing. Of several
/// entries that map one logical page to the same physical page, or several tombstones of one range, only the newest is
/// kept. An older relocation may still be kept as the tombstone of its source.
pub(super) fn entries_to_keep(
    entries: &[ReverseMapEntry],
    liveness_of: LivenessOf<'_>,
) -> Vec<Option<ReverseMapEntry>> {
    let mut newest: HashMap<(Lpn, Option<Ppn>), u64, FxBuildHasher> = HashMap::default();
    for entry in entries {
        let sequence = newest.entry((entry.lpn, entry.mapped_ppn)).or_default();
        *sequence = entry.sequence_number.max(*sequence);
    }
    let rest = |entry: &ReverseMapEntry| {
        let need = liveness_of(entry);
        let bind = need.is_mapping_live && newest[&(entry.lpn, entry.mapped_ppn)] == entry.sequence_number;
        EntryLiveness { is_mapping_live: bind, ..need }.live_part_of(*entry)
    };
    let mut rests: Vec<Option<ReverseMapEntry>> = entries.iter().map(rest).collect();
    let mut kept: HashMap<(Lpn, Option<Ppn>, Option<Lpn>), usize, FxBuildHasher> = HashMap::default();
    for at in 0..rests.len() {
        let Some(entry) = rests[at] else { continue };
        let known =
            *kept.entry((entry.lpn, entry.mapped_ppn, entry.relocation_source_or_range_end)).or_insert(at);
        if known == at {
            continue;
        }
        let newer = rests[known].is_some_and(|known| known.sequence_number < entry.sequence_number);
        let (dropped, keeper) = if newer { (known, at) } else { (at, known) };
        rests[dropped] = None;
        kept.insert((entry.lpn, entry.mapped_ppn, entry.relocation_source_or_range_end), keeper);
    }
    rests
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression: compaction dropped the tombstone of a range in favour of a newer tombstone of the range's first
    /// page, and the next recovery mapped the rest of the range again. Found by a crash of the server machine under an
    /// image of design `remap`.
    #[test]
    fn the_tombstone_of_a_trimmed_range_outlives_a_newer_one_of_its_first_page() {
        let tombstone = |last: Option<u32>, sequence| ReverseMapEntry {
            lpn: Lpn(139),
            mapped_ppn: None,
            relocation_source_or_range_end: last.map(Lpn),
            sequence_number: sequence,
        };
        let needed =
            |_: &ReverseMapEntry| EntryLiveness { is_mapping_live: false, is_tombstone_needed: true };
        let range = tombstone(Some(141), 1);
        let [first, again] = [tombstone(None, 2), tombstone(None, 3)];
        let kept = entries_to_keep(&[range, first, again], &needed);
        assert_eq!(kept, [Some(range), None, Some(again)]);
    }

    /// Of several entries that map one logical page to the same physical page, compaction keeps the newest. An older
    /// entry that also unmapped another logical page (relocation) is kept as a tombstone of that page.
    #[test]
    fn of_equal_entries_compaction_keeps_the_newest_and_turns_an_older_relocation_into_a_tombstone() {
        let entry = |sequence, source: Option<u32>| ReverseMapEntry {
            lpn: Lpn(1),
            mapped_ppn: Some(Ppn(2)),
            relocation_source_or_range_end: source.map(Lpn),
            sequence_number: sequence,
        };
        let entries = [entry(2, Some(7)), entry(3, Some(8)), entry(3, Some(8)), entry(1, None)];
        let need = |entry: &ReverseMapEntry| EntryLiveness {
            is_mapping_live: true,
            is_tombstone_needed: entry.relocation_source_or_range_end.is_some(),
        };
        let tombstone = ReverseMapEntry {
            lpn: Lpn(7),
            mapped_ppn: None,
            relocation_source_or_range_end: None,
            sequence_number: 2,
        };
        let kept = entries_to_keep(&entries, &need);
        assert_eq!(kept, [Some(tombstone), Some(entry(3, Some(8))), None, None]);
    }
}
