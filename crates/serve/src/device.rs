//! What the front doors ask of a device, and the Wearwell engine as such a device.
//!
//! The NBD server knows [`BlockDevice`] and nothing of flash. [`FlashDevice`] implements it for the engine over any
//! medium that keeps bytes. Hosts may name single bytes; the engine is only given whole pages: a page that is written in
//! part is read and completed here. The price is a read per partial page that the engine's own write buffer might have
//! saved; what is gained is that a recording can say what every page held, so that its replay does the same
//! flash operations.
//!
//! Invariant: what is trimmed or zeroed reads as zeros at once, also where a range ends inside a page.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;

use tracing::{error, info};
use wearwell::address::{Lpn, Ppn, RemapMode};
use wearwell::device::HostData;
use wearwell::nand::{Nand, SimNand};
use wearwell::page_state::PageState;
use wearwell::{Device, Scrubbed};
use wearwell_trace::Op;

use crate::record::{Recorded, Recorder};

/// Why a device refuses or fails a request.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DeviceError {
    /// Beyond the end.
    #[error("{len} bytes at byte {offset} are beyond the device's {capacity} bytes")]
    OutOfRange {
        /// First byte.
        offset: u64,
        /// Bytes.
        len: u64,
        /// Bytes of the device.
        capacity: u64,
    },
    /// There is no room left to write.
    #[error("{0}")]
    Full(String),
    /// The request cannot mean anything.
    #[error("{0}")]
    Invalid(String),
    /// The medium failed.
    #[error("{0}")]
    Failed(String),
    /// The device is served for reading.
    #[error("the device is served for reading only")]
    ReadOnly,
}

/// What the host of a medium has against a write.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Refused {
    /// Says what cannot be done where, why, and what happens now.
    pub sentence: String,
    /// There is no room; all else is well.
    pub is_full: bool,
    /// It makes no sense to try again before the medium is opened again.
    pub is_final: bool,
}

impl From<Refused> for DeviceError {
    fn from(refused: Refused) -> Self {
        if refused.is_full { Self::Full(refused.sentence) } else { Self::Failed(refused.sentence) }
    }
}

/// Flash that can be served. It may hold operations back, which the engine does not notice, until [`Medium::write_deferred`].
pub trait Medium: Nand + Send + 'static {
    /// Writes what was held back, so that it survives what the medium survives without a sync.
    ///
    /// # Errors
    /// What the host has against it. Nothing of it is forgotten; it may be asked again.
    fn write_deferred(&mut self) -> Result<(), Refused> {
        Ok(())
    }

    /// Whether the room of blocks that are erased from now on is given back to whoever lent it, until they are programmed.
    fn give_back_erased(&mut self, _: bool) {}

    /// Copies the medium as it is to a new directory, as an image that was closed.
    ///
    /// # Errors
    /// Those of the host; a medium that is no image.
    fn copy_to(&mut self, _directory: &Path) -> io::Result<()> {
        Err(io::Error::new(io::ErrorKind::Unsupported, "a device in memory has no files"))
    }

    /// What the host refused last, if nothing was written since: what is read is right even so.
    fn refused(&self) -> Option<&Refused> {
        None
    }
}

impl Medium for SimNand {}

impl From<wearwell::Error> for DeviceError {
    fn from(error: wearwell::Error) -> Self {
        use wearwell::Error;
        let sentence = error.to_string();
        match error {
            Error::Full { .. } | Error::NoSpareSpace { .. } => Self::Full(sentence),
            Error::OutOfRange { .. } | Error::NotWholePages { .. } | Error::Options(_) => {
                Self::Invalid(sentence)
            }
            _ => Self::Failed(sentence),
        }
    }
}

/// A run of bytes in one state.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Extent {
    /// Bytes.
    pub len: u64,
    /// How they are stored.
    pub state: PageState,
}

