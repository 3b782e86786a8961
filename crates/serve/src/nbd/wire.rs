//! The constants of the NBD protocol, for this server and for clients of it.
//!
//! Their names are those of the protocol's specification, without the prefixes, which the modules here replace.

#![expect(missing_docs, reason = "names and meanings are the protocol's")]

/// First 8 bytes that the server sends (`NBDMAGIC`).
pub const GREETING_MAGIC: u64 = u64::from_be_bytes(*b"NBDMAGIC");
/// Magic number before each option of the client, and in the server's greeting.
pub const OPTION_MAGIC: u64 = u64::from_be_bytes(*b"IHAVEOPT");
/// Magic number before each reply to an option.
pub const OPTION_REPLY_MAGIC: u64 = 0x0003_e889_0455_65a9;

/// Handshake flag of server and client: the negotiation is fixed newstyle.
pub const FIXED_NEWSTYLE: u32 = 1 << 0;
/// Handshake flag of server and client: no 124 zeros follow the reply to `NBD_OPT_EXPORT_NAME`.
pub const NO_ZEROES: u32 = 1 << 1;

/// Magic number before each request with a compact header.
pub const REQUEST_MAGIC: u32 = 0x2560_9513;
/// Magic number before each simple reply, which has no chunks.
pub const SIMPLE_REPLY_MAGIC: u32 = 0x6744_6698;
/// Magic number before each chunk of a structured reply.
pub const STRUCTURED_REPLY_MAGIC: u32 = 0x668e_33ef;
/// Magic number before each request with an extended header.
pub const EXTENDED_REQUEST_MAGIC: u32 = 0x21e4_1c71;
/// Magic number before each chunk of an extended reply.
pub const EXTENDED_REPLY_MAGIC: u32 = 0x6e8a_278c;
/// Flag of the last chunk of a reply, structured or extended.
pub const LAST_CHUNK_FLAG: u16 = 1;

/// Numbers of the options that a client sends in the negotiation (`NBD_OPT_*`).
pub mod option {
    /// Option: chooses an export by name, without an error reply.
    pub const EXPORT_NAME: u32 = 1;
    /// Option: ends the negotiation and the connection.
    pub const ABORT: u32 = 2;
    /// Option: asks for the names of all exports.
    pub const LIST: u32 = 3;
    /// Option: asks to encrypt the connection by TLS.
    pub const STARTTLS: u32 = 5;
    /// Option: asks for the properties of an export.
    pub const INFO: u32 = 6;
    /// Option: asks for the properties of an export and chooses it.
    pub const GO: u32 = 7;
    /// Option: negotiates replies in chunks (structured replies).
    pub const STRUCTURED_REPLY: u32 = 8;
    /// Option: asks which metadata contexts an export has.
    pub const LIST_META_CONTEXT: u32 = 9;
    /// Option: sets the metadata contexts that a block status reports.
    pub const SET_META_CONTEXT: u32 = 10;
    /// Option: negotiates extended headers, which have lengths of 64 bits.
    pub const EXTENDED_HEADERS: u32 = 11;
}

/// Types of the server's replies to options (`NBD_REP_*`).
pub mod option_reply_type {
    /// Option reply: the option is accepted, or its reply is complete.
    pub const ACK: u32 = 1;
    /// Option reply: name and description of one export.
    pub const SERVER: u32 = 2;
    /// Option reply: one property of an export.
    pub const INFO: u32 = 3;
    /// Option reply: number and name of one metadata context.
    pub const META_CONTEXT: u32 = 4;
    /// Bit that is set in the type of every option reply that is an error.
    const ERROR: u32 = 1 << 31;
    /// Option error: the option is not supported.
    pub const ERR_UNSUP: u32 = ERROR | 1;
    /// Option error: the policy of the server forbids the option.
    pub const ERR_POLICY: u32 = ERROR | 2;
    /// Option error: the data of the option is invalid.
    pub const ERR_INVALID: u32 = ERROR | 3;
    /// Option error: the client has to start TLS first.
    pub const ERR_TLS_REQD: u32 = ERROR | 5;
    /// Option error: the export is unknown.
    pub const ERR_UNKNOWN: u32 = ERROR | 6;
    /// Option error: the data of the option is too long.
    pub const ERR_TOO_BIG: u32 = ERROR | 9;
    /// Option error: the client has to negotiate extended headers first.
    pub const ERR_EXT_HEADER_REQD: u32 = ERROR | 0xa;
}

