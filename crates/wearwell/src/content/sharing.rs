//! Sharing: several logical pages live from one stored page.
//!
//! A *bind* gives a logical page a place without a program. Deduplication and the host's remap command (Remap-SSD) are
//! two ways to ask for the same step, so both end in `Ftl::bind`: one entry in the reverse map (the commit point),
//! one change of the map, one count up. A bind that cannot be recorded, or that would give a page too many referrers,
//! is *demoted*: the caller writes instead, and nobody but the counters notices.
//!
//! The price: a page may be needed after the logical page in its OOB moved on, so nothing may take the OOB for proof
//! (garbage collection and recovery ask the reverse map), and overwriting frees a page only with its last referrer.
//!
//! Invariants: the count of a page's referrers equals the logical pages mapped to it; a logical page is marked *bound*
//! exactly while its place was given by an entry; the content index names valid pages only.

#![expect(
    clippy::inline_always,
    reason = "measured: a device without sharing should pay one branch, not a call"
)]

use crate::address::{BlockId, Lpn, Ppn, Unit, is_page};
use crate::content::dedup::{ContentIndex, DedupOptions};
use crate::content::{Content, Fingerprint, Seen};
use crate::error::Result;
use crate::ftl::{Ftl, content_of};
use crate::lifetime::SchemeKind;
use crate::mapping::{AnyMapping, Mapping};
use crate::nand::Nand;
use crate::page_set::PageSet;
use crate::refs::{Refs, RefsPart};
use crate::reverse_map::{AnyReverseMap, Command, Entry, EntryForm, Need, ReverseMap, ReverseMapPart};
use crate::store::Store;
use crate::timing::Cause;
use crate::warm::read_all;

/// The parts of sharing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SharingDesign {
    /// Who refers to a page.
    pub reverse_map: ReverseMapPart,
    /// How many refer to it.
    pub refs: RefsPart,
    /// In-line deduplication of host writes; `None` = only the host's remap command binds.
    pub dedup: Option<DedupOptions>,
    /// Whether a remap command of several pages is atomic, which takes entries of 24 bytes (Remap-SSD, section 4.3).
    pub atomic_commands: bool,
}

impl SharingDesign {
    fn entry_form(&self) -> EntryForm {
        if self.atomic_commands { EntryForm::OfCommands } else { EntryForm::Single }
    }
}

/// State of sharing.
#[derive(Clone, Debug)]
pub(crate) struct Sharing {
    pub(crate) refs: Refs,
    pub(crate) reverse: AnyReverseMap,
    /// Logical pages whose place was given by an entry (the paper's LR bitmap); indexed by LPN.
    bound: PageSet,
    pub(crate) index: Option<ContentIndex>,
    /// Whether host writes are looked up now.
    pub(crate) deduplicates: bool,
    pub(crate) design: SharingDesign,
    /// No block in use was opened before this sequence number; may lag behind, which only keeps tombstones longer.
    oldest_evidence: u64,
    /// Entries of the victim in hand; kept for its allocation.
    pub(crate) entries: Vec<Entry>,
    /// Whether they can all be recorded anew.
    pub(crate) recordable: bool,
}

impl Sharing {
    pub(crate) fn new<N: Nand>(store: &Store<N>, logical_pages: u32, design: SharingDesign) -> Result<Self> {
        Ok(Self {
            refs: Refs::new(design.refs, store.geometry().pages()),
            reverse: AnyReverseMap::with_entries(design.reverse_map, design.entry_form(), store)?,
            bound: PageSet::new(logical_pages as u64),
            // Without a reverse map nothing can be bound, so nothing is looked up.
            index: design
                .dedup
                .filter(|_| design.reverse_map != ReverseMapPart::OobOnly)
                .map(|dedup| ContentIndex::new(dedup.capacity_entries, logical_pages)),
            deduplicates: true,
            design,
            oldest_evidence: 0,
            entries: Vec::new(),
            recordable: true,
        })
    }

    /// Whether anything can be bound at all.
    pub(crate) fn binds(&self) -> bool {
        self.design.reverse_map != ReverseMapPart::OobOnly
    }

    #[inline]
    pub(crate) fn is_bound(&self, lpn: Lpn) -> bool {
        self.bound.contains(Ppn(lpn.0))
    }

    /// Reads what giving `lpns` other places than these units, with these contents, will need; see [`crate::warm`].
    pub(crate) fn warm(&self, lpns: &[Lpn], units: &[Unit], contents: &[Fingerprint]) {
        read_all(lpns.iter().map(|&lpn| self.is_bound(lpn).into()));
        read_all(units.iter().map(|&unit| self.refs.extra(unit).into()));
        if let Some(index) = &self.index {
            index.warm(contents.iter().copied());
        }
    }

