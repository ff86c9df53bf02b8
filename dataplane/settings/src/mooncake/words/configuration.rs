//! Keys of configuration files and dicts, also of those that clients read and hand on to `setup`.

use super::vocabulary::{Vocabulary, WordKind};
use crate::mooncake::Entry;
use crate::mooncake::MooncakeEffect::{Honoured, NotNeeded};

/// Keys of the dict that `setup` takes. The first name of a row is Mooncake's, the others are
/// other spellings of it.
pub const SETUP_KEYS: &[Entry] = &[
    (&["local_hostname"], Honoured("name of this client")),
    (&["metadata_server"], Honoured("P2PHANDSHAKE, or address of a metadata server")),
    (&["global_segment_size"], Honoured("memory to lend, also 4gb")),
    (&["local_buffer_size"], Honoured("size of the local buffer, also 1gb")),
    (&["protocol"], Honoured("tcp, rdma or shm; others are refused by name")),
    (&["rdma_devices", "device_name"], Honoured("RDMA devices to use")),
    (&["master_server_addr", "master_server_address"], Honoured("address of the master")),
    (
        &["ipc_socket_path"],
        NotNeeded("memory of this host needs no socket; setup_dummy finds a node by its port"),
    ),
    (&["enable_ssd_offload"], Honoured("keeps on disks what memory has no room for")),
    (&["ssd_offload_path"], Honoured("folder on a disk, or several and commas")),
    (&["tenant_id"], Honoured("tenant whose keys this client means")),
    (&["enable_client_http_server"], Honoured("health and metrics over HTTP")),
    (&["client_http_port"], Honoured("port of that")),
    // LMCache hands these on with all it was given.
    (&["transfer_timeout"], NotNeeded("LMCache's own; MC_TRANSFER_TIMEOUT is the store's")),
    (&["storage_root_dir"], NotNeeded("the master's root_fs_dir names that directory")),
];

pub(super) const VOCABULARIES: &[Vocabulary] = &[
    Vocabulary {
        kind: WordKind::Key,
        taken_by: "mooncake_master --config_path",
        entries: &[(
            &["client_live_ttl_sec"],
            Honoured("client_ttl; the other keys are the names of the flags, with their effects"),
        )],
    },
    Vocabulary {
        kind: WordKind::Key,
        taken_by: "mooncake_master --tenant_quota_connector_uri",
        entries: &[
            (&["version"], Honoured("1, the form of the file")),
            (&["tenants"], Honoured("list of tenants")),
            (&["name"], Honoured("name of a tenant")),
            (&["quota"], Honoured("bytes that its objects may have")),
        ],
    },
    Vocabulary {
        kind: WordKind::Key,
        taken_by: CONFIGURATION_FILE,
        entries: &[
            (&["local_hostname"], Honoured("name of this client")),
            (&["metadata_server"], Honoured("P2PHANDSHAKE, or address of a metadata server")),
            (&["master_server_address"], Honoured("address of the master")),
            (&["global_segment_size"], Honoured("memory to lend, also 4gb")),
            (&["local_buffer_size"], Honoured("size of the local buffer, also 1gb")),
            (&["protocol"], Honoured("tcp, rdma or shm; setup refuses others by name")),
            (&["device_name"], Honoured("RDMA devices to use")),
            (&["enable_ssd_offload"], Honoured("keeps on disks what memory has no room for")),
            (&["ssd_offload_path"], Honoured("folder on a disk, or several and commas")),
            (&["tenant_id"], Honoured("tenant whose keys this client means")),
            (&["enable_client_http_server"], Honoured("health and metrics over HTTP")),
            (&["client_http_port"], Honoured("port of that")),
        ],
    },
    Vocabulary { kind: WordKind::Key, taken_by: "setup(dict)", entries: SETUP_KEYS },
    Vocabulary {
        kind: WordKind::Key,
        taken_by: "SGLang: extra config and file of HiCache",
        entries: &[
            (&["local_hostname"], Honoured("setup keyword local_hostname")),
            (&["metadata_server"], Honoured("setup keyword metadata_server")),
            (&["global_segment_size"], Honoured("setup keyword global_segment_size")),
            (&["protocol"], Honoured("setup keyword protocol")),
            (&["device_name"], Honoured("setup keyword rdma_devices")),
            (&["master_server_address"], Honoured("setup keyword master_server_addr")),
            (&["enable_ssd_offload"], Honoured("setup keyword enable_ssd_offload")),
            (&["ssd_offload_path"], Honoured("setup keyword ssd_offload_path")),
            (&["tenant_id"], Honoured("setup keyword tenant_id")),
            (&["check_server"], Honoured("route /get_all_segments, until it names a segment")),
            (&["master_metrics_port"], Honoured("route /get_all_segments at this port")),
            (&["standalone_storage"], Honoured("call setup_dummy instead of setup")),
            (&["client_server_address"], Honoured("setup_dummy keyword server_address")),
        ],
    },
    Vocabulary {
        kind: WordKind::Key,
        taken_by: "vLLM: file of MooncakeStoreConnector",
        entries: &[
            (&["metadata_server"], Honoured("setup keyword metadata_server")),
            (&["master_server_address"], Honoured("setup keyword master_server_addr")),
            (&["protocol"], Honoured("setup keyword protocol")),
            (&["device_name"], Honoured("setup keyword rdma_devices")),
            (&["global_segment_size"], Honoured("setup keyword global_segment_size")),
            (&["local_buffer_size"], Honoured("setup keyword local_buffer_size")),
            (&["tenant_id"], Honoured("setup keyword tenant_id")),
            (&["mode"], Honoured("setup keyword global_segment_size: 0 for standalone-store")),
            (
                &["enable_offload", "enable_ssd_offload", "ssd_offload_path"],
                NotNeeded("vLLM hands none of it on: a mooncake_client of the host has the disks"),
            ),
        ],
    },
    Vocabulary {
        kind: WordKind::Key,
        taken_by: "LMCache: extra_config",
        entries: &[
            (&["local_hostname"], Honoured("setup key local_hostname")),
            (&["metadata_server"], Honoured("setup key metadata_server")),
            (&["master_server_address"], Honoured("setup key master_server_address")),
            (&["global_segment_size"], Honoured("setup key global_segment_size")),
            (&["local_buffer_size"], Honoured("setup key local_buffer_size")),
            (&["protocol"], Honoured("setup key protocol")),
            (&["device_name"], Honoured("setup key device_name")),
            (&["prefer_local_alloc"], Honoured("ReplicateConfig keyword preferred_segment")),
            (
                &["transfer_timeout", "storage_root_dir"],
                NotNeeded("setup key of the same name, which has no effect and gives a line"),
            ),
        ],
    },
];

/// Where a `MooncakeConfig` comes from.
const CONFIGURATION_FILE: &str = "MOONCAKE_CONFIG_PATH and mc_store_rest_server --config";
