//! What a drain would do, from lists of segments.

use super::*;
use perigee_rpc::ReplySegment;
use perigee_schemas::SegmentKind;
use std::time::Duration;

fn segment(name: &str, client: u64, used_bytes: u64, state: u8) -> SegmentUse {
    let segment = ReplySegment {
        id: Identity::from_halves(client, 1),
        client: Identity::from_halves(7, client),
        bytes: 1 << 30,
        base: 0,
        name: name.to_owned(),
        endpoint: "10.0.0.1:4000".to_owned(),
        host_id: "host".to_owned(),
        rendezvous: String::new(),
        protocol: "tcp".to_owned(),
        kind: Some(SegmentKind::Memory),
    };
    let usable_bytes = segment.bytes;
    SegmentUse { segment, used_bytes, usable_bytes, state }
}

fn of(listed: &[SegmentUse]) -> Prospect {
    prospect(listed, &["own:1".to_owned()])
}

#[test]
fn a_drain_is_useful_where_another_client_takes_objects() {
    let own = segment("own:1", 1, 9, OPEN);
    let open = segment("other:1", 2, 0, OPEN);
    assert_eq!(of(&[own.clone(), open.clone()]), Prospect::Useful);
    assert_eq!(of(&[segment("own:1", 1, 0, OPEN), open.clone()]), Prospect::Useful);
    assert_eq!(of(&[segment("own:1", 1, 9, DRAINING), open]), Prospect::UnderWay);
    assert_eq!(of(std::slice::from_ref(&own)), Prospect::Nowhere);
    // Those that are being emptied take nothing, and neither does this process itself.
    let closed = segment("other:1", 2, 0, DRAINING);
    assert_eq!(of(&[own.clone(), closed]), Prospect::Nowhere);
    assert_eq!(of(&[own, segment("file", 1, 0, OPEN)]), Prospect::Nowhere);
}

#[test]
fn nothing_is_done_where_nothing_lies() {
    assert_eq!(of(&[segment("own:1", 1, 0, OPEN)]), Prospect::Empty);
    assert_eq!(of(&[segment("own:1", 1, 0, UNVERIFIED)]), Prospect::Empty);
    let open = segment("other:1", 2, 0, OPEN);
    assert_eq!(of(&[segment("own:1", 1, 9, DRAINED), open]), Prospect::Empty);
}

#[test]
fn segments_that_the_master_does_not_know_are_not_taken_for_empty() {
    let other = segment("other:1", 2, 0, OPEN);
    assert_eq!(of(&[]), Prospect::Unknown);
    assert_eq!(of(std::slice::from_ref(&other)), Prospect::Unknown);
    assert_eq!(of(&[segment("own:1", 1, 9, UNVERIFIED), other.clone()]), Prospect::Unknown);
    let listed = [segment("own:1", 1, 9, DRAINED), other];
    let both = ["own:1".to_owned(), "own:2".to_owned()];
    assert_eq!(prospect(&listed, &both), Prospect::Unknown, "one of two");
    let by_id = [id_text(listed[0].segment.id)];
    assert_eq!(prospect(&listed, &by_id), Prospect::Empty, "an identity is a name, too");
}

#[test]
fn a_master_that_is_away_is_not_waited_for() {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let until = Instant::now() + Duration::from_secs(86_400);
    let master = format!("127.0.0.1:{port}");
    let jobs = DrainJobs::of(&master, port);
    let error = drain_by_default(jobs, &master, &["own:1".to_owned()], until);
    assert!(matches!(error, Err(DrainError::NoList { .. })), "{error:?}");
}
