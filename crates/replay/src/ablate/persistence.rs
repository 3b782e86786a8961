//! The note of an ablation in which some subsets of the mechanisms cannot keep the persistence of the design (what
//! preserves acknowledged data over a loss of power).

use wearwell_config::{DesignAndPartsPersistence, PersistenceName};

use super::{Ablation, SubsetRun};

/// Largest number of subsets whose names a note lists; of more subsets, the note states the number.
const MAX_NAMED_SUBSETS: usize = 4;

impl Ablation {
    /// Returns this ablation with a note if some subsets were run with another persistence (way to survive a loss of
    /// power) than the design's, because their parts cannot be combined with the design's persistence. `persistences`
    /// has the persistence of each subset; `None` if the design was refused.
    #[must_use]
    pub fn with_note_of_changed_persistence(
        mut self,
        persistences: &[Option<DesignAndPartsPersistence>],
    ) -> Self {
        let accepted: Vec<(&SubsetRun, DesignAndPartsPersistence)> = self
            .subsets
            .iter()
            .zip(persistences)
            .filter(|(subset, _)| subset.refused.is_none())
            .filter_map(|(subset, kept)| Some((subset, (*kept)?)))
            .collect();
        let note = note_of_changed_persistence(&self.design, &accepted);
        self.notes.extend(note);
        self
    }
}

/// Returns a note on the subsets of mechanisms that were run with another persistence (way to survive a loss of power)
/// than the design's; `None` if there are none.
fn note_of_changed_persistence(
    design: &str,
    subsets: &[(&SubsetRun, DesignAndPartsPersistence)],
) -> Option<String> {
    let is_kept = |kept: &DesignAndPartsPersistence| kept.parts_persistence == kept.design_persistence;
    let names = |wanted: bool| -> Vec<String> {
        let chosen = subsets.iter().filter(|(_, kept)| is_kept(kept) == wanted);
        chosen.map(|(subset, _)| subset.name()).collect()
    };
    let (_, first) = subsets.iter().find(|(_, kept)| !is_kept(kept))?;
    let own = first.design_persistence.name();
    let others = subsets.iter().map(|(_, kept)| *kept).filter(|kept| !is_kept(kept));
    Some(format!(
        "parts.survives={own}, as on {design}, is impossible for {} (instead: {})",
        text_listing_subsets(&names(false), &names(true)),
        text_listing_persistences(&others.map(|kept| kept.parts_persistence).collect::<Vec<_>>())
    ))
}

/// Returns a text that names the subsets of mechanisms `concerned`: their names, "all subsets but" the names of the
/// `others` (all remaining subsets), or only their number.
fn text_listing_subsets(concerned: &[String], others: &[String]) -> String {
    match (concerned.len(), others.len()) {
        (..=MAX_NAMED_SUBSETS, _) => concerned.join(", "),
        (_, 0) => "all subsets".to_owned(),
        (_, ..=MAX_NAMED_SUBSETS) => format!("all subsets but {}", others.join(", ")),
        (count, rest) => format!("{count} of {} subsets", count + rest),
    }
}

/// Returns the names of these persistences (ways to survive a loss of power), each once. If there are several, each has
/// the number of mechanism subsets that use it.
fn text_listing_persistences(persistences: &[PersistenceName]) -> String {
    let mut counts: Vec<(PersistenceName, usize)> = Vec::new();
    for &name in persistences {
        match counts.iter_mut().find(|(known, _)| *known == name) {
            Some((_, count)) => *count += 1,
            None => counts.push((name, 1)),
        }
    }
    if let [(only, _)] = counts[..] {
        return only.name();
    }
    let words: Vec<String> =
        counts.iter().map(|(name, count)| format!("{} ({count})", name.name())).collect();
    words.join(" or ")
}
