//! What a comparison of ours with the reported figures says.
//!
//! A verdict is worth its strictness, so the rule is fixed here and the tolerances stand in the targets, not beside the
//! measurement: ours is reproduced if *every* value lies within the tolerance, and the worst one is quoted. A value that
//! misses it can still have the reported direction; else the row is not reproduced, and says so. Results from an
//! input that stands in for the paper's keep their comparison but carry the mark, since they are about the substitute.
//! Formulas, arithmetic on the paper's constants and rows that cannot fail keep their comparison too, and are never called
//! reproduced: nothing of ours was executed that could have come out differently.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::target::{Class, Evidence, Kind, Reported, Target};

/// A value of ours, by the name that the target gives it.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Value {
    /// Which.
    pub of: String,
    /// How much, in the target's unit.
    pub value: f64,
}

impl Value {
    /// A named value.
    pub fn new(of: impl Into<String>, value: f64) -> Self {
        Self { of: of.into(), value }
    }
}

/// How a row came out.
#[derive(Clone, PartialEq, Debug)]
pub struct Verdict {
    /// The comparison.
    pub outcome: Outcome,
    /// The input stood in for the paper's.
    pub substitute: bool,
    /// What stands behind our values; `None` if the target does not say.
    pub evidence: Option<Evidence>,
    /// How the values came out that the substitute is made from, if the row has such values beside others.
    pub given: Option<Given>,
    /// Rows whose values are judged here again.
    pub repeats: Vec<String>,
    /// Today's code may give other values.
    pub older_code: bool,
}

/// Comparison of the values that a substitute is made from.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Given {
    /// Deviation of the worst, percent of the reported value.
    pub percent: f64,
    /// All of them lie within the tolerance for given values.
    pub is_met: bool,
}

/// Results of a comparison.
#[derive(Clone, PartialEq, Debug)]
pub enum Outcome {
    /// Equal to the printed digits.
    Exact,
    /// Within the tolerance; the worst value deviates by so many percent.
    Within(f64),
    /// Inside the reported range.
    Inside,
    /// The ordering or statement holds.
    Holds,
    /// The effect has the reported direction, not the reported size.
    DirectionOnly,
    /// None of these; the worst value deviates by so many percent, if that says something.
    Missed(Option<f64>),
    /// Nothing is compared: background or an input.
    Context,
    /// Nothing is compared: the substitute is made from these figures.
    Given,
    /// Nobody but the authors can measure it.
    NotReproducible(String),
    /// Not measured.
    NotRun(String),
}

impl Outcome {
    /// Whether ours agree with what was reported.
    pub fn agrees(&self) -> bool {
        matches!(self, Self::Exact | Self::Within(_) | Self::Inside | Self::Holds)
    }

    /// Whether ours were compared at all.
    pub fn is_compared(&self) -> bool {
        self.agrees() || matches!(self, Self::DirectionOnly | Self::Missed(_))
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.outcome.is_compared() {
            write!(f, "{}", self.prefix())?;
        }
        self.write_outcome(f)?;
        if let Some(given) = self.given {
            let percent = rounded_up(given.percent);
            let words = if given.is_met { "within" } else { "missed by" };
            write!(f, "; given values {words} {percent} %")?;
        }
        if !self.repeats.is_empty() {
            write!(f, " (repeats {})", self.repeats.join(", "))?;
        }
        if self.older_code {
            write!(f, "; measured by older code")?;
        }
        Ok(())
    }
}

