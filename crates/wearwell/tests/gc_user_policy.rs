//! Tests of user-supplied victim policies.

use std::sync::{Arc, Mutex};

use common::{
    BUFFERS, OperationGenerator, Oracle, Random, audit, designs, device, nand_with_all_page_fields,
};
use wearwell::address::{BlockId, Lpn};
use wearwell::data::{Content, ContentDescriptor, Fingerprint};
use wearwell::design::page_map;
use wearwell::gc::{ChooseVictim, GcOptions, UserVictimPolicy, VictimCandidates, VictimPolicy};
use wearwell::nand::{Geometry, RetainedPageFields, SimNand};
use wearwell::operation::FlashOp;
use wearwell::{Error, Ftl};

use crate::common;

/// A victim policy that calls a closure of the test.
struct ClosurePolicy<F>(F);

impl<F: FnMut(&VictimCandidates<'_>) -> Result<Option<BlockId>, String> + Send> ChooseVictim
    for ClosurePolicy<F>
{
    /// Returns the name of the policy for messages.
    fn name(&self) -> String {
        "By".into()
    }

    /// Chooses a victim by calling the closure of the test.
    fn choose(&mut self, candidates: &VictimCandidates<'_>) -> Result<Option<BlockId>, String> {
        (self.0)(candidates)
    }
}

/// Chooses a victim by cost-benefit (Kawaguchi, Nishioka, Motoda), `(1 - u) / 2u * age`, from the properties that a
/// user-supplied policy receives.
fn cost_benefit(candidates: &VictimCandidates<'_>) -> Option<BlockId> {
    let pages = f64::from(candidates.block_pages());
    let scored = candidates.iter().map(|candidate| {
        let used = f64::from(candidate.valid_pages) / pages;
        let age = candidate.age_programs as f64 + 1.0;
        let score = if used == 0.0 { f64::INFINITY } else { (1.0 - used) / (2.0 * used) * age };
        (score, candidate.block)
    });
    scored.max_by(|(a, x), (b, y)| a.total_cmp(b).then(y.cmp(x))).map(|(_, block)| block)
}

/// Returns an FTL of 500 logical pages on two planes, with this victim policy.
fn small_drive(policy: VictimPolicy) -> Ftl {
    let geometry = Geometry {
        channels: 1,
        dies_per_channel: 1,
        planes_per_die: 2,
        blocks_per_plane: 24,
        pages_per_block: 16,
        page_bytes: 4096,
        spare_bytes: 64,
        superblock_planes: 1,
    };
    let parts = page_map(GcOptions { policy, ..GcOptions::default() });
    Ftl::new(SimNand::new(geometry, RetainedPageFields::default()), 500, &parts).unwrap()
}

/// Returns the content that all pages are written with.
fn content() -> Content<'static> {
    Content::Descriptor(ContentDescriptor::of_fingerprint(Fingerprint::ZERO_PAGE))
}

/// Executes 20,000 writes, four in five of them to a fifth of the pages; returns the flash operations.
fn operations(mut ftl: Ftl) -> Vec<FlashOp> {
    ftl.store_mut().flash_ops.set_op_recording(true);
    let mut random = Random::new(3);
    for _ in 0..20_000 {
        let pages = if random.below(5) == 0 { 500 } else { 100 };
        ftl.write(Lpn(random.below(pages) as u32), content()).unwrap();
    }
    ftl.store().flash_ops.request_ops().to_vec()
}

#[test]
fn a_user_supplied_victim_policy_acts_like_the_same_built_in_policy() {
    let inside = operations(small_drive(VictimPolicy::CostBenefit));
    let mut ftl = small_drive(VictimPolicy::Greedy);
    ftl.set_user_victim_policy(Some(UserVictimPolicy::new(ClosurePolicy(
        |candidates: &VictimCandidates<'_>| Ok(cost_benefit(candidates)),
    ))));
    let outside = operations(ftl);
    assert_ne!(operations(small_drive(VictimPolicy::Greedy)), inside, "the policies differ on this load");
    assert_eq!(outside, inside);
}

#[test]
fn every_design_keeps_its_data_under_a_random_user_supplied_victim_policy() {
    for design in designs() {
        let tiny_device = &design.tiny_devices_with_enough_space()[0];
        let what = format!("{} on {}", design.name, tiny_device.name);
        let contents = design.distinct_content_count(9);
        let mut device =
            device(tiny_device, &design.parts, BUFFERS[0], nand_with_all_page_fields(tiny_device));
        let asked = Arc::new(Mutex::new(0));
        let (count, mut random) = (asked.clone(), Random::new(11));
        device.ftl_mut().set_user_victim_policy(Some(UserVictimPolicy::new(ClosurePolicy(
            move |candidates: &VictimCandidates<'_>| {
                *count.lock().unwrap() += 1;
                let blocks: Vec<_> = candidates.iter().collect();
                assert!(blocks.iter().all(|block| block.valid_pages < candidates.block_pages()));
                Ok(Some(blocks[random.below(blocks.len() as u64) as usize].block))
            },
        ))));
        let mut oracle = Oracle::for_device(&device, contents as usize);
        let (sectors, sectors_per_page) = (oracle.sectors(), oracle.sectors_per_page());
        let mut mix = OperationGenerator {
            random: Random::new(7),
            sectors,
            sectors_per_page,
            content_count: contents,
            changes_policies: false,
        };
        for operation in 0..1_500 {
            let op = mix.draw();
            oracle.apply(&mut device, op).unwrap_or_else(|error| panic!("{what}: {op:?}: {error}"));
            if operation % 100 == 0 {
                audit(&mut device);
            }
        }
        oracle.compare_all_logical_pages(&mut device).unwrap();
        let victims = device.ftl().stats().gc_victims;
        assert!(*asked.lock().unwrap() > 0, "{what}: {victims} victims, and the policy was never asked");
    }
}

/// A choice is invalid if it names no candidate, or if the policy returns an error.
#[test]
fn an_invalid_choice_of_a_user_supplied_victim_policy_is_refused_and_changes_nothing() {
    let mut ftl = small_drive(VictimPolicy::Greedy);
    let mut next = 0;
    let mut write = |ftl: &mut Ftl| {
        next = (next + 7) % 500;
        ftl.write(Lpn(next), content())
    };
    ftl.set_user_victim_policy(Some(UserVictimPolicy::new(ClosurePolicy(|_: &VictimCandidates<'_>| {
        Ok(Some(BlockId(4_000)))
    }))));
    let error = loop {
        if let Err(error) = write(&mut ftl) {
            break error;
        }
    };
    assert_eq!(
        error.to_string(),
        "the victim policy By failed: it chose block 4000, but must choose one of the candidates that it was given; correct the policy"
    );
    let (erases, programs) = (ftl.stats().total_erases(), ftl.stats().total_programs());
    ftl.set_user_victim_policy(Some(UserVictimPolicy::new(ClosurePolicy(|_: &VictimCandidates<'_>| {
        Err("no idea".into())
    }))));
    assert_eq!(write(&mut ftl), Err(Error::VictimPolicyFailed { name: "By".into(), why: "no idea".into() }));
    assert_eq!((ftl.stats().total_erases(), ftl.stats().total_programs()), (erases, programs));
    ftl.check().unwrap();
    // If a policy returns `None`, greedy chooses the victim.
    ftl.set_user_victim_policy(Some(UserVictimPolicy::new(ClosurePolicy(|_: &VictimCandidates<'_>| {
        Ok(None)
    }))));
    (0..1_000).for_each(|_| write(&mut ftl).unwrap());
    assert!(ftl.stats().total_erases() > erases);
}
