//! The live device: the Wearwell engine as a block device that other programs attach over NBD.
//!
//! The path of a request: [`server`] accepts clients; [`nbd`] decodes their bytes into requests; [`device_queue`]
//! executes the requests, one thread at a time; [`device`] completes partial pages and calls the engine. [`control`] is
//! a second socket for commands that NBD does not have, [`metrics`] exports the counters to Prometheus, and
//! [`dashboard`] shows the device in a browser. The flash is in memory ([`memory_device`]) or in the files of an image
//! ([`image`]). Every operation can be recorded as a trace ([`operation_recorder`]); a replay of that trace does the
//! same flash operations.
//!
//! Events for the operator are `tracing` events in the span of a connection or of a device (`engine`), and the span
//! names the export. The program that starts the server decides where the events are written.

#![forbid(unsafe_code)]

mod connection;
pub mod control;
pub mod dashboard;
pub mod device;
mod device_error;
pub mod device_queue;
mod explicit_config;
pub mod http;
pub mod ignored_signals;
pub mod image;
mod limits;
pub mod live_device;
mod medium;
mod memory_budget;
pub mod memory_device;
pub mod metrics;
pub mod nbd;
pub mod operation_recorder;
mod plain_socket;
mod rate_limit;
pub mod server;
mod socket;
mod tls;

pub use connection::CONNECTION_IN_FLIGHT_MAX_BYTES;
pub use device::{BlockDevice, FlashDevice};
pub use device_error::{DeviceError, FileIoError};
pub use explicit_config::parse_size_bytes;
pub use limits::ClientLimits;
pub use live_device::LiveDevice;
pub use medium::Medium;
pub use memory_budget::DEFAULT_MEMORY_BUDGET_BYTES;
pub use server::{BoundListener, NamedDevice, ServeError, Server};
pub use socket::{AllowedClients, ListenAddress, SocketMode};
pub use tls::{TlsConfig, TlsError};
