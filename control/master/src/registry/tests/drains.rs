//! Facts about drain jobs as the registry keeps them.

use super::*;
use crate::draining::DrainReport;
use crate::limits::{JOB_CONCURRENCY_MAX, JOBS_ACTIVE_MAX, JOBS_ENDED_MAX};

/// A cluster of segments 0, 1, ... named `n0`, `n1`, ..., each of the client with its number plus
/// 20.
fn cluster(segments: u32) -> Checked {
    let mut registry = registry_with(RegistrySettings::default());
    for index in 0..segments {
        let spec = SegmentSpec {
            name: format!("n{index}"),
            ..spec(1 + u128::from(index), 20 + u128::from(index))
        };
        assert_eq!(registry.mount(0, spec), Ok(index));
    }
    registry.take_events();
    registry
}

fn request(segments: &[&str], targets: &[&str]) -> DrainJobRequest {
    let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    DrainJobRequest {
        segments: owned(segments),
        target_segments: owned(targets),
        max_concurrency: 4,
    }
}

fn state(registry: &Registry, index: u32) -> Option<SegmentState> {
    registry.segment(index).map(|view| view.state)
}

fn done() -> DrainReport {
    DrainReport { is_done: true, ..DrainReport::default() }
}

#[test]
fn a_job_closes_its_segments_and_leaves_them_drained() {
    let mut registry = cluster(3);
    assert_eq!(registry.create_drain(5, 1, request(&["n0"], &[])), Ok(()));
    assert_eq!(registry.take_events(), [SegmentEvent::Draining { index: 0 }]);
    assert_eq!(state(&registry, 0), Some(SegmentState::Draining));
    assert_eq!(registry.drain_job(1).unwrap().state, JobState::Created);
    assert!(registry.has_moves(20) && !registry.has_moves(21));
    let order = registry.drain_order(1).unwrap();
    assert_eq!((&*order.sources, &*order.targets), (&[0][..], &[][..]));
    assert_eq!(order.allowance, 4);
    assert_eq!(registry.drain_job(1).unwrap().state, JobState::Planning);
    assert!(!registry.note_drain(6, 1, DrainReport::default()));
    assert_eq!(registry.drain_job(1).unwrap().state, JobState::Running);
    assert!(registry.note_drain(7, 1, done()));
    let job = registry.drain_job(1).unwrap();
    assert_eq!(job.state, JobState::Succeeded);
    assert_eq!((job.created_ms, job.updated_ms), (5, 7));
    assert_eq!(state(&registry, 0), Some(SegmentState::Drained));
    assert!(registry.take_events().is_empty(), "it stays closed");
    assert!(!registry.has_moves(20) && registry.drain_order(1).is_none());
}

#[test]
fn a_canceled_job_opens_its_segments_again_unless_something_is_moving() {
    let mut registry = cluster(3);
    assert_eq!(registry.cancel_drain(0, 1), Err(Status::JobNotFound));
    let wish = request(&["n0", "n1"], &["n2"]);
    assert_eq!(registry.create_drain(0, 1, wish), Ok(()));
    registry.take_events();
    let moving = DrainReport { active: 1, ..DrainReport::default() };
    registry.note_drain(0, 1, moving);
    let refused = Err(Status::UnavailableInCurrentStatus);
    assert_eq!(registry.cancel_drain(0, 1), refused);
    registry.note_drain(0, 1, DrainReport::default());
    assert_eq!(registry.cancel_drain(9, 1), Ok(()));
    let opened = [0, 1].map(|index| SegmentEvent::Resumed { index });
    assert_eq!(registry.take_events(), opened);
    assert_eq!(state(&registry, 1), Some(SegmentState::Ok));
    assert_eq!(registry.cancel_drain(0, 1), refused);
    assert_eq!(registry.drain_job(1).unwrap().state, JobState::Canceled);
    assert_eq!(registry.create_drain(0, 2, request(&["n0"], &[])), Ok(()));
}

