//! The results that the papers report, as data: `papers/<paper>/targets.toml`, embedded in the binary.
//!
//! A target is one row of a paper's evaluation. It has the reported figures in words for people and as numbers for the
//! comparison, and states how they may be compared: a bar that the text quotes with three digits is compared in another
//! way than a statement such as "LRU needs the most". The price of data instead of code is that a wrong key is found
//! only at run time. Unknown keys are therefore refused, and a test parses every file.
//!
//! A target also states on what our value is based ([`Evidence`]), because a formula that computes the paper's number
//! from the paper's constants proves nothing about the design. Only executed runs and executed mechanisms count as
//! reproduced.
//!
//! Invariants: the ids of a paper's rows are unique and continuous; if a target names a contradiction within the paper,
//! the file describes this contradiction; every row states its evidence; every value of ours is either compared with
//! the paper or listed with a reason why it is only shown.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The papers whose evaluation Wearwell can reproduce.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Paper {
    /// The Recyclable SSD paper.
    RecyclableSsd,
    /// The Delta-FTL paper.
    DeltaFtl,
    /// The Remap-SSD paper (remap commands and their reverse map).
    RemapSsd,
    /// The paper on integrated lifetime management.
    IntegratedLifetime,
    /// The `GeckoFTL` paper.
    GeckoFtl,
}

impl Paper {
    /// All papers that can be reproduced.
    pub const ALL: [Self; 5] =
        [Self::RecyclableSsd, Self::DeltaFtl, Self::RemapSsd, Self::IntegratedLifetime, Self::GeckoFtl];

    /// Returns the paper's name on the command line, which is also the name of its folder in `papers/`.
    pub fn name(self) -> &'static str {
        match self {
            Self::RecyclableSsd => "lx",
            Self::DeltaFtl => "df",
            Self::RemapSsd => "rm",
            Self::IntegratedLifetime => "il",
            Self::GeckoFtl => "gk",
        }
    }

    /// Returns the paper's targets (its reported results). The embedded file of some hundred lines is parsed at each
    /// call.
    ///
    /// # Panics
    /// Never: a test parses the embedded files.
    pub fn targets(self) -> ReportedResults {
        let text = match self {
            Self::RecyclableSsd => include_str!("../../../papers/lx/targets.toml"),
            Self::DeltaFtl => include_str!("../../../papers/df/targets.toml"),
            Self::RemapSsd => include_str!("../../../papers/rm/targets.toml"),
            Self::IntegratedLifetime => include_str!("../../../papers/il/targets.toml"),
            Self::GeckoFtl => include_str!("../../../papers/gk/targets.toml"),
        };
        ReportedResults::parse(text)
            .unwrap_or_else(|error| panic!("papers/{}/targets.toml: {error}", self.name()))
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
        found.ok_or_else(|| format!("unknown paper `{text}`: use one of {}", known.join(", ")))
    }
}

/// The targets (reported results) of one paper: contents of its file `targets.toml`.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReportedResults {
    /// Title and source of the paper.
    pub paper: Citation,
    /// Contradictions within the paper, and points that it leaves open. The key is a name, the value a text on what the
    /// paper states and how Wearwell reads it.
    #[serde(default)]
    pub contradictions: BTreeMap<String, String>,
    /// Claims of the paper's abstract, for the summary of results.
    #[serde(default, rename = "headline")]
    pub headlines: Vec<ClaimOfAbstract>,
    /// Values measured by Wearwell that are shown next to the results of the paper without a comparison; the entries
    /// apply to all rows (reported results).
    #[serde(default)]
    pub beside: Vec<UnjudgedValues>,
    /// Reasons why values measured by Wearwell differ from the reported ones.
    #[serde(default, rename = "difference")]
    pub differences: Vec<DifferenceReason>,
    /// The results that the paper reports (rows of its evaluation), in the order of their ids.
    #[serde(rename = "target")]
    pub rows: Vec<ReportedResult>,
}

