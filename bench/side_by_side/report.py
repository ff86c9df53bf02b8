"""A table of medians over rounds, ratios to the base, and the goals met or missed.

A ratio is that of the medians. `met` says nothing about noise: look at the spread, and run the same implementation under
two labels to see how far ratios move by chance.
"""

import collections
import json
import math
import statistics

from bench.demo.quantity import format_bytes
from bench.side_by_side.goals import HIT_RATE_SLACK, goals_of

#: Metrics shown of each section.
SHOWN = {
    "bulk": ("gb_per_s", "cpu_s_per_gb"),
    "plain": ("items_per_s", "p50_us", "p99_us"),
    "rpc": ("items_per_s", "p50_us", "p99_us"),
    "weights": ("gb_per_s", "cpu_s_per_gb"),
    "replay": ("gb_per_s", "call_gb_per_s", "hit_rate", "request_p50_us", "request_p99_us", "cpu_s_per_gb"),
    "memory": ("master_bytes", "provider_bytes"),
}
CELL = ("section", "operation", "size", "batch", "clients")
CPU_PARTS = ("cpu_client_s", "cpu_provider_s", "cpu_master_s")


def read(paths):
    """All rows of the files."""
    rows = []
    for path in paths:
        with open(path, encoding="utf-8") as lines:
            rows.extend(json.loads(line) for line in lines if line.strip())
    for row in rows:
        add_cpu(row)
    return rows


def add_cpu(row):
    """Gives a row that moved bytes the CPU seconds of all processes per 10^9 bytes."""
    if row.get("moved_gb") and all(part in row for part in CPU_PARTS):
        row["cpu_s_per_gb"] = sum(row[part] for part in CPU_PARTS) / row["moved_gb"]


def collect(rows):
    """(cell, metric) -> label -> values, in the order of appearance."""
    table = collections.defaultdict(lambda: collections.defaultdict(list))
    for row in rows:
        cell = tuple(row.get(name, row.get("block_bytes", 0) if name == "size" else "") for name in CELL)
        for metric in SHOWN.get(row["section"], ()):
            if row.get(metric) is not None:
                table[cell, metric][row["label"]].append(row[metric])
    return table


def number(value, metric=""):
    """Three significant digits, or all before the point; memory in binary units."""
    if metric.endswith("_bytes"):
        return format_bytes(int(value))
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def spread(values, metric):
    """Median and range."""
    middle, low, high = (number(value, metric) for value in (statistics.median(values), min(values), max(values)))
    return f"{middle} ({low}..{high})" if len(values) > 1 else middle


def tcp_labels(rows):
    """Labels that were run with shared memory turned off."""
    runs = [row["environment"] for row in rows if row["section"] == "run"]
    return {label for run in runs for label, env in run.items() if env.get("PERIGEE_SHARED_MEMORY") == "0"}


def render(rows, base=None):
    """The whole report as Markdown."""
    labels = list(dict.fromkeys(row["label"] for row in rows if "label" in row))
    if not labels:
        return "no measurements"
    base = base or labels[0]
    others = [label for label in labels if label != base]
    table = collect(rows)
    tcp = tcp_labels(rows)
    head = ["what", "size", "batch", "clients", "metric", base]
    for label in others:
        head += [label, "ratio", "goal"]
    lines = [f"| {' | '.join(head)} |", "|" + "---|" * len(head)]
    ratios = collections.defaultdict(list)
    for (cell, metric), values in table.items():
        named = dict(zip(CELL, cell))
        line = [f"{named['section']} {named['operation']}".strip(), *describe(named), metric, cell_text(values[base], metric)]
        for label in others:
            line += compare(named, metric, values[base], values[label], label, label in tcp, ratios)
        lines.append(f"| {' | '.join(line)} |")
    facts = [facts_line(row) for row in rows if row["section"] == "run"]
    parts = [*facts, "", *lines, "", *goal_lines(ratios), *client_lines(table, labels), *replay_lines(rows), *fault_lines(rows)]
    return "\n".join(parts)


def describe(named):
    """Size, batch and clients as text."""
    size = format_bytes(named["size"]) if named["size"] else ""
    return [size, str(named["batch"]), str(named["clients"])]


