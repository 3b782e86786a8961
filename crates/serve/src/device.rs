//! Interface between servers and devices: the trait [`BlockDevice`], and its implementation [`FlashDevice`] by the
//! Wearwell engine (the FTL).
//!
//! The NBD server knows [`BlockDevice`] and nothing of flash. [`FlashDevice`] implements it for the engine over any
//! medium that keeps bytes. Clients may address single bytes, but the engine is only given whole pages: a page that is
//! written in part is read and completed here. The price is one read per partial page, which the engine's own write
//! buffer might have saved. In return a recording contains the content of every page, so that its replay does the same
//! flash operations.
//!
//! Invariant: trimmed or zeroed bytes read as zeros at once, also where a range ends inside a page.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::path::Path;

use tracing::{error, info};
use wearwell::ScrubProgress;
use wearwell::address::{Lpn, Ppn, RemapMode};
use wearwell::logical_page_form::LogicalPageForm;
use wearwell_trace::Op;

use crate::device_error::{DeviceError, FileIoError};
use crate::image::{UnreadableSectors, advice_for_io_error};
use crate::live_device::LiveDevice;
use crate::medium::Medium;
use crate::operation_recorder::{OperationDetails, OperationRecorder};

/// A range of consecutive bytes of a device whose logical pages all are stored in one way (such as a hole, or a delta).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Extent {
    /// Length of the extent, bytes.
    pub len_bytes: u64,
    /// Way in which all pages of the extent are stored.
    pub logical_page_form: LogicalPageForm,
}

/// A block device as the servers (NBD, control socket) use it. Addresses are bytes; callers stay inside
/// [`BlockDevice::capacity_bytes`].
///
/// A request is durable after the next [`BlockDevice::flush`]. Requests are executed one after the other, and each sees
/// the effects of all earlier ones. An aligned block of [`BlockDevice::write_granularity_bytes`] never holds a mix of
/// two writes, also after a power cut.
pub trait BlockDevice: Send + 'static {
    /// Returns the exported capacity of the device, bytes; it does not change.
    fn capacity_bytes(&self) -> u64;

    /// Returns the write granularity, bytes: the size of an aligned block that can be written without reading it first.
    /// It is a power of two and at least 512.
    fn write_granularity_bytes(&self) -> u32;

    /// Whether the device is read-only: it refuses all requests that would change it.
    fn is_read_only(&self) -> bool {
        false
    }

    /// Reads `into.len()` bytes; bytes that were never written read as zeros.
    ///
    /// # Errors
    /// [`DeviceError::Failed`] if any of the bytes is lost.
    fn read(&mut self, offset: u64, into: &mut [u8]) -> Result<(), DeviceError>;

    /// Writes bytes. After an error the first blocks of the range may be written.
    ///
    /// # Errors
    /// [`DeviceError::Full`], [`DeviceError::Failed`].
    fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<(), DeviceError>;

    /// Counts a trim request of a client, which is executed by one or more calls of [`BlockDevice::trim`].
    fn count_trim_request(&mut self) {}

    /// Counts a zero request of a client, which is executed by one or more calls of [`BlockDevice::zero`].
    fn count_zero_request(&mut self) {}

    /// Deallocates bytes that the host does not need any more; they read as zeros. Not counted as a request.
    ///
    /// # Errors
    /// As [`BlockDevice::write`].
    fn trim(&mut self, offset: u64, len: u64) -> Result<(), DeviceError>;

    /// Fills a range of the device with zeros. With `allocate` the zeros are stored like data. Without it the range is
    /// deallocated where possible. Not counted as a request.
    ///
    /// # Errors
    /// As [`BlockDevice::write`].
    fn zero(&mut self, offset: u64, len: u64, allocate: bool) -> Result<(), DeviceError>;

    /// Writes deferred operations to the files of the medium. After that, all earlier writes, trims and zeroes may be
    /// acknowledged. A caller that executes several requests calls this once, before it answers the first of them.
    ///
    /// # Errors
    /// As [`BlockDevice::write`]. After an error no request since the last call may be acknowledged.
    fn write_operations_to_files(&mut self) -> Result<(), DeviceError> {
        Ok(())
    }

    /// Makes the effects of all requests so far durable, deferred operations included.
    ///
    /// # Errors
    /// As [`BlockDevice::write`].
    fn flush(&mut self) -> Result<(), DeviceError>;

    /// Returns the first extent (bytes stored in one way) of a range of at least one byte. The extent does not reach
    /// beyond the end of the range. Does no flash operation.
    fn first_extent(&mut self, offset: u64, len: u64) -> Extent;
}

