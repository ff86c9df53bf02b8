//! What the master's replies say, in owned columns.

use crate::error::CallError;
use crate::request::DiskReport;
use crate::returns::Lease;
use perigee_schemas::message::decode;
use perigee_schemas::{DiskHealth, Identity, SegmentKind, Status, master, object};
use std::ops::Range;

type StringList<'a> = flatbuffers::Vector<'a, flatbuffers::ForwardsUOffset<&'a str>>;

/// Where one replica lies; `segment` indexes the reply's segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Location {
    /// Index into the reply's segments.
    pub segment: u32,
    /// Mooncake's `ReplicaStatus`.
    pub status: u8,
    /// First byte of the extent in the segment.
    pub offset: u64,
    /// Length of the object, without its footer.
    pub payload_bytes: u64,
    /// Number the master gave this allocation.
    pub generation: u64,
    /// The part of its object that lies here, from 0; none for all of it.
    pub part: Option<u8>,
}

/// A segment that replies refer to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplySegment {
    /// Random identity.
    pub id: Identity,
    /// Owner.
    pub client: Identity,
    /// Usable bytes.
    pub bytes: u64,
    /// Address in the owner.
    pub base: u64,
    /// Name shown to users.
    pub name: String,
    /// `host:port` of the owner's data port.
    pub endpoint: String,
    /// Identity of the owner's host.
    pub host_id: String,
    /// Abstract Unix socket of the owner.
    pub rendezvous: String,
    /// Protocol shown to users.
    pub protocol: String,
    /// Memory, or the log of a disk: there offsets of locations are packed disk addresses. None
    /// is a kind that this build cannot read.
    pub kind: Option<SegmentKind>,
}

/// A batch of started puts: where to write each key.
#[derive(Clone, Debug, Default)]
pub struct StartedBatch {
    /// Verdict per key.
    pub status: Vec<Status>,
    /// Where the locations of key i begin; one more entry than keys.
    pub first_location: Vec<u32>,
    /// Locations of all keys in order.
    pub locations: Vec<Location>,
    /// Segments they refer to.
    pub segments: Vec<ReplySegment>,
}

/// A batch of looked-up keys.
#[derive(Clone, Debug, Default)]
pub struct LocatedBatch {
    /// Verdicts and places.
    pub places: StartedBatch,
    /// CRC-32C of each object.
    pub checksum: Vec<u32>,
    /// Payload bytes of each object.
    pub payload_bytes: Vec<u64>,
    /// The read lease of each key, to give it back with `MasterClient::give_back`; none where none
    /// was granted.
    pub leases: Vec<Option<Lease>>,
    /// Length of the read lease in milliseconds, from before the call was sent.
    pub lease_ttl_ms: u64,
    /// Empty if no object lies in parts; else CRC-32C of the part at each location.
    pub part_checksum: Vec<u32>,
}

/// Moves that a client is to carry out; one entry per object.
#[derive(Clone, Debug, Default)]
pub struct Moves {
    /// The keys.
    pub keys: Vec<String>,
    /// CRC-32C of each object.
    pub checksum: Vec<u32>,
    /// Where each object lies, and where its copy is to be written.
    pub places: Vec<(Location, Location)>,
    /// Segments they refer to.
    pub segments: Vec<ReplySegment>,
}

/// Objects that a client is to write to its disks.
#[derive(Clone, Debug, Default)]
pub struct DemotionBatch {
    /// The keys.
    pub keys: Vec<String>,
    /// The group of each key; empty for none.
    pub groups: Vec<String>,
    /// Hash of each key, by which tombstones will name it.
    pub hash: Vec<u64>,
    /// CRC-32C of each object.
    pub checksum: Vec<u32>,
    /// Where each object lies.
    pub sources: Vec<Location>,
    /// The disk that is to have each object, as an index into `segments`.
    pub disks: Vec<u32>,
    /// Segments and disks they refer to.
    pub segments: Vec<ReplySegment>,
    /// Of a client that leaves: how many more may be to come.
    pub left: u64,
}

