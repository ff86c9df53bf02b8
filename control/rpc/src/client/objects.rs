//! Calls about objects: existence, places, the two phases of a put, removal.
//! Invariant: keys and groups are sent with the tenant in front, and a call that changes something
//! is repeated only if doing it twice does no harm.

use super::{Builder, MasterClient, status_reply};
use crate::connection::{CallWindow, MasterConnection};
use crate::error::CallError;
use crate::reply::{Counted, KeyPage, LocatedBatch, StartedBatch, codes, counted, key_page};
use crate::request::{WirePlacement, WriteForm, placement, stored, stored_groups, tenant};
use flatbuffers::{Vector, WIPOffset};
use perigee_schemas::frame::MessageKind;
use perigee_schemas::master::UnreadableCopy;
use perigee_schemas::message::decode;
use perigee_schemas::{Status, master};

type ByteColumn = WIPOffset<Vector<'static, u8>>;
type CopyColumn = WIPOffset<Vector<'static, UnreadableCopy>>;
type SumColumn = WIPOffset<Vector<'static, u32>>;

/// A lookup that was sent and whose answer has not been taken yet.
#[derive(Debug)]
pub struct AskedReplicas {
    connection: MasterConnection,
    keys: usize,
}

/// Why replicas are looked up, which decides what the master does to the key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LookupPurpose {
    /// The bytes are read next: a read lease, which the reader gives back.
    Read,
    /// The caller asks where they lie: touched as by `exist`, no read lease.
    Probe,
    /// An operator looks: nothing changes.
    Peek,
}