/// Numbers of commands and bytes that clients have requested of a device since the server started.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct HostCommandCounts {
    /// Number of read commands of clients.
    pub reads: u64,
    /// Number of write commands of clients, commands that write zeroes included.
    pub writes: u64,
    /// Number of trim commands of clients.
    pub trims: u64,
    /// Number of flushes that were executed; flush commands of clients that wait together are executed as one.
    pub executed_flushes: u64,
    /// Number of remaps by the control socket, one for each range.
    pub remaps: u64,
    /// Number of bytes that clients read.
    pub bytes_read: u64,
    /// Number of bytes that clients wrote by write commands, without those of commands that write zeroes or trim.
    pub bytes_written: u64,
}

/// Facts about a drive for its health report: design, rated endurance, and numbers of starts and unclean ends.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct DriveHealthFacts {
    /// Name of the design of the drive.
    pub design: String,
    /// Program/erase cycles for which a block is rated.
    pub endurance_cycles: u32,
    /// Number of times that the device was started, this start included.
    pub power_cycles: u64,
    /// Number of times that the device ended without being closed (crash, `kill -9`, loss of power).
    pub unsafe_shutdowns: u64,
}

/// Returns the beginning of a sentence which reports that a logical page is lost: the page, and its bytes.
pub(crate) fn lost_page_text(lpn: Lpn, page_bytes: u64) -> String {
    let first = u64::from(lpn.0) * page_bytes;
    format!("logical page {lpn} ({page_bytes} bytes from byte {first}) is lost")
}

/// Returns the sentence which reports that a logical page is lost because flash page `ppn` cannot be read.
pub(crate) fn lost_page_sentence(lpn: Lpn, ppn: Ppn, page_bytes: u64) -> String {
    format!(
        "{lost}: flash page {ppn} cannot be read; overwrite or trim the logical page to use it again",
        lost = lost_page_text(lpn, page_bytes)
    )
}

/// Block device that the Wearwell engine (FTL, flash and write buffer) provides.
#[derive(Debug)]
pub struct FlashDevice {
    /// The engine: FTL, flash and write buffer.
    device: LiveDevice,
    /// Facts for the health report: design, rated endurance, numbers of starts and unclean ends.
    health_facts: DriveHealthFacts,
    /// Buffer of one logical page, through which a part of a page is read or changed.
    page_buffer: Box<[u8]>,
    /// Counts of client commands since the server started.
    host_commands: HostCommandCounts,
    /// Recorder of the operations of the device as a trace; `None` if nothing is recorded.
    recorder: Option<OperationRecorder>,
    /// Whether the device refuses all requests that would change it.
    is_read_only: bool,
    /// Logical pages of a rescued (damaged) image whose stored version may not be the newest one, because metadata is
    /// lost. Reads of these pages are refused.
    lpns_with_possibly_stale_version: BTreeSet<Lpn>,
    /// The last file operation that the operating system refused and that was logged. `None` if there was none, or if
    /// it was logged that operations succeed again.
    logged_os_refusal: Option<FileIoError>,
    /// Damage of the device that was logged already.
    logged_damage: LoggedDamage,
    /// Progress of the scrub (a read of all flash pages in use) in idle time.
    idle_scrub: IdleScrub,
}

/// Most lost logical pages that are logged one by one when damage is found. Of further pages only the number is logged.
/// The command `scrub` of the control socket lists more.
const LOGGED_LOST_PAGES_MAX: usize = 100;

