//! Notes below a table of several runs. Many runs have the same note, or one that differs in a number; each sentence is
//! printed once, so that the notes of an ablation with 16 runs can be read.

use crate::record::RunRecord;

/// Beginning of the note on a run in which requests came faster than the drive could answer them.
pub(crate) const OVERLOAD_NOTE_START: &str = "overload";

/// Returns the notes of all runs, each once. Notes that differ in one number are joined: the range of the numbers stands
/// for it. Notes that differ in more begin with the label of their run, and so does the note on an overload, because
/// only some of the designs may be overloaded.
pub(crate) fn distinct_notes(labelled: &[(String, &RunRecord)]) -> Vec<String> {
    let mut groups: Vec<Vec<(&str, &str)>> = Vec::new();
    for (label, run) in labelled {
        for note in &run.notes {
            let has_these_words = |group: &&mut Vec<(&str, &str)>| words_of(group[0].1).eq(words_of(note));
            match groups.iter_mut().find(has_these_words) {
                Some(group) => group.push((label, note)),
                None => groups.push(vec![(label, note)]),
            }
        }
    }
    groups.iter().flat_map(|group| joined_notes(group, labelled.len() > 1)).collect()
}

/// Joins notes of equal words, each with the label of its run; labels are shown only among `several_runs`.
fn joined_notes(notes: &[(&str, &str)], several_runs: bool) -> Vec<String> {
    let (_, first) = notes[0];
    let parts: Vec<Vec<&str>> = notes.iter().map(|(_, note)| words_and_numbers(note).collect()).collect();
    let differing = (0..parts[0].len()).filter(|&at| parts.iter().any(|part| part[at] != parts[0][at]));
    match differing.collect::<Vec<_>>()[..] {
        _ if first.starts_with(OVERLOAD_NOTE_START) && several_runs => labelled_notes(notes),
        [] => vec![first.to_owned()],
        [at] => {
            let value = |number: &&str| number.replace(',', "").parse::<f64>().unwrap_or(f64::NAN);
            let mut numbers: Vec<&str> = parts.iter().map(|part| part[at]).collect();
            numbers.sort_by(|a, b| value(a).total_cmp(&value(b)));
            let range = format!("{} to {}", numbers[0], numbers[numbers.len() - 1]);
            let part = |(k, text): (usize, &&str)| if k == at { range.clone() } else { (*text).to_owned() };
            vec![parts[0].iter().enumerate().map(part).collect()]
        }
        _ => labelled_notes(notes),
    }
}

/// Returns each note with the label of its run before it.
fn labelled_notes(notes: &[(&str, &str)]) -> Vec<String> {
    notes.iter().map(|(label, note)| format!("{label}: {note}")).collect()
}

/// Returns the parts of a note with an empty text for each number.
fn words_of(note: &str) -> impl Iterator<Item = &str> {
    let is_number = |part: &str| part.starts_with(|first: char| first.is_ascii_digit());
    words_and_numbers(note).map(move |part| if is_number(part) { "" } else { part })
}

/// Cuts a note into numbers and what is between them. A comma or point within a number belongs to it.
fn words_and_numbers(note: &str) -> impl Iterator<Item = &str> {
    let is_digit = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_digit);
    let bytes = note.as_bytes();
    let is_in_number = move |at: usize| {
        is_digit(bytes.get(at))
            || (matches!(bytes.get(at), Some(b',' | b'.'))
                && at > 0
                && is_digit(bytes.get(at - 1))
                && is_digit(bytes.get(at + 1)))
    };
    let mut rest = 0;
    std::iter::from_fn(move || {
        let start = rest;
        let kind = is_in_number(start);
        rest = (start..bytes.len()).find(|&at| is_in_number(at) != kind).unwrap_or(bytes.len());
        (start < bytes.len()).then(|| &note[start..rest])
    })
}

#[cfg(test)]
mod tests {
    use super::{joined_notes, words_and_numbers, words_of};

    #[test]
    fn notes_that_differ_in_one_number_are_joined_to_a_range() {
        let notes =
            [("a", "pages lost: 1,200; of 7"), ("b", "pages lost: 30; of 7"), ("c", "pages lost: 400; of 7")];
        assert!(notes.iter().all(|(_, note)| words_of(note).eq(words_of(notes[0].1))));
        assert_eq!(joined_notes(&notes, true), ["pages lost: 30 to 1,200; of 7"]);
        assert_eq!(joined_notes(&[notes[0], ("d", notes[0].1)], true), [notes[0].1]);
        let more = [notes[0], ("e", "pages lost: 30; of 8")];
        assert_eq!(joined_notes(&more, true), ["a: pages lost: 1,200; of 7", "e: pages lost: 30; of 8"]);
        assert!(!words_of("pages lost: 3").eq(words_of("pages lost: ")));
    }

    #[test]
    fn a_note_is_cut_at_its_numbers() {
        let parts: Vec<&str> = words_and_numbers("2 of 1,250.5 s, 7.").collect();
        assert_eq!(parts, ["2", " of ", "1,250.5", " s, ", "7", "."]);
        assert_eq!(words_and_numbers("").count(), 0);
    }
}
