//! A simulated drive to which Python code sends requests one by one.
//!
//! A request takes microseconds, so the interpreter's lock is not released during it. The state of the flash is
//! returned as one `bytes` object per column, which `NumPy` and Arrow use without a copy.
//!
//! A GC victim policy in Python may let other threads run in the middle of a request. So threads take turns: a thread
//! waits while the drive executes a request of another thread. If the policy itself calls the drive that it serves, the
//! call is refused with an error.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};
use std::time::Duration;

use pyo3::exceptions::{PyAssertionError, PyRuntimeError};
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use serde_json::json;
use wearwell::Error;
use wearwell::address::RemapMode;
use wearwell::flash_view::FlashPageState;
use wearwell::logical_page_form::LogicalPageForm;
use wearwell::nand::{CutOutcome, Geometry};
use wearwell::operation::{Cause, OpKind};
use wearwell::recovery::RecoveryStepCost;
use wearwell::stats::Stats;
use wearwell::store::{BlockState, Stream};
use wearwell_config::ConfigError;
use wearwell_watch::stepped_drive::SteppedDrive;

use crate::columns::{NumpyColumn, PAGE_KINDS_BY_CODE, code_column, code_of, names_of_codes, number_column};
use crate::configuration::Configuration;
use crate::integer::{extract_integer_in_range, repr_of};
use crate::policy::{OnInterrupt, SharedPythonFunction, SharedVictimPolicyState, python_victim_policy};
use crate::refusal_error;

pyo3::create_exception!(
    wearwell,
    PowerLoss,
    PyRuntimeError,
    "Power was lost, during this request or before it. `Device.recover()` restores power and recovers the drive."
);

/// Streams of writes that fill blocks (such as host data or GC copies), with their names. The index of a stream is its
/// code in the table of blocks that Python receives. Code 0 is a block that is not open.
const STREAMS_BY_CODE: [(&str, Option<Stream>); 8] = [
    ("none", None),
    (Stream::Host.name(), Some(Stream::Host)),
    (Stream::Gc.name(), Some(Stream::Gc)),
    (Stream::Translation.name(), Some(Stream::Translation)),
    (Stream::Delta.name(), Some(Stream::Delta)),
    (Stream::Chunk.name(), Some(Stream::Chunk)),
    (Stream::RemapLog.name(), Some(Stream::RemapLog)),
    (Stream::Validity.name(), Some(Stream::Validity)),
];

/// States of blocks, with their names. The index of a state is its code in the table of blocks that Python receives.
const BLOCK_STATES_BY_CODE: [(&str, BlockState); 5] = [
    (BlockState::Free.name(), BlockState::Free),
    (BlockState::Open.name(), BlockState::Open),
    (BlockState::Closed.name(), BlockState::Closed),
    (BlockState::Erasing.name(), BlockState::Erasing),
    (BlockState::Retired.name(), BlockState::Retired),
];

/// What a power cut leaves of the flash operation that it interrupts, by name.
const CUT_OUTCOMES_BY_NAME: [(&str, CutOutcome); 3] = [
    ("before", CutOutcome::NoEffect),
    ("torn", CutOutcome::Torn),
    ("after", CutOutcome::CompletedUnacknowledged),
];

/// Returns what a power cut leaves of the interrupted flash operation, by its name in Python; an error if the name is
/// unknown.
fn cut_outcome_named(name: &str) -> PyResult<CutOutcome> {
    let found = CUT_OUTCOMES_BY_NAME.iter().find(|(each, _)| *each == name).map(|&(_, outcome)| outcome);
    found.ok_or_else(|| {
        refusal_error(ConfigError::unknown_name(
            "outcome",
            name,
            CUT_OUTCOMES_BY_NAME.iter().map(|(name, _)| *name),
        ))
    })
}

/// A flash operation of a request, for Python: kind, cause, plane, count (more than 1 for a series of copies or NVRAM
/// lines).
type KindCausePlaneCount = (&'static str, &'static str, u32, u32);

/// Longest time for which a thread waits for its turn without looking for ctrl-C.
const SIGNAL_CHECK_INTERVAL: Duration = Duration::from_millis(50);

/// Ensures that only one thread at a time uses the drive; other threads wait for their turn.
#[derive(Default)]
struct DriveAccessTurns {
    /// Thread whose request the drive executes; `None` while no thread uses the drive.
    thread_using_drive: Mutex<Option<ThreadId>>,
    /// Signalled when a thread stops using the drive, so that a waiting thread continues.
    drive_released: Condvar,
}

/// Permission of the current thread to use the drive. It ends when this value is dropped.
struct DriveAccessPermission<'a>(&'a DriveAccessTurns);

