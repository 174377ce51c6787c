"""Workflows in Python named as module:name."""

import sys

import pytest

from operad import InputError
from operad.configs.python_reference import is_reference, reference_hint
from operad.configs.runnable import Source, make, opened
from operad.server.api.experts import offers_of

MODULE = """
from operad import Expert, Job, Workflow
from operad.runtime import Profile

def greet(job: Job) -> str:
    "Greet someone."
    return f"Hello {job.goal}"

flow: Workflow[str] = Workflow([greet])
number = 3
"""


@pytest.fixture
def module(tmp_path, monkeypatch):
    """Name of a module in the current folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [each for each in sys.path if each])
    name = f"module_{tmp_path.name.rpartition('-')[2].replace('-', '_')}"
    (tmp_path / f"{name}.py").write_text(MODULE)
    yield name
    sys.modules.pop(name, None)


@pytest.mark.parametrize("text", ["expert:flow", "a.b:c", "expert:", "expert.py:flow"])
def test_a_module_with_a_name_is_a_reference(text):
    assert is_reference(text)


@pytest.mark.parametrize("text", ["expert.yaml", "a b:c", "C:\\flow.yaml", "http://x/y", "a/b:c", ":flow"])
def test_other_names_are_files(text):
    assert not is_reference(text)


def test_a_file_with_such_a_name_is_a_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a:b").write_text("")
    assert not is_reference("a:b")


@pytest.mark.parametrize(("name", "description"), [("flow", ""), ("greet", "Greet someone.")])
def test_a_workflow_and_a_function_are_offered_under_their_names(module, name, description):
    [offer] = offers_of(Source(file=f"{module}:{name}"))
    assert (offer.name, offer.description) == (name, description)
    assert make(Source(file=f"{module}:{name}")).agent.execute("Ada").scratchpad == "Hello Ada"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("flw", "has no 'flw' .did you mean 'flow'.*there are: flow"),
        ("", "holds several objects; name one; there are: flow"),
        ("number", "cannot be served; expected a Workflow"),
    ],
)
def test_what_a_module_does_not_hold_is_named_with_what_it_does(module, name, said):
    with pytest.raises(InputError, match=said):
        make(Source(file=f"{module}:{name}"))


def test_a_module_that_is_missing_is_named_with_near_ones(module):
    with pytest.raises(InputError, match=f"did you mean '{module}'"):
        make(Source(file=f"{module}x:flow"))
    with pytest.raises(InputError, match=f"without .py: {module}:flow"):
        make(Source(file=f"{module}.py:flow"))


def test_a_module_that_raises_is_one_line(tmp_path, monkeypatch, module):
    (tmp_path / "broken_module.py").write_text("1 / 0")
    with pytest.raises(InputError, match=r"'broken_module' cannot be imported.*ZeroDivisionError"):
        make(Source(file="broken_module:flow"))


def test_options_of_files_are_refused(module):
    with pytest.raises(InputError, match="takes no --expert and no --services"):
        opened(Source(file=f"{module}:flow", expert="x", services="y"))


def test_a_python_file_says_how_its_workflow_is_named_without_running_it(module, tmp_path):
    (tmp_path / f"{module}.py").write_text(f"{MODULE}\nraise SystemExit('ran')")
    with pytest.raises(InputError, match=f"is a Python file; name the workflow in it: {module}:flow;"):
        make(Source(file=f"{module}.py"))
    (tmp_path / "empty.py").write_text("def broken(:")
    assert reference_hint((tmp_path / "empty.py").relative_to(tmp_path)) == "empty:NAME, with the name of its workflow"
