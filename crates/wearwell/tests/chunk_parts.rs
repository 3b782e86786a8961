//! Compression chunks without an engine: staging, packing, bytes on flash, the table of chunks.

use proptest::prelude::*;
use wearwell::address::{Lpn, Ppn};
use wearwell::content::chunk::{
    ChunkError, ChunkTable, HEADER_BYTES, MEMBERS, Member, Packed, Payload, Staging, Unit, decode, encode,
    pack,
};
use wearwell::content::{Content, Descriptor, Fingerprint};
use wearwell::lifetime::chunk_write_ratio;

const PAGE: u32 = 4096;

fn described(lpn: u32, compressed_bytes: u16) -> Member {
    let fingerprint = Fingerprint(lpn as u64 + 1);
    let descriptor = Descriptor { compressed_bytes, ..Descriptor::of(fingerprint) };
    Member { lpn: Lpn(lpn), fingerprint, payload: Payload::Descriptor(descriptor) }
}

fn stored(lpn: u32, bytes: &[u8]) -> Member {
    let content = Content::Bytes(bytes);
    Member { lpn: Lpn(lpn), fingerprint: content.fingerprint(), payload: content.into() }
}

/// A page of which the share `random` does not compress.
fn page(seed: u64, random: f64) -> Vec<u8> {
    let noise = (0..PAGE as u64).map(|k| wearwell::content::mix(seed << 20 | k) as u8);
    let random_bytes = (PAGE as f64 * random) as usize;
    noise.enumerate().map(|(k, byte)| if k < random_bytes { byte } else { 0 }).collect()
}

// Staging.

#[test]
fn members_wait_in_order_until_the_chunk_is_full() {
    let mut staging = Staging::default();
    assert!(staging.is_empty());
    for lpn in [7, 3, 9, 1] {
        assert!(!staging.is_full());
        assert!(!staging.push(described(lpn, 100)));
    }
    assert!(staging.is_full());
    let order: Vec<u32> = staging.take().iter().map(|member| member.lpn.0).collect();
    assert_eq!(order, [7, 3, 9, 1]);
    assert!(staging.is_empty());
}

/// I18: the second write of a page replaces the first, at its place, also in a full chunk.
#[test]
fn a_duplicate_address_replaces_the_pending_member() {
    let mut staging = Staging::default();
    for lpn in 0..MEMBERS as u32 {
        staging.push(described(lpn, 100));
    }
    let newer = Member { fingerprint: Fingerprint(99), ..described(1, 200) };
    assert!(staging.push(newer.clone()));
    assert_eq!(staging.len(), MEMBERS);
    assert_eq!(staging.get(Lpn(1)), Some(&newer));
    assert_eq!(staging.take()[1], newer);
}

#[test]
fn pending_members_are_read_and_trimmed() {
    let mut staging = Staging::default();
    staging.push(stored(4, &page(1, 0.5)));
    staging.push(stored(5, &page(2, 0.5)));
    let Some(Member { payload: Payload::Bytes(bytes), .. }) = staging.get(Lpn(4)) else {
        panic!("not found")
    };
    assert_eq!(bytes[..], page(1, 0.5)[..]);
    assert!(staging.remove(Lpn(4)).is_some());
    assert!(staging.get(Lpn(4)).is_none() && staging.remove(Lpn(4)).is_none());
    assert_eq!(staging.len(), 1);
}

#[test]
#[should_panic(expected = "the chunk is full")]
fn a_fifth_member_is_refused() {
    let mut staging = Staging::default();
    (0..=MEMBERS as u32).for_each(|lpn| {
        staging.push(described(lpn, 100));
    });
}

// Packing.

fn pages_of(packed: &Packed) -> Option<u32> {
    match packed {
        Packed::Raw => None,
        Packed::Chunk { pages, .. } => Some(*pages),
    }
}

/// I3: a chunk of descriptors takes the pages that the paper's formula says, raw where it says all of them.
#[test]
fn described_chunks_follow_the_formula() {
    for compressed in (0..=4096_u16).step_by(64) {
        let members: Vec<Member> = (0..4).map(|lpn| described(lpn, compressed)).collect();
        let pages = pages_of(&pack(&members, PAGE)).unwrap_or(4);
        let removed = 1.0 - compressed as f64 / 4096.0;
        assert!(
            (pages as f64 / 4.0 - chunk_write_ratio(removed, 4)).abs() < 1e-12,
            "{compressed} bytes each"
        );
    }
}

