//! What is wrong with links, by what they are set to, by what the others show, and by what they
//! showed before.
//! Pure. Invariant: what is held against others or the past says so.

use crate::baseline::LinkBaseline;
use crate::finding::{FindingKind, LinkFinding};
use crate::readings::{LinkReadings, LinkResult};
use perigee_verdict::JudgedLink;

/// Below this part of its baseline a bandwidth is a finding...
const OF_BASELINE_MIN: f64 = 0.6;
/// ... and below this part of the other links' median.
const OF_OTHERS_MIN: f64 = 0.5;
/// A round trip is a finding from so many times its baseline...
const ROUND_TRIPS_OF_BASELINE: u64 = 3;
/// ... or of the other links' median...
const ROUND_TRIPS_OF_OTHERS: u64 = 5;
/// ... and if it is longer by this much, too: less is the scheduler of a busy host.
const ROUND_TRIP_MORE_NS: u64 = 1_000_000;
/// So many lost datagrams are no accident...
const LOST_MIN: u32 = 5;
/// ... if they are one of so many.
const LOST_OF: u32 = 1000;
/// Others that a link is held against.
const OTHERS_MIN: usize = 2;

/// All that is wrong, the worst kinds first.
#[must_use]
pub fn judge(results: &[LinkResult], baseline: &LinkBaseline) -> Vec<LinkFinding> {
    let mut findings = Vec::new();
    for (place, result) in results.iter().enumerate() {
        let of = |kind, (evidence, ratio): (String, Option<f64>)| LinkFinding {
            kind,
            from: result.from.clone(),
            to: result.to.clone(),
            evidence,
            ratio,
        };
        let readings = match &result.outcome {
            Ok(readings) => readings,
            Err(reason) => {
                findings.push(of(FindingKind::Unreachable, (reason.clone(), None)));
                continue;
            }
        };
        let others: Vec<&LinkReadings> = others(results, place);
        findings.extend(loss(readings).map(|one| of(FindingKind::Loss, (one, None))));
        findings
            .extend(frames(result, readings).map(|one| of(FindingKind::FrameSize, (one, None))));
        for is_back in [false, true] {
            let finding = bandwidth(result, is_back, &others, baseline);
            let finding = finding.map(|one| of(FindingKind::Bandwidth, one));
            findings.extend(finding.map(|one| if is_back { turned(one) } else { one }));
        }
        let usual = baseline.round_trip_ns(&result.from, &result.to);
        let late = round_trip(readings.round_trip_ns, usual, &others);
        findings.extend(late.map(|one| of(FindingKind::RoundTrip, one)));
    }
    findings.sort_by_key(|finding| finding.kind);
    findings
}

/// All links, and whether something is wrong with them.
#[must_use]
pub fn sick_links(results: &[LinkResult], findings: &[LinkFinding]) -> Vec<JudgedLink> {
    let links = results.iter().map(|result| {
        let ends = [&result.from, &result.to];
        let is_of = |finding: &LinkFinding| {
            [&finding.from, &finding.to] == ends || [&finding.to, &finding.from] == ends
        };
        let (from, to) = (result.from.clone(), result.to.clone());
        JudgedLink { from, to, is_sick: findings.iter().any(is_of) }
    });
    links.collect()
}

/// Links over NICs of the same speed, without this one.
fn others(results: &[LinkResult], place: usize) -> Vec<&LinkReadings> {
    let speed = results[place].speed_mbps;
    let comparable = results.iter().enumerate();
    let comparable = comparable.filter(|(at, other)| *at != place && other.speed_mbps == speed);
    comparable.filter_map(|(_, other)| other.outcome.as_ref().ok()).collect()
}

fn turned(finding: LinkFinding) -> LinkFinding {
    LinkFinding { from: finding.to, to: finding.from, ..finding }
}