/// A block device as the front doors need it. Addresses are bytes; callers stay inside [`BlockDevice::capacity_bytes`].
///
/// A request is durable after the next [`BlockDevice::flush`]. Requests are executed one after the other, each seen by all
/// later ones; an aligned block of [`BlockDevice::block_bytes`] is never a mix of two writes, whatever happens.
pub trait BlockDevice: Send + 'static {
    /// Bytes the host sees; does not change.
    fn capacity_bytes(&self) -> u64;

    /// The block that is written without a read: a power of two, at least 512.
    fn block_bytes(&self) -> u32;

    /// Whether everything that changes something is refused.
    fn is_read_only(&self) -> bool {
        false
    }

    /// Reads `into.len()` bytes; what was never written reads as zeros.
    ///
    /// # Errors
    /// [`DeviceError::Failed`] if any of them is lost.
    fn read(&mut self, offset: u64, into: &mut [u8]) -> Result<(), DeviceError>;

    /// Writes bytes. An error may leave the first blocks written.
    ///
    /// # Errors
    /// [`DeviceError::Full`], [`DeviceError::Failed`].
    fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<(), DeviceError>;

    /// The host does not need these bytes any more; they read as zeros.
    ///
    /// # Errors
    /// As [`BlockDevice::write`].
    fn trim(&mut self, offset: u64, len: u64) -> Result<(), DeviceError>;

    /// Makes the bytes zeros. With `allocate` they are stored like data, else deallocated where possible.
    ///
    /// # Errors
    /// As [`BlockDevice::write`].
    fn zero(&mut self, offset: u64, len: u64, allocate: bool) -> Result<(), DeviceError>;

    /// What was written, trimmed and zeroed so far may be acknowledged from now on. Somebody who executes several requests
    /// calls this once, before the first is answered.
    ///
    /// # Errors
    /// As [`BlockDevice::write`]: none of them may be acknowledged.
    fn write_deferred(&mut self) -> Result<(), DeviceError> {
        Ok(())
    }

    /// Makes everything before durable, and settles it.
    ///
    /// # Errors
    /// As [`BlockDevice::write`].
    fn flush(&mut self) -> Result<(), DeviceError>;

    /// The first extent of a range of at least one byte; no longer than the range. Costs nothing on flash.
    fn extent(&mut self, offset: u64, len: u64) -> Extent;
}

/// What hosts asked for, in their own units.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct HostCommands {
    /// Reads.
    pub reads: u64,
    /// Writes, with zeroes.
    pub writes: u64,
    /// Trims.
    pub trims: u64,
    /// Flushes that were executed; those that wait together are one.
    pub flushes: u64,
    /// Remaps, by the control socket.
    pub remaps: u64,
    /// Bytes read.
    pub bytes_read: u64,
    /// Bytes written, without zeroes and trims.
    pub bytes_written: u64,
}

/// What a drive is called and has lived through.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Identity {
    /// Design.
    pub design: String,
    /// Program/erase cycles a block is rated for.
    pub endurance_cycles: u32,
    /// Times the device was started, this one included.
    pub power_cycles: u64,
    /// Times it was ended without being told.
    pub unsafe_shutdowns: u64,
}

/// Says that a logical page is lost, and why.
pub(crate) fn sentence_of_loss(lpn: Lpn, ppn: Ppn, page_bytes: u64) -> String {
    let first = u64::from(lpn.0) * page_bytes;
    format!(
        "logical page {lpn} ({page_bytes} bytes from byte {first}) is lost: flash page {ppn} cannot be read"
    )
}

/// The Wearwell engine as a block device.
#[derive(Debug)]
pub struct FlashDevice<N> {
    device: Device<N>,
    identity: Identity,
    page: Box<[u8]>,
    commands: HostCommands,
    recorder: Option<Recorder>,
    /// Whether everything that changes something is refused.
    is_read_only: bool,
    /// Logical pages of a rescued image that are not read, because their newest version cannot be proven.
    unproven: BTreeSet<Lpn>,
    /// What was said of the host's refusals.
    refused: Option<Refused>,
    damage: Damage,
    idle_scrub: IdleScrub,
}

/// Lost logical pages that are named at once; `scrub` of the control socket lists more.
const LOSS_LINES_MAX: usize = 100;

/// What was said of damage.
#[derive(Debug, Default)]
struct Damage {
    /// [`Stats::media_errors`](wearwell::stats::Stats::media_errors) that were looked at.
    media_errors: u64,
    /// Logical pages that are lost.
    lost: BTreeSet<Lpn>,
}

/// Where a scrub in idle time is.
#[derive(Debug)]
struct IdleScrub {
    next: Ppn,
    /// What hosts had asked for when it was looked last.
    commands: HostCommands,
}

/// Zeros that are written at a time.
const ZEROS_BYTES: usize = 1 << 18;
static ZEROS: [u8; ZEROS_BYTES] = [0; ZEROS_BYTES];

