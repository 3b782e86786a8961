//! Substitutes for the FIU traces `homes`, `mail` and `web-vm`: generated requests with the counts that the Recyclable
//! SSD paper (LX, section III) publishes for two weeks of each trace.
//!
//! Published by the paper, and reproduced here:
//!
//! - requests, write share and distinct addresses (Table I); hence the share of overwrites (72.5, 90.2 and 83.6 %) and
//!   the invalidated pages;
//! - mean length of the lists of dead pages (7.3, 12.1, 6.7), read as overwrites per address that is overwritten at
//!   all: that many addresses are overwritten, and the others are written once;
//! - recyclable pages as a share of the invalidated ones (2.8 of 24.1, 7.4 of 42.2, 2.5 of 15.5 GB). Their contents are
//!   written again in the second week only: "the first week is used to age the SSD, and the second week is used to
//!   observe the amount of the useful data" (section III-B);
//! - the share of recyclable pages with versions 15 to 12, that is those among the four newest dead pages of an address
//!   (Figure 4: 79.1, 59.6, 86.5 %);
//! - how often invalidated pages were read (Figure 2), and what share of their contents is written again, by number of
//!   reads (Figure 3). The paper prints ranges over the three traces without saying which value belongs to which trace;
//!   [`ReadPopularity`] has the values chosen here, which lie inside all of these ranges.
//!
//! Figures 2 and 3 contradict Table I: a fifth to a third of the invalidated pages are said to be read eight times or
//! more, which takes 10.5 million reads for `homes`, whose trace has 0.58 million. So each trace has two substitutes.
//! With `reads=figures` it has as many reads as Figure 2 needs, and therefore a smaller share of writes than Table I.
//! With `reads=table` it has as many reads as Table I, drawn at random from the reads of `reads=figures`.
//!
//! The key `duplicates` sets the share of writes that repeat a content; the repetitions beyond the recycled pages
//! repeat live pages. The Remap-SSD paper (section 3.1) quotes 33 to 92 % for the three systems without saying which
//! share belongs to which.
//!
//! Assumed, in addition to the assumptions of `recurring.rs` (popularity of addresses is a zipf law, reads are spread
//! over the life of a page, requests arrive at equal intervals):
//!
//! - Requests have one page, and the published number of addresses counts written ones.
//! - Contents that are neither recycled nor repeated are new.
//! - Dead contents are written again one by one (`run=1`). Section IV-C states that those of neighbouring pages are
//!   written together, but not how many.

use rand_xoshiro::Xoshiro256PlusPlus;

use super::recurring::{
    READ_COUNT_CLASSES, RecurringContentGenerator, RecurringContentParameters, VersionSharesByReadCount,
};
use super::spec_values::SpecValues;
use super::substitute::SCALE_KEY;
use crate::workload::spec_grammar::{SpecError, SpecKey, SpecKind};

/// Specification key for the share of writes that repeat a content.
const DUPLICATES_KEY: SpecKey = SpecKey {
    name: "duplicates",
    default: "0",
    meaning: "share of writes that repeat a content, 0 to 1; what is not recycled repeats live pages; 0: recycled ones only",
};
/// Specification key for the skew of overwrites and of returns (writes of a dead content).
const THETA_KEY: SpecKey = SpecKey {
    name: "theta",
    default: "0.9",
    meaning: "zipf exponent of overwrites and returns (assumed), 0 to 2",
};
/// Specification key for the number of reads: as many as Table I of the Recyclable SSD paper states, or as many as its
/// Figure 2 needs.
const READS_KEY: SpecKey = SpecKey {
    name: "reads",
    default: "table",
    meaning: "table: as many as Table I has; figures: as many as Figure 2 of the paper needs",
};
/// Specification key for the share of the requests before the first return (write of a dead content).
pub(super) const SHARE_BEFORE_FIRST_RECURRENCE_KEY: SpecKey = SpecKey {
    name: "from",
    default: "0.5",
    meaning: "share of the requests before the first return, 0 to 1",
};
/// Specification key for the number of neighbouring addresses whose dead contents are written again in a row.
pub(super) const RECURRENCE_RUN_LENGTH_KEY: SpecKey = SpecKey {
    name: "run",
    default: "1",
    meaning: "neighbouring addresses whose newest dead pages return one after the other, 1 to 1024",
};

/// Keys in the specifications of all generated loads that replace FIU traces.
const FIU_SPEC_KEYS: &[SpecKey] = &[
    SCALE_KEY,
    THETA_KEY,
    DUPLICATES_KEY,
    READS_KEY,
    SHARE_BEFORE_FIRST_RECURRENCE_KEY,
    RECURRENCE_RUN_LENGTH_KEY,
];