/// A reason why some results of Wearwell differ from the reported ones, found when they were compared.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DifferenceReason {
    /// Ids of the rows (reported results) whose difference the reason explains.
    pub rows: Vec<String>,
    /// The reason for the difference, and what supports it, in sentences.
    pub why: String,
    /// Names of the experiments that removed the suspected cause of the difference, or patterns with one `*`. A reason
    /// without such experiments is shown as untested.
    #[serde(default)]
    pub tested_by: Vec<String>,
    /// End of a sentence that states how much of the difference is left in the experiments in `tested_by`, which remove
    /// its suspected cause. Empty if the values of all rows in these experiments agree with the reported values.
    #[serde(default)]
    pub remains: String,
    /// Dotted names of figures (numbers) of the experiments in `tested_by`. They are printed next to the reason; empty
    /// if the text `why` quotes them.
    #[serde(default)]
    pub figures: Vec<String>,
    /// Statements of the paper that contradict each other, if that is the reason for the difference. No experiment can
    /// test such a reason.
    #[serde(default)]
    pub contradiction: Vec<PaperStatement>,
    /// Whether the reason is that the paper prints no number for these rows (reported results), so that only the
    /// direction of an effect can be compared.
    #[serde(default)]
    pub has_no_figure: bool,
    /// Digest that the values behind the reason had when the numbers in its text were last compared with the records
    /// ([`digest_of_values_behind_reason`](super::reason_digest::digest_of_values_behind_reason)).
    #[serde(default)]
    pub checked_against: String,
}

/// A statement that the paper makes in one place.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PaperStatement {
    /// Section, table or figure of the paper in which the statement is made.
    pub place: String,
    /// What the paper states in the section, table or figure `place`, as a sentence with its numbers.
    pub says: String,
}

/// How well the reason for a difference between Wearwell and the paper is supported.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReasonSupport {
    /// Experiments removed the suspected cause of the difference, and the difference went away with it.
    Confirmed,
    /// Experiments removed the suspected cause, and a part of the difference, or all of it, remains.
    DifferenceRemains,
    /// The reason for the difference is a contradiction within the paper.
    Contradiction,
    /// The reason for the difference is that the paper reports no number that could be compared.
    NoReportedFigure,
    /// Neither experiments nor a contradiction within the paper support the reason for the difference.
    Untested,
}

impl DifferenceReason {
    /// Returns how well the reason for the difference is supported: by experiments, by a contradiction within the
    /// paper, or not at all. A reason must have one kind of support; a test checks this.
    pub fn support_for_reason(&self) -> ReasonSupport {
        if !self.tested_by.is_empty() && self.remains.is_empty() {
            ReasonSupport::Confirmed
        } else if !self.tested_by.is_empty() {
            ReasonSupport::DifferenceRemains
        } else if !self.contradiction.is_empty() {
            ReasonSupport::Contradiction
        } else if self.has_no_figure {
            ReasonSupport::NoReportedFigure
        } else {
            ReasonSupport::Untested
        }
    }
}

impl DifferenceReason {
    /// Returns whether the experiment is one of those that tested this reason for a difference.
    pub fn is_tested_by(&self, experiment: &str) -> bool {
        self.tested_by.iter().any(|pattern| matches_pattern(pattern, experiment))
    }
}

/// A claim of the paper's abstract, linked to the row (reported result) that measures it.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClaimOfAbstract {
    /// Text of the claim of the abstract, without its figure.
    pub claim: String,
    /// Id of the row (reported result) with whose values the claim of the abstract is measured, e.g. `LX-17`.
    pub row: String,
    /// Names of those values of the row (reported result) that the claim is about. Empty if the claim is about all
    /// values of the row that are compared with the paper.
    #[serde(default)]
    pub of: Vec<String>,
    /// Names of values of the row (reported result) that are shown with the claim, but are not compared with the paper.
    #[serde(default)]
    pub beside: Vec<String>,
    /// The number that the abstract claims, in words; empty if the row (reported result) reports the same number.
    #[serde(default)]
    pub reported: String,
    /// Why Wearwell's value differs from the claim, in one sentence. Empty if it does not differ, or if the reason for
    /// the difference of the row (reported result) applies: then the first sentence of that reason is printed.
    #[serde(default)]
    pub why: String,
}

/// Title and source of a paper.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Citation {
    /// Name of the paper on the command line, e.g. `lx`.
    pub key: String,
    /// Title of the paper.
    pub title: String,
    /// Authors, venue and year of the paper.
    pub source: String,
    /// Whether the paper evaluates on loads that it generates itself. If not, a result on a generated load counts as
    /// reproduced only if the load replaces a trace of the paper.
    #[serde(default)]
    pub generates_loads: bool,
}

