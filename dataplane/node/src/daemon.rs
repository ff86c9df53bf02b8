//! The node as a program, from configuration to a clean stop. Invariant: a stop signal ends it with
//! success at any moment, also while it still waits for its master.

use crate::config::{HttpPage, NodeConfig};
use crate::error::NodeError;
use crate::introduction::{Introduction, NameClaim};
use crate::limits::{CLOSE_DEADLINE, DESCRIPTORS_MIN};
use crate::opening;
use crate::phase::NodePhase;
use crate::signals::StopSignals;
use crate::status_page::{StatusPage, StoreSlot};
use crate::stop_drain::stop_drain;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::signal::Signal;
use perigee_http::HttpHandle;
use perigee_settings::check_congestion;
use perigee_shard::check_descriptors;
use perigee_store::{NodeAnswer, Store};
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

const CONGESTION_SETTING: &str = "tcp_congestion (PERIGEE_TCP_CONGESTION)";

enum Event {
    Opened(Box<Result<Option<Store>, NodeError>>),
    Stop(Signal),
}

/// Donates and serves until SIGTERM or SIGINT.
///
/// A signal during the start ends it too; what was mounted in that moment is unmounted first. A
/// second signal does not wait for that: the segment then leaves the cluster with the client's time
/// to live.
///
/// # Errors
/// A port is taken, memory cannot be allocated, or the master does not come up in time; the message
/// says what to change.
pub fn run(config: &NodeConfig) -> Result<(), NodeError> {
    let signals = StopSignals::block()?;
    raise_descriptor_limit();
    check_descriptors(DESCRIPTORS_MIN).map_err(io::Error::other)?;
    check_congestion(CONGESTION_SETTING, &config.environment.congestion)
        .map_err(io::Error::other)?;
    announce_settings(config);
    let slot = StoreSlot::default();
    let page = start_page(config, &slot)?;
    let (send, events) = channel();
    watch(signals, send.clone())?;
    let phase = NodePhase::default();
    let (name, claim) = NameClaim::name(&config.name, config.may_take_next_port);
    let mut config = NodeConfig { name, ..config.clone() };
    // Peers, probes and firewalls find the data port where Mooncake's listens.
    config.environment.data_port = config.name.port();
    let config = &config;
    open_aside(config, phase.clone(), send)?;
    if let Some(store) = wait_until_open(&events, &phase)? {
        let store = slot.fill(store);
        announce_ready(config, &store, page.as_ref());
        let introductions = introduce(config, &store, claim);
        let signal = wait_for_stop(&events);
        signals.unblock();
        introductions.into_iter().for_each(Introduction::stop);
        stop_drain(config, signal, &store);
        leave(store);
    }
    if let Some(page) = page {
        page.stop();
    }
    tracing::info!("Stopped");
    Ok(())
}

/// Each client of the node holds connections: the soft limit is raised to the hard one.
fn raise_descriptor_limit() {
    if let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE)
        && soft < hard
        && setrlimit(Resource::RLIMIT_NOFILE, hard, hard).is_err()
    {
        tracing::info!(soft, hard, "The limit of open files could not be raised");
    }
}

fn announce_settings(config: &NodeConfig) {
    for line in &config.changed {
        tracing::info!("Setting {line}");
    }
    for warning in &config.warnings {
        tracing::warn!("{warning}");
    }
}

fn start_page(config: &NodeConfig, slot: &StoreSlot) -> Result<Option<HttpHandle>, NodeError> {
    let page = match config.http {
        HttpPage::Off => None,
        HttpPage::Required(address) => Some(StatusPage::start(address, slot.clone())?),
        HttpPage::IfFree(address) => StatusPage::start_if_free(address, slot.clone())
            .inspect_err(|error| {
                tracing::warn!(
                    %error,
                    "This node serves no metrics over HTTP: choose another port with --http_port=PORT, \
                     or --enable_http_server=false if none are wanted"
                );
            })
            .ok(),
    };
    if let Some(page) = &page {
        tracing::info!(http = %page.local_addr(), "HTTP server started");
    }
    Ok(page)
}

