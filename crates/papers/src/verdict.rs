//! Verdicts: compares our values for one row (reported result) of a paper with the reported values.
//!
//! The rule is the same for all rows, and tolerances are part of the targets (reported results), so that verdicts are
//! strict. A row is reproduced if *every* value is within the tolerance; the largest deviation is quoted. If a value
//! misses it, the row can still have the reported direction, if every effect is at least a tenth of the reported one;
//! otherwise the row is not reproduced. If the input is not the paper's, but a substitute or a load that was made for
//! this project, the comparison is marked, because it is about that input. Formulas, arithmetic on the paper's
//! constants, rows that cannot fail and loads fitted to a row are compared, too, but never called reproduced, because
//! nothing was executed that could have had another result.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::experiment::InputKind;
use super::target::{ComparisonKind, Evidence, NeededInput, ReportedResult, ReportedValue};

/// A value that Wearwell measured or computed for a row (reported result) of a paper, with its name in the target.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct NamedValue {
    /// Name of the value, e.g. the trace, size or variant for which the value was measured.
    pub of: String,
    /// The value, in the unit of the reported value.
    pub value: f64,
}

impl NamedValue {
    /// Creates a value that Wearwell measured or computed; `value_name` is its name.
    pub fn new(value_name: impl Into<String>, value: f64) -> Self {
        Self { of: value_name.into(), value }
    }
}

/// Verdict about a row (reported result) of a paper: how Wearwell's values compare with the reported ones.
#[derive(Clone, PartialEq, Debug)]
pub struct Verdict {
    /// Result of comparing Wearwell's values with the reported ones.
    pub outcome: Outcome,
    /// Kind of the input of Wearwell's runs: the paper's, a substitute, or a load made for this project.
    pub input: InputKind,
    /// What Wearwell's values are based on; `None` if the target (reported result) does not state it.
    pub evidence: Option<Evidence>,
    /// Comparison of Wearwell's values with those reported figures from which the load that replaces a trace is
    /// generated; `None` if the load uses no reported figure, or if all figures of the row are such figures.
    pub generator_input_deviation: Option<GeneratorInputDeviation>,
    /// Ids of other rows (reported results) with which the same values of Wearwell are compared.
    pub repeated_result_ids: Vec<String>,
    /// Whether Wearwell's values were measured by older code and may be different with the current code.
    pub is_of_older_code: bool,
}

/// Comparison of Wearwell's values with reported figures that were inputs of the load generator. The generated load
/// replaces a trace that is not available.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct GeneratorInputDeviation {
    /// Largest deviation of Wearwell's values from those figures of the paper that were used to generate the load (so
    /// that agreement is no evidence), in percent of the paper's value.
    pub largest_deviation_percent: f64,
    /// Whether Wearwell's values are within the tolerance that applies to figures from which the load was generated.
    pub is_within_tolerance: bool,
}

/// Result of comparing Wearwell's values of a row (reported result) with the reported ones.
#[derive(Clone, PartialEq, Debug)]
pub enum Outcome {
    /// All values of Wearwell are equal to the printed digits of the paper.
    ExactlyEqual,
    /// All values of Wearwell are within the tolerance; the number is the largest deviation, percent.
    WithinTolerance(f64),
    /// All values of Wearwell are inside the reported range.
    InsideRange,
    /// The reported ordering or statement holds for Wearwell's values.
    StatementHolds,
    /// The effect that Wearwell measured has the reported direction, but not the reported size.
    DirectionOnly,
    /// The effect that Wearwell measured has the reported direction, but is less than a tenth of the reported one.
    HardlyAnyEffect,
    /// Wearwell's values disagree with the reported ones; the number is the largest deviation, percent, if it is
    /// finite.
    MissedByPercent(Option<f64>),
    /// No comparison: the reported figures are background or an input.
    BackgroundOnly,
    /// No comparison: the load that replaces the trace is generated from the reported figures.
    GivenAsInput,
    /// No comparison: only the authors can measure the result; the text is the reason.
    NotReproducible(String),
    /// No comparison: Wearwell did not measure the result; the text is the reason.
    NotRun(String),
}

impl Outcome {
    /// Returns whether Wearwell's values agree with the reported ones.
    pub fn agrees(&self) -> bool {
        matches!(
            self,
            Self::ExactlyEqual | Self::WithinTolerance(_) | Self::InsideRange | Self::StatementHolds
        )
    }

