//! The content schemes of a design: which there are, in which order a write meets them, and which of them run.

use crate::design::ContentParts;

/// Content schemes, in the order of the write pipeline.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[non_exhaustive]
pub enum SchemeKind {
    /// Pages that are stored already are not written again.
    Dedup,
    /// Dead pages whose content is written again become valid again.
    Recycle,
    /// Overwrites are stored as differences.
    Delta,
    /// Pages are compressed in chunks.
    Compression,
}

impl SchemeKind {
    /// Number of kinds.
    pub const COUNT: usize = 4;

    /// All of them, in the order of the pipeline.
    pub const ALL: [Self; Self::COUNT] = [Self::Dedup, Self::Recycle, Self::Delta, Self::Compression];

    /// The name in records and tables, as `parts.content` has it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Dedup => "dedup",
            Self::Recycle => "recycle",
            Self::Delta => "delta",
            Self::Compression => "compress",
        }
    }

    /// Whether it looks pages up by the hash of their content, which is computed once for all schemes that do.
    pub fn needs_hash(self) -> bool {
        matches!(self, Self::Dedup | Self::Recycle)
    }
}

/// A set of content schemes: those that a design has, or those that run.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct ContentSchemes(u8);

impl ContentSchemes {
    /// No scheme.
    pub const NONE: Self = Self(0);

    /// Every scheme.
    pub const ALL: Self = Self((1 << SchemeKind::COUNT) - 1);

    /// The schemes of a design.
    pub fn of(parts: &ContentParts) -> Self {
        let has = |kind: &SchemeKind| match kind {
            SchemeKind::Dedup => parts.sharing.is_some_and(|sharing| sharing.dedup.is_some()),
            SchemeKind::Recycle => parts.recycle.is_some(),
            SchemeKind::Delta => parts.delta.is_some(),
            SchemeKind::Compression => parts.chunks.is_some(),
        };
        SchemeKind::ALL.into_iter().filter(has).collect()
    }

    /// Whether `kind` belongs to it.
    pub fn contains(self, kind: SchemeKind) -> bool {
        self.0 >> kind as u8 & 1 == 1
    }

    /// The set with one scheme more.
    #[must_use]
    pub fn with(self, kind: SchemeKind) -> Self {
        Self(self.0 | 1 << kind as u8)
    }

    /// The set with one scheme less.
    #[must_use]
    pub fn without(self, kind: SchemeKind) -> Self {
        Self(self.0 & !(1 << kind as u8))
    }

    /// Its schemes, in the order of the pipeline.
    pub fn iter(self) -> impl Iterator<Item = SchemeKind> {
        SchemeKind::ALL.into_iter().filter(move |&kind| self.contains(kind))
    }
}

impl FromIterator<SchemeKind> for ContentSchemes {
    fn from_iter<I: IntoIterator<Item = SchemeKind>>(kinds: I) -> Self {
        kinds.into_iter().fold(Self::NONE, Self::with)
    }
}
