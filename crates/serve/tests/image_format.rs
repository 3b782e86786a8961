//! Test that `docs/FORMAT.md` is true: it reads an image by the offsets in that document alone, without the code that
//! wrote the image.

use image_support::{
    Op, PROCESS_DURABILITY, RandomHostOperations, files_of, page_of, perform, specification,
};
use wearwell_serve::image::{Image, ImageFile, create_on};

use crate::image_support;

/// Salt that seeds all checksums of the image that is read.
const IMAGE_CHECKSUM_SALT: u64 = 0x1234_5678_9abc_def0;

/// Computes the CRC-32C of the concatenation of `parts`, bit by bit.
fn crc32c(parts: &[&[u8]]) -> u32 {
    let mut crc = !0u32;
    for byte in parts.iter().flat_map(|part| part.iter()) {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = if crc & 1 == 1 { crc >> 1 ^ 0x82f6_3b78 } else { crc >> 1 };
        }
    }
    !crc
}

/// Reads the little-endian number of 4 bytes at `at`.
fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

/// Reads the little-endian number of 8 bytes at `at`.
fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

/// Whether a record of 64 bytes begins with its correct checksum.
fn has_valid_checksum(record: &[u8], salt: u64, address: u64) -> bool {
    u32_at(record, 0) == crc32c(&[&salt.to_le_bytes(), &address.to_le_bytes(), &record[4..64]])
}

#[test]
fn image_checksums_are_crc_32c() {
    assert_eq!(crc32c(&[b"123456789"]), 0xe306_9283, "the check value of CRC-32C");
}

