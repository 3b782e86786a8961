//! A server in the process of the test, and an NBD client that sends raw bytes and shares no code with the server.

pub mod client;
pub mod log;

use std::path::PathBuf;

pub use client::Client;
use wearwell_config::Config;
use wearwell_serve::device::HostCommandCounts;
use wearwell_serve::image;
use wearwell_serve::memory_device::MemoryDeviceSpecification;
use wearwell_serve::{FlashDevice, ListenAddress, Server};

/// Names of the designs that the tests serve.
pub const DESIGNS: [&str; 7] = ["page-map", "recyclable", "remap", "delta", "integrated", "dftl", "wearwell"];

/// Size of a page, bytes.
pub const PAGE_BYTES: u64 = 4096;
/// Number of bytes in a mebibyte.
pub const MIB: u64 = 1 << 20;

/// A device behind two Unix sockets: one for NBD, and the control socket.
pub struct ServedDevice {
    /// The running server.
    server: Server<FlashDevice>,
    /// Directory with the socket files, and the image if there is one.
    folder: tempfile::TempDir,
}

/// Makes a configuration from settings as given on the command line, such as `gc.policy=fifo`.
pub fn config(settings: &[&str]) -> Config {
    let settings: Vec<String> = settings.iter().map(|&setting| setting.to_owned()).collect();
    Config::from_text_and_settings(None, &settings).expect("the settings are valid")
}

/// Makes the specification of a device in memory of this design and size, with default settings.
pub fn specification(design: &str, size_bytes: u64) -> MemoryDeviceSpecification {
    MemoryDeviceSpecification::new(design, config(&[]), Some(size_bytes)).expect("it is possible")
}

impl ServedDevice {
    /// Serves a new device of a design in memory.
    pub fn new(design: &str, size_bytes: u64) -> Self {
        Self::of(specification(design, size_bytes).build().expect("it fits"))
    }

    /// Serves `device` on sockets in a new directory.
    pub fn of(device: FlashDevice) -> Self {
        Self::start(device, tempfile::tempdir().expect("there is room for a folder"))
    }

    /// Ends the server and returns the device, after an audit of the engine.
    pub fn stop(self) -> FlashDevice {
        let mut device = self.server.stop().expect("the engine is sound");
        device.check_engine_invariants().expect("every law holds");
        device
    }

    /// Serves a new image of this design and size.
    pub fn on_image(design: &str, size_bytes: u64) -> Self {
        let folder = tempfile::tempdir().expect("there is room for a folder");
        let path = folder.path().join("image");
        let specification = image::ImageSpecification {
            design: design.to_owned(),
            config: config(&[]),
            size_bytes: Some(size_bytes),
            durability: image::Durability::Process,
        };
        image::create(&path, &specification).expect("the folder is empty");
        let image = image::Image::open(&path, image::ImageOpenOptions::default()).expect("it is new");
        let identity = image.health_facts();
        Self::start(FlashDevice::new(image.device, identity).expect("it keeps bytes"), folder)
    }

    /// Starts the server of `device` with an NBD socket and a control socket in `folder`.
    fn start(device: FlashDevice, folder: tempfile::TempDir) -> Self {
        let mut served = Self { server: Server::start(device, "drive", "a test drive"), folder };
        served
            .server
            .listen_for_nbd_clients(&ListenAddress::Unix(served.nbd_socket_path()))
            .expect("the path is free");
        served
            .server
            .open_control_socket(&ListenAddress::Unix(served.control_socket_path()))
            .expect("the path is free");
        served
    }

    /// Returns the path of the NBD socket.
    pub fn nbd_socket_path(&self) -> PathBuf {
        self.folder.path().join("nbd.sock")
    }

    /// Returns the path of the control socket.
    pub fn control_socket_path(&self) -> PathBuf {
        self.folder.path().join("control.sock")
    }

    /// Returns the running server, to change it.
    pub fn server(&mut self) -> &mut Server<FlashDevice> {
        &mut self.server
    }

    /// Connects a client that has not negotiated yet.
    pub fn connect(&self) -> Client {
        Client::connect(&self.nbd_socket_path())
    }

    /// Connects a client that is ready to send requests, with structured replies, block sizes and the metadata contexts
    /// `base:allocation` and `x-wearwell:page-state`.
    pub fn client(&self) -> Client {
        self.connect().negotiated()
    }

    /// Ends the server and returns the counts of client commands that its device executed. Checks that the device
    /// passes the audit.
    pub fn stop_and_audit(self) -> HostCommandCounts {
        let device = self.server.stop().expect("the engine is sound");
        let commands = device.host_command_counts();
        device.into_live_device().check().expect("every law holds");
        commands
    }
}

/// Pseudo-random generator of numbers and bytes from a seed.
pub struct Random(rand_xoshiro::Xoshiro256PlusPlus);

impl Random {
    /// Makes a generator with this seed.
    pub fn new(seed: u64) -> Self {
        use rand::SeedableRng as _;
        Self(rand_xoshiro::Xoshiro256PlusPlus::seed_from_u64(seed))
    }

    /// Returns the next random number of 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        rand::Rng::next_u64(&mut self.0)
    }

    /// Returns a random number less than `bound`.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.next_u64() % bound
    }

    /// Returns `count` random bytes.
    pub fn bytes(&mut self, count: usize) -> Vec<u8> {
        (0..count.div_ceil(8)).flat_map(|_| self.next_u64().to_le_bytes()).take(count).collect()
    }
}
