//! Tests of the server with real NBD clients: fio, nbdcopy, qemu-img, qemu-io, libnbd. `examples/live/install.sh`
//! installs them; a missing one fails its test with a sentence. What needs root and loop devices is in
//! `examples/live/`.

use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;

use common::{DESIGNS, MIB, Random, ServedDevice};

use crate::common;

/// Fails the test if `program` is not installed.
fn require_program(program: &str) {
    /// Names of the programs that were found already.
    static FOUND: OnceLock<std::sync::Mutex<std::collections::BTreeSet<String>>> = OnceLock::new();
    let found = FOUND.get_or_init(std::sync::Mutex::default);
    if found.lock().unwrap().contains(program) {
        return;
    }
    let ran = Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    assert!(
        ran.is_ok(),
        "`{program}` is not installed: run examples/live/install.sh, which installs the Debian packages of these tests"
    );
    found.lock().unwrap().insert(program.to_owned());
}

/// Returns the NBD URI of a served device.
fn uri(served: &ServedDevice) -> String {
    format!("nbd+unix:///?socket={}", served.nbd_socket_path().display())
}

/// Runs a program, which must succeed, and returns its output.
#[track_caller]
fn run(program: &str, arguments: &[&str]) -> String {
    require_program(program);
    let Output { status, stdout, stderr } =
        Command::new(program).args(arguments).output().expect("it is installed");
    let printed = format!("{}{}", String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
    assert!(status.success(), "{program} {arguments:?}: {printed}");
    printed
}

/// Returns a path as text.
fn path(path: &Path) -> &str {
    path.to_str().expect("temporary paths are text")
}

/// Four jobs of fio, each over connections of its own, write at random addresses with checksums and flushes, and verify
/// what they read.
#[test]
fn fio_verifies_its_writes_over_several_nbd_connections() {
    for design in DESIGNS {
        fio_verifies(design, ServedDevice::new(design, 64 * MIB));
        fio_verifies(design, ServedDevice::on_image(design, 64 * MIB));
    }
}

/// Runs four jobs of fio on a served device, and checks that they verify all their data.
fn fio_verifies(design: &str, served: ServedDevice) {
    let uri = format!("--uri={}", uri(&served));
    let arguments = [
        "--name=v",
        "--ioengine=nbd",
        &uri,
        "--thread",
        "--numjobs=4",
        "--rw=randwrite",
        "--bsrange=4k-32k",
        "--size=8m",
        "--offset_increment=16m",
        "--iodepth=32",
        "--verify=crc32c",
        "--verify_fatal=1",
        "--do_verify=1",
        "--fsync=64",
        "--verify_state_save=0",
        "--randrepeat=0",
    ];
    let printed = run("fio", &arguments);
    assert_eq!(printed.matches("err= 0").count(), 4, "{design}: {printed}");
    let commands = served.stop_and_audit();
    assert!(commands.bytes_written >= 32 * MIB, "{design}");
    assert!(commands.bytes_read >= 32 * MIB, "{design}: it read back");
}

/// nbdcopy copies data to the device and back, and qemu-img compares the device with the original.
#[test]
fn nbdcopy_and_qemu_img_agree_on_every_byte() {
    let folder = tempfile::tempdir().unwrap();
    let (there, back) = (folder.path().join("there"), folder.path().join("back"));
    let mut bytes = Random::new(31).bytes(48 << 20);
    bytes[16 << 20..24 << 20].fill(0);
    std::fs::write(&there, &bytes).unwrap();
    for design in ["page-map", "remap", "integrated"] {
        let served = ServedDevice::new(design, 48 * MIB);
        assert_clients_agree(&served, &there, &back);
        assert!(std::fs::read(&back).unwrap() == bytes, "{design}");
        served.stop_and_audit();
        let served = ServedDevice::on_image(design, 48 * MIB);
        assert_clients_agree(&served, &there, &back);
        assert!(std::fs::read(&back).unwrap() == bytes, "{design}, image");
        served.stop_and_audit();
    }
}

/// Copies the file `there` to the device and the device to the file `back`, and checks that nbdcopy and qemu-img agree
/// on every byte.
fn assert_clients_agree(served: &ServedDevice, there: &Path, back: &Path) {
    let uri = uri(served);
    run("nbdcopy", &["--flush", path(there), &uri]);
    run("qemu-img", &["compare", "-f", "raw", "-F", "raw", path(there), &uri]);
    run("nbdcopy", &[&uri, path(back)]);
    let printed = run("qemu-img", &["map", "-f", "raw", "--output=json", &uri]);
    assert!(printed.contains("\"start\": 16777216, \"length\": 8388608"), "the hole is seen: {printed}");
}

/// The benchmark of qemu-img has 32 requests in flight and flushes after every 64 requests.
#[test]
fn qemu_img_bench_completes_with_32_requests_in_flight_and_regular_flushes() {
    run_qemu_img_bench(ServedDevice::new("page-map", 48 * MIB));
    run_qemu_img_bench(ServedDevice::on_image("page-map", 48 * MIB));
}

/// Runs `qemu-img bench` on a served device, and checks the numbers of writes and flushes.
fn run_qemu_img_bench(served: ServedDevice) {
    let bench = ["bench", "-f", "raw", "-t", "none", "-w", "-c", "20000", "-s", "4096", "-d", "32"];
    run("qemu-img", &[&bench[..], &["--flush-interval", "64", &uri(&served)]].concat());
    let commands = served.stop_and_audit();
    assert_eq!(commands.writes, 20_000);
    assert!(commands.executed_flushes >= 300, "{commands:?}");
}

/// Besides libnbd, qemu-io is the only common client that sends FUA.
#[test]
fn qemu_io_reads_back_its_patterns_after_fua_writes_zeroes_and_discards() {
    for design in DESIGNS {
        check_qemu_io_patterns(design, ServedDevice::new(design, 8 * MIB));
        check_qemu_io_patterns(design, ServedDevice::on_image(design, 8 * MIB));
    }
}

/// Writes and discards patterns by qemu-io, reads them back, and checks each.
fn check_qemu_io_patterns(design: &str, served: ServedDevice) {
    let commands = [
        "write -P 0xa5 0 64k",
        "write -f -P 0x5a 4096 4096",
        "write -z -u 8192 4096",
        "discard 12288 4096",
        "flush",
        "read -P 0xa5 0 4096",
        "read -P 0x5a 4096 4096",
        "read -P 0 8192 4096",
        "read -P 0 12288 4096",
        "write -P 0x11 20992 1536",
        "read -P 0xa5 20480 512",
        "read -P 0x11 20992 1536",
        "read -P 0xa5 22528 512",
    ];
    let mut arguments = vec!["-f", "raw"];
    for command in commands {
        arguments.extend(["-c", command]);
    }
    let uri = uri(&served);
    arguments.push(&uri);
    let printed = run("qemu-io", &arguments);
    assert!(!printed.contains("verification failed"), "{design}: {printed}");
    assert_eq!(printed.matches("read ").count(), 7, "{design}: {printed}");
    // FUA, the flush, one that qemu-io sends as it ends, and ours at the end of the server.
    let commands = served.stop_and_audit();
    assert!(commands.executed_flushes >= 3, "{design}: {commands:?}");
}

#[test]
fn nbdinfo_lists_the_size_and_features_of_an_export() {
    let served = ServedDevice::new("page-map", 8 * MIB);
    let printed = run("nbdinfo", &["--list", &uri(&served)]);
    for part in [
        "export=\"drive\"",
        "export-size: 8388608",
        "base:allocation",
        "x-wearwell:page-state",
        "can_multi_conn: true",
        "can_fua: true",
        "can_fast_zero: true",
        "can_cache: true",
        "can_df: true",
        "block_size_minimum: 512",
        "block_size_preferred: 4096",
        "block_size_maximum: 33554432",
    ] {
        assert!(printed.contains(part), "`{part}` is missing in: {printed}");
    }
}

/// The client is libnbd with its own checks of requests switched off.
#[test]
fn libnbd_receives_an_errno_for_every_illegal_request_and_stays_connected() {
    /// Python interpreter of the Debian packages, which has the bindings of libnbd.
    const PYTHON: &str = "/usr/bin/python3";
    require_program(PYTHON);
    let has_libnbd =
        Command::new(PYTHON).args(["-c", "import nbd"]).status().is_ok_and(|status| status.success());
    assert!(has_libnbd, "python3-libnbd is not installed: run examples/live/install.sh");
    let served = ServedDevice::new("page-map", 8 * MIB);
    let mut good = served.client();
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/illegal_requests.py");
    let printed = run(PYTHON, &[path(&program), &uri(&served)]);
    assert!(printed.contains("19 requests"), "{printed}");
    good.write(0, &[1; 4096]);
    served.stop();
}
