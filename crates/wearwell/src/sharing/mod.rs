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

pub mod counts;
pub mod reverse_map;

use crate::address::{BlockId, Lpn, Ppn, Unit};
use crate::content::dedup::{ContentIndex, DedupOptions};
use crate::data::Fingerprint;
use crate::error::Result;
use crate::mapping::AnyMapping;
use crate::nand::Nand;
use crate::sharing::counts::{Refs, RefsPart};
use crate::sharing::reverse_map::{
    AnyReverseMap, Command, Entry, EntryForm, EntryLiveness, ReverseMap, ReverseMapPart,
};
use crate::store::Store;
use crate::tables::PageSet;
use crate::tables::prefetch::touch_all;

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

    /// Reads what giving `lpns` other places than these units, with these contents, will need; see [`crate::tables::prefetch`].
    pub(crate) fn prefetch(&self, lpns: &[Lpn], units: &[Unit], contents: &[Fingerprint]) {
        touch_all(lpns.iter().map(|&lpn| self.is_bound(lpn).into()));
        touch_all(units.iter().map(|&unit| self.refs.extra(unit).into()));
        if let Some(index) = &self.index {
            index.prefetch(contents.iter().copied());
        }
    }

    pub(crate) fn mark_bound(&mut self, lpn: Lpn) {
        self.bound.insert(Ppn(lpn.0));
    }

    /// Whether one more entry can be recorded; see [`ReverseMap::admit`].
    pub(crate) fn admit<N: Nand>(&mut self, mapping: &AnyMapping, io: &mut Store<N>) -> Result<bool> {
        let Self { reverse, bound, oldest_evidence, .. } = self;
        reverse.admit(io, &|entry| entry_liveness(mapping, bound, *oldest_evidence, entry))
    }

    /// Records an entry; see [`ReverseMap::record`].
    pub(crate) fn record<N: Nand>(
        &mut self,
        mapping: &AnyMapping,
        io: &mut Store<N>,
        entry: Entry,
    ) -> Result<()> {
        let Self { reverse, bound, oldest_evidence, .. } = self;
        reverse.record(io, entry, &|entry| entry_liveness(mapping, bound, *oldest_evidence, entry))
    }

    /// Whether a command with entries for these places can be recorded; see [`ReverseMap::admit_command`].
    pub(crate) fn admit_command<N: Nand>(
        &mut self,
        mapping: &AnyMapping,
        io: &mut Store<N>,
        places: &[Option<Ppn>],
    ) -> Result<bool> {
        let Self { reverse, bound, oldest_evidence, .. } = self;
        reverse.admit_command(io, places, &|entry| entry_liveness(mapping, bound, *oldest_evidence, entry))
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
    pub(crate) fn need(&self, mapping: &AnyMapping, entry: &Entry) -> EntryLiveness {
        entry_liveness(mapping, &self.bound, self.oldest_evidence, entry)
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
        let needed = |entry: &Entry| entry_liveness(mapping, bound, *oldest_evidence, entry);
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
            EntryLiveness { bind: need.bind && is_newest, ..need }.rest_of(entry)
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
pub(crate) fn entry_liveness(
    mapping: &AnyMapping,
    bound: &PageSet,
    oldest_evidence: u64,
    entry: &Entry,
) -> EntryLiveness {
    let AnyMapping::Flat(map) = mapping else { return EntryLiveness { bind: true, tombstone: false } };
    let bind = entry.place.is_some_and(|place| {
        bound.contains(Ppn(entry.lpn.0)) && map.get(entry.lpn) == Some(Unit::from(place))
    });
    let tombstone =
        entry.sequence > oldest_evidence && entry.tombstoned_lpns().any(|lpn| map.get(lpn).is_none());
    EntryLiveness { bind, tombstone }
}
