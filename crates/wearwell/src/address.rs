//! Address types: LPN, PPN, unit of stored content, block and plane.
//!
//! Every table of the engine is indexed by one of these five numbers. Each is a type of its own, because mixing them up
//! is the classic FTL bug. All are `u32`: this suffices for 2^32 - 1 pages (16 TiB with pages of 4 KiB), and table entries
//! of 32 bits keep the one random memory access per page operation cheap. `u32::MAX` is reserved as "none".

/// Logical page number (LPN): a host address in units of one page, which has the size of a flash page.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Lpn(pub u32);

/// Physical page number (PPN): `block * pages_per_block + offset in the block`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Ppn(pub u32);

/// Mapping target of the L2P table: number of a unit of stored content, which is a flash page (`StoredUnit(ppn)`) or a
/// member of a compressed chunk (several logical pages compressed together). The numbers of chunk members are greater
/// than that of the last flash page.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct StoredUnit(pub u32);

impl From<Ppn> for StoredUnit {
    #[inline]
    fn from(ppn: Ppn) -> Self {
        Self(ppn.0)
    }
}

/// Number of members (logical pages compressed together) in a full chunk (Lee et al., DATE 2013, section III-A).
pub const MAX_CHUNK_MEMBERS: usize = 4;

/// Returns the number of the compressed chunk to which the member `unit` belongs, and the member's index in it, on a
/// device with `flash_pages` flash pages.
#[inline]
pub(crate) fn chunk_and_member_of(unit: StoredUnit, flash_pages: u64) -> (u32, usize) {
    let at = unit.0 - flash_pages as u32;
    (at / MAX_CHUNK_MEMBERS as u32, at as usize % MAX_CHUNK_MEMBERS)
}

/// Returns the mapping target (unit) of the member with index `member` of the compressed chunk `number`, on a device
/// with `flash_pages` flash pages.
#[inline]
pub(crate) fn unit_of_chunk_member(number: u32, member: usize, flash_pages: u64) -> StoredUnit {
    StoredUnit(flash_pages as u32 + number * MAX_CHUNK_MEMBERS as u32 + member as u32)
}

/// Bit of a map entry, the *bind mark*: set if the logical page was mapped to content that was stored already (by
/// deduplication, recycling or a remap command), without a page program.
const MAPPED_WITHOUT_PROGRAM_MARK: u32 = 1 << 31;

/// Maximum number of units (flash pages and chunk members) of a device whose map entries use one bit as a mark of
/// mappings without a program. Unit numbers then have 31 bits. The largest 31-bit number is not used, because with the
/// mark it would equal [`StoredUnit::NONE`].
pub(crate) const MAX_UNITS_WITH_MARKED_MAP_ENTRIES: u64 = MAPPED_WITHOUT_PROGRAM_MARK as u64 - 1;

impl StoredUnit {
    /// Returns the map entry for this unit with the bind mark set: the logical page was mapped to the unit without a
    /// program, so the OOB of the stored page may name another logical page.
    pub(crate) fn marked_as_mapped_without_program(self) -> Self {
        Self(self.0 | MAPPED_WITHOUT_PROGRAM_MARK)
    }

    /// Returns whether the bind mark of this map entry is set: the logical page was mapped to the unit without a
    /// program.
    #[inline]
    pub(crate) fn is_marked_as_mapped_without_program(self) -> bool {
        self.0 & MAPPED_WITHOUT_PROGRAM_MARK != 0 && self != Self::NONE
    }

    /// Returns the unit that this map entry names. Clears the bind mark, the bit that is set if the logical page was
    /// mapped to the unit without a program.
    #[inline]
    pub(crate) fn without_mapping_mark(self) -> Self {
        if self == Self::NONE { self } else { Self(self.0 & !MAPPED_WITHOUT_PROGRAM_MARK) }
    }
}

/// Number of a block, the erase unit of the FTL: a physical block, or a superblock if the geometry groups planes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct BlockId(pub u32);

/// Number of a plane in the whole device: `(channel * dies_per_channel + die) * planes_per_die + plane`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct PlaneId(pub u32);

/// Mode of a remap command: whether the source pages keep their content (Remap-SSD, FAST 2021, section 4.1: the remap
/// flag).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum RemapMode {
    /// The source pages stay mapped: source and target share their content (remap flag 0).
    Copy,
    /// The source pages are deallocated: their content is then mapped by the target pages only (remap flag 1).
    Relocate,
}

/// A 32-bit address that dense tables store with `u32::MAX` for "none".
pub trait OptionalAddress: Copy + PartialEq {
    /// The value that means "no address" in a dense table: `u32::MAX`.
    const NONE: Self;
    /// Returns the address, or `None` if it is [`OptionalAddress::NONE`].
    #[inline]
    fn to_option(self) -> Option<Self> {
        if self == Self::NONE { None } else { Some(self) }
    }
}

/// Implements [`OptionalAddress`], `index` and `Display` for the listed address types.
macro_rules! impl_address {
    ($($name:ident),*) => {$(
        impl OptionalAddress for $name {
            const NONE: Self = Self(u32::MAX);
        }
        impl $name {
            /// Returns the address as an index into a table.
            #[inline]
            pub fn index(self) -> usize {
                self.0 as usize
            }
        }
        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write!(f, "{}", self.0)
            }
        }
    )*};
}
impl_address!(Lpn, Ppn, StoredUnit, BlockId, PlaneId);

/// Returns whether `unit` is a flash page of a device with `pages` flash pages. Members of compressed chunks (logical
/// pages compressed together) have greater numbers.
pub(crate) fn is_flash_page(unit: StoredUnit, pages: u64) -> bool {
    (unit.0 as u64) < pages && unit.to_option().is_some()
}
