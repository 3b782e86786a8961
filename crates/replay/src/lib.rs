//! Traces, generators, preconditioning, the replay driver and reports around the Wearwell engine.

#![forbid(unsafe_code)]

pub mod theory;
pub mod trace;
