//! NBD negotiation: any bytes in any pieces are taken in bounded steps, with replies no longer than what was asked can
//! explain, and the pieces change nothing.
//!
//! The first byte says how the rest is cut.

#![no_main]

use libfuzzer_sys::fuzz_target;
use wearwell_serve::nbd::{Export, Negotiation, NegotiationState, OPTION_MAX_BYTES};

/// Most bytes of reply per byte of input: an option of 16 bytes may ask for all information about the export.
const REPLY_PER_BYTE: usize = 64;

fn negotiate(input: &[u8], piece_bytes: usize) -> (Vec<u8>, NegotiationState, usize) {
    let export = Export {
        name: "drive".into(),
        description: "a drive".into(),
        capacity_bytes: 1 << 30,
        write_granularity_bytes: 4096,
        is_read_only: false,
    };
    let (mut reply, mut waiting, mut taken) = (Vec::new(), Vec::new(), 0);
    let mut negotiation = Negotiation::new(vec![&export], &mut reply);
    for piece in input.chunks(piece_bytes) {
        waiting.extend(piece);
        let (used, outcome) = negotiation.advance(&waiting, &mut reply);
        taken += used;
        waiting.drain(..used);
        assert!(waiting.len() <= OPTION_MAX_BYTES as usize + 16 || outcome != NegotiationState::Continues);
        if outcome != NegotiationState::Continues {
            return (reply, outcome, taken);
        }
    }
    (reply, NegotiationState::Continues, taken)
}

fuzz_target!(|input: &[u8]| {
    let Some((&cut, input)) = input.split_first() else { return };
    let (reply, outcome, taken) = negotiate(input, input.len().max(1));
    assert!(reply.len() <= 64 + REPLY_PER_BYTE * input.len(), "{} bytes of reply", reply.len());
    let (again, same, taken_again) = negotiate(input, 1 + cut as usize);
    assert!(again == reply && same == outcome);
    // What is no option ends the connection, and with it whatever was there.
    assert!(taken == taken_again || outcome == NegotiationState::Ended);
});
