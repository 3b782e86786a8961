//! An NBD client for tests, written from the text of the protocol alone.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

/// Number of the NBD option that chooses an export by name.
pub const NBD_OPT_EXPORT_NAME: u32 = 1;
/// Number of the NBD option that ends the negotiation.
pub const NBD_OPT_ABORT: u32 = 2;
/// Number of the NBD option that asks for the names of all exports.
pub const NBD_OPT_LIST: u32 = 3;
/// Number of the NBD option that starts TLS.
pub const NBD_OPT_STARTTLS: u32 = 5;
/// Number of the NBD option that asks for the properties of an export.
pub const NBD_OPT_INFO: u32 = 6;
/// Number of the NBD option that chooses an export and asks for its properties.
pub const NBD_OPT_GO: u32 = 7;
/// Number of the NBD option that negotiates structured replies.
pub const NBD_OPT_STRUCTURED_REPLY: u32 = 8;
/// Number of the NBD option that lists metadata contexts.
pub const NBD_OPT_LIST_META_CONTEXT: u32 = 9;
/// Number of the NBD option that sets metadata contexts.
pub const NBD_OPT_SET_META_CONTEXT: u32 = 10;
/// Number of the NBD option that negotiates extended headers.
pub const NBD_OPT_EXTENDED_HEADERS: u32 = 11;

/// Type of the option reply that accepts the option.
pub const REP_ACK: u32 = 1;
/// Type of the option reply that describes one export.
pub const REP_SERVER: u32 = 2;
/// Type of the option reply with one property of an export.
pub const REP_INFO: u32 = 3;
/// Type of the option reply with one metadata context.
pub const REP_META_CONTEXT: u32 = 4;
/// Type of the option reply: the option is not supported.
pub const ERR_UNSUP: u32 = (1 << 31) + 1;
/// Type of the option reply: the policy of the server forbids the option.
pub const ERR_POLICY: u32 = (1 << 31) + 2;
/// Type of the option reply: the data of the option is invalid.
pub const ERR_INVALID: u32 = (1 << 31) + 3;
/// Type of the option reply: the export is unknown.
pub const ERR_UNKNOWN: u32 = (1 << 31) + 6;
/// Type of the option reply: the data of the option is too long.
pub const ERR_TOO_BIG: u32 = (1 << 31) + 9;
/// Type of the option reply: extended headers have to be negotiated first.
pub const ERR_EXT_HEADER_REQD: u32 = (1 << 31) + 10;

/// Number of the NBD read command.
pub const NBD_CMD_READ: u16 = 0;
/// Number of the NBD write command.
pub const NBD_CMD_WRITE: u16 = 1;
/// Number of the NBD flush command.
pub const NBD_CMD_FLUSH: u16 = 3;
/// Number of the NBD trim command.
pub const NBD_CMD_TRIM: u16 = 4;
/// Number of the NBD cache (prefetch) command.
pub const NBD_CMD_CACHE: u16 = 5;
/// Number of the NBD write-zeroes command.
pub const NBD_CMD_WRITE_ZEROES: u16 = 6;
/// Number of the NBD block-status command.
pub const NBD_CMD_BLOCK_STATUS: u16 = 7;

/// Command flag: the request is durable before its reply.
pub const NBD_CMD_FLAG_FUA: u16 = 1;
/// Command flag of a write-zeroes request: the zeros are stored, not deallocated.
pub const NBD_CMD_FLAG_NO_HOLE: u16 = 2;
/// Command flag of a read: the reply has only one chunk.
pub const NBD_CMD_FLAG_DF: u16 = 4;
/// Command flag of a block-status request: only the first extent is reported.
pub const NBD_CMD_FLAG_REQ_ONE: u16 = 8;
/// Command flag of a write-zeroes request: fail if it is not faster than a write.
pub const NBD_CMD_FLAG_FAST_ZERO: u16 = 16;
/// Command flag of an extended request: a payload of the given length follows the header.
pub const NBD_CMD_FLAG_PAYLOAD_LEN: u16 = 32;

