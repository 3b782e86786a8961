//! Why a device refuses or fails a request.

/// Why a device refuses or fails a request.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DeviceError {
    /// There is no space left to write: on the flash of the device, or on the disk of the server machine that stores
    /// its image.
    #[error("{0}")]
    Full(String),
    /// The request is invalid, whatever the state of the device.
    #[error("{0}")]
    Invalid(String),
    /// The medium (flash in memory or in files) failed.
    #[error("{0}")]
    Failed(String),
    /// The device is served read-only, and the request would change the device.
    #[error(
        "the device is served read-only: to write to it, start the server without --read-only; a damaged image that is \
         served with --rescue must first be restored from a copy"
    )]
    ReadOnly,
}

/// Error of the operating system: a read, write or sync of the files that store a device was refused.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FileIoError {
    /// Complete error message: which operation failed on which file, why, and what the server does now.
    pub message: String,
    /// First part of the error message, without advice: which operation failed on which file, and why.
    pub cause_message: String,
    /// Whether the operating system refused the operation only because the disk is full, or because a quota or a limit
    /// on the size of files is reached.
    pub is_disk_full: bool,
    /// Whether the failed operation cannot be repeated before the image is opened again.
    pub needs_image_reopen: bool,
}

impl From<FileIoError> for DeviceError {
    fn from(refused: FileIoError) -> Self {
        if refused.is_disk_full { Self::Full(refused.message) } else { Self::Failed(refused.message) }
    }
}

impl From<wearwell::Error> for DeviceError {
    fn from(error: wearwell::Error) -> Self {
        use wearwell::Error;
        let sentence = error.to_string();
        match error {
            Error::Full { .. } | Error::TooFewPhysicalPages { .. } => Self::Full(sentence),
            Error::OutOfRange { .. }
            | Error::NotWholeSectors { .. }
            | Error::NotWholePages { .. }
            | Error::IncompatibleParts { .. }
            | Error::InvalidOptions(_) => Self::Invalid(sentence),
            _ => Self::Failed(sentence),
        }
    }
}
