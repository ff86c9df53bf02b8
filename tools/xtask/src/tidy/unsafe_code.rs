//! Which crates may hold unsafe code: the others forbid it, or deny it but in the modules that say
//! why they need it.
//! Invariant: a new crate forbids it from its first line on.

use super::violation::Violation;

/// Crates whose work is memory that the compiler does not see.
const UNSAFE_CRATES: [&str; 11] = [
    "bench",
    "dataplane/device",
    "dataplane/engine",
    "dataplane/memory",
    "dataplane/python",
    "dataplane/rails",
    "dataplane/rdma",
    "dataplane/transfer",
    "dataplane/verbs",
    "ebpf/probes",
    "tests/simulation",
];

/// Checks the root of a crate; other files pass.
pub(super) fn check(file: &str, text: &str) -> Option<Violation> {
    let root = file.strip_suffix("/src/lib.rs");
    let folder = root.or_else(|| file.strip_suffix("/src/main.rs"))?;
    // A program beside a library shares its folder.
    let is_free = UNSAFE_CRATES.contains(&folder) || file.starts_with("tests/fuzz/");
    let says = |lint: &str| text.contains(&format!("#![{lint}(unsafe_code)]"));
    if is_free || says("forbid") || says("deny") {
        return None;
    }
    let message = "Forbid unsafe code: `#![forbid(unsafe_code)]`, or `deny` and an `expect` with its reason in the \
                   modules that need it";
    Some(Violation::new(file, 1, message))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crate_forbids_or_denies_unsafe_code_unless_it_is_listed() {
        let with = |lint: &str| format!("//! A crate.\n#![{lint}(unsafe_code)]\n");
        for lint in ["forbid", "deny"] {
            assert_eq!(check("control/new/src/lib.rs", &with(lint)), None);
        }
        let bare = "//! A crate.\n";
        assert!(check("control/new/src/lib.rs", bare).is_some());
        assert!(check("tools/new/src/main.rs", &with("warn")).is_some());
        assert_eq!(check("dataplane/memory/src/lib.rs", bare), None);
        assert_eq!(check("control/new/src/other.rs", bare), None);
    }
}