impl DriveAccessTurns {
    /// Locks the identity of the thread that uses the drive.
    fn lock_thread_using_drive(&self) -> MutexGuard<'_, Option<ThreadId>> {
        self.thread_using_drive.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until no other thread uses the drive. Returns an error if the current thread already uses it (a victim
    /// policy called its own drive), or if ctrl-C ends the wait.
    fn wait_for_turn(&self, py: Python<'_>) -> PyResult<DriveAccessPermission<'_>> {
        let thread = thread::current().id();
        loop {
            match &mut *self.lock_thread_using_drive() {
                free @ None => {
                    *free = Some(thread);
                    return Ok(DriveAccessPermission(self));
                }
                Some(user) if *user == thread => {
                    return Err(refusal_error(
                        "the device is in the middle of a request, so that its victim policy cannot call its methods: \
                         use only the argument blocks in choose, and call methods of the device before or after the \
                         request",
                    ));
                }
                Some(_) => {}
            }
            // The other thread may need the interpreter to end its request.
            py.detach(|| {
                let user = self.lock_thread_using_drive();
                if user.is_some() {
                    drop(self.drive_released.wait_timeout(user, SIGNAL_CHECK_INTERVAL));
                }
            });
            py.check_signals()?;
        }
    }
}

impl Drop for DriveAccessPermission<'_> {
    fn drop(&mut self) {
        *self.0.lock_thread_using_drive() = None;
        self.0.drive_released.notify_one();
    }
}

/// A simulated drive that serves requests from Python.
#[pyclass(frozen, module = "wearwell._native")]
pub(crate) struct Device {
    /// Gives the drive to one thread at a time; other threads wait.
    access_turns: DriveAccessTurns,
    /// The simulated drive. A thread locks it only while `access_turns` gives it the drive.
    drive: Mutex<SteppedDrive>,
    /// Layout of the flash: channels, dies, planes, blocks and pages.
    geometry: Geometry,
    /// Number of pages that are exported to the host.
    logical_pages: u32,
    /// Whether the drive had lost power after the last request.
    is_powerless: AtomicBool,
    /// State of the GC victim policy in Python: it chooses victims, or an exception or ctrl-C has ended it.
    policy_state: SharedVictimPolicyState,
    /// Function of the GC victim policy in Python. It may refer to this object: the garbage collector collects both.
    policy_function: SharedPythonFunction,
}

impl Device {
    /// Converts `lpn`, the number of a logical page, into the offset of its first byte. Returns an error if the drive
    /// has no such page; its message calls the argument `name`.
    fn offset_of_page(&self, name: &str, lpn: &Bound<'_, PyAny>) -> PyResult<u64> {
        let most = u64::from(self.logical_pages) - 1;
        let lpn = extract_integer_in_range(lpn, 0..=most, || {
            format!("{name} is {}, and the device has {} logical pages", repr_of(lpn), self.logical_pages)
        })?;
        Ok(lpn * u64::from(self.geometry.page_bytes))
    }

    /// Converts `pages`, the number of logical pages of a request, into bytes. Returns an error if a request of that
    /// length would reach beyond the end of the drive from one of `offsets` (in bytes) on.
    fn checked_length_bytes<const N: usize>(
        &self,
        pages: &Bound<'_, PyAny>,
        offsets: [u64; N],
    ) -> PyResult<u64> {
        let page_bytes = u64::from(self.geometry.page_bytes);
        let lpn = offsets.into_iter().max().unwrap_or_default() / page_bytes;
        let most = u64::from(self.logical_pages) - lpn;
        let pages = extract_integer_in_range(pages, 0..=most, || {
            format!("pages is {}, and the number of logical pages from {lpn} on is {most}", repr_of(pages))
        })?;
        Ok(pages * page_bytes)
    }

    /// Waits until no other thread uses the drive, and then runs `call` on the drive.
    fn with_drive<T>(
        &self,
        py: Python<'_>,
        call: impl FnOnce(&mut SteppedDrive) -> PyResult<T>,
    ) -> PyResult<T> {
        let _turn = self.access_turns.wait_for_turn(py)?;
        let mut drive = self.drive.lock().unwrap_or_else(PoisonError::into_inner);
        let outcome = call(&mut drive);
        self.is_powerless.store(drive.is_power_lost(), Ordering::Relaxed);
        outcome
    }

    /// Runs `call`, a request of the host, on the drive. The request is refused while power is lost.
    fn execute_request<T>(
        &self,
        py: Python<'_>,
        call: impl FnOnce(&mut SteppedDrive) -> wearwell::Result<T>,
    ) -> PyResult<T> {
        self.with_drive(py, |drive| {
            require_power(drive)?;
            self.call_with_new_operation_log(drive, call)
        })
    }