fn loss(readings: &LinkReadings) -> Option<String> {
    let is_loss = |lost: u32| lost >= LOST_MIN && lost >= readings.probes / LOST_OF;
    let (there, back) = (readings.lost_there, readings.lost_back);
    if !is_loss(there) && !is_loss(back) {
        return None;
    }
    let share =
        |lost: u32| format!("{:.2} %", f64::from(lost) * 100.0 / f64::from(readings.probes));
    Some(format!(
        "{} lost there, {} back, of {} datagrams",
        share(there),
        share(back),
        readings.probes
    ))
}

fn frames(result: &LinkResult, readings: &LinkReadings) -> Option<String> {
    let [near, far] = result.nic_frame_bytes;
    if near != far {
        return Some(format!("MTU {near} at {}, {far} at {}", result.from, result.to));
    }
    let passes = readings.frame_bytes.filter(|passes| *passes < near)?;
    Some(format!("frames above {passes} bytes do not pass, both NICs are set to {near}"))
}

fn bandwidth(
    result: &LinkResult,
    is_back: bool,
    others: &[&LinkReadings],
    baseline: &LinkBaseline,
) -> Option<(String, Option<f64>)> {
    let readings = result.outcome.as_ref().ok()?;
    // Where load was sent and nothing came, nothing is what it carries.
    let was_measured = |one: &LinkReadings| one.there.is_some() || one.back.is_some();
    let rate = |one: &LinkReadings, is_back: bool| {
        let rate = if is_back { one.back } else { one.there };
        rate.map_or(0.0, |rate| rate.bytes_per_second)
    };
    if !was_measured(readings) {
        return None;
    }
    let now = rate(readings, is_back);
    let (from, to) = match is_back {
        false => (&result.from, &result.to),
        true => (&result.to, &result.from),
    };
    let usual = baseline.bytes_per_second(from, to);
    if let Some(usual) = usual.filter(|usual| now < usual * OF_BASELINE_MIN) {
        let ratio = now / usual;
        return Some((format!("{ratio:.2} of its baseline, {}", rates(now, usual)), Some(ratio)));
    }
    let measured = others.iter().filter(|one| was_measured(one));
    let theirs = measured.flat_map(|one| [rate(one, false), rate(one, true)]).collect();
    let typical = typical(theirs, OTHERS_MIN * 2)?;
    // A link that always was as slow is known to be.
    if usual.is_some() || now >= typical * OF_OTHERS_MIN {
        return None;
    }
    let ratio = now / typical;
    Some((format!("{ratio:.2} of the other links, {}", rates(now, typical)), Some(ratio)))
}

fn round_trip(
    now: u64,
    usual: Option<u64>,
    others: &[&LinkReadings],
) -> Option<(String, Option<f64>)> {
    let is_late =
        |than: u64, times: u64| now > than.saturating_mul(times) && now > than + ROUND_TRIP_MORE_NS;
    let text = |what: &str, than: u64| {
        let times = now as f64 / than.max(1) as f64;
        (format!("{times:.1} times {what}, {} us and {} us", now / 1000, than / 1000), Some(times))
    };
    if let Some(usual) = usual {
        return is_late(usual, ROUND_TRIPS_OF_BASELINE).then(|| text("its baseline", usual));
    }
    let theirs = others.iter().map(|one| one.round_trip_ns as f64).collect();
    let typical = typical(theirs, OTHERS_MIN)? as u64;
    is_late(typical, ROUND_TRIPS_OF_OTHERS).then(|| text("the other links", typical))
}

/// The median, of at least so many.
fn typical(mut values: Vec<f64>, least: usize) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().filter(|_| values.len() >= least)
}

fn rates(now: f64, than: f64) -> String {
    format!("{} instead of {}", rate_text(now), rate_text(than))
}

/// A rate in its unit, for people.
pub(crate) fn rate_text(bytes_per_second: f64) -> String {
    match bytes_per_second {
        rate if rate >= 1e9 => format!("{:.2} GB/s", rate / 1e9),
        rate => format!("{:.1} MB/s", rate / 1e6),
    }
}

#[cfg(test)]
mod tests;
