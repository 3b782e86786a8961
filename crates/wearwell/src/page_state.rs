//! In which form is a logical page stored?
//!
//! A question for whoever shows the device to its host (block status, maps of the drive): it costs no flash operation,
//! counts nothing and changes nothing. The price: a demand-paged map knows only what it has cached, and says of the rest
//! that it is stored, which a host may always assume.

use crate::address::{BlockId, Lpn, Unit, is_page};
use crate::device::Device;
use crate::ftl::Ftl;
use crate::mapping::AnyMapping;
use crate::nand::Nand;

/// Form in which a logical page is stored.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum PageState {
    /// Nothing is stored: the page reads as zeros.
    Hole,
    /// A flash page of its own.
    Stored,
    /// A flash page, or a member of a compressed chunk, that other logical pages refer to as well.
    Shared,
    /// A flash page and a difference to it.
    Delta,
    /// A member of a compressed chunk.
    Packed,
    /// Waiting in RAM: in the write buffer, or for company in a chunk.
    Waiting,
}

impl PageState {
    /// All states, by their number.
    pub const ALL: [Self; 6] =
        [Self::Hole, Self::Stored, Self::Shared, Self::Delta, Self::Packed, Self::Waiting];

    /// In one word.
    pub fn name(self) -> &'static str {
        match self {
            Self::Hole => "hole",
            Self::Stored => "stored",
            Self::Shared => "shared",
            Self::Delta => "delta",
            Self::Packed => "packed",
            Self::Waiting => "waiting",
        }
    }
}

impl<N: Nand> Ftl<N> {
    /// The form in which `lpn`, which must exist, is stored. O(1).
    pub fn page_state(&self, lpn: Lpn) -> PageState {
        if self.is_pending(lpn) {
            return PageState::Waiting;
        }
        let place = match &self.mapping {
            AnyMapping::Flat(flat) => flat.get(lpn),
            AnyMapping::Cached(_) | AnyMapping::Journalled(_) => return PageState::Stored,
        };
        self.form_at(lpn, place)
    }

    /// The form in which `lpn` is stored that the map gives this place.
    pub(crate) fn form_at(&self, lpn: Lpn, place: Option<Unit>) -> PageState {
        let Some(unit) = place else { return PageState::Hole };
        if self.sharing.as_ref().is_some_and(|sharing| sharing.refs.extra(unit) > 0) {
            return PageState::Shared;
        }
        if self.delta.as_ref().is_some_and(|stage| stage.fingerprint(lpn).is_some()) {
            return PageState::Delta;
        }
        if self.is_member(unit) { PageState::Packed } else { PageState::Stored }
    }

    fn is_member(&self, unit: Unit) -> bool {
        self.chunks.is_some() && !is_page(unit, self.store.geometry().pages())
    }

    /// Share of the blocks beyond those that the logical pages need which is still good, percent: 100 on a new device
    /// without bad blocks, 0 when every good block is needed. O(blocks).
    pub fn spare_percent(&self) -> f64 {
        let geometry = self.store.geometry();
        let blocks = geometry.blocks();
        let good = (0..blocks).filter(|&block| !self.store.nand().is_bad(BlockId(block)));
        let needed = (self.logical_pages as u64).div_ceil(geometry.block_pages() as u64) as f64;
        let spare = good.count() as f64 - needed;
        (100.0 * spare / (blocks as f64 - needed)).clamp(0.0, 100.0)
    }
}

impl<N: Nand> Device<N> {
    /// The form in which `lpn`, which must exist, is stored. O(1).
    pub fn page_state(&self, lpn: Lpn) -> PageState {
        if self.is_buffered(lpn) { PageState::Waiting } else { self.ftl().page_state(lpn) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DeviceOptions;
    use crate::address::RemapMode;
    use crate::design::{SharingDesign, remap};
    use crate::device::HostData;
    use crate::gc::GcOptions;
    use crate::nand::{Geometry, Retain, SimNand};
    use crate::sharing::counts::RefsPart;
    use crate::sharing::reverse_map::ReverseMapPart;

    #[test]
    fn a_page_is_a_hole_then_stored_then_shared_and_looking_counts_nothing() {
        let geometry = Geometry {
            channels: 1,
            dies_per_channel: 1,
            planes_per_die: 1,
            blocks_per_plane: 16,
            pages_per_block: 8,
            page_bytes: 512,
            spare_bytes: 64,
            superblock_planes: 1,
        };
        let sharing = SharingDesign {
            reverse_map: ReverseMapPart::Ideal,
            refs: RefsPart::Sparse,
            dedup: None,
            atomic_commands: false,
        };
        let parts = remap(GcOptions::default(), sharing);
        let medium = SimNand::new(geometry, Retain::ALL);
        let mut device = Device::new(medium, 20, &parts, DeviceOptions::default()).expect("it fits");
        let states = |device: &Device<SimNand>| [0, 1, 2].map(|lpn| device.page_state(Lpn(lpn)));
        assert_eq!(states(&device), [PageState::Hole; 3]);
        device.write(512, 512, HostData::Bytes(&[7; 512])).expect("there is room");
        assert_eq!(states(&device), [PageState::Hole, PageState::Stored, PageState::Hole]);
        device.remap(1024, 512, 512, RemapMode::Copy).expect("it is in range");
        let before = device.ftl().stats().clone();
        assert_eq!(states(&device), [PageState::Hole, PageState::Shared, PageState::Shared]);
        assert_eq!(*device.ftl().stats(), before);
        device.trim(512, 512).expect("it is in range");
        assert_eq!(states(&device), [PageState::Hole, PageState::Hole, PageState::Stored]);
        assert!((device.ftl().spare_percent() - 100.0).abs() < f64::EPSILON);
    }
}
