//! The commands `replay`, `compare` and `config`, and what all commands that run designs share: configurations, inputs,
//! outputs.

use std::fmt::Display;
use std::path::{Path, PathBuf};

use wearwell_config::{
    Config, MAX_BLOCK_CHART_CELLS, Precondition, SettingIgnoredByDesigns, key_of_setting,
    refuse_value_listed_twice,
};
use wearwell_replay::data_table::DataTable;
use wearwell_replay::html_report::{self, HtmlReport};
use wearwell_replay::input::Input;
use wearwell_replay::json::ToJson;
use wearwell_replay::record::RunRecord;
use wearwell_replay::replay::{MAX_TRACED_OPS_AND_REQUESTS, Plan, ReplayError, RunTrace, TraceWindow};
use wearwell_replay::report::Comparison;
use wearwell_replay::result_folder::{ResultFolder, StorableResult};

use crate::args::{CompareArgs, ConfigArgs, ReplayArgs, ReportArgs, ResultArgs, RunArgs};
use crate::data_output::TableOutput;
use crate::input::TraceFile;
use crate::jobs::run_concurrently;
use crate::output::{OutputDestination, OverwriteRule, file_of_output, print, print_message};
use crate::progress::ProgressReporter;
use crate::{Failure, Outcome};

/// Executes the command `replay`: runs one design on one input.
pub(crate) fn replay(args: &ReplayArgs) -> Result<Outcome, Failure> {
    let perfetto = PerfettoOutput::from_args(args)?;
    run_designs_on_inputs(
        args.trace.iter(),
        std::slice::from_ref(&args.design),
        &args.run,
        perfetto.as_ref(),
    )?
    .write_and_print(&args.run)
}

/// Executes the command `compare`: runs several designs on each input.
pub(crate) fn compare(args: &CompareArgs) -> Result<Outcome, Failure> {
    run_designs_on_inputs(args.traces.iter(), &args.designs, &args.run, None)?.write_and_print(&args.run)
}

/// Output file of the trace of single flash operations (`--perfetto`), and the part of the run that it contains.
struct PerfettoOutput {
    /// File or standard output to which the trace is written.
    output: OutputDestination,
    /// Part of the run whose flash operations are traced: a range of requests or of simulated time.
    window: TraceWindow,
}

impl PerfettoOutput {
    /// Checks that the trace of flash operations (`--perfetto`) can be written with these arguments; `None` if the user
    /// did not request one.
    fn from_args(args: &ReplayArgs) -> Result<Option<Self>, Failure> {
        let Some(path) = &args.perfetto else { return Ok(None) };
        if args.run.configuration.sweep_points().len() > 1 {
            return Err(Failure::of_usage(
                "--perfetto writes the trace of one run, but the values of --over-provisioning and --gc-policy make \
                 several runs: give one value of each of these options",
            ));
        }
        let inputs: Vec<&Path> =
            args.trace.iter().chain(&args.run.configuration.config).map(PathBuf::as_path).collect();
        let overwrite = OverwriteRule { input_paths: &inputs, force: args.run.results.report.force };
        let [json, csv, parquet, report] = outputs_by_option(&args.run.results);
        refuse_outputs_named_twice([json, csv, parquet, report, ("--perfetto", Some(path.as_path()))])?;
        let window = args.perfetto_window.clone().unwrap_or_default();
        Ok(Some(Self { output: OutputDestination::for_path(path, &overwrite)?, window }))
    }

    /// Writes the trace of the run, and tells the user if it does not contain all that was requested.
    fn write(&self, trace: &RunTrace, quiet: bool) -> Result<(), Failure> {
        let last = trace.requests.iter().map(|request| request.traced_request.request_number).max();
        if !quiet && last.is_none() {
            print_message(
                "wearwell: note: the trace is empty: the run has nothing in the window (--perfetto-window)",
            );
        }
        if let (false, true, Some(last)) = (quiet, trace.is_truncated, last) {
            print_message(&format!(
                "wearwell: note: the trace ends with request {last}, because it is bounded to about {MAX_TRACED_OPS_AND_REQUESTS} operations \
                 and requests; --perfetto-window {last}.. continues it"
            ));
        }
        self.output.write_bytes(&trace.to_perfetto())
    }
}

