//! What callers hand to the store and get back. Buffers are raw addresses: the caller keeps them
//! alive and unshared for the length of the call.

use perigee_schemas::{Identity, SegmentKind, Status};
use std::env;

pub use crate::disks::DiskSettings;
pub use perigee_rpc::WriteForm;
pub use perigee_ssd::StorageKey;

/// Environment variable with the `host:port` of the master.
pub const MASTER_VARIABLE: &str = "MOONCAKE_MASTER";

/// Environment variable with the tenant of clients that name none.
pub const TENANT_VARIABLE: &str = "MOONCAKE_TENANT_ID";

/// Contiguous bytes of the caller that a put reads or a get fills.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallerRange {
    /// Address of the first byte.
    pub address: usize,
    /// Length in bytes.
    pub bytes: usize,
    pub(crate) is_named: bool,
}

impl CallerRange {
    /// Memory that the caller is known to have, such as an object of its language; used as it is.
    #[must_use]
    pub fn owned(address: usize, bytes: usize) -> Self {
        debug_assert!(address.checked_add(bytes).is_some(), "no object lies across the end");
        Self { address, bytes, is_named: false }
    }

    /// An address from the caller: memory of this host, of a device, or neither. It is checked
    /// before it is used.
    #[must_use]
    pub fn named(address: usize, bytes: usize) -> Self {
        Self { address, bytes, is_named: true }
    }

    /// [`CallerRange::named`] of numbers from another language.
    ///
    /// # Errors
    /// `InvalidParams`: no memory can be there.
    pub fn possible(address: u64, bytes: u64) -> Result<Self, Status> {
        let is_possible = address != 0 && bytes != 0 && address.checked_add(bytes).is_some();
        match (usize::try_from(address), usize::try_from(bytes)) {
            (Ok(address), Ok(bytes)) if is_possible && isize::try_from(bytes).is_ok() => {
                Ok(Self::named(address, bytes))
            }
            _ => {
                // Nothing to read is a common mistake and says enough by its code.
                if bytes != 0 {
                    tracing::warn!("There can be no memory of {bytes} bytes at {address:#x}");
                }
                Err(Status::InvalidParams)
            }
        }
    }
}

/// One object to store: its payload is the concatenation of the pieces.
#[derive(Clone, Debug)]
pub struct PutRequest<'a> {
    /// Key of the object, in the tenant of the client.
    pub key: &'a str,
    /// Where the payload lies, in order.
    pub pieces: &'a [CallerRange],
    /// Group of the object, if any.
    pub group: Option<&'a str>,
}

/// One object to read whole: its payload is spread over the pieces in order.
#[derive(Clone, Debug)]
pub struct GetRequest<'a> {
    /// Key of the object, in the tenant of the client.
    pub key: &'a str,
    /// Where the payload goes; room for less than the object is an error, more is allowed.
    pub pieces: &'a [CallerRange],
}

/// One range of an object to read.
#[derive(Clone, Debug)]
pub struct RangeRequest<'a> {
    /// Key of the object, in the tenant of the client.
    pub key: &'a str,
    /// First byte of the object to read.
    pub source_offset: u64,
    /// Where the bytes go.
    pub target: CallerRange,
}

/// What to do with the soft pin of an object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SoftPinAction {
    /// Leave it is.
    #[default]
    Preserve,
    /// Pin it.
    Enable,
    /// Unpin it.
    Disable,
}

/// How objects are placed and kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplicateConfig {
    /// Copies wanted, on distinct segments; fewer are accepted if the cluster has no more room.
    pub replica_num: u32,
    /// Soft pin.
    pub soft_pin_action: SoftPinAction,
    /// Length of the soft pin in milliseconds; `None` is the master's default.
    pub soft_pin_ttl_ms: Option<u64>,
    /// Soft pin in the words of older clients.
    pub with_soft_pin: bool,
    /// Never evict.
    pub with_hard_pin: bool,
    /// Names of segments to try first, in order.
    pub preferred_segments: Vec<String>,
    /// Put the whole batch on one segment if it fits.
    pub prefer_alloc_in_same_node: bool,
    /// What the bytes are, for statistics (Mooncake's `ObjectDataType`).
    pub data_type: u8,
}

