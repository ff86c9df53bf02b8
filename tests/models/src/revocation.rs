//! The page between the owner of memory and a guest that copies: after the owner has revoked the
//! memory and has seen no copy under way, no byte changes any more, and all that were copied are
//! seen.

use loom::sync::Arc;
use loom::sync::atomic::{self, AtomicU64, Ordering};
use loom::thread;

#[expect(unreachable_pub, reason = "the crate of this file shows its type to others")]
#[path = "../../../dataplane/memory/src/shared/revocation/words.rs"]
mod words;

/// Both sides of a page.
trait Page: Default + 'static {
    /// Copies unless the owner has revoked.
    fn copy(&self, copy: impl FnOnce());
    fn revoke(&self);
    fn is_unused(&self) -> bool;
}

impl Page for words::Words {
    fn copy(&self, copy: impl FnOnce()) {
        if let Some(permit) = self.begin() {
            copy();
            drop(permit);
        }
    }

    fn revoke(&self) {
        words::Words::revoke(self);
    }

    fn is_unused(&self) -> bool {
        words::Words::is_unused(self)
    }
}

/// A page whose guest looks first and counts its copy afterwards.
#[derive(Default)]
struct Hasty {
    revoked: AtomicU64,
    copies: AtomicU64,
}

impl Page for Hasty {
    fn copy(&self, copy: impl FnOnce()) {
        if self.revoked.load(Ordering::Acquire) == 0 {
            self.copies.fetch_add(1, Ordering::AcqRel);
            copy();
            self.copies.fetch_sub(1, Ordering::AcqRel);
        }
    }

    fn revoke(&self) {
        self.revoked.store(1, Ordering::Release);
    }

    fn is_unused(&self) -> bool {
        self.copies.fetch_add(0, Ordering::AcqRel) == 0
    }
}

/// A page whose owner looks at the count by a load, which may see an old one.
#[derive(Default)]
struct Forgetful(Hasty);

impl Page for Forgetful {
    fn copy(&self, copy: impl FnOnce()) {
        self.0.copies.fetch_add(1, Ordering::AcqRel);
        if self.0.revoked.load(Ordering::Acquire) == 0 {
            copy();
        }
        self.0.copies.fetch_sub(1, Ordering::AcqRel);
    }

    fn revoke(&self) {
        self.0.revoke();
    }

    fn is_unused(&self) -> bool {
        self.0.copies.load(Ordering::Acquire) == 0
    }
}

/// A guest copies twice while the owner revokes.
fn play<P: Page + Send + Sync>() {
    loom::model(|| {
        let page = Arc::new(P::default());
        let bytes = Arc::new(AtomicU64::new(0));
        let guest = {
            let (page, bytes) = (page.clone(), bytes.clone());
            thread::spawn(move || {
                for copied in 1..=2 {
                    page.copy(|| bytes.store(copied, Ordering::Relaxed));
                }
            })
        };
        page.revoke();
        let unused = page.is_unused();
        let seen = bytes.load(Ordering::Relaxed);
        guest.join().unwrap();
        if unused {
            assert_eq!(seen, bytes.load(Ordering::Relaxed), "a byte changed");
        }
        assert!(page.is_unused(), "no copy is under way at the end");
    });
}

#[test]
fn no_byte_changes_after_the_owner_has_seen_no_copy() {
    play::<words::Words>();
}

#[test]
#[should_panic(expected = "a byte changed")]
fn a_guest_that_looks_before_it_counts_is_caught() {
    play::<Hasty>();
}

#[test]
#[should_panic(expected = "a byte changed")]
fn an_owner_that_only_loads_the_count_is_caught() {
    play::<Forgetful>();
}
