//! Limits of what the clients of a server may use: connections, memory, bytes and requests per second.

use crate::memory_budget::DEFAULT_MEMORY_BUDGET_BYTES;

/// Default of the limit of simultaneous connections on one listening socket. A client beyond the limit is disconnected
/// at once.
pub(crate) const DEFAULT_CONNECTIONS_PER_LISTENER_MAX: usize = 1024;

/// Limits of what the clients of a server may use. Rates are unlimited by default.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ClientLimits {
    /// Most simultaneous connections on one listening socket. A client beyond the limit is disconnected at once.
    pub max_connections_per_socket: usize,
    /// Most bytes of memory that the large requests of all connections may occupy together.
    pub max_request_memory_bytes: usize,
    /// Most bytes per second that all clients of an export together read and write; `None` means no limit.
    pub max_bytes_per_second_per_export: Option<u64>,
    /// Most requests per second that all clients of an export together send; `None` means no limit.
    pub max_requests_per_second_per_export: Option<u64>,
}

impl Default for ClientLimits {
    fn default() -> Self {
        Self {
            max_connections_per_socket: DEFAULT_CONNECTIONS_PER_LISTENER_MAX,
            max_request_memory_bytes: DEFAULT_MEMORY_BUDGET_BYTES,
            max_bytes_per_second_per_export: None,
            max_requests_per_second_per_export: None,
        }
    }
}
