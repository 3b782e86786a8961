//! Algorithm that chooses which lifetime schemes (such as deduplication or compression) run in the next epoch, and
//! whether writes are throttled (IL, algorithm 1).
//!
//! First every scheme that saves both writes and energy is enabled. If the remaining writes still exceed the epoch's
//! capacity, schemes that save more writes than they cost energy are enabled as well. If even that does not suffice,
//! host writes are throttled to the capacity.
//!
//! The algorithm knows no particular scheme: schemes are a slice, in the order of the write pipeline. The printed
//! listing is damaged, and its text refers to lines by other numbers; this is the reading in which every statement of
//! the text holds. The published second stage tests compression first and deduplication second. The order does not
//! affect the outcome, because neither condition depends on what was enabled before.
//!
//! Schemes that share their work are decided together ([`combined_estimate`]). Deduplication and recycling look up the
//! same hash, so they are one group with four states: none, either, or both. Once one of them pays for the hash, the
//! other costs nothing more, so a group runs all of its members that save writes, or none. The price: a member that
//! saves next to nothing also runs, at no cost that the model knows.
//!
//! Ratios are multiplied. This is exact if each is measured on the pages that earlier schemes left over
//! ([`super::sampling`]). It is too optimistic if each is measured alone: a duplicate page that compresses well is then
//! saved twice.

/// Maximum number of lifetime schemes (such as deduplication or compression).
pub const MAX_SCHEMES: usize = 32;

/// Expected effect of a lifetime scheme (such as deduplication or compression) in the coming epoch.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct SchemeEstimate {
    /// Share (0 to 1) of the pages offered to the scheme that it does not save, so that they are still written (D in
    /// the integrated-lifetime paper).
    pub written_share_of_offered_bytes: f64,
    /// Energy per page offered to the scheme, in units of the energy of a page program. Includes the programs of pages
    /// that are still written (E in the integrated-lifetime paper).
    pub total_energy_per_page_in_program_energies: f64,
}

impl SchemeEstimate {
    /// Creates the estimate for a scheme that still writes the share `written_share_of_offered_bytes` (D) of its pages
    /// and needs the energy of `overhead` (e) page programs per offered page: E = D + e.
    pub fn new(written_share_of_offered_bytes: f64, overhead: f64) -> Self {
        Self {
            written_share_of_offered_bytes,
            total_energy_per_page_in_program_energies: written_share_of_offered_bytes + overhead,
        }
    }

    /// Returns whether the scheme leaves fewer pages to write than it is offered.
    pub fn saves_writes(self) -> bool {
        self.written_share_of_offered_bytes < 1.0
    }

    /// Returns whether the scheme saves both writes and energy.
    fn saves_writes_and_energy(self) -> bool {
        self.saves_writes() && self.total_energy_per_page_in_program_energies < 1.0
    }

    /// Returns whether the share of writes that the scheme saves is larger than its additional energy, both relative to
    /// writing all pages. In the integrated-lifetime paper, this condition implies that the scheme saves writes at all,
    /// because the energy ratio (E) is never less than the share of pages still written (D). Here that is tested too,
    /// because a caller may pass any estimate.
    fn does_write_saving_exceed_energy_cost(self) -> bool {
        self.saves_writes()
            && 1.0 - self.written_share_of_offered_bytes
                > self.total_energy_per_page_in_program_energies - 1.0
    }
}

/// Combines the estimates of lifetime schemes that share their work; deduplication and recycling, for example, use one
/// hash. Multiplies the write ratios of those schemes that save writes, and counts `overhead`, the energy of the shared
/// work in page programs per page, once.
pub fn combined_estimate(members: &[SchemeEstimate], overhead: f64) -> SchemeEstimate {
    let saving = members.iter().filter(|member| member.saves_writes());
    SchemeEstimate::new(saving.map(|member| member.written_share_of_offered_bytes).product(), overhead)
}

/// A set of lifetime schemes (such as deduplication or compression), identified by their positions in the write
/// pipeline.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct SchemeSet(u32);

impl SchemeSet {
    /// The empty set of lifetime schemes.
    pub const NONE: Self = Self(0);

