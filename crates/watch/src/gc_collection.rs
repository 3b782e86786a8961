//! Sentences about collections: why GC ran, which victim it took, from which candidates, and what it moved.

use wearwell::gc::VictimPolicy;
use wearwell::store::GreedyTieBreak;

use crate::before_and_after::DriveBeforeAndAfter;
use crate::phrases::{block_list, joined_list, with_plural};
use crate::record::{EventRow, VictimCandidateRow};

/// Returns the name of a victim policy, as in the setting `gc.policy`.
pub(super) fn policy_name(policy: VictimPolicy) -> &'static str {
    match policy {
        VictimPolicy::Greedy => "greedy",
        VictimPolicy::CostBenefit => "cost-benefit",
        VictimPolicy::DChoices { random_candidates: 1 } => "random",
        VictimPolicy::DChoices { .. } => "d-choices",
        VictimPolicy::Fifo => "fifo",
        VictimPolicy::DeadBytes => "dead-bytes",
        VictimPolicy::RecycleAware => "rc-gc",
    }
}

/// Returns the name of the figure by which a victim policy ranks a candidate block.
pub(super) fn ranking_figure_name(policy: VictimPolicy) -> &'static str {
    match policy {
        VictimPolicy::Greedy | VictimPolicy::DChoices { .. } => "valid pages",
        VictimPolicy::CostBenefit => "benefit / cost × age",
        VictimPolicy::Fifo => "closed at program",
        VictimPolicy::DeadBytes => "invalid pages, by bytes",
        VictimPolicy::RecycleAware => "invalid pages, by loss",
    }
}

/// Returns a phrase for the block that a victim policy takes, to end the sentence "The victim policy fifo takes": for
/// `fifo`, "the block that was filled first".
fn victim_criterion_phrase(policy: &str) -> &'static str {
    match policy {
        "cost-benefit" => {
            "the block with the greatest (1 - u) / 2u × age, where u is its share of valid pages and age the programs since it was filled"
        }
        "random" => "a random closed block",
        "d-choices" => "the block with the fewest valid pages among some random ones",
        "fifo" => "the block that was filled first",
        "dead-bytes" => "the block with the most invalid bytes",
        "rc-gc" => {
            "the block with the most invalid pages, where a page whose content is likely to be written again counts less"
        }
        _ => "the block with the fewest valid pages",
    }
}

/// One garbage collection in a step: the victim, and the events of emptying and erasing it.
pub(super) struct GcCollection<'a> {
    /// Number of the pool (planes that GC collects together) in which the block was collected.
    pool_number: u32,
    /// Number of free blocks of the pool before the collection.
    free_blocks: u32,
    /// Number of the block that GC chose as victim.
    victim_block: u32,
    /// Name of the rule by which the victim was chosen, such as `urgent`.
    selection_rule: &'a str,
    /// Blocks from which the victim was chosen.
    candidates: &'a [VictimCandidateRow],
    /// Events after the choice of the victim, up to and including its erase.
    events: &'a [EventRow],
}

/// Divides the events of a step into garbage collections and the events outside them.
pub(super) fn split_off_collections(events: &[EventRow]) -> (Vec<GcCollection<'_>>, Vec<&EventRow>) {
    let (mut collections, mut others, mut at) = (Vec::new(), Vec::new(), 0);
    while at < events.len() {
        if let EventRow::Victim { pool, free, block, rule, candidates } = &events[at] {
            let erases_it =
                |event: &EventRow| matches!(event, EventRow::Erase { block: erased, .. } if erased == block);
            let end = events[at..].iter().position(erases_it).map_or(events.len(), |end| at + end + 1);
            let events = &events[at + 1..end];
            collections.push(GcCollection {
                pool_number: *pool,
                free_blocks: *free,
                victim_block: *block,
                selection_rule: rule,
                candidates,
                events,
            });
            at = end;
        } else {
            others.push(&events[at]);
            at += 1;
        }
    }
    (collections, others)
}

