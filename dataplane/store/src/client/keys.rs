//! Calls about keys that move no bytes. Invariant: a batch of any length is cut into calls of
//! bounded size, and a call that fails is the verdict on its own keys only.

use crate::api::ReplicaInfo;
use crate::calls::{ask_sendable, check_key, in_calls};
use crate::client::{Store, kind_of, refused};
use crate::lookup::Lookup;
use crate::traced_call::{TracedCall, verdict_on};
use perigee_activity::Operation;
use perigee_metrics::RpcKind;
use perigee_rpc::{AskedReplicas, CallError, LocatedBatch, LookupPurpose, MasterClient};
use perigee_schemas::Status;
use perigee_schemas::master::UnreadableCopy;
use perigee_transfer::ReplicaAddress;
use std::collections::HashMap;

impl Store {
    /// Whether each key of a batch can be read.
    pub fn exist(&self, keys: &[&str]) -> Vec<Result<bool, Status>> {
        self.ask_exist(keys, false)
    }

    /// Whether a key can be read.
    ///
    /// # Errors
    /// The store is closed, the key is not allowed, or the master does not answer.
    pub fn exists(&self, key: &str) -> Result<bool, Status> {
        let answer = self.ask_exist(&[key], true).pop();
        answer.unwrap_or(Err(Status::InternalError))
    }

    fn ask_exist(&self, keys: &[&str], single: bool) -> Vec<Result<bool, Status>> {
        let answer = |code: i32| match code {
            0 => Ok(false),
            code if code > 0 => Ok(true),
            code => Err(Status::from_peer(code)),
        };
        let kind = if single { RpcKind::ExistKey } else { RpcKind::BatchExistKey };
        let ask = |chunk: &[&str]| self.timed(kind, |master| master.exist(chunk, single));
        let traced = TracedCall::begin(Operation::Exist);
        let found = self.in_chunks(keys, ask, Status::code).into_iter().map(answer);
        let found: Vec<Result<bool, Status>> = found.collect();
        traced.end(&self.cells, keys.first().copied(), found.iter().map(verdict_on), 0);
        found
    }

    /// Payload bytes of each key.
    pub fn size(&self, keys: &[&str]) -> Vec<Result<u64, Status>> {
        let lookup = self.locate(keys);
        (0..keys.len()).map(|index| lookup.object(index)).collect()
    }

    /// Looks keys up and takes a read lease on each, which is given back with the lookup.
    pub fn locate(&self, keys: &[&str]) -> Lookup {
        self.look_up(keys, LookupPurpose::Read)
    }

    /// Looks keys up without a lease, so that their space is free as soon as they are removed. What
    /// goes while it is read is noticed and looked up again.
    pub fn peek(&self, keys: &[&str]) -> Lookup {
        self.look_up(keys, LookupPurpose::Peek)
    }

    /// Whether all replicas of a lookup lie on this host; false if there are none.
    pub fn is_near(&self, lookup: &Lookup) -> bool {
        let is_here = |place: &ReplicaAddress| place.segment.host_id == self.host_id;
        lookup.places().next().is_some() && lookup.places().all(is_here)
    }

    /// Asks about keys and lets the caller work until the answer is taken with
    /// [`Store::take_looked_up`]. Nothing if the keys need more than one call, one may not be sent,
    /// or no connection is at hand.
    pub(crate) fn look_up_ahead(&self, keys: &[&str]) -> Option<AskedReplicas> {
        let is_one_call = in_calls(keys, |key| key.len()).nth(1).is_none();
        if !is_one_call || keys.iter().any(|key| check_key(key).is_err()) {
            return None;
        }
        self.master.ask_replicas(keys)
    }

    /// The answer to [`Store::look_up_ahead`]; a lost one is asked for again.
    pub(crate) fn take_looked_up(&self, keys: &[&str], asked: AskedReplicas) -> Lookup {
        let kind = kind_of(RpcKind::GetReplicaList, keys.len());
        match self.timed(kind, |master| master.take_replicas(asked)) {
            Ok(located) => {
                let mut lookup = Lookup::default();
                lookup.append(keys, &located, &self.addresses, &self.master);
                lookup
            }
            Err(error) => {
                tracing::debug!(%error, "A lookup was lost");
                self.look_up(keys, LookupPurpose::Read)
            }
        }
    }

    pub(crate) fn look_up(&self, keys: &[&str], purpose: LookupPurpose) -> Lookup {
        self.look_up_with(keys, |master, chunk| {
            master.get_replicas(chunk, keys.len() == 1, purpose)
        })
    }

    /// Looks keys up after reads have failed, so that the master forgets the copies that could not
    /// be read.
    pub(crate) fn look_up_again(&self, failed: &[(&str, Option<UnreadableCopy>)]) -> Lookup {
        let keys: Vec<&str> = failed.iter().map(|(key, _)| *key).collect();
        let copies = failed.iter().filter_map(|(key, copy)| Some((*key, (*copy)?)));
        let copies: HashMap<&str, UnreadableCopy> = copies.collect();
        self.look_up_with(&keys, |master, chunk| {
            let unreadable: Vec<_> = chunk.iter().map(|key| copies.get(key).copied()).collect();
            master.get_replicas_again(chunk, &unreadable)
        })
    }

