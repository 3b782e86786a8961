//! Table columns for Python: bytes that `NumPy` and Arrow use without a copy, and the names for which the codes in a
//! column stand.

use pyo3::prelude::*;
use pyo3::types::PyBytes;
use wearwell::nand::PageKind;

/// A column of a table for Python: name, bytes of the values, and type of the values in `NumPy`'s notation. If the
/// values are codes, the last field has the names of all codes; otherwise it is empty.
pub(crate) type NumpyColumn<'py> = (&'static str, Bound<'py, PyBytes>, &'static str, Vec<&'static str>);

/// Creates a table column for Python whose values are codes of one byte, with the names of all codes.
pub(crate) fn code_column<'py>(
    py: Python<'py>,
    name: &'static str,
    values: impl Iterator<Item = u8>,
    names: Vec<&'static str>,
) -> NumpyColumn<'py> {
    (name, PyBytes::new(py, &values.collect::<Vec<_>>()), "u1", names)
}

/// Creates a table column of 64-bit numbers for Python, with -1 for `None`.
pub(crate) fn number_column<'py>(
    py: Python<'py>,
    name: &'static str,
    values: impl Iterator<Item = Option<u32>>,
) -> NumpyColumn<'py> {
    let bytes: Vec<u8> = values.flat_map(|value| value.map_or(-1, i64::from).to_le_bytes()).collect();
    (name, PyBytes::new(py, &bytes), "<i8", Vec::new())
}

/// Kinds of flash pages with their names. The index of a kind is its code in the table of pages that Python receives.
/// Code 0 is a page without content.
pub(crate) const PAGE_KINDS_BY_CODE: [(&str, Option<PageKind>); 9] = [
    ("none", None),
    (PageKind::Data.name(), Some(PageKind::Data)),
    (PageKind::Translation.name(), Some(PageKind::Translation)),
    (PageKind::Delta.name(), Some(PageKind::Delta)),
    (PageKind::Chunk.name(), Some(PageKind::Chunk)),
    (PageKind::RemapLog.name(), Some(PageKind::RemapLog)),
    (PageKind::Validity.name(), Some(PageKind::Validity)),
    (PageKind::BlockHead.name(), Some(PageKind::BlockHead)),
    (PageKind::BlockTail.name(), Some(PageKind::BlockTail)),
];

/// Returns the code of `value`: its index in `codes`.
///
/// # Panics
/// If `codes` lacks the value.
pub(crate) fn code_of<T: PartialEq>(codes: &[(&str, T)], value: &T) -> u8 {
    codes.iter().position(|(_, each)| each == value).expect("every value has a code") as u8
}

/// Returns the names of all `codes`, in the order of the codes.
pub(crate) fn names_of_codes<T>(codes: &[(&'static str, T)]) -> Vec<&'static str> {
    codes.iter().map(|&(name, _)| name).collect()
}
