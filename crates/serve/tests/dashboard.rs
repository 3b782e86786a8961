//! Tests of the dashboard: the files that it sends, the requests that it refuses, and that clients, however many and
//! however slow, do not delay the device.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use common::{Client, DESIGNS, MIB, PAGE_BYTES, Random, ServedDevice, specification};
use serde_json::Value;
use wearwell_replay::html_report;
use wearwell_serve::dashboard::{DashboardAndReportAssets, UPDATE_SUBSCRIBERS_MAX};
use wearwell_serve::{ClientLimits, FlashDevice, ListenAddress, NamedDevice, Server};

use crate::common;

/// Hostile name of an export: HTML that would run a script if the page did not escape it.
const HOSTILE_EXPORT_NAME: &str = "<script>alert(1)</script>";
/// Longest time for which a test waits for the next update of a small device on a loaded machine.
const UPDATE_TIMEOUT: Duration = Duration::from_secs(20);

/// Returns style and scripts that the dashboard shares with the HTML reports.
fn dashboard_and_report_assets() -> DashboardAndReportAssets {
    DashboardAndReportAssets { style: html_report::style_sheet(), script: html_report::drawing_script() }
}

/// Opens the dashboard of a server on a free port and returns its address.
fn open_dashboard_on_free_port(server: &mut Server<FlashDevice>) -> SocketAddr {
    let any = ListenAddress::Tcp("127.0.0.1:0".parse().unwrap());
    let Ok(ListenAddress::Tcp(address)) = server.open_dashboard(&any, &dashboard_and_report_assets()) else {
        panic!("a port is free")
    };
    address
}

/// Serves a device of this design with a dashboard, and returns the server and the dashboard's address.
fn serve_with_dashboard(design: &str) -> (ServedDevice, SocketAddr) {
    let mut served = ServedDevice::new(design, 8 * MIB);
    let address = open_dashboard_on_free_port(served.server());
    (served, address)
}

/// Starts a server of in-memory drives with these names, each of 8 MiB and design `page-map`.
fn start_server_of_drives(names: &[&str], limits: ClientLimits) -> (Server<FlashDevice>, SocketAddr) {
    let drive = |name: &&str| NamedDevice {
        name: (*name).to_owned(),
        description: format!("the drive {name}"),
        device: specification("page-map", 8 * MIB).build().expect("it fits"),
    };
    let mut server = Server::start_all(names.iter().map(drive).collect(), limits);
    let address = open_dashboard_on_free_port(&mut server);
    (server, address)
}

/// Connects to the dashboard; reads wait at most [`UPDATE_TIMEOUT`].
fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).expect("the server listens");
    stream.set_read_timeout(Some(UPDATE_TIMEOUT)).unwrap();
    stream
}

/// Sends an HTTP request with request line `line` and the headers `headers`. Returns header and body of the answer.
fn ask(address: SocketAddr, line: &str, headers: &[&str]) -> (String, String) {
    let mut stream = connect(address);
    let headers: String = headers.iter().flat_map(|&header| [header, "\r\n"]).collect();
    stream.write_all(format!("{line} HTTP/1.1\r\n{headers}\r\n").as_bytes()).expect("it is taken");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("it is answered");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head ends with an empty line");
    (head.to_owned(), body.to_owned())
}

/// Requests `path` from the dashboard, and returns header and body of the answer.
fn get(address: SocketAddr, path: &str) -> (String, String) {
    let (head, body) = ask(address, &format!("GET {path}"), &["Host: localhost"]);
    let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: "));
    assert_eq!(length.and_then(|length| length.parse().ok()), Some(body.len()), "{head}");
    (head, body)
}

/// Requests `path`, disconnects, and returns the HTTP status of the answer.
fn get_status(address: SocketAddr, path: &str) -> u16 {
    let mut stream = connect(address);
    write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line).expect("it is answered");
    line.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status")
}

