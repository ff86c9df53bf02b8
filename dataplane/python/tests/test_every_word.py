"""No setting of Mooncake beside its variables is accepted in silence: each flag, key, keyword and
parameter of the doctor's list is known where it is taken, or gives a line or a refusal there.
"""

import dataclasses
import enum
import functools
import importlib
import inspect
import json
import re
import subprocess
import sys
import urllib.error
import urllib.request

import pytest
from conftest import START_TIMEOUT_S, Process, free_ports, listens, program, wait_until

import mooncake.engine
import mooncake.shared_segment
import mooncake.store
from mooncake.async_store import MooncakeDistributedStoreAsync
from mooncake.mooncake_config import MooncakeConfig
from tent.settings import Settings

TIMEOUT_S = 60
OWN = "ssd_key_file"
CLOSED = "127.0.0.1:1"
SEVEN = ("127.0.0.1", "P2PHANDSHAKE", 0, 16 << 20, "tcp", "", CLOSED)
GFLAGS = "mooncake_master, mooncake_client and transfer_engine_bench"
# What each program needs to start, or to end at once.
STARTS = {
    "mooncake_client": ["--master_server_address=127.0.0.1:1", "--max_wait_time=0", "--port=0",
                        "--metadata_server=P2PHANDSHAKE", "--global_segment_size=0"],
    "transfer_engine_bench": ["--metadata_server=P2PHANDSHAKE", "--protocol=tcp",
                              "--local_server_name=127.0.0.1:0", "--segment_id=127.0.0.1:1"],
}
OTHER_STORE_CALLS = "other calls of MooncakeDistributedStore"
CLASSES = {
    "BufferPool": mooncake.store.BufferPool,
    "EngramStore": mooncake.store.EngramStore,
    "TransferEngine": mooncake.engine.TransferEngine,
    "TransferNotify": mooncake.engine.TransferNotify,
    "RpcInterface": mooncake.engine.RpcInterface,
}
# Keywords that Mooncake's calls do not have: they have no names there, or such calls.
OF_PERIGEE = {
    OTHER_STORE_CALLS: "protocol device_name mount_segment_size seconds",
    "BufferPool": "region",
    "TransferEngine": "local_hostname metadata_server metadata_type protocol batch_ids batch_id "
    "dest_address source_address value",
    "RpcInterface": "callback",
    "mooncake.reshard": "count kinds meaning name offset part",
}
MODULES_OF_RESHARD = ("mooncake.reshard", "mooncake.reshard.contracts", "mooncake.reshard.geometry",
                      "mooncake.reshard.weight")
RECORDS = "records and functions of mooncake.structured_object_store"
# The names of `mooncake.structured_object_store` that have a place of their own.
STRUCTURED = {
    "MooncakeBundleTransfer": ("MooncakeBundleTransfer",),
    "BundleTransferPolicy": ("BundleTransferPolicy",),
    "FieldSchema": ("FieldSchema",),
    "StructuredObjectReadSpec, StructuredMemberSlice":
        ("StructuredObjectReadSpec", "StructuredMemberSlice"),
    "tensor_object_buffer, raw_destination": ("tensor_object_buffer", "raw_destination"),
}


@functools.cache
def settings():
    """Return all rows of the doctor's list but those of variables."""
    command = [program("perigee"), "doctor", "--mooncake-env=all", "--format=json"]
    said = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=True)
    return json.loads(said.stdout)["settings"]


def rows(kind, taken_by=None):
    """Return the rows of a kind, or of one place."""
    of_kind = [row for row in settings() if row["kind"] == kind]
    return [row for row in of_kind if taken_by in (None, row["taken_by"])]


def names(kind, taken_by, is_honoured=None):
    """Return the names of a place, or those that are honoured or not."""
    found = [row for row in rows(kind, taken_by)
             if is_honoured in (None, row["effect"] == "honoured")]
    return [row["name"] for row in found]


def places(kind):
    return sorted({row["taken_by"] for row in rows(kind)})


def run(arguments):
    """Run a program that ends; return its status and all that it says."""
    done = subprocess.run(
        arguments, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=TIMEOUT_S
    )
    return done.returncode, done.stdout


def test_the_list_has_all_kinds_and_three_words_for_effects():
    kinds = {row["kind"] for row in settings()}
    assert kinds == {"flag", "key", "keyword", "parameter"}
    effects = {row["effect"] for row in settings()}
    assert effects == {"honoured", "not needed", "not built"}
    assert len(rows("flag")) > 150 and len(rows("keyword")) > 100


# Flags


