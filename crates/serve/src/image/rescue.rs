//! Rescue of a damaged image: determines the logical pages that certainly have their newest version, and leaves out the
//! rest.
//!
//! If both copies of some metadata of an image are damaged, the image cannot be opened normally, because its records do
//! not determine the newest version of every logical page. For most logical pages they still do. A logical page is
//! *proven* if its map entry in NVRAM is known to be the newest one, and names a page whose OOB record is undamaged.
//! The data is compared with the checksum of that record when it is read. All other logical pages are *unproven*: their
//! map entries are emptied, so that the engine recovers without them, and the server answers `EIO` for them. Nothing is
//! guessed, so a read returns the right data or an error.
//!
//! If both copies of one of these records are damaged, the following logical pages are unproven:
//!
//! - a sector of NVRAM: the logical pages whose map entries lie in the sector, except entries that the journal holds;
//! - records of the journal: the logical pages whose map entries lie in a sector that was written before these records,
//!   except entries that newer records hold;
//! - the OOB record of a page: the logical pages whose map entries name the page; for a page of a compressed chunk, all
//!   logical pages that are stored in chunks;
//! - the state word of a block: no logical page, because the OOB records of the block's pages suffice.
//!
//! Some designs have to read every page of a kind to know the newest version: pages of a map on flash, pages of deltas,
//! or all pages, if the map is stored nowhere. If such a page may be missing, no logical page is proven, and the image
//! cannot be rescued.

use std::collections::BTreeSet;

use wearwell::address::{BlockId, Lpn, Ppn};
use wearwell::content::compress::MAX_CHUNK_MEMBERS;
use wearwell::design::{MappingPart, Parts, Persistence};
use wearwell::nand::{Nand as _, Oob, PageKind, SimNand};
use wearwell_config::Config;

use super::backing::Backing;
use super::error::ImageError;
use super::image_file::ImageFile;
use super::layout::{
    DEVICE_STATE_SECTOR_BYTES, ImageHeader, Layout, METADATA_RECORD_BYTES, OobSlot, SessionRecord,
};
use super::load::{LoadedFlash, SkippedMetadata};
use super::metadata_copy::METADATA_COPIES;
use super::parts_and_endurance_cycles_of;

/// Returns the highest journal record number that is stored outside the journal: in the session record, the sectors of
/// the file `nvram`, or the OOB records. An OOB record counts with its number minus one, because its page may have been
/// programmed for a record that was never written.
pub(super) fn newest_journal_record_number(
    backing: &impl Backing,
    layout: &Layout,
    session: &SessionRecord,
) -> u64 {
    let of_session = if session.was_closed { session.last_journal_record_number } else { 0 };
    let sectors = (0..layout.device_state_sector_count()).filter_map(|index| {
        let numbers = METADATA_COPIES.map(|side| {
            let mut bytes = [0; DEVICE_STATE_SECTOR_BYTES];
            let is_read = side.read_metadata(
                backing,
                layout,
                ImageFile::Nvram,
                &mut bytes,
                index * DEVICE_STATE_SECTOR_BYTES as u64,
            );
            is_read
                .then(|| layout.decode_device_state_sector(index, &bytes))
                .flatten()
                .map(|sector| sector.last_journal_record_number)
        });
        numbers.into_iter().flatten().max()
    });
    let pages = (0..layout.geometry.pages() as u32).map(Ppn).filter_map(|ppn| {
        let numbers = METADATA_COPIES.map(|side| {
            let mut bytes = [0; METADATA_RECORD_BYTES];
            let is_read = side.read_metadata(
                backing,
                layout,
                ImageFile::Flash,
                &mut bytes,
                layout.oob_record_offset(ppn),
            );
            match layout.decode_oob_slot(ppn, &bytes) {
                OobSlot::Record(record) if is_read => record.journal_record_number.saturating_sub(1),
                _ => 0,
            }
        });
        numbers.into_iter().max()
    });
    sectors.chain(pages).max().unwrap_or(0).max(of_session)
}

/// Empties the L2P map entries of all logical pages whose stored version may not be the newest one according to the
/// undamaged metadata, and returns these pages.
///
/// # Errors
/// [`ImageError::NoPageProvablyNewest`] if no logical page is certain to have its newest version.
pub(super) fn unmap_possibly_stale_pages(
    loaded: &mut LoadedFlash,
    image_header: &ImageHeader,
    config: &Config,
    layout: &Layout,
) -> Result<BTreeSet<Lpn>, ImageError> {
    let (parts, _) = parts_and_endurance_cycles_of(config, image_header)?;
    if let Some(reason) = reason_that_rescue_is_impossible(&parts, &loaded.skipped_metadata, layout) {
        let findings = std::iter::once(reason.to_owned()).chain(loaded.findings.iter().cloned()).collect();
        return Err(ImageError::NoPageProvablyNewest { findings });
    }
    if !has_flat_map_in_nvram(&parts) {
        return Ok(BTreeSet::new());
    }
    let map = FlatNvramMap {
        first_map_word_index: layout.nvram_words - u64::from(image_header.logical_pages),
        layout,
        parts: &parts,
    };
    // With a chunk page missing, an older chunk could have the same number.
    let lacks_chunks = may_lack_page_kind(&loaded.skipped_metadata, PageKind::Chunk);
    let chunks = if lacks_chunks {
        BTreeSet::new()
    } else {
        found_compressed_chunk_numbers(&mut loaded.flash_model, layout)
    };
    let unproven: BTreeSet<Lpn> = (0..image_header.logical_pages)
        .map(Lpn)
        .filter(|&lpn| {
            !map.is_map_entry_provably_newest(lpn, &mut loaded.flash_model, &loaded.skipped_metadata, &chunks)
        })
        .collect();
    for lpn in &unproven {
        loaded.flash_model.store_nvram_word(map.map_word_index(*lpn) as usize, 0).expect("a model has power");
    }
    Ok(unproven)
}