/// A dashboard client that receives updates.
struct Watcher {
    /// Connection from which the stream of updates is read line by line.
    lines: BufReader<TcpStream>,
    /// Number of the last dashboard update that was received.
    last_update_number: u64,
}

impl Watcher {
    /// Connects a client that requests the updates of export number `export`.
    fn connect_to_updates(address: SocketAddr, export: usize) -> Self {
        let mut stream = connect(address);
        write!(stream, "GET /events/{export} HTTP/1.1\r\nHost: {address}\r\n\r\n").unwrap();
        Self { lines: BufReader::new(stream), last_update_number: 0 }
    }

    /// Reads and returns the header of the HTTP answer.
    fn read_response_header(&mut self) -> String {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            assert!(self.lines.read_line(&mut head).expect("it is answered") > 0, "{head}");
        }
        head
    }

    /// Checks that the server answered with a stream of updates.
    fn require_update_stream(mut self) -> Self {
        let head = self.read_response_header();
        assert!(head.starts_with("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"), "{head}");
        self
    }

    /// Returns the next dashboard update; `None` after the server has closed the connection.
    fn next(&mut self) -> Option<Value> {
        let mut event = String::new();
        while !event.ends_with("\n\n") {
            if self.lines.read_line(&mut event).expect("an update comes in time") == 0 {
                return None;
            }
        }
        let (id, data) =
            event.strip_prefix("id: ").and_then(|event| event.split_once("\ndata: ")).expect("an event");
        self.last_update_number = id.parse().expect("a number");
        Some(serde_json::from_str(data).expect("an update is JSON"))
    }
}

/// Connects a client that receives the updates of the first export.
fn watch(address: SocketAddr) -> Watcher {
    Watcher::connect_to_updates(address, 0).require_update_stream()
}

/// Sends a command to the control socket, and returns its answer without the field `ok`.
fn send_control_command(served: &ServedDevice, command: &str) -> Value {
    let mut lines =
        BufReader::new(UnixStream::connect(served.control_socket_path()).expect("the server listens"));
    writeln!(lines.get_mut(), "{{\"command\": \"{command}\"}}").unwrap();
    let mut reply = String::new();
    lines.read_line(&mut reply).unwrap();
    let mut reply: Value = serde_json::from_str(&reply).unwrap();
    reply.as_object_mut().unwrap().remove("ok");
    reply
}

#[test]
fn the_dashboard_page_loads_nothing_from_other_servers() {
    let (served, address) = serve_with_dashboard("page-map");
    let (head, page) = get(address, "/");
    assert!(head.contains("\r\nContent-Type: text/html; charset=utf-8\r\n"), "{head}");
    let sources = ["src=\"", "href=\""].iter().flat_map(|name| page.split(name).skip(1));
    let mut files: Vec<&str> = sources.map(|rest| rest.split('"').next().unwrap()).collect();
    files.sort_unstable();
    assert_eq!(files, ["#answer", "dashboard.css", "dashboard.js", "data:,"]);
    for (file, kind) in [("/dashboard.css", "text/css"), ("/dashboard.js", "text/javascript")] {
        let (head, body) = get(address, file);
        assert!(head.contains(&format!("\r\nContent-Type: {kind}; charset=utf-8\r\n")), "{head}");
        assert!(body.len() > 1000 && !body.contains("@import"), "{file}");
    }
    served.stop();
}

#[test]
fn every_dashboard_reply_forbids_framing_and_use_by_other_sites() {
    let (served, address) = serve_with_dashboard("page-map");
    let events = watch(address);
    let answers =
        ["/", "/dashboard.js", "/exports", "/nothing", "/events/7"].map(|path| get(address, path).0);
    let refused = ask(address, "POST /", &["Host: localhost"]).0;
    for head in
        answers.into_iter().chain([refused, Watcher::connect_to_updates(address, 0).read_response_header()])
    {
        for header in [
            "Content-Security-Policy: default-src 'none'; script-src 'self'; style-src 'self'; ",
            "frame-ancestors 'none'",
            "X-Frame-Options: DENY",
            "X-Content-Type-Options: nosniff",
            "Cross-Origin-Resource-Policy: same-origin",
        ] {
            assert!(head.contains(header), "{header}: {head}");
        }
        assert!(!head.contains("Access-Control"), "{head}");
    }
    drop(events);
    served.stop();
}

