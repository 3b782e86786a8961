//! Generates page writes whose contents are written again after they became dead, more often the more they were read.
//!
//! A *version* is what an address holds from one write to the next. Every version has a class, which is the number of
//! its reads, 0 to 15. Returns (writes of a dead content) are dealt by class, so that reads predict returns exactly as
//! far as the classes do.
//!
//! Counts are exact, not expected values. First writes, first overwrites and returns are dealt like cards from a deck
//! that contains the right number of each: if k of the n remaining cards are of a kind, the next one is of it with
//! probability k/n. Only if the drawn addresses have no dead version of the wanted class is a return postponed.
//!
//! - The popularity of addresses that are overwritten at all is a zipf law over the order of their first write, for
//!   overwrites and for returns alike. The other addresses are written once.
//! - A returned content is written to an address drawn like that of any overwrite. Its reads are not repeated.
//! - The reads of a version are spread over its life: a twentieth of all reads is pending, and the next read is drawn
//!   from these at random. Reads that are still pending when the version is overwritten are sent just before the write.
//! - If the trace has fewer reads than the classes need, its reads are a random sample of those.
//! - Requests arrive at equal intervals over the duration.
//!
//! The key decision is to deal classes instead of simulating why a host reads what it will write again, because no
//! paper describes that. The price is that reads and returns depend on each other through the class alone.

use rand_xoshiro::Xoshiro256PlusPlus;
use wearwell::data::{Fingerprint, mix_bits};

use super::HostModel;
use super::script::RequestScript;
use crate::workload::draw::{Zipf, uniform_below, uniform_in_unit_interval};
use crate::workload::permutation::Permutation;

/// Number of classes of page versions: a class is the number of reads of a version, 0 to 15.
pub(super) const READ_COUNT_CLASSES: usize = 16;
/// Largest number of dead versions (overwritten contents) kept per address. The paper numbers versions with 4 bits.
const MAX_DEAD_VERSIONS_PER_ADDRESS: usize = 16;
/// Number of dead versions (overwritten contents) of an address that count as its newest: versions 15 to 12 in the
/// numbering of the Recyclable SSD paper.
const NEWEST_DEAD_VERSION_COUNT: usize = 4;
/// Number of addresses that are tried before a return (the write of a dead content) is postponed.
const MAX_RECURRENCE_ADDRESS_TRIES: usize = 64;

/// One share of page versions, or one probability, for each number of reads of a version (0 to 15).
pub(super) type VersionSharesByReadCount = [f64; READ_COUNT_CLASSES];

/// Parameters of a host model in which contents are written again after they became dead.
#[derive(Clone, Debug)]
pub(super) struct RecurringContentParameters {
    /// Number of page writes that the host model generates.
    pub writes: u64,
    /// Number of distinct addresses that the host model writes.
    pub distinct_addresses: u64,
    /// Number of addresses that the host model overwrites at least once.
    pub overwritten_addresses: u64,
    /// Number of reads that the host model generates. `None`: as many as the page versions need, because the class of
    /// each version is its number of reads.
    pub reads: Option<u64>,
    /// Time over which the requests arrive, seconds.
    pub duration_s: f64,
    /// Number of writes that repeat a dead content (one that was overwritten before).
    pub dead_content_writes: u64,
    /// Number of writes that repeat the content of a valid page; not counted as returns.
    pub live_content_writes: u64,
    /// Share of the requests before the first return (write of a dead content).
    pub request_share_before_first_recurrence: f64,
    /// Share of the returns (writes of a dead content) that write one of the four newest dead versions of their
    /// address.
    pub recurrence_share_of_newest_four_versions: f64,
    /// Among the writes of new content: share of each number of reads that the written version gets before it is
    /// overwritten.
    pub new_content_read_count_shares: VersionSharesByReadCount,
    /// Among the writes of a dead content: share of each number of reads that the content had before it died.
    pub recurring_content_read_count_shares: VersionSharesByReadCount,
    /// Whether all versions (contents) of an address have one class (number of reads).
    pub has_one_read_count_per_address: bool,
    /// Number of neighbouring pages whose newest dead contents are written again one after the other; 1: each dead
    /// content is written again by itself.
    pub neighbours_rewritten_together: u64,
    /// Zipf exponent of the popularity of addresses for overwrites.
    pub zipf_theta: f64,
    /// Seed of the random draws.
    pub seed: u64,
}

