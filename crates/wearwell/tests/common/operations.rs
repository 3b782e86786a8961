//! A deterministic stream of host operations.

use wearwell::address::RemapMode;
use wearwell::content::recycle::StorePolicy;
use wearwell::data::mix;
use wearwell::gc::VictimPolicy;
use wearwell::lifetime::ContentSchemes;

/// `SplitMix64`: short, and the same on every machine.
#[derive(Clone)]
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(mix(seed ^ 0x5eed))
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// A number below `bound`; the bias of the multiplication is far below what a test can see.
    pub fn below(&mut self, bound: u64) -> u64 {
        ((self.next() as u128 * bound as u128) >> 64) as u64
    }

    pub fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    pub fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len() as u64) as usize]
    }
}

/// A host operation, in sectors, or a switch at run time.
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
    /// Whole pages: first target page, first source page, pages.
    Remap {
        target: u64,
        source: u64,
        pages: u64,
        mode: RemapMode,
    },
    Flush,
    Victims(VictimPolicy),
    Fingerprints(StorePolicy, Option<u32>),
    /// Only these content schemes run from now on.
    Schemes(ContentSchemes),
}

/// What the operations of a run look like.
#[derive(Clone)]
pub struct Mix {
    pub random: Random,
    pub sectors: u64,
    pub page_sectors: u64,
    /// Contents are `0..contents`.
    pub contents: u16,
    /// Whether policies are exchanged now and then.
    pub switches: bool,
}

impl Mix {
    /// 55 % writes (three in four of whole pages), 26 % reads, 10 % trims, 6 % remaps, 3 % flushes; every thousandth
    /// operation is a switch.
    pub fn draw(&mut self) -> Op {
        if self.switches && self.random.below(1000) == 0 {
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

    /// One or two whole pages, or any run of sectors of up to two pages.
    fn draw_range(&mut self, whole_pages_percent: u64) -> (u64, u64) {
        let page = self.page_sectors;
        if self.random.chance(whole_pages_percent) {
            let pages = self.sectors / page;
            let first = self.random.below(pages);
            let count = (1 + self.random.below(8) / 7).min(pages - first);
            return (first * page, count * page);
        }
        let first = self.random.below(self.sectors);
        (first, (1 + self.random.below(2 * page)).min(self.sectors - first))
    }

    /// One to three pages to anywhere, overlaps included; one in three moves them.
    fn draw_remap(&mut self) -> Op {
        let device_pages = self.sectors / self.page_sectors;
        let pages = (1 + self.random.below(3)).min(device_pages);
        let [target, source] = [0, 1].map(|_| self.random.below(device_pages - pages + 1));
        let mode = if self.random.chance(33) { RemapMode::Relocate } else { RemapMode::Copy };
        Op::Remap { target, source, pages, mode }
    }

    fn draw_switch(&mut self) -> Op {
        let victims = [
            VictimPolicy::Greedy,
            VictimPolicy::CostBenefit,
            VictimPolicy::DChoices { d: 2 },
            VictimPolicy::Fifo,
            VictimPolicy::RecycleAware,
        ];
        let stores =
            [StorePolicy::Lru, StorePolicy::Probability, StorePolicy::ProbabilityFastLoading { window: 2 }];
        let entries = [Some(0), Some(1), Some(6), Some(30), None];
        if self.random.chance(50) {
            Op::Victims(self.random.pick(&victims))
        } else {
            Op::Fingerprints(self.random.pick(&stores), self.random.pick(&entries))
        }
    }
}

/// Content schemes that are switched on and off at random, between the operations of a run.
pub struct Switching {
    pub random: Random,
    pub schemes: ContentSchemes,
}

impl Switching {
    /// Once in sixty operations, a switch after which each scheme runs in three cases of four.
    pub fn draw(&mut self) -> Option<Op> {
        let is_due = self.schemes != ContentSchemes::NONE && self.random.below(60) == 0;
        is_due.then(|| Op::Schemes(self.schemes.iter().filter(|_| self.random.chance(75)).collect()))
    }
}
