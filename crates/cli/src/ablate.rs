//! The command `ablate`: runs every subset of a design's content mechanisms on each input and reports what each
//! mechanism gains.

use wearwell_config::{Config, ConfigError, DesignAndPartsPersistence};
use wearwell_replay::ablate::{self, AblatedMechanisms, Ablation, Ablations, MechanismSubset, SubsetOutcome};
use wearwell_replay::input::Input;
use wearwell_replay::json::ToJson;
use wearwell_replay::record::RunRecord;
use wearwell_replay::replay::{Plan, ReplayError};
use wearwell_replay::result_folder::ResultFolder;

use crate::args::AblateArgs;
use crate::jobs::run_concurrently;
use crate::output::print;
use crate::progress::{ProgressReporter, RemainingTimeReporter};
use crate::run::{
    InputSource, Outputs, UnusedOptionCheck, checked_plan, config_with_settings, for_each_input,
    input_sources, open_result_folder, refuse_equal_runs, refuse_ignored_settings, replay_failure,
};
use crate::{Failure, Outcome};

/// Executes the command `ablate`: runs every subset of a design's content mechanisms on each input.
pub(crate) fn ablate(args: &AblateArgs) -> Result<Outcome, Failure> {
    refuse_equal_runs(args.traces.iter(), std::slice::from_ref(&args.design), &args.run)?;
    let outputs = Outputs::of_run_args(&args.run, args.traces.iter())?;
    let result_folder = open_result_folder(args.resume.as_deref())?;
    let mechanisms =
        AblatedMechanisms::parse_names(&args.parts).map_err(|error| Failure::of_usage(error.to_string()))?;
    let config = config_with_settings(&args.run.configuration, &[])?;
    if config.parts.content.is_some() {
        return Err(Failure::of_usage(
            "parts.content is set, but ablate runs each subset of the content mechanisms that --parts names: leave \
             parts.content out",
        ));
    }
    let reporter = ProgressReporter::new(args.run.quiet);
    refuse_ignored_settings(&args.run, std::slice::from_ref(&args.design), &reporter, |point| {
        let whole = config_and_persistence_of_subset(args, &mechanisms, mechanisms.full_subset(), point)?;
        Ok(whole.0)
    })?;
    let points = args
        .run
        .configuration
        .sweep_points()
        .into_iter()
        .map(|point| SweepPoint::of_settings(args, &mechanisms, &point));
    let points: Vec<SweepPoint> = points.collect::<Result<_, _>>()?;
    let sources = input_sources(args.traces.iter(), &args.run, &config)?;
    let desk = AblationContext {
        args,
        mechanisms: &mechanisms,
        reporter: &reporter,
        result_folder: result_folder.as_ref(),
        unused_option_check: UnusedOptionCheck::of_inputs(&sources, &args.run, &reporter),
    };
    let mut ablations = Vec::new();
    let complete =
        for_each_input(&sources, &reporter, |source| desk.ablate_input(source, &points, &mut ablations))?;
    if ablations.is_empty() {
        return Err(if complete { Failure::interrupted() } else { Failure::no_replayable_input() });
    }
    let is_whole = complete
        && ablations.len() == sources.len() * points.len()
        && ablations.iter().all(|ablation| !ablation.partial);
    write_ablations(args, ablations, &outputs)?;
    Ok(if is_whole { Outcome::Done } else { Outcome::Partial })
}

/// Returns the configuration of a subset of the content mechanisms at a point of the sweep, and the persistence (way to
/// survive a loss of power) of its parts. The persistence is `None` if the design has an error that is reported later.
fn config_and_persistence_of_subset(
    args: &AblateArgs,
    mechanisms: &AblatedMechanisms,
    subset: MechanismSubset,
    point_settings: &[String],
) -> Result<(Config, Option<DesignAndPartsPersistence>), Failure> {
    let settings = [point_settings, &[mechanisms.subset_setting(subset)]].concat();
    let mut config = config_with_settings(&args.run.configuration, &settings)?;
    let persistence = config.keep_persistence_of_design(&args.design);
    Ok((config, persistence))
}