@functools.cache
def help_of(place):
    name = "mooncake_master" if place == GFLAGS else place
    module = [sys.executable, "-m", name]
    status, text = run([*(module if "." in name else [program(name)]), "--help"])
    assert status == 0, text
    return " ".join(text.split())


@pytest.mark.parametrize("place", places("flag"))
def test_each_flag_that_is_honoured_is_in_the_help_of_its_program(place):
    text = help_of(place)
    unknown = [name for name in names("flag", place, True)
               if not re.search(rf"--?{name}\b", text)]
    assert not unknown


def other_value(place, name):
    """Return a value that a flag takes and that is not its default."""
    described = rf" -{name} \(.*?\) type: (\w+) default: (\S+)"
    kind, default = re.search(described, help_of(place)).groups()
    default = default.strip('"')
    if kind == "bool":
        return str(default != "true").lower()
    if kind == "double":
        return str(float(default) + 0.01)
    return str(int(default) + 1) if default.isdigit() else {"classic": "tent"}.get(default, "x")


def without_effect(place):
    """Return flags of a place with other values than the default, that start and that end."""
    starting, ending = [], []
    for row in rows("flag", place):
        if row["effect"] != "honoured" and "refused as unknown" not in row["reason"]:
            flag = f"--{row['name']}={other_value(place, row['name'])}"
            (ending if "refused" in row["reason"] else starting).append(flag)
    return starting, ending


def named(flag, text):
    return re.search(rf"\b{flag[2:].partition('=')[0]}\b", text)


def test_flags_of_the_master_without_effect_have_a_line_or_a_refusal(tmp_path):
    starting, ending = without_effect("mooncake_master")
    starting += without_effect(GFLAGS)[0]
    assert len(starting) > 40 and len(ending) > 3
    rpc, http = free_ports(2)
    start = [program("mooncake_master"), "--rpc_address=127.0.0.1", f"--rpc_port={rpc}",
             "--metrics_host=127.0.0.1", f"--metrics_port={http}"]
    for flag in ending:
        status, said = run([*start, flag])
        assert status == 2 and named(flag, said), said
    log = tmp_path / "master.log"
    master = Process([*start, *starting], log)
    try:
        wait_until(lambda: master.alive() and listens(rpc), START_TIMEOUT_S, "master start")
    finally:
        master.stop()
    lines = [line for line in log.read_text().splitlines() if " WARN " in line]
    silent = [flag for flag in starting if not any(named(flag, line) for line in lines)]
    assert not silent


@pytest.mark.parametrize("place", STARTS)
def test_flags_of_other_programs_without_effect_have_a_line(place):
    starting, ending = without_effect(place)
    assert starting and not ending
    _, said = run([program(place), *STARTS[place], *starting])
    silent = [flag for flag in starting
              if not re.search(rf"(?i)warn.*\b{flag[2:].partition('=')[0]}\b", said)]
    assert not silent, said


@pytest.mark.parametrize("name", ["helpxml", "tab_completion_word", "tab_completion_columns"])
def test_switches_of_gflags_that_are_not_known_are_refused(name):
    (row,) = [row for row in rows("flag", GFLAGS) if row["name"] == name]
    assert "refused as unknown" in row["reason"]
    status, said = run([program("mooncake_master"), f"--{name}=1"])
    assert status == 2 and name in said


# Keys


def test_the_keys_of_a_file_are_the_fields_of_the_configuration():
    fields = {field.name for field in dataclasses.fields(MooncakeConfig)}
    keys = names("key", "MOONCAKE_CONFIG_PATH and mc_store_rest_server --config")
    assert set(keys) == fields - {OWN}


def usual():
    keys = ("local_hostname", "metadata_server", "global_segment_size", "local_buffer_size",
            "protocol", "rdma_devices", "master_server_addr")
    return dict(zip(keys, map(str, SEVEN)))


@pytest.mark.parametrize("row", rows("key", "setup(dict)"), ids=lambda row: row["name"])
def test_a_key_of_setup_is_known_or_has_a_line(row, caplog):
    mooncake.store.MooncakeDistributedStore().setup(usual() | {row["name"]: "1"})
    assert "unknown key" not in caplog.text
    line = f"{row['name']} has no effect: {row['reason']}"
    assert (line in caplog.text) == (row["effect"] != "honoured")


