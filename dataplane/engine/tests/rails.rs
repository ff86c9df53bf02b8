//! Two engines with rails over the software fabric: bytes go over RDMA where they can, over TCP
//! where they must, and nowhere where they may not.
#![allow(clippy::unwrap_used, reason = "tests")]

use perigee_engine::{
    Direction, EngineError, EngineOptions, GivenFabric, Route, RouteReport, SubmitOptions,
    TransferEngine, TransferRequest, TransferState,
};
use perigee_verbs::software::{Clock, DevicePlan, Faults, SoftwareNetwork};
use std::time::Duration;

const LONG: Duration = Duration::from_secs(60);
const BYTES: usize = 4 << 20;

struct Side {
    engine: TransferEngine,
    memory: Box<[u8]>,
}

impl Side {
    fn new(network: &SoftwareNetwork, host: &str, fill: u8) -> Self {
        let plans = [DevicePlan::new("sw0"), DevicePlan::new("sw1")];
        let mut options =
            EngineOptions::from_variables("127.0.0.1", "P2PHANDSHAKE", "", "", |_| None).unwrap();
        options.fabric = Some(GivenFabric(network.host(host, &plans).unwrap()));
        let side = Self {
            engine: TransferEngine::start(options).unwrap(),
            memory: vec![fill; BYTES].into(),
        };
        // SAFETY: the memory lives as long as the engine.
        unsafe { side.engine.register(side.at(0), BYTES as u64, "*") }.unwrap();
        side
    }

    fn at(&self, offset: usize) -> u64 {
        self.memory.as_ptr() as u64 + offset as u64
    }

    fn report(&self, route: Route) -> RouteReport {
        let mut all = self.engine.rails().into_iter().filter(|rail| rail.route == route);
        let first = all.next().unwrap();
        all.fold(first, |sum, next| RouteReport {
            bytes_written: sum.bytes_written + next.bytes_written,
            bytes_read: sum.bytes_read + next.bytes_read,
            ..sum
        })
    }
}

impl Drop for Side {
    fn drop(&mut self) {
        self.engine.close();
    }
}

fn pair() -> (SoftwareNetwork, Side, Side) {
    let network = SoftwareNetwork::new(Clock::Real).unwrap();
    let (here, there) = (Side::new(&network, "a", 3), Side::new(&network, "b", 0));
    (network, here, there)
}

fn request(direction: Direction, local: u64, remote: u64, bytes: usize) -> TransferRequest {
    TransferRequest { direction, local, remote, bytes: bytes as u64 }
}

fn hinted(hint: &str) -> SubmitOptions {
    SubmitOptions { hint: Some(hint.to_owned()), deadline: Some(LONG), ..SubmitOptions::default() }
}

fn transfer(
    here: &Side,
    there: &Side,
    request: TransferRequest,
    hint: &str,
) -> Result<(), EngineError> {
    // SAFETY: the memory of both sides outlives the call.
    unsafe { here.engine.transfer(there.engine.local_name(), &[request], &hinted(hint)) }
}

#[test]
fn registered_memory_moves_over_the_rails_both_ways() {
    let (_network, here, there) = pair();
    let write = request(Direction::Write, here.at(0), there.at(0), 3 << 20);
    transfer(&here, &there, write, "rdma").unwrap();
    assert!(there.memory[..3 << 20].iter().all(|byte| *byte == 3));
    assert!(there.memory[3 << 20..].iter().all(|byte| *byte == 0));
    let read = request(Direction::Read, here.at(3 << 20), there.at(3 << 20), 1 << 20);
    transfer(&here, &there, read, "").unwrap();
    assert!(here.memory[3 << 20..].iter().all(|byte| *byte == 0));
    assert!(here.report(Route::Rdma).bytes_written >= 3 << 20);
    assert!(here.report(Route::Rdma).bytes_read >= 1 << 20);
}

