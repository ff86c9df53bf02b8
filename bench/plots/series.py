"""What of a table is drawn: points in panels, a panel for each unit.

Columns of words, sizes and counts name a row; columns of numbers are series. Ratios are drawn only where a table has nothing
else, and figures with a goal as multiples of it.
"""

import dataclasses
import re

from bench.plots.table import Number, number

NAMES_ROW = re.compile(r"size|batch|clients|KiB|in flight", re.IGNORECASE)
NOT_DRAWN = re.compile(r"rounds|dropped|goal|met|range|low|high|user|system|idle|metric", re.IGNORECASE)
RATIO = re.compile(r"ratio|.* ratio|to .*|.* to \w+|\w+/\w+|on against off|off against off")
HEADER_UNIT = re.compile(r"GB/s|MB/s|CPU s/GB|ns|us")
GOAL = re.compile(r"at (least|most) (\S+).*")
#: Share of the rows in which a series must have a number.
FILLED = 0.8
OF_GOAL = "times better than the goal asks"


@dataclasses.dataclass(frozen=True)
class Point:
    """One mark: the panel is a unit."""

    panel: str
    row: str
    series: str
    number: Number


def points(table):
    """All marks of a table; none if it is one of words."""
    if "goal" in table.columns and "value" in table.columns:
        return goal_points(table)
    numbers = [column for column in range(len(table.columns)) if is_filled(table, column)]
    drawn = [at for at in numbers if not NOT_DRAWN.fullmatch(table.columns[at]) and not NAMES_ROW.fullmatch(table.columns[at])]
    values = [at for at in drawn if not RATIO.fullmatch(table.columns[at])] or drawn
    found = []
    for row in table.rows:
        label = row_name(table, row, numbers)
        for at in values:
            if at < len(row) and (value := with_range(table, row, at)):
                found.append(Point(unit_of(table, row, at, value), label, table.columns[at], value))
    return found


def is_filled(table, column):
    """Whether a column is one of numbers; empty cells do not count."""
    texts = [row[column] for row in table.rows if column < len(row)]
    given = [text for text in texts if text not in ("", "-")]
    read = [text for text in given if number(text)]
    return bool(given) and len(read) >= FILLED * len(table.rows)


def row_name(table, row, numbers):
    """The words of a row, with its sizes and counts."""
    parts = []
    for at, text in enumerate(row):
        column = table.columns[at]
        if not text or NOT_DRAWN.fullmatch(column):
            continue
        if NAMES_ROW.fullmatch(column):
            parts.append(text if column == "size" else f"{text} {column}")
        elif at not in numbers and at == 0:
            parts.insert(0, text)
    return ", ".join(parts).replace("`", "")


def with_range(table, row, at):
    """The number of a cell, with the range from a column of its own."""
    value = number(row[at])
    if value and table.columns[at] == "median" and "range" in table.columns:
        if spread := number(row[table.columns.index("range")]):
            return dataclasses.replace(value, low=spread.low, high=spread.high)
    return value


def unit_of(table, row, at, value):
    """The panel of a value: its metric, its own unit, or that of its column."""
    if "metric" in table.columns:
        return row[table.columns.index("metric")]
    if value.unit and value.unit != "x":
        return value.unit
    found = HEADER_UNIT.search(table.columns[at])
    return found[0] if found else "ratio" if RATIO.fullmatch(table.columns[at]) or value.unit == "x" else ""


def goal_points(table):
    """Figures as multiples of their goals: beyond 1 is met."""
    found = []
    value_at, goal_at = table.columns.index("value"), table.columns.index("goal")
    for row in table.rows:
        goal, value = GOAL.fullmatch(row[goal_at]), number(row[value_at])
        if not goal or not value or not value.value or not float(goal[2]):
            continue
        ratio = value.value / float(goal[2])
        ratio = ratio if goal[1] == "least" else 1 / ratio
        found.append(Point(OF_GOAL, row[0], "figure", Number(ratio, ratio, ratio)))
    return found
