//! `devices`, `designs`, `workloads`, `completions`: what there is to choose from.

use std::fmt::Write as _;

use clap::CommandFactory;
use wearwell::{design, nand::preset};
use wearwell_replay::{content_model, hosts, workload};

use crate::args::Cli;

pub(crate) fn devices() -> String {
    let mut text =
        "auto         a small drive (2 channels x 2 dies, timing as lx-40g) sized to the trace; the default\n"
            .to_owned();
    for device in preset::all() {
        let gib = device.geometry.bytes() as f64 / (1u64 << 30) as f64;
        let _ = writeln!(text, "{:12} {gib:.0} GiB; {}", device.name, device.source);
    }
    text
}

pub(crate) fn designs() -> String {
    let mut text = String::new();
    for design in design::ALL {
        let _ = writeln!(text, "{}\n  source        {}", design.name, design.source);
        let _ =
            writeln!(text, "  modelled      {}\n  not modelled  {}\n", design.modelled, design.not_modelled);
    }
    text
}

pub(crate) fn workloads() -> String {
    [workload::GRAMMAR.help(), hosts::GRAMMAR.help(), content_model::GRAMMAR.help()].join("\n") + "\n"
}

pub(crate) fn completions(shell: clap_complete::Shell) -> String {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "wearwell", &mut text);
    String::from_utf8(text).expect("completion scripts are text")
}
