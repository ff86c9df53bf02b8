//! Two engines and one name.

use crate::engine::{Answers, Engine, directory, settings};
use crate::server::Server;
use crate::wait::until;
use perigee_discovery::{
    Directory, DiscoveryError, Extra, HandshakeServer, RpcMeta, SegmentDocument,
};
use std::sync::{Arc, Barrier};

#[test]
fn a_living_engine_keeps_its_name() {
    for server in Server::all() {
        let address = server.address();
        let first = Engine::start(&address, "one:1").unwrap();
        let refused = Engine::start(&address, "one:1").unwrap_err();
        let text = refused.to_string();
        assert!(matches!(refused, DiscoveryError::NameTaken { .. }), "{address}: {text}");
        assert!(text.contains(&first.place().to_string()), "{text}");
        assert_eq!(*directory(&address).segment("one:1").unwrap(), first.document, "{address}");

        first.directory.close();
        assert!(Engine::start(&address, "one:1").is_ok(), "{address}");
    }
}

#[test]
fn a_living_mooncake_engine_keeps_its_name() {
    let server = Server::http();
    let upstream = directory(&server.address());
    let answers = Arc::new(Answers::new(upstream.clone()));
    let greeter = HandshakeServer::bind(None, &settings()).unwrap().serve(answers).unwrap();
    upstream.publish_rpc("m:1", &RpcMeta::new("127.0.0.1", greeter.port())).unwrap();
    upstream.publish(&SegmentDocument::new("m:1", "tcp")).unwrap();
    let refused = Engine::start(&server.address(), "m:1").unwrap_err();
    assert!(matches!(refused, DiscoveryError::NameTaken { .. }), "{refused}");
}

#[test]
fn another_engine_behind_the_old_port_does_not_hold_a_name() {
    for server in Server::all() {
        let address = server.address();
        let stranger = Engine::start(&address, "stranger:1").unwrap();
        // A crashed engine left this behind; its port went to the stranger.
        let crashed = directory(&address);
        let place = stranger.place().of_life("another life");
        crashed.publish_rpc("old:1", &place).unwrap();

        let engine = Engine::start(&address, "old:1").unwrap();
        let other = directory(&address);
        assert_eq!(other.rpc_meta("old:1").unwrap(), engine.place(), "{address}");
    }
}

#[test]
fn an_engine_whose_address_cannot_be_found_keeps_its_name() {
    for server in Server::all() {
        let address = server.address();
        let elsewhere = directory(&address);
        let place = RpcMeta::new("no-such-host.invalid", 1).of_life("1");
        elsewhere.publish_rpc("far:1", &place).unwrap();
        let refused = Engine::start(&address, "far:1").unwrap_err();
        assert!(matches!(refused, DiscoveryError::NameUnclear { .. }), "{address}: {refused}");
        assert_eq!(elsewhere.rpc_meta("far:1").unwrap(), place, "{address}");
    }
}

/// The entries of an engine that is gone.
fn crashed_engine(address: &str, name: &str) -> Directory {
    let crashed = directory(address);
    let place = RpcMeta::new("127.0.0.1", 1).of_life("1");
    crashed.publish_rpc(name, &place).unwrap();
    let mut document = SegmentDocument::new(name, "tcp");
    document.perigee = Some(Extra::new("1"));
    crashed.publish(&document).unwrap();
    crashed
}

#[test]
fn of_several_engines_that_start_together_exactly_one_has_the_name() {
    for server in Server::all() {
        let address = server.address();
        for dead in [false, true] {
            let name = format!("race-{dead}:1");
            // What a crashed engine has left behind makes all of them replace something.
            let _crashed = dead.then(|| crashed_engine(&address, &name));
            // A service without conditions can only be asked to delete what the dead has left.
            if dead && matches!(server, Server::StrictHttp(_)) {
                continue;
            }
            let start = Barrier::new(4);
            let started: Vec<_> = std::thread::scope(|scope| {
                let one = || {
                    start.wait();
                    Engine::start(&address, &name)
                };
                let threads: Vec<_> = (0..4).map(|_| scope.spawn(one)).collect();
                threads.into_iter().map(|one| one.join().unwrap()).collect()
            });
            let winners: Vec<&Engine> = started.iter().flatten().collect();
            assert_eq!(winners.len(), 1, "{address} {name}: {started:?}");
            let other = directory(&address);
            assert_eq!(other.rpc_meta(&name).unwrap(), winners[0].place());
            assert_eq!(*other.segment(&name).unwrap(), winners[0].document);
        }
    }
}

#[test]
fn an_entry_that_was_taken_over_is_neither_fought_over_nor_removed() {
    for server in Server::all() {
        let address = server.address();
        // Entries without anything behind their port: their owner counts as dead.
        let frozen = directory(&address);
        frozen.publish_rpc("x:1", &RpcMeta::new("127.0.0.1", 1)).unwrap();
        frozen.publish(&SegmentDocument::new("x:1", "rdma")).unwrap();
        let engine = Engine::start(&address, "x:1").unwrap();
        let other = directory(&address);
        let late = frozen.publish(&SegmentDocument::new("x:1", "late"));
        assert!(matches!(late, Err(DiscoveryError::Lost { .. })), "{address}");
        // A while in which both give several renewals.
        let mut rounds = 0;
        until("the while is over", || {
            rounds += 1;
            assert_eq!(*other.reload("x:1").unwrap(), engine.document, "{address}");
            rounds > 100
        });
        let late = frozen.publish(&SegmentDocument::new("x:1", "late"));
        assert!(matches!(late, Err(DiscoveryError::Lost { .. })), "{address}");
        frozen.close();
        assert_eq!(*other.reload("x:1").unwrap(), engine.document, "{address}");
        assert_eq!(other.rpc_meta("x:1").unwrap(), engine.place(), "{address}");
    }
}
