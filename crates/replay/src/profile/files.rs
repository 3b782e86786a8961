//! Reads the pages of files: of a disk image, any file, or all files of a directory tree.
//!
//! A file occupies whole pages, as in a file system with blocks of 4 KiB: the rest of its last page is zero. Symbolic
//! links are not followed, a file with several hard links counts once, and anything that is neither file nor directory
//! is left out.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::ops::ControlFlow;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use wearwell::data::{ContentDescriptor, compressed_len, fingerprint_of};
use wearwell_trace::{NativeWriter, Op, PAGE_BYTES, Request, TraceError, TraceWriter as _};

use super::Profiler;

/// Number of pages of a file that are read at a time.
const BATCH_PAGES: usize = 256;

/// Callback that receives each 4-KiB page of the profiled files, and the same page of the file's old version if there
/// is one.
type OnPage<'a> = &'a mut dyn FnMut(&[u8], Option<&[u8]>);

/// The files to profile; all are found before the first is read.
#[derive(Clone, Debug, Default)]
pub struct ProfiledFiles {
    /// Path of each file to profile, with the path of its old version if there is one.
    found_files: Vec<(PathBuf, Option<PathBuf>)>,
    /// Total bytes of all files to profile.
    pub total_bytes: u64,
    /// Paths that could not be read, with the reason.
    pub unreadable_paths: Vec<String>,
    /// Device and inode number of each file found that has several hard links, so that the file counts once.
    seen_inodes: HashSet<(u64, u64)>,
}

impl ProfiledFiles {
    /// Finds a file, or all files below a directory; `against` is the path of its old version.
    ///
    /// # Errors
    /// The path itself cannot be read. Unreadable paths below it are listed in [`Self::unreadable_paths`] instead.
    pub fn find(path: &Path, against: Option<&Path>) -> io::Result<Self> {
        let mut files = Self::default();
        let is_directory = fs::metadata(path)?.is_dir();
        let read_old = |old: &Path| {
            fs::metadata(old).map_err(|error| {
                io::Error::new(
                    error.kind(),
                    format!("its old version {} (--against): {error}", old.display()),
                )
            })
        };
        if let Some(old) = against
            && read_old(old)?.is_dir() != is_directory
        {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!(
                    "this is a {}, but its old version {} (--against) is a {}: give two directories or two files",
                    if is_directory { "directory" } else { "file" },
                    old.display(),
                    if is_directory { "file" } else { "directory" }
                ),
            ));
        }
        if is_directory {
            files.add_directory(path, against)?;
        } else {
            files.add_file(path.to_owned(), against.map(Path::to_owned), &fs::metadata(path)?);
        }
        Ok(files)
    }

    /// Returns the number of files found for the profile.
    pub fn file_count(&self) -> usize {
        self.found_files.len()
    }

    /// Adds a file to those that will be read, unless a hard link to it was added before.
    fn add_file(&mut self, path: PathBuf, old_version_path: Option<PathBuf>, found: &fs::Metadata) {
        if found.nlink() > 1 && !self.seen_inodes.insert((found.dev(), found.ino())) {
            return;
        }
        self.total_bytes += found.len();
        self.found_files.push((path, old_version_path));
    }

    /// Adds all files below a directory, in the order of names, so that two runs see the same order.
    fn add_directory(&mut self, directory: &Path, old_version_path: Option<&Path>) -> io::Result<()> {
        let mut entries: Vec<_> = fs::read_dir(directory)?.collect::<io::Result<_>>()?;
        entries.sort_by_key(fs::DirEntry::file_name);
        for entry in entries {
            let path = entry.path();
            let old = old_version_path.map(|old| old.join(entry.file_name()));
            match entry.metadata() {
                Ok(found) if found.is_dir() => {
                    let old = old.filter(|old| old.is_dir());
                    if let Err(error) = self.add_directory(&path, old.as_deref()) {
                        self.unreadable_paths.push(format!("{}: {error}", path.display()));
                    }
                }
                Ok(found) if found.is_file() => self.add_file(path, old.filter(|old| old.is_file()), &found),
                Ok(_) => {}
                Err(error) => self.unreadable_paths.push(format!("{}: {error}", path.display())),
            }
        }
        Ok(())
    }

    /// Counts the pages of all files in `profiler`, and calls `progress` with the number of bytes read so far. Returns
    /// false if `progress` ended the reading.
    pub fn read_into_profiler(
        &mut self,
        profiler: &mut Profiler,
        progress: &mut dyn FnMut(u64) -> ControlFlow<()>,
    ) -> bool {
        self.visit_pages(&mut |page, old| profiler.add_page(page, old), progress)
    }

    /// Writes a trace in the native format that writes the pages of all files once, one file after the other, with the
    /// fingerprints and compressed sizes of their contents. Returns the number of pages; files that cannot be read are
    /// left out.
    ///
    /// # Errors
    /// `out` cannot be written.
    pub fn write_trace(
        &mut self,
        out: impl Write,
        progress: &mut dyn FnMut(u64) -> ControlFlow<()>,
    ) -> Result<u64, TraceError> {
        let mut writer = NativeWriter::new(out, "the pages of files, each written once")?;
        let mut request = Request { op: Op::Write, len_bytes: PAGE_BYTES, ..Request::default() };
        let (mut pages, mut written) = (0, Ok(()));
        let mut write = |page: &[u8], _: Option<&[u8]>| {
            if written.is_err() {
                return;
            }
            let compressed_bytes = compressed_len(page) as u16;
            let content = ContentDescriptor {
                compressed_bytes,
                ..ContentDescriptor::of_fingerprint(fingerprint_of(page))
            };
            request.offset_bytes = pages * PAGE_BYTES;
            request.content.clear();
            request.content.push(content);
            written = writer.write(&request);
            pages += 1;
        };
        self.visit_pages(&mut write, progress);
        written?;
        writer.finish()?;
        Ok(pages)
    }

    /// Calls `on_page` with each page of all files, and its old version if there is one. Returns false if `progress`
    /// ended the reading.
    fn visit_pages(&mut self, on_page: OnPage<'_>, progress: &mut dyn FnMut(u64) -> ControlFlow<()>) -> bool {
        let mut done = 0;
        for (path, old) in std::mem::take(&mut self.found_files) {
            match read_file(&path, old.as_deref(), on_page, &mut done, progress) {
                Ok(ControlFlow::Continue(())) => {}
                Ok(ControlFlow::Break(())) => return false,
                Err(error) => self.unreadable_paths.push(format!("{}: {error}", path.display())),
            }
        }
        true
    }
}

