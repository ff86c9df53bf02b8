//! Tasks of the shard's keys: judged when they are asked for, then led copy by copy to their end.
//! Invariant: a task moves bytes only as a move of its object, of which there is one at a time.

use std::collections::BTreeSet;

use perigee_schemas::Status;

use crate::destination::Destination;
use crate::limits::{TASK_STEP_MAX, TASK_TARGETS_MAX};
use crate::refusal::JobRefusal;
use crate::shard_task::{ShardTask, TaskAction, TaskObstacle, TaskRequest, TaskUpdate};
use crate::space::Space;

use super::KeyShard;
use super::copy::{CopyStep, MissingRoom};
use super::task_turn::TaskTurn;

impl KeyShard {
    /// Whether a task can be accepted as things are, and the client that would copy first.
    ///
    /// # Errors
    /// `ObjectNotFound`, `ReplicaIsNotReady`; `InvalidParams`: no target, too many, a target that
    /// is the source, a segment that is not mounted, or a source without a replica;
    /// `UnavailableInCurrentStatus`: a target takes no objects, or several clients have segments of
    /// a name.
    pub fn check_task(&mut self, request: &TaskRequest) -> Result<u128, JobRefusal> {
        let targets = targets(&request.action).map_err(invalid)?;
        let object = self.stored.find(&request.key).ok_or_else(|| JobRefusal {
            status: Status::ObjectNotFound,
            reason: "There is no object of that key".to_owned(),
        })?;
        if !self.view().is_complete(object) {
            return Err(JobRefusal {
                status: Status::ReplicaIsNotReady,
                reason: "The object is still being written".to_owned(),
            });
        }
        if self.stored.is_striped(object) {
            return Err(invalid(
                "The object lies in parts, because it is larger than any segment: it is not copied \
                 or moved by tasks; drain a segment to empty it"
                    .to_owned(),
            ));
        }
        for target in targets {
            check_target(&self.space, target)?;
        }
        let source = match &request.action {
            TaskAction::Copy { .. } => None,
            TaskAction::Move { source, .. } => Some(source.as_str()),
        };
        source
            .map_or(Ok(()), |source| check_owner(&self.space, &self.space.named(source), source))?;
        let replica = self.view().source_of(object, source, 0);
        let replica = replica.ok_or_else(|| {
            let source = source.unwrap_or_default();
            invalid(format!("No replica of the object lies in segment {source:?}"))
        })?;
        Ok(self.view().carrier_of(replica))
    }

    /// Takes up a task under a random identity. If the object has changed since it was judged, a
    /// turn finds out.
    pub fn begin_task(&mut self, id: u128, request: TaskRequest) {
        let task = ShardTask::new(request, self.settings.task_retries_max);
        self.relocation.put_task(id, task);
    }

    /// Drops a task that was given up elsewhere; a copy that is under way comes to nothing.
    pub fn drop_task(&mut self, now_ms: u64, id: u128) {
        self.begin(now_ms);
        let Some(task) = self.relocation.take_task(id) else {
            return;
        };
        if let Some(object) = self.stored.find(&task.key)
            && self.relocation.of(object).is_some_and(|it| it.job == id)
        {
            self.cancel_move(object, true);
        }
    }

    /// Goes on with tasks, so far that no more than `allowance` copies for them are under way; to
    /// be called again and again while there are any.
    pub fn task_turn(&mut self, now_ms: u64, allowance: u32) -> TaskTurn {
        self.begin(now_ms);
        let mut turn = TaskTurn::default();
        let mut missing = MissingRoom::default();
        for id in self.relocation.next_tasks(TASK_STEP_MAX) {
            let Some(mut task) = self.relocation.take_task(id) else {
                continue;
            };
            let news = self.go_on(id, &mut task, allowance, &mut missing);
            turn.news.extend(news.map(|news| (id, news)));
            match task.outcome() {
                Some(outcome) => turn.news.push((id, TaskUpdate::Ended(outcome))),
                None => self.relocation.put_task(id, task),
            }
        }
        turn.active = self.relocation.moves().tasks();
        turn.needs = self.needs_of_copies(&missing.segments(), &missing);
        turn
    }

