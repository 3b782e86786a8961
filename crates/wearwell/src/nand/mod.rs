//! The flash medium.

pub mod geometry;
pub use geometry::{Geometry, GeometryError};