    /// Returns whether Wearwell's values were compared with the reported ones.
    pub fn is_compared(&self) -> bool {
        self.agrees() || self.differs()
    }

    /// Returns whether Wearwell's values differ from the reported ones, even if they have the reported direction.
    pub fn differs(&self) -> bool {
        matches!(self, Self::DirectionOnly | Self::HardlyAnyEffect | Self::MissedByPercent(_))
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.outcome.is_compared() {
            write!(f, "{}", self.evidence_limitation_text())?;
        }
        self.write_outcome(f)?;
        if let Some(given) = self.generator_input_deviation {
            let percent = round_up_percent(given.largest_deviation_percent);
            let words = if given.is_within_tolerance { "within" } else { "missed by" };
            write!(f, "; given values {words} {percent} %")?;
        }
        if !self.repeated_result_ids.is_empty() {
            write!(f, " (repeats {})", self.repeated_result_ids.join(", "))?;
        }
        if self.is_of_older_code {
            write!(f, "; measured by older code")?;
        }
        Ok(())
    }
}

impl Verdict {
    /// Returns the words that limit a verdict, e.g. that the input was a replacement; they are printed before the
    /// verdict.
    fn evidence_limitation_text(&self) -> &'static str {
        match self.evidence {
            Some(Evidence::Measured) => match self.input {
                InputKind::OfPaper => "",
                InputKind::Substitute => "substitute input; ",
                InputKind::MadeLoad => "load made for this project; ",
            },
            Some(Evidence::Executed) => "executed mechanism; ",
            Some(Evidence::Fitted) => "load fitted to these figures; ",
            Some(Evidence::Formula) => "formula; ",
            Some(Evidence::Arithmetic) => "arithmetic; ",
            Some(Evidence::CannotFail) => "cannot fail; ",
            Some(Evidence::None) | None => "unclassified; ",
        }
    }

    /// Writes the outcome of the comparison in words. The word `reproduced` is used only for an execution on the
    /// paper's kind of input.
    fn write_outcome(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_result = self.evidence.is_some_and(Evidence::counts_as_reproduced);
        let is_of_paper = self.input == InputKind::OfPaper;
        let agrees = if is_result && is_of_paper { "reproduced" } else { "agrees" };
        let missed = if is_result { "not reproduced" } else { "disagrees" };
        match &self.outcome {
            Outcome::ExactlyEqual => write!(f, "{agrees} exactly"),
            Outcome::WithinTolerance(percent) => {
                write!(f, "{agrees} within {} %", round_up_percent(*percent))
            }
            Outcome::InsideRange => write!(f, "{agrees}, inside the range"),
            Outcome::StatementHolds => write!(f, "holds"),
            Outcome::DirectionOnly => write!(f, "direction only"),
            Outcome::HardlyAnyEffect => write!(f, "{missed}: less than a tenth of the effect"),
            Outcome::MissedByPercent(None) => write!(f, "{missed}"),
            Outcome::MissedByPercent(Some(percent)) => {
                write!(f, "{missed}: off by {} %", round_up_percent(*percent))
            }
            Outcome::BackgroundOnly => write!(f, "nothing to compare"),
            Outcome::GivenAsInput => write!(f, "substitute input, made from these figures"),
            Outcome::NotReproducible(why) => write!(f, "not reproducible: {why}"),
            Outcome::NotRun(why) => write!(f, "not run: {why}"),
        }
    }
}

/// Rounds the largest deviation of a verdict, in percent, up: to one decimal if less than ten, else to a whole number.
fn round_up_percent(percent: f64) -> f64 {
    // The maximum comes first: rounding a small negative number up gives -0.
    let up = |value: f64| (value - 1e-9).max(0.0).ceil();
    if percent < 10.0 { up(percent * 10.0) / 10.0 } else { up(percent) }
}

