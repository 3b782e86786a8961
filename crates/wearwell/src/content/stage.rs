//! The interface of content mechanisms: what the engine asks of each of them.
//!
//! A mechanism is a type that implements [`ContentMechanism`], in a folder of its own, and a line in the list of
//! [`content`](crate::content). The list makes the enum [`MechanismKind`] and the order in
//! which a host write is offered to the mechanisms. The first that ends the write ends the chain; a write that all of
//! them pass on is programmed as a page.
//!
//! A mechanism that keeps no state (`silent/`) implements only its names, its energy and `offer_write`. For such
//! mechanisms the engine keeps two sets: those that the design has, and those that are switched on. The default methods
//! query these sets. The four mechanisms of the papers decide where content is stored, so they have state in [`Ftl`],
//! and GC, reads and recovery know them.
//!
//! The calls are resolved at compile time: a device without a mechanism pays one branch per host write for it.

use crate::address::Lpn;
use crate::content::{MechanismKind, MechanismSet};
use crate::data::{Content, Fingerprint};
use crate::design::ContentParts;
use crate::error::Result;
use crate::ftl::Ftl;
use crate::lifetime::EnergyModel;

/// One page that the host writes, as it is offered to the content mechanisms.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HostWrite<'a> {
    /// Logical page that the host writes.
    pub(crate) lpn: Lpn,
    /// Pool (set of planes) that has room for the page if it is programmed.
    pub(crate) pool: u32,
    /// Content that the host writes to the page.
    pub(crate) content: Content<'a>,
    /// Fingerprint of `content`.
    pub(crate) fingerprint: Fingerprint,
}

/// A content mechanism on the path of a host write (deduplication, recycling and so on).
pub(crate) trait ContentMechanism {
    /// Kind of the content mechanism.
    const KIND: MechanismKind;

    /// Name of the content mechanism in `parts.content`, in records and in tables.
    const NAME: &'static str;

    /// One sentence that says what the content mechanism does, for tables and help texts.
    const SUMMARY: &'static str;

    /// Whether the content mechanism uses the hash of a page's content. The engine computes the hash once per page for
    /// all mechanisms.
    const NEEDS_HASH: bool;

    /// Whether the content mechanism keeps nothing on flash and has no options, so that it can be combined with every
    /// other part of a design.
    const IS_STATELESS: bool = true;

    /// Returns the energy that the content mechanism needs per page offered to it, in units of the energy of one page
    /// program.
    fn energy_per_page_in_program_energies(energy: &EnergyModel) -> f64;

    /// Returns whether a design with these parts has the content mechanism.
    fn is_part_of(parts: &ContentParts) -> bool {
        parts.stateless_mechanisms.contains(Self::KIND)
    }

    /// Returns whether the content mechanism is switched on in `ftl`. Lifetime management can switch mechanisms off.
    fn is_on(ftl: &Ftl) -> bool {
        ftl.stateless_mechanisms.switched_on.contains(Self::KIND)
    }

    /// Writes to flash the pages that the content mechanism has buffered in RAM. The engine calls this before it
    /// switches the mechanism off.
    ///
    /// # Errors
    /// Those of [`Ftl::write`].
    fn write_buffered_pages(_ftl: &mut Ftl) -> Result<()> {
        Ok(())
    }

    /// Switches the content mechanism on or off in `ftl`. Does nothing if the design does not have the mechanism.
    fn set_enabled(ftl: &mut Ftl, is_on: bool) {
        let StatelessMechanisms { in_design: has, switched_on: on } = &mut ftl.stateless_mechanisms;
        *on = if is_on && has.contains(Self::KIND) { on.with(Self::KIND) } else { on.without(Self::KIND) };
    }

    /// Offers a host write to the content mechanism. Returns `true` if the mechanism completed the write: it was
    /// counted, and reads of the logical page return `write.content`, after a power loss too if the design promises
    /// that. Returns `false` if the write has to be offered to the next mechanism; the logical page is then unchanged.
    ///
    /// # Errors
    /// Those of [`Ftl::write`].
    fn offer_write(ftl: &mut Ftl, write: &HostWrite<'_>) -> Result<bool>;

    /// Does follow-up work of the content mechanism, such as splitting wasteful chunks. It is called when a host write
    /// is complete that was offered to the mechanism.
    ///
    /// # Errors
    /// Those of [`Ftl::write`].
    #[inline]
    fn do_work_after_write(_ftl: &mut Ftl) -> Result<()> {
        Ok(())
    }
}

/// Content mechanisms that keep no state of their own (such as the elimination of silent writes): the set that the
/// design has, and the set that is switched on.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct StatelessMechanisms {
    /// Stateless content mechanisms that the design has.
    pub(crate) in_design: MechanismSet,
    /// Stateless content mechanisms that are switched on now.
    pub(crate) switched_on: MechanismSet,
}

