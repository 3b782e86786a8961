//! What a comparison of ours with the reported figures says.
//!
//! A verdict is worth its strictness, so the rule is fixed here and the tolerances stand in the targets, not beside the
//! measurement: ours is reproduced if *every* value lies within the tolerance, and the worst one is quoted. A value that
//! misses it can still have the reported direction; else the row is not reproduced, and says so. Results from an
//! input that stands in for the paper's keep their comparison but carry the mark, since they are about the substitute.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::target::{Class, Kind, Reported, Target};

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
}

/// Results of a comparison.
#[derive(Clone, PartialEq, Debug)]
pub enum Outcome {
    /// Equal to the printed digits.
    Exact,
    /// Within the tolerance; the worst value deviates by so many percent.
    Within(f64),
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

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (prefix, within) =
            if self.substitute { ("substitute input; ", "within") } else { ("", "reproduced within") };
        match &self.outcome {
            Outcome::Exact => write!(f, "{prefix}reproduced exactly"),
            Outcome::Within(percent) => write!(f, "{prefix}{within} {} %", rounded_up(*percent)),
            Outcome::Holds => write!(f, "{prefix}holds"),
            Outcome::DirectionOnly => write!(f, "{prefix}direction only"),
            Outcome::Missed(None) => write!(f, "{prefix}not reproduced"),
            Outcome::Missed(Some(percent)) => {
                write!(f, "{prefix}not reproduced: off by {} %", rounded_up(*percent))
            }
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
/// `substitute` says whether the input stood in for the paper's. Values of ours that the target does not name are
/// ignored; values that the target names and ours lack make the row not run.
pub fn judge(target: &Target, ours: &[Value], substitute: bool) -> Verdict {
    let outcome =
        if substitute && target.given_to_substitute { Outcome::Given } else { outcome(target, ours) };
    Verdict { outcome, substitute }
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
    Verdict { outcome, substitute: false }
}

fn outcome(target: &Target, ours: &[Value]) -> Outcome {
    if target.compare.kind == Kind::Context {
        return Outcome::Context;
    }
    let mut pairs = Vec::new();
    for reported in &target.values {
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
        Kind::Ordering if pairs.windows(2).all(|pair| pair[0].1 > pair[1].1) => Outcome::Holds,
        Kind::Holds if pairs.iter().all(|(_, ours)| *ours >= 1.0) => Outcome::Holds,
        Kind::Direction | Kind::Ordering | Kind::Holds | Kind::Context => Outcome::Missed(None),
    }
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
