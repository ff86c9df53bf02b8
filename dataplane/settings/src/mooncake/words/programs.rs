//! Options of Mooncake's Python programs, and switches of gflags that no table of flags has.

use super::vocabulary::{Vocabulary, WordKind};
use crate::mooncake::MooncakeEffect::{Honoured, NotBuilt, NotNeeded};

pub(super) const VOCABULARIES: &[Vocabulary] = &[
    Vocabulary {
        kind: WordKind::Flag,
        taken_by: "mc_store_rest_server",
        entries: &[
            (&["config"], Honoured("file of MooncakeConfig; the environment without it")),
            (&["define"], Honoured("-DKEY=VALUE: a key of that file")),
            (&["port"], Honoured("port of the HTTP routes")),
            (&["max-wait-time"], Honoured("seconds to go on trying to reach the cluster")),
        ],
    },
    Vocabulary {
        kind: WordKind::Flag,
        taken_by: "transfer_engine_topology_dump",
        entries: &[
            (&["device-name"], Honoured("only these NICs")),
            (&["backend"], Honoured("te is the form of the output; tent is refused")),
            (&["use-custom-topo"], Honoured("prints the matrix in MC_CUSTOM_TOPO_JSON")),
            (&["custom-topo-json"], Honoured("prints the matrix in this file")),
        ],
    },
    Vocabulary {
        kind: WordKind::Flag,
        taken_by: "mooncake.vllm_v1_proxy_server",
        entries: &[
            (&["host"], Honoured("address to listen on")),
            (&["port"], Honoured("port to listen on")),
            (&["prefiller-hosts", "prefiller-host"], Honoured("hosts that prefill")),
            (&["prefiller-ports", "prefiller-port"], Honoured("their ports")),
            (&["decoder-hosts", "decoder-host"], Honoured("hosts that decode")),
            (&["decoder-ports", "decoder-port"], Honoured("their ports")),
        ],
    },
    Vocabulary {
        kind: WordKind::Flag,
        taken_by: GFLAGS,
        entries: &[
            (
                &["help", "helpfull", "helppackage", "helpshort"],
                Honoured("prints all flags of the program"),
            ),
            (&["helpmatch", "helpon"], Honoured("prints the flags in whose lines a word occurs")),
            (&["version"], Honoured("prints name and version")),
            (&["helpxml"], NotBuilt("help as XML; refused as unknown")),
            (
                &["tab_completion_columns", "tab_completion_word"],
                NotNeeded("written by a shell's completion script of gflags; refused as unknown"),
            ),
        ],
    },
];

/// Programs that take the switches of glog and gflags.
pub const GFLAGS: &str = "mooncake_master, mooncake_client and transfer_engine_bench";
