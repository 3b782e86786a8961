//! Content of a page, as real bytes or as a short descriptor.
//!
//! Mechanisms that look at content (recycling, deduplication, delta encoding, compression) need four properties of a
//! page: its fingerprint, its compressed size, the size of its difference to an older version, and whether it equals
//! another page. [`Content`] provides them both for real bytes (live device, captures with bytes) and for a
//! [`ContentDescriptor`] of eight to sixteen bytes (traces), so that both run the same code. Bytes take 20 to 400 times
//! the time of descriptors; this is why replay uses descriptors.

/// Size in bytes of the pages to which descriptors of content refer. File systems and databases write 4 KiB pages,
/// whatever the size of a flash page.
pub const PAGE_BYTES: u64 = 4096;

/// Fingerprint of a page's content: pages of equal content have equal fingerprints.
///
/// 64 bits in simulation. The memory accounting counts 16 bytes wherever a drive would store a 16-byte digest.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default)]
pub struct Fingerprint(pub u64);

impl Fingerprint {
    /// Fingerprint of the page whose bytes are all zero.
    pub const ZERO_PAGE: Self = Self(0);

    /// Returns a fingerprint computed from `parts` in their order, for pages that are assembled from sector digests or
    /// partial writes. The result is never [`Self::ZERO_PAGE`].
    pub fn combine(parts: impl IntoIterator<Item = u64>) -> Self {
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        for part in parts {
            state = mix_bits(state.rotate_left(23) ^ part);
        }
        Self(state.max(1))
    }
}

/// Returns a 64-bit hash of `x`, which maps different numbers to different hashes (finaliser with the constants of
/// Stafford's "variant 13", as in `SplitMix64`).
#[inline]
pub fn mix_bits(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// Content of a page as a trace describes it: fingerprint, compressed size, delta size. Sizes are in bytes, for a page
/// of the trace's own page size.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ContentDescriptor {
    /// Fingerprint of the page's content.
    pub fingerprint: Fingerprint,
    /// Compressed size of the page with an LZ-class compressor, bytes, at most the page size; [`Self::UNKNOWN_SIZE`] if
    /// not known.
    pub compressed_bytes: u16,
    /// Size in bytes of the delta (compressed XOR) to the earlier content of the same logical page;
    /// [`Self::UNKNOWN_SIZE`] if not known, or if there is no earlier content.
    pub delta_bytes: u16,
}

impl ContentDescriptor {
    /// Value of a compressed or delta size in a descriptor that means "the trace does not record this size".
    pub const UNKNOWN_SIZE: u16 = u16::MAX;

    /// Returns a content descriptor with this fingerprint and unknown compressed and delta sizes.
    pub fn of_fingerprint(fingerprint: Fingerprint) -> Self {
        Self { fingerprint, compressed_bytes: Self::UNKNOWN_SIZE, delta_bytes: Self::UNKNOWN_SIZE }
    }

    /// Returns the sum of compressed or delta sizes of parts of a page; [`Self::UNKNOWN_SIZE`] if one of them is
    /// unknown, or if the sum does not fit a descriptor.
    pub fn sum_of_sizes(sizes: impl IntoIterator<Item = u16>) -> u16 {
        let add = |sum: u16, size| (size != Self::UNKNOWN_SIZE).then(|| sum.checked_add(size)).flatten();
        sizes.into_iter().try_fold(0, add).unwrap_or(Self::UNKNOWN_SIZE)
    }

    /// Returns which sizes of the content are known: its compressed size, and the size of its delta to the old content.
    pub fn known_content_sizes(&self) -> KnownContentSizes {
        KnownContentSizes {
            is_compressed_size_known: self.compressed_bytes != Self::UNKNOWN_SIZE,
            is_delta_size_known: self.delta_bytes != Self::UNKNOWN_SIZE,
        }
    }
}

/// Which sizes of a page's content are known (compressed size, size of the delta), for the whole page or for at least
/// one of its parts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct KnownContentSizes {
    /// Whether the compressed size of the content is known.
    pub is_compressed_size_known: bool,
    /// Whether the delta size of the content is known.
    pub is_delta_size_known: bool,
}

impl KnownContentSizes {
    /// Whether both the compressed size and the delta size are known.
    pub fn are_all_known(self) -> bool {
        self.is_compressed_size_known && self.is_delta_size_known
    }

    /// Returns the sizes that are known in `self` and in `other`.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            is_compressed_size_known: self.is_compressed_size_known && other.is_compressed_size_known,
            is_delta_size_known: self.is_delta_size_known && other.is_delta_size_known,
        }
    }

    /// Returns the sizes that are known in `self` or in `other`.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self {
            is_compressed_size_known: self.is_compressed_size_known || other.is_compressed_size_known,
            is_delta_size_known: self.is_delta_size_known || other.is_delta_size_known,
        }
    }
}

/// Counts of page writes whose compressed size or delta size is unknown, although that of a part of the page was known.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct UnknownSizeCounts {
    /// Number of page writes whose compressed size is unknown although that of a part of the page was known.
    pub pages_with_unknown_compressed_size: u64,
    /// Number of page writes whose delta size is unknown although that of a part of the page was known.
    pub pages_with_unknown_delta_size: u64,
}

