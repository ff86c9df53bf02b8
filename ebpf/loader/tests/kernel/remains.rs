//! What the kernel made for this process.
//! Invariant: things are known by their numbers, which the kernel never uses again, so agents
//! beside it do not count.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::process::Command;
use std::time::{Duration, Instant};

/// Words of `/proc/self/fdinfo` and of `bpftool` for the same things.
const KINDS: [(&str, &str); 4] =
    [("prog_id", "prog"), ("map_id", "map"), ("link_id", "link"), ("btf_id", "btf")];

/// Everything that was seen in the hands of this process.
#[derive(Default)]
pub(crate) struct Remains {
    made: BTreeMap<&'static str, BTreeSet<u64>>,
}

impl Remains {
    /// Remembers what this process holds now.
    pub(crate) fn note(&mut self) -> io::Result<()> {
        for entry in std::fs::read_dir("/proc/self/fdinfo")? {
            let text = std::fs::read_to_string(entry?.path()).unwrap_or_default();
            // A link's file tells of its program too, and a program's of its map: each kind by its
            // own word.
            for line in text.lines() {
                let Some((word, number)) = line.split_once(':') else {
                    continue;
                };
                if let Some((_, kind)) = KINDS.iter().find(|(own, _)| *own == word) {
                    let number = number.trim().parse().map_err(io::Error::other)?;
                    self.made.entry(kind).or_default().insert(number);
                }
            }
        }
        Ok(())
    }

    /// How many things.
    pub(crate) fn made(&self) -> usize {
        self.made.values().map(BTreeSet::len).sum()
    }

    /// What still exists; the kernel may take until the deadline to take things down.
    pub(crate) fn left(&self, patience: Duration) -> io::Result<Vec<String>> {
        let deadline = Instant::now() + patience;
        loop {
            let mut left = Vec::new();
            for (kind, made) in &self.made {
                let still = existing(kind)?;
                left.extend(made.intersection(&still).map(|number| format!("{kind} {number}")));
            }
            if left.is_empty() || Instant::now() > deadline {
                return Ok(left);
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}

/// Numbers of all that the kernel holds of a kind.
fn existing(kind: &str) -> io::Result<BTreeSet<u64>> {
    let output = Command::new("bpftool").args([kind, "show"]).output()?;
    if !output.status.success() {
        return Err(io::Error::other(format!("bpftool {kind} show failed")));
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let numbers = text.lines().filter_map(|line| line.split_once(": ")?.0.parse().ok());
    Ok(numbers.collect())
}
