//! Directory of the database files on a device: which files exist, their lengths, and where on the device they are
//! stored.
//!
//! A device holds the files of one database: the database itself, its rollback journal and its write-ahead log. The
//! directory is the first page of the device. The rest is divided into at most [`EXTENTS_MAX`] *extents* (runs of pages
//! of one size), and a file is a list of extents. The device writes a page entirely or not at all, so the directory is
//! never torn; a checksum verifies it.
//!
//! Layout of the directory page, little-endian: `WWSQLITE`, version, bytes of a device page, pages of an extent, number
//! of extents, page size of the log (4 bytes each); per file a flag, the number of its extents (4 bytes each) and its
//! length (8 bytes); the extent numbers of all files (2 bytes each); CRC-32C of everything before it, in the last 4
//! bytes of the page.
//!
//! Invariant: an extent belongs to at most one file. An extent that a file gives up can be assigned again only after a
//! directory without it is durable ([`crate::database_files`]). So no durable directory lists an extent that another
//! file has written to.

use crc_fast::CrcAlgorithm;

use crate::error::Error;

/// Most extents (runs of consecutive pages) into which a device is divided. The numbers of all extents fit into the
/// directory page.
pub(crate) const EXTENTS_MAX: u64 = 1024;
/// Fewest device pages of an extent (run of consecutive pages). It is the largest database page divided by the smallest
/// device page, so that one database page in the log fits into an extent.
const EXTENT_PAGES_MIN: u64 = 16;
/// Smallest size of a device page on which a database can be stored, bytes.
const DEVICE_PAGE_BYTES_MIN: u32 = 4096;
/// Magic number: the first bytes of the directory page of a device.
const DIRECTORY_MAGIC: [u8; 8] = *b"WWSQLITE";
/// Version of the format of the directory page.
const DIRECTORY_VERSION: u32 = 1;
/// Length of the checksum at the end of the directory page, bytes.
const DIRECTORY_CRC_BYTES: usize = 4;

/// Kind of a file of an `SQLite` database that is stored on a device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum FileKind {
    /// The database file.
    Database,
    /// The rollback journal.
    Journal,
    /// The write-ahead log.
    Wal,
}

impl FileKind {
    /// All kinds of files, in the order of the directory.
    pub(crate) const ALL: [Self; 3] = [Self::Database, Self::Journal, Self::Wal];
    /// Kinds of files that `SQLite` looks up and deletes by a name that it makes itself: the name of the database with
    /// a suffix.
    pub(crate) const KINDS_FOUND_BY_FILE_NAME: [Self; 2] = [Self::Journal, Self::Wal];

    /// Returns the suffix that `SQLite` appends to the database's name for a file of this kind.
    pub(crate) fn suffix(self) -> &'static str {
        match self {
            Self::Database => "",
            Self::Journal => "-journal",
            Self::Wal => "-wal",
        }
    }
}

/// Entry of one file in the directory of a device: whether it exists, its length, and its extents (runs of device
/// pages).
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct FileEntry {
    /// Whether the file exists; a file of length 0 may exist.
    pub(crate) exists: bool,
    /// Length of the file, bytes. The length of a write-ahead log is rounded up to whole groups of frames (frames whose
    /// headers share a page).
    pub(crate) len_bytes: u64,
    /// Numbers of the extents that store the file, in the order of the bytes of the file.
    extent_numbers: Vec<u16>,
}

/// The decoded directory page of a device: its geometry, the database's files, and the extents (runs of device pages)
/// assigned to them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct FileDirectory {
    /// Size of a device page, bytes.
    device_page_bytes: u32,
    /// Number of device pages in an extent.
    extent_pages: u32,
    /// Entries of the database, its journal and its log, in this order.
    file_entries: [FileEntry; FileKind::ALL.len()],
    /// Whether each extent is taken: a file has it, or gave it up but it is not free yet.
    is_extent_taken: Vec<bool>,
    /// Page size of the database that the write-ahead log belongs to, bytes; 0 if there has been no log.
    pub(crate) wal_page_bytes: u32,
}

impl FileDirectory {
    /// Creates the directory of a device that holds no files yet.
    pub(crate) fn new(capacity_bytes: u64, device_page_bytes: u32) -> Result<Self, Error> {
        let pages = capacity_bytes / u64::from(device_page_bytes);
        if device_page_bytes < DEVICE_PAGE_BYTES_MIN || pages < 4 * EXTENT_PAGES_MIN {
            return Err(Error::DeviceTooSmall { capacity_bytes, device_page_bytes });
        }
        let extent_pages = pages.div_ceil(EXTENTS_MAX).next_power_of_two().max(EXTENT_PAGES_MIN);
        let extents = ((pages - 1) / extent_pages).min(EXTENTS_MAX) as usize;
        Ok(Self {
            device_page_bytes,
            extent_pages: extent_pages as u32,
            file_entries: Default::default(),
            is_extent_taken: vec![false; extents],
            wal_page_bytes: 0,
        })
    }

