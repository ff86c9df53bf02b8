//! Random calls on several shards: no byte is lost or held twice.

use perigee_allocator::Extent;
use proptest::prelude::{ProptestConfig, Strategy as _, any, prop, prop_oneof, proptest};

use super::fleet::Fleet;
use super::*;
use crate::key::shard_of;

#[derive(Debug, Clone)]
enum Step {
    Put(u32, u64),
    Abandon(u32, u64),
    Read(u32),
    Remove(u32),
    Pass(u64),
    Tick,
    Arrive,
    Slow(bool),
    Replace(u64),
    /// The owner of the oldest segment lacks memory for so many bytes twice, so far apart.
    Lack {
        from: u64,
        bytes: u64,
        gap: u64,
    },
}

fn step() -> impl proptest::strategy::Strategy<Value = Step> {
    let bytes = prop_oneof![8 => 100_u64..6_000, 2 => 6_000_u64..30_000, 1 => 30_000_u64..70_000];
    prop_oneof![
        10 => (0_u32..60, bytes.clone()).prop_map(|(key, bytes)| Step::Put(key, bytes)),
        1 => (0_u32..60, bytes).prop_map(|(key, bytes)| Step::Abandon(key, bytes)),
        2 => (0_u32..60).prop_map(Step::Read),
        3 => (0_u32..60).prop_map(Step::Remove),
        2 => prop_oneof![1_u64..60, 100_u64..1_500, 5_000_u64..6_000].prop_map(Step::Pass),
        2 => (0_u32..1).prop_map(|_| Step::Tick),
        2 => (0_u32..1).prop_map(|_| Step::Arrive),
        1 => any::<bool>().prop_map(Step::Slow),
        1 => (1_u64..70_000).prop_map(Step::Replace),
        2 => (0_u64..20_000, 0_u64..20_000, 1_u64..20_000)
            .prop_map(|(from, bytes, gap)| Step::Lack { from, bytes, gap }),
    ]
}

impl Fleet {
    fn take(&mut self, step: &Step) {
        match *step {
            Step::Put(key, bytes) => {
                self.put(&format!("key-{key}"), bytes);
            }
            Step::Abandon(key, bytes) => {
                self.start(&format!("key-{key}"), bytes);
            }
            Step::Read(key) => {
                let key = format!("key-{key}");
                let owner = shard_of(key.as_bytes(), self.shards.len());
                let mut replicas = ReplicaColumns::default();
                self.shards[owner].get_replicas(self.now_ms, &[key.as_bytes()], &mut replicas);
            }
            Step::Remove(key) => {
                let key = format!("key-{key}");
                let owner = shard_of(key.as_bytes(), self.shards.len());
                let keys = [key.as_bytes()];
                self.shards[owner].remove(self.now_ms, &keys, true, &mut self.status);
            }
            Step::Pass(ms) => self.now_ms += ms,
            Step::Tick => self.tick(),
            Step::Arrive => self.arrive(),
            Step::Slow(slow) => self.slow = slow,
            Step::Lack { from, bytes, gap } => {
                let (index, whole) =
                    self.bytes_of_segment.first_key_value().expect("one is mounted");
                let second = from + bytes + gap;
                let ranges = [(from, from + bytes), (second, second + bytes)];
                let ranges = ranges.map(|(start, end)| (start.min(*whole), end.min(*whole)));
                let ranges = ranges.into_iter().filter(|(start, end)| start < end);
                let ranges = ranges.map(|(start, end)| Extent::new(start, end - start)).collect();
                self.apply(&SegmentEvent::Unbacked { index: *index, ranges });
            }
            Step::Replace(bytes) => {
                let index = *self.bytes_of_segment.keys().next_back().expect("one is mounted");
                self.apply(&SegmentEvent::Unmounted { index });
                self.mount(index + 1, bytes);
            }
        }
        self.check();
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn no_byte_is_lost_or_held_twice(
        count in 1_usize..6,
        steps in prop::collection::vec(step(), 1..150),
    ) {
        let settings = ShardSettings { watermark_ratio: 0.8, ..settings() };
        let mut fleet = Fleet::with(settings, count, &[70_000, 40_001]);
        for step in &steps {
            fleet.take(step);
        }
    }

    #[test]
    fn what_fits_into_an_empty_segment_fits_after_eviction(
        count in 1_usize..6,
        sizes in prop::collection::vec(100_u64..60_000, 1..60),
    ) {
        let mut fleet = Fleet::new(count, &[70_000]);
        for (number, bytes) in sizes.iter().enumerate() {
            proptest::prop_assert_eq!(fleet.put(&format!("key-{number}"), *bytes), 0);
        }
    }
}
