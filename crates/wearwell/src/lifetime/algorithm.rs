//! Which schemes run in the next epoch, and whether writes are throttled (IL, algorithm 1).
//!
//! First every scheme that saves both writes and energy is enabled. If what is left still does not fit the epoch's
//! capacity, schemes that save more writes than they cost energy join. If even that does not fit, host writes are
//! throttled to the capacity.
//!
//! The algorithm knows no particular scheme: they are a slice, in the order of the pipeline. The printed listing is
//! damaged, and its text refers to lines by other numbers; this is the reading in which every statement of the text
//! holds. The published second stage looks at compression first and at deduplication second; the order has no effect
//! on the outcome, because neither condition depends on what was enabled before.
//!
//! Schemes that share their work are decided together ([`together`]). Deduplication and recycling look the same hash up, so
//! they are one group with four states: none, either, or both. Once one of them pays for the hash, the other costs nothing
//! more, so a group runs all of its members that save writes or none. The price: a member that saves next to nothing
//! runs along, at no cost that the model knows.
//!
//! Ratios are multiplied, which is exact if each is measured on what the schemes before it left over
//! ([`super::sampling`]), and too optimistic if each is measured alone: a duplicate page that compresses well is then
//! saved twice.

/// Schemes at most.
pub const MAX_SCHEMES: usize = 32;

/// What a scheme is expected to do in the coming epoch.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct SchemeEstimate {
    /// Share of the pages offered to it that it still writes (D).
    pub write_ratio: f64,
    /// Energy per offered page, in page programs, what it still writes included (E).
    pub energy_ratio: f64,
}

impl SchemeEstimate {
    /// A scheme that spends `overhead` programs' worth of energy on every page offered: E = D + e.
    pub fn new(write_ratio: f64, overhead: f64) -> Self {
        Self { write_ratio, energy_ratio: write_ratio + overhead }
    }

    /// Whether it leaves fewer pages to write than it is offered.
    pub fn saves_writes(self) -> bool {
        self.write_ratio < 1.0
    }

    /// Saves writes and energy.
    fn is_free(self) -> bool {
        self.saves_writes() && self.energy_ratio < 1.0
    }

    /// Saves more writes than it costs energy. That it saves writes at all follows from E >= D in the paper and is
    /// asked here because estimates may come from anywhere.
    fn is_worth_its_energy(self) -> bool {
        self.saves_writes() && 1.0 - self.write_ratio > self.energy_ratio - 1.0
    }
}

/// Schemes that share their work, as one scheme: what those that save writes leave over of each other, for the `overhead` of
/// the shared work, which is paid once.
pub fn together(members: &[SchemeEstimate], overhead: f64) -> SchemeEstimate {
    let saving = members.iter().filter(|member| member.saves_writes());
    SchemeEstimate::new(saving.map(|member| member.write_ratio).product(), overhead)
}

/// Whether a scheme that programs the share `own` of its pages itself is cheaper, for the writes that it takes, than the
/// `rival` behind it, which would have them otherwise. Algorithm 1 does not ask: to it schemes are independent.
pub fn beats(scheme: SchemeEstimate, own: f64, rival: SchemeEstimate) -> bool {
    let passed = scheme.write_ratio - own;
    let overhead = scheme.energy_ratio - scheme.write_ratio;
    own + overhead < (1.0 - passed) * rival.energy_ratio
}

/// A set of schemes, by position in the pipeline.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct SchemeSet(u32);

impl SchemeSet {
    /// No scheme.
    pub const NONE: Self = Self(0);

    /// The first `count` schemes.
    ///
    /// # Panics
    /// If `count` is above [`MAX_SCHEMES`].
    pub fn first(count: usize) -> Self {
        assert!(count <= MAX_SCHEMES, "{count} schemes; a set holds {MAX_SCHEMES}");
        Self(((1_u64 << count) - 1) as u32)
    }

    /// The set with one scheme more.
    #[must_use]
    pub fn with(self, position: usize) -> Self {
        debug_assert!(position < MAX_SCHEMES, "no scheme {position}");
        Self(self.0 | 1 << position)
    }

    /// The set with one scheme less.
    #[must_use]
    pub fn without(self, position: usize) -> Self {
        Self(self.0 & !(1 << position))
    }

    /// Whether the scheme at `position` belongs to it.
    pub fn contains(self, position: usize) -> bool {
        position < MAX_SCHEMES && self.0 >> position & 1 == 1
    }

    /// Schemes in it.
    pub fn len(self) -> usize {
        self.0.count_ones() as usize
    }

    /// Whether no scheme runs.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }
}

/// What one epoch does.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Decision {
    /// Schemes that run.
    pub enabled: SchemeSet,
    /// Flash bytes per epoch to which host writes are throttled; `None` = not throttled.
    pub throttle_bytes_per_epoch: Option<u64>,
}

/// Decides for an epoch in which `demand_bytes` of flash writes are expected without any scheme and `capacity_bytes`
/// may be written. Cost: O(schemes).
///
/// A demand that equals the capacity tries further schemes but is not throttled, as in the listing.
///
/// # Panics
/// With more than [`MAX_SCHEMES`] schemes.
pub fn decide(schemes: &[SchemeEstimate], demand_bytes: f64, capacity_bytes: f64) -> Decision {
    assert!(schemes.len() <= MAX_SCHEMES, "{} schemes; a set holds {MAX_SCHEMES}", schemes.len());
    let free = select(schemes, |_, scheme| scheme.is_free());
    if demand_with(schemes, free, demand_bytes) < capacity_bytes {
        return Decision { enabled: free, throttle_bytes_per_epoch: None };
    }
    let enabled = select(schemes, |k, scheme| free.contains(k) || scheme.is_worth_its_energy());
    let fits = demand_with(schemes, enabled, demand_bytes) <= capacity_bytes;
    Decision { enabled, throttle_bytes_per_epoch: (!fits).then_some(capacity_bytes as u64) }
}

fn select(schemes: &[SchemeEstimate], chosen: impl Fn(usize, SchemeEstimate) -> bool) -> SchemeSet {
    let positions = (0..schemes.len()).filter(|&k| chosen(k, schemes[k]));
    positions.fold(SchemeSet::NONE, SchemeSet::with)
}

/// Demand that the schemes in `enabled` leave over, bytes.
fn demand_with(schemes: &[SchemeEstimate], enabled: SchemeSet, demand_bytes: f64) -> f64 {
    let kept = schemes.iter().enumerate().filter(|&(k, _)| enabled.contains(k));
    kept.fold(demand_bytes, |bytes, (_, scheme)| bytes * scheme.write_ratio)
}
