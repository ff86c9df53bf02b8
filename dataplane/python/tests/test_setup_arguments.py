"""`setup` in all its forms, as far as no cluster is needed."""

import re
import socket
import threading

import pytest

from mooncake.store import MooncakeDistributedStore

CLOSED = "127.0.0.1:1"
SEVEN = ("127.0.0.1", "P2PHANDSHAKE", 0, 16 << 20, "tcp", "", CLOSED)
NAMES = (
    "local_hostname metadata_server global_segment_size local_buffer_size protocol rdma_devices "
    "master_server_addr"
).split()


def setup(*args, **kwargs):
    return MooncakeDistributedStore().setup(*args, **kwargs)


def failure(*args, **kwargs):
    with pytest.raises(TypeError) as raised:
        setup(*args, **kwargs)
    return str(raised.value)


def test_unknown_keyword_is_listed_as_clients_read_it():
    assert "kwargs: no_such_option=True" in failure(*SEVEN, no_such_option=True)


def test_only_unknown_keywords_are_named():
    text = failure(*SEVEN, None, enable_ssd_offload=True, tenant_id="t", no_such_option=1)
    assert "no_such_option=1" in text
    assert "enable_ssd_offload" not in text and "tenant_id" not in text


@pytest.mark.parametrize("count", range(7))
def test_missing_value_is_named(count):
    # One value alone could be the dict of the other form; it is not, and the second is missing.
    assert NAMES[count] in failure(*SEVEN[:count])


@pytest.mark.parametrize(
    ("index", "value"),
    [(0, 1), (1, None), (2, "16MB"), (2, -1), (2, 1.5), (3, 1 << 64), (4, b"tcp"), (6, 50051)],
)
def test_wrong_type_is_named(index, value):
    values = [*SEVEN]
    values[index] = value
    assert NAMES[index] in failure(*values)


def test_value_given_twice_is_refused():
    assert "protocol" in failure(*SEVEN, protocol="tcp")


def test_too_many_values_are_refused():
    assert "at most 14" in failure(*SEVEN, *range(8))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("enable_ssd_offload", "yes"),
        ("client_http_port", 70_000),
        ("tenant_id", 3),
        ("engine", object()),
    ],
)
def test_wrong_type_of_an_extra_is_named(name, value):
    assert name in failure(*SEVEN, **{name: value})


def test_keyword_config_must_be_a_dict():
    assert "config" in failure(config="x")


def test_dict_with_an_unknown_key_goes_on_and_says_so(caplog):
    config = dict(zip(NAMES, map(str, SEVEN))) | {"segment_sise": "1"}
    assert setup(config) < 0
    assert "segment_sise" in caplog.text and "global_segment_size" in caplog.text
    assert "setup failed" in caplog.text, "it went as far as the master"


def test_dict_takes_sizes_that_went_through_a_decimal_type(caplog):
    config = dict(zip(NAMES, map(str, SEVEN))) | {"local_buffer_size": "16777216.0"}
    assert setup(config) < 0
    assert "local_buffer_size" not in caplog.text


@pytest.mark.parametrize("missing", ["local_hostname", "metadata_server"])
def test_dict_without_a_required_key_is_refused(missing, caplog):
    config = {"local_hostname": "h", "metadata_server": "P2PHANDSHAKE"}
    del config[missing]
    assert setup(config) == -600
    assert missing in caplog.text


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("global_segment_size", "50%"),
        ("local_buffer_size", "-1"),
        ("local_buffer_size", "many"),
        ("enable_ssd_offload", "perhaps"),
        ("client_http_port", "99999"),
    ],
)
def test_dict_with_a_wrong_value_is_refused_and_named(key, value, caplog):
    config = {"local_hostname": "h", "metadata_server": "P2PHANDSHAKE", key: value}
    assert setup(config=config) == -600
    assert key in caplog.text


def test_unreachable_master_is_a_code_and_not_an_exception(caplog):
    assert setup(*SEVEN) < 0
    assert setup(**dict(zip(NAMES, SEVEN))) < 0
    config = dict(zip(NAMES, map(str, SEVEN)))
    assert setup(config) < 0
    assert "setup failed" in caplog.text


