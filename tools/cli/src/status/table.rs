//! Segments as lines for people. Invariant: columns are as wide as their widest entry, so
//! long names never break the table.

use crate::size::size_text;
use perigee_rpc::SegmentUse;
use std::fmt::Write as _;

const COLUMNS: usize = 7;
const HEADERS: [&str; COLUMNS] =
    ["SEGMENT", "USED", "CAPACITY", "FULL", "STATE", "DATA PORT", "REACHED"];

/// Mooncake's segment states as words.
pub(super) fn state_word(state: u8) -> &'static str {
    match state {
        0 => "unverified",
        1 => "ok",
        2 => "draining",
        3 => "drained",
        4 => "gracefully_unmounting",
        5 => "unmounting",
        _ => "undefined",
    }
}

pub(super) fn used_bytes(segments: &[SegmentUse]) -> u64 {
    sum(segments, |one| one.used_bytes)
}

pub(super) fn capacity_bytes(segments: &[SegmentUse]) -> u64 {
    sum(segments, |one| one.usable_bytes)
}

fn sum(segments: &[SegmentUse], part: impl Fn(&SegmentUse) -> u64) -> u64 {
    segments.iter().map(part).fold(0, u64::saturating_add)
}

/// The whole answer.
pub(super) fn text(master: &str, segments: &[SegmentUse], obstacles: &[Option<String>]) -> String {
    if segments.is_empty() {
        return format!("Master {master}: no segment is mounted; start nodes with perigee node\n");
    }
    let (used, capacity) = (used_bytes(segments), capacity_bytes(segments));
    let mut rows = vec![HEADERS.map(str::to_owned)];
    rows.extend(segments.iter().zip(obstacles).map(row));
    let mut text = format!(
        "Master {master}: segments {}, {} of {} used ({})\n\n",
        segments.len(),
        size_text(used),
        size_text(capacity),
        share_text(used, capacity)
    );
    push_columns(&mut text, &rows, 3);
    let unreached = obstacles.iter().flatten().count();
    if unreached > 0 {
        let _ = write!(
            text,
            "\n{unreached} of {} segments cannot be reached from here; their objects are misses for clients of this host.\n\
             Their owners need an address that this host reaches: local_hostname, --host or MC_TCP_BIND_ADDRESS.\n",
            segments.len()
        );
    }
    let unverified = segments.iter().filter(|one| one.state == 0).count();
    if unverified > 0 {
        let _ = write!(
            text,
            "\n{unverified} of {} segments take no objects: the master has not reached their data ports yet.\n",
            segments.len()
        );
    }
    text
}

fn row((one, obstacle): (&SegmentUse, &Option<String>)) -> [String; COLUMNS] {
    let segment = &one.segment;
    [
        segment.name.escape_debug().to_string(),
        size_text(one.used_bytes),
        size_text(one.usable_bytes),
        share_text(one.used_bytes, one.usable_bytes),
        state_word(one.state).to_owned(),
        segment.endpoint.escape_debug().to_string(),
        obstacle.as_ref().map_or("yes".to_owned(), |reason| format!("no: {reason}")),
    ]
}

/// Appends rows; of the columns behind the first, as many as `numbers` says end below each other.
pub(super) fn push_columns<const COLUMNS: usize>(
    text: &mut String,
    rows: &[[String; COLUMNS]],
    numbers: usize,
) {
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max();
    let widths: [usize; COLUMNS] = std::array::from_fn(|column| width(column).unwrap_or(0));
    for row in rows {
        let mut line = String::new();
        for (column, (cell, width)) in row.iter().zip(widths).enumerate() {
            let is_number = (1..=numbers).contains(&column);
            let _ = match is_number {
                true => write!(line, "{cell:>width$}  "),
                false => write!(line, "{cell:<width$}  "),
            };
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
}

#[expect(clippy::cast_precision_loss, reason = "a shown share needs no more than 53 bits")]
pub(super) fn share_text(used: u64, capacity: u64) -> String {
    match capacity {
        0 => "-".to_owned(),
        capacity => format!("{:.1}%", used as f64 * 100.0 / capacity as f64),
    }
}

#[cfg(test)]
pub(crate) fn samples() -> Vec<SegmentUse> {
    let sample = |name: &str, used_bytes, bytes| SegmentUse {
        segment: perigee_rpc::ReplySegment {
            id: perigee_schemas::Identity::from_halves(1, 2),
            client: perigee_schemas::Identity::from_halves(3, 4),
            bytes,
            base: 0,
            name: name.to_owned(),
            endpoint: "10.0.0.1:4000".to_owned(),
            host_id: "host".to_owned(),
            rendezvous: String::new(),
            protocol: "tcp".to_owned(),
            kind: Some(perigee_schemas::SegmentKind::Memory),
        },
        used_bytes,
        usable_bytes: bytes,
        state: 1,
    };
    vec![sample("a:1", 1 << 20, 4 << 30), sample("a-longer-name:2", 2 << 20, 2 << 30)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_segment_that_the_master_has_not_reached_says_that_it_takes_no_objects() {
        let mut samples = samples();
        assert!(!text("m:1", &samples, &[None, None]).contains("take no objects"));
        samples[0].state = 0;
        let text = text("m:1", &samples, &[None, None]);
        assert!(text.contains("unverified") && text.contains("1 of 2 segments take no objects"));
    }

    #[test]
    fn columns_line_up() {
        let text = text("m:1", &samples(), &[None, None]);
        let lines: Vec<&str> = text.lines().skip(2).collect();
        let starts: Vec<_> = lines
            .iter()
            .map(|line| line.find("DATA PORT").or_else(|| line.find("10.0.0.1")))
            .collect();
        assert_eq!(lines.len(), 3);
        assert!(starts[0].is_some() && starts.iter().all(|at| *at == starts[0]), "{text}");
    }

    #[test]
    fn segments_that_cannot_be_reached_are_pointed_out() {
        let text = text("m:1", &samples(), &[None, Some("Connection refused".to_owned())]);
        assert!(text.contains("no: Connection refused"), "{text}");
        assert!(text.contains("1 of 2 segments cannot be reached"), "{text}");
    }

    #[test]
    fn shares_are_readable() {
        assert_eq!(share_text(1, 4), "25.0%");
        assert_eq!(share_text(0, 0), "-");
    }

    #[test]
    fn a_cluster_without_segments_says_what_to_do() {
        assert!(text("m:1", &[], &[]).contains("perigee node"));
    }
}
