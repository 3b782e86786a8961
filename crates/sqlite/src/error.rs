//! Errors of a database on a device, each with a message for the user.

use std::io;

use wearwell_config::ConfigError;
use wearwell_serve::DeviceError;
use wearwell_serve::image::ImageError;

/// Reason why a database cannot be opened or used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The database's URI has wrong or contradictory parameters.
    #[error("the database URI is not usable: {0}")]
    Parameter(String),
    /// The configuration of the device is invalid.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The image of the device cannot be created, opened or closed.
    #[error(transparent)]
    Image(#[from] ImageError),
    /// The device refused or failed a request.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// The connection to a running server failed.
    #[error("{place}: {source}; is `wearwell serve` running there?")]
    Server {
        /// Path of the server's socket.
        place: String,
        /// Error of the operating system on the connection to the server.
        source: io::Error,
    },
    /// A running server sent an answer that violates its protocol.
    #[error("{place}: the server sent {answer}; is it `wearwell serve`?")]
    Answer {
        /// Path of the server's control socket.
        place: String,
        /// Description of the server's answer.
        answer: String,
    },
    /// Another process has opened the server's device as a database.
    #[error("{place} is locked, because another process has its database open: close it there first")]
    Locked {
        /// Path of the lock file that marks the device as used.
        place: String,
    },
    /// The device holds data that this VFS did not write.
    #[error("the device holds data that is no SQLite database of this VFS: use a new or empty device")]
    Foreign,
    /// The directory page of the device, which lists the database's files, is damaged.
    #[error("the file directory of the device is damaged: {0}; restore the image from a copy")]
    Damaged(&'static str),
    /// Another version of this VFS wrote the directory page of the device, in another format.
    #[error(
        "the file directory of the device has format version {found}; this program reads version {known}: use a \
         version of the program that reads it"
    )]
    Version {
        /// Format version of the directory page.
        found: u32,
        /// Format version that this program reads.
        known: u32,
    },
    /// All chunks (runs of device pages) of the device are in use by the database, its journal and its log.
    #[error(
        "the device is full: the database, its journal and its write-ahead log use all of its {device_chunk_count} chunks; shorten the log by `pragma wal_checkpoint(truncate)`, or copy the database to a larger device"
    )]
    Full {
        /// Number of chunks (runs of device pages) that the device has for files.
        device_chunk_count: usize,
    },
    /// The device or its pages are too small for a database.
    #[error(
        "a device of {capacity_bytes} bytes in pages of {block_bytes} bytes cannot hold a database: use one with at \
         least 64 pages of at least 4096 bytes"
    )]
    Unsuitable {
        /// Capacity of the device, bytes.
        capacity_bytes: u64,
        /// Size of the device's pages, bytes.
        block_bytes: u32,
    },
    /// A database of this name is already open on another device.
    #[error(
        "a database called {name} is already open on another device: give the databases of a process different names"
    )]
    Name {
        /// Name of the database that is already open on another device.
        name: String,
    },
    /// `SQLite` wanted to open a super-journal, a kind of file that cannot be stored on a device.
    #[error(
        "transactions over several databases need a super-journal, which is not kept on a device: use journal_mode=WAL"
    )]
    SuperJournal,
    /// A write-ahead log was written before its header.
    #[error(
        "SQLite wrote frames of its write-ahead log before it wrote the log's header, and this VFS cannot store such \
         a log: use journal_mode=DELETE, or another version of SQLite"
    )]
    HeaderlessWal,
    /// The engine panicked earlier, so the device refuses all requests.
    #[error(
        "the device of this database has stopped because an invariant of the engine is broken; the panic message on \
         standard error says which: report it with that message, and open the database again"
    )]
    Broken,
}
