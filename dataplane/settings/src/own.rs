//! Variables of Perigee itself that one program or part reads, beside those that several read and
//! those of flags. Invariant: a row is there if and only if code reads its variable
//! (`tests/mooncake.rs` looks).

use crate::table::TABLE;

/// Name, and what it sets.
const OF_ONE_PART: &[(&str, &str)] = &[
    ("MC_METADATA_HTTP_TOKEN", "bearer token sent to an HTTP metadata server"),
    ("MOONCAKE_OFFLOAD_FILE_STORAGE_PATHS", "folders on disks"),
    ("PERIGEE_ACTIVITY_DIR", "folder of the pages that the agent reads"),
    ("PERIGEE_BIN", "program file that the console scripts start"),
    ("PERIGEE_CLIENT_SHARDS", "shards that move slices over TCP"),
    ("PERIGEE_DATA_CPUS", "processors of the shards that serve lent memory"),
    ("PERIGEE_DATA_SHARDS", "shards that serve lent memory"),
    ("PERIGEE_ENGINE_SHARDS", "shards that serve peers of an engine"),
    ("PERIGEE_ETCD_PASSWORD", "password of the etcd user"),
    ("PERIGEE_ETCD_USERNAME", "etcd user"),
    ("PERIGEE_LOG", "what is logged, by module"),
    ("PERIGEE_LOG_FORMAT", "form of a log line"),
    ("PERIGEE_METADATA_CA_FILE", "certificates of metadata servers that are trusted"),
    ("PERIGEE_METADATA_CERT_FILE", "certificate that is shown to metadata servers"),
    ("PERIGEE_METADATA_KEY_FILE", "key of that certificate"),
    ("PERIGEE_METADATA_TIMEOUT_MS", "longest wait for a metadata server"),
    ("PERIGEE_METADATA_TTL_SECONDS", "how long entries outlive their process"),
    ("PERIGEE_RAIL_CPUS", "processors of the shards that drive NICs"),
    ("PERIGEE_REACTOR", "what shards run on"),
    ("PERIGEE_RPC_TIMEOUT_MS", "longest call to the master"),
    ("PERIGEE_SAME_PROCESS", "direct copies to segments of the same process"),
    ("PERIGEE_SERVE_MOONCAKE", "whether Mooncake's engines are served"),
    ("PERIGEE_SSD_KEY_FILE", "key that disks are encrypted with"),
    ("PERIGEE_STRICT_SEGMENT", "refusal to lend less memory than was asked for"),
    ("PERIGEE_TRANSFER_CHECKSUM", "checksum of every piece of an engine"),
];

/// Names of all variables that Perigee reads and Mooncake does not, and of those that have a row in
/// [`TABLE`]; flags have theirs by their program's prefix.
pub fn own_variables() -> impl Iterator<Item = &'static str> {
    OF_ONE_PART.iter().map(|(name, _)| *name).chain(TABLE.iter().map(|row| row.name))
}
