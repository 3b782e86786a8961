//! Dense tables of numbers on large memory pages.
//!
//! A page-mapped FTL is a handful of tables that are read and written at random, so the time of a host write is cache
//! and TLB misses. With 4-KiB memory pages a table of some megabytes already exceeds the reach of the TLB; 2-MiB pages
//! make random access 1.4 to 1.7 times faster. Most operating systems grant them only on request, and the request needs
//! memory of its own: an anonymous mapping, which reads as zeros and costs nothing until it is touched. If the system
//! has no such pages, the mapping is an ordinary one. Small tables are on the heap, because tests create and clone tiny
//! devices by the million and a mapping costs a system call.
//!
//! Cost of an access: one bounds check, as for a slice, and a branch that is always predicted correctly.

use std::fmt;
use std::marker::PhantomData;

use memmap2::MmapMut;

/// Integer type of the elements of a [`DenseTable`].
pub(crate) trait TableInteger: Copy {
    /// The bytes of one integer of this type.
    type Bytes: Copy;
    /// Views bytes of memory as integers of this type.
    fn integers_of_bytes(bytes: &[u8]) -> &[Self::Bytes];
    /// Views bytes of memory as integers of this type, for mutable access.
    fn integers_of_bytes_mut(bytes: &mut [u8]) -> &mut [Self::Bytes];
    /// Returns the integer that these bytes of memory represent.
    fn from_table_bytes(bytes: Self::Bytes) -> Self;
    /// Returns the bytes of memory that represent the integer.
    fn to_table_bytes(self) -> Self::Bytes;
}

/// Implements [`TableInteger`] for the listed integer types.
macro_rules! impl_table_integer {
    ($($number:ty),*) => {$(
        impl TableInteger for $number {
            type Bytes = [u8; size_of::<$number>()];
            #[inline]
            fn integers_of_bytes(bytes: &[u8]) -> &[Self::Bytes] {
                bytes.as_chunks().0
            }
            #[inline]
            fn integers_of_bytes_mut(bytes: &mut [u8]) -> &mut [Self::Bytes] {
                bytes.as_chunks_mut().0
            }
            #[inline]
            fn from_table_bytes(bytes: Self::Bytes) -> Self {
                Self::from_ne_bytes(bytes)
            }
            #[inline]
            fn to_table_bytes(self) -> Self::Bytes {
                self.to_ne_bytes()
            }
        }
    )*};
}
impl_table_integer!(u8, u32, u64);

/// Minimum size in bytes of a table of integers that gets a memory mapping (mmap) of its own; smaller tables are on the
/// heap.
const MIN_MEMORY_MAPPED_TABLE_BYTES: usize = 1 << 20;

/// Memory of a table of integers: on the heap if small, otherwise an anonymous memory mapping (mmap) of its own.
enum TableMemory {
    /// Memory on the heap, for a small table.
    Heap(Box<[u8]>),
    /// Memory mapping (mmap) of its own, on large memory pages if the system grants them.
    Mapped(MmapMut),
}

impl TableMemory {
    /// Allocates `bytes` bytes of zeros: on the heap, or as a memory mapping (mmap) if there are at least
    /// [`MIN_MEMORY_MAPPED_TABLE_BYTES`].
    fn zeroed(bytes: usize) -> Self {
        if bytes < MIN_MEMORY_MAPPED_TABLE_BYTES {
            return Self::Heap(vec![0; bytes].into());
        }
        let memory = MmapMut::map_anon(bytes).expect(
            "the system gives no memory for a table of the engine: use a smaller device, or free memory",
        );
        request_large_pages(&memory);
        Self::Mapped(memory)
    }

    /// Returns the bytes of the table.
    #[inline]
    fn bytes(&self) -> &[u8] {
        match self {
            Self::Heap(bytes) => bytes,
            Self::Mapped(memory) => memory,
        }
    }

    /// Returns the bytes of the table, for mutable access.
    #[inline]
    fn bytes_mut(&mut self) -> &mut [u8] {
        match self {
            Self::Heap(bytes) => bytes,
            Self::Mapped(memory) => memory,
        }
    }
}

/// Array of integers with a fixed length, on large memory pages (huge pages) if it is large.
pub(crate) struct DenseTable<W> {
    /// Memory with the integers of the array, one after the other.
    memory: TableMemory,
    /// Number of integers in the array.
    len: usize,
    /// Marker for the type of the integers; holds no data.
    integer_type: PhantomData<W>,
}

impl<W: TableInteger> DenseTable<W> {
    /// Creates an array of `len` zeros.
    ///
    /// # Panics
    /// If the system has not enough address space.
    pub(crate) fn zeroed(len: usize) -> Self {
        Self { memory: TableMemory::zeroed(len * size_of::<W::Bytes>()), len, integer_type: PhantomData }
    }

    /// Creates an array of `len` integers, all `value`.
    pub(crate) fn filled(len: usize, value: W) -> Self {
        let mut table = Self::zeroed(len);
        table.words_mut().fill(value.to_table_bytes());
        table
    }

    /// Returns the number of integers in the array.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Returns the integers of the array, each as its bytes.
    #[inline]
    fn words(&self) -> &[W::Bytes] {
        W::integers_of_bytes(self.memory.bytes())
    }

    /// Returns the integers of the array, each as its bytes, for mutable access.
    #[inline]
    fn words_mut(&mut self) -> &mut [W::Bytes] {
        W::integers_of_bytes_mut(self.memory.bytes_mut())
    }

