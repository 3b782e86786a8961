//! Errors of images (devices that are stored in files), each with its message.

use std::io;
use std::path::Path;

use wearwell_config::ConfigError;

use super::image_file::ImageFile;

/// Why an image cannot be created, opened or used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ImageError {
    /// The operating system refused an operation on a file.
    #[error(
        "cannot {refused_operation} {path}: {source}{hint}",
        hint = advice_for_io_error(refused_operation, source)
    )]
    Io {
        /// Operation that was refused, as a verb.
        refused_operation: &'static str,
        /// Path of the file on which the operation was refused.
        path: String,
        /// Error of the operating system.
        source: io::Error,
    },
    /// The operating system refused an operation on a file of an image while its device was used.
    #[error(
        "the files of the image cannot be used: {cause_message}; {advice} and try again",
        advice = if *.is_disk_full { "free some space, or raise the quota or file-size limit," } else { "remove the \
                                                                                                         cause" }
    )]
    IoWhileInUse {
        /// Sentence that states which operation failed on which file, and why.
        cause_message: String,
        /// Whether the disk is full, or a quota or a limit on the size of files is reached.
        is_disk_full: bool,
    },
    /// The directory for a new image exists and is not empty.
    #[error(
        "{path} exists and is not empty: {use_or_remove}name a new or empty directory for the image",
        use_or_remove = if *.holds_image { "it holds an image already; use or remove that one, or " } else { "" }
    )]
    DirectoryNotEmpty {
        /// Path of the directory that is not empty.
        path: String,
        /// Whether the directory holds an image.
        holds_image: bool,
    },
    /// The directory holds only what an interrupted creation or copy of an image left.
    #[error(
        "the directory holds no image, but the remains of an interrupted creation or copy of one: repeat that command, \
         which removes them, or remove the directory"
    )]
    Unfinished,
    /// The directory holds no image.
    #[error("{path} holds no image: check the path, or make an image with `wearwell create`")]
    NoImage {
        /// Path of the directory without an image.
        path: String,
    },
    /// A file of the image is missing.
    #[error("{path} lacks the file `{}` of its image: put it back, or restore all files from a copy", file.name())]
    MissingFile {
        /// Path of the image's directory.
        path: String,
        /// The missing file.
        file: ImageFile,
    },
    /// The image has another version of the format than this program reads.
    #[error(
        "the image has format version {image_version}; this version of wearwell reads format version {known_version}: \
         {advice}",
        advice = if *.image_version == 1 {
            "upgrade the image with `wearwell upgrade`"
        } else {
            "use a version of wearwell that reads it"
        }
    )]
    UnsupportedVersion {
        /// Format version of the image.
        image_version: u32,
        /// Format version that this program reads.
        known_version: u32,
    },
    /// Another process uses the image.
    #[error(
        "{path} is in use by another process: stop that process first, since an image has one user at a time"
    )]
    InUse {
        /// Path of the image's directory.
        path: String,
    },
    /// Data or metadata of the image differs from what was written, and no copy of it is undamaged.
    #[error(
        "the image is damaged: {findings}; restore it from a copy{or_rescue}",
        findings = join_findings(findings),
        or_rescue = if *.may_be_rescued { ", or try to read what is left with `wearwell serve --rescue`" } else { "" }
    )]
    Damaged {
        /// Damage found, one sentence for each damaged item.
        findings: Vec<String>,
        /// Whether a rescue can begin: the image header is readable and the image has the version of this program.
        may_be_rescued: bool,
    },
    /// The image is so damaged that no logical page is certain to have its newest version.
    #[error("nothing of the image can be rescued: {}; restore the image from a copy", join_findings(.findings))]
    NoPageProvablyNewest {
        /// Reasons why nothing can be rescued, one sentence each: damage, or why no page is certain to have its newest
        /// version.
        findings: Vec<String>,
    },
    /// A logical page that is lost prevents the copying of the image.
    #[error(
        "the image cannot be copied as it is: {cause_message}; or leave lost pages out, so that they read as zeros in \
         the new image: `wearwell copy --leave-lost-out`"
    )]
    LostPage {
        /// First part of the message: which logical page is lost, and how to use it again.
        cause_message: String,
    },
    /// The memory of the server machine, or the limit of this process, is too small for the device of an image.
    #[error(
        "the device needs about {needed_mib} MiB of memory, and the system does not grant them to this process: \
         raise the limit (`ulimit -v`) or use a machine with more memory; a new image needs less with a smaller size or \
         larger pages (device.page_bytes)"
    )]
    InsufficientMemory {
        /// Estimated memory that the device needs, MiB.
        needed_mib: u64,
    },
    /// The configuration of the device is invalid.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The engine refuses the design, or finds the flash in a state that it cannot recover.
    #[error(transparent)]
    Device(#[from] wearwell::Error),
    /// A setting is invalid for an image, or contradicts its files; the text says which.
    #[error("{0}")]
    InvalidSetting(String),
}