/// A copy on a disk that is void.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tombstone {
    /// Number by which the owner confirms it.
    pub number: u64,
    /// Hash of the key.
    pub hash: u64,
    /// Generation of the copy.
    pub generation: u64,
    /// Where it lies, if readers have found it damaged.
    pub suspect: Option<SuspectPlace>,
}

/// Where a copy on a disk lies in which readers have found something else than was put.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SuspectPlace {
    /// Packed disk address.
    pub address: u64,
    /// Length of the object.
    pub payload_bytes: u32,
}

/// Use of one segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentUse {
    /// The segment.
    pub segment: ReplySegment,
    /// Allocated bytes.
    pub used_bytes: u64,
    /// Bytes that the owner has memory for; all of a disk, and of a segment of an older master.
    pub usable_bytes: u64,
    /// Mooncake's segment status.
    pub state: u8,
}

/// The disks of a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListedDisks {
    /// Those that are mounted.
    pub disks: Vec<SegmentUse>,
    /// What owners have said of theirs last, also of those that are not in use.
    pub reports: Vec<DiskReport>,
}

/// Quota and usage of a tenant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TenantUse {
    /// Its name.
    pub name: String,
    /// Its quota as it was set; 0 if it has none.
    pub requested_bytes: u64,
    /// Its quota that is in force.
    pub effective_bytes: u64,
    /// Bytes of its replicas in memory.
    pub charged_bytes: u64,
    /// Its objects.
    pub objects: u64,
    /// Nothing of it may be put.
    pub is_closed: bool,
}

/// A count of objects.
pub type Counted = Result<u64, Status>;

impl StartedBatch {
    /// The locations of key `index`.
    pub fn locations_of(&self, index: usize) -> &[Location] {
        &self.locations[self.range_of(index)]
    }

    fn range_of(&self, index: usize) -> Range<usize> {
        self.first_location[index] as usize..self.first_location[index + 1] as usize
    }

    /// The answer to a call about so many keys.
    ///
    /// # Errors
    /// The body is malformed, or its columns do not fit each other.
    pub fn decode(body: &[u8], wanted: usize) -> Result<Self, CallError> {
        let reply = decode::<master::PutStartReply<'_>>(body)?;
        let status = statuses(reply.status(), wanted)?;
        let counts = reply.location_count();
        let segments = reply.segments().map(|list| list.iter().map(|s| segment(&s)).collect());
        Self::assemble(status, counts, reply.locations(), segments.unwrap_or_default())
    }

    fn assemble(
        status: Vec<Status>,
        counts: Option<flatbuffers::Vector<'_, u8>>,
        places: Option<flatbuffers::Vector<'_, object::Location>>,
        segments: Vec<ReplySegment>,
    ) -> Result<Self, CallError> {
        let mut first_location = Vec::with_capacity(status.len() + 1);
        let mut total = 0u32;
        first_location.push(0);
        for count in counts.iter().flat_map(flatbuffers::Vector::iter) {
            total += u32::from(count);
            first_location.push(total);
        }
        same_length(first_location.len() - 1, status.len())?;
        let locations: Vec<Location> =
            places.iter().flat_map(flatbuffers::Vector::iter).map(location).collect();
        same_length(locations.len(), total as usize)?;
        known_segments(&locations, &segments)?;
        Ok(Self { status, first_location, locations, segments })
    }
}

impl LocatedBatch {
    /// CRC-32C of the part at each location of key `index`; empty if no object lies in parts.
    pub fn part_checksums_of(&self, index: usize) -> &[u32] {
        self.part_checksum.get(self.places.range_of(index)).unwrap_or_default()
    }

