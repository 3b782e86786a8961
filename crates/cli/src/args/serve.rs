//! Options of the server of live devices, and of the command that shows its statistics.

use std::net::{SocketAddr, ToSocketAddrs as _};
use std::path::PathBuf;

use clap::Args;
use wearwell_serve::{ClientLimits, SocketMode};
#[cfg(feature = "tls")]
use wearwell_serve::{TlsConfig, TlsError};

use super::image::{Durability, LiveDeviceArgs};
use crate::log::{LogFormat, LogLevel};

/// Options of the command `serve`, which serves live devices over NBD.
#[derive(Args)]
#[command(group(clap::ArgGroup::new("medium").required(true).args(["memory", "image", "exports"])))]
#[command(group(clap::ArgGroup::new("door").required(true).multiple(true).args(["socket", "tcp", "socket_activation"])))]
pub(crate) struct ServeArgs {
    /// Several images, each with the name of its export
    #[arg(value_name = "NAME=DIR", value_parser = parse_named_image,
        conflicts_with_all = ["design", "device", "size", "config", "settings", "record", "export"])]
    pub(crate) exports: Vec<NamedImage>,
    #[command(flatten)]
    pub(crate) image_or_memory: ImageOrMemoryArgs,
    #[command(flatten)]
    pub(crate) live_device: LiveDeviceArgs,
    /// Serve NBD on a Unix socket
    #[arg(long, value_name = "PATH")]
    pub(crate) socket: Option<PathBuf>,
    /// Permissions of the socket files, octal: who may connect
    #[arg(long, value_name = "MODE", default_value = "600", value_parser = parse_socket_mode)]
    pub(crate) socket_mode: SocketMode,
    /// Serve NBD on a loopback address, e.g. 127.0.0.1:10809 or localhost:10809 (port 0 = any)
    #[arg(long, value_name = "ADDR", value_parser = parse_socket_address)]
    pub(crate) tcp: Option<SocketAddr>,
    /// Serve on the sockets that systemd passes; their names in its units are nbd, control, metrics or dashboard
    #[arg(long)]
    pub(crate) socket_activation: bool,
    /// Path of a Unix socket on which the server accepts control commands
    #[arg(long, value_name = "PATH")]
    pub(crate) control: Option<PathBuf>,
    /// Serve metrics for Prometheus on a loopback address, GET /metrics (port 0 = any)
    #[arg(long, value_name = "ADDR", value_parser = parse_socket_address)]
    pub(crate) metrics: Option<SocketAddr>,
    /// Show the live device in a browser, at http:// and a loopback address (port 0 = any)
    #[arg(long, value_name = "ADDR", value_parser = parse_socket_address)]
    pub(crate) dashboard: Option<SocketAddr>,
    /// Read this many flash pages per second while no client sends requests, to find damage early
    #[arg(long, value_name = "PAGES", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) scrub_rate: Option<u32>,
    /// Record every operation of the clients as a trace in this file (.ops = a capture with bytes, else native)
    #[arg(long, value_name = "FILE")]
    pub(crate) record: Option<PathBuf>,
    /// Replace an existing file of --record
    #[arg(long, requires = "record")]
    pub(crate) force: bool,
    /// Name of the NBD export under which the device is served
    #[arg(long, value_name = "NAME", default_value = "wearwell", value_parser = parse_export_name)]
    pub(crate) export: String,
    #[cfg(feature = "tls")]
    #[command(flatten)]
    pub(crate) tls: TlsArgs,
    #[command(flatten)]
    pub(crate) limits: LimitArgs,
    #[command(flatten)]
    pub(crate) log: LogArgs,
}

/// Options for the certificates of a server with TLS.
#[cfg(feature = "tls")]
#[derive(Args)]
pub(crate) struct TlsArgs {
    /// Certificate that clients are shown (PEM, the whole chain): TLS is offered, and required over TCP
    #[arg(long = "tls-certificate", value_name = "FILE", requires = "key")]
    certificate: Option<PathBuf>,
    /// Private key of the certificate (PEM)
    #[arg(long = "tls-key", value_name = "FILE", requires = "certificate")]
    key: Option<PathBuf>,
    /// Certificate of the authority that signs client certificates (PEM): clients then have to show one, and --tcp may
    /// be any address
    #[arg(long = "tls-client-ca", value_name = "FILE", requires = "certificate")]
    client_ca: Option<PathBuf>,
}

#[cfg(feature = "tls")]
impl TlsArgs {
    /// Reads certificate, key and client certificates from their files; `None` if no file was given.
    pub(crate) fn read_tls(&self) -> Result<Option<TlsConfig>, TlsError> {
        let (Some(certificate), Some(key)) = (&self.certificate, &self.key) else { return Ok(None) };
        TlsConfig::from_files(certificate, key, self.client_ca.as_deref()).map(Some)
    }
}

/// Limits of what the clients of a server may use.
#[derive(Args)]
pub(crate) struct LimitArgs {
    /// Largest number of simultaneous connections to each listening socket
    #[arg(long, value_name = "N", default_value = "1024", value_parser = clap::value_parser!(u32).range(1..=65_536))]
    max_connections: u32,
    /// Largest amount of memory for the large requests of all connections together, e.g. 64MiB
    #[arg(long, value_name = "BYTES", default_value = "256MiB", value_parser = wearwell_serve::parse_size_bytes)]
    max_memory: u64,
    /// Largest number of megabytes (10^6 bytes) per second that the clients of an export read and write together
    #[arg(long, value_name = "MB", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    limit_mb_per_s: Option<u64>,
    /// Largest number of requests per second that the clients of an export issue together
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    limit_iops: Option<u64>,
}