impl UnknownSizeCounts {
    /// Counts a page write as having lost a size if that size is known for a part of the page (`of_parts`), but not for
    /// the whole page (`of_page`).
    pub fn count_page_write(&mut self, of_parts: KnownContentSizes, of_page: KnownContentSizes) {
        let is_lost = |part: bool, page: bool| u64::from(part && !page);
        self.pages_with_unknown_compressed_size +=
            is_lost(of_parts.is_compressed_size_known, of_page.is_compressed_size_known);
        self.pages_with_unknown_delta_size +=
            is_lost(of_parts.is_delta_size_known, of_page.is_delta_size_known);
    }

    /// Returns how many page writes with an unknown size were counted since `earlier`, an earlier reading of these
    /// counters.
    #[must_use]
    pub fn since(self, earlier: Self) -> Self {
        Self {
            pages_with_unknown_compressed_size: self.pages_with_unknown_compressed_size
                - earlier.pages_with_unknown_compressed_size,
            pages_with_unknown_delta_size: self.pages_with_unknown_delta_size
                - earlier.pages_with_unknown_delta_size,
        }
    }

    /// Returns the sums of the counts of `self` and `other`: page writes whose compressed size or delta size is
    /// unknown.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            pages_with_unknown_compressed_size: self.pages_with_unknown_compressed_size
                + other.pages_with_unknown_compressed_size,
            pages_with_unknown_delta_size: self.pages_with_unknown_delta_size
                + other.pages_with_unknown_delta_size,
        }
    }
}

/// Content of one page that the host writes, as bytes or as a descriptor.
#[derive(Clone, Copy, Debug)]
pub enum Content<'a> {
    /// A content descriptor (fingerprint and sizes) instead of the bytes.
    Descriptor(ContentDescriptor),
    /// The bytes of the page, exactly one page long.
    Bytes(&'a [u8]),
}

impl<'a> Content<'a> {
    /// Returns the content of a page that was read: `bytes`, or if that is empty (the medium keeps no bytes) a
    /// descriptor with `fingerprint`.
    pub fn of_page(bytes: &'a [u8], fingerprint: Fingerprint) -> Self {
        if bytes.is_empty() {
            Content::Descriptor(ContentDescriptor::of_fingerprint(fingerprint))
        } else {
            Content::Bytes(bytes)
        }
    }

    /// Returns the fingerprint of the page content. For bytes this computes one BLAKE3 digest; a descriptor contains
    /// it.
    #[inline]
    pub fn fingerprint(&self) -> Fingerprint {
        match self {
            Content::Descriptor(descriptor) => descriptor.fingerprint,
            Content::Bytes(bytes) => fingerprint_of(bytes),
        }
    }

    /// Returns the compressed size of the page with an LZ4-class compressor, in bytes; `None` if a descriptor does not
    /// give it. For real bytes this compresses the page.
    #[inline]
    pub fn compressed_bytes(&self) -> Option<usize> {
        match self {
            Content::Descriptor(d) => {
                (d.compressed_bytes != ContentDescriptor::UNKNOWN_SIZE).then_some(d.compressed_bytes as usize)
            }
            Content::Bytes(bytes) => Some(compressed_len(bytes)),
        }
    }
}

/// Returns the fingerprint of `bytes`: the first 8 bytes of their BLAKE3 digest, or [`Fingerprint::ZERO_PAGE`] if all
/// are zero.
pub fn fingerprint_of(bytes: &[u8]) -> Fingerprint {
    if bytes.iter().all(|&b| b == 0) {
        return Fingerprint::ZERO_PAGE;
    }
    let digest = blake3::hash(bytes);
    let word = u64::from_le_bytes(digest.as_bytes()[..8].try_into().expect("a digest has 32 bytes"));
    Fingerprint(word.max(1))
}

/// Returns the compressed size of `bytes` as an LZ4 block, at most their length (an incompressible page is stored raw).
pub fn compressed_len(bytes: &[u8]) -> usize {
    lz4_flex::block::compress(bytes).len().min(bytes.len())
}

/// Returns the size in bytes of the delta (compressed XOR) between two versions of a page, capped at the page size; 0
/// if they are equal.
pub fn delta_len(new: &[u8], old: &[u8]) -> usize {
    compute_delta(new, old).len().min(new.len())
}

/// Returns the delta (compressed XOR) between two versions of a page; empty if they are equal. May be longer than the
/// page.
pub fn compute_delta(new: &[u8], old: &[u8]) -> Vec<u8> {
    if new == old {
        return Vec::new();
    }
    let difference: Vec<u8> = new.iter().zip(old).map(|(a, b)| a ^ b).collect();
    lz4_flex::block::compress(&difference)
}

/// Changes `page` from the old version into the new version for which [`compute_delta`] made `delta`.
///
/// # Errors
/// `delta` is damaged and cannot be decompressed.
pub fn apply_delta(page: &mut [u8], delta: &[u8]) -> Result<(), lz4_flex::block::DecompressError> {
    if delta.is_empty() {
        return Ok(());
    }
    let difference = lz4_flex::block::decompress(delta, page.len())?;
    page.iter_mut().zip(&difference).for_each(|(byte, difference)| *byte ^= difference);
    Ok(())
}