/// Specification kind of the generated load that stands in for the trace FIU homes of the Recyclable SSD paper: its
/// name, description and keys.
pub(super) const FIU_HOMES_SPEC_KIND: SpecKind = SpecKind {
    name: "fiu-homes",
    meaning: "substitute for FIU homes, 9.3 million requests",
    keys: FIU_SPEC_KEYS,
};
/// Specification kind of the generated load that stands in for the trace FIU mail of the Recyclable SSD paper: its
/// name, description and keys.
pub(super) const FIU_MAIL_SPEC_KIND: SpecKind = SpecKind {
    name: "fiu-mail",
    meaning: "substitute for FIU mail, 16.3 million requests",
    keys: FIU_SPEC_KEYS,
};
/// Specification kind of the generated load that stands in for the trace FIU web-vm of the Recyclable SSD paper: its
/// name, description and keys.
pub(super) const FIU_WEB_SPEC_KIND: SpecKind = SpecKind {
    name: "fiu-web",
    meaning: "substitute for FIU web-vm, 5.9 million requests",
    keys: FIU_SPEC_KEYS,
};

/// Duration of each FIU trace, seconds: two weeks.
const FIU_TRACE_DURATION_S: f64 = 14.0 * 86_400.0;

/// Model of how often pages are read before they are invalidated, and with which probability their content is written
/// again ("returns"), by the number of reads (Figures 2 and 3 of the Recyclable SSD paper).
///
/// Published: most invalidated pages were read at most three times, and 20.8 to 32.9 % eight times or more. The share
/// that returns is 0.7 to 6.9 % of the pages that were never read, and increases with the reads, "exponentially", to 26
/// to 39.1 %. Of the pages that return, 52.8 to 80.2 % were read eight times or more.
///
/// The probability of a return is modelled as `unread * (most / unread)^((reads / 15)^exponent)`. It is `unread` for
/// pages that were never read, and `most` for pages with 15 reads; `exponent` is chosen so that the share of recyclable
/// pages is the published one. Pages are divided into those with 0 to 3, 4 to 7 and 8 to 15 reads; within each of these
/// ranges all numbers of reads are equally frequent.
#[derive(Clone, Copy, Debug)]
struct ReadPopularity {
    /// Share of the invalidated pages that were read eight times or more (in the model 8 to 15 times). The share with
    /// at most three reads is [`SHARE_OF_PAGES_READ_UP_TO_3_TIMES`].
    share_of_pages_read_8_or_more_times: f64,
    /// Probability that the content of a page with 0 reads is written again after it became dead.
    unread_content_recurrence_probability: f64,
    /// Probability that the content of a page with 15 reads is written again after it became dead.
    most_read_content_recurrence_probability: f64,
    /// Exponent with which the probability that a dead content is written again grows with its number of reads
    /// (`exponent` in the formula of this type).
    recurrence_probability_exponent: f64,
}

/// Share of the invalidated pages that were read at most three times, equal for all FIU traces.
const SHARE_OF_PAGES_READ_UP_TO_3_TIMES: f64 = 0.52;

impl ReadPopularity {
    /// Returns, for each number of reads, the share of the invalidated pages that were read so many times.
    fn shares_by_read_count(self) -> VersionSharesByReadCount {
        std::array::from_fn(|reads| match reads {
            0..4 => SHARE_OF_PAGES_READ_UP_TO_3_TIMES / 4.0,
            4..8 => {
                (1.0 - SHARE_OF_PAGES_READ_UP_TO_3_TIMES - self.share_of_pages_read_8_or_more_times) / 4.0
            }
            _ => self.share_of_pages_read_8_or_more_times / 8.0,
        })
    }

    /// Returns the probability that the content of a dead page is written again, for each number of reads.
    fn recurrence_probabilities(self) -> VersionSharesByReadCount {
        let last = (READ_COUNT_CLASSES - 1) as f64;
        std::array::from_fn(|reads| {
            self.unread_content_recurrence_probability
                * (self.most_read_content_recurrence_probability / self.unread_content_recurrence_probability)
                    .powf((reads as f64 / last).powf(self.recurrence_probability_exponent))
        })
    }
}

/// Published figures of an FIU trace, as parameters of its substitute.
#[derive(Clone, Copy, Debug)]
struct FiuTraceFacts {
    /// Name of the substitute (generated load) in a specification, such as `fiu-homes`.
    name: &'static str,
    /// Number of requests, share of writes, and number of addresses (Table I of the Recyclable SSD paper).
    request_count_write_share_address_count: [f64; 3],
    /// Published amount of invalidated data whose content is written again, GB.
    recyclable_data_gb: f64,
    /// Published amount of data that was invalidated by overwrites, GB.
    invalidated_data_gb: f64,
    /// Published share of the recyclable pages that are among the four newest dead pages of their address.
    recurrence_share_of_newest_four_versions: f64,
    /// Published mean number of dead pages of an address that is overwritten at all.
    dead_pages_per_overwritten_address: f64,
    /// How often pages are read before they are invalidated, and how likely their contents then return.
    read_popularity: ReadPopularity,
}