    /// Returns the set of the first `count` lifetime schemes of the write pipeline.
    ///
    /// # Panics
    /// If `count` is greater than [`MAX_SCHEMES`].
    pub fn of_first_schemes(count: usize) -> Self {
        assert!(count <= MAX_SCHEMES, "{count} schemes are too many: a set holds {MAX_SCHEMES}");
        Self(((1_u64 << count) - 1) as u32)
    }

    /// Adds to the set the lifetime scheme at `position` in the write pipeline, and returns the result.
    #[must_use]
    pub fn with_scheme(self, position: usize) -> Self {
        debug_assert!(position < MAX_SCHEMES, "no scheme {position}");
        Self(self.0 | 1 << position)
    }

    /// Returns whether the lifetime scheme at `position` of the write pipeline is in the set.
    pub fn contains(self, position: usize) -> bool {
        position < MAX_SCHEMES && self.0 >> position & 1 == 1
    }

    /// Returns the number of lifetime schemes in the set.
    pub fn len(self) -> usize {
        self.0.count_ones() as usize
    }

    /// Returns whether the set of lifetime schemes is empty.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }
}

/// Decision of lifetime management for one epoch: the schemes that run, and whether host writes are throttled.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct EpochDecision {
    /// Lifetime schemes that run in the epoch.
    pub enabled_schemes: SchemeSet,
    /// Flash bytes per epoch to which host writes are throttled; `None` means not throttled.
    pub throttle_bytes_per_epoch: Option<u64>,
}

/// Decides by algorithm 1 of the integrated-lifetime paper (IL) which lifetime schemes run in an epoch and whether host
/// writes are throttled. `expected_flash_bytes_per_epoch` of flash writes are expected in the epoch without any scheme,
/// and `capacity_bytes` may be written. Cost: O(schemes).
///
/// A demand equal to the capacity enables further schemes, but is not throttled, as in the paper's listing.
///
/// # Panics
/// With more than [`MAX_SCHEMES`] schemes.
pub fn decide_schemes(
    schemes: &[SchemeEstimate],
    expected_flash_bytes_per_epoch: f64,
    capacity_bytes: f64,
) -> EpochDecision {
    assert!(
        schemes.len() <= MAX_SCHEMES,
        "{} schemes are too many: a set holds {MAX_SCHEMES}",
        schemes.len()
    );
    let free = select_schemes(schemes, |_, scheme| scheme.saves_writes_and_energy());
    if demand_left_bytes(schemes, free, expected_flash_bytes_per_epoch) < capacity_bytes {
        return EpochDecision { enabled_schemes: free, throttle_bytes_per_epoch: None };
    }
    let enabled = select_schemes(schemes, |k, scheme| {
        free.contains(k) || scheme.does_write_saving_exceed_energy_cost()
    });
    let fits = demand_left_bytes(schemes, enabled, expected_flash_bytes_per_epoch) <= capacity_bytes;
    EpochDecision {
        enabled_schemes: enabled,
        throttle_bytes_per_epoch: (!fits).then_some(capacity_bytes as u64),
    }
}

/// Returns the set of the schemes for which `chosen` returns `true`, given a scheme's position in the write pipeline
/// and its estimate.
fn select_schemes(schemes: &[SchemeEstimate], chosen: impl Fn(usize, SchemeEstimate) -> bool) -> SchemeSet {
    let positions = (0..schemes.len()).filter(|&k| chosen(k, schemes[k]));
    positions.fold(SchemeSet::NONE, SchemeSet::with_scheme)
}

/// Returns the flash bytes that must still be written if the lifetime schemes in `enabled` run.
fn demand_left_bytes(
    schemes: &[SchemeEstimate],
    enabled: SchemeSet,
    expected_flash_bytes_per_epoch: f64,
) -> f64 {
    let kept = schemes.iter().enumerate().filter(|&(k, _)| enabled.contains(k));
    kept.fold(expected_flash_bytes_per_epoch, |bytes, (_, scheme)| {
        bytes * scheme.written_share_of_offered_bytes
    })
}