/// Executes the command `config`: prints the configuration that a run would use.
pub(crate) fn show_config(args: &ConfigArgs) -> Result<Outcome, Failure> {
    if args.sweep_points().len() > 1 {
        return Err(Failure::of_usage(
            "config prints the configuration of one run, but the values of --over-provisioning and --gc-policy make \
             several: give one value of each of these options",
        ));
    }
    print(&config_with_settings(args, &[])?.to_toml())?;
    Ok(Outcome::Done)
}

/// Returns the configuration of the command line, with additional settings that override it.
pub(crate) fn config_with_settings(args: &ConfigArgs, settings: &[String]) -> Result<Config, Failure> {
    let mut all = args.all_settings();
    all.extend_from_slice(settings);
    read_config(args.config.as_deref(), &all)
}

/// Reads a configuration from an optional file and from settings, which override the file.
pub(crate) fn read_config(path: Option<&Path>, settings: &[String]) -> Result<Config, Failure> {
    Config::read(path, settings).map_err(|error| Failure::of_usage(error.to_string()))
}

/// The output files of a command, checked before anything runs.
pub(crate) struct Outputs {
    /// File of the records as JSON (`--json`); `None` if none is requested.
    pub(crate) json_output: Option<OutputDestination>,
    /// CSV and Parquet files to which the table of results is written.
    table_outputs: Vec<TableOutput>,
    /// File of the HTML page (`--report`); `None` if none is requested.
    html_output: Option<OutputDestination>,
    /// Whether the trace of flash operations (`--perfetto`) is written to standard output, so that no table is printed
    /// there.
    perfetto_uses_stdout: bool,
}

impl Outputs {
    /// Checks the output files of a command that runs designs on these traces.
    pub(crate) fn of_run_args<'a>(
        args: &'a RunArgs,
        traces: impl Iterator<Item = &'a PathBuf>,
    ) -> Result<Self, Failure> {
        let inputs: Vec<&Path> = traces.chain(&args.configuration.config).map(PathBuf::as_path).collect();
        Self::of_result_args(&args.results, &inputs)
    }

    /// Checks the output files of a command that reads these inputs and whose results are records of runs.
    pub(crate) fn of_result_args(args: &ResultArgs, inputs: &[&Path]) -> Result<Self, Failure> {
        let ResultArgs { json, csv, parquet, report } = args;
        let overwrite = OverwriteRule { input_paths: inputs, force: report.force };
        // Parquet on standard output excludes every other output there, also those that other options name.
        let [json_path, csv_path, (option, parquet_path), report_path] = outputs_by_option(args);
        let parquet_file = (option, parquet_path.filter(|path| *path != Path::new("-")));
        refuse_outputs_named_twice([json_path, csv_path, parquet_file, report_path])?;
        let mut outputs = Self::of_json_and_report(json.as_deref(), report, inputs)?;
        if let Some(path) = csv {
            outputs.table_outputs.push(TableOutput::csv(path, &overwrite)?);
        }
        if let Some(path) = parquet {
            let output = TableOutput::parquet(path, &overwrite)?;
            if output.is_standard_output() && outputs.has_stdout_result() {
                return Err(Failure::of_usage(
                    "--parquet - writes to standard output, so that no other result can be written there: name a \
                     file for each of the other results",
                ));
            }
            outputs.table_outputs.push(output);
        }
        Ok(outputs)
    }

    /// Checks the output files of a command that reads these inputs and whose result cannot be written as a table (CSV
    /// or Parquet).
    pub(crate) fn of_json_and_report(
        json: Option<&Path>,
        report: &ReportArgs,
        inputs: &[&Path],
    ) -> Result<Self, Failure> {
        refuse_outputs_named_twice([("--json", json), ("--report", report.report_path.as_deref())])?;
        let overwrite = OverwriteRule { input_paths: inputs, force: report.force };
        let at =
            |path: Option<&Path>| path.map(|path| OutputDestination::for_path(path, &overwrite)).transpose();
        let (json, page) = (at(json)?, at(report.report_path.as_deref())?);
        Ok(Self {
            json_output: json,
            table_outputs: Vec::new(),
            html_output: page,
            perfetto_uses_stdout: false,
        })
    }

    /// Returns whether a result is written to standard output, so that no table may be printed there.
    pub(crate) fn has_stdout_result(&self) -> bool {
        self.perfetto_uses_stdout
            || [&self.json_output, &self.html_output]
                .into_iter()
                .flatten()
                .any(OutputDestination::is_standard_output)
            || self.table_outputs.iter().any(TableOutput::is_standard_output)
    }

    /// Writes the table of a result to the CSV and Parquet files that the user requested.
    pub(crate) fn write_tables(&self, table: &DataTable) -> Result<(), Failure> {
        self.table_outputs.iter().try_for_each(|output| output.write(table))
    }

    /// Writes the HTML page of a result, if the user requested one.
    pub(crate) fn write_html_page(&self, result: &dyn HtmlReport) -> Result<(), Failure> {
        self.html_output.as_ref().map_or(Ok(()), |output| output.write(&html_report::html_page(result)))
    }
}

