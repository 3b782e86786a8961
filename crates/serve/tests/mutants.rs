//! Tests of the oracle by drives with one planted defect each: the exact oracle must find every defect, and must report
//! none in a correct drive.

use std::collections::{BTreeMap, VecDeque};

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use versions::{BlockContent, NOTHING, Oracle, Request, RequestKind, Violation, ViolationKind, page_of};

use crate::versions;

/// Number of blocks of the drive.
const BLOCKS: u64 = 512;
/// Size of a block, bytes.
const BLOCK_BYTES: usize = 4096;
/// Maximum number of requests in flight.
const REQUESTS_IN_FLIGHT_MAX: usize = 16;
/// Maximum number of cycles (random requests, then a power cut) until every planted defect must be found. Similar
/// reliability tests needed up to 150 for the rarest defect.
const POWER_CYCLES_MAX: u64 = 400;

/// Defect that is planted in a drive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Defect {
    /// The drive is correct.
    None,
    /// Flushes do nothing.
    FlushIgnored,
    /// The flag FUA of writes is ignored.
    FuaIgnored,
    /// Every sixteenth flush does nothing.
    EverySixteenthFlushIgnored,
    /// Each flush leaves out one block in 64 at random.
    FlushDropsBlocks,
    /// At each power cut, one bit of the medium is flipped.
    BitFlipped,
    /// At each power cut, one block gets the content of another block.
    Misdirected,
    /// At each power cut, one block becomes zeros.
    Zeroed,
    /// At each power cut, one block gets half of another block's content.
    Torn,
    /// Trims change only the cache and are never made durable.
    TrimForgotten,
    /// Of two versions of a block that are flushed together, the older one is written to the medium.
    OlderVersionWins,
}

/// All defects, without the correct drive.
const DEFECTS: [Defect; 10] = [
    Defect::FlushIgnored,
    Defect::FuaIgnored,
    Defect::EverySixteenthFlushIgnored,
    Defect::FlushDropsBlocks,
    Defect::BitFlipped,
    Defect::Misdirected,
    Defect::Zeroed,
    Defect::Torn,
    Defect::TrimForgotten,
    Defect::OlderVersionWins,
];

/// A simulated drive with a volatile cache over a medium of bytes, and with one defect.
struct Drive {
    /// Planted defect of the drive.
    defect: Defect,
    /// Durable content of each block.
    medium: Vec<Vec<u8>>,
    /// Versions of each block that were written since the last flush, oldest first.
    unflushed_versions_by_block: BTreeMap<u64, Vec<BlockContent>>,
    /// Number of flushes so far.
    flushes: u64,
    /// Generator of the random choices of the drive.
    random: Xoshiro256PlusPlus,
}

impl Drive {
    /// Makes a drive with this defect whose blocks hold zeros.
    fn new(defect: Defect, seed: u64) -> Self {
        Self {
            defect,
            medium: vec![vec![0; BLOCK_BYTES]; BLOCKS as usize],
            unflushed_versions_by_block: BTreeMap::new(),
            flushes: 0,
            random: Xoshiro256PlusPlus::seed_from_u64(seed),
        }
    }

    /// Executes a write, trim or flush request.
    fn execute(&mut self, request: &Request) {
        if request.kind == RequestKind::Flush {
            return self.flush();
        }
        for (block, &value) in (request.first_block..).zip(&request.block_contents) {
            self.unflushed_versions_by_block.entry(block).or_default().push(value);
            if request.is_durable && self.defect != Defect::FuaIgnored {
                self.write_block_to_medium(block);
            }
        }
    }

    /// Makes the cached blocks durable, unless the defect prevents it.
    fn flush(&mut self) {
        self.flushes += 1;
        let is_ignored = match self.defect {
            Defect::FlushIgnored => true,
            Defect::EverySixteenthFlushIgnored => self.flushes.is_multiple_of(16),
            _ => false,
        };
        if is_ignored {
            return;
        }
        let blocks: Vec<u64> = self.unflushed_versions_by_block.keys().copied().collect();
        for block in blocks {
            let is_forgotten =
                self.defect == Defect::FlushDropsBlocks && self.random.random_range(0..64) == 0;
            if !is_forgotten {
                self.write_block_to_medium(block);
            }
        }
    }

    /// Writes the newest cached version of a block to the medium, or wrong data if the planted defect of the drive
    /// requires it.
    fn write_block_to_medium(&mut self, block: u64) {
        let Some(versions) = self.unflushed_versions_by_block.remove(&block) else { return };
        let value = match self.defect {
            Defect::OlderVersionWins => versions[versions.len().saturating_sub(2)],
            _ => versions[versions.len() - 1],
        };
        if !(self.defect == Defect::TrimForgotten && value == NOTHING) {
            self.medium[block as usize] = page_of(value, BLOCK_BYTES);
        }
    }

