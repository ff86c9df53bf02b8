//! What links showed before, in a file. Invariant: the file is replaced as a whole, and a link that
//! something is wrong with does not become its own baseline.

use crate::facts::MeshHost;
use crate::finding::LinkFinding;
use crate::limits::{BASELINE_BYTES_MAX, KEPT_LINKS_MAX, KEPT_READINGS};
use crate::readings::{LinkReadings, LinkResult};
use perigee_verdict::NicOfHost;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::net::IpAddr;
use std::path::{Path, PathBuf};

/// Version of the file.
const VERSION: u32 = 1;

/// What links showed before.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LinkBaseline {
    version: u32,
    /// When links were measured last, in seconds since 1970; 0 if never.
    pub checked_unix_s: u64,
    /// By `HOST/NIC - HOST/NIC`, ends in the order of their names.
    links: BTreeMap<String, KnownLink>,
    /// NICs as they were, by host.
    pub hosts: BTreeMap<String, MeshHost>,
    /// What was wrong the last time.
    pub findings: Vec<LinkFinding>,
}

/// What a link showed, the newest last.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct KnownLink {
    there: Vec<f64>,
    back: Vec<f64>,
    round_trip_ns: Vec<u64>,
}

/// What is known of a NIC of a host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CheckedNic {
    /// Speed of its link, if it said so.
    pub bytes_per_second: Option<u64>,
    /// Nanoseconds of a round trip to each address of other hosts that was measured.
    pub round_trip_ns: BTreeMap<IpAddr, u64>,
}

/// Why a file of baselines is of no use.
#[derive(Debug, thiserror::Error)]
pub enum BaselineError {
    /// It cannot be read or written.
    #[error("{}: {cause}; pass another --baseline, or none to keep none", file.display())]
    File {
        /// Its path.
        file: PathBuf,
        /// Why.
        cause: io::Error,
    },
    /// It holds something else.
    #[error("{}: {reason}; move it away to begin a new baseline", file.display())]
    Content {
        /// Its path.
        file: PathBuf,
        /// Why.
        reason: String,
    },
}

impl LinkBaseline {
    /// Reads a file; one that is not there is an empty baseline.
    ///
    /// # Errors
    /// It cannot be read, or is no baseline.
    pub fn load(file: &Path) -> Result<Self, BaselineError> {
        let opened = match File::open(file) {
            Ok(opened) => opened,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::default()),
            Err(cause) => return Err(BaselineError::File { file: file.to_owned(), cause }),
        };
        let content = |reason: String| BaselineError::Content { file: file.to_owned(), reason };
        let mut text = String::new();
        let read = opened.take(BASELINE_BYTES_MAX + 1).read_to_string(&mut text);
        read.map_err(|error| content(error.to_string()))?;
        if text.len() as u64 > BASELINE_BYTES_MAX {
            return Err(content(format!("more than {BASELINE_BYTES_MAX} bytes")));
        }
        let found: Self =
            serde_json::from_str(&text).map_err(|error| content(error.to_string()))?;
        match found.version {
            VERSION => Ok(found),
            other => Err(content(format!("version {other}, and this program reads {VERSION}"))),
        }
    }

    /// Replaces a file, and makes its folder.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn save(&self, file: &Path) -> Result<(), BaselineError> {
        let write = || -> io::Result<()> {
            if let Some(folder) = file.parent() {
                fs::create_dir_all(folder)?;
            }
            let next = file.with_extension("next");
            let mut opened = File::create(&next)?;
            opened.write_all(&serde_json::to_vec_pretty(self)?)?;
            opened.sync_all()?;
            fs::rename(next, file)
        };
        write().map_err(|cause| BaselineError::File { file: file.to_owned(), cause })
    }

    /// Takes what was measured and what was wrong with it.
    pub fn learn(&mut self, results: &[LinkResult], findings: &[LinkFinding], now_unix_s: u64) {
        self.version = VERSION;
        self.checked_unix_s = now_unix_s;
        self.findings = findings.to_vec();
        for result in results {
            let is_of = |finding: &LinkFinding| {
                let ends = [&finding.from, &finding.to];
                ends == [&result.from, &result.to] || ends == [&result.to, &result.from]
            };
            let Ok(readings) = &result.outcome else {
                continue;
            };
            let (name, is_turned) = name(&result.from, &result.to);
            let is_new = !self.links.contains_key(&name);
            if findings.iter().any(is_of) || (is_new && self.links.len() >= KEPT_LINKS_MAX) {
                continue;
            }
            self.links.entry(name).or_default().push(readings, is_turned);
        }
    }

    /// Bandwidth from one end to the other, usually.
    #[must_use]
    pub fn bytes_per_second(&self, from: &NicOfHost, to: &NicOfHost) -> Option<f64> {
        let (name, is_turned) = name(from, to);
        let link = self.links.get(&name)?;
        let mut rates = if is_turned { link.back.clone() } else { link.there.clone() };
        rates.sort_by(f64::total_cmp);
        rates.get(rates.len() / 2).copied()
    }

    /// Round trip of a link, usually.
    #[must_use]
    pub fn round_trip_ns(&self, from: &NicOfHost, to: &NicOfHost) -> Option<u64> {
        let mut kept = self.links.get(&name(from, to).0)?.round_trip_ns.clone();
        kept.sort_unstable();
        kept.get(kept.len() / 2).copied()
    }

    /// What is known of the NICs of a host, by their names.
    #[must_use]
    pub fn nics_of(&self, host: &str) -> BTreeMap<String, CheckedNic> {
        const BYTES_PER_MEGABIT: u64 = 125_000;
        let Some(own) = self.hosts.get(host) else { return BTreeMap::new() };
        let mut found = BTreeMap::new();
        for nic in &own.nics {
            let from = NicOfHost::new(host, &nic.name);
            let mut checked = CheckedNic {
                bytes_per_second: nic.speed_mbps.map(|mbps| mbps.saturating_mul(BYTES_PER_MEGABIT)),
                ..CheckedNic::default()
            };
            for (other, facts) in self.hosts.iter().filter(|(other, _)| *other != host) {
                for there in &facts.nics {
                    let to = NicOfHost::new(other, &there.name);
                    let Some(ns) = self.round_trip_ns(&from, &to) else { continue };
                    let addresses = there.addresses.iter().map(|at| (at.address, ns));
                    checked.round_trip_ns.extend(addresses);
                }
            }
            found.insert(nic.name.clone(), checked);
        }
        found
    }

    /// How many links it knows.
    #[must_use]
    pub fn links(&self) -> usize {
        self.links.len()
    }
}

