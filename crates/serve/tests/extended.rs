//! Tests of extended NBD headers: same effects and replies as with compact headers, lengths of 64 bits, and payloads of
//! commands that must not have a payload.

use common::client::*;
use common::{DESIGNS, MIB, PAGE_BYTES, Random, ServedDevice};
use wearwell::logical_page_form::LogicalPageForm;
use wearwell_serve::device::Extent;
use wearwell_serve::nbd::{
    DecodedInput, Export, HeaderForm, MetadataContexts, NegotiationResult, RequestDecoder, RequestExecution,
    RequestStepOutcome,
};
use wearwell_serve::{BlockDevice, DeviceError};

use crate::common;

/// Size of the served device, bytes.
const DEVICE_BYTES: u64 = 8 * MIB;
/// Number of bytes in a gibibyte.
const GIB: u64 = 1 << 30;

/// Returns the payload of a block-status request for `range_bytes` bytes that selects the metadata contexts `contexts`.
fn block_status_payload(range_bytes: u64, contexts: &[u32]) -> Vec<u8> {
    [
        &range_bytes.to_be_bytes()[..],
        contexts.iter().map(|id| id.to_be_bytes()).collect::<Vec<_>>().as_flattened(),
    ]
    .concat()
}

/// Returns a random request: command, flags, offset, length, and the payload of a write. The server refuses some of
/// these requests.
fn random_request(random: &mut Random) -> (u16, u16, u64, u32, Vec<u8>) {
    let command = [
        NBD_CMD_READ,
        NBD_CMD_WRITE,
        NBD_CMD_FLUSH,
        NBD_CMD_TRIM,
        NBD_CMD_CACHE,
        NBD_CMD_WRITE_ZEROES,
        NBD_CMD_BLOCK_STATUS,
        NBD_CMD_WRITE,
        77,
    ][random.below(9) as usize];
    let flags = [
        0,
        0,
        0,
        NBD_CMD_FLAG_FUA,
        NBD_CMD_FLAG_NO_HOLE,
        NBD_CMD_FLAG_DF,
        NBD_CMD_FLAG_REQ_ONE,
        NBD_CMD_FLAG_FAST_ZERO,
        NBD_CMD_FLAG_FAST_ZERO | NBD_CMD_FLAG_NO_HOLE,
    ][random.below(9) as usize];
    let unit = if random.below(20) == 0 { 100 } else { 512 };
    let sector = if random.below(20) == 0 { DEVICE_BYTES / 512 - random.below(4) } else { random.below(256) };
    let (offset, len) = (sector * 512, (random.below(40) * unit) as u32);
    let payload = if command == NBD_CMD_WRITE { random.bytes(len as usize) } else { Vec::new() };
    (command, flags, offset, len, payload)
}

/// Two servers of one design get equal requests, one with compact headers, the other with extended headers.
#[test]
fn nbd_requests_with_compact_and_extended_headers_have_the_same_effects_and_replies() {
    for design in DESIGNS {
        let (one, other) = (ServedDevice::new(design, DEVICE_BYTES), ServedDevice::new(design, DEVICE_BYTES));
        let (mut compact, mut extended) = (one.client(), other.connect().negotiated_with_extended_headers());
        let mut random = Random::new(21);
        let mut refused = 0;
        for k in 0..600 {
            let (command, flags, offset, len, payload) = random_request(&mut random);
            let reply = compact.call(command, flags, offset, len, &payload);
            refused += u32::from(reply.errno != 0);
            let same = extended.call(command, flags, offset, len, &payload);
            assert_eq!(same, reply, "{design}: request {k}, command {command} {flags} {offset}+{len}");
        }
        assert!((100..500).contains(&refused), "{refused} of 600 were refused");
        assert!(compact.read(0, 1 << 20) == extended.read(0, 1 << 20), "{design}");
        assert_eq!(
            compact.request_block_status(0, DEVICE_BYTES as u32, 0),
            extended.request_block_status(0, DEVICE_BYTES as u32, 0),
            "{design}"
        );
        assert_eq!(one.stop_and_audit(), other.stop_and_audit(), "{design}: the devices did the same");
    }
}

