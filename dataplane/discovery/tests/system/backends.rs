//! What every metadata server must do alike.

use crate::engine::{Engine, directory, settings};
use crate::server::Server;
use perigee_discovery::{Directory, DiscoveryError, DiscoverySettings};
use std::net::TcpListener;
use std::time::Duration;

#[test]
fn entries_are_found_changed_and_gone_after_close() {
    for server in Server::all() {
        let address = server.address();
        let mut engine = Engine::start(&address, "host:17001").unwrap();
        let other = directory(&address);
        assert_eq!(*other.segment("host:17001").unwrap(), engine.document, "{address}");
        assert_eq!(other.rpc_meta("host:17001").unwrap(), engine.place(), "{address}");

        engine.document.tcp_data_port = 99;
        engine.directory.publish(&engine.document).unwrap();
        assert_eq!(other.segment("host:17001").unwrap().tcp_data_port, 0, "from the cache");
        assert_eq!(other.reload("host:17001").unwrap().tcp_data_port, 99, "{address}");

        engine.directory.close();
        let gone = other.reload("host:17001").unwrap_err();
        assert!(matches!(gone, DiscoveryError::NotFound { .. }), "{address}: {gone}");
        let gone = other.rpc_meta("host:17001").unwrap_err();
        assert!(matches!(gone, DiscoveryError::NotFound { .. }), "{address}: {gone}");
        let closed = engine.directory.publish(&engine.document).unwrap_err();
        assert_eq!(closed, DiscoveryError::Closed, "{address}");
    }
}

#[test]
fn clusters_do_not_see_each_other() {
    for server in Server::all() {
        let address = server.address();
        let _engine = Engine::start(&address, "a:1").unwrap();
        let settings = DiscoverySettings { cluster: "blue".to_owned(), ..settings() };
        let other = Directory::open(&address, settings).unwrap();
        assert!(other.segment("a:1").is_err(), "{address}");
    }
}

#[test]
fn names_with_any_characters_are_kept_apart() {
    for server in Server::all() {
        let address = server.address();
        let names = ["a b/c?d&e=f%41:1", "a b/c?d&e=f:1", "K\u{f6}ln:1", "[fe80::1]:17001"];
        let engines = names.map(|name| Engine::start(&address, name).unwrap());
        let other = directory(&address);
        for (name, engine) in names.iter().zip(&engines) {
            assert_eq!(*other.segment(name).unwrap(), engine.document, "{address} {name}");
        }
    }
}

#[test]
fn a_server_that_never_answers_ends_in_an_error() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = silent.local_addr().unwrap().port();
    let settings = DiscoverySettings { call_deadline: Duration::from_millis(200), ..settings() };
    for address in [
        format!("http://127.0.0.1:{port}/metadata"),
        format!("etcd://127.0.0.1:{port}"),
        format!("redis://127.0.0.1:{port}"),
    ] {
        let directory = Directory::open(&address, settings.clone()).unwrap();
        let text = directory.segment("a:1").unwrap_err().to_string();
        assert!(text.contains("did not answer") && text.contains(&address), "{text}");
    }
}

#[test]
fn a_server_that_is_none_ends_in_an_error() {
    let redis = Server::redis().address();
    let etcd = Server::etcd();
    let port = |address: &str| address.rsplit(':').next().unwrap().to_owned();
    for address in [
        format!("etcd://127.0.0.1:{}", port(&redis)),
        format!("http://127.0.0.1:{}/metadata", port(&redis)),
        format!("redis://127.0.0.1:{}", port(&etcd.address())),
    ] {
        let error = directory(&address).segment("a:1").unwrap_err();
        assert!(matches!(error, DiscoveryError::Backend { .. }), "{address}: {error}");
    }
}

#[test]
fn cached_documents_serve_while_the_server_is_away() {
    let mut server = Server::http();
    let address = server.address();
    let _engine = Engine::start(&address, "a:1").unwrap();
    let settings = DiscoverySettings { refresh: Some(Duration::ZERO), ..settings() };
    let other = Directory::open(&address, settings).unwrap();
    other.segment("a:1").unwrap();
    server.stop();
    assert_eq!(other.segment("a:1").unwrap().name, "a:1");
    assert!(other.reload("a:1").is_err());
    other.forget("a:1");
    assert!(other.segment("a:1").is_err());
}

#[test]
fn without_the_cache_every_change_is_seen_at_once() {
    let server = Server::http();
    let mut engine = Engine::start(&server.address(), "a:1").unwrap();
    let settings = DiscoverySettings { cache: false, ..settings() };
    let other = Directory::open(&server.address(), settings).unwrap();
    other.segment("a:1").unwrap();
    engine.document.tcp_data_port = 7;
    engine.directory.publish(&engine.document).unwrap();
    assert_eq!(other.segment("a:1").unwrap().tcp_data_port, 7);
}
