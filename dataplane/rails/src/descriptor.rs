//! What engines tell each other about their rails, queue pairs and memory. Plain data; how it
//! travels is the caller's.
//!
//! All of it comes from a peer and is judged where it is used: nothing here is trusted.

use crate::placement::Placement;
use perigee_verbs::EndpointAddress;
use serde::Serialize;

/// One engine as others see it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PeerDescriptor {
    /// Random per start: who has another one is another engine, whatever its name or address.
    pub epoch: u64,
    /// Its rails; other messages name them by index.
    pub rails: Vec<RailDescriptor>,
}

/// One rail.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RailDescriptor {
    /// Device name, for messages.
    pub device: String,
    /// Native InfiniBand rather than Ethernet.
    pub infiniband: bool,
    /// Local identifier; 0 on Ethernet.
    pub lid: u16,
    /// Addresses to speak to, the best first.
    pub gids: Vec<GidDescriptor>,
}

/// One address of a rail.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct GidDescriptor {
    /// Place in the owner's table.
    pub index: u32,
    /// The identifier in network order.
    pub address: [u8; 16],
    /// RoCE v1 speaks to v1 only.
    pub roce_v1: bool,
}

/// One end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EndpointDescriptor {
    /// Global identifier in network order.
    pub gid: [u8; 16],
    /// Local identifier; 0 on Ethernet.
    pub lid: u16,
    /// Number of the queue pair.
    pub queue_pair: u32,
    /// First packet sequence number.
    pub sequence: u32,
    /// Largest packet payload in bytes.
    pub mtu_bytes: u32,
}

impl From<&EndpointAddress> for EndpointDescriptor {
    fn from(endpoint: &EndpointAddress) -> Self {
        Self {
            gid: endpoint.gid,
            lid: endpoint.lid,
            queue_pair: endpoint.queue_pair,
            sequence: endpoint.sequence,
            mtu_bytes: endpoint.mtu_bytes,
        }
    }
}

impl From<&EndpointDescriptor> for EndpointAddress {
    fn from(descriptor: &EndpointDescriptor) -> Self {
        Self {
            gid: descriptor.gid,
            lid: descriptor.lid,
            queue_pair: descriptor.queue_pair,
            sequence: descriptor.sequence,
            mtu_bytes: descriptor.mtu_bytes,
        }
    }
}

/// A few bytes of registered memory that exist to be written by the other end, as proof that a pair
/// works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProofDescriptor {
    /// First byte.
    pub address: u64,
    /// Key of the region.
    pub remote_key: u32,
}

/// Queue pairs that one engine wants to join to another's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndpointOffer {
    /// Who offers.
    pub name: String,
    /// Epoch of the peer: it changes when its process restarts.
    pub epoch: u64,
    /// The epoch the other side is expected to have.
    pub peer_epoch: u64,
    /// The offering shard.
    pub shard: u32,
    /// One for each queue pair.
    pub pairs: Vec<PairOffer>,
    /// Queue pairs that broke at our end: the other side takes its ends down before it answers.
    pub fenced: Vec<FencedPair>,
}

/// The other side's end of a queue pair that is gone at ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FencedPair {
    /// Number among the offering shard's queue pairs to this peer.
    pub lane: u32,
    /// Number of the queue pair on the other side's device: a newer one of the same lane stays.
    pub queue_pair: u32,
}

/// One queue pair of an offer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PairOffer {
    /// Number among the offering shard's queue pairs to this peer: a new offer takes the place of
    /// an older one.
    pub lane: u32,
    /// Rail of the other side, as an index of its descriptor.
    pub peer_rail: u32,
    /// Which of that rail's addresses is spoken to.
    pub peer_gid_index: u32,
    /// The offered end.
    pub endpoint: EndpointDescriptor,
    /// Where the other side may write a liveness write.
    pub proof: ProofDescriptor,
}

/// The other ends, in the order of the offer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndpointAnswer {
    /// Epoch of who answers.
    pub epoch: u64,
    /// One for each pair of the offer.
    pub pairs: Vec<PairAnswer>,
    /// How many of the fenced queue pairs are gone: all, unless who answers knows nothing of them.
    pub fenced: u32,
}

/// One answered pair, or why not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PairAnswer {
    /// It waits for the proof.
    Joined {
        /// The other end.
        endpoint: EndpointDescriptor,
        /// Where the proof is written.
        proof: ProofDescriptor,
    },
    /// It could not be joined.
    Refused {
        /// Why, in words.
        reason: String,
    },
}

/// Registered memory that peers may use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegionDescriptor {
    /// Epoch of the owner: memory does not outlive it.
    pub epoch: u64,
    /// Generation that the owner gave to the memory.
    pub generation: u64,
    /// First byte.
    pub address: u64,
    /// Length.
    pub bytes: u64,
    /// How long the descriptor may be used, in milliseconds; `None` as long as the owner lives.
    pub lease_ms: Option<u64>,
    /// First byte of each part after the first: a request is cut there.
    pub borders: Vec<u64>,
    /// Keys by rail of the owner, then by part.
    pub remote_keys: Vec<Vec<u32>>,
    /// What it costs over which rail of the owner.
    pub placement: Placement,
}
