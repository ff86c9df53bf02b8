//! An operator who empties nodes while clients work. An emptied node lends another segment.
//! Invariant: a drain job ends, at the latest some time after the last fault, and a segment that it
//! has emptied is empty.

use super::master::Master;
use super::node::Node;
use crate::random::Random;
use crate::world::World;
use perigee_master::{DrainJob, DrainJobRequest, JobState};
use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

/// Pause between two jobs, at most.
const PAUSE_MAX: Duration = Duration::from_secs(40);
/// Pause between two looks at a job.
const LOOK: Duration = Duration::from_millis(200);
/// Longest that a job takes without a fault: leases, abandoned puts and retries run out.
const JOB_MAX: Duration = Duration::from_secs(900);
/// Most moves of a job at the same time.
const CONCURRENCY_MAX: u64 = 4;

pub(super) struct Operator {
    world: Rc<World>,
    master: Rc<Master>,
    nodes: Vec<Rc<Node>>,
    random: Random,
    /// Since when nothing is broken any more.
    whole_since: Cell<Option<Duration>>,
    jobs: Cell<u64>,
}

impl Operator {
    pub(super) fn new(world: &Rc<World>, master: &Rc<Master>, nodes: &[Rc<Node>]) -> Self {
        Self {
            world: world.clone(),
            master: master.clone(),
            nodes: nodes.to_vec(),
            random: world.fork_random(),
            whole_since: Cell::new(None),
            jobs: Cell::new(0),
        }
    }

    /// Nothing is broken from now on.
    pub(super) fn note_whole(&self) {
        self.whole_since.set(Some(self.world.now()));
    }

    /// Jobs that have ended well.
    pub(super) fn jobs(&self) -> u64 {
        self.jobs.get()
    }

    /// Empties one node after the other until the work is over. One node alone is left as it is.
    pub(super) async fn work(&self, is_over: impl Fn() -> bool) {
        while self.nodes.len() > 1 && !is_over() {
            let pause = self.random.length(Duration::from_millis(100), PAUSE_MAX);
            self.world.sleep(pause).await;
            let node = self.random.pick(&self.nodes).clone();
            self.empty(&node).await;
        }
    }

    async fn empty(&self, node: &Node) {
        let epoch = self.master.epoch();
        let id = u128::from(self.random.next());
        let concurrency = self.random.between(1, CONCURRENCY_MAX) as u32;
        let request = DrainJobRequest {
            segments: vec![node.name()],
            target_segments: Vec::new(),
            max_concurrency: concurrency,
        };
        let sources = self.master.segments();
        if !self.create(id, request, epoch).await {
            return;
        }
        let Some(job) = self.ended(id, epoch, concurrency).await else {
            return;
        };
        self.world.note("drained", job.state as u64, job.report.succeeded);
        if job.state != JobState::Succeeded {
            return;
        }
        self.jobs.set(self.jobs.get() + 1);
        for (source, _) in sources.iter().filter(|(_, spec)| spec.name == node.name()) {
            let left = self.master.replicas_in(*source);
            self.world
                .check(left == 0, || format!("{left} replicas are left in an emptied segment"));
        }
        node.must_renew(epoch);
    }

    /// Whether a job was created. A master that dies in between does not answer.
    async fn create(&self, id: u128, request: DrainJobRequest, epoch: u64) -> bool {
        let Some(first) = self.master.first() else {
            return false;
        };
        let created = Rc::new(Cell::new(None));
        let answer = created.clone();
        self.master.spawn(async move {
            answer.set(Some(first.create_drain(id, request).await.is_ok()));
        });
        while created.get().is_none() && self.master.epoch() == epoch {
            self.world.sleep(LOOK).await;
        }
        created.get() == Some(true)
    }

    /// A job that has ended, unless its master has died.
    async fn ended(&self, id: u128, epoch: u64, concurrency: u32) -> Option<DrainJob> {
        let begun = self.world.now();
        loop {
            self.world.sleep(LOOK).await;
            if self.master.epoch() != epoch {
                return None;
            }
            let job = self.master.first()?.drain_job(id)?;
            self.world.check(job.report.active <= concurrency, || {
                format!("More moves are under way than the job allows: {job:?}")
            });
            if job.state.is_ended() {
                return Some(job);
            }
            let since = self.whole_since.get().map(|whole| whole.max(begun));
            let is_late = since.is_some_and(|since| self.world.now() - since > JOB_MAX);
            self.world.check(!is_late, || {
                format!("A drain job has not ended after {JOB_MAX:?}: {job:?}")
            });
        }
    }
}
