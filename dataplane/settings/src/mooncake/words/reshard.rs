//! Keywords of `mooncake.reshard`, whose plans and manifests have Mooncake's JSON and digests.

use super::vocabulary::{Vocabulary, WordKind};
use crate::mooncake::Entry;
use crate::mooncake::MooncakeEffect::Honoured;

const RESHARD: &[Entry] = &[
    (
        &["namespace", "resource_id", "revision", "group_id", "manifest_key", "created_at"],
        Honoured("which weights these are, and where their manifest lies"),
    ),
    (
        &["weight_generation", "generation", "instance_id", "lease_id", "placement_digest"],
        Honoured("which load of the weights, and who has it"),
    ),
    (
        &["tp", "pp", "ep", "dp", "tp_size", "pp_size", "ep_size", "dp_size", "rank"],
        Honoured("place of a rank along the parallel axes, and their sizes"),
    ),
    (
        &["topology", "topology_id", "participants", "participant_id"],
        Honoured("the ranks that hold the weights, and one of them"),
    ),
    (
        &["tensors", "tensor_id", "dtype", "itemsize", "layer_id", "expert_id"],
        Honoured("what a tensor is"),
    ),
    (
        &["layout_fingerprint", "parallel_axes", "shard_dims", "kind", "dim"],
        Honoured("how a tensor is laid out and split"),
    ),
    (
        &[
            "global_shape",
            "global_offset",
            "local_shape",
            "shape",
            "outer_offset",
            "outer_shape",
            "inner_offset",
            "inner_shape",
            "container_offset",
            "container_shape",
            "overlap_offset",
            "overlap_shape",
            "boxes",
            "regions",
        ],
        Honoured("boxes within a tensor"),
    ),
    (
        &["fragments", "fragment_id", "aliases", "pipeline_stage_id"],
        Honoured("parts of tensors that a rank holds"),
    ),
    (
        &[
            "parts",
            "placement",
            "placement_id",
            "placement_set_id",
            "placement_fragment_id",
            "placement_fragment_ids",
        ],
        Honoured("which rank holds which parts"),
    ),
    (
        &[
            "binding",
            "bindings",
            "address",
            "nbytes",
            "device",
            "endpoint",
            "worker_id",
            "strides_bytes",
            "storage_address",
            "storage_nbytes",
            "storage_offset_bytes",
            "owner",
        ],
        Honoured("where a part lies in the memory of a process"),
    ),
    (&["object_key", "object_offset"], Honoured("where a part lies in the store")),
    (
        &[
            "source",
            "source_placement",
            "source_manifest",
            "source_tensors",
            "source_executors",
            "source_pp",
            "source_pipeline_stage_id",
        ],
        Honoured("what a plan reads"),
    ),
    (
        &[
            "target",
            "target_placement",
            "target_participant_id",
            "target_tensors",
            "target_executors",
            "target_pp",
            "target_pipeline_stage_id",
        ],
        Honoured("what a plan fills"),
    ),
    (
        &[
            "operations",
            "operation_indices",
            "executor",
            "side",
            "source_base_offset",
            "source_strides",
            "target_base_offset",
            "target_strides",
            "inner_bytes",
            "outer_loop_counts",
        ],
        Honoured("the copies of a plan"),
    ),
    (
        &[
            "planning_limits",
            "max_transfer_regions",
            "max_segments_per_region",
            "max_total_lowered_segments",
            "max_segments",
        ],
        Honoured("bounds of a plan; a larger one is refused"),
    ),
    (&["value", "raw"], Honoured("JSON of a manifest or placement")),
];

pub(super) const VOCABULARIES: &[Vocabulary] =
    &[Vocabulary { kind: WordKind::Keyword, taken_by: "mooncake.reshard", entries: RESHARD }];
