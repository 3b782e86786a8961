//! The simulated medium refuses what real flash refuses: misuse panics with a sentence, and failures that correct code
//! can meet are error values.

use wearwell::address::{BlockId, Lpn, Ppn};
use wearwell::data::{Content, ContentDescriptor, Fingerprint};
use wearwell::nand::{
    ConsecutiveCopies, CutOutcome, FaultInjectable, FaultProbabilities, FaultyNand, Geometry, Nand,
    NandError, Oob, PageKind, PowerCutNand, RecordedOp, RecordingNand, RetainedPageFields, SimNand,
    WearLimit, WornBlockFailure,
};

/// Block on which most of these tests operate.
const FIRST: BlockId = BlockId(0);

/// Returns a medium of four blocks of four pages.
fn medium() -> SimNand {
    let geometry = Geometry {
        channels: 1,
        dies_per_channel: 1,
        planes_per_die: 1,
        blocks_per_plane: 4,
        pages_per_block: 4,
        page_bytes: 512,
        spare_bytes: 16,
        superblock_planes: 1,
    };
    SimNand::new(geometry, RetainedPageFields::ALL)
}

/// Returns an OOB of this kind and owner, whose other fields are derived from the owner.
fn oob(kind: PageKind, owner: u32) -> Oob {
    Oob {
        kind,
        owner,
        sequence_number: 7 + owner as u64,
        first_write_sequence_number: 7 + owner as u64,
        fingerprint: Fingerprint(owner as u64),
    }
}

/// Programs a flash page with data of owner `ppn`.
fn program(nand: &mut impl Nand, ppn: u32) -> Result<(), NandError> {
    nand.program(Ppn(ppn), oob(PageKind::Data, ppn), Content::Bytes(&[ppn as u8; 512]))
}

/// Reads a flash page and returns its bytes.
fn read(nand: &mut impl Nand, ppn: u32) -> Result<Vec<u8>, NandError> {
    let mut bytes = vec![0; 512];
    nand.read(Ppn(ppn), &mut bytes).map(|_| bytes)
}

#[test]
fn a_programmed_page_reads_back_with_its_oob() {
    let mut nand = medium();
    program(&mut nand, 0).unwrap();
    let mut bytes = [9; 512];
    assert_eq!(nand.read(Ppn(0), &mut bytes), Ok(oob(PageKind::Data, 0)));
    assert_eq!(bytes, [0; 512]);
    assert_eq!((nand.oob_owner(Ppn(0)), nand.fingerprint(Ppn(0))), (0, Fingerprint(0)));
    assert_eq!(nand.programmed_pages(FIRST), 1);
}

#[test]
#[should_panic(expected = "program of 1 pages from 2: block 0 is Good and its next page is 1, not 2")]
fn the_medium_panics_at_a_program_out_of_order() {
    let mut nand = medium();
    program(&mut nand, 0).unwrap();
    let _ = program(&mut nand, 2);
}

#[test]
#[should_panic(expected = "its next page is 1, not 0")]
fn the_medium_panics_at_a_second_program_of_a_page() {
    let mut nand = medium();
    program(&mut nand, 0).unwrap();
    let _ = program(&mut nand, 0);
}

#[test]
#[should_panic(expected = "read of erased page 1: the FTL lost track of it")]
fn the_medium_panics_at_a_read_of_an_erased_page() {
    let mut nand = medium();
    program(&mut nand, 0).unwrap();
    let _ = read(&mut nand, 1);
}

#[test]
#[should_panic(expected = "read of erased page 0")]
fn the_medium_panics_at_a_read_after_an_erase() {
    let mut nand = medium();
    program(&mut nand, 0).unwrap();
    nand.erase(FIRST).unwrap();
    let _ = read(&mut nand, 0);
}

#[test]
#[should_panic(expected = "block 0 is Bad")]
fn the_medium_panics_at_a_program_of_a_bad_block() {
    let mut nand = medium();
    nand.mark_bad(FIRST);
    let _ = program(&mut nand, 0);
}

#[test]
#[should_panic(expected = "erase of block 0: Bad")]
fn the_medium_panics_at_an_erase_of_a_bad_block() {
    let mut nand = medium().with_factory_bad_blocks([FIRST]);
    let _ = nand.erase(FIRST);
}

