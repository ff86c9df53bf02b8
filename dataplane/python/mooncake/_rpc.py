"""`CoroRPCInterface`: bytes and tensors from process to process over TCP, for control messages.

A frame is a fixed head, a JSON header and the body; the answer is one byte. One connection carries
one frame at a time and is kept for the next. Both ends must be Perigee's. Bulk data belongs to
`TransferEngine`.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import json
import logging
import socket
import struct
import threading
from collections.abc import Callable
from typing import Any

from ._perigee import say_without_effect
from ._received import ReceivedData, ReceivedTensor

logger = logging.getLogger("mooncake.engine")

MAGIC = b"PGM1"
HEAD = struct.Struct("<4sBIQ")
DATA, TENSOR = 0, 1
TAKEN, REFUSED = b"\0", b"\1"

MAX_HEADER_BYTES = 64 << 10
MAX_BODY_BYTES = 1 << 30
MAX_SERVED_CONNECTIONS = 256
CHUNK_BYTES = 1 << 20
IDLE_SECONDS = 600
STOP_SECONDS = 5
ALL_INTERFACES = "0.0.0.0"
DEFAULT_PORT = 8080
# What Mooncake's calls have without the keyword.
USUAL_THREADS = (0, 8)

Callback = Callable[[dict[str, Any]], object]


def _address(text: str) -> tuple[str, int]:
    host, separator, port = text.rpartition(":")
    if not separator or not port.isdigit() or int(port) > 0xFFFF:
        raise ValueError(f"{text!r} is no host:port address")
    return host.strip("[]") or ALL_INTERFACES, int(port)


def _receive(connection: socket.socket, count: int) -> bytearray:
    """Return exactly `count` bytes; memory grows with what has arrived, not with what was said."""
    received = bytearray()
    while len(received) < count:
        chunk = connection.recv(min(count - len(received), CHUNK_BYTES))
        if not chunk:
            raise ConnectionError("the peer closed the connection within a message")
        received += chunk
    return received


def _tensor_bytes(tensor: Any) -> tuple[dict[str, Any], bytes]:
    """Return the description and the bytes of a contiguous tensor in host memory."""
    if not tensor.is_contiguous() or getattr(tensor, "is_cuda", False):
        raise ValueError("the tensor must be contiguous and in host memory")
    count = tensor.numel() * tensor.element_size()
    header = {"dtype": str(tensor.dtype), "shape": [int(size) for size in tensor.shape]}
    return header, ctypes.string_at(tensor.data_ptr(), count) if count else b""


class _Connections:
    """Idle connections of a client by target."""

    def __init__(self, per_target: int, timeout_s: float) -> None:
        self.per_target = per_target
        self.timeout_s = timeout_s
        self.lock = threading.Lock()
        self.idle: dict[str, list[socket.socket]] = {}

    def take(self, target: str) -> socket.socket:
        while True:
            with self.lock:
                waiting = self.idle.get(target)
                connection = waiting.pop() if waiting else None
            if connection is None:
                return socket.create_connection(_address(target), self.timeout_s)
            if self.is_open(connection):
                return connection
            connection.close()

    def is_open(self, connection: socket.socket) -> bool:
        # A message must not be sent twice, so a connection is looked at before, not retried after.
        connection.setblocking(False)
        try:
            # Either the peer is gone or it says something that was not asked for.
            connection.recv(1, socket.MSG_PEEK)
            return False
        except BlockingIOError:
            return True
        except OSError:
            return False
        finally:
            connection.settimeout(self.timeout_s)

    def put_back(self, target: str, connection: socket.socket) -> None:
        with self.lock:
            waiting = self.idle.setdefault(target, [])
            if len(waiting) < self.per_target:
                waiting.append(connection)
                return
        connection.close()

    def close(self) -> None:
        with self.lock:
            connections = [one for waiting in self.idle.values() for one in waiting]
            self.idle.clear()
        for connection in connections:
            connection.close()


class _Server:
    """Accepts connections and hands each message to `deliver`, which says whether it was taken."""

    def __init__(
        self,
        address: tuple[str, int],
        timeout_s: float,
        deliver: Callable[[int, dict[str, Any], bytes], bool],
    ) -> None:
        family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        self.listener = socket.create_server(address, family=family)
        self.timeout_s = timeout_s
        self.deliver = deliver
        self.stopping = threading.Event()
        self.lock = threading.Lock()
        self.connections: set[socket.socket] = set()
        self.acceptor = threading.Thread(target=self.accept, name="mooncake-rpc", daemon=True)
        self.acceptor.start()

    def accept(self) -> None:
        while not self.stopping.is_set():
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            with self.lock:
                room = not self.stopping.is_set() and (
                    len(self.connections) < MAX_SERVED_CONNECTIONS
                )
                if room:
                    self.connections.add(connection)
            if not room:
                logger.warning("A connection was refused: %d are open", MAX_SERVED_CONNECTIONS)
                connection.close()
                continue
            threading.Thread(
                target=self.serve, args=(connection,), name="mooncake-rpc-peer", daemon=True
            ).start()

    def serve(self, connection: socket.socket) -> None:
        try:
            while not self.stopping.is_set():
                connection.settimeout(IDLE_SECONDS)
                first = connection.recv(1)
                if not first:
                    return
                connection.settimeout(self.timeout_s)
                connection.sendall(TAKEN if self.message(connection, first) else REFUSED)
        except (OSError, ValueError) as error:
            if not self.stopping.is_set():
                logger.warning("A connection of a peer ended: %s", error)
        finally:
            with self.lock:
                self.connections.discard(connection)
            connection.close()

    def message(self, connection: socket.socket, first: bytes) -> bool:
        head = first + _receive(connection, HEAD.size - len(first))
        magic, kind, header_bytes, body_bytes = HEAD.unpack(head)
        if magic != MAGIC or kind not in (DATA, TENSOR):
            raise ValueError("the peer does not speak this protocol")
        if header_bytes > MAX_HEADER_BYTES or body_bytes > MAX_BODY_BYTES:
            raise ValueError(f"a message of {body_bytes} bytes is longer than {MAX_BODY_BYTES}")
        header = json.loads(_receive(connection, header_bytes))
        if not isinstance(header, dict):
            raise ValueError("the header of a message must be an object")
        return self.deliver(kind, header, bytes(_receive(connection, body_bytes)))

    def stop(self) -> None:
        with self.lock:
            self.stopping.set()
            connections = list(self.connections)
        for one in (self.listener, *connections):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        if threading.current_thread() is not self.acceptor:
            self.acceptor.join(STOP_SECONDS)


class RpcInterface:
    """Sends bytes and tensors to peers, and calls back for those that arrive.

    Codes: 0 when the peer's callback took the message, -1 otherwise; the log says why. Callbacks
    get a ReceivedData or ReceivedTensor, dicts with "source" (always ""), "data" (bytes) and, for
    tensors, "dtype" and "shape"; they run on threads of the server.
    """

    def __init__(self) -> None:
        self._clients: _Connections | None = None
        self._server: _Server | None = None
        self._listen: tuple[tuple[str, int], float] | None = None
        self._callbacks: dict[int, Callback] = {}

    def initialize(
        self,
        listen_address: str = "",
        thread_count: int = 0,
        timeout_seconds: int = 30,
        pool_size: int = 100,
    ) -> bool:
        """Be a client, and a server too if an address is given. Return whether that is possible."""
        ready = self.initialize_client(pool_size, timeout_seconds)
        if listen_address:
            ready = self.initialize_server(listen_address, thread_count, timeout_seconds) and ready
        return ready

    def initialize_client(self, pool_size: int = 100, timeout_seconds: int = 30) -> bool:
        """Allow sending, with at most `pool_size` idle connections per peer."""
        if pool_size < 0 or timeout_seconds <= 0:
            logger.error("initialize_client() failed: a timeout above 0 s is needed")
            return False
        self._clients = _Connections(pool_size, timeout_seconds)
        return True

    def initialize_server(
        self, listen_address: str, thread_count: int = 8, timeout_seconds: int = 30
    ) -> bool:
        """Set the address to listen on; `start_server` starts it. Each peer gets its own thread."""
        if thread_count not in USUAL_THREADS:
            say_without_effect(logger.name, "RpcInterface", "thread_count")
        try:
            self._listen = (_address(listen_address), max(timeout_seconds, 1))
        except ValueError as error:
            logger.error("initialize_server() failed: %s", error)
            return False
        return True

    def start_server(self) -> bool:
        """Start to listen, on threads of its own. Return False if that is not possible."""
        if self._listen is None or self._server is not None:
            logger.error("start_server() failed: %s", "initialize_server() first or stop_server()")
            return False
        address, timeout_s = self._listen
        try:
            self._server = _Server(address, timeout_s, self._deliver)
        except OSError as error:
            logger.error("start_server() failed: %s:%d: %s", *address, error)
            return False
        return True

    def start_server_async(self) -> bool:
        """As `start_server`, which does not block either."""
        return self.start_server()

    def stop_server(self) -> None:
        """Stop to listen and close the peers' connections."""
        server, self._server = self._server, None
        if server is not None:
            server.stop()

    def set_data_receive_callback(self, callback: Callback) -> None:
        """Set what is called with each message of `send_data`."""
        self._callbacks[DATA] = callback

    def set_tensor_receive_callback(self, callback: Callback) -> None:
        """Set what is called with each message of `send_tensor`."""
        self._callbacks[TENSOR] = callback

    def send_data(self, target_address: str, data: bytes) -> int:
        """Send bytes-like data to "host:port" and wait until the peer has taken it."""
        return self._send(target_address, DATA, {}, memoryview(data).cast("B"))

    def send_tensor(self, target_address: str, tensor: Any) -> int:
        """Send a contiguous tensor in host memory and wait until the peer has taken it."""
        try:
            header, body = _tensor_bytes(tensor)
        except (AttributeError, ValueError) as error:
            logger.error("send_tensor() failed: %s", error)
            return -1
        return self._send(target_address, TENSOR, header, body)

    def send_data_async(
        self, target_address: str, data: bytes, loop: asyncio.AbstractEventLoop
    ) -> asyncio.Future[int]:
        """As `send_data`; the result is a future of `loop`."""
        return loop.run_in_executor(None, self.send_data, target_address, data)

    def send_tensor_async(
        self, target_address: str, tensor: Any, loop: asyncio.AbstractEventLoop
    ) -> asyncio.Future[int]:
        """As `send_tensor`; the result is a future of `loop`."""
        return loop.run_in_executor(None, self.send_tensor, target_address, tensor)

    def _send(self, target: str, kind: int, header: dict[str, Any], body: Any) -> int:
        clients = self._clients
        if clients is None or len(body) > MAX_BODY_BYTES:
            reason = "initialize_client() first" if clients is None else "the message is too long"
            logger.error("Sending to %s failed: %s", target, reason)
            return -1
        text = json.dumps(header).encode()
        try:
            connection = clients.take(target)
            try:
                connection.sendall(HEAD.pack(MAGIC, kind, len(text), len(body)) + text)
                connection.sendall(body)
                taken = connection.recv(1)
            except BaseException:
                connection.close()
                raise
        except (OSError, ValueError) as error:
            logger.error("Sending to %s failed: %s", target, error)
            return -1
        if not taken:
            connection.close()
            logger.error("Sending to %s failed: the peer closed the connection", target)
            return -1
        clients.put_back(target, connection)
        return 0 if taken == TAKEN else -1

    def _deliver(self, kind: int, header: dict[str, Any], body: bytes) -> bool:
        callback = self._callbacks.get(kind)
        if callback is None:
            logger.warning("A message was dropped: no callback is set for it")
            return False
        described = {name: header[name] for name in ("dtype", "shape") if name in header}
        try:
            received = ReceivedTensor if kind == TENSOR else ReceivedData
            callback(received(source="", data=body, **described))
        except Exception:
            logger.exception("The callback of a message failed")
            return False
        return True

    def __del__(self) -> None:
        self.stop_server()
        if self._clients is not None:
            self._clients.close()


def create_rpc_client(local_rank: int = 0, world_size: int = 1) -> RpcInterface:
    """Return an interface that can send."""
    if local_rank != 0:
        say_without_effect(logger.name, "create_rpc_client", "local_rank")
    if world_size != 1:
        say_without_effect(logger.name, "create_rpc_client", "world_size")
    interface = RpcInterface()
    interface.initialize_client()
    return interface


def create_rpc_server(local_rank: int = 0, world_size: int = 1) -> RpcInterface:
    """Return an interface that will listen on all interfaces, port 8080 + rank, once started."""
    if world_size != 1:
        say_without_effect(logger.name, "create_rpc_server", "world_size")
    interface = RpcInterface()
    interface.initialize_server(f"{ALL_INTERFACES}:{DEFAULT_PORT + local_rank}")
    return interface
