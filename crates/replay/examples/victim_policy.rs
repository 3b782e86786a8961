//! A user-defined victim policy in Rust:
//! `cargo run --release -p wearwell-replay --example victim_policy -- SPEC MARGIN [SETTING]...`.
//!
//! It is the policy that `examples/notebooks/victim_policy.ipynb` develops in Python, and a test compares the figures
//! of the two. Both see the same columns, so the move from Python is a matter of notation.

use std::ops::ControlFlow::Continue;

use wearwell::address::BlockId;
use wearwell::gc::{ChooseVictim, UserVictimPolicy, VictimCandidates};
use wearwell_config::Config;
use wearwell_replay::input::Input;
use wearwell_replay::replay::Plan;

/// Victim policy that waits until blocks lose more valid pages (the policy `Patient` of the notebook on victim
/// policies). Among the blocks with at most `margin` valid pages more than the emptiest block, it chooses the one
/// closed first.
struct Patient {
    /// Number of valid pages that a victim may have more than the emptiest block.
    margin: u32,
}

impl ChooseVictim for Patient {
    fn name(&self) -> String {
        "Patient".into()
    }

    fn choose(&mut self, candidates: &VictimCandidates<'_>) -> Result<Option<BlockId>, String> {
        let fewest = candidates.iter().map(|candidate| candidate.valid_pages).min().unwrap_or(0);
        let near = candidates.iter().filter(|candidate| candidate.valid_pages <= fewest + self.margin);
        Ok(near.max_by_key(|candidate| candidate.age_programs).map(|candidate| candidate.block))
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [spec, margin, settings @ ..] = &arguments[..] else {
        return Err("give a workload, a margin in pages, and settings such as device.preset=lab-8g".into());
    };
    let config = Config::read(None, settings)?;
    let input = Input::of_generator_spec_with_default_seed(spec, config.seed())?;
    let policy = UserVictimPolicy::new(Patient { margin: margin.parse()? });
    let record =
        Plan::new(&config, &input)?.with_user_policy(policy).run("page-map", &mut |_| Continue(()))?;
    println!("{}", serde_json::to_string(&record)?);
    Ok(())
}
