//! Who holds the locks of files, as the kernel lists them: `/proc/locks`. Invariant: its numbers
//! are those of the PID namespace that this `/proc` was mounted in; holders that the namespace does
//! not see are not listed at all.

use crate::limits::LOCKS_BYTES_MAX;
use nix::libc::dev_t;
use nix::sys::stat::{major, minor};
use perigee_topology::Roots;
use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};

/// Device and number of a file.
pub(super) type FileId = (dev_t, u64);

/// Processes by the file that they hold a lock of, written as `MAJOR:MINOR:NUMBER`.
#[derive(Debug, Default)]
pub(super) struct Holders(HashMap<String, Vec<u32>>);

impl Holders {
    /// All whole-file locks that are held now.
    pub(super) fn read(roots: &Roots) -> Self {
        let mut holders = Self::default();
        let Ok(file) = File::open(roots.proc().top().join("locks")) else {
            return holders;
        };
        for line in BufReader::new(file.take(LOCKS_BYTES_MAX)).lines() {
            let Ok(line) = line else {
                break;
            };
            if let Some((place, pid)) = held(&line) {
                holders.0.entry(place.to_owned()).or_default().push(pid);
            }
        }
        holders
    }

    /// Processes that hold this file's lock.
    pub(super) fn of(&self, (device, number): FileId) -> &[u32] {
        let place = format!("{:02x}:{:02x}:{number}", major(device), minor(device));
        self.0.get(&place).map_or(&[], Vec::as_slice)
    }
}

/// File and holder of a line such as `1: FLOCK  ADVISORY  READ 16659 fe:00:10380778 0 EOF`; those
/// that wait have `->`.
fn held(line: &str) -> Option<(&str, u32)> {
    let mut words = line.split_whitespace().skip(1);
    let kind = words.next()?;
    let (pid, place) = (words.nth(2)?, words.next()?);
    (kind == "FLOCK").then_some((place, pid.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holders_are_listed_and_those_that_wait_or_lock_ranges_are_not() {
        let line = "1: FLOCK  ADVISORY  READ 16659 fe:00:10380778 0 EOF";
        assert_eq!(held(line), Some(("fe:00:10380778", 16659)));
        assert_eq!(held("2: -> FLOCK  ADVISORY  WRITE 7 fe:00:1 0 EOF"), None);
        assert_eq!(held("3: POSIX  ADVISORY  WRITE 7 fe:00:1 0 EOF"), None);
        assert_eq!(held("nonsense"), None);
    }
}
