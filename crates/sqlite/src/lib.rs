//! Stores an `SQLite` database on a Wearwell device, by a VFS (file-system layer) that an unmodified `SQLite` can load.
//!
//! ```text
//! sqlite> .load libwearwell_sqlite
//! sqlite> .open 'file:demo.db?vfs=wearwell&image=/tmp/ww.image&size=256MiB&design=remap'
//! ```
//!
//! In WAL mode every page is written twice: to the log at a commit, and to the database at a checkpoint. The VFS stores
//! the pages in the log aligned to device pages ([`database_files`], `wal`), recognises the second write, and sends a
//! remap to the device instead.
//!
//! The layers from `SQLite`'s calls to the flash: `vfs` converts C calls into calls of `database`. `database` holds the
//! locks and the files of one database ([`database_files`]). These files are stored in extents of a device
//! (`directory`). The device ([`drive`]) is an image or memory in this process (`local_drive`), or belongs to a running
//! server (`remote_drive`). [`options`] parses the parameters of the URI, `open_drive` opens the device that they name,
//! and [`requested_image`] compares them with an existing image.
//!
//! `unsafe` is only in `ffi` (the C declarations), `vfs` (the functions that `SQLite` calls) and `shm` (memory that
//! `SQLite` shares between threads).

#![deny(unsafe_code)]

mod database;
pub mod database_files;
mod directory;
pub mod drive;
pub mod error;
#[allow(unsafe_code, reason = "declarations of a C interface")]
pub mod ffi;
mod local_drive;
mod locks;
mod open_drive;
pub mod options;
mod remote_drive;
pub mod requested_image;
#[allow(unsafe_code, reason = "memory whose address SQLite gets")]
mod shm;
#[allow(unsafe_code, reason = "functions that SQLite calls")]
mod vfs;
mod wal;

pub use error::Error;
pub use vfs::{VFS_NAME, initialise_as_auto_extension, sqlite3_wearwellsqlite_init};
