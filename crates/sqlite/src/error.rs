//! What can go wrong with a database on a device, each with a sentence.

use std::io;

use wearwell_config::ConfigError;
use wearwell_serve::DeviceError;
use wearwell_serve::image::ImageError;

/// Why a database cannot be opened or used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// URI parameters that cannot be followed.
    #[error("{0}")]
    Parameter(String),
    /// The configuration is impossible.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The image cannot be used.
    #[error(transparent)]
    Image(#[from] ImageError),
    /// The device refuses or fails a request.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// A running server cannot be talked to.
    #[error("{place}: {source}; is `wearwell serve` running there?")]
    Server {
        /// Path of the socket.
        place: String,
        /// What the host says.
        source: io::Error,
    },
    /// What a running server answers is not what its protocol says.
    #[error("{place} answers {answer}, which is no answer of `wearwell serve`")]
    Answer {
        /// Path of the socket.
        place: String,
        /// What came.
        answer: String,
    },
    /// Another process uses the server's device as a database.
    #[error("{place} is locked: another process has its database open; a device has one process at a time")]
    Locked {
        /// Path of the lock file.
        place: String,
    },
    /// The device holds something else.
    #[error("the device holds data that is no SQLite database of this VFS; give it an empty one")]
    Foreign,
    /// The directory page is damaged.
    #[error("the directory of the device is damaged: {0}; restore the image from a copy")]
    Damaged(&'static str),
    /// All of the device is in use.
    #[error("the database, its journal and its write-ahead log fill all {chunks} chunks of the device")]
    Full {
        /// Chunks that files can have.
        chunks: usize,
    },
    /// The device is too small, or its pages are.
    #[error(
        "a device of {capacity_bytes} bytes in pages of {block_bytes} cannot hold a database: pages of 4096 bytes at least, and 64 of them"
    )]
    Unsuitable {
        /// Bytes of the device.
        capacity_bytes: u64,
        /// Bytes of its pages.
        block_bytes: u32,
    },
    /// A database of this name is open on another device.
    #[error(
        "a database called {name} is already open on another device; databases of a process need different names"
    )]
    Name {
        /// The name.
        name: String,
    },
    /// A file of a kind that is not kept on the device.
    #[error(
        "transactions over several databases need a super-journal, which is not kept on a device: use journal_mode=WAL"
    )]
    SuperJournal,
    /// Part of a log whose first write was not its header.
    #[error("a write-ahead log begins with its header")]
    HeaderlessWal,
    /// The engine panicked before.
    #[error(
        "the device has stopped because an invariant of the engine is broken; the message above says which"
    )]
    Broken,
}
