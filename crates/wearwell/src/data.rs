//! What a page holds, and its identity.
//!
//! Mechanisms that look at content (recycling now; deduplication, delta and compression on the same seam) need
//! four answers: a fingerprint, a compressed size, the size of the difference to an older version, and equality.
//! [`Content`] gives them for real bytes (live device, captures with bytes) and for a [`Descriptor`] of eight to
//! sixteen bytes (traces), so that both run the same code. The price of bytes is 20 to 400 times the price of a
//! descriptor, which is why replay carries descriptors.

/// Bytes of the pages whose content is described: what file systems and databases write, whatever the page of the flash.
pub const PAGE_BYTES: u64 = 4096;

/// Identity of a page's content: equal content has an equal fingerprint.
///
/// 64 bits in simulation; where a drive would store a 16-byte digest the memory accounting counts 16 bytes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default)]
pub struct Fingerprint(pub u64);

impl Fingerprint {
    /// The all-zero page.
    pub const ZERO_PAGE: Self = Self(0);

    /// A fingerprint that mixes `parts` in order; used for pages assembled from sector digests or partial writes.
    pub fn combine(parts: impl IntoIterator<Item = u64>) -> Self {
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        for part in parts {
            state = mix(state.rotate_left(23) ^ part);
        }
        Self(state.max(1))
    }
}

/// 64-bit finaliser (Stafford's "variant 13" constants, as `SplitMix64` uses them).
#[inline]
pub fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// A page's content as a trace knows it. Sizes are bytes for a page of the trace's own page size.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Descriptor {
    /// Identity of the content.
    pub fingerprint: Fingerprint,
    /// Size after an LZ-class compressor, capped at the page size; `Descriptor::UNKNOWN` if not known.
    pub compressed_bytes: u16,
    /// Size of the compressed XOR with the previous content of the same address; `Descriptor::UNKNOWN` if not
    /// known or if there is no previous content.
    pub delta_bytes: u16,
}

impl Descriptor {
    /// Marks a size that the trace does not know.
    pub const UNKNOWN: u16 = u16::MAX;

    /// A descriptor with an identity and no sizes.
    pub fn of(fingerprint: Fingerprint) -> Self {
        Self { fingerprint, compressed_bytes: Self::UNKNOWN, delta_bytes: Self::UNKNOWN }
    }
}

/// The payload of one page write.
#[derive(Clone, Copy, Debug)]
pub enum Content<'a> {
    /// Nothing but identity and sizes.
    Descriptor(Descriptor),
    /// The page itself, exactly one page long.
    Bytes(&'a [u8]),
}

impl<'a> Content<'a> {
    /// The bytes of a page, or its identity where there are none.
    pub fn of_page(bytes: &'a [u8], fingerprint: Fingerprint) -> Self {
        if bytes.is_empty() {
            Content::Descriptor(Descriptor::of(fingerprint))
        } else {
            Content::Bytes(bytes)
        }
    }

    /// Identity of the content. Bytes cost one BLAKE3 of the page, a descriptor nothing.
    #[inline]
    pub fn fingerprint(&self) -> Fingerprint {
        match self {
            Content::Descriptor(descriptor) => descriptor.fingerprint,
            Content::Bytes(bytes) => fingerprint_of(bytes),
        }
    }

    /// Size in bytes after an LZ4-class compressor, if known. Bytes cost one compression.
    pub fn compressed_bytes(&self) -> Option<usize> {
        match self {
            Content::Descriptor(d) => {
                (d.compressed_bytes != Descriptor::UNKNOWN).then_some(d.compressed_bytes as usize)
            }
            Content::Bytes(bytes) => Some(compressed_len(bytes)),
        }
    }
}

/// Fingerprint of real bytes: BLAKE3, first 8 bytes; the all-zero page is [`Fingerprint::ZERO_PAGE`].
pub fn fingerprint_of(bytes: &[u8]) -> Fingerprint {
    if bytes.iter().all(|&b| b == 0) {
        return Fingerprint::ZERO_PAGE;
    }
    let digest = blake3::hash(bytes);
    let word = u64::from_le_bytes(digest.as_bytes()[..8].try_into().expect("a digest has 32 bytes"));
    Fingerprint(word.max(1))
}

/// LZ4 block size of `bytes`, capped at its length (an incompressible page is stored raw).
pub fn compressed_len(bytes: &[u8]) -> usize {
    lz4_flex::block::compress(bytes).len().min(bytes.len())
}

/// Size of the compressed XOR of two versions of a page, capped at the page length; 0 when they are equal.
pub fn delta_len(new: &[u8], old: &[u8]) -> usize {
    delta_of(new, old).len().min(new.len())
}

/// The compressed XOR of two versions of a page; empty when they are equal. May be longer than the page.
pub fn delta_of(new: &[u8], old: &[u8]) -> Vec<u8> {
    if new == old {
        return Vec::new();
    }
    let difference: Vec<u8> = new.iter().zip(old).map(|(a, b)| a ^ b).collect();
    lz4_flex::block::compress(&difference)
}

/// Turns `page` from the old version into the new one that `delta` was made for.
///
/// # Errors
/// A delta that is damaged.
pub fn apply_delta(page: &mut [u8], delta: &[u8]) -> Result<(), lz4_flex::block::DecompressError> {
    if delta.is_empty() {
        return Ok(());
    }
    let difference = lz4_flex::block::decompress(delta, page.len())?;
    page.iter_mut().zip(&difference).for_each(|(byte, difference)| *byte ^= difference);
    Ok(())
}