    /// Looks how the present copy of a task is, or begins the next one.
    fn go_on(
        &mut self,
        id: u128,
        task: &mut ShardTask,
        allowance: u32,
        missing: &mut MissingRoom,
    ) -> Option<TaskUpdate> {
        if task.outcome().is_some() {
            return None;
        }
        let Some(object) = self.stored.find(&task.key) else {
            task.give_up(Status::ObjectNotFound);
            return None;
        };
        if let Some(under_way) = self.relocation.of(object) {
            let is_taken = under_way.job == id && under_way.taken_ms.is_some();
            let is_news = is_taken && !std::mem::replace(&mut task.was_taken, true);
            return is_news.then_some(TaskUpdate::Taken);
        }
        if !self.view().is_complete(object) || !task.may_try(self.stored.clock.now_ms()) {
            return None;
        }
        let (source, destination) = match task.next_copy(self.view(), &self.pending, object) {
            Ok(next) => next,
            Err(TaskObstacle::Passing(status)) => {
                task.note_failure(self.stored.clock.now_ms(), status);
                return None;
            }
            Err(TaskObstacle::Lasting(status)) => {
                task.give_up(status);
                return None;
            }
        };
        let is_copied = matches!(destination, Destination::Open(_));
        if is_copied && !self.relocating().may_copy(source, allowance) {
            return None;
        }
        match self.copy(id, task.purpose(), source, destination, missing) {
            CopyStep::Begun(client) => return Some(TaskUpdate::Assigned(client)),
            CopyStep::NotNeeded => task.note_done(),
            CopyStep::NoRoom => task.note_no_room(self.stored.clock.now_ms()),
        }
        None
    }
}

/// A target must be mounted and take objects.
fn check_target(space: &Space, name: &str) -> Result<(), JobRefusal> {
    let named = space.named(name);
    if named.is_empty() {
        return Err(invalid(format!(
            "No segment is named {name:?}: /get_all_segments of the master lists the names"
        )));
    }
    check_owner(space, &named, name)?;
    match named.iter().any(|segment| space.live().contains(segment)) {
        true => Ok(()),
        false => Err(JobRefusal {
            status: Status::UnavailableInCurrentStatus,
            reason: format!("Segment {name:?} is being emptied and takes no objects"),
        }),
    }
}

/// One client may have several segments of a name; if several clients have one, the name is
/// ambiguous.
fn check_owner(space: &Space, named: &[u32], name: &str) -> Result<(), JobRefusal> {
    let shares = named.iter().filter_map(|segment| space.get(*segment));
    let clients: BTreeSet<u128> = shares.map(|share| share.spec.client).collect();
    match clients.len() {
        0 | 1 => Ok(()),
        several => Err(JobRefusal::shared_name(name, several)),
    }
}

/// The targets of a task whose arguments are valid by themselves.
fn targets(action: &TaskAction) -> Result<&[String], String> {
    match action {
        TaskAction::Copy { targets } if targets.is_empty() => {
            Err("A copy needs at least one target segment".to_owned())
        }
        TaskAction::Copy { targets } if targets.len() > TASK_TARGETS_MAX => Err(format!(
            "{} target segments are over the limit of {TASK_TARGETS_MAX}",
            targets.len()
        )),
        TaskAction::Copy { targets } => Ok(targets),
        TaskAction::Move { source, target } if source == target => {
            Err("A move needs a target segment other than its source".to_owned())
        }
        TaskAction::Move { target, .. } => Ok(std::slice::from_ref(target)),
    }
}

fn invalid(reason: String) -> JobRefusal {
    JobRefusal { status: Status::InvalidParams, reason }
}
