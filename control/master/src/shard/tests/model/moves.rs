//! What nodes do in the model about copies that the master wants: they take, copy and report them.
//! Invariant: a move that was reported leaves its object where the master says.

use super::*;

impl Model {
    /// A turn of a job that empties the segment which may be draining.
    pub(super) fn turn(&mut self, allowance: u32) {
        let order = DrainOrder {
            job: 1,
            sources: [self.next_segment - 1].into(),
            targets: [].into(),
            allowance,
        };
        let report = self.stage.shard.drain_turn(self.stage.now_ms, &order);
        let repairs = self.stage.shard.repair_turn(self.stage.now_ms, allowance);
        assert!(repairs.active <= allowance.max(self.repairs), "no more than were allowed");
        self.repairs = repairs.active;
        assert_eq!(u64::from(report.active + repairs.active), self.stage.shard.gauges().moves);
    }

    /// Every owner of a segment takes what is there for it.
    pub(super) fn take(&mut self) {
        for client in 100..100 + u128::from(self.next_segment) {
            for task in self.stage.shard.take_moves(self.stage.now_ms, client, 2) {
                let claim = Claim::new(&task.target, self.stage.now_ms + RELEASE_MS);
                self.assert_unclaimed(&[claim]);
                assert_eq!(
                    self.completed.get(&task.source.generation),
                    Some(&task.checksum),
                    "what is copied was completed with this checksum"
                );
                assert_ne!(task.source.segment, task.target.segment);
                let shard = &self.stage.shard;
                let under_way = shard
                    .stored
                    .keys
                    .find(&task.key)
                    .and_then(|it| shard.relocation.of(it.as_object()?));
                let is_repair = under_way.is_some_and(|it| it.purpose.is_of_wish());
                self.copying.push(Copying { task, claim, is_repair });
            }
        }
    }

    pub(super) fn report(&mut self, good: bool, in_flight: bool) {
        if self.copying.is_empty() {
            return;
        }
        let Copying { task, claim, is_repair } = self.copying.remove(0);
        let in_flight = in_flight && !good;
        let client = 100 + u128::from(task.source.segment);
        let before = self.stage.peek(std::str::from_utf8(&task.key).unwrap());
        let ended = EndedMoves {
            client,
            keys: &[&task.key],
            generations: &[task.target.generation],
            status: &[if good { 0 } else { code(Status::TransferFail) }],
            in_flight: &[in_flight],
        };
        let mut out = Vec::new();
        self.stage.shard.end_moves(self.stage.now_ms, &ended, &mut out);
        if in_flight {
            // Bytes may still arrive there.
            self.stray.push(claim);
        }
        let after = self.stage.peek(std::str::from_utf8(&task.key).unwrap());
        let has = |generation| after.iter().any(|at| at.generation == generation);
        let is_there = self.stage.shard.segment(task.target.segment).is_some();
        let is_done = out == [0] && good && is_there;
        if is_done {
            self.completed.insert(task.target.generation, task.checksum);
        }
        // An object that lost another part with a segment has no replica, before and after.
        if is_done && (task.source.part.is_none() || !after.is_empty()) {
            assert!(has(task.target.generation));
            let is_kept = is_repair && self.stage.shard.segment(task.source.segment).is_some();
            assert_eq!(has(task.source.generation), is_kept, "only a repair adds a replica");
        } else {
            assert_eq!(before, after, "this move changes no key");
        }
    }
}
