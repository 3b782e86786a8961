//! Reports that people look at: one HTML file that works offline and holds the record that it shows.
//!
//! Tables and sentences are made here, from the rows of the terminal's tables, so that page and terminal say the same and a page
//! reads without JavaScript. Charts are drawn in the browser from the embedded record by the scripts in `script/` and by
//! [uPlot](https://github.com/leeoniya/uPlot) (`uplot-1.6.32/`). The price: 90 KB in each page.
//!
//! Invariant: a text of the record is data. It comes into the markup escaped (`markup.rs`), into the script element as JSON
//! without angle brackets, and from there into text nodes. The page's policy forbids it to load anything.

mod ablations;
mod differences;
mod lives;
mod markup;
mod profiles;
mod runs;
mod sweep;

use serde::Serialize;

const TEMPLATE: &str = include_str!("page.html");
const STYLE: &str = include_str!("page.css");
const SCRIPTS: [&str; 6] = [
    include_str!("script/base.js"),
    include_str!("script/chart.js"),
    include_str!("script/map.js"),
    include_str!("script/runs.js"),
    include_str!("script/others.js"),
    include_str!("script/start.js"),
];
const UPLOT_SCRIPT: &str = include_str!("uplot-1.6.32/uPlot.iife.min.js");
const UPLOT_STYLE: &str = include_str!("uplot-1.6.32/uPlot.min.css");
const UPLOT_LICENCE: &str = include_str!("uplot-1.6.32/LICENSE");
/// In front of the record of a page, and behind it.
const RECORD_TAGS: [&str; 2] = ["<script type=\"application/json\" id=\"record\">", "</script>"];

/// A result that has a page.
pub trait Report: Serialize {
    /// Which scripts show it.
    const KIND: &'static str;

    /// Heading of the page: what was run.
    fn title(&self) -> String;

    /// The answer, then what it rests on, as HTML. Elements of the class `charts` are filled by the scripts.
    fn sections(&self) -> String;
}

/// The page of a result.
///
/// # Panics
/// Never: results are plain data.
pub fn html<T: Report>(result: &T) -> String {
    let json = serde_json::to_string(result).expect("results are plain data");
    let (title, scripts) = (markup::escaped(&result.title()), SCRIPTS.concat());
    filled(
        TEMPLATE,
        &[
            ("version", env!("CARGO_PKG_VERSION")),
            ("title", &title),
            ("kind", T::KIND),
            ("uplot.css", UPLOT_STYLE),
            ("page.css", STYLE),
            ("sections", &result.sections()),
            ("record", &without_markup(&json)),
            ("uplot.licence", UPLOT_LICENCE),
            ("uplot.js", UPLOT_SCRIPT),
            ("page.js", &scripts),
        ],
    )
}

/// The JSON of the record that a page holds; `None` if the text is no page.
pub fn record_in(page: &str) -> Option<&str> {
    let [before, after] = RECORD_TAGS;
    let (_, rest) = page.split_once(before)?;
    rest.split_once(after).map(|(json, _)| json)
}

/// JSON in which nothing ends a script element or begins another.
fn without_markup(json: &str) -> String {
    let mut text = String::with_capacity(json.len());
    for letter in json.chars() {
        match letter {
            '<' => text += "\\u003c",
            '>' => text += "\\u003e",
            '&' => text += "\\u0026",
            '\u{2028}' => text += "\\u2028",
            '\u{2029}' => text += "\\u2029",
            other => text.push(other),
        }
    }
    text
}

/// The template with a value for each `{{name}}`; values are not searched for names.
fn filled(template: &str, values: &[(&str, &str)]) -> String {
    let mut parts = template.split("{{");
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (name, rest) = part.split_once("}}").expect("a name in the template ends");
        let value = values.iter().find(|(known, _)| *known == name).map(|&(_, value)| value);
        text += value.expect("the template names values that there are");
        text += rest;
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_not_searched_for_names() {
        assert_eq!(filled("a {{b}} c {{d}}", &[("b", "{{d}}"), ("d", "x")]), "a {{d}} c x");
    }

    #[test]
    fn json_without_markup_is_the_same_json() {
        let value = serde_json::json!({ "a": "</script><!-- & \u{2028}\u{2029} ü" });
        let text = without_markup(&value.to_string());
        assert!(!text.contains(['<', '>', '&', '\u{2028}', '\u{2029}']), "{text}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&text).unwrap(), value);
    }
}
