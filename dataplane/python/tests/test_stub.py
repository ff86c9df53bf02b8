"""The type stub says what the module has: the same methods with the same parameters."""

import ast
import inspect
from pathlib import Path

import pytest

import mooncake.store as module

STUB = ast.parse(Path(module.__file__).with_suffix(".pyi").read_text())
CLASSES = {node.name: node for node in STUB.body if isinstance(node, ast.ClassDef)}


def stub_parameters(function):
    arguments = function.args
    names = [argument.arg for argument in arguments.args]
    if arguments.vararg:
        names.append(arguments.vararg.arg)
    return names + [argument.arg for argument in arguments.kwonlyargs]


def stub_methods(name):
    return {it.name: it for it in CLASSES[name].body if isinstance(it, ast.FunctionDef)}


def public(names):
    return {name for name in names if not name.startswith("_")}


def test_store_has_the_stubs_methods_and_no_others():
    assert public(dir(module.MooncakeDistributedStore)) == public(
        stub_methods("MooncakeDistributedStore")
    )


@pytest.mark.parametrize("name", sorted(public(dir(module.MooncakeDistributedStore)) - {"setup"}))
def test_method_has_the_stubs_parameters(name):
    real = inspect.signature(getattr(module.MooncakeDistributedStore, name)).parameters
    assert stub_parameters(stub_methods("MooncakeDistributedStore")[name]) == list(real)


def test_stub_names_exist():
    assert all(hasattr(module, name) for name in CLASSES)


@pytest.mark.parametrize("name", ["ReplicateConfig", "ObjectDataType", "TaskStatus"])
def test_attributes_of_the_stub_exist(name):
    annotated = [it.target.id for it in CLASSES[name].body if isinstance(it, ast.AnnAssign)]
    assert annotated and all(hasattr(getattr(module, name), it) for it in annotated)
