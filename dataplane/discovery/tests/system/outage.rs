//! Metadata servers that go away and come back.

use crate::engine::{Engine, directory, settings};
use crate::server::Server;
use crate::wait::until;
use perigee_discovery::{DiscoveryError, DiscoverySettings};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

#[test]
fn entries_come_back_after_the_server_forgot_everything() {
    for mut server in [Server::http(), Server::etcd(), Server::redis()] {
        let address = server.address();
        let engine = Engine::start(&address, "a:1").unwrap();
        server.stop();
        let away = directory(&address).segment("a:1").unwrap_err();
        assert!(matches!(away, DiscoveryError::Backend { .. }), "{address}: {away}");
        server.start();
        let other = directory(&address);
        until("the entries are back", || {
            other.reload("a:1").is_ok_and(|found| *found == engine.document)
                && other.rpc_meta("a:1").is_ok_and(|place| place == engine.place())
        });
    }
}

#[test]
fn a_server_that_forgot_everything_has_all_entries_again_with_the_next_publication() {
    for mut server in [Server::http(), Server::etcd(), Server::redis()] {
        let address = server.address();
        // No renewal comes while the test runs.
        let settings = DiscoverySettings { entry_life: Duration::from_secs(3600), ..settings() };
        let engine = Engine::start_with(&address, "a:1", settings).unwrap();
        server.stop();
        server.start();
        until("the server takes documents", || engine.directory.publish(&engine.document).is_ok());
        assert_eq!(directory(&address).rpc_meta("a:1"), Ok(engine.place()));
    }
}

#[test]
fn what_changed_while_the_server_was_silent_is_written_when_it_answers() {
    for server in [Server::etcd(), Server::redis()] {
        let address = server.address();
        let settings = DiscoverySettings { call_deadline: Duration::from_secs(1), ..settings() };
        let engine = Engine::start_with(&address, "a:1", settings).unwrap();
        let document = Arc::new(Mutex::new(engine.document.clone()));
        let newest = document.clone();
        let compose = move || Some(newest.lock().unwrap().clone());
        engine.directory.speak_for(Box::new(compose)).unwrap();
        let change = |port: u16| document.lock().unwrap().tcp_data_port = port;
        change(5);
        engine.directory.publish_newest().unwrap();
        server.signal("STOP");
        change(6);
        assert!(engine.directory.publish_newest().is_err());
        // The caller takes back what could not be published, or has taken back more since.
        change(7);
        server.signal("CONT");
        let other = directory(&address);
        until("the newest document is there", || {
            other.reload("a:1").is_ok_and(|found| found.tcp_data_port == 7)
        });
        assert_eq!(engine.directory.own().unwrap().tcp_data_port, 7);
    }
}

#[test]
fn closing_ends_while_the_server_is_away() {
    for mut server in [Server::http(), Server::etcd(), Server::redis()] {
        let engine = Engine::start(&server.address(), "a:1").unwrap();
        server.stop();
        engine.directory.close();
        assert!(engine.directory.publish(&engine.document).is_err());
    }
}

#[test]
fn a_change_that_was_refused_leaves_the_one_before() {
    let mut server = Server::redis();
    let mut engine = Engine::start(&server.address(), "a:1").unwrap();
    let before = engine.document.clone();
    server.stop();
    engine.document.tcp_data_port = 5;
    assert!(engine.directory.publish(&engine.document).is_err());
    assert_eq!(*engine.directory.own().unwrap(), before);
    server.start();
    engine.directory.publish(&engine.document).unwrap();
    let other = directory(&server.address());
    assert_eq!(other.segment("a:1").unwrap().tcp_data_port, 5);
}

#[test]
fn calls_on_a_frozen_server_do_not_wait_for_each_other() {
    const CALLS: u32 = 12;
    let limit = Duration::from_secs(1);
    for server in [Server::etcd(), Server::redis()] {
        let address = server.address();
        let settings = DiscoverySettings { call_deadline: limit, ..settings() };
        let engine = Engine::start_with(&address, "a:1", settings).unwrap();
        server.signal("STOP");
        let begun = Instant::now();
        std::thread::scope(|scope| {
            for _ in 0..CALLS {
                scope.spawn(|| {
                    let refused = engine.directory.publish(&engine.document).unwrap_err();
                    let text = refused.to_string();
                    assert!(text.contains("did not answer"), "{address}: {text}");
                });
            }
        });
        // One after the other they would take twice as long.
        assert!(begun.elapsed() < CALLS * limit / 2, "{address}");
        server.signal("CONT");
        until("the server takes documents again", || {
            engine.directory.publish(&engine.document).is_ok()
        });
        server.signal("STOP");
        engine.directory.close();
        server.signal("CONT");
    }
}
