//! Files next to a capture that describe its pages: compressed sizes, delta sizes and bytes.
//!
//! `NAME.psz` has an LZ4 size and a zstd size (u16 each) per distinct content. `NAME.wdelta` has one u16 per page
//! written, in order. `NAME.pages` has the bytes of the first distinct contents. Numbers are little-endian; each file
//! is optional and may be compressed. Compressed sizes are held in memory (2 bytes per content), delta sizes are
//! streamed. Page bytes are read only if the caller requests them. They are kept LZ4-compressed, because any earlier
//! content may occur again; this costs about twice the size of the compressed file.

use std::io::{self, Read};
use std::path::{Path, PathBuf};

use wearwell::data::ContentDescriptor;

use crate::PAGE_BYTES;
use crate::read::SkipRefusal;
use crate::read::decompressed_stream::{DecompressedStream, open_decompressed};
use crate::read::options::OpenOptions;

/// Maximum number of distinct page contents whose compressed sizes are kept. This bounds the memory if the file is
/// damaged.
const CONTENTS_WITH_SIZES_MAX: usize = 1 << 28;

/// Data from the files next to a capture (a trace `NAME.ops`): compressed sizes, delta sizes and bytes of its page
/// contents.
#[derive(Default)]
pub(crate) struct CaptureSidecars {
    /// LZ4-compressed size of each distinct page content, bytes, by content id; empty without a `.psz` file.
    lz4_sizes_bytes: Vec<u16>,
    /// Path and stream of the `.wdelta` file, which has a delta size per page written.
    delta_size_stream: Option<(PathBuf, DecompressedStream)>,
    /// Path and contents of the `.pages` file; `None` if the caller does not request page bytes.
    content_bytes: Option<(PathBuf, ContentBytes)>,
}

impl CaptureSidecars {
    /// Opens the files next to a capture, which hold sizes and contents of its pages. If the options request bytes, the
    /// `.pages` file must exist; the other files may be missing, because the bytes determine all sizes. Otherwise
    /// `.psz` and `.wdelta` must exist, because without them compression and delta encoding would silently save
    /// nothing. With [`OpenOptions::allows_absent_page_size_files`] they may be missing, too.
    pub(crate) fn open_beside_capture(path: &Path, options: &OpenOptions) -> io::Result<Self> {
        let with_bytes = options.reads_payloads;
        for (kind, what) in [("psz", "compressed sizes"), ("wdelta", "delta sizes")] {
            if !options.allows_absent_page_size_files && !with_bytes && find_sidecar(path, kind).is_none() {
                let message = format!(
                    "no .{kind} file ({what}) beside the capture: put it there, take these sizes as unknown \
                     (--without-sidecars), or, in a replay, use the bytes of the .pages file instead (--bytes)"
                );
                return Err(io::Error::new(io::ErrorKind::NotFound, message));
            }
        }
        let sizes = find_sidecar(path, "psz")
            .map(|file| {
                let sizes = open_decompressed(&file).and_then(read_lz4_sizes);
                sizes.map_err(|error| unreadable_size_file(&file, &error))
            })
            .transpose()?;
        let deltas = find_sidecar(path, "wdelta")
            .map(|file| match open_decompressed(&file) {
                Ok(source) => Ok((file, DecompressedStream::new(source))),
                Err(error) => Err(unreadable_size_file(&file, &error)),
            })
            .transpose()?;
        let pages = match find_sidecar(path, "pages") {
            _ if !with_bytes => None,
            Some(file) => match open_decompressed(&file) {
                Ok(source) => Some((file, ContentBytes::new(DecompressedStream::new(source)))),
                Err(error) => {
                    return Err(io::Error::new(error.kind(), unreadable_pages_reason(&file, &error)));
                }
            },
            None => {
                return Err(io::Error::new(
                    io::ErrorKind::NotFound,
                    "no .pages file (page bytes) beside the capture: put it there, or leave --bytes out",
                ));
            }
        };
        Ok(Self {
            lz4_sizes_bytes: sizes.unwrap_or_default(),
            delta_size_stream: deltas,
            content_bytes: pages,
        })
    }

