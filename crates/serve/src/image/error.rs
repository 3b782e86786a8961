//! What can go wrong with an image, each with a sentence.

use std::io;

use wearwell_config::ConfigError;

use super::backing::ImageFile;

/// Why an image cannot be created, opened or used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ImageError {
    /// The host refuses an operation on a file.
    #[error("cannot {doing} {path}: {source}{}", hint(.source))]
    Io {
        /// What was tried.
        doing: &'static str,
        /// The file.
        path: String,
        /// What the host says.
        source: io::Error,
    },
    /// There is something already.
    #[error("{path} exists and is not empty; an image is created in a new or empty directory")]
    Exists {
        /// The directory.
        path: String,
    },
    /// The directory holds no image, or one whose creation was interrupted.
    #[error("{path} holds no image; make one with `wearwell create`")]
    NoImage {
        /// The directory.
        path: String,
    },
    /// A file of the image is not there.
    #[error("{path} lacks the file `{}` of its image: put it back, or restore all files from a copy", file.name())]
    Missing {
        /// The directory.
        path: String,
        /// The file.
        file: ImageFile,
    },
    /// The format is another one.
    #[error("the image has format version {found}; this program reads version {known}{}", if *.found == 1 { ": bring it up with `wearwell upgrade`" } else { "" })]
    Version {
        /// The version found.
        found: u32,
        /// The version known.
        known: u32,
    },
    /// Somebody else uses it.
    #[error("{path} is in use by another process; an image has one user at a time")]
    Locked {
        /// The directory.
        path: String,
    },
    /// What was read is not what was written.
    #[error(
        "the image is damaged: {}; nothing of it is served, restore from a copy, or read what is left with `wearwell serve --rescue`",
        summary(.findings)
    )]
    Damaged {
        /// Sentences, one per place.
        findings: Vec<String>,
    },
    /// What was read is not what was written, and no logical page can be proven to be the newest version.
    #[error("nothing of the image can be rescued: {}; restore from a copy", summary(.findings))]
    Lost {
        /// Sentences, one per place or reason.
        findings: Vec<String>,
    },
    /// The configuration is impossible.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The engine refuses the design, or finds the device in a state that it cannot take over.
    #[error(transparent)]
    Device(#[from] wearwell::Error),
    /// A setting that has no meaning for an image.
    #[error("{0}")]
    Setting(String),
}

impl ImageError {
    /// Whether the files are there and their contents are wrong, so that an attempt to rescue them makes sense.
    pub fn is_damage(&self) -> bool {
        matches!(self, Self::Damaged { .. } | Self::Device(_))
    }
}

fn hint(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::StorageFull => "; free some space and try again",
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => "; the image must be writable",
        _ => "",
    }
}

/// The first findings, and how many more there are.
fn summary(findings: &[String]) -> String {
    const SHOWN: usize = 3;
    let shown = findings.iter().take(SHOWN).cloned().collect::<Vec<_>>().join("; ");
    match findings.len().saturating_sub(SHOWN) {
        0 => shown,
        more => format!("{shown}; and {more} more"),
    }
}