impl RecurringContentParameters {
    /// Returns the expected total number of reads of all page versions, computed from the shares of versions by number
    /// of reads.
    fn total_version_reads(&self) -> u64 {
        let total: f64 = self.new_content_read_count_shares.iter().sum();
        let mean = (0u32..)
            .zip(self.new_content_read_count_shares)
            .map(|(class, share)| f64::from(class) * share)
            .sum::<f64>();
        ((self.writes - self.dead_content_writes) as f64 * mean / total).round() as u64
    }
}

/// Decides at random in which of the next `draws_left` draws an event happens, such that the event happens in exactly
/// `events_left` of them, as when cards are dealt from a shuffled deck.
#[derive(Clone, Copy, Debug)]
pub(super) struct ExactCountSampler {
    /// Number of events that are still to happen.
    pub events_left: u64,
    /// Number of draws that are still to be made.
    pub draws_left: u64,
}

impl ExactCountSampler {
    /// Makes the next draw, and returns whether the event happens in it. `must` forces the event; at least one event
    /// must then be left.
    pub(super) fn draw_event(&mut self, must: bool, random: &mut Xoshiro256PlusPlus) -> bool {
        let is_wanted = must || uniform_below(random, self.draws_left) < self.events_left;
        self.draws_left -= 1;
        self.events_left -= u64::from(is_wanted);
        is_wanted
    }
}

/// Draws a class (number of reads) with its share as the probability.
fn draw_read_count_class(shares: &VersionSharesByReadCount, random: &mut Xoshiro256PlusPlus) -> u8 {
    let mut left = uniform_in_unit_interval(random) * shares.iter().sum::<f64>();
    for (class, share) in (0u8..).zip(shares) {
        left -= share;
        if left < 0.0 {
            return class;
        }
    }
    shares.iter().rposition(|&share| share > 0.0).unwrap_or(0) as u8
}

/// Generator of a host model whose page contents are written again after they became dead.
#[derive(Debug)]
pub(super) struct RecurringContentGenerator {
    /// Random number generator of the host model.
    random: Xoshiro256PlusPlus,
    /// Number of requests (reads and writes) to generate in all.
    total_requests: u64,
    /// Time between two requests, nanoseconds.
    arrival_interval_ns: f64,
    /// Number of requests generated so far.
    requests_done: u64,
    /// Number of writes that are still to be generated.
    writes_left: u64,
    /// Decides at random which writes are the first of their address, so that exactly the planned number of addresses
    /// is written.
    first_write_sampler: ExactCountSampler,
    /// Decides at random which overwrites are the first of their address, so that exactly the planned number of
    /// addresses is overwritten.
    first_overwrite_sampler: ExactCountSampler,
    /// Number of first overwrites of an address that are postponed. They were drawn when every written address had been
    /// overwritten already, and are made as soon as a new address is written.
    postponed_first_overwrites: u64,
    /// Number of addresses that the host model has written so far; addresses are numbered in the order of their first
    /// write.
    written_address_count: u64,
    /// Number of addresses that the host model has overwritten so far.
    overwritten_addresses_so_far: u64,
    /// Popularity of the addresses, by rank.
    address_rank_distribution: Zipf,
    /// Page number of each address, by which addresses are scattered over the volume.
    address_permutation: Permutation,
    /// Reads that are still to be sent to the present version of each address.
    pending_reads: PendingReads,
    /// Present and dead contents of every address.
    contents: PageContents,
}

impl RecurringContentGenerator {
    /// Creates the generator of a load with these parameters.
    pub(super) fn new(plan: &RecurringContentParameters, mut random: Xoshiro256PlusPlus) -> Self {
        let needed = plan.total_version_reads();
        let reads = plan.reads.unwrap_or(needed);
        let total_requests = plan.writes + reads;
        let overwritten = plan.overwritten_addresses.clamp(1, plan.distinct_addresses);
        let content_seed = rand::Rng::next_u64(&mut random);
        Self {
            total_requests,
            arrival_interval_ns: plan.duration_s * 1e9 / total_requests as f64,
            requests_done: 0,
            writes_left: plan.writes,
            first_write_sampler: ExactCountSampler {
                events_left: plan.distinct_addresses,
                draws_left: plan.writes,
            },
            first_overwrite_sampler: ExactCountSampler {
                events_left: overwritten,
                draws_left: plan.writes - plan.distinct_addresses,
            },
            postponed_first_overwrites: 0,
            written_address_count: 0,
            overwritten_addresses_so_far: 0,
            address_rank_distribution: Zipf::new(overwritten, plan.zipf_theta),
            address_permutation: Permutation::new(plan.distinct_addresses, plan.seed),
            pending_reads: PendingReads::new(plan.distinct_addresses, reads, needed),
            contents: PageContents::new(plan, total_requests, content_seed),
            random,
        }
    }

