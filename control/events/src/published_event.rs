//! An event as consumers know it: the tenant, the key and the group apart, and the hash that the
//! key stands for.

use crate::sequence_hash::sequence_hash;
use perigee_master::{KeyChange, KeyEvent, Medium};
use perigee_schemas::TenantId;
use perigee_schemas::tenant::DEFAULT_TENANT;
use std::borrow::Cow;

/// What is published.
#[derive(Debug, Clone)]
pub(crate) enum PublishedEvent<'a> {
    /// A key changed.
    Key(NamedKeyEvent<'a>),
    /// Nothing is stored in a medium: the master has just begun its life.
    Cleared(Medium),
}

/// A change of a key.
#[derive(Debug, Clone)]
pub(crate) struct NamedKeyEvent<'a> {
    pub(crate) change: KeyChange,
    pub(crate) medium: Medium,
    pub(crate) tenant: Cow<'a, str>,
    pub(crate) key: Cow<'a, str>,
    pub(crate) group: Option<Cow<'a, str>>,
    pub(crate) payload_bytes: u64,
    /// At most one: a key is a block of its own.
    pub(crate) hash: Option<u64>,
}

impl<'a> NamedKeyEvent<'a> {
    pub(crate) fn of(event: KeyEvent<'a>) -> Self {
        let (tenant, key) = split(event.key);
        let key = text(key);
        let hash = sequence_hash(&key);
        let group = event.group.map(|group| text(split(group).1));
        let KeyEvent { change, medium, payload_bytes, .. } = event;
        Self { change, medium, tenant, key, group, payload_bytes, hash }
    }
}

/// The tenant of a stored name, and the name.
fn split(stored: &[u8]) -> (Cow<'_, str>, &[u8]) {
    // Most names have no tenant in front, which one look at their first byte shows.
    match TenantId::default().own(stored) {
        Some(name) => (DEFAULT_TENANT.into(), name),
        None => {
            let (tenant, name) = TenantId::split(stored);
            (text(tenant), name)
        }
    }
}

/// A name as text. Almost all are, which a look at whole words shows; replacing what is none goes
/// byte by byte.
fn text(name: &[u8]) -> Cow<'_, str> {
    std::str::from_utf8(name).map_or_else(|_| String::from_utf8_lossy(name), Cow::from)
}
