//! Recycling in the engine: looks up dead (invalid) pages before a write, revives them, and reports page events to
//! [`Recycler`].

#![expect(
    clippy::inline_always,
    reason = "measured: a device without recycling should pay one branch, not a call"
)]

use super::Recycler;
use crate::address::{BlockId, Lpn, Ppn, StoredUnit, is_flash_page};
use crate::content::{ContentMechanism, HostWrite, MechanismKind, MechanismOutcome};
use crate::data::{Content, Fingerprint};
use crate::design::{ContentParts, RecyclingPart};
use crate::error::{Error, Result};
use crate::ftl::Ftl;
use crate::lifetime::EnergyModel;
use crate::mapping::{AnyMapping, Mapping};
use crate::nand::Nand;
use crate::operation::Cause;
use crate::store::FlashPageStore;

/// State of recycling (reviving dead pages whose content is written again) in the engine: the recycler, its options,
/// and whether recycling is on.
#[derive(Clone, Debug)]
pub(crate) struct RecycleState {
    /// State and tables of recycling: history, read counts and fingerprint store of dead pages.
    pub(crate) recycler: Recycler,
    /// Whether recycling is switched on, so that host writes may revive dead (invalid) pages.
    pub(crate) is_on: bool,
    /// Options of recycling that the design sets.
    options: RecyclingPart,
    /// Buffer for the dead pages of neighbouring logical pages, which fast loading inserts after a hit; kept so that it
    /// need not be allocated anew.
    neighbour_dead_page_buffer: Vec<Ppn>,
}

/// Recycling: a write revives a dead page of equal content.
pub(crate) struct Recycling;

impl ContentMechanism for Recycling {
    const KIND: MechanismKind = MechanismKind::Recycle;
    const NAME: &'static str = "recycle";
    const SUMMARY: &'static str =
        "A dead page becomes valid again if its content is written again (recyclable-SSD paper).";
    const NEEDS_HASH: bool = true;
    const IS_STATELESS: bool = false;

    fn energy_per_page_in_program_energies(energy: &EnergyModel) -> f64 {
        energy.dedup_energy_in_program_energies()
    }

    fn is_part_of(parts: &ContentParts) -> bool {
        parts.recycle.is_some()
    }

    fn is_on(ftl: &Ftl) -> bool {
        ftl.recycle.as_ref().is_some_and(|stage| stage.is_on)
    }

    fn set_enabled(ftl: &mut Ftl, is_on: bool) {
        if let Some(stage) = &mut ftl.recycle {
            stage.is_on = is_on;
        }
    }

    /// Revives a dead page of equal content for a host write, if there is one. Returns whether the write is complete.
    #[inline(always)]
    fn offer_write(ftl: &mut Ftl, write: &HostWrite<'_>) -> Result<bool> {
        match ftl.find_dead_page(write.fingerprint, &write.content)? {
            Some(dead) => ftl.recycle_page(write.lpn, dead),
            None => Ok(false),
        }
    }
}

impl RecycleState {
    /// Creates the recycling state of a device. `is_only_content_mechanism` is `true` if the device has no other
    /// content mechanism.
    pub(crate) fn new(
        store: &FlashPageStore,
        logical_pages: u32,
        design: &RecyclingPart,
        is_only_content_mechanism: bool,
    ) -> Result<Self> {
        let options = design
            .options
            .clone()
            .require_paper_ranges()
            .map_err(|error| Error::InvalidOptions(error.to_string()))?;
        let part = Recycler::new(store.geometry().pages(), logical_pages, &options);
        let part = if is_only_content_mechanism { part } else { part.with_list_heads_by_lpn() };
        Ok(Self {
            recycler: part,
            is_on: true,
            options: design.clone(),
            neighbour_dead_page_buffer: Vec::new(),
        })
    }
}

/// Returns the physical page to which `lpn` is mapped, if map entries in RAM show it; otherwise `None`. If `lpn` is
/// stored in a compressed chunk, the returned number is that of the chunk member and not of a physical page. Callers
/// may then only test whether it is `None`.
#[inline]
fn ppn_known_in_ram(mapping: &AnyMapping, lpn: Lpn) -> Option<Ppn> {
    mapping.lookup_in_ram(lpn).map(|unit| Ppn(unit.0))
}

/// Returns whether the physical page `ppn` was programmed too long ago to be revived. The age of a page is counted in
/// flash programs since its block was opened, because a controller can store this per block. It includes the programs
/// between the opening of the block and the program of the page.
fn exceeds_revival_age_limit(design: &RecyclingPart, store: &FlashPageStore, ppn: Ppn) -> bool {
    design.options.max_revival_age_programs.is_some_and(|limit| {
        let opened_at = store.blocks().opened_at_sequence(store.block_of(ppn));
        store.last_sequence() - opened_at > limit
    })
}

