"""`python -m bench.demo`: cluster up, workload, table, cluster down."""

import argparse
import signal
import sys
import tempfile

from bench.demo import trace, workload
from bench.demo.cluster import Cluster
from bench.demo.fleet import ROUTES, Fleet
from bench.demo.process import ProcessError
from bench.demo.progress import Progress
from bench.demo.quantity import format_bytes, parse_bytes
from bench.demo.reference_cache import prefix_hits
from bench.demo.report import render

NODES = 2
INTERRUPTED = 130


def arguments(words=None):
    """Parsed command line."""
    parser = argparse.ArgumentParser(prog="make demo", description=__doc__)

    def size(text):
        try:
            return parse_bytes(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from error

    def positive(text):
        if not text.isdecimal() or int(text) < 1:
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least 1")
        return int(text)

    parser.add_argument("--trace", help="JSONL file of requests; without it a workload is made")
    parser.add_argument("--requests", type=positive, help="how many (3000; all of a trace)")
    parser.add_argument("--block-bytes", type=size, default=64 << 10, help="bytes per block (64k)")
    parser.add_argument("--pool", type=size, default=512 << 20, help="bytes of all nodes (512M)")
    parser.add_argument("--clients", type=positive, default=2, help="client processes (2)")
    parser.add_argument("--route", choices=sorted(ROUTES), default="auto", help="how bytes move")
    parser.add_argument("--seed", type=int, default=1, help="of the made workload (1)")
    chosen = parser.parse_args(words)
    if chosen.pool // NODES < chosen.block_bytes:
        parser.error(f"--pool {chosen.pool} has no room for a block on each of {NODES} nodes")
    return chosen


def load_requests(options):
    """Requests to serve and one line about them."""
    if options.trace:
        requests = trace.read_trace(options.trace, options.requests)
        return requests, f"trace {options.trace}: {workload.describe(requests)}"
    shape = workload.Shape(requests=options.requests or 3000, seed=options.seed)
    requests = workload.generate(shape)
    about = (
        f"made workload, seed {shape.seed}: {shape.sessions_open} sessions open at a time, "
        f"{shape.turns_mean:g} turns in the mean, {shape.system_prompts} shared system prompts; "
    )
    return requests, about + workload.describe(requests)


def serve(options, requests, log_folder):
    """Runs everything once; returns the complaints."""
    cluster = Cluster(NODES, options.pool // NODES, log_folder)
    complaints = []
    try:
        fleet = Fleet(cluster.master_address, options, requests, log_folder)
        progress = Progress(len(requests))
        try:
            fleet.run(progress)
        except BaseException:
            fleet.kill()
            raise
        finally:
            progress.finish()
        complaints += fleet.stop()
        capacity_blocks = options.pool // options.block_bytes
        print(
            render(
                fleet.tally,
                fleet.wall_seconds,
                prefix_hits(requests, capacity_blocks),
                prefix_hits(requests),
                cluster.nodes(),
                cluster.metric("master_evicted_key_count"),
            )
        )
        if fleet.tally.corrupt:
            complaints.append(f"{fleet.tally.corrupt} corrupt blocks")
    finally:
        complaints += cluster.stop()
    return complaints


def end_on_signal(number, _frame):
    raise KeyboardInterrupt(signal.Signals(number).name)


def main(words=None):
    options = arguments(words)
    signal.signal(signal.SIGTERM, end_on_signal)
    try:
        requests, about = load_requests(options)
    except trace.TraceError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    log_folder = tempfile.mkdtemp(prefix="perigee-demo-")
    print(about)
    print(
        f"1 master, {NODES} nodes of {format_bytes(options.pool // NODES)}, {options.clients} clients, "
        f"blocks of {format_bytes(options.block_bytes)}, route {options.route}; logs in {log_folder}",
        flush=True,
    )
    try:
        complaints = serve(options, requests, log_folder)
    except KeyboardInterrupt:
        print("interrupted; the cluster is stopped", file=sys.stderr)
        return INTERRUPTED
    except (ProcessError, OSError) as error:
        complaints = [str(error)]
    for complaint in complaints:
        print(f"error: {complaint}", file=sys.stderr)
    if not complaints:
        print("\nEvery byte read was checked. The cluster stopped cleanly.")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
