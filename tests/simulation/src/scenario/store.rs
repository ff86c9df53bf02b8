//! A whole store: the production service of the master with several shards, segment servers with
//! ledgers and disks, and clients that put, get, remove and copy, while an operator empties nodes.
//!
//! Promised: bytes that are found are the ones that were put; no older ones come after a put that
//! was acknowledged, and none after a removal; while a lease runs they are not overwritten; every
//! call ends within its bound; without a fault whatever began goes well; hard-pinned keys stay; a
//! put replaces only what it may; what tenants are charged for is what they have on all shards;
//! repairs end; a lease keeps its key from a removal that is not
//! forced; no two records of the master disagree at any time; when every key is removed, no space
//! is lost, and the shards hold each byte of each mounted segment once.

mod client;
mod contract;
mod link;
mod master;
mod node;
mod operator;
mod size;
mod tenants;
mod wire;

use super::Tally;
use super::faults::Trouble;
use crate::network::HostId;
use crate::world::World;
use client::Client;
use contract::{Contract, Trials};
use master::Master;
use node::Node;
use operator::Operator;
use size::Size;
use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;
use tenants::Tenants;

/// Longest run.
const RUN_LIMIT: Duration = Duration::from_secs(48 * 3600);
/// Time after which the space of abandoned puts is free again, and a little more.
const RELEASED: Duration = Duration::from_secs(700);
/// Time after which no lease runs any more, if nothing failed since the last call.
const UNLEASED: Duration = Duration::from_secs(30);
/// Time in which all owners are members again after a restart.
const SETTLED: Duration = Duration::from_secs(30);
/// Time in which everything that was asked to stop has stopped.
const STOPPING: Duration = Duration::from_secs(60);

/// Everything on the stage.
struct Play {
    world: Rc<World>,
    contract: Rc<Contract>,
    master: Rc<Master>,
    nodes: Vec<Rc<Node>>,
    clients: Vec<Rc<Client>>,
    operator: Rc<Operator>,
    tally: Cell<Tally>,
}

pub(super) fn play(world: &Rc<World>, has_tenants: bool) -> Result<Tally, String> {
    let random = world.fork_random();
    let trials = *random.pick(&[
        Trials::Calm,
        Trials::Restarts,
        Trials::Restarts,
        Trials::Nodes,
        Trials::All,
        Trials::All,
    ]);
    let contract = Rc::new(Contract::new(world, trials));
    let size = Size::new(&random, trials == Trials::Nodes || random.one_in(2));
    let tenants = has_tenants.then(|| Tenants::new(world, size.payload_bytes_max));
    let master = Rc::new(Master::new(world, &contract, size.has_disks, tenants)?);
    let node = |_| Rc::new(Node::new(world, &master, &contract, size));
    let nodes: Vec<_> = (0..random.between(1, 3)).map(node).collect();
    let client = |_| Rc::new(Client::new(world, &master, &contract, size));
    let play = Rc::new(Play {
        world: world.clone(),
        clients: (0..random.between(1, 4)).map(client).collect(),
        operator: Rc::new(Operator::new(world, &master, &nodes)),
        contract,
        master,
        nodes,
        tally: Cell::default(),
    });
    let inspected = play.clone();
    world.inspect(move || inspected.check());
    let is_over = Rc::new(Cell::new(false));
    let (directed, over) = (play.clone(), is_over.clone());
    world.direct(async move {
        directed.direct().await;
        over.set(true);
    });
    let played = world.run(RUN_LIMIT, || is_over.get());
    play.nodes.iter().for_each(|node| node.forget());
    play.clients.iter().for_each(|client| client.stop());
    play.master.forget();
    played.map(|()| play.tally.get())
}

impl Play {
    /// Panics, or ends the run, if records disagree.
    fn check(&self) {
        self.master.check();
        self.nodes.iter().for_each(|node| node.check());
        self.clients.iter().for_each(|client| client.check());
    }

    async fn direct(self: &Rc<Self>) {
        self.master.begin();
        self.nodes.iter().for_each(Node::begin);
        let (master, nodes) = (self.master.clone(), self.nodes.len());
        self.world.until(move || master.segments().len() == nodes).await;
        self.clients.iter().for_each(Client::begin);
        let has_drained = self.begin_operator();
        let faults = self.trouble().await;
        self.operator.note_whole();
        let working = self.clients.clone();
        self.world.until(move || working.iter().all(|client| client.has_worked())).await;
        self.world.until(move || has_drained.get()).await;
        self.contract.note_peace();
        self.world.sleep(RELEASED).await;
        self.master.check_repairs_have_ended();
        if self.contract.trials() == Trials::Nodes {
            self.restart_node().await;
        }
        self.restart_master().await;
        for client in &self.clients {
            client.prove_that_all_works().await;
        }
        self.empty().await;
        self.close().await;
        let mut tally = Tally { faults, done: self.operator.jobs(), ..Tally::default() };
        self.clients.iter().for_each(|client| tally.add(client.tally()));
        self.tally.set(tally);
    }

