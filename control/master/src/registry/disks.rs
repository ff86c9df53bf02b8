//! Disks among the segments. Invariant: a disk is its owner's, under one identity as long as its
//! folder lives.

use perigee_schemas::{DiskHealth, SegmentKind, Status};

use std::sync::Arc;

use super::Registry;
use super::disk_report::DiskReport;
use crate::limits::DISK_REPORTS_PER_CLIENT_MAX;
use crate::segment::{SegmentEvent, SegmentSpec};

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

    /// Another client that has mounted a disk which `client` offers: the folder is locked, so that
    /// one of them is gone.
    pub fn other_owner(&self, client: u128, disk: u128) -> Option<Arc<SegmentSpec>> {
        let index = self.index_by_id.get(&disk)?;
        let spec = &self.segments.get(index)?.spec;
        let is_other = spec.kind == SegmentKind::Disk && spec.client != client;
        is_other.then(|| spec.clone())
    }

    /// The client that had a disk does not answer at its endpoint any more: it is forgotten, if
    /// that disk is still its own.
    pub fn forget_owner(&mut self, now_ms: u64, owner: u128, disk: u128) {
        self.advance(now_ms);
        let index = self.own_segment(owner, disk);
        if index.is_ok_and(|index| self.is_disk(index)) {
            self.forget_client(owner);
        }
    }

    /// A client says how its disks are, and shards hear what has changed; further ones than the
    /// bound are left out.
    ///
    /// # Errors
    /// `ClientNotFound`: it is not known.
    pub fn note_disks(&mut self, client: u128, mut disks: Vec<DiskReport>) -> Result<(), Status> {
        disks.truncate(DISK_REPORTS_PER_CLIENT_MAX);
        let known = self.clients.get_mut(&client).ok_or(Status::ClientNotFound)?;
        known.disks = disks;
        for index in &known.segments {
            let Some(mounted) = self.segments.get_mut(index) else {
                continue;
            };
            let own = |report: &&DiskReport| report.disk == mounted.spec.id;
            let health = known.disks.iter().find(own).map_or(DiskHealth::Healthy, |it| it.health);
            if mounted.spec.kind == SegmentKind::Disk && health != mounted.health {
                mounted.health = health;
                self.events.push(SegmentEvent::Health { index: *index, health });
            }
        }
        Ok(())
    }

    /// What all clients have said of their disks last.
    pub fn disk_reports(&self) -> impl Iterator<Item = &DiskReport> {
        self.clients.values().flat_map(|client| &client.disks)
    }

    /// How many disks there are of each health, in the order of [`DiskHealth::ALL`].
    pub fn disks_by_health(&self) -> [u64; DiskHealth::ALL.len()] {
        let mut disks = [0; DiskHealth::ALL.len()];
        self.disk_reports().for_each(|report| disks[report.health as usize] += 1);
        disks
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
    fn a_master_without_the_tier_takes_no_disk() {
        let settings = RegistrySettings { takes_disks: false, ..RegistrySettings::default() };
        let mut registry = Registry::new(settings);
        let disk = SegmentSpec {
            name: "host:1/disk".to_owned(),
            kind: SegmentKind::Disk,
            ..SegmentSpec::bare(DISK, OWNER, 1000)
        };
        assert_eq!(registry.mount(0, disk), Err(Status::UnavailableInCurrentMode));
        assert_eq!(registry.take_events(), []);
    }

    #[test]
    fn an_owner_that_is_gone_makes_way_for_the_next_one() {
        let mut registry = with_disk();
        assert!(registry.other_owner(OWNER, DISK).is_none());
        assert!(registry.other_owner(8, 1).is_none(), "memory is no disk");
        let owner = registry.other_owner(8, DISK).unwrap().client;
        assert_eq!(owner, OWNER);
        registry.forget_owner(0, 8, DISK);
        assert!(registry.has_disks(OWNER), "not that client's");
        registry.forget_owner(0, owner, DISK);
        assert!(!registry.has_disks(OWNER));
        let disk = SegmentSpec {
            name: "host:2/disk".to_owned(),
            kind: SegmentKind::Disk,
            ..SegmentSpec::bare(DISK, 8, 1000)
        };
        assert_eq!(registry.mount(0, disk), Ok(2));
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

    fn report(health: DiskHealth) -> DiskReport {
        DiskReport { disk: 7, health, path: "/kv".to_owned(), reason: String::new() }
    }

    #[test]
    fn the_last_report_of_each_living_client_counts() {
        let mut registry = Registry::new(RegistrySettings::default());
        let full = vec![report(DiskHealth::Full)];
        assert_eq!(registry.note_disks(1, full.clone()), Err(Status::ClientNotFound));
        for client in [1, 2] {
            registry.remount(0, client, []).unwrap();
            assert_eq!(registry.note_disks(client, full.clone()), Ok(()));
        }
        assert_eq!(registry.disks_by_health()[DiskHealth::Full as usize], 2);
        registry.note_disks(1, vec![report(DiskHealth::Healthy); 2]).unwrap();
        assert_eq!(registry.disks_by_health(), [2, 0, 0, 1, 0, 0, 0]);
        registry.leave(0, 2);
        assert_eq!(registry.disks_by_health(), [2, 0, 0, 0, 0, 0, 0]);
        let many = vec![report(DiskHealth::Slow); DISK_REPORTS_PER_CLIENT_MAX + 1];
        registry.note_disks(1, many).unwrap();
        assert_eq!(registry.disk_reports().count(), DISK_REPORTS_PER_CLIENT_MAX);
    }

    #[test]
    fn shards_hear_how_a_mounted_disk_is_when_that_changes() {
        let mut registry = with_disk();
        registry.take_events();
        let mut heard = |disk, health| {
            let reports = vec![DiskReport { disk, ..report(health) }];
            registry.note_disks(OWNER, reports).unwrap();
            registry.take_events()
        };
        let health = |health| SegmentEvent::Health { index: 1, health };
        assert_eq!(heard(DISK, DiskHealth::Slow), [health(DiskHealth::Slow)]);
        assert_eq!(heard(DISK, DiskHealth::Slow), []);
        assert_eq!(heard(0, DiskHealth::Failed), [health(DiskHealth::Healthy)], "another folder");
        assert_eq!(heard(DISK, DiskHealth::Healthy), []);
    }
}