def test_the_keys_of_the_masters_files_are_known(tmp_path):
    file = tmp_path / "settings.yaml"
    for key in names("key", "mooncake_master --config_path"):
        file.write_text(f"{key}: no number\n")
        status, said = run([program("mooncake_master"), f"--config_path={file}"])
        assert status == 2 and "no number" in said and "Unknown" not in said
    quotas = {"version": "1", "tenants": "\n  - name: red\n    quota: 1GB\n"}
    text = "".join(f"{key}: {value}\n" for key, value in quotas.items())
    for key in names("key", "mooncake_master --tenant_quota_connector_uri"):
        file.write_text(re.sub(rf"\b{key}:", "no_such:", text))
        status, said = run([program("mooncake_master"), "--enable_multi_tenants",
                            f"--tenant_quota_connector_uri={file}"])
        assert status != 0 and "no_such" in said and f"`{key}`" in said, said


def test_a_key_of_tent_is_read_or_has_a_place_in_the_line(tmp_path, caplog):
    place = "tent.TransferEngine(file)"
    given = {"metadata_type": "p2p"}
    for name in names("key", place):
        *parents, last = name.split(".")
        target = given
        for parent in parents:
            target = target.setdefault(parent, {})
        is_transport = parents == ["transports"]
        target.setdefault(last, {"enable": True} if is_transport else "p2p")
    file = tmp_path / "tent.json"
    file.write_text(json.dumps(given))
    Settings.load(file)
    (line,) = [line for line in caplog.messages if "no effect here" in line]
    assert sorted(line.partition("here: ")[2].split(", ")) == sorted(names("key", place, False))


# Pointers of keys that a client reads itself, and what must have the word behind them.
POINTERS = {
    r"setup keyword (\w+)": lambda word: word in names("keyword", "setup"),
    r"setup_dummy keyword (\w+)": lambda word: word in names("keyword", "setup_dummy"),
    r"ReplicateConfig keyword (\w+)": lambda word: word in names("keyword", "ReplicateConfig"),
    r"setup key (\w+)": lambda word: word in names("key", "setup(dict)"),
    r"call (\w+)": lambda word: hasattr(mooncake.store.MooncakeDistributedStore, word),
    r"route (/\w+)": lambda word: word == "/get_all_segments",
}
CLIENTS = ("SGLang", "vLLM", "LMCache")


@pytest.mark.parametrize("client", CLIENTS)
def test_a_key_that_a_client_reads_itself_points_at_what_it_calls(client):
    (place,) = [place for place in places("key") if place.startswith(client)]
    for row in rows("key", place):
        found = [(pattern, match[1]) for pattern in POINTERS
                 if (match := re.match(pattern, row["reason"]))]
        if row["effect"] == "honoured":
            ((pattern, word),) = found
            assert POINTERS[pattern](word), row
        elif "setup key of the same name" in row["reason"]:
            assert row["name"] in names("key", "setup(dict)", False), row
        else:
            assert "hands none of it on" in row["reason"], row


# Keywords


def parameters_of(call):
    found = inspect.signature(call).parameters.values()
    kinds = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return {it.name for it in found
            if it.name != "self" and it.name[0] != "_" and it.kind not in kinds}


def keywords_of(thing):
    """Return the names of the parameters of a function, or of a class and its public methods."""
    if not isinstance(thing, type):
        return parameters_of(thing)
    methods = [getattr(thing, name) for name in vars(thing) if not name.startswith("_")]
    called = [it for it in methods if callable(it) and not isinstance(it, int)]
    return set().union(*map(parameters_of, [thing, *called]))


def public(module):
    """Return the functions and classes of a module, by name: no enumerations and no protocols."""
    module = importlib.import_module(module)
    found = {name: getattr(module, name) for name in module.__all__}
    is_called = {name: inspect.isfunction(it) or isinstance(it, type) for name, it in found.items()}
    return {name: it for name, it in found.items() if is_called[name]
            and not getattr(it, "_is_protocol", False)
            and not (isinstance(it, type) and issubclass(it, enum.Enum))}


def calls_of_modules(place):
    """Return the keywords of a place in one of the modules that are written in Python, or None."""
    if place == "mooncake.reshard":
        return set().union(*(keywords_of(it) for module in MODULES_OF_RESHARD
                             for it in public(module).values()))
    if place == "create_shared_segment":
        module = mooncake.shared_segment
        called = (module.create_shared_segment, module.shared_segment_supported,
                  module.SharedSegment.tensors)
        return set().union(*map(parameters_of, called))
    if place == "SharedSegment.create":
        kind = mooncake.engine.SharedSegment
        return set().union(*map(parameters_of, (kind.create, kind.supported, kind.complete)))
    if place != RECORDS and place not in STRUCTURED:
        return None
    pytest.importorskip("numpy", reason="structured objects need numpy")
    offered = public("mooncake.structured_object_store")
    others = set(offered) - {name for listed in STRUCTURED.values() for name in listed}
    return set().union(*(keywords_of(offered[name]) for name in STRUCTURED.get(place, others)))