    /// Returns the address that the next overwrite writes: an address that was overwritten before, or an address for
    /// its first overwrite.
    fn draw_overwrite_address(&mut self) -> u64 {
        let must = self.overwritten_addresses_so_far + self.postponed_first_overwrites == 0;
        let is_first = self.first_overwrite_sampler.draw_event(must, &mut self.random);
        self.postponed_first_overwrites += u64::from(is_first);
        if self.postponed_first_overwrites > 0
            && self.overwritten_addresses_so_far < self.written_address_count
        {
            self.postponed_first_overwrites -= 1;
            self.overwritten_addresses_so_far += 1;
            return self.overwritten_addresses_so_far - 1;
        }
        draw_popular_address(
            &self.address_rank_distribution,
            self.overwritten_addresses_so_far,
            &mut self.random,
        )
    }

    /// Plans the next write: chooses its address and content, and plans the pending reads of the overwritten version
    /// before it.
    fn plan_content_write(&mut self, script: &mut RequestScript) {
        self.writes_left -= 1;
        let is_first = self.first_write_sampler.draw_event(self.written_address_count == 0, &mut self.random);
        let address = if is_first { self.written_address_count } else { self.draw_overwrite_address() };
        self.written_address_count += u64::from(is_first);
        for _ in 0..self.pending_reads.take_pending_reads(address) {
            self.plan_content_read(address, script);
        }
        let known = OverwrittenAddresses {
            address_popularity: &self.address_rank_distribution,
            overwritten_address_count: self.overwritten_addresses_so_far,
            page_of_address: &self.address_permutation,
        };
        let content = self.contents.replace_present_version(
            address,
            is_first,
            self.requests_done,
            known,
            &mut self.random,
        );
        if content.was_written_without_recurrence {
            self.pending_reads.add_version_reads(address, content.read_count_class, &mut self.random);
        }
        self.set_next_arrival(script);
        script.plan_write_of_content(
            self.address_permutation.apply(address),
            Fingerprint(content.content_number),
        );
    }

    /// Plans a read of one page at `address`.
    fn plan_content_read(&mut self, address: u64, script: &mut RequestScript) {
        self.set_next_arrival(script);
        script.plan_read(self.address_permutation.apply(address), 1);
    }

    /// Sets the arrival time of the next request, and counts the request.
    fn set_next_arrival(&mut self, script: &mut RequestScript) {
        script.set_arrival_time((self.requests_done as f64 * self.arrival_interval_ns) as u64);
        self.requests_done += 1;
    }
}

/// Returns one of the first `known` addresses, popular addresses more often. While `known` is small, most random draws
/// yield a higher address; after 16 such draws any of the known addresses is returned.
fn draw_popular_address(ranks: &Zipf, known: u64, random: &mut Xoshiro256PlusPlus) -> u64 {
    let drawn = (0..16).map(|_| ranks.draw(random) - 1).find(|&rank| rank < known);
    drawn.unwrap_or_else(|| uniform_below(random, known))
}

impl HostModel for RecurringContentGenerator {
    fn plan_next_requests(&mut self, script: &mut RequestScript) {
        if self.writes_left > 0 {
            self.plan_content_write(script);
            while let Some(address) = self.pending_reads.take_due_read_address(&mut self.random) {
                self.plan_content_read(address, script);
            }
        } else if self.requests_done < self.total_requests {
            let waiting = self.pending_reads.take_random_pending_read_address(&mut self.random);
            let address = waiting.unwrap_or_else(|| {
                draw_popular_address(
                    &self.address_rank_distribution,
                    self.overwritten_addresses_so_far.max(1),
                    &mut self.random,
                )
            });
            self.plan_content_read(address, script);
        }
    }
}

