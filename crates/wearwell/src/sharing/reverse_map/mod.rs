//! Who refers to a page, once pages can be mapped without being programmed?
//!
//! The OOB of a page names the logical page it was written for. A *bind* (deduplication, remap) maps another logical
//! page to it, and the OOB cannot be changed. So each bind leaves an [`Entry`], and garbage collection, which has to
//! tell every referrer of a page that it moved, asks here. Where the entry is non-volatile it is also the commit point
//! of the bind: recovery finds it. The five answers of the Remap-SSD paper are five implementations:
//!
//! | part | entries live | a victim's referrers cost | entries are limited by |
//! |---|---|---|---|
//! | [`Segments`] | in NVRAM, grouped by block | the block's own group | NVRAM |
//! | [`NvramLog`] | in NVRAM, one log | the whole log | NVRAM |
//! | [`FlashLog`] | on flash, one log, its last page in NVRAM | the whole log | the log's pages |
//! | [`Ideal`] | in battery-backed RAM, by page | nothing | nothing |
//! | [`AnyReverseMap::OobOnly`] | nowhere: no bind is possible | nothing | - |
//!
//! # Entries and evidence
//!
//! After a power loss the place of a logical page is what its newest *evidence* says: a page whose OOB names it, or an
//! entry. Every program and every entry takes the next number of one sequence, so "newest" is one comparison.
//!
//! - An entry that binds counts only if the page it names was programmed before it and is still there (else the block
//!   was erased and reused since; the entry was not needed any more).
//! - A *tombstone* says that a logical page has no place: a trim, or the source of a relocation. It is needed as long
//!   as older evidence may exist: while a block is in use that was opened before it. Copies made by GC name a current
//!   referrer, so newer blocks hold no older evidence.
//! - A relocation is one entry with two meanings (binds the target, buries the source), which makes it atomic. When the
//!   target moves on, the second meaning stays: such an entry must not be dropped, or recovery revives the source.
//!
//! # Atomic commands
//!
//! A remap command of several pages can be atomic (paper, section 4.3): its entries are recorded together and carry a
//! third word with the first target and the length of the command ([`Command`]), 24 bytes in all. Entry `k` takes the
//! `k`th of consecutive sequence numbers, so the number of the first entry identifies the command. Recovery discards a
//! command of which an entry is missing, and zeroes its entries before anything else is recorded.
//!
//! Compaction, collection and erases drop entries one by one, and would make a complete command look torn. So before a
//! part drops its first entry after a command, it stores the current sequence number in a word of NVRAM: the *vouched*
//! number, up to which every command is complete. What is recorded anew is recorded as a single entry.
//!
//! The engine decides which entries are still *needed*, because only it sees the mapping; parts call back when they
//! compact. The price of parts without exact removal: superseded entries occupy space until then.

mod flash_log;
mod ideal;
mod nvram_log;
mod segments;

pub use flash_log::FlashLog;
use hashbrown::{HashMap, HashSet};
pub use ideal::Ideal;
pub use nvram_log::NvramLog;
use rustc_hash::FxBuildHasher;
pub use segments::{SEGMENT_BYTES, Segments};

use crate::address::{BlockId, Lpn, Ppn};
use crate::error::{Error, Result};
use crate::nand::Nand;
use crate::store::Store;

/// One mapping made without a program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Entry {
    /// The logical page that got a new place.
    pub lpn: Lpn,
    /// The page it is bound to; `None` = a tombstone: the logical page has no place.
    pub place: Option<Ppn>,
    /// Of a bind: the logical page that lost its place to `lpn` in the same step (relocation). Of a tombstone: the last
    /// logical page of the range that it buries, if it buries more than `lpn`.
    pub source: Option<Lpn>,
    /// Position in the device's sequence of programs and entries.
    pub sequence: u64,
}

/// Bytes of an entry in NVRAM or on flash (paper, table 2).
pub const ENTRY_BYTES: u64 = 16;

/// Bytes of an entry that also names the remap command it belongs to (paper, section 4.3).
pub const COMMAND_ENTRY_BYTES: u64 = 24;

/// Above this share of all entries, in percent, the host must write instead of bind (paper, section 4.4).
const WATERMARK_PERCENT: u64 = 95;

