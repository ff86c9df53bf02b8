//! A whole store: the master's state machines, segment servers and clients that put, get and remove.
//!
//! Promised: a key that is found is the one that was put last, and its bytes are the ones that were put, or the get is an
//! error; while a lease runs nobody's bytes are overwritten; without a fault whatever began goes well; when every key is
//! removed, no space is lost.

mod client;
mod ledger;
mod master;
mod node;

use super::Tally;
use super::faults::Trouble;
use crate::network::HostId;
use crate::world::World;
use client::Client;
use ledger::Ledger;
use master::Master;
use node::Node;
use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

/// Longest run.
const RUN_LIMIT: Duration = Duration::from_secs(48 * 3600);
/// Time after which the space of abandoned puts is free again, and a little more.
const RELEASED: Duration = Duration::from_secs(700);
/// Time in which everything that was told to stop has stopped.
const STOPPING: Duration = Duration::from_secs(60);

/// Everything on the stage.
struct Play {
    world: Rc<World>,
    master: Rc<Master>,
    nodes: Vec<Rc<Node>>,
    clients: Vec<Rc<Client>>,
    is_calm: bool,
    tally: Cell<Tally>,
}

pub(super) fn play(world: &Rc<World>) -> Result<Tally, String> {
    let random = world.fork_random();
    let is_calm = random.one_in(4);
    let ledger = Rc::new(Ledger::new(world, is_calm));
    let master = Rc::new(Master::new(world, &ledger));
    let node = |_| Rc::new(Node::new(world, &master));
    let nodes: Vec<_> = (0..random.between(1, 3)).map(node).collect();
    let client = |_| Rc::new(Client::new(world, &master, &ledger));
    let play = Rc::new(Play {
        world: world.clone(),
        clients: (0..random.between(1, 4)).map(client).collect(),
        master,
        nodes,
        is_calm,
        tally: Cell::default(),
    });
    let is_over = Rc::new(Cell::new(false));
    let (directed, over) = (play.clone(), is_over.clone());
    world.direct(async move {
        directed.direct().await;
        over.set(true);
    });
    world.run(RUN_LIMIT, || is_over.get())?;
    play.nodes.iter().for_each(|node| node.forget());
    Ok(play.tally.get())
}

impl Play {
    async fn direct(self: &Rc<Self>) {
        let is_over = Rc::new(Cell::new(false));
        self.begin_master(&is_over);
        self.nodes.iter().for_each(Node::begin);
        let (master, nodes) = (self.master.clone(), self.nodes.len());
        self.world.until(move || master.segments() == nodes).await;
        self.clients.iter().for_each(Client::begin);
        let faults = if self.is_calm {
            0
        } else {
            self.trouble().await
        };
        let working = self.clients.clone();
        self.world
            .until(move || working.iter().all(|client| client.has_worked()))
            .await;
        self.world.sleep(RELEASED).await;
        for client in &self.clients {
            client.prove_that_all_works().await;
        }
        self.empty().await;
        is_over.set(true);
        self.clients.iter().for_each(|client| client.stop());
        self.nodes.iter().for_each(|node| node.stop());
        self.world.sleep(STOPPING).await;
        self.world.check_nothing_left();
        let mut tally = Tally {
            faults,
            ..Tally::default()
        };
        self.clients
            .iter()
            .for_each(|client| tally.add(client.tally()));
        self.tally.set(tally);
    }

    /// Removes every key; then the master must have all space back.
    async fn empty(&self) {
        self.world.sleep(RELEASED).await;
        self.master.remove_all();
        self.world.sleep(RELEASED).await;
        let used = self.master.used();
        self.world.check(used == (0, 0, 0), || {
            format!("Keys, bytes and unfinished puts of an empty store: {used:?}")
        });
    }

    fn begin_master(&self, is_over: &Rc<Cell<bool>>) {
        let (world, master, is_over) = (self.world.clone(), self.master.clone(), is_over.clone());
        self.world.direct(async move {
            while !is_over.get() {
                world.sleep(Duration::from_millis(500)).await;
                master.tick();
            }
        });
    }

    /// Makes trouble until the clients have done their work; returns the number of faults.
    async fn trouble(self: &Rc<Self>) -> u64 {
        let play = self.clone();
        let begin = move |host| play.begin_again(host);
        let nodes = self.nodes.iter().map(|node| node.host());
        let clients = self.clients.iter().map(|client| client.host());
        let hosts = nodes.chain(clients).chain([self.master.host()]);
        let trouble = Trouble::new(&self.world, hosts.collect(), false, begin);
        trouble
            .make(|| self.clients.iter().all(|client| client.has_worked()))
            .await;
        trouble.faults()
    }

    fn begin_again(&self, host: HostId) {
        if host == self.master.host() {
            self.master.begin_again();
        }
        self.nodes
            .iter()
            .filter(|node| node.host() == host)
            .for_each(Node::begin);
        self.clients
            .iter()
            .filter(|client| client.host() == host)
            .for_each(Client::begin);
    }
}
