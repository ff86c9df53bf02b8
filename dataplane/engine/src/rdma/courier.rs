//! Carries offers of queue pairs to peers over the handshake, on a few threads because a peer may be slow.
//! Invariant: every offer is answered once, if only by an error.

use crate::limits::{COURIER_QUEUE_MAX, COURIERS};
use perigee_discovery::{ConnectionMessage, Directory, HandshakeClient};
use perigee_rails::{EndpointAnswer, EndpointOffer, Exchange, ExchangeDone};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};

/// An offer on its way.
struct Parcel {
    peer: String,
    offer: EndpointOffer,
    done: ExchangeDone,
}

/// Delivers offers.
pub(super) struct Courier {
    directory: Directory,
    client: HandshakeClient,
    queue: Mutex<State>,
}

enum State {
    Unused,
    Running(SyncSender<Parcel>),
    Closed,
}

impl Courier {
    pub(super) fn new(directory: Directory, client: HandshakeClient) -> Self {
        Self {
            directory,
            client,
            queue: Mutex::new(State::Unused),
        }
    }

    /// Takes no more offers; those that wait are still delivered.
    pub(super) fn close(&self) {
        *self.queue.lock().unwrap_or_else(PoisonError::into_inner) = State::Closed;
    }

    fn start(&self) -> State {
        let (send, receive) = sync_channel(COURIER_QUEUE_MAX);
        let receive = Arc::new(Mutex::new(receive));
        let mut started = 0;
        for _ in 0..COURIERS {
            let (directory, client) = (self.directory.clone(), self.client.clone());
            let queue = receive.clone();
            let builder = std::thread::Builder::new().name("perigee-courier".to_owned());
            let thread = builder.spawn(move || serve(&directory, &client, &queue));
            started += usize::from(thread.is_ok());
        }
        if started > 0 {
            State::Running(send)
        } else {
            State::Unused
        }
    }
}

impl Exchange for Courier {
    fn exchange(&self, peer: &str, offer: EndpointOffer, done: ExchangeDone) {
        let parcel = Parcel {
            peer: peer.to_owned(),
            offer,
            done,
        };
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        if matches!(*queue, State::Unused) {
            *queue = self.start();
        }
        let sent = match &*queue {
            State::Running(queue) => queue.try_send(parcel),
            State::Unused | State::Closed => Err(TrySendError::Disconnected(parcel)),
        };
        drop(queue);
        match sent {
            Ok(()) => {}
            Err(TrySendError::Full(parcel)) => {
                (parcel.done)(Err(format!(
                    "{COURIER_QUEUE_MAX} handshakes are waiting already"
                )));
            }
            Err(TrySendError::Disconnected(parcel)) => {
                (parcel.done)(Err("the engine takes no handshakes".to_owned()));
            }
        }
    }
}

impl std::fmt::Debug for Courier {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Courier").finish_non_exhaustive()
    }
}

fn serve(directory: &Directory, client: &HandshakeClient, queue: &Mutex<Receiver<Parcel>>) {
    loop {
        let next = queue.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(parcel) = next else { return };
        (parcel.done)(deliver(directory, client, &parcel.peer, &parcel.offer));
    }
}

fn deliver(
    directory: &Directory,
    client: &HandshakeClient,
    peer: &str,
    offer: &EndpointOffer,
) -> Result<EndpointAnswer, String> {
    let payload = serde_json::to_string(offer).map_err(|error| error.to_string())?;
    let message = ConnectionMessage {
        local_nic_path: offer.name.clone(),
        peer_nic_path: peer.to_owned(),
        payload,
        ..ConnectionMessage::default()
    };
    let meta = directory
        .rpc_meta(peer)
        .map_err(|error| error.to_string())?;
    let answer = client
        .connection(&meta, &message)
        .map_err(|error| error.to_string())?;
    if answer.payload.is_empty() {
        return Err(format!("{peer} refused: {}", answer.reply_msg));
    }
    serde_json::from_str(&answer.payload).map_err(|error| error.to_string())
}
