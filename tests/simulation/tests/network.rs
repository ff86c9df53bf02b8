//! What the simulated network promises to the code above it, which is what a kernel promises.
#![expect(clippy::unwrap_used, reason = "the functions that tests share fail their test")]

use perigee_shard::{Environment, Listener, Message, Stream};
use perigee_simulation::{HostId, Leftovers, LinkConditions, SimulatedStream, World};
use std::cell::RefCell;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

const LONG: Duration = Duration::from_secs(3600);
const PORT: u16 = 9;

type Streams = Rc<RefCell<Vec<SimulatedStream>>>;

/// A world with a connection from its first host to its second; both ends, in this order.
fn connected(seed: u64) -> (Rc<World>, [HostId; 2], [SimulatedStream; 2]) {
    let world = World::new(seed);
    let hosts = [world.add_host(), world.add_host()];
    let [near, far] = hosts.map(|host| world.environment(host));
    let address = SocketAddr::new(far.address(), PORT);
    let ends: [Streams; 2] = Default::default();
    let listener = far.listen(address, false).unwrap();
    let accepted = ends[1].clone();
    far.spawn(async move {
        let stream = listener.accept().await.unwrap();
        accepted.borrow_mut().push(stream);
    });
    let (dialled, dialling) = (ends[0].clone(), near.clone());
    near.spawn(async move {
        let stream = dialling.connect(address).await.unwrap();
        dialled.borrow_mut().push(stream);
    });
    let all = ends.clone();
    world.run(LONG, || all.iter().all(|end| !end.borrow().is_empty())).unwrap();
    let streams = ends.map(|end| end.take().remove(0));
    (world, hosts, streams)
}

/// Runs a task on a host and returns its result.
fn outcome<T: 'static>(
    world: &Rc<World>,
    host: HostId,
    task: impl Future<Output = T> + 'static,
) -> T {
    let result = Rc::new(RefCell::new(None));
    let outcome_slot = result.clone();
    world.environment(host).spawn(async move {
        let found = task.await;
        *outcome_slot.borrow_mut() = Some(found);
    });
    world.run(world.now() + LONG, || result.borrow().is_some()).unwrap();
    result.take().unwrap()
}

fn message(bytes: Vec<u8>) -> Message {
    let mut message = Message::new();
    message.push_owned(bytes);
    message
}

#[test]
fn bytes_arrive_in_order_whatever_the_chunks() {
    for seed in 0..20 {
        let (world, [near, far], [sender, receiver]) = connected(seed);
        let sent: Vec<u8> = (0..300_000u32).map(|number| (number % 251) as u8).collect();
        let outgoing = message(sent.clone());
        world.environment(near).spawn(async move {
            sender.send_message(outgoing).await.unwrap();
        });
        let got = outcome(&world, far, async move {
            let mut all = Vec::new();
            loop {
                let (count, bytes) = receiver.receive(Vec::with_capacity(10_000)).await;
                all.extend_from_slice(&bytes);
                if count.unwrap() == 0 {
                    return all;
                }
            }
        });
        assert_eq!(got, sent, "seed {seed}");
        world.end();
    }
}

#[test]
fn a_peer_that_dies_is_heard_of_at_once_or_if_its_power_failed_by_keep_alive() {
    for power_stays in [true, false] {
        let (world, [near, far], [stream, _other]) = connected(3);
        let received = Rc::new(RefCell::new(None));
        let outcome_slot = received.clone();
        world.environment(near).spawn(async move {
            let (result, _) = stream.receive(Vec::with_capacity(10)).await;
            *outcome_slot.borrow_mut() = Some(result);
        });
        world.kill(far, power_stays);
        let killed = world.now();
        world.run(LONG, || received.borrow().is_some()).unwrap();
        let is_at_once = world.now() - killed < Duration::from_secs(2);
        assert_eq!(
            (received.borrow().as_ref().unwrap().is_ok(), is_at_once),
            (power_stays, power_stays)
        );
        world.end();
    }
}

