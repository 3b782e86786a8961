//! Sources of requests: a trace file, a workload generator, or a model of host software. Each can be opened repeatedly,
//! because every design of a comparison replays the same requests from the start.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use wearwell::data::KnownContentSizes;
use wearwell_config::ConfigError;
use wearwell_trace::{Footprint, FootprintBuilder, Format, OpenOptions, Request, TraceError, TraceReader};

use crate::host_models;
use crate::workload::{self, SpecError, WorkloadGenerator, WorkloadSpec};

/// Returns the trace format called `name`.
///
/// # Errors
/// [`ConfigError::UnknownName`], with the most similar name as a suggestion.
pub fn trace_format_named(name: &str) -> Result<Format, ConfigError> {
    let known = Format::ALL.iter().map(|format| format.name());
    Format::from_name(name).ok_or_else(|| ConfigError::unknown_name("format", name, known))
}

/// A source of requests that can be opened repeatedly.
#[derive(Clone, Debug)]
pub enum Input {
    /// A trace file on disk.
    Trace {
        /// Path of the trace file.
        path: PathBuf,
        /// How to read the trace file (format and filters).
        options: OpenOptions,
    },
    /// A synthetic workload from a generator.
    Workload(Box<WorkloadSpec>),
    /// A model of host software (file system, database), or a synthetic substitute for a trace.
    Host(Box<host_models::HostModelSpec>),
}

/// An input that is being read, request by request.
#[expect(missing_debug_implementations, reason = "readers are trait objects")]
pub enum InputReader {
    /// Requests from a trace file.
    Trace(Box<dyn TraceReader>),
    /// Requests from a workload generator.
    Workload(Box<WorkloadGenerator>),
    /// Requests from a model of host software.
    Host(Box<host_models::HostRequestGenerator>),
}

impl Input {
    /// Returns the workload generator or host model that the specification `spec` names.
    ///
    /// # Errors
    /// [`SpecError`] if `spec` is valid in neither grammar.
    pub fn of_generator_spec(spec: &str) -> Result<Self, SpecError> {
        if host_models::HostModelSpec::is_host_model_text(spec) {
            return Ok(Self::Host(Box::new(spec.parse()?)));
        }
        spec.parse().map(|spec| Self::Workload(Box::new(spec))).map_err(suggest_workload_or_host_model)
    }

    /// Returns the generator or host model that `spec` names, as [`Self::of_generator_spec`]; `seed` is used if the
    /// specification contains none.
    ///
    /// # Errors
    /// As [`Self::of_generator_spec`].
    pub fn of_generator_spec_with_default_seed(spec: &str, seed: u64) -> Result<Self, SpecError> {
        let (generator, content) = spec.split_once('+').map_or((spec, None), |(a, b)| (a, Some(b)));
        let names_seed = generator
            .split_once(':')
            .is_some_and(|(_, keys)| keys.split(',').any(|pair| pair.trim_start().starts_with("seed=")));
        if names_seed {
            return Self::of_generator_spec(spec);
        }
        let separator = if generator.contains(':') { ',' } else { ':' };
        let content = content.map_or_else(String::new, |content| format!("+{content}"));
        Self::of_generator_spec(&format!("{generator}{separator}seed={seed}{content}"))
    }

    /// Opens the input at its first request.
    ///
    /// # Errors
    /// The errors of [`wearwell_trace::open`].
    pub fn open(&self) -> Result<InputReader, TraceError> {
        Ok(match self {
            Self::Trace { path, options } => InputReader::Trace(wearwell_trace::open(path, options)?),
            Self::Workload(spec) => InputReader::Workload(Box::new(WorkloadGenerator::new(spec))),
            Self::Host(spec) => InputReader::Host(Box::new(host_models::HostRequestGenerator::new(spec))),
        })
    }

    /// Returns the name of the input in reports: the file's name, or the specification of a generator.
    pub fn name(&self) -> String {
        match self {
            Self::Trace { path, options } => options.trace_name_of(path),
            Self::Workload(spec) => spec.to_string(),
            Self::Host(spec) => spec.to_string(),
        }
    }

    /// Returns the end of a sentence about an input in which no request was found: for a trace that records several
    /// stages of each request, which one was read. Opens the trace.
    pub(crate) fn block_layer_stage_hint(&self) -> String {
        match (self, self.open()) {
            (Self::Trace { options, .. }, Ok(InputReader::Trace(reader))) => {
                options.block_layer_stage_hint(reader.format())
            }
            _ => String::new(),
        }
    }

