//! The command `serve`: serves devices over NBD, control and metrics sockets until a signal ends it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use tracing::{error, error_span, info, warn};
use wearwell_replay::html_report;
use wearwell_serve::dashboard::DashboardAndReportAssets;
use wearwell_serve::image::{
    self, CopyOnWrite, Image, ImageAccess, ImageError, ImageFile, MetadataRepairs, OpenImageFiles, OpenReport,
};
use wearwell_serve::{
    AllowedClients, BoundListener, DeviceError, FlashDevice, ListenAddress, NamedDevice, ServeError, Server,
    SocketMode, TlsConfig, memory_device,
};

use crate::args::{NamedImage, ServeArgs};
use crate::image::image_failure;
use crate::output::{OutputDestination, OverwriteRule};
use crate::run::{read_config, refuse_settings_ignored_by_design};
use crate::systemd::{self, SocketProtocol};
use crate::{Failure, Outcome, log, termination_signals};

/// Channel that receives a message when a signal (Ctrl-C, SIGTERM or SIGHUP) asks the server to end.
type TerminationSignals = mpsc::Receiver<()>;

/// Interval at which the server checks whether the device of each export has failed.
const FAILED_EXPORT_CHECK_INTERVAL: Duration = Duration::from_millis(500);

/// Time after the first signal in which further signals count as the same one: `timeout`, for example, sends SIGTERM to
/// the process and then to its group.
const REPEATED_SIGNAL_WINDOW: Duration = Duration::from_secs(1);

/// Executes the command `serve`: serves images or a device in memory until Ctrl-C or SIGTERM.
pub(crate) fn serve(args: &ServeArgs) -> Result<Outcome, Failure> {
    let logs_failures = log::start_stderr_logging(args.log.level(), args.log.log_format);
    serve_images_or_memory(args)
        .map_err(|failure| if logs_failures { failure.log_message() } else { failure })
}

/// Serves what the arguments name, images or a device in memory, until Ctrl-C or SIGTERM.
fn serve_images_or_memory(args: &ServeArgs) -> Result<Outcome, Failure> {
    require_different_sockets(args)?;
    if let Some(path) = &args.record {
        let images = args.images();
        let files_of_images: Vec<PathBuf> = images
            .iter()
            .flat_map(|image| ImageFile::ALL.map(|file| image.directory.join(file.name())))
            .collect();
        let input_paths: Vec<&Path> = files_of_images.iter().map(PathBuf::as_path).collect();
        for file in wearwell_serve::operation_recorder::files_of_recording(path) {
            let rule = OverwriteRule { input_paths: &input_paths, force: args.force };
            OutputDestination::for_path(&file, &rule)?;
        }
    }
    let served = if args.image_or_memory.memory { serve_memory(args) } else { serve_images(args) };
    served.map(|()| Outcome::Done)
}

/// Refuses arguments that give the NBD socket and the control socket one path: the second socket would replace the
/// first or fail.
fn require_different_sockets(args: &ServeArgs) -> Result<(), Failure> {
    let absolute = |path: &Option<PathBuf>| path.as_ref().and_then(|path| std::path::absolute(path).ok());
    match (absolute(&args.socket), absolute(&args.control)) {
        (Some(nbd), Some(control)) if nbd == control => Err(Failure::of_usage(format!(
            "--socket and --control both name {}: give each socket a path of its own",
            nbd.display()
        ))),
        _ => Ok(()),
    }
}

/// Listening sockets of the server, by protocol. They are bound before an image is opened: otherwise an address on
/// which the server cannot listen would leave a session of the image that did not end cleanly.
#[derive(Default)]
struct ListeningSockets {
    /// Encryption of NBD connections; `None` for unencrypted connections.
    tls: Option<TlsConfig>,
    /// Sockets for control commands.
    control: Vec<BoundListener>,
    /// Sockets for the metrics that Prometheus reads.
    metrics: Vec<BoundListener>,
    /// Sockets for browsers that show the device.
    dashboard: Vec<BoundListener>,
    /// Sockets by which NBD clients attach the device.
    nbd: Vec<BoundListener>,
}