/// The drive has 8 GiB. It holds a page at its beginning and a page at its end.
#[test]
fn one_extended_nbd_request_covers_more_than_four_gibibytes() {
    let served = ServedDevice::new("page-map", 8 * GIB);
    let mut client = served.connect().negotiated_with_extended_headers();
    client.write(0, &[1; 4096]);
    client.write(8 * GIB - PAGE_BYTES, &[2; 4096]);
    let extents = |client: &mut Client, flags| {
        let reply = client.call_extended(NBD_CMD_BLOCK_STATUS, flags, 0, 8 * GIB, &[]);
        assert_eq!((reply.errno, reply.extents.len()), (0, 2), "{}", reply.message);
        reply.extents[0].1.clone()
    };
    let hole = 8 * GIB - 2 * PAGE_BYTES;
    assert_eq!(extents(&mut client, 0), [(PAGE_BYTES, 0), (hole, 3), (PAGE_BYTES, 0)]);
    assert_eq!(extents(&mut client, NBD_CMD_FLAG_REQ_ONE), [(PAGE_BYTES, 0)]);
    assert_eq!(client.call_extended(NBD_CMD_CACHE, 0, 0, 8 * GIB, &[]).errno, 0);
    assert_eq!(client.call_extended(NBD_CMD_TRIM, 0, 0, 5 * GIB, &[]).errno, 0);
    assert_eq!(extents(&mut client, 0), [(8 * GIB - PAGE_BYTES, 3), (PAGE_BYTES, 0)]);
    assert_eq!(extents(&mut client, NBD_CMD_FLAG_REQ_ONE), [(8 * GIB - PAGE_BYTES, 3)]);
    assert_eq!(
        client
            .call_extended(
                NBD_CMD_WRITE_ZEROES,
                NBD_CMD_FLAG_FAST_ZERO | NBD_CMD_FLAG_FUA,
                512,
                8 * GIB - 512,
                &[]
            )
            .errno,
        0
    );
    assert_eq!(extents(&mut client, 0), [(8 * GIB, 3)]);
    assert_eq!(client.read(8 * GIB - PAGE_BYTES, 4096), [0; 4096]);
    served.stop();
}

/// A device of 2^63 bytes, all of them a hole. It records the longest range with which one of its methods was called.
#[derive(Default)]
struct HoleDevice {
    /// Length, in bytes, of the longest range of one trim, zero or block-status call to the device.
    longest_range_bytes: u64,
}

impl BlockDevice for HoleDevice {
    fn capacity_bytes(&self) -> u64 {
        1 << 63
    }
    fn write_granularity_bytes(&self) -> u32 {
        4096
    }
    fn read(&mut self, _: u64, _: &mut [u8]) -> Result<(), DeviceError> {
        Ok(())
    }
    fn write(&mut self, _: u64, _: &[u8]) -> Result<(), DeviceError> {
        Ok(())
    }
    fn trim(&mut self, _: u64, len: u64) -> Result<(), DeviceError> {
        self.longest_range_bytes = self.longest_range_bytes.max(len);
        Ok(())
    }
    fn zero(&mut self, offset: u64, len: u64, _: bool) -> Result<(), DeviceError> {
        self.trim(offset, len)
    }
    fn flush(&mut self) -> Result<(), DeviceError> {
        Ok(())
    }
    fn first_extent(&mut self, _: u64, len_bytes: u64) -> Extent {
        self.longest_range_bytes = self.longest_range_bytes.max(len_bytes);
        Extent { len_bytes, logical_page_form: LogicalPageForm::Hole }
    }
}

