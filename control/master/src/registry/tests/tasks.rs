//! Facts about tasks as the registry keeps them.

use super::*;
use crate::shard_task::TaskUpdate;

const CLIENT: u128 = 20;

fn registry_with(tasks: TaskSettings) -> Checked {
    Checked(Registry::new(RegistrySettings { tasks, ..RegistrySettings::default() }))
}

fn create(registry: &mut Registry, id: u128) -> Result<bool, Status> {
    registry.create_task(100, 7_000, id, TaskKind::Copy, CLIENT)
}

fn state(registry: &Registry, id: u128) -> Option<TaskState> {
    registry.task(id).map(|task| task.state)
}

#[test]
fn a_task_is_pending_then_processing_then_done_and_its_times_are_shown() {
    let mut registry = registry_with(TaskSettings::default());
    assert_eq!(create(&mut registry, 1), Ok(true));
    let task = registry.task(1).unwrap();
    assert_eq!((task.kind, task.state), (TaskKind::Copy, TaskState::Pending));
    assert_eq!((task.created_ms, task.updated_ms), (7_000, 7_000));
    assert_eq!((task.client, task.message.as_str()), (CLIENT, ""));
    assert!(registry.has_tasks() && registry.has_moves(CLIENT) && !registry.has_moves(21));

    registry.note_task(200, 7_100, 1, TaskUpdate::Assigned(21));
    assert!(!registry.has_moves(CLIENT) && registry.has_moves(21));
    registry.note_task(300, 7_200, 1, TaskUpdate::Taken);
    let task = registry.task(1).unwrap();
    assert_eq!((task.state, task.client, task.updated_ms), (TaskState::Processing, 21, 7_200));
    registry.note_task(300, 7_250, 1, TaskUpdate::Taken);
    assert_eq!(registry.task(1).unwrap().updated_ms, 7_200, "nothing changed");

    registry.note_task(400, 7_300, 1, TaskUpdate::Ended(Ok(())));
    let task = registry.task(1).unwrap();
    assert_eq!(task.state, TaskState::Succeeded);
    assert_eq!(task.message, "Task completed successfully");
    assert!(!registry.has_tasks() && !registry.has_moves(21));
    let late = TaskUpdate::Ended(Err(Status::ObjectNotFound));
    registry.note_task(500, 7_400, 1, late);
    assert_eq!(registry.task(1).unwrap().updated_ms, 7_300, "it has ended");
}

#[test]
fn a_failed_task_says_why() {
    let mut registry = registry_with(TaskSettings::default());
    create(&mut registry, 1).unwrap();
    let failed = TaskUpdate::Ended(Err(Status::NoAvailableHandle));
    registry.note_task(200, 7_100, 1, failed);
    let task = registry.task(1).unwrap();
    assert_eq!(task.state, TaskState::Failed);
    assert!(task.message.contains("NO_AVAILABLE_HANDLE (-200)"), "{}", task.message);
    assert!(task.message.contains("no room"), "{}", task.message);
}

#[test]
fn as_many_tasks_may_wait_as_the_settings_say() {
    let mut registry = registry_with(TaskSettings { pending_max: 2, ..TaskSettings::default() });
    assert_eq!(create(&mut registry, 1), Ok(true));
    assert_eq!(create(&mut registry, 2), Ok(true));
    assert_eq!(create(&mut registry, 3), Err(Status::TaskPendingLimitExceeded));
    assert_eq!(create(&mut registry, 2), Ok(false), "asked again");
    registry.note_task(200, 7_100, 1, TaskUpdate::Taken);
    assert_eq!(create(&mut registry, 3), Ok(true), "the first one waits no more");
}

#[test]
fn as_many_ended_tasks_are_remembered_as_the_settings_say() {
    let mut registry = registry_with(TaskSettings { finished_max: 2, ..TaskSettings::default() });
    for id in 1..=4 {
        create(&mut registry, id).unwrap();
    }
    for id in [2, 1, 4] {
        registry.note_task(200, 7_100, id, TaskUpdate::Ended(Ok(())));
    }
    assert_eq!(state(&registry, 2), None, "it ended first");
    assert_eq!(state(&registry, 1), Some(TaskState::Succeeded));
    assert_eq!(state(&registry, 4), Some(TaskState::Succeeded));
    assert_eq!(state(&registry, 3), Some(TaskState::Pending), "active ones stay");
}

#[test]
fn a_task_that_waits_or_runs_for_too_long_fails() {
    let mut registry = registry_with(TaskSettings {
        pending_timeout_ms: Some(1_000),
        processing_timeout_ms: Some(5_000),
        ..TaskSettings::default()
    });
    create(&mut registry, 1).unwrap();
    create(&mut registry, 2).unwrap();
    registry.note_task(1_000, 8_000, 2, TaskUpdate::Taken);
    assert!(registry.end_overdue_tasks(1_099, 8_000).is_empty());
    assert_eq!(registry.end_overdue_tasks(1_100, 8_100), [1]);
    let task = registry.task(1).unwrap();
    assert_eq!((task.state, task.updated_ms), (TaskState::Failed, 8_100));
    assert!(task.message.contains("RPC_TIMEOUT"), "{}", task.message);
    assert!(registry.end_overdue_tasks(5_999, 9_000).is_empty());
    assert_eq!(registry.end_overdue_tasks(6_000, 9_000), [2]);
    assert!(!registry.has_tasks());
}

#[test]
fn a_task_without_a_deadline_waits_for_ever() {
    let mut registry =
        registry_with(TaskSettings { pending_timeout_ms: None, ..TaskSettings::default() });
    create(&mut registry, 1).unwrap();
    assert!(registry.end_overdue_tasks(u64::MAX, 8_000).is_empty());
    assert_eq!(state(&registry, 1), Some(TaskState::Pending));
}
