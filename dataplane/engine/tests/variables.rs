//! Variables of Mooncake that an engine honours, by what its devices get and which way it takes.
#![allow(clippy::unwrap_used, reason = "tests")]

use perigee_engine::{
    Direction, EngineError, EngineOptions, GivenFabric, Route, SubmitOptions, TransferEngine,
    TransferRequest,
};
use perigee_verbs::software::{Clock, DevicePlan, SoftwareNetwork};
use std::time::Duration;

const LONG: Duration = Duration::from_secs(60);
const BYTES: usize = 1 << 20;

fn engine(
    network: &SoftwareNetwork,
    host: &str,
    (protocol, devices): (&str, &[&str]),
    variables: &[(&str, &str)],
) -> Result<TransferEngine, EngineError> {
    let variable = |name: &str| {
        let found = variables.iter().find(|(given, _)| *given == name);
        found.map(|(_, value)| (*value).to_owned())
    };
    let mut options =
        EngineOptions::from_variables("127.0.0.1", "P2PHANDSHAKE", protocol, "", variable)?;
    let plans: Vec<DevicePlan> = devices.iter().map(|name| DevicePlan::new(name)).collect();
    options.fabric = Some(GivenFabric(network.host(host, &plans).unwrap()));
    TransferEngine::start(options)
}

fn has_rails(engine: &TransferEngine) -> bool {
    engine.rails().iter().any(|rail| rail.route == Route::Rdma)
}

#[test]
fn class_partition_and_packets_reach_the_queue_pairs_of_both_ends() {
    let network = SoftwareNetwork::new(Clock::Real).unwrap();
    let variables = [
        ("MC_IB_TC", "106"),
        ("MC_IB_SL", "3"),
        ("MC_PKEY_INDEX", "2"),
        ("MC_IB_PORT", "1"),
        ("MC_MTU", "1024"),
    ];
    let start = |host| engine(&network, host, ("rdma", &["sw0"]), &variables).unwrap();
    let (here, there) = (start("a"), start("b"));
    let (source, target) = (vec![7u8; BYTES], vec![0u8; BYTES]);
    for (engine, memory) in [(&here, &source), (&there, &target)] {
        // SAFETY: the memory outlives the engines' work, which ends with `close` below.
        unsafe { engine.register(memory.as_ptr() as u64, BYTES as u64, "*") }.unwrap();
    }
    let request = TransferRequest {
        direction: Direction::Write,
        local: source.as_ptr() as u64,
        remote: target.as_ptr() as u64,
        bytes: BYTES as u64,
    };
    let options = SubmitOptions {
        hint: Some("rdma".to_owned()),
        deadline: Some(LONG),
        ..SubmitOptions::default()
    };
    // SAFETY: the memory of both sides outlives the call.
    unsafe { here.transfer(there.local_name(), &[request], &options) }.unwrap();
    assert!(target.iter().all(|byte| *byte == 7));
    for host in ["a", "b"] {
        let connections = network.connections(host, "sw0").unwrap();
        assert!(!connections.is_empty(), "{host}");
        for end in connections {
            assert_eq!((end.connected.traffic_class, end.connected.service_level), (106, 3));
            assert_eq!((end.made.partition_index, end.remote.mtu_bytes), (2, 1024));
        }
    }
    here.close();
    there.close();
}

#[test]
fn a_transport_that_is_forced_is_used_whatever_the_protocol_says() {
    let network = SoftwareNetwork::new(Clock::Real).unwrap();
    let devices: &[&str] = &["sw0"];
    let over_tcp = engine(&network, "a", ("rdma", devices), &[("MC_FORCE_TCP", "1")]).unwrap();
    assert!(!has_rails(&over_tcp));
    over_tcp.close();
    let over_rdma = engine(&network, "b", ("tcp", devices), &[("MC_FORCE_HCA", "1")]).unwrap();
    assert!(has_rails(&over_rdma));
    over_rdma.close();
    let without = engine(&network, "c", ("tcp", &[]), &[("MC_FORCE_HCA", "1")]);
    let error = without.err().unwrap().to_string();
    assert!(error.contains("RDMA cannot be used"), "{error}");
}

#[test]
fn devices_that_have_to_be_named_and_are_not_are_none() {
    let network = SoftwareNetwork::new(Clock::Real).unwrap();
    let variables = [("MC_MS_AUTO_DISC", "0"), ("PERIGEE_REQUIRE_RDMA", "1")];
    let error = engine(&network, "a", ("rdma", &["sw0"]), &variables).err().unwrap().to_string();
    assert!(error.contains("MC_MS_AUTO_DISC"), "{error}");
}

#[test]
fn a_protocol_that_is_not_known_gets_the_answer_that_a_store_gives() {
    let network = SoftwareNetwork::new(Clock::Real).unwrap();
    for (word, answer) in [("nvlink", "not built"), ("tcpp", "write tcp, rdma")] {
        let error = engine(&network, "a", (word, &[]), &[]).err().unwrap().to_string();
        assert!(error.contains("protocol") && error.contains(answer), "{error}");
    }
}
