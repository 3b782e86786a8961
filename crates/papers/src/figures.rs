//! Draws figures of the papers again: bars of the reported values next to bars of Wearwell's values.
//!
//! Only values that the text of a paper quotes can be drawn next to Wearwell's; bars that a paper shows without a
//! number are left out. If a range is quoted for several traces, both of its ends are drawn for each trace. Figures of
//! the `GeckoFTL` paper (GK), which claims only their shape, show Wearwell's values alone, with one bar per design or
//! series.
//!
//! The library `kuva` draws the figures, because it renders SVG by itself and has few dependencies. `plotters` compiles
//! faster (1.3 CPU seconds instead of 9.6 without optimisation) with 23 packages instead of 6; the figures need nothing
//! that only one of the two has.

use kuva::backend::svg::SvgBackend;
use kuva::plot::BarPlot;
use kuva::render::layout::Layout;
use kuva::render::plots::Plot;
use kuva::render::render::render_multiple;

use super::results::PaperResults;
use super::target::ReportedResults;

/// A drawn figure about the results for a paper, with the name of its file.
#[derive(Clone, PartialEq, Debug)]
pub struct DrawnFigure {
    /// Name of the figure's file without its ending.
    pub name: &'static str,
    /// Title of the drawn figure.
    pub title: &'static str,
    /// The figure as SVG text.
    pub svg: String,
}

impl DrawnFigure {
    /// Returns the name of the file for the figure: `name` and `.svg`.
    pub fn file_name(&self) -> String {
        format!("{}.svg", self.name)
    }
}

/// Description of a figure that compares reported values with Wearwell's: it lists rows (reported results), each with a
/// label.
struct ComparisonFigurePlan {
    /// Name of the figure's file without its ending; it begins with the name of the paper.
    name: &'static str,
    /// Title of the drawn figure.
    title: &'static str,
    /// Label of the axis of the values, with their unit.
    value_axis_label: &'static str,
    /// Label and row id (of a reported result) of each group of bars, from left to right.
    labels_and_row_ids: &'static [(&'static str, &'static str)],
}

