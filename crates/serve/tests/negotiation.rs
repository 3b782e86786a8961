//! Tests of the NBD negotiation, byte by byte as the protocol defines it.

use common::client::*;
use common::{MIB, ServedDevice};
use wearwell_serve::nbd::{Export, HeaderForm, MetadataContexts, Negotiation, NegotiationState};

use crate::common;

/// Serves a device with default settings.
fn serve_default_device() -> ServedDevice {
    ServedDevice::new("page-map", 8 * MIB)
}

/// Connects a client that has sent its handshake flags.
fn connect_in_option_phase(served: &ServedDevice) -> Client {
    let mut client = served.connect();
    client.send(&3_u32.to_be_bytes());
    client
}

#[test]
fn the_nbd_list_option_names_the_only_export() {
    let served = serve_default_device();
    let replies = connect_in_option_phase(&served).send_option(NBD_OPT_LIST, &[]);
    let entry = [length_prefixed("drive"), b"a test drive".to_vec()].concat();
    assert_eq!(replies, [(REP_SERVER, entry), (REP_ACK, vec![])]);
    assert_eq!(connect_in_option_phase(&served).send_option(NBD_OPT_LIST, b"x")[0].0, ERR_INVALID);
}

#[test]
fn the_nbd_info_option_reports_export_size_and_flags_and_block_sizes_without_selecting_the_export() {
    let served = serve_default_device();
    let mut client = connect_in_option_phase(&served);
    for name in ["drive", ""] {
        let replies = client.send_option(NBD_OPT_INFO, &info_request(name, &[3, 1, 2, 77]));
        let flags: u16 = 1 | 1 << 2 | 1 << 3 | 1 << 5 | 1 << 6 | 1 << 8 | 1 << 10 | 1 << 11;
        let size = [&[0, 0][..], &(8 * MIB).to_be_bytes(), &flags.to_be_bytes()].concat();
        let sizes =
            [&[0, 3][..], &512_u32.to_be_bytes(), &4096_u32.to_be_bytes(), &(32_u32 << 20).to_be_bytes()];
        assert!(replies.contains(&(REP_INFO, size)));
        assert!(replies.contains(&(REP_INFO, sizes.concat())));
        assert!(replies.contains(&(REP_INFO, b"\0\x01drive".to_vec())));
        assert!(replies.contains(&(REP_INFO, b"\0\x02a test drive".to_vec())));
        assert_eq!(replies.len(), 5);
    }
    // Without the question there is no answer about sizes, and the connection is still negotiating.
    assert_eq!(client.send_option(NBD_OPT_INFO, &info_request("drive", &[])).len(), 2);
    assert_eq!(client.send_option(NBD_OPT_LIST, &[]).len(), 2);
}

#[test]
fn an_nbd_client_that_names_an_unknown_export_is_refused() {
    let served = serve_default_device();
    let mut client = connect_in_option_phase(&served);
    assert_eq!(client.send_option(NBD_OPT_GO, &info_request("other", &[]))[0].0, ERR_UNKNOWN);
    assert_eq!(client.send_option(NBD_OPT_INFO, &info_request("other", &[]))[0].0, ERR_UNKNOWN);
    client.send(&option_bytes(NBD_OPT_EXPORT_NAME, b"other"));
    assert!(client.is_closed(), "the oldest option has no way to refuse");
}

#[test]
fn the_old_nbd_option_export_name_still_chooses_an_export() {
    let served = serve_default_device();
    for (client_flags, padding) in [(1_u32, 124), (3, 0)] {
        let mut client = served.connect();
        client.send(&client_flags.to_be_bytes());
        client.send(&option_bytes(NBD_OPT_EXPORT_NAME, b"drive"));
        assert_eq!(client.receive_bytes(8), (8 * MIB).to_be_bytes());
        assert_eq!(client.receive_bytes(2 + padding)[2..], vec![0; padding]);
        client.write(0, &[7; 4096]);
        assert_eq!(client.read(4095, 2), [7, 0], "replies are simple, and single bytes can be named");
    }
}