#[test]
fn local_memory_that_is_not_registered_goes_over_tcp() {
    let (_network, here, there) = pair();
    let loose = vec![9u8; 65_536];
    let write = request(Direction::Write, loose.as_ptr() as u64, there.at(0), loose.len());
    let refused = transfer(&here, &there, write, "rdma").unwrap_err();
    assert!(matches!(refused, EngineError::Unsupported(_)), "{refused}");
    transfer(&here, &there, write, "").unwrap();
    assert!(there.memory[..65_536].iter().all(|byte| *byte == 9));
}

#[test]
fn remote_memory_that_is_not_registered_is_refused_and_later_registrations_are_found() {
    let (_network, here, there) = pair();
    let loose = vec![1u8; 65_536];
    let far = loose.as_ptr() as u64;
    let write = request(Direction::Write, here.at(0), far, loose.len());
    let refused = transfer(&here, &there, write, "").unwrap_err();
    assert!(matches!(refused, EngineError::RemoteAddress { .. }), "{refused}");
    assert!(loose.iter().all(|byte| *byte == 1));
    // SAFETY: the memory lives until it is unregistered.
    unsafe { there.engine.register(far, loose.len() as u64, "*") }.unwrap();
    let end = std::time::Instant::now() + LONG;
    while transfer(&here, &there, write, "rdma").is_err() {
        assert!(std::time::Instant::now() < end, "the new keys are asked for");
    }
    there.engine.unregister(far).unwrap();
    let gone = transfer(&here, &there, write, "").unwrap_err();
    assert!(matches!(gone, EngineError::RemoteAddress { .. }), "{gone}");
}

#[test]
fn a_batch_whose_rails_are_cut_arrives_over_tcp_within_its_deadline() {
    let (network, here, there) = pair();
    let write = request(Direction::Write, here.at(0), there.at(0), 1 << 20);
    transfer(&here, &there, write, "rdma").unwrap();
    for ours in ["sw0", "sw1"] {
        for theirs in ["sw0", "sw1"] {
            network.cut(("a", ours), ("b", theirs)).unwrap();
        }
    }
    let write = request(Direction::Write, here.at(0), there.at(1 << 20), 1 << 20);
    let options =
        SubmitOptions { deadline: Some(Duration::from_secs(20)), ..SubmitOptions::default() };
    // SAFETY: the memory of both sides outlives the batch.
    let batch =
        unsafe { here.engine.submit(there.engine.local_name(), &[write], &options) }.unwrap();
    assert_eq!(here.engine.wait(batch, LONG).unwrap().state, TransferState::Completed);
    assert!(there.memory[1 << 20..2 << 20].iter().all(|byte| *byte == 3));
}

#[test]
fn batches_go_over_tcp_while_all_our_ports_are_down_and_over_the_rails_afterwards() {
    let (network, here, there) = pair();
    let write = request(Direction::Write, here.at(0), there.at(0), 1 << 20);
    transfer(&here, &there, write, "rdma").unwrap();
    let ports = ["sw0", "sw1"].map(|device| network.faults("a", device).unwrap());
    ports.iter().for_each(Faults::down);
    // Rails that kept a batch for half of such a deadline would keep it beyond any test.
    let patient = SubmitOptions {
        deadline: Some(Duration::from_secs(24 * 3600)),
        ..SubmitOptions::default()
    };
    let send = || {
        // SAFETY: the memory of both sides outlives the call.
        unsafe { here.engine.transfer(there.engine.local_name(), &[write], &patient) }
    };
    let over_rails = here.report(Route::Rdma).bytes_written;
    for _ in 0..2 {
        send().unwrap();
    }
    assert_eq!(here.report(Route::Rdma).bytes_written, over_rails);
    ports.iter().for_each(Faults::up);
    let end = std::time::Instant::now() + LONG;
    while here.report(Route::Rdma).bytes_written == over_rails {
        assert!(std::time::Instant::now() < end, "the rails carry load again");
        send().unwrap();
    }
}

