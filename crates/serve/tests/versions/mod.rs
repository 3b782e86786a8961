//! The exact oracle for tests of durability. For every block it knows the last durable version and all versions that
//! were sent since, with several requests in flight on several connections.
//!
//! A version becomes possible when its request is *sent*. When it is durable, all older versions become impossible. It
//! is durable if its request had the flag FUA and was acknowledged. It is also durable if a flush was acknowledged, and
//! this flush was sent, on any connection, after the version was acknowledged. After a power cut a block must hold one
//! of its versions, whole; that one is then the only one. At most one request is in flight per block, so the versions
//! of a block have an order.

use rand::RngExt;
use rand_xoshiro::Xoshiro256PlusPlus;

/// Content of a block: owner number and version number. The owner number is 1 plus the number of the only block that
/// may hold the content. [`OWNER_OF_SHARED_CONTENT`] means that any block may hold it. [`NOTHING`] means zeros.
pub type BlockContent = (u64, u64);

/// Content of a block that was never written or was trimmed: zeros.
pub const NOTHING: BlockContent = (0, 0);
/// Owner number of contents that do not belong to a single block: any block may hold them.
pub const OWNER_OF_SHARED_CONTENT: u64 = 1 << 40;

/// Returns the bytes of a block that is filled with a content value.
pub fn page_of(value: BlockContent, page_bytes: usize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(page_bytes);
    while bytes.len() < page_bytes {
        bytes.extend_from_slice(&value.0.to_le_bytes());
        bytes.extend_from_slice(&value.1.to_le_bytes());
    }
    bytes
}

/// Returns the content value with which a block is filled; `None` if the block is not filled with one value.
pub fn decode_block_content(bytes: &[u8]) -> Option<BlockContent> {
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
    ContentOfOtherBlock,
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
    pub kind: ViolationKind,
    /// Content that was found; `None` if the block is not filled with one value.
    pub found: Option<BlockContent>,
    /// Contents that the block may have.
    pub allowed: Vec<BlockContent>,
}

/// A version of a block that the block may hold after a power cut.
#[derive(Clone, Copy, Debug)]
struct Version {
    /// Content of the version.
    value: BlockContent,
    /// Number of the event by which the version was acknowledged; `None` if it was not yet. Events are numbered in
    /// their order.
    acknowledged_at_event_number: Option<u64>,
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
    pub first_block: u64,
    /// New content of each block of the request.
    pub block_contents: Vec<BlockContent>,
    /// Whether the request has the flag FUA.
    pub is_durable: bool,
    /// Number of the event by which the request was sent. Events are numbered in their order.
    sent_at_event_number: u64,
}

/// Oracle that knows all contents that each block may hold, with several requests in flight.
#[derive(Clone, Debug)]
pub struct Oracle {
    /// Possible versions of each block, oldest first.
    blocks: Vec<Vec<Version>>,
    /// Whether a request in flight uses the block, for each block.
    has_request_in_flight: Vec<bool>,
    /// Number of the last event (a request sent or acknowledged). Every event gets a larger number.
    last_event_number: u64,
    /// Version number of the last drawn content.
    version: u64,
    /// Number of blocks compared so far.
    pub compared_blocks: u64,
}

impl Oracle {
    /// Makes the oracle of a drive whose blocks hold zeros.
    pub fn new(blocks: u64) -> Self {
        let nothing = Version { value: NOTHING, acknowledged_at_event_number: Some(0) };
        Self {
            blocks: vec![vec![nothing]; blocks as usize],
            has_request_in_flight: vec![false; blocks as usize],
            last_event_number: 1,
            version: 0,
            compared_blocks: 0,
        }
    }

    /// Returns the number of blocks of the drive.
    pub fn blocks(&self) -> u64 {
        self.blocks.len() as u64
    }

    /// Counts an event and returns its number, which is greater than that of every earlier event.
    pub fn advance_event_number(&mut self) -> u64 {
        self.last_event_number += 1;
        self.last_event_number
    }

    /// Records that a write of `value` to a block was sent, so that the block may hold this value from now on.
    pub fn record_sent_version(&mut self, block: u64, value: BlockContent) {
        self.blocks[block as usize].push(Version { value, acknowledged_at_event_number: None });
    }

    /// Records that the newest version of a block is acknowledged.
    pub fn acknowledge(&mut self, block: u64, is_durable: bool) {
        let now = self.advance_event_number();
        let versions = &mut self.blocks[block as usize];
        if is_durable {
            versions.drain(..versions.len() - 1);
        }
        versions.last_mut().expect("a block always has a version").acknowledged_at_event_number = Some(now);
    }