#[test]
fn a_server_without_certificates_refuses_starttls_and_goes_on_unencrypted() {
    let served = serve_default_device();
    let mut client = connect_in_option_phase(&served);
    let replies = client.send_option(NBD_OPT_STARTTLS, &[]);
    assert_eq!((replies.len(), replies[0].0), (1, ERR_POLICY));
    let sentence = String::from_utf8(replies[0].1.clone()).unwrap();
    assert!(sentence.contains("TLS") && sentence.contains("tunnel"), "{sentence}");
    client.negotiate_after_handshake_flags();
}

#[test]
fn the_nbd_abort_option_is_acknowledged_and_ends_the_connection() {
    let served = serve_default_device();
    let mut client = connect_in_option_phase(&served);
    assert_eq!(client.send_option(NBD_OPT_ABORT, &[]), [(REP_ACK, vec![])]);
    assert!(client.is_closed());
}

#[test]
fn unknown_and_malformed_nbd_options_are_refused_and_negotiation_continues() {
    let served = serve_default_device();
    let mut client = connect_in_option_phase(&served);
    for number in [0, 4, 12, 999, u32::MAX] {
        assert_eq!(client.send_option(number, b"data")[0].0, ERR_UNSUP, "option {number}");
    }
    let good = info_request("drive", &[3]);
    for bad in [&[][..], &good[..3], &good[..good.len() - 1], &[&good[..], &[0]].concat(), &[0xff; 8]] {
        assert_eq!(client.send_option(NBD_OPT_GO, bad)[0].0, ERR_INVALID);
        assert_eq!(client.send_option(NBD_OPT_LIST_META_CONTEXT, bad)[0].0, ERR_INVALID);
    }
    assert_eq!(client.send_option(NBD_OPT_STRUCTURED_REPLY, b"x")[0].0, ERR_INVALID);
    client.negotiate_after_handshake_flags();
}

#[test]
fn an_overlong_nbd_option_is_skipped_and_refused() {
    let served = serve_default_device();
    let mut client = connect_in_option_phase(&served);
    let replies = client.send_option(NBD_OPT_GO, &vec![0; 1 << 20]);
    assert_eq!((replies.len(), replies[0].0), (1, ERR_TOO_BIG));
    client.negotiate_after_handshake_flags();
    let mut client = connect_in_option_phase(&served);
    client.send(&[b"IHAVEOPT", &NBD_OPT_GO.to_be_bytes()[..], &u32::MAX.to_be_bytes()].concat());
    assert!(client.is_closed(), "4 GiB are not even skipped");
}

#[test]
fn clients_that_do_not_speak_nbd_are_disconnected() {
    let served = serve_default_device();
    for bytes in
        [&8_u32.to_be_bytes()[..], b"GET / HTTP/1.1\r\n\r\n", &[&[0, 0, 0, 3], &[0x55; 64][..]].concat()]
    {
        let mut client = served.connect();
        client.send(bytes);
        assert!(client.is_closed(), "{bytes:?}");
    }
}

