"""Plans: copied byte by byte they give what the target placement says, and bad ones are refused."""

import itertools
import pickle
import random
from dataclasses import replace
from math import prod

import pytest
from reshard_case import ITEM_BYTES, SHAPE, placement, stored, tensor

from mooncake.reshard.weight import (
    LogicalTransferPlan,
    PlanningLimits,
    plan_placement_transfer,
    plan_placement_transfer_to_local_target,
    plan_stored_transfer_to_target_placement,
)

LAYOUTS = [
    {"tp": 1},
    {"tp": 2, "split_dim": 1},
    {"tp": 4, "dp": 2, "pp": 2},
    {"tp": 2, "dp": 3, "split_dim": 2},
]


def content(tensor_id):
    """All bytes of a tensor."""
    return random.Random(tensor_id).randbytes(prod(SHAPE) * ITEM_BYTES)


def part_of(tensor_id, offset, shape):
    """The bytes of a box, cut out element by element."""
    whole = content(tensor_id)
    pieces = []
    for at in itertools.product(*(range(low, low + size) for low, size in zip(offset, shape))):
        element = (at[0] * SHAPE[1] + at[1]) * SHAPE[2] + at[2]
        pieces.append(whole[element * ITEM_BYTES : (element + 1) * ITEM_BYTES])
    return b"".join(pieces)


def bytes_of(fragment):
    return part_of(fragment.tensor_id, fragment.global_offset, fragment.local_shape)


def run(plan):
    """Do the copies of a plan; return what each target fragment then holds."""
    memory = {it.target.fragment_id: bytearray(it.target.nbytes) for it in plan.operations}
    for operation in plan.operations:
        source, target = bytes_of(operation.source), memory[operation.target.fragment_id]
        count = 0
        for read, write, size in operation.iter_segments(max_segments=operation.segment_count):
            target[write : write + size] = source[read : read + size]
            count += size
        assert count == operation.total_bytes
    return memory


def check_bytes(plan, fragments):
    memory = run(plan)
    assert memory.keys() == {fragment.fragment_id for fragment in fragments}
    for fragment in fragments:
        assert memory[fragment.fragment_id] == bytes_of(fragment)
    assert plan.total_bytes == sum(fragment.nbytes for fragment in fragments)


@pytest.mark.parametrize("source", LAYOUTS)
@pytest.mark.parametrize("target", LAYOUTS)
def test_a_plan_moves_every_byte_to_its_place(source, target):
    goal = placement("target", **target)
    check_bytes(plan_placement_transfer(placement("source", **source), goal), goal.fragments)


@pytest.mark.parametrize("target", LAYOUTS)
def test_a_plan_from_the_store_moves_every_byte_to_its_place(target):
    goal, objects = placement("target", **target), stored()
    plan = plan_stored_transfer_to_target_placement(objects, goal)
    check_bytes(plan, goal.fragments)
    assert plan.source_manifest_identity == objects.manifest_identity
    assert plan.source_placement_id is None and not plan.source_executors


def test_a_plan_for_one_worker_is_its_part_of_the_whole_plan():
    source, goal = placement("source", tp=4), placement("target", tp=2, dp=2)
    whole = plan_placement_transfer(source, goal)
    for executor in whole.target_executors:
        mine = plan_placement_transfer_to_local_target(source, goal, executor.participant_id)
        indices = whole.operation_indices_for_executor(executor, "target")
        assert mine.operations == tuple(whole.operations[at] for at in indices)
        assert mine.target_executors == (executor,)
    with pytest.raises(ValueError, match="target_participant_id is required"):
        plan_placement_transfer_to_local_target(source, goal)
    with pytest.raises(ValueError, match="unknown target participant"):
        plan_placement_transfer_to_local_target(source, goal, "absent")


def test_dp_ranks_of_the_target_take_turns_with_those_of_the_source():
    plan = plan_placement_transfer(placement("source", dp=2), placement("target", dp=4))
    pairs = {(it.target.rank.dp, it.source.rank.dp) for it in plan.operations}
    assert pairs == {(0, 0), (1, 1), (2, 0), (3, 1)}


def test_routes_name_each_operation_once_by_its_stages():
    plan = plan_placement_transfer(placement("source", pp=3), placement("target", pp=2))
    named = [at for route in plan.pipeline_routes for at in route.operation_indices]
    assert sorted(named) == list(range(len(plan.operations)))
    assert [(it.source_pp, it.target_pp) for it in plan.pipeline_routes] == [
        (0, 0),
        (1, 1),
        (2, 0),
    ]


def test_contiguous_dimensions_are_one_piece():
    plan = plan_placement_transfer(placement("source", tp=2), placement("target", tp=4))
    assert {it.segment_count for it in plan.operations} == {1}
    with pytest.raises(ValueError, match="exceeds max_segments"):
        across = plan_placement_transfer(placement("source", tp=2, split_dim=1), placement("to"))
        list(across.operations[0].iter_segments(max_segments=1))


@pytest.mark.parametrize(
    "limits",
    [
        {"max_transfer_regions": 1},
        {"max_segments_per_region": 1},
        {"max_total_lowered_segments": 1},
    ],
)
def test_a_plan_above_its_limits_is_refused(limits):
    source, goal = placement("source", tp=2, split_dim=1), placement("target")
    with pytest.raises(ValueError, match=next(iter(limits))):
        plan_placement_transfer(source, goal, planning_limits=PlanningLimits(**limits))


def test_placements_must_be_of_the_same_weights():
    source, goal = placement("source"), stored(weight_generation=4)
    with pytest.raises(ValueError, match="weight_generation differ"):
        plan_stored_transfer_to_target_placement(goal, source)
    with pytest.raises(ValueError, match="must be a WeightManifest"):
        plan_stored_transfer_to_target_placement(source, source)
    changed = [tensor(at, layout_fingerprint="other") for at in range(3)]
    with pytest.raises(ValueError, match="layout mismatch"):
        plan_stored_transfer_to_target_placement(stored(tensors=tuple(changed)), source)


def test_a_plan_is_checked_again_when_it_is_built_from_parts_or_copied():
    plan = plan_placement_transfer(placement("source", tp=2), placement("target", tp=4))
    assert pickle.loads(pickle.dumps(plan)) == plan
    for changes, message in (
        ({"operations": plan.operations[1:]}, "not fully covered|executors differ"),
        ({"source_executors": ()}, "no source executor metadata"),
        ({"source_executors": plan.source_executors[1:]}, "source executors differ"),
        ({"target_tensors": plan.target_tensors[1:]}, "target tensor catalog differs"),
        ({"source_manifest": stored()}, "one source"),
        ({"source_placement": placement("other", tp=2, dp=2)}, "differ"),
    ):
        with pytest.raises(ValueError, match=message):
            replace(plan, **changes)
    with pytest.raises(ValueError, match="not the canonical"):
        replace(plan.operations[0], inner_bytes=plan.operations[0].inner_bytes // 2)
    assert isinstance(plan, LogicalTransferPlan)
