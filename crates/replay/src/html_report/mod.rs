//! Reports as HTML pages: one file that works offline and contains the record that it shows.
//!
//! Tables and sentences are generated here, from the rows of the terminal's tables, so that page and terminal agree and
//! the page is readable without JavaScript. Charts are drawn in the browser from the embedded record, by the scripts in
//! `script/` and by [uPlot](https://github.com/leeoniya/uPlot) (`uplot-1.6.32/`). The price: 90 KB in each page.
//!
//! Invariant: texts of the record are data and never markup. They are escaped in the markup (`markup.rs`), are JSON
//! without angle brackets in the script element, and are copied from there into text nodes. The page's policy forbids
//! it to load anything.
//!
//! The dashboard of the live device has the same look: the command passes [`style_sheet`] and [`drawing_script`] to its
//! server.

mod ablations;
mod differences;
mod lives;
pub mod markup;
mod profiles;
mod runs;
mod sweep;

use crate::json::ToJson;

/// HTML skeleton of a report page, with placeholders for its title, style, body, record and scripts.
const HTML_PAGE_TEMPLATE: &str = include_str!("page.html");
/// CSS of the report pages.
const HTML_PAGE_STYLE: &str = include_str!("page.css");
/// JavaScript sources of the functions that draw charts and block maps, which pages of all kinds of results use.
const DRAWING_SCRIPTS: [&str; 3] =
    [include_str!("script/base.js"), include_str!("script/chart.js"), include_str!("script/map.js")];
/// JavaScript sources that choose which charts a page shows for its kind of result, and draw them.
const RESULT_CHART_SCRIPTS: [&str; 4] = [
    include_str!("script/runs.js"),
    include_str!("script/others.js"),
    include_str!("script/walkthrough.js"),
    include_str!("script/start.js"),
];
/// JavaScript of the chart library uPlot.
const UPLOT_SCRIPT: &str = include_str!("uplot-1.6.32/uPlot.iife.min.js");
/// CSS of the chart library uPlot.
const UPLOT_STYLE: &str = include_str!("uplot-1.6.32/uPlot.min.css");
/// Licence text of the chart library uPlot, which each page includes.
const UPLOT_LICENCE: &str = include_str!("uplot-1.6.32/LICENSE");
/// HTML tags before and after the JSON record in a page.
const RECORD_TAGS: [&str; 2] = ["<script type=\"application/json\" id=\"record\">", "</script>"];

/// A result that can be shown as an HTML page.
pub trait HtmlReport: ToJson {
    /// Returns the name of the kind of result, by which the HTML page selects the scripts that draw its charts.
    fn result_kind(&self) -> &'static str;

    /// Returns the heading of the HTML page, which states what was run.
    fn title(&self) -> String;

    /// Returns the body of the page as HTML: first the main figures, then the details. The page's scripts draw charts
    /// into its elements of the class `charts`.
    fn body_html(&self) -> String;
}

/// Returns the HTML page of a result.
pub fn html_page(result: &dyn HtmlReport) -> String {
    let json = result.to_json();
    let scripts = [DRAWING_SCRIPTS.concat(), RESULT_CHART_SCRIPTS.concat()].concat();
    let title = markup::escape_html(&result.title());
    fill_template(
        HTML_PAGE_TEMPLATE,
        &[
            ("version", env!("CARGO_PKG_VERSION")),
            ("title", &title),
            ("kind", result.result_kind()),
            ("uplot.css", UPLOT_STYLE),
            ("page.css", HTML_PAGE_STYLE),
            ("sections", &result.body_html()),
            ("record", &escape_json_for_html(&json)),
            ("uplot.licence", UPLOT_LICENCE),
            ("uplot.js", UPLOT_SCRIPT),
            ("page.js", &scripts),
        ],
    )
}

/// Returns the style sheet of the HTML pages, for other pages that look like them.
pub fn style_sheet() -> String {
    [UPLOT_STYLE, "\n", HTML_PAGE_STYLE].concat()
}

/// Returns the JavaScript functions and classes that create elements, charts and block maps, so that other pages can
/// draw them like the HTML pages of results.
pub fn drawing_script() -> String {
    format!(
        "{}\n/* uPlot, which draws the charts:\n{UPLOT_LICENCE}*/\n{UPLOT_SCRIPT}\n",
        DRAWING_SCRIPTS.concat()
    )
}

/// Returns the tables and notes of a result as HTML, without charts, style and script, for embedding in another page.
pub fn tables_html(result: &dyn HtmlReport) -> String {
    result.body_html()
}

/// Returns the JSON of the record that an HTML page contains; `None` if the text is not such a page.
pub fn embedded_record(page: &str) -> Option<&str> {
    let [before, after] = RECORD_TAGS;
    let (_, rest) = page.split_once(before)?;
    rest.split_once(after).map(|(json, _)| json)
}

/// Returns `json` with angle brackets, ampersands and line separators escaped. The escaped JSON has an unchanged
/// meaning, but no character can end the HTML script element or begin another.
fn escape_json_for_html(json: &str) -> String {
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

/// Returns the HTML template with the value of each `{{name}}` inserted; names inside values are not replaced.
fn fill_template(template: &str, values: &[(&str, &str)]) -> String {
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
    fn placeholders_inside_embedded_values_are_not_replaced() {
        assert_eq!(fill_template("a {{b}} c {{d}}", &[("b", "{{d}}"), ("d", "x")]), "a {{d}} c x");
    }

    #[test]
    fn json_escaped_for_html_parses_to_the_same_json() {
        let value = serde_json::json!({ "a": "</script><!-- & \u{2028}\u{2029} ü" });
        let text = escape_json_for_html(&value.to_string());
        assert!(!text.contains(['<', '>', '&', '\u{2028}', '\u{2029}']), "{text}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&text).unwrap(), value);
    }
}