    /// The answer to a call about so many keys.
    ///
    /// # Errors
    /// The body is malformed, or its columns do not fit each other.
    pub fn decode(body: &[u8], wanted: usize) -> Result<Self, CallError> {
        let reply = decode::<master::GetReplicasReply<'_>>(body)?;
        let status = statuses(reply.status(), wanted)?;
        let segments = reply.segments().map(|list| list.iter().map(|s| segment(&s)).collect());
        let places = StartedBatch::assemble(
            status,
            reply.location_count(),
            reply.locations(),
            segments.unwrap_or_default(),
        )?;
        let checksum: Vec<u32> =
            reply.checksum().iter().flat_map(flatbuffers::Vector::iter).collect();
        let payload_bytes: Vec<u64> =
            reply.payload_bytes().iter().flat_map(flatbuffers::Vector::iter).collect();
        same_length(checksum.len(), wanted)?;
        same_length(payload_bytes.len(), wanted)?;
        let part_checksum: Vec<u32> = reply.part_checksum().into_iter().flatten().collect();
        if places.locations.iter().any(|place| place.part.is_some()) || !part_checksum.is_empty() {
            same_length(part_checksum.len(), places.locations.len())?;
        }
        let leases = leases(&places, reply.lease().into_iter().flatten(), wanted);
        let lease_ttl_ms = reply.lease_ttl_ms();
        Ok(Self { leases, places, checksum, payload_bytes, lease_ttl_ms, part_checksum })
    }
}

/// The lease of each key; an older master names none.
fn leases(
    places: &StartedBatch,
    names: impl Iterator<Item = u64>,
    keys: usize,
) -> Vec<Option<Lease>> {
    let named = names.chain(std::iter::repeat(0)).take(keys).enumerate();
    let lease = |(index, name): (usize, u64)| {
        let generation = places.locations_of(index).first()?.generation;
        (name != 0).then_some(Lease { name, generation })
    };
    named.map(lease).collect()
}

impl Moves {
    /// The answer to a client that takes moves.
    ///
    /// # Errors
    /// As [`StartedBatch::decode`].
    pub fn decode(body: &[u8]) -> Result<Self, CallError> {
        let reply = decode::<master::FetchMovesReply<'_>>(body)?;
        let keys = reply.keys().into_iter().flatten();
        let keys: Vec<String> = keys.map(str::to_owned).collect();
        let checksum: Vec<u32> = reply.checksum().into_iter().flatten().collect();
        let segments = reply.segments().into_iter().flatten();
        let segments: Vec<ReplySegment> = segments.map(|view| segment(&view)).collect();
        let places = reply.locations().into_iter().flatten();
        let places: Vec<Location> = places.map(location).collect();
        same_length(checksum.len(), keys.len())?;
        same_length(places.len(), 2 * keys.len())?;
        known_segments(&places, &segments)?;
        let pairs = places.chunks_exact(2).map(|pair| (pair[0], pair[1]));
        Ok(Self { places: pairs.collect(), keys, checksum, segments })
    }
}

impl DemotionBatch {
    /// The answer to a client that takes demotions.
    ///
    /// # Errors
    /// As [`StartedBatch::decode`].
    pub fn decode(body: &[u8]) -> Result<Self, CallError> {
        let reply = decode::<master::FetchDemotionsReply<'_>>(body)?;
        let owned = |list: Option<StringList<'_>>| -> Vec<String> {
            list.into_iter().flatten().map(str::to_owned).collect()
        };
        let (keys, groups) = (owned(reply.keys()), owned(reply.groups()));
        let checksum: Vec<u32> = reply.checksum().into_iter().flatten().collect();
        let segments = reply.segments().into_iter().flatten();
        let segments: Vec<ReplySegment> = segments.map(|view| segment(&view)).collect();
        let places = reply.locations().into_iter().flatten();
        let places: Vec<Location> = places.map(location).collect();
        let hash: Vec<u64> = reply.hash().into_iter().flatten().collect();
        same_length(groups.len(), keys.len())?;
        same_length(hash.len(), keys.len())?;
        same_length(checksum.len(), keys.len())?;
        same_length(places.len(), 2 * keys.len())?;
        known_segments(&places, &segments)?;
        let pairs = places.chunks_exact(2).map(|pair| (pair[0], pair[1].segment));
        let (sources, disks) = pairs.unzip();
        let left = reply.left();
        Ok(Self { keys, groups, hash, checksum, sources, disks, segments, left })
    }
}