#[test]
fn a_job_that_leaves_something_behind_fails_and_opens_its_segments() {
    let mut registry = cluster(2);
    assert_eq!(registry.create_drain(0, 1, request(&["n0"], &[])), Ok(()));
    registry.take_events();
    let left = DrainReport { failed: 2, last_failure: Some(Status::NoAvailableHandle), ..done() };
    assert!(registry.note_drain(0, 1, left));
    let job = registry.drain_job(1).unwrap();
    assert_eq!(job.state, JobState::Failed);
    assert!(job.message.contains("NO_AVAILABLE_HANDLE"), "{job:?}");
    assert_eq!(registry.take_events(), [SegmentEvent::Resumed { index: 0 }]);
}

#[test]
fn a_segment_that_goes_before_it_is_drained_fails_its_job() {
    let mut registry = cluster(2);
    assert_eq!(registry.create_drain(0, 1, request(&["n0"], &[])), Ok(()));
    registry.leave(0, 20);
    registry.take_events();
    assert!(registry.note_drain(0, 1, done()));
    let job = registry.drain_job(1).unwrap();
    assert_eq!(job.state, JobState::Failed);
    assert!(job.message.contains("unmounted"), "{job:?}");
    assert!(registry.take_events().is_empty());
}

#[test]
fn a_graceful_unmount_of_a_draining_segment_is_not_undone_by_its_job() {
    let mut registry = cluster(2);
    assert_eq!(registry.create_drain(0, 1, request(&["n0"], &[])), Ok(()));
    assert_eq!(registry.drain(0, 20, 1, 1_000), Ok(()));
    registry.take_events();
    assert_eq!(registry.cancel_drain(0, 1), Ok(()));
    assert!(registry.take_events().is_empty());
    let unmounting = Some(SegmentState::GracefullyUnmounting);
    assert_eq!(state(&registry, 0), unmounting);
}

#[test]
fn a_draining_segment_that_is_mounted_again_keeps_draining() {
    let mut registry = cluster(1);
    assert_eq!(registry.create_drain(0, 1, request(&["n0"], &[])), Ok(()));
    let again = SegmentSpec { name: "n0".to_owned(), ..spec(1, 20) };
    assert_eq!(registry.mount(0, again), Ok(0));
    assert_eq!(state(&registry, 0), Some(SegmentState::Draining));
}

#[test]
fn a_refusal_names_the_segment_and_says_what_to_do() {
    let mut registry = cluster(2);
    let mut reason = |names: &[&str]| {
        registry.create_drain(0, 2, request(names, &[])).map_err(|refused| refused.reason)
    };
    let unknown = reason(&["x"]).unwrap_err();
    assert!(unknown.contains("\"x\"") && unknown.contains("/get_all_segments"), "{unknown}");
    assert_eq!(reason(&["n1"]), Ok(()));
    let busy = reason(&["n1"]).unwrap_err();
    assert!(busy.contains("n1 is being drained: wait"), "{busy}");
    assert!(registry.note_drain(0, 2, done()));
    let drained = registry.create_drain(0, 3, request(&["n1"], &[])).unwrap_err().reason;
    assert!(drained.contains("n1 is drained") && drained.contains("started again"), "{drained}");
}

#[test]
fn wrong_requests_change_nothing() {
    let mut registry = cluster(3);
    let concurrent = |max_concurrency| DrainJobRequest { max_concurrency, ..request(&["n0"], &[]) };
    assert_eq!(registry.create_drain(0, 1, request(&["n2"], &[])), Ok(()));
    registry.take_events();
    let busy = Status::UnavailableInCurrentStatus;
    for (wrong, status) in [
        (request(&[], &[]), Status::InvalidParams),
        (request(&["n0"], &["n1", "n0"]), Status::InvalidParams),
        (concurrent(0), Status::InvalidParams),
        (concurrent(JOB_CONCURRENCY_MAX + 1), Status::InvalidParams),
        (request(&["n0", "x"], &[]), Status::SegmentNotFound),
        (request(&["n0"], &["x"]), Status::SegmentNotFound),
        (request(&["n2"], &[]), busy),
        (request(&["n0"], &["n2"]), busy),
    ] {
        let created = registry.create_drain(0, 2, wrong.clone());
        let refused = created.expect_err("it is wrong");
        assert_eq!(refused.status, status, "{wrong:?}");
    }
    assert!(registry.take_events().is_empty());
    assert_eq!(state(&registry, 0), Some(SegmentState::Ok));
}

