//! Segments as their owners announce them, and the events that shards get about them. Invariant: a
//! segment's index is never given to another segment in the life of a master.

use std::net::IpAddr;
use std::sync::Arc;

use perigee_allocator::Extent;
use perigee_schemas::limits::SEGMENT_TEXT_BYTES_MAX;
use perigee_schemas::{DiskHealth, SegmentKind};

/// What the owner of a segment announces to a shard before that hands out space there.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Announces {
    /// Nothing: all of it is free, and no owner follows what becomes of it.
    #[default]
    Nothing,
    /// That all of it is free.
    Space,
    /// Objects of another life of the master, and what is free between them.
    Objects,
}

/// A segment as announced by its owner.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SegmentSpec {
    /// Random identity.
    pub id: u128,
    /// Name that users know, usually `host:port`; several segments may share it.
    pub name: String,
    /// Random identity of the owning client.
    pub client: u128,
    /// Size in bytes.
    pub bytes: u64,
    /// Address in the owner, only shown; offsets are what transfers use.
    pub base: u64,
    /// `host:port` of the owner's data port.
    pub endpoint: String,
    /// Identity of the owner's host.
    pub host_id: String,
    /// Socket where the owner hands out the segment's descriptor to processes of the same host.
    pub rendezvous: String,
    /// Transport protocol, such as `tcp`.
    pub protocol: String,
    /// From where it was announced, if that is known.
    pub peer: Option<IpAddr>,
    /// What it is made of.
    pub kind: SegmentKind,
    /// What its owner announces to each shard before that hands out space there.
    pub announces: Announces,
    /// Whether its owner keeps records of parts of objects.
    pub keeps_parts: bool,
    /// Whether its owner keeps records that say how many replicas an object is to have.
    pub keeps_replica_counts: bool,
}

impl SegmentSpec {
    /// A segment without memory that anything could reach: identity, owner and size.
    pub fn bare(id: u128, client: u128, bytes: u64) -> Self {
        Self {
            id,
            name: String::new(),
            client,
            bytes,
            base: 0,
            endpoint: String::new(),
            host_id: String::new(),
            rendezvous: String::new(),
            protocol: "tcp".to_owned(),
            peer: None,
            kind: SegmentKind::Memory,
            announces: Announces::Nothing,
            keeps_parts: true,
            keeps_replica_counts: true,
        }
    }

    /// Whether all texts are short enough to be sent to every client.
    pub(crate) fn is_short(&self) -> bool {
        [&self.name, &self.endpoint, &self.host_id, &self.rendezvous, &self.protocol]
            .iter()
            .all(|text| text.len() <= SEGMENT_TEXT_BYTES_MAX)
    }

    /// What its host is known by: its identity, else the host in the segment's name.
    pub(crate) fn host(&self) -> &str {
        if self.host_id.is_empty() { self.host_name() } else { &self.host_id }
    }

    /// The host in the segment's name, without the port.
    pub(crate) fn host_name(&self) -> &str {
        self.name.rsplit_once(':').map_or(self.name.as_str(), |(host, _)| host)
    }
}

/// Events that every shard must apply, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SegmentEvent {
    /// The segment takes objects from now on.
    Mounted {
        /// The segment's number in all replies.
        index: u32,
        /// The segment.
        spec: Arc<SegmentSpec>,
    },
    /// The segment stays readable but takes no new objects.
    Draining {
        /// The segment's number.
        index: u32,
    },
    /// The segment takes new objects again.
    Resumed {
        /// The segment's number.
        index: u32,
    },
    /// The owner has memory for so much of the segment.
    Usable {
        /// The segment's number.
        index: u32,
        /// Bytes, at most all of the segment.
        bytes: u64,
    },
    /// The owner of a disk finds it so.
    Health {
        /// The disk's number.
        index: u32,
        /// How far it can be used.
        health: DiskHealth,
    },
    /// The owner has no memory for these ranges of the segment; for all others it has.
    Unbacked {
        /// The segment's number.
        index: u32,
        /// The ranges, in order and apart from each other; none if there is memory for all.
        ranges: Arc<[Extent]>,
    },
    /// The log of a disk goes on without its oldest segments.
    Recycled {
        /// The disk's number.
        index: u32,
        /// Number of the oldest segment of the log that is left.
        oldest: u32,
    },
    /// Generations are at least this one from now on: an owner has heard of smaller ones of an
    /// earlier master.
    Raised {
        /// The least generation that is given.
        generation: u64,
    },
    /// The segment is gone with all its replicas.
    Unmounted {
        /// The segment's number.
        index: u32,
    },
}
