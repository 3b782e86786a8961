//! Traces, generators, preconditioning, the replay driver and reports around the Wearwell engine.

#![forbid(unsafe_code)]

pub mod content_model;
pub mod theory;
pub mod trace;
pub mod workload;