/// Whether a design has an L2P map with one entry per logical page in NVRAM.
fn has_flat_map_in_nvram(parts: &Parts) -> bool {
    matches!(parts.mapping, MappingPart::Flat) && parts.persistence == Persistence::NvramMap
}

/// Whether damaged metadata may hide a page of kind `kind`: such a page may be missing from the loaded state, or a
/// loaded one may have been erased since.
fn may_lack_page_kind(skipped_metadata: &SkippedMetadata, kind: PageKind) -> bool {
    let is_missing = skipped_metadata.pages.iter().any(|&(_, found)| found.is_none_or(|found| found == kind));
    is_missing || skipped_metadata.blocks.iter().any(|&(_, found)| found == Some(kind))
}

/// Returns the reason why no logical page of a damaged image can be proven, or `None` if some can.
fn reason_that_rescue_is_impossible(
    parts: &Parts,
    skipped_metadata: &SkippedMetadata,
    layout: &Layout,
) -> Option<&'static str> {
    let lacks_nvram =
        skipped_metadata.unknown_device_state_word_indices.range(..layout.nvram_words).next().is_some();
    let lacks_any =
        !skipped_metadata.unknown_device_state_word_indices.is_empty() || !skipped_metadata.pages.is_empty();
    if parts.persistence != Persistence::NvramMap && lacks_any {
        return Some(
            "recovery rebuilds the map of the image from the spare areas of all flash pages, which must be readable, \
             but the newest page of any logical page may be missing",
        );
    }
    if !matches!(parts.mapping, MappingPart::Flat) && (lacks_nvram || !skipped_metadata.pages.is_empty()) {
        return Some(
            "the map of the image is on flash and must be readable, but the map entry of any logical page may be \
             missing",
        );
    }
    if parts.content.delta.is_some() && may_lack_page_kind(skipped_metadata, PageKind::Delta) {
        return Some(
            "all pages of deltas must be readable, but one may be missing, and it may hold the newest version of any \
             logical page",
        );
    }
    None
}

/// Returns the numbers of the compressed chunks (groups of logical pages) whose pages were found.
fn found_compressed_chunk_numbers(flash_model: &mut SimNand, layout: &Layout) -> BTreeSet<u32> {
    let pages = (0..layout.geometry.pages() as u32).map(Ppn);
    let oobs = pages.filter_map(|ppn| oob_of(flash_model, layout, ppn));
    oobs.filter(|oob| oob.kind == PageKind::Chunk).map(|oob| oob.owner).collect()
}

/// Returns the OOB of a page; `None` if it is not programmed, is unreadable, or lies in a bad block.
fn oob_of(flash_model: &mut SimNand, layout: &Layout, ppn: Ppn) -> Option<Oob> {
    let block = BlockId(ppn.0 / layout.geometry.block_pages());
    if flash_model.is_bad(block) {
        return None;
    }
    flash_model.probe_page(ppn).ok().flatten()
}

/// The L2P map in NVRAM of a design with a flat map: the last words of the NVRAM, one for each logical page.
struct FlatNvramMap<'a> {
    /// Index of the NVRAM word with the map entry of logical page 0.
    first_map_word_index: u64,
    /// Layout of the image.
    layout: &'a Layout,
    /// Parts of the design, which determine the form of the map entries.
    parts: &'a Parts,
}

impl FlatNvramMap<'_> {
    /// Returns the index of the NVRAM word with the map entry of a logical page.
    fn map_word_index(&self, lpn: Lpn) -> u64 {
        self.first_map_word_index + u64::from(lpn.0)
    }

    /// Whether the map entry of a logical page is proven: it is certainly the newest one, and the page or chunk that it
    /// names was found.
    fn is_map_entry_provably_newest(
        &self,
        lpn: Lpn,
        flash_model: &mut SimNand,
        skipped_metadata: &SkippedMetadata,
        found_chunk_numbers: &BTreeSet<u32>,
    ) -> bool {
        let index = self.map_word_index(lpn);
        if skipped_metadata.unknown_device_state_word_indices.contains(&index) {
            return false;
        }
        let Some(unit) = flash_model.nvram()[index as usize].checked_sub(1) else { return true };
        let pages = self.layout.geometry.pages();
        if unit >= pages {
            return u32::try_from((unit - pages) / MAX_CHUNK_MEMBERS as u64)
                .is_ok_and(|number| found_chunk_numbers.contains(&number));
        }
        let Some(oob) = oob_of(flash_model, self.layout, Ppn(unit as u32)) else { return false };
        let is_shared = self.parts.content.sharing.is_some() || self.parts.content.recycle.is_some();
        oob.kind == PageKind::Data && (is_shared || oob.owner == lpn.0)
    }
}