/// One point of a parameter sweep, with the configuration of every subset of content mechanisms.
struct SweepPoint {
    /// Text of the settings (`section.key=value`) that distinguish this point of the parameter sweep from its other
    /// points.
    settings: String,
    /// Configuration of this point of the sweep, without a choice of content mechanisms.
    base_config: Config,
    /// Distinct configurations of all subsets of content mechanisms; several subsets may have equal configurations.
    configs: Vec<Config>,
    /// For each configuration in `configs`, the name of the first subset of content mechanisms that results in it.
    subset_names: Vec<String>,
    /// For each subset of content mechanisms, the index of its configuration in `configs`.
    config_index_of_subset: Vec<usize>,
    /// For each subset of content mechanisms: the persistence (way to survive a loss of power) of the design, and of
    /// its parts with this subset.
    persistences_by_subset: Vec<Option<DesignAndPartsPersistence>>,
}

impl SweepPoint {
    /// Makes the configurations of all subsets of content mechanisms at the point of the sweep with these settings.
    fn of_settings(
        args: &AblateArgs,
        mechanisms: &AblatedMechanisms,
        point_settings: &[String],
    ) -> Result<Self, Failure> {
        let (mut configs, mut names) = (Vec::new(), Vec::new());
        let (mut of_subset, mut persistences) = (Vec::new(), Vec::new());
        for subset in mechanisms.subsets() {
            let (config, persistence) =
                config_and_persistence_of_subset(args, mechanisms, subset, point_settings)?;
            persistences.push(persistence);
            let known = configs.iter().position(|other| *other == config);
            of_subset.push(known.unwrap_or(configs.len()));
            if known.is_none() {
                configs.push(config);
                names.push(mechanisms.subset_name(subset));
            }
        }
        let settings = point_settings.join(" ").replace('"', "");
        Ok(Self {
            settings,
            base_config: config_with_settings(&args.run.configuration, point_settings)?,
            configs,
            subset_names: names,
            config_index_of_subset: of_subset,
            persistences_by_subset: persistences,
        })
    }
}

/// Data that all runs of `wearwell ablate` use: arguments, content mechanisms, progress display, and the folder of
/// finished runs.
struct AblationContext<'a> {
    args: &'a AblateArgs,
    /// Content mechanisms of which every subset is run.
    mechanisms: &'a AblatedMechanisms,
    /// Display of the progress of the runs.
    reporter: &'a ProgressReporter,
    /// Folder of `--resume`, which keeps finished runs; `None` without this option.
    result_folder: Option<&'a ResultFolder<RunRecord>>,
    unused_option_check: UnusedOptionCheck<'a>,
}