impl MasterClient {
    /// Whether each key can be read: 1, 0 or a negative code.
    ///
    /// # Errors
    /// No answer in time.
    pub fn exist<S: AsRef<str>>(&self, keys: &[S], single: bool) -> Result<Vec<i32>, CallError> {
        let encode = |builder: &mut Builder| {
            let keys = Some(stored(builder, &self.options.tenant, keys));
            let root =
                master::ExistRequest::create(builder, &master::ExistRequestArgs { keys, single });
            builder.finish_minimal(root);
        };
        self.call(MessageKind::Exist, true, encode, |body| {
            codes(decode::<master::ExistReply<'_>>(body)?.status(), keys.len())
        })
    }

    /// Where each key can be read, and what this does to it.
    ///
    /// # Errors
    /// No answer in time.
    pub fn get_replicas<S: AsRef<str>>(
        &self,
        keys: &[S],
        single: bool,
        purpose: LookupPurpose,
    ) -> Result<LocatedBatch, CallError> {
        let encode =
            |builder: &mut Builder| self.encode_lookup(builder, keys, &[], (single, purpose));
        self.call(MessageKind::GetReplicas, true, encode, |body| {
            LocatedBatch::decode(body, keys.len())
        })
    }

    /// Where each key can be read after a read of it has failed. The master forgets the copies that
    /// were unreadable, one or none per key, if it still has them as they are named; an older one
    /// leaves them.
    ///
    /// # Errors
    /// No answer in time.
    pub fn get_replicas_again<S: AsRef<str>>(
        &self,
        keys: &[S],
        unreadable: &[Option<UnreadableCopy>],
    ) -> Result<LocatedBatch, CallError> {
        let how = (keys.len() == 1, LookupPurpose::Read);
        let encode = |builder: &mut Builder| self.encode_lookup(builder, keys, unreadable, how);
        self.call(MessageKind::GetReplicas, true, encode, |body| {
            LocatedBatch::decode(body, keys.len())
        })
    }

    /// Sends the request of [`MasterClient::get_replicas`] without waiting, so that the caller can
    /// work until the answer is there. Nothing if no connection is at hand; the plain call opens
    /// one.
    pub fn ask_replicas<S: AsRef<str>>(&self, keys: &[S]) -> Option<AskedReplicas> {
        let mut connection = self.pooled().filter(MasterConnection::is_usable)?;
        let how = (false, LookupPurpose::Read);
        self.encode_lookup(&mut connection.builder, keys, &[], how);
        let bounds = CallWindow::of(self.deadline());
        connection.ask(MessageKind::GetReplicas, &self.returns, bounds).ok()?;
        let keys = keys.len();
        Some(AskedReplicas { connection, keys })
    }

    /// Takes the answer to [`MasterClient::ask_replicas`].
    ///
    /// # Errors
    /// No answer in time, counted from now.
    pub fn take_replicas(&self, asked: AskedReplicas) -> Result<LocatedBatch, CallError> {
        let AskedReplicas { connection, keys } = asked;
        let decode = |body: &[u8]| LocatedBatch::decode(body, keys);
        self.settle(self.deadline(), |bounds| self.finish(connection, bounds, decode))
    }

    /// Reserves space for each key. `groups` is empty or has one entry per key.
    ///
    /// # Errors
    /// No answer in time; whether space was reserved is then unknown, and the master discards it
    /// later.
    pub fn put_start<S: AsRef<str>>(
        &self,
        keys: &[S],
        payload_bytes: &[u64],
        groups: &[&str],
        wanted: &WirePlacement<'_>,
        form: WriteForm,
    ) -> Result<StartedBatch, CallError> {
        let client = self.options.client;
        let encode = |builder: &mut Builder| {
            let key_strings = Some(stored(builder, &self.options.tenant, keys));
            let payload_bytes = Some(builder.create_vector(payload_bytes));
            let group_ids = Some(stored_groups(builder, &self.options.tenant, groups));
            let placement = Some(placement(builder, wanted));
            let args = master::PutStartRequestArgs {
                client_high: client.high(),
                client_low: client.low(),
                keys: key_strings,
                payload_bytes,
                group_ids,
                placement,
                upsert: form.upsert,
                single: form.single,
                parts: wanted.parts,
            };
            let root = master::PutStartRequest::create(builder, &args);
            builder.finish_minimal(root);
        };
        self.call(MessageKind::PutStart, false, encode, |body| {
            StartedBatch::decode(body, keys.len())
        })
    }

    /// Commits written keys with the CRC-32C of each. `generations` has that of the first location
    /// of each; `parts` is empty, or has the CRC-32C of each part of each key.
    ///
    /// # Errors
    /// No answer in time.
    pub fn put_end<S: AsRef<str>>(
        &self,
        keys: &[S],
        generations: &[u64],
        checksums: &[u32],
        parts: &[Vec<u32>],
        form: WriteForm,
    ) -> Result<Vec<Status>, CallError> {
        debug_assert!(parts.is_empty() || parts.len() == keys.len(), "one per key, or none");
        let client = self.options.client;
        let encode = |builder: &mut Builder| {
            let key_strings = Some(stored(builder, &self.options.tenant, keys));
            let checksum = Some(builder.create_vector(checksums));
            let generation = Some(builder.create_vector(generations));
            let (part_count, part_checksum) = part_columns(builder, parts).unzip();
            let args = master::PutEndRequestArgs {
                client_high: client.high(),
                client_low: client.low(),
                keys: key_strings,
                checksum,
                single: form.single,
                generation,
                upsert: form.upsert,
                part_count,
                part_checksum,
            };
            let root = master::PutEndRequest::create(builder, &args);
            builder.finish_minimal(root);
        };
        self.call(MessageKind::PutEnd, true, encode, |body| status_reply(body, keys.len()))
    }

    /// Gives up started puts, named as in `put_end`. With `in_flight`, bytes may still arrive at
    /// their places.
    ///
    /// # Errors
    /// No answer in time.
    pub fn put_revoke<S: AsRef<str>>(
        &self,
        keys: &[S],
        generations: &[u64],
        in_flight: bool,
        form: WriteForm,
    ) -> Result<Vec<Status>, CallError> {
        let client = self.options.client;
        let encode = |builder: &mut Builder| {
            let key_strings = Some(stored(builder, &self.options.tenant, keys));
            let generation = Some(builder.create_vector(generations));
            let args = master::PutRevokeRequestArgs {
                client_high: client.high(),
                client_low: client.low(),
                keys: key_strings,
                single: form.single,
                generation,
                in_flight,
                upsert: form.upsert,
            };
            let root = master::PutRevokeRequest::create(builder, &args);
            builder.finish_minimal(root);
        };
        self.call(MessageKind::PutRevoke, true, encode, |body| status_reply(body, keys.len()))
    }

    /// Removes keys; `force` ignores leases.
    ///
    /// # Errors
    /// No answer in time.
    pub fn remove<S: AsRef<str>>(&self, keys: &[S], force: bool) -> Result<Vec<Status>, CallError> {
        let encode = |builder: &mut Builder| {
            let key_strings = Some(stored(builder, &self.options.tenant, keys));
            let args =
                master::RemoveRequestArgs { keys: key_strings, force, single: keys.len() == 1 };
            let root = master::RemoveRequest::create(builder, &args);
            builder.finish_minimal(root);
        };
        self.call(MessageKind::Remove, false, encode, |body| status_reply(body, keys.len()))
    }

    /// Removes the tenant's keys in which a regular expression is found; returns how many.
    ///
    /// # Errors
    /// No answer in time.
    pub fn remove_by_regex(&self, pattern: &str, force: bool) -> Result<Counted, CallError> {
        let encode = |builder: &mut Builder| {
            let pattern = Some(builder.create_string(pattern));
            let tenant = tenant(builder, &self.options.tenant);
            let args = master::RemoveByRegexRequestArgs { pattern, force, tenant };
            let root = master::RemoveByRegexRequest::create(builder, &args);
            builder.finish_minimal(root);
        };
        self.call(MessageKind::RemoveByRegex, false, encode, counted)
    }

    /// A page of the tenant's keys in which a regular expression is found, at most `limit` of them,
    /// in no order.
    ///
    /// # Errors
    /// No answer in time.
    pub fn list_by_regex(
        &self,
        pattern: &str,
        limit: u32,
        from: Option<[u64; 3]>,
    ) -> Result<Result<KeyPage, Status>, CallError> {
        let encode = |builder: &mut Builder| {
            let pattern = Some(builder.create_string(pattern));
            let tenant = tenant(builder, &self.options.tenant);
            let cursor = from.map(|numbers| builder.create_vector(&numbers));
            let args = master::ListByRegexRequestArgs { pattern, limit, cursor, tenant };
            let root = master::ListByRegexRequest::create(builder, &args);
            builder.finish_minimal(root);
        };
        self.call(MessageKind::ListByRegex, true, encode, key_page)
    }

    /// Removes all keys of the tenant; returns how many objects.
    ///
    /// # Errors
    /// No answer in time.
    pub fn remove_all(&self, force: bool) -> Result<Counted, CallError> {
        let encode = |builder: &mut Builder| {
            let tenant = tenant(builder, &self.options.tenant);
            let args = master::RemoveAllRequestArgs { force, tenant };
            let root = master::RemoveAllRequest::create(builder, &args);
            builder.finish_minimal(root);
        };
        self.call(MessageKind::RemoveAll, false, encode, counted)
    }

    /// Drops the replicas of keys that lie on a segment (all segments if the name is empty).
    ///
    /// # Errors
    /// No answer in time.
    pub fn replica_clear<S: AsRef<str>>(
        &self,
        keys: &[S],
        segment_name: &str,
    ) -> Result<Vec<Status>, CallError> {
        let client = self.options.client;
        let encode = |builder: &mut Builder| {
            let key_strings = Some(stored(builder, &self.options.tenant, keys));
            let segment_name = Some(builder.create_string(segment_name));
            let args = master::ReplicaClearRequestArgs {
                client_high: client.high(),
                client_low: client.low(),
                keys: key_strings,
                segment_name,
            };
            let root = master::ReplicaClearRequest::create(builder, &args);
            builder.finish_minimal(root);
        };
        self.call(MessageKind::ReplicaClear, false, encode, |body| status_reply(body, keys.len()))
    }

    fn encode_lookup<S: AsRef<str>>(
        &self,
        builder: &mut Builder,
        keys: &[S],
        unreadable: &[Option<UnreadableCopy>],
        (single, purpose): (bool, LookupPurpose),
    ) {
        let keys = Some(stored(builder, &self.options.tenant, keys));
        let peek = purpose == LookupPurpose::Peek;
        let probe = purpose == LookupPurpose::Probe;
        let unreadable = unreadable_column(builder, unreadable);
        let args =
            master::GetReplicasRequestArgs { keys, single, peek, probe, parts: true, unreadable };
        let root = master::GetReplicasRequest::create(builder, &args);
        builder.finish_minimal(root);
    }
}

/// The unreadable copy of each key; nothing if no key has any.
fn unreadable_column(
    builder: &mut Builder,
    copies: &[Option<UnreadableCopy>],
) -> Option<CopyColumn> {
    let is_named = copies.iter().any(Option::is_some);
    let column: Vec<_> = copies.iter().map(|copy| copy.unwrap_or_default()).collect();
    is_named.then(|| builder.create_vector(&column))
}

/// How many parts each key has, and the checksums of all of them; nothing if no key has any.
fn part_columns(builder: &mut Builder, parts: &[Vec<u32>]) -> Option<(ByteColumn, SumColumn)> {
    if parts.is_empty() {
        return None;
    }
    let counts: Vec<u8> = parts.iter().map(|parts| parts.len() as u8).collect();
    let checksums = parts.concat();
    Some((builder.create_vector(&counts), builder.create_vector(&checksums)))
}