/// Result of offering a host write to the content mechanisms: whether one completed it, and how many received it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ContentMechanismsResult {
    /// Whether one of the content mechanisms completed the host write, so that no page has to be programmed.
    pub(crate) is_complete: bool,
    /// Number of content mechanisms to which the host write was offered, including the one that completed it.
    pub(crate) receiving_mechanism_count: usize,
}

/// Makes [`MechanismKind`] and the chain of a host write from the list of mechanisms.
macro_rules! content_mechanisms {
    ($($(#[$doc:meta])* $kind:ident: $stage:ty,)*) => {
        /// Kind of a content mechanism (deduplication, recycling, delta encoding and so on). The kinds are in the order
        /// in which a host write is offered to the mechanisms. Lifetime management uses the word *scheme* for a
        /// mechanism that it can switch on and off.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        #[non_exhaustive]
        pub enum MechanismKind {
            $($(#[$doc])* $kind,)*
        }

        impl MechanismKind {
            /// All kinds of content mechanisms, in the order in which a host write is offered to them.
            pub const ALL: [Self; Self::COUNT] = [$(Self::$kind),*];

            /// Number of kinds of content mechanisms.
            pub const COUNT: usize = [$(stringify!($kind)),*].len();

            /// Returns the name of the content mechanism in `parts.content`, in records and in tables.
            pub fn name(self) -> &'static str {
                match self { $(Self::$kind => <$stage>::NAME,)* }
            }

            /// Returns one sentence that says what the content mechanism does.
            pub fn summary(self) -> &'static str {
                match self { $(Self::$kind => <$stage>::SUMMARY,)* }
            }

            /// Returns whether the content mechanism uses the hash of a page's content. The engine computes the hash
            /// once per page for all mechanisms.
            pub fn needs_hash(self) -> bool {
                match self { $(Self::$kind => <$stage>::NEEDS_HASH,)* }
            }

            /// Returns whether the content mechanism keeps nothing on flash and has no options, so that it can be
            /// combined with every other part of a design.
            pub fn is_stateless(self) -> bool {
                match self { $(Self::$kind => <$stage>::IS_STATELESS,)* }
            }

            /// Returns the energy that the content mechanism needs per page offered to it, in units of the energy of
            /// one page program.
            pub fn energy_per_page_in_program_energies(self, energy: &$crate::lifetime::EnergyModel) -> f64 {
                match self { $(Self::$kind => <$stage>::energy_per_page_in_program_energies(energy),)* }
            }

            /// Returns whether a design with these parts has the content mechanism.
            pub(crate) fn is_part_of(self, parts: &$crate::design::ContentParts) -> bool {
                match self { $(Self::$kind => <$stage>::is_part_of(parts),)* }
            }

            /// Returns whether the content mechanism is switched on in `ftl`.
            pub(crate) fn is_on(self, ftl: &$crate::ftl::Ftl) -> bool {
                match self { $(Self::$kind => <$stage>::is_on(ftl),)* }
            }
        }

        impl $crate::ftl::Ftl {
            /// Offers a host write to the content mechanisms in turn, until one of them completes it.
            #[inline(always)]
            pub(crate) fn offer_to_mechanisms(
                &mut self,
                write: &$crate::content::HostWrite<'_>,
            ) -> $crate::error::Result<$crate::content::ContentMechanismsResult> {
                let mut seen = 0;
                $(
                    seen += 1;
                    if <$stage>::offer_write(self, write)? {
                        return Ok($crate::content::ContentMechanismsResult { is_complete: true, receiving_mechanism_count: seen });
                    }
                )*
                Ok($crate::content::ContentMechanismsResult { is_complete: false, receiving_mechanism_count: seen })
            }

            /// Runs the follow-up work of the first `seen` content mechanisms, those to which the completed host write
            /// was offered.
            #[inline(always)]
            pub(crate) fn do_work_after_write_in_mechanisms(&mut self, seen: usize) -> $crate::error::Result<()> {
                $(
                    if (MechanismKind::$kind as usize) < seen {
                        <$stage>::do_work_after_write(self)?;
                    }
                )*
                Ok(())
            }

            /// Writes to flash the pages buffered by content mechanisms that are being switched off (those outside the
            /// set `running`).
            pub(crate) fn flush_buffers_of_stopping_mechanisms(
                &mut self,
                running: $crate::content::MechanismSet,
            ) -> $crate::error::Result<()> {
                $(
                    if !running.contains(MechanismKind::$kind) {
                        <$stage>::write_buffered_pages(self)?;
                    }
                )*
                Ok(())
            }

            /// Switches the content mechanisms in `running` on, and all others off.
            pub(crate) fn switch_mechanisms(&mut self, running: $crate::content::MechanismSet) {
                $(<$stage>::set_enabled(self, running.contains(MechanismKind::$kind));)*
            }
        }
    };
}

pub(crate) use content_mechanisms;
