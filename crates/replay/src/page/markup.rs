//! Pieces of HTML. Every function takes plain texts and escapes them, unless its parameter is called `html`.

/// A text as it stands between tags and in attributes.
pub(super) fn escaped(text: &str) -> String {
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

/// An element of a class that holds a text.
pub(super) fn element(name: &str, class: &str, text: &str) -> String {
    format!("<{name} class=\"{class}\">{}</{name}>\n", escaped(text))
}

/// A heading, which may be the long description of a generator: it breaks behind commas.
pub(super) fn heading(text: &str) -> String {
    format!("<h2>{}</h2>\n", escaped(text).replace(',', ",<wbr>"))
}

/// A part that is closed at first.
pub(super) fn details(summary: &str, html: &str) -> String {
    format!("<details><summary>{}</summary>\n{html}</details>\n", escaped(summary))
}

/// The title of a column that stands behind its figures.
const RATIO: &str = "ratio";

/// A table whose first row and first column are titles, of which blanks in front say how deep they lie.
pub(super) fn table(class: &str, caption: &str, rows: &[Vec<String>]) -> String {
    let Some((head, body)) = rows.split_first() else { return String::new() };
    let classes: Vec<&str> =
        head.iter().map(|title| if title == RATIO { " class=\"ratio\"" } else { "" }).collect();
    let title =
        |(title, class): (&String, &&str)| format!("<th scope=\"col\"{class}>{}</th>", escaped(title));
    let titles: String = head.iter().zip(&classes).map(title).collect();
    let lines: String = body.iter().map(|row| line(row, &classes)).collect();
    format!(
        "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"{caption}\"><table class=\"{class}\"><caption>{caption}</caption>\
         <thead><tr>{titles}</tr></thead>\n<tbody>\n{lines}</tbody></table></div>\n",
        caption = escaped(caption)
    )
}

/// A row whose cells have the classes of their columns. Names of fields break behind their dots.
fn line(row: &[String], classes: &[&str]) -> String {
    let Some((title, cells)) = row.split_first() else { return String::new() };
    let depth = (title.len() - title.trim_start().len()) / 2;
    let blank = classes.len().saturating_sub(row.len());
    let cell = |(cell, class): (&String, &&str)| format!("<td{class}>{}</td>", escaped(cell));
    let cells: String = cells.iter().zip(&classes[1..]).map(cell).collect();
    format!(
        "<tr><th scope=\"row\" class=\"in{depth}\">{}</th>{cells}{}</tr>\n",
        escaped(title.trim_start()).replace('.', ".<wbr>"),
        "<td></td>".repeat(blank)
    )
}

/// Sentences that a reader of the figures must know, below a title; nothing without any.
pub(super) fn notes<'a>(title: &str, sentences: impl IntoIterator<Item = &'a str>) -> String {
    let items: Vec<String> =
        sentences.into_iter().map(|sentence| format!("<li>{}</li>", escaped(sentence))).collect();
    if items.is_empty() {
        return String::new();
    }
    let (title, items) = (escaped(title), items.join("\n"));
    format!("<div class=\"notes\" role=\"note\"><strong>{title}</strong><ul>\n{items}\n</ul></div>\n")
}

/// A place for the charts of the runs with these numbers.
pub(super) fn charts_of_runs(numbers: impl IntoIterator<Item = usize>) -> String {
    let numbers: Vec<String> = numbers.into_iter().map(|number| number.to_string()).collect();
    format!("<div class=\"charts\" data-runs=\"{}\"></div>\n", numbers.join(" "))
}

/// A place for the charts of one record.
pub(super) fn charts_of(number: usize) -> String {
    format!("<div class=\"charts\" data-number=\"{number}\"></div>\n")
}
