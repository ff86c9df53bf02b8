//! The user of a disk in one life of its process. Invariant: no two calls work on one key.

use super::memory::{Extent, payload};
use super::model::Copy;
use super::play::Play;
use crate::environment::SimulatedEnvironment;
use perigee_memory::crc32c;
use perigee_schemas::disk_address::DiskAddress;
use perigee_schemas::extent::{extent_bytes, generation_offset};
use perigee_shard::Environment;
use perigee_ssd::format::Labels;
use perigee_ssd::log::NewObject;
use perigee_ssd::{Disk, DiskPiece, Outgoing, ReadError, VoidCopy};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

const KEYS: u64 = 60;
/// Every call of a disk that hangs ends by then.
const CALL_MAX: Duration = Duration::from_secs(60);

pub(super) struct User {
    play: Rc<Play>,
    environment: SimulatedEnvironment,
    disk: RefCell<Option<Disk>>,
}

impl User {
    pub(super) fn new(play: &Rc<Play>, environment: &SimulatedEnvironment) -> Rc<Self> {
        let (play, environment) = (play.clone(), environment.clone());
        Rc::new(Self { play, environment, disk: RefCell::default() })
    }

    fn violate(&self, what: String) {
        self.play.world.violate(what);
    }

    /// Opens the disk and compares what it has with what must be there.
    pub(super) async fn open(&self, must_have: bool) -> bool {
        let mailbox = self.environment.mailbox();
        let opening = Disk::open::<SimulatedEnvironment>(mailbox, self.play.options());
        let opened = match opening.within(&self.environment, CALL_MAX).await {
            Ok(Ok(opened)) => opened,
            Ok(Err(error)) => {
                // Only a bad disk may have made a superblock or a summary unreadable.
                let is_explained = self.play.trouble.is_untrue();
                self.play.world.check(is_explained, || format!("The disk was not opened: {error}"));
                return false;
            }
            Err(error) => {
                self.violate(format!("The disk was not opened: {error}"));
                return false;
            }
        };
        let oldest = opened.spec.oldest;
        let taken =
            self.play.model.borrow_mut().take_survivors(&opened.survivors, oldest, must_have);
        // A tombstone that the disk has lost is beyond any log; wrong bytes are not.
        if let Err(what) = taken
            && self.play.trouble.behaviour.lie_odds == 0
        {
            self.violate(what);
        }
        *self.disk.borrow_mut() = Some(opened.disk);
        self.read_known(must_have).await;
        true
    }

    pub(super) async fn close(&self) {
        let disk = self.disk.borrow().clone();
        if let Some(disk) = disk {
            let closed = disk.close();
            let _ = closed.within(&self.environment, CALL_MAX).await;
        }
    }

    /// Callers that work until the process ends.
    pub(super) async fn live(self: &Rc<Self>, callers: usize) {
        for _ in 0..callers {
            let own = self.clone();
            self.environment.spawn(async move {
                loop {
                    own.step().await;
                    let length = Duration::from_millis(own.play.random.below(8));
                    own.environment.sleep(length).await;
                }
            });
        }
    }

    async fn step(&self) {
        let Some(disk) = self.disk.borrow().clone() else { return };
        if self.play.model.borrow().is_exclusive {
            return;
        }
        self.play.hear();
        self.play.model.borrow_mut().active += 1;
        match self.play.random.below(20) {
            0..=9 => self.write(&disk).await,
            10 | 11 => self.remove(),
            12..=14 => self.bury(&disk).await,
            15 if self.play.random.one_in(10) => self.remove_all(&disk).await,
            16 if self.play.random.one_in(4) => self.list(&disk).await,
            _ => self.read_some(&disk).await,
        }
        let mut model = self.play.model.borrow_mut();
        model.active = model.active.saturating_sub(1);
    }

    fn failed_syncs(&self) -> u64 {
        self.play.world.failed_syncs(self.play.host)
    }

