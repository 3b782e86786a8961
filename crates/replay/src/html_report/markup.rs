//! Functions that build HTML. Parameters are plain texts and are escaped, except parameters called `html`.

/// Returns a text escaped for use between tags and in attributes.
pub fn escape_html(text: &str) -> String {
    let mut html = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => html += "&amp;",
            '<' => html += "&lt;",
            '>' => html += "&gt;",
            '"' => html += "&quot;",
            '\'' => html += "&#39;",
            other => html.push(other),
        }
    }
    html
}

/// Returns the HTML element `name` of the class `class` with `text` as its content.
pub fn html_element(name: &str, class: &str, text: &str) -> String {
    format!("<{name} class=\"{class}\">{}</{name}>\n", escape_html(text))
}

/// Returns an HTML heading. Its lines can break after commas, because the text may be the long specification of a
/// generator.
pub fn html_heading(text: &str) -> String {
    format!("<h2>{}</h2>\n", escape_html(text).replace(',', ",<wbr>"))
}

/// Returns a collapsible part of an HTML page that is closed at first.
pub fn collapsible_html(summary: &str, html: &str) -> String {
    format!("<details><summary>{}</summary>\n{html}</details>\n", escape_html(summary))
}

/// Title of a table column that shows ratios, which gets a style of its own.
const RATIO_TITLE: &str = "ratio";

/// Returns an HTML table whose first row and first column are titles. Leading blanks of a row's title are its depth of
/// indentation.
pub(super) fn html_table(class: &str, caption: &str, rows: &[Vec<String>]) -> String {
    html_table_with_row_classes(class, caption, rows, |_| "")
}

/// Returns an HTML table. `class_of` returns the HTML attribute that sets the class of a row, or an empty text.
fn html_table_with_row_classes(
    class: &str,
    caption: &str,
    rows: &[Vec<String>],
    class_of: impl Fn(&[String]) -> &'static str,
) -> String {
    let Some((head, body)) = rows.split_first() else { return String::new() };
    let classes: Vec<&str> =
        head.iter().map(|title| if title == RATIO_TITLE { " class=\"ratio\"" } else { "" }).collect();
    let title =
        |(title, class): (&String, &&str)| format!("<th scope=\"col\"{class}>{}</th>", escape_html(title));
    let titles: String = head.iter().zip(&classes).map(title).collect();
    let lines: String = body.iter().map(|row| html_table_row(row, &classes, class_of(row))).collect();
    format!(
        "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"{caption}\"><table class=\"{class}\"><caption>{caption}</caption>\
         <thead><tr>{titles}</tr></thead>\n<tbody>\n{lines}</tbody></table></div>\n",
        caption = escape_html(caption)
    )
}

/// Returns an HTML table as [`html_table`] does, with a switch that hides the rows whose last cell is
/// `hideable_last_cell`.
pub(super) fn filterable_html_table(
    class: &str,
    caption: &str,
    rows: &[Vec<String>],
    hideable_last_cell: &str,
) -> String {
    let class_of = |row: &[String]| {
        if row.last().is_some_and(|last| last == hideable_last_cell) { " class=\"common\"" } else { "" }
    };
    let table = html_table_with_row_classes(class, caption, rows, class_of);
    format!(
        "<div class=\"filtered\"><label><input type=\"checkbox\"> without rows that are {}</label>\n{table}</div>\n",
        escape_html(hideable_last_cell)
    )
}

/// Returns an HTML table row: its first cell is the title, and each other cell gets the class of its column from
/// `classes`. Dotted field names in the title can break after a dot.
fn html_table_row(row: &[String], classes: &[&str], class: &str) -> String {
    let Some((title, cells)) = row.split_first() else { return String::new() };
    let depth = (title.len() - title.trim_start().len()) / 2;
    let blank = classes.len().saturating_sub(row.len());
    let cell = |(cell, class): (&String, &&str)| format!("<td{class}>{}</td>", escape_html(cell));
    let cells: String = cells.iter().zip(&classes[1..]).map(cell).collect();
    format!(
        "<tr{class}><th scope=\"row\" class=\"in{depth}\">{}</th>{cells}{}</tr>\n",
        escape_html(title.trim_start()).replace('.', ".<wbr>"),
        "<td></td>".repeat(blank)
    )
}

/// Returns an HTML list of `sentences` (notes that a reader of the figures must know) below a title; empty without
/// sentences.
pub fn html_notes_list<'a>(title: &str, sentences: impl IntoIterator<Item = &'a str>) -> String {
    let items: Vec<String> =
        sentences.into_iter().map(|sentence| format!("<li>{}</li>", escape_html(sentence))).collect();
    if items.is_empty() {
        return String::new();
    }
    let (title, items) = (escape_html(title), items.join("\n"));
    format!("<div class=\"notes\" role=\"note\"><strong>{title}</strong><ul>\n{items}\n</ul></div>\n")
}

/// Returns the HTML element into which the page's scripts draw the charts of the runs with these numbers.
pub(super) fn charts_element_of_runs(numbers: impl IntoIterator<Item = usize>) -> String {
    let numbers: Vec<String> = numbers.into_iter().map(|number| number.to_string()).collect();
    format!("<div class=\"charts\" data-runs=\"{}\"></div>\n", numbers.join(" "))
}

/// Returns the HTML element into which the page's scripts draw the charts of one record.
pub fn charts_element(number: usize) -> String {
    format!("<div class=\"charts\" data-number=\"{number}\"></div>\n")
}