impl ListeningSockets {
    /// Binds all sockets that the arguments name, and takes over those that systemd passed.
    fn bind(args: &ServeArgs) -> Result<Self, Failure> {
        let mut listening_sockets = Self { tls: tls_of(args)?, ..Self::default() };
        let reach = listening_sockets.tcp_allowed_clients();
        let unix = [(SocketProtocol::Control, &args.control), (SocketProtocol::Nbd, &args.socket)];
        for (protocol, path) in
            unix.into_iter().filter_map(|(protocol, path)| Some((protocol, path.clone()?)))
        {
            listening_sockets.bind_address(protocol, &ListenAddress::Unix(path), args.socket_mode)?;
        }
        let http = [(SocketProtocol::Metrics, args.metrics), (SocketProtocol::Dashboard, args.dashboard)];
        for (protocol, address) in
            http.into_iter().filter_map(|(protocol, address)| Some((protocol, address?)))
        {
            listening_sockets.bind_address(protocol, &ListenAddress::Tcp(address), args.socket_mode)?;
        }
        match args.tcp {
            Some(address) if reach == AllowedClients::AllMachines => {
                listening_sockets.nbd.push(
                    BoundListener::listen_beyond_loopback(address).map_err(|error| server_failure(&error))?,
                );
            }
            Some(address) => {
                listening_sockets.bind_address(
                    SocketProtocol::Nbd,
                    &ListenAddress::Tcp(address),
                    args.socket_mode,
                )?;
            }
            None => {}
        }
        if args.socket_activation {
            for (protocol, bound) in systemd::take_inherited_sockets(reach)? {
                listening_sockets.sockets_of(protocol).push(bound);
            }
        }
        Ok(listening_sockets)
    }

    /// Returns from where clients may reach NBD over TCP: from everywhere if they have to show a certificate, else from
    /// loopback.
    fn tcp_allowed_clients(&self) -> AllowedClients {
        if self.tls.as_ref().is_some_and(TlsConfig::requires_client_certificate) {
            AllowedClients::AllMachines
        } else {
            AllowedClients::Loopback
        }
    }

    /// Binds a socket for this protocol at an address; a Unix socket file gets the permissions `mode`.
    fn bind_address(
        &mut self,
        protocol: SocketProtocol,
        address: &ListenAddress,
        mode: SocketMode,
    ) -> Result<(), Failure> {
        let bound = BoundListener::listen_with_mode(address, mode).map_err(|error| server_failure(&error))?;
        self.sockets_of(protocol).push(bound);
        Ok(())
    }

    /// Returns the list of the sockets with this protocol, for appending to it.
    fn sockets_of(&mut self, protocol: SocketProtocol) -> &mut Vec<BoundListener> {
        match protocol {
            SocketProtocol::Nbd => &mut self.nbd,
            SocketProtocol::Control => &mut self.control,
            SocketProtocol::Metrics => &mut self.metrics,
            SocketProtocol::Dashboard => &mut self.dashboard,
        }
    }
}

/// Reads the certificates and keys of a server with TLS; `None` if the arguments name none.
#[cfg(feature = "tls")]
fn tls_of(args: &ServeArgs) -> Result<Option<TlsConfig>, Failure> {
    args.tls.read_tls().map_err(|error| Failure::of_usage(error.to_string()))
}

/// Returns `None`: this build has no TLS.
#[cfg(not(feature = "tls"))]
#[expect(clippy::unnecessary_wraps, reason = "with TLS there are files to read")]
fn tls_of(_: &ServeArgs) -> Result<Option<TlsConfig>, Failure> {
    Ok(None)
}

/// Serves a device in memory until Ctrl-C or SIGTERM.
fn serve_memory(args: &ServeArgs) -> Result<(), Failure> {
    let live = &args.live_device;
    let config = read_config(live.config.as_deref(), &live.all_settings())?;
    refuse_settings_ignored_by_design(&config, &live.all_settings(), &live.design)?;
    let usage = |error: &dyn std::fmt::Display| Failure::of_usage(error.to_string());
    let specification = memory_device::MemoryDeviceSpecification::new(&live.design, config, live.size)
        .map_err(|error| usage(&error))?;
    let mut device = specification.build().map_err(|error| usage(&error))?;
    // Until here a signal ends the process at once: a large device takes a minute, and there is nothing to close.
    let signals = listen_for_signals();
    let listening_sockets = ListeningSockets::bind(args)?;
    log_losses_and_start_recording(&mut device, &specification.config.to_toml(), args)?;
    let devices = vec![named_device(&args.export, device)];
    let (served, outcome) = serve_until_signal(devices, listening_sockets, args, &signals);
    for (_, device) in served {
        end_recording(&mut device.map_err(|error| server_failure(&error))?)?;
    }
    outcome
}

