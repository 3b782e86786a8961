//! The command `sweep`: runs every combination of the traces, designs and settings that a file lists.

use wearwell_config::{Config, ConfigError};
use wearwell_replay::input::Input;
use wearwell_replay::json::ToJson;
use wearwell_replay::record::RunRecord;
use wearwell_replay::replay::Plan;
use wearwell_replay::report::Comparison;
use wearwell_replay::result_folder::ResultFolder;
use wearwell_replay::sweep::{FailedRun, SweepFile, SweepResults};

use crate::args::SweepArgs;
use crate::jobs::run_concurrently;
use crate::output::{print, print_message};
use crate::progress::{ProgressReporter, RemainingTimeReporter};
use crate::run::{
    Configurations, ConfiguredRun, DesignVariant, InputSource, Outputs, open_result_folder,
    print_partial_runs, refuse_overridden_settings, refuse_settings_ignored_by_all,
};
use crate::{Failure, Outcome};

/// Executes the command `sweep`: runs all combinations of a sweep file.
pub(crate) fn sweep(args: &SweepArgs) -> Result<Outcome, Failure> {
    let sweep = SweepFile::read(&args.file).map_err(|error| usage_failure(&error))?;
    let inputs: Vec<_> = sweep.traces.iter().chain([&args.file]).map(AsRef::as_ref).collect();
    let outputs = Outputs::of_result_args(&args.results, &inputs)?;
    let result_folder = open_result_folder(args.resume.as_deref())?;
    let reporter = ProgressReporter::new(args.quiet);
    let variants: Vec<DesignVariant> = sweep.designs.iter().map(|text| DesignVariant::parse(text)).collect();
    let config_of =
        |settings: &[String]| sweep.config_with_settings(settings).map_err(|error| usage_failure(&error));
    let configurations = Configurations::combine(&sweep.setting_combinations, &variants, config_of)?;
    refuse_overridden_settings(sweep.setting_combinations.iter().flatten(), &variants)?;
    refuse_ignored_settings(&sweep, &variants, &reporter)?;
    let sources = sweep_inputs(&sweep, args, &configurations.configs)?;
    let total = sources.iter().map(|source| source.runs_using_input(&configurations).count()).sum();
    let remaining_time_reporter = RemainingTimeReporter::of_runs(&reporter, total);
    let desk = SweepContext {
        args,
        configurations: &configurations,
        reporter: &reporter,
        result_folder: result_folder.as_ref(),
        remaining_time_reporter,
        has_single_input: sweep.traces.len() + sweep.workloads.len() == 1,
    };
    let mut swept = SweepResults { comparison: Comparison::of_runs(Vec::new()), failures: Vec::new() };
    for source in &sources {
        desk.run_sweep_on_input(source, &mut swept);
    }
    write_sweep_results(args, &swept, &outputs)?;
    let is_whole =
        swept.comparison.runs.len() == total && swept.comparison.runs.iter().all(|run| !run.partial);
    Ok(if is_whole { Outcome::Done } else { Outcome::Partial })
}

/// Makes the failure of a wrong configuration, exit status 2.
fn usage_failure(error: &ConfigError) -> Failure {
    Failure::of_usage(error.to_string())
}

/// Refuses a setting that the sweep varies but no run uses, and prints a note about a setting that only some runs use.
fn refuse_ignored_settings(
    sweep: &SweepFile,
    variants: &[DesignVariant],
    reporter: &ProgressReporter,
) -> Result<(), Failure> {
    let mut ignored = Vec::new();
    for point in &sweep.setting_combinations {
        for variant in variants {
            let config = sweep
                .config_with_settings(&[point.clone(), variant.settings.clone()].concat())
                .map_err(|error| usage_failure(&error))?;
            ignored.push(config.ignored_settings(point, std::slice::from_ref(&variant.design)));
        }
    }
    refuse_settings_ignored_by_all(&ignored, reporter)
}