    /// Records that a flush was acknowledged. Versions that were acknowledged before the flush was sent are durable.
    pub fn record_acknowledged_flush(&mut self, sent_at_event_number: u64) {
        for versions in &mut self.blocks {
            let is_durable = |version: &Version| {
                version.acknowledged_at_event_number.is_some_and(|at| at < sent_at_event_number)
            };
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
                let sent_at_event_number = self.advance_event_number();
                return Some(Request {
                    kind: RequestKind::Flush,
                    first_block: 0,
                    block_contents: vec![],
                    is_durable: true,
                    sent_at_event_number,
                });
            }
        };
        let (first_block, count) = self.draw_unused_blocks(random)?;
        self.has_request_in_flight[first_block as usize..(first_block + count) as usize].fill(true);
        let block_contents: Vec<BlockContent> =
            (first_block..first_block + count).map(|block| self.new_value(kind, block, random)).collect();
        for (block, &value) in (first_block..).zip(&block_contents) {
            self.record_sent_version(block, value);
        }
        let is_durable = random.random_range(0..100) < 15;
        Some(Request {
            kind,
            first_block,
            block_contents,
            is_durable,
            sent_at_event_number: self.advance_event_number(),
        })
    }

    /// Draws consecutive blocks that no request in flight uses, and returns the first block and the number of blocks.
    /// Several draws are tried before `None` is returned. With one draw, flushes, which need no blocks, would be so
    /// frequent that a flush that does nothing is hidden by an effective one soon after it.
    fn draw_unused_blocks(&self, random: &mut Xoshiro256PlusPlus) -> Option<(u64, u64)> {
        /// Maximum number of random positions that are tried to find unused blocks.
        const TRIES: usize = 16;
        let blocks = self.blocks();
        let mut drawn = (0..TRIES).map(|_| {
            let span = if random.random_range(0..3) > 0 { blocks / 4 } else { blocks };
            let first = random.random_range(0..span);
            let longest: u64 = if random.random_range(0..4) == 0 { 16 } else { 2 };
            (first, random.random_range(1..=longest).min(blocks - first))
        });
        drawn.find(|&(first, count)| {
            self.has_request_in_flight[first as usize..(first + count) as usize].iter().all(|&busy| !busy)
        })
    }

    /// Draws the next content of a block. A third of the contents occurs in other blocks too, so that designs share,
    /// recycle and remap pages.
    fn new_value(&mut self, kind: RequestKind, block: u64, random: &mut Xoshiro256PlusPlus) -> BlockContent {
        self.version += 1;
        match kind {
            RequestKind::Write if random.random_range(0..3) == 0 => {
                (OWNER_OF_SHARED_CONTENT, random.random_range(0..30))
            }
            RequestKind::Write => (1 + block, self.version),
            _ => NOTHING,
        }
    }

    /// Records that a request is acknowledged.
    pub fn complete(&mut self, request: &Request) {
        if request.kind == RequestKind::Flush {
            return self.record_acknowledged_flush(request.sent_at_event_number);
        }
        for block in request.first_block..request.first_block + request.block_contents.len() as u64 {
            self.acknowledge(block, request.is_durable);
            self.has_request_in_flight[block as usize] = false;
        }
    }

    /// Compares a block after a power cut with the contents that it may hold. The content found becomes the only
    /// allowed one.
    pub fn judge(&mut self, block: u64, bytes: &[u8]) -> Option<Violation> {
        self.compared_blocks += 1;
        self.has_request_in_flight[block as usize] = false;
        let versions = &mut self.blocks[block as usize];
        let allowed: Vec<BlockContent> = versions.iter().map(|version| version.value).collect();
        let found = decode_block_content(bytes);
        *versions = vec![Version { value: found.unwrap_or(NOTHING), acknowledged_at_event_number: Some(0) }];
        let kind = match found {
            Some(value) if allowed.contains(&value) => return None,
            None => ViolationKind::Torn,
            Some(NOTHING) => ViolationKind::Lost,
            Some((owner, _)) if owner != 1 + block => ViolationKind::ContentOfOtherBlock,
            Some(_) if allowed[0] == NOTHING => ViolationKind::Resurrected,
            Some(_) => ViolationKind::Stale,
        };
        Some(Violation { block, kind, found, allowed })
    }
}
