//! Objects between clients and segment servers, over the production code of `perigee-transfer`.
//!
//! Promised: a call ends in time; what a read hands out is what was written, or it is an error; no
//! byte outside the extents that were addressed changes; what a segment's owner served in an
//! earlier life is refused; after the trouble everything works again; when all is closed, nothing
//! is left.

mod client;
mod ground;

use super::Tally;
use super::faults::{HEARD, Trouble};
use crate::world::World;
use client::Client;
use ground::Ground;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

/// Longest run.
const RUN_LIMIT: Duration = Duration::from_secs(24 * 3600);
/// Time after the last fault in which kernels find out what was lost.
const CALM: Duration = Duration::from_secs(60);
/// Time in which everything that was asked to stop has stopped.
const STOPPING: Duration = Duration::from_secs(60);

/// Everything on the stage.
struct Play {
    world: Rc<World>,
    ground: Rc<Ground>,
    clients: RefCell<Vec<Rc<Client>>>,
    tally: Cell<Tally>,
}

pub(super) fn play(world: &Rc<World>) -> Result<Tally, String> {
    let random = world.fork_random();
    let is_calm = random.one_in(4);
    let flips = !is_calm && random.one_in(4);
    let ground = Ground::new(world, random.between(1, 3) as usize, is_calm, flips)?;
    let clients: Vec<_> =
        (0..random.between(1, 3)).map(|_| Rc::new(Client::new(world, &ground))).collect();
    let play = Rc::new(Play {
        world: world.clone(),
        ground,
        clients: RefCell::new(clients),
        tally: Cell::default(),
    });
    let inspected = play.clients.borrow().clone();
    world.inspect(move || inspected.iter().for_each(|client| client.check()));
    let is_over = Rc::new(Cell::new(false));
    let (directed, over) = (play.clone(), is_over.clone());
    world.direct(async move {
        directed.direct().await;
        over.set(true);
    });
    world.run(RUN_LIMIT, || is_over.get())?;
    let calls = play.tally.get();
    play.ground.forget();
    play.clients.take();
    Ok(calls)
}

impl Play {
    async fn direct(self: &Rc<Self>) {
        let random = self.world.fork_random();
        self.ground.begin_all();
        self.clients.borrow().iter().for_each(Client::begin);
        let faults = if self.ground.is_calm() { 0 } else { self.trouble().await };
        let clients = self.clients.borrow().clone();
        let working = clients.clone();
        self.world.until(move || working.iter().all(|client| client.has_worked())).await;
        self.world.sleep(CALM).await;
        self.prove_that_all_works(&clients).await;
        // Connections to servers that have been away are idle now; callers must not notice.
        for host in self.ground.hosts() {
            self.world.kill(host, random.one_in(2));
            self.world.revive(host);
            self.ground.begin_again(host);
        }
        self.world.sleep(HEARD).await;
        self.prove_that_all_works(&clients).await;
        self.ground.compare_all();
        clients.iter().for_each(|client| client.stop());
        self.ground.stop_all();
        self.world.sleep(STOPPING).await;
        self.world.check_nothing_left();
        let mut tally = Tally { faults, ..Tally::default() };
        clients.iter().for_each(|client| tally.add(client.tally()));
        self.tally.set(tally);
    }

    async fn prove_that_all_works(&self, clients: &[Rc<Client>]) {
        for client in clients {
            client.prove_that_all_works().await;
        }
    }

    /// Makes trouble until the clients have done their work; returns the number of faults.
    async fn trouble(self: &Rc<Self>) -> u64 {
        let clients = self.clients.borrow().clone();
        let (ground, actors) = (self.ground.clone(), clients.clone());
        let begin = move |host| {
            ground.begin_again(host);
            actors.iter().filter(|client| client.host() == host).for_each(Client::begin);
        };
        let hosts = self.ground.hosts().chain(clients.iter().map(|client| client.host()));
        let trouble = Trouble::new(&self.world, hosts.collect(), self.ground.flips(), begin);
        trouble.make(|| clients.iter().all(|client| client.has_worked())).await;
        trouble.faults()
    }
}
