//! Offers of queue pairs, and the answers to them. Invariant: what comes from a peer is bounded
//! here, and judged by rails where it is used.

use super::frame::{Builder, framed, halves, invalid, joined};
use crate::limits::PAIRS_MAX;
use flatbuffers::FlatBufferBuilder;
use perigee_rails::{
    EndpointAnswer, EndpointDescriptor, EndpointOffer, FencedPair, PairAnswer, PairOffer,
    ProofDescriptor,
};
use perigee_schemas::Status;
use perigee_schemas::frame::MessageKind;
use perigee_schemas::message::decode;
use perigee_schemas::rails as wire;
use std::io;

/// The frame of an offer.
pub fn encode_offer(offer: &EndpointOffer) -> Vec<u8> {
    debug_assert!(offer.pairs.len() <= PAIRS_MAX, "a reader takes no more");
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
    framed(MessageKind::Pairs, 0, builder.finished_data())
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

/// Reads an offer.
///
/// # Errors
/// It is none.
pub fn decode_offer(body: &[u8]) -> io::Result<EndpointOffer> {
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
    let gone =
        |pair: &wire::FencedPair| FencedPair { lane: pair.lane(), queue_pair: pair.queue_pair() };
    Ok(EndpointOffer {
        name: offer.name().unwrap_or_default().to_owned(),
        epoch: offer.epoch(),
        peer_epoch: offer.peer_epoch(),
        shard: offer.shard(),
        pairs: pairs.take(PAIRS_MAX).map(pair).collect(),
        fenced: fenced.map(gone).collect(),
    })
}

/// The frame of an answer.
pub fn encode_answer(answer: &Result<EndpointAnswer, String>) -> Vec<u8> {
    let mut builder = FlatBufferBuilder::new();
    let refusal = answer.as_ref().err();
    let reason = refusal.map(|reason| builder.create_string(reason));
    let pairs = answer.iter().flat_map(|answer| &answer.pairs);
    let pairs: Vec<_> = pairs.map(|pair| build_answer(&mut builder, pair)).collect();
    debug_assert!(pairs.len() <= PAIRS_MAX, "a reader takes no more");
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
    framed(MessageKind::Reply, 0, builder.finished_data())
}

fn build_answer<'a>(
    builder: &mut Builder<'a>,
    pair: &PairAnswer,
) -> flatbuffers::WIPOffset<wire::PairAnswer<'a>> {
    match pair {
        PairAnswer::Joined { endpoint, proof } => {
            let (endpoint, proof) =
                (build_endpoint(endpoint), wire::Proof::new(proof.address, proof.remote_key));
            let arguments = wire::PairAnswerArgs {
                endpoint: Some(&endpoint),
                proof: Some(&proof),
                reason: None,
            };
            wire::PairAnswer::create(builder, &arguments)
        }
        PairAnswer::Refused { reason } => {
            let reason = Some(builder.create_string(reason));
            let arguments = wire::PairAnswerArgs { reason, ..wire::PairAnswerArgs::default() };
            wire::PairAnswer::create(builder, &arguments)
        }
    }
}

/// Reads the answer to an offer; a refusal of the whole is an error.
pub fn decode_answer(body: &[u8]) -> io::Result<EndpointAnswer> {
    let answer = decode::<wire::PairsReply<'_>>(body).map_err(invalid)?;
    if answer.status() != 0 {
        let reason = answer.reason().unwrap_or("the offer was refused");
        return Err(io::Error::other(reason.to_owned()));
    }
    let pairs = answer.pairs().into_iter().flatten();
    let pair = |pair: wire::PairAnswer<'_>| match (pair.endpoint(), pair.proof()) {
        (Some(endpoint), Some(proof)) => {
            PairAnswer::Joined { endpoint: read_endpoint(endpoint), proof: read_proof(proof) }
        }
        _ => PairAnswer::Refused { reason: pair.reason().unwrap_or_default().to_owned() },
    };
    Ok(EndpointAnswer {
        epoch: answer.epoch(),
        pairs: pairs.take(PAIRS_MAX).map(pair).collect(),
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
    ProofDescriptor { address: proof.address(), remote_key: proof.remote_key() }
}
