//! Rows that follow from a paper's parameters by arithmetic.
//!
//! Every function takes the parameters and returns the result; none holds a result. The parameters stand in [`rows`],
//! each as the paper prints it. Formulas of steady states are in [`crate::theory`]. The tests of this module compare
//! with figures that were computed independently.

use super::verdict::Value;

/// Bytes of a page in all four papers.
const PAGE_BYTES: f64 = 4096.0;

const KIB: f64 = 1024.0;
const MIB: f64 = KIB * KIB;
const GIB: f64 = KIB * MIB;

/// A share as percent.
pub fn percent(share: f64) -> f64 {
    100.0 * share
}

/// A row of LX's Table I: how much a trace writes, and where.
#[derive(Clone, Copy, Debug)]
pub struct TraceTable {
    /// Requests.
    pub requests: f64,
    /// Share that writes.
    pub write_share: f64,
    /// Distinct addresses.
    pub addresses: f64,
}

impl TraceTable {
    /// Requests that write, one page each.
    pub fn writes(self) -> f64 {
        self.requests * self.write_share
    }

    /// Writes that invalidate an older version: all but the first of each address.
    pub fn overwrites(self) -> f64 {
        self.writes() - self.addresses
    }

    /// Share of the writes that overwrite (LX, III-B).
    pub fn overwrite_share(self) -> f64 {
        self.overwrites() / self.writes()
    }

    /// Invalidated pages, GiB (LX, III-B).
    pub fn invalid_gib(self) -> f64 {
        self.overwrites() * PAGE_BYTES / GIB
    }
}

/// RAM of a fingerprint store, bytes: a 16-byte hash, a page address and a probability of 4 bytes each (LX, IV-C).
pub fn fingerprint_store_bytes(entries: f64) -> f64 {
    entries * (16.0 + 4.0 + 4.0)
}

/// Values of a closed-form row, or `None` if the row is not one.
pub fn row(id: &str) -> Option<Vec<Value>> {
    rows::lx(id)
}

/// The papers' parameters, row by row.
mod rows {
    use super::{MIB, TraceTable, Value, fingerprint_store_bytes, percent};

    /// Table I, and the recyclable GB of section III-B.
    const FIU: [(&str, TraceTable, f64); 3] = [
        ("homes", TraceTable { requests: 9.3e6, write_share: 0.938, addresses: 2.4e6 }, 2.8),
        ("mail", TraceTable { requests: 16.3e6, write_share: 0.753, addresses: 1.2e6 }, 7.4),
        ("web", TraceTable { requests: 5.9e6, write_share: 0.825, addresses: 0.8e6 }, 2.5),
    ];

    fn of_traces(value: impl Fn(TraceTable, f64) -> f64) -> Vec<Value> {
        FIU.map(|(name, table, recyclable)| Value::new(name, value(table, recyclable))).into()
    }

    pub(super) fn lx(id: &str) -> Option<Vec<Value>> {
        Some(match id {
            "LX-05" => of_traces(|table, _| percent(table.overwrite_share())),
            "LX-06" => of_traces(|table, _| table.invalid_gib()),
            "LX-08" => of_traces(|table, recyclable_gb| percent(recyclable_gb / table.invalid_gib())),
            "LX-16" => [("64K", 64.0), ("128K", 128.0), ("256K", 256.0)]
                .map(|(name, kilo)| Value::new(name, fingerprint_store_bytes(kilo * 1024.0) / MIB))
                .into(),
            "LX-35" => vec![Value::new("hash and look-up", crate::config::TimingConfig::default().hash_us)],
            _ => return None,
        })
    }
}