/// Damage of a device that was logged already, so that it is not logged again.
#[derive(Debug, Default)]
struct LoggedDamage {
    /// Value of [`Stats::media_errors`](wearwell::stats::Stats::media_errors) when damage was logged last.
    media_errors: u64,
    /// Logical pages that were known to be lost when damage was logged last.
    lost_lpns: BTreeSet<Lpn>,
}

/// Progress of the scrub that reads all flash pages in use while clients send no commands.
#[derive(Debug)]
struct IdleScrub {
    /// First flash page that the next step of the idle scrub may read.
    next_scrubbed_page: Ppn,
    /// Counts of client commands at the last step of the idle scrub. If they have changed at the next step, the device
    /// is not idle.
    command_counts_at_last_step: HostCommandCounts,
}

/// Maximum number of zero bytes that are written to the engine in one write.
const ZERO_WRITE_MAX_BYTES: usize = 1 << 18;
/// Zeros that are written to the engine if a client writes zeros.
static ZERO_BYTES: [u8; ZERO_WRITE_MAX_BYTES] = [0; ZERO_WRITE_MAX_BYTES];

impl FlashDevice {
    /// Makes a block device of `device`, whose medium must keep the bytes of pages.
    ///
    /// # Errors
    /// [`DeviceError::Invalid`] if the medium keeps no bytes.
    pub fn new(device: LiveDevice, health_facts: DriveHealthFacts) -> Result<Self, DeviceError> {
        if !device.medium().keeps_host_bytes() {
            return Err(DeviceError::Invalid(
                "the medium keeps fingerprints instead of page bytes, so that it cannot be served: make it with \
                 `RetainedPageFields::ALL`".into(),
            ));
        }
        let page_bytes = device.geometry().page_bytes as usize;
        Ok(Self {
            page_buffer: vec![0; page_bytes].into(),
            host_commands: HostCommandCounts::default(),
            recorder: None,
            is_read_only: false,
            lpns_with_possibly_stale_version: BTreeSet::new(),
            logged_os_refusal: None,
            logged_damage: LoggedDamage::default(),
            idle_scrub: IdleScrub {
                next_scrubbed_page: Ppn(0),
                command_counts_at_last_step: HostCommandCounts::default(),
            },
            device,
            health_facts,
        })
    }

    /// Makes the device read-only: it refuses all requests that would change it. A flush succeeds and does nothing.
    #[must_use]
    pub fn into_read_only(self) -> Self {
        Self { is_read_only: true, ..self }
    }

    /// Makes the device refuse reads of the logical pages `unproven`. These are pages of a rescued (damaged) image
    /// whose stored version may not be the newest one
    /// ([`OpenReport::lpns_with_possibly_stale_version`](crate::image::OpenReport::lpns_with_possibly_stale_version)).
    #[must_use]
    pub fn refuse_reads_of_possibly_stale_pages(self, unproven: BTreeSet<Lpn>) -> Self {
        Self { lpns_with_possibly_stale_version: unproven, ..self }
    }

    /// Returns the number of logical pages whose reads are refused because their stored version may not be the newest
    /// one.
    pub fn possibly_stale_lpn_count(&self) -> usize {
        self.lpns_with_possibly_stale_version.len()
    }

    /// Refuses to read a range that contains a logical page of a rescued image whose stored version may not be the
    /// newest one.
    ///
    /// # Errors
    /// [`DeviceError::Failed`] with the first such page of the range.
    fn require_no_possibly_stale_page(&self, offset: u64, len: u64) -> Result<(), DeviceError> {
        let page_bytes = self.page_bytes();
        let first = Lpn((offset / page_bytes) as u32);
        let end = Lpn((offset + len).div_ceil(page_bytes) as u32);
        match self.lpns_with_possibly_stale_version.range(first..end).next() {
            Some(lpn) => Err(DeviceError::Failed(format!(
                "the newest content of logical page {lpn} is not known, because the image is damaged: restore bytes \
                 {} to {} of the device from a backup of the whole device, or the file that occupies them from a \
                 backup of files",
                u64::from(lpn.0) * page_bytes,
                (u64::from(lpn.0) + 1) * page_bytes - 1
            ))),
            None => Ok(()),
        }
    }

