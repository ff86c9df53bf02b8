"""The manifests of tools/deploy/kubernetes, played as pods: what is written in one pod is read in another."""

import json
import os

import pytest
from pod import wait_until

PAGE_BYTES = 64 << 10
PAGES = 48
ENGINE_PORT = 8000
DEADLINE_S = 120


def keys(name, count=PAGES):
    return [f"{name}/{page}" for page in range(count)]


def write(pod, name):
    codes = pod.ask(ENGINE_PORT, "/put", {"keys": keys(name), "page_bytes": PAGE_BYTES})
    assert codes == [0] * PAGES, f"{codes}\n{pod.log()}"


def read(pod, name):
    return pod.ask(ENGINE_PORT, "/get", {"keys": keys(name), "page_bytes": PAGE_BYTES})


def reads_right(pod, name):
    found = read(pod, name)
    assert found == ["right"] * PAGES, f"{found}\n{pod.log()}"


def reads_right_or_misses(pod, name):
    """A miss is always allowed, a wrong hit never; returns the number of hits."""
    found = read(pod, name)
    assert "wrong" not in found
    return found.count("right")


def hosts_of(pod, name):
    """Addresses of the pods that hold the objects."""
    places = pod.ask(ENGINE_PORT, "/places", {"keys": keys(name)})
    return {endpoint.rpartition(":")[0] for replicas in places for endpoint in replicas}


def segments(master):
    status, body = master.http("GET", 9003, "/get_segments_detail")
    assert status == 200
    return json.loads(body)["segments"]


def owners(master):
    return {one["te_endpoint"].rpartition(":")[0] for one in segments(master)}


def wait_for_owners(master, pods):
    expected = {pod.address for pod in pods}
    wait_until(lambda: owners(master) == expected, lambda: f"{owners(master)} are {expected}")


class Sglang:
    """A manifest with a master, stores and engines, and the steps of its life."""

    def __init__(self, play, manifest, engines, cluster=None, with_store_before=True):
        self.cluster = cluster or play(manifest)
        self.roles = self.cluster.manifest.roles
        early = self.start_early_store() if with_store_before else None
        self.master = self.cluster.start("mooncake-master")
        count = self.roles["mooncake-store"].replicas
        self.stores = [early] if early else []
        if early:
            self.cluster.wait_ready(early, "mooncake-store")
        for index in range(len(self.stores), count):
            self.stores.append(self.cluster.start("mooncake-store", index))
        self.engines = [self.cluster.start(*engine) for engine in engines]

    def start_early_store(self):
        """A store whose master has no name yet: it waits."""
        store = self.cluster.start("mooncake-store", 0, ready=False)
        wait_until(lambda: "master" in store.log().lower(), store.log)
        assert store.is_running(), store.log()
        return store

    def lenders(self):
        lends = {pod.name.rpartition("-")[0]: pod for pod in self.engines}
        prefill = lends.get("prefill")
        return [*self.stores, *([prefill] if prefill else [])]


def new_kep(play, **options):
    engines = [("sglang-backend", 0), ("sglang-backend", 1)]
    return Sglang(play, "rbg-sglang.yaml", engines, **options)


def new_disaggregated(play, **options):
    return Sglang(play, "rbg-sglang-disaggregated.yaml", [("prefill", 0), ("decode", 0)], **options)


def new_kep_as_printed(play):
    """The page's commands have no `exec`: a shell is the first process, and only a kill ends it."""
    cluster = play("rbg-sglang.yaml")
    for template in cluster.manifest.roles.values():
        template.command[-1] = template.command[-1].removeprefix("exec ")
    return Sglang(play, "rbg-sglang.yaml", [("sglang-backend", 0), ("sglang-backend", 1)], cluster)


SGLANG = [pytest.param(new_kep, id="kep-74"), pytest.param(new_disaggregated, id="disaggregated")]


@pytest.mark.parametrize("make", [*SGLANG, pytest.param(new_kep_as_printed, id="kep-74-as-printed")])
def test_pages_of_one_engine_are_read_by_another_from_the_stores(play, make):
    life = make(play)
    wait_for_owners(life.master, life.lenders())
    writer, reader = life.engines
    write(writer, "first")
    reads_right(reader, "first")
    write(reader, "second")
    reads_right(writer, "second")
    held = hosts_of(reader, "first") | hosts_of(reader, "second")
    assert held <= {pod.address for pod in life.lenders()}
    assert held & {pod.address for pod in life.stores}, "no byte lies in a store pod"


