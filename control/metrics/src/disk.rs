//! What a client counts of its disks. Invariant: the shard of a disk writes its cells, others read
//! them; our families and Mooncake's come from the same ones.

use crate::catalogue::buckets::{CLIENT_LATENCY_US, QUARTER_DURATIONS};
use crate::cell::{Histogram, HistogramTotals};
use crate::exposition::{Samples, SummaryTotals};
use crate::family::QUANTILES;
use perigee_schemas::DiskHealth;
use std::time::Duration;

/// How long operations of one kind take on one disk. The disk's thread is the only writer.
#[derive(Debug)]
pub struct DiskTimeCells {
    ns: Histogram,
    us: Histogram,
}

/// How long operations of one kind took: in the bounds of our families, and in Mooncake's.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DiskTimes {
    ns: HistogramTotals,
    us: HistogramTotals,
}

/// Numbers of one disk at one moment; counters count since it was opened.
#[derive(Debug, Clone, Default)]
pub struct DiskNumbers {
    /// The folder that its user has named.
    pub path: String,
    /// How far it can be used.
    pub health: DiskHealth,
    /// Most bytes of its log.
    pub capacity_bytes: u64,
    /// Bytes of its log that can be read.
    pub used_bytes: u64,
    /// Objects that were written.
    pub written_objects: u64,
    /// Their bytes, with their sums.
    pub object_bytes: u64,
    /// All bytes that were written.
    pub written_bytes: u64,
    /// Parts of objects that were read.
    pub reads: u64,
    /// Those of them whose bytes another read under way has brought.
    pub joined_reads: u64,
    /// Their bytes.
    pub read_bytes: u64,
    /// Objects that were copied to memory with a read of their own.
    pub promotions_read: u64,
    /// The same with the read of a client.
    pub promotions_joined: u64,
    /// Copies that were made void.
    pub voided: u64,
    /// Copies that were not what was written.
    pub damaged: u64,
    /// Operations that failed.
    pub errors: u64,
    /// Times of reads of its files.
    pub read_times: DiskTimes,
    /// Times of writes and syncs.
    pub write_times: DiskTimes,
}

const NS_PER_US: f64 = 1e3;

/// The power of two of nanoseconds that is counted finer first.
const FIRST_POWER: usize = 10;

impl Default for DiskTimeCells {
    fn default() -> Self {
        Self { ns: Histogram::new(&QUARTER_DURATIONS), us: Histogram::new(&CLIENT_LATENCY_US) }
    }
}

impl DiskTimeCells {
    /// An operation has taken so long.
    pub fn record(&self, took: Duration) {
        self.ns.observe(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX));
        self.us.observe(u64::try_from(took.as_micros()).unwrap_or(u64::MAX));
    }

    /// All up to now.
    #[must_use]
    pub fn totals(&self) -> DiskTimes {
        let mut totals = DiskTimes::default();
        self.ns.add_to(&mut totals.ns);
        self.us.add_to(&mut totals.us);
        totals
    }
}

impl DiskTimes {
    /// Nanoseconds of all, and how many operations took less than twice each power of two of
    /// nanoseconds, but not less than it.
    #[must_use]
    pub fn powers<const N: usize>(&self) -> (u64, [u64; N]) {
        let mut powers = [0; N];
        for (at, count) in self.ns.counts.iter().enumerate() {
            // Bounds are upper ones, four for each power from 2^10 on.
            let power = FIRST_POWER + at.saturating_sub(1) / 4 - usize::from(at == 0);
            if let Some(cell) = powers.get_mut(power) {
                *cell += count;
            }
        }
        (self.ns.sum, powers)
    }

    fn operations(&self) -> u64 {
        self.us.counts.iter().sum()
    }
}

impl Samples {
    /// Adds the disks of a client.
    pub fn add_disks(&mut self, disks: &[DiskNumbers]) {
        for disk in disks {
            self.add_disk(disk);
        }
        let (mut reads, mut writes) = (DiskSum::default(), DiskSum::default());
        for disk in disks {
            reads.add(&disk.read_times, disk.read_bytes);
            writes.add(&disk.write_times, disk.written_bytes);
        }
        self.add_mooncake("read", &reads);
        self.add_mooncake("write", &writes);
        reads.merge(&writes);
        self.add_mooncake("total", &reads);
    }

    fn add_disk(&mut self, disk: &DiskNumbers) {
        let path = disk.path.as_str();
        for health in DiskHealth::ALL {
            let is_it = u8::from(health == disk.health);
            self.value("perigee_disk_state", &[path, health.name()], is_it);
        }
        for (name, value) in [
            ("perigee_disk_capacity_bytes", disk.capacity_bytes),
            ("perigee_disk_used_bytes", disk.used_bytes),
            ("perigee_disk_written_objects_total", disk.written_objects),
            ("perigee_disk_object_bytes_total", disk.object_bytes),
            ("perigee_disk_written_bytes_total", disk.written_bytes),
            ("perigee_disk_reads_total", disk.reads),
            ("perigee_disk_joined_reads_total", disk.joined_reads),
            ("perigee_disk_read_bytes_total", disk.read_bytes),
            ("perigee_disk_voided_copies_total", disk.voided),
            ("perigee_disk_damaged_copies_total", disk.damaged),
            ("perigee_disk_errors_total", disk.errors),
        ] {
            self.value(name, &[path], value);
        }
        for (read, objects) in [("client", disk.promotions_joined), ("own", disk.promotions_read)] {
            self.value("perigee_disk_promotions_total", &[path, read], objects);
        }
        self.histogram("perigee_disk_read_seconds", &[path], &disk.read_times.ns);
        self.histogram("perigee_disk_write_seconds", &[path], &disk.write_times.ns);
    }