/// The reads that are still to be sent to the present version (content) of each address.
#[derive(Debug)]
struct PendingReads {
    /// Decides at random which of the reads that page versions need are generated, so that exactly the planned number
    /// of reads is generated.
    generated_read_sampler: ExactCountSampler,
    /// Number of pending reads of the present version (content) of each address.
    pending_reads_by_address: Vec<u8>,
    /// One address for each pending read of the content that the address holds now. May also contain addresses of reads
    /// that are no longer pending, which are skipped when they are drawn.
    pending_read_addresses: Vec<u32>,
    /// Number of reads that are pending at all addresses together.
    pending_read_count: u64,
    /// Largest number of reads that are held back: reads are sent only while more are pending. This spreads the reads
    /// of a page version over its life.
    max_held_back_reads: u64,
}

impl PendingReads {
    /// Creates the table of pending reads. All page versions together need `needed` reads, of which `reads` will be
    /// generated.
    fn new(addresses: u64, reads: u64, needed: u64) -> Self {
        Self {
            generated_read_sampler: ExactCountSampler { events_left: reads.min(needed), draws_left: needed },
            pending_reads_by_address: vec![0; addresses as usize],
            pending_read_addresses: Vec::new(),
            pending_read_count: 0,
            max_held_back_reads: reads / 20,
        }
    }

    /// Adds the pending reads of a new page version at `address`: as many as its class (number of reads), or a random
    /// sample of these.
    fn add_version_reads(&mut self, address: u64, class: u8, random: &mut Xoshiro256PlusPlus) {
        let cards = u64::from(class).min(self.generated_read_sampler.draws_left);
        let reads = (0..cards).filter(|_| self.generated_read_sampler.draw_event(false, random)).count();
        self.pending_reads_by_address[address as usize] = reads as u8;
        self.pending_read_count += reads as u64;
        self.pending_read_addresses.extend(std::iter::repeat_n(address as u32, reads));
    }

    /// Forgets the reads that are scheduled for the present content of `address` but not issued yet, because the content
    /// is replaced, and returns their number.
    fn take_pending_reads(&mut self, address: u64) -> u8 {
        let rest = std::mem::take(&mut self.pending_reads_by_address[address as usize]);
        self.pending_read_count -= u64::from(rest);
        rest
    }

    /// Returns an address to read now if more than `max_held_back_reads` reads are pending; otherwise `None`.
    fn take_due_read_address(&mut self, random: &mut Xoshiro256PlusPlus) -> Option<u64> {
        if self.pending_read_count > self.max_held_back_reads {
            self.take_random_pending_read_address(random)
        } else {
            None
        }
    }

    /// Removes one pending read, chosen at random, and returns its address; `None` if no read is pending.
    fn take_random_pending_read_address(&mut self, random: &mut Xoshiro256PlusPlus) -> Option<u64> {
        while self.pending_read_count > 0 && !self.pending_read_addresses.is_empty() {
            let address = self
                .pending_read_addresses
                .swap_remove(uniform_below(random, self.pending_read_addresses.len() as u64) as usize);
            let unread = &mut self.pending_reads_by_address[address as usize];
            if *unread > 0 {
                *unread -= 1;
                self.pending_read_count -= 1;
                return Some(u64::from(address));
            }
        }
        None
    }
}

/// A version of an address: a content that it holds or held, and its class (number of reads).
#[derive(Clone, Copy, Debug, Default)]
struct ContentVersion {
    /// Number of the content; 0 = none.
    content_number: u64,
    /// Class of the version: the number of its reads, 0 to 15.
    read_count_class: u8,
    /// Whether this version was written with a new content or with that of a valid page, and not by the recurrence of a
    /// dead content.
    was_written_without_recurrence: bool,
}

/// The addresses that the host model has overwritten so far, from which popular ones are drawn.
#[derive(Clone, Copy)]
struct OverwrittenAddresses<'a> {
    /// Zipf distribution by which overwritten addresses are drawn.
    address_popularity: &'a Zipf,
    /// Number of addresses that have been overwritten so far.
    overwritten_address_count: u64,
    /// Page number of each address.
    page_of_address: &'a Permutation,
}