/// One result that the paper reports: a row of its evaluation.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReportedResult {
    /// Id of the reported result, e.g. `LX-17`.
    pub id: String,
    /// Figure, table or section of the paper that reports the result.
    pub place: String,
    /// Quantity that the paper measured.
    pub metric: String,
    /// Conditions under which the paper measured the result: traces, design, settings.
    pub configuration: String,
    /// Kind of input (e.g. a published trace) that is needed to measure the reported result again.
    pub class: NeededInput,
    /// On what Wearwell's values for this result are based, e.g. runs or a formula. A test refuses a result without it,
    /// and such a result counts in no category.
    pub evidence: Option<Evidence>,
    /// Ids of other rows (reported results) with which the same values of Wearwell are compared; these values must not
    /// be counted twice.
    #[serde(default)]
    pub repeats: Vec<String>,
    /// Description of a measurement that would miss the reported band; required if the band is open on one side or
    /// spans more than a factor of ten.
    #[serde(default)]
    pub fails_if: String,
    /// Unit of the reported values and of Wearwell's.
    #[serde(default)]
    pub unit: String,
    /// The reported figures of the result in words.
    pub reported: String,
    /// The reported figures of the result as numbers.
    #[serde(default)]
    pub values: Vec<ReportedValue>,
    /// Values measured by Wearwell that are shown with this row (reported result) without a comparison, and the reason.
    #[serde(default)]
    pub beside: Vec<UnjudgedValues>,
    /// How Wearwell's values may be compared with the reported ones.
    pub compare: ComparisonRule,
    /// Names of the paper's contradictions that affect this row (reported result).
    #[serde(default)]
    pub contradictions: Vec<String>,
    /// A note for the reader of the comparison with this reported result.
    #[serde(default)]
    pub note: String,
    /// Whether the generated load that replaces the paper's trace is made from these reported figures, so that
    /// agreement is certain.
    #[serde(default)]
    pub given_to_substitute: bool,
    /// Reason why only the authors can measure the row (reported result); empty if others can.
    #[serde(default)]
    pub not_reproducible: String,
}

/// What is needed to measure a reported result again.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum NeededInput {
    /// `CF`, closed form: the result follows by arithmetic from the paper's parameters.
    Cf,
    /// `SYN`: a synthetic load is needed to measure the result.
    Syn,
    /// `APP`: an application, or an emulation of its requests, is needed to measure the result.
    App,
    /// `PUB`: a published trace is needed to measure the result.
    Pub,
    /// `PRIV`: a private trace, which only the authors have, is needed to measure the result.
    Priv,
}

impl NeededInput {
    /// Returns in words what is needed to measure the reported result again.
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

/// Source of the value that Wearwell gives for a reported result, such as a run or a formula.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Evidence {
    /// The value was measured by runs of designs on loads or traces.
    Measured,
    /// The value was measured by calling one mechanism of the code directly, e.g. the delta codec; no design was run.
    Executed,
    /// The value was measured on a load with a parameter that was chosen so that the results fit the reported ones.
    Fitted,
    /// The value was computed by a model of the mechanism; no design was executed.
    Formula,
    /// The value follows by arithmetic from constants that the paper states.
    Arithmetic,
    /// The value was measured, but the reported range is so wide that no plausible run could be outside.
    CannotFail,
    /// Wearwell has no value for the reported result.
    None,
}

impl Evidence {
    /// All kinds of evidence for a value of Wearwell's, the strongest first.
    pub const ALL: [Self; 7] = [
        Self::Measured,
        Self::Executed,
        Self::Fitted,
        Self::Formula,
        Self::Arithmetic,
        Self::CannotFail,
        Self::None,
    ];

    /// Returns in words what Wearwell's value is based on.
    pub fn describe(self) -> &'static str {
        match self {
            Self::Measured => "measured",
            Self::Executed => "executed mechanism",
            Self::Fitted => "fitted load",
            Self::Formula => "formula",
            Self::Arithmetic => "arithmetic",
            Self::CannotFail => "cannot fail",
            Self::None => "nothing of ours",
        }
    }

    /// Returns whether a result with this kind of evidence counts as reproduced if it agrees with the reported one.
    pub fn counts_as_reproduced(self) -> bool {
        matches!(self, Self::Measured | Self::Executed)
    }
}

/// Values measured by Wearwell that are shown but not judged, and the reason.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UnjudgedValues {
    /// Names of the values that are shown without a comparison; `*` in a name matches any characters.
    pub of: Vec<String>,
    /// Reason why these values are not compared with the reported result, e.g. the paper's statement does not cover
    /// them.
    pub why: String,
}

impl UnjudgedValues {
    /// Returns whether the value `value_name` is shown without a comparison with the paper.
    pub fn contains_value_named(&self, value_name: &str) -> bool {
        self.of.iter().any(|pattern| matches_pattern(pattern, value_name))
    }
}

/// Returns whether the whole text matches the pattern, in which `*` stands for any characters.
pub(super) fn matches_pattern(pattern: &str, text: &str) -> bool {
    let Some((before, after)) = pattern.split_once('*') else { return pattern == text };
    let Some(rest) = text.strip_prefix(before) else { return false };
    (0..=rest.len()).any(|k| rest.is_char_boundary(k) && matches_pattern(after, &rest[k..]))
}

