//! Metrics for Prometheus: `GET /metrics` answers what `stats` and `health` of the control socket report, in the
//! `OpenMetrics` text format.
//!
//! These figures are gathered on the device between two requests; `METRICS` only maps their names to the names of
//! metrics. The device is queried only after a whole request has arrived ([`crate::http`]), so a client that is silent
//! or slow does not delay the device.

use std::fmt;
use std::io;
use std::sync::Arc;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;
use serde_json::{Map, Value};
use wearwell::operation::Cause;

use crate::connection::ServedExport;
use crate::control::report;
use crate::device::FlashDevice;
use crate::http::{self, Answer};
use crate::server::{BoundListener, ServeError, Server};
use crate::socket::{ListenAddress, Socket};

/// Content type of the answer to a scrape: the `OpenMetrics` text format.
const METRICS_CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Label that divides a metric into several time series, or none if the metric is one series.
enum SeriesLabel {
    /// The metric has one time series per device, and no label for this purpose.
    NoLabel,
    /// The metric has one time series for each cause of flash operations, also for causes with a count of zero.
    Causes,
    /// The metric has one time series for each data structure in RAM.
    RamStructures,
}

/// Description of a metric: its field in `stats` or `health`, its name for Prometheus (without the prefix and without
/// the `_total` of counters), its type, its series, and its help text.
type MetricDescription = (&'static str, &'static str, MetricType, SeriesLabel, &'static str);

use MetricType::{Counter, Gauge};
use SeriesLabel::{Causes, NoLabel, RamStructures};

/// Descriptions of all metrics that are exported for a device.
const METRICS: &[MetricDescription] = &[
    ("capacity_bytes", "capacity_bytes", Gauge, NoLabel, "Bytes the host sees"),
    ("page_bytes", "page_bytes", Gauge, NoLabel, "Bytes of a page"),
    ("host_reads", "host_reads", Counter, NoLabel, "Reads of hosts"),
    ("host_writes", "host_writes", Counter, NoLabel, "Writes and zeroes of hosts"),
    ("host_trims", "host_trims", Counter, NoLabel, "Trims of hosts"),
    ("host_flushes", "host_flushes", Counter, NoLabel, "Flushes of hosts"),
    ("host_remaps", "host_remaps", Counter, NoLabel, "Remaps of hosts, in ranges"),
    ("host_bytes_read", "host_read_bytes", Counter, NoLabel, "Bytes hosts read"),
    ("host_bytes_written", "host_written_bytes", Counter, NoLabel, "Bytes hosts wrote, without zeroes"),
    ("host_page_writes", "host_page_writes", Counter, NoLabel, "Pages the engine was asked to write"),
    ("host_page_reads", "host_page_reads", Counter, NoLabel, "Pages the engine was asked to read"),
    ("host_page_trims", "host_page_trims", Counter, NoLabel, "Pages the engine was asked to trim"),
    ("buffer_absorbed_writes", "buffer_absorbed_writes", Counter, NoLabel, "Page writes overwritten in RAM"),
    ("unchanged_writes", "unchanged_writes", Counter, NoLabel, "Page writes that changed nothing"),
    ("recycled_writes", "recycled_writes", Counter, NoLabel, "Page writes served by a dead page"),
    ("deduplicated_writes", "deduplicated_writes", Counter, NoLabel, "Page writes served by sharing a page"),
    ("delta_writes", "delta_writes", Counter, NoLabel, "Page writes stored as deltas"),
    ("packed_writes", "packed_writes", Counter, NoLabel, "Page writes stored in compressed chunks"),
    ("bound_pages_by_remap", "remapped_pages", Counter, NoLabel, "Pages that remaps bound without a program"),
    ("programs_by_cause", "programs", Counter, Causes, "Page programs"),
    ("reads_by_cause", "reads", Counter, Causes, "Page reads of the flash"),
    ("erases_by_cause", "erases", Counter, Causes, "Block erases"),
    ("collections", "collections", Counter, NoLabel, "Blocks that garbage collection emptied"),
    ("retired_blocks", "retired_blocks", Counter, NoLabel, "Blocks given up"),
    ("media_errors", "media_errors", Counter, NoLabel, "Flash pages found unreadable"),
    ("lost_pages", "lost_pages", Counter, NoLabel, "Pages programmed as lost"),
    ("lost_logical_pages", "lost_logical_pages", Gauge, NoLabel, "Logical pages that read as errors"),
    (
        "unproven_logical_pages",
        "unproven_logical_pages",
        Gauge,
        NoLabel,
        "Logical pages that a rescue left out",
    ),
    (
        "recording_failure",
        "recording_failed",
        Gauge,
        NoLabel,
        "1 after the recording (--record) ended early, else 0",
    ),
    ("free_blocks", "free_blocks", Gauge, NoLabel, "Erased blocks in stock"),
    ("write_amplification", "write_amplification", Gauge, NoLabel, "Programs to a page write of the host"),
    ("ram_bytes_by_structure", "ram_bytes", Gauge, RamStructures, "RAM of the engine's tables"),
    (
        "critical_warning",
        "critical_warning",
        Gauge,
        NoLabel,
        "Bits as in an NVMe health log: 1 little spare, 4 media errors or failed",
    ),
    ("avail_spare", "available_spare_percent", Gauge, NoLabel, "Spare blocks that are left"),
    ("percent_used", "used_percent", Gauge, NoLabel, "Mean erases of the rated ones"),
    ("power_cycles", "power_cycles", Counter, NoLabel, "Starts in the life of the device"),
    (
        "unsafe_shutdowns",
        "unsafe_shutdowns",
        Counter,
        NoLabel,
        "Ends without notice in the life of the device",
    ),
    ("min_erase_count", "erase_count_min", Gauge, NoLabel, "Erases of the block that has fewest"),
    ("max_erase_count", "erase_count_max", Gauge, NoLabel, "Erases of the block that has most"),
    ("mean_erase_count", "erase_count_mean", Gauge, NoLabel, "Mean erases of a block"),
    ("rated_erase_count", "erase_count_rated", Gauge, NoLabel, "Erases a block is rated for"),
    ("bad_blocks", "bad_blocks", Gauge, NoLabel, "Blocks that cannot be used"),
];

/// Figures of one device: the fields of its answers to the control commands `stats` and `health`.
#[derive(Debug)]
struct DeviceFigures {
    /// Name of the device's export, if the server names its exports.
    export: Option<String>,
    /// Values of the fields of the answers to `stats` and `health`, by field name.
    figures: Map<String, Value>,
}

impl DeviceFigures {
    /// Gathers the figures of `device`, whose export has the name `export`.
    fn of(device: &mut FlashDevice, export: Option<String>) -> Self {
        let answers = [report::stats_answer(device), report::health_answer(device)];
        let fields = answers.into_iter().filter_map(|answer| answer.as_object().cloned()).flatten();
        Self { export, figures: fields.collect() }
    }

    /// Encodes one value of a metric, with the label of the device's export and, if given, one more label.
    fn encode_value(
        &self,
        metric: &mut MetricEncoder<'_>,
        kind: MetricType,
        label: Option<(&str, &str)>,
        value: &Value,
    ) -> fmt::Result {
        let export = self.export.as_ref().map(|name| ("export", name.as_str()));
        let labels: Vec<(&str, &str)> = export.into_iter().chain(label).collect();
        // An empty list of labels would be encoded as a pair of braces.
        if labels.is_empty() {
            return encode_number(metric, kind, value);
        }
        encode_number(&mut metric.encode_family(&labels)?, kind, value)
    }

    /// Encodes all time series of a metric for one device.
    fn encode_series(
        &self,
        metric: &mut MetricEncoder<'_>,
        kind: MetricType,
        series: &SeriesLabel,
        figure_value: &Value,
    ) -> fmt::Result {
        match series {
            NoLabel => self.encode_value(metric, kind, None, figure_value),
            Causes => Cause::ALL.map(Cause::name).into_iter().try_for_each(|cause| {
                let count = figure_value.get(cause).unwrap_or(&Value::Null);
                self.encode_value(metric, kind, Some(("cause", cause)), count)
            }),
            RamStructures => {
                figure_value.as_object().into_iter().flatten().try_for_each(|(structure, bytes)| {
                    self.encode_value(metric, kind, Some(("structure", structure.as_str())), bytes)
                })
            }
        }
    }
}

/// Figures of all devices of a server: the fields of their answers to the control commands `stats` and `health`.
#[derive(Debug)]
struct ServerFigures(Vec<DeviceFigures>);

impl ServerFigures {
    /// Encodes all metrics of all devices as the text that Prometheus reads.
    fn encode_text(self) -> Result<String, fmt::Error> {
        let mut registry = Registry::with_prefix("wearwell");
        registry.register_collector(Box::new(self));
        let mut text = String::new();
        text::encode(&mut text, &registry)?;
        Ok(text)
    }
}

impl Collector for ServerFigures {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        for &(key, name, kind, ref series, help) in METRICS {
            if self.0.iter().all(|answers| !answers.figures.contains_key(key)) {
                continue;
            }
            let mut metric = encoder.encode_descriptor(name, help, None, kind)?;
            for answers in &self.0 {
                if let Some(found) = answers.figures.get(key) {
                    answers.encode_series(&mut metric, kind, series, found)?;
                }
            }
        }
        let mut info = encoder.encode_descriptor("device", "What is served", None, MetricType::Info)?;
        for answers in &self.0 {
            let design = answers.figures.get("design").and_then(Value::as_str).unwrap_or_default();
            let export = answers.export.as_ref().map(|name| ("export", name.as_str()));
            let labels: Vec<_> = export.into_iter().chain([("design", design)]).collect();
            info.encode_info(&labels)?;
        }
        Ok(())
    }
}

