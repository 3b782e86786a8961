//! HTTP for the metrics and the dashboard: one GET or HEAD request per connection, and no request body.
//!
//! A request is at most [`REQUEST_HEADER_MAX_BYTES`] and must arrive within [`HTTP_TRANSFER_TIMEOUT`]. The client has
//! the same time to accept the answer. So a client that is silent or slow occupies the thread of its connection for
//! that time, and nothing else waits for it. Requests that are malformed or not GET or HEAD are refused here.
//!
//! Every answer has headers by which a browser gives its content to no other site: it may not be framed, read or
//! included by another page, nor be interpreted as another type, and a page loads only what this server has.

use std::io::{self, Read as _, Write as _};
use std::time::{Duration, Instant};

use crate::socket::Socket;

/// Longest header of an HTTP request, bytes.
pub const REQUEST_HEADER_MAX_BYTES: usize = 8 << 10;
/// Longest time for the arrival of an HTTP request, and for the client to accept the answer.
pub const HTTP_TRANSFER_TIMEOUT: Duration = Duration::from_secs(5);

/// HTTP headers of every answer. Images are allowed only as `data:` URLs in the page, for its icon.
const SECURITY_HEADERS: &str = "Content-Security-Policy: default-src 'none'; script-src 'self'; style-src 'self'; \
     connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'\r\n\
     X-Frame-Options: DENY\r\n\
     X-Content-Type-Options: nosniff\r\n\
     Referrer-Policy: no-referrer\r\n\
     Cross-Origin-Resource-Policy: same-origin\r\n\
     Cross-Origin-Opener-Policy: same-origin\r\n\
     Cache-Control: no-store\r\n\
     Connection: close\r\n";

/// Content type of an HTTP answer that is one sentence of plain text.
const PLAIN_TEXT_CONTENT_TYPE: &str = "text/plain; charset=utf-8";

/// A valid HTTP request with the method GET or HEAD.
#[derive(PartialEq, Eq, Debug)]
pub(crate) struct Request {
    /// Whether the method is HEAD, whose answer has no body; otherwise it is GET.
    is_head_request: bool,
    /// Path of the requested URL, without the query.
    path: String,
    /// Names and values of the headers, in the order of their arrival.
    headers: Vec<(String, String)>,
}

impl Request {
    /// Returns the path of the requested URL, without the query.
    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    /// Whether the method of the request is HEAD, so that its answer has no body.
    pub(crate) fn is_head_request(&self) -> bool {
        self.is_head_request
    }

    /// Returns all values of the HTTP header `name`.
    pub(crate) fn header_values<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        let named = self.headers.iter().filter(move |(known, _)| known.eq_ignore_ascii_case(name));
        named.map(|(_, value)| value.as_str())
    }

    /// Parses the header of an HTTP request (request line and header lines).
    ///
    /// # Errors
    /// The error answer to send to the client.
    fn parse_header(head: &[u8]) -> Result<Self, Answer> {
        let malformed =
            || Answer::refusal("400 Bad Request", "the request must be valid HTTP/1.1, but is not");
        if head.len() > REQUEST_HEADER_MAX_BYTES {
            return Err(Answer::refusal(
                "431 Request Header Fields Too Large",
                &format!(
                    "the header of the request is too long: send at most {REQUEST_HEADER_MAX_BYTES} bytes"
                ),
            ));
        }
        let head = str::from_utf8(head).map_err(|_| malformed())?;
        let mut lines = head.trim_end_matches("\r\n").split("\r\n");
        let words: Vec<&str> = lines.next().unwrap_or_default().split(' ').collect();
        let [method, target, version] = words[..] else { return Err(malformed()) };
        if !version.starts_with("HTTP/1.") {
            return Err(malformed());
        }
        if !matches!(method, "GET" | "HEAD") {
            return Err(Answer::refusal(
                "405 Method Not Allowed",
                "only GET and HEAD are allowed: nothing can be changed over HTTP",
            ));
        }
        let headers: Option<Vec<_>> = lines.map(parse_header_line).collect();
        let path = target.split('?').next().unwrap_or_default().to_owned();
        Ok(Self { is_head_request: method == "HEAD", path, headers: headers.ok_or_else(malformed)? })
    }
}

/// Splits a header line of an HTTP request into name and value; `None` if the line is malformed.
fn parse_header_line(line: &str) -> Option<(String, String)> {
    let (name, value) = line.split_once(':')?;
    let is_name = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_graphic());
    is_name.then(|| (name.to_owned(), value.trim().to_owned()))
}

/// An HTTP answer with status, content type and complete body.
#[derive(PartialEq, Eq, Debug)]
pub(crate) struct Answer {
    /// HTTP status of the answer: code and reason.
    status: &'static str,
    /// Value of the header `Content-Type`.
    content_type: &'static str,
    /// Body of the answer.
    body: String,
}

