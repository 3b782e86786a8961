//! Everything around the Wearwell engine that a simulation needs: workload generators, preconditioning, the replay
//! driver, run records and reports.

#![forbid(unsafe_code)]

pub mod ablate;
pub mod atomic_file;
mod bisection;
pub mod code_digest;
pub mod content_model;
pub mod data_table;
pub mod diff;
pub mod host_models;
pub mod html_report;
pub mod input;
pub mod json;
pub mod life;
mod lifetime;
mod notes;
mod perfetto;
pub mod precondition;
pub mod process;
pub mod profile;
pub mod record;
pub mod replay;
pub mod report;
pub mod result_folder;
mod series_point;
pub mod steadiness;
pub mod sweep;
pub mod theory;
pub mod timeline;
pub mod worker_threads;
pub mod workload;
