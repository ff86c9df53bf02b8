//! Objects over rails on a software fabric: right bytes over RDMA where it works, right bytes over
//! TCP where it does not, wrong bytes never.
#![allow(clippy::unwrap_used, reason = "tests")]

mod sides;

use perigee_memory::{ByteRangeMut, crc32c};
use perigee_transfer::{PeerError, RangeJob, Route, TransferError};
use perigee_verbs::software::{Clock, SoftwareNetwork};
use sides::{Client, LONG, Owner, pattern, start_rails};
use std::time::Duration;

const DEVICES: [&str; 2] = ["sw0", "sw1"];

fn pair() -> (SoftwareNetwork, Owner, Client) {
    pair_with_deadline(LONG)
}

fn pair_with_deadline(deadline: Duration) -> (SoftwareNetwork, Owner, Client) {
    let network = SoftwareNetwork::new(Clock::Real).unwrap();
    let owner = Owner::start(Some(start_rails(&network, "there", &DEVICES)));
    let client = Client::start(start_rails(&network, "here", &DEVICES), deadline);
    (network, owner, client)
}

/// Small ones travel in one message, larger ones in two parts, and what no stage holds goes over
/// TCP.
const SIZES: [(usize, bool); 8] = [
    (0, true),
    (1, true),
    (4096, true),
    (65_000, true),
    (65_537, true),
    (1 << 20, true),
    (3_000_001, true),
    (9 << 20, false),
];

#[test]
fn objects_of_any_size_come_back_byte_for_byte() {
    let (_network, owner, client) = pair();
    client.until_rdma(&owner);
    for (generation, (bytes, by_rails)) in (2..).zip(SIZES) {
        let place = owner.place(1 << 20, bytes as u64, generation);
        let data = pattern(bytes, bytes);
        assert_eq!(client.write(&place, &data), Ok(crc32c(&data)), "{bytes}");
        let mut back = vec![0xee; bytes];
        client.read(&place, crc32c(&data), &mut back).unwrap();
        assert!(back == data, "{bytes}");
        let wanted = if by_rails { Route::Rdma } else { Route::Tcp };
        let routes = client.routes();
        assert!(routes.iter().all(|route| *route == wanted), "{bytes} {routes:?}");
    }
}

#[test]
fn registered_memory_of_any_size_goes_over_rails_without_a_copy() {
    let (_network, owner, client) = pair();
    client.until_rdma(&owner);
    let bytes = 24 << 20;
    let (data, mut back) = (pattern(bytes, 3), vec![0u8; bytes]);
    for memory in [data.as_ptr(), back.as_ptr()] {
        // SAFETY: both live until they are unregistered below.
        unsafe { client.rails.register(memory as u64, bytes as u64) }.unwrap();
    }
    let place = owner.place(8, bytes as u64, 7);
    assert_eq!(client.write(&place, &data), Ok(crc32c(&data)));
    client.read(&place, crc32c(&data), &mut back).unwrap();
    assert!(back == data);
    assert_eq!(client.routes(), [Route::Rdma, Route::Rdma]);
    for memory in [data.as_ptr(), back.as_ptr()] {
        client.rails.unregister(memory as u64);
    }
    client.read(&place, crc32c(&data), &mut back).unwrap();
    assert_eq!(client.routes(), [Route::Tcp]);
}

#[test]
fn what_rails_wrote_is_what_tcp_reads_and_the_other_way_round() {
    let (_network, owner, client) = pair();
    let plain = Client::start(
        start_rails(&SoftwareNetwork::new(Clock::Real).unwrap(), "alone", &DEVICES),
        LONG,
    );
    client.until_rdma(&owner);
    for bytes in [100usize, 70_000, 2 << 20] {
        for (writer, reader) in [(&client, &plain), (&plain, &client)] {
            let place = owner.place(4 << 20, bytes as u64, bytes as u64);
            let data = pattern(bytes, 9);
            let mut back = vec![0; bytes];
            writer.write(&place, &data).unwrap();
            reader.read(&place, crc32c(&data), &mut back).unwrap();
            assert!(back == data);
        }
    }
    assert!(plain.routes().iter().all(|route| *route == Route::Tcp));
    assert!(client.routes().iter().all(|route| *route == Route::Rdma));
}

#[test]
fn another_generation_is_noticed_and_other_bytes_are_refused() {
    let (_network, owner, client) = pair();
    client.until_rdma(&owner);
    for bytes in [4000usize, 500_000] {
        let place = owner.place(0, bytes as u64, 21);
        let data = pattern(bytes, 1);
        let checksum = client.write(&place, &data).unwrap();
        let mut back = vec![0; bytes];
        let stale = owner.place(0, bytes as u64, 20);
        let outcome = client.read(&stale, checksum, &mut back);
        assert_eq!(outcome, Err(TransferError::Stale));
        let outcome = client.read(&place, checksum ^ 1, &mut back);
        assert!(matches!(outcome, Err(TransferError::Checksum { .. })));
    }
    assert!(client.routes().iter().all(|route| *route == Route::Rdma));
}

