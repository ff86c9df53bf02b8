"""`concat_arrays_into`: which arrays are copied where, and what is refused."""

import ctypes

import numpy
import pytest

from mooncake._fast_copy import concat_arrays_into

ARRAYS = [
    numpy.arange(3, dtype=numpy.uint8),
    numpy.arange(6, dtype=numpy.float32).reshape(2, 3),
    numpy.zeros((0, 4)),
    numpy.frombuffer(b"read only", dtype=numpy.uint8),
]


@pytest.mark.parametrize(("start", "count"), [(0, -1), (1, 2), (2, 1), (3, 99), (9, 1), (0, 0)])
def test_the_chosen_arrays_lie_one_after_the_other(start, count):
    chosen = ARRAYS[start:] if count < 0 else ARRAYS[start : start + count]
    expected = b"".join(array.tobytes() for array in chosen)
    memory = ctypes.create_string_buffer(b"." * 64, 64)
    copied = concat_arrays_into(ARRAYS, ctypes.addressof(memory), 64, start, count)
    assert memory.raw == expected + b"." * (64 - copied) and copied == len(expected)


def test_what_does_not_fit_is_refused_and_nothing_is_copied():
    memory = ctypes.create_string_buffer(b"." * 35, 35)
    with pytest.raises(ValueError, match="destination buffer too small"):
        concat_arrays_into(ARRAYS, ctypes.addressof(memory), 35)
    assert memory.raw == b"." * 35


def test_an_array_with_gaps_is_refused():
    with pytest.raises(ValueError, match=r"arrays\[1\] is not C-contiguous"):
        concat_arrays_into([ARRAYS[0], ARRAYS[0][::2]], 0, 100)