const TORN_BIT: u64 = 1;
const OFFSET_BITS: u32 = 21;
const SEQUENCE_BITS: u32 = 42;
const LPN_BITS: u32 = 31;
/// An offset of all ones marks a tombstone.
const NO_OFFSET: u64 = (1 << OFFSET_BITS) - 1;
/// An LPN of all ones is none.
const NO_LPN: u64 = (1 << LPN_BITS) - 1;

/// The largest sequence number that an entry can hold: 2^42 - 1 operations, 51 days at a million per second.
pub const MAX_SEQUENCE: u64 = (1 << SEQUENCE_BITS) - 1;

impl Entry {
    /// The logical pages that have no place since this entry.
    pub fn tombstoned_lpns(&self) -> impl Iterator<Item = Lpn> + use<> {
        let range = match (self.place, self.source) {
            (Some(_), None) => 0..0,
            (Some(_), Some(source)) => source.0..source.0 + 1,
            (None, last) => self.lpn.0..last.unwrap_or(self.lpn).0 + 1,
        };
        range.map(Lpn)
    }

    /// The two 8-byte words of the paper's layout, relative to the block the entry belongs to: torn bit, page offset
    /// (21), sequence (42); torn bit, target LPN (31), remap flag, source LPN (31). `first` is the block's first page.
    pub fn encode(&self, first: Ppn) -> [u64; 2] {
        assert!(self.sequence <= MAX_SEQUENCE, "sequence {} does not fit 42 bits", self.sequence);
        let fits = |lpn: Lpn| (lpn.0 as u64) < NO_LPN;
        assert!(
            fits(self.lpn) && self.source.is_none_or(fits),
            "{self:?} has a page number that does not fit 31 bits"
        );
        let offset = self.place.map_or(NO_OFFSET, |place| (place.0 - first.0) as u64);
        let source = self.source.map_or(NO_LPN, |lpn| lpn.0 as u64);
        let flag = u64::from(self.source.is_some());
        [
            TORN_BIT | offset << 1 | self.sequence << (1 + OFFSET_BITS),
            TORN_BIT | (self.lpn.0 as u64) << 1 | flag << (1 + LPN_BITS) | source << (2 + LPN_BITS),
        ]
    }

    /// The entry in two words, or `None` if a torn bit is missing: the slot is empty or its store was cut short.
    pub fn decode(words: [u64; 2], first: Ppn) -> Option<Self> {
        if words[0] & words[1] & TORN_BIT == 0 {
            return None;
        }
        let offset = words[0] >> 1 & NO_OFFSET;
        let source = words[1] >> (2 + LPN_BITS) & NO_LPN;
        Some(Self {
            lpn: Lpn((words[1] >> 1 & NO_LPN) as u32),
            place: (offset != NO_OFFSET).then(|| Ppn(first.0 + offset as u32)),
            source: (source != NO_LPN).then_some(Lpn(source as u32)),
            sequence: words[0] >> (1 + OFFSET_BITS),
        })
    }
}

/// A remap command whose entries count together or not at all, as the third word of each of them says (paper, section
/// 4.3): torn bit, first target (31), pages (31), flag.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Command {
    /// First logical page that gets a new place.
    pub start: Lpn,
    /// Logical pages; the command has one entry for each.
    pub pages: u32,
}

const COMMAND_FLAG: u64 = 1 << 63;

impl Command {
    /// The third word of an entry; `None` is an entry of its own.
    pub fn encode(command: Option<Self>) -> u64 {
        let Some(Self { start, pages }) = command else { return TORN_BIT };
        assert!((start.0 as u64) < NO_LPN && (pages as u64) < NO_LPN, "{command:?} does not fit 31 bits");
        TORN_BIT | (start.0 as u64) << 1 | (pages as u64) << (1 + LPN_BITS) | COMMAND_FLAG
    }

    /// What the third word of an intact entry says.
    pub fn decode(word: u64) -> Option<Self> {
        let field = |shift: u32| (word >> shift & NO_LPN) as u32;
        (word & COMMAND_FLAG != 0).then(|| Self { start: Lpn(field(1)), pages: field(1 + LPN_BITS) })
    }

    /// Sequence number of the first entry of the command that `entry` belongs to: it identifies the command.
    fn number(self, entry: &Entry) -> u64 {
        entry.sequence - (entry.lpn.0 - self.start.0) as u64
    }
}

/// How entries lie in NVRAM and on flash.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum EntryForm {
    /// Two words of 8 bytes.
    #[default]
    Single,
    /// A third word names the command.
    OfCommands,
}

