//! Offers whose addresses answer, answer late, or do not answer at all.

use super::*;
use crate::descriptor::{EndpointDescriptor, ProofDescriptor};
use perigee_verbs::{
    ConnectOptions, EndpointAddress, PostError, QueuePairCapacity, QueuePairState, VerbsError,
    WorkRequest,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

/// The kernel, as far as it looks for addresses: those that end in 0 do not answer.
#[derive(Debug, Default)]
struct Kernel {
    now_ms: AtomicU64,
    asked: AtomicUsize,
    /// Whether it also takes real time, until the test lets it go on.
    holds: AtomicBool,
}

impl Kernel {
    fn now(&self) -> Duration {
        Duration::from_millis(self.now_ms.load(Ordering::SeqCst))
    }

    fn pass(&self, length: Duration) {
        let ms = length.as_millis() as u64;
        self.now_ms.fetch_add(ms, Ordering::SeqCst);
    }

    fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }
}

#[derive(Debug)]
struct Pair {
    kernel: Arc<Kernel>,
    endpoint: EndpointAddress,
}

impl QueuePair for Pair {
    fn number(&self) -> u32 {
        1
    }

    fn endpoint(&self) -> &EndpointAddress {
        &self.endpoint
    }

    fn capacity(&self) -> QueuePairCapacity {
        unreachable!("it is not asked before it is joined")
    }

    fn connect(&mut self, remote: &EndpointAddress, _: &ConnectOptions) -> Result<(), VerbsError> {
        self.kernel.asked.fetch_add(1, Ordering::SeqCst);
        while self.kernel.holds.load(Ordering::SeqCst) {
            std::thread::yield_now();
        }
        if remote.gid[15] != 0 {
            return Ok(());
        }
        self.kernel.pass(Duration::from_secs(1));
        Err(VerbsError::Deadline { what: "looking for the address", waited_ms: 1000 })
    }

