//! Images. Records: whatever lies in an image header, an OOB slot, a block's word, a sector, a session or a journal
//! decodes to something or to nothing, and what decodes encodes to the same bytes. Whole images: one that is damaged in
//! some bytes is refused with a sentence, or every page reads as it was written or as an error.
//!
//! The highest bit of the first byte says which; of the second kind the rest is a list of damages.

#![no_main]

use std::io;
use std::panic;
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use libfuzzer_sys::fuzz_target;
use wearwell::address::Ppn;
use wearwell::nand::Geometry;
use wearwell_config::Config;
use wearwell_serve::LiveDevice;
use wearwell_serve::image::journal::JournalRecord;
use wearwell_serve::image::layout::{BlockRecord, ImageHeader, Layout, OobSlot, SessionRecord};
use wearwell_serve::image::{
    AuditVerdict, Backing, Durability, Image, ImageFile, ImageOpenOptions, ImageSpecification, audit_backing,
    create_on,
};

/// Returns the layout of a small device, as which the input is decoded.
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
    Layout::new(&ImageHeader {
        geometry,
        logical_pages: 16,
        nvram_words: 16,
        durability: Default::default(),
        checksum_salt: 7,
        design: "page-map".into(),
        config_toml: String::new(),
    })
}

/// Returns the record with a valid checksum, so that the decoder looks at the rest of it: a fuzzer does not guess
/// checksums.
fn sealed(mut record: [u8; 64], salt: u64, address: u64) -> [u8; 64] {
    let seed = crc32c::crc32c_append(crc32c::crc32c(&salt.to_le_bytes()), &address.to_le_bytes());
    let crc = crc32c::crc32c_append(seed, &record[4..]);
    record[..4].copy_from_slice(&crc.to_le_bytes());
    record
}

/// Returns the bytes with a valid checksum of a journal record at byte 0, or of sector 0, if a bit of the input selects
/// this.
fn sealed_bytes(data: &[u8]) -> Vec<u8> {
    let mut bytes = data.to_vec();
    if bytes.len() >= 64 && bytes[5] & 1 == 1 {
        bytes[4..8].fill(0);
        let seed = crc32c::crc32c_append(crc32c::crc32c(&7u64.to_le_bytes()), &0u64.to_le_bytes());
        let count = u64::from_le_bytes(bytes[8..16].try_into().expect("eight bytes")) as usize;
        let end = bytes.len().min(count.saturating_mul(16).saturating_add(64));
        let crc = crc32c::crc32c_append(seed, &bytes[4..end]);
        bytes[..4].copy_from_slice(&crc.to_le_bytes());
    }
    bytes
}

/// Gives an image header a valid magic number, version and checksum.
fn seal_image_header(bytes: &mut [u8]) {
    bytes[..8].copy_from_slice(b"WEARWELL");
    bytes[8..12].copy_from_slice(&2u32.to_le_bytes());
    let text = u32::from_le_bytes(bytes[16..20].try_into().expect("four bytes")).min(1 << 20) as usize;
    let end = bytes.len().min(4096 + text).max(16);
    let crc = crc32c::crc32c_append(crc32c::crc32c(&bytes[8..12]), &bytes[16..end]);
    bytes[12..16].copy_from_slice(&crc.to_le_bytes());
}

fn decode_records(data: &[u8]) {
    let mut bytes = data.to_vec();
    if bytes.len() >= 20 && bytes[0] & 1 == 1 {
        seal_image_header(&mut bytes);
    }
    if let Ok(image_header) = ImageHeader::decode(&bytes) {
        let _ = Layout::new(&image_header).flash_file_bytes();
        assert_eq!(ImageHeader::decode(&image_header.encode()).as_ref(), Ok(&image_header));
    }
    if let Some(record) = JournalRecord::decode(&layout(), 0, &sealed_bytes(data)) {
        assert_eq!(JournalRecord::decode(&layout(), 0, &record.encode(&layout(), 0)), Some(record));
    }
    if let Some(bytes) = sealed_bytes(data).first_chunk()
        && let Some(sector) = layout().decode_device_state_sector(0, bytes)
    {
        assert_eq!(
            layout().decode_device_state_sector(0, &layout().encode_device_state_sector(0, &sector)),
            Some(sector)
        );
    }
    let (Some(record), layout) = (data.first_chunk::<64>(), layout()) else { return };
    let page = Ppn(u32::from(record[1]) % 32);
    for record in [*record, sealed(*record, 7, layout.oob_record_offset(page))] {
        if let OobSlot::Record(oob) = layout.decode_oob_slot(page, &record) {
            let again = layout.encode_oob(page, &oob);
            assert_eq!(layout.decode_oob_slot(page, &again), OobSlot::Record(oob));
        }
    }
    let word = u64::from_le_bytes(*record.first_chunk().expect("a record is longer"));
    if let Some(block) = BlockRecord::decode(word) {
        assert_eq!(BlockRecord::decode(block.encode()), Some(block));
    }
    if let Some(session) = SessionRecord::decode(&sealed(*record, 7, 0), 7) {
        assert_eq!(SessionRecord::decode(&session.encode(7), 7), Some(session));
    }
}