impl EntryForm {
    /// Bytes of an entry.
    pub fn bytes(self) -> u64 {
        match self {
            Self::Single => ENTRY_BYTES,
            Self::OfCommands => COMMAND_ENTRY_BYTES,
        }
    }

    fn words(self) -> usize {
        self.bytes() as usize / 8
    }

    /// Bytes of NVRAM beside the entries: the word with the vouched number.
    fn extra_bytes(self) -> u64 {
        match self {
            Self::Single => 0,
            Self::OfCommands => 8,
        }
    }

    /// Stores an entry of which two words are `encoded`.
    fn store<N: Nand>(
        self,
        io: &mut Store<N>,
        at: usize,
        encoded: [u64; 2],
        command: Option<Command>,
    ) -> Result<()> {
        io.store_word(at, encoded[0])?;
        io.store_word(at + 1, encoded[1])?;
        if self == Self::OfCommands { io.store_word(at + 2, Command::encode(command)) } else { Ok(()) }
    }

    /// The two words of an entry and its command, or `None` if a torn bit is missing in one of `words`.
    fn decode(self, words: &[u64]) -> Option<([u64; 2], Option<Command>)> {
        let words = &words[..self.words()];
        let is_intact = words.iter().all(|word| word & TORN_BIT != 0);
        is_intact.then(|| ([words[0], words[1]], words.get(2).and_then(|&word| Command::decode(word))))
    }

    /// Zeroes an entry, its last word first: whatever is left of it is never taken for one.
    fn zero<N: Nand>(self, io: &mut Store<N>, at: usize) -> Result<()> {
        for at in (at..at + self.words()).rev() {
            if io.nvram()[at] != 0 {
                io.store_word(at, 0)?;
            }
        }
        Ok(())
    }
}

/// What a part knows of commands.
#[derive(Clone, Copy, Debug, Default)]
struct Commands {
    form: EntryForm,
    /// Word of NVRAM with the vouched number.
    word: usize,
    vouched: u64,
    /// Number of the newest command that was recorded.
    newest: u64,
}

impl Commands {
    fn new(form: EntryForm, word: usize) -> Self {
        Self { form, word, ..Self::default() }
    }

    /// To be called before entries are dropped: from now on every command so far counts as complete.
    fn vouch<N: Nand>(&mut self, io: &mut Store<N>) -> Result<()> {
        if self.newest <= self.vouched {
            return Ok(());
        }
        let number = io.sequence();
        io.store_word(self.word, number)?;
        self.vouched = number;
        Ok(())
    }

    /// Begins anew after a loss of power with `recorded` entries and their commands, and returns the numbers of the commands
    /// that are not complete.
    fn recover<N: Nand>(
        &mut self,
        io: &mut Store<N>,
        recorded: &[(Entry, Option<Command>)],
    ) -> HashSet<u64, FxBuildHasher> {
        self.newest = 0;
        if self.form == EntryForm::Single {
            return HashSet::default();
        }
        self.vouched = io.nvram()[self.word];
        io.continue_after(self.vouched);
        let unsure = |&&(entry, command): &&(Entry, Option<Command>)| {
            command.is_some_and(|command| command.number(&entry) > self.vouched)
        };
        let unsure: Vec<_> = recorded.iter().filter(unsure).copied().collect();
        let torn = torn_commands(&unsure);
        let numbers = unsure.iter().filter_map(|(entry, command)| Some(command.as_ref()?.number(entry)));
        self.newest = numbers.filter(|number| !torn.contains(number)).max().unwrap_or(0);
        torn
    }
}

/// The numbers of the commands of which an entry is missing.
fn torn_commands(recorded: &[(Entry, Option<Command>)]) -> HashSet<u64, FxBuildHasher> {
    let mut found: HashMap<u64, (Command, HashSet<Lpn, FxBuildHasher>), FxBuildHasher> = HashMap::default();
    for &(entry, command) in recorded {
        let Some(command) = command else { continue };
        let (_, lpns) = found.entry(command.number(&entry)).or_insert((command, HashSet::default()));
        lpns.insert(entry.lpn);
    }
    let is_torn = |(number, (command, lpns)): (u64, (Command, HashSet<Lpn, _>))| {
        (lpns.len() < command.pages as usize).then_some(number)
    };
    found.into_iter().filter_map(is_torn).collect()
}

