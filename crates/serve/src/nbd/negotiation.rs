//! NBD negotiation (the fixed newstyle handshake), from the first byte to the choice of an export, as a state machine
//! over bytes.

use super::wire::{
    FIXED_NEWSTYLE, GREETING_MAGIC, NO_ZEROES, OPTION_MAGIC, OPTION_REPLY_MAGIC, info_type, option,
    option_reply_type,
};
use super::{
    ALLOCATION_CONTEXT, Export, MINIMUM_BLOCK_BYTES, OPTION_MAX_BYTES, PAGE_STATE_CONTEXT, PAYLOAD_MAX_BYTES,
    context,
};

/// Most bytes of option data that are skipped. If an option announces more, the connection is closed.
const SKIPPED_OPTION_MAX_BYTES: u32 = 16 << 20;
/// Bytes of the header of an NBD option, which precedes the option's data.
const OPTION_HEADER_BYTES: usize = 16;

/// Result of the NBD negotiation: the export and the features on which client and server agreed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct NegotiationResult {
    /// Form of the headers of requests and replies after the negotiation.
    pub header_form: HeaderForm,
    /// Whether the client requested block sizes, so that its requests have to be aligned to the minimum block size.
    pub has_requested_block_sizes: bool,
    /// Metadata contexts (kinds of block status) that a block-status reply reports, unless the request selects some of
    /// them.
    pub contexts: MetadataContexts,
    /// Index of the chosen export among the exports of the server.
    pub export_index: usize,
}

/// Form of the headers of NBD requests and replies: compact, structured or extended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum HeaderForm {
    /// Compact requests and simple replies: the form that applies if the client negotiates no other.
    #[default]
    Simple,
    /// Compact requests. Reads are answered in chunks, and errors carry a message (`NBD_OPT_STRUCTURED_REPLY`).
    Structured,
    /// Requests and replies with lengths of 64 bits; every reply consists of chunks (`NBD_OPT_EXTENDED_HEADERS`).
    Extended,
}

impl HeaderForm {
    /// Whether replies with headers of this form may consist of several chunks (structured or extended replies).
    pub(super) fn allows_reply_chunks(self) -> bool {
        self != Self::Simple
    }
}

/// Set of metadata contexts (kinds of block status) of this server.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct MetadataContexts {
    /// Whether the set has the standard context `base:allocation`.
    pub has_allocation: bool,
    /// Whether the set has Wearwell's own context, [`PAGE_STATE_CONTEXT`].
    pub has_page_state: bool,
}

impl MetadataContexts {
    /// Whether the set contains no metadata context.
    pub(super) fn is_empty(self) -> bool {
        self == Self::default()
    }
}

/// State of an NBD negotiation after the bytes received so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NegotiationState {
    /// The negotiation is not finished: more bytes are needed.
    Continues,
    /// The client chose an export: the next byte belongs to the transmission phase.
    Agreed(NegotiationResult),
    /// The connection is encrypted from the next byte on, and the negotiation begins anew.
    StartsTls,
    /// The connection ends: the client sent `NBD_OPT_ABORT`, or bytes that are not this protocol.
    Ended,
}

/// TLS policy in the negotiation: whether a client may or must use TLS (`NBD_OPT_STARTTLS`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum TlsPolicy {
    /// TLS is not available: a request for it is refused.
    #[default]
    Refused,
    /// A client that asks for TLS gets it.
    Offered,
    /// A client has to start TLS before it may send any other option.
    Required,
}

/// State of the NBD negotiation with one client.
#[derive(Clone, Debug)]
pub struct Negotiation<'a> {
    /// Exports that the client can choose.
    exports: Vec<&'a Export>,
    /// Whether the client may or must use TLS.
    tls_policy: TlsPolicy,
    /// Whether the connection is encrypted by TLS already.
    is_encrypted: bool,
    /// Whether the handshake flags of the client have arrived, which precede the options.
    has_received_client_flags: bool,
    /// Whether the reply to `NBD_OPT_EXPORT_NAME` ends without its 124 zeros, as the client wants (`NO_ZEROES`).
    omits_zero_padding: bool,
    /// Export and features that were agreed on so far.
    negotiated: NegotiationResult,
    /// Number of bytes that are still to be skipped, of the data of a refused option that has not arrived completely.
    option_bytes_left_to_skip: u32,
}

