//! A host that vanishes without a packet, at the other end of a cable between two network
//! namespaces of the test's own.

use crate::node::{engine_within, node_at, payload, write_all};
use crate::once::Cutter;
use nix::sched::{CloneFlags, unshare};
use nix::unistd::{Pid, gettid};
use perigee_memory::ByteRange;
use perigee_transfer::{ObjectEngine, PeerError, ReplicaAddress, Route, TransferError, WriteJob};
use std::process::Command;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

/// Time of a transfer, which a host that is gone must not take.
const DEADLINE: Duration = Duration::from_secs(120);
/// Well below it, and well above the seconds of silence.
const FOUND_OUT: Duration = Duration::from_secs(60);
const HERE: &str = "10.213.8.1";
const THERE: &str = "10.213.8.2";
/// Below the bounds of what the calling thread moves itself, and above them.
const SIZES: [usize; 2] = [4096, 3 << 20];

fn ip(words: &str) {
    let status = Command::new("ip").args(words.split(' ')).status();
    assert!(status.unwrap().success(), "ip {words}");
}

/// The far end, in a namespace of its own: a relay to an owner. Its cable is cut when it is asked
/// to.
fn serve(said: &Sender<Pid>, owner: &Receiver<String>, relay: &Sender<Cutter>, cut: &Receiver<()>) {
    unshare(CloneFlags::CLONE_NEWNET).unwrap();
    said.send(gettid()).unwrap();
    let owner = owner.recv().unwrap();
    ip(&format!("address add {THERE}/24 dev far"));
    ip("link set far up");
    relay.send(Cutter::at(THERE, &owner)).unwrap();
    cut.recv().unwrap();
    ip("link set far down");
    said.send(gettid()).unwrap();
}

fn try_write(
    engine: &ObjectEngine,
    place: &ReplicaAddress,
    data: &[u8],
) -> Result<u32, TransferError> {
    let pieces = [ByteRange::from(data)];
    let job = WriteJob { place, pieces: &pieces };
    // SAFETY: the data outlives the call.
    unsafe { engine.write(&[job]) }.remove(0)
}

fn a_transfer_fails_when_the_cable_is_cut(bytes: usize) {
    let (say, said) = channel();
    let (plug, owner) = channel();
    let (give, given) = channel();
    let (ask, cut) = channel();
    std::thread::scope(|scope| {
        scope.spawn(move || serve(&say, &owner, &give, &cut));
        ip("link add near type veth peer name far");
        ip(&format!("link set far netns {}", said.recv().unwrap()));
        ip(&format!("address add {HERE}/24 dev near"));
        ip("link set near up");
        let node = node_at(HERE);
        plug.send(node.address.endpoint.clone()).unwrap();
        let relay: Cutter = given.recv().unwrap();
        let data = payload(1, bytes);
        let place = relay.place(&node, bytes);
        let engine = engine_within(&node, Route::Tcp, DEADLINE);
        write_all(&engine, std::slice::from_ref(&place), std::slice::from_ref(&data));
        ask.send(()).unwrap();
        said.recv().unwrap();
        let begun = Instant::now();
        let error = try_write(&engine, &place, &data).unwrap_err();
        // A busy machine may come to it only when keep-alive has found out.
        let is_away =
            |error: &TransferError| matches!(error, TransferError::Peer(error) if error.is_away());
        assert!(is_away(&error) && error.may_still_arrive(), "{error}");
        let next = try_write(&engine, &place, &data).unwrap_err();
        let is_unreachable = matches!(next, TransferError::Peer(PeerError::Unreachable { .. }));
        assert!(is_unreachable, "nothing is sent over a connection to a host that is gone: {next}");
        assert!(begun.elapsed() < FOUND_OUT, "{:?}", begun.elapsed());
        engine.close();
        ip("link delete near");
    });
}

#[test]
fn transfers_to_a_host_that_vanishes_fail_before_their_deadline() {
    if let Err(error) = unshare(CloneFlags::CLONE_NEWNET) {
        println!("SKIP: no network namespace: {error}");
        return;
    }
    ip("link set lo up");
    SIZES.into_iter().for_each(a_transfer_fails_when_the_cable_is_cut);
}
