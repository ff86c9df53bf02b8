"""`python -m bench.side_by_side run|report`: measure implementations in turn, or make a table of the measurements."""

import argparse
import os
import platform
import sys
import tempfile

from bench.demo.process import ProcessError
from bench.demo.quantity import parse_bytes
from bench.demo.trace import TraceError, read_trace
from bench.side_by_side import namespace, report
from bench.side_by_side.replay import replay
from bench.side_by_side.sections import Round
from bench.side_by_side.side import Implementation, Output, Side

SECTIONS = ("bulk", "plain", "rpc", "weights", "replay")
#: The weights take 2 GiB in each of two clients, so they are asked for.
USUAL_SECTIONS = [name for name in SECTIONS if name != "weights"]


def listing(kind):
    """A parser of comma-separated values."""

    def parse(text):
        try:
            return [kind(part) for part in text.split(",") if part]
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from error

    return parse


def size(text):
    """A size, for argparse."""
    try:
        return parse_bytes(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def arguments(words=None):
    """Parsed command line."""
    parser = argparse.ArgumentParser(prog="python -m bench.side_by_side", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run", help="measure; JSON lines on stdout (needs root)")
    run.add_argument("--python", action="append", required=True, help="interpreter of a virtual environment")
    run.add_argument("--label", action="append", required=True, help="its name, once per --python")
    run.add_argument("--env", action="append", default=[], help="LABEL:NAME=VALUE, for all processes of a label")
    run.add_argument("--rounds", type=int, default=4)
    run.add_argument("--sections", type=listing(str), default=USUAL_SECTIONS, help=",".join(SECTIONS))
    run.add_argument("--sizes", type=listing(parse_bytes), default=listing(parse_bytes)("4k,64k,1M,4M,16M"))
    run.add_argument("--clients", type=listing(int), default=[1, 4], help="client processes (1,4)")
    run.add_argument("--seconds", type=float, default=1.0, help="per row")
    run.add_argument("--segment", type=size, default=4 << 30, help="bytes of the segment (4G)")
    run.add_argument("--lease-ms", type=int, default=1000, help="of a read (1000)")
    run.add_argument("--tensors", type=int, default=1000, help="of a weight update (1000)")
    run.add_argument("--weight-bytes", type=size, default=2 << 30, help="of all its tensors (2G)")
    run.add_argument("--updates", type=int, default=3, help="weight updates of a round (3)")
    run.add_argument("--trace", help="JSONL file of requests for the replay")
    run.add_argument("--requests", type=int, default=3000, help="how many of them (3000)")
    run.add_argument("--block-bytes", type=size, default=64 << 10)
    run.add_argument("--pool", type=size, default=1 << 30, help="bytes of all replay nodes (1G)")
    run.add_argument("--replay-nodes", type=int, default=2)
    run.add_argument("--replay-clients", type=int, default=2)
    run.add_argument("--replay-lease-ms", type=int, default=500)
    run.add_argument("--out", help="append the lines to this file too")
    table = commands.add_parser("report", help="table of medians, ratios and goals")
    table.add_argument("files", nargs="+", help="files of JSON lines")
    table.add_argument("--base", help="label to compare with; the first one by default")
    chosen = parser.parse_args(words)
    if chosen.command == "run":
        check(parser, chosen)
    return chosen


def check(parser, chosen):
    """Refuses what cannot be run."""
    if len(chosen.label) != len(chosen.python) or len(set(chosen.label)) != len(chosen.label):
        parser.error("give a --label of its own for each --python")
    unknown = [name for name in chosen.sections if name not in SECTIONS]
    if unknown:
        parser.error(f"no section {unknown[0]}; there are {', '.join(SECTIONS)}")
    if not chosen.trace:
        chosen.sections = [name for name in chosen.sections if name != "replay"]
    for entry in chosen.env:
        label, colon, assignment = entry.partition(":")
        if not colon or "=" not in assignment or label not in chosen.label:
            parser.error(f"--env {entry} is not LABEL:NAME=VALUE with one of the labels")


def environments(options):
    """Label -> environment."""
    result = {label: {} for label in options.label}
    for entry in options.env:
        label, _, assignment = entry.partition(":")
        name, _, value = assignment.partition("=")
        result[label][name] = value
    return result


def machine():
    """Facts a reader needs to judge the figures."""
    with open("/proc/cpuinfo", encoding="ascii", errors="replace") as lines:
        models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    with open("/proc/sys/net/ipv4/tcp_congestion_control", encoding="ascii") as name:
        congestion = name.read().strip()
    return {
        "kernel": platform.release(),
        "cpu": models[0] if models else platform.machine(),
        "cores": os.cpu_count(),
        "congestion_control_of_host": congestion,
    }


def run(options):
    """All rounds, sides in turn; returns how many failed."""
    requests = read_trace(options.trace, options.requests) if "replay" in options.sections else []
    output = Output(options.out)
    environment = environments(options)
    log_folder = tempfile.mkdtemp(prefix="side-by-side-")
    output.write({"section": "run", "environment": environment, "rounds": options.rounds, **machine()})
    print(f"logs in {log_folder}", file=sys.stderr)
    failures = 0
    for number in range(options.rounds):
        for label, python in zip(options.label, options.python):
            logs = os.path.join(log_folder, f"{label}-{number}")
            os.makedirs(logs)
            try:
                one_side(Implementation(label, python, environment[label]), logs, options, requests, number, output)
            except (ProcessError, OSError) as error:
                failures += 1
                output.write({"section": "failed", "label": label, "round": number, "error": str(error)})
    return failures


def one_side(implementation, logs, options, requests, number, output):
    """Everything of one implementation in one round; the replay gets a cluster of its own."""
    if set(options.sections) != {"replay"}:
        with Side(implementation, logs, options.lease_ms) as side:
            Round(side, options, number, output).run()
    if "replay" in options.sections:
        replay_logs = os.path.join(logs, "replay")
        os.makedirs(replay_logs)
        with Side(implementation, replay_logs, options.replay_lease_ms) as side:
            replay(side, requests, options, number, output)


def main():
    options = arguments()
    if options.command == "report":
        print(report.render(report.read(options.files), options.base))
        return 0
    namespace.enter()
    try:
        return 1 if run(options) else 0
    except TraceError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
