//! What the papers report, as data: `papers/<paper>/targets.toml`, embedded in the binary.
//!
//! A target is one row of a paper's evaluation. It keeps the reported words for people and the reported numbers for
//! the comparison, and says how the two may be compared: a bar that prose quotes to three digits is not compared like
//! a statement such as "LRU needs the most". The price of data over code is that a wrong key is found at run time;
//! unknown keys are refused, and a test parses every file.
//!
//! A target also says what stands behind our value ([`Evidence`]), because a formula that gives the paper's number from
//! the paper's constants says nothing about the design. Only executed runs and executed mechanisms count as reproduced.
//!
//! Invariants: identities are unique and continuous within a paper; every contradiction that a target names exists; every
//! row has its evidence; every value of ours is named by the target or set beside with a reason.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The papers that can be reproduced.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Paper {
    /// Recyclable SSD.
    Lx,
    /// Delta-FTL.
    Df,
    /// Remap-SSD.
    Rm,
    /// Integrated lifetime management.
    Il,
    /// `GeckoFTL`.
    Gk,
}

impl Paper {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Lx, Self::Df, Self::Rm, Self::Il, Self::Gk];

    /// Name on the command line and of the folder in `papers/`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Lx => "lx",
            Self::Df => "df",
            Self::Rm => "rm",
            Self::Il => "il",
            Self::Gk => "gk",
        }
    }

    /// What the paper reports. Parsed at each call, some hundred lines.
    ///
    /// # Panics
    /// Never: a test parses the embedded files.
    pub fn targets(self) -> Targets {
        let text = match self {
            Self::Lx => include_str!("../../../papers/lx/targets.toml"),
            Self::Df => include_str!("../../../papers/df/targets.toml"),
            Self::Rm => include_str!("../../../papers/rm/targets.toml"),
            Self::Il => include_str!("../../../papers/il/targets.toml"),
            Self::Gk => include_str!("../../../papers/gk/targets.toml"),
        };
        Targets::parse(text).unwrap_or_else(|error| panic!("papers/{}/targets.toml: {error}", self.name()))
    }
}

impl fmt::Display for Paper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Paper {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = Self::ALL.map(Self::name);
        let found = Self::ALL.into_iter().find(|paper| paper.name() == text);
        found.ok_or_else(|| format!("unknown paper `{text}`; one of {}", known.join(", ")))
    }
}

/// A file of targets.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Targets {
    /// The paper.
    pub paper: Citation,
    /// Where the paper contradicts itself or leaves something open, and how that is read here.
    #[serde(default)]
    pub contradictions: BTreeMap<String, String>,
    /// What the paper's abstract claims, for the summary.
    #[serde(default, rename = "headline")]
    pub headlines: Vec<Headline>,
    /// Values that rows show without judging them, whatever the row.
    #[serde(default)]
    pub beside: Vec<Beside>,
    /// Why rows of ours differ.
    #[serde(default, rename = "difference")]
    pub differences: Vec<Difference>,
    /// The rows, in the order of their identities.
    #[serde(rename = "target")]
    pub rows: Vec<Target>,
}

/// Why some rows of ours differ from the reported ones: what was found when they were compared, not a reading of the paper.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Difference {
    /// Identities of the rows.
    pub rows: Vec<String>,
    /// The reason, and what shows it.
    pub why: String,
    /// Experiments that took the suspected cause away, by name or as patterns with one `*`. A reason without one is
    /// untested, and the page says so.
    #[serde(default)]
    pub tested_by: Vec<String>,
    /// Figures of these experiments by dotted name, printed from the record; none if `why` quotes them.
    #[serde(default)]
    pub figures: Vec<String>,
    /// Places of the paper that cannot all hold, if that is the reason: no experiment can test it.
    #[serde(default)]
    pub contradiction: Vec<Statement>,
    /// The paper gives no figure for what the rows measure, so that there is no size to differ from.
    #[serde(default)]
    pub has_no_figure: bool,
}

/// What the paper says in one place.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Statement {
    /// Section, table or figure.
    pub place: String,
    /// The figures there.
    pub says: String,
}

/// What stands behind the reason of a difference.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Standing {
    /// Experiments took the suspected cause away.
    Tested,
    /// The paper contradicts itself.
    Contradiction,
    /// The paper gives no figure whose size could be compared.
    NoFigure,
    /// Nothing.
    Untested,
}