/// I16.
#[test]
fn what_does_not_save_a_page_stays_raw() {
    let pack_sizes = |sizes: &[u16]| {
        let members: Vec<Member> = sizes.iter().enumerate().map(|(k, &s)| described(k as u32, s)).collect();
        pages_of(&pack(&members, PAGE))
    };
    assert_eq!(pack_sizes(&[3072; 4]), Some(3), "exactly three pages");
    assert_eq!(pack_sizes(&[3072, 3072, 3072, 3073]), None, "a byte more");
    assert_eq!(pack_sizes(&[Descriptor::UNKNOWN; 4]), None, "what is not known does not compress");
    assert_eq!(pack_sizes(&[Descriptor::UNKNOWN, 100, 100, 100]), Some(2), "an unknown size is a page");
    assert_eq!(pack_sizes(&[]), None);
    let noise: Vec<Member> = (0..4).map(|lpn| stored(lpn, &page(lpn as u64, 1.0))).collect();
    assert_eq!(pack(&noise, PAGE), Packed::Raw);
}

/// I17.
#[test]
fn a_short_chunk_must_save_a_page_of_its_own() {
    let pages = |count: u32, size| {
        let members: Vec<Member> = (0..count).map(|lpn| described(lpn, size)).collect();
        pages_of(&pack(&members, PAGE))
    };
    assert_eq!(pages(1, 1), None, "one page cannot become less than one");
    assert_eq!(pages(2, 2048), Some(1));
    assert_eq!(pages(2, 2049), None);
    assert_eq!(pages(3, 2048), Some(2));
    assert_eq!(pages(3, 1000), Some(1));
}

#[test]
fn packed_bytes_are_encoded_and_fit_their_pages() {
    for (random, expected) in [(0.0, Some(1)), (0.2, Some(1)), (0.45, Some(2)), (0.7, Some(3)), (0.9, None)] {
        let members: Vec<Member> = (0..4).map(|lpn| stored(lpn, &page(lpn as u64, random))).collect();
        let packed = pack(&members, PAGE);
        assert_eq!(pages_of(&packed), expected, "{random} of it random");
        if let Packed::Chunk { pages, bytes } = packed {
            let mut on_flash = bytes.expect("bytes were packed");
            assert!(on_flash.len() <= (pages * PAGE) as usize);
            on_flash.resize((pages * PAGE) as usize, 0);
            let plain: Vec<u8> = (0..4).flat_map(|lpn| page(lpn, random)).collect();
            assert_eq!(decode(&on_flash, 4, PAGE), Ok(plain));
        }
    }
}

// Bytes on flash.

#[test]
fn damage_is_an_error() {
    let plain: Vec<Vec<u8>> = (0..4).map(|seed| page(seed, 0.3)).collect();
    let chunk = encode(plain.iter().map(Vec::as_slice));
    assert!(decode(&chunk, 4, PAGE).is_ok());
    assert_eq!(decode(&[], 4, PAGE), Err(ChunkError::Short));
    assert_eq!(decode(&chunk[..HEADER_BYTES - 1], 4, PAGE), Err(ChunkError::Short));
    assert_eq!(decode(&chunk[..chunk.len() - 1], 4, PAGE), Err(ChunkError::Short));
    assert_eq!(decode(&chunk, 3, PAGE), Err(ChunkError::Data), "another number of members");
    assert_eq!(decode(&chunk, 5, PAGE), Err(ChunkError::Data));
    let mut other_sum = chunk.clone();
    other_sum[4] ^= 1;
    assert_eq!(decode(&other_sum, 4, PAGE), Err(ChunkError::CheckSum));
    for bit in 0..8 * chunk.len() {
        let mut damaged = chunk.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        // Some bits mean the same either way (where in a run of zeros a match begins): what counts are the bytes.
        let decoded = decode(&damaged, 4, PAGE);
        assert!(decoded.is_err() || decoded == Ok(plain.concat()), "bit {bit} changed the pages unnoticed");
    }
}