/// Returns the options that name an output for the records of runs, each with the path that the user gave it, if any.
pub(crate) fn outputs_by_option(args: &ResultArgs) -> [(&'static str, Option<&Path>); 4] {
    let ResultArgs { json, csv, parquet, report } = args;
    [
        ("--json", json.as_deref()),
        ("--csv", csv.as_deref()),
        ("--parquet", parquet.as_deref()),
        ("--report", report.report_path.as_deref()),
    ]
}

/// Refuses a trace, a design, or a value of `--over-provisioning` or `--gc-policy` that is listed twice, because its runs
/// would be equal.
pub(crate) fn refuse_equal_runs<'a>(
    traces: impl Iterator<Item = &'a PathBuf>,
    designs: &[String],
    args: &RunArgs,
) -> Result<(), Failure> {
    let traces: Vec<String> = traces.map(|path| path.display().to_string()).collect();
    refuse_listed_twice("the command line", &traces)?;
    refuse_listed_twice("--designs", designs)?;
    refuse_listed_twice("--over-provisioning", &args.configuration.over_provisioning)?;
    refuse_listed_twice("--gc-policy", &args.configuration.gc_policy)
}

/// Refuses a value that an option of the command line lists twice.
pub(crate) fn refuse_listed_twice<T: PartialEq + Display>(option: &str, values: &[T]) -> Result<(), Failure> {
    refuse_value_listed_twice(option, values).map_err(|error| Failure::of_usage(error.to_string()))
}

/// Refuses two results in one file, or on standard output (`-`), where the second would replace or break the first.
pub(crate) fn refuse_outputs_named_twice<const COUNT: usize>(
    outputs: [(&str, Option<&Path>); COUNT],
) -> Result<(), Failure> {
    let files = outputs.map(|(_, path)| path.map(file_of_output));
    for (at, (option, path)) in outputs.iter().enumerate() {
        let same =
            (0..at).find(|&other| path.is_some() && files[other] == files[at]).map(|other| outputs[other]);
        if let (Some((other, _)), Some(path)) = (same, path) {
            return Err(Failure::of_usage(format!(
                "{other} and {option} both name {}: name a different file for each of them",
                path.display()
            )));
        }
    }
    Ok(())
}

/// The runs that a command has made, and its output files.
struct FinishedRuns {
    /// Records of the finished runs, by design and input.
    comparison: Comparison,
    /// Output files to which the records are written.
    outputs: Outputs,
    /// Whether every design ran to the end on every input of the command.
    is_complete: bool,
    /// First failure of a run on the only input, or wrong usage that was found after other runs; it ends the command
    /// after the finished runs are reported.
    failure: Option<Failure>,
}

impl FinishedRuns {
    /// Writes the records of the runs to the requested files, and prints their table unless standard output holds a
    /// result. Then returns the failure of another run, if there is one.
    fn write_and_print(self, args: &RunArgs) -> Result<Outcome, Failure> {
        if self.comparison.runs.is_empty() {
            return Err(Failure::interrupted());
        }
        if let Some(output) = &self.outputs.json_output {
            output.write(&format!("{}\n", self.comparison.to_pretty_json()))?;
        }
        self.outputs.write_tables(&self.comparison.data_table())?;
        self.outputs.write_html_page(&self.comparison)?;
        if args.quiet || self.outputs.has_stdout_result() {
            print_partial_runs(&self.comparison);
        } else {
            let table =
                if args.markdown { self.comparison.to_markdown() } else { self.comparison.to_table() };
            print(&table)?;
        }
        let outcome = if self.is_complete { Outcome::Done } else { Outcome::Partial };
        self.failure.map_or(Ok(outcome), Err)
    }
}

/// Prints to standard error why runs ended early (the exit status is then 3). Used by commands that print no table,
/// because the tables also have these reasons.
pub(crate) fn print_partial_runs(comparison: &Comparison) {
    let lines = comparison.partial_run_lines();
    if !lines.is_empty() {
        print_message(lines.trim_end_matches('\n'));
    }
}

