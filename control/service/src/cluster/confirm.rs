//! Asking the owner of a new segment whether it is there. The greeting of a data port tells whose it is, so one greeting is
//! the whole question.
//! Invariant: an answer takes bounded time, and nobody but the client whose segment it is waits for it.

use super::control_shard::ControlShard;
use perigee_master::Registry;
use perigee_port::{FrameBudget, connect};
use perigee_schemas::Identity;
use perigee_schemas::limits::HELLO_BODY_BYTES_MAX;
use perigee_schemas::session::{Hello, Role};
use perigee_shard::{Environment, Stream};
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Longest wait for a connection to an owner, and again for its greeting.
const OWNER_DEADLINE: Duration = Duration::from_millis(500);
/// Longest wait for the address of a name.
const NAME_DEADLINE: Duration = Duration::from_millis(500);
/// Pause between two looks for it.
const NAME_PAUSE: Duration = Duration::from_millis(2);
/// Names that are looked up at a time: each takes a thread.
const LOOKUPS_MAX: usize = 8;

/// Names that are being looked up.
static LOOKUPS: AtomicUsize = AtomicUsize::new(0);

type Lookup = Arc<Mutex<Option<io::Result<SocketAddr>>>>;

impl<E: Environment> ControlShard<E> {
    /// Asks a client at an endpoint of segments that take no objects yet, if that is due, and lets them take some if it
    /// answers.
    pub(super) async fn confirm_segments(&self, client: Identity) {
        let due = move |registry: &mut Registry, now| registry.endpoint_to_ask(now, client.0);
        let Some(endpoint) = self.change_registry(due).await.flatten() else {
            return;
        };
        match self.greet_owner(&endpoint, client).await {
            Ok(()) => {
                let confirm =
                    move |registry: &mut Registry, now| registry.confirm(now, client.0, &endpoint);
                self.change_registry(confirm).await;
            }
            Err(error) => {
                if let Some(left_out) = self.log_budget.line(self.now_ms()) {
                    tracing::warn!(
                        %client,
                        endpoint,
                        %error,
                        left_out,
                        "A segment takes no objects, because its owner does not answer at its endpoint; see verify_segments"
                    );
                }
            }
        }
    }

    async fn greet_owner(&self, endpoint: &str, client: Identity) -> io::Result<()> {
        let address = resolve(&self.environment, endpoint).await?;
        let hello = Hello::new(Role::Operator, Identity(u128::from(self.epoch)));
        let budget = FrameBudget::new(HELLO_BODY_BYTES_MAX * 4);
        let limits = (&budget, HELLO_BODY_BYTES_MAX);
        let greeted = connect(&self.environment, address, &hello, limits, OWNER_DEADLINE).await;
        let (frames, welcome) = greeted?;
        frames.stream().shutdown();
        match welcome.epoch == client.low() {
            true => Ok(()),
            false => Err(io::Error::other("Another process answers there")),
        }
    }
}

/// The first address of an endpoint. Names are looked up on a thread, because the system has no other way.
async fn resolve(environment: &impl Environment, endpoint: &str) -> io::Result<SocketAddr> {
    if let Ok(address) = endpoint.parse() {
        return Ok(address);
    }
    let take = |running: usize| (running < LOOKUPS_MAX).then_some(running + 1);
    if LOOKUPS
        .fetch_update(Ordering::Relaxed, Ordering::Relaxed, take)
        .is_err()
    {
        return Err(io::ErrorKind::WouldBlock.into());
    }
    let found = Lookup::default();
    let (told, name) = (found.clone(), endpoint.to_owned());
    let started = std::thread::Builder::new()
        .name("perigee-names".to_owned())
        .spawn(move || {
            let first = |mut all: std::vec::IntoIter<SocketAddr>| {
                all.next().ok_or_else(|| io::ErrorKind::NotFound.into())
            };
            let address = name.to_socket_addrs().and_then(first);
            *told.lock().unwrap_or_else(PoisonError::into_inner) = Some(address);
            LOOKUPS.fetch_sub(1, Ordering::Relaxed);
        });
    if let Err(error) = started {
        LOOKUPS.fetch_sub(1, Ordering::Relaxed);
        return Err(error);
    }
    let deadline = environment.now() + NAME_DEADLINE;
    while environment.now() < deadline {
        if let Some(address) = found.lock().unwrap_or_else(PoisonError::into_inner).take() {
            return address;
        }
        environment.sleep(NAME_PAUSE).await;
    }
    Err(io::ErrorKind::TimedOut.into())
}
