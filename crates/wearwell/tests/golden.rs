//! Exact flash operations of every design on one small workload.
//!
//! A change of a number is a change of behaviour: it belongs in the commit message that makes it, with its reason. The
//! failing test prints the whole table as it is now. A demand-paged design exports a few pages less of the same world,
//! so its operations fall on other addresses than those of the designs with a flat map.

mod common;

use common::{BUFFERS, DesignUnderTest, Mix, Oracle, Random, designs, device, full_medium, worlds};
use wearwell::timing::Cause;

/// Programs for host, GC, wear, translation; reads for host, GC, wear, translation, content; erases for GC, wear.
type Row = (&'static str, [u64; 4], [u64; 5], [u64; 2]);

#[rustfmt::skip]
const EXPECTED: &[Row] = &[
    ("page-map greedy", [3367, 1964, 0, 0], [1437, 1964, 0, 0, 0], [297, 0]),
    ("page-map cost-benefit", [3367, 2012, 0, 0], [1437, 2012, 0, 0, 0], [300, 0]),
    ("page-map random", [3367, 6108, 0, 0], [1437, 6108, 0, 0, 0], [556, 0]),
    ("page-map 3-choices", [3367, 2935, 0, 0], [1437, 2935, 0, 0, 0], [358, 0]),
    ("page-map fifo", [3367, 2391, 0, 0], [1437, 2391, 0, 0, 0], [324, 0]),
    ("page-map wear-leveled", [3367, 1938, 8, 0], [1437, 1938, 8, 0, 0], [295, 1]),
    ("recyclable lru greedy", [3109, 1789, 0, 0], [1437, 1789, 0, 0, 0], [270, 0]),
    ("recyclable lru rc-gc", [3108, 1819, 0, 0], [1437, 1819, 0, 0, 259], [272, 0]),
    ("recyclable prob greedy", [3112, 1840, 0, 0], [1437, 1840, 0, 0, 255], [273, 0]),
    ("recyclable prob rc-gc", [3126, 1855, 0, 0], [1437, 1855, 0, 0, 0], [275, 0]),
    ("recyclable prob+fl greedy", [3102, 1801, 0, 0], [1437, 1801, 0, 0, 167], [270, 0]),
    ("recyclable prob+fl rc-gc", [3102, 1882, 0, 0], [1437, 1882, 0, 0, 431], [275, 0]),
    ("recyclable unbounded greedy", [942, 299, 0, 0], [1437, 299, 0, 0, 2425], [41, 0]),
    ("recyclable unbounded rc-gc", [935, 298, 0, 0], [1437, 298, 0, 0, 0], [41, 0]),
    ("dftl 1 entry", [3367, 2821, 0, 4626], [1469, 2821, 0, 10750, 0], [640, 0]),
    ("dftl 4 entries", [3367, 2577, 0, 2857], [1469, 2577, 0, 8942, 0], [514, 0]),
    ("dftl 16 entries", [3367, 2306, 0, 1375], [1469, 2306, 0, 7314, 0], [405, 0]),
    ("dftl all entries", [3367, 1695, 0, 0], [1469, 1695, 0, 0, 0], [280, 0]),
];

/// Five thousand operations on the world `slc`, no buffer.
fn row_of(design: &DesignUnderTest) -> Row {
    let world = worlds().into_iter().find(|world| world.name == "slc").expect("a known world");
    let mut device = device(&world, &design.parts, BUFFERS[0], full_medium(&world));
    let mut oracle = Oracle::of(&device, 60);
    let (sectors, page_sectors) = (oracle.sectors(), oracle.page_sectors());
    let mut mix = Mix { random: Random::new(42), sectors, page_sectors, contents: 60, switches: false };
    for _ in 0..5000 {
        oracle.apply(&mut device, mix.draw()).expect("there is room");
    }
    let stats = device.ftl().stats();
    let [programs, reads] = [stats.programs, stats.reads].map(|counts| {
        [Cause::Host, Cause::Gc, Cause::Wear, Cause::Translation, Cause::Content].map(|c| counts[c as usize])
    });
    assert_eq!(programs.iter().sum::<u64>(), stats.total_programs(), "no other cause programs");
    assert_eq!(reads.iter().sum::<u64>(), stats.total_reads(), "no other cause reads");
    let erases = [Cause::Gc, Cause::Wear].map(|c| stats.erases[c as usize]);
    assert_eq!(erases.iter().sum::<u64>(), stats.total_erases(), "no other cause erases");
    assert_eq!(programs[4], 0, "content mechanisms only read");
    (design.name, [programs[0], programs[1], programs[2], programs[3]], reads, erases)
}

#[test]
fn counts_are_what_they_were() {
    let rows: Vec<Row> = designs().iter().map(row_of).collect();
    if rows != EXPECTED {
        for row in &rows {
            println!("    {row:?},");
        }
    }
    assert!(rows == EXPECTED, "the counts changed; the table above is what they are now");
}
