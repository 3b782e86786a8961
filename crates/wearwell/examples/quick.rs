use std::time::Instant;
use wearwell::{Device, DeviceOptions, address::Lpn, content::*, design, gc::*, nand::*};
fn main() {
    let mut a = std::env::args().skip(1);
    let preset = a.next().unwrap_or("lab-8g".into());
    let op: f64 = a.next().map_or(0.15, |s| s.parse().unwrap());
    let n: u64 = a.next().map_or(20_000_000, |s| s.parse().unwrap());
    let d = preset::by_name(&preset).unwrap();
    let logical = (d.geometry.pages() as f64 / (1.0 + op)) as u32;
    let parts = design::page_map(GcOptions::default());
    let nand = SimNand::new(d.geometry.checked().unwrap(), parts.retain());
    let mut dev = Device::new(nand, logical, &parts, DeviceOptions::default()).unwrap();
    let t = Instant::now();
    for l in 0..logical {
        dev.write_page(Lpn(l), Descriptor::of(Fingerprint(1))).unwrap();
    }
    println!("fill {:?} {:.1} ns/page", t.elapsed(), t.elapsed().as_nanos() as f64 / logical as f64);
    let mut s = 1u64;
    let mut next = || {
        s = s.wrapping_add(0x9e3779b97f4a7c15);
        ((mix(s) >> 32) * logical as u64 >> 32) as u32
    };
    let warm = (logical as u64) * 3 / 2;
    for _ in 0..warm.min(4 * n) {
        dev.write_page(Lpn(next()), Descriptor::of(Fingerprint(1))).unwrap();
    }
    dev.ftl_mut().clear_stats();
    let t = Instant::now();
    let mut batch = [Lpn(0); 32];
    let mut sum = 0;
    for _ in 0..n / 32 {
        for b in &mut batch {
            *b = Lpn(next());
        }
        sum += dev.ftl().warm(&batch, &[]);
        for &b in &batch {
            dev.write_page(b, Descriptor::of(Fingerprint(1))).unwrap();
        }
    }
    std::hint::black_box(sum);
    let ns = t.elapsed().as_nanos() as f64 / n as f64;
    println!(
        "{preset} op {op}: {:.2} ns/host write = {:.2} M/s, WA {:.4}, programs {:.1} M/s",
        ns,
        1000.0 / ns,
        dev.ftl().stats().write_amplification(),
        1000.0 / ns * dev.ftl().stats().write_amplification()
    );
}
