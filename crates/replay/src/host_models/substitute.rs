//! Generates requests with the published counts of a trace that is not available.
//!
//! Counts are exact, not expected values. Reads and writes, and first and repeated writes of an address, are dealt like
//! cards from a deck that contains the right number of each: if k of the n remaining cards are of a kind, the next one
//! is of it with probability k/n. What a paper does not publish is assumed, equally for all substitutes unless their
//! module head says otherwise:
//!
//! - requests are single pages of 4 KiB;
//! - the popularity of addresses is a zipf law over the order of their first write (exponent `theta`), for overwrites
//!   and reads alike (with `reads=uniform` for overwrites alone); reads are only of written addresses; new addresses
//!   are scattered over the volume;
//! - requests arrive at equal intervals over the published duration.
//!
//! `scale` multiplies requests, addresses and duration alike, so that rates and shares stay the same.

use rand_xoshiro::Xoshiro256PlusPlus;

use super::HostModel;
use super::recurring::ExactCountSampler;
use super::script::RequestScript;
use super::spec_values::SpecValues;
use crate::workload::draw::{Zipf, uniform_below};
use crate::workload::permutation::Permutation;
use crate::workload::spec_grammar::{SpecError, SpecKey, SpecKind};

/// Numbers of reads, writes and addresses, and duration of a trace, from which its substitute is generated. They are
/// published figures of the trace, or assumed where none was published.
#[derive(Clone, Copy, Debug)]
pub(super) struct TraceFacts {
    /// Name of the substitute (generated load) in a specification.
    pub name: &'static str,
    /// Number of reads of the trace; the substitute reads one page with each.
    pub reads: f64,
    /// Number of writes of the trace; the substitute writes one page with each.
    pub writes: f64,
    /// Number of distinct addresses that the trace writes.
    pub distinct_addresses: f64,
    /// Duration of the trace, seconds.
    pub duration_s: f64,
}

/// Specification key for the part of the trace that is generated.
pub(super) const SCALE_KEY: SpecKey =
    SpecKey { name: "scale", default: "0.01", meaning: "of the trace that is generated, 0.0001 to 1" };
/// Specification key for the skew of overwrites and reads.
pub(super) const THETA_KEY: SpecKey = SpecKey {
    name: "theta",
    default: "0.9",
    meaning: "zipf exponent of overwrites and reads (assumed), 0 to 2",
};

/// Specification key for the addresses that are read: popular ones more often, or all written ones alike.
pub(super) const READS_KEY: SpecKey = SpecKey {
    name: "reads",
    default: "popular",
    meaning: "popular: of addresses that are overwritten often (assumed); uniform: of all written addresses alike",
};

/// Keys of the specification of a substitute.
const SUBSTITUTE_KEYS: &[SpecKey] = &[SCALE_KEY, THETA_KEY, READS_KEY];

/// Returns the specification kind of the generated load that stands in for a trace: its name, description and keys.
pub(super) const fn substitute_spec_kind(name: &'static str, meaning: &'static str) -> SpecKind {
    SpecKind { name, meaning, keys: SUBSTITUTE_KEYS }
}

/// Generator of a host model that substitutes for a trace that is not available.
#[derive(Debug)]
pub(super) struct TraceSubstituteGenerator {
    /// Random number generator of the load.
    random: Xoshiro256PlusPlus,
    /// Number of requests (reads and writes) to generate in all.
    total_requests: u64,
    /// Time between two requests, nanoseconds.
    arrival_interval_ns: f64,
    /// Decides which requests are writes, so that exactly the planned number of writes is generated.
    write_request_sampler: ExactCountSampler,
    /// Decides which writes are the first of their address, so that exactly the planned number of addresses is written.
    first_write_sampler: ExactCountSampler,
    /// Number of requests generated so far.
    requests_done: u64,
    /// Number of addresses that the substitute has written so far; addresses are numbered in the order of their first
    /// write.
    written_address_count: u64,
    /// Popularity of the addresses, by rank.
    address_rank_distribution: Zipf,
    /// Whether addresses that are overwritten often are also read often; otherwise all written addresses are read
    /// alike.
    reads_favor_popular_addresses: bool,
    /// Page number of each address, by which addresses are scattered over the volume.
    address_permutation: Permutation,
}

impl TraceSubstituteGenerator {
    /// Creates the generator from the published counts of a trace and from the values of the keys in the specification.
    pub(super) fn new(
        facts: &TraceFacts,
        keys: &SpecValues,
        mut random: Xoshiro256PlusPlus,
    ) -> Result<Self, SpecError> {
        let scale = keys.number_of_key("scale", 0.0001..=1.0)?;
        let theta = keys.number_of_key("theta", 0.0..=2.0)?;
        let scaled = |count: f64| ((count * scale).round() as u64).max(1);
        let (reads, writes) = (scaled(facts.reads), scaled(facts.writes));
        let addresses = scaled(facts.distinct_addresses).min(writes);
        let requests = reads + writes;
        // Draws and discards one number, so that the requests of a seed stay those of earlier versions, in which
        // contents used it.
        rand::Rng::next_u64(&mut random);
        Ok(Self {
            total_requests: requests,
            arrival_interval_ns: facts.duration_s * scale * 1e9 / requests as f64,
            write_request_sampler: ExactCountSampler { events_left: writes, draws_left: requests },
            first_write_sampler: ExactCountSampler { events_left: addresses, draws_left: writes },
            requests_done: 0,
            written_address_count: 0,
            address_rank_distribution: Zipf::new(addresses, theta),
            reads_favor_popular_addresses: keys.is_first_of_two_words(
                "reads",
                ["popular", "uniform"],
                "popular or uniform",
            )?,
            address_permutation: Permutation::new(addresses, keys.integer_of_key("seed", 0..=u64::MAX)?),
            random,
        })
    }

    /// Returns an address that was written before, popular ones more often. While few addresses are written, most
    /// random draws yield an address that is not written yet; after 16 such draws any written address is returned.
    fn draw_popular_address(&mut self) -> u64 {
        for _ in 0..16 {
            let rank = self.address_rank_distribution.draw(&mut self.random) - 1;
            if rank < self.written_address_count {
                return rank;
            }
        }
        uniform_below(&mut self.random, self.written_address_count)
    }

    /// Plans the next page write, to a new address or to a popular one that was written before.
    fn plan_next_write(&mut self, script: &mut RequestScript) {
        let is_first = self.first_write_sampler.draw_event(self.written_address_count == 0, &mut self.random);
        let address = if is_first { self.written_address_count } else { self.draw_popular_address() };
        self.written_address_count += u64::from(is_first);
        let page = self.address_permutation.apply(address);
        script.plan_write(page, 1);
    }
}

impl HostModel for TraceSubstituteGenerator {
    fn plan_next_requests(&mut self, script: &mut RequestScript) {
        if self.requests_done == self.total_requests {
            return;
        }
        script.set_arrival_time((self.requests_done as f64 * self.arrival_interval_ns) as u64);
        self.requests_done += 1;
        // The first request is a write, because later requests need a written address to read or overwrite.
        if self.write_request_sampler.draw_event(self.written_address_count == 0, &mut self.random) {
            self.plan_next_write(script);
        } else {
            let address = if self.reads_favor_popular_addresses {
                self.draw_popular_address()
            } else {
                uniform_below(&mut self.random, self.written_address_count)
            };
            script.plan_read(self.address_permutation.apply(address), 1);
        }
    }
}
