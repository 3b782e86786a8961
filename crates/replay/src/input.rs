//! Where requests come from: a trace file or a generator. Both can be opened again and again, because every design
//! of a comparison replays the same requests from the start.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use wearwell_config::ConfigError;
use wearwell_trace::{Footprint, FootprintBuilder, Format, OpenOptions, Request, TraceError, TraceReader};

use crate::hosts;
use crate::workload::{self, Generator, Spec, SpecError};

/// The trace format with this name.
///
/// # Errors
/// [`ConfigError::UnknownName`] with the nearest name.
pub fn format_named(name: &str) -> Result<Format, ConfigError> {
    let known = Format::ALL.iter().map(|format| format.name());
    Format::from_name(name).ok_or_else(|| ConfigError::unknown("format", name, known))
}

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
    Workload(Box<Spec>),
    /// Host software, or a substitute for a trace.
    Host(Box<hosts::Spec>),
}

/// An input being read.
#[expect(missing_debug_implementations, reason = "readers are trait objects")]
pub enum Requests {
    /// From a file.
    Trace(Box<dyn TraceReader>),
    /// From a generator.
    Workload(Box<Generator>),
    /// From a host model.
    Host(Box<hosts::Generator>),
}

impl Input {
    /// The generator or host model that a specification names.
    ///
    /// # Errors
    /// [`SpecError`] for anything that neither grammar has.
    pub fn generated(spec: &str) -> Result<Self, SpecError> {
        if hosts::Spec::is_named_by(spec) {
            return Ok(Self::Host(Box::new(spec.parse()?)));
        }
        spec.parse().map(|spec| Self::Workload(Box::new(spec))).map_err(among_all)
    }

    /// As [`Self::generated`], with this seed if the specification names none.
    ///
    /// # Errors
    /// As there.
    pub fn generated_with_seed(spec: &str, seed: u64) -> Result<Self, SpecError> {
        let (generator, content) = spec.split_once('+').map_or((spec, None), |(a, b)| (a, Some(b)));
        let names_seed = generator
            .split_once(':')
            .is_some_and(|(_, keys)| keys.split(',').any(|pair| pair.trim_start().starts_with("seed=")));
        if names_seed {
            return Self::generated(spec);
        }
        let separator = if generator.contains(':') { ',' } else { ':' };
        let content = content.map_or_else(String::new, |content| format!("+{content}"));
        Self::generated(&format!("{generator}{separator}seed={seed}{content}"))
    }

    /// Opens the input at its first request.
    ///
    /// # Errors
    /// Those of [`wearwell_trace::open`].
    pub fn open(&self) -> Result<Requests, TraceError> {
        Ok(match self {
            Self::Trace { path, options } => Requests::Trace(wearwell_trace::open(path, options)?),
            Self::Workload(spec) => Requests::Workload(Box::new(Generator::new(spec))),
            Self::Host(spec) => Requests::Host(Box::new(hosts::Generator::new(spec))),
        })
    }

    /// What the input is called in a report.
    pub fn name(&self) -> String {
        match self {
            Self::Trace { path, options } => options.name_of(path),
            Self::Workload(spec) => spec.to_string(),
            Self::Host(spec) => spec.to_string(),
        }
    }

    /// Reads the input once to learn its extent. A damaged trace counts up to the damage; the replay will meet it
    /// again and say so. `aged_by` is an input that the same device replays before: the extent covers both, the
    /// number of requests and what is said about content do not.
    ///
    /// # Errors
    /// Those of the reader, but for damage after a good start.
    pub fn survey(&self, aged_by: Option<&Input>) -> Result<Survey, TraceError> {
        let mut survey = Survey::default();
        // Only the pages of a trace are numbered anew.
        let mut builder = matches!(self, Self::Trace { .. }).then(FootprintBuilder::default);
        if let Some(aging) = aged_by {
            survey.add(aging, builder.as_mut())?;
            survey.aging_requests = std::mem::take(&mut survey.requests);
            survey.lacks_content = false;
            (survey.is_timed, survey.first_ns) = (false, None);
        }
        match self {
            Self::Workload(spec) => survey.count_workload(spec),
            Self::Host(_) => {
                survey.add(self, None)?;
                survey.footprint_pages = survey.end_bytes.div_ceil(wearwell_trace::PAGE_BYTES);
            }
            Self::Trace { .. } => survey.add(self, builder.as_mut())?,
        }
        if let Some(builder) = builder {
            let footprint = builder.finish()?;
            survey.footprint_pages = u64::from(footprint.pages());
            survey.footprint = Some(Arc::new(footprint));
        }
        Ok(survey)
    }
}

/// What a host model sends in total: a function of its specification, and a whole pass over its requests to find.
#[derive(Clone, Copy, Debug)]
struct Extent {
    requests: u64,
    end_bytes: u64,
    is_timed: bool,
}