#[test]
fn nbd_metadata_contexts_are_listed_by_name_or_namespace_and_set_by_name_only() {
    let served = serve_default_device();
    let mut client = connect_in_option_phase(&served);
    let names = |replies: &[(u32, Vec<u8>)]| -> Vec<String> {
        let contexts = replies.iter().filter(|(kind, _)| *kind == REP_META_CONTEXT);
        contexts.map(|(_, data)| String::from_utf8(data[4..].to_vec()).unwrap()).collect()
    };
    let listed = |client: &mut Client, wanted: &[&str]| {
        names(&client.send_option(NBD_OPT_LIST_META_CONTEXT, &context_option_data("", wanted)))
    };
    assert_eq!(listed(&mut client, &[]), [ALLOCATION_CONTEXT, PAGE_STATE_CONTEXT]);
    assert_eq!(listed(&mut client, &["base:"]), [ALLOCATION_CONTEXT]);
    assert_eq!(listed(&mut client, &["x-wearwell:", "x-other:page"]), [PAGE_STATE_CONTEXT]);
    assert_eq!(listed(&mut client, &["base"]), [""; 0]);

    let set = context_option_data("", &[ALLOCATION_CONTEXT, PAGE_STATE_CONTEXT]);
    assert_eq!(
        client.send_option(NBD_OPT_SET_META_CONTEXT, &set)[0].0,
        ERR_INVALID,
        "without structured replies"
    );
    client.send_option(NBD_OPT_STRUCTURED_REPLY, &[]);
    assert_eq!(
        names(&client.send_option(NBD_OPT_SET_META_CONTEXT, &context_option_data("", &["base:"]))),
        [""; 0]
    );
    assert_eq!(
        client.send_option(NBD_OPT_SET_META_CONTEXT, &context_option_data("other", &[ALLOCATION_CONTEXT]))[0]
            .0,
        ERR_UNKNOWN
    );
    let replies = client.send_option(NBD_OPT_SET_META_CONTEXT, &set);
    assert_eq!(names(&replies), [ALLOCATION_CONTEXT, PAGE_STATE_CONTEXT]);
    assert_ne!(replies[0].1[..4], replies[1].1[..4], "each context has a number of its own");
    // The last list counts.
    assert_eq!(
        names(&client.send_option(NBD_OPT_SET_META_CONTEXT, &context_option_data("", &[PAGE_STATE_CONTEXT]))),
        [PAGE_STATE_CONTEXT]
    );
    client.send_option(NBD_OPT_GO, &info_request("", &[3]));
    let status = client.request_block_status(0, 4096, 0);
    assert_eq!(status.len(), 1);
    assert_eq!(status[0].0.to_be_bytes(), replies[1].1[..4]);
}

/// Returns the transmission flags in the replies to `GO` or `INFO`.
fn transmission_flags(replies: &[(u32, Vec<u8>)]) -> u16 {
    let (_, size) =
        replies.iter().find(|(kind, data)| *kind == REP_INFO && data[..2] == [0, 0]).expect("it is told");
    u16::from_be_bytes([size[10], size[11]])
}

#[test]
fn extended_headers_are_acknowledged_and_include_structured_replies() {
    /// Transmission flag: reads may ask for a reply in one chunk.
    const DF_ALLOWED: u16 = 1 << 7;
    /// Transmission flag: block-status requests may select contexts in a payload.
    const STATUS_PAYLOAD_ALLOWED: u16 = 1 << 12;
    let served = serve_default_device();
    let mut client = connect_in_option_phase(&served);
    assert_eq!(client.send_option(NBD_OPT_EXTENDED_HEADERS, b"x")[0].0, ERR_INVALID);
    let before = transmission_flags(&client.send_option(NBD_OPT_INFO, &info_request("", &[])));
    assert_eq!(before & (DF_ALLOWED | STATUS_PAYLOAD_ALLOWED), 0, "a refused option changes nothing");
    assert_eq!(
        client.send_option(NBD_OPT_STRUCTURED_REPLY, &[])[0].0,
        REP_ACK,
        "they may be negotiated first"
    );
    assert_eq!(client.send_option(NBD_OPT_EXTENDED_HEADERS, &[]), [(REP_ACK, vec![])]);
    assert_eq!(
        client.send_option(NBD_OPT_EXTENDED_HEADERS, &[]),
        [(REP_ACK, vec![])],
        "asking twice is no error"
    );
    let refused = client.send_option(NBD_OPT_STRUCTURED_REPLY, &[]);
    assert_eq!((refused.len(), refused[0].0), (1, ERR_EXT_HEADER_REQD), "there is no way back");
    assert!(!refused[0].1.is_empty());
    assert_eq!(client.send_option(NBD_OPT_STRUCTURED_REPLY, b"x")[0].0, ERR_INVALID);
    let info = transmission_flags(&client.send_option(NBD_OPT_INFO, &info_request("", &[])));
    assert_eq!(info, before | DF_ALLOWED | STATUS_PAYLOAD_ALLOWED);
    assert_eq!(
        client.send_option(NBD_OPT_SET_META_CONTEXT, &context_option_data("", &[ALLOCATION_CONTEXT])).len(),
        2
    );
    let go = client.send_option(NBD_OPT_GO, &info_request("", &[]));
    assert_eq!(transmission_flags(&go), info);
}

