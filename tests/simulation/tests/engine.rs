//! What simulation has found in the engine, as the shortest plays that show it.

use perigee_engine::{
    Direction, ShardClient, ShardServer, ShardTarget, TransferRequest, TransferState,
};
use perigee_schemas::Identity;
use perigee_shard::Environment;
use perigee_simulation::{LinkConditions, World};
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

const LONG: Duration = Duration::from_secs(3600);

#[test]
fn the_greeting_gets_only_what_connecting_has_left_of_a_deadline() {
    let world = World::new(1);
    let hosts = [world.add_host(), world.add_host()];
    let [near, far] = hosts.map(|host| world.environment(host));
    let way = Duration::from_millis(60);
    let sound = LinkConditions::sound(&world.fork_random());
    world.set_link_conditions(LinkConditions { latency: (way, way), ..sound });
    let address = SocketAddr::new(far.address(), 1);
    let server = Rc::new(ShardServer::listen(&far, address, Identity(9)).unwrap());
    let serving = server.clone();
    far.spawn(async move { serving.serve().await });
    // Its kernel accepts, but no greeting comes.
    world.set_frozen(hosts[1], true);
    let client = ShardClient::new(near, Identity(1), true);
    let mut local = vec![7u8; 100];
    let request = TransferRequest {
        direction: Direction::Write,
        local: local.as_mut_ptr() as u64,
        remote: 4096,
        bytes: 100,
    };
    let (target, deadline) = (ShardTarget::new(address, Identity(9)), Duration::from_millis(150));
    let begun = world.now();
    // SAFETY: `local` lives until the batch is over.
    let batch = unsafe { client.submit(&target, &[request], deadline) }.unwrap();
    world.run(LONG, || batch.is_over()).unwrap();
    let took = world.now() - begun;
    assert!(took < deadline + Duration::from_millis(5), "{took:?}");
    assert_ne!(batch.request(0).unwrap().state, TransferState::Completed);
    world.end();
}
