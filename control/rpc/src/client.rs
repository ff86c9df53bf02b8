//! The blocking client: one method per call, on pooled connections, from any thread.
//! Invariant: a connection returns to the pool only after its answer was taken whole.

pub(crate) mod addresses;
pub(crate) mod disks;
pub(crate) mod membership;
pub(crate) mod moves;
pub(crate) mod objects;
pub(crate) mod tasks;

use crate::address::MasterAddress;
use crate::breaker::Breaker;
use crate::connection::{CallWindow, MasterConnection};
use crate::error::CallError;
use crate::limits::{CALL_DEADLINE, CONNECT_DEADLINE, IDLE_CONNECTIONS_MAX};
use crate::reply::statuses;
use crate::returns::{Lease, Returns};
use flatbuffers::FlatBufferBuilder;
use perigee_activity::{SpanKind, add_span};
use perigee_schemas::frame::MessageKind;
use perigee_schemas::limits::TENANTS_PROTOCOL;
use perigee_schemas::message::decode;
use perigee_schemas::session::{Hello, Role};
use perigee_schemas::{Identity, Status, TenantId, master};
use perigee_shard::monotonic;
use std::net::SocketAddr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU16, AtomicU64, Ordering};
use std::time::Duration;

/// How a client reaches its master.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientOptions {
    /// `host:port` of the master.
    pub address: String,
    /// Role of the caller: client, node or tool.
    pub role: Role,
    /// Random identity of the client.
    pub client: Identity,
    /// Whose keys it means.
    pub tenant: TenantId,
    /// Longest a call may take.
    pub deadline: Duration,
    /// Longest a connection may take to open, within the deadline of the call.
    pub connect_deadline: Duration,
}

impl ClientOptions {
    /// A client with the default deadlines.
    pub fn new(address: &str, client: Identity) -> Self {
        Self {
            address: address.to_owned(),
            role: Role::Client,
            client,
            tenant: TenantId::default(),
            deadline: CALL_DEADLINE,
            connect_deadline: CONNECT_DEADLINE,
        }
    }
}

/// Calls to one master. Shared by all threads of a process.
#[derive(Debug)]
pub struct MasterClient {
    options: ClientOptions,
    address: MasterAddress,
    idle: Mutex<Vec<MasterConnection>>,
    breaker: Breaker,
    epoch: AtomicU64,
    protocol: AtomicU16,
    returns: Returns,
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
            protocol: AtomicU16::new(0),
            returns: Returns::default(),
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

    /// Addresses of the master, the one that answered last first; none if its name has none now.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.address.all()
    }

    /// The protocol spoken with the master that answered last; 0 before the first call.
    fn protocol(&self) -> u16 {
        self.protocol.load(Ordering::Relaxed)
    }

    /// Gives a read lease back with the next call, which may be the next heartbeat. Its reader must
    /// not read under it any more, and a lease is given back once.
    pub fn give_back(&self, lease: Lease) {
        self.returns.add(lease);
    }

    /// Whose keys it means.
    pub fn tenant(&self) -> &TenantId {
        &self.options.tenant
    }

    fn deadline(&self) -> Duration {
        self.options.deadline
    }

    /// Closes idle connections.
    pub fn close(&self) {
        self.idle.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clear();
    }

    fn call<T>(
        &self,
        kind: MessageKind,
        repeatable: bool,
        encode: impl Fn(&mut Builder),
        decode: impl Fn(&[u8]) -> Result<T, CallError>,
    ) -> Result<T, CallError> {
        self.call_within(self.options.deadline, kind, repeatable, encode, decode)
    }

    /// One exchange. A pooled connection may have died while idle; then a call that can be repeated
    /// is tried once more.
    fn call_within<T>(
        &self,
        limit: Duration,
        kind: MessageKind,
        repeatable: bool,
        encode: impl Fn(&mut Builder),
        decode: impl Fn(&[u8]) -> Result<T, CallError>,
    ) -> Result<T, CallError> {
        self.settle(limit.min(self.options.deadline), |bounds| {
            let attempt = |mut connection: MasterConnection| -> Result<T, CallError> {
                encode(&mut connection.builder);
                connection.ask(kind, &self.returns, bounds)?;
                self.finish(connection, bounds, &decode)
            };
            let fresh = || self.connect(bounds).and_then(attempt);
            match self.pooled() {
                None => fresh(),
                Some(connection) if connection.is_usable() => match attempt(connection) {
                    Err(error) if repeatable && error.is_stale_connection() => fresh(),
                    other => other,
                },
                Some(_) => {
                    self.close();
                    fresh()
                }
            }
        })
    }

    /// Takes the answer off a connection and keeps the connection.
    fn finish<T>(
        &self,
        mut connection: MasterConnection,
        bounds: CallWindow,
        decode: impl Fn(&[u8]) -> Result<T, CallError>,
    ) -> Result<T, CallError> {
        let answer = decode(connection.answer(bounds)?)?;
        self.keep(connection);
        Ok(answer)
    }

    /// Does something within `limit`; a master that is silent for that long is left alone for a
    /// while.
    fn settle<T>(
        &self,
        limit: Duration,
        call: impl FnOnce(CallWindow) -> Result<T, CallError>,
    ) -> Result<T, CallError> {
        let outcome = call(CallWindow::of(limit));
        if let Err(CallError::Deadline(_)) = outcome {
            self.breaker.trip();
            // Idle connections lead to the same silent master: each would cost another deadline.
            self.close();
            return Err(CallError::Deadline(limit));
        }
        outcome
    }

    fn pooled(&self) -> Option<MasterConnection> {
        self.idle.lock().unwrap_or_else(std::sync::PoisonError::into_inner).pop()
    }

    fn keep(&self, mut connection: MasterConnection) {
        self.epoch.store(connection.epoch(), Ordering::Relaxed);
        self.protocol.store(connection.protocol(), Ordering::Relaxed);
        connection.rest();
        let mut idle = self.idle.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if idle.len() < IDLE_CONNECTIONS_MAX {
            idle.push(connection);
        }
    }

    fn connect(&self, bounds: CallWindow) -> Result<MasterConnection, CallError> {
        if self.breaker.is_open() {
            return Err(CallError::Broken { address: self.options.address.clone() });
        }
        let mut hello = Hello::new(self.options.role, self.options.client);
        hello.met = self.epoch();
        if !self.options.tenant.is_default() {
            // An older master would let a tenant remove the keys of all.
            hello.protocol_min = hello.protocol_min.max(TENANTS_PROTOCOL);
        }
        let opened = self.address.open(&hello, (self.options.connect_deadline, bounds.deadline));
        if let Err(error) = &opened {
            add_span(SpanKind::Master, ("", &self.options.address), |span| {
                (span.detail, span.status) = (MessageKind::Hello as u16, error.status().code());
                let now = monotonic();
                (now, now.saturating_sub(bounds.begun))
            });
        }
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