impl ImageError {
    /// Returns the error of an image that is damaged where not even a rescue can read it; `finding` says what is wrong.
    pub(super) fn beyond_repair(finding: impl Into<String>) -> Self {
        Self::Damaged { findings: vec![finding.into()], may_be_rescued: false }
    }

    /// Returns the error message with the path of the image, which the messages of some errors do not contain.
    pub fn message_about(&self, directory: &Path) -> String {
        match self {
            Self::Io { .. }
            | Self::IoWhileInUse { .. }
            | Self::DirectoryNotEmpty { .. }
            | Self::NoImage { .. }
            | Self::MissingFile { .. }
            | Self::InUse { .. } => self.to_string(),
            _ => format!("{}: {self}", directory.display()),
        }
    }

    /// Whether the request is the cause of the error: it asks for something that is impossible or exists already.
    /// Otherwise the system or the image is the cause, and the same request may succeed later.
    pub fn is_caused_by_request(&self) -> bool {
        match self {
            Self::Io { source, .. } => source.kind() == io::ErrorKind::AlreadyExists,
            Self::DirectoryNotEmpty { .. }
            | Self::Unfinished
            | Self::NoImage { .. }
            | Self::UnsupportedVersion { .. }
            | Self::Config(_)
            | Self::InvalidSetting(_) => true,
            Self::IoWhileInUse { .. }
            | Self::MissingFile { .. }
            | Self::InUse { .. }
            | Self::Damaged { .. }
            | Self::NoPageProvablyNewest { .. }
            | Self::LostPage { .. }
            | Self::InsufficientMemory { .. }
            | Self::Device(_) => false,
        }
    }

    /// Returns the damage in a few words, without advice. For an error that is no damage, returns the whole message.
    pub fn damage_text(&self) -> String {
        match self {
            Self::Damaged { findings, .. } => join_findings(findings),
            _ => self.to_string(),
        }
    }

    /// Whether the error is damage: the files of the image exist and their contents are wrong, so that `--rescue` may
    /// help.
    pub fn is_damage(&self) -> bool {
        matches!(self, Self::Damaged { .. } | Self::Device(_))
    }
}

/// Returns advice after the operating system refused an operation on an image, as the end of a sentence; empty if the
/// error is one of our own, which says what to do. `refused_operation` is a verb, perhaps with an object.
pub(crate) fn advice_for_io_error(refused_operation: &str, error: &io::Error) -> &'static str {
    let makes_directory = refused_operation.starts_with("create") || refused_operation.starts_with("copy");
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => "; free some space and try again",
        io::ErrorKind::FileTooLarge => {
            "; raise the limit on the size of files (`ulimit -f unlimited`), or choose a file system for larger files"
        }
        io::ErrorKind::PermissionDenied => {
            "; change its permissions or those of its directory, or run what opens it as a user who may do so"
        }
        io::ErrorKind::ReadOnlyFilesystem => "; choose a file system that can be written to",
        io::ErrorKind::NotFound if makes_directory => "; make the directory that is to contain it first",
        io::ErrorKind::AlreadyExists if makes_directory => "; name a new or empty directory",
        io::ErrorKind::NotADirectory => "; name a directory",
        _ if error.raw_os_error().is_none() => "",
        _ => "; remove the cause and try again",
    }
}

/// Joins the first three findings (sentences about damage) into a text, followed by the number of further findings.
fn join_findings(findings: &[String]) -> String {
    /// Most findings that are shown in full.
    const SHOWN_FINDINGS_MAX: usize = 3;
    let shown = findings.iter().take(SHOWN_FINDINGS_MAX).cloned().collect::<Vec<_>>().join("; ");
    match findings.len().saturating_sub(SHOWN_FINDINGS_MAX) {
        0 => shown,
        more => format!("{shown}; and {more} more"),
    }
}
