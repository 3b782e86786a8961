//! Substitutes for the FIU traces `homes`, `mail` and `web-vm`, as the Recyclable SSD paper (LX, section III-B) counts
//! them over two weeks.
//!
//! Published and met: requests, write share and distinct addresses (Table I); hence the overwrite share of the writes
//! (72.5, 90.2 and 83.6 %) and the invalidated pages; recyclable pages as a share of the invalidated ones (2.8 of 24.1,
//! 7.4 of 42.2, 2.5 of 15.5 GB); the share of recyclable pages with versions 15 to 12, which are the four newest dead
//! pages of an address (Figure 4: 79.1, 59.6, 86.5 %).
//!
//! With `duplicates`, that share of the writes repeats a content: what is beyond the recycled ones repeats live pages. The
//! Remap-SSD paper (section 3.1) quotes 33 to 92 % for the three systems and does not say which is which.
//!
//! Assumed: all of `substitute.rs`; addresses count written ones; contents that do not recycle and do not repeat are new;
//! what recycles or is repeated is taken from addresses as popular as those that are overwritten.
//!
//! Not met, on purpose: read popularity. Figure 3 gives 20.8 to 32.9 % of the invalidated pages eight reads or more,
//! that is at least 10.5 million reads for `homes`, whose trace has 0.58 million; the paper must count otherwise than it
//! says, so reads follow the popularity of the writes. Mean lengths of the lists of dead pages (7.3, 12.1, 6.7) contradict
//! Table I's overwrites per address in the same way.

use rand_xoshiro::Xoshiro256PlusPlus;

use super::keys::Keys;
use super::substitute::{DUPLICATES, Facts, Recycling, SCALE, Substitute, THETA};
use crate::workload::options::{Kind, SpecError};

pub(super) const HOMES: Kind = Kind {
    name: "fiu-homes",
    meaning: "substitute for FIU homes, 9.3 million requests",
    keys: &[SCALE, THETA, DUPLICATES],
};
pub(super) const MAIL: Kind = Kind {
    name: "fiu-mail",
    meaning: "substitute for FIU mail, 16.3 million requests",
    keys: &[SCALE, THETA, DUPLICATES],
};
pub(super) const WEB: Kind = Kind {
    name: "fiu-web",
    meaning: "substitute for FIU web-vm, 5.9 million requests",
    keys: &[SCALE, THETA, DUPLICATES],
};

const TWO_WEEKS_S: f64 = 14.0 * 86_400.0;

/// A row of Table I: requests, write share, addresses; then recyclable and invalid GB, and the share of Figure 4.
const fn row(
    name: &'static str,
    table: [f64; 3],
    recyclable_gb: f64,
    invalid_gb: f64,
    newest_four: f64,
) -> Facts {
    let [requests, write_share, addresses] = table;
    Facts {
        name,
        reads: requests * (1.0 - write_share),
        writes: requests * write_share,
        addresses,
        duration_s: TWO_WEEKS_S,
        recycling: Some(Recycling { share_of_invalid: recyclable_gb / invalid_gb, newest_four }),
    }
}

const TRACES: [Facts; 3] = [
    row("fiu-homes", [9.3e6, 0.938, 2.4e6], 2.8, 24.1, 0.791),
    row("fiu-mail", [16.3e6, 0.753, 1.2e6], 7.4, 42.2, 0.596),
    row("fiu-web", [5.9e6, 0.825, 0.8e6], 2.5, 15.5, 0.865),
];

/// Whether a kind is one of these, which know their contents.
pub(super) fn knows_contents(kind: &str) -> bool {
    TRACES.iter().any(|facts| facts.name == kind)
}

pub(super) fn substitute(
    kind: &str,
    keys: &Keys,
    random: Xoshiro256PlusPlus,
) -> Result<Substitute, SpecError> {
    let facts = TRACES.iter().find(|facts| facts.name == kind).expect("a row for each kind");
    Substitute::new(facts, keys, random)
}