const DESIGNS: [&str; 5] = ["page-map", "recyclable", "remap", "delta", "integrated"];
const PAGE_BYTES: usize = 512;
const PAGES: u64 = 64;

/// Files of an image in memory.
#[derive(Clone, Debug, Default)]
struct Memory([Vec<u8>; 6]);

impl Backing for Memory {
    fn read(&self, file: ImageFile, bytes: &mut [u8], offset: u64) -> io::Result<()> {
        let from = usize::try_from(offset).expect("an address of a small image");
        let found =
            self.0[file as usize].get(from..from + bytes.len()).ok_or(io::ErrorKind::UnexpectedEof)?;
        bytes.copy_from_slice(found);
        Ok(())
    }

    fn write(&mut self, file: ImageFile, bytes: &[u8], offset: u64) -> io::Result<()> {
        let (file, from) = (&mut self.0[file as usize], offset as usize);
        file.resize(file.len().max(from + bytes.len()), 0);
        file[from..from + bytes.len()].copy_from_slice(bytes);
        Ok(())
    }

    fn len(&self, file: ImageFile) -> io::Result<u64> {
        Ok(self.0[file as usize].len() as u64)
    }

    fn sync(&mut self, _: ImageFile) -> io::Result<()> {
        Ok(())
    }
}

/// Returns the content of page `lpn` in a version. Some pages have equal contents, and some differ in a few bytes.
fn content(lpn: u64, version: u64) -> [u8; PAGE_BYTES] {
    let mut bytes = [(lpn % 5) as u8 + 1; PAGE_BYTES];
    if !lpn.is_multiple_of(3) {
        bytes[..8].copy_from_slice(&(version << 32 | lpn).to_le_bytes());
    }
    bytes
}

fn final_content(lpn: u64) -> [u8; PAGE_BYTES] {
    if lpn % 8 == 7 { [0; PAGE_BYTES] } else { content(lpn, 5) }
}

fn write_all(device: &mut LiveDevice) -> wearwell::Result<()> {
    for (version, lpn) in (1..=5).flat_map(|version| (0..PAGES).map(move |lpn| (version, lpn))) {
        let bytes = content(lpn, version);
        device.write(lpn * PAGE_BYTES as u64, &bytes)?;
    }
    for lpn in (7..PAGES).step_by(8) {
        device.trim(lpn * PAGE_BYTES as u64, PAGE_BYTES as u64)?;
    }
    device.flush()
}

/// Makes an image in which every page was written several times and some were trimmed; it is flushed and not closed.
fn worked_on(design: &str, durability: Durability) -> Memory {
    let settings = [
        "device.channels=1",
        "device.dies_per_channel=1",
        "device.planes_per_die=1",
        "device.blocks_per_plane=16",
        "device.pages_per_block=8",
        "device.page_bytes=512",
        "device.spare_bytes=64",
        "device.logical_pages=64",
    ];
    let config =
        Config::from_text_and_settings(None, &settings.map(str::to_owned)).expect("the settings exist");
    let specification =
        ImageSpecification { design: design.to_owned(), config, size_bytes: None, durability };
    let mut files = Memory::default();
    create_on(&mut files, &specification.build_image_header(7).expect("it fits"))
        .expect("memory takes everything");
    let mut image = Image::open_on(files, ImageOpenOptions::default()).expect("a new image");
    write_all(&mut image.device).expect("there is room");
    image.into_backing()
}

/// Damage of one byte: file, position, bits to flip, and whether the record then gets a valid checksum.
#[derive(Clone, Copy)]
struct Damage {
    file: ImageFile,
    at: usize,
    mask: u8,
    is_sealed: bool,
}

impl Damage {
    fn of(bytes: &[u8; 5], files: &Memory, layout: &Layout) -> Option<Self> {
        let file = ImageFile::ALL[usize::from(bytes[0] % 6)];
        // The records of flash are much less than its data, and more can be wrong with them.
        let is_metadata = file == ImageFile::Flash && bytes[0] & 0x40 == 0;
        let length = if is_metadata {
            layout.bytes_before_spare_areas() as usize
        } else {
            files.0[file as usize].len()
        };
        let at = u32::from_le_bytes([bytes[1], bytes[2], bytes[3], 0]) as usize;
        (length > 0).then(|| Self {
            file,
            at: at % length,
            mask: bytes[4].max(1),
            is_sealed: bytes[0] & 0x80 != 0,
        })
    }

