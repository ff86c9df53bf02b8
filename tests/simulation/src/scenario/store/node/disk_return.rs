//! A disk that is taken out of use now and then and opened again, while the process of its node
//! goes on, as the owner's own thread does.
//! Invariant: it is opened again after the master has heard that it has gone, and offered while
//! none of its earlier operations is under way.

use super::disk::turn;
use super::{Life, Node};
use crate::scenario::store::contract::Trials;
use crate::scenario::store::link::Link;
use crate::scenario::store::wire::Offer;
use perigee_schemas::SegmentKind;
use perigee_ssd::OpenedDisk;
use perigee_store::disks::OwnedDisk;
use std::rc::Rc;
use std::time::Duration;

/// How long it serves, and how long it stays away.
const SERVES: (Duration, Duration) = (Duration::from_secs(2), Duration::from_secs(60));
const AWAY: (Duration, Duration) = (Duration::from_millis(1), Duration::from_secs(20));
const CLOSE_MAX: Duration = Duration::from_secs(60);

impl Node {
    /// Takes the disk away and brings it back, until the process ends or all is at peace.
    pub(super) async fn let_disk_return(self: Rc<Self>, life: Rc<Life>, link: Link) {
        while self.contract.trials() == Trials::Nodes {
            let signals = life.signals.clone();
            let serves = self.random.length(SERVES.0, SERVES.1);
            let is_over = move || signals.is_over.get();
            self.world.until_at_most(serves, is_over).await;
            if life.signals.is_over.get() || self.contract.is_in_peace() {
                break;
            }
            life.signals.must_leave.set(true);
            life.signals.notify();
            let signals = life.signals.clone();
            self.world
                .until(move || signals.is_over.get() || signals.left.borrow().is_some())
                .await;
            let Some(disk) = life.signals.left.take() else { break };
            let environment = self.world.environment(self.host);
            let _ = disk.close().within(&environment, CLOSE_MAX).await;
            self.world.sleep(self.random.length(AWAY.0, AWAY.1)).await;
            if life.signals.is_over.get() {
                break;
            }
            let Some(opened) = self.open_disk(&environment, &life).await else { break };
            self.serve_disk(&life, &link, opened).await;
        }
        link.close();
    }

    /// Lends a disk that was opened again.
    async fn serve_disk(&self, life: &Life, link: &Link, opened: OpenedDisk) {
        let OpenedDisk { disk, spec, survivors } = opened;
        let order = turn(&self.world, &life.signals).await;
        life.table.insert_disk(spec.id, disk.clone());
        let (bytes, kind) = (spec.capacity_bytes, SegmentKind::Disk);
        let offer = Offer { id: spec.id, bytes, kind, ..life.memory() };
        life.offers.borrow_mut().push(offer.clone());
        drop(order);
        // Once: if the master does not answer, a heartbeat mounts it.
        self.mount_disk(life, link, &offer).await;
        let owned = OwnedDisk { id: spec.id, disk, found: survivors };
        life.signals.returned.borrow_mut().push(owned);
        life.signals.notify();
    }
}

impl Life {
    /// Peers read its disk no more, and the master is to have it back only when it is opened again.
    pub(super) fn withdraw_disk(&self, id: perigee_schemas::Identity) {
        self.offers.borrow_mut().retain(|offer| offer.id != id);
        let disk = self.table.remove_disk(id);
        self.signals.leaving.replace(disk);
    }
}