def test_legacy_key_names_are_accepted_in_the_dict(caplog):
    config = {
        "local_hostname": "127.0.0.1",
        "metadata_server": "P2PHANDSHAKE",
        "global_segment_size": "0",
        "local_buffer_size": "16MB",
        "protocol": "tcp",
        "device_name": "",
        "master_server_address": CLOSED,
    }
    assert setup(config) < 0
    assert "unknown key" not in caplog.text


def test_a_path_of_disks_needs_the_switch_and_must_be_absolute(caplog):
    assert setup(*SEVEN, None, ssd_offload_path="/tmp/x") < 0
    assert "no effect without enable_ssd_offload" in caplog.text
    caplog.clear()
    assert setup(*SEVEN, None, enable_ssd_offload=True, ssd_offload_path="x") == -600
    assert "absolute path" in caplog.text


KEYS = re.compile(r"the known ones are (.*)")
# What each key of the dict does when it is changed alone, by a word of the log line; None: it is an
# argument of the store, and the tests of its effect are elsewhere.
CHANGED = {
    "local_hostname": ("no host", None),
    "metadata_server": ("ftp://nowhere", "metadata"),
    "global_segment_size": ("much", "global_segment_size"),
    "local_buffer_size": ("much", "local_buffer_size"),
    "protocol": ("nvlink", "nvlink"),
    "rdma_devices": ("mlx5_0", None),
    "master_server_addr": ("127.0.0.1:2", "127.0.0.1:2"),
    "ipc_socket_path": ("/tmp/socket", "ipc_socket_path"),
    "enable_ssd_offload": ("perhaps", "enable_ssd_offload"),
    "ssd_offload_path": ("/tmp/ssd", "ssd_offload_path"),
    "ssd_key_file": ("/tmp/key", "ssd_key_file"),
    "tenant_id": ("_red", "tenant_id"),
    "enable_client_http_server": ("perhaps", "enable_client_http_server"),
    "client_http_port": ("many", "client_http_port"),
}


def usual():
    return dict(zip([*NAMES[:5], "rdma_devices", "master_server_addr"], map(str, SEVEN)))


def test_every_known_key_of_the_dict_is_in_the_table(caplog):
    setup({**usual(), "no_such_key": "1"})
    known = KEYS.search(caplog.text)[1].split(", ")
    # One that has no effect is nothing to write.
    assert sorted([*known, "ipc_socket_path"]) == sorted(CHANGED)


@pytest.mark.parametrize("key", [key for key in CHANGED if CHANGED[key][1]])
def test_a_key_that_is_changed_is_heard_or_named(key, caplog):
    value, word = CHANGED[key]
    assert setup({**usual(), key: value}) < 0
    assert word in caplog.text


def test_a_tenant_that_cannot_be_is_refused_at_both_forms_and_others_are_not(caplog):
    assert setup(*SEVEN, None, tenant_id="_red") == -600
    assert setup({**usual(), "tenant_id": "r\nd"}) == -600
    assert caplog.text.count("a tenant's name has") == 2
    caplog.clear()
    for tenant in ("", "default", "red"):
        assert setup(*SEVEN, None, tenant_id=tenant) < 0
    assert "tenant" not in caplog.text


def test_dummy_setup_without_a_master_or_a_node_says_what_to_do(monkeypatch, caplog):
    monkeypatch.delenv("MOONCAKE_MASTER", raising=False)
    assert MooncakeDistributedStore().setup_dummy(1 << 20, 1 << 20, "127.0.0.1:1") == -900
    assert "MOONCAKE_MASTER" in caplog.text


def test_dummy_setup_asks_the_node_for_its_master(monkeypatch, caplog):
    monkeypatch.delenv("MOONCAKE_MASTER", raising=False)
    with socket.socket(socket.AF_UNIX) as node:
        node.bind("\0perigee-node-1")
        node.listen()

        def answer():
            with node.accept()[0] as program:
                program.sendall(f"{CLOSED}\n".encode())

        thread = threading.Thread(target=answer, daemon=True)
        thread.start()
        assert MooncakeDistributedStore().setup_dummy(1 << 20, 1 << 20, "127.0.0.1:1") == -900
        thread.join(timeout=10)
    assert CLOSED in caplog.text