/// Starts the execution of one request with an extended header.
fn start_request_execution(
    device: &impl BlockDevice,
    command: u16,
    flags: u16,
    offset: u64,
    len: u64,
) -> RequestExecution {
    let agreed = NegotiationResult {
        header_form: HeaderForm::Extended,
        contexts: MetadataContexts { has_allocation: true, has_page_state: true },
        ..NegotiationResult::default()
    };
    let bytes = extended_request_header_bytes(command, flags, 1, offset, len);
    let (_, DecodedInput::Request(request)) = RequestDecoder::of(agreed.header_form).decode_next(&bytes)
    else {
        panic!("it is a request")
    };
    RequestExecution::of(request, &Export::of(device, "drive", ""), agreed)
}

#[test]
fn a_request_over_two_to_the_63_bytes_is_executed_in_steps_of_bounded_length() {
    /// Number of steps that are executed of each request.
    const STEPS: u64 = 10_000;
    let cases = [
        (NBD_CMD_TRIM, 0, 16 * MIB),
        (NBD_CMD_WRITE_ZEROES, 0, 16 * MIB),
        (NBD_CMD_WRITE_ZEROES, NBD_CMD_FLAG_FUA, 16 * MIB),
        (NBD_CMD_WRITE_ZEROES, NBD_CMD_FLAG_NO_HOLE, 4 * MIB),
        (NBD_CMD_BLOCK_STATUS, 0, GIB),
        (NBD_CMD_BLOCK_STATUS, NBD_CMD_FLAG_REQ_ONE, GIB),
    ];
    for (command, flags, most) in cases {
        let mut device = HoleDevice::default();
        let mut whole = start_request_execution(&device, command, flags, 0, 1 << 63);
        for _ in 0..STEPS {
            assert!(matches!(whole.step(&mut device, Vec::new), RequestStepOutcome::HasMoreSteps));
        }
        assert_eq!(device.longest_range_bytes, most, "command {command}, flags {flags}");
        // The last bytes of the device are reached without an overflow.
        let mut last = start_request_execution(&device, command, flags, (1 << 63) - most - 512, most + 512);
        while matches!(last.step(&mut device, Vec::new), RequestStepOutcome::HasMoreSteps) {}
        assert_eq!(device.longest_range_bytes, most);
    }
}