/// Runs every design on every input at every point of the parameter sweep. Finished runs are reported even if Ctrl-C
/// ends the current runs or another run fails.
fn run_designs_on_inputs<'a>(
    traces: impl Iterator<Item = &'a PathBuf> + Clone,
    designs: &[String],
    args: &'a RunArgs,
    perfetto: Option<&PerfettoOutput>,
) -> Result<FinishedRuns, Failure> {
    refuse_equal_runs(traces.clone(), designs, args)?;
    let mut outputs = Outputs::of_run_args(args, traces.clone())?;
    outputs.perfetto_uses_stdout = perfetto.is_some_and(|perfetto| perfetto.output.is_standard_output());
    let config = config_with_settings(&args.configuration, &[])?;
    let variants: Vec<DesignVariant> = designs.iter().map(|text| DesignVariant::parse(text)).collect();
    let named: Vec<String> = variants.iter().map(|variant| variant.design.clone()).collect();
    let points = args.configuration.sweep_points();
    refuse_overridden_settings(
        args.configuration.all_settings().iter().chain(points.iter().flatten()),
        &variants,
    )?;
    let reporter = ProgressReporter::new(args.quiet);
    refuse_ignored_settings(args, &named, &reporter, |point| {
        config_with_settings(&args.configuration, point)
    })?;
    let sources = input_sources(traces, args, &config)?;
    let recorded = setting_to_record_block_map(
        args,
        &config,
        block_chart_cells_per_run(sources.len() * points.len() * variants.len()),
    );
    let configurations = Configurations::combine(&points, &variants, |settings| {
        config_with_settings(&args.configuration, &[recorded.as_slice(), settings].concat())
    })?;
    let mut comparison = Comparison::of_runs(Vec::new());
    let check = UnusedOptionCheck::of_inputs(&sources, args, &reporter);
    let inputs_outcome = for_each_input(&sources, &reporter, |source| {
        run_designs_on_one_input(source, &configurations, args, perfetto, &check, &mut comparison)
    });
    let (are_inputs_read, failure) = match inputs_outcome {
        Err(failure) if comparison.runs.is_empty() => return Err(failure),
        Ok(false) if comparison.runs.is_empty() => return Err(Failure::no_replayable_input()),
        Err(failure) => (false, Some(failure)),
        Ok(are_inputs_read) => (are_inputs_read, None),
    };
    let is_complete = are_inputs_read
        && comparison.runs.len() == sources.len() * configurations.runs.len()
        && comparison.runs.iter().all(|run| !run.partial);
    Ok(FinishedRuns { comparison, outputs, is_complete, failure })
}

/// Number of cells of the block maps (charts of the blocks' state) in an HTML page: the total over all runs of the
/// page, and the least per run.
const BLOCK_CHART_CELLS_TOTAL_AND_MIN_PER_RUN: [usize; 2] = [8192, 64];

/// Returns the number of cells per run of the block map (a chart of the blocks' state); it decreases with the number of
/// runs on the page.
fn block_chart_cells_per_run(runs: usize) -> u32 {
    let [of_all, least] = BLOCK_CHART_CELLS_TOTAL_AND_MIN_PER_RUN;
    (of_all / runs.max(1)).clamp(least, MAX_BLOCK_CHART_CELLS as usize) as u32
}

/// Returns the setting that makes a run record its block map (a chart of the blocks' state, with this number of cells)
/// for the HTML page; `None` if the user has set the number or requested no page.
pub(crate) fn setting_to_record_block_map(args: &RunArgs, config: &Config, cells: u32) -> Option<String> {
    let is_wanted = args.results.report.report_path.is_some() && config.replay.timeline_cells.is_none();
    is_wanted.then(|| format!("replay.timeline_cells={cells}"))
}

/// Calls `run` for each input until ctrl-C. If there are several inputs, one that cannot be read is reported and
/// skipped. Returns whether all inputs until then could be read.
pub(crate) fn for_each_input(
    sources: &[InputSource],
    reporter: &ProgressReporter,
    mut run: impl FnMut(&InputSource) -> Result<(), Failure>,
) -> Result<bool, Failure> {
    let mut complete = true;
    for source in sources {
        if reporter.is_interrupted() {
            break;
        }
        match run(source) {
            Err(_) if reporter.is_interrupted() => break,
            Err(failure) if sources.len() > 1 && !failure.is_usage_failure() => {
                failure.print();
                complete = false;
            }
            ended => ended?,
        }
    }
    Ok(complete)
}

