//! Seeded generators of synthetic workloads.
//!
//! A trace shows what one machine did; with a generator one parameter can be varied while all others stay fixed. Both
//! fill a [`Request`], so replay treats them alike. The engine under test takes 30 to 60 ns per write, so a generator
//! must stay well below 10 ns: no allocation, no table that competes for the CPU cache, and no draw if there is nothing
//! to choose.
//!
//! One request makes its draws in this order, from one `Xoshiro256PlusPlus::seed_from_u64(seed)`: operation, size,
//! first page, partial (then first sector, length). Arrival times come from a second random generator and content from
//! a third, so that a run with another rate or other content has identical requests. [`draw`] defines each draw.
//!
//! Simplified: requests are independent of each other and of time; the only locality is that some pages are more
//! popular.

pub mod draw;
pub mod permutation;
mod spec;
pub mod spec_grammar;

use draw::{EventProbability, Zipf, uniform_below};
use permutation::Permutation;
use rand::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;
pub use spec::{AccessPattern, ArrivalProcess, RequestSize, WORKLOAD_GRAMMAR, WorkloadSpec, Zone};
pub use spec_grammar::SpecError;
use wearwell::data::mix_bits;
use wearwell_trace::{Op, Request};

use crate::content_model::ContentModel;

/// Page size of all generators and content models, bytes.
pub const PAGE_BYTES: u64 = 4096;
/// Sector size of requests that are not aligned to pages, bytes.
pub const SECTOR_BYTES: u64 = 512;

/// Number of 512-byte sectors in a page of 4 KiB.
const SECTORS_PER_PAGE: u64 = PAGE_BYTES / SECTOR_BYTES;
/// Number that makes the random generator of arrival times differ from that of the requests.
const ARRIVAL_SEED_SALT: u64 = 0x6172_7269_7661_6c73;
/// Number that makes the random draws of the content model differ from those of the requests.
const CONTENT_SEED_SALT: u64 = 0x636f_6e74_656e_7473;
/// Number that is combined with the seed of a workload to get the seed of the permutation that scatters pages. So the
/// permutation is independent of the random numbers of the requests.
const SCRAMBLE_SEED_SALT: u64 = 0x7363_7261_6d62_6c65;

/// Generates the requests that a [`WorkloadSpec`] describes.
#[derive(Clone, Debug)]
pub struct WorkloadGenerator {
    /// Random number generator of operations, sizes and pages.
    rng: Xoshiro256PlusPlus,
    /// Number of requests that are still to be generated.
    requests_left: u64,
    /// Size of the working set, pages of 4 KiB; all requests lie inside it.
    working_set_pages: u64,
    /// Operation of each request: read, write or trim, with their shares.
    operations: WeightedChoice<Op>,
    /// Length of each request in pages, with the weights of the lengths.
    request_sizes_pages: WeightedChoice<u32>,
    /// Chooses the first page of each request.
    first_page_chooser: FirstPageChooser,
    /// Probability that a request is aligned to sectors instead of pages.
    partial_request_probability: EventProbability,
    /// Clock that computes the arrival time of each request.
    clock: ArrivalClock,
    /// Model that generates the contents of writes; `None` if writes bring no content.
    content_model: Option<ContentModel>,
}

impl WorkloadGenerator {
    /// Creates a generator that begins with the first request of `spec`. Panics if a value of `spec` exceeds the bounds
    /// of [`WORKLOAD_GRAMMAR`], which is possible only if `spec` was not parsed from text.
    pub fn new(spec: &WorkloadSpec) -> Self {
        let content_seed = mix_bits(spec.seed ^ CONTENT_SEED_SALT);
        let operations =
            [(Op::Read, spec.read_share), (Op::Trim, spec.trim_share), (Op::Write, spec.write_share())];
        Self {
            rng: Xoshiro256PlusPlus::seed_from_u64(spec.seed),
            requests_left: spec.requests,
            working_set_pages: spec.working_set_pages,
            operations: WeightedChoice::new(operations),
            request_sizes_pages: weighted_request_sizes_pages(spec),
            first_page_chooser: FirstPageChooser::new(spec),
            partial_request_probability: EventProbability::new(spec.partial_request_share),
            clock: ArrivalClock::new(spec.arrival, spec.seed),
            content_model: spec.content.as_ref().map(|content| ContentModel::new(content, content_seed)),
        }
    }

