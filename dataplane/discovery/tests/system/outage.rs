//! Metadata servers that go away and come back.

use crate::engine::{Engine, directory};
use crate::server::Server;
use crate::wait::until;
use perigee_discovery::DiscoveryError;

#[test]
fn entries_come_back_after_the_server_forgot_everything() {
    for mut server in [Server::http(), Server::etcd(), Server::redis()] {
        let address = server.address();
        let engine = Engine::start(&address, "a:1").unwrap();
        server.stop();
        let away = directory(&address).segment("a:1").unwrap_err();
        assert!(
            matches!(away, DiscoveryError::Backend { .. }),
            "{address}: {away}"
        );
        server.start();
        let other = directory(&address);
        until("the entries are back", || {
            other
                .reload("a:1")
                .is_ok_and(|found| *found == engine.document)
                && other
                    .rpc_meta("a:1")
                    .is_ok_and(|place| place == engine.place())
        });
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