impl Verdict {
    /// What limits the comparison.
    fn prefix(&self) -> &'static str {
        match self.evidence {
            Some(Evidence::Measured) if self.substitute => "substitute input; ",
            Some(Evidence::Measured) => "",
            Some(Evidence::Executed) => "executed mechanism; ",
            Some(Evidence::Formula) => "formula; ",
            Some(Evidence::Arithmetic) => "arithmetic; ",
            Some(Evidence::CannotFail) => "cannot fail; ",
            Some(Evidence::None) | None => "unclassified; ",
        }
    }

    /// `reproduced` only where an execution on the paper's kind of input stands behind it.
    fn write_outcome(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_result = self.evidence.is_some_and(Evidence::is_result);
        let agrees = if is_result && !self.substitute { "reproduced" } else { "agrees" };
        let missed = if is_result { "not reproduced" } else { "disagrees" };
        match &self.outcome {
            Outcome::Exact => write!(f, "{agrees} exactly"),
            Outcome::Within(percent) => write!(f, "{agrees} within {} %", rounded_up(*percent)),
            Outcome::Inside => write!(f, "{agrees}, inside the range"),
            Outcome::Holds => write!(f, "holds"),
            Outcome::DirectionOnly => write!(f, "direction only"),
            Outcome::Missed(None) => write!(f, "{missed}"),
            Outcome::Missed(Some(percent)) => write!(f, "{missed}: off by {} %", rounded_up(*percent)),
            Outcome::Context => write!(f, "nothing to compare"),
            Outcome::Given => write!(f, "substitute input, made from these figures"),
            Outcome::NotReproducible(why) => write!(f, "not reproducible: {why}"),
            Outcome::NotRun(why) => write!(f, "not run: {why}"),
        }
    }
}

/// A percentage that a claim of "within" may name: rounded up, to one decimal below ten.
fn rounded_up(percent: f64) -> f64 {
    let up = |value: f64| (value - 1e-9).ceil().max(0.0);
    if percent < 10.0 { up(percent * 10.0) / 10.0 } else { up(percent) }
}

/// Judges a measured row.
///
/// `substitute` says whether the input stood in for the paper's. Values that the target names and ours lack make the row
/// not run; so do values of ours that the target neither names nor sets beside, since they may be what it should be
/// judged by.
pub fn judge(target: &Target, ours: &[Value], substitute: bool) -> Verdict {
    let is_given = |reported: &&Reported| substitute && reported.given;
    let (given, judged): (Vec<&Reported>, Vec<&Reported>) = target.values.iter().partition(is_given);
    let outcome = if let Some(of) = target.forgotten(ours.iter().map(|value| value.of.as_str())) {
        Outcome::NotRun(format!("the target neither judges `{of}` nor sets it beside"))
    } else if substitute && (target.given_to_substitute || !given.is_empty() && judged.is_empty()) {
        Outcome::Given
    } else {
        outcome(target, &judged, ours)
    };
    let given = if outcome == Outcome::Given { None } else { of_given(target, &given, ours) };
    Verdict {
        outcome,
        substitute,
        evidence: target.evidence,
        given,
        repeats: target.repeats.clone(),
        older_code: false,
    }
}

/// How the given values came out; a given value without a figure of ours is missed entirely.
fn of_given(target: &Target, given: &[&Reported], ours: &[Value]) -> Option<Given> {
    let deviation = |reported: &&Reported| {
        let ours = ours.iter().find(|value| value.of == reported.of);
        ours.map_or(100.0, |value| deviation_percent(reported, value.value))
    };
    let percent = given.iter().map(deviation).reduce(f64::max)?;
    Some(Given { percent, is_met: percent <= target.compare.given_percent })
}

/// The verdict on a row that nothing measured.
pub fn not_run(target: &Target, why: &str) -> Verdict {
    let outcome = match (target.compare.kind, target.class) {
        (Kind::Context, _) => Outcome::Context,
        _ if !target.not_reproducible.is_empty() => Outcome::NotReproducible(target.not_reproducible.clone()),
        (_, Class::Priv) if why.is_empty() => {
            Outcome::NotReproducible("only the authors have the traces".into())
        }
        _ if why.is_empty() => Outcome::NotRun("nothing here measures it".into()),
        _ => Outcome::NotRun(why.to_owned()),
    };
    let repeats = target.repeats.clone();
    Verdict { outcome, substitute: false, evidence: target.evidence, given: None, repeats, older_code: false }
}