    /// Adds compressed and delta sizes to the content descriptors of one write and, if requested, the bytes of its
    /// pages.
    ///
    /// # Errors
    /// A sentence on the file that is damaged, and what to do.
    pub(crate) fn add_sizes_and_bytes(
        &mut self,
        content: &mut [ContentDescriptor],
        bytes: &mut Vec<u8>,
    ) -> Result<(), String> {
        self.append_page_contents(content, bytes)?;
        for descriptor in content.iter_mut() {
            let id = descriptor.fingerprint.0 as usize;
            descriptor.compressed_bytes =
                self.lz4_sizes_bytes.get(id).copied().unwrap_or(ContentDescriptor::UNKNOWN_SIZE);
            descriptor.delta_bytes = self.next_delta_size()?;
        }
        Ok(())
    }

    /// Skips the delta sizes of the pages of a write that is left out, so that the next write gets its own. `pages` is
    /// the number of pages of the write; `None` if it is not known.
    pub(crate) fn skip_delta_sizes(&mut self, pages: Option<u64>) -> Result<(), SkipRefusal> {
        let Some((file, deltas)) = &mut self.delta_size_stream else { return Ok(()) };
        let refusal = |reason| SkipRefusal { sidecar: file.display().to_string(), reason };
        let pages = pages.ok_or_else(|| {
            refusal(
                "it may be a write of an unknown number of pages, and a file beside the capture has one delta size for \
                 each page written",
            )
        })?;
        for _ in 0..pages {
            match deltas.peek(2) {
                Ok([_, _]) => deltas.consume_bytes(2),
                _ => {
                    return Err(refusal(
                        "the file of delta sizes ends before, or is damaged at, those of its pages",
                    ));
                }
            }
        }
        Ok(())
    }

    /// Returns the delta size of the next page written, bytes; the value for an unknown size without a `.wdelta` file.
    fn next_delta_size(&mut self) -> Result<u16, String> {
        let Some((file, deltas)) = &mut self.delta_size_stream else {
            return Ok(ContentDescriptor::UNKNOWN_SIZE);
        };
        let pair = deltas.peek(2).map_err(|error| unreadable_size_file(file, &error).to_string())?;
        let pair: [u8; 2] = pair.try_into().map_err(|_| {
            format!(
                "the file {} beside the capture is too short, because it needs a size for every page written: get it \
                 again, or move it away and give --without-sidecars",
                file.display()
            )
        })?;
        deltas.consume_bytes(2);
        Ok(u16::from_le_bytes(pair))
    }

    /// Appends the contents of all pages of a write to `bytes`. If one content is missing, appends none, because a
    /// request has either bytes for its whole length or no bytes.
    fn append_page_contents(
        &mut self,
        content: &[ContentDescriptor],
        bytes: &mut Vec<u8>,
    ) -> Result<(), String> {
        let Some((file, pages)) = &mut self.content_bytes else { return Ok(()) };
        for descriptor in content {
            let appended = pages.append_content(descriptor.fingerprint.0 as usize, bytes);
            if !appended.map_err(|error| unreadable_pages_reason(file, &error))? {
                bytes.clear();
                return Ok(());
            }
        }
        Ok(())
    }
}

/// Returns the error about a file with page sizes that cannot be read; the file lies next to a capture. The error
/// contains the name of the file.
fn unreadable_size_file(file: &Path, error: &io::Error) -> io::Error {
    let message = format!(
        "the file {} beside the capture cannot be read ({error}): get it again, or move it away and give \
         --without-sidecars",
        file.display()
    );
    io::Error::new(error.kind(), message)
}