    /// Writes the next request into `into` and returns true; after the last request returns false and leaves `into`
    /// unchanged.
    ///
    /// Requests lie inside the working set. If the drawn page of a request of several pages is too close to the end of
    /// the working set, the request starts earlier. Reads and trims carry no content. Allocates nothing once
    /// `into.content` has capacity for a request.
    #[inline]
    pub fn next_request(&mut self, into: &mut Request) -> bool {
        if self.requests_left == 0 {
            return false;
        }
        self.requests_left -= 1;
        into.op = self.operations.draw(&mut self.rng);
        let size = u64::from(self.request_sizes_pages.draw(&mut self.rng));
        let (first, pages) = self.first_page_chooser.draw(&mut self.rng, size, self.working_set_pages);
        into.offset_bytes = first * PAGE_BYTES;
        into.len_bytes = pages * PAGE_BYTES;
        if self.partial_request_probability.draw_occurrence(&mut self.rng) {
            self.make_partial(into);
        }
        into.time_ns = self.clock.next_arrival_ns();
        into.device = 0;
        into.remap_source_offset_bytes = 0;
        into.payload.clear();
        into.content.clear();
        if self.content_model.is_some() {
            self.attach_content(into);
        }
        true
    }

    /// Returns a sentence on the content of the writes, for reports; `None` without a content model.
    pub fn describe_content(&self) -> Option<String> {
        self.content_model.as_ref().map(ContentModel::describe)
    }

    /// Makes a request partial: it starts at any sector of its first page, and its length is from 1 sector to one
    /// sector less than the full length. The result is never a whole number of aligned pages.
    fn make_partial(&mut self, request: &mut Request) {
        let full_sectors = request.len_bytes / SECTOR_BYTES;
        let start = uniform_below(&mut self.rng, SECTORS_PER_PAGE);
        let mut sectors = 1 + uniform_below(&mut self.rng, full_sectors - 1);
        if start == 0 && sectors.is_multiple_of(SECTORS_PER_PAGE) {
            sectors -= 1;
        }
        request.offset_bytes += start * SECTOR_BYTES;
        let room = self.working_set_pages * PAGE_BYTES - request.offset_bytes;
        request.len_bytes = (sectors * SECTOR_BYTES).min(room);
    }

    /// Adds the contents of a write from the content model, if there is one.
    fn attach_content(&mut self, request: &mut Request) {
        let Some(model) = &mut self.content_model else { return };
        let end = request.offset_bytes + request.len_bytes;
        match request.op {
            Op::Write => {
                let touched = request.offset_bytes / PAGE_BYTES..end.div_ceil(PAGE_BYTES);
                model.draw_written_contents(touched, &mut request.content);
            }
            // A page that is deallocated only in part keeps its content.
            Op::Trim => model.record_trim(request.offset_bytes.div_ceil(PAGE_BYTES)..end / PAGE_BYTES),
            Op::Read | Op::Zero | Op::Flush | Op::Remap(_) | Op::PhaseMarker => {}
        }
    }
}

/// Returns the lengths of a workload's requests in pages, with their weights. Panics if a length exceeds the working
/// set.
fn weighted_request_sizes_pages(spec: &WorkloadSpec) -> WeightedChoice<u32> {
    let items = match &spec.request_size {
        RequestSize::FixedPages(pages) => vec![(*pages, 1.0)],
        RequestSize::Weighted(items) => items.clone(),
    };
    let fits = items.iter().all(|(pages, _)| (1..=spec.working_set_pages).contains(&u64::from(*pages)));
    assert!(
        fits,
        "requests have at least one page and fit the working set of {} pages",
        spec.working_set_pages
    );
    WeightedChoice::new(items)
}

/// A random choice among a few weighted items (such as request sizes); a single item is chosen without a draw.
#[derive(Clone, Debug)]
struct WeightedChoice<T> {
    /// For each item but the last, the exclusive upper bound of the random words that select it.
    upper_bounds_of_items: Vec<(u64, T)>,
    /// Item that is chosen by all random words above the bounds of the other items.
    last_item: T,
}