impl<N: Medium> FlashDevice<N> {
    /// Serves `device`, whose medium must keep bytes.
    ///
    /// # Errors
    /// [`DeviceError::Invalid`] if it does not.
    pub fn new(device: Device<N>, identity: Identity) -> Result<Self, DeviceError> {
        if !device.ftl().store().nand().keeps_bytes() {
            return Err(DeviceError::Invalid("a medium that keeps no bytes cannot be served".into()));
        }
        let page_bytes = device.ftl().store().geometry().page_bytes as usize;
        Ok(Self {
            page: vec![0; page_bytes].into(),
            commands: HostCommands::default(),
            recorder: None,
            is_read_only: false,
            unproven: BTreeSet::new(),
            refused: None,
            damage: Damage::default(),
            idle_scrub: IdleScrub { next: Ppn(0), commands: HostCommands::default() },
            device,
            identity,
        })
    }

    /// Refuses everything that changes something from now on. A flush has nothing to do.
    #[must_use]
    pub fn for_reading(self) -> Self {
        Self { is_read_only: true, ..self }
    }

    /// Refuses reads of logical pages whose newest version cannot be proven: those that a rescue left out
    /// ([`OpenReport::unproven`](crate::image::OpenReport::unproven)).
    #[must_use]
    pub fn refuse_unproven(self, unproven: BTreeSet<Lpn>) -> Self {
        Self { unproven, ..self }
    }

    /// Logical pages that are not read, because their newest version cannot be proven.
    pub fn unproven_logical_pages(&self) -> usize {
        self.unproven.len()
    }

    /// Whether all logical pages of a range may be read.
    ///
    /// # Errors
    /// [`DeviceError::Failed`] with the first one that may not.
    fn require_proven(&self, offset: u64, len: u64) -> Result<(), DeviceError> {
        let page_bytes = self.page_bytes();
        let first = Lpn((offset / page_bytes) as u32);
        let end = Lpn((offset + len).div_ceil(page_bytes) as u32);
        match self.unproven.range(first..end).next() {
            Some(lpn) => Err(DeviceError::Failed(format!(
                "logical page {lpn} ({page_bytes} bytes from byte {}) cannot be proven: the image is damaged, and what was \
                 written there last is not known",
                u64::from(lpn.0) * page_bytes
            ))),
            None => Ok(()),
        }
    }

    /// Logs the logical pages that are known to be lost. Later losses are logged when a page is found unreadable.
    pub fn log_known_damage(&mut self) {
        self.damage = Damage::default();
        // Pages that were met while the device was opened are told by their logical pages.
        let _ = self.device.ftl_mut().store_mut().take_found_unreadable();
        self.report_damage();
    }

    /// The logical pages that are known to be lost, with the page of flash that cannot be read. O(logical pages) if there
    /// is one.
    pub fn lost_logical_pages(&mut self) -> Vec<(Lpn, Ppn)> {
        self.device.ftl_mut().lost_logical_pages()
    }

    /// Reads pages of flash that are in use from `first` on, `most_pages` at the most; see
    /// [`Ftl::scrub`](wearwell::Ftl::scrub).
    ///
    /// # Errors
    /// [`DeviceError::Failed`] if the medium stopped; a page that cannot be read is none.
    pub fn scrub(&mut self, first: Ppn, most_pages: u32) -> Result<Scrubbed, DeviceError> {
        let mut scrubbed = Scrubbed { next: None, read_pages: 0 };
        self.ask(|device| {
            scrubbed = device.ftl_mut().scrub(first, most_pages)?;
            Ok(())
        })?;
        Ok(scrubbed)
    }

    /// The next pages of an endless scrub, unless hosts asked for something since the last call.
    ///
    /// # Errors
    /// As [`FlashDevice::scrub`].
    pub fn scrub_if_idle(&mut self, most_pages: u32) -> Result<(), DeviceError> {
        let commands = std::mem::replace(&mut self.idle_scrub.commands, self.commands);
        if commands == self.commands {
            let next = self.scrub(self.idle_scrub.next, most_pages)?.next;
            self.idle_scrub.next = next.unwrap_or(Ppn(0));
        }
        Ok(())
    }

