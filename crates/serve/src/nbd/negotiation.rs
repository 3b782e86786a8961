//! From the first byte to the export: fixed newstyle negotiation as a state machine over bytes.

use super::wire::{
    FIXED_NEWSTYLE, GREETING_MAGIC, NO_ZEROES, OPTION_MAGIC, REPLY_MAGIC, answer, info, option,
};
use super::{
    ALLOCATION_CONTEXT, Export, OPTION_MAX_BYTES, PAYLOAD_MAX_BYTES, SECTOR_BYTES, STATE_CONTEXT, context,
};

/// Data of an option that is longer than this is not even skipped: the connection ends.
const SKIP_MAX_BYTES: u32 = 16 << 20;
/// Bytes of an option before its data.
const OPTION_HEAD_BYTES: usize = 16;

/// What a client and the server agreed on.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is agreed on or not, whatever the others are")]
pub struct Negotiated {
    /// Replies to reads come in chunks, errors with a sentence.
    pub is_structured: bool,
    /// The client asked for block sizes, so it has to keep to them.
    pub knows_sizes: bool,
    /// Block status tells `base:allocation`.
    pub allocation: bool,
    /// Block status tells our own context.
    pub state: bool,
    /// Which of the exports that were offered.
    pub export: usize,
}

/// Where a negotiation stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// More bytes are needed.
    Continues,
    /// Transmission begins with the next byte.
    Agreed(Negotiated),
    /// The connection ends, as the client wished or because it speaks something else.
    Ended,
}

/// A negotiation.
#[derive(Clone, Debug)]
pub struct Negotiation<'a> {
    exports: Vec<&'a Export>,
    has_client_flags: bool,
    no_zeroes: bool,
    agreed: Negotiated,
    /// Bytes of a refused option that are still to come.
    to_skip: u32,
}

impl<'a> Negotiation<'a> {
    /// A negotiation about the exports of a server. Appends the greeting, which the server sends first, to `reply`.
    pub fn new(exports: Vec<&'a Export>, reply: &mut Vec<u8>) -> Self {
        reply.extend(GREETING_MAGIC.to_be_bytes());
        reply.extend(OPTION_MAGIC.to_be_bytes());
        reply.extend(((FIXED_NEWSTYLE | NO_ZEROES) as u16).to_be_bytes());
        Self { exports, has_client_flags: false, no_zeroes: false, agreed: Negotiated::default(), to_skip: 0 }
    }

    /// Takes what it can from the front of `input`, appends replies, and returns how many bytes it took. The rest is to
    /// be offered again with more behind it: at most an option of [`OPTION_MAX_BYTES`] stays.
    pub fn advance(&mut self, input: &[u8], reply: &mut Vec<u8>) -> (usize, Outcome) {
        let mut taken = 0;
        loop {
            let rest = &input[taken..];
            let skipped = (self.to_skip as usize).min(rest.len());
            let (used, outcome) = if self.to_skip > 0 && skipped > 0 {
                self.to_skip -= skipped as u32;
                (skipped, Outcome::Continues)
            } else if self.has_client_flags {
                self.take_option(rest, reply)
            } else {
                self.take_client_flags(rest)
            };
            taken += used;
            if used == 0 || outcome != Outcome::Continues {
                return (taken, outcome);
            }
        }
    }

    fn take_client_flags(&mut self, input: &[u8]) -> (usize, Outcome) {
        let Some(flags) = input.first_chunk().map(|&bytes| u32::from_be_bytes(bytes)) else {
            return (0, Outcome::Continues);
        };
        if flags & !(FIXED_NEWSTYLE | NO_ZEROES) != 0 {
            return (4, Outcome::Ended);
        }
        self.no_zeroes = flags & NO_ZEROES != 0;
        self.has_client_flags = true;
        (4, Outcome::Continues)
    }

    fn take_option(&mut self, input: &[u8], reply: &mut Vec<u8>) -> (usize, Outcome) {
        let Some(head) = input.first_chunk::<OPTION_HEAD_BYTES>() else { return (0, Outcome::Continues) };
        let word = |at: usize| u32::from_be_bytes(head[at..at + 4].try_into().expect("four bytes"));
        let (number, len) = (word(8), word(12));
        if head[..8] != OPTION_MAGIC.to_be_bytes() || len > SKIP_MAX_BYTES {
            return (input.len(), Outcome::Ended);
        }
        if len > OPTION_MAX_BYTES {
            self.to_skip = len;
            put(reply, number, answer::ERR_TOO_BIG, b"an option has at most 64 KiB of data");
            return (OPTION_HEAD_BYTES, Outcome::Continues);
        }
        let Some(data) = input[OPTION_HEAD_BYTES..].get(..len as usize) else {
            return (0, Outcome::Continues);
        };
        (OPTION_HEAD_BYTES + data.len(), self.perform(number, data, reply))
    }

