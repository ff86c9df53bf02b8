"""Consumers of key events as routers have them: what they decode, refuse and forget.

`HicacheIndex` is Dynamo's shared cache of type `hicache`, `Conductor` is Mooncake's indexer. Each has
the types of its own decoder, so an event that it would refuse is an error here.
"""

import hashlib
import struct
import time

import msgpack
import zmq

U32, U64 = 1 << 32, 1 << 64
PATIENCE_S = 30
POLL_MS = 50
HASH_DIGITS = 64
HASH_DIGITS_MIN = 16
OBJECT_FIELDS = {
    "group_id", "object_key", "seq_hashes", "block_hashes", "base_block_idx", "parent_hash",
    "token_ids", "parent_block_hash",
}
STORED_FIELDS = {"parent_hash", "token_ids", "parent_block_hash"}
LEGACY = {"stored": "BlockStored", "removed": "BlockRemoved", "cleared": "AllBlocksCleared"}
TIERS = {"cpu": "cpu", "cpu_pinned": "cpu", "disk": "disk"}


def is_int(value, end=U64):
    """Say whether it is an unsigned number; booleans are none in msgpack."""
    return type(value) is int and 0 <= value < end


def is_text_or_nil(value):
    """Say whether it is a string or nil."""
    return value is None or type(value) is str


def frames_of(message):
    """Return number and decoded payload of three frames, whose first is an empty topic."""
    topic, number, payload = message
    assert topic == b"" and len(number) == 8
    batch = msgpack.unpackb(payload, strict_map_key=True)
    assert type(batch) is list and len(batch) == 3
    time_ms, events, rank = batch
    assert is_int(time_ms) and type(events) is list and is_int(rank, U32)
    assert all(type(event) is dict for event in events)
    return struct.unpack(">Q", number)[0], time_ms, events


class Consumer:
    """Subscribes to everything; `apply` gets each message."""

    def __init__(self, endpoint):
        self.zmq = zmq.Context()
        self.socket = self.zmq.socket(zmq.SUB)
        self.socket.connect(endpoint)
        self.socket.subscribe(b"")

    def close(self):
        """Leave; what has not come is dropped."""
        self.zmq.destroy(linger=0)

    def join(self, store):
        """Wait until the subscription is seen."""
        deadline = time.monotonic() + PATIENCE_S
        attempt = 0
        while not self.socket.poll(POLL_MS):
            assert time.monotonic() < deadline, "the subscription was not seen"
            assert store.put(f"probe-{attempt}", b"probe") == 0
            attempt += 1

    def wait_for(self, condition, what):
        """Apply what comes until the condition holds."""
        deadline = time.monotonic() + PATIENCE_S
        while not condition():
            assert time.monotonic() < deadline, what
            if self.socket.poll(POLL_MS):
                self.apply(self.socket.recv_multipart())


def page_hashes(tokens, page_size):
    """Return the chained SHA-256 of each whole page, as SGLang names its pages."""
    found, prior = [], b""
    for at in range(0, len(tokens) - page_size + 1, page_size):
        words = struct.pack(f"<{page_size}I", *tokens[at : at + page_size])
        prior = hashlib.sha256(prior + words).digest()
        found.append(prior.hex())
    return found


def page_keys(page, ranks=1, mla=False, tag=None):
    """Return the keys in which SGLang stores a page."""
    name = f"{tag}_{page}" if tag else page
    if mla:
        return [f"{name}__k"]
    return [f"{name}_{rank}_{part}" for rank in range(ranks) for part in "kv"]


def page_group(page, tag=None):
    """Return the group that SGLang gives to the keys of a page."""
    return f"sglang-hicache:{tag}_{page}" if tag else f"sglang-hicache:{page}"


class HicacheIndex(Consumer):
    """Keys that are present, whatever their medium, and groups that were found whole."""

    def __init__(self, endpoint):
        super().__init__(endpoint)
        self.present, self.groups = set(), {}
        self.last, self.gaps = None, 0

    def apply(self, message):
        """Decode strictly, forget everything at a gap, follow the default tenant."""
        number, _, events = frames_of(message)
        if number == self.last:
            return
        if self.last is not None and number != self.last + 1:
            self.gaps += 1
            self.present.clear()
            self.groups.clear()
        self.last = number
        for event in events:
            kind, tenant = event["event_type"], event.get("tenant_id", "")
            key, group = event.get("object_key"), event.get("group_id")
            assert type(kind) is str and type(tenant) is str
            assert is_text_or_nil(key) and is_text_or_nil(group)
            if tenant not in ("", "default") or key is None:
                continue
            if kind == "stored":
                self.present.add(key)
                if group:
                    self.groups[group] = False
            elif kind == "removed":
                self.present.discard(key)
                if group:
                    self.groups.pop(group, None)
                else:
                    self.groups.clear()

    def hits(self, tokens, page_size, **layout):
        """Return for each page of a prompt whether it is there; a whole group is looked at once."""
        return [self._has(page, layout) for page in page_hashes(tokens, page_size)]

    def _has(self, page, layout):
        group = page_group(page, layout.get("tag"))
        if self.groups.get(group):
            return True
        hit = all(key in self.present for key in page_keys(page, **layout))
        if hit and group in self.groups:
            self.groups[group] = True
        return hit


