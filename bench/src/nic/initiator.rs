//! The rows of a NIC run. Invariant: a row is in the report only if every operation of it ended
//! well.

use std::io::{IsTerminal as _, stderr};

use super::cards::{self, LoadDirections};
use super::settings::NicSettings;
use crate::ends::mover::Mover;
use crate::error::BenchError;
use crate::load::drive::{Measured, drive_metered};
use crate::load::window::{Share, WindowWorker};
use crate::report::{Cell, Figure, FigureUnit, RateUnit, Report, Row, TOTAL, bytes_text};
use crate::stop::Stop;

/// Takes all rows; `local` is the address of the buffer.
pub(super) fn take_rows<M: Mover>(
    mover: &M,
    local: u64,
    settings: &NicSettings,
    stop: &Stop,
    report: &mut Report,
) -> Result<(), BenchError> {
    let named = settings.named_devices()?;
    for operation in &settings.load.operations {
        for bytes in &settings.load.sizes {
            let cell = Cell {
                operation,
                bytes: *bytes,
                depth: settings.load.depth,
                threads: settings.load.threads,
                unit: RateUnit::Bytes,
            };
            let measured = load(mover, local, settings, operation, *bytes, stop)?;
            let counted = LoadDirections::of(operation, settings.load.verify);
            let cards = cards::rows(&cell, counted, &measured, &named);
            report.warnings.extend(cards::lagging(&cards));
            report.rows.extend(cards);
            let row = Row::total(&cell, &measured);
            if settings.progress || stderr().is_terminal() {
                tell(&row);
            }
            let corrupt = row.corrupt;
            report.warn_of_overdue(&row, measured.overdue);
            report.rows.push(row);
            if corrupt > 0 {
                return Err(BenchError::Corrupt {
                    key: format!("{corrupt} of {} operations", measured.operations),
                });
            }
        }
    }
    Ok(())
}

fn load<M: Mover>(
    mover: &M,
    local: u64,
    settings: &NicSettings,
    operation: &'static str,
    bytes: u64,
    stop: &Stop,
) -> Result<Measured, BenchError> {
    let room = settings.buffer_bytes / settings.load.threads;
    let worker = |thread: u64| {
        let share = Share {
            operation,
            bytes,
            depth: settings.load.depth,
            local: local + thread * room,
            remote: thread * room,
            room,
            verify: settings.load.verify,
        };
        WindowWorker::new(mover, share)
    };
    let mut workers = (0..settings.load.threads).map(worker).collect::<Result<Vec<_>, _>>()?;
    drive_metered(&mut workers, &settings.load.span, stop, &|| mover.cards())
}

/// A line while the run goes on.
fn tell(row: &Row) {
    eprintln!("{} {}: {:.3} GB/s", row.operation, bytes_text(row.bytes), row.rate.average / 1e9);
}

/// The best bandwidth and the 99th percentile of the smallest size, per operation.
pub(super) fn figures(rows: &[Row]) -> Vec<Figure> {
    let mut figures = Vec::new();
    let totals = rows.iter().filter(|row| row.nic == TOTAL).collect::<Vec<_>>();
    for group in totals.chunk_by(|one, next| one.operation == next.operation) {
        let best =
            group.iter().max_by(|one, other| one.rate.average.total_cmp(&other.rate.average));
        let smallest = group.iter().min_by_key(|row| row.bytes);
        figures.extend(best.map(|row| Figure::rate(row)));
        figures.extend(smallest.and_then(|row| {
            let latency = row.latency.as_ref()?;
            Some(Figure {
                name: format!("{} {}, p99", row.operation, bytes_text(row.bytes)),
                value: latency.p99_ns as f64,
                unit: FigureUnit::Nanoseconds,
                goal: None,
            })
        }));
    }
    figures
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::samples;

    #[test]
    fn the_figures_are_the_best_bandwidth_and_the_smallest_sizes_p99() {
        let figures = figures(&samples::nic().rows);
        let names: Vec<&str> = figures.iter().map(|figure| figure.name.as_str()).collect();
        assert_eq!(names, ["write 1 MiB", "write 64 KiB, p99"]);
        assert_eq!(figures[0].value, 22.5e9);
        assert_eq!(figures[1].value, 65_536.0);
    }

    #[test]
    fn no_rows_have_no_figures() {
        assert!(super::figures(&[]).is_empty());
    }
}
