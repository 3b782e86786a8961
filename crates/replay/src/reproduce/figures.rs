//! Figures of the papers that can be drawn again: bars of what is reported beside ours.
//!
//! Only what the text of a paper quotes can stand beside ours; bars that are nowhere in numbers are left out. Where a
//! range is quoted for several traces, both of its ends are drawn for each. Drawing is left to `kuva`, which renders SVG
//! by itself and has few dependencies.

use kuva::backend::svg::SvgBackend;
use kuva::plot::BarPlot;
use kuva::render::layout::Layout;
use kuva::render::plots::Plot;
use kuva::render::render::render_multiple;

use super::results::Results;
use super::target::Targets;

/// A drawn figure.
#[derive(Clone, PartialEq, Debug)]
pub struct Figure {
    /// Name without ending.
    pub name: &'static str,
    /// What is shown.
    pub title: &'static str,
    /// The drawing.
    pub svg: String,
}

impl Figure {
    /// Name of the file.
    pub fn file_name(&self) -> String {
        format!("{}.svg", self.name)
    }
}

/// What a figure shows: rows, each with a label for its bars.
struct Plan {
    name: &'static str,
    title: &'static str,
    axis: &'static str,
    rows: &'static [(&'static str, &'static str)],
}

const PLANS: [Plan; 15] = [
    Plan {
        name: "lx-fig10",
        title: "Recyclable SSD, Fig. 10: write reduction",
        axis: "writes saved, %",
        rows: &[
            ("64K", "LX-20"),
            ("128K", "LX-21"),
            ("256K", "LX-22"),
            ("infinite", "LX-18"),
            ("infinite", "LX-17"),
            ("infinite", "LX-19"),
        ],
    },
    Plan {
        name: "lx-fig11",
        title: "Recyclable SSD, Fig. 11: block erases",
        axis: "erases, % of the baseline",
        rows: &[("web", "LX-25"), ("mail", "LX-26")],
    },
    Plan {
        name: "lx-fig12",
        title: "Recyclable SSD, Fig. 12: response time",
        axis: "change against the baseline, %",
        rows: &[("LRU", "LX-28"), ("PROB", "LX-29")],
    },
    Plan {
        name: "lx-fig13",
        title: "Recyclable SSD, Fig. 13: fingerprint comparisons",
        axis: "mean comparisons",
        rows: &[("PROB", "LX-31"), ("PROB+FL", "LX-33")],
    },
    Plan {
        name: "lx-fig14",
        title: "Recyclable SSD, Fig. 14: recycled share of recyclable pages",
        axis: "recycled, %",
        rows: &[("greedy", "LX-36"), ("RC-GC", "LX-37")],
    },
    Plan {
        name: "df-fig6",
        title: "Delta-FTL, Fig. 6: garbage collections",
        axis: "collections, % of the baseline",
        rows: &[
            ("Rc 0.50", "DF-14"),
            ("Rc 0.35", "DF-15"),
            ("Rc 0.20", "DF-16"),
            ("0.20", "DF-17"),
            ("0.50", "DF-18"),
        ],
    },
    Plan {
        name: "df-fig9",
        title: "Delta-FTL, Fig. 9: invalid pages per victim",
        axis: "pages",
        rows: &[("", "DF-22")],
    },
    Plan {
        name: "df-fig12",
        title: "Delta-FTL, Fig. 12: write latency",
        axis: "reduction, %",
        rows: &[("Rc", "DF-26")],
    },
    Plan {
        name: "df-fig14",
        title: "Delta-FTL, Fig. 14: raw read latency",
        axis: "increase, %",
        rows: &[("Rc", "DF-28"), ("0.50", "DF-29")],
    },
    Plan {
        name: "rm-fig5b",
        title: "Remap-SSD, Fig. 5b: performance of Opt over NoRemap",
        axis: "times",
        rows: &[("", "RM-15")],
    },
    Plan {
        name: "rm-fig5c",
        title: "Remap-SSD, Fig. 5c: write amplification of Opt below NoRemap",
        axis: "reduction, %",
        rows: &[("", "RM-16")],
    },
    Plan {
        name: "rm-sizes",
        title: "Remap-SSD, 5.2: performance over the logs",
        axis: "gain, %",
        rows: &[("40 MB", "RM-20"), ("80 MB", "RM-21"), ("120 MB", "RM-22")],
    },
    Plan {
        name: "rm-fig6",
        title: "Remap-SSD, Fig. 6: performance over the logs, FIU traces",
        axis: "gain, %",
        rows: &[("FLog", "RM-24"), ("NLog", "RM-25")],
    },
    Plan {
        name: "rm-fig9",
        title: "Remap-SSD, Fig. 9: F2FS, performance over the logs",
        axis: "gain, %",
        rows: &[("phase 1", "RM-41"), ("phase 3", "RM-42")],
    },
    Plan {
        name: "il-table1",
        title: "Integrated lifetime management, Table I: lifetimes",
        axis: "years",
        rows: &[("WKSN", "IL-01"), ("Media", "IL-02"), ("DVMT", "IL-03")],
    },
];

