//! Formats tables, numbers, and the values of a row (reported result) as Markdown.

use super::target::ReportedResult;
use super::verdict::NamedValue;

/// Returns a Markdown table with these columns and rows.
pub(super) fn markdown_table<const N: usize>(columns: &[&str; N], rows: &[[String; N]]) -> String {
    let line = |cells: &[String]| {
        let cells: Vec<String> = cells.iter().map(|cell| cell.replace('|', "\\|")).collect();
        format!("| {} |\n", cells.join(" | "))
    };
    let mut lines = vec![line(&columns.map(str::to_owned)), format!("|{}\n", "---|".repeat(N))];
    lines.extend(rows.iter().map(|row| line(row)));
    lines.concat()
}

/// Returns Wearwell's values of a row (reported result) as text: first the values with a verdict and those from which
/// the load is generated, then those that are only shown.
pub(super) fn values_text(target: &ReportedResult, values: &[NamedValue]) -> String {
    let unit = if target.unit.is_empty() { String::new() } else { format!(" {}", target.unit) };
    let is_given = |of: &str| target.values.iter().any(|reported| reported.given && reported.of == of);
    let one = |value: &&NamedValue| {
        let given = if is_given(&value.of) { " (given)" } else { "" };
        match value.of.as_str() {
            "" => format!("{}{unit}", format_number(value.value)),
            of => format!("{of} {}{unit}{given}", format_number(value.value)),
        }
    };
    let (beside, judged): (Vec<&NamedValue>, Vec<&NamedValue>) =
        values.iter().partition(|value| target.reason_not_judged(&value.of).is_some());
    let list = |values: &[&NamedValue]| values.iter().map(one).collect::<Vec<_>>().join(", ");
    match (judged.is_empty(), beside.is_empty()) {
        (_, true) => list(&judged),
        (true, false) => format!("beside: {}", list(&beside)),
        (false, false) => format!("{}; beside: {}", list(&judged), list(&beside)),
    }
}

/// Formats a number with four significant digits, without trailing zeroes, for a page of results.
pub(super) fn format_number(value: f64) -> String {
    let decimals = if value == 0.0 { 0.0 } else { (3.0 - value.abs().log10().floor()).clamp(0.0, 6.0) };
    let text = format!("{value:.*}", decimals as usize);
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}
