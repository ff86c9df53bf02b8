//! From checked arguments to calls of the store and back to codes, without the interpreter.
//! Invariant: results come one per key in the order of the keys, whatever was wrong with some of
//! them.

use crate::arguments::count_or_code;
use crate::replicate_config::OwnedConfig;
use crate::session::StoreSession;
use perigee_schemas::Status;
use perigee_store::Lookup;
use perigee_store::api::{CallerRange, GetRequest, PutRequest, WriteForm};
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
    let groups = match placement.groups(keys.len()) {
        Ok(groups) if keys.len() == objects.len() => groups,
        _ => return vec![Status::InvalidParams.code(); keys.len()],
    };
    let mut codes = vec![Status::Ok.code(); keys.len()];
    let mut positions = Vec::with_capacity(keys.len());
    let mut requests = Vec::with_capacity(keys.len());
    for (index, ((&key, object), group)) in keys.iter().zip(objects).zip(groups).enumerate() {
        match object {
            Ok(pieces) => {
                positions.push(index);
                requests.push(PutRequest { key, pieces: pieces.as_ref(), group });
            }
            Err(status) => codes[index] = status.code(),
        }
    }
    if !requests.is_empty() {
        let statuses = session.store().write(&requests, &placement.config, form);
        for (position, status) in positions.into_iter().zip(statuses) {
            codes[position] = status.code();
        }
    }
    codes
}

/// Reads one object per key; bytes read or a negative code.
pub(crate) fn get<P: AsRef<[CallerRange]>>(
    session: &StoreSession,
    keys: &[&str],
    objects: &[Result<P, Status>],
) -> Vec<i64> {
    if keys.len() != objects.len() {
        return vec![i64::from(Status::InvalidParams.code()); keys.len()];
    }
    let mut results = vec![0; keys.len()];
    let mut positions = Vec::with_capacity(keys.len());
    let mut requests = Vec::with_capacity(keys.len());
    for (index, (&key, object)) in keys.iter().zip(objects).enumerate() {
        match object {
            Ok(pieces) => {
                positions.push(index);
                requests.push(GetRequest { key, pieces: pieces.as_ref() });
            }
            Err(status) => results[index] = i64::from(status.code()),
        }
    }
    if !requests.is_empty() {
        let read = session.store().get(&requests);
        for (position, result) in positions.into_iter().zip(read) {
            results[position] = count_or_code(result);
        }
    }
    results
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

/// 1, 0 or a negative code per key.
pub(crate) fn exist(session: &StoreSession, keys: &[&str]) -> Vec<i32> {
    let exist = session.store().exist(keys).into_iter();
    exist.map(|result| result.map_or_else(Status::code, i32::from)).collect()
}
