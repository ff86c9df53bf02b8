"""Sizes, percentiles, table and progress."""

import io

import pytest

from bench.demo.progress import Progress
from bench.demo.quantity import format_bytes, parse_bytes
from bench.demo.report import Tally, format_seconds, percentile, render


@pytest.mark.parametrize(
    ("text", "count"),
    [("65536", 65536), ("64k", 65536), ("64KiB", 65536), ("1.5G", 3 << 29), ("2 mb", 2 << 20), ("1T", 1 << 40)],
)
def test_sizes_are_read_as_powers_of_two(text, count):
    assert parse_bytes(text) == count


@pytest.mark.parametrize("text", ["", "k", "-1", "0", "1x", "50%", "1e3"])
def test_what_is_not_a_size_is_refused(text):
    with pytest.raises(ValueError, match="size"):
        parse_bytes(text)


def test_sizes_are_shown_in_the_largest_unit_below_them():
    assert [format_bytes(n) for n in (5, 65536, 3 << 29)] == ["5 B", "64 KiB", "1.5 GiB"]


def test_percentiles_are_values_of_the_list():
    values = list(range(101, 0, -1))
    assert percentile(values, 0.5) == 51
    assert percentile(values, 0.99) == 100
    assert percentile([7], 0.99) == 7
    assert percentile([], 0.5) is None


def test_times_are_shown_in_a_fitting_unit():
    assert [format_seconds(s) for s in (12e-6, 0.0035, 2, None)] == ["12 us", "3.50 ms", "2.00 s", "-"]


def filled_tally():
    tally = Tally()
    one = Tally(requests=1, blocks=4, hits=3, get_bytes=3000, put_bytes=1000, codes={"put -200": 1})
    one.latencies = {"request": [0.003], "exist": [0.001], "get": [0.001], "put": [0.001]}
    for _ in range(2):
        tally.add(vars(one))
    return tally


def test_tallies_of_clients_add_up():
    tally = filled_tally()
    assert (tally.requests, tally.blocks, tally.hits) == (2, 8, 6)
    assert tally.latencies["get"] == [0.001, 0.001]
    assert tally.codes == {"put -200": 2}


def test_the_table_shows_rates_nodes_and_latencies():
    table = render(filled_tally(), 2.0, 4, 7, [("a:1", 512, 1024)], 9)
    cells = {line.split("  ", 1)[0].strip(): line for line in table.splitlines()}
    assert "75.00 %" in cells["hit rate"]
    assert any("50.00 %" in line and "ideal LRU" in line for line in table.splitlines())
    assert any("87.50 %" in line and "without end" in line for line in table.splitlines())
    assert cells["corrupt blocks"].split()[-1] == "0"
    assert "512 B of 1 KiB (50.00 %)" in cells["node a:1"]
    assert cells["evicted keys"].split()[-1] == "9"
    assert cells["request"].split()[1:] == ["2", "3.00", "ms", "3.00", "ms", "3.00", "ms"]


def test_an_empty_run_still_has_a_table():
    assert "hit rate" in render(Tally(), 0.0, 0, 0, [], None)


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self):
        return True


def test_without_a_terminal_each_tenth_is_a_line():
    stream = io.StringIO()
    progress = Progress(100, stream)
    for done in range(101):
        progress.update(done)
    progress.finish()
    lines = stream.getvalue().splitlines()
    assert len(lines) == 10 and lines[0].startswith("10 %") and lines[-1].startswith("100 %")


def test_on_a_terminal_the_bar_is_redrawn_in_place(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    stream = Terminal()
    progress = Progress(10, stream)
    progress.update(5)
    progress.update(10)
    progress.finish()
    assert stream.getvalue().count("\r") == 2 and stream.getvalue().count("\n") == 1