    /// Logs the logical pages that are known to be lost. Later losses are logged when a page is found unreadable.
    pub fn log_known_damage(&mut self) {
        self.logged_damage = LoggedDamage::default();
        // Pages found unreadable while the device was opened are reported by their logical pages.
        let _ = self.device.take_found_unreadable_pages();
        self.log_new_damage();
    }

    /// Returns the logical pages that are known to be lost, each with the flash page that cannot be read. Takes
    /// O(logical pages) if any is lost.
    pub fn lost_logical_pages(&mut self) -> Vec<(Lpn, Ppn)> {
        self.device.lost_logical_pages()
    }

    /// Reads up to `most_pages` of the flash pages in use, from page `first` on, to find damage; see
    /// [`Ftl::scrub_step`](wearwell::Ftl::scrub_step).
    ///
    /// # Errors
    /// [`DeviceError::Failed`] if the medium stopped. A page that cannot be read is no error.
    pub fn scrub(&mut self, first: Ppn, most_pages: u32) -> Result<ScrubProgress, DeviceError> {
        let mut scrubbed = ScrubProgress { next_page: None, read_pages: 0 };
        self.run_engine_operation(|device| {
            scrubbed = device.scrub(first, most_pages)?;
            Ok(())
        })?;
        Ok(scrubbed)
    }

    /// Scrubs the next `most_pages` pages of flash, unless clients sent commands since the last call. After the last
    /// page the scrub begins again at the first page.
    ///
    /// # Errors
    /// As [`FlashDevice::scrub`].
    pub fn scrub_if_idle(&mut self, most_pages: u32) -> Result<(), DeviceError> {
        let commands =
            std::mem::replace(&mut self.idle_scrub.command_counts_at_last_step, self.host_commands);
        if commands == self.host_commands {
            let next = self.scrub(self.idle_scrub.next_scrubbed_page, most_pages)?.next_page;
            self.idle_scrub.next_scrubbed_page = next.unwrap_or(Ppn(0));
        }
        Ok(())
    }

    /// Logs every logical page that was lost since the last call of this function. Called after a flash page could not
    /// be read.
    #[cold]
    fn log_new_damage(&mut self) {
        self.logged_damage.media_errors = self.device.stats().media_errors;
        let found = self.device.take_found_unreadable_pages();
        let lost = self.device.lost_logical_pages();
        let page_bytes = self.page_bytes();
        let new: Vec<_> =
            lost.iter().filter(|(lpn, _)| !self.logged_damage.lost_lpns.contains(lpn)).collect();
        for &&(lpn, ppn) in new.iter().take(LOGGED_LOST_PAGES_MAX) {
            // GC may have moved the lost page already.
            let ppn = if let [only] = found[..] { only } else { ppn };
            error!("media error: {}", lost_page_sentence(lpn, ppn, page_bytes));
        }
        if new.len() > LOGGED_LOST_PAGES_MAX {
            error!(
                "media error: further {} logical pages are lost; overwrite or trim them to use them again",
                new.len() - LOGGED_LOST_PAGES_MAX
            );
        }
        if new.is_empty() {
            for ppn in found {
                error!(
                    "media error: flash page {ppn} cannot be read, but no logical page is lost with it, so nothing \
                     has to be done"
                );
            }
        }
        self.logged_damage.lost_lpns = lost.into_iter().map(|(lpn, _)| lpn).collect();
    }

    /// Begins to record all operations of the device in a new trace file; see [`OperationRecorder`]. `provenance` is
    /// the note about the origin of the trace that the file gets.
    ///
    /// # Errors
    /// [`DeviceError::Invalid`] if the device has other pages than traces have (4 KiB); [`DeviceError::Failed`] if the
    /// file cannot be written.
    pub fn record_trace_to(&mut self, path: &Path, provenance: &str) -> Result<(), DeviceError> {
        if self.page_buffer.len() as u64 != wearwell_trace::PAGE_BYTES {
            return Err(DeviceError::Invalid(format!(
                "a recording (--record) has pages of 4096 bytes, and this device has pages of {} bytes: with --memory \
                 set device.page_bytes=4096; an image keeps its page size, so serve a copy that `wearwell copy FROM \
                 TO --set device.page_bytes=4096` made",
                self.page_buffer.len()
            )));
        }
        self.recorder = Some(OperationRecorder::create(path, provenance)?);
        Ok(())
    }