/// Published figures of each FIU trace, by the name of its substitute.
const FIU_TRACE_FACTS: [FiuTraceFacts; 3] = [
    FiuTraceFacts {
        name: "fiu-homes",
        request_count_write_share_address_count: [9.3e6, 0.938, 2.4e6],
        recyclable_data_gb: 2.8,
        invalidated_data_gb: 24.1,
        recurrence_share_of_newest_four_versions: 0.791,
        dead_pages_per_overwritten_address: 7.3,
        read_popularity: ReadPopularity {
            share_of_pages_read_8_or_more_times: 0.27,
            unread_content_recurrence_probability: 0.04,
            most_read_content_recurrence_probability: 0.35,
            recurrence_probability_exponent: 0.801,
        },
    },
    FiuTraceFacts {
        name: "fiu-mail",
        request_count_write_share_address_count: [16.3e6, 0.753, 1.2e6],
        recyclable_data_gb: 7.4,
        invalidated_data_gb: 42.2,
        recurrence_share_of_newest_four_versions: 0.596,
        dead_pages_per_overwritten_address: 12.1,
        read_popularity: ReadPopularity {
            share_of_pages_read_8_or_more_times: 0.32,
            unread_content_recurrence_probability: 0.06,
            most_read_content_recurrence_probability: 0.37,
            recurrence_probability_exponent: 0.511,
        },
    },
    FiuTraceFacts {
        name: "fiu-web",
        request_count_write_share_address_count: [5.9e6, 0.825, 0.8e6],
        recyclable_data_gb: 2.5,
        invalidated_data_gb: 15.5,
        recurrence_share_of_newest_four_versions: 0.865,
        dead_pages_per_overwritten_address: 6.7,
        read_popularity: ReadPopularity {
            share_of_pages_read_8_or_more_times: 0.32,
            unread_content_recurrence_probability: 0.04,
            most_read_content_recurrence_probability: 0.345,
            recurrence_probability_exponent: 0.404,
        },
    },
];

/// Whether `kind` is a substitute for an FIU trace. Such a host model chooses the contents of its pages itself, so it
/// takes no content model.
pub(super) fn is_fiu_substitute(kind: &str) -> bool {
    FIU_TRACE_FACTS.iter().any(|facts| facts.name == kind)
}

/// Creates the generator of the substitute named `kind` (a generated load with the counts of an FIU trace).
pub(super) fn trace_substitute_generator(
    kind: &str,
    keys: &SpecValues,
    random: Xoshiro256PlusPlus,
) -> Result<RecurringContentGenerator, SpecError> {
    let facts = FIU_TRACE_FACTS.iter().find(|facts| facts.name == kind).expect("a row for each kind");
    let scale = keys.number_of_key("scale", 0.0001..=1.0)?;
    let scaled = |count: f64| ((count * scale).round() as u64).max(1);
    let [requests, write_share, addresses] = facts.request_count_write_share_address_count;
    let writes = scaled(requests * write_share);
    let addresses = scaled(addresses).min(writes);
    let overwrites = (writes - addresses) as f64;
    let returns = (facts.recyclable_data_gb / facts.invalidated_data_gb * overwrites).round() as u64;
    let repeated = (keys.number_of_key("duplicates", 0.0..=1.0)? * writes as f64).round() as u64;
    let takes_table = keys.is_first_of_two_words("reads", ["table", "figures"], "table or figures")?;
    let (shares, probabilities) =
        (facts.read_popularity.shares_by_read_count(), facts.read_popularity.recurrence_probabilities());
    let plan = RecurringContentParameters {
        writes,
        distinct_addresses: addresses,
        overwritten_addresses: (overwrites / facts.dead_pages_per_overwritten_address).round() as u64,
        reads: takes_table.then(|| scaled(requests * (1.0 - write_share))),
        duration_s: FIU_TRACE_DURATION_S * scale,
        dead_content_writes: returns,
        live_content_writes: repeated.saturating_sub(returns),
        request_share_before_first_recurrence: keys.number_of_key("from", 0.0..=1.0)?,
        recurrence_share_of_newest_four_versions: facts.recurrence_share_of_newest_four_versions,
        // A page that returned is invalidated again, with its reads. So the fresh pages have the remaining shares.
        new_content_read_count_shares: std::array::from_fn(|reads| {
            shares[reads] * (1.0 - probabilities[reads])
        }),
        recurring_content_read_count_shares: std::array::from_fn(|reads| {
            shares[reads] * probabilities[reads]
        }),
        has_one_read_count_per_address: false,
        neighbours_rewritten_together: keys.integer_of_key("run", 1..=1024)?,
        zipf_theta: keys.number_of_key("theta", 0.0..=2.0)?,
        seed: keys.integer_of_key("seed", 0..=u64::MAX)?,
    };
    Ok(RecurringContentGenerator::new(&plan, random))
}
