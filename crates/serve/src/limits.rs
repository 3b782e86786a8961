//! What clients may take of a server.

use crate::budget::BUDGET_BYTES;
use crate::server::CONNECTIONS_MAX;

/// Limits of a server. Without any, what one client takes is only limited by what others take.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Connections of one listener at the most; more are closed at once.
    pub connections: usize,
    /// Bytes that large requests of all connections hold together at the most.
    pub memory_bytes: usize,
    /// Bytes that the clients of one export read and write per second.
    pub bytes_per_second: Option<u64>,
    /// Requests of the clients of one export per second.
    pub requests_per_second: Option<u64>,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: CONNECTIONS_MAX,
            memory_bytes: BUDGET_BYTES,
            bytes_per_second: None,
            requests_per_second: None,
        }
    }
}