/// Opens the folder of finished results that `--resume` names.
pub(crate) fn open_result_folder<T: StorableResult>(
    folder: Option<&Path>,
) -> Result<Option<ResultFolder<T>>, Failure> {
    let kept = |folder| ResultFolder::open(folder).map_err(|error| Failure::of_output_folder(folder, &error));
    folder.map(kept).transpose()
}

/// A design, perhaps with settings that apply to it alone.
pub(crate) struct DesignVariant {
    /// Name of the design.
    pub(crate) design: String,
    /// Settings (`section.key=value`) that apply to this design alone.
    pub(crate) settings: Vec<String>,
}

impl DesignVariant {
    /// Parses `design` or `design:section.key=value:section.key=value`. A part without a key is appended to the value
    /// before it.
    pub(crate) fn parse(text: &str) -> Self {
        let mut parts = text.split(':');
        let design = parts.next().unwrap_or_default().to_owned();
        let mut settings: Vec<String> = Vec::new();
        for part in parts {
            let names_key = part.split_once('=').is_some_and(|(key, _)| key.contains('.'));
            match settings.last_mut() {
                Some(last) if !names_key => *last = format!("{last}:{part}"),
                _ => settings.push(part.to_owned()),
            }
        }
        Self { design, settings }
    }

    /// Refuses settings that are given for one design alone if that design does not use them.
    pub(crate) fn refuse_ignored_settings(&self, config: &Config) -> Result<(), Failure> {
        refuse_settings_ignored_by_design(config, &self.settings, &self.design)
    }
}

/// Refuses settings that the design does not use.
pub(crate) fn refuse_settings_ignored_by_design(
    config: &Config,
    settings: &[String],
    design: &str,
) -> Result<(), Failure> {
    match config.ignored_settings(settings, &[design.to_owned()]).first() {
        None => Ok(()),
        Some(ignored) => Err(Failure::of_usage(ignored.to_string())),
    }
}

/// A run that a command makes on every input: a design with one of the command's configurations.
#[derive(Clone)]
pub(crate) struct ConfiguredRun {
    /// Index of the run's configuration in [`Configurations::configs`].
    pub(crate) config_index: usize,
    /// Name of the run's design.
    pub(crate) design: String,
    /// Text of the settings that distinguish the run from other runs of the command; empty if there are none.
    pub(crate) settings_text: String,
}

impl ConfiguredRun {
    /// Returns the name of the run in progress messages: the design and the settings that distinguish the run.
    pub(crate) fn progress_label(&self) -> String {
        format!("{} {}", self.design, self.settings_text).trim_end().to_owned()
    }
}

/// The configurations of a command, and the runs that it makes on every input.
pub(crate) struct Configurations {
    /// Distinct configurations of the runs; several runs may share one.
    pub(crate) configs: Vec<Config>,
    /// Runs that are made on every input.
    pub(crate) runs: Vec<ConfiguredRun>,
}

impl Configurations {
    /// Combines every design (with settings of its own) with every point of the parameter sweep. `config_of` returns
    /// the configuration with the given settings, which override all others.
    pub(crate) fn combine(
        settings_of_points: &[Vec<String>],
        variants: &[DesignVariant],
        config_of: impl Fn(&[String]) -> Result<Config, Failure>,
    ) -> Result<Self, Failure> {
        let (mut configs, mut runs): (Vec<Config>, _) = (Vec::new(), Vec::new());
        for point in settings_of_points {
            for variant in variants {
                let settings = [point.clone(), variant.settings.clone()].concat();
                let config = config_of(&settings)?;
                variant.refuse_ignored_settings(&config)?;
                let known = configs.iter().position(|other| *other == config);
                let config_index = known.unwrap_or(configs.len());
                if known.is_none() {
                    configs.push(config);
                }
                let (design, settings_text) = (variant.design.clone(), settings_text(&settings));
                runs.push(ConfiguredRun { config_index, design, settings_text });
            }
        }
        Ok(Self { configs, runs })
    }

    /// Returns the text in the record of a run that distinguishes it from other runs of its design.
    pub(crate) fn variant_of_run(&self, run: &ConfiguredRun) -> String {
        self.configs[run.config_index].run_label(&run.settings_text)
    }
}

