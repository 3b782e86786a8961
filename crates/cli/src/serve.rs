//! `serve`: a device behind sockets, until a signal ends it.

use std::path::Path;
use std::sync::mpsc;
use std::time::Duration;

use tracing::{info, warn};
use wearwell_serve::image::{
    self, Access, Backing, CopyOnWrite, Durability, FileNand, Files, Image, ImageError, OpenReport,
};
use wearwell_serve::{
    Address, Bound, DeviceError, FlashDevice, Medium, ServeError, Server, SocketMode, memory,
};

use crate::args::ServeArgs;
use crate::log;
use crate::output::{Output, Overwrite};
use crate::run::read_config;
use crate::systemd::{self, Protocol};
use crate::{Failure, Outcome};

type Signals = mpsc::Receiver<()>;

/// How often the server looks whether its engine still runs.
const WATCH_EVERY: Duration = Duration::from_millis(500);

pub(crate) fn serve(args: &ServeArgs) -> Result<Outcome, Failure> {
    let logs_failures = log::begin(args.log.level(), args.log.log_format);
    serve_as_told(args).map_err(|failure| if logs_failures { failure.logged() } else { failure })
}

fn serve_as_told(args: &ServeArgs) -> Result<Outcome, Failure> {
    if let Some(path) = &args.record {
        Output::at(path, &Overwrite { inputs: &[], force: args.force })?;
    }
    // A signal that comes while an image is opened ends the server as soon as there is one.
    let signals = listen_for_signals();
    match &args.medium.image {
        Some(directory) if args.medium.read_only || args.medium.rescue => {
            serve_for_reading(directory, args, &signals)?
        }
        Some(directory) => serve_image(directory, args, &signals)?,
        None => serve_memory(args, &signals)?,
    }
    Ok(Outcome::Done)
}

/// Sockets that listen. They are bound before an image is opened: an address that cannot be listened on must not count as a
/// session of the image that was not closed.
#[derive(Default)]
struct Doors {
    control: Vec<Bound>,
    metrics: Vec<Bound>,
    nbd: Vec<Bound>,
}

impl Doors {
    fn bind(args: &ServeArgs) -> Result<Self, Failure> {
        let mut doors = Self::default();
        let unix = [(Protocol::Control, &args.control), (Protocol::Nbd, &args.socket)];
        for (protocol, path) in
            unix.into_iter().filter_map(|(protocol, path)| Some((protocol, path.clone()?)))
        {
            doors.bind_at(protocol, &Address::Unix(path), args.socket_mode)?;
        }
        let tcp = [(Protocol::Metrics, args.metrics), (Protocol::Nbd, args.tcp)];
        for (protocol, address) in
            tcp.into_iter().filter_map(|(protocol, address)| Some((protocol, address?)))
        {
            doors.bind_at(protocol, &Address::Tcp(address), args.socket_mode)?;
        }
        if args.socket_activation {
            for (protocol, bound) in systemd::inherited_sockets()? {
                doors.of(protocol).push(bound);
            }
        }
        Ok(doors)
    }

    fn bind_at(&mut self, protocol: Protocol, address: &Address, mode: SocketMode) -> Result<(), Failure> {
        let bound = Bound::with_mode(address, mode).map_err(|error| of_server(&error))?;
        self.of(protocol).push(bound);
        Ok(())
    }

    fn of(&mut self, protocol: Protocol) -> &mut Vec<Bound> {
        match protocol {
            Protocol::Nbd => &mut self.nbd,
            Protocol::Control => &mut self.control,
            Protocol::Metrics => &mut self.metrics,
        }
    }
}

fn serve_memory(args: &ServeArgs, signals: &Signals) -> Result<(), Failure> {
    let live = &args.live;
    let config = read_config(live.config.as_deref(), &live.all_settings())?;
    let usage = |error: &dyn std::fmt::Display| Failure::of_usage(error.to_string());
    let specification =
        memory::Specification::new(&live.design, config, live.size).map_err(|error| usage(&error))?;
    let device = specification.build().map_err(|error| usage(&error))?;
    let doors = Doors::bind(args)?;
    run(device, doors, &specification.config.to_toml(), args, signals)?;
    Ok(())
}