REGISTER_FIELDS = {
    "endpoint": str, "replay_endpoint": str, "type": str, "modelname": str, "lora_name": str,
    "tenant_id": str, "instance_id": str, "block_size": int, "dp_rank": int, "additionalsalt": str,
    "hash_profile": dict,
}
REQUIRED = (
    "endpoint", "type", "modelname", "instance_id", "block_size", "dp_rank", "hash_profile",
)
LABELS = ("tp_rank:", "pcp", "dcp", "pp_rank:")


def page_of_sglang(key):
    """Return the hash and the part that a key of SGLang names, or nothing."""
    page, _, part = key.partition("_")
    return (page, part) if len(page) == HASH_DIGITS and part else None


def block_of_vllm(key):
    """Return the hash and the object that a key of vLLM names, or nothing."""
    parts = key.split("@")
    if len(parts) < 2 + len(LABELS) or len(parts[-1]) < HASH_DIGITS_MIN:
        return None
    ranks = zip(parts[-1 - len(LABELS) : -1], LABELS)
    return (parts[-1], key) if all(rank.startswith(label) for rank, label in ranks) else None


STRATEGIES = {"sglang": page_of_sglang, "vllm_v1": block_of_vllm}


class Conductor(Consumer):
    """An indexer with one publisher of type `Mooncake`; a gap makes it forget that for good.

    It is as its sources after 0.3.13 have it: what it cannot index is refused with a reason.
    """

    def __init__(self, registration):
        assert all(name in registration for name in REQUIRED)
        assert all(type(value) is REGISTER_FIELDS[name] for name, value in registration.items())
        assert registration["type"] == "Mooncake" and registration["block_size"] > 0
        super().__init__(registration["endpoint"])
        self.tenant = registration.get("tenant_id", "default")
        self.strategy = registration["hash_profile"]["strategy"]
        self.context = (registration["modelname"], registration["block_size"])
        self.last, self.stale = None, False
        self.refused = set()
        self.event_ids = []
        # Parts of each page in each tier.
        self.parts = {tier: {} for tier in ("cpu", "disk")}

    def apply(self, message):
        """Decode each event as the contract of the stream has it."""
        number, time_ms, events = frames_of(message)
        if self.last is not None and number > self.last + 1:
            self.stale = True
            self.parts = {tier: {} for tier in self.parts}
        self.last = number
        for event in events:
            self._check(event, time_ms)
            self.event_ids.append(event["event_id"])
            if not self.stale and event["tenant_id"] == self.tenant:
                self._index(event)

    def _check(self, event, time_ms):
        kind = event["event_type"]
        assert event.get("type", LEGACY[kind]) == LEGACY[kind]
        assert is_int(event["event_id"]) and event["timestamp"] == time_ms
        for name in ("model_name", "additional_salt", "lora_name", "medium"):
            assert is_text_or_nil(event[name]), name
        assert event["block_size"] is None or is_int(event["block_size"], U32)
        assert is_int(event["dp_rank"], U32), "it takes a number only"
        assert type(event["tenant_id"]) is str and event["tenant_id"]
        assert type(event["backend_id"]) is str and event["backend_id"]
        if kind == "cleared":
            assert not OBJECT_FIELDS & set(event)
            return
        assert is_text_or_nil(event["group_id"]) and type(event["object_key"]) is str
        assert type(event["seq_hashes"]) is list and all(map(is_int, event["seq_hashes"]))
        assert event.get("block_hashes", event["seq_hashes"]) == event["seq_hashes"]
        assert event["base_block_idx"] is None or is_int(event["base_block_idx"], U32)
        if kind == "removed":
            assert not STORED_FIELDS & set(event)
        else:
            assert event["token_ids"] is None and event["parent_hash"] is None
            assert event["base_block_idx"] is not None, "a block needs its depth or its parent"

    def _index(self, event):
        tier = TIERS.get((event["medium"] or "").lower())
        if tier is None:
            return
        if event["event_type"] == "cleared":
            self.parts[tier].clear()
            return
        if (event["model_name"], event["block_size"]) != self.context:
            self.refused.add("model_name and block_size are not those of the registration")
            return
        if self.strategy == "vllm_v1" and event["group_id"] not in (None, "", "0"):
            self.refused.add("a block of vLLM is in a group")
            return
        block = STRATEGIES[self.strategy](event["object_key"])
        if block is None:
            self.refused.add("object_key is of another form")
            return
        page, part = block
        found = self.parts[tier].setdefault(page, set())
        if event["event_type"] == "stored":
            found.add(part)
        else:
            found.discard(part)

    def longest(self, tokens, page_size):
        """Return the tokens of a prompt's longest beginning in each tier."""
        answer = {}
        for tier, parts in self.parts.items():
            answer[tier] = 0
            for page in page_hashes(tokens, page_size):
                if not parts.get(page):
                    break
                answer[tier] += page_size
        return answer
