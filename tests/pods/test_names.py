"""Under which names and addresses clients of other hosts are found."""

import json
import re

import pytest
from pod import wait_until

ENGINE_PORT = 8000
RPC_PORT = 50051
DATA_PORT = 50052
PAGE_BYTES = 64 << 10
SEGMENT = {"MOONCAKE_GLOBAL_SEGMENT_SIZE": str(64 << 20), "MOONCAKE_PROTOCOL": "tcp"}
TRANSFER_FAIL = -800


def start_master(cluster):
    pod = cluster.start_command("master", ["mooncake_master", "--metrics_port=9003"], {})
    return pod.wait_for_port(RPC_PORT)


def start_client(cluster, name, master, wait=True, **variables):
    environment = {**SEGMENT, "MOONCAKE_MASTER": f"{master.address}:{RPC_PORT}", **variables}
    command = ["python", "-m", "page_store", str(ENGINE_PORT)]
    pod = cluster.start_command(name, command, environment)
    return pod.wait_for_port(ENGINE_PORT) if wait else pod


def segments(master):
    status, body = master.http("GET", 9003, "/get_segments_detail")
    assert status == 200
    return json.loads(body)["segments"]


def host_of(endpoint):
    return endpoint.rpartition(":")[0].strip("[]")


@pytest.mark.parametrize("name", [None, "localhost", "127.0.0.1", "localhost:17001", "0.0.0.0"])
def test_pods_that_call_themselves_localhost_read_each_others_objects(play, name):
    cluster = play()
    master = start_master(cluster)
    variables = {} if name is None else {"MOONCAKE_LOCAL_HOSTNAME": name}
    pods = [start_client(cluster, f"engine-{index}", master, **variables) for index in range(2)]
    names = [pod.ask(ENGINE_PORT, "/name") for pod in pods]
    assert [host_of(one) for one in names] == [pod.address for pod in pods], "each its address"
    found = segments(master)
    assert sorted(one["segment_name"] for one in found) == sorted(names)
    endpoints = {host_of(one["te_endpoint"]) for one in found}
    assert endpoints == {pod.address for pod in pods}
    for writer, reader in (pods, pods[::-1]):
        keys = [f"{writer.name}-{page}" for page in range(16)]
        work = {"keys": keys, "page_bytes": PAGE_BYTES}
        assert writer.ask(ENGINE_PORT, "/put", work) == [0] * len(keys)
        assert reader.ask(ENGINE_PORT, "/get", work) == ["right"] * len(keys)


def test_a_bind_address_comes_before_the_address_towards_the_master(play):
    cluster = play()
    master = start_master(cluster)
    address = cluster.take_address()
    environment = {**SEGMENT, "MOONCAKE_MASTER": f"{master.address}:{RPC_PORT}"}
    second = "10.88.77.7"
    command = f"ip address add {second}/16 dev eth0 && exec python -m page_store {ENGINE_PORT}"
    environment["MC_TCP_BIND_ADDRESS"] = second
    pod = cluster.start_command("engine", ["sh", "-c", command], environment, address=address)
    pod.wait_for_port(ENGINE_PORT)
    assert host_of(pod.ask(ENGINE_PORT, "/name")) == second
    assert {host_of(one["te_endpoint"]) for one in segments(master)} == {second}


def test_a_cluster_on_loopback_opens_no_data_port_to_others(play):
    cluster = play()
    script = (
        "mooncake_master --rpc_address=127.0.0.1 & "
        f"until python -m page_store {ENGINE_PORT}; do sleep 0.2; done"
    )
    environment = {**SEGMENT, "MOONCAKE_MASTER": f"127.0.0.1:{RPC_PORT}"}
    pod = cluster.start_command("alone", ["sh", "-c", script], environment)
    pod.wait_for_port(ENGINE_PORT)
    assert host_of(pod.ask(ENGINE_PORT, "/name")) == "localhost"
    [segment] = segments(pod)
    host, _, port = segment["te_endpoint"].rpartition(":")
    assert host == "127.0.0.1"
    assert not pod.accepts(int(port))


