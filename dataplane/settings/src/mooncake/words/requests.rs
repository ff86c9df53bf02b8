//! Words of HTTP requests beside the parameters of the master's routes, which `perigee-admin` has.

use super::vocabulary::{Vocabulary, WordKind};
use crate::mooncake::Entry;
use crate::mooncake::MooncakeEffect::{Honoured, NotNeeded};

const SIZE: Entry = (&["size"], Honoured("bytes to lend"));
const PROTOCOL: Entry = (&["protocol"], NotNeeded("a segment has the protocols of its store"));
const LOCATION: Entry =
    (&["location"], Honoured("cpu:N is memory of that NUMA node; another one gives a line"));
const SEGMENTS: Entry = (&["segment_ids"], Honoured("segments that are withdrawn"));
const GRACE: Entry = (&["grace_period_seconds"], Honoured("seconds for which they stay readable"));
const OFFSET: Entry = (&["offset"], Honoured("where the lent bytes begin"));

const fn fields(taken_by: &'static str, entries: &'static [Entry]) -> Vocabulary {
    Vocabulary { kind: WordKind::Parameter, taken_by, entries }
}

pub(super) const VOCABULARIES: &[Vocabulary] = &[
    fields("metadata server: /metadata", &[(&["key"], Honoured("name of the record"))]),
    fields(
        "mooncake_master: POST /api/v1/drain_jobs",
        &[
            (&["segments"], Honoured("segments to empty")),
            (&["target_segments"], Honoured("segments that take the objects; any without it")),
            (&["max_concurrency"], Honoured("objects that are moved at a time")),
        ],
    ),
    fields(
        "mooncake_master: PUT /api/v1/tenant_quotas",
        &[(&["requested_quota_bytes"], Honoured("bytes that the objects of the tenant may have"))],
    ),
    fields(
        "mc_store_rest_server: PUT /api/put",
        &[(&["key"], Honoured("name of the object")), (&["value"], Honoured("its text"))],
    ),
    fields("mc_store_rest_server: POST /api/mount", &[SIZE, PROTOCOL, LOCATION]),
    fields("mc_store_rest_server: POST /api/unmount", &[SEGMENTS, GRACE]),
    fields(
        "mc_store_rest_server: POST /api/mount_shm",
        &[(&["name"], Honoured("shared-memory object")), OFFSET, SIZE, PROTOCOL, LOCATION],
    ),
    fields("mc_store_rest_server: POST /api/unmount_shm", &[SEGMENTS, GRACE]),
    fields("mc_store_rest_server: POST /api/unmount_local_disk", &[GRACE]),
    fields(
        "mc_store_rest_server: POST /api/reconfigure",
        &[
            (&["mode"], Honoured("decode lends a file, prefill takes it back")),
            (&["path"], Honoured("file to lend")),
            OFFSET,
            SIZE,
            PROTOCOL,
            LOCATION,
        ],
    ),
];