    pub(crate) fn mark_bound(&mut self, lpn: Lpn) {
        self.bound.insert(Ppn(lpn.0));
    }

    /// Whether one more entry can be recorded; see [`ReverseMap::admit`].
    fn admit<N: Nand>(&mut self, mapping: &AnyMapping, io: &mut Store<N>) -> Result<bool> {
        let Self { reverse, bound, oldest_evidence, .. } = self;
        reverse.admit(io, &|entry| judge(mapping, bound, *oldest_evidence, entry))
    }

    /// Records an entry; see [`ReverseMap::record`].
    pub(crate) fn record<N: Nand>(
        &mut self,
        mapping: &AnyMapping,
        io: &mut Store<N>,
        entry: Entry,
    ) -> Result<()> {
        let Self { reverse, bound, oldest_evidence, .. } = self;
        reverse.record(io, entry, &|entry| judge(mapping, bound, *oldest_evidence, entry))
    }

    /// Whether a command with entries for these places can be recorded; see [`ReverseMap::admit_command`].
    pub(crate) fn admit_command<N: Nand>(
        &mut self,
        mapping: &AnyMapping,
        io: &mut Store<N>,
        places: &[Option<Ppn>],
    ) -> Result<bool> {
        let Self { reverse, bound, oldest_evidence, .. } = self;
        reverse.admit_command(io, places, &|entry| judge(mapping, bound, *oldest_evidence, entry))
    }

    /// Records the entries of a command; see [`ReverseMap::record_command`].
    pub(crate) fn record_command<N: Nand>(
        &mut self,
        io: &mut Store<N>,
        command: Command,
        entries: &[Entry],
    ) -> Result<()> {
        self.reverse.record_command(io, command, entries)
    }

    /// What is still true of an entry.
    pub(crate) fn need(&self, mapping: &AnyMapping, entry: &Entry) -> Need {
        judge(mapping, &self.bound, self.oldest_evidence, entry)
    }

    /// Reads from `block` what the reverse map knows, and drops what is not needed any more.
    pub(crate) fn load_entries<N: Nand>(
        &mut self,
        mapping: &AnyMapping,
        io: &mut Store<N>,
        block: BlockId,
    ) -> Result<()> {
        let mut entries = std::mem::take(&mut self.entries);
        entries.clear();
        self.oldest_evidence = io.blocks_mut().oldest_opened();
        let Self { reverse, bound, oldest_evidence, .. } = self;
        let needed = |entry: &Entry| judge(mapping, bound, *oldest_evidence, entry);
        self.recordable = reverse.make_room_for(io, block, &needed)?;
        let before = io.stats.work.nvram_read_bytes;
        reverse.entries_of(io, block, &mut entries)?;
        let scanned = io.stats.work.nvram_read_bytes - before;
        io.stats.referrer_scan_bytes += scanned;
        io.stats.largest_referrer_scan_bytes = io.stats.largest_referrer_scan_bytes.max(scanned);
        // Of several entries for one logical page and place only the newest binds; an older one may still bury its
        // source.
        entries.sort_by_key(|entry| (entry.place.map(|ppn| ppn.0), entry.lpn.0, u64::MAX - entry.sequence));
        let mut newest = None;
        let rests = entries.iter().filter_map(|&entry| {
            let need = self.need(mapping, &entry);
            let is_newest = newest.replace((entry.place, entry.lpn)) != Some((entry.place, entry.lpn));
            Need { bind: need.bind && is_newest, ..need }.rest_of(entry)
        });
        // What is left: entries with a place are current binds, entries without are tombstones to be carried on.
        let mut rests: Vec<Entry> = rests.collect();
        rests.sort_by_key(|entry| (entry.place.map(|ppn| ppn.0), entry.lpn.0));
        entries.clear();
        entries.extend(rests);
        self.entries = entries;
        Ok(())
    }

    /// A logical page that refers to `ppn` of the block whose entries are loaded: its OOB owner if all other referrers
    /// have entries, else one of those.
    pub(crate) fn representative(&self, ppn: Ppn, spare_owner: Lpn) -> Lpn {
        let from = self.entries.partition_point(|entry| entry.place.is_none_or(|place| place < ppn));
        let binders = self.entries[from..].iter().take_while(|entry| entry.place == Some(ppn));
        let mut binders = binders.peekable();
        match binders.peek().map(|entry| entry.lpn) {
            Some(binder) if binders.count() as u32 > self.refs.extra(ppn.into()) => binder,
            _ => spare_owner,
        }
    }

