//! A request stream with the published counts of a trace that cannot be had.
//!
//! Counts are exact, not expected: reads and writes, and first and repeated writes of an address, are dealt like cards
//! from a deck that holds the right number of each (the next one of k left among n is drawn with probability k/n). What
//! a paper does not publish is an assumption, the same for all substitutes unless their header says otherwise:
//!
//! - requests are single pages of 4 KiB;
//! - addresses are as popular as a zipf law over the order of their first write says (exponent `theta`), for
//!   overwrites and reads alike; reads go to written addresses only; new addresses appear scattered over the volume;
//! - requests come at equal intervals over the published duration.
//!
//! `scale` multiplies requests, addresses and duration alike, so that rates and shares stay.

use rand_xoshiro::Xoshiro256PlusPlus;
use wearwell::content::{Fingerprint, mix};

use super::Model;
use super::keys::Keys;
use super::script::Script;
use crate::workload::draw::{Zipf, below, unit};
use crate::workload::options::{Key, SpecError};
use crate::workload::permutation::Permutation;

/// What is published about a trace, or assumed where its table says so.
#[derive(Clone, Copy, Debug)]
pub(super) struct Facts {
    pub name: &'static str,
    pub reads: f64,
    pub writes: f64,
    /// Distinct addresses written.
    pub addresses: f64,
    pub duration_s: f64,
    pub recycling: Option<Recycling>,
}

/// Contents that come back after they died.
#[derive(Clone, Copy, Debug)]
pub(super) struct Recycling {
    /// Share of the invalidated pages that a later write could have taken.
    pub share_of_invalid: f64,
    /// Share of those that are among the four newest dead pages of their address.
    pub newest_four: f64,
}

pub(super) const SCALE: Key =
    Key { name: "scale", default: "0.01", meaning: "of the trace that is generated, 0.0001 to 1" };
pub(super) const DUPLICATES: Key = Key {
    name: "duplicates",
    default: "0",
    meaning: "share of writes that repeat a content, 0 to 1; what is not recycled repeats live pages; 0: recycled ones only",
};
pub(super) const THETA: Key =
    Key { name: "theta", default: "0.9", meaning: "zipf exponent of overwrites and reads (assumed), 0 to 2" };

/// A deck of `left` cards of which `wanted` are of one kind.
#[derive(Clone, Copy, Debug)]
struct Deck {
    wanted: u64,
    left: u64,
}

impl Deck {
    /// Deals a card: whether it is of the kind. `must` picks one that is; no deck is asked for one that it lacks.
    fn deal(&mut self, must: bool, random: &mut Xoshiro256PlusPlus) -> bool {
        let is_wanted = must || below(random, self.left) < self.wanted;
        self.left -= 1;
        self.wanted -= u64::from(is_wanted);
        is_wanted
    }
}

/// The model.
#[derive(Debug)]
pub(super) struct Substitute {
    random: Xoshiro256PlusPlus,
    requests: u64,
    interval_ns: f64,
    /// Writes among requests, first writes among writes.
    writes: Deck,
    first_writes: Deck,
    done: u64,
    /// Addresses written so far, in order of their first write.
    known: u64,
    ranks: Zipf,
    places: Permutation,
    contents: Option<Contents>,
}

impl Substitute {
    pub(super) fn new(facts: &Facts, keys: &Keys, mut random: Xoshiro256PlusPlus) -> Result<Self, SpecError> {
        let scale = keys.number("scale", 0.0001..=1.0)?;
        let theta = keys.number("theta", 0.0..=2.0)?;
        let knows_contents = facts.recycling.is_some();
        let duplicates = if knows_contents { keys.number("duplicates", 0.0..=1.0)? } else { 0.0 };
        let scaled = |count: f64| ((count * scale).round() as u64).max(1);
        let (reads, writes) = (scaled(facts.reads), scaled(facts.writes));
        let addresses = scaled(facts.addresses).min(writes);
        let requests = reads + writes;
        let content_seed = rand::Rng::next_u64(&mut random);
        let overwrites = writes - addresses;
        let contents = facts.recycling.map(|recycling| {
            let recycled = (recycling.share_of_invalid * overwrites as f64).round() as u64;
            let repeated = (duplicates * writes as f64).round() as u64;
            let decks = [
                Deck { wanted: recycled, left: overwrites },
                Deck { wanted: repeated.saturating_sub(recycled), left: writes - recycled },
            ];
            Contents::new(addresses, decks, recycling, content_seed)
        });
        Ok(Self {
            requests,
            interval_ns: facts.duration_s * scale * 1e9 / requests as f64,
            writes: Deck { wanted: writes, left: requests },
            first_writes: Deck { wanted: addresses, left: writes },
            done: 0,
            known: 0,
            ranks: Zipf::new(addresses, theta),
            places: Permutation::new(addresses, keys.integer("seed", 0..=u64::MAX)?),
            contents,
            random,
        })
    }