@pytest.mark.parametrize("name", ["localhost", "127.0.0.1"])
def test_a_store_beside_the_master_is_read_from_other_pods_whatever_it_is_called(play, name):
    cluster = play()
    script = f"mooncake_master & until python -m page_store {ENGINE_PORT}; do sleep 0.2; done"
    environment = {**SEGMENT, "MOONCAKE_MASTER": f"localhost:{RPC_PORT}", "MOONCAKE_LOCAL_HOSTNAME": name}
    head = cluster.start_command("head", ["sh", "-c", script], environment)
    head.wait_for_port(ENGINE_PORT)
    [segment] = segments(head)
    assert host_of(segment["te_endpoint"]) == head.address
    reader = start_client(cluster, "reader", head, MOONCAKE_GLOBAL_SEGMENT_SIZE="0")
    work = {"keys": [f"page-{page}" for page in range(8)], "page_bytes": PAGE_BYTES}
    assert head.ask(ENGINE_PORT, "/put", work) == [0] * 8
    assert reader.ask(ENGINE_PORT, "/get", work) == ["right"] * 8


@pytest.mark.parametrize("name", ["localhost", "127.0.0.1"])
def test_an_engine_without_a_metadata_server_is_where_it_was_asked(play, name):
    cluster = play()
    one, other = [
        cluster.start_command(
            f"engine-{index}",
            ["python", "-m", "cache_transfer", str(ENGINE_PORT), name, "P2PHANDSHAKE"],
            {},
        ).wait_for_port(ENGINE_PORT)
        for index in range(2)
    ]
    to = other.ask(ENGINE_PORT, "/session")
    port = to["session"].rpartition(":")[2]
    to["session"] = f"{other.address}:{port}"
    work = {"name": other.name, "pages": 16, "page_bytes": PAGE_BYTES}
    assert one.ask(ENGINE_PORT, "/send", {"to": to, **work}) == 0, one.log()
    assert other.ask(ENGINE_PORT, "/has", work) is True


@pytest.mark.parametrize("names", [("localhost:18001", "localhost:18002"), ("127.0.0.1:1", "node-a")])
def test_engines_of_one_metadata_server_are_found_whatever_they_are_called(play, names):
    cluster = play()
    flags = ["--enable_http_metadata_server=true", "--http_metadata_server_port=8080"]
    master = cluster.start_command("master", ["mooncake_master", *flags], {}).wait_for_port(8080)
    url = f"http://{master.address}:8080/metadata"
    engines = [
        cluster.start_command(
            f"engine-{index}", ["python", "-m", "cache_transfer", str(ENGINE_PORT), name, url], {}
        )
        for index, name in enumerate(names)
    ]
    one, other = [engine.wait_for_port(ENGINE_PORT) for engine in engines]
    for sender, receiver in ((one, other), (other, one)):
        work = {"name": receiver.name, "pages": 16, "page_bytes": PAGE_BYTES}
        to = receiver.ask(ENGINE_PORT, "/session")
        assert sender.ask(ENGINE_PORT, "/send", {"to": to, **work}) == 0, sender.log()
        assert receiver.ask(ENGINE_PORT, "/has", work) is True


@pytest.mark.parametrize("beside_the_master", [False, True])
def test_a_native_node_accepts_on_its_documented_port(play, beside_the_master):
    cluster = play()
    flags = f"--global_segment_size=64MB --host=0.0.0.0 --port={DATA_PORT}"
    node = f"exec mooncake_client {flags} --metadata_server=P2PHANDSHAKE"
    if beside_the_master:
        script = f"mooncake_master & {node}"
        pod = master = cluster.start_command("both", ["sh", "-c", script], {})
    else:
        master = start_master(cluster)
        script = f"{node} --master_server_address={master.address}:{RPC_PORT}"
        pod = cluster.start_command("node", ["sh", "-c", script], {})
    pod.wait_for_port(DATA_PORT)
    wait_until(lambda: segments(master), pod.log)
    [segment] = segments(master)
    assert segment["te_endpoint"] == f"{pod.address}:{DATA_PORT}"
    engine = start_client(cluster, "engine", master, MOONCAKE_GLOBAL_SEGMENT_SIZE="0")
    work = {"keys": ["a", "b"], "page_bytes": PAGE_BYTES}
    assert engine.ask(ENGINE_PORT, "/put", work) == [0, 0]
    assert engine.ask(ENGINE_PORT, "/get", work) == ["right", "right"]


