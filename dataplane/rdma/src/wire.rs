//! What a process and the owner of memory tell each other about rails, as frames.
//! Invariant: what comes from a peer is bounded here, and judged by rails where it is used.

use crate::limits::{BODY_BYTES_MAX, REGIONS_MAX, TICKETS_MAX};
use flatbuffers::FlatBufferBuilder;
use frame::{Builder, framed, halves, invalid, joined};
use perigee_rails::{
    GidDescriptor, PeerDescriptor, Placement, RAILS_MAX, RailDescriptor, RegionDescriptor,
};
use perigee_schemas::frame::MessageKind;
use perigee_schemas::message::decode;
use perigee_schemas::rails as wire;
use perigee_schemas::{Identity, Status};
use std::io;

mod frame;
mod pairs;

pub use pairs::{decode_answer, decode_offer, encode_answer, encode_offer};

/// What a client asks of an owner.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RailsRequest {
    /// Number of this run of the client's rails.
    pub epoch: u64,
    /// Whether its queue pairs are to be taken down first.
    pub fence: bool,
    /// Version of the owner's list that the client has; 0 for none.
    pub version: u64,
    /// Tickets that the client returns.
    pub returned: Vec<u64>,
}

/// What an owner answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RailsReply {
    /// The owner's rails.
    pub peer: PeerDescriptor,
    /// What it lends, under the lease of the reply; empty if the client has this version already.
    pub regions: Vec<(Identity, RegionDescriptor)>,
    /// Of the list of what it lends.
    pub version: u64,
    /// How long the reply may be used, in milliseconds.
    pub lease_ms: u32,
}

/// The frame of a request.
pub fn encode_request(request: &RailsRequest) -> Vec<u8> {
    debug_assert!(request.returned.len() <= TICKETS_MAX, "a reader takes no more");
    let mut builder = FlatBufferBuilder::new();
    let returned = &request.returned;
    let arguments = wire::RailsRequestArgs {
        epoch: request.epoch,
        fence: request.fence,
        version: request.version,
        returned: (!returned.is_empty()).then(|| builder.create_vector(returned)),
    };
    let root = wire::RailsRequest::create(&mut builder, &arguments);
    builder.finish_minimal(root);
    framed(MessageKind::Rails, 0, builder.finished_data())
}

/// Reads a request.
///
/// # Errors
/// It is none.
pub fn decode_request(body: &[u8]) -> io::Result<RailsRequest> {
    let request = decode::<wire::RailsRequest<'_>>(body).map_err(invalid)?;
    let returned = request.returned().into_iter().flatten();
    Ok(RailsRequest {
        epoch: request.epoch(),
        fence: request.fence(),
        version: request.version(),
        returned: returned.take(TICKETS_MAX).collect(),
    })
}

/// The frame that says why there are no rails.
pub fn encode_no_rails(status: Status) -> Vec<u8> {
    let mut builder = FlatBufferBuilder::new();
    let arguments =
        wire::RailsReplyArgs { status: status.code(), ..wire::RailsReplyArgs::default() };
    let root = wire::RailsReply::create(&mut builder, &arguments);
    builder.finish_minimal(root);
    framed(MessageKind::Reply, 0, builder.finished_data())
}

/// The frame of an answer, with as many regions as fit.
pub fn encode_reply(reply: &RailsReply) -> Vec<u8> {
    // A reader takes no more rails, and gives all regions the epoch of the peer.
    debug_assert!(reply.peer.rails.len() <= RAILS_MAX);
    let is_of_peer = |region: &RegionDescriptor| region.epoch == reply.peer.epoch;
    debug_assert!(reply.regions.iter().all(|(_, region)| is_of_peer(region)));
    let mut builder = FlatBufferBuilder::new();
    let rails = reply.peer.rails.iter();
    let rails: Vec<_> = rails.map(|rail| build_rail(&mut builder, rail)).collect();
    let rails = builder.create_vector(&rails);
    let mut room = BODY_BYTES_MAX / 2;
    let fits = |(_, region): &&(Identity, RegionDescriptor)| {
        room = room.saturating_sub(bytes_at_most(region));
        room > 0
    };
    let regions = reply.regions.iter().take(REGIONS_MAX);
    let regions: Vec<_> = regions
        .take_while(fits)
        .map(|(segment, region)| build_region(&mut builder, *segment, region))
        .collect();
    let regions = builder.create_vector(&regions);
    let root = wire::RailsReply::create(
        &mut builder,
        &wire::RailsReplyArgs {
            status: 0,
            epoch: reply.peer.epoch,
            lease_ms: reply.lease_ms,
            rails: Some(rails),
            regions: Some(regions),
            version: reply.version,
        },
    );
    builder.finish_minimal(root);
    framed(MessageKind::Reply, 0, builder.finished_data())
}

