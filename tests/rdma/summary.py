"""Medians and ratios of what measure.sh wrote: python3 summary.py FILE."""

import statistics
import sys

# Ratio, what is divided by what, the goal, and whether more is better.
RATIOS = [
    ("write 1 MiB / ib_write_bw", "perigee-write", "perftest-write", 0.9, True),
    ("read 1 MiB / ib_read_bw", "perigee-read", "perftest-read", 0.9, True),
    ("write 4 KiB p50 / ib_write_lat", "perigee-write-latency", "perftest-write-latency", 1.5, False),
    ("write 4 KiB p50 / one write of ib_write_bw", "perigee-write-latency", "perftest-write-completion", None, False),
    ("write 4 KiB p50 / Mooncake's mean", "perigee-write-latency", "mooncake-write-latency", None, False),
    ("two rails / one, as fast as the processors are", "perigee-write-two-rails", "perigee-write", None, True),
    ("two rails / one, of a speed that leaves processors idle", "limited-two-rails", "limited-one-rail", 1.7, True),
    ("perftest: two rails / one", "perftest-write-two-rails", "perftest-write", None, True),
    ("write 1 MiB / Mooncake", "perigee-write", "mooncake-write", 1.5, True),
    ("read 1 MiB / Mooncake", "perigee-read", "mooncake-read", 1.5, True),
]

# What measure.sh lets the two rails of its throttled case carry, in MB/s.
THROTTLED_MB = (240 + 60) / 8

# Figures with a bound of their own: a request that fails ends the run, which then has no figure at all.
BOUNDS = [
    ("one of two rails cut, longest operation", "cut-rail-longest-operation", 1000, "ms"),
    ("one of two rails cut, wrong bytes", "cut-rail-wrong-bytes", 0, "operations"),
]


def read(lines):
    """Values by case, with the unit and the processors' shares; and in how many rounds each case failed."""
    cases, failed = {}, {}
    for line in lines:
        _, case, value, unit, user, system, idle = line.split()
        if value == "failed":
            failed[case] = failed.get(case, 0) + 1
        else:
            cases.setdefault((case, unit), []).append(
                (float(value), int(user), int(system), int(idle))
            )
    return cases, failed


def table(cases, failed):
    yield "| case | rounds | median | range | user | system | idle |"
    yield "|---|---|---|---|---|---|---|"
    for (case, unit), rows in cases.items():
        values = [row[0] for row in rows]
        shares = " | ".join(f"{statistics.median(row[i] for row in rows):.0f} %" for i in (1, 2, 3))
        yield (
            f"| {case} | {len(values)} | {statistics.median(values):.4g} {unit} "
            f"| {min(values):.4g}..{max(values):.4g} | {shares} |"
        )
    for case, rounds in failed.items():
        yield f"| {case} | {rounds} | failed | | | | |"


def ratios(cases, failed):
    medians = {case: statistics.median(row[0] for row in rows) for (case, _), rows in cases.items()}
    yield "| ratio of medians, or figure | value | goal | met |"
    yield "|---|---|---|---|"
    for name, above, below, goal, more in RATIOS:
        if above not in medians or not medians.get(below):
            continue
        value = medians[above] / medians[below]
        met = "" if goal is None else "yes" if (value >= goal) == more else "no"
        bound = "" if goal is None else f"{'at least' if more else 'at most'} {goal}"
        yield f"| {name} | {value:.2f} | {bound} | {met} |"
    alone = [medians.get(f"throttled-{which}-alone") for which in ("fast", "slow")]
    if all(alone) and "throttled-together" in medians:
        value = medians["throttled-together"] / sum(alone)
        met = "yes" if value >= 0.85 else "no"
        yield f"| a rail and one throttled to a quarter / each alone | {value:.2f} | at least 0.85 | {met} |"
        yield f"| the same / what netem lets through | {medians['throttled-together'] / THROTTLED_MB:.2f} | | |"
    for name, case, bound, unit in BOUNDS:
        if case in medians:
            met = "yes" if medians[case] <= bound else "no"
            yield f"| {name} | {medians[case]:.4g} {unit} | at most {bound} {unit} | {met} |"
        elif case in failed:
            yield f"| {name} | failed | at most {bound} {unit} | no |"


def main():
    with open(sys.argv[1], encoding="ascii") as file:
        cases, failed = read(file)
    print("\n".join(table(cases, failed)))
    print()
    print("\n".join(ratios(cases, failed)))


if __name__ == "__main__":
    main()
