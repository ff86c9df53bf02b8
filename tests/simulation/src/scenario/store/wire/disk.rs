//! The bodies of calls about disks, and of their answers.

use super::{Builder, finished, strings};
use perigee_rpc::{EndedDemotion, FoundCopy, SuspectPlace, Tombstone};
use perigee_schemas::message::decode;
use perigee_schemas::{Identity, Status, master};

pub(crate) fn fetch_demotions(client: Identity, limit: u32, leaves: bool) -> Vec<u8> {
    let mut builder = Builder::new();
    let (client_high, client_low) = (client.high(), client.low());
    let args = master::FetchDemotionsRequestArgs { client_high, client_low, limit, leaves };
    let root = master::FetchDemotionsRequest::create(&mut builder, &args);
    finished(builder, root)
}

pub(crate) fn end_demotions(client: Identity, ended: &[EndedDemotion<'_>]) -> Vec<u8> {
    let mut builder = Builder::new();
    let keys: Vec<&str> = ended.iter().map(|one| one.key).collect();
    let generation: Vec<u64> = ended.iter().map(|one| one.generation).collect();
    let status: Vec<i32> = ended.iter().map(|one| one.status.code()).collect();
    let address: Vec<u64> = ended.iter().map(|one| one.address).collect();
    let args = master::EndDemotionsRequestArgs {
        client_high: client.high(),
        client_low: client.low(),
        keys: Some(strings(&mut builder, &keys)),
        generation: Some(builder.create_vector(&generation)),
        status: Some(builder.create_vector(&status)),
        address: Some(builder.create_vector(&address)),
    };
    let root = master::EndDemotionsRequest::create(&mut builder, &args);
    finished(builder, root)
}

pub(crate) fn fetch_tombstones(client: Identity, disk: Identity, limit: u32) -> Vec<u8> {
    let mut builder = Builder::new();
    let args = master::FetchTombstonesRequestArgs {
        client_high: client.high(),
        client_low: client.low(),
        disk_high: disk.high(),
        disk_low: disk.low(),
        limit,
    };
    let root = master::FetchTombstonesRequest::create(&mut builder, &args);
    finished(builder, root)
}

pub(crate) fn tombstones(body: &[u8]) -> Option<Result<Vec<Tombstone>, Status>> {
    let reply = decode::<master::FetchTombstonesReply<'_>>(body).ok()?;
    let status = Status::from_peer(reply.status());
    if status != Status::Ok {
        return Some(Err(status));
    }
    let columns = reply.number()?.iter().zip(reply.hash()?).zip(reply.generation()?);
    let one = |((number, hash), generation)| Tombstone { number, hash, generation, suspect: None };
    let mut void: Vec<Tombstone> = columns.map(one).collect();
    for place in reply.suspects().into_iter().flatten() {
        let (address, payload_bytes) = (place.address(), place.payload_bytes());
        let suspect = Some(SuspectPlace { address, payload_bytes });
        void.get_mut(place.position() as usize)?.suspect = suspect;
    }
    Some(Ok(void))
}

pub(crate) fn confirm_tombstones(client: Identity, disk: Identity, numbers: &[u64]) -> Vec<u8> {
    let mut builder = Builder::new();
    let args = master::ConfirmTombstonesRequestArgs {
        client_high: client.high(),
        client_low: client.low(),
        disk_high: disk.high(),
        disk_low: disk.low(),
        number: Some(builder.create_vector(numbers)),
    };
    let root = master::ConfirmTombstonesRequest::create(&mut builder, &args);
    finished(builder, root)
}

pub(crate) fn announce_copies(
    client: Identity,
    disk: Identity,
    copies: &[FoundCopy<'_>],
    is_last: bool,
) -> Vec<u8> {
    let mut builder = Builder::new();
    let keys: Vec<&str> = copies.iter().map(|one| one.key).collect();
    let groups: Vec<&str> = copies.iter().map(|one| one.group).collect();
    let generation: Vec<u64> = copies.iter().map(|one| one.generation).collect();
    let payload_bytes: Vec<u64> = copies.iter().map(|one| one.payload_bytes).collect();
    let checksum: Vec<u32> = copies.iter().map(|one| one.checksum).collect();
    let address: Vec<u64> = copies.iter().map(|one| one.address).collect();
    let args = master::AnnounceCopiesRequestArgs {
        client_high: client.high(),
        client_low: client.low(),
        disk_high: disk.high(),
        disk_low: disk.low(),
        keys: Some(strings(&mut builder, &keys)),
        groups: Some(strings(&mut builder, &groups)),
        generation: Some(builder.create_vector(&generation)),
        payload_bytes: Some(builder.create_vector(&payload_bytes)),
        checksum: Some(builder.create_vector(&checksum)),
        address: Some(builder.create_vector(&address)),
        is_last,
    };
    let root = master::AnnounceCopiesRequest::create(&mut builder, &args);
    finished(builder, root)
}

pub(crate) fn recycled(client: Identity, disk: Identity, oldest: u32) -> Vec<u8> {
    let mut builder = Builder::new();
    let args = master::RecycledRequestArgs {
        client_high: client.high(),
        client_low: client.low(),
        disk_high: disk.high(),
        disk_low: disk.low(),
        oldest,
    };
    let root = master::RecycledRequest::create(&mut builder, &args);
    finished(builder, root)
}

/// One verdict for each of so many copies, demotions or segments.
pub(crate) fn statuses(body: &[u8], count: usize) -> Option<Vec<Status>> {
    let reply = decode::<master::StatusReply<'_>>(body).ok()?;
    let statuses: Vec<Status> = reply.status()?.iter().map(Status::from_peer).collect();
    (statuses.len() == count).then_some(statuses)
}
