//! Store and engine are two doors to one way of moving bytes: each setting of that way, given to
//! both. Invariant: they take and refuse the same values, and do the same about them.
#![allow(clippy::unwrap_used, reason = "tests")]

use perigee_engine::{EngineOptions, GivenFabric, TransferEngine};
use perigee_flags::ProcessEnvironment;
use perigee_service::Cluster;
use perigee_service::config::{MasterConfig, MasterStart};
use perigee_store::{Store, StoreConfig, StoreEnvironment};
use perigee_verbs::software::{Clock, SoftwareNetwork};
use std::time::Duration;

/// A variable and its value.
type Setting = (&'static str, &'static str);

fn read(settings: &[Setting], name: &str) -> Option<String> {
    let found = settings.iter().find(|(given, _)| *given == name);
    found.map(|(_, value)| (*value).to_owned())
}

fn store_environment(settings: &[Setting]) -> Result<StoreEnvironment, String> {
    let read = |name: &str| read(settings, name);
    StoreEnvironment::from_variables(read).map_err(|error| error.to_string())
}

fn engine_options(protocol: &str, settings: &[Setting]) -> Result<EngineOptions, String> {
    let read = |name: &str| read(settings, name);
    EngineOptions::from_variables("127.0.0.1", "P2PHANDSHAKE", protocol, "", read)
        .map_err(|error| error.to_string())
}

/// What both make of a variable, by the parts of their settings that are named alike.
#[derive(Debug, PartialEq)]
struct Understood {
    /// If it is set: else a store has one for each slice, and an engine one for a whole batch.
    deadline: Option<Duration>,
    shares_memory: bool,
    requires_rdma: bool,
    queue_pairs: Option<usize>,
}

fn is_timed(settings: &[Setting]) -> bool {
    read(settings, "MC_TRANSFER_TIMEOUT").is_some()
}

fn by_store(settings: &[Setting]) -> Result<Understood, String> {
    let environment = store_environment(settings)?;
    Ok(Understood {
        deadline: is_timed(settings).then_some(environment.transfer_deadline),
        shares_memory: environment.routes.shared_memory,
        requires_rdma: environment.requires_rdma,
        queue_pairs: environment.queue_pairs_per_rail,
    })
}

fn by_engine(settings: &[Setting]) -> Result<Understood, String> {
    let options = engine_options("tcp", settings)?;
    Ok(Understood {
        deadline: is_timed(settings).then_some(options.deadline),
        shares_memory: options.shares_memory,
        requires_rdma: options.requires_rdma,
        queue_pairs: options.queue_pairs_per_rail,
    })
}

#[test]
fn a_value_is_understood_or_refused_by_store_and_engine_alike() {
    let values: [(&str, &[&str], &[&str]); 6] = [
        ("MC_TRANSFER_TIMEOUT", &["5", "60", "1", " 7 "], &["soon", "-1", "1.5"]),
        ("MC_FORCE_TCP", &["1", "true", "0", "off"], &["tcp", "2"]),
        ("PERIGEE_REQUIRE_RDMA", &["1", "on", "0", "false"], &["maybe", "2"]),
        ("PERIGEE_SHARED_MEMORY", &["0", "no", "1", "yes"], &["2", "shm"]),
        ("MC_NUM_QP_PER_EP", &["1", " 2", "32"], &["0", "33", "many", "-1"]),
        ("PERIGEE_TCP_CONGESTION", &["auto", "host", "cubic", ""], &[]),
    ];
    for (name, taken, refused) in values {
        for value in taken {
            let (store, engine) = (by_store(&[(name, value)]), by_engine(&[(name, value)]));
            assert!(store.is_ok(), "{name}={value}: {store:?}");
            assert_eq!(store, engine, "{name}={value}");
        }
        for value in refused {
            let (store, engine) = (by_store(&[(name, value)]), by_engine(&[(name, value)]));
            let error = store.clone().unwrap_err();
            assert!(error.contains(name) && error.contains("write"), "{error}");
            assert_eq!(store, engine, "{name}={value}");
        }
    }
    assert_eq!(by_store(&[]), by_engine(&[]), "and their defaults are one");
}

