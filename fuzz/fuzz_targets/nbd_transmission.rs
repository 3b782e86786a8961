//! NBD transmission: any bytes, split in any way, are decoded into requests that the engine answers or refuses. The
//! device passes its audit afterwards.
//!
//! The first byte selects what was negotiated (bits 0 and 5 the form of the headers) and whether pieces are long, the
//! second the length of the pieces, and the third the design.

#![no_main]

use std::cell::RefCell;
use std::sync::Arc;

use libfuzzer_sys::fuzz_target;
use wearwell_config::Config;
use wearwell_serve::FlashDevice;
use wearwell_serve::memory_device::MemoryDeviceSpecification;
use wearwell_serve::nbd::wire::EXTENDED_REPLY_MAGIC;
use wearwell_serve::nbd::{
    DecodedInput, Export, HeaderForm, MetadataContexts, NegotiationResult, PAYLOAD_MAX_BYTES, RequestDecoder,
    execute_request,
};

const DESIGNS: [&str; 4] = ["page-map", "recyclable", "remap", "integrated"];
const SIZE: u64 = 1 << 20;

fn devices() -> Vec<FlashDevice> {
    let device = |design| {
        let specification =
            MemoryDeviceSpecification::new(design, Config::default(), Some(SIZE)).expect("it is possible");
        specification.build().expect("it fits")
    };
    DESIGNS.into_iter().map(device).collect()
}

thread_local! {
    static DEVICES: RefCell<Vec<FlashDevice>> = RefCell::new(devices());
    static RUNS: RefCell<u64> = const { RefCell::new(0) };
}

/// Decodes the first request of `buffer[at..]` twice, with its payload copied and with its payload shared with the
/// buffer, and checks that the results are equal.
fn decode(
    copying: &mut RequestDecoder,
    sharing: &mut RequestDecoder,
    buffer: &Arc<Vec<u8>>,
    at: usize,
) -> (usize, DecodedInput) {
    let (taken, decoded) = sharing.decode_next_sharing_buffer(buffer, at..buffer.len());
    let (same, copied) = copying.decode_next(&buffer[at..]);
    assert!(taken > 0, "a decoder that takes nothing never ends");
    assert_eq!((taken, &decoded), (same, &copied));
    (taken, decoded)
}

fn run(device: &mut FlashDevice, agreed: NegotiationResult, piece_bytes: usize, input: &[u8]) {
    let export = Export::of(device, "drive", "");
    let (mut copying, mut sharing) =
        (RequestDecoder::of(agreed.header_form), RequestDecoder::of(agreed.header_form));
    for piece in input.chunks(piece_bytes) {
        let buffer = Arc::new(piece.to_vec());
        let mut at = 0;
        while at < piece.len() {
            let (taken, decoded) = decode(&mut copying, &mut sharing, &buffer, at);
            at += taken;
            match decoded {
                DecodedInput::Incomplete => {}
                DecodedInput::Request(request) => {
                    let footprint = request.request_and_reply_memory_bytes();
                    let reply = execute_request(device, request, &export, agreed);
                    assert!(reply.len() >= 16 && reply.len() <= footprint + 4096, "{} bytes", reply.len());
                    assert!(reply.len() <= PAYLOAD_MAX_BYTES as usize + 64);
                    let is_extended = reply[..4] == EXTENDED_REPLY_MAGIC.to_be_bytes();
                    assert_eq!(
                        is_extended,
                        agreed.header_form == HeaderForm::Extended,
                        "the form of the reply"
                    );
                }
                DecodedInput::Disconnect | DecodedInput::MalformedRequest => return,
            }
        }
    }
}

fuzz_target!(|input: &[u8]| {
    let [agreed_byte, cut, design, rest @ ..] = input else { return };
    let agreed = NegotiationResult {
        header_form: match (agreed_byte & 32 != 0, agreed_byte & 1 != 0) {
            (true, _) => HeaderForm::Extended,
            (false, true) => HeaderForm::Structured,
            (false, false) => HeaderForm::Simple,
        },
        has_requested_block_sizes: agreed_byte & 2 != 0,
        contexts: MetadataContexts {
            has_allocation: agreed_byte & 4 != 0,
            has_page_state: agreed_byte & 8 != 0,
        },
        export_index: 0,
    };
    // Short pieces cut headers, long ones hold whole payloads.
    let piece_bytes = (1 + *cut as usize) * if agreed_byte & 16 == 0 { 1 } else { 64 };
    DEVICES.with_borrow_mut(|devices| {
        let device = &mut devices[*design as usize % DESIGNS.len()];
        run(device, agreed, piece_bytes, rest);
        let is_due = RUNS.with_borrow_mut(|runs| {
            *runs += 1;
            *runs % 256 == 0
        });
        if is_due {
            device.check_engine_invariants().expect("every law holds");
        }
    });
});
