//! What a client and the owner of segments tell each other about rails, as frames.
//! Invariant: what comes from a peer is bounded here, and judged by rails where it is used.

use crate::limits::{RAIL_BODY_BYTES_MAX, RAIL_PAIRS_MAX, RAIL_REGIONS_MAX};
use flatbuffers::FlatBufferBuilder;
use perigee_rails::{
    EndpointAnswer, EndpointDescriptor, EndpointOffer, FencedPair, GidDescriptor, PairAnswer,
    PairOffer, PeerDescriptor, Placement, ProofDescriptor, RAILS_MAX, RailDescriptor,
    RegionDescriptor,
};
use perigee_schemas::frame::{HEADER_BYTES, Header, Kind};
use perigee_schemas::message::decode;
use perigee_schemas::rails as wire;
use perigee_schemas::{Identity, Status};
use std::io;

/// What a client asks of an owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RailsRequest {
    /// Life of the client's rails.
    pub(crate) epoch: u64,
    /// Whether its queue pairs are to be taken down first.
    pub(crate) fence: bool,
}

/// What an owner answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RailsReply {
    /// The owner's rails.
    pub(crate) peer: PeerDescriptor,
    /// Its segments; their lease is that of the reply.
    pub(crate) regions: Vec<(Identity, RegionDescriptor)>,
    /// How long the reply may be used, in milliseconds.
    pub(crate) lease_ms: u32,
}

pub(crate) fn encode_request(request: RailsRequest) -> Vec<u8> {
    let mut builder = FlatBufferBuilder::new();
    let RailsRequest { epoch, fence } = request;
    let root = wire::RailsRequest::create(&mut builder, &wire::RailsRequestArgs { epoch, fence });
    builder.finish_minimal(root);
    framed(Kind::Rails, 0, builder.finished_data())
}

pub(crate) fn decode_request(body: &[u8]) -> io::Result<RailsRequest> {
    let request = decode::<wire::RailsRequest<'_>>(body).map_err(invalid)?;
    Ok(RailsRequest {
        epoch: request.epoch(),
        fence: request.fence(),
    })
}

/// The frame that says why there are no rails.
pub(crate) fn encode_no_rails(status: Status) -> Vec<u8> {
    let mut builder = FlatBufferBuilder::new();
    let arguments = wire::RailsReplyArgs {
        status: status.code(),
        ..wire::RailsReplyArgs::default()
    };
    let root = wire::RailsReply::create(&mut builder, &arguments);
    builder.finish_minimal(root);
    framed(Kind::Reply, 0, builder.finished_data())
}

pub(crate) fn encode_reply(reply: &RailsReply) -> Vec<u8> {
    let mut builder = FlatBufferBuilder::new();
    let rails = reply.peer.rails.iter();
    let rails: Vec<_> = rails.map(|rail| build_rail(&mut builder, rail)).collect();
    let rails = builder.create_vector(&rails);
    let mut room = RAIL_BODY_BYTES_MAX / 2;
    let fits = |(_, region): &&(Identity, RegionDescriptor)| {
        room = room.saturating_sub(bytes_at_most(region));
        room > 0
    };
    let regions = reply.regions.iter().take(RAIL_REGIONS_MAX);
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
        },
    );
    builder.finish_minimal(root);
    framed(Kind::Reply, 0, builder.finished_data())
}

/// More than a region takes in a frame.
fn bytes_at_most(region: &RegionDescriptor) -> usize {
    let keys: usize = region.remote_keys.iter().map(Vec::len).sum();
    256 + region.borders.len() * 8 + keys * 4 + region.remote_keys.len() * 4
}

type Builder<'a> = FlatBufferBuilder<'a>;

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
    let borders = builder.create_vector(&region.borders);
    let keys: Vec<u32> = region.remote_keys.iter().flatten().copied().collect();
    let keys = builder.create_vector(&keys);
    let counts = region.remote_keys.iter().map(|keys| keys.len() as u32);
    let counts: Vec<u32> = counts.collect();
    let counts = builder.create_vector(&counts);
    let arguments = wire::RegionArgs {
        segment_high: segment.high(),
        segment_low: segment.low(),
        generation: region.generation,
        address: region.address,
        bytes: region.bytes,
        borders: Some(borders),
        keys: Some(keys),
        key_count: Some(counts),
    };
    wire::Region::create(builder, &arguments)
}

