//! Image records: whatever lies in a superblock, an OOB slot, a block record, a word, a session or a journal decodes to
//! something or to nothing, and what decodes encodes to the same bytes.

#![no_main]

use libfuzzer_sys::fuzz_target;
use wearwell::address::{BlockId, Ppn};
use wearwell::nand::Geometry;
use wearwell_serve::image::layout::{Journal, Layout, OobSlot, Session, Superblock};

/// A small device, whose records the rest of the input is taken for.
fn layout() -> Layout {
    let geometry = Geometry {
        channels: 1,
        dies_per_channel: 1,
        planes_per_die: 1,
        blocks_per_plane: 8,
        pages_per_block: 4,
        page_bytes: 512,
        spare_bytes: 64,
        superblock_planes: 1,
    };
    Layout::new(&Superblock {
        geometry,
        logical_pages: 16,
        nvram_words: 16,
        durability: Default::default(),
        salt: 7,
        design: "page-map".into(),
        config: String::new(),
    })
}

/// The record with the checksum that it needs to be looked at further: a fuzzer does not guess checksums.
fn sealed(mut record: [u8; 64], salt: u64, address: u64) -> [u8; 64] {
    let seed = crc32c::crc32c_append(crc32c::crc32c(&salt.to_le_bytes()), &address.to_le_bytes());
    let crc = crc32c::crc32c_append(seed, &record[4..]);
    record[..4].copy_from_slice(&crc.to_le_bytes());
    record
}

fuzz_target!(|data: &[u8]| {
    let mut bytes = data.to_vec();
    if bytes.len() >= 16 && bytes[0] & 1 == 1 {
        bytes[..8].copy_from_slice(b"WEARWELL");
        bytes[8..12].copy_from_slice(&1u32.to_le_bytes());
        let crc = crc32c::crc32c(&bytes[16..]);
        bytes[12..16].copy_from_slice(&crc.to_le_bytes());
    }
    if let Ok(superblock) = Superblock::decode(&bytes) {
        let _ = Layout::new(&superblock).flash_bytes();
        assert_eq!(Superblock::decode(&superblock.encode()).as_ref(), Ok(&superblock));
    }
    let _ = Journal::decode(data, 7);
    let (Some(record), layout) = (data.first_chunk::<64>(), layout()) else { return };
    let (block, page) = (BlockId(u32::from(record[0]) % 8), Ppn(u32::from(record[1]) % 32));
    for record in [*record, sealed(*record, 7, layout.oob_at(page))] {
        if let OobSlot::Record(oob) = layout.decode_oob(page, &record) {
            let again = layout.encode_oob(page, &oob);
            assert_eq!(layout.decode_oob(page, &again), OobSlot::Record(oob));
        }
    }
    for record in [*record, sealed(*record, 7, layout.block_at(block))] {
        if let Some(found) = layout.decode_block(block, &record) {
            assert_eq!(layout.decode_block(block, &layout.encode_block(block, found)), Some(found));
        }
    }
    if let Some(session) = Session::decode(&sealed(*record, 7, 0), 7) {
        assert_eq!(Session::decode(&session.encode(7), 7), Some(session));
    }
    let word: &[u8; 16] = record.first_chunk().expect("a record is longer");
    if let Some(value) = layout.decode_word(u64::from(record[2]), word) {
        assert_eq!(layout.encode_word(u64::from(record[2]), value), *word);
    }
});