impl RecycleState {
    /// Returns the probability that dead page `ppn` is recycled (revived by a write of equal content); 0 while
    /// recycling is off.
    pub(crate) fn recycle_probability(&self, ppn: Ppn) -> f64 {
        if self.is_on { self.recycler.recycle_probability(ppn) } else { 0.0 }
    }

    /// Returns whether the dead page `ppn` is older than the design's limit (`max_revival_age_programs`), so that it
    /// must not be revived.
    pub(crate) fn is_too_old_to_revive(&self, store: &FlashPageStore, ppn: Ppn) -> bool {
        exceeds_revival_age_limit(&self.options, store, ppn)
    }
}

impl Ftl {
    /// Returns the state of recycling of a design that revives dead pages.
    #[inline]
    fn recycle_state(&self) -> &RecycleState {
        self.recycle.as_deref().expect("the design recycles")
    }

    /// Returns the state of recycling of a design that revives dead pages, for changes.
    #[inline]
    fn recycle_state_mut(&mut self) -> &mut RecycleState {
        self.recycle.as_deref_mut().expect("the design recycles")
    }

    /// Offers the physical page `dead`, just invalidated for `lpn`, to the fingerprint store (index of dead pages by
    /// content). If the design limits the age of pages, also checks one entry of the store and removes it if it is too
    /// old.
    pub(crate) fn offer_dead_page(&mut self, lpn: Lpn, dead: Ppn) {
        let Self { recycle, sharing, store, mapping, .. } = self;
        let Some(stage) = recycle else { return };
        if sharing.is_some() {
            stage.recycler.record_last_owner(dead, lpn, store.owner_in_oob(dead));
        }
        let successor = ppn_known_in_ram(mapping, lpn);
        if stage.options.options.max_revival_age_programs.is_some() {
            let RecycleState { recycler: part, options, .. } = &mut **stage;
            part.expire_next_entry_if_aged(|ppn| exceeds_revival_age_limit(options, store, ppn));
            if exceeds_revival_age_limit(options, store, dead) {
                part.record_unrevivable_page(lpn, dead, successor);
                return part.remove_queued_pages_from_history(|ppn| store.owner_in_oob(ppn));
            }
        }
        let fingerprint = store.nand().fingerprint(dead);
        stage.recycler.record_page_invalidated(lpn, dead, successor, fingerprint);
        stage.recycler.remove_queued_pages_from_history(|ppn| store.owner_in_oob(ppn));
    }

    /// Finds a dead (invalid) page with this content in the fingerprint store. With `must_verify_hits`, reads the page
    /// that was found from flash and compares its bytes.
    #[inline(always)]
    fn find_dead_page(&mut self, fingerprint: Fingerprint, content: &Content<'_>) -> Result<Option<Ppn>> {
        if self.recycle.is_some() {
            self.look_up_in_fingerprint_store(fingerprint, content)
        } else {
            Ok(None)
        }
    }

    /// Looks up a content in the fingerprint store (index of dead pages), and counts the look-up as an outcome of
    /// recycling. Removes an entry that is too old to be revived. Returns `None` if no dead page is found, or while
    /// recycling is off.
    #[inline(never)]
    fn look_up_in_fingerprint_store(
        &mut self,
        fingerprint: Fingerprint,
        content: &Content<'_>,
    ) -> Result<Option<Ppn>> {
        let is_hashed = self.must_hash_content(fingerprint);
        let Some(stage) = &mut self.recycle else { return Ok(None) };
        if !is_hashed {
            return Ok(None);
        }
        let is_on = stage.is_on;
        let found = if is_on {
            stage.recycler.find_dead_page(fingerprint)
        } else {
            stage.recycler.peek_dead_page(fingerprint)
        };
        let fresh = found.filter(|&dead| !exceeds_revival_age_limit(&stage.options, &self.store, dead));
        if let Some(aged) = found.filter(|_| is_on && fresh.is_none()) {
            stage.recycler.remove_found_entry_of_expired_page(aged);
            stage.recycler.remove_queued_pages_from_history(|ppn| self.store.owner_in_oob(ppn));
        }
        self.count_mechanism_outcome(
            MechanismKind::Recycle,
            if fresh.is_some() { MechanismOutcome::Served } else { MechanismOutcome::TriedWithoutSuccess },
        );
        let Some(dead) = fresh.filter(|_| is_on) else { return Ok(None) };
        let stage = self.recycle_state();
        if self.store.is_unreadable(dead) {
            return Ok(None);
        }
        if stage.options.must_verify_hits && !self.read_and_compare_content(dead.into(), content)? {
            return Ok(None);
        }
        Ok(Some(dead))
    }

