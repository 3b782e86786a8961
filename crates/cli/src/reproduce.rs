//! `reproduce`.

use std::ops::ControlFlow;
use std::time::Duration;

use wearwell_replay::replay::Progress;
use wearwell_replay::reproduce::{self, Observer, Options, Paper, Results, Size, Traces, session};

use crate::args::ReproduceArgs;
use crate::output::print;
use crate::progress::Reporter;
use crate::{Failure, Outcome};

pub(crate) fn reproduce(args: &ReproduceArgs) -> Result<Outcome, Failure> {
    let paper: Paper = args.paper.parse().map_err(Failure::of_usage)?;
    let folder = args.out.join(paper.name());
    let written = |error: std::io::Error| Failure::of_usage(format!("{}: {error}", folder.display()));
    if args.render {
        let path = folder.join("results.json");
        let describe =
            |error: &dyn std::fmt::Display| Failure::of_usage(format!("{}: {error}", path.display()));
        let text = std::fs::read_to_string(&path).map_err(|error| describe(&error))?;
        let mut results = Results::from_json(&text).map_err(|error| describe(&error))?;
        results.evaluate(paper);
        std::fs::write(&path, results.to_json()).map_err(written)?;
        session::write_views(&results, paper, &folder).map_err(written)?;
        return Ok(Outcome::Done);
    }
    let options = Options {
        size: if args.full { Size::Full } else { Size::Quick },
        seed: args.seed,
        folder: folder.clone(),
        traces: traces(args)?,
        fresh: args.fresh,
    };
    let mut watch = Watch { reporter: Reporter::new(args.quiet), running: None };
    let results = reproduce::run(paper, &options, &mut watch).map_err(written)?;
    if !args.quiet {
        let files = format!("{}: RESULTS.md, RESULTS.html, results.json, figures\n", folder.display());
        print(&(summary(&results) + &files))?;
    }
    Ok(if results.partial { Outcome::Partial } else { Outcome::Done })
}

fn traces(args: &ReproduceArgs) -> Result<Traces, Failure> {
    let Some(folder) = &args.traces else { return Ok(Traces::default()) };
    let traces =
        Traces::find(folder).map_err(|error| Failure::of_usage(format!("{}: {error}", folder.display())))?;
    if traces.is_empty() {
        return Err(Failure::of_usage(format!(
            "{}: no trace has one of the names in docs/reproduce.md",
            folder.display()
        )));
    }
    Ok(traces)
}

fn summary(results: &Results) -> String {
    let width = results.rows.iter().map(|row| row.id.len()).max().unwrap_or(0);
    results.rows.iter().map(|row| format!("{:width$}  {}\n", row.id, row.verdict)).collect()
}

type OnProgress = Box<dyn FnMut(Progress) -> ControlFlow<()>>;

/// Shows the progress of one experiment after the other.
struct Watch {
    reporter: Reporter,
    running: Option<OnProgress>,
}

impl Observer for Watch {
    fn begins(&mut self, number: usize, total: usize, name: &str, left: Option<Duration>) -> ControlFlow<()> {
        let left = left.map_or_else(String::new, |left| format!(", about {} s left", left.as_secs() + 1));
        self.reporter.say(&format!("[{number}/{total}] {name}{left}"));
        self.running = Some(Box::new(self.reporter.of_design(name)));
        if self.reporter.is_interrupted() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    fn goes_on(&mut self, progress: Progress) -> ControlFlow<()> {
        self.running.as_mut().map_or(ControlFlow::Continue(()), |running| running(progress))
    }

    fn not_run(&mut self, name: &str, why: &str) {
        self.reporter.say(&format!("{name}: not run: {why}"));
    }
}