    /// Logs every logical page that was lost since the last call; called when a flash page could not be read.
    #[cold]
    fn report_damage(&mut self) {
        let ftl = self.device.ftl_mut();
        self.damage.media_errors = ftl.stats().media_errors;
        let found = ftl.store_mut().take_found_unreadable();
        let lost = ftl.lost_logical_pages();
        let page_bytes = self.page_bytes();
        let new: Vec<_> = lost.iter().filter(|(lpn, _)| !self.damage.lost.contains(lpn)).collect();
        for &&(lpn, ppn) in new.iter().take(LOSS_LINES_MAX) {
            // Collection may have moved it already.
            let ppn = if let [only] = found[..] { only } else { ppn };
            error!("media error: {}", sentence_of_loss(lpn, ppn, page_bytes));
        }
        if new.len() > LOSS_LINES_MAX {
            error!("media error: {} more logical pages are lost", new.len() - LOSS_LINES_MAX);
        }
        if new.is_empty() {
            for ppn in found {
                error!("media error: flash page {ppn} cannot be read; no logical page is lost with it");
            }
        }
        self.damage.lost = lost.into_iter().map(|(lpn, _)| lpn).collect();
    }

    /// Records every operation from now on in a new file; see [`Recorder`].
    ///
    /// # Errors
    /// [`DeviceError::Invalid`] if pages are not those of traces, 4 KiB; [`DeviceError::Failed`] if the file cannot be
    /// written.
    pub fn record_to(&mut self, path: &Path, provenance: &str) -> Result<(), DeviceError> {
        if self.page.len() as u64 != wearwell_trace::PAGE_BYTES {
            return Err(DeviceError::Invalid(format!(
                "a recording holds pages of 4096 bytes and the device has pages of {}: set device.page_bytes=4096",
                self.page.len()
            )));
        }
        self.recorder = Some(Recorder::create(path, provenance)?);
        Ok(())
    }

    /// Ends the recording, if there is one, and returns the number of requests in it.
    ///
    /// # Errors
    /// [`DeviceError::Failed`] if the file could not be written, now or before.
    pub fn end_recording(&mut self) -> Result<Option<u64>, DeviceError> {
        self.recorder.take().map(Recorder::finish).transpose()
    }

    /// Copies the image that is served, as it is now, to a new directory: with everything that was acknowledged, as an image that was
    /// closed. Nothing else is executed meanwhile; where the file system can share room between files, that is a moment, else
    /// as long as the copy takes.
    ///
    /// # Errors
    /// [`DeviceError::Failed`]: the host refuses, the directory exists, the device is in memory.
    pub fn snapshot(&mut self, directory: &Path) -> Result<(), DeviceError> {
        self.flush()?;
        let copied = self.device.ftl_mut().store_mut().nand_mut().copy_to(directory);
        copied.map_err(|error| {
            DeviceError::Failed(format!("cannot copy the image to {}: {error}", directory.display()))
        })
    }

    /// The engine's device.
    pub fn device(&self) -> &Device<N> {
        &self.device
    }

    /// Gives the engine's device back.
    pub fn into_device(self) -> Device<N> {
        self.device
    }

    /// What the host of the medium refuses at present.
    pub fn failure(&self) -> Option<&str> {
        self.medium().refused().map(|refused| refused.sentence.as_str())
    }

    /// What it is.
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// What hosts asked for since the server started.
    pub fn commands(&self) -> HostCommands {
        self.commands
    }

    /// Gives `len` bytes at `target` the contents of those at `source`; see [`Device::remap`].
    ///
    /// # Errors
    /// Those of [`Device::remap`]; more than 1 GiB at once.
    pub fn remap(&mut self, target: u64, source: u64, len: u64, mode: RemapMode) -> Result<(), DeviceError> {
        if len > wearwell_trace::REQUEST_MAX_BYTES {
            return Err(DeviceError::Invalid(format!("remap of {len} bytes: at most 1 GiB at once")));
        }
        self.commands.remaps += 1;
        self.note(Op::Remap(mode), target, len, Recorded { source, bytes: &[] });
        self.change(|device| device.remap(target, source, len, mode))
    }

    /// Has the engine change something, unless the host refuses to write: then it is asked again first.
    fn change(
        &mut self,
        operation: impl FnOnce(&mut Device<N>) -> wearwell::Result<()>,
    ) -> Result<(), DeviceError> {
        if self.is_read_only {
            return Err(DeviceError::ReadOnly);
        }
        if self.medium().refused().is_some() {
            self.write_deferred()?;
        }
        let outcome = self.ask(operation);
        self.tell_refusal()?;
        outcome
    }