/// Compares Wearwell's values of a row (reported result) with its target. `input` is the kind of the input of
/// Wearwell's runs. The row counts as not run if a value that the target names is missing. It also counts as not run if
/// the target does not mention one of Wearwell's values, because that value may be the one to be judged.
pub fn judge_values(target: &ReportedResult, ours: &[NamedValue], input: InputKind) -> Verdict {
    let is_substitute = input == InputKind::Substitute;
    let is_given = |reported: &&ReportedValue| is_substitute && reported.given;
    let (given, judged): (Vec<&ReportedValue>, Vec<&ReportedValue>) =
        target.values.iter().partition(is_given);
    let outcome = if let Some(of) = target.first_unmentioned_value(ours.iter().map(|value| value.of.as_str()))
    {
        Outcome::NotRun(format!("the target does not mention the value `{of}`"))
    } else if is_substitute && (target.given_to_substitute || !given.is_empty() && judged.is_empty()) {
        Outcome::GivenAsInput
    } else {
        compare_values(target, &judged, ours)
    };
    let given = if outcome == Outcome::GivenAsInput {
        None
    } else {
        deviation_from_generator_inputs(target, &given, ours)
    };
    Verdict {
        outcome,
        input,
        evidence: target.evidence,
        generator_input_deviation: given,
        repeated_result_ids: target.repeats.clone(),
        is_of_older_code: false,
    }
}

/// Returns how far Wearwell's values are from the reported figures that were inputs of the load generator; the
/// generated load replaces a trace that is not available. A figure for which Wearwell has no value counts as missed by
/// 100 %.
fn deviation_from_generator_inputs(
    target: &ReportedResult,
    generator_inputs: &[&ReportedValue],
    our_values: &[NamedValue],
) -> Option<GeneratorInputDeviation> {
    let deviation = |reported: &&ReportedValue| {
        let ours = our_values.iter().find(|value| value.of == reported.of);
        ours.map_or(100.0, |value| deviation_percent(reported, value.value))
    };
    let percent = generator_inputs.iter().map(deviation).reduce(f64::max)?;
    Some(GeneratorInputDeviation {
        largest_deviation_percent: percent,
        is_within_tolerance: percent <= target.compare.given_percent,
    })
}

/// Returns the verdict about a row (reported result) for which Wearwell has no values.
pub fn not_run_verdict(target: &ReportedResult, why: &str) -> Verdict {
    let outcome = match (target.compare.kind, target.class) {
        (ComparisonKind::Context, _) => Outcome::BackgroundOnly,
        _ if !target.not_reproducible.is_empty() => Outcome::NotReproducible(target.not_reproducible.clone()),
        (_, NeededInput::Priv) if why.is_empty() => {
            Outcome::NotReproducible("only the authors have the traces".into())
        }
        _ if why.is_empty() => {
            Outcome::NotRun("no experiment or formula of Wearwell computes this row".into())
        }
        _ => Outcome::NotRun(why.to_owned()),
    };
    let repeats = target.repeats.clone();
    Verdict {
        outcome,
        input: InputKind::OfPaper,
        evidence: target.evidence,
        generator_input_deviation: None,
        repeated_result_ids: repeats,
        is_of_older_code: false,
    }
}

/// Compares the reported values that are to be judged with Wearwell's values, by the rule of the target (reported
/// result).
fn compare_values(target: &ReportedResult, judged: &[&ReportedValue], ours: &[NamedValue]) -> Outcome {
    if target.compare.kind == ComparisonKind::Context {
        return Outcome::BackgroundOnly;
    }
    let mut pairs = Vec::new();
    for &reported in judged {
        match ours.iter().find(|value| value.of == reported.of) {
            Some(value) if value.value.is_finite() => pairs.push((reported, value.value)),
            Some(_) => {
                return Outcome::NotRun(format!(
                    "the runs give no number for {}",
                    reported_value_name(reported)
                ));
            }
            None => return Outcome::NotRun(format!("{} was not measured", reported_value_name(reported))),
        }
    }
    if pairs.is_empty() {
        return Outcome::NotRun("the target names no value".into());
    }
    match target.compare.kind {
        ComparisonKind::Digits => compare_printed_digits(&pairs),
        ComparisonKind::Within | ComparisonKind::Range => compare_with_tolerance(target, &pairs),
        ComparisonKind::Direction => {
            compare_direction(target, &pairs).unwrap_or(Outcome::MissedByPercent(None))
        }
        ComparisonKind::Ordering if values_decrease(target, &pairs) => Outcome::StatementHolds,
        ComparisonKind::Holds if pairs.iter().all(|(_, ours)| *ours >= 1.0) => Outcome::StatementHolds,
        ComparisonKind::Ordering | ComparisonKind::Holds | ComparisonKind::Context => {
            Outcome::MissedByPercent(None)
        }
    }
}

/// Returns whether each value of Wearwell is smaller than the preceding one by at least the margin that the target
/// (reported result) states.
fn values_decrease(target: &ReportedResult, pairs: &[(&ReportedValue, f64)]) -> bool {
    let left = 1.0 - target.compare.percent / 100.0;
    pairs.windows(2).all(|pair| pair[1].1 < pair[0].1 && pair[1].1 <= pair[0].1 * left)
}

