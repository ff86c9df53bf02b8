//! Memory of keys and connections that are gone: small blocks stay with the C library until it is
//! asked to give them back.
//! Invariant: that happens only after a good part of them has gone, so never while as many come as
//! go.

use crate::cluster::Cluster;
use perigee_shard::heap::give_back_now;
use std::io;
use std::sync::{Arc, Weak};
use std::time::Duration;

/// Pause between two looks.
const PAUSE: Duration = Duration::from_secs(2);
/// Fewer than so many that have gone are not worth it.
const GONE_MIN: u64 = 1000;

/// How many there are of something, against the most since its memory was given back.
#[derive(Debug, Default)]
struct Level {
    highest: u64,
}

impl Level {
    /// Notes how many there are now, and the most there were since the last look; whether a quarter
    /// has gone.
    fn has_fallen(&mut self, peak: u64, count: u64) -> bool {
        self.highest = self.highest.max(peak).max(count);
        let gone = self.highest - count;
        let has_fallen = gone >= GONE_MIN.max(self.highest / 4);
        if has_fallen {
            self.highest = count;
        }
        has_fallen
    }
}

/// Looks after freed memory as long as the cluster lives.
pub(crate) fn watch(cluster: &Arc<Cluster>) -> io::Result<()> {
    let cluster = Arc::downgrade(cluster);
    std::thread::Builder::new()
        .name("perigee-memory".to_owned())
        .spawn(move || run(&cluster))
        .map(|_| ())
}

fn run(cluster: &Weak<Cluster>) {
    let (mut keys, mut connections) = (Level::default(), Level::default());
    while let Some(cluster) = cluster.upgrade() {
        let of_shards = cluster.ask_all(|shard| {
            let mut keys = shard.keys.borrow_mut();
            (keys.take_peak_keys(), keys.gauges().keys)
        });
        let cells = cluster.shared_cells();
        drop(cluster);
        let open = cells.iter().map(|cells| {
            let opened = cells.connections_opened.get();
            opened.saturating_sub(cells.connections_closed.get())
        });
        // A shard that does not answer in time is no shard whose keys have gone.
        let of_shards: Option<Vec<(u64, u64)>> = of_shards.into_iter().collect();
        let fewer_keys = of_shards.is_some_and(|of_shards| {
            let peak = of_shards.iter().map(|(peak, _)| peak).sum();
            keys.has_fallen(peak, of_shards.iter().map(|(_, count)| count).sum())
        });
        let fewer_connections = connections.has_fallen(0, open.sum());
        if fewer_keys || fewer_connections {
            give_back_now();
        }
        std::thread::sleep(PAUSE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_given_back_when_a_quarter_has_gone_and_not_for_every_few() {
        let mut level = Level::default();
        let steps = [
            (0, 100_000, false),
            (0, 80_000, false),
            (0, 120_000, false),
            (0, 91_000, false),
            (0, 90_000, true),
            (0, 90_000, false),
            (0, 80_000, false),
            (0, 500, true),
            (0, 0, false),
            // Those that came and went between two looks.
            (20_000, 0, true),
            (900, 0, false),
        ];
        for (peak, count, expected) in steps {
            assert_eq!(level.has_fallen(peak, count), expected, "{peak}, {count}");
        }
    }
}
