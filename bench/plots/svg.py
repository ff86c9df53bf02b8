"""Points as an SVG: a logarithmic axis for each panel, a line for each row, a mark with its range for each series."""

import math
import textwrap
from xml.etree import ElementTree

LABELS, PLOT, RIGHT = 300, 480, 70
TOP, PANEL_HEAD, AXIS = 34, 22, 30
MARK_STEP, ROW_GAP = 9, 9
LABEL_COLUMNS = 52
#: Distinct without red and green (Okabe and Ito).
COLOURS = ("#6b6b6b", "#d55e00", "#0072b2", "#009e73", "#cc79a7", "#e69f00")
#: Panels whose values lie around 1.
AROUND_ONE = ("ratio", "times better than the goal asks")


def draw(title, points):
    """The picture as text."""
    series = list(dict.fromkeys(point.series for point in points))
    colours = {name: COLOURS[at % len(COLOURS)] for at, name in enumerate(series)}
    panels = {}
    for point in points:
        panels.setdefault(point.panel, {}).setdefault(point.row, []).append(point)
    width = LABELS + PLOT + RIGHT
    root = ElementTree.Element("svg", xmlns="http://www.w3.org/2000/svg", width=str(width))
    root.set("font-family", "Helvetica, Arial, sans-serif")
    background = add(root, "rect", x=0, y=0, width="100%", height="100%", fill="white")
    background.tail = "\n"
    words(root, 8, 18, title, size=14, weight="bold")
    down = TOP
    if len(series) > 1:
        down = legend(root, down, colours)
    for name, rows in panels.items():
        down = panel(root, down, name, rows, colours)
    root.set("height", str(round(down)))
    root.set("viewBox", f"0 0 {width} {round(down)}")
    ElementTree.indent(root, space=" ")
    return ElementTree.tostring(root, encoding="unicode") + "\n"


def add(parent, tag, **attributes):
    """One element; numbers with at most one digit behind the point."""
    shown = {name.replace("_", "-"): text(value) for name, value in attributes.items()}
    return ElementTree.SubElement(parent, tag, shown)


def text(value):
    """An attribute."""
    return f"{round(value, 1):g}" if isinstance(value, float) else str(value)


def words(parent, x, y, content, size=11, anchor="start", weight="normal", fill="#222"):
    """One line of text."""
    element = add(parent, "text", x=x, y=y, font_size=size, text_anchor=anchor, font_weight=weight, fill=fill)
    element.text = content
    return element


def short(tick):
    """A number at an axis: 50, 200k, 1M."""
    if tick >= 1e6:
        return f"{tick / 1e6:g}M"
    return f"{tick / 1e3:g}k" if tick >= 1e4 else f"{tick:g}"


def legend(root, down, colours):
    """The series in a line; returns where the next thing begins."""
    right = 8
    for name, colour in colours.items():
        add(root, "circle", cx=right + 4, cy=down - 4, r=4, fill=colour)
        words(root, right + 12, down, name)
        right += 28 + 6.2 * len(name)
    return down + 10


def panel(root, down, name, rows, colours):
    """One unit; returns where the next thing begins."""
    numbers = [point.number for marks in rows.values() for point in marks]
    scale = Scale([n.low for n in numbers] + [n.high for n in numbers], name in AROUND_ONE)
    words(root, LABELS, down + 14, name or "value", weight="bold")
    down += PANEL_HEAD
    top = down
    lines = add(root, "g")
    for at, (row, marks) in enumerate(rows.items()):
        height = MARK_STEP * len(marks) + ROW_GAP
        if at % 2 == 0:
            add(lines, "rect", x=0, y=down, width=LABELS + PLOT + RIGHT, height=height, fill="#f4f4f4")
        shown = textwrap.shorten(row, LABEL_COLUMNS, placeholder=" ...")
        words(root, LABELS - 8, down + height / 2 + 4, shown, anchor="end")
        for index, point in enumerate(marks):
            mark(root, scale, down + ROW_GAP / 2 + MARK_STEP * (index + 0.5), point.number, colours[point.series])
        down += height
    for tick in scale.ticks():
        x = scale.x(tick)
        is_one = tick == 1 and name in AROUND_ONE
        add(lines, "line", x1=x, y1=top, x2=x, y2=down, stroke="#222" if is_one else "#cfcfcf", stroke_width=1)
        words(root, x, down + 13, short(tick), size=10, anchor="middle", fill="#555")
    return down + AXIS


def mark(root, scale, y, value, colour):
    """A dot, and a line over its range."""
    if value.high > value.low:
        add(root, "line", x1=scale.x(value.low), y1=y, x2=scale.x(value.high), y2=y, stroke=colour, stroke_width=2, opacity="0.5")
    add(root, "circle", cx=scale.x(value.value), cy=y, r=3.5, fill=colour)


class Scale:
    """A logarithmic axis over positive values."""

    def __init__(self, values, has_one):
        positive = [value for value in values if value > 0] or [1.0]
        if has_one:
            positive.append(1.0)
        self.low, self.high = min(positive) / 1.15, max(positive) * 1.15

    def x(self, value):
        """The place of a value; what is not positive lies at the left end."""
        value = max(value, self.low)
        return LABELS + PLOT * math.log(value / self.low) / math.log(self.high / self.low)

    def ticks(self):
        """1, 2 and 5 times powers of ten, or the powers alone where these are many; more where few fit."""
        first, last = math.floor(math.log10(self.low)), math.ceil(math.log10(self.high))
        for steps in ((1,), (1, 2, 5), (1, 1.5, 2, 3, 4, 5, 6, 7, 8, 9), [1 + at / 10 for at in range(90)]):
            all_ticks = [round(step * 10.0**power, 12) for power in range(first, last + 1) for step in steps]
            found = [tick for tick in all_ticks if self.low <= tick <= self.high]
            if len(found) >= 3:
                return found
        return found