    /// A known address, popular ones more often. While few are known most draws miss; then any will do.
    fn popular(&mut self) -> u64 {
        for _ in 0..16 {
            let rank = self.ranks.draw(&mut self.random) - 1;
            if rank < self.known {
                return rank;
            }
        }
        below(&mut self.random, self.known)
    }

    fn write(&mut self, script: &mut Script) {
        let is_first = self.first_writes.deal(self.known == 0, &mut self.random);
        let address = if is_first { self.known } else { self.popular() };
        self.known += u64::from(is_first);
        let page = self.places.apply(address);
        let Some(contents) = &mut self.contents else { return script.write(page, 1) };
        let recycled = if !is_first && contents.recycles(&mut self.random) {
            contents.take_dead(&self.ranks, self.known, &mut self.random)
        } else {
            None
        };
        let repeated = recycled.or_else(|| contents.repeat_live(&self.ranks, self.known, &mut self.random));
        script.write_known(page, contents.put(address, repeated));
    }
}

impl Model for Substitute {
    fn advance(&mut self, script: &mut Script) {
        if self.done == self.requests {
            return;
        }
        script.at((self.done as f64 * self.interval_ns) as u64);
        self.done += 1;
        // The first request writes, so that there is something to read and to overwrite.
        if self.writes.deal(self.known == 0, &mut self.random) {
            self.write(script);
        } else {
            let address = self.popular();
            script.read(self.places.apply(address), 1);
        }
    }
}

/// Which content every address holds and held. A dead content is taken at most once, so that the number of recyclable
/// pages is the number of times that one is taken; all other contents are new.
#[derive(Debug)]
struct Contents {
    recycled: Deck,
    /// Repeats of live pages among the other writes.
    live: Deck,
    newest_four: f64,
    /// Present content of each address, 0 before the first.
    present: Vec<u64>,
    /// Dead contents of each address, oldest first.
    dead: Vec<Vec<u64>>,
    made: u64,
    seed: u64,
    /// Draws that found no dead content, to be made up for.
    owed: u64,
}

/// Dead contents kept per address: what 4 bits of version tell apart.
const VERSIONS: usize = 16;

impl Contents {
    fn new(addresses: u64, [recycled, live]: [Deck; 2], recycling: Recycling, seed: u64) -> Self {
        Self {
            recycled,
            live,
            newest_four: recycling.newest_four,
            present: vec![0; addresses as usize],
            dead: vec![Vec::new(); addresses as usize],
            made: 0,
            seed,
            owed: 0,
        }
    }

    /// Whether an overwrite brings a dead content back.
    fn recycles(&mut self, random: &mut Xoshiro256PlusPlus) -> bool {
        let dealt = self.recycled.deal(false, random);
        self.owed += u64::from(dealt);
        self.owed > 0
    }

    /// Takes a dead content of a popular address; `None` if a few addresses have none, and then one is owed.
    fn take_dead(&mut self, ranks: &Zipf, known: u64, random: &mut Xoshiro256PlusPlus) -> Option<u64> {
        let is_new = unit(random) < self.newest_four;
        for _ in 0..64 {
            let address = ranks.draw(random) - 1;
            if address >= known {
                continue;
            }
            let dead = &mut self.dead[address as usize];
            let newest = dead.len().min(4);
            let older = dead.len() - newest;
            let (from, count) = if is_new { (older, newest) } else { (0, older) };
            if count > 0 {
                self.owed -= 1;
                return Some(dead.remove(from + below(random, count as u64) as usize));
            }
        }
        None
    }

    /// The content of a live page, as popular as its address, if this write repeats one.
    fn repeat_live(&mut self, ranks: &Zipf, known: u64, random: &mut Xoshiro256PlusPlus) -> Option<u64> {
        if self.live.wanted == 0 || self.live.left == 0 || !self.live.deal(false, random) {
            return None;
        }
        let source = (0..16).map(|_| ranks.draw(random) - 1).find(|&rank| rank < known);
        let content = self.present[source.unwrap_or(0) as usize];
        (content != 0).then_some(content)
    }

    /// The address gets this content, or a new one; what it held is dead.
    fn put(&mut self, address: u64, content: Option<u64>) -> Fingerprint {
        let content = content.unwrap_or_else(|| {
            self.made += 1;
            // A bijection of the number: contents never collide.
            mix(self.made ^ self.seed)
        });
        let held = std::mem::replace(&mut self.present[address as usize], content);
        if held != 0 {
            let dead = &mut self.dead[address as usize];
            if dead.len() == VERSIONS {
                dead.remove(0);
            }
            dead.push(held);
        }
        Fingerprint(content)
    }
}
