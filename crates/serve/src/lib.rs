//! The live device: the Wearwell engine as a block device that others can attach.
//!
//! From the wire to the flash: [`server`] accepts clients; [`nbd`] turns their bytes into requests; [`engine`] queues them in
//! front of the one thread that owns the device; [`device`] completes partial pages and asks the core. [`control`] is the
//! socket for what NBD has no words for, [`metrics`] tells its counters to Prometheus. The flash is memory ([`memory`]) or an image in files ([`image`]). Any operation can be
//! recorded as a trace ([`record`]), whose replay does the same flash operations.
//!
//! What an operator wants to know is a `tracing` event in the span of its connection or engine, which name the export;
//! whoever starts the server decides where events go.

#![forbid(unsafe_code)]

mod budget;
mod connection;
pub mod control;
pub mod device;
pub mod engine;
pub mod image;
mod limits;
pub mod memory;
pub mod metrics;
pub mod nbd;
mod rate;
pub mod record;
pub mod server;
mod socket;
mod specification;

pub use budget::BUDGET_BYTES;
pub use connection::IN_FLIGHT_MAX_BYTES;
pub use device::{BlockDevice, DeviceError, FlashDevice, Medium, Refused};
pub use limits::Limits;
pub use server::{Bound, NamedDevice, ServeError, Server};
pub use socket::{Address, SocketMode};
pub use specification::size_bytes;
