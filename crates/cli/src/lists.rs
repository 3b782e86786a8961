//! Commands that print lists and descriptions.
//!
//! `devices`, `designs` and `workloads` list what a run can use. `schema`, `man` and `completions` describe the command
//! line for programs, readers and shells.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use wearwell::design;
use wearwell::nand::preset;
use wearwell_config::Config;
use wearwell_replay::ablate::Ablations;
use wearwell_replay::life::Lives;
use wearwell_replay::profile::Profiles;
use wearwell_replay::report::Comparison;
use wearwell_replay::sweep::SweepResults;
use wearwell_replay::{content_model, host_models, workload};

use crate::args::DocumentWithSchema;
use crate::command_definition;
use crate::{Failure, Outcome};

/// Returns the list of device presets, with size and source of each.
pub(crate) fn devices_text() -> String {
    let mut text =
        "auto         a small drive (2 channels x 2 dies, timing as lx-40g) sized to the trace; the default\n"
            .to_owned();
    for device in preset::all_presets() {
        let gib = device.geometry.physical_bytes() as f64 / (1u64 << 30) as f64;
        let _ = writeln!(text, "{:12} {gib:.0} GiB; {}", device.name, device.source_of_figures);
    }
    text
}

/// Returns the list of designs: the source of each, what is modelled and what is not.
pub(crate) fn designs_text() -> String {
    let mut text = String::new();
    for design in design::ALL {
        let _ = writeln!(text, "{}\n  source        {}", design.name, design.source);
        let _ = writeln!(
            text,
            "  modelled      {}\n  not modelled  {}\n",
            design.model_scope, design.model_limits
        );
    }
    text
}

/// Returns a named design as the text of a configuration file: its parts and options.
pub(crate) fn design_as_file_text(design: &str) -> Result<String, Failure> {
    Config::design_as_toml(design).map_err(|error| Failure::of_usage(error.to_string()))
}

/// Returns the explanation of the specifications of workloads and content models.
pub(crate) fn workloads_text() -> String {
    [
        workload::WORKLOAD_GRAMMAR.help_text(),
        host_models::HOST_MODEL_GRAMMAR.help_text(),
        content_model::CONTENT_MODEL_GRAMMAR.help_text(),
    ]
    .join("\n")
        + "\n"
}

/// Returns the JSON Schema of a document that a command writes or reads.
pub(crate) fn schema_text(of: DocumentWithSchema) -> String {
    let schema = match of {
        DocumentWithSchema::Runs => schemars::schema_for!(Comparison),
        DocumentWithSchema::Sweep => schemars::schema_for!(SweepResults),
        DocumentWithSchema::Lives => schemars::schema_for!(Lives),
        DocumentWithSchema::Ablations => schemars::schema_for!(Ablations),
        DocumentWithSchema::Profile => schemars::schema_for!(Profiles),
        DocumentWithSchema::Config => schemars::schema_for!(Config),
    };
    serde_json::to_string_pretty(&schema).expect("a schema is plain data") + "\n"
}

/// Writes manual pages of the command and of each subcommand into a folder.
///
/// # Errors
/// The folder cannot be created or written.
pub(crate) fn write_manual_pages(folder: &Path) -> Result<Outcome, Failure> {
    fs::create_dir_all(folder)
        .and_then(|()| clap_mangen::generate_to(command_definition(), folder))
        .map_err(|error| Failure::of_output_folder(folder, &error))?;
    Ok(Outcome::Done)
}

/// Returns the script by which a shell completes the arguments of the command.
pub(crate) fn completion_script(shell: clap_complete::Shell) -> String {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut command_definition(), "wearwell", &mut text);
    String::from_utf8(text).expect("completion scripts are text")
}
