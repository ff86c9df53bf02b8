//! A peer's memory as requests may use it: bounds, keys, and until when.
//!
//! Nothing is posted with keys that have run out, or that belong to an engine which is gone.

use crate::descriptor::RegionDescriptor;
use crate::error::RailError;
use crate::limits::{LEASE_MARGIN, RAILS_MAX};
use crate::parts::SplitRange;
use crate::placement::Placement;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Without a lease.
const NEVER: u64 = u64::MAX;

/// Keys of one piece of a peer's memory.
#[derive(Debug)]
pub struct RemoteKeys {
    epoch: u64,
    generation: u64,
    parts: SplitRange,
    /// End of the lease in nanoseconds of the monotonic clock; requests under way see that it is
    /// renewed.
    expires_ns: AtomicU64,
    keys: Vec<Vec<u32>>,
    placement: Placement,
}

impl RemoteKeys {
    /// Checks what a peer sent. `asked_at` is when it was asked, on the monotonic clock: the lease
    /// counts from there, since the owner may have counted from any moment after.
    ///
    /// # Errors
    /// The descriptor contradicts itself.
    pub fn new(descriptor: &RegionDescriptor, asked_at: Duration) -> Result<Self, RailError> {
        let bad = |reason: &str| RailError::BadDescriptor {
            peer: format!("{:#x}", descriptor.epoch),
            reason: reason.to_owned(),
        };
        let parts =
            SplitRange::new(descriptor.address, descriptor.bytes, descriptor.borders.clone())
                .ok_or_else(|| bad("its parts do not lie inside the region"))?;
        if descriptor.remote_keys.len() > RAILS_MAX || !descriptor.placement.is_sound(RAILS_MAX) {
            return Err(bad("it has keys for too many rails"));
        }
        let fits = |keys: &Vec<u32>| keys.is_empty() || keys.len() == parts.count();
        if !descriptor.remote_keys.iter().all(fits) {
            return Err(bad("a rail has not one key for each part"));
        }
        Ok(Self {
            epoch: descriptor.epoch,
            generation: descriptor.generation,
            parts,
            expires_ns: AtomicU64::new(expiry(asked_at, descriptor.lease_ms)),
            keys: descriptor.remote_keys.clone(),
            placement: descriptor.placement.clone(),
        })
    }

    /// Which rails of the owner suit it.
    pub(crate) fn placement(&self) -> &Placement {
        &self.placement
    }

    /// Epoch of the owner.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Generation that the owner gave.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// Whether all of `bytes` at `address` is covered.
    pub fn contains(&self, address: u64, bytes: u64) -> bool {
        self.parts.contains(address, bytes)
    }

    /// Whether a work request may be posted with these keys: it has to be through before the lease
    /// ends.
    pub fn is_valid(&self, now: Duration) -> bool {
        let expires = self.expires_ns.load(Ordering::Acquire);
        expires == NEVER || nanoseconds(now.saturating_add(LEASE_MARGIN)) <= expires
    }

    /// Whether a descriptor means this very registration: then its lease may be renewed with
    /// [`RemoteKeys::renew`].
    pub fn is_of(&self, descriptor: &RegionDescriptor) -> bool {
        self.epoch == descriptor.epoch
            && self.generation == descriptor.generation
            && self.parts.address() == descriptor.address
            && self.parts.bytes() == descriptor.bytes
            && self.keys == descriptor.remote_keys
    }

    /// The owner was asked at `asked_at` and gave the same keys once more. A lease is never made
    /// shorter.
    pub fn renew(&self, asked_at: Duration, lease_ms: Option<u64>) {
        // Answers may be handled in another order than they were asked for.
        self.expires_ns.fetch_max(expiry(asked_at, lease_ms), Ordering::AcqRel);
    }

    pub(crate) fn key(&self, rail: usize, address: u64) -> Option<u32> {
        let (part, _) = self.parts.find(address);
        self.keys.get(rail)?.get(part).copied()
    }

    pub(crate) fn room(&self, address: u64) -> u64 {
        self.parts.find(address).1
    }
}

fn expiry(asked_at: Duration, lease_ms: Option<u64>) -> u64 {
    let end = |lease_ms| asked_at.saturating_add(Duration::from_millis(lease_ms));
    lease_ms.map_or(NEVER, |lease_ms| nanoseconds(end(lease_ms)))
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).map_or(NEVER - 1, |nanoseconds| nanoseconds.min(NEVER - 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn descriptor() -> RegionDescriptor {
        RegionDescriptor {
            epoch: 1,
            generation: 2,
            address: 0x1000,
            bytes: 0x3000,
            lease_ms: Some(5000),
            borders: vec![0x2000],
            remote_keys: vec![vec![10, 11], vec![20, 21]],
            placement: Placement::default(),
        }
    }

    #[test]
    fn each_rail_and_part_has_its_key() {
        let keys = RemoteKeys::new(&descriptor(), Duration::ZERO).unwrap();
        assert_eq!(keys.key(0, 0x1fff), Some(10));
        assert_eq!(keys.key(1, 0x2000), Some(21));
        assert_eq!(keys.key(2, 0x2000), None);
        assert_eq!(keys.room(0x1800), 0x800);
    }

    #[test]
    fn keys_end_early_enough_that_nothing_is_under_way_when_the_lease_ends() {
        let keys = RemoteKeys::new(&descriptor(), Duration::from_secs(1)).unwrap();
        assert!(keys.is_valid(Duration::from_secs(6) - LEASE_MARGIN));
        assert!(!keys.is_valid(Duration::from_millis(6001) - LEASE_MARGIN));
    }

    #[test]
    fn a_renewed_lease_holds_for_requests_that_have_the_keys_already() {
        let keys = RemoteKeys::new(&descriptor(), Duration::ZERO).unwrap();
        let late = Duration::from_secs(7);
        assert!(!keys.is_valid(late));
        assert!(keys.is_of(&descriptor()));
        keys.renew(Duration::from_secs(4), Some(5000));
        assert!(keys.is_valid(late));
        keys.renew(Duration::ZERO, Some(5000));
        assert!(keys.is_valid(late), "an older answer takes nothing back");
        let mut again = descriptor();
        again.remote_keys[1][0] += 1;
        assert!(!keys.is_of(&again), "registered again");
    }

    #[test]
    fn a_descriptor_that_contradicts_itself_is_refused() {
        let mut missing = descriptor();
        missing.remote_keys[1].pop();
        assert!(RemoteKeys::new(&missing, Duration::ZERO).is_err());
        let mut outside = descriptor();
        outside.borders = vec![0x9000];
        assert!(RemoteKeys::new(&outside, Duration::ZERO).is_err());
    }
}
