//! Tenants: name spaces of keys and groups. A tenant's keys travel and are kept with the tenant in
//! front, so every message, record and list holds keys of all tenants alike.
//!
//! A stored name is `MARK tenant MARK name`, or the name alone for the default tenant.
//! Invariant: a tenant's name has no mark and no key of a user begins with one, so that a stored
//! name has one reading.

use std::borrow::Cow;
use std::fmt;

use crate::limits::{KEY_BYTES_MAX, TENANT_BYTES_MAX};
use crate::status::Status;

/// The tenant of those that name none.
pub const DEFAULT_TENANT: &str = "default";
/// Stands before and behind a tenant in a stored name; reserved as the first character of keys and
/// groups.
const MARK: char = '\u{1}';
const MARK_BYTE: u8 = MARK as u8;
/// First character of names that are kept for the system.
const RESERVED: u8 = b'_';

/// A tenant by its name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct TenantId {
    /// What stands in front of stored names; empty for the default tenant.
    prefix: Box<str>,
}

impl TenantId {
    /// The tenant of a name; no name is the default tenant.
    ///
    /// # Errors
    /// What a name must be like.
    pub fn parse(name: &str) -> Result<Self, TenantError> {
        match name {
            "" | DEFAULT_TENANT => Ok(Self::default()),
            name if is_name(name.as_bytes()) => {
                Ok(Self { prefix: format!("{MARK}{name}{MARK}").into() })
            }
            _ => Err(TenantError),
        }
    }

    /// The tenant of a stored name, and the name as its user knows it.
    pub fn split(stored: &[u8]) -> (&[u8], &[u8]) {
        split(stored).unwrap_or((DEFAULT_TENANT.as_bytes(), stored))
    }

    /// Whether it is the tenant of those that name none.
    pub fn is_default(&self) -> bool {
        self.prefix.is_empty()
    }

    /// Its name.
    pub fn name(&self) -> &str {
        match self.prefix.len() {
            0 => DEFAULT_TENANT,
            bytes => &self.prefix[1..bytes - 1],
        }
    }

    /// A key or a group of this tenant as messages carry it.
    pub fn stored<'a>(&self, name: &'a str) -> Cow<'a, str> {
        if self.is_default() { name.into() } else { format!("{}{name}", self.prefix).into() }
    }

    /// The name as its user knows it, if a stored name is one of this tenant.
    pub fn own<'a>(&self, stored: &'a [u8]) -> Option<&'a [u8]> {
        if self.is_default() {
            return (stored.first() != Some(&MARK_BYTE)).then_some(stored);
        }
        stored.strip_prefix(self.prefix.as_bytes())
    }
}

impl fmt::Display for TenantId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

/// A name that no tenant can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TenantError;

impl fmt::Display for TenantError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "a tenant's name has 1 to {TENANT_BYTES_MAX} printable ASCII characters and does not \
             begin with _"
        )
    }
}

impl std::error::Error for TenantError {}

impl From<TenantError> for Status {
    fn from(_: TenantError) -> Self {
        Status::InvalidParams
    }
}

/// Whether a user may call a key or a group so.
pub fn is_free(name: &[u8]) -> bool {
    name.first() != Some(&MARK_BYTE)
}

/// Whether a key with its tenant in front can be stored.
///
/// # Errors
/// `InvalidParams` for an empty key, or a front part that is no tenant; `InvalidKey` for a key that
/// is too long.
pub fn check_stored_key(stored: &[u8]) -> Result<(), Status> {
    let key = match is_free(stored) {
        true => stored,
        false => split(stored).ok_or(Status::InvalidParams)?.1,
    };
    match key.len() {
        0 => Err(Status::InvalidParams),
        1..=KEY_BYTES_MAX => Ok(()),
        _ => Err(Status::InvalidKey),
    }
}

/// Whether a stored group may hold a stored key: both are of one tenant.
pub fn is_same_tenant(key: &[u8], group: &[u8]) -> bool {
    (is_free(key) && is_free(group)) || TenantId::split(key).0 == TenantId::split(group).0
}

fn is_name(name: &[u8]) -> bool {
    let is_printable = |byte: &u8| (b' '..=b'~').contains(byte);
    (1..=TENANT_BYTES_MAX).contains(&name.len())
        && name[0] != RESERVED
        && name.iter().all(is_printable)
}

/// The parts of a name with a tenant in front.
fn split(stored: &[u8]) -> Option<(&[u8], &[u8])> {
    let (first, rest) = stored.split_first()?;
    let end = rest.iter().take(TENANT_BYTES_MAX + 1).position(|byte| *byte == MARK_BYTE)?;
    let (tenant, name) = (&rest[..end], &rest[end + 1..]);
    let is_whole = *first == MARK_BYTE
        && is_name(tenant)
        && tenant != DEFAULT_TENANT.as_bytes()
        && is_free(name);
    is_whole.then_some((tenant, name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stored_name_has_one_reading() {
        let red = TenantId::parse("red").unwrap();
        let stored = red.stored("key");
        assert_eq!(TenantId::split(stored.as_bytes()), (&b"red"[..], &b"key"[..]));
        assert_eq!(red.own(stored.as_bytes()), Some(&b"key"[..]));
        let default = TenantId::parse("").unwrap();
        assert_eq!(default.own(stored.as_bytes()), None);
        assert_eq!(default.stored("key"), "key");
        assert_eq!(TenantId::split(b"key"), (&b"default"[..], &b"key"[..]));
        assert_eq!(TenantId::parse("re").unwrap().own(stored.as_bytes()), None);
        assert!(is_same_tenant(stored.as_bytes(), red.stored("group").as_bytes()));
        assert!(!is_same_tenant(b"key", red.stored("group").as_bytes()));
        assert!(!is_same_tenant(stored.as_bytes(), b"group"));
        assert!(is_same_tenant(b"key", b"group"));
    }

    #[test]
    fn names_are_printable_bounded_and_not_reserved() {
        let longest = "t".repeat(TENANT_BYTES_MAX);
        for name in ["red", "a b/c:d", "~", &longest] {
            assert_eq!(TenantId::parse(name).unwrap().name(), name);
        }
        assert!(TenantId::parse("default").unwrap().is_default());
        for name in
            ["_red", "r\u{1}d", "r\nd", "r\u{7f}", "rot-grün", &"t".repeat(TENANT_BYTES_MAX + 1)]
        {
            assert_eq!(TenantId::parse(name), Err(TenantError), "{name}");
        }
    }

    #[test]
    fn only_whole_stored_keys_of_bounded_length_can_be_stored() {
        let red = TenantId::parse("red").unwrap();
        let longest = "k".repeat(KEY_BYTES_MAX);
        for key in ["k", &longest, &red.stored("k"), &red.stored(&longest)] {
            assert_eq!(check_stored_key(key.as_bytes()), Ok(()));
        }
        for key in [
            "",
            "\u{1}",
            "\u{1}red",
            "\u{1}red\u{1}",
            "\u{1}_red\u{1}k",
            "\u{1}default\u{1}k",
            "\u{1}red\u{1}\u{1}k",
        ] {
            assert_eq!(check_stored_key(key.as_bytes()), Err(Status::InvalidParams), "{key:?}");
        }
        let over = format!("{longest}k");
        for key in [red.stored(&over).as_ref(), &over] {
            assert_eq!(check_stored_key(key.as_bytes()), Err(Status::InvalidKey));
        }
    }
}
