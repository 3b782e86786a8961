//! What a page costs in energy, and what a scheme saves of it.
//!
//! All costs are times a page program: a scheme that keeps the share D of the pages and spends e programs' worth of
//! energy on every page it looks at has the energy ratio E = D + e. Source: "integrated lifetime management" (IL),
//! section III-B2 and IV.
//!
//! The stated times and powers put the energy break-even of compression at a ratio of 0.25, the paper's text at 0.5.
//! [`EnergyModel::FITTED`] doubles the energy of compression, which gives the text's break-even; it is a fit with one
//! parameter and not a figure of the paper. Whoever reports energy reports both.

/// Time and power of one operation on one page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PageCost {
    /// Duration, nanoseconds.
    pub time_ns: u64,
    /// Power while it lasts, microwatts.
    pub power_uw: u64,
}

impl PageCost {
    /// Energy of one operation, picojoules, rounded down (nanoseconds times microwatts are femtojoules).
    pub fn energy_pj(self) -> u64 {
        self.time_ns * self.power_uw / 1000
    }
}

/// Energy of the page operations that lifetime schemes trade against each other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EnergyModel {
    /// Programming a page.
    pub program: PageCost,
    /// Compressing a page.
    pub compress: PageCost,
    /// Hashing a page.
    pub hash: PageCost,
}

impl EnergyModel {
    /// IL, section IV: program 600 us at 48.5 mW, compression 64 us at 60 mW, hash 8.6 us at 49 mW, pages of 4 KiB.
    pub const STATED: Self = Self {
        program: PageCost { time_ns: 600_000, power_uw: 48_500 },
        compress: PageCost { time_ns: 64_000, power_uw: 60_000 },
        hash: PageCost { time_ns: 8_600, power_uw: 49_000 },
    };

    /// [`EnergyModel::STATED`] with twice the energy of compression. Written as twice the power: the fit says nothing
    /// about how time and power share the factor.
    pub const FITTED: Self =
        Self { compress: PageCost { power_uw: 120_000, ..Self::STATED.compress }, ..Self::STATED };

    /// Energy of compressing a page, in page programs (`e_c`).
    pub fn compression_overhead(&self) -> f64 {
        self.in_programs(self.compress)
    }

    /// Energy of hashing a page, in page programs (`e_d`).
    pub fn dedup_overhead(&self) -> f64 {
        self.in_programs(self.hash)
    }

    /// Energy of making a delta, in page programs: a difference goes through the compressor, like a page. The read of the stored
    /// page costs nothing, as reads do in the paper.
    pub fn delta_overhead(&self) -> f64 {
        self.compression_overhead()
    }

    fn in_programs(&self, cost: PageCost) -> f64 {
        cost.energy_pj() as f64 / self.program.energy_pj() as f64
    }
}

/// Share of the pages that compression still writes when chunks of `members` pages lose the share `removed` of their
/// bytes: whole pages, hence `ceil(members * (1 - removed)) / members`. At least one page, at most all.
///
/// A ratio that was rounded on its way may lie a hair above a page border; a billionth of a page is forgiven.
pub fn chunk_write_ratio(removed: f64, members: u32) -> f64 {
    let members = members as f64;
    let pages = (members * (1.0 - removed) - 1e-9).ceil();
    pages.clamp(1.0, members) / members
}

/// Pages that a chunk of `compressed_bytes` takes, at least one. Exact; [`chunk_write_ratio`] is for averages.
pub fn chunk_pages(compressed_bytes: u64, page_bytes: u32) -> u32 {
    compressed_bytes.div_ceil(page_bytes as u64).max(1) as u32
}

/// Share of the pages that deduplication still writes if the share `duplicates` of them is stored already.
pub fn dedup_write_ratio(duplicates: f64) -> f64 {
    1.0 - duplicates
}