#[test]
fn only_so_many_jobs_are_active_and_remembered() {
    let most = u32::try_from(JOBS_ACTIVE_MAX).unwrap();
    let mut registry = cluster(most + 1);
    for index in 0..most {
        let wish = request(&[&format!("n{index}")], &[]);
        assert_eq!(registry.create_drain(0, index.into(), wish), Ok(()));
    }
    let one_more = registry.create_drain(0, 500, request(&[&format!("n{most}")], &[]));
    assert_eq!(one_more, Err(Status::TaskPendingLimitExceeded.into()));
    assert_eq!(registry.cancel_drain(0, 5), Ok(()));
    for id in 1_000..1_000 + JOBS_ENDED_MAX as u128 {
        assert_eq!(registry.create_drain(0, id, request(&["n5"], &[])), Ok(()));
        assert_eq!(registry.cancel_drain(0, id), Ok(()));
    }
    assert!(registry.drain_job(5).is_none(), "the oldest is forgotten");
    assert!(registry.drain_job(1_000).is_some() && registry.drain_job(6).is_some());
}

#[test]
fn a_name_of_several_clients_is_not_drained_but_one_of_their_segments_by_its_identity_is() {
    let mut registry = cluster(1);
    for (id, client) in [(50, 7), (1 << 64 | 51, 7), (52, 8)] {
        let shared = SegmentSpec { name: "shared".to_owned(), ..spec(id, client) };
        registry.mount(0, shared).unwrap();
    }
    registry.take_events();
    let refused = registry.create_drain(0, 1, request(&["n0", "shared"], &[]));
    let refused = refused.unwrap_err();
    assert_eq!(refused.status, Status::UnavailableInCurrentStatus);
    assert!(refused.reason.contains("2 clients"), "{}", refused.reason);
    assert!(registry.take_events().is_empty());
    assert_eq!(registry.create_drain(0, 1, request(&["1-51"], &[])), Ok(()));
    assert_eq!(registry.take_events(), [SegmentEvent::Draining { index: 2 }]);
    assert_eq!(registry.cancel_drain(0, 1), Ok(()));
    assert!(registry.leave(0, 8));
    let of_one = registry.create_drain(0, 2, request(&["shared"], &[]));
    assert_eq!(of_one, Ok(()), "both segments are one client's");
}

#[test]
fn the_name_of_a_node_means_its_memory_and_not_its_disks() {
    let mut registry = cluster(2);
    let disk = |id, name: &str, client| SegmentSpec {
        name: name.to_owned(),
        kind: SegmentKind::Disk,
        ..spec(id, client)
    };
    assert_eq!(registry.mount(0, disk(9, "n0", 20)), Ok(2));
    assert_eq!(registry.mount(0, disk(10, "n1", 21)), Ok(3));
    assert_eq!(registry.mount(0, disk(11, "alone", 22)), Ok(4));
    registry.take_events();
    for refused in [request(&["alone"], &[]), request(&["0-9"], &[]), request(&["n0"], &["0-10"])] {
        let refusal = registry.create_drain(0, 1, refused).unwrap_err();
        assert!(refusal.reason.contains("a disk"), "{}", refusal.reason);
    }
    assert_eq!(registry.create_drain(0, 1, request(&["n0"], &["n1"])), Ok(()));
    assert_eq!(registry.take_events(), [SegmentEvent::Draining { index: 0 }]);
    let order = registry.drain_order(1).unwrap();
    assert_eq!((&*order.sources, &*order.targets), (&[0][..], &[1][..]));
}
