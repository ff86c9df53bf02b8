//! What a group of rows is made of. Invariant: the words of one place are of one kind.

use crate::mooncake::Entry;

/// What a word is where Mooncake takes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WordKind {
    /// A flag of a program's command line.
    Flag,
    /// A key of a file or dict.
    Key,
    /// A keyword of a Python call, or an attribute of an object that a call takes.
    Keyword,
    /// A query parameter, or a field of a JSON request.
    Parameter,
}

/// The words of one place.
pub(super) struct Vocabulary {
    pub(super) kind: WordKind,
    pub(super) taken_by: &'static str,
    pub(super) entries: &'static [Entry],
}