    /// Reads the input once to measure its extent. Of a damaged trace, the part before the damage counts; the replay
    /// will reach the damage again and report it. `aged_by` is an input that is replayed on the same device before this
    /// one: pages, size and writes without content then cover both inputs, but the number of requests and the times are
    /// those of this input alone.
    ///
    /// # Errors
    /// Errors of the reader, except damage after at least one good request.
    pub fn survey(&self, aged_by: Option<&Input>) -> Result<InputSurvey, TraceError> {
        let mut survey = InputSurvey::default();
        // Only traces have their touched pages numbered densely.
        let mut builder = matches!(self, Self::Trace { .. }).then(FootprintBuilder::default);
        if let Some(aging) = aged_by {
            survey.add_input(aging, builder.as_mut())?;
            survey.aging_requests = std::mem::take(&mut survey.requests);
            (survey.has_distinct_request_times, survey.first_request_ns) = (false, None);
        }
        match self {
            Self::Workload(spec) => survey.set_workload_extent(spec),
            Self::Host(_) => {
                survey.add_input(self, None)?;
                survey.footprint_pages = survey.end_offset_bytes.div_ceil(wearwell_trace::PAGE_BYTES);
            }
            Self::Trace { .. } => survey.add_input(self, builder.as_mut())?,
        }
        if let Some(builder) = builder {
            let footprint = builder.into_footprint().map_err(|error| match error {
                TraceError::TooManyPages { .. } => TraceError::TooManyPages {
                    trace: aged_by.map_or_else(
                        || self.name(),
                        |aging| format!("{} with {}", aging.name(), self.name()),
                    ),
                },
                other => other,
            })?;
            survey.footprint_pages = u64::from(footprint.touched_page_count());
            survey.footprint = Some(Arc::new(footprint));
        }
        Ok(survey)
    }
}

/// Totals of a host model's requests: their number, the end of the highest byte range, whether their times differ, and
/// which sizes of their contents are known.
/// The specification alone determines them, but computing them takes a pass over all requests.
#[derive(Clone, Copy, Debug)]
struct RequestTotals {
    /// Number of requests that the host model generates.
    requests: u64,
    /// End of the highest byte range that the requests touch, bytes.
    end_offset_bytes: u64,
    /// Whether at least two requests of the host model have different arrival times.
    has_distinct_request_times: bool,
    /// Which sizes are known of all written contents; `None` if nothing is written.
    sizes_known_of_all_contents: Option<KnownContentSizes>,
}

impl RequestTotals {
    /// Returns the totals of the requests that this specification generates; a process computes them once per
    /// specification and then reuses them.
    fn of_host_model(spec: &host_models::HostModelSpec) -> Self {
        /// Totals of the requests of each specification of a host model, computed once per process.
        static REQUEST_TOTALS_BY_SPEC: Mutex<BTreeMap<String, RequestTotals>> = Mutex::new(BTreeMap::new());
        let name = spec.to_string();
        if let Some(extent) = REQUEST_TOTALS_BY_SPEC.lock().unwrap_or_else(PoisonError::into_inner).get(&name)
        {
            return *extent;
        }
        let mut survey = InputSurvey::default();
        let mut generator = host_models::HostRequestGenerator::new(spec);
        let mut request = Request::default();
        while generator.next_request(&mut request) {
            survey.count_request(&request);
        }
        let extent = Self {
            requests: survey.requests,
            end_offset_bytes: survey.end_offset_bytes,
            has_distinct_request_times: survey.has_distinct_request_times,
            sizes_known_of_all_contents: survey.sizes_known_of_all_contents,
        };
        REQUEST_TOTALS_BY_SPEC.lock().unwrap_or_else(PoisonError::into_inner).insert(name, extent);
        extent
    }
}

/// Adds the names of both grammars (workloads and host models) to the error for an unknown name of a workload. The
/// specification of a workload may contain that of a content model as well, which has names of its own.
fn suggest_workload_or_host_model(error: SpecError) -> SpecError {
    let name = match error {
        SpecError::UnknownKind { name, generator_noun, .. }
            if generator_noun == workload::WORKLOAD_GRAMMAR.generator_noun =>
        {
            name
        }
        error => return error,
    };
    let kinds = workload::WORKLOAD_GRAMMAR.kinds.iter().chain(host_models::HOST_MODEL_GRAMMAR.kinds);
    let valid: Vec<&'static str> = kinds.map(|kind| kind.name).collect();
    let nearest_name = workload::spec_grammar::most_similar_name(&name, &valid);
    SpecError::UnknownKind { generator_noun: "workload", name, nearest_name, valid_names: valid.join(", ") }
}

impl InputReader {
    /// Reads the next request into `into`; returns `false` at the end.
    ///
    /// # Errors
    /// Errors of the trace reader; a generator has none.
    #[inline]
    pub fn next_request(&mut self, into: &mut Request) -> Result<bool, TraceError> {
        match self {
            Self::Trace(reader) => reader.next(into),
            Self::Workload(generator) => Ok(generator.next_request(into)),
            Self::Host(generator) => Ok(generator.next_request(into)),
        }
    }

    /// Returns how many requests so far the trace reader moved to the start of the trace, because their time in the
    /// file is before that of the first request ([`TraceReader::requests_clamped_to_start_time`]).
    pub(crate) fn requests_clamped_to_start_time(&self) -> u64 {
        match self {
            Self::Trace(reader) => reader.requests_clamped_to_start_time(),
            Self::Workload(_) | Self::Host(_) => 0,
        }
    }