impl AblationContext<'_> {
    /// Runs all subsets of the mechanisms on one input, at every point of the parameter sweep.
    fn ablate_input(
        &self,
        source: &InputSource,
        points: &[SweepPoint],
        ablations: &mut Vec<Ablation>,
    ) -> Result<(), Failure> {
        let opened = source.open_for_runs(points.iter().map(|point| &point.base_config), self.reporter)?;
        let mut plans: Vec<Plan<'_>> = Vec::new();
        for point in points {
            // Which parts can be combined is checked for each subset.
            let check = &self.unused_option_check;
            plans.push(checked_plan(&point.base_config, &opened.input, plans.first(), &[], check)?);
        }
        for (point, plan) in points.iter().zip(&plans) {
            ablations.extend(self.ablate_point(point, plan, &opened.input)?);
        }
        Ok(())
    }

    /// Runs all subsets of the mechanisms at one point of the sweep; `None` if the user interrupted the command before
    /// the first run.
    fn ablate_point(
        &self,
        point: &SweepPoint,
        base_plan: &Plan<'_>,
        input: &Input,
    ) -> Result<Option<Ablation>, Failure> {
        let plans = point
            .configs
            .iter()
            .map(|config| base_plan.with_config(config).map_err(|error| replay_failure(&error)));
        let plans: Vec<Plan<'_>> = plans.collect::<Result<_, _>>()?;
        let outcomes = self.run_subsets(&plans, point)?;
        if outcomes.iter().all(|outcome| *outcome == SubsetOutcome::NotRun) {
            return Ok(None);
        }
        if let SubsetOutcome::Refused(sentence) = &outcomes[0]
            && outcomes.iter().all(|outcome| matches!(outcome, SubsetOutcome::Refused(_)))
        {
            return Err(Failure::of_usage(sentence.clone()));
        }
        let of_subsets =
            point.config_index_of_subset.iter().map(|&number| outcomes[number].clone()).collect();
        let names = (input.name(), self.args.design.clone(), point.settings.clone());
        let ablation = Ablation::of_outcomes(names, self.mechanisms, of_subsets);
        Ok(Some(ablation.with_note_of_changed_persistence(&point.persistences_by_subset)))
    }

    /// Runs each distinct configuration of the subsets, except those whose finished run is in the folder of `--resume`,
    /// and returns the outcomes.
    fn run_subsets(&self, plans: &[Plan<'_>], point: &SweepPoint) -> Result<Vec<SubsetOutcome>, Failure> {
        let finished = |record: RunRecord, config: &Config| {
            let record = RunRecord { variant: config.run_label(&point.settings), ..record };
            SubsetOutcome::Ran(Box::new(record.with_years_scaled_to_exported_bytes(self.args.run.scale_to)))
        };
        let mut outcomes = vec![SubsetOutcome::NotRun; plans.len()];
        let mut tasks = Vec::new();
        for (number, plan) in plans.iter().enumerate() {
            let key = plan.run_result_key(&self.args.design);
            match self.result_folder.and_then(|result_folder| result_folder.get(&key)) {
                Some(record) => {
                    let origins = plan.setting_origins(&self.args.design);
                    outcomes[number] = finished(RunRecord { origins, ..record }, &point.configs[number]);
                }
                None => tasks.push((number, key)),
            }
        }
        if tasks.len() < plans.len() {
            let known = plans.len() - tasks.len();
            self.reporter.print_message(&format!("{known} of {} runs were made before", plans.len()));
        }
        let remaining_time_reporter = RemainingTimeReporter::of_runs(self.reporter, tasks.len());
        let run = |(number, key): &(usize, String)| {
            let outcome = self.execute_run(&plans[*number], &point.subset_names[*number], key);
            remaining_time_reporter.count_finished_run();
            outcome
        };
        let jobs = self.args.run.jobs;
        for (task, outcome) in run_concurrently(&tasks, jobs, || self.reporter.is_interrupted(), run) {
            let number = tasks[task].0;
            outcomes[number] = match outcome? {
                Ok(record) => finished(record, &point.configs[number]),
                Err(sentence) => SubsetOutcome::Refused(sentence),
            };
        }
        Ok(outcomes)
    }

    /// Runs one configuration of the ablation and stores the record in the folder of `--resume`, if there is one. If
    /// the engine refuses the configuration, the inner result is the text of the refusal.
    fn execute_run(
        &self,
        plan: &Plan<'_>,
        subset_name: &str,
        result_key: &str,
    ) -> Result<Result<RunRecord, String>, Failure> {
        let record =
            match plan.run(&self.args.design, &mut self.reporter.progress_callback_of_run(subset_name)) {
                Ok(record) => record,
                // A change that would be accepted is no advice here: it is another subset.
                Err(ReplayError::Config(ConfigError::IncompatibleParts { reason, .. })) => {
                    return Ok(Err(reason.to_owned()));
                }
                Err(error) if error.is_due_to_configuration_or_device() => return Ok(Err(error.to_string())),
                Err(error) => return Err(replay_failure(&error)),
            };
        if let Some(result_folder) = self.result_folder {
            result_folder.store_if_finished(result_key, &record).map_err(|error| Failure::of_run(&error))?;
        }
        Ok(Ok(record))
    }
}

/// Writes the ablations to the requested files, and prints their tables unless standard output holds a result.
fn write_ablations(args: &AblateArgs, ablations: Vec<Ablation>, outputs: &Outputs) -> Result<(), Failure> {
    let ablations = Ablations::of_ablations(ablations);
    if let Some(output) = &outputs.json_output {
        let json = ablations.to_pretty_json();
        output.write(&format!("{json}\n"))?;
    }
    outputs.write_tables(&ablate::data_table(&ablations.ablations))?;
    outputs.write_html_page(&ablations)?;
    if !args.run.quiet && !outputs.has_stdout_result() {
        let written = if args.run.markdown { ablate::ablation_markdown } else { ablate::ablation_text };
        print(&ablations.ablations.iter().map(written).collect::<Vec<_>>().join("\n"))?;
    }
    Ok(())
}
