//! What is known about the pages of a capture, from files beside it.
//!
//! `NAME.psz` has u16 LZ4 and u16 zstd sizes per distinct content; `NAME.wdelta` has one u16 per page written, in order;
//! `NAME.pages` has the bytes of the first distinct contents. All little-endian, all optional, each perhaps compressed.
//! Sizes of contents are held in memory (2 bytes each), deltas are streamed. Bytes are read only on request and kept
//! LZ4-compressed, since any earlier content may come back; that costs about the size of the compressed file twice.

use std::io::{self, Read};
use std::path::{Path, PathBuf};

use wearwell::data::Descriptor;

use crate::PAGE_BYTES;
use crate::read::open::OpenOptions;
use crate::read::source::{Source, decompressed};

/// Distinct contents whose sizes are kept; bounds the memory for a damaged file.
const SIZES_MAX: usize = 1 << 28;

/// The files beside a capture.
#[derive(Default)]
pub(crate) struct Sidecars {
    sizes: Vec<u16>,
    deltas: Option<Source>,
    pages: Option<Pages>,
}

impl Sidecars {
    /// Opens the files beside a capture. Bytes must be there if they are asked for, and tell all sizes; else the sizes of
    /// compressed pages and deltas must be there unless the options say otherwise, because without them compression and
    /// delta encoding would silently find nothing to do.
    pub(crate) fn beside(path: &Path, options: &OpenOptions) -> io::Result<Self> {
        let with_bytes = options.bytes;
        for (kind, what) in [("psz", "compressed sizes"), ("wdelta", "delta sizes")] {
            if !options.without_sidecars && !with_bytes && find(path, kind).is_none() {
                let message = format!(
                    "no .{kind} file ({what}) beside the capture: put it there, replay the bytes (--bytes), or take these \
                     sizes as unknown (--without-sidecars)"
                );
                return Err(io::Error::new(io::ErrorKind::NotFound, message));
            }
        }
        let sizes = find(path, "psz").map(|file| read_sizes(decompressed(&file)?)).transpose()?;
        let deltas = find(path, "wdelta").map(|file| decompressed(&file)).transpose()?;
        let pages = match find(path, "pages") {
            _ if !with_bytes => None,
            Some(file) => Some(Pages::new(Source::new(decompressed(&file)?))),
            None => return Err(io::Error::new(io::ErrorKind::NotFound, "no .pages file beside the capture")),
        };
        Ok(Self { sizes: sizes.unwrap_or_default(), deltas: deltas.map(Source::new), pages })
    }

    /// Completes the descriptors of one write and, if asked for, its bytes.
    pub(crate) fn describe(
        &mut self,
        content: &mut [Descriptor],
        bytes: &mut Vec<u8>,
    ) -> Result<(), &'static str> {
        self.append_bytes(content, bytes)?;
        for descriptor in content.iter_mut() {
            let id = descriptor.fingerprint.0 as usize;
            descriptor.compressed_bytes = self.sizes.get(id).copied().unwrap_or(Descriptor::UNKNOWN);
            descriptor.delta_bytes = self.next_delta()?;
        }
        Ok(())
    }

    fn next_delta(&mut self) -> Result<u16, &'static str> {
        let Some(deltas) = &mut self.deltas else { return Ok(Descriptor::UNKNOWN) };
        let expected = "one size in the .wdelta file for every page written";
        let pair: [u8; 2] = deltas.peek(2).map_err(|_| expected)?.try_into().map_err(|_| expected)?;
        deltas.consume(2);
        Ok(u16::from_le_bytes(pair))
    }

    /// All pages of the write or none: a request has bytes for its whole length.
    fn append_bytes(&mut self, content: &[Descriptor], bytes: &mut Vec<u8>) -> Result<(), &'static str> {
        let Some(pages) = &mut self.pages else { return Ok(()) };
        for descriptor in content {
            if !pages.append(descriptor.fingerprint.0 as usize, bytes)? {
                bytes.clear();
                return Ok(());
            }
        }
        Ok(())
    }
}

/// `NAME.kind` or `NAME.kind.COMPRESSION` beside `NAME.ops` or `NAME.ops.COMPRESSION`.
fn find(path: &Path, kind: &str) -> Option<PathBuf> {
    let name = path.file_name()?.to_str()?;
    let stem = &name[..name.rfind(".ops")?];
    let suffixes = ["", ".zst", ".gz", ".xz"];
    suffixes
        .iter()
        .map(|suffix| path.with_file_name(format!("{stem}.{kind}{suffix}")))
        .find(|file| file.is_file())
}

/// The files that are there beside a capture; none beside another trace.
pub fn files_beside(path: &Path) -> Vec<PathBuf> {
    ["psz", "wdelta", "pages"].iter().filter_map(|kind| find(path, kind)).collect()
}

/// The LZ4 sizes of all distinct contents.
fn read_sizes(input: Box<dyn Read + Send>) -> io::Result<Vec<u16>> {
    let mut source = Source::new(input);
    let mut sizes = Vec::new();
    while sizes.len() < SIZES_MAX {
        let &[low, high, _, _] = source.peek(4)? else { break };
        sizes.push(u16::from_le_bytes([low, high]));
        source.consume(4);
    }
    Ok(sizes)
}

/// Bytes of distinct contents, read in order of their ids as far as they are needed.
struct Pages {
    source: Source,
    ends: Vec<usize>,
    packed: Vec<u8>,
    page: Vec<u8>,
}

impl Pages {
    fn new(source: Source) -> Self {
        Self { source, ends: vec![0], packed: Vec::new(), page: Vec::new() }
    }

    /// Appends the page with number `id`; false if the file does not reach that far.
    fn append(&mut self, id: usize, into: &mut Vec<u8>) -> Result<bool, &'static str> {
        while self.ends.len() <= id + 1 {
            if !self.read_one().map_err(|_| "a readable .pages file")? {
                return Ok(false);
            }
        }
        let packed = &self.packed[self.ends[id]..self.ends[id + 1]];
        let page = lz4_flex::block::decompress(packed, PAGE_BYTES as usize).expect("it was compressed here");
        into.extend_from_slice(&page);
        Ok(true)
    }

    fn read_one(&mut self) -> io::Result<bool> {
        if self.source.peek(1)?.is_empty() {
            return Ok(false);
        }
        self.page.clear();
        self.source.read_exact(PAGE_BYTES as usize, &mut self.page)?;
        self.packed.extend_from_slice(&lz4_flex::block::compress(&self.page));
        self.ends.push(self.packed.len());
        Ok(true)
    }
}
