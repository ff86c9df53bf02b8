//! Disks as lines for people: those in use, with their state, and those that are not.

use super::table::{capacity_bytes, push_columns, share_text, state_word, used_bytes};
use crate::size::size_text;
use perigee_rpc::{DiskReport, SegmentUse};
use perigee_schemas::DiskHealth;
use std::fmt::Write as _;

const HEADERS: [&str; 8] =
    ["DISK OF", "USED", "CAPACITY", "FULL", "STATE", "PATH", "DATA PORT", "REACHED"];

/// Reports of disks that are not in use.
pub(super) fn unused<'a>(
    disks: &[SegmentUse],
    reports: &'a [DiskReport],
) -> impl Iterator<Item = &'a DiskReport> {
    let is_out = |report: &&DiskReport| report.health >= DiskHealth::Failed;
    let is_mounted = |report: &DiskReport| disks.iter().any(|it| it.segment.id == report.disk);
    reports.iter().filter(is_out).filter(move |report| !is_mounted(report))
}

/// The disks, if there are any, below the segments.
pub(super) fn text(
    disks: &[SegmentUse],
    obstacles: &[Option<String>],
    reports: &[DiskReport],
) -> String {
    let mut text = String::new();
    if !disks.is_empty() {
        let (used, capacity) = (used_bytes(disks), capacity_bytes(disks));
        let mut rows = vec![HEADERS.map(str::to_owned)];
        let row = |(one, obstacle)| row(one, obstacle, reports);
        rows.extend(disks.iter().zip(obstacles).map(row));
        let _ = write!(
            text,
            "\nDisks {}, {} of {} used ({})\n\n",
            disks.len(),
            size_text(used),
            size_text(capacity),
            share_text(used, capacity)
        );
        push_columns(&mut text, &rows, 3);
    }
    let is_sick = |report: &&DiskReport| report.health != DiskHealth::Healthy;
    for report in reports.iter().filter(is_sick) {
        let (path, reason) = (report.path.escape_debug(), report.reason.escape_debug());
        let _ = write!(text, "\nA disk is {}: {path}: {reason}\n", report.health.name());
    }
    let is_short = |report: &&DiskReport| !is_sick(report) && !report.reason.is_empty();
    for report in reports.iter().filter(is_short) {
        let (path, reason) = (report.path.escape_debug(), report.reason.escape_debug());
        let _ = write!(text, "\nA disk needs a look: {path}: {reason}\n");
    }
    text
}

fn row(one: &SegmentUse, obstacle: &Option<String>, reports: &[DiskReport]) -> [String; 8] {
    let segment = &one.segment;
    let report = reports.iter().find(|report| report.disk == segment.id);
    let state = match report {
        Some(report) if report.health != DiskHealth::Healthy => report.health.name(),
        _ => state_word(one.state),
    };
    [
        segment.name.escape_debug().to_string(),
        size_text(one.used_bytes),
        size_text(segment.bytes),
        share_text(one.used_bytes, segment.bytes),
        state.to_owned(),
        report.map_or_else(|| "-".to_owned(), |report| report.path.escape_debug().to_string()),
        segment.endpoint.escape_debug().to_string(),
        obstacle.as_ref().map_or("yes".to_owned(), |reason| format!("no: {reason}")),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::table::samples;
    use perigee_schemas::Identity;

    fn report(disk: Identity, health: DiskHealth) -> DiskReport {
        DiskReport { disk, health, path: "/nvme0".to_owned(), reason: "no space".to_owned() }
    }

    #[test]
    fn disks_have_a_table_of_their_own_with_what_their_owners_say() {
        assert_eq!(text(&[], &[], &[]), "");
        let disks = samples();
        let full = report(disks[0].segment.id, DiskHealth::Full);
        let text = text(&disks, &[None, None], &[full]);
        assert!(text.contains("Disks 2, 3.0 MiB of 6.0 GiB used"), "{text}");
        assert!(text.contains(" full ") && text.contains("/nvme0"), "{text}");
        assert!(text.contains("A disk is full: /nvme0: no space"), "{text}");
    }

    #[test]
    fn disks_that_are_not_in_use_are_named() {
        let reports =
            [report(Identity(0), DiskHealth::Failed), report(Identity(9), DiskHealth::Hung)];
        assert_eq!(unused(&[], &reports).count(), 1);
        let text = text(&[], &[], &reports);
        let hung = "\nA disk is hung: /nvme0: no space\n";
        assert_eq!(text, format!("\nA disk is failed: /nvme0: no space\n{hung}"));
    }

    #[test]
    fn a_healthy_disk_that_takes_less_or_has_lost_copies_says_so() {
        let short = DiskReport {
            reason: "nothing is written".to_owned(),
            ..report(Identity(9), DiskHealth::Healthy)
        };
        let text = text(&[], &[], &[short]);
        assert_eq!(text, "\nA disk needs a look: /nvme0: nothing is written\n");
    }
}