#[test]
fn illegal_extended_requests_are_answered_with_an_errno_and_keep_the_connection() {
    let served = ServedDevice::new("page-map", DEVICE_BYTES);
    let mut good = served.client();
    good.write(0, &[0x11; 4096]);
    let mut client = served.connect().negotiated_with_extended_headers();
    let max = u64::MAX;
    let cases: [(&str, u16, u16, u64, u64, usize, u32); 25] = [
        ("a read of everything there is", NBD_CMD_READ, 0, 0, max, 0, EINVAL),
        (
            "a read of 2^32 and a sector, cut to 32 bits a sector",
            NBD_CMD_READ,
            0,
            0,
            (1 << 32) + 512,
            0,
            EINVAL,
        ),
        ("a read of 33 MiB", NBD_CMD_READ, 0, 0, 33 << 20, 0, EINVAL),
        ("a trim of everything there is", NBD_CMD_TRIM, 0, 0, max, 0, EINVAL),
        ("a trim of 2^63", NBD_CMD_TRIM, 0, 0, 1 << 63, 0, EINVAL),
        ("a trim of 2^32 and a sector", NBD_CMD_TRIM, 0, 0, (1 << 32) + 512, 0, EINVAL),
        (
            "a trim that wraps around to its beginning",
            NBD_CMD_TRIM,
            0,
            4096,
            0_u64.wrapping_sub(4096),
            0,
            EINVAL,
        ),
        ("a trim past the end by a sector", NBD_CMD_TRIM, 0, 512, DEVICE_BYTES, 0, EINVAL),
        ("zeros of everything there is", NBD_CMD_WRITE_ZEROES, 0, 0, max, 0, ENOSPC),
        ("zeros that wrap around", NBD_CMD_WRITE_ZEROES, 0, max - 511, 1024, 0, ENOSPC),
        ("stored zeros of 2^63", NBD_CMD_WRITE_ZEROES, NBD_CMD_FLAG_NO_HOLE, 0, 1 << 63, 0, ENOSPC),
        ("a cache of everything there is", NBD_CMD_CACHE, 0, 0, max, 0, EINVAL),
        ("a status of everything there is", NBD_CMD_BLOCK_STATUS, 0, 0, max, 0, EINVAL),
        ("a status that wraps around", NBD_CMD_BLOCK_STATUS, 0, 1 << 63, 1 << 63, 0, EINVAL),
        ("a trim of one byte", NBD_CMD_TRIM, 0, 0, 1, 0, EINVAL),
        ("a write past the end, without the flag", NBD_CMD_WRITE, 0, DEVICE_BYTES - 512, 1024, 1024, ENOSPC),
        (
            "a write past the end",
            NBD_CMD_WRITE,
            NBD_CMD_FLAG_PAYLOAD_LEN,
            DEVICE_BYTES - 512,
            1024,
            1024,
            ENOSPC,
        ),
        ("a write at the last byte of all", NBD_CMD_WRITE, NBD_CMD_FLAG_PAYLOAD_LEN, max, 512, 512, ENOSPC),
        ("a read with data", NBD_CMD_READ, NBD_CMD_FLAG_PAYLOAD_LEN, 0, 512, 512, EINVAL),
        ("a trim with data", NBD_CMD_TRIM, NBD_CMD_FLAG_PAYLOAD_LEN, 0, 4096, 4096, EINVAL),
        ("a flush with data", NBD_CMD_FLUSH, NBD_CMD_FLAG_PAYLOAD_LEN, 0, 100, 100, EINVAL),
        ("zeros with data", NBD_CMD_WRITE_ZEROES, NBD_CMD_FLAG_PAYLOAD_LEN, 0, 1 << 20, 1 << 20, EINVAL),
        (
            "a cache with the most data",
            NBD_CMD_CACHE,
            NBD_CMD_FLAG_PAYLOAD_LEN,
            0,
            32 << 20,
            32 << 20,
            EINVAL,
        ),
        ("an unknown command with data", 77, NBD_CMD_FLAG_PAYLOAD_LEN, 0, 300, 300, EINVAL),
        ("an unknown flag", NBD_CMD_TRIM, 1 << 15, 0, 512, 0, EINVAL),
    ];
    for (name, command, flags, offset, len, payload, errno) in cases {
        let reply = client.call_extended(command, flags, offset, len, &vec![0xee; payload]);
        assert_eq!(reply.errno, errno, "{name}: {}", reply.message);
        assert!(!reply.message.is_empty(), "{name} has no sentence");
        assert_eq!(good.read(0, 4096), [0x11; 4096], "{name} changed something");
    }
    client.write(0, &[0x22; 4096]);
    assert_eq!(good.read(0, 4096), [0x22; 4096]);
    served.stop();
}

/// The protocol wants the payload flag, but qemu 10 sends the data of a write without it. If the server decoded this
/// data as requests, the damage would be worse.
#[test]
fn an_extended_write_without_the_payload_flag_is_executed_with_the_data_that_follows() {
    let served = ServedDevice::new("page-map", DEVICE_BYTES);
    let mut client = served.connect().negotiated_with_extended_headers();
    for (byte, flags) in [
        (1, 0),
        (2, NBD_CMD_FLAG_PAYLOAD_LEN),
        (3, NBD_CMD_FLAG_FUA),
        (4, NBD_CMD_FLAG_FUA | NBD_CMD_FLAG_PAYLOAD_LEN),
    ] {
        assert_eq!(client.call_extended(NBD_CMD_WRITE, flags, 4096, 8192, &[byte; 8192]).errno, 0);
        assert_eq!(client.read(4096, 8192), [byte; 8192]);
    }
    served.stop();
}