proptest! {
    #[test]
    fn what_is_encoded_is_decoded(seeds in prop::collection::vec((0..1000_u64, 0.0..1.0_f64), 1..=4), padding in 0..5000_usize) {
        let pages: Vec<Vec<u8>> = seeds.iter().map(|&(seed, random)| page(seed, random)).collect();
        let mut chunk = encode(pages.iter().map(Vec::as_slice));
        chunk.resize(chunk.len() + padding, 0);
        prop_assert_eq!(decode(&chunk, pages.len(), PAGE), Ok(pages.concat()));
    }

    #[test]
    fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..600), length in 0..600_u32, members in 0..6_usize) {
        prop_assert!(decode(&bytes, members, 512).is_err());
        let mut plausible = bytes.clone();
        if let Some(header) = plausible.first_chunk_mut::<4>() {
            *header = length.to_le_bytes();
        }
        prop_assert!(decode(&plausible, members, 512).is_err());
    }
}

// The table.

fn members(first: u32, count: usize) -> Vec<Lpn> {
    (first..first + count as u32).map(Lpn).collect()
}

#[test]
fn units_are_numbered_above_the_physical_pages() {
    let mut table = ChunkTable::new(1000);
    let first = table.allocate(&[Ppn(5)], &members(0, 4)).unwrap();
    let second = table.allocate(&[Ppn(6), Ppn(8)], &members(4, 3)).unwrap();
    assert_eq!(table.unit(first, 0), Unit(1000));
    assert_eq!(table.unit(second, 2), Unit(1006));
    assert_eq!(table.locate(999), None, "a physical page");
    assert_eq!(table.locate(1006), Some((second, 2)));
    assert_eq!(table.pages(second), [Ppn(6), Ppn(8)]);
    assert_eq!(table.chunk_of(Ppn(8)), Some(second));
    assert_eq!(table.chunk_of(Ppn(7)), None);
    assert_eq!(table.member_count(second), 3);
    assert!(table.is_live(Unit(1006)) && !table.is_live(Unit(1007)) && !table.is_live(Unit(1008)));
    assert!(!table.is_live(Unit(5)), "a physical page is no member");
    table.check().unwrap();
}

/// I15: the pages of a chunk come back when the last member dies and not before.
#[test]
fn a_chunk_lives_as_long_as_one_member() {
    let mut table = ChunkTable::new(1000);
    let id = table.allocate(&[Ppn(5), Ppn(17)], &members(10, 4)).unwrap();
    for member in [1, 3, 0] {
        assert_eq!(table.drop_member(table.unit(id, member)), None);
        table.check().unwrap();
    }
    assert_eq!(table.live_members(id).collect::<Vec<_>>(), [(2, Lpn(12))], "what GC must keep");
    // I19: one member left, and a read of it still reads both pages and decompresses four members.
    assert_eq!((table.pages(id).len(), table.member_count(id)), (2, 4));
    let dead = table.drop_member(table.unit(id, 2)).expect("the last one");
    assert_eq!(dead.as_slice(), [Ppn(5), Ppn(17)]);
    assert!(table.is_empty() && table.chunk_of(Ppn(5)).is_none());
    table.check().unwrap();
}

#[test]
fn numbers_are_reused() {
    let mut table = ChunkTable::new(1000);
    let first = table.allocate(&[Ppn(1)], &members(0, 2)).unwrap();
    table.allocate(&[Ppn(2)], &members(2, 2)).unwrap();
    let ram = table.ram_bytes();
    table.drop_member(table.unit(first, 0));
    table.drop_member(table.unit(first, 1));
    assert_eq!(table.allocate(&[Ppn(1), Ppn(3)], &members(8, 4)), Some(first));
    assert_eq!(table.len(), 2);
    assert_eq!(table.ram_bytes(), ram);
    assert_eq!(ram.iter().map(|(_, bytes)| bytes).sum::<u64>(), 2 * (30 + 24));
    table.check().unwrap();
}

/// The number of all ones means "none" in a map.
#[test]
fn numbers_end_below_the_one_that_means_none() {
    let mut table = ChunkTable::new(u32::MAX - 4);
    let only = table.allocate(&[Ppn(1)], &members(0, 4)).unwrap();
    assert_eq!(table.unit(only, 3), Unit(u32::MAX - 1));
    assert_eq!(table.allocate(&[Ppn(2)], &members(4, 4)), None);
    table.check().unwrap();
    assert_eq!(table.chunk_of(Ppn(2)), None, "a refused chunk leaves nothing behind");
}