#[test]
fn a_head_request_to_the_dashboard_returns_only_the_header() {
    let (served, address) = serve_with_dashboard("page-map");
    let (head, body) = ask(address, "HEAD /", &["Host: localhost"]);
    assert_eq!((head, body.as_str()), (get(address, "/").0, ""));
    let (head, body) = ask(address, "HEAD /events/0", &["Host: localhost"]);
    assert!(head.starts_with("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"), "{head}");
    assert_eq!(body, "");
    served.stop();
}

#[test]
fn the_dashboard_refuses_requests_other_than_get_and_head() {
    let (served, address) = serve_with_dashboard("page-map");
    for method in ["POST", "PUT", "DELETE", "OPTIONS", "PATCH", "CONNECT", "get"] {
        for path in ["/", "/exports", "/events/0"] {
            let (head, body) = ask(address, &format!("{method} {path}"), &["Host: localhost"]);
            assert!(head.starts_with("HTTP/1.1 405 Method Not Allowed\r\n"), "{method}: {head}");
            assert!(
                head.contains("\r\nAllow: GET, HEAD\r\n") && body.ends_with("over HTTP\n"),
                "{head}{body}"
            );
        }
    }
    served.stop();
}

/// Regression against DNS rebinding: another site's name may resolve to this machine, so that its page can send
/// requests to the dashboard. Such requests are refused.
#[test]
fn the_dashboard_refuses_requests_that_other_sites_cause() {
    let (served, address) = serve_with_dashboard("page-map");
    let own = format!("Host: {address}");
    let own_origin = format!("Origin: http://{address}");
    let status = |path: &str, headers: &[&str]| {
        let (head, body) = ask(address, &format!("HEAD {path}"), headers);
        assert_eq!(body.is_empty(), !head.starts_with("HTTP/1.1 400"), "{head}");
        head.split(' ').nth(1).unwrap().parse::<u16>().unwrap()
    };
    for path in ["/", "/dashboard.js", "/exports", "/events/0"] {
        for headers in [
            &[own.as_str()][..],
            &["Host: localhost:8080"],
            &["Host: [::1]"],
            &[&own, &own_origin],
            &[&own, "Sec-Fetch-Site: same-origin"],
            &[&own, "Sec-Fetch-Site: none"],
        ] {
            assert_eq!(status(path, headers), 200, "{path} {headers:?}");
        }
        for headers in [
            &["Host: evil.example"][..],
            &["Host: localhost.evil.example"],
            &["Host: 127.0.0.1.evil.example:80"],
            &["Host: 0.0.0.0"],
            &["Host: 192.0.2.7"],
            &[&own, "Origin: http://evil.example"],
            &[&own, "Origin: http://localhost:1"],
            &[&own, "Origin: null"],
            &[&own, &own_origin, "Origin: http://evil.example"],
            &[&own, "Sec-Fetch-Site: cross-site"],
            &[&own, "Sec-Fetch-Site: same-site"],
            &[&own, &own_origin, "Sec-Fetch-Site: cross-site"],
        ] {
            assert_eq!(status(path, headers), 403, "{path} {headers:?}");
        }
        for headers in [&[][..], &[&own, "Host: evil.example"], &[&own, "no header"]] {
            let (head, _) = ask(address, &format!("GET {path}"), headers);
            assert!(head.starts_with("HTTP/1.1 400 "), "{path} {headers:?}: {head}");
        }
    }
    served.stop();
}

