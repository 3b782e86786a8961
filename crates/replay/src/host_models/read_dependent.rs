//! A load in which the number of reads of a page predicts whether its content is written again, with all parameters as
//! keys. It covers the load for which the recycle probability of the Recyclable SSD paper is made, and loads for which
//! it is not.
//!
//! Some addresses are popular: every new content there is read a fixed number of times. A version that is overwritten
//! returns with one probability if it was read, and with another if it was not. Everything else is as in
//! `recurring.rs`.

use rand_xoshiro::Xoshiro256PlusPlus;

use super::fiu::{RECURRENCE_RUN_LENGTH_KEY, SHARE_BEFORE_FIRST_RECURRENCE_KEY};
use super::recurring::{READ_COUNT_CLASSES, RecurringContentGenerator, RecurringContentParameters};
use super::spec_values::SpecValues;
use crate::workload::spec_grammar::{SpecError, SpecKey, SpecKind};

/// Returns a specification key with this name, default and meaning.
const fn spec_key(name: &'static str, default: &'static str, meaning: &'static str) -> SpecKey {
    SpecKey { name, default, meaning }
}

/// Specification kind of the host model `predicted`: its name, description and keys.
pub(super) const SPEC_KIND: SpecKind = SpecKind {
    name: "predicted",
    meaning: "single pages whose contents return, more often if they were read",
    keys: &[
        spec_key("pages", "40000", "addresses, all of them overwritten"),
        spec_key("writes", "400000", "writes"),
        spec_key("theta", "0.9", "zipf exponent of overwrites and returns, 0 to 2"),
        spec_key("popular", "0.2", "share of the dead versions whose address is read, 0 to 1"),
        spec_key("reads", "4", "reads of each of their versions, 1 to 15"),
        spec_key("popular_return", "0.5", "share of their dead versions that return, 0 to 1"),
        spec_key("other_return", "0.05", "share of the other dead versions that return, 0 to 1"),
        spec_key(
            "newest",
            "0.8",
            "share of the returns that are among the four newest dead versions, 0 to 1",
        ),
        RECURRENCES_WITHOUT_DELAY_KEY,
        RECURRENCE_RUN_LENGTH_KEY,
    ],
};
/// Specification key for the share of the requests that pass before a dead content is written again for the first time;
/// the default is 0.
const RECURRENCES_WITHOUT_DELAY_KEY: SpecKey = SpecKey { default: "0", ..SHARE_BEFORE_FIRST_RECURRENCE_KEY };

/// Creates the generator of the host model `predicted`, in which contents of pages that were read more often are
/// written again more often.
pub(super) fn generator_with_read_dependent_recurrence(
    keys: &SpecValues,
    random: Xoshiro256PlusPlus,
) -> Result<RecurringContentGenerator, SpecError> {
    let writes = keys.integer_of_key("writes", 2..=1 << 40)?;
    let addresses = keys.integer_of_key("pages", 1..=1 << 31)?.min(writes / 2);
    let popular = keys.number_of_key("popular", 0.0..=1.0)?;
    let reads = keys.integer_of_key("reads", 1..=READ_COUNT_CLASSES as u64 - 1)? as usize;
    let share = |key| keys.number_of_key(key, 0.0..=1.0);
    let (popular_return, other_return) = (share("popular_return")?, share("other_return")?);
    let returning = [popular * popular_return, (1.0 - popular) * other_return];
    let by_class = |read: f64, unread: f64| {
        let mut shares = [0.0; READ_COUNT_CLASSES];
        (shares[0], shares[reads]) = (unread, read);
        shares
    };
    let overwrites = (writes - addresses) as f64;
    let plan = RecurringContentParameters {
        writes,
        distinct_addresses: addresses,
        overwritten_addresses: addresses,
        reads: None,
        duration_s: writes as f64 * 1e-3,
        dead_content_writes: (returning.iter().sum::<f64>() * overwrites).round() as u64,
        live_content_writes: 0,
        request_share_before_first_recurrence: share("from")?,
        recurrence_share_of_newest_four_versions: share("newest")?,
        // A page that returned is invalidated again, with its reads. So the fresh pages have the remaining shares.
        new_content_read_count_shares: by_class(popular - returning[0], 1.0 - popular - returning[1]),
        recurring_content_read_count_shares: by_class(returning[0], returning[1]),
        has_one_read_count_per_address: true,
        neighbours_rewritten_together: keys.integer_of_key("run", 1..=1024)?,
        zipf_theta: keys.number_of_key("theta", 0.0..=2.0)?,
        seed: keys.integer_of_key("seed", 0..=u64::MAX)?,
    };
    Ok(RecurringContentGenerator::new(&plan, random))
}
