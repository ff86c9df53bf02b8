//! A node as a member: it mounts what it lends, its heart beats, and it mounts again when the
//! master does not know it.
//! Invariant: a master in another life hears what lies in the segments before it lends them.

use super::{Life, Node};
use crate::scenario::store::link::{Answer, Link};
use crate::scenario::store::wire::{self, Mounting, Offer};
use perigee_schemas::frame::MessageKind;
use perigee_schemas::master::Announces;
use perigee_shard::Environment;
use perigee_store::ledger::Prepared;
use std::rc::Rc;
use std::time::Duration;

const HEARTBEAT: Duration = Duration::from_secs(1);
/// Pause before a master that did not answer is asked again.
const REMOUNT_PAUSE: Duration = Duration::from_millis(200);

impl Node {
    pub(super) async fn beat(&self, life: &Rc<Life>, link: &Link) {
        self.mount_new(life, link).await;
        while !self.is_stopped.get() {
            if let Some(epoch) = life.must_renew.take() {
                self.renew(life, link, epoch).await;
            }
            let pause = self.beat_once(life, link).await;
            let hurry = life.hurry.clone();
            self.world.until_at_most(pause, move || hurry.get()).await;
            life.hurry.set(false);
        }
        link.close();
    }

    /// One heartbeat; returns the pause until the next.
    async fn beat_once(&self, life: &Rc<Life>, link: &Link) -> Duration {
        let lent = life.offers.borrow().clone();
        let ping = wire::ping(life.client, &lent, life.mounts.get());
        let answer = link.ask(MessageKind::Ping, &ping).await;
        let Some(pong) = answer.and_then(|answer| wire::pong(&answer.body)) else {
            return REMOUNT_PAUSE;
        };
        life.has_moves.set(pong.has_moves);
        if pong.has_disk_work {
            life.signals.notify();
        }
        if pong.must_mount && self.mount_again(life, link, pong.epoch).await.is_none() {
            return REMOUNT_PAUSE;
        }
        HEARTBEAT
    }

    /// Mounts memory that is new.
    async fn mount_new(&self, life: &Life, link: &Link) {
        life.mounts.set(life.mounts.get() + 1);
        let offers = [life.memory()];
        let announces = [(offers[0].id, Announces::Space)];
        let mounting = Mounting {
            offers: &offers,
            announces: &announces,
            number: life.mounts.get(),
            ..Mounting::default()
        };
        link.ask(MessageKind::Mount, &wire::mount(life.client, &mounting)).await;
        life.ledger.mounted();
    }

    /// Mounts all again, in this life of the master.
    async fn mount_again(&self, life: &Rc<Life>, link: &Link, epoch: u64) -> Option<Answer> {
        self.contract.note_upheaval();
        let Prepared { announces, generation } = life.ledger.prepare(epoch).await;
        self.note_return(life, &announces);
        life.mounts.set(life.mounts.get() + 1);
        let offers = life.offers.borrow().clone();
        let mounting = Mounting {
            offers: &offers,
            announces: &announces,
            is_remount: true,
            number: life.mounts.get(),
            generation,
        };
        let mounted = link.ask(MessageKind::Mount, &wire::mount(life.client, &mounting)).await;
        if mounted.is_some() {
            life.ledger.mounted();
            life.signals.note_mounted(&self.contract);
        }
        mounted
    }

    /// Objects that the master does not know come back from now on.
    fn note_return(&self, life: &Rc<Life>, announces: &[(perigee_schemas::Identity, Announces)]) {
        for (segment, _) in announces.iter().filter(|(_, what)| *what == Announces::Objects) {
            let (returning, ledger) = (self.contract.begin_return(), life.ledger.clone());
            let segment = *segment;
            self.world.environment(self.host).spawn(async move {
                ledger.followed(segment).await;
                drop(returning);
            });
        }
    }

    /// Has another segment in place of the one that was emptied in this life of the master.
    async fn renew(&self, life: &Life, link: &Link, epoch: u64) {
        if self.master.epoch() != epoch {
            return;
        }
        let old = life.memory().id;
        let unmount = wire::unmount(life.client, old, 0);
        let Some(answer) = link.ask(MessageKind::Unmount, &unmount).await else {
            return life.must_renew.set(Some(epoch));
        };
        if answer.epoch != epoch {
            // A later life knows nothing of what was emptied.
            self.contract.note_loss();
        }
        life.ledger.remove(old);
        life.table.remove(old);
        match self.make_segment(&life.table, &life.ledger) {
            Ok(offer) => life.replace_memory(offer),
            Err(error) => return self.world.violate(error),
        }
        self.mount_new(life, link).await;
    }
}

impl Life {
    /// The memory that it lends.
    pub(super) fn memory(&self) -> Offer {
        self.offers.borrow()[0].clone()
    }

    fn replace_memory(&self, offer: Offer) {
        self.offers.borrow_mut()[0] = offer;
    }
}
