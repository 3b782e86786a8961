//! Ablations for Python: the configurations of all subsets of some content mechanisms, and the gains of each mechanism
//! computed from their runs. Python code makes the runs.

use pyo3::prelude::*;
use wearwell_replay::ablate::{self, AblatedMechanisms, Ablation, Ablations, SubsetOutcome};
use wearwell_replay::html_report;
use wearwell_replay::json::{FromJson, ToJson};

use crate::configuration::Configuration;
use crate::refusal_error;
use crate::report::parse_run_record;

/// Parses names of content mechanisms; the error is a `WearwellError`.
fn parse_mechanisms(parts: &[String]) -> PyResult<AblatedMechanisms> {
    AblatedMechanisms::parse_names(parts).map_err(refusal_error)
}

/// Parses the JSON of an ablation; the error is a `WearwellError`.
fn parse_ablation(ablation: &str) -> PyResult<Ablation> {
    Ablation::from_json(ablation).map_err(|error| {
        refusal_error(format!(
            "this text is not the JSON of an ablation ({error}): give what AblationResult.to_json() returns, or one \
             element of `ablations` in the output of wearwell ablate --json"
        ))
    })
}

/// Returns every subset of the mechanisms as a pair: its name, and the setting that gives a design these mechanisms. The
/// empty subset is the first, and the whole is the last.
#[pyfunction]
pub(crate) fn subsets_of_mechanisms(parts: Vec<String>) -> PyResult<Vec<(String, String)>> {
    let mechanisms = parse_mechanisms(&parts)?;
    let subset = |subset| (mechanisms.subset_name(subset), mechanisms.subset_setting(subset));
    Ok(mechanisms.subsets().map(subset).collect())
}

/// Outcome of the run of a subset of mechanisms: the configuration, the record of the run as JSON, and the message of a
/// subset that was refused. A subset without record and message was not run.
type SubsetRun<'py> = (PyRef<'py, Configuration>, Option<String>, Option<String>);

/// Computes an ablation from the outcomes of all subsets of the mechanisms, in the order of `subsets_of_mechanisms`.
/// Returns it as JSON.
#[pyfunction]
pub(crate) fn ablation_of_runs(
    input_name: String,
    design: String,
    parts: Vec<String>,
    runs: Vec<SubsetRun<'_>>,
) -> PyResult<String> {
    let mechanisms = parse_mechanisms(&parts)?;
    let (mut outcomes, mut persistences) = (Vec::new(), Vec::new());
    for (configuration, record, refusal) in runs {
        persistences.push(configuration.config.clone().keep_persistence_of_design(&design));
        outcomes.push(match (record, refusal) {
            (Some(record), _) => SubsetOutcome::Ran(Box::new(parse_run_record(&record)?)),
            (None, Some(sentence)) => SubsetOutcome::Refused(sentence),
            (None, None) => SubsetOutcome::NotRun,
        });
    }
    let ablation = Ablation::of_outcomes((input_name, design, String::new()), &mechanisms, outcomes);
    Ok(ablation.with_note_of_changed_persistence(&persistences).to_json())
}

/// Returns an ablation as the text that `wearwell ablate` prints.
#[pyfunction]
pub(crate) fn table_of_ablation(ablation: &str) -> PyResult<String> {
    Ok(ablate::ablation_text(&parse_ablation(ablation)?))
}

/// Returns the HTML page of an ablation.
#[pyfunction]
pub(crate) fn html_page_of_ablation(ablation: &str) -> PyResult<String> {
    Ok(html_report::html_page(&Ablations::of_ablations(vec![parse_ablation(ablation)?])))
}

/// Returns the tables and notes of the HTML page of an ablation, without its charts.
#[pyfunction]
pub(crate) fn html_tables_of_ablation(ablation: &str) -> PyResult<String> {
    Ok(html_report::tables_html(&Ablations::of_ablations(vec![parse_ablation(ablation)?])))
}