/// The void copies that a disk's owner hears of, or why it hears of none.
pub(crate) fn tombstones(body: &[u8]) -> Result<Result<Vec<Tombstone>, Status>, CallError> {
    let reply = decode::<master::FetchTombstonesReply<'_>>(body)?;
    let status = Status::from_peer(reply.status());
    if status != Status::Ok {
        return Ok(Err(status));
    }
    let column = |list: Option<flatbuffers::Vector<'_, u64>>| -> Vec<u64> {
        list.into_iter().flatten().collect()
    };
    let (number, hash) = (column(reply.number()), column(reply.hash()));
    let generation = column(reply.generation());
    same_length(hash.len(), number.len())?;
    same_length(generation.len(), number.len())?;
    let columns = number.into_iter().zip(hash).zip(generation);
    let one = |((number, hash), generation)| Tombstone { number, hash, generation, suspect: None };
    let mut void: Vec<Tombstone> = columns.map(one).collect();
    for place in reply.suspects().into_iter().flatten() {
        let (address, payload_bytes) = (place.address(), place.payload_bytes());
        if let Some(one) = void.get_mut(place.position() as usize) {
            one.suspect = Some(SuspectPlace { address, payload_bytes });
        }
    }
    Ok(Ok(void))
}

/// Every location must refer to one of the reply's segments.
fn known_segments(locations: &[Location], segments: &[ReplySegment]) -> Result<(), CallError> {
    let is_stray = |place: &&Location| place.segment as usize >= segments.len();
    match locations.iter().find(is_stray) {
        Some(stray) => {
            Err(CallError::Columns { found: segments.len(), wanted: stray.segment as usize + 1 })
        }
        None => Ok(()),
    }
}

pub(crate) fn codes(
    list: Option<flatbuffers::Vector<'_, i32>>,
    wanted: usize,
) -> Result<Vec<i32>, CallError> {
    let codes: Vec<i32> = list.iter().flat_map(flatbuffers::Vector::iter).collect();
    same_length(codes.len(), wanted)?;
    Ok(codes)
}

pub(crate) fn statuses(
    list: Option<flatbuffers::Vector<'_, i32>>,
    wanted: usize,
) -> Result<Vec<Status>, CallError> {
    Ok(codes(list, wanted)?.into_iter().map(Status::from_peer).collect())
}

pub(crate) fn counted(body: &[u8]) -> Result<Counted, CallError> {
    let count = decode::<master::CountReply<'_>>(body)?.count();
    Ok(u64::try_from(count).map_err(|_| Status::from_peer(i32::try_from(count).unwrap_or(-1))))
}

/// Some keys of a listing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyPage {
    /// The keys as their tenant knows them.
    pub keys: Vec<String>,
    /// Where the listing goes on; `None` at its end.
    pub next: Option<[u64; 3]>,
}

pub(crate) fn key_page(body: &[u8]) -> Result<Result<KeyPage, Status>, CallError> {
    let reply = decode::<master::ListReply<'_>>(body)?;
    if reply.status() != 0 {
        return Ok(Err(Status::from_peer(reply.status())));
    }
    let numbers: Vec<u64> = reply.cursor().iter().flat_map(|numbers| numbers.iter()).collect();
    let keys = reply.keys().iter().flat_map(|keys| keys.iter()).map(str::to_owned).collect();
    Ok(Ok(KeyPage { keys, next: <[u64; 3]>::try_from(numbers).ok() }))
}

