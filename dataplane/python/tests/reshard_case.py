"""Small placements for the tests of `mooncake.reshard`: three tensors, split, replicated, owned."""

from math import prod

from mooncake.reshard.weight import (
    OwnershipAxis,
    ParallelRank,
    ParallelTopology,
    PlacementFragment,
    ReplicatedAxis,
    SplitAxis,
    StoredFragment,
    TensorDescriptor,
    TopologyParticipant,
    WeightManifest,
    WeightPlacementManifest,
)

SHAPE = (8, 16, 4)
ITEM_BYTES = 2
TENSORS = 3
SHARED = {"resource_id": "model", "revision": "step-1", "weight_generation": 3}


def tensor(number=0, split_dim=0, **changes):
    """A tensor that TP ranks split, DP ranks replicate and PP ranks own."""
    axes = (SplitAxis("tp", split_dim), ReplicatedAxis("dp"), OwnershipAxis("pp"))
    values = {
        "tensor_id": f"layer.{number}.wé",
        "global_shape": SHAPE,
        "dtype": "bfloat16",
        "itemsize": ITEM_BYTES,
        "shard_dims": (split_dim,),
        "layout_fingerprint": "row-major",
        "parallel_axes": axes,
        "layer_id": number,
    }
    return TensorDescriptor(**{**values, **changes})


def ranks(tp, dp, pp):
    return [ParallelRank(dp=d, tp=t, pp=p) for d in range(dp) for p in range(pp) for t in range(tp)]


def topology(name, tp=1, dp=1, pp=1):
    workers = [TopologyParticipant(f"{name}-{at}", it) for at, it in enumerate(ranks(tp, dp, pp))]
    return ParallelTopology(
        tp_size=tp, pp_size=pp, ep_size=1, dp_size=dp, participants=tuple(workers)
    )


def shard(of, rank, tp, split_dim, **changes):
    """The part of a tensor that a TP rank holds."""
    offset, shape = [0, 0, 0], list(SHAPE)
    shape[split_dim] //= tp
    offset[split_dim] = shape[split_dim] * rank.tp
    size = prod(shape) * ITEM_BYTES
    return PlacementFragment(of.tensor_id, tuple(offset), tuple(shape), size, rank, **changes)


def placement(name, tp=1, dp=1, pp=1, split_dim=0):
    """All tensors on all ranks; tensor `n` belongs to pipeline stage `n % pp`."""
    tensors = [tensor(number, split_dim) for number in range(TENSORS)]
    fragments = [
        shard(it, rank, tp, split_dim)
        for number, it in enumerate(tensors)
        for rank in ranks(tp, dp, pp)
        if rank.pp == number % pp
    ]
    return WeightPlacementManifest.from_fragments(
        **SHARED,
        placement_set_id=name,
        topology=topology(name, tp, dp, pp),
        tensors=tensors,
        fragments=fragments,
    )


def stored(**changes):
    """The tensors as objects: two fragments, one behind the other, in one object each."""
    tensors = tuple(tensor(number) for number in range(TENSORS))
    half = (SHAPE[0] // 2, *SHAPE[1:])
    size = prod(half) * ITEM_BYTES
    fragments = tuple(
        StoredFragment(
            f"{it.tensor_id}/{at}", it.tensor_id, (at * half[0], 0, 0), half,
            f"group/payload/{it.tensor_id}", at * size, size,
        )
        for it in tensors
        for at in range(2)
    )  # fmt: skip
    values = {
        "namespace": "default",
        **SHARED,
        "group_id": "group",
        "manifest_key": "group/manifest",
        "tensors": tensors,
        "fragments": fragments,
        "created_at": "2026-01-01T00:00:00Z",
    }
    return WeightManifest(**{**values, **changes})