    /// The place of `lpn` is `place` no longer, or not by the old entry.
    pub(crate) fn unbind<N: Nand>(&mut self, io: &mut Store<N>, lpn: Lpn, place: Unit) {
        if self.bound.remove(Ppn(lpn.0)) {
            self.reverse.supersede(io, lpn, Ppn(place.0));
        }
    }

    pub(crate) fn forget(&mut self) {
        self.refs.clear();
        self.bound = self.bound.emptied();
        self.oldest_evidence = 0;
        if let Some(index) = &mut self.index {
            index.clear();
        }
    }

    /// The reverse map was in RAM and is lost.
    pub(crate) fn forget_binders<N: Nand>(&mut self, store: &Store<N>) -> Result<()> {
        self.reverse = AnyReverseMap::with_entries(self.design.reverse_map, self.design.entry_form(), store)?;
        Ok(())
    }

    /// Recovery found `lpn` at `unit`, which `writer` wrote; `is_first` if it met no other referrer yet. `false` if the
    /// design could not have done that.
    pub(crate) fn adopt<N: Nand>(
        &mut self,
        mapping: &AnyMapping,
        store: &mut Store<N>,
        lpn: Lpn,
        unit: Unit,
        writer: Lpn,
        is_first: bool,
    ) -> Result<bool> {
        if !is_first {
            if !self.binds() || !self.refs.has_room(unit) {
                return Ok(false);
            }
            self.refs.up(unit);
        }
        if lpn == writer {
            return Ok(true);
        }
        if !self.binds() {
            return Ok(false);
        }
        let sequence = store.next_sequence();
        let entry = Entry { lpn, place: Some(Ppn(unit.0)), source: None, sequence };
        self.record(mapping, store, entry)?;
        self.mark_bound(lpn);
        Ok(true)
    }

    pub(crate) fn ram_bytes(&self) -> Vec<(&'static str, u64)> {
        let mut parts = self.reverse.ram_bytes();
        parts.push(("reference counts", self.refs.ram_bytes()));
        parts.push(("bitmap of bound pages", self.bound.bytes()));
        parts.extend(self.index.as_ref().map(|index| ("content index", index.ram_bytes())));
        parts
    }
}

/// Which meanings of an entry are still true. Only flat maps are asked: a look-up must not touch the flash. Beside a map on
/// flash there is the ideal reverse map, which holds current binds and nothing else.
fn judge(mapping: &AnyMapping, bound: &PageSet, oldest_evidence: u64, entry: &Entry) -> Need {
    let AnyMapping::Flat(map) = mapping else { return Need { bind: true, tombstone: false } };
    let bind = entry.place.is_some_and(|place| {
        bound.contains(Ppn(entry.lpn.0)) && map.get(entry.lpn) == Some(Unit::from(place))
    });
    let tombstone = entry.sequence > oldest_evidence && entry.buried().any(|lpn| map.get(lpn).is_none());
    Need { bind, tombstone }
}

impl<N: Nand> Ftl<N> {
    /// A stored unit with this content. With `verify_on_hit` its bytes are read and compared, and the read is charged.
    #[inline(always)]
    pub(crate) fn find_stored(
        &mut self,
        fingerprint: Fingerprint,
        content: &Content<'_>,
    ) -> Result<Option<Unit>> {
        if self.sharing.is_some() { self.look_up(fingerprint, content) } else { Ok(None) }
    }

    #[inline(never)]
    fn look_up(&mut self, fingerprint: Fingerprint, content: &Content<'_>) -> Result<Option<Unit>> {
        let is_hashed = self.is_hashed(fingerprint);
        let Self { sharing, store, chunks, .. } = self;
        let Some(sharing) = sharing else { return Ok(None) };
        let Some(index) = &mut sharing.index else { return Ok(None) };
        if !is_hashed {
            return Ok(None);
        }
        let is_on = sharing.deduplicates;
        let found = index.find(fingerprint, |unit| content_of(store, chunks.as_deref(), unit));
        self.note_seen(SchemeKind::Dedup, if found.is_some() { Seen::Served } else { Seen::Passed });
        let Some(unit) = found.filter(|_| is_on) else { return Ok(None) };
        if self.is_unit_lost(unit) {
            return Ok(None);
        }
        let verify = self.verifies_hits();
        if verify && !self.holds(unit, content)? {
            return Ok(None);
        }
        Ok(Some(unit))
    }

    /// Serves a write of `lpn` with a stored unit of equal content; `false` if it has to be programmed.
    pub(crate) fn deduplicate(&mut self, lpn: Lpn, unit: Unit) -> Result<bool> {
        if !self.bind(lpn, unit, None)? {
            return Ok(false);
        }
        self.store.stats.host_page_writes += 1;
        self.store.stats.deduplicated_writes += 1;
        Ok(true)
    }

