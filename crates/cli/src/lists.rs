//! `devices`, `designs`, `workloads`, `completions`: what there is to choose from.

use clap::CommandFactory;
use wearwell::{design, nand::preset};
use wearwell_replay::{content_model, workload};

use crate::args::Cli;
use crate::{Failure, Outcome};

pub(crate) fn devices() -> Result<Outcome, Failure> {
    println!(
        "auto         a small drive (2 channels x 2 dies, timing as lx-40g) sized to the trace; the default"
    );
    for device in preset::all() {
        let gib = device.geometry.bytes() as f64 / (1u64 << 30) as f64;
        println!("{:12} {gib:.0} GiB; {}", device.name, device.source);
    }
    Ok(Outcome::Done)
}

pub(crate) fn designs() -> Result<Outcome, Failure> {
    for design in design::ALL {
        println!("{}\n  source        {}", design.name, design.source);
        println!("  modelled      {}\n  not modelled  {}\n", design.modelled, design.not_modelled);
    }
    Ok(Outcome::Done)
}

pub(crate) fn workloads() -> Result<Outcome, Failure> {
    println!("{}\n{}", workload::GRAMMAR.help(), content_model::GRAMMAR.help());
    Ok(Outcome::Done)
}

pub(crate) fn completions(shell: clap_complete::Shell) -> Result<Outcome, Failure> {
    clap_complete::generate(shell, &mut Cli::command(), "wearwell", &mut std::io::stdout());
    Ok(Outcome::Done)
}
