//! Substitutes for the traces of Delta-FTL (`EuroSys` 2012, section 5.1, Table 4): Financial 1 and 2, two disks of
//! Cello99 on 17 July 1999, and two traces of Microsoft production servers.
//!
//! Published by the paper, and reproduced here: numbers of reads and writes, and duration.
//!
//! Assumed: everything that `substitute.rs` assumes, and the locality of overwrites, which Table 4 does not describe.
//! The share of writes to new addresses is one half for `f1` and `f2`, and a quarter for the other traces: in the
//! paper, the delta log serves the smallest share of overwrites for `f1` and `f2` (section 5.4, Figure 8). For the same
//! reason their skew is weaker (0.6 instead of 0.9). How similar an overwrite is to the earlier version is not a
//! property of the trace in the paper either; here it is a content model, `f1+unique:delta=0.5`.

use rand_xoshiro::Xoshiro256PlusPlus;

use super::spec_values::SpecValues;
use super::substitute::{
    READS_KEY, SCALE_KEY, THETA_KEY, TraceFacts, TraceSubstituteGenerator, substitute_spec_kind,
};
use crate::workload::spec_grammar::{SpecError, SpecKey, SpecKind};

/// Keys of the substitutes for the traces Financial 1 and 2, for which the default skew is weaker.
const WEAKLY_SKEWED_SUBSTITUTE_KEYS: &[SpecKey] =
    &[SCALE_KEY, SpecKey { default: "0.6", ..THETA_KEY }, READS_KEY];

/// Specification kind of the substitute for the trace Financial 1 of the Delta-FTL paper.
pub(super) const FINANCIAL_1_SPEC_KIND: SpecKind = SpecKind {
    keys: WEAKLY_SKEWED_SUBSTITUTE_KEYS,
    ..substitute_spec_kind("f1", "substitute for Financial 1, 12 hours")
};
/// Specification kind of the substitute for the trace Financial 2 of the Delta-FTL paper.
pub(super) const FINANCIAL_2_SPEC_KIND: SpecKind = SpecKind {
    keys: WEAKLY_SKEWED_SUBSTITUTE_KEYS,
    ..substitute_spec_kind("f2", "substitute for Financial 2, 12 hours")
};
/// Specification kind of the substitute for the trace Cello99 disk 3 of the Delta-FTL paper.
pub(super) const CELLO99_DISK_3_SPEC_KIND: SpecKind =
    substitute_spec_kind("c3", "substitute for Cello99 disk 3, 24 hours");
/// Specification kind of the substitute for the trace Cello99 disk 8 of the Delta-FTL paper.
pub(super) const CELLO99_DISK_8_SPEC_KIND: SpecKind =
    substitute_spec_kind("c8", "substitute for Cello99 disk 8, 24 hours");
/// Specification kind of the substitute for the trace DAP-PS of the Delta-FTL paper.
pub(super) const DAP_PS_SPEC_KIND: SpecKind = substitute_spec_kind("dap", "substitute for DAP-PS, 24 hours");
/// Specification kind of the substitute for the trace MSN-CFS of the Delta-FTL paper.
pub(super) const MSN_CFS_SPEC_KIND: SpecKind = substitute_spec_kind("msn", "substitute for MSN-CFS, 6 hours");

/// Returns the facts of a trace from its row of Table 4 of the Delta-FTL paper: millions of reads and writes, and
/// hours. The share of writes that go to new addresses is not in the table; it is assumed.
const fn trace_facts(
    name: &'static str,
    [reads, writes, hours]: [f64; 3],
    new_address_share: f64,
) -> TraceFacts {
    TraceFacts {
        name,
        reads: reads * 1e6,
        writes: writes * 1e6,
        distinct_addresses: writes * 1e6 * new_address_share,
        duration_s: hours * 3600.0,
    }
}

/// Facts of each trace of the Delta-FTL paper (its Table 4), by the name of the substitute.
const TRACE_FACTS: [TraceFacts; 6] = [
    trace_facts("f1", [1.23, 4.07, 12.0], 0.5),
    trace_facts("f2", [3.04, 0.65, 12.0], 0.5),
    trace_facts("c3", [0.75, 1.37, 24.0], 0.25),
    trace_facts("c8", [0.56, 1.48, 24.0], 0.25),
    trace_facts("dap", [0.61, 0.47, 24.0], 0.25),
    trace_facts("msn", [0.82, 0.27, 6.0], 0.25),
];

/// Creates the generator of the substitute named `kind` (a generated load with the counts of a trace).
pub(super) fn trace_substitute_generator(
    kind: &str,
    keys: &SpecValues,
    random: Xoshiro256PlusPlus,
) -> Result<TraceSubstituteGenerator, SpecError> {
    let facts = TRACE_FACTS.iter().find(|facts| facts.name == kind).expect("a row for each kind");
    TraceSubstituteGenerator::new(facts, keys, random)
}