    /// Maps `lpn` to `unit` without a program, and takes it from `source` in the same step if there is one. `false` if
    /// the bind cannot be recorded: the caller has to write. Room for metadata has been made.
    ///
    /// # Errors
    /// Power loss.
    pub(crate) fn bind(&mut self, lpn: Lpn, unit: Unit, source: Option<Lpn>) -> Result<bool> {
        if self.delta.as_ref().is_some_and(|stage| stage.keeps_from_bind(lpn)) {
            return Ok(false);
        }
        let Self { sharing, mapping, store, .. } = self;
        let Some(sharing) = sharing.as_mut().filter(|sharing| sharing.binds()) else { return Ok(false) };
        if mapping.on_flash().is_some() {
            // Fetched now, the entry changes without a flash operation: all of the bind happens, or nothing.
            mapping.lookup(store, lpn)?;
        }
        if source.is_none() && mapping.in_ram(lpn) == Some(unit) {
            // The whole content is that of the page: a difference to it that was current is not any more.
            self.drop_delta(lpn);
            return Ok(true);
        }
        if !sharing.refs.has_room(unit) {
            store.stats.demoted_saturated += 1;
            return Ok(false);
        }
        if !sharing.admit(mapping, store)? {
            store.stats.demoted_full += 1;
            return Ok(false);
        }
        let sequence = store.next_sequence();
        let entry = Entry { lpn, place: Some(Ppn(unit.0)), source, sequence };
        sharing.record(mapping, store, entry)?;
        // A dead page has its first referrer now.
        if !self.revive_for_bind(unit) {
            self.sharing.as_mut().expect("sharing binds").refs.up(unit);
        }
        let old = self.change_map(lpn, Some(unit))?;
        self.release(lpn, old);
        self.sharing.as_mut().expect("sharing binds").mark_bound(lpn);
        if let Some(source) = source {
            let moved = self.change_map(source, None)?;
            self.release(source, moved);
        }
        Ok(true)
    }

    /// Makes the trim of a range durable: one tombstone for all of it. `false` if there is no place for one. Nothing is
    /// needed where RAM survives, or for pages that have no place.
    pub(crate) fn bury(&mut self, first: Lpn, last: Lpn) -> Result<bool> {
        let Self { sharing, mapping, store, persistence, .. } = self;
        let (Some(sharing), true) = (sharing, persistence.replays_entries()) else { return Ok(true) };
        if (first.0..=last.0).all(|lpn| mapping.in_ram(Lpn(lpn)).is_none()) {
            return Ok(true);
        }
        if !sharing.admit(mapping, store)? {
            store.stats.demoted_full += 1;
            return Ok(false);
        }
        let sequence = store.next_sequence();
        let source = (last != first).then_some(last);
        sharing.record(mapping, store, Entry { lpn: first, place: None, source, sequence })?;
        Ok(true)
    }

    /// `lpn` gave up `unit`; `true` if others still refer to it.
    #[inline]
    pub(crate) fn is_still_shared(&mut self, lpn: Lpn, unit: Unit) -> bool {
        let fingerprint = self.fingerprint_of_unit(unit);
        let Self { sharing, store, chunks, .. } = self;
        let Some(sharing) = sharing else { return false };
        sharing.unbind(store, lpn, unit);
        if sharing.refs.down(unit) {
            return true;
        }
        if let Some(index) = &mut sharing.index {
            index.remove(fingerprint, unit, |unit| content_of(store, chunks.as_deref(), unit));
        }
        false
    }

    fn verifies_hits(&self) -> bool {
        let design = self.sharing.as_ref().and_then(|sharing| sharing.design.dedup);
        design.is_some_and(|dedup| dedup.verify_on_hit)
    }

    /// Whether a unit is known to be unreadable: nobody may be bound to it any more.
    fn is_unit_lost(&self, unit: Unit) -> bool {
        match &self.chunks {
            Some(stage) if !is_page(unit, self.store.geometry().pages()) => {
                stage.pages_of(unit).iter().any(|&ppn| self.store.is_unreadable(ppn))
            }
            _ => self.store.is_unreadable(Ppn(unit.0)),
        }
    }

    /// Whether a stored unit holds exactly this content; one charged read. What cannot be read does not.
    pub(crate) fn holds(&mut self, unit: Unit, content: &Content<'_>) -> Result<bool> {
        let mut stored = self.blank_page();
        let read = self.read_unit(unit, &mut stored, Cause::Content);
        let equal = match content {
            Content::Bytes(bytes) => stored.is_empty() || *bytes == stored.as_slice(),
            Content::Descriptor(_) => true,
        };
        match read {
            Err(error) if error.is_media_error() => Ok(false),
            read => read.map(|()| equal),
        }
    }
}
