//! Buffered reading of a trace file, decompressed.
//!
//! Text readers take lines and binary readers take records, both as slices of the one buffer, without a copy or an
//! allocation per record. The price is a hard limit: a line or record is at most [`LINE_MAX_BYTES`] long. Compression
//! is recognised by its magic number, never by the file name.

use std::fs::File;
use std::io::{self, Cursor, Read};
use std::ops::Range;
use std::path::Path;

use flate2::read::MultiGzDecoder;
use liblzma::read::XzDecoder;
use liblzma::stream::{CONCATENATED, Stream};

/// Longest accepted line of a text trace, and size of the read buffer, bytes.
pub const LINE_MAX_BYTES: usize = 1 << 20;
/// Bytes requested per read of the trace file: large enough to amortise the system call, small enough to stay in the L2
/// cache.
const BYTES_PER_READ: usize = 128 << 10;
/// Largest window that is accepted in a zstd file, log2 of bytes; Wearwell's captures use 2^27.
const ZSTD_WINDOW_LOG_MAX: u32 = 29;
/// Maximum memory that decompression of an xz file may use, bytes.
const XZ_MEMORY_MAX_BYTES: u64 = 512 << 20;

/// Compression of a trace file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Compression {
    /// The trace file is not compressed.
    Plain,
    /// gzip format; several members in one file are accepted.
    Gzip,
    /// Zstandard format; several frames in one file are accepted.
    Zstd,
    /// xz format; several streams in one file are accepted.
    Xz,
}