    /// Ends the recording, if one runs, and returns the number of requests in it.
    ///
    /// # Errors
    /// [`DeviceError::Failed`] if the file could not be written, now or before.
    pub fn end_recording(&mut self) -> Result<Option<u64>, DeviceError> {
        self.recorder.take().map(OperationRecorder::finish).transpose()
    }

    /// Returns why the recording of the device has ended before the device; `None` while it goes on, or if there is no
    /// recording.
    pub fn recording_failure_message(&self) -> Option<&str> {
        self.recorder.as_ref().and_then(OperationRecorder::write_failure_message)
    }

    /// Copies the image that is served, in its present state, to a new directory. The copy holds everything that was
    /// acknowledged, and is an image that was closed cleanly. Meanwhile the server executes no request. This takes a
    /// moment if the file system can share blocks between files, and otherwise as long as the copy takes. Returns the
    /// sectors that are damaged in the copy, because the disk could not read them.
    ///
    /// # Errors
    /// [`DeviceError::Invalid`]: the image is served read-only. [`DeviceError::Failed`]: the operating system refuses,
    /// the directory exists, or the device is in memory.
    pub fn snapshot(&mut self, directory: &Path) -> Result<Vec<UnreadableSectors>, DeviceError> {
        if self.is_read_only {
            return Err(DeviceError::Invalid(
                "an image that is served read-only needs no snapshot, because its files do not change: copy its \
                 directory, for example with `cp -r --sparse=always`"
                    .into(),
            ));
        }
        self.flush()?;
        let copied = self.device.medium_mut().copy_image_to(directory);
        copied.map_err(|error| {
            let advice = advice_for_io_error("copy", &error);
            DeviceError::Failed(format!("cannot copy the image to {}: {error}{advice}", directory.display()))
        })
    }

    /// Returns the engine's device: flash, FTL and write buffer.
    pub fn device(&self) -> &LiveDevice {
        &self.device
    }

    /// Checks every conservation law of the engine (rules by which its maps, counters and flash pages must agree).
    /// Takes time in proportion to the flash.
    ///
    /// # Errors
    /// The first law that is broken, as a sentence.
    pub fn check_engine_invariants(&mut self) -> Result<(), String> {
        self.device.check()
    }

    /// Returns the engine's device (flash, FTL and write buffer), for example to close its image.
    pub fn into_live_device(self) -> LiveDevice {
        self.device
    }

    /// Returns the message of the last write that the operating system refused; `None` if writes succeed again.
    pub fn write_failure_message(&self) -> Option<&str> {
        self.medium().unresolved_write_error().map(|refused| refused.message.as_str())
    }

    /// Returns facts about the drive for its health report: design, rated endurance, and numbers of starts and unclean
    /// ends.
    pub fn health_facts(&self) -> &DriveHealthFacts {
        &self.health_facts
    }

    /// Returns the counts of client commands since the server started.
    pub fn host_command_counts(&self) -> HostCommandCounts {
        self.host_commands
    }

    /// Gives the `len` bytes at `target` the contents of the `len` bytes at `source`; see [`LiveDevice::remap`].
    ///
    /// # Errors
    /// Errors of [`LiveDevice::remap`]; more than 1 GiB at once.
    pub fn remap(&mut self, target: u64, source: u64, len: u64, mode: RemapMode) -> Result<(), DeviceError> {
        if len > wearwell_trace::REQUEST_MAX_BYTES {
            return Err(DeviceError::Invalid(format!(
                "a remap of {len} bytes is too long: split it into ranges of at most 1 GiB"
            )));
        }
        let details = OperationDetails { source_offset_bytes: source, written_bytes: &[] };
        let outcome = self.run_recorded_change((Op::Remap(mode), target, len), details, |device| {
            device.remap(target, source, len, mode)
        });
        self.host_commands.remaps += u64::from(!matches!(outcome, Err(DeviceError::Invalid(_))));
        outcome
    }