/// Types of information in a reply to `NBD_OPT_INFO` or `NBD_OPT_GO` (`NBD_INFO_*`).
pub mod info_type {
    /// Export information: size and transmission flags.
    pub const EXPORT: u16 = 0;
    /// Export information: name.
    pub const NAME: u16 = 1;
    /// Export information: description for people.
    pub const DESCRIPTION: u16 = 2;
    /// Export information: minimum, preferred and maximum block size.
    pub const BLOCK_SIZE: u16 = 3;
}

/// Numbers of the commands in requests (`NBD_CMD_*`).
pub mod command {
    /// Command: reads a range.
    pub const READ: u16 = 0;
    /// Command: writes a range.
    pub const WRITE: u16 = 1;
    /// Command: ends the connection.
    pub const DISCONNECT: u16 = 2;
    /// Command: makes all completed writes durable.
    pub const FLUSH: u16 = 3;
    /// Command: deallocates a range.
    pub const TRIM: u16 = 4;
    /// Command: prefetches a range.
    pub const CACHE: u16 = 5;
    /// Command: sets a range to zeros.
    pub const WRITE_ZEROES: u16 = 6;
    /// Command: reports how a range is stored.
    pub const BLOCK_STATUS: u16 = 7;
}

/// Flags of a command in a request (`NBD_CMD_FLAG_*`).
pub mod command_flag {
    /// Command flag: the request is durable before its reply (force unit access).
    pub const FUA: u16 = 1 << 0;
    /// Command flag of a write-zeroes request: the zeros are stored, not deallocated.
    pub const NO_HOLE: u16 = 1 << 1;
    /// Command flag of a read: the reply has only one chunk (do not fragment).
    pub const DF: u16 = 1 << 2;
    /// Command flag of a block-status request: only the first extent is reported.
    pub const REQ_ONE: u16 = 1 << 3;
    /// Command flag of a write-zeroes request: fail at once if it is not faster than a write.
    pub const FAST_ZERO: u16 = 1 << 4;
    /// Command flag of an extended request: the length in the header is that of a payload.
    pub const PAYLOAD_LEN: u16 = 1 << 5;
}

/// Types of reply chunks, structured or extended (`NBD_REPLY_TYPE_*`).
pub mod reply_chunk_type {
    /// Chunk type: an empty chunk.
    pub const NONE: u16 = 0;
    /// Chunk type: data of a read, after its offset.
    pub const OFFSET_DATA: u16 = 1;
    /// Chunk type: block status with lengths of 32 bits.
    pub const BLOCK_STATUS: u16 = 5;
    /// Chunk type: block status with lengths of 64 bits.
    pub const BLOCK_STATUS_EXT: u16 = 6;
    /// Chunk type: an error with a message.
    pub const ERROR: u16 = 1 << 15 | 1;
}

/// Transmission flags of an export (`NBD_FLAG_*`).
pub mod transmission_flag {
    /// Transmission flag that is always set: the other flags are valid.
    pub const HAS_FLAGS: u16 = 1 << 0;
    /// Transmission flag: the export is read-only.
    pub const READ_ONLY: u16 = 1 << 1;
    /// Transmission flag: flush commands are supported.
    pub const FLUSH: u16 = 1 << 2;
    /// Transmission flag: the command flag `FUA` is supported.
    pub const FUA: u16 = 1 << 3;
    /// Transmission flag: trim commands are supported.
    pub const TRIM: u16 = 1 << 5;
    /// Transmission flag: write-zeroes commands are supported.
    pub const WRITE_ZEROES: u16 = 1 << 6;
    /// Transmission flag: the command flag `DF` is supported.
    pub const DF: u16 = 1 << 7;
    /// Transmission flag: a flush covers the writes of all connections to the export.
    pub const CAN_MULTI_CONN: u16 = 1 << 8;
    /// Transmission flag: cache (prefetch) commands are supported.
    pub const CACHE: u16 = 1 << 10;
    /// Transmission flag: the command flag `FAST_ZERO` is supported.
    pub const FAST_ZERO: u16 = 1 << 11;
    /// Transmission flag: block-status requests may select contexts in a payload.
    pub const BLOCK_STATUS_PAYLOAD: u16 = 1 << 12;
}

/// Error numbers in replies.
pub mod errno {
    /// NBD error: the operation is not permitted, for example because the export is read-only.
    pub const EPERM: u32 = 1;
    pub const EIO: u32 = 5;
    /// NBD error: the request is invalid.
    pub const EINVAL: u32 = 22;
    /// NBD error: no space is left for a write.
    pub const ENOSPC: u32 = 28;
    /// NBD error: the operation is not supported.
    pub const ENOTSUP: u32 = 95;
}