/// Returns the text of the settings (each `section.key=value`) that distinguish a run from others. If a key has several
/// values, only the last one is in the text, because it is the one that counts.
fn settings_text(settings: &[String]) -> String {
    let key_and_value = |setting: &String| {
        let (key, value) = setting.split_once('=').unwrap_or((setting, ""));
        (key.trim().to_owned(), value.trim().replace('"', ""))
    };
    let all: Vec<(String, String)> = settings.iter().map(key_and_value).collect();
    let is_last =
        |(at, (key, _)): &(usize, &(String, String))| all[at + 1..].iter().all(|(later, _)| later != key);
    let counting = all.iter().enumerate().filter(is_last);
    counting.map(|(_, (key, value))| format!("{key}={value}")).collect::<Vec<_>>().join(" ")
}

/// Refuses a setting given for all designs if every design has a setting of its own with the same key, so that no run
/// would use it.
pub(crate) fn refuse_overridden_settings<'a>(
    settings: impl IntoIterator<Item = &'a String>,
    variants: &[DesignVariant],
) -> Result<(), Failure> {
    let is_set_by =
        |variant: &DesignVariant, key: &str| variant.settings.iter().any(|own| key_of_setting(own) == key);
    let mut keys = settings.into_iter().map(|setting| key_of_setting(setting));
    match keys.find(|key| variants.iter().all(|variant| is_set_by(variant, key))) {
        None => Ok(()),
        Some(key) => Err(Failure::of_usage(format!(
            "{key} has no effect, because every design of the command has a value of its own for it: leave it out, or \
             leave it out of a design"
        ))),
    }
}

/// Refuses settings of the command line that no run uses, and prints a note about those that only some runs use. The
/// settings include those that are varied. `config_of` returns the configuration of the runs with these values of the
/// varied settings.
pub(crate) fn refuse_ignored_settings(
    args: &RunArgs,
    designs: &[String],
    reporter: &ProgressReporter,
    config_of: impl Fn(&[String]) -> Result<Config, Failure>,
) -> Result<(), Failure> {
    let ignored_by = |point: Vec<String>| {
        let settings = [args.configuration.all_settings(), point.clone()].concat();
        Ok(config_of(&point)?.ignored_settings(&settings, designs))
    };
    let ignored: Vec<_> =
        args.configuration.sweep_points().into_iter().map(ignored_by).collect::<Result<_, Failure>>()?;
    refuse_settings_ignored_by_all(&ignored, reporter)
}

/// Refuses a setting that no run uses, and prints a note about one that only some runs use. Each list has the settings
/// that the runs of one configuration ignore.
pub(crate) fn refuse_settings_ignored_by_all(
    ignored_by_configuration: &[Vec<SettingIgnoredByDesigns>],
    reporter: &ProgressReporter,
) -> Result<(), Failure> {
    let is_never_used = |key: &str| {
        let ignores = |one: &SettingIgnoredByDesigns| one.setting_key == key && one.is_ignored_by_all_designs;
        ignored_by_configuration.iter().all(|ignored| ignored.iter().any(ignores))
    };
    let mut noted: Vec<&SettingIgnoredByDesigns> = Vec::new();
    for ignored in ignored_by_configuration.iter().flatten() {
        if is_never_used(&ignored.setting_key) {
            return Err(Failure::of_usage(ignored.to_string()));
        }
        if !noted.contains(&ignored) {
            reporter.print_message(&format!("note: {ignored}"));
            noted.push(ignored);
        }
    }
    Ok(())
}

/// The input of a run, as the user names it: the path of a trace, or the specification of a generated workload.
pub(crate) enum InputSource {
    /// A generated workload.
    Generated(Input),
    /// A trace: its path, and the options for opening it.
    Trace(PathBuf, wearwell_trace::OpenOptions),
}

/// An opened input and, for a trace, its file: perhaps a temporary copy of a stream.
pub(crate) struct OpenedInput {
    /// The opened trace or generated workload.
    pub(crate) input: Input,
    /// File of the trace, perhaps a temporary copy of a stream; `None` for a generated workload.
    trace_file: Option<TraceFile>,
}