    fn add_mooncake(&mut self, part: &str, sum: &DiskSum) {
        let operations = format!("mooncake_ssd_{part}_ops_total");
        self.value(&operations, &[], sum.times.operations());
        self.value(&format!("mooncake_ssd_{part}_bytes_total"), &[], sum.bytes);
        self.histogram(&format!("mooncake_ssd_{part}_latency_us"), &[], &sum.times.us);
        self.summary(&format!("mooncake_ssd_{part}_latency_summary_us"), &[], &sum.summary_us());
    }
}

/// Operations of several disks, or of several kinds.
#[derive(Default)]
struct DiskSum {
    times: DiskTimes,
    bytes: u64,
}

impl DiskSum {
    fn add(&mut self, times: &DiskTimes, bytes: u64) {
        self.bytes += bytes;
        self.times.us.merge(&times.us);
        self.times.ns.merge(&times.ns);
    }

    /// Quantiles in microseconds.
    fn summary_us(&self) -> SummaryTotals {
        let ns = &self.times.ns;
        #[expect(clippy::cast_precision_loss, reason = "a shown time needs no more than 53 bits")]
        let us = |ns: u64| ns as f64 / NS_PER_US;
        let quantile = |part| ns.quantile(&QUARTER_DURATIONS, part).map(us);
        SummaryTotals { quantiles: QUANTILES.map(quantile), sum: us(ns.sum), count: ns.count() }
    }

    fn merge(&mut self, other: &Self) {
        self.add(&other.times, other.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{BuildInfo, ClientCells};

    fn disk(path: &str, health: DiskHealth) -> DiskNumbers {
        let times = DiskTimeCells::default();
        times.record(Duration::from_micros(600));
        times.record(Duration::from_micros(40));
        DiskNumbers {
            path: path.to_owned(),
            health,
            read_bytes: 500,
            joined_reads: 3,
            damaged: 4,
            promotions_read: 2,
            promotions_joined: 5,
            written_bytes: 70,
            read_times: times.totals(),
            write_times: times.totals(),
            ..DiskNumbers::default()
        }
    }

    fn samples(disks: &[DiskNumbers]) -> Samples {
        let build = BuildInfo { version: "1", commit: "c", reactor: "epoll" };
        let mut samples = Samples::of_client([&ClientCells::default()], "real", build);
        samples.add_disks(disks);
        samples
    }

    #[test]
    fn each_disk_has_one_state_and_its_own_numbers() {
        let disks = [disk("/a", DiskHealth::Healthy), disk("/b", DiskHealth::Full)];
        let samples = samples(&disks);
        assert_eq!(samples.refused(), Vec::<String>::new());
        let text = samples.render();
        for line in [
            "perigee_disk_state{path=\"/a\",state=\"healthy\"} 1",
            "perigee_disk_state{path=\"/b\",state=\"healthy\"} 0",
            "perigee_disk_state{path=\"/b\",state=\"full\"} 1",
            "perigee_disk_damaged_copies_total{path=\"/a\"} 4",
            "perigee_disk_joined_reads_total{path=\"/a\"} 3",
            "perigee_disk_promotions_total{path=\"/b\",read=\"client\"} 5",
            "perigee_disk_promotions_total{path=\"/b\",read=\"own\"} 2",
            "perigee_disk_read_seconds_count{path=\"/b\"} 2",
            "perigee_disk_read_seconds_bucket{path=\"/b\",le=\"0.001048576\"} 2",
            "mooncake_ssd_read_ops_total 4",
            "mooncake_ssd_total_bytes_total 1140",
            "mooncake_ssd_total_latency_us_count 8",
            "mooncake_ssd_write_latency_us_bucket{le=\"50.000000\"} 2",
            "mooncake_ssd_read_latency_summary_us{quantile=\"0.500000\"} 40.96",
            "mooncake_ssd_read_latency_summary_us{quantile=\"0.990000\"} 655.36",
            "mooncake_ssd_total_latency_summary_us_sum 2560",
            "mooncake_ssd_total_latency_summary_us_count 8",
        ] {
            assert!(text.contains(&format!("\n{line}\n")), "{line} in {text}");
        }
    }

    #[test]
    fn times_are_known_by_powers_of_two() {
        let cells = DiskTimeCells::default();
        for ns in [500, 1025, 2000, 2049, u64::MAX / 2] {
            cells.record(Duration::from_nanos(ns));
        }
        let (_, powers) = cells.totals().powers::<40>();
        assert_eq!((powers[9], powers[10], powers[11], powers[34]), (1, 2, 1, 1));
        assert_eq!(powers.iter().sum::<u64>(), 5);
        assert_eq!(DiskTimes::default().powers::<40>(), (0, [0; 40]));
    }

    #[test]
    fn a_client_without_disks_serves_mooncakes_families_as_zero() {
        let text = samples(&[]).render();
        assert!(text.contains("\nmooncake_ssd_read_ops_total 0\n"), "{text}");
        assert!(text.contains("\n# TYPE mooncake_ssd_read_latency_summary_us summary\n"), "{text}");
        let none = "\nmooncake_ssd_read_latency_summary_us{quantile=\"0.900000\"} NaN\n";
        assert!(text.contains(none), "{text}");
        assert!(!text.contains("perigee_disk_state{"));
    }
}
