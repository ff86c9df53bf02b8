"""The made workload is reproducible and multi-turn; published traces are read with exact errors."""

import pytest

from bench.demo import trace, workload
from bench.demo.reference_cache import prefix_hits

SHAPE = workload.Shape(requests=500)


def write(tmp_path, text):
    path = tmp_path / "trace.jsonl"
    path.write_text(text)
    return path


def test_equal_seeds_make_equal_workloads_and_other_seeds_do_not():
    assert workload.generate(SHAPE) == workload.generate(SHAPE)
    assert workload.generate(SHAPE) != workload.generate(workload.Shape(requests=500, seed=2))


def test_there_are_as_many_requests_as_asked_for():
    assert len(workload.generate(SHAPE)) == 500


def test_turns_repeat_the_history_before_them():
    requests = workload.generate(SHAPE)
    prompts = {tuple(request) for request in requests}
    longest_prefixes = sum(
        any(tuple(request[:cut]) in prompts for cut in range(1, len(request))) for request in requests
    )
    assert longest_prefixes > len(requests) / 2


def test_no_prompt_passes_the_context_limit():
    assert max(map(len, workload.generate(SHAPE))) <= SHAPE.context_blocks_max


def test_system_prompts_are_shared_between_sessions():
    requests = workload.generate(SHAPE)
    assert len({request[0] for request in requests}) == SHAPE.system_prompts


def test_description_counts_blocks():
    text = workload.describe([[1, 2], [1, 2, 3], [4]])
    assert text == "3 requests, 6 blocks of which 4 distinct, 2 blocks in the median request, 3 in the longest"


def test_a_trace_is_read_in_order_and_cut_where_asked(tmp_path):
    path = write(tmp_path, '{"timestamp": 0, "hash_ids": [1, 2]}\n\n{"hash_ids": [3]}\n')
    assert trace.read_trace(path) == [[1, 2], [3]]
    assert trace.read_trace(path, 1) == [[1, 2]]


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("{", "not JSON"),
        ("[1]", "an object is expected, not list"),
        ("{}", "hash_ids must be a list"),
        ('{"hash_ids": []}', "hash_ids must be a list"),
        ('{"hash_ids": [1, "2"]}', "whole numbers only"),
        ('{"hash_ids": [1, true]}', "whole numbers only"),
        ('{"hash_ids": [1], "input_length": -1}', "input_length must be"),
    ],
)
def test_a_bad_line_is_named_by_its_number(tmp_path, line, complaint):
    path = write(tmp_path, f'{{"hash_ids": [1]}}\n{line}\n')
    with pytest.raises(trace.TraceError, match=complaint) as error:
        trace.read_trace(path)
    assert str(error.value).startswith(f"{path}:2: ")


def test_a_line_with_too_many_blocks_is_refused(tmp_path):
    path = write(tmp_path, f'{{"hash_ids": {[0] * (trace.BLOCKS_PER_REQUEST_MAX + 1)}}}\n')
    with pytest.raises(trace.TraceError, match="at most"):
        trace.read_trace(path)


@pytest.mark.parametrize("text", ["", "\n\n"])
def test_a_trace_without_requests_is_refused(tmp_path, text):
    with pytest.raises(trace.TraceError, match="no requests"):
        trace.read_trace(write(tmp_path, text))


def test_a_missing_or_binary_trace_is_refused(tmp_path):
    with pytest.raises(trace.TraceError, match="cannot read"):
        trace.read_trace(tmp_path / "nowhere")
    path = tmp_path / "binary"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(trace.TraceError, match="UTF-8"):
        trace.read_trace(path)


def test_reference_caches_count_prefix_hits_only():
    requests = [[1, 2, 3], [1, 2, 3], [9, 2]]
    assert prefix_hits(requests) == 3
    assert prefix_hits(requests, capacity_blocks=2) == 0
    assert prefix_hits([[1], [2], [1], [3], [1]], capacity_blocks=2) == 2