/// Some segments of a listing.
pub(crate) struct SegmentPage {
    pub(crate) segments: Vec<SegmentUse>,
    /// Where it goes on; 0 on the last page.
    pub(crate) next: u32,
    pub(crate) reports: Vec<DiskReport>,
}

/// The tenants of an answer; an older master names none.
pub(crate) fn tenant_uses(body: &[u8]) -> Result<Option<Vec<TenantUse>>, CallError> {
    let reply = decode::<master::QuerySegmentsReply<'_>>(body)?;
    let usage = |view: master::TenantUsage<'_>| TenantUse {
        name: view.name().unwrap_or_default().to_owned(),
        requested_bytes: view.requested_bytes(),
        effective_bytes: view.effective_bytes(),
        charged_bytes: view.charged_bytes(),
        objects: view.objects(),
        is_closed: view.closed(),
    };
    Ok(reply.tenants().map(|tenants| tenants.iter().map(usage).collect()))
}

impl SegmentPage {
    pub(crate) fn decode(body: &[u8]) -> Result<Self, CallError> {
        let reply = decode::<master::QuerySegmentsReply<'_>>(body)?;
        let segments = reply.segments().into_iter().flatten();
        let segments: Vec<ReplySegment> = segments.map(|view| segment(&view)).collect();
        let used: Vec<u64> = reply.used_bytes().into_iter().flatten().collect();
        let state: Vec<u8> = reply.state().into_iter().flatten().collect();
        same_length(used.len(), segments.len())?;
        same_length(state.len(), segments.len())?;
        let usable = match reply.usable_bytes() {
            Some(usable) => usable.iter().collect(),
            None => segments.iter().map(|segment| segment.bytes).collect::<Vec<u64>>(),
        };
        same_length(usable.len(), segments.len())?;
        let columns = segments.into_iter().zip(used).zip(usable).zip(state);
        let used = columns.map(|(((segment, used_bytes), usable_bytes), state)| SegmentUse {
            segment,
            used_bytes,
            usable_bytes,
            state,
        });
        let reports = reply.reports().into_iter().flatten();
        let reports = reports.filter_map(|report| disk_report(&report)).collect();
        Ok(Self { segments: used.collect(), next: reply.next(), reports })
    }
}

/// What the owner of a disk has said of it; `None` of a state that this build does not know.
fn disk_report(report: &master::DiskReport<'_>) -> Option<DiskReport> {
    let owned = |text: Option<&str>| text.unwrap_or_default().to_owned();
    Some(DiskReport {
        disk: Identity::from_halves(report.disk_high(), report.disk_low()),
        health: DiskHealth::from_wire(report.health())?,
        path: owned(report.path()),
        reason: owned(report.reason()),
    })
}

fn location(place: &object::Location) -> Location {
    Location {
        segment: place.segment(),
        status: place.status() as u8,
        part: ((place.status() >> 8) as u8).checked_sub(1),
        offset: place.offset(),
        payload_bytes: place.payload_bytes(),
        generation: place.generation(),
    }
}

fn segment(view: &object::Segment<'_>) -> ReplySegment {
    let owned = |text: Option<&str>| text.unwrap_or_default().to_owned();
    ReplySegment {
        id: Identity::from_halves(view.id_high(), view.id_low()),
        client: Identity::from_halves(view.client_high(), view.client_low()),
        bytes: view.bytes(),
        base: view.base(),
        name: owned(view.name()),
        endpoint: owned(view.endpoint()),
        host_id: owned(view.host_id()),
        rendezvous: owned(view.rendezvous()),
        protocol: owned(view.protocol()),
        kind: SegmentKind::from_wire(view.kind()),
    }
}

fn same_length(found: usize, wanted: usize) -> Result<(), CallError> {
    if found == wanted { Ok(()) } else { Err(CallError::Columns { found, wanted }) }
}