    /// Returns the directory entry of a file.
    pub(crate) fn entry(&self, kind: FileKind) -> &FileEntry {
        &self.file_entries[kind as usize]
    }

    /// Returns the directory entry of a file, to be changed.
    pub(crate) fn entry_mut(&mut self, kind: FileKind) -> &mut FileEntry {
        &mut self.file_entries[kind as usize]
    }

    /// Returns the size of an extent (run of device pages), bytes.
    pub(crate) fn extent_bytes(&self) -> u64 {
        u64::from(self.extent_pages) * u64::from(self.device_page_bytes)
    }

    /// Returns the device address of byte `at` of a file's stored bytes; `None` if no extent (run of device pages) is
    /// assigned there.
    pub(crate) fn device_address(&self, kind: FileKind, at: u64) -> Option<u64> {
        let extent = *self.entry(kind).extent_numbers.get((at / self.extent_bytes()) as usize)?;
        Some(self.extent_address(extent) + at % self.extent_bytes())
    }

    /// Returns the device address, in bytes, at which extent number `extent` begins.
    fn extent_address(&self, extent: u16) -> u64 {
        u64::from(self.device_page_bytes) + u64::from(extent) * self.extent_bytes()
    }

    /// Returns how many more extents (runs of device pages) a file needs to store its first `bytes` bytes.
    pub(crate) fn missing_extent_count(&self, kind: FileKind, bytes: u64) -> usize {
        (bytes.div_ceil(self.extent_bytes()) as usize).saturating_sub(self.entry(kind).extent_numbers.len())
    }

    /// Checks that at least `extents` extents (runs of device pages) are free. Returns [`Error::DeviceFull`] if fewer
    /// are free.
    pub(crate) fn require_free_extents(&self, extents: usize) -> Result<(), Error> {
        let free = self.is_extent_taken.iter().filter(|&&is_taken| !is_taken).count();
        if extents <= free {
            return Ok(());
        }
        Err(Error::DeviceFull {
            needed_extent_count: extents,
            free_extent_count: free,
            device_extent_count: self.is_extent_taken.len(),
        })
    }

    /// Assigns free extents (runs of device pages) to a file until it can store its first `bytes` bytes. Returns
    /// whether the directory changed. Fails if fewer than `min_extents_left_free` extents would remain free.
    pub(crate) fn assign_extents(
        &mut self,
        kind: FileKind,
        bytes: u64,
        min_extents_left_free: usize,
    ) -> Result<bool, Error> {
        let wanted = bytes.div_ceil(self.extent_bytes()) as usize;
        let missing_extents = self.missing_extent_count(kind, bytes);
        if missing_extents > 0 {
            self.require_free_extents(missing_extents + min_extents_left_free)?;
        }
        let mut has_changed = false;
        while self.entry(kind).extent_numbers.len() < wanted {
            let free =
                self.is_extent_taken.iter().position(|&is_taken| !is_taken).expect("they were counted");
            self.is_extent_taken[free] = true;
            self.entry_mut(kind).extent_numbers.push(free as u16);
            has_changed = true;
        }
        Ok(has_changed)
    }

    /// Removes the extents (runs of device pages) that a file does not need for its first `bytes` bytes, and returns
    /// them. They can be assigned to a file again only after [`FileDirectory::release_extent`].
    pub(crate) fn detach_extents_after_length(&mut self, kind: FileKind, bytes: u64) -> Vec<u16> {
        let kept = bytes.div_ceil(self.extent_bytes()) as usize;
        let extents = &mut self.entry_mut(kind).extent_numbers;
        extents.split_off(kept.min(extents.len()))
    }

    /// Marks an extent (run of device pages) that a file gave up as free, and returns its device address.
    pub(crate) fn release_extent(&mut self, extent: u16) -> u64 {
        self.is_extent_taken[usize::from(extent)] = false;
        self.extent_address(extent)
    }

