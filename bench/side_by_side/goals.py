"""What is wanted of a row against the base implementation, as a ratio of medians."""

import dataclasses

KIB = 1 << 10


@dataclasses.dataclass(frozen=True)
class Goal:
    """A bound on a ratio to the base: `at_least` for rates, otherwise at most."""

    name: str
    metric: str
    bound: float
    at_least: bool = True

    def met(self, ratio):
        """Whether a ratio keeps the bound."""
        return ratio >= self.bound if self.at_least else ratio <= self.bound

    def text(self):
        """The bound as people write it."""
        return f"{'>=' if self.at_least else '<='} {self.bound:g}x"


SMALL = Goal("4 KiB, batch of 128", "gb_per_s", 6)
SHARED = Goal("zero-copy, same host", "gb_per_s", 3)
TCP_ONE = Goal("zero-copy over TCP, one client", "gb_per_s", 2)
TCP_FOUR = Goal("zero-copy over TCP, four clients", "gb_per_s", 3)
WEIGHTS_SHARED = Goal("weight update, same host", "gb_per_s", 3)
WEIGHTS_TCP = Goal("weight update over TCP", "gb_per_s", 2)
CPU = Goal("CPU seconds per GB", "cpu_s_per_gb", 0.5, at_least=False)
PLAIN = (
    Goal("plain calls of 4 KiB", "items_per_s", 5),
    Goal("plain calls of 4 KiB, p50", "p50_us", 0.3, at_least=False),
)
EXIST = Goal("is_exist, p50", "p50_us", 0.4, at_least=False)
EXIST_BATCH = Goal("batch_is_exist of 256", "items_per_s", 3)
REPLAY = (
    Goal("replay, GB/s", "gb_per_s", 3),
    Goal("replay, p99 of a request", "request_p99_us", 0.5, at_least=False),
    Goal("replay, CPU seconds per GB", "cpu_s_per_gb", 0.5, at_least=False),
)
#: Replayed hit rate may lie this far below that of an ideal LRU.
HIT_RATE_SLACK = 0.002


def goals_of(cell, is_tcp):
    """Goals that a cell (a dict that names what was measured) answers; over TCP only large blocks have any."""
    match cell["section"], cell["operation"]:
        case "weights", _:
            return [WEIGHTS_TCP if is_tcp else WEIGHTS_SHARED]
        case ("plain" | "rpc" | "replay"), _ if is_tcp:
            return []
        case "bulk", _ if cell["size"] == 4 * KIB:
            return [] if is_tcp else [SMALL]
        case "bulk", _ if 64 * KIB <= cell["size"] <= 16 << 20:
            by_clients = {1: [TCP_ONE], 4: [TCP_FOUR]}.get(cell["clients"], []) if is_tcp else [SHARED]
            return [*by_clients, CPU]
        case "plain", _ if cell["size"] == 4 * KIB and cell["clients"] == 1:
            return list(PLAIN)
        case "rpc", "is_exist" if cell["clients"] == 1:
            return [EXIST]
        case "rpc", "batch_is_exist" if cell["clients"] == 1:
            return [EXIST_BATCH]
        case "replay", _:
            return list(REPLAY)
    return []
