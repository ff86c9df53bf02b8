//! The server against patient, impatient and hostile peers. Invariant: every read has a deadline.

use super::*;
use crate::request_origin::RequestOrigin;
use axum::routing::{get, post};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

fn start(router: Router) -> HttpHandle {
    let any_port = SocketAddr::from(([127, 0, 0, 1], 0));
    HttpServer::start("http-test", any_port, router).expect("a loopback port is free")
}

fn connect(handle: &HttpHandle) -> TcpStream {
    let stream = TcpStream::connect(handle.local_addr()).expect("the server listens");
    stream.set_read_timeout(Some(Duration::from_secs(30))).expect("a timeout can be set");
    stream
}

/// Sends bytes and reads until the server closes.
fn talk(handle: &HttpHandle, bytes: &[u8]) -> String {
    let mut stream = connect(handle);
    let mut answer = Vec::new();
    stream.write_all(bytes).expect("the server reads");
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8_lossy(&answer).into_owned()
}

fn hello() -> Router {
    Router::new().route("/", get(|| async { "hello" }))
}

#[test]
fn a_route_knows_who_asks() {
    let shown = |axum::Extension(RequestOrigin(from))| async move { from.to_string() };
    let handle = start(Router::new().route("/", get(shown)));
    let mut stream = connect(&handle);
    let own = stream.local_addr().unwrap().to_string();
    stream.write_all(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.ends_with(&own), "{answer}");
}

#[test]
fn serves_a_route_and_stops() {
    let handle = start(hello());
    let address = handle.local_addr();
    let answer = talk(&handle, b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("hello"), "{answer}");
    handle.stop();
    assert!(TcpStream::connect(address).is_err());
}

#[test]
fn port_in_use_is_an_error_that_names_the_address() {
    let first = start(hello());
    for start in [HttpServer::start, HttpServer::start_if_free] {
        let error = start("second", first.local_addr(), hello()).unwrap_err();
        assert!(error.to_string().contains(&first.local_addr().to_string()), "{error}");
    }
}

#[test]
fn a_port_that_is_free_a_moment_later_is_waited_for() {
    let dying = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = dying.local_addr().unwrap();
    let (tried, refused) = std::sync::mpsc::channel();
    let frees = std::thread::spawn(move || {
        refused.recv().unwrap();
        drop(dying);
    });
    assert!(HttpServer::start_if_free("second", address, hello()).is_err());
    tried.send(()).unwrap();
    let handle = HttpServer::start("second", address, hello()).expect("it is free soon");
    assert_eq!(handle.local_addr(), address);
    frees.join().unwrap();
}

#[test]
fn random_bytes_are_answered_or_closed_and_the_server_lives_on() {
    let handle = start(hello());
    for bytes in [&b"\x00\xff\x13\x37\r\n\r\n"[..], b"GET\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n"] {
        let answer = talk(&handle, bytes);
        assert!(!answer.contains("hello"), "{answer}");
    }
    let answer = talk(&handle, b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    assert!(answer.ends_with("hello"));
}

#[test]
fn oversized_body_is_refused_without_reading_it() {
    let handle = start(Router::new().route("/", post(|body: String| async move { body })));
    let head = format!(
        "POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: {}\r\n\r\n",
        BODY_BYTES_MAX + 1
    );
    assert!(talk(&handle, head.as_bytes()).starts_with("HTTP/1.1 413"));
}

#[test]
fn idle_connections_do_not_hold_up_a_stop() {
    let handle = start(hello());
    let idle: Vec<TcpStream> = (0..50).map(|_| connect(&handle)).collect();
    let answer = talk(&handle, b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    assert!(answer.ends_with("hello"));
    handle.stop();
    for mut stream in idle {
        assert!(matches!(stream.read(&mut [0; 16]), Ok(0) | Err(_)));
    }
}

fn start_impatient(router: Router) -> HttpHandle {
    let any_port = SocketAddr::from(([127, 0, 0, 1], 0));
    let soon = Duration::from_millis(100);
    let deadlines = Deadlines { head: soon, request: soon };
    let bound = (any_port, bind_within(any_port, Duration::ZERO));
    HttpServer::serve("http-test", bound, router, deadlines).expect("a port is free")
}

#[test]
fn half_sent_head_ends_by_its_deadline() {
    let handle = start_impatient(hello());
    let mut stream = connect(&handle);
    stream.write_all(b"GET / HTTP/1.1\r\nHo").expect("the server reads");
    let ended = stream.read_to_end(&mut Vec::new());
    assert!(ended.is_ok(), "the connection outlived its deadline: {ended:?}");
}

#[test]
fn body_that_never_comes_is_answered_by_its_deadline() {
    let handle = start_impatient(Router::new().route("/", post(|body: String| async { body })));
    let head = b"POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 9\r\n\r\nab";
    assert!(talk(&handle, head).starts_with("HTTP/1.1 503"));
}

#[test]
fn handler_that_never_answers_is_given_up() {
    let handle = start_impatient(Router::new().route("/", get(std::future::pending::<()>)));
    let answer = talk(&handle, b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    assert!(answer.starts_with("HTTP/1.1 503"), "{answer}");
}

/// More than the kernel keeps for a connection.
const LARGE: usize = 32 << 20;

fn large_and_small() -> Router {
    let large = || async { "x".repeat(LARGE) };
    hello().route("/large", get(large))
}

/// Asks and reads the first bytes of the answer only.
fn ask_without_reading(handle: &HttpHandle, path: &str) -> (TcpStream, String) {
    let mut stream = connect(handle);
    let request = format!("GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    let mut head = [0; 12];
    stream.write_all(request.as_bytes()).expect("the server reads");
    stream.read_exact(&mut head).expect("an answer begins");
    (stream, String::from_utf8_lossy(&head).into_owned())
}

#[test]
fn unread_answers_have_one_budget_and_small_ones_are_given_beside_them() {
    let handle = start(large_and_small());
    let admitted = crate::limits::ANSWER_BYTES_MAX as usize / LARGE;
    let unread: Vec<_> = (0..admitted).map(|_| ask_without_reading(&handle, "/large")).collect();
    assert!(unread.iter().all(|(_, head)| head == "HTTP/1.1 200"));
    assert_eq!(ask_without_reading(&handle, "/large").1, "HTTP/1.1 503");
    assert_eq!(ask_without_reading(&handle, "/").1, "HTTP/1.1 200");
    drop(unread);
    // The server hears of the departures before or after the next request.
    let mut whole = String::new();
    while !whole.starts_with("HTTP/1.1 200") {
        whole = talk(&handle, b"GET /large HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    }
    assert!(whole.len() > LARGE, "{} bytes", whole.len());
}

#[test]
fn only_large_answers_are_packed_and_only_if_accepted() {
    let large = || async { "perigee ".repeat(4096) };
    let handle = start(hello().route("/large", get(large)));
    let ask = |path: &str, accepts: &str| {
        let head = format!("GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n{accepts}\r\n");
        talk(&handle, head.as_bytes())
    };
    let packed = ask("/large", "Accept-Encoding: gzip\r\n");
    assert!(packed.contains("content-encoding: gzip") && packed.len() < 2048, "{}", packed.len());
    let plain = ask("/large", "");
    assert!(!plain.contains("content-encoding") && plain.contains("content-length: 32768"));
    let refused = ask("/large", "Accept-Encoding: gzip;q=0, br\r\n");
    assert!(!refused.contains("content-encoding"));
    assert!(ask("/", "Accept-Encoding: gzip\r\n").ends_with("hello"));
}