/// Returns a sentence on the file with the page bytes of a capture (`.pages`), which cannot be read.
fn unreadable_pages_reason(file: &Path, error: &io::Error) -> String {
    format!(
        "the file {} beside the capture cannot be read ({error}): get it again, or leave --bytes out",
        file.display()
    )
}

/// Returns the path of the file of this kind (`psz`, `wdelta` or `pages`) next to the capture `path`: `NAME.kind` or
/// `NAME.kind.COMPRESSION` for the capture `NAME.ops` or `NAME.ops.COMPRESSION`. `None` if there is no such file.
fn find_sidecar(path: &Path, kind: &str) -> Option<PathBuf> {
    let name = path.file_name()?.to_str()?;
    let stem = &name[..name.rfind(".ops")?];
    let suffixes = ["", ".zst", ".gz", ".xz"];
    suffixes
        .iter()
        .map(|suffix| path.with_file_name(format!("{stem}.{kind}{suffix}")))
        .find(|file| file.is_file())
}

/// Returns the files with sizes and contents that exist next to the capture `path`; none if `path` is a trace of
/// another format.
pub fn sidecar_files_of(path: &Path) -> Vec<PathBuf> {
    ["psz", "wdelta", "pages"].iter().filter_map(|kind| find_sidecar(path, kind)).collect()
}

/// Reads the LZ4 sizes of all distinct page contents of a capture and skips their zstd sizes.
fn read_lz4_sizes(input: Box<dyn Read + Send>) -> io::Result<Vec<u16>> {
    let mut source = DecompressedStream::new(input);
    let mut sizes = Vec::new();
    while sizes.len() < CONTENTS_WITH_SIZES_MAX {
        let &[low, high, _, _] = source.peek(4)? else { break };
        sizes.push(u16::from_le_bytes([low, high]));
        source.consume_bytes(4);
    }
    Ok(sizes)
}

/// Bytes of the distinct page contents of a capture. Their file is read in order of content ids, only as far as needed.
struct ContentBytes {
    /// Decompressed bytes of the `.pages` file, from the first page content that was not read yet.
    source: DecompressedStream,
    /// End offset of each page content in `compressed_contents`, bytes, by content id plus 1; the first entry is 0.
    compressed_end_offsets_bytes: Vec<usize>,
    /// Page contents that were read so far, LZ4-compressed one by one.
    compressed_contents: Vec<u8>,
    /// Buffer for the bytes of the page content that is read.
    page_buffer: Vec<u8>,
}

impl ContentBytes {
    fn new(source: DecompressedStream) -> Self {
        Self {
            source,
            compressed_end_offsets_bytes: vec![0],
            compressed_contents: Vec::new(),
            page_buffer: Vec::new(),
        }
    }

    /// Appends the bytes of page content `id` to `into`; returns false if the file ends before that content.
    fn append_content(&mut self, id: usize, into: &mut Vec<u8>) -> io::Result<bool> {
        while self.compressed_end_offsets_bytes.len() <= id + 1 {
            if !self.read_next_content()? {
                return Ok(false);
            }
        }
        let packed = &self.compressed_contents
            [self.compressed_end_offsets_bytes[id]..self.compressed_end_offsets_bytes[id + 1]];
        let page = lz4_flex::block::decompress(packed, PAGE_BYTES as usize).expect("it was compressed here");
        into.extend_from_slice(&page);
        Ok(true)
    }

    /// Reads the next page content of the file and stores it compressed; returns false at the end of the file.
    fn read_next_content(&mut self) -> io::Result<bool> {
        if self.source.peek(1)?.is_empty() {
            return Ok(false);
        }
        self.page_buffer.clear();
        self.source.read_exact(PAGE_BYTES as usize, &mut self.page_buffer)?;
        self.compressed_contents.extend_from_slice(&lz4_flex::block::compress(&self.page_buffer));
        self.compressed_end_offsets_bytes.push(self.compressed_contents.len());
        Ok(true)
    }
}