impl<T: Copy> WeightedChoice<T> {
    /// Creates a random choice among the items with a weight greater than 0; weights need not sum to one.
    fn new(items: impl IntoIterator<Item = (T, f64)>) -> Self {
        let items: Vec<_> = items.into_iter().filter(|(_, weight)| *weight > 0.0).collect();
        let total: f64 = items.iter().map(|(_, weight)| weight).sum();
        let mut sum = 0.0;
        let mut upper_bounds_of_items = Vec::new();
        for (item, weight) in &items {
            sum += weight;
            upper_bounds_of_items.push((draw::probability_threshold(sum / total), *item));
        }
        let (_, last_item) = upper_bounds_of_items.pop().expect("one item has a weight");
        Self { upper_bounds_of_items, last_item }
    }

    /// Draws an item with probability proportional to its weight.
    #[inline]
    fn draw(&self, rng: &mut Xoshiro256PlusPlus) -> T {
        if self.upper_bounds_of_items.is_empty() {
            return self.last_item;
        }
        let word = rand::Rng::next_u64(rng);
        self.upper_bounds_of_items
            .iter()
            .find(|(bound, _)| word < *bound)
            .map_or(self.last_item, |(_, item)| *item)
    }
}

/// Chooses the first page of each request that a workload generator makes.
#[derive(Clone, Debug)]
enum FirstPageChooser {
    /// Each request begins with `next_page`, the page after the previous request.
    Sequential {
        /// First page of the next request.
        next_page: u64,
    },
    /// Each page is chosen with equal probability.
    Uniform,
    /// The page is drawn by a zipf law of popularity.
    Zipf {
        /// Distribution of the popularity ranks of pages.
        ranks: Zipf,
        /// Permutation that scatters the ranks over the working set; `None` leaves popular pages at its start.
        scramble: Option<Permutation>,
    },
    /// The page is drawn uniformly from a zone, and the zone by its share of the accesses.
    HotCold {
        /// First page and number of pages of each zone, weighted by the accesses of the zone.
        zones: WeightedChoice<(u64, u64)>,
        /// Permutation that scatters the pages of the zones over the working set; `None` leaves zones in one piece.
        scramble: Option<Permutation>,
    },
}

impl FirstPageChooser {
    /// Creates the chooser of first pages for the access pattern of a workload.
    fn new(spec: &WorkloadSpec) -> Self {
        let permutation = |wanted: bool| {
            wanted.then(|| Permutation::new(spec.working_set_pages, spec.seed ^ SCRAMBLE_SEED_SALT))
        };
        match &spec.pattern {
            AccessPattern::Sequential => Self::Sequential { next_page: 0 },
            AccessPattern::Uniform => Self::Uniform,
            AccessPattern::Zipf { theta, is_scrambled } => Self::Zipf {
                ranks: Zipf::new(spec.working_set_pages, *theta),
                scramble: permutation(*is_scrambled),
            },
            AccessPattern::HotCold { zones, is_scrambled } => Self::HotCold {
                zones: weighted_zone_page_ranges(zones, spec.working_set_pages),
                scramble: permutation(*is_scrambled),
            },
        }
    }

    /// Returns the first page and the length, in pages, of a request of `size` pages in a working set of `pages` pages.
    #[inline]
    fn draw(&mut self, rng: &mut Xoshiro256PlusPlus, size: u64, pages: u64) -> (u64, u64) {
        let page = match self {
            Self::Uniform => return (uniform_below(rng, pages - size + 1), size),
            Self::Sequential { next_page } => return next_sequential_pages(next_page, size, pages),
            Self::Zipf { ranks, scramble } => scatter_page(scramble.as_ref(), ranks.draw(rng) - 1),
            Self::HotCold { zones, scramble } => {
                let (start, len) = zones.draw(rng);
                scatter_page(scramble.as_ref(), start + uniform_below(rng, len))
            }
        };
        (page.min(pages - size), size)
    }
}

/// Returns the page to which `scramble` maps `page`; without a permutation, `page` itself.
#[inline]
fn scatter_page(scramble: Option<&Permutation>, page: u64) -> u64 {
    scramble.map_or(page, |permutation| permutation.apply(page))
}

