//! A victim policy of one's own, from outside the engine.
//!
//! The policies of [`VictimPolicy`](super::VictimPolicy) read the block table and are compiled into the engine. One that is tried
//! out comes as a trait object instead, written against a view that shows what every policy from the literature asks: of each block
//! that can be collected its valid pages, its age and its wear. Whatever it answers is checked before the engine acts on it. The
//! price is a walk over the blocks of a pool for each victim.
//!
//! Invariant: a policy changes which block is collected and nothing else.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use crate::address::BlockId;
use crate::error::{Error, Result};
use crate::nand::PageKind;
use crate::store::BlockTable;

/// Chooses victims in place of the engine's policies.
pub trait ChooseVictim: Send {
    /// What records and messages call it.
    fn name(&self) -> String;

    /// The block to collect, out of `candidates`, of which there is one at least; `None` leaves this victim to greedy.
    ///
    /// # Errors
    /// What keeps the policy from an answer, as a sentence; the request that needed room ends with [`Error::Policy`].
    fn choose(&mut self, candidates: &Candidates<'_>) -> std::result::Result<Option<BlockId>, String>;
}

/// The closed blocks of a pool that have an invalid page.
#[expect(missing_debug_implementations, reason = "a view with a function in it")]
pub struct Candidates<'a> {
    pub(crate) blocks: &'a BlockTable,
    pub(crate) erases: &'a dyn Fn(BlockId) -> u32,
    pub(crate) pool: u32,
    pub(crate) now: u64,
}

/// What is known of a block that can be collected.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Candidate {
    /// The block.
    pub block: BlockId,
    /// Valid pages: what collection has to copy.
    pub valid_pages: u32,
    /// Flash programs since the block was closed.
    pub age_programs: u64,
    /// Times that the block was erased.
    pub erases: u32,
    /// Kind of its pages.
    pub kind: PageKind,
}

impl Candidates<'_> {
    /// The pool, which is a plane where a block lies in one plane.
    pub fn pool(&self) -> u32 {
        self.pool
    }

    /// Pages of a block that can be valid.
    pub fn block_pages(&self) -> u32 {
        self.blocks.block_pages()
    }

    /// Flash programs since the device was new.
    pub fn now(&self) -> u64 {
        self.now
    }

    /// All of them, in the order of their numbers. O(blocks of the pool).
    pub fn iter(&self) -> impl Iterator<Item = Candidate> + '_ {
        self.blocks.of_pool(self.pool).filter(|&block| self.has(block)).map(|block| Candidate {
            block,
            valid_pages: self.blocks.valid(block),
            age_programs: self.now.saturating_sub(self.blocks.closed_at(block)),
            erases: (self.erases)(block),
            kind: self.blocks.kind(block),
        })
    }

    /// Whether the block is one of them.
    pub fn has(&self, block: BlockId) -> bool {
        let is_of_pool = block.0 < self.blocks.len() && block.0 % self.blocks.pools() == self.pool;
        is_of_pool && self.blocks.is_candidate(block) && self.blocks.valid(block) < self.block_pages()
    }
}

/// A policy that a device and whoever made it share. Clones of a device share it as well.
#[derive(Clone)]
pub struct OwnPolicy(Arc<Mutex<dyn ChooseVictim>>);

impl OwnPolicy {
    /// Takes a policy.
    pub fn new(policy: impl ChooseVictim + 'static) -> Self {
        Self(Arc::new(Mutex::new(policy)))
    }

    /// What records and messages call it.
    pub fn name(&self) -> String {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).name()
    }

    /// What the policy chooses, checked.
    pub(crate) fn choose(&self, candidates: &Candidates<'_>) -> Result<Option<BlockId>> {
        if candidates.iter().next().is_none() {
            return Ok(None);
        }
        let mut policy = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let chosen = policy.choose(candidates).map_err(|why| Error::Policy { name: policy.name(), why })?;
        match chosen {
            Some(block) if !candidates.has(block) => {
                let why = format!(
                    "it chose block {block}, which is none of the blocks that it was given to choose from"
                );
                Err(Error::Policy { name: policy.name(), why })
            }
            chosen => Ok(chosen),
        }
    }
}

impl fmt::Debug for OwnPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "OwnPolicy({})", self.name())
    }
}
