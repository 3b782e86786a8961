//! The six files in which an image stores a device, and their names.

/// One of the six files in which an image stores a device: flash, NVRAM, journal and others.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum ImageFile {
    /// Header of the image (file `superblock`): geometry, design, configuration. It is written once, after all other
    /// files.
    ImageHeader,
    /// Record of the last session: durability mode, boot of the server machine, and whether the session closed the
    /// image.
    Session,
    /// OOB records, spare areas and data of all flash pages.
    Flash,
    /// State words (8 bytes each): the NVRAM, and one word for each block.
    Nvram,
    /// Log of the changes of the state words (NVRAM and states of blocks).
    Journal,
    /// Second copies of all metadata in the other files.
    Mirror,
}

impl ImageFile {
    /// All files of an image.
    pub const ALL: [Self; 6] =
        [Self::ImageHeader, Self::Session, Self::Flash, Self::Nvram, Self::Journal, Self::Mirror];

    /// Returns the name of the file in the image's directory.
    pub fn name(self) -> &'static str {
        match self {
            Self::ImageHeader => "superblock",
            Self::Session => "session",
            Self::Flash => "flash",
            Self::Nvram => "nvram",
            Self::Journal => "journal",
            Self::Mirror => "mirror",
        }
    }
}