/// Serves images, each with a queue and a thread of its own. If an image cannot be opened or its device fails, the
/// server continues with the other images, and the command finally ends with a failure.
fn serve_images(args: &ServeArgs) -> Result<(), Failure> {
    // A signal that arrives while an image is being opened ends the server as soon as it has started.
    let signals = listen_for_signals();
    let is_read_only = args.image_or_memory.is_read_only();
    let access = if is_read_only { ImageAccess::ReadOnly } else { ImageAccess::ReadWrite };
    let images = args.images();
    require_different_images(&images)?;
    let mut failures = ImageFailures { requested_image_count: images.len(), failures: Vec::new() };
    // Images are locked before sockets are bound: the error that an image is in use says more than that its socket is.
    let lock = |image: NamedImage| {
        let files = OpenImageFiles::open(&image.directory, access)
            .map_err(|error| image_failure(&image.directory, &error))?;
        Ok((image, files))
    };
    let locked: Vec<_> = images
        .into_iter()
        .filter_map(|image| failures.record_failure(&image.name.clone(), lock(image)))
        .collect();
    failures.require_remaining_image(&locked)?;
    let listening_sockets = ListeningSockets::bind(args)?;
    let open = |image: &NamedImage, files| {
        let _logged_as = error_span!("engine", export = image.name).entered();
        systemd::notify_status(&format!("opening {}", image.directory.display()));
        let opened = if is_read_only {
            open_image_copy_on_write(files, &image.directory, args)?
        } else {
            open_image(files, &image.directory, args)?
        };
        info!("{}", opening_report(&image.directory, &opened, is_read_only));
        Ok(named_device(&image.name, start_device_of_image(opened, args)?))
    };
    let devices: Vec<_> = locked
        .into_iter()
        .filter_map(|(image, files)| failures.record_failure(&image.name, open(&image, files)))
        .collect();
    failures.require_remaining_image(&devices)?;
    let (served, outcome) = serve_until_signal(devices, listening_sockets, args, &signals);
    for (name, device) in served {
        let closed = device.map_err(|error| server_failure(&error)).and_then(|mut device| {
            let recorded = end_recording(&mut device);
            // The image is closed even if its recording failed. The changes of a view are dropped.
            if !is_read_only {
                image::close(device.into_live_device()).map_err(|error| Failure::of_run(&error))?;
            }
            recorded
        });
        failures.record_failure(&name, closed);
    }
    if outcome.is_err() {
        // The failure of the server ends the command, and no failure of an image may be lost beside it.
        failures.log_all_failures();
    }
    outcome?;
    failures.take_first_failure()
}

/// Refuses two images with one export name, and one image under two names.
fn require_different_images(images: &[NamedImage]) -> Result<(), Failure> {
    let (mut names, mut directories) = (BTreeSet::new(), BTreeMap::new());
    for image in images {
        if !names.insert(&image.name) {
            return Err(Failure::of_usage(format!(
                "two exports are called `{}`: give each image a name of its own (NAME=DIRECTORY)",
                image.name
            )));
        }
        // A directory that does not exist is refused later.
        let Ok(directory) = std::fs::canonicalize(&image.directory) else { continue };
        if let Some(other) = directories.insert(directory, &image.name) {
            return Err(Failure::of_usage(format!(
                "the exports `{other}` and `{}` both name the image {}: leave one of them out",
                image.name,
                image.directory.display()
            )));
        }
    }
    Ok(())
}

/// Failures of images that were to be served.
struct ImageFailures {
    /// Number of images that were to be served.
    requested_image_count: usize,
    /// Failures that ended the service of an image, in the order in which they occurred.
    failures: Vec<Failure>,
}

impl ImageFailures {
    /// Returns the value of a successful step in serving the image `name`. A failed step adds its failure to the list
    /// instead. If there are several images, the failure is logged at once, because the server continues with the other
    /// images.
    fn record_failure<T>(&mut self, name: &str, outcome: Result<T, Failure>) -> Option<T> {
        let keep = |failure: Failure| {
            let failure = if self.requested_image_count > 1 {
                failure.with_export_name(name).log_message()
            } else {
                failure
            };
            self.failures.push(failure);
        };
        outcome.map_err(keep).ok()
    }

    /// Returns an error that ends the command if `left`, the list of the images that can still be served, is empty.
    fn require_remaining_image<T>(&mut self, left: &[T]) -> Result<(), Failure> {
        if left.is_empty() { self.take_first_failure() } else { Ok(()) }
    }

