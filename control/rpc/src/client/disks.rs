//! Calls of a client that has disks: what goes there, what is void there, what is there.
//! Invariant: taking demotions is not repeated by itself, because each is given once.

use super::{Builder, MasterClient, status_reply};
use crate::error::CallError;
use crate::reply::{DemotionBatch, Tombstone, tombstones};
use crate::request::strings;
use perigee_schemas::frame::MessageKind;
use perigee_schemas::limits::PROTOCOL_WITH_DISKS;
use perigee_schemas::{Identity, Status, master};

/// How one demotion went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndedDemotion<'a> {
    /// Key of the object, with its tenant in front.
    pub key: &'a str,
    /// Generation of the source; names the demotion.
    pub generation: u64,
    /// `Ok`, or why there is no copy.
    pub status: Status,
    /// Packed address of the copy.
    pub address: u64,
}

/// An object that a disk has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FoundCopy<'a> {
    /// Key of the object, with its tenant in front.
    pub key: &'a str,
    /// Its group; empty for none.
    pub group: &'a str,
    /// Generation of the memory it was written from.
    pub generation: u64,
    /// Length of the object, without its footer.
    pub payload_bytes: u64,
    /// CRC-32C of the payload.
    pub checksum: u32,
    /// Packed address.
    pub address: u64,
}

impl MasterClient {
    /// Whether the master that answered last knows disks; an older one would take them for memory.
    pub fn knows_disks(&self) -> bool {
        self.protocol() >= PROTOCOL_WITH_DISKS
    }

    /// Takes up to `limit` objects in memory of this client that are to be written to its disks; if
    /// it leaves, all that its memory alone has, most worth first.
    ///
    /// # Errors
    /// No answer in time; the master gives demotions that got lost up after their deadline.
    pub fn fetch_demotions(&self, limit: u32, leaves: bool) -> Result<DemotionBatch, CallError> {
        let client = self.options.client;
        let encode = |builder: &mut Builder| {
            let args = master::FetchDemotionsRequestArgs {
                client_high: client.high(),
                client_low: client.low(),
                limit,
                leaves,
            };
            let root = master::FetchDemotionsRequest::create(builder, &args);
            builder.finish_minimal(root);
        };
        self.call(MessageKind::FetchDemotions, false, encode, DemotionBatch::decode)
    }