    fn apply(self, files: &mut Memory, layout: &Layout) {
        let bytes = &mut files.0[self.file as usize];
        bytes[self.at] ^= self.mask;
        let from = self.at / 64 * 64;
        match self.file {
            _ if !self.is_sealed => {}
            ImageFile::ImageHeader => seal_image_header(bytes),
            ImageFile::Session | ImageFile::Flash => {
                let record: &mut [u8; 64] =
                    (&mut bytes[from..from + 64]).try_into().expect("files end with a record");
                *record = sealed(*record, layout.checksum_salt, from as u64);
            }
            ImageFile::Nvram => {
                let sector: &mut [u8; 512] = (&mut bytes[self.at / 512 * 512..][..512])
                    .try_into()
                    .expect("the file ends with a sector");
                let address = (self.at / 512) as u64;
                let seed = crc32c::crc32c_append(
                    crc32c::crc32c(&layout.checksum_salt.to_le_bytes()),
                    &address.to_le_bytes(),
                );
                let crc = crc32c::crc32c_append(seed, &sector[4..]);
                sector[..4].copy_from_slice(&crc.to_le_bytes());
            }
            ImageFile::Journal | ImageFile::Mirror => {}
        }
    }
}

/// Replaces the fuzzer's panic hook, which would end at every panic. Opening an image turns a panic of the engine into
/// a refusal, which is a valid answer. Any other panic is printed and still ends the fuzzer.
fn allow_caught_panics() {
    static ONCE: Once = Once::new();
    let tell = |panic: &panic::PanicHookInfo<'_>| {
        if !IS_OPENING.load(Relaxed) {
            eprintln!("{panic}");
        }
    };
    ONCE.call_once(|| panic::set_hook(Box::new(tell)));
}

static IS_OPENING: AtomicBool = AtomicBool::new(false);

/// Opens a damaged image and checks what it returns. Damage with a valid checksum cannot be detected, and several
/// damages may hit both copies of the last journal record: in these cases only a panic counts as an error.
fn open_damaged(data: &[u8]) {
    allow_caught_panics();
    thread_local! {
        static IMAGES: Vec<Memory> = [Durability::Process, Durability::Host]
            .into_iter()
            .flat_map(|durability| DESIGNS.map(|design| worked_on(design, durability)))
            .collect();
    }
    let Some((&chosen, rest)) = data.split_first() else { return };
    let number = usize::from(chosen & 0x7f) % (2 * DESIGNS.len());
    let mut files = IMAGES.with(|images| images[number].clone());
    let image_header = ImageHeader::decode(&files.0[0]).expect("nothing is damaged yet");
    let layout = Layout::new(&image_header);
    let damages: Vec<Damage> =
        rest.as_chunks().0.iter().take(8).filter_map(|bytes| Damage::of(bytes, &files, &layout)).collect();
    damages.iter().for_each(|damage| damage.apply(&mut files, &layout));
    let is_honest = damages.iter().all(|damage| !damage.is_sealed);
    let is_exact = is_honest && damages.len() <= 1;
    IS_OPENING.store(true, Relaxed);
    let audited = audit_backing(files.clone());
    let opened = Image::open_on(files, ImageOpenOptions::default());
    IS_OPENING.store(false, Relaxed);
    match opened {
        Err(error) => {
            let sentence = error.to_string();
            assert!(sentence.len() > 20, "`{sentence}` is no sentence");
            assert!(
                !is_honest || !sentence.contains("contradict"),
                "a checksum should have told: {sentence}"
            );
        }
        Ok(mut image) => {
            let wrong = misread(&mut image.device, is_exact);
            let is_corrupt = audited.is_ok_and(|report| report.verdict == AuditVerdict::Corrupt);
            assert!(
                wrong == 0 || is_corrupt || !is_exact,
                "{wrong} pages are lost and the audit says nothing"
            );
        }
    }
}

/// Returns the number of pages that cannot be read. If `is_exact`, checks that every other page reads as it was
/// written.
fn misread(device: &mut LiveDevice, is_exact: bool) -> usize {
    let mut bytes = [0; PAGE_BYTES];
    let mut is_lost = |lpn: u64| {
        let read = device.read(lpn * PAGE_BYTES as u64, &mut bytes);
        assert!(
            read.is_err() || !is_exact || bytes == final_content(lpn),
            "page {lpn} is not what was written"
        );
        read.is_err()
    };
    (0..PAGES).filter(|&lpn| is_lost(lpn)).count()
}

fuzz_target!(|data: &[u8]| {
    if data.first().is_some_and(|first| first & 0x80 != 0) {
        open_damaged(data)
    } else {
        decode_records(data)
    }
});
