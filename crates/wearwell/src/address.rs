//! Typed addresses.
//!
//! Every table of the engine is indexed by one of five 32-bit numbers, and mixing them up is the classic FTL
//! bug, so each is its own type. All are `u32`: 2^32 pages of 4 KiB are 16 TiB, and a 32-bit table entry is
//! what keeps the one random memory access per page operation cheap. `u32::MAX` is kept back as "none".

/// Logical page number: the host's view, in units of one flash page.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Lpn(pub u32);

/// Physical page number: `block * pages_per_block + page offset`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Ppn(pub u32);

/// A piece of stored content that a logical page can name: a page (`Unit(ppn)`), or a member of a compressed chunk,
/// whose number is above the last page of the device.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Unit(pub u32);

impl From<Ppn> for Unit {
    #[inline]
    fn from(ppn: Ppn) -> Self {
        Self(ppn.0)
    }
}

/// Erase unit of the FTL: a physical block, or a superblock where the geometry groups planes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct BlockId(pub u32);

/// A plane, counted over the whole device: `(channel * dies_per_channel + die) * planes_per_die + plane`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct PlaneId(pub u32);

/// What a remap does to the addresses it takes pages from (Remap-SSD, FAST 2021, section 4.1: the remap flag).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum RemapMode {
    /// They keep their pages: source and target hold the same (flag 0).
    Copy,
    /// They are deallocated: the data has moved (flag 1).
    Relocate,
}

/// A 32-bit address that can be stored in a dense table with "none" as `u32::MAX`.
pub trait Address: Copy + PartialEq {
    /// The value that means "no address" in a dense table.
    const NONE: Self;
    /// `None` for [`Address::NONE`].
    #[inline]
    fn some(self) -> Option<Self> {
        if self == Self::NONE { None } else { Some(self) }
    }
}

macro_rules! address {
    ($($name:ident),*) => {$(
        impl Address for $name {
            const NONE: Self = Self(u32::MAX);
        }
        impl $name {
            /// The address as an index into a table.
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
address!(Lpn, Ppn, Unit, BlockId, PlaneId);

/// Whether a place is a page of the device; members of chunks lie above.
pub(crate) fn is_page(unit: Unit, pages: u64) -> bool {
    (unit.0 as u64) < pages && unit.some().is_some()
}