/// More than a region takes in a frame.
fn bytes_at_most(region: &RegionDescriptor) -> usize {
    let keys: usize = region.remote_keys.iter().map(Vec::len).sum();
    let placed = region.placement.far().len() + region.placement.unlisted().len();
    256 + region.borders.len() * 8 + (keys + region.remote_keys.len() + placed) * 4
}

fn build_rail<'a>(
    builder: &mut Builder<'a>,
    rail: &RailDescriptor,
) -> flatbuffers::WIPOffset<wire::Rail<'a>> {
    let gids = rail.gids.iter().map(|gid| {
        let (high, low) = halves(&gid.address);
        wire::Gid::new(high, low, gid.index, gid.roce_v1)
    });
    let gids: Vec<_> = gids.collect();
    let gids = builder.create_vector(&gids);
    let device = builder.create_string(&rail.device);
    let arguments = wire::RailArgs {
        device: Some(device),
        infiniband: rail.infiniband,
        lid: rail.lid,
        gids: Some(gids),
    };
    wire::Rail::create(builder, &arguments)
}

fn build_region<'a>(
    builder: &mut Builder<'a>,
    segment: Identity,
    region: &RegionDescriptor,
) -> flatbuffers::WIPOffset<wire::Region<'a>> {
    debug_assert!(region.remote_keys.len() <= RAILS_MAX, "a reader takes no more");
    let borders = builder.create_vector(&region.borders);
    let keys: Vec<u32> = region.remote_keys.iter().flatten().copied().collect();
    let keys = builder.create_vector(&keys);
    let counts = region.remote_keys.iter().map(|keys| keys.len() as u32);
    let counts: Vec<u32> = counts.collect();
    let counts = builder.create_vector(&counts);
    let far = builder.create_vector(region.placement.far());
    let unlisted = builder.create_vector(region.placement.unlisted());
    let arguments = wire::RegionArgs {
        segment_high: segment.high(),
        segment_low: segment.low(),
        generation: region.generation,
        address: region.address,
        bytes: region.bytes,
        borders: Some(borders),
        keys: Some(keys),
        key_count: Some(counts),
        far: Some(far),
        unlisted: Some(unlisted),
        is_strict: region.placement.is_strict(),
    };
    wire::Region::create(builder, &arguments)
}

/// Reads an owner's answer.
///
/// # Errors
/// It is none, or a refusal.
pub fn decode_reply(body: &[u8]) -> io::Result<RailsReply> {
    let reply = decode::<wire::RailsReply<'_>>(body).map_err(invalid)?;
    Status::from_peer(reply.status()).ok().map_err(io::Error::other)?;
    let epoch = reply.epoch();
    let rails = reply.rails().into_iter().flatten();
    let regions = reply.regions().into_iter().flatten();
    let regions = regions.take(REGIONS_MAX);
    let lease_ms = reply.lease_ms();
    Ok(RailsReply {
        peer: PeerDescriptor { epoch, rails: rails.take(RAILS_MAX).map(read_rail).collect() },
        regions: regions
            .map(|region| read_region(region, epoch, lease_ms))
            .collect::<io::Result<_>>()?,
        version: reply.version(),
        lease_ms,
    })
}

fn read_rail(rail: wire::Rail<'_>) -> RailDescriptor {
    let gid = |gid: &wire::Gid| GidDescriptor {
        index: gid.index(),
        address: joined(gid.high(), gid.low()),
        roce_v1: gid.roce_v1(),
    };
    RailDescriptor {
        device: rail.device().unwrap_or_default().to_owned(),
        infiniband: rail.infiniband(),
        lid: rail.lid(),
        gids: rail.gids().into_iter().flatten().map(gid).collect(),
    }
}

fn read_region(
    region: wire::Region<'_>,
    epoch: u64,
    lease_ms: u32,
) -> io::Result<(Identity, RegionDescriptor)> {
    let mut keys = region.keys().into_iter().flatten();
    let counts = region.key_count().into_iter().flatten();
    let total = region.keys().map_or(0, |keys| keys.len());
    let mut remote_keys = Vec::new();
    for count in counts.take(RAILS_MAX) {
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        if count > total {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "A rail has more keys than were sent",
            ));
        }
        remote_keys.push(keys.by_ref().take(count).collect());
    }
    let descriptor = RegionDescriptor {
        epoch,
        generation: region.generation(),
        address: region.address(),
        bytes: region.bytes(),
        lease_ms: Some(lease_ms.into()),
        borders: region.borders().into_iter().flatten().collect(),
        remote_keys,
        placement: Placement::of(
            numbers(region.far()),
            numbers(region.unlisted()),
            region.is_strict(),
        ),
    };
    let segment = Identity::from_halves(region.segment_high(), region.segment_low());
    Ok((segment, descriptor))
}

fn numbers(rails: Option<flatbuffers::Vector<'_, u32>>) -> Vec<u32> {
    rails.into_iter().flatten().collect()
}

#[cfg(test)]
mod tests;