/// The figures that compare reported values with Wearwell's, for all papers.
const COMPARISON_FIGURE_PLANS: [ComparisonFigurePlan; 15] = [
    ComparisonFigurePlan {
        name: "lx-fig10",
        title: "Recyclable SSD, Fig. 10: write reduction",
        value_axis_label: "writes saved, %",
        labels_and_row_ids: &[
            ("64K", "LX-20"),
            ("128K", "LX-21"),
            ("256K", "LX-22"),
            ("infinite", "LX-18"),
            ("infinite", "LX-17"),
            ("infinite", "LX-19"),
        ],
    },
    ComparisonFigurePlan {
        name: "lx-fig11",
        title: "Recyclable SSD, Fig. 11: block erases",
        value_axis_label: "erases, % of the baseline",
        labels_and_row_ids: &[("web", "LX-25"), ("mail", "LX-26")],
    },
    ComparisonFigurePlan {
        name: "lx-fig12",
        title: "Recyclable SSD, Fig. 12: response time",
        value_axis_label: "change against the baseline, %",
        labels_and_row_ids: &[("LRU", "LX-28"), ("PROB", "LX-29")],
    },
    ComparisonFigurePlan {
        name: "lx-fig13",
        title: "Recyclable SSD, Fig. 13: fingerprint comparisons",
        value_axis_label: "mean comparisons",
        labels_and_row_ids: &[("PROB", "LX-31"), ("PROB+FL", "LX-33")],
    },
    ComparisonFigurePlan {
        name: "lx-fig14",
        title: "Recyclable SSD, Fig. 14: recycled share of recyclable pages",
        value_axis_label: "recycled, %",
        labels_and_row_ids: &[("greedy", "LX-36"), ("RC-GC", "LX-37")],
    },
    ComparisonFigurePlan {
        name: "df-fig6",
        title: "Delta-FTL, Fig. 6: garbage collections",
        value_axis_label: "collections, % of the baseline",
        labels_and_row_ids: &[
            ("Rc 0.50", "DF-14"),
            ("Rc 0.35", "DF-15"),
            ("Rc 0.20", "DF-16"),
            ("0.20", "DF-17"),
            ("0.50", "DF-18"),
        ],
    },
    ComparisonFigurePlan {
        name: "df-fig9",
        title: "Delta-FTL, Fig. 9: invalid pages per victim",
        value_axis_label: "pages",
        labels_and_row_ids: &[("", "DF-22")],
    },
    ComparisonFigurePlan {
        name: "df-fig12",
        title: "Delta-FTL, Fig. 12: write latency",
        value_axis_label: "reduction, %",
        labels_and_row_ids: &[("Rc", "DF-26")],
    },
    ComparisonFigurePlan {
        name: "df-fig14",
        title: "Delta-FTL, Fig. 14: raw read latency, ours as reads of two flash pages",
        value_axis_label: "increase, %",
        labels_and_row_ids: &[("", "DF-28")],
    },
    ComparisonFigurePlan {
        name: "rm-fig5b",
        title: "Remap-SSD, Fig. 5b: performance of Opt over NoRemap",
        value_axis_label: "times",
        labels_and_row_ids: &[("", "RM-15")],
    },
    ComparisonFigurePlan {
        name: "rm-fig5c",
        title: "Remap-SSD, Fig. 5c: write amplification of Opt below NoRemap",
        value_axis_label: "reduction, %",
        labels_and_row_ids: &[("", "RM-16")],
    },
    ComparisonFigurePlan {
        name: "rm-sizes",
        title: "Remap-SSD, 5.2: performance over the logs",
        value_axis_label: "gain, %",
        labels_and_row_ids: &[("40 MB", "RM-20"), ("80 MB", "RM-21"), ("120 MB", "RM-22")],
    },
    ComparisonFigurePlan {
        name: "rm-fig6",
        title: "Remap-SSD, Fig. 6: performance over the logs, FIU traces",
        value_axis_label: "gain, %",
        labels_and_row_ids: &[("FLog", "RM-24"), ("NLog", "RM-25")],
    },
    ComparisonFigurePlan {
        name: "rm-fig9",
        title: "Remap-SSD, Fig. 9: F2FS, performance over the logs",
        value_axis_label: "gain, %",
        labels_and_row_ids: &[("phase 1", "RM-41"), ("phase 3", "RM-42")],
    },
    ComparisonFigurePlan {
        name: "il-table1",
        title: "Integrated lifetime management, Table I: lifetimes",
        value_axis_label: "years",
        labels_and_row_ids: &[("WKSN", "IL-01"), ("Media", "IL-02"), ("DVMT", "IL-03")],
    },
];

/// Description of a bar chart that shows only Wearwell's values: a group of bars for each label, with a bar for each
/// series.
struct WearwellOnlyFigurePlan {
    /// Name of the figure's file without its ending; it begins with the name of the paper.
    name: &'static str,
    /// Title of the drawn figure.
    title: &'static str,
    /// Label of the axis of the values, with their unit.
    value_axis_label: &'static str,
    /// Labels of the groups of bars.
    labels: &'static [&'static str],
    /// Series of bars, each with one bar per label.
    series: &'static [BarSeries],
}

/// A series of bars in a figure, one bar per label. The bar shows a value of the row (reported result)
/// `reported_result_id`. The name of this value is `text_before_label`, the label and `text_after_label`, joined.
struct BarSeries {
    /// Name of the series in the legend.
    legend: &'static str,
    /// Id of the row (reported result) whose values the bars show.
    reported_result_id: &'static str,
    /// First part of the name of a bar's value, before the label of the bar.
    text_before_label: &'static str,
    /// Last part of the name of a bar's value, after the label of the bar.
    text_after_label: &'static str,
}

/// Creates a series of bars. A `const fn`, because the plans of the figures are constants.
const fn bar_series(
    legend: &'static str,
    id: &'static str,
    text_before_label: &'static str,
    text_after_label: &'static str,
) -> BarSeries {
    BarSeries { legend, reported_result_id: id, text_before_label, text_after_label }
}

/// Labels of the device capacities in figures about the `GeckoFTL` paper.
const CAPACITY_LABELS: &[&str] =
    &["64 GiB", "128 GiB", "256 GiB", "512 GiB", "1 TiB", "2 TiB", "4 TiB", "8 TiB"];
/// Labels of the FTL designs that the `GeckoFTL` paper compares.
const FTL_LABELS: &[&str] = &["DFTL", "LazyFTL", "u-FTL", "IB-FTL", "GeckoFTL"];

/// Labels of the spare shares of the flash in the figure about the Delta-FTL paper.
const SPARE_SHARES: &[&str] = &["0.1", "0.2", "0.3", "0.4", "0.5", "0.7"];

