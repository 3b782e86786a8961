//! Wearwell: a flash translation layer built from parts.

#![forbid(unsafe_code)]

pub mod address;
pub mod content;
pub mod nand;
pub mod timing;