    /// Asks the engine, and tells what damage it met.
    fn ask(
        &mut self,
        operation: impl FnOnce(&mut Device<N>) -> wearwell::Result<()>,
    ) -> Result<(), DeviceError> {
        let outcome = operation(&mut self.device);
        if self.device.ftl().stats().media_errors != self.damage.media_errors {
            self.report_damage();
        }
        match outcome {
            Err(error) if error.is_power_loss() => {
                self.tell_refusal()?;
                Err(error.into())
            }
            outcome => Ok(outcome?),
        }
    }

    /// Logs what the host refused, and that it does not any more, once each.
    fn tell_refusal(&mut self) -> Result<(), DeviceError> {
        let refused = self.medium().refused().cloned();
        if refused != self.refused {
            if let Some(refused) = &refused {
                error!("{}", refused.sentence);
            } else {
                info!("the host takes writes again; nothing was lost");
            }
            self.refused.clone_from(&refused);
        }
        refused.map_or(Ok(()), |refused| Err(refused.into()))
    }

    fn medium(&self) -> &N {
        self.device.ftl().store().nand()
    }

    fn page_bytes(&self) -> u64 {
        self.page.len() as u64
    }

    /// Notes what the engine is about to be asked. A recording that cannot be written ends; the device goes on.
    fn note(&mut self, op: Op, offset: u64, len: u64, more: Recorded<'_>) {
        if let Some(recorder) = &mut self.recorder {
            recorder.record(op, offset, len, more);
        }
    }

    fn read_pages(&mut self, offset: u64, into: &mut [u8]) -> Result<(), DeviceError> {
        self.note(Op::Read, offset, into.len() as u64, Recorded::default());
        self.ask(|device| device.read(offset, into.len() as u64, into))
    }

    /// Reads a part of one page.
    fn read_part(&mut self, offset: u64, into: &mut [u8]) -> Result<(), DeviceError> {
        if into.is_empty() {
            return Ok(());
        }
        let start = offset / self.page_bytes() * self.page_bytes();
        let from = (offset - start) as usize;
        let mut page = std::mem::take(&mut self.page);
        let read = self.read_pages(start, &mut page);
        into.copy_from_slice(&page[from..from + into.len()]);
        self.page = page;
        read
    }

    fn write_pages(&mut self, offset: u64, bytes: &[u8]) -> Result<(), DeviceError> {
        self.note(Op::Write, offset, bytes.len() as u64, Recorded { source: 0, bytes });
        self.change(|device| device.write(offset, bytes.len() as u64, HostData::Bytes(bytes)))
    }

    fn trim_pages(&mut self, offset: u64, len: u64) -> Result<(), DeviceError> {
        self.note(Op::Trim, offset, len, Recorded::default());
        self.change(|device| device.trim(offset, len))?;
        // A replay of a recording does nothing of its own accord.
        if self.recorder.is_none() { self.give_back_dead_blocks() } else { Ok(()) }
    }

    /// Erases blocks in which nothing is valid any more and gives their room back, a slice of them.
    fn give_back_dead_blocks(&mut self) -> Result<(), DeviceError> {
        const SLICE_BLOCKS: u32 = 128;
        self.change(|device| {
            device.ftl_mut().store_mut().nand_mut().give_back_erased(true);
            let erased = device.ftl_mut().erase_dead_blocks(SLICE_BLOCKS);
            device.ftl_mut().store_mut().nand_mut().give_back_erased(false);
            erased.map(drop)
        })
    }

    /// Changes a part of one page: reads it, lays `part` over it, writes it.
    fn change_page(&mut self, offset: u64, part: &[u8]) -> Result<(), DeviceError> {
        let start = offset / self.page_bytes() * self.page_bytes();
        let from = (offset - start) as usize;
        let mut page = std::mem::take(&mut self.page);
        let changed = self.read_pages(start, &mut page).and_then(|()| {
            page[from..from + part.len()].copy_from_slice(part);
            self.write_pages(start, &page)
        });
        self.page = page;
        changed
    }

    /// Makes a part of one page zeros; a page that holds nothing has them already.
    fn clear_part(&mut self, offset: u64, len: u64) -> Result<(), DeviceError> {
        if len == 0 || self.page_state_at(offset) == PageState::Hole {
            return Ok(());
        }
        self.change_page(offset, &ZEROS[..len as usize])
    }

