//! A new image.

use std::hash::{BuildHasher as _, RandomState};
use std::io;
use std::path::Path;

use wearwell::address::{BlockId, Ppn};
use wearwell::nand::{Retain, SimNand};
use wearwell::{Device, DeviceOptions};
use wearwell_replay::config::Config;

use super::backing::{Backing, Files, ImageFile, require_file_size};
use super::error::ImageError;
use super::layout::{
    BlockHealth, BlockRecord, Durability, Layout, RECORD_BYTES, Session, Superblock, WORD_BYTES,
};
use super::{io_error, parts_of};
use crate::specification::pin;

/// What an image is made of.
#[derive(Clone, Debug)]
pub struct Specification {
    /// Name of the design.
    pub design: String,
    /// Device and design. The preset `auto` needs a size.
    pub config: Config,
    /// Bytes the host sees, instead of what the preset exports: the flash is made to fit.
    pub size_bytes: Option<u64>,
    /// What a session survives that asks for nothing else.
    pub durability: Durability,
}

impl Specification {
    /// The superblock of a new image.
    ///
    /// # Errors
    /// [`ImageError::Config`]; [`ImageError::Device`] for a design that cannot run without a
    /// battery or does not fit.
    pub fn superblock(&self, salt: u64) -> Result<Superblock, ImageError> {
        let mut config = self.config.clone();
        let resolved = pin(&mut config, self.size_bytes)?;
        let mut superblock = Superblock {
            geometry: resolved.geometry,
            logical_pages: resolved.logical_pages,
            nvram_words: 0,
            salt,
            durability: self.durability,
            design: self.design.clone(),
            config: config.to_toml(),
        };
        let (parts, _) = parts_of(&config, &superblock)?;
        let geometry = superblock.geometry.clone();
        let nvram_bytes = parts.nvram_bytes_with_map(&geometry, superblock.logical_pages);
        superblock.nvram_words = nvram_bytes / 8;
        // Built once in RAM: a design that does not fit is refused before there are files.
        let trial = SimNand::new(geometry, Retain::default()).with_nvram(nvram_bytes);
        let options = DeviceOptions { buffer: config.named_buffer() };
        Device::new(trial, superblock.logical_pages, &parts, options)?;
        Ok(superblock)
    }
}

/// Creates an image in a new or empty directory. The superblock comes last: without it a directory is no image. What was
/// created is removed again if it cannot be finished.
///
/// # Errors
/// What [`Specification::superblock`] and [`Files::create`] say; [`ImageError::Io`].
pub fn create(directory: &Path, specification: &Specification) -> Result<Superblock, ImageError> {
    create_watched(directory, specification, &mut |_, _| {})
}

/// As [`create`]; `progress` is told the bytes that were written and those that will be, again and again.
///
/// # Errors
/// As [`create`].
pub fn create_watched(
    directory: &Path,
    specification: &Specification,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Superblock, ImageError> {
    let salt = RandomState::new().hash_one(std::process::id());
    let superblock = specification.superblock(salt)?;
    require_file_size(Layout::new(&superblock).flash_bytes())?;
    let mut files = Files::create(directory)?;
    let written = write_all(&mut files, &superblock, progress)
        .and_then(|()| files.sync_directory().map_err(io_error(&files, "create", ImageFile::Superblock)));
    match written {
        Ok(()) => Ok(superblock),
        Err(error) => {
            files.remove();
            Err(error)
        }
    }
}

/// Writes the files of a new image. Metadata is written in full, so that a host's disk that runs full later can refuse
/// nothing but data.
///
/// # Errors
/// [`ImageError::Io`].
pub fn create_on(backing: &mut impl Backing, superblock: &Superblock) -> Result<(), ImageError> {
    write_all(backing, superblock, &mut |_, _| {})
}

fn write_all(
    backing: &mut impl Backing,
    superblock: &Superblock,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<(), ImageError> {
    let layout = Layout::new(superblock);
    let all = layout.metadata_bytes() + layout.nvram_bytes();
    let session = Session { is_clean: true, durability: superblock.durability, ..Session::default() };
    let written = write_flash(backing, &layout, &mut |done| progress(done, all))
        .map_err(|error| (ImageFile::Flash, error))
        .and_then(|()| write_nvram(backing, &layout).map_err(|error| (ImageFile::Nvram, error)))
        .and_then(|()| {
            let bytes = session.encode(superblock.salt);
            backing.write(ImageFile::Session, &bytes, 0).map_err(|error| (ImageFile::Session, error))
        })
        .and_then(|()| {
            let synced = [ImageFile::Flash, ImageFile::Nvram, ImageFile::Session];
            synced.into_iter().try_for_each(|file| backing.sync(file).map_err(|error| (file, error)))
        })
        .and_then(|()| {
            let file = ImageFile::Superblock;
            let written = backing.write(file, &superblock.encode(), 0).and_then(|()| backing.sync(file));
            written.map_err(|error| (file, error))
        });
    written.map_err(|(file, source)| io_error(backing, "write", file)(source))
}

/// Metadata is written in the pieces in which it is used. A page cache builds large folios from large writes, and a file system
/// that walks all blocks of a folio then makes every later write of 64 bytes several times as dear.
const PIECE_BYTES: usize = 4096;

fn write_flash(backing: &mut impl Backing, layout: &Layout, progress: &mut dyn FnMut(u64)) -> io::Result<()> {
    const TOLD_EVERY_PIECES: u64 = 1 << 12;
    // Both regions are whole pieces.
    for piece in 0..layout.metadata_bytes() / PIECE_BYTES as u64 {
        backing.write(ImageFile::Flash, &[0; PIECE_BYTES], piece * PIECE_BYTES as u64)?;
        if piece % TOLD_EVERY_PIECES == 0 {
            progress(piece * PIECE_BYTES as u64);
        }
    }
    let fresh = BlockRecord { health: BlockHealth::Good, erases: 0 };
    let blocks = (0..layout.geometry.blocks()).map(BlockId);
    let records: Vec<u8> = blocks.flat_map(|block| layout.encode_block(block, fresh)).collect();
    for (at, piece) in (0..).step_by(PIECE_BYTES).zip(records.chunks(PIECE_BYTES)) {
        backing.write(ImageFile::Flash, piece, layout.block_at(BlockId(0)) + at)?;
    }
    debug_assert_eq!(layout.oob_at(Ppn(1)) - layout.oob_at(Ppn(0)), RECORD_BYTES as u64);
    // The last byte, so that the file has its length and pages that were never programmed take no space.
    backing.write(ImageFile::Flash, &[0], layout.flash_bytes() - 1)
}

fn write_nvram(backing: &mut impl Backing, layout: &Layout) -> io::Result<()> {
    const AT_ONCE: usize = PIECE_BYTES / WORD_BYTES;
    for from in (0..layout.nvram_words).step_by(AT_ONCE) {
        let words = from..layout.nvram_words.min(from + AT_ONCE as u64);
        let bytes: Vec<u8> = words.flat_map(|index| layout.encode_word(index, 0)).collect();
        backing.write(ImageFile::Nvram, &bytes, from * WORD_BYTES as u64)?;
    }
    Ok(())
}
