//! The command `life`: repeats an input until the drive is worn out.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use wearwell_config::Config;
use wearwell_replay::input::Input;
use wearwell_replay::json::ToJson;
use wearwell_replay::life::{self, Leveling, LifeEndReason, LifeRecord, Lives};
use wearwell_replay::replay::Plan;
use wearwell_replay::result_folder::ResultFolder;

use crate::args::LifeArgs;
use crate::data_output::TableOutput;
use crate::jobs::run_concurrently;
use crate::output::{OverwriteRule, print};
use crate::progress::ProgressReporter;
use crate::run::{
    InputSource, Outputs, UnusedOptionCheck, checked_plan, config_with_settings, input_sources,
    open_result_folder, outputs_by_option, refuse_listed_twice, refuse_outputs_named_twice,
    refuse_settings_ignored_by_all, replay_failure, setting_to_record_block_map,
};
use crate::{Failure, Outcome};

/// Number of cells of the block map (chart of the blocks' state) in the HTML page of `wearwell life`. It is a setting
/// of the run and therefore does not depend on the number of simulated drives: `--resume` finds a finished life only if
/// its settings are unchanged.
const LIFE_BLOCK_CHART_CELLS: u32 = 512;

/// One simulated drive that is to be worn out.
struct LifeTask {
    /// Configuration of the simulated drive.
    config: Config,
    /// The input that wears out the drive; a generated input has its own seed for each drive.
    input: Input,
    /// Index of the [`LifeRecord`] (result of one design and wear leveling policy over all seeds) to which the life of
    /// this drive is added.
    life_record_index: usize,
    /// Text that names the drive in lines of progress: design, wear leveling and seed.
    progress_label: String,
}

/// Executes the command `life`: writes to simulated drives until they are worn out, and reports their wear over their
/// lives.
pub(crate) fn life(args: &LifeArgs) -> Result<Outcome, Failure> {
    let outputs = Outputs::of_run_args(&args.run, args.trace.iter())?;
    let [json, csv, parquet, report] = outputs_by_option(&args.run.results);
    refuse_outputs_named_twice([json, csv, parquet, report, ("--curves", args.curves.as_deref())])?;
    let inputs: Vec<&Path> =
        args.trace.iter().chain(&args.run.configuration.config).map(PathBuf::as_path).collect();
    let overwrite = OverwriteRule { input_paths: &inputs, force: args.run.results.report.force };
    let curves =
        args.curves.as_deref().map(|path| TableOutput::by_file_ending(path, &overwrite)).transpose()?;
    let result_folder = open_result_folder(args.resume.as_deref())?;
    let endurance = args.endurance();
    if let Some(sentence) = endurance.first_invalid_value_sentence() {
        return Err(Failure::of_usage(sentence));
    }
    refuse_listed_twice("--designs", &args.designs)?;
    let levelings: Vec<&str> = args.compared_levelings().into_iter().map(Leveling::name).collect();
    refuse_listed_twice("--leveling", &levelings)?;
    if args.run.configuration.sweep_points().len() > 1 {
        return Err(Failure::of_usage(
            "life takes one value of --over-provisioning and one of --gc-policy: leave the other values out",
        ));
    }
    if args.run.markdown {
        return Err(Failure::of_usage("life cannot print its table as Markdown: leave --markdown out"));
    }
    let config = config_with_settings(&args.run.configuration, &[])?;
    if let Some(sentence) = life::first_ignored_setting_sentence(&config) {
        return Err(Failure::of_usage(sentence));
    }
    args.refuse_settings_replaced_by_leveling()?;
    let reporter = ProgressReporter::new(args.run.quiet);
    let ignored_with = |leveling: Leveling| {
        let config = config_with_settings(&args.run.configuration, &leveling.as_settings(0))?;
        Ok(config.ignored_settings(&args.run.configuration.all_settings(), &args.designs))
    };
    let ignored = args.compared_levelings().into_iter().map(ignored_with);
    refuse_settings_ignored_by_all(&ignored.collect::<Result<Vec<_>, Failure>>()?, &reporter)?;
    let source = life_input_source(args, &config)?;
    let opened = source.open_for_runs([&config], &reporter)?;
    let check = UnusedOptionCheck::of_inputs(std::slice::from_ref(&source), &args.run, &reporter);
    let plan = checked_plan(&config, &opened.input, None, &args.designs, &check)?;
    let (mut records, mut tasks) = (Vec::new(), Vec::new());
    for design in &args.designs {
        for leveling in args.compared_levelings() {
            for seed in (config.seed()..).take(args.seeds.get() as usize) {
                let mut settings = leveling.as_settings(plan.resolved_device().endurance_cycles);
                settings.push(format!("replay.seed={seed}"));
                settings.extend(setting_to_record_block_map(&args.run, &config, LIFE_BLOCK_CHART_CELLS));
                let config = config_with_settings(&args.run.configuration, &settings)?;
                let input = match life_input_source(args, &config)? {
                    InputSource::Generated(input) => input,
                    InputSource::Trace(..) => opened.input.clone(),
                };
                let progress_label = format!("{design} {} {seed}", leveling.name());
                tasks.push(LifeTask { config, input, life_record_index: records.len(), progress_label });
            }
            let record = plan.new_life_record(design, leveling, endurance);
            records.push(LifeRecord { is_filled: !args.empty, scale_to_bytes: args.run.scale_to, ..record });
        }
    }
    wear_out_drives(
        &tasks,
        args.run.jobs,
        &LifeContext { reporter: &reporter, result_folder: result_folder.as_ref() },
        &mut records,
    )?;
    write_lives(args, records, &outputs, curves.as_ref())
}

