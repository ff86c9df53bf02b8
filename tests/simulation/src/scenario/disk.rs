//! A disk and its user: writes, burials, reads and reclaim, while the process dies, the power
//! fails, operations fail or hang, the file system is full, bits flip, and writes are lost or
//! misdirected.
//! Invariant: a wrong byte is never read, what was void stays void, and what was announced is there
//! after the end of a process.

mod memory;
mod model;
mod play;
mod user;

use super::Tally;
use crate::disk::DiskBehaviour;
use crate::world::World;
use perigee_ssd::StorageKey;
use play::{Play, Trouble};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use user::User;

const LIVES: u64 = 5;
const CALLERS: usize = 3;
/// Longest life of a process in the run's time.
const LIFE_MAX: Duration = Duration::from_secs(2);
const RUN_MAX: Duration = Duration::from_secs(3600);

pub(super) fn play(world: &Rc<World>) -> Result<Tally, String> {
    let host = world.add_host();
    let random = world.fork_random();
    let play = Rc::new(Play {
        world: world.clone(),
        host,
        trouble: Trouble::of(&random),
        key: random.one_in(3).then(|| StorageKey::new([7; 32])),
        random,
        model: RefCell::default(),
        tally: Cell::default(),
        events: Arc::default(),
    });
    let is_over = Rc::new(Cell::new(false));
    let (directed, over) = (play.clone(), is_over.clone());
    world.direct(async move {
        direct(&directed).await;
        over.set(true);
    });
    world.run(RUN_MAX, || is_over.get())?;
    Ok(play.tally.get())
}

/// One life of the process after the other.
async fn direct(play: &Rc<Play>) {
    // Whether every copy that was announced must be found again.
    let mut must_have = true;
    for life in 0..LIVES {
        play.world.set_disk_behaviour(
            play.host,
            DiskBehaviour {
                capacity_bytes: play.trouble.behaviour.capacity_bytes,
                ..DiskBehaviour::default()
            },
        );
        let environment = play.world.environment(play.host);
        let user = User::new(play, &environment);
        let has_opened = Rc::new(Cell::new(false));
        let (own, opened) = (user.clone(), has_opened.clone());
        perigee_shard::Environment::spawn(&environment, async move {
            if own.open(must_have).await {
                opened.set(true);
                own.live(CALLERS).await;
            }
        });
        play.world.until_at_most(Duration::from_secs(120), move || has_opened.get()).await;
        play.world.set_disk_behaviour(play.host, play.trouble.behaviour);
        let length = play.random.length(Duration::from_millis(1), LIFE_MAX);
        play.world.sleep(length).await;
        let power_stays = play.random.one_in(2);
        if play.random.one_in(4) {
            user.close().await;
        } else {
            play.note_fault();
        }
        if play.trouble.flips && life > 0 {
            play.world.flip_a_bit(play.host);
        }
        play.hear();
        play.world.kill(play.host, power_stays);
        play.hear();
        play.model.borrow_mut().end_life();
        play.world.revive(play.host);
        must_have = power_stays && play.trouble.is_none();
    }
}
