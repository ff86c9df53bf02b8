"""The tables of a page in Markdown, and the numbers in their cells."""

import dataclasses
import re

NUMBER = r"\d+(?:\.\d+)?(?:e[+-]?\d+)?"
UNIT = r"(?: ?(?:GB/s|MB/s|us|ms|s|GiB|bytes|ns|%|x))?"
VALUE = rf"x?({NUMBER})({UNIT})"
SINGLE = re.compile(rf"{VALUE}(?: [(\[]({NUMBER}){UNIT}\.\.({NUMBER}){UNIT}[)\]])?")
RANGE = re.compile(rf"({NUMBER})(?:\.\.| to )({NUMBER})({UNIT})")
LIST = re.compile(rf"{VALUE}(?:, {VALUE})+")
RULE = re.compile(r"\|[-| :]+\|")


@dataclasses.dataclass(frozen=True)
class Number:
    """A value with its range; `low` and `high` are the value where there is none."""

    value: float
    low: float
    high: float
    unit: str = ""


@dataclasses.dataclass
class Table:
    """A table, the heading above it, and where it ends in the lines of its page."""

    heading: str
    columns: list
    rows: list
    end: int


def number(text):
    """The number in a cell; None for words."""
    text = text.strip()
    if found := SINGLE.fullmatch(text):
        value, unit, low, high = found.groups()
        return Number(float(value), float(low or value), float(high or value), unit.strip())
    if found := RANGE.fullmatch(text):
        low, high, unit = float(found[1]), float(found[2]), found[3].strip()
        return Number((low * high) ** 0.5, low, high, unit)
    if LIST.fullmatch(text):
        parts = [number(part) for part in text.split(",")]
        values = sorted(part.value for part in parts)
        return Number(values[len(values) // 2], values[0], values[-1], parts[0].unit)
    return None


def cells(line):
    """The cells of one line."""
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def tables(text):
    """Every table of a page, from its top to its end."""
    lines, heading, at = text.split("\n"), "", 0
    while at < len(lines):
        if lines[at].startswith("#"):
            heading = lines[at].lstrip("# ")
        if lines[at].startswith("|") and at + 1 < len(lines) and RULE.fullmatch(lines[at + 1]):
            columns, at = cells(lines[at]), at + 2
            rows = []
            while at < len(lines) and lines[at].startswith("|"):
                rows.append(cells(lines[at]))
                at += 1
            yield Table(heading, columns, rows, at)
            continue
        at += 1