    /// Logs the failures that are not logged yet, and removes all.
    fn log_all_failures(&mut self) {
        for failure in std::mem::take(&mut self.failures) {
            if !failure.is_logged {
                failure.log_message();
            }
        }
    }

    /// Returns the first failure, with the number of all failures in its message; `Ok` if there was none.
    fn take_first_failure(&mut self) -> Result<(), Failure> {
        let count = self.failures.len();
        match std::mem::take(&mut self.failures).into_iter().next() {
            None => Ok(()),
            Some(first) if self.requested_image_count == 1 => Err(first),
            Some(first) => Err(first.with_failure_count(count, self.requested_image_count)),
        }
    }
}

/// Opens an image for reading and writing, with the durability that the arguments set.
fn open_image(files: OpenImageFiles, directory: &Path, args: &ServeArgs) -> Result<Image, Failure> {
    let options = image::ImageOpenOptions { durability: args.image_or_memory.durability.map(Into::into) };
    Image::open_on(files, options).map_err(|error| image_failure(directory, &error))
}

/// Opens an image whose files do not change, for serving it read-only. With `--rescue`, a damaged image is opened, too.
fn open_image_copy_on_write(
    files: OpenImageFiles,
    directory: &Path,
    args: &ServeArgs,
) -> Result<Image, Failure> {
    match Image::open_copy_on_write(files) {
        Err(error) if args.image_or_memory.rescue && error.is_damage() => {
            open_damaged_image_read_only(directory, &error)
        }
        opened => opened.map_err(|error| image_failure(directory, &error)),
    }
}

/// Opens a read-only view of a damaged image that was refused, with the logical pages that can be rescued, and logs the
/// refusal.
fn open_damaged_image_read_only(directory: &Path, refusal: &ImageError) -> Result<Image, Failure> {
    let files = OpenImageFiles::open(directory, ImageAccess::ReadOnly)
        .map_err(|error| image_failure(directory, &error))?;
    let opened = Image::open_for_rescue_on(CopyOnWrite::new(files));
    let served =
        if opened.is_ok() { "so only pages that can be proven correct are served" } else { "and refused" };
    warn!(
        "{}: the image is damaged, {served}: {}; restore it from a copy",
        directory.display(),
        refusal.damage_text()
    );
    let image = opened.map_err(|error| image_failure(directory, &error))?;
    warn!(
        "{}: rescued; the newest content of {} logical pages is not known, so reads of them fail: restore them from a \
         copy",
        directory.display(),
        image.report.lpns_with_possibly_stale_version.len()
    );
    Ok(image)
}

/// Makes the device that serves an image, read-only if the options say so, and begins its recording if the options name
/// one.
fn start_device_of_image(image: Image, args: &ServeArgs) -> Result<FlashDevice, Failure> {
    let (identity, config) = (image.health_facts(), image.config_toml.clone());
    let device = FlashDevice::new(image.device, identity).map_err(|error| device_failure(&error))?;
    let is_read_only = args.image_or_memory.is_read_only();
    let device = if is_read_only { device.into_read_only() } else { device };
    let mut device =
        device.refuse_reads_of_possibly_stale_pages(image.report.lpns_with_possibly_stale_version);
    if let Err(refused) = log_losses_and_start_recording(&mut device, &config, args) {
        // The image is closed, so that its next session does not find an unsafe shutdown.
        if !is_read_only {
            image::close(device.into_live_device()).map_err(|error| Failure::of_run(&error))?;
        }
        return Err(refused);
    }
    Ok(device)
}

/// Logs the logical pages that are known to be lost, and begins a recording if the options name one.
fn log_losses_and_start_recording(
    device: &mut FlashDevice,
    config: &str,
    args: &ServeArgs,
) -> Result<(), Failure> {
    device.log_known_damage();
    if let Some(path) = &args.record {
        let provenance = recording_provenance(&device.health_facts().design, config);
        device.record_trace_to(path, &provenance).map_err(|error| device_failure(&error))?;
    }
    Ok(())
}

/// Completes the recording of a device, if it has one, and logs the number of recorded requests.
fn end_recording(device: &mut FlashDevice) -> Result<(), Failure> {
    if let Some(requests) = device.end_recording().map_err(|error| device_failure(&error))? {
        info!("recorded {requests} requests");
    }
    Ok(())
}