    /// Lets nodes be emptied while clients work; tells when the last job has ended.
    fn begin_operator(self: &Rc<Self>) -> Rc<Cell<bool>> {
        let has_ended = Rc::new(Cell::new(false));
        let (play, ended) = (self.clone(), has_ended.clone());
        self.world.direct(async move {
            let clients = &play.clients;
            let have_worked = || clients.iter().all(|client| client.has_worked());
            play.operator.work(have_worked).await;
            ended.set(true);
        });
        has_ended
    }

    /// Removes every key; then the master must have all space back.
    async fn empty(&self) {
        self.world.sleep(UNLEASED).await;
        if let Some(client) = self.clients.first() {
            client.remove_all().await;
        }
        self.world.sleep(UNLEASED).await;
        self.master.check_nothing_is_used();
        self.master.check_all_is_held();
        self.nodes.iter().for_each(|node| node.check_nothing_is_kept());
    }

    /// Nothing goes on any more. The process of a node ends and begins again: what its disk has is
    /// found all the same.
    async fn restart_node(self: &Rc<Self>) {
        let Some(client) = self.clients.first() else {
            return;
        };
        let node = &self.nodes[0];
        self.world.kill(node.host(), true);
        self.world.revive(node.host());
        node.begin();
        self.world.sleep(SETTLED).await;
        client.look_up_all().await;
    }

    /// Nothing goes on any more. The master's process ends and begins again: what was there is
    /// there again, and nothing else.
    async fn restart_master(self: &Rc<Self>) {
        let Some(client) = self.clients.first() else {
            return;
        };
        let (evicted, before) = (self.master.evicted_keys(), client.look_up_all().await);
        self.master.note_end();
        self.world.kill(self.master.host(), true);
        self.world.revive(self.master.host());
        self.master.begin();
        let master = self.master.clone();
        self.world.until(move || master.first().is_some()).await;
        let after = client.look_up_all().await;
        let is_same = before == after || self.master.evicted_keys() != evicted;
        self.world.check(is_same, || {
            format!("Before the master was started again {before:?} were there, then {after:?}")
        });
        self.world.sleep(SETTLED).await;
    }

    /// Ends all processes in good order.
    async fn close(&self) {
        self.clients.iter().for_each(|client| client.stop());
        self.nodes.iter().for_each(|node| node.stop());
        self.world.sleep(STOPPING).await;
        self.master.stop();
        self.world.sleep(STOPPING).await;
        self.world.check_nothing_left();
    }

    /// Makes trouble until the clients have done their work; returns the number of faults.
    async fn trouble(self: &Rc<Self>) -> u64 {
        let play = self.clone();
        let begin = move |host| play.begin_again(host);
        let nodes = self.nodes.iter().map(|node| node.host());
        let clients = self.clients.iter().map(|client| client.host());
        let hosts = nodes.chain(clients).chain([self.master.host()]);
        let hosts = match self.contract.trials() {
            Trials::Calm => return 0,
            Trials::Restarts => vec![self.master.host()],
            Trials::Nodes => {
                let nodes = self.nodes.iter().map(|node| node.host());
                nodes.chain([self.master.host()]).collect()
            }
            Trials::All => hosts.collect(),
        };
        let (ended, master) = (self.clone(), self.master.clone());
        let trouble = Trouble::new(&self.world, hosts, false, begin)
            .with_end(move |host| ended.note_end(host))
            .with_due(move || master.due());
        let is_over = || self.clients.iter().all(|client| client.has_worked());
        match self.contract.is_fair() {
            true => trouble.restart(is_over).await,
            false => trouble.make(is_over).await,
        }
        trouble.faults()
    }

    fn note_end(&self, host: HostId) {
        if host == self.master.host() {
            self.contract.note_end_of_master();
            self.master.note_end();
        }
    }

    fn begin_again(&self, host: HostId) {
        if host == self.master.host() {
            self.master.begin();
        }
        self.nodes.iter().filter(|node| node.host() == host).for_each(Node::begin);
        self.clients.iter().filter(|client| client.host() == host).for_each(Client::begin);
    }
}
