//! Sentences about a loss of power and the recovery after it.

use wearwell::design::Persistence;
use wearwell::logical_page_form::LogicalPageForm;
use wearwell::recovery::RecoveryReport;

use crate::before_and_after::DriveBeforeAndAfter;
use crate::phrases::{joined_list, noun_with_numbers, with_plural};
use crate::record::EventRow;

/// Returns sentences on which data survives a loss of power on a design, and how recovery rebuilds the data that RAM
/// lost.
pub(super) fn power_loss_persistence_sentence(persistence: Persistence) -> &'static str {
    match persistence {
        Persistence::OobScan => {
            "Only flash survives a loss of power. Recovery rebuilds the map from the spare areas of all programmed pages: each names its \
             logical page and a sequence number, and the newest page counts."
        }
        Persistence::BatteryRam => "A battery keeps RAM over a loss of power, the map in it included.",
        Persistence::BatteryFlush => {
            "At a loss of power a battery lasts long enough to write what is only in RAM to flash. Recovery rebuilds the directories that \
             locate metadata pages."
        }
        Persistence::BackwardScan { writes_map_before_first_request: true } => {
            "Only flash survives a loss of power. Recovery reads the newest data pages backwards to find the map entries that changed last, \
             and writes these to flash."
        }
        Persistence::BackwardScan { writes_map_before_first_request: false } => {
            "Only flash survives a loss of power. Recovery reads the newest data pages backwards to find the map entries that changed last."
        }
        Persistence::DurableReverseMap => {
            "Flash and NVRAM survive a loss of power. Recovery rebuilds the map from the spare areas of all programmed pages and from the \
             entries of the reverse map, which record the binds; the newest sequence number counts."
        }
        Persistence::NvramMap => {
            "Flash and NVRAM survive a loss of power. NVRAM holds the map, or its dirty entries if the map is on flash."
        }
    }
}

/// Returns the sentences about a loss of power: which operation was interrupted, and which data in RAM is lost.
pub(super) fn power_loss_sentences(scene: &DriveBeforeAndAfter<'_>, events: &[EventRow]) -> Vec<String> {
    let is_torn = |ppn: u32| scene.after.page_state_name(ppn) == "torn";
    let last = events.iter().rev().find(|event| {
        matches!(event, EventRow::Program { .. } | EventRow::Copy { .. } | EventRow::Erase { .. })
    });
    let interrupted = match last {
        Some(EventRow::Program { page, .. } | EventRow::Copy { to: page, .. }) if is_torn(*page) => {
            format!(
                "Power is lost during the program of {}: the page is torn, neither its data nor its spare area can be read.",
                scene.page_location(*page)
            )
        }
        Some(EventRow::Erase { block, .. }) if is_torn(block * scene.drive.block_pages) => {
            format!("Power is lost during the erase of block {block}: the block must be erased again.")
        }
        _ if events.is_empty() => "Power is lost.".to_owned(),
        _ => "Power is lost during a store to NVRAM, which has no effect then.".to_owned(),
    };
    let waiting = scene.lpns_of_stored_form(scene.before, "waiting");
    let mut sentences = vec![interrupted];
    if !waiting.is_empty() {
        sentences.push(format!(
            "{} waited in RAM for the next chunk or in the write buffer. Such pages are durable only after a flush.",
            noun_with_numbers("Logical page", &waiting)
        ));
    }
    sentences.push(
        "The figure shows the flash at this moment; valid is what the map in RAM named just before."
            .to_owned(),
    );
    sentences
}

