//! The exact oracle for tests of durability. For every block it knows the last durable version and all versions that
//! were sent since, with several requests in flight on several connections.
//!
//! A version becomes possible when its request is *sent*. When it is durable, all older versions become impossible. It
//! is durable if its request had the flag FUA and was acknowledged. It is also durable if a flush was acknowledged that
//! was sent, on whatever connection, after the version's acknowledgement. After a cut a block must hold one of its
//! versions, whole; that one is then the only one. Never are two requests in flight on one block, so its versions have
//! an order.

use rand::RngExt;
use rand_xoshiro::Xoshiro256PlusPlus;

/// Content of a block: owner and version number. The owner is the only block that may hold the content. [`SHARED`] as
/// owner means that any block may hold it. [`NOTHING`] means zeros.
pub type Value = (u64, u64);

/// Content of a block that was never written or was trimmed: zeros.
pub const NOTHING: Value = (0, 0);
/// Owner number of contents that any block may hold.
pub const SHARED: u64 = 1 << 40;

/// Returns the bytes of a block that is filled with a content value.
pub fn page_of(value: Value, page_bytes: usize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(page_bytes);
    while bytes.len() < page_bytes {
        bytes.extend_from_slice(&value.0.to_le_bytes());
        bytes.extend_from_slice(&value.1.to_le_bytes());
    }
    bytes
}

/// Returns the content value with which a block is filled; `None` if the block is not filled with one value.
pub fn value_of(bytes: &[u8]) -> Option<Value> {
    let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
    let value = (word(0), word(8));
    (page_of(value, bytes.len()) == bytes).then_some(value)
}

/// Kind of error that the oracle found in a block.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum ViolationKind {
    /// The block holds a mix of values, or bytes that were never written.
    Torn,
    /// The block holds the content of another block.
    Foreign,
    /// The block holds zeros, although its last durable content was something else.
    Lost,
    /// The block holds a version that is older than its last durable one.
    Stale,
    /// The block holds a version from before its last durable trim.
    Resurrected,
}

/// A block whose content is not among those that the oracle allows.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Violation {
    /// Number of the block.
    pub block: u64,
    /// Kind of the error.
    pub wrong: ViolationKind,
    /// Content that was found; `None` if the block is not filled with one value.
    pub found: Option<Value>,
    /// Contents that the block may have.
    pub allowed: Vec<Value>,
}

/// A version of a block that the block may hold after a power cut.
#[derive(Clone, Copy, Debug)]
struct Version {
    /// Content of the version.
    value: Value,
    /// Moment of the oracle's clock at which the version was acknowledged; `None` if it was not yet.
    acknowledged_at: Option<u64>,
}

/// Kind of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RequestKind {
    /// Write of new contents.
    Write,
    /// Write of zeros.
    Zero,
    /// Deallocation, after which the blocks read as zeros.
    Trim,
    /// Flush of the device.
    Flush,
}

/// A request of the random workload.
#[derive(Clone, Debug)]
pub struct Request {
    /// Kind of the request.
    pub kind: RequestKind,
    /// First block of the request.
    pub first: u64,
    /// New content of each block of the request.
    pub values: Vec<Value>,
    /// Whether the request has the flag FUA.
    pub is_durable: bool,
    /// Moment of the oracle's clock at which the request was sent.
    sent_at: u64,
}

/// Oracle that knows all contents that each block may hold, with several requests in flight.
#[derive(Clone, Debug)]
pub struct Oracle {
    /// Possible versions of each block, oldest first.
    blocks: Vec<Vec<Version>>,
    /// Whether a request in flight uses the block, for each block.
    busy: Vec<bool>,
    /// Moment of the last event; every event gets a larger number.
    clock: u64,
    /// Version number of the last drawn content.
    version: u64,
    /// Number of blocks compared so far.
    pub checked: u64,
}

impl Oracle {
    /// Makes the oracle of a drive whose blocks hold zeros.
    pub fn new(blocks: u64) -> Self {
        let nothing = Version { value: NOTHING, acknowledged_at: Some(0) };
        Self {
            blocks: vec![vec![nothing]; blocks as usize],
            busy: vec![false; blocks as usize],
            clock: 1,
            version: 0,
            checked: 0,
        }
    }

    /// Returns the number of blocks of the drive.
    pub fn blocks(&self) -> u64 {
        self.blocks.len() as u64
    }

    /// Advances the oracle's clock and returns its value, which is greater than the moment of every earlier event.
    pub fn advance_clock(&mut self) -> u64 {
        self.clock += 1;
        self.clock
    }

    /// Records that a write of `value` to a block was sent, so that the block may hold this value from now on.
    pub fn issue(&mut self, block: u64, value: Value) {
        self.blocks[block as usize].push(Version { value, acknowledged_at: None });
    }