/// What a process without a device that works does, if RDMA is required.
fn store_starts(cluster: &Cluster, protocol: &str, settings: &[Setting]) -> Result<(), String> {
    let network = SoftwareNetwork::new(Clock::Real).unwrap();
    let mut environment = store_environment(settings)?;
    environment.fabric = Some(GivenFabric(network.host("store", &[]).unwrap()));
    let config = StoreConfig {
        local_hostname: "127.0.0.1".to_owned(),
        metadata_server: "P2PHANDSHAKE".to_owned(),
        protocol: protocol.to_owned(),
        master_server_address: cluster.address().to_string(),
        ..StoreConfig::default()
    };
    let store = Store::open_with(config, &environment).map_err(|error| error.to_string())?;
    store.close();
    Ok(())
}

fn engine_starts(protocol: &str, settings: &[Setting]) -> Result<(), String> {
    let network = SoftwareNetwork::new(Clock::Real).unwrap();
    let mut options = engine_options(protocol, settings)?;
    options.fabric = Some(GivenFabric(network.host("engine", &[]).unwrap()));
    let engine = TransferEngine::start(options).map_err(|error| error.to_string())?;
    engine.close();
    Ok(())
}

#[test]
fn the_words_of_the_protocol_mean_the_same_to_store_and_engine() {
    const REQUIRED: Setting = ("PERIGEE_REQUIRE_RDMA", "1");
    const OVER_TCP: Setting = ("MC_FORCE_TCP", "1");
    const OVER_RDMA: Setting = ("MC_FORCE_HCA", "1");
    // No device works: where RDMA is required, what starts does without it.
    let rows: [(&str, &[Setting], Option<&str>); 18] = [
        ("tcp", &[REQUIRED], None),
        ("shm", &[REQUIRED], None),
        ("TCP", &[REQUIRED], None),
        ("", &[REQUIRED], Some("RDMA cannot be used")),
        ("rdma", &[REQUIRED], Some("RDMA cannot be used")),
        ("tcp,rdma", &[REQUIRED], Some("RDMA cannot be used")),
        ("rdma+tcp", &[REQUIRED], Some("RDMA cannot be used")),
        (" RDMA ", &[REQUIRED], Some("RDMA cannot be used")),
        ("", &[], None),
        ("rdma", &[], None),
        ("rdma", &[REQUIRED, OVER_TCP], None),
        ("", &[REQUIRED, OVER_TCP], None),
        ("tcp", &[OVER_RDMA], Some("RDMA cannot be used")),
        ("shm", &[OVER_RDMA], Some("RDMA cannot be used")),
        ("tcp", &[OVER_RDMA, OVER_TCP], Some("write one of them")),
        ("nvlink", &[], Some("not built")),
        ("tcpp", &[], Some("write tcp, rdma")),
        ("nvlink", &[OVER_TCP], Some("not built")),
    ];
    let loaded = MasterConfig::load(&[], &ProcessEnvironment::of(&[])).unwrap();
    let MasterStart::Serve(config) = loaded else { unreachable!("no text was asked for") };
    let cluster = Cluster::start(&config, "127.0.0.1:0".parse().unwrap(), None).unwrap();
    for (protocol, settings, refused) in rows {
        let doors = [
            ("store", store_starts(&cluster, protocol, settings)),
            ("engine", engine_starts(protocol, settings)),
        ];
        for (door, started) in doors {
            let row = format!("{door}, protocol {protocol:?}, {settings:?}");
            match (refused, started) {
                (None, started) => assert_eq!(started, Ok(()), "{row}"),
                (Some(words), Err(error)) => assert!(error.contains(words), "{row}: {error}"),
                (Some(_), Ok(())) => panic!("{row} starts"),
            }
        }
    }
    cluster.stop();
}