/// A condemned block (a program in it failed) may not be programmed again.
#[test]
#[should_panic(expected = "block 0 is Condemned")]
fn the_medium_panics_at_a_program_of_a_condemned_block() {
    let mut nand = medium();
    nand.mark_program_failed(FIRST);
    let _ = program(&mut nand, 0);
}

/// A condemned block (a program in it failed) may not be erased.
#[test]
#[should_panic(expected = "erase of block 0: Condemned")]
fn the_medium_panics_at_an_erase_of_a_condemned_block() {
    let mut nand = medium();
    nand.mark_program_failed(FIRST);
    let _ = nand.erase(FIRST);
}

/// Data can be read from a condemned block (a program in it failed), until the FTL has moved it and marks the block as
/// bad.
#[test]
fn a_condemned_block_is_readable_until_it_is_marked_bad() {
    let mut nand = medium();
    program(&mut nand, 0).unwrap();
    nand.mark_program_failed(FIRST);
    assert!(read(&mut nand, 0).is_ok() && nand.has_failed_program(FIRST) && !nand.is_bad(FIRST));
    nand.mark_bad(FIRST);
    assert!(nand.is_bad(FIRST) && !nand.has_failed_program(FIRST));
}

#[test]
#[should_panic(expected = "read of page 0 in a bad block")]
fn the_medium_panics_at_a_read_of_a_bad_block() {
    let mut nand = medium();
    program(&mut nand, 0).unwrap();
    nand.mark_bad(FIRST);
    let _ = read(&mut nand, 0);
}

#[test]
#[should_panic(expected = "a block holds one kind of page")]
fn the_medium_panics_at_a_program_of_another_kind_in_a_block() {
    let mut nand = medium();
    program(&mut nand, 0).unwrap();
    let _ = nand.program(Ppn(1), oob(PageKind::Translation, 0), Content::Bytes(&[0; 512]));
}

#[test]
#[should_panic(expected = "a program is one whole page")]
fn the_medium_panics_at_a_program_of_less_than_a_page() {
    let _ = medium().program(Ppn(0), oob(PageKind::Data, 0), Content::Bytes(&[0; 100]));
}

/// A block is half erased if its erase was interrupted by a power loss.
#[test]
#[should_panic(expected = "block 0 is HalfErased")]
fn the_medium_panics_at_a_program_of_a_half_erased_block() {
    let mut nand = medium();
    nand.tear_erase(FIRST);
    let _ = program(&mut nand, 0);
}

#[test]
#[should_panic(expected = "a run has one source block")]
fn the_medium_panics_at_a_bulk_copy_from_two_source_blocks() {
    let mut nand = medium();
    (0..8).for_each(|ppn| program(&mut nand, ppn).unwrap());
    let run = ConsecutiveCopies {
        source_pages: &[Ppn(3), Ppn(4)],
        owners: &[Lpn(3), Lpn(4)],
        first_destination: Ppn(8),
        first_sequence: 50,
    };
    let _ = nand.copy(run, &mut []);
}

/// A page is torn if its program was interrupted by a power loss.
#[test]
fn a_torn_page_is_uncorrectable_and_the_next_program_goes_to_the_page_after_it() {
    let mut nand = medium();
    program(&mut nand, 0).unwrap();
    nand.tear_program(Ppn(1));
    assert_eq!(read(&mut nand, 1), Err(NandError::Uncorrectable(Ppn(1))));
    assert_eq!(nand.probe_page(Ppn(1)), Err(NandError::Uncorrectable(Ppn(1))));
    assert_eq!(read(&mut nand, 0), Ok(vec![0; 512]), "its neighbour is unharmed");
    program(&mut nand, 2).unwrap();
    nand.erase(FIRST).unwrap();
    program(&mut nand, 0).unwrap();
    program(&mut nand, 1).unwrap();
    assert_eq!(read(&mut nand, 1), Ok(vec![1; 512]), "an erase heals it");
}

#[test]
fn the_spare_area_of_a_damaged_page_is_readable() {
    let mut nand = medium();
    program(&mut nand, 0).unwrap();
    program(&mut nand, 1).unwrap();
    nand.make_uncorrectable(Ppn(1));
    assert_eq!(read(&mut nand, 1), Err(NandError::Uncorrectable(Ppn(1))));
    let oob = nand.probe_page(Ppn(1)).unwrap().expect("it is programmed");
    assert_eq!(nand.read_spare(Ppn(1), &mut []), Ok(oob));
    assert_eq!(read(&mut nand, 0), Ok(vec![0; 512]), "its neighbour is unharmed");
    assert!(nand.pages_programmed_with_lost_mark().is_empty(), "nobody declared it lost");
    nand.erase(FIRST).unwrap();
    program(&mut nand, 0).unwrap();
    program(&mut nand, 1).unwrap();
    assert_eq!(read(&mut nand, 1), Ok(vec![1; 512]), "an erase heals it");
}