#[test]
fn the_dashboard_listens_only_on_loopback_addresses() {
    let mut served = ServedDevice::new("page-map", 8 * MIB);
    for everybody in ["0.0.0.0:0", "[::]:0"] {
        let everybody = ListenAddress::Tcp(everybody.parse().unwrap());
        let error = served
            .server()
            .open_dashboard(&everybody, &dashboard_and_report_assets())
            .expect_err("it is refused");
        assert!(error.to_string().contains("only loopback addresses are allowed"), "{error}");
    }
    served.stop();
}

#[test]
fn a_dashboard_update_has_the_figures_of_the_control_socket() {
    for design in DESIGNS {
        let (served, address) = serve_with_dashboard(design);
        let (mut client, mut random) = (served.client(), Random::new(4));
        (0..6000).for_each(|_| client.write(random.below(2048) * PAGE_BYTES, &random.bytes(4096)));
        let update = watch(address).next().expect("an update");
        assert_eq!(update["stats"], send_control_command(&served, "stats"), "{design}");
        assert_eq!(update["health"], send_control_command(&served, "health"), "{design}");
        let blocks = update["blocks"].as_u64().unwrap();
        assert_eq!(
            (&update["blocks_per_cell"], decode_block_chart_cells(&update).len() as u64),
            (&Value::from(1), blocks)
        );
        let wear = &update["wear"];
        let counted: u64 = wear["blocks"].as_array().unwrap().iter().map(|bin| bin.as_u64().unwrap()).sum();
        assert_eq!(counted + update["health"]["bad_blocks"].as_u64().unwrap(), blocks);
        assert_eq!(wear["first_erases"], update["health"]["min_erase_count"]);
        served.stop();
    }
}

/// Decodes the cells of the block chart in a dashboard update. Each cell has its share of valid pages, its share of
/// invalid pages, both in fifteenths, and the kind of its pages.
fn decode_block_chart_cells(update: &Value) -> Vec<[usize; 3]> {
    /// Digits of the base-64 encoding of the cells, by value.
    const DIGITS: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let digits = update["cells"].as_str().unwrap().chars().map(|digit| DIGITS.find(digit).unwrap());
    let digits: Vec<usize> = digits.collect();
    digits.chunks(2).map(|pair| [pair[0] >> 2, (pair[0] & 3) << 2 | pair[1] >> 4, pair[1] & 15]).collect()
}

#[test]
fn the_dashboard_map_shows_valid_and_invalid_pages_of_the_blocks() {
    let (served, address) = serve_with_dashboard("page-map");
    let (mut client, mut watcher) = (served.client(), watch(address));
    let empty = watcher.next().expect("an update");
    assert!(decode_block_chart_cells(&empty).iter().all(|&cell| cell == [0, 0, 0]), "a new device is erased");
    for _ in 0..2 {
        (0..1024).for_each(|page| client.write(page * PAGE_BYTES, &[1; 4096]));
    }
    watcher.next();
    let written = decode_block_chart_cells(&watcher.next().expect("an update"));
    let sum = |of: usize| written.iter().map(|cell| cell[of]).sum::<usize>() as f64 / 15.0;
    let block_pages = empty["stats"]["capacity_bytes"].as_f64().unwrap() / 4096.0 / written.len() as f64;
    let expected = 1024.0 / block_pages;
    assert!((sum(0) / expected - 1.0).abs() < 0.4, "{} blocks are valid, of about {expected}", sum(0));
    assert!(sum(1) > 0.0 && written.iter().all(|cell| cell[2] <= 1), "{written:?}");
    served.stop();
}

#[test]
fn the_dashboard_map_of_a_large_device_has_a_bounded_number_of_cells() {
    let device = specification("page-map", 2048 * MIB).build().expect("it fits");
    let mut served = ServedDevice::of(device);
    let address = open_dashboard_on_free_port(served.server());
    let update = watch(address).next().expect("an update");
    let (blocks, each) = (update["blocks"].as_u64().unwrap(), update["blocks_per_cell"].as_u64().unwrap());
    let cells = decode_block_chart_cells(&update).len() as u64;
    assert!(blocks > 2048 && cells <= 2048, "{blocks} blocks, {cells} cells");
    assert_eq!(cells, blocks.div_ceil(each));
    assert!(update.to_string().len() < 16 << 10, "{} bytes", update.to_string().len());
    served.stop();
}

