//! Options for reading a trace, and the commands on traces themselves.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use wearwell_replay::input::trace_format_named;
use wearwell_trace::{AssumedOp, BlockLayerStage, CsvColumns, OpenOptions, TimeUnit};

/// Options for reading a trace.
#[derive(Args, Clone)]
pub(crate) struct InputArgs {
    /// Trace format, instead of detecting it (`wearwell trace formats` lists the formats)
    #[arg(long, value_name = "FORMAT")]
    pub(crate) format: Option<String>,
    /// Stage of requests to take from blkparse and blktrace: D (issued), Q (queued) or C (completed)
    #[arg(long, value_enum, ignore_case = true, default_value_t = BlockLayerStageName::D)]
    pub(crate) action: BlockLayerStageName,
    /// Unit of integer times if the format does not say it: ps, ns or us
    #[arg(long, value_enum)]
    pub(crate) time_unit: Option<TimeUnitName>,
    /// Take all requests as reads or as writes, if the trace format records no operation
    #[arg(long, value_enum)]
    pub(crate) assume: Option<AssumedOpName>,
    /// Count and skip bad lines instead of ending with an error
    #[arg(long)]
    pub(crate) skip_bad_lines: bool,
    /// Replay the bytes of pages that a capture has stored, not only their fingerprints and compressed sizes
    #[arg(long)]
    pub(crate) bytes: bool,
    /// Read a capture although .psz or .wdelta is missing beside it: compressed and delta sizes are then unknown
    #[arg(long)]
    pub(crate) without_sidecars: bool,
    /// Columns of a CSV in no known format, from 1, e.g. t=1,op=2,offset=3,length=4,unit=us (s, ms, us or ns; required
    /// with t)
    #[arg(long, value_name = "COLUMNS")]
    pub(crate) columns: Option<CsvColumns>,
}

/// Stage of a request in the block layer of Linux, by its letter in blkparse and blktrace: D (issued), Q (queued) or C
/// (completed).
#[derive(ValueEnum, Clone, Copy)]
#[value(rename_all = "UPPER")]
pub(crate) enum BlockLayerStageName {
    D,
    Q,
    C,
}

/// Unit of integer times in a trace: picoseconds, nanoseconds or microseconds.
#[derive(ValueEnum, Clone, Copy)]
pub(crate) enum TimeUnitName {
    Ps,
    Ns,
    Us,
}

/// Operation that is assumed for all requests of a trace whose format records none.
#[derive(ValueEnum, Clone, Copy)]
pub(crate) enum AssumedOpName {
    Reads,
    Writes,
}

impl InputArgs {
    /// Refuses options for reading a trace where the requests are generated. A stage (`--action`) that is the default
    /// counts as not given.
    pub(crate) fn refuse_trace_options_for_workload(&self) -> Result<(), crate::Failure> {
        let options = [
            ("--format", self.format.is_some()),
            ("--action", !matches!(self.action, BlockLayerStageName::D)),
            ("--time-unit", self.time_unit.is_some()),
            ("--assume", self.assume.is_some()),
            ("--skip-bad-lines", self.skip_bad_lines),
            ("--bytes", self.bytes),
            ("--without-sidecars", self.without_sidecars),
            ("--columns", self.columns.is_some()),
        ];
        match options.into_iter().find(|&(_, is_given)| is_given) {
            None => Ok(()),
            Some((option, _)) => Err(crate::Failure::of_usage(format!(
                "{option} says how a trace is read, but the requests are generated: leave {option} out, or name a trace"
            ))),
        }
    }

    /// Returns the options for opening a trace; an error if there is no format with the given name.
    pub(crate) fn open_options(&self) -> Result<OpenOptions, crate::Failure> {
        let format = self.format.as_deref().map(trace_format_named).transpose();
        let format = format.map_err(|error| crate::Failure::of_usage(error.to_string()))?;
        Ok(OpenOptions {
            format,
            block_layer_stage: match self.action {
                BlockLayerStageName::D => BlockLayerStage::Issue,
                BlockLayerStageName::Q => BlockLayerStage::Queue,
                BlockLayerStageName::C => BlockLayerStage::Complete,
            },
            time_unit: self.time_unit.map(|unit| match unit {
                TimeUnitName::Ps => TimeUnit::Picoseconds,
                TimeUnitName::Ns => TimeUnit::Nanoseconds,
                TimeUnitName::Us => TimeUnit::Microseconds,
            }),
            assumed_op: self.assume.map(|kind| match kind {
                AssumedOpName::Reads => AssumedOp::Reads,
                AssumedOpName::Writes => AssumedOp::Writes,
            }),
            skips_bad_lines: self.skip_bad_lines,
            reads_payloads: self.bytes,
            allows_absent_page_size_files: self.without_sidecars,
            columns: self.columns.clone(),
            trace_name: None,
        })
    }
}

#[derive(Subcommand)]
pub(crate) enum TraceCommand {
    /// Print statistics of traces: what they do to a device
    Info {
        /// Trace files of which statistics are printed
        #[arg(required = true)]
        traces: Vec<PathBuf>,
        #[command(flatten)]
        input: InputArgs,
        /// Print JSON instead of text
        #[arg(long)]
        json: bool,
    },
    /// Convert a trace to the native binary format (.wwt) or to CSV (.csv)
    Convert {
        /// Trace file that is converted
        from: PathBuf,
        /// Output file; its ending selects the format: .wwt (native) or .csv
        to: PathBuf,
        /// Replace an existing output
        #[arg(long)]
        force: bool,
        /// Text about the origin of the trace, stored in the native file [default: that of the converted trace]
        #[arg(long, default_value = "", hide_default_value = true)]
        provenance: String,
        #[command(flatten)]
        input: InputArgs,
    },
    /// List the trace formats
    Formats,
}
