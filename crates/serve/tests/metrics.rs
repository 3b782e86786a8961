//! Tests of the metrics for Prometheus: they are well-formed and equal those of `stats` and `health`. Clients of the
//! metrics port do not delay clients of the device.

#![expect(clippy::float_cmp, reason = "what is told is the number itself")]

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use common::client::NBD_CMD_FLUSH;
use common::{DESIGNS, MIB, PAGE_BYTES, Random, ServedDevice};
use serde_json::Value;
use wearwell_serve::ListenAddress;
use wearwell_serve::http::{HTTP_TRANSFER_TIMEOUT, REQUEST_HEADER_MAX_BYTES};

use crate::common;

/// Serves a device of this design with metrics, and returns the server and the address of the metrics.
fn serve_device_with_metrics(design: &str) -> (ServedDevice, SocketAddr) {
    let mut served = ServedDevice::new(design, 8 * MIB);
    let any = ListenAddress::Tcp("127.0.0.1:0".parse().unwrap());
    let Ok(ListenAddress::Tcp(address)) = served.server().open_metrics(&any) else {
        panic!("a port is free")
    };
    (served, address)
}

/// Connects to the metrics port, with a limit on the time that reads wait.
fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).expect("the server listens");
    stream.set_read_timeout(Some(4 * HTTP_TRANSFER_TIMEOUT)).unwrap();
    stream
}

/// Sends an HTTP request and returns the header and the body of the answer.
fn ask(address: SocketAddr, request: &str) -> (String, String) {
    let mut stream = connect(address);
    stream.write_all(request.as_bytes()).expect("it is taken");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("it is answered");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head ends with an empty line");
    let length =
        head.lines().find_map(|line| line.strip_prefix("Content-Length: ")).expect("it has a length");
    assert_eq!(length.parse(), Ok(body.len()));
    (head.to_owned(), body.to_owned())
}

/// Requests the metrics and returns them parsed.
fn scrape(address: SocketAddr) -> Exposition {
    let (head, body) = ask(address, "GET /metrics HTTP/1.1\r\nHost: here\r\nAccept: */*\r\n\r\n");
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
    assert!(head.contains("\r\nContent-Type: application/openmetrics-text; version=1.0.0"), "{head}");
    Exposition::parse(&body)
}

/// Samples of a metrics page by name and label, such as `programs_total{cause="gc"}`.
struct Exposition {
    /// Value of each sample, by name and labels.
    samples: BTreeMap<String, f64>,
}

