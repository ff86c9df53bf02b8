//! Keywords of `mooncake.engine` and `mooncake.shared_segment`.

use super::vocabulary::{Vocabulary, WordKind};
use crate::mooncake::Entry;
use crate::mooncake::MooncakeEffect::{Honoured, NotBuilt, NotNeeded};

const TRANSFERS: &[Entry] = &[
    (&["target_hostname", "peer_server_name"], Honoured("segment of the peer")),
    (&["segment_name"], NotNeeded("no connection is made ahead of its first transfer")),
    (&["buffer", "buffers"], Honoured("addresses here")),
    (&["peer_buffer_address", "peer_buffer_addresses"], Honoured("addresses there")),
    (&["length", "lengths"], Honoured("bytes to move")),
    (&["opcode"], Honoured("read or write")),
    (&["notify"], Honoured("TransferNotify that the peer gets after a write")),
    (&["transport_hint"], Honoured("route: tcp, rdma or shm; others are refused by name")),
    (&["buffer_addr", "buffer_addresses"], Honoured("memory to register")),
    (&["capacity", "capacities"], Honoured("bytes of that memory")),
    (&["location"], Honoured("where it lies: cpu:N, cuda:N or *; others are refused by name")),
    (&["device_name"], Honoured("NICs that the topology is about")),
    (&["stream_ptr"], NotBuilt("transfers in order of a CUDA stream; refused with -303")),
];

const CALLS_OF_RPC: &[Entry] = &[
    (&["listen_address"], Honoured("address that is listened on")),
    (&["timeout_seconds"], Honoured("longest wait for a peer")),
    (&["pool_size"], Honoured("idle connections that are kept for each peer")),
    (&["thread_count"], NotNeeded("each connection has a thread")),
    (&["target_address"], Honoured("address of the peer")),
    (&["data", "tensor"], Honoured("what is sent")),
    (&["loop"], Honoured("event loop of the answer")),
];

const DEVICE: Entry = (&["device_id"], NotNeeded("memory of the host belongs to no device"));
const MMAP: Entry =
    (&["mmap"], Honoured("True, memory of the host; False, memory of an NPU, is refused"));
const REGISTERED: Entry =
    (&["host_register"], NotBuilt("pages are not registered with an NPU; True is refused"));

const SHARED_TENSORS: &[Entry] = &[
    (&["name"], Honoured("what the ranks agree on")),
    (&["blocks", "block"], Honoured("count, shape and dtype of tensors by name, and such a name")),
    (&["world_size", "rank_id"], Honoured("number of ranks, and the own one")),
    (&["owner_rank"], Honoured("rank that makes the memory")),
    (&["comm_group"], Honoured("process group of the ranks, or an object that has one")),
    (&["tp_group"], Honoured("older spelling of comm_group")),
    DEVICE,
    MMAP,
    REGISTERED,
];

const SHARED_MEMORY: &[Entry] = &[
    (&["name"], Honoured("what the ranks agree on")),
    (&["size"], Honoured("bytes to share")),
    (&["world_size", "rank_id"], Honoured("number of ranks, and the own one")),
    (&["owner_rank"], Honoured("rank that makes the memory")),
    (&["blobs"], Honoured("what create has returned to each rank")),
    DEVICE,
    MMAP,
    REGISTERED,
];

const RANKS: &str = "a client has no port, and no call asks how many ranks there are";

pub(super) const VOCABULARIES: &[Vocabulary] = &[
    Vocabulary { kind: WordKind::Keyword, taken_by: "TransferEngine", entries: TRANSFERS },
    Vocabulary {
        kind: WordKind::Keyword,
        taken_by: "TransferNotify",
        entries: &[(&["name", "msg"], Honoured("what the peer gets"))],
    },
    Vocabulary { kind: WordKind::Keyword, taken_by: "RpcInterface", entries: CALLS_OF_RPC },
    Vocabulary {
        kind: WordKind::Keyword,
        taken_by: "SharedSegment.create",
        entries: SHARED_MEMORY,
    },
    Vocabulary {
        kind: WordKind::Keyword,
        taken_by: "create_shared_segment",
        entries: SHARED_TENSORS,
    },
    Vocabulary {
        kind: WordKind::Keyword,
        taken_by: "create_rpc_server",
        entries: &[
            (&["local_rank"], Honoured("distance of the port from 8080")),
            (&["world_size"], NotNeeded(RANKS)),
        ],
    },
    Vocabulary {
        kind: WordKind::Keyword,
        taken_by: "create_rpc_client",
        entries: &[(&["local_rank", "world_size"], NotNeeded(RANKS))],
    },
];