    fn post(&mut self, _: &[WorkRequest<'_>]) -> Result<(), PostError> {
        Ok(())
    }

    fn state(&self) -> Result<QueuePairState, VerbsError> {
        Ok(QueuePairState::Unconnected)
    }

    fn fail(&mut self) -> Result<(), VerbsError> {
        Ok(())
    }
}

/// An offer of one queue pair for each of these addresses.
fn offer(addresses: &[[u8; 2]]) -> EndpointOffer {
    let pair = |(lane, address): (usize, &[u8; 2])| {
        let mut gid = [0; 16];
        gid[14..].copy_from_slice(address);
        PairOffer {
            lane: lane as u32,
            peer_rail: 0,
            peer_gid_index: 1,
            endpoint: EndpointDescriptor {
                gid,
                lid: 0,
                queue_pair: 7,
                sequence: 0,
                mtu_bytes: 1024,
            },
            proof: ProofDescriptor { address: 0, remote_key: 0 },
        }
    };
    EndpointOffer {
        name: "peer".to_owned(),
        epoch: 1,
        peer_epoch: 2,
        shard: 0,
        pairs: addresses.iter().enumerate().map(pair).collect(),
        fenced: Vec::new(),
    }
}

/// Joins the queue pairs of an answer that brings these addresses.
fn join_answered(
    joiner: &Joiner,
    kernel: &Arc<Kernel>,
    addresses: &[[u8; 2]],
) -> Vec<Result<(), String>> {
    let route = AddressPair { local: 0, remote: 0, local_gid: 1, remote_gid: 1 };
    let mut is_late = false;
    let join = |pair: PairOffer| {
        let mut own = Pair { kernel: kernel.clone(), endpoint: (&pair.endpoint).into() };
        let remote = (route, &pair.endpoint);
        joiner.join_answered(&mut own, remote, &mut is_late, || kernel.now())
    };
    offer(addresses).pairs.into_iter().map(join).collect()
}

fn join(joiner: &Joiner, kernel: &Arc<Kernel>, addresses: &[[u8; 2]]) -> Vec<Result<(), String>> {
    let offer = offer(addresses);
    let made = |pair: &PairOffer| -> MadePair {
        Ok(Box::new(Pair { kernel: kernel.clone(), endpoint: (&pair.endpoint).into() }))
    };
    let made = offer.pairs.iter().map(made).collect();
    let joined = joiner.join(&offer, made, || kernel.now());
    joined.into_iter().map(|made| made.map(drop)).collect()
}

#[test]
fn an_offer_of_many_addresses_that_do_not_answer_takes_its_deadline_and_one_call() {
    let (joiner, kernel) = (Joiner::default(), Arc::new(Kernel::default()));
    let silent: Vec<[u8; 2]> = (0..32).map(|number| [number, 0]).collect();
    let outcome = join(&joiner, &kernel, &silent);
    assert!(outcome.len() == 32 && outcome.iter().all(Result::is_err));
    assert!(kernel.now() <= JOIN_DEADLINE + Duration::from_secs(1));
    assert!(kernel.asked() <= 3, "{}", kernel.asked());
}

#[test]
fn an_address_is_waited_for_once_and_the_others_of_the_offer_are_joined() {
    let (joiner, kernel) = (Joiner::default(), Arc::new(Kernel::default()));
    let mixed = [[1, 0], [2, 1], [1, 0], [2, 1], [1, 0]];
    let outcome = join(&joiner, &kernel, &mixed);
    let fine: Vec<bool> = outcome.iter().map(Result::is_ok).collect();
    assert_eq!(fine, [false, true, false, true, false]);
    assert_eq!(kernel.now(), Duration::from_secs(1));
}

#[test]
fn a_silent_address_costs_the_next_offers_nothing_until_it_is_tried_again() {
    let (joiner, kernel) = (Joiner::default(), Arc::new(Kernel::default()));
    join(&joiner, &kernel, &[[1, 0]]);
    let before = kernel.asked();
    assert!(join(&joiner, &kernel, &[[1, 0]; 8]).iter().all(Result::is_err));
    assert_eq!(kernel.asked(), before);
    kernel.pass(SILENT_PAUSE);
    join(&joiner, &kernel, &[[1, 0]]);
    assert_eq!(kernel.asked(), before + 1);
}

#[test]
fn addresses_that_are_remembered_are_bounded() {
    let (joiner, kernel) = (Joiner::default(), Arc::new(Kernel::default()));
    for number in 0..2 * ADDRESSES_MAX {
        let mut address = [0; 16];
        address[..8].copy_from_slice(&(number as u64).to_le_bytes());
        let address = GidPath { rail: 0, own_gid: 0, gid: address };
        let silent = AddressState::SilentUntil(kernel.now() + SILENT_PAUSE);
        joiner.note(address, silent, kernel.now());
        assert!(joiner.lock().known.len() <= ADDRESSES_MAX);
    }
}

#[test]
fn unknown_addresses_keep_few_threads_and_known_ones_pass_by() {
    let (joiner, kernel) = (Joiner::default(), Arc::new(Kernel::default()));
    assert_eq!(join(&joiner, &kernel, &[[9, 1]]), [Ok(())]);
    kernel.holds.store(true, Ordering::SeqCst);
    std::thread::scope(|scope| {
        let unknown: Vec<_> = (0..UNKNOWN_ADDRESSES_MAX as u8)
            .map(|number| {
                scope.spawn({
                    let (joiner, kernel) = (&joiner, &kernel);
                    move || join(joiner, kernel, &[[number, 1]])
                })
            })
            .collect();
        while joiner.lock().unknown < UNKNOWN_ADDRESSES_MAX {
            std::thread::yield_now();
        }
        let asked = kernel.asked();
        // One more is sent away, without having asked the kernel.
        assert!(join(&joiner, &kernel, &[[100, 1]])[0].is_err());
        assert_eq!(joiner.lock().unknown, UNKNOWN_ADDRESSES_MAX);
        assert!(kernel.asked() <= asked.max(1 + UNKNOWN_ADDRESSES_MAX));
        let friend = scope.spawn(|| join(&joiner, &kernel, &[[9, 1]]));
        while kernel.asked() < UNKNOWN_ADDRESSES_MAX + 2 {
            std::thread::yield_now();
        }
        kernel.holds.store(false, Ordering::SeqCst);
        assert_eq!(friend.join().unwrap(), [Ok(())]);
        for waiting in unknown {
            assert_eq!(waiting.join().unwrap(), [Ok(())]);
        }
    });
    assert_eq!(join(&joiner, &kernel, &[[100, 1]]), [Ok(())]);
}

#[test]
fn an_answer_keeps_its_shard_for_one_silent_address_and_those_known_are_joined() {
    let (joiner, kernel) = (Joiner::default(), Arc::new(Kernel::default()));
    let known = [7, 1];
    assert_eq!(join_answered(&joiner, &kernel, &[known]), [Ok(())]);
    let silent = (0..32).map(|number| [number, 0]);
    let answer: Vec<[u8; 2]> = silent.chain([known]).collect();
    for _ in 0..2 {
        let before = kernel.now();
        let outcome = join_answered(&joiner, &kernel, &answer);
        assert!(outcome[..32].iter().all(Result::is_err));
        assert_eq!(outcome[32], Ok(()));
        assert!(kernel.now() - before <= Duration::from_secs(1));
    }
    assert_eq!(kernel.now(), Duration::from_secs(2), "one address for each answer");
}

#[test]
fn a_waiter_does_not_ask_for_an_address_that_was_found_silent_while_it_waited() {
    let (joiner, kernel) = (Joiner::default(), Arc::new(Kernel::default()));
    joiner.lock().unknown = UNKNOWN_ADDRESSES_MAX;
    std::thread::scope(|scope| {
        let late = scope.spawn(|| join(&joiner, &kernel, &[[1, 0]]));
        // The lock is free again only when the stranger has seen its address unknown and waits for
        // a seat, or has not begun; either way it learns what is noted here.
        let address = GidPath::from(&offer(&[[1, 0]]).pairs[0]);
        let silent = AddressState::SilentUntil(kernel.now() + SILENT_PAUSE);
        joiner.note(address, silent, kernel.now());
        drop(WaitPermit(&joiner));
        assert_eq!(late.join().unwrap(), [Err(super::silent())]);
    });
    assert_eq!(kernel.asked(), 0);
}
