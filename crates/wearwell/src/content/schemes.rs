//! Sets of content mechanisms: those that a design has, or those that run.

use crate::content::MechanismKind;
use crate::design::ContentParts;

/// A set of content mechanisms (such as deduplication), for example those that a design has or those that are switched
/// on. Lifetime management calls them *schemes*.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct MechanismSet(u8);

impl MechanismSet {
    /// The empty set of content mechanisms.
    pub const NONE: Self = Self(0);

    /// The set of all content mechanisms.
    pub const ALL: Self = Self((1 << MechanismKind::COUNT) - 1);

    /// Returns the set of the content mechanisms that a design with these parts has.
    pub fn of_design(parts: &ContentParts) -> Self {
        MechanismKind::ALL.into_iter().filter(|kind| kind.is_part_of(parts)).collect()
    }

    /// Returns whether the content mechanism `kind` (such as compression) is in the set.
    pub fn contains(self, kind: MechanismKind) -> bool {
        self.0 >> kind as u8 & 1 == 1
    }

    /// Returns the set with the content mechanism `kind` (such as compression) added.
    #[must_use]
    pub fn with(self, kind: MechanismKind) -> Self {
        Self(self.0 | 1 << kind as u8)
    }

    /// Returns the set with the content mechanism `kind` (such as compression) removed.
    #[must_use]
    pub fn without(self, kind: MechanismKind) -> Self {
        Self(self.0 & !(1 << kind as u8))
    }

    /// Returns the content mechanisms in the set, in the order in which a host write is offered to them.
    pub fn iter(self) -> impl Iterator<Item = MechanismKind> {
        MechanismKind::ALL.into_iter().filter(move |&kind| self.contains(kind))
    }
}

impl FromIterator<MechanismKind> for MechanismSet {
    fn from_iter<I: IntoIterator<Item = MechanismKind>>(kinds: I) -> Self {
        kinds.into_iter().fold(Self::NONE, Self::with)
    }
}
