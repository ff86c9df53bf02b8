//! Disks among the segments. Invariant: a disk is its owner's, under one identity as long as its
//! folder lives.

use perigee_schemas::{SegmentKind, Status};

use super::Registry;
use crate::segment::SegmentEvent;

impl Registry {
    /// Whether a client has disks.
    pub fn has_disks(&self, client: u128) -> bool {
        let known = self.clients.get(&client);
        known.is_some_and(|known| known.segments.iter().any(|index| self.is_disk(*index)))
    }

    /// Bytes of all disks.
    pub fn disk_capacity_bytes(&self) -> u64 {
        let disks = self.segments().filter(|view| view.spec.kind == SegmentKind::Disk);
        disks.map(|view| view.spec.bytes).sum()
    }

    /// The log of a disk goes on without its segments below `oldest`.
    ///
    /// # Errors
    /// `SegmentNotFound`, or `IllegalClient` for a disk of another client.
    pub fn recycle(
        &mut self,
        now_ms: u64,
        client: u128,
        id: u128,
        oldest: u32,
    ) -> Result<(), Status> {
        self.advance(now_ms);
        let index = self.own_segment(client, id)?;
        if !self.is_disk(index) {
            return Err(Status::SegmentNotFound);
        }
        self.events.push(SegmentEvent::Recycled { index, oldest });
        Ok(())
    }

    /// Whether a segment is a disk.
    pub(super) fn is_disk(&self, index: u32) -> bool {
        let mounted = self.segments.get(&index);
        mounted.is_some_and(|mounted| mounted.spec.kind == SegmentKind::Disk)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::{DrainJobRequest, RegistrySettings};
    use crate::segment::SegmentSpec;

    const OWNER: u128 = 7;
    const DISK: u128 = 70;

    fn with_disk() -> Registry {
        let mut registry = Registry::new(RegistrySettings::default());
        let memory = SegmentSpec { name: "host:1".to_owned(), ..SegmentSpec::bare(1, OWNER, 64) };
        let disk = SegmentSpec {
            name: "host:1/disk".to_owned(),
            kind: SegmentKind::Disk,
            ..SegmentSpec::bare(DISK, OWNER, 1000)
        };
        assert_eq!(registry.mount(0, memory), Ok(0));
        assert!(!registry.has_disks(OWNER));
        assert_eq!(registry.mount(0, disk), Ok(1));
        registry.take_events();
        registry
    }

    #[test]
    fn a_disk_is_counted_apart_and_cannot_be_drained() {
        let mut registry = with_disk();
        assert!(registry.has_disks(OWNER) && !registry.has_disks(8));
        assert_eq!(registry.disk_capacity_bytes(), 1000);
        let request = DrainJobRequest {
            segments: vec!["host:1/disk".to_owned()],
            target_segments: Vec::new(),
            max_concurrency: 1,
        };
        let refusal = registry.create_drain(0, 1, request).unwrap_err();
        assert_eq!(refusal.status, Status::UnavailableInCurrentStatus);
        registry.check();
    }

    #[test]
    fn only_the_owner_of_a_disk_says_what_its_log_has_left() {
        let mut registry = with_disk();
        assert_eq!(registry.recycle(0, OWNER, DISK, 5), Ok(()));
        let heard = registry.take_events();
        assert_eq!(heard, [SegmentEvent::Recycled { index: 1, oldest: 5 }]);
        assert_eq!(registry.recycle(0, 8, DISK, 9), Err(Status::IllegalClient));
        assert_eq!(registry.recycle(0, OWNER, 1, 9), Err(Status::SegmentNotFound));
        assert_eq!(registry.recycle(0, OWNER, 2, 9), Err(Status::SegmentNotFound));
        assert_eq!(registry.take_events(), []);
    }
}