def start_node(cluster, master, *flags):
    node = ["mooncake_client", "--global_segment_size=64MB", "--metadata_server=P2PHANDSHAKE"]
    node += [f"--master_server_address={master.address}:{RPC_PORT}", *flags]
    return cluster.start_command("node", node, {})


DUMMY = """
from content import content
from mooncake.store import MooncakeDistributedStore

store = MooncakeDistributedStore()
assert store.setup_dummy(16 << 20, 16 << 20, "127.0.0.1:50052") == 0
assert store.put("beside", content("beside", {bytes})) == 0
assert store.get("far") == content("far", {bytes})
print("both are right")
"""


def test_a_client_beside_a_node_needs_nothing_but_its_port(play):
    cluster = play()
    master = start_master(cluster)
    node = start_node(cluster, master)
    engine = start_client(cluster, "engine", master, MOONCAKE_GLOBAL_SEGMENT_SIZE="0")
    far = {"keys": ["far"], "page_bytes": PAGE_BYTES}
    wait_until(lambda: engine.ask(ENGINE_PORT, "/put", far) == [0], node.log)
    program = cluster.folder / "dummy.py"
    program.write_text(DUMMY.format(bytes=PAGE_BYTES))
    python = str(cluster.programs / "python")
    code, text = node.run(python, str(program), environment=cluster.environment({}))
    assert code == 0 and "both are right" in text, text
    beside = {"keys": ["beside"], "page_bytes": PAGE_BYTES}
    assert engine.ask(ENGINE_PORT, "/get", beside) == ["right"]


def test_a_host_that_is_not_of_this_host_is_warned_of(play):
    cluster = play()
    master = start_master(cluster)
    node = start_node(cluster, master, "--host=10.88.200.200")
    wait_until(lambda: "not an address of this host" in node.log(), node.log)


CLIENT = """
import signal
from mooncake.store import MooncakeDistributedStore

store = MooncakeDistributedStore()
seven = ("localhost", "P2PHANDSHAKE", 0, 1 << 20, "tcp", "", "{master}")
assert store.setup(*seven, enable_client_http_server=True, client_http_port=9300) == 0
print("answered", store.put("key", b"x" * 100000), flush=True)
signal.pause()
"""


def test_an_owner_that_cannot_be_reached_is_an_error_that_all_tools_name(play):
    cluster = play()
    master = start_master(cluster)
    node = start_node(cluster, master)
    wait_until(lambda: segments(master), node.log)
    address = f"{master.address}:{RPC_PORT}"
    program = cluster.folder / "client.py"
    program.write_text(CLIENT.format(master=address))
    script = f"ip route add unreachable {node.address} && exec python {program}"
    client = cluster.start_command("client", ["sh", "-c", script], {})
    wait_until(lambda: "answered" in client.log(), client.log)
    assert f"answered {TRANSFER_FAIL}" in client.log(), client.log()
    [line] = [line for line in client.log().splitlines() if "cannot be reached from here" in line]
    assert "ERROR" in line and node.address in line and "segment=" in line
    _, metrics = client.http("GET", 9300, "/metrics")
    [count] = re.findall(r"^perigee_unreachable_owners_total (\d+)$", metrics.decode(), re.M)
    assert int(count) > 0
    perigee = ["env", f"PATH={cluster.environment({})['PATH']}", "perigee"]
    code, text = client.run(*perigee, "status", address)
    assert code == 0 and "1 of 1 segments cannot be reached" in text, text
    doctor = [*perigee, "doctor", "--only=segment_reach", f"--master={address}"]
    code, text = client.run(*doctor)
    assert code == 1 and re.search(rf"{node.address}:\d+ cannot be reached", text), text
    code, text = master.run(*doctor)
    assert code == 0, text
