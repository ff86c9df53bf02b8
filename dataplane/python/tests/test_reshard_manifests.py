"""Manifests of weights: what they accept, what they refuse, and that they read as Mooncake's."""

import json
import pickle
from dataclasses import replace

import pytest
from reshard_case import SHARED, placement, ranks, shard, stored, tensor, topology

from mooncake.reshard.contracts import RuntimeBindingFragment, canonical_strides_bytes
from mooncake.reshard.weight import (
    OwnershipAxis,
    ParallelRank,
    PlacementFragment,
    ReplicatedAxis,
    SplitAxis,
    WeightManifest,
    WeightPlacementManifest,
    WeightRuntimeBindingManifest,
    validate_runtime_binding,
    validate_runtime_bindings,
    weight_placement_from_json,
    weight_placement_to_json,
)

# What Mooncake 0.3.13 says of the same manifests.
TOPOLOGY = "sha256:07e5e01f67875737a95c19b31ba1cec8a5fae417a000431e6779283f1e65ca16"
PLACEMENT = "sha256:71da8ab204e7af18ba54e940db2885633f1fbddc4bee8bbff6f33a518fbe9c7b"
DIGEST = "45cfb6a4e91cf90bb84415db7ea54b92f960c36f5915841b5b47c336da101503"
FRAGMENT = "sha256:07397fdf12387899945f8ce3bfc68b0879f65b60a4398f70bdc0ff59b92792f5"
STORED = "90b9d8c4278dc1ddcd272434ca298afd3f39b8eab31632fa44270efe8a46b4cc"


def test_identities_are_those_of_mooncake():
    whole = placement("source", tp=2, dp=2, pp=2)
    found = (whole.topology.topology_id, whole.placement_id, whole.digest)
    assert found == (TOPOLOGY, PLACEMENT, DIGEST)
    assert whole.fragments[0].fragment_id == FRAGMENT
    assert stored().manifest_digest == STORED


def test_json_round_trips():
    whole, objects = placement("source", tp=2, pp=2), stored()
    assert weight_placement_from_json(weight_placement_to_json(whole)) == whole
    assert WeightManifest.from_json(objects.to_json()) == objects


def without(form, name):
    return {key: value for key, value in form.items() if key != name}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda form: {**form, "more": 1}, "schema fields"),
        (lambda form: without(form, "parts"), "schema fields"),
        (lambda form: {**form, "resource_kind": "kv_cache"}, "resource_kind"),
        (lambda form: {**form, "weight_generation": 1.0}, "integer"),
        (lambda form: {**form, "placement_id": "sha256:0"}, "canonical"),
        (lambda form: {**form, "parts": form["parts"][:1]}, "missing topology participant"),
    ],
)
def test_json_of_another_form_or_content_is_refused(change, message):
    form = json.loads(weight_placement_to_json(placement("source", tp=2)))
    with pytest.raises(ValueError, match=message):
        weight_placement_from_json(json.dumps(change(form)))


@pytest.mark.parametrize("text", ["[]", "{", '{"a": NaN}', '{"a": 1, "a": 2}'])
def test_text_that_is_no_plain_json_object_is_refused(text):
    with pytest.raises(ValueError, match="JSON"):
        weight_placement_from_json(text)
    with pytest.raises(ValueError, match="JSON"):
        WeightManifest.from_json(text)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"global_shape": ()}, "must not be empty"),
        ({"global_shape": (8, True, 4)}, "integer"),
        ({"itemsize": 0}, "itemsize"),
        ({"dtype": ""}, "dtype"),
        ({"shard_dims": (1,)}, "shard_dims"),
        ({"parallel_axes": (SplitAxis("tp", 0), ReplicatedAxis("tp"))}, "duplicate"),
        ({"parallel_axes": (SplitAxis("ep", 0),), "expert_id": 1}, "explicit EP ownership"),
    ],
)
def test_impossible_tensors_are_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        tensor(**changes)


def place(fragments, tensors, **sizes):
    return WeightPlacementManifest.from_fragments(
        **SHARED,
        placement_set_id="set",
        topology=topology("worker", **sizes),
        tensors=tensors,
        fragments=fragments,
    )


def shards(of, tp=2, dp=1):
    return [shard(of, rank, tp, 0) for rank in ranks(tp, dp, 1)]


def test_a_placement_holds_every_tensor_whole_and_once():
    of = tensor()
    place(shards(of), [of], tp=2)
    for wrong, message in (
        (shards(of)[:1], "not fully covered"),
        ([*shards(of), shards(of)[0]], "duplicate"),
        ([replace(shards(of)[0], nbytes=2), shards(of)[1]], "byte size"),
        ([shards(of)[0], replace(shards(of)[1], global_offset=(5, 0, 0))], "out of bounds"),
    ):
        with pytest.raises(ValueError, match=message):
            place(wrong, [of], tp=2)