impl InputSource {
    /// Opens the input for runs of these configurations, as [`Self::open_repeatable`] does. If the input is a pipe or
    /// standard input, only the requests that the runs will read are copied.
    ///
    /// # Errors
    /// Those of [`TraceFile::open_repeatable`].
    pub(crate) fn open_for_runs<'a>(
        &self,
        configs: impl IntoIterator<Item = &'a Config>,
        reporter: &ProgressReporter,
    ) -> Result<OpenedInput, Failure> {
        let max_requests = max_requests_read(configs);
        let opened = self.open_repeatable(max_requests, || reporter.is_interrupted())?;
        if let (Some(TraceFile { is_truncated_copy: true, .. }), Some(requests)) =
            (&opened.trace_file, max_requests)
        {
            reporter.print_message(&format!(
                "wearwell: note: {}: only {requests} requests are read (replay.requests), and a drive that is sized to its \
                 input is sized to these",
                opened.input.name()
            ));
        }
        Ok(opened)
    }

    /// Opens the input in a form that can be read repeatedly: a pipe or standard input is copied to a temporary file,
    /// up to `max_requests` requests if this is set, and until `is_interrupted` returns true.
    ///
    /// # Errors
    /// Those of [`TraceFile::open_repeatable`].
    pub(crate) fn open_repeatable(
        &self,
        max_requests: Option<u64>,
        is_interrupted: impl Fn() -> bool,
    ) -> Result<OpenedInput, Failure> {
        match self {
            Self::Generated(input) => Ok(OpenedInput { input: input.clone(), trace_file: None }),
            Self::Trace(path, options) => {
                let file = TraceFile::open_repeatable(path, options, max_requests, is_interrupted)?;
                let input = Input::Trace { path: file.path.clone(), options: file.options.clone() };
                Ok(OpenedInput { input, trace_file: Some(file) })
            }
        }
    }
}

/// Returns how many requests runs of these configurations read of their input; `None` if a run reads it to the end.
fn max_requests_read<'a>(configs: impl IntoIterator<Item = &'a Config>) -> Option<u64> {
    let of_config = |config: &Config| {
        // A share of all requests of the input ages the drive.
        let is_aged_by_part =
            config.precondition.mode == Precondition::Aged && config.precondition.trace.is_none();
        config.replay.requests.filter(|_| !is_aged_by_part)
    };
    configs.into_iter().map(of_config).try_fold(0, |most: u64, requests| Some(most.max(requests?)))
}

/// Returns the inputs that the command line names: one workload, or any number of traces.
pub(crate) fn input_sources<'a>(
    traces: impl Iterator<Item = &'a PathBuf>,
    args: &RunArgs,
    config: &Config,
) -> Result<Vec<InputSource>, Failure> {
    if let Some(spec) = &args.workload {
        args.input.refuse_trace_options_for_workload()?;
        let input = Input::of_generator_spec_with_default_seed(spec, config.seed())
            .map_err(|error| Failure::of_usage(error.to_string()))?;
        return Ok(vec![InputSource::Generated(input)]);
    }
    let options = args.input.open_options()?;
    let open = |path: &PathBuf| {
        let is_workload =
            |spec: &str| Input::of_generator_spec_with_default_seed(spec, config.seed()).is_ok();
        match path.to_str().filter(|&spec| !path.exists() && is_workload(spec)) {
            Some(spec) => Err(Failure::of_usage(format!(
                "there is no trace `{spec}`: to generate this workload, give it as --workload {spec}"
            ))),
            None => Ok(InputSource::Trace(path.clone(), options.clone())),
        }
    };
    traces.map(open).collect()
}

/// Runs every design and configuration on one input, several at a time.
fn run_designs_on_one_input(
    source: &InputSource,
    configurations: &Configurations,
    args: &RunArgs,
    perfetto: Option<&PerfettoOutput>,
    check: &UnusedOptionCheck<'_>,
    comparison: &mut Comparison,
) -> Result<(), Failure> {
    let reporter = check.reporter;
    let opened = source.open_for_runs(&configurations.configs, reporter)?;
    let mut plans: Vec<Plan<'_>> = Vec::new();
    for (number, config) in configurations.configs.iter().enumerate() {
        let of_config = configurations.runs.iter().filter(|run| run.config_index == number);
        let designs: Vec<String> = of_config.map(|run| run.design.clone()).collect();
        plans.push(checked_plan(config, &opened.input, plans.first(), &designs, check)?);
    }
    if perfetto.is_some() {
        plans
            .iter()
            .try_for_each(Plan::require_event_timing)
            .map_err(|error| Failure::of_usage(error.to_string()))?;
    }
    let run = |run: &ConfiguredRun| {
        let (plan, label) = (&plans[run.config_index], run.progress_label());
        let mut progress = reporter.progress_callback_of_run(&label);
        let (record, trace) = match perfetto {
            None => plan.run(&run.design, &mut progress).map(|record| (record, None)),
            Some(PerfettoOutput { window, .. }) => plan
                .run_traced(&run.design, window.clone(), &mut progress)
                .map(|(record, trace)| (record, Some(trace))),
        }?;
        let variant = configurations.variant_of_run(run);
        Ok((RunRecord { variant, ..record }.with_years_scaled_to_exported_bytes(args.scale_to), trace))
    };
    let mut first_failure = None;
    for (_, outcome) in run_concurrently(&configurations.runs, args.jobs, || reporter.is_interrupted(), run) {
        match outcome {
            Ok((record, trace)) => {
                comparison.runs.push(record);
                if let (Some(perfetto), Some(trace)) = (perfetto, trace) {
                    perfetto.write(&trace, args.quiet)?;
                }
            }
            // The other runs are kept: they may have taken hours.
            Err(error) => {
                first_failure.get_or_insert_with(|| replay_failure(&error));
            }
        }
    }
    first_failure.map_or(Ok(()), Err)
}

