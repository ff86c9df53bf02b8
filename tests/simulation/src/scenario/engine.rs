//! Registered memory that engines read and write over the production code of `perigee-engine`.
//!
//! Promised: a batch is over by its deadline; a request that completed has moved exactly its bytes,
//! and one that reads them hands out what is there; nothing outside of a registered and addressed
//! range changes; a buffer that was taken out is not touched any more, nor local memory once a
//! batch is over; an earlier life of a peer is refused; after the trouble everything works again;
//! when all is closed, nothing is left.

mod caller;
mod field;
mod memory;

use super::Tally;
use super::faults::{HEARD, Trouble};
use crate::world::World;
use caller::Caller;
use field::Field;
use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

/// Longest run.
const RUN_LIMIT: Duration = Duration::from_secs(24 * 3600);
/// Time after the last fault in which kernels find out what was lost.
const CALM: Duration = Duration::from_secs(50);
/// Time in which everything that was asked to stop has stopped.
const STOPPING: Duration = Duration::from_secs(60);

/// Everything on the stage.
struct Play {
    world: Rc<World>,
    field: Rc<Field>,
    callers: Vec<Rc<Caller>>,
    tally: Cell<Tally>,
}

pub(super) fn play(world: &Rc<World>) -> Result<Tally, String> {
    let random = world.fork_random();
    let is_calm = random.one_in(4);
    let with_checksum = random.one_in(2);
    let flips = !is_calm && with_checksum && random.one_in(2);
    let field = Rc::new(Field::new(world, random.between(1, 3) as usize, is_calm, flips)?);
    let caller = |_| Rc::new(Caller::new(world, &field, with_checksum));
    let play = Rc::new(Play {
        world: world.clone(),
        callers: (0..random.between(1, 3)).map(caller).collect(),
        field,
        tally: Cell::default(),
    });
    let callers = play.callers.clone();
    world.inspect(move || callers.iter().for_each(|caller| caller.check()));
    let is_over = Rc::new(Cell::new(false));
    let (directed, over) = (play.clone(), is_over.clone());
    world.direct(async move {
        directed.direct().await;
        over.set(true);
    });
    world.run(RUN_LIMIT, || is_over.get())?;
    play.field.forget();
    Ok(play.tally.get())
}

impl Play {
    async fn direct(self: &Rc<Self>) {
        let random = self.world.fork_random();
        self.field.begin_all();
        self.callers.iter().for_each(Caller::begin);
        let is_over = Rc::new(Cell::new(false));
        self.take_buffers_out(&is_over);
        let faults = if self.field.is_calm() { 0 } else { self.trouble().await };
        let working = self.callers.clone();
        self.world.until(move || working.iter().all(|caller| caller.has_worked())).await;
        is_over.set(true);
        self.world.sleep(CALM).await;
        self.prove_that_all_works().await;
        // Connections to engines that have been away are idle now; a caller that knows the new run
        // must not notice.
        for host in self.field.hosts() {
            self.world.kill(host, random.one_in(2));
            self.world.revive(host);
            self.field.begin_again(host);
        }
        self.world.sleep(HEARD).await;
        self.prove_that_all_works().await;
        self.callers.iter().for_each(|caller| caller.stop());
        self.field.stop_all();
        self.world.sleep(STOPPING).await;
        self.field.compare_all();
        self.world.check_nothing_left();
        let mut tally = Tally { faults, ..Tally::default() };
        self.callers.iter().for_each(|caller| tally.add(caller.tally()));
        self.tally.set(tally);
    }

    async fn prove_that_all_works(&self) {
        for caller in &self.callers {
            caller.prove_that_all_works().await;
        }
    }

    /// Now and then a buffer leaves, in the middle of whatever goes on in it, and comes back.
    fn take_buffers_out(&self, is_over: &Rc<Cell<bool>>) {
        let (world, field, is_over) = (self.world.clone(), self.field.clone(), is_over.clone());
        self.world.direct(async move {
            let random = world.fork_random();
            while !is_over.get() {
                let pause = random.length(Duration::from_millis(1), Duration::from_secs(4));
                world.sleep(pause).await;
                if !is_over.get() {
                    field.take_one_out(&random).await;
                }
            }
        });
    }

    /// Makes trouble until the callers have done their work; returns the number of faults.
    async fn trouble(self: &Rc<Self>) -> u64 {
        let (field, actors) = (self.field.clone(), self.callers.clone());
        let begin = move |host| {
            field.begin_again(host);
            actors.iter().filter(|caller| caller.host() == host).for_each(Caller::begin);
        };
        let hosts = self.field.hosts().into_iter();
        let hosts = hosts.chain(self.callers.iter().map(|caller| caller.host()));
        let trouble = Trouble::new(&self.world, hosts.collect(), self.field.flips(), begin);
        trouble.make(|| self.callers.iter().all(|caller| caller.has_worked())).await;
        trouble.faults()
    }
}
