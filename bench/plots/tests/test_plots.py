"""Numbers are read from cells as people write them, and every page has the pictures of its tables."""

import pathlib
from xml.etree import ElementTree

import pytest

from bench.plots.__main__ import RESULTS, main
from bench.plots.series import OF_GOAL, points
from bench.plots.svg import draw
from bench.plots.table import number, tables

PAGE = """# Figures

## Rates

| what | clients | metric | other | ours | ratio |
|---|---|---|---|---|---|
| put 4 KiB | 1 | GB/s | 0.5 (0.4..0.6) | 2 (1.5..2.5) | 4.00 |
| put 4 KiB | 1 | p50 us | 300 | 150 (135..189) | 0.50 |
| put 1 MiB | 4 | GB/s | 1 | 3 | 3.00 |

Text.

| figure | value | goal | met |
|---|---|---|---|
| write | 1.8 | at least 0.9 | yes |
| latency | 300 ms | at most 150 ms | no |
| wrong bytes | 0 operations | at most 0 operations | yes |
"""


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("3.5", (3.5, 3.5, 3.5, "")),
        ("89.38 MB/s", (89.38, 89.38, 89.38, "MB/s")),
        ("150 (135..189)", (150, 135, 189, "")),
        ("1.25e+03 (594..1.25e+03)", (1250, 594, 1250, "")),
        ("3.27 GiB (3.2 GiB..3.3 GiB)", (3.27, 3.2, 3.3, "GiB")),
        ("x0.906 [0.78..0.95]", (0.906, 0.78, 0.95, "")),
        ("1101, 4875", (4875, 1101, 4875, "")),
    ],
)
def test_a_number_is_read_with_its_range(text, wanted):
    found = number(text)
    assert (found.value, found.low, found.high, found.unit) == wanted


@pytest.mark.parametrize("text", ["", "-", "put 4 KiB", "99 of 100", ">= 3x met", "the rest, no entry above 2 %"])
def test_words_are_no_number(text):
    assert number(text) is None


def test_rows_are_named_by_words_and_counts_and_panels_by_units():
    first, _ = tables(PAGE)
    found = [(point.panel, point.row, point.series, point.number.value) for point in points(first)]
    assert ("GB/s", "put 4 KiB, 1 clients", "ours", 2.0) in found
    assert ("p50 us", "put 4 KiB, 1 clients", "other", 300.0) in found
    assert {series for _, _, series, _ in found} == {"other", "ours"}


def test_figures_with_a_goal_are_multiples_of_it():
    _, second = tables(PAGE)
    found = {point.row: (point.panel, point.number.value) for point in points(second)}
    assert found == {"write": (OF_GOAL, 2.0), "latency": (OF_GOAL, 0.5)}


def test_a_picture_has_a_mark_for_each_number_inside_of_it():
    first, _ = tables(PAGE)
    marks = points(first)
    root = ElementTree.fromstring(draw("Rates", marks))
    circles = [one for one in root if one.tag.endswith("circle")]
    # One more for each series in the legend.
    assert len(circles) == len(marks) + 2
    width, height = float(root.get("width")), float(root.get("height"))
    assert all(0 < float(one.get("cx")) < width and 0 < float(one.get("cy")) < height for one in circles)


def test_pictures_are_written_linked_and_then_up_to_date(tmp_path):
    page = tmp_path / "2026-01-01.md"
    page.write_text(PAGE)
    assert main(["--check"], tmp_path) == 1
    assert main([], tmp_path) == 0
    assert main(["--check"], tmp_path) == 0
    text = page.read_text()
    assert text.count("![Rates](plots/2026-01-01-") == 2
    assert text.index("put 1 MiB") < text.index("2026-01-01-1.svg") < text.index("| figure")
    (tmp_path / "plots" / "2026-01-01-1.svg").write_text("old")
    (tmp_path / "plots" / "2025-01-01-1.svg").write_text("of a page that is gone")
    assert main(["--check"], tmp_path) == 1
    main([], tmp_path)
    assert [path.name for path in sorted((tmp_path / "plots").iterdir())] == ["2026-01-01-1.svg", "2026-01-01-2.svg"]


def test_the_pictures_of_all_results_are_up_to_date():
    assert main(["--check"]) == 0
    assert any(pathlib.Path(RESULTS / "plots").glob("*.svg"))
