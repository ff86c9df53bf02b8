"""`MooncakeConfig`: files, environment, sizes, booleans and what is refused."""

import json

import pytest

from mooncake import mooncake_config
from mooncake.mooncake_config import MooncakeConfig, parse_bool, parse_size

REQUIRED = {
    "local_hostname": "node-1",
    "metadata_server": "P2PHANDSHAKE",
    "master_server_address": "127.0.0.1:50051",
}


@pytest.fixture(autouse=True)
def no_environment(monkeypatch):
    import os

    for name in [name for name in os.environ if name.startswith("MOONCAKE_")]:
        monkeypatch.delenv(name)


def write(tmp_path, values):
    path = tmp_path / "config.json"
    path.write_text(json.dumps(values))
    return str(path)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (0, 0),
        (3355443200, 3355443200),
        ("3355443200", 3355443200),
        ("1b", 1),
        ("1k", 1024),
        ("1KB", 1024),
        ("2 mb", 2 << 20),
        ("4gb", 4 << 30),
        ("50GiB", 50 << 30),
        ("1.5g", 3 << 29),
        ("1T", 1 << 40),
        ("9007199254740993", 9007199254740993),
        (1.5, 1),
        ("1.5", 1),
        ("1e9", 1_000_000_000),
    ],
)
def test_size_is_understood(text, expected):
    assert parse_size(text) == expected


@pytest.mark.parametrize("text", ["", "gb", "-1", "50%", "1x", "1 gbb", "1e999", None, True, -1, float("inf"), float("nan")])
def test_size_is_refused_with_its_name(text):
    with pytest.raises(ValueError, match="field"):
        parse_size(text, "field")


def test_other_projects_find_the_parser_under_mooncakes_name():
    assert mooncake_config._parse_segment_size("  3 gb  ") == 3 << 30


@pytest.mark.parametrize("text", ["true", "1", "YES", "on", "Enable", True])
def test_true_is_understood(text):
    assert parse_bool(text) is True


@pytest.mark.parametrize("text", ["false", "0", "No", "off", "disable", False, None])
def test_false_is_understood(text):
    assert parse_bool(text) is False


def test_other_booleans_are_refused():
    with pytest.raises(ValueError, match="maybe"):
        parse_bool("maybe")


def test_file_with_the_required_fields_has_the_documented_defaults(tmp_path):
    config = MooncakeConfig.from_file(write(tmp_path, REQUIRED))
    assert config == MooncakeConfig(
        **REQUIRED,
        global_segment_size=3355443200,
        local_buffer_size=1073741824,
        protocol="tcp",
        device_name="",
        enable_ssd_offload=False,
        ssd_offload_path="",
        ssd_key_file="",
        tenant_id="default",
        enable_client_http_server=False,
        client_http_port=9300,
    )


@pytest.mark.parametrize("field", REQUIRED)
def test_missing_required_field_is_named(tmp_path, field):
    values = {name: value for name, value in REQUIRED.items() if name != field}
    with pytest.raises(ValueError, match=f"Missing required config field: {field}"):
        MooncakeConfig.from_file(write(tmp_path, values))


@pytest.mark.parametrize("field", REQUIRED)
def test_empty_required_field_is_named(tmp_path, field):
    with pytest.raises(ValueError, match=field):
        MooncakeConfig.from_file(write(tmp_path, REQUIRED | {field: " "}))


def test_negative_size_is_refused(tmp_path):
    with pytest.raises(ValueError, match="global_segment_size"):
        MooncakeConfig.from_file(write(tmp_path, REQUIRED | {"global_segment_size": -1}))


def test_empty_protocol_is_refused(tmp_path):
    with pytest.raises(ValueError, match="protocol"):
        MooncakeConfig.from_file(write(tmp_path, REQUIRED | {"protocol": ""}))


def test_protocol_is_lower_case_and_unknown_ones_only_warn(tmp_path, caplog):
    assert MooncakeConfig.from_file(write(tmp_path, REQUIRED | {"protocol": "RDMA"})).protocol == (
        "rdma"
    )
    assert not caplog.text
    MooncakeConfig.from_file(write(tmp_path, REQUIRED | {"protocol": "pigeon"}))
    assert "pigeon" in caplog.text


def test_file_that_is_no_object_is_refused(tmp_path):
    with pytest.raises(ValueError, match="JSON object"):
        MooncakeConfig.from_file(write(tmp_path, [1]))


def test_environment_needs_a_file_or_a_master():
    with pytest.raises(ValueError, match="MOONCAKE_CONFIG_PATH.*MOONCAKE_MASTER"):
        MooncakeConfig.load_from_env()


def test_environment_alone_has_its_own_defaults(monkeypatch):
    monkeypatch.setenv("MOONCAKE_MASTER", "m:1")
    config = MooncakeConfig.load_from_env()
    assert (config.local_hostname, config.metadata_server) == ("localhost", "P2PHANDSHAKE")
    assert config.master_server_address == "m:1"
    assert config.global_segment_size == 3355443200


def test_every_variable_is_read(monkeypatch):
    values = {
        "MOONCAKE_MASTER": "m:1",
        "MOONCAKE_LOCAL_HOSTNAME": "h",
        "MOONCAKE_TE_META_DATA_SERVER": "http://x/metadata",
        "MOONCAKE_GLOBAL_SEGMENT_SIZE": "4gb",
        "MOONCAKE_LOCAL_BUFFER_SIZE": "0",
        "MOONCAKE_PROTOCOL": "tcp",
        "MOONCAKE_DEVICE": "auto-discovery",
        "MOONCAKE_OFFLOAD_ENABLED": "yes",
        "MOONCAKE_OFFLOAD_FILE_STORAGE_PATH": "/d",
        "MOONCAKE_TENANT_ID": "t",
        "MOONCAKE_ENABLE_CLIENT_HTTP_SERVER": "1",
        "MOONCAKE_CLIENT_HTTP_PORT": "9400",
    }
    for name, value in values.items():
        monkeypatch.setenv(name, value)
    assert MooncakeConfig.load_from_env() == MooncakeConfig(
        "h", "http://x/metadata", 4 << 30, 0, "tcp", "auto-discovery", "m:1",
        True, "/d", "t", True, 9400,
    )


def test_a_file_without_a_tenant_has_the_one_of_the_environment(monkeypatch, tmp_path):
    monkeypatch.setenv("MOONCAKE_TENANT_ID", "red")
    assert MooncakeConfig.from_file(write(tmp_path, REQUIRED)).tenant_id == "red"
    named = write(tmp_path, REQUIRED | {"tenant_id": "blue"})
    assert MooncakeConfig.from_file(named).tenant_id == "blue"


def test_config_path_wins_over_the_other_variables(monkeypatch, tmp_path):
    monkeypatch.setenv("MOONCAKE_CONFIG_PATH", write(tmp_path, REQUIRED))
    monkeypatch.setenv("MOONCAKE_LOCAL_HOSTNAME", "other")
    assert MooncakeConfig.load_from_env().local_hostname == "node-1"
