//! Finds the original traces of the papers, if the user has them.
//!
//! Most traces come from archives that distribute them under their own terms, in many files. They are searched in one
//! folder under fixed names with any ending (`fiu-mail.blkparse.zst`, `fiu-mail.wwt`), in any format that is recognised
//! by content. Parts that an archive splits by day have to be joined first. If a trace is missing, a generated
//! substitute with the published counts is used, and the result is marked.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::request_source::RequestSource;

/// The known original traces of the papers: file name without endings, and description.
pub const ORIGINAL_TRACE_NAMES: [(&str, &str); 9] = [
    ("fiu-homes", "FIU I/O deduplication traces, homes, blkparse files of two weeks joined (SNIA IOTTA)"),
    ("fiu-mail", "the same, mail (cheetah)"),
    ("fiu-web", "the same, web-vm (webmail and online)"),
    ("f1", "UMass Trace Repository, Financial1.spc"),
    ("f2", "UMass Trace Repository, Financial2.spc"),
    ("c3", "HP Labs Cello99, disk 3, 17 July 1999, converted to one of our formats"),
    ("c8", "the same, disk 8"),
    ("dap", "Microsoft Production Server traces, DAP-PS, 24 hours, converted (SNIA IOTTA)"),
    ("msn", "the same, MSN-CFS, one disk, 6 hours, converted"),
];

/// Paths of the original traces of the papers that were found, by name.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct OriginalTraces(BTreeMap<String, PathBuf>);

impl OriginalTraces {
    /// Searches a folder for the original traces of the papers. Of several files with one name the first in
    /// alphabetical order is used.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn find_in(folder: &Path) -> std::io::Result<Self> {
        let mut files: Vec<PathBuf> = std::fs::read_dir(folder)?
            .map(|entry| entry.map(|entry| entry.path()))
            .collect::<Result<_, _>>()?;
        files.sort();
        let stem = |path: &PathBuf| {
            let name = path.file_name()?.to_str()?.to_lowercase();
            Some(name.split('.').next().unwrap_or_default().to_owned())
        };
        let mut found = BTreeMap::new();
        for (name, _) in ORIGINAL_TRACE_NAMES {
            let is_named = |path: &&PathBuf| path.is_file() && stem(path).is_some_and(|stem| stem == name);
            if let Some(path) = files.iter().find(is_named) {
                found.insert(name.to_owned(), path.clone());
            }
        }
        Ok(Self(found))
    }

    /// Returns the number of original traces that were found.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns whether no original trace was found.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns an input, and its number of requests as a share of those of the trace `name`. The input is the original
    /// trace, with share 1, if it was found. Otherwise it is a generated load that replaces the trace, with share
    /// `scale`; `substitute_keys` are further keys of its specification.
    pub fn original_or_substitute(
        &self,
        name: &str,
        substitute_keys: &str,
        scale: f64,
    ) -> (RequestSource, f64) {
        match self.0.get(name) {
            Some(path) => (RequestSource::Original(path.clone()), 1.0),
            None => (RequestSource::Substitute(format!("{name}:scale={scale}{substitute_keys}")), scale),
        }
    }
}
