//! Decompressed bytes of a trace file, in one bounded buffer.
//!
//! Text readers take lines from it and binary readers take records, both as slices of the buffer: no copy and no
//! allocation per record. The price is a hard limit: a line or record is at most [`LINE_MAX_BYTES`] long.
//! Compression is recognised by its magic number, never by the file name.

use std::fs::File;
use std::io::{self, Cursor, Read};
use std::ops::Range;
use std::path::Path;

use flate2::read::MultiGzDecoder;
use liblzma::read::XzDecoder;
use liblzma::stream::{CONCATENATED, Stream};

/// Longest line of a text trace, and size of the buffer.
pub const LINE_MAX_BYTES: usize = 1 << 20;
/// Bytes asked for at once: large enough to amortise the call, small enough to stay in the L2 cache.
const READ_BYTES: usize = 128 << 10;
/// Largest window that a zstd file may ask for, as a power of two; our captures use 2^27.
const ZSTD_WINDOW_LOG_MAX: u32 = 29;
/// Largest memory that an xz file may ask for.
const XZ_MEMORY_MAX_BYTES: u64 = 512 << 20;

/// How a file is compressed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Compression {
    /// Not at all.
    Plain,
    /// gzip, also several members.
    Gzip,
    /// Zstandard, also several frames.
    Zstd,
    /// xz, also several streams.
    Xz,
}

impl Compression {
    /// Recognises the first bytes of a file.
    pub fn of(head: &[u8]) -> Self {
        match head {
            [0x1f, 0x8b, ..] => Self::Gzip,
            [0x28, 0xb5, 0x2f, 0xfd, ..] => Self::Zstd,
            [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => Self::Xz,
            _ => Self::Plain,
        }
    }
}

/// Opens a file and undoes its compression.
pub(crate) fn decompressed(path: &Path) -> io::Result<Box<dyn Read + Send>> {
    decompress(File::open(path)?)
}

/// Undoes the compression of a stream.
pub(crate) fn decompress(mut raw: impl Read + Send + 'static) -> io::Result<Box<dyn Read + Send>> {
    let mut head = Vec::with_capacity(6);
    raw.by_ref().take(6).read_to_end(&mut head)?;
    let compression = Compression::of(&head);
    let whole = Cursor::new(head).chain(raw);
    Ok(match compression {
        Compression::Plain => Box::new(whole),
        Compression::Gzip => Box::new(MultiGzDecoder::new(whole)),
        Compression::Zstd => {
            let mut decoder = zstd::Decoder::new(whole)?;
            decoder.window_log_max(ZSTD_WINDOW_LOG_MAX)?;
            Box::new(decoder)
        }
        Compression::Xz => {
            let stream = Stream::new_stream_decoder(XZ_MEMORY_MAX_BYTES, CONCATENATED)?;
            Box::new(XzDecoder::new_stream(io::BufReader::new(whole), stream))
        }
    })
}

/// The next line of a text trace, as a range of [`Source::bytes`].
pub(crate) enum Line {
    /// A line without its end.
    Whole(Range<usize>),
    /// A line longer than [`LINE_MAX_BYTES`]; it has been skipped.
    TooLong,
    /// The file ended.
    End,
}

/// A buffered, decompressed byte stream.
pub(crate) struct Source {
    input: Box<dyn Read + Send>,
    buffer: Box<[u8]>,
    start: usize,
    end: usize,
    offset: u64,
    /// An error that came while looking ahead; it is due when the bytes before it have been taken.
    postponed: Option<io::Error>,
}

impl Source {
    pub(crate) fn new(input: Box<dyn Read + Send>) -> Self {
        Self { input, buffer: vec![0; LINE_MAX_BYTES].into(), start: 0, end: 0, offset: 0, postponed: None }
    }

    /// Offset of the next byte in the decompressed file.
    pub(crate) fn offset(&self) -> u64 {
        self.offset
    }

    /// The bytes that a [`Line`] refers to.
    #[inline]
    pub(crate) fn bytes(&self, range: Range<usize>) -> &[u8] {
        &self.buffer[range]
    }

    /// Up to `len` bytes without consuming them; fewer only at the end of the file.
    #[inline]
    pub(crate) fn peek(&mut self, len: usize) -> io::Result<&[u8]> {
        while self.end - self.start < len && self.fill()? {}
        Ok(&self.buffer[self.start..self.end.min(self.start + len)])
    }

    /// As [`Self::peek`], but damage inside these bytes only shortens them; the second value tells whether the file
    /// ends behind them.
    pub(crate) fn look_ahead(&mut self, len: usize) -> io::Result<(&[u8], bool)> {
        if let Err(error) = self.peek(len) {
            if self.start == self.end {
                return Err(error);
            }
            self.postponed = Some(error);
        }
        let complete = self.end - self.start < len && self.postponed.is_none();
        Ok((&self.buffer[self.start..self.end.min(self.start + len)], complete))
    }

    /// Consumes `len` bytes that were peeked.
    #[inline]
    pub(crate) fn consume(&mut self, len: usize) {
        self.start += len;
        self.offset += len as u64;
        debug_assert!(self.start <= self.end, "only peeked bytes can be consumed");
    }

    /// Appends the next `len` bytes to `into`. A false length costs no memory: `into` grows as bytes arrive.
    pub(crate) fn read_exact(&mut self, len: usize, into: &mut Vec<u8>) -> io::Result<()> {
        let mut left = len;
        while left > 0 {
            let chunk = self.peek(left.min(READ_BYTES))?;
            if chunk.is_empty() {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            into.extend_from_slice(chunk);
            let taken = chunk.len();
            self.consume(taken);
            left -= taken;
        }
        Ok(())
    }

    /// The next line. Complete lines before a damaged place are delivered before the error.
    #[inline]
    pub(crate) fn line(&mut self) -> io::Result<Line> {
        let mut searched = 0;
        loop {
            if let Some(at) = memchr::memchr(b'\n', &self.buffer[self.start + searched..self.end]) {
                return Ok(Line::Whole(self.take_line(searched + at, 1)));
            }
            searched = self.end - self.start;
            if searched == self.buffer.len() {
                return self.skip_long_line();
            }
            if !self.fill()? {
                return Ok(if searched == 0 { Line::End } else { Line::Whole(self.take_line(searched, 0)) });
            }
        }
    }

    #[inline]
    fn take_line(&mut self, len: usize, line_end: usize) -> Range<usize> {
        let start = self.start;
        self.consume(len + line_end);
        start..start + len
    }

    fn skip_long_line(&mut self) -> io::Result<Line> {
        loop {
            let found = memchr::memchr(b'\n', &self.buffer[self.start..self.end]);
            self.consume(found.map_or(self.end - self.start, |at| at + 1));
            if found.is_some() || !self.fill()? {
                return Ok(Line::TooLong);
            }
        }
    }

    /// Reads more behind what is left; false at the end of the file or if the buffer is full.
    fn fill(&mut self) -> io::Result<bool> {
        if let Some(error) = self.postponed.take() {
            return Err(error);
        }
        self.buffer.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
        let limit = self.buffer.len().min(self.end + READ_BYTES);
        loop {
            match self.input.read(&mut self.buffer[self.end..limit]) {
                Ok(count) => {
                    self.end += count;
                    return Ok(count > 0);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}