    /// Encodes the directory (which files exist, and where they are stored) as one device page.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = DIRECTORY_MAGIC.to_vec();
        let head = [
            DIRECTORY_VERSION,
            self.device_page_bytes,
            self.extent_pages,
            self.is_extent_taken.len() as u32,
            self.wal_page_bytes,
        ];
        bytes.extend(head.iter().flat_map(|number| number.to_le_bytes()));
        for entry in &self.file_entries {
            bytes.extend(u32::from(entry.exists).to_le_bytes());
            bytes.extend((entry.extent_numbers.len() as u32).to_le_bytes());
            bytes.extend(entry.len_bytes.to_le_bytes());
        }
        let extents = self.file_entries.iter().flat_map(|entry| &entry.extent_numbers);
        bytes.extend(extents.flat_map(|extent| extent.to_le_bytes()));
        bytes.resize(self.device_page_bytes as usize - DIRECTORY_CRC_BYTES, 0);
        bytes.extend(crc32c(&bytes).to_le_bytes());
        bytes
    }

    /// Decodes the directory page of a device; `None` if the page is all zeros, because the device is empty.
    pub(crate) fn decode(page: &[u8], capacity_bytes: u64) -> Result<Option<Self>, Error> {
        if page.iter().all(|&byte| byte == 0) {
            return Ok(None);
        }
        if !page.starts_with(&DIRECTORY_MAGIC) {
            return Err(Error::ForeignData);
        }
        let (body, crc) = page.split_at(page.len() - DIRECTORY_CRC_BYTES);
        if crc32c(body).to_le_bytes() != crc {
            return Err(Error::DamagedDirectoryPage(
                "the checksum of that page must be that of its bytes, but is another".into(),
            ));
        }
        let mut numbers = IntegerReader(&body[DIRECTORY_MAGIC.len()..]);
        let version = numbers.take_u32();
        if version != DIRECTORY_VERSION {
            return Err(Error::DirectoryVersion { found: version, supported_version: DIRECTORY_VERSION });
        }
        let mut directory = Self::new(capacity_bytes, page.len() as u32)?;
        let (page_bytes, extent_pages, extents) =
            (numbers.take_u32(), numbers.take_u32(), numbers.take_u32());
        let stored = [extents, extent_pages, page_bytes];
        let actual = [directory.is_extent_taken.len() as u32, directory.extent_pages, page.len() as u32];
        if stored != actual {
            let in_words = |[extents, extent_pages, page_bytes]: [u32; 3]| {
                format!("{extents} extents of {extent_pages} pages of {page_bytes} bytes")
            };
            return Err(Error::DeviceResized {
                recorded_size: in_words(stored),
                present_size: in_words(actual),
            });
        }
        directory.wal_page_bytes = numbers.take_u32();
        directory.decode_entries(&mut numbers)?;
        Ok(Some(directory))
    }

    /// Decodes the directory entries of all files and marks their extents as taken. Fails if an extent does not exist
    /// or is listed twice.
    fn decode_entries(&mut self, numbers: &mut IntegerReader<'_>) -> Result<(), Error> {
        let counts = FileKind::ALL.map(|kind| {
            let entry = self.entry_mut(kind);
            entry.exists = numbers.take_u32() != 0;
            let count = numbers.take_u32();
            entry.len_bytes = numbers.take_u64();
            count
        });
        let (listed, present) =
            (counts.iter().map(|&count| count as usize).sum::<usize>(), self.is_extent_taken.len());
        if listed > present {
            return Err(Error::DamagedDirectoryPage(format!(
                "the files of the database must have at most {present} extents, those of the device, but have {listed}"
            )));
        }
        for (kind, count) in FileKind::ALL.into_iter().zip(counts) {
            for _ in 0..count {
                let extent = numbers.take_u16();
                match self.is_extent_taken.get_mut(usize::from(extent)) {
                    Some(is_taken) if !*is_taken => *is_taken = true,
                    Some(_) => {
                        return Err(Error::DamagedDirectoryPage(format!(
                            "it must list each extent at most once, but lists extent {extent} twice"
                        )));
                    }
                    None => {
                        return Err(Error::DamagedDirectoryPage(format!(
                            "it must list only extents of the device, which has {present}, but lists extent {extent}"
                        )));
                    }
                }
                self.entry_mut(kind).extent_numbers.push(extent);
            }
        }
        Ok(())
    }
}

/// Reader of consecutive little-endian integers. After the end of the bytes it returns zeros.
struct IntegerReader<'a>(&'a [u8]);

impl IntegerReader<'_> {
    /// Takes the next `N` bytes, with zeros after the end.
    fn take_bytes<const N: usize>(&mut self) -> [u8; N] {
        let Some((first, rest)) = self.0.split_first_chunk() else { return [0; N] };
        self.0 = rest;
        *first
    }

    /// Takes the next number of 2 bytes.
    fn take_u16(&mut self) -> u16 {
        u16::from_le_bytes(self.take_bytes())
    }

    /// Takes the next number of 4 bytes.
    fn take_u32(&mut self) -> u32 {
        u32::from_le_bytes(self.take_bytes())
    }

    /// Takes the next number of 8 bytes.
    fn take_u64(&mut self) -> u64 {
        u64::from_le_bytes(self.take_bytes())
    }
}