/// The present and dead versions (contents) of every address, from which the content of each write is chosen. A write
/// either returns a dead version (writes it again and removes it from the dead versions), or has a new content, or
/// repeats the content of a valid page.
#[derive(Debug)]
struct PageContents {
    /// Parameters of the host model, such as the number of writes that repeat a dead content, by the number of its
    /// reads.
    plan: RecurringContentParameters,
    /// Number of the request from which on dead contents are written again.
    first_recurrence_request_number: u64,
    /// Decides at random which overwrites write a dead content again; created by the first overwrite that may do so.
    recurrence_sampler: Option<ExactCountSampler>,
    /// Number of overwrites that are still to be generated.
    overwrites_left: u64,
    /// Decides at random, for each write that repeats no dead content, whether it repeats the content of a valid page.
    live_content_repeat_sampler: ExactCountSampler,
    /// Writes that shall repeat a dead content, but for which none has been found yet. For each: the number of reads
    /// that the content must have had, and whether it must be among the newest dead contents of its address.
    pending_content_recurrences: Vec<(u8, bool)>,
    /// Version (content) that each address holds at present.
    present_versions: Vec<ContentVersion>,
    /// Dead versions (overwritten contents) of each address, oldest first.
    dead_versions: Vec<Vec<ContentVersion>>,
    /// Page after the one whose dead content was written last, and number of neighbouring pages whose dead contents are
    /// to be written next; `None` if there is no such page.
    next_neighbour_and_neighbours_left: Option<(u64, u64)>,
    /// Number of new contents created so far.
    created_contents: u64,
    /// Seed from which the fingerprints of new contents are computed.
    seed: u64,
}

impl PageContents {
    /// Creates the contents of a volume whose addresses hold nothing yet; the host model will make `requests` requests.
    fn new(plan: &RecurringContentParameters, requests: u64, seed: u64) -> Self {
        Self {
            plan: plan.clone(),
            first_recurrence_request_number: (plan.request_share_before_first_recurrence * requests as f64)
                .ceil() as u64,
            recurrence_sampler: None,
            overwrites_left: plan.writes - plan.distinct_addresses,
            live_content_repeat_sampler: ExactCountSampler {
                events_left: plan.live_content_writes,
                draws_left: plan.writes - plan.dead_content_writes,
            },
            pending_content_recurrences: Vec::new(),
            present_versions: vec![ContentVersion::default(); plan.distinct_addresses as usize],
            dead_versions: vec![Vec::new(); plan.distinct_addresses as usize],
            next_neighbour_and_neighbours_left: None,
            created_contents: 0,
            seed,
        }
    }

    /// Chooses the content that request number `requests_done` writes to `page_address`; the content that the address
    /// held becomes dead.
    fn replace_present_version(
        &mut self,
        page_address: u64,
        is_first_write: bool,
        requests_done: u64,
        known_addresses: OverwrittenAddresses<'_>,
        random: &mut Xoshiro256PlusPlus,
    ) -> ContentVersion {
        let returned = if is_first_write {
            None
        } else {
            self.take_recurring_version(requests_done, known_addresses, random)
        };
        let version = returned.unwrap_or_else(|| self.create_version(page_address, known_addresses, random));
        let held = std::mem::replace(&mut self.present_versions[page_address as usize], version);
        if held.content_number != 0 {
            let dead = &mut self.dead_versions[page_address as usize];
            if dead.len() == MAX_DEAD_VERSIONS_PER_ADDRESS {
                dead.remove(0);
            }
            dead.push(held);
        }
        version
    }

    /// If this overwrite is to write a dead content again, removes that dead version and returns it; otherwise returns
    /// `None`.
    fn take_recurring_version(
        &mut self,
        requests_done: u64,
        known_addresses: OverwrittenAddresses<'_>,
        random: &mut Xoshiro256PlusPlus,
    ) -> Option<ContentVersion> {
        let left = self.overwrites_left;
        self.overwrites_left -= 1;
        if requests_done < self.first_recurrence_request_number {
            return None;
        }
        let wanted = self.plan.dead_content_writes.min(left);
        let deck = self
            .recurrence_sampler
            .get_or_insert(ExactCountSampler { events_left: wanted, draws_left: left });
        if deck.draw_event(false, random) {
            let class = draw_read_count_class(&self.plan.recurring_content_read_count_shares, random);
            self.pending_content_recurrences.push((
                class,
                uniform_in_unit_interval(random) < self.plan.recurrence_share_of_newest_four_versions,
            ));
        }
        self.take_dead_version_of_next_neighbour(known_addresses)
            .or_else(|| self.take_version_for_pending_recurrence(known_addresses, random))
    }

