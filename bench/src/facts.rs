//! What a figure depends on: CPU, kernel, network cards, settings of the system, this program.
//! Invariant: reading facts never fails; what the system does not tell stays empty.

use std::fmt::Write as _;
use std::path::Path;

use serde::{Deserialize, Serialize};

mod nic;

pub(crate) use nic::Nic;
use nic::or_dash;

/// One machine at the time of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Machine {
    /// Model of the CPU.
    pub(crate) cpu: String,
    /// CPUs that programs may use.
    pub(crate) cpus: u64,
    /// Memory domains.
    pub(crate) numa_nodes: u64,
    pub(crate) memory_bytes: u64,
    /// Release of the kernel.
    pub(crate) kernel: String,
    /// Frequency governor; empty if there is none, as in most guests.
    pub(crate) governor: String,
    /// Congestion control of TCP connections that name none.
    pub(crate) congestion_control: String,
    /// Whether memory is mapped in huge pages: `always`, `madvise`, `never`.
    pub(crate) transparent_huge_pages: String,
    /// Runnable tasks, mean of the last minute, when the run began.
    pub(crate) load_1m: f64,
    /// Version of this program.
    pub(crate) version: String,
    /// Commit it was built from.
    pub(crate) commit: String,
    /// Network cards.
    pub(crate) nics: Vec<Nic>,
}

impl Machine {
    /// This machine.
    #[must_use]
    pub(crate) fn here() -> Self {
        Self::read(Path::new("/"))
    }

    /// The machine whose `proc` and `sys` lie under `root`.
    #[must_use]
    pub(crate) fn read(root: &Path) -> Self {
        let word = |path: &str| read_word(&root.join(path));
        Self {
            cpu: cpu_model(root),
            cpus: std::thread::available_parallelism().map_or(1, usize::from) as u64,
            numa_nodes: numa_nodes(root),
            memory_bytes: memory_bytes(root),
            kernel: word("proc/sys/kernel/osrelease"),
            governor: word("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
            congestion_control: word("proc/sys/net/ipv4/tcp_congestion_control"),
            transparent_huge_pages: chosen(&word("sys/kernel/mm/transparent_hugepage/enabled")),
            load_1m: load(root),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            commit: env!("PERIGEE_COMMIT").to_owned(),
            nics: nic::read_all(root),
        }
    }

    /// Lines for people.
    #[must_use]
    pub(crate) fn text(&self) -> String {
        let mut text = format!(
            "machine: {}, {} CPUs, {} NUMA node{}, {} GiB\n",
            self.cpu,
            self.cpus,
            self.numa_nodes,
            if self.numa_nodes == 1 { "" } else { "s" },
            self.memory_bytes >> 30
        );
        let governor = or_dash(&self.governor);
        let _ = writeln!(
            text,
            "system: Linux {}, governor {governor}, {} by default, load {:.2}",
            self.kernel,
            or_dash(&self.congestion_control),
            self.load_1m
        );
        for nic in &self.nics {
            let _ = writeln!(text, "{}", nic.line());
        }
        let _ = writeln!(text, "perigee {}, commit {}", self.version, self.commit);
        text
    }

    /// What differs from another machine and changes figures: name, here, there.
    #[must_use]
    pub(crate) fn differences(&self, other: &Self) -> Vec<(&'static str, String, String)> {
        let pair =
            |name, one: &dyn ToString, two: &dyn ToString| (name, one.to_string(), two.to_string());
        let cards = |machine: &Self| {
            let lines: Vec<String> = machine.nics.iter().map(Nic::line).collect();
            lines.join("; ")
        };
        let memory = |machine: &Self| format!("{} GiB", machine.memory_bytes >> 30);
        let all = [
            pair("CPU", &self.cpu, &other.cpu),
            pair("CPUs", &self.cpus, &other.cpus),
            pair("memory", &memory(self), &memory(other)),
            pair("NUMA nodes", &self.numa_nodes, &other.numa_nodes),
            pair("kernel", &self.kernel, &other.kernel),
            pair("governor", &self.governor, &other.governor),
            pair("congestion control", &self.congestion_control, &other.congestion_control),
            pair("huge pages", &self.transparent_huge_pages, &other.transparent_huge_pages),
            pair("network cards", &cards(self), &cards(other)),
            pair("version", &self.version, &other.version),
            pair("commit", &self.commit, &other.commit),
        ];
        all.into_iter().filter(|(_, one, two)| one != two).collect()
    }
}

/// The text of a small file without the white space around it; empty if it cannot be read.
fn read_word(path: &Path) -> String {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.trim().to_owned()
}

fn cpu_model(root: &Path) -> String {
    let text = read_word(&root.join("proc/cpuinfo"));
    let model = text
        .lines()
        .filter_map(|line| line.split_once(':'))
        .find(|(name, _)| name.trim() == "model name");
    model.map_or_else(String::new, |(_, model)| model.trim().to_owned())
}

fn memory_bytes(root: &Path) -> u64 {
    let text = read_word(&root.join("proc/meminfo"));
    let total = text.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let kib = total.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok());
    kib.unwrap_or(0) << 10
}

fn numa_nodes(root: &Path) -> u64 {
    let Ok(entries) = std::fs::read_dir(root.join("sys/devices/system/node")) else {
        return 1;
    };
    let is_node = |name: &str| {
        let number = name.strip_prefix("node");
        number.is_some_and(|number| number.parse::<u32>().is_ok())
    };
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    (names.filter(|name| is_node(name)).count() as u64).max(1)
}

fn load(root: &Path) -> f64 {
    let text = read_word(&root.join("proc/loadavg"));
    let first = text.split_whitespace().next();
    first.and_then(|word| word.parse().ok()).unwrap_or(0.0)
}

/// The word in brackets of `always [madvise] never`.
fn chosen(words: &str) -> String {
    let inside = words.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
    inside.map_or(words, |(word, _)| word).to_owned()
}

#[cfg(test)]
pub(crate) mod samples;
#[cfg(test)]
mod tests;