#[test]
fn a_block_status_payload_selects_nbd_metadata_contexts_and_has_its_own_length() {
    let served = ServedDevice::new("page-map", DEVICE_BYTES);
    let mut client = served.connect().negotiated_with_extended_headers();
    client.write(0, &[1; 4096]);
    let all = client.request_block_status(0, DEVICE_BYTES as u32, 0);
    let [(first, _), (second, _)] = all[..] else { panic!("two contexts") };
    let mut select = |payload: &[u8]| {
        client.call_extended(NBD_CMD_BLOCK_STATUS, NBD_CMD_FLAG_PAYLOAD_LEN, 0, payload.len() as u64, payload)
    };
    assert_eq!(select(&block_status_payload(DEVICE_BYTES, &[first])).extents, all[..1]);
    assert_eq!(select(&block_status_payload(DEVICE_BYTES, &[second])).extents, all[1..]);
    assert_eq!(select(&block_status_payload(DEVICE_BYTES, &[first, second])).extents, all);
    let bad = [
        ("a context twice", block_status_payload(DEVICE_BYTES, &[first, first])),
        ("three contexts", block_status_payload(DEVICE_BYTES, &[first, second, first])),
        ("a thousand contexts", block_status_payload(DEVICE_BYTES, &[first; 1000])),
        ("a context that there is not", block_status_payload(DEVICE_BYTES, &[first + second])),
        ("no context", block_status_payload(DEVICE_BYTES, &[])),
        ("more than the device", block_status_payload(DEVICE_BYTES + 512, &[first])),
        ("everything there is", block_status_payload(u64::MAX, &[first])),
        ("no byte", block_status_payload(0, &[first])),
        ("half a context", block_status_payload(DEVICE_BYTES, &[first])[..10].to_vec()),
        ("half a length", vec![0; 4]),
    ];
    for (name, payload) in bad {
        let reply = select(&payload);
        assert_eq!(reply.errno, EINVAL, "{name}: {:?}", reply.extents);
        assert!(!reply.message.is_empty(), "{name} has no sentence");
    }
    assert_eq!(
        select(&block_status_payload(DEVICE_BYTES, &[first])).extents,
        all[..1],
        "the connection goes on"
    );
}

#[test]
fn an_extended_payload_beyond_the_limit_or_a_compact_header_ends_the_connection() {
    let served = ServedDevice::new("page-map", DEVICE_BYTES);
    let compact = [compact_request_header_bytes(NBD_CMD_READ, 0, 1, 0, 512), vec![0; 4]].concat();
    let streams = [
        extended_request_header_bytes(NBD_CMD_WRITE, NBD_CMD_FLAG_PAYLOAD_LEN, 1, 0, (32 << 20) + 1),
        extended_request_header_bytes(NBD_CMD_WRITE, NBD_CMD_FLAG_PAYLOAD_LEN, 1, 0, u64::MAX),
        extended_request_header_bytes(NBD_CMD_WRITE, 0, 1, 0, u64::MAX),
        extended_request_header_bytes(NBD_CMD_TRIM, NBD_CMD_FLAG_PAYLOAD_LEN, 1, 0, 1 << 63),
        compact,
    ];
    for stream in streams {
        let mut client = served.connect().negotiated_with_extended_headers();
        client.send(&stream);
        assert!(client.is_closed());
    }
    let mut client = served.client();
    client.send(&extended_request_header_bytes(NBD_CMD_READ, 0, 1, 0, 512));
    assert!(client.is_closed(), "extended headers were not negotiated");
    served.client().write(0, &[1; 512]);
}

/// A request that is refused reads and stores nothing, so it uses nothing of the rate that all clients share.
#[test]
fn a_refused_extended_nbd_request_does_not_count_against_the_rate_limit() {
    let device = common::specification("page-map", DEVICE_BYTES).build().unwrap();
    let booked = |len| {
        start_request_execution(&device, NBD_CMD_WRITE_ZEROES, NBD_CMD_FLAG_NO_HOLE, 0, len)
            .rate_limited_bytes()
    };
    assert_eq!(booked(1 << 63), 0);
    assert_eq!(booked(DEVICE_BYTES), DEVICE_BYTES);
}
