//! Where requests come from: a trace file or a generator. Both can be opened again and again, because every design
//! of a comparison replays the same requests from the start.

use std::path::PathBuf;

use crate::trace::{self, Footprint, OpenOptions, Request, TraceError, TraceReader};
use crate::workload::{Generator, Spec};

/// A source of requests.
#[derive(Clone, Debug)]
pub enum Input {
    /// A trace file.
    Trace {
        /// The file.
        path: PathBuf,
        /// How to read it.
        options: OpenOptions,
    },
    /// A generated workload.
    Workload(Spec),
}

/// An input being read.
#[expect(missing_debug_implementations, reason = "readers are trait objects")]
pub enum Requests {
    /// From a file.
    Trace(Box<dyn TraceReader>),
    /// From a generator.
    Workload(Box<Generator>),
}

impl Input {
    /// Opens the input at its first request.
    ///
    /// # Errors
    /// Those of [`trace::open`].
    pub fn open(&self) -> Result<Requests, TraceError> {
        Ok(match self {
            Self::Trace { path, options } => Requests::Trace(trace::open(path, options)?),
            Self::Workload(spec) => Requests::Workload(Box::new(Generator::new(spec))),
        })
    }

    /// What the input is called in a report.
    pub fn name(&self) -> String {
        match self {
            Self::Trace { path, .. } => path.display().to_string(),
            Self::Workload(spec) => spec.to_string(),
        }
    }

    /// Reads the input once to learn its extent. A damaged trace counts up to the damage; the replay will meet it
    /// again and say so.
    ///
    /// # Errors
    /// Those of the reader, but for damage after a good start.
    pub fn survey(&self) -> Result<Survey, TraceError> {
        match self {
            Self::Workload(spec) => Ok(Survey::of_workload(spec)),
            Self::Trace { .. } => Survey::of_trace(&mut self.open()?),
        }
    }
}

impl Requests {
    /// Fills `into` with the next request; `false` at the end.
    ///
    /// # Errors
    /// Those of the trace reader; a generator has none.
    #[inline]
    pub fn next(&mut self, into: &mut Request) -> Result<bool, TraceError> {
        match self {
            Self::Trace(reader) => reader.next(into),
            Self::Workload(generator) => Ok(generator.next(into)),
        }
    }

    /// Lines that were refused and skipped.
    pub fn rejected(&self) -> u64 {
        match self {
            Self::Trace(reader) => reader.rejected().count,
            Self::Workload(_) => 0,
        }
    }
}

/// What an input touches.
#[derive(Clone, Debug)]
pub struct Survey {
    /// Requests.
    pub requests: u64,
    /// Distinct 4-KiB pages that are read or written.
    pub footprint_pages: u64,
    /// The byte behind the highest one touched.
    pub end_bytes: u64,
    /// Whether more than one device number occurs.
    pub several_devices: bool,
    /// Whether some write comes without content.
    pub lacks_content: bool,
    /// Dense page numbers, for traces.
    pub footprint: Option<Footprint>,
}

impl Survey {
    fn of_workload(spec: &Spec) -> Self {
        Self {
            requests: spec.requests,
            footprint_pages: spec.pages,
            end_bytes: spec.pages * trace::PAGE_BYTES,
            several_devices: false,
            lacks_content: spec.content.is_none(),
            footprint: None,
        }
    }

    fn of_trace(requests: &mut Requests) -> Result<Self, TraceError> {
        let mut builder = trace::FootprintBuilder::default();
        let mut request = Request::default();
        let mut survey = Self {
            requests: 0,
            footprint_pages: 0,
            end_bytes: 0,
            several_devices: false,
            lacks_content: false,
            footprint: None,
        };
        let mut device = None;
        loop {
            match requests.next(&mut request) {
                Ok(true) => survey.count(&request, &mut device),
                Ok(false) => break,
                Err(error) if error.requests_before().is_some_and(|before| before > 0) => break,
                Err(error) => return Err(error),
            }
            builder.add(&request);
        }
        let footprint = builder.finish()?;
        survey.footprint_pages = footprint.pages() as u64;
        survey.footprint = Some(footprint);
        Ok(survey)
    }

    fn count(&mut self, request: &Request, device: &mut Option<u32>) {
        self.requests += 1;
        self.several_devices |= device.replace(request.device).is_some_and(|before| before != request.device);
        if matches!(request.op, trace::Op::Read | trace::Op::Write | trace::Op::Zero) {
            self.end_bytes = self.end_bytes.max(request.end_bytes());
        }
        self.lacks_content |= request.op == trace::Op::Write && request.content.is_empty();
    }
}