impl Default for ReplicateConfig {
    fn default() -> Self {
        Self {
            replica_num: 1,
            soft_pin_action: SoftPinAction::Preserve,
            soft_pin_ttl_ms: None,
            with_soft_pin: false,
            with_hard_pin: false,
            preferred_segments: Vec::new(),
            prefer_alloc_in_same_node: false,
            data_type: 0,
        }
    }
}

/// Where one replica of an object lies, as shown to users.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplicaInfo {
    /// Mooncake's `ReplicaStatus`: 0 undefined, 1 initialized, 2 processing, 3 complete, 4 removed,
    /// 5 failed.
    pub status: u8,
    /// Payload bytes.
    pub bytes: u64,
    /// Address of the payload in its owner.
    pub address: u64,
    /// Name of the segment (`host:port`).
    pub transport_endpoint: String,
    /// Protocol of the segment.
    pub protocol: String,
    /// Memory, or its owner's disk: there the address says nothing. `None` is a kind that this
    /// build does not know.
    pub kind: Option<SegmentKind>,
}

/// What the caller chooses at set-up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreConfig {
    /// Host, or host and port, this client is known by; without a port one is chosen.
    pub local_hostname: String,
    /// `P2PHANDSHAKE`, or a service: `http://host:port/metadata`, `etcd://host:port`,
    /// `redis://host:port`.
    pub metadata_server: String,
    /// Bytes of memory to donate; 0 donates none.
    pub global_segment_bytes: u64,
    /// Bytes for copying calls; 0 refuses `put` and `get` of bytes as Mooncake does.
    pub local_buffer_bytes: u64,
    /// `tcp` or `rdma`; `rdma` falls back to TCP where a host or a peer has none, others with a
    /// warning.
    pub protocol: String,
    /// RDMA devices: names, a map from rank to names, or the path of a file with such a map; empty
    /// for all.
    pub device_name: String,
    /// `host:port` of the master.
    pub master_server_address: String,
    /// Tenant whose keys this client means, a name of at most 64 printable characters; empty is
    /// `default`. A client sees and removes keys of its own tenant only.
    pub tenant_id: String,
    /// Serve `/health` and `/metrics` on this port.
    pub http_port: Option<u16>,
    /// Disks for objects that memory has no room for, with the directory that all hosts share if
    /// the master has one; `None` for none of all these. They are used only if the master has
    /// `--enable_offload` or `--root_fs_dir`.
    pub disks: Option<DiskSettings>,
}

/// What programs that say nothing else mean: a client that lends nothing, with a master on this
/// host.
impl Default for StoreConfig {
    fn default() -> Self {
        Self {
            local_hostname: "localhost".to_owned(),
            metadata_server: "P2PHANDSHAKE".to_owned(),
            global_segment_bytes: 0,
            local_buffer_bytes: 16 << 20,
            protocol: "tcp".to_owned(),
            device_name: String::new(),
            master_server_address: "127.0.0.1:50051".to_owned(),
            tenant_id: "default".to_owned(),
            http_port: None,
            disks: None,
        }
    }
}

impl StoreConfig {
    /// The master that the environment names.
    #[must_use]
    pub fn master_of_environment() -> Option<String> {
        env::var(MASTER_VARIABLE).ok().filter(|master| !master.is_empty())
    }

    /// The tenant that the environment names; empty is the default one.
    #[must_use]
    pub fn tenant_of_environment() -> String {
        env::var(TENANT_VARIABLE).unwrap_or_default()
    }

    /// The tenant that a caller names, else the one of the environment.
    #[must_use]
    pub fn tenant_or_environment(named: &str) -> String {
        match named {
            "" => Self::tenant_of_environment(),
            named => named.to_owned(),
        }
    }

    /// A client for tests on one host: lends `segment_bytes`, and takes master and tenant of the
    /// environment if that names them.
    #[must_use]
    pub fn one_host(protocol: &str, device_name: &str, segment_bytes: u64) -> Self {
        let usual = Self::default();
        Self {
            global_segment_bytes: segment_bytes,
            protocol: protocol.to_owned(),
            device_name: device_name.to_owned(),
            master_server_address: Self::master_of_environment()
                .unwrap_or_else(|| usual.master_server_address.clone()),
            tenant_id: Self::tenant_of_environment(),
            ..usual
        }
    }
}

/// Identity of a mounted segment, as `mount_segment` returns it.
pub type SegmentId = Identity;
