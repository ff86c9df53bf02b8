//! Which folders of clients that have gone this one takes over.
//! Invariant: a folder is taken over only after two looks have found it free, so that a client that
//! starts again has the time to take its own.

use crate::limits::{ADOPTED_DISKS_MAX, ADOPTION_LOOK, ADOPTION_REFUSED, ADOPTIONS_PER_LOOK};
use perigee_ssd::{Answer, OpenError};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// A look at the folders of a directory that is under way.
pub(super) type FolderLook = Answer<Result<Vec<PathBuf>, OpenError>>;

#[derive(Debug)]
pub(super) struct Adoption {
    due: Instant,
    pub(super) look: Option<FolderLook>,
    /// Free at the last look.
    seen: Vec<PathBuf>,
    /// Not given by the master, until when they are left alone.
    refused: Vec<(PathBuf, Instant)>,
}

impl Adoption {
    pub(super) fn new(now: Instant) -> Self {
        let due = now + pause();
        Self { due, look: None, seen: Vec::new(), refused: Vec::new() }
    }

    pub(super) fn is_due(&self, now: Instant) -> bool {
        self.look.is_none() && self.due <= now
    }

    /// A look has ended, with these free folders; the answer are those to take over, by a client
    /// that has so many of others.
    pub(super) fn note(
        &mut self,
        now: Instant,
        free: Vec<PathBuf>,
        adopted: usize,
    ) -> Vec<PathBuf> {
        debug_assert!(self.look.is_none(), "one look at a time, and this one has ended");
        self.due = now + pause();
        debug_assert!(!self.is_due(now), "looks do not follow each other at once");
        self.refused.retain(|(_, until)| *until > now);
        let room = ADOPTED_DISKS_MAX.saturating_sub(adopted).min(ADOPTIONS_PER_LOOK);
        let is_refused = |folder: &PathBuf| self.refused.iter().any(|(one, _)| one == folder);
        let known = free.iter().filter(|folder| self.seen.contains(folder));
        let taken: Vec<PathBuf> =
            known.filter(|folder| !is_refused(folder)).take(room).cloned().collect();
        self.seen = free;
        taken
    }

    /// The master takes the last owner of a folder to be alive.
    pub(super) fn refuse(&mut self, now: Instant, folder: PathBuf) {
        let is_known = self.refused.iter().any(|(one, _)| *one == folder);
        debug_assert!(!is_known, "what was refused is not tried before its time");
        self.refused.push((folder, now + ADOPTION_REFUSED));
    }
}

/// Until the next look, a little different each time, so that clients do not look together.
fn pause() -> Duration {
    let part = getrandom::u32().unwrap_or(u32::MAX / 2);
    ADOPTION_LOOK.mul_f64(0.75 + 0.5 * f64::from(part) / f64::from(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folders(names: &[&str]) -> Vec<PathBuf> {
        names.iter().map(PathBuf::from).collect()
    }

    #[test]
    fn a_folder_is_taken_over_when_two_looks_have_found_it_free() {
        let now = Instant::now();
        let mut adoption = Adoption::new(now);
        assert!(!adoption.is_due(now + ADOPTION_LOOK / 2));
        assert!(adoption.is_due(now + ADOPTION_LOOK * 2));
        assert!(adoption.note(now, folders(&["/a", "/b"]), 0).is_empty());
        assert!(!adoption.is_due(now + ADOPTION_LOOK / 2));
        assert_eq!(adoption.note(now, folders(&["/b", "/c"]), 0), folders(&["/b"]));
        assert!(adoption.note(now, folders(&["/a"]), 0).is_empty(), "it was not free in between");
    }

    #[test]
    fn a_client_takes_a_bounded_number_over_and_a_few_at_a_time() {
        let now = Instant::now();
        let mut adoption = Adoption::new(now);
        let free = folders(&["/a", "/b", "/c", "/d"]);
        adoption.note(now, free.clone(), 0);
        assert_eq!(adoption.note(now, free.clone(), 0).len(), ADOPTIONS_PER_LOOK);
        assert_eq!(adoption.note(now, free.clone(), ADOPTED_DISKS_MAX - 1).len(), 1);
        assert!(adoption.note(now, free, ADOPTED_DISKS_MAX).is_empty());
    }

    #[test]
    fn what_the_master_does_not_give_is_left_alone_for_a_while() {
        let now = Instant::now();
        let mut adoption = Adoption::new(now);
        let free = folders(&["/a"]);
        adoption.note(now, free.clone(), 0);
        adoption.refuse(now, "/a".into());
        assert!(adoption.note(now, free.clone(), 0).is_empty());
        let later = now + ADOPTION_REFUSED;
        assert_eq!(adoption.note(later, free.clone(), 0), free);
    }
}