/// GC programs a page as lost if it cannot read the data that it should copy.
#[test]
fn a_page_programmed_as_lost_keeps_its_oob_and_reads_as_uncorrectable() {
    let mut nand = medium();
    program(&mut nand, 0).unwrap();
    let oob = nand.probe_page(Ppn(0)).unwrap().expect("it is programmed");
    nand.program_page_marked_lost(Ppn(1), oob, &[7; 4]).unwrap();
    assert_eq!(read(&mut nand, 1), Err(NandError::Uncorrectable(Ppn(1))));
    let mut spare = [0; 4];
    assert_eq!(nand.read_spare(Ppn(1), &mut spare), Ok(oob));
    assert_eq!(spare, [7; 4]);
    assert_eq!(nand.pages_programmed_with_lost_mark(), [Ppn(1)]);
    assert_eq!(
        nand.copy(
            ConsecutiveCopies {
                source_pages: &[Ppn(1)],
                owners: &[Lpn(0)],
                first_destination: Ppn(2),
                first_sequence: 9
            },
            &mut []
        )
        .0,
        0
    );
    nand.erase(FIRST).unwrap();
    assert!(nand.pages_programmed_with_lost_mark().is_empty());
}

/// A block is half erased if its erase was interrupted by a power loss.
#[test]
fn a_half_erased_block_is_unreadable_until_it_is_erased() {
    let mut nand = medium();
    program(&mut nand, 0).unwrap();
    nand.tear_erase(FIRST);
    assert_eq!(read(&mut nand, 0), Err(NandError::Uncorrectable(Ppn(0))));
    assert_eq!(
        nand.probe_page(Ppn(3)),
        Err(NandError::Uncorrectable(Ppn(3))),
        "no page of it is known to be erased"
    );
    nand.erase(FIRST).unwrap();
    assert_eq!(nand.probe_page(Ppn(3)), Ok(None));
    program(&mut nand, 0).unwrap();
}

/// A probe reads the spare area of a page, and reports whether the page is erased.
#[test]
fn a_probe_may_read_an_erased_page() {
    let mut nand = medium();
    program(&mut nand, 0).unwrap();
    assert_eq!(nand.probe_page(Ppn(0)), Ok(Some(oob(PageKind::Data, 0))));
    assert_eq!(nand.probe_page(Ppn(1)), Ok(None));
}

/// A probe reads the spare area of a page, and reports whether the page is erased. It is not permitted in a bad block.
#[test]
#[should_panic(expected = "probe of page 0 in a bad block")]
fn the_medium_panics_at_a_probe_of_a_bad_block() {
    let _ = medium().with_factory_bad_blocks([FIRST]).probe_page(Ppn(0));
}

#[test]
fn an_erase_beyond_the_endurance_fails_and_leaves_the_block_readable() {
    let mut nand = medium().with_endurance(2);
    for _ in 0..2 {
        nand.erase(FIRST).unwrap();
    }
    program(&mut nand, 0).unwrap();
    assert_eq!(nand.erase(FIRST), Err(NandError::EraseFailed(FIRST)));
    assert_eq!((nand.erase_count(FIRST), nand.is_bad(FIRST)), (2, false), "the FTL decides to retire it");
    assert_eq!(read(&mut nand, 0), Ok(vec![0; 512]));
    assert_eq!(nand.erase(BlockId(1)), Ok(()), "other blocks are not worn");
}

/// A block of limited endurance may fail at a program instead of at an erase.
#[test]
fn a_block_that_wears_out_by_programs_fails_the_first_program_after_its_last_erase() {
    let mut nand = medium();
    let mut limits = vec![
        WearLimit { erase_cycles: 9, failing_operation: WornBlockFailure::Erase };
        nand.geometry().blocks() as usize
    ];
    limits[FIRST.index()] = WearLimit { erase_cycles: 1, failing_operation: WornBlockFailure::Program };
    nand.set_wear_limits(limits);
    nand.erase(FIRST).unwrap();
    program(&mut nand, 0).unwrap();
    nand.erase(FIRST).unwrap();
    assert_eq!(program(&mut nand, 0), Err(NandError::ProgramFailed(Ppn(0))));
    assert_eq!(read(&mut nand, 0), Err(NandError::Uncorrectable(Ppn(0))), "the failed page is consumed");
    assert_eq!(program(&mut nand, 1), Err(NandError::ProgramFailed(Ppn(1))), "it stays worn");
    assert_eq!((nand.erase_count(FIRST), nand.is_bad(FIRST)), (2, false), "the FTL decides to retire it");
}