/// NBD error number: the medium failed.
pub const EIO: u32 = 5;
/// NBD error number: the request is invalid.
pub const EINVAL: u32 = 22;
/// NBD error number: no space is left for a write.
pub const ENOSPC: u32 = 28;
/// NBD error number: the operation is not supported.
pub const ENOTSUP: u32 = 95;

/// Name of the standard metadata context, which reports holes.
pub const ALLOCATION_CONTEXT: &str = "base:allocation";
/// Name of Wearwell's own metadata context, which reports how pages are stored.
pub const PAGE_STATE_CONTEXT: &str = "x-wearwell:page-state";

/// A reply of the server, whether simple, structured or extended.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Reply {
    /// Number that the client gave to the request of this reply.
    pub cookie: u64,
    /// NBD error number; 0 for success.
    pub errno: u32,
    /// Error message; empty if the reply has none.
    pub message: String,
    /// Data of a read; empty for other requests.
    pub data: Vec<u8>,
    /// Extents of a block-status reply: for each metadata context its number, and pairs of length in bytes and value.
    pub extents: Vec<(u32, Vec<(u64, u64)>)>,
}

/// An NBD client of the tests, over a connection of type `S`.
pub struct Client<S = UnixStream> {
    /// Connection to the server.
    pub stream: S,
    /// Number that the last request got as its cookie.
    cookie: u64,
    /// Length in bytes of each read that is in flight, by its cookie. (A simple reply does not contain the length of
    /// its data.)
    read_lengths_in_flight: std::collections::HashMap<u64, u32>,
    /// Offset of each request in flight, by its cookie, if extended headers were negotiated. Every reply has to repeat
    /// the offset.
    request_offsets_in_flight: Option<std::collections::HashMap<u64, u64>>,
}

/// Returns the data of an NBD option that consists of an export name and a list of queries.
pub fn context_option_data(export: &str, queries: &[&str]) -> Vec<u8> {
    let mut data = length_prefixed(export);
    data.extend((queries.len() as u32).to_be_bytes());
    data.extend(queries.iter().flat_map(|query| length_prefixed(query)));
    data
}

/// Returns a text preceded by its length in 4 bytes, as NBD options contain it.
pub fn length_prefixed(text: &str) -> Vec<u8> {
    [&(text.len() as u32).to_be_bytes(), text.as_bytes()].concat()
}

/// Returns the data of the options `INFO` and `GO`: an export name and the requested types of information.
pub fn info_request(export: &str, kinds: &[u16]) -> Vec<u8> {
    let mut data = length_prefixed(export);
    data.extend((kinds.len() as u16).to_be_bytes());
    data.extend(kinds.iter().flat_map(|kind| kind.to_be_bytes()));
    data
}

/// Returns the bytes of an NBD option: its header and `data`.
pub fn option_bytes(number: u32, data: &[u8]) -> Vec<u8> {
    [b"IHAVEOPT", &number.to_be_bytes()[..], &(data.len() as u32).to_be_bytes(), data].concat()
}

/// Returns the bytes of a request header without extended headers.
pub fn compact_request_header_bytes(command: u16, flags: u16, cookie: u64, offset: u64, len: u32) -> Vec<u8> {
    header_bytes(0x2560_9513, command, flags, cookie, offset, &len.to_be_bytes())
}

/// Returns the bytes of a request header with extended headers.
pub fn extended_request_header_bytes(
    command: u16,
    flags: u16,
    cookie: u64,
    offset: u64,
    len: u64,
) -> Vec<u8> {
    header_bytes(0x21e4_1c71, command, flags, cookie, offset, &len.to_be_bytes())
}