#[test]
fn block_status_payloads_are_offered_only_if_nbd_metadata_contexts_were_set() {
    let served = serve_default_device();
    let mut client = connect_in_option_phase(&served);
    client.send_option(NBD_OPT_EXTENDED_HEADERS, &[]);
    let flags = transmission_flags(&client.send_option(NBD_OPT_GO, &info_request("", &[])));
    assert_eq!(flags & (1 << 7 | 1 << 12), 1 << 7);
}

#[test]
fn an_nbd_client_with_extended_headers_may_not_use_the_option_export_name() {
    let served = serve_default_device();
    let mut client = connect_in_option_phase(&served);
    client.send_option(NBD_OPT_EXTENDED_HEADERS, &[]);
    client.send(&option_bytes(NBD_OPT_EXPORT_NAME, b"drive"));
    assert!(client.is_closed());
}

/// The replies to a byte stream are the same however the stream is split into packets.
#[test]
fn nbd_negotiation_does_not_depend_on_how_bytes_are_split() {
    let export = Export {
        name: "drive".into(),
        description: String::new(),
        capacity_bytes: 1 << 30,
        write_granularity_bytes: 4096,
        is_read_only: false,
    };
    let input = [
        3_u32.to_be_bytes().to_vec(),
        option_bytes(NBD_OPT_STARTTLS, &[]),
        option_bytes(77, &vec![1; 70_000]),
        option_bytes(NBD_OPT_STRUCTURED_REPLY, &[]),
        option_bytes(NBD_OPT_SET_META_CONTEXT, &context_option_data("drive", &[ALLOCATION_CONTEXT])),
        option_bytes(NBD_OPT_GO, &info_request("drive", &[3])),
        b"first request".to_vec(),
    ]
    .concat();
    let run = |step: usize| {
        let (mut reply, mut buffer, mut outcome) = (Vec::new(), Vec::new(), NegotiationState::Continues);
        let mut negotiation = Negotiation::new(vec![&export], &mut reply);
        let mut pieces = input.chunks(step);
        while outcome == NegotiationState::Continues {
            buffer.extend(pieces.next().expect("the negotiation ends before its input"));
            let (taken, now) = negotiation.advance(&buffer, &mut reply);
            buffer.drain(..taken);
            outcome = now;
        }
        buffer.extend(pieces.flatten());
        (reply, outcome, buffer)
    };
    let whole = run(input.len());
    assert_eq!(whole.2, b"first request");
    assert!(
        matches!(whole.1, NegotiationState::Agreed(agreed) if agreed.header_form == HeaderForm::Structured && agreed.contexts == MetadataContexts { has_allocation: true, has_page_state: false })
    );
    for step in [1, 7, 4096] {
        assert!(run(step) == whole, "in pieces of {step} bytes");
    }
}

#[test]
fn nine_hundred_idle_connections_block_no_other_client() {
    let served = serve_default_device();
    let mut good = served.client();
    let idle: Vec<Client> = (0..900).map(|_| served.connect()).collect();
    good.write(0, &[1; 8192]);
    assert_eq!(served.client().read(0, 8192), [1; 8192]);
    drop(idle);
    assert_eq!(good.read(4096, 512), [1; 512]);
}