impl Exposition {
    /// Parses the text of a metrics page strictly: every sample has to belong to the metric family described just
    /// before it.
    fn parse(text: &str) -> Self {
        let body = text.strip_suffix("# EOF\n").expect("it ends with its end");
        let (mut samples, mut families) = (BTreeMap::new(), BTreeSet::new());
        let (mut family, mut ending) = (String::new(), "");
        for line in body.lines() {
            if let Some(rest) = line.strip_prefix("# HELP ") {
                let (name, help) = rest.split_once(' ').expect("a name and a sentence");
                assert!(help.len() > 5 && families.insert(name.to_owned()), "{line}");
                name.clone_into(&mut family);
            } else if let Some(rest) = line.strip_prefix("# TYPE ") {
                let (name, kind) = rest.split_once(' ').expect("a name and a kind");
                assert_eq!(name, family);
                ending = match kind {
                    "counter" => "_total",
                    "gauge" => "",
                    "info" => "_info",
                    _ => panic!("{line}"),
                };
            } else {
                let (series, value) = line.rsplit_once(' ').expect("a series and a number");
                let (name, labels) = series.split_once('{').unwrap_or((series, "x=\"\"}"));
                assert_eq!(name, format!("{family}{ending}"), "{line}");
                assert!(name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_'), "{line}");
                let label = labels.strip_suffix("\"}").and_then(|label| label.split_once("=\""));
                assert!(label.is_some_and(|(_, value)| !value.contains(['"', '\\'])), "{line}");
                let name = series.strip_prefix("wearwell_").expect("whose it is");
                let number = value.parse().expect("a number");
                assert!(samples.insert(name.to_owned(), number).is_none(), "twice: {line}");
            }
        }
        Self { samples }
    }

    /// Returns the value of a sample, which must exist.
    fn get(&self, series: &str) -> f64 {
        *self.samples.get(series).unwrap_or_else(|| panic!("{series} is missing: {:?}", self.samples.keys()))
    }
}

/// Sends a command to the control socket and returns its answer.
fn send_control_command(served: &ServedDevice, command: &str) -> Value {
    let mut lines =
        BufReader::new(UnixStream::connect(served.control_socket_path()).expect("the server listens"));
    writeln!(lines.get_mut(), "{{\"command\": \"{command}\"}}").unwrap();
    let mut reply = String::new();
    lines.read_line(&mut reply).unwrap();
    serde_json::from_str(&reply).unwrap()
}

#[test]
fn prometheus_metrics_equal_the_figures_of_stats_and_health() {
    for design in DESIGNS {
        let (served, address) = serve_device_with_metrics(design);
        let (mut client, mut random) = (served.client(), Random::new(8));
        for number in 0..6000 {
            let byte = if number % 3 == 0 { 1 } else { random.next_u64() as u8 };
            client.write(random.below(2048) * PAGE_BYTES, &[byte; 4096]);
        }
        client.read(0, 8192);
        client.request_successfully(NBD_CMD_FLUSH, 0, 0, 0, &[]);
        let (metrics, stats, health) = (
            scrape(address),
            send_control_command(&served, "stats"),
            send_control_command(&served, "health"),
        );
        let number = |value: &Value| value.as_f64().unwrap();
        for key in
            ["host_writes", "host_page_writes", "deduplicated_writes", "recycled_writes", "delta_writes"]
        {
            assert_eq!(metrics.get(&format!("{key}_total")), number(&stats[key]), "{design}: {key}");
        }
        assert_eq!(metrics.get("host_written_bytes_total"), 6000.0 * 4096.0);
        assert_eq!(metrics.get("host_read_bytes_total"), 8192.0);
        assert_eq!(metrics.get("write_amplification"), number(&stats["write_amplification"]));
        assert_eq!(metrics.get("erase_count_mean"), number(&health["mean_erase_count"]));
        assert_eq!(metrics.get("available_spare_percent"), number(&health["avail_spare"]));
        assert_eq!(metrics.get(&format!("device_info{{design=\"{design}\"}}")), 1.0);
        for kind in ["programs", "reads", "erases"] {
            let all = metrics.samples.iter().filter(|(name, _)| name.starts_with(&format!("{kind}_total{{")));
            assert_eq!(all.map(|(_, count)| count).sum::<f64>(), number(&stats[kind]), "{design}: {kind}");
            for (cause, count) in stats[&format!("{kind}_by_cause")].as_object().unwrap() {
                assert_eq!(
                    metrics.get(&format!("{kind}_total{{cause=\"{cause}\"}}")),
                    number(count),
                    "{design}"
                );
            }
        }
        assert_eq!(metrics.get("programs_total{cause=\"validity\"}"), 0.0, "what did not happen is said too");
        let ram = metrics.samples.iter().filter(|(name, _)| name.starts_with("ram_bytes{"));
        assert_eq!(ram.map(|(_, bytes)| bytes).sum::<f64>(), number(&stats["ram_bytes"]));
        served.stop();
    }
}

/// A counter that is added to the answer of `stats` or `health` has to be listed as a metric or as an exception here.
#[test]
fn every_figure_of_stats_and_health_is_exported_as_a_metric() {
    /// Fields of `stats` and `health` that are not exported under their name. They are sums over causes, units of an
    /// NVMe log (exported in bytes and pages instead), and texts.
    const FIELDS_NOT_EXPORTED_BY_NAME: [&str; 17] = [
        "ok",
        "design",
        "programs",
        "reads",
        "erases",
        "ram_bytes",
        "failure",
        "spare_thresh",
        "data_units_read",
        "data_units_written",
        "media_data_units_written",
        "physical_media_bytes_written",
        "physical_media_bytes_read",
        "host_read_commands",
        "host_write_commands",
        "percent_free_blocks",
        "",
    ];
    let (served, address) = serve_device_with_metrics("page-map");
    let metrics = scrape(address);
    let answers = [send_control_command(&served, "stats"), send_control_command(&served, "health")];
    let keys: BTreeSet<String> =
        answers.iter().flat_map(|answer| answer.as_object().unwrap().keys().cloned()).collect();
    let told = keys.iter().filter(|key| !FIELDS_NOT_EXPORTED_BY_NAME.contains(&key.as_str())).count();
    let families: BTreeSet<&str> =
        metrics.samples.keys().map(|series| series.split('{').next().unwrap()).collect();
    assert_eq!(families.len(), told + 1, "one family for each and one for the design: {families:?}");
    served.stop();
}

#[test]
fn the_metrics_port_refuses_requests_other_than_scrapes() {
    let (served, address) = serve_device_with_metrics("page-map");
    let long = format!("GET /metrics HTTP/1.1\r\nX: {}", "x".repeat(2 * REQUEST_HEADER_MAX_BYTES));
    for (request, status) in [
        ("GET / HTTP/1.1\r\n\r\n", "404 Not Found"),
        ("GET /metrics2 HTTP/1.1\r\n\r\n", "404 Not Found"),
        ("POST /metrics HTTP/1.1\r\n\r\n", "405 Method Not Allowed"),
        ("GET /metrics\r\n\r\n", "400 Bad Request"),
        ("GET /metrics SMTP\r\n\r\n", "400 Bad Request"),
        ("\r\n\r\n", "400 Bad Request"),
    ] {
        let (head, _) = ask(address, request);
        assert!(head.starts_with(&format!("HTTP/1.1 {status}\r\n")), "{request:?}: {head}");
    }
    let mut stream = connect(address);
    // The server may hang up before it has everything, and its answer may be lost with that.
    let _ = stream.write_all(long.as_bytes());
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    assert!(answer.is_empty() || answer.starts_with(b"HTTP/1.1 431"), "{}", String::from_utf8_lossy(&answer));
    assert!(ask(address, "GET /metrics?x=y HTTP/1.0\r\n\r\n").0.starts_with("HTTP/1.1 200"));
    served.stop();
}

#[test]
fn metrics_are_served_only_on_loopback_addresses() {
    let mut served = ServedDevice::new("page-map", 8 * MIB);
    let everybody = ListenAddress::Tcp("0.0.0.0:0".parse().unwrap());
    let error = served.server().open_metrics(&everybody).expect_err("it is refused");
    assert!(error.to_string().contains("loopback"), "{error}");
}

/// Clients send nothing, send slowly, send nonsense, do not read, or vanish. Writes and scrapes continue, and the slow
/// clients are disconnected.
#[test]
fn hostile_and_slow_metrics_clients_delay_no_other_client() {
    /// Number of clients that send nothing.
    const SILENT_CLIENTS: usize = 200;
    let (served, address) = serve_device_with_metrics("page-map");
    let mut good = served.client();
    let silent: Vec<TcpStream> = (0..SILENT_CLIENTS).map(|_| connect(address)).collect();
    let (began, mut random) = (Instant::now(), Random::new(9));
    let mut dripping = connect(address);
    let mut is_dropped = false;
    let mut longest = Duration::ZERO;
    for round in 0_u64.. {
        is_dropped = is_dropped || dripping.write_all(b"G").is_err();
        if is_dropped && began.elapsed() > HTTP_TRANSFER_TIMEOUT {
            break;
        }
        assert!(began.elapsed() < 3 * HTTP_TRANSFER_TIMEOUT, "a dripping client is hung up on");
        let mut nonsense = connect(address);
        let count = random.below(3000) as usize;
        let _ = nonsense.write_all(&random.bytes(count));
        let _ = nonsense.shutdown(if round % 2 == 0 { Shutdown::Both } else { Shutdown::Write });
        // Asks and does not read.
        let _ = connect(address).write_all(b"GET /metrics HTTP/1.1\r\n\r\n");
        let asked = Instant::now();
        good.write(round % 256 * PAGE_BYTES, &[round as u8; 4096]);
        longest = longest.max(asked.elapsed());
        assert_eq!(good.read(round % 256 * PAGE_BYTES, 4096), [round as u8; 4096]);
        assert_eq!(scrape(address).get("host_writes_total"), (round + 1) as f64);
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(longest < Duration::from_secs(2), "a write took {longest:?}");
    for mut stream in silent {
        assert!(matches!(stream.read(&mut [0; 1]), Ok(0) | Err(_)), "a silent client is hung up on");
    }
    assert!(
        began.elapsed() < 3 * HTTP_TRANSFER_TIMEOUT,
        "all of them at their time, not one after the other"
    );
    served.stop();
}