#[test]
fn dashboard_figures_change_while_writes_arrive() {
    let (served, address) = serve_with_dashboard("page-map");
    let (mut client, mut watcher) = (served.client(), watch(address));
    let writes = |update: &Value| update["stats"]["host_writes"].as_u64().unwrap();
    let mut before = watcher.next().expect("an update");
    for round in 0..3 {
        client.write(round * PAGE_BYTES, &[7; 4096]);
        // The next update may have been gathered before the write.
        watcher.next();
        let now = watcher.next().expect("an update");
        assert_eq!(writes(&now), writes(&before) + 1);
        assert!(now["at_s"].as_f64() > before["at_s"].as_f64());
        before = now;
    }
    served.stop();
}

#[test]
fn each_export_has_its_own_dashboard_updates_and_a_hostile_name_is_only_text() {
    let (server, address) = start_server_of_drives(&["first", HOSTILE_EXPORT_NAME], ClientLimits::default());
    let (head, exports) = get(address, "/exports");
    assert!(head.contains("\r\nContent-Type: application/json\r\n"), "{head}");
    let exports: Value = serde_json::from_str(&exports).expect("JSON");
    let names: Vec<_> = exports["exports"].as_array().unwrap().iter().map(|one| &one["name"]).collect();
    assert_eq!(names, ["first", HOSTILE_EXPORT_NAME]);
    let asked = server.first_device_queue().run_and_wait(wearwell_serve::BlockDevice::flush);
    assert!(matches!(asked, Ok(Ok(()))), "{asked:?}");
    let flushes = |export| {
        let update =
            Watcher::connect_to_updates(address, export).require_update_stream().next().expect("an update");
        update["stats"]["host_flushes"].as_u64().unwrap()
    };
    assert_eq!((flushes(0), flushes(1)), (1, 0));
    for path in
        ["/events/2", "/events/", "/events/-1", "/events/0/", "/events/99999999999999999999", "/other"]
    {
        assert!(get(address, path).0.starts_with("HTTP/1.1 404 Not Found\r\n"), "{path}");
    }
    assert!(!get(address, "/").1.contains("alert"), "no name is in the page");
    server.stop_all();
}

#[test]
fn dashboard_clients_share_one_update_and_none_is_made_without_clients() {
    let (served, address) = serve_with_dashboard("page-map");
    let mut watchers: Vec<Watcher> = (0..50).map(|_| watch(address)).collect();
    for watcher in &mut watchers {
        assert!(watcher.next().is_some());
    }
    let last = watchers.iter().map(|watcher| watcher.last_update_number).max().unwrap();
    assert!(last < 25, "{last} updates were made for 50 clients");
    for watcher in &mut watchers {
        while watcher.last_update_number < last + 2 {
            watcher.next();
        }
    }
    assert!(watchers.iter().all(|watcher| watcher.last_update_number == last + 2));
    drop(watchers);
    std::thread::sleep(Duration::from_secs(4));
    let mut late = watch(address);
    late.next();
    // One may have been under way at the end, and one finds that all are gone.
    assert!(late.last_update_number <= last + 2 + 3, "{} after {last}", late.last_update_number);
    served.stop();
}

