//! The dashboard: the live device in a browser, on a page that this server alone provides.
//!
//! `GET /` is the page, `/dashboard.css` and `/dashboard.js` are its style and script, `/exports` lists the devices as
//! JSON, and `/events/N` reports on the device of export N as server-sent events: one update per second (`feed`,
//! `update`). The style and the functions that draw charts are those of the HTML reports. They belong to the crate that
//! makes reports, and the program that starts the server passes them in as a [`DashboardAndReportAssets`], so that this
//! crate needs no simulator.
//!
//! The dashboard has no authentication. It can only be read, and only by this machine: it listens on loopback. A
//! browser on this machine also shows pages of strangers, and two checks keep them out. A request whose `Host` is not
//! this machine is refused, because a stranger's name can be made to resolve to a loopback address (DNS rebinding). So
//! is a request that a browser sends for another site (`Origin`, `Sec-Fetch-Site`).

mod feed;
mod update;

use std::io::{self, Read as _};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use feed::{UpdateFeed, UpdateSubscriber};

use crate::connection::ServedExport;
use crate::control;
use crate::device::FlashDevice;
use crate::device_queue::DeviceStopped;
use crate::http::{self, Answer, Request};
use crate::server::{BoundListener, ServeError, Server};
use crate::socket::{ListenAddress, Socket};

/// Maximum number of dashboard clients that receive updates at a time; a further client is refused with HTTP status
/// 503.
pub const UPDATE_SUBSCRIBERS_MAX: usize = 256;
/// Maximum number of simultaneous HTTP connections to the dashboard that receive no updates, only single answers.
const NON_SUBSCRIBER_CONNECTIONS_MAX: usize = 64;
/// Size of the send buffer, bytes, that the operating system keeps for a client that does not receive updates fast
/// enough.
const SEND_BUFFER_BYTES: usize = 16 << 10;

/// HTML of the dashboard's page.
const PAGE_HTML: &str = include_str!("dashboard.html");
/// CSS style sheet that only the dashboard uses.
const STYLE_CSS: &str = include_str!("dashboard.css");
/// JavaScript program of the dashboard's page.
const SCRIPT_JS: &str = include_str!("dashboard.js");

/// Style and scripts that the dashboard shares with the HTML pages of results.
#[derive(Clone, Debug, Default)]
pub struct DashboardAndReportAssets {
    /// CSS style sheet that the dashboard shares with the HTML reports.
    pub style: String,
    /// JavaScript functions and classes that create HTML elements, charts and block maps on the dashboard and in the
    /// HTML reports.
    pub script: String,
}

impl Server<FlashDevice> {
    /// Serves the dashboard at `address`, and returns the address with the port that was chosen.
    ///
    /// # Errors
    /// [`ServeError::Listen`], also for an address that other machines reach.
    pub fn open_dashboard(
        &mut self,
        address: &ListenAddress,
        shared_assets: &DashboardAndReportAssets,
    ) -> Result<ListenAddress, ServeError> {
        self.open_dashboard_on(BoundListener::listen_at(address)?, shared_assets)
    }

    /// Serves the dashboard on a socket that already listens, as [`Server::open_dashboard`] does at an address.
    ///
    /// # Errors
    /// [`ServeError::Listen`].
    pub fn open_dashboard_on(
        &mut self,
        bound_listener: BoundListener,
        shared_assets: &DashboardAndReportAssets,
    ) -> Result<ListenAddress, ServeError> {
        let subscribers_max = UPDATE_SUBSCRIBERS_MAX.min(self.connections_max());
        let site = DashboardSite {
            served_exports: Arc::clone(self.served_exports()),
            feed: UpdateFeed::start(Arc::clone(self.served_exports())),
            subscriber_limit: LimitedSubscriberSlots {
                used_slots: Arc::default(),
                max_slots: subscribers_max,
            },
            style: Arc::from(format!("{}{STYLE_CSS}", shared_assets.style)),
            script: Arc::from(format!("{}{SCRIPT_JS}", shared_assets.script)),
        };
        self.start_accepting_limited_clients(
            subscribers_max + NON_SUBSCRIBER_CONNECTIONS_MAX,
            bound_listener,
            move |socket| {
                // A client that disconnects or takes too long is not logged.
                let _ = site.serve(socket);
            },
        )
    }
}

