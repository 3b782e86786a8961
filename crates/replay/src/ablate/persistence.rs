//! The note of an ablation in which some subsets of the mechanisms cannot keep the persistence of the design (what
//! preserves acknowledged data over a loss of power).

use wearwell_config::{KeptPersistence, SurvivalName};

use super::{Ablation, SubsetRun};

/// Largest number of subsets whose names a note lists; of more subsets, the note states the number.
const MAX_NAMED_SUBSETS: usize = 4;

impl Ablation {
    /// Returns this ablation with a note if the parts of some subsets cannot be combined with the persistence of the
    /// design. `persistences` has the persistence of each subset; `None` if the design was refused.
    #[must_use]
    pub fn with_note_of_persistence(mut self, persistences: &[Option<KeptPersistence>]) -> Self {
        let accepted: Vec<(&SubsetRun, KeptPersistence)> = self
            .subsets
            .iter()
            .zip(persistences)
            .filter(|(subset, _)| subset.refused.is_none())
            .filter_map(|(subset, kept)| Some((subset, (*kept)?)))
            .collect();
        let note = note_of_persistence(&self.design, &accepted);
        self.notes.extend(note);
        self
    }
}

/// Returns a note on the subsets whose persistence is not that of the design; `None` if there are none.
fn note_of_persistence(design: &str, subsets: &[(&SubsetRun, KeptPersistence)]) -> Option<String> {
    let is_kept = |kept: &KeptPersistence| kept.parts_persistence == kept.design_persistence;
    let names = |wanted: bool| -> Vec<String> {
        let chosen = subsets.iter().filter(|(_, kept)| is_kept(kept) == wanted);
        chosen.map(|(subset, _)| subset.name()).collect()
    };
    let (_, first) = subsets.iter().find(|(_, kept)| !is_kept(kept))?;
    let own = first.design_persistence.name();
    let others = subsets.iter().map(|(_, kept)| *kept).filter(|kept| !is_kept(kept));
    Some(format!(
        "parts.survives={own}, as on {design}, is impossible for {} (instead: {})",
        subset_list(&names(false), &names(true)),
        persistence_list(&others.map(|kept| kept.parts_persistence).collect::<Vec<_>>())
    ))
}

/// Returns a text for the subsets `concerned`: their names, "all subsets but" the names of the `others`, or their
/// number.
fn subset_list(concerned: &[String], others: &[String]) -> String {
    match (concerned.len(), others.len()) {
        (..=MAX_NAMED_SUBSETS, _) => concerned.join(", "),
        (_, 0) => "all subsets".to_owned(),
        (_, ..=MAX_NAMED_SUBSETS) => format!("all subsets but {}", others.join(", ")),
        (count, rest) => format!("{count} of {} subsets", count + rest),
    }
}

/// Returns the names of persistences, each once; if there are several names, each with its number of subsets.
fn persistence_list(persistences: &[SurvivalName]) -> String {
    let mut counts: Vec<(SurvivalName, usize)> = Vec::new();
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