/// One group of bars.
struct Bars {
    label: String,
    low: f64,
    high: f64,
    ours: f64,
}

/// All figures of the paper that these results have values for.
pub fn draw(targets: &Targets, results: &Results) -> Vec<Figure> {
    let of_paper = PLANS.iter().filter(|plan| plan.name.starts_with(&format!("{}-", results.paper)));
    of_paper
        .filter_map(|plan| {
            let bars: Vec<Bars> =
                plan.rows.iter().flat_map(|(label, id)| bars(targets, results, label, id)).collect();
            (!bars.is_empty()).then(|| Figure {
                name: plan.name,
                title: plan.title,
                svg: drawing(plan, &bars),
            })
        })
        .collect()
}

/// Bars of a row: one group for each reported value that ours has.
fn bars(targets: &Targets, results: &Results, label: &str, id: &str) -> Vec<Bars> {
    let (Some(target), Some(row)) = (targets.row(id), results.rows.iter().find(|row| row.id == id)) else {
        return Vec::new();
    };
    let group = |reported: &super::target::Reported| {
        let ours = row.ours.iter().find(|value| value.of == reported.of)?.value;
        let (low, high) = reported.bounds();
        let label = format!("{label} {}", reported.of).trim().to_owned();
        [low, high, ours].iter().all(|value| value.is_finite()).then_some(Bars { label, low, high, ours })
    };
    target.values.iter().filter_map(group).collect()
}

const REPORTED: &str = "#9aa5b1";
const REPORTED_HIGH: &str = "#c9d1d9";
const OURS: &str = "#d9822b";

fn drawing(plan: &Plan, bars: &[Bars]) -> String {
    let has_ranges = bars.iter().any(|bars| bars.low < bars.high);
    // The first group of a horizontal plot is at the bottom.
    let plot = bars.iter().rev().fold(BarPlot::new().with_horizontal(true), |plot, bars| {
        let values = if has_ranges {
            vec![(bars.low, REPORTED), (bars.high, REPORTED_HIGH), (bars.ours, OURS)]
        } else {
            vec![(bars.low, REPORTED), (bars.ours, OURS)]
        };
        plot.with_group(bars.label.clone(), values)
    });
    let legend =
        if has_ranges { vec!["reported, from", "reported, to", "ours"] } else { vec!["reported", "ours"] };
    let plots = vec![Plot::Bar(plot.with_legend(legend))];
    let layout = Layout::auto_from_plots(&plots)
        .with_title(plan.title)
        .with_x_label(plan.axis)
        .with_width(760.0)
        .with_height(120.0 + 34.0 * bars.len() as f64);
    renumbered(&SvgBackend.render_scene(&render_multiple(plots, layout)))
}

/// The drawing with its clip paths numbered from 0: `kuva` goes on counting from figure to figure, and the same figure
/// should be the same file whatever was drawn before.
fn renumbered(svg: &str) -> String {
    const PREFIX: &str = "kuva-clip-";
    let mut parts = svg.split(PREFIX);
    let mut text = parts.next().unwrap_or_default().to_owned();
    let mut numbers: Vec<&str> = Vec::new();
    for part in parts {
        let (number, rest) = part.split_at(part.bytes().take_while(u8::is_ascii_digit).count());
        let place = numbers.iter().position(|&known| known == number).unwrap_or_else(|| {
            numbers.push(number);
            numbers.len() - 1
        });
        text += &[PREFIX, &place.to_string(), rest].concat();
    }
    text
}
