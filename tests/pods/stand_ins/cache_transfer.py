"""The calls of SGLang's and vLLM's hand-over of a KV cache from prefill to decode workers by the transfer engine."""

import ctypes

from content import content
from mooncake.engine import TransferEngine

REGION_BYTES = 8 << 20


class CacheTransfer:
    """An engine with one registered region, known to peers as ADDRESS:PORT, or by its name at a metadata server."""

    def __init__(self, name, protocol, device, metadata="P2PHANDSHAKE"):
        self.engine = TransferEngine()
        code = self.engine.initialize(name, metadata, protocol, device)
        assert code == 0, f"initialize answered {code}"
        is_peer_to_peer = metadata == "P2PHANDSHAKE"
        self.session_id = f"{name}:{self.engine.get_rpc_port()}" if is_peer_to_peer else name
        self.region = ctypes.create_string_buffer(REGION_BYTES)
        self.base = ctypes.addressof(self.region)
        assert self.engine.batch_register_memory([self.base], [REGION_BYTES]) == 0

    def session(self):
        return {"session": self.session_id, "address": self.base, "bytes": REGION_BYTES}

    def send(self, to, name, pages, page_bytes):
        """Writes pages with the contents of `name` into a peer's region; the code of the batch."""
        offsets = [page * page_bytes for page in range(pages)]
        for page, offset in enumerate(offsets):
            ctypes.memmove(self.base + offset, content(f"{name}/{page}", page_bytes), page_bytes)
        return self.engine.batch_transfer_sync_write(
            to["session"],
            [self.base + offset for offset in offsets],
            [to["address"] + offset for offset in offsets],
            [page_bytes] * pages,
        )

    def has(self, name, pages, page_bytes):
        """Whether the own region holds what a peer has sent."""
        return all(
            ctypes.string_at(self.base + page * page_bytes, page_bytes)
            == content(f"{name}/{page}", page_bytes)
            for page in range(pages)
        )

    def calls(self):
        return {"session": self.session, "send": self.send, "has": self.has}


if __name__ == "__main__":
    import sys

    import control_server

    control_port, own_name, metadata_server = sys.argv[1:]
    control_server.serve(
        int(control_port), CacheTransfer(own_name, "tcp", "", metadata_server).calls()
    )