/// Joins a device with the name and the description of its export.
fn named_device(name: &str, device: FlashDevice) -> NamedDevice<FlashDevice> {
    let size_mib = device.device().capacity_bytes() as f64 / (1 << 20) as f64;
    let description = format!("{}, {size_mib} MiB", device.health_facts().design);
    NamedDevice { name: name.to_owned(), description, device }
}

/// Returns the log line about what opening an image found: how its last session ended, damaged metadata, and logical
/// pages with data. If the image is served read-only, opening has changed no file.
fn opening_report(directory: &Path, image: &Image, is_read_only: bool) -> String {
    let durability = image.durability.name();
    let OpenReport {
        was_shut_down_uncleanly: was_unclean,
        may_have_lost_last_writes,
        torn_pages,
        metadata_repairs: MetadataRepairs { rewritten_copies: repaired, refused_copies: refused },
        unsafe_shutdowns,
        ..
    } = image.report;
    let mapped_pages = match image.report.mapped_pages {
        Some(pages) => pages.to_string(),
        None => "an unknown number of".to_owned(),
    };
    let end = match (was_unclean, may_have_lost_last_writes) {
        (false, _) => "it was closed".to_owned(),
        (true, false) => {
            format!("its last session did not close it: recovered, half-programmed pages: {torn_pages}")
        }
        (true, true) => format!(
            "its last session, of durability `process`, did not close it, and the server machine was restarted since: \
             recovered, but the last writes may be missing, half-programmed pages: {torn_pages}"
        ),
    };
    // After an unclean session the mirror may lag without damage.
    let done = if is_read_only { "read" } else { "repaired" };
    let mut repairs = String::new();
    if !was_unclean && repaired > 0 {
        let _ = write!(
            repairs,
            "; damaged metadata records that were {done} from their second copies: {repaired}"
        );
    }
    if refused > 0 {
        let _ = write!(
            repairs,
            "; metadata records that keep only one intact copy, because the operating system refused to write the \
             other: {refused}"
        );
    }
    let service = if is_read_only {
        "served for reading".to_owned()
    } else {
        format!("survives the end of the {durability}")
    };
    format!(
        "{}: {end}{repairs}; {mapped_pages} logical pages hold data, {unsafe_shutdowns} unsafe shutdowns; {service}",
        directory.display()
    )
}

/// Makes the failure of a device: exit status 2 if the command asks for something impossible, else 1.
fn device_failure(error: &DeviceError) -> Failure {
    match error {
        DeviceError::Invalid(_) => Failure::of_usage(error.to_string()),
        _ => Failure::of_run(error),
    }
}

/// Makes the failure of the server: exit status 2 if it cannot listen on a socket, else 1.
fn server_failure(error: &ServeError) -> Failure {
    match error {
        ServeError::Listen { .. } | ServeError::InheritedSocket(_) => Failure::of_usage(error.to_string()),
        _ => Failure::of_run(error),
    }
}

/// Returns the text that a recording stores about its origin: the configuration under which its replay does the same
/// flash operations.
fn recording_provenance(design: &str, config: &str) -> String {
    format!("recorded by wearwell serve, design {design}, with this configuration:\n{config}")
}

/// Devices that were served, each with the name of its export. For a device that is lost: the reason instead of the
/// device.
type ServedDevices = Vec<(String, Result<FlashDevice, ServeError>)>;

/// Serves devices until Ctrl-C or SIGTERM, then returns them, flushed. Returns them as well if they cannot be served.
fn serve_until_signal(
    devices: Vec<NamedDevice<FlashDevice>>,
    listening_sockets: ListeningSockets,
    args: &ServeArgs,
    signals: &TerminationSignals,
) -> (ServedDevices, Result<(), Failure>) {
    let served_exports: Vec<_> =
        devices.iter().map(|device| (device.name.clone(), device.description.clone())).collect();
    let server = Server::start_all(devices, args.limits.to_limits());
    let mut server = if args.exports.is_empty() { server.without_export_names() } else { server };
    if let Err(error) = start_listening(&mut server, listening_sockets, &served_exports) {
        // The sockets that were opened are closed again; the error returned is the first one.
        return (server.stop_all(), Err(server_failure(&error)));
    }
    if let Some(pages_per_second) = args.scrub_rate {
        server.start_idle_scrubbing(pages_per_second);
    }
    systemd::notify_ready(&served_exports_status(&served_exports));
    wait_for_signal_or_failure(&server, signals);
    info!("ending: answering what has arrived, then flushing");
    systemd::notify_stopping("answering what has arrived, then flushing");
    (server.stop_all(), Ok(()))
}

