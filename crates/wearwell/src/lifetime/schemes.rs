//! Content schemes (deduplication, recycling, delta encoding, compression): which of them a design has, their order in
//! the write pipeline, and which of them run.

use crate::design::ContentParts;

/// Kind of a content scheme (mechanism that saves writes by the content of pages). Kinds are in the order in which a
/// write passes through them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[non_exhaustive]
pub enum SchemeKind {
    /// Deduplication: a page whose content is already stored is not written again.
    Dedup,
    /// Recycling: a write revives a dead page of equal content.
    Recycle,
    /// Delta encoding: overwrites are stored as compressed differences.
    Delta,
    /// Compression: several logical pages are compressed together into a chunk.
    Compression,
}

impl SchemeKind {
    /// Number of kinds of content schemes (mechanisms that save writes by the content of pages).
    pub const COUNT: usize = 4;

    /// All kinds of content schemes (such as compression), in the order in which a write passes through them.
    pub const ALL: [Self; Self::COUNT] = [Self::Dedup, Self::Recycle, Self::Delta, Self::Compression];

    /// Returns the name of the content scheme (such as compression) in records, tables and the option `parts.content`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Dedup => "dedup",
            Self::Recycle => "recycle",
            Self::Delta => "delta",
            Self::Compression => "compress",
        }
    }

    /// Whether the content scheme (such as deduplication) looks up pages by the hash of their content. The hash is
    /// computed once for all such schemes.
    pub fn needs_hash(self) -> bool {
        matches!(self, Self::Dedup | Self::Recycle)
    }
}

/// A set of content schemes (deduplication, recycling, delta encoding, compression): those that a design has, or those
/// that run.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct ContentSchemes(u8);

impl ContentSchemes {
    /// The empty set of content schemes (deduplication, recycling, delta encoding, compression).
    pub const NONE: Self = Self(0);

    /// The set of all content schemes: deduplication, recycling, delta encoding and compression.
    pub const ALL: Self = Self((1 << SchemeKind::COUNT) - 1);

    /// Returns the content schemes (deduplication, recycling, delta encoding, compression) of a design.
    pub fn of(parts: &ContentParts) -> Self {
        let has = |kind: &SchemeKind| match kind {
            SchemeKind::Dedup => parts.sharing.is_some_and(|sharing| sharing.dedup.is_some()),
            SchemeKind::Recycle => parts.recycle.is_some(),
            SchemeKind::Delta => parts.delta.is_some(),
            SchemeKind::Compression => parts.chunks.is_some(),
        };
        SchemeKind::ALL.into_iter().filter(has).collect()
    }

    /// Whether the content scheme `kind` (such as compression) is in the set.
    pub fn contains(self, kind: SchemeKind) -> bool {
        self.0 >> kind as u8 & 1 == 1
    }

    /// Returns the set with the content scheme `kind` (such as compression) added.
    #[must_use]
    pub fn with(self, kind: SchemeKind) -> Self {
        Self(self.0 | 1 << kind as u8)
    }

    /// Returns the set with the content scheme `kind` (such as compression) removed.
    #[must_use]
    pub fn without(self, kind: SchemeKind) -> Self {
        Self(self.0 & !(1 << kind as u8))
    }

    /// Returns the content schemes (such as compression) in the set, in the order in which a write passes through them.
    pub fn iter(self) -> impl Iterator<Item = SchemeKind> {
        SchemeKind::ALL.into_iter().filter(move |&kind| self.contains(kind))
    }
}

impl FromIterator<SchemeKind> for ContentSchemes {
    fn from_iter<I: IntoIterator<Item = SchemeKind>>(kinds: I) -> Self {
        kinds.into_iter().fold(Self::NONE, Self::with)
    }
}
