//! The medium of a device: simulated flash, or any other medium behind a pointer.
//!
//! The engine has no type parameter for its medium, so that it is compiled once, in this crate, and not again in every
//! crate that builds a device. The price is a branch per operation of simulated flash, and an indirect call per
//! operation of any other medium (files, or a wrapper that injects faults).

use std::any::Any;
use std::fmt::Debug;

use super::{
    BlockId, ConsecutiveCopies, ConsecutivePrograms, Content, FaultInjectable, FaultyNand, Lpn, Nand,
    NandError, Oob, PageDataWord, PowerCutNand, Ppn, RecordingNand, SimNand,
};

/// Flash medium of a device: simulated flash, or any other medium.
#[derive(Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "devices have one medium each, and simulated flash is nearly all of them"
)]
pub enum AnyNand {
    /// Simulated flash.
    Simulated(SimNand),
    /// Another medium: files, or a wrapper that injects faults or cuts of power.
    Other(Box<dyn BoxedNand>),
}

/// A flash medium other than simulated flash, on which a device can run.
pub trait BoxedNand: FaultInjectable + Any + Debug + Send {
    /// Returns a copy of the medium in its present state; `None` if it cannot be copied (a medium in files).
    fn try_clone(&self) -> Option<Box<dyn BoxedNand>>;
}

impl AnyNand {
    /// Returns the medium as the type `N`, for what only that type offers; `None` if it is of another type.
    pub fn downcast_ref<N: Nand + Any>(&self) -> Option<&N> {
        let medium: &dyn Any = match self {
            Self::Simulated(nand) => nand,
            Self::Other(nand) => &**nand,
        };
        medium.downcast_ref()
    }

    /// Returns the medium as the type `N`, to be changed; `None` if it is of another type.
    pub fn downcast_mut<N: Nand + Any>(&mut self) -> Option<&mut N> {
        let medium: &mut dyn Any = match self {
            Self::Simulated(nand) => nand,
            Self::Other(nand) => &mut **nand,
        };
        medium.downcast_mut()
    }

    /// Returns the wrapper that can cut the power of the medium, for reading.
    ///
    /// # Panics
    /// The device was built on another medium.
    pub fn power_cut_nand(&self) -> &PowerCutNand {
        self.downcast_ref().expect("the device was built on a medium whose power can be cut")
    }

    /// Returns the wrapper that can cut the power of the medium, to cut power or restore it.
    ///
    /// # Panics
    /// The device was built on another medium.
    pub fn power_cut_nand_mut(&mut self) -> &mut PowerCutNand {
        self.downcast_mut().expect("the device was built on a medium whose power can be cut")
    }

    /// Returns the medium itself as the type `N`; `None` if it is of another type.
    pub fn downcast<N: Nand + Any>(self) -> Option<N> {
        let medium: Box<dyn Any> = match self {
            Self::Simulated(nand) => Box::new(nand),
            Self::Other(nand) => nand,
        };
        medium.downcast().ok().map(|nand| *nand)
    }
}

impl Clone for AnyNand {
    /// Copies the medium in its present state.
    ///
    /// # Panics
    /// The medium cannot be copied ([`BoxedNand::try_clone`]).
    fn clone(&self) -> Self {
        match self {
            Self::Simulated(nand) => Self::Simulated(nand.clone()),
            Self::Other(nand) => {
                Self::Other(nand.try_clone().expect("a medium in files is not copied in RAM"))
            }
        }
    }
}

impl From<SimNand> for AnyNand {
    fn from(nand: SimNand) -> Self {
        Self::Simulated(nand)
    }
}

/// Lets a device run on a wrapper, which can be copied if the wrapped medium can.
macro_rules! boxed_wrappers {
    ($($wrapper:ident),+) => {$(
        impl BoxedNand for $wrapper {
            fn try_clone(&self) -> Option<Box<dyn BoxedNand>> {
                Some(Box::new(self.clone()))
            }
        }

        impl From<$wrapper> for AnyNand {
            fn from(nand: $wrapper) -> Self {
                Self::Other(Box::new(nand))
            }
        }
    )+};
}

boxed_wrappers!(FaultyNand, PowerCutNand, RecordingNand);