def test_the_cache_goes_from_prefill_to_decode_workers_of_sglang(play):
    life = new_disaggregated(play, with_store_before=False)
    hands_over(*life.engines)


def test_the_cache_goes_from_prefill_to_decode_workers_of_vllm(play):
    cluster = play("rbg-vllm-disaggregated.yaml")
    hands_over(cluster.start("prefill"), cluster.start("decode"))


def test_blocks_of_one_vllm_of_llm_d_are_read_by_another(play):
    cluster = play("llm-d-vllm.yaml")
    master = cluster.start("mooncake-master")
    workers = [cluster.start("decode", index) for index in range(2)]
    wait_for_owners(master, workers)
    for writer, reader in (workers, workers[::-1]):
        write(writer, writer.name)
        reads_right(reader, writer.name)


def hands_over(prefill, decode):
    to = decode.ask(ENGINE_PORT, "/session")
    work = {"name": "prompt", "pages": 32, "page_bytes": PAGE_BYTES}
    assert prefill.ask(ENGINE_PORT, "/send", {"to": to, **work}) == 0, prefill.log()
    assert decode.ask(ENGINE_PORT, "/has", work) is True


def test_values_travel_by_rest_across_pods(play):
    cluster = play("store.yaml")
    cluster.start("mooncake-master")
    # The manifest's stores are pure donors; values of REST need a buffer.
    stores = [
        cluster.start("mooncake-store", index, MOONCAKE_LOCAL_BUFFER_SIZE="16777216")
        for index in range(2)
    ]
    node = cluster.start("mooncake-client")
    wait_for_owners(cluster.pods[0], [*stores, node])
    for index in range(12):
        put, get = stores[index % 2], stores[(index + 1) % 2]
        body = {"key": f"rest-{index}", "value": "v" * (1000 * index + 1)}
        status, answer = put.http("PUT", 8080, "/api/put", body)
        assert status == 200, answer
        status, answer = get.http("GET", 8080, f"/api/get/rest-{index}")
        assert (status, answer) == (200, body["value"].encode())


LMCACHE_FILE = """
chunk_size: 256
remote_url: "mooncakestore://{master}:50051/"
remote_serde: "naive"
local_cpu: false
max_local_cpu_size: 1
extra_config:
  local_hostname: "localhost"
  metadata_server: "http://{master}:8080/metadata"
  protocol: "tcp"
  device_name: ""
  global_segment_size: 67108864
  local_buffer_size: 16777216
  transfer_timeout: 1
"""


def test_chunks_of_one_lmcache_host_are_read_by_another(play):
    cluster = play()
    command = ["mooncake_master", "-port", "50051", "-max_threads", "64", "-metrics_port", "9004"]
    command += ["--enable_http_metadata_server=true", "--http_metadata_server_host=0.0.0.0"]
    master = cluster.start_command("master", [*command, "--http_metadata_server_port=8080"], {})
    master.wait_for_port(50051)
    file = cluster.folder / "lmcache.yaml"
    file.write_text(LMCACHE_FILE.format(master=master.address))
    config = json.dumps({"kv_connector": "LMCacheConnectorV1", "kv_role": "kv_both"})
    workers = [
        cluster.start_command(
            f"worker-{index}",
            ["vllm", "serve", "model", "--port", "8000", "--kv-transfer-config", config],
            {"LMCACHE_CONFIG_FILE": str(file)},
        ).wait_for_port(ENGINE_PORT)
        for index in range(2)
    ]
    for writer, reader in (workers, workers[::-1]):
        write(writer, writer.name)
        reads_right(reader, writer.name)


