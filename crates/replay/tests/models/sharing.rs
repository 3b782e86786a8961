//! Remap-SSD: which writes are bound to a stored page of equal content, and which cannot because its counter is full.
//!
//! The model follows sections 4.4 and 5.2 of the paper. It has a store from each content to the page that holds it, and
//! a counter of four bits per page, which counts the logical pages that refer to the page. Remapping to a page whose
//! counter is at 15 is prohibited, and the write programs a page instead. A page that is overwritten with what it holds
//! takes no further reference, so a full counter does not prohibit that. The paper does not say to which copy later
//! duplicates then refer. In the model it is the new one, whose counter has room. A page without references is invalid
//! and is no longer found.
//!
//! Garbage collection moves pages with all their references, so it must not change a count. The same load runs on a
//! drive that never collects and on one that does all the time.

use std::collections::HashMap;

use wearwell::address::RemapMode;
use wearwell::content::dedup::DedupOptions;
use wearwell::design::{SharingOptions, remap};
use wearwell::gc::GcOptions;
use wearwell::sharing::counts::ReferenceCountForm;
use wearwell::sharing::reverse_map::ReverseMapKind;

use super::load::{Drive, PAGE_BYTES, Random, one_pool_geometry};

/// Largest number of logical pages that refer to a flash page: the greatest value of a counter of four bits.
const REFERENCES_MAX: u32 = 15;

/// Model of shared pages: which flash page each logical page refers to, and how often each page is referred to.
#[derive(Default)]
struct SharingModel {
    /// Content and number of references of every flash page ever programmed, by page number.
    content_and_references_of_page: Vec<(u64, u32)>,
    /// Number of the flash page to which each logical page refers.
    page_of_lpn: HashMap<u32, usize>,
    /// Number of the flash page by which later duplicates of a content are found.
    page_with_content: HashMap<u64, usize>,
    /// Number of writes that were mapped to a stored page of equal content, without a program.
    writes_mapped_to_stored_page: u64,
    /// Number of logical pages that remap commands mapped to a stored page.
    remaps: u64,
    /// Number of times that a logical page could not be mapped to a stored page, because the page's reference counter
    /// was full.
    mappings_refused_by_full_counter: u64,
}

impl SharingModel {
    /// Writes a logical page: binds it to a page of equal content, or programs a page.
    fn write(&mut self, lpn: u32, content: u64) {
        match self.page_with_content.get(&content).copied() {
            Some(page) if self.has_room_for_reference(page, lpn) => {
                self.writes_mapped_to_stored_page += 1;
                self.add_reference(lpn, page);
            }
            found => {
                self.mappings_refused_by_full_counter += u64::from(found.is_some());
                self.program_page(lpn, content);
            }
        }
    }

    /// Whether a flash page can take a reference of `lpn`: its counter is not full, or `lpn` refers to it already.
    fn has_room_for_reference(&self, page: usize, lpn: u32) -> bool {
        self.content_and_references_of_page[page].1 < REFERENCES_MAX
            || self.page_of_lpn.get(&lpn) == Some(&page)
    }

    /// Executes the remap command `remap(target, source, 1, copy)`.
    fn remap_copy(&mut self, target: u32, source: u32) {
        let Some(&page) = self.page_of_lpn.get(&source) else { return self.trim(target) };
        if target == source {
        } else if self.has_room_for_reference(page, target) {
            self.remaps += 1;
            self.add_reference(target, page);
        } else {
            self.mappings_refused_by_full_counter += 1;
            self.program_page(target, self.content_and_references_of_page[page].0);
        }
    }

    /// Trims a logical page, which drops its reference.
    fn trim(&mut self, lpn: u32) {
        if let Some(page) = self.page_of_lpn.remove(&lpn) {
            self.drop_reference(page);
        }
    }

    /// Programs a new flash page with a content, to which `lpn` refers from then on.
    fn program_page(&mut self, lpn: u32, content: u64) {
        self.content_and_references_of_page.push((content, 0));
        self.page_with_content.insert(content, self.content_and_references_of_page.len() - 1);
        self.add_reference(lpn, self.content_and_references_of_page.len() - 1);
    }

    /// Makes `lpn` refer to a flash page, and drops its former reference.
    fn add_reference(&mut self, lpn: u32, page: usize) {
        self.content_and_references_of_page[page].1 += 1;
        if let Some(old) = self.page_of_lpn.insert(lpn, page) {
            self.drop_reference(old);
        }
    }

    /// Removes a reference to a flash page; a page without references is no longer found by its content.
    fn drop_reference(&mut self, page: usize) {
        let (content, references) = &mut self.content_and_references_of_page[page];
        *references -= 1;
        if *references == 0 && self.page_with_content.get(content) == Some(&page) {
            self.page_with_content.remove(content);
        }
    }
}