/// Implements each method by a call of the same method of the medium, whichever it is.
macro_rules! forward {
    ($(fn $name:ident(&self $(, $argument:ident: $type:ty)*) $(-> $result:ty)?;)*) => {$(
        #[inline]
        fn $name(&self $(, $argument: $type)*) $(-> $result)? {
            match self {
                Self::Simulated(nand) => nand.$name($($argument),*),
                Self::Other(nand) => nand.$name($($argument),*),
            }
        }
    )*};
    (mut $(fn $name:ident(&mut self $(, $argument:ident: $type:ty)*) $(-> $result:ty)?;)*) => {$(
        #[inline]
        fn $name(&mut self $(, $argument: $type)*) $(-> $result)? {
            match self {
                Self::Simulated(nand) => nand.$name($($argument),*),
                Self::Other(nand) => nand.$name($($argument),*),
            }
        }
    )*};
}

impl Nand for AnyNand {
    forward! {
        fn geometry(&self) -> &super::Geometry;
        fn pages_programmed_with_lost_mark(&self) -> Vec<Ppn>;
        fn prefetch_page_words(&self, pages: &[(Ppn, usize)], words: &mut [PageDataWord]);
        fn zeroed_page_buffer(&self) -> Vec<u8>;
        fn has_failed_program(&self, block: BlockId) -> bool;
        fn is_bad(&self, block: BlockId) -> bool;
        fn erase_count(&self, block: BlockId) -> u32;
        fn programmed_pages(&self, block: BlockId) -> u32;
        fn keeps_host_bytes(&self) -> bool;
        fn keeps_bytes_of(&self, kind: super::PageKind) -> bool;
        fn oob_owner(&self, ppn: Ppn) -> u32;
        fn oob_owners(&self, pages: &[Ppn], into: &mut Vec<Lpn>);
        fn prefetch_block(&self, block: BlockId);
        fn fingerprint(&self, ppn: Ppn) -> crate::data::Fingerprint;
        fn nvram(&self) -> &[u64];
        fn does_erase_order_operations(&self) -> bool;
    }
    forward! { mut
        fn program(&mut self, ppn: Ppn, oob: Oob, content: Content<'_>) -> Result<(), NandError>;
        fn program_page_marked_lost(&mut self, ppn: Ppn, oob: Oob, spare: &[u8]) -> Result<(), NandError>;
        fn read_spare(&mut self, ppn: Ppn, into: &mut [u8]) -> Result<Oob, NandError>;
        fn read(&mut self, ppn: Ppn, into: &mut [u8]) -> Result<Oob, NandError>;
        fn read_pages(&mut self, pages: &[Ppn], into: &mut [u8]) -> (usize, Result<(), NandError>);
        fn read_page_in_place(&mut self, ppn: Ppn, page: &mut [u8], look: &mut dyn FnMut(&[u8])) -> Result<(), NandError>;
        fn read_words(&mut self, ppn: Ppn, words: &mut [PageDataWord]) -> Result<(), NandError>;
        fn program_changed_page(&mut self, ppn: Ppn, oob: Oob, base: Ppn, words: &[PageDataWord]) -> Result<(), NandError>;
        fn program_consecutive_pages(&mut self, run: ConsecutivePrograms<'_>) -> (usize, Result<(), NandError>);
        fn copy(&mut self, run: ConsecutiveCopies<'_>, page: &mut [u8]) -> (usize, Result<(), NandError>);
        fn probe_page(&mut self, ppn: Ppn) -> Result<Option<Oob>, NandError>;
        fn read_spares_and_retain_readable(&mut self, pages: &mut Vec<Ppn>) -> Result<(), NandError>;
        fn erase(&mut self, block: BlockId) -> Result<(), NandError>;
        fn mark_program_failed(&mut self, block: BlockId);
        fn mark_bad(&mut self, block: BlockId);
        fn discard_bytes_of_metadata_pages(&mut self, pages: &[Ppn]);
        fn store_nvram_word(&mut self, index: usize, word: u64) -> Result<(), NandError>;
        fn sync(&mut self) -> Result<(), NandError>;
        fn fence(&mut self) -> Result<(), NandError>;
    }
}

impl FaultInjectable for AnyNand {
    forward! { mut
        fn tear_program(&mut self, ppn: Ppn);
        fn tear_erase(&mut self, block: BlockId);
        fn make_uncorrectable(&mut self, ppn: Ppn);
    }
}