/// Waits for Ctrl-C or SIGTERM, or until the devices of all exports have failed. Logs the names of exports whose device
/// fails.
fn wait_for_signal_or_failure(server: &Server<FlashDevice>, signals: &TerminationSignals) {
    let mut failed = 0;
    while signals.recv_timeout(FAILED_EXPORT_CHECK_INTERVAL) == Err(mpsc::RecvTimeoutError::Timeout)
        && !server.has_every_export_failed()
    {
        let names: Vec<_> = server.failed_exports().collect();
        if names.len() > failed {
            failed = names.len();
            let names = names.join(", ");
            error!(
                "stopped by an internal error, which the panic message on standard error describes: {names}; the other \
                 exports are still served: start the server again to serve all of them, and report that message"
            );
            systemd::notify_status(&format!("stopped by an internal error: {names}; the others are served"));
        }
    }
}

/// Returns the status line for systemd: what is served.
fn served_exports_status(served_exports: &[(String, String)]) -> String {
    match served_exports {
        [(_, description)] => format!("serving {description}"),
        several => {
            let names: Vec<_> = several.iter().map(|(name, _)| name.as_str()).collect();
            format!("serving {} exports: {}", names.len(), names.join(", "))
        }
    }
}

/// Starts to serve on all sockets and logs their addresses; the NBD sockets come last.
fn start_listening(
    server: &mut Server<FlashDevice>,
    listening_sockets: ListeningSockets,
    served_exports: &[(String, String)],
) -> Result<(), ServeError> {
    // The control socket is opened first: when a client sees the device, its control socket exists.
    for bound in listening_sockets.control {
        let address = server.open_control_socket_on(bound)?;
        info!("control commands at {address}");
    }
    for bound in listening_sockets.metrics {
        let address = server.open_metrics_on(bound)?;
        info!("metrics at http://{address}/metrics");
    }
    for bound in listening_sockets.dashboard {
        let look = DashboardAndReportAssets {
            style: html_report::style_sheet(),
            script: html_report::drawing_script(),
        };
        let address = server.open_dashboard_on(bound, &look)?;
        info!("dashboard at http://{address}/");
    }
    let offers_tls = listening_sockets.tls.is_some();
    if let Some(tls) = listening_sockets.tls {
        server.offer_tls(tls);
    }
    for bound in listening_sockets.nbd {
        let address = server.listen_for_nbd_clients_on(bound)?;
        for (name, description) in served_exports {
            info!("serving {description} at {}", nbd_uri(&address, name, offers_tls));
        }
    }
    Ok(())
}

/// Returns the NBD URI of an export. Over TCP, a server that offers TLS requires it, so the scheme is `nbds` then.
fn nbd_uri(address: &ListenAddress, export: &str, offers_tls: bool) -> String {
    // The slashes of a path separate nothing in a query, and stay readable.
    let export = percent_encoded(export.as_bytes(), b"");
    match address {
        ListenAddress::Unix(path) => {
            format!("nbd+unix:///{export}?socket={}", percent_encoded(path.as_os_str().as_bytes(), b"/"))
        }
        ListenAddress::Tcp(address) if offers_tls => format!("nbds://{address}/{export}"),
        ListenAddress::Tcp(address) => format!("nbd://{address}/{export}"),
    }
}

/// Encodes the bytes of a component of a URI: all but the characters that RFC 3986 calls unreserved, and those of
/// `kept`, become `%` and two hexadecimal digits.
fn percent_encoded(bytes: &[u8], kept: &[u8]) -> String {
    let mut text = String::new();
    for &byte in bytes {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) || kept.contains(&byte) {
            text.push(byte.into());
        } else {
            let _ = write!(text, "%{byte:02X}");
        }
    }
    text
}

/// Handles the [termination signals](termination_signals): the first signal is sent to the returned channel, and one
/// that comes later than [`REPEATED_SIGNAL_WINDOW`] after it ends the process at once.
fn listen_for_signals() -> TerminationSignals {
    let (sender, signals) = mpsc::channel();
    let mut first_signal_time = None;
    // If the handler cannot be installed, a signal ends the process at once.
    let _ = termination_signals::handle(move || {
        let first_signal_time = *first_signal_time.get_or_insert_with(|| {
            // The receiver exists as long as the server.
            let _ = sender.send(());
            Instant::now()
        });
        if first_signal_time.elapsed() > REPEATED_SIGNAL_WINDOW {
            std::process::exit(130);
        }
    });
    signals
}
