//! Rate of the engine under uniform random writes: `cargo run --release -p wearwell --example quick [preset [spare [writes]]]`.
//!
//! Wall time of one thread: fill, overwrite one and a half times, then measure with look-ahead as the replay driver has.

use std::time::Instant;

use wearwell::address::Lpn;
use wearwell::content::{Descriptor, Fingerprint, mix};
use wearwell::gc::GcOptions;
use wearwell::nand::{SimNand, preset};
use wearwell::{Device, DeviceOptions, design};

/// Requests looked ahead.
const BATCH: usize = 32;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let name = arguments.next().unwrap_or_else(|| "lab-8g".to_owned());
    let spare: f64 = arguments.next().map_or(0.15, |text| text.parse().expect("spare is a number"));
    let writes: u64 = arguments.next().map_or(20_000_000, |text| text.parse().expect("writes is a number"));
    let model = preset::by_name(&name).expect("the first argument is a preset");
    let logical = (model.geometry.pages() as f64 / (1.0 + spare)) as u32;
    let parts = design::page_map(GcOptions::default());
    let nand = SimNand::new(model.geometry.checked().expect("presets are possible"), parts.retain());
    let mut device = Device::new(nand, logical, &parts, DeviceOptions::default()).expect("it fits");
    let page = Descriptor::of(Fingerprint(1));
    let write = |device: &mut Device<SimNand>, lpn| device.write_page(lpn, page).expect("space is enough");

    let started = Instant::now();
    (0..logical).for_each(|lpn| write(&mut device, Lpn(lpn)));
    println!("fill {:.1} ns/page", started.elapsed().as_nanos() as f64 / logical as f64);

    let mut state = 1_u64;
    let mut next = || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        Lpn((((mix(state) >> 32) * logical as u64) >> 32) as u32)
    };
    (0..(logical as u64 * 3 / 2).min(4 * writes)).for_each(|_| write(&mut device, next()));
    device.ftl_mut().clear_stats();

    let started = Instant::now();
    let mut batch = [Lpn(0); BATCH];
    let mut sum = 0_u64;
    for _ in 0..writes / BATCH as u64 {
        batch.fill_with(&mut next);
        sum = sum.wrapping_add(device.ftl().warm(&batch, &[]));
        for lpn in batch {
            write(&mut device, lpn);
        }
    }
    std::hint::black_box(sum);
    let ns = started.elapsed().as_nanos() as f64 / writes as f64;
    let amplification = device.ftl().stats().write_amplification();
    println!(
        "{name} spare {spare}: {ns:.2} ns/host write = {:.2} M/s, write amplification {amplification:.4}, programs {:.1} M/s",
        1000.0 / ns,
        1000.0 / ns * amplification
    );
}