    fn look_up_with(
        &self,
        keys: &[&str],
        ask: impl Fn(&MasterClient, &[&str]) -> Result<LocatedBatch, CallError>,
    ) -> Lookup {
        if !self.is_open() {
            return Lookup::failed(keys.len(), Status::InvalidParams);
        }
        let traced = TracedCall::begin(Operation::Locate);
        let ask = |sent: &[&str]| {
            let mut lookup = Lookup::default();
            for chunk in in_calls(sent, |key| key.len()) {
                let kind = kind_of(RpcKind::GetReplicaList, keys.len());
                match self.timed(kind, |master| ask(master, chunk)) {
                    Ok(located) => {
                        lookup.append(chunk, &located, &self.addresses, &self.master);
                    }
                    Err(error) => lookup.append_failure(chunk.len(), refused(&error)),
                }
            }
            lookup.objects
        };
        let objects = ask_sendable(keys, ask, Err);
        debug_assert_eq!(objects.len(), keys.len(), "one answer per key");
        traced.end(&self.cells, keys.first().copied(), objects.iter().map(verdict_on), 0);
        Lookup { objects }
    }

    /// Where the replicas of each key lie. Nothing is read, so no lease keeps them from eviction.
    pub fn replicas(&self, keys: &[&str]) -> Vec<Result<Vec<ReplicaInfo>, Status>> {
        if !self.is_open() {
            return vec![Err(Status::InvalidParams); keys.len()];
        }
        let ask = |sent: &[&str]| {
            let mut all = Vec::with_capacity(sent.len());
            for chunk in in_calls(sent, |key| key.len()) {
                let purpose = LookupPurpose::Probe;
                match self.master.get_replicas(chunk, keys.len() == 1, purpose) {
                    Ok(located) => all
                        .extend((0..chunk.len()).map(|index| descriptors(&located.places, index))),
                    Err(error) => all.extend(chunk.iter().map(|_| Err(refused(&error)))),
                }
            }
            all
        };
        ask_sendable(keys, ask, Err)
    }

    /// Removes keys; with `force` also those under a lease.
    pub fn remove(&self, keys: &[&str], force: bool) -> Vec<Status> {
        let traced = TracedCall::begin(Operation::Remove);
        let removed =
            self.in_chunks(keys, |chunk| self.master.remove(chunk, force), |status| status);
        traced.end(&self.cells, keys.first().copied(), removed.iter().copied(), 0);
        removed
    }

    /// Removes the keys in which a regular expression is found; returns how many.
    ///
    /// # Errors
    /// The pattern is not a regular expression, or the master did not answer.
    pub fn remove_by_regex(&self, pattern: &str, force: bool) -> Result<u64, Status> {
        self.while_open()?;
        self.master.remove_by_regex(pattern, force).map_err(|error| refused(&error))?
    }

    /// Keys in which a regular expression is found, at most `limit` of them, in no order. What is
    /// put or removed during the call may be among them or not.
    ///
    /// # Errors
    /// The pattern is not a regular expression, others list too many keys at this moment, or the
    /// master did not answer.
    pub fn keys_by_regex(&self, pattern: &str, limit: usize) -> Result<Vec<String>, Status> {
        self.while_open()?;
        let (mut keys, mut from) = (Vec::new(), None);
        while keys.len() < limit {
            let left = u32::try_from(limit - keys.len()).unwrap_or(u32::MAX);
            let page = self.master.list_by_regex(pattern, left, from);
            let page = page.map_err(|error| refused(&error))??;
            keys.extend(page.keys);
            // A master that shows the same place twice is not asked for ever.
            if page.next.is_none() || page.next == from {
                break;
            }
            from = page.next;
        }
        Ok(keys)
    }

    /// Removes everything; returns how many objects.
    ///
    /// # Errors
    /// The master did not answer.
    pub fn remove_all(&self, force: bool) -> Result<u64, Status> {
        self.while_open()?;
        self.master.remove_all(force).map_err(|error| refused(&error))?
    }

    /// Drops the replicas of keys on one segment, or on all if the name is empty; returns the keys
    /// that were cleared.
    pub fn replica_clear(&self, keys: &[&str], segment_name: &str) -> Vec<String> {
        let ask = |chunk: &[&str]| self.master.replica_clear(chunk, segment_name);
        let statuses = self.in_chunks(keys, ask, |status| status);
        let cleared = keys.iter().zip(statuses).filter(|(_, status)| *status == Status::Ok);
        cleared.map(|(key, _)| (*key).to_owned()).collect()
    }

    /// Asks the master about keys in calls of bounded size; a failed call is the verdict on each of
    /// its keys.
    fn in_chunks<T>(
        &self,
        keys: &[&str],
        ask: impl Fn(&[&str]) -> Result<Vec<T>, CallError>,
        failed: impl Fn(Status) -> T,
    ) -> Vec<T> {
        let ask_all = |keys: &[&str]| {
            let mut all = Vec::with_capacity(keys.len());
            for chunk in in_calls(keys, |key| key.len()) {
                let answer =
                    self.while_open().and_then(|()| ask(chunk).map_err(|error| refused(&error)));
                match answer {
                    Ok(part) => {
                        debug_assert_eq!(part.len(), chunk.len(), "each call answers its own keys");
                        all.extend(part);
                    }
                    Err(status) => all.extend(chunk.iter().map(|_| failed(status))),
                }
            }
            all
        };
        ask_sendable(keys, ask_all, &failed)
    }
}

fn descriptors(
    places: &perigee_rpc::StartedBatch,
    index: usize,
) -> Result<Vec<ReplicaInfo>, Status> {
    places.status[index].ok()?;
    let describe = |location: &perigee_rpc::Location| {
        let segment = &places.segments[location.segment as usize];
        ReplicaInfo {
            status: location.status,
            bytes: location.payload_bytes,
            // Both are the master's words, and nothing is done with their sum here.
            address: segment.base.wrapping_add(location.offset),
            transport_endpoint: segment.name.clone(),
            protocol: segment.protocol.clone(),
            kind: segment.kind,
        }
    };
    Ok(places.locations_of(index).iter().map(describe).collect())
}