impl<'a> Negotiation<'a> {
    /// Begins a negotiation about the exports of a server. Appends the greeting, which the server sends first, to
    /// `reply`.
    pub fn new(exports: Vec<&'a Export>, reply: &mut Vec<u8>) -> Self {
        reply.extend(GREETING_MAGIC.to_be_bytes());
        reply.extend(OPTION_MAGIC.to_be_bytes());
        reply.extend(((FIXED_NEWSTYLE | NO_ZEROES) as u16).to_be_bytes());
        Self {
            exports,
            tls_policy: TlsPolicy::Refused,
            is_encrypted: false,
            has_received_client_flags: false,
            omits_zero_padding: false,
            negotiated: NegotiationResult::default(),
            option_bytes_left_to_skip: 0,
        }
    }

    /// Sets whether TLS is offered, required or refused in the negotiation.
    #[must_use]
    pub fn with_tls(self, tls: TlsPolicy) -> Self {
        Self { tls_policy: tls, ..self }
    }

    /// Processes the complete options at the front of `input` and appends the replies to `reply`. Returns the number of
    /// bytes processed, and the state of the negotiation. The caller passes the remaining bytes again, followed by
    /// newly received ones. At most one option of [`OPTION_MAX_BYTES`] remains.
    pub fn advance(&mut self, input: &[u8], reply: &mut Vec<u8>) -> (usize, NegotiationState) {
        let mut taken = 0;
        loop {
            let rest = &input[taken..];
            let skipped = (self.option_bytes_left_to_skip as usize).min(rest.len());
            let (used, outcome) = if self.option_bytes_left_to_skip > 0 && skipped > 0 {
                self.option_bytes_left_to_skip -= skipped as u32;
                (skipped, NegotiationState::Continues)
            } else if self.has_received_client_flags {
                self.take_option(rest, reply)
            } else {
                self.take_client_flags(rest)
            };
            taken += used;
            if used == 0 || outcome != NegotiationState::Continues {
                return (taken, outcome);
            }
        }
    }

    /// Processes the 4 bytes of handshake flags of the client at the front of `input`. Returns the number of bytes
    /// processed, and the state of the negotiation.
    fn take_client_flags(&mut self, input: &[u8]) -> (usize, NegotiationState) {
        let Some(flags) = input.first_chunk().map(|&bytes| u32::from_be_bytes(bytes)) else {
            return (0, NegotiationState::Continues);
        };
        if flags & !(FIXED_NEWSTYLE | NO_ZEROES) != 0 {
            return (4, NegotiationState::Ended);
        }
        self.omits_zero_padding = flags & NO_ZEROES != 0;
        self.has_received_client_flags = true;
        (4, NegotiationState::Continues)
    }

    /// Processes the option at the front of `input`, if it is complete, and appends the reply. Returns the number of
    /// bytes processed, and the state of the negotiation.
    fn take_option(&mut self, input: &[u8], reply: &mut Vec<u8>) -> (usize, NegotiationState) {
        let Some(head) = input.first_chunk::<OPTION_HEADER_BYTES>() else {
            return (0, NegotiationState::Continues);
        };
        let word = |at: usize| u32::from_be_bytes(head[at..at + 4].try_into().expect("four bytes"));
        let (number, len) = (word(8), word(12));
        if head[..8] != OPTION_MAGIC.to_be_bytes() || len > SKIPPED_OPTION_MAX_BYTES {
            return (input.len(), NegotiationState::Ended);
        }
        if len > OPTION_MAX_BYTES {
            self.option_bytes_left_to_skip = len;
            append_option_reply(
                reply,
                number,
                option_reply_type::ERR_TOO_BIG,
                b"an option must have at most 64 KiB of data",
            );
            return (OPTION_HEADER_BYTES, NegotiationState::Continues);
        }
        let Some(data) = input[OPTION_HEADER_BYTES..].get(..len as usize) else {
            return (0, NegotiationState::Continues);
        };
        (OPTION_HEADER_BYTES + data.len(), self.answer_option(number, data, reply))
    }