/// One input of the sweep: a trace for all runs, or a workload that is generated from `seed` and used only by the runs
/// with this seed.
struct SweepInput {
    /// Name of the input in results: the path of a trace, or the specification of a workload.
    name: String,
    /// Trace or workload that the runs read.
    input: InputSource,
    /// Seed of a generated workload; `None` for a trace, which all runs use.
    seed: Option<u64>,
}

impl SweepInput {
    /// Returns the runs of the sweep that use this input.
    fn runs_using_input<'a>(
        &'a self,
        configurations: &'a Configurations,
    ) -> impl Iterator<Item = &'a ConfiguredRun> {
        let is_of = |config: &Config| self.seed.is_none_or(|seed| config.seed() == seed);
        configurations.runs.iter().filter(move |run| is_of(&configurations.configs[run.config_index]))
    }
}

/// Returns the inputs of the sweep: each trace, and each workload once for every seed that a configuration has.
fn sweep_inputs(sweep: &SweepFile, args: &SweepArgs, configs: &[Config]) -> Result<Vec<SweepInput>, Failure> {
    if sweep.traces.is_empty() {
        args.input.refuse_trace_options_for_workload()?;
    }
    let options = args.input.open_options()?;
    let of_trace = |path: &std::path::PathBuf| SweepInput {
        name: path.display().to_string(),
        input: InputSource::Trace(path.clone(), options.clone()),
        seed: None,
    };
    let mut sources: Vec<SweepInput> = sweep.traces.iter().map(of_trace).collect();
    let mut seeds: Vec<u64> = Vec::new();
    for seed in configs.iter().map(Config::seed) {
        if !seeds.contains(&seed) {
            seeds.push(seed);
        }
    }
    for spec in &sweep.workloads {
        for &seed in &seeds {
            let input = Input::of_generator_spec_with_default_seed(spec, seed)
                .map_err(|error| Failure::of_usage(error.to_string()))?;
            let (name, input) = (input.name(), InputSource::Generated(input));
            sources.push(SweepInput { name, input, seed: Some(seed) });
        }
    }
    Ok(sources)
}

/// Data that all runs of `wearwell sweep` use: arguments, configurations, progress display, the folder of finished
/// runs, and the estimate of the time left.
struct SweepContext<'a> {
    /// Options of the command.
    args: &'a SweepArgs,
    /// Configurations of the sweep, and the runs that are made on every input.
    configurations: &'a Configurations,
    /// Display of the progress of the runs.
    reporter: &'a ProgressReporter,
    /// Folder of `--resume`, which keeps finished runs; `None` without this option.
    result_folder: Option<&'a ResultFolder<RunRecord>>,
    /// Estimates the time that the remaining runs of the sweep will take.
    remaining_time_reporter: RemainingTimeReporter<'a>,
    /// Whether the sweep has one input, so that a content model without effect on it is without effect on all runs.
    has_single_input: bool,
}