/// Returns first page and length of a sequential request, cut at the end of the working set, and advances `next_page`.
fn next_sequential_pages(next_page: &mut u64, size: u64, pages: u64) -> (u64, u64) {
    let first = *next_page;
    let len = size.min(pages - first);
    *next_page = if first + len == pages { 0 } else { first + len };
    (first, len)
}

/// Returns first page and number of pages of every zone of the working set, weighted by the zone's accesses; the
/// remaining space is the last zone.
fn weighted_zone_page_ranges(zones: &[Zone], pages: u64) -> WeightedChoice<(u64, u64)> {
    let taken =
        zones.iter().fold((0.0, 0.0), |sum, zone| (sum.0 + zone.page_share, sum.1 + zone.access_share));
    let rest = Zone { page_share: 1.0 - taken.0, access_share: 1.0 - taken.1 };
    let mut space = 0.0;
    let placed = zones.iter().chain([&rest]).map(|zone| {
        let start = zone_boundary_page(space, pages).min(pages - 1);
        space += zone.page_share;
        // A zone whose size rounds to zero still receives its accesses, on one page.
        (
            (start, zone_boundary_page(space, pages).saturating_sub(start).max(1)),
            zero_if_rounding_error(zone.access_share),
        )
    });
    WeightedChoice::new(placed)
}

/// Returns 0 for a share that is nonzero only by the rounding error of a subtraction, and other shares unchanged.
fn zero_if_rounding_error(share: f64) -> f64 {
    if share < 1e-12 { 0.0 } else { share }
}

/// Returns the page at which a zone begins, if the zones before it have the share `space` of `pages` pages.
#[expect(clippy::cast_sign_loss, reason = "shares are not negative")]
fn zone_boundary_page(space: f64, pages: u64) -> u64 {
    ((space * pages as f64).round() as u64).min(pages)
}

/// Generates the arrival times of a workload's requests. Times are floating-point nanoseconds, whose 53 bits cover 104
/// days without loss.
#[derive(Clone, Debug)]
struct ArrivalClock {
    /// Random number generator of the gaps between arrivals.
    rng: Xoshiro256PlusPlus,
    /// Distribution of the arrival times.
    arrival: ArrivalProcess,
    /// Number of requests whose arrival time was computed.
    issued_requests: u64,
    /// Arrival time of the next request without the pauses between bursts, nanoseconds.
    time_without_pauses_ns: f64,
}

impl ArrivalClock {
    /// Creates the clock of a workload's arrivals, at the first request.
    fn new(arrival: ArrivalProcess, seed: u64) -> Self {
        let rng = Xoshiro256PlusPlus::seed_from_u64(mix_bits(seed ^ ARRIVAL_SEED_SALT));
        Self { rng, arrival, issued_requests: 0, time_without_pauses_ns: 0.0 }
    }

    /// Returns the arrival time of the next request, in nanoseconds since the first request, which arrives at 0.
    #[inline]
    #[expect(clippy::cast_sign_loss, reason = "time runs forward")]
    fn next_arrival_ns(&mut self) -> u64 {
        match self.arrival {
            ArrivalProcess::Untimed => 0,
            ArrivalProcess::Fixed { requests_per_s } => {
                self.issued_requests += 1;
                ((self.issued_requests - 1) as f64 * (1e9 / requests_per_s)) as u64
            }
            ArrivalProcess::Poisson { requests_per_s } => self.next_poisson_arrival_ns(requests_per_s) as u64,
            ArrivalProcess::Bursty { requests_per_s, on_ms, off_ms } => {
                let busy = self.next_poisson_arrival_ns(requests_per_s * (on_ms + off_ms) / on_ms);
                (busy + (busy / (on_ms * 1e6)).floor() * off_ms * 1e6) as u64
            }
        }
    }

    /// Returns the arrival time of this request, nanoseconds, without the pauses between bursts. Then advances the
    /// clock by an exponentially distributed gap to the next request. `rate` is in requests per second.
    fn next_poisson_arrival_ns(&mut self, rate: f64) -> f64 {
        let now = self.time_without_pauses_ns;
        self.time_without_pauses_ns += draw::exponential_draw(&mut self.rng, 1e9 / rate);
        now
    }
}
