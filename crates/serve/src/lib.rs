//! The live device: the Wearwell engine over flash and NVRAM that live in files.

#![forbid(unsafe_code)]

pub mod image;
