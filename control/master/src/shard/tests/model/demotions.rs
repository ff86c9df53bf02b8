//! What the owner of the disk does in the model: writes, erases, announces.
//! Invariant: what is only on the disk is never older than what was acknowledged.

use super::*;

impl Model {
    /// The owner takes what is to be written, and writes it.
    pub(super) fn demote(&mut self) {
        for task in self.stage.shard.take_demotions(self.stage.now_ms, OWNER, 3) {
            let generation = task.source.generation;
            assert_eq!(self.completed.get(&generation), Some(&task.checksum));
            assert!(self.disk.is_mounted && task.disk == self.disk.number);
            let key = (0..KEYS).find(|key| name(*key).as_bytes() == &*task.key).unwrap();
            let payload_bytes = task.source.payload_bytes;
            let copy = Logged {
                generation,
                payload_bytes,
                checksum: task.checksum,
                key,
                hash: hash_key(&task.key),
            };
            let address = self.disk.append(copy);
            self.disk.writing.push((task, address));
        }
    }

    pub(super) fn written(&mut self, good: bool) {
        if self.disk.writing.is_empty() {
            return;
        }
        let (task, address) = self.disk.writing.remove(0);
        let generation = task.source.generation;
        let ended = EndedDemotions {
            client: OWNER,
            keys: &[&task.key],
            generations: &[generation],
            status: &[if good { 0 } else { code(Status::WriteFail) }],
            addresses: &[address],
        };
        if !good {
            self.disk.log.remove(&address);
        }
        let key = std::str::from_utf8(&task.key).unwrap().to_owned();
        let mut out = Vec::new();
        self.stage.shard.end_demotions(self.stage.now_ms, &ended, &mut out);
        let on_disk = self.stage.peek(&key).into_iter().find(|at| at.segment >= DISK);
        let is_linked = on_disk.is_some_and(|at| at.offset == address);
        assert_eq!(is_linked, good && out == [0], "{key}");
        if out != [0] {
            self.disk.log.remove(&address);
        }
    }

    /// What a read has found on the disk lies in its log.
    pub(super) fn assert_on_disk(&self, key: usize) {
        let on_disk = self.stage.replicas.locations.iter().filter(|at| at.segment >= DISK);
        for location in on_disk {
            let copy = self.disk.log[&location.offset];
            assert!(self.disk.is_mounted && location.segment == self.disk.number);
            assert_eq!((copy.key, copy.generation), (key, location.generation));
            assert_eq!(copy.payload_bytes, location.payload_bytes);
            assert_eq!(copy.checksum, self.stage.replicas.checksum[0]);
        }
    }

    /// The owner hears of void copies, erases them, and says so.
    pub(super) fn erase(&mut self) {
        if !self.disk.is_mounted {
            return;
        }
        let disk = self.disk.number;
        let void = self.stage.shard.tombstones(OWNER, disk, 2).unwrap();
        for tombstone in &void {
            self.disk.erase(tombstone.hash, tombstone.generation);
        }
        let numbers: Vec<u64> = void.iter().map(|tombstone| tombstone.number).collect();
        self.stage.shard.confirm_tombstones(self.stage.now_ms, OWNER, disk, &numbers);
    }

    pub(super) fn recycle(&mut self) {
        if self.disk.oldest >= self.disk.appended / SEGMENT_COPIES {
            return;
        }
        self.disk.oldest += 1;
        let oldest = self.disk.oldest;
        self.disk.log.retain(|address, _| DiskAddress::unpack(*address).sequence >= oldest);
        if self.disk.is_mounted {
            let event = SegmentEvent::Recycled { index: self.disk.number, oldest };
            self.stage.shard.apply(self.stage.now_ms, &event);
        }
    }

    pub(super) fn say_health(&mut self, health: DiskHealth) {
        if self.disk.is_mounted {
            let event = SegmentEvent::Health { index: self.disk.number, health };
            self.stage.shard.apply(self.stage.now_ms, &event);
        }
    }

    pub(super) fn eject(&mut self) {
        if std::mem::replace(&mut self.disk.is_mounted, false) {
            let event = SegmentEvent::Unmounted { index: self.disk.number };
            self.stage.shard.apply(self.stage.now_ms, &event);
            // The owner has died: what it had not given may be in the log all the same.
            self.disk.writing.clear();
        }
    }

    pub(super) fn bring_back(&mut self) {
        if std::mem::replace(&mut self.disk.is_mounted, true) {
            return;
        }
        self.disk.number += 1;
        let disk = self.disk.number;
        self.stage.mount(Disk::spec(), disk);
        let oldest = SegmentEvent::Recycled { index: disk, oldest: self.disk.oldest };
        self.stage.shard.apply(self.stage.now_ms, &oldest);
        let logged: Vec<(u64, Logged)> = self.disk.log.iter().map(|(at, it)| (*at, *it)).collect();
        for (address, copy) in logged {
            self.announce_copy(disk, address, &copy);
        }
        let mut out = Vec::new();
        let shard = &mut self.stage.shard;
        shard.announce_copies(self.stage.now_ms, OWNER, disk, &[], true, &mut out);
    }

    pub(super) fn announce_copy(&mut self, disk: u32, address: u64, copy: &Logged) {
        let key = name(copy.key);
        let before = self.stage.peek(&key);
        let announced = AnnouncedCopy {
            key: key.as_bytes(),
            group: "",
            generation: copy.generation,
            payload_bytes: copy.payload_bytes,
            checksum: copy.checksum,
            writer: WRITER,
            address,
        };
        let mut out = Vec::new();
        let shard = &mut self.stage.shard;
        shard.announce_copies(self.stage.now_ms, OWNER, disk, &[announced], false, &mut out);
        if out == [0] {
            let acknowledged = self.acknowledged.get(&copy.key);
            assert_eq!(acknowledged, Some(&copy.checksum), "{key} is what was acknowledged");
            if before.is_empty() {
                self.leased_until_ms.remove(&copy.key);
            }
        } else {
            assert_eq!(self.stage.peek(&key), before, "what is refused changes no key");
            self.disk.log.remove(&address);
        }
    }
}