/// Encodes a number as the value of a counter or gauge. A message, such as that of a failure, is encoded as 1, and a
/// value that is missing or no number as 0.
fn encode_number(encoder: &mut MetricEncoder<'_>, kind: MetricType, value: &Value) -> fmt::Result {
    match (kind, value.as_u64()) {
        (Counter, count) => encoder.encode_counter::<NoLabelSet, _, u64>(&count.unwrap_or(0), None),
        (_, Some(number)) => encoder.encode_gauge(&number),
        (_, None) if value.is_string() => encoder.encode_gauge(&1_u64),
        (_, None) => encoder.encode_gauge(&value.as_f64().unwrap_or(0.0)),
    }
}

impl Server<FlashDevice> {
    /// Serves the metrics for Prometheus at `address`, and returns the address with the port that was chosen.
    ///
    /// # Errors
    /// [`ServeError::Listen`].
    pub fn open_metrics(&mut self, address: &ListenAddress) -> Result<ListenAddress, ServeError> {
        self.open_metrics_on(BoundListener::listen_at(address)?)
    }

    /// Serves the metrics on a socket that already listens, as [`Server::open_metrics`] does at an address.
    ///
    /// # Errors
    /// [`ServeError::Listen`].
    pub fn open_metrics_on(&mut self, bound_listener: BoundListener) -> Result<ListenAddress, ServeError> {
        let (served_exports, has_names) = (Arc::clone(self.served_exports()), self.reports_export_names());
        self.start_accepting_clients(bound_listener, move |socket: &Arc<Socket>| {
            // A client that disconnects or takes too long is not logged.
            let _ = serve_scrape(socket, &served_exports, has_names);
        })
    }
}