const PAGE_BITS: u32 = 28;
/// A page number of all ones is none.
const NO_PAGE: u64 = (1 << PAGE_BITS) - 1;
/// Bits of a place in the first word of a log entry.
const LOW_PLACE_BITS: u32 = 21;
/// Where the LPN begins in the second word: after the torn bit and the rest of the place.
const LOG_LPN_AT: u32 = 1 + PAGE_BITS - LOW_PLACE_BITS;

/// The most pages of a device whose entries lie in one log: 1 TiB of 4-KiB pages. An entry of a log names its page by a
/// number for the whole device, where the paper's layout has an offset in a superblock; within 16 bytes that leaves 28 bits
/// for each of three page numbers. The paper compares logs on 36 and 288 GiB.
pub const MAX_LOG_PAGES: u64 = NO_PAGE;

/// Refuses a device that is too large for one log.
fn require_log_pages(pages: u64) -> Result<()> {
    if pages <= MAX_LOG_PAGES {
        return Ok(());
    }
    Err(Error::Options(format!(
        "one log of mappings serves a device of at most {MAX_LOG_PAGES} pages (1 TiB of 4-KiB pages), because its 16-byte \
         entries number pages with 28 bits; this device has {pages} pages: use remap.reverse_map=segments"
    )))
}

/// The layout of logs for the whole device, also 16 bytes. A place cannot be relative there, so page numbers share
/// their bits evenly: torn bit, low place (21), sequence (42); torn bit, high place (7), LPN (28), source (28).
impl Entry {
    fn encode_in_log(&self) -> [u64; 2] {
        assert!(self.sequence <= MAX_SEQUENCE, "sequence {} does not fit 42 bits", self.sequence);
        let place = self.place.map_or(NO_PAGE, |place| place.0 as u64);
        let source = self.source.map_or(NO_PAGE, |lpn| lpn.0 as u64);
        let lpn = self.lpn.0 as u64;
        let fits = lpn < NO_PAGE && place <= NO_PAGE && source <= NO_PAGE;
        assert!(fits, "{self:?} has a page number that does not fit 28 bits");
        let (low, high) = (place & ((1 << LOW_PLACE_BITS) - 1), place >> LOW_PLACE_BITS);
        [
            TORN_BIT | low << 1 | self.sequence << (1 + LOW_PLACE_BITS),
            TORN_BIT | high << 1 | lpn << LOG_LPN_AT | source << (LOG_LPN_AT + PAGE_BITS),
        ]
    }

    fn decode_in_log(words: [u64; 2]) -> Option<Self> {
        if words[0] & words[1] & TORN_BIT == 0 {
            return None;
        }
        let low = words[0] >> 1 & ((1 << LOW_PLACE_BITS) - 1);
        let high = words[1] >> 1 & ((1 << (PAGE_BITS - LOW_PLACE_BITS)) - 1);
        let place = low | high << LOW_PLACE_BITS;
        let source = words[1] >> (LOG_LPN_AT + PAGE_BITS);
        Some(Self {
            lpn: Lpn((words[1] >> LOG_LPN_AT & NO_PAGE) as u32),
            place: (place != NO_PAGE).then_some(Ppn(place as u32)),
            source: (source != NO_PAGE).then_some(Lpn(source as u32)),
            sequence: words[0] >> (1 + LOW_PLACE_BITS),
        })
    }
}

/// Which meanings of an entry are still true: the engine's answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EntryLiveness {
    /// `lpn` still lives at `place` by this bind.
    pub bind: bool,
    /// `lpn` (of a tombstone) or `source` (of a relocation) is still without a place, and older evidence may exist.
    pub tombstone: bool,
}

impl EntryLiveness {
    /// The entry can be dropped.
    pub const NOTHING: Self = Self { bind: false, tombstone: false };

    /// Whether any meaning is needed.
    pub fn any(self) -> bool {
        self.bind || self.tombstone
    }

    /// What is left of an entry: itself while it binds or is a tombstone, else the tombstone of what it buried.
    pub fn rest_of(self, entry: Entry) -> Option<Entry> {
        match (self.bind, self.tombstone) {
            (true, _) => Some(entry),
            (false, true) if entry.place.is_none() => Some(entry),
            (false, true) => entry.source.map(|lpn| Entry { lpn, place: None, source: None, ..entry }),
            (false, false) => None,
        }
    }
}

/// The engine's judgement of entries, asked when a part compacts.
pub type Needed<'a> = &'a dyn Fn(&Entry) -> EntryLiveness;