    /// Returns the part of a remap that was executed before the remap failed: its offset within the `len` bytes, and
    /// its length; see [`LiveDevice::take_executed_part_of_failed_remap`].
    pub(crate) fn take_executed_part_of_failed_remap(
        &mut self,
        target: u64,
        source: u64,
        len: u64,
    ) -> (u64, u64) {
        self.device.take_executed_part_of_failed_remap(target, source, len)
    }

    /// Runs an engine operation that changes the device.
    fn run_operation_that_changes_device(
        &mut self,
        operation: impl FnOnce(&mut LiveDevice) -> wearwell::Result<()>,
    ) -> Result<(), DeviceError> {
        self.require_changes_are_possible()?;
        let outcome = self.run_engine_operation(operation);
        self.log_file_io_error_change()?;
        outcome
    }

    /// Runs an engine operation that changes the device, and records it as `(op, offset, len)` unless it was refused
    /// before any part of it was executed.
    fn run_recorded_change(
        &mut self,
        (op, offset, len): (Op, u64, u64),
        details: OperationDetails<'_>,
        operation: impl FnOnce(&mut LiveDevice) -> wearwell::Result<()>,
    ) -> Result<(), DeviceError> {
        self.require_changes_are_possible()?;
        let outcome = self.run_engine_operation(operation);
        if !matches!(outcome, Err(DeviceError::Invalid(_))) {
            self.record_operation(op, offset, len, details);
        }
        self.log_file_io_error_change()?;
        outcome
    }

    /// Refuses changes of a device that is served read-only. If the operating system refused a write before, deferred
    /// operations are written again first, and changes are refused until that succeeds.
    fn require_changes_are_possible(&mut self) -> Result<(), DeviceError> {
        if self.is_read_only {
            return Err(DeviceError::ReadOnly);
        }
        if self.medium().unresolved_write_error().is_some() {
            self.write_operations_to_files()?;
        }
        Ok(())
    }

    /// Runs an operation of the engine, and logs pages that became unreadable or lost during it.
    fn run_engine_operation(
        &mut self,
        operation: impl FnOnce(&mut LiveDevice) -> wearwell::Result<()>,
    ) -> Result<(), DeviceError> {
        let outcome = operation(&mut self.device);
        if self.device.stats().media_errors != self.logged_damage.media_errors {
            self.log_new_damage();
        }
        match outcome {
            Err(error) if error.is_power_loss() => {
                self.log_file_io_error_change()?;
                Err(error.into())
            }
            outcome => Ok(outcome?),
        }
    }

    /// Logs once that the operating system refused a write, and once that it accepts writes again. Returns an error
    /// while a refusal is not resolved.
    fn log_file_io_error_change(&mut self) -> Result<(), DeviceError> {
        let refused = self.medium().unresolved_write_error().cloned();
        if refused != self.logged_os_refusal {
            if let Some(refused) = &refused {
                error!("{}", refused.message);
            } else {
                info!("the files of the image can be written again; no write was lost");
            }
            self.logged_os_refusal.clone_from(&refused);
        }
        refused.map_or(Ok(()), |refused| Err(refused.into()))
    }

    /// Returns the medium of the engine: flash in memory or in the files of an image.
    fn medium(&self) -> &dyn Medium {
        self.device.medium()
    }

    /// Returns the size of a logical page, bytes.
    fn page_bytes(&self) -> u64 {
        self.page_buffer.len() as u64
    }

    /// Adds an operation of the engine to the trace that is being recorded, if there is one. If the trace file cannot
    /// be written, the recording ends, and the device continues.
    fn record_operation(&mut self, op: Op, offset: u64, len: u64, more: OperationDetails<'_>) {
        if let Some(recorder) = &mut self.recorder {
            recorder.record(op, offset, len, more);
        }
    }

    /// Reads whole logical pages from byte `offset` on, and records the operation.
    fn read_pages(&mut self, offset: u64, into: &mut [u8]) -> Result<(), DeviceError> {
        self.record_operation(Op::Read, offset, into.len() as u64, OperationDetails::default());
        self.run_engine_operation(|device| device.read(offset, into))
    }

