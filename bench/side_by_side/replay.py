"""Replay of a request trace in the published JSONL form against a pool smaller than its working set.

For each request a client asks which blocks exist, reads the longest prefix that does and stores the rest; it is the
client of the demo, so every byte read is compared.
"""

import os

from bench.demo.reference_cache import prefix_hits
from bench.demo.report import Tally, percentile
from bench.side_by_side.accounting import cpu_seconds

CLIENT = "bench.demo.client"


def replay(side, requests, options, number, output):
    """One row."""
    for i in range(options.replay_nodes):
        side.own_segment(f"node-{i}", options.pool // options.replay_nodes)
    clients = [side.child(f"replay-{i}", CLIENT) for i in range(options.replay_clients)]
    for i, client in enumerate(clients):
        share = requests[i :: len(clients)]
        client.send({"setup": side.setup_arguments(0), "block_bytes": options.block_bytes, "requests": share})
    for client in clients:
        client.receive()
    cpu_before = {**side.cpu(), "client": sum(cpu_seconds(client.pid) for client in clients)}
    for client in clients:
        client.process.child.stdin.write(b"\n")
        client.process.child.stdin.flush()
    tally, wall_seconds, cpu_clients = Tally(), 0.0, 0.0
    for client in clients:
        answer = client.receive()
        while "tally" not in answer:
            answer = client.receive()
        tally.add(answer["tally"])
        wall_seconds = max(wall_seconds, answer["seconds"])
        # A child that has ended keeps its times until it is waited for.
        cpu_clients += cpu_seconds(client.pid)
    cpu_after = {**side.cpu(), "client": cpu_clients}
    row = {"section": "replay", "label": side.implementation.label, "round": number}
    row.update(trace_facts(requests, options))
    row.update(summary(tally, wall_seconds, len(clients)))
    row.update({f"cpu_{name}_s": round(cpu_after[name] - cpu_before[name], 2) for name in cpu_after})
    output.write({**row, "load": round(os.getloadavg()[0], 2)})


def trace_facts(requests, options):
    """What was replayed, and what perfect caches would have served of it."""
    blocks = sum(map(len, requests))
    return {
        "trace": os.path.basename(options.trace),
        "requests": len(requests),
        "blocks": blocks,
        "block_bytes": options.block_bytes,
        "pool_bytes": options.pool,
        "clients": options.replay_clients,
        "ideal_lru_hit_rate": round(prefix_hits(requests, options.pool // options.block_bytes) / blocks, 4),
        "endless_hit_rate": round(prefix_hits(requests) / blocks, 4),
    }


def summary(tally, wall_seconds, clients):
    """Figures of the whole replay. `call_gb_per_s` leaves out the time for making and checking bytes."""
    moved = tally.get_bytes + tally.put_bytes
    in_calls = sum(tally.latencies["request"]) / clients
    row = {
        "seconds": round(wall_seconds, 2),
        "hit_rate": round(tally.hits / tally.blocks, 4),
        "corrupt": tally.corrupt,
        "errors": tally.lost + tally.refused,
        "codes": tally.codes,
        "moved_gb": round(moved / 1e9, 3),
        "gb_per_s": round(moved / wall_seconds / 1e9, 4),
        "call_gb_per_s": round(moved / in_calls / 1e9, 4),
    }
    for operation, seconds in tally.latencies.items():
        for name, share in (("p50", 0.5), ("p99", 0.99)):
            row[f"{operation}_{name}_us"] = round(percentile(seconds, share) * 1e6, 1) if seconds else None
    return row
