"""Several stores, threads, fork and the interpreter's exit, against a real cluster."""

import contextlib
import gc
import os
import socket
import subprocess
import sys
import tempfile
import textwrap
import threading
import weakref
from pathlib import Path

import pytest
from conftest import START_TIMEOUT_S, Process, connect, free_ports, program, wait_until
from test_objects import memory, pattern

from mooncake.store import MooncakeDistributedStore, ReplicateConfig

pytestmark = pytest.mark.cluster

CHILD_TIMEOUT_S = 60
# -P: the working directory may hold a package of the same name without its native part.
ISOLATED = (sys.executable, "-P")
THREADS = 8
ROUNDS = 40

HEAD = """
import atexit, os, sys, threading
from mooncake.store import MooncakeDistributedStore
def connect():
    store = MooncakeDistributedStore()
    code = store.setup("127.0.0.1", "P2PHANDSHAKE", {segment}, 1 << 24, "tcp", "", sys.argv[1])
    assert code == 0, code
    return store
"""


def run(master_address, body, segment_bytes=0):
    """Run a program in an interpreter of its own; return its output."""
    code = HEAD.format(segment=segment_bytes) + textwrap.dedent(body)
    child = subprocess.run(
        [*ISOLATED, "-c", code, master_address],
        capture_output=True,
        text=True,
        timeout=CHILD_TIMEOUT_S,
    )
    assert child.returncode == 0, child.stdout + child.stderr
    return child.stdout, child.stderr


def test_two_stores_of_one_process_see_each_other(master_address, store):
    other = connect(master_address, segment_bytes=32 << 20)
    assert store.get_hostname() != other.get_hostname()
    assert store.put("k", b"from one") == 0
    assert other.get("k") == b"from one"
    assert other.close() == 0
    assert store.get("k") == b"from one" or store.get("k") == b""
    assert store.put("l", b"still works") == 0


