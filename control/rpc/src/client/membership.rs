//! Calls about clients and segments: mounting, heartbeats, leaving.
//! Invariant: each of them may be repeated.

use super::{Builder, MasterClient, status_reply};
use crate::error::CallError;
use crate::limits::{LEAVE_DEADLINE, PING_DEADLINE, SEGMENTS_LISTED_MAX};
use crate::reply::{ListedDisks, SegmentPage, SegmentUse, TenantUse, tenant_uses};
use crate::request::{
    LentSegments, MountForm, SegmentOffer, disk_report, identities, mount, strings,
};
use perigee_schemas::frame::MessageKind;
use perigee_schemas::message::decode;
use perigee_schemas::{Identity, SegmentKind, Status, master};

/// Answer to a heartbeat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pong {
    /// The master does not know this client or one of its segments: it must mount all of them
    /// again.
    pub must_mount: bool,
    /// Objects in this client's segments are to be moved or copied: fetch moves.
    pub has_moves: bool,
    /// Objects are to be written to this client's disks, or copies there are void: fetch demotions
    /// and tombstones.
    pub has_disk_work: bool,
    /// What is read from disks may be moved to memory: moves may wait as soon as a disk is read.
    pub promotes: bool,
    /// The master's life; a new number is a restarted master.
    pub epoch: u64,
}

/// A directory that is the same on all hosts, in which clients have disks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OfferedDirectory {
    /// Its path on each host.
    pub path: String,
    /// The cluster whose objects they keep, and the name of its folder.
    pub cluster: String,
    /// Most bytes of all of them; 0 for no bound.
    pub bytes: u64,
}

impl MasterClient {
    /// Mounts segments by a request of this number, see [`LentSegments::mounts`]; one verdict per
    /// segment.
    ///
    /// # Errors
    /// No answer in time.
    pub fn mount(
        &self,
        segments: &[SegmentOffer],
        remount: bool,
        number: u64,
    ) -> Result<Vec<Status>, CallError> {
        self.mount_as(segments, &MountForm { is_remount: remount, number, ..MountForm::default() })
    }

    /// Mounts segments; one verdict per segment.
    ///
    /// # Errors
    /// No answer in time.
    pub fn mount_as(
        &self,
        segments: &[SegmentOffer],
        form: &MountForm<'_>,
    ) -> Result<Vec<Status>, CallError> {
        let client = self.options.client;
        let encode = |builder: &mut Builder| mount(builder, client, segments, form);
        self.call(MessageKind::Mount, true, encode, |body| status_reply(body, segments.len()))
    }

    /// Unmounts segments after `grace_ms`; one verdict per segment.
    ///
    /// # Errors
    /// No answer in time.
    pub fn unmount(&self, segments: &[Identity], grace_ms: u64) -> Result<Vec<Status>, CallError> {
        let client = self.options.client;
        let encode = |builder: &mut Builder| {
            let (high, low) = identities(builder, segments);
            let args = master::UnmountRequestArgs {
                client_high: client.high(),
                client_low: client.low(),
                segment_high: Some(high),
                segment_low: Some(low),
                grace_ms,
            };
            let root = master::UnmountRequest::create(builder, &args);
            builder.finish_minimal(root);
        };
        self.call(MessageKind::Unmount, true, encode, |body| status_reply(body, segments.len()))
    }

    /// Heartbeat, with what this client lends. Waits at most [`PING_DEADLINE`].
    ///
    /// # Errors
    /// No answer in time.
    pub fn ping(&self, holdings: &LentSegments) -> Result<Pong, CallError> {
        let client = self.options.client;
        let encode = |builder: &mut Builder| {
            let (high, low) = identities(builder, &holdings.segments);
            let usable = builder.create_vector(&holdings.usable_bytes);
            let unbacked = builder.create_vector(&holdings.unbacked);
            let disks: Vec<_> =
                holdings.disks.iter().map(|report| disk_report(builder, report)).collect();
            let disks = builder.create_vector(&disks);
            let args = master::PingRequestArgs {
                client_high: client.high(),
                client_low: client.low(),
                segment_high: Some(high),
                segment_low: Some(low),
                mounts: holdings.mounts,
                usable_bytes: Some(usable),
                disks: Some(disks),
                asks_shared: false,
                unbacked: Some(unbacked),
            };
            let root = master::PingRequest::create(builder, &args);
            builder.finish_minimal(root);
        };
        self.call_within(PING_DEADLINE, MessageKind::Ping, true, encode, |body| {
            let reply = decode::<master::PingReply<'_>>(body)?;
            Ok(Pong {
                must_mount: reply.state() != 0,
                has_moves: reply.has_moves(),
                has_disk_work: reply.has_disk_work(),
                promotes: reply.promotes(),
                epoch: reply.epoch(),
            })
        })
    }