    /// Empties the drive's list of flash operations and then runs `call` on the drive, so that the list has only the
    /// operations of `call`.
    fn call_with_new_operation_log<T>(
        &self,
        drive: &mut SteppedDrive,
        call: impl FnOnce(&mut SteppedDrive) -> wearwell::Result<T>,
    ) -> PyResult<T> {
        drive.clear_flash_ops();
        call(drive).map_err(|error| self.policy_state.policy_exception_or(engine_exception(&error)))
    }
}

/// Refuses a request while power is lost. Without this check the engine would answer some requests from RAM, without a
/// flash operation that could fail.
fn require_power(drive: &SteppedDrive) -> PyResult<()> {
    if drive.is_power_lost() {
        Err(PowerLoss::new_err("power is lost: call Device.recover() before further requests"))
    } else {
        Ok(())
    }
}

/// Converts the Python argument called `name`, the number of flash operations before a power cut; `None` if the caller
/// gave no number.
fn parse_operation_count(name: &str, count: Option<&Bound<'_, PyAny>>) -> PyResult<Option<u64>> {
    count
        .map(|count| {
            extract_integer_in_range(count, 0..=u64::MAX, || format!("{name} is {}", repr_of(count)))
        })
        .transpose()
}

/// Returns the counters of a drive as JSON.
fn counters_json(stats: &Stats) -> String {
    let by_cause = |counts: &[u64; Cause::COUNT]| -> serde_json::Map<String, serde_json::Value> {
        Cause::ALL.iter().map(|&cause| (cause.name().to_owned(), counts[cause as usize].into())).collect()
    };
    json!({
        "host_page_writes": stats.host_page_writes,
        "host_page_reads": stats.host_page_reads,
        "host_page_trims": stats.host_page_trims,
        "unchanged_writes": stats.unchanged_writes,
        "recycled_writes": stats.recycled_writes,
        "deduplicated_writes": stats.deduplicated_writes,
        "delta_writes": stats.delta_writes,
        "packed_writes": stats.compressed_chunk_writes,
        "remapped_pages": stats.remapped_pages,
        "programs": stats.total_programs(),
        "reads": stats.total_reads(),
        "erases": stats.total_erases(),
        "write_amplification": stats.write_amplification(),
        "gc_victims": stats.gc_victims,
        "retired_blocks": stats.retired_blocks,
        "programs_by_cause": by_cause(&stats.programs),
        "reads_by_cause": by_cause(&stats.reads),
        "erases_by_cause": by_cause(&stats.erases),
    })
    .to_string()
}

/// Returns the Python exception for an error of the engine: `PowerLoss` if power was lost, otherwise `WearwellError`.
fn engine_exception(error: &Error) -> PyErr {
    if error.is_power_loss() {
        PowerLoss::new_err("power was lost during this call: call Device.recover() before further requests")
    } else {
        refusal_error(error)
    }
}

#[pymethods]
impl Device {
    /// Creates an empty drive. `footprint_pages` is the number of pages of 4 KiB that the input touches; it determines
    /// the size of the drive if the configuration sizes the drive to its input.
    #[new]
    #[pyo3(signature = (configuration, design, footprint_pages, victim_policy = None))]
    fn new(
        configuration: &Configuration,
        design: &str,
        footprint_pages: u64,
        victim_policy: Option<(String, Py<PyAny>)>,
    ) -> PyResult<Self> {
        let mut drive =
            SteppedDrive::new(&configuration.config, design, footprint_pages).map_err(refusal_error)?;
        let mut policy_state = SharedVictimPolicyState::default();
        let mut policy_function = SharedPythonFunction::default();
        if let Some((name, choose)) = victim_policy {
            policy_function = SharedPythonFunction::new(choose);
            let (policy, its_outcome) =
                python_victim_policy(name, policy_function.clone(), OnInterrupt::Raise);
            drive.set_user_victim_policy(policy);
            policy_state = its_outcome;
        }
        Ok(Self {
            access_turns: DriveAccessTurns::default(),
            geometry: drive.geometry().clone(),
            logical_pages: drive.logical_pages(),
            is_powerless: AtomicBool::new(false),
            drive: Mutex::new(drive),
            policy_state,
            policy_function,
        })
    }

    /// Reports the function of the victim policy to Python's garbage collector.
    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.policy_function.traverse(&visit)
    }

    /// Drops the function of the victim policy, which ends a cycle of references through the drive.
    fn __clear__(&self) {
        self.policy_function.clear();
    }