    fn deallocate(&mut self, offset: u64, len: u64) -> Result<(), DeviceError> {
        let [before, whole, after] = self.split(offset, len);
        self.clear_part(offset, before)?;
        if whole > 0 {
            self.trim_pages(offset + before, whole)?;
        }
        self.clear_part(offset + before + whole, after)
    }

    /// How a logical page is stored. One that is not proven is no hole: whoever skips holes must read it, and get the error.
    fn page_state_at(&self, offset: u64) -> PageState {
        let lpn = Lpn((offset / self.page_bytes()) as u32);
        if self.unproven.contains(&lpn) { PageState::Stored } else { self.device.page_state(lpn) }
    }

    /// Bytes up to the first whole page, of whole pages, and behind the last one. A range inside one page is all before.
    fn split(&self, offset: u64, len: u64) -> [u64; 3] {
        let page_bytes = self.page_bytes();
        let before = (offset.next_multiple_of(page_bytes) - offset).min(len);
        let whole = (len - before) / page_bytes * page_bytes;
        [before, whole, len - before - whole]
    }

    fn write_zeros(&mut self, offset: u64, len: u64) -> Result<(), DeviceError> {
        let mut done = 0;
        while done < len {
            let bytes = (len - done).min(ZEROS_BYTES as u64);
            self.write_pages(offset + done, &ZEROS[..bytes as usize])?;
            done += bytes;
        }
        Ok(())
    }
}

impl<N: Medium> BlockDevice for FlashDevice<N> {
    fn capacity_bytes(&self) -> u64 {
        self.device.bytes()
    }

    fn block_bytes(&self) -> u32 {
        self.page.len() as u32
    }

    fn is_read_only(&self) -> bool {
        self.is_read_only
    }

    fn read(&mut self, offset: u64, into: &mut [u8]) -> Result<(), DeviceError> {
        self.commands.reads += 1;
        self.commands.bytes_read += into.len() as u64;
        self.require_proven(offset, into.len() as u64)?;
        let [before, whole, after] = self.split(offset, into.len() as u64);
        let (head, rest) = into.split_at_mut(before as usize);
        let (body, tail) = rest.split_at_mut(whole as usize);
        self.read_part(offset, head)?;
        if whole > 0 {
            self.read_pages(offset + before, body)?;
        }
        debug_assert_eq!(tail.len() as u64, after);
        self.read_part(offset + before + whole, tail)
    }

    fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<(), DeviceError> {
        self.commands.writes += 1;
        self.commands.bytes_written += bytes.len() as u64;
        let [before, whole, after] = self.split(offset, bytes.len() as u64);
        let (head, rest) = bytes.split_at(before as usize);
        let (body, tail) = rest.split_at(whole as usize);
        if before > 0 {
            self.change_page(offset, head)?;
        }
        if whole > 0 {
            self.write_pages(offset + before, body)?;
        }
        if after > 0 { self.change_page(offset + before + whole, tail) } else { Ok(()) }
    }

    fn trim(&mut self, offset: u64, len: u64) -> Result<(), DeviceError> {
        self.commands.trims += 1;
        self.deallocate(offset, len)
    }

    fn zero(&mut self, offset: u64, len: u64, allocate: bool) -> Result<(), DeviceError> {
        self.commands.writes += 1;
        if !allocate {
            return self.deallocate(offset, len);
        }
        let [before, whole, after] = self.split(offset, len);
        if before > 0 {
            self.change_page(offset, &ZEROS[..before as usize])?;
        }
        self.write_zeros(offset + before, whole)?;
        if after > 0 {
            self.change_page(offset + before + whole, &ZEROS[..after as usize])?;
        }
        Ok(())
    }

    fn write_deferred(&mut self) -> Result<(), DeviceError> {
        // The refusal itself is told below.
        let _ = self.device.ftl_mut().store_mut().nand_mut().write_deferred();
        self.tell_refusal()
    }

    fn flush(&mut self) -> Result<(), DeviceError> {
        self.commands.flushes += 1;
        if self.is_read_only {
            return Ok(());
        }
        self.note(Op::Flush, 0, 0, Recorded::default());
        self.change(Device::flush)
    }

    fn extent(&mut self, offset: u64, len: u64) -> Extent {
        let state = self.page_state_at(offset);
        let page_bytes = self.page_bytes();
        let mut end = (offset / page_bytes + 1) * page_bytes;
        while end < offset + len && self.page_state_at(end) == state {
            end += page_bytes;
        }
        Extent { len: len.min(end - offset), state }
    }
}
