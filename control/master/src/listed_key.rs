//! What a listing shows of an object.

use crate::key_event::Media;

/// A readable key that a listing met.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ListedKey<'a> {
    /// The key.
    pub key: &'a [u8],
    /// Length of the value in bytes.
    pub payload_bytes: u64,
    /// The group of the object, if it has one.
    pub group: Option<&'a str>,
    /// What the value lies on.
    pub media: Media,
}
