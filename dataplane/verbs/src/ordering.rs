//! Whether devices may write memory in any order (PCI relaxed ordering). Invariant: off unless it
//! was asked for. With it, bytes that a peer writes can become visible in another order than they
//! were sent, so a target that polls its memory, rather than waiting for a message, may see the end
//! before the middle.

/// The variable that asks for it: 0 is off; 1 and 2 are on where kernel and device allow it.
pub const ORDERING_VARIABLE: &str = "MC_IB_PCI_RELAXED_ORDERING";

/// What `read` says about [`ORDERING_VARIABLE`].
///
/// # Errors
/// The value, if it is none of those.
pub fn is_relaxed(read: impl Fn(&str) -> Option<String>) -> Result<bool, String> {
    match read(ORDERING_VARIABLE).as_deref().map(str::trim) {
        None | Some("" | "0") => Ok(false),
        Some("1" | "2") => Ok(true),
        Some(other) => Err(other.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::is_relaxed;

    #[test]
    fn relaxed_ordering_is_asked_for_and_never_assumed() {
        let with = |value: Option<&str>| is_relaxed(|_| value.map(str::to_owned));
        assert_eq!(with(None), Ok(false));
        assert_eq!(with(Some("0")), Ok(false));
        assert_eq!(with(Some("1")), Ok(true));
        assert_eq!(with(Some(" 2 ")), Ok(true));
        assert_eq!(with(Some("yes")), Err("yes".to_owned()));
    }
}
