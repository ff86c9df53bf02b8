//! The blocking client: one method per call, on pooled connections, from any thread.

use crate::address::MasterAddress;
use crate::breaker::Breaker;
use crate::connection::Connection;
use crate::error::CallError;
use crate::limits::{CALL_DEADLINE, IDLE_CONNECTIONS_MAX, LEAVE_DEADLINE, PING_DEADLINE};
use crate::reply::{Counted, Located, SegmentUse, Started, codes, counted, segment_uses, statuses};
use crate::request::{Placement, SegmentOffer, mount, placement, strings};
use flatbuffers::FlatBufferBuilder;
use perigee_schemas::frame::Kind;
use perigee_schemas::message::decode;
use perigee_schemas::session::{Hello, Role};
use perigee_schemas::{Identity, Status, master};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How a client reaches its master.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientOptions {
    /// `host:port` of the master.
    pub address: String,
    /// What the caller is.
    pub role: Role,
    /// Random identity of the client.
    pub client: Identity,
    /// Longest a call may take.
    pub deadline: Duration,
}

impl ClientOptions {
    /// A client with the default deadline.
    pub fn new(address: &str, client: Identity) -> Self {
        Self {
            address: address.to_owned(),
            role: Role::Client,
            client,
            deadline: CALL_DEADLINE,
        }
    }
}

/// Answer to a heartbeat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pong {
    /// The master does not know this client: it must mount its segments again.
    pub must_mount: bool,
    /// The master's life; a new number is a restarted master.
    pub epoch: u64,
}

/// Calls to one master. Shared by all threads of a process.
#[derive(Debug)]
pub struct MasterClient {
    options: ClientOptions,
    address: MasterAddress,
    idle: Mutex<Vec<Connection>>,
    breaker: Breaker,
    epoch: AtomicU64,
}

type Builder = FlatBufferBuilder<'static>;

impl MasterClient {
    /// A client; connects with the first call.
    pub fn new(options: ClientOptions) -> Self {
        Self {
            address: MasterAddress::new(&options.address),
            options,
            idle: Mutex::default(),
            breaker: Breaker::default(),
            epoch: AtomicU64::new(0),
        }
    }

    /// Identity this client was made with.
    pub fn client(&self) -> Identity {
        self.options.client
    }