/// Returns the header of a request. The two forms of headers differ in their magic number and the size of their length.
fn header_bytes(magic: u32, command: u16, flags: u16, cookie: u64, offset: u64, len: &[u8]) -> Vec<u8> {
    [
        &magic.to_be_bytes()[..],
        &flags.to_be_bytes(),
        &command.to_be_bytes(),
        &cookie.to_be_bytes(),
        &offset.to_be_bytes(),
        len,
    ]
    .concat()
}

impl Client {
    /// Connects to a server and receives its greeting.
    pub fn connect(path: &Path) -> Self {
        let stream = UnixStream::connect(path).expect("the server listens");
        stream.set_read_timeout(Some(Duration::from_secs(30))).expect("a timeout can be set");
        let mut client = Self::over(stream);
        assert_eq!(client.receive_bytes(18), b"NBDMAGICIHAVEOPT\x00\x03");
        client
    }
}

impl<S: Read + Write> Client<S> {
    /// Makes a client over an open connection, which may be of any kind.
    pub fn over(stream: S) -> Self {
        Self {
            stream,
            cookie: 0,
            read_lengths_in_flight: std::collections::HashMap::new(),
            request_offsets_in_flight: None,
        }
    }

    /// Completes the usual NBD negotiation, with structured replies, block sizes and the metadata contexts for
    /// allocation and page state.
    pub fn negotiated(mut self) -> Self {
        self.send(&3_u32.to_be_bytes());
        self.negotiate_after_handshake_flags();
        self
    }

    /// Completes the usual NBD negotiation as [`Client::negotiated`] does, with extended headers.
    pub fn negotiated_with_extended_headers(mut self) -> Self {
        self.send(&3_u32.to_be_bytes());
        assert_eq!(self.send_option(NBD_OPT_EXTENDED_HEADERS, &[]), [(REP_ACK, vec![])]);
        self.request_offsets_in_flight = Some(std::collections::HashMap::new());
        self.set_contexts_and_go();
        self
    }

    /// Completes the usual NBD negotiation of a client that has sent its handshake flags.
    pub fn negotiate_after_handshake_flags(&mut self) {
        assert_eq!(self.send_option(NBD_OPT_STRUCTURED_REPLY, &[]), [(REP_ACK, vec![])]);
        self.set_contexts_and_go();
    }

    /// Selects the metadata contexts for allocation and page state, and ends the negotiation with the export `drive`.
    fn set_contexts_and_go(&mut self) {
        let contexts = self.send_option(
            NBD_OPT_SET_META_CONTEXT,
            &context_option_data("drive", &[ALLOCATION_CONTEXT, PAGE_STATE_CONTEXT]),
        );
        assert_eq!(contexts.len(), 3, "two contexts and an acknowledgement");
        let replies = self.send_option(NBD_OPT_GO, &info_request("drive", &[3]));
        assert_eq!(replies.last(), Some(&(REP_ACK, vec![])));
    }