#[test]
fn image_files_have_the_layout_of_the_format_document() {
    let mut files = image_support::MemoryFiles::default();
    let image_header =
        specification("page-map", 1024).build_image_header(IMAGE_CHECKSUM_SALT).expect("it fits");
    create_on(&mut files, &image_header).expect("memory takes everything");
    let mut image = Image::open_on(files, PROCESS_DURABILITY).expect("a new image");
    let mut script = RandomHostOperations::new(2, 200);
    for _ in 0..1500 {
        perform(&mut image.device, script.draw()).expect("there is room");
    }
    let written = (77, (78, 4711));
    perform(&mut image.device, Op::Write(written.0, written.1)).expect("there is room");
    perform(&mut image.device, Op::Trim(78, 1)).expect("there is room");
    image_support::execute_deferred_writes(&mut image.device);
    let files = files_of(image);

    let head = files.bytes(ImageFile::ImageHeader);
    assert_eq!((&head[..8], u32_at(head, 8)), (b"WEARWELL".as_slice(), 2));
    assert_eq!(u32_at(head, 12), crc32c(&[&head[8..12], &head[16..]]));
    assert_eq!(u32_at(head, 16) as usize, head.len() - 4096);
    let logical_pages = u64::from(u32_at(head, 20));
    let counts: Vec<u64> = (0..8).map(|k| u64::from(u32_at(head, 24 + 4 * k))).collect();
    let [channels, dies, planes, blocks_per_plane, pages_per_block, page_bytes, spare_bytes, superblock] =
        counts[..]
    else {
        unreachable!("eight counts")
    };
    let (nvram_words, salt) = (u64_at(head, 56), u64_at(head, 64));
    assert_eq!((logical_pages, salt), (200, IMAGE_CHECKSUM_SALT));
    assert_eq!(&head[72..81], b"page-map\0");
    assert!(std::str::from_utf8(&head[4096..]).expect("UTF-8").contains("[device]"));

    let blocks = channels * dies * planes / superblock * blocks_per_plane;
    let block_pages = superblock * pages_per_block;
    let pages = blocks * block_pages;
    let device_state_words = nvram_words + blocks;
    let oob_at = (blocks * 64).next_multiple_of(4096);
    let spare_at = oob_at + (pages * 64).next_multiple_of(4096);
    let data_at = spare_at + (pages * spare_bytes.next_multiple_of(64)).next_multiple_of(4096);
    let flash = files.bytes(ImageFile::Flash);
    assert_eq!(flash.len() as u64, data_at + pages * page_bytes);

    let session = files.bytes(ImageFile::Session);
    assert!(has_valid_checksum(session, salt, 0));
    assert_eq!(
        (session.len(), session[4], session[5], u64_at(session, 8)),
        (64, 0, 0, 0),
        "in use, process, never unclean"
    );
    assert_ne!(u64_at(session, 48), 0, "the session has a number");
    assert_ne!(u64_at(session, 56), 0, "so has that of the creation");

    let nvram = files.bytes(ImageFile::Nvram);
    let sectors = device_state_words.div_ceil(61);
    assert_eq!(nvram.len() as u64, sectors * 512);
    let journal = files.bytes(ImageFile::Journal);
    let longest = 64 + device_state_words.min((1 << 14) + (1 << 11)) * 16;
    let area = (2 * longest).max(sectors * 512 / 2).next_multiple_of(4096);
    assert_eq!(journal.len() as u64, 2 * area);

    let (state, last_number) = read_state(nvram, journal, salt, device_state_words);

    let (mut newest, mut programmed, mut erases) = (None, 0, 0);
    for block in 0..blocks {
        let word = state[(nvram_words + block) as usize];
        let (block_erase_count, count, health) = (word as u32, word >> 32 & 0xff_ffff, word >> 56);
        assert!(health == 0 && count <= block_pages, "good");
        erases += block_erase_count;
        for page in block * block_pages..block * block_pages + count {
            let at = oob_at + page * 64;
            let oob = &flash[at as usize..][..64];
            assert!(has_valid_checksum(oob, salt, at), "page {page}");
            assert_eq!(
                (oob[4], oob[5], u64::from(u32_at(oob, 12))),
                (1, 0, page),
                "programmed, data, itself"
            );
            assert_eq!(u32_at(oob, 8), block_erase_count);
            assert!(u64_at(oob, 56) <= last_number);
            programmed += 1;
            let data = &flash[(data_at + page * page_bytes) as usize..][..page_bytes as usize];
            let address = page << 32 | u64::from(block_erase_count);
            assert_eq!(u16::from_le_bytes([oob[6], oob[7]]), 0, "the spare area is not used");
            assert_eq!(u32_at(oob, 20), crc32c(&[&salt.to_le_bytes(), &address.to_le_bytes(), data]));
            if u64::from(u32_at(oob, 16)) == written.0 {
                newest = newest.max(Some((u64_at(oob, 24), page, data.to_vec())));
            }
        }
    }
    assert!(programmed > 200 && erases > 50, "{programmed} pages, {erases} erases");
    let (_, place, data) = newest.expect("it was written");
    assert_eq!(data, page_of(written.1, page_bytes as usize));
    let map = (nvram_words - logical_pages) as usize;
    assert_eq!(state[map + written.0 as usize], place + 1, "the map names the place");
    assert_eq!(state[map + 78], 0, "a trimmed page has none");

    let metadata = [head, session, nvram, journal, &flash[oob_at as usize..spare_at as usize]];
    compare_copies(files.bytes(ImageFile::Mirror), metadata, oob_at);
}

/// Compares the mirror file with the files that it copies: image header, session record, NVRAM, journal, and the
/// metadata of the flash.
fn compare_copies(mirror: &[u8], [head, session, nvram, journal, oob]: [&[u8]; 5], oob_at: u64) {
    let session_copy = (head.len() as u64).next_multiple_of(4096);
    let nvram_copy = session_copy + 4096;
    let journal_copy = nvram_copy + (nvram.len() as u64).next_multiple_of(4096);
    let oob_copy = journal_copy + journal.len() as u64 + oob_at;
    let copies =
        [(0, head), (session_copy, session), (nvram_copy, nvram), (journal_copy, journal), (oob_copy, oob)];
    for (at, bytes) in copies {
        assert!(mirror[at as usize..][..bytes.len()] == *bytes, "the copy at {at}");
    }
}

