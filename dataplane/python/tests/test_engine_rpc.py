"""Messages between processes with `CoroRPCInterface`."""

import asyncio
import contextlib
import ctypes
import socket
import threading

import numpy
import pytest
from conftest import free_ports, wait_until

from mooncake import _rpc
from mooncake.engine import CoroRPCInterface, ReceivedTensor, create_rpc_client

TIMEOUT_S = 20


@pytest.fixture
def server():
    [port] = free_ports(1)
    interface = CoroRPCInterface()
    interface.received = []
    interface.address = f"127.0.0.1:{port}"
    interface.set_data_receive_callback(interface.received.append)
    interface.set_tensor_receive_callback(interface.received.append)
    assert interface.initialize_server(interface.address, timeout_seconds=2)
    assert interface.start_server()
    yield interface
    interface.stop_server()


class Tensor:
    """What `send_tensor` uses of a tensor of torch."""

    is_cuda = False
    dtype = "torch.float32"

    def __init__(self, array, contiguous=True):
        self.array, self.shape, self.contiguous = array, array.shape, contiguous

    def is_contiguous(self):
        return self.contiguous

    def numel(self):
        return self.array.size

    def element_size(self):
        return self.array.itemsize

    def data_ptr(self):
        return self.array.ctypes.data_as(ctypes.c_void_p).value


def test_bytes_arrive_in_order_over_one_connection(server):
    client = create_rpc_client()
    messages = [b"", b"a", bytearray(b"bc"), memoryview(bytes(3 << 20))]
    assert [client.send_data(server.address, message) for message in messages] == [0] * 4
    assert [it["data"] for it in server.received] == [bytes(message) for message in messages]
    assert all(it["source"] == it.source_address == "" for it in server.received)
    assert [it.get_bytes() for it in server.received] == [bytes(message) for message in messages]
    assert [it.data_size for it in server.received] == [len(bytes(it)) for it in messages]
    assert len(server._server.connections) == 1


def test_tensor_arrives_with_its_shape(server):
    array = numpy.arange(6, dtype=numpy.float32).reshape(2, 3)
    client = create_rpc_client()
    assert client.send_tensor(server.address, Tensor(array)) == 0
    [received] = server.received
    assert received["data"] == array.tobytes()
    assert (received["shape"], received["dtype"]) == ([2, 3], "torch.float32")
    assert isinstance(received, ReceivedTensor) and received.total_bytes == array.nbytes
    assert (received.shape, received.dtype) == ([2, 3], "torch.float32")
    assert received.get_data_as_bytes() == bytes(received.get_memory_view()) == array.tobytes()


def test_tensor_that_is_not_contiguous_is_refused(server):
    client = create_rpc_client()
    assert client.send_tensor(server.address, Tensor(numpy.zeros(4), contiguous=False)) == -1
    assert client.send_tensor(server.address, "no tensor") == -1
    assert server.received == []


def test_awaited_messages_arrive(server):
    client = create_rpc_client()

    async def send():
        loop = asyncio.get_running_loop()
        sent = [client.send_data_async(server.address, bytes([it]), loop) for it in range(20)]
        return await asyncio.gather(*sent)

    assert asyncio.run(send()) == [0] * 20
    assert sorted(it["data"][0] for it in server.received) == list(range(20))


def test_sending_to_an_absent_peer_or_before_initialize_answers_a_code(server):
    [port] = free_ports(1)
    assert create_rpc_client().send_data(f"127.0.0.1:{port}", b"x") == -1
    assert create_rpc_client().send_data("no address", b"x") == -1
    assert CoroRPCInterface().send_data(server.address, b"x") == -1


def test_server_that_stops_and_starts_again_is_found_again(server):
    client = create_rpc_client()
    assert client.send_data(server.address, b"1") == 0
    server.stop_server()
    assert client.send_data(server.address, b"2") == -1
    assert server.start_server()
    assert client.send_data(server.address, b"3") == 0
    assert [it["data"] for it in server.received] == [b"1", b"3"]


def test_callback_that_fails_is_a_refusal_and_the_server_goes_on(server):
    client = create_rpc_client()

    def fail(message):
        raise RuntimeError("refused")

    server.set_data_receive_callback(fail)
    assert client.send_data(server.address, b"1") == -1
    server.set_data_receive_callback(server.received.append)
    assert client.send_data(server.address, b"2") == 0


def test_server_does_not_start_twice_nor_on_a_port_in_use(server):
    assert not server.start_server()
    other = CoroRPCInterface()
    assert other.initialize_server(server.address) and not other.start_server()
    assert not other.initialize_server("no address")


@pytest.mark.parametrize(
    "sent",
    [
        b"GET / HTTP/1.1\r\n\r\n" + bytes(64),
        _rpc.HEAD.pack(_rpc.MAGIC, 0, 2, 1 << 62) + b"{}",
        _rpc.HEAD.pack(_rpc.MAGIC, 0, 1 << 31, 0),
        _rpc.HEAD.pack(_rpc.MAGIC, 9, 2, 0) + b"{}",
        _rpc.HEAD.pack(_rpc.MAGIC, 0, 2, 0) + b"[]",
        _rpc.HEAD.pack(_rpc.MAGIC, 0, 2, 9) + b"{}short",
    ],
    ids=["http", "body", "header", "kind", "list", "short"],
)
def test_hostile_bytes_end_their_connection_and_nothing_else(server, sent):
    host, port = server.address.split(":")
    with socket.create_connection((host, int(port)), TIMEOUT_S) as peer:
        peer.sendall(sent)
        # The short one is given up after the server's timeout; a reset is an end as well.
        with contextlib.suppress(ConnectionResetError):
            assert peer.recv(1) == b""
    assert server.received == []
    assert create_rpc_client().send_data(server.address, b"x") == 0


def test_many_threads_send_at_once(server):
    client = create_rpc_client()
    codes = []

    def send(number):
        codes.extend(client.send_data(server.address, bytes([number])) for _ in range(20))

    threads = [threading.Thread(target=send, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(TIMEOUT_S)
    assert codes == [0] * 160 and len(server.received) == 160


def test_stopped_server_has_no_connections_left(server):
    client = create_rpc_client()
    assert client.send_data(server.address, b"1") == 0
    running = server._server
    server.stop_server()
    wait_until(lambda: not running.connections, TIMEOUT_S, "the end of the connections")