/// The charts that show only Wearwell's values and no reported ones, for all papers.
const WEARWELL_ONLY_FIGURE_PLANS: [WearwellOnlyFigurePlan; 13] = [
    WearwellOnlyFigurePlan {
        name: "df-spare",
        title: "Delta-FTL: garbage collections by spare share of the flash, Pc set to 0.84",
        value_axis_label: "collections, % of the baseline",
        labels: SPARE_SHARES,
        series: &[
            bar_series("Rc 0.50", "DF-37", "Rc 0.50 spare ", ""),
            bar_series("Rc 0.35", "DF-37", "Rc 0.35 spare ", ""),
            bar_series("Rc 0.20", "DF-37", "Rc 0.20 spare ", ""),
        ],
    },
    WearwellOnlyFigurePlan {
        name: "gk-fig1-ram",
        title: "GeckoFTL, Fig. 1 top: RAM without the cache",
        value_axis_label: "MiB",
        labels: CAPACITY_LABELS,
        series: &[
            bar_series("LazyFTL", "GK-03", "", " RAM MiB"),
            bar_series("GeckoFTL", "GK-04", "", " RAM MiB"),
        ],
    },
    WearwellOnlyFigurePlan {
        name: "gk-fig1-recovery",
        title: "GeckoFTL, Fig. 1 bottom: recovery",
        value_axis_label: "s",
        labels: CAPACITY_LABELS,
        series: &[
            bar_series("LazyFTL", "GK-03", "", " recovery s"),
            bar_series("GeckoFTL", "GK-04", "", " recovery s"),
        ],
    },
    WearwellOnlyFigurePlan {
        name: "gk-fig9",
        title: "GeckoFTL, Fig. 9: page validity by size ratio T, and bitmap on flash",
        value_axis_label: "write amplification",
        labels: &["T = 2", "T = 3", "T = 4", "T = 8", "T = 16", "T = 32", "bitmap"],
        series: &[bar_series("ours", "GK-21", "", "")],
    },
    WearwellOnlyFigurePlan {
        name: "gk-fig10-whole",
        title: "GeckoFTL, Fig. 10: page validity by block, whole entries (S = 1)",
        value_axis_label: "per host write",
        labels: &["B = 32", "B = 64", "B = 128"],
        series: &[
            bar_series("write amplification", "GK-24", "", ""),
            bar_series("without queries", "GK-24", "without queries, ", ""),
        ],
    },
    WearwellOnlyFigurePlan {
        name: "gk-fig10-parts-of-32",
        title: "GeckoFTL, Fig. 10: page validity by block, parts of 32 pages",
        value_axis_label: "per host write",
        labels: &["B = 64", "B = 128", "B = 256"],
        series: &[
            bar_series("write amplification", "GK-25", "", ""),
            bar_series("without queries", "GK-25", "without queries, ", ""),
        ],
    },
    WearwellOnlyFigurePlan {
        name: "gk-fig10-parts",
        title: "GeckoFTL, Fig. 10: page validity by parts of an entry (B = 128)",
        value_axis_label: "write amplification",
        labels: &["S = 1", "S = 2", "S = 4", "S = 8", "S = 16", "S = 32", "S = 64", "S = 128"],
        series: &[bar_series("ours", "GK-26", "", "")],
    },
    WearwellOnlyFigurePlan {
        name: "gk-fig11",
        title: "GeckoFTL, Fig. 11: page validity by capacity",
        value_axis_label: "write amplification",
        labels: &["2 GiB", "8 GiB", "32 GiB", "128 GiB", "2048 GiB"],
        series: &[
            bar_series("Logarithmic Gecko", "GK-27", "", ""),
            bar_series("bitmap", "GK-27", "bitmap, ", ""),
        ],
    },
    WearwellOnlyFigurePlan {
        name: "gk-fig12",
        title: "GeckoFTL, Fig. 12: page validity by utilisation",
        value_axis_label: "per host write",
        labels: &["R = 0.5", "R = 0.7", "R = 0.8", "R = 0.85", "R = 0.9"],
        series: &[
            bar_series("write amplification", "GK-29", "", ""),
            bar_series("query reads", "GK-29", "query reads, ", ""),
        ],
    },
    WearwellOnlyFigurePlan {
        name: "gk-fig13-ram",
        title: "GeckoFTL, Fig. 13 top: RAM at 2 TiB with a cache of 4 MiB",
        value_axis_label: "MiB",
        labels: &["DFTL, LazyFTL", "u-FTL", "IB-FTL", "GeckoFTL"],
        series: &[bar_series("ours", "GK-30", "", "")],
    },
    WearwellOnlyFigurePlan {
        name: "gk-fig13-recovery",
        title: "GeckoFTL, Fig. 13 middle: recovery at 2 TiB",
        value_axis_label: "s",
        labels: FTL_LABELS,
        series: &[
            bar_series("formula, 2 TiB", "GK-36", "2 TiB, ", ""),
            bar_series("formula, 128 GiB", "GK-36", "formula, ", ""),
            bar_series("executed, 128 GiB", "GK-36", "executed, ", ""),
        ],
    },
    WearwellOnlyFigurePlan {
        name: "gk-fig13-writes",
        title: "GeckoFTL, Fig. 13 bottom: write amplification by purpose",
        value_axis_label: "per host write",
        labels: FTL_LABELS,
        series: &[
            bar_series("data pages", "GK-41", "", ""),
            bar_series("map", "GK-43", "", ""),
            bar_series("page validity", "GK-45", "", ""),
            bar_series("copies of metadata", "GK-46", "", ""),
        ],
    },
    WearwellOnlyFigurePlan {
        name: "gk-fig14",
        title: "GeckoFTL, Fig. 14: write amplification of metadata with 70 MB of RAM",
        value_axis_label: "per host write",
        labels: &["DFTL", "u-FTL", "GeckoFTL"],
        series: &[
            bar_series("map", "GK-49", "", ", map"),
            bar_series("page validity", "GK-49", "", ", validity"),
        ],
    },
];

