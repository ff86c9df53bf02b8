//! The numbers behind a verdict, for people. Invariant: each text has the number itself and what it
//! is held against.

use crate::snapshot::Suspect;

impl Suspect {
    /// Whether both verdicts are on the same subject.
    pub(crate) fn is_of(&self, other: &Self) -> bool {
        (self.kind, &self.name) == (other.kind, &other.name)
    }

    /// Joins those that are named; a subject that is among them gets its evidence.
    pub(crate) fn add_to(self, named: &mut Vec<Self>) {
        let Some(known) = named.iter_mut().find(|one| one.is_of(&self)) else {
            return named.push(self);
        };
        known.evidence.push_str("; ");
        known.evidence.push_str(&self.evidence);
        known.since_ms = known.since_ms.min(self.since_ms);
    }
}

pub(super) fn evidence(
    what: &str,
    now_ns: u64,
    others_ns: Option<u64>,
    (usual_ns, checked_ns): (Option<u64>, Option<u64>),
) -> String {
    let mut text = format!("{what} {}", short_time(now_ns));
    if let Some(others) = others_ns {
        text.push_str(&format!(", others {}", short_time(others)));
    }
    if let Some(usual) = usual_ns {
        text.push_str(&format!(", usually {}", short_time(usual)));
    }
    if let Some(checked) = checked_ns {
        text.push_str(&format!(", {} when perigee check measured it", short_time(checked)));
    }
    text
}

/// Two or three digits and a unit.
pub(super) fn short_time(nanoseconds: u64) -> String {
    match nanoseconds {
        0 => "nothing".to_owned(),
        1..1_000 => format!("{nanoseconds} ns"),
        1_000..1_000_000 => format!("{} us", nanoseconds / 1_000),
        _ => format!("{}.{} ms", nanoseconds / 1_000_000, nanoseconds / 100_000 % 10),
    }
}

/// A share as percent.
pub(super) fn percent(per_million: u64) -> String {
    match per_million {
        0 => "0 %".to_owned(),
        1..1_000 => format!("0.{per_million:04} %"),
        _ => format!("{}.{:02} %", per_million / 10_000, per_million / 100 % 100),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_that_others_do_not_need_is_nothing() {
        let text = evidence("each 64 KiB take", 7_700_000, Some(0), (Some(950), None));
        assert_eq!(text, "each 64 KiB take 7.7 ms, others nothing, usually 950 ns");
        let text = evidence("round trips of", 2_000_000, None, (None, Some(90_000)));
        assert_eq!(text, "round trips of 2.0 ms, 90 us when perigee check measured it");
    }

    #[test]
    fn shares_are_percent() {
        let shares = [0, 7, 950, 1_000, 12_340, 1_000_000].map(percent);
        assert_eq!(shares, ["0 %", "0.0007 %", "0.0950 %", "0.10 %", "1.23 %", "100.00 %"]);
    }
}