/// Returns the CRC-32C of `bytes`.
fn crc32c(bytes: &[u8]) -> u32 {
    crc_fast::checksum(CrcAlgorithm::Crc32Iscsi, bytes) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Capacity of the device in these tests, bytes.
    const DEVICE_CAPACITY_BYTES: u64 = 4096 * 400;

    /// Makes a directory with a database of several extents and a log.
    fn directory_with_files() -> FileDirectory {
        let mut directory = FileDirectory::new(DEVICE_CAPACITY_BYTES, 4096).expect("it is large enough");
        assert!(directory.assign_extents(FileKind::Database, 3 << 16, 0).expect("there is room"));
        assert!(directory.assign_extents(FileKind::Wal, 1, 0).expect("there is room"));
        assert!(directory.assign_extents(FileKind::Database, (3 << 16) + 1, 0).expect("there is room"));
        assert!(!directory.assign_extents(FileKind::Database, 4 << 16, 0).expect("it has it"));
        *directory.entry_mut(FileKind::Wal) =
            FileEntry { exists: true, len_bytes: 77, ..directory.entry(FileKind::Wal).clone() };
        directory.wal_page_bytes = 8192;
        directory
    }

    #[test]
    fn a_file_directory_is_decoded_as_it_was_encoded() {
        let directory = directory_with_files();
        let page = directory.encode();
        assert_eq!(page.len(), 4096);
        assert_eq!(
            FileDirectory::decode(&page, DEVICE_CAPACITY_BYTES).expect("it is whole"),
            Some(directory)
        );
    }

    #[test]
    fn files_of_the_sqlite_vfs_share_no_bytes_of_the_device() {
        let mut directory = directory_with_files();
        assert_eq!(directory.device_address(FileKind::Database, 0), Some(4096));
        assert_eq!(directory.device_address(FileKind::Wal, 5), Some(4096 + (3 << 16) + 5));
        assert_eq!(directory.device_address(FileKind::Database, 3 << 16), Some(4096 + (4 << 16)));
        assert_eq!(directory.device_address(FileKind::Wal, 1 << 16), None);
        let given_up = directory.detach_extents_after_length(FileKind::Database, 1);
        assert_eq!(given_up, [1, 2, 4]);
        assert!(directory.assign_extents(FileKind::Journal, 1, 0).expect("there is room"));
        assert_eq!(directory.device_address(FileKind::Journal, 0), Some(4096 + (5 << 16)), "not yet free");
        assert_eq!(directory.release_extent(1), 4096 + (1 << 16));
        assert!(directory.assign_extents(FileKind::Journal, 1 << 17, 0).expect("there is room"));
        assert_eq!(directory.device_address(FileKind::Journal, 1 << 16), Some(4096 + (1 << 16)));
    }

    #[test]
    fn growing_a_file_on_a_full_device_is_refused() {
        let mut directory = directory_with_files();
        let error = directory
            .assign_extents(FileKind::Journal, DEVICE_CAPACITY_BYTES, 0)
            .expect_err("there is no such room");
        assert!(matches!(error, Error::DeviceFull { device_extent_count: 24, .. }), "{error}");
    }

    #[test]
    fn a_file_directory_of_another_version_is_refused_and_not_called_damaged() {
        let mut page = directory_with_files().encode();
        page[DIRECTORY_MAGIC.len()] += 1;
        let body_bytes = page.len() - DIRECTORY_CRC_BYTES;
        let crc = crc32c(&page[..body_bytes]).to_le_bytes();
        page[body_bytes..].copy_from_slice(&crc);
        let error = FileDirectory::decode(&page, DEVICE_CAPACITY_BYTES).expect_err("its version is unknown");
        assert!(matches!(error, Error::DirectoryVersion { found: 2, supported_version: 1 }), "{error}");
    }

    #[test]
    fn a_damaged_file_directory_is_detected() {
        let page = directory_with_files().encode();
        for byte in [8, 30, 60, 90, 4095] {
            let mut damaged = page.clone();
            damaged[byte] ^= 1;
            let error = FileDirectory::decode(&damaged, DEVICE_CAPACITY_BYTES).expect_err("a bit is flipped");
            assert!(matches!(error, Error::DamagedDirectoryPage(_)), "byte {byte}: {error}");
        }
        assert!(matches!(FileDirectory::decode(&[7; 4096], DEVICE_CAPACITY_BYTES), Err(Error::ForeignData)));
        assert!(matches!(
            FileDirectory::decode(&page, 2 * DEVICE_CAPACITY_BYTES),
            Err(Error::DeviceResized { .. })
        ));
        assert_eq!(FileDirectory::decode(&[0; 4096], DEVICE_CAPACITY_BYTES).expect("it is empty"), None);
    }
}
