//! `docs/FORMAT.md` is true: an image is read by the offsets of that page alone, without the code that wrote it.

use crate::image_support;

use image_support::{Op, PROCESS, Script, page_of, perform, specification};
use wearwell_serve::image::{Backing as _, Image, ImageFile, create_on};

/// CRC-32C, bit by bit.
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

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

fn sealed(record: &[u8], salt: u64, address: u64) -> bool {
    u32_at(record, 0) == crc32c(&[&salt.to_le_bytes(), &address.to_le_bytes(), &record[4..64]])
}

#[test]
fn the_checksum_is_the_standard_one() {
    assert_eq!(crc32c(&[b"123456789"]), 0xe306_9283, "the check value of CRC-32C");
}

#[test]
fn an_image_reads_as_the_document_says() {
    let mut files = image_support::MemoryFiles::default();
    let superblock = specification("page-map", 1024).superblock(0x1234_5678_9abc_def0).expect("it fits");
    create_on(&mut files, &superblock).expect("memory takes everything");
    let mut image = Image::open_on(files, PROCESS).expect("a new image");
    let mut script = Script::new(2, 200);
    for _ in 0..1500 {
        perform(&mut image.device, script.draw()).expect("there is room");
    }
    let written = (77, (78, 4711));
    perform(&mut image.device, Op::Write(written.0, written.1)).expect("there is room");
    perform(&mut image.device, Op::Trim(78, 1)).expect("there is room");
    image_support::settle(&mut image.device);
    let files = image.into_backing();

    let head = files.bytes(ImageFile::Superblock);
    assert_eq!((&head[..8], u32_at(head, 8)), (b"WEARWELL".as_slice(), 1));
    assert_eq!(u32_at(head, 12), crc32c(&[&head[16..]]));
    assert_eq!(u32_at(head, 16) as usize, head.len() - 4096);
    let logical_pages = u64::from(u32_at(head, 20));
    let counts: Vec<u64> = (0..8).map(|k| u64::from(u32_at(head, 24 + 4 * k))).collect();
    let [channels, dies, planes, blocks_per_plane, pages_per_block, page_bytes, spare_bytes, superblock] =
        counts[..]
    else {
        unreachable!("eight counts")
    };
    let (nvram_words, salt) = (u64_at(head, 56), u64_at(head, 64));
    assert_eq!((logical_pages, salt), (200, 0x1234_5678_9abc_def0));
    assert_eq!(&head[72..81], b"page-map\0");
    assert!(std::str::from_utf8(&head[4096..]).expect("UTF-8").contains("[device]"));

    let blocks = channels * dies * planes / superblock * blocks_per_plane;
    let block_pages = superblock * pages_per_block;
    let pages = blocks * block_pages;
    let oob_at = (blocks * 64).next_multiple_of(4096);
    let spare_at = oob_at + (pages * 64).next_multiple_of(4096);
    let data_at = spare_at + (pages * spare_bytes.next_multiple_of(64)).next_multiple_of(4096);
    let flash = files.bytes(ImageFile::Flash);
    assert_eq!(flash.len() as u64, data_at + pages * page_bytes);

    let (mut newest, mut programmed, mut erases) = (None, 0, 0);
    for block in 0..blocks {
        let record = &flash[block as usize * 64..][..64];
        assert!(sealed(record, salt, block * 64), "block {block}");
        assert_eq!((record[4], u64::from(u32_at(record, 8))), (0, block), "good, and itself");
        let epoch = u32_at(record, 12);
        erases += epoch;
        for page in block * block_pages..(block + 1) * block_pages {
            let at = oob_at + page * 64;
            let oob = &flash[at as usize..][..64];
            if oob.iter().all(|&byte| byte == 0) {
                continue;
            }
            assert!(sealed(oob, salt, at), "page {page}");
            assert_eq!(
                (oob[4], oob[5], u64::from(u32_at(oob, 12))),
                (1, 0, page),
                "programmed, data, itself"
            );
            assert!(u32_at(oob, 8) <= epoch);
            if u32_at(oob, 8) < epoch {
                continue;
            }
            programmed += 1;
            let data = &flash[(data_at + page * page_bytes) as usize..][..page_bytes as usize];
            let address = page << 32 | u64::from(epoch);
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

    let nvram = files.bytes(ImageFile::Nvram);
    assert_eq!(nvram.len() as u64, nvram_words * 16);
    let word = |index: u64| {
        let record = &nvram[index as usize * 16..][..16];
        let crc = crc32c(&[&salt.to_le_bytes(), &index.to_le_bytes(), &record[..8]]);
        assert_eq!((u32_at(record, 8), u32_at(record, 12)), (crc, !crc), "word {index}");
        u64_at(record, 0)
    };
    let map = nvram_words - logical_pages;
    assert_eq!(word(map + written.0), place + 1, "the map names the place");
    assert_eq!(word(map + 78), 0, "a trimmed page has none");

    let session = files.bytes(ImageFile::Session);
    assert!(sealed(session, salt, 0));
    assert_eq!(
        (session.len(), session[4], session[5], u64_at(session, 8)),
        (64, 0, 0, 0),
        "in use, process, never unclean"
    );
    assert_eq!(files.len(ImageFile::Journal).expect("memory answers"), 0);
}

#[test]
fn the_journal_of_a_host_session_reads_as_the_document_says() {
    let mut files = image_support::MemoryFiles::default();
    let superblock = specification("page-map", 1024).superblock(99).expect("it fits");
    create_on(&mut files, &superblock).expect("memory takes everything");
    let mut image = Image::open_on(files, image_support::HOST).expect("a new image");
    for page in 0..3 {
        perform(&mut image.device, Op::Write(page, (page + 1, 5))).expect("there is room");
    }
    perform(&mut image.device, Op::Flush).expect("there is room");
    let files = image.into_backing();
    let journal = files.bytes(ImageFile::Journal);
    assert!(sealed(&journal[..64], 99, 1));
    assert_eq!((u64_at(journal, 8), u64_at(journal, 16)), (3, 3), "three words, three programs");
    let entries = &journal[64..64 + 3 * 16];
    assert_eq!(u32_at(journal, 24), crc32c(&[&99u64.to_le_bytes(), &0u64.to_le_bytes(), entries]));
    let indices: Vec<u64> = (0..3).map(|k| u64_at(entries, 16 * k)).collect();
    assert_eq!(indices, [0, 1, 2], "the map of page-map is all of its NVRAM");
}
