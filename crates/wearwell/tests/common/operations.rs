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
    /// Creates a generator whose numbers are determined by `seed`.
    pub fn new(seed: u64) -> Self {
        Self(mix_bits(seed ^ 0x5eed))
    }

    /// Returns a random 64-bit number.
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix_bits(self.0)
    }

    /// Returns a random number less than `bound`. The numbers are uniformly distributed, with a deviation too small to
    /// matter in tests.
    pub fn below(&mut self, bound: u64) -> u64 {
        ((self.next() as u128 * bound as u128) >> 64) as u64
    }

    /// Returns `true` with a probability of `percent` percent.
    pub fn is_true_with_percent(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// Returns a random element of a list.
    pub fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len() as u64) as usize]
    }
}

/// A host operation, in sectors, or a change of an option at run time.
#[derive(Clone, Copy, Debug)]
pub enum Op {
    /// Write of one content to a range of sectors.
    Write {
        /// Number of the first sector that is written.
        first_sector: u64,
        /// Number of sectors that are written.
        sectors: u64,
        /// Id of the content that is written.
        content_id: u16,
    },
    /// Read of a range of sectors.
    Read {
        /// Number of the first sector that is read.
        first_sector: u64,
        /// Number of sectors that are read.
        sectors: u64,
    },
    /// Trim of a range of sectors.
    Trim {
        /// Number of the first sector that is trimmed.
        first_sector: u64,
        /// Number of sectors that are trimmed.
        sectors: u64,
    },
    /// Remap of whole pages: the target pages get the contents of the source pages without a transfer of data.
    Remap {
        /// Number of the first target page.
        target: u64,
        /// Number of the first source page.
        source: u64,
        /// Number of pages that are remapped.
        pages: u64,
        /// Whether the source pages keep their contents (copy) or are deallocated (relocate).
        mode: RemapMode,
    },
    /// Flush of all acknowledged writes.
    Flush,
    /// Changes the victim policy of garbage collection.
    SetVictimPolicy(VictimPolicy),
    /// Changes the policy and the capacity (entries; `None`: unbounded) of the fingerprint store, which finds dead
    /// pages to revive.
    SetFingerprintStore(FingerprintStorePolicy, Option<u32>),
    /// Switches content schemes (deduplication, compression and others): the given schemes on, all others off.
    SwitchMechanisms(MechanismSet),
}

/// Random generator of the host operations of a test run.
#[derive(Clone)]
pub struct OperationGenerator {
    /// Generator of the random numbers that determine the operations.
    pub random: Random,
    /// Number of sectors of the device.
    pub sectors: u64,
    /// Number of sectors per page.
    pub sectors_per_page: u64,
    /// Number of distinct contents; their ids are `0..content_count`.
    pub content_count: u16,
    /// Whether some operations of the run change the victim policy or the fingerprint store.
    pub changes_policies: bool,
}

impl OperationGenerator {
    /// Draws the next host operation. The shares are 55 % writes (three in four of whole pages), 26 % reads, 10 %
    /// trims, 6 % remaps and 3 % flushes. If `changes_policies` is set, one operation in a thousand changes a policy
    /// instead.
    pub fn draw(&mut self) -> Op {
        if self.changes_policies && self.random.below(1000) == 0 {
            return self.draw_policy_change();
        }
        match self.random.below(100) {
            0..55 => {
                let (first, sectors) = self.draw_range(75);
                Op::Write {
                    first_sector: first,
                    sectors,
                    content_id: self.random.below(self.content_count as u64) as u16,
                }
            }
            55..81 => {
                let (first, sectors) = self.draw_range(30);
                Op::Read { first_sector: first, sectors }
            }
            81..91 => {
                let (first, sectors) = self.draw_range(80);
                Op::Trim { first_sector: first, sectors }
            }
            91..97 => self.draw_remap(),
            _ => Op::Flush,
        }
    }

    /// Draws a range of sectors (first sector, number of sectors). With a probability of `whole_pages_percent` percent
    /// it is one or two whole pages, otherwise a range of up to two pages at any sector.
    fn draw_range(&mut self, whole_pages_percent: u64) -> (u64, u64) {
        let page = self.sectors_per_page;
        if self.random.is_true_with_percent(whole_pages_percent) {
            let pages = self.sectors / page;
            let first = self.random.below(pages);
            let count = (1 + self.random.below(8) / 7).min(pages - first);
            return (first * page, count * page);
        }
        let first = self.random.below(self.sectors);
        (first, (1 + self.random.below(2 * page)).min(self.sectors - first))
    }

    /// Draws a remap of one to three pages between random addresses; the ranges may overlap. One remap in three
    /// relocates the pages (deallocates the source).
    fn draw_remap(&mut self) -> Op {
        let device_pages = self.sectors / self.sectors_per_page;
        let pages = (1 + self.random.below(3)).min(device_pages);
        let [target, source] = [0, 1].map(|_| self.random.below(device_pages - pages + 1));
        let mode = if self.random.is_true_with_percent(33) { RemapMode::Relocate } else { RemapMode::Copy };
        Op::Remap { target, source, pages, mode }
    }

    /// Draws a change of the victim policy or of the fingerprint store.
    fn draw_policy_change(&mut self) -> Op {
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
            Op::SetVictimPolicy(self.random.pick(&victims))
        } else {
            Op::SetFingerprintStore(self.random.pick(&stores), self.random.pick(&entries))
        }
    }
}

/// Random generator that switches content schemes on and off between the operations of a run.
pub struct SchemeSwitcher {
    /// Generator of the random numbers that determine the switches.
    pub random: Random,
    /// Content schemes that may be switched.
    pub schemes: MechanismSet,
}

impl SchemeSwitcher {
    /// Draws a switch of content schemes once in sixty calls, otherwise `None`. Each scheme is then on with a
    /// probability of 75 %.
    pub fn draw(&mut self) -> Option<Op> {
        let is_due = self.schemes != MechanismSet::NONE && self.random.below(60) == 0;
        is_due.then(|| {
            Op::SwitchMechanisms(
                self.schemes.iter().filter(|_| self.random.is_true_with_percent(75)).collect(),
            )
        })
    }
}