#[test]
fn a_dashboard_client_beyond_the_limit_is_refused_with_a_sentence() {
    for most in [2, UPDATE_SUBSCRIBERS_MAX] {
        let limits = ClientLimits {
            max_connections_per_socket: if most == 2 { 2 } else { 1024 },
            ..ClientLimits::default()
        };
        let (server, address) = start_server_of_drives(&["drive"], limits);
        let mut watchers: Vec<Watcher> = (0..most).map(|_| watch(address)).collect();
        let (head, sentence) = get(address, "/events/0");
        assert!(head.starts_with("HTTP/1.1 503 Service Unavailable\r\n"), "{head}");
        assert_eq!(
            sentence,
            format!(
                "the dashboard has the largest possible number of viewers ({most}): close one of the browser tabs or \
                 programs that show it\n"
            )
        );
        assert!(get(address, "/").0.starts_with("HTTP/1.1 200"), "the page is still there");
        watchers.pop();
        let deadline = Instant::now() + UPDATE_TIMEOUT;
        while get_status(address, "/events/0") != 200 {
            assert!(Instant::now() < deadline, "a place is free again");
            std::thread::sleep(Duration::from_millis(50));
        }
        server.stop_all();
    }
}

/// Clients that receive nothing are disconnected once their buffers are full. Until then, writes and other clients
/// continue.
#[test]
fn stalled_dashboard_clients_are_disconnected_and_delay_no_other_client() {
    /// Number of clients that receive nothing.
    const STALLED_CLIENTS: usize = 100;
    let limits = ClientLimits { max_connections_per_socket: STALLED_CLIENTS + 1, ..ClientLimits::default() };
    let (mut server, address) = start_server_of_drives(&["drive"], limits);
    let folder = tempfile::tempdir().unwrap();
    let nbd = folder.path().join("nbd");
    server.listen_for_nbd_clients(&ListenAddress::Unix(nbd.clone())).expect("the path is free");
    let stalled: Vec<TcpStream> = (0..STALLED_CLIENTS)
        .map(|_| {
            let stream = watch(address).lines.into_inner();
            rustix::net::sockopt::set_socket_recv_buffer_size(&stream, 4096).unwrap();
            stream
        })
        .collect();
    let (mut client, mut good) = (Client::connect(&nbd).negotiated(), watch(address));
    let (began, mut longest) = (Instant::now(), Duration::ZERO);
    good.next();
    let (first, mut updates) = (good.last_update_number, 0);
    // All places are taken until the clients that stall are disconnected.
    while get_status(address, "/events/0") == 503 {
        assert!(began.elapsed() < 3 * UPDATE_TIMEOUT, "the stalled clients are disconnected");
        let asked = Instant::now();
        (0..50).for_each(|page| client.write(page * PAGE_BYTES, &[updates as u8; 4096]));
        longest = longest.max(asked.elapsed());
        assert!(good.next().is_some());
        updates += 1;
    }
    assert!(began.elapsed() > Duration::from_secs(5), "not before their time");
    assert_eq!(good.last_update_number - first, updates, "a client that receives misses no update");
    assert!(longest < Duration::from_secs(2), "50 writes took {longest:?}");
    drop(stalled);
    server.stop_all();
}

#[test]
fn a_server_stops_at_once_while_dashboard_clients_are_connected() {
    let (served, address) = serve_with_dashboard("page-map");
    let mut watchers: Vec<Watcher> = (0..20).map(|_| watch(address)).collect();
    for watcher in &mut watchers {
        assert!(watcher.next().is_some());
    }
    let began = Instant::now();
    served.stop();
    assert!(began.elapsed() < Duration::from_secs(4), "{:?}", began.elapsed());
    for watcher in &mut watchers {
        while watcher.next().is_some() {}
    }
}

#[test]
fn the_dashboard_reports_a_failed_device_and_shows_the_other_exports() {
    let (server, address) = start_server_of_drives(&["first", "second"], ClientLimits::default());
    let mut watcher = watch(address);
    assert!(watcher.next().is_some());
    let stopped = server.first_device_queue().run_and_wait(|_| panic!("a test breaks an invariant"));
    assert!(stopped.is_err());
    while watcher.next().is_some() {}
    let (head, sentence) = get(address, "/events/0");
    assert!(
        head.starts_with("HTTP/1.1 503 ") && sentence.starts_with("the device has stopped"),
        "{sentence}"
    );
    assert!(Watcher::connect_to_updates(address, 1).require_update_stream().next().is_some());
    server.stop_all();
}
