//! User-supplied victim policies.
//!
//! The policies of [`VictimPolicy`](super::VictimPolicy) read the block table and are compiled into the engine. For
//! experiments, a policy can be a trait object instead. It sees what the policies from the literature use: the number
//! of valid pages, the age and the wear of each block that can be collected. The engine checks its choice before it
//! collects the block. The price is an iteration over the blocks of a pool for each victim.
//!
//! Invariant: a policy only determines which block is collected, and nothing else.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use crate::address::BlockId;
use crate::error::{Error, Result};
use crate::nand::PageKind;
use crate::store::BlockTable;

/// Interface of a user-supplied victim policy, which chooses GC victims instead of the policies of the engine.
pub trait ChooseVictim: Send {
    /// Returns the name of the victim policy, for records and messages.
    fn name(&self) -> String;

    /// Returns the block that GC is to collect: one of `candidates`, which is never empty. `None` leaves the choice of
    /// this victim to the greedy policy.
    ///
    /// # Errors
    /// A sentence that explains why the policy cannot choose. The request that needed free blocks then fails with
    /// [`Error::VictimPolicyFailed`].
    fn choose(&mut self, candidates: &VictimCandidates<'_>) -> std::result::Result<Option<BlockId>, String>;
}

/// The blocks from which a user-supplied policy may choose a GC victim: the closed blocks of one pool (set of planes)
/// that have an invalid page.
#[expect(missing_debug_implementations, reason = "a view with a function in it")]
pub struct VictimCandidates<'a> {
    /// State, valid pages and age of all blocks of the device.
    pub(crate) blocks: &'a BlockTable,
    /// Function that returns the erase count of a block.
    pub(crate) erase_count_of: &'a dyn Fn(BlockId) -> u32,
    /// Number of the pool (set of planes) that is to be collected.
    pub(crate) pool: u32,
    /// Sequence number of the last flash program or reverse-map entry, from which the ages of blocks are computed.
    pub(crate) last_sequence_number: u64,
}

/// Properties of one block that GC can collect, as a user-supplied victim policy sees them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct VictimCandidate {
    /// Number of the candidate block.
    pub block: BlockId,
    /// Number of valid pages in the block, which collection must copy.
    pub valid_pages: u32,
    /// Number of flash programs (and reverse-map entries) since the block was closed.
    pub age_programs: u64,
    /// Number of times that the block was erased so far.
    pub erases: u32,
    /// Kind of data in the block's pages.
    pub kind: PageKind,
}

impl VictimCandidates<'_> {
    /// Returns the number of the pool (set of planes) to be collected. It is the plane's number if a block lies in one
    /// plane.
    pub fn pool_number(&self) -> u32 {
        self.pool
    }

    /// Returns the number of pages per block that can hold data.
    pub fn block_pages(&self) -> u32 {
        self.blocks.max_valid_pages_per_block()
    }

    /// Returns the sequence number of the last flash program or reverse-map entry: both take their numbers from one
    /// counter, which started when the device was new.
    pub fn last_sequence_number(&self) -> u64 {
        self.last_sequence_number
    }

    /// Returns all candidates for collection in the order of their block numbers. O(blocks of the pool).
    pub fn iter(&self) -> impl Iterator<Item = VictimCandidate> + '_ {
        self.blocks.blocks_of_pool(self.pool).filter(|&block| self.contains(block)).map(|block| {
            VictimCandidate {
                block,
                valid_pages: self.blocks.valid_pages(block),
                age_programs: self.last_sequence_number.saturating_sub(self.blocks.closed_at_sequence(block)),
                erases: (self.erase_count_of)(block),
                kind: self.blocks.kind(block),
            }
        })
    }

    /// Returns whether `block` is a candidate for collection: a closed block of the pool (set of planes) with an
    /// invalid page.
    pub fn contains(&self, block: BlockId) -> bool {
        let is_of_pool = block.0 < self.blocks.len() && block.0 % self.blocks.allocation_pools() == self.pool;
        is_of_pool
            && self.blocks.is_gc_candidate(block)
            && self.blocks.valid_pages(block) < self.block_pages()
    }
}

/// A handle to a user-supplied victim policy, shared by its creator, the device, and clones of the device.
#[derive(Clone)]
pub struct UserVictimPolicy(Arc<Mutex<dyn ChooseVictim>>);

impl UserVictimPolicy {
    /// Creates a shared handle to the victim policy `policy`.
    pub fn new(policy: impl ChooseVictim + 'static) -> Self {
        Self(Arc::new(Mutex::new(policy)))
    }

    /// Returns the name of the user-supplied victim policy, for records and messages.
    pub fn name(&self) -> String {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).name()
    }

    /// Returns the block that the user-supplied policy chooses. `None` if there are no candidates, or if the policy
    /// leaves the choice to the greedy policy. An error if the policy fails, or if the block is not one of
    /// `candidates`.
    pub(crate) fn choose(&self, candidates: &VictimCandidates<'_>) -> Result<Option<BlockId>> {
        if candidates.iter().next().is_none() {
            return Ok(None);
        }
        let mut policy = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let chosen = policy
            .choose(candidates)
            .map_err(|why| Error::VictimPolicyFailed { name: policy.name(), why })?;
        match chosen {
            Some(block) if !candidates.contains(block) => {
                let why = format!(
                    "it chose block {block}, but must choose one of the candidates that it was given"
                );
                Err(Error::VictimPolicyFailed { name: policy.name(), why })
            }
            chosen => Ok(chosen),
        }
    }
}

impl fmt::Debug for UserVictimPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "OwnPolicy({})", self.name())
    }
}