fn refused(error: &ImageError) -> Failure {
    match error {
        ImageError::NoImage { .. } | ImageError::Version { .. } => Failure::of_usage(error.to_string()),
        _ => Failure::of_run(error),
    }
}

fn serve_image(directory: &Path, args: &ServeArgs, signals: &Signals) -> Result<(), Failure> {
    // Locked first: that the image is in use says more than that its socket is.
    let files = Files::open(directory, Access::Write).map_err(|error| refused(&error))?;
    let doors = Doors::bind(args)?;
    systemd::notify_status(&format!("opening {}", directory.display()));
    let options = image::OpenOptions { durability: args.medium.durability.map(Into::into) };
    let image = Image::open_on(files, options).map_err(|error| refused(&error))?;
    info!("{}", found(directory, &image));
    let config = image.config.clone();
    let device = run(device_over(image)?, doors, &config, args, signals)?;
    image::close(device.into_device()).map_err(|error| Failure::of_run(&error))
}

/// The device is recovered on a view, which is forgotten in the end.
fn serve_for_reading(directory: &Path, args: &ServeArgs, signals: &Signals) -> Result<(), Failure> {
    let view = view_of(directory)?;
    let doors = Doors::bind(args)?;
    systemd::notify_status(&format!("opening {} for reading", directory.display()));
    // Nothing has to survive what a view does not.
    let options = image::OpenOptions { durability: Some(Durability::Process) };
    let image = match Image::open_on(view, options) {
        Err(error) if args.medium.rescue && error.is_damage() => rescue(directory, &error)?,
        opened => opened.map_err(|error| refused(&error))?,
    };
    info!("{}; served for reading", found(directory, &image));
    let (config, unproven) = (image.config.clone(), image.report.unproven.clone());
    run(device_over(image)?.for_reading().refuse_unproven(unproven), doors, &config, args, signals)?;
    Ok(())
}

fn view_of(directory: &Path) -> Result<CopyOnWrite<Files>, Failure> {
    let files = Files::open(directory, Access::Read).map_err(|error| refused(&error))?;
    Ok(CopyOnWrite::new(files))
}

/// Opens what is left of an image that was refused.
fn rescue(directory: &Path, refusal: &ImageError) -> Result<Image<CopyOnWrite<Files>>, Failure> {
    warn!("{}: {refusal}", directory.display());
    let image = Image::rescue_on(view_of(directory)?).map_err(|error| refused(&error))?;
    let unproven = &image.report.unproven;
    warn!(
        "{}: rescued; {} logical pages cannot be proven and are read as errors",
        directory.display(),
        unproven.len()
    );
    Ok(image)
}

fn device_over<B: Backing + Send + 'static>(image: Image<B>) -> Result<FlashDevice<FileNand<B>>, Failure> {
    let identity = image.identity();
    FlashDevice::new(image.device, identity).map_err(|error| of_device(&error))
}

/// What opening an image found, for whoever starts the server.
fn found<B: Backing>(directory: &Path, image: &Image<B>) -> String {
    let durability = image.device.ftl().store().nand().durability().name();
    let OpenReport { was_unclean, host_restarted, torn_pages, repaired, unsafe_shutdowns, .. } = image.report;
    let mapped_pages = image.report.recovery.mapped_pages;
    let end = match (was_unclean, host_restarted) {
        (false, _) => "it was closed".to_owned(),
        (true, false) => {
            format!("its last session did not close it: recovered, {torn_pages} pages half done")
        }
        (true, true) => format!(
            "the host was restarted since its last session, which does not survive that: what was written last may be \
             missing, {torn_pages} pages half done"
        ),
    };
    // After a session that was not closed, the mirror may lag.
    let repairs = if was_unclean || repaired == 0 {
        String::new()
    } else {
        format!("; {repaired} damaged records of metadata were repaired from their copies")
    };
    format!(
        "{}: {end}{repairs}; {mapped_pages} logical pages hold data, {unsafe_shutdowns} unsafe shutdowns; survives the end of the \
         {durability}",
        directory.display()
    )
}

