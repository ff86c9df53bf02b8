"""Boxes: overlap and exact cover agree with what counting elements says."""

import itertools
import random

import pytest

from mooncake.reshard import geometry
from mooncake.reshard.geometry import box_contains, boxes_exactly_cover, boxes_overlap


def elements(box):
    offset, shape = box
    return set(itertools.product(*(range(at, at + size) for at, size in zip(offset, shape))))


def random_boxes(choice, rank):
    def box():
        offset = tuple(choice.randrange(5) for _ in range(rank))
        return offset, tuple(choice.randrange(1, 4) for _ in range(rank))

    return [box() for _ in range(choice.randrange(6))]


@pytest.mark.parametrize("rank", [1, 2, 3, 4])
def test_overlap_and_cover_agree_with_counting(rank):
    choice = random.Random(rank)
    for _ in range(300):
        boxes = random_boxes(choice, rank)
        counts = [elements(box) for box in boxes]
        together = set().union(*counts)
        assert boxes_overlap(boxes) == (sum(map(len, counts)) > len(together))
        whole = ((0,) * rank, (3,) * rank)
        exact = sum(map(len, counts)) == len(together) and together == elements(whole)
        assert boxes_exactly_cover(*whole, boxes) == exact


def test_a_box_cut_anywhere_is_covered_by_its_parts_and_not_by_fewer():
    halves = [((0, 0), (3, 4)), ((3, 0), (2, 4))]
    assert boxes_exactly_cover((0, 0), (5, 4), halves)
    for wrong in ([], halves[:1], [halves[0]] * 2, [*halves, halves[0]], [((0, 0), (6, 4))]):
        assert not boxes_exactly_cover((0, 0), (5, 4), wrong)


def test_containment_needs_one_rank():
    assert box_contains((1, 1), (2, 2), (2, 1), (1, 2))
    assert not box_contains((1, 1), (2, 2), (2, 1), (2, 2))
    with pytest.raises(ValueError):
        box_contains((1, 1), (2, 2), (2,), (1,))


def test_deep_boxes_are_compared_a_bounded_number_of_times(monkeypatch):
    monkeypatch.setattr(geometry, "_MAX_HIGH_DIMENSIONAL_PAIRWISE_COMPARISONS", 2)
    boxes = [((0, at, 0), (4, 1, 1)) for at in range(2)]
    assert not boxes_overlap(boxes)
    with pytest.raises(ValueError, match="budget"):
        boxes_overlap([((0, at, at), (4, 2, 1)) for at in range(9)])
