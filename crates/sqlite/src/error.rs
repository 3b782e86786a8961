//! Errors of a database that is stored on a device, each with a message for the user.

use std::io;
use std::path::Path;
use std::time::Duration;

use wearwell_config::ConfigError;
use wearwell_serve::DeviceError;
use wearwell_serve::image::ImageError;

/// Error: a database cannot be opened or used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The database's URI has wrong or contradictory parameters.
    #[error("the database URI is not usable, so correct it: {0}")]
    Parameter(String),
    /// The configuration of the device is invalid.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The image of the device cannot be created, opened or closed. The text is the message of the image's error, with
    /// the path of the image.
    #[error("{0}")]
    Image(String),
    /// The device refused or failed a request.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// The connection to a running server failed.
    #[error(
        "{server_socket_path}: the connection to the server failed: {source}; check that `wearwell serve` is running \
         and listens on this socket, then open the database again"
    )]
    ServerConnection {
        /// Path of the server's socket.
        server_socket_path: String,
        /// Error of the operating system on this connection.
        source: io::Error,
    },
    /// A running server did not answer in time.
    #[error(
        "{server_socket_path}: the server has not answered for {} s: look at its log, and at the load of its machine; \
         then open the database again",
        waited.as_secs()
    )]
    NoAnswer {
        /// Path of the server's socket.
        server_socket_path: String,
        /// Time that the client has waited for the answer.
        waited: Duration,
    },
    /// A running server refused the connection.
    #[error("{server_socket_path}: the server refuses the connection: {reason}; {advice}")]
    ServerRefused {
        /// Path of the server's socket.
        server_socket_path: String,
        /// Reason that the server gave.
        reason: String,
        /// Advice to the user: what to do about the refusal.
        advice: &'static str,
    },
    /// The file that marks the device of a server as used cannot be opened.
    #[error(
        "cannot open the lock file {lock_file_path}, which keeps other processes from the device: {source}; allow this \
         user to create and write this file"
    )]
    LockFile {
        /// Path of the lock file.
        lock_file_path: String,
        /// Error of the operating system.
        source: io::Error,
    },
    /// A running server sent an answer that violates its protocol.
    #[error(
        "{server_socket_path}: the server violates its protocol: {answer}; check that nbd= and control= name the NBD \
         socket and the control socket of `wearwell serve`"
    )]
    MalformedAnswer {
        /// Path of the server's socket on which the answer arrived.
        server_socket_path: String,
        /// Description of the server's answer.
        answer: String,
    },
    /// A running server sent a reply that does not belong to the request.
    #[error(
        "{server_socket_path}: the server's reply does not belong to the request that was sent: open the database \
         again; if this happens once more, look at the log of the server"
    )]
    ForeignReply {
        /// Path of the server's NBD socket.
        server_socket_path: String,
    },
    /// The device of the server is in use by another process, or by another database of this process.
    #[error(
        "the device is in use by another process, or by another database name of this one (lock file \
         {lock_file_path}): close that database first"
    )]
    Locked {
        /// Path of the lock file that marks the device as used.
        lock_file_path: String,
    },
    /// The device holds data that this VFS did not write.
    #[error(
        "the first page of the device that the database URI names must be empty or list the files of a wearwell \
         database, but has other data: name a new or empty device"
    )]
    ForeignData,
    /// The directory page of the device, which lists the database's files, is damaged.
    #[error(
        "the first page of the device, which lists the files of the database, is damaged: {0}; restore the image from \
         a copy"
    )]
    DamagedDirectoryPage(String),
    /// The device was resized. Its directory page states another number or size of extents (runs of pages), or another
    /// page size, than the device has now.
    #[error(
        "the database was made on a device of {recorded_size}, but the device now has {present_size}: restore the \
         image from before it was resized, and copy the database to a larger device by `vacuum into`"
    )]
    DeviceResized {
        /// Size of the device according to the directory page, as text: numbers of extents, pages and bytes.
        recorded_size: String,
        /// Present size of the device, as text: numbers of extents, pages and bytes.
        present_size: String,
    },
    /// Another version of this VFS wrote the directory page of the device, in another format.
    #[error(
        "the first page of the device, which lists the files of the database, has format version {found}; this \
         version of wearwell reads version {supported_version}: use a version of wearwell that reads version {found}"
    )]
    DirectoryVersion {
        /// Format version of the directory page.
        found: u32,
        /// Format version that this program reads.
        supported_version: u32,
    },
    /// The device has fewer free extents (runs of device pages) than a write needs.
    #[error(
        "the device is full (extents, which are runs of pages: {needed_extent_count} more needed, {free_extent_count} \
         of {device_extent_count} free): if the database is in WAL mode, shorten the log by `pragma \
         wal_checkpoint(truncate)`; otherwise copy the database to a larger device by `vacuum into`"
    )]
    DeviceFull {
        /// Number of extents that the write needs, including those that a checkpoint of the log will need.
        needed_extent_count: usize,
        /// Number of extents that are not assigned to a file.
        free_extent_count: usize,
        /// Number of extents (runs of device pages) that the device has for files.
        device_extent_count: usize,
    },
    /// The device or its pages are too small for a database.
    #[error(
        "a device of {capacity_bytes} bytes in pages of {device_page_bytes} bytes cannot hold a database: use one with \
         at least 64 pages of at least 4096 bytes"
    )]
    DeviceTooSmall {
        /// Capacity of the device, bytes.
        capacity_bytes: u64,
        /// Size of the device's pages, bytes.
        device_page_bytes: u32,
    },
    /// A database of this name is already open in this process, with other URI parameters than those of the new
    /// connection.
    #[error(
        "the database {name} is already open in this process with other URI parameters: use the same parameters for \
         the same device, or another name for another device"
    )]
    DatabaseOpenWithOtherParameters {
        /// Name of the database that is already open with other URI parameters.
        name: String,
    },
    /// A database of another name is open in this process on the same image.
    #[error(
        "the image {image_path} is already open in this process as database {open_database_name}: use that name and \
         the same URI parameters, or close that database first"
    )]
    ImageOpenUnderOtherName {
        /// Path of the image's directory.
        image_path: String,
        /// Name under which the image is open as a database.
        open_database_name: String,
    },
    /// The name of a database is empty, or is not UTF-8.
    #[error("the name of the database is empty or is not UTF-8: use another name")]
    UnreadableName,
    /// The name of a database is too long.
    #[error(
        "the name of the database has {len_bytes} bytes, and may have at most {max_bytes}: use a shorter name"
    )]
    LongName {
        /// Length of the name, bytes.
        len_bytes: usize,
        /// Length of the longest name that is allowed, bytes.
        max_bytes: usize,
    },
    /// The image does not exist, and the URI does not contain a size with which to create it.
    #[error(
        "there is no image {image_path}: correct image=, or add size=, such as size=256MiB, which creates the image"
    )]
    NoImage {
        /// Path of the image's directory.
        image_path: String,
    },
    /// An existing image has another property than the URI states.
    #[error(
        "the database URI contradicts the image {image_path}, because {actual}: change or leave out {parameter}="
    )]
    ImageContradictsUri {
        /// Path of the image's directory.
        image_path: String,
        /// Parameter of the URI that the image contradicts.
        parameter: &'static str,
        /// Actual property of the image, as a predicate such as `has size=4096`.
        actual: String,
    },
    /// A database or its image does not exist, and the connection does not permit to create it.
    #[error(
        "{missing_database_or_image} does not exist, and this connection may not create it (mode=ro, mode=rw, or flags \
         without SQLITE_OPEN_CREATE): open it once with mode=rwc"
    )]
    CreationNotAllowed {
        /// Text for the database or image that does not exist, as the subject of the message.
        missing_database_or_image: String,
    },
    /// `SQLite` wanted to open a super-journal, a kind of file that cannot be stored on a device.
    #[error(
        "a transaction over several databases with rollback journals needs a super-journal, which cannot be stored on \
         a device: execute `pragma journal_mode=wal`, which changes the mode of all attached databases"
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
        "the device of this database has stopped after an internal error of wearwell, which the panic message on \
         standard error describes: please report that message, close all connections of this process to the database, \
         and open it again"
    )]
    DevicePanicked,
}

impl Error {
    /// Makes an error for the user from `error` of the image in `directory`; the message names the directory.
    pub(crate) fn of_image(directory: &Path, error: &ImageError) -> Self {
        Self::Image(error.message_about(directory))
    }
}
