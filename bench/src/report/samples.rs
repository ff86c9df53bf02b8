//! Reports with fixed numbers, for tests of formats. Invariant: nothing here depends on the
//! machine.

use std::collections::BTreeMap;

use super::{Baseline, Figure, FigureUnit, Goal, Rate, RateUnit, Report, Row, TOTAL};
use crate::facts::samples::machine;
use crate::load::latency::Latency;
use crate::sample::Spread;

fn latency(typical_ns: u64) -> Latency {
    Latency {
        count: 9000,
        min_ns: typical_ns / 2,
        max_ns: typical_ns * 20,
        mean_ns: typical_ns as f64 * 1.1,
        stdev_ns: typical_ns as f64 * 0.3,
        p50_ns: typical_ns,
        p75_ns: typical_ns * 3 / 2,
        p90_ns: typical_ns * 2,
        p95_ns: typical_ns * 3,
        p99_ns: typical_ns * 4,
        p99_9_ns: typical_ns * 8,
        p99_99_ns: typical_ns * 16,
    }
}

fn row(operation: &str, nic: &str, bytes: u64, average: f64) -> Row {
    let iterations = (average * 2.0 / bytes as f64) as u64;
    Row {
        operation: operation.to_owned(),
        nic: nic.to_owned(),
        bytes,
        depth: 4,
        threads: 2,
        iterations,
        seconds: 2.0,
        operations_per_second: average / bytes as f64,
        rate: Rate {
            unit: RateUnit::Bytes,
            peak: average * 1.25,
            average,
            samples: vec![average * 0.9, average, average * 1.25],
        },
        latency: (nic == TOTAL).then(|| latency(bytes / 4)),
        corrupt: 0,
        baselines: Vec::new(),
    }
}

/// Two sizes over two network cards, one of them slow.
pub(crate) fn nic() -> Report {
    let figure =
        |name: &str, value, unit| Figure { name: name.to_owned(), value, unit, goal: None };
    Report {
        format: super::FORMAT.to_owned(),
        tool: "nic".to_owned(),
        complete: true,
        error: None,
        loopback: false,
        started_unix_s: 1_700_000_000,
        settings: BTreeMap::from([("transport".to_owned(), "rdma".to_owned())]),
        machine: machine(),
        figures: vec![
            figure("write 1 MiB", 22.5e9, FigureUnit::BytesPerSecond),
            figure("write 64 KiB, p99", 65_536.0, FigureUnit::Nanoseconds),
        ],
        rows: vec![
            row("write", "mlx5_0", 65_536, 10e9),
            row("write", "mlx5_1", 65_536, 2e9),
            row("write", TOTAL, 65_536, 12e9),
            row("write", "mlx5_0", 1 << 20, 18e9),
            row("write", "mlx5_1", 1 << 20, 4.5e9),
            row("write", TOTAL, 1 << 20, 22.5e9),
        ],
        warnings: vec!["mlx5_1 moved 0.40 of the median of the network cards".to_owned()],
        notes: vec!["closed loop: a thread waits for an operation before the next".to_owned()],
    }
}

/// One row of keys, from a run that a failure ended.
pub(crate) fn master() -> Report {
    let mut report = nic();
    report.tool = "master".to_owned();
    report.complete = false;
    report.loopback = true;
    report.error = Some("Call: The master does not answer".to_owned());
    report.figures.clear();
    report.warnings.clear();
    let mut row = row("exist", TOTAL, 1, 2.5e6);
    (row.bytes, row.depth, row.rate.unit) = (0, 128, RateUnit::Keys);
    row.operations_per_second = 2.5e6 / 128.0;
    row.latency = Some(latency(30_000));
    report.rows = vec![row];
    report
}

/// Rows beside what the machine does.
pub(crate) fn engine() -> Report {
    let mut report = nic();
    report.tool = "engine".to_owned();
    report.loopback = true;
    let name = "1 MiB x 4, worst row, of a cold memcpy";
    let goal = Goal::AtLeast(0.9);
    report.figures = vec![Figure::ratio(name, 0.25).with_goal(goal)];
    report.rows = vec![row("write", TOTAL, 1 << 20, 4e9)];
    let baseline = |name: &str, average: f64| Baseline {
        name: name.to_owned(),
        rate: Rate { unit: RateUnit::Bytes, peak: average, average, samples: vec![average; 2] },
        latency: Some(latency(65_536)),
        ratio: Spread { median: 4e9 / average, low: 3e9 / average, high: 5e9 / average },
    };
    report.rows[0].baselines = vec![baseline("cold memcpy", 16e9), baseline("bare pump", 5e9)];
    report.warnings.clear();
    report
}