impl Difference {
    /// What stands behind the reason. A test refuses reasons that claim two things.
    pub fn standing(&self) -> Standing {
        if !self.tested_by.is_empty() {
            Standing::Tested
        } else if !self.contradiction.is_empty() {
            Standing::Contradiction
        } else if self.has_no_figure {
            Standing::NoFigure
        } else {
            Standing::Untested
        }
    }
}

impl Difference {
    /// Whether the experiment is one of those that tested the reason.
    pub fn is_tested_by(&self, experiment: &str) -> bool {
        self.tested_by.iter().any(|pattern| matches_pattern(pattern, experiment))
    }
}

/// A claim of the paper's abstract, joined with the row that measures it.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Headline {
    /// What is claimed, without the figure.
    pub claim: String,
    /// Identity of the row.
    pub row: String,
    /// Values of the row that the claim is about; none for all that the row names.
    #[serde(default)]
    pub of: Vec<String>,
    /// The reported figure in words; empty for that of the row.
    #[serde(default)]
    pub reported: String,
    /// Why ours differs, in one sentence; empty if it does not, or for the first sentence of the row's reason.
    #[serde(default)]
    pub why: String,
}

/// Which paper.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Citation {
    /// Name on the command line.
    pub key: String,
    /// Title.
    pub title: String,
    /// Authors, venue, year.
    pub source: String,
}

/// One reported result.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Target {
    /// `LX-17`.
    pub id: String,
    /// Figure, table or section.
    pub place: String,
    /// What was measured.
    pub metric: String,
    /// On what.
    pub configuration: String,
    /// What it takes to measure it again.
    pub class: Class,
    /// What stands behind our values. A test refuses a row without it, and no verdict counts it.
    pub evidence: Option<Evidence>,
    /// Rows whose values this row judges again, so that one result is not counted twice.
    #[serde(default)]
    pub repeats: Vec<String>,
    /// What would miss a band that is open on one side or spans more than a factor of ten.
    #[serde(default)]
    pub fails_if: String,
    /// Unit of the values.
    #[serde(default)]
    pub unit: String,
    /// The reported figures in words.
    pub reported: String,
    /// The reported figures as numbers.
    #[serde(default)]
    pub values: Vec<Reported>,
    /// Values of ours that are shown and not judged.
    #[serde(default)]
    pub beside: Vec<Beside>,
    /// How ours may be compared with them.
    pub compare: Comparison,
    /// Contradictions that touch this row.
    #[serde(default)]
    pub contradictions: Vec<String>,
    /// What a reader of the comparison has to know.
    #[serde(default)]
    pub note: String,
    /// The substitute for the trace is made from these very figures, so that it agrees by construction.
    #[serde(default)]
    pub given_to_substitute: bool,
    /// Why nobody but the authors can measure it; empty if somebody can.
    #[serde(default)]
    pub not_reproducible: String,
}

/// What it takes to measure a row again.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Class {
    /// A closed form.
    Cf,
    /// A synthetic load.
    Syn,
    /// An application, or an emulation of its requests.
    App,
    /// A published trace.
    Pub,
    /// A trace that only the authors have.
    Priv,
}

impl Class {
    /// In words.
    pub fn describe(self) -> &'static str {
        match self {
            Self::Cf => "closed form",
            Self::Syn => "synthetic load",
            Self::App => "application",
            Self::Pub => "published trace",
            Self::Priv => "private trace",
        }
    }
}

/// What stands behind a value of ours.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Evidence {
    /// Runs of designs on loads or traces.
    Measured,
    /// A mechanism of the code was executed, without a run of a design.
    Executed,
    /// A model of the mechanism; no design was executed.
    Formula,
    /// Constants of the paper, put together.
    Arithmetic,
    /// A band that no plausible run could miss.
    CannotFail,
    /// Nothing of ours.
    None,
}

impl Evidence {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::Measured, Self::Executed, Self::Formula, Self::Arithmetic, Self::CannotFail, Self::None];

    /// In words.
    pub fn describe(self) -> &'static str {
        match self {
            Self::Measured => "measured",
            Self::Executed => "executed mechanism",
            Self::Formula => "formula",
            Self::Arithmetic => "arithmetic",
            Self::CannotFail => "cannot fail",
            Self::None => "nothing of ours",
        }
    }

    /// Whether agreement counts as reproduced.
    pub fn is_result(self) -> bool {
        matches!(self, Self::Measured | Self::Executed)
    }
}

