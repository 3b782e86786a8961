//! Prints a profile as text, at most 80 columns wide; only the specification lines to copy may be longer.

use std::fmt::Write as _;

use wearwell_config::ContentMechanismName;

use super::distribution::SizeShares;
use super::{Profile, Saving};
use crate::report::with_thousands_separators;

/// Width of the text table, in columns of one character.
const LINE_WIDTH_CHARS: usize = 80;

impl Profile {
    /// Returns the profile as a table of text.
    pub fn to_table(&self) -> String {
        let mut text =
            format!("{}{}\n", self.input, if self.partial { "  PARTIAL: not seen to its end" } else { "" });
        for (name, value) in self.figure_rows() {
            let _ = writeln!(text, "  {name:38} {value}");
        }
        for row in self.savings_rows() {
            let _ = writeln!(text, "  {}", savings_line(&row).trim_end());
        }
        for note in &self.notes {
            append_wrapped(&mut text, "  note: ", note);
        }
        for (flag, line) in [("--content", &self.content_line), ("--workload", &self.workload_line)] {
            if let Some(line) = line {
                let _ = writeln!(text, "{flag} '{line}'");
            }
        }
        text
    }

    /// Returns names and values of the figures that the profiled input has.
    pub(crate) fn figure_rows(&self) -> Vec<(String, String)> {
        let mut rows = Vec::new();
        self.append_traffic_rows(&mut rows);
        self.append_rewrite_rows(&mut rows);
        self.append_content_rows(&mut rows);
        rows
    }

    /// Returns the table of what each content mechanism could save at most and, if it was run, what it saves; empty if
    /// no content is known.
    pub(crate) fn savings_rows(&self) -> Vec<Vec<String>> {
        if self.savings.is_empty() {
            return Vec::new();
        }
        let mut titles = vec!["each mechanism alone saves", "at most"];
        if self.runs.is_some() {
            titles.extend(["when run", "programs", "erases"]);
        }
        let head = titles.into_iter().map(str::to_owned).collect();
        std::iter::once(head).chain(self.savings.iter().map(|saving| self.savings_row(saving))).collect()
    }

    /// Returns the row of one content mechanism in the table of savings: its bound, and what it saved when run.
    fn savings_row(&self, saving: &Saving) -> Vec<String> {
        let or_dash = |share: Option<f64>| share.map_or_else(|| "-".to_owned(), percent_text);
        let at_most = saving.at_most.map(|share| percent_with_error(share, saving.at_most_error));
        let mut row = vec![mechanism_title(saving.mechanism), at_most.unwrap_or_else(|| "-".to_owned())];
        if self.runs.is_some() {
            let run = saving.when_run;
            row.extend([
                or_dash(run.map(|run| run.page_writes)),
                or_dash(run.map(|run| run.programs)),
                or_dash(run.and_then(|run| run.erases)),
            ]);
        }
        row
    }

    /// Appends names and values of the figures on requests to `rows`.
    fn append_traffic_rows(&self, rows: &mut Vec<(String, String)>) {
        let Some(traffic) = &self.traffic else { return };
        let mut row = |name: &str, value: String| rows.push((name.to_owned(), value));
        row("requests", format_count(traffic.requests));
        row("reads among reads and writes", percent_text(traffic.read_share));
        row(
            "trims / flushes",
            format!("{} / {}", percent_text(traffic.trim_share), format_count(traffic.flushes)),
        );
        if traffic.pages_trimmed > 0 {
            row("pages trimmed", format_count(traffic.pages_trimmed));
        }
        for (name, requests, pages) in [
            ("remaps / pages remapped", traffic.remaps, traffic.pages_remapped),
            ("writes of zeroes / pages zeroed", traffic.zeroes, traffic.pages_zeroed),
        ] {
            if requests > 0 {
                row(name, format!("{} / {}", format_count(requests), format_count(pages)));
            }
        }
        if traffic.phase_markers > 0 {
            row("phase markers", format_count(traffic.phase_markers));
        }
        row(
            "written / read, MiB",
            format!("{} / {}", format_mib(traffic.bytes_written), format_mib(traffic.bytes_read)),
        );
        row(
            "mean write / read, KiB",
            format!("{:.1} / {:.1}", traffic.write_mean_bytes / 1024.0, traffic.read_mean_bytes / 1024.0),
        );
        let sizes: Vec<String> = traffic
            .sizes
            .iter()
            .take(3)
            .map(|size| format!("{}: {:.0} %", size.pages, size.share * 100.0))
            .collect();
        row("commonest sizes, pages of 4 KiB", sizes.join(", "));
        row("reads and writes of parts of pages", percent_text(traffic.partial_share));
        if traffic.empty_requests > 0 {
            row("reads and writes without length", format_count(traffic.empty_requests));
        }
        row(
            "sequential writes / reads",
            format!(
                "{} / {}",
                percent_text(traffic.sequential_write_share),
                percent_text(traffic.sequential_read_share)
            ),
        );
        row(
            "pages touched / written (footprint)",
            format!("{} / {}", format_count(traffic.footprint_pages), format_count(traffic.written_pages)),
        );
        row("duration, s", with_thousands_separators(traffic.duration_s, 3));
    }