    /// Sends bytes to the server.
    pub fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).expect("the server takes bytes");
    }

    /// Receives exactly `count` bytes, or returns the error of the connection.
    pub fn try_receive_bytes(&mut self, count: usize) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; count];
        self.stream.read_exact(&mut bytes)?;
        Ok(bytes)
    }

    /// Receives exactly `count` bytes.
    pub fn receive_bytes(&mut self, count: usize) -> Vec<u8> {
        self.try_receive_bytes(count).expect("the server sends bytes")
    }

    /// Receives a big-endian number of `bytes` bytes.
    fn receive_number(&mut self, bytes: usize) -> u64 {
        self.receive_bytes(bytes).iter().fold(0, |value, &byte| value << 8 | u64::from(byte))
    }

    /// Whether the server has closed the connection.
    pub fn is_closed(&mut self) -> bool {
        let mut rest = Vec::new();
        match self.stream.read_to_end(&mut rest) {
            Ok(_) => rest.is_empty(),
            Err(error) => error.kind() == io::ErrorKind::ConnectionReset,
        }
    }

    /// Sends an NBD option and returns its replies; the last one acknowledges or refuses the option.
    pub fn send_option(&mut self, number: u32, data: &[u8]) -> Vec<(u32, Vec<u8>)> {
        self.send(&option_bytes(number, data));
        self.receive_option_replies(number)
    }

    /// Receives all replies to option number `number`, up to the one that ends them: pairs of type and data.
    pub fn receive_option_replies(&mut self, number: u32) -> Vec<(u32, Vec<u8>)> {
        let mut replies = Vec::new();
        loop {
            assert_eq!(self.receive_number(8), 0x0003_e889_0455_65a9);
            assert_eq!(self.receive_number(4), u64::from(number));
            let kind = self.receive_number(4) as u32;
            let len = self.receive_number(4) as usize;
            replies.push((kind, self.receive_bytes(len)));
            if kind == REP_ACK || kind >> 31 == 1 {
                return replies;
            }
        }
    }

    /// Sends a request without waiting; returns its cookie.
    pub fn request(&mut self, command: u16, flags: u16, offset: u64, len: u32, payload: &[u8]) -> u64 {
        if self.request_offsets_in_flight.is_none() {
            self.cookie += 1;
            let mut bytes = compact_request_header_bytes(command, flags, self.cookie, offset, len);
            bytes.extend(payload);
            if command == NBD_CMD_READ {
                self.read_lengths_in_flight.insert(self.cookie, len);
            }
            self.send(&bytes);
            return self.cookie;
        }
        let payload_flag = if command == NBD_CMD_WRITE { NBD_CMD_FLAG_PAYLOAD_LEN } else { 0 };
        self.request_extended(command, flags | payload_flag, offset, len.into(), payload)
    }

    /// Sends a request with an extended header and exactly these flags, without waiting; returns its cookie.
    pub fn request_extended(
        &mut self,
        command: u16,
        flags: u16,
        offset: u64,
        len: u64,
        payload: &[u8],
    ) -> u64 {
        self.cookie += 1;
        let offsets = self.request_offsets_in_flight.as_mut().expect("extended headers were negotiated");
        offsets.insert(self.cookie, offset);
        self.send(
            &[&extended_request_header_bytes(command, flags, self.cookie, offset, len), payload].concat(),
        );
        self.cookie
    }

    /// Sends a request with an extended header and receives its reply.
    pub fn call_extended(
        &mut self,
        command: u16,
        flags: u16,
        offset: u64,
        len: u64,
        payload: &[u8],
    ) -> Reply {
        let cookie = self.request_extended(command, flags, offset, len, payload);
        let reply = self.receive_reply();
        assert_eq!(reply.cookie, cookie);
        reply
    }

    /// Sends a request and receives its reply.
    pub fn call(&mut self, command: u16, flags: u16, offset: u64, len: u32, payload: &[u8]) -> Reply {
        let cookie = self.request(command, flags, offset, len, payload);
        let reply = self.receive_reply();
        assert_eq!(reply.cookie, cookie);
        reply
    }

    /// Receives the next reply of the server. With extended headers, every part of the reply has to be extended;
    /// otherwise no part may be.
    pub fn receive_reply(&mut self) -> Reply {
        let mut reply = Reply::default();
        loop {
            match self.receive_number(4) {
                0x6e8a_278c if self.request_offsets_in_flight.is_some() => {
                    let (flags, kind) = (self.receive_number(2), self.receive_number(2));
                    reply.cookie = self.receive_number(8);
                    let (offset, len) = (self.receive_number(8), self.receive_number(8));
                    let payload = self.receive_bytes(len as usize);
                    let offsets = self.request_offsets_in_flight.as_mut().expect("it is extended");
                    assert_eq!(offsets.get(&reply.cookie), Some(&offset), "a reply repeats the offset");
                    add_chunk_to_reply(&mut reply, kind as u16, &payload);
                    if flags & 1 == 1 {
                        offsets.remove(&reply.cookie);
                        return reply;
                    }
                }
                _ if self.request_offsets_in_flight.is_some() => {
                    panic!("a client with extended headers gets no other reply")
                }
                0x6744_6698 => {
                    reply.errno = self.receive_number(4) as u32;
                    reply.cookie = self.receive_number(8);
                    if let Some(len) = self.read_lengths_in_flight.remove(&reply.cookie)
                        && reply.errno == 0
                    {
                        reply.data = self.receive_bytes(len as usize);
                    }
                    return reply;
                }
                0x668e_33ef => {
                    let flags = self.receive_number(2);
                    let kind = self.receive_number(2);
                    reply.cookie = self.receive_number(8);
                    let len = self.receive_number(4) as usize;
                    let payload = self.receive_bytes(len);
                    add_chunk_to_reply(&mut reply, kind as u16, &payload);
                    if flags & 1 == 1 {
                        self.read_lengths_in_flight.remove(&reply.cookie);
                        return reply;
                    }
                }
                other => panic!("{other:x} is no reply"),
            }
        }
    }

    /// Reads `len` bytes at `offset`, which must succeed.
    pub fn read(&mut self, offset: u64, len: u32) -> Vec<u8> {
        let reply = self.call(NBD_CMD_READ, 0, offset, len, &[]);
        assert_eq!(reply.errno, 0, "{}", reply.message);
        assert_eq!(reply.data.len(), len as usize);
        reply.data
    }

    /// Sends a request, receives its reply, and checks that the request succeeded.
    pub fn request_successfully(&mut self, command: u16, flags: u16, offset: u64, len: u32, payload: &[u8]) {
        let reply = self.call(command, flags, offset, len, payload);
        assert_eq!(reply, Reply { cookie: reply.cookie, ..Reply::default() });
    }

    /// Writes `bytes` at `offset`, which must succeed.
    pub fn write(&mut self, offset: u64, bytes: &[u8]) {
        self.request_successfully(NBD_CMD_WRITE, 0, offset, bytes.len() as u32, bytes);
    }

    /// Returns the extents of a block-status request, which must succeed: for each metadata context its number, and
    /// pairs of length and value.
    pub fn request_block_status(&mut self, offset: u64, len: u32, flags: u16) -> Vec<(u32, Vec<(u64, u64)>)> {
        let reply = self.call(NBD_CMD_BLOCK_STATUS, flags, offset, len, &[]);
        assert_eq!(reply.errno, 0, "{}", reply.message);
        reply.extents
    }
}

