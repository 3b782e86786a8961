//! Phrases of which the sentences about a step are made: counts with nouns, and lists.

/// Largest number of page or block numbers that a sentence lists.
const LISTED_NUMBERS_MAX: usize = 10;

/// Returns a count with its noun, in the plural unless the count is 1.
pub(super) fn with_plural(count: u64, noun: &str) -> String {
    match (count, noun.strip_suffix('y')) {
        (1, _) => format!("1 {noun}"),
        (_, Some(stem)) if !noun.ends_with("ay") => format!("{count} {stem}ies"),
        _ => format!("{count} {noun}s"),
    }
}

/// Joins texts with commas and "and", for a sentence.
pub(super) fn joined_list(texts: &[String]) -> String {
    match texts {
        [] => String::new(),
        [only] => only.clone(),
        [most @ .., last] => format!("{} and {last}", most.join(", ")),
    }
}

/// Returns a noun with numbers, such as "pages 3, 5 and 8"; of a long list, only the first numbers and the count of the
/// others.
pub(super) fn noun_with_numbers(noun: &str, all: &[u32]) -> String {
    let shown: Vec<String> = all.iter().take(LISTED_NUMBERS_MAX).map(u32::to_string).collect();
    let noun = if all.len() == 1 { noun.to_owned() } else { format!("{noun}s") };
    if all.len() > LISTED_NUMBERS_MAX {
        return format!("{noun} {} and {} more", shown.join(", "), all.len() - LISTED_NUMBERS_MAX);
    }
    format!("{noun} {}", joined_list(&shown))
}

/// Returns the phrase "block 3", or "blocks 3 and 4", for a sentence.
pub(super) fn block_list(blocks: &[u32]) -> String {
    noun_with_numbers("block", blocks)
}
