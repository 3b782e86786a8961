//! Simulates lives of drives for Python (an input is repeated until the drive is worn out), and shows several lives
//! together.

use pyo3::prelude::*;
use wearwell_replay::html_report;
use wearwell_replay::json::{FromJson, ToJson};
use wearwell_replay::life::{self as lives_of, Endurance, Leveling, LifeEndReason, LifeRecord, Lives};

use crate::configuration::Configuration;
use crate::input::Input;
use crate::progress_watch::ProgressWatch;
use crate::refusal_error;

/// Parses the JSON record of simulated lives of drives; the error is a `WearwellError`.
fn parse_life_record(record: &str) -> PyResult<LifeRecord> {
    LifeRecord::from_json(record).map_err(|error| {
        refusal_error(format!(
            "this text is not the JSON of a life ({error}): give what LifeResult.to_json() returns, or one element of \
             `drives` in the output of wearwell life --json"
        ))
    })
}

/// Parses the JSON of several records of simulated lives, which are shown together.
fn parse_lives(records: &[String]) -> PyResult<Lives> {
    Ok(Lives::of_drives(records.iter().map(|record| parse_life_record(record)).collect::<PyResult<_>>()?))
}

/// Returns the settings that select a kind of wear leveling for a drive with this configuration. `settings` are those
/// of the user; one that the wear leveling replaces is refused.
#[pyfunction]
pub(crate) fn leveling_settings(
    py: Python<'_>,
    input: &Input,
    configuration: &Configuration,
    design: &str,
    leveling: &str,
    settings: Vec<String>,
) -> PyResult<Vec<String>> {
    let leveling = Leveling::from_name(leveling).map_err(refusal_error)?;
    let ignored = lives_of::first_ignored_setting_sentence(&configuration.config);
    if let Some(sentence) = ignored.or_else(|| leveling.replaced_setting_sentence(&settings)) {
        return Err(refusal_error(sentence));
    }
    py.detach(|| {
        input.with_checked_plan(&configuration.config, design, None, |plan| {
            Ok(leveling.as_settings(plan.resolved_device().endurance_cycles))
        })
    })
}

/// Runs one simulated drive until it is worn out or the user presses ctrl-C. Returns a record with this life as JSON.
/// `is_filled` states whether the drive is full at the beginning, and `scale_to` is a capacity in bytes to which the
/// result is scaled. `endurance` is a tuple: the spread of the blocks' endurances, the share of blocks that fail early,
/// the share of failures that occur at a program, and the number of spare blocks below which the drive is worn out.
#[pyfunction]
#[pyo3(signature = (input, configuration, design, leveling, endurance, is_filled, scale_to = None, on_progress = None))]
#[expect(clippy::too_many_arguments, reason = "what a life depends on")]
pub(crate) fn run_life(
    py: Python<'_>,
    input: &Input,
    configuration: &Configuration,
    design: &str,
    leveling: &str,
    endurance: (f64, f64, f64, f64),
    is_filled: bool,
    scale_to: Option<u64>,
    on_progress: Option<Py<PyAny>>,
) -> PyResult<String> {
    let (spread, early_share, program_share, spare_minimum) = endurance;
    let endurance = Endurance { spread, early_share, program_share, spare_minimum };
    if let Some(sentence) = endurance.first_invalid_value_sentence() {
        return Err(refusal_error(sentence));
    }
    let leveling = Leveling::from_name(leveling).map_err(refusal_error)?;
    py.detach(|| {
        let mut watch = ProgressWatch::new(on_progress);
        let record = input.with_checked_plan(&configuration.config, design, None, |plan| {
            let record = plan.new_life_record(design, leveling, endurance);
            let mut record = LifeRecord { is_filled, scale_to_bytes: scale_to, ..record };
            plan.run_life(&mut record, &mut |progress| watch.report_progress(progress))
                .map_err(refusal_error)?;
            if record.lives.iter().all(|life| life.end != LifeEndReason::Interrupted) {
                watch.report_end(None);
            }
            Ok(record)
        });
        watch.into_exception()?;
        Ok(record?.to_json())
    })
}

/// Joins records of drives that differ only in their seed, one life per record, to one record of all lives with
/// estimates and curves.
#[pyfunction]
pub(crate) fn join_lives(records: Vec<String>) -> PyResult<String> {
    let mut records = records.iter().map(|record| parse_life_record(record));
    let mut joined = records
        .next()
        .ok_or_else(|| refusal_error("the list of lives to join is empty: give at least one life"))??;
    for record in records {
        joined.add_lives_of(record?);
    }
    Ok(joined.with_curves().to_json())
}

/// Returns the command line's table of lives, one column per record.
#[pyfunction]
pub(crate) fn table_of_lives(records: Vec<String>) -> PyResult<String> {
    Ok(lives_of::lives_table(&parse_lives(&records)?.drives))
}

/// Returns the HTML page of drives' lives.
#[pyfunction]
pub(crate) fn html_page_of_lives(records: Vec<String>) -> PyResult<String> {
    Ok(html_report::html_page(&parse_lives(&records)?))
}

/// Returns the tables and notes of the HTML page of drives' lives, without its charts.
#[pyfunction]
pub(crate) fn html_tables_of_lives(records: Vec<String>) -> PyResult<String> {
    Ok(html_report::tables_html(&parse_lives(&records)?))
}