/// State from which the dashboard answers HTTP requests. Each connection has a clone of it.
#[derive(Clone)]
struct DashboardSite {
    /// Exports of the server, whose devices the dashboard shows.
    served_exports: Arc<[ServedExport<FlashDevice>]>,
    /// Handle to the thread that sends device updates to dashboard clients.
    feed: UpdateFeed,
    /// Limit on the number of clients that receive updates, with the slots in use.
    subscriber_limit: LimitedSubscriberSlots,
    /// CSS style sheet that is sent for `/dashboard.css`.
    style: Arc<str>,
    /// JavaScript that is sent for `/dashboard.js`.
    script: Arc<str>,
}

impl DashboardSite {
    /// Answers the HTTP request of a dashboard client, or sends device updates to the client until it disconnects.
    fn serve(&self, socket: &Arc<Socket>) -> io::Result<()> {
        let Some(request) = http::read_request(socket)? else { return Ok(()) };
        match self.answer(&request) {
            Ok(DashboardAnswer::Whole(answer)) | Err(answer) => http::send_answer(socket, &request, &answer),
            Ok(DashboardAnswer::EventStream { .. }) if request.is_head_request() => {
                http::begin_unbounded_answer(socket, EVENT_STREAM_CONTENT_TYPE)
            }
            Ok(DashboardAnswer::EventStream { export, subscriber_slot }) => {
                self.serve_event_stream(socket, export, subscriber_slot)
            }
        }
    }

    /// Returns the answer to a dashboard request, according to its path.
    ///
    /// # Errors
    /// The HTTP answer that refuses the request.
    fn answer(&self, request: &Request) -> Result<DashboardAnswer, Answer> {
        refuse_cross_site_request(request)?;
        let whole = |content_type, body: &str| Ok(DashboardAnswer::Whole(Answer::ok(content_type, body)));
        match request.path() {
            "/" => whole("text/html; charset=utf-8", PAGE_HTML),
            "/dashboard.css" => whole("text/css; charset=utf-8", &self.style),
            "/dashboard.js" => whole("text/javascript; charset=utf-8", &self.script),
            "/exports" => {
                whole("application/json", &control::exports_answer(&self.served_exports).to_string())
            }
            path => self.begin_event_stream(path),
        }
    }

    /// Reserves a slot for a dashboard client that requests `/events/N`, the updates of export number N. Refuses a path
    /// without export, a stopped device, and a client for whom no slot is free.
    fn begin_event_stream(&self, path: &str) -> Result<DashboardAnswer, Answer> {
        let number = path.strip_prefix("/events/").and_then(|number| number.parse().ok());
        let found = number.and_then(|export: usize| Some((export, self.served_exports.get(export)?)));
        let Some((export, served_export)) = found else {
            return Err(Answer::refusal("404 Not Found", "there is no such page; the dashboard is at /"));
        };
        if !served_export.device_queue.is_alive() {
            let sentence = DeviceStopped.to_string();
            return Err(Answer::refusal("503 Service Unavailable", &sentence));
        }
        let Some(subscriber_slot) = self.subscriber_limit.take_slot() else {
            let max_places = self.subscriber_limit.max_slots;
            let sentence = format!(
                "the dashboard has the largest possible number of viewers ({max_places}): close one of the browser \
                 tabs or programs that show it"
            );
            return Err(Answer::refusal("503 Service Unavailable", &sentence));
        };
        Ok(DashboardAnswer::EventStream { export, subscriber_slot })
    }

    /// Adds a client to the receivers of updates of export number `export`, and waits until the client disconnects.
    /// Another thread (the update feed) gathers and sends the updates.
    fn serve_event_stream(
        &self,
        socket: &Arc<Socket>,
        export: usize,
        subscriber_slot: UpdateSubscriberSlot,
    ) -> io::Result<()> {
        socket.set_send_buffer_bytes(SEND_BUFFER_BYTES)?;
        http::begin_unbounded_answer(socket, EVENT_STREAM_CONTENT_TYPE)?;
        socket.set_read_timeout(None)?;
        let subscriber_slot = Arc::new(subscriber_slot);
        self.feed.add_subscriber(UpdateSubscriber::new(export, Arc::clone(socket), &subscriber_slot));
        // A client has nothing to say on this connection: what it sends ends it too.
        { &**socket }.read(&mut [0]).map(|_| ())
    }
}