fn outcome(target: &Target, judged: &[&Reported], ours: &[Value]) -> Outcome {
    if target.compare.kind == Kind::Context {
        return Outcome::Context;
    }
    let mut pairs = Vec::new();
    for &reported in judged {
        match ours.iter().find(|value| value.of == reported.of) {
            Some(value) if value.value.is_finite() => pairs.push((reported, value.value)),
            Some(_) => return Outcome::NotRun(format!("no figure for {}", named(reported))),
            None => return Outcome::NotRun(format!("{} was not measured", named(reported))),
        }
    }
    if pairs.is_empty() {
        return Outcome::NotRun("the target names no value".into());
    }
    match target.compare.kind {
        Kind::Digits => digits(&pairs),
        Kind::Within | Kind::Range => within(target, &pairs),
        Kind::Direction if has_direction(target, &pairs) => Outcome::DirectionOnly,
        Kind::Ordering if falls(target, &pairs) => Outcome::Holds,
        Kind::Holds if pairs.iter().all(|(_, ours)| *ours >= 1.0) => Outcome::Holds,
        Kind::Direction | Kind::Ordering | Kind::Holds | Kind::Context => Outcome::Missed(None),
    }
}

/// Whether every value is below the one before, by the margin at least.
fn falls(target: &Target, pairs: &[(&Reported, f64)]) -> bool {
    let left = 1.0 - target.compare.percent / 100.0;
    pairs.windows(2).all(|pair| pair[1].1 < pair[0].1 && pair[1].1 <= pair[0].1 * left)
}

fn named(reported: &Reported) -> &str {
    if reported.of.is_empty() { "the value" } else { &reported.of }
}

/// Deviation from the nearest reported value, percent of it; 0 inside a range. Infinite where 0 was reported and
/// missed.
pub fn deviation_percent(reported: &Reported, ours: f64) -> f64 {
    let (low, high) = reported.bounds();
    let nearest = ours.clamp(low, high);
    let distance = (ours - nearest).abs();
    if distance == 0.0 { 0.0 } else { 100.0 * distance / nearest.abs() }
}

fn digits(pairs: &[(&Reported, f64)]) -> Outcome {
    let is_equal = |(reported, ours): &(&Reported, f64)| match (reported.digits, reported.value) {
        (Some(digits), Some(value)) => rounds_to(*ours, value, digits),
        _ => deviation_percent(reported, *ours) == 0.0,
    };
    if pairs.iter().all(is_equal) { Outcome::Exact } else { Outcome::Missed(worst(pairs)) }
}

/// Whether a number rounded to so many decimals is the printed one; exact halves may go either way.
fn rounds_to(ours: f64, printed: f64, digits: u32) -> bool {
    let half_unit = 0.5 * 10f64.powf(-f64::from(digits));
    (ours - printed).abs() <= half_unit * (1.0 + 1e-9)
}

fn within(target: &Target, pairs: &[(&Reported, f64)]) -> Outcome {
    let worst = worst(pairs);
    match worst {
        Some(0.0) if target.compare.kind == Kind::Range => Outcome::Inside,
        Some(percent) if percent <= target.compare.percent => Outcome::Within(percent),
        _ if has_direction(target, pairs) => Outcome::DirectionOnly,
        _ => Outcome::Missed(worst),
    }
}

/// The largest deviation, unless it is relative to nothing.
fn worst(pairs: &[(&Reported, f64)]) -> Option<f64> {
    let deviations = pairs.iter().map(|(reported, ours)| deviation_percent(reported, *ours));
    deviations.reduce(f64::max).filter(|percent| percent.is_finite())
}

/// Whether every value lies on the reported side of where there is no effect.
fn has_direction(target: &Target, pairs: &[(&Reported, f64)]) -> bool {
    let Some(neutral) = target.compare.neutral else { return false };
    pairs.iter().all(|(reported, ours)| {
        let (low, high) = reported.bounds();
        (low >= neutral && high > neutral && *ours > neutral)
            || (high <= neutral && low < neutral && *ours < neutral)
    })
}