    fn perform(&mut self, number: u32, data: &[u8], reply: &mut Vec<u8>) -> Outcome {
        match number {
            option::EXPORT_NAME => return self.export_by_name(data, reply),
            option::ABORT => {
                put(reply, number, answer::ACK, &[]);
                return Outcome::Ended;
            }
            option::GO | option::INFO => return self.inform(number, data, reply),
            option::LIST => self.list(data, reply),
            option::STARTTLS => put(
                reply,
                number,
                answer::ERR_POLICY,
                b"this server has no TLS: it listens on Unix sockets and loopback only, put a TLS tunnel in front",
            ),
            option::STRUCTURED_REPLY if data.is_empty() => {
                self.agreed.is_structured = true;
                put(reply, number, answer::ACK, &[]);
            }
            option::STRUCTURED_REPLY => put(reply, number, answer::ERR_INVALID, b"this option has no data"),
            option::LIST_META_CONTEXT | option::SET_META_CONTEXT => self.contexts(number, data, reply),
            _ => put(reply, number, answer::ERR_UNSUP, b"this server does not know the option"),
        }
        Outcome::Continues
    }

    /// The export of a name. Without a name it is the only one there is.
    fn find(&self, name: &[u8]) -> Option<usize> {
        if name.is_empty() {
            return (self.exports.len() == 1).then_some(0);
        }
        self.exports.iter().position(|export| export.name.as_bytes() == name)
    }

    /// Refuses an option that names no export.
    fn refuse_name(&self, number: u32, name: &[u8], reply: &mut Vec<u8>) {
        let sentence: &[u8] = match (name, self.exports.len()) {
            (_, 0) => b"no device of this server works any more",
            (b"", _) => b"this server has several exports: choose one of them by its name",
            _ => b"there is no export of that name",
        };
        put(reply, number, answer::ERR_UNKNOWN, sentence);
    }

    /// Chooses an export. Contexts that were set for another one do not count.
    fn choose(&mut self, export: usize) {
        if export != self.agreed.export {
            (self.agreed.allocation, self.agreed.state) = (false, false);
        }
        self.agreed.export = export;
    }

    /// The oldest way to choose an export has no way to refuse one.
    fn export_by_name(&mut self, name: &[u8], reply: &mut Vec<u8>) -> Outcome {
        let Some(chosen) = self.find(name) else { return Outcome::Ended };
        self.choose(chosen);
        let export = self.exports[chosen];
        reply.extend(export.capacity_bytes.to_be_bytes());
        reply.extend(export.flags(self.agreed.is_structured).to_be_bytes());
        if !self.no_zeroes {
            reply.extend([0; 124]);
        }
        Outcome::Agreed(self.agreed)
    }

    fn list(&self, data: &[u8], reply: &mut Vec<u8>) {
        if !data.is_empty() {
            return put(reply, option::LIST, answer::ERR_INVALID, b"this option has no data");
        }
        for export in &self.exports {
            let name = export.name.as_bytes();
            let entry = [&(name.len() as u32).to_be_bytes(), name, export.description.as_bytes()].concat();
            put(reply, option::LIST, answer::SERVER, &entry);
        }
        put(reply, option::LIST, answer::ACK, &[]);
    }