#[test]
fn a_moved_page_keeps_its_chunk() {
    let mut table = ChunkTable::new(1000);
    let id = table.allocate(&[Ppn(5), Ppn(17)], &members(0, 4)).unwrap();
    table.move_page(Ppn(17), Ppn(40));
    assert_eq!(table.pages(id), [Ppn(5), Ppn(40)]);
    assert_eq!((table.chunk_of(Ppn(17)), table.chunk_of(Ppn(40))), (None, Some(id)));
    table.check().unwrap();
}

#[test]
#[should_panic(expected = "dies twice")]
fn a_member_dies_once() {
    let mut table = ChunkTable::new(1000);
    let id = table.allocate(&[Ppn(5)], &members(0, 4)).unwrap();
    table.drop_member(table.unit(id, 0));
    table.drop_member(table.unit(id, 0));
}

#[test]
#[should_panic(expected = "belongs to two chunks")]
fn a_page_belongs_to_one_chunk() {
    let mut table = ChunkTable::new(1000);
    table.allocate(&[Ppn(5)], &members(0, 4));
    table.allocate(&[Ppn(5)], &members(4, 4));
}

#[test]
#[should_panic(expected = "saves at least one page")]
fn a_chunk_without_saving_is_refused() {
    ChunkTable::new(1000).allocate(&[Ppn(5), Ppn(6)], &members(0, 2));
}

#[derive(Clone, Debug)]
enum Step {
    Allocate { members: usize, pages: usize },
    Drop(usize),
    Move(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let allocate = (2..=MEMBERS, 1..MEMBERS)
        .prop_map(|(members, pages)| Step::Allocate { members, pages: pages.min(members - 1) });
    let step = prop_oneof![
        allocate,
        any::<usize>().prop_map(Step::Drop),
        any::<usize>().prop_map(Step::Drop),
        any::<usize>().prop_map(Step::Move)
    ];
    prop::collection::vec(step, 1..200)
}

/// A live member as the map would know it, and the chunk's pages.
#[derive(Clone, Debug)]
struct Known {
    unit: Unit,
    lpn: Lpn,
    chunk: usize,
}

proptest! {
    /// Against plain lists: units name what was put there, and pages come back exactly when the last member dies.
    #[test]
    fn the_table_agrees_with_plain_lists(steps in steps()) {
        let mut table = ChunkTable::new(1 << 20);
        let mut known: Vec<Known> = Vec::new();
        let mut places: Vec<Vec<Ppn>> = Vec::new();
        let mut next = 0;
        let mut fresh = || {
            next += 1;
            next
        };
        for step in steps {
            match step {
                Step::Allocate { members, pages } => {
                    let pages: Vec<Ppn> = (0..pages).map(|_| Ppn(fresh())).collect();
                    let lpns: Vec<Lpn> = (0..members).map(|_| Lpn(fresh())).collect();
                    let id = table.allocate(&pages, &lpns).unwrap();
                    places.push(pages);
                    let chunk = places.len() - 1;
                    known.extend(lpns.iter().enumerate().map(|(m, &lpn)| Known { unit: table.unit(id, m), lpn, chunk }));
                }
                Step::Drop(at) if !known.is_empty() => {
                    let gone = known.swap_remove(at % known.len());
                    let died = table.drop_member(gone.unit);
                    let is_last = known.iter().all(|other| other.chunk != gone.chunk);
                    prop_assert_eq!(died.map(|pages| pages.as_slice().to_vec()), is_last.then(|| places[gone.chunk].clone()));
                }
                Step::Move(at) if !known.is_empty() => {
                    let place = &mut places[known[at % known.len()].chunk];
                    let (from, to) = (place[at % place.len()], Ppn(fresh()));
                    let index = at % place.len();
                    place[index] = to;
                    table.move_page(from, to);
                }
                Step::Drop(_) | Step::Move(_) => {}
            }
            prop_assert_eq!(table.check(), Ok(()));
            for Known { unit, lpn, chunk } in &known {
                let (id, member) = table.locate(unit.0).unwrap();
                prop_assert_eq!(table.pages(id), &places[*chunk][..]);
                prop_assert!(table.live_members(id).any(|live| live == (member, *lpn)));
                prop_assert!(places[*chunk].iter().all(|&page| table.chunk_of(page) == Some(id)));
            }
        }
    }
}