    /// Appends the reply to a negotiation option to `reply`, and returns the state of the negotiation. `number` is the
    /// number of the option, `data` its data.
    fn answer_option(&mut self, number: u32, data: &[u8], reply: &mut Vec<u8>) -> NegotiationState {
        let lacks_tls = self.tls_policy == TlsPolicy::Required && !self.is_encrypted;
        match number {
            option::STARTTLS | option::ABORT => {}
            option::EXPORT_NAME if lacks_tls => return NegotiationState::Ended,
            _ if lacks_tls => {
                append_option_reply(
                    reply,
                    number,
                    option_reply_type::ERR_TLS_REQD,
                    b"this server requires TLS: negotiate it first (NBD_OPT_STARTTLS)",
                );
                return NegotiationState::Continues;
            }
            _ => {}
        }
        match number {
            option::EXPORT_NAME => return self.answer_export_name(data, reply),
            option::ABORT => {
                append_option_reply(reply, number, option_reply_type::ACK, &[]);
                return NegotiationState::Ended;
            }
            option::GO | option::INFO => return self.answer_info_or_go(number, data, reply),
            option::LIST => self.answer_list_exports(data, reply),
            option::STARTTLS => return self.answer_start_tls(data, reply),
            option::STRUCTURED_REPLY | option::EXTENDED_HEADERS => {
                self.answer_header_form_option(number, data, reply);
            }
            option::LIST_META_CONTEXT | option::SET_META_CONTEXT => {
                self.answer_context_option(number, data, reply);
            }
            _ => {
                append_option_reply(
                    reply,
                    number,
                    option_reply_type::ERR_UNSUP,
                    b"this server does not know the option: continue without it",
                );
            }
        }
        NegotiationState::Continues
    }

    /// Answers the negotiation options that choose the form of the headers. Extended headers imply structured replies.
    /// A client that has chosen extended headers cannot return to structured replies.
    fn answer_header_form_option(&mut self, number: u32, data: &[u8], reply: &mut Vec<u8>) {
        let chosen =
            if number == option::EXTENDED_HEADERS { HeaderForm::Extended } else { HeaderForm::Structured };
        let (kind, sentence): (u32, &[u8]) = if !data.is_empty() {
            (option_reply_type::ERR_INVALID, b"this option must be sent without data")
        } else if self.negotiated.header_form == HeaderForm::Extended && chosen != HeaderForm::Extended {
            (
                option_reply_type::ERR_EXT_HEADER_REQD,
                b"extended headers were negotiated and include structured replies: do not request these",
            )
        } else {
            self.negotiated.header_form = chosen;
            (option_reply_type::ACK, b"")
        };
        append_option_reply(reply, number, kind, sentence);
    }

    /// Answers `NBD_OPT_STARTTLS`, the request of a client for encryption. If TLS is offered, the negotiation begins
    /// anew, because what was agreed on without encryption may come from an attacker.
    fn answer_start_tls(&mut self, data: &[u8], reply: &mut Vec<u8>) -> NegotiationState {
        let refusal: Option<(u32, &[u8])> = match self.tls_policy {
            TlsPolicy::Refused => Some((
                option_reply_type::ERR_POLICY,
                b"this server offers no TLS, and listens on Unix sockets and loopback only: connect without TLS, or \
                  put a TLS tunnel in front",
            )),
            _ if !data.is_empty() => Some((option_reply_type::ERR_INVALID, b"this option must be sent without data")),
            _ if self.is_encrypted => Some((option_reply_type::ERR_INVALID, b"the connection is encrypted already: \
                                                                              continue with another option")),
            _ => None,
        };
        if let Some((kind, sentence)) = refusal {
            append_option_reply(reply, option::STARTTLS, kind, sentence);
            return NegotiationState::Continues;
        }
        append_option_reply(reply, option::STARTTLS, option_reply_type::ACK, &[]);
        self.negotiated = NegotiationResult::default();
        self.is_encrypted = true;
        NegotiationState::StartsTls
    }

    /// Returns the index of the export with this name; `None` if there is none. The empty name stands for the only
    /// export of a server with one export.
    fn find_export(&self, name: &[u8]) -> Option<usize> {
        if name.is_empty() {
            return (self.exports.len() == 1).then_some(0);
        }
        self.exports.iter().position(|export| export.name.as_bytes() == name)
    }

    /// Appends the error reply to an option that names an unknown export.
    fn refuse_export_name(&self, number: u32, name: &[u8], reply: &mut Vec<u8>) {
        let sentence: &[u8] = match (name, self.exports.len()) {
            (_, 0) => {
                b"every device of this server has stopped (the log of the server says why): start the server again"
            }
            (b"", _) => b"this server has several exports: choose one of them by its name",
            _ => b"this server has no export of that name: list the exports to choose one",
        };
        append_option_reply(reply, number, option_reply_type::ERR_UNKNOWN, sentence);
    }

