//! A deterministic random stream of host operations.

use wearwell::address::RemapMode;
use wearwell::content::recycle::FingerprintStorePolicy;
use wearwell::data::mix_bits;
use wearwell::gc::VictimPolicy;
use wearwell::lifetime::MechanismSet;

/// Random generator `SplitMix64`: short, and equal on every machine.
#[derive(Clone)]
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(mix_bits(seed ^ 0x5eed))
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix_bits(self.0)
    }

    /// Returns a random number less than `bound`. Its deviation from a uniform distribution is too small to matter in
    /// tests.
    pub fn below(&mut self, bound: u64) -> u64 {
        ((self.next() as u128 * bound as u128) >> 64) as u64
    }

    pub fn is_true_with_percent(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    pub fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len() as u64) as usize]
    }
}

/// A host operation, in sectors, or a change of an option at run time.
#[derive(Clone, Copy, Debug)]
pub enum Op {
    Write {
        first: u64,
        sectors: u64,
        id: u16,
    },
    Read {
        first: u64,
        sectors: u64,
    },
    Trim {
        first: u64,
        sectors: u64,
    },
    /// Remap of whole pages: first target page, first source page, number of pages.
    Remap {
        target: u64,
        source: u64,
        pages: u64,
        mode: RemapMode,
    },
    Flush,
    Victims(VictimPolicy),
    Fingerprints(FingerprintStorePolicy, Option<u32>),
    /// Switches the given content schemes on, and all others off.
    Schemes(MechanismSet),
}

/// Random generator of the host operations of a test run.
#[derive(Clone)]
pub struct OperationGenerator {
    pub random: Random,
    pub sectors: u64,
    pub page_sectors: u64,
    /// Number of distinct contents; their ids are `0..contents`.
    pub contents: u16,
    /// Whether some operations of the run change policies.
    pub changes_policies: bool,
}

impl OperationGenerator {
    /// Draws the next host operation: 55 % writes (three in four of whole pages), 26 % reads, 10 % trims, 6 % remaps, 3
    /// % flushes. If policy changes are on, one operation in a thousand changes a policy.
    pub fn draw(&mut self) -> Op {
        if self.changes_policies && self.random.below(1000) == 0 {
            return self.draw_switch();
        }
        match self.random.below(100) {
            0..55 => {
                let (first, sectors) = self.draw_range(75);
                Op::Write { first, sectors, id: self.random.below(self.contents as u64) as u16 }
            }
            55..81 => {
                let (first, sectors) = self.draw_range(30);
                Op::Read { first, sectors }
            }
            81..91 => {
                let (first, sectors) = self.draw_range(80);
                Op::Trim { first, sectors }
            }
            91..97 => self.draw_remap(),
            _ => Op::Flush,
        }
    }

    /// Draws a range of sectors: with a probability of `whole_pages_percent` one or two whole pages, otherwise any
    /// range of up to two pages.
    fn draw_range(&mut self, whole_pages_percent: u64) -> (u64, u64) {
        let page = self.page_sectors;
        if self.random.is_true_with_percent(whole_pages_percent) {
            let pages = self.sectors / page;
            let first = self.random.below(pages);
            let count = (1 + self.random.below(8) / 7).min(pages - first);
            return (first * page, count * page);
        }
        let first = self.random.below(self.sectors);
        (first, (1 + self.random.below(2 * page)).min(self.sectors - first))
    }

    /// Draws a remap of one to three pages between random addresses, which may overlap; one remap in three relocates
    /// the pages.
    fn draw_remap(&mut self) -> Op {
        let device_pages = self.sectors / self.page_sectors;
        let pages = (1 + self.random.below(3)).min(device_pages);
        let [target, source] = [0, 1].map(|_| self.random.below(device_pages - pages + 1));
        let mode = if self.random.is_true_with_percent(33) { RemapMode::Relocate } else { RemapMode::Copy };
        Op::Remap { target, source, pages, mode }
    }

    fn draw_switch(&mut self) -> Op {
        let victims = [
            VictimPolicy::Greedy,
            VictimPolicy::CostBenefit,
            VictimPolicy::DChoices { random_candidates: 2 },
            VictimPolicy::Fifo,
            VictimPolicy::RecycleAware,
        ];
        let stores = [
            FingerprintStorePolicy::Lru,
            FingerprintStorePolicy::Probability,
            FingerprintStorePolicy::ProbabilityFastLoading { window: 2 },
        ];
        let entries = [Some(0), Some(1), Some(6), Some(30), None];
        if self.random.is_true_with_percent(50) {
            Op::Victims(self.random.pick(&victims))
        } else {
            Op::Fingerprints(self.random.pick(&stores), self.random.pick(&entries))
        }
    }
}

/// Random generator that switches content schemes on and off between the operations of a run.
pub struct SchemeSwitcher {
    pub random: Random,
    pub schemes: MechanismSet,
}

impl SchemeSwitcher {
    /// Draws a switch of content schemes once in sixty calls, otherwise `None`. Each scheme is then on with a
    /// probability of 75 %.
    pub fn draw(&mut self) -> Option<Op> {
        let is_due = self.schemes != MechanismSet::NONE && self.random.below(60) == 0;
        is_due.then(|| {
            Op::Schemes(self.schemes.iter().filter(|_| self.random.is_true_with_percent(75)).collect())
        })
    }
}