/// Returns the sentences about a recovery: what it read, what it wrote, and which logical pages are different.
pub(super) fn recovery_sentences(
    before_and_after: &DriveBeforeAndAfter<'_>,
    report: &RecoveryReport,
    persistence: Persistence,
    events: &[EventRow],
) -> Vec<String> {
    let count = |is: fn(&EventRow) -> bool| events.iter().filter(|event| is(event)).count() as u64;
    let spare_areas = count(|event| matches!(event, EventRow::Read { spare: true, .. }));
    let whole_pages = count(|event| matches!(event, EventRow::Read { spare: false, .. }));
    let programs = count(|event| matches!(event, EventRow::Program { .. }));
    let mut did = Vec::new();
    did.extend((spare_areas > 0).then(|| format!("reads {}", with_plural(spare_areas, "spare area"))));
    did.extend((whole_pages > 0).then(|| format!("reads {}", with_plural(whole_pages, "whole page"))));
    did.extend((programs > 0).then(|| format!("programs {}", with_plural(programs, "page"))));
    did.extend((report.erases > 0).then(|| format!("erases {}", with_plural(report.erases, "block"))));
    let mut sentences = vec![power_loss_persistence_sentence(persistence).to_owned()];
    sentences.push(if did.is_empty() {
        "Recovery needs no flash operation.".to_owned()
    } else {
        format!("Recovery {}.", joined_list(&did))
    });
    sentences.extend(recovery_step_cost_sentences(report));
    if let Some(mapped) = report.mapped_pages {
        sentences.push(format!("Afterwards {} mapped.", page_count_with_verb(mapped)));
    }
    sentences.extend(changed_page_sentences(before_and_after));
    sentences
}

/// Returns the sentences about logical pages that are stored differently after a recovery, grouped by the reason.
fn changed_page_sentences(scene: &DriveBeforeAndAfter<'_>) -> Vec<String> {
    let (mut trimmed, mut waited, mut moved) = (Vec::new(), Vec::new(), Vec::new());
    for lpn in scene.changed_lpns() {
        match scene.before.stored_form_of_lpn(lpn) {
            LogicalPageForm::Hole => trimmed.push(lpn),
            LogicalPageForm::BufferedInRam => waited.push(lpn),
            _ if scene.before.map[lpn as usize].2 == scene.after.map[lpn as usize].2 => waited.push(lpn),
            _ => moved.push(lpn),
        }
    }
    let told = |lpns: &[u32], what: &str| {
        (!lpns.is_empty()).then(|| format!("{} {what}", noun_with_numbers("Logical page", lpns)))
    };
    let sentences = [
        told(
            &trimmed,
            "held nothing, but an older version is on flash and counts again: this design does not record trims durably.",
        ),
        told(
            &waited,
            "waited in RAM, as a whole or as a delta: that version is lost, because it was not flushed.",
        ),
        told(
            &moved,
            "had been mapped to another page: the map names what recovery found as the newest version.",
        ),
    ];
    let sentences: Vec<String> = sentences.into_iter().flatten().collect();
    if sentences.is_empty() {
        vec!["Every logical page is where it was before.".to_owned()]
    } else {
        sentences
    }
}

/// Returns a number of pages with the verb of a sentence, such as "1 page is" or "3 pages are".
fn page_count_with_verb(pages: u64) -> String {
    format!("{} {}", with_plural(pages, "logical page"), if pages == 1 { "is" } else { "are" })
}

/// Returns a sentence with the flash operations of each step of a recovery; empty if no step had any.
fn recovery_step_cost_sentences(report: &RecoveryReport) -> Vec<String> {
    let cost = |(name, step): (&str, wearwell::recovery::RecoveryStepCost)| {
        let parts =
            [(step.spare_reads, "spare area"), (step.page_reads, "page read"), (step.programs, "program")];
        let parts: Vec<String> = parts
            .into_iter()
            .filter(|(count, _)| *count > 0)
            .map(|(count, what)| with_plural(count, what))
            .collect();
        (!parts.is_empty()).then(|| format!("{name}: {}", parts.join(", ")))
    };
    let costs: Vec<String> = report.steps.named_step_costs().into_iter().filter_map(cost).collect();
    if costs.is_empty() { Vec::new() } else { vec![format!("Its steps: {}.", costs.join("; "))] }
}