    /// Size of the drive's pages, bytes.
    #[getter]
    fn page_bytes(&self) -> u32 {
        self.geometry.page_bytes
    }

    /// Number of pages of a block of the drive.
    #[getter]
    fn block_pages(&self) -> u32 {
        self.geometry.block_pages()
    }

    /// Number of pages that are exported to the host.
    #[getter]
    fn logical_pages(&self) -> u32 {
        self.logical_pages
    }

    /// Number of physical pages of the drive.
    #[getter]
    fn physical_pages(&self) -> u64 {
        self.geometry.pages()
    }

    /// Whether the drive has lost power.
    #[getter]
    fn is_powerless(&self) -> bool {
        self.is_powerless.load(Ordering::Relaxed)
    }

    /// Writes bytes from the start of a logical page on.
    fn write(&self, py: Python<'_>, lpn: &Bound<'_, PyAny>, data: &[u8]) -> PyResult<()> {
        let offset = self.offset_of_page("lpn", lpn)?;
        self.execute_request(py, |drive| drive.write(offset, data))
    }

    /// Reads `pages` logical pages from the page `lpn` on.
    fn read<'py>(
        &self,
        py: Python<'py>,
        lpn: &Bound<'py, PyAny>,
        pages: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let offset = self.offset_of_page("lpn", lpn)?;
        // Not more than the drive has: the bytes are allocated before the drive sees the request.
        let length = self.checked_length_bytes(pages, [offset])?;
        let length = usize::try_from(length).expect("a simulated drive keeps its bytes in memory");
        PyBytes::new_with(py, length, |bytes| self.execute_request(py, |drive| drive.read(offset, bytes)))
    }

    /// Trims `pages` logical pages from the page `lpn` on.
    fn trim(&self, py: Python<'_>, lpn: &Bound<'_, PyAny>, pages: &Bound<'_, PyAny>) -> PyResult<()> {
        let offset = self.offset_of_page("lpn", lpn)?;
        let length = self.checked_length_bytes(pages, [offset])?;
        self.execute_request(py, |drive| drive.trim(offset, length))
    }

    /// Remaps `pages` logical pages: those from `target` on get the contents of those from `source` on. If `relocate`
    /// is set, the source pages are deallocated.
    fn remap(
        &self,
        py: Python<'_>,
        target: &Bound<'_, PyAny>,
        source: &Bound<'_, PyAny>,
        pages: &Bound<'_, PyAny>,
        relocate: bool,
    ) -> PyResult<()> {
        let mode = if relocate { RemapMode::Relocate } else { RemapMode::Copy };
        let target = self.offset_of_page("target", target)?;
        let source = self.offset_of_page("source", source)?;
        let length = self.checked_length_bytes(pages, [target, source])?;
        self.execute_request(py, |drive| drive.remap(target, source, length, mode))
    }

    /// Makes every acknowledged write durable, so that it survives a loss of power.
    fn flush(&self, py: Python<'_>) -> PyResult<()> {
        self.execute_request(py, SteppedDrive::flush)
    }

    /// Cuts the drive's power after `after` more programs, erases and NVRAM stores, or now if `after` is `None`.
    /// `outcome` names what is left of the operation that the cut interrupts.
    #[pyo3(signature = (after, outcome))]
    fn power_cut(&self, py: Python<'_>, after: Option<&Bound<'_, PyAny>>, outcome: &str) -> PyResult<()> {
        let outcome = cut_outcome_named(outcome)?;
        let after = parse_operation_count("after", after)?;
        self.with_drive(py, |drive| {
            match after {
                Some(operations) => drive.cut_power_after(operations, outcome),
                None => drive.cut_power_now(),
            }
            Ok(())
        })
    }

    /// Restores the drive's power and runs the recovery. Returns a report of the recovery's costs as JSON. `cut_after`
    /// and `outcome` arm another power cut, as in `power_cut`, which may interrupt the recovery.
    #[pyo3(signature = (cut_after, outcome))]
    fn recover(
        &self,
        py: Python<'_>,
        cut_after: Option<&Bound<'_, PyAny>>,
        outcome: &str,
    ) -> PyResult<String> {
        let outcome = cut_outcome_named(outcome)?;
        let cut_after = parse_operation_count("cut_after", cut_after)?;
        let next_cut = cut_after.map(|operations| (operations, outcome));
        let report = self.with_drive(py, |drive| {
            self.call_with_new_operation_log(drive, |drive| drive.recover(next_cut))
        })?;
        let cost = |cost: RecoveryStepCost| json!({ "spare_reads": cost.spare_reads, "page_reads": cost.page_reads, "programs": cost.programs });
        let steps = report.steps.named_step_costs().map(|(name, step)| (name.replace(' ', "_"), cost(step)));
        Ok(json!({
            "reads": report.page_and_spare_reads,
            "erases": report.erases,
            "battery_programs": report.battery_programs,
            "battery_reads": report.battery_page_reads,
            "mapped_pages": report.mapped_pages,
            "steps": steps.into_iter().collect::<serde_json::Map<_, _>>(),
        })
        .to_string())
    }

    /// Checks every invariant of the drive's engine; raises `AssertionError` if one does not hold, and `PowerLoss` if
    /// power is lost.
    fn check(&self, py: Python<'_>) -> PyResult<()> {
        self.with_drive(py, |drive| {
            require_power(drive)?;
            drive.check().map_err(PyAssertionError::new_err)
        })
    }

    /// Returns the counters of the drive since it was new, as JSON.
    fn counters(&self, py: Python<'_>) -> PyResult<String> {
        self.with_drive(py, |drive| Ok(counters_json(drive.stats())))
    }

    /// Returns how many bytes of RAM a controller needs for the drive, by data structure.
    fn ram_bytes(&self, py: Python<'_>) -> PyResult<Vec<(&'static str, u64)>> {
        self.with_drive(py, |drive| Ok(drive.ram_bytes_by_structure()))
    }

    /// Returns the flash operations of the drive's last request, in order.
    fn operations(&self, py: Python<'_>) -> PyResult<Vec<KindCausePlaneCount>> {
        let kind = |kind: OpKind| match kind {
            OpKind::Read => "read",
            OpKind::Program => "program",
            OpKind::Erase => "erase",
            OpKind::Copies => "copy",
            OpKind::NvramScan => "nvram-scan",
        };
        self.with_drive(py, |drive| {
            let operations = drive.flash_ops();
            Ok(operations
                .map(|op| (kind(op.kind), op.cause.name(), op.plane.0, op.copied_page_or_nvram_line_count))
                .collect())
        })
    }

    /// Returns the state of the drive's flash as three tables, each a list of columns: one row per flash page, per
    /// block, and per logical page.
    fn view<'py>(&self, py: Python<'py>) -> PyResult<[Vec<NumpyColumn<'py>>; 3]> {
        let view = self.with_drive(py, |drive| {
            require_power(drive)?;
            drive.flash_view().map_err(|error| engine_exception(&error))
        })?;
        let block_pages = self.block_pages();
        let (pages, blocks) = (&view.pages, &view.blocks);
        let states = FlashPageState::ALL.map(FlashPageState::name).to_vec();
        let of_pages = vec![
            number_column(py, "block", (0..pages.len() as u32).map(|ppn| Some(ppn / block_pages))),
            code_column(py, "state", pages.iter().map(|page| page.state as u8), states),
            code_column(
                py,
                "kind",
                pages.iter().map(|page| code_of(&PAGE_KINDS_BY_CODE, &page.kind)),
                names_of_codes(&PAGE_KINDS_BY_CODE),
            ),
            number_column(py, "owner", pages.iter().map(|page| page.owner)),
            number_column(py, "logical_pages", pages.iter().map(|page| Some(page.mapped_logical_pages))),
        ];
        let of_blocks = vec![
            code_column(
                py,
                "state",
                blocks.iter().map(|block| code_of(&BLOCK_STATES_BY_CODE, &block.state)),
                names_of_codes(&BLOCK_STATES_BY_CODE),
            ),
            code_column(
                py,
                "kind",
                blocks.iter().map(|block| code_of(&PAGE_KINDS_BY_CODE, &block.kind)),
                names_of_codes(&PAGE_KINDS_BY_CODE),
            ),
            code_column(
                py,
                "stream",
                blocks.iter().map(|block| code_of(&STREAMS_BY_CODE, &block.stream)),
                names_of_codes(&STREAMS_BY_CODE),
            ),
            number_column(py, "valid_pages", blocks.iter().map(|block| Some(block.valid_pages))),
            number_column(py, "programmed_pages", blocks.iter().map(|block| Some(block.programmed_pages))),
            number_column(py, "erases", blocks.iter().map(|block| Some(block.erases))),
        ];
        let forms = LogicalPageForm::ALL.map(LogicalPageForm::name).to_vec();
        let of_logical = vec![
            number_column(py, "ppn", view.first_flash_page_of_lpn.iter().map(|place| place.map(|ppn| ppn.0))),
            code_column(py, "form", view.form_of_lpn.iter().map(|&form| form as u8), forms),
        ];
        Ok([of_pages, of_blocks, of_logical])
    }
}