    fn inform(&mut self, number: u32, data: &[u8], reply: &mut Vec<u8>) -> Outcome {
        let Some((name, wanted)) = parse_info_request(data) else {
            put(
                reply,
                number,
                answer::ERR_INVALID,
                b"a name and a list of kinds of information are expected",
            );
            return Outcome::Continues;
        };
        let Some(chosen) = self.find(name) else {
            self.refuse_name(number, name, reply);
            return Outcome::Continues;
        };
        let export = self.exports[chosen];
        let flags = export.flags(self.agreed.is_structured);
        let size = [&export.capacity_bytes.to_be_bytes()[..], &flags.to_be_bytes()].concat();
        put_info(reply, number, info::EXPORT, &size);
        let wants = |kind: u16| wanted.chunks_exact(2).any(|pair| pair == kind.to_be_bytes());
        if wants(info::NAME) {
            put_info(reply, number, info::NAME, export.name.as_bytes());
        }
        if wants(info::DESCRIPTION) {
            put_info(reply, number, info::DESCRIPTION, export.description.as_bytes());
        }
        if wants(info::BLOCK_SIZE) {
            let sizes = [SECTOR_BYTES, export.block_bytes, PAYLOAD_MAX_BYTES].map(u32::to_be_bytes).concat();
            put_info(reply, number, info::BLOCK_SIZE, &sizes);
        }
        put(reply, number, answer::ACK, &[]);
        if number == option::INFO {
            return Outcome::Continues;
        }
        self.choose(chosen);
        self.agreed.knows_sizes = wants(info::BLOCK_SIZE);
        Outcome::Agreed(self.agreed)
    }

    /// Tells or sets contexts. A query of a list may be the name of a namespace; one that sets is exact.
    fn contexts(&mut self, number: u32, data: &[u8], reply: &mut Vec<u8>) {
        let sets = number == option::SET_META_CONTEXT;
        if sets {
            (self.agreed.allocation, self.agreed.state) = (false, false);
        }
        if sets && !self.agreed.is_structured {
            return put(reply, number, answer::ERR_INVALID, b"contexts need structured replies first");
        }
        let Some((name, queries)) = parse_queries(data) else {
            return put(reply, number, answer::ERR_INVALID, b"a name and a list of queries are expected");
        };
        let Some(chosen) = self.find(name) else { return self.refuse_name(number, name, reply) };
        if sets {
            self.agreed.export = chosen;
        }
        let known = [(context::ALLOCATION, ALLOCATION_CONTEXT), (context::STATE, STATE_CONTEXT)];
        for (id, name) in known {
            let namespace = &name.as_bytes()[..=name.find(':').expect("names have a namespace")];
            let fits = |query: &&[u8]| *query == name.as_bytes() || !sets && *query == namespace;
            if !queries.iter().any(fits) && (sets || !queries.is_empty()) {
                continue;
            }
            if sets {
                self.agreed.allocation |= id == context::ALLOCATION;
                self.agreed.state |= id == context::STATE;
            }
            let id = if sets { id } else { 0 };
            put(reply, number, answer::META_CONTEXT, &[&id.to_be_bytes(), name.as_bytes()].concat());
        }
        put(reply, number, answer::ACK, &[]);
    }
}

/// Appends one reply to an option.
fn put(reply: &mut Vec<u8>, option: u32, kind: u32, data: &[u8]) {
    reply.extend(REPLY_MAGIC.to_be_bytes());
    for word in [option, kind, data.len() as u32] {
        reply.extend(word.to_be_bytes());
    }
    reply.extend(data);
}

fn put_info(reply: &mut Vec<u8>, option: u32, kind: u16, data: &[u8]) {
    put(reply, option, answer::INFO, &[&kind.to_be_bytes(), data].concat());
}

/// Takes a number of four bytes and as many bytes from the front.
fn take_counted<'d>(data: &mut &'d [u8]) -> Option<&'d [u8]> {
    let (count, rest) = data.split_first_chunk()?;
    let (bytes, rest) = rest.split_at_checked(u32::from_be_bytes(*count) as usize)?;
    *data = rest;
    Some(bytes)
}

/// The name, and the kinds of information, two bytes each.
fn parse_info_request(mut data: &[u8]) -> Option<(&[u8], &[u8])> {
    let name = take_counted(&mut data)?;
    let (count, kinds) = data.split_first_chunk()?;
    (kinds.len() == 2 * u16::from_be_bytes(*count) as usize).then_some((name, kinds))
}

/// The name, and the queries.
fn parse_queries(mut data: &[u8]) -> Option<(&[u8], Vec<&[u8]>)> {
    let name = take_counted(&mut data)?;
    let (count, mut rest) = data.split_first_chunk()?;
    let count = u32::from_be_bytes(*count) as usize;
    // A query takes four bytes at least, so a false count costs nothing.
    let queries: Vec<_> = (0..count).map_while(|_| take_counted(&mut rest)).collect();
    (queries.len() == count && rest.is_empty()).then_some((name, queries))
}