    /// Makes export number `export` the chosen one. Metadata contexts that the client set for another export are
    /// dropped.
    fn choose_export(&mut self, export: usize) {
        if export != self.negotiated.export_index {
            self.negotiated.contexts = MetadataContexts::default();
        }
        self.negotiated.export_index = export;
    }

    /// Answers `NBD_OPT_EXPORT_NAME`, the oldest way to choose an export. The option has no error reply. Therefore an
    /// unknown name ends the connection, and so does the option from a client with extended headers, which may not use
    /// it.
    fn answer_export_name(&mut self, name: &[u8], reply: &mut Vec<u8>) -> NegotiationState {
        if self.negotiated.header_form == HeaderForm::Extended {
            return NegotiationState::Ended;
        }
        let Some(chosen) = self.find_export(name) else { return NegotiationState::Ended };
        self.choose_export(chosen);
        let export = self.exports[chosen];
        reply.extend(export.capacity_bytes.to_be_bytes());
        reply.extend(export.transmission_flags(self.negotiated.header_form, false).to_be_bytes());
        if !self.omits_zero_padding {
            reply.extend([0; 124]);
        }
        NegotiationState::Agreed(self.negotiated)
    }

    /// Answers `NBD_OPT_LIST` with the names and descriptions of all exports.
    fn answer_list_exports(&self, data: &[u8], reply: &mut Vec<u8>) {
        if !data.is_empty() {
            return append_option_reply(
                reply,
                option::LIST,
                option_reply_type::ERR_INVALID,
                b"this option must be sent without data",
            );
        }
        for export in &self.exports {
            let name = export.name.as_bytes();
            let entry = [&(name.len() as u32).to_be_bytes(), name, export.description.as_bytes()].concat();
            append_option_reply(reply, option::LIST, option_reply_type::SERVER, &entry);
        }
        append_option_reply(reply, option::LIST, option_reply_type::ACK, &[]);
    }

    /// Answers `NBD_OPT_INFO` or `NBD_OPT_GO` with the properties of an export. `NBD_OPT_GO` also chooses the export.
    fn answer_info_or_go(&mut self, number: u32, data: &[u8], reply: &mut Vec<u8>) -> NegotiationState {
        let Some((name, wanted)) = parse_info_request(data) else {
            append_option_reply(
                reply,
                number,
                option_reply_type::ERR_INVALID,
                b"the option data is malformed: an export name and a list of information types are expected",
            );
            return NegotiationState::Continues;
        };
        let Some(chosen) = self.find_export(name) else {
            self.refuse_export_name(number, name, reply);
            return NegotiationState::Continues;
        };
        let export = self.exports[chosen];
        let has_contexts = chosen == self.negotiated.export_index && !self.negotiated.contexts.is_empty();
        let flags =
            export.transmission_flags(self.negotiated.header_form, has_contexts || number == option::INFO);
        let size = [&export.capacity_bytes.to_be_bytes()[..], &flags.to_be_bytes()].concat();
        append_info_reply(reply, number, info_type::EXPORT, &size);
        let wants = |kind: u16| wanted.chunks_exact(2).any(|pair| pair == kind.to_be_bytes());
        if wants(info_type::NAME) {
            append_info_reply(reply, number, info_type::NAME, export.name.as_bytes());
        }
        if wants(info_type::DESCRIPTION) {
            append_info_reply(reply, number, info_type::DESCRIPTION, export.description.as_bytes());
        }
        if wants(info_type::BLOCK_SIZE) {
            let sizes = [MINIMUM_BLOCK_BYTES, export.write_granularity_bytes, PAYLOAD_MAX_BYTES]
                .map(u32::to_be_bytes)
                .concat();
            append_info_reply(reply, number, info_type::BLOCK_SIZE, &sizes);
        }
        append_option_reply(reply, number, option_reply_type::ACK, &[]);
        if number == option::INFO {
            return NegotiationState::Continues;
        }
        self.choose_export(chosen);
        self.negotiated.has_requested_block_sizes = wants(info_type::BLOCK_SIZE);
        NegotiationState::Agreed(self.negotiated)
    }