    /// Removes and returns the newest dead version of the page after the one whose dead content was written last, and
    /// serves one of the pending recurrences with it. So the dead contents of neighbouring pages are written again
    /// together.
    fn take_dead_version_of_next_neighbour(
        &mut self,
        known_addresses: OverwrittenAddresses<'_>,
    ) -> Option<ContentVersion> {
        let (place, left) = self.next_neighbour_and_neighbours_left?;
        if self.pending_content_recurrences.is_empty() {
            return None;
        }
        self.next_neighbour_and_neighbours_left = (left > 1).then_some((place + 1, left - 1));
        if place >= known_addresses.page_of_address.domain_size() {
            return None;
        }
        let version = self.dead_versions[known_addresses.page_of_address.invert(place) as usize].pop()?;
        self.pending_content_recurrences.pop();
        Some(ContentVersion { was_written_without_recurrence: false, ..version })
    }

    /// Removes and returns a dead version (overwritten content) for one of the pending recurrences (writes that shall
    /// repeat a dead content). The version has the number of reads that was drawn for the recurrence, and a popular
    /// address. Returns `None` if no such version is found.
    fn take_version_for_pending_recurrence(
        &mut self,
        known_addresses: OverwrittenAddresses<'_>,
        random: &mut Xoshiro256PlusPlus,
    ) -> Option<ContentVersion> {
        let at = uniform_below(random, self.pending_content_recurrences.len().max(1) as u64) as usize;
        let &(class, is_new) = self.pending_content_recurrences.get(at)?;
        for _ in 0..MAX_RECURRENCE_ADDRESS_TRIES {
            let address = known_addresses.address_popularity.draw(random) - 1;
            if address >= known_addresses.overwritten_address_count {
                continue;
            }
            let dead = &mut self.dead_versions[address as usize];
            let older = dead.len() - dead.len().min(NEWEST_DEAD_VERSION_COUNT);
            let range = if is_new { older..dead.len() } else { 0..older };
            let of_class = |&k: &usize| dead[k].read_count_class == class;
            let count = range.clone().filter(of_class).count() as u64;
            if count > 0 {
                let k = range.filter(of_class).nth(uniform_below(random, count) as usize).expect("counted");
                let version = dead.remove(k);
                self.pending_content_recurrences.swap_remove(at);
                self.next_neighbour_and_neighbours_left =
                    (self.plan.neighbours_rewritten_together > 1).then(|| {
                        (
                            known_addresses.page_of_address.apply(address) + 1,
                            self.plan.neighbours_rewritten_together - 1,
                        )
                    });
                return Some(ContentVersion { was_written_without_recurrence: false, ..version });
            }
        }
        None
    }

    /// Creates a version with a new content, or with the content of a valid page, and draws its class (number of
    /// reads).
    fn create_version(
        &mut self,
        address: u64,
        known_addresses: OverwrittenAddresses<'_>,
        random: &mut Xoshiro256PlusPlus,
    ) -> ContentVersion {
        let number = self.draw_live_content(known_addresses, random).unwrap_or_else(|| {
            self.created_contents += 1;
            // A bijection of the number, so that contents never collide.
            mix_bits(self.created_contents ^ self.seed)
        });
        let class = if self.plan.has_one_read_count_per_address {
            let mut of_address = rand::SeedableRng::seed_from_u64(mix_bits(address ^ self.seed));
            draw_read_count_class(&self.plan.new_content_read_count_shares, &mut of_address)
        } else {
            draw_read_count_class(&self.plan.new_content_read_count_shares, random)
        };
        ContentVersion {
            content_number: number,
            read_count_class: class,
            was_written_without_recurrence: true,
        }
    }

    /// Returns the content of a valid page if this write is to repeat one, else `None`. The page is drawn by the
    /// popularity of its address.
    fn draw_live_content(
        &mut self,
        known_addresses: OverwrittenAddresses<'_>,
        random: &mut Xoshiro256PlusPlus,
    ) -> Option<u64> {
        if self.live_content_repeat_sampler.events_left == 0
            || self.live_content_repeat_sampler.draws_left == 0
            || !self.live_content_repeat_sampler.draw_event(false, random)
        {
            return None;
        }
        let source = draw_popular_address(
            known_addresses.address_popularity,
            known_addresses.overwritten_address_count.max(1),
            random,
        );
        let content = self.present_versions[source as usize].content_number;
        (content != 0).then_some(content)
    }
}
