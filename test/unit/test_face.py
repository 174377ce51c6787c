"""The public face: `from operad import …`."""

import ast
import asyncio
import importlib
import inspect
import json
import re
import subprocess
import sys
import textwrap

import pytest

import operad
from operad.runtime.testing import Plausible, ScriptedModel

HEAVY = "dbgpt jinja2 jsonschema networkx numpy openai pydantic sqlalchemy yaml".split()


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


def test_there_are_at_most_47_public_names_and_each_is_there_once():
    assert len(operad.__all__) <= 47
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


PRELUDE = """
import asyncio
from collections.abc import Sequence
from contextlib import closing
from datetime import timedelta
from typing import Annotated
from operad.configs import *
from operad.flows import *
from operad.operators import *
from operad.runtime import *
from operad.runtime.testing import *
from operad import *
from pydantic import BaseModel, Field

class Claims(BaseModel):
    claims: list[str]

key = "any"
reasoner = MonoModelReasoner()
job = Job("List the claims.")

@tool
def search(claim: str) -> str:
    "Look a claim up."
    return "The moon has no atmosphere to speak of."

@tool(approve=True)
def delete(path: str) -> str:
    "Delete a file."
    return "done"

async def post(answer: str, key: str) -> str:
    return "posted"

@operator
def triage(mail: str) -> str:
    return mail

facts = Operator("List what the text claims.", id="facts", output=Claims)
check = Operator("Check each claim.", id="check")
write = Operator("Write the letter.", id="write")
answer = Operator("Write the answer.", id="answer")
refund = Operator("Answer about a refund.", id="refund")
flow = workflow = Workflow(facts >> check >> answer)
"""
"""What the examples of docstrings may use besides the names of operad."""


def example_of(docstring):
    """The indented block before the sections of a docstring; empty for none."""
    before = re.split(r"^(?:Args|Attributes|Raises|Returns):$", docstring, maxsplit=1, flags=re.MULTILINE)[0]
    found = re.search(r"^    \S.*(?:\n(?:    .*)?)*", before, re.MULTILINE)
    return textwrap.dedent(found[0]) if found else ""


def test_an_example_is_the_first_indented_block_of_a_docstring():
    assert example_of("Do it.\n\n    a = 1\n\n    b = 2\n\nMore.\n\nArgs:\n    c: No.") == "a = 1\n\nb = 2\n\n"
    assert example_of("Do it.\n\nArgs:\n    c: No.") == ""


def test_operad_testing_has_all_fakes():
    short, home = importlib.import_module("operad.testing"), importlib.import_module("operad.runtime.testing")
    assert short.__all__ == home.__all__
    assert all(getattr(short, name) is getattr(home, name) for name in home.__all__)


PUBLIC = ("operad", "operad.runtime", "operad.operators", "operad.evaluators", "operad.configs", "operad.flows")
DOCUMENTED = {
    name: module
    for module in (*reversed(PUBLIC), "operad.runtime.testing")
    for name in importlib.import_module(module).__all__
    if inspect.isclass(value := getattr(importlib.import_module(module), name)) or inspect.isfunction(value)
}
"""The public classes and functions, each with a module that exports it."""


@pytest.mark.parametrize("name", DOCUMENTED)
def test_a_public_name_has_an_example_that_runs(name, tmp_path, monkeypatch):
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "refunds.md").write_text("# Refunds\n\nRefunds arrive within seven days.\n", encoding="utf-8")
    (tmp_path / "letter.txt").write_text("Hello", encoding="utf-8")
    (tmp_path / "skills" / "forms").mkdir(parents=True)
    skill = "---\nname: forms\ndescription: Fill forms.\n---\nUse block letters.\n"
    (tmp_path / "skills" / "forms" / "SKILL.md").write_text(skill, encoding="utf-8")
    expert = "experts: [{profile: {name: Greeter}, workflow: [[{instruction: Greet.}]]}]\n"
    (tmp_path / "expert.yaml").write_text(expert, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    example = example_of(inspect.getdoc(getattr(importlib.import_module(DOCUMENTED[name]), name)))
    assert re.search(rf"\b{name}\b", example, re.IGNORECASE), "the example uses the name"
    with ScriptedModel(lambda _: Plausible()) as endpoint:
        given = {"OPENAI_BASE_URL": endpoint.base_url, "OPENAI_API_KEY": "any", "OPERAD_MODEL": "any"}
        for variable, value in given.items():
            monkeypatch.setenv(variable, value)
        namespace = {"__name__": "example"}
        exec(compile(PRELUDE, "prelude", "exec"), namespace)  # noqa: S102
        code = compile(example, f"{name}.__doc__", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
        made = eval(code, namespace)  # noqa: S307
        if inspect.iscoroutine(made):
            asyncio.run(made)