/// Returns the one input that the command line names: a trace or a workload.
fn life_input_source(args: &LifeArgs, config: &Config) -> Result<InputSource, Failure> {
    let mut sources = input_sources(args.trace.iter(), &args.run, config)?;
    Ok(sources.pop().expect("the command line has one input"))
}

/// Data that the simulations of all drives of `wearwell life` use: progress display, and the folder of finished lives.
struct LifeContext<'a> {
    /// Display of the progress of the simulations.
    reporter: &'a ProgressReporter,
    /// Folder of `--resume`, which keeps finished lives; `None` without this option.
    result_folder: Option<&'a ResultFolder<LifeRecord>>,
}

/// Wears out all simulated drives, `jobs` at a time, and adds their lives to the records in the order of seeds.
fn wear_out_drives(
    tasks: &[LifeTask],
    jobs: Option<NonZeroUsize>,
    context: &LifeContext,
    records: &mut [LifeRecord],
) -> Result<(), Failure> {
    let templates = &*records;
    let run = |task: &LifeTask| wear_out_drive(task, &templates[task.life_record_index], context);
    for (number, outcome) in run_concurrently(tasks, jobs, || context.reporter.is_interrupted(), run) {
        records[tasks[number].life_record_index].add_lives_of(outcome?);
    }
    Ok(())
}

/// Wears out one simulated drive, unless the folder of `--resume` has its finished life already. A life that ends is
/// stored at once.
fn wear_out_drive(
    task: &LifeTask,
    template: &LifeRecord,
    context: &LifeContext,
) -> Result<LifeRecord, Failure> {
    let plan = Plan::new(&task.config, &task.input).map_err(|error| replay_failure(&error))?;
    let mut record = template.clone();
    let key = plan.life_result_key(&record);
    if let Some(finished_life) = context.result_folder.and_then(|result_folder| result_folder.get(&key)) {
        context.reporter.print_message(&format!("{}: was run before", task.progress_label));
        let origins = plan.setting_origins_of_lives(&record.design);
        return Ok(LifeRecord { origins, ..finished_life });
    }
    plan.run_life(&mut record, &mut context.reporter.progress_callback_of_run(&task.progress_label))
        .map_err(|error| replay_failure(&error))?;
    if let Some(result_folder) = context.result_folder {
        result_folder.store_if_finished(&key, &record).map_err(|error| Failure::of_run(&error))?;
    }
    Ok(record)
}

/// Writes the lives of all drives to the requested files, and prints their table unless standard output holds a result.
fn write_lives(
    args: &LifeArgs,
    records: Vec<LifeRecord>,
    outputs: &Outputs,
    curves: Option<&TableOutput>,
) -> Result<Outcome, Failure> {
    if records.iter().all(|record| record.lives.is_empty()) {
        return Err(Failure::interrupted());
    }
    let lives = Lives::of_drives(records);
    let records = &lives.drives;
    if let Some(output) = &outputs.json_output {
        let json = lives.to_pretty_json();
        output.write(&format!("{json}\n"))?;
    }
    outputs.write_tables(&life::data_table(records))?;
    if let Some(output) = curves {
        output.write(&life::curves_data_table(records))?;
    }
    outputs.write_html_page(&lives)?;
    let takes_stdout = outputs.has_stdout_result() || curves.is_some_and(TableOutput::is_standard_output);
    if !args.run.quiet && !takes_stdout {
        print(&life::lives_table(records))?;
    }
    let whole = |record: &LifeRecord| {
        record.lives.len() == args.seeds.get() as usize
            && record.lives.iter().all(|life| life.end != LifeEndReason::Interrupted)
    };
    Ok(if records.iter().all(whole) { Outcome::Done } else { Outcome::Partial })
}

impl LifeArgs {
    /// Refuses settings that `--leveling` replaces.
    fn refuse_settings_replaced_by_leveling(&self) -> Result<(), Failure> {
        let settings = self.run.configuration.all_settings();
        let levelings = self.compared_levelings();
        let refusal = levelings.iter().find_map(|leveling| leveling.replaced_setting_sentence(&settings));
        refusal.map_or(Ok(()), |sentence| Err(Failure::of_usage(sentence)))
    }

    /// Returns the wear leveling policies to compare; without the option, only the configured policy.
    fn compared_levelings(&self) -> Vec<Leveling> {
        if self.leveling.is_empty() {
            vec![Leveling::Configured]
        } else {
            self.leveling.iter().map(|&l| l.into()).collect()
        }
    }
}