def test_of_setups_at_once_one_wins_and_the_others_are_refused(master_address):
    client, codes = MooncakeDistributedStore(), []
    barrier = threading.Barrier(THREADS)

    def setup():
        barrier.wait()
        sizes = 1 << 20, 1 << 24
        codes.append(client.setup("127.0.0.1", "P2PHANDSHAKE", *sizes, "tcp", "", master_address))

    threads = [threading.Thread(target=setup) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(codes) == [-1010] * (THREADS - 1) + [0]
    assert client.put("k", b"v") == 0 and client.get("k") == b"v"
    assert client.close() == 0


@pytest.mark.parametrize("reactor", ["foo", "io-uring"])
def test_a_client_that_lends_nothing_is_not_set_up_if_its_shards_cannot_run(master_address, monkeypatch, reactor):
    monkeypatch.setenv("PERIGEE_REACTOR", reactor)
    body = f"""
        store = MooncakeDistributedStore()
        code = store.setup("localhost", "P2PHANDSHAKE", 0, 1 << 20, "tcp", "", "{master_address}")
        assert code == -1, code
    """
    _, said = run(master_address, body)
    assert f'PERIGEE_REACTOR is "{reactor}"' in said


def test_dropping_a_store_closes_it(master_address):
    client = connect(master_address)
    gone = weakref.ref(client)
    del client
    gc.collect()
    assert gone() is None
    again = connect(master_address)
    assert again.health_check() == 0 and again.close() == 0


def test_a_store_can_be_opened_and_closed_many_times_without_leaks(master_address):
    def descriptors():
        return len(os.listdir("/proc/self/fd"))

    assert connect(master_address).close() == 0
    before, threads = descriptors(), threading_count()
    for _ in range(5):
        client = connect(master_address, segment_bytes=1 << 20)
        assert client.put("leak", b"v") == 0
        assert client.remove("leak", True) == 0
        assert client.close() == 0
    assert descriptors() <= before
    assert threading_count() <= threads


def threading_count():
    return len(os.listdir("/proc/self/task"))


def test_threads_never_see_a_wrong_byte(store):
    failures = []

    def work(number):
        try:
            for round_ in range(ROUNDS):
                key = f"t{number}-{round_ % 4}"
                value = pattern(20_000 + number, number)
                block, address, size = memory(bytes(len(value)))
                assert store.put(key, value) == 0
                assert store.get(key) == value
                assert store.get_into(key, address, size) == size
                assert bytes(block) == value
                assert bytes(store.get_buffer(key)) == value
                assert store.batch_is_exist([key, "none"]) == [1, 0]
        except BaseException as error:  # reported by the main thread
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(CHILD_TIMEOUT_S)
        assert not thread.is_alive()
    assert failures == []


def test_close_during_calls_ends_them_with_codes(master_address):
    client = connect(master_address)
    assert client.put("busy", pattern(1 << 20)) == 0
    started, wrong = threading.Barrier(5), []

    def work():
        started.wait(10)
        for _ in range(200):
            value = client.get("busy")
            if value not in (b"", pattern(1 << 20)):
                wrong.append(value)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    started.wait(10)
    assert client.close() == 0
    for thread in threads:
        thread.join(CHILD_TIMEOUT_S)
        assert not thread.is_alive()
    assert wrong == []
    cleaner = connect(master_address)
    cleaner.remove("busy", True)
    assert cleaner.close() == 0


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_calls_of_a_forked_child_are_refused_with_one_warning(master_address):
    out, err = run(
        master_address,
        """
        store = connect()
        assert store.put("forked", b"v") == 0
        child = os.fork()
        if child == 0:
            results = [store.put("x", b"v"), store.get("forked"), store.batch_is_exist(["x"]),
                       store.health_check(), store.close()]
            print(results, flush=True)
            os._exit(0 if results == [-600, b"", [-600], 1, 0] else 1)
        _, status = os.waitpid(child, 0)
        assert status == 0, status
        assert store.get("forked") == b"v"
        assert store.remove("forked", True) == 0
        assert store.close() == 0
        """,
    )
    assert err.count("forked") == 1, err
    assert "spawn" in err


def test_a_forked_child_can_set_up_its_own_store(master_address):
    run(
        master_address,
        """
        store = connect()
        child = os.fork()
        if child == 0:
            mine = connect()
            ok = mine.put("own", b"child") == 0 and mine.get("own") == b"child"
            ok = ok and mine.remove("own", True) == 0 and mine.close() == 0
            os._exit(0 if ok else 1)
        _, status = os.waitpid(child, 0)
        assert status == 0, status
        assert store.health_check() == 0
        """,
    )


@pytest.mark.parametrize("segment_bytes", [0, 16 << 20])
def test_interpreter_exits_cleanly_with_a_live_store(master_address, segment_bytes):
    out, err = run(
        master_address,
        """
        store = connect()
        assert store.put("exit", b"v") == 0
        assert store.remove("exit", True) == 0
        print("end", flush=True)
        """,
        segment_bytes,
    )
    assert out == "end\n"
    assert "Traceback" not in err and "panicked" not in err


def test_interpreter_exits_cleanly_while_a_daemon_thread_calls(master_address):
    out, err = run(
        master_address,
        """
        store = connect()
        started = threading.Event()
        def work():
            while True:
                store.is_exist("x")
                started.set()
        threading.Thread(target=work, daemon=True).start()
        assert started.wait(10)
        print("end", flush=True)
        """,
    )
    assert out == "end\n"
    assert "panicked" not in err and "Fatal" not in err


def test_exit_handlers_of_the_program_may_still_use_the_store(master_address):
    out, _ = run(
        master_address,
        """
        store = connect()
        atexit.register(lambda: print(store.is_exist("none"), flush=True))
        """,
    )
    assert out == "0\n"


def test_import_leaves_no_thread_behind():
    code = "import mooncake.store, os; print(len(os.listdir('/proc/self/task')))"
    child = subprocess.run(
        [*ISOLATED, "-c", code], capture_output=True, text=True, timeout=CHILD_TIMEOUT_S
    )
    assert child.stdout == "1\n", child.stderr


def test_dummy_client_uses_the_master_of_the_environment(master_address, monkeypatch):
    import ctypes

    monkeypatch.setenv("MOONCAKE_MASTER", master_address)
    client = MooncakeDistributedStore()
    assert client.setup_dummy(1 << 20, 1 << 20, "127.0.0.1:50052") == 0
    address = client.alloc_from_mem_pool(4096)
    assert address and client.alloc_from_mem_pool(1 << 20) == 0
    ctypes.memmove(address, b"pool", 4)
    assert client.put_from("pool", address, 4) == 0
    assert client.get("pool") == b"pool"
    assert client.remove("pool", True) == 0
    assert client.close() == 0


def test_dummy_client_learns_its_master_from_the_node_of_the_port(
    master_address, monkeypatch, tmp_path
):
    monkeypatch.delenv("MOONCAKE_MASTER", raising=False)
    [port] = free_ports(1)
    node = Process(
        [
            program("mooncake_client"),
            "--host=127.0.0.1",
            f"--port={port}",
            "--global_segment_size=16777216",
            f"--master_server_address={master_address}",
            "--metadata_server=P2PHANDSHAKE",
            "--protocol=tcp",
            "--logtostderr=true",
        ],
        tmp_path / "node.log",
    )
    client = MooncakeDistributedStore()
    try:
        wait_until(
            lambda: node.alive() and "Ready" in node.log.read_text(errors="replace"),
            START_TIMEOUT_S,
            "the node's readiness",
        )
        assert client.setup_dummy(1 << 20, 1 << 20, f"127.0.0.1:{port}") == 0
        assert client.put("through-node", b"value") == 0
        assert client.get("through-node") == b"value"
        assert client.remove("through-node", True) == 0
    finally:
        client.close()
        assert node.stop() == 0


OTHER_USER = 65534
#: Puts and gets as another user, after all that only the first one may read was read.
AS_OTHER_USER = """
import os, sys
from mooncake.store import MooncakeDistributedStore
user = int(sys.argv[2])
os.setgroups([])
os.setresgid(user, user, user)
os.setresuid(user, user, user)
client = MooncakeDistributedStore()
code = client.setup_dummy(1 << 20, 1 << 20, "unix:" + sys.argv[1])
print(code)
if code == 0:
    print(client.put("of-another-user", b"value" * 1000), len(client.get("of-another-user")))
    client.close()
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be two users")
@pytest.mark.parametrize(("mode", "is_let_in"), [("0660", False), ("0666", True)])
def test_a_dummy_client_of_another_user_is_let_in_by_the_bits_of_the_socket(
    master_address, tmp_path, mode, is_let_in
):
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        path = f"{folder}/node.sock"
        node = Process(
            [
                program("mooncake_client"),
                "--host=127.0.0.1",
                "--port=0",
                "--global_segment_size=16777216",
                f"--master_server_address={master_address}",
                "--metadata_server=P2PHANDSHAKE",
                f"--ipc_socket_path={path}",
                f"--ipc_socket_mode={mode}",
                "--enable_http_server=false",
                "--logtostderr=true",
            ],
            tmp_path / "node.log",
        )
        try:
            wait_until(
                lambda: node.alive() and os.path.exists(path), START_TIMEOUT_S, "the node's socket"
            )
            environment = {name: it for name, it in os.environ.items() if name != "MOONCAKE_MASTER"}
            child = subprocess.run(
                [sys.executable, "-c", AS_OTHER_USER, path, str(OTHER_USER)],
                capture_output=True,
                text=True,
                timeout=CHILD_TIMEOUT_S,
                env=environment,
                check=False,
            )
            lines = child.stdout.split("\n")
            if is_let_in:
                assert lines[:2] == ["0", "0 5000"], child.stderr
            else:
                assert lines[0] == "-900" and "--ipc_socket_mode" in child.stderr, child.stderr
        finally:
            assert node.stop() == 0
        assert not os.path.exists(path)


def test_segments_come_and_go_at_run_time(store, tmp_path):
    mounted = store.allocate_and_mount_segment(16 << 20)
    assert mounted["ret"] == 0 and len(mounted["segment_ids"]) >= 1
    assert store.unmount_and_free_segment(mounted["segment_ids"]) == 0
    assert store.unmount_and_free_segment(mounted["segment_ids"]) < 0
    assert store.unmount_segment(["no-such-segment"]) == -101
    assert store.unmount_segment([]) == 0
    assert store.allocate_and_mount_segment(0)["ret"] == -600


@pytest.mark.parametrize("protocol", ["nvlink", "pigeon"])
def test_a_segment_has_no_protocol_that_setup_would_refuse(store, tmp_path, protocol):
    refused = {"ret": -600, "segment_ids": []}
    assert store.allocate_and_mount_segment(16 << 20, protocol) == refused
    file = tmp_path / "lent"
    file.write_bytes(bytes(4096))
    assert store.mount_segment(str(file), 4096, protocol=protocol) == refused


@pytest.mark.parametrize("folder", ["/dev/shm", None])
def test_a_lent_file_holds_objects_until_it_is_unmounted(store, master_address, tmp_path, folder):
    size, page = 8 << 20, 4096
    with tempfile.NamedTemporaryFile(dir=folder or tmp_path) as file:
        file.truncate(size + page)
        mounted = store.mount_segment(file.name, size, page, location="cpu:0")
        assert mounted["ret"] == 0
        assert store.mount_segment(file.name, page, size)["ret"] == -600, "it is lent already"
        config = ReplicateConfig()
        config.preferred_segments = [store.get_hostname()]
        value = os.urandom(3 << 20)
        assert store.put("k", value, config) == 0
        assert value in Path(file.name).read_bytes()[page:]
        reader = connect(master_address)
        try:
            assert reader.get("k") == value
        finally:
            reader.close()
        assert store.unmount_segment(mounted["segment_ids"]) == 0
        assert store.unmount_segment(mounted["segment_ids"]) == -101
        assert store.get("k") == b""


def test_the_service_lends_and_takes_back_shared_memory(store):
    pytest.importorskip("aiohttp", reason="the service needs aiohttp")
    from test_store_service import ask

    with tempfile.NamedTemporaryFile(dir="/dev/shm") as file:
        file.truncate(4 << 20)
        name, size = Path(file.name).name, 2 << 20
        decode = {"mode": "decode", "path": file.name, "size": size, "offset": size}
        answers = ask(
            [
                ("POST", "/api/mount_shm", {"name": name, "size": size}),
                ("POST", "/api/mount_shm", {"name": name, "size": size}),
                ("POST", "/api/reconfigure", decode),
                ("POST", "/api/reconfigure", {"mode": "prefill"}),
                ("POST", "/api/mount_shm", {"name": name, "size": 5 << 20}),
            ],
            store,
        )
        assert [status for status, _ in answers] == [200, 409, 200, 200, 500], answers
        assert b"lent already" in answers[1][1] and b"ret=-600" in answers[4][1]


def test_a_file_that_cannot_be_lent_is_refused(store, tmp_path):
    path = tmp_path / "segment"
    path.write_bytes(bytes(1 << 20))
    refused = {"ret": -600, "segment_ids": []}
    wrongs = [(path, 1 << 21), (path, 4096, 1), (path, 0), (tmp_path, 1), ("/none", 1)]
    for name, *wrong in wrongs:
        assert store.mount_segment(str(name), *wrong) == refused, wrong


def free_pair():
    """Return the first of two ports that follow each other and were free a moment ago."""
    while True:
        (first,) = free_ports(1)
        with contextlib.suppress(OSError, OverflowError), socket.socket() as probe:
            probe.bind(("127.0.0.1", first + 1))
            return first


def test_clients_of_one_host_take_different_ports_of_the_range(master_address):
    """Two nodes fit into a range of two ports; a third client says what to do."""
    first = free_pair()
    environment = dict(
        os.environ,
        MC_STORE_CLIENT_MIN_PORT=str(first),
        MC_STORE_CLIENT_MAX_PORT=str(first + 1),
    )
    lender = (
        "import sys; from mooncake.store import MooncakeDistributedStore as S; s = S();"
        "print(s.setup('127.0.0.1', 'P2PHANDSHAKE', 1 << 24, 1 << 20, 'tcp', '', sys.argv[1]),"
        " s.get_hostname(), flush=True); sys.stdin.readline(); s.close()"
    )
    running = []
    try:
        for _ in range(3):
            process = subprocess.Popen(
                [*ISOLATED, "-c", lender, master_address],
                env=environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            running.append((process, process.stdout.readline().split(" ")))
        names = {answer[1].strip() for _, answer in running[:2]}
        assert [answer[0] for _, answer in running] == ["0", "0", "-1"]
        assert names == {f"127.0.0.1:{first}", f"127.0.0.1:{first + 1}"}
    finally:
        texts = [process.communicate("\n")[1] for process, _ in running]
    assert "MC_STORE_CLIENT_MIN_PORT" in texts[2]
