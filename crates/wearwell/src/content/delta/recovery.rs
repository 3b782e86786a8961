//! Recovery of the delta table.
//!
//! Two sources tell which deltas are current. If records in NVRAM hold the durable deltas
//! (`store/content_records.rs`), nothing is read, except where the interrupted request may have replaced a base. All
//! other designs read every page of deltas: a delta is current if it is the newest of its logical page, and newer than
//! the last full write of it.

use std::collections::BTreeMap;
use std::ops::Range;

use super::CurrentDelta;
use super::packing::{decode_delta_lpns, decode_delta_page_header};
use super::write::base_tag_of;
use crate::address::{Lpn, Ppn};
use crate::data::Fingerprint;
use crate::error::{Error, Result};
use crate::ftl::Ftl;
use crate::nand::Nand;
use crate::operation::Cause;

/// Directory of a flash page of deltas: logical page and byte range of each delta.
type DeltaPageDirectory = Vec<(Lpn, Range<usize>)>;

/// A flash page of deltas, as recovery found it.
struct FoundDeltaPage {
    /// Sequence number of the program that wrote the flash page.
    sequence_number: u64,
    /// Logical page and byte range of each delta in the flash page.
    directory: DeltaPageDirectory,
    /// Data of the flash page; empty if they are unreadable.
    bytes: Vec<u8>,
    /// Whether the data of the page are unreadable. The directory is then from its spare area and has no byte ranges.
    is_lost: bool,
}

/// What recovery knows of the base of a delta that a record in NVRAM holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum BaseOfRecordedDelta {
    /// The interrupted request did not concern the logical page, so the base of the delta is unchanged.
    Unchanged,
    /// The logical page is mapped to this flash page, which may be the base of the delta or newer than the delta.
    Candidate(Ppn),
    /// The logical page is mapped to no flash page.
    Unmapped,
}

impl Ftl {
    /// Rebuilds the delta table in recovery from the flash pages of deltas that the scan found, with their sequence
    /// numbers. `base_of` returns the physical page of a logical page, if it is mapped to one. A delta is current if
    /// its flash page is newer than the last full write of the logical page. If a logical page has several such deltas,
    /// the newest is current. If `recorded` is given, only the delta in the flash page that it names for the logical
    /// page can be current.
    pub(crate) fn rebuild_deltas(
        &mut self,
        mut found: Vec<(u64, Ppn)>,
        recorded: Option<&BTreeMap<Lpn, Ppn>>,
        mut base_of: impl FnMut(&mut Self, Lpn) -> Result<Option<Ppn>>,
    ) -> Result<()> {
        found.sort_unstable_by(|a, b| b.cmp(a));
        for (_, ppn) in found {
            let page = self.read_delta_page(ppn, true)?;
            self.record_delta_page_on_flash(
                ppn,
                &page.directory.iter().map(|&(lpn, _)| lpn).collect::<Vec<_>>(),
            );
            for (lpn, range) in &page.directory {
                let is_possible = recorded.is_none_or(|recorded| recorded.get(lpn) == Some(&ppn));
                let Some(base) = base_of(self, *lpn)? else { continue };
                let is_known = self.delta.as_ref().is_some_and(|stage| stage.has_delta(*lpn));
                if is_possible && !is_known {
                    self.restore_delta_if_of_base(*lpn, ppn, base, &page, range.clone())?;
                }
            }
            self.count_recovered_delta_page(ppn);
        }
        // Pages were found from the newest to the oldest.
        if let Some(stage) = &mut self.delta {
            stage.delta_page_log.make_contiguous().reverse();
        }
        Ok(())
    }

    /// Rebuilds the delta table in recovery from `recorded`, the flash pages of the durable deltas. `base_of` finds the
    /// base page of a logical page's delta. If its last argument is false, it may answer without reading the map that
    /// the base is [`BaseOfRecordedDelta::Unchanged`]; if it is true, it has to look the base up.
    ///
    /// A real drive would need only the flash page of each delta now. The simulation also keeps sizes and contents of
    /// deltas in RAM, so it reads their pages here, without counting flash operations.
    ///
    /// # Errors
    /// [`Error::Damaged`] if a page lacks the delta that the record says is there.
    pub(crate) fn restore_recorded_deltas(
        &mut self,
        recorded: &BTreeMap<Lpn, Ppn>,
        mut base_of: impl FnMut(&mut Self, Lpn, bool) -> Result<BaseOfRecordedDelta>,
    ) -> Result<()> {
        let mut by_page = BTreeMap::<(u64, Ppn), Vec<Lpn>>::new();
        for (&lpn, &ppn) in recorded {
            let opened_at = self.store.blocks().opened_at_sequence(self.store.block_of(ppn));
            by_page.entry((opened_at, ppn)).or_default().push(lpn);
        }
        for ((_, ppn), lpns) in by_page {
            self.restore_recorded_deltas_of_page(ppn, &lpns, &mut base_of)?;
            self.count_recovered_delta_page(ppn);
        }
        Ok(())
    }