/// Reads a file page by page, together with its old version if there is one, and calls `on_page` with each page.
fn read_file(
    path: &Path,
    old_version_path: Option<&Path>,
    on_page: OnPage<'_>,
    bytes_done: &mut u64,
    progress: &mut dyn FnMut(u64) -> ControlFlow<()>,
) -> io::Result<ControlFlow<()>> {
    let page_bytes = PAGE_BYTES as usize;
    let mut new = File::open(path)?;
    let mut old = old_version_path.map(File::open).transpose()?;
    let (mut batch, mut old_batch) = (vec![0; BATCH_PAGES * page_bytes], Vec::new());
    loop {
        let count = read_padded_with_zeros(&mut new, &mut batch)?;
        if count == 0 {
            return Ok(ControlFlow::Continue(()));
        }
        let mut old_count = 0;
        if let Some(old) = &mut old {
            old_batch.resize(batch.len(), 0);
            old_count = read_padded_with_zeros(old, &mut old_batch)?;
        }
        for start in (0..count).step_by(page_bytes) {
            let page = start..start + page_bytes;
            let before = (start < old_count).then(|| &old_batch[page.clone()]);
            on_page(&batch[page], before);
        }
        *bytes_done += count as u64;
        if progress(*bytes_done).is_break() {
            return Ok(ControlFlow::Break(()));
        }
    }
}

/// Reads from `file` until `buffer` is full or the file ends, and fills the rest of the last page with zeros. Returns
/// the number of bytes read.
fn read_padded_with_zeros(file: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut count = 0;
    while count < buffer.len() {
        match file.read(&mut buffer[count..]) {
            Ok(0) => break,
            Ok(read) => count += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    let end = count.next_multiple_of(PAGE_BYTES as usize);
    buffer[count..end].fill(0);
    Ok(count)
}