#[test]
fn a_sender_to_a_host_that_has_forgotten_the_connection_gets_an_error() {
    let (world, [near, far], [stream, _other]) = connected(4);
    world.kill(far, false);
    world.revive(far);
    let result = outcome(&world, near, async move {
        stream.send_message(message(vec![1; 10])).await?;
        stream.receive(Vec::with_capacity(10)).await.0
    });
    assert_eq!(result.unwrap_err().kind(), io::ErrorKind::ConnectionReset);
    world.end();
}

#[test]
fn what_is_sent_into_a_cut_arrives_after_it() {
    let (world, [near, far], [sender, receiver]) = connected(5);
    world.set_blocked(near, far, true);
    world.environment(near).spawn(async move {
        sender.send_message(message(vec![7; 10])).await.unwrap();
        std::future::pending::<()>().await;
    });
    let healing = world.clone();
    world.direct(async move {
        healing.sleep(Duration::from_secs(30)).await;
        healing.set_blocked(near, far, false);
    });
    let begun = world.now();
    let (count, bytes) =
        outcome(&world, far, async move { receiver.receive(Vec::with_capacity(10)).await });
    assert!(count.unwrap() > 0 && bytes[0] == 7);
    assert!(world.now() - begun >= Duration::from_secs(30));
    world.end();
}

#[test]
fn a_port_without_a_listener_refuses() {
    let world = World::new(1);
    let hosts = [world.add_host(), world.add_host()];
    let target = SocketAddr::new(world.environment(hosts[1]).address(), PORT);
    let environment = world.environment(hosts[0]);
    let refused =
        outcome(&world, hosts[0], async move { environment.connect(target).await.map(drop) });
    assert_eq!(refused.unwrap_err().kind(), io::ErrorKind::ConnectionRefused);
    world.end();
}

#[test]
fn a_process_that_stands_still_does_nothing_while_its_kernel_accepts() {
    let (world, [near, far], streams) = connected(6);
    assert_eq!(world.frozen_time(far), Duration::ZERO);
    world.set_frozen(far, true);
    let address = SocketAddr::new(world.environment(far).address(), PORT + 1);
    let listening = world.environment(far);
    let listener = listening.listen(address, false).unwrap();
    let environment = world.environment(near);
    let connected = outcome(&world, near, async move { environment.connect(address).await });
    assert!(connected.is_ok());
    world.set_frozen(far, false);
    assert!(world.frozen_time(far) > Duration::ZERO);
    drop((listener, streams, connected));
    world.end();
}

#[test]
fn giving_up_a_receive_into_borrowed_memory_is_a_broken_promise() {
    let (world, [near, _], [stream, _other]) = connected(7);
    let environment = world.environment(near);
    let sleeping = environment.clone();
    environment.spawn(async move {
        let mut target = [0u8; 8];
        let mut message = Message::new();
        // SAFETY: nothing is ever sent, so nothing is ever written there.
        unsafe { message.push_borrowed(target.as_mut_ptr(), 8) };
        let receiving = stream.receive_message(message);
        let second = Duration::from_secs(1);
        let _ = perigee_shard::at_most(&sleeping, second, receiving).await;
    });
    let violation = world.run(LONG, || false).unwrap_err();
    assert!(violation.contains("receive was given up"), "{violation}");
    world.end();
}

#[test]
fn what_is_left_open_is_found() {
    let (world, _, [near, far]) = connected(8);
    drop(near);
    assert_eq!(world.leftovers().connections, 1);
    drop(far);
    assert_eq!(world.leftovers(), Leftovers::default());
    world.end();
}

#[test]
fn faulty_links_break_connections_and_flip_bits_only_if_asked() {
    let random = perigee_simulation::Random::new(1);
    let many: Vec<_> = (0..200).map(|_| LinkConditions::faulty(&random, false)).collect();
    assert!(many.iter().any(|conditions| conditions.reset_odds > 0));
    assert!(many.iter().all(|conditions| conditions.flip_odds == 0));
    assert!((0..200).any(|_| LinkConditions::faulty(&random, true).flip_odds > 0));
}