def calls():
    """Return the names of the parameters of all native calls, by the place of their rows."""
    found = {}
    store = mooncake.store.MooncakeDistributedStore
    listed = {name: place for place in places("keyword") for name in place.split(", ")}
    for name in (name for name in dir(store) if not name.startswith("_")):
        place = listed.get(name, OTHER_STORE_CALLS)
        found.setdefault(place, set()).update(parameters_of(getattr(store, name)))
    for place, kind in CLASSES.items():
        found[place] = keywords_of(kind)
    for name in ("create_rpc_client", "create_rpc_server"):
        found[name] = parameters_of(getattr(mooncake.engine, name))
    found["ReplicateConfig"] = {name for name in dir(mooncake.store.ReplicateConfig)
                                if not name.startswith("_")}
    del found["setup"]
    return found


@pytest.mark.parametrize("place", sorted(set(places("keyword")) - {"setup"}))
def test_each_keyword_of_a_call_has_a_row_and_each_row_a_keyword(place):
    taken = calls_of_modules(place)
    taken = calls()[place] if taken is None else taken
    listed = set(names("keyword", place))
    assert listed - taken == set(), "no call takes these"
    assert taken - listed == set(OF_PERIGEE.get(place, "").split()), "these have no row"


def test_the_awaitable_calls_of_a_store_take_the_keywords_of_the_plain_ones():
    plain = mooncake.store.MooncakeDistributedStore
    names = [name for name in dir(plain) if not name.startswith("_") and name != "close"
             and callable(getattr(plain, name))]
    assert len(names) > 60
    for name in names:
        awaitable = getattr(MooncakeDistributedStoreAsync, f"async_{name}")
        assert inspect.iscoroutinefunction(awaitable), name
        assert parameters_of(awaitable) == parameters_of(getattr(plain, name)), name


def test_the_keywords_of_setup_are_known():
    given = dict.fromkeys(names("keyword", "setup"), 1)
    with pytest.raises(TypeError, match=r"kwargs: no_such=2$"):
        mooncake.store.MooncakeDistributedStore().setup(**given, no_such=2)


# What gives a keyword without effect a value: code, and what it must say.
TRIED = {
    ("mount_segment, allocate_and_mount_segment", "protocol"):
        'store.allocate_and_mount_segment(16 << 20, protocol="rdma")',
    (OTHER_STORE_CALLS, "prefer_alloc_in_same_node"):
        "store.batch_get_into_multi_buffers([], [], [], prefer_alloc_in_same_node=True)",
    ("ReplicateConfig", "data_type"): "put(data_type=ObjectDataType.KVCACHE)",
    ("ReplicateConfig", "preferred_nof_segments"): 'put(preferred_nof_segments=["x"])',
    ("ReplicateConfig", "nof_replica_num"): "put(nof_replica_num=1)",
    ("ReplicateConfig", "dfs_replica_num"): "put(dfs_replica_num=1)",
    ("TransferEngine", "segment_name"): 'TransferEngine().warmup_efa_segment("x")',
    ("TransferEngine", "stream_ptr"):
        'print("stream_ptr", TransferEngine().transfer_write_on_cuda("x", 1, 2, 3, stream_ptr=1))',
    ("RpcInterface", "thread_count"):
        'RpcInterface().initialize_server("127.0.0.1:0", thread_count=3)',
    ("create_rpc_server", "world_size"): "create_rpc_server(0, 2)",
    ("create_rpc_client", "local_rank"): "create_rpc_client(1, 1)",
    ("create_rpc_client", "world_size"): "create_rpc_client(0, 2)",
    ("create_shared_segment", "device_id"): "shared(device_id=1)",
    ("create_shared_segment", "host_register"): "shared(host_register=True)",
    ("SharedSegment.create", "device_id"): 'SharedSegment.create("x", 1, 1, 0, device_id=1)',
    ("SharedSegment.create", "host_register"):
        'refused(lambda: SharedSegment.create("x", 1, 1, 0, host_register=True))',
}
SAID_OTHERWISE = {"stream_ptr": "stream_ptr -303",
                  "host_register": "leave mmap=True and host_register=False"}