    /// Returns the number of lines of the trace file that were skipped as invalid.
    pub fn rejected_lines(&self) -> u64 {
        match self {
            Self::Trace(reader) => reader.rejected_records().rejected_count,
            Self::Workload(_) | Self::Host(_) => 0,
        }
    }
}

/// Extent of an input: its requests, the pages that they touch, and whether they bring times and content.
#[derive(Clone, Debug, Default)]
pub struct InputSurvey {
    /// Number of requests of the input.
    pub requests: u64,
    /// Number of requests of the trace that ages the device before the input; 0 if there is none.
    pub aging_requests: u64,
    /// Number of distinct 4-KiB pages that the input reads, writes or zeroes.
    pub footprint_pages: u64,
    /// End of the highest byte range that the input touches, trims included, in bytes.
    pub end_offset_bytes: u64,
    /// Whether the requests of the input concern more than one device number.
    pub has_several_devices: bool,
    /// Whether at least one write of the input, or of the trace that ages the device before it, brings no content.
    pub has_writes_without_content: bool,
    /// Which sizes are known of all contents that writes of the input, and of the trace that ages the device before it,
    /// bring; `None` if no write brings contents.
    pub sizes_known_of_all_contents: Option<KnownContentSizes>,
    /// Whether at least two requests of the input have different arrival times.
    pub has_distinct_request_times: bool,
    /// Time of the first request of the input, nanoseconds.
    first_request_ns: Option<u64>,
    /// Table that maps the pages touched by a trace to dense page numbers; for traces only.
    pub footprint: Option<Arc<Footprint>>,
    /// Device number of the last request of the input.
    last_device_number: Option<u32>,
}

impl InputSurvey {
    /// Sets the extent (requests, pages and times) of a workload from its specification, without generating requests.
    fn set_workload_extent(&mut self, spec: &WorkloadSpec) {
        self.requests = spec.requests;
        self.footprint_pages = spec.working_set_pages;
        self.end_offset_bytes =
            self.end_offset_bytes.max(spec.working_set_pages * wearwell_trace::PAGE_BYTES);
        match &spec.content {
            None => self.has_writes_without_content = true,
            Some(model) => self.note_contents(model.drawn_sizes()),
        }
        self.has_distinct_request_times = spec.arrival != workload::ArrivalProcess::Untimed;
    }

    /// Adds the requests of `input` to this survey: their number, end address and times. If `builder` is given, also
    /// adds the pages that the input touches.
    fn add_input(&mut self, input: &Input, builder: Option<&mut FootprintBuilder>) -> Result<(), TraceError> {
        match (input, builder) {
            (Input::Host(spec), None) => {
                let extent = RequestTotals::of_host_model(spec);
                self.requests += extent.requests;
                self.has_distinct_request_times |= extent.has_distinct_request_times;
                self.end_offset_bytes = self.end_offset_bytes.max(extent.end_offset_bytes);
                if let Some(known) = extent.sizes_known_of_all_contents {
                    self.note_contents(known);
                }
                Ok(())
            }
            (input, builder) => self.count_requests(&mut input.open()?, builder),
        }
    }

    /// Reads all requests of an input and adds them to this survey. If `builder` is given, also adds the pages that
    /// they touch.
    fn count_requests(
        &mut self,
        requests: &mut InputReader,
        mut builder: Option<&mut FootprintBuilder>,
    ) -> Result<(), TraceError> {
        let mut request = Request::default();
        loop {
            match requests.next_request(&mut request) {
                Ok(true) => self.count_request(&request),
                Ok(false) => return Ok(()),
                Err(error) if error.requests_before_damage().is_some_and(|before| before > 0) => {
                    return Ok(());
                }
                Err(error) => return Err(error),
            }
            if let Some(builder) = &mut builder {
                builder.add_request(&request);
            }
        }
    }

    /// Adds one request to this survey.
    fn count_request(&mut self, request: &Request) {
        self.requests += 1;
        self.has_distinct_request_times |=
            *self.first_request_ns.get_or_insert(request.time_ns) != request.time_ns;
        if request.len_bytes > 0 {
            let before = self.last_device_number.replace(request.device);
            self.has_several_devices |= before.is_some_and(|before| before != request.device);
            let source_end = request.remap_source_pages().end * wearwell_trace::PAGE_BYTES;
            self.end_offset_bytes = self.end_offset_bytes.max(request.end_offset_bytes()).max(source_end);
        }
        if request.op == wearwell_trace::Op::Write {
            self.has_writes_without_content |= request.content.is_empty();
            for content in &request.content {
                self.note_contents(content.known_content_sizes());
            }
        }
    }

    /// Notes that the input has contents of which these sizes are known.
    fn note_contents(&mut self, known: KnownContentSizes) {
        let all = self.sizes_known_of_all_contents.get_or_insert(known);
        *all = all.and(known);
    }
}
