"""The names and parameters that clients of `mooncake.engine` rely on exist, as the stub says."""

import ast
import inspect
import pickle
from pathlib import Path

import pytest

import mooncake.engine as module
from mooncake.engine import TransferEngine, TransferNotify, TransferOpcode

STUB = ast.parse(Path(module.__file__).with_suffix(".pyi").read_text())
CLASSES = {node.name: node for node in STUB.body if isinstance(node, ast.ClassDef)}
LISTS = ("host:1", [1], [2], [3])
ONE = ("host:1", 1, 2, 3)
NOTIFY = TransferNotify("name", "text")

# Calls of SGLang 0.5.23, vLLM 0.33, LMCache 0.5.6 and Mooncake's own modules, then keyword forms.
CALLS = [
    ("initialize", ("host", "P2PHANDSHAKE", "tcp", ""), {}),
    ("initialize_ext", ("host", "P2PHANDSHAKE", "tcp", "", "http"), {}),
    ("get_rpc_port", (), {}),
    ("register_memory", (1, 2), {}),
    ("register_memory", (), {"buffer_addr": 1, "capacity": 2, "location": "cpu:0"}),
    ("unregister_memory", (1,), {}),
    ("batch_register_memory", ([1], [2]), {}),
    ("batch_register_memory", ([1], [2]), {"location": "cuda:0"}),
    ("batch_unregister_memory", ([1],), {}),
    ("transfer_sync_write", ONE, {}),
    ("transfer_sync_read", (*ONE, "tcp"), {}),
    ("transfer_sync", (*ONE, TransferOpcode.Read), {}),
    ("transfer_sync", (*ONE, TransferOpcode.Write, NOTIFY), {"transport_hint": "tcp"}),
    ("batch_transfer_sync_write", LISTS, {}),
    ("batch_transfer_sync_read", LISTS, {}),
    ("batch_transfer_sync", (*LISTS, TransferOpcode.Write), {"notify": NOTIFY}),
    ("batch_transfer_async_write", LISTS, {}),
    ("batch_transfer_async_read", LISTS, {}),
    ("batch_transfer_async", (*LISTS, TransferOpcode.Read, "tcp"), {}),
    ("transfer_submit_write", ONE, {}),
    ("transfer_check_status", (1,), {}),
    ("get_batch_transfer_status", ([1],), {}),
    ("send_probe", ("host:1",), {}),
    ("get_notifies", (), {}),
    ("get_first_buffer_address", ("host:1",), {}),
    ("get_local_topology", (), {}),
    ("get_local_topology", (), {"device_name": None}),
    ("allocate_managed_buffer", (1,), {}),
    ("free_managed_buffer", (1, 2), {}),
    ("write_bytes_to_buffer", (1, b"", 0), {}),
    ("read_bytes_from_buffer", (1, 0), {}),
    ("warmup_efa_segment", ("host:1",), {}),
    ("get_engine", (), {}),
    ("get_engine_ptr", (), {}),
    ("transfer_write_on_cuda", ONE, {"stream_ptr": 0}),
    ("batch_transfer_read_on_cuda", (*LISTS, 7), {}),
]


def public(names):
    return {name for name in names if not name.startswith("_")}


def functions(name):
    return {it.name: it for it in CLASSES[name].body if isinstance(it, ast.FunctionDef)}


@pytest.mark.parametrize(("method", "args", "kwargs"), CALLS)
def test_call_of_a_client_binds(method, args, kwargs):
    inspect.signature(getattr(TransferEngine, method)).bind(None, *args, **kwargs)


@pytest.mark.parametrize("name", sorted(public(dir(TransferEngine)) - {"TransferOpcode"}))
def test_method_says_what_it_does_and_has_the_stubs_parameters(name):
    method = getattr(TransferEngine, name)
    assert inspect.getdoc(method)
    stub = [argument.arg for argument in functions("TransferEngine")[name].args.args]
    assert stub == list(inspect.signature(method).parameters)


@pytest.mark.parametrize("name", ["TransferEngine", "RpcInterface", "SharedSegment"])
def test_class_has_the_stubs_methods_and_no_others(name):
    methods = public(functions(name))
    extra = {"TransferOpcode"} if name == "TransferEngine" else set()
    assert public(dir(getattr(module, name))) == methods | extra


def test_stub_names_exist():
    assigned = [it.target.id for it in STUB.body if isinstance(it, ast.AnnAssign)]
    defined = [it.name for it in STUB.body if isinstance(it, ast.FunctionDef)]
    assert all(hasattr(module, name) for name in [*CLASSES, *assigned, *defined])
    froms = [it for it in STUB.body if isinstance(it, ast.ImportFrom) and it.level]
    imported = [name.name for it in froms for name in it.names]
    names = {*CLASSES, *assigned, *defined, *imported, "CoroRPCInterface"}
    assert set(module.__all__) == names


def test_opcodes_behave_like_the_ones_clients_know():
    assert TransferEngine.TransferOpcode is TransferOpcode
    assert (int(TransferOpcode.Read), int(TransferOpcode.Write)) == (0, 1)
    assert module.Write == TransferOpcode.Write == TransferOpcode(1) != TransferOpcode.Read
    assert TransferOpcode.Read < TransferOpcode.Write and TransferOpcode.Write != 1
    assert repr(TransferOpcode.Write) == "<TransferOpcode.Write: 1>"
    assert pickle.loads(pickle.dumps(TransferOpcode.Write)) == TransferOpcode.Write
    with pytest.raises(TypeError):
        assert TransferOpcode.Read < 1


def test_notify_keeps_what_it_was_given():
    empty, notify = TransferNotify(), TransferNotify("name", msg="text")
    assert (empty.name, empty.msg) == ("", "")
    notify.msg += "!"
    assert (notify.name, notify.msg) == ("name", "text!")


def test_nothing_is_built_for_a_vendor():
    flags = [name for name in dir(module) if name.startswith("SUPPORT_")]
    assert len(flags) == 6 and not any(getattr(module, name) for name in flags)