def test_stores_with_the_json_file_of_sglangs_page_serve_engines_of_other_pods(play):
    """One metadata service, one master, a store service per server, all called localhost."""
    cluster = play()
    metadata = cluster.start_command("metadata", ["mooncake_http_metadata_server", "--port=8080"], {})
    master = cluster.start_command("master", ["mooncake_master"], {})
    url = f"http://{metadata.wait_for_port(8080).address}:8080/metadata"
    address = f"{master.wait_for_port(50051).address}:50051"
    file = cluster.folder / "mooncake.json"
    config = {
        "local_hostname": "localhost",
        "metadata_server": url,
        "master_server_address": address,
        "protocol": "tcp",
        "device_name": "",
        "global_segment_size": "64mb",
        "local_buffer_size": 0,
    }
    file.write_text(json.dumps(config))
    service = ["python", "-m", "mooncake.mooncake_store_service", f"--config={file}", "--port=8081"]
    stores = [cluster.start_command(f"store-{index}", service, {}) for index in range(2)]
    wait_for_owners(master, [store.wait_for_port(8081) for store in stores])
    variables = {
        "MOONCAKE_MASTER": address,
        "MOONCAKE_TE_META_DATA_SERVER": url,
        "MOONCAKE_GLOBAL_SEGMENT_SIZE": "0",
    }
    engine = ["python", "-m", "page_store", str(ENGINE_PORT)]
    engines = [cluster.start_command(f"engine-{index}", engine, variables) for index in range(2)]
    writer, reader = [pod.wait_for_port(ENGINE_PORT) for pod in engines]
    write(writer, "pages")
    reads_right(reader, "pages")
    assert hosts_of(reader, "pages") <= {store.address for store in stores}


def test_a_store_pod_is_replaced_under_its_name_with_a_new_address(play):
    life = new_kep(play, with_store_before=False)
    wait_for_owners(life.master, life.stores)
    writer, reader = life.engines
    write(writer, "before")
    gone = life.stores.pop()
    seconds = life.cluster.delete(gone)
    assert seconds is not None, f"SIGTERM did not end the pod\n{gone.log()}"
    wait_for_owners(life.master, life.stores)
    # SIGTERM alone moves what lies there, with the guide's command and Kubernetes' usual grace.
    reads_right(reader, "before")
    assert gone.address not in hosts_of(reader, "before")
    life.stores.append(life.cluster.start("mooncake-store", 2))
    assert life.stores[-1].name == gone.name and life.stores[-1].address != gone.address
    wait_for_owners(life.master, life.stores)
    write(writer, "after")
    reads_right(reader, "after")


LONG = pytest.mark.skipif(os.environ.get("PERIGEE_PODS") != "long", reason="PERIGEE_PODS=long runs it")


@pytest.mark.long
@LONG
@pytest.mark.parametrize("make", SGLANG)
def test_full_life(play, make):
    life = make(play)
    cluster, master = life.cluster, life.master
    wait_for_owners(master, life.lenders())
    writer, reader = life.engines
    write(writer, "kept")
    reads_right(reader, "kept")
    # The engine that wrote goes; what lies in the stores stays.
    role = writer.name.rpartition("-")[0]
    kept = hosts_of(reader, "kept") <= {pod.address for pod in life.stores}
    assert cluster.delete(writer) is not None, writer.log()
    if kept:
        reads_right(reader, "kept")
    reads_right_or_misses(reader, "kept")
    life.engines[0] = writer = cluster.start(role, 0)
    write(writer, "second")
    reads_right(reader, "second")
    # A store is killed without a word: its objects are misses, others are right, new ones go elsewhere.
    gone = life.stores.pop()
    cluster.crash(gone)
    reads_right_or_misses(reader, "second")
    write(writer, "during")
    reads_right_or_misses(reader, "during")
    wait_for_owners(master, life.lenders())
    life.stores.append(cluster.start("mooncake-store", 2))
    wait_for_owners(master, life.lenders())
    write(writer, "third")
    reads_right(reader, "third")
    # The master is deleted and comes back under its name with another address.
    cluster.delete(master)
    reads_right_or_misses(reader, "third")
    life.master = master = cluster.start("mooncake-master")
    wait_for_owners(master, life.lenders())
    wait_until(
        lambda: writer.ask(ENGINE_PORT, "/put", {"keys": ["probe"], "page_bytes": 64}) == [0],
        writer.log,
    )
    write(writer, "fourth")
    reads_right(reader, "fourth")