    async fn write(&self, disk: &Disk) {
        let random = &self.play.random;
        let (mut written, mut outgoing, mut extents) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..random.between(1, 6) {
            let hash = u128::from(random.below(KEYS));
            let largest = *random.pick(&[200, 9000, 300_000, 2 << 20]);
            let bytes = random.between(1, largest) as u32;
            let mut model = self.play.model.borrow_mut();
            if !model.busy.insert(hash) {
                continue;
            }
            // A new object has replaced the one before it when it is written to a disk.
            model.remove(hash);
            let generation = model.next_generation(bytes);
            drop(model);
            let extent = Extent::new(generation, bytes);
            outgoing.push(Outgoing {
                object: object(hash, generation, bytes),
                source: extent.source(),
            });
            written.push((hash, generation, bytes));
            extents.push(extent);
        }
        let failed_syncs = self.failed_syncs();
        let answer = disk.write(outgoing);
        if random.one_in(8)
            && let Some(extent) = extents.first()
        {
            self.environment.sleep(random.length(Duration::ZERO, Duration::from_millis(8))).await;
            extent.give_away();
        }
        let answered = answer.within(&self.environment, CALL_MAX).await;
        let results = answered.unwrap_or_default();
        for ((hash, generation, bytes), index) in written.into_iter().zip(0..) {
            let result = results.get(index);
            self.play.count(matches!(result, Some(Ok(_))));
            let mut model = self.play.model.borrow_mut();
            model.busy.remove(&hash);
            if let Some(Ok(address)) = result {
                model.announce(hash, Copy { generation, bytes, address: *address }, failed_syncs);
            }
        }
    }

    fn remove(&self) {
        let hash = u128::from(self.play.random.below(KEYS));
        let mut model = self.play.model.borrow_mut();
        if !model.busy.contains(&hash) {
            model.remove(hash);
        }
    }

    async fn bury(&self, disk: &Disk) {
        let copies: Vec<(u64, u128)> = {
            let model = self.play.model.borrow();
            model.waiting.iter().map(|(generation, (hash, _))| (*generation, *hash)).collect()
        };
        let voids = copies
            .iter()
            .map(|(generation, hash)| VoidCopy { hash: *hash, generation: *generation });
        let buried = disk.bury(voids.collect()).within(&self.environment, CALL_MAX).await;
        let is_done = matches!(buried, Ok(Ok(())));
        self.play.count(is_done);
        if is_done {
            let generations: Vec<u64> = copies.iter().map(|(generation, _)| *generation).collect();
            self.play.model.borrow_mut().buried(&generations);
        }
    }

    /// Alone, so that it is known what it has removed.
    async fn remove_all(&self, disk: &Disk) {
        if self.play.model.borrow().active > 1 {
            return;
        }
        {
            let mut model = self.play.model.borrow_mut();
            model.is_exclusive = true;
            // All or nothing is there afterwards, and until the answer it is not known which.
            model.known.clear();
        }
        let removed = disk.remove_all().within(&self.environment, CALL_MAX).await;
        let mut model = self.play.model.borrow_mut();
        model.is_exclusive = false;
        if matches!(removed, Ok(Ok(()))) {
            model.removed_all();
        }
    }

    async fn read_some(&self, disk: &Disk) {
        let copies: Vec<Copy> = self.play.model.borrow().known.values().copied().collect();
        if copies.is_empty() {
            return;
        }
        let count = self.play.random.between(1, 8);
        let picked: Vec<Copy> = (0..count).map(|_| *self.play.random.pick(&copies)).collect();
        self.read(disk, &picked, (false, self.play.trouble.is_none())).await;
    }

    /// Asks for all that the disk has, as for a master that has forgotten it.
    async fn list(&self, disk: &Disk) {
        let (known, dead) = {
            let model = self.play.model.borrow();
            (model.known.clone(), model.dead().clone())
        };
        let (mut listed, mut from) = (BTreeMap::new(), None);
        loop {
            let page = disk.list(from).within(&self.environment, CALL_MAX).await;
            let page = page.ok().and_then(Result::ok);
            self.play.count(page.is_some());
            let Some(page) = page else { return };
            listed.extend(page.objects.into_iter().map(|it| (it.generation, it.address)));
            from = page.next;
            if from.is_none() {
                break;
            }
        }
        let back = listed.keys().find(|generation| dead.contains(generation));
        let is_true = back.is_none() || self.play.trouble.behaviour.lie_odds > 0;
        self.play.world.check(is_true, || format!("Void generation {back:?} is listed"));
        let model = self.play.model.borrow();
        for (hash, copy) in known.iter().filter(|_| self.play.trouble.is_none()) {
            // What was removed since or is on its way out may be there or not.
            let is_still = model.known.get(hash) == Some(copy);
            let is_there = listed.get(&copy.generation) == Some(&copy.address);
            let must_be = is_still && copy.address.sequence > disk.oldest();
            self.play.world.check(is_there || !must_be, || format!("{copy:?} is not listed"));
        }
    }

