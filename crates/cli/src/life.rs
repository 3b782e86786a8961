//! `life`: an input repeated until the drive is worn out.

use std::num::NonZeroUsize;

use wearwell_replay::config::Config;
use wearwell_replay::input::Input;
use wearwell_replay::life::{self, End, Leveling, LifeRecord};
use wearwell_replay::replay::Plan;

use crate::args::LifeArgs;
use crate::jobs::run_at_once;
use crate::output::{Output, print};
use crate::progress::Reporter;
use crate::run::{InputSource, config_with, failure, planned, refuse_ignored, sources};
use crate::{Failure, Outcome};

/// One drive to be worn out.
struct Task {
    config: Config,
    /// A generator has a seed of its own for each drive.
    input: Input,
    /// Which record its life belongs to.
    record: usize,
    label: String,
}

pub(crate) fn life(args: &LifeArgs) -> Result<Outcome, Failure> {
    let output = args.run.json.as_deref().map(Output::at).transpose()?;
    let endurance = args.endurance();
    if let Some(sentence) = endurance.refusal() {
        return Err(Failure::of_usage(sentence));
    }
    if args.run.points().len() > 1 || args.run.markdown {
        return Err(Failure::of_usage(
            "a life takes one over-provisioning and one victim policy, and prints no markdown",
        ));
    }
    let config = config_with(&args.run, &[])?;
    refuse_without_effect(args, &config)?;
    refuse_ignored(&config, &args.designs, &args.run)?;
    let opened = source_of(args, &config)?.open()?;
    let plan = planned(&config, &opened.input, None, &args.designs)?;
    let (mut records, mut tasks) = (Vec::new(), Vec::new());
    for design in &args.designs {
        for leveling in args.levelings() {
            for seed in (config.seed()..).take(args.seeds.get() as usize) {
                let mut settings = leveling.settings(plan.resolved().endurance_cycles);
                settings.push(format!("replay.seed={seed}"));
                let config = config_with(&args.run, &settings)?;
                let input = match source_of(args, &config)? {
                    InputSource::Generated(input) => input,
                    InputSource::Trace(..) => opened.input.clone(),
                };
                let label = format!("{design} {} {seed}", leveling.name());
                tasks.push(Task { config, input, record: records.len(), label });
            }
            let record = plan.life_record(design, leveling, endurance);
            records.push(LifeRecord { is_filled: !args.empty, scale_to_bytes: args.run.scale_to, ..record });
        }
    }
    let reporter = Reporter::new(args.run.quiet);
    run_all(&tasks, args.run.jobs, &reporter, &mut records)?;
    report(args, &records, output.as_ref())
}

fn source_of(args: &LifeArgs, config: &Config) -> Result<InputSource, Failure> {
    let mut sources = sources(args.trace.iter(), &args.run, config)?;
    Ok(sources.pop().expect("the command line has one input"))
}

fn refuse_without_effect(args: &LifeArgs, config: &Config) -> Result<(), Failure> {
    if let Some(ignored) = config.ignored_by_life() {
        return Err(Failure::of_usage(format!(
            "{ignored} has no effect on a life, which begins with a new drive, filled or --empty, and has no clock but the \
             input's"
        )));
    }
    if args.run.csv.is_some() {
        return Err(Failure::of_usage("a life has no CSV: use --json"));
    }
    Ok(())
}

/// Wears out all drives, several at a time. Records keep the order of seeds.
fn run_all(
    tasks: &[Task],
    jobs: Option<NonZeroUsize>,
    reporter: &Reporter,
    records: &mut [LifeRecord],
) -> Result<(), Failure> {
    let templates = &*records;
    let run = |task: &Task| run_one(task, &templates[task.record], reporter);
    for (number, outcome) in run_at_once(tasks, jobs, || reporter.is_interrupted(), run) {
        let LifeRecord { lives, notes, .. } = outcome?;
        let record = &mut records[tasks[number].record];
        record.lives.extend(lives);
        record.notes = notes;
    }
    Ok(())
}

fn run_one(task: &Task, template: &LifeRecord, reporter: &Reporter) -> Result<LifeRecord, Failure> {
    let plan = Plan::new(&task.config, &task.input).map_err(|error| failure(&error))?;
    let mut record = template.clone();
    plan.live(&mut record, &mut reporter.of_design(&task.label)).map_err(|error| failure(&error))?;
    Ok(record)
}

fn report(args: &LifeArgs, records: &[LifeRecord], output: Option<&Output>) -> Result<Outcome, Failure> {
    if records.iter().all(|record| record.lives.is_empty()) {
        return Err(Failure::interrupted());
    }
    if let Some(output) = output {
        let json = serde_json::to_string_pretty(records).map_err(|error| Failure::of_run(&error))?;
        output.write(&format!("{json}\n"))?;
    }
    if !args.run.quiet && !output.is_some_and(Output::is_standard) {
        print(&life::table(records))?;
    }
    let whole = |record: &LifeRecord| {
        record.lives.len() == args.seeds.get() as usize
            && record.lives.iter().all(|life| life.end != End::Interrupted)
    };
    Ok(if records.iter().all(whole) { Outcome::Done } else { Outcome::Partial })
}

impl LifeArgs {
    fn levelings(&self) -> Vec<Leveling> {
        if self.leveling.is_empty() {
            vec![Leveling::Configured]
        } else {
            self.leveling.iter().map(|&l| l.into()).collect()
        }
    }
}