    /// Records that the newest version of a block is acknowledged.
    pub fn acknowledge(&mut self, block: u64, is_durable: bool) {
        let now = self.advance_clock();
        let versions = &mut self.blocks[block as usize];
        if is_durable {
            versions.drain(..versions.len() - 1);
        }
        versions.last_mut().expect("a block always has a version").acknowledged_at = Some(now);
    }

    /// Records that a flush was acknowledged, which was sent at the moment `sent_at`. Versions that were acknowledged
    /// before that moment are durable.
    pub fn flushed(&mut self, sent_at: u64) {
        for versions in &mut self.blocks {
            let is_durable = |version: &Version| version.acknowledged_at.is_some_and(|at| at < sent_at);
            let durable = versions.iter().rposition(is_durable).unwrap_or(0);
            versions.drain(..durable);
        }
    }

    /// Draws a request to blocks that no request in flight uses, and records that it was sent. `None` if no such blocks
    /// were found.
    pub fn draw(&mut self, random: &mut Xoshiro256PlusPlus) -> Option<Request> {
        let kind = match random.random_range(0..100) {
            0..85 => RequestKind::Write,
            85..89 => RequestKind::Zero,
            89..93 => RequestKind::Trim,
            _ => {
                let sent_at = self.advance_clock();
                return Some(Request {
                    kind: RequestKind::Flush,
                    first: 0,
                    values: vec![],
                    is_durable: true,
                    sent_at,
                });
            }
        };
        let (first, count) = self.free_run(random)?;
        self.busy[first as usize..(first + count) as usize].fill(true);
        let values: Vec<Value> =
            (first..first + count).map(|block| self.new_value(kind, block, random)).collect();
        for (block, &value) in (first..).zip(&values) {
            self.issue(block, value);
        }
        let is_durable = random.random_range(0..100) < 15;
        Some(Request { kind, first, values, is_durable, sent_at: self.advance_clock() })
    }

    /// Draws consecutive blocks that no request in flight uses, and returns the first block and the number of blocks.
    /// Several draws are tried. Otherwise flushes (which need no blocks) would be so frequent that an effective flush
    /// soon hides one that does nothing.
    fn free_run(&self, random: &mut Xoshiro256PlusPlus) -> Option<(u64, u64)> {
        /// Number of draws that are tried.
        const TRIES: usize = 16;
        let blocks = self.blocks();
        let mut drawn = (0..TRIES).map(|_| {
            let span = if random.random_range(0..3) > 0 { blocks / 4 } else { blocks };
            let first = random.random_range(0..span);
            let longest: u64 = if random.random_range(0..4) == 0 { 16 } else { 2 };
            (first, random.random_range(1..=longest).min(blocks - first))
        });
        drawn.find(|&(first, count)| {
            self.busy[first as usize..(first + count) as usize].iter().all(|&busy| !busy)
        })
    }

    /// Draws the next content of a block. A third of the contents occurs in other blocks too, so that designs share,
    /// recycle and remap pages.
    fn new_value(&mut self, kind: RequestKind, block: u64, random: &mut Xoshiro256PlusPlus) -> Value {
        self.version += 1;
        match kind {
            RequestKind::Write if random.random_range(0..3) == 0 => (SHARED, random.random_range(0..30)),
            RequestKind::Write => (1 + block, self.version),
            _ => NOTHING,
        }
    }

    /// Records that a request is acknowledged.
    pub fn complete(&mut self, request: &Request) {
        if request.kind == RequestKind::Flush {
            return self.flushed(request.sent_at);
        }
        for block in request.first..request.first + request.values.len() as u64 {
            self.acknowledge(block, request.is_durable);
            self.busy[block as usize] = false;
        }
    }

    /// Compares a block after a power cut with the contents that it may hold. The content found becomes the only
    /// allowed one.
    pub fn judge(&mut self, block: u64, bytes: &[u8]) -> Option<Violation> {
        self.checked += 1;
        self.busy[block as usize] = false;
        let versions = &mut self.blocks[block as usize];
        let allowed: Vec<Value> = versions.iter().map(|version| version.value).collect();
        let found = value_of(bytes);
        *versions = vec![Version { value: found.unwrap_or(NOTHING), acknowledged_at: Some(0) }];
        let wrong = match found {
            Some(value) if allowed.contains(&value) => return None,
            None => ViolationKind::Torn,
            Some(NOTHING) => ViolationKind::Lost,
            Some((owner, _)) if owner != 1 + block => ViolationKind::Foreign,
            Some(_) if allowed[0] == NOTHING => ViolationKind::Resurrected,
            Some(_) => ViolationKind::Stale,
        };
        Some(Violation { block, wrong, found, allowed })
    }
}
