//! Control commands: any line is answered with one line of JSON that says whether it was done, or why not.

#![no_main]

use std::cell::RefCell;

use libfuzzer_sys::fuzz_target;
use wearwell_config::Config;
use wearwell_serve::control::answer_control_line;
use wearwell_serve::memory_device::MemoryDeviceSpecification;
use wearwell_serve::{BlockDevice as _, FlashDevice};

fn device() -> FlashDevice {
    let specification =
        MemoryDeviceSpecification::new("remap", Config::default(), Some(1 << 20)).expect("it is possible");
    let mut device = specification.build().expect("it fits");
    for page in 0..128_u64 {
        device.write(page * 4096, &[page as u8 + 1; 4096]).expect("there is room");
    }
    device
}

thread_local! {
    static DEVICE: RefCell<(FlashDevice, u64)> = RefCell::new((device(), 0));
}

fuzz_target!(|line: &[u8]| {
    DEVICE.with_borrow_mut(|(device, runs)| {
        let reply = answer_control_line(line, device);
        assert!(!reply.contains('\n') && reply.len() <= 65_536 + 8 * line.len());
        let is_done = reply.contains("\"ok\":true");
        let is_refused = reply.contains("\"ok\":false") && reply.contains("\"error\":\"");
        assert!(is_done != is_refused, "{reply}");
        *runs += 1;
        if *runs % 256 == 0 {
            device.check_engine_invariants().expect("every law holds");
        }
    });
});