/// A group of bars in a figure: a reported number or range, and Wearwell's value.
struct BarGroup {
    /// Label of the group: that of the row and, if it has several values, the name of the value.
    label: String,
    /// The reported number, or the lower end of the reported range.
    reported_low: f64,
    /// The reported number, or the upper end of the reported range.
    reported_high: f64,
    /// Wearwell's value.
    our_value: f64,
}

/// Draws all figures of a paper for which the results have values.
pub fn draw_figures(targets: &ReportedResults, results: &PaperResults) -> Vec<DrawnFigure> {
    let prefix = format!("{}-", results.paper);
    let comparison_plans = COMPARISON_FIGURE_PLANS.iter().filter(|plan| plan.name.starts_with(&prefix));
    let own = WEARWELL_ONLY_FIGURE_PLANS.iter().filter(|plan| plan.name.starts_with(&prefix));
    let compared = comparison_plans.filter_map(|plan| {
        let bars: Vec<BarGroup> = plan
            .labels_and_row_ids
            .iter()
            .flat_map(|(label, id)| bar_groups_of_row(targets, results, label, id))
            .collect();
        (!bars.is_empty()).then(|| DrawnFigure {
            name: plan.name,
            title: plan.title,
            svg: draw_comparison(plan, &bars),
        })
    });
    let own = own.filter_map(|plan| {
        let svg = draw_wearwell_only_figure(plan, results)?;
        Some(DrawnFigure { name: plan.name, title: plan.title, svg })
    });
    compared.chain(own).collect()
}

/// Colours of the series of bars in a figure of Wearwell's values alone.
const SERIES_COLOURS: [&str; 4] = [OUR_COLOUR, "#4c78a8", "#72b7b2", "#b279a2"];

/// Draws a chart that shows only Wearwell's values; `None` if no label has a value. A series has no bar at labels for
/// which it has no value.
fn draw_wearwell_only_figure(plan: &WearwellOnlyFigurePlan, results: &PaperResults) -> Option<String> {
    let value = |series: &BarSeries, label: &str| {
        let row = results.rows.iter().find(|row| row.id == series.reported_result_id)?;
        let name = [series.text_before_label, label, series.text_after_label].concat();
        row.ours.iter().find(|value| value.of == name).map(|value| value.value)
    };
    let group = |label: &&&str| plan.series.iter().any(|series| value(series, label).is_some());
    let labels: Vec<&&str> = plan.labels.iter().filter(group).collect();
    if labels.is_empty() {
        return None;
    }
    // The first group of a horizontal plot is at the bottom.
    let plot = labels.iter().rev().fold(BarPlot::new().with_horizontal(true), |plot, label| {
        let bars = plan.series.iter().zip(SERIES_COLOURS);
        let bars: Vec<(f64, &str)> =
            bars.map(|(series, colour)| (value(series, label).unwrap_or(0.0), colour)).collect();
        plot.with_group((**label).to_owned(), bars)
    });
    let legend = plan.series.iter().map(|series| series.legend).collect();
    Some(render_svg(
        plot.with_legend(legend),
        plan.title,
        plan.value_axis_label,
        labels.len() * plan.series.len(),
    ))
}

