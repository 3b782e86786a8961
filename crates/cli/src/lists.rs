//! `devices`, `designs`, `workloads`, `completions`: what there is to choose from.

use clap::CommandFactory;
use wearwell::{design, nand::preset};
use wearwell_replay::{content_model, hosts, workload};

use crate::args::Cli;

pub(crate) fn devices() {
    println!(
        "auto         a small drive (2 channels x 2 dies, timing as lx-40g) sized to the trace; the default"
    );
    for device in preset::all() {
        let gib = device.geometry.bytes() as f64 / (1u64 << 30) as f64;
        println!("{:12} {gib:.0} GiB; {}", device.name, device.source);
    }
}

pub(crate) fn designs() {
    for design in design::ALL {
        println!("{}\n  source        {}", design.name, design.source);
        println!("  modelled      {}\n  not modelled  {}\n", design.modelled, design.not_modelled);
    }
}

pub(crate) fn workloads() {
    println!("{}", workload::GRAMMAR.help());
    println!("{}", hosts::GRAMMAR.help());
    println!("{}", content_model::GRAMMAR.help());
}

pub(crate) fn completions(shell: clap_complete::Shell) {
    clap_complete::generate(shell, &mut Cli::command(), "wearwell", &mut std::io::stdout());
}