impl SweepContext<'_> {
    /// Runs all configurations of the sweep on one input until ctrl-C. A run that fails is recorded, and the others
    /// continue.
    fn run_sweep_on_input(&self, source: &SweepInput, swept: &mut SweepResults) {
        let tasks: Vec<ConfiguredRun> = source.runs_using_input(self.configurations).cloned().collect();
        let failed = |task: &ConfiguredRun, error: String| FailedRun {
            trace: source.name.clone(),
            design: task.design.clone(),
            variant: self.configurations.variant_of_run(task),
            error,
        };
        let opened = match source.input.open_for_runs(&self.configurations.configs, self.reporter) {
            Ok(opened) => opened,
            Err(_) if self.reporter.is_interrupted() => return,
            Err(failure) => {
                return tasks
                    .iter()
                    .for_each(|task| swept.add_outcome(Err(failed(task, failure.message_text()))));
            }
        };
        let plans = self.plans_of_configurations(&opened.input, &tasks);
        if !self.has_single_input
            && let Some(sentence) =
                plans.iter().flatten().flatten().find_map(Plan::unused_content_model_sentence)
        {
            self.reporter.print_message(&format!("note: {sentence}"));
        }
        let run = |task: &ConfiguredRun| {
            let outcome = match &plans[task.config_index] {
                Some(Ok(plan)) => self.load_or_execute_run(plan, task),
                Some(Err(error)) => Err(error.clone()),
                None => unreachable!("every task of the input has a plan"),
            };
            outcome.map_err(|error| failed(task, error))
        };
        let is_ended = || self.reporter.is_interrupted();
        for (_, outcome) in run_concurrently(&tasks, self.args.jobs, is_ended, run) {
            swept.add_outcome(outcome);
        }
    }

    /// Returns, for each configuration that a run uses, its plan (surveyed input and device). The input is read only
    /// for the first plan that succeeds; the other plans reuse its extent (highest address and touched pages).
    fn plans_of_configurations<'a>(
        &'a self,
        input: &'a Input,
        tasks: &[ConfiguredRun],
    ) -> Vec<Option<Result<Plan<'a>, String>>> {
        let mut plans: Vec<Option<Result<Plan<'_>, String>>> = Vec::new();
        for (number, config) in self.configurations.configs.iter().enumerate() {
            let known = plans.iter().flatten().find_map(|plan| plan.as_ref().ok());
            let plan = || known.map_or_else(|| Plan::new(config, input), |known| known.with_config(config));
            let is_used = tasks.iter().any(|task| task.config_index == number);
            plans.push(is_used.then(|| plan().map_err(|error| error.to_string())));
        }
        plans
    }

    /// Returns the record of a run of the sweep, from the folder of `--resume` if it is there; otherwise runs it.
    fn load_or_execute_run(&self, plan: &Plan<'_>, run: &ConfiguredRun) -> Result<RunRecord, String> {
        let variant = self.configurations.variant_of_run(run);
        let key = plan.run_result_key(&run.design);
        if let Some(record) = self.result_folder.and_then(|result_folder| result_folder.get(&key)) {
            self.remaining_time_reporter.exclude_resumed_run();
            return Ok(RunRecord { variant, origins: plan.setting_origins(&run.design), ..record });
        }
        let outcome = self.execute_run(plan, &key, run);
        self.remaining_time_reporter.count_finished_run();
        outcome.map(|record| RunRecord { variant, ..record })
    }

    /// Runs one design of the sweep, and stores the record in the folder of `--resume`, if there is one.
    fn execute_run(
        &self,
        plan: &Plan<'_>,
        result_key: &str,
        run: &ConfiguredRun,
    ) -> Result<RunRecord, String> {
        let designs = std::slice::from_ref(&run.design);
        let checked = if self.has_single_input {
            plan.check_designs_and_content_model(designs)
        } else {
            plan.check_designs(designs)
        };
        checked.map_err(|error| error.to_string())?;
        let record = plan
            .run(&run.design, &mut self.reporter.progress_callback_of_run(&run.progress_label()))
            .map_err(|error| error.to_string())?;
        if let Some(result_folder) = self.result_folder {
            result_folder.store_if_finished(result_key, &record).map_err(|error| {
                format!(
                    "cannot store the finished run in the folder of --resume: {error}; name a folder in which files \
                     can be written"
                )
            })?;
        }
        Ok(record)
    }
}

/// Writes the records of a sweep to the requested files, and prints its tables and the failed runs.
fn write_sweep_results(args: &SweepArgs, swept: &SweepResults, outputs: &Outputs) -> Result<(), Failure> {
    if swept.comparison.runs.is_empty() && swept.failures.is_empty() {
        return Err(Failure::interrupted());
    }
    if let Some(output) = &outputs.json_output {
        output.write(&format!("{}\n", swept.to_pretty_json()))?;
    }
    outputs.write_tables(&swept.data_table())?;
    outputs.write_html_page(swept)?;
    if !args.quiet && !outputs.has_stdout_result() {
        print(&if args.markdown { swept.to_markdown() } else { swept.to_table() })?;
    }
    print_partial_runs(&swept.comparison);
    let failures = swept.failure_lines();
    if !failures.is_empty() {
        print_message(failures.trim_end_matches('\n'));
    }
    Ok(())
}