    /// Serves a write of `lpn` by mapping it to `dead`, a dead page of equal content: one map update, no program.
    /// Returns `false` if the page must be programmed instead. That is so if the reverse map of a design with shared
    /// pages cannot record the mapping, or if a delta on flash forbids it.
    fn recycle_page(&mut self, lpn: Lpn, dead: Ppn) -> Result<bool> {
        let stage = self.recycle_state();
        let former = stage.recycler.owner(dead, self.store.owner_in_oob(dead));
        if self.sharing.is_some() {
            if !self.bind(lpn, dead.into(), None)? {
                return Ok(false);
            }
        } else if self.delta.as_ref().is_some_and(|stage| stage.forbids_mapping_without_program(lpn)) {
            return Ok(false);
        } else {
            // The map may have to read and write translation pages; if that fails, nothing has changed yet.
            let has_delta = self.write_change_note_if_lpn_has_delta(lpn)?;
            let entry = self.store.map_entry_if_mapped_without_program(dead.into());
            let old = self.mapping.update(&mut self.store, lpn, Some(entry))?;
            let stage = self.recycle_state_mut();
            stage.recycler.revive_page(dead, former, lpn);
            self.mark_dead_page_valid(dead);
            self.release_reference(lpn, old);
            if has_delta {
                self.apply_deferred_content_record_changes()?;
            }
        }
        self.drop_page_from_chunk_buffer(lpn);
        self.store.stats.host_page_writes += 1;
        self.store.stats.recycled_writes += 1;
        self.load_neighbouring_dead_pages(former)?;
        Ok(true)
    }

    /// Revives the dead page `unit`, to which a logical page is about to be bound (mapped without a program): removes
    /// it from the history of dead pages and from the fingerprint store, and makes it valid. Returns `false` if `unit`
    /// is not a dead page.
    pub(crate) fn revive_if_dead_page(&mut self, unit: StoredUnit) -> bool {
        let Some(stage) = &mut self.recycle else { return false };
        let ppn = Ppn(unit.0);
        if !is_flash_page(unit, self.store.geometry().pages()) || !stage.recycler.is_dead(ppn) {
            return false;
        }
        let former = stage.recycler.owner(ppn, self.store.owner_in_oob(ppn));
        stage.recycler.revive_page_without_owner(ppn, former);
        self.mark_dead_page_valid(ppn);
        self.index_fingerprint_or_mark_unhashed(self.store.nand().fingerprint(ppn), unit);
        true
    }

    /// Marks the revived page `dead` as valid in the page-validity store and in the block table.
    fn mark_dead_page_valid(&mut self, dead: Ppn) {
        self.validity.revive(dead);
        self.store.revive_page(dead);
    }

    /// Executes fast loading after a recycled write: inserts the newest dead pages of logical pages near `owner` into
    /// the fingerprint store, at one spare-area read each. With a map on flash, only logical pages whose map entries
    /// are cached are considered.
    fn load_neighbouring_dead_pages(&mut self, owner: Lpn) -> Result<()> {
        let Some(stage) = &mut self.recycle else { return Ok(()) };
        let mut neighbours = std::mem::take(&mut stage.neighbour_dead_page_buffer);
        stage.recycler.promote_or_append_dead_pages_of_neighbours(
            owner,
            |lpn| ppn_known_in_ram(&self.mapping, lpn),
            &mut neighbours,
        );
        neighbours.retain(|&ppn| !exceeds_revival_age_limit(&stage.options, &self.store, ppn));
        for ppn in neighbours.drain(..) {
            let oob = self.store.read_spare(ppn, Cause::ContentMechanism)?;
            stage.recycler.offer_neighbour_page_to_fingerprint_store(ppn, oob.fingerprint);
            stage.recycler.remove_queued_pages_from_history(|ppn| self.store.owner_in_oob(ppn));
        }
        stage.neighbour_dead_page_buffer = neighbours;
        Ok(())
    }

    /// Removes the dead pages of `block` from the history of dead pages and from the fingerprint store, before the
    /// block is reused.
    pub(crate) fn remove_dead_pages_of_block(&mut self, block: BlockId) {
        let Some(stage) = &mut self.recycle else { return };
        let (first, pages) = (self.store.geometry().first_page(block), self.store.geometry().block_pages());
        stage.recycler.record_block_erased(first, pages, |ppn| self.store.owner_in_oob(ppn));
    }
}
