"""vLLM's connector under its path in Mooncake's wheel."""

import sys
import types

import pytest

PLACE = "vllm.distributed.kv_transfer.kv_connector.v1.mooncake.mooncake_connector"


def test_without_vllm_it_imports_and_says_what_is_missing(monkeypatch):
    import mooncake.mooncake_connector_v1 as connector

    monkeypatch.setitem(sys.modules, "vllm", None)
    with pytest.raises(ImportError, match="install a vLLM"):
        connector.MooncakeConnector  # noqa: B018
    with pytest.raises(AttributeError):
        connector.other  # noqa: B018


def test_the_class_is_vllms(monkeypatch):
    import mooncake.mooncake_connector_v1 as connector

    parts = PLACE.split(".")
    for end in range(1, len(parts) + 1):
        monkeypatch.setitem(sys.modules, ".".join(parts[:end]), types.ModuleType(parts[end - 1]))
    sys.modules[PLACE].MooncakeConnector = "theirs"
    assert connector.MooncakeConnector == "theirs"