/// Reads one HTTP request from a client and answers it with the metrics, or with an error status.
fn serve_scrape(
    socket: &Socket,
    served_exports: &[ServedExport<FlashDevice>],
    labels_export_names: bool,
) -> io::Result<()> {
    let Some(request) = http::read_request(socket)? else { return Ok(()) };
    if request.path() != "/metrics" {
        let refusal = Answer::refusal("404 Not Found", "there is no such page; the metrics are at /metrics");
        return http::send_answer(socket, &request, &refusal);
    }
    let report = gather_device_figures(served_exports, labels_export_names);
    if report.0.is_empty() {
        return Ok(());
    }
    let answer = Answer::ok(METRICS_CONTENT_TYPE, report.encode_text().map_err(io::Error::other)?);
    http::send_answer(socket, &request, &answer)
}

/// Gathers the answers to the control commands `stats` and `health` of all devices that have not stopped.
fn gather_device_figures(
    served_exports: &[ServedExport<FlashDevice>],
    labels_export_names: bool,
) -> ServerFigures {
    let answers = |served_export: &ServedExport<FlashDevice>| {
        let export = labels_export_names.then(|| served_export.export.name.clone());
        served_export.device_queue.run_and_wait(|device| DeviceFigures::of(device, export)).ok()
    };
    ServerFigures(served_exports.iter().filter_map(answers).collect())
}