/// A number or range that the paper reports.
#[derive(Clone, PartialEq, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ReportedValue {
    /// Name of the trace, size or variant to which the reported number belongs; empty if the result has only one
    /// number.
    pub of: String,
    /// The reported number.
    pub value: Option<f64>,
    /// Number of decimals with which the paper prints the number, if the comparison is by printed digits.
    pub digits: Option<u32>,
    /// Lower end of the range, if the paper reports a range.
    pub low: Option<f64>,
    /// Upper end of the range, if the paper reports a range.
    pub high: Option<f64>,
    /// Whether this reported figure was an input of the generated load that replaces the trace; Wearwell's value is
    /// then compared separately.
    pub given: bool,
}

impl ReportedValue {
    /// Returns the ends of the reported range, or the reported number twice; an open end is infinite.
    pub fn range_bounds(&self) -> (f64, f64) {
        let low = self.low.or(self.value).unwrap_or(f64::NEG_INFINITY);
        (low, self.high.or(self.value).unwrap_or(f64::INFINITY))
    }
}

/// How a value of Wearwell's may be compared with the reported one.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ComparisonRule {
    /// Kind of the comparison: by printed digits, within a percentage, by range, direction or order.
    pub kind: ComparisonKind,
    /// Tolerance: deviation up to which a value of Wearwell's counts as reproduced, percent of the reported value. For
    /// an ordering: least amount by which each value must be smaller than the preceding one, percent of the preceding
    /// one.
    #[serde(default)]
    pub percent: f64,
    /// Tolerance, percent, if the generated load that replaces the trace is made from the reported value: deviation up
    /// to which a value of Wearwell's counts as reproduced.
    #[serde(default)]
    pub given_percent: f64,
    /// Value that means no effect (0 for a gain, 100 for a normalised count). A value of Wearwell's that misses the
    /// tolerance still has the reported direction if it is on the reported side of this value, by at least a tenth of
    /// the reported effect.
    pub neutral: Option<f64>,
}

/// Kinds of comparison with a reported value.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ComparisonKind {
    /// Wearwell's value must be equal to the reported one when rounded to the printed digits.
    Digits,
    /// Wearwell's value must be within a percentage of the reported one.
    Within,
    /// Wearwell's value must be inside the reported range, or within a percentage of its ends.
    Range,
    /// Wearwell's value must be on the same side of the value `neutral` (no effect) as the reported one, by at least a
    /// tenth of the reported effect.
    Direction,
    /// Wearwell's values must decrease strictly in the order in which the target (reported result) lists them.
    Ordering,
    /// A statement of the paper must hold for Wearwell's runs: the value is 1 if it is true, 0 if it is false.
    Holds,
    /// There is no comparison: the reported result is an input of the experiments or background.
    Context,
}

impl ReportedResults {
    /// Parses a file of targets (reported results of a paper).
    ///
    /// # Errors
    /// Syntax errors, unknown keys and wrong values.
    pub fn parse(text: &str) -> Result<Self, toml::de::Error> {
        let mut targets: Self = toml::from_str(text)?;
        for row in &mut targets.rows {
            row.beside.extend(targets.beside.iter().cloned());
        }
        Ok(targets)
    }

    /// Returns the target (reported result) with this id.
    pub fn reported_result_with_id(&self, id: &str) -> Option<&ReportedResult> {
        self.rows.iter().find(|row| row.id == id)
    }
}

impl ReportedResult {
    /// Returns why Wearwell's value of this name is shown but not judged; `None` if it is judged, or if the target
    /// (reported result) does not mention it.
    pub fn reason_not_judged(&self, value_name: &str) -> Option<&str> {
        let is_judged = self.values.iter().any(|reported| reported.of == value_name);
        let beside = || self.beside.iter().find(|beside| beside.contains_value_named(value_name));
        if is_judged { None } else { beside().map(|beside| beside.why.as_str()) }
    }

    /// Returns the first of these names of Wearwell's values that the target (reported result) does not mention. A
    /// target mentions a value if it compares the value, or lists it as shown without a comparison. `None` for a target
    /// without a comparison.
    pub fn first_unmentioned_value<'a>(&self, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
        let is_judged = |of: &str| self.values.iter().any(|reported| reported.of == of);
        let compares = self.compare.kind != ComparisonKind::Context;
        names.into_iter().find(|of| compares && !is_judged(of) && self.reason_not_judged(of).is_none())
    }
}
