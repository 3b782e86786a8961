//! Tests that no input makes a trace reader panic, run endlessly, or deliver a request outside the limits.

use fixtures::{fixtures, read_all};
use proptest::prelude::*;
use wearwell_trace::{
    AssumedOp, Format, NativeWriter, Op, OpenOptions, PAGE_BYTES, REQUEST_MAX_BYTES, copy_trace, open_stream,
};

use crate::fixtures;

/// Reads a trace to its end in one format, and checks the properties of requests on which consumers rely.
fn read_as(format: Option<Format>, bytes: &[u8], skips_bad_lines: bool) {
    let assumed_op = (format == Some(Format::OracleGeneral)).then_some(AssumedOp::Writes);
    let options = OpenOptions { format, skips_bad_lines, assumed_op, ..OpenOptions::default() };
    let (requests, _) = read_all(bytes, &options);
    for request in requests {
        let pages = request.pages();
        assert!(request.content.is_empty() || request.content.len() as u64 == pages.end - pages.start);
        assert!(request.offset_bytes <= 1 << 62 && pages.end <= (1 << 62) / PAGE_BYTES + (1 << 32) + 1);
        match request.op {
            Op::Read | Op::Write => assert!(request.len_bytes <= REQUEST_MAX_BYTES),
            Op::Remap(_) => {
                assert!(
                    request.len_bytes <= REQUEST_MAX_BYTES && request.remap_source_offset_bytes <= 1 << 62
                );
                let parts = request.offset_bytes | request.len_bytes | request.remap_source_offset_bytes;
                assert_eq!(parts % PAGE_BYTES, 0);
            }
            Op::Flush | Op::PhaseMarker => assert_eq!(request.len_bytes, 0),
            Op::Trim | Op::Zero => assert!(request.len_bytes <= 1 << 44),
        }
    }
}

/// Reads the bytes as a trace of each format and with the format detected, with bad lines refused and with bad lines
/// skipped.
fn read_in_every_format_with_and_without_skipping(bytes: &[u8]) {
    for format in Format::ALL.into_iter().map(Some).chain([None]) {
        read_as(format, bytes, false);
        read_as(format, bytes, true);
    }
}

/// Returns a copy of fixture number `index` in the native format.
fn native_copy_of_fixture(index: usize) -> Vec<u8> {
    let fixture = &fixtures()[index];
    let mut reader = open_stream(std::io::Cursor::new(fixture.bytes.clone()), "f", &fixture.options).unwrap();
    let mut file = Vec::new();
    copy_trace(reader.as_mut(), &mut NativeWriter::new(&mut file, "p").unwrap()).unwrap();
    file
}

/// Generates a fixture file, or its copy in the native format, with some bytes changed, removed or repeated.
fn mutated_fixture() -> impl Strategy<Value = Vec<u8>> {
    let edits = prop::collection::vec((any::<prop::sample::Index>(), 0..4_u8, any::<u8>()), 1..8);
    (0..fixtures().len(), any::<bool>(), edits).prop_map(|(index, as_native, edits)| {
        let mut bytes =
            if as_native { native_copy_of_fixture(index) } else { fixtures()[index].bytes.clone() };
        for (place, kind, value) in edits {
            let at = place.index(bytes.len().max(1)).min(bytes.len().saturating_sub(1));
            match kind {
                0 if !bytes.is_empty() => bytes[at] = value,
                1 => bytes.truncate(at + 1),
                2 => bytes.extend_from_within(at..),
                _ => bytes.insert(at, b"0123456789,. \t\n:+-"[value as usize % 18]),
            }
        }
        bytes
    })
}

proptest! {
    #[test]
    fn random_bytes_as_a_trace_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
        read_in_every_format_with_and_without_skipping(&bytes);
    }

    #[test]
    fn random_trace_lines_of_plausible_characters_never_panic(text in "[0-9RWDwrd ,.:+\t\n-]{0,300}") {
        read_in_every_format_with_and_without_skipping(text.as_bytes());
    }

    #[test]
    fn mutated_trace_fixtures_never_panic(bytes in mutated_fixture()) {
        read_in_every_format_with_and_without_skipping(&bytes);
    }
}

#[test]
fn random_bytes_after_every_magic_number_never_panic() {
    let magics: [&[u8]; 8] = [
        b"\x1f\x8b\x08",
        b"\x28\xb5\x2f\xfd",
        b"\xfd7zXZ\0",
        b"\x89WWT\r\n\x1a\n",
        b"\x25\x60\x95\x13",
        b"\x07\x74\x61\x65",
        b"fio version 2 iolog\n",
        b"# blkcap v1 page=4096\n",
    ];
    for magic in magics {
        for seed in 0..200_u64 {
            let noise = (0..100_u64).map(|i| wearwell::data::mix_bits(seed << 32 | i) as u8);
            let bytes: Vec<u8> = magic.iter().copied().chain(noise).collect();
            read_in_every_format_with_and_without_skipping(&bytes);
        }
    }
}

/// The seed inputs of the fuzz targets, and inputs that fuzzing has added to them, are read in every format.
#[test]
fn the_seed_inputs_of_the_fuzz_targets_never_panic() {
    let corpus = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus");
    let mut count = 0;
    for target in ["readers", "native"] {
        for file in std::fs::read_dir(corpus.join(target)).unwrap() {
            let input = std::fs::read(file.unwrap().path()).unwrap();
            read_in_every_format_with_and_without_skipping(&input[1..]);
            count += 1;
        }
    }
    assert!(count >= 20, "only {count} seeds found");
}