impl LimitArgs {
    /// Returns the limits in the form of the server.
    pub(crate) fn to_limits(&self) -> ClientLimits {
        ClientLimits {
            max_connections_per_socket: self.max_connections as usize,
            max_request_memory_bytes: self.max_memory as usize,
            max_bytes_per_second_per_export: self.limit_mb_per_s.map(|megabytes| megabytes * 1_000_000),
            max_requests_per_second_per_export: self.limit_iops,
        }
    }
}

impl ServeArgs {
    /// Returns the images to be served, each with the name of its export.
    pub(crate) fn images(&self) -> Vec<NamedImage> {
        let only = self.image_or_memory.image.clone();
        let only = only.map(|directory| NamedImage { name: self.export.clone(), directory });
        only.into_iter().chain(self.exports.iter().cloned()).collect()
    }
}

/// Directory of an image, and the name of its export.
#[derive(Clone, Debug)]
pub(crate) struct NamedImage {
    /// Name of the NBD export under which the image is served.
    pub(crate) name: String,
    /// Directory of the image.
    pub(crate) directory: PathBuf,
}

/// Parses the name of an export. A name that is longer than a string in NBD may be is refused, because no client could
/// use it.
fn parse_export_name(text: &str) -> Result<String, String> {
    /// Largest length of a string in the NBD protocol, in bytes.
    const NBD_STRING_BYTES_MAX: usize = 4096;
    match text.len() {
        0..=NBD_STRING_BYTES_MAX => Ok(text.to_owned()),
        bytes => Err(format!(
            "the name of the export has {bytes} bytes, but NBD permits {NBD_STRING_BYTES_MAX}: choose a shorter name"
        )),
    }
}

/// Parses `NAME=DIR`: the name of an export and the directory of its image.
fn parse_named_image(text: &str) -> Result<NamedImage, String> {
    match text.split_once('=') {
        Some((name, directory)) if !name.is_empty() && !directory.is_empty() => {
            Ok(NamedImage { name: parse_export_name(name)?, directory: directory.into() })
        }
        _ => Err(
            "an image must be given as NAME=DIRECTORY, the name of its export and its directory, such as \
             disk=/var/lib/disk.image"
                .into(),
        ),
    }
}

/// Options for the log of a server on standard error.
#[derive(Args)]
pub(crate) struct LogArgs {
    /// Least important level of events that is logged
    #[arg(long, value_name = "LEVEL", value_enum, default_value = "info")]
    log_level: LogLevel,
    /// Format of the log lines
    #[arg(long, value_name = "FORMAT", value_enum, default_value = "auto")]
    pub(crate) log_format: LogFormat,
    /// Log nothing; the same as --log-level off
    #[arg(long, short, conflicts_with = "log_level")]
    quiet: bool,
}

impl LogArgs {
    /// Returns the log level that the options ask for.
    pub(crate) fn level(&self) -> LogLevel {
        if self.quiet { LogLevel::Off } else { self.log_level }
    }
}

/// Options for the medium of a live device: memory or an image, and how it is served.
#[derive(Args)]
pub(crate) struct ImageOrMemoryArgs {
    /// Keep the flash in memory: all data is lost when the server ends
    #[arg(long)]
    pub(crate) memory: bool,
    /// Directory of an image that `wearwell create` made
    #[arg(long, value_name = "DIR", conflicts_with_all = ["design", "device", "size", "config", "settings"])]
    pub(crate) image: Option<PathBuf>,
    /// Failures that acknowledged data survives while the image is served this time [default: as the image was created]
    #[arg(long, value_enum, conflicts_with = "memory")]
    pub(crate) durability: Option<Durability>,
    /// Serve an image read-only: clients cannot write, its files do not change, and other servers may do the same
    #[arg(long, conflicts_with_all = ["memory", "durability", "record"])]
    pub(crate) read_only: bool,
    /// Serve a damaged image read-only: logical pages whose data can be proven correct, and read errors for all other
    /// pages
    #[arg(long, conflicts_with_all = ["memory", "durability", "record"])]
    pub(crate) rescue: bool,
}

impl ImageOrMemoryArgs {
    /// Returns whether the options request that images are served read-only.
    pub(crate) fn is_read_only(&self) -> bool {
        self.read_only || self.rescue
    }
}

/// Parses the permissions of a socket file, an octal number.
fn parse_socket_mode(text: &str) -> Result<SocketMode, String> {
    let mode = u32::from_str_radix(text, 8).ok().filter(|&mode| mode <= 0o777);
    mode.map(SocketMode)
        .ok_or_else(|| "the permissions of a socket must be three octal digits, such as 600 or 660".into())
}

/// Parses an address with its port; a host name gives its first address.
fn parse_socket_address(text: &str) -> Result<SocketAddr, String> {
    let mut found = text.to_socket_addrs().map_err(|error| {
        format!("this address cannot be used: {error}; an address must be a host and a port, such as 127.0.0.1:10809 \
                 or localhost:10809")
    })?;
    found
        .next()
        .ok_or_else(|| "the host name has no address: give a numeric address, such as 127.0.0.1:10809".into())
}

/// Options of the command `top`, which shows statistics of a served device.
#[derive(Args)]
pub(crate) struct TopArgs {
    /// Path of the control socket of the server
    pub(crate) control: PathBuf,
    /// Name of the export whose statistics are shown, if the server has several
    #[arg(long, value_name = "NAME")]
    pub(crate) export: Option<String>,
    /// Seconds between two updates of the display
    #[arg(long, value_name = "SECONDS", default_value_t = 2.0)]
    pub(crate) interval: f64,
    /// Stop after this many updates of the display
    #[arg(long, value_name = "N")]
    pub(crate) count: Option<u64>,
}