    /// Reads a part of one logical page, through a buffer for the whole page.
    fn read_page_part(&mut self, offset: u64, into: &mut [u8]) -> Result<(), DeviceError> {
        if into.is_empty() {
            return Ok(());
        }
        let start = offset / self.page_bytes() * self.page_bytes();
        let from = (offset - start) as usize;
        let mut page = std::mem::take(&mut self.page_buffer);
        let read = self.read_pages(start, &mut page);
        into.copy_from_slice(&page[from..from + into.len()]);
        self.page_buffer = page;
        read
    }

    /// Writes whole logical pages from byte `offset` on, and records the operation.
    fn write_pages(&mut self, offset: u64, bytes: &[u8]) -> Result<(), DeviceError> {
        let details = OperationDetails { source_offset_bytes: 0, written_bytes: bytes };
        self.run_recorded_change((Op::Write, offset, bytes.len() as u64), details, |device| {
            device.write(offset, bytes)
        })
    }

    /// Trims whole logical pages from byte `offset` on, and records the operation. If the device's operations are not
    /// being recorded as a trace, up to 128 blocks without valid pages are then erased.
    fn trim_pages(&mut self, offset: u64, len: u64) -> Result<(), DeviceError> {
        self.run_recorded_change((Op::Trim, offset, len), OperationDetails::default(), |device| {
            device.trim(offset, len)
        })?;
        // The replay of a recording would not do these erases.
        if self.recorder.is_none() { self.erase_and_punch_dead_blocks() } else { Ok(()) }
    }

    /// Erases up to 128 of the blocks that hold no valid page, and returns their file space to the file system (punches
    /// holes).
    fn erase_and_punch_dead_blocks(&mut self) -> Result<(), DeviceError> {
        /// Maximum number of blocks that are erased after one trim.
        const ERASED_BLOCKS_PER_TRIM_MAX: u32 = 128;
        self.run_operation_that_changes_device(|device| {
            device.medium_mut().set_hole_punching(true);
            let erased = device.erase_blocks_without_valid_pages(ERASED_BLOCKS_PER_TRIM_MAX);
            device.medium_mut().set_hole_punching(false);
            erased.map(drop)
        })
    }

    /// Changes a part of one logical page: reads the page, overwrites the part, and writes the page.
    fn overwrite_page_part(&mut self, offset: u64, part: &[u8]) -> Result<(), DeviceError> {
        let start = offset / self.page_bytes() * self.page_bytes();
        let from = (offset - start) as usize;
        let mut page = std::mem::take(&mut self.page_buffer);
        let changed = self.read_pages(start, &mut page).and_then(|()| {
            page[from..from + part.len()].copy_from_slice(part);
            self.write_pages(start, &page)
        });
        self.page_buffer = page;
        changed
    }

    /// Fills a part of one logical page with zeros. Does nothing if the page is a hole, which reads as zeros already.
    fn write_zeros_to_page_part(&mut self, offset: u64, len: u64) -> Result<(), DeviceError> {
        if len == 0 || self.logical_page_form_at(offset) == LogicalPageForm::Hole {
            return Ok(());
        }
        self.overwrite_page_part(offset, &ZERO_BYTES[..len as usize])
    }

    /// Deallocates a range of bytes: trims its whole logical pages, and fills its partial pages at both ends with
    /// zeros.
    fn deallocate_range(&mut self, offset: u64, len: u64) -> Result<(), DeviceError> {
        let [before, whole, after] = self.device.split_at_page_boundaries(offset, len);
        self.write_zeros_to_page_part(offset, before)?;
        if whole > 0 {
            self.trim_pages(offset + before, whole)?;
        }
        self.write_zeros_to_page_part(offset + before + whole, after)
    }

    /// Returns the form in which the logical page that contains byte `offset` is stored. A page of a rescued image
    /// whose stored version may not be the newest one is not reported as a hole. So a client that skips holes reads the
    /// page and receives the error.
    fn logical_page_form_at(&self, offset: u64) -> LogicalPageForm {
        let lpn = Lpn((offset / self.page_bytes()) as u32);
        if self.lpns_with_possibly_stale_version.contains(&lpn) {
            LogicalPageForm::InOwnFlashPage
        } else {
            self.device.logical_page_form(lpn)
        }
    }