/// Returns one group of bars for each reported value of row `id` for which Wearwell has a value.
fn bar_groups_of_row(
    targets: &ReportedResults,
    results: &PaperResults,
    label: &str,
    id: &str,
) -> Vec<BarGroup> {
    let (Some(target), Some(row)) =
        (targets.reported_result_with_id(id), results.rows.iter().find(|row| row.id == id))
    else {
        return Vec::new();
    };
    let group = |reported: &super::target::ReportedValue| {
        let ours = row.ours.iter().find(|value| value.of == reported.of)?.value;
        let (low, high) = reported.range_bounds();
        let label = format!("{label} {}", reported.of).trim().to_owned();
        [low, high, ours].iter().all(|value| value.is_finite()).then_some(BarGroup {
            label,
            reported_low: low,
            reported_high: high,
            our_value: ours,
        })
    };
    target.values.iter().filter_map(group).collect()
}

/// Colour of the bars of reported values.
const REPORTED_COLOUR: &str = "#9aa5b1";
/// Colour of the bars of the upper ends of reported ranges.
const REPORTED_UPPER_BOUND_COLOUR: &str = "#c9d1d9";
/// Colour of the bars of Wearwell's values.
const OUR_COLOUR: &str = "#d9822b";

/// Draws a figure that compares reported values with Wearwell's, and returns it as SVG text.
fn draw_comparison(plan: &ComparisonFigurePlan, bars: &[BarGroup]) -> String {
    let has_ranges = bars.iter().any(|bars| bars.reported_low < bars.reported_high);
    // The first group of a horizontal plot is at the bottom.
    let plot = bars.iter().rev().fold(BarPlot::new().with_horizontal(true), |plot, bars| {
        let values = if has_ranges {
            vec![
                (bars.reported_low, REPORTED_COLOUR),
                (bars.reported_high, REPORTED_UPPER_BOUND_COLOUR),
                (bars.our_value, OUR_COLOUR),
            ]
        } else {
            vec![(bars.reported_low, REPORTED_COLOUR), (bars.our_value, OUR_COLOUR)]
        };
        plot.with_group(bars.label.clone(), values)
    });
    let legend =
        if has_ranges { vec!["reported, from", "reported, to", "ours"] } else { vec!["reported", "ours"] };
    // The height is that of two bars per group.
    render_svg(plot.with_legend(legend), plan.title, plan.value_axis_label, 2 * bars.len())
}

/// Renders a bar plot with this title and axis label as SVG text; the height follows from the number of bars.
fn render_svg(plot: BarPlot, title: &str, value_axis_label: &str, bars: usize) -> String {
    let plots = vec![Plot::Bar(plot)];
    let layout = Layout::auto_from_plots(&plots)
        .with_title(title)
        .with_x_label(value_axis_label)
        .with_width(760.0)
        .with_height(120.0 + 17.0 * bars as f64);
    renumber_clip_paths(&SvgBackend.render_scene(&render_multiple(plots, layout)))
}

/// Renumbers the clip paths of an SVG drawing from 0. `kuva` continues counting from figure to figure, but a figure's
/// file must not depend on what was drawn before.
fn renumber_clip_paths(svg: &str) -> String {
    /// Beginning of the identifiers that `kuva` gives to clip paths.
    const CLIP_PATH_ID_PREFIX: &str = "kuva-clip-";
    let mut parts = svg.split(CLIP_PATH_ID_PREFIX);
    let mut text = parts.next().unwrap_or_default().to_owned();
    let mut numbers: Vec<&str> = Vec::new();
    for part in parts {
        let (number, rest) = part.split_at(part.bytes().take_while(u8::is_ascii_digit).count());
        let place = numbers.iter().position(|&known| known == number).unwrap_or_else(|| {
            numbers.push(number);
            numbers.len() - 1
        });
        text += &[CLIP_PATH_ID_PREFIX, &place.to_string(), rest].concat();
    }
    text
}