    /// Reads all that is known once: what cannot be read is a miss, and is to be void.
    async fn read_known(&self, must_have: bool) {
        let Some(disk) = self.disk.borrow().clone() else { return };
        let known: Vec<(u128, Copy)> = {
            let model = self.play.model.borrow();
            model.known.iter().map(|(hash, copy)| (*hash, *copy)).collect()
        };
        for (hash, copy) in known {
            let must_have = must_have && self.play.model.borrow().was_announced(&copy);
            let is_there = self.read(&disk, &[copy], (true, must_have)).await;
            if !is_there {
                self.play.model.borrow_mut().remove(hash);
            }
        }
    }

    /// Whether all copies were read; `whole`, or now and then a part of one, or under a guard that
    /// does not hold.
    async fn read(&self, disk: &Disk, copies: &[Copy], (whole, must_have): (bool, bool)) -> bool {
        let random = &self.play.random;
        let mut wanted = Vec::new();
        for copy in copies {
            let (first, bytes) = match !whole && random.one_in(3) {
                true => {
                    let first = random.below(u64::from(copy.bytes)) as u32;
                    (first, 1 + random.below(u64::from(copy.bytes - first)) as u32)
                }
                false => (0, extent_bytes(u64::from(copy.bytes)) as u32),
            };
            let is_wrong = !whole && random.one_in(10);
            let at = |more: u64| DiskAddress::unpack(copy.address.pack() + more);
            let word = at(generation_offset(u64::from(copy.bytes)));
            let guard = Some((word, copy.generation + u64::from(is_wrong)));
            let piece = DiskPiece { address: at(first.into()), bytes, guard };
            wanted.push((copy, first, is_wrong, piece));
        }
        let pieces = wanted.iter().map(|(.., piece)| *piece).collect();
        // What is to come to memory is read like anything else, or was read lately.
        let answer = match !whole && random.one_in(4) {
            true => disk.read_for_memory(pieces),
            false => disk.read(pieces),
        };
        let answered = answer.within(&self.environment, CALL_MAX).await;
        let results = answered.unwrap_or_default();
        let mut all = results.len() == wanted.len();
        for ((copy, first, is_wrong, piece), result) in wanted.iter().zip(results) {
            self.play.count(result.is_ok());
            match result {
                Ok(_) if *is_wrong => self.violate(format!("A guard was not looked at: {copy:?}")),
                Ok(bytes) => all &= self.check(copy, *first, bytes.as_slice(), piece.bytes),
                Err(ReadError::Gone) if *is_wrong => {}
                Err(error) => {
                    // The oldest one may be on its way out.
                    let is_recycled = copy.address.sequence <= disk.oldest();
                    self.play.world.check(is_recycled || !must_have, || {
                        format!("{copy:?} is not read: {error}")
                    });
                    all = false;
                }
            }
        }
        all
    }

    /// Compares what was read. What a flipped bit or a lost sector has changed is noticed by the
    /// checksums, as a reader does.
    fn check(&self, copy: &Copy, first: u32, found: &[u8], bytes: u32) -> bool {
        let right = payload(copy.generation, copy.bytes);
        let end = (first + bytes).min(copy.bytes) as usize;
        let part = &right[first as usize..end];
        let is_right = found.get(..part.len()) == Some(part);
        if first == 0 && found.len() as u64 == extent_bytes(u64::from(copy.bytes)) {
            let is_intact = perigee_ssd::image::is_intact(found, copy.bytes, copy.generation);
            self.play.world.check(is_right || !is_intact, || format!("A wrong byte: {copy:?}"));
            let is_fresh = self.play.model.borrow().is_fresh(copy, self.failed_syncs());
            let must_be = is_fresh && !self.play.trouble.is_untrue();
            self.play.world.check(is_intact || !must_be, || format!("{copy:?} is not intact"));
            return is_intact;
        }
        is_right
    }
}

fn object(hash: u128, generation: u64, payload_bytes: u32) -> NewObject {
    let labels = Labels { key: format!("key{hash}").into_bytes(), ..Labels::default() };
    let checksum = crc32c(&payload(generation, payload_bytes));
    NewObject { hash, generation, payload_bytes, checksum, flags: 0, frequency: 0, labels }
}
