//! What happened in a step, in sentences: derived from the events that the engine reported and from its state before
//! and after.

use std::collections::BTreeSet;

use wearwell::design::Persistence;
use wearwell::logical_page_form::LogicalPageForm;
use wearwell::nand::PageKind;
use wearwell::recovery::RecoveryReport;
use wearwell_trace::{Op, Request};

use crate::before_and_after::DriveBeforeAndAfter;
use crate::gc_collection::{self, GcCollection};
use crate::phrases::{noun_with_numbers, with_plural};
use crate::record::{EventRow, StepGroup, WalkthroughStep, WatchedDriveLayout};
use crate::recovery;

/// Largest number of logical pages of a request that are described one by one; the pages of a larger request are
/// described together.
const LPNS_DESCRIBED_MAX: usize = 3;

/// What happened in a step: a request, a refused request, a power loss, a recovery.
pub(super) enum StepKind<'a> {
    /// The first step of a walkthrough, before any request: the drive is new.
    NewDrive,
    /// The drive executed a request of the host.
    Request(&'a Request),
    /// The drive refused a request, with this error.
    Refused(&'a Request, String),
    /// Power was lost, during a request or after the last one.
    PowerLost(Option<&'a Request>),
    /// The drive recovered after a power loss; the report has its costs.
    Recovered(&'a RecoveryReport, Persistence),
}

/// Sets the title of a recorded step, the sentences that explain it, and the groups to which it belongs.
pub(super) fn describe_step(
    step: &mut WalkthroughStep,
    step_kind: &StepKind<'_>,
    before_and_after: &DriveBeforeAndAfter<'_>,
) {
    let events = std::mem::take(&mut step.events);
    let mut teller = SentenceWriter {
        before_and_after,
        events: &events,
        sentences: Vec::new(),
        step_groups: BTreeSet::new(),
    };
    step.title = match step_kind {
        StepKind::NewDrive => {
            teller.describe_new_drive();
            "The drive is new".to_owned()
        }
        StepKind::Request(request) => teller.describe_request_and_get_title(request),
        StepKind::Refused(request, error) => {
            let title = teller.request_title(request);
            teller.sentences.push(format!("The drive refuses the request: {error}. The walk ends here."));
            format!("Refused: {title}")
        }
        StepKind::PowerLost(request) => {
            teller.step_groups.insert(StepGroup::Cut);
            teller.describe_power_loss_and_get_title(*request)
        }
        StepKind::Recovered(report, persistence) => {
            teller.step_groups.insert(StepGroup::Recovery);
            teller.add_step_groups_of_events();
            teller.sentences.extend(recovery::recovery_sentences(
                before_and_after,
                report,
                *persistence,
                &events,
            ));
            "Power is back, and the drive recovers".to_owned()
        }
    };
    step.sentences = teller.sentences.into_iter().filter(|sentence| !sentence.is_empty()).collect();
    step.marks = teller.step_groups.into_iter().collect();
    step.events = events;
}

/// Writes the sentences about a step, and collects the groups to which the step belongs.
struct SentenceWriter<'a> {
    /// State of the drive before and after the step.
    before_and_after: &'a DriveBeforeAndAfter<'a>,
    /// Events that the engine reported in the step.
    events: &'a [EventRow],
    /// Sentences written so far.
    sentences: Vec<String>,
    /// Groups to which the step belongs (such as steps with a collection), as far as they are known.
    step_groups: BTreeSet<StepGroup>,
}

/// Returns the first logical page of a request, and the page after its last one.
fn lpn_range(request: &Request, page_bytes: u32) -> (u32, u32) {
    let bytes = u64::from(page_bytes);
    let end = (request.offset_bytes + request.len_bytes).div_ceil(bytes);
    ((request.offset_bytes / bytes) as u32, end as u32)
}

/// Returns the name of the logical pages from `first` to the one before `end`, for a title or sentence.
fn page_range_name(first: u32, end: u32) -> String {
    match end - first {
        0 => "nothing".to_owned(),
        1 => format!("logical page {first}"),
        _ => format!("logical pages {first} to {}", end - 1),
    }
}

impl SentenceWriter<'_> {
    /// Appends a sentence about the step.
    fn add_sentence(&mut self, sentence: impl Into<String>) {
        self.sentences.push(sentence.into());
    }

    /// Adds sentences that introduce the new drive: its layout, capacity and garbage collection.
    fn describe_new_drive(&mut self) {
        let WatchedDriveLayout { blocks, block_pages, dies, logical_pages, .. } =
            *self.before_and_after.drive;
        self.add_sentence(format!(
            "{} of {} in {}: {} flash pages, of which the host sees {}. All blocks are erased.",
            with_plural(blocks.into(), "block"),
            with_plural(block_pages.into(), "page"),
            with_plural(dies.into(), "die"),
            blocks * block_pages,
            logical_pages
        ));
    }

    /// Returns the title of a step that executes a request, such as its kind and its logical pages.
    fn request_title(&self, request: &Request) -> String {
        let (first, end) = lpn_range(request, self.before_and_after.drive.page_bytes);
        let pages = page_range_name(first, end);
        match request.op {
            Op::Read => format!("The host reads {pages}"),
            Op::Write => format!("The host writes {pages}"),
            Op::Zero => format!("The host writes zeros to {pages}"),
            Op::Trim => format!("The host trims {pages}"),
            Op::Flush => "The host flushes".to_owned(),
            Op::Remap(_) => {
                let from = (request.remap_source_offset_bytes
                    / u64::from(self.before_and_after.drive.page_bytes)) as u32;
                format!(
                    "The host remaps {pages} to the content of {}",
                    page_range_name(from, from + end - first)
                )
            }
            Op::PhaseMarker => unreachable!("phases are left out"),
        }
    }

    /// Adds the sentences about a request, and returns the title of the step.
    fn describe_request_and_get_title(&mut self, request: &Request) -> String {
        let title = self.request_title(request);
        self.add_step_groups_of_events();
        let (collections, others) = gc_collection::split_off_collections(self.events);
        self.describe_collections(&collections);
        self.sentences.extend(gc_collection::wear_leveling_sentences(&others, self.before_and_after));
        self.describe_metadata_operations(&others);
        let (first, end) = lpn_range(request, self.before_and_after.drive.page_bytes);
        match request.op {
            Op::Read => self.describe_read(&others),
            Op::Write | Op::Zero | Op::Trim | Op::Remap(_) => self.describe_lpns_of_request(first, end),
            Op::Flush => self.describe_flush(),
            Op::PhaseMarker => unreachable!("phases are left out"),
        }
        self.describe_flushed_pages(first, end, request.op);
        self.describe_delta_pages(&others);
        title
    }

    /// Adds the sentences about a loss of power, and returns the title of the step.
    fn describe_power_loss_and_get_title(&mut self, request: Option<&Request>) -> String {
        let (collections, _) = gc_collection::split_off_collections(self.events);
        self.add_step_groups_of_events();
        self.describe_collections(&collections);
        self.sentences.extend(recovery::power_loss_sentences(self.before_and_after, self.events));
        let Some(request) = request else { return "Power is lost".to_owned() };
        self.add_sentence("The request is not acknowledged.");
        let title = self.request_title(request);
        format!("Power is lost while {}", title.replacen("The host", "the host", 1))
    }

    /// Adds the sentences about each garbage collection of the step.
    fn describe_collections(&mut self, collections: &[GcCollection<'_>]) {
        for (number, collection) in collections.iter().enumerate() {
            self.sentences.extend(collection.sentences(self.before_and_after, number > 0));
        }
    }

    /// Adds the step to the groups that its events determine, such as steps with a collection.
    fn add_step_groups_of_events(&mut self) {
        for event in self.events {
            match event {
                EventRow::Victim { .. } | EventRow::Erase { cause: "gc" | "wear", .. } => {
                    self.step_groups.insert(StepGroup::Collection);
                }
                EventRow::Program { cause, page } => {
                    self.step_groups.extend(is_metadata_cause(cause).then_some(StepGroup::Metadata));
                    let kind = self.before_and_after.after.kind_of_flash_page(*page);
                    self.step_groups.extend((kind == Some(PageKind::Chunk)).then_some(StepGroup::Chunk));
                }
                _ => {}
            }
        }
    }

    /// Adds sentences about the metadata that was read and written in the step, and the reasons for it.
    fn describe_metadata_operations(&mut self, others: &[&EventRow]) {
        let count = |of: &str| {
            others
                .iter()
                .filter(|event| matches!(event, EventRow::Read { cause, .. } if *cause == of))
                .count() as u64
        };
        let (translation, validity) = (count("translation") + count("checkpoint"), count("validity"));
        if translation > 0 {
            self.add_sentence(format!(
                "Map entries are read from flash: {} of translation pages.",
                with_plural(translation, "read")
            ));
        }
        if validity > 0 {
            self.add_sentence(format!(
                "Page validity is read from flash: {}.",
                with_plural(validity, "read")
            ));
        }
        let mut why = "";
        let mut written: Vec<(&str, &str, Vec<u32>)> = Vec::new();
        for event in others {
            match event {
                EventRow::Reason { why: reason } => why = reason,
                EventRow::Program { cause, page } if is_metadata_cause(cause) => match written.last_mut() {
                    Some((of, reason, pages)) if of == cause && *reason == why => pages.push(*page),
                    _ => written.push((cause, why, vec![*page])),
                },
                _ => {}
            }
        }
        for (cause, why, pages) in written {
            self.add_sentence(self.metadata_write_sentence(cause, why, &pages));
        }
    }

    /// Returns a sentence on metadata pages that were written for a reason (`why`), such as an eviction from the map
    /// cache.
    fn metadata_write_sentence(&self, cause: &str, why: &str, pages: &[u32]) -> String {
        let what = match cause {
            "translation" | "checkpoint" => "translation page",
            "validity" => "page of the validity store",
            "remap_log" => "page of the reverse map's log",
            _ => "page that describes its block",
        };
        let reason = match (cause, why) {
            ("block_metadata", _) => {
                "head and tail pages list what is in a block, so that recovery reads less"
            }
            (_, "eviction") => {
                "the cache of map entries is full, and the least recently used entry is dirty: it is written, with all other dirty entries of \
                 its translation page"
            }
            (_, "map-bound") => {
                "the map has more dirty entries, or more pages that are not yet found invalid, than it may have"
            }
            (_, "map-checkpoint") => {
                "a checkpoint writes map entries that have long been dirty, so that recovery reads less"
            }
            (_, "trim") => "a trim has to be on flash when it returns",
            (_, "write-back") => "what is only in RAM is saved",
            (_, "journal-full") => "a page of the journal of map changes is full",
            (_, "journal-merge") => {
                "the journal of map changes is full, and is merged into the translation pages"
            }
            (_, "validity-buffer-full") => "the buffer of invalid pages in RAM is full",
            (_, "validity-due") => {
                "the buffer of invalid pages in RAM is written before it is full, because recovery can find only a \
                 limited number of invalid pages again"
            }
            (_, "validity-merge") => "Logarithmic Gecko merges two or more of its sorted runs into one",
            (_, "validity-bit") => "a page became invalid, and its bit in the bitmap of invalid pages is set",
            (_, "log-buffer-full") => "the buffer of reverse-map entries in NVRAM is full",
            _ => "metadata changed",
        };
        match pages {
            [page] => format!(
                "The drive writes a {what} to {}: {reason}.",
                self.before_and_after.page_location(*page)
            ),
            _ => format!(
                "The drive writes a {what} {} times, to {}: {reason}.",
                pages.len(),
                self.before_and_after.page_locations(pages)
            ),
        }
    }

    /// Adds a sentence about the flash pages that a read request needed.
    fn describe_read(&mut self, others: &[&EventRow]) {
        let pages: Vec<u32> = others
            .iter()
            .filter_map(|event| match event {
                EventRow::Read { cause: "host" | "content", page, .. } => Some(*page),
                _ => None,
            })
            .collect();
        if pages.is_empty() {
            self.add_sentence(
                "No flash page is read: nothing is stored (it reads as zeros), or the page is still in RAM.",
            );
        } else {
            self.add_sentence(format!("The drive reads {}.", self.before_and_after.page_locations(&pages)));
        }
    }

    /// Adds a sentence about what a flush request wrote to flash.
    fn describe_flush(&mut self) {
        let before = self.before_and_after.lpns_of_stored_form(self.before_and_after.before, "waiting");
        self.add_sentence(if before.is_empty() {
            "Nothing waits in RAM: all acknowledged writes are durable already.".to_owned()
        } else {
            format!("{} waited in RAM and must be durable now.", noun_with_numbers("Logical page", &before))
        });
    }

    /// Adds sentences about where the logical pages of a request are stored after the request, and what became of their
    /// old flash pages.
    fn describe_lpns_of_request(&mut self, first: u32, end: u32) {
        let end = end.min(self.before_and_after.drive.logical_pages);
        for lpn in (first..end).take(LPNS_DESCRIBED_MAX) {
            self.describe_new_location(lpn);
            self.describe_old_locations(lpn);
        }
        let rest = (end.saturating_sub(first) as usize).saturating_sub(LPNS_DESCRIBED_MAX);
        if rest > 0 {
            self.add_sentence(format!(
                "The other {} of the request are handled in the same way.",
                with_plural(rest as u64, "page")
            ));
        }
        for lpn in (first..end).skip(LPNS_DESCRIBED_MAX) {
            self.add_step_groups_of_lpn(lpn);
        }
    }

    /// Adds the step to the groups that the new stored form of `lpn` determines: steps with a bind or a delta.
    fn add_step_groups_of_lpn(&mut self, lpn: u32) {
        let row = &self.before_and_after.after.map[lpn as usize];
        if self.is_mapped_without_program(lpn) {
            self.step_groups.insert(StepGroup::Bind);
        }
        if self.before_and_after.after.stored_form_of_lpn(lpn) == LogicalPageForm::Delta
            && self.before_and_after.before.map[lpn as usize] != *row
        {
            self.step_groups.insert(StepGroup::Delta);
        }
    }

    /// Whether the request mapped `lpn` to a flash page that no operation of the step programmed.
    fn is_mapped_without_program(&self, lpn: u32) -> bool {
        let row = &self.before_and_after.after.map[lpn as usize];
        let Some(place) = row.2.first() else { return false };
        let is_written = self.events.iter().any(|event| match event {
            EventRow::Program { page, .. } => page == place,
            EventRow::Copy { to, .. } => {
                to == place && self.before_and_after.before.map[lpn as usize].2.first() != Some(place)
            }
            _ => false,
        });
        let is_moved = self.before_and_after.before.map[lpn as usize].2.first() != Some(place);
        !is_written && is_moved
    }

    /// Adds a sentence about where and in which form `lpn` is stored after the step.
    fn describe_new_location(&mut self, lpn: u32) {
        self.add_step_groups_of_lpn(lpn);
        let scene = self.before_and_after;
        let row = &scene.after.map[lpn as usize];
        let sentence = match (scene.after.stored_form_of_lpn(lpn), row.2.as_slice()) {
            (LogicalPageForm::Hole, _) => format!("Logical page {lpn} holds nothing now; it reads as zeros."),
            (LogicalPageForm::BufferedInRam, _) => {
                format!(
                    "Logical page {lpn} waits in RAM: for pages to be compressed with it, or in the write buffer."
                )
            }
            (LogicalPageForm::Delta, [base, further @ ..]) => self.delta_sentence(lpn, *base, further),
            (LogicalPageForm::CompressedInChunk, pages) if !self.is_mapped_without_program(lpn) => {
                self.chunk_sentence(lpn, pages)
            }
            (_, [place, ..]) if self.is_mapped_without_program(lpn) => {
                self.mapped_without_program_sentence(lpn, *place)
            }
            (_, [place, ..]) if scene.before.map[lpn as usize] == *row => {
                format!(
                    "Logical page {lpn} already has this content in {}: its map entry stays, and nothing is programmed.",
                    scene.page_location(*place)
                )
            }
            (_, [place, ..]) => {
                format!(
                    "The drive programs {} and maps logical page {lpn} to it.",
                    scene.page_location(*place)
                )
            }
            (_, []) => String::new(),
        };
        self.add_sentence(sentence);
    }

    /// Returns a sentence on a logical page stored as a delta: the page of its `base`, and `further` pages that a read
    /// needs.
    fn delta_sentence(&self, lpn: u32, base: u32, further: &[u32]) -> String {
        let at = match further {
            [] => "The delta waits in RAM until a page of deltas is full.".to_owned(),
            pages => format!("The delta is in {}.", self.before_and_after.page_locations(pages)),
        };
        format!(
            "Only the difference (delta) of logical page {lpn} to its stored version is kept. That version in {} stays valid as the base; a \
             read needs both. {at}",
            self.before_and_after.page_location(base)
        )
    }

    /// Returns a sentence on a logical page stored in a compressed chunk, and the flash `pages` of the chunk.
    fn chunk_sentence(&self, lpn: u32, pages: &[u32]) -> String {
        let members = self.before_and_after.other_lpns_of_page(lpn, pages[0]);
        let with = if members.is_empty() {
            String::new()
        } else {
            format!(" with {}", noun_with_numbers("logical page", &members))
        };
        format!(
            "Logical page {lpn} is compressed together{with} into a chunk in {}.",
            self.before_and_after.page_locations(pages)
        )
    }

    /// Returns a sentence on a logical page that was mapped to the stored flash page `place` without a program.
    fn mapped_without_program_sentence(&self, lpn: u32, place: u32) -> String {
        let (scene, sharers) = (self.before_and_after, self.before_and_after.other_lpns_of_page(lpn, place));
        let state = scene.before.page_state_name(place);
        let at = scene.page_location(place);
        if scene.after.kind_of_flash_page(place) == Some(PageKind::Chunk) {
            return format!(
                "The content is stored already, as a member of the chunk that begins in {at}: logical page {lpn} is mapped to that member (a \
                 bind), and nothing is programmed. The chunk also serves {}.",
                noun_with_numbers("logical page", &sharers)
            );
        }
        if state == "recyclable" || state == "invalid" {
            return format!(
                "{} holds the same content and is invalid: recycling makes it valid again for logical page {lpn}. Nothing is programmed.",
                capitalised(&at)
            );
        }
        let with = match sharers.as_slice() {
            [] => "no other logical page refers to it".to_owned(),
            others => format!("it is shared with {}", noun_with_numbers("logical page", others)),
        };
        format!(
            "The content is stored already, in {at}: logical page {lpn} is mapped to it (a bind), and nothing is programmed; {with}."
        )
    }

    /// Adds a sentence about what became of each flash page to which `lpn` was mapped before the step.
    fn describe_old_locations(&mut self, lpn: u32) {
        let scene = self.before_and_after;
        let now = &scene.after.map[lpn as usize].2;
        for &old in scene.before.map[lpn as usize].2.iter().filter(|old| !now.contains(old)) {
            let at = scene.page_location(old);
            let others = scene.other_lpns_of_page(lpn, old);
            let sentence = match scene.after.page_state_name(old) {
                "invalid" => format!("The old version in {at} is invalid now."),
                "recyclable" => format!(
                    "The old version in {at} is invalid now. Its fingerprint is remembered: if its content is written again before the block is \
                     erased, the page can be recycled."
                ),
                "valid" if !others.is_empty() => {
                    format!(
                        "The old version in {at} stays valid for {}.",
                        noun_with_numbers("logical page", &others)
                    )
                }
                "valid" => match scene.after.kind_of_flash_page(old) {
                    Some(PageKind::Delta) => {
                        format!("{} still holds deltas of other logical pages.", capitalised(&at))
                    }
                    _ => String::new(),
                },
                _ => String::new(),
            };
            self.add_sentence(sentence);
        }
    }

    /// Adds a sentence about logical pages outside the request that waited in RAM and were written to flash in the
    /// step.
    fn describe_flushed_pages(&mut self, first: u32, end: u32, op: Op) {
        let scene = self.before_and_after;
        let is_of_request = |lpn: u32| (first..end).contains(&lpn) && op != Op::Flush;
        let was_waiting = |lpn: &u32| {
            scene.before.stored_form_of_lpn(*lpn) == LogicalPageForm::BufferedInRam
                && scene.after.stored_form_of_lpn(*lpn) != LogicalPageForm::BufferedInRam
        };
        let stored: Vec<u32> =
            scene.changed_lpns().filter(|&lpn| !is_of_request(lpn)).filter(was_waiting).collect();
        if !stored.is_empty() {
            self.add_sentence(format!(
                "{} waited in RAM and {} on flash now.",
                noun_with_numbers("Logical page", &stored),
                verb_is_or_are(stored.len())
            ));
        }
    }

    /// Adds a sentence about each page of deltas that was programmed in the step.
    fn describe_delta_pages(&mut self, others: &[&EventRow]) {
        let scene = self.before_and_after;
        for event in others {
            let EventRow::Program { page, .. } = event else { continue };
            if scene.after.kind_of_flash_page(*page) == Some(PageKind::Delta)
                && scene.after.page_state_name(*page) == "valid"
            {
                let lpns: Vec<u32> = scene
                    .after
                    .map
                    .iter()
                    .filter(|row| row.2.get(1..).is_some_and(|f| f.contains(page)))
                    .map(|row| row.0)
                    .collect();
                self.add_sentence(format!(
                    "A page of deltas is full and is written to {}: deltas of {}.",
                    scene.page_location(*page),
                    noun_with_numbers("logical page", &lpns)
                ));
            }
        }
    }
}

/// Returns "is" for one thing and "are" for several.
fn verb_is_or_are(count: usize) -> &'static str {
    if count == 1 { "is" } else { "are" }
}

/// Returns a text with its first letter in upper case.
fn capitalised(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

/// Whether programs of this cause write metadata pages.
fn is_metadata_cause(cause: &str) -> bool {
    matches!(cause, "translation" | "checkpoint" | "validity" | "remap_log" | "block_metadata")
}