    /// The life of the master that answered last; 0 before the first call.
    pub fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Relaxed)
    }

    /// Whether each key can be read: 1, 0 or a negative code.
    ///
    /// # Errors
    /// No answer in time.
    pub fn exist<S: AsRef<str>>(&self, keys: &[S], single: bool) -> Result<Vec<i32>, CallError> {
        let encode = |builder: &mut Builder| {
            let keys = Some(strings(builder, keys));
            let root =
                master::ExistRequest::create(builder, &master::ExistRequestArgs { keys, single });
            builder.finish_minimal(root);
        };
        self.call(Kind::Exist, true, encode, |body| {
            codes(decode::<master::ExistReply<'_>>(body)?.status(), keys.len())
        })
    }

    /// Where each key can be read, under a lease unless `peek`.
    ///
    /// # Errors
    /// No answer in time.
    pub fn get_replicas<S: AsRef<str>>(
        &self,
        keys: &[S],
        single: bool,
        peek: bool,
    ) -> Result<Located, CallError> {
        let encode = |builder: &mut Builder| {
            let keys = Some(strings(builder, keys));
            let args = master::GetReplicasRequestArgs { keys, single, peek };
            let root = master::GetReplicasRequest::create(builder, &args);
            builder.finish_minimal(root);
        };
        self.call(Kind::GetReplicas, true, encode, |body| {
            Located::decode(body, keys.len())
        })
    }

    /// Reserves space for each key. `groups` is empty or has one entry per key.
    ///
    /// # Errors
    /// No answer in time; whether space was reserved is then unknown, and the master discards it later.
    pub fn put_start<S: AsRef<str>>(
        &self,
        keys: &[S],
        payload_bytes: &[u64],
        groups: &[&str],
        wanted: &Placement<'_>,
        upsert: bool,
    ) -> Result<Started, CallError> {
        let client = self.options.client;
        let encode = |builder: &mut Builder| {
            let key_strings = Some(strings(builder, keys));
            let payload_bytes = Some(builder.create_vector(payload_bytes));
            let group_ids = Some(strings(builder, groups));
            let placement = Some(placement(builder, wanted));
            let args = master::PutStartRequestArgs {
                client_high: client.high(),
                client_low: client.low(),
                keys: key_strings,
                payload_bytes,
                group_ids,
                placement,
                upsert,
                single: keys.len() == 1,
            };
            let root = master::PutStartRequest::create(builder, &args);
            builder.finish_minimal(root);
        };
        self.call(Kind::PutStart, false, encode, |body| {
            Started::decode(body, keys.len())
        })
    }

    /// Commits written keys with the CRC-32C of each. `generations` has that of the first location of each.
    ///
    /// # Errors
    /// No answer in time.
    pub fn put_end<S: AsRef<str>>(
        &self,
        keys: &[S],
        generations: &[u64],
        checksums: &[u32],
    ) -> Result<Vec<Status>, CallError> {
        let client = self.options.client;
        let encode = |builder: &mut Builder| {
            let key_strings = Some(strings(builder, keys));
            let checksum = Some(builder.create_vector(checksums));
            let generation = Some(builder.create_vector(generations));
            let args = master::PutEndRequestArgs {
                client_high: client.high(),
                client_low: client.low(),
                keys: key_strings,
                checksum,
                single: keys.len() == 1,
                generation,
            };
            let root = master::PutEndRequest::create(builder, &args);
            builder.finish_minimal(root);
        };
        self.call(Kind::PutEnd, true, encode, |body| {
            status_reply(body, keys.len())
        })
    }

    /// Gives up started puts, named as in `put_end`. With `in_flight`, bytes may still arrive at their places.
    ///
    /// # Errors
    /// No answer in time.
    pub fn put_revoke<S: AsRef<str>>(
        &self,
        keys: &[S],
        generations: &[u64],
        in_flight: bool,
    ) -> Result<Vec<Status>, CallError> {
        let client = self.options.client;
        let encode = |builder: &mut Builder| {
            let key_strings = Some(strings(builder, keys));
            let generation = Some(builder.create_vector(generations));
            let args = master::PutRevokeRequestArgs {
                client_high: client.high(),
                client_low: client.low(),
                keys: key_strings,
                single: keys.len() == 1,
                generation,
                in_flight,
            };
            let root = master::PutRevokeRequest::create(builder, &args);
            builder.finish_minimal(root);
        };
        self.call(Kind::PutRevoke, true, encode, |body| {
            status_reply(body, keys.len())
        })
    }

    /// Removes keys; `force` ignores leases.
    ///
    /// # Errors
    /// No answer in time.
    pub fn remove<S: AsRef<str>>(&self, keys: &[S], force: bool) -> Result<Vec<Status>, CallError> {
        let encode = |builder: &mut Builder| {
            let key_strings = Some(strings(builder, keys));
            let args = master::RemoveRequestArgs {
                keys: key_strings,
                force,
                single: keys.len() == 1,
            };
            let root = master::RemoveRequest::create(builder, &args);
            builder.finish_minimal(root);
        };
        self.call(Kind::Remove, false, encode, |body| {
            status_reply(body, keys.len())
        })
    }

    /// Removes the keys a regular expression finds; returns how many.
    ///
    /// # Errors
    /// No answer in time.
    pub fn remove_by_regex(&self, pattern: &str, force: bool) -> Result<Counted, CallError> {
        let encode = |builder: &mut Builder| {
            let pattern = Some(builder.create_string(pattern));
            let args = master::RemoveByRegexRequestArgs { pattern, force };
            let root = master::RemoveByRegexRequest::create(builder, &args);
            builder.finish_minimal(root);
        };
        self.call(Kind::RemoveByRegex, false, encode, counted)
    }

    /// Removes everything; returns how many objects.
    ///
    /// # Errors
    /// No answer in time.
    pub fn remove_all(&self, force: bool) -> Result<Counted, CallError> {
        let encode = |builder: &mut Builder| {
            let root =
                master::RemoveAllRequest::create(builder, &master::RemoveAllRequestArgs { force });
            builder.finish_minimal(root);
        };
        self.call(Kind::RemoveAll, false, encode, counted)
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
            let key_strings = Some(strings(builder, keys));
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
        self.call(Kind::ReplicaClear, false, encode, |body| {
            status_reply(body, keys.len())
        })
    }

    /// Mounts segments; one verdict per segment.
    ///
    /// # Errors
    /// No answer in time.
    pub fn mount(
        &self,
        segments: &[SegmentOffer],
        remount: bool,
    ) -> Result<Vec<Status>, CallError> {
        let client = self.options.client;
        let encode = |builder: &mut Builder| mount(builder, client, segments, remount);
        self.call(Kind::Mount, true, encode, |body| {
            status_reply(body, segments.len())
        })
    }

    /// Unmounts segments after `grace_ms`; one verdict per segment.
    ///
    /// # Errors
    /// No answer in time.
    pub fn unmount(&self, segments: &[Identity], grace_ms: u64) -> Result<Vec<Status>, CallError> {
        let client = self.options.client;
        let encode = |builder: &mut Builder| {
            let high: Vec<u64> = segments.iter().map(|id| id.high()).collect();
            let low: Vec<u64> = segments.iter().map(|id| id.low()).collect();
            let segment_high = Some(builder.create_vector(&high));
            let segment_low = Some(builder.create_vector(&low));
            let args = master::UnmountRequestArgs {
                client_high: client.high(),
                client_low: client.low(),
                segment_high,
                segment_low,
                grace_ms,
            };
            let root = master::UnmountRequest::create(builder, &args);
            builder.finish_minimal(root);
        };
        self.call(Kind::Unmount, true, encode, |body| {
            status_reply(body, segments.len())
        })
    }

    /// Heartbeat. Waits at most [`PING_DEADLINE`].
    ///
    /// # Errors
    /// No answer in time.
    pub fn ping(&self) -> Result<Pong, CallError> {
        let client = self.options.client;
        let encode = |builder: &mut Builder| {
            let args = master::PingRequestArgs {
                client_high: client.high(),
                client_low: client.low(),
            };
            let root = master::PingRequest::create(builder, &args);
            builder.finish_minimal(root);
        };
        self.call_within(PING_DEADLINE, Kind::Ping, true, encode, |body| {
            let reply = decode::<master::PingReply<'_>>(body)?;
            Ok(Pong {
                must_mount: reply.state() != 0,
                epoch: reply.epoch(),
            })
        })
    }

    /// Says goodbye: the master unmounts everything of this client at once. Waits at most
    /// [`LEAVE_DEADLINE`]: a master that does not hear it notices the silence.
    ///
    /// # Errors
    /// No answer in time.
    pub fn leave(&self) -> Result<(), CallError> {
        let client = self.options.client;
        let encode = |builder: &mut Builder| {
            let args = master::LeaveRequestArgs {
                client_high: client.high(),
                client_low: client.low(),
            };
            let root = master::LeaveRequest::create(builder, &args);
            builder.finish_minimal(root);
        };
        self.call_within(LEAVE_DEADLINE, Kind::Leave, true, encode, |_| Ok(()))
    }

    /// Segments by name, or all of them.
    ///
    /// # Errors
    /// No answer in time.
    pub fn segments(&self, names: &[&str]) -> Result<Vec<SegmentUse>, CallError> {
        let encode = |builder: &mut Builder| {
            let names = Some(strings(builder, names));
            let root = master::QuerySegmentsRequest::create(
                builder,
                &master::QuerySegmentsRequestArgs { names },
            );
            builder.finish_minimal(root);
        };
        self.call(Kind::QuerySegments, true, encode, segment_uses)
    }

    /// Closes idle connections.
    pub fn close(&self) {
        self.idle
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
            .clear();
    }

    fn call<T>(
        &self,
        kind: Kind,
        repeatable: bool,
        encode: impl Fn(&mut Builder),
        decode: impl Fn(&[u8]) -> Result<T, CallError>,
    ) -> Result<T, CallError> {
        self.call_within(self.options.deadline, kind, repeatable, encode, decode)
    }

    /// One exchange. A pooled connection may have died while idle; then a call that can be repeated is tried once more.
    fn call_within<T>(
        &self,
        limit: Duration,
        kind: Kind,
        repeatable: bool,
        encode: impl Fn(&mut Builder),
        decode: impl Fn(&[u8]) -> Result<T, CallError>,
    ) -> Result<T, CallError> {
        let limit = limit.min(self.options.deadline);
        let deadline = Instant::now() + limit;
        let attempt = |mut connection: Connection| -> Result<T, CallError> {
            encode(&mut connection.builder);
            let answer = decode(connection.exchange(kind, deadline)?)?;
            self.keep(connection);
            Ok(answer)
        };
        let fresh = || self.connect(deadline).and_then(attempt);
        let outcome = match self.pooled() {
            None => fresh(),
            Some(connection) if connection.is_usable() => match attempt(connection) {
                Err(error) if repeatable && error.is_stale_connection() => fresh(),
                other => other,
            },
            Some(_) => {
                self.close();
                fresh()
            }
        };
        if let Err(CallError::Deadline(_)) = outcome {
            self.breaker.trip();
            // Idle connections lead to the same silent master: each would cost another deadline.
            self.close();
            return Err(CallError::Deadline(limit));
        }
        outcome
    }

    fn pooled(&self) -> Option<Connection> {
        self.idle
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
            .pop()
    }

    fn keep(&self, mut connection: Connection) {
        self.epoch.store(connection.epoch(), Ordering::Relaxed);
        connection.rest();
        let mut idle = self
            .idle
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        if idle.len() < IDLE_CONNECTIONS_MAX {
            idle.push(connection);
        }
    }

    fn connect(&self, deadline: Instant) -> Result<Connection, CallError> {
        if self.breaker.is_open() {
            return Err(CallError::Broken {
                address: self.options.address.clone(),
            });
        }
        let hello = Hello::new(self.options.role, self.options.client);
        let opened = self.address.open(&hello, deadline);
        if let Err(CallError::Unreachable { source, .. }) = &opened
            && source.kind() == std::io::ErrorKind::TimedOut
        {
            self.breaker.trip();
        }
        opened
    }
}

fn status_reply(body: &[u8], wanted: usize) -> Result<Vec<Status>, CallError> {
    statuses(decode::<master::StatusReply<'_>>(body)?.status(), wanted)
}