/// Content type of HTTP answers that are streams of server-sent events.
const EVENT_STREAM_CONTENT_TYPE: &str = "text/event-stream";

/// Answer to a valid dashboard request: a whole document, or a stream of updates.
enum DashboardAnswer {
    /// Complete HTTP answer: a page, style sheet, script or list.
    Whole(Answer),
    /// Stream of updates of one export's device, sent to a client that got one of the limited slots for such streams.
    EventStream {
        /// Index of the export whose device the updates describe.
        export: usize,
        /// The client's slot among the limited number of clients that receive updates.
        subscriber_slot: UpdateSubscriberSlot,
    },
}

/// Slots for dashboard clients that receive updates: their maximum number, and the number in use.
#[derive(Clone)]
struct LimitedSubscriberSlots {
    /// Number of slots that connected clients use.
    used_slots: Arc<AtomicUsize>,
    /// Maximum number of clients that may receive updates at a time.
    max_slots: usize,
}

impl LimitedSubscriberSlots {
    /// Takes one of the slots for clients that receive updates; the slot is free again when the returned value is
    /// dropped. `None` if all slots are taken.
    fn take_slot(&self) -> Option<UpdateSubscriberSlot> {
        let more = |used_places| (used_places < self.max_slots).then_some(used_places + 1);
        self.used_slots.fetch_update(Ordering::AcqRel, Ordering::Acquire, more).ok()?;
        Some(UpdateSubscriberSlot(Arc::clone(&self.used_slots)))
    }
}

/// One of the limited number of slots for dashboard clients that receive updates.
struct UpdateSubscriberSlot(Arc<AtomicUsize>);

impl Drop for UpdateSubscriberSlot {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Refuses requests that a browser makes on behalf of another site.
///
/// # Errors
/// The HTTP answer that refuses the request.
fn refuse_cross_site_request(request: &Request) -> Result<(), Answer> {
    let forbidden = |sentence: &str| Err(Answer::refusal("403 Forbidden", sentence));
    let mut hosts = request.header_values("Host");
    let (Some(host), None) = (hosts.next(), hosts.next()) else {
        return Err(Answer::refusal("400 Bad Request", "the request must have exactly one Host header"));
    };
    if !is_loopback_host(host) {
        return forbidden(
            "the dashboard answers only on its own machine: open it there as http://localhost:PORT or \
             http://127.0.0.1:PORT, or on another machine through a tunnel (ssh -L)",
        );
    }
    let own = format!("http://{host}");
    let is_foreign_origin = request.header_values("Origin").any(|origin| !origin.eq_ignore_ascii_case(&own));
    let is_foreign_fetch =
        request.header_values("Sec-Fetch-Site").any(|site| !matches!(site, "same-origin" | "none"));
    if is_foreign_origin || is_foreign_fetch {
        return forbidden(
            "the request comes from a page of another site: open the dashboard by its own address",
        );
    }
    Ok(())
}

/// Whether a `Host` header names this machine: `localhost` or a loopback address, with any port, since a tunnel may use
/// another port.
fn is_loopback_host(host: &str) -> bool {
    let (name, port) = match host.rsplit_once(':') {
        Some((name, port)) if !port.ends_with(']') => (name, port),
        _ => (host, "80"),
    };
    let address = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
    let is_loopback = address.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
    port.parse::<u16>().is_ok() && (is_loopback || name.eq_ignore_ascii_case("localhost"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_dashboard_accepts_only_host_names_of_loopback() {
        for host in [
            "localhost",
            "LocalHost:8080",
            "127.0.0.1",
            "127.0.0.1:9111",
            "127.8.8.8:1",
            "[::1]",
            "[::1]:9111",
        ] {
            assert!(is_loopback_host(host), "{host}");
        }
        for host in [
            "",
            "evil.example",
            "localhost.evil.example",
            "127.0.0.1.evil.example:80",
            "localhost:",
            "localhost:x",
            "localhost:80:80",
            "user@localhost",
            "0.0.0.0:80",
            "192.168.0.1",
            "[::]:80",
            "::1",
            "[::1",
            "localhost.",
        ] {
            assert!(!is_loopback_host(host), "{host}");
        }
    }
}