    /// Restores in the delta table the deltas of `lpns`. According to records in NVRAM, all of them are in the flash
    /// page `ppn`. The flash read is counted only if a delta has to be compared with its base.
    fn restore_recorded_deltas_of_page(
        &mut self,
        ppn: Ppn,
        lpns: &[Lpn],
        base_of: &mut impl FnMut(&mut Self, Lpn, bool) -> Result<BaseOfRecordedDelta>,
    ) -> Result<()> {
        let mut bases = Vec::with_capacity(lpns.len());
        for &lpn in lpns {
            bases.push((lpn, base_of(self, lpn, false)?));
        }
        bases.retain(|&(_, base)| base != BaseOfRecordedDelta::Unmapped);
        let is_compared = bases.iter().any(|(_, base)| matches!(base, BaseOfRecordedDelta::Candidate(_)));
        let page = self.read_delta_page(ppn, is_compared)?;
        let tag_bytes = self.base_tag_bytes();
        for (lpn, mut base) in bases {
            let range = page.require_range_of_delta(lpn, ppn, tag_bytes)?;
            if page.is_lost && base == BaseOfRecordedDelta::Unchanged {
                base = base_of(self, lpn, true)?;
            }
            match base {
                BaseOfRecordedDelta::Unchanged => {
                    let delta = &page.bytes[range.start..range.end - tag_bytes];
                    let place = CurrentDelta::from_flash(range.len(), delta, Fingerprint::default());
                    self.restore_delta(lpn, ppn, place);
                }
                BaseOfRecordedDelta::Candidate(base) => {
                    self.restore_delta_if_of_base(lpn, ppn, base, &page, range)?;
                }
                BaseOfRecordedDelta::Unmapped => {}
            }
        }
        Ok(())
    }

    /// Enters the delta of `lpn`, bytes `range` of `page`, into the delta table. Does nothing if the delta is older
    /// than `base`, the flash page to which `lpn` is mapped, or was made for another base. `ppn` is the flash page of
    /// the delta.
    fn restore_delta_if_of_base(
        &mut self,
        lpn: Lpn,
        ppn: Ppn,
        base: Ppn,
        page: &FoundDeltaPage,
        range: Range<usize>,
    ) -> Result<()> {
        let base = self.store.read_spare(base, Cause::Recovery)?;
        let tag = &base_tag_of(base.first_write_sequence_number)[..self.base_tag_bytes()];
        let bytes = range.len();
        let delta = if page.is_lost { Some(&[][..]) } else { page.bytes[range].strip_suffix(tag) };
        if let Some(delta) = delta
            && base.first_write_sequence_number <= page.sequence_number
        {
            let of_base = if page.is_lost { Fingerprint::default() } else { base.fingerprint };
            self.restore_delta(lpn, ppn, CurrentDelta::from_flash(bytes, delta, of_base));
        }
        Ok(())
    }

    /// Enters the recovered delta of `lpn` in the flash page `ppn` into the delta table.
    fn restore_delta(&mut self, lpn: Lpn, ppn: Ppn, place: CurrentDelta) {
        let stage = self.delta_state_mut();
        stage.current_deltas.insert(lpn, place);
        stage.record_stored_delta(lpn, ppn);
    }

    /// Counts the flash page of deltas `ppn` as valid if recovery found a current delta in it.
    fn count_recovered_delta_page(&mut self, ppn: Ppn) {
        if self.delta.as_ref().is_some_and(|stage| stage.has_live_deltas(ppn)) {
            self.store.count_recovered_page_valid(ppn);
        }
    }

    /// Reads the flash page of deltas `ppn`. If `is_counted` is `false`, the page is only looked up in the simulated
    /// flash, and no flash operation is counted.
    ///
    /// The logical pages of an unreadable page come from its spare area. The tags that name the bases of the deltas are
    /// then lost, so each delta is taken to belong to the base page that the map names.
    fn read_delta_page(&mut self, ppn: Ppn, is_counted: bool) -> Result<FoundDeltaPage> {
        let geometry = self.store.geometry();
        let (mut bytes, mut spare) =
            (vec![0; geometry.page_bytes as usize], vec![0; geometry.spare_bytes as usize]);
        let read = if is_counted {
            self.store.read(ppn, &mut bytes, Cause::Recovery)
        } else {
            self.store.nand_mut().read(ppn, &mut bytes).map_err(Error::from)
        };
        let error = match read {
            Err(error) if error.is_media_error() => error,
            read => return Ok(FoundDeltaPage::from_readable_page(read?.sequence_number, bytes)),
        };
        let oob = if is_counted {
            self.store.read_spare_bytes(ppn, &mut spare, Cause::Recovery)?
        } else {
            self.store.nand_mut().read_spare(ppn, &mut spare)?
        };
        FoundDeltaPage::from_lost_page(oob.sequence_number, &spare).ok_or(error)
    }
}

impl FoundDeltaPage {
    /// Creates the record of a readable flash page of deltas from its data.
    fn from_readable_page(sequence_number: u64, bytes: Vec<u8>) -> Self {
        let directory = decode_delta_page_header(&bytes).unwrap_or_default();
        Self { sequence_number, directory, bytes, is_lost: false }
    }

    /// Returns the byte range of the delta of `lpn` in the page. The range includes the `tag_bytes` bytes of the base
    /// tag, which names the version to which the delta applies. Fails if the page has no such delta; `ppn` is the
    /// number of the page for the message.
    fn require_range_of_delta(&self, lpn: Lpn, ppn: Ppn, tag_bytes: usize) -> Result<Range<usize>> {
        let found = self.directory.iter().find(|(owner, _)| *owner == lpn).map(|(_, range)| range.clone());
        found.filter(|range| self.is_lost || range.len() >= tag_bytes).ok_or_else(|| {
            Error::Damaged(format!(
                "a record in NVRAM says that flash page {ppn} holds a delta of logical page {lpn}, so that page must \
                 hold one, but does not"
            ))
        })
    }

    /// Creates the record of an unreadable flash page of deltas from its spare area. Returns `None` if the spare area
    /// lists no logical pages.
    fn from_lost_page(sequence_number: u64, spare: &[u8]) -> Option<Self> {
        let directory = decode_delta_lpns(spare)?.into_iter().map(|lpn| (lpn, 0..0)).collect();
        Some(Self { sequence_number, directory, bytes: Vec::new(), is_lost: true })
    }
}
