//! An `SQLite` database on a Wearwell device, through a VFS that an unmodified `SQLite` loads.
//!
//! ```text
//! sqlite> .load libwearwell_sqlite
//! sqlite> .open 'file:demo.db?vfs=wearwell&image=/tmp/ww.image&size=256MiB&design=remap'
//! ```
//!
//! A commit in WAL mode writes every page twice: to the log, and at a checkpoint to the database. The VFS stores log payloads
//! in whole pages ([`volume`], `wal`), recognises the second write and gives the device a `remap` instead. From `SQLite`'s calls
//! to the flash: `vfs` turns C calls into calls of `database`, which holds locks and the [`volume`]; that keeps the files of one
//! database in chunks of a device (`directory`); the device ([`drive`]) is an image or memory in this process, or a running
//! server (`remote`). [`options`] reads the parameters of the URI.
//!
//! `unsafe` is in `ffi` (the C declarations), `vfs` (the functions `SQLite` calls) and `shm` (memory that `SQLite`
//! shares between threads), and nowhere else.

#![deny(unsafe_code)]

mod database;
mod directory;
pub mod drive;
pub mod error;
#[allow(unsafe_code, reason = "declarations of a C interface")]
pub mod ffi;
mod locks;
pub mod options;
mod remote;
#[allow(unsafe_code, reason = "memory whose address SQLite gets")]
mod shm;
#[allow(unsafe_code, reason = "functions that SQLite calls")]
mod vfs;
pub mod volume;
mod wal;

pub use error::Error;
pub use vfs::{VFS_NAME, auto_extension, sqlite3_wearwellsqlite_init};