impl Answer {
    /// Returns an answer with the status `200 OK`.
    pub(crate) fn ok(content_type: &'static str, body: impl Into<String>) -> Self {
        Self { status: "200 OK", content_type, body: body.into() }
    }

    /// Returns an answer with an error status and a sentence that says why and what to do.
    pub(crate) fn refusal(status: &'static str, sentence: &str) -> Self {
        Self { status, content_type: PLAIN_TEXT_CONTENT_TYPE, body: format!("{sentence}\n") }
    }

    /// Encodes the HTTP answer: its header, and, unless the request was HEAD, its body.
    fn encode(&self, has_body: bool) -> String {
        let length = self.body.len();
        let allow = if self.status.starts_with("405") { "Allow: GET, HEAD\r\n" } else { "" };
        let body = if has_body { self.body.as_str() } else { "" };
        let length = format!("{allow}Content-Length: {length}\r\n");
        format!("{}{length}\r\n{body}", response_header(self.status, self.content_type))
    }
}

/// Returns the status line and the headers that every HTTP answer has, without the empty line that ends the header.
fn response_header(status: &str, content_type: &str) -> String {
    format!("HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\n{SECURITY_HEADERS}")
}

/// Reads an HTTP request. A request that is no valid GET or HEAD is refused here with an error answer. Returns `None`
/// after a refusal, and if the client disconnects or takes too long.
///
/// # Errors
/// Errors of the socket.
pub(crate) fn read_request(socket: &Socket) -> io::Result<Option<Request>> {
    let Some(head) = read_request_header(socket)? else { return Ok(None) };
    match Request::parse_header(&head) {
        Ok(request) => Ok(Some(request)),
        Err(refusal) => {
            write_within_timeout(socket, refusal.encode(true).as_bytes())?;
            Ok(None)
        }
    }
}

/// Reads the header of an HTTP request up to its empty line, or until the header is too long. `None` if the client
/// disconnects, or the header has not arrived within [`HTTP_TRANSFER_TIMEOUT`].
fn read_request_header(socket: &Socket) -> io::Result<Option<Vec<u8>>> {
    let deadline = Instant::now() + HTTP_TRANSFER_TIMEOUT;
    let mut head = Vec::new();
    while head.len() <= REQUEST_HEADER_MAX_BYTES {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(None);
        }
        socket.set_read_timeout(Some(left))?;
        let mut chunk = [0; 1024];
        let count = { socket }.read(&mut chunk)?;
        if count == 0 {
            return Ok(None);
        }
        // The end may have arrived in two parts.
        let searched = head.len().saturating_sub(3);
        head.extend(&chunk[..count]);
        if let Some(end) = head[searched..].windows(4).position(|end| end == b"\r\n\r\n") {
            head.truncate(searched + end + 4);
            break;
        }
    }
    Ok(Some(head))
}

/// Sends the answer to an HTTP request.
///
/// # Errors
/// Errors of the socket; for example, the client did not accept the answer in time.
pub(crate) fn send_answer(socket: &Socket, request: &Request, answer: &Answer) -> io::Result<()> {
    write_within_timeout(socket, answer.encode(!request.is_head_request).as_bytes())
}

/// Sends the header of an HTTP answer whose length is not known. The caller sends the body, which ends when the
/// connection is closed.
///
/// # Errors
/// As [`send_answer`].
pub(crate) fn begin_unbounded_answer(socket: &Socket, content_type: &str) -> io::Result<()> {
    write_within_timeout(socket, format!("{}\r\n", response_header("200 OK", content_type)).as_bytes())
}

/// Sends `bytes` to the client, which has to accept all of them within [`HTTP_TRANSFER_TIMEOUT`].
fn write_within_timeout(socket: &Socket, mut bytes: &[u8]) -> io::Result<()> {
    let deadline = Instant::now() + HTTP_TRANSFER_TIMEOUT;
    while !bytes.is_empty() {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        socket.set_write_timeout(Some(left))?;
        match { socket }.write(bytes) {
            Ok(count) => bytes = &bytes[count..],
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_http_request_is_parsed_into_its_path_and_headers() {
        let request =
            Request::parse_header(b"HEAD /a?b HTTP/1.1\r\nHost: x\r\nhOST:y \r\n\r\n").expect("it is one");
        assert_eq!((request.path(), request.is_head_request()), ("/a", true));
        assert_eq!(request.header_values("host").collect::<Vec<_>>(), ["x", "y"]);
    }

    #[test]
    fn an_http_request_with_a_malformed_header_is_refused() {
        for line in ["Host", ": x", "Ho st: x", " Host: x"] {
            let refusal = Request::parse_header(format!("GET / HTTP/1.1\r\n{line}\r\n\r\n").as_bytes());
            assert_eq!(refusal.map_err(|answer| answer.status), Err("400 Bad Request"), "{line}");
        }
    }
}
