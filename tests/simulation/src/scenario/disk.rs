//! A disk and its user: writes, burials, reads and reclaim, while the process dies, the power fails,
//! operations fail or hang, the file system is full, and bits flip.
//! Invariant: a wrong byte is never read, what was void stays void, and what was announced is there
//! after the end of a process.

mod memory;
mod model;
mod user;

use super::Tally;
use crate::disk::DiskMood;
use crate::network::HostId;
use crate::random::Random;
use crate::world::World;
use model::Model;
use perigee_ssd::{DiskEvent, DiskOptions};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use user::User;

const LIVES: u64 = 5;
const CALLERS: usize = 3;
/// The smallest segments, and as few as still move.
const SEGMENT_BYTES: u32 = 16 << 20;
const SEGMENTS: u64 = 3;
/// Longest life of a process in the run's time.
const LIFE_MAX: Duration = Duration::from_secs(2);
const RUN_MAX: Duration = Duration::from_secs(3600);

/// What is wrong with the disk of a run.
#[derive(Clone, Copy, Debug)]
struct Trouble {
    mood: DiskMood,
    flips: bool,
}

impl Trouble {
    fn of(random: &Random) -> Self {
        let mut mood = DiskMood::default();
        let mut flips = false;
        match random.below(8) {
            0 => mood.error_odds = random.between(20, 400),
            1 => mood.stall_odds = random.between(50, 400),
            2 => mood.capacity_bytes = random.between(40 << 20, 60 << 20),
            3 => flips = true,
            _ => {}
        }
        Self { mood, flips }
    }

    fn is_none(self) -> bool {
        self.mood.error_odds == 0 && self.mood.stall_odds == 0 && !self.flips
    }
}

/// What a run shares.
struct Play {
    world: Rc<World>,
    host: HostId,
    random: Random,
    trouble: Trouble,
    model: RefCell<Model>,
    tally: Cell<Tally>,
    /// What the disk has said in the present life.
    events: Arc<Mutex<Vec<DiskEvent>>>,
}

impl Play {
    fn count(&self, is_done: bool) {
        let mut tally = self.tally.get();
        if is_done {
            tally.done += 1;
        } else {
            tally.failed += 1;
        }
        self.tally.set(tally);
    }

    fn note_fault(&self) {
        let mut tally = self.tally.get();
        tally.faults += 1;
        self.tally.set(tally);
    }

    fn options(&self) -> DiskOptions {
        let events = self.events.clone();
        DiskOptions {
            path: "/ssd".into(),
            capacity_bytes: SEGMENTS * u64::from(SEGMENT_BYTES),
            segment_bytes: SEGMENT_BYTES,
            cluster: "simulation".to_owned(),
            on_event: Arc::new(move |event| {
                events.lock().unwrap_or_else(PoisonError::into_inner).push(event);
            }),
        }
    }

    /// What the disk has said changes what the user counts on.
    fn hear(&self) {
        let events =
            std::mem::take(&mut *self.events.lock().unwrap_or_else(PoisonError::into_inner));
        for event in events {
            if let DiskEvent::Recycled { oldest } = event {
                self.model.borrow_mut().recycled(oldest);
            }
        }
    }
}

pub(super) fn play(world: &Rc<World>) -> Result<Tally, String> {
    let host = world.add_host();
    let random = world.fork_random();
    let play = Rc::new(Play {
        world: world.clone(),
        host,
        trouble: Trouble::of(&random),
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
        play.world.set_disk_mood(
            play.host,
            DiskMood { capacity_bytes: play.trouble.mood.capacity_bytes, ..DiskMood::default() },
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
        play.world.set_disk_mood(play.host, play.trouble.mood);
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