    /// Simulates a loss of power: the content of the volatile cache is lost, except some blocks that had been written
    /// to the medium already.
    fn cut_power(&mut self) {
        for (block, versions) in std::mem::take(&mut self.unflushed_versions_by_block) {
            if self.random.random_range(0..3) == 0 {
                let value = versions[self.random.random_range(0..versions.len())];
                self.medium[block as usize] = page_of(value, BLOCK_BYTES);
            }
        }
        let (one, other) = (self.draw_block_number(), self.draw_block_number());
        match self.defect {
            Defect::BitFlipped => {
                let at = self.random.random_range(0..BLOCK_BYTES);
                self.medium[one][at] ^= 1 << self.random.random_range(0..8);
            }
            Defect::Misdirected => self.medium[one] = self.medium[other].clone(),
            Defect::Zeroed => self.medium[one].fill(0),
            Defect::Torn => {
                let half = self.medium[other][..BLOCK_BYTES / 2].to_vec();
                self.medium[one][..BLOCK_BYTES / 2].copy_from_slice(&half);
            }
            _ => {}
        }
    }

    /// Draws the number of a block.
    fn draw_block_number(&mut self) -> usize {
        self.random.random_range(0..BLOCKS) as usize
    }
}

/// Repeats cycles of random requests, a power cut and a comparison of all blocks, until the oracle finds violations.
/// Returns the number of cycles before the first violation, the number of blocks compared, and the violations.
fn run_until_violation(defect: Defect, seed: u64) -> (u64, u64, Vec<Violation>) {
    let mut drive = Drive::new(defect, seed + 1);
    let mut oracle = Oracle::new(BLOCKS);
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    for cycle in 0..POWER_CYCLES_MAX {
        let mut in_flight = VecDeque::new();
        for _ in 0..random.random_range(1..600) {
            in_flight.extend(oracle.draw(&mut random));
            if in_flight.len() == REQUESTS_IN_FLIGHT_MAX {
                let request = in_flight.pop_front().expect("it is full");
                drive.execute(&request);
                oracle.complete(&request);
            }
        }
        // Some of those in flight are executed and nobody is told.
        in_flight
            .drain(..random.random_range(0..=in_flight.len()))
            .for_each(|request| drive.execute(&request));
        drive.cut_power();
        let found: Vec<Violation> =
            (0..BLOCKS).filter_map(|block| oracle.judge(block, &drive.medium[block as usize])).collect();
        if !found.is_empty() {
            return (cycle, oracle.compared_blocks, found);
        }
    }
    (POWER_CYCLES_MAX, oracle.compared_blocks, vec![])
}

#[test]
fn the_oracle_reports_no_violation_for_a_correct_drive() {
    let (cycles, checked, violations) = run_until_violation(Defect::None, 3);
    assert_eq!((cycles, violations), (POWER_CYCLES_MAX, vec![]));
    assert_eq!(checked, POWER_CYCLES_MAX * BLOCKS);
}

#[test]
fn the_oracle_detects_every_planted_drive_defect() {
    for defect in DEFECTS {
        for seed in 0..5 {
            let (cycle, checked, violations) = run_until_violation(defect, seed);
            assert!(!violations.is_empty(), "{defect:?} seed {seed}: missed in {cycle} cycles");
            println!("{defect:?} seed {seed}: caught in cycle {cycle}, {checked} blocks compared");
        }
    }
}

#[test]
fn the_oracle_distinguishes_lost_stale_and_resurrected_data() {
    let judge = |durable: &[BlockContent], found: &[u8]| {
        let mut oracle = Oracle::new(8);
        for &value in durable {
            oracle.record_sent_version(2, value);
            oracle.acknowledge(2, true);
        }
        oracle.judge(2, found).map(|violation| violation.kind)
    };
    let bytes = |value| page_of(value, BLOCK_BYTES);
    assert_eq!(judge(&[(3, 1)], &bytes((3, 1))), None);
    assert_eq!(judge(&[(3, 1)], &bytes(NOTHING)), Some(ViolationKind::Lost));
    assert_eq!(judge(&[(3, 1), (3, 2)], &bytes((3, 1))), Some(ViolationKind::Stale));
    assert_eq!(judge(&[(3, 1), NOTHING], &bytes((3, 1))), Some(ViolationKind::Resurrected));
    assert_eq!(judge(&[(3, 1)], &bytes((4, 1))), Some(ViolationKind::ContentOfOtherBlock));
    let torn = [&bytes((3, 1))[..2048], &bytes((3, 2))[..2048]].concat();
    assert_eq!(judge(&[(3, 1)], &torn), Some(ViolationKind::Torn));
}