/// The medium that injects faults makes exactly the planned number of programs and erases fail.
#[test]
fn a_faulty_medium_fails_exactly_as_often_as_planned() {
    let plan = FaultProbabilities {
        program_failure_probability: 1.0,
        erase_failure_probability: 1.0,
        max_failures: 2,
    };
    let mut nand = FaultyNand::new(medium(), plan, 1);
    assert_eq!(program(&mut nand, 0), Err(NandError::ProgramFailed(Ppn(0))));
    assert_eq!(nand.erase(FIRST), Err(NandError::EraseFailed(FIRST)));
    assert_eq!(read(&mut nand, 0), Err(NandError::Uncorrectable(Ppn(0))), "the failed page is consumed");
    assert_eq!(program(&mut nand, 1), Ok(()), "two failures are all");
    assert_eq!(nand.failures(), 2);
}

#[test]
fn a_power_cut_leaves_the_flash_in_the_requested_state() {
    for outcome in CutOutcome::ALL {
        let mut nand = PowerCutNand::new(medium(), Some(1), outcome);
        program(&mut nand, 0).unwrap();
        assert_eq!(program(&mut nand, 1), Err(NandError::PowerLost));
        assert_eq!(read(&mut nand, 0), Err(NandError::PowerLost), "nothing works without power");
        assert_eq!(nand.erase(FIRST), Err(NandError::PowerLost));
        nand.restore_power(Some(0));
        let left = nand.probe_page(Ppn(1));
        match outcome {
            CutOutcome::NoEffect => assert_eq!(left, Ok(None)),
            CutOutcome::Torn => assert_eq!(left, Err(NandError::Uncorrectable(Ppn(1)))),
            CutOutcome::CompletedUnacknowledged => assert_eq!(left, Ok(Some(oob(PageKind::Data, 1)))),
        }
        assert_eq!(nand.erase(FIRST), Err(NandError::PowerLost));
        nand.restore_power(None);
        let left = nand.probe_page(Ppn(0));
        match outcome {
            CutOutcome::NoEffect => assert_eq!(left, Ok(Some(oob(PageKind::Data, 0)))),
            CutOutcome::Torn => assert_eq!(left, Err(NandError::Uncorrectable(Ppn(0)))),
            CutOutcome::CompletedUnacknowledged => assert_eq!(left, Ok(None)),
        }
    }
}

#[test]
fn a_recording_medium_lists_programs_and_erases_in_order() {
    let mut nand = RecordingNand::new(medium());
    program(&mut nand, 0).unwrap();
    nand.erase(BlockId(2)).unwrap();
    read(&mut nand, 0).unwrap();
    assert_eq!(nand.recorded_ops(), [RecordedOp::Program(Ppn(0), 0), RecordedOp::Erase(BlockId(2))]);
}

#[test]
fn a_medium_without_host_data_bytes_keeps_descriptors_and_all_metadata() {
    let mut nand = SimNand::new(
        medium().geometry().clone(),
        RetainedPageFields { keeps_data_bytes: false, ..RetainedPageFields::ALL },
    );
    let content = Content::Descriptor(ContentDescriptor::of_fingerprint(Fingerprint(5)));
    nand.program(Ppn(0), oob(PageKind::Data, 5), content).unwrap();
    assert_eq!(nand.fingerprint(Ppn(0)), Fingerprint(5));
    nand.program(Ppn(4), oob(PageKind::Translation, 0), Content::Bytes(&[3; 512])).unwrap();
    assert_eq!(read(&mut nand, 4), Ok(vec![3; 512]));
    assert!(!nand.keeps_host_bytes());
}