impl Compression {
    /// Recognises the compression of a file by its first bytes.
    pub fn recognise(head: &[u8]) -> Self {
        match head {
            [0x1f, 0x8b, ..] => Self::Gzip,
            // Parallel compressors begin with a frame that decoders skip (RFC 8878, section 3.1.2).
            [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => Self::Zstd,
            [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => Self::Xz,
            _ => Self::Plain,
        }
    }
}

/// Opens a file and returns its decompressed bytes.
pub(crate) fn open_decompressed(path: &Path) -> io::Result<Box<dyn Read + Send>> {
    decompress_stream(File::open(path)?)
}

/// Returns the decompressed bytes of a stream, whose compression is recognised by its first bytes.
pub(crate) fn decompress_stream(mut raw: impl Read + Send + 'static) -> io::Result<Box<dyn Read + Send>> {
    let mut head = Vec::with_capacity(6);
    raw.by_ref().take(6).read_to_end(&mut head)?;
    let compression = Compression::recognise(&head);
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

/// Result of [`DecompressedStream::next_line`]: a line as a range for [`DecompressedStream::bytes_of_line`], or why
/// there is none.
pub(crate) enum LineResult {
    /// A complete line, without its line end.
    Whole(Range<usize>),
    /// The line is longer than [`LINE_MAX_BYTES`] and has been skipped.
    TooLong,
    /// The file has no further line.
    End,
}

/// A buffered stream of a trace's decompressed bytes.
pub(crate) struct DecompressedStream {
    /// Source of the decompressed bytes.
    input: Box<dyn Read + Send>,
    /// Buffer for decompressed bytes; only those from `unread_start` to `unread_end` are still to be consumed.
    buffer: Box<[u8]>,
    /// Index in `buffer` of the first byte that was not consumed.
    unread_start: usize,
    /// Index in `buffer` after the last byte that was read from the file.
    unread_end: usize,
    /// Offset of the next byte to be consumed in the decompressed file, bytes.
    offset_bytes: u64,
    /// A read error that occurred while looking ahead in the stream. It is reported once the bytes that were read
    /// before the error have been consumed.
    postponed_error: Option<io::Error>,
}

impl DecompressedStream {
    pub(crate) fn new(input: Box<dyn Read + Send>) -> Self {
        Self {
            input,
            buffer: vec![0; LINE_MAX_BYTES].into(),
            unread_start: 0,
            unread_end: 0,
            offset_bytes: 0,
            postponed_error: None,
        }
    }

    /// Returns the offset of the next byte of this stream in the decompressed file.
    pub(crate) fn offset_bytes(&self) -> u64 {
        self.offset_bytes
    }

    /// Returns the bytes of a line that [`DecompressedStream::next_line`] returned as a range.
    #[inline]
    pub(crate) fn bytes_of_line(&self, range: Range<usize>) -> &[u8] {
        &self.buffer[range]
    }

    /// Returns the next `len` bytes of the stream without consuming them; fewer only at the end of the file.
    #[inline]
    pub(crate) fn peek(&mut self, len: usize) -> io::Result<&[u8]> {
        while self.unread_end - self.unread_start < len && self.fill_buffer()? {}
        Ok(&self.buffer[self.unread_start..self.unread_end.min(self.unread_start + len)])
    }

    /// Returns the next `len` bytes of the stream without consuming them; fewer at the end of the file or before
    /// damage, which is then reported later. The second value states whether the file ends before `len` bytes.
    pub(crate) fn peek_up_to_damage(&mut self, len: usize) -> io::Result<(&[u8], bool)> {
        if let Err(error) = self.peek(len) {
            if self.unread_start == self.unread_end {
                return Err(error);
            }
            self.postponed_error = Some(error);
        }
        let complete = self.unread_end - self.unread_start < len && self.postponed_error.is_none();
        Ok((&self.buffer[self.unread_start..self.unread_end.min(self.unread_start + len)], complete))
    }

    /// Takes out the read error that occurred while looking ahead in the stream, if there was one.
    pub(crate) fn take_postponed_error(&mut self) -> Option<io::Error> {
        self.postponed_error.take()
    }

    /// Consumes `len` bytes of the stream, which must have been returned by [`Self::peek`].
    #[inline]
    pub(crate) fn consume_bytes(&mut self, len: usize) {
        self.unread_start += len;
        self.offset_bytes += len as u64;
        debug_assert!(self.unread_start <= self.unread_end, "only peeked bytes can be consumed");
    }

    /// Appends the next `len` bytes of the stream to `into`. A wrong `len` does not waste memory: `into` grows only as
    /// bytes arrive.
    pub(crate) fn read_exact(&mut self, len: usize, into: &mut Vec<u8>) -> io::Result<()> {
        let mut left = len;
        while left > 0 {
            let chunk = self.peek(left.min(BYTES_PER_READ))?;
            if chunk.is_empty() {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            into.extend_from_slice(chunk);
            let taken = chunk.len();
            self.consume_bytes(taken);
            left -= taken;
        }
        Ok(())
    }

    /// Consumes and returns the next line of the stream. If the file is damaged, complete lines before the damage are
    /// returned before the error.
    #[inline]
    pub(crate) fn next_line(&mut self) -> io::Result<LineResult> {
        let mut searched = 0;
        loop {
            if let Some(at) =
                memchr::memchr(b'\n', &self.buffer[self.unread_start + searched..self.unread_end])
            {
                return Ok(LineResult::Whole(self.take_line(searched + at, 1)));
            }
            searched = self.unread_end - self.unread_start;
            if searched == self.buffer.len() {
                return self.skip_long_line();
            }
            if !self.fill_buffer()? {
                return Ok(if searched == 0 {
                    LineResult::End
                } else {
                    LineResult::Whole(self.take_line(searched, 0))
                });
            }
        }
    }

    /// Consumes a line of `len` bytes and its line end of `line_end` bytes, and returns where the line is in the
    /// buffer.
    #[inline]
    fn take_line(&mut self, len: usize, line_end: usize) -> Range<usize> {
        let start = self.unread_start;
        self.consume_bytes(len + line_end);
        start..start + len
    }

    /// Consumes the rest of a line that is longer than the buffer.
    fn skip_long_line(&mut self) -> io::Result<LineResult> {
        loop {
            let found = memchr::memchr(b'\n', &self.buffer[self.unread_start..self.unread_end]);
            self.consume_bytes(found.map_or(self.unread_end - self.unread_start, |at| at + 1));
            if found.is_some() || !self.fill_buffer()? {
                return Ok(LineResult::TooLong);
            }
        }
    }

    /// Reads more bytes of the stream into the buffer, after those not yet consumed. Returns false at the end of the
    /// file or if the buffer is full.
    fn fill_buffer(&mut self) -> io::Result<bool> {
        if let Some(error) = self.postponed_error.take() {
            return Err(error);
        }
        self.buffer.copy_within(self.unread_start..self.unread_end, 0);
        self.unread_end -= self.unread_start;
        self.unread_start = 0;
        let limit = self.buffer.len().min(self.unread_end + BYTES_PER_READ);
        loop {
            match self.input.read(&mut self.buffer[self.unread_end..limit]) {
                Ok(count) => {
                    self.unread_end += count;
                    return Ok(count > 0);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}