/// An engine over two devices of its own, with a matrix in a file.
fn with_matrix(
    network: &SoftwareNetwork,
    host: &str,
    path: &str,
) -> Result<TransferEngine, EngineError> {
    let variable = |name: &str| (name == "MC_CUSTOM_TOPO_JSON").then(|| path.to_owned());
    let options = EngineOptions::from_variables("127.0.0.1", "P2PHANDSHAKE", "", "", variable);
    let mut options = options.unwrap();
    let plans = [DevicePlan::new("sw0"), DevicePlan::new("sw1")];
    options.fabric = Some(GivenFabric(network.host(host, &plans).unwrap()));
    TransferEngine::start(options)
}

#[test]
fn the_users_matrix_is_what_an_engine_tells_and_what_its_rails_go_by() {
    let network = SoftwareNetwork::new(Clock::Real).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("matrix.json");
    let matrix = r#"{"cpu:0":[["sw1"],[]],"cuda:0":[["sw0"],["sw1"]]}"#;
    std::fs::write(&path, matrix).unwrap();
    let path = path.to_str().unwrap();
    let engines = ["a", "b"].map(|host| with_matrix(&network, host, path).unwrap());
    let shown = engines[0].topology_json().split_whitespace().collect::<String>();
    assert_eq!(shown, matrix);

    let memories = [vec![3u8; BYTES], vec![0u8; BYTES]];
    for (engine, memory) in engines.iter().zip(&memories) {
        // SAFETY: the memory lives as long as the engines.
        unsafe { engine.register(memory.as_ptr() as u64, BYTES as u64, "cpu:0") }.unwrap();
    }
    let [from, to] = memories.each_ref().map(|memory| memory.as_ptr() as u64);
    let write = request(Direction::Write, from, to, BYTES);
    // SAFETY: as above.
    unsafe { engines[0].transfer(engines[1].local_name(), &[write], &hinted("rdma")) }.unwrap();
    assert!(memories[1].iter().all(|byte| *byte == 3));
    let rails = engines[0].rails();
    let carried = |name: &str| {
        let rail = rails.iter().find(|rail| rail.name == name);
        rail.map(|rail| rail.bytes_written)
    };
    assert_eq!(carried("sw0"), Some(0), "it is not listed for this memory");
    assert!(carried("sw1") >= Some(BYTES as u64));
    engines.iter().for_each(TransferEngine::close);
}

#[test]
fn a_matrix_that_cannot_be_read_is_refused_by_name() {
    let network = SoftwareNetwork::new(Clock::Real).unwrap();
    let refused = with_matrix(&network, "a", "/no/such/file").unwrap_err();
    let text = refused.to_string();
    assert!(text.contains("MC_CUSTOM_TOPO_JSON") && text.contains("/no/such/file"), "{text}");
}

#[test]
fn without_devices_rdma_alone_means_tcp_unless_it_is_required() {
    let network = SoftwareNetwork::new(Clock::Real).unwrap();
    let options = |host: &str| {
        let mut options =
            EngineOptions::from_variables("127.0.0.1", "P2PHANDSHAKE", "rdma", "mlx5_0", |_| None)
                .unwrap();
        options.fabric = Some(GivenFabric(network.host(host, &[]).unwrap()));
        options
    };
    let [here, there] = ["a", "b"].map(|host| TransferEngine::start(options(host)).unwrap());
    let (ours, theirs) = (vec![3u8; 4096], vec![0u8; 4096]);
    let write = TransferRequest {
        direction: Direction::Write,
        local: ours.as_ptr() as u64,
        remote: theirs.as_ptr() as u64,
        bytes: 4096,
    };
    // SAFETY: both buffers outlive the engines.
    unsafe {
        there.register(write.remote, 4096, "*").unwrap();
        here.transfer(there.local_name(), &[write], &SubmitOptions::default()).unwrap();
    }
    here.close();
    there.close();
    assert_eq!(ours, theirs);
    let strict = EngineOptions { requires_rdma: true, ..options("c") };
    let refused = TransferEngine::start(strict).unwrap_err();
    assert!(matches!(refused, EngineError::Device(_)), "{refused}");
    assert_eq!(refused.code(), -6, "{refused}");
}
