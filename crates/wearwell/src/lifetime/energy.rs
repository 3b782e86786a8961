//! Energy of page operations, and what lifetime schemes save of it.
//!
//! All energies are in units of a page program. A scheme that still writes the share D of its pages, and needs the
//! energy of e programs for each page it processes, has the energy ratio E = D + e. Source: "integrated lifetime
//! management" (IL), sections III-B2 and IV.
//!
//! With the times and powers stated in the paper, compression breaks even in energy at a ratio of 0.25; the paper's
//! text says 0.5. [`EnergyModel::FITTED_TO_PAPER`] doubles the energy of compression, which gives the break-even of the
//! text. It is a fit with one parameter, not a figure of the paper. Reports of energy should give both.

/// Time and power of one operation (program, compression or hash) on one page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PageOperationCost {
    /// Duration of the operation on the page, nanoseconds.
    pub time_ns: u64,
    /// Power during the operation on the page, microwatts.
    pub power_uw: u64,
}

impl PageOperationCost {
    /// Returns the energy of one page operation in picojoules, rounded down (nanoseconds times microwatts are
    /// femtojoules).
    pub fn energy_pj(self) -> u64 {
        self.time_ns * self.power_uw / 1000
    }
}

/// Energy of page programs, compression and hashing, which decides whether a lifetime scheme saves more energy than it
/// needs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EnergyModel {
    /// Time and power of programming a page.
    pub program: PageOperationCost,
    /// Time and power of compressing a page.
    pub compression: PageOperationCost,
    /// Time and power of hashing a page.
    pub hash: PageOperationCost,
}

impl EnergyModel {
    /// Energy model stated in the paper (IL, section IV): program 600 us at 48.5 mW, compression 64 us at 60 mW, hash
    /// 8.6 us at 49 mW, pages of 4 KiB.
    pub const STATED_IN_PAPER: Self = Self {
        program: PageOperationCost { time_ns: 600_000, power_uw: 48_500 },
        compression: PageOperationCost { time_ns: 64_000, power_uw: 60_000 },
        hash: PageOperationCost { time_ns: 8_600, power_uw: 49_000 },
    };

    /// The energy model [`EnergyModel::STATED_IN_PAPER`] with twice the energy of compression, so that compression
    /// breaks even in energy at a compression ratio of 0.5, as the text of the paper (IL) says. The factor is expressed
    /// as twice the power; it might as well be twice the time.
    pub const FITTED_TO_PAPER: Self = Self {
        compression: PageOperationCost { power_uw: 120_000, ..Self::STATED_IN_PAPER.compression },
        ..Self::STATED_IN_PAPER
    };

    /// Returns the energy of compressing a page, in units of the energy of a page program (`e_c` in the
    /// integrated-lifetime paper).
    pub fn compression_energy_in_program_energies(&self) -> f64 {
        self.energy_in_program_energies(self.compression)
    }

    /// Returns the energy of hashing a page, in units of the energy of a page program (`e_d` in the integrated-lifetime
    /// paper).
    pub fn dedup_energy_in_program_energies(&self) -> f64 {
        self.energy_in_program_energies(self.hash)
    }

    /// Returns the energy of encoding a page as a delta (difference to its stored version), in units of the energy of a
    /// page program. The difference is compressed like a page. The read of the stored page costs nothing, as reads do
    /// in the integrated-lifetime paper.
    pub fn delta_energy_in_program_energies(&self) -> f64 {
        self.compression_energy_in_program_energies()
    }

    /// Returns the energy of a page operation with this time and power, in units of the energy of a page program.
    fn energy_in_program_energies(&self, cost: PageOperationCost) -> f64 {
        cost.energy_pj() as f64 / self.program.energy_pj() as f64
    }
}

/// Returns the share of the pages that compression still writes if compression in chunks of `members` pages removes the
/// share `removed` of their bytes. A chunk takes whole pages, hence `ceil(members * (1 - removed)) / members`; at least
/// one page, at most all.
///
/// `removed` may be rounded, so that the chunk seems to be a tiny amount larger than a number of whole pages; up to a
/// billionth of a page is ignored.
pub fn chunk_written_share(removed: f64, members: u32) -> f64 {
    let members = members as f64;
    let pages = (members * (1.0 - removed) - 1e-9).ceil();
    pages.clamp(1.0, members) / members
}

/// Returns the number of flash pages that a compressed chunk of `compressed_bytes` occupies, at least one. This number
/// is exact, whereas [`chunk_written_share`] is meant for averages.
pub fn pages_per_chunk(compressed_bytes: u64, page_bytes: u32) -> u32 {
    compressed_bytes.div_ceil(page_bytes as u64).max(1) as u32
}

/// Returns the share of the pages that deduplication still writes if the share `duplicates` of them is already stored.
pub fn dedup_written_share(duplicates: f64) -> f64 {
    1.0 - duplicates
}