TRY = """
import sys
from mooncake.engine import RpcInterface, SharedSegment, TransferEngine
from mooncake.engine import create_rpc_client, create_rpc_server
from mooncake.shared_segment import create_shared_segment
from mooncake.store import MooncakeDistributedStore, ObjectDataType, ReplicateConfig
store = MooncakeDistributedStore()
assert store.setup("127.0.0.1", "P2PHANDSHAKE", 0, 16 << 20, "tcp", "", sys.argv[1]) == 0

def put(**attributes):
    config = ReplicateConfig()
    for name, value in attributes.items():
        setattr(config, name, value)
    store.put("test-every-word", b"x", config)

def refused(call):
    try:
        call()
    except RuntimeError as error:
        print(error)

def shared(**keywords):
    # No block: that is refused after the keywords were looked at.
    refused(lambda: create_shared_segment("x", {}, 1, 0, **keywords))

for line in sys.argv[2:]:
    for _ in range(2):
        exec(line)
store.close()
"""


def test_each_keyword_without_effect_is_named_once(master_address):
    listed = {(row["taken_by"], row["name"]) for row in rows("keyword")
              if row["effect"] != "honoured"}
    assert set(TRIED) == listed
    done = subprocess.run(
        [sys.executable, "-P", "-c", TRY, master_address, *TRIED.values()],
        capture_output=True, text=True, timeout=TIMEOUT_S,
    )
    assert done.returncode == 0, done.stderr
    said = done.stdout + done.stderr
    for place, name in TRIED:
        wanted = SAID_OTHERWISE.get(name)
        if wanted:
            assert wanted in said, said
        else:
            line = rf"{re.escape(place)}[.:] ?{name} has no effect"
            assert len(re.findall(line, said)) == 1, (place, name, said)


# Parameters


@pytest.fixture(scope="module")
def http(tmp_path_factory):
    """Return a question to the HTTP port of a master with a metadata service, by port."""
    rpc, metrics, metadata = free_ports(3)
    log = tmp_path_factory.mktemp("master") / "master.log"
    master = Process(
        [program("mooncake_master"), "--rpc_address=127.0.0.1", f"--rpc_port={rpc}",
         "--metrics_host=127.0.0.1", f"--metrics_port={metrics}", "--enable_http_metadata_server",
         "--http_metadata_server_host=127.0.0.1", f"--http_metadata_server_port={metadata}"],
        log,
    )
    wait_until(lambda: master.alive() and listens(metrics) and listens(metadata),
               START_TIMEOUT_S, "master start")

    def ask(method, path, body=None, port=metrics):
        data = None if body is None else json.dumps(body).encode()
        url = f"http://127.0.0.1:{port}{path}"
        request = urllib.request.Request(url, data, method=method)
        try:
            with urllib.request.urlopen(request, timeout=TIMEOUT_S) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    ask.metadata = metadata
    yield ask
    master.stop()


def of_server(server):
    found = [row for row in rows("parameter") if row["taken_by"].startswith(f"{server}: ")]
    assert found
    return [(row["taken_by"].partition(": ")[2], row["name"]) for row in found]


def test_the_masters_routes_know_their_parameters_and_no_others(http):
    for place, name in of_server("mooncake_master"):
        if " " in place:
            continue
        for method in ("GET", "POST"):
            status, said = http(method, f"{place}?{name}=0-0&no_such=1")
            if status != 405:
                break
        assert status == 400 and '\\"no_such\\"' in said, (place, said)
        assert re.search(rf"the known ones are .*\b{name}\b", said), said


def test_the_masters_bodies_have_their_fields(http):
    tried = [(place, name) for place, name in of_server("mooncake_master") if " " in place]
    assert len(tried) == 4
    for place, name in tried:
        method, path = place.split()
        status, said = http(method, path, {"segments": ["x"]} | {name: {}})
        assert status == 400 and (name in said or "quota" in said.lower()), (place, name, said)


def test_the_metadata_service_asks_for_its_key(http):
    assert of_server("metadata server") == [("/metadata", "key")]
    status, said = http("GET", "/metadata", port=http.metadata)
    assert status == 400 and "key" in said


def test_the_store_service_knows_its_fields_and_no_others():
    pytest.importorskip("aiohttp", reason="the service needs aiohttp")
    from rest_service import ask_one

    fields = {}
    for place, name in of_server("mc_store_rest_server"):
        fields.setdefault(place, set()).add(name)
    for place, listed in fields.items():
        method, path = place.split()
        status, answer = ask_one(method, path, {"no_such": 1})
        known = answer["error"].partition("it takes ")[2].split(", ")
        assert status == 400 and set(known) == listed | {"tenant_id"}, place