impl KnownLink {
    fn push(&mut self, readings: &LinkReadings, is_turned: bool) {
        let rate = |rate: Option<crate::readings::LoadRate>| rate.map(|rate| rate.bytes_per_second);
        let (there, back) = match is_turned {
            false => (readings.there, readings.back),
            true => (readings.back, readings.there),
        };
        self.there.extend(rate(there));
        self.back.extend(rate(back));
        self.round_trip_ns.push(readings.round_trip_ns);
        keep_newest(&mut self.there);
        keep_newest(&mut self.back);
        keep_newest(&mut self.round_trip_ns);
    }
}

fn keep_newest<T>(values: &mut Vec<T>) {
    values.drain(..values.len().saturating_sub(KEPT_READINGS));
}

/// The name of a link, whichever end measured it, and whether that turned it round.
fn name(from: &NicOfHost, to: &NicOfHost) -> (String, bool) {
    match from <= to {
        true => (format!("{from} - {to}"), false),
        false => (format!("{to} - {from}"), true),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::FindingKind;
    use crate::readings::LoadRate;

    fn measured(from: &str, to: &str, there: f64, back: f64) -> LinkResult {
        let rate = |bytes_per_second| Some(LoadRate { bytes_per_second });
        let readings = LinkReadings {
            there: rate(there),
            back: rate(back),
            round_trip_ns: 7,
            ..LinkReadings::default()
        };
        LinkResult {
            from: NicOfHost::new(from, "n"),
            to: NicOfHost::new(to, "n"),
            nic_frame_bytes: [1500; 2],
            speed_mbps: None,
            outcome: Ok(readings),
        }
    }

    #[test]
    fn a_link_is_known_whichever_end_measured_it() {
        let mut baseline = LinkBaseline::default();
        baseline.learn(&[measured("b", "a", 10.0, 20.0)], &[], 1);
        let (a, b) = (NicOfHost::new("a", "n"), NicOfHost::new("b", "n"));
        assert_eq!(baseline.bytes_per_second(&b, &a), Some(10.0));
        assert_eq!(baseline.bytes_per_second(&a, &b), Some(20.0));
        assert_eq!(baseline.round_trip_ns(&a, &b), Some(7));
    }

    #[test]
    fn the_baseline_is_the_median_of_the_last_good_readings() {
        let mut baseline = LinkBaseline::default();
        for rate in [1.0, 1.0, 1.0, 5.0, 6.0, 7.0, 8.0, 9.0] {
            baseline.learn(&[measured("a", "b", rate, rate)], &[], 1);
        }
        let sick = measured("a", "b", 0.1, 0.1);
        let finding = LinkFinding {
            kind: FindingKind::Bandwidth,
            from: sick.to.clone(),
            to: sick.from.clone(),
            evidence: String::new(),
            ratio: None,
        };
        for _ in 0..9 {
            baseline.learn(std::slice::from_ref(&sick), std::slice::from_ref(&finding), 2);
        }
        assert_eq!(baseline.bytes_per_second(&sick.from, &sick.to), Some(7.0));
        assert_eq!((baseline.checked_unix_s, baseline.findings.len()), (2, 1));
    }

    #[test]
    fn a_file_is_read_as_it_was_written_and_a_damaged_one_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("deep/check.json");
        assert_eq!(LinkBaseline::load(&file).unwrap(), LinkBaseline::default());
        let mut baseline = LinkBaseline::default();
        baseline.learn(&[measured("a", "b", 1.0, 2.0)], &[], 1);
        baseline.save(&file).unwrap();
        assert_eq!(LinkBaseline::load(&file).unwrap(), baseline);
        for damaged in [
            "{",
            "{\"version\": 9, \"checked_unix_s\": 1, \"links\": {}, \"hosts\": {}, \"findings\": []}",
        ] {
            fs::write(&file, damaged).unwrap();
            let error = LinkBaseline::load(&file).unwrap_err();
            assert!(error.to_string().contains("move it away"), "{error}");
        }
    }
}