    /// Answers the options that list or set metadata contexts. In a list query, a namespace such as `base:` matches all
    /// its contexts. A set query has to be the exact name of a context.
    fn answer_context_option(&mut self, number: u32, data: &[u8], reply: &mut Vec<u8>) {
        let sets = number == option::SET_META_CONTEXT;
        if sets {
            self.negotiated.contexts = MetadataContexts::default();
        }
        if sets && !self.negotiated.header_form.allows_reply_chunks() {
            return append_option_reply(
                reply,
                number,
                option_reply_type::ERR_INVALID,
                b"metadata contexts need structured replies or extended headers: negotiate these first",
            );
        }
        let Some((name, queries)) = parse_context_queries(data) else {
            return append_option_reply(
                reply,
                number,
                option_reply_type::ERR_INVALID,
                b"the option data is malformed: an export name and a list of queries are expected",
            );
        };
        let Some(chosen) = self.find_export(name) else {
            return self.refuse_export_name(number, name, reply);
        };
        if sets {
            self.negotiated.export_index = chosen;
        }
        let known = [
            (context::ALLOCATION_CONTEXT_ID, ALLOCATION_CONTEXT),
            (context::PAGE_STATE_CONTEXT_ID, PAGE_STATE_CONTEXT),
        ];
        for (id, name) in known {
            let namespace = &name.as_bytes()[..=name.find(':').expect("names have a namespace")];
            let fits = |query: &&[u8]| *query == name.as_bytes() || !sets && *query == namespace;
            if !queries.iter().any(fits) && (sets || !queries.is_empty()) {
                continue;
            }
            if sets {
                self.negotiated.contexts.has_allocation |= id == context::ALLOCATION_CONTEXT_ID;
                self.negotiated.contexts.has_page_state |= id == context::PAGE_STATE_CONTEXT_ID;
            }
            let id = if sets { id } else { 0 };
            append_option_reply(
                reply,
                number,
                option_reply_type::META_CONTEXT,
                &[&id.to_be_bytes(), name.as_bytes()].concat(),
            );
        }
        append_option_reply(reply, number, option_reply_type::ACK, &[]);
    }
}

/// Appends one reply to a negotiation option: the header of the reply, then `data`.
fn append_option_reply(reply: &mut Vec<u8>, option: u32, kind: u32, data: &[u8]) {
    reply.extend(OPTION_REPLY_MAGIC.to_be_bytes());
    for word in [option, kind, data.len() as u32] {
        reply.extend(word.to_be_bytes());
    }
    reply.extend(data);
}

/// Appends one item of information about an export, of type `kind`, in reply to a negotiation option.
fn append_info_reply(reply: &mut Vec<u8>, option: u32, kind: u16, data: &[u8]) {
    append_option_reply(reply, option, option_reply_type::INFO, &[&kind.to_be_bytes(), data].concat());
}

/// Takes a 4-byte length, and then that number of bytes, from the front of `data`. `None` if `data` is too short.
fn take_length_prefixed_bytes<'d>(data: &mut &'d [u8]) -> Option<&'d [u8]> {
    let (count, rest) = data.split_first_chunk()?;
    let (bytes, rest) = rest.split_at_checked(u32::from_be_bytes(*count) as usize)?;
    *data = rest;
    Some(bytes)
}

/// Parses the data of `NBD_OPT_INFO` or `NBD_OPT_GO`: the export name, and the requested information types, two bytes
/// each.
fn parse_info_request(mut data: &[u8]) -> Option<(&[u8], &[u8])> {
    let name = take_length_prefixed_bytes(&mut data)?;
    let (count, kinds) = data.split_first_chunk()?;
    (kinds.len() == 2 * u16::from_be_bytes(*count) as usize).then_some((name, kinds))
}

/// Parses the data of an option about metadata contexts into the export name and the names or namespaces that are
/// queried.
fn parse_context_queries(mut data: &[u8]) -> Option<(&[u8], Vec<&[u8]>)> {
    let name = take_length_prefixed_bytes(&mut data)?;
    let (count, mut rest) = data.split_first_chunk()?;
    let count = u32::from_be_bytes(*count) as usize;
    // A query takes at least four bytes, so a false count costs no memory.
    let queries: Vec<_> = (0..count).map_while(|_| take_length_prefixed_bytes(&mut rest)).collect();
    (queries.len() == count && rest.is_empty()).then_some((name, queries))
}
