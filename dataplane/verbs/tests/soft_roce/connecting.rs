//! Devices, GIDs and queue pairs as the real library gives them.

use perigee_verbs::{
    CompletionStatus, ConnectOptions, Fabric, GidKind, GidReach, QueuePairState, VerbsError, gid,
};

use crate::end::{host, impatient, options};

#[test]
fn devices_tell_their_facts() {
    let Some(host) = host() else { return };
    for info in host.fabric.devices().unwrap() {
        assert!(info.limits.queue_pairs > 0 && info.limits.send_entries >= 64, "{info:?}");
        assert!(info.limits.pieces >= 1 && info.limits.completion_entries >= 256, "{info:?}");
        assert!(info.limits.message_bytes >= 1 << 20, "{info:?}");
        assert!(info.limits.reads_outstanding > 0, "{info:?}");
        assert!(info.mtu_bytes >= 256 && info.link_bits_per_second > 0, "{info:?}");
    }
}

#[test]
fn the_first_ranked_gid_is_a_routable_roce_v2_address() {
    let Some(host) = host() else { return };
    for name in &host.names {
        let gids = host.fabric.open(name).unwrap().gids().unwrap();
        let ranked = gid::rank(name, &gids, None).unwrap();
        if std::env::var_os("PERIGEE_VM").is_some() {
            let best = &ranked[0];
            assert_eq!(best.gid.kind, GidKind::RoceV2, "{ranked:?}");
            assert_eq!(best.gid.scope(), GidReach::Ipv4, "{ranked:?}");
            assert!(best.gid.text().starts_with("10.77."), "{}", best.explain);
            assert!(best.gid.interface.as_deref().unwrap().starts_with("rail"));
        }
    }
}

#[test]
fn a_queue_pair_goes_from_unconnected_to_connected_to_failed() {
    let Some(host) = host() else { return };
    let (mut a, b) = (host.end(1), host.end(0));
    assert_eq!(a.pair.state().unwrap(), QueuePairState::Unconnected);
    a.pair.connect(b.pair.endpoint(), &impatient()).unwrap();
    assert_eq!(a.pair.state().unwrap(), QueuePairState::Connected);
    let again = a.pair.connect(b.pair.endpoint(), &impatient());
    assert!(matches!(again, Err(VerbsError::WrongState { .. })));
    a.pair.fail().unwrap();
    assert_eq!(a.pair.state().unwrap(), QueuePairState::Failed);
}

#[test]
fn endless_retries_are_refused_before_the_device_sees_them() {
    let Some(host) = host() else { return };
    let (mut a, b) = (host.end(1), host.end(0));
    let options = ConnectOptions { retries: 7, ..ConnectOptions::default() };
    let refused = a.pair.connect(b.pair.endpoint(), &options);
    assert!(matches!(refused, Err(VerbsError::TooMuch { asked: 7, .. })));
}

#[test]
fn what_waits_on_a_failed_queue_pair_is_flushed() {
    let Some(host) = host() else { return };
    let (mut a, b) = host.joined();
    a.pair.fail().unwrap();
    let pieces = [a.piece(0, 64)];
    let work = crate::end::request(1, perigee_verbs::WorkOperation::Write(&pieces), &b);
    if a.pair.post(&[work]).is_ok() {
        assert_eq!(a.wait()[0].status, CompletionStatus::Flushed);
    }
}

#[test]
fn hundreds_of_queue_pairs_come_and_go() {
    let Some(host) = host() else { return };
    let end = host.end(0);
    for _ in 0..3 {
        let pairs: Vec<_> =
            (0..100).map(|_| end.queue.queue_pair(&options(end.gid_index)).unwrap()).collect();
        let mut numbers: Vec<u32> = pairs.iter().map(|pair| pair.number()).collect();
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!(numbers.len(), 100);
    }
}

#[test]
fn more_than_the_device_allows_is_refused_with_the_limit() {
    let Some(host) = host() else { return };
    let end = host.end(0);
    let limits = end.device.info().limits;
    let error = end.device.completion_queue(limits.completion_entries + 1).unwrap_err();
    assert!(matches!(error, VerbsError::TooMuch { .. }), "{error}");
    let mut wish = options(end.gid_index);
    wish.pieces = limits.pieces + 1;
    let error = end.queue.queue_pair(&wish).unwrap_err();
    assert!(matches!(error, VerbsError::TooMuch { .. }), "{error}");
    wish = options(end.gid_index);
    wish.gid_index = 250;
    assert!(end.queue.queue_pair(&wish).is_err());
    // Inline data is stepped down instead.
    wish = options(end.gid_index);
    wish.inline_bytes = 1 << 20;
    let pair = end.queue.queue_pair(&wish).unwrap();
    assert!(pair.capacity().inline_bytes <= limits.inline_bytes.max(64));
}