/// Returns the checked plan of a run (surveyed input and device), so that errors are reported before runs that take
/// minutes. If `plan_of_same_input` is given, its survey of the input (highest address and touched pages) is used, and
/// the input is not read again.
pub(crate) fn checked_plan<'a>(
    config: &'a Config,
    input: &'a Input,
    plan_of_same_input: Option<&Plan<'a>>,
    designs: &[String],
    check: &UnusedOptionCheck<'_>,
) -> Result<Plan<'a>, Failure> {
    let plan = plan_of_same_input.map_or_else(|| Plan::new(config, input), |other| other.with_config(config));
    let plan = plan.map_err(|error| replay_failure(&error))?;
    check.refuse_scaling_to_smaller_drive(&plan)?;
    check.refuse_or_note_unused_options(&plan, plan_of_same_input.is_none())?;
    plan.check_designs(designs).map_err(|error| replay_failure(&error))?;
    Ok(plan)
}

/// Check for options that have no effect because of what the input is: a content model for an input with contents, and
/// a size to which lifetimes are scaled for an input without times. An option without effect on the only input is
/// refused. If there are several inputs, the option may be meant for another one, and a note is printed.
pub(crate) struct UnusedOptionCheck<'a> {
    /// Whether the command has exactly one input.
    has_single_input: bool,
    /// Value of `--scale-to`: exported bytes of the drive to which lifetimes are scaled.
    scale_to: Option<u64>,
    /// Display of the progress of the command, which prints the notes.
    reporter: &'a ProgressReporter,
}

impl<'a> UnusedOptionCheck<'a> {
    /// Creates the check for a command with these inputs and arguments.
    pub(crate) fn of_inputs(sources: &[InputSource], args: &RunArgs, reporter: &'a ProgressReporter) -> Self {
        Self { has_single_input: sources.len() == 1, scale_to: args.scale_to, reporter }
    }

    /// Refuses to scale lifetimes to a drive that exports fewer bytes than the simulated one.
    fn refuse_scaling_to_smaller_drive(&self, plan: &Plan<'_>) -> Result<(), Failure> {
        let sentence = self.scale_to.and_then(|bytes| plan.too_small_scale_sentence(bytes));
        sentence.map_or(Ok(()), |sentence| Err(Failure::of_usage(sentence)))
    }

    /// Refuses options that have no effect on the input, if the command has only this one. If it has several, prints a
    /// note instead, but only if `is_first_plan`, so that there is one note for each input.
    fn refuse_or_note_unused_options(&self, plan: &Plan<'_>, is_first_plan: bool) -> Result<(), Failure> {
        let unused_scale = self.scale_to.and_then(|_| plan.unused_scale_sentence());
        for sentence in [plan.unused_content_model_sentence(), unused_scale].into_iter().flatten() {
            if self.has_single_input {
                return Err(Failure::of_usage(format!("{sentence}: leave it out")));
            }
            if is_first_plan {
                self.reporter.print_message(&format!("wearwell: note: {sentence}"));
            }
        }
        Ok(())
    }
}

/// Returns the failure of a command whose run failed: exit status 2 if the configuration, the content model or an option
/// of the trace is wrong, else 1.
pub(crate) fn replay_failure(error: &ReplayError) -> Failure {
    match error {
        ReplayError::Config(_) | ReplayError::Content(_) => Failure::of_usage(error.to_string()),
        ReplayError::Trace(error) => Failure::of_trace(error),
        _ => Failure::of_run(error),
    }
}