/// Pages that hold deltas or compressed chunks are host data, but recovery reads in them which logical pages they
/// contain. A medium without bytes of host data keeps such pages on request, also through copies, until their block is
/// erased.
#[test]
fn a_medium_without_host_data_bytes_may_keep_pages_of_deltas_and_chunks() {
    let geometry = medium().geometry().clone();
    let mut page = [0; 512 + 12];
    page[3..9].copy_from_slice(&[1, 0, 2, 3, 0, 4]);
    page[510..516].copy_from_slice(&[5, 6, 7, 0, 0, 8]);
    for kind in [PageKind::Delta, PageKind::Chunk] {
        let mut nand = SimNand::new(
            geometry.clone(),
            RetainedPageFields { keeps_data_bytes: false, ..RetainedPageFields::ALL },
        );
        assert!(nand.keeps_bytes_of(kind) && !nand.keeps_bytes_of(PageKind::Data));
        nand.program(Ppn(0), oob(kind, 1), Content::Bytes(&page)).unwrap();
        nand.program(Ppn(1), oob(kind, 2), Content::Bytes(&[0; 512])).unwrap();
        let run = |to: u32| ConsecutiveCopies {
            source_pages: &[Ppn(0)],
            owners: &[Lpn(1)],
            first_destination: Ppn(to),
            first_sequence: 20,
        };
        nand.copy(run(4), &mut []).1.unwrap();
        let mut wrapped = RecordingNand::new(nand);
        wrapped.copy(run(5), &mut [0; 512 + 16]).1.unwrap();
        let mut nand = wrapped.into_inner();
        for ppn in [0, 4, 5] {
            let mut read = [9; 512 + 16];
            nand.read(Ppn(ppn), &mut read).unwrap();
            assert_eq!((&read[..524], &read[524..]), (&page[..], &[0; 4][..]), "page {ppn} of {kind:?}");
            let mut spare = [9; 12];
            nand.read_spare(Ppn(ppn), &mut spare).unwrap();
            assert_eq!(spare, page[512..], "spare area of page {ppn} of {kind:?}");
        }
        assert_eq!(read(&mut nand, 1), Ok(vec![0; 512]));
        nand.erase(FIRST).unwrap();
        nand.program(Ppn(0), oob(kind, 1), Content::Bytes(&[7; 512])).unwrap();
        assert_eq!(read(&mut nand, 0), Ok(vec![7; 512]));
        let nothing = SimNand::new(geometry.clone(), RetainedPageFields::default());
        assert!(!nothing.keeps_bytes_of(kind) && nothing.keeps_bytes_of(PageKind::Translation));
    }
}

/// A geometry may be read from a damaged file. So any numbers must be accepted or refused, and none may be multiplied
/// before it is checked.
#[test]
fn a_geometry_of_any_numbers_is_accepted_or_refused_without_overflow() {
    use wearwell::nand::{GeometryError, PLANES_MAX};
    let sizes = [0, 1, 2, 3, 1 << 8, 1 << 16, 0x4000_0200, 1 << 31, u32::MAX];
    let mut accepted = 0;
    for code in 0..sizes.len().pow(5) {
        let size = |place: u32| sizes[code / sizes.len().pow(place) % sizes.len()];
        let geometry = Geometry {
            channels: size(0),
            dies_per_channel: size(1),
            planes_per_die: size(2),
            blocks_per_plane: size(3),
            pages_per_block: size(4),
            page_bytes: 4096,
            spare_bytes: 64,
            superblock_planes: 1,
        };
        match geometry.checked() {
            Ok(geometry) => {
                let pages: u64 = (0..5).map(|place| size(place) as u64).product();
                assert_eq!(geometry.pages(), pages, "{geometry:?}");
                assert!(pages < 1 << 32, "{geometry:?} has a page with the number that means none");
                accepted += 1;
            }
            Err(GeometryError::Zero { .. }) => assert!((0..5).any(|place| size(place) == 0)),
            Err(GeometryError::BlockTooLarge { pages }) => assert_eq!(pages, size(4) as u64),
            Err(GeometryError::TooManyPages { pages }) => {
                assert!(pages >= 1 << 32, "{pages} pages are not too many");
            }
            Err(GeometryError::TooManyPlanes { planes }) => {
                let counted: u64 = (0..3).map(|place| size(place) as u64).product();
                assert_eq!(planes, counted);
                assert!(planes > u64::from(PLANES_MAX), "{planes} planes are not too many");
            }
            Err(other) => panic!("{other}"),
        }
    }
    assert!(accepted > 100, "{accepted} geometries are possible");
}