    /// Appends names and values of the figures on rewrites and skew to `rows`.
    fn append_rewrite_rows(&self, rows: &mut Vec<(String, String)>) {
        let mut row = |name: &str, value: String| rows.push((name.to_owned(), value));
        if let Some(rewrites) = &self.rewrites {
            row(
                "page writes that rewrite",
                percent_with_error(rewrites.rewrite_share, rewrites.rewrite_share_error),
            );
            row("pages written once", percent_with_error(rewrites.once_share, rewrites.once_share_error));
            let quantiles = [
                rewrites.interval_p25_pages,
                rewrites.interval_p50_pages,
                rewrites.interval_p75_pages,
                rewrites.interval_p99_pages,
            ];
            let shown: Vec<String> =
                quantiles.iter().flatten().map(|pages| with_thousands_separators(*pages, 0)).collect();
            if !shown.is_empty() {
                row("again after, pages: 25/50/75/99 %", shown.join(" / "));
            }
            if let Some(seconds) = rewrites.interval_p50_s {
                row("again after, s: median", with_thousands_separators(seconds, 3));
            }
        }
        if let Some(skew) = &self.skew {
            row(
                "writes to the hottest 1 / 10 / 20 %",
                format!(
                    "{} / {} / {}",
                    percent_text(skew.top_1_percent),
                    percent_text(skew.top_10_percent),
                    percent_with_error(skew.top_20_percent, skew.top_20_percent_error)
                ),
            );
            row(
                "zipf exponent (shares differ by)",
                format!("{:.2} (at most {:.1} points)", skew.zipf_theta, skew.zipf_misfit * 100.0),
            );
        }
    }

    /// Appends names and values of the figures on contents and deltas to `rows`.
    fn append_content_rows(&self, rows: &mut Vec<(String, String)>) {
        let mut row = |name: &str, value: String| rows.push((name.to_owned(), value));
        if let Some(content) = &self.content {
            row("pages with known content", format_count(content.pages));
            row("zero pages", percent_text(content.zero_share));
            row(
                "duplicates (zero pages apart)",
                percent_with_error(content.duplicate_share, content.duplicate_share_error),
            );
            row("distinct contents", format_count(content.distinct));
            if let Some(sizes) = &content.compressed {
                row(
                    "compressed size / page (LZ4), mean",
                    percent_with_error(sizes.mean, content.compressed_mean_error),
                );
                add_size_rows(sizes, &mut row);
            }
            if let Some(mean) = content.compressed_distinct_mean {
                row("  the same, each content once", percent_text(mean));
            }
        }
        if let Some(share) = self.unchanged_share {
            row("new versions that change nothing", percent_text(share));
        }
        if let Some(delta) = &self.delta {
            row("difference / page (XOR, LZ4), mean", percent_text(delta.mean));
            add_size_rows(delta, &mut row);
        }
    }
}

/// Returns a row of the table of savings as a line of text: the title on the left, the figures aligned to the right.
fn savings_line(row: &[String]) -> String {
    let (title, figures) = row.split_first().expect("a row has a title");
    figures.iter().fold(format!("{title:26}"), |line, figure| format!("{line} {figure:>11}"))
}

/// Returns the title of a content mechanism in the table of savings, such as "deduplication".
fn mechanism_title(mechanism: ContentMechanismName) -> String {
    let title = match mechanism {
        ContentMechanismName::RECYCLE => "recycling of dead pages",
        ContentMechanismName::Remap => "remap commands",
        ContentMechanismName::DEDUP => "deduplication",
        ContentMechanismName::DELTA => "delta encoding",
        ContentMechanismName::COMPRESS => "compression",
        ContentMechanismName::Mechanism(other) => other.name(),
    };
    format!("  {title}")
}

/// Appends quantiles and incompressible share of a size distribution to the table.
fn add_size_rows(sizes: &SizeShares, row: &mut impl FnMut(&str, String)) {
    row(
        "  10 / 50 / 90 % of pages at most",
        format!("{} / {} / {}", percent_text(sizes.p10), percent_text(sizes.p50), percent_text(sizes.p90)),
    );
    row("  pages that stay whole", percent_text(sizes.incompressible_share));
}

/// Returns a share as text with the sign `%`.
fn percent_text(share: f64) -> String {
    format!("{:.2} %", share * 100.0)
}

/// Returns a share in percent as text, with its standard error if that is more than 0.
fn percent_with_error(share: f64, error: f64) -> String {
    if error > 0.0 { format!("{:.2} ± {:.2} %", share * 100.0, error * 100.0) } else { percent_text(share) }
}

/// Returns a whole number as text with thousands separators.
fn format_count(n: u64) -> String {
    with_thousands_separators(n as f64, 0)
}

/// Returns `bytes` in MiB as text.
fn format_mib(bytes: u64) -> String {
    with_thousands_separators(bytes as f64 / 1_048_576.0, 1)
}

/// Appends `sentence` to `text`, broken at blanks into lines of at most 80 columns. The first line begins with `first`;
/// further lines are indented by the width of `first`.
fn append_wrapped(text: &mut String, first: &str, sentence: &str) {
    let mut line = first.to_owned();
    for word in sentence.split(' ') {
        if line.trim_end().chars().count() + 1 + word.chars().count() > LINE_WIDTH_CHARS {
            let _ = writeln!(text, "{}", line.trim_end());
            line = " ".repeat(first.chars().count());
        }
        line.push_str(word);
        line.push(' ');
    }
    let _ = writeln!(text, "{}", line.trim_end());
}