fn watch(signals: StopSignals, send: Sender<Event>) -> io::Result<()> {
    // The receiver is gone only when the program is ending already.
    signals.watch(move |signal| drop(send.send(Event::Stop(signal))))
}

/// Opens the store on a thread of its own, so that a stop signal is handled while it opens.
fn open_aside(config: &NodeConfig, phase: NodePhase, send: Sender<Event>) -> io::Result<()> {
    let config = config.clone();
    let work = move || drop(send.send(Event::Opened(Box::new(opening::open(&config, &phase)))));
    std::thread::Builder::new().name("perigee-open".to_owned()).spawn(work).map(drop)
}

/// The opened store, or nothing when a signal came first.
fn wait_until_open(
    events: &Receiver<Event>,
    phase: &NodePhase,
) -> Result<Option<Store>, NodeError> {
    match events.recv() {
        Ok(Event::Opened(opened)) => *opened,
        Ok(Event::Stop(signal)) => {
            tracing::info!(%signal, "Stopping before the node was ready");
            if phase.stop() {
                take_back(events);
            }
            Ok(None)
        }
        Err(_) => Err(io::Error::other("the opening thread ended without a result").into()),
    }
}

/// Leaves the cluster again if the attempt under way joins it.
fn take_back(events: &Receiver<Event>) {
    match events.recv_timeout(CLOSE_DEADLINE) {
        Ok(Event::Opened(opened)) => {
            if let Ok(Some(store)) = *opened {
                leave(Arc::new(store));
            }
        }
        Ok(Event::Stop(_)) | Err(_) => {
            tracing::warn!("Ending in the middle of joining; the master will notice");
        }
    }
}

/// Programs on this host ask for the node by the port of its name, or at the file of its socket.
fn introduce(config: &NodeConfig, store: &Store, claim: Option<NameClaim>) -> Vec<Introduction> {
    let claim = match (claim, config.name.port()) {
        (None, None) => NameClaim::of(&store.hostname()),
        (claim, _) => claim,
    };
    let answer = NodeAnswer {
        master: config.master.clone(),
        tenant_id: config.tenant.name().to_owned(),
        protocol: config.protocol.clone(),
        device_names: config.device_names.clone(),
    };
    let by_port = claim.and_then(|claim| Introduction::start(claim, &answer));
    let at_file = config.client_socket.as_ref().and_then(|socket| {
        let started = Introduction::at_file(socket, &answer);
        let path = socket.path.display();
        started
            .inspect_err(|error| {
                tracing::error!(%path, %error, "Programs of other users cannot find this node: there is no socket");
            })
            .ok()
    });
    by_port.into_iter().chain(at_file).collect()
}

fn wait_for_stop(events: &Receiver<Event>) -> Option<Signal> {
    let Ok(Event::Stop(signal)) = events.recv() else {
        return None;
    };
    tracing::info!(%signal, "Stopping");
    Some(signal)
}

fn announce_ready(config: &NodeConfig, store: &Store, page: Option<&HttpHandle>) {
    let http = page.map(|page| page.local_addr().to_string());
    tracing::info!(
        name = store.hostname(),
        segment_bytes = store.lent_bytes(),
        master = config.master,
        http = http.as_deref().unwrap_or("off"),
        "Ready"
    );
}

/// Unmounts and closes, for a bounded time: the memory is given back with the process anyway.
fn leave(store: Arc<Store>) {
    let (send, closed) = channel();
    let close = move || {
        store.close();
        // The caller has stopped waiting if closing took too long.
        let _ = send.send(());
    };
    let thread = std::thread::Builder::new().name("perigee-close".to_owned()).spawn(close);
    if thread.is_err() || closed.recv_timeout(CLOSE_DEADLINE).is_err() {
        tracing::warn!("The store did not close in time; ending without it");
    }
}