def test_a_replica_must_be_on_each_rank_that_the_axis_names():
    of = tensor()
    place(shards(of, dp=2), [of], tp=2, dp=2)
    with pytest.raises(ValueError, match="replicated-axis"):
        place(shards(of), [of], tp=2, dp=2)


def test_split_ranks_hold_intervals_of_the_dimension_that_the_axis_names():
    of = tensor(parallel_axes=(SplitAxis("tp", 0),))
    across = [
        PlacementFragment(of.tensor_id, (0, 8 * rank.tp, 0), (8, 8, 4), 512, rank)
        for rank in ranks(2, 1, 1)
    ]
    with pytest.raises(ValueError, match="split-axis rank geometry"):
        place(across, [of], tp=2)


def test_an_axis_that_a_tensor_does_not_declare_must_not_decide():
    of = tensor(parallel_axes=(SplitAxis("tp", 0),))
    with pytest.raises(ValueError, match="undeclared dp axis"):
        place(shards(of), [of], tp=2, dp=2)
    owned = tensor(parallel_axes=(SplitAxis("tp", 0), OwnershipAxis("dp")))
    place(shards(owned), [owned], tp=2, dp=2)


def bind(whole, address=1 << 20, part=0, instance="job", **changes):
    """Memory for one part of a placement: fragments one after the other."""
    part = whole.parts[part]
    memory = []
    for fragment in part.fragments:
        values = {
            "placement_fragment_id": fragment.fragment_id,
            "fragment_id": f"{part.participant_id}/{fragment.fragment_id}",
            "address": address,
            "nbytes": fragment.nbytes,
            "worker_id": "worker",
            "endpoint": "127.0.0.1:1",
            "device": "cpu",
            "itemsize": 2,
            "local_shape": fragment.local_shape,
            "strides_bytes": canonical_strides_bytes(fragment.local_shape, 2),
            "storage_address": address,
            "storage_nbytes": fragment.nbytes,
            "storage_offset_bytes": 0,
        }
        memory.append(RuntimeBindingFragment(**{**values, **changes}, owner=object()))
        address += fragment.nbytes
    return WeightRuntimeBindingManifest(
        whole.resource_id, whole.placement_id, whole.digest, instance, 1, "lease",
        whole.revision, part.participant_id, tuple(memory),
    )  # fmt: skip


def test_memory_that_fits_is_accepted_and_its_owner_stays_in_this_process():
    whole = placement("target", tp=2)
    first = bind(whole)
    validate_runtime_binding(whole, first)
    validate_runtime_bindings(whole, (first, bind(whole, 1 << 30, part=1)))
    copied = pickle.loads(pickle.dumps(first))
    assert copied == first and copied.fragments[0].owner is None


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"itemsize": 4}, "itemsize"),
        ({"local_shape": (4, 4, 16)}, "local_shape"),
        ({"strides_bytes": (128, 8, 4)}, "stride"),
    ],
)
def test_memory_of_another_form_is_refused(changes, message):
    whole = placement("target", tp=2)
    with pytest.raises(ValueError, match=message):
        validate_runtime_binding(whole, bind(whole, **changes))


def test_bindings_are_of_this_placement_complete_and_do_not_share_memory():
    whole, other = placement("target", tp=2), placement("other", tp=2)
    first = bind(whole)
    with pytest.raises(ValueError, match="placement_id differ"):
        validate_runtime_binding(other, first)
    with pytest.raises(ValueError, match="missing runtime binding participant"):
        validate_runtime_bindings(whole, (first,))
    with pytest.raises(ValueError, match="duplicate runtime binding participant"):
        validate_runtime_bindings(whole, (first, first))
    with pytest.raises(ValueError, match="address ranges overlap"):
        validate_runtime_bindings(whole, (first, bind(whole, part=1)))
    validate_runtime_bindings(whole, (first, bind(whole, part=1, instance="another")))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda it: {"fragments": it.fragments[1:]}, "not fully covered"),
        (lambda it: {"fragments": (*it.fragments, it.fragments[0])}, "duplicate"),
        (lambda it: {"manifest_key": "other/manifest"}, "group"),
        (
            lambda it: {"fragments": tuple(replace(one, object_offset=0) for one in it.fragments)},
            "object ranges overlap",
        ),
    ],
)
def test_stored_weights_are_whole_and_share_no_bytes(change, message):
    with pytest.raises(ValueError, match=message):
        stored(**change(stored()))


def test_ranks_are_whole_numbers_within_the_topology():
    with pytest.raises(ValueError, match="integer"):
        ParallelRank(tp=True)
    with pytest.raises(ValueError, match="tp rank is out of range"):
        replace(topology("worker", tp=2), tp_size=1, topology_id=None)
