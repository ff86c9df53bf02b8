//! A process that is killed: its entries go, its name is free.
//! The process is this test program again, asked to be an engine by two variables.

use crate::engine::{Engine, directory};
use crate::server::{Process, Server};
use crate::wait::until;
use perigee_discovery::DiscoveryError;
use std::process::{Command, Stdio};
use std::thread::park;

const ADDRESS: &str = "PERIGEE_TEST_ENGINE_ADDRESS";
const NAME: &str = "PERIGEE_TEST_ENGINE_NAME";

/// Starts another process with an engine and waits until its entries are there.
pub(crate) fn engine_process(address: &str, name: &str) -> Process {
    let process = Process::start(
        Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "crash::engine_until_killed", "--ignored"])
            .env(ADDRESS, address)
            .env(NAME, name)
            .stdout(Stdio::null()),
    );
    let other = directory(address);
    until("the engine's entries are there", || other.reload(name).is_ok());
    process
}

#[test]
#[ignore = "the process that the other tests kill"]
fn engine_until_killed() {
    let (Ok(address), Ok(name)) = (std::env::var(ADDRESS), std::env::var(NAME)) else {
        return;
    };
    let _engine = Engine::start(&address, &name).unwrap();
    loop {
        park();
    }
}

#[test]
fn entries_of_a_killed_process_vanish() {
    for server in [Server::http(), Server::etcd(), Server::redis()] {
        let address = server.address();
        let mut process = engine_process(&address, "gone:1");
        let other = directory(&address);
        process.kill();
        until("the entries have vanished", || {
            let segment = other.reload("gone:1");
            let place = other.rpc_meta("gone:1");
            matches!(segment, Err(DiscoveryError::NotFound { .. }))
                && matches!(place, Err(DiscoveryError::NotFound { .. }))
        });
    }
}

#[test]
fn entries_of_a_living_process_outlast_their_life() {
    for server in [Server::http(), Server::etcd(), Server::redis()] {
        let address = server.address();
        let engine = Engine::start(&address, "alive:1").unwrap();
        let other = directory(&address);
        // Whose entries vanish shows when a life has passed.
        let mut witness = engine_process(&address, "witness:1");
        witness.kill();
        until("the witness has vanished", || other.reload("witness:1").is_err());
        assert_eq!(*other.reload("alive:1").unwrap(), engine.document, "{address}");
    }
}

#[test]
fn a_restarted_engine_takes_its_name_back_at_once() {
    for server in Server::all() {
        let address = server.address();
        engine_process(&address, "same:17001").kill();
        let engine = Engine::start(&address, "same:17001").unwrap();
        let other = directory(&address);
        assert_eq!(*other.segment("same:17001").unwrap(), engine.document, "{address}");
        assert_eq!(other.rpc_meta("same:17001").unwrap(), engine.place(), "{address}");
    }
}
