//! What a peer or a device refuses, and that no byte moves then.

use perigee_verbs::{
    CompletionStatus, QueuePairState, RegionAccess, VerbsError, WorkOperation, WorkRequest,
};

use crate::end::{BYTES, End, host, request};

/// Runs `work` on joined ends, which must fail, and change nothing at `b`.
fn refused(
    a: &mut End,
    b: &mut End,
    change: impl FnOnce(&mut WorkRequest<'_>),
) -> CompletionStatus {
    a.renew();
    b.renew();
    crate::end::join(a, b);
    b.fill(|_| 0);
    a.fill(|_| 0xee);
    let pieces = [a.piece(0, 64)];
    let mut work = request(1, WorkOperation::Write(&pieces), b);
    change(&mut work);
    let status = a.run(work);
    assert!(!status.is_success());
    assert_eq!(a.pair.state().unwrap(), QueuePairState::Failed);
    assert!(b.bytes(0, BYTES).iter().all(|byte| *byte == 0));
    status
}

#[test]
fn wrong_keys_and_ranges_outside_are_refused_and_the_rest_is_flushed() {
    let Some(host) = host() else { return };
    let (mut a, mut b) = (host.end(1), host.end(0));
    let status = refused(&mut a, &mut b, |work| work.remote_key ^= 0x5500);
    assert_eq!(status, CompletionStatus::RemoteAccess);
    for offset in [BYTES as u64 - 63, BYTES as u64, u64::MAX - 10, 0u64.wrapping_sub(1)] {
        let status = refused(&mut a, &mut b, |work| {
            work.remote_address = work.remote_address.wrapping_add(offset);
        });
        assert_eq!(status, CompletionStatus::RemoteAccess, "{offset:#x}");
    }
    let pieces = [a.piece(0, 8)];
    let after = a.pair.post(&[request(2, WorkOperation::Write(&pieces), &b)]);
    if after.is_ok() {
        assert_eq!(a.wait()[0].status, CompletionStatus::Flushed);
    }
}

#[test]
fn a_wrong_local_key_is_refused() {
    let Some(host) = host() else { return };
    let (mut a, mut b) = (host.end(1), host.end(0));
    refused(&mut a, &mut b, |work| {
        work.operation = WorkOperation::Write(&[perigee_verbs::Sge {
            address: 4096,
            bytes: 8,
            local_key: 0x5500_5500,
        }]);
    });
}

#[test]
fn a_revoked_region_is_closed_to_peers() {
    let Some(host) = host() else { return };
    let (mut a, mut b) = (host.end(1), host.end(0));
    let address = b.buffer.base() as u64;
    // SAFETY: dropped at the end of this function, before the buffer.
    let region = unsafe { b.device.register(address, BYTES as u64, RegionAccess::ALL) }.unwrap();
    let key = region.remote_key();
    assert!(!region.revoked());
    region.revoke().unwrap();
    region.revoke().unwrap();
    assert!(region.revoked());
    let status = refused(&mut a, &mut b, |work| work.remote_key = key);
    assert_eq!(status, CompletionStatus::RemoteAccess);
}

#[test]
fn a_region_for_reading_cannot_be_written() {
    let Some(host) = host() else { return };
    let (mut a, mut b) = (host.end(1), host.end(0));
    let address = b.buffer.base() as u64;
    // SAFETY: dropped at the end of this function, before the buffer.
    let region = unsafe { b.device.register(address, 4096, RegionAccess::REMOTE_READ) }.unwrap();
    let key = region.remote_key();
    let status = refused(&mut a, &mut b, |work| work.remote_key = key);
    assert_eq!(status, CompletionStatus::RemoteAccess);
    a.renew();
    b.renew();
    crate::end::join(&mut a, &mut b);
    let pieces = [a.piece(0, 64)];
    let mut read = request(2, WorkOperation::Read(&pieces), &b);
    read.remote_key = key;
    assert_eq!(a.run(read), CompletionStatus::Success);
}

#[test]
fn unknown_devices_and_ports_are_named() {
    let Some(host) = host() else { return };
    use perigee_verbs::Fabric;
    let error = host.fabric.open("rxe99").unwrap_err();
    assert!(error.to_string().contains(&host.names[0]), "{error}");
    let error = host.fabric.open(&format!("{}:9", host.names[0])).unwrap_err();
    assert!(matches!(error, VerbsError::UnknownPort { port: 9, .. }), "{error}");
    host.fabric.open(&format!("{}:1", host.names[0])).unwrap();
}
