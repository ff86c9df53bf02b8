"""Figures of a run, and the table that shows them."""

import dataclasses

from bench.demo.quantity import format_bytes

#: Order of the latency rows: what a request consists of.
OPERATIONS = ("request", "exist", "get", "put")


@dataclasses.dataclass
class Tally:
    """What clients counted; adds up over clients."""

    requests: int = 0
    blocks: int = 0
    hits: int = 0
    lost: int = 0
    corrupt: int = 0
    stored: int = 0
    refused: int = 0
    get_bytes: int = 0
    put_bytes: int = 0
    #: Operation -> seconds of each call.
    latencies: dict = dataclasses.field(default_factory=lambda: {name: [] for name in OPERATIONS})
    #: Return code of a failed block -> how often.
    codes: dict = dataclasses.field(default_factory=dict)

    def add(self, other):
        """Adds another client's counts, given as the dict of a Tally."""
        for field in dataclasses.fields(self):
            value = other[field.name]
            if field.name == "latencies":
                for name, seconds in value.items():
                    self.latencies[name].extend(seconds)
            elif field.name == "codes":
                for code, count in value.items():
                    self.codes[code] = self.codes.get(code, 0) + count
            else:
                setattr(self, field.name, getattr(self, field.name) + value)


def percentile(values, share):
    """The value below which `share` of the values lie (nearest rank); None without values."""
    if not values:
        return None
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, max(0, round(share * (len(ordered) - 1))))]


def format_seconds(seconds):
    """A time in the unit that gives it a few digits."""
    if seconds is None:
        return "-"
    if seconds < 1e-3:
        return f"{seconds * 1e6:.0f} us"
    return f"{seconds * 1e3:.2f} ms" if seconds < 1 else f"{seconds:.2f} s"


def share(part, whole):
    """A percentage with two digits."""
    return f"{100 * part / whole:.2f} %" if whole else "-"


def summary_rows(tally, wall_seconds, ideal_hits, endless_hits):
    """Pairs of label and figure."""
    moved = tally.get_bytes + tally.put_bytes
    rows = [
        ("requests", f"{tally.requests} in {wall_seconds:.1f} s"),
        ("blocks asked for", str(tally.blocks)),
        ("hit rate", share(tally.hits, tally.blocks)),
        ("  of an ideal LRU of this size", share(ideal_hits, tally.blocks)),
        ("  of a cache without end", share(endless_hits, tally.blocks)),
        ("moved", f"{moved / 1e9:.2f} GB, {moved / max(wall_seconds, 1e-9) / 1e9:.2f} GB/s"),
        ("  get", rate(tally.get_bytes, tally.latencies["get"])),
        ("  put", rate(tally.put_bytes, tally.latencies["put"])),
        ("corrupt blocks", str(tally.corrupt)),
        ("blocks lost between exist and get", str(tally.lost)),
        ("blocks not stored", str(tally.refused)),
    ]
    if tally.codes:
        codes = ", ".join(f"{code} x{count}" for code, count in sorted(tally.codes.items()))
        rows.append(("return codes of those", codes))
    return rows


def rate(count, seconds):
    """Bytes and speed while inside the calls of one kind."""
    inside = sum(seconds)
    speed = f", {count / inside / 1e9:.2f} GB/s in the calls" if inside else ""
    return f"{count / 1e9:.2f} GB{speed}"


def render(tally, wall_seconds, ideal_hits, endless_hits, nodes, evicted_keys):
    """The whole table. `nodes` are (name, used bytes, capacity bytes)."""
    rows = summary_rows(tally, wall_seconds, ideal_hits, endless_hits)
    rows.append(("evicted keys", "-" if evicted_keys is None else f"{evicted_keys:.0f}"))
    for name, used, capacity in nodes:
        text = f"{format_bytes(used)} of {format_bytes(capacity)} ({share(used, capacity)})"
        rows.append((f"node {name}", text))
    width = max(len(label) for label, _ in rows) + 2
    lines = [f"{label:<{width}}{figure}" for label, figure in rows]
    lines.append("")
    lines.append(f"{'latency per call':<{width}}{'count':>9}{'p50':>12}{'p99':>12}{'max':>12}")
    for name in OPERATIONS:
        seconds = tally.latencies[name]
        figures = [percentile(seconds, 0.5), percentile(seconds, 0.99), max(seconds, default=None)]
        cells = "".join(f"{format_seconds(figure):>12}" for figure in figures)
        lines.append(f"{name:<{width}}{len(seconds):>9}{cells}")
    return "\n".join(lines)