/// What compaction keeps: for each of `entries` the rest that is needed. Of several with one bind, or several
/// tombstones of one range, only the newest has one; an older relocation may still bury its source.
fn still_needed(entries: &[Entry], needed: Needed<'_>) -> Vec<Option<Entry>> {
    let mut newest: HashMap<(Lpn, Option<Ppn>), u64, FxBuildHasher> = HashMap::default();
    for entry in entries {
        let sequence = newest.entry((entry.lpn, entry.place)).or_default();
        *sequence = entry.sequence.max(*sequence);
    }
    let rest = |entry: &Entry| {
        let need = needed(entry);
        let bind = need.bind && newest[&(entry.lpn, entry.place)] == entry.sequence;
        EntryLiveness { bind, ..need }.rest_of(*entry)
    };
    let mut rests: Vec<Option<Entry>> = entries.iter().map(rest).collect();
    let mut kept: HashMap<(Lpn, Option<Ppn>, Option<Lpn>), usize, FxBuildHasher> = HashMap::default();
    for at in 0..rests.len() {
        let Some(entry) = rests[at] else { continue };
        let known = *kept.entry((entry.lpn, entry.place, entry.source)).or_insert(at);
        if known == at {
            continue;
        }
        let newer = rests[known].is_some_and(|known| known.sequence < entry.sequence);
        let (dropped, keeper) = if newer { (known, at) } else { (at, known) };
        rests[dropped] = None;
        kept.insert((entry.lpn, entry.place, entry.source), keeper);
    }
    rests
}

/// How many parts there are of each size above 0, to know the largest. O(1), amortised.
#[derive(Clone, Debug, Default)]
struct Sizes {
    /// By size less 1; the last one is never 0.
    counts: Vec<u32>,
}

impl Sizes {
    fn largest(&self) -> u32 {
        self.counts.len() as u32
    }

    /// A part's size changed.
    fn change(&mut self, before: u32, after: u32) {
        if before == after {
            return;
        }
        if after > 0 {
            self.counts.resize(self.counts.len().max(after as usize), 0);
            self.counts[after as usize - 1] += 1;
        }
        if before > 0 {
            self.counts[before as usize - 1] -= 1;
        }
        while self.counts.last() == Some(&0) {
            self.counts.pop();
        }
    }
}

