"""The names and parameters that clients rely on exist, and enums behave like the ones they know."""

import copy
import inspect
import pickle

import client_calls
import pytest

import mooncake.store as module
from mooncake.store import MooncakeDistributedStore, ReplicateConfig

ENUM_MEMBERS = [
    (enum, name, value)
    for enum, names in client_calls.ENUMS.items()
    for value, name in enumerate(names.split())
]


@pytest.mark.parametrize("name", client_calls.MODULE_NAMES)
def test_module_has_name(name):
    assert hasattr(module, name)


@pytest.mark.parametrize(("method", "args", "kwargs"), client_calls.STORE)
def test_call_of_a_client_binds(method, args, kwargs):
    function = getattr(MooncakeDistributedStore, method)
    inspect.signature(function).bind(None, *args, **kwargs)


@pytest.mark.parametrize(("method", "names"), client_calls.STORE_PARAMETERS.items())
def test_method_has_parameters(method, names):
    parameters = list(inspect.signature(getattr(MooncakeDistributedStore, method)).parameters)
    assert parameters[1:] == names.split()


@pytest.mark.parametrize(
    "method", [name for name in dir(MooncakeDistributedStore) if not name.startswith("_")]
)
def test_public_method_says_what_it_does(method):
    assert inspect.getdoc(getattr(MooncakeDistributedStore, method))


@pytest.mark.parametrize(("enum", "name", "value"), ENUM_MEMBERS)
def test_enum_member_has_name_and_value(enum, name, value):
    kind = getattr(module, enum)
    member = getattr(kind, name)
    assert (member.name, member.value, int(member)) == (name, value, value)
    assert kind(value) == member and kind.__members__[name] == member
    assert str(member) == f"{enum}.{name}" and repr(member) == f"<{enum}.{name}: {value}>"
    assert [0] * 10 + [member] and [*range(10)][member] == value


@pytest.mark.parametrize("enum", client_calls.ENUMS)
def test_enum_members_differ_and_hash_alike(enum):
    kind = getattr(module, enum)
    members = list(kind.__members__.values())
    assert len(set(members)) == len(members)
    assert hash(members[1]) == hash(kind(1))
    assert members[0] != members[1] and members[1] != 1


def test_members_of_different_enums_are_not_equal():
    assert module.ReplicaStatus.UNDEFINED != module.ObjectDataType.UNKNOWN


def test_enum_number_without_a_member_is_refused():
    with pytest.raises(ValueError, match="77"):
        module.ObjectDataType(77)


def test_enum_members_survive_pickle_and_copy():
    member = module.ObjectDataType.KVCACHE
    assert pickle.loads(pickle.dumps(member)) == member
    assert copy.deepcopy(member) == member


def test_members_are_module_attributes():
    assert module.KVCACHE == module.ObjectDataType.KVCACHE
    assert module.COMPLETE == module.ReplicaStatus.COMPLETE
    assert module.FAILED == module.TaskStatus.FAILED
    assert module.REPLICA_MOVE == module.TaskType.REPLICA_MOVE


def test_replicate_config_has_its_defaults():
    config = ReplicateConfig()
    assert {name: getattr(config, name) for name in client_calls.CONFIG_DEFAULTS} == (
        client_calls.CONFIG_DEFAULTS
    )
    assert config.soft_pin_action == module.SoftPinAction.PRESERVE
    assert config.data_type == module.ObjectDataType.UNKNOWN


def test_replicate_config_keeps_what_is_assigned():
    config = ReplicateConfig()
    values = {
        "replica_num": 2,
        "soft_pin_action": module.SoftPinAction.ENABLE,
        "soft_pin_ttl_ms": 1500,
        "with_soft_pin": True,
        "with_hard_pin": True,
        "preferred_segments": ["a:1", "b:2"],
        "preferred_segment": "c:3",
        "prefer_alloc_in_same_node": True,
        "data_type": module.ObjectDataType.KVCACHE,
        "group_ids": ["g", "h"],
    }
    for name, value in values.items():
        setattr(config, name, value)
    assert {name: getattr(config, name) for name in values} == values
    assert "replica_num: 2" in str(config)


def test_replicate_config_shows_as_clients_know_it():
    config = ReplicateConfig()
    assert str(config) == (
        "ReplicateConfig: { replica_num: 1, nof_replica_num: 0, dfs_replica_num: 0, "
        "soft_pin_action: PRESERVE, soft_pin_ttl_ms: default, with_hard_pin: 0, "
        "preferred_segments: [], preferred_nof_segments: [], prefer_alloc_in_same_node: 0, "
        "data_type: UNKNOWN }"
    )
    config.with_soft_pin, config.soft_pin_ttl_ms, config.with_hard_pin = 1, 5, True
    config.preferred_segments, config.preferred_segment = ["a", "b"], "q"
    config.group_ids = ["x", "y"]
    assert str(config) == (
        "ReplicateConfig: { replica_num: 1, nof_replica_num: 0, dfs_replica_num: 0, "
        "soft_pin_action: ENABLE, soft_pin_ttl_ms: 5, with_hard_pin: 1, "
        "preferred_segments: [a, b], preferred_segment (deprecated): q, "
        "preferred_nof_segments: [], prefer_alloc_in_same_node: 0, data_type: UNKNOWN, "
        "group_ids: [x, y] }"
    )


def test_replicate_config_has_group_ids_and_no_session_ids():
    for holder in (ReplicateConfig, ReplicateConfig()):
        assert hasattr(holder, "group_ids")
        assert not hasattr(holder, "session_ids")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("replica_num", -1),
        ("replica_num", "2"),
        ("group_ids", "g"),
        ("data_type", 1),
        ("preferred_segment", None),
    ],
)
def test_replicate_config_refuses_wrong_types(name, value):
    with pytest.raises(TypeError):
        setattr(ReplicateConfig(), name, value)