    /// Stores zeros in a range of whole logical pages.
    fn write_zeros(&mut self, offset: u64, len: u64) -> Result<(), DeviceError> {
        let mut done = 0;
        while done < len {
            let bytes = (len - done).min(ZERO_WRITE_MAX_BYTES as u64);
            self.write_pages(offset + done, &ZERO_BYTES[..bytes as usize])?;
            done += bytes;
        }
        Ok(())
    }
}

impl BlockDevice for FlashDevice {
    fn capacity_bytes(&self) -> u64 {
        self.device.capacity_bytes()
    }

    fn write_granularity_bytes(&self) -> u32 {
        self.page_buffer.len() as u32
    }

    fn is_read_only(&self) -> bool {
        self.is_read_only
    }

    fn read(&mut self, offset: u64, into: &mut [u8]) -> Result<(), DeviceError> {
        self.host_commands.reads += 1;
        self.host_commands.bytes_read += into.len() as u64;
        self.require_no_possibly_stale_page(offset, into.len() as u64)?;
        let [before, whole, after] = self.device.split_at_page_boundaries(offset, into.len() as u64);
        let (head, rest) = into.split_at_mut(before as usize);
        let (body, tail) = rest.split_at_mut(whole as usize);
        self.read_page_part(offset, head)?;
        if whole > 0 {
            self.read_pages(offset + before, body)?;
        }
        debug_assert_eq!(tail.len() as u64, after);
        self.read_page_part(offset + before + whole, tail)
    }

    fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<(), DeviceError> {
        self.host_commands.writes += 1;
        self.host_commands.bytes_written += bytes.len() as u64;
        let [before, whole, after] = self.device.split_at_page_boundaries(offset, bytes.len() as u64);
        let (head, rest) = bytes.split_at(before as usize);
        let (body, tail) = rest.split_at(whole as usize);
        if before > 0 {
            self.overwrite_page_part(offset, head)?;
        }
        if whole > 0 {
            self.write_pages(offset + before, body)?;
        }
        if after > 0 { self.overwrite_page_part(offset + before + whole, tail) } else { Ok(()) }
    }

    fn count_trim_request(&mut self) {
        self.host_commands.trims += 1;
    }

    fn count_zero_request(&mut self) {
        self.host_commands.writes += 1;
    }

    fn trim(&mut self, offset: u64, len: u64) -> Result<(), DeviceError> {
        self.deallocate_range(offset, len)
    }

    fn zero(&mut self, offset: u64, len: u64, allocate: bool) -> Result<(), DeviceError> {
        if !allocate {
            return self.deallocate_range(offset, len);
        }
        let [before, whole, after] = self.device.split_at_page_boundaries(offset, len);
        if before > 0 {
            self.overwrite_page_part(offset, &ZERO_BYTES[..before as usize])?;
        }
        self.write_zeros(offset + before, whole)?;
        if after > 0 {
            self.overwrite_page_part(offset + before + whole, &ZERO_BYTES[..after as usize])?;
        }
        Ok(())
    }

    fn write_operations_to_files(&mut self) -> Result<(), DeviceError> {
        // `log_file_io_error_change` reports the refusal.
        let _ = self.device.medium_mut().write_operations_to_files();
        self.log_file_io_error_change()
    }

    fn flush(&mut self) -> Result<(), DeviceError> {
        self.host_commands.executed_flushes += 1;
        if self.is_read_only {
            return Ok(());
        }
        self.run_recorded_change((Op::Flush, 0, 0), OperationDetails::default(), LiveDevice::flush)
    }

    fn first_extent(&mut self, offset: u64, len: u64) -> Extent {
        let state = self.logical_page_form_at(offset);
        let page_bytes = self.page_bytes();
        let mut end = (offset / page_bytes + 1) * page_bytes;
        while end < offset + len && self.logical_page_form_at(end) == state {
            end += page_bytes;
        }
        Extent { len_bytes: len.min(end - offset), logical_page_form: state }
    }
}