    /// The directory that all hosts share, if the master has one. To be asked before any disk is
    /// open. Waits at most [`PING_DEADLINE`].
    ///
    /// # Errors
    /// No answer in time.
    pub fn shared_directory(&self) -> Result<Option<OfferedDirectory>, CallError> {
        let client = self.options.client;
        let encode = |builder: &mut Builder| {
            let args = master::PingRequestArgs {
                client_high: client.high(),
                client_low: client.low(),
                asks_shared: true,
                ..Default::default()
            };
            let root = master::PingRequest::create(builder, &args);
            builder.finish_minimal(root);
        };
        self.call_within(PING_DEADLINE, MessageKind::Ping, true, encode, |body| {
            let reply = decode::<master::PingReply<'_>>(body)?;
            let (path, cluster) = (reply.shared_path(), reply.shared_cluster());
            let found = path.zip(cluster).filter(|(path, _)| !path.is_empty());
            Ok(found.map(|(path, cluster)| OfferedDirectory {
                path: path.to_owned(),
                cluster: cluster.to_owned(),
                bytes: reply.shared_bytes(),
            }))
        })
    }

    /// Says goodbye: the master unmounts everything of this client at once. Waits at most
    /// [`LEAVE_DEADLINE`]: a master that does not hear it notices the silence.
    ///
    /// # Errors
    /// No answer in time.
    pub fn leave(&self) -> Result<(), CallError> {
        let client = self.options.client;
        let encode = |builder: &mut Builder| {
            let args =
                master::LeaveRequestArgs { client_high: client.high(), client_low: client.low() };
            let root = master::LeaveRequest::create(builder, &args);
            builder.finish_minimal(root);
        };
        self.call_within(LEAVE_DEADLINE, MessageKind::Leave, true, encode, |_| Ok(()))
    }

    /// Segments by name, or all of them. They come in pages, so one that is mounted between two of
    /// them may be there or not.
    ///
    /// # Errors
    /// No answer in time.
    pub fn segments(&self, names: &[&str]) -> Result<Vec<SegmentUse>, CallError> {
        Ok(self.list(names, false)?.segments)
    }

    /// All disks; what is used of one are the bytes of the copies on it. As
    /// [`MasterClient::segments`].
    ///
    /// # Errors
    /// No answer in time.
    pub fn disks(&self) -> Result<ListedDisks, CallError> {
        let SegmentPage { segments: mut disks, reports, .. } = self.list(&[], true)?;
        // An older master lists memory.
        disks.retain(|one| one.segment.kind == Some(SegmentKind::Disk));
        Ok(ListedDisks { disks, reports })
    }

    /// The tenants with quotas, bytes or objects, as many as an answer has room for; `None` where
    /// there are no quotas.
    ///
    /// # Errors
    /// No answer in time.
    pub fn tenants(&self) -> Result<Option<Vec<TenantUse>>, CallError> {
        let encode = |builder: &mut Builder| {
            let args = master::QuerySegmentsRequestArgs { tenants: true, ..Default::default() };
            let root = master::QuerySegmentsRequest::create(builder, &args);
            builder.finish_minimal(root);
        };
        self.call(MessageKind::QuerySegments, true, encode, tenant_uses)
    }

    /// All pages as one.
    fn list(&self, names: &[&str], disks: bool) -> Result<SegmentPage, CallError> {
        let mut whole = self.segment_page(names, 0, disks)?;
        let mut from = 0;
        // Numbers only grow, so a listing ends.
        while whole.next > from && whole.segments.len() <= SEGMENTS_LISTED_MAX {
            from = whole.next;
            let page = self.segment_page(names, from, disks)?;
            whole.segments.extend(page.segments);
            whole.next = page.next;
        }
        Ok(whole)
    }

    fn segment_page(
        &self,
        names: &[&str],
        from: u32,
        disks: bool,
    ) -> Result<SegmentPage, CallError> {
        let encode = |builder: &mut Builder| {
            let names = Some(strings(builder, names));
            let args = master::QuerySegmentsRequestArgs { names, from, disks, tenants: false };
            let root = master::QuerySegmentsRequest::create(builder, &args);
            builder.finish_minimal(root);
        };
        self.call(MessageKind::QuerySegments, true, encode, SegmentPage::decode)
    }
}