/// Reads an owner's answer; its refusal is an error.
pub(crate) fn decode_reply(body: &[u8]) -> io::Result<RailsReply> {
    let reply = decode::<wire::RailsReply<'_>>(body).map_err(invalid)?;
    Status::from_peer(reply.status())
        .ok()
        .map_err(io::Error::other)?;
    let epoch = reply.epoch();
    let rails = reply.rails().into_iter().flatten();
    let regions = reply.regions().into_iter().flatten();
    let regions = regions.take(RAIL_REGIONS_MAX);
    let lease_ms = reply.lease_ms();
    Ok(RailsReply {
        peer: PeerDescriptor {
            epoch,
            rails: rails.take(RAILS_MAX).map(read_rail).collect(),
        },
        regions: regions
            .map(|region| read_region(region, epoch, lease_ms))
            .collect::<io::Result<_>>()?,
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
        placement: Placement::default(),
    };
    let segment = Identity::from_halves(region.segment_high(), region.segment_low());
    Ok((segment, descriptor))
}

pub(crate) fn encode_offer(offer: &EndpointOffer) -> Vec<u8> {
    let mut builder = FlatBufferBuilder::new();
    let name = builder.create_string(&offer.name);
    let pairs: Vec<_> = offer.pairs.iter().map(build_pair).collect();
    let pairs = builder.create_vector(&pairs);
    let fenced = offer.fenced.iter();
    let fenced = fenced.map(|pair| wire::FencedPair::new(pair.lane, pair.queue_pair));
    let fenced: Vec<_> = fenced.collect();
    let fenced = builder.create_vector(&fenced);
    let root = wire::PairsRequest::create(
        &mut builder,
        &wire::PairsRequestArgs {
            epoch: offer.epoch,
            peer_epoch: offer.peer_epoch,
            name: Some(name),
            shard: offer.shard,
            pairs: Some(pairs),
            fenced: Some(fenced),
        },
    );
    builder.finish_minimal(root);
    framed(Kind::Pairs, 0, builder.finished_data())
}

fn build_pair(pair: &PairOffer) -> wire::PairOffer {
    wire::PairOffer::new(
        pair.lane,
        pair.peer_rail,
        pair.peer_gid_index,
        &build_endpoint(&pair.endpoint),
        &wire::Proof::new(pair.proof.address, pair.proof.remote_key),
    )
}

pub(crate) fn decode_offer(body: &[u8]) -> io::Result<EndpointOffer> {
    let offer = decode::<wire::PairsRequest<'_>>(body).map_err(invalid)?;
    let pairs = offer.pairs().into_iter().flatten();
    let pair = |pair: &wire::PairOffer| PairOffer {
        lane: pair.lane(),
        peer_rail: pair.peer_rail(),
        peer_gid_index: pair.peer_gid_index(),
        endpoint: read_endpoint(pair.endpoint()),
        proof: read_proof(pair.proof()),
    };
    let fenced = offer.fenced().into_iter().flatten();
    let gone = |pair: &wire::FencedPair| FencedPair {
        lane: pair.lane(),
        queue_pair: pair.queue_pair(),
    };
    Ok(EndpointOffer {
        name: offer.name().unwrap_or_default().to_owned(),
        epoch: offer.epoch(),
        peer_epoch: offer.peer_epoch(),
        shard: offer.shard(),
        pairs: pairs.take(RAIL_PAIRS_MAX).map(pair).collect(),
        fenced: fenced.map(gone).collect(),
    })
}

pub(crate) fn encode_answer(answer: &Result<EndpointAnswer, String>) -> Vec<u8> {
    let mut builder = FlatBufferBuilder::new();
    let refusal = answer.as_ref().err();
    let reason = refusal.map(|reason| builder.create_string(reason));
    let pairs = answer.iter().flat_map(|answer| &answer.pairs);
    let pairs: Vec<_> = pairs
        .map(|pair| build_pair_answer(&mut builder, pair))
        .collect();
    let pairs = builder.create_vector(&pairs);
    let status = refusal.map_or(0, |_| Status::UnavailableInCurrentStatus.code());
    let root = wire::PairsReply::create(
        &mut builder,
        &wire::PairsReplyArgs {
            status,
            reason,
            epoch: answer.as_ref().map_or(0, |answer| answer.epoch),
            fenced: answer.as_ref().map_or(0, |answer| answer.fenced),
            pairs: Some(pairs),
        },
    );
    builder.finish_minimal(root);
    framed(Kind::Reply, 0, builder.finished_data())
}

fn build_pair_answer<'a>(
    builder: &mut Builder<'a>,
    pair: &PairAnswer,
) -> flatbuffers::WIPOffset<wire::PairAnswer<'a>> {
    match pair {
        PairAnswer::Joined { endpoint, proof } => {
            let (endpoint, proof) = (
                build_endpoint(endpoint),
                wire::Proof::new(proof.address, proof.remote_key),
            );
            let arguments = wire::PairAnswerArgs {
                endpoint: Some(&endpoint),
                proof: Some(&proof),
                reason: None,
            };
            wire::PairAnswer::create(builder, &arguments)
        }
        PairAnswer::Refused { reason } => {
            let reason = Some(builder.create_string(reason));
            let arguments = wire::PairAnswerArgs {
                reason,
                ..wire::PairAnswerArgs::default()
            };
            wire::PairAnswer::create(builder, &arguments)
        }
    }
}