    /// Returns the integer at `index` of the array; panics beyond the end.
    #[inline]
    pub(crate) fn get(&self, index: usize) -> W {
        W::from_table_bytes(self.words()[index])
    }

    /// Returns the integers at `indices` of the array, in their order. Checks only once whether the array is on the
    /// heap or in a memory mapping (mmap). Panics beyond the end.
    #[inline]
    pub(crate) fn get_each(&self, indices: impl Iterator<Item = usize>) -> impl Iterator<Item = W> {
        let words = self.words();
        indices.map(|index| W::from_table_bytes(words[index]))
    }

    /// Stores an integer at `index` of the array; panics beyond the end.
    #[inline]
    pub(crate) fn set(&mut self, index: usize, value: W) {
        self.words_mut()[index] = value.to_table_bytes();
    }

    /// Stores integers in the array, each at its index, in order. Panics beyond the end.
    #[inline]
    pub(crate) fn set_each(&mut self, values: impl Iterator<Item = (usize, W)>) {
        let words = self.words_mut();
        values.for_each(|(index, value)| words[index] = value.to_table_bytes());
    }

    /// Stores an integer at `index` of the array and returns the old one; panics beyond the end.
    #[inline]
    pub(crate) fn replace(&mut self, index: usize, value: W) -> W {
        W::from_table_bytes(std::mem::replace(&mut self.words_mut()[index], value.to_table_bytes()))
    }

    /// Exchanges each given integer with the integer at its index of the array, in order. Panics beyond the end.
    #[inline]
    pub(crate) fn exchange_each<'a>(&mut self, values: impl Iterator<Item = (usize, &'a mut W)>)
    where
        W: 'a,
    {
        let words = self.words_mut();
        values.for_each(|(index, value)| {
            *value = W::from_table_bytes(std::mem::replace(&mut words[index], value.to_table_bytes()));
        });
    }

    /// Copies the integers at the indices `from` of the array, in their order, to consecutive indices from `first` on.
    /// Panics beyond the end.
    #[inline]
    pub(crate) fn copy_to_consecutive(&mut self, first: usize, from: impl Iterator<Item = usize>) {
        let words = self.words_mut();
        (first..).zip(from).for_each(|(to, from)| words[to] = words[from]);
    }

    /// Stores integers at consecutive indices of the array from `first` on. Panics beyond the end.
    #[inline]
    pub(crate) fn set_consecutive(&mut self, first: usize, values: impl ExactSizeIterator<Item = W>) {
        let run = &mut self.words_mut()[first..first + values.len()];
        run.iter_mut().zip(values).for_each(|(word, value)| *word = value.to_table_bytes());
    }
}

impl DenseTable<u64> {
    /// Searches the array from index `first` to its end, then from its beginning, for an integer for which `is_match`
    /// returns true; returns its index. Such an integer must exist.
    #[inline]
    pub(crate) fn find_cyclic_from(&self, first: usize, is_match: impl Fn(u64) -> bool) -> usize {
        let words = self.words();
        let mut at = first;
        loop {
            match words.get(at) {
                Some(&word) if is_match(u64::from_table_bytes(word)) => return at,
                Some(_) => at += 1,
                None => at = 0,
            }
        }
    }
}

impl DenseTable<u8> {
    /// Returns all bytes of the array.
    #[inline]
    pub(crate) fn bytes(&self) -> &[u8] {
        self.memory.bytes()
    }

    /// Returns all bytes of the array, for mutable access.
    #[inline]
    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        self.memory.bytes_mut()
    }
}

impl<W: TableInteger> Clone for DenseTable<W> {
    fn clone(&self) -> Self {
        let mut copy = Self::zeroed(self.len);
        copy.memory.bytes_mut().copy_from_slice(self.memory.bytes());
        copy
    }
}

impl<W> fmt::Debug for DenseTable<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Table of {} words", self.len)
    }
}

/// Requests huge pages from the operating system for a memory mapping. A refusal is ignored: it only makes accesses
/// slower.
#[cfg(target_os = "linux")]
fn request_large_pages(memory: &MmapMut) {
    /// Size of the large memory pages that are requested, bytes.
    const LARGE_PAGE_BYTES: usize = 2 << 20;
    if memory.len() >= 2 * LARGE_PAGE_BYTES {
        let _ = memory.advise(memmap2::Advice::HugePage);
    }
}

/// Does nothing: this operating system has no request for huge pages.
#[cfg(not(target_os = "linux"))]
fn request_large_pages(_: &MmapMut) {}

#[cfg(test)]
mod tests {
    use super::DenseTable;

    /// Each operation on a dense table has the result that it has on a vector.
    #[test]
    fn a_dense_table_behaves_like_a_vector() {
        for len in [0, 1, 7, 1_100_000] {
            let mut table = DenseTable::<u32>::filled(len, u32::MAX);
            let mut model = vec![u32::MAX; len];
            for (k, word) in model.iter_mut().enumerate().step_by(3) {
                *word = k as u32;
                assert_eq!(table.replace(k, k as u32), u32::MAX);
            }
            let copy = table.clone();
            assert!((0..len).all(|k| copy.get(k) == model[k]), "length {len}");
        }
    }

    #[test]
    #[should_panic(expected = "index out of bounds")]
    fn a_dense_table_panics_at_an_index_beyond_its_end() {
        DenseTable::<u64>::zeroed(4).get(4);
    }
}
