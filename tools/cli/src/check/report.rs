//! What was measured, for people. Invariant: no line passes 80 columns while names are short, and
//! what is wrong comes before who is at fault for it.

use super::{Culprit, LinkFinding, LinkResult, Unheard};
use perigee_mesh::{LoadRate, MeshHost};
use std::fmt::Write as _;

/// Columns of a terminal.
const COLUMNS: usize = 80;
/// Of them, those of a link's name.
const NAME_COLUMNS: usize = 36;
/// What lines that go on begin with.
const INDENT: &str = "     ";

/// What was measured.
pub(super) struct CheckReport {
    pub(super) hosts: Vec<(String, MeshHost)>,
    pub(super) unheard: Vec<Unheard>,
    pub(super) seconds: u64,
    pub(super) now_unix_s: u64,
    /// When the baseline was measured last; 0 if there is none.
    pub(super) before_unix_s: u64,
    /// Links of the baseline.
    pub(super) known_links: usize,
    pub(super) links: Vec<LinkResult>,
    pub(super) findings: Vec<LinkFinding>,
    pub(super) culprits: Vec<Culprit>,
}

impl CheckReport {
    /// Everything.
    pub(super) fn text(&self) -> String {
        let mut text = self.summary();
        if !self.links.is_empty() {
            let _ = writeln!(
                text,
                "\n{:<NAME_COLUMNS$}  {:>9}  {:>7} {:>7}  {:>5}  {:>7}",
                "LINK", "RTT us", "GB/s ->", "<-", "MTU", "LOST"
            );
        }
        self.links.iter().for_each(|link| text.push_str(&row(link)));
        if !self.findings.is_empty() || !self.unheard.is_empty() {
            text.push('\n');
        }
        for Unheard { host, reason } in &self.unheard {
            text.push_str(&wrapped(&format!("GONE  {host}: {reason}")));
        }
        for finding in &self.findings {
            let LinkFinding { kind, from, to, evidence, .. } = finding;
            text.push_str(&wrapped(&format!("{:<5} {from} -> {to}: {evidence}", kind.word())));
        }
        if !self.culprits.is_empty() {
            text.push('\n');
        }
        for Culprit { kind, name, sick, looked_at, .. } in &self.culprits {
            let line =
                format!("At fault: {} {name} ({sick} of its {looked_at} links)", kind.word());
            text.push_str(&wrapped(&line));
        }
        if self.findings.is_empty() && self.unheard.is_empty() {
            text.push_str("\nNothing is wrong with these links.\n");
        }
        text
    }

    fn summary(&self) -> String {
        let baseline = match self.before_unix_s {
            0 => "no baseline before".to_owned(),
            before => {
                let ago = age_text(self.now_unix_s.saturating_sub(before));
                format!("baseline of {} links, measured last {ago} ago", self.known_links)
            }
        };
        let (hosts, links) = (self.hosts.len(), self.links.len());
        format!("Hosts {hosts}, links {links}, {} s; {baseline}\n", self.seconds)
    }
}

fn row(link: &LinkResult) -> String {
    let name = shortened(&format!("{} - {}", link.from, link.to));
    let Ok(readings) = &link.outcome else {
        return format!("{name:<NAME_COLUMNS$}  {:>9}\n", "-");
    };
    let rate = |rate: Option<LoadRate>| {
        rate.map_or_else(|| "-".to_owned(), |rate| format!("{:.3}", rate.bytes_per_second / 1e9))
    };
    let frames = readings.frame_bytes.map_or_else(|| "-".to_owned(), |bytes| bytes.to_string());
    let lost = match readings.probes {
        0 => "-".to_owned(),
        probes => {
            let lost = f64::from(readings.lost_there + readings.lost_back);
            format!("{:.2} %", lost * 100.0 / f64::from(probes))
        }
    };
    format!(
        "{name:<NAME_COLUMNS$}  {:>9.1}  {:>7} {:>7}  {frames:>5}  {lost:>7}\n",
        readings.round_trip_ns as f64 / 1e3,
        rate(readings.there),
        rate(readings.back),
    )
}

/// The name of a link with the middle left out if it is long.
fn shortened(name: &str) -> String {
    let count = name.chars().count();
    if count <= NAME_COLUMNS {
        return name.to_owned();
    }
    let half = (NAME_COLUMNS - 2) / 2;
    let (begin, end) = (name.chars().take(half), name.chars().skip(count - half));
    begin.chain("..".chars()).chain(end).collect()
}

/// Lines of words that fit a terminal.
fn wrapped(text: &str) -> String {
    let (mut lines, mut line) = (String::new(), String::new());
    for word in text.split(' ') {
        if !line.trim().is_empty() && line.chars().count() + 1 + word.chars().count() > COLUMNS {
            lines.push_str(line.trim_end());
            lines.push('\n');
            line = INDENT.to_owned();
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    lines.push_str(line.trim_end());
    lines.push('\n');
    lines
}

/// How long ago, roughly.
pub(crate) fn age_text(seconds: u64) -> String {
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7200 => format!("{} min", seconds / 60),
        7200..172_800 => format!("{} h", seconds / 3600),
        _ => format!("{} days", seconds / 86_400),
    }
}
