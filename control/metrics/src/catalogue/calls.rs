//! Mooncake's families about calls, made from the list of calls. Invariant: a call that this master
//! does not answer yet is in the `zero` list, so that no alert rests on a number that nothing
//! feeds.

use crate::family::Family;

macro_rules! single_calls {
    (
        served: $($id:literal)*;
        counted: $($step:literal: $steps:literal)*;
        zero: $($idle:literal)*;
    ) => {
        &[
            $(
                Family::counter(concat!("master_", $id, "_requests_total"), "requests",
                    concat!("Calls of ", $id, " answered")),
                Family::counter(concat!("master_", $id, "_failures_total"), "requests",
                    concat!("Calls of ", $id, " that failed")),
            )*
            $(
                Family::counter(concat!("master_", $step, "_requests_total"), "requests", $steps),
                Family::counter(concat!("master_", $step, "_failures_total"), "requests",
                    "Always 0: a copy that fails counts as a revoke").never(),
            )*
            $(
                Family::counter(concat!("master_", $idle, "_requests_total"), "requests",
                    concat!("Calls of ", $idle, " answered")).zero(),
                Family::counter(concat!("master_", $idle, "_failures_total"), "requests",
                    concat!("Calls of ", $idle, " that failed")).zero(),
            )*
        ]
    };
}

macro_rules! batch_family {
    ($id:literal, $part:literal, $unit:literal, $help:literal) => {
        Family::counter(
            concat!("master_batch_", $id, "_", $part, "_total"),
            $unit,
            concat!($help, " of batch_", $id),
        )
    };
}

macro_rules! batch_calls {
    (served: $($id:literal)*;) => {
        &[
            $(
                batch_family!($id, "requests", "requests", "Calls"),
                batch_family!($id, "failures", "requests", "Calls without one good item"),
                batch_family!($id, "partial_successes", "requests", "Calls with good and bad items"),
                batch_family!($id, "items", "items", "Items"),
                batch_family!($id, "failed_items", "items", "Bad items"),
            )*
        ]
    };
}

pub(super) const SINGLE: &[Family] = single_calls! {
    served:
        "exist_key"
        "put_start"
        "put_end"
        "put_revoke"
        "get_replica_list"
        "get_replica_list_by_regex"
        "remove"
        "remove_by_regex"
        "remove_all"
        "mount_segment"
        "unmount_segment"
        "remount_segment"
        "ping"
        "update_task"
        "fetch_tasks"
        "create_copy_task"
        "create_move_task"
        "query_task"
    ;
    counted:
        "copy_start": "Copies of tasks that clients began"
        "copy_end": "Copies of tasks that are complete"
        "copy_revoke": "Copies of tasks that were given up"
        "move_start": "Moves of drains and tasks that clients began"
        "move_end": "Moves of drains and tasks that are complete"
        "move_revoke": "Moves of drains and tasks that were given up"
    ;
    zero:
        "evict_disk_replica"
    ;
};

pub(super) const BATCH: &[Family] = batch_calls! {
    served:
        "exist_key"
        "query_ip"
        "replica_clear"
        "get_replica_list"
        "put_start"
        "put_end"
        "put_revoke"
    ;
};
