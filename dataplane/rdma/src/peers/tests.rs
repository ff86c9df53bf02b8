//! When rails of a peer may carry load, and who asks for them.

use super::*;
use crate::wire::RailsReply;
use perigee_rails::{
    EndpointOffer, ExchangeDone, GidDescriptor, OfferExchange, PeerDescriptor, Placement,
    RailDescriptor, RailEngine, RailOptions, RegionDescriptor,
};
use perigee_schemas::Identity;
use perigee_verbs::software::{Clock, DevicePlan, SoftwareNetwork};

const LONG: Duration = Duration::from_secs(60);
const BASE: u64 = 0x1000;
/// Epoch of the peer's rails.
const RUN: u64 = 5;

struct NoPath;

impl OfferExchange for NoPath {
    fn exchange(&self, _: &str, _: EndpointOffer, done: ExchangeDone) {
        done(Err("there is no path".to_owned()));
    }
}

fn engine() -> RailEngine {
    let network = SoftwareNetwork::new(Clock::Real).unwrap();
    let fabric = network.host("here", &[DevicePlan::new("sw0")]).unwrap();
    let exchange: Arc<dyn OfferExchange> = Arc::new(NoPath);
    RailEngine::start(fabric.as_ref(), &RailOptions::named("here"), &exchange).unwrap()
}

/// What a peer that lends one region says.
fn reply(version: u64, generation: u64) -> RailsReply {
    let rail = RailDescriptor {
        device: "sw0".to_owned(),
        infiniband: false,
        lid: 0,
        gids: vec![GidDescriptor { index: 0, address: [1; 16], roce_v1: false }],
    };
    let region = RegionDescriptor {
        epoch: RUN,
        generation,
        address: BASE,
        bytes: 0x1000,
        lease_ms: Some(10_000),
        borders: Vec::new(),
        remote_keys: vec![vec![generation as u32]],
        placement: Placement::default(),
    };
    RailsReply {
        peer: PeerDescriptor { epoch: RUN, rails: vec![rail] },
        regions: vec![(Identity(u128::from(generation)), region)],
        version,
        lease_ms: 10_000,
    }
}

fn rails(engine: &RailEngine, reply: &RailsReply, before: Option<&PeerRails>) -> Arc<PeerRails> {
    let peer = engine.open_peer("there", &reply.peer).unwrap();
    Arc::new(PeerRails::new(peer, 3, reply, before, monotonic()))
}

fn is_ready(found: &PeerLookup) -> bool {
    matches!(found, PeerLookup::Rails(_))
}

#[test]
fn one_caller_asks_and_load_waits_for_a_proof_unless_it_is_what_proves() {
    let (engine, there) = (engine(), Arc::<str>::from("there"));
    let rails = rails(&engine, &reply(2, 7), None);
    for first_load in [FirstLoad::Proven, FirstLoad::AtOnce] {
        let peers = Peers::new(first_load);
        assert!(matches!(peers.find(&there), PeerLookup::Ask));
        assert!(matches!(peers.find(&there), PeerLookup::No), "one asks");
        let proves = peers.learned(&there, rails.clone());
        assert_eq!(proves, first_load == FirstLoad::Proven);
        assert_eq!(is_ready(&peers.find(&there)), !proves);
        peers.tried(&there, RUN, true);
        assert!(is_ready(&peers.find(&there)));
        peers.suspend(&there);
        assert!(matches!(peers.find(&there), PeerLookup::No));
        peers.rest(&there);
        assert!(matches!(peers.find(&there), PeerLookup::Ask));
    }
    engine.close();
}

#[test]
fn a_proof_of_one_run_of_a_peer_says_nothing_about_the_next() {
    let (engine, there) = (engine(), Arc::<str>::from("there"));
    let first = rails(&engine, &reply(2, 7), None);
    let mut restarted = reply(2, 7);
    restarted.peer.epoch = RUN + 1;
    let second = rails(&engine, &restarted, None);
    let peers = Peers::new(FirstLoad::Proven);
    assert!(matches!(peers.find(&there), PeerLookup::Ask));
    assert!(peers.learned(&there, first));
    assert!(peers.learned(&there, second), "the new run is tried, too");
    for is_proven in [true, false] {
        peers.tried(&there, RUN, is_proven);
        assert!(!is_ready(&peers.find(&there)));
        assert!(peers.last(&there).is_some(), "it is still being tried");
    }
    peers.tried(&there, RUN + 1, true);
    assert!(is_ready(&peers.find(&there)));
    engine.close();
}

#[test]
fn who_waits_for_an_answer_wakes_with_it_or_without() {
    let (engine, there) = (engine(), Arc::<str>::from("there"));
    let rails = rails(&engine, &reply(2, 7), None);
    let peers = Peers::new(FirstLoad::AtOnce);
    for answers in [true, false] {
        assert!(matches!(peers.find(&there), PeerLookup::Ask));
        let end = Instant::now() + LONG;
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| peers.await_rails(&there, end).is_some());
            match answers {
                true => assert!(!peers.learned(&there, rails.clone())),
                false => peers.suspend(&there),
            }
            assert_eq!(waiting.join().unwrap(), answers);
            assert!(Instant::now() < end, "it did not wait to the end");
        });
        peers.rest(&there);
    }
    engine.close();
}

#[test]
fn keys_that_are_listed_again_stay_the_same_and_others_are_new() {
    let engine = engine();
    let first = rails(&engine, &reply(2, 7), None);
    let keys = |rails: &PeerRails| rails.covering(BASE, 8).unwrap().clone();
    let again = rails(&engine, &reply(3, 7), Some(&first));
    assert!(Arc::ptr_eq(&keys(&first), &keys(&again)));
    assert!(first.is_in_use(), "an earlier list is held");
    let registered_again = rails(&engine, &reply(4, 8), Some(&again));
    assert!(!Arc::ptr_eq(&keys(&again), &keys(&registered_again)));
    assert!(again.covering(BASE - 1, 2).is_none() && again.covering(BASE + 0xfff, 2).is_none());
    engine.close();
}