/// Returns the name of a reported value for messages.
fn reported_value_name(reported: &ReportedValue) -> &str {
    if reported.of.is_empty() { "the value" } else { &reported.of }
}

/// Returns the deviation of Wearwell's value from the nearest reported value, in percent of the reported value; 0
/// inside a reported range, infinite if the nearest reported value is 0.
pub fn deviation_percent(reported: &ReportedValue, ours: f64) -> f64 {
    let (low, high) = reported.range_bounds();
    let nearest = ours.clamp(low, high);
    let distance = (ours - nearest).abs();
    if distance == 0.0 { 0.0 } else { 100.0 * distance / nearest.abs() }
}

/// Compares values by the printed digits. `pairs` has each reported value with Wearwell's value.
fn compare_printed_digits(pairs: &[(&ReportedValue, f64)]) -> Outcome {
    let is_equal = |(reported, ours): &(&ReportedValue, f64)| match (reported.digits, reported.value) {
        (Some(digits), Some(value)) => rounds_to(*ours, value, digits),
        _ => deviation_percent(reported, *ours) == 0.0,
    };
    if pairs.iter().all(is_equal) {
        Outcome::ExactlyEqual
    } else {
        Outcome::MissedByPercent(worst_deviation_percent(pairs))
    }
}

/// Returns whether Wearwell's value rounds to the printed one; an exact half may be rounded either way.
fn rounds_to(ours: f64, printed: f64, decimals: u32) -> bool {
    let half_unit = 0.5 * 10f64.powf(-f64::from(decimals));
    (ours - printed).abs() <= half_unit * (1.0 + 1e-9)
}

/// Compares values by the tolerance of the target (reported result), or else by direction. `pairs` has each reported
/// value with Wearwell's value.
fn compare_with_tolerance(target: &ReportedResult, pairs: &[(&ReportedValue, f64)]) -> Outcome {
    let worst = worst_deviation_percent(pairs);
    match worst {
        Some(0.0) if target.compare.kind == ComparisonKind::Range => Outcome::InsideRange,
        Some(percent) if percent <= target.compare.percent => Outcome::WithinTolerance(percent),
        _ => compare_direction(target, pairs).unwrap_or(Outcome::MissedByPercent(worst)),
    }
}

/// Returns the largest deviation of Wearwell's values from the reported ones, percent; `None` if it is infinite because
/// 0 was reported.
fn worst_deviation_percent(pairs: &[(&ReportedValue, f64)]) -> Option<f64> {
    let deviations = pairs.iter().map(|(reported, ours)| deviation_percent(reported, *ours));
    deviations.reduce(f64::max).filter(|percent| percent.is_finite())
}

/// Smallest effect that counts as one in the reported direction, as a share of the reported effect. Smaller effects may
/// be chance in a single run with one seed.
const MIN_SHARE_OF_REPORTED_EFFECT: f64 = 0.1;

/// Compares the directions of effects. `neutral` of the target (reported result) is the value that means no effect.
/// Returns:
///
/// - [`Outcome::DirectionOnly`] if each value of Wearwell is on the same side of `neutral` as the reported one, and at
///   least a tenth of the reported effect away from it;
/// - [`Outcome::HardlyAnyEffect`] if each value is on that side, but one is nearer to `neutral`;
/// - `None` if a value is not on that side, or if the target does not state `neutral`.
fn compare_direction(target: &ReportedResult, pairs: &[(&ReportedValue, f64)]) -> Option<Outcome> {
    let neutral = target.compare.neutral?;
    let has_direction = |(reported, ours): &(&ReportedValue, f64)| {
        let (low, high) = reported.range_bounds();
        (low >= neutral && high > neutral && *ours > neutral)
            || (high <= neutral && low < neutral && *ours < neutral)
    };
    let has_size = |(reported, ours): &(&ReportedValue, f64)| {
        let (low, high) = reported.range_bounds();
        let nearest = ours.clamp(low, high);
        (ours - neutral).abs() >= MIN_SHARE_OF_REPORTED_EFFECT * (nearest - neutral).abs()
    };
    if !pairs.iter().all(has_direction) {
        None
    } else if pairs.iter().all(has_size) {
        Some(Outcome::DirectionOnly)
    } else {
        Some(Outcome::HardlyAnyEffect)
    }
}