impl GcCollection<'_> {
    /// Returns the sentences about this collection. `again` is whether the step has an earlier collection.
    pub(super) fn sentences(&self, scene: &DriveBeforeAndAfter<'_>, again: bool) -> Vec<String> {
        vec![
            self.gc_reason_sentence(scene, again),
            self.victim_choice_sentence(scene),
            self.copied_pages_sentence(scene),
        ]
    }

    /// Returns the sentence on why GC ran, such as too few free blocks; `again` is whether the step has an earlier
    /// collection.
    fn gc_reason_sentence(&self, scene: &DriveBeforeAndAfter<'_>, again: bool) -> String {
        let (pool, free) = (
            &scene.drive.pools[self.pool_number as usize],
            with_plural(self.free_blocks.into(), "free block"),
        );
        if again && self.free_blocks <= scene.drive.low_blocks {
            return format!("GC again: {pool} still has {free}.");
        }
        if self.free_blocks <= scene.drive.low_blocks {
            return format!(
                "Garbage collection (GC): {pool} has {free}; at {} or fewer, GC runs before a write.",
                scene.drive.low_blocks
            );
        }
        format!("Garbage collection (GC) makes room for metadata, deltas or chunks: {pool} has {free}.")
    }

    /// Returns the sentence on which victim GC took, by which rule, from how many candidates.
    fn victim_choice_sentence(&self, scene: &DriveBeforeAndAfter<'_>) -> String {
        let policy = &scene.drive.policy;
        let rule = match self.selection_rule {
            "own-policy" => "The user's policy chooses the victim.".to_owned(),
            "urgent" if policy != "greedy" => format!(
                "So few blocks are free that GC takes the block with the fewest valid pages, whatever the policy {policy} says."
            ),
            "no-free-block" => {
                "No block is free, so GC takes the block with the fewest valid pages that fit into open blocks.".to_owned()
            }
            "metadata-share" => "Metadata occupies more than its share of the blocks, so GC takes a metadata block.".to_owned(),
            "empty-metadata" => {
                "GC takes the block with the fewest valid pages; it leaves blocks of metadata alone until they have none, because \
                 metadata is rewritten soon."
                    .to_owned()
            }
            "only-metadata" => "Only blocks of metadata can be collected.".to_owned(),
            "recordable" => {
                "The reverse map has no room for the entries of the block that the policy chose, so GC takes another.".to_owned()
            }
            _ => format!("The victim policy {policy} takes {}.", victim_criterion_phrase(policy)),
        };
        format!("{rule} {}", self.victim_sentence(scene))
    }

    /// Returns a sentence on which block is the victim and how many valid pages it has. If the policy takes the block
    /// with the fewest valid pages, the sentence also states how many other candidates have equally few.
    fn victim_sentence(&self, scene: &DriveBeforeAndAfter<'_>) -> String {
        let valid_of = |row: &VictimCandidateRow| row.1;
        let Some(victim) = self.candidates.iter().find(|row| row.0 == self.victim_block) else {
            return String::new();
        };
        let equal = self.candidates.iter().filter(|row| valid_of(row) == valid_of(victim)).count() - 1;
        let is_by_valid = scene.drive.policy == "greedy" || self.selection_rule != "policy";
        let tie = if equal == 0 || !is_by_valid {
            String::new()
        } else {
            let which = if scene.tie_break == GreedyTieBreak::Oldest { "first" } else { "last" };
            let others = with_plural(equal as u64, "other block");
            let verb = if equal == 1 { "has" } else { "have" };
            format!(" ({others} {verb} as few; of equal blocks GC takes the one whose count fell {which})")
        };
        format!(
            "The victim is block {} with {} of {} pages valid, {}{tie}.",
            self.victim_block,
            valid_of(victim),
            scene.drive.block_pages,
            match self.candidates.len() {
                1 => "the only candidate".to_owned(),
                count => format!("one of {count} candidates"),
            }
        )
    }

    /// Returns the sentence on where the victim's valid pages were copied before its erase.
    fn copied_pages_sentence(&self, scene: &DriveBeforeAndAfter<'_>) -> String {
        let copies: Vec<u32> = self
            .events
            .iter()
            .filter_map(|event| if let EventRow::Copy { to, .. } = event { Some(*to) } else { None })
            .collect();
        let programs =
            self.events.iter().filter(|event| matches!(event, EventRow::Program { .. })).count() as u64;
        let mut blocks: Vec<u32> = copies.iter().map(|ppn| ppn / scene.drive.block_pages).collect();
        blocks.dedup();
        let erased = self.events.iter().any(|event| matches!(event, EventRow::Erase { .. }));
        if copies.is_empty() && programs == 0 && erased {
            return format!("No page has to be copied: GC erases block {}.", self.victim_block);
        }
        let mut done = Vec::new();
        if !copies.is_empty() {
            done.push(format!(
                "copies {} to {}",
                with_plural(copies.len() as u64, "page"),
                block_list(&blocks)
            ));
        }
        if programs > 0 {
            done.push(format!(
                "programs {} (deltas or chunks are packed anew)",
                with_plural(programs, "page")
            ));
        }
        done.push(if erased {
            format!("erases block {}", self.victim_block)
        } else {
            "does not come to the erase".to_owned()
        });
        format!("GC {}.", joined_list(&done))
    }
}

/// Returns the sentences about blocks whose pages wear leveling moved. `others` are the events of a step outside
/// garbage collections; of these, the copies and erases with the cause `wear` count.
pub(super) fn wear_leveling_sentences(others: &[&EventRow], scene: &DriveBeforeAndAfter<'_>) -> Vec<String> {
    let copies =
        others.iter().filter(|event| matches!(event, EventRow::Copy { cause: "wear", .. })).count() as u64;
    let erased = others.iter().filter_map(|event| match event {
        EventRow::Erase { cause: "wear", block } => Some(*block),
        _ => None,
    });
    erased
        .map(|block| {
            let erases = scene.before.blocks[block as usize].4;
            format!(
                "Wear leveling: block {block} was erased only {}, fewer than others, so its data is cold. It is moved ({}), and \
                 the block is used again.",
                with_plural(erases.into(), "time"),
                with_plural(copies, "copy")
            )
        })
        .collect()
}