impl Extent {
    /// Of this model; a process makes the pass once for each specification.
    fn of(spec: &hosts::Spec) -> Self {
        static KNOWN: Mutex<BTreeMap<String, Extent>> = Mutex::new(BTreeMap::new());
        let name = spec.to_string();
        if let Some(extent) = KNOWN.lock().unwrap_or_else(PoisonError::into_inner).get(&name) {
            return *extent;
        }
        let mut survey = Survey::default();
        let mut generator = hosts::Generator::new(spec);
        let mut request = Request::default();
        while generator.next(&mut request) {
            survey.count(&request);
        }
        let extent =
            Self { requests: survey.requests, end_bytes: survey.end_bytes, is_timed: survey.is_timed };
        KNOWN.lock().unwrap_or_else(PoisonError::into_inner).insert(name, extent);
        extent
    }
}

/// An unknown name is compared with the names of both grammars.
fn among_all(error: SpecError) -> SpecError {
    let SpecError::UnknownKind { name, .. } = error else { return error };
    let kinds = workload::GRAMMAR.kinds.iter().chain(hosts::GRAMMAR.kinds);
    let valid: Vec<&'static str> = kinds.map(|kind| kind.name).collect();
    let nearest = workload::options::nearest(&name, &valid);
    SpecError::UnknownKind { what: "workload", name, nearest, valid: valid.join(", ") }
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
            Self::Host(generator) => Ok(generator.next(into)),
        }
    }

    /// Requests with a time before that of the request in front of them, where the file's times are not those that are delivered.
    fn unsorted_times(&self) -> u64 {
        match self {
            Self::Trace(reader) => reader.unsorted_times(),
            Self::Workload(_) | Self::Host(_) => 0,
        }
    }

    /// Lines that were refused and skipped.
    pub fn rejected(&self) -> u64 {
        match self {
            Self::Trace(reader) => reader.rejected().count,
            Self::Workload(_) | Self::Host(_) => 0,
        }
    }
}

/// What an input touches.
#[derive(Clone, Debug, Default)]
pub struct Survey {
    /// Requests.
    pub requests: u64,
    /// Requests of the other input that ages the device, if there is one.
    pub aging_requests: u64,
    /// Distinct 4-KiB pages that are read, written or zeroed.
    pub footprint_pages: u64,
    /// The byte behind the highest one touched, trims included.
    pub end_bytes: u64,
    /// Whether more than one device number occurs.
    pub several_devices: bool,
    /// Whether some write comes without content.
    pub lacks_content: bool,
    /// Whether the requests come at different times.
    pub is_timed: bool,
    /// Requests of a trace with a time before that of the request in front of them.
    pub unsorted_times: u64,
    /// Time of the first request, nanoseconds.
    first_ns: Option<u64>,
    /// Time of the last request, nanoseconds.
    before_ns: u64,
    /// Dense page numbers, for traces.
    pub footprint: Option<Arc<Footprint>>,
    /// The device number seen last.
    device: Option<u32>,
}

impl Survey {
    fn count_workload(&mut self, spec: &Spec) {
        self.requests = spec.requests;
        self.footprint_pages = spec.pages;
        self.end_bytes = self.end_bytes.max(spec.pages * wearwell_trace::PAGE_BYTES);
        self.lacks_content = spec.content.is_none();
        self.is_timed = spec.arrival != workload::Arrival::Untimed;
    }

    /// Adds what an input touches; its pages too, if they are asked for.
    fn add(&mut self, input: &Input, builder: Option<&mut FootprintBuilder>) -> Result<(), TraceError> {
        match (input, builder) {
            (Input::Host(spec), None) => {
                let extent = Extent::of(spec);
                self.requests += extent.requests;
                self.is_timed |= extent.is_timed;
                self.end_bytes = self.end_bytes.max(extent.end_bytes);
                Ok(())
            }
            (input, builder) => self.read(&mut input.open()?, builder),
        }
    }

    fn read(
        &mut self,
        requests: &mut Requests,
        mut builder: Option<&mut FootprintBuilder>,
    ) -> Result<(), TraceError> {
        let mut request = Request::default();
        loop {
            match requests.next(&mut request) {
                Ok(true) => self.count(&request),
                Ok(false) => {
                    self.unsorted_times = self.unsorted_times.max(requests.unsorted_times());
                    return Ok(());
                }
                Err(error) if error.requests_before().is_some_and(|before| before > 0) => return Ok(()),
                Err(error) => return Err(error),
            }
            if let Some(builder) = &mut builder {
                builder.add(&request);
            }
        }
    }

    fn count(&mut self, request: &Request) {
        self.requests += 1;
        self.unsorted_times += u64::from(request.time_ns < self.before_ns);
        self.before_ns = request.time_ns;
        self.is_timed |= *self.first_ns.get_or_insert(request.time_ns) != request.time_ns;
        if request.len_bytes > 0 {
            let before = self.device.replace(request.device);
            self.several_devices |= before.is_some_and(|before| before != request.device);
            let source_end = request.source_pages().end * wearwell_trace::PAGE_BYTES;
            self.end_bytes = self.end_bytes.max(request.end_bytes()).max(source_end);
        }
        self.lacks_content |= request.op == wearwell_trace::Op::Write && request.content.is_empty();
    }
}