/// What every reverse map answers.
pub trait ReverseMap {
    /// Whether the host may add an entry now. What garbage collection needs for any one victim is kept back, so a
    /// `true` never leads to a deadlock. May compact; [`ReverseMap::pages_per_record`] pages of room are there.
    ///
    /// # Errors
    /// Whatever the medium answers.
    fn admit<N: Nand>(&mut self, io: &mut Store<N>, needed: Needed<'_>) -> Result<bool>;

    /// Whether every entry of `block`, which GC is about to take as its victim, can be recorded anew now. May compact,
    /// so it is asked while the map still names the victim's pages. Pages of its own it appends only where there is room
    /// beside what GC keeps for its copies. After `false` GC takes another victim, or records nothing.
    ///
    /// # Errors
    /// Whatever the medium answers.
    fn make_room_for<N: Nand>(&mut self, _: &mut Store<N>, _: BlockId, _: Needed<'_>) -> Result<bool> {
        Ok(true)
    }

    /// Records an entry; it is durable on return. For the host only after [`ReverseMap::admit`] said yes; GC may
    /// always record as many as the victim in hand had.
    ///
    /// # Errors
    /// Whatever the medium answers.
    fn record<N: Nand>(&mut self, io: &mut Store<N>, entry: Entry, needed: Needed<'_>) -> Result<()>;

    /// Whether the host may record a command of several entries, for these places, at once. As [`ReverseMap::admit`]. Only
    /// parts with entries of 24 bytes record commands.
    ///
    /// # Errors
    /// Whatever the medium answers.
    fn admit_command<N: Nand>(
        &mut self,
        _: &mut Store<N>,
        _places: &[Option<Ppn>],
        _: Needed<'_>,
    ) -> Result<bool> {
        Ok(false)
    }

    /// Records the entries of a command, one for each of its pages in order, after [`ReverseMap::admit_command`] said yes.
    /// The command is durable on return; if power is lost before, it leaves nothing.
    ///
    /// # Errors
    /// Whatever the medium answers.
    fn record_command<N: Nand>(&mut self, _: &mut Store<N>, command: Command, _: &[Entry]) -> Result<()> {
        unreachable!("{command:?} was not admitted")
    }

    /// An entry that named `place` for `lpn` is not needed as a bind any more.
    fn supersede<N: Nand>(&mut self, io: &mut Store<N>, lpn: Lpn, place: Ppn);

    /// Appends every entry of `block` to `out`, superseded ones too, in the order of recording; charges what finding
    /// them costs.
    ///
    /// # Errors
    /// Whatever the medium answers.
    fn entries_of<N: Nand>(&mut self, io: &mut Store<N>, block: BlockId, out: &mut Vec<Entry>) -> Result<()>;

    /// The block is erased; whatever was needed of its entries has been recorded anew.
    ///
    /// # Errors
    /// Whatever the medium answers.
    fn erased<N: Nand>(&mut self, io: &mut Store<N>, block: BlockId) -> Result<()>;

    /// Log pages that recovery found on flash, `(id, place)`: of several copies of one page the newest. Told before
    /// [`ReverseMap::recover`]; afterwards [`ReverseMap::owns`] says which of them are live.
    fn adopt_pages(&mut self, _: &[(u32, Ppn)]) {}

    /// Rebuilds what is in RAM from the non-volatile part and returns every intact entry, perhaps some twice. All count
    /// as needed: the engine calls [`ReverseMap::supersede`] for each returned bind that is not.
    ///
    /// # Errors
    /// Whatever the medium answers.
    fn recover<N: Nand>(&mut self, io: &mut Store<N>) -> Result<Vec<Entry>>;

    /// Every entry that is recorded, superseded ones too; for audits, charged to nobody.
    fn entries<N: Nand>(&self, io: &Store<N>) -> Vec<Entry>;

    /// Entries that nobody called superseded, tombstones included.
    fn valid_entries(&self) -> u64;

    /// Flash pages that one [`ReverseMap::admit`] or [`ReverseMap::record`] may append. This method and the next three answer
    /// for maps without pages on flash unless they are replaced.
    fn pages_per_record(&self) -> u32 {
        0
    }

    /// Flash pages that the entries occupy at the most.
    fn metadata_pages(&self) -> u64 {
        0
    }

    /// Whether `ppn` is the current copy of log page `id`.
    fn owns(&self, _id: u32, _ppn: Ppn) -> bool {
        false
    }

    /// GC moved log page `id`.
    fn relocate_own(&mut self, id: u32, _new: Ppn) {
        unreachable!("there is no log page {id}")
    }

    /// Bytes a controller holds, by structure; NVRAM is named as such.
    fn ram_bytes(&self) -> Vec<(&'static str, u64)>;

    /// The first broken rule of the part's own state.
    ///
    /// # Errors
    /// The violation, as a sentence.
    fn check(&self) -> std::result::Result<(), String>;
}

/// Which reverse map, and its size.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReverseMapPart {
    /// No binds: every remap is done by a write (the paper's `NoRemap`).
    OobOnly,
    /// NVRAM segments grouped by block (the paper's Remap-SSD).
    Segments {
        /// NVRAM for segments, bytes.
        nvram_bytes: u64,
        /// Bytes of a segment, a multiple of 16; the paper's default is 1 KiB.
        segment_bytes: u32,
    },
    /// One log in NVRAM (`NLog`).
    NvramLog {
        /// NVRAM for the log, bytes.
        nvram_bytes: u64,
    },
    /// One log on flash (`FLog`).
    FlashLog {
        /// Size of the log, bytes of flash.
        log_pages: u32,
    },
    /// Unlimited, and found at once (Opt).
    Ideal,
}

impl ReverseMapPart {
    /// NVRAM that the medium needs for this part, bytes, for pages of `page_bytes`.
    pub fn nvram_bytes(self, page_bytes: u32) -> u64 {
        match self {
            Self::OobOnly | Self::Ideal => 0,
            Self::Segments { nvram_bytes, .. } | Self::NvramLog { nvram_bytes } => nvram_bytes,
            Self::FlashLog { .. } => page_bytes as u64 + 8,
        }
    }
}

/// Any reverse map, chosen when the device is built.
#[derive(Clone, Debug)]
pub enum AnyReverseMap {
    /// No binds at all.
    OobOnly,
    /// See [`Segments`].
    Segments(Segments),
    /// See [`NvramLog`].
    NvramLog(NvramLog),
    /// See [`FlashLog`].
    FlashLog(FlashLog),
    /// See [`Ideal`].
    Ideal(Ideal),
}

impl AnyReverseMap {
    /// An empty reverse map for the device behind `io`, whose NVRAM is all zeros.
    ///
    /// # Errors
    /// A size that the part cannot work with, or NVRAM that the medium does not have.
    pub fn new<N: Nand>(part: ReverseMapPart, io: &Store<N>) -> Result<Self> {
        Self::with_entries(part, EntryForm::Single, io)
    }

    /// The same with entries of this form.
    ///
    /// # Errors
    /// As [`AnyReverseMap::new`]; commands where entries are not in NVRAM or on flash.
    pub fn with_entries<N: Nand>(part: ReverseMapPart, form: EntryForm, io: &Store<N>) -> Result<Self> {
        if form == EntryForm::OfCommands && matches!(part, ReverseMapPart::OobOnly | ReverseMapPart::Ideal) {
            return Err(Error::Options(
                "atomic remap commands need a reverse map in NVRAM or on flash: choose segments, nvram-log or flash-log"
                    .into(),
            ));
        }
        Ok(match part {
            ReverseMapPart::OobOnly => Self::OobOnly,
            ReverseMapPart::Segments { nvram_bytes, segment_bytes } => {
                Self::Segments(Segments::with_entries(io, nvram_bytes, segment_bytes, form)?)
            }
            ReverseMapPart::NvramLog { nvram_bytes } => {
                Self::NvramLog(NvramLog::with_entries(io, nvram_bytes, form)?)
            }
            ReverseMapPart::FlashLog { log_pages } => {
                let log_bytes = log_pages as u64 * io.geometry().page_bytes as u64;
                Self::FlashLog(FlashLog::with_entries(io, log_bytes, form)?)
            }
            ReverseMapPart::Ideal => Self::Ideal(Ideal::new(io.geometry().pages())),
        })
    }
}

macro_rules! delegate {
    ($self:ident, $map:ident => $call:expr, else $other:expr) => {
        match $self {
            AnyReverseMap::OobOnly => $other,
            AnyReverseMap::Segments($map) => $call,
            AnyReverseMap::NvramLog($map) => $call,
            AnyReverseMap::FlashLog($map) => $call,
            AnyReverseMap::Ideal($map) => $call,
        }
    };
}

impl ReverseMap for AnyReverseMap {
    fn admit<N: Nand>(&mut self, io: &mut Store<N>, needed: Needed<'_>) -> Result<bool> {
        delegate!(self, m => m.admit(io, needed), else Ok(false))
    }
    fn make_room_for<N: Nand>(
        &mut self,
        io: &mut Store<N>,
        block: BlockId,
        needed: Needed<'_>,
    ) -> Result<bool> {
        delegate!(self, m => m.make_room_for(io, block, needed), else Ok(true))
    }
    fn record<N: Nand>(&mut self, io: &mut Store<N>, entry: Entry, needed: Needed<'_>) -> Result<()> {
        delegate!(self, m => m.record(io, entry, needed), else unreachable!("{entry:?} without a place to record it"))
    }
    fn admit_command<N: Nand>(
        &mut self,
        io: &mut Store<N>,
        places: &[Option<Ppn>],
        needed: Needed<'_>,
    ) -> Result<bool> {
        delegate!(self, m => m.admit_command(io, places, needed), else Ok(false))
    }
    fn record_command<N: Nand>(
        &mut self,
        io: &mut Store<N>,
        command: Command,
        entries: &[Entry],
    ) -> Result<()> {
        delegate!(self, m => m.record_command(io, command, entries), else unreachable!("{command:?} without a place to record it"))
    }
    fn supersede<N: Nand>(&mut self, io: &mut Store<N>, lpn: Lpn, place: Ppn) {
        delegate!(self, m => m.supersede(io, lpn, place), else ());
    }
    fn entries_of<N: Nand>(&mut self, io: &mut Store<N>, block: BlockId, out: &mut Vec<Entry>) -> Result<()> {
        delegate!(self, m => m.entries_of(io, block, out), else Ok(()))
    }
    fn erased<N: Nand>(&mut self, io: &mut Store<N>, block: BlockId) -> Result<()> {
        delegate!(self, m => m.erased(io, block), else Ok(()))
    }
    fn adopt_pages(&mut self, pages: &[(u32, Ppn)]) {
        delegate!(self, m => m.adopt_pages(pages), else ());
    }
    fn recover<N: Nand>(&mut self, io: &mut Store<N>) -> Result<Vec<Entry>> {
        delegate!(self, m => m.recover(io), else Ok(Vec::new()))
    }
    fn entries<N: Nand>(&self, io: &Store<N>) -> Vec<Entry> {
        delegate!(self, m => m.entries(io), else Vec::new())
    }
    fn valid_entries(&self) -> u64 {
        delegate!(self, m => m.valid_entries(), else 0)
    }
    fn pages_per_record(&self) -> u32 {
        delegate!(self, m => m.pages_per_record(), else 0)
    }
    fn metadata_pages(&self) -> u64 {
        delegate!(self, m => m.metadata_pages(), else 0)
    }
    fn owns(&self, id: u32, ppn: Ppn) -> bool {
        delegate!(self, m => m.owns(id, ppn), else false)
    }
    fn relocate_own(&mut self, id: u32, new: Ppn) {
        delegate!(self, m => m.relocate_own(id, new), else unreachable!("no log page {id}"));
    }
    fn ram_bytes(&self) -> Vec<(&'static str, u64)> {
        delegate!(self, m => m.ram_bytes(), else Vec::new())
    }
    fn check(&self) -> std::result::Result<(), String> {
        delegate!(self, m => m.check(), else Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The tombstone of a range was dropped for a newer one of its first page, and the rest of the range came back from the
    /// dead at the next recovery. Found by the end of a host under an image of `remap`.
    #[test]
    fn a_tombstone_of_a_range_outlives_a_newer_one_of_its_first_page() {
        let tombstone = |last: Option<u32>, sequence| Entry {
            lpn: Lpn(139),
            place: None,
            source: last.map(Lpn),
            sequence,
        };
        let needed = |_: &Entry| EntryLiveness { bind: false, tombstone: true };
        let range = tombstone(Some(141), 1);
        let [first, again] = [tombstone(None, 2), tombstone(None, 3)];
        let kept = still_needed(&[range, first, again], &needed);
        assert_eq!(kept, [Some(range), None, Some(again)]);
    }

    #[test]
    fn log_entries_survive_at_their_bounds() {
        let page = NO_PAGE as u32 - 1;
        for place in [None, Some(Ppn(0)), Some(Ppn((1 << 21) - 1)), Some(Ppn(1 << 21)), Some(Ppn(page))] {
            for source in [None, Some(Lpn(0)), Some(Lpn(page))] {
                for (lpn, sequence) in [(0, 0), (page, MAX_SEQUENCE), (0, MAX_SEQUENCE), (page, 0)] {
                    let entry = Entry { lpn: Lpn(lpn), place, source, sequence };
                    let words = entry.encode_in_log();
                    assert_eq!(Entry::decode_in_log(words), Some(entry));
                    assert_eq!(Entry::decode_in_log([words[0], 0]), None);
                    assert_eq!(Entry::decode_in_log([0, words[1]]), None);
                }
            }
        }
    }

    #[test]
    fn the_newest_of_equal_binds_is_kept_and_an_older_one_still_buries() {
        let entry = |sequence, source: Option<u32>| Entry {
            lpn: Lpn(1),
            place: Some(Ppn(2)),
            source: source.map(Lpn),
            sequence,
        };
        let entries = [entry(2, Some(7)), entry(3, Some(8)), entry(3, Some(8)), entry(1, None)];
        let need = |entry: &Entry| EntryLiveness { bind: true, tombstone: entry.source.is_some() };
        let buried = Entry { lpn: Lpn(7), place: None, source: None, sequence: 2 };
        let kept = still_needed(&entries, &need);
        assert_eq!(kept, [Some(buried), Some(entry(3, Some(8))), None, None]);
    }

    #[test]
    fn logs_refuse_devices_above_one_tebibyte_with_a_sentence() {
        assert!(require_log_pages(MAX_LOG_PAGES).is_ok());
        let Err(Error::Options(sentence)) = require_log_pages(1 << 28) else { panic!("28 bits do not do") };
        assert!(sentence.contains("1 TiB") && sentence.contains("segments"), "{sentence}");
    }

    #[test]
    fn the_largest_size_is_known() {
        let mut sizes = Sizes::default();
        let steps = [(0, 3, 3), (0, 1, 3), (3, 4, 4), (4, 2, 2), (2, 0, 1), (1, 0, 0)];
        for (before, after, largest) in steps {
            sizes.change(before, after);
            assert_eq!(sizes.largest(), largest);
        }
    }
}