/// Number of logical pages of the drives.
const LOGICAL_PAGES: u32 = 20_000;
/// Number of requests of each run.
const REQUESTS: u32 = 400_000;

/// Runs model and engine on the same requests and compares their counts. Two thirds of the writes have one of 6,000
/// contents, popular ones far more often; some requests are trims and copies.
fn run_model_and_engine(reverse_map: ReverseMapKind, blocks: u32, commands: bool, seed: u64) -> Drive {
    let dedup = Some(DedupOptions { capacity_entries: None, must_verify_hits: false });
    let sharing = SharingOptions {
        reverse_map,
        reference_count_form: ReferenceCountForm::Dense,
        dedup,
        has_atomic_remap_commands: false,
    };
    let mut drive =
        Drive::new(one_pool_geometry(blocks, 64), LOGICAL_PAGES, &remap(GcOptions::default(), sharing));
    let (mut model, mut random) = (SharingModel::default(), Random::new(seed));
    for request in 0..REQUESTS {
        let lpn = random.draw_below(LOGICAL_PAGES as u64) as u32;
        let kind = if commands { random.draw_below(20) } else { 19 };
        match kind {
            0 => {
                model.trim(lpn);
                drive.trim(lpn);
            }
            1 | 2 => {
                let source = random.draw_below(LOGICAL_PAGES as u64) as u32;
                model.remap_copy(lpn, source);
                let [to, from] = [lpn, source].map(|page| page as u64 * PAGE_BYTES as u64);
                drive.device.remap(to, from, PAGE_BYTES as u64, RemapMode::Copy).expect("there is room");
            }
            _ => {
                let common = random.draw_event(2.0 / 3.0);
                let content =
                    1 + if common { random.draw_skewed_below(6_000) } else { 10_000 + request as u64 };
                model.write(lpn, content);
                drive.write(lpn, content);
            }
        }
        let stats = drive.stats();
        let counted = [stats.deduplicated_writes, stats.remapped_pages, stats.writes_due_to_max_referrers];
        assert_eq!(
            counted,
            [model.writes_mapped_to_stored_page, model.remaps, model.mappings_refused_by_full_counter],
            "binds, remaps and full counters, {reverse_map:?}, {blocks} blocks, seed {seed}, after request {request}"
        );
    }
    assert_eq!(drive.stats().writes_due_to_full_reverse_map, 0, "there is room for all entries");
    println!(
        "{reverse_map:?}, {blocks} blocks: {} binds, {} remaps, {} full counters",
        model.writes_mapped_to_stored_page, model.remaps, model.mappings_refused_by_full_counter
    );
    assert!(
        model.mappings_refused_by_full_counter > 1_000,
        "{} full counters",
        model.mappings_refused_by_full_counter
    );
    drive
}

/// The engine deduplicates as many writes as the model, and refuses as many because the reference counter of the stored
/// page is full.
#[test]
fn deduplicated_writes_and_saturated_counters_are_those_of_the_model() {
    let drive = run_model_and_engine(ReverseMapKind::Ideal, 2 * REQUESTS / 64, false, 1);
    assert_eq!(drive.stats().total_erases(), 0);
}

/// Garbage collection does not change how many pages are deduplicated, remapped, or refused because of a full reference
/// counter.
#[test]
fn counts_of_shared_mappings_under_gc_are_those_of_the_model() {
    let drive = run_model_and_engine(ReverseMapKind::Ideal, LOGICAL_PAGES / 64 + 20, true, 2);
    assert!(drive.stats().total_erases() > 2_000, "{} erases", drive.stats().total_erases());
}

/// Reverse maps in segments and in logs, and the ideal reverse map, differ in cost. But as long as they have room for
/// all entries, they map the same logical pages to shared flash pages.
#[test]
fn every_reverse_map_that_is_not_full_holds_the_shared_mappings_of_the_model() {
    let nvram_bytes = 16 << 20;
    for reverse_map in [
        ReverseMapKind::Segments { nvram_bytes, segment_bytes: 1024 },
        ReverseMapKind::Segments { nvram_bytes, segment_bytes: 256 },
        ReverseMapKind::NvramLog { nvram_bytes },
        ReverseMapKind::FlashLog { log_pages: 4096 },
    ] {
        let drive = run_model_and_engine(reverse_map, LOGICAL_PAGES / 64 + 200, true, 3);
        assert!(drive.stats().total_erases() > 1_000, "{} erases", drive.stats().total_erases());
    }
}
