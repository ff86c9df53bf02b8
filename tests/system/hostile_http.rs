//! Wrong and hostile HTTP on the master's routes and on both metadata services.
//! Invariant: the port goes on answering others.

use std::net::SocketAddr;

use perigee_tests::cluster::{METADATA, Master};
use perigee_tests::deadline::wait_until;
use perigee_tests::http;
use perigee_tests::limits::{HOSTILE_GROWTH_BYTES_MAX, START_DEADLINE};
use perigee_tests::network::{free_ports, loopback};
use perigee_tests::noise::Noise;
use perigee_tests::program::Program;
use perigee_tests::wire::Connection;

/// Runs `attack` on every HTTP port and checks that each still answers `/health`.
fn on_every_http_port(attack: impl Fn(SocketAddr)) {
    let mut master = Master::start(&[]);
    let [port] = free_ports();
    let flags = ["--host=127.0.0.1".to_owned(), format!("--port={port}")];
    let mut metadata = Program::start(METADATA, &flags);
    let standalone = loopback(port);
    wait_until("the metadata service answers", START_DEADLINE, || {
        http::request(standalone, "GET", "/health").is_ok()
    });
    for port in [master.http, master.metadata, standalone] {
        let before = master.program.status_bytes("VmRSS") + metadata.status_bytes("VmRSS");
        attack(port);
        assert_eq!(http::get(port, "/health").status, 200);
        let after = master.program.status_bytes("VmRSS") + metadata.status_bytes("VmRSS");
        assert!(after.saturating_sub(before) <= HOSTILE_GROWTH_BYTES_MAX);
    }
    assert!(master.program.is_running() && metadata.is_running());
    for log in [master.program.log(), metadata.log()] {
        assert!(!log.contains("panicked"), "{log}");
    }
}

#[test]
fn a_page_of_another_site_changes_nothing() {
    let master = Master::start(&[]);
    for head in [
        "Host: 127.0.0.1\r\nOrigin: http://evil.example\r\n",
        "Host: evil.example\r\n",
        "Host: evil.example\r\nOrigin: http://evil.example\r\n",
    ] {
        for path in ["/api/v1/remove_all?force=true", "/api/v1/drain_jobs"] {
            let mut connection = Connection::open(master.http).unwrap();
            let request = format!(
                "POST {path} HTTP/1.1\r\n{head}Content-Type: text/plain\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
            );
            connection.send(request.as_bytes());
            let answer = connection.hear_text();
            assert!(answer.starts_with("HTTP/1.1 403"), "{head}{path}: {answer}");
        }
    }
}

#[test]
fn random_bytes_do_not_stop_the_service() {
    on_every_http_port(|port| {
        for seed in 0..60 {
            let mut noise = Noise::new(seed);
            let mut connection = Connection::open(port).unwrap();
            connection.send(&noise.bytes(2048));
            connection.finish_sending();
        }
    });
}

#[test]
fn endless_headers_are_cut_off() {
    on_every_http_port(|port| {
        let mut connection = Connection::open(port).unwrap();
        connection.send(b"GET /health HTTP/1.1\r\n");
        let line = [b"X-A: ".as_slice(), &[b'a'; 4096], b"\r\n"].concat();
        let mut sent = 0;
        while sent < 64 << 20 && connection.send(&line) {
            sent += line.len();
        }
        assert!(sent < 64 << 20, "64 MiB of headers were taken");
    });
}

#[test]
fn a_huge_announced_body_is_not_allocated() {
    on_every_http_port(|port| {
        for path in ["/metadata?key=a", "/api/v1/remove_all", "/api/v1/drain_jobs"] {
            for method in ["PUT", "POST"] {
                let mut connection = Connection::open(port).unwrap();
                let head = format!(
                    "{method} {path} HTTP/1.1\r\nHost: a\r\nContent-Length: 9000000000000\r\n\r\nabc"
                );
                connection.send(head.as_bytes());
                connection.finish_sending();
            }
        }
    });
}

#[test]
fn unknown_paths_and_methods_are_refused_politely() {
    on_every_http_port(|port| {
        for (method, path) in [
            ("GET", "/no/such/route"),
            ("GET", "/%ff%fe"),
            ("GET", "//"),
            ("DELETE", "/metrics"),
            ("BREW", "/health"),
        ] {
            let answer = http::request(port, method, path).unwrap();
            assert!((400..500).contains(&answer.status), "{method} {path}: {answer:?}");
        }
    });
}

#[test]
fn half_requests_do_not_keep_others_waiting() {
    on_every_http_port(|port| {
        let half: Vec<Connection> = (0..200)
            .map(|_| {
                let mut connection = Connection::open(port).unwrap();
                connection.send(b"GET /health HT");
                connection
            })
            .collect();
        assert_eq!(http::get(port, "/health").status, 200);
        drop(half);
    });
}
