//! Loose pieces end by the end of their batch, whatever their peer does.

use super::*;
use crate::request::TransferState;
use crate::target::PeerSegment;
use perigee_mover::{Dialect, PeerAddress, Shards, ShardsOptions, Terms};
use perigee_rdma::{FirstLoad, RailTuning, RdmaOptions};
use perigee_schemas::Identity;
use perigee_shard::{Congestion, POLL_DEFAULT, monotonic};
use perigee_verbs::software::{Clock, DevicePlan, SoftwareNetwork};
use std::io::Read;
use std::net::TcpListener;
use std::time::Duration;

const LONG: Duration = Duration::from_secs(60);
const PIECES: u32 = 100;

/// A batch with pieces that are loose at a peer which accepts connections and says nothing.
struct Loose {
    mute: TcpListener,
    batch: Arc<Batch>,
    rdma: Arc<Rdma>,
    pieces: Arc<LoosePieces>,
}

impl Loose {
    fn within(length: Duration) -> Self {
        let mute = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = mute.local_addr().unwrap();
        let identity = Identity(1);
        let fabric = SoftwareNetwork::new(Clock::Real).unwrap();
        let fabric = fabric.host("here", &[DevicePlan::new("sw0")]).unwrap();
        let options = RdmaOptions {
            identity,
            name: "here".to_owned(),
            shards: 1,
            poll: POLL_DEFAULT,
            queue_pairs_per_rail: None,
            tuning: RailTuning::default(),
            first_load: FirstLoad::AtOnce,
        };
        let rdma = Rdma::start(fabric.as_ref(), &[], &options).unwrap();
        let shards = ShardsOptions {
            name: "perigee-test",
            count: 1,
            cpus: Vec::new(),
            poll: POLL_DEFAULT,
            identity,
            congestion: Congestion::Automatic,
        };
        let addresses = Box::new([PeerAddress { address, counters: Arc::default() }]);
        let dialect = Dialect::Own { epoch: None };
        let target = PeerSegment {
            tcp: Arc::new(perigee_mover::Target::new("mute", addresses, dialect)),
            rails: None,
            local: None,
        };
        let submitted = monotonic();
        let fallback = Fallback {
            shards: Arc::new(Shards::start(&shards).unwrap()),
            target: Arc::new(target),
            terms: Terms { submitted, due: submitted + length, length, with_checksum: false },
        };
        let batch = Arc::new(Batch::new([PIECES].into_iter(), Vec::new(), None, None, None));
        let endpoint = Arc::from(address.to_string());
        let pieces = LoosePieces::new(&batch, &fallback, &rdma, endpoint);
        Self { mute, batch, rdma, pieces }
    }

    fn add_all(&self) {
        for _ in 0..PIECES {
            let piece = RequestPiece { request: 0, local: 0, remote: 0, bytes: 1, is_first: true };
            let error = EngineError::Handshake("it is loose".to_owned());
            self.pieces.add(Direction::Write, piece, error);
        }
    }
}

impl Drop for Loose {
    fn drop(&mut self) {
        self.rdma.close();
    }
}

#[test]
fn a_fence_that_is_not_confirmed_ends_with_the_time_of_the_batch() {
    let ends_first = || {
        let loose = Loose::within(Duration::from_millis(50));
        loose.add_all();
        assert!(loose.batch.wait(LONG));
        assert_eq!(loose.batch.status().state, TransferState::Failed);
        // The session with the peer is still waiting for its word: the fence has not been given up.
        let (mut session, _) = loose.mute.accept().unwrap();
        session.set_nonblocking(true).unwrap();
        let end = loop {
            match session.read(&mut [0; 4096]) {
                Ok(1..) => {}
                end => break end,
            }
        };
        end.is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock)
    };
    // On a busy machine the session may have ended by then.
    assert!((0..5).any(|_| ends_first()));
}

#[test]
fn a_batch_that_is_taken_back_does_not_wait_for_a_fence() {
    for is_late in [false, true] {
        let loose = Loose::within(LONG);
        if is_late {
            loose.batch.cancel();
        }
        loose.add_all();
        loose.batch.cancel();
        loose.batch.taken_back();
        assert!(loose.batch.wait(Duration::ZERO));
        assert_eq!(loose.batch.status().state, TransferState::Canceled);
    }
}