def cell_text(values, metric):
    """Values of a cell, or a dash."""
    return spread(values, metric) if values else "-"


def compare(named, metric, base_values, values, label, is_tcp, ratios):
    """The columns of one label; remembers the ratios that answer a goal."""
    if not values or not base_values or not statistics.median(base_values):
        return [cell_text(values, metric), "-", ""]
    ratio = statistics.median(values) / statistics.median(base_values)
    verdicts = []
    for goal in goals_of(named, is_tcp):
        if goal.metric == metric:
            ratios[label, goal].append(ratio)
            verdicts.append(f"{goal.text()} {'met' if goal.met(ratio) else 'MISSED'}")
    return [spread(values, metric), f"{ratio:.2f}", ", ".join(verdicts)]


def goal_lines(ratios):
    """One line per label and goal: how many rows meet it, and the geometric mean."""
    lines = []
    for (label, goal), values in ratios.items():
        met = sum(map(goal.met, values))
        positive = [value for value in values if value > 0]
        mean = math.exp(statistics.fmean(map(math.log, positive))) if positive else 0.0
        worst = min(values) if goal.at_least else max(values)
        lines.append(
            f"- {label}: {goal.name} {goal.text()}: {met} of {len(values)} rows, "
            f"geometric mean {mean:.2f}x, worst {worst:.2f}x"
        )
    return lines


def client_lines(table, labels):
    """Several clients against one, per label: the sum must not be lower."""
    lines = []
    for label in labels:
        ratios = {}
        for (cell, metric), values in table.items():
            named = dict(zip(CELL, cell))
            if metric not in ("gb_per_s", "items_per_s") or named["clients"] in ("", 1) or named["section"] == "replay":
                continue
            single = table.get(((*cell[:-1], 1), metric), {}).get(label)
            if single and values[label] and statistics.median(single):
                what = f"{named['operation']} {describe(named)[0]}".strip()
                ratios[what] = statistics.median(values[label]) / statistics.median(single)
        slower = [f"{what} {ratio:.2f}x" for what, ratio in ratios.items() if ratio < 1]
        if ratios:
            verdict = "met" if not slower else f"MISSED in {', '.join(slower)}"
            lines.append(f"- {label}: several clients never slower in sum than one: {verdict} ({len(ratios)} rows)")
    return lines


def replay_lines(rows):
    """Hit rate against the ideal LRU, and corrupt blocks."""
    lines = []
    replays = [row for row in rows if row["section"] == "replay"]
    for label in dict.fromkeys(row["label"] for row in replays):
        mine = [row for row in replays if row["label"] == label]
        gap = statistics.median(row["ideal_lru_hit_rate"] - row["hit_rate"] for row in mine)
        verdict = "met" if gap <= HIT_RATE_SLACK else "MISSED"
        lines.append(f"- {label}: hit rate {100 * -gap:+.2f} points of the ideal LRU (>= -0.2): {verdict}")
    return lines


def fault_lines(rows):
    """What went wrong; 0 corrupt is a condition of every figure."""
    corrupt = sum(row.get("corrupt", 0) for row in rows)
    refused = [row for row in rows if row.get("errors")]
    failed = [row for row in rows if row["section"] == "failed"]
    lines = [f"- corrupt values: {corrupt}; rows with errors: {len(refused)}; sides that failed: {len(failed)}"]
    for row in refused:
        what = f"{row['label']} round {row['round']} {row['section']} {row.get('operation', '')}".strip()
        lines.append(f"  - {what}: {row['errors']} errors {row.get('codes', '')}".rstrip())
    lines += [f"  - {row['label']} round {row['round']}: {row['error'].splitlines()[0]}" for row in failed]
    return lines


def facts_line(row):
    """Machine and environment of a run."""
    environment = {label: env for label, env in row["environment"].items() if env}
    return (
        f"{row['cpu']}, {row['cores']} cores, Linux {row['kernel']}, congestion control of the host "
        f"{row['congestion_control_of_host']}, {row['rounds']} rounds, environment {environment or 'as it is'}"
    )