/// Adds a chunk of type `kind`, with the content `payload`, to a reply.
fn add_chunk_to_reply(reply: &mut Reply, kind: u16, payload: &[u8]) {
    let word = |at: usize| u32::from_be_bytes(payload[at..at + 4].try_into().expect("four bytes"));
    match kind {
        0 => assert!(payload.is_empty()),
        1 => {
            assert!(payload.len() > 8, "a chunk of data has data");
            reply.data = payload[8..].to_vec();
        }
        5 => {
            let pairs = payload[4..].chunks_exact(8).enumerate();
            let extents = pairs.map(|(k, _)| (word(4 + 8 * k).into(), word(8 + 8 * k).into())).collect();
            reply.extents.push((word(0), extents));
        }
        6 => {
            let long = |at: usize| u64::from_be_bytes(payload[at..at + 8].try_into().expect("eight bytes"));
            assert!(
                word(4) > 0 && payload.len() == 8 + 16 * word(4) as usize,
                "the chunk counts its extents"
            );
            let extents = (0..word(4) as usize).map(|k| (long(8 + 16 * k), long(16 + 16 * k))).collect();
            reply.extents.push((word(0), extents));
        }
        0x8001 => {
            reply.errno = word(0);
            let len = u16::from_be_bytes([payload[4], payload[5]]) as usize;
            assert_eq!(payload.len(), 6 + len);
            reply.message = String::from_utf8(payload[6..].to_vec()).expect("messages are text");
        }
        other => panic!("chunks of kind {other} are not expected"),
    }
}