    /// Tells how demotions went; one verdict per demotion. After any other than `Ok` the copy is
    /// void and must never be announced. May be repeated.
    ///
    /// # Errors
    /// No answer in time.
    pub fn end_demotions(&self, ended: &[EndedDemotion<'_>]) -> Result<Vec<Status>, CallError> {
        let client = self.options.client;
        let encode = |builder: &mut Builder| {
            let keys: Vec<&str> = ended.iter().map(|one| one.key).collect();
            let generation: Vec<u64> = ended.iter().map(|one| one.generation).collect();
            let status: Vec<i32> = ended.iter().map(|one| one.status.code()).collect();
            let address: Vec<u64> = ended.iter().map(|one| one.address).collect();
            let args = master::EndDemotionsRequestArgs {
                client_high: client.high(),
                client_low: client.low(),
                keys: Some(strings(builder, &keys)),
                generation: Some(builder.create_vector(&generation)),
                status: Some(builder.create_vector(&status)),
                address: Some(builder.create_vector(&address)),
            };
            let root = master::EndDemotionsRequest::create(builder, &args);
            builder.finish_minimal(root);
        };
        self.call(MessageKind::EndDemotions, true, encode, |body| status_reply(body, ended.len()))
    }

    /// Up to `limit` copies on a disk that are void, the same again until they are confirmed.
    /// `UnavailableInCurrentStatus`: the master has lost track, and all that the disk has must be
    /// announced first.
    ///
    /// # Errors
    /// No answer in time.
    pub fn fetch_tombstones(
        &self,
        disk: Identity,
        limit: u32,
    ) -> Result<Result<Vec<Tombstone>, Status>, CallError> {
        let client = self.options.client;
        let encode = |builder: &mut Builder| {
            let args = master::FetchTombstonesRequestArgs {
                client_high: client.high(),
                client_low: client.low(),
                disk_high: disk.high(),
                disk_low: disk.low(),
                limit,
            };
            let root = master::FetchTombstonesRequest::create(builder, &args);
            builder.finish_minimal(root);
        };
        self.call(MessageKind::FetchTombstones, true, encode, tombstones)
    }

    /// Tells that void copies can never come back. May be repeated.
    ///
    /// # Errors
    /// No answer in time.
    pub fn confirm_tombstones(&self, disk: Identity, numbers: &[u64]) -> Result<Status, CallError> {
        let client = self.options.client;
        let encode = |builder: &mut Builder| {
            let args = master::ConfirmTombstonesRequestArgs {
                client_high: client.high(),
                client_low: client.low(),
                disk_high: disk.high(),
                disk_low: disk.low(),
                number: Some(builder.create_vector(numbers)),
            };
            let root = master::ConfirmTombstonesRequest::create(builder, &args);
            builder.finish_minimal(root);
        };
        self.call(MessageKind::ConfirmTombstones, true, encode, one_status)
    }

    /// Announces objects that a disk has; one verdict per object. After any other than `Ok` the
    /// copy is void. `is_last` if there is nothing more to announce. May be repeated.
    ///
    /// # Errors
    /// No answer in time.
    pub fn announce_copies(
        &self,
        disk: Identity,
        copies: &[FoundCopy<'_>],
        is_last: bool,
    ) -> Result<Vec<Status>, CallError> {
        let client = self.options.client;
        let encode = |builder: &mut Builder| {
            let keys: Vec<&str> = copies.iter().map(|one| one.key).collect();
            let groups: Vec<&str> = copies.iter().map(|one| one.group).collect();
            let generation: Vec<u64> = copies.iter().map(|one| one.generation).collect();
            let bytes: Vec<u64> = copies.iter().map(|one| one.payload_bytes).collect();
            let checksum: Vec<u32> = copies.iter().map(|one| one.checksum).collect();
            let address: Vec<u64> = copies.iter().map(|one| one.address).collect();
            let args = master::AnnounceCopiesRequestArgs {
                client_high: client.high(),
                client_low: client.low(),
                disk_high: disk.high(),
                disk_low: disk.low(),
                keys: Some(strings(builder, &keys)),
                groups: Some(strings(builder, &groups)),
                generation: Some(builder.create_vector(&generation)),
                payload_bytes: Some(builder.create_vector(&bytes)),
                checksum: Some(builder.create_vector(&checksum)),
                address: Some(builder.create_vector(&address)),
                is_last,
            };
            let root = master::AnnounceCopiesRequest::create(builder, &args);
            builder.finish_minimal(root);
        };
        let count = copies.len();
        self.call(MessageKind::AnnounceCopies, true, encode, |body| status_reply(body, count))
    }

    /// Tells that copies in segments of a disk's log below `oldest` are gone. May be repeated.
    ///
    /// # Errors
    /// No answer in time.
    pub fn tell_recycled(&self, disk: Identity, oldest: u32) -> Result<Status, CallError> {
        let client = self.options.client;
        let encode = |builder: &mut Builder| {
            let args = master::RecycledRequestArgs {
                client_high: client.high(),
                client_low: client.low(),
                disk_high: disk.high(),
                disk_low: disk.low(),
                oldest,
            };
            let root = master::RecycledRequest::create(builder, &args);
            builder.finish_minimal(root);
        };
        self.call(MessageKind::Recycled, true, encode, one_status)
    }
}

fn one_status(body: &[u8]) -> Result<Status, CallError> {
    Ok(status_reply(body, 1)?[0])
}