/// Reads the answer to an offer; a refusal of the whole is an error.
pub(crate) fn decode_answer(body: &[u8]) -> io::Result<EndpointAnswer> {
    let answer = decode::<wire::PairsReply<'_>>(body).map_err(invalid)?;
    if answer.status() != 0 {
        let reason = answer.reason().unwrap_or("the offer was refused");
        return Err(io::Error::other(reason.to_owned()));
    }
    let pairs = answer.pairs().into_iter().flatten();
    let pair = |pair: wire::PairAnswer<'_>| match (pair.endpoint(), pair.proof()) {
        (Some(endpoint), Some(proof)) => PairAnswer::Joined {
            endpoint: read_endpoint(endpoint),
            proof: read_proof(proof),
        },
        _ => PairAnswer::Refused {
            reason: pair.reason().unwrap_or_default().to_owned(),
        },
    };
    Ok(EndpointAnswer {
        epoch: answer.epoch(),
        pairs: pairs.take(RAIL_PAIRS_MAX).map(pair).collect(),
        fenced: answer.fenced(),
    })
}

fn build_endpoint(endpoint: &EndpointDescriptor) -> wire::Endpoint {
    let (high, low) = halves(&endpoint.gid);
    wire::Endpoint::new(
        high,
        low,
        endpoint.queue_pair,
        endpoint.sequence,
        endpoint.mtu_bytes,
        endpoint.lid.into(),
    )
}

fn read_endpoint(endpoint: &wire::Endpoint) -> EndpointDescriptor {
    EndpointDescriptor {
        gid: joined(endpoint.gid_high(), endpoint.gid_low()),
        lid: endpoint.lid() as u16,
        queue_pair: endpoint.queue_pair(),
        sequence: endpoint.sequence(),
        mtu_bytes: endpoint.mtu_bytes(),
    }
}

fn read_proof(proof: &wire::Proof) -> ProofDescriptor {
    ProofDescriptor {
        address: proof.address(),
        remote_key: proof.remote_key(),
    }
}

fn halves(address: &[u8; 16]) -> (u64, u64) {
    let whole = u128::from_be_bytes(*address);
    ((whole >> 64) as u64, whole as u64)
}

fn joined(high: u64, low: u64) -> [u8; 16] {
    (u128::from(high) << 64 | u128::from(low)).to_be_bytes()
}

fn framed(kind: Kind, request: u64, body: &[u8]) -> Vec<u8> {
    let mut frame = Vec::with_capacity(HEADER_BYTES + body.len());
    frame.extend_from_slice(&Header::encode(kind, request, body));
    frame.extend_from_slice(body);
    frame
}

fn invalid(error: impl std::error::Error + Send + Sync + 'static) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}

#[cfg(test)]
mod tests;
