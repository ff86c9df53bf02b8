//! Peers that announce memory which they do not have, or announce it in another's name. Invariant:
//! what honest nodes lend serves all the while, and no object goes where it is not kept.

use perigee_schemas::{Identity, Status};
use perigee_tests::cluster::{Master, Node};
use perigee_tests::deadline::wait_until;
use perigee_tests::limits::MEMBERSHIP_DEADLINE;
use perigee_tests::objects::Objects;
use perigee_tests::stranger::{announce, forged, silent_owner, stranger};

const SEGMENT_BYTES: u64 = 64 << 20;
const OBJECT_BYTES: usize = 64 << 10;
const OBJECTS: u64 = 40;
const STRANGER: Identity = Identity(0x0bad_0000_0000_0000_0000_0bad);

/// Puts and reads back objects.
#[track_caller]
fn serves(master: &Master, first: u64) {
    let objects = Objects::open(&master.address());
    for key in first..first + OBJECTS {
        assert_eq!(objects.put_object(key, 1, OBJECT_BYTES), Status::Ok, "{key}");
        assert_eq!(objects.get_object(key, OBJECT_BYTES), Ok(1));
    }
}

/// Mooncake's word for the state of a segment.
fn state(master: &Master, name: &str) -> Option<String> {
    let segments = master.segments();
    let named = segments.iter().find(|segment| segment["segment_name"] == name)?;
    named["status"].as_str().map(str::to_owned)
}

#[test]
fn thousands_of_segments_without_owners_keep_no_honest_node_out() {
    let master = Master::start(&[]);
    let client = stranger(&master, STRANGER);
    let segments: Vec<_> = (0..4094).map(|id| forged(id, "127.0.0.1:1", 4096)).collect();
    announce(&client, &segments);
    let _node = Node::start(&master, SEGMENT_BYTES);
    serves(&master, 0);
}

#[test]
fn a_segment_whose_owner_greets_and_never_answers_takes_no_object() {
    let master = Master::start(&[]);
    let _node = Node::start(&master, SEGMENT_BYTES);
    let endpoint = silent_owner(STRANGER).to_string();
    let client = stranger(&master, STRANGER);
    let verdicts = announce(&client, &[forged(1, &endpoint, 1 << 46)]);
    assert_eq!(verdicts, [Status::Ok]);
    serves(&master, 0);
    assert_eq!(state(&master, "forged-1:1").as_deref(), Some("UNDEFINED"));
}

#[test]
fn a_segment_that_its_owner_does_not_have_takes_no_object() {
    let master = Master::start(&[]);
    let node = Node::start(&master, SEGMENT_BYTES);
    let reader = stranger(&master, STRANGER);
    let real = reader.segments(&[]).expect("every client may ask").remove(0);
    let owner = stranger(&master, real.segment.client);
    let endpoint = real.segment.endpoint.clone();
    // In the owner's name and at its port: one that it does not have.
    let verdicts = announce(&owner, &[forged(1, &endpoint, 1 << 46)]);
    assert_eq!(verdicts, [Status::Ok]);
    serves(&master, 0);
    assert_eq!(state(&master, "forged-1:1").as_deref(), Some("UNDEFINED"));
    assert_eq!(state(&master, &node.name).as_deref(), Some("OK"));
    wait_until("the log says why", MEMBERSHIP_DEADLINE, || {
        master.program.log().contains("Its owner does not have it")
    });
}

#[test]
fn a_node_keeps_its_place_against_one_that_only_claims_it() {
    let master = Master::start(&[]);
    let node = Node::start(&master, SEGMENT_BYTES);
    serves(&master, 0);
    let client = stranger(&master, STRANGER);
    let real = client.segments(&[]).expect("every client may ask").remove(0);
    let mut claim = forged(1, &real.segment.endpoint, 4096);
    claim.host_id = real.segment.host_id.clone();
    announce(&client, &[claim]);
    let objects = Objects::open(&master.address());
    for key in 0..OBJECTS {
        assert_eq!(objects.get_object(key, OBJECT_BYTES), Ok(1));
    }
    assert_eq!(state(&master, &node.name).as_deref(), Some("OK"));
}

#[test]
fn sizes_that_no_host_has_are_refused_and_the_capacity_is_that_of_the_others() {
    let master = Master::start(&[]);
    let _node = Node::start(&master, SEGMENT_BYTES);
    let before = master.metric("master_total_capacity_bytes");
    let client = stranger(&master, STRANGER);
    let huge: Vec<_> = (0..4).map(|id| forged(id, "127.0.0.1:1", u64::MAX)).collect();
    assert_eq!(announce(&client, &huge), [Status::InvalidParams; 4]);
    assert_eq!(master.metric("master_total_capacity_bytes"), before);
    serves(&master, 0);
}
