//! From checked arguments to calls of the store, without the interpreter. Invariant: results come
//! one per key in the order of the keys, whatever was wrong with some of them.

use crate::replicate_config::OwnedConfig;
use crate::session::StoreSession;
use perigee_schemas::Status;
use perigee_store::Lookup;
use perigee_store::api::{CallerRange, WriteForm};
use std::slice;

/// What a put does when the key exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Write {
    /// Nothing: the old value stays and the call succeeds.
    Create,
    /// The new value takes its place.
    Replace,
}

impl Write {
    /// Of a call that takes one key.
    pub(crate) fn of_one(self) -> WriteForm {
        WriteForm { upsert: self == Self::Replace, single: true }
    }

    /// Of a call that takes a batch, which may be of one key.
    pub(crate) fn of_batch(self) -> WriteForm {
        WriteForm { single: false, ..self.of_one() }
    }
}

/// Stores one object per key; an object that is an error already keeps its own code.
pub(crate) fn put<P: AsRef<[CallerRange]>>(
    session: &StoreSession,
    keys: &[&str],
    objects: &[Result<P, Status>],
    placement: &OwnedConfig,
    form: WriteForm,
) -> Vec<i32> {
    match placement.groups(keys.len()) {
        Ok(groups) => session.store().write_codes(keys, objects, &groups, &placement.config, form),
        Err(status) => vec![status.code(); keys.len()],
    }
}

/// Reads located objects, each into one piece.
pub(crate) fn read_located(
    session: &StoreSession,
    lookup: &Lookup,
    targets: &[(usize, CallerRange)],
) -> Vec<Result<u64, Status>> {
    if targets.is_empty() {
        return Vec::new();
    }
    let targets: Vec<(usize, &[CallerRange])> =
        targets.iter().map(|(index, piece)| (*index, slice::from_ref(piece))).collect();
    session.store().read(lookup, &targets)
}