/// Values of ours that are shown without being judged.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Beside {
    /// Names of the values; `*` stands for any characters.
    pub of: Vec<String>,
    /// Why the paper's statement does not cover them.
    pub why: String,
}

impl Beside {
    /// Whether a value of this name is meant.
    pub fn names(&self, of: &str) -> bool {
        self.of.iter().any(|pattern| matches_pattern(pattern, of))
    }
}

/// Whether the text is the pattern, in which `*` stands for any characters.
pub(super) fn matches_pattern(pattern: &str, text: &str) -> bool {
    let Some((before, after)) = pattern.split_once('*') else { return pattern == text };
    let Some(rest) = text.strip_prefix(before) else { return false };
    (0..=rest.len()).any(|k| rest.is_char_boundary(k) && matches_pattern(after, &rest[k..]))
}

/// A reported number or range.
#[derive(Clone, PartialEq, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Reported {
    /// Of which trace, size or variant; empty if there is but one.
    pub of: String,
    /// The number.
    pub value: Option<f64>,
    /// Decimals to which it is printed, where that is what is compared.
    pub digits: Option<u32>,
    /// Lower end of a range.
    pub low: Option<f64>,
    /// Upper end of a range.
    pub high: Option<f64>,
    /// The substitute is made from this figure: ours is judged apart.
    pub given: bool,
}

impl Reported {
    /// The ends of the range, or the number twice; infinite where an end is open.
    pub fn bounds(&self) -> (f64, f64) {
        let low = self.low.or(self.value).unwrap_or(f64::NEG_INFINITY);
        (low, self.high.or(self.value).unwrap_or(f64::INFINITY))
    }
}

/// How ours may be compared with what was reported.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Comparison {
    /// Kind.
    pub kind: Kind,
    /// Deviation that counts as reproduced, percent of the reported value. Of an ordering: by how much each value must at
    /// least be below the one before, percent of that.
    #[serde(default)]
    pub percent: f64,
    /// The same for values that are given to the substitute.
    #[serde(default)]
    pub given_percent: f64,
    /// Where there would be no effect (0 for a gain, 100 for a normalised count): beyond the tolerance, being on the
    /// reported side of it still is the reported direction.
    pub neutral: Option<f64>,
}

/// Kinds of comparison.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Equal when rounded to the printed digits.
    Digits,
    /// Within a percentage.
    Within,
    /// Inside the reported range, or within a percentage of it.
    Range,
    /// On the same side of `neutral`; the size of the effect is not compared.
    Direction,
    /// Ours fall strictly in the order in which the values are listed.
    Ordering,
    /// A statement that holds (1) or not (0).
    Holds,
    /// Nothing to compare: an input or background.
    Context,
}

impl Targets {
    /// Reads a file.
    ///
    /// # Errors
    /// Syntax, unknown keys and values.
    pub fn parse(text: &str) -> Result<Self, toml::de::Error> {
        let mut targets: Self = toml::from_str(text)?;
        for row in &mut targets.rows {
            row.beside.extend(targets.beside.iter().cloned());
        }
        Ok(targets)
    }

    /// The row of that identity.
    pub fn row(&self, id: &str) -> Option<&Target> {
        self.rows.iter().find(|row| row.id == id)
    }
}

impl Target {
    /// Why a value of this name is shown without being judged; `None` if it is judged or forgotten.
    pub fn beside(&self, of: &str) -> Option<&str> {
        let is_judged = self.values.iter().any(|reported| reported.of == of);
        let beside = || self.beside.iter().find(|beside| beside.names(of));
        if is_judged { None } else { beside().map(|beside| beside.why.as_str()) }
    }

    /// The first of these values that the target neither judges nor sets beside. A row that compares nothing forgets
    /// nothing.
    pub fn forgotten<'a>(&self, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
        let is_judged = |of: &str| self.values.iter().any(|reported| reported.of == of);
        let compares = self.compare.kind != Kind::Context;
        names.into_iter().find(|of| compares && !is_judged(of) && self.beside(of).is_none())
    }
}