fn of_device(error: &DeviceError) -> Failure {
    match error {
        DeviceError::Invalid(_) => Failure::of_usage(error.to_string()),
        _ => Failure::of_run(error),
    }
}

fn of_server(error: &ServeError) -> Failure {
    match error {
        ServeError::Listen { .. } | ServeError::Inherit(_) => Failure::of_usage(error.to_string()),
        _ => Failure::of_run(error),
    }
}

/// What a recording says about itself: the configuration under which its replay does the same.
fn provenance(design: &str, config: &str) -> String {
    format!("recorded by wearwell serve, design {design}, with this configuration:\n{config}")
}

/// Serves until Ctrl-C or SIGTERM, records if that is wanted, and gives the device back, flushed.
fn run<N: Medium>(
    mut device: FlashDevice<N>,
    doors: Doors,
    config: &str,
    args: &ServeArgs,
    signals: &Signals,
) -> Result<FlashDevice<N>, Failure> {
    device.log_known_damage();
    if let Some(path) = &args.record {
        let provenance = provenance(&device.identity().design, config);
        device.record_to(path, &provenance).map_err(|error| of_device(&error))?;
    }
    let mut device = serve_until_signal(device, doors, args, signals)?;
    if let Some(requests) = device.end_recording().map_err(|error| of_device(&error))? {
        info!("recorded {requests} requests");
    }
    Ok(device)
}

fn serve_until_signal<N: Medium>(
    device: FlashDevice<N>,
    doors: Doors,
    args: &ServeArgs,
    signals: &Signals,
) -> Result<FlashDevice<N>, Failure> {
    let size_mib = device.device().bytes() as f64 / (1 << 20) as f64;
    let description = format!("{}, {size_mib} MiB", device.identity().design);
    let mut server = Server::start(device, &args.export, &description);
    if let Err(error) = open_doors(&mut server, doors, args, &description) {
        // What was opened is closed again; the reason is the first error.
        let _ = server.stop();
        return Err(of_server(&error));
    }
    if let Some(pages_per_second) = args.scrub_rate {
        server.scrub_when_idle(pages_per_second);
    }
    systemd::notify_ready(&format!("serving {description}"));
    while signals.recv_timeout(WATCH_EVERY) == Err(mpsc::RecvTimeoutError::Timeout) && !server.has_failed() {}
    info!("ending: answering what has arrived, then flushing");
    systemd::notify_stopping("answering what has arrived, then flushing");
    server.stop().map_err(|error| of_server(&error))
}

fn open_doors<N: Medium>(
    server: &mut Server<FlashDevice<N>>,
    doors: Doors,
    args: &ServeArgs,
    description: &str,
) -> Result<(), ServeError> {
    // The control socket first: when a client sees the device, everything is there.
    for bound in doors.control {
        let address = server.open_control_on(bound)?;
        info!("control commands at {address}");
    }
    for bound in doors.metrics {
        let address = server.open_metrics_on(bound)?;
        info!("metrics at http://{address}/metrics");
    }
    for bound in doors.nbd {
        let uri = match server.open_nbd_on(bound)? {
            Address::Unix(path) => format!("nbd+unix:///{}?socket={}", args.export, path.display()),
            Address::Tcp(address) => format!("nbd://{address}/{}", args.export),
        };
        info!("serving {description} at {uri}");
    }
    Ok(())
}

/// One message for the first signal; the second ends the process at once.
fn listen_for_signals() -> Signals {
    let (sender, signals) = mpsc::channel();
    let mut is_second = false;
    // Only a second handler is refused, and there is none.
    let _ = ctrlc::set_handler(move || {
        if std::mem::replace(&mut is_second, true) {
            std::process::exit(130);
        }
        // The receiver lives as long as the server.
        let _ = sender.send(());
    });
    signals
}
