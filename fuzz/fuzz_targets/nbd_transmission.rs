//! NBD transmission: any bytes in any pieces become requests that the engine answers or refuses; the device keeps its laws.
//!
//! The first byte says what was negotiated, the second how the rest is cut, the third which design runs.

#![no_main]

use std::cell::RefCell;

use libfuzzer_sys::fuzz_target;
use wearwell::nand::SimNand;
use wearwell_config::Config;
use wearwell_serve::FlashDevice;
use wearwell_serve::memory::Specification;
use wearwell_serve::nbd::{Decoded, Decoder, Export, Negotiated, PAYLOAD_MAX_BYTES, execute};

const DESIGNS: [&str; 4] = ["page-map", "recyclable", "remap", "integrated"];
const SIZE: u64 = 1 << 20;

fn devices() -> Vec<FlashDevice<SimNand>> {
    let device = |design| {
        let specification = Specification::new(design, Config::default(), Some(SIZE)).expect("it is possible");
        specification.build().expect("it fits")
    };
    DESIGNS.into_iter().map(device).collect()
}

thread_local! {
    static DEVICES: RefCell<Vec<FlashDevice<SimNand>>> = RefCell::new(devices());
    static RUNS: RefCell<u64> = const { RefCell::new(0) };
}

fn run(device: &mut FlashDevice<SimNand>, agreed: Negotiated, piece_bytes: usize, input: &[u8]) {
    let export = Export::of(device, "drive", "");
    let mut decoder = Decoder::default();
    for mut piece in input.chunks(piece_bytes) {
        while !piece.is_empty() {
            let (taken, decoded) = decoder.take(piece);
            assert!(taken > 0, "a decoder that takes nothing never ends");
            piece = &piece[taken..];
            match decoded {
                Decoded::Incomplete => {}
                Decoded::Request(request) => {
                    let footprint = request.footprint_bytes();
                    let reply = execute(device, request, &export, agreed);
                    assert!(reply.len() >= 16 && reply.len() <= footprint + 4096, "{} bytes", reply.len());
                    assert!(reply.len() <= PAYLOAD_MAX_BYTES as usize + 64);
                }
                Decoded::Disconnect | Decoded::Garbage => return,
            }
        }
    }
}

fuzz_target!(|input: &[u8]| {
    let [agreed, cut, design, rest @ ..] = input else { return };
    let agreed = Negotiated {
        is_structured: agreed & 1 != 0,
        knows_sizes: agreed & 2 != 0,
        allocation: agreed & 4 != 0,
        state: agreed & 8 != 0,
        export: 0,
    };
    DEVICES.with_borrow_mut(|devices| {
        let device = &mut devices[*design as usize % DESIGNS.len()];
        run(device, agreed, 1 + *cut as usize, rest);
        let is_due = RUNS.with_borrow_mut(|runs| {
            *runs += 1;
            *runs % 256 == 0
        });
        if is_due {
            device.device().clone().ftl_mut().check().expect("every law holds");
        }
    });
});