/// Reads the state words and the number of the last journal record: the sectors of `nvram`, with the records of both
/// journal areas applied in order.
fn read_state(nvram: &[u8], journal: &[u8], salt: u64, device_state_words: u64) -> (Vec<u64>, u64) {
    let area = journal.len() as u64 / 2;
    let mut records = read_records(&journal[..area as usize], 0, salt);
    records.extend(read_records(&journal[area as usize..], area, salt));
    records.sort_by_key(|record| record.number);
    let last = records.last().expect("there are records");
    assert!(last.generation > 2 && records[0].generation + 1 == last.generation, "the journal turned");
    assert!(records.is_sorted_by(|one, next| one.number + 1 == next.number), "no number is missing");
    let mut state = Vec::new();
    for (index, sector) in nvram.chunks_exact(512).enumerate() {
        let crc = crc32c(&[&salt.to_le_bytes(), &(index as u64).to_le_bytes(), &sector[4..]]);
        assert_eq!((u32_at(sector, 0), u32_at(sector, 4)), (crc, 0), "sector {index}");
        assert!(u64_at(sector, 8) + 1 >= last.generation && u64_at(sector, 16) <= last.number);
        state.extend((0..61).map(|k| u64_at(sector, 24 + 8 * k)));
    }
    for &(index, word) in records.iter().flat_map(|record| &record.word_changes) {
        assert!(index < device_state_words);
        state[index as usize] = word;
    }
    (state, last.number)
}

/// A journal record as read from the file.
struct JournalRecord {
    /// Generation of the journal in which the record was written.
    generation: u64,
    /// Number of the record.
    number: u64,
    /// Number of the newest record that was on the disk when this one was written.
    synced_record_number: u64,
    /// Index and new value of each changed word of NVRAM or block state.
    word_changes: Vec<(u64, u64)>,
}

/// Reads the records of the journal area that begins at byte `base` of the journal.
fn read_records(area: &[u8], base: u64, salt: u64) -> Vec<JournalRecord> {
    let (mut records, mut at) = (Vec::<JournalRecord>::new(), 0);
    while at + 64 <= area.len() {
        let count = u64_at(area, at + 8) as usize;
        let Some(bytes) = count.checked_mul(16).and_then(|len| area.get(at..at + 64 + len)) else { break };
        let address = base + at as u64;
        if u32_at(bytes, 0) != crc32c(&[&salt.to_le_bytes(), &address.to_le_bytes(), &bytes[4..]]) {
            break;
        }
        let word_changes =
            (0..count).map(|k| (u64_at(bytes, 64 + 16 * k), u64_at(bytes, 72 + 16 * k))).collect();
        let [generation, number, synced_record_number] = [16, 24, 32].map(|at| u64_at(bytes, at));
        if records.last().is_some_and(|last| (last.generation, last.number + 1) != (generation, number)) {
            break;
        }
        records.push(JournalRecord { generation, number, synced_record_number, word_changes });
        at += bytes.len().next_multiple_of(64);
    }
    records
}

#[test]
fn journal_records_of_a_host_session_have_the_layout_of_the_format_document() {
    let mut files = image_support::MemoryFiles::default();
    let image_header = specification("page-map", 1024).build_image_header(99).expect("it fits");
    create_on(&mut files, &image_header).expect("memory takes everything");
    let mut image = Image::open_on(files, image_support::HOST_DURABILITY).expect("a new image");
    for page in 0..3 {
        perform(&mut image.device, Op::Write(page, (page + 1, 5))).expect("there is room");
    }
    perform(&mut image.device, Op::Flush).expect("there is room");
    let files = files_of(image);
    let records = read_records(files.bytes(ImageFile::Journal), 0, 99);
    let [first, flushed] = &records[..] else { panic!("{} records", records.len()) };
    assert_eq!((first.number, first.word_changes.len()), (0, 0), "that of the creation");
    assert_eq!((flushed.generation, flushed.number, flushed.synced_record_number), (0, 1, 1));
    // The map of page-map is all of its NVRAM, one word per logical page; three pages went to two blocks.
    let (map, blocks): (Vec<_>, Vec<_>) = flushed.word_changes.iter().partition(|&&(index, _)| index < 200);
    assert!(map.iter().map(|&(index, _)| index).eq(0..3));
    let programmed: Vec<u64> = blocks.iter().map(|&(_, word)| word >> 32).collect();
    assert_eq!(programmed, [2, 1], "{blocks:?}");
}