#[test]
fn ranges_are_read_over_rails_and_checked_block_by_block() {
    let (_network, owner, client) = pair();
    client.until_rdma(&owner);
    let bytes = 1_000_000usize;
    let place = owner.place(64, bytes as u64, 5);
    let data = pattern(bytes, 4);
    let checksum = client.write(&place, &data).unwrap();
    for (from, length) in [(0usize, 1usize), (65_000, 2000), (999_000, 1000), (0, bytes)] {
        let mut back = vec![0; length];
        let job = |target| RangeJob { place: &place, checksum, source_offset: from as u64, target };
        let target = ByteRangeMut::from(back.as_mut_slice());
        // SAFETY: the target outlives the call.
        let outcome = unsafe { client.engine.read_ranges(&[job(target)]) };
        assert_eq!(outcome, [Ok(())]);
        assert!(back == data[from..from + length]);
    }
    assert!(client.routes().iter().all(|route| *route == Route::Rdma));
}

#[test]
fn an_owner_without_rails_is_served_over_tcp() {
    let network = SoftwareNetwork::new(Clock::Real).unwrap();
    let owner = Owner::start(None);
    let client = Client::start(start_rails(&network, "here", &DEVICES), LONG);
    for generation in 1..40 {
        let place = owner.place(0, 100_000, generation);
        let data = pattern(100_000, generation as usize);
        let checksum = client.write(&place, &data).unwrap();
        let mut back = vec![0; 100_000];
        client.read(&place, checksum, &mut back).unwrap();
        assert!(back == data);
    }
    assert!(client.routes().iter().all(|route| *route == Route::Tcp));
}

#[test]
fn with_every_rail_cut_the_same_calls_end_well_over_tcp() {
    let (network, owner, client) = pair_with_deadline(Duration::from_secs(6));
    client.until_rdma(&owner);
    for ours in DEVICES {
        for theirs in DEVICES {
            network.cut(("here", ours), ("there", theirs)).unwrap();
        }
    }
    for (generation, bytes) in (30..).zip([4000usize, 1 << 20]) {
        let place = owner.place(0, bytes as u64, generation);
        let data = pattern(bytes, 6);
        let checksum = client.write(&place, &data).unwrap();
        let mut back = vec![0; bytes];
        client.read(&place, checksum, &mut back).unwrap();
        assert!(back == data);
    }
    assert_eq!(client.routes(), [Route::Tcp; 4]);
    network.mend(("here", "sw0"), ("there", "sw0")).unwrap();
    client.until_rdma(&owner);
}

#[test]
fn a_write_that_failed_halfway_is_not_repeated_when_its_queue_pairs_may_still_stand() {
    let (network, mut owner, client) = pair_with_deadline(Duration::from_secs(6));
    client.until_rdma(&owner);
    for ours in DEVICES {
        for theirs in DEVICES {
            network.cut(("here", ours), ("there", theirs)).unwrap();
        }
    }
    owner.stop_serving();
    let place = owner.place(0, 4000, 31);
    let error = client.write(&place, &pattern(4000, 6)).unwrap_err();
    assert!(error.is_peer_fault(), "{error}");
    assert!(error.to_string().contains("queue pairs"), "{error}");
}

#[test]
fn one_rail_of_two_going_down_under_load_loses_and_changes_nothing() {
    let (network, owner, client) = pair();
    client.until_rdma(&owner);
    let bytes = 2 << 20;
    for round in 0..6u64 {
        let faults = network.faults("here", DEVICES[round as usize % 2]).unwrap();
        let place = owner.place(0, bytes as u64, 100 + round);
        let data = pattern(bytes, round as usize);
        let mut back = vec![0; bytes];
        std::thread::scope(|scope| {
            let load = scope.spawn(|| {
                let checksum = client.write(&place, &data)?;
                client.read(&place, checksum, &mut back)
            });
            faults.down();
            load.join().unwrap().unwrap();
        });
        faults.up();
        assert!(back == data, "round {round}");
    }
}

#[test]
fn revoked_keys_divert_to_tcp_and_a_withdrawn_segment_is_refused() {
    let (_network, owner, client) = pair();
    client.until_rdma(&owner);
    let data = pattern(300_000, 2);
    let place = owner.place(0, 300_000, 8);
    let checksum = client.write(&place, &data).unwrap();
    let id = owner.address.id;
    owner.rails.as_ref().unwrap().withdraw(id);
    let mut back = vec![0; 300_000];
    client.routes();
    client.read(&place, checksum, &mut back).unwrap();
    assert!(back == data);
    assert_eq!(client.routes(), [Route::Tcp]);
    owner.table.remove(id);
    let outcome = client.read(&place, checksum, &mut back);
    assert!(matches!(outcome, Err(TransferError::Peer(PeerError::Refused { .. }))), "{outcome:?}");
}

#[test]
fn a_restarted_owner_is_opened_again_and_never_read_with_old_keys() {
    let (network, mut owner, client) = pair();
    client.until_rdma(&owner);
    let data = pattern(100_000, 2);
    let place = owner.place(0, 100_000, 8);
    let checksum = client.write(&place, &data).unwrap();
    let (at, id) = (owner.address.endpoint.parse().unwrap(), owner.address.id);
    owner.stop();
    let mut back = vec![0; 100_000];
    assert!(client.read(&place, checksum, &mut back).is_err());
    let owner = Owner::start_at(at, id, Some(start_rails(&network, "there", &DEVICES)));
    client.until_rdma(&owner);
    let outcome = client.read(&place, checksum, &mut back);
    assert_eq!(outcome, Err(TransferError::Stale));
}
