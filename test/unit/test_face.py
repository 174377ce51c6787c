"""The public face: `from operad import …`."""

import ast
import inspect
import json
import subprocess
import sys

import pytest

import operad

HEAVY = "dbgpt dbos jinja2 jsonschema networkx numpy openai pydantic yaml".split()


def in_a_new_process(code):
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    return json.loads(done.stdout)


def test_importing_operad_imports_nothing_heavy_and_none_of_its_packages():
    imported = in_a_new_process("import json, sys, operad; print(json.dumps(list(sys.modules)))")
    assert [name for name in imported if name.startswith("operad.") or name in HEAVY] == []


def test_importing_operad_takes_less_than_a_tenth_of_a_second_of_processor_time():
    code = "import time; t = time.process_time(); import operad; print(time.process_time() - t)"
    assert min(in_a_new_process(code) for _ in range(3)) < 0.1


def test_using_an_operator_imports_no_engine_and_no_client_of_models():
    imported = in_a_new_process("import json, sys; from operad import Operator; print(json.dumps(list(sys.modules)))")
    assert [name for name in imported if name in ("dbgpt", "openai", "networkx")] == []


def test_there_are_at_most_45_public_names_and_each_is_there_once():
    assert len(operad.__all__) <= 45
    assert len(set(operad.__all__)) == len(operad.__all__)
    assert sorted(operad.__all__, key=lambda name: (name[0].islower(), name)) == operad.__all__


@pytest.mark.parametrize("name", operad.__all__)
def test_a_public_name_is_there_and_has_a_docstring(name):
    assert inspect.getdoc(getattr(operad, name))
    assert name in dir(operad)


def test_type_checkers_see_the_same_names():
    body = ast.parse(inspect.getsource(operad)).body
    [for_types] = [part for part in body if isinstance(part, ast.If)]
    names = {alias.name for node in for_types.body if isinstance(node, ast.ImportFrom) for alias in node.names}
    assert names == set(operad.__all__)


def test_another_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="module 'operad' has no attribute 'Operater'"):
        _ = operad.Operater
